"""Noise on each release against the number of releases: Laplace and Gaussian noise."""

from typing import TYPE_CHECKING

import numpy as np

from undertow.figures.canvas import apart, beside, canvas, over, plain
from undertow.figures.colours import BLUE, GREY, INK, ORANGE, PURPLE
from undertow.planning.releases import ReleaseTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_releases"]

_LABEL_HEIGHT = 0.095
"""Height of a two-line label as a share of the axes."""

_POINTS = 120
"""Points of a line."""

_LOOKS = {
    "laplace": (ORANGE, "-", "Laplace noise,\nlevels add up"),
    "zcdp": (PURPLE, (0, (5, 2)), "Gaussian noise,\nby zCDP"),
    "gaussian": (BLUE, "-", "Gaussian noise,\nby its curve"),
    "swept": (INK, (0, (1, 1.2)), "Gaussian noise,\nby the sweep"),
}
"""Colour, dashes and words of each way to account."""


def draw_releases(table: ReleaseTable, title: str = "") -> "Figure":
    """Return the figure: standard deviation per release against the number of releases.

    Both axes are logarithmic; every line is labelled where it ends, and a dot marks the least
    number of releases at which Gaussian noise is the smaller one.
    """
    with canvas() as figure:
        axes = figure.add_axes((0.085, 0.115, 0.665, 0.77))
        _draw(axes, table)
        axes.set_xlabel("releases on the same records")
        axes.set_title(plain(title), loc="left", fontsize=12.5, fontweight="bold", pad=22)
        over(axes, "standard deviation of the noise on each release (sensitivity 1)")
    return figure


def _draw(axes: "Axes", table: ReleaseTable) -> None:
    most = max([row.releases for row in table] or [1])
    x = np.geomspace(1, max(most, 2), _POINTS)
    single = table.single
    ends = []
    axes.set_xscale("log")
    axes.set_yscale("log")
    for name, (colour, dashes, words) in _LOOKS.items():
        alone = getattr(single, name)
        if alone is None:
            continue
        y = alone * (x if name == "laplace" else np.sqrt(x))
        axes.plot(x, y, color=colour, ls=dashes, lw=2.2, label=name)
        ends.append((float(y[-1]), words, colour))
    axes.set_xlim(1, float(x[-1]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axes.grid(which="major", color="#E4E4E4", lw=0.7)
    first = table.wins("gaussian")
    if first <= most:
        _mark(axes, first, table.at(first).gaussian)
    low, high = (np.log(end) for end in axes.get_ylim())
    places = apart([float((np.log(end) - low) / (high - low)) for end, _, _ in ends], _LABEL_HEIGHT)
    for place, (_, words, colour) in zip(places, ends, strict=True):
        beside(axes, place, words, colour, linespacing=1.15)


def _mark(axes: "Axes", releases: int, sigma: float) -> None:
    axes.plot(
        [releases], [sigma], "o", color=INK, ms=7, mec="white", mew=1.2, zorder=5, label="wins"
    )
    axes.annotate(
        f"from {releases} releases on\nGaussian noise is less", (releases, sigma), (10, -12),
        textcoords="offset points", va="top", fontsize=9.5, color=GREY,
    )  # fmt: skip
