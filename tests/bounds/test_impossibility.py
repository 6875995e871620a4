"""What no algorithm can do (section 4.2 of lange2024), against all finite algorithms at once.

The best finite algorithm is the solution of a linear program: answers on a grid, one probability
for each true answer and each given one, ratios at most e^epsilon, the least failure probability.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from undertow.testing.enumeration import mechanism_leakage
from undertow_papers.definitions import (
    failure_floor,
    free_lunch_law,
    free_lunch_level,
    impossible_alpha,
)

EPSILONS = pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 4.0])


def failures(table, truths, answers, alpha):
    """Pr[|answer - truth| >= alpha] for each true answer."""
    wrong = np.abs(np.subtract.outer(truths, answers)) >= alpha
    return (table * wrong).sum(axis=1)


def best_failure(truths, answers, alpha, epsilon):
    """The least beta of an epsilon-free-lunch private algorithm with these answers."""
    rows, columns = len(truths), len(answers)
    size = rows * columns
    limits = []
    for x, y in itertools.permutations(range(rows), 2):
        for s in range(columns):
            limit = np.zeros(size + 1)
            limit[x * columns + s], limit[y * columns + s] = 1.0, -math.exp(epsilon)
            limits.append(limit)
    wrong = np.abs(np.subtract.outer(truths, answers)) >= alpha
    sums = np.zeros((rows, size + 1))
    for x in range(rows):
        chosen = slice(x * columns, (x + 1) * columns)
        limit = np.zeros(size + 1)
        limit[chosen], limit[-1] = wrong[x], -1.0
        limits.append(limit)
        sums[x, chosen] = 1.0
    solve: Callable[..., Any] = linprog
    found = solve(
        np.eye(size + 1)[-1], A_ub=np.array(limits), b_ub=np.zeros(len(limits)),
        A_eq=sums, b_eq=np.ones(rows),
    )  # fmt: skip
    assert found.status == 0
    return found.fun


@EPSILONS
@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.5, 5.0])
def test_the_floor_is_the_best_there_is_for_two_answers(alpha, epsilon):
    """Theorem 4.6, and its tightness: answers on a grid that holds both and much between."""
    answers = np.linspace(-2.0, 12.0, 29)
    found = best_failure([0.0, 10.0], answers, alpha, epsilon)
    assert found == pytest.approx(failure_floor(epsilon), abs=1e-9)


@EPSILONS
def test_half_the_spread_is_where_the_impossible_ends(epsilon):
    """The least alpha with beta below the floor is above half the spread, and as near as wished."""
    answers = np.linspace(-2.0, 12.0, 29)
    beta = 0.5 * failure_floor(epsilon)
    edge = impossible_alpha(10.0, epsilon, beta)
    assert edge == 5.0
    assert best_failure([0.0, 10.0], answers, edge, epsilon) > beta
    constant = np.array([[1.0], [1.0]])  # always answers 5
    assert free_lunch_level(constant) == 0.0
    assert failures(constant, [0.0, 10.0], [5.0], edge + 1e-9).max() == 0.0


@EPSILONS
@pytest.mark.parametrize("records", [2, 3, 6])
def test_free_lunch_counts(records, epsilon):
    """Corollary 4.7: a count among n records, every data set hidden among all others."""
    counts = np.arange(records + 1.0)
    answers = np.linspace(0.0, records, 4 * records + 1)
    floor = failure_floor(epsilon)
    at_half = best_failure(counts, answers, records / 2, epsilon)
    assert at_half == pytest.approx(floor, abs=1e-9)
    for alpha in (records / 3, records / 4):
        assert best_failure(counts, answers, alpha, epsilon) >= floor - 1e-9
    assert best_failure(counts, answers, records / 2 + 0.1, epsilon) == pytest.approx(0, abs=1e-9)


@EPSILONS
def test_from_the_floor_on_the_theorem_is_silent_but_more_answers_stay_hard(epsilon):
    """Four answers told apart exactly: the best failure is 3 / (e^epsilon + 3)."""
    found = best_failure(np.arange(4.0), np.arange(4.0), 1.0, epsilon)
    assert found == pytest.approx(3 / (math.exp(epsilon) + 3), abs=1e-9)
    assert found > failure_floor(epsilon)
    assert impossible_alpha(3.0, epsilon, failure_floor(epsilon)) == 0.0


def extremes(records):
    """The law of Corollary 4.8 for a count: no record or every record counts."""
    law, deciding = free_lunch_law((0,) * records, (1,) * records)
    joint = np.zeros((2,) * records)
    for point, probability in law.items():
        joint[point] = probability
    return joint, deciding


@pytest.mark.parametrize("seed", range(20))
def test_bayesian_counts_fail_under_the_worst_law(seed):
    """Corollary 4.8: any algorithm, its level measured under the law, fails as often as stated."""
    rng = np.random.default_rng(seed)
    joint, _ = extremes(3)
    answers = np.linspace(0.0, 3.0, 7)
    sharp = rng.choice([1.0, 8.0])
    truth = np.indices((2, 2, 2)).sum(axis=0)[..., None]
    table = np.exp(-sharp * np.abs(answers - truth)) * rng.uniform(0.2, 1.0, (2, 2, 2, 7))
    table /= table.sum(axis=-1, keepdims=True)
    level = mechanism_leakage(joint, table).leakage
    both = np.stack([table[0, 0, 0], table[1, 1, 1]])
    for alpha in (0.1, 1.0, 1.5):
        assert failures(both, [0.0, 3.0], answers, alpha).max() >= failure_floor(level)


@EPSILONS
@pytest.mark.parametrize("records", [1, 3, 5])
def test_the_floor_is_reached_by_a_bayesian_count(records, epsilon):
    """Answer 0 or n, rightly with probability e^epsilon / (e^epsilon + 1): leaks just epsilon."""
    joint, deciding = extremes(records)
    wrong = failure_floor(epsilon)
    many = (np.indices(joint.shape).sum(axis=0) > records / 2)[..., None]
    table = np.where(many, [wrong, 1 - wrong], [1 - wrong, wrong])
    assert mechanism_leakage(joint, table).leakage == pytest.approx(epsilon, abs=1e-12)
    assert deciding == 0
    ends = np.stack([table[(0,) * records], table[(1,) * records]])
    found = failures(ends, [0.0, records], [0.0, records], records / 2)
    assert found == pytest.approx([wrong, wrong], abs=1e-15)
