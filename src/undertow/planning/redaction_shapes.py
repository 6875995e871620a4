"""All shapes of a redaction of two states, by how much they could show at most.

On either side of the target a redaction has three stretches (see `redaction_sides`): nothing is
shown, one value is shown at times, everything is shown. Leave out the attackers who know a record
up to which all are erased. Then each shape has one smooth constraint, increasing in all c, and the
best redaction of the shape is a stationary point, with c = inf (the value always shown) from some
record on, or from none: beyond such a record nothing else matters to those attackers. All of them
lie on one curve for each side and each such record, and the most that the shape shows is read off
it. With the attackers left out it shows no more. So the largest of these bounds holds for every
redaction of these stretches, and shapes need to be tried only as long as theirs exceeds what was
found.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from undertow.adversaries import Against
from undertow.models.markov import MarkovChain
from undertow.numerics import Array
from undertow.planning.redaction_optimum import (
    BothSides,
    frontier,
    refine_mixed,
    refine_same,
    shown_at,
)
from undertow.planning.redaction_search import Pattern
from undertow.planning.redaction_sides import SideCurve, TwoStateSide, two_state_side

__all__ = ["Shape", "likely_shapes"]

LEVELS = 128
"""Levels of a loss at which the sides of a shape are compared."""

SURE = 6
"""Records before the last stretch in which a value is always shown, at most; the bound on more of
them is that of these, at the least loss."""

STEEP = 4.0
"""Where a search starts with c of a value that a bound always shows."""

SIDES, PAIRS = 64, 4096
"""Shapes of one side, and pairs of them, that are kept at most, those that could show most."""


@dataclass(frozen=True, slots=True)
class _SideShape:
    """One side's stretches: which value is shown at times, the curve, and how much by level.

    The value is always shown from ``curve.start`` on, and everything from ``start`` on; both are
    the same where no value is always shown. ``less`` is what the side shows less than if
    everything were shown from ``curve.start`` on, as its curve says.
    """

    kind: int
    side: TwoStateSide
    curve: SideCurve
    start: int
    less: float
    first: float
    shown: Array

    @property
    def window(self) -> bool:
        """Whether no value is shown on its own."""
        return self.curve.begin == self.start


@dataclass(frozen=True, slots=True)
class Shape:
    """The shapes of both sides, and how many records they could show at most, coarsely."""

    most: float
    left: _SideShape
    right: _SideShape

    def refined(self, limit: float) -> "tuple[float, Shape, BothSides] | None":
        """Return the records shown by the best redaction of the shape without some attackers."""
        refine = refine_same if self.left.kind == self.right.kind else refine_mixed
        curves = self.left.curve, self.right.curve
        both = refine((self.left.side, self.right.side), curves, limit)
        if both is None:
            return None
        return sum(one.shown for one in both) - self.left.less - self.right.less, self, both

    def pattern(self, chain: MarkovChain, target: int, length: int, against: Against,
                both: BothSides) -> Pattern:  # fmt: skip
        """Return the pattern of the shape, to search from its best redaction."""
        fixed, spent = np.ones((length, 2)), np.zeros((length, 2))
        free = np.zeros((length, 2), dtype=bool)
        for shape, found, sign in zip((self.left, self.right), both, (-1, 1), strict=True):
            side, curve = shape.side, shape.curve
            values = np.full(shape.start - curve.begin, STEEP)
            values[: curve.start - curve.begin] = side.spent(curve.begin, curve.start, found.theta)
            for distance, value in enumerate(values.tolist(), start=curve.begin):
                place = target + sign * distance, side.early[distance - 1]
                free[place], spent[place] = True, min(value, STEEP)
            far = target + sign * np.arange(shape.start, side.room + 1)
            fixed[far] = 0.0
        return Pattern(chain, (target,), against, fixed, free, spent[free])


def likely_shapes(
    chain: MarkovChain, target: int, length: int, limit: float, against: Against, above: float
) -> list[Shape]:
    """Return the shapes that could show more than ``above`` records, the largest bound first.

    Cost: O(m^2) curves for m records on a side.
    """
    levels = np.linspace(0.0, limit, LEVELS + 1)  # (levels)
    rooms = target, length - 1 - target
    lefts, rights = (
        [
            shape
            for kind, side in enumerate(_kinds(chain, target, length, right, against))
            for shape in _side_shapes(kind, side, limit, levels, above - rooms[not right])
        ]
        for right in (False, True)
    )
    kept = _promising(lefts, rights, above), _promising(rights, lefts, above)
    found = [Shape(_most(one, two, limit, levels), one, two) for one in kept[0] for two in kept[1]]
    found = [shape for shape in found if shape.most > above]
    return sorted(found, key=lambda shape: -shape.most)[:PAIRS]


def _kinds(
    chain: MarkovChain, target: int, length: int, right: bool, against: Against
) -> tuple[TwoStateSide, TwoStateSide]:
    side = two_state_side(chain, target, length, right, against)
    return side, side.turned(against)


def _side_shapes(
    kind: int, side: TwoStateSide, limit: float, levels: Array, above: float
) -> Iterator[_SideShape]:
    """Yield the shapes of a side that fit limit and could show enough, for one value at times."""
    room = side.room
    theta = side.grid(limit) if room else np.empty(0)
    sums = np.concatenate([[0.0], np.cumsum(side.weights)])  # (distances + 1)
    for start in range(1, room + 2):
        for begin in range(start, 0, -1):
            first = float(side.first[begin - 1]) if begin <= room else 0.0
            if first > limit:
                break  # nearer records tell more
            if sums[start - 1] - sums[begin - 1] + room - start + 1 <= above:
                continue
            for last, less, variant in _endings(side, start):
                curve = frontier(variant.curve(begin, start, theta), limit)
                if curve.cost.size:
                    shown = shown_at(curve, levels) - less
                    yield _SideShape(kind, variant, curve, last, less, first, shown)


def _endings(side: TwoStateSide, sure: int) -> Iterator[tuple[int, float, TwoStateSide]]:
    """Yield where everything may be shown if a value always is from a record on.

    With how much less that shows, and the side on which the losses are those of that ending: what
    a known record beyond adds is less the farther it is.
    """
    yield sure, 0.0, side
    for start in range(sure + 1, min(sure + SURE, side.room) + 2):
        less = float((1 - side.weights[sure - 1 : start - 1]).sum())
        added = float(side.behind[start - 1]) if start <= min(sure + SURE, side.room) else 0.0
        gain = float(side.behind[sure - 1]) - added
        if gain > 0:
            behind, other = side.behind.copy(), side.other.copy()
            behind[sure - 1] -= gain
            other[sure - 1] -= gain
            yield start, less, replace(side, behind=behind, other=other)


def _promising(ours: list[_SideShape], theirs: list[_SideShape], above: float) -> list[_SideShape]:
    """Return the shapes of a side that could show enough with the best of the other side."""
    best = np.max([shape.shown for shape in theirs], axis=0)  # (levels), of the other side
    # a loss of one side between two levels leaves the other side less than the lower one does
    bounds = [
        float(max((shape.shown[1:] + best[:0:-1]).max(), shape.shown[0] + best[-1]))
        for shape in ours
    ]
    order = [int(place) for place in np.argsort(-np.array(bounds), kind="stable")[:SIDES]]
    return [ours[place] for place in order if bounds[place] > above]


def _most(one: _SideShape, two: _SideShape, limit: float, levels: Array) -> float:
    """Return the most that two sides show together, -inf where they do not fit."""
    if one.kind == two.kind:
        if one.first + two.first > limit:
            return -np.inf
        return float(max((one.shown[1:] + two.shown[:0:-1]).max(), one.shown[0] + two.shown[-1]))
    if one.window or two.window:
        return -np.inf  # windows, which have no value shown at times, are found with both
    # what a side shows at times leaves the other side less
    left = shown_at(one.curve, np.array([limit - two.first]))
    right = shown_at(two.curve, np.array([limit - one.first]))
    return float(left[0] + right[0]) - one.less - two.less
