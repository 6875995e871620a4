"""What a guarantee costs: leakage against DP level, error against limit, the table behind it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from undertow.adversaries import Against
from undertow.bounds.engine import leakage
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import PureDP
from undertow.methods import METHODS
from undertow.models.sets import AnyModel
from undertow.numerics import check_epsilon
from undertow.planning.compare import Comparison, Row, compare, error_curves
from undertow.queries import AnyQuery, LocalQuery, Redacted, Series
from undertow.secrets import Person, Window
from undertow_studio.views.lines import (
    CostLine,
    Costs,
    beside,
    curves_of,
    finite,
    grid,
    local_lines,
    named,
)

__all__ = ["CostLine", "CostRow", "Costs", "cost_table", "error_view", "grid", "leakage_view"]


@dataclass(frozen=True, slots=True)
class CostRow:
    """One method in the table: what it costs, whom it protects, what it leaks, or why it cannot."""

    method: str
    words: str
    citation: str
    basis: str
    protects: str
    meets: bool
    noise: str | None
    amount: float | None
    expected_error: float | None
    error_bar: float | None
    measures: dict[str, float]
    lower: float | None
    upper: float | None
    reason: str | None
    best: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return asdict(self)


def leakage_view(
    model: AnyModel,
    levels: Iterable[float] | None = None,
    against: Against = "any",
    asked: float | None = None,
    tick: Callable[[], object] | None = None,
) -> Costs:
    """Return the leakage against the DP level: certified, as published, and as naively thought.

    The certified line is what any algorithm of the level can leak, rounded up; beside it stand the
    attacker who knows nothing, the bound that holds whatever the dependence (records times the
    level), the published bounds of a chain, and the level itself, which would be right if records
    were independent. Two leakages for each level; ``tick`` is called after each level.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=100)
    >>> found = leakage_view(chain, [1.0, 2.0])
    >>> [(curve.name, curve.basis) for curve in found.curves][:2]
    [('knows any other records', 'certified'), ('knows nothing', 'certified')]
    """
    places = tuple(grid(asked or 0.5, 15, 1.5) if levels is None else levels)
    if any(second <= first for first, second in pairwise(places)):
        raise InvalidInput("a curve needs DP levels in increasing order")
    wanted: list[Against] = [against] if against == "ignorant" else [against, "ignorant"]
    found: dict[int, list[float | None]] = {which: [] for which in range(len(wanted))}
    for level in places:
        for which, whom in enumerate(wanted):
            try:
                value = leakage(PureDP(level), model, whom).upper
            except NotSupported:
                if which == 0:
                    raise
                found[which].append(None)
                continue
            found[which].append(finite(value))
        if tick is not None:
            tick()
    curves = [
        CostLine(_knows(whom), "certified", named(whom), tuple(found[which]), _CERTIFIED)
        for which, whom in enumerate(wanted)
        if any(value is not None for value in found[which])
    ]
    curves += beside(model, places)
    return Costs(places, tuple(curves), asked)


def error_view(
    query: AnyQuery | LocalQuery,
    model: AnyModel,
    limit: float,
    against: Against = "any",
    limits: Iterable[float] | None = None,
    methods: Sequence[str] | None = None,
    tick: Callable[[], object] | None = None,
    *,
    delta: float = 0.0,
    releases: int = 1,
    secret: Window | Person | None = None,
) -> Costs:
    """Return the expected error against the limit for every method; see `error_curves`.

    Methods whose errors agree share a line. ``tick`` is called after each limit. Of a flipped
    series the error is the share of false records, of a redacted one that of erased records: one
    plan for each method and limit, by default at fewer limits and by the quicker methods.

    >>> from undertow import Count, MarkovChain
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=100)
    >>> found = error_view(Count(1), chain, 1.0, limits=[1.0, 2.0], methods=["group", "exchange"])
    >>> [curve.name for curve in found.curves]
    ['group', 'exchange']
    """
    check_epsilon(limit, "limit")
    if isinstance(query, Series | Redacted):
        places = grid(limit, 7) if limits is None else tuple(limits)
        return local_lines(query, model, places, limit, against, methods, tick)
    places = grid(limit) if limits is None else tuple(limits)
    found = error_curves(
        query,
        model, places, against, methods, tick,
        delta=delta, releases=releases, secret=secret,
    )  # fmt: skip
    return curves_of(found, limit)


def cost_table(
    query: AnyQuery | LocalQuery,
    model: AnyModel,
    limit: float,
    against: Against = "any",
    methods: Sequence[str] | None = None,
    each: Callable[[CostRow], object] | None = None,
    **more: Any,
) -> tuple[tuple[CostRow, ...], Comparison]:
    """Return all methods side by side, each row given to ``each`` as soon as it is found.

    The comparison itself comes second: it holds the plans. ``more`` goes to `compare`. The best
    row is marked in what is returned, not in what is streamed: it is not known before the end.

    >>> from undertow import Count, MarkovChain
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=50)
    >>> rows, table = cost_table(Count(1), chain, 1.0, methods=["exchange", "group"])
    >>> [(row.method, row.best) for row in rows]
    [('exchange', True), ('group', False)]
    """
    told: Callable[[Row], object] | None = None
    if each is not None:
        stream = each

        def told(row: Row) -> object:
            return stream(_row(row, query))

    table = compare(query, model, limit, against, methods=methods, each=told, **more)
    best = table.best
    return tuple(_row(row, query, best is not None and row.plan is best) for row in table), table


def _row(row: Row, query: AnyQuery | LocalQuery, best: bool = False) -> CostRow:
    method, told = METHODS[query.task][row.method], row.to_dict()
    amount = row.scale if row.scale is not None else row.sigma
    leak = row.leakage
    return CostRow(
        method=row.method,
        words=method.summary,
        citation=method.citation,
        basis=told["basis"],
        protects=told["protects"],
        meets=row.meets,
        noise=row.noise,
        amount=amount,
        expected_error=row.expected_error,
        error_bar=row.error_bar,
        measures=row.measures,
        lower=None if leak is None else leak.lower,
        upper=None if leak is None else finite(leak.upper),
        reason=row.reason,
        best=best,
    )


_CERTIFIED = "what any algorithm of this DP level can leak, proved and rounded up"


_KNOWS = {
    "any": "knows any other records",
    "ignorant": "knows nothing",
    "informed": "knows all other records",
}


def _knows(against: Against) -> str:
    return _KNOWS[against] if isinstance(against, str) else "knows these records"
