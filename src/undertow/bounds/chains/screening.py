"""Which pairs of values can matter: a ranking that proposes, and ceilings that dismiss.

On a chain of many states almost all pairs leak far less than the worst one. What a likely worst
pair attains is found first; then the ceilings of all others (`undertow.bounds.chains.survey`) on a
coarse grid dismiss most of them, on finer ones most of the rest. What is left is closed exactly.
"""

from dataclasses import dataclass

import numpy as np

from undertow.bounds.chains.known import Ints, far_supports, ordered_pairs
from undertow.bounds.chains.survey import Ask, ceilings
from undertow.models.markov import MarkovChain
from undertow.numerics import Array
from undertow.progress import spend

__all__ = ["STAGES", "Goal", "leading_pairs", "screenable", "undismissed"]

STAGES = 4
"""Grids on which pairs are tried, each four times as fine as the one before (cost)."""

_SPACING = 12.0
"""Part of what is to be reached that the coarsest grid has between two points."""

_LEAST = 0.1
"""Least distance of two points of the coarsest grid: at small levels chords are nearly exact."""

_FLOOR = 0.4
"""Part of what is to be reached by two sides that one may have without anybody asking."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What some pair attains on both sides, ``each`` and together; ``alone``: by the same pair.

    ``proved`` is the least that can be said of all pairs anyway, where an end was left open.
    """

    each: tuple[float, float]
    alone: bool
    proved: float = 0.0

    def floor(self, side: int, rest: Array) -> Array:
        """Return gains of a side that leave room to dismiss a pair; ``rest``: of the other side."""
        if self.alone:
            spare = sum(self.each) - np.maximum(rest, 0.0)
            return np.clip(0.9 * spare, 0.0, _FLOOR * sum(self.each))
        return np.full(len(rest), 2 * _FLOOR * self.each[side])

    def beyond(self, left: Array, right: Array) -> Array:
        """Return by how much pairs with such ceilings could exceed what is known, rounded up."""
        if self.alone:
            return np.asarray((left + right) * (1 + 1e-15) - max(sum(self.each), self.proved))
        return np.maximum(left - self.each[0], right - self.each[1])


def screenable(chain: MarkovChain) -> bool:
    """Return whether all states lead everywhere in the same number of steps: ceilings are finite.

    >>> screenable(MarkovChain([[0, 1], [1, 0]])), screenable(MarkovChain([[.5, .5], [1, 0]]))
    (False, True)
    """
    return bool(far_supports(chain.transition).all())


def leading_pairs(chain: MarkovChain) -> Ints:
    """Return all ordered pairs, those first from which the chain is longest told apart.

    By the sum over distances of the total variation between the laws given either value, on both
    sides: what a pair gains at small levels, up to a factor, with nothing known. A proposal.

    >>> chain = MarkovChain([[.9, .1, 0], [.1, .8, .1], [0, .1, .9]])
    >>> [(int(x), int(y)) for x, y in zip(*ordered_pairs(3))][leading_pairs(chain)[0]]
    (0, 2)
    """
    value, other = ordered_pairs(chain.size)
    law = chain.initial
    back = chain.transition.T * law[None, :] / np.maximum(law, 1e-300)[:, None]
    back /= np.maximum(back.sum(axis=1, keepdims=True), 1e-300)
    total = np.zeros(len(value))
    for step in (back, chain.transition):
        spend(28 * len(value) * chain.size + 14 * chain.size**3, 14)
        power, length = step, 1.0
        for _ in range(14):  # distances 1, 2, 4, ...; each stands for as many as it counts
            apart = np.zeros(len(value))
            for state in power.T:  # one column at a time: (P,) instead of (P, k)
                apart += np.abs(state[value] - state[other])
            total += length * apart
            power, length = power @ power, 2 * length
    return np.asarray(np.argsort(-total, kind="stable"))


def undismissed(
    chain: MarkovChain, epsilon: float, pairs: Ints, goal: Goal, stage: int
) -> tuple[Ints, Array, Array]:
    """Return the pairs that could exceed a goal, their ceilings and hints, each (sides, pairs).

    A hint is what one side of a pair gains at least, up to rounding; -inf for none.
    """
    value, other = ordered_pairs(chain.size)
    most = max(sum(goal.each), epsilon)
    upper, hint = np.full((2, len(pairs)), np.inf), np.full((2, len(pairs)), -np.inf)
    here, rest = np.arange(len(pairs)), np.zeros(len(pairs))
    open_left = None if isinstance(chain.start, str) else chain.initial
    for side, kernel in enumerate((np.ascontiguousarray(chain.transition.T), chain.transition)):
        ask = Ask(
            kernel, None if side else open_left, value[pairs[here]], other[pairs[here]], epsilon,
            goal.floor(side, rest[here]), max(most / _SPACING, _LEAST) / 4**stage, most,
        )  # fmt: skip
        upper[side, here], hint[side, here] = ceilings(ask)
        if not side:  # pairs whose left side alone could exceed the goal are not dismissed anyway
            rest = upper[0]
            here = np.flatnonzero(goal.beyond(rest, np.zeros(len(pairs))) <= 0)
    better = goal.alone & (hint.sum(axis=0) > sum(goal.each))  # a worse attack, most likely
    left = np.flatnonzero(~(goal.beyond(upper[0], upper[1]) <= 0) | better)
    return pairs[left], upper[:, left], hint[:, left]
