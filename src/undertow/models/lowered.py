"""Every chain as one law of hidden states: kernels, the symbol of each state, the start.

A chain of order m is a first-order chain of its last m records; regimes, dwell times and public
contexts are hidden states or phases by nature. `Model.lowered` gives the law; the bounds, the
auditor and the sampler of attacks read nothing else of a chain.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from undertow.numerics import Array

__all__ = ["LoweredLaw", "by_state"]


@dataclass(frozen=True, slots=True, eq=False)
class LoweredLaw:
    """Hidden states S_0, S_1, ... that form a chain, and the record that each of them shows.

    ``kernels`` (phases, m, m), row = from, lead from record t to record t + 1 by phase t modulo
    phases: one for a homogeneous chain, P for a cycle of public contexts, n - 1 for a series whose
    steps all differ. ``symbols[s]`` is the number of the record's state in hidden state s, and
    ``start`` the law of S_0.

    >>> law = LoweredLaw(np.array([[[.9, .1], [.1, .9]]]), np.arange(2), np.array([.5, .5]))
    >>> law.law(3).tolist(), law.size
    ([0.5, 0.5], 2)
    """

    kernels: Array
    symbols: npt.NDArray[np.intp]
    start: Array

    @property
    def size(self) -> int:
        """The number of hidden states."""
        return int(self.start.size)

    @property
    def states(self) -> int:
        """The number of states of a record."""
        return int(self.symbols.max()) + 1

    @property
    def phases(self) -> int:
        """The number of kernels, which take turns."""
        return len(self.kernels)

    @property
    def plain(self) -> bool:
        """Whether hidden states are the records' states themselves."""
        return self.size == self.states

    def kernel(self, record: int) -> Array:
        """Return the matrix that leads from a record to the next one."""
        matrix: Array = self.kernels[record % len(self.kernels)]
        return matrix

    def law(self, record: int) -> Array:
        """Return the law of the hidden state of a record."""
        if len(self.kernels) > 1:
            steps = map(self.kernel, range(record))
            return reduce(np.matmul, steps, self.start)
        return np.asarray(self.start @ np.linalg.matrix_power(self.kernels[0], record))

    def records(self, masses: Array) -> Array:
        """Return masses of hidden states, on the last axis, as those of the records' states.

        >>> law = LoweredLaw(np.full((1, 3, 3), 1 / 3), np.array([0, 1, 1]), np.ones(3) / 3)
        >>> law.records(np.array([[1.0, 2.0, 3.0]])).tolist()
        [[1.0, 5.0]]
        """
        return by_state(masses, self.symbols)

    def reversed(self) -> "LoweredLaw":
        """Return the law of the records 0 .. phases read backwards, and then of earlier cycles.

        R_t(s, z) = p_t(z) T_t(z, s) / p_{t+1}(s) with the marginals p_t from the start on. For one
        kernel with its stationary start, and for cycles that begin in their periodic law, it is the
        law of any number of records.

        >>> law = LoweredLaw(np.array([[[.9, .1], [.3, .7]]]), np.arange(2), np.array([.75, .25]))
        >>> law.reversed().kernels.round(6).tolist()
        [[[0.9, 0.1], [0.3, 0.7]]]
        """
        marginal, turned = self.start, []
        for kernel in self.kernels:
            after = marginal @ kernel
            joint = (marginal[:, None] * kernel).T  # (state of record t + 1, state of record t)
            turned.append(joint / np.where(after > 0, after, 1.0)[:, None])
            marginal = after
        return LoweredLaw(np.array(turned[::-1]), self.symbols, marginal)


def by_state(masses: Array, symbols: npt.NDArray[np.intp]) -> Array:
    """Return masses on hidden states added up by the state that each of them shows."""
    states = int(symbols.max()) + 1
    if (np.diff(symbols) < 0).any():  # hidden states of one state do not stand next to each other
        return np.asarray(masses @ (symbols[:, None] == np.arange(states)))
    if states == masses.shape[-1]:
        return masses
    firsts = np.searchsorted(symbols, np.arange(states))
    return np.asarray(np.add.reduceat(masses, firsts, axis=-1))
