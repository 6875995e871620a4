"""What all figures share: style, labels that do not cover each other, and the way to matplotlib."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from undertow.errors import NotSupported
from undertow.figures.colours import GREY, INK
from undertow.rounding import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "apart",
    "beside",
    "canvas",
    "check_drawing",
    "figure_bytes",
    "label_ends",
    "over",
    "plain",
]

STYLE = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "svg.fonttype": "none",  # words stay words: searchable, and read aloud
    "svg.hashsalt": "undertow",
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
}
SIZE = (8.6, 5.2)


@contextmanager
def canvas(size: tuple[float, float] = SIZE) -> Iterator["Figure"]:
    """Give an empty figure in the house style."""
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        yield Figure(figsize=size, dpi=160)


def check_drawing() -> None:
    """Refuse where nothing can be drawn, before anything is computed."""
    _matplotlib()


def figure_bytes(figure: "Figure", kind: Literal["png", "svg"]) -> bytes:
    """Return the file of a figure; the same figure gives the same bytes."""
    matplotlib = _matplotlib()
    content = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        nothing = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(content, format=kind, metadata=nothing)
    return content.getvalue()


def plain(name: str) -> str:
    r"""Return a name as it can stand in a figure: no formula is read into it, nothing is hidden.

    >>> print(plain("at $5\a"))
    at \$5\x07
    """
    return visible(name, lines=True).replace("$", r"\$")


def over(axes: "Axes", words: str, height: float = 1.025, size: float = 10) -> None:
    """Write what the vertical axis counts above the left end of the axes."""
    axes.text(0, height, words, transform=axes.transAxes, color=GREY, fontsize=size)


def beside(axes: "Axes", height: float, words: str, colour: str, **more: Any) -> None:
    """Write words in the right margin, at a share of the height of the axes."""
    axes.text(
        1.015, height, words, color=colour, transform=axes.transAxes, va="center", fontsize=9.5,
        **more,
    )  # fmt: skip


def label_ends(
    axes: "Axes", labels: list[tuple[float, str, str]], least: float, **more: Any
) -> None:
    """Write what each line is called in the right margin, none over another.

    A label is where the line ends, its words and its colour; ``least`` the height of one as a share
    of the axes.
    """
    low, high = axes.get_ylim()
    places = apart([min((y - low) / (high - low), 1.0) for y, _, _ in labels], least)
    for place, (_, words, colour) in zip(places, labels, strict=True):
        beside(axes, place, words, colour, **more)


def apart(places: list[float], least: float) -> list[float]:
    """Return the places moved apart until neighbours are ``least`` away from each other."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for _ in range(200):
        for low, high in pairwise(order):
            missing = least - (moved[high] - moved[low])
            if missing > 0:
                moved[low] = max(moved[low] - missing / 2, 0.0)
                moved[high] = min(moved[high] + missing / 2, 1.0)
    return moved


def _matplotlib() -> ModuleType:
    try:
        import matplotlib
    except ImportError as error:
        raise NotSupported(
            "figures need matplotlib; install it with: pip install 'undertow[plot]'"
        ) from error
    return matplotlib
