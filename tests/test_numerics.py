"""Rounding goes where it must: every direction checked in exact arithmetic."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.grids import law
from undertow.errors import InvalidInput
from undertow.numerics import (
    ROUNDOFF,
    check_count,
    check_positive,
    down,
    log_ratio,
    pad_log,
    up,
)
from undertow.rounding import DIGITS, above, below, odds

MANY = settings(deadline=None, derandomize=True, database=None, max_examples=300)
normal = st.floats(1e-290, 1e290) | st.floats(-1e290, -1e-290)
U = Fraction(ROUNDOFF)


# --- up and down ----------------------------------------------------------------------------------


@MANY
@given(normal, st.integers(0, 1000))
def test_up_and_down_cover_that_many_roundings(value, operations):
    exact, room = Fraction(value), operations * U * abs(Fraction(value))
    high, low = Fraction(up(value, operations)), Fraction(down(value, operations))
    assert exact + room <= high
    assert low <= exact - room
    # and not by much more than asked: two roundings of the sum, one step outwards
    assert high - exact <= room + 5 * U * (abs(exact) + room)
    assert exact - low <= room + 5 * U * (abs(exact) + room)


@law(MANY, 20, numbers=st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12))
def test_up_and_down_enclose_products_and_sums(numbers):
    product, total, roundings = 1.0, 0.0, len(numbers)
    for number in numbers:
        product, total = product * number, total + number
    exact_product = Fraction(1)
    for number in numbers:
        exact_product *= Fraction(number)
    exact_total = sum(map(Fraction, numbers), Fraction(0))
    for found, exact in ((product, exact_product), (total, exact_total)):
        assert Fraction(down(found, roundings)) <= exact <= Fraction(up(found, roundings))


@pytest.mark.parametrize("value", [0.0, 5e-324, -5e-324, 2.0**-1030, 1.0, -1.0])
def test_up_and_down_always_move(value):
    assert down(value) < value < up(value)
    assert down(value, 0) < value < up(value, 0)


def test_the_ends_of_the_floats_stay_on_their_side():
    largest = math.nextafter(math.inf, 0)
    assert up(math.inf) == math.inf
    assert up(-math.inf) == -math.inf
    assert down(math.inf) == math.inf
    assert up(largest) == math.inf
    assert down(largest) < largest
    assert math.isnan(up(math.nan))


# --- logarithms -----------------------------------------------------------------------------------


@law(
    settings(MANY, max_examples=60),
    8,
    states=st.integers(2, 4),
    products=st.integers(1, 8),
    random=st.randoms(use_true_random=False),
)
def test_pad_log_covers_a_product_of_matrices(states, products, random):
    matrices = [
        [[random.random() + 1e-9 for _ in range(states)] for _ in range(states)]
        for _ in range(products + 1)
    ]
    found = np.array(matrices[0])
    exact = [[Fraction(entry) for entry in row] for row in matrices[0]]
    for matrix in matrices[1:]:
        found = found @ np.array(matrix)
        exact = [
            [
                sum((row[m] * Fraction(matrix[m][y]) for m in range(states)), Fraction(0))
                for y in range(states)
            ]
            for row in exact
        ]
    errors = [
        abs(Fraction(float(found[x, y])) / exact[x][y] - 1)
        for x in range(states)
        for y in range(states)
    ]
    first, second = sorted(errors)[-2:]
    assert first + second <= Fraction(pad_log(products, states))


def test_log_ratio_of_zeros():
    found = log_ratio(np.array([1.0, 0.0, 0.0, math.e]), np.array([0.0, 1.0, 0.0, 1.0]))
    assert found[0] == math.inf
    assert found[1] == -math.inf
    assert math.isnan(found[2])
    assert found[3] == pytest.approx(1.0, rel=1e-15)
    assert log_ratio(np.array([1e-300]), np.array([1e300]))[0] == pytest.approx(-600 * math.log(10))


# --- numbers for people ---------------------------------------------------------------------------


@MANY
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 17))
@example(0.0, 7)
@example(9.9999999, 7)
@example(0.000099999999, 7)
@example(999999999999.9, 7)
@example(5e-324, 3)
@example(-3.47487337675, 7)
def test_above_and_below_enclose_the_value(value, digits):
    with localcontext() as context:
        context.prec = 1100
        exact = Decimal(value)
        high, low = Decimal(above(value, digits)), Decimal(below(value, digits))
        assert low <= exact <= high
        if exact:
            unit = Decimal(10) ** (exact.adjusted() + 1 - digits)
            assert high - exact < unit
            assert exact - low < unit
        else:
            assert low == high == 0


@MANY
@given(st.floats(1e-8, 1e15))
def test_shown_numbers_have_few_digits_and_read_back(value):
    for text in (above(value), below(value)):
        assert len(Decimal(text).normalize().as_tuple().digits) <= DIGITS
        assert float(text) == pytest.approx(value, rel=1e-6)
        assert "E" not in text
        assert "+" not in text


@MANY
@given(st.floats(0, 50))
@example(0.0)
@example(1.0)
@example(50.0)
def test_odds_are_rounded_up(leakage):
    with localcontext() as context:
        context.prec = 60
        exact, shown = Decimal(leakage).exp(), Decimal(odds(leakage))
    assert exact <= shown <= exact * Decimal("1.0101")


def test_odds_without_limit():
    assert odds(math.inf) == "without limit"


# --- checks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, r"scale must be positive and finite, found 0\.0"),
        (-1.5, r"found -1\.5"),
        (math.inf, "found inf"),
        (-math.inf, "found -inf"),
        (math.nan, "found nan"),
        (None, "scale must be a number, found NoneType"),
        ("four", "scale must be a number, found str"),
        ([1.0], "scale must be a number, found list"),
        (1j, "scale must be a number, found complex"),
    ],
)
def test_positive_numbers_are_required(value, message):
    with pytest.raises(InvalidInput, match=message):
        check_positive(value, "scale")


def test_numbers_beyond_the_floats_are_refused():
    with pytest.raises(InvalidInput):
        check_positive(10**400, "scale")


@pytest.mark.parametrize("value", [2.0, "3", None, True, np.bool_(True), math.nan, [1]])
def test_whole_numbers_are_required(value):
    with pytest.raises(InvalidInput, match="length must be a whole number, found"):
        check_count(value, "length", 0)


def test_whole_numbers_have_a_least_value():
    assert check_count(3, "length", 3) == 3
    assert type(check_count(np.int32(3), "length", 3)) is int  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="length must be at least 4, found 3"):
        check_count(3, "length", 4)
