"""Both sides of a target together: the worst of all pairs of what can lie to the left and right.

With a the left neighbour of the target, unknown, L(x, a) and R(a, x) the messages of the sides,

    e^leak = e^own [sum_a pi(a,1) w(a) L(1,a) R(a,1) / sum_a pi(a,0) w(a) L(0,a) R(a,0)] / [plain],

w(a) = e^{tilt a}. In quotients of messages, m = R(0,1)/R(0,0), u_x = R(1,x)/R(0,x), alike on the
left, and with a tilde where nothing is seen,

    e^leak = e^own (m/m~)_L (m/m~)_R  (1 + c1 u1_L u1_R) (1 + d0 u0~_L u0~_R)
                                    / (1 + c0 u0_L u0_R) (1 + d1 u1~_L u1~_R),

d_x = pi(1,x)/pi(0,x), c_x = e^tilt d_x. It grows with m/m~, u1 and u0~, and falls with u0 and u1~:
so the worst corner of two boxes is known, an *element* (m/m~, u1, u0~, u0, u1~) of a side. Where
the left neighbour is known the sides multiply.

The elements of a side are many, and pairs of them more: they are put into bins, each as bad as the
worst of its elements, and those whose best partner stays below a value that is attained anyway are
dropped; then the bins are made finer.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.bounds.second_order.boxes import (
    Rows,
    SideBoxes,
    by_phase,
    far_box,
    grouped,
    open_ends,
    stepped,
)
from undertow.bounds.second_order.gaps import PhaseGaps
from undertow.errors import NotSupported
from undertow.numerics import ROUNDOFF, Array

__all__ = [
    "LEFT",
    "RIGHT",
    "Joint",
    "NeighbourElements",
    "elements",
    "far_elements",
    "joined",
    "joint_pad",
    "worst_of",
]

RIGHT: tuple[Rows, Rows, Rows, Rows] = ((1, 0), (3, 1), (2, 0), (3, 2))
"""Pairs (a, x) as 2 a + x whose messages are compared: m, u1, u0, and m where a = 1."""

LEFT: tuple[Rows, Rows, Rows, Rows] = ((2, 0), (3, 2), (1, 0), (3, 1))
"""The same on the left, where a pair is (x, a)."""

FIRST_BIN, LAST_BIN = 0.3, 1e-5
"""Widths of the first bins, in logarithms, and those at which the search ends (cost)."""

MOST_PAIRS = 8_000_000
"""Pairs of bins that are looked at in one pass (cost): past them the bins are not made finer."""

CHUNK = 500_000
"""Pairs that are held in memory at once."""

SMALLEST = 1e-60
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


def elements(side: SideBoxes, rows: tuple[Rows, Rows, Rows, Rows], phase: int) -> NeighbourElements:
    """Return the elements of a side whose innermost message is at some phase."""
    gaps, parts, beside = side.gaps[phase], [], [[0.0], [0.0]]
    made: list[list[Array]] = [
        [open_ends(gaps, pair) for pair in rows],
        [far_box(gaps, pair) for pair in rows],
    ]
    for beyond, places in enumerate(by_phase(gaps, phase, len(side.boxes))):
        for known in (0, 1):
            boxes = side.boxes[beyond][known]
            made.append([stepped(gaps, pair, known, boxes, places) for pair in rows])
    for main, one, zero, other in made:
        parts.append(_corner(main, one, zero))
        beside[0].append(float(parts[-1][:, 0].max()))
        beside[1].append(float((other[:, 1] / other[:, 2]).max()))
    table = np.concatenate(parts)
    if table.min() <= SMALLEST or not table.max() < 1 / SMALLEST:
        raise NotSupported("likelihoods so far apart are not told apart by this bound")
    return NeighbourElements(table, (max(beside[0]), max(beside[1])))


def far_elements(gaps: PhaseGaps, rows: tuple[Rows, Rows, Rows, Rows]) -> Array:
    """Return the elements of a side that is open and endless: (1, 5)."""
    main, one, zero, _ = (far_box(gaps, pair) for pair in rows)
    return _corner(main, one, zero)


def _corner(main: Array, one: Array, zero: Array) -> Array:
    """Return the worst corners of boxes of m, u1 and u0: columns as in `NeighbourElements`."""
    quotient = main[:, 1] / main[:, 2]
    return np.stack([quotient, one[:, 1], zero[:, 3], zero[:, 0], one[:, 2]], axis=1)


def joined(left: Array, right: Array, joint: Joint, floor: float) -> float:
    """Return an upper bound on the leakage over all pairs of elements; at least ``floor``.

    ``floor`` is attained anyway: pairs below it need not be told apart.
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
