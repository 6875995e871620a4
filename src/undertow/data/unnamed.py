"""Columns that nobody named, and what they say about the order of rows and about persons.

Without a named time, neighbours in a table count as neighbours in time; without a named person, all
rows are one person's. Both are refused, in a fit and in a release alike, where an unnamed column
says otherwise by what it holds, whatever its name:

- *dates or times* (by type, or ISO text) that go back, or of which two neighbours have the same
  time of day: the rows are not in order, or those of several persons;
- *whole numbers* that are those from the least to the largest in equal steps, each once, and not
  in order: a clock that was shuffled;
- a *text* that is constant along series: times or whole numbers in equal steps rise within each
  of its values, and not in the whole table (which is in memory).

A calendar in several columns (a date, and the slot of the day as a number that begins again) is
none of these. Columns of values, and those of a state expression, are private and never looked at;
those that nobody named are looked at for their order alone.
"""

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from undertow.data.columns import column_of_name
from undertow.data.grid import PERSON, TIME
from undertow.data.pieces import pieces
from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = ["check_order", "unnamed_spreads"]

_DAY = 86_400_000_000
_FEWEST = 4
"""Rows below which numbers in equal steps are a coincidence."""
_SERIES = "\0series"


@dataclass(frozen=True, slots=True)
class _Clock:
    """An unnamed column read as times: on a clock, or whole numbers."""

    name: str
    moment: "pl.Expr"
    clock: bool


def check_order(data: "Data") -> None:
    """Refuse rows that are not in the order of an unnamed time, or of several unnamed persons.

    Asked where no time is named. One pass over the column for each that could be a time.
    """
    if data.grid.time is not None or data.source.spread:
        return
    texts: list[str] | None = None
    for clock in _clocks(data):
        order = _Order(clock)
        for rows in _rows(data, clock):
            order.feed(rows)
        if order.none or not order.rows:
            continue
        if order.goes_back():
            raise _shuffled(clock.name)
        if data.grid.person is not None or order.rises:
            continue
        if data.piece is None:  # rows of one text need not follow each other
            texts = _texts(data) if texts is None else texts
            for name in texts:
                if _along(data, clock, name):
                    raise _several(clock.name, name)
        if order.repeats():
            raise _several(clock.name, None)


def unnamed_spreads(data: "Data") -> dict[str, tuple[int, int]]:
    """Return the least and the largest step by each unnamed column of dates or times that rises.

    Where no time is named; in microseconds, between neighbouring rows of a person.

    >>> import polars as pl
    >>> from undertow.data.table import Data
    >>> days = [dt.date(2024, 1, day) for day in (1, 2, 4)]
    >>> found = unnamed_spreads(Data(pl.DataFrame({"day": days, "x": [0, 1, 0]}), value="x"))
    >>> {name: (least // _DAY, most // _DAY) for name, (least, most) in found.items()}
    {'day': (1, 2)}
    """
    import polars as pl

    if data.grid.time is not None or data.source.spread:
        return {}
    found = {}
    for clock in _clocks(data):
        if not clock.clock:
            continue
        known: list[tuple[int | None, int | None, int]] = []
        last: pl.DataFrame | None = None
        for rows in _rows(data, clock):
            held = rows.select(PERSON, TIME)
            both = held if last is None else pl.concat([last, held])
            last = held[-1:] if held.height else last
            step = pl.col(TIME).diff().over(PERSON)
            ends = step.min().alias("least"), step.max().alias("most")
            known.append(both.select(*ends, pl.col(TIME).null_count().alias("none")).row(0))
        steps = [(least, most) for least, most, _ in known if least is not None]
        if not steps or any(none for _, _, none in known):
            continue
        least, most = min(one for one, _ in steps), max(one or 0 for _, one in steps)
        if least > 0:
            found[clock.name] = (least, most)
    return found


def _clocks(data: "Data") -> Iterator[_Clock]:
    """Yield the columns that nobody named, and that hold dates, times or whole numbers."""
    for name, kind in _others(data):
        if kind in ("text", "csv") and not _reads_as_time(data.first_of(name)):
            continue
        if kind in ("time", "text", "csv", "whole"):
            moment, clock = data.timed(name)
            if clock is not None:
                yield _Clock(name, moment, clock)


def _texts(data: "Data") -> list[str]:
    """Return the columns of texts that nobody named, and that are no numbers or times."""
    return [
        name
        for name, kind in _others(data)
        if kind in ("text", "csv") and not _reads_otherwise(data.first_of(name))
    ]


def _reads_as_time(text: str | None) -> bool:
    """Return whether a text is an ISO time or a whole number."""
    text = (text or "").strip()
    try:
        return text.lstrip("+-").isdecimal() or bool(dt.datetime.fromisoformat(text))
    except ValueError:
        return False


def _reads_otherwise(text: str | None) -> bool:
    """Return whether a text is a time, a number, or none at all."""
    try:
        float(text or "0")
    except ValueError:
        return _reads_as_time(text)
    return True


def _others(data: "Data") -> Iterator[tuple[str, str]]:
    """Yield the columns that have no part in the data, with their kinds."""
    for name, column in data.others():
        yield name, "whole" if column.kind == "number" and column.whole else column.kind


def _rows(data: "Data", clock: _Clock) -> "Iterator[pl.DataFrame]":
    moment = clock.moment.alias(TIME)
    if data.piece is not None:
        yield from pieces(data, moment, also=[clock.name])
        return
    yield data.source.collect(data.rows(moment).select(PERSON, TIME))[0]


class _Order:
    """A fold of rows: how the times of an unnamed column follow each other for each person."""

    def __init__(self, clock: _Clock) -> None:
        self.clock, self.rows = clock, 0
        self.none = self.back = self.same = self.within = False
        self._ends: dict[object, tuple[int, int, int, int, int]] = {}
        self._last: pl.DataFrame | None = None

    @property
    def rises(self) -> bool:
        """Whether the times rise strictly from row to row."""
        return not self.back and not self.same

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows; those of a person follow each other if they come in pieces."""
        import polars as pl

        held = rows.select(PERSON, TIME)
        self.none |= bool(held[TIME].null_count())
        if self.none or not held.height:
            return
        self.rows += held.height
        both = held if self._last is None else pl.concat([self._last, held])
        self._last = held[-1:]
        step = pl.col(TIME).diff().over(PERSON)
        back, same, within = both.select(
            (step < 0).any().alias("back"),
            (step == 0).any().alias("same"),
            (pl.col(TIME) % _DAY != 0).any().alias("within"),
        ).row(0)
        self.back, self.same = self.back or bool(back), self.same or bool(same)
        self.within = self.within or bool(within)
        if self.clock.clock:
            return
        parts = held.group_by(PERSON).agg(
            pl.len().cast(pl.Int64).alias("rows"),
            pl.col(TIME).n_unique().cast(pl.Int64).alias("different"),
            pl.col(TIME).min().alias("least"),
            pl.col(TIME).max().alias("most"),
            (pl.col(TIME) - pl.col(TIME).first()).cast(pl.Int64).alias("steps").implode(),
        )
        for person, count, different, least, most, steps in parts.rows():
            gcd = math.gcd(*(abs(one) for one in steps))
            kept = self._ends.get(person)
            if kept is not None:
                gcd = math.gcd(gcd, kept[4], abs(least - kept[2]))
                count, different = count + kept[0], different + kept[1]
                least, most = min(least, kept[2]), max(most, kept[3])
            self._ends[person] = (count, different, least, most, gcd)

    def goes_back(self) -> bool:
        """Return whether the rows are not in the order of the column."""
        return self.back and (self.clock.clock or self._is_clock())

    def repeats(self) -> bool:
        """Return whether two neighbours have one time of day."""
        return self.same and self.clock.clock and self.within

    def _is_clock(self) -> bool:
        """Return whether each person's numbers are one of each in equal steps."""
        steps = {
            gcd
            for count, different, least, most, gcd in self._ends.values()
            if count > 1 and (different != count or not gcd or most - least != gcd * (count - 1))
        }
        sizes = {gcd for count, _, _, _, gcd in self._ends.values() if count > 1}
        return not steps and len(sizes) == 1 and self.rows >= _FEWEST


def _along(data: "Data", clock: _Clock, name: str) -> bool:
    """Return whether times rise within each value of a text, of which there are several."""
    import polars as pl

    text = column_of_name(name).cast(pl.String).alias(_SERIES)
    rows = data.rows(clock.moment.alias(TIME), text).select(_SERIES, TIME)
    parts = rows.group_by(_SERIES).agg(
        pl.len().alias("rows"),
        pl.col(TIME).diff().min().alias("least"),
        pl.col(TIME).diff().max().alias("most"),
    )
    found = pl.col("rows").min(), pl.col("least").min(), pl.col("most").max(), pl.len()
    (told,) = data.source.collect(parts.select(*(p.alias(str(k)) for k, p in enumerate(found))))
    fewest, least, most, several = told.row(0)
    if several < 2 or fewest < 2 or least <= 0:
        return False
    return clock.clock or bool(least == most)


def _shuffled(name: str) -> InvalidInput:
    """Return the error about rows that do not follow a column that looks like their time."""
    return InvalidInput(
        f"the rows are not in the order of column {name!r}, and neighbours in a table count as "
        f"neighbours in time; say time={name!r}, and person=... if the rows are those of several "
        "persons, or leave that column out of the table"
    )


def _several(name: str, person: str | None) -> InvalidInput:
    """Return the error about rows of several persons of whom none was named."""
    seen = "of which two have one time" if person is None else f"one for each {person!r}"
    whom = "..." if person is None else repr(person)
    return InvalidInput(
        f"the rows look like several series by column {name!r}, {seen}, and without person=... "
        f"all count as one person's; say person={whom} and time={name!r}, or leave that column "
        "out of the table"
    )
