"""Counts of endless series that never forget: which are unbounded, and which repeat themselves.

For |theta| <= 1 / b the noise makes E[exp(theta F)] a mixture of likelihoods of answers, because
the integral of exp(theta s - |s - F| / b) over s is a constant times exp(theta F). So if the count
leaks at most L in series of every length, then E[exp(theta F) | x] <= e^L E[exp(theta F) | x'] for
all lengths, on either side of the target and for whatever is known there: both must grow at the
same rate. On a side the rate is the largest spectral radius of P diag(exp(theta f)) over the
classes that lie between the target and the far end, over the same for theta = 0. Different rates
prove that no bound exists.
"""

import math

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.chains.known import Bools, support_cycle
from undertow.models.markov import MarkovChain
from undertow.numerics import ROUNDOFF, Array

__all__ = ["period_of_cycles", "unbounded_pair"]

_THETAS = (1.0, -1.0, 0.5, -0.5)
"""Tilts that are tried, in units of the inverse scale."""

_SLACK = 1e-12
"""Relative room left for the rounding of a product of rates (upper side)."""

LONGEST = 512
"""Longest round of a chain that repeats itself whose windows are all evaluated (cost)."""

_ROUNDS = 400
"""Steps of the power iteration behind a spectral radius; its bounds hold after any number."""


def unbounded_pair(
    scale: float, counted: Bools, chain: MarkovChain, against: Against = "any"
) -> tuple[int, int] | None:
    """Return two values of a record that a noisy count tells apart without bound, if it is proved.

    Of a homogeneous chain of any length, all of whose states are visited. None says nothing.

    >>> frozen = MarkovChain([[1, 0], [0, 1]], start=[.5, .5])
    >>> unbounded_pair(1.0, np.array([False, True]), frozen)
    (1, 0)
    """
    reach = _reached(chain.transition)  # (from, to)
    if reach.all():
        return None  # the same class lies ahead of and behind every value
    seen, _ = support_cycle(chain)
    met = (seen[:, :, None] & seen[:, None, :]).any(axis=0)  # (x, x'): possible at the same record
    every, begun = np.ones(chain.size, dtype=bool), chain.initial > 0
    # far ends of a side, and which states lie between them and the target: (class, target)
    sides = [(reach & every).T]
    if _aperiodic(chain.transition, reach):  # else rates depend on the remainder of the distance
        ends = [(begun, True)]
        if against == "any":
            ends += [(at, way) for at in np.eye(chain.size, dtype=bool) for way in (True, False)]
        for end, forward in ends:
            way = reach if forward else reach.T
            sides.append((end.astype(float) @ way > 0)[:, None] & way)
    plain = _radii(chain.transition, reach)
    for theta in _THETAS:
        # a factor common to all states changes no comparison
        tilt = np.exp((theta * counted - max(theta, 0.0)) / scale)
        tilted = _radii(chain.transition * tilt, reach)
        for between in sides:
            low, high, once, most = (
                np.where(between, radius[:, None], 0.0).max(axis=0) for radius in (*tilted, *plain)
            )  # (target,) each
            ok = met & (once > 0)[:, None] & (once > 0) & (most > 0)[:, None]
            for x, y in np.argwhere(ok):
                # rounded so that x grows faster for certain
                if low[x] * once[y] * (1 - _SLACK) > high[y] * most[x]:
                    return int(x), int(y)
    return None


def _aperiodic(transition: Array, reach: Bools) -> bool:
    """Return whether every class with a cycle can be crossed in any large number of steps."""
    together = reach & reach.T
    inside = np.where(together, transition, 0.0) > 0
    step = inside
    for _ in range(len(transition) ** 2):
        step = (step.astype(float) @ inside.astype(float)) > 0
    again = inside.any(axis=1)  # states that lie on a cycle
    return bool((step == together)[again].all())


def _reached(transition: Array) -> Bools:
    """Return which states can be reached from which, in any number of steps or none."""
    reach = (transition > 0) | np.eye(len(transition), dtype=bool)
    for _ in range(len(transition).bit_length()):
        reach = (reach.astype(float) @ reach.astype(float)) > 0
    return np.asarray(reach)


def _radii(matrix: Array, reach: Bools) -> tuple[Array, Array]:
    """Return bounds of the spectral radius of the class of every state, (k,) each.

    min and max of (A v)_i / v_i enclose the radius of a non-negative irreducible A for any v > 0.
    """
    low, high = np.zeros(len(matrix)), np.zeros(len(matrix))
    together = reach & reach.T  # (k, k): states of the same class
    for first in range(len(matrix)):
        members = np.flatnonzero(together[first])
        part = matrix[np.ix_(members, members)]
        vector = np.ones(len(members))
        for _ in range(_ROUNDS):  # half a step in place, so that periods die out
            vector = vector + part @ vector
            vector = vector / vector.max()
        ratio = (part @ vector) / np.maximum(vector, np.finfo(float).tiny)
        slack = 8 * (len(members) + 8) * ROUNDOFF
        low[first], high[first] = ratio.min() * (1 - slack), ratio.max() * (1 + slack)
    return low, high


def period_of_cycles(chain: MarkovChain, counted: Bools) -> int | None:
    """Return after how many records every series repeats itself, None if one need not.

    None, too, where the counts of a round depend on where it begins: then they drift apart.

    >>> chain = MarkovChain(np.kron(np.eye(2), [[0, 1], [1, 0]]), start=[.25] * 4)
    >>> period_of_cycles(chain, np.array([True, False, True, False]))
    2
    >>> period_of_cycles(chain, np.array([True, False, False, False]))
    """
    if not chain.homogeneous or not np.isin(chain.transition, (0.0, 1.0)).all():
        return None
    follow = chain.transition.argmax(axis=1)
    if len(set(follow.tolist())) < chain.size:
        return None
    lengths = []
    for first in range(chain.size):
        state, steps = int(follow[first]), 1
        while state != first:
            state, steps = int(follow[state]), steps + 1
        lengths.append(steps)
    period, place = math.lcm(*lengths), np.arange(chain.size)
    if period > LONGEST:
        return None
    total = np.zeros(chain.size, dtype=np.int64)  # the count of one round, from each state
    for _ in range(period):
        total, place = total + counted[place], follow[place]
    return period if len(set(total.tolist())) == 1 else None
