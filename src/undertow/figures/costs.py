"""Figures of costs: errors of methods, budgets of windows and renewals, orders, robustness."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.diagnostics.chain_orders import OrderTable
from undertow.diagnostics.other_models import ModelCase, Robustness
from undertow.diagnostics.windows import Persistence, WindowTable
from undertow.errors import InvalidInput, NotSupported
from undertow.figures import canvas as c
from undertow.figures.canvas import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    RED,
    apart,
    canvas,
    head,
    label_ends,
    over,
    plain,
)
from undertow.methods import METHODS
from undertow.numerics import Array
from undertow.rounding import above, below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from undertow.planning.compare import ErrorCurves

__all__ = ["draw_errors", "draw_orders", "draw_renewals", "draw_robustness", "draw_windows"]


_LINE_HEIGHT = 0.052
"""Height of a one-line label as a share of the axes."""

_SOLID: Any = "-"
_CERTIFIED = [(colour, _SOLID) for colour in (c.BLUE, c.BLUE, c.PURPLE, c.PINK, c.GREEN, c.INK)]
_PUBLISHED = [(c.ORANGE, (0, (5, 2))), (c.OLIVE, (0, (5, 1.5, 1, 1.5))), (c.RED, (0, (2, 1.2)))]
"""Colours and dashes of the certified methods and of the published ones, in the order of the
registry; those after them are grey."""

_SAME = 5e-3
"""Relative distance below which two curves share a label."""


def draw_errors(curves: "ErrorCurves", title: str = "", limit: float | None = None) -> "Figure":
    """Return the figure: expected error against limit, every line labelled where it ends.

    Both axes are logarithmic. Published methods are dashed, those that protect against an ignorant
    attacker only are thin, and methods whose errors agree share a label. ``limit`` marks the
    one that was asked for.
    """
    with canvas() as figure:
        axes = figure.add_axes((0.085, 0.115, 0.615, 0.77))
        _draw_errors(axes, curves, limit)
        axes.set_xlabel("limit on leakage")
        head(axes, title, "expected absolute error of a released number")
    return figure


def _draw_errors(axes: "Axes", curves: "ErrorCurves", limit: float | None) -> None:
    x = np.asarray(curves.limits, dtype=float)
    drawn = {
        name: values
        for name, values in curves.errors.items()
        if (np.isfinite(values) & (values > 0)).any()
    }
    if not drawn:
        raise NotSupported("no method applies at any of these limits: there is nothing to draw")
    axes.set_xscale("log")
    axes.set_yscale("log")
    if x.size > 1:
        axes.set_xlim(float(x[0]), float(x[-1]))
    axes.set_ylim(*_error_range(x, list(drawn.values()), limit))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.grid(which="major", color="#E4E4E4", lw=0.7)
    if limit is not None:
        axes.axvline(limit, color=c.GREY, lw=1, ls=(0, (1, 1.4)), zorder=1, label="asked")
        axes.annotate(
            f"limit {limit:g}", (limit, 1), (4, -2), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top", fontsize=9.5, color=c.GREY,
        )  # fmt: skip
    for group in _alike(drawn):
        for name in group:
            axes.plot(x, drawn[name], **_error_line(name, curves), label=name)
    _label_errors(axes, x, curves, _alike(drawn))


def _error_line(name: str, curves: "ErrorCurves") -> dict[str, Any]:
    certified = curves.certified[name]
    known = [m.name for m in METHODS["answer"].values() if m.certified == certified]
    looks = dict(zip(known, _CERTIFIED if certified else _PUBLISHED, strict=False))
    colour, dashes = looks.get(name, (c.GREY, _SOLID if certified else (0, (1, 1))))
    width = 1.1 if _weaker(name, curves) else 2.2
    return {"color": colour, "ls": dashes, "lw": width, "zorder": 3}


def _weaker(name: str, curves: "ErrorCurves") -> bool:
    """Tell whether a method protects against fewer attackers than others."""
    return curves.protects[name] == "ignorant" and {*curves.protects.values()} != {"ignorant"}


def _label_errors(
    axes: "Axes", x: Array, curves: "ErrorCurves", groups: Sequence[Sequence[str]]
) -> None:
    """Write the names in the right margin, with a sample of the line, beside where it ends."""
    ends = []
    for names in groups:
        values = curves.errors[names[0]]
        last = np.flatnonzero(np.isfinite(values) & (values > 0))[-1]
        point = axes.transData.transform((x[last], values[last]))
        ends.append(axes.transAxes.inverted().transform(point))
    places = apart([min(max(float(end[1]), -0.001), 1.0) for end in ends], _LINE_HEIGHT)
    for names, end, place in zip(groups, ends, places, strict=True):
        line = _error_line(names[0], curves)
        if end[1] >= 0:  # below, it has left the figure
            axes.plot(
                [float(end[0]), 1.022], [float(end[1]), place], color=line["color"], lw=0.6,
                transform=axes.transAxes, clip_on=False, label="_leader",
            )  # fmt: skip
        axes.plot(
            [1.022, 1.072], [place, place], **line, transform=axes.transAxes, clip_on=False,
            solid_capstyle="butt", label="_sample",
        )  # fmt: skip
        axes.text(
            1.085, place, _error_label(names, curves), color=line["color"],
            transform=axes.transAxes, va="center", fontsize=9.5, clip_on=False,
        )  # fmt: skip


def _error_label(names: Sequence[str], curves: "ErrorCurves") -> str:
    remarks = [] if curves.certified[names[0]] else ["published"]
    if _weaker(names[0], curves):
        remarks.append("ignorant only")
    words = ", ".join(names)
    return f"{words} ({', '.join(remarks)})" if remarks else words


def _alike(drawn: dict[str, Array]) -> list[list[str]]:
    """Return the names of the curves, those that coincide together."""
    groups: list[list[str]] = []
    for name, values in drawn.items():
        for group in groups:
            if np.allclose(drawn[group[0]], values, rtol=_SAME, atol=0, equal_nan=True):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _error_range(x: Array, errors: Sequence[Array], limit: float | None) -> tuple[float, float]:
    """Return the range of errors to show, cut far above the limit, where they vanish."""
    shown = np.array(errors)
    shown = np.where(np.isfinite(shown) & (shown > 0), shown, np.nan)
    below_limit = shown if limit is None else shown[:, x <= limit]
    least = np.nanmin(below_limit) if np.isfinite(below_limit).any() else np.nanmin(shown)
    top = float(np.nanmax(shown))
    return max(float(np.nanmin(shown)), float(least) / 100) / 1.5, top * 1.5


def draw_windows(table: WindowTable, title: str = "") -> "Figure":
    """Return the figure: the DP level that keeps a limit against the records that are protected.

    Both axes are logarithmic. A dashed line shows what independent records would allow, a dotted
    one the level for a whole person, where the model says how many records that are.
    """
    with canvas() as figure:
        axes = figure.add_axes((0.095, 0.115, 0.875, 0.77))
        _draw(axes, table)
        axes.set_xlabel("records in a row whose whole history is protected")
        head(axes, title, "DP level to spend (one record replaced)")
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
        words = f"all {round(table.limit / person):,} records of a person: {below(person, 4)}"
        _say(axes, words, (sizes[0], person), (0, -6), ORANGE)


def _say(
    axes: "Axes", words: str, where: tuple[float, float], away: tuple[float, float], colour: str,
    side: str = "left",
) -> None:  # fmt: skip
    """Write words beside a point, in its colour."""
    axes.annotate(
        words, where, away, textcoords="offset points", va="top", ha=side, fontsize=9.5,
        color=colour, linespacing=1.15,
    )  # fmt: skip


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
    names = [
        f"order\n{case.order}" if not case.hidden
        else f"{case.hidden} hidden,\nattractive" if case.attractive else f"{case.hidden}\nhidden"
        for case in table
    ]  # fmt: skip
    axes.set_xticks(range(len(names)), names, color=INK, fontsize=9.5)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.grid(axis="y", color="#E4E4E4", lw=0.7)
    axes.set_axisbelow(True)


def _draw_bic(axes: "Axes", table: OrderTable) -> None:
    least = table.best.bic
    gaps = [case.bic - least for case in table]
    top = max(*gaps, 1.0)
    for place, (case, gap) in enumerate(zip(table, gaps, strict=True)):
        best = case is table.best
        axes.plot([place, place], [0, gap], color=GREEN if best else GREY, lw=2, label=case.name)
        axes.plot(place, gap, "D", color=GREEN if best else GREY, ms=7, mec="white")
        text = "best" if best else f"+{gap:,.0f}"
        axes.text(place, gap + 0.045 * top, text, ha="center", fontsize=9.5, color=INK)
    axes.set_ylim(-0.04 * top, 1.18 * top)
    _names(axes, table)
    over(axes, f"BIC above the least ({least:,.0f})", 1.035, 9.5)


def _draw_noise(axes: "Axes", table: OrderTable) -> None:
    ends = [case.scale for case in table]
    amounts = [end[1] or end[0] for end in ends if end is not None]
    top = 1.25 * max(amounts, default=1.0)
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
            _proved(axes, place, high, top)
        else:
            _attained(axes, place, low, top)
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
            _attained(axes, place, leak.lower, top)
        else:
            axes.plot([place, place], [leak.lower, leak.upper], color=BLUE, lw=3, alpha=0.5)
            _proved(axes, place, leak.upper, top)
    axes.set_ylim(0, top)
    _names(axes, table)
    over(axes, "what the plan leaks", 1.035, 9.5)


def _proved(axes: "Axes", place: int, value: float, top: float) -> None:
    """Draw a proved upper end."""
    axes.plot(place, value, "o", color=BLUE, ms=8, mec="white", label="proved", zorder=4)
    _under(axes, place, value, above(value, 3), top)


def _attained(axes: "Axes", place: int, value: float, top: float) -> None:
    """Draw what an attack attains, where no upper end is known."""
    axes.annotate(
        "", (place, value + 0.13 * top), (place, value + 0.012 * top),
        arrowprops={"arrowstyle": "->", "color": BLUE, "lw": 1.6},
    )  # fmt: skip
    axes.plot(place, value, "o", mfc="white", mec=BLUE, mew=1.8, ms=8, label="attack", zorder=4)
    _under(axes, place, value, f"≥ {below(value, 3)}", top)


def _under(axes: "Axes", place: int, value: float, text: str, top: float) -> None:
    axes.text(
        place, value - 0.045 * top, text, ha="center", va="top", fontsize=9.5, color=INK, zorder=5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
    )  # fmt: skip


_MOST_WORDS = 26
"""Letters of a case's name that fit beside its interval."""

_COLOURS_OTHER_MODELS = {"kept": GREEN, "broken": RED, "open": GREY}


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
        colour = _COLOURS_OTHER_MODELS[verdict]
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
    names = [plain(case.name) if len(case.name) <= _MOST_WORDS else
             plain(f"{case.name[: _MOST_WORDS - 1]}…") for case in reversed(cases)]  # fmt: skip
    axes.set_yticks(range(len(cases)), names, color=INK)
    axes.set_ylim(-0.6, len(cases) - 0.2)
    axes.set_xlim(0, top)
    axes.set_xlabel("leakage: ● an attack attains it, | no attack exceeds it")
    over(axes, "under other models", 1.03, 9.5)


def _ends(case: ModelCase) -> tuple[float, float]:
    if case.leakage is None:
        return 0.0, math.inf
    return case.leakage.lower, case.leakage.upper if case.whole else math.inf
