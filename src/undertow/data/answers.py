"""Exact answers in whole numbers: counts, or steps of a lattice, one list for each group.

Whole numbers are added, never floats, so that the order of rows does not matter and replacing a
record moves an answer by no more than its sensitivity.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from undertow.data.folds import CODE, TOTAL, CountTable, Fold, Pairs, check_whole, feed, pieces
from undertow.data.grid import ABSENT, GROUP, PERSON
from undertow.data.states import placed
from undertow.errors import InvalidInput, UnknownState
from undertow.queries import AnyQuery, Lattice, State, Transitions, rest_of

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = [
    "Answers",
    "domain_of",
    "evaluate",
    "numbers_of_states",
    "weighted",
]


_STEP, _INSIDE = "\0step", "\0inside"
_HIGH, _LOW = "\0high", "\0low"
_HALF = 2**27
"""Steps are added in two parts, so that no sum of 64 bits overflows below 2**36 rows."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The exact answer before noise: private.

    ``groups`` is None without groups, ``numbers`` one list per group, ``rows`` the number of
    records of each.
    """

    groups: tuple[Any, ...] | None
    numbers: list[list[int]]
    rows: list[int]

    def __repr__(self) -> str:
        """Return the shape of the answer, not the answer."""
        return f"Answers(groups={self.groups!r}, rows={self.rows!r}, numbers=<private>)"


def evaluate(
    data: "Data", query: AnyQuery, states: tuple[State, ...], missing: State = "any"
) -> Answers:
    """Return the exact answer of a query on data: see `Data.answers`."""
    rest = rest_of(missing, states)
    if isinstance(query, Transitions):
        return _transitions(data, query, states, rest)
    if query.integral:
        return _count(data, query, states, rest)
    states = states or tuple(state for state, _ in query.values or ())
    lattice = query.valued(states).lattice()  # refused where there is none
    step = _steps(data, lattice, states, missing)
    gap = _gap_step(data, lattice, states)
    return _sum(data, step, gap) if lattice.weights is None else _linear(data, lattice, step, gap)


def _steps(data: "Data", lattice: Lattice, states: tuple[State, ...], missing: State) -> "pl.Expr":
    """Return the step of each record: that of its state, or of the number itself without states."""
    import polars as pl

    if lattice.places is None:
        return placed(data.record.numbers(), lattice).alias(_STEP)
    places, otherwise = lattice.steps_of(states, missing)
    code = data.record.positions(states, named=True)
    step = code.replace_strict(
        list(range(len(places))), places, default=otherwise, return_dtype=pl.Int64
    )
    return step.fill_null(otherwise).alias(_STEP)


def domain_of(query: AnyQuery, states: tuple[State, ...]) -> tuple[State, ...]:
    """Return the states among which records are counted: those of the plan's model, if any."""
    domain = states or query.named
    if not domain:
        raise InvalidInput(f"{query.kind} needs the states of the plan's model; pass states")
    for state in query.named:
        if state not in domain:
            raise UnknownState(f"the count asks for {state!r}, which is not among {domain}")
    return domain


def _coded(
    data: "Data", domain: tuple[State, ...], states: tuple[State, ...], rest: State | None
) -> "pl.Expr":
    """Return the places of the records' states; those of missing records are that of ``rest``."""
    code = data.record.positions(domain, named=bool(states))
    return (code if rest is None else code.fill_null(domain.index(rest))).alias(CODE)


def _count(data: "Data", query: AnyQuery, states: tuple[State, ...], rest: State | None) -> Answers:
    domain = domain_of(query, states)
    filled = _filled(data, domain)
    tables = _count_rows(data, _coded(data, domain, states, rest), [GROUP, CODE], {})
    numbers = [[0] * len(domain) for _ in tables.totals]
    for group, place, n in tables.rows:
        if place is not None:
            numbers[group][place] += n
    for group, n in enumerate(tables.absent):
        if filled is not None:
            numbers[group][filled] += n
    numbers = [numbers_of_states(query, domain, row) for row in numbers]
    return Answers(tables.names, numbers, tables.totals)


def numbers_of_states(query: AnyQuery, domain: tuple[State, ...], counts: list[int]) -> list[int]:
    """Return the numbers of an answer from the count of each state: one for each of its bins.

    >>> from undertow.queries import Count
    >>> numbers_of_states(Count("b"), ("a", "b"), [3, 4])
    [4]
    """
    count = dict(zip(domain, counts, strict=True))
    return [sum(count[state] for state in states) for states in query.bins(domain)]


def _filled(data: "Data", domain: tuple[State, ...]) -> int | None:
    """Return the place of the state that absent steps have, None where they are no records."""
    if not data.grid.fill:
        return None
    if data.gaps not in domain:
        raise InvalidInput(f"gaps have the state {data.gaps!r}, which is not among {domain}")
    return domain.index(data.gaps)


def _transitions(
    data: "Data", query: Transitions, states: tuple[State, ...], rest: State | None
) -> Answers:
    """Return the table of pairs of each group; a pair has both its records in the window."""
    domain = domain_of(query, states)
    filled, size = _filled(data, domain), len(domain)
    code = _coded(data, domain, states, rest)
    pairs = Pairs(data.grid, size, filled)
    tables = _count_rows(data, code, [GROUP], {}, pairs)
    numbers = [[0] * size**2 for _ in tables.totals]
    for key, table in pairs.tables.items():
        if key in tables.order:
            numbers[tables.order[key]] = [int(n) for n in table.ravel()]
    return Answers(tables.names, numbers, tables.totals)


def _sum(data: "Data", step: "pl.Expr", gap: int) -> Answers:
    import polars as pl

    sums = {
        _HIGH: (pl.col(_STEP) // _HALF).sum(),
        _LOW: (pl.col(_STEP) % _HALF).sum(),
    }
    tables = _count_rows(data, step, [GROUP], sums)
    numbers = [[n * gap] for n in tables.absent]
    for group, _, high, low in tables.rows:  # in Python's whole numbers, which do not overflow
        numbers[group][0] += high * _HALF + low
    return Answers(tables.names, numbers, tables.totals)


def _gap_step(data: "Data", lattice: Lattice, states: tuple[State, ...]) -> int:
    """Return the step of an absent record: that of the gaps' state or number, or of a missing one.

    Without states, a state that is no number counts as a missing value.
    """
    filled = _filled(data, states) if states else None
    if lattice.places is not None and filled is not None:
        return lattice.places[filled]
    return lattice.missing if isinstance(data.gaps, str) else lattice.place(data.gaps)


def _linear(data: "Data", lattice: Lattice, step: "pl.Expr", gap: int) -> Answers:
    """Return a weighted sum for each group, which must be one person's whole series."""
    weights = lattice.weights or ()
    check_whole(data, "a weighted sum")
    tables = _count_rows(data, step, [GROUP, PERSON], {})
    names = (None,) if tables.names is None else tables.names
    per_group = Counter(row[0] for row in tables.rows)  # one row for each person
    for group, (name, total) in enumerate(zip(names, tables.totals, strict=True)):
        persons = per_group[group]
        if persons > 1 or total != len(weights):
            where = "the data" if tables.names is None else f"group {name!r}"
            raise InvalidInput(
                f"{len(weights)} weights need {len(weights)} records of one person; {where} has "
                f"{total} of {max(persons, 1)}"
            )
    places: list[list[int]] = [[] for _ in tables.totals]
    for group, inside, place, absent in _ordered(data, step, tables):
        places[group] += [place] * inside + [gap] * absent
    return Answers(tables.names, [[weighted(row, lattice)] for row in places], tables.totals)


def weighted(places: Sequence[int], lattice: Lattice) -> int:
    """Return the steps of a weighted sum: a record has |weight| of them, with the weight's sign.

    Halves are rounded up. The places are those of as many records as there are weights.
    """
    # each product is rounded by itself: one record moves the sum by its own weight at most
    steps, pairs = lattice.steps, zip(places, lattice.weights or (), strict=True)
    return sum((2 * place * weight + steps) // (2 * steps) for place, weight in pairs)


def _ordered(
    data: "Data", step: "pl.Expr", tables: "_CountedRows"
) -> "list[tuple[int, bool, int, int]]":
    """Return group, presence, step and absences after it, of all rows in order of time."""
    import polars as pl

    grid, (whole,) = data.grid, pieces(data, step)
    rows, inside = grid.windowed(whole.lazy()).with_columns(pl.lit(0).alias(ABSENT)), pl.lit(True)
    if grid.fill:
        rows, inside = grid.absences(whole.lazy(), ordered=True), grid.inside()
    columns = GROUP, inside.alias(_INSIDE), _STEP, ABSENT
    records = rows.drop_nulls(GROUP).select(columns).collect()
    return [
        (tables.order[group], inside, place, absent)
        for group, inside, place, absent in records.iter_rows()
        if group in tables.order
    ]


@dataclass(frozen=True, slots=True)
class _CountedRows:
    """Counted rows of a query: each with its group's place first, and the records per group."""

    names: tuple[Any, ...] | None
    order: dict[Any, int]
    rows: list[tuple[Any, ...]]
    absent: list[int]
    totals: list[int]


def _count_rows(
    data: "Data", column: "pl.Expr", keys: list[str], sums: "dict[str, pl.Expr]", *also: Fold
) -> _CountedRows:
    """Return the rows counted by keys, the group first, after the shape was checked.

    The table is fed to ``also`` in the same pass.
    """
    table = CountTable(data.grid, keys, sums)
    data.checked(feed(data, [table, *also], column).summary)
    counted, lost = table.counted(), table.absent()
    names, order = data.group_order([*counted[GROUP], *lost])
    absent = [0] * len(order)
    for group, n in lost.items():
        absent[order[group]] = n
    totals = list(absent)  # records of each group: absent steps, and rows
    columns = [*keys, TOTAL, *sums]
    rows = [(order[row[0]], *row[1:]) for row in counted.select(columns).iter_rows()]
    for row in rows:
        totals[row[0]] += row[len(keys)]
    return _CountedRows(names, order, rows, absent, totals)
