"""Charts of lines over two axes: fading memory, leakage by DP level, error by limit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from undertow.errors import NotSupported
from undertow.figures.canvas import apart
from undertow_studio.charts.svg import (
    NARROW,
    Scale,
    ellipsis,
    join,
    letters,
    number,
    path,
    picture,
    places,
    tag,
    text,
)

if TYPE_CHECKING:
    from undertow_studio.fits import Fading
    from undertow_studio.pages.costs import CostLine, Costs

__all__ = ["cost_chart", "fading_chart", "leakage_chart"]

_LINE = 17.0
"""Height of a line of text, in units of the viewBox."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: its name, its look, and its points (x, y); ``words`` say what each is."""

    name: str
    kind: str
    points: tuple[tuple[float, float], ...]
    words: tuple[str, ...] = ()
    dots: bool = False
    band: tuple[tuple[float, float], ...] = ()
    """For each point how far it may be off: (low, high), shown as an area."""


class Plot(NamedTuple):
    """The scales of both axes, in their places."""

    x: Scale
    y: Scale


def frame(plot: Plot, across: str, up: str) -> list[Markup]:
    """Return grid, ticks and what both axes mean."""
    x, y = plot.x, plot.y
    roomy = x.end - x.start > NARROW
    parts = [text(up, 2, y.end - 13, "axis")]
    for tick in y.ticks(6):
        place = y.at(tick)
        parts.append(path([(x.start, place), (x.end, place)], "grid"))
        parts.append(text(number(tick), x.start - 8, place + 4, "tick", "end"))
    kept = -1e9
    for tick in x.ticks(8 if roomy else 5):
        place, words = x.at(tick), number(tick)
        parts.append(path([(place, y.start), (place, y.start + 5)], "grid"))
        if place - letters(words) / 2 > kept:
            parts.append(text(words, place, y.start + 20, "tick", "middle"))
            kept = place + letters(words) / 2 + 6
    zero = y.start if y.log else y.at(0.0)
    parts.append(path([(x.start, zero), (x.end, zero)], "base"))
    parts.append(text(across, (x.start + x.end) / 2, y.start + 39, "axis", "middle"))
    return parts


def plot(
    width: float,
    lines: Sequence[Line],
    scales: tuple[Scale, Scale],
    across: str,
    up: str,
    mark: tuple[float, str] | None = None,
) -> tuple[float, list[Markup]]:
    """Return height and parts of lines over axes; labels stand beside the ends, or below.

    ``scales`` say the ranges of both axes, not their places; ``mark`` is a value of the horizontal
    axis, and its words, at a vertical line. Points keep their values as ``data-x`` and ``data-y``.
    """
    narrow = width <= NARROW
    longest = max((letters(ellipsis(line.name, 30)) for line in lines), default=0.0)
    rows = _rows(lines, width) if narrow else []
    left, top = 54.0 if not narrow else 46.0, 34.0
    right = width - (12 if narrow else longest + 48)
    foot = top + (300.0 if not narrow else 220.0)
    x, y = replace(scales[0], start=left, end=right), replace(scales[1], start=foot, end=top)
    axes = Plot(x, y)
    parts = frame(axes, across, up)
    if mark is not None and x.low <= mark[0] <= x.high:
        place, words = x.at(mark[0]), mark[1]
        ahead = place + letters(words) + 8 < right
        parts.append(path([(place, foot), (place, top - 6)], "mark"))
        parts.append(
            text(words, place + (6 if ahead else -6), top + 4, "mark-label",
                 "start" if ahead else "end")
        )  # fmt: skip
    parts += [_band(line, axes) for line in lines if line.band]
    parts.append(tag("path", d="", class_="crosshair"))
    parts += [_series(line, axes) for line in lines]
    below = foot + 52
    if narrow:
        for row in rows:
            parts += [_legend(line, place, below) for place, line in row]
            below += _LINE + 3
        below -= 8
    else:
        parts += _ends(lines, axes)
    return below, parts


def _band(line: Line, axes: Plot) -> Markup:
    above = [(axes.x.at(x), axes.y.at(high)) for (x, _), (_, high) in zip(
        line.points, line.band, strict=True)]  # fmt: skip
    under = [(axes.x.at(x), axes.y.at(low)) for (x, _), (low, _) in zip(
        line.points, line.band, strict=True)]  # fmt: skip
    return path([*above, *reversed(under)], f"band {line.kind}", closed=True)


def _pieces(line: Line, axes: Plot) -> list[list[tuple[float, float]]]:
    """Return the line cut where it leaves the axes."""
    x, y = axes.x, axes.y
    pieces: list[list[tuple[float, float]]] = []
    ends = [(x.at(a), y.beyond(b)) for a, b in line.points]
    if len(ends) == 1 and y.end <= ends[0][1] <= y.start:
        return [ends]
    for first, second in pairwise(ends):
        cut = _cut(first, second, y.end, y.start)
        if cut is None:
            continue
        if not pieces or pieces[-1][-1] != cut[0]:
            pieces.append([cut[0]])
        pieces[-1].append(cut[1])
    return pieces


def _series(line: Line, axes: Plot) -> Markup:
    """Return the line, cut where it leaves the axes, and its points."""
    x, y = axes.x, axes.y
    words = line.words or tuple(f"{number(a)}: {number(b)}" for a, b in line.points)
    dots = [
        tag(
            "circle", tag("title", f"{line.name}: {label}"), cx=places(x.at(a)), cy=places(y.at(b)),
            r="3.2" if line.dots else "2.4", class_="dot" if line.dots else "dot hidden",
            data_x=float(a), data_y=float(b), data_words=label,
        )
        for (a, b), label in zip(line.points, words, strict=True)
        if y.low <= b <= y.high
    ]  # fmt: skip
    drawn = [path(piece, "line") for piece in _pieces(line, axes) if len(piece) > 1]
    return tag("g", join([*drawn, *dots]), class_=f"series {line.kind}", data_name=line.name)


def _cut(
    first: tuple[float, float], second: tuple[float, float], low: float, high: float
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Return the part of a stretch between two heights, None where there is none."""
    if max(first[1], second[1]) < low or min(first[1], second[1]) > high:
        return None

    def at(height: float) -> tuple[float, float]:
        share = (height - first[1]) / (second[1] - first[1])
        return first[0] + share * (second[0] - first[0]), height

    ends = [
        end if low <= end[1] <= high else at(low if end[1] < low else high)
        for end in (first, second)
    ]
    return ends[0], ends[1]


def _ends(lines: Sequence[Line], axes: Plot) -> list[Markup]:
    """Return the names beside where the lines end, moved apart, with a leader and a sample."""
    tall = axes.y.start - axes.y.end
    ends = [(line, pieces[-1][-1]) for line in lines if (pieces := _pieces(line, axes))]
    moved = apart([(axes.y.start - end[1]) / tall for _, end in ends], _LINE / tall)
    parts = []
    for (line, end), share in zip(ends, moved, strict=True):
        place, here = axes.y.start - share * tall, axes.x.end + 12
        parts.append(_legend(line, here, place, 30, path([end, (here - 2, place)], "leader")))
    return parts


def _rows(lines: Sequence[Line], width: float) -> list[list[tuple[float, Line]]]:
    """Return the names of lines in rows that fit the width, each with its place."""
    rows: list[list[tuple[float, Line]]] = []
    place = width
    for line in lines:
        wide = 30 + letters(ellipsis(line.name, 38)) + 14
        if place + wide > width:
            rows.append([])
            place = 8.0
        rows[-1].append((place, line))
        place += wide
    return rows


def _legend(line: Line, x: float, y: float, most: int = 38, leader: str | None = None) -> Markup:
    """Return a sample of a line and its name, cut where it is longer than ``most`` letters."""
    dot = tag("circle", cx=places(x + 11), cy=places(y), r="3.2", class_="dot")
    return tag(
        "g", leader, path([(x, y), (x + 22, y)], "line"), dot if line.dots else None,
        text(ellipsis(line.name, most), x + 28, y + 4.5, "name"), class_=f"series {line.kind}",
    )  # fmt: skip


_CERTIFIED = (0, 2, 3, 4, 6, 7)
"""Colours of certified lines, in their order; published ones have the others."""

_PUBLISHED = (1, 5, 8)


def fading_chart(fading: "Fading", name: str = "fading") -> Markup:
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
        name, f"Association of two records by lag{beside}", fading.words(),
        lambda width: plot(
            width, lines, scales, "steps between two records",
            "association of two records (1: equal, 0: independent)",
        ),
        "lines",
    )  # fmt: skip


def leakage_chart(costs: "Costs", name: str = "leakage") -> Markup:
    """Return leakage against DP level: certified lines solid, published dashed, a ruler dotted."""
    title = "Largest leakage by DP level"
    return _chart(
        costs, name, title, ("DP level ε of the algorithm", "leakage"), "level", "this plan"
    )


def cost_chart(costs: "Costs", name: str = "costs") -> Markup:
    """Return expected error against the limit on leakage for every method, the limit marked."""
    title = "Expected error by limit on leakage and method"
    axes = "limit on leakage", "expected error of a released number"
    return _chart(costs, name, title, axes, "limit", "limit", around=100.0)


def _chart(
    costs: "Costs",
    name: str,
    title: str,
    axes: tuple[str, str],
    unit: str,
    mark_name: str,
    around: float = math.inf,
) -> Markup:
    lines = _lines(costs.curves, costs.places, unit)
    values = [value for line in lines for _, value in line.points]
    if not values or len(costs.places) < 2:
        raise NotSupported("no method applies at two of these places: there is nothing to draw")
    mark = None
    if costs.mark is not None:
        mark = costs.mark, f"{mark_name} {number(costs.mark, 3)}"
    scales = (
        Scale(costs.places[0], costs.places[-1], 0, 1, log=True),
        Scale(*_range(costs, values, around), 0, 1, log=True),
    )
    description = " ".join(
        f"{line.name}: {number(line.points[0][1], 3)} at {unit} {number(line.points[0][0], 3)}, "
        f"{number(line.points[-1][1], 3)} at {number(line.points[-1][0], 3)}."
        for line in lines
    )
    return picture(
        name,
        title,
        description,
        lambda width: plot(width, lines, scales, *axes, mark=mark),
        "lines",
    )


def _range(costs: "Costs", values: Sequence[float], around: float) -> tuple[float, float]:
    """Return the values to show: far below those at the limit they vanish, and say nothing."""
    least = min(values)
    if costs.mark is not None and math.isfinite(around):
        near = [
            value
            for curve in costs.curves
            for place, value in zip(costs.places, curve.values, strict=True)
            if value is not None and place <= costs.mark
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
