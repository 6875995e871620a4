"""Losses of the windows with the same numbers of counted records left and right of the target.

For fixed numbers the likelihood of an answer is bilinear in the weights of the two sides' columns
(`undertow.bounds.chains.piece_sides`), so one small table serves all columns. What lies beyond a
side's frontier is bounded by inserting the record z at distance T + 1:

    loss <= max over z of ln Q(x, z) / Q(x', z) - ln D(x) / D(x') + loss(frontier, z),
    loss <= max over z of loss(frontier, z) + ln(1 + sinh(o / 2) sinh(r / 2)),

Q the transition over T + 1 records outwards, D the prior of the column, o the oscillation over z
of the log-ratio of Q, and r that of the log-likelihood of the answer. Where z and records beyond
it are counted, r also has what their count tells about z.
"""

from collections.abc import Sequence

import numpy as np

from undertow.bounds.chains.known import Bools, Ints
from undertow.bounds.chains.piece_sides import WindowSide
from undertow.numerics import Array, log_error

__all__ = ["Group"]

FLOOR = 1e-280
"""Least weight of an answer that is computed exactly; terms lost to underflow are far below."""

OVERHEAD = 400_000
"""Multiplications that the handling of one group is worth."""

_BLOCK = 2_000_000
"""Entries of one table of answers (memory)."""

Columns = tuple[Ints, Ints]


class Group:
    """All windows with ``counts`` counted records on the two sides, at one scale of the noise.

    ``own`` (k,) says in which states the target adds to the count. ``effort`` is the number of
    multiplications spent so far, ``pad`` covers the rounding of any loss.
    """

    def __init__(
        self, sides: tuple[WindowSide, WindowSide], counts: tuple[int, int], own: Bools, rate: float
    ) -> None:
        self.sides, self.counts = sides, counts
        left, right = counts
        size, answers = len(own), left + right + 2
        # noise around each count on the right, at the answers less what the left and target add
        away = np.arange(-left - 1, answers)
        # (right count, away)
        noise = np.exp(-np.abs(np.subtract.outer(np.arange(right + 1), away)) * rate)
        noisy = sides[1].counts[right] @ noise  # (target, right end, away)
        self.tables = np.empty((size, answers, size, size))  # (target, answer, left, right end)
        for state in range(size):
            place = left + 1 - int(own[state]) - np.arange(left + 1)[:, None]
            slid = noisy[state][:, place + np.arange(answers)]  # (right end, left count, answer)
            # (left end, right end, answer)
            product = np.tensordot(sides[0].counts[left][state], slid, axes=(1, 1))
            self.tables[state] = product.transpose(2, 0, 1)
        self.effort = OVERHEAD + self.tables.size * answers
        # four sums of non-negative terms: over records, counts, columns, with the noise
        reach = max(side.steps for side in sides)
        terms = (4 * reach + 8) * (size + 2) + 2 * answers + 2 * (answers + 1) * rate + 32
        self.pad = log_error(4 * terms)

    def _weights(self, columns: Columns) -> tuple[Array, Array]:
        """Return the weights of all rows of the columns, (C R, k), left and right."""
        left, right = (
            side.weights[part].reshape(-1, side.weights.shape[2])
            for side, part in zip(self.sides, columns, strict=True)
        )
        return left, right

    def _priors(self, weights: tuple[Array, Array]) -> Array:
        """Return the prior of every pair of rows, (target, left rows, right rows)."""
        left, right = (
            side.masses[count] @ rows.T
            for side, count, rows in zip(self.sides, self.counts, weights, strict=True)
        )
        return np.asarray(left[:, :, None] * right[:, None, :])

    def losses(self, columns: Columns, value: Ints, other: Ints) -> Array:
        """Return the loss of all pairs of values and columns, (P, C, R, C, R), not yet padded.

        -inf marks what is impossible for one of the two values, inf what would underflow.
        """
        left, right = self._weights(columns)
        size, answers = self.tables.shape[:2]
        least = self.tables.min(axis=1)  # (target, left end, right end)
        width = max(1, _BLOCK // (size * answers * len(left)))
        losses = np.empty((len(value), len(left), len(right)))  # (P, left rows, right rows)
        for first in range(0, len(right), width):
            part = slice(first, first + width)
            rows = right[part]
            likely = left @ (self.tables @ rows.T)  # (target, answer, left rows, right rows)
            prior = self._priors((left, rows))  # (target, left rows, right rows)
            faint = left @ (least @ rows.T) < FLOOR  # (target, left rows, right rows)
            for at, (x, y) in enumerate(zip(value, other, strict=True)):
                with np.errstate(divide="ignore", invalid="ignore"):
                    # the best answer: (left rows, right rows)
                    ratio = (likely[x] / likely[y]).max(axis=0)
                    loss = np.log(ratio) + np.log(prior[y] / prior[x])
                loss[faint[x] | faint[y]] = np.inf
                loss[(prior[x] <= 0) | (prior[y] <= 0)] = -np.inf
                losses[at, :, part] = loss
            self.effort += likely.size * (size + 2 * len(value) // size + 1)
        shape = (len(columns[0]), -1, len(columns[1]), self.sides[1].weights.shape[1])
        return losses.reshape(len(value), *shape)

    def beyond(
        self, frontier: tuple[bool, bool], columns: Columns, loss: Array,
        value: Ints, other: Ints, pairs: Ints, hints: Sequence[float],
    ) -> Array:  # fmt: skip
        """Return the bound of what lies beyond the frontier of one side or both, (P, C, C).

        ``columns`` holds just the frontier's column on such a side, and ``loss`` is that of
        `losses` for them; on the other side only what the adversary can really have counts.
        ``hints`` bound what the count of z and all beyond it tells about z, left and right.
        """
        size, told = len(self.tables), 0.0
        shift, sway = np.zeros((1,) * 5), np.zeros((len(pairs), 1, 1, 1, 1))
        ends = tuple(2 + 2 * end for end in (0, 1) if frontier[end])
        for end, (side, part) in enumerate(zip(self.sides, columns, strict=True)):
            rows = side.real[part]
            if frontier[end]:  # known records z, whether real or inserted by the proof
                rows = np.broadcast_to(np.arange(rows.shape[1]) < size, rows.shape)
                moved = np.full((len(pairs), rows.shape[1]), -np.inf)  # (P, R)
                moved[:, :size] = side.shift[pairs]
                shape = (len(pairs), 1, -1, 1, 1) if end == 0 else (len(pairs), 1, 1, 1, -1)
                shift = _sum(shift, moved.reshape(shape))
                told += hints[end] if self.counts[end] == side.steps else 0.0
                sway = sway + side.sway[pairs][:, None, None, None, None]
            loss = np.where(rows[:, :, None, None] if end == 0 else rows, loss, -np.inf)
        # the first bound of the module: (P, C, R, C, R)
        first = _sum(loss, shift).max(axis=ends, keepdims=True)
        wave = self._oscillation(columns, ends)  # (target, C, R, C, R)
        with np.errstate(over="ignore", invalid="ignore"):
            spread = np.minimum(wave[value], wave[other]) + told + self.pad
            slope = np.sinh(sway / 2) * np.sinh(spread / 2)
            # the second bound, o = sway and r = spread
            second = loss.max(axis=ends, keepdims=True) + np.log1p(slope)
        second[np.isnan(second) | np.isinf(sway)] = np.inf
        return np.asarray(np.minimum(first, second).max(axis=(2, 4)) + self.pad)

    def _oscillation(self, columns: Columns, ends: tuple[int, ...]) -> Array:
        """Return by how much ln of an answer's likelihood varies over z, whatever the answer.

        The axes ``ends`` of (target, C, R, C, R) hold z and are kept with length one.
        """
        weights = self._weights(columns)
        # (target, answer, left rows, right rows)
        likely = weights[0] @ (self.tables @ weights[1].T)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(likely) - np.log(self._priors(weights))[:, None]
        self.effort += 16 * likely.size
        rows = [side.weights.shape[1] for side in self.sides]
        shape = (len(columns[0]), rows[0], len(columns[1]), rows[1])
        logs = logs.reshape(*self.tables.shape[:2], *shape)  # (target, answer, C, R, C, R)
        axes = tuple(axis + 1 for axis in ends)
        for axis in axes:  # known records only
            logs = logs.take(range(len(self.tables)), axis=axis)
        logs = np.where(np.isfinite(logs), logs, np.nan)  # what cannot occur, or would underflow
        high = np.fmax.reduce(logs, axis=axes, keepdims=True)
        return np.asarray((high - np.fmin.reduce(logs, axis=axes, keepdims=True)).max(axis=1))


def _sum(loss: Array, shift: Array) -> Array:
    """Return loss + shift, inf wherever one of them is, else -inf where one of them is."""
    with np.errstate(invalid="ignore"):
        total = loss + shift
    return np.where(np.isposinf(loss) | np.isposinf(shift), np.inf, total)
