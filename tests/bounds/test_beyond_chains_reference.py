"""Reference numbers of models beyond chains, all of them through the public names.

Sections of the project's theory: Gaussian records (6), pedigrees and networks (7), composition (8),
dependent differential privacy (9), accuracy (10). Real data stay outside the project: name their
folder in UNDERTOW_DATA, or keep them beside the checkout in shared/data.
"""

import csv
import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.oracles.enumeration import law_leakage as leakage
from tests.oracles.gaussian import quadrature_leakage, threshold_leakage
from tests.oracles.models import Exact, counted, noisy, table_of

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data")
ALL = ut.Linear([1.0, 1.0, 1.0], spread=1.0)
NOISE = ut.Laplace(ALL, 1.0)
R3 = [[1, 0.9, 0], [0.9, 1, 0.3], [0, 0.3, 1]]
GALTON = [[1, 0.275, 0.202], [0.275, 1, 0.074], [0.202, 0.074, 1]]
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


def test_knowing_a_record_can_help() -> None:
    model = ut.MultivariateGaussian(0, R3)
    leak = ut.leakage(NOISE, model)
    assert leak.upper == pytest.approx(2.578947368, abs=1e-9)
    assert leak.witness is not None
    assert (leak.witness.target, [record for record, _ in leak.witness.known]) == (1, [0])
    assert closed(NOISE, model, ut.Adversary(1, [0])) == pytest.approx(2.578947368, abs=1e-9)
    assert closed(NOISE, model, "ignorant") == pytest.approx(2.2, abs=1e-12)


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


def test_galtons_table() -> None:
    model = ut.MultivariateGaussian(0, GALTON)
    bounded = ut.MultivariateGaussian.bounded(3, 0.275)
    assert ut.leakage(ut.PureDP(1.0), model).upper == 3.0
    assert closed(NOISE, model) == pytest.approx(1.477, abs=1e-9)
    assert closed(NOISE, bounded) == pytest.approx(1.55, abs=1e-9)
    published = ut.calibrate(ALL, bounded, 1.0, method="gaussian-bound")
    assert published.mechanism.scale == pytest.approx(1.853448, abs=5e-7)
    assert ut.calibrate(ALL, bounded, 1.0).mechanism.scale == pytest.approx(1.55, abs=1e-9)


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


def test_galtons_families() -> None:
    rows = rows_of("galton/galton.csv", "height", "father", "mother")
    assert len(rows) == 898
    model = ut.MultivariateGaussian.fit(rows, public=True)
    leak = ut.leakage(NOISE, model)
    assert leak.upper == pytest.approx(1.468178, abs=5e-7)
    assert leak.witness is not None
    assert (leak.witness.target, leak.witness.known) == (1, ())


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
    (nuclear(3, 0.5), 2.240229), (nuclear(4, 0.5), 3.0), (nuclear(5, 0.5), 4.0),
    (nuclear(6, 0.5), 5.0), (nuclear(3, 0.9), 2.869403), (nuclear(4, 0.9), 3.545930),
    (nuclear(5, 0.9), 4.214570), (nuclear(6, 0.9), 5.0),
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


def test_families_of_hapmap_and_others() -> None:
    trios = ut.Pedigree.read(real("genomes/hapmap_samples.csv"), 0.5)
    assert closed(BB, trios) == pytest.approx(2.240229, abs=1e-6)
    plan = ut.calibrate(ut.Count("BB"), trios, 1.0)
    assert ut.leakage(plan.mechanism, trios).proves(1.0)
    assert plan.mechanism.scale < 3
    thousand = ut.Pedigree.read(real("genomes/20130606_g1k.ped.gz"), 0.5)
    assert len(thousand.families()) > 1000
    assert ut.leakage(ut.PureDP(1.0), thousand).upper >= 3.0


# --- section 8: composition -----------------------------------------------------------------------


def test_levels_compose_and_leakages_do_not() -> None:
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=4)
    one = closed(ut.Laplace(ut.Count(1), 1.0), chain)
    assert one == pytest.approx(2.54003, abs=5e-6)
    twice = closed(ut.PureDP(2.0), chain)
    assert twice == pytest.approx(4.64194, abs=5e-6)
    table = table_of(chain)
    halves = [noisy(lambda v: [sum(v[:2])], 4, 1.0), noisy(lambda v: [sum(v[2:])], 4, 1.0)]

    def both(values: tuple[int, ...]) -> Any:
        return (halves[0](values)[:, None] + halves[1](values)[None, :]).ravel()

    assert leakage(table, both, "any") == pytest.approx(2.54003, abs=5e-6)
    count = noisy(counted([1]), 4, 1.0)
    assert leakage(table, lambda v: (count(v)[:, None] + count(v)[None, :]).ravel(),
                   "any") == pytest.approx(4.64194, abs=5e-6)  # fmt: skip


def test_two_answers_that_leak_more_than_their_sum() -> None:
    """The rational example: once ln(48/11), twice ln(53/2)."""
    answer: dict[tuple[int, ...], float] = {(0, 0): 0.8, (1, 0): 0.2, (1, 1): 0.1}
    shares = {(0, 0): 3, (1, 0): 5, (1, 1): 1}
    table: Exact = {values: Fraction(share, 9) for values, share in shares.items()}
    once = leakage(table, lambda v: np.log([answer[v], 1 - answer[v]]), "any")
    twice = leakage(
        table, lambda v: np.log([a * b for a in (answer[v], 1 - answer[v])
                                 for b in (answer[v], 1 - answer[v])]), "any",
    )  # fmt: skip
    assert once == pytest.approx(math.log(48 / 11), abs=1e-12)
    assert twice == pytest.approx(math.log(53 / 2), abs=1e-12)
    assert twice > 2 * once


# --- section 9: dependent differential privacy ----------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "scale"), [(0.5, 3.193753781), (1.0, 1.587533097), (2.0, 0.775356220)]
)
def test_dependence_coefficients_of_a_pair(epsilon: float, scale: float) -> None:
    pair = ut.BayesianNetwork([(0, 1)], {0: [0.5, 0.5], 1: [[0.8, 0.2], [0.2, 0.8]]})
    plan = ut.calibrate(ut.Count(1), pair, epsilon, method="dependent")
    assert plan.mechanism.scale == pytest.approx(scale, rel=2e-7)
    assert plan.leakage.proves(epsilon)
    group = ut.calibrate(ut.Count(1), pair, epsilon, method="group")
    assert group.mechanism.scale == pytest.approx(2 / epsilon, rel=1e-12)


def test_pairs_of_records_do_not_tell_all() -> None:
    coins = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    xor = ut.BayesianNetwork([(0, 2), (1, 2)], {0: [0.5, 0.5], 1: [0.5, 0.5], 2: coins})
    count = ut.Laplace(ut.Count(1), 1.0)
    assert closed(count, xor, "ignorant") == pytest.approx(1.433781, abs=5e-7)
    assert closed(count, xor) == pytest.approx(2.0, abs=1e-9)
    plan = ut.calibrate(ut.Count(1), xor, 1.0, method="dependent")
    assert plan.leakage.proves(1.0)
    assert any("pairs of records do not tell all" in note for note in plan.leakage.assumptions)


# --- section 10: accuracy -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("odds", "formula", "exact"),
    [(2, 1.547167575, 1.763382515), (10, 1.854854800, 1.940817239),
     (100, 1.983130404, 1.993721713)],
)  # fmt: skip
def test_a_weak_correlation_leaks_nearly_everything(
    odds: float, formula: float, exact: float
) -> None:
    """Theorem 4.3: X1 = 0 forces X2 = 0, and given X1 = 1 the odds of X2 = 1 are ``odds``."""
    law = [[1, 0], [1 / (1 + odds), odds / (1 + odds)]]
    for p in (1e-6, 0.1, 0.5, 1 - 1e-9):  # what is learned about X1 does not depend on its law
        pair = ut.BayesianNetwork([(1, 2)], {1: [1 - p, p], 2: law})
        assert closed(ut.PureDP(1.0), pair, ut.Adversary(0)) == pytest.approx(exact, abs=1e-8)
        assert exact > formula
        assert ut.leakage(ut.PureDP(1.0), pair).lower >= exact - 1e-8
        assert ut.leakage(ut.PureDP(1.0), ut.Groups(2)).upper == 2.0


def test_error_bars() -> None:
    """alpha = b ln(1/beta) for Laplace noise on one number."""
    model = ut.MultivariateGaussian(0, np.eye(2))
    plan = ut.calibrate(ut.Linear([1, 1], 1.0), model, 0.5)
    scale = plan.mechanism.scale
    for beta in (0.5, 0.05, 1e-6):
        assert plan.accuracy(beta) == pytest.approx(scale * math.log(1 / beta), rel=1e-9)


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
