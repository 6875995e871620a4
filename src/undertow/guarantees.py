"""Privacy guarantees of algorithms: pure, approximate, zCDP, GDP, profiles.

Each class stands for *all* algorithms that keep its guarantee for one replaced record, and says so
by a curve: the delta that it implies for each epsilon (`undertow.curves`).
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from undertow.curves import (
    ConcentratedCurve,
    Curve,
    GaussianCurve,
    GivenCurve,
    PointCurve,
    ReplacedCurve,
    check_delta,
    points,
)
from undertow.errors import InvalidInput, NotSupported
from undertow.numerics import LARGEST_LEVEL, check_amount, check_choice, check_epsilon

__all__ = [
    "GDP",
    "ZCDP",
    "ApproximateDP",
    "Guarantee",
    "Neighbours",
    "Profile",
    "PureDP",
    "Unit",
    "check_unit",
]

Unit = Literal["record", "person"]

Neighbours = Literal["replace", "add-remove"]
"""Which data sets a guarantee compares: one record replaced, or one added or removed."""


def check_unit(unit: object) -> None:
    """Refuse a unit that is neither a record nor a person.

    >>> check_unit("record")
    """
    check_choice(unit, "unit", ("record", "person"))


@dataclass(frozen=True, slots=True)
class PureDP:
    """Any epsilon-differentially private algorithm.

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
        check_unit(self.unit)

    def level_upper(self, length: int | None = None) -> float:
        """Return epsilon."""
        return self.epsilon

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve that is 0 from epsilon on."""
        return PointCurve(((self.epsilon, 0.0),))

    @classmethod
    def from_opendp(cls, measurement: Any, unit: Unit = "record") -> "PureDP":
        """Return the level of a pure OpenDP measurement for one replaced record.

        `from_opendp` takes measurements of every kind.

        >>> import opendp.prelude as dp
        >>> dp.enable_features("contrib")
        >>> space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
        >>> noisy_count = dp.t.make_count(*space) >> dp.m.then_laplace(scale=4.0)
        >>> PureDP.from_opendp(noisy_count)
        PureDP(epsilon=0.5, unit='record')
        """
        from_opendp = import_module("undertow.integrations").from_opendp  # above: loads OpenDP
        guarantee: PureDP | Guarantee = from_opendp(measurement, unit)
        if not isinstance(guarantee, PureDP):
            raise NotSupported(
                f"the measurement guarantees {measurement.output_measure}, which is not pure "
                "differential privacy; use undertow.integrations.from_opendp, and a delta"
            )
        return guarantee


_COMMON = {"unit": "record", "neighbours": "replace"}
"""Base class of guarantees."""


@dataclass(frozen=True, slots=True, repr=False)
class _Approximate:
    """Base class of guarantees with a delta: their leakage exists at a delta above 0 only."""

    kind: ClassVar[str]

    _: KW_ONLY
    unit: Unit = "record"
    neighbours: Neighbours = "replace"

    def __post_init__(self) -> None:
        """Check the unit and the neighbours."""
        check_unit(self.unit)
        check_choice(self.neighbours, "neighbours", ("replace", "add-remove"))

    def __repr__(self) -> str:
        """Return the guarantee as it is written: its own numbers, then what is not by default."""
        own = [each for each in fields(self) if each.name not in _COMMON]
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in own]
        for name, usual in _COMMON.items():
            value = getattr(self, name)
            shown += [] if value == usual else [f"{name}={value!r}"]
        return f"{type(self).__name__}({', '.join(shown)})"

    def one_step(self) -> Curve:
        """Return the curve of the guarantee between its own neighbours."""
        raise NotImplementedError

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve for one replaced record; adding and removing are composed."""
        own = self.one_step()
        return own if self.neighbours == "replace" else ReplacedCurve(own)


@dataclass(frozen=True, slots=True, repr=False)
class ApproximateDP(_Approximate):
    """Any (epsilon, delta)-differentially private algorithm.

    Pr[S | x] <= e^epsilon Pr[S | x'] + delta for every set S of outputs.

    >>> ApproximateDP(1.0, 1e-6).curve().delta(1.0)
    1e-06
    """

    kind: ClassVar[str] = "approximate-dp"

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Check the level and the delta."""
        _Approximate.__post_init__(self)
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))

    def one_step(self) -> Curve:
        """Return the curve through the one pair."""
        return PointCurve(((self.epsilon, self.delta),))


@dataclass(frozen=True, slots=True, repr=False)
class ZCDP(_Approximate):
    """Any rho-zero-concentrated differentially private algorithm [bun2016].

    Renyi divergences of every order alpha > 1 are at most rho alpha.

    >>> round(ZCDP(.0243560).curve().delta(1.0) * 1e6, 3)
    1.0
    """

    kind: ClassVar[str] = "zcdp"

    rho: float

    def __post_init__(self) -> None:
        """Check rho."""
        _Approximate.__post_init__(self)
        object.__setattr__(self, "rho", check_amount(self.rho, "rho", LARGEST_LEVEL))

    def one_step(self) -> Curve:
        """Return the conversion of [canonne2020]."""
        return ConcentratedCurve(self.rho)


@dataclass(frozen=True, slots=True, repr=False)
class GDP(_Approximate):
    """Any mu-Gaussian differentially private algorithm [dong2022].

    No test tells two neighbours apart better than N(0, 1) from N(mu, 1). Gaussian noise of standard
    deviation sigma on an answer that a record moves by at most D is D / sigma.

    >>> GDP(.25).curve()
    GaussianCurve(mu=0.25)
    """

    kind: ClassVar[str] = "gdp"

    mu: float

    def __post_init__(self) -> None:
        """Check mu."""
        _Approximate.__post_init__(self)
        object.__setattr__(self, "mu", check_amount(self.mu, "mu", LARGEST_LEVEL))

    def one_step(self) -> Curve:
        """Return the Gaussian curve."""
        return GaussianCurve(self.mu)

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve for one replaced record; two steps of mu are one of 2 mu, exactly."""
        return GaussianCurve(self.mu if self.neighbours == "replace" else 2 * self.mu)


@runtime_checkable
class LossDistribution(Protocol):
    """A privacy loss distribution, as in the package ``dp_accounting``."""

    def get_delta_for_epsilon(self, epsilon: float) -> float:
        """Return the delta at a level."""


@dataclass(frozen=True, slots=True, repr=False)
class Profile(_Approximate):
    """Any algorithm with a given privacy profile, such as an accountant returns for DP-SGD.

    ``profile`` is a list of pairs (epsilon, delta) that hold all at once, a function from epsilon
    to delta that never says too little, or a privacy loss distribution (anything with
    ``get_delta_for_epsilon``, as in the package ``dp_accounting``, made pessimistically).
    Accountants of DP-SGD mostly speak of adding or removing a record:
    ``neighbours="add-remove"``.

    >>> Profile([(.5, 1e-5), (1.0, 1e-7)]).curve().delta(1.0)
    1e-07
    """

    kind: ClassVar[str] = "profile"

    profile: Any

    def __post_init__(self) -> None:
        """Check the profile."""
        _Approximate.__post_init__(self)
        curve = self.profile
        if isinstance(curve, LossDistribution) or callable(curve):
            return
        if isinstance(curve, str) or not isinstance(curve, Sequence):
            raise InvalidInput(
                "a profile is a list of pairs (epsilon, delta), a function of epsilon, or a "
                f"privacy loss distribution; found {type(curve).__name__}"
            )
        try:
            pairs = points([(epsilon, delta) for epsilon, delta in curve]).pairs
        except (TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                "a profile lists pairs (epsilon, delta) of numbers, found something else in it"
            ) from error
        object.__setattr__(self, "profile", pairs)

    def one_step(self) -> Curve:
        """Return the curve along the profile."""
        if isinstance(self.profile, tuple):
            return PointCurve(self.profile)
        if isinstance(self.profile, LossDistribution):
            return GivenCurve(self.profile.get_delta_for_epsilon)
        return GivenCurve(self.profile)


Guarantee = ApproximateDP | ZCDP | GDP | Profile
"""Guarantees with a delta."""
