"""What mechanisms leak on chains of order two: attacks are real, bounds are not exceeded.

The oracle is enumeration of all series, known sets and outputs of short series. Attacks in longer
series may attain more, so its values lie between the two ends only where the lengths agree.
"""

import math
from itertools import combinations

import numpy as np
import pytest

import undertow as ut
from tests.grids import each
from undertow.bounds.memory.second_order import PairSide, second_order_leakage
from undertow.errors import InvalidInput, NotSupported
from undertow.models.second_order import SecondOrderChain
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    mechanism_leakage,
    product_channel_likelihood,
    pure_dp_leakage,
)

LONG = SecondOrderChain([[[0.918, 0.082], [0.288, 0.712]], [[0.835, 0.165], [0.087, 0.913]]])
FLIPS = ut.RandomizedResponse.binary(0.356, 0.335)


def random_chain(seed, states=2, length=None):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(states, rng.choice([0.4, 1.0, 3.0])), size=(states, states))
    rows = np.maximum(rows, 0.01)
    rows += rng.choice([0.0, 2.0]) * np.eye(states)  # some chains are sticky
    return SecondOrderChain(rows / rows.sum(axis=2, keepdims=True), length=length)


def random_channel(seed, states=2):
    rows = np.maximum(np.random.default_rng(seed).dirichlet(np.full(states, 0.7), states), 0.02)
    return ut.RandomizedResponse(rows / rows.sum(axis=1, keepdims=True))


# --- the lemma ------------------------------------------------------------------------------------


def test_the_limit_is_left_unchanged_or_lowered_by_a_step():
    own = np.array([[0.0, 0.7], [0.6, 0.0]])
    side = PairSide(LONG.transition)
    limit = side.limit(own)
    assert (side.step(limit, limit, own, own) <= limit).all()
    short = side.recursion(lambda _: own, 5, np.zeros((2,) * 4))[0]
    assert (short <= limit).all()
    assert short.max() > 0.5 * limit.max()


# --- against enumeration --------------------------------------------------------------------------


@each(("seed", "against"), range(6), ["any", "ignorant"], few=3)
def test_flips_lie_between_an_attack_and_the_bound(seed, against):
    chain, flips = random_chain(seed), random_channel(seed)
    likelihood = product_channel_likelihood([flips.matrix] * 6)
    exact = mechanism_leakage(chain.joint(6), likelihood, against).leakage
    leak = second_order_leakage(flips, chain, against, reach=8)
    assert exact <= leak.upper
    assert leak.lower <= leak.upper
    assert leak.lower >= exact - 1e-9  # longer series leak no less, and the search finds it
    short = SecondOrderChain(chain.transition, length=6)
    found = second_order_leakage(flips, short, against)
    assert found.lower == pytest.approx(exact, abs=1e-9)
    assert found.lower <= exact


@pytest.mark.parametrize("seed", [1])
def test_three_states(seed):
    chain, flips = random_chain(seed, 3, length=4), random_channel(seed, 3)
    likelihood = product_channel_likelihood([flips.matrix] * 4)
    exact = mechanism_leakage(chain.joint(4), likelihood, "any").leakage
    leak = second_order_leakage(flips, chain)
    assert leak.lower == pytest.approx(exact, abs=1e-9)
    assert exact <= leak.upper


@each(("seed", "against"), range(4), ["any", "ignorant"], few=2)
def test_counts_lie_between_far_answers_and_the_bound(seed, against):
    chain = random_chain(seed, length=7)
    scale = [0.5, 1.0, 2.0, 4.0][seed]
    likelihood = additive_noise_likelihood([0, 1], scale, 7)
    exact = mechanism_leakage(chain.joint(7), likelihood, against).leakage
    far = mechanism_leakage(chain.joint(7), likelihood[..., [0, -1]], against).leakage
    leak = second_order_leakage(ut.Laplace(ut.Count(1), scale), chain, against)
    assert leak.lower <= exact <= leak.upper
    assert leak.lower == pytest.approx(far, abs=1e-9)


def test_algorithms_of_a_level_lie_below_the_bound():
    chain = random_chain(3, length=4)
    exact = pure_dp_leakage(chain.joint(4), 1.0).leakage
    leak = second_order_leakage(ut.PureDP(1.0), chain)
    assert leak.lower <= exact + 1e-9
    assert exact <= leak.upper
    assert leak.lower > 1.0


@pytest.mark.parametrize("seed", range(8))
def test_redactions_are_attacked_exactly(seed):
    rng = np.random.default_rng(seed)
    chain = random_chain(seed, length=6)
    target = int(rng.integers(0, 6))
    table = rng.choice([0, 1, 0.3, 0.7, 0.05], size=(6, 2))
    table[target] = 1
    channels = np.concatenate([(1 - table)[:, :, None] * np.eye(2), table[:, :, None]], axis=2)
    likelihood = product_channel_likelihood(channels)
    others = [record for record in range(6) if record != target]
    exact = max(
        mechanism_leakage(chain.joint(6), likelihood, (target, known)).leakage
        for size in range(6)
        for known in combinations(others, size)
    )
    leak = second_order_leakage(ut.Redaction(table, protect=target), chain)
    assert leak.lower == pytest.approx(exact, abs=1e-9)
    assert exact <= leak.upper
    blind = second_order_leakage(ut.Redaction(table, protect=target), chain, "ignorant")
    alone = mechanism_leakage(chain.joint(6), likelihood, (target, ())).leakage
    assert blind.lower == pytest.approx(alone, abs=1e-9)


def replay(witness, chain, channel):
    """Return what a witness attains, by a plain sum over series, record by record."""
    shown, known = dict(witness.outputs), dict(witness.known)

    def total(value, seen):
        law = chain.pair_law
        for record in range(witness.length):
            weight = np.ones(2)
            if record in known or record == witness.target:
                weight = np.eye(2)[known.get(record, value)]
            if seen and record in shown and record not in known:
                weight = weight * channel.matrix[:, shown[record]]
            if record > 1:
                law = np.einsum("xy,xyz->yz", law, chain.transition)
            law = law * (weight[:, None] if record == 0 else weight[None])
        return law.sum()

    parts = [total(value, True) / total(value, False) for value in (witness.value, witness.other)]
    return math.log(parts[0] / parts[1])


@pytest.mark.parametrize("against", ["any", "ignorant"])
def test_the_witness_attains_the_lower_end(against):
    leak = second_order_leakage(FLIPS, LONG, against, reach=7)
    assert replay(leak.witness, LONG, FLIPS) == pytest.approx(leak.lower, abs=1e-9)
    assert bool(leak.witness.known) == (against == "any")


# --- laws and facts -------------------------------------------------------------------------------


@pytest.mark.parametrize(("theta", "epsilon"), [pytest.param(0.35, 1.0)])
def test_a_chain_of_order_one_is_bounded_almost_as_well_as_by_its_own_theory(theta, epsilon):
    chain = ut.MarkovChain([[1 - theta, theta], [theta, 1 - theta]])
    plan = ut.calibrate(ut.Series(), chain, limit=epsilon, method="exact")
    leak = second_order_leakage(plan.mechanism, SecondOrderChain.of(chain))
    assert epsilon - 1e-6 < leak.lower <= epsilon
    assert plan.leakage.lower <= leak.upper < epsilon + 1e-6


def test_independent_records_leak_their_own_flip():
    chain = SecondOrderChain(np.full((2, 2, 2), 0.5))
    leak = second_order_leakage(FLIPS, chain)
    assert leak.lower == pytest.approx(FLIPS.dp_epsilon(), abs=1e-9)
    assert leak.upper == pytest.approx(FLIPS.dp_epsilon(), abs=1e-6)


def test_more_noise_leaks_less_and_knowing_helps():
    noisy, clear = ut.RandomizedResponse.binary(0.4, 0.4), ut.RandomizedResponse.binary(0.2, 0.2)
    low, high = (second_order_leakage(m, LONG, reach=8) for m in (noisy, clear))
    assert low.lower < high.lower
    assert low.upper < high.upper
    blind = second_order_leakage(FLIPS, LONG, "ignorant", reach=12)
    knowing = second_order_leakage(FLIPS, LONG, "any", reach=12)
    informed = second_order_leakage(FLIPS, LONG, "informed")
    assert blind.lower < knowing.lower
    assert informed.upper == pytest.approx(FLIPS.dp_epsilon())
    assert informed.lower <= informed.upper


def test_the_heart_record_breaks_a_guarantee_of_order_one():
    """Counts of runs of three beats of record N10, as published; flips planned for epsilon 4."""
    counts = np.array([[[12373, 1105], [381, 942]], [[1106, 218], [943, 9853]]], dtype=float)
    chain = SecondOrderChain(counts / counts.sum(axis=2, keepdims=True))
    plan = ut.calibrate(ut.Series(), chain.first_order(), limit=4.0, method="exact")
    leak = second_order_leakage(plan.mechanism, chain, reach=16)
    assert 4.5 < leak.lower <= leak.upper < 8.1


def test_impossible_transitions_have_no_bound_but_an_attack():
    chain = SecondOrderChain([[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    leak = second_order_leakage(FLIPS, chain, reach=4)
    assert math.isinf(leak.upper)
    assert leak.lower > FLIPS.dp_epsilon()


def test_other_queries_have_a_bound_by_their_level():
    leak = second_order_leakage(ut.Laplace(ut.Sum(0, 1), 4.0), LONG)
    level = second_order_leakage(ut.PureDP(0.25), LONG)
    assert leak.lower == 0
    assert leak.witness is None
    assert leak.upper == pytest.approx(level.upper, rel=1e-9)
    bins = second_order_leakage(ut.Laplace(ut.Histogram(), 8.0), LONG)
    assert 0 < bins.lower <= bins.upper == pytest.approx(level.upper, rel=1e-9)


def test_what_is_not_known_is_refused():
    with pytest.raises(NotSupported, match="XorNoise"):
        second_order_leakage(ut.XorNoise(0.1, 0.3), LONG)
    with pytest.raises(NotSupported, match="persons"):
        second_order_leakage(ut.PureDP(1.0, unit="person"), LONG)
    with pytest.raises(NotSupported, match="'any'"):
        second_order_leakage(
            ut.Redaction([[1, 1], [0, 0]]), LONG.endless(), ut.Adversary(0, known=[1])
        )
    with pytest.raises(NotSupported, match="merge"):
        second_order_leakage(ut.PureDP(1.0), SecondOrderChain(np.full((7, 7, 7), 1 / 7)))
    with pytest.raises(InvalidInput, match="3 states"):
        second_order_leakage(ut.RandomizedResponse.symmetric(3, 0.2), LONG)
    with pytest.raises(InvalidInput, match="no state"):
        second_order_leakage(ut.Laplace(ut.Count("run"), 2.0), LONG)
    with pytest.raises(InvalidInput, match="agree"):
        second_order_leakage(
            ut.Redaction([[1, 1], [0, 0]]), SecondOrderChain(LONG.transition, length=9)
        )
