"""Sets of models: the members that are not asked change nothing."""

import numpy as np
import pytest

import undertow as ut
from undertow.certificate import worst


def chain(a, b, length=None):
    return ut.MarkovChain([[1 - a, a], [b, 1 - b]], length=length)


CASES = ((None, "any"), (7, "any"), (None, "ignorant"), (7, "informed"))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mechanism", [ut.PureDP(0.02), ut.PureDP(0.3), ut.Laplace(ut.Count(1), 2)])
def test_the_worst_of_those_asked_is_the_worst_of_all(case, mechanism):
    length, against = case
    drawn = np.random.default_rng(len(str(case)))
    models = [chain(a, b, length) for a, b in drawn.uniform(0.15, 0.85, (5, 2))]
    every = worst([ut.leakage(mechanism, one, against) for one in models])
    found = ut.leakage(mechanism, ut.ModelSet(models), against)
    assert found.upper == every.upper
    assert found.lower <= every.upper
    assert found.lower >= every.lower - 1e-9 * max(1.0, every.upper)


def test_an_adversary_with_a_target_is_bounded_too():
    models = [chain(a, 0.3, 9) for a in (0.05, 0.1, 0.2, 0.4, 0.6)]
    for against in (ut.Adversary(4, (3,)), ut.Adversary(4, ())):
        every = worst([ut.leakage(ut.PureDP(0.5), one, against) for one in models])
        assert ut.leakage(ut.PureDP(0.5), ut.ModelSet(models), against).upper == every.upper


def test_mixed_sets_ask_the_rest_one_by_one():
    box = ut.MarkovChain.box([[0.8, 0.05], [0.2, 0.5]], [[0.95, 0.2], [0.5, 0.8]])
    started = ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]], start=[1.0, 0.0])
    models = [box, started, *(chain(a, 0.3) for a in (0.1, 0.2, 0.3)), ut.Groups(3)]
    every = worst([ut.leakage(ut.PureDP(0.4), one) for one in models])
    found = ut.leakage(ut.PureDP(0.4), ut.ModelSet(models, "mixed"))
    assert found.upper == every.upper
    assert found.assumptions[:2] == ("one of the 6 models of the set is true", "mixed")
    person = ut.leakage(ut.PureDP(0.4, unit="person"), ut.ModelSet(models))
    assert person.upper == 0.4
