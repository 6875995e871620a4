"""The style of all figures, labels that do not overlap, and the import of matplotlib."""

import html
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from undertow.errors import NotSupported
from undertow.rounding import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Figure

__all__ = [
    "COLOURS",
    "MOST_DRAWN",
    "Bar",
    "apart",
    "beside",
    "canvas",
    "check_drawing",
    "figure_bytes",
    "head",
    "label_ends",
    "over",
    "plain",
    "released_figure",
    "ticks",
]


# After Okabe and Ito: apart in every kind of colour vision, and dark enough to read as text.
BLUE, ORANGE, GREEN, GREY, INK = "#0072B2", "#B84F00", "#007A59", "#666666", "#222222"
PURPLE, PINK, OLIVE, RED = "#6F3A8C", "#B84A8A", "#7D6B00", "#A01F1F"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, PINK, OLIVE, RED, GREY)
"""The colours of lines, in order."""


STYLE = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "svg.fonttype": "none",  # words stay words: searchable, and read aloud
    "svg.hashsalt": "undertow",
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
}
SIZE = (8.6, 5.2)


@contextmanager
def canvas(size: tuple[float, float] = SIZE) -> Iterator["Figure"]:
    """Yield an empty figure in the common style."""
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        yield Figure(figsize=size, dpi=160)


def check_drawing() -> None:
    """Refuse to draw without matplotlib, before anything is computed."""
    _matplotlib()


def figure_bytes(figure: "Figure", kind: Literal["png", "svg"]) -> bytes:
    """Return the file of a figure; the same figure gives the same bytes."""
    matplotlib = _matplotlib()
    content = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        nothing = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(content, format=kind, metadata=nothing)
    return content.getvalue()


def plain(name: str) -> str:
    r"""Return a name for a figure, formulas and control characters escaped.

    >>> print(plain("at $5\a"))
    at \$5\x07
    """
    return visible(name, lines=True).replace("$", r"\$")


_TITLE = 74
"""Characters of a title in full size."""


def head(axes: "Axes", title: str, words: str) -> None:
    """Write the title, smaller where it is long, and the label of the vertical axis below it."""
    size = max(12.5 * min(1.0, _TITLE / max(len(title), 1)), 6)
    axes.set_title(plain(title), loc="left", fontsize=size, fontweight="bold", pad=22)
    over(axes, words)


def over(axes: "Axes", words: str, height: float = 1.025, size: float = 10) -> None:
    """Write the label of the vertical axis above the left end of the axes."""
    axes.text(0, height, words, transform=axes.transAxes, color=GREY, fontsize=size)


def beside(axes: "Axes", height: float, words: str, colour: str, **more: Any) -> None:
    """Write words in the right margin, at a share of the height of the axes."""
    axes.text(
        1.015, height, words, color=colour, transform=axes.transAxes, va="center", fontsize=9.5,
        **more,
    )  # fmt: skip


def label_ends(
    axes: "Axes", labels: list[tuple[float, str, str]], least: float, **more: Any
) -> None:
    """Write the names of lines in the right margin, without overlaps.

    A label is where the line ends, its words and its colour; ``least`` the height of one as a share
    of the axes.
    """
    low, high = axes.get_ylim()
    places = apart([min((y - low) / (high - low), 1.0) for y, _, _ in labels], least)
    for place, (_, words, colour) in zip(places, labels, strict=True):
        beside(axes, place, words, colour, **more)


def apart(places: list[float], least: float) -> list[float]:
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


def _matplotlib() -> ModuleType:
    try:
        import matplotlib
    except ImportError as error:
        raise NotSupported(
            "figures need matplotlib; install it with: pip install 'undertow[plot]'"
        ) from error
    return matplotlib


_WIDE, _ROW, _LETTER = 640, 26, 7.2
"""Of the figure of a release: its width, the height of a number, the width of a letter."""

_LONGEST_LABEL = 30

MOST_DRAWN = 60
"""Released numbers in one figure; a report has a table of all."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A released number, how far off it may be, and how it is written."""

    label: str
    value: float
    within: float
    words: str


def released_figure(bars: Sequence[Bar]) -> str:
    """Return released numbers with their error bars as an SVG element, to stand in a page.

    Needs no library. Of more than `MOST_DRAWN` numbers the first are drawn.

    >>> released_figure([Bar("idle", 120, 12.0, "120")]).startswith("<svg")
    True
    """
    drawn = list(bars)[:MOST_DRAWN]
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
        f'<text x="{x(tick)}" y="{foot + 16}" fill="{GREY}" text-anchor="middle">'
        f"{tick:,.10g}</text>"
        for tick in ticks(low, high)
    ]
    for place, e in enumerate(drawn):
        y = _ROW * place + _ROW // 2 + 4
        ends = x(e.value - e.within), x(e.value + e.within)
        caps = "".join(f"M{end} {y - 5}V{y + 5}" for end in ends)
        parts.append(
            f'<text x="0" y="{y + 4}" fill="{INK}">{_printed(e.label)}</text>'
            f'<path d="M{ends[0]} {y}H{ends[1]}{caps}" stroke="{BLUE}" stroke-width="1.6"/>'
            f'<circle cx="{x(e.value)}" cy="{y}" r="4.5" fill="{BLUE}"/>'
            f'<text x="{right + 12}" y="{y + 4}" fill="{INK}">{_printed(_worth(e), 99)}</text>'
        )
    more = f" (the first {len(drawn)} of {len(bars)})" * (len(bars) > len(drawn))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {foot + 24}" '
        f'width="{_WIDE}" height="{foot + 24}" role="img" aria-labelledby="figure-title" '
        'font-family="DejaVu Sans, Arial, sans-serif" font-size="12">'
        f'<title id="figure-title">Released numbers with their error bars{more}</title>\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _worth(bar: Bar) -> str:
    return f"{bar.words} ± {bar.within:.6g}"


def _printed(text: str, longest: int = _LONGEST_LABEL) -> str:
    """Return text that may stand in a page: no markup, nothing hidden, not too long."""
    seen = visible(text)
    return html.escape(seen if len(seen) <= longest else f"{seen[: longest - 1]}…")


def _span(drawn: Sequence[Bar]) -> tuple[float, float]:
    """Return the range to show: all bars, and a little more."""
    low = min(e.value - e.within for e in drawn)
    high = max(e.value + e.within for e in drawn)
    rest = 0.04 * (high - low) or max(1.0, abs(high))
    return low - rest, high + rest


def ticks(low: float, high: float, most: int = 8, *, whole: bool = False) -> list[float]:
    """Return round numbers inside a range, at most about ``most``; ``whole`` ones if asked for.

    >>> ticks(0, 1, 6), ticks(-3, 40)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 10.0, 20.0, 30.0, 40.0])
    """
    least = (high - low) / max(most, 1)
    size = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    for step in (size * factor for factor in (1, 2, 2.5, 5, 10, 20, 25, 50, 100)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first + 1 <= most and not (whole and step != int(step)):
            return [float(f"{step * count:.12g}") for count in range(first, last + 1)]
    return [low, high]
