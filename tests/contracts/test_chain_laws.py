"""Chains through the public API: laws, plans and the inverse."""

from typing import Any

import pytest
from hypothesis import assume
from hypothesis import strategies as st

import undertow as ut
from tests.contracts.chain_truths import (
    CLOSED,
    LAWS,
    NAMED,
    against_of,
    count_truth,
    slack,
)
from tests.contracts.chains import FAMILIES, POSITIVE, Example, adversary, example
from tests.grids import each, law
from undertow.testing.enumeration import (
    pure_dp_leakage,
)

# --- laws -----------------------------------------------------------------------------------------

seeds = st.integers(0, 10**6)
families = st.sampled_from(sorted(FAMILIES))
whos = st.sampled_from(NAMED)


@law(LAWS, 2, family=families, seed=seeds, k=st.sampled_from([2, 3, 4]), who=whos, data=st.data())
def test_relabelling_changes_nothing(family, seed, k, who, data):
    chain = example(family, k, 4, seed)
    order = data.draw(st.permutations(range(k)))
    turned = chain.relabelled(order)
    names = tuple("abcd"[:k])
    for mechanism, same, named in (
        (ut.PureDP(0.8), ut.PureDP(0.8), ut.PureDP(0.8)),
        tuple(ut.Laplace(ut.Count(s), scale=1.3) for s in (order[0], 0, names[order[0]])),
    ):
        leak = ut.leakage(mechanism, chain.model(), against=who)
        again = ut.leakage(same, turned.model(), against=who)
        called = ut.leakage(named, chain.model(names), against=who)
        assert again.lower == pytest.approx(leak.lower, abs=1e-9)
        assert again.upper == pytest.approx(leak.upper, abs=1e-9)
        assert (called.lower, called.upper) == (leak.lower, leak.upper)


@law(
    LAWS, 2,
    family=families, seed=seeds, k=st.sampled_from([2, 3, 4]), epsilon=st.floats(0.1, 3.0),
)  # fmt: skip
def test_any_is_the_worst_adversary(family, seed, k, epsilon):
    chain = example(family, k, 4, seed)
    for mechanism in (ut.PureDP(epsilon), ut.Laplace(ut.Count(0), scale=1 / epsilon)):
        worst = ut.leakage(mechanism, chain.model(), against="any")
        for who in ("informed", "ignorant", adversary(chain, seed), adversary(chain, seed + 1)):
            leak = ut.leakage(mechanism, chain.model(), against=against_of(who))
            assert leak.lower <= worst.upper + slack(worst.upper)
            assert leak.lower <= worst.lower + CLOSED


@law(
    LAWS,
    3,
    family=families,
    seed=seeds,
    k=st.sampled_from([2, 3]),
    epsilon=st.floats(0.1, 3.0),
    factor=st.floats(1.01, 3.0),
    who=whos,
)
def test_more_noise_never_leaks_more(family, seed, k, epsilon, factor, who):
    chain = example(family, k, 5, seed).model()
    for quiet, loud in (
        (ut.PureDP(epsilon), ut.PureDP(epsilon * factor)),
        tuple(ut.Laplace(ut.Count(0), scale=s / epsilon) for s in (factor, 1.0)),
        tuple(ut.DiscreteLaplace(ut.Count(0), scale=s / epsilon) for s in (factor, 1.0)),
    ):
        less, more = (ut.leakage(mechanism, chain, against=who) for mechanism in (quiet, loud))
        assert less.lower <= more.upper + slack(more.upper)
        assert less.lower <= more.lower + CLOSED
        assert less.upper <= more.upper + CLOSED


@law(
    LAWS, 2,
    family=st.sampled_from(POSITIVE), seed=seeds, k=st.sampled_from([2, 3, 4]), n=st.integers(2, 5),
)  # fmt: skip
def test_reversing_a_chain_mirrors_the_answer(family, seed, k, n):
    chain = example(family, k, n, seed)
    mirror = chain.reversed()
    if isinstance(chain.start, str):
        mirror = Example(family, mirror.transition[0], "stationary", n)
    target, known = adversary(chain, seed)
    pairs: list[tuple[Any, Any]] = [(who, who) for who in NAMED]
    flipped = (n - 1 - target, tuple(n - 1 - record for record in known))
    pairs.append((ut.Adversary(target, known), ut.Adversary(*flipped)))
    for mechanism in (ut.PureDP(0.9), ut.Laplace(ut.Count(0), scale=0.9)):
        for who, reflected in pairs:
            leak = ut.leakage(mechanism, chain.model(), against=who)
            again = ut.leakage(mechanism, mirror.model(), against=reflected)
            assert again.lower == pytest.approx(leak.lower, abs=1e-8)
            assert again.upper == pytest.approx(leak.upper, abs=1e-8)


# --- plans ----------------------------------------------------------------------------------------

METHODS = ("exact", "exchange", "group")


@each(
    (("family", "k", "n", "states"), "epsilon"),
    [
        ("generic", 2, 6, (1,)),
        ("negative", 2, 6, (0,)),
        ("sticky", 3, 5, (0, 2)),
        ("zeros", 3, 5, (1,)),
        ("varying", 3, 5, (2,)),
        ("point-mass", 4, 4, (0, 1)),
        ("absorbing", 2, 5, (1,)),
    ],
    [0.3, 1.0, 4.0],
)
def test_plans_keep_their_guarantee(family, k, n, states, epsilon):
    chain = example(family, k, n, seed=90)
    model, query = chain.model(), ut.Count(states)
    for who in ("any", "ignorant"):
        plans = []
        for method in METHODS:
            plan = ut.calibrate(query, model, limit=epsilon, against=who, method=method)
            assert plan.method == method
            assert plan.leakage.upper <= epsilon
            assert plan.leakage.proves(epsilon)
            truth = count_truth(chain, states, plan.mechanism.scale, who)
            assert truth <= epsilon + slack(epsilon)
            assert plan.dp_epsilon == pytest.approx(1 / plan.mechanism.scale, rel=1e-9)
            if method == "exact":  # and no more noise than that takes
                assert truth >= epsilon * (1 - 1e-6)
            if method == "group":
                assert plan.mechanism.scale == pytest.approx(n / epsilon, rel=1e-9)
            plans.append(plan)
        for missing in ("any", "none"):
            best = ut.calibrate(query, model, limit=epsilon, against=who, missing=missing)
            assert best.leakage.upper <= epsilon
            errors = [plan.expected_error for plan in plans if missing in (plan.missing, "none")]
            assert best.expected_error <= min(errors) * (1 + 1e-9)  # for a wider proof
            scale = getattr(best.mechanism, "scale", None)
            if scale is not None:
                truth = count_truth(chain, states, scale, who)
                assert truth <= epsilon + slack(epsilon)


@pytest.mark.parametrize("family", ["sticky", "zeros"])  # fmt: skip
def test_exchange_plans_keep_their_guarantee_for_any_algorithm(family):
    """A plan of method `exchange` uses nothing of the query but its DP level."""
    chain = example(family, 2, 4, seed=91)
    plan = ut.calibrate(ut.Count(1), chain.model(), limit=1.5, method="exchange")
    truth = pure_dp_leakage(chain.joint, plan.dp_epsilon).leakage
    assert truth <= 1.5 + slack(1.5)
    assert truth >= 1.5 * (1 - 1e-6)


# --- the inverse ----------------------------------------------------------------------------------


@each(
    (("family", "k", "n"), "epsilon", "who"),
    [("generic", 2, 4), ("negative", 2, 4), ("zeros", 3, 3), ("sticky", 3, 3)],
    [0.2, 1.0, 5.0], ["any", "ignorant"],
)  # fmt: skip
def test_budget_is_the_inverse_checked_by_the_program(family, k, n, epsilon, who):
    chain = example(family, k, n, seed=100)
    budget = ut.dp_budget(chain.model(), limit=epsilon, against=who)
    assert epsilon / n - slack(epsilon) <= budget <= epsilon
    truth = pure_dp_leakage(chain.joint, budget, who).leakage
    assert truth <= epsilon + slack(epsilon)
    assert truth >= epsilon * (1 - 1e-6)


@law(
    LAWS,
    3,
    family=families,
    seed=seeds,
    k=st.sampled_from([2, 3, 4]),
    epsilon=st.floats(0.05, 6.0),
    who=whos,
)
def test_budget_and_leakage_undo_each_other(family, seed, k, epsilon, who):
    model = example(family, k, 5, seed).model()
    leak = ut.leakage(ut.PureDP(epsilon), model, against=who)
    assume(leak.lower > 0)  # a settled target leaks nothing at any level
    budget = ut.dp_budget(model, limit=epsilon, against=who)
    spent = ut.leakage(ut.PureDP(budget), model, against=who)
    assert spent.upper <= epsilon
    assert spent.lower >= epsilon * (1 - 1e-6)
    assert ut.dp_budget(model, limit=leak.upper, against=who) >= epsilon * (1 - 1e-6)
