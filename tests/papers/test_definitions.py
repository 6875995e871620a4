"""Levels of finite mechanisms: by plain loops, by closed forms, and in their order."""

import itertools
import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from undertow.errors import InvalidInput
from undertow.mechanisms import MetricDP
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    mechanism_leakage,
    product_channel_likelihood,
)
from undertow_papers.definitions import (
    dp_level,
    failure_floor,
    free_lunch_law,
    free_lunch_level,
    group_accuracy,
    half_range_failure,
    hamming,
    impossible_alpha,
    largest_ratio,
    metric_level,
)

SHAPES = [(2, 1), (2, 3), (3, 2), (4, 1), (1, 2)]  # states, records
SHAPED = pytest.mark.parametrize(("k", "n"), SHAPES)
MANY = settings(deadline=None, derandomize=True, database=None, max_examples=100)


def mechanism(seed, k, n, outputs=4, zeros=0.0):
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(outputs), size=(k,) * n)
    table[rng.random(table.shape) < zeros] = 0.0
    table[..., 0] += 0.01
    return table / table.sum(axis=-1, keepdims=True)


def random_law(seed, k, n):
    return np.random.default_rng(seed).dirichlet(np.ones(k**n)).reshape((k,) * n)


def l1(first, second):
    return float(sum(abs(x - y) for x, y in zip(first, second, strict=True)))


def by_loops(table, distance, reach=math.inf):
    """The definition itself, pair by pair, output by output, distances up to `reach`."""
    worst = 0.0
    for x, y in itertools.permutations(np.ndindex(table.shape[:-1]), 2):
        for top, bottom in zip(table[x], table[y], strict=True):
            if top == 0 or distance(x, y) > reach:
                continue
            worst = max(worst, math.inf if bottom == 0 else math.log(top / bottom) / distance(x, y))
    return worst


def as_joint(law, k, n):
    joint = np.zeros((k,) * n)
    for point, probability in law.items():
        joint[point] = probability
    return joint


# --- each level -----------------------------------------------------------------------------------


@SHAPED
@pytest.mark.parametrize("zeros", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_levels_by_definition(seed, zeros, k, n):
    table = mechanism(seed, k, n, zeros=zeros)
    assert dp_level(table) == pytest.approx(by_loops(table, hamming, reach=1), abs=1e-12)
    everything = by_loops(table, lambda _x, _y: 1.0)
    assert free_lunch_level(table) == pytest.approx(everything, abs=1e-12)
    assert metric_level(table, l1) == pytest.approx(by_loops(table, l1), abs=1e-12)
    assert metric_level(table, lambda _x, _y: 1.0) == pytest.approx(everything, abs=1e-12)


@SHAPED
@pytest.mark.parametrize("zeros", [0.0, 0.2])
@pytest.mark.parametrize("seed", range(3))
def test_the_hamming_distance_gives_dp(seed, zeros, k, n):
    table = mechanism(seed, k, n, zeros=zeros)
    assert metric_level(table, hamming) == pytest.approx(dp_level(table), abs=1e-12)
    assert metric_level(table, lambda x, y: 3 * hamming(x, y)) == pytest.approx(dp_level(table) / 3)


def test_randomised_response():
    channel = [[0.8, 0.2], [0.3, 0.7]]
    level = math.log(0.7 / 0.2)
    table = product_channel_likelihood([channel] * 3)
    assert dp_level(table) == pytest.approx(level)
    assert free_lunch_level(table) == pytest.approx(3 * level)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_a_noisy_sum_has_a_rate(scale):
    """Values 0, 1, 2 of three records: d-private in l1 with rate 1 / scale, 2 / scale-DP."""
    table = additive_noise_likelihood([0, 1, 2], scale, n=3)
    rate = metric_level(table, l1)
    assert rate == pytest.approx(1 / scale)
    assert dp_level(table) == pytest.approx(MetricDP(rate).dp_epsilon(spread=2))
    assert free_lunch_level(table) == pytest.approx(6 / scale)


def test_a_rate_guarantees_a_level_but_not_the_reverse():
    """A threshold is 1-DP, but values that differ by .1 are told apart as well as any."""
    values = np.array([0.0, 0.9, 1.0, 1.9])
    table = np.where(values < 0.95, 0.0, 1.0)[:, None] * [-1.0, 1.0] / 2
    threshold = np.exp(table) / np.exp(table).sum(axis=1, keepdims=True)
    assert dp_level(threshold) < 1.0
    rate = metric_level(threshold, lambda x, y: abs(values[x[0]] - values[y[0]]))
    assert rate == pytest.approx(10 * dp_level(threshold))
    assert dp_level(threshold) <= MetricDP(rate).dp_epsilon(spread=1.9)


def test_zeros():
    assert dp_level([[1.0, 0.0], [1.0, 0.0]]) == 0.0
    assert dp_level([[1.0, 0.0], [0.5, 0.5]]) == math.inf
    assert free_lunch_level([[1.0, 0.0], [0.5, 0.5]]) == math.inf
    assert metric_level([[1.0, 0.0], [0.5, 0.5]], hamming) == math.inf
    assert metric_level([[1.0, 0.0], [1.0, 0.0]], hamming) == 0.0
    assert dp_level([[1.0]]) == free_lunch_level([[1.0]]) == metric_level([[1.0]], hamming) == 0.0
    assert dp_level([[5e-324], [1.0]]) == pytest.approx(744.44, abs=5e-3)


def test_factors_of_an_output_cancel():
    table = mechanism(7, 3, 2)
    scaled = table * [1e-200, 1.0, 3.0, 1e150]
    for level in (dp_level, free_lunch_level, lambda table: metric_level(table, l1)):
        assert level(scaled) == pytest.approx(level(table), abs=1e-12)


# --- their order ----------------------------------------------------------------------------------


@SHAPED
@pytest.mark.parametrize("seed", range(4))
def test_the_bayesian_level_lies_between_dp_and_free_lunch(seed, k, n):
    table, slack = mechanism(seed, k, n), 1e-12
    dp, free = dp_level(table), free_lunch_level(table)
    for other in range(3):
        bayesian = mechanism_leakage(random_law(10 * seed + other, k, n), table).leakage
        assert dp - slack <= bayesian <= free + slack
    assert free <= n * dp + slack
    informed = mechanism_leakage(random_law(seed, k, n), table, "informed").leakage
    assert informed == pytest.approx(dp, abs=1e-12)


@MANY
@given(st.integers(0, 2**32 - 1))
def test_no_law_leaks_more_than_free_lunch(seed):
    """Laws with zeros as well, which may leak less than DP guarantees: nothing is left to hide."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(8, 0.2)) * (rng.random(8) < 0.7)
    law[0] += 1e-3
    joint = (law / law.sum()).reshape(2, 2, 2)
    table = mechanism(seed, 2, 3)
    assert mechanism_leakage(joint, table).leakage <= free_lunch_level(table) + 1e-12


def test_a_law_with_zeros_may_leak_less_than_dp():
    table = mechanism(3, 2, 2)
    certain = as_joint({(0, 0): 1.0}, 2, 2)
    assert mechanism_leakage(certain, table).leakage == 0.0 < dp_level(table)


# --- Theorem 4.5 of lange2024 ---------------------------------------------------------------------


@pytest.mark.parametrize("zeros", [0.0, 0.2])
@pytest.mark.parametrize(("k", "n"), [(2, 3), (3, 2), (4, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_the_free_lunch_law_leaks_all_there_is(seed, k, n, zeros):
    table = mechanism(seed, k, n, zeros=zeros)
    worst = 0.0
    for first, second in itertools.combinations(np.ndindex((k,) * n), 2):
        law, deciding = free_lunch_law(first, second)
        assert deciding is not None
        assert first[deciding] != second[deciding]
        joint = as_joint(law, k, n)
        expected = free_lunch_level(np.stack([table[first], table[second]]))
        found = mechanism_leakage(joint, table).leakage
        assert found == pytest.approx(expected, abs=1e-12)
        alone = mechanism_leakage(joint, table, (deciding, ())).leakage
        assert alone == pytest.approx(expected, abs=1e-12)
        worst = max(worst, found)
    assert worst == pytest.approx(free_lunch_level(table), abs=1e-12)


def test_the_free_lunch_law_itself():
    law, deciding = free_lunch_law("abc", "axy")
    assert law == {("a", "b", "c"): 0.5, ("a", "x", "y"): 0.5}
    assert deciding == 1
    assert free_lunch_law((1, 2), [1, 2]) == ({(1, 2): 1.0}, None)


# --- refusals -------------------------------------------------------------------------------------

TABLE = mechanism(0, 2, 2)


@pytest.mark.parametrize("level", [dp_level, free_lunch_level, lambda t: metric_level(t, hamming)])
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([0.5, 0.5], r"shape \(k,\) \* n \+ \(outputs,\).*found \(2,\)"),
        (np.ones((2, 3, 4)), r"found \(2, 3, 4\)"),
        (np.ones((2, 0)), "outputs >= 1"),
        ([[1.0, -0.1], [1.0, 0.1]], "non-negative"),
        ([[1.0, math.nan], [1.0, 0.1]], "finite"),
        ([[1.0, math.inf], [1.0, 0.1]], "finite"),
    ],
)
def test_bad_tables_are_refused(level, table, message):
    with pytest.raises(InvalidInput, match=message):
        level(table)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_what_is_not_a_metric_is_refused(value):
    with pytest.raises(InvalidInput, match="distance must be positive and finite"):
        metric_level(TABLE, lambda _x, _y: value)


@pytest.mark.parametrize(("first", "second"), [((), ()), ((1,), (1, 2))])
def test_data_sets_of_different_lengths_are_refused(first, second):
    with pytest.raises(InvalidInput, match="same number of records"):
        free_lunch_law(first, second)
    with pytest.raises(InvalidInput, match="same number of records"):
        hamming(first, second)


def test_floors_at_both_ends():
    assert failure_floor(1e-12) == pytest.approx(0.5)
    assert failure_floor(800.0) == 0.0
    assert failure_floor(700.0) == pytest.approx(math.exp(-700), rel=1e-12)


def test_what_no_algorithm_can_do():
    floor = failure_floor(1.0)
    assert impossible_alpha(10, 1.0, 0) == 5.0
    assert impossible_alpha(10, 1.0, math.nextafter(floor, 0)) == 5.0
    assert impossible_alpha(10, 1.0, floor) == 0.0
    assert impossible_alpha(10, 1.0, 1) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: group_accuracy(0.0, 2), "alpha must be positive"),
        (lambda: group_accuracy(math.inf, 2), "alpha must be positive"),
        (lambda: group_accuracy(1.0, 0), "records must be at least 1"),
        (lambda: group_accuracy(1.0, cast(Any, 1.5)), "records must be a whole number"),
        (lambda: half_range_failure(0), "epsilon must be positive"),
        (lambda: largest_ratio(-1.0, 2.0), "epsilon must be positive"),
        (lambda: largest_ratio(1.0, 1.0), "factor must be above 1, found 1.0"),
        (lambda: largest_ratio(1.0, 0.5), "factor must be above 1, found 0.5"),
        (lambda: largest_ratio(1.0, math.nan), "factor must be positive"),
        (lambda: failure_floor(math.inf), "epsilon must be positive"),
        (lambda: impossible_alpha(0, 1.0, 0.1), "spread must be positive"),
        (lambda: impossible_alpha(1, 0, 0.1), "epsilon must be positive"),
        (lambda: impossible_alpha(1, 1.0, -0.1), "beta must lie between 0 and 1, found -0.1"),
        (lambda: impossible_alpha(1, 1.0, 1.1), "beta must lie between 0 and 1"),
        (lambda: impossible_alpha(1, 1.0, math.nan), "beta must lie between 0 and 1"),
    ],
)
def test_bad_limits_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
