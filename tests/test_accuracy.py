"""Errors of the noise, against direct sums."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from undertow.accuracy import accuracy
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
    assert discrete(scale).expected_error() == pytest.approx(mean, rel=1e-12)
    assert discrete(scale).variance() == pytest.approx(square, rel=1e-12)
    assert discrete(scale).expected_error() == pytest.approx(1 / math.sinh(1 / scale), rel=1e-12)


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


def test_a_histogram_guarantees_all_bins_at_once():
    chain = ut.MarkovChain([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.2, 0.2, 0.6]])
    plan = ut.calibrate(ut.Histogram(), chain, limit=1.0, method="exchange")
    assert plan.numbers == 3
    assert plan.accuracy(0.05) == accuracy(plan.mechanism, 0.05, 3)
    assert plan.accuracy(0.05) > accuracy(plan.mechanism, 0.05)
    assert plan.expected_error == plan.mechanism.expected_error()
    assert plan.variance == plan.mechanism.variance()
