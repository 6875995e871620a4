"""Gaussian records: searches, classes and rounding, against fractions over all adversaries."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import each, law
from tests.oracles.exact import solve
from tests.oracles.gaussian import apart_factor, linear_factor
from undertow.adversaries import Adversary
from undertow.bounds.gaussian import search as gaussian_laws
from undertow.bounds.gaussian.leakages import class_factor
from undertow.bounds.gaussian.search import (
    Form,
    GaussianBlock,
    Law,
    all_known_sets,
    branch_and_bound,
    gaussian_factor,
)
from undertow.bounds.published import largest_correlation, published_gaussian_factor
from undertow.errors import InvalidInput, MethodRefused
from undertow.models.gaussian import GaussianClass, MultivariateGaussian, least_eigenvalue_lower

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


def nearly_singular(size, least):
    turned, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((size, size)))
    covariance = turned @ np.diag(np.geomspace(least, 1, size)) @ turned.T
    return (covariance + covariance.T) / 2


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


@law(LAWS, 8, seed=st.integers(0, 10**6), size=st.integers(2, 4), extra=st.integers(0, 3),
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


@law(LAWS, 8, seed=st.integers(0, 10**6))
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


# --- classes --------------------------------------------------------------------------------------


def inside_class(rng, size, rho, sds):
    """A covariance with correlations of at most rho, often at the limit; None if indefinite."""
    matrix = np.clip(rng.uniform(-2, 2, (size, size)), -1, 1) * rho
    matrix = np.triu(matrix, 1) + np.triu(matrix, 1).T + np.eye(size)
    scaled = matrix * np.outer(sds, sds)
    return None if least_eigenvalue_lower(matrix) < 1e-6 else (scaled + scaled.T) / 2


@law(
    LAWS,
    8,
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


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("kind", ["sum", "signed", "clipped"])
def test_nearly_singular_models_are_enclosed(gap, kind):
    """The third record is nearly the sum of two others, ever more nearly."""
    rng = np.random.default_rng(4)
    draws = rng.standard_normal((9, 4))
    base = draws.T @ draws / 9
    mix = np.eye(4)
    mix[2] = [1.0, -1.0, math.sqrt(gap), 0.2]
    covariance = mix @ base @ mix.T
    covariance = (covariance + covariance.T) / 2
    form = forms(4)[kind]
    value, _ = truth(covariance, form)
    found = gaussian_factor(MultivariateGaussian(0, covariance), form)
    encloses(found, found.upper, value)
    assert found.upper <= float(value) * (1 + 1e-6)


@each(("least", "kind"), [1e-13, 3e-14], ["sum", "clipped"])
def test_a_large_fragile_model_gets_a_wide_interval_rather_than_a_wrong_one(least, kind):
    size = 12
    covariance, form = nearly_singular(size, least), forms(size)[kind]
    assert not block_of(covariance, form).sure
    found = gaussian_factor(MultivariateGaussian(0, covariance), form)
    some = [(0, ()), (3, (1, 2)), (5, (0, 1, 2, 3)), (7, tuple(k for k in range(size) if k != 7))]
    for target, known in some:
        value, _ = truth(covariance, form, Adversary(target, known))
        assert value <= Fraction(found.upper)
    assert found.lower <= found.upper
    assert not found.exact


@law(LAWS, 8, seed=st.integers(0, 10**6), small=st.integers(1, 11))
def test_margins_cover_the_error_of_eliminations(seed, small):
    """What conditioning in floating point says differs from the truth by less than the margin."""
    rng = np.random.default_rng(seed)
    size = 4
    turned, _ = np.linalg.qr(rng.standard_normal((size, size)))
    covariance = turned @ np.diag(np.geomspace(10.0**-small, 1, size)) @ turned.T
    covariance = (covariance + covariance.T) / 2
    weights = rng.standard_normal(size)
    block = block_of(covariance, Form.linear(weights))
    if not block.sure:
        return
    matrix, cross = block.covariance.copy(), block.products[0].copy()
    for pivot in (0, 1):
        share = matrix[:, pivot] / matrix[pivot, pivot]
        cross = cross - share * cross[pivot]
        matrix = matrix - np.outer(share, matrix[pivot])
    found = abs(cross[3] / matrix[3, 3]) * block.scale[3]
    value, _ = linear_factor(covariance, [weights], Adversary(3, [0, 1]))
    assert abs(Fraction(float(found)) - value) <= Fraction(float(block.margin(block.dual)[3]))


@law(LAWS, 8, seed=st.integers(0, 10**6), size=st.integers(1, 6), small=st.integers(0, 12))
def test_residuals_of_inverses_err_less_than_they_say(seed, size, small):
    rng = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(rng.standard_normal((size, size)))
    matrix = turned @ np.diag(np.geomspace(10.0**-small, 1, size)) @ turned.T
    inverse = np.linalg.inv(matrix)
    found, error = gaussian_laws._residual(matrix, inverse)
    for i in range(size):
        for j in range(size):
            terms = (Fraction(matrix[i, k]) * Fraction(inverse[k, j]) for k in range(size))
            exact = int(i == j) - sum(terms, Fraction(0))
            assert abs(Fraction(found[i, j]) - exact) <= Fraction(error[i, j])


@pytest.mark.parametrize("name", ["tight", "smooth", "factors"])
def test_inverses_err_less_than_they_say(name):
    law = Law.of(family(name, 5), range(5))
    exact = [solve(law.covariance.tolist(), [int(i == j) for i in range(5)]) for j in range(5)]
    for i in range(5):
        for j in range(5):
            room = law.precision.error * math.sqrt(float(exact[i][i] * exact[j][j]))
            assert abs(float(exact[i][j] - Fraction(law.precision.matrix[i, j]))) <= room
    scaled = [[float(q) / math.sqrt(float(exact[i][i] * exact[j][j])) for j, q in enumerate(row)]
              for i, row in enumerate(exact)]  # fmt: skip
    assert 0 < law.precision.least <= np.linalg.eigvalsh(np.array(scaled))[0]


def test_exact_evaluation_is_right_to_a_few_roundings():
    covariance = family("tight", 6)
    block = block_of(covariance, Form.linear(np.ones(6)))
    value, _ = linear_factor(covariance, np.ones((1, 6)), Adversary(2, [0, 5]))
    found = block.evaluate(2, (0, 5))
    encloses(found, found.upper, value)
    assert found.upper - found.lower <= 1e-13 * found.upper
