"""The lattice of an answer on a network, and its smoothing by Laplace noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from undertow.numerics import Array, log_sum

__all__ = ["AnswerLattice", "Ints", "count_tally", "histogram_tally"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AnswerLattice:
    """The lattice of an answer: what each state adds to it, and the outputs worth looking at.

    Answers are numbered along one axis; a record with state v moves the number up by
    ``offsets[v]``. ``points[c]`` is the answer with number c. ``outputs`` are the outputs worth
    looking at and those one step beside them; ``seen[v]`` are the places among them where the
    unknown records' answer must be read so that the target's own value v is included, for each of
    the outputs worth looking at. ``corners`` are those beyond all answers on every side, whose
    likelihood is a product over records.
    """

    offsets: tuple[int, ...]
    points: Ints
    outputs: Ints
    seen: Ints
    corners: Ints

    @property
    def deepest(self) -> int:
        """The largest distance between an output and an answer."""
        apart = np.abs(self.outputs[:, None, :] - self.points[None, :, :]).sum(axis=2)
        return int(apart.max())

    def smooth(self, table: Array, rate: float, logs: bool) -> Array:
        """Return sum_c table[:, c] exp(-rate |s - c|) for every output s, along axis 1.

        With ``logs`` both are logarithms.
        """
        if self.points.shape[1] == 1:
            return _smooth_count(table, rate, logs)
        apart = np.abs(self.outputs[:, None, :] - self.points[None, :, :]).sum(axis=2)
        noise = -rate * apart  # (outputs, answers)
        flat = table.reshape(*table.shape[:2], -1)  # (layers, answers, cases)
        if logs:
            rows = [log_sum(flat + row[:, None], axis=1) for row in noise]
            smooth = np.stack(rows, axis=1)  # (layers, outputs, cases)
        else:
            smooth = np.exp(noise) @ flat  # (layers, outputs, cases)
        return smooth.reshape(table.shape[0], len(noise), *table.shape[2:])


def _smooth_count(table: Array, rate: float, logs: bool) -> Array:
    """Return the noisy law of a count at -1 .. n: what rises from below and falls from above."""
    length = table.shape[1]
    total = np.empty((table.shape[0], length + 1, *table.shape[2:]))  # (layers, outputs, cases ...)
    weight = math.exp(-rate)
    add: np.ufunc = np.logaddexp if logs else np.add

    def farther(law: Array) -> Array:
        return law - rate if logs else law * weight

    below: Array = table[:, 0]
    total[:, 1] = below
    for count in range(1, length):  # from below
        below = add(table[:, count], farther(below))
        total[:, count + 1] = below
    above: Array = table[:, -1]
    for count in range(length - 2, -1, -1):  # from above
        moved = farther(above)
        add(total[:, count + 1], moved, out=total[:, count + 1])
        above = add(table[:, count], moved)
    total[:, 0] = farther(above)
    return total


def count_tally(counted: Sequence[bool], records: int) -> AnswerLattice:
    """Return the lattice of a count over some records.

    >>> count_tally([False, True], 2).outputs.ravel()
    array([-1,  0,  1,  2])
    """
    offsets = tuple(int(mark) for mark in counted)
    points = np.arange(records + 1, dtype=np.int64)
    outputs = np.arange(-1, records + 1, dtype=np.int64)
    # (states, outputs): output 0 stands at 1
    seen = np.array([points + 1 - offset for offset in offsets])
    corners = np.array([0, records], dtype=np.int64)
    return AnswerLattice(offsets, points[:, None], outputs[:, None], seen, corners)


def histogram_tally(states: int, records: int) -> AnswerLattice:
    """Return the lattice of a histogram; its last bin counts down from what is unknown.

    How many records are unknown is the same under both values of a target, so the last bin may be
    counted from there.

    >>> histogram_tally(2, 1).points.tolist()
    [[0, 0], [1, -1]]
    """
    base = records + 1
    # (answers, states - 1): counts of all bins but the last
    digits = np.array(list(product(range(base), repeat=states - 1)), dtype=np.int64)
    points = np.hstack([digits, -digits.sum(axis=1, keepdims=True)])  # (answers, states)
    moves = np.zeros((states, states), dtype=np.int64)
    for state in range(states - 1):
        moves[state, state], moves[state, -1] = 1, -1
    offsets = [base ** (states - 2 - state) for state in range(states - 1)]  # digits of the number
    wide = [range(-1, base)] * (states - 1) + [range(-records, 2)]
    outputs = np.array(list(product(*wide)), dtype=np.int64)  # (outputs, states), one step wider
    where = {tuple(output): place for place, output in enumerate(outputs.tolist())}
    inner = [range(base)] * (states - 1) + [range(-records, 1)]
    listed = np.array(list(product(*inner)), dtype=np.int64)  # those worth looking at
    seen = [[where[tuple(row)] for row in (listed - move).tolist()] for move in moves]
    ends = np.array([(0, records)] * (states - 1) + [(-records, 0)], dtype=np.int64)
    # every bin at one of its two ends
    corner = ((listed == ends[:, 0]) | (listed == ends[:, 1])).all(axis=1)
    return AnswerLattice((*offsets, 0), points, outputs, np.array(seen), np.flatnonzero(corner))
