"""The oracle judged: by hand, by published counterexamples, by numbers computed elsewhere."""

import itertools
import math
from typing import Any, cast

import numpy as np
import pytest

from tests.grids import each
from undertow.errors import InvalidInput
from undertow.testing.enumeration import (
    LargestLeak,
    additive_noise_likelihood,
    adversaries,
    chain_joint,
    independent_releases,
    mechanism_leakage,
    product_channel_likelihood,
    pure_dp_adversary,
    pure_dp_leakage,
)

ACTIVITY = np.array([[0.882, 0.118], [0.305, 0.695]])
ACTIVITY_START = np.array([0.305, 0.118]) / 0.423
TWINS = np.array([[0.5, 0.0], [0.0, 0.5]])
EVEN = np.array([0.5, 0.5])


def two_states(q, r):
    """A chain with q = P(0 -> 1), r = P(1 -> 0), and its stationary start."""
    return np.array([[1 - q, q], [r, 1 - r]]), np.array([r, q]) / (q + r)


def flips(rho0, rho1):
    return np.array([[1 - rho0, rho0], [rho1, 1 - rho1]])


def random_chain(seed, k, n):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(k), size=(n, k)).clip(0.02)
    rows /= rows.sum(axis=-1, keepdims=True)
    return chain_joint(rows[-1, 0], rows[:-1])


def pedigree(parents, p):
    """Joint genotypes (BB, Bb, bb) of people numbered in birth order; None is a founder."""
    founder = np.array([p * p, 2 * p * (1 - p), (1 - p) ** 2])
    gives = np.array([1.0, 0.5, 0.0])
    mother, father = np.meshgrid(gives, gives, indexing="ij")
    both, neither = mother * father, (1 - mother) * (1 - father)
    child = np.stack([both, 1 - both - neither, neither], axis=-1)
    joint = np.ones((3,) * len(parents))
    for person, pair in enumerate(parents):
        axes = (person,) if pair is None else (*pair, person)
        table = founder if pair is None else child
        shape = [3 if axis in axes else 1 for axis in range(len(parents))]
        joint = joint * table.transpose(np.argsort(np.argsort(axes))).reshape(shape)
    return joint


def nuclear(m):
    return [None, None, *[(0, 1)] * (m - 2)]


# --- building blocks ------------------------------------------------------------------------------


def test_chain_joint_multiplies_start_and_transitions():
    steps = np.random.default_rng(1).dirichlet(np.ones(3), size=(3, 3))
    start = np.array([0.2, 0.5, 0.3])
    joint = chain_joint(start, steps)
    for path in itertools.product(range(3), repeat=4):
        expected = start[path[0]]
        for t in range(3):
            expected *= steps[t][path[t], path[t + 1]]
        assert joint[path] == pytest.approx(expected, rel=1e-14)


def test_chain_joint_repeats_a_single_matrix():
    stack = np.stack([ACTIVITY] * 3)
    one = chain_joint(EVEN, ACTIVITY, length=4)
    assert np.array_equal(one, chain_joint(EVEN, stack))
    assert np.array_equal(one, chain_joint(EVEN, stack, length=4))
    assert np.array_equal(chain_joint(EVEN, ACTIVITY, length=1), EVEN)
    assert np.array_equal(chain_joint(EVEN, np.zeros((0, 2, 2))), EVEN)


@pytest.mark.parametrize(
    "weights", [[0, 1, 1], [-2, 0, 3], [[0, 1, 0], [2, 0, 0], [0, 0, -1]]], ids=str
)
def test_additive_noise_is_laplace_at_every_integer_in_range(weights):
    table = additive_noise_likelihood(weights, scale=0.7, n=3)
    rows = np.broadcast_to(weights, (3, 3))
    sums = {
        x: sum(int(rows[t][x[t]]) for t in range(3)) for x in itertools.product(range(3), repeat=3)
    }
    low, high = min(sums.values()), max(sums.values())
    assert table.shape == (3, 3, 3, high - low + 1)
    for x, total in sums.items():
        for s in range(low, high + 1):
            assert table[x][s - low] == pytest.approx(math.exp(-abs(s - total) / 0.7), rel=1e-14)


def test_no_real_output_leaks_more_than_the_integers_in_range():
    joint = np.zeros((2, 2, 2))
    joint[0, 0, 0] = joint[0, 1, 1] = 0.25  # counts 0 and 2 from target 0, count 1 from target 1
    joint[1, 0, 0] = 0.5
    total = np.indices(joint.shape).sum(axis=0)

    def leakage(outputs):
        return mechanism_leakage(joint, np.exp(-np.abs(outputs - total[..., None]) / 0.8), (0, ()))

    integers = mechanism_leakage(joint, additive_noise_likelihood([0, 1], 0.8, 3), (0, ()))
    assert integers.leakage == pytest.approx(1 / 0.8)
    assert integers.output == 1
    dense = leakage(np.append(np.linspace(-3, 6, 901), [-50.0, 50.0])).leakage
    assert dense == pytest.approx(integers.leakage, abs=1e-12)
    between = leakage(np.arange(-2.5, 6.0)).leakage  # off the integers the worst is missed
    assert between < integers.leakage - 0.1


def test_product_channel_reports_records_independently():
    channels = np.random.default_rng(2).dirichlet(np.ones(3), size=(3, 2))
    table = product_channel_likelihood(channels)
    assert table.shape == (2, 2, 2, 27)
    for x in itertools.product(range(2), repeat=3):
        for j, z in enumerate(itertools.product(range(3), repeat=3)):
            expected = math.prod(channels[t][x[t], z[t]] for t in range(3))
            assert table[x][j] == pytest.approx(expected, rel=1e-14)


def test_independent_releases_multiply():
    first = np.random.default_rng(4).random((2, 2, 3))
    second = np.random.default_rng(5).random((2, 2, 4))
    both = independent_releases(first, second)
    assert both.shape == (2, 2, 12)
    assert both[1, 0, 4 * 2 + 3] == first[1, 0, 2] * second[1, 0, 3]


def test_adversaries_are_all_of_them():
    joint = random_chain(0, 3, 4)
    cases = list(adversaries(joint))
    assert len({case[:3] for case in cases}) == len(cases) == 4 * 4**3
    assert all(len(case.pairs) == 6 for case in cases)
    assert [case[:3] for case in adversaries(joint, "ignorant")] == [(i, (), ()) for i in range(4)]
    informed = list(adversaries(joint, "informed"))
    assert len(informed) == 4 * 27
    assert all(len(case.known) == 3 for case in informed)
    named = list(adversaries(joint, (2, (3, 0))))
    assert [case.values for case in named] == list(itertools.product(range(3), repeat=2))
    assert {case[:2] for case in named} == {(2, (3, 0))}


def test_adversaries_leave_out_what_is_impossible_or_settled():
    assert [case[:3] for case in adversaries(TWINS)] == [(0, (), ()), (1, (), ())]
    assert list(adversaries([[1.0, 0.0], [0.0, 0.0]])) == []
    three = np.zeros((3, 3))
    three[0, 0] = three[0, 2] = three[1, 1] = 0.25
    three[1, 2] = 0.25
    assert list(adversaries(three, (1, (0,)))) == [
        (1, (0,), (0,), ((0, 2), (2, 0))),
        (1, (0,), (1,), ((1, 2), (2, 1))),
    ]


# --- mechanisms by hand ---------------------------------------------------------------------------


def test_one_record_leaks_the_log_odds_of_its_channel():
    worst = mechanism_leakage([0.3, 0.7], product_channel_likelihood([flips(0.1, 0.2)]))
    assert worst == LargestLeak(worst.leakage, 0, (), value=1, other=0, output=1)
    assert worst.leakage == pytest.approx(math.log(0.8 / 0.1))  # against .9/.2 for output 0


@pytest.mark.parametrize("against", ["any", "ignorant", "informed", (1, (0,)), (2, ())], ids=str)
def test_independent_records_leak_the_dp_loss(against):
    joint = np.multiply.outer(np.multiply.outer([0.3, 0.7], [0.6, 0.4]), [0.5, 0.5])
    count = additive_noise_likelihood([0, 1], scale=0.8, n=3)
    assert mechanism_leakage(joint, count, against).leakage == pytest.approx(1.25, abs=1e-13)
    assert pure_dp_leakage(joint, 1.25, against).leakage == pytest.approx(1.25, abs=1e-12)


def test_twins_leak_twice_unless_one_gives_the_other_away():
    count = additive_noise_likelihood([0, 1], scale=1.0, n=2)
    assert mechanism_leakage(TWINS, count).leakage == pytest.approx(2.0, abs=1e-14)
    for against in ("informed", (0, (1,))):  # the target is settled: no pair of values is left
        assert mechanism_leakage(TWINS, count, against) == LargestLeak(0.0)
        assert pure_dp_leakage(TWINS, 1.0, against) == LargestLeak(0.0)


@pytest.mark.parametrize(("q", "r"), [(0.2, 0.2), (0.05, 0.4), (0.9, 0.7)])
def test_two_records_have_a_closed_form(q, r):
    """Output 0, 1 or 2 and either neighbour: nine exponentials by hand."""
    transition, start = two_states(q, r)
    joint = chain_joint(start, transition, length=2)
    count = additive_noise_likelihood([0, 1], scale=1.0, n=2)
    by_hand = []
    for s in range(3):
        w0, w1, w2 = (math.exp(-abs(s - f)) for f in range(3))
        zero, one = (1 - q) * w0 + q * w1, r * w1 + (1 - r) * w2
        by_hand += [math.log(one / zero), math.log(zero / one)]
    assert mechanism_leakage(joint, count, (0, ())).leakage == pytest.approx(max(by_hand))
    assert mechanism_leakage(joint, count, "informed").leakage == pytest.approx(1.0)
    assert mechanism_leakage(joint, count).leakage == pytest.approx(max(1.0, *by_hand))


def test_zero_denominators_are_infinite_and_zero_by_zero_is_skipped():
    never_said_by_zero = [[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]]
    worst = mechanism_leakage([0.5, 0.5], product_channel_likelihood(never_said_by_zero))
    assert worst == LargestLeak(math.inf, 0, (), 1, 0, 1)
    never_said = [[[0.75, 0.25, 0.0], [0.25, 0.75, 0.0]]]
    assert mechanism_leakage(
        [0.5, 0.5], product_channel_likelihood(never_said)
    ).leakage == pytest.approx(math.log(3))
    # impossible values of the target neither count in the numerator nor in the denominator
    assert mechanism_leakage(
        [1.0, 0.0], product_channel_likelihood(never_said_by_zero)
    ) == LargestLeak(0)


def test_a_hidden_record_reveals_the_target_through_a_deterministic_step():
    cycle = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    joint = chain_joint(np.ones(3) / 3, cycle, length=5)
    count = additive_noise_likelihood([1, 0, 0], scale=1.0, n=5)
    worst = mechanism_leakage(joint, count)
    assert worst.leakage == pytest.approx(1.0)  # two visits from states 0 and 2, one from state 1
    assert pure_dp_leakage(joint, 0.4).leakage == pytest.approx(2.0, abs=1e-11)  # all five differ


def test_scaling_an_output_changes_nothing_and_relabelling_moves_the_witness():
    joint = random_chain(8, 2, 3)
    table = np.random.default_rng(8).random((2, 2, 2, 5)) + 0.05
    worst = mechanism_leakage(joint, table)
    scaled = mechanism_leakage(joint, table * [1.0, 7.0, 0.01, 3.0, 1e-9])
    assert scaled.leakage == pytest.approx(worst.leakage, abs=1e-12)
    turned = mechanism_leakage(joint[::-1, ::-1, ::-1], table[::-1, ::-1, ::-1])
    assert turned.leakage == pytest.approx(worst.leakage, abs=1e-12)
    assert (turned.target, turned.value, turned.other) == (worst.target, worst.other, worst.value)
    assert turned.known == tuple((record, 1 - v) for record, v in worst.known)


def test_the_witness_attains_the_leakage():
    joint = random_chain(11, 3, 4)
    table = np.random.default_rng(11).random((3, 3, 3, 3, 4))
    worst = mechanism_leakage(joint, table)
    target, facts = worst.target, dict(worst.known)
    assert target is not None

    def evidence(value):
        pairs = [
            (joint[x] * table[x][worst.output], joint[x])
            for x in itertools.product(range(3), repeat=4)
            if x[target] == value and all(x[t] == v for t, v in facts.items())
        ]
        top, bottom = zip(*pairs, strict=True)
        return math.fsum(top) / math.fsum(bottom)

    found = math.log(evidence(worst.value) / evidence(worst.other))
    assert found == pytest.approx(worst.leakage, abs=1e-13)


def test_xor_of_uniform_bits():
    """Theory, dependent DP: pairwise independent, jointly not."""
    joint = np.zeros((2, 2, 2))
    for a, b in itertools.product(range(2), repeat=2):
        joint[a, b, a ^ b] = 0.25
    count = additive_noise_likelihood([0, 1], scale=1.0, n=3)
    assert mechanism_leakage(joint, count, "ignorant").leakage == pytest.approx(1.433781, abs=5e-7)
    assert mechanism_leakage(joint, count).leakage == pytest.approx(2.0, abs=1e-12)


# --- composition counterexamples ------------------------------------------------------------------


def test_leakages_do_not_add_rational_table():
    joint = np.array([[3, 0], [5, 1]]) / 9
    says_one = np.array([[0.8, 0.5], [0.2, 0.1]])  # 01 is impossible: its entry is free
    once = np.stack([1 - says_one, says_one], axis=-1)
    assert mechanism_leakage(joint, once).leakage == pytest.approx(math.log(48 / 11), abs=1e-13)
    twice = mechanism_leakage(joint, independent_releases(once, once)).leakage
    assert twice == pytest.approx(math.log(53 / 2), abs=1e-13)
    assert twice > 2 * math.log(48 / 11)


# --- counts: numbers computed elsewhere -----------------------------------------------------------


@pytest.mark.parametrize(
    ("odds", "exact", "formula"),
    [
        (2, 1.763382515, 1.547167575),
        (10, 1.940817239, 1.854854800),
        (100, 1.993721713, 1.983130404),
    ],
)
def test_one_sided_implication_of_lange2024_theorem_4_3(odds, exact, formula):
    """X1 = 0 forces X2 = 0; given X1 = 1 the odds of X2 = 1 are `odds`; epsilon 1.

    About X1 the leakage does not depend on Pr(X1 = 1); about X2 it does, and is the larger one
    when X1 = 1 is unlikely enough.
    """

    def law(prior):
        return np.array([[1 - prior, 0.0], [prior / (1 + odds), prior * odds / (1 + odds)]])

    count = additive_noise_likelihood([0, 1], scale=1.0, n=2)
    assert exact == pytest.approx(1 + math.log((1 + odds * math.e) / (1 + odds)), abs=5e-10)
    for prior in (0.05, 0.5, 0.7, 0.95):
        joint = law(prior)
        about_first = mechanism_leakage(joint, count, (0, ())).leakage
        assert about_first == pytest.approx(exact, abs=5e-10)
        assert pure_dp_leakage(joint, 1.0, (0, ())).leakage == pytest.approx(exact, abs=5e-10)
        assert pure_dp_adversary(joint, 1.0, 0, (), (), 1, 0) == pytest.approx(exact, abs=5e-10)
        # the formula of the theorem is the other direction
        assert pure_dp_adversary(joint, 1.0, 0, (), (), 0, 1) == pytest.approx(formula, abs=5e-10)
        both = prior / (1 + odds) / (prior / (1 + odds) + 1 - prior)  # Pr(X1 = 1 | X2 = 0)
        about_second = 2 + math.log(1 - both + both / math.e)
        expected = max(exact, about_second)
        assert mechanism_leakage(joint, count).leakage == pytest.approx(expected, abs=5e-10)
        assert pure_dp_leakage(joint, 1.0).leakage == pytest.approx(expected, abs=5e-10)
        assert (about_second < exact) == (prior > 0.6)


@pytest.mark.parametrize(
    ("gamma", "epsilon", "exact"),
    [
        pytest.param(2, 0.5, 0.969815),
        pytest.param(5, 1.0, 3.577111),
        pytest.param(10, 2.0, 7.921727),
    ],
)
def test_symmetric_chain_of_lange2024_figure_15(gamma, epsilon, exact):
    transition, start = two_states(1 / (gamma + 1), 1 / (gamma + 1))
    joint = chain_joint(start, transition, length=10)
    count = additive_noise_likelihood([0, 1], scale=1 / epsilon, n=10)
    assert mechanism_leakage(joint, count).leakage == pytest.approx(exact, abs=5e-7)


@pytest.mark.parametrize(
    ("parents", "p", "exact"),
    [
        (nuclear(3), 0.5, 2.240229),
        (nuclear(4), 0.5, 3.0),
        (nuclear(5), 0.5, 4.0),
        (nuclear(3), 0.9, 2.869403),
        (nuclear(4), 0.9, 3.545930),
        (nuclear(5), 0.9, 4.214570),
        ([None, None, (0, 1), None, (2, 3)], 0.5, 3.240229),
        ([None, None, (0, 1), None, (2, 3), None, (4, 5)], 0.5, 3.990372),
        ([None, None, None, None, (0, 1), (2, 3), (4, 5)], 0.5, 3.740516),
        ([None, None, (0, 1), (0, 1), None, None, (2, 4), (3, 5)], 0.5, 4.486509),
    ],
    ids=[
        "trio",
        "m4",
        "m5",
        "trio-.9",
        "m4-.9",
        "m5-.9",
        "chain-5",
        "chain-7",
        "grandparents",
        "cousins",
    ],
)
def test_families(parents, p, exact):
    """The BB count of a family of people at one locus, Laplace scale 1."""
    n = len(parents)
    count = additive_noise_likelihood([1, 0, 0], scale=1.0, n=n)
    assert mechanism_leakage(pedigree(parents, p), count).leakage == pytest.approx(exact, abs=5e-7)


def test_a_trio_leaks_no_more_of_any_dp_algorithm_than_of_its_count():
    joint = pedigree(nuclear(3), 0.5)
    assert pure_dp_leakage(joint, 1.0).leakage == pytest.approx(2.240229, abs=5e-7)


def test_parent_and_child_with_a_latent_parent():
    duo = pedigree(nuclear(3), 0.5).sum(axis=1)
    count = additive_noise_likelihood([1, 0, 0], scale=1.0, n=2)
    assert mechanism_leakage(duo, count).leakage == pytest.approx(1.620115, abs=5e-7)


# --- local flips: numbers computed elsewhere ------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "r", "rho0", "rho1", "anyone", "ignorant"),
    [
        (0.1, 0.1, 0.02, 0.02, 9.407941541, 8.239232313),
        (0.2, 0.2, 0.3, 0.3, 2.310736771, 2.310736771),
        (0.2, 0.35, 0.1, 0.2, 4.102643365, 4.102643365),
        (0.8, 0.7, 0.2, 0.3, 2.680295904, 2.680295904),
    ],
)
def test_binary_flips_of_chakrabarti2022(q, r, rho0, rho1, anyone, ignorant):
    transition, start = two_states(q, r)
    joint = chain_joint(start, transition, length=5)
    table = product_channel_likelihood([flips(rho0, rho1)] * 5)
    assert mechanism_leakage(joint, table).leakage == pytest.approx(anyone, abs=5e-10)
    found = mechanism_leakage(joint, table, "ignorant").leakage
    assert found == pytest.approx(ignorant, abs=5e-10)


def test_worst_adversary_of_binary_flips_knows_the_opposite_value():
    transition, start = two_states(0.1, 0.1)
    joint = chain_joint(start, transition, length=5)
    table = product_channel_likelihood([flips(0.02, 0.02)] * 5)
    worst = mechanism_leakage(joint, table)
    mirrors = {
        (2, ((0, 1), (4, 1)), 0, 1, 0b00000),
        (2, ((0, 0), (4, 0)), 1, 0, 0b11111),
    }
    assert (worst.target, worst.known, worst.value, worst.other, worst.output) in mirrors
    known = mechanism_leakage(joint, table, (2, (0, 4)))
    assert known.leakage == pytest.approx(9.407941541, abs=5e-10)


@pytest.mark.parametrize(
    ("rho", "exact"), [(0.2, 6.707247184), (0.4, 3.976119108), (0.6, 1.051007076)]
)
def test_three_state_flips(rho, exact):
    transition = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
    eigenvalues, vectors = np.linalg.eig(transition.T)
    start = np.real(vectors[:, np.argmax(eigenvalues.real)])
    joint = chain_joint(start / start.sum(), transition, length=5)
    channel = np.full((3, 3), rho / 2) + (1 - 1.5 * rho) * np.eye(3)
    table = product_channel_likelihood([channel] * 5)
    assert mechanism_leakage(joint, table).leakage == pytest.approx(exact, abs=5e-10)


# --- every epsilon-DP algorithm -------------------------------------------------------------------


@pytest.mark.parametrize(("n", "exact"), [pytest.param(3, 2.2024)])
def test_short_activity_chains(n, exact):
    joint = chain_joint(ACTIVITY_START, ACTIVITY, length=n)
    worst = pure_dp_leakage(joint, 1.0)
    assert worst.leakage == pytest.approx(exact, abs=5e-5)
    places = tuple(record for record, _ in worst.known)
    values = tuple(value for _, value in worst.known)
    assert worst.target is not None
    assert isinstance(worst.value, int)
    assert isinstance(worst.other, int)
    again = pure_dp_adversary(joint, 1.0, worst.target, places, values, worst.value, worst.other)
    assert again == worst.leakage
    count = additive_noise_likelihood([0, 1], scale=1.0, n=n)  # positive correlation: the worst
    assert mechanism_leakage(joint, count).leakage == pytest.approx(worst.leakage, abs=1e-10)


@each(("seed", "epsilon"), range(4), [0.1, 1.0, 2.5])
def test_binary_optimum_is_randomised_response(seed, epsilon):
    """Section 1, two states: flips with probability 1/(1 + e^epsilon) leak the most."""
    joint = random_chain(seed, 2, 4)
    rho = 1 / (1 + math.exp(epsilon))
    table = product_channel_likelihood([flips(rho, rho)] * 4)
    for against in ("ignorant", (1, (3,)), (0, (3,)), (2, ())):
        expected = mechanism_leakage(joint, table, against).leakage
        assert pure_dp_leakage(joint, epsilon, against).leakage == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(1))
def test_optimum_over_products_of_subsets(seed):
    """Section 1, any k: the worst likelihood is e^(epsilon #{t : x_t in S_t}) for some sets S_t."""
    joint = random_chain(seed, 3, 3)
    subsets = np.array(list(itertools.product([1.0, math.exp(0.8)], repeat=3)))
    table = np.einsum("as,bt,cu->abcstu", *[subsets.T] * 3).reshape(3, 3, 3, -1)
    for against in ("ignorant", (1, (0,)), (0, (2,))):
        expected = mechanism_leakage(joint, table, against)
        found = pure_dp_leakage(joint, 0.8, against)
        assert found.leakage == pytest.approx(expected.leakage, abs=1e-11)
        ends = (expected.target, expected.value, expected.other)
        assert (found.target, found.value, found.other) == ends


def test_no_mechanism_leaks_more_than_the_program():
    joint = random_chain(21, 3, 3)
    rng = np.random.default_rng(21)
    exponents = rng.uniform(0, 1.0, size=(3, 3, 400))  # per record and state, spread up to 1
    table = np.exp(exponents[0][:, None, None] + exponents[1][:, None] + exponents[2])
    for against in sorted({case[:2] for case in adversaries(joint)})[::3]:
        best = mechanism_leakage(joint, table, against).leakage
        bound = pure_dp_leakage(joint, 1.0, against).leakage
        assert 0 < best <= bound + 1e-12


def test_impossible_states_change_nothing_and_impossible_combinations_link():
    small = np.array([[0.3, 0.2], [0.1, 0.4]])
    padded = np.zeros((3, 3))
    padded[:2, :2] = small
    for against in ("any", "ignorant", (0, (1,))):
        expected = pure_dp_leakage(small, 0.7, against).leakage
        assert pure_dp_leakage(padded, 0.7, against).leakage == pytest.approx(expected, abs=1e-12)
    triplets = np.zeros((2, 2, 2))
    triplets[0, 0, 0] = triplets[1, 1, 1] = 0.5
    assert pure_dp_leakage(triplets, 0.7).leakage == pytest.approx(2.1, abs=1e-12)


def test_program_is_scale_free_in_epsilon():
    joint = random_chain(5, 2, 3)
    assert pure_dp_leakage(joint, 0.0).leakage == pytest.approx(0.0, abs=1e-12)
    informed = pure_dp_leakage(joint, 1.7, "informed").leakage
    assert informed == pytest.approx(1.7, abs=1e-12)
    values = [pure_dp_leakage(joint, eps, "ignorant").leakage for eps in (0.25, 0.5, 1.0, 2.0)]
    assert values == sorted(values)
    assert all(eps < v <= 3 * eps for eps, v in zip((0.25, 0.5, 1.0, 2.0), values, strict=True))


def test_rare_records_are_not_lost_by_the_solver():
    """Conditional probabilities below 1e-9, which HiGHS would drop, still count."""
    rare = 1e-11
    joint = np.array([[0.5 * (1 - rare), 0.5 * rare], [0.5 * rare, 0.5 * (1 - rare)]])
    found = pure_dp_adversary(joint, 8.0, 0, (), (), 1, 0)
    ratio = ((1 - rare) * math.exp(8) + rare) / ((1 - rare) + rare * math.exp(8))
    assert found == pytest.approx(8.0 + math.log(ratio), abs=1e-10)


# --- refusals -------------------------------------------------------------------------------------

COUNT = additive_noise_likelihood([0, 1], 1.0, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chain_joint([0.5, 0.5], np.eye(3), length=2), "shapes"),
        (lambda: chain_joint([[0.5, 0.5]], np.eye(2), length=2), "shapes"),
        (lambda: chain_joint([0.5, 0.5], np.eye(2)), "length >= 1"),
        (lambda: chain_joint([0.5, 0.5], np.eye(2), length=0), "length >= 1"),
        (lambda: chain_joint([0.5, 0.5], [np.eye(2)] * 2, length=2), "make 3 records"),
        (lambda: chain_joint([0.5, 0.5], np.eye(2), length=26), "limit"),
        (lambda: chain_joint([0.5, 0.4], np.eye(2), length=2), "sum to 1"),
        (lambda: chain_joint([1.5, -0.5], np.eye(2), length=2), "non-negative"),
        (lambda: chain_joint([math.nan, 0.5], np.eye(2), length=2), "non-negative"),
        (lambda: additive_noise_likelihood([0, 0.5], 1.0, 2), "integers"),
        (lambda: additive_noise_likelihood([0, math.inf], 1.0, 2), "integers"),
        (lambda: additive_noise_likelihood([[0, 1]], 1.0, 2), "shape"),
        (lambda: additive_noise_likelihood([], 1.0, 2), "shape"),
        (lambda: additive_noise_likelihood([0, 1], 1.0, 0), "shape"),
        (lambda: additive_noise_likelihood([0, 1], 0.0, 2), "scale"),
        (lambda: additive_noise_likelihood([0, 1], math.inf, 2), "scale"),
        (lambda: additive_noise_likelihood([0, 1], 0.001, 2), "underflow"),
        (lambda: additive_noise_likelihood([0, 1], 1.0, 25), "limit"),
        (lambda: product_channel_likelihood([[0.5, 0.5]]), "shape"),
        (lambda: product_channel_likelihood([[[0.5, 0.4]]]), "sum to 1"),
        (lambda: product_channel_likelihood([[[1.5, -0.5]]]), "non-negative"),
        (lambda: product_channel_likelihood([np.eye(2)] * 13), "limit"),
        (lambda: independent_releases(COUNT, COUNT[0]), "same records"),
        (lambda: independent_releases(np.ones((2, 10_000)), np.ones((2, 10_000))), "limit"),
        (lambda: mechanism_leakage([[0.5, 0.5]], COUNT), "shape"),
        (lambda: mechanism_leakage(0.5, COUNT), "shape"),
        (lambda: mechanism_leakage(TWINS, COUNT[0]), "shape"),
        (lambda: mechanism_leakage(TWINS, -COUNT), "non-negative"),
        (lambda: mechanism_leakage(TWINS, COUNT * math.inf), "finite"),
        (lambda: mechanism_leakage(TWINS, COUNT * 5e-324), "underflows"),
        (lambda: mechanism_leakage(TWINS, COUNT, cast(Any, "everyone")), "against"),
        (lambda: mechanism_leakage(TWINS, COUNT, (2, ())), "distinct"),
        (lambda: mechanism_leakage(TWINS, COUNT, (0, (0,))), "distinct"),
        (lambda: mechanism_leakage(TWINS, COUNT, (0, (1, 1))), "distinct"),
        (lambda: mechanism_leakage(TWINS, COUNT, (0, (-1,))), "distinct"),
        (lambda: list(adversaries(TWINS * 2)), "sum to 1"),
        (lambda: pure_dp_leakage(TWINS, -1.0), "epsilon"),
        (lambda: pure_dp_leakage(TWINS, math.inf), "epsilon"),
        (lambda: pure_dp_adversary(TWINS, 1.0, 0, (), (), 0, 0), "differ"),
        (lambda: pure_dp_adversary(TWINS, 1.0, 0, (1,), (1,), 0, 1), "possible"),
        (lambda: pure_dp_adversary(TWINS, 1.0, 0, (1,), (), 0, 1), "value per known"),
        (lambda: pure_dp_adversary(TWINS, 1.0, 0, (1,), (2,), 0, 1), "value per known"),
        (lambda: pure_dp_adversary(TWINS, 1.0, 0, (), (), 0, 2), "value per known"),
        (lambda: pure_dp_adversary(TWINS, 1.0, 0, (0,), (1,), 0, 1), "distinct"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_large_programs_are_refused():
    joint = chain_joint(EVEN, ACTIVITY, length=14)
    with pytest.raises(InvalidInput, match="2\\^14 unknowns"):
        pure_dp_adversary(joint, 1.0, 0, (), (), 0, 1)
    everything_else = tuple(range(4, 14))
    assert pure_dp_adversary(joint, 1.0, 0, everything_else, (0,) * 10, 1, 0) > 1.0
