"""Gaussian factors near the limits of floats: margins, residuals, nearly singular models."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bounds.test_gaussian import (
    LAWS,
    block_of,
    encloses,
    family,
    forms,
    nearly_singular,
    truth,
)
from tests.grids import each
from tests.oracles.exact import solve
from tests.oracles.gaussian import linear_factor
from undertow.adversaries import Adversary
from undertow.bounds.gaussian import search as gaussian_laws
from undertow.bounds.gaussian.search import (
    Form,
    Law,
    gaussian_factor,
)
from undertow.models.gaussian import MultivariateGaussian


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


@LAWS
@given(seed=st.integers(0, 10**6), small=st.integers(1, 11))
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


@LAWS
@given(seed=st.integers(0, 10**6), size=st.integers(1, 6), small=st.integers(0, 12))
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
