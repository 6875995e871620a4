"""Where an audit looks: models that data can be drawn from, and the attacks to try on them.

The first attack is the plan's own witness, where it has one. The others know nothing, or the
records a few steps from the target on both sides. None of them leaves what the plan guarantees
to protect from: its adversary, its secrets, its lengths.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, islice, product, zip_longest
from typing import Any

from undertow.adversaries import Adversary
from undertow.certificate import Witness
from undertow.errors import NotSupported, UnknownState
from undertow.models.base import Model
from undertow.models.gaussian import MultivariateGaussian, real_ends
from undertow.models.markov import MarkovChain
from undertow.models.network import Node
from undertow.plan import Plan

__all__ = [
    "MOST_ATTACKS",
    "DrawnModel",
    "attacks",
    "drawn_models",
    "secret_pairs",
    "secret_targets",
]

MOST_ATTACKS = 24
"""Attacks that are tried at most."""

DISTANCES = (8, 6, 4, 3, 2, 1)
"""How far from the target the nearest known records are."""

LENGTH = 41
"""Records of a series whose length neither the plan nor its witness fixes."""

_MOST_MODELS = 4
"""Models that are drawn from at most, where the plan is for a set of them."""


@dataclass(frozen=True, slots=True)
class DrawnModel:
    """One model that the plan is for, and how many records are drawn from it.

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
        """Return a value as it is drawn: the number of a state, or the number that it is."""
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
    """Return the models to draw from: all the plan is for, or a few of them.

    A set is represented by its members, a box of chains by its corners, an interval of frequencies
    by its ends, groups by copies of one record, bounded correlations by equal ones. Whatever leaks
    on one of them leaks. Models without a law to draw from are refused.

    >>> from undertow import Count, Laplace
    >>> from undertow.certificate import Leakage
    >>> chain, proved = MarkovChain([[.9, .1], [.1, .9]]), Leakage(1, 1, "exact", "any")
    >>> drawn_models(Plan(Laplace(Count(1), 4.0), chain, 1.0, proved, "exact"))[0].length
    41
    """
    found: list[Any] = []
    refused: list[str] = []
    order: tuple[Node, ...] = ()
    for model in plan.model.members():
        examples = model.examples(plan.query)
        found += examples
        order = model.order() or order
        refused += [] if examples else [type(model).__name__]
    if not found:
        raise NotSupported(
            f"an audit draws data from the plan's model, and a {refused[0]} is no law that data "
            "could be drawn from; audit a plan for a model of the class, such as a MarkovChain"
        )
    return [DrawnModel(model, _length(plan, model), order) for model in found[:_MOST_MODELS]]


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
    found: dict[Any, Witness] = {}
    for attack in islice(_tried(plan, drawn), 4 * most):
        key = (attack.target, attack.known, frozenset((attack.value, attack.other)))
        found.setdefault(key, attack)
    return list(found.values())[:most]


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
    against, secret = plan.against, plan.leakage.secrets.records
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
    """Return the values to tell apart, in one order each: events look both ways."""
    if not drawn.model.states:
        return [real_ends(plan.query)[::-1]]
    if plan.leakage.secrets.pairs is not None:
        return list(plan.leakage.secrets.pairs)
    return list(combinations(drawn.model.states, 2))


def _known(
    plan: "Plan[Any]", drawn: DrawnModel, target: int, value: Any, other: Any
) -> Iterator[dict[int, Any]]:
    """Yield what the attacker may know, nothing first."""
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
    found = dict(known)
    right = max((record for record in known if record > target), default=None)
    left = min((record for record in known if record < target), default=None)
    if right is not None:
        for record in range(right + 1, length):
            row = chain.step(record - 1)[chain.index(found[record - 1])]
            found[record] = chain.states[int(row.argmax())]
    if left is not None:
        laws = chain.marginals(left + 1)
        for record in reversed(range(left)):
            column = chain.step(record)[:, chain.index(found[record + 1])]
            found[record] = chain.states[int((laws[record] * column).argmax())]
    return found
