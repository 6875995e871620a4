"""Lines over two axes: ticks, bands, points with values, and labels that keep off each other."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from undertow.figures.canvas import apart
from undertow_studio.charts.svg import (
    NARROW,
    Html,
    Scale,
    ellipsis,
    join,
    letters,
    number,
    path,
    places,
    tag,
    text,
)

__all__ = ["Line", "Plot", "VerticalMark", "frame", "plot"]

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


@dataclass(frozen=True, slots=True)
class VerticalMark:
    """A value of the horizontal axis that is marked by a vertical line."""

    x: float
    words: str


@dataclass(frozen=True, slots=True)
class Plot:
    """The place of the axes and their scales."""

    x: Scale
    y: Scale
    parts: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """The left end of the axes."""
        return self.x.start

    @property
    def right(self) -> float:
        """The right end of the axes."""
        return self.x.end


def frame(plot: Plot, across: str, up: str) -> list[Html]:
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
    mark: VerticalMark | None = None,
    keep: int = 0,
) -> tuple[float, list[Html]]:
    """Return height and parts of lines over axes; labels stand beside the ends, or below.

    ``scales`` say the ranges of both axes, not their places. ``keep`` lines of text stay free at
    the foot. Points keep their values as ``data-x`` and ``data-y``.
    """
    narrow = width <= NARROW
    longest = max((letters(ellipsis(line.name, 30)) for line in lines), default=0.0)
    rows = _rows(lines, width) if narrow else []
    left, top = 54.0 if not narrow else 46.0, 34.0
    right = width - (12 if narrow else longest + 48)
    foot = top + (300.0 if not narrow else 220.0)
    x, y = replace(scales[0], start=left, end=right), replace(scales[1], start=foot, end=top)
    made = Plot(x, y)
    parts = frame(made, across, up)
    if mark is not None and x.low <= mark.x <= x.high:
        place = x.at(mark.x)
        ahead = place + letters(mark.words) + 8 < right
        parts.append(path([(place, foot), (place, top - 6)], "mark"))
        parts.append(
            text(mark.words, place + (6 if ahead else -6), top + 4, "mark-label",
                 "start" if ahead else "end")
        )  # fmt: skip
    parts += [_band(line, made) for line in lines if line.band]
    parts.append(tag("path", d="", class_="crosshair"))
    parts += [_series(line, made) for line in lines]
    below = foot + 52
    if narrow:
        for row in rows:
            parts += [_legend(line, place, below) for place, line in row]
            below += _LINE + 3
        below -= 8
    else:
        parts += _ends(lines, made)
    return below + keep * _LINE, parts


def _band(line: Line, made: Plot) -> Html:
    above = [(made.x.at(x), made.y.at(high)) for (x, _), (_, high) in zip(
        line.points, line.band, strict=True)]  # fmt: skip
    under = [(made.x.at(x), made.y.at(low)) for (x, _), (low, _) in zip(
        line.points, line.band, strict=True)]  # fmt: skip
    return path([*above, *reversed(under)], f"band {line.kind}", closed=True)


def _pieces(line: Line, made: Plot) -> list[list[tuple[float, float]]]:
    """Return the line cut where it leaves the axes."""
    x, y = made.x, made.y
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


def _series(line: Line, made: Plot) -> Html:
    """Return the line, cut where it leaves the axes, and its points."""
    x, y = made.x, made.y
    words = line.words or tuple(f"{number(a)}: {number(b)}" for a, b in line.points)
    dots = [
        tag(
            "circle", tag("title", f"{line.name}: {said}"), cx=places(x.at(a)), cy=places(y.at(b)),
            r="3.2" if line.dots else "2.4", class_="dot" if line.dots else "dot hidden",
            data_x=float(a), data_y=float(b), data_words=said,
        )
        for (a, b), said in zip(line.points, words, strict=True)
        if y.low <= b <= y.high
    ]  # fmt: skip
    drawn = [path(piece, "line") for piece in _pieces(line, made) if len(piece) > 1]
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


def _ends(lines: Sequence[Line], made: Plot) -> list[Html]:
    """Return the names beside where the lines end, moved apart, with a leader and a sample."""
    tall = made.y.start - made.y.end
    shown = [(line, _last(line, made)) for line in lines]
    found = [(line, end) for line, end in shown if end is not None]
    moved = apart([(made.y.start - end[1]) / tall for _, end in found], _LINE / tall)
    parts = []
    for (line, end), share in zip(found, moved, strict=True):
        place = made.y.start - share * tall
        here = made.right + 12
        parts.append(
            tag(
                "g",
                path([end, (here - 2, place)], "leader"),
                path([(here, place), (here + 22, place)], "line"),
                tag("circle", cx=places(here + 11), cy=places(place), r="3.2", class_="dot")
                if line.dots
                else None,
                text(ellipsis(line.name, 30), here + 28, place + 4.5, "name"),
                class_=f"series {line.kind}",
            )
        )
    return parts


def _last(line: Line, made: Plot) -> tuple[float, float] | None:
    pieces = _pieces(line, made)
    return pieces[-1][-1] if pieces else None


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


def _legend(line: Line, x: float, y: float) -> Html:
    return tag(
        "g",
        path([(x, y), (x + 22, y)], "line"),
        tag("circle", cx=places(x + 11), cy=places(y), r="3.2", class_="dot")
        if line.dots
        else None,
        text(ellipsis(line.name, 38), x + 28, y + 4.5, "name"),
        class_=f"series {line.kind}",
    )
