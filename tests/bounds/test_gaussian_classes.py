"""Gaussian records of which little is known, and the bounds as published."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import undertow as ut
from tests.bounds.test_gaussian import LAWS, forms, truth
from tests.oracles.gaussian import linear_factor
from undertow.adversaries import Adversary
from undertow.bounds.gaussian.leakages import class_factor
from undertow.bounds.gaussian.search import Form
from undertow.bounds.published import largest_correlation, published_gaussian_factor
from undertow.errors import InvalidInput, MethodRefused
from undertow.models.gaussian import GaussianClass, least_eigenvalue_lower

# --- classes --------------------------------------------------------------------------------------


def inside_class(rng, size, rho, sds):
    """A covariance with correlations of at most rho, often at the limit; None if indefinite."""
    matrix = np.clip(rng.uniform(-2, 2, (size, size)), -1, 1) * rho
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T + np.eye(size)
    scaled = matrix * np.outer(sds, sds)
    return None if least_eigenvalue_lower(matrix) < 1e-6 else (scaled + scaled.T) / 2


@LAWS
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(2, 4),
    share=st.floats(0.2, 1.3),
    even=st.booleans(),
    kind=st.sampled_from(["sum", "signed", "two", "apart", "clipped"]),
)
def test_no_member_of_a_class_exceeds_its_bound(seed, size, share, even, kind):
    rng = np.random.default_rng(seed)
    rho = min(share / max(size - 1, 1), 0.95)
    sds = np.ones(size) if even else rng.uniform(0.5, 3, size)
    covariance = inside_class(rng, size, rho * (1 - 1e-9), sds)
    if covariance is None:
        return
    form = forms(size, seed)[kind]
    model = GaussianClass(size, rho, None if even else sds)
    for against in ("any", "ignorant", "informed", Adversary(0, range(1, size - 1))):
        value, _ = truth(covariance, form, against)
        found = class_factor(model, form, against)
        assert value <= Fraction(found.upper)
        assert found.lower <= found.upper


def test_a_bound_on_correlations_is_attained_for_unequal_variances():
    sds = np.array([1.0, 2.0, 5.0])
    rho = 0.2
    found = class_factor(GaussianClass(3, rho, sds), Form.linear(np.ones(3)))
    assert found.upper == pytest.approx(1 + rho * 7, rel=1e-12)
    covariance = (rho + (1 - rho) * np.eye(3)) * sds[:, None] * sds
    assert float(linear_factor(covariance, np.ones((1, 3)))[0]) == pytest.approx(1 + rho * 7)


def test_beyond_the_limit_unclipped_statistics_are_unbounded_and_clipped_ones_are_not():
    model = GaussianClass(4, 0.6)
    assert class_factor(model, Form.linear(np.ones(4))).upper == math.inf
    clipped = class_factor(model, Form.apart(np.ones(4), clipped=True))
    assert 1 + 3 * 0.6 <= clipped.upper <= 4
    assert class_factor(model, Form.linear(np.ones(4)), "ignorant").upper == pytest.approx(2.8)
    assert (
        class_factor(GaussianClass(4, 0.99), Form.apart(np.ones(4), clipped=True)).upper <= 4.0001
    )


def test_independent_records_leak_their_own_weight():
    for form in forms(4).values():
        found = class_factor(GaussianClass(4, 0.0), form)
        own = np.abs(form.rows).sum(axis=0).max()
        assert found.upper == pytest.approx(own, rel=1e-12)
        assert found.lower == pytest.approx(own, rel=1e-12)
        assert found.records == 1


def test_between_the_limits_the_bound_is_an_interval():
    """rho between 1 / (n - 1) and 1 / (n - 2): known records may be worse than none."""
    found = class_factor(GaussianClass(4, 0.4), Form.linear(np.ones(4)))
    assert found.lower == pytest.approx(2.2)
    assert found.upper == pytest.approx(1 + 0.4 / 0.2)


# --- several sums on other models -----------------------------------------------------------------


def test_several_sums_have_a_level_on_chains_and_no_distance():
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=(0, 1), length=3)
    query = ut.Linear([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0]], spread=1.0)
    assert ut.leakage(ut.Laplace(query, 4.0), chain).upper > 0.5
    with pytest.raises(MethodRefused, match="single numbers"):
        ut.calibrate(query, chain, 1.0, against="ignorant", method="wasserstein")
    with pytest.raises(InvalidInput, match="3 weights do not fit 4 records"):
        ut.calibrate(query, ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], length=4), 1.0)


# --- as published ---------------------------------------------------------------------------------


def test_the_published_factor_and_corollary():
    assert published_gaussian_factor(3, 0.275) == pytest.approx(1.853448276, abs=1e-9)
    assert published_gaussian_factor(2, 0.448276) == pytest.approx(1.448276)
    assert published_gaussian_factor(5, 0.0) == 1.0
    assert largest_correlation(10, 2.0) == pytest.approx(0.030303, abs=1e-6)
    assert largest_correlation(10, 2.0, published=False) == pytest.approx(0.111111, abs=1e-6)
    for rho in (largest_correlation(10, 1.5), largest_correlation(10, 1.5, published=False)):
        found = class_factor(GaussianClass(10, rho), Form.apart(np.ones(10), clipped=True))
        assert found.upper <= 1.5 * (1 + 1e-9)


@pytest.mark.parametrize("size", [3, 4, 8])
def test_the_published_factor_is_never_below_ours_for_equal_variances(size):
    for share in (0.05, 0.3, 0.7, 0.99):
        rho = share / (size - 1)
        ours = class_factor(GaussianClass(size, rho), Form.linear(np.ones(size))).upper
        assert ours <= published_gaussian_factor(size, rho) * (1 + 1e-12)


def test_published_bounds_refuse_what_they_are_not_stated_for():
    with pytest.raises(MethodRefused, match="needs correlations below"):
        published_gaussian_factor(5, 0.4)
    with pytest.raises(InvalidInput, match=r"rho must lie in \[0, 1\)"):
        published_gaussian_factor(5, 1.2)
    with pytest.raises(InvalidInput, match="factor must be above 1"):
        largest_correlation(5, 1.0)
