"""Play the attacker on a family or a network: what a noisy answer says of one person.

The answer is about the people who depend on each other with the target: where there are others, the
attacker knows them, and has taken them off. The joint law of those whom the attacker does not know
is summed up in full, which small families allow: O(k^u) for u unknown people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from undertow.auditing.attackers import totals
from undertow.certificate import Witness
from undertow.errors import InvalidInput, NotSupported
from undertow.models.networks import BayesianNetwork, Node
from undertow.numerics import Array
from undertow.plan import Plan
from undertow.queries import State
from undertow_studio.views.attacker import CLOSE, ValueBelief, attained, guess_of
from undertow_studio.views.cells import Cell, Role

__all__ = ["Relatives", "network_of", "relatives_of", "worst_relatives"]

MOST_CELLS = 2**18
"""Values of all unknown people together that are gone through (cost: about a tenth of a second)."""


def network_of(plan: Plan[Any], which: int = 0) -> BayesianNetwork:
    """Return the network of a plan for a family; of an interval of frequencies either end."""
    found = [m for m in plan.model.examples(plan.query) if isinstance(m, BayesianNetwork)]
    if not found:
        raise NotSupported(
            f"relatives are those of a Pedigree or a BayesianNetwork; this plan is for a "
            f"{type(plan.model).__name__}"
        )
    return found[which % len(found)]


@dataclass(frozen=True, slots=True)
class Relatives:
    """People who depend on each other: one is the target, some are known, an answer came out.

    ``which`` chooses one end of an interval of allele frequencies. ``answer`` is a noisy answer
    about these people.
    """

    plan: Plan[Any]
    target: Node
    known: Mapping[Node, State] = field(default_factory=dict)
    answer: float | None = None
    which: int = 0

    def __post_init__(self) -> None:
        """Check that everyone is there, and in some state."""
        people = self.people
        for person in (self.target, *self.known):
            if person not in people:
                raise InvalidInput(f"{person!s} does not depend on {self.target!s}, or is not here")
        if self.target in self.known:
            raise InvalidInput(f"{self.target!s} is the target, who cannot be known")
        for person, state in self.known.items():
            if state not in self.plan.states:
                raise InvalidInput(f"{person!s} is known to be {state!r}: no such state")

    @property
    def people(self) -> tuple[Node, ...]:
        """All who depend on the target and are in the data, in the order of the model."""
        network = network_of(self.plan, self.which)
        place = network.number(self.target)
        (family,) = [part for part in network.components() if place in part]
        names = {network.nodes[one] for one in family}
        order = self.plan.model.order() or network.observed
        return tuple(person for person in order if person in names)

    def knowing(self, person: Node, state: State | None) -> "Relatives":
        """Return the family with one person known to be in a state, or forgotten (None)."""
        known = {one: value for one, value in self.known.items() if one != person}
        if state is not None:
            known[person] = state
        return replace(self, known=known)

    def toggled(self, person: Node) -> "Relatives":
        """Return the family after a click: unknown, then each state in turn, then unknown."""
        cycle: tuple[State | None, ...] = (*self.plan.states, None)
        now = self.known.get(person)
        return self.knowing(person, cycle[(cycle.index(now) + 1) % len(cycle)])

    def guess(self, value: State | None = None) -> ValueBelief:
        """Return what the attacker believes of the target; ``value`` is by default the first state.

        >>> from undertow import Count, Pedigree, calibrate
        >>> trio = Pedigree({"kim": ("bob", "ann")}, allele_frequency=.5)
        >>> plan = calibrate(Count("BB"), trio, limit=1.0, method="exact")
        >>> found = Relatives(plan, "kim", {"bob": "BB"}, answer=3.0).guess("BB")
        >>> found.prior, found.posterior > .5, found.largest <= plan.leakage.upper
        (0.5, True, True)
        """
        states = self.plan.states
        wanted = states[0] if value is None else value
        prior, likelihoods = self._weighed()
        order = list(self.plan.model.order() or network_of(self.plan, self.which).observed)
        known = [order.index(person) for person in self.known]
        inside = {order.index(person) for person in self.people}
        known += [record for record in range(len(order)) if record not in inside]
        return guess_of(
            self.plan, order.index(self.target), wanted, prior, likelihoods, known, states,
            str(self.target),
        )  # fmt: skip

    def cells(self) -> tuple[Cell, ...]:
        """Return the people as they are drawn; the record is a person's place in the model."""
        order = list(self.plan.model.order() or network_of(self.plan, self.which).observed)
        made = []
        for person in self.people:
            role: Role = "known" if person in self.known else "unknown"
            if person == self.target:
                role = "target"
            made.append(
                Cell(
                    order.index(person),
                    role,
                    str(self.known.get(person, "")),
                    label=str(person),
                )
            )
        return tuple(made)

    def _weighed(self) -> tuple[Array, Array]:
        """Return the prior of the target and ln Pr[answer | its state, known], (k,) each."""
        network = network_of(self.plan, self.which)
        size = len(self.plan.states)
        others = [p for p in self.people if p != self.target and p not in self.known]
        if size ** (len(others) + 1) > MOST_CELLS:
            raise NotSupported(
                f"{len(others)} unknown relatives have too many values together; know some of them"
            )
        # (k, k, ...): the target first, then everyone unknown
        joint = network.law([self.target, *others], dict(self.known))
        prior = joint.reshape(size, -1).sum(axis=1)
        if self.answer is None:
            return prior, np.zeros(size)
        made = totals(self.plan.noise, self.plan.states, len(self.people))
        adds = np.array(made.adds)
        count = np.zeros((), dtype=np.int64)
        for axis in range(joint.ndim):  # what all of them add up to, by their values
            count = count + adds.reshape([-1 if a == axis else 1 for a in range(joint.ndim)])
        count = count + sum(made.adds[self.plan.model.index(s)] for s in self.known.values())
        most = len(self.people) * int(adds.max())
        weights = made.log_weights(made.units([self.answer], len(self.people)), most)[0]
        peak = float(weights.max())
        told = (joint * np.exp(weights - peak)[count]).reshape(size, -1).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return prior, np.where(prior > 0, np.log(told) - np.log(prior), -np.inf)


def relatives_of(plan: Plan[Any], target: Node | None = None) -> Relatives:
    """Return a family under attack: by default its first person, nothing known, no answer yet."""
    order = plan.model.order() or network_of(plan).observed
    return Relatives(plan, order[0] if target is None else target)


def worst_relatives(plan: Plan[Any]) -> Relatives | None:
    """Return the attack that a certificate names, None where it names none on this very answer.

    A bound on all algorithms of a DP level may name an attack on another one of them; over an
    interval of frequencies, one at a frequency in between.

    >>> from undertow import Count, Pedigree, calibrate
    >>> trio = Pedigree({"kim": ("bob", "ann")}, allele_frequency=.5)
    >>> plan = calibrate(Count("BB"), trio, limit=1.0, method="exact")
    >>> found = worst_relatives(plan).guess()
    >>> abs(found.largest - plan.leakage.lower) < 1e-9
    True
    """
    witness: Witness | None = plan.leakage.witness
    if witness is None or plan.task != "answer":
        return None
    order = plan.model.order() or network_of(plan).observed
    family = Relatives(plan, order[witness.target])
    people = set(family.people)
    known = {order[record]: state for record, state in witness.known if order[record] in people}
    made = totals(plan.noise, plan.states, len(people))
    # the certificate's answer leaves out what the known people add; without one, all or nobody
    more = sum(made.adds[plan.model.index(state)] for state in known.values())
    extremes = (len(people) * max(made.adds), 0)
    answers = extremes if witness.output is None else (witness.output + more,)
    for answer in answers:
        found = replace(family, known=known, answer=float(answer))
        moved = attained(found.guess(witness.value), witness.value, witness.other)
        if moved >= plan.leakage.lower - CLOSE:
            return found
    return None
