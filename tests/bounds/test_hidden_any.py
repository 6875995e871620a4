"""Brackets of totally positive hidden chains: every length, every known record."""

import itertools
import math

import numpy as np
import pytest

import undertow as ut
from tests.bounds.test_hidden import RISING, replayed
from tests.contracts.test_memory import seeds
from tests.oracles import memory as oracle
from undertow.bounds.memory.envelopes import (
    any_bracket,
    elements,
    envelope,
    regime_kernel,
    side_gaps,
)
from undertow.errors import NotSupported

FEW = (0, 3)  # of four and three hidden states
MANY = tuple(seed for seed in range(400) if seed not in FEW)
ROUNDING = 1e-11
"""Of enumerated sums and their logarithms."""


def from_row(row, *second):
    """The rows whose second one is ``row``, from the second differences of neighbouring rows."""
    logs = np.log(row)
    above, below, last = (np.concatenate([[0.0], np.cumsum(each)]) for each in second)
    table = np.exp([logs - above, logs, logs + below, logs + below + last])
    return table / table.sum(axis=1, keepdims=True)


ACTIVITY = ut.HiddenChain(
    from_row([0.0465, 0.6655, 0.2654, 0.0226], [6.16, 0.02, 9.0], [0.02, 1.22, 0.02],
             [9.0, 0.02, 4.66]), (0, 0, 1, 1),
)  # fmt: skip
"""About the attractive fit of an activity record."""


def kernel(generator, size, slow):
    """A random positive matrix, totally positive of order 2: sums of L >= 0 in the exponents."""
    inner = size - 1
    second = generator.gamma(0.7, 1.5, (inner, inner)) * (generator.random((inner, inner)) < 0.8)
    second += 1e-6  # so that rounding leaves it positive
    if slow:  # regimes that last: on average 20 records and more
        second += np.diag(generator.gamma(4.0, 1.2, inner))
    exponents = np.zeros((size, size))
    exponents[1:, 1:] = second.cumsum(axis=0).cumsum(axis=1)
    exponents -= generator.uniform(0.3, 0.7) * exponents[-1] + generator.normal(0.0, 1.0, size)
    rows = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True)


def drawn(seed):
    """A random chain with one or two hidden states for a symbol, shuffled, and a theta."""
    generator = np.random.default_rng(seed)
    symbols = [(0, 0, 1, 1), (0, 0, 1, 1), (0, 0, 1), (0, 1, 1)][seed % 4]
    rows = kernel(generator, len(symbols), slow=seed % 3 > 0)
    order = generator.permutation(len(symbols))
    theta = float(np.exp(generator.uniform(math.log(0.01), math.log(4.0))))
    chain = ut.HiddenChain(rows[np.ix_(order, order)], [symbols[s] for s in order], (0, 1))
    return chain, theta


@pytest.mark.parametrize("numbers", [FEW], ids=["few"])
def test_brackets_enclose_enumeration(numbers):
    """All targets, known sets, values and outputs of series of 3 to 6 records."""
    for seed in numbers:
        chain, theta = drawn(seed)
        brackets = any_bracket(chain, 1, theta), any_bracket(chain, 0, theta)
        for n in (3, 6):
            exact = oracle.tilted(chain.joint(n), theta)
            for found, value in zip(brackets, exact, strict=True):
                assert value <= found.upper + ROUNDING
        for found in brackets:
            assert 0 < found.lower <= found.upper <= 1.02 * found.lower


@seeds(1, 60)
def test_no_algorithm_of_the_level_does_better(numbers):
    """The linear program over all likelihoods, all adversaries; flips with two ratios."""
    for seed in numbers:
        chain, theta = drawn(4 * seed + 1 if seed else 3)
        joint = chain.joint(4 if seed else 3)
        leak = ut.leakage(ut.PureDP(theta), chain)
        assert max(oracle.pure_dp_all(joint, theta)) <= leak.upper + 1e-8
        generator = np.random.default_rng(seed)
        rho0, rho1 = generator.uniform(0.05, 0.45, 2)
        shown = ut.leakage(ut.RandomizedResponse.binary(rho0, rho1), chain)
        assert max(oracle.flips(joint, rho0, rho1)) <= shown.upper + ROUNDING
        count = ut.leakage(ut.Laplace(ut.Count(1), 1 / theta), chain)
        assert max(oracle.noisy_count(joint, 1 / theta)) <= count.upper + ROUNDING
        assert count.upper == pytest.approx(leak.upper, rel=1e-6)


def messages(step, end, theta, pattern):
    """ln of the upper over the lower state at a record known to be pattern[0], seen and plain.

    ``pattern`` lists what is known outwards, None for nothing; record by record.
    """
    tilt = np.exp(theta * np.array([0.0, 0.0, 1.0, 1.0]))
    inside = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    found = []
    for weights in (tilt, np.ones(4)):
        message = end
        for value in reversed(pattern[1:]):
            message = step @ ((weights if value is None else inside[value]) * message)
            message = message / message.max()
        part = message[2 * pattern[0] : 2 * pattern[0] + 2]
        found.append(float(np.log(part[1] / part[0])))
    return found


@pytest.mark.parametrize("theta", [0.01, 1.0])
def test_no_pattern_exceeds_the_envelope(theta):
    """Random patterns of known records on both sides, and those that it is said to attain."""
    rows = regime_kernel(ACTIVITY)
    law = ACTIVITY.initial
    generator = np.random.default_rng(5)
    for step, end in ((rows, np.ones(4)), (rows.T, law)):
        gaps = side_gaps(np.ascontiguousarray(step), end, 1e-13, theta)
        side = envelope(gaps, theta)
        closest = -math.inf
        patterns = []
        for _ in range(100):
            share = generator.choice([0.05, 0.3, 0.9])
            beyond = [
                int(generator.integers(2)) if generator.random() < share else None
                for _ in range(int(generator.integers(0, 60)))
            ]
            patterns.append((int(generator.integers(2)), *beyond))
        for value in (0, 1):
            for cell in np.flatnonzero(side.values[value])[::40].tolist():
                known = side.traced(value, cell, 12)
                parts = itertools.chain.from_iterable(([None] * gap + [v]) for gap, v in known)
                patterns.append((value, *parts, *([None] * 200)))
        for pattern in patterns:
            seen, plain = messages(step, end, theta, pattern)
            value = 0 if pattern[0] == 0 else 1
            place = math.floor((plain - side.low[value]) / side.width[value])
            assert 0 <= place < len(side.values[value])
            added = math.log(side.values[value][place])
            assert -1e-12 <= seen - plain <= added
            closest = max(closest, (seen - plain) / added)
        assert closest > 0.99  # and it is tight somewhere
        made = elements(side).table
        assert made[:, 3:].min() >= 0
        for value, unknown in itertools.product((0, 1), (0, 1, 7, 400)):  # where induction begins
            seen, plain = messages(step, end, theta, (value, *[None] * unknown))
            place = math.floor((plain - side.low[value]) / side.width[value])
            assert seen - plain <= math.log(side.opened[value][place])


@pytest.mark.parametrize(
    ("theta", "one", "zero"),
    [pytest.param(1.0, (6.101, 6.108), (5.346, 5.349))],
)
def test_brackets_of_activity(theta, one, zero):
    for state, ends in ((1, one), (0, zero)):
        found = any_bracket(ACTIVITY, state, theta)
        assert ends[0] <= found.lower <= found.upper <= ends[1], (found.lower, found.upper)


@pytest.mark.parametrize("level", [1e-4, 0.3, 3.0])
def test_copies_of_hidden_states_are_a_markov_chain(level):
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    copies = np.repeat(np.repeat(chain.transition / 2, 2, axis=0), 2, axis=1)
    exact = ut.leakage(ut.PureDP(level), chain)
    found = ut.leakage(ut.PureDP(level), ut.HiddenChain(copies, (0, 0, 1, 1)))
    assert exact.lower <= found.upper <= 1.001 * exact.upper
    assert found.lower <= exact.upper


def test_witnesses_are_played_out():
    for chain in (ACTIVITY, ut.HiddenChain(ACTIVITY.transition, ACTIVITY.symbols, length=40)):
        leak = ut.leakage(ut.PureDP(1.0), chain)
        assert replayed(chain, leak.witness, 1.0) == pytest.approx(leak.lower, abs=2e-9)
        assert leak.witness.known
        assert leak.lower > 5.8
    # longer series leak no less, and the bound is the same
    assert leak.upper == ut.leakage(ut.PureDP(1.0), ACTIVITY).upper


@pytest.mark.parametrize(
    "chain", [RISING, pytest.param(ACTIVITY, marks=pytest.mark.soak)], ids=["three", "activity"]
)
def test_plans_are_made(chain):
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0)
    assert plan.leakage.proves(1.0)
    assert plan.leakage.lower > 0.999
    assert ut.Plan.from_json(plan.to_json()).model == chain
    # to someone who may know records it takes more noise than to the ignorant
    ignorant = ut.dp_budget(chain, limit=1.0, against="ignorant")
    assert 0.95 / ignorant < plan.mechanism.scale < 1.1 / ignorant


def test_what_the_bound_does_not_know_is_left_alone():
    zeros = ut.HiddenChain(
        [[0.9, 0.1, 0, 0], [0.1, 0.6, 0.3, 0], [0, 0.3, 0.6, 0.1], [0, 0, 0.1, 0.9]], (0, 0, 1, 1)
    )
    assert regime_kernel(zeros) is None
    with pytest.raises(NotSupported, match="totally positive"):
        any_bracket(zeros, 1, 1.0)
    assert math.isinf(ut.leakage(ut.PureDP(1.0), zeros).upper)
    with pytest.raises(NotSupported, match="not told apart"):
        any_bracket(ACTIVITY, 1, 100.0)
    assert math.isinf(ut.leakage(ut.PureDP(100.0), ACTIVITY).upper)
    assert any_bracket(ACTIVITY, 1, 0.0).upper == 0
    certain = ut.RandomizedResponse.binary(0.0, 0.3)
    assert math.isinf(ut.leakage(certain, ACTIVITY).upper)
