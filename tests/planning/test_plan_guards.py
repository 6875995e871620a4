"""What a plan may not do, each with the question that would show it: one test for each slip."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import undertow as ut
from undertow.bounds.channels.quilts import quilt_search
from undertow.bounds.channels.wasserstein import Distance
from undertow.bounds.engine import leakage
from undertow.bounds.published import lange_constant, zhao_budget, zhao_constant
from undertow.certificate import Leakage
from undertow.errors import Infeasible, MethodRefused, NotSupported
from undertow.methods import METHODS
from undertow.planning import chains
from undertow.planning.budget import HEADROOM
from undertow.planning.groups import solve_group
from undertow.planning.questions import noise_way

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


def test_secrets_left_out_are_put_to_use():
    """The first record moves the count by less: the distance beats the exact leakage of all."""
    chain = ut.MarkovChain(P, length=400)
    best = ut.calibrate(ONE, chain, 1.0, "ignorant", secret=ut.Records([0]))
    assert best.method == "wasserstein"
    assert best.expected_error < ut.calibrate(ONE, chain, 1.0, "ignorant").expected_error * 0.8


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


@pytest.mark.parametrize(
    ("method", "constant"), [("lange", lange_constant), ("zhao", zhao_constant)]
)
def test_at_its_constant_a_published_method_is_infeasible(method, constant):
    least = constant(CHAIN)
    for epsilon in (least, least / 2):
        with pytest.raises(Infeasible) as refusal:
            ut.calibrate(ONE, CHAIN, epsilon, method=method)
        assert refusal.value.smallest == least
    assert scale(CHAIN, least + 0.5, "any", method) == pytest.approx(2.0, rel=1e-9)


def test_several_steps_pay_from_the_multistep_level():
    level = zhao_budget(CHAIN, 2.0)
    assert scale(CHAIN, 2.0, "any", "zhao-multistep") == pytest.approx(1 / level, rel=1e-12)


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

    changed = replace(METHODS["answer"]["lange"], solver=noise_way(daring, believed))
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

    changed = replace(METHODS["answer"]["group"], solver=noise_way(solve_group, hopeful))
    monkeypatch.setitem(METHODS["answer"], "group", changed)
    with pytest.raises(NotSupported, match="could not certify"):
        ut.calibrate(ONE, CHAIN, 1.0, method="group")


def test_quilts_that_prove_less_than_they_should_are_noticed(monkeypatch):
    """The leakage of the noise is computed anew, and more noise added until it is low enough."""
    search, calls = quilt_search, []

    def off_by(factor):
        def wrong(chain, form, score, *secrets):
            found = search(chain, form, score, *secrets)
            if not hasattr(score, "tau"):
                return found
            calls.append(score.tau)
            return replace(found, value=found.value * factor)

        return wrong

    monkeypatch.setattr(chains, "quilt_search", off_by(1 + HEADROOM + 1e-14))
    assert ut.calibrate(ONE, CHAIN, 2.0, method="quilt").leakage.upper <= 2.0
    assert len(calls) > 1
    assert calls == sorted(calls, reverse=True)
    chains.prove_quilt.forget()
    monkeypatch.setattr(chains, "quilt_search", off_by(1.01))
    with pytest.raises(NotSupported, match="could not certify"):
        ut.calibrate(ONE, CHAIN, 2.0, method="quilt")


def test_a_distance_that_is_not_settled_counts_with_its_upper_end(monkeypatch):
    """Up to a length at which all series can be listed; then the exact one is used."""
    monkeypatch.setattr(chains, "count_distance", lambda *_: Distance(3, 4))
    assert scale(CHAIN, 1.0, "ignorant", "wasserstein") == 4.0
    short = ut.MarkovChain(P, length=2)
    assert scale(short, 1.0, "ignorant", "wasserstein") == 2.0


def test_scales_of_distances_and_groups_are_rounded_up():
    for epsilon in np.random.default_rng(1).uniform(0.05, 8.0, 40).tolist():
        for method, moved in (("wasserstein", 5), ("group", 30)):
            found = Fraction(scale(CHAIN, epsilon, "ignorant", method))
            assert found * Fraction(epsilon) >= moved
            assert found * Fraction(epsilon) < moved * (1 + Fraction(1, 10**14))


def test_only_the_exact_leakage_is_called_exact(monkeypatch):
    real = leakage

    def rough(mechanism, model, against, **more):
        return replace(real(mechanism, model, against, **more), method="exchange")

    monkeypatch.setattr(chains, "leakage", rough)
    with pytest.raises(MethodRefused, match="'exact' cannot"):
        ut.calibrate(ONE, CHAIN, 1.0, method="exact")
