"""Curves of guarantees: never below the truth, and the reference values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow.curves import (
    ConcentratedCurve,
    DiscreteGaussianCurve,
    GaussianCurve,
    GivenCurve,
    PointCurve,
    ReplacedCurve,
    ShiftedCurve,
    check_delta,
)
from undertow.errors import InvalidInput, NotSupported

LEVELS = st.floats(0.01, 4.0)


def brute_discrete(sigma, step, epsilon):
    """The hockey-stick divergence of two discrete Gaussian laws, by its table."""
    z = np.arange(-int(60 * sigma) - 60, int(60 * sigma) + 61, dtype=float)
    law = np.exp(-(z**2) / (2 * sigma**2))
    law /= law.sum()
    moved = np.exp(-((z - step) ** 2) / (2 * sigma**2))
    moved /= moved.sum()
    return float(np.maximum(moved - math.exp(epsilon) * law, 0).sum())


def brute_gaussian(mu, epsilon):
    """The same for two normal laws, by quadrature on a fine grid."""
    y = np.linspace(-12, 12 + mu, 400_001)
    density = np.exp(-((y - mu) ** 2) / 2) - math.exp(epsilon) * np.exp(-(y**2) / 2)
    return float(np.trapezoid(np.maximum(density, 0), y) / math.sqrt(2 * math.pi))


@pytest.mark.parametrize(
    ("sigma", "epsilon"), [(8.05761848, 0.5), (4.22467889, 1.0), (2.23047627, 2.0)]
)
def test_plain_gaussian_noise_has_the_reference_level(sigma, epsilon):
    assert GaussianCurve(1 / sigma).delta(epsilon) == pytest.approx(1e-6, rel=1e-7)


@law(settings(deadline=None), 10, mu=st.floats(0.05, 3.0), epsilon=LEVELS)
def test_gaussian_curve_is_the_divergence_rounded_up(mu, epsilon):
    found, truth = GaussianCurve(mu).delta(epsilon), brute_gaussian(mu, epsilon)
    assert found == pytest.approx(truth, rel=1e-6, abs=1e-9)


def test_gaussian_curve_keeps_its_digits_far_out():
    from mpmath import exp, mp, mpf, ncdf  # type: ignore[import-untyped]

    mp.dps = 40
    for mu, epsilon in [(0.06, 0.25), (1.0, 8.0), (0.01, 0.2), (3.0, 30.0)]:
        m, e = mpf(mu), mpf(epsilon)
        truth = ncdf(m / 2 - e / m) - exp(e) * ncdf(-m / 2 - e / m)
        found = GaussianCurve(mu).delta(epsilon)
        assert truth <= found <= truth * (1 + mpf("1e-7"))


@given(sigma=st.floats(0.4, 20.0), step=st.integers(1, 3), epsilon=st.floats(0.0, 3.0))
def test_discrete_gaussian_curve_is_its_divergence_rounded_up(sigma, step, epsilon):
    found, truth = (
        DiscreteGaussianCurve(sigma, step).delta(epsilon),
        brute_discrete(sigma, step, epsilon),
    )
    assert found >= truth - 1e-15
    assert found == pytest.approx(truth, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize(("sigma", "factor"), [(1, 1.04576), (2, 1.01065), (5, 1.0016725)])
def test_discrete_gaussian_noise_is_no_gaussian_dp(sigma, factor):
    """Between lattice thresholds its tests shift by more than 1 / sigma."""
    noise, normal = DiscreteGaussianCurve(float(sigma), 1), GaussianCurve(1 / sigma)
    worst = max(noise.delta(e) - normal.delta(e) for e in np.linspace(0.01, 3 / sigma, 200))
    assert worst > 1e-6
    wider = GaussianCurve(factor * 1.001 / sigma)
    assert all(wider.delta(e) >= noise.delta(e) for e in np.linspace(0.0, 3 / sigma, 200))


def test_concentrated_curve_of_the_reference():
    assert ConcentratedCurve(0.0243560).delta(1.0) == pytest.approx(1e-6, rel=2e-5)
    assert ConcentratedCurve(0.00152022137).delta(0.25032578764) == pytest.approx(
        1.655396686e-7, rel=1e-6
    )


@given(level=st.floats(0.05, 3.0), delta=st.just(0.0) | st.floats(1e-200, 0.2), epsilon=LEVELS)
def test_a_pair_says_what_its_worst_algorithm_does(level, delta, epsilon):
    """Randomised response that tells all with probability delta attains the curve of one pair."""
    no = 1 / (1 + math.exp(level))
    yes = no * math.exp(level)
    p = np.array([delta, 0.0, (1 - delta) * yes, (1 - delta) * no])
    q = np.array([0.0, delta, (1 - delta) * no, (1 - delta) * yes])
    truth = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
    found = PointCurve(((level, delta),)).delta(epsilon)
    assert found >= truth - 1e-15
    assert found == pytest.approx(truth, abs=1e-12)


def test_a_replaced_record_composes_two_steps():
    one = PointCurve(((0.5, 1e-6),))
    both = ReplacedCurve(one)
    assert both.delta(1.0) == pytest.approx(1e-6 * (1 + math.exp(0.5)), rel=1e-12)
    assert both.corners() == pytest.approx((1.0,))
    gaussian = ReplacedCurve(GaussianCurve(0.2))  # two steps of mu are one of 2 mu
    for epsilon in (0.2, 1.0, 2.0):
        truth = GaussianCurve(0.4).delta(epsilon)
        assert truth * (1 - 1e-12) <= gaussian.delta(epsilon) <= truth * 1.002


def test_a_pure_level_shifts_a_curve():
    shifted = GaussianCurve(0.1).after(0.2)
    assert isinstance(shifted, ShiftedCurve)
    assert shifted.delta(0.7) == pytest.approx(GaussianCurve(0.1).delta(0.5), rel=1e-12)
    assert shifted.delta(0.1) == 1.0
    assert GaussianCurve(0.1).after(0) == GaussianCurve(0.1)


@given(mu=st.floats(0.05, 1.0), delta=st.sampled_from([1e-3, 1e-6, 1e-9]))
def test_the_level_of_a_delta_is_the_least(mu, delta):
    curve = GaussianCurve(mu)
    level = curve.epsilon(delta)
    assert curve.delta(level) <= delta
    assert curve.delta(level * (1 - 1e-9)) > delta


def test_a_curve_that_never_falls_has_no_level():
    assert PointCurve(((1.0, 1e-3),)).epsilon(1e-6) == math.inf


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, "x", None])
def test_what_is_no_delta_is_refused(delta):
    with pytest.raises(InvalidInput, match="delta"):
        check_delta(delta)


def test_profiles_are_checked():
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        GivenCurve(lambda epsilon: 2.0).delta(1.0)
    with pytest.raises(InvalidInput, match="at least one pair"):
        PointCurve(())
    with pytest.raises(InvalidInput, match="found str"):
        ut.Profile("1e-6")
    with pytest.raises(InvalidInput, match="something else in it"):
        ut.Profile([1.0, 2.0])


# --- far levels -----------------------------------------------------------------------------------


def test_two_steps_of_concentrated_guarantees_on_a_chain():
    chain = ut.MarkovChain([[0.9986, 0.0014], [0.2611, 0.7389]])
    guarantee = ut.ZCDP(0.125, neighbours="add-remove")
    with pytest.raises(NotSupported, match="leakage is infinite at delta"):
        ut.leakage(guarantee, chain)
    leak = ut.leakage(guarantee, chain, secret=ut.Window(720), delta=1e-6)
    assert leak.upper == math.inf  # nothing is proved of so long a window; no error either
