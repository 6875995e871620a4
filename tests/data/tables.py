"""Random tables for hypothesis, in every form a user may have them, and answers by plain loops."""

import csv
import datetime as dt
import gzip
import math
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest
from hypothesis import strategies as st

import undertow as ut

pd = pytest.importorskip("pandas")
duckdb = pytest.importorskip("duckdb")

BACKENDS = ("polars", "lazy", "csv", "gzip", "parquet", "pandas", "objects", "arrow", "duckdb")
DTYPES: dict[str, Any] = {
    "whole": pl.Int64,
    "real": pl.Float64,
    "text": pl.String,
    "truth": pl.Boolean,
}
DAY = dt.datetime(2024, 3, 30, 23, 0)
STEP = dt.timedelta(minutes=5)

whole = st.none() | st.integers(-3, 5) | st.integers(-(2**63), 2**63 - 1)
real = st.none() | st.floats(-4, 4) | st.floats() | st.sampled_from([-0.0, 1.0, math.inf, math.nan])
text = st.none() | st.sampled_from(["a", "b", "c", "1", " a"]) | st.text(max_size=4)
truth = st.none() | st.booleans()
VALUES: dict[str, Any] = {"whole": whole, "real": real, "text": text, "truth": truth}


@dataclass(frozen=True)
class Row:
    who: str
    when: int
    group: str
    value: Any


@st.composite
def tables(draw, kind: str, most: int = 14, on_grid: bool = True) -> list[Row]:
    """Rows of up to three persons in random order, no two of a person at one time."""
    keys = draw(
        st.lists(
            st.tuples(st.sampled_from(["p", "q", "007"]), st.integers(0, 9)),
            max_size=most,
            unique=True,
        )
    )
    groups = st.sampled_from(["north", "south", "1"])
    return [Row(who, when, draw(groups), draw(VALUES[kind])) for who, when in keys]


def as_source(rows: list[Row], kind: str, backend: str, folder: Any, clock: bool = True) -> Any:
    """The rows as a user of some library or file format would have them."""
    frame = pl.DataFrame(
        {
            "who": [row.who for row in rows],
            "when": [DAY + row.when * STEP if clock else row.when for row in rows],
            "group": [row.group for row in rows],
            "v": [row.value for row in rows],
        },
        schema={
            "who": pl.String,
            "when": pl.Datetime("us") if clock else pl.Int64,
            "group": pl.String,
            "v": DTYPES[kind],
        },
        strict=False,
    )
    if backend == "polars":
        return frame
    if backend == "lazy":
        return frame.lazy()
    if backend in ("csv", "gzip"):
        path = folder / f"table.{backend if backend == 'csv' else 'csv.gz'}"
        write_csv(frame, path)
        return path
    if backend == "parquet":
        path = folder / "table.parquet"
        frame.write_parquet(path)
        return path
    if backend == "pandas":
        return frame.to_pandas()
    if backend == "objects":
        return pd.DataFrame(
            {name: pd.Series(frame[name].to_list(), dtype=object) for name in frame.columns}
        )
    if backend == "arrow":
        return frame.to_arrow()
    return duckdb.connect().from_arrow(frame.to_arrow())


def write_csv(frame: pl.DataFrame, path: Any) -> None:
    """Write a table as Python's own writer does."""
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "wt", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(frame.columns)
        for row in frame.iter_rows():
            writer.writerow([_field(value) for value in row])


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return value


def is_missing(value: Any) -> bool:
    return value is None or value != value


def position(record: Any, states: tuple[Any, ...]) -> int | None:
    """The place of a record among states, as people would say it: "1" is not 1."""
    if isinstance(record, bool) and len(states) == 2 and not {*states} <= {False, True}:
        return int(record)
    for place, state in enumerate(states):
        if isinstance(state, str) == isinstance(record, str) and record == state:
            return place
    return None


def by_loop(
    rows: list[Row], query: Any, states: tuple[Any, ...], record: Any, *,
    groups: tuple[str, ...] | None = None, window: tuple[int, int] | None = None,
    gaps: Any = "split",
) -> dict[str | None, tuple[list[int], int]]:  # fmt: skip
    """The answer per group (None: no groups), one row at a time; times are whole numbers."""
    low, high = window or (-math.inf, math.inf)
    records: list[tuple[str, float, str, Any]] = []
    for who in {row.who for row in rows}:
        mine = sorted((row for row in rows if row.who == who), key=lambda row: row.when)
        for row, after in zip(mine, [*mine[1:], None], strict=True):
            made = None if is_missing(row.value) else record(row.value)
            records.append((who, row.when, row.group, made))
            if gaps != "split" and after is not None:
                records += [
                    (who, time, row.group, gaps) for time in range(row.when + 1, after.when)
                ]
    answers: dict[str | None, tuple[list[int], int]] = {}
    names: list[Any] = [None] if groups is None else list(groups)
    for name in names:
        mine_too = [
            made
            for _, when, group, made in records
            if (name is None or group == name) and low <= when < high
        ]
        answers[name] = numbers(query, mine_too, states), len(mine_too)
    return answers


def numbers(query: Any, records: list[Any], states: tuple[Any, ...]) -> list[int]:
    if isinstance(query, ut.Sum | ut.Mean):
        lattice = query.lattice()
        return [sum(lattice.missing if isinstance(r, str) else lattice.place(r) for r in records)]
    places = [position(record, states) for record in records]
    counts = [places.count(place) for place in range(len(states))]
    if isinstance(query, ut.Histogram):
        return counts
    return [sum(n for n, state in zip(counts, states, strict=True) if state in query.states)]
