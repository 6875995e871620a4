"""Households with a probability in an interval: no value of it leaks more than is claimed."""

import numpy as np
import pytest

from tests.grids import each
from tests.oracles import networks as oracle
from undertow.adversaries import Adversary, Against
from undertow.bounds.networks import contagions
from undertow.bounds.networks.contagions import leakage as contagion_leakage
from undertow.bounds.networks.leakages import leakage as network_leakage
from undertow.mechanisms import Laplace, PureDP
from undertow.models.networks import Contagion
from undertow.queries import Count, Histogram

WHOM: list[Against] = ["any", "ignorant", "informed", Adversary(1, [0])]


@each(("passed", "against"), [(0.1, 0.5), (0.0, 0.9), (0.35, 0.36)], WHOM)
def test_no_probability_leaks_more(passed, against):
    flu = Contagion(3, 0.1, passed)
    leak = contagion_leakage(Laplace(Count("ill"), 1.0), flu, against)
    truths = [
        oracle.count_leakage(oracle.joint_of(flu.network(p)), [1], 1.0, against)
        for p in np.linspace(passed[0], passed[1], 41)
    ]
    assert max(truths) <= leak.upper
    assert leak.lower <= max(truths) + 1e-3
    assert leak.upper - leak.lower <= 2e-4 * max(1.0, leak.lower)


def test_a_drift_bounds_what_a_change_of_the_tables_does():
    """The bound of the module's docstring, with other networks in the place of the midpoint."""
    flu = Contagion(3, 0.2, (0.1, 0.6))
    noise = Laplace(Count("ill"), 0.7)
    for one, two in ((0.2, 0.21), (0.5, 0.4), (0.1, 0.6)):
        first, second = flu.network(one), flu.network(two)
        a, b = (network_leakage(noise, net).upper for net in (first, second))
        assert abs(a - b) <= 2 * contagions._drift(first, second)
        assert contagions._drift(first, second) > 0


def test_what_is_not_a_count_has_the_general_bound():
    flu = Contagion(3, 0.1, (0.1, 0.5))
    leak = contagion_leakage(PureDP(0.5), flu)
    assert leak.method == "group"
    assert 1.5 <= leak.upper <= 1.5 + 1e-12
    histogram = contagion_leakage(Laplace(Histogram(), 2.0), flu)
    assert histogram.method == "exact"
    assert histogram.closed or histogram.upper - histogram.lower < 1e-3


def test_impossible_ends_leave_the_general_bound():
    flu = Contagion(2, 0.0, (0.0, 1.0))  # at 0 nobody is ever ill
    assert contagion_leakage(Laplace(Count("ill"), 1.0), flu).upper == pytest.approx(2.0)


def test_one_probability_is_one_network():
    flu = Contagion(2, 0.1, (0.3, 0.3))
    noise = Laplace(Count("ill"), 1.0)
    assert contagion_leakage(noise, flu) == network_leakage(noise, flu.network(0.3))
