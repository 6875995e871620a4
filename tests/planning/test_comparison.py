"""One row per method: complete, in order, honest about whom it protects."""

import json
import math
from typing import Any

import pytest

import undertow as ut
from tests.facts import ACTIVITY
from tests.oracles.chains import counted, leakage, noisy_answer
from tests.oracles.tables import enumerated
from undertow.errors import Infeasible, InvalidInput, NotSupported, UnknownState
from undertow.mechanisms import TabulatedNoise
from undertow.methods import METHODS, methods_for
from undertow.secrets import Pairs, Records
from undertow.testing.enumeration import chain_joint

P = ACTIVITY["transition"]
STATES = ("inactive", "active")
OBSERVED = ut.MarkovChain(P, STATES, length=ACTIVITY["observed_length"])
ACTIVE = ut.Count("active")
SHORT = ut.MarkovChain(P, STATES, length=5)
JOINT = chain_joint(SHORT.initial, SHORT.transition, length=5)
WHO: tuple[Any, ...] = ("any", "ignorant", "informed")
IGNORANT = ("quilt-approx", "wasserstein", "influence-curve", "temporal")
compare: Any = ut.compare  # a row may lack its plan: `complete` says when
SAME = 1e-9  # relative: searches stop before that, and ties go to the method named first


@pytest.fixture(
    scope="module",
    params=[
        (12.0, "any"),
        (12.0, "ignorant"),
        pytest.param((1.0, "any"), marks=pytest.mark.soak),
        pytest.param((1.0, "ignorant"), marks=pytest.mark.soak),
    ],
    ids=str,
)
def observed(request):
    epsilon, who = request.param
    return compare(ACTIVE, OBSERVED, epsilon, against=who)


def complete(row):
    """Either a plan with everything that belongs to it, or the reason why there is none."""
    assert row.seconds >= 0
    assert math.isfinite(row.seconds)
    assert row.certified == METHODS["answer"][row.method].certified
    if row.plan is None:
        assert isinstance(row.reason, str)
        assert len(row.reason) > 10
        assert row.scale is None
        assert row.expected_error is None
        assert row.error_bar is None
        assert row.leakage is None
        assert not row.meets
        return
    assert row.reason is None
    assert row.plan.method == row.method
    if row.method == "optimal":
        assert row.scale is None
        assert isinstance(row.plan.mechanism, TabulatedNoise)
    else:
        assert row.scale == row.plan.mechanism.scale > 0
    assert row.expected_error == row.plan.expected_error > 0
    assert row.error_bar == row.plan.accuracy(0.05)
    assert row.error_bar >= 0
    assert row.leakage.lower <= row.leakage.upper


# --- the table ------------------------------------------------------------------------------------


def test_rows_are_complete_and_in_order(observed):
    assert [row.method for row in observed] == methods_for(OBSERVED)
    assert [row.method for row in observed.rows] == methods_for(OBSERVED)
    for row in observed:
        complete(row)
        assert observed[row.method] is row
    assert (observed.query, observed.model) == (ACTIVE, OBSERVED)
    with pytest.raises((KeyError, InvalidInput)):
        observed["guesswork"]


def test_rows_say_whom_they_protect(observed):
    asked = observed.against
    for row in observed:
        covered = row.method not in IGNORANT or asked == "ignorant"
        if row.plan is None:
            continue
        assert row.protects == (asked if covered else "ignorant")
        assert row.plan.against == row.protects
        assert row.leakage.against == asked
        assert row.meets == covered or not row.certified
        if row.certified:
            assert row.plan.leakage.upper <= observed.limit
        if row.meets:
            assert row.leakage.upper <= observed.limit


def test_every_row_is_the_plan_of_its_method(observed):
    for row in observed:
        if row.plan is not None:
            plan = ut.calibrate(
                ACTIVE, OBSERVED, observed.limit, against=row.protects, method=row.method
            )
            assert plan.mechanism == row.plan.mechanism


def test_the_best_row_is_what_calibrate_returns(observed):
    best = ut.calibrate(ACTIVE, OBSERVED, observed.limit, against=observed.against)
    assert observed.best.mechanism == best.mechanism
    assert observed.best.method == best.method
    assert observed[best.method].plan.mechanism == best.mechanism
    held = [row for row in observed if row.certified and row.meets]
    least = min(row.expected_error for row in held if row.method != "optimal")
    assert observed.best.expected_error <= least * (1 + SAME)


def test_the_table_is_ready_for_json(observed):
    written = json.loads(json.dumps(observed.to_dict(), allow_nan=False))
    assert [row["method"] for row in written["rows"]] == methods_for(OBSERVED)
    assert written["limit"] == observed.limit
    assert written["against"] == observed.against
    for row, told in zip(observed, written["rows"], strict=True):
        assert told["reason"] == row.reason
        assert told["basis"] == ("certified" if row.certified else "published")
        assert told["meets"] == row.meets
        assert told["scale"] == row.scale
        assert told["expected_error"] == row.expected_error


def test_the_table_in_plain_text(observed):
    text = str(observed)
    lines = text.splitlines()
    for row in observed:
        assert any(line.split()[:1] == [row.method] for line in lines), row.method
    assert text.isprintable() or "\n" in text
    assert "\x1b" not in text


def test_an_ignorant_row_is_not_the_guarantee_that_was_asked_for():
    table = compare(ACTIVE, OBSERVED, 1.0, methods=["quilt", *IGNORANT])
    for method in IGNORANT:
        row = table[method]
        assert (row.protects, row.meets) == ("ignorant", False)
        alone = ut.calibrate(ACTIVE, OBSERVED, 1.0, "ignorant", method=method)
        assert row.plan.mechanism == alone.mechanism
        assert row.leakage.against == "any"
    assert table["wasserstein"].scale < table["quilt"].scale
    assert table.best.method == "quilt"


def test_infeasible_rows_say_what_would_be_feasible():
    table = compare(ACTIVE, OBSERVED, 1.0, methods=["zhao", "lange"])
    assert {row.method for row in table} == {"lange", "zhao"}
    for row in table:
        with pytest.raises(Infeasible) as refusal:
            ut.calibrate(ACTIVE, OBSERVED, 1.0, method=row.method)
        assert row.reason == str(refusal.value)
    assert "8.04" in table["lange"].reason
    assert "10.6" in table["zhao"].reason
    assert table.best is None


def test_published_rows_never_are_the_best():
    table = compare(ACTIVE, OBSERVED, 20.0, methods=["lange", "zhao", "group"])
    assert table["lange"].scale < table["group"].scale
    assert table.best.method == "group"
    assert compare(ACTIVE, OBSERVED, 20.0, methods=["lange"]).best is None
    assert compare(ACTIVE, OBSERVED, 20.0, methods=["wasserstein"]).best is None


# --- honesty, by enumeration ----------------------------------------------------------------------


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 15.0])
def test_what_a_row_leaks_against_what_was_asked(epsilon, who):
    for row in compare(ACTIVE, SHORT, epsilon, against=who):
        complete(row)
        if row.plan is None:
            continue
        noise = row.plan.mechanism
        if row.scale is None:
            truth = enumerated(noise, JOINT, {1}, who)
        else:
            truth = leakage(JOINT, noisy_answer(2, 5, row.scale, counted((1,))), who)
        assert row.leakage.lower - 1e-9 <= truth <= row.leakage.upper + 1e-12
        if row.meets:
            assert truth <= epsilon + 1e-12


def test_secrets_are_handed_on():
    secret: Any = {"secret": Pairs([STATES], [0])}
    chain = ut.MarkovChain(P, STATES, length=60)
    table = compare(ACTIVE, chain, 1.0, against="ignorant", **secret)
    whole = compare(ACTIVE, chain, 1.0, against="ignorant")
    for row in table:
        complete(row)
        if row.plan is not None:
            plan = ut.calibrate(ACTIVE, chain, 1.0, "ignorant", method=row.method, **secret)
            assert row.plan.mechanism == plan.mechanism
            assert row.expected_error <= whole[row.method].expected_error * (1 + 1e-9)
    assert table["wasserstein"].scale == pytest.approx(3, rel=1e-9)
    assert table["quilt"].scale < whole["quilt"].scale


# --- other models and queries ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        ut.Groups(4),
        ut.MarkovChain(P, STATES),
        ut.MarkovChain([[1, 0], [0.3, 0.7]], STATES, start=[0.5, 0.5], length=30),
        ut.MarkovChain([P] * 8, STATES, start=[0.5, 0.5]),
        ut.ModelSet([SHORT, ut.MarkovChain([[0.6, 0.4], [0.5, 0.5]], STATES, length=5)]),
    ],
    ids=["groups", "any-length", "absorbing", "varying", "set"],
)
def test_a_method_that_does_not_apply_is_a_row_with_the_reason(model):
    values = dict(zip(STATES, (0, 1), strict=True)) if model.states else None
    for query in (ACTIVE, ut.Sum(0, 1, values)):
        table = compare(query, model, 1.0)
        assert [row.method for row in table] == methods_for(model)
        for row in table:
            complete(row)
            if row.plan is None and row.method not in IGNORANT:
                with pytest.raises(NotSupported):
                    ut.calibrate(query, model, 1.0, method=row.method)
        assert table.best.expected_error == ut.calibrate(query, model, 1.0).expected_error
        json.dumps(table.to_dict(), allow_nan=False)


# --- bad input ------------------------------------------------------------------------------------


def test_bad_questions_are_refused():
    with pytest.raises(InvalidInput, match="guesswork"):
        compare(ACTIVE, SHORT, 1.0, methods=["exact", "guesswork"])
    with pytest.raises(InvalidInput):
        compare(ACTIVE, SHORT, 0.0)
    with pytest.raises(InvalidInput):
        compare(ACTIVE, SHORT, 1.0, against="nobody")
    with pytest.raises(UnknownState):
        compare(ut.Count("asleep"), SHORT, 1.0)
    with pytest.raises(UnknownState):
        compare(ACTIVE, SHORT, 1.0, secret=Pairs([("active", "asleep")]))
    with pytest.raises(InvalidInput):
        compare(ACTIVE, SHORT, 1.0, secret=Records([5]))
