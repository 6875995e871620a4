"""Pairs of laws of a count on networks, pedigrees and households: one pair for each case.

A case is a target, two of its values, and what an adversary knows. Those of chains, and what a
pair of laws is, are in `undertow.bounds.counts.laws`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.counts.laws import ENTRIES, CountPairs
from undertow.bounds.graphs import attack_on, lifted
from undertow.bounds.networks.counts import (
    LONGEST,
    AnswerLattice,
    CaseTable,
    Ints,
    JointLaws,
    count_tally,
    loss_at,
    spread,
)
from undertow.bounds.networks.leakages import MOST_TOGETHER
from undertow.bounds.networks.levels import distinct_parts
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.networks import BayesianNetwork, Contagion
from undertow.models.pedigrees import Pedigree
from undertow.numerics import ROUNDOFF, Array

__all__ = ["NetworkPairs", "Part", "network_pairs", "parts_of"]


@dataclass(frozen=True, slots=True)
class Part:
    """Some records of a model that depend on each other, as a network of their own.

    ``records`` are their numbers in the model, ``whole`` whether no others depend on the answer: a
    pair of a part is attained where the rest is known.
    """

    network: BayesianNetwork
    records: tuple[int, ...]
    length: int
    whole: bool


@dataclass(frozen=True, slots=True)
class _Cases:
    """Pairs that stand together: cases of one target and two of its values."""

    start: int
    block: CaseTable
    axis: int
    rows: Ints
    pair: tuple[int, int]


class NetworkPairs:
    """The pairs of one part, and the attack that each of them stands for."""

    def __init__(self, part: Part, pairs: CountPairs, cases: list[_Cases]) -> None:
        """Keep the pairs and where they come from."""
        self.part, self.pairs, self.cases = part, pairs, cases

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a case at an answer, less the counts of known records."""
        place = max(number for number, each in enumerate(self.cases) if each.start <= where)
        cases = self.cases[place]
        row = int(cases.rows[where - cases.start])
        finding = loss_at(cases.block, cases.axis, row, cases.pair, 0, 0.0, 0.0)
        attack = attack_on(
            self.part.network, finding.target, finding.states, dict(finding.known), {}
        )
        return replace(lifted(attack, self.part.records, self.part.length), output=answer)


def parts_of(model: BayesianNetwork | Contagion | Pedigree, against: Against) -> list[Part]:
    """Return the parts of a network, a pedigree or a household, one of each shape.

    The worst attacker knows all records outside a part; one who knows nothing sees a sum over all
    of them, of which the part is one summand: what it alone leaves open is an upper end.
    """
    if isinstance(model, Pedigree):
        frequency = _single_value(*model.frequencies)
        number = {person: place for place, person in enumerate(model.people)}
        families = {family.shape(): family.network(frequency) for family in model.families()}
        alone = against == "any" or len(model.families()) == 1
        return [
            Part(net, tuple(number[node] for node in net.observed), model.length, alone)
            for net in families.values()
        ]
    network = model.network(_single_value(*model.passed)) if isinstance(model, Contagion) else model
    if against != "any" and network.length <= MOST_TOGETHER:
        return [Part(network, tuple(range(network.length)), network.length, whole=True)]
    return [
        Part(net, tuple(records), network.length, against == "any")
        for net, records in distinct_parts(network, against)
    ]


def _single_value(low: float, high: float) -> float:
    """Return the one value of a parameter, or refuse an interval."""
    if low < high:
        raise NotSupported(
            "noise of any shape is planned for one network, found an interval of probabilities; "
            "pass a number, or use method='exact'"
        )
    return low


@lru_cache(maxsize=8)
def network_pairs(part: Part, counted: tuple[bool, ...], against: Against) -> NetworkPairs | None:
    """Return all cases of a part, None if no record is uncertain, or refuse what is too large."""
    network = part.network
    tally = count_tally(counted, network.length)
    laws, others, cases, operations, start = [], [], [], 0, 0
    for whole, axes in _spreads(network, tally, against):
        operations = max(operations, whole.operations)
        for block in whole.blocks(axes):
            for axis in block.targets:
                for pair in permutations(range(network.size), 2):
                    one, two, rows = _laws(block, axis, pair, tally)
                    if len(rows):
                        laws.append(one)
                        others.append(two)
                        cases.append(_Cases(start, block, axis, rows, pair))
                        start += len(rows)
                        _check_entries(start * one.shape[1])
    if not start:
        return None
    pad = 4.0 * (operations + 6 * (network.length + 1) + 8) * ROUNDOFF
    every = np.full(start, part.whole)
    pairs = CountPairs(np.concatenate(laws), np.concatenate(others), np.zeros(start), every, pad)
    return NetworkPairs(part, pairs, cases)


def _spreads(
    network: BayesianNetwork, tally: AnswerLattice, against: Against
) -> Iterator[tuple[JointLaws, list[int]]]:
    """Yield the joint laws behind all adversaries, or behind who knows nothing."""
    if against == "any":
        whole = spread(network, tally)
        states = network.size
        cases = math.prod(float(size) for size in whole.sizes) * len(whole.targets())
        _check_entries(cases * (states - 1) * (network.length + 1) * states / (states + 1))
        yield whole, whole.targets()
        return
    if network.length > LONGEST:
        raise NotSupported(f"{network.length} records depend on each other, too many to sum over")
    for target in network.places:
        yield spread(network, tally, (), target), [0]


def _laws(
    block: CaseTable, axis: int, pair: tuple[int, int], tally: AnswerLattice
) -> tuple[Array, Array, Ints]:
    """Return the laws of the count under two values, (cases, counts), where both are possible."""
    tables = [block.given(block.table, axis, value)[0] for value in pair]  # (counts, cases)
    priors = [table.sum(axis=0) for table in tables]  # (cases,)
    rows = np.flatnonzero((priors[0] > 0) & (priors[1] > 0))
    shifted = []
    for table, prior, value in zip(tables, priors, pair, strict=True):
        law = (table[:, rows] / prior[rows]).T  # (cases, counts)
        # the target's own value counts too; the last count is free, since it was left out
        shifted.append(np.roll(law, tally.offsets[value], axis=1))
    return shifted[0], shifted[1], rows


def _check_entries(entries: float) -> None:
    """Refuse more cases than fit."""
    if entries > ENTRIES:
        raise NotSupported(
            "there are too many ways to know some of the records for noise of any shape; use "
            "method='exact'"
        )
