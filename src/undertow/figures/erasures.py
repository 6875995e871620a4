"""A redacted series: what is shown, what is erased, and how likely that was."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.channels import Redaction
from undertow.errors import InvalidInput
from undertow.figures.canvas import beside, canvas, plain
from undertow.figures.colours import COLOURS, GREY, INK, RED
from undertow.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_redaction"]

_COLOURS = COLOURS[:6]
_MARKS = "osD^v<"
_ROOM = 12
"""Records shown beyond those that may be erased, on either side."""


def draw_redaction(
    plan: Plan[Redaction], shown: Sequence[Any] | None = None, title: str = ""
) -> "Figure":
    """Return the figure: above the series as shown, below how likely a record is erased.

    Both show the records around the protected ones; beyond, all records are shown. ``shown`` has
    the outputs of one series, None where a record is erased; without it only
    probabilities are drawn.
    """
    mechanism = plan.mechanism
    if shown is not None and len(shown) != mechanism.length:
        raise InvalidInput(
            f"the plan is for {mechanism.length} records, the series to draw has {len(shown)}"
        )
    touched = np.flatnonzero(mechanism.probabilities.any(axis=1))
    first = max(int(touched[0]) - _ROOM, 0)
    last = min(int(touched[-1]) + _ROOM, mechanism.length - 1)
    with canvas() as figure:
        low = figure.add_axes((0.11, 0.115, 0.72, 0.44 if shown is not None else 0.72))
        _draw_probabilities(low, plan, first, last)
        low.set_xlabel("record (counted from 0)")
        top = low
        if shown is not None:
            top = figure.add_axes((0.11, 0.64, 0.72, 0.22), sharex=low)
            _draw_series(top, plan, shown, first, last)
        top.set_title(plain(title), loc="left", fontsize=12.5, fontweight="bold", pad=12)
    return figure


def _draw_probabilities(axes: "Axes", plan: Plan[Redaction], first: int, last: int) -> None:
    mechanism, records = plan.mechanism, np.arange(first, last + 1)
    for place, state in enumerate(plan.states):
        probabilities = mechanism.probabilities[first : last + 1, place]
        colour, mark = _look(place)
        axes.plot(
            records, probabilities, color=colour, lw=1.2, marker=mark, ms=3.5 + 1.5 * (place == 0),
            label=str(state), zorder=3,
        )  # fmt: skip
        beside(axes, 0.92 - 0.1 * place, plain(f"if {state}"), colour)
    _mark_protected(axes, mechanism)
    axes.set_xlim(first - 0.7, last + 0.7)
    axes.set_ylim(-0.03, 1.05)
    axes.set_ylabel("probability to be erased")
    axes.grid(axis="y", color="#E4E4E4", lw=0.7)


def _draw_series(
    axes: "Axes", plan: Plan[Redaction], shown: Sequence[Any], first: int, last: int
) -> None:
    places = {state: place for place, state in enumerate(plan.states)}
    for record in range(first, last + 1):
        value = shown[record]
        if value is None:
            axes.plot(record, (len(places) - 1) / 2, "x", color=GREY, ms=6, label="erased")
        else:
            colour, mark = _look(places[value])
            axes.plot(record, places[value], mark, color=colour, ms=5, label=str(value))
    _mark_protected(axes, plan.mechanism)
    axes.set_yticks(range(len(places)), [plain(str(state)) for state in places], color=INK)
    axes.set_ylim(-0.5, len(places) - 0.5)
    axes.tick_params(axis="x", labelbottom=False)
    erased = sum(value is None for value in shown)
    beside(axes, 0.5, f"x erased\n{erased} of {len(shown)}", GREY)


def _mark_protected(axes: "Axes", mechanism: Redaction) -> None:
    for record in mechanism.protect:
        axes.axvline(record, color=RED, lw=1, ls=(0, (1, 1.4)), zorder=1, label="protected")


def _look(place: int) -> tuple[str, str]:
    return _COLOURS[place % len(_COLOURS)], _MARKS[place % len(_MARKS)]
