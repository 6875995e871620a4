"""The parts of every chart: escaped elements, scales with round ticks, two widths.

A chart is markup without scripts, event handlers or inline styles, so it passes the strictest
content security policy: colours are CSS classes, values are ``data-*`` attributes that
``static/charts.js`` reads, and every point has a ``<title>`` for browsers without scripts.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from undertow.errors import InvalidInput
from undertow.figures.canvas import ticks
from undertow.rounding import visible

__all__ = [
    "NARROW",
    "Scale",
    "ellipsis",
    "fit",
    "join",
    "letters",
    "number",
    "path",
    "picture",
    "places",
    "tag",
    "text",
    "titled",
]

WIDE, NARROW = 720.0, 340.0
"""Widths of the two drawings of a chart, in units of its viewBox: of a column, and of a phone."""

LETTER = 6.7
"""Mean width of a letter of 13 units, measured on text of the charts, rounded up."""

_NAME = re.compile(r"[a-z][a-zA-Z0-9-]*\Z")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")


def tag(name: str, /, *children: "str | None", **attributes: Any) -> Markup:
    """Return one element; children that are not markup are text, and everything is escaped.

    Names of attributes are written with underscores (``class_``, ``data_x``); None leaves one out.
    Styles, scripts and event handlers are refused.

    >>> print(tag("text", "a < b", class_="label", data_x=0.5, y=None))
    <text class="label" data-x="0.5">a &lt; b</text>
    """
    if not _NAME.match(name) or name.lower() in ("script", "style", "foreignobject"):
        raise InvalidInput(f"a chart has no element {name!r}")
    written = []
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if not _NAME.match(attribute) or attribute == "style" or attribute.startswith("on"):
            raise InvalidInput(f"a chart has no attribute {attribute!r}: style it by a class")
        if value is not None:
            written.append(f' {attribute}="{escape(_plain(value))}"')
    return Markup(f"<{name}{''.join(written)}>{join(children, '')}</{name}>")


def join(parts: "Sequence[str | None]", between: str = "\n") -> Markup:
    """Return several pieces of markup as one; plain text among them is escaped.

    >>> print(join([tag("b", "x"), "<"], ""))
    <b>x</b>&lt;
    """
    return Markup(between).join(
        part if isinstance(part, Markup) else visible(part) for part in parts if part is not None
    )


def text(words: str, x: float, y: float, kind: str = "label", anchor: str = "start") -> Markup:
    """Return words at a place; ``anchor`` says whether they start, centre or end there."""
    return tag(
        "text", words, x=places(x), y=places(y), class_=f"{kind} to-{anchor}" if anchor else kind
    )


def path(points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> Markup:
    """Return a line through points, or the area that they enclose."""
    drawn = "L".join(f"{places(x)} {places(y)}" for x, y in points)
    return tag("path", d=f"M{drawn}{'Z' if closed else ''}", class_=kind)


def titled(name: str, words: str, /, **attributes: Any) -> Markup:
    """Return an element that says what it is when pointed at."""
    return tag(name, tag("title", words), **attributes)


def picture(
    name: str,
    title: str,
    description: str,
    draw: Callable[[float], tuple[float, Sequence[str]]],
    kind: str = "",
) -> Markup:
    """Return a chart in two widths, one of which the style sheet shows.

    ``draw`` takes a width and returns the height and the parts. ``name`` begins the identifiers,
    and must be used once in a page.

    >>> chart = picture("empty", "Nothing", "No line.", lambda width: (40, []))
    >>> chart.count("<svg"), chart.count('aria-labelledby="empty-wide-title empty-wide-desc"')
    (2, 1)
    """
    if not _IDENTIFIER.match(name):
        raise InvalidInput(
            f"the name of a chart is letters, digits, - and _, and begins with a letter; found "
            f"{name!r}"
        )
    drawings = []
    for size, width in (("wide", WIDE), ("narrow", NARROW)):
        height, parts = draw(width)
        label = f"{name}-{size}"
        drawings.append(
            tag(
                "svg",
                tag("title", title, id=f"{label}-title"),
                tag("desc", description, id=f"{label}-desc"),
                Markup("\n"),
                join(parts),
                viewBox=f"0 0 {width:g} {height:g}",
                role="img",
                aria_labelledby=f"{label}-title {label}-desc",
                class_=f"chart chart-{size} {kind}".strip(),
            )
        )
    return tag("div", Markup("\n"), join(drawings), class_="chart-box")


@dataclass(frozen=True, slots=True)
class Scale:
    """Values ``low .. high`` on the line ``start .. end``, evenly or by their logarithm.

    >>> Scale(1, 100, 0, 200, log=True).at(10)
    100.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False
    """Whether only whole numbers mean something."""

    def __post_init__(self) -> None:
        """Refuse what cannot be a scale."""
        finite = all(map(math.isfinite, (self.low, self.high, self.start, self.end)))
        if not finite or self.low >= self.high or (self.log and self.low <= 0):
            raise InvalidInput(f"no axis goes from {self.low} to {self.high}")

    def at(self, value: float) -> float:
        """Return where a value is; values beyond the ends are at the ends."""
        return self.beyond(min(max(value, self.low), self.high))

    def beyond(self, value: float) -> float:
        """Return where a value would be if the axis went on."""
        low, high, here = self.low, self.high, value
        if self.log:
            low, high, here = math.log(low), math.log(high), math.log(here)
        return self.start + (here - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values inside the scale, at most about ``most`` of them.

        >>> Scale(0, 1, 0, 100).ticks(), Scale(.02, 30, 0, 100, log=True).ticks()
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.1, 1.0, 10.0])
        """
        if self.log:
            decades = self._decades(most)
            if len(decades) >= 2:
                return decades
        return ticks(self.low, self.high, most, whole=self.whole)

    def _decades(self, most: int) -> list[float]:
        first = math.floor(math.log10(self.low))
        last = math.ceil(math.log10(self.high))
        for mantissas, stride in (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3)):
            candidates = [
                float(f"{mantissa}e{power}")
                for power in range(first, last + 1)
                if power % stride == 0
                for mantissa in mantissas
            ]
            inside = [tick for tick in candidates if self.low <= tick <= self.high]
            if len(inside) <= most:
                return inside
        return inside[:: max(1, len(inside) // most)]


def number(value: float, digits: int = 4) -> str:
    """Return a number for people, with few digits.

    >>> number(15264.0), number(0.123456), number(2e-7)
    ('15,264', '0.1235', '2e-07')
    """
    if value != 0 and math.isfinite(value) and abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.{digits}g}"
    return f"{value:.{digits}g}"


def places(value: float) -> str:
    """Return a coordinate: to a hundredth, no longer than needed.

    >>> places(3.14159), places(-0.001)
    ('3.14', '0')
    """
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def letters(words: str, size: float = 13.0) -> float:
    """Return about how wide words are, rounded up; wide scripts count twice."""
    wide = sum(2.0 if ord(letter) > 0x2E80 else 1.0 for letter in words)
    return wide * LETTER * size / 13.0


def ellipsis(words: str, most: int) -> str:
    """Return words cut where they are longer than ``most`` letters.

    >>> ellipsis("a very long name", 8)
    'a very …'
    """
    seen = visible(words)
    return seen if len(seen) <= most else f"{seen[: max(most - 1, 1)]}…"


def fit(words: str, room: float, size: float = 13.0) -> str:
    """Return words cut to a width, as seen.

    >>> fit("a very long name", 60.0), fit("short", 60.0)
    ('a very …', 'short')
    """
    seen = visible(words)
    if letters(seen, size) <= room:
        return seen
    while len(seen) > 1 and letters(f"{seen}…", size) > room:
        seen = seen[:-1]
    return f"{seen}…"


def _plain(value: Any) -> str:
    return visible(repr(float(value)) if isinstance(value, float) else str(value))
