"""Integrations with other libraries: OpenDP, Tumult Analytics and Spark.

`from_opendp` and `from_tumult` read the guarantee of an algorithm of theirs, `plan_to_opendp`
returns a plan as a measurement that OpenDP runs, `spark_session` starts Spark for tables.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from undertow.errors import InvalidInput, NotSupported
from undertow.guarantees import from_opendp, from_tumult, require_opendp
from undertow.mechanisms import DiscreteGaussian, Noise, Scaled, Selection, lattice_amount
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
