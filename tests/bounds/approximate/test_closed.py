"""The closed exchange: reference numbers, and where it is group privacy."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import undertow as ut
from undertow.bounds.curves.leakages import closed_delta, closed_epsilon, pure_budget_delta
from undertow.curves import GaussianCurve, PointCurve

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])

REFERENCE = {
    ("any", 1.0, 1e-6): (3.4748733768, 1.82122273e-5),
    ("any", 0.5, 1e-8): (1.9858469828, 9.68862208e-8),
    ("any", 0.2, 1e-9): (0.7934543726, 5.46976447e-9),
    ("any", 2.0, 1e-6): (5.4309339682, 3.55862315e-5),
    ("any", 0.05, 1e-9): (0.1924710012, 4.13959062e-9),
    ("ignorant", 1.0, 1e-6): (3.4582647438, 1.79026591e-5),
    ("ignorant", 0.2, 1e-9): (0.7917984669, 5.45324158e-9),
    ("ignorant", 2.0, 1e-6): (5.1983467804, 2.81689195e-5),
    ("ignorant", 0.05, 1e-9): (0.1898509863, 4.07772470e-9),
}


@pytest.mark.parametrize("case", REFERENCE, ids=str)
def test_reference_pairs(case):
    against, epsilon, delta = case
    leak, wanted = REFERENCE[case]
    found = ut.leakage(ut.PureDP(epsilon), CHAIN, against).upper
    assert found == pytest.approx(leak, abs=2e-10)
    assert closed_delta(delta, epsilon, found) == pytest.approx(wanted, rel=1e-8)


@given(size=st.integers(1, 6), epsilon=st.floats(0.01, 1.5), delta=st.floats(1e-12, 1e-4))
def test_groups_are_the_classical_formula(size, epsilon, delta):
    classical = delta * sum(math.exp(j * epsilon) for j in range(size))
    found = closed_delta(delta, epsilon, size * epsilon)
    assert found >= classical * (1 - 1e-13)
    assert found == pytest.approx(classical, rel=1e-9)


def test_the_least_level_along_a_curve():
    def rate(level):
        return 3 * level

    curve = GaussianCurve(0.2)
    found = closed_epsilon(curve, rate, 1e-6)
    assert found.delta <= 1e-6
    assert found.epsilon == rate(found.level)
    shorter = found.level * (1 - 1e-9)
    assert closed_delta(curve.delta(shorter), shorter, rate(shorter)) > 1e-6


def test_a_point_with_too_large_a_delta_says_nothing():
    found = closed_epsilon(PointCurve(((1.0, 1e-3),)), lambda level: 2 * level, 1e-6)
    assert found.epsilon == math.inf


def test_more_than_any_probability_is_no_delta():
    assert closed_delta(0.05, 1.0, 3.0) == pytest.approx(0.05 * math.expm1(3.0) / math.expm1(1.0))
    assert closed_delta(0.1, 1.0, 3.0) == math.inf  # 1.11


def test_a_small_point_may_do_where_the_budget_alone_would_not():
    """(.05, 2e-7) leaks (.19, 8.3e-7), which meets (1, 1e-6), although 2e-7 > d0."""
    rate = ut.leakage(ut.PureDP(0.05), CHAIN).upper
    assert closed_delta(2e-7, 0.05, rate) == pytest.approx(8.28e-7, rel=1e-3)
    budget = ut.dp_budget(CHAIN, limit=1.0)
    assert pure_budget_delta(1.0, 1e-6, budget) == pytest.approx(1.655396686e-7, rel=1e-8)


def test_nothing_leaks_where_nothing_can():
    assert closed_delta(1e-6, 1.0, 0.0) == 0.0
    assert pure_budget_delta(1.0, 1e-6, math.inf) == 1e-6
