"""Leakage of mechanisms about one person of a pedigree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from undertow.adversaries import Adversary, Against, check_against, check_records, within
from undertow.bounds.graphs import attack_on, lifted, possible
from undertow.bounds.metric import refused
from undertow.bounds.networks.contagions import frequency_bracket
from undertow.bounds.networks.counts import CaseLoss, count_loss
from undertow.bounds.networks.leakages import tally_of
from undertow.bounds.networks.levels import dependent_records, level_leakage
from undertow.bounds.protocol import AnswerProver, Prover
from undertow.certificate import Leakage, Witness
from undertow.errors import NotSupported
from undertow.mechanisms import Levelled, MetricDP, PureDP, Scaled
from undertow.models.networks import BayesianNetwork
from undertow.models.pedigrees import GENOTYPES, Family, Pedigree
from undertow.numerics import divide_up, down, up
from undertow.queries import Count, Histogram

__all__ = ["PROVERS", "leakage"]

MOST_FAMILIES = 4
"""Families looked at where one of them is too large for an exact answer anyway."""

UNKNOWING_PEOPLE = 48
"""Most people of a large family whose leakage to one who knows none of them is computed."""


def leakage(mechanism: Levelled | MetricDP, model: Pedigree, against: Against = "any") -> Leakage:
    """Compute the leakage about one person's genotype, as a certified interval.

    Families are independent, so the leakage is that of the worst one, and families of the same
    shape are looked at once. Counts and histograms with (discrete) Laplace noise are exact where
    a family has up to ten people or so, childless siblings counting little; over an interval of
    allele frequencies the worst one is searched until the bracket closes. Larger families, and all
    other mechanisms, have the bound m epsilon for m people (Theorem 4.2 of [lange2024]), which
    siblings nearly reach (Corollary 5.2); for `PureDP` on families of at most three, at one
    frequency, linear programs find the optimum.

    >>> from undertow.mechanisms import Laplace
    >>> trio = Pedigree({"kim": ("bob", "ann")}, allele_frequency=0.5)
    >>> leak = leakage(Laplace(Count("BB"), scale=1.0), trio)
    >>> round(leak.upper, 6), leak.method
    (2.240229, 'exact')
    """
    mechanism, against = refused(mechanism), check_against(against)
    check_records(against, model.length)
    families = model.families()
    if isinstance(against, Adversary):
        family = next(f for f in families if against.target in f.records)
        alone = len(families) == 1 or set(against.known) >= set(range(model.length)) - {
            *family.records
        }
        return _Question(mechanism, model, against, alone).answer(family)
    alone = against in ("any", "informed") or len(families) == 1
    question = _Question(mechanism, model, against, alone)
    leaks: list[Leakage] = []
    seen: set[tuple[object, ...]] = set()
    for family in sorted(families, key=lambda family: -family.length):
        general = question.times(family.length)
        if leaks and general <= max(leak.lower for leak in leaks):
            break  # neither this family nor a smaller one can be the worst
        loose = max((leak.upper for leak in leaks if leak.method == "group"), default=0.0)
        if general <= loose and len(leaks) >= MOST_FAMILIES:
            break  # nothing can lower the upper end any more
        shape = family.shape()
        if shape not in seen:
            seen.add(shape)
            leaks.append(question.answer(family))
    top = max(leaks, key=lambda leak: (leak.upper, leak.lower))
    shown = max(leaks, key=lambda leak: leak.lower)
    return replace(top, lower=shown.lower, witness=shown.witness)


@dataclass(frozen=True, slots=True)
class _Question:
    """One mechanism against one adversary; ``alone`` if the other families are known."""

    mechanism: Levelled
    model: Pedigree
    against: Against
    alone: bool

    def answer(self, family: Family) -> Leakage:
        """Return the leakage about the members of one family."""
        mechanism = self.mechanism
        if self.against == "informed":
            return self._informed(family)
        if isinstance(mechanism, PureDP) or not isinstance(mechanism.query, Count | Histogram):
            return self._level(family, None)
        try:
            return self._exact(family, mechanism)
        except NotSupported as error:
            return self._level(family, str(error))

    def times(self, people: int) -> float:
        """Return the general bound for so many people: their number times the DP level."""
        if isinstance(self.mechanism, PureDP):
            return divide_up(Fraction(people) * Fraction(self.mechanism.epsilon), 1.0)
        moved = self.mechanism.query.sensitivity_upper(self.model.length)
        return divide_up(Fraction(people) * Fraction(moved), self.mechanism.scale)

    def _order(self, family: Family) -> list[int]:
        """Return the pedigree's number of each record of the family's network."""
        number = {person: place for place, person in enumerate(self.model.people)}
        return [number[node] for node in family.network(0.5).observed]

    def _exact(self, family: Family, mechanism: Scaled) -> Leakage:
        """Return the exact leakage about a family, over the interval of frequencies."""
        low, high = self.model.frequencies
        local, rate = within(self.against, self._order(family)), 1 / mechanism.scale
        network = family.network(low)
        tally = tally_of(mechanism.query, network, family.length)
        notes = [_FOLLOWS, f"founders have B with frequency {_words(low, high)}"]
        finding: CaseLoss | None
        if low == high:
            finding = count_loss(network, tally, rate, local)
            most = self.times(family.length)
            upper = 0.0 if finding is None else min(up(finding.value + finding.pad), most)
        else:
            ceiling = self.times(dependent_records(network, local))
            bracket = frequency_bracket(family, tally, rate, local, low, high, ceiling)
            finding = None if bracket is None else bracket.finding
            upper = 0.0 if bracket is None else min(up(bracket.upper), ceiling)
            if bracket is not None:
                notes.append(f"the worst frequency found is {bracket.frequency:.6g}")
                if not bracket.closed:
                    notes.append(
                        "the family is too large to search all frequencies to the end: a narrower "
                        "range of frequencies gives a narrower interval"
                    )
        if finding is None:
            return self._leakage(0.0, 0.0, "exact", None, notes)
        value, witness = finding.value, self._lifted(finding.witness(network, tally), family)
        if not self.alone:  # people of other families blur the answer, but not far answers
            value = finding.far
            notes.append("an upper bound, attained if the other families are known")
        lower = min(max(down(value - finding.pad), 0.0), upper)
        return self._leakage(lower, upper, "exact", witness, notes)

    def _level(self, family: Family, reason: str | None) -> Leakage:
        """Return m times the DP level, with a lower end that some count attains."""
        local = within(self.against, self._order(family))
        people = dependent_records(family.network(0.5), local)
        upper = self.times(people)
        notes = [f"at most {people} people depend on each other, in any way"]
        if reason is not None:
            notes.append(f"the general bound is in force because {reason}")
        method, lower, witness = "group", 0.0, None
        if self.against == "any":
            lower, witness = max(
                self._siblings(family), self._unknowing(family), key=lambda attack: attack[0]
            )
        if isinstance(self.mechanism, PureDP):
            epsilon, frequencies = self.mechanism.epsilon, dict.fromkeys(self.model.frequencies)
            for frequency in frequencies:
                leak = level_leakage(epsilon, family.network(frequency), local)
                if leak.lower > lower and leak.witness is not None:
                    lower, witness = leak.lower, self._lifted(leak.witness, family)
                if len(frequencies) == 1 and leak.upper < upper:
                    upper, method = leak.upper, leak.method
                    notes = [_FOLLOWS, *leak.assumptions[1:]]
        return self._leakage(min(lower, upper), upper, method, witness, notes)

    def _siblings(self, family: Family) -> tuple[float, Witness | None]:
        """Return the lower end of Corollary 5.2 of [lange2024]: one parent moves all children.

        The other parent is known to be homozygous, so the target's two homozygous genotypes fix
        all common children; everyone else is known to be Bb. Tried for the couple with the most
        children, and checked to be possible.
        """
        network = family.network(0.5)
        couples: dict[tuple[int, ...], list[int]] = {}
        records = {*network.places}
        for child, parents in enumerate(network.parents):
            if parents and records >= {child, *parents}:
                couples.setdefault(tuple(sorted(parents)), []).append(child)
        for parents, children in sorted(couples.items(), key=lambda item: -len(item[1])):
            for spouse, value, other, hit, miss in ((0, 2, 0, 1, 0), (2, 0, 2, 1, 2)):
                moved = self._moved([(value, other), *[(hit, miss)] * len(children)])
                facts = dict.fromkeys(sorted(records - {*parents, *children}), 1)
                facts[parents[0]] = spouse
                ways = [{**facts, parents[1]: state} for state in (value, other)]
                if moved > 0 and all(possible(network, way) for way in ways):
                    attack = attack_on(network, parents[1], (value, other), facts)
                    return down(moved), self._lifted(attack, family)
        return 0.0, None

    def _unknowing(self, family: Family) -> tuple[float, Witness | None]:
        """Return the loss and attack of one who knows nobody of a family, if it is small enough."""
        mechanism = self.mechanism
        shown: tuple[float, Witness | None] = (0.0, None)
        if isinstance(mechanism, PureDP) or family.length > UNKNOWING_PEOPLE:
            return shown
        for frequency in dict.fromkeys(self.model.frequencies):
            network = family.network(frequency)
            try:
                tally = tally_of(mechanism.query, network, family.length)
                finding = count_loss(network, tally, 1 / mechanism.scale, "ignorant")
            except NotSupported:
                continue
            if finding is not None and down(finding.value - finding.pad) > shown[0]:
                attack = self._lifted(finding.witness(network, tally), family)
                shown = down(finding.value - finding.pad), attack
        return shown

    def _moved(self, changes: Sequence[tuple[int, int]]) -> float:
        """Return how much these changes of genotype move the log-likelihood of a far answer."""
        mechanism = self.mechanism
        if isinstance(mechanism, PureDP):
            return len(changes) * mechanism.epsilon
        if not isinstance(mechanism.query, Count | Histogram):
            return 0.0
        tally = tally_of(mechanism.query, _ALONE, 1)
        step = tally.points[list(tally.offsets)]  # (genotypes, bins)
        total = np.sum([step[one] - step[two] for one, two in changes], axis=0)  # (bins,)
        return float(np.abs(total).sum()) / mechanism.scale

    def _informed(self, family: Family) -> Leakage:
        """Return the level of plain DP: some person's genotype is open though all others are known.

        A childless person with two heterozygous parents, or a founder without children, can have
        any genotype; every family has such a person.
        """
        worth = [self._moved([pair]) for pair in ((0, 1), (1, 2), (0, 2))]
        counted = isinstance(self.mechanism, PureDP) or isinstance(
            self.mechanism.query, Count | Histogram
        )
        attained = counted and max(worth) > 0
        upper = 0.0 if counted and not attained else self.times(1)
        notes = ["all other people are known"]
        return self._leakage(down(upper) if attained else 0.0, upper, "informed", None, notes)

    def _lifted(self, witness: Witness, family: Family) -> Witness:
        """Return a family's attack with its members numbered as in the pedigree."""
        return lifted(witness, self._order(family), self.model.length)

    def _leakage(
        self, lower: float, upper: float, method: str, witness: Witness | None, notes: list[str]
    ) -> Leakage:
        """Return a leakage with the citation of its method."""
        where = {
            "exact": "docs, theory: noisy counts",
            "exchange": "docs, theory: networks",
            "group": "Theorem 4.2 of [lange2024]",
            "informed": "definition of differential privacy",
            "quilt": "Theorem 4.4 of [wang2016]",
        }
        return Leakage(lower, upper, method, self.against, witness, tuple(notes), where[method])


_FOLLOWS = "genotypes follow Mendel's laws, founders the Hardy-Weinberg proportions"
_ALONE = BayesianNetwork([], {"one": [0.25, 0.5, 0.25]}, GENOTYPES)


def _words(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"between {low:g} and {high:g}"


PROVERS: tuple[Prover, ...] = (AnswerProver("pedigree", Pedigree, leakage),)
