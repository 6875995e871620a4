"""Networks and pedigrees by brute force: every combination of values, known sets and outputs.

Nothing here uses the library's elimination, its tables of known sets or its Mendelian table:
joint laws are sums over all nodes' values written out, genotypes are counted allele by allele.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.oracles.enumeration import adversaries, grouped, law_leakage
from tests.strategies import laws
from undertow.models.networks import BayesianNetwork

TIGHT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}

Joint = dict[tuple[int, ...], float]


# --- joint laws -----------------------------------------------------------------------------------


def joint_of(network: BayesianNetwork) -> Joint:
    """The probability of every combination of the records' values, latent nodes summed out."""
    nodes, cpds = list(network.nodes), network.cpds
    parents = {node: [p for p, child in network.edges if child == node] for node in nodes}
    probabilities: dict[tuple[int, ...], list[float]] = {}
    for values in itertools.product(*(range(cpds[node].shape[-1]) for node in nodes)):
        here = dict(zip(nodes, values, strict=True))
        probability = math.prod(
            float(cpds[node][(*(here[p] for p in parents[node]), here[node])]) for node in nodes
        )
        if probability > 0:
            probabilities.setdefault(tuple(here[node] for node in network.observed), []).append(
                probability
            )
    return {values: math.fsum(parts) for values, parts in probabilities.items()}


def genotype_joint(
    parents: Mapping[str, tuple[str | None, str | None]], people: Sequence[str], p: float
) -> Joint:
    """The probability of all genotypes (2 minus the number of alleles B), one allele at a time.

    A child with one unknown parent gets that parent's allele from the population, as a founder's.
    """
    below = {child for child, pair in parents.items() if any(pair)}
    everyone = sorted({*people, *(q for pair in parents.values() for q in pair if q)})
    drawn = [person for person in everyone if person not in below]
    coins = sum(2 for _ in drawn) + sum(2 for _ in below)
    probabilities: dict[tuple[int, ...], list[float]] = {}
    for bits in itertools.product((0, 1), repeat=coins):
        flips = iter(bits)
        probability, alleles = 1.0, {}
        for person in drawn:
            alleles[person] = (next(flips), next(flips))
            probability *= math.prod(p if allele else 1 - p for allele in alleles[person])
        for child in _downwards(parents, below):
            got = []
            for parent in parents[child]:
                coin = next(flips)
                if parent is None:  # an allele of the population
                    got.append(coin)
                    probability *= p if coin else 1 - p
                else:
                    got.append(alleles[parent][coin])
                    probability *= 0.5
            alleles[child] = (got[0], got[1])
        key = tuple(2 - sum(alleles[person]) for person in people)
        probabilities.setdefault(key, []).append(probability)
    return {values: math.fsum(parts) for values, parts in probabilities.items()}


def _downwards(parents: Mapping[str, tuple[str | None, str | None]], below: set[str]) -> list[str]:
    order: list[str] = []
    while len(order) < len(below):
        order += [
            child
            for child in sorted(below)
            if child not in order
            and all(q is None or q not in below or q in order for q in parents[child])
        ]
    return order


# --- adversaries ----------------------------------------------------------------------------------


def conditionals(joint: Joint, target: int, known: Sequence[int]) -> dict[Any, dict[int, Joint]]:
    """The records' law given each value of the target, for all values of the known records."""
    return {
        facts: {value: {v: joint[v] for v in members} for value, members in by_value.items()}
        for facts, by_value in grouped(joint, target, known).items()
    }


# --- leakages -------------------------------------------------------------------------------------


def count_leakage(
    joint: Joint, counted: Sequence[int], rate: float, against: Any, *, fine: bool = False
) -> float:
    """What a noisy count leaks; ``fine`` also looks between and beyond the integers."""
    length = len(next(iter(joint)))
    step = 4 if fine else 1
    outputs = np.arange(-3 * step, (length + 3) * step + 1) / step
    return law_leakage(
        joint, lambda values: -rate * np.abs(outputs - sum(v in counted for v in values)), against
    )


def histogram_leakage(joint: Joint, states: int, rate: float, against: Any) -> float:
    """What a noisy histogram leaks."""
    length = len(next(iter(joint)))
    outputs = np.array(list(itertools.product(range(-1, length + 2), repeat=states)))

    def score(values: tuple[int, ...]) -> Any:
        return -rate * np.abs(outputs - [values.count(k) for k in range(states)]).sum(axis=1)

    return law_leakage(joint, score, against)


def level_leakage(joint: Joint, states: int, epsilon: float, against: Any) -> float:
    """The most that any epsilon-DP algorithm leaks, by one linear program per adversary and pair.

    The unknowns are the likelihoods of one output for all data sets that agree with what is known;
    impossible data sets stay in, because possible ones are neighbours only through them.
    """
    length = len(next(iter(joint)))
    worst = 0.0
    for target, known in adversaries(length, against):
        free = [record for record in range(length) if record not in known]
        cells = list(itertools.product(range(states), repeat=len(free)))
        number = {cell: place for place, cell in enumerate(cells)}
        rows = []
        for cell in cells:
            for place, state in itertools.product(range(len(free)), range(states)):
                beside = (*cell[:place], state, *cell[place + 1 :])
                if beside != cell:
                    row = np.zeros(len(cells))
                    row[number[cell]], row[number[beside]] = 1.0, -math.exp(epsilon)
                    rows.append(row)
        for by_value in conditionals(joint, target, known).values():
            weights = {}
            for value, law in by_value.items():
                weight = np.zeros(len(cells))
                for values, probability in law.items():
                    weight[number[tuple(values[record] for record in free)]] += probability
                weights[value] = weight / weight.sum()
            for x, other in itertools.permutations(weights, 2):
                done: Any = linprog(
                    -weights[x],
                    A_ub=np.array(rows),
                    b_ub=np.zeros(len(rows)),
                    A_eq=weights[other][None],
                    b_eq=[1.0],
                    options=TIGHT,
                )
                assert done.status == 0
                worst = max(worst, math.log(-done.fun))
    return worst


def attacked(
    joint: Joint, witness: Any, states: Sequence[Any],
    likelihood: Callable[[tuple[int, ...]], float],
) -> float:  # fmt: skip
    """What one attack sees: the log-ratio for its target, known values and likelihood."""
    place = {state: number for number, state in enumerate(states)}
    facts = {record: place[value] for record, value in witness.known}
    sides = []
    for value in (witness.value, witness.other):
        law = {
            values: probability
            for values, probability in joint.items()
            if values[witness.target] == place[value]
            and all(values[record] == state for record, state in facts.items())
        }
        total = math.fsum(law.values())
        assert total > 0, "the attack is impossible"
        sides.append(math.fsum(c * likelihood(v) for v, c in law.items()) / total)
    return math.log(sides[0] / sides[1])


def count_attack(joint: Joint, witness: Any, states: Sequence[Any], counted: Any, rate: float):
    """What the attack on a noisy count sees at its output."""
    place = {state: number for number, state in enumerate(states)}
    marks = {place[state] for state in counted}
    known = dict(witness.known)
    shift = witness.output + sum(place[value] in marks for value in known.values())

    def likelihood(values: tuple[int, ...]) -> float:
        return math.exp(-rate * abs(shift - sum(value in marks for value in values)))

    return attacked(joint, witness, states, likelihood)


def sets_attack(joint: Joint, witness: Any, states: Sequence[Any], epsilon: float):
    """What the attack on the worst algorithm sees: it rewards sets of states."""
    sets = {record: {list(states).index(s) for s in names} for record, names in witness.sets}

    def likelihood(values: tuple[int, ...]) -> float:
        return math.exp(
            epsilon * sum(values[record] in members for record, members in sets.items())
        )

    return attacked(joint, witness, states, likelihood)


# --- quilts and distances -------------------------------------------------------------------------


def influence(joint: Joint, target: int, quilt: Sequence[int], known: Sequence[int] = ()) -> float:
    """The largest log-ratio of a quilt's probabilities under two values of a target."""
    worst = 0.0
    for by_value in conditionals(joint, target, known).values():
        laws = []
        for law in by_value.values():
            total = math.fsum(law.values())
            shares: dict[tuple[int, ...], list[float]] = {}
            for values, probability in law.items():
                shares.setdefault(tuple(values[r] for r in quilt), []).append(probability / total)
            laws.append({key: math.fsum(parts) for key, parts in shares.items()})
        for first, second in itertools.permutations(laws, 2):
            for key, share in first.items():
                other = second.get(key, 0.0)
                worst = max(worst, math.log(share / other) if other else math.inf)
    return worst


def distance(joint: Joint, counted: Sequence[int]) -> int:
    """W-infinity of a count, over all targets: the least w with F1(m) <= F2(m + w) both ways."""
    length = len(next(iter(joint)))
    worst = 0
    for target in range(length):
        by_value = conditionals(joint, target, ())[()]
        laws = []
        for law in by_value.values():
            total = sum(Fraction(probability) for probability in law.values())
            shares = [Fraction(0)] * (length + 1)
            for values, probability in law.items():
                shares[sum(v in counted for v in values)] += Fraction(probability) / total
            laws.append(list(itertools.accumulate(shares)))
        for one, two in itertools.permutations(laws, 2):
            w = 0
            while any(one[m] > two[min(m + w, length)] + Fraction(1, 10**12)
                      for m in range(length + 1)):  # fmt: skip
                w += 1
            worst = max(worst, w)
    return worst


# --- random models --------------------------------------------------------------------------------


@st.composite
def networks(
    draw: st.DrawFn, *, most: int = 4, states: int | None = None, parents: int = 2,
    latent: bool = True, zeros: bool = True,
) -> BayesianNetwork:  # fmt: skip
    """Small networks of every kind; ``parents=1`` gives trees."""
    size = states or draw(st.integers(2, 3))
    count = draw(st.integers(1, most))
    above = [
        sorted(draw(st.sets(st.integers(0, node - 1), max_size=parents))) if node else []
        for node in range(count)
    ]
    cpds = {}
    for node in range(count):
        shape = (size,) * len(above[node])
        rows = [draw(laws(size, zeros=zeros)) for _ in range(size ** len(above[node]))]
        cpds[node] = np.array(rows).reshape((*shape, size))
    edges = [(parent, node) for node in range(count) for parent in above[node]]
    hidden = draw(st.sets(st.integers(0, count - 1), max_size=count - 1)) if latent else set()
    return BayesianNetwork(edges, cpds, latent=hidden)
