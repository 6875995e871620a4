"""Every chain as one of hidden states: what passes forth and back through it need to know.

A chain of order m is a first-order chain of its last m records; regimes and dwell times are hidden
states by nature. `Model.hidden_law` says it of each model, and those who draw from a model or
attack it ask for no more.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from undertow.numerics import Array

__all__ = ["HiddenLaw"]


@dataclass(frozen=True, slots=True, eq=False)
class HiddenLaw:
    """Hidden states S_0, S_1, ... that form a chain, and the record that each of them shows.

    ``start`` is the law of S_0, ``steps`` has one transition matrix or one for each step, shape
    (1 or n - 1, m, m); ``owner[s]`` is the number of the record's state, in rising order, so that
    hidden states of one state stand next to each other.

    >>> law = HiddenLaw(np.array([.5, .5]), np.array([[[.9, .1], [.1, .9]]]), np.arange(2))
    >>> law.law(3).tolist(), law.size
    ([0.5, 0.5], 2)
    """

    start: Array
    steps: Array
    owner: npt.NDArray[np.intp]

    @property
    def size(self) -> int:
        """The number of hidden states."""
        return int(self.start.size)

    @property
    def plain(self) -> bool:
        """Whether hidden states are the records' states themselves."""
        return self.size == int(self.owner[-1]) + 1

    def step(self, record: int) -> Array:
        """Return the matrix that leads from a record to the next one."""
        found: Array = self.steps[record if len(self.steps) > 1 else 0]
        return found

    def law(self, record: int) -> Array:
        """Return the law of the hidden state of a record."""
        if len(self.steps) > 1:
            return reduce(np.matmul, self.steps[:record], self.start)
        return np.asarray(self.start @ np.linalg.matrix_power(self.steps[0], record))

    def records(self, masses: Array) -> Array:
        """Return masses of hidden states, on the last axis, as those of the records' states.

        >>> law = HiddenLaw(np.ones(3) / 3, np.full((1, 3, 3), 1 / 3), np.array([0, 1, 1]))
        >>> law.records(np.array([[1.0, 2.0, 3.0]])).tolist()
        [[1.0, 5.0]]
        """
        return by_state(masses, self.owner)


def by_state(masses: Array, owner: npt.NDArray[np.intp]) -> Array:
    """Return masses on hidden states added up by the state that each of them shows."""
    states = int(owner[-1]) + 1
    if states == masses.shape[-1]:
        return masses
    firsts = np.searchsorted(owner, np.arange(states))
    return np.asarray(np.add.reduceat(masses, firsts, axis=-1))
