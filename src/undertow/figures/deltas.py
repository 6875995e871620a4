"""Leakage against delta: all pairs that are proved, beside the guarantee and the pure leakage."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.curves import Curve
from undertow.errors import NotSupported
from undertow.figures.canvas import canvas, label_ends, over, plain
from undertow.figures.colours import BLUE, GREY, INK, ORANGE
from undertow.mechanisms import Mechanism, PureDP
from undertow.models.sets import AnyModel
from undertow.rounding import above, stated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DeltaCurves", "delta_curves", "draw_deltas"]

_LEAST, _LARGEST = 1e-12, 1e-1
"""Deltas that are shown at least and at most."""

_SAMPLES = 60
"""Points of the guarantee's own curve."""

_LABEL_HEIGHT = 0.1
"""Height of a two-line label as a share of the axes."""

_TITLE = 74
"""Characters of a title in full size."""


@dataclass(frozen=True, slots=True)
class DeltaCurves:
    """Pairs (epsilon, delta): what leaks here, and what the guarantee says of itself.

    ``proved`` are pairs of the certificate, ``own`` those of the guarantee against an attacker who
    knows all other records, ``pure`` the leakage of a pure algorithm of the same epsilon (None
    where the guarantee has no epsilon), and ``asked`` the pair that was asked for.
    """

    proved: tuple[tuple[float, float], ...]
    own: tuple[tuple[float, float], ...]
    pure: float | None
    asked: tuple[float, float]
    method: str


def delta_curves(mechanism: Mechanism, model: AnyModel, leak: Leakage) -> DeltaCurves:
    """Return the curves of a leakage at a delta, and those beside it.

    >>> from undertow import ApproximateDP, Groups
    >>> pair = ApproximateDP(1.0, 1e-6)
    >>> found = delta_curves(pair, Groups(2), leakage(pair, Groups(2), delta=1e-5))
    >>> found.pure, len(found.own)
    (2.0, 1)
    """
    curve: Any = getattr(mechanism, "curve", None)
    if curve is None or not leak.delta:
        raise NotSupported("only what leaks at a delta above 0 has a curve to draw")
    asked = (leak.upper, leak.delta)
    proved = tuple(pair for pair in leak.curve if pair != asked and pair[1] > 0)
    own = _own(curve(model.length))
    level = getattr(mechanism, "epsilon", None)
    if level is None and math.isfinite(curve(model.length).epsilon(0.0)):
        level = curve(model.length).epsilon(0.0)
    pure = None if level is None else leakage(PureDP(level), model, leak.against).upper
    return DeltaCurves(proved, own, pure, asked, leak.method)


def _own(curve: Curve) -> tuple[tuple[float, float], ...]:
    """Return pairs of a guarantee's own curve: its corners, or points along it."""
    levels = curve.corners()
    if levels:
        return tuple((level, curve.delta(level)) for level in levels)
    deltas = np.geomspace(_LEAST, _LARGEST, _SAMPLES).tolist()
    return tuple((curve.epsilon(delta), delta) for delta in deltas)


def draw_deltas(curves: DeltaCurves, title: str = "") -> "Figure":
    """Return the figure: epsilon against delta, every line labelled where it ends.

    Dots are proved pairs: the leakage is at most that epsilon at that delta, and at all larger
    deltas. The large dot is the pair that was asked for.
    """
    finite = [pair for pair in (*curves.proved, curves.asked) if math.isfinite(pair[0])]
    if not finite:
        raise NotSupported("nothing finite is proved at this delta: there is nothing to draw")
    with canvas() as figure:
        axes = figure.add_axes((0.075, 0.125, 0.665, 0.755))
        _draw(axes, curves, finite)
        axes.set_xlabel("δ: the odds move by more than $2e^ε$ with probability at most 2δ")
        size = 12.5 * min(1.0, _TITLE / max(len(title), 1))
        axes.set_title(plain(title), loc="left", fontsize=max(size, 6), fontweight="bold", pad=22)
        over(axes, "leakage ε about one record at this δ")
    return figure


def _draw(axes: "Axes", curves: DeltaCurves, finite: list[tuple[float, float]]) -> None:
    shown = [pair for pair in finite if _LEAST / 10 <= pair[1] <= 1]
    deltas = [delta for _, delta in (*shown, curves.asked)]
    low = 10.0 ** math.floor(math.log10(min(*deltas, 0.01 * curves.asked[1])))
    heights = [epsilon for epsilon, delta in shown if delta <= _LARGEST]
    top = 1.12 * max(*heights, curves.pure or 0.0, 0.0)
    axes.set_xscale("log")
    axes.set_xlim(low, _LARGEST)
    axes.set_ylim(0, top)
    axes.grid(which="major", color="#E4E4E4", lw=0.7)
    labels = []
    if curves.pure is not None and math.isfinite(curves.pure):
        axes.axhline(curves.pure, color=INK, lw=1.2, ls=(0, (4, 2)), label="pure")
        labels.append((1.2 * curves.pure, "pure algorithms of\nthe same ε, at δ = 0", INK))
    labels += _line(
        axes, curves.own, ("own", "the guarantee itself, all\nother records known"), GREY
    )
    labels += _line(
        axes, curves.proved, ("proved", "records that depend on\neach other (dots: proved)"), BLUE
    )
    if math.isfinite(curves.asked[0]):
        _mark(axes, curves, top)
    label_ends(axes, labels, _LABEL_HEIGHT, linespacing=1.15, clip_on=False)


def _line(
    axes: "Axes", pairs: tuple[tuple[float, float], ...], names: tuple[str, str], colour: str
) -> list[tuple[float, str, str]]:
    """Draw pairs as a line, or a single one as a step; return its label, if there is any."""
    drawn = sorted((delta, epsilon) for epsilon, delta in pairs if delta > 0 and epsilon < math.inf)
    if not drawn:
        return []
    right = axes.get_xlim()[1]
    if len(drawn) <= 3:  # a pair holds at all larger deltas, and nothing else is known
        x = [drawn[0][0], *(delta for delta, _ in drawn[1:]), right]
        y = [*(epsilon for _, epsilon in drawn), drawn[-1][1]]
        axes.plot(x, y, color=colour, lw=2, drawstyle="steps-post", label=names[0])
    else:
        axes.plot(*zip(*drawn, strict=True), color=colour, lw=2.2, label=names[0])
    if names[0] == "proved":
        axes.plot(*zip(*drawn, strict=True), "o", color=colour, ms=3.5, label="pairs")
    inside = [epsilon for delta, epsilon in drawn if delta <= right]
    return [(inside[-1] if inside else drawn[0][1], names[1], colour)]


def _mark(axes: "Axes", curves: DeltaCurves, top: float) -> None:
    """Draw the pair that was asked for, with its words."""
    epsilon, delta = curves.asked
    axes.plot(
        [delta], [epsilon], "o", color=ORANGE, ms=8, mec="white", mew=1.2, zorder=5, label="asked"
    )
    axes.plot([delta, delta], [0, epsilon], color=ORANGE, lw=0.9, ls=(0, (1, 1.4)), label="_asked")
    room = curves.pure is None and epsilon < 0.8 * top
    axes.annotate(
        f"at most {above(epsilon, 4)} at δ = {stated(delta)}\n({curves.method})",
        (delta, epsilon), (10, 8) if room else (10, -8), textcoords="offset points",
        va="bottom" if room else "top", fontsize=9.5, color=ORANGE,
    )  # fmt: skip
