"""Series of records, one per person and unbroken run, and rows of numbers: for fitting a model."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.data.columns import column_of_name
from undertow.data.expressions import NUMBER
from undertow.data.folds import (
    Fold,
    Ints,
    PickedRows,
    Values,
    feed,
    names_and_columns,
    places_of,
    too_many_values,
)
from undertow.data.grid import FIRST, GROUP, PERSON, ROW, THERE, TIME
from undertow.data.readers.sources import open_source
from undertow.data.records import check_order
from undertow.errors import InvalidInput
from undertow.models.fitting.tally import MOST_CELLS, MOST_STATES, Encoded, Tally, Tallying
from undertow.queries import State

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from undertow.data.table import Data

__all__ = [
    "DAY",
    "HOUR",
    "MOST_RECORDS",
    "RunTally",
    "Runs",
    "encoded",
    "read_numbers",
    "sequences",
    "tallied",
]


RunBlock = tuple[Ints, Ints, Ints, "pl.Series", "Ints | None"]
"""Records in order: numbers of states, of series and of persons, keys of persons, and times."""

MOST_RECORDS = 10**8
"""Records that are listed one by one; a single wrong time can make any number of absent steps."""
HOUR, DAY = 3_600_000_000, 86_400_000_000
"""Microseconds."""


def encoded(data: "Data", states: tuple[State, ...] | None) -> Encoded:
    """Return the records of all persons as numbers of states, for a fit: `Data.encoded`.

    Persons come in the order of their names, so that the order of rows tells nothing. Refused are
    a person in two groups, and rows without a named time that do not follow a column that looks
    like one (`undertow.data.records`). Rows in none of the wanted groups are left out.
    """
    if data.by is not None:
        split = _split(data)
        feed(data, [split])
        _check_split(data, split)
    names, rows, codes = _read(data, states)
    if len(names) > MOST_STATES:
        raise too_many_values()
    check_order(data)
    order = _by_name(data, rows)
    codes, series, persons, times = _joined(Runs(data, names).take(rows[order], codes[order]))
    moments = times if data.grid.clock else None
    clock = moments is not None and (moments % DAY != 0).any()
    hours = _hours(moments) if clock and moments is not None else None
    return Encoded(codes, names, series, persons, hours, times=moments)


def sequences(data: "Data", states: tuple[State, ...] | None) -> list[list[Any]]:
    """Return the records of each person in order, a new list after every gap: `Data.sequences`.

    Persons come in the order of their first row. Fields of a CSV file are numbers if all of them
    read as numbers, else texts. Reads all records.
    """
    names, rows, codes = _read(data, states)
    codes, series, _, _ = _joined(Runs(data, names).take(rows, codes))
    table = np.array([*names, None], dtype=np.object_)  # MISSING, -1, is the last of them
    records = table[codes].tolist()
    ends = [*np.flatnonzero(np.diff(series)).tolist(), len(records) - 1]
    starts = [0, *(end + 1 for end in ends[:-1])]
    runs = zip(starts, ends, strict=True)
    return [records[start : end + 1] for start, end in runs] if records else []


def read_numbers(path: str | Path, columns: Sequence[str]) -> tuple[list[list[float]], int]:
    """Return the rows of a file in which all the columns hold a number, and how many lack one.

    A column must hold numbers only, apart from missing values.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "heights.csv")
    ...     _ = path.write_text("father,child\\n70,68\\n71,NA\\n66.5,65\\n")
    ...     read_numbers(path, ["father", "child"])
    ([[70.0, 68.0], [66.5, 65.0]], 1)
    """
    source = open_source(Path(path), {name: {"value"} for name in columns})
    planes = {name: source.columns[name].planes().get(NUMBER) for name in columns}
    numbers = {name: part.alias(name) for name, part in planes.items() if part is not None}
    there = [source.columns[name].there().alias(f"\0{name}") for name in columns]
    (rows,) = source.collect(source.frame.select(*numbers.values(), *there))
    for name in columns:
        if name not in numbers or (rows[f"\0{name}"] & rows[name].is_null()).any():
            raise InvalidInput(f"the column {name!r} of {path} must hold numbers only")
    table = rows.select(column_of_name(name) for name in columns)
    whole = table.drop_nulls()
    return [list(row) for row in whole.rows()], table.height - whole.height


def _read(
    data: "Data", states: tuple[State, ...] | None
) -> "tuple[Sequence[State], pl.DataFrame, Ints]":
    """Return the names of the states, the rows of each person in order, and their numbers."""
    names, columns = names_and_columns(data, states)
    shape, rows = data.in_order(*columns, grouped=data.by is not None)
    if shape.rows > MOST_RECORDS:
        raise InvalidInput(
            f"with the absent steps there are more than {MOST_RECORDS} records, too many to list; "
            "check the times, take a longer step, or say gaps='split'"
        )
    if names is not None:
        return names, rows, places_of(rows)
    values = Values(data)
    values.feed(rows)
    return values.names(), rows, values.codes(rows)


def _by_name(data: "Data", rows: "pl.DataFrame") -> "Ints | slice":
    """Return the order of rows in which persons follow each other by name."""
    first = rows[FIRST].to_numpy()
    starts = np.flatnonzero(np.diff(first, prepend=-1))  # (P,): rows are in order of persons
    if data.grid.person is None or starts.size < 2:
        return slice(None)
    keys = data.source.columns[data.grid.person].persons(rows[PERSON][starts].to_list())
    places = sorted(range(len(keys)), key=lambda place: (isinstance(keys[place], str), keys[place]))
    if places == list(range(len(keys))):
        return slice(None)
    lengths = np.diff(np.append(starts, first.size))  # (P,)
    moved = np.repeat(
        starts[places] - np.cumsum(lengths[places]) + lengths[places], lengths[places]
    )
    return np.asarray(moved + np.arange(first.size))


def _split(data: "Data") -> PickedRows:
    """Return the fold of rows in another group than the first row of their person."""
    import polars as pl

    def strangers(rows: "pl.LazyFrame") -> "pl.LazyFrame":
        first = pl.col(GROUP).sort_by(ROW).first().over(PERSON)
        return data.grid.windowed(rows).filter(pl.col(GROUP).ne_missing(first))

    return PickedRows(replace(data.grid, fill=False), strangers, 1)


def _check_split(data: "Data", split: PickedRows) -> None:
    """Refuse a person whose records are in two groups, by the row at which the second begins."""
    if split.count:
        raise InvalidInput(
            f"{data.source.where(split.rows[0], data.by)} puts a person into two groups, and a fit "
            "takes a person's records together; give each person one group, or leave by=... out"
        )


_BLOCK = 2**20
"""Records that are made of rows and absent steps at a time."""


def tallied(data: "Data", states: tuple[State, ...] | None) -> Tally:
    """Return what a fit keeps of a table that is read in pieces: as of `Data.encoded`.

    One pass, and one before it for the values that occur where no states are named. Persons come
    in the order of their names.
    """
    names, columns = names_and_columns(data, states)
    columns = [*columns, data.record.there.alias(THERE)]
    coded: Callable[[pl.DataFrame], Ints] = places_of
    if names is None:
        values = Values(data, MOST_STATES)
        _feed(data, _Kept(data, values), columns)
        names, coded = values.names(), values.codes
    if len(names) > MOST_STATES:
        raise too_many_values()
    check_order(data)
    runs = RunTally(data, names, coded)
    _feed(data, runs, columns)
    return runs.tally()


def _feed(data: "Data", fold: Fold, columns: "Sequence[pl.Expr]") -> None:
    """Feed all rows to a fold, or refuse a person in two groups, and rows that are wrong."""
    split = _split(data)
    facts = feed(data, [fold] if data.by is None else [split, fold], *columns)
    _check_split(data, split)
    data.checked(facts.summary)


def kept_rows(data: "Data", rows: "pl.DataFrame") -> "pl.DataFrame":
    """Return the rows that a fit looks at: those of the window, and of some group."""
    held = rows.lazy() if data.grid.fill else data.grid.windowed(rows.lazy())
    return (held.drop_nulls(GROUP) if data.by is not None else held).collect()


class _Kept:
    """A fold that is fed the rows that a fit looks at."""

    ordered = False

    def __init__(self, data: "Data", values: Values) -> None:
        self.data, self.values = data, values

    def feed(self, rows: "pl.DataFrame") -> None:
        self.values.feed(kept_rows(self.data, rows))

    def merge(self, state: Any) -> None:
        self.values.merge(state)

    def state(self) -> Any:
        return self.values.state()


class Runs:
    """Reader of ordered rows into unbroken series of states, absent steps filled or not.

    Rows of a person follow each other, in whatever pieces. Persons and series are numbered as they
    come.
    """

    def __init__(self, data: "Data", names: Sequence[State]) -> None:
        self.data, self.names = data, names
        self._person = self._series = 0  # numbers of the last of each
        self._last: pl.DataFrame | None = None
        self._absent = 0

    def take(self, rows: "pl.DataFrame", codes: Ints) -> Iterator[RunBlock]:
        """Yield the records of the next rows, of which ``codes`` (n,) are the states."""
        import polars as pl

        if not rows.height:
            return
        grid, own = self.data.grid, 0 if self._last is None else 1
        held = rows.select(PERSON, *([] if grid.time is None else [TIME]))
        both = held if self._last is None else pl.concat([self._last, held])
        self._last = held[-1:]
        new = both[PERSON].ne_missing(both[PERSON].shift(1)).to_numpy()[own:]  # (rows,)
        persons = self._person + np.cumsum(new)
        self._person = int(persons[-1])
        if grid.time is None:
            yield codes, persons, persons, held[PERSON], None
            return
        times = both[TIME].fill_null(0).to_numpy()
        absent = np.zeros(rows.height, np.int64)  # (rows,): steps that are absent before a row
        if grid.step is not None:
            apart = np.append(np.zeros(1 - own, np.int64), np.diff(times) // grid.step - 1)
            absent = np.where(new, 0, np.maximum(apart, 0))
        if grid.fill:
            yield from self._filled(codes, persons, held[PERSON], times[own:], absent)
            return
        series = self._series + np.cumsum(new | (absent > 0))
        self._series = int(series[-1])
        yield codes, series, persons, held[PERSON], times[own:]

    def _filled(
        self, codes: Ints, persons: Ints, keys: "pl.Series", times: Ints, absent: Ints
    ) -> Iterator[RunBlock]:
        """Yield rows, each after the absent steps before it, a block of records at a time."""
        grid, gap = self.data.grid, list(self.names).index(self.data.gaps)
        self._absent += int(absent.sum())
        if self._absent > max(MOST_RECORDS, 2 * (self.data.source.rows or 0)):
            raise InvalidInput(
                "with the absent steps there are far more records than rows, too many to list; "
                "check the times, take a longer step, or say gaps='split'"
            )
        last = np.cumsum(absent + 1) - 1  # (rows,): the place of each row among the records
        for start in range(0, int(last[-1]) + 1, _BLOCK):
            place = np.arange(start, min(start + _BLOCK, int(last[-1]) + 1))
            row = np.searchsorted(last, place)  # (records,): the row that each belongs to
            back = last[row] - place  # steps before that row
            moments = times[row] - back * (grid.step or 1)
            keep = np.ones(place.size, np.bool_)
            keep &= True if grid.start is None else moments >= grid.start
            keep &= True if grid.end is None else moments < grid.end
            numbers, who = np.where(back > 0, gap, codes[row])[keep], persons[row][keep]
            yield numbers, who, who, keys.gather(row[keep]), moments[keep]


def _joined(blocks: Iterator[RunBlock]) -> tuple[Ints, Ints, Ints, Ints | None]:
    """Return codes, series, persons and times (None without) of all records."""
    parts = list(blocks)
    nothing = np.empty(0, np.int64)
    codes, series, persons = (
        np.concatenate([nothing, *(np.asarray(block[place]) for block in parts)])
        for place in range(3)
    )
    times = [block[4] for block in parts if block[4] is not None]
    return codes, series, persons, np.concatenate(times) if times else None


class RunTally:
    """A fold of rows into the tally of their unbroken series.

    Rows have what ``coded`` makes numbers of ``names`` of. Persons are put into the order of their
    names in the end; their keys are held until then.
    """

    ordered = True

    def __init__(
        self, data: "Data", names: Sequence[State], coded: "Callable[[pl.DataFrame], Ints]"
    ) -> None:
        self.data, self.names, self.coded = data, names, coded
        limit = data.memory
        clock = data.grid.time is not None and data.grid.clock
        self.growing = Tallying(
            names, hours=clock, most_cells=min(MOST_CELLS, limit // 16), most_kept=limit // 8
        )
        self._runs = Runs(data, names)
        self._keys: list[pl.Series] = []
        self._person = -1  # the last of whom a record was kept
        self._within = False  # some record is within a day, not at its beginning

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        kept = kept_rows(self.data, rows)
        for block in self._runs.take(kept, self.coded(kept)):
            self._add(*block)

    def merge(self, state: list[Any]) -> None:
        """Add the series of other persons."""
        growing, names, within = state
        self.growing.merge(self.growing.load(growing))
        self._keys += [names.to_series()] if names.height else []  # of nobody: of no type
        self._within |= within

    def state(self) -> list[Any]:
        """Return the tally, the keys of the persons in order, and whether hours say something."""
        return [self.growing.state(), self._names().to_frame(), self._within]

    def tally(self) -> Tally:
        """Return the tally of all rows that came, persons in the order of their names."""
        order = self._names().arg_sort().to_numpy()
        return self.growing.tally(order, hours=self._within)

    def _names(self) -> "pl.Series":
        import polars as pl

        nobody = pl.Series(PERSON, [], dtype=self._keys[0].dtype if self._keys else pl.Int64)
        return pl.concat([nobody, *self._keys])

    def _add(
        self, codes: Ints, series: Ints, persons: Ints, keys: "pl.Series", times: Ints | None
    ) -> None:
        """Take a block of records."""
        if not codes.size:
            return
        begins = np.flatnonzero(np.diff(persons, prepend=self._person))
        self._person = int(persons[-1])
        if begins.size:
            self._keys.append(keys.gather(begins))
        hours = _hours(times) if times is not None and self.data.grid.clock else None
        if hours is not None and times is not None:
            self._within |= bool((times % DAY != 0).any())
        self.growing.add(codes, series, persons, hours)


def _hours(times: Ints) -> npt.NDArray[np.int8]:
    """Return the hours of the clock, 0 to 23."""
    return ((times % DAY) // HOUR).astype(np.int8)
