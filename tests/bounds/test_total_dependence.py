"""Total losses: the sums over pairs, for chains, networks and Gaussian records."""

import numpy as np
import pytest

import undertow as ut
from tests.strategies import joint
from undertow.bounds import dependent as total_dependence
from undertow.bounds.dependent import (
    chain_total,
    dependence_matrix,
    dependent_scale,
    dependent_sensitivity,
    fixed_point_scale,
    gaussian_coefficients,
    gaussian_total,
    level_coefficient,
    network_total,
)
from undertow.models.networks import BayesianNetwork

ROWS = [[0.882, 0.118], [0.305, 0.695]]
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


@pytest.mark.parametrize(
    ("query", "spans"),
    [
        (ut.Histogram(), [2.0] * 4),
        (ut.Sum(0, 5), [5.0] * 4),
        (ut.Mean(0, 8), [2.0] * 4),
        (ut.Query(max, sensitivity=3.0), [3.0] * 4),
        (ut.Linear([1.0, -2.0, 0.5, 3.0], spread=2.0), [2.0, 4.0, 1.0, 6.0]),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("kind", ["stationary", "varying"])
def test_other_queries_count_as_the_worst_of_their_level(query, spans, kind):
    chain = random_chain(4, 3, 4, kind)
    table, scale, worst = joint(chain, 4), 1.7, 0.0
    for i in range(4):
        total = spans[i] / scale
        for j in set(range(4)) - {i}:
            pair = table.sum(axis=tuple(set(range(4)) - {i, j}))
            level = spans[j] / scale
            total += level_coefficient(pair if i < j else pair.T, level) * level
        worst = max(worst, total)
    assert chain_total(chain, query)(scale) == pytest.approx(worst, rel=1e-11)


def test_neighbours_on_a_chain_follow_the_powers_of_its_matrix():
    """Records t apart: P^t, and backwards, with the stationary law, the same for two states."""
    chain = ut.MarkovChain(ROWS)
    expected = 1.0
    for steps in range(1, 200):
        stays = [0.721040189125 + 0.278959810875 * 0.577**steps,
                 0.278959810875 + 0.721040189125 * 0.577**steps]  # fmt: skip
        pair = [[stays[0], 1 - stays[0]], [1 - stays[1], stays[1]]]
        seen = np.array(pair) @ np.exp(-np.abs([[0, 1], [1, 0]]))
        forward = np.abs(np.log(seen[0] / seen[1])).max()
        expected += 2 * forward
    assert chain_total(chain, ut.Count(1))(1.0) == pytest.approx(expected, rel=1e-9)


def test_a_chain_that_never_forgets_counts_in_full(monkeypatch):
    monkeypatch.setattr(total_dependence, "MAX_STEPS", 8)
    swap = ut.MarkovChain([[0, 1], [1, 0]], length=30)
    assert chain_total(swap, ut.Count(1))(1.0) == pytest.approx(30.0)
    slow = ut.MarkovChain([[0.99, 0.01], [0.01, 0.99]], length=30)
    cut = chain_total(slow, ut.Count(1))(1.0)
    monkeypatch.setattr(total_dependence, "MAX_STEPS", 4096)
    assert chain_total(slow, ut.Count(1))(1.0) < cut < 30.0


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
