"""Correlated flips: the noise chain with the fewest flips, where one party holds the series.

A noise chain has two numbers: its flip rate f = rho0 / (rho0 + rho1), and how fast it forgets,
s = rho0 + rho1 (1: independent flips; below: runs of flips). Both states are flipped at the rate
f, so the fewest flips are also the most information.
"""

import math
from collections.abc import Callable

from undertow.certificate import Leakage
from undertow.channels import XorNoise
from undertow.models.sets import AnyModel
from undertow.numerics import GRAIN
from undertow.planning.budget import PRECISE, Search
from undertow.planning.flips import largest_ratio, least_within

__all__ = ["least_xor_noise", "xor_noise"]

_BELOW = (0.8, 0.63, 0.5, 0.4, 0.31, 0.24, 0.18, 0.13, 0.09, 0.06, 0.04)
_ABOVE = (1.2, 1.5, 1.8)
"""Sums rho0 + rho1 compared one after the other, away from 1 and while they get better."""

_COARSE, _FINE = 1e-3, 1e-8
"""Relative precision of levels compared on the way, and in the refinement (either side)."""

_CLOSE = 1e-5
"""How near to the best sum the refinement stops (either side)."""

_TINY = 1e-6
"""A sum that does not keep the guarantee at this level is passed over."""

_WORTH = 1e-7
"""Relative gain in the level below which independent flips are preferred to correlated ones."""


def xor_noise(level: float, total: float) -> XorNoise:
    """Return the noise with ln (1 - f) / f = level and rho0 + rho1 = total, in whole grains.

    >>> xor_noise(math.log(3), 0.5)
    XorNoise(rho0=0.125, rho1=0.375)
    """
    rate = 1 / (1 + math.exp(level))
    rho0 = max(1, math.ceil(rate * total / GRAIN)) * GRAIN
    rho1 = min(1.0, math.floor((1 - rate) * total / GRAIN) * GRAIN)
    return XorNoise(rho0, max(rho1, GRAIN))


def least_xor_noise(
    oracle: Callable[[XorNoise], Leakage], model: AnyModel, limit: float
) -> tuple[float, float]:
    """Return level and sum of the noise with the fewest flips, by search.

    For each sum the largest level that leaks at most limit. Sums are compared from 1 outwards,
    and the best of them is refined; nothing proves that no better sum lies elsewhere. (0, 1),
    independent flips of one half, if nothing informative keeps the guarantee.

    >>> from undertow.bounds.engine import leakage
    >>> from undertow.models.markov import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=6)
    >>> level, total = least_xor_noise(lambda noise: leakage(noise, chain), chain, 4.0)
    >>> xor_noise(level, total).flip_rate < 0.26, total < 1
    (True, True)
    """
    near: float | None = None

    def level(total: float, precision: float) -> float:
        nonlocal near

        def measure(wanted: float) -> Leakage:
            return oracle(xor_noise(wanted, total))

        most = math.inf if total <= 1 else -math.log(total - 1)  # beyond it rho1 would exceed 1
        if precision == _COARSE and not measure(min(_TINY, most)).proves(limit):
            return 0.0
        found = largest_ratio(measure, model, limit, Search(precision), near)
        near = found or near
        return min(found, most)

    plain = level(1.0, PRECISE.precision)
    found = {1.0: plain}
    for side in (_BELOW, _ABOVE):
        last = plain
        for total in side:
            found[total] = level(total, _COARSE)
            if found[total] < last * (1 - 2 * _COARSE):
                break
            last = found[total]
    best = max(found, key=lambda total: found[total])
    below = max((total for total in found if total < best), default=best)
    above = min((total for total in found if total > best), default=best)
    total = least_within(lambda total: -level(total, _FINE), (below, above), _CLOSE)
    most = level(total, PRECISE.precision)
    return (most, total) if most > plain * (1 + _WORTH) else (plain, 1.0)
