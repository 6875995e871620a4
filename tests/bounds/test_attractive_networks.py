"""Attractive networks: all likelihoods by linear programs, the code for trees, and enumerations."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.oracles import memory as oracle
from undertow.bounds.memory.attractive_networks import Ratios, attractive_leakage, network_finding
from undertow.bounds.networks.counts import count_loss
from undertow.bounds.networks.leakages import tally_of
from undertow.errors import NotSupported
from undertow.models.networks import eliminate

ERROR = 1e-11
"""What linear programs of five records may be off (either side)."""


def chordal(seed, n=5, width=2, signed=False, names=None):
    """A network of pairwise interactions on a graph whose cliques grow one record at a time.

    Every record has up to ``width`` parents, which are neighbours of each other, so that a table is
    a conditional law and interactions stay pairwise; they are attractive, or ``signed`` so after
    some records are relabelled.
    """
    rng = np.random.default_rng(seed)
    parents: list[tuple[int, ...]] = [()]
    for record in range(1, n):
        other = int(rng.integers(0, record))
        clique = (*parents[other], other)
        number = int(rng.integers(1, min(len(clique), width) + 1))
        parents.append(tuple(sorted(rng.choice(clique, number, replace=False).tolist())))
    edges = [(parent, record) for record in range(n) for parent in parents[record]]
    signs = rng.choice([-1, 1], n) if signed else np.ones(n)
    pulls = {(a, b): rng.uniform(0.05, 0.8) * signs[a] * signs[b] for a, b in edges}
    spins = 2.0 * np.indices((2,) * n) - 1  # (records, values ...)
    energy = np.tensordot(rng.normal(0, 0.5, n), spins, axes=1)
    energy += sum(pull * spins[a] * spins[b] for (a, b), pull in pulls.items())
    law = np.exp(energy) / np.exp(energy).sum()
    tables = {}
    for record in range(n):
        scope = (*parents[record], record)
        table = law.sum(axis=tuple(r for r in range(n) if r not in scope))
        tables[record] = table / table.sum(axis=-1, keepdims=True)
    return ut.BayesianNetwork(edges, tables, names)


def theorem(epsilon, network, against):
    made = attractive_leakage(Ratios.level(epsilon), network, against)
    assert made is not None
    return made[0]


def over_values(joint, epsilon, target, known):
    return max(
        max(oracle.pure_dp(joint, epsilon, target, dict(zip(known, values, strict=True))))
        for values in itertools.product((0, 1), repeat=len(known))
    )


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", [1])
def test_all_likelihoods(seed, signed):
    """The linear program over all algorithms of a level, for every kind of attacker."""
    n, epsilon = 4, [0.4, 1.0, 2.5][seed % 3]
    network = chordal([seed, signed], n, width=3, signed=signed)
    joint, mechanism = network.joint(), ut.PureDP(epsilon)
    for against in ("any", "ignorant"):
        leak = ut.leakage(mechanism, network, against)
        truth = max(oracle.pure_dp_all(joint, epsilon, against))
        assert leak.lower - ERROR <= truth <= leak.upper + ERROR
        assert leak.closed
    rng = np.random.default_rng(seed)
    for target in range(n):
        others = [record for record in range(n) if record != target]
        known = tuple(sorted(rng.choice(others, int(rng.integers(0, n)), replace=False).tolist()))
        leak = ut.leakage(mechanism, network, ut.Adversary(target, known))
        truth = over_values(joint, epsilon, target, known)
        assert leak.lower - ERROR <= truth <= leak.upper + ERROR
        assert leak.closed


@law(
    settings(max_examples=1000, deadline=None), few=5,
    seed=st.integers(0, 10**6), n=st.integers(2, 6), width=st.integers(1, 3),
    theta=st.floats(0.05, 5.0),
)  # fmt: skip
def test_the_theorem_on_whole_tables(seed, n, width, theta):
    """The sums of the theorem, from the joint table of all records and for every known set."""
    network = chordal([6, seed], n, width)
    joint = network.joint()
    target, known = seed % n, tuple(r for r in range(n) if r != seed % n and seed >> r & 1)
    for against in ("any", "ignorant", ut.Adversary(target, known)):
        leak = theorem(theta, network, against)
        truth = max(oracle.tilted(joint, theta, against))
        assert leak.lower - ERROR <= truth <= leak.upper + ERROR
        assert leak.upper - leak.lower < 1e-11


@pytest.mark.parametrize("seed", [0, 1])
def test_counts_agree_with_all_outputs(seed):
    """Far answers are the worst ones of a count, and its exact code finds the same number."""
    network = chordal([4, seed], 6, width=2)
    scale, places = [0.7, 3.0][seed % 2], network.places
    tally = tally_of(ut.Count(1), network, network.length)
    ratios = Ratios.level(1 / scale)
    for against in ("any", "ignorant", ut.Adversary(places[seed % 6], [places[(seed + 2) % 6]])):
        exact = count_loss(network, tally, 1 / scale, against)
        found = network_finding(network, ratios, against)
        assert found.alike
        assert found.lower <= exact.value + exact.pad
        assert exact.value - exact.pad <= found.upper
        assert found.upper - found.lower < 1e-11


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("signed", [False, True])
def test_flips_agree_with_all_outputs(seed, signed):
    network = chordal([5, seed], 4, width=2, signed=signed)
    joint = network.joint()
    rho = [(0.1, 0.3), (0.2, 0.2)][seed % 2]
    for against in ("any", "ignorant", ut.Adversary(1, [3])):
        leak = ut.leakage(ut.RandomizedResponse.binary(*rho), network, against)
        truth = max(oracle.flips(joint, rho[0], rho[1], against))
        assert leak.lower - ERROR <= truth <= leak.upper + ERROR
        assert leak.closed
        assert {record for record, _ in leak.witness.outputs} >= {leak.witness.target}
    informed = ut.leakage(ut.RandomizedResponse.binary(*rho), network, "informed")
    assert informed.upper < 3


def test_the_attack_attains_the_lower_end():
    network = chordal(9, 5, signed=True, names=("well", "ill"))
    leak = ut.leakage(ut.PureDP(1.0), network, "any")
    attack, joint, states = leak.witness, network.joint(), network.states
    sets, sums = dict(attack.sets), {}
    for value, seen in itertools.product((attack.value, attack.other), (True, False)):
        sums[value, seen] = sum(
            joint[x] * math.exp(seen * sum(states[v] in sets.get(t, ()) for t, v in enumerate(x)))
            for x in itertools.product((0, 1), repeat=5)
            if states[x[attack.target]] == value
            and all(states[x[record]] == fact for record, fact in attack.known)
        )
    first, second = (sums[v, True] / sums[v, False] for v in (attack.value, attack.other))
    assert math.log(first / second) == pytest.approx(leak.lower, abs=1e-10)


def test_what_is_refused():
    common = [[[0.9, 0.1], [0.2, 0.8]], [[0.3, 0.7], [0.1, 0.9]]]
    effect = ut.BayesianNetwork([(0, 2), (1, 2)], {0: [0.5, 0.5], 1: [0.4, 0.6], 2: common})
    assert attractive_leakage(Ratios.level(1.0), effect, "any") is None
    zeros = ut.BayesianNetwork([(0, 1)], {0: [0.5, 0.5], 1: [[1, 0], [0.5, 0.5]]})
    assert attractive_leakage(Ratios.level(1.0), zeros, "any") is None
    three = ut.BayesianNetwork([], {0: [0.3, 0.3, 0.4]})
    assert attractive_leakage(Ratios.level(1.0), three, "any") is None
    pair = ut.BayesianNetwork([(0, 1)], {0: [0.5, 0.5], 1: [[0.9, 0.1], [0.5, 0.5]]})
    assert attractive_leakage(Ratios.level(61.0), pair, "any") is None
    assert attractive_leakage(Ratios.level(1.0), pair, "informed") is None
    path = ut.BayesianNetwork(
        [(t, t + 1) for t in range(11)],
        {0: [0.5, 0.5], **{t: [[0.9, 0.1], [0.5, 0.5]] for t in range(1, 12)}},
    )
    with pytest.raises(NotSupported, match="too many to go through"):
        network_finding(path, Ratios.level(1.0), "any")
    tiny = [(np.array([1.0, 1e-200]), (0,)), (np.array([[0.5, 1e-200], [1.0, 1.0]]), (0, 1))]
    with pytest.raises(NotSupported, match="too rare"):
        eliminate(tiny, [0], {0: 2, 1: 2}, floor=2.0**-500)
    assert eliminate(tiny, [0], {0: 2, 1: 2})[1] == 2e-200
