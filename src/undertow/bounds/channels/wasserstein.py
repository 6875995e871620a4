"""Wasserstein distance of a count: how far one record's value can push it, almost surely.

Laplace noise of scale W / epsilon hides the record from an attacker who knows no other (Theorem 3.2
of [wang2016]). Long series are cut where the chain has mixed, by induction on the length. Laws are
logarithms, and comparisons hold with a margin (docs, theory: Wasserstein distance).
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import product, repeat
from typing import Any

import numpy as np

from undertow.bounds.channels.quilts import chain_pairs
from undertow.bounds.counts.laws import joint_counts
from undertow.bounds.levels.sides import Bools, Ints, log
from undertow.errors import InvalidInput, MethodRefused
from undertow.models.chains import MarkovChain
from undertow.numerics import MAX_STEPS, Array, log_sum
from undertow.queries import AnyQuery, Count, Linear, Mean, Query, State, Sum

__all__ = [
    "MARGIN",
    "MOST_SERIES",
    "SLOW_DEPTH",
    "Distance",
    "convolve",
    "count_distance",
    "enumerable",
    "exchanged",
    "labelled_bounds",
    "marked",
    "query_distance",
    "shifted",
    "slow_distance",
    "spread",
    "w_infinity",
    "widened",
]


MARGIN = 1e-8
"""Log margin above which a comparison of two probabilities is certain; rounding stays below it."""


def spread(first: Array, second: Array, margin: float) -> tuple[int, int]:
    """Return the least (down, up) with X - Y in [-down, up], X and Y drawn together.

    ``first`` and ``second`` are log-laws on the same lattice 0, 1, ... with equal totals.
    Comparisons within ``margin`` count as failed where it is positive.
    """
    down = shift(first, second, margin)
    return down, shift(second, first, margin)


def shift(first: Array, second: Array, margin: float) -> int:
    """Return the least w with F_first(j) <= F_second(j + w) for all j, by the smaller tail."""
    below_1, below_2 = (np.logaddexp.accumulate(law) for law in (first, second))
    # ln Pr[more than j], -inf at the top
    above_1, above_2 = (
        np.append(np.logaddexp.accumulate(law[::-1])[::-1][1:], -np.inf) for law in (first, second)
    )
    places = np.arange(len(first))
    low = np.searchsorted(below_2, below_1 + margin, side="left")
    high = np.searchsorted(-above_2, -(above_1 - margin), side="left")
    median = below_1[-1] - math.log(2)
    needed = np.where(below_1 <= median, low, high) - places
    possible = below_1 > -np.inf
    return int(needed[possible].max())


def widened(down: Ints, up: Ints) -> tuple[Ints, Ints]:
    """Return the bounds with all intervals [-down, up] of two different states equally wide."""
    missing = (down + up).max() - (down + up)
    apart = ~np.eye(len(down), dtype=bool)
    extra = np.where(apart, missing, 0)
    lower = np.triu(extra)  # the mirror image gets its share on the other end
    return down + lower.T, up + lower


def labelled_bounds(law: Array, down: Ints, up: Ints) -> tuple[Ints, Ints] | None:
    """Return the bounds of a longer side whose remainder keeps to the given ones."""
    size = len(law)
    new_down, new_up = np.zeros_like(down), np.zeros_like(up)
    for x in range(size):
        for other in range(x):
            # place each cross pair so that its interval falls on [-down, up] of (x, other)
            offset = up[x, other] - up
            *ends, bands = exchanged(law[x], law[other], offset)
            if any(bands.values()):  # a band of counts would widen what is beyond
                return None
            new_down[x, other], new_up[x, other] = ends
            new_up[other, x], new_down[other, x] = ends
    return new_down, new_up


def exchanged(
    first: Array, second: Array, offset: Ints
) -> tuple[int, int, dict[tuple[int, int], float]]:
    """Return (down, up) of two labelled log-laws (labels, j) label by label, and bands of counts.

    A label that is likelier under ``first`` gives its surplus, from a band of counts, to labels
    that are likelier under ``second``, at counts lower by ``offset[label, label']``. Each pair of
    labels that exchange has the width of its bands: 0 where one count each has enough, inf where
    none has.
    """
    masses = [np.exp(log_sum(law, axis=1)) for law in (first, second)]
    here = np.flatnonzero(np.isfinite(first).any(axis=1) | np.isfinite(second).any(axis=1))
    gives, takes = (np.maximum(masses[0] - masses[1], 0.0), np.maximum(masses[1] - masses[0], 0.0))
    bands: dict[tuple[int, int], float] = {}
    first, second = first.copy(), second.copy()
    if gives.sum() > 0 and takes.sum() > 0:
        # the count that all labels have most of, under both
        centre = int(np.minimum(first[here], second[here]).min(axis=0).argmax())
        for label, goal in product(np.flatnonzero(gives).tolist(), np.flatnonzero(takes).tolist()):
            wide = _thinned(first[label], centre, gives[label] * takes[goal] / takes.sum())
            place = centre - int(offset[label, goal])
            wide += _thinned(second[goal], place, gives[label] * takes[goal] / gives.sum())
            bands[label, goal] = wide
    shifts = [(0, 0)]
    for label in here.tolist():
        if np.isfinite(first[label]).any() and np.isfinite(second[label]).any():
            shifts.append(spread(first[label], second[label], MARGIN))
        else:  # a label that one value alone has gives more than it can
            bands[label, label] = math.inf
    return max(down for down, _ in shifts), max(up for _, up in shifts), bands


def _thinned(law: Array, centre: int, amount: float) -> float:
    """Take probability from a log-law, at most half of any count; return how far from a centre."""
    if not 0 <= centre < len(law):
        return math.inf
    below = np.concatenate([[0.0], np.cumsum(np.exp(law))])
    reach = np.arange(len(law))
    lows, highs = np.maximum(centre - reach, 0), np.minimum(centre + reach + 1, len(law))
    inside = below[highs] - below[lows]  # the probability of counts up to each distance
    wide = int(np.searchsorted(inside, 2 * amount))
    if wide >= len(law) or inside[wide] <= 0:
        return math.inf
    law[lows[wide] : highs[wide]] += math.log1p(-amount / inside[wide])
    return float(wide)


def marked(law: Array, marks: Bools) -> Array:
    """Return (..., state, j) with the counts of marked states raised by one, one place longer."""
    longer = np.full((*law.shape[:-1], law.shape[-1] + 1), -np.inf)
    longer[..., ~marks, :-1] = law[..., ~marks, :]
    longer[..., marks, 1:] = law[..., marks, :]
    return longer


def shifted(law: Array, counted: bool) -> Array:
    """Return the law with the target's own mark added, one place longer."""
    pad = np.full((*law.shape[:-1], 1), -np.inf)
    return np.concatenate([pad, law] if counted else [law, pad], axis=-1)


def convolve(left: Array, right: Array) -> Array:
    """Return the log-law of a sum of two independent counts, along the last axis."""
    shape = np.broadcast_shapes(left.shape[:-1], right.shape[:-1])
    places = right.shape[-1]
    total = np.full((*shape, left.shape[-1] + places - 1), -np.inf)
    for count in range(left.shape[-1]):
        window = total[..., count : count + places]
        np.logaddexp(window, left[..., count : count + 1] + right, out=window)
    return total


SLOW_DEPTH = 8192
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
`SLOW_DEPTH` steps it is 1e-10, and a comparison has a margin of 1e-8."""

_CALL = 100_000
"""What a comparison costs besides, in products."""


@dataclass(slots=True)
class _Side:
    """One side of a target, read outwards, with room for up to ``depth`` records.

    ``laws[m]`` (k, m + 1) is Pr[count of m records = j | x] for the rooms m that are kept, or its
    logarithm (``logs``); ``down`` and ``up`` (depth + 1, k, k) bound X - Y for each room. Where the
    side is cut the last row holds for every room, and ``cuts[m]`` (k, k, m + 1) has the state at
    some rooms.
    """

    laws: dict[int, Array]
    down: Ints
    up: Ints
    logs: bool
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

    def nearer(self, depth: int) -> "_Side":
        """Return the side cut at a lesser depth; the rest keeps to the same bounds."""
        ends = np.array([self.down[: depth + 1], self.up[: depth + 1]])
        ends[:, -1] = self.down[-1], self.up[-1]
        laws = {room: law for room, law in self.laws.items() if room < depth}
        return _Side(laws, ends[0], ends[1], self.logs, {depth: self.cuts[depth]})


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
    while depth <= SLOW_DEPTH:
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
            return search.largest(wanted, records, length, whole)
        if whole:
            break
        depth, power = 2 * depth, power @ power
    return math.inf


def _side(
    kernel: Array, marks: Bools, depth: int, *, cut: bool, logs: bool = False
) -> _Side | None:
    """Return one side, or None if the depth does not suffice or a probability is too small.

    With ``logs`` none is too small, and the laws of all rooms are kept.
    """
    size, gap = len(kernel), 1 if logs else max(1, depth // STORED)
    laws: dict[int, Array] = {}
    cuts: dict[int, Array] = {}
    ends = np.zeros((2, depth + 1, size, size), dtype=np.int64)  # (down or up, room, k, k)
    # (target's value, last state, count)
    for room, law in enumerate(joint_counts(repeat(kernel, depth), marks, logs=logs)):
        if cut and room in (depth // 8, depth // 4, depth // 2, depth):
            cuts[room] = law
        if room % gap and room != depth:
            continue
        laws[room] = log_sum(law, axis=1) if logs else law.sum(axis=1)
        ends[:, room] = _separations(laws[room] if logs else log(laws[room]))
    if not logs and (law[law > 0] < FAINT).any():
        return None
    kept = np.array(sorted(laws))
    for room in range(0 if logs else depth):  # one record more or less: at most one further apart
        far = np.abs(kept - room)
        near = kept[far <= gap]
        ends[:, room] = (ends[:, near] + np.abs(near - room)[:, None, None]).min(axis=1)
        ends[:, room][:, range(size), range(size)] = 0
    if cut:
        bounds = _bounds_beyond(law if logs else log(law), *ends.max(axis=1))
        if bounds is None:
            return None
        ends[:, -1] = bounds
    return _Side(laws, ends[0], ends[1], logs, cuts)


def _separations(logs: Array) -> Ints:
    """Return (down, up) of the counts under each pair of values, (2, k, k), from log-laws."""
    size = len(logs)
    ends = np.zeros((2, size, size), dtype=np.int64)
    for x in range(size):
        for other in range(x):
            shifts = spread(logs[x], logs[other], MARGIN)
            ends[:, x, other], ends[:, other, x] = shifts, shifts[::-1]
    return ends


def _bounds_beyond(law: Array, down: Ints, up: Ints) -> tuple[Ints, Ints] | None:
    """Return bounds for every length from a cut on, by induction on the length, or None.

    ``law`` is the labelled log-law at the cut, ``down`` and ``up`` hold for all lengths before it.
    """
    for _ in range(4):  # the surplus needs the bounds that it helps to find: repeat until stable
        down, up = widened(down, up)
        bounds = labelled_bounds(law, down, up)
        if bounds is None:
            return None
        if (bounds[0] <= down).all() and (bounds[1] <= up).all():
            return down, up
        down, up = np.maximum(down, bounds[0]), np.maximum(up, bounds[1])
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

    def __init__(self, left: _Side, right: _Side, marks: Bools) -> None:
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
            largest = max(nearer._window(less, less, *pair) for pair in pairs)
            if largest <= deepest * (1 + NEARLY):
                return nearer
        return self

    def largest(
        self, pairs: Sequence[tuple[int, int]], records: Sequence[int] | None, length: int | None,
        whole: bool,
    ) -> int:  # fmt: skip
        """Return an upper end of the distance over pairs of values and all windows."""
        boxes = [*_boxes(records, length, self.left.depth, whole)]
        return max(self.bound(x, other, boxes) for x, other in pairs)

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
            if self.left.logs:
                both = convolve(one[:, None], two[None])  # (label, label, count)
                both = both.reshape(-1, both.shape[-1])
            else:
                both = log(np.array([np.convolve(first, last) for first in one for last in two]))
            laws.append(shifted(both, bool(self.marks[state])))
        labels = len(laws[0])
        self.effort -= _CALL + 2 * labels * (left + 1) * (right + 1)
        down = (downs[0][:, None, :, None] + downs[1][None, :, None, :]).reshape(labels, labels)
        up = (ups[0][:, None, :, None] + ups[1][None, :, None, :]).reshape(labels, labels)
        # the distance is that of the two laws in either order, but a surplus may fit in one alone
        value = _matched(laws[0], laws[1], down, up)
        return _matched(laws[1], laws[0], up.T, down.T) if math.isinf(value) else value


def _matched(first: Array, second: Array, down: Ints, up: Ints) -> float:
    """Return the distance of two labelled log-laws of counts (labels, j), with what follows.

    What follows two labels z, z' differs by an amount in [-down, up][z, z']; where labels agree it
    is the same.
    """
    offset = (down - up) // 2  # centres [-down, up] around nought
    *ends, bands = exchanged(first, second, offset)
    across = np.maximum(down - offset, up + offset)
    return max(*map(float, ends), *(float(across[pair]) + wide for pair, wide in bands.items()))


DIRECT = 128
"""Records up to which every window is compared outright at once."""

MOST_DIRECT = 512
"""Most records that are compared outright where no cut gives the exact distance."""

MIXED_DEPTH = 512
"""Greatest distance at which a long series is cut (cost)."""

SETTLED = 64
"""Steps from which a depth that tells no more than half of it ends the search (cost: depth^3 where
any number of records may lie on either side)."""

_TILTS = tuple(float(tilt) for tilt in np.geomspace(1e-4, 4.0, 36))
"""Exponents at which moments are compared for a lower end."""


@dataclass(frozen=True, slots=True)
class Distance:
    """A certified interval around W, in counts."""

    lower: int
    upper: int


def count_distance(
    chain: MarkovChain,
    counted: Bools,
    pairs: Sequence[tuple[State, State]] | None = None,
    records: Sequence[int] | None = None,
) -> Distance:
    """Return the W-infinity distance of a count of the states marked in ``counted``.

    The largest over all ``records`` and ``pairs`` (all by default). Cost O(n^3 k^2) up to `DIRECT`
    records; beyond, O(d^3 k^4) with d the distance at which the chain has mixed enough. A long
    series needs a stationary start.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> count_distance(chain, np.array([False, True]))
    Distance(lower=5, upper=5)
    """
    marks = tuple(bool(mark) for mark in counted)
    which = None if pairs is None else tuple(pairs)
    return _distance(chain, marks, which, None if records is None else tuple(records))


@lru_cache(maxsize=16)  # the noise does not change it, and curves ask for it again and again
def _distance(
    chain: MarkovChain,
    counted: tuple[bool, ...],
    pairs: tuple[tuple[State, State], ...] | None,
    records: tuple[int, ...] | None,
) -> Distance:
    reduced = chain.visited()
    if reduced is None:
        return Distance(0, 0)
    marks = np.array([counted[chain.index(state)] for state in reduced.states])
    wanted = chain_pairs(reduced, pairs)
    rows = reduced.transition
    if reduced.homogeneous and (rows == rows[0]).all():  # independent records
        step = int((marks[wanted[:, 0]] != marks[wanted[:, 1]]).any()) if wanted.size else 0
        return Distance(step, step)
    if reduced.length is not None and reduced.length <= DIRECT:
        return _direct(reduced, marks, wanted, records)
    if not (reduced.homogeneous and isinstance(reduced.start, str)):
        raise MethodRefused(
            f"'wasserstein' compares every window of a chain with a given start or differing "
            f"steps, which takes at most {DIRECT} records; use method='exact' or 'exchange'"
        )
    if not wanted.size:
        return Distance(0, 0)
    lower = _attained(reduced, marks, wanted, records)
    upper = _long(reduced, marks, wanted, records, lower)
    if upper > lower and reduced.length is not None and reduced.length <= MOST_DIRECT:
        return _direct(reduced, marks, wanted, records)
    if math.isinf(upper):
        steps = reduced.reverse().transition, reduced.transition
        upper = slow_distance(*steps, marks, wanted, records, reduced.length)
    if math.isinf(upper):
        raise MethodRefused(
            "'wasserstein' could not bound how far a record reaches in this chain (it mixes too "
            f"slowly for windows of {SLOW_DEPTH} records); use method='exact' or "
            "'exchange'"
        )
    return Distance(lower, int(upper))


def _attained(chain: MarkovChain, marks: Bools, pairs: Ints, records: Sequence[int] | None) -> int:
    """Return a lower end: E[e^{tN} | x] <= e^{|t| W} E[e^{tN} | x'], whatever t.

    Looks at the middle record only. Products of tilted kernels, by repeated squaring.
    """
    record = MAX_STEPS if records is None else sorted(records)[len(records) // 2]
    length = chain.length or record + MAX_STEPS + 1
    if records is None:
        record = length // 2
    backward = chain.reverse().transition
    best = 0.0
    for tilt in (*_TILTS, *(-tilt for tilt in _TILTS)):
        growth = np.exp(tilt * marks)
        total = tilt * marks + _log_growth(backward * growth, record)
        # (k,): ln E[e^{tN} | x]
        total = total + _log_growth(chain.transition * growth, length - 1 - record)
        best = max(best, float(np.abs(total[pairs[:, 0]] - total[pairs[:, 1]]).max() / abs(tilt)))
    return math.ceil(best - MARGIN)


def _log_growth(kernel: Array, steps: int) -> Array:
    """Return ln kernel^steps 1, up to a constant common to all states."""
    vector, power = np.ones(len(kernel)), kernel
    while steps:
        if steps & 1:
            vector = power @ vector
            vector = vector / vector.max()
        power = power @ power
        power = power / power.max()
        steps >>= 1
    return np.asarray(np.log(vector))


# --- every window outright ---------------------------------------------------------------------


def _direct(
    chain: MarkovChain, marks: Bools, pairs: Ints, records: Sequence[int] | None
) -> Distance:
    """Return the distance from the laws before and after each record."""
    length = chain.length or 0
    before, after = _around(chain, marks, length)
    lower = upper = 0
    for record in range(length) if records is None else records:
        law = chain.law(record)
        for x, other in pairs[pairs[:, 0] <= pairs[:, 1]]:  # mirror images are as far apart
            if law[x] <= 0 or law[other] <= 0:
                continue
            both = [shifted(convolve(before[record][s], after[record][s]), bool(marks[s]))
                    for s in (x, other)]  # fmt: skip
            upper = max(upper, *spread(both[0], both[1], MARGIN))
            lower = max(lower, *spread(both[0], both[1], -MARGIN))
    return Distance(lower, upper)


def _around(
    chain: MarkovChain, marks: Bools, length: int
) -> tuple[list[Array], list[Array]]:  # fmt: skip
    """Return the log-laws of the counts before and after each record, given its state: (k, j)."""
    size = chain.size
    with np.errstate(divide="ignore"):
        joint = np.log(np.asarray(chain.initial))[:, None]  # ln Pr[state, count before]
        before = [np.zeros((size, 1))]
        for record in range(length - 1):
            moved = marked(joint, marks)  # (state, count up to here)
            kernel = np.log(chain.step(record))
            # (next state, count before it)
            joint = log_sum(moved[:, None, :] + kernel[:, :, None], axis=0)
            total = log_sum(joint, axis=1)
            before.append(joint - np.where(np.isfinite(total), total, 0.0)[:, None])
        backward = np.zeros((size, 1))
        after = [backward]
        for record in reversed(range(length - 1)):
            moved = marked(backward, marks)  # (next state, count from there on)
            kernel = np.log(chain.step(record))
            # (state, count after it)
            backward = log_sum(kernel[:, :, None] + moved[None, :, :], axis=1)
            after.append(backward)
    return before, after[::-1]


# --- long series ---------------------------------------------------------------------------------


def _long(
    chain: MarkovChain, marks: Bools, pairs: Ints, records: Sequence[int] | None, lower: int
) -> float:
    """Return an upper end for a stationary series of any length, inf if no depth yields one."""
    backward = chain.reverse().transition
    upper, depth, settled = math.inf, 16, False
    few = chain.length is not None or records is not None
    while depth <= MIXED_DEPTH and (chain.length is None or 2 * depth < chain.length):
        left, right = (
            _side(kernel, marks, depth, cut=True, logs=True)
            for kernel in (backward, chain.transition)
        )
        if left is not None and right is not None:
            wanted = [(int(x), int(other)) for x, other in pairs if x > other]
            search = _BoxSearch(left, right, marks)
            distance = search.largest(wanted, records, chain.length, whole=False)
            # twice as deep told no more, where all pairs of rooms are compared
            settled = not few and depth >= SETTLED and distance >= upper
            upper = min(upper, distance)
        enough = settled or depth * chain.size**2 >= 2 * MIXED_DEPTH
        if upper <= lower or (math.isfinite(upper) and enough):
            break
        depth *= 2
    return upper


MOST_SERIES = 16_384
"""Most series that are enumerated."""

_NUMBERS = (
    "'wasserstein' is a distance between single numbers, and this query answers something else; "
    "use method='quilt' or 'exchange'"
)


def enumerable(chain: MarkovChain) -> bool:
    """Return whether a chain has few enough series.

    >>> enumerable(MarkovChain([[.9, .1], [.3, .7]], length=14))
    True
    """
    return chain.length is not None and chain.size**chain.length <= MOST_SERIES


def query_distance(
    chain: MarkovChain,
    query: AnyQuery,
    pairs: Sequence[tuple[State, State]] | None = None,
    records: Sequence[int] | None = None,
) -> float:
    """Return W: two values of a record move the answer by at most W under a best joint drawing.

    The largest, over ``records`` and ``pairs``, W-infinity distance between the laws of the answer
    given either value, as in section 3 of [wang2016]. Sums, means and linear queries take
    the numbers of the states. Cost O(n k^n).

    >>> chain = MarkovChain([[.9, .1], [.3, .7]], length=4)
    >>> query_distance(chain, Query(max)), query_distance(chain, Query(sum))
    (1.0, 4.0)
    """
    if query.per_state or query.selects:
        raise MethodRefused(_NUMBERS)
    query = chain.valued(query)
    length = chain.length
    if length is None or not enumerable(chain):
        raise MethodRefused(
            f"'wasserstein' for {type(query).__name__} enumerates all series, at most "
            f"{MOST_SERIES}; give the chain a length of at most "
            f"{int(math.log(MOST_SERIES) / math.log(chain.size))}, or use method='exchange'"
        )
    indexed = chain_pairs(chain, pairs)
    places = range(length) if records is None else records
    laws: dict[tuple[int, int], dict[float, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for series, probability in _series(chain, length):
        answer = _answer(query, [chain.states[state] for state in series])
        for record in places:
            laws[record, series[record]][answer] += probability
    worst = 0.0
    for record in places:
        for x, other in indexed.tolist():
            if x < other and (record, x) in laws and (record, other) in laws:
                worst = max(worst, w_infinity(laws[record, x], laws[record, other]))
    return worst


def _series(chain: MarkovChain, length: int) -> list[tuple[tuple[int, ...], Fraction]]:
    """Return every possible series with its probability, up to rounding of the model."""
    steps = [
        [[Fraction(float(entry)) for entry in row] for row in chain.step(record)]
        for record in range(length - 1)
    ]
    series_laws: list[tuple[tuple[int, ...], Fraction]]
    series_laws = [((state,), Fraction(float(p))) for state, p in enumerate(chain.initial) if p > 0]
    for step in steps:
        series_laws = [
            ((*series, state), probability * step[series[-1]][state])
            for (series, probability), state in product(series_laws, range(chain.size))
            if step[series[-1]][state]
        ]
    return series_laws


def w_infinity(one: dict[float, Fraction], two: dict[float, Fraction]) -> float:
    """Return W-infinity of two laws on the line, each up to a factor: match mass in order.

    >>> w_infinity({0: Fraction(1)}, {0: Fraction(1, 2), 3: Fraction(1, 2)})
    3
    """
    # cross-multiplied: both laws then have the same mass
    totals = sum(one.values()), sum(two.values())
    left = [(value, mass * totals[1]) for value, mass in sorted(one.items())]
    right = [(value, mass * totals[0]) for value, mass in sorted(two.items())]
    worst: float = 0
    i = j = 0
    while i < len(left) and j < len(right):
        (a, mass), (b, other) = left[i], right[j]
        worst = max(worst, abs(a - b))
        moved = min(mass, other)
        left[i], right[j] = (a, mass - moved), (b, other - moved)
        i, j = i + (mass == moved), j + (other == moved)
    return worst


def _answer(query: AnyQuery, series: list[State]) -> float:
    """Return the number that a query answers on a series."""
    match query:
        case Count():
            return float(query.evaluate(series, ()))
        case Sum() | Mean():
            return float(sum(_added(query, series)))
        case Linear() if query.weights.ndim == 1:
            values = _numbers(query, series)
            return math.fsum(w * v for w, v in zip(query.weights, values, strict=True))
        case Query():
            return _scalar(query.function(series))
        case _:
            raise MethodRefused(_NUMBERS)


def _added(query: Sum | Mean, series: list[State]) -> tuple[Fraction, ...]:
    """Return the terms of a series' records as they are released: rounded to the lattice."""
    terms = query.added(series, len(series))
    if terms is None:
        raise MethodRefused(_STATES)
    return terms


def _numbers(query: Linear, series: list[State]) -> list[float]:
    values = dict(query.values or ())
    if not values:
        raise MethodRefused(_STATES)
    return [values[state] for state in series]


_STATES = (
    "'wasserstein' for sums enumerates the numbers of the states, and the query gives none; say "
    "values={state: number}"
)


def _scalar(answer: Any) -> float:
    """Return an answer as a finite number, or refuse it."""
    try:
        number = float(answer)
    except (TypeError, ValueError) as error:
        raise MethodRefused(_NUMBERS) from error
    if not math.isfinite(number):
        raise InvalidInput("the query must answer a finite number for every series")
    return number
