"""The engine's core against reference numbers, linear programs and full enumeration."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import undertow as ut
from undertow.bounds.core import sides as sides_module
from undertow.bounds.core.arrays import PositiveArray
from undertow.bounds.core.attacks import choices, search_attack
from undertow.bounds.core.join import join, join_outer
from undertow.bounds.core.limits import limits, uniform
from undertow.bounds.core.play import Attack, play
from undertow.bounds.core.sides import side
from undertow.bounds.core.steps import local_program, metric_closure, signed_sweep, step
from undertow.bounds.one_adversary import ONE_ADVERSARY, upper_end
from undertow.bounds.protocol import Problem, Prover
from undertow.models.lowered import LoweredLaw

A = np.array([
    [0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4],
    [0.3, 0.3, 0.3, 0.1], [0.05, 0.15, 0.1, 0.7],
])  # fmt: skip
B = np.array([
    [0.7, 0.2, 0.08, 0.02], [0.3, 0.4, 0.2, 0.1],
    [0.1, 0.2, 0.4, 0.3], [0.02, 0.08, 0.2, 0.7],
])  # fmt: skip
P3 = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
PERIODIC = np.array([0.26183908, 0.19385764, 0.20927973, 0.33502356])
PAIRS = np.array([0, 0, 1, 1])
EXACT: Any = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def stationary(kernel):
    size = len(kernel)
    rows = np.vstack([kernel.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(rows, np.append(np.zeros(size), 1.0), rcond=None)[0]


def law_of(kernel):
    symbols = PAIRS if len(kernel) == 4 else np.arange(len(kernel))
    return LoweredLaw(kernel[None], symbols, stationary(kernel))


def joint(law, records):
    """The probability of every series, by a sum over hidden paths."""
    table = {}
    for series in itertools.product(range(law.states), repeat=records):
        mass = law.start * (law.symbols == series[0])
        for t in range(records - 1):
            mass = (mass @ law.kernel(t)) * (law.symbols == series[t + 1])
        table[series] = mass.sum()
    return table


def program(table, metric, known, target, histories):
    """The largest log-ratio of any likelihood within the limits, by one linear program."""
    series = [x for x in table if all(x[t] == v for t, v in known.items())]
    place = {x: i for i, x in enumerate(series)}
    rows = []
    for x in series:
        for t in set(range(len(x))) - set(known):
            for v in range(len(metric)):
                if v != x[t] and math.isfinite(metric[x[t], v]):
                    row = np.zeros(len(series))
                    row[place[x]] = 1
                    row[place[(*x[:t], v, *x[t + 1 :])]] = -math.exp(metric[x[t], v])
                    rows.append(row)
    end = target + len(histories[0])
    masses = [
        np.array([table[x] * (x[target:end] == history) for x in series]) for history in histories
    ]
    if not all(mass.sum() > 0 for mass in masses):
        return -math.inf
    one, two = (mass / mass.sum() for mass in masses)
    found = linprog(
        -one, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=two[None], b_eq=[1],
        method="highs", options=EXACT,
    )  # fmt: skip
    return math.log(-found.fun)


def ends(law, level, target, records, known, pair):
    metric = uniform(level, law.states)
    left = side(law, metric, target, known, -1, records)
    right = side(law, metric, target, known, 1, records)
    return (
        float(join(law, metric, left, right, pair)[0, 0]),
        join_outer(law, metric, left, right, pair, (0, 0)),
    )


@pytest.mark.parametrize(
    ("kernel", "level", "around", "known", "exact", "paired", "swept"),
    [
        (A, 0.1, (1, 2), {}, 0.15804186, 0.15812507, 0.16791887),
        (A, 0.1, (2, 2), {-2: 0, 2: 0}, 0.14534409, 0.14667610, 0.15007743),
        (A, 1, (1, 2), {}, 1.45737531, 1.46714005, 1.56045935),
        (A, 1, (2, 2), {1: 1}, 1.31109443, 1.33716861, 1.45399962),
        (B, 1, (1, 2), {}, 2.52414050, 2.52414050, 2.52595782),
        (B, 1, (2, 2), {-2: 0, 2: 0}, 1.99268172, 1.99268172, 1.99268172),
        (P3, 1, (1, 2), {}, 2.62174358, 2.62361549, 2.62174358),
        (P3, 1, (2, 2), {1: 1}, 1.96106561, 1.96228489, 1.96106561),
    ],
)
def test_reference_patterns(kernel, level, around, known, exact, paired, swept, monkeypatch):
    left, right = around
    placed = {left + distance: value for distance, value in known.items()}
    both, outer = ends(law_of(kernel), level, left, left + right + 1, placed, (1, 0))
    assert both <= min(paired, swept) + 2e-8
    assert exact - 1e-8 <= min(both, outer) <= both
    # the pairwise steps alone, as the table has them
    monkeypatch.setattr(sides_module, "_swept", lambda law, limits, fronts, message: np.inf)
    monkeypatch.setattr(sides_module, "_block_lengths", lambda law: [])
    alone, _ = ends(law_of(kernel), level, left, left + right + 1, placed, (1, 0))
    assert alone == pytest.approx(paired, abs=2e-8)


CYCLE = LoweredLaw(np.array([A, B]), PAIRS, PERIODIC)


@pytest.mark.parametrize(
    ("target", "known", "numbers"),
    [
        (2, {}, (
            0.21648841, 0.21654438, 0.21861132, 0.21866284,
            1.94181775, 1.95198496, 2.09653680, 2.10242993,
        )),
        (1, {}, (
            0.22535195, 0.22537192, 0.22678624, 0.22680537,
            2.06294336, 2.06545557, 2.16679370, 2.16807305,
        )),
        (2, {0: 0}, (
            0.20152606, 0.20159108, 0.20201194, 0.20205700,
            1.87319634, 1.88492351, 1.90635008, 1.91174995,
        )),
        (2, {0: 0, 4: 1}, (
            0.16933722, 0.17028493, 0.17039317, 0.17129565,
            1.61685429, 1.62928788, 1.71001571, 1.71758273,
        )),
        (1, {3: 1}, (
            0.18215649, 0.18273324, 0.18284327, 0.18348276,
            1.74207233, 1.74523772, 1.80004457, 1.80895957,
        )),
        (2, {1: 1}, (
            0.11857823, 0.12506781, 0.11904986, 0.12443003,
            1.14705005, 1.26579780, 1.17914924, 1.22408781,
        )),
    ],
)  # fmt: skip
def test_reference_contexts(target, known, numbers):
    """Kernels that take turns, by the record reached; both directions at two levels."""
    questions = [(0.1, (1, 0)), (0.1, (0, 1)), (1.0, (1, 0)), (1.0, (0, 1))]
    for (level, pair), exact, paired in zip(questions, numbers[::2], numbers[1::2], strict=True):
        both, outer = ends(CYCLE, level, target, 5, known, pair)
        assert both <= paired + 2e-8
        assert exact - 1e-8 <= min(both, outer)
        histories = ((pair[0],), (pair[1],))
        seen = choices(ut.PureDP(level), (0, 1))
        attack = search_attack(CYCLE, seen, target, known, histories, 5)
        assert exact * 0.99 <= attack.value.lower <= exact + 1e-8


def random_law(rng, records):
    shapes = ([0, 1], [0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 0, 1], [0, 1, 2])
    symbols = np.array(shapes[rng.integers(len(shapes))])
    kernels = rng.dirichlet(
        np.ones(len(symbols)) * 0.7, (int(rng.integers(1, records)), len(symbols))
    )
    if rng.random() < 0.3:
        kernels[rng.random(kernels.shape) < 0.25] = 0
        kernels[..., 0] += 0.05
    kernels = kernels / kernels.sum(axis=-1, keepdims=True)
    return LoweredLaw(kernels, symbols, rng.dirichlet(np.ones(len(symbols))))


@pytest.mark.parametrize("seed", range(24))
def test_no_likelihood_lies_above(seed):
    """Upper ends, attacks and windows against the linear program over all likelihoods."""
    rng = np.random.default_rng(seed)
    records = int(rng.integers(3, 5))
    law = random_law(rng, records)
    size = law.states
    level = float(rng.choice([0.05, 0.3, 1, 2]))
    metric = uniform(level, size)
    if seed % 4 == 3:
        values = np.sort(rng.random(size)) * 2
        metric = np.abs(values[:, None] - values)
    window = 1 + seed % 3 // 2
    target = int(rng.integers(records - window + 1))
    others = [t for t in range(records) if not target <= t < target + window]
    known = [t for t in others if rng.random() < 0.4]
    table = joint(law, records)
    histories = list(itertools.product(range(size), repeat=window))
    exact = max(
        program(table, metric, dict(zip(known, values, strict=True)), target, pair)
        for values in itertools.product(range(size), repeat=len(known))
        for pair in itertools.permutations(histories, 2)
    )
    if exact == -math.inf:
        pytest.skip("the known records tell the target")
    upper = upper_end(law, metric, ut.Adversary(target, known), records, window)
    assert exact - 2e-9 <= upper <= 1.35 * exact + 1e-9


@pytest.mark.parametrize("seed", range(30))
def test_local_programs_match_a_solver(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    alpha, beta = rng.dirichlet(np.ones(size) * 0.5, 2)
    alpha[rng.random(size) < 0.2] = 0
    beta[rng.random(size) < 0.2] = 0
    alpha[rng.integers(size)] += 0.1
    beta[rng.integers(size)] += 0.1
    distance = rng.random((size, size)) * rng.choice([0.1, 1, 5])
    np.fill_diagonal(distance, 0)
    distance = metric_closure(distance)
    rows = []
    for i, j in itertools.permutations(range(size), 2):
        row = np.zeros(size)
        row[i], row[j] = 1, -math.exp(distance[i, j])
        rows.append(row)
    found = linprog(
        -alpha, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=beta[None], b_eq=[1],
        method="highs", options=EXACT,
    )  # fmt: skip
    value, plan, u = local_program(alpha, beta, distance)
    assert -found.fun * (1 - 1e-9) <= value <= -found.fun * (1 + 1e-9)
    assert (alpha @ u) / (beta @ u) == pytest.approx(float(value), rel=1e-9)
    senders = plan.sum(axis=1)
    assert np.all((senders == 0) | (np.abs(senders - 1) < 1e-12))


def test_states_without_mass_bind_nothing():
    """Impossible states are unbound: infinite distances, and the program is that of the others."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        alpha, beta = rng.dirichlet(np.ones(8) * 0.5, 2) * (rng.random((2, 8)) < 0.4)
        live = rng.random(8) < 0.5
        live[:2] = True
        alpha[~live] = beta[~live] = 0
        alpha[1] += 0.1
        beta[0] += 0.1
        distance = metric_closure(rng.random((8, 8)) * rng.choice([0, 0.1, 1]) * (1 - np.eye(8)))
        some = np.ix_(live, live)
        alone, _, _ = local_program(alpha[live], beta[live], distance[some])
        unbound = np.where(live[:, None] & live, distance, math.inf)
        np.fill_diagonal(unbound, 0.0)
        value, _, _ = local_program(alpha, beta, unbound)
        assert value == pytest.approx(float(alone), rel=1e-9)


def test_a_plan_of_any_kind_bounds():
    """Whatever flow is offered, the certified value is an upper end."""
    from undertow.bounds.core.steps import _certify

    rng = np.random.default_rng(3)
    for _ in range(200):
        size = int(rng.integers(2, 6))
        alpha, beta = rng.random((2, 1, size)) + 0.01
        distance = metric_closure(rng.random((1, size, size)) * (1 - np.eye(size)))
        flow = rng.random((1, size, size)) * (rng.random((1, size, size)) < 0.5)
        value, _ = _certify(alpha, beta, distance, flow)
        best, _, _ = local_program(alpha, beta, distance)
        assert value[0] >= best[0] * (1 - 1e-9)


def test_a_sweep_is_exact_where_nothing_is_hidden():
    chain = ut.MarkovChain(P3, length=6)
    law, level = chain.lowered(), 0.7
    metric = uniform(level, 3)
    pairs = list(itertools.permutations(range(3), 2))
    ones = signed_sweep([P3] * 3, law.symbols, level, np.ones(3), metric, pairs)
    table = joint(LoweredLaw(P3[None], np.arange(3), np.ones(3) / 3), 4)
    for (one, two), value in zip(pairs, ones, strict=True):
        exact = program(table, metric, {}, 0, ((one,), (two,))) - level
        assert value == pytest.approx(exact, abs=1e-8)
    assert (step(P3, metric) >= 0).all()


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
    law, metric = chain.lowered(), uniform(0.1, 2)
    for known in ((), (1,), (0, 4)):
        exact = max(
            program(joint(law, 6), metric, dict(zip(known, values, strict=True)), 3, pair)
            for values in itertools.product(range(2), repeat=len(known))
            for pair in (((0,), (1,)), ((1,), (0,)))
        )
        upper = upper_end(law, metric, ut.Adversary(3, known), 6)
        assert exact - 1e-9 <= upper <= 1.6 * exact
    endless = chain.endless()
    leak = ut.leakage(ut.PureDP(0.1), endless, ut.Adversary(4, [1]))
    assert leak.upper < 2.5 * leak.lower


def test_any_length_bounds_every_length():
    chain = ut.HiddenChain(A, (0, 0, 1, 1))
    law, metric = chain.lowered(), uniform(1.0, 2)
    against = ut.Adversary(2, [0])
    endless = upper_end(law, metric, against, None)
    for records in (3, 6, 20, 60):
        assert upper_end(law, metric, against, records) <= endless * (1 + 1e-12)
    assert upper_end(law, metric, against, 60) == pytest.approx(endless, rel=1e-5)


@pytest.mark.parametrize("target", [1, 2])
def test_any_length_of_a_cycle_bounds_every_length(target):
    """The endless side begins with the kernel of the target's own phase."""
    metric, against = uniform(1.0, 2), ut.Adversary(target, [0])
    endless = upper_end(CYCLE, metric, against, None)
    for records in (4, 5, 7, 40):
        assert upper_end(CYCLE, metric, against, records) <= endless * (1 + 1e-12)
    assert upper_end(CYCLE, metric, against, 40) == pytest.approx(endless, rel=1e-5)


def test_reading_backwards_leads_to_the_same_bounds():
    law = CYCLE
    turned = LoweredLaw(law.reversed().kernels, law.symbols, law.reversed().start)
    metric = uniform(0.5, 2)
    there = upper_end(law, metric, ut.Adversary(0, [2]), 3)
    back = upper_end(turned, metric, ut.Adversary(2, [0]), 3)
    assert there == pytest.approx(back, rel=1e-9)


def test_attacks_are_played_out_exactly():
    """Played values against plain sums over all series, with long runs and impossible attacks."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        law = random_law(rng, 4)
        table = joint(law, 4)
        seen = np.exp(rng.normal(size=(4, law.states)))
        known, histories = {3: 0}, ((0,), (1,))
        logs = []
        for history in histories:
            inside = [x for x in table if x[3] == 0 and x[1] == history[0]]
            mass = sum(table[x] * math.prod(seen[t, x[t]] for t in range(3)) for x in inside)
            total = sum(table[x] for x in inside)
            logs.append(math.log(mass / total) if total else math.nan)
        value = play(law, Attack(1, known, histories, seen))
        if math.isnan(sum(logs)):
            assert value.lower == -math.inf
        else:
            assert value.lower <= logs[0] - logs[1] <= value.upper
            assert value.upper - value.lower < 1e-12
    law, row = law_of(A), np.exp([[0.3, 0.0]])
    long = play(law, Attack(900, {0: 1}, ((1,), (0,)), np.repeat(row, 1500, axis=0)))
    varied = np.repeat(row, 1500, axis=0) * (1 + 1e-15 * (np.arange(1500) % 2))[:, None]
    walked = play(law, Attack(900, {0: 1}, ((1,), (0,)), varied))
    assert long.lower == pytest.approx(walked.lower, abs=1e-9)


def test_limits_of_mechanisms():
    states = (0, 1, 3)
    total = (
        ut.Sum(0, 4, values={0: 0, 1: 1, 3: 3})
        if "values" in ut.Sum.__dataclass_fields__
        else ut.Sum(0, 4)
    )
    assert limits(ut.PureDP(0.5), states)[0, 2] == 0.5
    assert limits(ut.MetricDP(0.5), states)[0, 2] == pytest.approx(1.5)
    assert limits(ut.Laplace(ut.Count(1), scale=2.0), states).round(6).tolist() == [
        [0, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0],
    ]  # fmt: skip
    assert limits(ut.Laplace(ut.Histogram(), scale=2.0), states)[1, 2] == pytest.approx(1.0)
    assert limits(ut.Laplace(total, scale=2.0), states)[1, 2] >= 0.5
    flips = limits(ut.RandomizedResponse.binary(0.1, 0.2), (0, 1))
    assert flips == pytest.approx(np.array([[0, math.log(4.5)], [math.log(8), 0]]))
    with pytest.raises(ut.errors.NotSupported, match="no limit for one record"):
        limits(ut.XorNoise(0.1, 0.3), (0, 1))


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
    law = LoweredLaw(
        np.array([[[1 - slow, slow], [slow, 1 - slow]]]), np.arange(2), np.array([0.9, 0.1])
    )
    far = side(law, np.array([[0.0, 1.0], [1.0, 0.0]]), 6000, (), -1, None)
    moved = 0.8 * (1 - 2 * slow) ** 6000
    exact = (1 + moved) / (1 - moved)
    ratio = far.weights.values[0, 0] / far.weights.values[0, 1]
    assert abs(ratio / exact - 1) <= 2 * far.weights.error < 1e-8
