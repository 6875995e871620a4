"""Guarantees: any algorithm that keeps one, whoever wrote it; nothing here draws a random number.

Each class stands for *all* algorithms that keep its guarantee for one replaced record, and says so
by a curve: the delta that it implies for each epsilon (`undertow.curves`).
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from importlib.util import find_spec
from typing import Any, ClassVar, Literal

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
from undertow.numerics import LARGEST_LEVEL, check_amount, check_choice, check_epsilon, up

__all__ = [
    "GDP",
    "ZCDP",
    "ApproximateDP",
    "Guarantee",
    "Neighbours",
    "Profile",
    "PureDP",
    "Unit",
    "from_opendp",
    "from_tumult",
    "require_opendp",
]

Unit = Literal["record", "person"]

Neighbours = Literal["replace", "add-remove"]
"""Which data sets a guarantee compares: one record replaced, or one added or removed."""


def _check_unit(unit: object) -> None:
    check_choice(unit, "unit", ("record", "person"))


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
        _check_unit(self.unit)

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
        guarantee = from_opendp(measurement, unit)
        if not isinstance(guarantee, PureDP):
            raise NotSupported(
                f"the measurement guarantees {measurement.output_measure}, which is not pure "
                "differential privacy; use undertow.integrations.from_opendp, and a delta"
            )
        return guarantee


_COMMON = {"unit": "record", "neighbours": "replace"}
"""What every guarantee has, and how it mostly is."""


@dataclass(frozen=True, slots=True, repr=False)
class _Approximate:
    """A guarantee that is no pure level: it has a leakage at a delta above 0 only."""

    kind: ClassVar[str]

    _: KW_ONLY
    unit: Unit = "record"
    neighbours: Neighbours = "replace"

    def __post_init__(self) -> None:
        """Check the unit and the neighbours."""
        _check_unit(self.unit)
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
        if hasattr(curve, "get_delta_for_epsilon") or callable(curve):
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
        losses = getattr(self.profile, "get_delta_for_epsilon", None)
        function: Callable[[float], float] = losses or self.profile
        return GivenCurve(function)


Guarantee = ApproximateDP | ZCDP | GDP | Profile
"""What is known of an algorithm that is not purely private."""

_DISTANCES: dict[str, Neighbours] = {
    "SymmetricDistance": "add-remove",
    "InsertDeleteDistance": "add-remove",
    "ChangeOneDistance": "replace",
    "HammingDistance": "replace",
}


def require_opendp() -> None:
    """Refuse what needs OpenDP, an optional dependency, where it is not installed."""
    if find_spec("opendp") is None:
        raise NotSupported(
            "this needs OpenDP, which is not installed; run: pip install 'undertow[opendp]'"
        )


def from_opendp(measurement: Any, unit: Unit = "record") -> PureDP | Guarantee:
    """Return the guarantee of an OpenDP measurement, query or context for one replaced record.

    Pure, approximate, zCDP and profile measurements. Under the symmetric and the insert-delete
    distance a replaced record is one removed and one added: the level of a pure measurement is
    that of distance 2, the other guarantees are taken at distance 1 and their curves composed
    (``neighbours="add-remove"``). Under change-one and Hamming it is distance 1. A query of a
    ``Context`` is resolved first. A ``Context`` stands for all that it will ever answer: its loss
    at its own unit, once where that covers a replaced record (two contributions or more, or a
    change), twice where it is one contribution.

    What such a guarantee leaks under a model that has states is known for measurements that read
    the states of records alone: map records to states first, as `Data.sequences` does.

    ``unit="person"`` takes the unit of a ``Context`` to be all records of a person, and replacing
    them as removing and adding them. For a measurement map the person's largest contribution
    yourself and pass ``PureDP(measurement.map(d_in), unit="person")``, or `ZCDP` and so on.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    >>> from_opendp(dp.t.make_count(*space) >> dp.m.then_gaussian(scale=4.0))
    ZCDP(rho=0.03125, neighbours='add-remove')
    >>> context = dp.Context.compositor(
    ...     data=[1, 2], privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(1.0),
    ...     split_evenly_over=2, domain=space[0])
    >>> from_opendp(context), from_opendp(context.query().count().laplace())
    (PureDP(epsilon=2.0, unit='record'), PureDP(epsilon=1.0, unit='record'))
    """
    _check_unit(unit)
    require_opendp()
    at: int | None = None
    if hasattr(measurement, "accountant") and hasattr(measurement, "d_in"):  # a Context
        measurement, at = measurement.accountant, measurement.d_in
    elif hasattr(measurement, "resolve") and not hasattr(measurement, "map"):  # one of its queries
        measurement = measurement.resolve()
    try:
        metric, measure = str(measurement.input_metric), str(measurement.output_measure)
        privacy_map = measurement.map
    except AttributeError as error:
        raise InvalidInput(
            "an OpenDP Measurement, a Context or one of its queries is required, found "
            f"{type(measurement).__name__}"
        ) from error
    if unit != "record" and at is None:
        raise NotSupported(
            "how many records a person contributes is not part of an OpenDP measurement; pass "
            "PureDP(measurement.map(d_in), unit='person'), or ZCDP and so on, with the d_in of "
            "one person"
        )
    neighbours = _DISTANCES.get(metric.partition("(")[0])
    if neighbours is None:
        raise NotSupported(
            f"its input metric {metric} does not say what a replaced record is; chain the query "
            "before the noise so that the input metric is a distance between data sets, or pass "
            "PureDP(measurement.map(sensitivity)), or ZCDP and so on"
        )
    if at is not None and at >= 2 and unit == "record":
        neighbours = "replace"  # one removed and one added are within the context's own distance
    if measure == "MaxDivergence":
        if at is None:
            return PureDP(float(privacy_map(2 if neighbours == "add-remove" else 1)))
        return PureDP(float(privacy_map(at)) * (2 if neighbours == "add-remove" else 1), unit)
    make = _MEASURES.get(measure)
    if make is None:
        raise NotSupported(
            f"the measurement guarantees {measure}, of which no leakage is known; use one with "
            f"MaxDivergence or {', '.join(_MEASURES)}"
        )
    guarantee = make(privacy_map(1 if at is None else at), neighbours)
    return guarantee if unit == "record" else replace(guarantee, unit=unit)


_CHANGES = ("AddOneRow", "AddMaxRows", "AddMaxRowsInMaxGroups", "AddRowsWithID")
"""The protected changes of Tumult Analytics: one row, several, or all of an identifier."""


def from_tumult(
    budget: Any, protected_change: Any = "AddOneRow", unit: Unit = "record"
) -> PureDP | Guarantee:
    """Return the guarantee of a Tumult Analytics budget for one replaced record, or person.

    The budget is a ``PureDPBudget``, ``ApproxDPBudget`` or ``RhoZCDPBudget``, the protected change
    an ``AddOneRow``, ``AddMaxRows(n)``, ``AddMaxRowsInMaxGroups`` or ``AddRowsWithID``, or its
    name. Tumult protects rows that are added or removed; a replaced record is one removed and one
    added, so it counts twice, whatever the change. So does a replaced person
    (``unit="person"``), where the change covers all rows of one: not ``AddOneRow``. With several
    rows the internal metric of Tumult might let a replaced record count once; that is no part of
    what it promises, and not used. Nothing of Tumult is imported; floats are rounded up.

    >>> class PureDPBudget:  # as in tmlt.analytics
    ...     epsilon = 0.5
    >>> from_tumult(PureDPBudget()), from_tumult(PureDPBudget(), "AddRowsWithID", unit="person")
    (PureDP(epsilon=1.0..., unit='record'), PureDP(epsilon=1.0..., unit='person'))
    """
    _check_unit(unit)
    change = protected_change if isinstance(protected_change, str) else _named(protected_change)
    if change not in _CHANGES:
        raise InvalidInput(
            f"a protected change of Tumult is one of {', '.join(_CHANGES)}, found {change!r}"
        )
    if unit == "person" and change == "AddOneRow":
        raise InvalidInput(
            "AddOneRow protects one row, not all rows of a person; plan with unit='record', or "
            "use AddRowsWithID or AddMaxRows in Tumult"
        )
    more: Any = {"unit": unit, "neighbours": "add-remove"}
    try:
        match _named(budget):
            case "PureDPBudget":
                return PureDP(2 * up(float(budget.epsilon)), unit)
            case "ApproxDPBudget" if not float(budget.delta):
                return PureDP(2 * up(float(budget.epsilon)), unit)
            case "ApproxDPBudget":
                return ApproximateDP(up(float(budget.epsilon)), up(float(budget.delta)), **more)
            case "RhoZCDPBudget":
                return ZCDP(up(float(budget.rho)), **more)
    except (AttributeError, TypeError) as error:
        raise InvalidInput(
            f"a {_named(budget)} without its numbers was found; pass the budget itself"
        ) from error
    raise InvalidInput(
        "a PureDPBudget, ApproxDPBudget or RhoZCDPBudget of Tumult is required, found "
        f"{_named(budget)}"
    )


def _named(claim: object) -> str:
    """Return the name of an object's class, or of a class itself."""
    return claim.__name__ if isinstance(claim, type) else type(claim).__name__


def _zcdp(claim: Any, neighbours: Neighbours) -> Guarantee:
    return ZCDP(float(claim), neighbours=neighbours)


def _approximate(claim: Any, neighbours: Neighbours) -> Guarantee:
    epsilon, delta = claim
    return ApproximateDP(float(epsilon), float(delta), neighbours=neighbours)


def _approximate_zcdp(claim: Any, neighbours: Neighbours) -> Guarantee:
    rho, delta = (float(each) for each in claim)
    inner = ConcentratedCurve(rho)
    return Profile(lambda level: min(1.0, up(inner.delta(level) + delta)), neighbours=neighbours)


def _smoothed(claim: Any, neighbours: Neighbours) -> Guarantee:
    return Profile(lambda level: min(1.0, up(float(claim.delta(level)))), neighbours=neighbours)


_MEASURES: dict[str, Callable[[Any, Neighbours], Guarantee]] = {
    "ZeroConcentratedDivergence": _zcdp,
    "Approximate(MaxDivergence)": _approximate,
    "Approximate(ZeroConcentratedDivergence)": _approximate_zcdp,
    "SmoothedMaxDivergence": _smoothed,
}
