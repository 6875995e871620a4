"""Bounds of others: what they say where it is known, and what they never fall below."""

import math
from itertools import product

import numpy as np
import pytest

import undertow as ut
from tests.strategies import joint
from undertow.bounds.published import (
    curve_budget,
    influence_curve,
    influence_leakage,
    step_leakage,
    temporal_budget,
    temporal_leakage,
)
from undertow.errors import Infeasible, MethodRefused

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
FOUR = ut.MarkovChain(
    [[0.7, 0.15, 0.1, 0.05], [0.1, 0.65, 0.2, 0.05], [0.05, 0.15, 0.7, 0.1], [0.1, 0.1, 0.2, 0.6]]
)


def test_on_two_states_temporal_leakage_is_the_exchange_rate():
    """One pair of rows: the worst at every step is the worst throughout. A second way to it."""
    for level in (0.05, 0.5, 1.0, 2.0):
        truth = ut.leakage(ut.PureDP(level), ACTIVITY, "ignorant")
        assert temporal_leakage(ACTIVITY, level) == pytest.approx(truth.upper, rel=1e-9)
    assert temporal_leakage(FOUR, 1.0) > ut.leakage(ut.PureDP(1.0), FOUR, "ignorant").upper


@pytest.mark.parametrize("seed", range(3))
def test_a_step_is_the_best_of_all_likelihoods(seed):
    """All sets of states are tried, and likelihoods between the two ends do no better."""
    draw = np.random.default_rng(seed)
    matrix, leaked = draw.dirichlet(np.ones(4), size=4), 1.3
    sets = [np.array(one) for one in product((1.0, math.exp(leaked)), repeat=4)]
    inner = list(1 + draw.random((200, 4)) * math.expm1(leaked))
    best, within = (
        max(math.log((q @ x) / (d @ x)) for q in matrix for d in matrix for x in some)
        for some in (sets, inner)
    )
    assert step_leakage(matrix, leaked) == pytest.approx(best, rel=1e-12)
    assert within <= best


@pytest.mark.parametrize("n", [2, 3, 4])
def test_temporal_leakage_covers_products_on_short_series(n):
    """Every product of likelihoods with two values, by the joint table."""
    chain = ut.MarkovChain([[0.8, 0.2], [0.4, 0.6]], length=n)
    law, level, worst = joint(chain, n), 0.9, 0.0
    for sets in product(product((1.0, math.exp(level)), repeat=2), repeat=n):
        likelihood = np.array(sets[0])
        for one in sets[1:]:
            likelihood = np.multiply.outer(likelihood, one)
        for target in range(n):
            axes = tuple(axis for axis in range(n) if axis != target)
            seen = (law * likelihood).sum(axis=axes) / law.sum(axis=axes)
            worst = max(worst, abs(math.log(seen[0] / seen[1])))
    assert temporal_leakage(chain, level) == pytest.approx(worst, rel=1e-9)


def test_influence_curves_fall_and_their_bound_is_the_least():
    curve = [influence_curve(FOUR, b, 64) for b in (0.02, 0.1, 0.5, 2.0, 5.0)]
    assert curve == sorted(curve, key=lambda a: -(a or 0))
    level, limit = 0.3, influence_leakage(FOUR, 0.3)
    for b in np.linspace(0.05, 3.0, 9):
        assert limit <= (influence_curve(FOUR, b, 64) or math.inf) * level + b + 1e-12
    assert curve_budget(FOUR, limit) == pytest.approx(level, rel=1e-9)
    assert limit >= ut.leakage(ut.PureDP(level), FOUR, "ignorant").upper
    short = ut.MarkovChain(FOUR.transition, length=4)
    assert influence_curve(short, 1e-9) == 4
    assert influence_leakage(short, 0.01) == pytest.approx(0.04)


def test_what_they_say_nothing_about():
    for budget in (curve_budget, temporal_budget):
        with pytest.raises(MethodRefused, match="stationary start"):
            budget(ut.MarkovChain(ACTIVITY.transition, start=[0.5, 0.5], length=5), 1.0)
    stuck = ut.MarkovChain([[1 - 1e-7, 1e-7], [1e-7, 1 - 1e-7]])
    with pytest.raises(Infeasible, match="method='exchange'"):
        curve_budget(stuck, 1.0)
    even = ut.MarkovChain([[0.3, 0.7], [0.3, 0.7]])
    assert temporal_budget(even, 1.0) == pytest.approx(1.0)
    assert curve_budget(even, 1.0) == pytest.approx(1.0)
