"""The windows of one target and one pair of values, of which some may exceed the best known."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from undertow.bounds.chains.known import Bools, Ints
from undertow.bounds.chains.side_laws import Rows
from undertow.bounds.chains.window_losses import Laws, drift, windows_of
from undertow.numerics import Array
from undertow.progress import spend

__all__ = ["Numbers", "OptionSide", "PairWindows"]

Numbers = Array | float


@dataclass(frozen=True, slots=True)
class OptionSide:
    """One side of a pair of values: its options, and what lies beyond them.

    ``options`` are flat indices of (distance, column), ``real`` those that the adversary can have,
    ``edge`` those of the frontier, empty where nothing lies beyond. ``loss`` and ``joint`` bound an
    option, without and with the target, and ``far`` holds the same two for all that lies beyond;
    ``shift`` (edge), ``wave`` and ``told`` are what the frontier's bounds add.
    """

    options: Ints
    real: Bools
    edge: Ints
    loss: Array
    joint: Array
    far: tuple[float, float]
    shift: Array
    wave: float
    told: float


class Searching(Protocol):
    """What the windows of a pair need of the search they belong to."""

    laws: Laws
    rows: Rows
    value: Ints
    other: Ints
    counted: Bools
    kind: npt.NDArray[Any]
    together: npt.NDArray[Any]
    scale: float
    pad: float
    top: float
    effort: int

    @property
    def goal(self) -> float: ...
    def side(self, row: int, side: int, pair: int) -> OptionSide: ...
    def sum(
        self, pair: int, left: Numbers, with_left: Numbers, right: Numbers, with_right: Numbers
    ) -> Array: ...
    def offer(
        self, loss: float, row: int, pair: int, options: tuple[int, int], output: int
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Bounds of all windows of an ordered pair by the sums of their sides.

    ``inside`` (left options, right options), ``left`` (right options): beyond the left frontier,
    ``right`` (left options): beyond the right one, ``both``: beyond both. -inf where there is none.
    """

    inside: Array
    left: Array
    right: Array
    both: float


class PairWindows:
    """The windows of one row and a pair of values, in either order."""

    def __init__(self, search: Searching, row: int, pairs: tuple[int, int]) -> None:
        self.search, self.row, self.pairs = search, row, pairs
        # [order][side]; the options are the same for both orders
        self.sides = [[search.side(row, side, pair) for side in (0, 1)] for pair in pairs]
        left, right = self.sides[0]
        kinds = search.kind[left.options][:, None], search.kind[right.options]
        self.allowed = left.real[:, None] & right.real & search.together[kinds]
        self.edges = [np.isin(side.options, side.edge) for side in self.sides[0]]
        self.bounds = [
            self._bounds(pair, *sides) for pair, sides in zip(pairs, self.sides, strict=True)
        ]

    def _bounds(self, pair: int, left: OptionSide, right: OptionSide) -> _Bounds:
        """Return the bounds of an ordered pair."""
        total = self.search.sum
        spend(20 * left.loss.size * right.loss.size, 4)
        inside = total(pair, left.loss[:, None], left.joint[:, None], right.loss, right.joint)
        inside = np.where(self.allowed, inside, -np.inf)
        beyond = [np.full(len(side.options), -np.inf) for side in (right, left)]
        if left.edge.size:
            near = np.where(right.real, right.loss, -np.inf)
            beyond[0] = total(pair, *left.far, near, right.joint)
        if right.edge.size:
            near = np.where(left.real, left.loss, -np.inf)
            beyond[1] = total(pair, near, left.joint, *right.far)
        both = -np.inf
        if left.edge.size and right.edge.size:
            both = float(total(pair, *left.far, *right.far))
        return _Bounds(inside, beyond[0], beyond[1], both)

    def run(self) -> None:
        """Evaluate what may exceed the best, the most promising right options first."""
        edge = self.edges[1]
        most = np.max([np.maximum(b.inside.max(axis=0), b.left) for b in self.bounds], axis=0)
        order = np.argsort(-most, kind="stable")
        for place in order[~edge[order]]:
            self._evaluate(np.array([place]))
        if edge.any():
            self._evaluate(np.flatnonzero(edge))

    def _evaluate(self, columns: Ints) -> None:
        """Evaluate the windows of one right option, or of all those of the right frontier."""
        search, goal = self.search, self.search.goal
        spend(6 * self.allowed.shape[0] * len(columns), 4)
        at_edge = bool(self.edges[1][columns[0]])
        need = np.zeros(len(self.allowed), dtype=bool)  # (left options,)
        for bounds in self.bounds:
            need |= (bounds.inside[:, columns] > goal).any(axis=1)
            far = bounds.left[columns].max()
            if at_edge:
                need |= bounds.right > goal
                far = max(far, bounds.both)
            if far > goal:
                need |= self.edges[0]
        if search.effort <= 0:
            need[:] = False
        for bounds in self.bounds:  # what is not looked at keeps its bound
            search.top = max(
                search.top, float(bounds.inside[~need][:, columns].max(initial=-np.inf))
            )
        rows = np.flatnonzero(need)
        ends = np.flatnonzero(self.edges[0][rows])
        found = [self._column(int(place), rows, ends) for place in columns] if rows.size else []
        for order, bounds in enumerate(self.bounds):
            for at, place in enumerate(columns):
                beyond = float(bounds.left[place])
                if beyond > goal and found:
                    logs = [part[ends] for part in found[at]]  # (z, answers)
                    beyond = min(beyond, self._frontier(order, logs, 0))
                search.top = max(search.top, beyond)
            if not at_edge:
                continue
            reach = bounds.right.copy()  # (left options,)
            for at, row in enumerate(rows):
                if reach[row] > goal:
                    logs = [np.stack([each[part][at] for each in found]) for part in (0, 1)]
                    reach[row] = min(reach[row], self._frontier(order, logs, 1))
            search.top = max(search.top, float(reach.max(initial=-np.inf)))
            most = bounds.both
            if most > goal and found:
                # (left z, right z, answers), flattened
                logs = [np.stack([each[part][ends] for each in found], axis=1) for part in (0, 1)]
                logs = [part.reshape(-1, part.shape[-1]) for part in logs]
                most = min(most, self._frontier(order, logs, 0, 1))
            search.top = max(search.top, most)

    def _column(self, place: int, rows: Ints, ends: Ints) -> tuple[Array, Array]:
        """Evaluate the windows of one right option and some left ones; return ln likelihoods.

        Of the left frontier alone, or of all rows where the right option is at its frontier.
        """
        search = self.search
        left, right = self.sides[0]
        states = int(search.value[self.pairs[0]]), int(search.other[self.pairs[0]])
        own = int(search.counted[states[0]]), int(search.counted[states[1]])
        found = windows_of(
            search.laws, search.rows.which[self.row], states, own, left.options[rows],
            int(right.options[place]), 1.0 / search.scale,
        )  # fmt: skip
        search.effort -= found.work
        most, high, back, low = found.extremes()
        allowed = self.allowed[rows, place]
        for pair, losses, answers in ((self.pairs[0], most, high), (self.pairs[1], back, low)):
            losses = np.where(allowed, losses, -np.inf)
            best = int(losses.argmax())
            search.top = max(search.top, float(losses[best]) + 2 * search.pad)
            options = int(left.options[rows[best]]), int(right.options[place])
            search.offer(float(losses[best]), self.row, pair, options, int(answers[best]))
        if self.edges[1][place]:
            return found.logarithms(np.arange(len(rows)))
        logs = np.full(found.one.shape, np.nan), np.full(found.one.shape, np.nan)
        logs[0][ends], logs[1][ends] = found.logarithms(ends)
        return logs

    def _frontier(self, order: int, logs: list[Array], *sides: int) -> float:
        """Return the bound of all windows beyond the frontier of one side, or of both.

        ``logs`` (z, answers) are ln likelihoods under the first and the second value of the pair;
        with both frontiers the records inserted are pairs, the left one first.
        """
        search = self.search
        one, two = logs if order == 0 else logs[::-1]
        parts = [self.sides[order][side] for side in sides]
        shift = parts[0].shift
        if len(parts) > 1:
            shift = np.add.outer(shift, parts[1].shift).ravel()
        ratio = one - two  # (z, answers)
        first = float((ratio + shift[:, None]).max())
        # by how much the likelihood varies over z, under the steadier value; and what lies beyond
        spread = min(float(np.ptp(part, axis=0).max()) for part in (one, two)) + 2 * search.pad
        wave, told = sum(part.wave for part in parts), sum(part.told for part in parts)
        second = float(ratio.max()) + float(drift(wave, spread + told))
        return min(first, second) + 2 * search.pad
