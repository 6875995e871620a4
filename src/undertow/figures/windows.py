"""DP budget against the size of what is protected: from one record to a whole person."""

from typing import TYPE_CHECKING

from undertow.figures.canvas import canvas, over, plain
from undertow.figures.colours import BLUE, GREY, INK, ORANGE
from undertow.planning.windows import WindowTable
from undertow.rounding import below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_windows"]


def draw_windows(table: WindowTable, title: str = "") -> "Figure":
    """Return the figure: the DP level that keeps a limit against the records that are protected.

    Both axes are logarithmic. A dashed line shows what independent records would allow, a dotted
    one the level for a whole person, where the model says how many records that are.
    """
    with canvas() as figure:
        axes = figure.add_axes((0.095, 0.115, 0.875, 0.77))
        _draw(axes, table)
        axes.set_xlabel("records in a row whose whole history is protected")
        axes.set_title(plain(title), loc="left", fontsize=12.5, fontweight="bold", pad=22)
        over(axes, "DP level to spend (one record replaced)")
    return figure


def _draw(axes: "Axes", table: WindowTable) -> None:
    sizes = [row.records for row in table]
    levels, alone = [row.level for row in table], [row.independent for row in table]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot(sizes, alone, color=GREY, ls=(0, (5, 2)), lw=1.6, label="independent")
    axes.plot(sizes, levels, "o-", color=BLUE, lw=2.2, ms=4.5, label="windows")
    person = table.person
    if person is not None:
        axes.axhline(person, color=ORANGE, lw=1.2, ls=(0, (1, 2)), label="person")
        whole = table.limit / person
        axes.plot([whole], [person], "s", color=ORANGE, ms=8, mec="white", mew=1.2, zorder=5)
    last = sizes[-1] if person is None else max(sizes[-1], table.limit / person)
    axes.set_xlim(sizes[0] * 0.9, max(last * 1.15, 2))
    axes.set_ylim(0.5 * min(levels[-1], person or levels[-1]), 1.4 * max(alone[0], levels[0]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.grid(which="major", color="#E4E4E4", lw=0.7)
    first = "one record" if sizes[0] == 1 else f"{sizes[0]} records"
    middle = len(sizes) // 2
    _say(axes, f"{first}:\n{below(levels[0], 4)}", (sizes[0], levels[0]), (0, -10), INK)
    _say(
        axes, "with the dependence\nof the model", (sizes[middle], levels[middle]), (-12, -8), BLUE,
        "right",
    )  # fmt: skip
    above = (sizes[middle], alone[middle])
    _say(axes, "if records were independent:\nlimit / records", above, (14, 34), GREY)
    if person is not None:
        told = f"all {round(table.limit / person):,} records of a person: {below(person, 4)}"
        _say(axes, told, (sizes[0], person), (0, -6), ORANGE)


def _say(
    axes: "Axes", words: str, where: tuple[float, float], away: tuple[float, float], colour: str,
    side: str = "left",
) -> None:  # fmt: skip
    """Write words beside a point, in the colour of what they are about."""
    axes.annotate(
        words, where, away, textcoords="offset points", va="top", ha=side, fontsize=9.5,
        color=colour, linespacing=1.15,
    )  # fmt: skip
