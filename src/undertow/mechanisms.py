"""Descriptions of a curator's randomisation; nothing here draws a random number."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from undertow.base_query import BaseQuery, Task
from undertow.channels import LocalMechanism
from undertow.curves import (
    ConcentratedCurve,
    Curve,
    DiscreteGaussianCurve,
    GaussianCurve,
    PointCurve,
)
from undertow.errors import InvalidInput
from undertow.guarantees import Guarantee, PureDP, Unit
from undertow.numerics import LARGEST_LEVEL, Array, check_amount, check_positive, up
from undertow.queries import AnyQuery
from undertow.rounding import above
from undertow.selections import Selection, TopK
from undertow.tabulated import TabulatedNoise

__all__ = [
    "NOISES",
    "Curved",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "Levelled",
    "Mechanism",
    "MetricDP",
    "Noise",
    "Normal",
    "PureDP",
    "Scaled",
    "Selection",
    "TabulatedNoise",
    "Unit",
    "lattice_amount",
    "noisy",
]


@dataclass(frozen=True, slots=True)
class MetricDP:
    """Any algorithm whose answers depend on numbers only gradually: d-privacy in l1.

    Pr[s | x] <= exp(rate * sum_t |x_t - x'_t|) Pr[s | x'] for every output s and all records x,
    x' with real values: ``rate`` is the level for each unit by which a value moves. It says more
    than a DP level does, namely that close values are harder to tell apart than distant ones. A
    sum with Laplace noise of scale b has rate 1 / b. Definition 2.6 of [lange2024] with
    d = rate * (l1 distance).

    >>> MetricDP(.01)
    MetricDP(rate=0.01)
    """

    kind: ClassVar[str] = "metric-dp"

    rate: float

    def __post_init__(self) -> None:
        """Check the rate."""
        object.__setattr__(self, "rate", check_amount(self.rate, "rate", LARGEST_LEVEL))

    def dp_epsilon(self, spread: float) -> float:
        """Return rate * spread, the level where two values of one record differ by at most spread.

        Rounded to nearest.

        >>> MetricDP(.01).dp_epsilon(spread=200)
        2.0
        """
        return self.rate * check_positive(spread, "spread")


@dataclass(frozen=True, slots=True)
class _Noisy:
    """A query plus noise, independent for each number of the answer."""

    kind: ClassVar[str]
    """Its name in files."""

    words: ClassVar[str]
    """Its name for people."""

    measure: ClassVar[Literal["scale", "sigma", "table"]] = "scale"
    """The field that says how much noise there is."""

    shape: ClassVar[Literal["laplace", "gaussian", "discrete-gaussian"]] = "laplace"
    """The kind of noise that is asked for to get it."""

    task: ClassVar[Task] = "answer"
    whole: ClassVar[bool] = False
    """Whether the noise is a whole number by its law."""

    query: AnyQuery

    def __post_init__(self) -> None:
        """Check the query and the amount of noise."""
        found: object = self.query
        if not isinstance(found, BaseQuery) or found.task != "answer":
            raise InvalidInput(
                "the first argument must be a query such as Count('active'), found "
                f"{type(found).__name__}"
            )
        if found.selects:
            raise InvalidInput(
                f"{type(found).__name__} releases states, and noise is added to numbers; it is "
                "answered by Selection(TopK(k), scale=...)"
            )
        if self.whole and not found.integral:
            raise InvalidInput(
                f"discrete noise needs an integer answer; {type(found).__name__} is real, "
                f"use {type(self).__name__.removeprefix('Discrete')}, or a Count or Histogram"
            )
        object.__setattr__(self, self.measure, check_amount(self.amount, f"noise {self.measure}"))

    @property
    def length(self) -> None:
        """None: noise is for series of any length."""
        return

    @property
    def amount(self) -> float:
        """How much noise there is: its scale, or its sigma."""
        found: float = getattr(self, self.measure)
        return found

    def with_amount(self, amount: float) -> Self:
        """Return the same noise in another amount."""
        changed: Any = {self.measure: amount}
        return replace(self, **changed)

    def said(self) -> str:
        """Return the noise for people, its amount rounded up.

        >>> from undertow.queries import Count
        >>> Gaussian(Count("active"), sigma=16.5).said()
        'Gaussian, sigma 16.5'
        """
        return f"{self.words}, {self.measure} {above(self.amount)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it."""
        return {"query": self.query.to_dict(), "noise": self.kind, self.measure: self.amount}


@dataclass(frozen=True, slots=True)
class _Scaled(_Noisy):
    """Noise of a scale: it has a pure DP level."""

    scale: float

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return sensitivity / scale, the level against an attacker who knows all other records."""
        return self.query.sensitivity(length) / self.scale

    def level_upper(self, length: int | None = None) -> float:
        """Return the DP level, rounded up."""
        return up(self.dp_epsilon(length))

    def masses(self, most: int) -> Array:
        """Return Pr[Z = z] of the whole numbers 0 .. most that are drawn: discrete Laplace noise.

        >>> from undertow.queries import Count
        >>> DiscreteLaplace(Count("active"), scale=1.0).masses(1).round(4).tolist()
        [0.4621, 0.17]
        """
        rate = 1 / self.scale
        return np.asarray(math.tanh(rate / 2) * np.exp(-rate * np.arange(most + 1)))

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve that is 0 from the DP level on."""
        return PointCurve(((self.level_upper(length), 0.0),))


@dataclass(frozen=True, slots=True)
class _Normal(_Noisy):
    """Noise of a standard deviation: no pure DP level, but a curve."""

    measure: ClassVar[Literal["scale", "sigma", "table"]] = "sigma"

    sigma: float

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return inf: far answers tell two values apart, however rarely they are given."""
        return math.inf

    def level_upper(self, length: int | None = None) -> float:
        """Return inf."""
        return math.inf

    def mu_upper(self, length: int | None = None) -> float:
        """Return how many standard deviations one replaced record moves the answer, rounded up."""
        return up(self.query.euclidean(length) / self.sigma, 8)

    def rho_upper(self, length: int | None = None) -> float:
        """Return the zCDP parameter mu^2 / 2, rounded up."""
        return up(self.mu_upper(length) ** 2 / 2)


@dataclass(frozen=True, slots=True)
class Laplace(_Scaled):
    """A query plus Laplace noise of the given scale, independent per output.

    The density is exp(-|z| / scale) / (2 scale); the algorithm is (sensitivity / scale)-DP.

    >>> from undertow.queries import Count
    >>> Laplace(Count("active"), scale=4.0).dp_epsilon()
    0.25
    """

    kind: ClassVar[str] = "laplace"
    words: ClassVar[str] = "Laplace"

    def expected_error(self) -> float:
        """Return E|Z| = scale."""
        return self.scale

    def variance(self) -> float:
        """Return 2 scale^2.

        >>> from undertow.queries import Count
        >>> Laplace(Count("active"), scale=4.0).variance()
        32.0
        """
        return 2 * self.scale**2

    def quantile(self, beta: float) -> float:
        """Return the alpha with Pr[|Z| > alpha] = beta: scale ln(1 / beta)."""
        return self.scale * math.log(1 / beta)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(_Scaled):
    """An integer query plus discrete Laplace noise: Pr[Z = z] proportional to exp(-|z| / scale).

    It leaks what `Laplace` of the same scale leaks and errs less [ghosh2009].

    >>> from undertow.queries import Histogram
    >>> DiscreteLaplace(Histogram(), scale=4.0).dp_epsilon()
    0.5
    """

    kind: ClassVar[str] = "discrete-laplace"
    words: ClassVar[str] = "discrete Laplace"
    whole: ClassVar[bool] = True

    def expected_error(self) -> float:
        """Return E|Z| = 1 / sinh(1 / scale).

        >>> from undertow.queries import Count
        >>> round(DiscreteLaplace(Count("active"), scale=4.0).expected_error(), 4)
        3.9586
        """
        rate = 1 / self.scale
        return 2 * math.exp(-rate) / -math.expm1(-2 * rate)

    def variance(self) -> float:
        """Return 2 r / (1 - r)^2 with r = exp(-1 / scale)."""
        rate = 1 / self.scale
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def quantile(self, beta: float) -> float:
        """Return the least whole alpha with Pr[|Z| > alpha] <= beta."""
        rate = 1 / self.scale

        def exceeds(alpha: int) -> float:
            return 2 * math.exp(-rate * (alpha + 1)) / (1 + math.exp(-rate))

        guess = math.log(2 / ((1 + math.exp(-rate)) * beta)) / rate - 1
        alpha = max(0, math.floor(guess) - 1)
        while exceeds(alpha) > beta:
            alpha += 1
        return float(alpha)


@dataclass(frozen=True, slots=True)
class Gaussian(_Normal):
    """A query plus Gaussian noise of standard deviation ``sigma``, independent per output.

    It is (euclidean sensitivity / sigma)-GDP. A whole-number answer is rounded after the noise,
    which reveals no more: the noise is then a normal variable rounded to a whole number.

    >>> from undertow.queries import Count
    >>> Gaussian(Count("active"), sigma=4.0).curve()
    GaussianCurve(mu=0.25...)
    """

    kind: ClassVar[str] = "gaussian"
    shape: ClassVar[Literal["laplace", "gaussian", "discrete-gaussian"]] = "gaussian"
    words: ClassVar[str] = "Gaussian"

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve of mu-GDP."""
        return GaussianCurve(self.mu_upper(length))

    def masses(self, most: int) -> Array:
        """Return Pr[Z = z] of the whole numbers 0 .. most that are drawn: a rounded normal."""
        from scipy.special import ndtr

        beyond = ndtr((0.5 - np.arange(most + 2)) / self.sigma)  # Pr[Z >= z]
        return np.asarray(beyond[:-1] - beyond[1:])

    def expected_error(self) -> float:
        """Return E|Z| = sigma sqrt(2 / pi), of rounded noise 2 sum over k of Pr[Z > k + 1/2].

        >>> from undertow.queries import Count
        >>> round(Gaussian(Count("active"), sigma=4.0).expected_error(), 4)
        3.1832
        """
        from scipy.special import ndtr

        if not self.query.integral or self.sigma > _FINE:
            return self.sigma * math.sqrt(2 / math.pi)
        halves = np.arange(int(40 * self.sigma) + 40) + 0.5
        return 2 * float(ndtr(-halves / self.sigma).sum())

    def variance(self) -> float:
        """Return sigma^2; rounding to whole numbers adds a twelfth."""
        return self.sigma**2 + (1 / 12 if self.query.integral else 0.0)

    def quantile(self, beta: float) -> float:
        """Return the least alpha with Pr[|Z| > alpha] <= beta, a whole number where Z is one."""
        from scipy.special import ndtri

        alpha = -self.sigma * float(ndtri(beta / 2))
        return float(max(0, math.ceil(alpha - 0.5))) if self.query.integral else alpha


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(_Normal):
    """An integer query plus discrete Gaussian noise: Pr[Z = z] ~ exp(-z^2 / (2 sigma^2)).

    It is not (1 / sigma)-GDP: a count has a curve of its own, a histogram that of its zCDP
    parameter 1 / sigma^2 [canonne2020].

    >>> from undertow.queries import Count
    >>> DiscreteGaussian(Count("active"), sigma=4.0).curve()
    DiscreteGaussianCurve(sigma=4.0, step=1)
    """

    kind: ClassVar[str] = "discrete-gaussian"
    shape: ClassVar[Literal["laplace", "gaussian", "discrete-gaussian"]] = "discrete-gaussian"
    words: ClassVar[str] = "discrete Gaussian"
    whole: ClassVar[bool] = True

    def curve(self, length: int | None = None) -> Curve:
        """Return the exact curve of a count, that of zCDP for a histogram or transitions."""
        if self.query.sensitivity(length) > 1:  # several numbers move, each by its own law
            return ConcentratedCurve(self.rho_upper(length))
        return DiscreteGaussianCurve(self.sigma, 1)

    def masses(self, most: int) -> Array:
        """Return Pr[Z = z] of the whole numbers 0 .. most."""
        law = np.zeros(most + 1)
        held = self._law()[1][: most + 1]
        law[: len(held)] = held
        return law

    def _law(self) -> tuple[Any, Any]:
        """Return whole numbers from 0 and their probabilities, on one side."""
        z = np.arange(int(40 * min(self.sigma, _FINE)) + 40, dtype=np.float64)
        mass = np.exp(-(z**2) / (2 * self.sigma**2))
        return z, mass / (2 * mass.sum() - 1)

    def expected_error(self) -> float:
        """Return E|Z|, by its table."""
        if self.sigma > _FINE:
            return self.sigma * math.sqrt(2 / math.pi)
        z, law = self._law()
        return 2 * float((z * law).sum())

    def variance(self) -> float:
        """Return E[Z^2], by its table; a little below sigma^2."""
        z, law = self._law()
        return 2 * float((z**2 * law).sum()) if self.sigma <= _FINE else self.sigma**2

    def quantile(self, beta: float) -> float:
        """Return the least whole alpha with Pr[|Z| > alpha] <= beta."""
        from scipy.special import ndtri

        if self.sigma > _FINE:
            return float(math.ceil(-self.sigma * float(ndtri(beta / 2))))
        z, law = self._law()
        beyond = 2 * (law[::-1].cumsum()[::-1] - law)  # Pr[|Z| > z]
        return float(z[int((beyond <= beta).argmax())])


_FINE = 1e5
"""Standard deviations up to which whole numbers are summed one by one; beyond, they are dense."""

Scaled = Laplace | DiscreteLaplace | Selection
"""Noise of a scale, or a selection at one, with a pure DP level."""

Normal = Gaussian | DiscreteGaussian
"""Noise without one."""

Noise = Scaled | TabulatedNoise | Normal
"""A query with noise: what a curator releases."""

Levelled = PureDP | Scaled
"""What a curator does, with a DP level of its own."""

Curved = PureDP | Guarantee | Noise
"""What a curator does, with a curve of its own."""

Mechanism = Curved | MetricDP | LocalMechanism

NOISES: dict[str, type[Noise]] = {
    noise.kind: noise
    for noise in (
        Laplace,
        DiscreteLaplace,
        TabulatedNoise,
        Selection,
        Gaussian,
        DiscreteGaussian,
    )
}
"""All kinds of noise, by their names in files."""


def noisy(query: AnyQuery, scale: float) -> Scaled:
    """Return a query with Laplace noise of its own kind: discrete for whole numbers.

    States are selected, by permute-and-flip of that scale.

    >>> from undertow.queries import Count
    >>> noisy(Count("active"), 4.0).words
    'discrete Laplace'
    """
    if isinstance(query, TopK):
        return Selection(query, scale)
    return (DiscreteLaplace if query.integral else Laplace)(query, scale)


def lattice_amount(mechanism: Noise, length: int | None = None) -> float:
    """Return the scale or sigma of the noise in the whole numbers that are released, rounded up.

    A count is a whole number already. A sum, mean or linear statistic is a number of lattice
    steps, all of which together amount to the span of the query: noise of steps / span times the
    amount keeps the mechanism's level.

    >>> from undertow.queries import Sum
    >>> lattice_amount(Laplace(Sum(0, 10, steps=1000), scale=20.0)) >= 2000
    True
    """
    query = mechanism.query
    if query.integral:
        return mechanism.amount
    return up(query.lattice().steps * mechanism.amount / query.span(length), 8)
