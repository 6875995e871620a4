"""What long work says of itself, and the interval that an interrupt leaves."""

import math
from typing import Any

import numpy as np
import pytest

import undertow as ut
from undertow import progress
from undertow.bounds.engine import at_least, at_most

P = [[0.882, 0.118], [0.305, 0.695]]
THREE = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.1, 0.6]]
STAYS = [[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.05, 0.1, 0.85]]
WEAVES = [[0.235, 0.02, 0.745], [0.105, 0.02, 0.875], [0.505, 0.425, 0.07]]
TURNS = [[0.1, 0.9], [0.9, 0.1]]  # a count leaks less than the worst algorithm of its level


def interrupted(work, after):
    """Return what the work leaves if it is interrupted at a step, None if it ends before."""
    steps: list[str] = []

    def told(step):
        steps.append(str(step))
        if len(steps) > after:
            raise KeyboardInterrupt

    with progress.watching(told) as watch:
        try:
            work()
        except KeyboardInterrupt:
            return watch.reached(), steps
    return None, steps


QUESTIONS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "any": (ut.PureDP(0.5), ut.MarkovChain(THREE), {}),
    "ignorant": (ut.PureDP(0.5), ut.MarkovChain(THREE), {"against": "ignorant"}),
    "window": (ut.PureDP(0.5), ut.MarkovChain(THREE), {"secret": ut.Window(3)}),
    "start": (ut.PureDP(2.0), ut.MarkovChain(THREE, start=[0.2, 0.2, 0.6], length=30), {}),
    "steps": (ut.PureDP(1.0), ut.MarkovChain([THREE, THREE], start=[0.5, 0.5, 0]), {}),
    "zeros": (ut.PureDP(1.0), ut.MarkovChain([[0, 1], [0.5, 0.5]], length=9), {}),
    "count": (ut.Laplace(ut.Count(1), 0.5), ut.MarkovChain(WEAVES, length=12), {}),
    "stays": (ut.Laplace(ut.Count(1), 2.0), ut.MarkovChain(STAYS, length=8), {}),
    "turns": (ut.Laplace(ut.Count(1), 2.0), ut.MarkovChain(TURNS, length=6), {}),
    "histogram": (ut.Laplace(ut.Histogram(), 2.0), ut.MarkovChain(THREE, length=12), {}),
    "set": (ut.PureDP(1.0), ut.ModelSet([ut.MarkovChain(P), ut.MarkovChain(TURNS)]), {}),
    "delta": (ut.ApproximateDP(1.0, 1e-6), ut.MarkovChain(P, length=2), {"delta": 1e-5}),
    "groups": (ut.PureDP(0.5), ut.Groups(4), {}),
}


@pytest.mark.parametrize(("mechanism", "model", "more"), QUESTIONS.values(), ids=QUESTIONS)
def test_an_interrupted_leakage_leaves_an_interval_that_holds_it(mechanism, model, more):
    truth = ut.leakage(mechanism, model, **more)
    after, ends = 0, []
    while True:
        found, _ = interrupted(lambda: ut.leakage(mechanism, model, **more), after)
        if found is None:
            break
        ends.append(found)
        after += 1 + after // 3
    assert ends
    for lower, upper in ends:
        assert 0 <= lower <= truth.upper
        assert truth.lower <= upper


def test_a_set_keeps_what_its_members_have_attained():
    members = [ut.MarkovChain(np.roll(np.array(THREE), turn, (0, 1))) for turn in range(3)]
    model = ut.ModelSet(members)

    def told(step):
        if step.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), progress.watching(told) as watch:
        ut.leakage(ut.PureDP(1.0), model)
    lower, _ = watch.reached() or (None, None)
    assert lower == pytest.approx(ut.leakage(ut.PureDP(1.0), members[0]).lower, rel=1e-14)


def test_nothing_is_left_of_a_question_that_was_answered_or_refused():
    with progress.watching() as watch:
        ut.leakage(ut.PureDP(1.0), ut.MarkovChain(P))
        assert watch.reached() is None
        with pytest.raises(ut.errors.NotSupported):
            ut.leakage(ut.MetricDP(1.0), ut.Groups(4))
        assert watch.reached() is None


def test_ends_without_a_search_hold_the_leakage():
    generator = np.random.default_rng(18)
    for draw in range(12):
        size = 2 + draw % 3
        rows = generator.dirichlet(np.full(size, 0.7), size)
        chain = ut.MarkovChain(rows, length=(None, 6, 2)[draw % 3])
        for against in ("any", "ignorant", "informed"):
            for window in (1, 2):
                level = ut.PureDP((0.1, 1.0, 4.0)[draw % 3])
                truth = ut.leakage(level, chain, against, secret=ut.Window(window))
                assert at_most(level, chain, against, ut.Window(window)) >= truth.lower
                assert at_least(level, chain, against) <= truth.upper
        noise = ut.Laplace(ut.Count(1), 1.5)
        truth = ut.leakage(noise, chain)
        assert at_least(noise, chain, "any") <= truth.upper
        assert truth.lower <= at_most(noise, chain, "any") < math.inf


def test_steps_in_words():
    said: list[str] = []
    with progress.watching(lambda step: said.append(str(step))), progress.inside("one", 1, 2):
        progress.doing("two", 3)
    progress.doing("nobody hears this")
    assert said == ["one (1 of 2)", "one (1 of 2): two (3)"]
