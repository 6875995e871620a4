"""Errors that travel with arrays and limits of mechanisms, against exact fractions."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.core.arrays import STEP, PositiveArray, add_upper, exp_upper, log_upper_of
from undertow.bounds.core.limits import limits


def exact_product(matrices):
    """The product of matrices of floats, in fractions."""
    product = [[Fraction(entry) for entry in row] for row in matrices[0].tolist()]
    for matrix in matrices[1:]:
        columns = [[Fraction(entry) for entry in column] for column in matrix.T.tolist()]
        product = [
            [
                sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0))
                for column in columns
            ]
            for row in product
        ]
    return product


@pytest.mark.parametrize("seed", range(3))
def test_long_products_are_held_at_any_scale(seed):
    """The error grows with every factor, and powers of two travel apart from the values."""
    rng = np.random.default_rng(seed)
    matrices = rng.uniform(0.01, 1.0, (120, 2, 2)) * 1e-3
    product = PositiveArray.of(matrices[0])
    for matrix in matrices[1:]:
        product = (product @ PositiveArray.of(matrix).scaled()).scaled()
    assert product.error >= 119 * 2 * STEP
    exact = exact_product(list(matrices))
    scale = Fraction(2) ** int(product.exponent[0, 0])
    for row, numbers in zip(product.values.tolist(), exact, strict=True):
        for value, number in zip(row, numbers, strict=True):
            assert abs(float(Fraction(value) * scale / number) - 1) <= product.error
    lows, highs = product.log_lower().ravel(), product.log_upper().ravel()
    for low, high, number in zip(lows, highs, itertools.chain(*exact), strict=True):
        true = math.log(number.numerator) - math.log(number.denominator)
        assert low - 1e-12 <= true <= high + 1e-12
        assert low < high < low + 1e-9


def test_sums_meet_on_the_larger_power():
    large, small = PositiveArray.of([[3.0]]), PositiveArray.of([[0.75]])
    shifted = PositiveArray(small.values, small.exponent - 4, 0.25)
    total = large + shifted
    assert float(np.ldexp(total.values, total.exponent)[0, 0]) == 3.0 + 0.75 / 16
    assert total.error >= 0.25
    apart = PositiveArray(np.array([[1.0, 1.0]]), np.array([[0, -3]]), 0.0)
    assert float(np.ldexp(apart.sum(1).values, apart.sum(1).exponent)[0, 0]) == 1.125
    assert apart.sum(1).error >= STEP
    quotient = PositiveArray(np.array([[1.0]]), np.array([[5]]), 0.0) / apart[:, 1:]
    assert quotient.upper()[0, 0] >= 256.0 >= quotient.lower()[0, 0]


def test_errors_widen_what_leaves_an_array():
    rough = PositiveArray.of([2.0, 0.0], error=0.1)
    assert rough.upper()[0] >= 2.0 * math.exp(0.1)
    assert 0 < rough.lower()[0] <= 2.0 * math.exp(-0.1)
    assert rough.upper()[1] == rough.lower()[1] == 0.0
    assert rough.log_upper()[0] >= math.log(2.0) + 0.1
    assert rough.log_lower()[0] <= math.log(2.0) - 0.1
    assert PositiveArray.exp([1.0], error=0.1).error >= 0.1
    assert (rough * rough).error >= 0.2
    assert (rough / rough).error >= 0.2


def test_sums_and_exponentials_of_floats_are_rounded_up():
    rng = np.random.default_rng(0)
    for _ in range(200):
        terms = rng.random(3)
        assert Fraction(float(add_upper(*terms))) >= sum(map(Fraction, terms.tolist()))
        assert float(exp_upper(np.array(terms[0]))) > math.exp(terms[0])
        assert float(log_upper_of(np.array(terms[0]))) > math.log(terms[0])


@pytest.mark.parametrize("rate", [0.1, 0.7, 1.1])
def test_limits_are_not_below_the_product_of_rate_and_distance(rate):
    states = (0, 1, 3, 7)
    table = limits(ut.MetricDP(rate), states)
    for i, one in enumerate(states):
        for j, two in enumerate(states):
            assert Fraction(float(table[i, j])) >= abs(one - two) * Fraction(rate)
    assert np.allclose(table, rate * np.abs(np.subtract.outer(states, states)))
