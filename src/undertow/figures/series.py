"""Figures of series: the success of attackers against the bound, and erasures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.errors import InvalidInput
from undertow.figures import canvas as c
from undertow.figures.canvas import COLOURS, GREY, INK, RED, beside, canvas, head, label_ends, plain
from undertow.mechanisms import Redaction
from undertow.numerics import Array
from undertow.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Guarantee", "Hit", "draw_attacks", "draw_redaction"]


_LOOKS = {
    "prior": (c.GREY, "_"),
    "single-bit": (c.ORANGE, "s"),
    "correlation-aware": (c.BLUE, "o"),
    "viterbi": (c.GREEN, "^"),
    "informed": (c.PURPLE, "D"),
    "bayes": (c.BLUE, "o"),
}
_OTHERS = ((c.PINK, "v"), (c.OLIVE, "P"))
_LABEL_HEIGHT = 0.055
"""Height of a label as a share of the axes."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The accuracy of an attacker, between ``low`` and ``high``, at one guaranteed leakage.

    ``covered`` says whether the guarantee is about this attacker, and ``bound`` what it says where
    he knows more than the others beforehand (None: the bound of all).
    """

    attacker: str
    limit: float
    accuracy: float
    low: float
    high: float
    covered: bool = True
    bound: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Guarantee:
    """The bound on the accuracy for each limit, and the accuracy of the prior alone."""

    limits: Array
    bounds: Array
    prior: float


def draw_attacks(hits: Sequence[Hit], guarantee: Guarantee, title: str = "") -> "Figure":
    """Return the figure: success against limit with its intervals, the bound beside it.

    Points of one attacker are joined; hollow ones are attackers whom the guarantee does not cover.
    A bound that is an attacker's own is dashed, in his colour.
    """
    if not hits:
        raise InvalidInput("there is no attack to draw")
    with canvas() as figure:
        axes = figure.add_axes((0.085, 0.115, 0.66, 0.74))
        axes.plot(guarantee.limits, guarantee.bounds, color=c.RED, lw=2, label="bound", zorder=2)
        axes.axhline(guarantee.prior, color=c.GREY, lw=1, ls=(0, (1, 1.4)), label="by the prior")
        labels = [(float(guarantee.bounds[-1]), "at most, by the guarantee", c.RED)]
        labels.append((guarantee.prior, "by the prior alone", c.GREY))
        names = list(dict.fromkeys(hit.attacker for hit in hits))
        width = float(guarantee.limits[-1] - guarantee.limits[0])
        for place, name in enumerate(names):
            own = sorted((h for h in hits if h.attacker == name), key=lambda hit: hit.limit)
            shift = 0.008 * width * (place - (len(names) - 1) / 2)
            colour = _draw(axes, own, shift, place)
            labels.append((own[-1].accuracy, name, colour))
            labels += _draw_own_bound(axes, own, shift, colour)
        _finish(axes, hits, guarantee)
        label_ends(axes, labels, _LABEL_HEIGHT)
        head(axes, title, "share of records guessed right")
    return figure


def _draw(axes: "Axes", hits: list[Hit], shift: float, place: int) -> str:
    """Draw one attacker, and return its colour."""
    name = hits[0].attacker
    colour, mark = _LOOKS.get(name, _OTHERS[place % len(_OTHERS)])
    x = [hit.limit + shift for hit in hits]
    y = [hit.accuracy for hit in hits]
    spread = [
        [max(hit.accuracy - hit.low, 0.0) for hit in hits],
        [max(hit.high - hit.accuracy, 0.0) for hit in hits],
    ]
    axes.errorbar(
        x, y, yerr=spread, color=colour, lw=1.3, elinewidth=1, capsize=2.5, marker=mark, ms=6,
        mfc=colour if hits[0].covered else "white", label=name, zorder=3,
    )  # fmt: skip
    return colour


def _draw_own_bound(
    axes: "Axes", hits: list[Hit], shift: float, colour: str
) -> list[tuple[float, str, str]]:
    """Draw the separate bound of an attacker, and return its label."""
    bounds = [(hit.limit + shift, hit.bound) for hit in hits if hit.bound is not None]
    if not bounds:
        return []
    x, y = zip(*bounds, strict=True)
    label = f"{hits[0].attacker}, at most"
    axes.plot(x, y, color=colour, lw=1, ls=(0, (4, 2)), marker="_", ms=11, label=label, zorder=2)
    return [(y[-1], label, colour)]


def _finish(axes: "Axes", hits: Sequence[Hit], guarantee: Guarantee) -> None:
    axes.set_xlim(float(guarantee.limits[0]), float(guarantee.limits[-1]))
    lowest = min([guarantee.prior, *(hit.low for hit in hits)])
    axes.set_ylim(max(0.0, np.floor((lowest - 0.02) * 20) / 20), 1.02)
    axes.set_xlabel("limit on leakage that the plan guarantees")
    axes.grid(axis="y", color="#E4E4E4", lw=0.7)
    if not all(hit.covered for hit in hits):
        axes.text(
            0.99, 0.02, "hollow: the guarantee does not cover this attacker", color=c.INK,
            transform=axes.transAxes, ha="right", fontsize=8.5,
        )  # fmt: skip


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
