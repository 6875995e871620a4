"""Budgets and plans: reference numbers, the inverse property, refusals."""

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.facts import ACTIVITY, half_unit
from tests.grids import law, pairwise
from undertow.errors import (
    InvalidInput,
    MethodRefused,
    NothingToProtect,
    NotSupported,
    UnknownState,
)
from undertow.methods import METHODS

P = ACTIVITY["transition"]
CHAIN = ut.MarkovChain(P, states=("inactive", "active"))
OBSERVED = ut.MarkovChain(P, ("inactive", "active"), length=ACTIVITY["observed_length"])
ACTIVE = ut.Count("active")
LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=25)


# --- reference numbers ----------------------------------------------------------------------------


@pairwise(("who", "row", "model"), ["any", "ignorant"], ACTIVITY["scale"], [CHAIN, OBSERVED])
def test_activity_scales(who, row, model):
    """To the printed digits (and 1e-10 for what the search leaves)."""
    plan = ut.calibrate(ACTIVE, model, row["epsilon"], who, method="exact")
    assert plan.mechanism.scale == pytest.approx(float(row[who]), abs=half_unit(row[who]) + 1e-10)
    assert plan.leakage.upper <= row["epsilon"]
    assert plan.leakage.lower >= row["epsilon"] * (1 - 1e-8)
    assert (plan.method, plan.leakage.method, plan.against) == ("exact", "exact", who)


def test_the_budget_of_the_activity_chain():
    budget = ut.dp_budget(CHAIN, limit=1.0)
    assert budget == pytest.approx(ACTIVITY["dp_budget_epsilon_1"], abs=5e-5)
    assert 1 / budget == pytest.approx(3.994794182, abs=5e-9)


# --- laws -----------------------------------------------------------------------------------------

shares = st.integers(1, 16).map(lambda part: part / 20)
wanted = st.floats(0.02, 12.0)


@law(
    LAWS,
    5,
    q=shares,
    r=shares,
    epsilon=wanted,
    who=st.sampled_from(["any", "ignorant"]),
    length=st.none() | st.integers(2, 40),
)
def test_a_budget_is_spent_whole_and_no_more(q, r, epsilon, who, length):
    chain = ut.MarkovChain([[1 - q, q], [r, 1 - r]], length=length)
    budget = ut.dp_budget(chain, epsilon, against=who)
    assert 0 < budget <= epsilon
    assert ut.leakage(ut.PureDP(budget), chain, against=who).upper <= epsilon
    assert ut.leakage(ut.PureDP(budget * (1 + 1e-8)), chain, against=who).upper > epsilon


@law(
    LAWS, 4,
    q=shares, r=shares, epsilon=wanted, who=st.sampled_from(["any", "ignorant"]),
    length=st.none() | st.integers(2, 12),
)  # fmt: skip
def test_a_plan_is_no_noisier_than_it_must_be(q, r, epsilon, who, length):
    chain = ut.MarkovChain([[1 - q, q], [r, 1 - r]], length=length)
    plan = ut.calibrate(ut.Count(1), chain, epsilon, who, method="exact")
    assert ut.leakage(plan.mechanism, chain, against=who).upper == plan.leakage.upper <= epsilon
    quieter = ut.DiscreteLaplace(ut.Count(1), plan.mechanism.scale * (1 - 1e-8))
    assert ut.leakage(quieter, chain, against=who).upper > epsilon


@law(LAWS, 4, q=shares, r=shares, epsilon=st.floats(0.05, 6.0), length=st.integers(2, 8))
def test_best_is_the_best(q, r, epsilon, length):
    chain = ut.MarkovChain([[1 - q, q], [r, 1 - r]], length=length)
    known = [
        method for method in METHODS["answer"].values() if method.pure and method.best == "always"
    ]
    certified = [
        method.name for method in known if method.certified and "any" in method.scope.protects
    ]
    plans = [ut.calibrate(ut.Count(1), chain, epsilon, method=method) for method in certified]
    best = ut.calibrate(ut.Count(1), chain, epsilon)
    least = min(plan.expected_error for plan in plans)
    assert least <= best.expected_error <= least * (1 + 1e-9)
    assert best.method in certified
    assert [plan.method for plan in plans] == certified


def test_more_epsilon_needs_less_noise():
    scales = [ut.calibrate(ACTIVE, CHAIN, eps).mechanism.scale for eps in (0.1, 0.5, 1, 4, 20)]
    assert all(more > less for more, less in itertools.pairwise(scales))


@pytest.mark.parametrize("epsilon", [1e-6, 300.0])
def test_extreme_epsilons_are_answered(epsilon):
    plan = ut.calibrate(ACTIVE, CHAIN, epsilon)
    assert epsilon * (1 - 1e-6) <= plan.leakage.upper <= epsilon


# --- queries other than counts --------------------------------------------------------------------


def ends(lower, upper):
    """Return values of the two states that are as far apart as a range allows."""
    return dict(zip(OBSERVED.states, (lower, upper), strict=True))


def test_other_queries_go_through_their_sensitivity():
    budget = ut.dp_budget(OBSERVED, 1.0)
    for query, sensitivity in (
        (ut.Histogram(), 2.0),
        (ut.Linear([1.0] * 15264, 5.0, -1.0, ends(-1, 4)), 5.0),
        (ut.Query(len, sensitivity=3.0), 3.0),
    ):
        plan = ut.calibrate(query, OBSERVED, 1.0)
        assert plan.method == "exchange"
        assert plan.mechanism.scale == pytest.approx(sensitivity / budget, rel=1e-9)
        assert plan.leakage.upper <= 1.0
        assert isinstance(plan.mechanism, ut.DiscreteLaplace) == isinstance(query, ut.Histogram)
        with pytest.raises(MethodRefused, match=r"'exact' (knows counts|enumerates)"):
            ut.calibrate(query, OBSERVED, 1.0, method="exact")
    short = ut.MarkovChain(P, length=2)
    weighted = ut.calibrate(ut.Linear(np.array([1.0, -2.0]), spread=3.0), short, 1.0)
    assert weighted.dp_epsilon == pytest.approx(ut.dp_budget(short, 1.0), rel=1e-9)


def test_the_informed_attacker_is_plain_differential_privacy():
    assert ut.dp_budget(CHAIN, 1.5, against="informed") == pytest.approx(1.5, rel=1e-9)
    plan = ut.calibrate(ACTIVE, CHAIN, 1.5, against="informed")
    assert plan.mechanism.scale == pytest.approx(1 / 1.5, rel=1e-9)


def test_an_explicit_attacker_needs_no_more_noise_than_any():
    one = ut.calibrate(ACTIVE, CHAIN, 1.0, against=ut.Adversary(5, [3]))
    assert one.leakage.upper <= 1.0
    assert one.mechanism.scale <= ut.calibrate(ACTIVE, CHAIN, 1.0).mechanism.scale * (1 + 1e-9)


# --- other models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 4, 100])
def test_groups(size):
    groups = ut.Groups(size)
    plan = ut.calibrate(ACTIVE, groups, 2.0)
    assert plan.mechanism.scale == pytest.approx(size / 2.0, rel=1e-12)
    assert plan.mechanism.scale >= size / 2.0
    assert plan.leakage.upper <= 2.0
    assert ut.dp_budget(groups, 2.0) == pytest.approx(2.0 / size, rel=1e-9)
    assert ut.leakage(ut.PureDP(0.5), groups).upper == pytest.approx(0.5 * size, rel=1e-12)
    assert ut.leakage(ut.PureDP(0.5), groups).upper >= 0.5 * size
    assert ut.dp_budget(groups, 2.0, against="informed") == pytest.approx(2.0, rel=1e-9)
    with pytest.raises(MethodRefused, match="'exact' has nothing to say about"):
        ut.calibrate(ACTIVE, groups, 2.0, method="exact")


def test_a_set_is_as_bad_as_its_worst_member():
    lively = ut.MarkovChain([[0.6, 0.4], [0.5, 0.5]], ("inactive", "active"))
    for members in ([CHAIN, lively], [lively, CHAIN]):
        both = ut.ModelSet(members)
        assert ut.dp_budget(both, 1.0) == pytest.approx(ut.dp_budget(CHAIN, 1.0), rel=1e-9)
        plan = ut.calibrate(ACTIVE, both, 1.0)
        assert plan.mechanism.scale == pytest.approx(3.994794182, abs=5e-9)
        for member in members:
            assert ut.leakage(plan.mechanism, member).proves(1.0)
    alone = ut.calibrate(ACTIVE, lively, 1.0)
    assert alone.mechanism.scale < 3.9


def test_sets_may_hold_groups():
    chain = ut.MarkovChain(P, ("inactive", "active"), length=3)
    for size, expected in ((2, None), (7, 7.0)):
        both = ut.ModelSet([chain, ut.Groups(size)])
        plan = ut.calibrate(ACTIVE, both, 1.0)
        assert ut.leakage(plan.mechanism, both).proves(1.0)
        if expected is not None:
            assert plan.mechanism.scale == pytest.approx(expected, rel=1e-9)
        group = ut.calibrate(ACTIVE, both, 1.0, method="group")
        assert group.mechanism.scale == pytest.approx(max(size, 3), rel=1e-9)


def test_sets_inside_sets_are_protected_too():
    chain = ut.MarkovChain(P, ("inactive", "active"), length=5)
    nested = ut.ModelSet([ut.ModelSet([ut.Groups(10)]), chain])
    plan = ut.calibrate(ACTIVE, nested, 1.0)
    assert ut.leakage(plan.mechanism, nested).proves(1.0)


def test_persons_need_no_exchange():
    person = ut.leakage(ut.PureDP(0.7, unit="person"), CHAIN)
    assert (person.lower, person.upper, person.method) == (0.7, 0.7, "person")
    assert "different persons are independent" in person.assumptions
    assert ut.leakage(ut.PureDP(0.7), CHAIN).lower > 2
    for model in (ut.Groups(9), ut.ModelSet([CHAIN, ut.Groups(9)])):
        assert ut.leakage(ut.PureDP(0.7, unit="person"), model).upper == 0.7


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["quilts", "EXACT", "", None])
def test_unknown_methods_are_refused(method):
    with pytest.raises(InvalidInput, match=r"methods for an answer are exact, exchange, .*, best"):
        ut.calibrate(ACTIVE, CHAIN, 1.0, method=method)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, None])
def test_bad_levels_are_refused(epsilon):
    with pytest.raises(InvalidInput, match="limit must be"):
        ut.calibrate(ACTIVE, CHAIN, epsilon)
    with pytest.raises(InvalidInput, match="limit must be"):
        ut.dp_budget(CHAIN, epsilon)


def test_wrong_arguments_are_refused():
    word: Any = "active"
    with pytest.raises(InvalidInput, match="first argument must be a query"):
        ut.calibrate(word, CHAIN, 1.0)
    with pytest.raises(InvalidInput, match="second argument must be a model"):
        ut.calibrate(ACTIVE, word, 1.0)
    with pytest.raises(InvalidInput, match="must be a model"):
        ut.dp_budget(word, 1.0)
    with pytest.raises(InvalidInput, match="must be a mechanism"):
        ut.leakage(word, CHAIN)


def test_unknown_states_are_refused():
    with pytest.raises(UnknownState, match="no state 'asleep'"):
        ut.calibrate(ut.Count("asleep"), CHAIN, 1.0)
    nested = ut.ModelSet([ut.Groups(2), ut.ModelSet([CHAIN])])
    with pytest.raises(UnknownState, match="no state 'asleep'"):
        ut.calibrate(ut.Count("asleep"), nested, 1.0)


def test_weights_must_fit_the_records():
    with pytest.raises(InvalidInput, match="2 weights do not fit 3 records"):
        ut.calibrate(ut.Linear(np.array([1.0, 2.0]), spread=1), ut.MarkovChain(P, length=3), 1.0)


def test_a_mean_of_any_number_of_records_is_refused():
    with pytest.raises(InvalidInput, match="give the model a length"):
        ut.calibrate(ut.Mean(0, 1, ends(0, 1)), CHAIN, 1.0)


def test_the_group_method_needs_a_length():
    with pytest.raises(MethodRefused, match="give the chain a length"):
        ut.calibrate(ACTIVE, CHAIN, 1.0, method="group")


FROZEN = [[1.0, 0.0], [0.0, 1.0]]


def test_a_diverging_chain_is_refused_with_the_way_out():
    endless = ut.MarkovChain(FROZEN, ("inactive", "active"), start=[0.5, 0.5])
    with pytest.raises(NotSupported, match="give the chain a length"):
        ut.dp_budget(endless, 1.0)
    with pytest.raises(NotSupported, match="give the chain a length"):
        ut.calibrate(ACTIVE, endless, 1.0)
    finite = ut.MarkovChain(FROZEN, ("inactive", "active"), start=[0.5, 0.5], length=50)
    assert ut.dp_budget(finite, 1.0) == pytest.approx(1 / 50, rel=1e-9)
    assert ut.calibrate(ACTIVE, finite, 1.0).mechanism.scale == pytest.approx(50, rel=1e-9)


@pytest.mark.parametrize("length", [5, None])
def test_nothing_to_protect_is_said_so(length):
    """Every record of an alternating series with a known start is certain."""
    certain = ut.MarkovChain([[0, 1], [1, 0]], start=[1, 0], length=length)
    assert ut.leakage(ut.PureDP(1.0), certain).upper == 0.0
    assert ut.dp_budget(certain, 1.0) == math.inf
    for method in ("best", "exact", "exchange"):
        with pytest.raises(NothingToProtect, match="nothing can leak"):
            ut.calibrate(ut.Count(1), certain, 1.0, method=method)


HIDDEN = ut.HiddenChain([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.2, 0.7]], (0, 0, 1))
ZEROS = ut.HiddenChain([[0.3, 0.7, 0.0], [0.3, 0.4, 0.3], [0.2, 0.1, 0.7]], (0, 0, 1))
PAIR = ut.MultivariateGaussian([0, 0], [[1, 0.5], [0.5, 1]], spread=4)
BOX = ut.MarkovChain.box([[0.8, 0.1], [0.2, 0.6]], [[0.9, 0.2], [0.4, 0.8]])


@pytest.mark.parametrize(
    ("model", "query", "asked", "first"),
    [
        (ZEROS, ut.Count(1), {"secret": ut.Window(3)}, "exchange: bounds against whoever knows"),
        (ZEROS, ut.Count(1), {}, "exchange: no upper end of the leakage is known"),
        (BOX, ut.Count(1), {"limit": 1e-9}, "exchange: no DP level keeps the leakage below"),
        (PAIR, ut.Sum(0, 1), {"secret": ut.Window(2)}, "exchange, group: a window is of records"),
        (HIDDEN, ut.Redacted(protect=3, length=9), {"against": "ignorant"}, "optimal, mq, 3r-"),
    ],
)  # fmt: skip
def test_a_refusal_of_all_methods_is_short_and_names_each(model, query, asked, first):
    """The reason that stands first sends nobody to a method that refuses as well."""
    with pytest.raises(NotSupported) as refusal:
        ut.calibrate(query, model, **{"limit": 1.0, **asked})
    said = str(refusal.value)
    assert len(said) <= 400
    assert said.startswith(f"no method can keep this guarantee. {first}")
    reason = said.partition("; compare(...) says why not")[0]
    named = set(re.findall(r"method='([\w-]+)'", reason.partition(";")[0]))
    assert not named
    for name in ("exchange", "group") if query.task == "answer" else ("optimal", "mq"):
        assert name in said


def test_releases_are_counted_up_to_a_milliard():
    with pytest.raises(InvalidInput, match="releases must be at most 1000000000"):
        ut.calibrate(ut.Count(1), ut.Groups(2), limit=1.0, releases=10**400)
    with pytest.raises(InvalidInput, match="is to be protected, but the series has 9") as refusal:
        ut.Redacted(protect=10**400, length=9)
    assert len(str(refusal.value)) < 200
