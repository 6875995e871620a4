"""Problems of a table for its curator: columns and rows, never a value."""

import io
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from undertow.data.answers import domain_of
from undertow.data.expressions import TEXT
from undertow.data.folds import BLOCKS, PickedRows, facts_of, feed
from undertow.data.grid import GROUP, WRONG, look_alikes
from undertow.data.readers.files import blocks
from undertow.data.readers.sources import scan
from undertow.data.records import check_order
from undertow.errors import InvalidInput
from undertow.models.fitting.tally import MOST_STATES
from undertow.models.pedigrees import GENOTYPES
from undertow.numerics import shown
from undertow.queries import AnyQuery, Histogram, Linear, Mean, State, Sum

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.grid import Grid
    from undertow.data.states import Record
    from undertow.data.table import Data
    from undertow.models.base import Model
    from undertow.plan import Plan

__all__ = ["SHOWN", "Problem", "problems", "record_problems", "validate"]

SHOWN = 10
"""Rows that are named for each kind of problem; the others are counted."""

_TEST, _LOOKS = "\0test", "\0looks"
Kind = tuple[str | None, str, "pl.Expr | None", Callable[..., "pl.LazyFrame"]]
"""Kind of problem: the column, the text, a column that the test needs, and the test."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a row (counting from 0), or, with row None, of several rows.

    >>> print(Problem("steps", 3, "is missing"))
    column 'steps', row 3: is missing
    """

    column: str | None
    row: int | None
    what: str

    def __str__(self) -> str:
        """Return the problem in words."""
        column = "the table" if self.column is None else f"column {self.column!r}"
        row = "" if self.row is None else f", row {self.row}"
        return f"{column}{row}: {self.what}"


def problems(data: "Data", query: AnyQuery | None, states: tuple[State, ...]) -> list[Problem]:
    """Check a table for problems: see `Data.problems`.

    Rows without person or time, twice at one time or off the grid, which a release refuses; and
    missing, foreign, or clipped values and rows in no group, which a release takes as the plan
    says. One pass for each kind.
    """
    kinds = _kinds(data, query, states)
    listed = [*_of_lines(data), *_of_names(data, states)]
    for (column, what, _, _), (count, rows_found) in zip(kinds, _found(data, kinds), strict=True):
        listed += [Problem(column, row, what) for row in rows_found]
        if count > len(rows_found):
            more = f"{count - len(rows_found)} more rows" if rows_found else f"{count} rows"
            listed.append(Problem(column, None, f"{more}: {what}"))
    return listed


def validate(data: "Data", plan: "Plan[Any] | None" = None) -> list[Problem]:
    """Check a table for problems, by column and row, for a plan that is to be released from it.

    For the curator's eyes: the result depends on the records. Without a plan no state and no range
    is known, and records are checked for missing values alone.

    >>> import polars as pl
    >>> from undertow import Data
    >>> [(one.column, one.row) for one in validate(Data(pl.DataFrame({"v": [1, None]}), value="v"))]
    [('v', 1)]
    """
    from undertow.data.table import Data

    if not isinstance(data, Data):
        raise InvalidInput(
            f"a table is required, found {shown(data)}; write Data(table, value=...)"
        )
    if plan is None:
        return data.problems()
    query: Any = Histogram() if plan.task != "answer" else plan.noise.query
    return data.problems(query, plan.states, plan.model)


def record_problems(data: "Data", model: "Model") -> list[Problem]:
    """Return in what the records are not those of a model, and whether it was fitted to them."""
    from undertow.data.records import differences, source_of

    problems = [
        Problem(
            None, None, f"{what}: {theirs} in the plan's model, {here} here; a release is refused"
        )
        for what, theirs, here in differences(model, data)
    ]
    if any(member.reach() for member in model.members()):
        try:
            check_order(data)
        except InvalidInput as reason:
            problems.append(Problem(None, None, str(reason)))
    fitted = model.records.source
    if fitted is not None and not data.source.listed and fitted.seen(source_of(data)) == "same":
        what = "the plan's model was fitted to these very records"
        problems.append(Problem(None, None, what))
    return problems


def _kinds(data: "Data", query: AnyQuery | None, states: tuple[State, ...]) -> list[Kind]:
    """Return the kinds of problems to check for."""
    import polars as pl

    grid = data.grid
    kinds: list[Kind] = []
    for wrong in WRONG:
        needed = {"nobody": grid.person, "off": grid.step}.get(wrong, grid.time)
        if needed is not None:
            kinds.append((*grid.complaint(wrong), None, partial(grid.culprits, wrong=wrong)))
    for number, (column, what, test) in enumerate(_of_values(data, query, states)):
        name = f"{_TEST}{number}"
        kinds.append((column, what, test.alias(name), partial(_picked, grid, pl.col(name))))
    if data.by is not None:
        none = pl.col(GROUP).is_null()
        kinds.append((data.by, "is in no group", None, partial(_picked, grid, none)))
    return kinds


def _picked(grid: "Grid", test: "pl.Expr", rows: "pl.LazyFrame") -> "pl.LazyFrame":
    return grid.windowed(rows).filter(test)


def _found(data: "Data", kinds: Sequence[Kind]) -> list[tuple[int, list[int]]]:
    """Return how many rows there are of each kind, and the first of them."""
    shown = 0 if data.source.spread else SHOWN  # rows of a cluster have no numbers
    folds = [PickedRows(data.grid, pick, shown) for _, _, _, pick in kinds]
    feed(data, folds, *(test for _, _, test, _ in kinds if test is not None))
    return [(fold.count, fold.rows) for fold in folds]


def _of_lines(data: "Data") -> list[Problem]:
    """Return whether a CSV file has lines that do not fit its header; a release cuts them off."""
    import polars as pl

    if ".csv" not in data.source.file:
        return []
    try:
        for whole in _texts(data):
            whole.select(pl.all().null_count()).collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return [Problem(None, None, "some line has more fields than the header, or broken quotes")]
    return []


def _texts(data: "Data") -> "Iterator[pl.LazyFrame]":
    """Yield the lines of CSV files with all their fields, in blocks."""
    for path in data.source.paths:
        for lines in blocks(path, path.name.lower(), data.memory // BLOCKS):
            yield scan(io.BytesIO(lines), ragged=False)


def _of_names(data: "Data", states: tuple[State, ...]) -> list[Problem]:
    """Check names of states and groups, and records, for look-alikes."""
    alike = () if states == GENOTYPES else look_alikes(states)  # those differ by case on purpose
    problems = [Problem(data.value, None, f"the states {one}") for one in alike]
    if data.by is not None:
        problems += [
            Problem(data.by, None, f"the groups {one}") for one in look_alikes(_groups(data))
        ]
    planes = data.record.planes
    if states or TEXT not in planes or data.record.mapping or data.record.cuts:
        return problems  # what is in no state of the plan is reported row by row
    text = planes[TEXT].str.normalize("NFKC").str.to_lowercase().str.strip_chars()
    texts = _Texts(data.grid)
    feed(data, [texts], planes[TEXT].alias(_TEST), text.alias(_LOOKS))
    if texts.alike:
        what = "some texts differ only in case, blanks or the width of letters"
        problems.append(Problem(data.value, None, what))
    return problems


class _Texts:
    """A fold of texts and what they look like: whether two that occur look the same.

    Of earlier pieces as many texts are compared with later ones as a fit has states at most.
    """

    ordered = False

    def __init__(self, grid: "Grid") -> None:
        self.grid, self.alike = grid, False
        self._seen: list[list[str | None]] = []

    def feed(self, rows: "pl.DataFrame") -> None:
        texts = self.grid.windowed(rows.lazy()).select(_TEST, _LOOKS).unique().collect()
        self._take(texts.rows())

    def merge(self, state: list[Any]) -> None:
        self.alike |= state[0]
        self._take(state[1])

    def state(self) -> list[Any]:
        return [self.alike, self._seen]

    def _take(self, pairs: Sequence[Sequence[str | None]]) -> None:
        both = {(text, looks) for text, looks in [*self._seen, *pairs]}
        self.alike |= len({text for text, _ in both}) != len({looks for _, looks in both})
        kept = sorted(both, key=lambda pair: (pair[0] is not None, pair[0]))[:MOST_STATES]
        self._seen = [list(pair) for pair in kept]


def _groups(data: "Data") -> tuple[Any, ...]:
    """Return the groups that are declared and those that occur."""
    column = data.source.columns[data.by or ""]
    _, keys = facts_of(data.changed(groups=None))
    occurring = [column.label(key) for key in keys]
    return tuple(dict.fromkeys((*(data.groups or ()), *sorted(occurring, key=str))))


def _looks_like(record: "Record", states: tuple[State, ...]) -> "pl.Expr":
    """Return whether a record is a state but for case, blanks and the width of letters."""
    import polars as pl

    names = [unicodedata.normalize("NFKC", s).lower().strip() for s in states if isinstance(s, str)]
    if TEXT not in record.planes or record.mapping or record.cuts or not names:
        return pl.lit(False)
    text = record.planes[TEXT].str.normalize("NFKC").str.to_lowercase().str.strip_chars()
    return text.is_in(names).fill_null(False)


def _of_values(
    data: "Data", query: AnyQuery | None, states: tuple[State, ...]
) -> "list[tuple[str | None, str, pl.Expr]]":
    """Return the checks of values: the column, the text, and the test."""
    import polars as pl

    record = data.record
    column = data.value
    tests: list[tuple[str | None, str, pl.Expr]] = [(column, "is missing", ~record.there)]
    query = None if query is None else query.exact_query
    if query is not None and (states or query.integral):
        domain = states or domain_of(query, states)
        code = record.positions(domain, named=bool(states))
        foreign = record.there & code.is_null()
        near = foreign & _looks_like(record, domain)
        tests.append((column, "is in no state of the plan", foreign & ~near))
        what = "is in no state of the plan, and differs from one only in case, blanks or width"
        tests.append((column, what, near))
    elif isinstance(query, Sum | Mean | Linear):
        lattice, number = query.lattice(), record.numbers()
        outside = (number < lattice.lower) | (number > lattice.upper)
        tests.append((column, "is not a number", record.there & number.is_null()))
        tests.append(
            (column, "is outside the range, and will be clipped", outside.fill_null(False))
        )
    return tests
