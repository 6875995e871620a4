"""Open sides of unbounded length: nothing known, arbitrarily many records follow.

The gain of an open side grows with its length towards a limit. From below, the limit is
approached by finite sides. From above, a rounded-up sweep at mu whose c is nowhere positive
after some step stays so for ever (the sweep is monotone), which caps the gain of every length.
"""

import math

import numpy as np

from undertow.bounds.chains.rays import Bools, Ints, Rays
from undertow.bounds.chains.sweep import finite_gain, upper_values
from undertow.models.markov import MarkovChain
from undertow.models.stationary import reachable
from undertow.numerics import Array

__all__ = ["capped", "diverging", "open_gains"]

_LONGEST = 65_536
"""Steps after which a sweep that still has both signs is given up (cost)."""


def open_gains(
    rays: Rays, ray: Ints, value: Ints, other: Ints, epsilon: float, steps: int, start: Array
) -> Array:
    """Return the gains of N open sides of ``steps`` records, from below; ``start`` are reached."""
    prior = _prior(rays, ray, value, other)
    return finite_gain(rays, ray, value, other, epsilon, steps, start + prior) - prior


def capped(rays: Rays, ray: Ints, value: Ints, other: Ints, epsilon: float, gain: Array) -> Bools:
    """Return for which of N open sides no length gains more than ``gain``, certified."""
    prior = _prior(rays, ray, value, other)
    trial = gain + prior - 1e-14 * (1 + np.abs(prior) + np.abs(gain))
    return _settles(rays, ray, value, other, trial, epsilon)


def diverging(chain: MarkovChain, epsilon: float) -> Bools:
    """Return for which pairs (value, other) an open right side gains without bound, (k, k).

    It does if the states possible after ``value`` and after ``other`` stay disjoint (mark the
    former: every record adds epsilon), or if among the states that ``other`` never reaches the
    chain lingers long enough after ``value``: spectral radius times e^epsilon above 1.

    >>> diverging(MarkovChain([[0, 1], [1, 0]]), 0.1)
    array([[False,  True],
           [ True, False]])
    >>> diverging(MarkovChain([[.9, .1], [.2, .8]]), 5.0).any()
    np.False_
    """
    size = chain.size
    apart = np.zeros((size, size), dtype=bool)
    arrows = chain.transition > 0
    if arrows.all():
        return apart
    far, steps = arrows, 1
    while steps < size**2:  # supports of P^steps, by squaring; once joined they stay joined
        far, steps = (far.astype(float) @ far.astype(float)) > 0, 2 * steps
    apart = (far.astype(float) @ far.T.astype(float)) == 0
    reach = reachable(chain.transition)
    for value, other in zip(*np.nonzero(~apart), strict=True):
        alone = np.flatnonzero(reach[value] & ~reach[other])
        if alone.size:
            radius = np.abs(np.linalg.eigvals(chain.transition[np.ix_(alone, alone)])).max()
            apart[value, other] = radius * math.exp(min(epsilon, 700.0)) > 1 + 1e-9
    return np.asarray(apart)


def _prior(rays: Rays, ray: Ints, value: Ints, other: Ints) -> Array:
    """Return ln of the ratio of the open masses, the same at every length."""
    masses = np.einsum("nkv,nv->nk", rays.products[1][ray], rays.weights[ray])
    row = np.arange(len(ray))
    return np.asarray(np.log(masses[row, value]) - np.log(masses[row, other]))


def _settles(
    rays: Rays, ray: Ints, value: Ints, other: Ints, logmu: Array, epsilon: float
) -> Bools:
    """Return for which problems the rounded-up sweep at mu is nowhere positive at some step."""
    result = np.zeros(len(ray), dtype=bool)
    active = np.arange(len(ray))
    limit = 16
    while active.size and limit <= _LONGEST:
        mu = np.exp(np.minimum(logmu[active], 700.0))[:, None]
        sweep = upper_values(rays, ray[active], value[active], other[active], mu, epsilon, limit)
        for values in sweep:
            signed = values[:, 0, :-1]
        settled = (signed <= 0).all(axis=1)
        hopeless = (signed >= 0).all(axis=1) & ~settled
        result[active[settled]] = True
        active = active[~settled & ~hopeless]
        limit *= 4
    return result
