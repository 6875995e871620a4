"""Noise of any shape: a table of probabilities with geometric tails, in whole numbers."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np

from undertow.base_query import BaseQuery, Task
from undertow.curves import Curve, PointCurve
from undertow.errors import InvalidInput, NotSupported
from undertow.numerics import Array, check_listed, check_number, up
from undertow.queries import AnyQuery

__all__ = ["TabulatedNoise"]

BITS = 128
"""Probabilities are whole multiples of 2^-BITS: what a sampler compares with random bits."""

FINE = 48
"""The ratio of the tails is a whole multiple of 2^-FINE, and so is 1 minus it, exactly."""

LARGEST_RATIO = 1 - 2.0**-12
"""Ratio up to which tails are short enough to be gone through (a cost limit)."""

LONGEST = 4096
"""Most entries of a table (a plan holds them all)."""


@dataclass(frozen=True, slots=True)
class TabulatedNoise:
    """A count plus whole-number noise with a table of probabilities and geometric tails.

    Pr[Z = first + i] = weights[i] / 2^128 inside the table. Its first and last entry are those of
    the two tails together: Pr[Z = first - j] = weights[0] / 2^128 (1 - ratio) ratio^j for j >= 0,
    and alike beyond the last place. The weights are whole numbers that add up to 2^128, the ratio
    is a multiple of 2^-48: such noise is drawn exactly. It need not be symmetric, and its mean need
    not be 0: it errs little, as often as not to one side more than to the other.

    >>> from undertow.queries import Count
    >>> noise = TabulatedNoise(Count("active"), -1, (2**126, 2**127, 2**126), 0.25)
    >>> round(noise.expected_error(), 6), round(noise.dp_epsilon(), 6)
    (0.666667, 1.386294)
    """

    kind: ClassVar[str] = "tabulated"
    words: ClassVar[str] = "tabulated"
    measure: ClassVar[Literal["scale", "sigma", "table"]] = "table"
    shape: ClassVar[Literal["laplace", "gaussian", "discrete-gaussian"]] = "laplace"
    """It is asked for like Laplace noise: without any delta."""

    task: ClassVar[Task] = "answer"
    whole: ClassVar[bool] = True

    query: AnyQuery
    first: int
    weights: tuple[int, ...]
    ratio: float

    def __post_init__(self) -> None:
        """Check the query and the table."""
        found: object = self.query
        if not isinstance(found, BaseQuery) or not found.named:
            raise InvalidInput(
                f"tabulated noise is for a Count, found {type(found).__name__}; use Laplace or "
                "DiscreteLaplace"
            )
        object.__setattr__(self, "weights", tuple(check_listed(self.weights, "weights")))
        if not all(type(weight) is int and weight > 0 for weight in self.weights):
            raise InvalidInput("the weights of a table are whole numbers above 0")
        if not 2 <= len(self.weights) <= LONGEST or type(self.first) is not int:
            raise InvalidInput(
                f"a table has 2 to {LONGEST} weights, from a whole number on; found "
                f"{len(self.weights)} weights"
            )
        if abs(self.first) > LONGEST:
            raise InvalidInput(f"a table begins within {LONGEST} of 0, found {self.first}")
        if sum(self.weights) != 2**BITS:
            raise InvalidInput(
                f"the weights must add up to 2^{BITS}, found "
                f"{min(sum(self.weights), 2 ** (BITS + 64)) / 2**BITS:.6g} of it"
            )
        object.__setattr__(self, "ratio", check_number(self.ratio, "ratio"))
        steps = self.ratio * 2**FINE
        if not (0 < self.ratio <= LARGEST_RATIO and steps == int(steps)):
            raise InvalidInput(
                f"the ratio of the tails must be a multiple of 2^-{FINE} above 0 and at most "
                f"1 - 2^-12, found {self.ratio!r}"
            )

    @property
    def length(self) -> None:
        """None: noise is for series of any length."""
        return

    @property
    def last(self) -> int:
        """The last place of the table."""
        return self.first + len(self.weights) - 1

    @property
    def amount(self) -> float:
        """How much noise there is: its expected absolute error."""
        return self.expected_error()

    def with_amount(self, amount: float) -> Self:
        """Refuse: a table has one amount."""
        raise NotSupported("noise with a table of probabilities cannot be scaled; plan again")

    def said(self) -> str:
        """Return the noise for people.

        >>> from undertow.queries import Count
        >>> TabulatedNoise(Count("active"), -1, (2**126, 2**127, 2**126), 0.25).said()
        'tabulated, 3 probabilities from -1 to 1, geometric beyond, mean 0'
        """
        mean = round(self.mean(), 4)
        return (
            f"{self.words}, {len(self.weights)} probabilities from {self.first} to {self.last}, "
            f"geometric beyond, mean {mean + 0.0:g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it; weights are hexadecimal."""
        table = {
            "first": self.first,
            "weights": [f"{weight:x}" for weight in self.weights],
            "ratio": self.ratio,
        }
        return {"query": self.query.to_dict(), "noise": self.kind, self.measure: table}

    def exact(self, place: int) -> Fraction:
        """Return Pr[Z = place], exactly."""
        inside = min(max(place, self.first), self.last)
        found = Fraction(self.weights[inside - self.first], 2**BITS)
        if inside in (self.first, self.last):
            ratio = Fraction(self.ratio)
            found *= (1 - ratio) * ratio ** abs(place - inside)
        return found

    def law(self, low: int, high: int) -> Array:
        """Return Pr[Z = low .. high], each with a relative error of high - low + 8 roundings."""
        places = np.arange(low, high + 1)
        inside = np.clip(places, self.first, self.last)
        found = np.array([weight / 2**BITS for weight in self.weights])  # correctly rounded
        found[[0, -1]] *= 1 - self.ratio  # exact: a multiple of 2^-FINE
        return np.asarray(found[inside - self.first] * self.ratio ** np.abs(places - inside))

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return the largest |ln Pr[Z = z] / Pr[Z = z + 1]|, the level of the count.

        In the tails neighbouring answers have the ratio of the tails.
        """
        return _level(self)

    def level_upper(self, length: int | None = None) -> float:
        """Return the DP level, rounded up."""
        return up(self.dp_epsilon(length), 16)

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve that is 0 from the DP level on."""
        return PointCurve(((self.level_upper(length), 0.0),))

    def expected_error(self) -> float:
        """Return E|Z|."""
        return _moments(self)[1]

    def mean(self) -> float:
        """Return E[Z]: how much too high an answer is in the mean."""
        return _moments(self)[0]

    def variance(self) -> float:
        """Return E[(Z - E[Z])^2]."""
        mean, _, square = _moments(self)
        return square - mean**2

    def quantile(self, beta: float) -> float:
        """Return the least whole alpha with Pr[|Z| > alpha] <= beta.

        >>> from undertow.queries import Count
        >>> TabulatedNoise(Count("active"), -1, (2**126, 2**127, 2**126), 0.25).quantile(0.05)
        2.0
        """
        reach = max(abs(self.first), abs(self.last))
        far = max(0, math.ceil(math.log(max(beta, 1e-300) / 2) / math.log(self.ratio)))
        law = self.law(-reach - far, reach + far)
        sizes = np.abs(np.arange(-reach - far, reach + far + 1))
        mass = np.bincount(sizes, law)  # (sizes,): Pr[|Z| = size]
        ends = (
            (self.weights[0] / 2**BITS, reach + far + 1 + self.first),
            (
                self.weights[-1] / 2**BITS,
                reach + far + 1 - self.last,
            ),
        )
        rest = sum(weight * self.ratio**steps for weight, steps in ends)  # farther out than that
        beyond = np.append(mass[::-1].cumsum()[::-1][1:], 0.0) + rest  # Pr[|Z| > size]
        return float((beyond <= beta).argmax())


@lru_cache(maxsize=64)
def _level(noise: TabulatedNoise) -> float:
    """Return the largest log ratio of neighbours, to nearest; the tails have one of their own."""
    law = [noise.exact(place) for place in range(noise.first - 1, noise.last + 2)]
    steps = [max(one / two, two / one) for one, two in pairwise(law)]
    largest = max(steps)
    return math.log(float(largest)) if largest < 2**900 else math.inf


@lru_cache(maxsize=64)
def _moments(noise: TabulatedNoise) -> tuple[float, float, float]:
    """Return E[Z], E|Z| and E[Z^2], to nearest."""
    law = np.array([weight / 2**BITS for weight in noise.weights])
    places = np.arange(noise.first, noise.last + 1, dtype=np.float64)
    mean, error = float(law @ places), float(law @ np.abs(places))
    square = float(law @ places**2)
    ratio = noise.ratio
    step = ratio / (1 - ratio)  # E[j] of a geometric tail
    double = ratio * (1 + ratio) / (1 - ratio) ** 2  # E[j^2]
    for place, weight, sign in ((noise.first, law[0], -1), (noise.last, law[-1], 1)):
        mean += sign * weight * step
        square += weight * (2 * sign * place * step + double)
        error += weight * _farther(place, sign, ratio)
    return float(mean), float(error), float(square)


def _farther(place: int, sign: int, ratio: float) -> float:
    """Return E|place + sign j| - |place| for a geometric j, with the tail on the side of sign."""
    step = ratio / (1 - ratio)
    if sign * place >= 0:
        return step
    distance = abs(place)  # the tail begins on the other side of 0, and passes it
    j = np.arange(distance + 1)
    crossing = float(((1 - ratio) * ratio**j) @ (distance - j))  # E[(distance - j)^+]
    # |distance - j| = (j - distance) + 2 (distance - j)^+
    return step - 2 * distance + 2 * crossing
