"""Sets of models: the members that are not asked change nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import thinned
from undertow.bounds import engine as unions
from undertow.bounds.levels.classes import box_leakage, boxes_leakage, chain_ceilings
from undertow.certificate import worst

PART = st.floats(0.1, 0.9)


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


@settings(max_examples=8, deadline=None)
@given(PART, PART, st.sampled_from(CASES), st.sampled_from([0.02, 0.3, 2.0]))
def test_ceilings_are_above_and_near(a, b, case, level):
    length, against = case
    one = chain(a, b, length)
    (top,) = chain_ceilings(level, [one], against)
    exact = ut.leakage(ut.PureDP(level), one, against)
    assert top >= exact.lower
    if against != "informed":
        assert top <= exact.upper * (1 + 2e-3) + 2e-3 * level


def test_an_adversary_with_a_target_is_bounded_too():
    models = [chain(a, 0.3, 9) for a in (0.05, 0.1, 0.2, 0.4, 0.6)]
    for against in (ut.Adversary(4, (3,)), ut.Adversary(4, ())):
        every = worst([ut.leakage(ut.PureDP(0.5), one, against) for one in models])
        assert ut.leakage(ut.PureDP(0.5), ut.ModelSet(models), against).upper == every.upper


@pytest.mark.parametrize("level", [0.3, 1.5])
def test_boxes_searched_together_and_apart(level):
    drawn, boxes = np.random.default_rng(4), []
    for _ in range(5):
        (a, c), width = drawn.uniform(0.15, 0.6, 2), drawn.uniform(0, 0.04)
        b, d = a + width, c + width
        boxes.append(ut.MarkovChain.box([[1 - b, a], [c, 1 - d]], [[1 - a, b], [d, 1 - c]]))
    apart = [box_leakage(level, box) for box in boxes]
    joint = boxes_leakage(level, boxes)
    assert joint.upper == pytest.approx(max(leak.upper for leak in apart), rel=3e-3)
    assert joint.upper >= max(leak.lower for leak in apart)
    assert joint.lower >= max(leak.lower for leak in apart) * (1 - 3e-3)
    found = ut.leakage(ut.PureDP(level), ut.ModelSet(boxes))
    assert (found.upper, found.valid_for) == (joint.upper, "any")
    noisy = ut.leakage(ut.Laplace(ut.Count(1), 1 / level), ut.ModelSet(boxes))
    assert (noisy.lower, noisy.witness) == (0.0, None)
    assert noisy.upper == pytest.approx(joint.upper, rel=1e-9)


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


@pytest.mark.parametrize(
    ("many", "most"), thinned([pytest.param(200, 100), pytest.param(1000, 200)], keep=1)
)
def test_few_of_many_chains_are_asked(many, most, monkeypatch):
    drawn = np.random.default_rng(0)
    pairs = zip(drawn.uniform(0.05, 0.2, many), drawn.uniform(0.2, 0.5, many), strict=True)
    models = [chain(a, b) for a, b in pairs]
    asked = []
    real = unions.members_leakages

    def counted(mechanism, members, against, ask):
        def noted(member):
            asked.append(member)
            return ask(member)

        return real(mechanism, members, against, noted)

    monkeypatch.setattr("undertow.bounds.engine.members_leakages", counted)
    plan = ut.calibrate(ut.Count(1), ut.ModelSet(models), limit=1)
    assert len(asked) < most  # twenty times as many as there are chains otherwise
    weakest = min(models, key=lambda one: one.transition[0, 1] + one.transition[1, 0])
    alone = ut.calibrate(ut.Count(1), weakest, limit=1).mechanism.scale
    assert plan.mechanism.scale >= alone * (1 - 1e-6)  # as near as plans are searched
