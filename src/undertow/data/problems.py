"""What a curator should look at before releasing: columns and rows, never a value."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from undertow.data.grid import GROUP, ROW
from undertow.data.sources import scan
from undertow.errors import InvalidInput
from undertow.queries import AnyQuery, Count, Histogram, Linear, Mean, State, Sum

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = ["SHOWN", "Problem", "problems"]

SHOWN = 10
"""Rows that are named for each kind of problem; the others are counted."""

_TEST, _N, _ROWS = "\0test", "\0n", "\0rows"
_WRONG = ("nobody", "untimed", "twice", "off")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something odd about a row (counting from 0), or, with row None, about more than one.

    >>> print(Problem("steps", 3, "is missing"))
    column 'steps', row 3: is missing
    """

    column: str | None
    row: int | None
    what: str

    def __str__(self) -> str:
        """Return the problem in words."""
        column = "the table" if self.column is None else f"column {self.column!r}"
        return f"{column}, row {self.row}: {self.what}" if self.row is not None else (
            f"{column}: {self.what}"
        )  # fmt: skip


def problems(data: "Data", query: AnyQuery | None, states: tuple[State, ...]) -> list[Problem]:
    """Return what is odd about the rows: see `Data.problems`.

    Rows without person or time, twice at one time or off the grid, which a release refuses; and
    missing, foreign, or clipped values and rows in no group, which a release takes as the plan
    says. One pass for each kind.
    """
    import polars as pl

    grid = data.grid
    kinds: list[tuple[str | None, str, pl.LazyFrame]] = []
    for wrong in _WRONG:
        if wrong == "nobody" and grid.person is None:
            continue
        if wrong in ("untimed", "twice") and grid.time is None:
            continue
        if wrong == "off" and grid.step is None:
            continue
        column, what = grid.complaint(wrong)
        kinds.append((column, what, grid.culprits(data.rows(numbered=True), wrong)))
    for column, what, test in _of_values(data, query, states):
        rows = grid.windowed(data.rows(test.alias(_TEST), numbered=True))
        kinds.append((column, what, rows.filter(pl.col(_TEST))))
    if data.by is not None:
        rows = grid.windowed(data.rows(numbered=True))
        kinds.append((data.by, "is in no group", rows.filter(pl.col(GROUP).is_null())))
    summaries = [
        frame.select(pl.len().alias(_N), pl.col(ROW).sort().head(SHOWN).implode().alias(_ROWS))
        for _, _, frame in kinds
    ]
    listed = _of_lines(data)
    for (column, what, _), found in zip(kinds, data.source.collect(*summaries), strict=True):
        count, rows_found = found[_N][0], found[_ROWS][0]
        listed += [Problem(column, row, what) for row in rows_found]
        if count > SHOWN:
            listed.append(Problem(column, None, f"{count - SHOWN} more rows: {what}"))
    return listed


def _of_lines(data: "Data") -> list[Problem]:
    """Return whether a CSV file has lines that do not fit its header; a release cuts them off."""
    import polars as pl

    if ".csv" not in data.source.file:
        return []
    whole = scan(Path(data.source.title), ragged=False).select(pl.all().null_count())
    try:
        whole.collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return [Problem(None, None, "some line has more fields than the header, or broken quotes")]
    return []


def _of_values(
    data: "Data", query: AnyQuery | None, states: tuple[State, ...]
) -> "list[tuple[str | None, str, pl.Expr]]":
    """Return what may be odd about a value: the column, what to say, and the test."""
    import polars as pl

    record = data.record
    column = data.value
    made: list[tuple[str | None, str, pl.Expr]] = [(column, "is missing", ~record.there)]
    if isinstance(query, Count | Histogram):
        domain = states or (query.states if isinstance(query, Count) else ())
        if not domain:
            raise InvalidInput("a histogram needs the states of the plan's model")
        code = record.positions(domain, named=bool(states))
        made.append((column, "is in no state of the plan", record.there & code.is_null()))
    elif isinstance(query, Sum | Mean | Linear):
        lattice, number = query.lattice(), record.numbers()
        outside = (number < lattice.lower) | (number > lattice.upper)
        made.append((column, "is not a number", record.there & number.is_null()))
        made.append((column, "is outside the range, and will be clipped", outside.fill_null(False)))
    return made
