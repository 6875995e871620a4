"""Dependence coefficients, what they guarantee for two records, and what they miss for more."""

import itertools
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

import undertow as ut
from tests.grids import each, law
from tests.oracles.exact import (
    ACTIVITY,
    ACTIVITY_START,
    chain_law,
    noisy,
    separation,
)
from tests.oracles.exact import (
    leakage as oracle,
)
from undertow.bounds.dependent import (
    baseline_scale,
    dependence_matrix,
    dependent_scale,
    dependent_sensitivity,
    discrete_coefficient,
    fixed_point_scale,
    gaussian_coefficients,
    level_coefficient,
    linear_coefficient,
    separation_upper,
    weak_pair,
)
from undertow.errors import InvalidInput, NothingToProtect
from undertow.testing.enumeration import additive_noise_likelihood, mechanism_leakage

MANY = settings(deadline=None, derandomize=True, database=None, max_examples=150)
PAIR = [[0.4, 0.1], [0.1, 0.4]]
XOR = {(a, b, a ^ b): Decimal("0.25") for a in (0, 1) for b in (0, 1)}


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


@each(("scale", "slope"), [0.4, 1.0, 5.0], [0.5, -0.8, 2.0])
def test_gaussian_coefficient_by_quadrature(scale, slope):
    """A normal law with Laplace noise, moved by the slope: the ratio in the tails, in full."""
    deviation, far = 0.7, 12.0

    def density(output, mean):
        def at(value):
            noise = math.exp(-abs(output - value) / scale)
            return float(norm.pdf(value, mean, deviation)) * noise

        return quad(at, mean - 9 * deviation, mean + 9 * deviation, points=[mean], limit=400)[0]

    ratios = [abs(math.log(density(s, slope) / density(s, 0.0))) for s in (-far, 0.0, 1.0, far)]
    variance = (
        deviation**2 + slope**2
    )  # record j = slope * record i + noise, record i of variance 1
    rho = gaussian_coefficients([[1.0, slope], [slope, variance]])[0, 1]
    assert rho == abs(slope) == linear_coefficient(slope)
    assert max(ratios) == pytest.approx(rho / scale, abs=1e-8)
    assert max(ratios) <= rho / scale + 1e-8


def test_gaussian_and_linear_coefficients():
    found = gaussian_coefficients([[4.0, 1.0], [1.0, 2.0]], ranges=[1.0, 0.5])
    assert found == pytest.approx(np.array([[1.0, 0.5], [0.25, 1.0]]))
    assert gaussian_coefficients([[3.0, 1.0], [1.0, 3.0]])[0, 1] * 3 >= 1.0  # rounded up
    assert linear_coefficient(-0.5, own=2.0, other=4.0) == 0.25
    assert linear_coefficient(0.0) == 0.0


# --- the example of section VI --------------------------------------------------------------------
# Records D_i and D_j = D_i / 2 + X / 2, D_i and X uniform on [0, 1]; noise of scale 1.


def grid(points):
    return (np.arange(points) + 0.5) / points


def example_separation(query, first, second, points=2000):
    values = grid(points)
    answers = np.concatenate([query(first, 0.5 * first + 0.5 * values),
                              query(second, 0.5 * second + 0.5 * values)])  # fmt: skip
    places = np.linspace(-1.0, 3.0, 161)
    one = np.exp(-np.abs(answers[:points, None] - places)).mean(axis=0)
    two = np.exp(-np.abs(answers[points:, None] - places)).mean(axis=0)
    return float(np.abs(np.log(one / two)).max())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (lambda i, j: i + j, 1.5),
        (lambda i, j: i - j, 0.5),
        (lambda i, j: i * j, math.log(2 * (math.e - math.sqrt(math.e)))),
    ],
    ids=["sum", "difference", "product"],
)
def test_separations_of_the_example(query, expected):
    ends = [
        example_separation(query, a, b) for a, b in itertools.combinations(np.linspace(0, 1, 6), 2)
    ]
    assert max(ends) == pytest.approx(expected, abs=1e-6)
    assert max(ends) == example_separation(query, 0.0, 1.0)
    points = 400
    laws_ = np.zeros((2, 2 * points))
    laws_[0, :points], laws_[1, points:] = 1.0, 1.0
    x = grid(points)
    answers = np.concatenate([query(0.0, 0.5 * x), query(1.0, 0.5 + 0.5 * x)])
    assert separation_upper(laws_, answers, 1.0) == pytest.approx(expected, abs=1e-5)


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


# --- three records: a counterexample --------------------------------------------------------------


def test_xor_leaks_though_all_coefficients_are_zero():
    joint = table(XOR)
    for scale in (0.1, 1.0, 10.0):
        assert (dependence_matrix(joint, scale) == np.eye(3)).all()
    scale = dependent_scale(joint, 1.0)
    assert scale == pytest.approx(1.0, abs=1e-11)  # as if the records were independent
    ignorant = oracle(XOR, noisy(sum, 1), range(4), "ignorant")
    assert float(ignorant) == pytest.approx(1.433780830483027, abs=1e-14)
    assert oracle(XOR, noisy(sum, 1), range(4)) == pytest.approx(2, abs=Decimal("1e-30"))
    count = additive_noise_likelihood([0, 1], scale, n=3)
    assert mechanism_leakage(joint, count, "ignorant").leakage == pytest.approx(1.433780830483027)
    assert mechanism_leakage(joint, count).leakage == pytest.approx(2.0)
    assert mechanism_leakage(joint, additive_noise_likelihood([0, 1], 3.0, n=3)).leakage <= 1.0


def test_a_plain_chain_refutes_the_mechanism_too():
    """Five records of the activity chain: the scale for epsilon = 1 leaks 1.0085, to whoever knows
    no other record; for 4 it leaks less than 4."""
    law = chain_law(ACTIVITY_START, ACTIVITY, 5)
    joint = table(law)
    scale = dependent_scale(joint, 1.0)
    assert scale == pytest.approx(2.879939720690, abs=1e-10)
    for against in ("ignorant", "any"):
        leak = oracle(law, noisy(sum, scale), range(6), against)
        assert float(leak) == pytest.approx(1.008504864233, abs=1e-10)
    scale = dependent_scale(joint, 4.0)
    assert float(oracle(law, noisy(sum, scale), range(6))) == pytest.approx(
        3.809554643797, abs=1e-9
    )


# --- groups: Theorem 4.3 of lange2024 -------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "formula", "exact"),
    [
        (2, 1.547167574736059, 1.763382515390141),
        (10, 1.854854800389036, 1.940817238770510),
        (100, 1.983130403787370, 1.993721713344419),
    ],
)
def test_a_weak_correlation_leaks_nearly_everything(ratio, formula, exact):
    joint = weak_pair(ratio)
    assert joint.sum() == pytest.approx(1.0, abs=1e-15)
    x, y = np.array([0.0, 1.0]) - joint.sum(axis=1)[1], np.array([0.0, 1.0]) - joint.sum(axis=0)[1]
    correlation = x @ joint @ y / math.sqrt((x**2 @ joint.sum(1)) * (y**2 @ joint.sum(0)))
    assert correlation == pytest.approx(1 / math.sqrt(ratio + 1), rel=1e-9)
    rare = Decimal(1) / ratio**2
    law = {(0, 0): rare, (1, 0): Decimal(1) / ratio - rare, (1, 1): 1 - Decimal(1) / ratio}
    assert joint == pytest.approx(table(law), abs=1e-16)
    assert float(oracle(law, noisy(sum, 1), range(3))) == pytest.approx(exact, abs=1e-14)
    count = additive_noise_likelihood([0, 1], 1.0, n=2)
    assert mechanism_leakage(joint, count).leakage == pytest.approx(exact, abs=1e-12)
    printed = 2 + math.log((ratio**2 - 1) / (math.e * (ratio - 1) + ratio**2 - ratio))
    assert printed == pytest.approx(formula, abs=1e-14)
    one_way = oracle(law, lambda p, s: noisy(sum, 1)(p, 0), [0], "ignorant", targets=[0])
    assert float(one_way) == pytest.approx(formula, abs=1e-14)  # the adversary of the proof
    bound = ut.leakage(ut.Laplace(ut.Count(1), 1.0), ut.Groups(2))
    assert formula < exact < bound.upper == 2.0


@pytest.mark.parametrize("level", [0.3, 1.0])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_copies_attain_the_bound_of_a_group(size, level):
    law = {(0,) * size: Decimal("0.5"), (1,) * size: Decimal("0.5")}
    leak = oracle(law, noisy(sum, 1 / Decimal(repr(level))), range(size + 1), "ignorant")
    bound = ut.leakage(ut.PureDP(level), ut.Groups(size))
    assert float(leak) == pytest.approx(size * level, abs=1e-12)
    assert bound.lower <= float(leak) <= bound.upper + 1e-15
    assert ut.leakage(ut.PureDP(level), ut.Groups(size), "informed").upper == level


# --- scales and sums ------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize(
    ("total", "root"),
    [
        (lambda s: 3 / s, 1.5),
        (lambda s: 3 / s + 1 / math.sqrt(s), 2.25),
        (lambda s: 3.0 if s < 2 else 1.0, 2.0),
        (lambda s: 4 / s**3, 2 ** (1 / 3)),
    ],
)
def test_fixed_point(total, root, start):
    calls = []

    def counted(scale):
        calls.append(scale)
        return total(scale)

    found = fixed_point_scale(counted, 2.0, start)
    assert total(found) <= 2.0
    assert root * (1 - 1e-15) <= found <= root * (1 + 2e-12)
    assert len(calls) < 120


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
