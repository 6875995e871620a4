"""Privacy curves: the least delta of a guarantee for each epsilon, for one replaced record.

An algorithm is (epsilon, delta)-DP if Pr[S | x] <= e^epsilon Pr[S | x'] + delta for every set S of
outputs and all x, x' that differ in one record. Pure DP is the curve that is 0 from its epsilon on.
Every curve is rounded up: a delta that is returned is one that the guarantee implies.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from undertow.errors import InvalidInput
from undertow.numerics import (
    LEAST_DELTA,
    LOG_NDTR,
    ROUNDOFF,
    check_epsilon,
    check_number,
    check_positive,
    down,
    exp,
    up,
)

__all__ = [
    "ConcentratedCurve",
    "Curve",
    "DiscreteGaussianCurve",
    "GaussianCurve",
    "GivenCurve",
    "LargestCurve",
    "PointCurve",
    "ReplacedCurve",
    "ShiftedCurve",
    "check_delta",
]

_TIGHT = 1e-13
"""Relative width at which the search for a level ends (upper side)."""

_LEAST = 1e-300
"""Least delta of a curve that is never 0: below it floats lose their digits (upper side)."""

_MOST_ORDER = 1e100
"""Largest order of a Renyi divergence that is tried: any order gives a true delta."""

_BEYOND = 1e6
"""A level that nobody calls private: the search for one ends there."""


def check_delta(delta: float, *, zero: bool = True) -> float:
    """Return ``delta`` as a float if it is a probability below 1 (``zero``: 0 is one).

    >>> check_delta(1e-6)
    1e-06
    """
    number = check_number(delta, "delta")
    if zero and number == 0:
        return 0.0
    check_positive(number, "delta")
    if number < LEAST_DELTA:
        raise InvalidInput(f"delta must be 0 or at least {LEAST_DELTA:g}, found {number:g}")
    if number >= 1:
        raise InvalidInput(
            f"delta must be below 1, found {number:g}; take one far below 1 / (number of records)"
        )
    return number


def _level(epsilon: float) -> float:
    """Return the level of a pair, which may be 0."""
    return 0.0 if check_number(epsilon, "epsilon") == 0 else check_epsilon(epsilon)


class Curve:
    """The least delta of a guarantee for each epsilon >= 0, rounded up."""

    __slots__ = ()

    def delta(self, epsilon: float) -> float:
        """Return a delta with which the guarantee is (epsilon, delta)-DP, rounded up."""
        raise NotImplementedError

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon (rounded up) at which the guarantee keeps ``delta``.

        inf if it keeps it nowhere. Bisection: the curve falls.

        >>> round(PointCurve(((1.0, 1e-6),)).epsilon(1e-6), 9)
        1.0
        """
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > _BEYOND:
                return math.inf
        while high - low > _TIGHT * high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def corners(self) -> tuple[float, ...]:
        """Return the levels of a list of pairs, () for a smooth curve."""
        return ()

    def after(self, level: float) -> "Curve":
        """Return the curve of this guarantee together with algorithms of a pure DP level."""
        return ShiftedCurve(self, level) if level else self


@dataclass(frozen=True, slots=True)
class PointCurve(Curve):
    """Several (epsilon, delta) at once, as an accountant's profile lists them.

    Below the epsilon of a pair its delta grows to what the pair and its complement leave open:
    d + (e^e_j - e^e) (1 - d) / (1 + e^e_j).

    >>> PointCurve(((1.0, 0.0),)).delta(1.0)
    0.0
    """

    pairs: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        """Check and sort the pairs."""
        if not self.pairs:
            raise InvalidInput("a profile needs at least one pair (epsilon, delta), found none")
        checked = [(_level(epsilon), check_delta(delta)) for epsilon, delta in self.pairs]
        object.__setattr__(self, "pairs", tuple(sorted(checked)))

    def delta(self, epsilon: float) -> float:
        """Return the least delta of any pair at this epsilon."""
        return min(self._one(level, delta, epsilon) for level, delta in self.pairs)

    def corners(self) -> tuple[float, ...]:
        """Return the levels of the pairs that are above 0."""
        return tuple(level for level, _ in self.pairs if level)

    @staticmethod
    def _one(level: float, delta: float, epsilon: float) -> float:
        if level <= epsilon:
            return delta
        # e^level - e^epsilon over 1 + e^level, in numbers that do not overflow
        gap = -math.expm1(epsilon - level) / (1 + math.exp(-level))
        return min(1.0, up(delta + gap * (1 - delta), 16))


@dataclass(frozen=True, slots=True)
class GaussianCurve(Curve):
    """Curve of mu-GDP: distinguishing N(0, 1) from N(mu, 1) [dong2022].

    delta(e) = Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu) [balle2018], in logarithms, whose error is
    added.

    >>> round(GaussianCurve(1 / 4.22467889).delta(1.0) * 1e6, 6)
    1.0
    """

    mu: float

    def __post_init__(self) -> None:
        """Check the parameter."""
        object.__setattr__(self, "mu", check_positive(self.mu, "mu"))

    def delta(self, epsilon: float) -> float:
        """Return the difference of two normal tails, rounded up."""
        from scipy.special import log_ndtr

        ratio = epsilon / self.mu
        hit, alarm = (float(log_ndtr(s * self.mu / 2 - ratio)) for s in (1, -1))
        return _difference(hit, alarm, epsilon)


def _difference(
    hit: float, alarm: float, epsilon: float, operations: float = 4 * LOG_NDTR
) -> float:
    """Return e^hit - e^(epsilon + alarm), rounded up by the error of logarithms of that size.

    Those of `log_ndtr` are off by `LOG_NDTR` roundings and by what rounding its argument x does:
    3 |x| of them times the slope, which is below |x| + 1, so at most 6 (1 + |hit| + |alarm|).
    """
    if hit == -math.inf:
        return _LEAST
    error = operations * ROUNDOFF * (1 + abs(hit) + (0 if math.isinf(alarm) else abs(alarm)))
    error += 4 * ROUNDOFF * abs(epsilon)
    share = -math.expm1(min(0.0, epsilon + alarm - hit - 2 * error))
    return min(1.0, max(_LEAST, up(math.exp(min(0.0, hit + error)) * share, 8)))


@dataclass(frozen=True, slots=True)
class ConcentratedCurve(Curve):
    """rho-zCDP: Renyi divergences of every order alpha at most rho alpha.

    delta(e) = min over alpha > 1 of e^{(alpha-1)(alpha rho - e)} (1 - 1/alpha)^alpha / (alpha - 1),
    Proposition 12 of [canonne2020]; every alpha gives a true delta, so the search needs no proof.

    >>> round(ConcentratedCurve(.0243560).delta(1.0) * 1e6, 3)
    1.0
    """

    rho: float

    def __post_init__(self) -> None:
        """Check the parameter."""
        object.__setattr__(self, "rho", check_positive(self.rho, "rho"))

    def delta(self, epsilon: float) -> float:
        """Return the least delta over orders, rounded up."""
        if epsilon < 0:
            return 1.0
        rho = self.rho
        # t = alpha - 1 where the slope (2t + 1) rho - e - ln(1 + 1/t) of the exponent is 0: it
        # rises and is concave, so that Newton's steps from below the root stay below it
        t = min(max((epsilon / rho - 1) / 2, 1e-9), _MOST_ORDER)
        for _ in range(40):
            slope = (2 * t + 1) * rho - epsilon - math.log1p(1 / t)
            step = -slope / (2 * rho + 1 / (t * (t + 1)))
            t = min(max(t + step, 1e-9), _MOST_ORDER)
            if abs(step) <= 1e-12 * t:
                break
        parts = (t * (t + 1) * rho, -t * epsilon, (t + 1) * math.log1p(-1 / (t + 1)), -math.log(t))
        error = 16 * ROUNDOFF * (1 + sum(map(abs, parts)))
        return min(1.0, max(_LEAST, up(math.exp(min(0.0, sum(parts) + error)), 8)))


@dataclass(frozen=True, slots=True)
class DiscreteGaussianCurve(Curve):
    """Discrete Gaussian noise, Pr[z] ~ exp(-z^2 / 2 sigma^2), on an answer that moves by ``step``.

    delta(e) = Pr[Z > e s^2/k - k/2] - e^e Pr[Z > e s^2/k + k/2], k the step: Theorem 7 of
    [canonne2020] for k = 1. It is *not* (step / sigma)-GDP; its zCDP is step^2 / (2 sigma^2).

    >>> noise, normal = DiscreteGaussianCurve(5.0, 1), GaussianCurve(1 / 5.0)
    >>> noise.delta(1.0) > normal.delta(1.0)
    True
    """

    sigma: float
    step: int

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "sigma", check_positive(self.sigma, "sigma"))
        if self.step < 1:
            raise InvalidInput(f"a step must be at least 1, found {self.step}")

    def delta(self, epsilon: float) -> float:
        """Return the difference of two tails of the noise, rounded up."""
        centre = epsilon * self.sigma**2 / self.step
        # the output is in the set where z > centre - step/2: the likelihood ratio exceeds e^epsilon
        first = math.floor(up(centre - self.step / 2)) + 1
        # any threshold gives a *lower* value of the supremum; the best is this or the next whole
        # number, where rounding may have moved the centre across one
        candidates = [self._at(epsilon, first + shift) for shift in (-1, 0, 1)]
        return max(candidates)

    def _at(self, epsilon: float, first: int) -> float:
        """Return Pr[Z >= first] - e^epsilon Pr[Z >= first + step], rounded up."""
        hit = _log_tail(self.sigma, first)
        alarm = _log_tail(self.sigma, first + self.step)
        return _difference(hit, alarm, epsilon, 4096)


def _log_tail(sigma: float, first: int) -> float:
    """Return ln Pr[Z >= first] of discrete Gaussian noise.

    Both sums run over 12 standard deviations from where their terms are largest; what is left out
    is below e^-72 of the sum, far below the error that `_difference` adds.
    """
    import numpy as np

    if first <= 0:  # Pr[Z >= first] = 1 - Pr[Z >= 1 - first]
        return math.log1p(-math.exp(_log_tail(sigma, 1 - first)))
    reach = math.ceil(12 * sigma) + 12
    whole = np.arange(-reach, reach + 1, dtype=np.float64)
    tail = np.arange(first, first + reach + 1, dtype=np.float64)
    base = -(float(first) ** 2) / (2 * sigma**2)
    mass = float(np.exp(-(whole**2) / (2 * sigma**2)).sum())
    # z^2 - first^2 = (z - first)(z + first), without cancellation
    over = float(np.exp(-(tail - first) * (tail + first) / (2 * sigma**2)).sum())
    return base + math.log(over) - math.log(mass)


@dataclass(frozen=True, slots=True)
class GivenCurve(Curve):
    """A curve given by a function of epsilon, which its author has rounded up."""

    function: Callable[[float], float]

    def delta(self, epsilon: float) -> float:
        """Return the value of the function, or refuse one that is no probability."""
        value = float(self.function(epsilon))
        if not 0 <= value <= 1:
            raise InvalidInput(
                f"a profile must return a delta between 0 and 1, found {value} at {epsilon:g}"
            )
        return value


@dataclass(frozen=True, slots=True)
class ShiftedCurve(Curve):
    """A guarantee together with algorithms of a pure DP level on the same record.

    delta(e) = delta of the guarantee at e - level: what a pure algorithm adds multiplies every
    likelihood ratio by at most e^level.

    >>> ShiftedCurve(PointCurve(((1.0, 1e-6),)), .5).delta(1.5)
    1e-06
    """

    curve: Curve
    level: float

    def delta(self, epsilon: float) -> float:
        """Return the guarantee's delta at epsilon less the pure level (rounded down)."""
        left = epsilon - self.level
        return 1.0 if left < 0 else self.curve.delta(max(0.0, down(left)))

    def corners(self) -> tuple[float, ...]:
        """Return the guarantee's levels, moved; rounded up, so that each keeps its delta."""
        return tuple(up(level + self.level, 16) for level in self.curve.corners())


@dataclass(frozen=True, slots=True)
class ReplacedCurve(Curve):
    """One replaced record under a guarantee for adding or removing one: two steps, composed.

    delta(e) = min over a + b = e of delta(a) + e^a delta(b): the composed curve G o G. Every split
    gives a true delta; splits are tried on a grid that is refined twice.

    >>> curve = ReplacedCurve(PointCurve(((.5, 1e-6),)))
    >>> round(curve.delta(1.0) * 1e6, 6)  # d (1 + e^.5), not 2 d
    2.648721
    """

    curve: Curve

    def delta(self, epsilon: float) -> float:
        """Return the least delta over splits, rounded up."""
        if not epsilon:
            return min(1.0, up(2 * self.curve.delta(0.0)))
        low, high = 0.0, epsilon
        best, at = math.inf, epsilon / 2
        for _ in range(4):
            for part in (*(low + (high - low) * i / 32 for i in range(33)), epsilon / 2):
                rest = max(0.0, math.nextafter(epsilon - part, 0.0)) if part else epsilon
                rest = part if part == epsilon / 2 else rest
                far = self.curve.delta(rest)
                value = self.curve.delta(part) + (exp(part) * far if far else 0.0)
                if value < best:
                    best, at = value, part
            width = (high - low) / 16
            low, high = max(0.0, at - width), min(epsilon, at + width)
        return min(1.0, up(best, 8))

    def corners(self) -> tuple[float, ...]:
        """Return the sums of two levels of the guarantee."""
        own = self.curve.corners()
        return tuple(sorted({up(a + b) for a in own for b in own}))


@dataclass(frozen=True, slots=True)
class LargestCurve(Curve):
    """A guarantee that differs from record to record: the largest delta of any at each epsilon.

    >>> LargestCurve((PointCurve(((1.0, 0.0),)), PointCurve(((.5, 1e-6),)))).delta(1.0)
    1e-06
    """

    curves: tuple[Curve, ...]

    def delta(self, epsilon: float) -> float:
        """Return the largest delta of the curves."""
        return max(curve.delta(epsilon) for curve in self.curves)

    def corners(self) -> tuple[float, ...]:
        """Return the levels of all curves, if each is a list of pairs."""
        lists = [curve.corners() for curve in self.curves]
        return tuple(sorted({level for own in lists for level in own})) if all(lists) else ()


def points(pairs: Sequence[tuple[float, float]]) -> PointCurve:
    """Return the curve through (epsilon, delta) pairs.

    >>> points([(1, 0)]).delta(2.0)
    0.0
    """
    return PointCurve(tuple((float(epsilon), float(delta)) for epsilon, delta in pairs))
