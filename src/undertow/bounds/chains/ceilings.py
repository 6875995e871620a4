"""What all epsilon-DP algorithms leak on a chain at most, without a search for the worst attack.

The number of records and contraction cost next to nothing (`undertow.bounds.chains.contraction`).
Where the pairs of states are few enough, ceilings of their gains (`undertow.bounds.chains.survey`)
come much closer: on a coarse grid above a floor, a part of what contraction leaves to a side, and
once more on a finer grid. Each is a proof by itself.
"""

import math

import numpy as np

from undertow import progress
from undertow.bounds.chains.contraction import block_upper
from undertow.bounds.chains.known import ordered_pairs
from undertow.bounds.chains.screening import screenable
from undertow.bounds.chains.survey import Ask, ceilings
from undertow.errors import EffortSpent
from undertow.models.markov import MarkovChain
from undertow.numerics import up

__all__ = ["ceiling_of_all"]

_FLOORS = (0.35, 0.5, 0.7, 0.85)
"""Floors, as parts of the gain that is known to bound a side, until one gives a finite ceiling."""

_AGAIN = 0.8
"""The floor, as a part of that ceiling, above which a finer grid looks once more."""

_COARSE, _FINE = 8.0, 24.0
"""Points of the two grids over a gain (cost)."""

_WORK = 4e4
"""Work that the ceilings may take, in units of some 30 microseconds (`undertow.progress`)."""


def ceiling_of_all(chain: MarkovChain, epsilon: float, window: int = 1) -> float:
    """Return a bound on what all epsilon-DP algorithms leak about a window of records of a chain.

    It holds against everybody, at every length. ``chain`` has no state that is never visited.

    >>> chain = MarkovChain([[.9, .1, 0], [.1, .8, .1], [0, .1, .9]])
    >>> 1.0 <= ceiling_of_all(chain, 0.1) <= block_upper(0.1, chain)
    True
    """
    own = up(window * epsilon)
    upper = math.inf if chain.length is None else up(chain.length * epsilon)
    if not chain.homogeneous:
        return upper
    upper = min(upper, block_upper(epsilon, chain, window))
    if math.isinf(upper) or not screenable(chain):
        return upper
    # multiplications of a few steps: where even these are too many nothing is begun
    if 5 * _COARSE * chain.size**4 / 3e4 > _WORK:
        return upper
    try:
        with progress.overtime(_WORK):
            for floor in _FLOORS:
                found = _surveyed(chain, epsilon, window, (upper - own) / 2, floor, _COARSE)
                if math.isfinite(found):
                    upper = min(upper, up(own + found, 4))
                    found = _surveyed(chain, epsilon, window, (upper - own) / 2, _AGAIN, _FINE)
                    return min(upper, up(own + found, 4))
    except EffortSpent:
        pass
    return upper


def _surveyed(
    chain: MarkovChain, epsilon: float, window: int, most: float, floor: float, points: float
) -> float:
    """Return a ceiling of what both sides gain; ``most`` is what one is known to gain at most."""
    value, other = ordered_pairs(chain.size)
    each = np.full(len(value), floor * most)
    open_left = None if isinstance(chain.start, str) else chain.initial
    sides = ((chain.transition.T.copy(), open_left), (chain.transition, None))
    left, right = (
        ceilings(Ask(kernel, far, value, other, epsilon, each, most / points, most))[0]
        for kernel, far in sides
    )
    # of a window each side has its own worst pair
    return float((left + right).max() if window == 1 else left.max() + right.max())
