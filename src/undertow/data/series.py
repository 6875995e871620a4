"""Series of records, one per person and unbroken run, and rows of numbers: for fitting a model."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.data.columns import column_of_name
from undertow.data.grid import FIRST, GROUP, THERE, TIME
from undertow.data.sources import open_source
from undertow.data.sql import NUMBER, TEXT, TRUTH
from undertow.errors import InvalidInput
from undertow.queries import State

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = ["MOST_RECORDS", "read_numbers", "sequences"]

MOST_RECORDS = 10**8
"""Records that are listed one by one; a single wrong time can make any number of absent steps."""
_CODE = "\0code"


def sequences(
    data: "Data", states: tuple[State, ...] | None, *, apart: bool = False
) -> list[list[Any]]:
    """Return the records of each person in order, a new list after every gap: `Data.sequences`.

    Persons come in the order of their first row. Fields of a CSV file are numbers if all of them
    read as numbers, else texts. Reads all records.
    """
    grid, record = data.grid, data.record
    names = _implied(data) if states is None else states
    if names is None:
        made = [part.alias(f"\0{plane}") for plane, part in record.planes.items()]
    else:
        made = [record.positions(names, named=True).alias(_CODE)]
    if grid.fill and states is not None and data.gaps not in states:
        raise InvalidInput(f"gaps have the state {data.gaps!r}, which is not among {states}")
    shape, found = data.in_order(*made)
    if shape.rows > MOST_RECORDS:
        raise InvalidInput(
            f"with the absent steps there are more than {MOST_RECORDS} records, too many to list; "
            "check the times, take a longer step, or say gaps='split'"
        )
    if names is None:
        records = _plain(found)
    else:
        records = [None if code is None else names[code] for code in found[_CODE]]
    times = range(found.height) if grid.time is None else found[TIME]
    groups = found[GROUP].rle_id() if apart else repeat(0, found.height)
    return _runs(data, zip(zip(found[FIRST], groups, strict=True), times, records, strict=True))


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


def _runs(data: "Data", rows: Iterable[tuple[Any, int, Any]]) -> list[list[Any]]:
    """Return the records of rows (series, time, record), which are in order, split at gaps."""
    grid = data.grid
    low = grid.start if grid.start is not None else -float("inf")
    high = grid.end if grid.end is not None else float("inf")
    runs: list[list[Any]] = []
    person, time = None, 0
    for who, when, record in rows:
        absent = 0
        if who == person and grid.step is not None:
            absent = (when - time) // grid.step - 1
        if who != person or (absent and not grid.fill):
            runs.append([])
        elif absent and grid.step is not None:
            steps = range(time + grid.step, when, grid.step)
            runs[-1] += [data.gaps for step in steps if low <= step < high]
        if grid.time is None or low <= when < high:
            runs[-1].append(record)
        person, time = who, when
    return [run for run in runs if run]


def _implied(data: "Data") -> Sequence[State] | None:
    """Return the states that bins and mappings have of themselves."""
    if data.record.cuts:
        return range(len(data.record.cuts) + 1)
    if data.record.mapping:
        return list(dict.fromkeys(name for _, name in data.record.mapping if name is not None))
    return None


def _plain(found: "pl.DataFrame") -> list[Any]:
    """Return records as truth values, whole numbers, numbers or texts; None where missing."""
    made = {p: found[f"\0{p}"] for p in (NUMBER, TEXT, TRUTH) if f"\0{p}" in found.columns}
    planes = list(made)
    there = found[THERE].to_list()
    if planes == [TRUTH]:
        records = made[TRUTH].to_list()
    elif TEXT not in planes:
        records = [_number(value) for value in made[NUMBER]]
    elif NUMBER not in planes:
        records = made[TEXT].to_list()
    else:  # fields of a CSV file have both readings, Python objects one of them
        numbers, texts = made[NUMBER].to_list(), made[TEXT].to_list()
        only = all(n is not None for n, t, h in zip(numbers, texts, there, strict=True) if h and t)
        records = [
            _number(number) if text is None or only else text
            for number, text in zip(numbers, texts, strict=True)
        ]
    return [record if is_there else None for record, is_there in zip(records, there, strict=True)]


def _number(value: float | None) -> float | int | None:
    if value is None or value in (float("inf"), -float("inf")):
        return None
    return int(value) if value.is_integer() else value
