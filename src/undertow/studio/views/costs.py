"""What a guarantee costs: leakage against DP level, error against limit, the table behind it."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from undertow.adversaries import Against, Window
from undertow.base_query import Task
from undertow.bounds.engine import leakage
from undertow.bounds.published.chains import lange_constant, zhao_constant
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.mechanisms import PureDP
from undertow.methods import METHODS, find_method
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel
from undertow.numerics import check_epsilon
from undertow.planning.comparison import Comparison, ErrorCurves, compare, error_curves
from undertow.planning.rows import Row
from undertow.planning.search import calibrate
from undertow.queries import AnyQuery, LocalQuery, Redacted, Series

__all__ = [
    "CostRow",
    "Costs",
    "Curve",
    "cost_table",
    "curves_of",
    "error_view",
    "grid",
    "leakage_view",
]

_SAME = 5e-3
"""Relative distance at which two curves are one to the eye, and share a line."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line: its names, whether it is proved, whom it protects, and a value for each place.

    ``basis`` is "certified", "published", or "plain" for a line that serves as a ruler. Values are
    None where there is no answer.
    """

    name: str
    basis: str
    protects: str
    values: tuple[float | None, ...]
    words: str = ""


@dataclass(frozen=True, slots=True)
class Costs:
    """Lines over one axis, and the place on it that was asked for; ``measure`` says of what."""

    places: tuple[float, ...]
    curves: tuple[Curve, ...]
    asked: float | None = None
    measure: str = ""

    def table(self) -> tuple[tuple[str, ...], tuple[tuple[float | None, ...], ...]]:
        """Return the table behind the figure: its head, and a row for each place.

        >>> Costs((1.0,), (Curve("exact", "certified", "any", (2.0,)),)).table()
        (('exact',), ((1.0, 2.0),))
        """
        rows = zip(self.places, *(curve.values for curve in self.curves), strict=True)
        return tuple(curve.name for curve in self.curves), tuple(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return asdict(self)


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


def grid(middle: float, points: int = 13, decades: float = 1.0) -> tuple[float, ...]:
    """Return round places around a value, the value itself among them.

    >>> [round(place, 2) for place in grid(1.0, 5)]
    [0.1, 0.32, 1.0, 3.2, 10.0]
    """
    check_epsilon(middle, "middle")
    if points < 3 or points % 2 == 0:
        raise InvalidInput(f"a grid has an odd number of points from 3 on, found {points}")
    half = points // 2
    around = (middle * 10 ** (decades * place / half) for place in range(-half, half + 1))
    return tuple(
        middle if place == half else float(f"{value:.2g}") for place, value in enumerate(around)
    )


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
            found[which].append(_finite(value))
        if tick is not None:
            tick()
    curves = [
        Curve(_knows(whom), "certified", _whom(whom), tuple(found[which]), _CERTIFIED)
        for which, whom in enumerate(wanted)
        if any(value is not None for value in found[which])
    ]
    curves += _beside(model, places)
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
    protect: Window | None = None,
) -> Costs:
    """Return the expected error against the limit for every method; see `error_curves`.

    Methods whose errors agree share a line. ``tick`` is called after each limit. Of a flipped
    series the error is the share of false records, of a redacted one that of erased records: one
    plan for each method and limit, by default at fewer limits and by the quicker methods.

    >>> from undertow.queries import Count
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=100)
    >>> found = error_view(Count(1), chain, 1.0, limits=[1.0, 2.0], methods=["group", "exchange"])
    >>> [curve.name for curve in found.curves]
    ['group', 'exchange']
    """
    check_epsilon(limit, "limit")
    if isinstance(query, Series | Redacted):
        places = grid(limit, 7) if limits is None else tuple(limits)
        return _local_view(query, model, places, limit, against, methods, tick)
    places = grid(limit) if limits is None else tuple(limits)
    found = error_curves(
        query,
        model, places, against, methods, tick,
        delta=delta, releases=releases, protect=protect,
    )  # fmt: skip
    return curves_of(found, limit)


_MEASURES = {
    "flip": ("share of records that are false", "expected flips", False),
    "redact": ("share of records that are erased", "utility", True),
}
"""What a local plan costs: in words, the measure that has it, and whether that is what is left."""


def _local_view(
    query: LocalQuery,
    model: AnyModel,
    places: tuple[float, ...],
    limit: float,
    against: Against,
    methods: Sequence[str] | None,
    tick: Callable[[], object] | None,
) -> Costs:
    """Return what a flipped or redacted series costs by limit and method."""
    words, name, kept = _MEASURES[query.task]
    known = METHODS[query.task]
    # noise for whole series is searched for minutes: where it is asked for by name
    listed = methods or [one for one in known if not known[one].whole]
    wanted = [find_method(query.task, one) for one in listed]
    wanted = [method for method in wanted if methods or method.suits(model)]
    values: dict[str, list[float]] = {method.name: [] for method in wanted}
    for place in places:
        for method in wanted:
            whom = against if method.guards(against) else "ignorant"
            try:
                plan = calibrate(query, model, place, whom, method.name)
                found = dict(plan.measures).get(name, math.nan)
                values[method.name].append(1 - found if kept else found)
            except NotSupported:
                values[method.name].append(math.nan)
        if tick is not None:
            tick()
    who = {m.name: _whom(against if m.guards(against) else "ignorant") for m in wanted}
    curves = ErrorCurves(
        np.array(places), {one: np.array(held) for one, held in values.items()}, who,
        {method.name: method.certified for method in wanted},
    )  # fmt: skip
    return replace(curves_of(curves, limit, query.task), measure=words)


def curves_of(curves: ErrorCurves, asked: float | None = None, task: Task = "answer") -> Costs:
    """Return error curves as lines, those that coincide as one."""
    drawn: list[tuple[list[str], np.ndarray[Any, Any]]] = []
    for name, values in curves.errors.items():
        if not (np.isfinite(values) & (values > 0)).any():
            continue
        for names, other in drawn:
            alike = curves.certified[names[0]] == curves.certified[name]
            alike &= curves.protects[names[0]] == curves.protects[name]
            if alike and np.allclose(other, values, rtol=_SAME, atol=0, equal_nan=True):
                names.append(name)
                break
        else:
            drawn.append(([name], values))
    known = METHODS[task]
    return Costs(
        tuple(map(float, curves.limits)),
        tuple(
            Curve(
                ", ".join(names),
                "certified" if curves.certified[names[0]] else "published",
                curves.protects[names[0]],
                tuple(_finite(float(value)) if value > 0 else None for value in values),
                "; ".join(known[name].summary for name in names if name in known),
            )
            for names, values in drawn
        ),
        asked,
    )


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

    >>> from undertow.queries import Count
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

    table = compare(query, model, limit, against, methods, each=told, **more)
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
        upper=None if leak is None else _finite(leak.upper),
        reason=row.reason,
        best=best,
    )


def _beside(model: AnyModel, places: Sequence[float]) -> list[Curve]:
    """Return published bounds and rulers."""
    curves = []
    if isinstance(model, MarkovChain):
        for name, constant in (("Lange", lange_constant), ("Zhao", zhao_constant)):
            try:
                more = constant(model)
            except MethodRefused:
                continue
            values = tuple(level + more for level in places)
            said = "as printed in the paper; not certified here"
            curves.append(Curve(f"{name} (published)", "published", "any", values, said))
    most = model.dependent_records() or model.length
    if most is not None and 1 < most < math.inf:
        values = tuple(level * most for level in places)
        said = f"holds for any dependence among {most} records"
        curves.append(Curve("whatever the dependence", "certified", "any", values, said))
    said = "what the level would leak if no record told anything about another"
    curves.append(Curve("if records were independent", "plain", "any", tuple(places), said))
    return curves


_CERTIFIED = "what any algorithm of this DP level can leak, proved and rounded up"


_KNOWS = {
    "any": "knows any other records",
    "ignorant": "knows nothing",
    "informed": "knows all other records",
}


def _knows(against: Against) -> str:
    return _KNOWS[against] if isinstance(against, str) else "knows these records"


def _whom(against: Against) -> str:
    return against if isinstance(against, str) else "this attacker"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
