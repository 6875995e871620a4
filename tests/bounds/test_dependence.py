"""Dependence coefficients: what they guarantee for two records, and what they miss for more."""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from tests.oracles.exact import leakage as oracle
from tests.oracles.exact import noisy, separation
from tests.strategies import joint
from undertow.bounds.dependent import (
    baseline_scale,
    chain_total,
    dependence_matrix,
    dependent_scale,
    dependent_sensitivity,
    discrete_coefficient,
    fixed_point_scale,
    gaussian_coefficients,
    gaussian_total,
    level_coefficient,
    level_separations,
    linear_coefficient,
    network_total,
    separation_upper,
    weak_pair,
)
from undertow.bounds.levels.sides import log
from undertow.errors import InvalidInput, NothingToProtect
from undertow.models.networks import BayesianNetwork
from undertow.testing.enumeration import additive_noise_likelihood, mechanism_leakage

MANY = settings(deadline=None, derandomize=True, database=None, max_examples=150)
PAIR = [[0.4, 0.1], [0.1, 0.4]]


def laws(seed, rows=3, columns=4, zeros=0.2):
    rng = np.random.default_rng(seed)
    found = rng.dirichlet(np.full(columns, 0.5), size=rows)
    found[rng.random(found.shape) < zeros] = 0.0
    found[:, 0] += 0.01
    return found / found.sum(axis=1, keepdims=True)


def table(law, size=2):
    records = len(next(iter(law)))
    found = np.zeros((size,) * records)
    for point, probability in law.items():
        found[point] = float(probability)
    return found


# --- coefficients ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "expected"),
    [(0.5, 0.493457753206775), (1.0, 0.569445196042843), (10.0, 0.599680147176496)],
)
def test_coefficient_of_the_pair(scale, expected):
    found = discrete_coefficient(PAIR, scale)
    assert found == pytest.approx(expected, abs=1e-12)
    assert found >= expected - 5e-16
    assert level_coefficient(PAIR, 1 / scale) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [(0.5, 3.193753780624207), (1.0, 1.587533097399869), (2.0, 0.775356220271588)],
)
def test_scale_of_the_pair(epsilon, expected):
    scale = dependent_scale(PAIR, epsilon)
    assert scale == pytest.approx(expected, rel=3e-12)
    assert scale >= expected
    assert scale < baseline_scale(2, 1.0, epsilon) == 2 / epsilon
    total = 1 / Decimal(scale) + separation(PAIR, [0, 1], scale)
    assert total <= Decimal(epsilon)
    rho = discrete_coefficient(PAIR, scale)
    assert dependent_sensitivity([[1, rho], [rho, 1]], [1, 1]) / scale == pytest.approx(epsilon)


@law(
    MANY,
    40,
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(0.05, 30.0),
    factor=st.floats(1.01, 4.0),
)
def test_laws_of_coefficients(seed, scale, factor):
    joint = (
        laws(seed, rows=3, columns=3) * np.random.default_rng(seed).dirichlet(np.ones(3))[:, None]
    )
    rho = discrete_coefficient(joint, scale)
    assert 0 <= rho <= 1
    more = discrete_coefficient(joint, scale * factor) / factor
    assert more <= rho * (1 + 1e-9)  # the loss falls as the noise grows; the coefficient need not
    assert discrete_coefficient(joint, scale, values=[5, 6, 7]) == pytest.approx(rho, abs=1e-12)
    assert discrete_coefficient(joint, 3 * scale, values=[0, 3, 6]) == pytest.approx(rho, abs=1e-10)
    assert rho <= level_coefficient(joint, 2 / scale) + 1e-12  # noise is one algorithm of many


def test_extreme_coefficients():
    assert discrete_coefficient(np.eye(3) / 3, 2.0) == pytest.approx(1.0, abs=1e-15)
    assert discrete_coefficient(np.full((2, 2), 0.25), 2.0) == 0.0
    assert discrete_coefficient(np.outer([0.2, 0.8], [0.3, 0.7]), 2.0) < 1e-13
    assert discrete_coefficient([[0.5, 0.0], [0.5, 0.0]], 2.0) == 0.0  # record j is certain
    assert discrete_coefficient([[0.2, 0.2], [0.3, 0.3]], 2.0, values=[1, 1]) == 0.0
    assert level_coefficient(np.eye(2), 3.0) == pytest.approx(1.0)


# --- the example of section VI --------------------------------------------------------------------
# Records D_i and D_j = D_i / 2 + X / 2, D_i and X uniform on [0, 1]; noise of scale 1.


def test_printed_numbers_of_the_example():
    assert math.log(2 * (math.e - math.sqrt(math.e))) == pytest.approx(
        0.7603950509927567, abs=1e-15
    )
    rho = linear_coefficient(0.5)
    assert dependent_sensitivity([[1.0, rho], [0.0, 1.0]], [1.0, 1.0]) == 1.5


def test_the_example_protects_one_of_its_two_records():
    """D_j = 0 forces D_i = 0, and 1 forces 1: so its coefficient is 1, and the sum needs 2."""
    points = 21
    joint = np.zeros((2 * points - 1, points))  # row: D_j = (d + x) / 2, column: D_i = d
    for d in range(points):
        for x in range(points):
            joint[d + x, d] += 1 / points**2
    values = np.linspace(0.0, 1.0, points)
    assert discrete_coefficient(joint, 1.0, values) == pytest.approx(1.0, abs=1e-12)
    sums = np.zeros((2 * points - 1, 4 * points - 3))  # law of D_i + D_j given D_j, steps of 1/40
    for d in range(points):
        for x in range(points):
            sums[d + x, 3 * d + x] += 1.0
    answers = np.arange(4 * points - 3) / (2 * (points - 1))
    assert separation_upper(sums, answers, 1.0) == pytest.approx(2.0, abs=1e-12)
    assert separation_upper(sums, answers, 1.5) == pytest.approx(4 / 3, abs=1e-12)  # not 1


# --- two records: a theorem -----------------------------------------------------------------------


@law(MANY, 40, seed=st.integers(0, 2**32 - 1), epsilon=st.sampled_from([0.2, 1.0, 3.0, 8.0]))
def test_for_two_records_the_scale_is_a_guarantee(seed, epsilon):
    size = 2 + seed % 2
    joint = laws(seed, rows=size, columns=size)
    joint *= np.random.default_rng(seed).dirichlet(np.ones(size))[:, None]
    try:
        scale = dependent_scale(joint, epsilon)
    except NothingToProtect:
        return
    count = additive_noise_likelihood(np.arange(size), scale, n=2)
    worst = mechanism_leakage(joint / joint.sum(), count).leakage
    assert worst <= epsilon * (1 + 1e-12)
    assert scale <= baseline_scale(2, size - 1.0, epsilon) * (1 + 1e-9)


def test_the_pair_leaks_what_it_may():
    scale = dependent_scale(PAIR, 1.0)
    law = {point: Decimal(repr(PAIR[point[0]][point[1]])) for point in np.ndindex(2, 2)}
    leak = oracle(law, noisy(sum, scale), range(3))
    assert leak <= 1
    assert float(leak) == pytest.approx(1.0, abs=3e-12)


# --- scales and sums ------------------------------------------------------------------------------


def test_scales_that_do_not_exist():
    with pytest.raises(InvalidInput, match="no scale brings"):
        fixed_point_scale(lambda _scale: 1.0, 0.5, 1.0)
    with pytest.raises(NothingToProtect, match="no noise is needed"):
        fixed_point_scale(lambda _scale: 0.0, 0.5, 1.0)
    with pytest.raises(NothingToProtect, match="no record moves the sum"):
        dependent_scale([[1.0, 0.0], [0.0, 0.0]], 1.0)


def test_sensitivities_round_up():
    assert dependent_sensitivity([[1, 0.1], [0.2, 1]], [3.0, 7.0]) >= 7.6
    assert dependent_sensitivity([[1, 0.1], [0.2, 1]], [3.0, 7.0]) == pytest.approx(7.6, abs=1e-14)
    assert baseline_scale(3, 0.1, 0.7) * 0.7 >= 0.3
    assert baseline_scale(3, 1.0, 0.5) == 6.0


def test_values_of_a_table_may_differ_by_record():
    joint = np.random.default_rng(5).dirichlet(np.ones(27)).reshape(3, 3, 3)
    values = [[0, 1, 2], [0, 5, 1], [1, 1, 1]]
    found = dependence_matrix(joint, 2.0, values)
    pair = joint.sum(axis=2)
    assert found[0, 1] == discrete_coefficient(pair, 2.0, [0, 5, 1])
    assert found[1, 0] == discrete_coefficient(pair.T, 2.0, [0, 1, 2])
    assert found[0, 2] == found[1, 2] == 0.0
    assert dependent_scale(joint, 1.0, values) <= 7 * (1 + 1e-9)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: separation_upper([[0.5, 0.5]], [1.0], 1.0), "one finite answer per column"),
        (lambda: separation_upper([[0.5, 0.5]], [1.0, math.inf], 1.0), "finite answer"),
        (lambda: separation_upper([0.5, 0.5], [0, 1], 1.0), "must be a table"),
        (lambda: separation_upper([[0.5, -0.5]], [0, 1], 1.0), "not negative"),
        (lambda: separation_upper([[0.0, 0.0]], [0, 1], 1.0), "not all zero"),
        (lambda: separation_upper(PAIR, [0, 1], 0.0), "noise scale must be positive"),
        (lambda: discrete_coefficient(PAIR, 1.0, [0, 1, 2]), "one value per column"),
        (lambda: level_coefficient(PAIR, 0.0), "level must be positive"),
        (lambda: linear_coefficient(math.nan), "slope must be finite"),
        (lambda: linear_coefficient(1.0, own=0.0), "range must be positive"),
        (lambda: gaussian_coefficients([1.0]), "square matrix"),
        (lambda: gaussian_coefficients([[0.0]]), "positive variances"),
        (lambda: gaussian_coefficients(np.eye(2), ranges=[1.0]), "2 positive numbers"),
        (lambda: dependent_sensitivity([[1.0, 2.0]], [1.0]), "square matrix"),
        (lambda: dependent_sensitivity([[-1.0]], [1.0]), "not negative"),
        (lambda: dependent_sensitivity([[1.0]], [0.0]), "positive numbers"),
        (lambda: dependence_matrix([0.5, 0.5], 1.0), r"shape \(k,\) \* n"),
        (lambda: dependence_matrix(np.zeros((2, 2)), 1.0), "not all zero"),
        (lambda: dependent_scale(PAIR, 1.0, values=[1.0]), "values must be finite"),
        (lambda: dependent_scale(PAIR, -1.0), "epsilon must be positive"),
        (lambda: baseline_scale(0, 1.0, 1.0), "dependence size must be at least 1"),
        (lambda: weak_pair(1), "above 1"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 7.0, 1e6])
@pytest.mark.parametrize("seed", range(6))
def test_separation_is_never_below_the_truth(seed, scale):
    rows = laws(seed)
    answers = np.random.default_rng(seed + 100).normal(size=4).round(3)
    truth = separation(rows, answers, scale)
    found = separation_upper(rows, answers, scale)
    assert Decimal(found) >= truth
    assert found == pytest.approx(float(truth), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("level", [0.01, 1.0, 30.0, 900.0])
@pytest.mark.parametrize("seed", range(5))
def test_levels_separate_by_the_best_set_of_states(seed, level):
    rows = laws(seed)
    worst = 0.0
    for one, two in itertools.permutations(rows, 2):
        for size in range(5):
            for chosen in itertools.combinations(range(4), size):
                top, bottom = (float(row[list(chosen)].sum()) for row in (one, two))
                ends = [math.log(max(1 - s, 0.0) * math.exp(-level) + s) if s or level < 700
                        else -level for s in (top, bottom)]  # fmt: skip
                worst = max(worst, ends[0] - ends[1])
    found = float(level_separations(log(rows), level))
    assert found == pytest.approx(min(worst, level), rel=1e-9, abs=1e-12)
    several = level_separations(log(np.stack([rows, rows])), np.array([level, 0.01]))
    assert several[0] == found


BIT = [0.5, 0.5]


def random_chain(seed, size, length, kind):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(size), size=size)
    if kind == "stationary":
        return ut.MarkovChain(matrix, length=length)
    start = rng.dirichlet(np.ones(size))
    if kind == "given":
        return ut.MarkovChain(matrix, start=start, length=length)
    stack = rng.dirichlet(np.ones(size), size=(length - 1, size))
    return ut.MarkovChain(stack, start=start)


@pytest.mark.parametrize("kind", ["stationary", "given", "varying"])
@pytest.mark.parametrize(("size", "length"), [(2, 2), (2, 5), (3, 4)])
def test_chain_totals_are_those_of_the_joint_table(size, length, kind):
    for seed in range(3):
        chain = random_chain(seed, size, length, kind)
        table = joint(chain, length)
        values = [1.0] + [0.0] * (size - 1)
        for scale in (0.3, 1.0, 8.0):
            rho = dependence_matrix(table, scale, values)
            expected = dependent_sensitivity(rho, [1.0] * length) / scale
            assert chain_total(chain, ut.Count(0))(scale) == pytest.approx(expected, rel=1e-11)
        wanted = dependent_scale(table, 1.0, values)
        found = fixed_point_scale(chain_total(chain, ut.Count(0)), 1.0, 1.0)
        assert found == pytest.approx(wanted, rel=1e-10)


def test_network_totals_are_those_of_the_joint_table():
    rng = np.random.default_rng(8)
    table = rng.dirichlet(np.ones(2), size=(2, 2))
    network = BayesianNetwork(
        [("a", "c"), ("b", "c"), ("c", "d"), ("h", "d")],
        {"a": [0.3, 0.7], "b": BIT, "h": BIT, "c": table, "d": table, "e": BIT},
        latent=["h"],
    )
    law = network.joint()
    for scale in (0.5, 2.0):
        expected = dependent_sensitivity(dependence_matrix(law, scale), [1.0] * 5) / scale
        assert network_total(network, ut.Count(1))(scale) == pytest.approx(expected, rel=1e-11)
    apart = BayesianNetwork([], {"a": BIT, "b": BIT})
    assert network_total(apart, ut.Count(1))(0.5) == 2.0


def test_gaussian_totals():
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 9.0]])
    weights = np.array([1.0, -2.0, 3.0])
    rho = gaussian_coefficients(covariance)
    expected = max(np.abs(rho) @ np.abs(weights)) * 2.5
    assert gaussian_total(covariance, weights, 2.5, False)(5.0) == pytest.approx(expected / 5)
    steep = np.array([[1.0, 3.0], [3.0, 16.0]])
    assert gaussian_total(steep, np.ones(2), 1.0, False)(1.0) == 4.0
    assert gaussian_total(steep, np.ones(2), 1.0, True)(1.0) == 2.0
