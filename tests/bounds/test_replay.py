"""Witnesses of counts re-evaluated: what the attacker sees at any answer, against whole tables."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.levels.replay import forward_logs, replay_count, replay_product
from undertow.certificate import Witness

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
