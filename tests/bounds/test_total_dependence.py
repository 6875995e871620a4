"""Total losses: the sums over pairs, for chains, networks and Gaussian records."""

import numpy as np
import pytest

import undertow as ut
from tests.strategies import joint
from undertow.bounds.dependent import (
    chain_total,
    dependence_matrix,
    dependent_scale,
    dependent_sensitivity,
    fixed_point_scale,
    gaussian_coefficients,
    gaussian_total,
    network_total,
)
from undertow.models.networks import BayesianNetwork

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
