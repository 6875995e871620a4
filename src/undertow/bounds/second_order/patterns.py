"""Attacks on a chain of order two that can be carried out: known records, outputs, open ends.

The same maps as those of `undertow.bounds.second_order.boxes`, of single messages instead of boxes,
begun at open ends: every message belongs to a *pattern* of records that are known or show an
output. Of messages that all but agree one is kept. Nothing here is a bound; what it finds is played
out record by record in `undertow.bounds.second_order.messages`.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.bounds.second_order.boxes import Rows, by_phase, grouped, quotients
from undertow.bounds.second_order.gaps import PhaseGaps
from undertow.bounds.second_order.joins import Joint, worst_of
from undertow.numerics import Array

__all__ = ["Pattern", "Pool", "best_pair", "message_pool", "side_points"]

Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

Pattern = tuple[tuple[str, int], ...]
"""What is looked at, outwards: ("known", value) or ("shown", place of the tilt) for each record."""

CELL = 2e-3
"""Messages that agree to it, in logarithms, count as one (cost)."""

MOST_POINTS, MOST_REACHED = 1200, 60_000
"""Messages that are kept of a record known to be one value, and what they reach through all gaps
(cost); the cells are widened for it."""

MOST_BINS = 2000
"""Bins of a side that are held against those of the other (cost)."""

ENOUGH = 600
"""Elements of a side of which all pairs are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Messages (points, 2), with outputs and plain, and how they came about.

    ``word`` is the row of the gap, ``known`` the value of the record beyond it, -1 at the end of
    the series, ``parent`` the place of that record's message one round before.
    """

    messages: Array
    word: Ints
    known: Ints
    parent: Ints

    def chosen(self, places: Ints) -> "Points":
        """Return some of the points."""
        return Points(
            self.messages[places], self.word[places], self.known[places], self.parent[places]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The messages of a side after each round: [round][phase][value]."""

    gaps: tuple[PhaseGaps, ...]
    rounds: tuple[tuple[tuple[Points, Points], ...], ...]

    def pattern(self, phase: int, word: int, known: int, parent: int, number: int) -> Pattern:
        """Return the pattern beyond a record at some phase, as a message of a round."""
        shown = self.gaps[phase].word[word]
        found: Pattern = tuple(("shown", output) for output in shown)
        if known < 0:
            return found
        beyond = (phase + len(shown) + 1) % len(self.gaps)
        before = self.rounds[number - 1][beyond][known]
        inner = int(before.word[parent]), int(before.known[parent]), int(before.parent[parent])
        return (*found, ("known", known), *self.pattern(beyond, *inner, number - 1))


def message_pool(gaps: tuple[PhaseGaps, ...], rounds: int | None, cell: float = CELL) -> Pool:
    """Return messages of a side that patterns attain, after up to so many gaps; None: no record is
    known.
    """
    if rounds is None:
        return Pool(gaps, ())
    phases = range(len(gaps))
    most = min(MOST_POINTS, MOST_REACHED // len(gaps[0].word))

    def made(before: tuple[tuple[Points, Points], ...] | None) -> tuple[tuple[Points, Points], ...]:
        return tuple(
            (
                _kept(_reached(gaps[phase], (2, 0), phase, before), cell, most),
                _kept(_reached(gaps[phase], (3, 1), phase, before), cell, most),
            )
            for phase in phases
        )

    found = [made(None)]
    for _ in range(rounds):
        found.append(made(found[-1]))
    return Pool(gaps, tuple(found))


def _reached(
    gaps: PhaseGaps, rows: Rows, phase: int, before: tuple[tuple[Points, Points], ...] | None
) -> Points:
    """Return all messages at two pairs: those of open ends, and those of the round before."""
    words = np.arange(len(gaps.word))
    ends = gaps.ends[:, rows[0]] / gaps.ends[:, rows[1]]
    none = np.full(len(words), -1)
    parts = [(np.stack([ends, np.ones_like(ends)], axis=1), words, none, none)]
    for beyond, places in enumerate(by_phase(gaps, phase, 0 if before is None else len(before))):
        for known in (0, 1):
            points = before[beyond][known]  # type: ignore[index]
            seen = quotients(gaps.seen[places], rows, known, points.messages[:, 0])
            bare = quotients(gaps.plain, rows, known, points.messages[:, 1])[gaps.gap[places]]
            count = len(points.messages)
            parts.append((
                np.stack([seen, bare], axis=-1).reshape(-1, 2),
                np.repeat(places, count),
                np.full(seen.size, known),
                np.tile(np.arange(count), len(places)),
            ))  # fmt: skip
    return Points(*(np.concatenate([part[each] for part in parts]) for each in range(4)))


def _kept(points: Points, cell: float, most: int) -> Points:
    """Return one point for each cell, in wider cells where there are many."""
    while True:
        order, starts = grouped(np.floor(np.log(points.messages) / cell))
        if len(starts) <= most:
            return points.chosen(order[starts])
        cell *= 2


def side_points(
    pool: Pool, rows: tuple[Rows, Rows, Rows, Rows], phase: int
) -> tuple[Array, Points, Array]:
    """Return the elements of a side that patterns attain, their points, and m/m~ where a = 1.

    Columns as in `joins.NeighbourElements`. Of a pool without rounds: where no record is known.
    """
    last = pool.rounds[-1] if pool.rounds else None
    made = [_reached(pool.gaps[phase], pair, phase, last) for pair in rows]
    main, one, zero, other = (each.messages for each in made)
    table = np.stack(
        [main[:, 0] / main[:, 1], one[:, 0], zero[:, 1], zero[:, 0], one[:, 1]], axis=1
    )
    return table, made[0], other[:, 0] / other[:, 1]


def best_pair(left: Array, right: Array, joint: Joint) -> tuple[float, int, int]:
    """Return the largest value of the pairs that were tried, and their places.

    Of the elements in a bin the one with the largest m/m~ is tried; then bins are made finer where
    the values were large.
    """
    lefts, rights = np.arange(len(left)), np.arange(len(right))
    width, best = 0.1, (-math.inf, 0, 0)
    for _ in range(8):
        first, first_of = _leaders(left[lefts], width)
        second, second_of = _leaders(right[rights], width)
        one, two = left[lefts[first]], right[rights[second]]
        by_left, by_right = worst_of(one, two, joint)
        place = int(by_left.argmax())
        values, _ = worst_of(two, one[place : place + 1], joint)
        found = joint.own + math.log(float(by_left.max()))
        if found > best[0]:
            best = found, int(lefts[first[place]]), int(rights[second[int(values.argmax())]])
        if len(first) == len(lefts) and len(second) == len(rights):
            break
        close = math.exp(best[0] - joint.own - 6 * width)
        lefts, rights = lefts[by_left[first_of] >= close], rights[by_right[second_of] >= close]
        width = width / 3 if max(len(lefts), len(rights)) > ENOUGH else 1e-12
    return best


def _leaders(table: Array, width: float) -> tuple[Ints, Ints]:
    """Return the element of each bin with the largest m/m~, and the bin of each element."""
    order, starts = grouped(np.floor(np.log(table[:, 1:]) / width), table[:, 0])
    place = np.empty(len(table), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(table)]))
    if len(starts) > MOST_BINS:
        return _leaders(table, 2 * width)
    return order[starts], place
