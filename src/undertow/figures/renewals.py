"""Budgets that renew, against the persistence of what they protect."""

from typing import TYPE_CHECKING

from undertow.figures.canvas import canvas, label_ends, over, plain
from undertow.figures.colours import BLUE, GREEN, GREY, INK, ORANGE, PURPLE
from undertow.planning.renewals import Persistence
from undertow.rounding import above, below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_renewals"]

_COLOURS = (GREEN, BLUE, ORANGE, PURPLE)


def draw_renewals(
    table: Persistence, title: str = "", period: str = "day", mark: float | None = None
) -> "Figure":
    """Return the figure: left what each level leaks, right the level that leaks the limit.

    Both against the probability that a bit persists from one period to the next; every line of the
    left side is labelled where it ends. ``mark`` is a persistence that is marked on both sides.
    """
    with canvas((10.4, 4.8)) as figure:
        leaks = figure.add_axes((0.055, 0.13, 0.37, 0.68))
        spent = figure.add_axes((0.585, 0.13, 0.39, 0.68))
        _draw_leaks(leaks, table, period)
        _draw_budgets(spent, table, period)
        for axes in (leaks, spent):
            axes.set_xlabel(f"probability to be the same the next {period}")
            axes.set_xlim(table.persistences[0], table.persistences[-1])
            axes.grid(color="#E4E4E4", lw=0.7)
        if mark in table.persistences:
            place = table.persistences.index(mark)
            row = max(range(len(table.levels)), key=table.levels.__getitem__)
            leak, budget = table.leakages[row][place], table.budgets[place]
            _mark(leaks, mark, leak, f"{above(leak, 3)}", (-9, 3), "right")
            _mark(spent, mark, budget, f"{below(budget, 3)}", (5, 6), "left")
        figure.text(0.02, 0.93, plain(title), fontsize=12.5, fontweight="bold")
    return figure


def _draw_leaks(axes: "Axes", table: Persistence, period: str) -> None:
    ends = []
    for place, (level, row) in enumerate(zip(table.levels, table.leakages, strict=True)):
        colour = _COLOURS[place % len(_COLOURS)]
        axes.plot(table.persistences, row, color=colour, lw=2.2, label=f"{level:g}")
        ends.append((row[-1], f"ε = {level:g}\na {period}", colour))
    axes.set_ylim(0, None)
    label_ends(axes, ends, 0.11, linespacing=1.1)
    over(axes, f"leakage about one {period}", 1.03)


def _draw_budgets(axes: "Axes", table: Persistence, period: str) -> None:
    axes.plot(table.persistences, table.budgets, color=INK, lw=2.2, label="budget")
    axes.axhline(table.limit, color=GREY, lw=1.2, ls=(0, (4, 2)), label="limit")
    axes.set_ylim(0, 1.08 * table.limit)
    axes.text(
        table.persistences[-1], 1.015 * table.limit, "the limit: independent records could have it",
        ha="right", va="bottom", fontsize=9.5, color=GREY,
    )  # fmt: skip
    over(axes, f"ε to spend every {period} so that {table.limit:g} leaks", 1.03)


def _mark(
    axes: "Axes", x: float, y: float, words: str, moved: tuple[float, float], side: str
) -> None:
    axes.plot([x], [y], "o", color=INK, ms=6, mec="white", mew=1.2, zorder=5, label="mark")
    axes.annotate(
        words, (x, y), moved, textcoords="offset points", ha=side, fontsize=9.5, color=INK
    )
