"""Drawing of the charts of the papers: their axes, our lines beside theirs."""

from typing import TYPE_CHECKING, Any

from undertow.figures.canvas import COLOURS, GREY, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from undertow_papers.charts import Chart, Panel, Trace

__all__ = ["draw_chart"]

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_STYLES: dict[str, dict[str, Any]] = {
    "ours": {"linestyle": "-", "linewidth": 1.8},
    "theirs": {"linestyle": (0, (4, 2)), "linewidth": 1.4},
    "bound": {"linestyle": "-", "linewidth": 2.8},
}
_WIDTH, _HEIGHT = 5.4, 4.3


def draw_chart(chart: "Chart") -> "Figure":
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


def _draw_panel(axes: "Axes", panel: "Panel") -> None:
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


def _draw_line(axes: "Axes", line: "Trace", colour: str, place: int, bars: "list[Trace]") -> None:
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
