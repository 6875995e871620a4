"""Leakages on hidden chains, against enumeration of outputs, known records and their values."""

import itertools
import math

import numpy as np
import pytest

import undertow as ut
from tests.contracts.test_memory import seeds
from tests.golden.replay import replayed
from tests.oracles import memory as oracle
from undertow import diagnostics
from undertow.bounds.memory.envelopes import (
    any_bracket,
    elements,
    envelope,
    regime_kernel,
    side_gaps,
)
from undertow.errors import NotSupported
from undertow.models.attractive import hidden_margin, is_attractive

RISING = ut.HiddenChain([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], (0, 0, 1))
FLIPS = ut.RandomizedResponse.binary(0.2, 0.3)
REGIMES = [
    [0.96, 0.02, 0.02, 0.0], [0.02, 0.62, 0.2, 0.16], [0.18, 0.34, 0.47, 0.01],
    [0.0, 0.18, 0.0, 0.82],
]  # fmt: skip
"""Regimes of an activity record: not attractive."""


def second(a, b, c, d):
    """The chain of order two with these probabilities of 1 after 00, 01, 10, 11."""
    return ut.MarkovChain.second_order([[[1 - a, a], [1 - b, b]], [[1 - c, c], [1 - d, d]]])


def enumerated(law, likelihoods, target, known=()):
    """The largest |ln Pr[z | x, known] / Pr[z | x', known]| over outputs and known values.

    ``likelihoods[t]`` lists what is seen of record t, each as weights of its two states.
    """
    size = law.ndim
    best = 0.0
    for values in itertools.product((0, 1), repeat=len(known)):
        where = [slice(None)] * size
        for record, value in zip(known, values, strict=True):
            where[record] = slice(value, value + 1)
        part = law[tuple(where)]
        others = [t for t in range(size) if t not in known]
        for shown in itertools.product(*(likelihoods for _ in others)):
            seen = part
            for record, weights in zip(others, shown, strict=True):
                shape = [1] * size
                shape[record] = 2
                seen = seen * np.reshape(weights, shape)
            axes = tuple(t for t in range(size) if t != target)
            gain = np.log(seen.sum(axis=axes)) - np.log(part.sum(axis=axes))
            best = max(best, abs(gain[1] - gain[0]))
    return best


@pytest.mark.parametrize("chain", [RISING, ut.HiddenChain.of(second(0.12, 0.5, 0.2, 0.58))])
def test_the_closed_form_is_the_limit_of_enumerated_series(chain):
    columns = [*FLIPS.matrix.T]
    exact = [enumerated(chain.joint(n), columns, n // 2) for n in (1, 3, 5, 7)]
    leak = ut.leakage(FLIPS, chain, "ignorant")
    assert exact == sorted(exact)
    assert exact[-1] <= leak.upper
    assert leak.upper - leak.lower < 1e-8
    # what is missing falls by the same factor with two more records, or faster
    gaps = leak.upper - np.array(exact)
    assert (gaps > 0).all()
    assert gaps[3] < 0.8 * gaps[2] < 0.8**2 * gaps[1] * 1.01


def test_attacks_never_exceed_enumeration():
    """With a length the search is one of the enumerated attacks, and close to the best."""
    chain = ut.HiddenChain(RISING.transition, RISING.symbols, length=5)
    columns = [*FLIPS.matrix.T]
    law = chain.joint(5)
    others = [0, 1, 3, 4]
    exact = max(
        enumerated(law, columns, 2, known)
        for count in range(5)
        for known in itertools.combinations(others, count)
    )
    found = ut.leakage(FLIPS, chain)
    assert found.lower <= exact + 1e-12
    assert found.lower >= 0.999 * exact
    assert found.upper >= exact
    witness = found.witness
    assert (witness.target, witness.length) == (2, 5)
    assert {record for record, _ in (*witness.known, *witness.outputs)} <= set(range(5))


def test_counts_flips_and_levels_agree_where_they_must():
    level = ut.leakage(ut.PureDP(0.25), RISING, "ignorant")
    count = ut.leakage(ut.Laplace(ut.Count(1), scale=4.0), RISING, "ignorant")
    ratio = math.exp(0.25)
    flips = ut.RandomizedResponse.binary(1 / (1 + ratio), 1 / (1 + ratio))
    shown = ut.leakage(flips, RISING, "ignorant")
    assert count.upper == pytest.approx(level.upper, rel=1e-9)
    assert shown.upper == pytest.approx(level.upper, rel=1e-9)
    assert ut.leakage(ut.PureDP(0.25), RISING, "informed").upper == 0.25
    swapped = ut.HiddenChain(RISING.transition, RISING.symbols, states=(1, 0))
    assert ut.leakage(ut.PureDP(0.25), swapped, "ignorant").upper == pytest.approx(level.upper)


def test_total_positivity_is_exact():
    moved = [2, 0, 1]
    other = ut.HiddenChain(
        RISING.transition[np.ix_(moved, moved)], [RISING.symbols[s] for s in moved], (0, 1)
    )
    assert is_attractive(other).margin == is_attractive(RISING).margin > 0
    tipped = np.array(RISING.transition)
    tipped[0] = [0.3, 0.4, 0.3]  # equal rows: minors of exactly 0
    assert hidden_margin(tipped, [0, 0, 1]) == 0
    tipped[0] = [0.3, 0.4 - 2**-50, 0.3 + 2**-50]
    assert hidden_margin(tipped, [0, 0, 1]) < 0


def test_no_plan_is_made_without_an_upper_end():
    regimes = ut.HiddenChain(REGIMES, (0, 0, 1, 1))
    assert math.isinf(ut.leakage(ut.PureDP(1.0), regimes).upper)
    with pytest.raises(NotSupported, match=r"attractive.*mixed\(1e-4\)"):
        ut.calibrate(ut.Count(1), regimes, limit=1.0, method="exchange")
    with pytest.raises(NotSupported, match=r"mixed\(1e-4\)"):
        ut.dp_budget(regimes, limit=1.0)
    assert ut.dp_budget(regimes.mixed(1e-2), limit=1.0) > 0
    plan = ut.calibrate(ut.Count(1), RISING, limit=1.0, against="ignorant")
    assert plan.leakage.upper <= 1.0
    assert ut.Plan.from_json(plan.to_json()).model == RISING
    with pytest.raises(NotSupported, match="hidden chain"):
        ut.leakage(ut.XorNoise(0.1, 0.1), RISING)


def test_robustness_tries_longer_memories():
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0)
    regimes = [[0.97, 0.02, 0.01, 0], [0.05, 0.6, 0.3, 0.05], [0.05, 0.3, 0.6, 0.05],
               [0, 0.01, 0.02, 0.97]]  # fmt: skip
    others = {"regimes": ut.HiddenChain(regimes, (0, 0, 1, 1)), "two": second(0.1, 0.5, 0.2, 0.8)}
    table = diagnostics.robustness(plan, factors=(), others=others)
    assert table.verdicts["regimes"] == "broken"
    assert table["regimes"].to_dict()["upper"] is None
    assert table["two"].leakage.lower > 0


FEW = (0, 3)  # of four and three hidden states
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
        seen = replayed(leak.witness, ut.PureDP(1.0), chain, 0.0)
        assert seen == pytest.approx(leak.lower, abs=2e-9)
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
    beyond = ut.leakage(ut.PureDP(100.0), ACTIVITY)
    assert (beyond.method, beyond.upper < 1.01 * beyond.lower) == ("cells", True)
    assert any_bracket(ACTIVITY, 1, 0.0).upper == 0
    certain = ut.RandomizedResponse.binary(0.0, 0.3)
    assert math.isinf(ut.leakage(certain, ACTIVITY).upper)
