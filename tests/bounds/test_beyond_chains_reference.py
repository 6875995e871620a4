"""Reference numbers of models beyond chains, all of them through the public names.

Sections of the project's theory: Gaussian records (6), pedigrees and networks (7), composition (8),
dependent differential privacy (9), accuracy (10). Real data stay outside the project: name their
folder in UNDERTOW_DATA, or keep them beside the checkout in shared/data.
"""

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.oracles.gaussian import quadrature_leakage, threshold_leakage

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data")
BB = ut.Laplace(ut.Count("BB"), 1.0)


def real(name: str) -> Path:
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"no {name}: set UNDERTOW_DATA to the folder that holds it")
    return path


def rows_of(name: str, *columns: str) -> list[list[float]]:
    with real(name).open(newline="") as file:
        return [[float(row[column]) for column in columns] for row in csv.DictReader(file)]


def closed(mechanism: Any, model: Any, against: Any = "any") -> float:
    leak = ut.leakage(mechanism, model, against)
    assert leak.upper - leak.lower <= 1e-6 * max(1.0, leak.upper)
    return leak.upper


# --- section 6: Gaussian records ------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("known", [0, 1, 3])
def test_equal_correlations(rho: float, known: int) -> None:
    """(1 + (n-1) rho) / (1 + k rho), the worst at k = 0."""
    n = 5
    model = ut.MultivariateGaussian(0, np.full((n, n), rho) + (1 - rho) * np.eye(n))
    noise = ut.Laplace(ut.Linear(np.ones(n), 1.0), 1.0)
    found = closed(noise, model, ut.Adversary(4, range(known)))
    assert found == pytest.approx((1 + (n - 1) * rho) / (1 + known * rho), abs=1e-9)
    assert closed(noise, model) == pytest.approx(1 + (n - 1) * rho, abs=1e-9)


@pytest.mark.parametrize(("n", "rho"), [(2, 0.9), (3, 0.5), (4, 0.3), (6, 0.2)])
def test_a_bound_on_correlations(n: int, rho: float) -> None:
    """1 + (n-1) rho up to rho = 1/(n-1); the thesis has n^2 / (4 (1/rho - n + 2)) + 1."""
    query, model = ut.Linear(np.ones(n), 1.0), ut.MultivariateGaussian.bounded(n, rho)
    assert closed(ut.Laplace(query, 1.0), model) == pytest.approx(1 + (n - 1) * rho, abs=1e-9)
    if n > 2:
        thesis = n**2 / (4 * (1 / rho - n + 2)) + 1
        plan = ut.calibrate(query, model, 1.0, method="gaussian-bound")
        assert plan.mechanism.scale == pytest.approx(thesis, rel=1e-12)
        assert plan.leakage.proves(1.0)


def test_mothers_and_children() -> None:
    """The published factor under-protects where variances differ."""
    rows = rows_of("kidiq/kidiq.csv", "kid_score", "mom_iq")
    model = ut.MultivariateGaussian.fit(rows, public=True)
    assert model.sds == pytest.approx([20.41, 15.00], abs=5e-3)
    unclipped = ut.Linear([1, 1], spread=200.0)
    assert closed(ut.Laplace(unclipped, 200.0), model) == pytest.approx(1.609975, abs=5e-7)
    for query, leaks in ((ut.Sum(0, 200), 1.1096), (unclipped, 1.1116)):
        plan = ut.calibrate(query, model, 1.0, method="gaussian-bound")
        assert plan.mechanism.scale == pytest.approx(200 * 1.448276, abs=1e-3)
        assert plan.leakage.lower == pytest.approx(leaks, abs=5e-5)
        assert not plan.leakage.proves(1.0)
        assert ut.calibrate(query, model, 1.0).leakage.proves(1.0)
    truth = quadrature_leakage(
        model.covariance, model.mean, [1, 1], (0.0, 200.0), 200 * 1.448276, (1, ()),
        clip=(0.0, 200.0), points=1601,
    )  # fmt: skip
    assert truth == pytest.approx(1.1096, abs=5e-4)


def test_a_dp_level_says_little_about_gaussian_records() -> None:
    """rho = .275, n = 2: a threshold algorithm of level 1 leaks more than 1.275, at most 2."""
    attained = threshold_leakage(0.275, 1.0, 20.0)
    assert attained >= 1.845
    leak = ut.leakage(ut.PureDP(1.0), ut.MultivariateGaussian(0, [[1, 0.275], [0.275, 1]]))
    assert (leak.upper, leak.method) == (2.0, "group")
    metric = ut.MultivariateGaussian(0, [[1, 0.275], [0.275, 1]], spread=1.0)
    assert closed(ut.MetricDP(1.0), metric) == pytest.approx(1.275, abs=1e-12)


def test_what_is_exact_unclipped_is_too_little_clipped() -> None:
    """A third record that undoes the second's shift where nothing is clipped."""
    covariance = [[1.0, 0.5, -0.5], [0.5, 1.0, 0.0], [-0.5, 0.0, 1.0]]
    model = ut.MultivariateGaussian([0.0, 0.0, 100.0], covariance)
    weights, scale = [1.0, 1.0, 1.0], 10.0
    unclipped = closed(ut.Laplace(ut.Linear(weights, 10.0), scale), model, "ignorant")
    truth = quadrature_leakage(
        covariance, [5.0, 5.0, 100.0], weights, (0.0, 10.0), scale, (0, ()), clip=(0.0, 10.0)
    )  # fmt: skip
    centred = ut.MultivariateGaussian([5.0, 5.0, 100.0], covariance)
    clipped = ut.leakage(ut.Laplace(ut.Sum(0, 10), scale), centred, ut.Adversary(0))
    assert truth > 1.49 > closed(ut.Laplace(ut.Linear(weights, 10.0), scale), model,
                                 ut.Adversary(0))  # fmt: skip
    assert clipped.upper >= truth
    assert unclipped >= 1.0


# --- section 7: pedigrees and networks ------------------------------------------------------------


def nuclear(people: int, frequency: float) -> ut.Pedigree:
    return ut.Pedigree({f"child {n}": ("bob", "ann") for n in range(people - 2)}, frequency)


def line(steps: int) -> ut.Pedigree:
    parents = {"c0": ("f0", "m0")} | {f"c{n}": (f"s{n}", f"c{n - 1}") for n in range(1, steps + 1)}
    males = {f"c{n}": ("male" if n % 2 else "female") for n in range(steps + 1)}
    parents = {c: (pair if c == "c0" or males[pair[1]] == "female" else pair[::-1])
               for c, pair in parents.items()}  # fmt: skip
    return ut.Pedigree(parents)


FAMILIES = [
    (line(1), 3.240229), (line(2), 3.990372), (line(3), 4.791382),
    (ut.Pedigree({"dad": ("a", "b"), "mum": ("c", "d"), "kim": ("dad", "mum")}), 3.740516),
    (ut.Pedigree({"one": ("gf", "gm"), "two": ("gf", "gm"), "kim": ("one", "s1"),
                  "lee": ("s2", "two")}), 4.486509),
    (ut.Pedigree({"kim": (None, "ann")}), 1.620115),
]  # fmt: skip


@pytest.mark.parametrize(("pedigree", "value"), FAMILIES)
def test_families(pedigree: ut.Pedigree, value: float) -> None:
    assert closed(BB, pedigree) == pytest.approx(value, abs=1e-6)


def test_a_trio_at_its_worst() -> None:
    """m epsilon is tight for frequent alleles; for one trio the count is the worst algorithm."""
    assert closed(BB, nuclear(3, 1 - 1e-7)) == pytest.approx(3.0, abs=1e-5)
    assert closed(ut.PureDP(1.0), nuclear(3, 0.5)) == pytest.approx(2.240229, abs=1e-6)
    unsure = ut.Pedigree({"kim": ("bob", "ann")}, allele_frequency=(0.5, 0.9))
    assert ut.leakage(BB, unsure).upper == pytest.approx(2.869403, abs=1e-5)


# --- section 9: dependent differential privacy ----------------------------------------------------


def test_pairs_of_records_do_not_tell_all() -> None:
    coins = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    xor = ut.BayesianNetwork([(0, 2), (1, 2)], {0: [0.5, 0.5], 1: [0.5, 0.5], 2: coins})
    plan = ut.calibrate(ut.Count(1), xor, 1.0, method="dependent")
    assert plan.leakage.proves(1.0)
    assert any("pairs of records do not tell all" in note for note in plan.leakage.assumptions)


# --- section 10: accuracy -------------------------------------------------------------------------


def test_the_largest_correlation_for_an_error_twice_as_large() -> None:
    """Corollary 6.5 at n = 10, h = 2: rho <= .030303 by the thesis, .111111 by our bound."""
    query = ut.Linear(np.ones(10), 1.0)
    plain = ut.calibrate(query, ut.MultivariateGaussian.bounded(10, 0.0), 1.0).expected_error
    for method, rho in (("gaussian-bound", 0.030303), ("best", 0.111111)):
        below, above = (
            ut.calibrate(query, ut.MultivariateGaussian.bounded(10, value), 1.0, method=method)
            for value in (rho - 1e-6, rho + 2e-6)
        )
        assert below.expected_error <= 2 * plain < above.expected_error
