"""Figures of leakage: against the DP level with published bounds, and against delta."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from undertow.bounds.engine import leakage
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.certificate import Leakage
from undertow.curves import Curve
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.figures.canvas import BLUE, GREEN, GREY, INK, ORANGE, canvas, head, label_ends
from undertow.mechanisms import Mechanism, PureDP
from undertow.models.chains import MarkovChain
from undertow.models.sets import AnyModel
from undertow.numerics import Array, freeze
from undertow.rounding import above, stated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DeltaCurves", "Mark", "delta_curves", "draw_deltas", "draw_leakage", "leakage_curves"]


_LABEL_HEIGHT = 0.092
"""Height of a two-line label as a share of the axes."""


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Leakage as a function of the DP level, and the published bounds beside it.

    ``any`` and ``ignorant`` are certified upper ends. ``lange`` and ``zhao`` are the constants
    of the published bounds epsilon + constant, None where their conditions do not hold;
    ``length`` is the number of records for the general bound length * epsilon.
    """

    epsilons: Array
    any: Array
    ignorant: Array
    lange: float | None
    zhao: float | None
    length: int | None


@dataclass(frozen=True, slots=True)
class Mark:
    """A labelled point of the figure; its words stand ``lift`` points above it, or below."""

    level: float
    value: float
    words: str
    lift: float = 0.0


def leakage_curves(
    chain: MarkovChain,
    epsilons: Iterable[float],
    length: int | None = None,
    tick: Callable[[], object] = lambda: None,
) -> Curves:
    """Return the leakage of epsilon-DP algorithms on a chain for each epsilon.

    Two leakages per epsilon; ``tick`` is called after each pair. ``length`` serves the general
    bound only: the curves are those of the chain as given.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> leakage_curves(chain, [1.0, 2.0]).any.round(4)
    array([3.4749, 5.4309])
    """
    levels = freeze(list(epsilons))
    if levels.ndim != 1 or not levels.size or (np.diff(levels) <= 0).any():
        raise InvalidInput("a curve needs DP levels in increasing order")
    ends: dict[Literal["any", "ignorant"], list[float]] = {"any": [], "ignorant": []}
    for level in levels:
        for against, values in ends.items():
            values.append(leakage(PureDP(float(level)), chain, against).upper)
        tick()
    return Curves(
        epsilons=levels,
        any=freeze(ends["any"]),
        ignorant=freeze(ends["ignorant"]),
        lange=_published(lange_constant, chain),
        zhao=_published(zhao_constant, chain),
        length=chain.length if length is None else length,
    )


def draw_leakage(curves: Curves, marks: Sequence[Mark] = (), title: str = "") -> "Figure":
    """Return the figure: leakage against DP level, every line labelled where it ends."""
    with canvas() as figure:
        axes = figure.add_axes((0.075, 0.115, 0.665, 0.77))
        _draw(axes, curves)
        for mark in marks:
            _draw_mark(axes, mark)
        axes.set_xlabel("DP level ε of the algorithm (one record replaced)")
        head(axes, title, "leakage about one record: how far the log-odds can move")
    return figure


def _draw(axes: "Axes", curves: Curves) -> None:
    x = curves.epsilons
    published = [
        (curves.zhao, "Zhao et al. 2017", GREEN, "-."),
        (curves.lange, "Lange 2024", ORANGE, "--"),
    ]
    labels = []
    for constant, name, colour, dashes in published:
        if constant is not None:
            words = f"{name}, published\nε + {constant:.2f}"
            axes.plot(x, x + constant, dashes, color=colour, lw=1.8, label=name)
            labels.append((float(x[-1]) + constant, words, colour))
    exact = [
        (curves.any, "exact, attacker knows\nany other records", "any", 2.8),
        (curves.ignorant, "exact, attacker knows\nno other record", "ignorant", 1.1),
    ]
    for values, words, name, width in exact:
        axes.plot(x, values, color=BLUE, lw=width, label=name, zorder=3)
        labels.append((float(values[-1]), words, BLUE))
    axes.plot(x, x, color=GREY, lw=1.6, ls=(0, (1, 1.4)), label="informed")
    labels.append((float(x[-1]), "ε, attacker knows\nall other records", GREY))
    heights = [height for height, _, _ in labels if np.isfinite(height)]
    top = 1.08 * max(heights)
    axes.set_xlim(0, float(x[-1]))
    axes.set_ylim(0, top)
    if curves.length is not None:
        _draw_general(axes, curves.length, top)
    label_ends(axes, labels, _LABEL_HEIGHT, linespacing=1.15, clip_on=False)


def _draw_general(axes: "Axes", length: int, top: float) -> None:
    axes.plot([0, top / length], [0, top], color=INK, lw=1.3, label="general")
    axes.annotate(
        f"← n ε, any dependence (n = {length:,})", (top / length, top), (4, -2),
        textcoords="offset points", va="top", fontsize=9.5,
    )  # fmt: skip


def _draw_mark(axes: "Axes", mark: Mark) -> None:
    point = mark.level, mark.value
    axes.plot(*point, "o", color=BLUE, ms=7, mec="white", mew=1.2, zorder=5)
    if mark.lift:
        line = {"arrowstyle": "-", "color": GREY, "lw": 0.8, "shrinkA": 0, "shrinkB": 6}
        axes.annotate(
            mark.words, point, (0, mark.lift), textcoords="offset points", fontsize=9.5,
            arrowprops=line | {"relpos": (0, 0)},
        )  # fmt: skip
    else:
        axes.annotate(
            mark.words, point, (9, -5), textcoords="offset points", va="top", fontsize=9.5
        )


def _published(constant: Callable[[MarkovChain], float], chain: MarkovChain) -> float | None:
    try:
        return constant(chain)
    except MethodRefused:
        return None


_LEAST, _LARGEST = 1e-12, 1e-1
"""The least and the largest delta of the figure."""

_SAMPLES = 60
"""Points of the guarantee's own curve."""

_LABEL_HEIGHT_DELTAS = 0.1
"""Height of a two-line label as a share of the axes."""


@dataclass(frozen=True, slots=True)
class DeltaCurves:
    """Pairs (epsilon, delta): the leakage on the model, and the guarantee itself.

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
        _deltas_draw(axes, curves, finite)
        axes.set_xlabel("δ: the odds move by more than $2e^ε$ with probability at most 2δ")
        head(axes, title, "leakage ε about one record at this δ")
    return figure


def _deltas_draw(axes: "Axes", curves: DeltaCurves, finite: list[tuple[float, float]]) -> None:
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
    label_ends(axes, labels, _LABEL_HEIGHT_DELTAS, linespacing=1.15, clip_on=False)


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
    """Draw the pair of the question, with its label."""
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
