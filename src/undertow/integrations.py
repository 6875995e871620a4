"""Integrations with other libraries: OpenDP, Tumult Analytics and Spark.

`from_opendp` and `from_tumult` read the guarantee of an algorithm of theirs, `plan_to_opendp`
returns a plan as a measurement that OpenDP runs, `spark_session` starts Spark for tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from undertow.curves import ConcentratedCurve
from undertow.errors import InvalidInput, NotSupported
from undertow.guarantees import (
    ZCDP,
    ApproximateDP,
    Guarantee,
    Neighbours,
    Profile,
    PureDP,
    Unit,
    check_unit,
)
from undertow.mechanisms import DiscreteGaussian, Noise, Scaled, Selection, lattice_amount
from undertow.numerics import up
from undertow.queries import State, known

if TYPE_CHECKING:
    from undertow.data.readers.spark import spark_session
    from undertow.plan import Plan

__all__ = [
    "from_opendp",
    "from_tumult",
    "plan_to_opendp",
    "spark_session",
]


def __getattr__(name: str) -> Any:
    if name != "spark_session":  # loads the readers of tables
        raise AttributeError(f"module 'undertow.integrations' has no attribute {name!r}")
    return import_module("undertow.data.readers.spark").spark_session


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
    check_unit(unit)
    require_opendp()
    at: int | None = None
    from opendp.context import Context, Query

    if isinstance(measurement, Context):
        measurement, at = measurement.accountant, measurement.d_in
    elif isinstance(measurement, Query):
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
    check_unit(unit)
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


def plan_to_opendp(plan: "Plan[Any]") -> Any:
    """Return the OpenDP measurement of a plan: records in, a noisy answer out.

    One replaced record is distance 1 (change-one), at which its map is the level of the plan, or
    its rho. Discrete Laplace noise for counts, histograms and transitions, and on the lattice for
    sums and means; discrete Gaussian noise for whole numbers.

    >>> import opendp.prelude as dp
    >>> from undertow import Count, MarkovChain, calibrate
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Count("active"), chain, limit=1.0)
    >>> abs(plan_to_opendp(plan).map(1) - plan.dp_epsilon) < 1e-9
    True
    """
    plan.check_accepted()
    return to_opendp(plan.noise, plan.states, plan.length, plan.rest)


_FEATURES = ("contrib", "honest-but-curious")
"""What must be enabled in OpenDP: the answer is computed by a Python function of ours, whose
sensitivity OpenDP takes on trust."""


def to_opendp(
    noise: Noise, states: Sequence[State] = (), length: int | None = None,
    rest: State | None = None,
) -> Any:  # fmt: skip
    """Return the OpenDP measurement from a list of records to the noisy answer.

    Its input metric is the change-one distance: distance d is d replaced records, the number of
    records being public. Discrete Laplace noise for counts, histograms and transitions, and on the
    lattice for sums and means; discrete Gaussian noise for whole numbers. The privacy map at
    distance 1 is the level of the noise, or its zCDP parameter, as OpenDP rounds it; the noise is
    drawn by OpenDP. Records are texts, or numbers, as the model's states are; those in none of the
    states are in ``rest``, or in none.

    Refused, each with the reason: rounded normal noise, which OpenDP does not have on whole numbers
    (plan with noise="discrete-gaussian"); noise from a table; a selection, whose law OpenDP has but
    not its level (k + 1) / scale; histograms that are moved to a public sum; weighted sums;
    Python functions.

    >>> import opendp.prelude as dp
    >>> from undertow import Count, DiscreteLaplace
    >>> dp.enable_features("contrib", "honest-but-curious")
    >>> noisy_count = to_opendp(DiscreteLaplace(Count("active"), 4.0), ("idle", "active"))
    >>> noisy_count.map(1), type(noisy_count(["idle", "active"] * 50))
    (0.25, <class 'int'>)
    """
    require_opendp()
    import opendp.prelude as dp

    _check(noise)
    query: Any = noise.query
    exact, labelled = _counting(query, tuple(states), length, rest)
    kind, space = _kind(query, states), dp.vector_domain(dp.atom_domain(T="i64"))
    amount = lattice_amount(noise, length)
    distance: Any
    moved: Any
    if noise.shape == "discrete-gaussian":
        distance, moved, draw = dp.l2_distance(T=float), query.euclidean(length), dp.m.then_gaussian
    else:
        steps = int(query.sensitivity()) if query.integral else query.lattice().moved
        distance, moved, draw = dp.l1_distance(T="i64"), steps, dp.m.then_laplace
    try:
        measurement = dp.t.make_user_transformation(
            dp.vector_domain(dp.atom_domain(T=kind)), dp.change_one_distance(), space, distance,
            exact, lambda records: records * moved,
        )  # fmt: skip
        return measurement >> draw(scale=amount) >> labelled
    except dp.OpenDPException as error:
        raise NotSupported(
            "OpenDP did not make the measurement; enable what it needs, "
            f"dp.enable_features({', '.join(map(repr, _FEATURES))}), where you import it"
        ) from error


def _check(noise: Noise) -> None:
    """Refuse noise that OpenDP does not have with the same law and level."""
    if isinstance(noise, Selection):
        raise NotSupported(
            "OpenDP selects by the same law and states another level than (k + 1) / scale; ask it "
            "for noisy_top_k at the level plan.dp_epsilon, or release the plan here"
        )
    if not isinstance(noise, Scaled | DiscreteGaussian):
        advice = "noise='discrete-gaussian'" if noise.measure == "sigma" else "method='exchange'"
        raise NotSupported(
            f"OpenDP has no {noise.words} noise of this law on whole numbers; plan with {advice}"
        )
    if noise.query.totalled or noise.query.kind == "binary-histogram":
        raise NotSupported(
            "this histogram is moved to a public sum after the noise, which OpenDP does not do; "
            "plan with missing='any'"
        )


def _counting(
    query: Any, states: tuple[State, ...], length: int | None, rest: State | None
) -> tuple[Callable[[list[Any]], list[int]], Callable[[list[int]], Any]]:
    """Return a function from records to exact integers, and one that labels noisy ones."""
    wanted = set(states)

    def state_of(record: Any) -> Any:
        return record if rest is None or known(record, wanted) else rest

    if query.integral:
        query.numbers(states)  # refuses a model without states where they are needed

        def counted(records: list[Any]) -> list[int]:
            counts = query.evaluate([state_of(record) for record in records], states)
            return counts if isinstance(counts, list) else [counts]

        return counted, lambda numbers: query.label_answer(numbers, states)
    lattice = query.lattice()  # refused where there is none
    if lattice.weights is not None:
        raise NotSupported(
            "a weighted sum has no OpenDP measurement here; weigh the records beforehand and plan "
            "a Sum"
        )
    if length is None and lattice.lower != 0:
        raise NotSupported(
            "what a noisy sum from another end than 0 stands for depends on the number of records, "
            "which OpenDP keeps from what is done after the noise; give the model a length"
        )

    places = dict(zip(states, lattice.places or (), strict=False))

    def added(records: list[Any]) -> list[int]:
        if length is not None and len(records) != length:
            raise InvalidInput(f"the plan is for {length} records, found {len(records)}")
        if not places:
            return [sum(lattice.place(record) for record in records)]
        named = (state_of(record) for record in records)
        return [sum(places[one] if known(one, wanted) else lattice.missing for one in named)]

    return added, lambda numbers: float(query.answer(numbers[0], length or 0))


def _kind(query: Any, states: Sequence[State]) -> Any:
    """Return what OpenDP calls the type of a record."""
    named = tuple(states) or query.named
    if not query.integral and not named:
        return float
    for kind in (str, bool, int, float):
        if named and all(type(state) is kind for state in named):
            return "i64" if kind is int else kind
    raise NotSupported(
        "records of OpenDP are all texts, all whole numbers or all floats, and the states of the "
        "model are not; name them so"
    )
