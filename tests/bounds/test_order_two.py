"""Chains of order two: brackets, attacks and plans, against enumeration of short series."""

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest

import undertow as ut
from tests.bounds.test_attractive import fitted
from tests.contracts.test_memory import seeds
from tests.oracles import memory as oracle
from undertow.bounds.memory.second_order import PairSide, second_order_leakage
from undertow.bounds.memory.two_states import (
    MoveBounds,
    worst_case,
)
from undertow.errors import InvalidInput, NotSupported
from undertow.models import is_attractive
from undertow.models.second_order import SecondOrderChain
from undertow.testing.enumeration import (
    mechanism_leakage,
    product_channel_likelihood,
)


def chain(ones, **more):
    table = np.array(ones, dtype=float).reshape(2, 2)
    return SecondOrderChain(np.stack([1 - table, table], axis=-1), **more)


FIRST = chain((0.12, 0.5, 0.2, 0.58))
PLANNED = {  # flips of the order-one plan, and the bracket of the order-two truth
    ("N10", 2.0): (2.520108, 2.520421),
    ("N10", 4.0): (4.675710, 4.676069),
    ("activity", 2.0): (2.498145, 2.531220),
    ("N5", 2.0): (2.3830, 2.4198),
    ("N5", 4.0): (5.1969, 5.2149),
}


@pytest.mark.parametrize("case", [("activity", 2.0), ("N5", 4.0)], ids=str)
def test_order_one_plans_on_real_chains(case):
    name, epsilon = case
    truth = fitted(name)
    plan = ut.calibrate(ut.Series(), truth.first_order(), limit=epsilon, method="exact")
    leak = ut.leakage(plan.mechanism, truth)
    low, high = PLANNED[name, epsilon]
    assert low - 2e-4 <= leak.lower <= leak.upper <= high
    assert not leak.proves(epsilon)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "scale", "flips"),
    [("activity", 5.76, 0.271), ("N10", 12.2, 0.383), ("power", 4.44, 0.2255)],
)
def test_the_price_of_the_second_record_back(name, scale, flips):
    truth = fitted(name)
    assert ut.leakage(ut.Laplace(ut.Count(1), scale), truth).proves(1.0)
    assert ut.leakage(ut.RandomizedResponse.binary(flips, flips), truth).proves(4.0)
    table = ut.compare(ut.Count(1), truth, limit=1.0)
    assert table.best.mechanism.scale <= scale
    assert table.memory_price > 1.04
    assert "second record back" in str(table)


# --- against sums over all series -----------------------------------------------------------------


def test_one_adversary_whatever_the_length():
    against = ut.Adversary(4, known=[2, 7, 8])
    endless = ut.leakage(ut.PureDP(0.8), FIRST, against)
    assert endless.upper - endless.lower < 1e-9
    longer = [
        ut.leakage(ut.PureDP(0.8), chain((0.12, 0.5, 0.2, 0.58), length=n), against)
        for n in (9, 12, 40)
    ]
    values = [leak.upper for leak in longer]
    assert values == sorted(values)
    assert values[-1] <= endless.upper + 1e-9
    assert values[-1] == pytest.approx(endless.upper, abs=1e-6)
    assert dict(endless.witness.known).keys() == {2, 7, 8}


def test_large_ratios_and_impossible_steps_take_the_older_bound():
    with pytest.raises(NotSupported, match="not told apart"):
        worst_case(FIRST, MoveBounds(100.0, 100.0), "attractive", "any")
    assert second_order_leakage(ut.PureDP(100.0), FIRST, reach=3).upper >= 100
    stuck = SecondOrderChain([[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    assert second_order_leakage(ut.PureDP(1.0), stuck, reach=3).upper == math.inf
    with pytest.raises(NotSupported, match="impossible"):
        worst_case(stuck, MoveBounds(1.0, 1.0), "attractive", "any")
    breathing = fitted("N5")
    leak = second_order_leakage(ut.PureDP(1.0), breathing, reach=3)
    assert any("twice the truth" in said for said in leak.assumptions)
    named = ut.leakage(ut.PureDP(1.0), breathing, ut.Adversary(3, [1]))
    assert 2.17 < named.lower <= named.upper < min(leak.upper, 2.42)


# --- plans ----------------------------------------------------------------------------------------


def test_plans_keep_their_limit_and_are_proved_again():
    model = chain((0.4, 0.6, 0.5, 0.63), states=("low", "high"))
    budget = ut.dp_budget(model, limit=1.0)
    assert ut.leakage(ut.PureDP(budget), model).proves(1.0)
    assert not ut.leakage(ut.PureDP(budget * 1.001), model).proves(1.0)
    plan = ut.calibrate(ut.Count("high"), model, limit=1.0)
    assert plan.mechanism.scale == pytest.approx(1 / budget, rel=1e-3)
    again = ut.Plan.from_json(plan.to_json())
    assert ut.release(again, ["low", "high"] * 20).plan == plan
    flips = ut.calibrate(ut.Series(), model, limit=2.0)
    assert flips.leakage.proves(2.0)
    assert flips.leakage.lower > 1.99
    assert flips.method == "exact"
    assert len(ut.sanitize(flips, ["low", "high"] * 20)) == 40
    table = ut.compare(ut.Series(), model, limit=2.0)
    one = ut.calibrate(ut.Series(), model.first_order(), limit=2.0)
    assert table.order_one.expected_flips == pytest.approx(one.expected_flips, rel=1e-6)
    assert table.memory_price == pytest.approx(flips.expected_flips / one.expected_flips, rel=1e-6)
    assert table.to_dict()["memory_price"] == table.memory_price
    first = ut.MarkovChain([[0.8, 0.2], [0.3, 0.7]])
    assert ut.compare(ut.Count(1), first, 1.0, methods=["exchange"]).memory_price is None


def test_the_ledger_of_a_chain_of_order_two(tmp_path):
    model = chain((0.4, 0.6, 0.5, 0.63), states=("low", "high"), length=40)
    ledger = ut.Ledger(tmp_path / "year.db", dataset="year", model=model, limit=2.0)
    plan = ut.calibrate(ut.Count("high"), model, limit=1.0)
    out = ut.release(plan, ["low", "high"] * 20, ledger=ledger)
    assert out.plan == plan


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


# --- the pairwise bound ---------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "theta"), [(0, 0.3), (0, 1.5), (2, 1.5)])
def test_records_beyond_a_pair_tell_no_more_than_the_recursion_says(seed, theta):
    """Three records, each looked at in any way of its level or known, for any two pairs before."""
    rng = np.random.default_rng(seed)
    table = np.maximum(rng.dirichlet(np.full(2, rng.choice([0.3, 1, 3])), (2, 2)), 0.02)
    table /= table.sum(axis=2, keepdims=True)
    own = theta * (1 - np.eye(2))
    bound = PairSide(table).recursion(lambda _: own, 3, np.zeros((2,) * 4))[0]
    high = math.exp(theta)
    looked = [(np.array(weights), np.ones(2)) for weights in ((1, 1), (high, 1), (1, high))]
    known = [(np.eye(2)[value], np.eye(2)[value]) for value in (0, 1)]
    for choices in product([*looked, *known], repeat=3):
        gains = {}
        for pair in product((0, 1), repeat=2):
            sums = []
            for weights in zip(*choices, strict=True):
                law = np.zeros((2, 2))
                law[pair] = 1.0
                for weight in weights:
                    law = np.einsum("xy,xyz->yz", law, table) * weight
                sums.append(law.sum())
            gains[pair] = math.log(sums[0] / sums[1])
        for one, two in permutations(gains, 2):
            assert gains[one] - gains[two] <= bound[one + two]


# --- against enumeration --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1])
def test_three_states(seed):
    chain, flips = random_chain(seed, 3, length=4), random_channel(seed, 3)
    likelihood = product_channel_likelihood([flips.matrix] * 4)
    exact = mechanism_leakage(chain.joint(4), likelihood, "any").leakage
    leak = second_order_leakage(flips, chain)
    assert leak.lower == pytest.approx(exact, abs=1e-9)
    assert exact <= leak.upper


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


# --- laws and facts -------------------------------------------------------------------------------


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


DEEP = ut.MarkovChain.second_order(oracle.tensor([0.0135, 0.66, 0.21, 0.93]))
"""About the order-two chain of deep sleep: states last long."""


def drawn(seed):
    """A random attractive chain, every second one slow, and a theta."""
    generator = np.random.default_rng(seed)
    while True:
        ones = generator.uniform(0.02, 0.98, 4)
        if seed % 2:
            ones[0], ones[3] = generator.beta(1, 12) + 1e-3, generator.beta(12, 1) - 1e-3
        ones = np.clip(ones, 1e-3, 1 - 1e-3)
        model = ut.MarkovChain.second_order(oracle.tensor(ones))
        if is_attractive(model):
            return model, float(np.exp(generator.uniform(math.log(0.005), math.log(4.0))))


@seeds(3, 600)
def test_brackets_at_small_ratios_enclose_enumeration(numbers):
    for seed in numbers:
        model, theta = drawn(seed)
        leak = ut.leakage(ut.PureDP(theta), model)
        for n in (3, 6):
            assert max(oracle.tilted(oracle.order_two(model.transition, n), theta)) <= leak.upper
        assert leak.upper <= 1.02 * leak.lower


@pytest.mark.parametrize("level", [1.0, 0.02])
def test_slow_chains_have_narrow_brackets(level):
    leak = ut.leakage(ut.PureDP(level), DEEP)
    assert leak.upper < 1.001 * leak.lower
