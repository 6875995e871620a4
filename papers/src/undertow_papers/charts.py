"""Figures as data (panels, lines, their roles) and their drawing beside those of the papers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from undertow.errors import InvalidInput
from undertow.figures.canvas import COLOURS, GREY, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Chart", "Panel", "Trace", "draw_chart", "merge_equal"]

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLES: dict[str, dict[str, Any]] = {
    "ours": {"linestyle": "-", "linewidth": 1.8},
    "theirs": {"linestyle": (0, (4, 2)), "linewidth": 1.4},
    "bound": {"linestyle": "-", "linewidth": 2.8},
}
_WIDTH, _HEIGHT = 5.4, 4.3


@dataclass(frozen=True, slots=True)
class Trace:
    """One series of a panel. ``role``: what it is, which decides how it looks.

    ``ours`` is a solid line, ``theirs`` (recomputed from the paper's formulas) a dashed one,
    ``points`` are values read off the paper, ``bound`` a thick line, ``band`` runs between ``y``
    and ``y2``, ``bars`` are bars.

    >>> Trace("exact", (1.0, 2.0), (3.5, 5.4)).role
    'ours'
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    role: Literal["ours", "theirs", "points", "bound", "band", "bars"] = "ours"
    y2: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the lengths."""
        if len(self.x) != len(self.y) or (self.y2 and len(self.y2) != len(self.x)):
            raise InvalidInput(f"the line {self.label!r} has {len(self.x)} places and other values")


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes, the same as in the paper.

    >>> Panel("a", "epsilon", "error", (Trace("exact", (1.0,), (2.0,)),)).scale
    ('linear', 'linear')
    """

    title: str
    xlabel: str
    ylabel: str
    lines: tuple[Trace, ...]
    scale: tuple[Literal["linear", "log"], Literal["linear", "log"]] = ("linear", "linear")
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    ticks: tuple[str, ...] = ()  # names of the places 0, 1, ... on the x axis, for bars


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: panels side by side, with a title and a caption.

    >>> Chart("fig1", "Flips", (Panel("", "x", "y", (Trace("a", (1.0,), (1.0,)),)),)).name
    'fig1'
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    caption: str = ""


def merge_equal(lines: Iterable[Trace], tolerance: float = 1e-6) -> tuple[Trace, ...]:
    """Return the lines, those that agree to a relative tolerance joined under one label.

    >>> same = Trace("a", (1.0,), (2.0,)), Trace("b", (1.0,), (2.0,)), Trace("c", (1.0,), (3.0,))
    >>> [line.label for line in merge_equal(same)]
    ['a = b', 'c']
    """
    kept: list[Trace] = []
    for line in lines:
        for place, other in enumerate(kept):
            if line.x == other.x and all(
                abs(one - two) <= tolerance * max(abs(one), abs(two))
                for one, two in zip(line.y, other.y, strict=True)
            ):
                kept[place] = replace(other, label=f"{other.label} = {line.label}", role=line.role)
                break
        else:
            kept.append(line)
    return tuple(kept)


def draw_chart(chart: Chart) -> "Figure":
    """Return the figure of a chart, its panels side by side (three in a row at most)."""
    columns = min(len(chart.panels), 3)
    rows = -(-len(chart.panels) // columns)
    size = (max(_WIDTH * columns, 7.0), _HEIGHT * rows + 0.9)
    with canvas(size) as figure:
        figure.suptitle(chart.title, x=0.02, ha="left", fontsize=12.5, fontweight="bold")
        for place, panel in enumerate(chart.panels, start=1):
            _draw_panel(figure.add_subplot(rows, columns, place), panel)
        if chart.caption:
            figure.text(0.02, 0.012, chart.caption, fontsize=8.5, color=GREY, wrap=True)
        figure.tight_layout(rect=(0, 0.04 if chart.caption else 0, 1, 0.95))
    return figure


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    bars = [line for line in panel.lines if line.role == "bars"]
    for place, line in enumerate(panel.lines):
        _draw_line(axes, line, COLOURS[place % len(COLOURS)], place, bars)
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel)
    axes.set_xscale(panel.scale[0])
    axes.set_yscale(panel.scale[1])
    axes.grid(axis="y", color="#E6E9EC", linewidth=0.8)
    axes.set_axisbelow(True)
    places = [x for line in panel.lines for x in line.x]
    if panel.scale[0] == "linear" and places and all(float(x).is_integer() for x in places):
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.xlim is not None:
        axes.set_xlim(*panel.xlim)
    if panel.ylim is not None:
        axes.set_ylim(*panel.ylim)
    if panel.ticks:
        axes.set_xticks(range(len(panel.ticks)), panel.ticks)
        if max(map(len, panel.ticks)) > 8:
            axes.tick_params(axis="x", labelrotation=30)
    if panel.title:
        axes.set_title(panel.title, loc="left", fontsize=10)
    if any(line.label for line in panel.lines):
        axes.legend(fontsize=8, frameon=False)


def _draw_line(axes: "Axes", line: Trace, colour: str, place: int, bars: list[Trace]) -> None:
    mark = _MARKS[place % len(_MARKS)]
    match line.role:
        case "band":
            axes.fill_between(
                line.x, line.y, line.y2 or line.y, color=colour, alpha=0.25, label=line.label
            )
        case "bars":
            width = 0.8 / len(bars)
            shift = (bars.index(line) - (len(bars) - 1) / 2) * width
            axes.bar([x + shift for x in line.x], line.y, width, color=colour, label=line.label)
        case "points":
            axes.plot(
                line.x, line.y, linestyle="none", marker=mark, markersize=6, color=colour,
                markerfacecolor="white", markeredgewidth=1.5, label=line.label,
            )  # fmt: skip
        case _:
            few = mark if len(line.x) <= 24 else None
            axes.plot(
                line.x, line.y, color=colour, marker=few, markersize=4.5, label=line.label,
                **_STYLES[line.role],
            )  # fmt: skip
