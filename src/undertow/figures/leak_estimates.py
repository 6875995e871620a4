"""Leakage estimated from densities beside what is true and what was published."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from undertow.errors import InvalidInput
from undertow.figures.canvas import BLUE, GREEN, GREY, OLIVE, ORANGE, PURPLE, apart, canvas
from undertow.numerics import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LeakEstimates", "draw_estimates"]

_COLOURS = (GREY, PURPLE, OLIVE, GREEN)


@dataclass(frozen=True, slots=True)
class LeakEstimates:
    """Estimated leakages at some places, the exact ones, and other curves by name.

    ``audited`` are lower bounds that hold with confidence, where audits were made.

    >>> import numpy as np
    >>> x = np.array([1.0, 2.0])
    >>> LeakEstimates(x, x + 0.2, x, {"published": 2 * x}).curves.keys()
    dict_keys(['published'])
    """

    places: Array
    estimates: Array
    exact: Array
    curves: Mapping[str, Array]
    audited: Array | None = None

    def __post_init__(self) -> None:
        """Check that all have as many points."""
        given = [self.estimates, self.exact, *self.curves.values()]
        given += [] if self.audited is None else [self.audited]
        for values in given:
            if len(values) != len(self.places) or not len(values):
                raise InvalidInput(
                    f"{len(self.places)} places need as many leakages of each kind, found "
                    f"{len(values)}"
                )


def draw_estimates(found: LeakEstimates, label: str, title: str = "") -> "Figure":
    """Return the figure: crosses for estimates, lines for what is exact or published.

    ``label`` says what the places are. The estimates are called what they are: they can exceed
    the truth.
    """
    with canvas() as figure:
        axes = figure.add_axes((0.10, 0.13, 0.60, 0.76))
        x = found.places
        named: list[tuple[str, str, float]] = []
        for (name, values), colour in zip(found.curves.items(), _COLOURS, strict=False):
            axes.plot(x, values, color=colour, lw=1.4, ls="--", label=name)
            named.append((name, colour, float(values[-1])))
        axes.plot(x, found.exact, color=BLUE, lw=2.2, label="exact")
        named.append(("exact, worst adversary", BLUE, float(found.exact[-1])))
        axes.plot(x, found.estimates, "x", color=ORANGE, ms=7, mew=1.8, label="estimate")
        words = "estimate from densities\n(can exceed the truth)"
        named.append((words, ORANGE, float(found.estimates[-1])))
        if found.audited is not None:
            axes.plot(x, found.audited, "^", color=GREEN, ms=6, label="audited")
            words = "audited, at least\n(with confidence)"
            named.append((words, GREEN, float(found.audited[-1])))
        axes.set_ylim(bottom=0)
        top = axes.get_ylim()[1]
        heights = apart([min(value / top, 1.0) for _, _, value in named], 0.1)
        for (name, colour, _), height in zip(named, heights, strict=True):
            axes.text(
                1.02,
                height,
                name,
                color=colour,
                transform=axes.transAxes,
                va="center",
                fontsize=9.5,
            )
        axes.set_xlabel(label)
        axes.set_ylabel("leakage")
        axes.grid(axis="y", color="#E4E4E4", lw=0.7)
        axes.set_title(title, loc="left", fontsize=12.5, fontweight="bold", pad=12)
    return figure
