"""Charts of lines: how memory fades, what a DP level leaks, what a limit costs."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from undertow.errors import NotSupported
from undertow_studio.charts.axes import Line, VerticalMark, plot
from undertow_studio.charts.svg import Html, Scale, number, picture

if TYPE_CHECKING:
    from undertow_studio.views.costs import CostLine, Costs
    from undertow_studio.views.fading import Fading

__all__ = ["cost_chart", "fading_chart", "leakage_chart"]

_CERTIFIED = (0, 2, 3, 4, 6, 7)
"""Colours of certified lines, in their order; published ones have the others."""

_PUBLISHED = (1, 5, 8)


def fading_chart(fading: "Fading", name: str = "fading") -> Html:
    """Return how alike two records are by the steps between them: measured, and under the model.

    The band is two standard errors wide on either side of what was measured.
    """
    lines = [
        Line(
            "the model", "c0 certified", _pairs(fading.lags, fading.modelled),
            tuple(
                f"{lag} step{'s' * (lag != 1)}: {number(value, 3)}"
                for lag, value in zip(fading.lags, fading.modelled, strict=True)
            ),
        )
    ]  # fmt: skip
    if fading.measured is not None and fading.errors is not None:
        spread = [2 * error for error in fading.errors]
        lines.insert(
            0,
            Line(
                "the data", "c1 measured", _pairs(fading.lags, fading.measured),
                tuple(
                    f"{lag} step{'s' * (lag != 1)}: {number(value, 3)}, give or take "
                    f"{number(off, 2)}"
                    for lag, value, off in zip(fading.lags, fading.measured, spread, strict=True)
                ),
                dots=True,
                band=tuple(
                    (value - off, value + off)
                    for value, off in zip(fading.measured, spread, strict=True)
                ),
            ),
        )  # fmt: skip
    values = [value for line in lines for _, value in line.points]
    values += [end for line in lines for pair in line.band for end in pair]
    low = min(0.0, *values)
    scales = (
        Scale(0, max(fading.lags[-1], 1), 0, 1, whole=True),
        Scale(low * 1.15 if low < 0 else 0.0, 1.0, 0, 1),
    )
    beside = "" if fading.measured is None else ", in the data and under the model"
    return picture(
        name, f"How fast memory fades{beside}", fading.words(),
        lambda width: plot(
            width, lines, scales, "steps between two records",
            "likeness of two records (1: copies, 0: unrelated)",
        ),
        "lines",
    )  # fmt: skip


def leakage_chart(costs: "Costs", name: str = "leakage") -> Html:
    """Return leakage against DP level: certified lines solid, published dashed, a ruler dotted."""
    title = "What an algorithm of each DP level can leak"
    return _chart(
        costs, name, title, ("DP level ε of the algorithm", "leakage"), "level", "this plan"
    )


def cost_chart(costs: "Costs", name: str = "costs") -> Html:
    """Return expected error against the limit on leakage for every method, the limit marked."""
    title = "What each limit on leakage costs, by method"
    axes = "limit on leakage", costs.measure or "expected error of a released number"
    return _chart(costs, name, title, axes, "limit", "limit", around=100.0)


def _chart(
    costs: "Costs",
    name: str,
    title: str,
    axes: tuple[str, str],
    unit: str,
    asked: str,
    around: float = math.inf,
) -> Html:
    lines = _lines(costs.curves, costs.places, unit)
    values = [value for line in lines for _, value in line.points]
    if not values or len(costs.places) < 2:
        raise NotSupported("no method applies at two of these places: there is nothing to draw")
    mark = None
    if costs.asked is not None:
        mark = VerticalMark(costs.asked, f"{asked} {number(costs.asked, 3)}")
    low, high = (0.0, max(values) * 1.08) if costs.measure else _range(costs, values, around)
    scales = (
        Scale(costs.places[0], costs.places[-1], 0, 1, log=True),
        Scale(low, high, 0, 1, log=not costs.measure),
    )
    said = " ".join(
        f"{line.name}: {number(line.points[0][1], 3)} at {unit} {number(line.points[0][0], 3)}, "
        f"{number(line.points[-1][1], 3)} at {number(line.points[-1][0], 3)}."
        for line in lines
    )
    return picture(
        name, title, said, lambda width: plot(width, lines, scales, *axes, mark=mark), "lines"
    )


def _range(costs: "Costs", values: Sequence[float], around: float) -> tuple[float, float]:
    """Return the values to show: far below those at the limit they vanish, and say nothing."""
    least = min(values)
    if costs.asked is not None and math.isfinite(around):
        near = [
            value
            for curve in costs.curves
            for place, value in zip(costs.places, curve.values, strict=True)
            if value is not None and place <= costs.asked
        ]
        least = max(least, min(near) / around) if near else least
    return least / 1.3, max(values) * 1.3


def _lines(curves: "Sequence[CostLine]", places: Sequence[float], unit: str) -> list[Line]:
    colours = {
        "certified": iter((*_CERTIFIED, *(9 for _ in curves))),
        "published": iter((*_PUBLISHED, *(9 for _ in curves))),
        "plain": iter(9 for _ in curves),
    }
    lines = []
    whom = {curve.protects for curve in curves}
    for curve in curves:
        points = tuple(
            (place, value)
            for place, value in zip(places, curve.values, strict=True)
            if value is not None and math.isfinite(value) and value > 0
        )
        if not points:
            continue
        weak = curve.protects == "ignorant" and whom != {"ignorant"} and "know" not in curve.name
        name = f"{curve.name} (knows nothing)" if weak else curve.name
        lines.append(
            Line(
                name,
                f"c{next(colours[curve.basis])} {curve.basis}{' weaker' * weak}",
                points,
                tuple(f"{unit} {number(a, 3)}: {number(b)}" for a, b in points),
                dots=len(points) == 1,
            )
        )
    return lines


def _pairs(xs: Sequence[float], ys: Sequence[float]) -> tuple[tuple[float, float], ...]:
    return tuple((float(x), float(y)) for x, y in zip(xs, ys, strict=True))
