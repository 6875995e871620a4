"""The oracle over all likelihoods: reference numbers computed without this package, and laws.

The numbers are those of the theory of one engine for laws with memory: linear programs on short
series, each an exact supremum over the likelihoods of one adversary.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.oracles import windows
from undertow.errors import InvalidInput
from undertow.models.lowered import LoweredLaw
from undertow.testing.enumeration import (
    LargestLeak,
    Pattern,
    adversaries,
    chain_joint,
    extreme_factors,
    hidden_joint,
    law_program,
    likelihood_leakage,
    likelihood_program,
    mechanism_leakage,
    patterns,
    product_attack,
    pure_dp_leakage,
    record_limits,
)

SYMBOLS = (0, 0, 1, 1)
A = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4], [0.3, 0.3, 0.3, 0.1],
              [0.05, 0.15, 0.1, 0.7]])  # fmt: skip
B = np.array([[0.7, 0.2, 0.08, 0.02], [0.3, 0.4, 0.2, 0.1], [0.1, 0.2, 0.4, 0.3],
              [0.02, 0.08, 0.2, 0.7]])  # fmt: skip
P3 = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
PRINTED = 6e-9
"""Half a unit of the last digit that is printed, and a little for the programs."""


def stationary(matrix):
    """The stationary law of a matrix, by its linear equations."""
    size = len(matrix)
    equations = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]


def stationary_joint(matrix, n):
    symbols = SYMBOLS if len(matrix) == 4 else (0, 1, 2)
    return hidden_joint(stationary(matrix), matrix, symbols, n)


def pattern(target: int, facts: Any = (), value: int = 1, other: int = 0) -> Pattern:
    known, values = zip(*facts, strict=True) if facts else ((), ())
    return Pattern((target,), known, values, (value,), (other,))


def random_matrix(rng, size, floor=0.01):
    rows = rng.dirichlet(np.ones(size), size=size).clip(floor)
    return rows / rows.sum(axis=1, keepdims=True)


def random_metric(rng, size, most=3.0):
    return record_limits(rng.uniform(0.1, most, (size, size)), 1, size)[0]


# --- reference numbers ----------------------------------------------------------------------------

STATIONARY = [
    (A, 0.1, (1, 2), (), 0.15804186),
    (A, 0.1, (2, 2), ((0, 0), (4, 0)), 0.14534409),
    (A, 1.0, (1, 2), (), 1.45737531),
    (A, 1.0, (2, 2), ((3, 1),), 1.31109443),
    (B, 1.0, (1, 2), (), 2.52414050),
    (B, 1.0, (2, 2), ((0, 0), (4, 0)), 1.99268172),
    (P3, 1.0, (1, 2), (), 2.62174358),
    (P3, 1.0, (2, 2), ((3, 1),), 1.96106561),
]
"""Kernel, level, records to the left and right of the target, known records and values, 1v0."""


@pytest.mark.parametrize(("matrix", "level", "sides", "facts", "printed"), STATIONARY)
def test_stationary_patterns(matrix, level, sides, facts, printed):
    joint = stationary_joint(matrix, 1 + sum(sides))
    case = pattern(sides[0], facts)
    assert likelihood_program(joint, level, case) == pytest.approx(printed, abs=PRINTED)
    attack, _ = product_attack(joint, level, case)
    assert attack <= printed + PRINTED
    if matrix is B or len(matrix) == 3:  # the worst likelihood is a product
        assert attack == pytest.approx(printed, abs=PRINTED)


START = np.array([0.26183908, 0.19385764, 0.20927973, 0.33502356])
CYCLE = np.stack([A, B, A, B])  # A into odd records
PERIODIC = [
    ((2, ()), (0.21648841, 0.21861132), (1.94181775, 2.09653680)),
    ((1, ()), (0.22535195, 0.22678624), (2.06294336, 2.16679370)),
    ((2, ((0, 0),)), (0.20152606, 0.20201194), (1.87319634, 1.90635008)),
    ((2, ((0, 0), (4, 1))), (0.16933722, 0.17039317), (1.61685429, 1.71001571)),
    ((1, ((3, 1),)), (0.18215649, 0.18284327), (1.74207233, 1.80004457)),
    ((2, ((1, 1),)), (0.11857823, 0.11904986), (1.14705005, 1.17914924)),
]
"""Target and known records; 1v0 and 0v1 at a level of .1, and at 1."""


def periodic_joint():
    return hidden_joint(START / START.sum(), CYCLE, SYMBOLS)


@pytest.mark.parametrize(("case", "low", "high"), PERIODIC)
def test_periodic_patterns(case, low, high):
    for level, printed in ((0.1, low), (1.0, high)):
        for (value, other), number in zip(((1, 0), (0, 1)), printed, strict=True):
            leak = likelihood_program(
                periodic_joint(), level, pattern(case[0], case[1], value, other)
            )
            assert leak == pytest.approx(number, abs=3e-8)  # the start law has eight digits


@pytest.mark.parametrize(("level", "printed"), [(0.1, 0.22678624), (1.0, 2.16679370)])
def test_periodic_against_all_adversaries(level, printed):
    worst = likelihood_leakage(periodic_joint(), level)
    assert worst.leakage == pytest.approx(printed, abs=3e-8)
    assert (worst.known, worst.value, worst.other) == ((), 0, 1)
    assert worst.target in (1, 3)


def test_metric_limits_of_four_values_need_more_than_products():
    first = [[0.14, 0.09, 0.64, 0.13], [0.003, 0.333, 0.663, 0.001],
             [0.02, 0.48, 0.26, 0.24], [0.42, 0.39, 0.17, 0.02]]  # fmt: skip
    second = [[0.26, 0.15, 0.32, 0.27], [0.19, 0.06, 0.6, 0.15],
              [0.38, 0.47, 0.01, 0.14], [0.001, 0.001, 0.001, 0.997]]  # fmt: skip
    limits = np.zeros((4, 4))
    limits[0, 1:], limits[1, 2:], limits[2, 3] = (2.46, 2.15, 1.68), (0.68, 1.29), 1.79
    limits += limits.T
    joint = chain_joint(np.full(4, 0.25), [first, second])  # the target is given: any start will do
    alone = np.zeros((3, 4, 4))
    alone[1:] = limits  # "two records": the target's own limit is not counted
    case = pattern(0, (), 0, 1)
    assert likelihood_program(joint, alone, case) == pytest.approx(1.36763330, abs=3e-8)
    assert product_attack(joint, alone, case)[0] == pytest.approx(1.32353170, abs=3e-8)
    assert len(extreme_factors(limits)) == 20


@pytest.mark.parametrize(("change", "printed"), [(0.01, 1.789198), (0.1, 1.599705)])
def test_products_on_regimes(change, printed):
    """Records independent given a regime, five on either side, nothing known, level 1."""
    ones, regimes = np.array([0.3, 0.7]), np.array([[1 - change, change], [change, 1 - change]])
    emits = np.array([1 - ones, ones])  # (record, regime)
    start = (emits / 2).ravel()  # hidden state 2 record + regime
    matrix = np.tile(np.einsum("rs,xs->rxs", regimes, emits).reshape(2, 4), (2, 1))
    attack, _ = product_attack(hidden_joint(start, matrix, SYMBOLS, 11), 1.0, pattern(5))
    assert attack == pytest.approx(printed, abs=5e-7)


# --- laws -----------------------------------------------------------------------------------------


def test_hidden_joint_sums_over_all_paths():
    rng = np.random.default_rng(1)
    symbols, steps = (0, 2, 1, 0), np.array([random_matrix(rng, 4) for _ in range(2)])
    start = rng.dirichlet(np.ones(4))
    joint = np.zeros((3, 3, 3))
    for s, t, u in itertools.product(range(4), repeat=3):
        mass = start[s] * steps[0][s, t] * steps[1][t, u]
        joint[symbols[s], symbols[t], symbols[u]] += mass
    np.testing.assert_allclose(hidden_joint(start, steps, symbols), joint, rtol=1e-13)
    same = chain_joint(start, steps)
    np.testing.assert_allclose(hidden_joint(start, steps, range(4)), same, rtol=1e-13)


def plain_program(joint, theta, case):
    """The program written once more, without sparse matrices or a closing of limits."""
    n, k = joint.ndim, joint.shape[0]
    series = list(itertools.product(range(k), repeat=n))
    rows = []
    for y, z in itertools.permutations(series, 2):
        differ = [t for t in range(n) if y[t] != z[t]]
        if len(differ) == 1:
            t = differ[0]
            row = np.zeros(len(series))
            row[series.index(y)], row[series.index(z)] = 1, -math.exp(theta[t][y[t], z[t]])
            rows.append(row)

    def law(history):
        facts = dict(zip((*case.known, *case.secret), (*case.values, *history), strict=True))
        mass = np.array([joint[y] * all(y[t] == v for t, v in facts.items()) for y in series])
        return mass / mass.sum()

    solution = linprog(
        -law(case.value), A_ub=np.array(rows), b_ub=np.zeros(len(rows)),
        A_eq=law(case.other)[None], b_eq=[1.0],
    )  # fmt: skip
    return math.log(-solution.fun)


@pytest.mark.parametrize("seed", range(6))
def test_directed_limits_by_record(seed):
    """Any directed limits, also those that no triangle inequality holds for; known records too."""
    rng = np.random.default_rng(seed)
    k, n = (2, 4) if seed % 2 else (3, 3)
    joint = rng.dirichlet(np.full(k**n, 0.5)).reshape((k,) * n)
    theta = rng.uniform(0.05, 2.0, (n, k, k))
    cases = list(patterns(joint, window=1 + seed // 3))
    for index in rng.choice(len(cases), 4, replace=False):
        leak = likelihood_program(joint, theta, cases[index])
        assert leak == pytest.approx(plain_program(joint, theta, cases[index]), abs=2e-6)


def test_limits_of_the_target_count_in_full():
    joint = np.multiply.outer([0.3, 0.7], [0.5, 0.5])
    limits = [[[0, 0.3], [1.4, 0]]] * 2  # independent records: the target's own limit
    assert likelihood_program(joint, limits, pattern(0)) == pytest.approx(1.4, abs=1e-10)
    assert likelihood_program(joint, limits, pattern(0, (), 0, 1)) == pytest.approx(0.3, abs=1e-10)
    worst = likelihood_leakage(joint, limits)
    assert worst == LargestLeak(worst.leakage, 0, (), 1, 0)
    assert worst.leakage == pytest.approx(1.4, abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_three_values_and_any_metric_are_attacked_by_products(seed):
    """Theorem E1: first order, at most three values, any directed metric."""
    rng = np.random.default_rng(seed)
    joint = chain_joint(rng.dirichlet(np.ones(3)), [random_matrix(rng, 3) for _ in range(2)])
    limits = random_metric(rng, 3)
    for value, other in itertools.permutations(range(3), 2):
        case = pattern(0, (), value, other)
        attack, _ = product_attack(joint, limits, case)
        assert attack == pytest.approx(likelihood_program(joint, limits, case), abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_attacks_stay_below_programs_and_are_attained(seed):
    rng = np.random.default_rng(seed)
    joint = hidden_joint(rng.dirichlet(np.ones(5)), random_matrix(rng, 5), (0, 1, 1, 2, 2), 4)
    limits = random_metric(rng, 3)
    cases = list(patterns(joint, window=1 + seed % 2))
    for index in rng.choice(len(cases), 5, replace=False):
        case = cases[index]
        attack, factors = product_attack(joint, limits, case)
        assert attack <= likelihood_program(joint, limits, case) + 1e-9
        assert set(factors).isdisjoint(case.known)
        weights = joint
        for record, factor in factors.items():
            assert (np.log(factor)[:, None] - np.log(factor) <= limits + 1e-9).all()
            weights = weights * factor.reshape([3 if t == record else 1 for t in range(4)])

        def seen(history, weights=weights, case=case):
            place = dict(zip((*case.known, *case.secret), (*case.values, *history), strict=True))
            index = tuple(place.get(t, slice(None)) for t in range(4))
            return weights[index].sum() / joint[index].sum()

        ratio = math.log(seen(case.value) / seen(case.other))
        assert ratio == pytest.approx(attack, abs=1e-10)


def test_windows_of_independent_records_leak_the_sum_of_their_limits():
    joint = np.multiply.outer(np.multiply.outer([0.3, 0.7], [0.6, 0.4]), [0.5, 0.5])
    worst = likelihood_leakage(joint, 0.7, window=2)
    assert worst.leakage == pytest.approx(1.4, abs=1e-10)
    assert isinstance(worst.value, tuple)
    assert isinstance(worst.other, tuple)
    assert all(a != b for a, b in zip(worst.value, worst.other, strict=True))
    assert likelihood_leakage(joint, 0.7, window=3).leakage == pytest.approx(2.1, abs=1e-10)


def test_a_window_of_one_record_is_the_record():
    joint = stationary_joint(A, 3)
    assert likelihood_leakage(joint, 0.5, window=1) == pure_dp_leakage(joint, 0.5)
    wide = likelihood_leakage(joint, 0.5, window=2).leakage
    assert wide > pure_dp_leakage(joint, 0.5).leakage


def test_patterns_are_adversaries_with_pairs():
    joint = stationary_joint(P3, 3)
    listed = [
        Pattern((case.target,), case.known, case.values, (x,), (other,))
        for case in adversaries(joint)
        for x, other in case.pairs
    ]
    assert list(patterns(joint)) == listed
    assert len(list(patterns(joint, "ignorant", 2))) == 2 * 72
    assert {case.known for case in patterns(joint, "informed", 2)} == {(0,), (2,)}
    named = list(patterns(joint, (1, (0,)), 2))
    assert {(case.secret, case.known) for case in named} == {((1, 2), (0,))}


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_extreme_factors_of_one_level_are_sets(k):
    """Uniform limits: e^level on some of the values, neither none nor all."""
    rays = extreme_factors(0.8 * (1 - np.eye(k)))
    high = {tuple(bool(up) for up in ray > ray.min() * 1.1) for ray in rays}
    expected = set(itertools.product((False, True), repeat=k)) - {(True,) * k}
    assert high == (expected - {(False,) * k} if k > 1 else expected)
    assert len(rays) == len(high)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hidden_joint([0.5, 0.5], np.eye(3), (0, 1), 2), "shapes"),
        (lambda: hidden_joint([0.5, 0.5], np.eye(2), (0,), 2), "symbol"),
        (lambda: hidden_joint([0.5, 0.5], np.eye(2), (0, -1), 2), "symbol"),
        (lambda: hidden_joint([0.5, 0.5], np.eye(2), (0, 1)), "length"),
        (lambda: record_limits([[0.0, 1.0], [math.inf, 0.0]], 1, 2), "finite"),
        (lambda: record_limits([[0, 1], [-1, 0]], 1, 2), "non-negative"),
        (lambda: record_limits(np.ones((2, 3, 3)), 3, 3), "shapes"),
        (lambda: list(patterns(np.full((2, 2), 0.25), (1, ()), 2)), "distinct and in"),
        (lambda: list(patterns(np.full((2, 2), 0.25), (0, (1,)), 2)), "distinct"),
        (
            lambda: likelihood_program(
                np.full((2, 2), 0.25), 1.0, Pattern((0, 1), (), (), (1,), (0, 0))
            ),
            "known record",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize(("k", "n"), [(2, 4), (3, 3)])
@pytest.mark.parametrize("against", ["any", "ignorant", "informed"])
def test_windows_by_two_enumerations(k, n, against):
    joint = np.random.default_rng(k).dirichlet(np.ones(k**n)).reshape((k,) * n)
    noise = windows.noisy_counts(k, n, 1, [(range(n), 1.3)])
    counted = mechanism_leakage(joint, noise, against, window=2)
    expected = windows.released_leak(joint, noise, 2, against)
    assert counted.leakage == pytest.approx(expected, abs=1e-12)
    level = likelihood_leakage(joint, 0.7, against, window=2)
    assert level.leakage == pytest.approx(windows.window_leak(joint, 0.7, 2, against), abs=1e-8)


# --- lowered laws ---------------------------------------------------------------------------------


def cycle(rng, size, phases):
    """A cycle of kernels on five hidden states, symbols in any order, any start."""
    kernels = np.array([random_matrix(rng, size) for _ in range(phases)])
    symbols = np.append(rng.permutation(3), rng.integers(3, size=size - 3))
    return LoweredLaw(kernels, symbols, rng.dirichlet(np.ones(size)))


@pytest.mark.parametrize("phases", [1, 2, 3])
@pytest.mark.parametrize("window", [1, 2])
def test_programs_of_lowered_laws_are_those_of_the_joint_table(phases, window):
    rng = np.random.default_rng([phases, window])
    law, limits = cycle(rng, 5, phases), random_metric(rng, 3)
    for phase in range(phases):
        steps = np.array([law.kernel(phase + t) for t in range(3)])
        joint = hidden_joint(law.law(phase), steps, law.symbols.tolist())
        cases = list(patterns(joint, window=window))
        for index in rng.choice(len(cases), 4, replace=False):
            exact = likelihood_program(joint, limits, cases[index])
            leak = law_program(law, limits, cases[index], 4, phase)
            assert leak == pytest.approx(exact, abs=2e-9)


def test_factors_that_are_seen_bound_the_program_from_below():
    rng = np.random.default_rng(3)
    law, limits = cycle(rng, 5, 2), random_metric(rng, 3)
    case = pattern(2, ((5, 1),))
    steps = [law.kernel(1 + t) for t in range(5)]
    joint = hidden_joint(law.law(1), steps, law.symbols.tolist())
    attack, factors = product_attack(joint, limits, case)
    values = [
        law_program(law, limits, case, 6, 1, {t: factors[t] for t in seen})
        for seen in ((), (0,), (0, 1), (0, 1, 3), (0, 1, 3, 4))
    ]
    assert (np.diff(values) <= 1e-8).all()
    assert values[-1] == pytest.approx(attack, abs=1e-9)


def test_known_records_make_long_series_short():
    law = LoweredLaw(A[None], np.array(SYMBOLS), stationary(A))
    known = tuple(t for t in range(60) if t not in (29, 30, 31))
    case = Pattern((30,), known, tuple(t % 3 % 2 for t in known), (1,), (0,))
    reversal = Pattern((29,), tuple(59 - t for t in known[::-1]), case.values[::-1], (1,), (0,))
    forwards = law_program(law, 1.0, case, 60)
    turned = law_program(law.reversed(), 1.0, reversal, 60)
    assert 0.5 < forwards == pytest.approx(turned, abs=1e-8)


@pytest.mark.parametrize(
    ("case", "seen", "message"),
    [
        (Pattern((1,), (0,), (0,), (1,), (0,)), {0: [1, 2]}, "neither secret nor known"),
        (Pattern((1,), (3,), (0,), (1,), (0,)), {}, "distinct and in"),
        (Pattern((1,), (0,), (1,), (1,), (0,)), {}, "possible"),
    ],
)
def test_impossible_patterns_of_lowered_laws_are_refused(case, seen, message):
    law = LoweredLaw(np.array([[[0.5, 0.5], [0.0, 1.0]]]), np.arange(2), np.array([0.5, 0.5]))
    with pytest.raises(InvalidInput, match=message):
        law_program(law, 1.0, case, 3, 0, seen)
