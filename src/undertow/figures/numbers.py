"""Released numbers with their error bars, as an SVG element that needs no library."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from undertow.errors import NotSupported
from undertow.figures.colours import BLUE, GREY, INK
from undertow.rounding import visible

__all__ = ["MOST_DRAWN", "Bar", "released_figure"]

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
        for tick in _ticks(low, high)
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


def _ticks(low: float, high: float) -> list[float]:
    """Return four to eight round numbers inside a range."""
    size = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(size * m for m in (5, 2, 1) if (high - low) / (size * m) >= 4 or m == 1)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [step * n for n in range(first, last + 1)]
