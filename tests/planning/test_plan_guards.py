"""What a plan may not do, each with the question that would show it: one test for each slip."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import undertow as ut
from undertow.certificate import Leakage
from undertow.errors import MethodRefused, NotSupported
from undertow.methods import METHODS
from undertow.planning.groups import solve_group
from undertow.planning.questions import noise_solver

P = [[0.882, 0.118], [0.305, 0.695]]
CHAIN = ut.MarkovChain(P, length=30)
LIVELY = ut.MarkovChain([[0.6, 0.4], [0.5, 0.5]], length=30)
ONE = ut.Count(1)


def scale(model, epsilon, who, method, **secrets):
    return ut.calibrate(ONE, model, epsilon, who, method=method, **secrets).mechanism.scale


# --- whom and what a plan covers ------------------------------------------------------------------


@pytest.mark.parametrize("known", [[10, 20], [14], []])
def test_one_attacker_needs_the_conditional_quilts(known):
    """Whoever knows something is not ignorant; the plan is the one against any."""
    who = ut.Adversary(15, known)
    whole = scale(CHAIN, 3.0, "any", "quilt")
    assert scale(CHAIN, 3.0, who, "quilt") == whole > scale(CHAIN, 3.0, "ignorant", "quilt") * 1.1
    assert scale(CHAIN, 3.0, "informed", "quilt") == whole


@pytest.mark.parametrize(
    "method", ["quilt", "quilt-approx", "wasserstein", "lange", "zhao-multistep"]
)
@pytest.mark.parametrize("order", [1, -1])
def test_a_set_is_as_bad_as_its_worst_chain_in_any_order(method, order):
    both = ut.ModelSet([CHAIN, LIVELY][::order])
    epsilon = 20.0 if method in ("lange", "zhao-multistep") else 1.0
    alone = [scale(chain, epsilon, "ignorant", method) for chain in (CHAIN, LIVELY)]
    assert scale(both, epsilon, "ignorant", method) == pytest.approx(max(alone), rel=1e-12)
    assert max(alone) > min(alone) * 1.01


def test_the_plan_says_when_a_chain_is_not_reversible():
    turning = ut.MarkovChain([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]], length=50)
    plan = ut.calibrate(ONE, turning, 2.0, "ignorant", method="quilt-approx")
    assert any("not reversible" in words for words in plan.leakage.assumptions)
    plan = ut.calibrate(ONE, CHAIN, 2.0, "ignorant", method="quilt-approx")
    assert not any("not reversible" in words for words in plan.leakage.assumptions)


def test_steps_that_differ_are_refused_for_that_reason():
    varying = ut.MarkovChain([P] * 8, start=[0.5, 0.5])
    with pytest.raises(MethodRefused, match="one for each step"):
        ut.calibrate(ONE, varying, 2.0, "ignorant", method="quilt-approx")


# --- published methods ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["lange", "zhao", "zhao-multistep"])
def test_a_published_plan_carries_our_leakage_not_its_claim(method):
    plan = ut.calibrate(ONE, CHAIN, 20.0, method=method)
    ours = ut.leakage(plan.mechanism, CHAIN)
    assert (plan.leakage.lower, plan.leakage.upper) == (ours.lower, ours.upper)
    assert plan.leakage.upper < plan.limit
    assert plan.leakage.method == "exact"


def test_no_published_plan_is_the_best_however_little_noise_it_adds(monkeypatch):
    def daring(question):
        return question.noise(1e-3)

    def believed(question, _):
        return Leakage(0.0, question.limit, "lange", "any")

    changed = replace(
        METHODS["answer"]["lange"], solvers={"laplace": noise_solver(daring, believed)}
    )
    monkeypatch.setitem(METHODS["answer"], "lange", changed)
    assert ut.calibrate(ut.Histogram(), CHAIN, 20.0, method="lange").mechanism.scale == 1e-3
    assert ut.calibrate(ut.Histogram(), CHAIN, 20.0).method == "exchange"
    best = ut.compare(ut.Histogram(), CHAIN, 20.0, methods=["lange", "group"]).best
    assert best is not None
    assert best.method == "group"


# --- guarantees -----------------------------------------------------------------------------------


def test_what_is_not_proved_is_not_guaranteed(monkeypatch):
    def hopeful(question, _):
        return Leakage(0.0, question.limit * 1.001, "group", "any")

    changed = replace(
        METHODS["answer"]["group"], solvers={"laplace": noise_solver(solve_group, hopeful)}
    )
    monkeypatch.setitem(METHODS["answer"], "group", changed)
    with pytest.raises(NotSupported, match="could not certify"):
        ut.calibrate(ONE, CHAIN, 1.0, method="group")


def test_scales_of_distances_and_groups_are_rounded_up():
    for epsilon in np.random.default_rng(1).uniform(0.05, 8.0, 40).tolist():
        for method, moved in (("wasserstein", 5), ("group", 30)):
            found = Fraction(scale(CHAIN, epsilon, "ignorant", method))
            assert found * Fraction(epsilon) >= moved
            assert found * Fraction(epsilon) < moved * (1 + Fraction(1, 10**14))
