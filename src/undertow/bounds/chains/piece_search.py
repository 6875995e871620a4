"""Branch and bound over all windows of an endless series whose count is released.

Everything further away than T records on a side follows from the *frontier*, the columns m + h = T
(`undertow.bounds.chains.piece_sides`). Only what the bound of the frontier leaves in doubt is
looked at again with a larger T (docs, "Noisy counts of windows").
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.bounds.chains.known import Bools, ordered_pairs
from undertow.bounds.chains.piece_groups import Group
from undertow.bounds.chains.piece_sides import (
    FoundWindow,
    Kind,
    WindowSide,
    build_sides,
    empty_side,
    far_answers,
)
from undertow.models.markov import MarkovChain
from undertow.numerics import GAP, Array

__all__ = ["PieceSearch"]

LEVELS = (3, 4, 5, 6, 8, 10, 13, 17, 22, 29, 38, 50, 65, 85, 110, 143)
"""Records swept on a side before the frontier takes over, one round after the other."""

EFFORT = 1_000_000_000
"""Multiplications spent on one tolerance before what is still in doubt keeps its bound."""

MEMORY = 8_000_000
"""Most entries of the tables of what is in doubt."""

TOLERANCES = (0.0, 0.02)
"""Widths relative to the value, beyond the package's own gap, that are tried one after the other
until one can be met (upper side)."""


class PieceSearch:
    """The best window found, and the certified top over all of them.

    ``cap`` is another certified bound on all windows: where the best meets it, the search ends.
    """

    def __init__(
        self, chain: MarkovChain, counted: tuple[bool, ...], scale: float, against: Kind, cap: float
    ) -> None:
        self.chain, self.counted, self.against, self.cap = chain, counted, against, cap
        self.rate = 1.0 / scale
        self.value, self.other = ordered_pairs(chain.size)
        self.found: FoundWindow | None = None
        self.best, self.top = 0.0, cap
        self.slack, self.effort = 0.0, EFFORT

    @property
    def goal(self) -> float:
        """The value up to which a window cannot widen the interval noticeably."""
        return self.best + max(GAP * max(1.0, self.best), self.slack * self.best)

    def run(self) -> None:
        """Find the best window, and a top as close to it as the effort allows."""
        for found in far_answers(self.chain, self.counted, self.against, self.rate):
            self.offer(found)
        for self.slack in TOLERANCES:
            if self.cap <= self.goal:
                return
            self.effort = EFFORT
            top, hopeless = self._sweep()
            self.top = min(self.top, top)
            if self.top <= self.goal or hopeless:
                return

    def offer(self, found: FoundWindow) -> None:
        """Keep the window if it is the best so far."""
        if found.loss > self.best and math.isfinite(found.loss):
            self.best, self.found = found.loss, found

    def _sweep(self) -> tuple[float, bool]:
        """Sweep further and further out, until nothing is in doubt or the effort is spent.

        Return the top, and whether no effort whatever would lower it.
        """
        doubt: _Doubt | None = None
        settled, reach = 0.0, math.inf  # tops of what is settled, and of what is in doubt
        apart = math.inf  # bound of windows that the target is no part of
        hints = [math.inf, math.inf]
        for steps in LEVELS:
            sides = build_sides(self.chain, self.counted, self.against, steps)
            if sides is None or 2 * len(self.value) * (steps + 2) ** 3 > MEMORY:
                break
            level = _Level(self, sides, hints)
            for right in (0, 1):
                hints[right] = min(hints[right], level.beside(right, counted=True))
            if apart > self.goal:
                apart = max(level.beside(right, counted=False) for right in (0, 1))
            fresh = level.inside(doubt)
            if fresh is None:  # out of effort: what was in doubt stays so
                break
            dropped, alive = fresh.sift(self.goal)
            settled = max(settled, level.top, dropped)
            reach, doubt = max(alive, apart), fresh
            # the zeros of P^t repeat themselves from t = (k - 1)^2 + 1 on, at the latest
            hopeless = math.isinf(reach) and steps >= (self.chain.size - 1) ** 2
            if reach <= self.goal or hopeless:
                return max(settled, reach), hopeless
        return max(settled, reach), False


@dataclass(frozen=True, slots=True)
class _Doubt:
    """Bounds of what lies beyond a frontier, -inf where nothing is in doubt.

    ``left`` (P, m, m, C): beyond the left frontier with a column on the right; ``right``
    (P, m, C, m) the mirror image; ``both`` (P, m, m): beyond both frontiers.
    """

    left: Array
    right: Array
    both: Array

    @classmethod
    def nothing(cls, pairs: int, steps: int) -> "_Doubt":
        """Return tables without doubt."""
        one, columns = steps + 1, steps + 2
        return cls(
            np.full((pairs, one, one, columns), -np.inf),
            np.full((pairs, one, columns, one), -np.inf),
            np.full((pairs, one, one), -np.inf),
        )

    @property
    def steps(self) -> int:
        """The number of records swept, T."""
        return int(self.both.shape[1]) - 1

    def sift(self, goal: float) -> tuple[float, float]:
        """Drop what is at most ``goal``; return the largest bound dropped and the largest left."""
        dropped, alive = -math.inf, -math.inf
        for table in (self.left, self.right, self.both):
            harmless = table <= goal
            dropped = max(dropped, float(table[harmless].max(initial=-np.inf)))
            table[harmless] = -np.inf
            alive = max(alive, float(table.max()))
        return dropped, alive

    def groups(self, steps: int) -> list[tuple[int, int]]:
        """Return the numbers of counted records (left, right) that must be looked at next."""
        near = np.minimum(np.arange(steps + 1), self.steps)
        old = np.arange(steps + 1) <= self.steps
        both = (self.both.max(axis=0) > -np.inf)[np.ix_(near, near)]  # (m, n)
        left = (self.left.max(axis=(0, 3)) > -np.inf)[np.ix_(near, near)] & old[None, :]
        right = (self.right.max(axis=(0, 2)) > -np.inf)[np.ix_(near, near)] & old[:, None]
        return [(int(m), int(n)) for m, n in np.argwhere(both | left | right)]

    def needed(self, left: int, right: int, steps: int) -> Bools:
        """Return which pairs and columns of a group were in doubt, (P, C, C)."""
        near = min(left, self.steps), min(right, self.steps)
        old, new = [], []
        for count in (left, right):
            columns = np.arange(2 + steps - count)
            # column 1 + h reaches count + h records out, column 0 just the counted ones
            inside = np.maximum(columns - 1, 0) + count <= self.steps
            old.append(columns[inside])
            new.append(columns[~inside])
        need = np.zeros((len(self.both), 2 + steps - left, 2 + steps - right), dtype=bool)
        need[:, new[0][:, None], new[1]] = (self.both[:, near[0], near[1]] > -np.inf)[:, None, None]
        if old[1].size and new[0].size:
            part = self.left[:, near[0], right][:, old[1]] > -np.inf
            need[:, new[0][:, None], old[1]] = part[:, None, :]
        if old[0].size and new[1].size:
            part = self.right[:, left][:, :, near[1]][:, old[0]] > -np.inf
            need[:, old[0][:, None], new[1]] = part[:, :, None]
        return need


class _Level:
    """One round of the search, with T records on a side."""

    def __init__(
        self, search: PieceSearch, sides: tuple[WindowSide, WindowSide], hints: list[float]
    ) -> None:
        self.search, self.sides, self.steps = search, sides, sides[0].steps
        self.marks = np.array(search.counted)
        self.hints = hints
        self.top = -math.inf

    def beside(self, right: int, counted: bool) -> float:
        """Return the bound of all windows that lie on one side of the target.

        The target is their first or last record if ``counted``, else the record next to them;
        then between two values of the same mark it might as well be counted.
        """
        search, side = self.search, self.sides[right]
        pairs = np.arange(len(search.value))
        if not counted:
            pairs = np.flatnonzero(self.marks[search.value] != self.marks[search.other])
        value, other = search.value[pairs], search.other[pairs]
        empty, free = empty_side(search.chain.size), self._free(self.sides[1 - right])
        own = self.marks & counted
        most = 0.0
        for count in range(0 if counted else 1, self.steps + 1):
            columns = np.arange(2 + self.steps - count)
            nothing = np.zeros(1, dtype=np.int64)
            group = Group(
                (empty, side) if right else (side, empty),
                (0, count) if right else (count, 0),
                own, search.rate,
            )  # fmt: skip
            loss = group.losses((nothing, columns) if right else (columns, nothing), value, other)
            edge = side.frontier(count)
            if edge is not None:
                at = np.array([edge])
                bound = group.beyond(
                    (not right, bool(right)), (nothing, at) if right else (at, nothing),
                    loss[:, :, :, at] if right else loss[:, at], value, other, pairs, self.hints,
                )  # fmt: skip
                most = max(most, float(bound.max()))
            search.effort -= group.effort
            loss = loss[:, 0, 0] if right else loss[:, :, :, 0, 0]  # (P, C, R)
            loss = np.where(side.real[columns], loss, -np.inf)
            most = max(most, float(loss.max()) + group.pad)
            for row, pair in enumerate(pairs):
                place = free[pair]
                if place is not None and not counted:
                    best = np.unravel_index(int(loss[row].argmax()), loss[row].shape)
                    near, far = (0, *place), (count, int(best[0]), int(best[1]))
                    found = (near, far) if right else (far, near)
                    search.offer(
                        FoundWindow(float(loss[row][best]), int(pair), *found, outside=True)
                    )
        return most

    def _free(self, side: WindowSide) -> list[tuple[int, int] | None]:
        """Return for each pair a column and row on a side without counted records, if any."""
        places: list[tuple[int, int] | None] = []
        for x, y in zip(self.search.value, self.search.other, strict=True):
            both = side.real & (side.weights[..., x] > 0) & (side.weights[..., y] > 0)
            first = np.argwhere(both)[:1]
            places.append((int(first[0][0]), int(first[0][1])) if first.size else None)
        return places

    def inside(self, doubt: _Doubt | None) -> _Doubt | None:
        """Evaluate the windows around the target that were in doubt; None if it takes too long."""
        fresh = _Doubt.nothing(len(self.search.value), self.steps)
        every = [(m, n) for m in range(self.steps + 1) for n in range(self.steps + 1)]
        for left, right in every if doubt is None else doubt.groups(self.steps):
            need = self._useful(left, right)
            if doubt is not None:
                need &= doubt.needed(left, right, self.steps)
            self.search.effort -= need.size // 8
            if need.any():
                self._group(left, right, need, fresh)
            if self.search.effort <= 0:
                return None
        return fresh

    def _useful(self, left: int, right: int) -> Bools:
        """Return which columns are real or on the frontier, for all pairs, (P, C, C)."""
        parts = []
        for side, count in zip(self.sides, (left, right), strict=True):
            useful = np.array(side.real.any(axis=1))[: 2 + self.steps - count]
            column = side.frontier(count)
            if column is not None:
                useful[column] = True
            parts.append(useful)
        grid = parts[0][:, None] & parts[1]  # (C, C)
        return np.repeat(grid[None], len(self.search.value), axis=0)

    def _group(self, left: int, right: int, need: Bools, fresh: _Doubt) -> None:
        """Evaluate the columns of one group that are needed, and note what they leave in doubt."""
        search, counts = self.search, (left, right)
        pairs = np.flatnonzero(need.any(axis=(1, 2)))  # need is (P, C, C)
        value, other = search.value[pairs], search.other[pairs]
        columns = np.flatnonzero(need.any(axis=(0, 2))), np.flatnonzero(need.any(axis=(0, 1)))
        group = Group(self.sides, counts, self.marks, search.rate)
        loss = group.losses(columns, value, other)  # (P, C, R, C, R)
        asked = need[np.ix_(pairs, *columns)]  # (P, C, C)
        real = [side.real[part] for side, part in zip(self.sides, columns, strict=True)]
        true = np.where(real[0][:, :, None, None] & real[1], loss, -np.inf)  # (P, C, R, C, R)
        best = np.unravel_index(int(true.argmax()), true.shape)
        pair, at, row, to, end = (int(part) for part in best)
        self.top = max(self.top, float(true[best]) + group.pad)
        found = (left, int(columns[0][at]), row), (right, int(columns[1][to]), end)
        search.offer(FoundWindow(float(true[best]), int(pairs[pair]), *found, outside=False))
        edges = [
            np.flatnonzero(part == side.frontier(count))
            for part, side, count in zip(columns, self.sides, counts, strict=True)
        ]
        for ends, table in (
            ((True, False), fresh.left[:, left, right]),
            ((False, True), fresh.right[:, left, :, right]),
            ((True, True), fresh.both[:, left, right]),
        ):
            rows, cols = (
                edge if there else np.arange(len(part))
                for edge, there, part in zip(edges, ends, columns, strict=True)
            )
            if not rows.size or not cols.size:
                continue
            cut = columns[0][rows], columns[1][cols]
            part = loss[:, rows][:, :, :, cols]  # (P, C, R, C, R), on the frontier
            bound = group.beyond(ends, cut, part, value, other, pairs, self.hints)
            bound = np.where(asked[:, rows][:, :, cols], bound, -np.inf)  # (P, C, C)
            if all(ends):
                table[pairs] = bound[:, 0, 0]
            else:
                other_side = cut[1] if ends[0] else cut[0]
                table[pairs[:, None], other_side] = bound[:, 0] if ends[0] else bound[:, :, 0]
        search.effort -= group.effort
