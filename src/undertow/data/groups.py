"""Groups by their value and the type of their column: one name for all spellings of a group.

What is typed (``"1"``, ``1.0``, ``"20250106"``) becomes the label that the column itself would
give: a text, a number, a truth value, or the ISO text of a date or time. Two spellings that select
the same rows have the same label; what no value of the column's type can be is refused.
"""

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.data.columns import Column, column_of_name, iso
from undertow.data.objects import as_float, is_missing, moment, number_label, plain, words
from undertow.data.sql import NUMBER
from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

__all__ = ["declared", "group_labels", "look_alikes", "normalised"]

Label = str | int | float
_EXACT = 2**53
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_WIDEST = 2**128
"""No column of whole numbers holds this."""
_TRUTHS = {"true": True, "false": False}
_SHOWN = 10
"""Look-alikes that are told one by one."""
_LATIN = dict(zip("авекмнорстухіјѕԁԛԝһӏοαιρντυχ", "abekmhopctyxijsdqwhloaipvtux", strict=True))
"""Small letters of other alphabets that look like Latin ones."""


def normalised(column: Column, groups: Sequence[Any]) -> tuple[Label, ...]:
    """Return the labels of groups as they were typed, in order; each group once.

    >>> normalised(Column("ward", "number", whole=True), ["1", 2.0])
    (1, 2)
    """
    labels = [_KINDS[column.kind](column, plain(name)) for name in groups]
    seen: dict[Label, int] = {}
    for place, label in enumerate(labels):
        first = seen.setdefault(label, place)
        if first != place:
            raise _twice(groups[first], groups[place])
    for place, label in enumerate(labels if column.kind == "csv" else ()):
        first = seen.get(_value(label), place)  # the field '1' is the number 1 as well
        if first != place:
            raise _twice(groups[first], groups[place])
    return tuple(labels)


def declared(column: Column, labels: Sequence[Label]) -> "pl.Expr":
    """Return the place of a row's group among those declared, null for none of them."""
    import polars as pl

    places = list(enumerate(labels))
    if column.kind == "nothing":
        return pl.lit(None, dtype=pl.Int32)
    if column.kind == "csv":
        value, number = column_of_name(column.name), column.planes(missing=())[NUMBER]
        texts = [(p, label) for p, label in places if isinstance(label, str)]
        truths = [(p, str(label).lower()) for p, label in places if isinstance(label, bool)]
        numbers = [(p, float(label)) for p, label in places if not isinstance(label, str | bool)]
        return pl.coalesce(
            pl.lit(None, dtype=pl.Int32),
            _looked_up(value, texts, pl.String),
            _looked_up(number, numbers, pl.Float64),
            _looked_up(value.str.to_lowercase(), truths, pl.String),
        )
    if column.kind == "objects":
        order = {label: place for place, label in enumerate(column.groups)}
        held = [(p, order[label]) for p, label in places if label in order]
        return _looked_up(column.group(), held, pl.Int64)
    if column.kind == "time":
        held = [(p, moments[0]) for p, label in places if (moments := moment(label)) is not None]
        return _looked_up(column.group(), held, pl.Int64)
    if column.kind == "truth":
        held = [(p, int(label)) for p, label in places]
        return _looked_up(column.group().cast(pl.Int64), held, pl.Int64)
    if column.kind == "number" and not column.whole:
        rounded = _rounded(column)
        return _looked_up(column.group(), [(p, rounded(label)) for p, label in places], pl.Float64)
    return _looked_up(
        column.group().cast(pl.String), [(p, str(label)) for p, label in places], pl.String
    )


def group_labels(values: Sequence[Any], name: str) -> tuple[list[int | None], tuple[Label, ...]]:
    """Return each Python object as its place among the groups, and the labels of these.

    Values that have one label are one group. Truth values among numbers are 0 and 1.

    >>> group_labels(["b", dt.date(2025, 1, 6), None, "2025-01-06"], "day")
    ([0, 1, None, 1], ('b', '2025-01-06'))
    """
    labels: list[Label | None] = []
    for row, given in enumerate(values):
        value = plain(given)
        label = None if is_missing(value) else label_of(value)
        if label is None and not is_missing(value):
            raise InvalidInput(
                f"row {row} of column {name!r} (counting from 0) has a group that is a "
                f"{type(value).__name__}; groups are texts, numbers, truth values or dates"
            )
        labels.append(label)
    kinds = {type(label) for label in labels}
    if bool in kinds and kinds & {int, float}:
        labels = [int(label) if isinstance(label, bool) else label for label in labels]
    places: dict[Label, int] = {}
    found = [None if label is None else places.setdefault(label, len(places)) for label in labels]
    return found, tuple(places)


def label_of(value: Any) -> Label | None:
    """Return the label of a group that is a Python object, None if it can be no group.

    >>> label_of(2.0), label_of(dt.date(2025, 1, 6)), label_of(Decimal("0.50"))
    (2, '2025-01-06', 0.5)
    """
    if isinstance(value, str):
        return words(value)
    if isinstance(value, dt.datetime):
        found = moment(value)
        return None if found is None else iso(found[0], day=False, zoned=found[1])
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bool | int | float | Decimal | Fraction):
        return None if value != value else number_label(value)
    return None


def look_alikes(names: Iterable[Any]) -> list[str]:
    """Return a sentence for each set of names that are hard to tell apart.

    They differ in case, blanks, width or invisible characters only, or in letters of another
    alphabet that look the same.

    >>> look_alikes(["A", "a", "b"])
    ["'A' and 'a' look alike: one name misspelt, or two?"]
    """
    alike: dict[str, dict[str, None]] = {}
    for name in names:
        text = str(name)
        alike.setdefault(_skeleton(text), {}).setdefault(text)
    found = [list(group) for group in alike.values() if len(group) > 1]
    said = [
        f"{', '.join(map(ascii, group[:-1][:_SHOWN]))} and {group[-1]!a} look alike: one name "
        "misspelt, or two?"
        for group in found[:_SHOWN]
    ]
    more = len(found) - _SHOWN
    return said if more <= 0 else [*said, f"{more} more sets of names look alike"]


def _skeleton(text: str) -> str:
    """Return what is left of a text without case, blanks, width and what cannot be seen."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    seen = (letter for letter in folded if unicodedata.category(letter) not in ("Cf", "Cc", "Mn"))
    return "".join("".join(_LATIN.get(letter, letter) for letter in seen).split())


# --- from what was typed to the column's own label


def _of_text(column: Column, name: Any) -> Label:
    if isinstance(name, dt.date):
        return name.isoformat()
    if not isinstance(name, str):
        raise _impossible(column, name, "texts; a text is not a number, not even '1'")
    return words(name)


def _of_csv(column: Column, name: Any) -> Label:
    if isinstance(name, str | dt.date):
        if name == "":
            raise _impossible(column, name, "names; an empty field is in no group")
        return _of_text(column, name)
    label = label_of(name)
    if label is None or isinstance(label, str):
        raise _impossible(column, name, "fields of a CSV file; write it as a text")
    if abs(label) >= _EXACT:
        raise InvalidInput(
            f"the number {name} cannot be told from its neighbours; groups that are numbers lie "
            "below 2**53, write it as a text"
        )
    return label


def _of_whole(column: Column, name: Any) -> Label:
    """Return a whole number: exactly as written, or as the float that was written."""
    exact: Any = name
    if isinstance(name, str):
        exact = int(name) if _WHOLE.fullmatch(name.strip()) else _float(name)
    number = isinstance(exact, int | float | Decimal | Fraction)
    if not number or not _is_whole(exact) or abs(exact) >= _WIDEST:
        raise _impossible(column, name, "whole numbers")
    return int(exact)


def _of_number(column: Column, name: Any) -> Label:
    if column.whole:
        return _of_whole(column, name)
    number = _float(name)
    if number is None:
        raise _impossible(column, name, "numbers")
    return column.label(_rounded(column)(number))


def _of_truth(column: Column, name: Any) -> Label:
    text = name.strip().lower() if isinstance(name, str) else ""
    found = _TRUTHS.get(text, _float(name))
    if found not in (0, 1):
        raise _impossible(column, name, "the truth values true and false")
    return bool(found)


def _of_time(column: Column, name: Any) -> Label:
    found = moment(name)
    if found is None:
        raise _impossible(column, name, "dates or times; write an ISO text such as 2025-01-06")
    instant, zoned = found
    if zoned != bool(column.zoned):
        held = "times with a zone" if column.zoned else "dates or times without a zone"
        raise _impossible(column, name, f"{held}; write it in the same way")
    label = iso(instant, day=column.day, zoned=zoned)
    if column.day and instant % 86_400_000_000:
        raise _impossible(column, name, "dates without a time of day")
    return label


def _of_objects(column: Column, name: Any) -> Label:
    label = label_of(name)
    if label is None:
        raise _impossible(column, name, "texts, numbers, truth values or dates")
    own = {group: group for group in column.groups}
    return own.get(label, label)


def _of_other(column: Column, name: Any) -> Label:
    column.key()  # says why it names no groups
    return _of_objects(column, name)


_KINDS: dict[str, Callable[[Column, Any], Label]] = {
    "text": _of_text,
    "csv": _of_csv,
    "number": _of_number,
    "truth": _of_truth,
    "time": _of_time,
    "objects": _of_objects,
    "nothing": _of_objects,
    "other": _of_other,
}


def _value(label: Label) -> Label:
    """Return the number or the truth value that a field of a CSV file can be read as."""
    if not isinstance(label, str):
        return label
    number = _TRUTHS.get(label.lower(), _float(label))
    return label if number is None else number


def _looked_up(value: "pl.Expr", pairs: Sequence[tuple[int, Any]], kind: Any) -> "pl.Expr":
    """Return the place of the equal label, null for none: one look-up whatever their number."""
    import polars as pl

    if not pairs:
        return pl.lit(None, dtype=pl.Int32)
    places, labels = zip(*pairs, strict=True)
    old, new = pl.Series(labels, dtype=kind), pl.Series(places, dtype=pl.Int32)
    return value.replace_strict(old, new, default=None, return_dtype=pl.Int32)


def _rounded(column: Column) -> Callable[[Any], float]:
    """Return how a number is held in a column of floats."""
    if column.given == "Float32":
        return lambda number: float(np.float32(number)) + 0.0
    return lambda number: float(number) + 0.0


def _float(name: Any) -> float | None:
    """Return a number as a float, whether or not it was written as a text; None if it is none."""
    return as_float(name) if isinstance(name, str | int | float | Decimal | Fraction) else None


def _is_whole(number: Any) -> bool:
    try:
        return bool(int(number) == number)
    except (ValueError, OverflowError):  # NaN, infinity
        return False


def _impossible(column: Column, name: Any, held: str) -> InvalidInput:
    shown = name.isoformat() if isinstance(name, dt.date) else name
    return InvalidInput(f"{shown!r} is no group of column {column.name!r}, which holds {held}")


def _twice(one: Any, other: Any) -> InvalidInput:
    if one == other and type(one) is type(other):
        return InvalidInput(f"the group {one!r} is named twice; name each group once")
    return InvalidInput(f"{one!r} and {other!r} are the same group; name each group once")
