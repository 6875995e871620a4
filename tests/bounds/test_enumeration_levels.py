"""The oracle over every epsilon-DP algorithm, and what it refuses."""

import itertools
import math
from typing import Any, cast

import numpy as np
import pytest

from tests.bounds.test_enumeration import ACTIVITY, ACTIVITY_START, EVEN, TWINS, flips, random_chain
from tests.grids import each
from undertow.errors import InvalidInput
from undertow.testing.enumeration import (
    additive_noise_likelihood,
    adversaries,
    chain_joint,
    independent_releases,
    mechanism_leakage,
    product_channel_likelihood,
    pure_dp_adversary,
    pure_dp_leakage,
)

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
