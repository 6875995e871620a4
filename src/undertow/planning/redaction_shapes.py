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

import math
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

__all__ = ["RedactionShape", "likely_shapes"]

LEVELS = 128
"""Levels of a loss at which the sides of a shape are compared."""

SURE = 6
"""Records before the last stretch in which a value is always shown, at most; the bound on more of
them is that of these, at the least loss."""

STEEP = 4.0
"""Where a search starts with c of a value that a bound always shows."""

CURVES = 6000
"""Curves of both sides beyond which shapes are not compared (cost)."""

SIDES, LOOKS = 300, 4000
"""Shapes of one side that are kept at most, and pairs of them looked at closely, those that could
show most (cost)."""


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
class RedactionShape:
    """The shapes of both sides, and how many records they could show at most, coarsely."""

    most: float
    left: _SideShape
    right: _SideShape

    def refined(self, limit: float) -> "tuple[float, RedactionShape, BothSides] | None":
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
    chain: MarkovChain, target: int, length: int, limit: float, against: Against, above: float,
    most: int,
) -> tuple[list[RedactionShape], float]:  # fmt: skip
    """Return the shapes that could show more than ``above`` records, the largest bound first.

    At most so many, and what those left out show at most: -inf where none could show more, inf
    where there are too many shapes to compare. Cost: O(m^2) curves for m records on a side.
    """
    levels = np.linspace(0.0, limit, LEVELS + 1)  # (levels)
    kinds = [_kinds(chain, target, length, right, against) for right in (False, True)]
    caps = [max(_cap(side, limit) for side in both) for both in kinds]
    plans = [
        [
            (kind, side, *stretch)
            for kind, side in enumerate(both)
            for stretch in _stretches(side, limit, above - caps[1 - number])
        ]
        for number, both in enumerate(kinds)
    ]
    if sum(map(len, plans)) > CURVES:
        return [], np.inf
    lefts, rights = (
        [shape for plan in each if (shape := _side_shape(*plan, limit, levels)) is not None]
        for each in plans
    )
    ours, left_out = _promising(lefts, rights, limit, above)
    theirs, also_left = _promising(rights, lefts, limit, above)
    if not ours or not theirs:
        return [], max(left_out, also_left)
    bounds = _together(ours, theirs, limit)  # (left, right)
    order = np.argsort(-bounds, axis=None, kind="stable")
    order = order[bounds.ravel()[order] > above]
    rest = float(bounds.ravel()[order[LOOKS]]) if len(order) > LOOKS else -np.inf
    looked = [
        RedactionShape(_closer(ours[one], theirs[two], limit), ours[one], theirs[two])
        for one, two in np.stack(np.unravel_index(order[:LOOKS], bounds.shape), axis=1).tolist()
    ]
    looked = sorted((one for one in looked if one.most > above), key=lambda one: -one.most)
    if len(looked) > most:
        rest = max(rest, looked[most].most)
    return looked[:most], max(rest, left_out, also_left)


def _kinds(
    chain: MarkovChain, target: int, length: int, right: bool, against: Against
) -> tuple[TwoStateSide, TwoStateSide]:
    side = two_state_side(chain, target, length, right, against)
    return side, side.turned(against)


def _cap(side: TwoStateSide, limit: float) -> float:
    """Return a quick bound on what a side shows."""
    room = side.room
    sums = np.concatenate([[0.0], np.cumsum(side.weights)])  # (distances + 1)
    safe = next((t for t in range(1, room + 1) if side.other[t - 1] - side.behind[t - 1] <= limit),
                room + 1)  # fmt: skip
    begin = next((t for t in range(1, room + 1) if side.first[t - 1] <= limit), room + 1)
    return float(sums[safe - 1] - sums[min(begin, safe) - 1]) + room - safe + 1


def _stretches(
    side: TwoStateSide, limit: float, above: float
) -> Iterator[tuple[int, int, int, float, TwoStateSide]]:
    """Yield the stretches that could show enough: the begin of the value shown at times, where
    it is always shown, where everything is, how much less that shows, and the side for it."""
    room = side.room
    sums = np.concatenate([[0.0], np.cumsum(side.weights)])  # (distances + 1)
    for sure in range(1, room + 2):
        endings = list(_endings(side, sure))
        for begin in range(sure, 0, -1):
            if begin <= room and side.first[begin - 1] > limit:
                break  # nearer records tell more
            most = sums[sure - 1] - sums[begin - 1] + room - sure + 1
            for last, less, variant in endings:
                fits = begin < sure or sure > room or variant.other[sure - 1] <= limit
                if fits and most - less > above:
                    yield begin, sure, last, less, variant


def _side_shape(
    kind: int, bare: TwoStateSide, begin: int, sure: int, last: int, less: float,
    side: TwoStateSide, limit: float, levels: Array,
) -> _SideShape | None:  # fmt: skip
    """Return the shape of a side, None where nothing of it fits limit."""
    theta = bare.grid(limit) if bare.room else np.empty(0)
    curve = frontier(side.curve(begin, sure, theta), limit)
    if not curve.cost.size:
        return None
    first = float(side.first[begin - 1]) if begin <= side.room else 0.0
    return _SideShape(kind, side, curve, last, less, first, shown_at(curve, levels) - less)


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


def _promising(
    ours: list[_SideShape], theirs: list[_SideShape], limit: float, above: float
) -> tuple[list[_SideShape], float]:
    """Return the shapes of a side that could show enough with the best of the other side.

    And a bound on those beyond the most that are kept, -inf where there are none.
    """
    if not ours or not theirs:
        return [], -np.inf
    bounds = []
    ranked = []  # of either kind: losses of the values shown at times, and the most by level
    for kind in (0, 1):
        group = sorted((two for two in theirs if two.kind == kind), key=lambda two: two.first)
        table = np.array([two.shown for two in group]).reshape(len(group), LEVELS + 1)
        firsts = np.array([two.first for two in group])
        ranked.append((firsts, np.maximum.accumulate(table, axis=0)))
    for one in ours:
        firsts, table = ranked[one.kind]
        fits = int(np.searchsorted(firsts, limit - one.first, side="right"))
        found = -np.inf
        if fits:
            best = table[fits - 1]  # (levels)
            # a loss between two levels leaves the other side less than the lower one does
            found = float(max((one.shown[1:] + best[:0:-1]).max(), one.shown[0] + best[-1]))
        firsts, table = ranked[1 - one.kind]
        if len(firsts) and not one.window:
            level = max(0, math.ceil(LEVELS * (1 - one.first / limit)))
            found = max(found, float(one.shown[-1] + table[-1, level]))
        bounds.append(found)
    order = [int(place) for place in np.argsort(-np.array(bounds), kind="stable")]
    order = [place for place in order if bounds[place] > above]
    rest = bounds[order[SIDES]] if len(order) > SIDES else -np.inf
    return [ours[place] for place in order[:SIDES]], rest


def _together(lefts: list[_SideShape], rights: list[_SideShape], limit: float) -> Array:
    """Return the most that two sides show together, (left, right), -inf where they do not fit."""
    shown = np.array([two.shown for two in rights])  # (right, levels)
    firsts = np.array([two.first for two in rights])
    kinds = np.array([two.kind for two in rights])
    windows = np.array([two.window for two in rights])
    found = np.full((len(lefts), len(rights)), -np.inf)
    for row, one in zip(found, lefts, strict=True):
        same = (kinds == one.kind) & (one.first + firsts <= limit)
        cells = one.shown[1:] + shown[same, :0:-1]  # (right, cells)
        row[same] = np.maximum(cells.max(axis=1), one.shown[0] + shown[same, -1])
        # windows, which have no value shown at times, are found among either
        mixed = (kinds != one.kind) & ~windows & (not one.window)
        # what a side shows at times leaves the other side less: rounded up to a level
        level = max(0, math.ceil(LEVELS * (1 - one.first / limit)))
        left = shown_at(one.curve, limit - firsts[mixed]) - one.less
        row[mixed] = left + shown[mixed, level]
    return found


def _closer(one: _SideShape, two: _SideShape, limit: float) -> float:
    """Return the most that two sides show together, between points of their curves at most."""
    if one.kind == two.kind:
        rest = shown_at(two.curve, limit - one.curve.cost)
        return float((one.curve.shown + rest).max()) - one.less - two.less
    left = shown_at(one.curve, np.array([limit - two.first]))
    right = shown_at(two.curve, np.array([limit - one.first]))
    return float(left[0] + right[0]) - one.less - two.less
