"""Leakage against DP level, beside the published bounds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from undertow.bounds.engine import leakage
from undertow.bounds.published.chains import lange_constant, zhao_constant
from undertow.errors import InvalidInput, MethodRefused
from undertow.figures.canvas import canvas, label_ends, over
from undertow.figures.colours import BLUE, GREEN, GREY, INK, ORANGE
from undertow.mechanisms import PureDP
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, freeze

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curves", "Mark", "draw_leakage", "leakage_curves"]

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
    """A point of the figure to dwell on; its words stand ``lift`` points above it, or below."""

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
    """Return what epsilon-DP algorithms leak on a chain, for each epsilon.

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
        axes.set_title(title, loc="left", fontsize=12.5, fontweight="bold", pad=22)
        over(axes, "leakage about one record: how far the log-odds can move")
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
