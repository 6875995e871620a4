"""Orders compared: how well each describes the records, and the noise and leakage that it means."""

import math
from typing import TYPE_CHECKING

from undertow.figures.canvas import canvas, over, plain
from undertow.figures.colours import BLUE, GREEN, GREY, INK, ORANGE
from undertow.planning.orders import OrderCase, OrderTable
from undertow.rounding import above, below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_orders"]


def draw_orders(table: OrderTable, title: str = "") -> "Figure":
    """Return the figure: BIC, the noise for the limit, and what a plan leaks, model by model.

    Filled points are proved. Open points with an arrow upwards are attained by an attack, and no
    bound is known. A dashed line is the model-free one: the integrated autocorrelation of the
    records times the noise that independent records would need, good for small limits.
    """
    panels = 3 if table.planned is not None else 2
    with canvas((4.1 * panels + 0.6, 4.7)) as figure:
        share = 0.955 / panels
        boxes = [(0.062 + share * place, 0.2, share - 0.075, 0.56) for place in range(panels)]
        _draw_bic(figure.add_axes(boxes[0]), table)
        _draw_noise(figure.add_axes(boxes[1]), table)
        if table.planned is not None:
            _draw_leakage(figure.add_axes(boxes[2]), table, table.planned)
        figure.text(0.02, 0.93, plain(title), fontsize=12.5, fontweight="bold")
        figure.text(
            0.02, 0.875, "● proved    ○↑ attained by an attack, no bound is known", fontsize=9.5,
            color=GREY,
        )  # fmt: skip
    return figure


def _names(axes: "Axes", table: OrderTable) -> None:
    names = [_short(case) for case in table]
    axes.set_xticks(range(len(names)), names, color=INK, fontsize=9.5)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.grid(axis="y", color="#E4E4E4", lw=0.7)
    axes.set_axisbelow(True)


def _short(case: OrderCase) -> str:
    if case.hidden:
        return f"{case.hidden} hidden,\nattractive" if case.attractive else f"{case.hidden}\nhidden"
    return f"order\n{case.order}"


def _draw_bic(axes: "Axes", table: OrderTable) -> None:
    least = table.best.bic
    gaps = [case.bic - least for case in table]
    top = max(*gaps, 1.0)
    for place, (case, gap) in enumerate(zip(table, gaps, strict=True)):
        best = case is table.best
        axes.plot([place, place], [0, gap], color=GREEN if best else GREY, lw=2, label=case.name)
        axes.plot(place, gap, "D", color=GREEN if best else GREY, ms=7, mec="white")
        said = "best" if best else f"+{gap:,.0f}"
        axes.text(place, gap + 0.045 * top, said, ha="center", fontsize=9.5, color=INK)
    axes.set_ylim(-0.04 * top, 1.18 * top)
    _names(axes, table)
    over(axes, f"BIC above the least ({least:,.0f})", 1.035, 9.5)


def _draw_noise(axes: "Axes", table: OrderTable) -> None:
    ends = [case.scale for case in table]
    found = [end[1] or end[0] for end in ends if end is not None]
    top = 1.25 * max(found, default=1.0)
    free = None if table.measured is None else table.measured.measured / table.limit
    if free is not None:
        top = max(top, 1.2 * free)
        axes.axhline(free, color=ORANGE, lw=1.3, ls=(0, (5, 2)), label="autocorrelation")
        axes.text(
            -0.5, free + 0.02 * top, "no model: the records' autocorrelation\n(small limits only)",
            color=ORANGE, fontsize=9, va="bottom",
        )  # fmt: skip
        top = max(top, free + 0.18 * top)
    for place, end in enumerate(ends):
        if end is None:
            axes.text(place, 0.02 * top, "not known", ha="center", fontsize=9, color=GREY)
            continue
        low, high = end
        if high is not None:
            _point(axes, place, high, above(high, 3), top, "proved")
        else:
            _open(axes, place, low, below(low, 3), top, "attack")
    axes.set_ylim(0, top)
    _names(axes, table)
    whom = table.against if isinstance(table.against, str) else "one adversary"
    over(axes, f"Laplace scale of a count, leakage {above(table.limit, 3)} ({whom})", 1.035, 9.5)


def _draw_leakage(axes: "Axes", table: OrderTable, limit: float) -> None:
    leaks = [case.leakage for case in table]
    seen = [leak.lower if math.isinf(leak.upper) else leak.upper for leak in leaks if leak]
    top = 1.25 * max([*seen, limit])
    axes.axhline(limit, color=INK, lw=1.2, ls=(0, (4, 2)), label="limit")
    axes.text(
        len(leaks) - 0.45, limit - 0.02 * top, "limit of the plan", fontsize=9, color=INK, va="top",
        ha="right",
    )  # fmt: skip
    for place, leak in enumerate(leaks):
        if leak is None:
            axes.text(place, 0.02 * top, "not known", ha="center", fontsize=9, color=GREY)
        elif math.isinf(leak.upper):
            _open(axes, place, leak.lower, below(leak.lower, 3), top, "attack")
        else:
            axes.plot([place, place], [leak.lower, leak.upper], color=BLUE, lw=3, alpha=0.5)
            _point(axes, place, leak.upper, above(leak.upper, 3), top, "proved")
    axes.set_ylim(0, top)
    _names(axes, table)
    over(axes, "what the plan leaks", 1.035, 9.5)


def _point(axes: "Axes", place: int, value: float, said: str, top: float, label: str) -> None:
    axes.plot(place, value, "o", color=BLUE, ms=8, mec="white", label=label, zorder=4)
    axes.text(
        place, value - 0.045 * top, said, ha="center", va="top", fontsize=9.5, color=INK, zorder=5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
    )  # fmt: skip


def _open(axes: "Axes", place: int, value: float, said: str, top: float, label: str) -> None:
    axes.annotate(
        "", (place, value + 0.13 * top), (place, value + 0.012 * top),
        arrowprops={"arrowstyle": "->", "color": BLUE, "lw": 1.6},
    )  # fmt: skip
    axes.plot(place, value, "o", mfc="white", mec=BLUE, mew=1.8, ms=8, label=label, zorder=4)
    axes.text(
        place, value - 0.045 * top, f"≥ {said}", ha="center", va="top", fontsize=9.5, color=INK,
        zorder=5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
    )  # fmt: skip
