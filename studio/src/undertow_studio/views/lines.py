"""Lines of costs: what they are made of, those that coincide as one, and rulers beside them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.methods import METHODS, find_method
from undertow.models.chains import MarkovChain
from undertow.models.fitting.checks import failed
from undertow.models.sets import AnyModel
from undertow.numerics import check_epsilon
from undertow.planning.calibrate import calibrate
from undertow.planning.compare import ErrorCurves
from undertow.queries import LocalQuery, Task

__all__ = ["CostLine", "Costs", "beside", "curves_of", "finite", "grid", "local_lines", "named"]

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
    asked: float | None = None
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
                found = dict(plan.measures).get(name, math.nan)
                values[method.name].append(1 - found if kept else found)
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
            CostLine(
                ", ".join(names),
                "certified" if curves.certified[names[0]] else "published",
                curves.protects[names[0]],
                tuple(finite(float(value)) if value > 0 else None for value in values),
                "; ".join(known[name].summary for name in names if name in known),
            )
            for names, values in drawn
        ),
        asked,
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
            said = "as printed in the paper; not certified here"
            curves.append(CostLine(f"{name} (published)", "published", "any", values, said))
    most = model.dependent_records() or model.length
    if most is not None and 1 < most < math.inf:
        values = tuple(level * most for level in places)
        said = f"holds for any dependence among {most} records"
        curves.append(CostLine("whatever the dependence", "certified", "any", values, said))
    said = "what the level would leak if no record told anything about another"
    curves.append(CostLine("if records were independent", "plain", "any", tuple(places), said))
    return curves


def named(against: Against) -> str:
    """Return an attacker in a word or two."""
    return against if isinstance(against, str) else "this attacker"


def finite(value: float) -> float | None:
    """Return a value that can be drawn, None for one that cannot."""
    return value if math.isfinite(value) else None
