"""The figures; the only module that draws."""

import html
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from undertow.bounds.engine import leakage
from undertow.bounds.published import lange_constant, zhao_constant
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.mechanisms import PureDP
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, freeze

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from undertow.planning.comparison import ErrorCurves

__all__ = [
    "MOST_DRAWN",
    "Curves",
    "Estimate",
    "Mark",
    "check_drawing",
    "draw_errors",
    "draw_leakage",
    "figure_bytes",
    "leakage_curves",
    "released_figure",
]

# After Okabe and Ito: apart in every kind of colour vision, and dark enough to read as text.
_BLUE, _ORANGE, _GREEN, _GREY, _INK = "#0072B2", "#B84F00", "#007A59", "#666666", "#222222"
_PURPLE, _PINK, _OLIVE, _RED = "#6F3A8C", "#B84A8A", "#7D6B00", "#A01F1F"
_STYLE = {
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "svg.fonttype": "none",  # words stay words: searchable, and read aloud
    "svg.hashsalt": "undertow",
    "text.color": _INK,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
}
_SIZE = (8.6, 5.2)
_LABEL_HEIGHT = 0.092
"""Height of a two-line label as a share of the axes."""

_LINE_HEIGHT = 0.052
"""Height of a one-line label as a share of the axes."""

_SOLID = "-"
_LOOKS: dict[str, tuple[str, Any]] = {
    "exact": (_BLUE, _SOLID),
    "exchange": (_BLUE, _SOLID),
    "quilt": (_PURPLE, _SOLID),
    "quilt-approx": (_PINK, _SOLID),
    "wasserstein": (_GREEN, _SOLID),
    "group": (_INK, _SOLID),
    "lange": (_ORANGE, (0, (5, 2))),
    "zhao": (_OLIVE, (0, (5, 1.5, 1, 1.5))),
    "zhao-multistep": (_RED, (0, (2, 1.2))),
}
"""Colour and dashes of a method; the published ones are dashed."""

_TITLE = 74
"""Characters of a title in full size."""

_WIDE, _ROW, _LETTER = 640, 26, 7.2
"""Of the figure of a release: its width, the height of a number, the width of a letter."""

_LONGEST_LABEL = 30

MOST_DRAWN = 60
"""Released numbers in one figure; a report has a table of all."""

_SAME = 5e-3
"""Relative distance at which two curves are one on paper, and share a label."""


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


@dataclass(frozen=True, slots=True)
class Estimate:
    """A released number, how far off it may be, and how it is written."""

    label: str
    value: float
    within: float
    words: str


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
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, dpi=160)
        axes = figure.add_axes((0.075, 0.115, 0.665, 0.77))
        _draw(axes, curves)
        for mark in marks:
            _draw_mark(axes, mark)
        axes.set_xlabel("DP level ε of the algorithm (one record replaced)")
        axes.set_title(title, loc="left", fontsize=12.5, fontweight="bold", pad=22)
        axes.text(
            0, 1.025, "leakage about one record: how far the log-odds can move",
            transform=axes.transAxes, color=_GREY,
        )  # fmt: skip
    return figure


def draw_errors(curves: "ErrorCurves", title: str = "", epsilon: float | None = None) -> "Figure":
    """Return the figure: expected error against epsilon, every line labelled where it ends.

    Both axes are logarithmic. Published methods are dashed, those that protect from an ignorant
    attacker only are thin, and methods whose errors agree share a label. ``epsilon`` marks the
    one that was asked for.
    """
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, dpi=160)
        axes = figure.add_axes((0.085, 0.115, 0.615, 0.77))
        _draw_errors(axes, curves, epsilon)
        axes.set_xlabel("allowed leakage ε")
        size = 12.5 * min(1.0, _TITLE / max(len(title), 1))
        axes.set_title(title, loc="left", fontsize=max(size, 6), fontweight="bold", pad=22)
        axes.text(
            0, 1.025, "expected absolute error of a released number",
            transform=axes.transAxes, color=_GREY,
        )  # fmt: skip
    return figure


def released_figure(estimates: Sequence[Estimate]) -> str:
    """Return released numbers with their error bars as an SVG element, to stand in a page.

    Needs no library. Of more than `MOST_DRAWN` numbers the first are drawn.

    >>> released_figure([Estimate("idle", 120, 12.0, "120")]).startswith("<svg")
    True
    """
    drawn = list(estimates)[:MOST_DRAWN]
    if not drawn:
        raise NotSupported("nothing was released: there is nothing to draw")
    left = 8 + _LETTER * max(min(len(e.label), _LONGEST_LABEL) for e in drawn)
    right = _WIDE - 16 - _LETTER * max(len(_worth(e)) for e in drawn)
    low, high = _span(drawn)
    foot = _ROW * len(drawn) + 8

    def x(value: float) -> str:
        return f"{left + (value - low) / (high - low) * (right - left):.1f}"

    parts = [
        f'<line x1="{x(tick)}" x2="{x(tick)}" y1="4" y2="{foot}" stroke="#E4E4E4"/>'
        f'<text x="{x(tick)}" y="{foot + 16}" fill="{_GREY}" text-anchor="middle">'
        f"{tick:,.10g}</text>"
        for tick in _ticks(low, high)
    ]
    for place, e in enumerate(drawn):
        y = _ROW * place + _ROW // 2 + 4
        ends = x(e.value - e.within), x(e.value + e.within)
        caps = "".join(f"M{end} {y - 5}V{y + 5}" for end in ends)
        parts.append(
            f'<text x="0" y="{y + 4}" fill="{_INK}">{_printed(e.label)}</text>'
            f'<path d="M{ends[0]} {y}H{ends[1]}{caps}" stroke="{_BLUE}" stroke-width="1.6"/>'
            f'<circle cx="{x(e.value)}" cy="{y}" r="4.5" fill="{_BLUE}"/>'
            f'<text x="{right + 12}" y="{y + 4}" fill="{_INK}">{_printed(_worth(e), 99)}</text>'
        )
    more = f" (the first {len(drawn)} of {len(estimates)})" * (len(estimates) > len(drawn))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {foot + 24}" '
        f'width="{_WIDE}" height="{foot + 24}" role="img" aria-labelledby="figure-title" '
        'font-family="DejaVu Sans, Arial, sans-serif" font-size="12">'
        f'<title id="figure-title">Released numbers with their error bars{more}</title>\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def check_drawing() -> None:
    """Refuse where nothing can be drawn, before anything is computed."""
    _matplotlib()


def figure_bytes(figure: "Figure", kind: Literal["png", "svg"]) -> bytes:
    """Return the file of a figure; the same figure gives the same bytes."""
    matplotlib = _matplotlib()
    content = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        nothing = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(content, format=kind, metadata=nothing)
    return content.getvalue()


def _draw(axes: "Axes", curves: Curves) -> None:
    x = curves.epsilons
    published = [
        (curves.zhao, "Zhao et al. 2017", _GREEN, "-."),
        (curves.lange, "Lange 2024", _ORANGE, "--"),
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
        axes.plot(x, values, color=_BLUE, lw=width, label=name, zorder=3)
        labels.append((float(values[-1]), words, _BLUE))
    axes.plot(x, x, color=_GREY, lw=1.6, ls=(0, (1, 1.4)), label="informed")
    labels.append((float(x[-1]), "ε, attacker knows\nall other records", _GREY))
    heights = [height for height, _, _ in labels if np.isfinite(height)]
    top = 1.08 * max(heights)
    axes.set_xlim(0, float(x[-1]))
    axes.set_ylim(0, top)
    if curves.length is not None:
        _draw_general(axes, curves.length, top)
    places = _apart([min(height / top, 1.0) for height, _, _ in labels], _LABEL_HEIGHT)
    for place, (_, words, colour) in zip(places, labels, strict=True):
        axes.text(
            1.015, place, words, color=colour, transform=axes.transAxes, va="center",
            fontsize=9.5, linespacing=1.15, clip_on=False,
        )  # fmt: skip


def _draw_general(axes: "Axes", length: int, top: float) -> None:
    axes.plot([0, top / length], [0, top], color=_INK, lw=1.3, label="general")
    axes.annotate(
        f"← n ε, any dependence (n = {length:,})", (top / length, top), (4, -2),
        textcoords="offset points", va="top", fontsize=9.5,
    )  # fmt: skip


def _draw_errors(axes: "Axes", curves: "ErrorCurves", epsilon: float | None) -> None:
    x = np.asarray(curves.epsilons, dtype=float)
    drawn = {
        name: values
        for name, values in curves.errors.items()
        if (np.isfinite(values) & (values > 0)).any()
    }
    if not drawn:
        raise NotSupported("no method applies at any of these epsilons: there is nothing to draw")
    axes.set_xscale("log")
    axes.set_yscale("log")
    if x.size > 1:
        axes.set_xlim(float(x[0]), float(x[-1]))
    axes.set_ylim(*_error_range(x, list(drawn.values()), epsilon))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.grid(which="major", color="#E4E4E4", lw=0.7)
    if epsilon is not None:
        axes.axvline(epsilon, color=_GREY, lw=1, ls=(0, (1, 1.4)), zorder=1, label="asked")
        axes.annotate(
            f"ε = {epsilon:g}", (epsilon, 1), (4, -2), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top", fontsize=9.5, color=_GREY,
        )  # fmt: skip
    for group in _alike(drawn):
        for name in group:
            axes.plot(x, drawn[name], **_error_line(name, curves), label=name)
    _label_errors(axes, x, curves, _alike(drawn))


def _error_line(name: str, curves: "ErrorCurves") -> dict[str, Any]:
    colour, dashes = _LOOKS.get(name, (_GREY, _SOLID))
    width = 1.1 if _weaker(name, curves) else 2.2
    return {"color": colour, "ls": dashes, "lw": width, "zorder": 3}


def _weaker(name: str, curves: "ErrorCurves") -> bool:
    """Return whether a method protects from the ignorant attacker, and others from more."""
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
    places = _apart([min(max(float(end[1]), -0.001), 1.0) for end in ends], _LINE_HEIGHT)
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


def _error_range(x: Array, errors: Sequence[Array], epsilon: float | None) -> tuple[float, float]:
    """Return the errors to show: far above what was asked for they vanish, and say nothing."""
    shown = np.array(errors)
    shown = np.where(np.isfinite(shown) & (shown > 0), shown, np.nan)
    asked = shown if epsilon is None else shown[:, x <= epsilon]
    least = np.nanmin(asked) if np.isfinite(asked).any() else np.nanmin(shown)
    top = float(np.nanmax(shown))
    return max(float(np.nanmin(shown)), float(least) / 100) / 1.5, top * 1.5


def _draw_mark(axes: "Axes", mark: Mark) -> None:
    point = mark.level, mark.value
    axes.plot(*point, "o", color=_BLUE, ms=7, mec="white", mew=1.2, zorder=5)
    if mark.lift:
        line = {"arrowstyle": "-", "color": _GREY, "lw": 0.8, "shrinkA": 0, "shrinkB": 6}
        axes.annotate(
            mark.words, point, (0, mark.lift), textcoords="offset points", fontsize=9.5,
            arrowprops=line | {"relpos": (0, 0)},
        )  # fmt: skip
    else:
        axes.annotate(
            mark.words, point, (9, -5), textcoords="offset points", va="top", fontsize=9.5
        )


def _worth(estimate: Estimate) -> str:
    return f"{estimate.words} ± {estimate.within:.6g}"


def _printed(text: str, longest: int = _LONGEST_LABEL) -> str:
    """Return text that may stand in a page: no markup, nothing unprintable, not too long."""
    seen = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return html.escape(seen if len(seen) <= longest else f"{seen[: longest - 1]}…")


def _span(drawn: Sequence[Estimate]) -> tuple[float, float]:
    """Return the range to show: all bars, and a little more."""
    low = min(e.value - e.within for e in drawn)
    high = max(e.value + e.within for e in drawn)
    rest = 0.04 * (high - low) or max(1.0, abs(high))
    return low - rest, high + rest


def _ticks(low: float, high: float) -> list[float]:
    """Return four to eight round numbers inside a range."""
    size = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(size * m for m in (5, 2, 1) if (high - low) / (size * m) >= 4 or m == 1)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [step * n for n in range(first, last + 1)]


def _apart(places: list[float], least: float) -> list[float]:
    """Return the places moved apart until neighbours are ``least`` away from each other."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for _ in range(200):
        for low, high in pairwise(order):
            missing = least - (moved[high] - moved[low])
            if missing > 0:
                moved[low] = max(moved[low] - missing / 2, 0.0)
                moved[high] = min(moved[high] + missing / 2, 1.0)
    return moved


def _published(constant: Callable[[MarkovChain], float], chain: MarkovChain) -> float | None:
    try:
        return constant(chain)
    except MethodRefused:
        return None


def _matplotlib() -> ModuleType:
    try:
        import matplotlib
    except ImportError as error:
        raise NotSupported(
            "figures need matplotlib; install it with: pip install 'undertow[plot]'"
        ) from error
    return matplotlib
