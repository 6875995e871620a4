"""Leakages and plans on Gaussian records, judged by fractions and by quadrature of densities.

Fractions are exact: an interval must hold them with no tolerance. Quadrature on a grid is right to
QUADRATURE (relative, either side): kinks of clipped answers cost the trapezoid rule that much.
"""

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import each, law
from tests.oracles.enumeration import adversaries
from tests.oracles.gaussian import (
    apart_factor,
    linear_factor,
    quadrature_leakage,
)
from undertow.adversaries import Adversary
from undertow.bounds.gaussian.leakages import leakage as gaussian_leakage
from undertow.errors import InvalidInput, NotSupported
from undertow.models.gaussian import MultivariateGaussian

QUADRATURE = 2e-3
LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=20)
NAMED: tuple[Any, ...] = ("any", "ignorant", "informed")
ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data")

R3 = [[1.0, 0.9, 0.0], [0.9, 1.0, 0.3], [0.0, 0.3, 1.0]]
GALTON = [[1.0, 0.275, 0.202], [0.275, 1.0, 0.074], [0.202, 0.074, 1.0]]


def summed(size, spread=1.0, scale=1.0):
    """An unclipped sum with noise: its leakage is the factor where spread and scale are 1."""
    return ut.Laplace(ut.Linear(np.ones(size), spread), scale)


def random_covariance(seed, size, extra=2):
    rng = np.random.default_rng(seed)
    draws = rng.standard_normal((size + extra, size)) * rng.uniform(0.3, 3, size)
    covariance = draws.T @ draws / (size + extra)
    return (covariance + covariance.T) / 2


# --- against fractions ----------------------------------------------------------------------------


@law(LAWS, 8, seed=st.integers(0, 10**6), size=st.integers(1, 4), scale=st.floats(0.1, 9))
def test_linear_queries_leak_the_exact_coefficient(seed, size, scale):
    covariance = random_covariance(seed, size)
    rng = np.random.default_rng(seed)
    model = MultivariateGaussian(rng.standard_normal(size), covariance)
    for weights in (rng.standard_normal(size), rng.standard_normal((3, size))):
        query = ut.Linear(weights, spread=2.5)
        for against in (*NAMED, Adversary(0, range(1, size, 2))):
            leak = gaussian_leakage(ut.Laplace(query, scale), model, against)
            factor, _ = linear_factor(covariance, np.atleast_2d(weights), against)
            value = factor * Fraction(2.5) / Fraction(scale)
            assert Fraction(leak.lower) <= value <= Fraction(leak.upper)
            assert leak.closed
            assert leak.method == "exact"


@law(LAWS, 8, seed=st.integers(0, 10**6), size=st.integers(1, 4), rate=st.floats(0.01, 3))
def test_metric_privacy_leaks_one_plus_the_slopes(seed, size, rate):
    covariance = random_covariance(seed, size)
    model = MultivariateGaussian(0, covariance, spread=3.0)
    for against in (*NAMED, Adversary(0, range(1, size, 2))):
        leak = gaussian_leakage(ut.MetricDP(rate), model, against)
        factor, _ = apart_factor(covariance, np.ones(size), against, clipped=False)
        value = factor * 3 * Fraction(rate)
        assert Fraction(leak.lower) <= value <= Fraction(leak.upper)
        assert leak.closed
    wider = gaussian_leakage(ut.MetricDP(rate), model, spread=6.0)
    assert wider.upper == pytest.approx(2 * gaussian_leakage(ut.MetricDP(rate), model).upper)


@law(LAWS, 8, seed=st.integers(0, 10**6), size=st.integers(1, 5))
def test_noise_on_every_record_attains_what_its_rate_allows(seed, size):
    """Proposition 6.1 of the thesis is tight: the identity query leaks all of it."""
    model = MultivariateGaussian(0, random_covariance(seed, size), spread=2.0)
    each = gaussian_leakage(ut.Laplace(ut.Linear(np.eye(size), 2.0), 4.0), model)
    rate = gaussian_leakage(ut.MetricDP(0.25), model)
    assert each.lower == pytest.approx(rate.lower, rel=1e-9)
    assert each.upper == pytest.approx(rate.upper, rel=1e-9)


@LAWS
@given(seed=st.integers(0, 10**6), size=st.integers(1, 4))
def test_clipped_sums_are_held_by_their_own_bound(seed, size):
    covariance = random_covariance(seed, size)
    model = MultivariateGaussian(5.0, covariance)
    for against in (*NAMED, Adversary(0, range(1, size, 2))):
        factor, _ = apart_factor(covariance, np.ones(size), against, clipped=True)
        leak = gaussian_leakage(ut.Laplace(ut.Sum(0, 10), 10.0), model, against)
        assert factor <= Fraction(leak.upper) <= min(factor + Fraction(size, 2**22), Fraction(size))
        assert 0 <= leak.lower <= leak.upper
        mean = gaussian_leakage(ut.Laplace(ut.Mean(0, 10), 10.0 / size), model, against)
        assert mean.upper == pytest.approx(leak.upper, rel=1e-12)
        assert mean.lower == pytest.approx(leak.lower, rel=1e-9, abs=1e-9)


# --- against quadrature ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_densities_of_noisy_sums_differ_by_the_exact_leakage(seed):
    covariance = random_covariance(seed, 3)
    mean, scale, spread = [1.0, -2.0, 0.5], 2.0, 3.0
    weights = [1.0, 0.7, -1.2]
    model = MultivariateGaussian(mean, covariance)
    mechanism = ut.Laplace(ut.Linear(weights, spread), scale)
    for target, known in adversaries(3, "any"):
        leak = gaussian_leakage(mechanism, model, Adversary(target, known))
        truth = quadrature_leakage(covariance, mean, weights, (-spread / 2, spread / 2), scale,
                                   (target, known), known=(-3.0, 4.0))  # fmt: skip
        assert truth == pytest.approx(leak.upper, rel=QUADRATURE, abs=1e-4)


@each(("seed", "scale"), range(6), [10.0, 3.0], few=4)
def test_densities_of_clipped_sums_stay_below_the_bound(seed, scale):
    rng = np.random.default_rng(seed)
    covariance = random_covariance(seed, 3, extra=1) * rng.choice([0.3, 3.0])
    mean = rng.uniform(-2, 12, 3)
    model = MultivariateGaussian(mean, covariance)
    mechanism = ut.Laplace(ut.Sum(0, 10), scale)
    worst = 0.0
    for target, known in adversaries(3, "any"):
        leak = gaussian_leakage(mechanism, model, Adversary(target, known))
        truth = quadrature_leakage(
            covariance, mean, np.ones(3), (0.0, 10.0), scale, (target, known), clip=(0, 10),
            known=(-9.0, 2.0, 5.0, 19.0),
        )  # fmt: skip
        assert truth <= leak.upper * (1 + QUADRATURE)
        worst = max(worst, truth)
    whole = gaussian_leakage(mechanism, model)
    assert worst <= whole.upper * (1 + QUADRATURE)
    assert whole.lower >= 10 / scale * (1 - 1e-9)  # at least what plain DP leaks


@pytest.mark.parametrize(("sd", "factor"), [(1.0, 1.499898), (3.0, 1.451642), (10.0, 1.206202)])
def test_two_clipped_records(sd, factor):
    """Reference: rho .5, range [0, 10], means 5: the exact clipped factor at M / b = 1."""
    covariance = np.array([[1.0, 0.5], [0.5, 1.0]]) * sd**2
    model = MultivariateGaussian(5.0, covariance)
    leak = gaussian_leakage(ut.Laplace(ut.Sum(0, 10), 10.0), model)
    truth = quadrature_leakage(covariance, [5.0, 5.0], [1.0, 1.0], (0.0, 10.0), 10.0, (0, ()),
                               clip=(0, 10), points=4001)  # fmt: skip
    assert leak.lower == pytest.approx(factor, abs=2e-6)
    assert truth == pytest.approx(factor, abs=1e-4)
    assert leak.upper == pytest.approx(1.5, abs=1e-6)
    assert leak.lower <= leak.upper


@pytest.mark.parametrize("seed", range(5))
def test_the_attack_on_clipped_sums_attains_its_lower_end(seed):
    rng = np.random.default_rng(seed)
    covariance = random_covariance(seed, 3)
    model = MultivariateGaussian(rng.uniform(0, 10, 3), covariance)
    leak = gaussian_leakage(ut.Laplace(ut.Sum(0, 10), 8.0), model)
    witness = leak.witness
    fixed = dict(witness.known)
    truth = quadrature_leakage(covariance, model.mean, np.ones(3), (witness.value, witness.other),
                               8.0, (witness.target, tuple(fixed)), clip=(0, 10),
                               known=tuple(fixed.values()), points=2001)  # fmt: skip
    assert truth >= leak.lower * (1 - QUADRATURE)


def frozen_third():
    """Two dependent records, and a third that cancels them unclipped and is constant clipped."""
    correlations = np.array([[1.0, 0.24, -0.47], [0.24, 1.0, -0.55], [-0.47, -0.55, 1.0]])
    return correlations * np.outer([1.0, 2.0, 4.0], [1.0, 2.0, 4.0]), [5.0, 5.0, 1000.0]


def test_a_linear_query_with_a_range_is_clipped_when_released_and_checked_so():
    covariance, mean = frozen_third()
    model = MultivariateGaussian(mean, covariance)
    ranged = gaussian_leakage(ut.Laplace(ut.Linear(np.ones(3), 10.0, lower=0.0), 10.0), model)
    clipped = gaussian_leakage(ut.Laplace(ut.Sum(0, 10), 10.0), model)
    assert ranged.method == clipped.method == "clipped"
    assert ranged.upper == pytest.approx(clipped.upper, abs=1e-6)
    assert ranged.lower == pytest.approx(clipped.lower, abs=1e-9)
    weighed = gaussian_leakage(
        ut.Laplace(ut.Linear([1.0, -2.0, 0.5], 10.0, lower=0.0), 20.0), model
    )
    factor, _ = apart_factor(covariance, [1.0, 2.0, 0.5], clipped=True)
    assert factor / 2 <= Fraction(weighed.upper) <= factor / 2 + Fraction(1, 10**5)


# --- differential privacy alone -------------------------------------------------------------------


def test_the_general_bound_counts_dependent_records():
    covariance = np.eye(5)
    covariance[0, 1] = covariance[1, 0] = covariance[1, 2] = covariance[2, 1] = 0.4
    model = MultivariateGaussian(0, covariance)
    assert gaussian_leakage(ut.PureDP(0.5), model).upper == 1.5
    assert gaussian_leakage(ut.PureDP(0.5), model, "ignorant").upper == 1.5
    assert gaussian_leakage(ut.PureDP(0.5), model, "informed").upper == 0.5
    assert gaussian_leakage(ut.PureDP(0.5), model, Adversary(0, [1])).upper == 1.0
    assert gaussian_leakage(ut.PureDP(0.5), model, Adversary(4)).upper == 0.5
    limited = MultivariateGaussian(0, covariance, spread=1.0)
    assert gaussian_leakage(ut.PureDP(0.5), limited).lower <= 0.5
    any_function = ut.Laplace(ut.Query(max, sensitivity=2.0), 4.0)
    assert gaussian_leakage(any_function, model).upper == pytest.approx(1.5)
    assert gaussian_leakage(any_function, model).lower == 0
    bounded = MultivariateGaussian.bounded(4, 0.1)
    assert gaussian_leakage(ut.PureDP(0.5), bounded).upper == 2.0
    assert gaussian_leakage(ut.PureDP(0.5), MultivariateGaussian.bounded(4, 0.0)).upper == 0.5


# --- laws -----------------------------------------------------------------------------------------


def mechanisms(size):
    rng = np.random.default_rng(size)
    return [
        ut.Laplace(ut.Linear(rng.standard_normal(size), 2.0), 3.0),
        ut.Laplace(ut.Linear(rng.standard_normal((2, size)), 2.0), 3.0),
        ut.Laplace(ut.Sum(-2, 2), 4.0),
        ut.Laplace(ut.Mean(-2, 2), 1.0),
        ut.MetricDP(0.3),
        ut.PureDP(0.7),
    ]


@law(LAWS, 8, seed=st.integers(0, 10**6), size=st.integers(2, 5))
def test_the_order_of_the_records_does_not_matter(seed, size):
    covariance = random_covariance(seed, size)
    order = np.random.default_rng(seed).permutation(size)
    weights = np.random.default_rng(seed + 1).standard_normal(size)
    first = gaussian_leakage(
        ut.Laplace(ut.Linear(weights, 1.0), 1.0), MultivariateGaussian(0, covariance)
    )
    second = gaussian_leakage(
        ut.Laplace(ut.Linear(weights[order], 1.0), 1.0),
        MultivariateGaussian(0, covariance[np.ix_(order, order)]),
    )
    assert first.upper == pytest.approx(second.upper, rel=1e-9)
    assert order[second.witness.target] == first.witness.target


@law(LAWS, 8, seed=st.integers(0, 10**6), size=st.integers(1, 5))
def test_independent_records_leak_the_dp_loss(seed, size):
    rng = np.random.default_rng(seed)
    model = MultivariateGaussian(rng.standard_normal(size), np.diag(rng.uniform(0.1, 9, size)),
                                 spread=2.0)  # fmt: skip
    for mechanism in mechanisms(size):
        level = (
            mechanism.dp_epsilon(size) if isinstance(mechanism, ut.Laplace)
            else mechanism.epsilon if isinstance(mechanism, ut.PureDP)
            else mechanism.dp_epsilon(2.0)
        )  # fmt: skip
        leak = gaussian_leakage(mechanism, model)
        assert leak.upper == pytest.approx(level, rel=1e-6)
        assert leak.lower == pytest.approx(level, rel=1e-6)


@law(LAWS, 8, seed=st.integers(0, 10**6), size=st.integers(2, 5), factor=st.floats(1.01, 9))
def test_more_noise_leaks_less_in_proportion(seed, size, factor):
    model = MultivariateGaussian(1.0, random_covariance(seed, size))
    for query in (ut.Linear(np.ones(size), 2.0), ut.Sum(0, 2), ut.Mean(0, 2)):
        little = gaussian_leakage(ut.Laplace(query, 1.0), model)
        much = gaussian_leakage(ut.Laplace(query, factor), model)
        assert much.upper == pytest.approx(little.upper / factor, rel=1e-12)
        assert much.lower <= little.lower


@law(LAWS, 8, seed=st.integers(0, 10**6), size=st.integers(2, 5), power=st.integers(-40, 40))
def test_units_and_means_do_not_matter(seed, size, power):
    covariance = random_covariance(seed, size)
    first = gaussian_leakage(summed(size), MultivariateGaussian(0, covariance))
    scaled = MultivariateGaussian(7.0, covariance * 4.0**power)
    assert gaussian_leakage(summed(size), scaled).upper == pytest.approx(first.upper, rel=1e-12)
    units = np.random.default_rng(seed).uniform(1e-6, 1e6, size)
    uneven = covariance * np.outer(units, units)
    changed = ut.Laplace(ut.Linear(1 / units, 1.0), 1.0)
    target = gaussian_leakage(changed, MultivariateGaussian(0, (uneven + uneven.T) / 2))
    # the same statistic in other units: coefficients are those of X_i / unit_i
    truth, _ = linear_factor((uneven + uneven.T) / 2, [1 / units])
    assert target.upper == pytest.approx(float(truth), rel=1e-9)


# --- refusals -------------------------------------------------------------------------------------


def test_what_has_no_leakage_is_refused():
    model = MultivariateGaussian(0, R3)
    with pytest.raises(NotSupported, match="how far two values of a record may differ"):
        gaussian_leakage(ut.MetricDP(1.0), model)
    with pytest.raises(NotSupported, match="asks for states"):
        gaussian_leakage(ut.Laplace(ut.Count("tall"), 1.0), model)
    with pytest.raises(NotSupported, match="real numbers"):
        gaussian_leakage(ut.DiscreteLaplace(ut.Count("tall"), 1.0), model)
    with pytest.raises(NotSupported, match="XorNoise has no leakage on Gaussian"):
        gaussian_leakage(ut.XorNoise(0.1, 0.1), model)
    with pytest.raises(InvalidInput, match="2 weights do not fit 3 records"):
        gaussian_leakage(summed(2), model)
    with pytest.raises(InvalidInput, match="the adversary names record 3, but there are 3"):
        gaussian_leakage(summed(3), model, Adversary(0, [3]))
    with pytest.raises(InvalidInput, match="against must be"):
        gaussian_leakage(summed(3), model, "everyone")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="spread must be positive"):
        gaussian_leakage(ut.MetricDP(1.0), model, spread=-1)
