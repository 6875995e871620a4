"""Gaussian models: what is refused and why, what is kept, and fits."""

import math
import warnings

import numpy as np
import pytest

from undertow.errors import DisclosureWarning, InvalidInput, InvalidModel
from undertow.models.base import Model
from undertow.models.gaussian import (
    GaussianClass,
    MultivariateGaussian,
    blocks,
    least_eigenvalue_lower,
)

PAIR = [[225.0, 137.2], [137.2, 416.6]]


# --- what is kept ---------------------------------------------------------------------------------


def test_a_model_keeps_its_numbers_and_freezes_them():
    model = MultivariateGaussian([100, 86.8], PAIR, spread=200)
    assert model.length == 2
    assert model.states == ()
    assert model.spread == 200.0
    assert model.sds == pytest.approx([15, math.sqrt(416.6)])
    assert model.correlations[0, 1] == pytest.approx(137.2 / 15 / math.sqrt(416.6))
    assert model.largest_correlation == model.correlations[0, 1]
    assert isinstance(model, Model)
    with pytest.raises(ValueError, match="read-only"):
        model.covariance[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        model.mean[0] = 1.0


@pytest.mark.parametrize(
    "model",
    [
        MultivariateGaussian([1, 2], PAIR),
        MultivariateGaussian([1, 2], PAIR, spread=3),
        MultivariateGaussian.bounded(4, 0.2),
        MultivariateGaussian.bounded(2, 0.2, sds=[1, 2], spread=9),
    ],
)
def test_a_description_leads_back_to_the_model(model):
    description = model.to_dict()
    again = type(model).from_dict(description)
    assert again == model
    assert again.describe() == model.describe()
    assert description["kind"] == {
        MultivariateGaussian: "gaussian", GaussianClass: "gaussian-class",
    }[type(model)]  # fmt: skip


def test_descriptions_say_what_matters():
    text = MultivariateGaussian(0, [[1, -0.5], [-0.5, 1]], spread=3).describe()
    assert text == (
        "2 jointly Gaussian records with correlations up to 0.5 in absolute value, two values at "
        "most 3 apart"
    )
    assert "known variances" in MultivariateGaussian.bounded(2, 0.1, sds=[1, 2]).describe()
    assert MultivariateGaussian.bounded(2, 0.1).states == ()


def test_rounding_of_mirrored_entries_is_evened_out():
    model = MultivariateGaussian(0, [[1, 0.5], [0.5 + 1e-14, 1]])
    assert model.covariance[0, 1] == model.covariance[1, 0]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ([1.0, 2.0], "square matrix"),
        ([[1.0, 0.0]], "square matrix"),
        ([[]], "square matrix"),
        ([["a"]], "numbers are required"),
        ([[1.0, math.nan], [math.nan, 1.0]], r"entry \(0, 1\) of the covariance is not a finite"),
        ([[1.0, 0.0], [0.0, math.inf]], r"entry \(1, 1\) of the covariance is not a finite"),
        ([[1.0, 0.2], [0.3, 1.0]], r"not symmetric: entry \(0, 1\) is 0.2, entry \(1, 0\) is 0.3"),
        ([[1.0, 0.0], [0.0, 0.0]], "variance of record 1 is 0.0; it must be positive"),
        ([[1.0, 0.0], [0.0, -2.0]], "variance of record 1 is -2.0"),
        ([[1.0, 2.4], [2.4, 4.0]], r"entry \(0, 1\) of the covariance is a correlation of 1.2"),
        ([[1.0, -2.4], [-2.4, 4.0]], "a correlation of -1.2; correlations lie between -1 and 1"),
        ([[1.0, 2.0], [2.0, 4.0]], "records 0 and 1 determine each other"),
        ([[1.0, -2.0], [-2.0, 4.0]], "correlation of -1: records 0 and 1"),
        ([[1e-300, 0.0], [0.0, 1.0]], "other units"),
        (
            [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]],
            "not positive definite: the least eigenvalue of its correlation matrix is -0.8",
        ),
        (
            [[2.0, 1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0]],
            "singular, or closer to singular than rounding can tell",
        ),
    ],
)
def test_bad_covariances_are_refused(covariance, message):
    with pytest.raises(InvalidInput, match=message):
        MultivariateGaussian(0, covariance)


@pytest.mark.parametrize(
    ("mean", "spread", "message"),
    [
        ([1.0], None, "mean must be one finite number, or 2 of them"),
        ([1.0, math.nan], None, "mean must be one finite"),
        (math.inf, None, "mean must be one finite"),
        (0, 0, "spread must be positive"),
        (0, "far", "spread must be a number"),
    ],
)
def test_bad_means_and_spreads_are_refused(mean, spread, message):
    with pytest.raises(InvalidInput, match=message):
        MultivariateGaussian(mean, PAIR, spread)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0.1), "n .records. must be at least 1"),
        ((3.0, 0.1), "whole number"),
        ((3, -0.1), r"lies in \[0, 1\)"),
        ((3, 1.0), "use Groups"),
        ((3, math.nan), r"lies in \[0, 1\)"),
        ((3, "weak"), "rho must be a number"),
        ((3, 0.1, [1.0, 2.0]), "3 records need 3 sds"),
        ((2, 0.1, [1.0, 0.0]), "sd of record 1 must be positive"),
    ],
)
def test_bad_classes_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        MultivariateGaussian.bounded(*arguments)


@pytest.mark.parametrize("kind", [MultivariateGaussian, GaussianClass])
def test_descriptions_with_holes_are_refused(kind):
    with pytest.raises(InvalidModel, match="none was found"):
        kind.from_dict({})


# --- fits -----------------------------------------------------------------------------------------


def test_a_fit_is_the_mean_and_the_covariance():
    rng = np.random.default_rng(1)
    rows = rng.multivariate_normal([100, 87], PAIR, size=500)
    model = MultivariateGaussian.fit(rows, public=True, spread=200)
    assert model.mean == pytest.approx(rows.mean(axis=0))
    assert model.covariance == pytest.approx(np.cov(rows.T), rel=1e-12)
    assert model.spread == 200


def test_a_fit_to_private_rows_warns():
    rows = np.random.default_rng(1).standard_normal((10, 2))
    with pytest.warns(DisclosureWarning, match="public=True") as caught:
        MultivariateGaussian.fit(rows)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultivariateGaussian.fit(rows, public=True)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1.0, 2.0], "rows must be a table"),
        ([], "rows must be a table"),
        ([[1.0, 2.0], [3.0, 4.0]], "need at least 3 rows"),
        ([[1.0, 2.0], [3.0, math.nan], [1.0, 1.0]], "row 1 has no finite number in column 1"),
        ([[1.0, 7.0], [3.0, 7.0], [2.0, 7.0]], "column 1 is the same in all rows"),
        ([[1.0, 2.0], [2.0, 4.0], [7.0, 14.0]], "determine each other"),
    ],
)
def test_rows_that_make_no_model_are_refused(rows, message):
    with pytest.raises(InvalidInput, match=message):
        MultivariateGaussian.fit(rows, public=True)


def test_a_refused_fit_does_not_tell_the_data():
    secret = 7352.25
    rows = [[secret, 2 * secret], [1.0, 2.0], [3.0, 6.0], [math.nan, 1.0]]
    for table in (rows, rows[:3]):
        with pytest.raises(InvalidInput) as refusal:
            MultivariateGaussian.fit(table, public=True)
        assert "7352" not in str(refusal.value)
        assert refusal.value.__cause__ is None


# --- certificates of definiteness -----------------------------------------------------------------


def test_indefinite_and_singular_matrices_get_no_certificate():
    assert least_eigenvalue_lower(np.array([[1.0, 2.0], [2.0, 1.0]])) == 0
    assert least_eigenvalue_lower(np.ones((3, 3))) == 0
    # positive definite by less than the rounding of its entries can tell
    assert least_eigenvalue_lower(np.array([[1.0, 1 - 1e-16], [1 - 1e-16, 1.0]])) == 0


def test_blocks_are_the_connected_components():
    matrix = np.eye(5)
    matrix[0, 3] = matrix[3, 0] = matrix[3, 4] = matrix[4, 3] = 0.1
    assert blocks(matrix) == [[0, 3, 4], [1], [2]]
