"""Step 4: the plan, every method beside it, and leakage and error as the limit moves."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from undertow import MarkovChain, PureDP, compare, leakage
from undertow.adversaries import Against, words
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.models.sets import AnyModel
from undertow.numerics import Array, check_epsilon
from undertow.planning.compare import ErrorCurves, Row, error_curves
from undertow.progress import doing, inside
from undertow_studio.charts.lines import cost_chart, leakage_chart
from undertow_studio.code import code_for_plan
from undertow_studio.pages.release import promise
from undertow_studio.questions import Question
from undertow_studio.studio import see, studio_of, work_of

__all__ = ["CostLine", "Costs", "router"]

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


@dataclass(frozen=True, slots=True)
class Costs:
    """Lines over one axis, and the place on it that was asked for."""

    places: tuple[float, ...]
    curves: tuple[CostLine, ...]
    mark: float | None = None


def grid(middle: float, points: int, decades: float = 1.0) -> tuple[float, ...]:
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


def curves_of(curves: ErrorCurves, mark: float | None = None) -> Costs:
    """Return error curves as lines, those that coincide as one.

    >>> from undertow import Count
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=100)
    >>> errors = error_curves(Count(1), chain, [1.0, 2.0], methods=["group", "exchange"])
    >>> [curve.name for curve in curves_of(errors, 1.0).curves]
    ['group', 'exchange']
    """
    drawn: list[tuple[list[str], Array]] = []
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
    return Costs(
        tuple(map(float, curves.limits)),
        tuple(
            CostLine(
                ", ".join(names),
                "certified" if curves.certified[names[0]] else "published",
                curves.protects[names[0]],
                tuple(_finite(float(value)) if value > 0 else None for value in values),
            )
            for names, values in drawn
        ),
        mark,
    )


_KNOWS = {
    "any": "knows any other records",
    "ignorant": "knows nothing",
    "informed": "knows all other records",
}


def leakage_view(
    model: AnyModel,
    places: Sequence[float],
    against: Against = "any",
    mark: float | None = None,
    tick: Callable[[], object] = lambda: None,
) -> Costs:
    """Return the leakage against the DP level: certified, as published, and as naively thought.

    The certified line is what any algorithm of the level can leak, rounded up; beside it stand the
    attacker who knows nothing, the bound for any dependence (records times the
    level), the published bounds of a chain, and the level itself, which would be right if records
    were independent. Two leakages for each level; ``tick`` is called after each level.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=100)
    >>> view = leakage_view(chain, [1.0, 2.0])
    >>> [(curve.name, curve.basis) for curve in view.curves][:2]
    [('knows any other records', 'certified'), ('knows nothing', 'certified')]
    """
    if any(second <= first for first, second in pairwise(places)):
        raise InvalidInput("a curve needs DP levels in increasing order")
    adversaries: list[Against] = [against] if against == "ignorant" else [against, "ignorant"]
    leakages: list[list[float | None]] = [[] for _ in adversaries]
    for level in places:
        for which, (whom, values) in enumerate(zip(adversaries, leakages, strict=True)):
            try:
                values.append(_finite(leakage(PureDP(level), model, whom).upper))
            except NotSupported:
                if which == 0:
                    raise
                values.append(None)
        tick()
    curves = [
        CostLine(
            _KNOWS[whom] if isinstance(whom, str) else "knows these records", "certified",
            whom if isinstance(whom, str) else "this attacker", tuple(values),
        )
        for whom, values in zip(adversaries, leakages, strict=True)
        if any(value is not None for value in values)
    ]  # fmt: skip
    return Costs(tuple(places), (*curves, *_rulers(model, places)), mark)


def _rulers(model: AnyModel, places: Sequence[float]) -> list[CostLine]:
    """Return published bounds, the bound for any dependence, and the level itself."""
    curves = []
    if isinstance(model, MarkovChain):
        for name, constant in (("Lange", lange_constant), ("Zhao", zhao_constant)):
            try:
                more = constant(model)
            except MethodRefused:
                continue
            values = tuple(level + more for level in places)
            curves.append(CostLine(f"{name} (published)", "published", "any", values))
    most = model.dependent_records() or model.length
    if most is not None and 1 < most < math.inf:
        values = tuple(level * most for level in places)
        curves.append(CostLine("any dependence", "certified", "any", values))
    return [*curves, CostLine("if records were independent", "plain", "any", tuple(places))]


def _finite(value: float) -> float | None:
    """Return a value that can be drawn, None for one that cannot."""
    return value if math.isfinite(value) else None


_LEVELS, _LIMITS = 11, 9
"""Places of a line, an odd number: the one that was asked for is in the middle."""


@dataclass(frozen=True, slots=True)
class CostLines:
    """The lines of the page on costs; None, with the reason, where there are none."""

    leakage: Costs | None
    errors: Costs | None
    reasons: tuple[str, ...]


def compute_methods(question: Question, model: AnyModel) -> tuple[tuple[Row, ...], str | None]:
    """Return the rows of all methods, and the name of the best."""
    model = question.model(model)
    table = compare(
        question.query(model), model, question.limit, question.attacker(), question.secret()
    )
    # a failure may hold what cannot be sent between processes, and its words are in the row
    rows = tuple(replace(row, failure=None) for row in table)
    return rows, None if table.best is None else table.best.method


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
            limits = grid(question.limit, _LIMITS)
            with inside("error against the limit"):
                curves = error_curves(
                    question.query(model), model, limits, question.attacker(),
                    tick=_Counted("limits", len(limits)), secret=question.secret(),
                )  # fmt: skip
            errors = curves_of(curves, question.limit)
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
    question, plan = studio.question(work), studio.plan(work)
    if work.plan is not None:  # a plan that was brought along has its own limit
        question = replace(question, limit=plan.limit)
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
    rows, best = studio.need(key, compute_methods, question, model, later=True)
    measured = list(dict.fromkeys(one for row in rows for one in row.measures))
    whom = {
        row.method: _PROTECTS[row.protects]
        if isinstance(row.protects, str)
        else words(row.protects)
        for row in rows
    }
    return studio.page(
        "methods", work=work, rows=rows, best=best, measured=measured, question=question, whom=whom,
        finite=_finite,
    )  # fmt: skip


_PROTECTS = {**_KNOWS, "informed": "knows all others"}


@router.get("/w/{name}/lines")
async def lines(request: Request, name: str) -> Response:
    """Show leakage against DP level, and error against the limit."""
    studio, work = studio_of(request), work_of(request, name)
    question, model, plan = studio.question(work), studio.model(work), studio.plan(work)
    key = ("lines", work.model_name, question)
    cost_lines = studio.need(key, compute_lines, question, model, plan.dp_epsilon, later=True)
    return studio.page(
        "lines", work=work, found=cost_lines, reasons=cost_lines.reasons,
        leakage=_drawn(leakage_chart, cost_lines.leakage),
        errors=_drawn(cost_chart, cost_lines.errors),
    )  # fmt: skip


def _drawn(chart: Callable[[Costs], Markup], costs: Costs | None) -> Markup | None:
    if costs is None:
        return None
    try:
        return chart(costs)
    except NotSupported:
        return None
