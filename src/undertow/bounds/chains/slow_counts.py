"""How far a record moves a count of a chain that mixes slowly: the Wasserstein distance again.

Sides are hundreds or thousands of records deep here, and their windows too many to compare one by
one. But one record more in a window moves either count by at most one, so that

    W(a', c') <= W(a, c) + |a' - a| + |c' - c|

for windows of a and c records around the target: what is compared at one bounds all near it.
Boxes of windows are split where their bound is largest, until the effort is spent. Laws of
sticky chains have no tiny tails, so probabilities are kept as they are: sums of products of
non-negative numbers, right up to a relative error far below the margin of a comparison.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from undertow.bounds.chains.count_matching import (
    MARGIN,
    labelled_bounds,
    spread,
    widened,
)
from undertow.bounds.chains.known import Bools, Ints, log
from undertow.numerics import Array

__all__ = ["DEEPEST", "slow_distance"]

DEEPEST = 8192
"""Greatest depth at which a side is cut, and half the longest series that is not cut (cost)."""

FIRST = 256
"""Depth that is tried first; doubled while the chain has not mixed enough there."""

MIXED = 0.01
"""Largest difference of two rows at a depth that is tried at all (cost: none has succeeded)."""

STORED = 512
"""Rooms of a side whose laws are kept (memory): others lie between two of them."""

FAINT = 1e-250
"""Least probability of a count (either side): below it, products of two may underflow."""

EFFORT = 4_000_000_000
"""Products of probabilities spent on windows (cost: some seconds)."""

NEARLY = 0.02
"""What cutting a side sooner may add to the distance, relative to it (cost: fewer windows)."""

SAME = 1e-14
"""Relative difference of two transition matrices that counts as rounding (either side): after
`DEEPEST` steps it is 1e-10, and a comparison has a margin of 1e-8."""

_CALL = 100_000
"""What a comparison costs besides, in products."""


@dataclass(slots=True)
class _DeepSide:
    """One side of a target, read outwards, with room for up to ``depth`` records.

    ``laws[m]`` (k, m + 1) is Pr[count of m records = j | x] for the rooms m that are kept;
    ``down`` and ``up`` (depth + 1, k, k) bound X - Y for each room. Where the side is cut the last
    row holds for every room, and ``cuts[m]`` (k, k, m + 1) has the state at some rooms.
    """

    laws: dict[int, Array]
    down: Ints
    up: Ints
    cuts: dict[int, Array] = field(default_factory=dict)
    rooms: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.rooms = np.array(sorted(self.laws))

    @property
    def depth(self) -> int:
        return len(self.down) - 1

    def nearest(self, room: int) -> int:
        """Return the nearest room whose law is kept; the cut one only for itself."""
        if room == self.depth:
            return room
        place = int(np.searchsorted(self.rooms, room))
        near = self.rooms[max(place - 1, 0) : place + 1]
        near = near[near < self.depth] if self.cuts else near
        return int(near[np.abs(near - room).argmin()])

    def cut(self, room: int) -> Array | None:
        """Return the labelled law at the depth of a side that is cut there, None elsewhere."""
        return self.cuts.get(room) if room == self.depth else None

    def nearer(self, depth: int) -> "_DeepSide":
        """Return the side cut at a lesser depth; what follows keeps to the same bounds."""
        ends = np.array([self.down[: depth + 1], self.up[: depth + 1]])
        ends[:, -1] = self.down[-1], self.up[-1]
        laws = {room: law for room, law in self.laws.items() if room < depth}
        return _DeepSide(laws, ends[0], ends[1], {depth: self.cuts[depth]})


def slow_distance(
    backward: Array, forward: Array, marks: Bools, pairs: Ints, records: Sequence[int] | None,
    length: int | None,
) -> float:  # fmt: skip
    """Return an upper end of the distance for a stationary series, inf if no depth yields one.

    ``backward`` and ``forward`` are the steps to either side. Cost O(d^2 k^3) for the laws up to
    the depth d at which the chain has mixed, and at most `EFFORT` for the windows.

    >>> step = np.array([[.99, .01], [.01, .99]])
    >>> slow_distance(step, step, np.array([False, True]), np.array([[0, 1]]), None, 700) < 130
    True
    """
    # steps that differ by rounding move the log of a probability by far less than the margin
    alike = bool(np.allclose(backward, forward, rtol=SAME, atol=0.0))
    depth, power = FIRST, np.linalg.matrix_power(forward, FIRST)
    while depth <= DEEPEST:
        whole = length is not None and length <= 2 * depth
        if not whole and np.ptp(power, axis=0).max() > MIXED:
            depth, power = 2 * depth, power @ power
            continue
        most = length - 1 if whole and length is not None else depth
        right = _side(forward, marks, most, cut=not whole)
        left = right if alike else _side(backward, marks, most, cut=not whole)
        if left is not None and right is not None:
            search = _BoxSearch(left, right, marks)
            wanted = [(int(x), int(other)) for x, other in pairs if x < other]
            if not whole:
                search = search.nearest(wanted)
            boxes = [*_boxes(records, length, search.left.depth, whole)]
            return max(search.bound(x, other, boxes) for x, other in wanted)
        if whole:
            break
        depth, power = 2 * depth, power @ power
    return math.inf


def _side(kernel: Array, marks: Bools, depth: int, *, cut: bool) -> _DeepSide | None:
    """Return one side, or None if the depth does not suffice or a probability is too small."""
    size, gap = len(kernel), max(1, depth // STORED)
    law = np.zeros((size, size, depth + 1))  # (target's value, last state, count)
    law[range(size), range(size), 0] = 1.0
    laws: dict[int, Array] = {}
    cuts: dict[int, Array] = {}
    ends = np.zeros((2, depth + 1, size, size), dtype=np.int64)  # (down or up, room, k, k)
    for room in range(depth + 1):
        if room:
            moved = np.einsum("xvj,vw->xwj", law, kernel)
            law = np.zeros_like(law)
            law[:, ~marks] = moved[:, ~marks]
            law[:, marks, 1:] = moved[:, marks, :-1]
        if cut and room in (depth // 8, depth // 4, depth // 2, depth):
            cuts[room] = law[:, :, : room + 1]
        if room % gap and room != depth:
            continue
        laws[room] = law.sum(axis=1)[:, : room + 1]
        ends[:, room] = _apart(laws[room])
    if (law[law > 0] < FAINT).any():
        return None
    kept = np.array(sorted(laws))
    for room in range(depth):  # one record more or less: at most one further apart
        far = np.abs(kept - room)
        near = kept[far <= gap]
        ends[:, room] = (ends[:, near] + np.abs(near - room)[:, None, None]).min(axis=1)
        ends[:, room][:, range(size), range(size)] = 0
    side = _DeepSide(laws, ends[0], ends[1], cuts)
    return _cut(side) if cut else side


def _apart(law: Array) -> Ints:
    """Return (down, up) of the counts under each pair of values, (2, k, k), from (k, count)."""
    size, logs = len(law), log(law)
    ends = np.zeros((2, size, size), dtype=np.int64)
    for x in range(size):
        for other in range(x):
            found = spread(logs[x], logs[other], MARGIN)
            ends[:, x, other], ends[:, other, x] = found, found[::-1]
    return ends


def _cut(side: _DeepSide) -> _DeepSide | None:
    """Return the side with bounds for every room from its depth on, by induction on the room."""
    down, up, law = side.down.max(axis=0), side.up.max(axis=0), log(side.cuts[side.depth])
    for _ in range(4):  # the surplus needs the bounds that it helps to find: repeat until stable
        down, up = widened(down, up)
        found = labelled_bounds(law, down, up)
        if found is None:
            return None
        if (found[0] <= down).all() and (found[1] <= up).all():
            ends = np.array([side.down, side.up])
            ends[:, -1] = down, up
            return _DeepSide(side.laws, ends[0], ends[1], side.cuts)
        down, up = np.maximum(down, found[0]), np.maximum(up, found[1])
    return None


def _boxes(
    records: Sequence[int] | None, length: int | None, depth: int, whole: bool
) -> Iterator["_Box"]:
    """Yield the windows of all records as boxes; a side that is cut stands for all deeper ones."""
    open_, cut = (0, depth - 1), (depth, depth)
    if whole:
        for first in [0] if records is None else records:
            last = depth if records is None else first
            yield _Box((first, last), (depth - last, depth - first))
    elif records is None:
        yield _Box(cut, cut)
        yield from (_Box(open_, cut), _Box(cut, open_))
        if length is None:
            yield _Box(open_, open_, free=True)
    else:
        for record in records:
            left = min(record, depth)
            if length is None:
                yield from (_Box((left, left), open_), _Box((left, left), cut))
            else:
                right = min(length - 1 - record, depth)
                yield _Box((left, left), (right, right))


@dataclass(frozen=True, slots=True)
class _Box:
    """Windows with so many records on either side, least and most.

    Of a series of given length, whose records all lie in one box, a record more on the left is one
    less on the right; ``free`` boxes hold every combination.
    """

    left: tuple[int, int]
    right: tuple[int, int]
    free: bool = False

    def halves(self) -> list["_Box"]:
        """Return the box in two parts, none if it has one window."""
        (a, b), (c, d) = self.left, self.right
        if max(b - a, d - c) == 0:
            return []
        middle, centre = (a + b) // 2, (c + d) // 2
        if self.free:
            if b - a >= d - c:
                return [_Box((a, middle), (c, d), True), _Box((middle + 1, b), (c, d), True)]
            return [_Box((a, b), (c, centre), True), _Box((a, b), (centre + 1, d), True)]
        if b == a:
            return [_Box((a, b), (c, centre)), _Box((a, b), (centre + 1, d))]
        if c == d:
            return [_Box((a, middle), (c, d)), _Box((middle + 1, b), (c, d))]
        # a + d = b + c: the rooms of a record and its place
        return [
            _Box((a, middle), (d - (middle - a), d)),
            _Box((middle + 1, b), (c, c + b - middle - 1)),
        ]


class _BoxSearch:
    """The largest distance over boxes of windows, the most promising one split first."""

    def __init__(self, left: _DeepSide, right: _DeepSide, marks: Bools) -> None:
        self.left, self.right, self.marks = left, right, marks
        self.effort = EFFORT

    def nearest(self, pairs: Sequence[tuple[int, int]]) -> "_BoxSearch":
        """Return the search with sides cut at the least depth that hardly adds to the bound."""
        depth = self.left.depth
        deepest = max(self._window(depth, depth, *pair) for pair in pairs)
        for less in (depth // 8, depth // 4, depth // 2):
            right = self.right.nearer(less)
            left = right if self.left is self.right else self.left.nearer(less)
            nearer = _BoxSearch(left, right, self.marks)
            found = max(nearer._window(less, less, *pair) for pair in pairs)
            if found <= deepest * (1 + NEARLY):
                return nearer
        return self

    def bound(self, x: int, other: int, boxes: Sequence[_Box]) -> int:
        """Return an upper end of the distance of two values of a target over all windows."""
        known: dict[tuple[int, int], float] = {}
        # (minus the bound, number, box, whether its middle was looked at)
        heap = [(-self._sides(box, x, other), n, box, False) for n, box in enumerate(boxes)]
        heapq.heapify(heap)
        number = len(heap)
        while True:
            least, _, box, seen = heapq.heappop(heap)
            parts = box.halves() if seen else []
            if self.effort <= 0 or (seen and not parts):
                return int(-least)
            if not seen:
                bound = min(-least, self._near(box, x, other, known))
                heapq.heappush(heap, (-bound, number, box, True))
            for part in parts:
                bound = min(-least, self._sides(part, x, other))
                heapq.heappush(heap, (-bound, number + 1, part, False))
                number += 1
            number += 1

    def _sides(self, box: _Box, x: int, other: int) -> float:
        """Return the bound by the sides alone: their intervals add."""
        step = int(self.marks[x]) - int(self.marks[other])
        down, up = -step, step
        for side, (least, most) in ((self.left, box.left), (self.right, box.right)):
            down += int(side.down[least : most + 1, x, other].max())
            up += int(side.up[least : most + 1, x, other].max())
        return float(max(down, up))

    def _near(self, box: _Box, x: int, other: int, known: dict[tuple[int, int], float]) -> float:
        """Return the bound by the window in the middle of a box, or the nearest that is kept."""
        self.effort -= _CALL // 10
        (a, b), (c, d) = box.left, box.right
        left, right = self.left.nearest((a + b) // 2), self.right.nearest((c + d) // 2)
        # sides that are alike may be exchanged: the count is their sum
        place = (min(left, right), max(left, right)) if self.left is self.right else (left, right)
        if place not in known:
            known[place] = self._window(*place, x, other)
        away = max(abs(a - left), abs(b - left)) + max(abs(c - right), abs(d - right))
        return known[place] + away

    def _window(self, left: int, right: int, x: int, other: int) -> float:
        """Return the bound by matching the counts of one window, cut where a side is deep."""
        sides, downs, ups = [], [], []
        for side, room in ((self.left, left), (self.right, right)):
            law, none = side.cut(room), np.zeros((1, 1), dtype=np.int64)
            downs.append(none if law is None else side.down[-1])
            ups.append(none if law is None else side.up[-1])
            sides.append(side.laws[room][:, None, :] if law is None else law)
        laws = []
        for state in (x, other):
            one, two = sides[0][state], sides[1][state]  # (label, count)
            whole = np.array([np.convolve(first, second) for first in one for second in two])
            laws.append(np.pad(whole, ((0, 0), (1, 0) if self.marks[state] else (0, 1))))
        labels = len(laws[0])
        self.effort -= _CALL + 2 * labels * (left + 1) * (right + 1)
        down = (downs[0][:, None, :, None] + downs[1][None, :, None, :]).reshape(labels, labels)
        up = (ups[0][:, None, :, None] + ups[1][None, :, None, :]).reshape(labels, labels)
        return _matched(laws[0], laws[1], down, up)


def _matched(first: Array, second: Array, down: Ints, up: Ints) -> float:
    """Return how far apart two labelled laws of counts (labels, j) are, with what follows them.

    A label that is likelier under ``first`` gives its surplus, from a band of counts, to labels
    that are likelier under ``second``, at counts lower by an offset; what follows two labels z, z'
    differs by an amount in [-down, up][z, z']. Where labels agree what follows is the same.
    """
    masses = first.sum(axis=1), second.sum(axis=1)
    here = np.flatnonzero((masses[0] > 0) | (masses[1] > 0))
    gives, takes = (np.maximum(masses[0] - masses[1], 0.0), np.maximum(masses[1] - masses[0], 0.0))
    worst = 0.0
    if gives.sum() > 0 and takes.sum() > 0:
        first, second = first.copy(), second.copy()
        offset = (down - up) // 2  # centres [-down, up] around nought
        # the count that all labels have most of, under both
        centre = int(np.minimum(first[here], second[here]).min(axis=0).argmax())
        share = takes / takes.sum()
        for label in np.flatnonzero(gives):
            for goal in np.flatnonzero(takes):
                amount = gives[label] * share[goal]
                wide = _thinned(first[label], centre, amount)
                wide += _thinned(
                    second[goal], centre - int(offset[label, goal]),
                    amount * (takes.sum() / gives.sum()),
                )  # fmt: skip
                shift = int(offset[label, goal])
                ends = down[label, goal] - shift, up[label, goal] + shift
                worst = max(worst, float(max(ends)) + wide)
    for label in here:
        worst = max(worst, *spread(log(first[label]), log(second[label]), MARGIN))
    return worst


def _thinned(law: Array, centre: int, amount: float) -> float:
    """Take probability from a law, at most half of any count; return how far from its centre."""
    if not 0 <= centre < len(law):
        return math.inf
    below = np.concatenate([[0.0], np.cumsum(law)])
    reach = np.arange(len(law))
    lows, highs = np.maximum(centre - reach, 0), np.minimum(centre + reach + 1, len(law))
    inside = below[highs] - below[lows]  # the probability of counts up to each distance
    wide = int(np.searchsorted(inside, 2 * amount))
    if wide >= len(law) or inside[wide] <= 0:
        return math.inf
    law[lows[wide] : highs[wide]] *= 1 - amount / inside[wide]
    return float(wide)
