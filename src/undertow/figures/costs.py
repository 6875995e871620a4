"""Expected error against limit, one line for each method."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.errors import NotSupported
from undertow.figures import colours as c
from undertow.figures.canvas import apart, canvas, over, plain
from undertow.methods import METHODS
from undertow.numerics import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from undertow.planning.comparison import ErrorCurves

__all__ = ["draw_errors"]

_LINE_HEIGHT = 0.052
"""Height of a one-line label as a share of the axes."""

_SOLID: Any = "-"
_CERTIFIED = [(colour, _SOLID) for colour in (c.BLUE, c.BLUE, c.PURPLE, c.PINK, c.GREEN, c.INK)]
_PUBLISHED = [(c.ORANGE, (0, (5, 2))), (c.OLIVE, (0, (5, 1.5, 1, 1.5))), (c.RED, (0, (2, 1.2)))]
"""Colours and dashes of the certified methods and of the published ones, in the order of the
registry; those after them are grey."""

_TITLE = 74
"""Characters of a title in full size."""

_SAME = 5e-3
"""Relative distance at which two curves are one on paper, and share a label."""


def draw_errors(curves: "ErrorCurves", title: str = "", limit: float | None = None) -> "Figure":
    """Return the figure: expected error against limit, every line labelled where it ends.

    Both axes are logarithmic. Published methods are dashed, those that protect against an ignorant
    attacker only are thin, and methods whose errors agree share a label. ``limit`` marks the
    one that was asked for.
    """
    with canvas() as figure:
        axes = figure.add_axes((0.085, 0.115, 0.615, 0.77))
        _draw_errors(axes, curves, limit)
        axes.set_xlabel("limit on leakage")
        size = 12.5 * min(1.0, _TITLE / max(len(title), 1))
        axes.set_title(plain(title), loc="left", fontsize=max(size, 6), fontweight="bold", pad=22)
        over(axes, "expected absolute error of a released number")
    return figure


def _draw_errors(axes: "Axes", curves: "ErrorCurves", limit: float | None) -> None:
    x = np.asarray(curves.limits, dtype=float)
    drawn = {
        name: values
        for name, values in curves.errors.items()
        if (np.isfinite(values) & (values > 0)).any()
    }
    if not drawn:
        raise NotSupported("no method applies at any of these limits: there is nothing to draw")
    axes.set_xscale("log")
    axes.set_yscale("log")
    if x.size > 1:
        axes.set_xlim(float(x[0]), float(x[-1]))
    axes.set_ylim(*_error_range(x, list(drawn.values()), limit))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.grid(which="major", color="#E4E4E4", lw=0.7)
    if limit is not None:
        axes.axvline(limit, color=c.GREY, lw=1, ls=(0, (1, 1.4)), zorder=1, label="asked")
        axes.annotate(
            f"limit {limit:g}", (limit, 1), (4, -2), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top", fontsize=9.5, color=c.GREY,
        )  # fmt: skip
    for group in _alike(drawn):
        for name in group:
            axes.plot(x, drawn[name], **_error_line(name, curves), label=name)
    _label_errors(axes, x, curves, _alike(drawn))


def _error_line(name: str, curves: "ErrorCurves") -> dict[str, Any]:
    certified = curves.certified[name]
    known = [m.name for m in METHODS["answer"].values() if m.certified == certified]
    looks = dict(zip(known, _CERTIFIED if certified else _PUBLISHED, strict=False))
    colour, dashes = looks.get(name, (c.GREY, _SOLID if certified else (0, (1, 1))))
    width = 1.1 if _weaker(name, curves) else 2.2
    return {"color": colour, "ls": dashes, "lw": width, "zorder": 3}


def _weaker(name: str, curves: "ErrorCurves") -> bool:
    """Return whether a method protects against the ignorant attacker, and others against more."""
    return curves.protects[name] == "ignorant" and {*curves.protects.values()} != {"ignorant"}


def _label_errors(
    axes: "Axes", x: Array, curves: "ErrorCurves", groups: Sequence[Sequence[str]]
) -> None:
    """Write the names in the right margin, with a sample of the line, beside where it ends."""
    ends = []
    for names in groups:
        values = curves.errors[names[0]]
        last = np.flatnonzero(np.isfinite(values) & (values > 0))[-1]
        point = axes.transData.transform((x[last], values[last]))
        ends.append(axes.transAxes.inverted().transform(point))
    places = apart([min(max(float(end[1]), -0.001), 1.0) for end in ends], _LINE_HEIGHT)
    for names, end, place in zip(groups, ends, places, strict=True):
        line = _error_line(names[0], curves)
        if end[1] >= 0:  # below, it has left the figure
            axes.plot(
                [float(end[0]), 1.022], [float(end[1]), place], color=line["color"], lw=0.6,
                transform=axes.transAxes, clip_on=False, label="_leader",
            )  # fmt: skip
        axes.plot(
            [1.022, 1.072], [place, place], **line, transform=axes.transAxes, clip_on=False,
            solid_capstyle="butt", label="_sample",
        )  # fmt: skip
        axes.text(
            1.085, place, _error_label(names, curves), color=line["color"],
            transform=axes.transAxes, va="center", fontsize=9.5, clip_on=False,
        )  # fmt: skip


def _error_label(names: Sequence[str], curves: "ErrorCurves") -> str:
    remarks = [] if curves.certified[names[0]] else ["published"]
    if _weaker(names[0], curves):
        remarks.append("ignorant only")
    words = ", ".join(names)
    return f"{words} ({', '.join(remarks)})" if remarks else words


def _alike(drawn: dict[str, Array]) -> list[list[str]]:
    """Return the names of the curves, those that coincide together."""
    groups: list[list[str]] = []
    for name, values in drawn.items():
        for group in groups:
            if np.allclose(drawn[group[0]], values, rtol=_SAME, atol=0, equal_nan=True):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _error_range(x: Array, errors: Sequence[Array], limit: float | None) -> tuple[float, float]:
    """Return the errors to show: far above what was asked for they vanish, and say nothing."""
    shown = np.array(errors)
    shown = np.where(np.isfinite(shown) & (shown > 0), shown, np.nan)
    asked = shown if limit is None else shown[:, x <= limit]
    least = np.nanmin(asked) if np.isfinite(asked).any() else np.nanmin(shown)
    top = float(np.nanmax(shown))
    return max(float(np.nanmin(shown)), float(least) / 100) / 1.5, top * 1.5
