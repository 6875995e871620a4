"""A chain as a picture: states as circles, transitions as arrows as wide as they are likely."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from undertow.models.chains import MarkovChain
from undertow.numerics import Array
from undertow_studio.charts.matrices import matrix_picture
from undertow_studio.charts.svg import (
    NARROW,
    Html,
    fit,
    join,
    letters,
    picture,
    places,
    tag,
    text,
    titled,
)

__all__ = ["MOST_DRAWN", "chain_picture"]

MOST_DRAWN = 6
"""States that are drawn as circles; chains with more are a table of colours."""

_SMALL = 12.0
_BOLD = 14.6
"""Size of plain letters that are as wide as the bold ones of 13 units."""

_FAINT = 0.05
"""Probabilities from which an arrow among many has its number beside it."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _WordBox:
    """Where words stand, to keep others off."""

    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: "_WordBox") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def chain_picture(chain: MarkovChain, name: str = "chain") -> Html:
    """Return the states and transitions of a chain; of one whose steps differ, their mean.

    Two to six states are circles, with the share of time spent in each; arrows are as wide as
    their transition is likely and have the colour of the state that they leave. Chains with more
    states are drawn as a table of colours, one row for each state.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], states=("inactive", "active"))
    >>> picture = chain_picture(chain)
    >>> 'data-from="inactive" data-to="active" data-p="0.118"' in picture
    True
    """
    steps = chain.transition if chain.homogeneous else chain.transition.mean(axis=0)
    names = [str(state) for state in chain.states]
    mean = "" if chain.homogeneous else ", on average over all steps"
    title = f"Which state follows which{mean}"
    if chain.size > MOST_DRAWN or chain.size < 2:
        said = f"From each of {chain.size} states (rows) to each (columns){mean}."
        return matrix_picture(steps, names, name, title, said, ("from", "to"))
    shares = chain.initial if chain.homogeneous else chain.marginals(len(chain.transition) + 1)
    shares = shares if shares.ndim == 1 else shares.mean(axis=0)
    said = " ".join(
        f"From {names[row]}: "
        + ", ".join(
            f"{_percent(steps[row, column])} to {names[column]}"
            for column in np.argsort(-steps[row], kind="stable")
            if steps[row, column] > 0
        )
        + "."
        for row in range(chain.size)
    )
    return picture(
        name, title, said, lambda width: _drawn(steps, shares, names, width), "chain-picture"
    )


def _drawn(
    steps: Array, shares: Array, names: Sequence[str], width: float
) -> tuple[float, list[Html]]:
    """Return height and parts: arrows first, then circles, then numbers on top."""
    size, narrow = len(names), width <= NARROW
    radius = (36.0 if size < 5 else 31.0) if narrow else (46.0 if size < 5 else 40.0)
    stays = bool((np.diagonal(steps) > 0).any())
    centres, height = _centres(size, width, radius, 1.15 * radius if stays else 6.0)
    taken = [_WordBox(x - radius, y - radius, x + radius, y + radius) for x, y in centres]
    arrows, numbers = [], []
    for row, column in _by_weight(steps):
        p = float(steps[row, column])
        wide = 1.2 + 7.0 * p
        curve, tip, around = (
            _loop(centres[row], _outwards(centres, row, width, height), radius, wide)
            if row == column
            else _arc(centres[row], centres[column], radius, wide, _outside(size, row, column))
        )
        said = f"from {names[row]} to {names[column]}: {_percent(p, 4)}"
        arrows.append(
            tag(
                "g",
                tag("title", said),
                tag("path", d=curve, class_="arrow", stroke_width=places(wide)),
                tag("path", d=tip, class_="tip"),
                class_=f"transition c{row}",
                data_from=names[row],
                data_to=names[column],
                data_p=p,
            )
        )
        if size <= 3 or p >= _FAINT * (2 if narrow else 1):
            placed = _free(around, _percent(p), taken, width, height)
            if placed is not None:
                numbers.append(text(_percent(p), *placed, f"number c{row}", "middle"))
    circles = []
    for place, (x, y) in enumerate(centres):
        share = _percent(float(shares[place]))
        circles.append(
            tag(
                "g",
                titled("circle", f"{names[place]}: {share} of all records", cx=places(x),
                       cy=places(y), r=places(radius), class_="node"),
                text(fit(names[place], 2 * radius - 10, _BOLD), x, y, "node-name", "middle"),
                text(share if narrow else f"{share} of time", x, y + 15, "node-share", "middle"),
                class_=f"c{place}",
                data_state=names[place],
                data_share=float(shares[place]),
            )
        )  # fmt: skip
    return height, [join(arrows), join(circles), join(numbers)]


def _by_weight(steps: Array) -> list[tuple[int, int]]:
    """Return the transitions that happen, the likeliest first: those get their numbers first."""
    found = [(int(row), int(column)) for row, column in np.argwhere(steps > 0)]
    return sorted(found, key=lambda cell: -float(steps[cell]))


def _centres(size: int, width: float, radius: float, loop: float) -> tuple[list[Point], float]:
    """Return where the circles stand, and the height of the picture; ``loop`` is that of a loop."""
    if size == 2:
        half = (width / 2 - radius - 14) if width <= NARROW else 190.0
        height = 2 * radius + loop + 66
        y = loop + radius + 26
        return [(width / 2 - half, y), (width / 2 + half, y)], height
    tall = {3: 96.0, 4: 108.0}.get(size, 138.0)
    broad = 1.72 * tall
    if width <= NARROW:  # a phone is high, not wide
        tall, broad = 1.2 * tall, (width / 2 - radius - 18) / (0.72 if size == 4 else 0.87)
    turn = -math.pi / 4 * 3 if size == 4 else -math.pi / 2
    middle = tall + radius + loop + 24
    angles = [turn + 2 * math.pi * place / size for place in range(size)]
    centres = [(width / 2 + broad * math.cos(a), middle + tall * math.sin(a)) for a in angles]
    lowest = max(y for _, y in centres)
    highest = min(y for _, y in centres)
    raised = highest - radius - loop - 24 if size > 3 else 0.0
    below = 0.62 * loop if size in (3, 4) and width > NARROW else loop
    return [(x, y - raised) for x, y in centres], lowest - raised + radius + below + 22


def _outwards(centres: Sequence[Point], place: int, width: float, height: float) -> float:
    """Return the direction in which a loop leaves a circle: away from the others."""
    x, y = centres[place]
    if len(centres) == 2:
        return -math.pi / 2
    middle = sum(one for _, one in centres) / len(centres)
    flat = 1.6 if width > NARROW else 3.2  # on a phone there is room above and below
    return math.atan2(y - middle, (x - width / 2) / flat)


def _arc(
    start: Point, end: Point, radius: float, wide: float, outside: bool
) -> tuple[str, str, list[Point]]:
    """Return a curved arrow between circles: its path, its tip, and places beside it."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    far = math.hypot(dx, dy)
    across = (dy / far, -dx / far)  # to the left of the arrow, as one looks along it
    # around a ring of circles arrows bend outwards, and those the other way round stay inside
    bend = 0.17 * far + 8 if outside else 0.07 * far + 7
    control = (
        (start[0] + end[0]) / 2 + across[0] * bend,
        (start[1] + end[1]) / 2 + across[1] * bend,
    )
    head = 6 + 1.5 * wide
    first = _towards(start, control, radius + 3)
    point = _towards(end, control, radius + 3)
    last = _towards(end, control, radius + 3 + head * 0.9)
    places_ = [
        _moved(_bezier(first, control, last, share), across, wide / 2 + 10)
        for share in (0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73)
    ]
    return _quadratic(first, control, last), _tip(point, control, head), places_


def _outside(size: int, row: int, column: int) -> bool:
    """Return whether an arrow runs along the outside: with the ring, or there is no inside."""
    return size == 2 or (column - row) % size == 1


def _loop(centre: Point, angle: float, radius: float, wide: float) -> tuple[str, str, list[Point]]:
    """Return an arrow from a circle to itself: its path, its tip, and places beyond it."""
    open_, reach = 0.44, 2.35 * radius
    head = 6 + 1.5 * wide
    first = _polar(centre, angle - open_, radius + 3)
    controls = _polar(centre, angle - 0.5, reach), _polar(centre, angle + 0.5, reach)
    point = _polar(centre, angle + open_, radius + 3)
    last = _towards(point, controls[1], head * 0.9)
    curve = "M{} {}C{} {} {} {} {} {}".format(
        *(places(value) for pair in (first, *controls, last) for value in pair)
    )
    beyond = radius + 3 + 0.75 * (reach - radius) * math.cos(0.5) + wide / 2 + 9
    around = [_polar(centre, angle + turn, beyond) for turn in (0, 0.3, -0.3)]
    return curve, _tip(point, controls[1], head), [(x, y) for x, y in around]


def _tip(point: Point, source: Point, head: float) -> str:
    """Return the head of an arrow that comes from ``source``."""
    back = _towards(point, source, head)
    dx, dy = (point[0] - back[0]) * 0.48, (point[1] - back[1]) * 0.48
    corners = [point, (back[0] - dy, back[1] + dx), (back[0] + dy, back[1] - dx)]
    return "M" + "L".join(f"{places(x)} {places(y)}" for x, y in corners) + "Z"


def _free(
    around: Iterable[Point], words: str, taken: list[_WordBox], width: float, height: float
) -> Point | None:
    """Return the first place where words cover nothing, and keep it; None where there is none."""
    half = letters(words, _SMALL) / 2 + 1
    for x, y in around:
        box = _WordBox(x - half, y - 8, x + half, y + 7)
        inside = box.left >= 0 and box.top >= 0 and box.right <= width and box.bottom <= height
        if inside and not any(map(box.covers, taken)):
            taken.append(box)
            return x, y + 4
    return None


def _percent(p: float, digits: int = 0) -> str:
    """Return a probability for people; what is not 0 is never said to be 0, nor what is not 1."""
    if 0 < p < 0.005 and not digits:
        return "<1%"
    if 0.995 <= p < 1 and not digits:
        return ">99%"
    return f"{100 * p:.{digits}f}".rstrip("0").rstrip(".") + "%" if digits else f"{100 * p:.0f}%"


def _towards(start: Point, end: Point, by: float) -> Point:
    far = math.hypot(end[0] - start[0], end[1] - start[1]) or 1.0
    return start[0] + (end[0] - start[0]) * by / far, start[1] + (end[1] - start[1]) * by / far


def _moved(point: Point, along: Point, by: float) -> Point:
    return point[0] + along[0] * by, point[1] + along[1] * by


def _polar(centre: Point, angle: float, far: float) -> Point:
    return centre[0] + far * math.cos(angle), centre[1] + far * math.sin(angle)


def _bezier(first: Point, control: Point, last: Point, share: float) -> Point:
    rest = 1 - share
    weights = rest * rest, 2 * rest * share, share * share
    points = first, control, last
    x = sum(w * p[0] for w, p in zip(weights, points, strict=True))
    return x, sum(w * p[1] for w, p in zip(weights, points, strict=True))


def _quadratic(first: Point, control: Point, last: Point) -> str:
    return "M{} {}Q{} {} {} {}".format(
        *(places(value) for pair in (first, control, last) for value in pair)
    )
