"""Levels on chains: replayed attacks, ceilings, series longer than a sweep, and sets of chains."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.levels.replay import forward_logs, replay_count, replay_product
from undertow.bounds.levels.sides import ordered_pairs
from undertow.bounds.levels.sweep import Ask, ceilings
from undertow.certificate import Witness, worst

SCALE = 1.3


def seen(chain, witness):
    """ln Pr[answer | value, known] / Pr[answer | other, known], summed over all series."""
    length, known = witness.length, dict(witness.known)
    law = chain.law(0)
    sums: dict[Any, list[tuple[float, float]]] = {witness.value: [], witness.other: []}
    first = max((record for record in known if record < witness.target), default=-1)
    last = min((record for record in known if record > witness.target), default=length)
    for series in itertools.product(range(chain.size), repeat=length):
        if any(series[record] != value for record, value in known.items()):
            continue
        if (own := series[witness.target]) not in sums:
            continue
        steps = itertools.pairwise(series)
        mass = law[series[0]] * math.prod(chain.step(t)[x, y] for t, (x, y) in enumerate(steps))
        count = sum(value == 1 for value in series[first + 1 : last])
        sums[own].append((mass, mass * math.exp(-abs(witness.output - count) / SCALE)))
    told = [
        math.fsum(b for _, b in sums[value]) / math.fsum(a for a, _ in sums[value])
        for value in (witness.value, witness.other)
    ]
    return math.log(told[0] / told[1])


@pytest.mark.parametrize("seed", [0, 1])
def test_no_answer_between_the_ends_is_said_to_show_more_than_it_does(seed):
    draw = np.random.default_rng(seed)
    size, length = 2 + seed % 2, 5
    chain = ut.MarkovChain(draw.dirichlet(np.ones(size), size), length=length)
    for target, known in ((2, ()), (2, ((0, 1),)), (1, ((4, 0),)), (3, ((1, 1), (4, 0)))):
        for output in (1, 2):
            attack = Witness(target, length, known, value=1, other=0, output=output)
            told, value = replay_count(attack, chain, [1], SCALE)
            truth = seen(chain, attack)
            assert told.output == output
            assert value <= truth + 1e-15
            assert value == pytest.approx(truth, abs=1e-9)


def random_chain(seed, size, **more):
    """Return a chain with uneven rows; every other one sticky, every third with zeros."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(size, 0.7), size=size) + 0.01
    if seed % 3 == 0:
        rows *= rng.random((size, size)) < 0.7
        rows[np.arange(size), (np.arange(size) + 1) % size] += 0.2  # one cycle, and
        rows[0, 0] += 0.1  # a loop: every state leads everywhere
    rows += (2.0 if seed % 2 else 0.0) * np.eye(size)
    start = "stationary" if seed % 4 else rng.dirichlet(np.ones(size))
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), start=start, **more)


def asked(chain, side, epsilon, floor, spacing):
    value, other = ordered_pairs(chain.size)
    kernel = np.ascontiguousarray((chain.transition.T, chain.transition)[side])
    weights = None if side or isinstance(chain.start, str) else chain.initial
    return Ask(kernel, weights, value, other, epsilon, np.full(len(value), floor), spacing, 4.0)


def gains(chain, side, epsilon, steps=40):
    """Return the gain of every pair by plain bisection over mu, all distances up to ``steps``."""
    value, other = ordered_pairs(chain.size)
    kernel = (chain.transition.T, chain.transition)[side]
    weights = np.ones(chain.size) if side else chain.initial
    low, high = np.full((2, steps, len(value), chain.size + 1), [[[[-40.0]]], [[[40.0]]]])
    for _ in range(60):
        middle = (low + high) / 2
        signs = np.empty(middle.shape, dtype=bool)
        for step, column in np.ndindex(steps, chain.size + 1):
            c = kernel[value] - np.exp(middle[step, :, column, None]) * kernel[other]
            for _ in range(step):
                c = np.where(c > 0, c * np.exp(epsilon), c) @ kernel
            spent = np.where(c > 0, c * np.exp(epsilon), c)
            signs[step, :, column] = (spent @ weights if column == chain.size else c[:, column]) > 0
        low, high = np.where(signs, middle, low), np.where(signs, high, middle)
    best = np.zeros(len(value))
    product = np.eye(chain.size)
    for step in range(steps):
        product = product @ kernel
        table = np.column_stack([product, product @ weights])
        with np.errstate(divide="ignore", invalid="ignore"):
            prior = np.log(table[value]) - np.log(table[other])
            gain = np.where(np.isfinite(prior), high[step] - prior, 0.0)
        best = np.maximum(best, gain.max(axis=1))
    return best


@pytest.mark.parametrize(("seed", "side"), [(1, 1), (3, 0), (4, 0)])
def test_ceilings_hold_and_are_close(seed, side):
    chain, epsilon, floor, spacing = random_chain(seed, 3), 0.8, 0.05, 0.02
    truth = gains(chain, side, epsilon, steps=10)
    upper, lower = ceilings(asked(chain, side, epsilon, floor, spacing))
    assert (upper >= truth - 1e-9).all()
    assert (lower <= upper).all()
    assert (upper <= np.maximum(truth, floor) + 5 * spacing).all()


def lasting_chain(k: int, seed: int, length: int | None, start: bool) -> ut.MarkovChain:
    rng = np.random.default_rng(seed)
    rows = 0.6 * np.eye(k) + 0.4 * rng.dirichlet(np.ones(k), size=k)
    law = rng.dirichlet(np.ones(k)) if start else "stationary"
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), start=law, length=length)


@pytest.mark.parametrize("length", [60, None])
def test_chains_whose_supports_never_merge_have_no_finite_tail(length):
    """Copies of the first record: the count of all of them gives it away."""
    frozen = ut.MarkovChain(np.eye(2), start=[0.5, 0.5], length=length)
    leak = ut.leakage(ut.DiscreteLaplace(ut.Count(1), 4.0), frozen)
    assert leak.upper >= (length or 1e9) / 4.0 * (1 - 1e-9)


@pytest.mark.parametrize("length", [25, None])
def test_a_histogram_of_two_states_attains_the_exchange(length):
    """Far answers, one bin too high and the other too low, are the worst 2/scale-DP output."""
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=length)
    leak = ut.leakage(ut.DiscreteLaplace(ut.Histogram(), 2.0), chain, against="ignorant")
    assert leak.upper == pytest.approx(
        ut.leakage(ut.PureDP(1.0), chain, against="ignorant").upper, rel=1e-9
    )
    assert leak.closed


@pytest.mark.parametrize("start", [[1.0, 0.0], [0.3, 0.7]])
def test_targets_near_the_end_of_a_long_series_count_too(start):
    """The last record of an alternating series has one neighbour less to hide among."""
    rows = [[0.3, 0.7], [0.7, 0.3]]
    noisy = ut.Laplace(ut.Count(0), 1.0)
    chain = ut.MarkovChain(rows, start=start, length=400)
    last = ut.leakage(noisy, chain, against=ut.Adversary(399, ()))
    whole = ut.leakage(noisy, chain, against="ignorant")
    assert whole.upper >= last.lower
    assert whole.lower >= last.lower - 1e-9


def chain(a, b, length=None):
    return ut.MarkovChain([[1 - a, a], [b, 1 - b]], length=length)


CASES = ((None, "any"), (7, "any"), (None, "ignorant"), (7, "informed"))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mechanism", [ut.PureDP(0.02), ut.PureDP(0.3), ut.Laplace(ut.Count(1), 2)])
def test_the_worst_of_those_asked_is_the_worst_of_all(case, mechanism):
    length, against = case
    drawn = np.random.default_rng(len(str(case)))
    models = [chain(a, b, length) for a, b in drawn.uniform(0.15, 0.85, (5, 2))]
    every = worst([ut.leakage(mechanism, one, against) for one in models])
    found = ut.leakage(mechanism, ut.ModelSet(models), against)
    assert found.upper == every.upper
    assert found.lower <= every.upper
    assert found.lower >= every.lower - 1e-9 * max(1.0, every.upper)


def test_an_adversary_with_a_target_is_bounded_too():
    models = [chain(a, 0.3, 9) for a in (0.05, 0.1, 0.2, 0.4, 0.6)]
    for against in (ut.Adversary(4, (3,)), ut.Adversary(4, ())):
        every = worst([ut.leakage(ut.PureDP(0.5), one, against) for one in models])
        assert ut.leakage(ut.PureDP(0.5), ut.ModelSet(models), against).upper == every.upper


def test_mixed_sets_ask_the_rest_one_by_one():
    box = ut.MarkovChain.box([[0.8, 0.05], [0.2, 0.5]], [[0.95, 0.2], [0.5, 0.8]])
    started = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], start=[1.0, 0.0])
    models = [box, started, *(chain(a, 0.3) for a in (0.1, 0.2, 0.3)), ut.Groups(3)]
    every = worst([ut.leakage(ut.PureDP(0.4), one) for one in models])
    found = ut.leakage(ut.PureDP(0.4), ut.ModelSet(models, "mixed"))
    assert found.upper == every.upper
    assert found.assumptions[:2] == ("one of the 6 models of the set is true", "mixed")
    person = ut.leakage(ut.PureDP(0.4, unit="person"), ut.ModelSet(models))
    assert person.upper == 0.4


def shown(chain, given, logs):
    """ln of what a product of likelihoods shows about two histories, summed over all series."""
    sums = []
    for weighed, side in itertools.product((True, False), (0, 1)):
        total = []
        for series in itertools.product(range(chain.size), repeat=len(logs)):
            if any(series[record] != pair[side] for record, pair in given.items()):
                continue
            mass = chain.law(0)[series[0]]
            for record, (x, y) in enumerate(itertools.pairwise(series)):
                mass *= chain.step(record)[x, y]
            load = sum(logs[record, state] for record, state in enumerate(series))
            total.append(mass * math.exp(load) if weighed else mass)
        sums.append(math.log(math.fsum(total)))
    return (sums[0] - sums[1]) - (sums[2] - sums[3])


@pytest.mark.parametrize("size", [1.0, 60.0], ids=["floats", "logarithms"])
@pytest.mark.parametrize("start", ["stationary", [1.0, 0.0]])
def test_no_product_of_likelihoods_is_said_to_show_more_than_it_does(size, start):
    draw = np.random.default_rng(3)
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], start=start, length=6)
    logs = size * draw.normal(size=(6, 2))
    histories = {2: (0, 1), 3: (1, 1), 4: (1, 0)}  # which agree in the middle
    for given in ({2: (0, 1)}, histories, {1: (0, 0), **histories, 5: (1, 1)}):
        value = replay_product(chain, given, 0, logs)
        truth = shown(chain, given, logs)
        assert value <= truth + 1e-15 * size
        assert value == pytest.approx(truth, abs=1e-9)


def test_records_that_are_forgotten_are_left_out():
    chain = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    high = np.tile([0.0, 1.0], (4001, 1))
    whole = replay_product(chain, {2000: (1, 0)}, 0, high)
    facts = {300: np.eye(2, dtype=bool)[::-1]}
    near = forward_logs(np.zeros(2), np.log(chain.transition[None]), high[1700:2301], facts)
    assert whole == pytest.approx(near, abs=1e-10)
    frozen = ut.MarkovChain(np.eye(2), start=[0.5, 0.5])  # which forgets nothing
    assert replay_product(frozen, {0: (0, 1)}, 0, -high) == pytest.approx(4001, abs=1e-6)
