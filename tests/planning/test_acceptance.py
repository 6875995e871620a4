"""A model whose checks failed is refused unless each is accepted, and every promise says so."""

import copy
import json
import math
from dataclasses import replace
from pickle import dumps, loads
from typing import Any

import pytest

import undertow as ut
from tests.accepting import broken
from undertow.errors import (
    FailedChecks,
    InvalidInput,
    InvalidPlan,
    LedgerConflict,
    UndertowError,
)
from undertow.models.fitting.checks import Check
from undertow.models.records import RecordDescription
from undertow.models.registry import model_from_dict, model_to_dict
from undertow.models.second_order import SecondOrderChain
from undertow.plan import checksum, doubts
from undertow.planning.calibrate import plan_at_level

STICKY = ut.MarkovChain([[0.95, 0.05], [0.05, 0.95]])
PLAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
LONGER = SecondOrderChain([[[0.7, 0.3], [0.4, 0.6]], [[0.6, 0.4], [0.3, 0.7]]])

ORDER = Check("order", "failed", "two records predict more", "public", STICKY)
MEMORY = Check("memory", "failed", "it is longer", "public")
TIME = Check("time", "passed", "no drift", "public")
HOURS = Check("hours", "not tested", "no clock", "public")


def price(plan: Any, name: str = "order") -> Any:
    """Return what a plan leaks under what a failed check suggests: both ends, or None."""
    return next(check.leakage for check in plan.checks if check.name == name)


def model(*checks):
    return PLAIN.with_checks(checks)


PRICED = model(ORDER, TIME, HOURS)
UNBOUNDED = model(ORDER, MEMORY, TIME)


@pytest.fixture(scope="module")
def fit():
    return ut.MarkovChain.fit(LONGER.simulate(4000, seed=2), public=True)


def test_every_failed_check_must_be_named_and_nothing_else():
    for accept in ((), ["memory"], ["same-records"]):
        with pytest.raises(FailedChecks, match="order") as refusal:
            ut.calibrate(ut.Count(1), UNBOUNDED, limit=1.0, accept=accept)
        assert isinstance(refusal.value, UndertowError)
        assert set(refusal.value.names) == {"order", "memory"} - {*accept}
    for accept in (["time"], ["hours"], ["order", "memory", "no such check"]):
        with pytest.raises(InvalidInput, match="'order' and 'memory' did"):
            ut.calibrate(ut.Count(1), UNBOUNDED, limit=1.0, accept=accept)
    with pytest.raises(InvalidInput, match="no check of this model did"):
        ut.calibrate(ut.Count(1), PLAIN, limit=1.0, accept=["order"])
    wrong: Any
    for wrong in ("order", 3, [3], None):
        with pytest.raises(InvalidInput, match="accept"):
            ut.calibrate(ut.Count(1), UNBOUNDED, limit=1.0, accept=wrong)
    plan = ut.calibrate(
        ut.Count(1), UNBOUNDED, limit=1.0, accept=["same-records", "memory", "order", "order"]
    )
    assert plan.accepted == ("order", "memory", "same-records")
    assert ut.calibrate(ut.Count(1), PLAIN, 1.0, accept=["same-records"]).accepted


@pytest.mark.parametrize(
    "query", [ut.Count(1), ut.Histogram(), ut.Transitions(), ut.Series(), ut.TopK(1)]
)
def test_no_question_is_planned(query):
    with pytest.raises(FailedChecks):
        ut.calibrate(query, UNBOUNDED, limit=2.0)
    assert ut.calibrate(query, UNBOUNDED, limit=2.0, accept=["order", "memory"]).accepted


def test_no_level_is_given_either(tmp_path):
    for ask in (
        lambda accept: ut.dp_budget(UNBOUNDED, 1.0, accept=accept),
        lambda accept: ut.dp_budget(UNBOUNDED, 1.0, delta=1e-6, accept=accept),
        lambda accept: plan_at_level(ut.Count(1), UNBOUNDED, 0.1, accept=accept),
        lambda accept: ut.Ledger(
            tmp_path / "a.db", "w", UNBOUNDED, 1.0, memory=False, accept=accept
        ),
    ):
        with pytest.raises(FailedChecks):
            ask(())
        with pytest.raises(InvalidInput, match="'time' did not fail"):
            ask(["order", "memory", "time"])
        assert not list(tmp_path.iterdir())
        assert ask(["order", "memory"])


def test_the_first_sentence_has_the_larger_number():
    plan = ut.calibrate(ut.Count(1), PRICED, limit=1.0, accept=["order"])
    leak = price(plan)
    assert leak[1] > plan.leakage.upper
    first = plan.guarantee()
    assert first.index(f"{math.exp(leak[1]):.2f}"[:3]) < first.index("2.72")
    assert "the check 'order' failed and was accepted" in first
    assert "'hours' was not tested" in first
    assert "not bounded" not in first
    # what the records suggest is no less than what the noise leaks under it
    assert ut.leakage(plan.mechanism, STICKY).lower <= leak[1]


def test_what_no_bound_is_known_for_is_said_first():
    plan = ut.calibrate(ut.Count(1), UNBOUNDED, limit=1.0, accept=["order", "memory"])
    first = plan.guarantee()
    assert first.startswith("not bounded")
    assert first.index("if the model were true") < first.index("2.72")
    assert "the checks 'order' and 'memory' failed and were accepted" in first


def test_an_attack_is_not_told_as_a_bound():
    """Of an alternative without a bound the sentence says what is attained, rounded down."""
    plan = ut.calibrate(ut.Count(1), PRICED, limit=1.0, accept=["order"])
    checks = [check.priced(2.34567, None) if check.leakage else check for check in plan.checks]
    first = replace(plan, checks=tuple(checks)).guarantee()
    assert first.startswith("not bounded")
    assert "attains a leakage of 2.3456" in first
    assert "factor 10.4" not in first


def test_two_failures_have_no_bound_together():
    """No alternative has all that several failed checks suggest: each bound is of one alone."""
    two = model(ORDER, replace(ORDER, name="time"))
    plan = ut.calibrate(ut.Count(1), two, limit=1.0, accept=["order", "time"])
    assert all(price(plan, name)[1] for name in ("order", "time"))
    assert plan.guarantee().startswith("not bounded")
    assert "26.5" in plan.guarantee()


def test_every_paper_begins_with_it(tmp_path):
    for fitted, says in ((PRICED, "under what the records suggest"), (UNBOUNDED, "not bounded")):
        plan = ut.calibrate(ut.Count(1), fitted, limit=1.0, accept=broken(fitted))
        first = plan.guarantee()
        assert first.startswith(says)
        out = ut.release(plan, [0, 1] * 50)
        report = out.report()
        pages = [str(plan), str(out), report.text(), report.html()]
        for page in pages:
            text = " ".join(page.replace("&#39;", "'").split()).lower()
            assert text.index(says) < text.index("2.72")
            assert "failed" in text[: text.index("2.72") + 200]
        told = json.loads(report.to_json())["promise"]
        assert told["words"] == plan.guarantee(*out.conditions)
        assert told["conditions"] == [*plan.conditions(), *out.conditions]


def test_a_passed_fit_and_a_model_by_hand_say_what_they_know():
    by_hand = ut.calibrate(ut.Count(1), PLAIN, limit=1.0)
    assert "the model was not checked against records" in by_hand.guarantee()
    passed = ut.calibrate(ut.Count(1), model(TIME, HOURS), limit=1.0)
    assert "'hours' was not tested" in passed.guarantee()
    assert "failed" not in passed.guarantee()


def test_persons_and_informed_attackers_do_not_depend_on_the_checks():
    fitted = ut.MarkovChain(PLAIN.transition, length=5).with_checks([MEMORY])
    plan = ut.calibrate(ut.Count(1), fitted, limit=1.0, secret=ut.Person())
    assert plan.guarantee().startswith("an attacker")
    plan.check_accepted()
    plan = ut.calibrate(ut.Count(1), UNBOUNDED, 1.0, "informed", accept=["order", "memory"])
    assert plan.guarantee().startswith("an attacker")
    assert "failed and were accepted" in plan.guarantee()


def test_nothing_is_released_from_a_plan_that_does_not_accept():
    table = ut.compare(ut.Count(1), UNBOUNDED, 1.0, methods=["exchange", "group"])
    bare = table["exchange"].plan
    accepted = ut.calibrate(ut.Count(1), UNBOUNDED, 1.0, accept=["order", "memory"])
    for plan in (bare, replace(accepted, accepted=("order",)), replace(accepted, checks=())):
        if plan.accepted == accepted.accepted:  # what was tested of the model is its own
            assert plan.checks == UNBOUNDED.checks
            continue
        for act in (
            lambda plan=plan: ut.release(plan, [0, 1] * 50),
            lambda plan=plan: plan.to_json(),
            lambda plan=plan: plan.fingerprint(),
        ):
            with pytest.raises(FailedChecks):
                act()
    flips = ut.calibrate(ut.Series(), UNBOUNDED, 2.0, accept=["order", "memory"])
    with pytest.raises(FailedChecks):
        ut.sanitize(replace(flips, accepted=()), [0, 1] * 50)
    with pytest.raises(FailedChecks):
        replace(flips, accepted=()).stream()
    table = ut.compare(
        ut.Count(1), UNBOUNDED, 1.0, methods=["exchange"], accept=["order", "memory"]
    )
    best: Any = table.best
    assert ut.release(best, [0, 1] * 50).plan.accepted == ("order", "memory")


def test_a_plan_file_without_acceptance_is_refused():
    plan = ut.calibrate(ut.Count(1), UNBOUNDED, 1.0, accept=["order", "memory"])
    again = ut.Plan.from_json(plan.to_json())
    assert again == plan
    with pytest.raises(FailedChecks):  # the model of a plan that was read keeps its checks
        ut.calibrate(ut.Count(1), again.model, 1.0)

    def edited(**changes):
        body = {**json.loads(plan.to_json()), **changes}
        del body["checksum"]
        return json.dumps({**body, "checksum": checksum(body)})

    for accepted in ([], ["order"]):
        with pytest.raises(FailedChecks):
            ut.Plan.from_json(edited(accepted=accepted))
    with pytest.raises(InvalidPlan, match="'time' did not fail"):
        ut.Plan.from_json(edited(accepted=["order", "memory", "time"]))


def test_leakage_compare_and_a_model_file_carry_it():
    assert doubts(UNBOUNDED.checks)[0] in ut.leakage(ut.PureDP(1.0), UNBOUNDED).assumptions
    assert not any(
        "failed" in said for said in ut.leakage(ut.PureDP(1.0), UNBOUNDED, "informed").assumptions
    )
    either = ut.ModelSet([PLAIN, UNBOUNDED])
    assert any("'order'" in one for one in ut.leakage(ut.PureDP(1.0), either).assumptions)
    table = ut.compare(ut.Count(1), PRICED, 1.0, methods=["exchange"])
    first = str(table).splitlines()[0]
    assert "'order' failed" in first
    assert "factor" in first
    assert table.to_dict()["conditions"] == list(table.conditions())
    again = model_from_dict(model_to_dict(UNBOUNDED))
    with pytest.raises(FailedChecks):
        ut.dp_budget(again, 1.0)


@pytest.mark.parametrize(
    "known",
    [
        PLAIN,
        ut.MarkovChain.box([[0.8, 0.05], [0.2, 0.5]], [[0.95, 0.2], [0.5, 0.8]]),
        ut.HiddenChain([[0.9, 0.1], [0.3, 0.7]], [0, 1]),
        SecondOrderChain([[[0.7, 0.3], [0.4, 0.6]], [[0.6, 0.4], [0.3, 0.7]]]),
        ut.ModelSet([PLAIN, STICKY]),
    ],
)
def test_a_model_for_longer_series_is_no_way_round(known):
    told = known.with_checks(UNBOUNDED.checks).with_records(RecordDescription(every="5m"))
    longer = told.endless()
    assert longer.checks == told.checks == UNBOUNDED.checks
    assert longer.records.every == told.with_checks(()).records.every == "5m"
    assert model_from_dict(model_to_dict(told)).records.every == "5m"
    with pytest.raises(FailedChecks):
        ut.dp_budget(longer, 1.0)


@pytest.mark.parametrize("known", [PLAIN, ut.ModelSet([PLAIN, STICKY]), ut.Groups(3)])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: loads(dumps(one))])
def test_a_copy_in_this_process_or_another_is_no_way_round(known, copied):
    told = known.with_checks(UNBOUNDED.checks).with_records(RecordDescription(every="5m"))
    other = copied(told)
    assert other == told
    assert other.checks == told.checks
    assert other.records == told.records


def test_the_checks_of_a_fit_travel_with_it(fit):
    assert loads(dumps(fit)).checks == fit.checks


def test_an_account_holds_what_was_accepted(tmp_path):
    where = tmp_path / "year.db"
    accept = ["order", "memory"]
    book = ut.Ledger(where, "w", UNBOUNDED, 1.0, memory=False, accept=accept)
    again = ut.Ledger(where, "w", memory=False)
    assert again.accepted == ("order", "memory")
    assert again.conditions()[0].startswith("not bounded")
    assert "the checks 'order' and 'memory' failed and were accepted" in again.conditions()
    assert {*again.conditions()} <= {*again.leakage().assumptions}
    assert again.verify() == 1
    assert ut.Ledger(where, "w", UNBOUNDED, memory=False).accepted == again.accepted
    with pytest.raises(LedgerConflict, match="accept"):
        ut.Ledger(where, "w", UNBOUNDED, memory=False, accept=["order"])
    plan = again.plan(ut.Count(1), 0.1)
    assert plan.accepted == book.accepted
    assert plan.guarantee().startswith("not bounded")
    ut.release(plan, [0, 1] * 50, ledger=again)
    assert again.entries()[0].about["accepted"] == accept
    stated = ut.release(plan_at_level(ut.Count(1), PLAIN, 0.1), [0, 1] * 60, ledger=again)
    assert "of the account: not bounded" in str(stated)
    plain = ut.Ledger(tmp_path / "plain.db", "w", PLAIN, 1.0, memory=False)
    with pytest.raises(LedgerConflict, match="the account does not"):
        ut.release(plan, [0, 1] * 50, ledger=plain)
    with pytest.raises(FailedChecks):
        ut.Ledger(tmp_path / "plain.db", "w", UNBOUNDED, memory=False)
