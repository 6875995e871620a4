"""The engine's primitives and its prover against programs, enumeration and exact fractions."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import undertow as ut
from tests.engine.laws import P3, SYMBOLS, A, B, rows, stationary
from undertow.bounds.core import join as joins
from undertow.bounds.core import limits as limit
from undertow.bounds.core import play as attacks
from undertow.bounds.core import sides, steps
from undertow.bounds.core.arrays import STEP, PositiveArray, add_upper, exp_upper, log_upper_of
from undertow.bounds.one_adversary import ONE_ADVERSARY, upper_end
from undertow.bounds.protocol import Problem, Prover
from undertow.models import lowered
from undertow.testing.enumeration import (
    Pattern,
    hidden_joint,
    likelihood_leakage,
    likelihood_program,
    patterns,
    product_attack,
    record_limits,
)

SEEDS = pytest.mark.parametrize("seed", range(8))


# --- the local program ----------------------------------------------------------------------------


def linear_fractional(alpha, beta, distance):
    """The largest alpha.u / beta.u over the cone, by the general solver; inf if unbounded."""
    size = len(alpha)
    bounds = []
    for i, j in itertools.permutations(range(size), 2):
        if math.isfinite(distance[i, j]):
            row = np.zeros(size)
            row[i], row[j] = 1.0, -math.exp(distance[i, j])
            bounds.append(row)
    solution: Any = linprog(
        -alpha, A_ub=np.array(bounds), b_ub=np.zeros(len(bounds)), A_eq=beta[None], b_eq=[1.0],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )  # fmt: skip
    return math.inf if solution.status == 3 else -solution.fun


@SEEDS
@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_local_program_is_the_linear_fractional_program(seed, size):
    rng = np.random.default_rng([seed, size])
    alpha, beta = rng.dirichlet(np.full(size, 0.4), size=2)
    alpha[rng.random(size) < 0.2], beta[rng.random(size) < 0.2] = 0.0, 0.0
    if not alpha.any() or not beta.any():
        alpha, beta = np.full((2, size), 1 / size)
    apart = rng.uniform(0.0, 3.0, (size, size)) * (rng.random((size, size)) < 0.85)
    np.fill_diagonal(apart, 0.0)
    exact = linear_fractional(alpha, beta, apart)
    assert steps.local_program(alpha, beta, apart)[0] >= exact * (1 - 1e-9)
    distance = steps.metric_closure(apart)  # the same cone
    value, _, u = steps.local_program(alpha, beta, distance)
    assert exact * (1 - 1e-9) <= value <= exact * (1 + 1e-6)
    assert (np.log(u)[:, None] - np.log(u) <= distance + 1e-6).all()
    assert alpha @ u >= exact * (beta @ u) * (1 - 1e-6)


@SEEDS
def test_local_program_where_nothing_is_known(seed):
    """Infinite distances: finite if and only if the program is."""
    rng = np.random.default_rng(seed)
    alpha, beta = rng.dirichlet(np.ones(4), size=2)
    beta[rng.integers(4)] = 0.0
    distance = rng.uniform(0.1, 2.0, (4, 4))
    distance[rng.random((4, 4)) < 0.5] = math.inf
    np.fill_diagonal(distance, 0.0)
    value, _, _ = steps.local_program(alpha, beta, steps.metric_closure(distance))
    exact = linear_fractional(alpha, beta, distance)
    assert value >= exact * (1 - 1e-9)
    assert math.isinf(exact) or value <= exact * (1 + 1e-6)


@SEEDS
def test_a_step_is_a_program_for_every_pair(seed):
    rng = np.random.default_rng(seed)
    kernel = rows(rng, (4, 4), hostile=seed % 2 == 1)
    distance = record_limits(rng.uniform(0.0, 2.0, (4, 4)), 1, 4)[0]
    inwards = steps.step(kernel, distance)
    for s, t in itertools.permutations(range(4), 2):
        exact = max(0.0, math.log(linear_fractional(kernel[s], kernel[t], distance)))
        assert exact * (1 - 1e-9) - 1e-9 <= inwards[s, t] <= exact * (1 + 1e-6) + 1e-6


# --- attacks --------------------------------------------------------------------------------------


def random_law(rng, size, records, hostile=False):
    """Kernels by position, a start of any kind, and the joint table of the symbols."""
    values = 2 if size < 5 else 3
    symbols = np.append(rng.permutation(values), rng.integers(values, size=size - values))
    kernels = rows(rng, (records - 1, size, size), hostile)
    start = rows(rng, (size,), hostile)
    law = lowered.LoweredLaw(kernels, symbols, start)
    return law, hidden_joint(start, kernels, symbols.tolist())


@SEEDS
def test_play_is_the_sum_over_all_paths(seed):
    rng = np.random.default_rng(seed)
    law, joint = random_law(rng, 3 + seed % 3, 4, hostile=seed % 2 == 1)
    size = joint.shape[0]
    cases = list(patterns(joint, window=1 + seed % 2))
    for index in rng.choice(len(cases), 5, replace=False):
        case = cases[index]
        likelihoods = rng.uniform(0.1, 3.0, (4, size))
        known = dict(zip(case.known, case.values, strict=True))
        seen = attacks.play(
            law, attacks.Attack(case.secret[0], known, (case.value, case.other), likelihoods)
        )
        weights = joint
        for t in (t for t in range(4) if t not in known):
            weights = weights * likelihoods[t].reshape([size if r == t else 1 for r in range(4)])

        def given(history, weights=weights, case=case, known=known):
            place = {**known, **dict(zip(case.secret, history, strict=True))}
            index = tuple(place.get(t, slice(None)) for t in range(4))
            return weights[index].sum() / joint[index].sum()

        exact = math.log(given(case.value) / given(case.other))
        assert seen.lower - 1e-12 <= exact <= seen.upper + 1e-12
        assert seen.upper - seen.lower < 1e-10


@SEEDS
def test_one_pass_plays_an_attack_on_every_record(seed):
    """Kernels by position: both passes read the kernel of their own step."""
    rng = np.random.default_rng([seed, 1])
    law, joint = random_law(rng, 3 + seed % 3, 4)
    size = joint.shape[0]
    likelihoods = rng.uniform(0.1, 3.0, (4, size))
    values, error = attacks.play_open(law, likelihoods, (0, 1))
    possible = np.ones((1, 4, size))
    for target in range(4):
        attack = attacks.Attack(target, {}, ((0,), (1,)), likelihoods)
        alone = attacks.play(law, attack)
        assert alone.lower - error <= values[target] <= alone.upper + error
        many, errors = attacks.play_many(law, likelihoods[None], possible, target, (0, 1))
        assert alone.lower - errors[0] <= many[0] <= alone.upper + errors[0]


@SEEDS
def test_the_best_product_is_attained(seed):
    rng = np.random.default_rng(seed)
    law, joint = random_law(rng, 4, 4)
    theta = record_limits(rng.uniform(0.2, 2.0, (2, 2)), 1, 2)[0]
    case = list(patterns(joint))[rng.integers(100)]
    value, factors = product_attack(joint, theta, case)
    table = np.ones((4, 2))
    for record, factor in factors.items():
        table[record] = factor
    known = dict(zip(case.known, case.values, strict=True))
    seen = attacks.play(law, attacks.Attack(case.secret[0], known, (case.value, case.other), table))
    assert seen.lower == pytest.approx(value, abs=1e-9)


# --- sides and joins ------------------------------------------------------------------------------


def joined(law, theta, case, records):
    """Every upper end of one pattern: joined at the secret, and one record further out."""
    known = dict(zip(case.known, case.values, strict=True))
    first, last = case.secret[0], case.secret[-1]
    left = sides.side(law, theta, first, {t: v for t, v in known.items() if t < first}, -1, records)
    right = sides.side(law, theta, last, {t: v for t, v in known.items() if t > last}, 1, records)
    if len(case.secret) > 1:
        return [joins.join_window(law, theta, left, right, first, (case.value, case.other), (0, 0))]
    pair = (case.value[0], case.other[0])
    inner = np.asarray(joins.join(law, theta, left, right, pair))
    assert inner.shape == (1, 1)
    return [float(inner[0, 0]), joins.join_outer(law, theta, left, right, pair, (0, 0))]


@pytest.mark.parametrize(("direction", "outwards"), [(-1, [1, 0, 0]), (1, [0, 1, 1])])
def test_values_of_a_side_are_listed_outwards(direction, outwards):
    law = lowered.LoweredLaw(B[None], np.array(SYMBOLS), stationary(B))
    facts = {4 + direction * place: value for place, value in enumerate(outwards, start=1)}
    given = sides.side(law, limit.uniform(1.0, 2), 4, facts, direction, 9)
    assert given.values.tolist() == [outwards]
    tried = sides.side(law, limit.uniform(1.0, 2), 4, facts.keys(), direction, 9)
    case = tried.values.tolist().index(outwards)
    np.testing.assert_allclose(tried.bounds[case], given.bounds[0], atol=1e-9)


def one(target, facts, value, other):
    known, values = zip(*facts, strict=True) if facts else ((), ())
    return Pattern((target,), known, values, (value,), (other,))


STATIONARY = [
    (A, 0.1, (1, 2), (), 0.15804186, 0.15812507),
    (A, 0.1, (2, 2), ((0, 0), (4, 0)), 0.14534409, 0.14667610),
    (A, 1.0, (1, 2), (), 1.45737531, 1.46714005),
    (A, 1.0, (2, 2), ((3, 1),), 1.31109443, 1.33716861),
    (B, 1.0, (1, 2), (), 2.52414050, 2.52414050),
    (B, 1.0, (2, 2), ((0, 0), (4, 0)), 1.99268172, 1.99268172),
    (P3, 1.0, (1, 2), (), 2.62174358, 2.62174358),
    (P3, 1.0, (2, 2), ((3, 1),), 1.96106561, 1.96106561),
]
"""Kernel, level, records on either side, known; the program, and the least of both sweeps."""


@pytest.mark.parametrize(("matrix", "level", "apart", "facts", "exact", "printed"), STATIONARY)
def test_stationary_patterns(matrix, level, apart, facts, exact, printed):
    symbols = np.array(SYMBOLS if len(matrix) == 4 else (0, 1, 2))
    law = lowered.LoweredLaw(matrix[None], symbols, stationary(matrix))
    theta = limit.uniform(level, int(symbols.max()) + 1)
    uppers = joined(law, theta, one(apart[0], facts, 1, 0), 1 + sum(apart))
    assert min(uppers) >= exact - 5e-9
    assert uppers[0] <= printed * (1 + 1e-6) + 5e-9


START = np.array([0.26183908, 0.19385764, 0.20927973, 0.33502356])
PERIODIC = [
    ((2, ()), (0.21654438, 0.21866284), (1.95198496, 2.10242993)),
    ((1, ()), (0.22537192, 0.22680537), (2.06545557, 2.16807305)),
    ((2, ((0, 0),)), (0.20159108, 0.20205700), (1.88492351, 1.91174995)),
    ((2, ((0, 0), (4, 1))), (0.17028493, 0.17129565), (1.62928788, 1.71758273)),
    ((1, ((3, 1),)), (0.18273324, 0.18348276), (1.74523772, 1.80895957)),
    ((2, ((1, 1),)), (0.12506781, 0.12443003), (1.26579780, 1.22408781)),
]
"""Target and known records; pairwise bounds of 1v0 and 0v1 at a level of .1, and at 1."""


@pytest.mark.parametrize(("case", "low", "high"), PERIODIC)
def test_periodic_patterns(case, low, high):
    """Public context: A into odd records, B into even ones."""
    start = START / START.sum()
    kernels = np.stack([A, B])
    law = lowered.LoweredLaw(kernels, np.array(SYMBOLS), start)
    joint = hidden_joint(start, kernels[[0, 1, 0, 1]], SYMBOLS)
    for level, printed in ((0.1, low), (1.0, high)):
        for values, number in zip(((1, 0), (0, 1)), printed, strict=True):
            wanted = one(case[0], case[1], *values)
            uppers = joined(law, limit.uniform(level, 2), wanted, 5)
            assert min(uppers) >= likelihood_program(joint, level, wanted) * (1 - 1e-12)
            assert uppers[0] <= number * (1 + 1e-6) + 3e-8


@SEEDS
@pytest.mark.parametrize("hostile", [False, True])
def test_laws_by_position_and_directed_limits(seed, hostile):
    """Any start, a kernel for each step, any directed metric between the values."""
    rng = np.random.default_rng([seed, hostile])
    law, joint = random_law(rng, 3 + seed % 4, 4, hostile)
    size = joint.shape[0]
    theta = record_limits(rng.uniform(0.05, 2.0, (size, size)), 1, size)[0]
    cases = list(patterns(joint, window=1 + seed % 2))
    for index in rng.choice(len(cases), 6, replace=False):
        exact = likelihood_program(joint, theta, cases[index])
        assert min(joined(law, theta, cases[index], 4)) >= exact - 1e-12 * max(1.0, abs(exact))


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (ut.PureDP(0.5), [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]),
        (ut.MetricDP(0.5), [[0, 0.5, 1.5], [0.5, 0, 1], [1.5, 1, 0]]),
        (ut.Laplace(ut.Count(1), 2.0), [[0, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0]]),
        (ut.Laplace(ut.Histogram(), 4.0), [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]),
        (
            ut.RandomizedResponse([[0.5, 0.5], [0.25, 0.75], [0.1, 0.9]]),
            np.log([[1.0, 2.0, 5.0], [1.5, 1.0, 2.5], [1.8, 1.2, 1.0]]),
        ),
    ],
    ids=["level", "metric", "count", "histogram", "flips"],
)  # fmt: skip
def test_limits_of_mechanisms(mechanism, expected):
    """States 0, 1 and 3; rounded up, and by no more than rounding."""
    table = limit.limits(mechanism, (0, 1, 3))
    assert (table >= expected).all()
    np.testing.assert_allclose(table, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_a_sweep_ends_alike_by_the_closed_form_and_by_the_program(seed):
    """Two classes of hidden states that nothing tells apart inside: 1e-13 inside is no class."""
    rng = np.random.default_rng(seed)
    size = 3 + seed % 2
    symbols = np.arange(size) % 2
    kernels = [rng.dirichlet(np.full(size, 0.4), size) + 1e-7 for _ in range(3)]
    apart = rng.exponential(2.0, (2, 2))
    apart[seed % 2, 1 - seed % 2] = (0.0, 1.0, math.inf, 800.0)[seed // 2]
    ends = np.where(symbols[:, None] == symbols, 0.0, apart[np.ix_(symbols, symbols)])
    nearly = ends + 1e-13 * (1 - np.eye(size))
    weights = rng.exponential(1.0, size)
    pairs = [(s, t) for s in range(size) for t in range(size) if s != t]
    closed, program = (
        steps.signed_sweep(kernels, symbols, 0.7, weights, distance, pairs)
        for distance in (ends, nearly)
    )
    assert closed == pytest.approx(program, rel=1e-8, abs=1e-8)
    below = steps.signed_sweep(kernels, symbols, 0.7, weights, np.zeros((size, size)), pairs)
    assert (below <= closed + 1e-10).all()


def test_noise_that_is_a_chain_has_no_limit_for_one_record():
    with pytest.raises(ut.errors.NotSupported, match="no limit for one record"):
        limit.limits(ut.XorNoise(0.1, 0.3), (0, 1))


def exact_product(matrices):
    """The product of matrices of floats, in fractions."""
    product = [[Fraction(entry) for entry in row] for row in matrices[0].tolist()]
    for matrix in matrices[1:]:
        columns = [[Fraction(entry) for entry in column] for column in matrix.T.tolist()]
        product = [
            [
                sum((x * y for x, y in zip(row, column, strict=True)), Fraction(0))
                for column in columns
            ]
            for row in product
        ]
    return product


@pytest.mark.parametrize("seed", range(3))
def test_long_products_are_held_at_any_scale(seed):
    """The error grows with every factor, and powers of two travel apart from the values."""
    rng = np.random.default_rng(seed)
    matrices = rng.uniform(0.01, 1.0, (120, 2, 2)) * 1e-3
    product = PositiveArray.of(matrices[0])
    for matrix in matrices[1:]:
        product = (product @ PositiveArray.of(matrix).scaled()).scaled()
    assert product.error >= 119 * 2 * STEP
    exact = exact_product(list(matrices))
    scale = Fraction(2) ** int(product.exponent[0, 0])
    for row, numbers in zip(product.values.tolist(), exact, strict=True):
        for value, number in zip(row, numbers, strict=True):
            assert abs(float(Fraction(value) * scale / number) - 1) <= product.error
    lows, highs = product.log_lower().ravel(), product.log_upper().ravel()
    for low, high, number in zip(lows, highs, itertools.chain(*exact), strict=True):
        true = math.log(number.numerator) - math.log(number.denominator)
        assert low - 1e-12 <= true <= high + 1e-12
        assert low < high < low + 1e-9


def test_sums_meet_on_the_larger_power():
    large, small = PositiveArray.of([[3.0]]), PositiveArray.of([[0.75]])
    shifted = PositiveArray(small.values, small.exponent - 4, 0.25)
    total = large + shifted
    assert float(np.ldexp(total.values, total.exponent)[0, 0]) == 3.0 + 0.75 / 16
    assert total.error >= 0.25
    apart = PositiveArray(np.array([[1.0, 1.0]]), np.array([[0, -3]]), 0.0)
    assert float(np.ldexp(apart.sum(1).values, apart.sum(1).exponent)[0, 0]) == 1.125
    assert apart.sum(1).error >= STEP
    quotient = PositiveArray(np.array([[1.0]]), np.array([[5]]), 0.0) / apart[:, 1:]
    assert quotient.upper()[0, 0] >= 256.0 >= quotient.lower()[0, 0]


def test_errors_widen_what_leaves_an_array():
    rough = PositiveArray.of([2.0, 0.0], error=0.1)
    assert rough.upper()[0] >= 2.0 * math.exp(0.1)
    assert 0 < rough.lower()[0] <= 2.0 * math.exp(-0.1)
    assert rough.upper()[1] == rough.lower()[1] == 0.0
    assert rough.log_upper()[0] >= math.log(2.0) + 0.1
    assert rough.log_lower()[0] <= math.log(2.0) - 0.1
    assert PositiveArray.exp([1.0], error=0.1).error >= 0.1
    assert (rough * rough).error >= 0.2
    assert (rough / rough).error >= 0.2


def test_sums_and_exponentials_of_floats_are_rounded_up():
    rng = np.random.default_rng(0)
    for _ in range(200):
        terms = rng.random(3)
        assert Fraction(float(add_upper(*terms))) >= sum(map(Fraction, terms.tolist()))
        assert float(exp_upper(np.array(terms[0]))) > math.exp(terms[0])
        assert float(log_upper_of(np.array(terms[0]))) > math.log(terms[0])


@pytest.mark.parametrize("rate", [0.1, 0.7, 1.1])
def test_limits_are_not_below_the_product_of_rate_and_distance(rate):
    states = (0, 1, 3, 7)
    table = limit.limits(ut.MetricDP(rate), states)
    for i, one in enumerate(states):
        for j, two in enumerate(states):
            assert Fraction(float(table[i, j])) >= abs(one - two) * Fraction(rate)
    assert np.allclose(table, rate * np.abs(np.subtract.outer(states, states)))


CYCLE = lowered.LoweredLaw(np.stack([A, B]), np.array(SYMBOLS), START / START.sum())


def test_a_plan_of_any_kind_bounds():
    """Whatever flow is offered, the certified value is an upper end."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        size = int(rng.integers(2, 6))
        alpha, beta = rng.random((2, 1, size)) + 0.01
        distance = steps.metric_closure(rng.random((1, size, size)) * (1 - np.eye(size)))
        flow = rng.random((1, size, size)) * (rng.random((1, size, size)) < 0.5)
        value, _ = steps._certify(alpha, beta, distance, flow)
        best, _, _ = steps.local_program(alpha, beta, distance)
        assert value[0] >= best[0] * (1 - 1e-9)


def test_a_sweep_is_exact_where_nothing_is_hidden():
    chain, level = ut.MarkovChain(P3, length=6), 0.7
    metric = limit.uniform(level, 3)
    pairs = list(itertools.permutations(range(3), 2))
    gains = steps.signed_sweep([P3] * 3, chain.lowered().symbols, level, np.ones(3), metric, pairs)
    table = hidden_joint(np.full(3, 1 / 3), P3, (0, 1, 2), 4)
    for (value, other), gain in zip(pairs, gains, strict=True):
        exact = likelihood_program(table, level, one(0, (), value, other)) - level
        assert gain == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("known", [(), (0,), (0, 5), (2, 4)])
def test_order_one_agrees_with_the_exchange(known):
    """The exact leakage of the exchange theorem, pattern by pattern."""
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=6)
    against = ut.Adversary(3, known)
    for level in (0.1, 1.0):
        exact = ut.leakage(ut.PureDP(level), chain, against)
        leak = ONE_ADVERSARY.prove(Problem(ut.PureDP(level), chain, against))
        assert leak.lower == pytest.approx(exact.lower, abs=1e-9)
        assert exact.lower - 1e-10 <= leak.upper <= exact.upper + 2e-8


def test_blocks_close_what_impossible_steps_leave():
    """Order three: a hidden state has two successors, and one step alone forgets nothing."""
    rng = np.random.default_rng(4)
    chain = ut.HiddenChain.of_order(rng.dirichlet(np.ones(2), (2, 2, 2)), length=6)
    for known in ((), (1,), (0, 4)):
        exact = likelihood_leakage(chain.joint(6), 0.1, (3, known)).leakage
        upper = upper_end(chain.lowered(), limit.uniform(0.1, 2), ut.Adversary(3, known), 6)
        assert exact - 1e-9 <= upper <= 1.6 * exact
    endless = chain.endless()
    leak = ut.leakage(ut.PureDP(0.1), endless, ut.Adversary(4, [1]))
    assert leak.upper < 2.5 * leak.lower


@pytest.mark.parametrize("target", [1, 2])
def test_any_length_of_a_cycle_bounds_every_length(target):
    """The endless side begins with the kernel of the target's own phase."""
    metric, against = limit.uniform(1.0, 2), ut.Adversary(target, [0])
    endless = upper_end(CYCLE, metric, against, None)
    for records in (4, 5, 7, 40):
        assert upper_end(CYCLE, metric, against, records) <= endless * (1 + 1e-12)
    assert upper_end(CYCLE, metric, against, 40) == pytest.approx(endless, rel=1e-5)


def test_reading_backwards_leads_to_the_same_bounds():
    law = CYCLE
    turned = lowered.LoweredLaw(law.reversed().kernels, law.symbols, law.reversed().start)
    metric = limit.uniform(0.5, 2)
    there = upper_end(law, metric, ut.Adversary(0, [2]), 3)
    back = upper_end(turned, metric, ut.Adversary(2, [0]), 3)
    assert there == pytest.approx(back, rel=1e-9)


def test_long_runs_are_played_like_single_records_and_impossible_attacks_are_none():
    law, row = lowered.LoweredLaw(A[None], np.array(SYMBOLS), stationary(A)), np.exp([[0.3, 0.0]])
    alike = np.repeat(row, 1500, axis=0)
    varied = alike * (1 + 1e-15 * (np.arange(1500) % 2))[:, None]
    runs, walked = (
        attacks.play(law, attacks.Attack(900, {0: 1}, ((1,), (0,)), seen))
        for seen in (alike, varied)
    )
    assert runs.lower == pytest.approx(walked.lower, abs=1e-9)
    stuck = lowered.LoweredLaw(np.eye(2)[None], np.arange(2), np.array([0.5, 0.5]))
    none = attacks.play(stuck, attacks.Attack(0, {1: 0}, ((0,), (1,)), np.ones((2, 2))))
    assert none.lower == -math.inf


def test_errors_travel_with_numbers():
    rng = np.random.default_rng(1)
    for _ in range(50):
        left, right = rng.random((2, 3, 3))
        product = (PositiveArray.of(left) @ PositiveArray.of(right)).scaled()
        quotient = product / PositiveArray.of(left)
        exact = [
            [sum(Fraction(left[i, k]) * Fraction(right[k, j]) for k in range(3)) for j in range(3)]
            for i in range(3)
        ]
        lower, upper = product.lower(), product.upper()
        over, under = quotient.upper(), quotient.lower()
        for i, j in itertools.product(range(3), repeat=2):
            assert Fraction(lower[i, j]) <= exact[i][j] <= Fraction(upper[i, j])
            ratio = exact[i][j] / Fraction(left[i, j])
            assert Fraction(under[i, j]) <= ratio <= Fraction(over[i, j])
        assert (upper - lower <= 1e-14 * upper).all()
    tiny = PositiveArray.of([[1.0, 1e-200]])
    with pytest.raises(ut.errors.NotSupported, match="too far apart"):
        tiny.scaled()
    wide = PositiveArray.exp([800.0, 799.0])
    assert wide.log_lower()[0] <= 800 <= wide.log_upper()[0]


def test_a_prover_is_found_by_its_protocol():
    chain = ut.HiddenChain(A, (0, 0, 1, 1), length=5)
    problem = Problem(ut.PureDP(1.0), chain, ut.Adversary(1))
    assert isinstance(ONE_ADVERSARY, Prover)
    assert ONE_ADVERSARY.supports(problem)
    assert not ONE_ADVERSARY.supports(Problem(ut.PureDP(1.0), chain, "any"))
    assert not ONE_ADVERSARY.supports(Problem(ut.PureDP(1.0), ut.Groups(3), ut.Adversary(1)))
    leak = ONE_ADVERSARY.prove(problem)
    assert 0 < leak.lower <= leak.upper < leak.lower * 1.02
    assert leak.witness.sets


def test_small_levels_settle_on_endless_sides():
    rng = np.random.default_rng(3)
    chain = ut.HiddenChain(rng.dirichlet(np.ones(4), 4), (0, 0, 1, 2))
    for level in (1e-9, 1e-4):
        leak = ONE_ADVERSARY.prove(Problem(ut.PureDP(level), chain, ut.Adversary(5, [2])))
        assert level <= leak.lower <= leak.upper <= 1.1 * leak.lower


def test_a_start_that_hardly_moves_is_not_taken_for_the_stationary_law():
    """One step changes the start by 1e-9, the records before a far target by much more."""
    slow = 1e-10
    law = lowered.LoweredLaw(
        np.array([[[1 - slow, slow], [slow, 1 - slow]]]), np.arange(2), np.array([0.9, 0.1])
    )
    far = sides.side(law, np.array([[0.0, 1.0], [1.0, 0.0]]), 6000, (), -1, None)
    moved = 0.8 * (1 - 2 * slow) ** 6000
    exact = (1 + moved) / (1 - moved)
    ratio = far.weights.values[0, 0] / far.weights.values[0, 1]
    assert abs(ratio / exact - 1) <= 2 * far.weights.error < 1e-8
