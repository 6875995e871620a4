"""The searches behind Gaussian leakages, against exact fractions over all adversaries."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.grids import each
from tests.oracles.gaussian import apart_factor, linear_factor
from undertow.adversaries import Adversary
from undertow.bounds.gaussian.search import (
    Form,
    GaussianBlock,
    Law,
    all_known_sets,
    branch_and_bound,
    gaussian_factor,
)
from undertow.models.gaussian import MultivariateGaussian

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=25)
CLOSED = 1e-9  # relative width of what counts as exact


def family(name, size, seed=1):
    """Covariances of many kinds, in uneven units."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 6, (size, 2))
    apart = np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1))
    loads = rng.standard_normal((size, 2))
    samples = {"noisy": 2 * size, "tight": size + 2}.get(name, size)
    draws = rng.standard_normal((samples, size))
    steps = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    matrix = {
        "noisy": draws.T @ draws,
        "tight": draws.T @ draws,
        "smooth": np.exp(-(apart**2) / 4) + 0.05 * np.eye(size),
        "rough": np.exp(-apart / 2),
        "factors": loads @ loads.T + np.eye(size),
        "attractive": np.abs(loads) @ np.abs(loads).T + np.eye(size),
        "markov": 0.7**steps,
        "alternating": (-0.7) ** steps,
        "equal": 0.3 + 0.7 * np.eye(size),
        "weak": np.eye(size) + (1 - np.eye(size)) * rng.uniform(-1, 1, (size, size)) / (2 * size),
    }[name]
    matrix = (matrix + matrix.T) / 2
    units = rng.uniform(0.2, 5, size)
    return matrix * units[:, None] * units


FAMILIES = (
    "noisy", "tight", "smooth", "rough", "factors", "attractive", "markov", "alternating", "equal",
    "weak",
)  # fmt: skip


def block_of(covariance, form):
    return GaussianBlock.of(Law.of(np.asarray(covariance, float), range(len(covariance))), form)


def forms(size, seed=0):
    """One row, several rows, every record by itself, and clipped."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2, size)
    return {
        "sum": Form.linear(np.ones(size)),
        "signed": Form.linear(rng.standard_normal(size)),
        "two": Form.linear(rng.standard_normal((2, size))),
        "apart": Form.apart(weights, clipped=False),
        "clipped": Form.apart(np.ones(size), clipped=True),
    }


def truth(covariance, form, against="any"):
    if form.alone:
        clipped = bool(np.isfinite(form.caps).all())
        return apart_factor(covariance, np.diag(form.rows), against, clipped=clipped)
    return linear_factor(covariance, form.rows, against)


def encloses(found, upper, value):
    """An exact comparison: floats are fractions."""
    assert Fraction(found.lower) <= value <= Fraction(upper)


# --- all known sets, branch and bound, and the fractions agree ------------------------------------


@each(("kind", "name"), ["sum", "signed", "two", "apart", "clipped"], FAMILIES)
def test_searches_enclose_the_exact_value_and_close(name, kind):
    covariance = family(name, 5)
    form = forms(5)[kind]
    value, _ = truth(covariance, form)
    block = block_of(covariance, form)
    whole = gaussian_factor(MultivariateGaussian(0, covariance), form)
    sets, tree = all_known_sets(block), branch_and_bound(block, block.evaluate(0, ()))
    for found, upper in (sets, tree, (whole, whole.upper)):
        encloses(found, upper, value)
        assert upper <= float(value) * (1 + CLOSED)
        assert found.lower >= float(value) * (1 - CLOSED)


@LAWS
@given(seed=st.integers(0, 10**6), size=st.integers(2, 4), extra=st.integers(0, 3),
       kind=st.sampled_from(["sum", "signed", "two", "apart", "clipped"]))  # fmt: skip
def test_random_models_are_enclosed_to_the_last_bit(seed, size, extra, kind):
    rng = np.random.default_rng(seed)
    draws = rng.standard_normal((size + 1 + extra, size)) * rng.uniform(0.01, 100, size)
    covariance = draws.T @ draws
    covariance = (covariance + covariance.T) / 2
    form = forms(size, seed)[kind]
    value, _ = truth(covariance, form)
    found = gaussian_factor(MultivariateGaussian(0, covariance), form)
    encloses(found, found.upper, value)
    assert found.exact


@pytest.mark.parametrize("name", ["noisy", "tight", "smooth", "factors", "alternating"])
@pytest.mark.parametrize("kind", ["sum", "apart", "clipped"])
def test_both_searches_agree_where_fractions_would_take_too_long(name, kind):
    block = block_of(family(name, 11), forms(11)[kind])
    first, above = all_known_sets(block)
    second, upper = branch_and_bound(block, block.evaluate(0, ()))
    assert first.lower == pytest.approx(second.lower, rel=1e-12)
    assert above == pytest.approx(upper, rel=1e-9)
    assert first.lower <= above
    assert second.lower <= upper


@LAWS
@given(seed=st.integers(0, 10**6))
def test_the_reported_adversary_attains_the_lower_end(seed):
    covariance, form = family("tight", 4, seed), forms(4, seed)["signed"]
    found = gaussian_factor(MultivariateGaussian(0, covariance), form)
    value, _ = truth(covariance, form, Adversary(found.target, found.known))
    assert Fraction(found.lower) <= value
    assert found.lower >= float(value) * (1 - 1e-12)


# --- blocks, sizes, effort ------------------------------------------------------------------------


def test_independent_blocks_are_searched_apart():
    first, second = family("tight", 3), family("smooth", 3, 5)
    whole = np.zeros((6, 6))
    places = [0, 2, 4], [1, 3, 5]
    for places_of, part in zip(places, (first, second), strict=True):
        whole[np.ix_(places_of, places_of)] = part
    form = Form.linear(np.ones(6))
    found = gaussian_factor(MultivariateGaussian(0, whole), form)
    parts = [linear_factor(part, np.ones((1, 3)))[0] for part in (first, second)]
    encloses(found, found.upper, max(parts))
    assert set(found.known) <= set(places[int(parts[1] > parts[0])])
    assert found.records == 3


def test_a_record_without_weight_still_tells_about_others():
    covariance = [[1.0, 0.8], [0.8, 1.0]]
    found = gaussian_factor(MultivariateGaussian(0, covariance), Form.linear(np.array([0.0, 1.0])))
    assert found.lower == pytest.approx(1.0)
    only = gaussian_factor(
        MultivariateGaussian(0, covariance), Form.linear(np.array([0.0, 1.0])), Adversary(0)
    )
    assert only.upper == pytest.approx(0.8)


def test_a_block_without_weight_leaks_nothing():
    model = MultivariateGaussian(0, np.eye(2))
    form = Form.linear(np.array([0.0, 1.0]))
    assert gaussian_factor(model, form, Adversary(0)).upper == 0
    assert gaussian_factor(model, form).upper == pytest.approx(1.0)


def test_little_effort_claims_no_less_than_an_adversary_that_it_overlooked():
    covariance, form = family("smooth", 30), Form.apart(np.ones(30), clipped=False)
    found = gaussian_factor(MultivariateGaussian(0, covariance), form, effort=-8)
    better = block_of(covariance, form).evaluate(7, (2,))
    assert found.lower < better.lower <= found.upper


def test_thresholds_between_the_ends_are_proved():
    """With a middling effort the search cannot close, but proves more than the roots do."""
    block = block_of(family("noisy", 30), Form.apart(np.ones(30), clipped=False))
    start = block.evaluate(0, ())
    least = branch_and_bound(block, start, effort=-12)
    some = branch_and_bound(block, start, effort=-2)
    assert some[0].lower * 1.001 < some[1] < 0.9 * least[1]
    more = branch_and_bound(block, some[0], effort=-1)
    assert some[0].lower <= more[1] <= some[1]
    assert more[0].lower <= some[1]
