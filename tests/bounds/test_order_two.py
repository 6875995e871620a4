"""Brackets of chains of order two with two states: every length, every known record."""

import math

import numpy as np
import pytest

import undertow as ut
from tests.bounds.test_attractive import fitted
from undertow.bounds.core.patterns import pattern_attack
from undertow.bounds.core.play import play
from undertow.bounds.memory.second_order import second_order_leakage
from undertow.bounds.memory.two_states import (
    Bracketing,
    MoveBounds,
    law_of,
    worst_case,
)
from undertow.errors import NotSupported
from undertow.models.second_order import SecondOrderChain


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


@pytest.mark.parametrize("ones", [(0.12, 0.5, 0.2, 0.58), (0.3, 0.6, 0.1, 0.7)])
def test_what_an_attack_is_said_to_be_worth_is_what_it_is_worth(ones):
    model = chain(ones)
    tilts = MoveBounds(1.2, 0.7).tilts(law_of(model) or "words")
    pattern = Bracketing(model, tilts).attack()
    value = play(model.lowered(), pattern_attack(pattern, tilts.weights))
    assert value.lower == pytest.approx(pattern.value, abs=1e-9)


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


def test_order_one_in_the_clothes_of_order_two():
    """Two codes, one number: the bracket of order two is the exact value of order one."""
    for rows in ([[0.882, 0.118], [0.305, 0.695]], [[0.2, 0.8], [0.7, 0.3]]):
        one = ut.MarkovChain(rows)
        two = SecondOrderChain.of(one)
        for against in ("any", "ignorant"):
            exact, found = (ut.leakage(ut.PureDP(1.0), model, against) for model in (one, two))
            assert found.lower <= exact.upper + 1e-12
            assert exact.lower <= found.upper + 1e-12
            assert found.upper - found.lower < 1e-8


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
