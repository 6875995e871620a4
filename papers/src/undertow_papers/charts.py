"""Figures as data: what is drawn, on which axes, without a drawing library."""

from dataclasses import dataclass
from typing import Literal

from undertow.errors import InvalidInput

__all__ = ["Chart", "Panel", "Trace"]


@dataclass(frozen=True, slots=True)
class Trace:
    """One series of a panel. ``role``: what it is, which decides how it looks.

    ``ours`` is a solid line, ``theirs`` (recomputed from the paper's formulas) a dashed one,
    ``points`` are values read off the paper, ``bound`` a thick line, ``band`` runs between ``y``
    and ``y2``, ``bars`` are bars.

    >>> Trace("exact", (1.0, 2.0), (3.5, 5.4)).role
    'ours'
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    role: Literal["ours", "theirs", "points", "bound", "band", "bars"] = "ours"
    y2: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check the lengths."""
        if len(self.x) != len(self.y) or (self.y2 and len(self.y2) != len(self.x)):
            raise InvalidInput(f"the line {self.label!r} has {len(self.x)} places and other values")


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes, the same as in the paper.

    >>> Panel("a", "epsilon", "error", (Trace("exact", (1.0,), (2.0,)),)).scale
    ('linear', 'linear')
    """

    title: str
    xlabel: str
    ylabel: str
    lines: tuple[Trace, ...]
    scale: tuple[Literal["linear", "log"], Literal["linear", "log"]] = ("linear", "linear")
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    ticks: tuple[str, ...] = ()  # names of the places 0, 1, ... on the x axis, for bars


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: panels side by side, with a title and a caption.

    >>> Chart("fig1", "Flips", (Panel("", "x", "y", (Trace("a", (1.0,), (1.0,)),)),)).name
    'fig1'
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    caption: str = ""
