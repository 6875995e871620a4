"""The engine's primitives against programs and enumeration, kernels by position included.

Laws that no model of the public surface has yet (kernels by position with hidden states, directed
limits on them) are asked of the primitives: every upper end is compared with one linear program
over all likelihoods, and with the pairwise bounds that the theory prints.
"""

import itertools
import math
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
from undertow.models import lowered
from undertow.testing.enumeration import (
    Pattern,
    hidden_joint,
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
