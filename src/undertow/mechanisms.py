"""Descriptions of a curator's randomisation; nothing here draws a random number."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from undertow.base_query import BaseQuery, Task
from undertow.channels import LocalMechanism
from undertow.errors import InvalidInput, NotSupported
from undertow.numerics import check_epsilon, check_positive, up
from undertow.queries import AnyQuery, Count, Histogram

__all__ = [
    "DiscreteLaplace",
    "Laplace",
    "Levelled",
    "Mechanism",
    "MetricDP",
    "Noise",
    "PureDP",
    "Unit",
    "noisy",
]

Unit = Literal["record", "person"]

_REPLACED_RECORD = {
    "SymmetricDistance": 2,
    "InsertDeleteDistance": 2,
    "ChangeOneDistance": 1,
    "HammingDistance": 1,
}


@dataclass(frozen=True, slots=True)
class PureDP:
    """Any epsilon-differentially private algorithm, whoever wrote it.

    Pr[s | x] <= e^epsilon Pr[s | x'] for every output s whenever x' replaces one record of x
    (``unit="record"``) or all records of one person (``unit="person"``). A guarantee for
    adding or removing a record enters with twice its epsilon.

    >>> PureDP(.5)
    PureDP(epsilon=0.5, unit='record')
    """

    kind: ClassVar[str] = "dp"

    epsilon: float
    unit: Unit = "record"

    def __post_init__(self) -> None:
        """Check the level and the unit."""
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if self.unit not in ("record", "person"):
            raise InvalidInput(f"unit must be 'record' or 'person', found {self.unit!r}")

    def level_upper(self, length: int | None = None) -> float:
        """Return epsilon."""
        return self.epsilon

    @classmethod
    def from_opendp(cls, measurement: Any, unit: Unit = "record") -> "PureDP":
        """Return the level of an OpenDP measurement for one replaced record.

        A replaced record is distance 2 under the symmetric and insert-delete distances, 1 under
        change-one and Hamming. For ``unit="person"`` map the person's largest contribution
        yourself and pass ``PureDP(measurement.map(d_in), unit="person")``.

        >>> import opendp.prelude as dp
        >>> dp.enable_features("contrib")
        >>> space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
        >>> noisy_count = dp.t.make_count(*space) >> dp.m.then_laplace(scale=4.0)
        >>> PureDP.from_opendp(noisy_count)
        PureDP(epsilon=0.5, unit='record')
        """
        try:
            metric, measure = str(measurement.input_metric), str(measurement.output_measure)
            privacy_map = measurement.map
        except AttributeError as error:
            raise InvalidInput(
                f"an OpenDP Measurement is required, found {type(measurement).__name__}"
            ) from error
        if unit != "record":
            raise NotSupported(
                "how many records a person contributes is not part of an OpenDP measurement; "
                "pass PureDP(measurement.map(d_in), unit='person') with the d_in of one person"
            )
        if measure != "MaxDivergence":
            raise NotSupported(
                f"the measurement guarantees {measure}, which is not pure differential privacy "
                "and has no exchange rate; use a measurement with MaxDivergence "
                "(Laplace or geometric noise)"
            )
        distance = _REPLACED_RECORD.get(metric.partition("(")[0])
        if distance is None:
            raise NotSupported(
                f"its input metric {metric} does not say what a replaced record is; chain the "
                "query before the noise so that the input metric is a distance between data "
                "sets, or pass PureDP(measurement.map(sensitivity))"
            )
        return cls(float(privacy_map(distance)), unit="record")


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
        object.__setattr__(self, "rate", check_positive(self.rate, "rate"))

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

    task: ClassVar[Task] = "answer"
    whole: ClassVar[bool] = False
    """Whether the noise is a whole number."""

    query: AnyQuery
    scale: float

    def __post_init__(self) -> None:
        """Check the query and the scale."""
        found: object = self.query
        if not isinstance(found, BaseQuery) or found.task != "answer":
            raise InvalidInput(
                "the first argument must be a query such as Count('active'), found "
                f"{type(found).__name__}"
            )
        object.__setattr__(self, "scale", check_positive(self.scale, "noise scale"))

    @property
    def length(self) -> None:
        """None: noise is for series of any length."""
        return

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return sensitivity / scale, the level against an attacker who knows all other records."""
        return self.query.sensitivity(length) / self.scale

    def level_upper(self, length: int | None = None) -> float:
        """Return the DP level, rounded up."""
        return up(self.dp_epsilon(length))

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it."""
        return {"query": self.query.to_dict(), "noise": self.kind, "scale": self.scale}


@dataclass(frozen=True, slots=True)
class Laplace(_Noisy):
    """A query plus Laplace noise of the given scale, independent per output.

    The density is exp(-|z| / scale) / (2 scale); the algorithm is (sensitivity / scale)-DP.

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

        >>> Laplace(Count("active"), scale=4.0).variance()
        32.0
        """
        return 2 * self.scale**2

    def quantile(self, beta: float) -> float:
        """Return the alpha with Pr[|Z| > alpha] = beta: scale ln(1 / beta)."""
        return self.scale * math.log(1 / beta)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(_Noisy):
    """An integer query plus discrete Laplace noise: Pr[Z = z] proportional to exp(-|z| / scale).

    It leaks what `Laplace` of the same scale leaks and errs less [ghosh2009].

    >>> DiscreteLaplace(Histogram(), scale=4.0).dp_epsilon()
    0.5
    """

    kind: ClassVar[str] = "discrete-laplace"
    words: ClassVar[str] = "discrete Laplace"
    whole: ClassVar[bool] = True

    query: Count | Histogram

    def __post_init__(self) -> None:
        """Check the query and the scale."""
        found: object = self.query
        if isinstance(found, BaseQuery) and found.task == "answer" and not found.integral:
            raise InvalidInput(
                f"discrete noise needs an integer answer; {type(found).__name__} is real, "
                "use Laplace, or a Count or Histogram"
            )
        _Noisy.__post_init__(self)

    def expected_error(self) -> float:
        """Return E|Z| = 1 / sinh(1 / scale).

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


Noise = Laplace | DiscreteLaplace
"""A query with noise: what a curator releases."""

Levelled = PureDP | Noise
"""What a curator does, with a DP level of its own."""

Mechanism = Levelled | MetricDP | LocalMechanism


def noisy(query: AnyQuery, scale: float) -> Noise:
    """Return a query with noise of its own kind: discrete for whole numbers.

    >>> noisy(Count("active"), 4.0).words
    'discrete Laplace'
    """
    return (DiscreteLaplace if query.integral else Laplace)(query, scale)  # type: ignore[arg-type]
