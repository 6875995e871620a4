"""Exact leakage of noisy counts and histograms on a small network.

Given what an adversary knows, the target's value fixes the law of the answer; the leakage is the
largest log-ratio of two such laws after the noise. Between lattice points the ratio is a Moebius
function of e^{2s/b} in each coordinate, so outputs on the lattice suffice, up to the ends of the
range, beyond which nothing changes (docs, theory: noisy counts).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.graphs import attack_on
from undertow.bounds.networks.laws import CaseTable, JointLaws, spread
from undertow.bounds.networks.tally import AnswerLattice, Ints
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.network import BayesianNetwork
from undertow.numerics import ROUNDOFF, Array

__all__ = ["Finding", "best", "check_effort", "count_finding", "found_at", "rounding", "worst_of"]

EFFORT = 6e10
"""Most work for one network: cases x outputs x (counts + `LOGARITHM`); half a minute or so."""

LONGEST = 96
"""Most records that are summed over for each of them as a target (cost: half a minute)."""

LOGARITHM = 50.0
"""What a logarithm costs beside a product."""

ORDINARY = 680.0
"""Largest -log of a likelihood that is computed without taking logarithms first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The largest loss found, the largest at far outputs, and how wrong rounding can make them.

    ``known`` pairs places of nodes with the states known; ``output`` numbers the tally's outputs.
    """

    value: float
    far: float
    pad: float
    target: int
    known: tuple[tuple[int, int], ...]
    states: tuple[int, int]
    output: int

    def witness(self, network: BayesianNetwork, tally: AnswerLattice) -> Witness:
        """Return the attack in the network's own words."""
        single = tally.outputs.shape[1] == 1
        sets: dict[int, list[int]] = {}
        if not single and self.output in tally.corners:
            still = tally.seen[-1]  # the last state moves nothing
            high = tally.outputs[still[self.output]] == tally.outputs[still].max(axis=0)  # (bins,)
            sets[self.target] = np.flatnonzero(high).tolist()
        attack = attack_on(network, self.target, self.states, dict(self.known), sets)
        return replace(attack, output=self.output if single else None)


def count_finding(
    network: BayesianNetwork, tally: AnswerLattice, rate: float, against: Against
) -> Finding | None:
    """Return the worst attack on an answer with Laplace noise, None if no target has two values.

    ``rate`` is 1 / scale. Refuses with `NotSupported`, saying why, where the network is too large.
    The informed attacker is not looked at here.
    """
    places = network.places
    if against == "any":
        whole = spread(network, tally)
        check_effort(whole, tally)
        return worst_of(whole, tally, rate, whole.targets())
    if isinstance(against, Adversary):
        held = [places[record] for record in against.known]
        return worst_of(spread(network, tally, held, places[against.target]), tally, rate, [0])
    if network.length > LONGEST:
        raise NotSupported(f"{network.length} records depend on each other, too many to sum over")
    found = [
        worst_of(spread(network, tally, (), target), tally, rate, [0]) for target in places
    ]  # fmt: skip
    return best([finding for finding in found if finding is not None])


def best(found: Sequence[Finding]) -> Finding | None:
    """Return the worst attack of several, with the largest far loss of all."""
    if not found:
        return None
    top = max(found, key=lambda finding: finding.value)
    far = max(finding.far for finding in found)
    return replace(top, far=far, pad=max(finding.pad for finding in found))


def check_effort(whole: JointLaws, tally: AnswerLattice) -> None:
    """Refuse tables with too many cases to go through."""
    cases = math.prod(whole.sizes) * len(whole.targets())
    outputs, counts = len(tally.outputs), whole.base.shape[1]
    if cases * outputs * (counts + LOGARITHM) > EFFORT:
        raise NotSupported(
            f"there are {math.prod(whole.sizes):.3g} ways to know some of the records, too many "
            "to go through"
        )


def worst_of(
    whole: JointLaws, tally: AnswerLattice, rate: float, axes: Sequence[int]
) -> Finding | None:
    """Return the worst attack on the targets of some axes."""
    states = range(len(tally.offsets))
    deepest = rate * tally.deepest
    tiny = deepest - whole.least > ORDINARY
    pad = rounding(whole, deepest)
    top, far, found = -1.0, 0.0, None
    if not tally.deepest:  # every answer is the same
        return None
    for block in whole.blocks(axes):
        table = likelihoods(block.table, tally, rate, tiny)  # (layers, outputs, cases ...)
        for axis in block.targets:
            # for each value (outputs, cases)
            scores = [block.given(table, axis, v)[0][tally.seen[v]] for v in states]
            if not (sum(~np.isnan(score) for score in scores) > 1).any():
                continue  # nobody's record can have two values
            # NaN (impossible) gives way
            most, least = reduce(np.fmax, scores), reduce(np.fmin, scores)
            loss = most - least if tiny else most / least
            loss[np.isnan(loss)] = 0.0  # no value is possible
            edge = float(loss[tally.corners].max())  # far outputs: beyond all answers
            far = max(far, edge if tiny else math.log(max(edge, 1.0)))
            output, row = np.unravel_index(int(np.argmax(loss)), loss.shape)
            value = float(loss[output, row])
            value = value if tiny else math.log(max(value, 1.0))
            if value > top:
                top = value
                column = [float(part[output, row]) for part in scores]  # (states,)
                pair = int(np.nanargmax(column)), int(np.nanargmin(column))
                found = found_at(block, axis, int(row), pair, int(output), top, pad)
    return None if found is None else replace(found, far=far)


def found_at(
    block: CaseTable,
    axis: int,
    row: int,
    pair: tuple[int, int],
    output: int,
    value: float,
    pad: float,
) -> Finding:
    """Return the attack that one case of a target stands for."""
    known = _members(block.spread, axis, block.case(axis, row))
    return Finding(value, 0.0, pad, _target(block.spread, axis), known, pair, output)


def likelihoods(table: Array, tally: AnswerLattice, rate: float, tiny: bool) -> Array:
    """Return Pr[output | case] up to a constant, or its log where it is tiny; NaN if impossible."""
    prior = table.sum(axis=1, keepdims=True)  # (layers, 1, cases ...): Pr[case]
    with np.errstate(divide="ignore", invalid="ignore"):
        if not tiny:
            return np.asarray(tally.smooth(table, rate, logs=False) / prior)
        base = np.where(prior > 0, np.log(prior), np.nan)
        return np.asarray(tally.smooth(np.log(table), rate, logs=True) - base)


def rounding(whole: JointLaws, deepest: float) -> float:
    """Return how far a computed log-ratio can lie from the true one.

    Each of four sums carries a relative error for every operation behind it, each logarithm one
    rounding of its own size, each noise weight the rounding of its exponent.
    """
    counts = whole.base.shape[1]
    size = deepest - whole.least + 1.0  # largest logarithm on the way
    return float(ROUNDOFF * (4.0 * (whole.operations + 6 * counts + 8) + 16.0 * size))


def _target(whole: JointLaws, axis: int) -> int:
    if axis < len(whole.records):
        return whole.records[axis]
    return whole.groups[axis - len(whole.records)].members[0]


def _members(whole: JointLaws, target: int, cell: dict[int, int]) -> tuple[tuple[int, int], ...]:
    """Return which nodes are known at which state in one case."""
    states = len(whole.offsets)
    known: list[tuple[int, int]] = []
    for axis, state in cell.items():
        if axis < len(whole.records):
            if axis != target and state < states:
                known.append((whole.records[axis], state))
            continue
        group = whole.groups[axis - len(whole.records)]
        cases: Ints = whole.others(axis) if axis == target else group.cases
        members = iter(group.members[1:] if axis == target else group.members)
        for value, number in enumerate(cases[state]):
            known += [(next(members), value) for _ in range(int(number))]
    return tuple(sorted(known))
