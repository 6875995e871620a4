"""Errors of the noise, against direct sums over its probabilities."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from undertow.accuracy import accuracy, expected_error, variance
from undertow.errors import InvalidInput

SCALES = [0.05, 0.3, 1.0, 3.994794182, 17.5, 120.0]
BETAS = [0.9, 0.5, 0.2, 0.05, 1e-3, 1e-6]
MANY = settings(deadline=None, derandomize=True, database=None, max_examples=150)


def discrete(scale):
    return ut.DiscreteLaplace(ut.Count("a"), scale)


def smooth(scale):
    return ut.Laplace(ut.Count("a"), scale)


def probabilities(scale):
    """Pr[|Z| = z] for z = 0, 1, ..., until nothing is left; normalised by its own sum."""
    reach = max(50, math.ceil(60 * scale))
    weights = [math.exp(-z / scale) * (2 if z else 1) for z in range(reach)]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


@pytest.mark.parametrize("scale", SCALES)
def test_moments_of_discrete_noise(scale):
    law = probabilities(scale)
    mean = math.fsum(z * p for z, p in enumerate(law))
    square = math.fsum(z * z * p for z, p in enumerate(law))
    assert expected_error(discrete(scale)) == pytest.approx(mean, rel=1e-12)
    assert variance(discrete(scale)) == pytest.approx(square, rel=1e-12)
    assert expected_error(discrete(scale)) == pytest.approx(1 / math.sinh(1 / scale), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1e-2, 1e5, 1e12])
def test_moments_at_extreme_scales(scale):
    """No cancellation: both tend to 2 e^(-1/b) for small b, to b and 2 b^2 for large b."""
    small = 2 * math.exp(-1 / scale)
    expected = (small, small) if scale < 1 else (scale, 2 * scale**2)
    assert expected_error(discrete(scale)) == pytest.approx(expected[0], rel=1e-9)
    assert variance(discrete(scale)) == pytest.approx(expected[1], rel=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_moments_of_laplace_noise(scale):
    """E|Z| and E Z^2 of the density exp(-|z|/b) / 2b, by a fine trapezoid."""
    step = scale / 2000
    grid = [step * i for i in range(100_000)]
    density = [math.exp(-z / scale) / scale for z in grid]
    mean = step * math.fsum(z * p for z, p in zip(grid, density, strict=True))
    square = step * math.fsum(z * z * p for z, p in zip(grid, density, strict=True))
    assert expected_error(smooth(scale)) == pytest.approx(mean, rel=1e-6)
    assert variance(smooth(scale)) == pytest.approx(square, rel=1e-6)


def test_discrete_noise_errs_less():
    for scale in SCALES:
        assert expected_error(discrete(scale)) < expected_error(smooth(scale))
        assert variance(discrete(scale)) < variance(smooth(scale))


@pytest.mark.parametrize("numbers", [1, 2, 5])
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("scale", SCALES)
def test_quantiles_of_discrete_noise(scale, beta, numbers):
    """The least whole alpha for which all numbers are within it with probability 1 - beta."""
    law = probabilities(scale)
    inside = list(itertools.accumulate(law))
    found = accuracy(discrete(scale), beta, numbers)
    assert found == int(found) >= 0
    alpha = int(found)
    slack = 1e-12
    assert inside[min(alpha, len(law) - 1)] ** numbers >= 1 - beta - slack
    if alpha:
        assert inside[alpha - 1] ** numbers < 1 - beta + slack


@pytest.mark.parametrize("scale", [0.5, 4.0, 60.0])
@pytest.mark.parametrize("alpha", [0, 1, 7, 100])
def test_quantiles_change_where_the_tail_does(scale, alpha):
    """Pr[|Z| > alpha] = 2 r^(alpha + 1) / (1 + r) with r = e^(-1/scale)."""
    ratio = math.exp(-1 / scale)
    tail = 2 * ratio ** (alpha + 1) / (1 + ratio)
    assert accuracy(discrete(scale), tail * (1 + 1e-9)) == alpha
    assert accuracy(discrete(scale), tail * (1 - 1e-9)) == alpha + 1


@pytest.mark.parametrize("numbers", [1, 3])
@pytest.mark.parametrize("beta", BETAS)
def test_quantiles_of_laplace_noise(beta, numbers):
    alpha = accuracy(smooth(4.0), beta, numbers)
    assert (1 - math.exp(-alpha / 4.0)) ** numbers == pytest.approx(1 - beta, rel=1e-12)
    if numbers == 1:
        assert alpha == pytest.approx(4.0 * math.log(1 / beta), rel=1e-12)


@MANY
@given(st.floats(0.01, 500), st.floats(1e-12, 0.999), st.floats(1e-12, 0.999), st.integers(1, 20))
def test_accuracy_is_monotone(scale, first, second, numbers):
    low, high = sorted((first, second))
    for noise in (discrete, smooth):
        assert accuracy(noise(scale), low, numbers) >= accuracy(noise(scale), high, numbers)
        assert accuracy(noise(scale), low, numbers + 1) >= accuracy(noise(scale), low, numbers)
        assert accuracy(noise(2 * scale), low, numbers) >= accuracy(noise(scale), low, numbers)


@pytest.mark.parametrize("beta", [0, 1, -0.1, 1.5, math.nan, math.inf])
def test_beta_must_be_a_probability(beta):
    with pytest.raises(InvalidInput, match="beta must lie strictly between 0 and 1"):
        accuracy(discrete(4.0), beta)


def test_a_histogram_promises_all_bins_at_once():
    chain = ut.MarkovChain([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.2, 0.2, 0.6]])
    plan = ut.calibrate(ut.Histogram(), chain, epsilon=1.0)
    assert plan.numbers == 3
    assert plan.accuracy(0.05) == accuracy(plan.mechanism, 0.05, 3)
    assert plan.accuracy(0.05) > accuracy(plan.mechanism, 0.05)
    assert plan.expected_error == expected_error(plan.mechanism)
    assert plan.variance == variance(plan.mechanism)
