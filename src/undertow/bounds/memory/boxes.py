"""Boxes that hold every message of a side, whatever is known beyond: chains of order two.

For likelihoods that alternate and for every word of outputs. A box is (low, high, plain low, plain
high), rounded outwards; a round maps boxes through every gap between two known records
(`side_boxes`), and boxes that all but agree are merged to their hull.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from undertow.bounds.core.arrays import rescale
from undertow.errors import NotSupported
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import ROUNDOFF, Array

__all__ = [
    "LEFT",
    "RIGHT",
    "Joint",
    "NeighbourElements",
    "PhaseGaps",
    "Rows",
    "SideBoxes",
    "Tilts",
    "balanced",
    "binary_laws",
    "by_phase",
    "column_range",
    "far_box",
    "grouped",
    "joined",
    "joint_pad",
    "longest_gap",
    "merged",
    "neighbour_elements",
    "open_ends",
    "open_gaps",
    "quotients",
    "side_boxes",
    "stepped",
    "worst_of",
]


SMALLEST = 1e-250
"""Entries below it are refused (either side): relative errors need numbers that do not
underflow."""

MOST_GAP = 240
"""Unknown records between two known ones that are looked at one by one (cost)."""

MOST_WORDS = 7
"""The same where every unknown record may show either of two outputs (cost: 2^l words)."""

SETTLED, SETTLED_WORDS = 2e-5, 3e-3
"""Width of the far messages, in logarithms, at which longer gaps count as alike; wider
where every word of outputs is tried (cost)."""


@dataclass(frozen=True, slots=True)
class Tilts:
    """Log-ratio of the likelihoods of an unknown record under 1 and under 0.

    ``own`` is the target's. ``near`` has one row for each phase, the distance to the target modulo
    its length: one row where all records are alike, two where every second one is relabelled. A row
    holds what outputs can do: one number where the worst is known, two where any output may be the
    worst.
    """

    own: float
    near: tuple[tuple[float, ...], ...]

    @property
    def phases(self) -> int:
        """Number of phases, the distances modulo which outputs differ."""
        return len(self.near)

    @property
    def says(self) -> bool:
        """Whether any output says anything."""
        return self.own != 0 or any(tilt != 0 for row in self.near for tilt in row)

    def shown(self, distance: int) -> Array:
        """Return the likelihoods of 0 and 1 of the outputs of a record, at most 1: (outputs, 2)."""
        row = np.array(self.near[abs(distance) % self.phases])
        return np.asarray(np.exp(np.stack([np.minimum(-row, 0), np.minimum(row, 0)], axis=1)))

    def weights(self, distance: int) -> Array:
        """Return the same by the distance to the target, of which 0 is the target itself.

        >>> Tilts(1.0, ((2.0,),)).weights(0).round(3).tolist()
        [[0.368, 1.0]]
        """
        if distance:
            return self.shown(distance)
        return Tilts(self.own, ((self.own,),)).shown(0)

    @property
    def words(self) -> bool:
        """Whether every output has to be tried."""
        return len(self.near[0]) > 1


@dataclass(frozen=True, slots=True, eq=False)
class PhaseGaps:
    """All gaps of one side up to a longest one, for one phase of the record before them.

    ``seen`` are the matrices M_l, one for each gap and word of outputs, shape (words, 4, 4), with
    pairs (y, v) in the order 2 y + v; ``gap`` says to which l each belongs. ``plain`` (gaps, 4, 4)
    are those without outputs. ``ends`` (words, 4) are the messages of a series that ends after l
    unknown records, ``far`` (words, 4, 4) and ``far_plain`` (4, 4) those of all that lies beyond
    the longest gap: the columns span it. ``word`` keeps the outputs.
    """

    seen: Array
    plain: Array
    ends: Array
    far: Array
    far_plain: Array
    gap: np.ndarray[tuple[int], np.dtype[np.int64]]
    word: tuple[tuple[int, ...], ...]
    pad: float

    @property
    def longest(self) -> int:
        """One more than the longest gap."""
        return len(self.plain)


def binary_laws(chain: SecondOrderChain) -> tuple[Array, Array]:
    """Return Pr[x, y] of two neighbours up to a factor, and the chain read backwards.

    What flows into 00 and 11 flows out of them: pi(0,0) p(1|00) = pi(1,0) p(0|10), and alike.

    >>> law, back = binary_laws(SecondOrderChain([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]]))
    >>> law
    array([[8., 1.],
           [1., 6.]])
    >>> back[0, 0].round(3)
    array([0.9, 0.1])
    """
    step = chain.transition
    law = np.ones((2, 2))
    law[0, 0] = step[1, 0, 0] / step[0, 0, 1]
    law[1, 1] = step[0, 1, 1] / step[1, 1, 0]
    # Pr[z before a, x] = pi(z, a) p(x | z, a) / pi(a, x): axes (x, a, z)
    back = (law[..., None] * step).transpose(2, 1, 0) / law.T[..., None]
    return law, back


def _on_pairs(step: Array) -> Array:
    """Return the step over pairs, (x, y) to (y, z): shape (4, 4)."""
    matrix = np.zeros((2, 2, 2, 2))
    middle = np.arange(2)
    matrix[:, middle, middle] = step
    return matrix.reshape(4, 4)


def balanced(matrices: Array) -> Array:
    """Return matrices divided by powers of two, the largest entry of each in [1/2, 1)."""
    return rescale(matrices, -2, -1, faint=0.0)[0]


def _weights(tilt: float) -> Array:
    """Return the likelihood of the second record of each pair, at most 1: shape (4,)."""
    one = np.array([np.exp(min(-tilt, 0.0)), np.exp(min(tilt, 0.0))])
    return np.tile(one, 2)


def longest_gap(step: Array, tilts: Tilts) -> int:
    """Return the longest gap considered: beyond it all messages agree to the tolerance.

    >>> longest_gap(np.full((2, 2, 2), .5), Tilts(1.0, ((1.0,),)))
    3
    """
    most, settled = (MOST_WORDS, SETTLED_WORDS) if tilts.words else (MOST_GAP, SETTLED)
    pairs = _on_pairs(step)
    plain, seen = np.eye(4), np.eye(4)
    for length in range(1, most):
        plain = balanced(pairs @ plain)
        # one after the other from the inside, the phases in turn; a constant word stands for all
        seen = balanced((pairs * _weights(tilts.near[length % tilts.phases][0])) @ seen)
        if length > 2 and max(column_range(plain), column_range(seen)) < settled:
            return length
    return most


def column_range(matrix: Array) -> float:
    """Return how far columns are apart: the largest range of ln M_ik / M_jk over columns k.

    >>> round(column_range(np.array([[.5, .5], [.25, .75]])), 6), column_range(np.eye(2))
    (1.098612, inf)
    """
    if not matrix.min() > 0:
        return np.inf
    logs = np.log(matrix)
    return float(np.ptp(logs[:, None] - logs[None], axis=2).max())


def open_gaps(step: Array, tilts: Tilts, phase: int, longest: int) -> PhaseGaps:
    """Return all gaps of fewer than ``longest`` records after a record at some phase."""
    pairs, phases = _on_pairs(step), tilts.phases
    inner = np.eye(4)[None]  # (T D)^l of every word of l outputs
    words: list[tuple[int, ...]] = [()]
    seen, plain, ends, gap, word = [], [], [], [], []
    bare = np.eye(4)
    for length in range(longest):
        seen.append(balanced(inner @ pairs))
        ends.append(inner.sum(axis=2))
        plain.append(balanced(bare @ pairs))
        gap += [length] * len(words)
        word += words
        nexts = tilts.near[(phase + length + 1) % phases]
        # the new record is the outermost: multiplied from the right, every output in turn
        inner = np.concatenate([balanced(inner @ (pairs * _weights(tilt))) for tilt in nexts])
        words = [(*before, place) for place in range(len(nexts)) for before in words]
        bare = balanced(bare @ pairs)
    tables = np.concatenate(seen), np.stack(plain), np.concatenate(ends), inner, bare
    if min(float(table[table > 0].min()) for table in tables) < SMALLEST or not (
        (inner > 0).all() and (bare > 0).all()
    ):
        raise NotSupported("likelihoods so far apart are not told apart by this bound")
    pad = 64 * (longest + 8) * ROUNDOFF
    return PhaseGaps(*tables, np.array(gap), tuple(word), pad)


Rows = tuple[int, int]
"""Two pairs of neighbours, 2 y + v: the quotient of a message at the first by that at the
second."""

MOST_BOXES, MOST_IMAGES = 2500, 120_000
"""Boxes of one value and phase, and their images under all gaps (cost); the cells in which boxes
are merged are widened for it."""

Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class SideBoxes:
    """The boxes of a side, one array (boxes, 4) for each phase and value, and the gaps."""

    gaps: tuple[PhaseGaps, ...]
    boxes: tuple[tuple[Array, Array], ...]


def side_boxes(
    step: Array, tilts: Tilts, rounds: int, merge: float, longest: int | None = None
) -> SideBoxes:
    """Return boxes that hold every message of a side, after so many rounds."""
    phases = tilts.phases
    gap = longest or longest_gap(step, tilts)
    gaps = tuple(open_gaps(step, tilts, phase, gap) for phase in range(phases))
    boxes = tuple(
        (wide_box(step, 0, gaps[0].pad), wide_box(step, 1, gaps[0].pad)) for _ in range(phases)
    )
    for _ in range(rounds):
        boxes = tuple(
            (
                _round(gaps[phase], boxes, phase, 0, merge),
                _round(gaps[phase], boxes, phase, 1, merge),
            )
            for phase in range(phases)
        )
    return SideBoxes(gaps, boxes)


def wide_box(step: Array, value: int, pad: float) -> Array:
    """Return the one box that holds all messages of a record known to be ``value``: (1, 4)."""
    ratios = step[1, value] / step[0, value]  # (next record,)
    low, high = ratios.min() * (1 - pad), ratios.max() * (1 + pad)
    return np.array([[low, high, low, high]])


def _round(
    gaps: PhaseGaps, boxes: Sequence[tuple[Array, Array]], phase: int, value: int, merge: float
) -> Array:
    """Return the next boxes of a record known to be ``value`` at some phase."""
    rows = (2 + value, value)
    images = [open_ends(gaps, rows), far_box(gaps, rows)]
    for phase_beyond, places in enumerate(by_phase(gaps, phase, len(boxes))):
        images += [
            stepped(gaps, rows, known, boxes[phase_beyond][known], places) for known in (0, 1)
        ]
    return few(np.concatenate(images), merge, min(MOST_BOXES, MOST_IMAGES // len(gaps.word)))


def by_phase(gaps: PhaseGaps, phase: int, phases: int) -> list[Ints]:
    """Return the words of outputs after which the next known record is at each phase."""
    beyond = phase + gaps.gap + 1
    return [np.flatnonzero(beyond % phases == each) for each in range(phases)]


def quotients(matrices: Array, rows: Rows, known: int, messages: Array) -> Array:
    """Return what messages of a known record become at two pairs: shape (matrices, messages).

    ``matrices`` has shape (matrices, 4, 4); beyond the gap the record is known to be ``known``.
    """
    first, other = (
        matrices[:, row, known, None] + matrices[:, row, 2 + known, None] * messages[None]
        for row in rows
    )
    return np.asarray(first / other)


def stepped(gaps: PhaseGaps, rows: Rows, known: int, boxes: Array, places: Ints) -> Array:
    """Return the images of boxes under every gap to a known record: (words boxes, 4).

    ``places`` are the words of outputs, and with them the gaps, that are looked at.
    """
    seen, plain = gaps.seen[places], gaps.plain
    ends = [quotients(seen, rows, known, boxes[:, side]) for side in (0, 1)]  # (words, boxes)
    bare = [quotients(plain, rows, known, boxes[:, side]) for side in (2, 3)]  # (gaps, boxes)
    lengths = gaps.gap[places]
    images = np.stack([
        np.minimum(*ends), np.maximum(*ends),  # monotone maps: the ends of an image are images
        np.minimum(*bare)[lengths], np.maximum(*bare)[lengths],
    ], axis=-1)  # fmt: skip
    return _outwards(images.reshape(-1, 4), gaps.pad)


def open_ends(gaps: PhaseGaps, rows: Rows) -> Array:
    """Return the boxes of series that end after each word: (words, 4)."""
    ratio = gaps.ends[:, rows[0]] / gaps.ends[:, rows[1]]
    ones = np.ones(len(ratio))  # nothing is known beyond: the plain message is 1
    return _outwards(np.stack([ratio, ratio, ones, ones], axis=-1), gaps.pad)


def far_box(gaps: PhaseGaps, rows: Rows) -> Array:
    """Return the boxes of all that lies beyond the longest words: (words, 4).

    A non-negative combination of columns has its quotients between those of the columns.
    """
    seen = gaps.far[:, rows[0]] / gaps.far[:, rows[1]]  # (words, columns)
    plain = gaps.far_plain[rows[0]] / gaps.far_plain[rows[1]]
    ones = np.ones(len(seen))
    ends = [seen.min(axis=1), seen.max(axis=1), ones * plain.min(), ones * plain.max()]
    return _outwards(np.stack(ends, axis=-1), gaps.pad)


def _outwards(boxes: Array, pad: float) -> Array:
    return np.asarray(boxes * np.array([1 - pad, 1 + pad, 1 - pad, 1 + pad]))


def few(boxes: Array, width: float, most: int) -> Array:
    """Return hulls of boxes that all but agree, in wider cells where there are many."""
    while True:
        hulls = merged(boxes, width)
        if len(hulls) <= most:
            return hulls
        width *= 2


def merged(boxes: Array, width: float) -> Array:
    """Return hulls of boxes whose ends agree to ``width`` in logarithms.

    >>> merged(np.array([[1.0, 2.0, 1.0, 1.0], [1.0, 2.0001, 1.0, 1.0], [3.0, 4.0, 1.0, 1.0]]), .01)
    array([[1.    , 2.0001, 1.    , 1.    ],
           [3.    , 4.    , 1.    , 1.    ]])
    """
    order, starts = grouped(np.floor(np.log(boxes) / width))
    ordered = boxes[order]
    hulls = np.empty((len(starts), 4))
    for column in range(4):
        gather = np.minimum if column % 2 == 0 else np.maximum
        hulls[:, column] = gather.reduceat(ordered[:, column], starts)
    return hulls


_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5],
                dtype=np.uint64)  # fmt: skip
"""Odd numbers that turn the cells of a row into one number."""


def grouped(cells: Array) -> tuple[Ints, Ints]:
    """Return an order that puts rows of the same cells together, and where each group begins.

    Rows are distinguished by one number computed from their cells; two different rows that share it
    are merged, which only widens a hull.
    """
    whole = np.asarray(cells, dtype=np.float64).astype(np.int64).view(np.uint64)
    key = np.zeros(len(whole), dtype=np.uint64)
    for column in range(whole.shape[1]):
        key = (key ^ (key >> np.uint64(29))) * _MIX[(column + 1) % 4] + whole[:, column] * _MIX[0]
    order = np.argsort(key)
    ordered = key[order]
    return order, np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])


RIGHT: tuple[Rows, Rows, Rows, Rows] = ((1, 0), (3, 1), (2, 0), (3, 2))
"""Pairs (a, x) as 2 a + x whose messages are compared: m, u1, u0, and m where a = 1."""

LEFT: tuple[Rows, Rows, Rows, Rows] = ((2, 0), (3, 2), (1, 0), (3, 1))
"""The same on the left, where a pair is (x, a)."""

FIRST_BIN, LAST_BIN = 0.3, 1e-5
"""Widths of the first bins, in logarithms, and those at which the search ends (cost)."""

MOST_PAIRS = 8_000_000
"""Pairs of bins that are looked at in one pass (cost): past them the bins are not refined."""

CHUNK = 500_000
"""Pairs that are held in memory at once."""

LEAST_RATIO = 1e-60
"""Quotients of messages beyond it, or its inverse, are refused: products of four must not
overflow."""


@dataclass(frozen=True, slots=True, eq=False)
class NeighbourElements:
    """What one side can do: (elements, 5), and m/m~ where the left neighbour is known.

    ``beside`` has it for a = 0 and a = 1. Columns m/m~, u1, u0~, u0, u1~.
    """

    table: Array
    beside: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Joint:
    """The factors c1, d0, c0, d1 of the join, and the target's own share in logarithms."""

    own: float
    factors: tuple[float, float, float, float]
    pad: float


def neighbour_elements(
    side: SideBoxes, rows: tuple[Rows, Rows, Rows, Rows], phase: int
) -> NeighbourElements:
    """Return the elements of a side whose innermost message is at some phase."""
    gaps, parts, beside = side.gaps[phase], [], [[0.0], [0.0]]
    groups: list[list[Array]] = [
        [open_ends(gaps, pair) for pair in rows],
        [far_box(gaps, pair) for pair in rows],
    ]
    for beyond, places in enumerate(by_phase(gaps, phase, len(side.boxes))):
        for known in (0, 1):
            boxes = side.boxes[beyond][known]
            groups.append([stepped(gaps, pair, known, boxes, places) for pair in rows])
    for main, one, zero, other in groups:
        parts.append(_corner(main, one, zero))
        beside[0].append(float(parts[-1][:, 0].max()))
        beside[1].append(float((other[:, 1] / other[:, 2]).max()))
    table = np.concatenate(parts)
    if table.min() <= LEAST_RATIO or not table.max() < 1 / LEAST_RATIO:
        raise NotSupported("likelihoods so far apart are not told apart by this bound")
    return NeighbourElements(table, (max(beside[0]), max(beside[1])))


def _corner(main: Array, one: Array, zero: Array) -> Array:
    """Return the worst corners of boxes of m, u1 and u0: columns as in `NeighbourElements`."""
    quotient = main[:, 1] / main[:, 2]
    return np.stack([quotient, one[:, 1], zero[:, 3], zero[:, 0], one[:, 2]], axis=1)


def joined(left: Array, right: Array, joint: Joint, floor: float) -> float:
    """Return an upper bound on the leakage over all pairs of elements; at least ``floor``.

    ``floor`` is attained anyway: pairs below it need not be distinguished.
    """
    width, best = FIRST_BIN, math.inf
    goal = math.exp(floor - joint.own - 2 * joint.pad)  # so much below: the truth is below too
    while True:
        lefts, left_of = _binned(left, width)
        rights, right_of = _binned(right, width)
        if len(lefts) * len(rights) > MOST_PAIRS and math.isfinite(best):
            break
        by_left, by_right = worst_of(lefts, rights, joint)
        value = float(by_left.max())
        best = min(best, joint.own + math.log(value) + joint.pad)
        if best <= floor or width <= LAST_BIN:
            break
        left, right = left[by_left[left_of] > goal], right[by_right[right_of] > goal]
        if not len(left) or not len(right):
            return floor
        width /= 3
    return max(best, floor)


def _binned(table: Array, width: float) -> tuple[Array, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return bins, each as bad as the worst of its elements, and the bin of each element."""
    order, starts = grouped(np.floor(np.log(table[:, 1:]) / width))
    ordered = table[order]
    bins = np.empty((len(starts), 5))
    for column in range(5):
        # the leakage grows with m/m~, u1 and u0~, and falls with u0 and u1~
        gather = np.maximum if column < 3 else np.minimum
        bins[:, column] = gather.reduceat(ordered[:, column], starts)
    place = np.empty(len(table), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(table)]))
    return bins, place


def worst_of(lefts: Array, rights: Array, joint: Joint) -> tuple[Array, Array]:
    """Return e^(leak - own) of the best partner of every left bin, and of every right bin."""
    c1, d0, c0, d1 = joint.factors
    by_left, by_right = np.empty(len(lefts)), np.zeros(len(rights))
    block = max(CHUNK // len(rights), 1)
    for first in range(0, len(lefts), block):
        part = lefts[first : first + block]
        value = 1 + np.multiply.outer(c1 * part[:, 1], rights[:, 1])
        value *= 1 + np.multiply.outer(d0 * part[:, 2], rights[:, 2])
        value /= 1 + np.multiply.outer(c0 * part[:, 3], rights[:, 3])
        value /= 1 + np.multiply.outer(d1 * part[:, 4], rights[:, 4])
        value *= np.multiply.outer(part[:, 0], rights[:, 0])
        by_left[first : first + block] = value.max(axis=1)
        np.maximum(by_right, value.max(axis=0), out=by_right)
    return by_left, by_right


def joint_pad(own: float, largest: float) -> float:
    """Return the rounding of a joined value: some twenty relative ones, and those of logarithms."""
    return 64 * ROUNDOFF * (1 + abs(own) + abs(largest))
