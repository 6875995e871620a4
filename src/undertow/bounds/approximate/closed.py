"""The closed exchange: (epsilon, delta)-DP on any model whose pure exchange rate is bounded.

Theorem 1 (docs, theory of approximate guarantees). Let l bound the leakage of all e-DP algorithms
against an adversary. An (e, d)-DP algorithm leaks at most (l, d (e^l - 1) / (e^e - 1)) to it: with
c = d / (e^e - 1) the function Pr[S | x] + c changes by a factor of at most e^e per replaced record,
so the pure theorem applies to it. With m records tied together (l = m e) it is group privacy.

The formula grows with l, so every upper end of l serves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from undertow.curves import Curve
from undertow.errors import NotSupported
from undertow.numerics import ROUNDOFF, down, up

__all__ = [
    "Exchanged",
    "Rate",
    "closed_delta",
    "closed_epsilon",
    "largest_parameter",
    "pure_budget_delta",
]

Rate = Callable[[float], float]
"""The upper end of what all algorithms of a DP level leak."""

_TIGHT = 1e-12
"""Relative width at which the search for the level ends (upper side)."""

_BEYOND = 1e6
"""Level of a guarantee beyond which none is looked for (upper side)."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A leakage ``epsilon`` at ``delta``, exchanged at the level ``level`` of the guarantee."""

    epsilon: float
    delta: float
    level: float


def closed_delta(delta: float, level: float, leakage: float) -> float:
    """Return d (e^l - 1) / (e^e - 1), rounded up: Theorem 1.

    >>> round(closed_delta(1e-6, 1.0, 3.4748733768) * 1e5, 8)
    1.82122273
    """
    if not delta or not leakage:
        return 0.0
    if math.isinf(leakage):
        return math.inf
    # e^l - 1 = e^l (1 - e^-l), in logarithms, because e^l may be no float
    terms = (leakage, math.log(-math.expm1(-leakage)), -level, -math.log(-math.expm1(-level)))
    exponent = sum(terms) + 8 * ROUNDOFF * (1 + sum(map(abs, terms)))
    if math.log(delta) + exponent > 0:
        return math.inf  # more than any probability: nothing is said
    return up(delta * math.exp(exponent), 8)


def closed_epsilon(curve: Curve, rate: Rate, delta: float) -> Exchanged:
    """Return the least leakage that Theorem 1 proves at ``delta`` for a guarantee of this curve.

    Every level e gives the true pair (l(e), d(e) (e^l - 1) / (e^e - 1)). A list of pairs is tried
    at each of them; along a smooth curve the delta falls with e, and the least e that keeps
    ``delta`` is searched. A handful of pure leakages.

    >>> from undertow.curves import PointCurve
    >>> found = closed_epsilon(PointCurve(((1.0, 1e-6),)), lambda e: 2 * e, 4e-6)
    >>> found.epsilon, round(found.delta * 1e6, 6)
    (2.0, 3.718282)
    """

    def at(level: float) -> Exchanged:
        leak = rate(level)
        return Exchanged(leak, closed_delta(curve.delta(level), level, leak), level)

    corners = curve.corners()
    if corners:
        kept = [found for found in map(at, corners) if found.delta <= delta]
        if kept:
            return min(kept, key=lambda found: found.epsilon)
        return Exchanged(math.inf, delta, corners[-1])
    return _least(at, curve.epsilon(delta), delta)


def _least(at: Callable[[float], Exchanged], start: float, delta: float) -> Exchanged:
    """Return the exchange at the least level that keeps ``delta``; ``start`` keeps it alone."""
    if math.isinf(start):
        return Exchanged(math.inf, delta, start)
    high = max(start, 1e-12)
    found = at(high)
    low = high / 2
    while found.delta > delta and math.isfinite(found.epsilon) and high < _BEYOND:
        low, high = high, 1.5 * high
        found = at(high)
    if found.delta > delta or math.isinf(found.epsilon):
        return Exchanged(math.inf, delta, high)
    below, above = at(low), found
    if below.delta <= delta:
        return below
    for turn in range(200):
        if high - low <= _TIGHT * high:
            break
        level = _between(low, high, below.delta, above.delta, delta, turn)
        tried = at(level)
        if tried.delta <= delta:
            high, above = level, tried
        else:
            low, below = level, tried
    return above


def _between(low: float, high: float, top: float, bottom: float, delta: float, turn: int) -> float:
    """Return the next level: on the chord of ln delta, a little to the safe side, or halfway."""
    middle = (low + high) / 2
    if turn % 3 == 2 or not 0 < bottom < top < math.inf:
        return middle
    share = (math.log(top) - math.log(delta)) / (math.log(top) - math.log(bottom))
    aside = 0.4 * _TIGHT * high * (-1 if turn % 2 else 1)
    level = low + share * (high - low) + aside
    return level if low < level < high else middle


def pure_budget_delta(limit: float, delta: float, budget: float) -> float:
    """Return d0 = delta (e^beta - 1) / (e^limit - 1), rounded down.

    With beta the largest level that leaks at most ``limit``, every (beta, d0)-DP algorithm leaks at
    most (limit, delta).

    >>> round(pure_budget_delta(1.0, 1e-6, .25032578764) * 1e7, 8)
    1.65539669
    """
    if budget >= limit:  # independent records, or none that can leak
        return delta
    if budget <= 0:
        raise NotSupported("no positive DP level keeps this limit, so no delta does")
    return down(delta * math.expm1(budget) / math.expm1(limit), 32) if limit < 700 else 0.0


def largest_parameter(curve: Callable[[float], Curve], level: float, delta: float) -> float:
    """Return the largest parameter whose curve keeps ``delta`` at a level, rounded down.

    The curves grow with the parameter (mu of GDP, rho of zCDP).

    >>> from undertow.curves import GaussianCurve
    >>> round(1 / largest_parameter(GaussianCurve, 1.0, 1e-6), 6)
    4.224679
    """
    low, high = 0.0, level
    while curve(high).delta(level) <= delta:
        low, high = high, 2 * high
        if high > 1e6:
            return high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if curve(middle).delta(level) <= delta else (low, middle)
    return low
