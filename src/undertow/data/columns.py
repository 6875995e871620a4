"""Columns and what their values can be read as: the type decides, never a value."""

import datetime as dt
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.data.objects import LARGEST, moment, number_label
from undertow.data.sql import NUMBER, TEXT, TRUTH, Planes, no_value
from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

__all__ = ["MISSING", "Column", "column_of_name", "iso", "kind_of", "kind_of_type", "part_of"]

MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""Fields of a CSV file that hold no value."""

_DAY = 86_400_000_000
_KINDS = {
    **dict.fromkeys(("String", "Categorical", "Enum"), "text"),
    **dict.fromkeys(("Date", "Datetime"), "time"),
    "Boolean": "truth",
    "Null": "nothing",
}
"""What the values of types are that are no numbers."""
_FORMS = ("%Y-%m-%d", "%Y-%m-%d{}%H:%M", "%Y-%m-%d{}%H:%M:%S%.f", "%Y-%m-%d{}%H:%M:%S%.f%#z")
"""How a text may write a time; the first row of a column decides for all."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, its kind, and where its values are.

    Kinds: *number*, *text*, *truth* and *time* are what the type says; *csv* holds fields of a CSV
    file and *objects* Python objects, whose values are read as what they are used for; *nothing*
    has no values at all; *other* (lists, durations, bytes) can be neither states nor numbers.
    ``types`` is what the values of a list are.

    >>> Column("steps", "csv").type
    'text of a CSV file'
    """

    name: str
    kind: str
    given: str = ""
    whole: bool = False
    day: bool = False
    clock: bool | None = None
    zoned: bool | None = None
    labels: tuple[Hashable, ...] = ()
    groups: tuple[str | int | float, ...] = ()
    types: frozenset[str] = frozenset()

    @property
    def kinds(self) -> frozenset[str]:
        """The public types of its values: the declared one, or those that occur in a list."""
        declared = {"number": NUMBER, "text": TEXT, "truth": TRUTH}.get(self.kind)
        return self.types if declared is None else frozenset({declared})

    @property
    def type(self) -> str:
        """The type in words."""
        return {"csv": "text of a CSV file", "objects": "Python objects"}.get(self.kind, self.given)

    def part(self, part: str) -> "pl.Expr":
        """Return one of the columns that hold what became of Python objects."""
        import polars as pl

        return pl.col(part_of(self.name, part))

    def planes(self, missing: tuple[str, ...] = MISSING) -> Planes:
        """Return what the values can be read as, each an expression that no value makes fail."""
        import polars as pl

        value = column_of_name(self.name)
        if self.kind == "number":
            return {NUMBER: value.cast(pl.Float64).fill_nan(None)}
        if self.kind == "text":
            return {TEXT: value.cast(pl.String)}
        if self.kind == "truth":
            return {TRUTH: value}
        if self.kind == "csv":
            text = pl.when(~value.is_in(missing)).then(value) if missing else value
            number = value.str.strip_chars().cast(pl.Float64, strict=False).fill_nan(None)
            return {NUMBER: number, TEXT: text, TRUTH: _truth(number, value.str.to_lowercase())}
        if self.kind == "objects":
            number = self.part("number")
            return {NUMBER: number, TEXT: self.part("text"), TRUTH: _truth(number, None)}
        if self.kind == "nothing":
            return no_value()
        raise InvalidInput(
            f"column {self.name!r} holds values of type {self.type}; records are texts, numbers or "
            "truth values: make another column of it first"
        )

    def there(self) -> "pl.Expr":
        """Return whether there is a value: neither null nor NaN, nor NA in a CSV file."""
        import polars as pl

        if self.kind == "objects":
            return self.part("there")
        if self.kind == "nothing":
            return pl.lit(False)
        planes = self.planes()
        return (planes[TEXT] if TEXT in planes else next(iter(planes.values()))).is_not_null()

    def key(self) -> "pl.Expr":
        """Return values that are equal where persons or groups are, null where there is none."""
        import polars as pl

        value = column_of_name(self.name)
        if self.kind == "objects":
            return self.part("key")
        if self.kind == "csv":
            return pl.when(value != "").then(value)
        if self.kind == "number":
            return value if self.whole else value.cast(pl.Float64).fill_nan(None) + 0.0
        if self.kind == "time":
            return self._instant()
        if self.kind == "other":
            raise InvalidInput(
                f"column {self.name!r} holds values of type {self.type}, which name neither "
                "persons nor groups; use texts, numbers or dates"
            )
        return self.planes()[TEXT] if self.kind == "text" else value

    def persons(self, keys: Sequence[Any]) -> list[Any]:
        """Return the persons with these keys as any table would hold them."""
        if self.kind != "objects":
            return list(keys)
        named = [self.labels[key] for key in keys]
        found = [moment(name) if isinstance(name, dt.date) else None for name in named]
        return [name if when is None else when[0] for name, when in zip(named, found, strict=True)]

    def group(self) -> "pl.Expr":
        """Return values that are equal where groups are, null where there is none."""
        return self.part("group") if self.kind == "objects" else self.key()

    def label(self, key: Any) -> str | int | float:
        """Return the name of the group with this key: a text, a number or a truth value."""
        if self.kind == "objects":
            return self.groups[int(key)]
        if self.kind == "time":
            return iso(key, day=self.day, zoned=bool(self.zoned))
        if self.kind in ("csv", "text"):
            return str(key)
        if self.given == "Float32":  # the shortest number that this type tells from others
            return number_label(float(str(np.float32(key))))
        return number_label(key)

    def time(self, first: str | None) -> tuple["pl.Expr", bool | None, bool | None]:
        """Return the times as whole numbers, null where there is none; if on a clock, if zoned.

        Clock times are microseconds since 1970, in UTC where they have a zone. ``first`` is the
        first text of the column; it decides how all are read. None instead of a truth value says
        that there are no times.
        """
        import polars as pl

        value = column_of_name(self.name)
        if self.kind == "objects":
            return _bounded(self.part("time")), self.clock, self.zoned
        if self.kind == "time":
            return _bounded(self._instant()), True, self.zoned
        if self.kind == "number":
            number = value if self.whole else pl.when(value == value.floor()).then(value)
            return _bounded(number.cast(pl.Int64, strict=False)), False, None
        if self.kind in ("csv", "text"):
            text = value.cast(pl.String).str.strip_chars()
            if _reads_whole(first):
                return _bounded(text.cast(pl.Int64, strict=False)), False, None
            form = _form(first)
            read = text.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False)
            known = (None, None) if first is None else (True, form.endswith("z"))
            return _bounded(read.dt.epoch("us")), *known
        raise InvalidInput(
            f"column {self.name!r} holds values of type {self.type}; times are dates, times, ISO "
            "texts or whole numbers"
        )

    def _instant(self) -> "pl.Expr":
        import polars as pl

        value = column_of_name(self.name)
        return value.cast(pl.Int64) * _DAY if self.day else value.dt.epoch("us")


def column_of_name(name: str) -> "pl.Expr":
    """Return the column of just this name: to Polars, some names stand for several columns.

    >>> import polars as pl
    >>> pl.DataFrame({"*": [1], "x": [2]}).select(column_of_name("*")).columns
    ['*']
    """
    import polars as pl
    import polars.selectors as cs

    pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
    return cs.by_name(name).as_expr() if pattern else pl.col(name)


def part_of(name: str, part: str) -> str:
    """Return the name of an internal column made of another; no file can have it.

    Names of columns have no null character, internal ones begin with it. Those that contain the
    name of a column have a second one, so that they differ from all that do not.
    """
    return f"\0{part}\0{name}"


def iso(instant: int, *, day: bool, zoned: bool = False) -> str:
    """Return microseconds since 1970 as the text of a time, in UTC if it has a zone, or of its day.

    >>> iso(0, day=True), iso(300_000_000, day=False), iso(0, day=False, zoned=True)
    ('1970-01-01', '1970-01-01T00:05:00', '1970-01-01T00:00:00+00:00')
    """
    zone = dt.UTC if zoned else None
    try:
        when = dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=instant)
    except OverflowError:  # beyond the year 9999
        return f"{instant} microseconds"
    return (when.date() if day else when).isoformat()


def kind_of(name: str, dtype: Any) -> Column:
    """Return a column of a Polars type.

    >>> import polars as pl
    >>> kind_of("x", pl.Int16()).kind, kind_of("x", pl.List(pl.Int8)).kind
    ('number', 'other')
    """
    zoned = getattr(dtype, "time_zone", None) is not None
    day, whole = type(dtype).__name__ == "Date", dtype.is_integer()
    return Column(name, kind_of_type(dtype), str(dtype), whole=whole, day=day, zoned=zoned)


def kind_of_type(dtype: Any) -> str:
    """Return the kind of a type of Polars or of Narwhals, which call their types alike.

    >>> import polars as pl
    >>> kind_of_type(pl.Boolean()), kind_of_type(pl.Binary())
    ('truth', 'other')
    """
    return "number" if dtype.is_numeric() else _KINDS.get(type(dtype).__name__, "other")


def _truth(number: "pl.Expr", text: "pl.Expr | None") -> "pl.Expr":
    """Return True for 1 and true, False for 0 and false, missing for anything else."""
    import polars as pl

    yes, no = number == 1, number == 0
    if text is not None:
        yes, no = yes.fill_null(False) | (text == "true"), no.fill_null(False) | (text == "false")
    return pl.when(yes).then(True).when(no).then(False)


def _bounded(time: "pl.Expr") -> "pl.Expr":
    import polars as pl

    return pl.when((time > -LARGEST) & (time < LARGEST)).then(time)


def _reads_whole(first: str | None) -> bool:
    digits = (first or "").strip().removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit()


def _form(first: str | None) -> str:
    """Return the form in which the first of the times is written."""
    text = (first or "").strip()
    zoned = text[-1:] in ("Z", "z") or "+" in text[19:] or "-" in text[19:]
    long = _FORMS[3 if zoned else 2]
    form = _FORMS[0] if len(text) <= 10 else {16: _FORMS[1]}.get(len(text), long)
    return form.format("T" if text[10:11] == "T" else " ")
