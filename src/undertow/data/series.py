"""Series of records, one per person and unbroken run, and rows of numbers: for fitting a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.data.columns import column_of_name
from undertow.data.grid import FIRST, GROUP, PERSON, ROW, TIME
from undertow.data.sources import open_source
from undertow.data.sql import NUMBER
from undertow.data.unnamed import check_order
from undertow.data.values import Values, named_or_made, places_of, too_many_values
from undertow.errors import InvalidInput
from undertow.models.sequences import MOST_STATES, Encoded
from undertow.queries import State

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = [
    "DAY", "HOUR", "MOST_RECORDS", "encoded", "read_numbers", "sequences", "two_groups",
]  # fmt: skip

Ints = npt.NDArray[np.int64]

MOST_RECORDS = 10**8
"""Records that are listed one by one; a single wrong time can make any number of absent steps."""
HOUR, DAY = 3_600_000_000, 86_400_000_000
"""Microseconds."""


def encoded(data: "Data", states: tuple[State, ...] | None) -> Encoded:
    """Return the records of all persons as numbers of states, for a fit: `Data.encoded`.

    Persons come in the order of their names, so that the order of rows tells nothing. Refused are
    a person in two groups, and rows without a named time that do not follow a column that looks
    like one (`undertow.data.unnamed`). Rows in none of the wanted groups are left out.
    """
    if data.by is not None:
        _refuse_split(data)
    names, found, codes = _read(data, states)
    if len(names) > MOST_STATES:
        raise too_many_values()
    check_order(data)
    order = _by_name(data, found)
    kept = found.select(FIRST, *([] if data.grid.time is None else [TIME]))[order]
    codes, series, persons, times = _runs(data, names, kept, codes[order])
    hours = None
    if times is not None and data.grid.clock and (times % DAY != 0).any():
        hours = ((times % DAY) // HOUR).astype(np.int8)
    return Encoded(codes, names, series, persons, hours)


def sequences(data: "Data", states: tuple[State, ...] | None) -> list[list[Any]]:
    """Return the records of each person in order, a new list after every gap: `Data.sequences`.

    Persons come in the order of their first row. Fields of a CSV file are numbers if all of them
    read as numbers, else texts. Reads all records.
    """
    names, found, codes = _read(data, states)
    codes, series, _, _ = _runs(data, names, found, codes)
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
    made = {name: source.columns[name].planes().get(NUMBER) for name in columns}
    numbers = {name: part.alias(name) for name, part in made.items() if part is not None}
    there = [source.columns[name].there().alias(f"\0{name}") for name in columns]
    (found,) = source.collect(source.frame.select(*numbers.values(), *there))
    for name in columns:
        if name not in numbers or (found[f"\0{name}"] & found[name].is_null()).any():
            raise InvalidInput(f"the column {name!r} of {path} must hold numbers only")
    table = found.select(column_of_name(name) for name in columns)
    whole = table.drop_nulls()
    return [list(row) for row in whole.rows()], table.height - whole.height


def _read(
    data: "Data", states: tuple[State, ...] | None
) -> "tuple[Sequence[State], pl.DataFrame, Ints]":
    """Return the names of the states, the rows of each person in order, and their numbers."""
    names, made = named_or_made(data, states)
    shape, found = data.in_order(*made, grouped=data.by is not None)
    if shape.rows > MOST_RECORDS:
        raise InvalidInput(
            f"with the absent steps there are more than {MOST_RECORDS} records, too many to list; "
            "check the times, take a longer step, or say gaps='split'"
        )
    if names is not None:
        return names, found, places_of(found)
    values = Values(data)
    values.feed(found)
    return values.names(), found, values.codes(found)


def _runs(
    data: "Data", names: Sequence[State], found: "pl.DataFrame", codes: Ints
) -> tuple[Ints, Ints, Ints, Ints | None]:
    """Return codes, series, persons and times (None without) of all records, absent steps too."""
    grid = data.grid
    persons = found[FIRST].to_numpy().astype(np.int64)  # (rows,): another number for each
    if grid.time is None:
        return codes, persons, persons, None
    times = found[TIME].to_numpy()  # (rows,)
    change = np.zeros(times.size, np.int64)  # (rows,): whether another series begins
    change[1:] = persons[1:] != persons[:-1]
    if grid.step is not None and times.size:
        absent = np.zeros(times.size, np.int64)  # (rows,): steps that are absent before a row
        absent[1:] = np.where(change[1:] == 1, 0, np.diff(times) // grid.step - 1)
        if not grid.fill:
            change |= absent > 0
        else:  # each row becomes the absent steps before it, and itself
            width = absent + 1
            last = np.cumsum(width) - 1  # (rows,): the new place of each row
            back = np.repeat(last, width) - np.arange(int(last[-1]) + 1)  # steps before the row
            gap = names.index(data.gaps)
            codes = np.where(back > 0, gap, np.repeat(codes, width))
            times = np.repeat(times, width) - back * grid.step
            persons = np.repeat(persons, width)
            keep = np.ones(times.size, np.bool_)
            if grid.start is not None:
                keep &= times >= grid.start
            if grid.end is not None:
                keep &= times < grid.end
            codes, times, persons = codes[keep], times[keep], persons[keep]
            return codes, persons, persons, times
    return codes, np.cumsum(change), persons, times


def _by_name(data: "Data", found: "pl.DataFrame") -> "Ints | slice":
    """Return the order of rows in which persons follow each other by name."""
    first = found[FIRST].to_numpy()
    starts = np.flatnonzero(np.diff(first, prepend=-1))  # (P,): rows are in order of persons
    if data.grid.person is None or starts.size < 2:
        return slice(None)
    keys = data.source.columns[data.grid.person].persons(found[PERSON][starts].to_list())
    places = sorted(range(len(keys)), key=lambda place: (isinstance(keys[place], str), keys[place]))
    if places == list(range(len(keys))):
        return slice(None)
    lengths = np.diff(np.append(starts, first.size))  # (P,)
    moved = np.repeat(
        starts[places] - np.cumsum(lengths[places]) + lengths[places], lengths[places]
    )
    return np.asarray(moved + np.arange(first.size))


def _refuse_split(data: "Data") -> None:
    """Refuse a person whose records are in two groups, by the row at which the second begins."""
    import polars as pl

    rows = data.grid.windowed(data.rows(numbered=True))
    first = pl.col(GROUP).sort_by(ROW).first().over(PERSON)
    (found,) = data.source.collect(
        rows.filter(pl.col(GROUP).ne_missing(first)).select(pl.col(ROW).min())
    )
    if found[ROW][0] is not None:
        raise two_groups(data, found[ROW][0])


def two_groups(data: "Data", row: int) -> InvalidInput:
    """Return the error about a person in two groups, by the row at which the second begins."""
    return InvalidInput(
        f"{data.source.where(row, data.by)} puts a person into two groups, and a fit takes a "
        "person's records together; give each person one group, or leave by=... out"
    )
