"""How many leakages a plan and a fit prove: one question is proved once."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import undertow as ut
from undertow.bounds.engine import solve
from undertow.diagnostics import persons

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
STEPS = [[0.8, 0.15, 0.05], [0.2, 0.6, 0.2], [0.05, 0.15, 0.8]]


def leakages(work: Callable[[], object]) -> int:
    """Count the problems that `undertow.bounds.engine.solve` solves while some work is done."""
    calls = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is solve.__code__

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("query", [ut.Count(1), ut.Histogram()], ids=["count", "histogram"])
@pytest.mark.parametrize("length", [None, 15264], ids=["endless", "long"])
def test_a_plan_on_the_activity_chain_proves_at_most_three_leakages(query, length):
    # a limit of its own, so that no other test left an answer behind
    chain = ut.MarkovChain(ACTIVITY, length=length)
    assert 0 < leakages(lambda: ut.calibrate(query, chain, limit=1.0203)) <= 3


def test_the_proof_of_a_plan_is_the_last_one_of_its_search():
    chain = ut.MarkovChain(STEPS)
    assert 0 < leakages(lambda: ut.calibrate(ut.Count(1), chain, 1.0207, method="exact")) <= 3
    assert 0 < leakages(lambda: ut.calibrate(ut.Count(1), chain, 1.0207, method="exchange")) <= 5


def test_the_budgets_of_persons_prove_no_leakage_that_is_not_printed():
    still, lively = ut.MarkovChain([[0.95, 0.05], [0.1, 0.9]]), ut.MarkovChain(ACTIVITY)
    series = [still.simulate(900, seed=1), *(lively.simulate(900, seed=n) for n in range(4))]
    fitted = ut.MarkovChain.fit(series, public=True)
    budgets = []
    assert leakages(lambda: budgets.append(persons(fitted, 1.0211))) <= 4
    [found] = budgets
    worst, fewest = found.worst, found.leaks
    chains = [ut.MarkovChain.fit([one], public=True, prior=0.5).point() for one in series]
    assert worst == pytest.approx(min(ut.dp_budget(c, 1.0211) for c in chains), rel=1e-6)
    leaks = [ut.leakage(ut.PureDP(found.pooled), chain).upper for chain in chains]
    assert max(leaks) <= fewest + 1e-12 <= max(leaks) + 1e-6
