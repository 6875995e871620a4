"""Step 4: the plan, every method beside it, and leakage and error as the limit moves."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response

from undertow import (
    MarkovChain,
    Person,
    Plan,
    PureDP,
    Redacted,
    Series,
    Window,
    calibrate,
    compare,
    leakage,
)
from undertow.adversaries import Against
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.methods import METHODS, find_method
from undertow.models.fitting.checks import failed
from undertow.models.sets import AnyModel
from undertow.numerics import check_epsilon
from undertow.planning.compare import Comparison, ErrorCurves, Row, error_curves
from undertow.progress import doing, inside
from undertow.queries import AnyQuery, LocalQuery, Task
from undertow_studio.charts.lines import cost_chart, leakage_chart
from undertow_studio.code import code_for_plan
from undertow_studio.pages.release import promise
from undertow_studio.questions import Question
from undertow_studio.studio import see, studio_of, work_of

__all__ = [
    "CostLine",
    "CostLines",
    "CostRow",
    "Costs",
    "beside",
    "compute_lines",
    "compute_methods",
    "cost_table",
    "curves_of",
    "error_view",
    "finite",
    "grid",
    "leakage_view",
    "local_lines",
    "named",
    "router",
]

router = APIRouter()

_SAME = 5e-3
"""Relative distance at which two curves are one to the eye, and share a line."""


@dataclass(frozen=True, slots=True)
class CostLine:
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
    curves: tuple[CostLine, ...]
    mark: float | None = None
    measure: str = ""

    def table(self) -> tuple[tuple[str, ...], tuple[tuple[float | None, ...], ...]]:
        """Return the table behind the figure: its head, and a row for each place.

        >>> Costs((1.0,), (CostLine("exact", "certified", "any", (2.0,)),)).table()
        (('exact',), ((1.0, 2.0),))
        """
        rows = zip(self.places, *(curve.values for curve in self.curves), strict=True)
        return tuple(curve.name for curve in self.curves), tuple(rows)

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


_MEASURES = {
    "flip": ("share of records that are false", "expected flips", False),
    "redact": ("share of records that are erased", "utility", True),
}
"""What a local plan costs: in words, the measure that has it, and whether that is what is left."""


def local_lines(
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
    listed = methods or [one for one in known if known[one].best != "never"]
    wanted = [find_method(query.task, one) for one in listed]
    wanted = [method for method in wanted if methods or method.suits(model)]
    drawn = [check.name for check in failed(model.checks)]  # a line promises nothing
    values: dict[str, list[float]] = {method.name: [] for method in wanted}
    for place in places:
        for method in wanted:
            whom = against if method.guards(against) else "ignorant"
            try:
                plan = calibrate(query, model, place, whom, method=method.name, accept=drawn)
                share = dict(plan.measures).get(name, math.nan)
                values[method.name].append(1 - share if kept else share)
            except NotSupported:
                values[method.name].append(math.nan)
        if tick is not None:
            tick()
    who = {m.name: named(against if m.guards(against) else "ignorant") for m in wanted}
    curves = ErrorCurves(
        np.array(places), {one: np.array(held) for one, held in values.items()}, who,
        {method.name: method.certified for method in wanted},
    )  # fmt: skip
    return replace(curves_of(curves, limit, query.task), measure=words)


def curves_of(curves: ErrorCurves, mark: float | None = None, task: Task = "answer") -> Costs:
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
            CostLine(
                ", ".join(names),
                "certified" if curves.certified[names[0]] else "published",
                curves.protects[names[0]],
                tuple(finite(float(value)) if value > 0 else None for value in values),
                "; ".join(known[name].summary for name in names if name in known),
            )
            for names, values in drawn
        ),
        mark,
    )


def beside(model: AnyModel, places: Sequence[float]) -> list[CostLine]:
    """Return published bounds and rulers."""
    curves = []
    if isinstance(model, MarkovChain):
        for name, constant in (("Lange", lange_constant), ("Zhao", zhao_constant)):
            try:
                more = constant(model)
            except MethodRefused:
                continue
            values = tuple(level + more for level in places)
            basis = "as printed in the paper; not certified here"
            curves.append(CostLine(f"{name} (published)", "published", "any", values, basis))
    most = model.dependent_records() or model.length
    if most is not None and 1 < most < math.inf:
        values = tuple(level * most for level in places)
        basis = f"holds for any dependence among {most} records"
        curves.append(CostLine("any dependence", "certified", "any", values, basis))
    basis = "what the level would leak if no record told anything about another"
    curves.append(CostLine("if records were independent", "plain", "any", tuple(places), basis))
    return curves


def named(against: Against) -> str:
    """Return an attacker in a word or two."""
    return against if isinstance(against, str) else "this attacker"


def finite(value: float) -> float | None:
    """Return a value that can be drawn, None for one that cannot."""
    return value if math.isfinite(value) else None


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
    mark: float | None = None,
    tick: Callable[[], object] | None = None,
) -> Costs:
    """Return the leakage against the DP level: certified, as published, and as naively thought.

    The certified line is what any algorithm of the level can leak, rounded up; beside it stand the
    attacker who knows nothing, the bound for any dependence (records times the
    level), the published bounds of a chain, and the level itself, which would be right if records
    were independent. Two leakages for each level; ``tick`` is called after each level.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=100)
    >>> found = leakage_view(chain, [1.0, 2.0])
    >>> [(curve.name, curve.basis) for curve in found.curves][:2]
    [('knows any other records', 'certified'), ('knows nothing', 'certified')]
    """
    places = tuple(grid(mark or 0.5, 15, 1.5) if levels is None else levels)
    if any(second <= first for first, second in pairwise(places)):
        raise InvalidInput("a curve needs DP levels in increasing order")
    wanted: list[Against] = [against] if against == "ignorant" else [against, "ignorant"]
    leakages: dict[int, list[float | None]] = {which: [] for which in range(len(wanted))}
    for level in places:
        for which, whom in enumerate(wanted):
            try:
                value = leakage(PureDP(level), model, whom).upper
            except NotSupported:
                if which == 0:
                    raise
                leakages[which].append(None)
                continue
            leakages[which].append(finite(value))
        if tick is not None:
            tick()
    curves = [
        CostLine(_knows(whom), "certified", named(whom), tuple(leakages[which]), _CERTIFIED)
        for which, whom in enumerate(wanted)
        if any(value is not None for value in leakages[which])
    ]
    curves += beside(model, places)
    return Costs(places, tuple(curves), mark)


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
    errors = error_curves(
        query,
        model, places, against, methods, tick,
        delta=delta, releases=releases, secret=secret,
    )  # fmt: skip
    return curves_of(errors, limit)


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
    report: Callable[[Row], object] | None = None
    if each is not None:
        stream = each

        def report(row: Row) -> object:
            return stream(_row(row, query))

    table = compare(query, model, limit, against, methods=methods, each=report, **more)
    best = table.best
    return tuple(_row(row, query, best is not None and row.plan is best) for row in table), table


def _row(row: Row, query: AnyQuery | LocalQuery, best: bool = False) -> CostRow:
    method, fields = METHODS[query.task][row.method], row.to_dict()
    amount = row.scale if row.scale is not None else row.sigma
    leak = row.leakage
    return CostRow(
        method=row.method,
        words=method.summary,
        citation=method.citation,
        basis=fields["basis"],
        protects=fields["protects"],
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


_LEVELS, _LIMITS = 11, 9
"""Places of a line, an odd number: the one that was asked for is in the middle."""


@dataclass(frozen=True, slots=True)
class CostLines:
    """The lines of the page on costs; None, with the reason, where there are none."""

    leakage: Costs | None
    errors: Costs | None
    reasons: tuple[str, ...]


def compute_methods(question: Question, model: AnyModel) -> tuple[CostRow, ...]:
    """Return all methods side by side."""
    model = question.model(model)
    more = {name: value for name, value in question.arguments().items() if name == "secret"}
    rows, _ = cost_table(question.query(model), model, question.limit, question.attacker(), **more)
    return rows


def compute_lines(question: Question, model: AnyModel, level: float) -> CostLines:
    """Return leakage against DP level, and error against the limit for every method."""
    model = question.model(model)
    reasons: list[str] = []
    leaks = errors = None
    try:
        levels = grid(min(max(level, 0.01), 20.0), _LEVELS, 1.5)
        with inside("leakage against DP level"):
            tick = _Counted("levels", len(levels))
            leaks = leakage_view(model, levels, question.attacker(), levels[_LEVELS // 2], tick)
    except NotSupported as reason:
        reasons.append(str(reason))
    try:
        if not question.local:
            limits, query = grid(question.limit, _LIMITS), question.query(model)
            with inside("error against the limit"):
                errors = error_view(
                    query, model, question.limit, question.attacker(), limits,
                    tick=_Counted("limits", len(limits)), secret=question.secret(),
                )  # fmt: skip
    except NotSupported as reason:
        reasons.append(str(reason))
    return CostLines(leaks, errors, tuple(reasons))


class _Counted:
    """Says how many of a number of places are done; called after each."""

    def __init__(self, words: str, total: int) -> None:
        self.words, self.total, self.done = words, total, 0
        doing(words, 0, total)

    def __call__(self) -> None:
        self.done += 1
        doing(self.words, self.done, self.total)


@router.get("/w/{name}/costs")
async def costs(request: Request, name: str) -> Response:
    """Show the plan; its methods and lines follow."""
    studio, work = studio_of(request), work_of(request, name)
    question, plan = _shown_question(studio.question(work), work.plan), studio.plan(work)
    return studio.page(
        "costs", work=work, question=question, limit=plan.limit, **promise(plan),
        code=code_for_plan(work, studio.model(work), question),
    )  # fmt: skip


@router.post("/w/{name}/limit")
async def limit(request: Request, name: str) -> Response:
    """Take another limit."""
    studio, work = studio_of(request), work_of(request, name)
    form = await request.form()
    try:
        wanted = float(str(form.get("limit", "")))
    except ValueError:
        raise InvalidInput("the limit on leakage is a number") from None
    question = replace(studio.question(work), limit=wanted)
    return see(studio.works.change(work, question=question, plan=None), "costs")


@router.get("/w/{name}/methods")
async def methods(request: Request, name: str) -> Response:
    """Show all methods side by side."""
    studio, work = studio_of(request), work_of(request, name)
    question, model = studio.question(work), studio.model(work)
    key = ("methods", work.model_name, question)
    rows = studio.need(key, compute_methods, question, model, later=True)
    measured = list(dict.fromkeys(one for row in rows for one in row.measures))
    return studio.page("methods", work=work, rows=rows, measured=measured, question=question)


@router.get("/w/{name}/lines")
async def lines(request: Request, name: str) -> Response:
    """Show leakage against DP level, and error against the limit."""
    studio, work = studio_of(request), work_of(request, name)
    question, model, plan = studio.question(work), studio.model(work), studio.plan(work)
    key = ("lines", work.model_name, question)
    cost_lines = studio.need(key, compute_lines, question, model, plan.dp_epsilon, later=True)
    drawn = [_drawn(leakage_chart, cost_lines.leakage), _drawn(cost_chart, cost_lines.errors)]
    return studio.page(
        "lines",
        work=work,
        found=cost_lines,
        leakage=drawn[0],
        errors=drawn[1],
        reasons=cost_lines.reasons,
    )


def _shown_question(question: Question, plan: "Plan[Any] | None") -> Question:
    """Return the question as it is shown beside a plan that was brought along."""
    return question if plan is None else replace(question, limit=plan.limit)


def _drawn(chart: Any, costs: Costs | None) -> Any:
    if costs is None:
        return None
    try:
        return chart(costs)
    except NotSupported:
        return None
