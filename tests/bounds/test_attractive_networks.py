"""Attractive networks, and sums of ordered states, against all likelihoods and outputs."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import undertow as ut
from tests.grids import law
from tests.oracles import memory as oracle
from tests.oracles.memory import conditional
from undertow.bounds.memory.attractive import (
    metric_values,
    ordered_leakage,
)
from undertow.bounds.memory.attractive_networks import Ratios, attractive_leakage, network_finding
from undertow.bounds.networks.counts import count_loss
from undertow.bounds.networks.leakages import tally_of
from undertow.errors import InvalidModel, MethodRefused, NotSupported
from undertow.models.networks import eliminate
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    chain_joint,
    mechanism_leakage,
)

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


"""What enumerations of five records may be off (either side)."""


RISING = np.array([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25], [0.1, 0.2, 0.7]])


def rising(seed, size, zeros=False):
    """A totally positive step: exp(a_i b_j) up to factors, or one that moves by one state."""
    rng = np.random.default_rng([seed, size])
    if zeros:
        up, down = rng.uniform(0.05, 0.3, (2, size))
        up[-1] = down[0] = 0.0
        step = np.diag(up[:-1], 1) + np.diag(down[1:], -1)
        return step + np.diag(1 - step.sum(axis=1))
    rows, columns = np.cumsum(rng.uniform(0.1, 1, (2, size)), axis=1)
    step = np.exp(rng.uniform(0.1, 1.5) * np.outer(rows, columns) + rng.normal(0, 1, size))
    return step / step.sum(axis=1, keepdims=True)


def shuffled(step, numbers, seed):
    """The same chain with its states named in another order."""
    order = np.random.default_rng(seed).permutation(len(step))
    return step[np.ix_(order, order)], tuple(numbers[place] for place in order)


def by_rate(rate):
    values = metric_values(ut.MetricDP(rate), (0, 1, 2))
    assert values is not None
    return values


def attackers(seed, n):
    yield "any", "any"
    yield "ignorant", "ignorant"
    rng = np.random.default_rng([9, seed])
    for target in range(n):
        others = [record for record in range(n) if record != target]
        known = tuple(sorted(rng.choice(others, int(rng.integers(0, n)), replace=False).tolist()))
        yield ut.Adversary(target, known), (target, known)


@pytest.mark.parametrize("seed", range(6))
def test_sums_agree_with_all_outputs(seed):
    """All series, attackers and answers of up to five records."""
    rng = np.random.default_rng([1, seed])
    size, n = [(3, 3), (2, 5), (3, 4), (4, 3), (3, 5), (2, 4)][seed % 6]
    even = seed % 3 > 0 or size == 2
    numbers = [-3, -2, -1, 0][:size] if even else (np.cumsum(rng.integers(1, 3, size)) - 3).tolist()
    step, states = shuffled(rising(seed, size, zeros=seed % 4 == 3), numbers, seed)
    start = "stationary" if seed % 2 else rng.dirichlet(np.ones(size))
    chain = ut.MarkovChain(step, states, start=start, length=n)
    low, high = min(states), max(states)
    scale = float(rng.uniform(0.5, 6))
    joint = chain_joint(chain.initial, chain.transition, n)
    likelihood = additive_noise_likelihood(list(states), scale, n)
    noisy: list[Any] = [ut.MetricDP(1 / scale)]  # states need not be evenly spaced
    if even:
        noisy.append(ut.Laplace(ut.Sum(low, high, steps=high - low), scale))
        noisy.append(ut.Laplace(ut.Mean(low, high, steps=high - low), scale / n))
    for against, asked in attackers(seed, n):
        truth = mechanism_leakage(joint, likelihood, asked).leakage
        for mechanism in noisy:
            leak = ut.leakage(mechanism, chain, against)
            assert leak.lower - ERROR <= truth <= leak.upper + ERROR
            assert leak.closed
            assert leak.method == "exact" or size == 2


@pytest.mark.parametrize("seed", [0, 1])
def test_metric_privacy_agrees_with_all_likelihoods(seed):
    """The linear program over all likelihoods that move by at most rate |v - v'|."""
    n, rate, numbers = 3, [0.3, 1.0][seed % 2], (0.0, 0.5, 2.0)
    step = rising(seed, 3)
    chain = ut.MarkovChain(step, numbers, length=n)
    joint = chain_joint(chain.initial, step, n)
    for target, known in [(1, ()), (0, ()), (1, (0,)), (0, (1,))]:
        truth = 0.0
        for facts in itertools.product(range(3), repeat=len(known)):
            laws = conditional(joint, target, dict(zip(known, facts, strict=True)))
            for x, y in itertools.permutations(range(3), 2):
                gain = metric_gain(laws[x], laws[y], rate, numbers, n - 1 - len(known))
                truth = max(truth, rate * abs(numbers[x] - numbers[y]) + gain)
        leak = ut.leakage(ut.MetricDP(rate), chain, ut.Adversary(target, known))
        assert leak.closed
        assert leak.lower - 1e-9 <= truth <= leak.upper + 1e-9


def metric_gain(top, bottom, rate, numbers, records):
    """max ln E_top f / E_bottom f over likelihoods f with that rate, by linear programming."""
    points = list(itertools.product(range(3), repeat=records))
    rows, place = [], {point: index for index, point in enumerate(points)}
    for point, record, value in itertools.product(points, range(records), range(3)):
        if value != point[record]:
            row = np.zeros(len(points))
            row[place[point]] = 1.0
            row[place[(*point[:record], value, *point[record + 1 :])]] = -math.exp(
                rate * abs(numbers[value] - numbers[point[record]])
            )
            rows.append(row)
    found = linprog(
        -top, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=bottom[None], b_eq=[1.0],
        bounds=(0, None), method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    return math.log(-found.fun)


@pytest.mark.parametrize("seed", [0, 1])
def test_two_states_agree_with_counts(seed):
    """A sum of zeros and ones is a count, whose own code knows every length and attacker."""
    q, r = np.random.default_rng(seed).uniform(0.02, 0.45, 2)
    for length in (7, None):
        chain = ut.MarkovChain([[1 - q, q], [r, 1 - r]], length=length)
        for against in ("any", "ignorant", ut.Adversary(3, [1])):
            added = ut.leakage(ut.Laplace(ut.Sum(0, 1, steps=1), 1.3), chain, against)
            counted = ut.leakage(ut.Laplace(ut.Count(1), 1.3), chain, against)
            assert added.lower <= counted.upper
            assert counted.lower <= added.upper
            assert added.closed


def test_the_attack_on_a_sum_attains_the_lower_end():
    chain = ut.MarkovChain(RISING, (0, 1, 2))
    leak = ut.leakage(ut.Laplace(ut.Sum(0, 2, steps=2), 2.0), chain)
    attack = leak.witness
    n, names = attack.length, chain.states
    facts = dict(attack.known)
    sums = {}
    for value, rate in itertools.product((attack.value, attack.other), (0.5, 0.0)):
        sign = 1 if attack.value > attack.other else -1
        message = chain.initial.copy()
        for record in range(n):
            here = {attack.target: value, **facts}.get(record)
            message = (message @ RISING) if record else message
            message = message * [name == here if here is not None else 1.0 for name in names]
            if record not in facts:
                message = message * np.exp(sign * rate * np.array(names))
        sums[value, rate] = math.log(message.sum())
    first, second = (sums[v, 0.5] - sums[v, 0.0] for v in (attack.value, attack.other))
    assert first - second == pytest.approx(leak.lower, abs=1e-9)


def test_steps_that_vary_and_more_known_records():
    """Only the nearest known records matter; the others get values that can occur."""
    steps = np.stack([rising(seed, 3) for seed in range(4)])
    chain = ut.MarkovChain(steps, (0, 1, 2), start=[0.2, 0.5, 0.3])
    joint = np.asarray(chain.initial)
    for step in steps:
        joint = joint[..., None] * step
    likelihood = additive_noise_likelihood([0, 1, 2], 1.5, 5)
    noisy = ut.Laplace(ut.Sum(0, 2, steps=2), 1.5)
    for known in ((), (0, 1, 3, 4), (4,)):
        leak = ut.leakage(noisy, chain, ut.Adversary(2, known))
        truth = mechanism_leakage(joint, likelihood, (2, known)).leakage
        assert leak.lower - ERROR <= truth <= leak.upper + ERROR
        assert leak.closed
        assert [record for record, _ in leak.witness.known] == list(known)
    assert ordered_leakage(by_rate(1.0), chain, "any") is None


def test_plans_for_sums_whose_steps_are_the_states():
    chain = ut.MarkovChain(RISING, (0, 1, 2))
    query = ut.Sum(0, 2, steps=2)
    assert chain.valued(query).added(chain.states) == (Fraction(0), Fraction(1), Fraction(2))
    assert query.added(chain.states) is ut.Count(1).added(chain.states) is None
    plan = ut.calibrate(query, chain, limit=1.0)
    level = ut.dp_budget(chain, limit=1.0)
    assert plan.method == "exact"
    assert plan.noise.scale < 0.95 * 2 / level
    assert plan.leakage.upper <= 1.0
    assert ut.leakage(ut.Laplace(query, plan.noise.scale * (1 - 1e-6)), chain).lower > 1.0 - 1e-9
    windows = ut.calibrate(query, chain, limit=1.0, valid_for="windows", method="exact")
    assert (windows.method, windows.leakage.valid_for) == ("exact", "windows")
    again = ut.Plan.from_json(plan.to_json())
    assert ut.release(again, [0, 1, 2, 1] * 5).plan.method == "exact"
    fine = ut.calibrate(ut.Sum(0, 2), chain, limit=1.0)
    assert fine.method == "exact"
    assert fine.noise.scale == pytest.approx(plan.noise.scale, rel=1e-6)
    crossed = ut.MarkovChain(RISING[:, [1, 0, 2]], (0, 1, 2))
    with pytest.raises(MethodRefused, match="totally positive"):
        ut.calibrate(query, crossed, limit=1.0, method="exact")
    with pytest.raises(MethodRefused, match="not Query"):
        ut.calibrate(ut.Query(max), chain, limit=1.0, method="exact")


def test_starts_and_steps_that_exclude_states():
    """Zeros hold no surprises: what cannot occur is no attack, and what is too rare is refused."""
    step = rising(2, 3, zeros=True)
    for start in ([1.0, 0.0, 0.0], [0.0, 0.5, 0.5]):
        chain = ut.MarkovChain(step, (0, 1, 2), start=start, length=4)
        joint = chain_joint(chain.initial, step, 4)
        likelihood = additive_noise_likelihood([0, 1, 2], 1.0, 4)
        for against, asked in attackers(3, 4):
            leak = ut.leakage(ut.Laplace(ut.Sum(0, 2, steps=2), 1.0), chain, against)
            truth = mechanism_leakage(joint, likelihood, asked).leakage
            assert leak.lower - ERROR <= truth <= leak.upper + ERROR
    rare = np.array([[1 - 1e-150, 1e-150], [0.5, 0.5]])
    with pytest.raises(InvalidModel, match="write 0 for what is impossible"):
        ut.MarkovChain(rare)
    absorbing = ut.MarkovChain([[0.9, 0.1], [0.0, 1.0]], start=[0.5, 0.5])
    leak = ut.leakage(ut.Laplace(ut.Sum(0, 1, steps=1), 4.0), absorbing)
    assert leak.upper >= ut.leakage(ut.Laplace(ut.Count(1), 4.0), absorbing).lower
