"""The shape of the data: persons, times on a grid, gaps; all of it public, all of it checked.

Times are whole numbers here: microseconds since 1970 in UTC, or the numbers of the column itself.
"""

import datetime as dt
import hashlib
import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.data.columns import (
    Column,
    as_float,
    column_of_name,
    is_missing,
    iso,
    moment,
    number_label,
    plain,
    whole,
    words,
)
from undertow.data.expressions import NUMBER
from undertow.errors import InvalidInput
from undertow.models.records import duration, microseconds

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "ABSENT",
    "EARLIEST",
    "FIRST",
    "GROUP",
    "PERSON",
    "PERSON_BYTES",
    "ROW",
    "THERE",
    "TIME",
    "WRONG",
    "Grid",
    "Order",
    "Shape",
    "declared",
    "group_labels",
    "look_alikes",
    "normalised",
    "step_of",
    "step_words",
]


ROW, PERSON, TIME, GROUP, ABSENT = "\0row", "\0person", "\0time", "\0group", "\0absent"
"""Columns of the frame of rows: the row's number, who, when, in which group, and how many steps
are absent after it."""
FIRST, THERE = "\0first", "\0there"
"""Columns of rows in order: the first row of the same person, and whether there is a record."""

WRONG = ("nobody", "untimed", "twice", "off")
"""Kinds of errors of a row, in the order in which they are reported."""

_TOTAL, _ROWS, _LENGTH, _NAMED, _NONE = "\0total", "\0rows", "\0length", "\0named", "\0none"
_LEAST, _GREATEST, _UNTIMED, _TIMES = "\0least", "\0greatest", "\0untimed", "\0times"
EARLIEST = "\0earliest"
"""Of what is known of a person's rows: the first time in the window."""
_FIRST, _LAST, _START, _END = EARLIEST, "\0last", "\0start", "\0end"
_BEGIN, _FINISH, _LOW, _HIGH = "\0begin", "\0finish", "\0low", "\0high"
_RUN, _FRESH = "\0run", "\0fresh"

_MERGED = {
    "sum": (_TOTAL, _ROWS, _LENGTH, _NAMED, _NONE, _UNTIMED, _TIMES),
    "min": (_LEAST, _FIRST, _START, _BEGIN, _LOW),
    "max": (_GREATEST, _LAST, _END, _FINISH, _HIGH),
}
"""Rules that join the summaries of two parts of a person's rows."""
_TOLD = {
    "sum": ("rows", "persons", "all_rows", "all_persons"),
    "max": ("longest", "series", "end", "windowed", "split", "gaps", *WRONG,
            "all_longest", "all_end"),
    "min": ("shortest", "start", "all_start"),
}  # fmt: skip
"""Rules that join the facts about disjoint sets of persons."""

_JOINED: dict[str, Callable[[list[Any]], Any]] = {"sum": sum, "min": min, "max": max}


def step_of(every: Any, *, clock: bool) -> int:
    """Return a time step as a whole number: microseconds for clock times, else the number itself.

    A day is 24 hours; there are no months, which differ in length.

    >>> step_of("5m", clock=True), step_of(1, clock=False)
    (300000000, 1)
    """
    if clock:
        if isinstance(every, dt.timedelta):
            step = every // dt.timedelta(microseconds=1)
        else:
            step = (microseconds(every) or 0) if isinstance(every, str) else 0
        wanted = "a duration such as '30s', '5m', '1h' or '1d', because the times are clock times"
    else:
        step = whole(plain(every)) or 0
        wanted = "a positive whole number, because the times are whole numbers"
    if not 0 < step < 2**61:
        raise InvalidInput(f"every must be {wanted}; found {every!r}")
    return step


def step_words(step: int, *, clock: bool) -> int | str:
    """Return a time step as it is written: in the largest unit that fits, or as a number.

    >>> step_words(300_000_000, clock=True), step_words(3, clock=False)
    ('5m', 3)
    """
    return duration(step) if clock else step


@dataclass(frozen=True, slots=True)
class Shape:
    """The public facts about a data set.

    ``rows``, ``persons`` and ``longest`` speak of the records in the window, whatever their
    group, absent steps that became records among them; ``longest`` is the most of one person.
    ``gaps`` says whether some step is absent; ``start`` and ``end`` are the first and the last
    time, as ISO texts or whole numbers.

    The others speak of persons with a released record: one in the window and in a group that is
    answered for. ``series`` counts the steps of the longest whole series (all times and groups,
    absent steps counted where the step of time is known), ``shortest`` the fewest released
    records of a person. ``windowed`` says that someone has records outside the window, ``split``
    that someone's records in the window are not all in one group: in several, or some in none.
    """

    rows: int
    persons: int
    longest: int
    gaps: bool
    start: int | str | None = None
    end: int | str | None = None
    groups: tuple[Any, ...] | None = None
    series: int = field(kw_only=True)
    shortest: int = field(kw_only=True)
    windowed: bool = field(kw_only=True)
    split: bool = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class Grid:
    """Which rows belong to whom and when: names of columns, the time step, and a window of time.

    ``clock`` and ``zoned`` say how times are written: as clock times, and with a zone (None: there
    are no times). ``fill`` says that absent steps are records too; ``start`` and ``end`` bound the
    window.
    """

    person: str | None
    time: str | None
    clock: bool = False
    zoned: bool | None = None
    step: int | None = None
    fill: bool = False
    start: int | None = None
    end: int | None = None

    def bound(self, given: Any, name: str) -> int | None:
        """Return the end of a window as a whole number."""
        if given is None:
            return None
        read = moment(plain(given)) if self.clock else (whole(plain(given)), None)
        instant, zoned = (None, None) if read is None else read
        if instant is None or abs(instant) >= 2**62:
            kind = "a date, a time or an ISO text" if self.clock else "a whole number"
            raise InvalidInput(
                f"{name} of the window must be {kind}, like column {self.time!r}; found {given!r}"
            )
        if self.zoned is not None and zoned != self.zoned:
            held, other = ("a zone", "none") if self.zoned else ("no zone", "one")
            write = "2025-01-06T00:00+00:00" if self.zoned else "2025-01-06T00:00"
            raise InvalidInput(
                f"the times of column {self.time!r} have {held}, and {name} of the window has "
                f"{other}: which moment is meant cannot be known; write it like {write}, found "
                f"{given!r}"
            )
        return instant

    def inside(self) -> "pl.Expr":
        """Return whether a row with a time is in the window."""
        import polars as pl

        inside = pl.col(TIME).is_not_null()
        if self.start is not None:
            inside = inside & (pl.col(TIME) >= self.start)
        if self.end is not None:
            inside = inside & (pl.col(TIME) < self.end)
        return inside

    def windowed(self, frame: "pl.LazyFrame") -> "pl.LazyFrame":
        """Return the rows in the window, and those without a time, which are refused later."""
        import polars as pl

        if self.start is None and self.end is None:
            return frame
        return frame.filter(self.inside() | pl.col(TIME).is_null())

    def absences(self, frame: "pl.LazyFrame", *, ordered: bool = False) -> "pl.LazyFrame":
        """Return all rows in order, with the number of absent steps of the window after each.

        A gap between the times a < b of a person has (b - a) / step - 1 absent steps, a + step,
        a + 2 step, ...; they belong to the group of the row before them. ``ordered`` says that the
        rows are in order already.
        """
        import polars as pl

        if self.step is None:
            return frame.with_columns(pl.lit(0).alias(ABSENT))
        time, step = pl.col(TIME), self.step
        same = pl.col(PERSON) == pl.col(PERSON).shift(-1)  # null after the last row of all
        count = ((time.shift(-1) - time) // step - 1).clip(lower_bound=0)
        rows = frame if ordered else frame.sort(PERSON, TIME)
        rows = rows.with_columns(pl.when(same).then(count).fill_null(0).alias(ABSENT))
        absent = pl.col(ABSENT)
        # of the steps that are absent after a row, those from the start on and before the end
        first = 0 if self.start is None else _steps_before(time, self.start, step, absent)
        last = absent if self.end is None else _steps_before(time, self.end, step, absent)
        return rows.with_columns((last - first).alias(ABSENT))

    def held(self, rows: "pl.LazyFrame") -> "pl.LazyFrame":
        """Return the rows with records in the window, absent steps counted where they are some."""
        import polars as pl

        if not self.fill:
            return self.windowed(rows)
        return rows.filter(self.inside() | (pl.col(ABSENT) > 0))

    def facts(self, frame: "pl.LazyFrame") -> "pl.LazyFrame":
        """Return a query for the facts: one row, read by `shape_in`.

        One pass over persons and times: rows and different times per person, first and last time,
        the remainders of times by the step, which agree on a grid, and the least and the greatest
        group, which agree where there is one. What is outside the window counts for the whole
        series only.
        """
        return self.summed(self.by_person(self.absences(frame) if self.fill else frame))

    def by_person(self, rows: "pl.LazyFrame", *, ordered: bool = False) -> "pl.LazyFrame":
        """Return what is known of each person's rows: numbers, least and greatest values.

        Where absent steps are records, ``rows`` have them counted. With ``ordered`` the rows of a
        person follow each other, and persons come in the order of their rows. What is known of two
        parts of a person's rows is `joined`.
        """
        import polars as pl

        time, group = pl.col(TIME), pl.col(GROUP)
        narrow = not (self.fill or (self.start is None and self.end is None))
        here = self.inside() | time.is_null() if narrow else pl.lit(True)
        there = here  # rows with records in the window: themselves, or the absent steps after them
        length, total = pl.len().cast(pl.Int64), pl.len().cast(pl.Int64)
        named = group.is_not_null().cast(pl.Int64).sum()
        if narrow:
            length = here.cast(pl.Int64).sum()
            named = (here & group.is_not_null()).cast(pl.Int64).sum()
        checked = total if self.fill else length
        if self.fill:
            there = self.inside() | (pl.col(ABSENT) > 0)
            records = self.inside().cast(pl.Int64) + pl.col(ABSENT)
            length, named = records.sum(), records.filter(group.is_not_null()).sum()
        narrowed = narrow or self.fill
        groups = group.filter(there) if narrowed else group
        parts = [
            total.alias(_TOTAL),
            checked.alias(_ROWS),
            length.alias(_LENGTH),
            named.alias(_NAMED),
            groups.min().alias(_LEAST),
            groups.max().alias(_GREATEST),
            groups.null_count().cast(pl.Int64).alias(_NONE),
        ]
        if self.time is not None:
            inside = time.filter(self.inside()) if narrowed else time
            held = time.filter(here) if narrow else time
            different = held.n_unique().cast(pl.Int64)
            if ordered:  # equal times follow each other
                different = (pl.col(_FRESH) & here if narrow else pl.col(_FRESH)).sum()
            parts += [
                held.null_count().cast(pl.Int64).alias(_UNTIMED),
                different.cast(pl.Int64).alias(_TIMES),
                held.min().alias(_FIRST),
                held.max().alias(_LAST),
                inside.min().alias(_START),
                inside.max().alias(_END),
                time.min().alias(_BEGIN),
                time.max().alias(_FINISH),
            ]
            if self.step is not None:
                # not negative, whichever sign the remainder of a time before 1970 has
                rest = (held % self.step + self.step) % self.step
                parts += [rest.min().alias(_LOW), rest.max().alias(_HIGH)]
        if not ordered:
            return rows.group_by(PERSON).agg(parts)
        person = pl.col(PERSON)
        new = person.ne_missing(person.shift(1))
        # numbers that never fall: groups are slices of rows then, and nothing is hashed
        columns = [new.cum_sum().set_sorted().alias(_RUN)]
        if self.time is not None:
            columns.append((new | time.ne_missing(time.shift(1))).alias(_FRESH))
        grouped = rows.with_columns(columns).group_by(_RUN, maintain_order=True)
        return grouped.agg(person.first(), *parts).drop(_RUN)

    def merged(self, parts: "pl.DataFrame") -> "pl.DataFrame":
        """Return what is known of persons whose rows come in parts, in the order of the parts.

        Times that several parts have are counted in each.
        """
        import polars as pl

        columns = [
            getattr(pl.col(name), how)()
            for how, names in _MERGED.items()
            for name in names
            if name in parts.columns
        ]
        return parts.group_by(PERSON, maintain_order=True).agg(columns).select(parts.columns)

    def overlap(self, parts: "pl.DataFrame", before: "pl.DataFrame | None") -> bool:
        """Return whether parts of a person may have a time in common: they overlap.

        Each person's parts are in order of their first times; ``before`` is the part before all.
        """
        import polars as pl

        if self.time is None:
            return False
        rows = parts if before is None else pl.concat([before, parts])
        rows = rows.select(PERSON, _FIRST, _LAST).drop_nulls()
        same = rows[PERSON] == rows[PERSON].shift(1)
        # where any two of a person overlap, two neighbours in this order do
        return bool((same & (rows[_FIRST] <= rows[_LAST].shift(1))).any())

    def joined(self, before: "pl.DataFrame", after: "pl.DataFrame") -> "pl.DataFrame":
        """Return what is known of a person whose rows come in two parts, in order of time."""
        import polars as pl

        summary = self.merged(pl.concat([before, after]))
        if self.time is None:
            return summary
        # each part has counted the time that both have
        twice = (before[_LAST] == after[_FIRST]).fill_null(False).cast(pl.Int64)
        return summary.with_columns(pl.col(_TIMES) - twice)

    def summed(self, persons: "pl.LazyFrame") -> "pl.LazyFrame":
        """Return the facts about all persons in one row; those that begin with *all* are about
        all times and groups, whatever the window.
        """
        import polars as pl

        length, total, rows = pl.col(_LENGTH), pl.col(_TOTAL), pl.col(_ROWS)
        released = pl.col(_NAMED) > 0
        split = (pl.col(_LEAST) != pl.col(_GREATEST)) | (pl.col(_NONE) > 0)
        whole, records = total, total  # steps and records of a person at all times
        if self.step is not None:
            reach = (pl.col(_FINISH) - pl.col(_BEGIN)) // self.step + 1
            whole = pl.max_horizontal(reach, total)
            records = whole if self.fill else total
        facts = [
            length.sum().alias("rows"),
            (length > 0).sum().cast(pl.Int64).alias("persons"),
            length.max().fill_null(0).alias("longest"),
            whole.filter(released).max().fill_null(0).alias("series"),
            pl.col(_NAMED).filter(released).min().fill_null(0).alias("shortest"),
            (records > length).filter(released).any().alias("windowed"),
            split.filter(released).any().alias("split"),
            (pl.col(PERSON).is_null() & (rows > 0)).any().alias("nobody"),
            total.sum().alias("all_rows"),
            pl.len().cast(pl.Int64).alias("all_persons"),
            total.max().fill_null(0).alias("all_longest"),
        ]
        if self.time is not None:
            # times that differ, on a grid, are all there if there are as many as steps
            steps = (pl.col(_LAST) - pl.col(_FIRST)) // (self.step or 1) + 1
            facts += [
                (pl.col(_UNTIMED) > 0).any().alias("untimed"),
                (pl.col(_TIMES) != rows).any().alias("twice"),
                pl.col(_START).min().alias("start"),
                pl.col(_END).max().alias("end"),
                (steps != rows).any().alias("gaps"),
                pl.col(_BEGIN).min().alias("all_start"),
                pl.col(_FINISH).max().alias("all_end"),
            ]
        if self.step is not None:
            facts.append((pl.col(_LOW) != pl.col(_HIGH)).any().alias("off"))
        return persons.select(facts)

    @staticmethod
    def together(one: "dict[str, Any]", other: "dict[str, Any]") -> "dict[str, Any]":
        """Return the facts about some persons and others, each as a row of `summed`."""
        summary: dict[str, Any] = {}
        for how, names in _TOLD.items():
            for name in (name for name in names if name in one or name in other):
                held = [fact[name] for fact in (one, other) if fact.get(name) is not None]
                if name == "shortest":  # 0 says that nobody has a released record
                    held = [n for n in held if n] or [0]
                summary[name] = _JOINED[how](held) if held else None
        return summary

    def shape_in(self, fact: "dict[str, Any]") -> tuple[Shape, str | None]:
        """Return the facts of one row, but for groups, and what is wrong with the rows."""
        names = ("rows", "persons", "longest", "series", "shortest", "windowed", "split")
        shape = Shape(
            **{name: fact[name] for name in names},
            gaps=bool(self.step is not None and not self.fill and fact["gaps"]),
            start=fact.get("start"),
            end=fact.get("end"),
        )
        return shape, next((kind for kind in WRONG if fact.get(kind)), None)

    def culprits(self, frame: "pl.LazyFrame", wrong: str) -> "pl.LazyFrame":
        """Return the rows with which something is wrong, in order; ``frame`` has them numbered."""
        import polars as pl

        rows = frame if self.fill else self.windowed(frame)
        time = pl.col(TIME)
        if wrong == "nobody":
            return rows.filter(pl.col(PERSON).is_null())
        if wrong == "untimed":
            return rows.filter(time.is_null())
        if wrong == "twice":
            first = pl.col(ROW).min().over(PERSON, TIME)
            return rows.filter(time.is_not_null()).filter(pl.col(ROW) > first).sort(ROW)
        step = self.step or 1
        off = (time - time.min().over(PERSON)) % step != 0
        return rows.filter(off).sort(ROW)

    def complaint(self, wrong: str) -> tuple[str | None, str]:
        """Return the column at fault and what is wrong with a row of it."""
        return {
            "nobody": (self.person, "has no person"),
            "untimed": (
                self.time,
                "is not a time of the same form as the first"
                + ("" if self.zoned is None else f", {'with' if self.zoned else 'without'} a zone")
                if self.clock
                else "is not a whole number",
            ),
            "twice": (self.time, "has the person and the time of another row"),
            "off": (self.time, "is off the grid: not a whole number of steps after the first"),
        }[wrong]


def _steps_before(time: "pl.Expr", border: int, step: int, absent: "pl.Expr") -> "pl.Expr":
    """Return how many of the absent steps after a row lie before a border."""
    return ((border - 1 - time) // step).clip(lower_bound=0, upper_bound=absent)


Label = str | int | float
_EXACT = 2**53
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_WIDEST = 2**128
"""No column of whole numbers holds this."""
_TRUTHS = {"true": True, "false": False}
_SHOWN = 10
"""Look-alikes that are listed one by one."""
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
    keys = [None if label is None else places.setdefault(label, len(places)) for label in labels]
    return keys, tuple(places)


def label_of(value: Any) -> Label | None:
    """Return the label of a group that is a Python object, None if it can be no group.

    >>> label_of(2.0), label_of(dt.date(2025, 1, 6)), label_of(Decimal("0.50"))
    (2, '2025-01-06', 0.5)
    """
    if isinstance(value, str):
        return words(value)
    if isinstance(value, dt.datetime):
        instant = moment(value)
        return None if instant is None else iso(instant[0], day=False, zoned=instant[1])
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bool | int | float | Decimal | Fraction):
        return None if value != value else number_label(value)
    return None


def look_alikes(names: Iterable[Any]) -> list[str]:
    """Return a sentence for each set of look-alike names.

    They differ in case, blanks, width or invisible characters only, or in letters of another
    alphabet that look the same.

    >>> look_alikes(["A", "a", "b"])
    ["'A' and 'a' look alike: one name misspelt, or two?"]
    """
    alike: dict[str, dict[str, None]] = {}
    for name in names:
        text = str(name)
        alike.setdefault(_skeleton(text), {}).setdefault(text)
    pairs = [list(group) for group in alike.values() if len(group) > 1]
    texts = [
        f"{', '.join(map(ascii, group[:-1][:_SHOWN]))} and {group[-1]!a} look alike: one name "
        "misspelt, or two?"
        for group in pairs[:_SHOWN]
    ]
    more = len(pairs) - _SHOWN
    return texts if more <= 0 else [*texts, f"{more} more sets of names look alike"]


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
    number = _TRUTHS.get(text, _float(name))
    if number not in (0, 1):
        raise _impossible(column, name, "the truth values true and false")
    return bool(number)


def _of_time(column: Column, name: Any) -> Label:
    reading = moment(name)
    if reading is None:
        raise _impossible(column, name, "dates or times; write an ISO text such as 2025-01-06")
    instant, zoned = reading
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


PERSON_BYTES = 24
"""Bytes in which a person is remembered: a hash of 128 bits, and a row."""

_SORT = (
    "a table that is read in pieces must be sorted by person and time: sort it, or allow more "
    "memory (memory=..., --memory)"
)


class Order:
    """Rows that come in pieces, checked: each person's follow each other, in order of time.

    ``most`` bounds the bytes in which persons are remembered. Equal times, and rows without person
    or time, are not refused here: they are among the facts. Raises `InvalidInput` with the column
    and the number of the row.
    """

    def __init__(self, grid: Grid, *, most: int | None = None) -> None:
        self.grid, self._seen = grid, _PersonsSeen(most)
        self._last: pl.DataFrame | None = None

    def feed(self, rows: "pl.DataFrame") -> None:
        """Check the next rows."""
        import polars as pl

        names = [ROW, PERSON, *([] if self.grid.time is None else [TIME])]
        both = rows.select(names).drop_nulls()  # rows without person or time are reported elsewhere
        if not both.height:
            return
        both = both if self._last is None else pl.concat([self._last, both])
        person = both[PERSON]
        new = person.ne_missing(person.shift(1))  # (rows,): another person begins
        if self.grid.person is not None:
            own = 0 if self._last is None else 1  # the row before these is none of them
            self._seen.add(both[own:].filter(new[own:]))
        back = None
        if self.grid.time is not None:
            time = both[TIME]
            earlier = ((time < time.shift(1)) & ~new).arg_true()
            back = int(both[ROW][int(earlier[0])]) if earlier.len() else None
        self._last = both[-1:]
        if back is not None:
            self._refuse(self._seen.settle(), back)
        self._refuse(self._seen.again)

    def close(self) -> None:
        """Say that all rows have come; the last persons are looked up."""
        self._refuse(self._seen.settle())

    def _refuse(self, again: int | None, back: int | None = None) -> None:
        """Refuse the first row that is out of order, if there is one."""
        if again is not None and (back is None or again < back):
            raise InvalidInput(
                f"row {again} of column {self.grid.person!r} (counting from 0) goes on with a "
                f"person after rows of others; {_SORT}"
            )
        if back is not None:
            raise InvalidInput(
                f"row {back} of column {self.grid.time!r} (counting from 0) is earlier than a row "
                f"of the same person before it; {_SORT}"
            )


class _PersonsSeen:
    """Persons by keyed hashes of 128 bits, with the row at which the rows of each begin.

    Those that came since are looked up among the others as soon as they are as many: the cost is
    that of sorting all of them, and a returning person is reported by the first such row.
    """

    def __init__(self, most: int | None) -> None:
        self._key, self._most = secrets.token_bytes(16), most
        self._known: npt.NDArray[np.uint64] = np.empty((0, 3), np.uint64)  # hash, hash, row
        self._new: list[npt.NDArray[np.uint64]] = []
        self._waiting = 0
        self.again: int | None = None

    def add(self, begun: "pl.DataFrame") -> None:
        """Take persons whose rows begin."""
        import polars as pl

        if not begun.height:
            return
        texts = begun[PERSON].cast(pl.String).to_list()
        hashed = b"".join(
            hashlib.blake2b(text.encode(), digest_size=16, key=self._key).digest() for text in texts
        )
        table = np.empty((len(texts), 3), np.uint64)
        table[:, :2] = np.frombuffer(hashed, np.uint64).reshape(-1, 2)
        table[:, 2] = begun[ROW].to_numpy()
        self._new.append(table)
        self._waiting += len(table)
        if self._waiting > max(2**12, len(self._known)):
            self.settle()

    def settle(self) -> int | None:
        """Look up all persons that came; return the first row at which one came back."""
        digests = np.concatenate([self._known, *self._new])
        self._new, self._waiting = [], 0
        if self._most is not None and digests.nbytes > self._most:
            raise InvalidInput(
                f"there are more than {self._most // PERSON_BYTES} persons, or the rows of persons "
                f"do not follow each other: remembering a person takes {PERSON_BYTES} bytes; allow "
                "more memory (memory=..., --memory), or sort the table by person"
            )
        # (persons, 3), the rows of one hash in order
        self._known = digests[np.lexsort((digests[:, 2], digests[:, 1], digests[:, 0]))]
        twice = (self._known[1:, :2] == self._known[:-1, :2]).all(axis=1)
        if twice.any():
            self.again = int(self._known[1:][twice, 2].min())
        return self.again
