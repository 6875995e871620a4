"""Boxes that hold every message of a side: what known records can say, whatever lies beyond.

A box is (low, high, plain low, plain high): messages are positive numbers, their ends are rounded
outwards (see `undertow.bounds.second_order.gaps`). The *wide* box of a record known to be v holds
them all: given v the next record c depends on the inner neighbour y through p(c | y, v) alone, and
what lies beyond c does not depend on y, so that a message is an average over c of p(c | 1, v) / p(c
| 0, v). Every side is open with fewer than ``longest`` unknown records, or has its first known
record after fewer, or is *far*: its messages are averages over the columns of (T D)^longest. So

    boxes(v') <- images of boxes(v) under every gap, for both v, the open ends, and the far box

holds every message again, and each round narrows it. Boxes that all but agree are merged to their
hull, which only widens them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from undertow.bounds.second_order.gaps import PhaseGaps, Tilts, longest_gap, open_gaps
from undertow.numerics import Array

__all__ = [
    "Rows",
    "SideBoxes",
    "by_phase",
    "far_box",
    "grouped",
    "merged",
    "open_ends",
    "quotients",
    "side_boxes",
    "stepped",
]

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
    found = [open_ends(gaps, rows), far_box(gaps, rows)]
    for phase_beyond, places in enumerate(by_phase(gaps, phase, len(boxes))):
        found += [
            stepped(gaps, rows, known, boxes[phase_beyond][known], places) for known in (0, 1)
        ]
    return few(np.concatenate(found), merge, min(MOST_BOXES, MOST_IMAGES // len(gaps.word)))


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
    found = np.stack([
        np.minimum(*ends), np.maximum(*ends),  # monotone maps: the ends of an image are images
        np.minimum(*bare)[lengths], np.maximum(*bare)[lengths],
    ], axis=-1)  # fmt: skip
    return _outwards(found.reshape(-1, 4), gaps.pad)


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
    found = [seen.min(axis=1), seen.max(axis=1), ones * plain.min(), ones * plain.max()]
    return _outwards(np.stack(found, axis=-1), gaps.pad)


def _outwards(boxes: Array, pad: float) -> Array:
    return np.asarray(boxes * np.array([1 - pad, 1 + pad, 1 - pad, 1 + pad]))


def few(boxes: Array, width: float, most: int) -> Array:
    """Return hulls of boxes that all but agree, in wider cells where there are many."""
    while True:
        found = merged(boxes, width)
        if len(found) <= most:
            return found
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


def grouped(cells: Array, leader: Array | None = None) -> tuple[Ints, Ints]:
    """Return an order that puts rows of the same cells together, and where each group begins.

    Rows are told apart by one number made of their cells; should two different rows ever share it,
    they are merged, which widens a hull and does no harm. With a ``leader`` the largest of it comes
    first in each group.
    """
    whole = np.asarray(cells, dtype=np.float64).astype(np.int64).view(np.uint64)
    key = np.zeros(len(whole), dtype=np.uint64)
    for column in range(whole.shape[1]):
        key = (key ^ (key >> np.uint64(29))) * _MIX[(column + 1) % 4] + whole[:, column] * _MIX[0]
    order = np.argsort(key) if leader is None else np.lexsort((-leader, key))
    ordered = key[order]
    return order, np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
