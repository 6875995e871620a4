"""What a plan leaks under other models: the grid as a map, the rest as intervals."""

import math
from typing import TYPE_CHECKING

from undertow.errors import InvalidInput
from undertow.figures.canvas import canvas, over, plain
from undertow.figures.colours import BLUE, GREEN, GREY, INK, RED
from undertow.planning.other_models import ModelCase, Robustness
from undertow.rounding import above

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_robustness"]

_MOST_WORDS = 26
"""Letters of a case's name that fit beside its interval."""

_COLOURS = {"kept": GREEN, "broken": RED, "open": GREY}


def draw_robustness(table: Robustness, title: str = "") -> "Figure":
    """Return the figure: left the grid of chains, right the other models, each with its verdict.

    In the map every cell has its leakage; cells that keep the guarantee are light, others dark and
    bold. Intervals end at an attack (left) and at a bound (right); an arrow stands for no bound.
    """
    grid = [case for case in table if case.kind == "grid" and case.leakage is not None]
    rest = [case for case in table if case.kind != "grid" and case.leakage is not None]
    if not rest:
        raise InvalidInput("no leakage is known under any model: there is nothing to draw")
    with canvas((10.4, 4.8)) as figure:
        wide = (0.075, 0.15, 0.36, 0.66)
        if len(grid) > 1 and len(grid[0].factors) == 2:
            _draw_map(figure.add_axes(wide), grid, table)
        elif len(grid) > 1:
            _draw_line(figure.add_axes(wide), grid, table)
        left = 0.63 if len(grid) > 1 else 0.25
        _draw_intervals(figure.add_axes((left, 0.15, 0.97 - left, 0.66)), rest, table)
        figure.text(0.02, 0.93, plain(title), fontsize=12.5, fontweight="bold")
    return figure


def _draw_map(axes: "Axes", grid: list[ModelCase], table: Robustness) -> None:
    rows = sorted({case.factors[0] for case in grid})
    columns = sorted({case.factors[1] for case in grid})
    values = [[math.nan] * len(columns) for _ in rows]
    apart = [abs(case.leakage.upper - table.limit) for case in grid if case.leakage is not None]
    reach = max(filter(math.isfinite, apart), default=0.0) or 1.0
    for case in grid:
        x, y = columns.index(case.factors[1]), rows.index(case.factors[0])
        value = math.inf if case.leakage is None else case.leakage.upper
        values[y][x] = value - table.limit
        broken = case.verdict(table.limit) != "kept"
        axes.text(
            x, y, above(value, 3), ha="center", va="center", fontsize=9.5,
            color="white" if abs(value - table.limit) > 0.7 * reach else INK,
            fontweight="bold" if broken else "normal", label=case.verdict(table.limit),
        )  # fmt: skip
    axes.imshow(values, cmap="RdBu_r", vmin=-1.3 * reach, vmax=1.3 * reach, aspect="auto",
                origin="lower")  # fmt: skip
    axes.set_xticks(range(len(columns)), [f"x {f:g}" for f in columns])
    axes.set_yticks(range(len(rows)), [f"x {f:g}" for f in rows])
    axes.set_xlabel(plain(f"odds of leaving {table.states[1]!r}"))
    axes.set_ylabel(plain(f"odds of leaving {table.states[0]!r}"))
    axes.tick_params(length=0)
    bold = f"(bold: above {above(table.limit, 3)})"
    over(axes, f"leakage if the chain moves otherwise {bold}", 1.03, 9.5)


def _draw_line(axes: "Axes", grid: list[ModelCase], table: Robustness) -> None:
    points = sorted((c.factors[0], c.leakage.upper) for c in grid if c.leakage is not None)
    axes.plot(*zip(*points, strict=True), color=BLUE, lw=2, marker="o", label="grid")
    axes.axhline(table.limit, color=INK, lw=1.2, ls=(0, (4, 2)), label="guarantee")
    axes.set_xscale("log")
    axes.set_xticks([factor for factor, _ in points], [f"x {f:g}" for f, _ in points])
    axes.minorticks_off()
    axes.set_ylim(0, None)
    axes.set_xlabel("odds of leaving a state")
    over(axes, "leakage if the chain moves otherwise", 1.03, 9.5)


def _draw_intervals(axes: "Axes", cases: list[ModelCase], table: Robustness) -> None:
    ends = [e for case in cases for e in _ends(case) if math.isfinite(e)]
    top = 1.16 * max(*ends, table.limit)
    for place, case in enumerate(reversed(cases)):
        low, high = _ends(case)
        verdict = case.verdict(table.limit)
        colour = _COLOURS[verdict]
        axes.plot([low, min(high, 0.97 * top)], [place, place], color=colour, lw=3, alpha=0.55,
                  solid_capstyle="butt", label=case.name)  # fmt: skip
        axes.plot(low, place, "o", color=colour, ms=7, mec="white", label=f"{case.name}: attack")
        if math.isfinite(high):
            axes.plot(high, place, "|", color=colour, ms=13, mew=2, label=f"{case.name}: bound")
        else:
            axes.plot(0.97 * top, place, ">", color=colour, ms=7, label=f"{case.name}: no bound")
        axes.text(0.015 * top, place + 0.2, verdict, color=colour, fontsize=9.5)
    axes.axvline(table.limit, color=INK, lw=1.2, ls=(0, (4, 2)), zorder=1, label="guarantee")
    axes.text(table.limit, len(cases) - 0.35, " guaranteed", fontsize=9.5, color=INK, va="center")
    names = [plain(_short(case.name)) for case in reversed(cases)]
    axes.set_yticks(range(len(cases)), names, color=INK)
    axes.set_ylim(-0.6, len(cases) - 0.2)
    axes.set_xlim(0, top)
    axes.set_xlabel("leakage: ● an attack attains it, | no attack exceeds it")
    over(axes, "under other models", 1.03, 9.5)


def _ends(case: ModelCase) -> tuple[float, float]:
    if case.leakage is None:
        return 0.0, math.inf
    return case.leakage.lower, case.leakage.upper if case.whole else math.inf


def _short(name: str) -> str:
    return name if len(name) <= _MOST_WORDS else f"{name[: _MOST_WORDS - 1]}…"
