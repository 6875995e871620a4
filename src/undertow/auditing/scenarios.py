"""Scenarios of an audit: models that data can be drawn from, and attacks to try on them.

The first attack is the plan's own witness, where it has one. The others know nothing, or the
records a few steps from the target on both sides. None of them leaves what the plan guarantees
to protect from: its adversary, its secrets, its lengths.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, islice, product, zip_longest
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Adversary
from undertow.auditing.inference import lowered_law
from undertow.certificate import Witness
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.models.base import Model
from undertow.models.chains import MarkovChain
from undertow.models.gaussian import MultivariateGaussian, real_ends
from undertow.models.lowered import LoweredLaw
from undertow.models.networks import BayesianNetwork, Node
from undertow.numerics import Array
from undertow.plan import Plan

__all__ = [
    "MOST_ATTACKS",
    "ChainSource",
    "Draw",
    "DrawnModel",
    "GaussianSource",
    "NetworkSource",
    "SeriesSource",
    "attacks",
    "drawn_models",
    "secret_pairs",
    "secret_targets",
]


MOST_ATTACKS = 24
"""Attacks that are tried at most."""

DISTANCES = (8, 6, 4, 3, 2, 1)
"""Distances of the nearest known records from the target."""

LENGTH = 41
"""Records of a series whose length neither the plan nor its witness fixes."""

_MOST_MODELS = 4
"""Models that are drawn from at most, where the plan is for a set of them."""


@dataclass(frozen=True, slots=True)
class DrawnModel:
    """A model of the plan, and the number of records drawn from it.

    ``order`` names the nodes of a network in the order of the records, where it is not its own.

    >>> drawn = DrawnModel(MarkovChain([[.9, .1], [.1, .9]], states=("a", "b")), 9)
    >>> drawn.fixed(Witness(4, 9, ((2, "b"),), "a", "b"), "a")
    {2: 1, 4: 0}
    """

    model: Model
    length: int
    order: tuple[Node, ...] = ()

    @property
    def longer(self) -> bool:
        """Whether records form a chain in which more than the last one matters."""
        return self.model.lowered() is not None and not isinstance(self.model, MarkovChain)

    def code(self, value: Any) -> Any:
        """Return a value as it is drawn: the number of a state, or the real value."""
        return self.model.index(value) if self.model.states else float(value)

    def tried(self, record: int) -> tuple[Any, ...]:
        """Return the values of a known record to try: all states, or the likeliest real value."""
        if isinstance(self.model, MultivariateGaussian):
            return (float(self.model.mean[record]),)
        return self.model.states

    def fixed(self, attack: Witness, value: Any) -> dict[int, Any]:
        """Return the records whose values are given, the target among them."""
        known = {record: self.code(state) for record, state in attack.known}
        return known | {attack.target: self.code(value)}


def drawn_models(plan: "Plan[Any]") -> list[DrawnModel]:
    """Return the models to draw from: some of those that the plan covers.

    A set is represented by its members, a box of chains by its corners, an interval of frequencies
    by its ends, groups by copies of one record, bounded correlations by equal ones. Whatever leaks
    on one of them leaks. Models without a law to draw from are refused.

    >>> from undertow import Count, Laplace
    >>> from undertow.certificate import Leakage
    >>> chain, proved = MarkovChain([[.9, .1], [.1, .9]]), Leakage(1, 1, "exact", "any")
    >>> drawn_models(Plan(Laplace(Count(1), 4.0), chain, 1.0, proved, "exact"))[0].length
    41
    """
    models: list[Any] = []
    refused: list[str] = []
    order: tuple[Node, ...] = ()
    for model in plan.model.members():
        examples = model.examples(plan.query)
        models += examples
        order = model.order() or order
        refused += [] if examples else [type(model).__name__]
    if not models:
        raise NotSupported(
            f"an audit draws data from the plan's model, and a {refused[0]} is no law that data "
            "could be drawn from; audit a plan for a model of the class, such as a MarkovChain"
        )
    return [DrawnModel(model, _length(plan, model), order) for model in models[:_MOST_MODELS]]


def _length(plan: "Plan[Any]", model: Model) -> int:
    fixed = plan.mechanism.length or model.length or plan.query.records
    if fixed is not None:
        return int(fixed)
    witness, against = plan.leakage.witness, plan.against
    named = [0] if witness is None else [witness.length]
    if isinstance(against, Adversary):
        named += [1 + max((against.target, *against.known))]
    return max(named) if max(named) > 1 else LENGTH


def attacks(plan: "Plan[Any]", drawn: DrawnModel, most: int = MOST_ATTACKS) -> list[Witness]:
    """Return the attacks to try on a drawn model, the plan's witness first, each once.

    >>> from undertow import Count, Laplace
    >>> from undertow.certificate import Leakage
    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=9)
    >>> plan = Plan(Laplace(Count(1), 4.0), chain, 1.0, Leakage(1, 1, "exact", "ignorant"), "exact")
    >>> [attack.words() for attack in attacks(plan, DrawnModel(chain, 9))]
    ['target record 4 of 9, nothing known: 0 against 1']
    """
    witnesses: dict[Any, Witness] = {}
    for attack in islice(_tried(plan, drawn), 4 * most):
        key = (attack.target, attack.known, frozenset((attack.value, attack.other)))
        witnesses.setdefault(key, attack)
    return list(witnesses.values())[:most]


def _tried(plan: "Plan[Any]", drawn: DrawnModel) -> Iterator[Witness]:
    witness = plan.leakage.witness
    if witness is not None and witness.length <= drawn.length and _fits(witness, drawn):
        target, known, pair = witness.target, witness.known, (witness.value, witness.other)
        bare = Witness(target, drawn.length, known, *pair)
        yield _filled(plan, drawn, bare)
        yield bare
    by_question = [
        _question(plan, drawn, target, value, other)
        for value, other in secret_pairs(plan, drawn)
        for target in secret_targets(plan, drawn)
    ]
    for row in zip_longest(*by_question):
        for attack in row:
            if attack is not None:
                yield _filled(plan, drawn, attack)


def _question(
    plan: "Plan[Any]", drawn: DrawnModel, target: int, value: Any, other: Any
) -> Iterator[Witness]:
    for known in _known(plan, drawn, target, value, other):
        yield Witness(target, drawn.length, tuple(sorted(known.items())), value, other)


def _fits(witness: Witness, drawn: DrawnModel) -> bool:
    """Return whether the drawn model has the witness's states."""
    try:
        drawn.fixed(witness, witness.value), drawn.fixed(witness, witness.other)
    except (UnknownState, TypeError, ValueError):
        return False
    return True


def secret_targets(plan: "Plan[Any]", drawn: DrawnModel) -> list[int]:
    """Return the records to attack: the secret ones, else the middle, and ends that differ."""
    against, secret = plan.against, plan.leakage.secret.targets
    if isinstance(against, Adversary):
        return [against.target]
    if plan.task == "redact":
        return list(plan.mechanism.protect[:4])
    if secret is not None:
        return [record for record in secret if record < drawn.length][:4]
    model, last = drawn.model, drawn.length - 1
    if isinstance(model, MarkovChain):
        even = model.homogeneous and isinstance(model.start, str)
        return [drawn.length // 2] if even else sorted({drawn.length // 2, 0, last})
    if drawn.longer:  # stationary
        return [drawn.length // 2]
    return list(range(min(drawn.length, 8)))


def secret_pairs(plan: "Plan[Any]", drawn: DrawnModel) -> list[tuple[Any, Any]]:
    """Return the pairs of values to distinguish, each in one order."""
    if not drawn.model.states:
        return [real_ends(plan.query)[::-1]]
    if plan.leakage.secret.value_pairs is not None:
        return list(plan.leakage.secret.value_pairs)
    return list(combinations(drawn.model.states, 2))


def _known(
    plan: "Plan[Any]", drawn: DrawnModel, target: int, value: Any, other: Any
) -> Iterator[dict[int, Any]]:
    """Yield sets of known records, the empty one first."""
    against, model = plan.against, drawn.model
    everyone = [record for record in range(drawn.length) if record != target]
    if isinstance(against, Adversary):
        everyone = list(against.known)
    if against == "ignorant" or not everyone:
        yield {}
        return
    if isinstance(against, Adversary) or against == "informed":
        if not model.states:
            yield {record: drawn.tried(record)[0] for record in everyone}
        else:
            for state in (other, value, *model.states):
                yield dict.fromkeys(everyone, state)
            for path in _paths(drawn, target, other, value):
                yield {record: path[record] for record in everyone}
        return
    yield {}
    if isinstance(model, MarkovChain) or drawn.longer:
        for distance, state in product(DISTANCES, (other, value)):
            near = (target - distance, target + distance)
            yield {record: state for record in near if 0 <= record < drawn.length}
        return
    for record in everyone[:8]:
        yield from ({record: known} for known in drawn.tried(record))


def _paths(drawn: DrawnModel, target: int, *states: Any) -> Iterator[Mapping[int, Any]]:
    """Yield likely series in which the target's neighbours have each state."""
    if not isinstance(drawn.model, MarkovChain):
        return
    for state in states:
        near = {target - 1: state, target + 1: state}
        bare = {record: s for record, s in near.items() if 0 <= record < drawn.length}
        yield _outwards(drawn.model, bare, target, drawn.length)


def _filled(plan: "Plan[Any]", drawn: DrawnModel, attack: Witness) -> Witness:
    """Return the attack with all records beyond the nearest known ones known too.

    What is unknown out there would only blur an answer about all records. A series shows the
    records one by one, and those beyond a known one do not matter.
    """
    chain = drawn.model
    if plan.against != "any" or plan.task != "answer" or not isinstance(chain, MarkovChain):
        return attack
    known = _outwards(chain, dict(attack.known), attack.target, drawn.length)
    return replace(attack, known=tuple(sorted(known.items())))


def _outwards(
    chain: MarkovChain, known: Mapping[int, Any], target: int, length: int
) -> dict[int, Any]:
    """Return the known records and, beyond the outermost on each side, a likely continuation."""
    places = dict(known)
    right = max((record for record in known if record > target), default=None)
    left = min((record for record in known if record < target), default=None)
    if right is not None:
        for record in range(right + 1, length):
            row = chain.step(record - 1)[chain.index(places[record - 1])]
            places[record] = chain.states[int(row.argmax())]
    if left is not None:
        laws = chain.marginals(left + 1)
        for record in reversed(range(left)):
            column = chain.step(record)[:, chain.index(places[record + 1])]
            places[record] = chain.states[int((laws[record] * column).argmax())]
    return places


Draw = Callable[[int, np.random.Generator], npt.NDArray[Any]]
"""So many series, drawn with this generator."""

MOST_CONFIGURATIONS = 2**20
"""Joint states of a connected component of a network: its law is listed in full."""

_IMPOSSIBLE = (
    "these values of the target and the known records cannot occur together under the model; "
    "choose values that can"
)


class SeriesSource(Protocol):
    """Protocol of sources of random series."""

    @property
    def length(self) -> int:
        """The number of records of a series."""
        ...

    def given(self, fixed: Mapping[int, Any]) -> Draw:
        """Return a function that draws series given the values of some records."""
        ...


@dataclass(frozen=True, slots=True)
class ChainSource:
    """Records ``first`` .. ``first + length - 1`` of a Markov chain, of any order or hidden.

    Conditioning runs backwards once: h_t(s) is the probability of all fixed values after record t
    given X_t = s, and then X_{t+1} follows X_t = s with probability P(s, s') h_{t+1}(s') / h_t(s)
    (h including the indicator of a value fixed at t + 1). Linear in records and draws. Where
    states are hidden, s is a hidden state, and what is fixed leaves those that show it.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.2, .8]])
    >>> draw = ChainSource(chain, 5).given({0: 1, 4: 0})
    >>> series = draw(1000, np.random.default_rng(1))
    >>> series.shape, set(series[:, 0].tolist()), set(series[:, 4].tolist())
    ((1000, 5), {1}, {0})
    """

    chain: Model
    length: int
    first: int = 0

    @property
    def law(self) -> LoweredLaw:
        """The chain of hidden states."""
        return lowered_law(self.chain)

    def given(self, fixed: Mapping[int, Any]) -> Draw:
        """Return a function that draws series; values are numbers of states."""
        start, steps = self.laws(fixed)
        law = self.law
        # of each record (states before it, states - 1): borders between the states, for uniforms
        cuts = [np.cumsum(start)[None, :-1], *np.cumsum(steps, axis=2)[:, :, :-1]]
        # (records, states): which state is certain, whatever came before
        certain = np.concatenate([[start == 1], (steps == 1).all(axis=1)])
        kind = np.uint8 if law.size <= 256 else np.uint16
        shown = None if law.plain else law.symbols.astype(kind)

        template = certain.argmax(axis=1).astype(kind)
        unsure = np.flatnonzero(~certain.any(axis=1)).tolist()

        def draw(draws: int, generator: np.random.Generator) -> npt.NDArray[Any]:
            series = np.empty((self.length, draws), dtype=kind)  # (records, draws)
            series[:] = template[:, None]
            for record in unsure:  # the first one has no record before it, and one row of cuts
                _step(cuts[record], series[record - 1], generator.random(draws), series[record])
            return series.T if shown is None else shown[series].T  # (draws, records)

        return draw

    def laws(self, fixed: Mapping[int, int]) -> tuple[Array, Array]:
        """Return the law of the first hidden state and all transitions, given the fixed values.

        Shapes (hidden,) and (records - 1, hidden, hidden).
        """
        law = self.law
        # (records, hidden): 0 where a fixed value differs
        evidence = np.ones((self.length, law.size))
        for record, state in fixed.items():
            if not 0 <= record < self.length:
                raise InvalidInput(f"record {record} is outside the {self.length} records drawn")
            evidence[record] = law.symbols == state
        ahead = evidence[-1].copy()  # h of the last record, its own indicator included
        weights = np.empty((self.length - 1, law.size, law.size))  # (records, from, to)
        for record in reversed(range(self.length - 1)):
            weights[record] = law.kernel(self.first + record) * ahead  # P(s, s') h(s')
            ahead = evidence[record] * weights[record].sum(axis=1)  # (from,): h_t(s)
            most = ahead.max()
            if most <= 0:
                raise InvalidInput(_IMPOSSIBLE)
            ahead = ahead / most
        start = law.law(self.first) * ahead
        if start.sum() <= 0:
            raise InvalidInput(_IMPOSSIBLE)
        # states that cannot lead to the fixed values are never entered: any row will do
        weights[weights.sum(axis=2) <= 0] = 1.0
        return start / start.sum(), weights / weights.sum(axis=2, keepdims=True)


def _step(cuts: Array, before: npt.NDArray[Any], uniforms: Array, out: npt.NDArray[Any]) -> None:
    """Fill in the next states: the number of cuts of the row that a uniform number has passed."""
    if cuts.shape[1] == 1:
        border = cuts[:, 0].take(before) if len(cuts) > 1 else cuts[0, 0]
        np.greater_equal(uniforms, border, out=out, casting="unsafe")
        return
    out[:] = 0
    for column in range(cuts.shape[1]):
        border = cuts[:, column].take(before) if len(cuts) > 1 else cuts[0, column]
        out += uniforms >= border


@dataclass(frozen=True, slots=True)
class GaussianSource:
    """Jointly Gaussian records; the law of the rest is Gaussian whatever is fixed.

    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]])
    >>> series = GaussianSource(pair).given({0: 2.0})(4000, np.random.default_rng(1))
    >>> float(series[0, 0]), round(float(series[:, 1].mean()), 1)
    (2.0, 1.0)
    """

    model: MultivariateGaussian

    @property
    def length(self) -> int:
        """The number of records."""
        return self.model.length

    def given(self, fixed: Mapping[int, Any]) -> Draw:
        """Return a function that draws series; values are real numbers."""
        known = sorted(fixed)
        free = [record for record in range(self.length) if record not in fixed]
        mean, covariance = self.model.mean, self.model.covariance
        values = np.array([float(fixed[record]) for record in known])
        # the mean of the free records is linear in the known ones: gain is (free, known)
        gain = np.linalg.solve(
            covariance[np.ix_(known, known)], covariance[np.ix_(known, free)]
        ).T  # fmt: skip
        centre = mean[free] + gain @ (values - mean[known])
        rest = covariance[np.ix_(free, free)] - gain @ covariance[np.ix_(known, free)]
        # rest is the Schur complement, (free, free)
        root = np.linalg.cholesky((rest + rest.T) / 2) if free else rest

        def draw(draws: int, generator: np.random.Generator) -> npt.NDArray[Any]:
            series = np.empty((draws, self.length))
            series[:, known] = values
            series[:, free] = centre + generator.standard_normal((draws, len(free))) @ root.T
            return series

        return draw


@dataclass(frozen=True, slots=True)
class NetworkSource:
    """The records of a Bayesian network; each connected component is listed in full.

    Columns are the nodes of ``order``, by default in the network's own order.

    >>> flu = BayesianNetwork([("ann", "bob")], {"ann": [.9, .1], "bob": [[.9, .1], [.5, .5]]})
    >>> series = NetworkSource(flu).given({1: 1})(4000, np.random.default_rng(1))
    >>> round(float(series[:, 0].mean()), 1), int(series[0, 1])
    (0.4, 1)
    """

    network: BayesianNetwork
    order: tuple[Node, ...] = ()

    @property
    def length(self) -> int:
        """The number of records."""
        return self.network.length

    def given(self, fixed: Mapping[int, Any]) -> Draw:
        """Return a function that draws series; values are numbers of states."""
        numbers = {node: place for place, node in enumerate(self.order or self.network.observed)}
        parts = [(part, [numbers[node] for node in part.observed]) for part in self.network.parts()]
        laws = [(records, *_listed(part, records, fixed)) for part, records in parts]

        def draw(draws: int, generator: np.random.Generator) -> npt.NDArray[Any]:
            series = np.empty((draws, self.length), dtype=np.uint8)
            for records, states, bounds in laws:
                chosen = np.searchsorted(bounds, generator.random(draws), side="right")
                series[:, records] = states[np.minimum(chosen, len(states) - 1)]
            return series

        return draw


def _listed(
    part: BayesianNetwork, records: list[int], fixed: Mapping[int, Any]
) -> tuple[npt.NDArray[np.uint8], Array]:
    """Return the states of a part that fit the fixed values, and their cumulative law."""
    size = part.size ** len(records)
    if size > MOST_CONFIGURATIONS:
        raise NotSupported(
            f"{len(records)} records of the network depend on each other: they have "
            f"{part.size}^{len(records)} joint states, and an audit draws from at most "
            f"2^{round(math.log2(MOST_CONFIGURATIONS))}; audit the plan on a smaller network"
        )
    joint = part.joint()  # one axis for each record of the part
    where = tuple(fixed.get(record, slice(None)) for record in records)
    law = np.zeros_like(joint)
    law[where] = joint[where]
    probabilities = law.ravel()
    if probabilities.sum() <= 0:
        raise InvalidInput(_IMPOSSIBLE)
    possible = np.flatnonzero(probabilities)  # (configurations,): those that can occur
    states = np.stack(np.unravel_index(possible, joint.shape), axis=1).astype(np.uint8)
    return states, np.cumsum(probabilities[possible] / probabilities[possible].sum())
