"""What was proved stays proved: the relation between the recorded baseline and the present code."""

import json
from typing import Any

import pytest

import undertow as ut
from tests.golden import baseline, cases, relation, replay
from tests.golden.relation import Change, wrong, wrong_interval, wrong_plan, wrong_witness
from undertow.certificate import Witness

RECORDED = baseline.read()
GROUPS = sorted({name.split(":")[0] for name, case in cases.CASES.items() if not case.soak})
SLOW = [name for name, case in cases.CASES.items() if case.soak]


def broken(names):
    """What the present answers break, by case."""
    found = {}
    for name in names:
        if words := list(wrong(RECORDED[name], cases.CASES[name].ask())):
            found[name] = words
    return found


def test_every_case_is_recorded():
    dropped = {key.removeprefix("case ") for key in relation.CHANGED if key.startswith("case ")}
    assert not [name for name in cases.CASES if name not in RECORDED]
    assert not [name for name in RECORDED if name not in cases.CASES and name not in dropped]


def test_every_change_has_a_reason():
    assert all(change.reason.strip() for change in relation.CHANGED.values())
    assert all(entry.get("reason", "first").strip() for entry in RECORDED.values())


@pytest.mark.parametrize("group", GROUPS)
def test_relation(group):
    names = [
        name for name, case in cases.CASES.items()
        if name.split(":")[0] == group and not case.soak
    ]  # fmt: skip
    assert not broken(names)


@pytest.mark.soak
@pytest.mark.parametrize("name", SLOW)
def test_slow_relation(name):
    assert not broken([name])


# --- the relation itself --------------------------------------------------------------------------

CLOSED, OPEN, UNKNOWN, ENDLESS = (2.0, 2.0 + 1e-10), (2.0, 2.5), (0.0, 2.5), (2.0, float("inf"))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (CLOSED, CLOSED), (CLOSED, (2.0, 2.0 + 1.9e-9)), (CLOSED, (1.9985, 2.0)),
        (OPEN, (2.2, 2.3)), (OPEN, (2.0, 2.549)), (OPEN, (1.951, 2.0)),
        (UNKNOWN, (0.0, 2.502)), (UNKNOWN, (0.0, 0.1)), (ENDLESS, (2.0, 9.0)), (ENDLESS, ENDLESS),
        ((0.0, 0.0), (0.0, 0.0)), ((2.0, 2.001), (2.0, 2.0025)),
    ],
)  # fmt: skip
def test_intervals_that_may_be(before, now):
    assert not list(wrong_interval(before, now))


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (CLOSED, (2.0, 2.0 * 1.01), "above"),
        (CLOSED, (2.0, 2.0 + 1e-8), "above"),
        (OPEN, (2.0, 2.56), "above"),
        (OPEN, ENDLESS, "above"),
        (UNKNOWN, (0.0, 2.5 * 1.002), "above"),  # a lower end of 0 says nothing of a width
        (CLOSED, (1.9, 1.999), "below 2.0, which is attained"),
        (OPEN, (2.6, 2.61), "which is proved"),
        (CLOSED, (0.0, 2.0), "more than 0.002 below"),
        (OPEN, (1.94, 2.5), "more than 0.05 below"),
        (OPEN, (2.4, 2.3), "empty"),
        (OPEN, (2.1, float("nan")), "empty"),
    ],
)
def test_intervals_that_may_not_be(before, now, words):
    assert words in " ".join(wrong_interval(before, now))


def plan(**changes):
    answer = {"noise": {"scale": 4.0, "error": 3.9}, "limit": 1.0, "lower": 0.9, "upper": 1.0}
    return {**answer, **changes}


def test_noise_may_grow_a_little():
    assert not list(wrong_plan(plan(), plan(noise={"scale": 4.007, "error": 3.8})))
    assert list(wrong_plan(plan(), plan(noise={"scale": 4.0 * 1.01, "error": 3.9})))
    assert list(wrong_plan(plan(), plan(noise={"scale": 4.0})))
    assert list(wrong_plan(plan(), plan(upper=1.0001)))
    assert list(wrong_plan(plan(), plan(lower=1.1)))
    assert list(wrong_plan(plan(), plan(limit=1.1)))
    published = plan(upper=3.0)  # a bound that proves nothing about the limit
    assert not list(wrong_plan(published, plan(upper=3.0)))
    assert list(wrong_plan(published, plan(upper=3.1)))


def test_a_witness_attains_its_lower_end():
    assert not list(wrong_witness(2.0, 2.5, 2.0 - 1e-10))
    assert not list(wrong_witness(0.0, 2.5, None))
    assert list(wrong_witness(2.0, 2.5, 1.99))
    assert list(wrong_witness(2.0, 2.5, 2.51))
    assert list(wrong_witness(2.0, 2.5, float("nan")))
    before = {"lower": 2.0, "upper": 2.5, "attained": True}
    lost = {"lower": 2.0, "upper": 2.5, "attained": None}
    assert "had a witness" in " ".join(wrong(before, lost))
    assert not list(wrong(before, {**lost, "attained": 2.0}))


def test_refusals_outputs_and_commands():
    refused = {"refused": "NotSupported"}
    assert not list(wrong(refused, refused))
    assert list(wrong(refused, {"lower": 0.0, "upper": 1.0, "attained": None}))
    assert list(wrong(refused, {"refused": "InvalidInput"}))
    renamed = {"error NotSupported": Change("Unsupported", "the field's word")}
    assert not list(wrong(refused, {"refused": "Unsupported"}, renamed))
    assert list(wrong({"output": [1, None]}, {"output": [1, 0]}))
    assert list(wrong({"budgets": {"epsilon": 0.5}}, {"budgets": {"epsilon": 0.49}}))
    assert not list(wrong({"budgets": {"epsilon": 0.5}}, {"budgets": {"epsilon": 0.51}}))
    fields = {"scale": 4.0, "covers": "any", "lower": 1.0, "upper": 2.0}
    before = {"exit": 0, "fields": fields}
    assert not list(wrong(before, before))
    assert list(wrong(before, {**before, "exit": 1}))
    for name, value in (("scale", 4.1), ("covers", "series"), ("upper", 2.2), ("upper", None)):
        assert list(wrong(before, {"exit": 0, "fields": {**fields, name: value}}))
    named = {"field covers": Change("valid_for", "renamed in the design")}
    now = {"exit": 0, "fields": {"scale": 4.0, "valid_for": "any", "lower": 1.0, "upper": 2.0}}
    assert list(wrong(before, now))
    assert not list(wrong(before, now, named))
    dropped = {"field covers": Change(None, "printed elsewhere")}
    assert not list(wrong(before, now, dropped))


def test_a_line_says_what_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(baseline, "PLACE", tmp_path / "baseline.jsonl")
    case = cases.Case("one", lambda: {"lower": 1.0, "upper": float("inf"), "attained": 1.0})
    baseline.write({"one": baseline.entry_of(case, "a better bound")})
    (line,) = baseline.PLACE.read_text("utf-8").splitlines()
    assert json.loads(line)["case"] == "one"
    entry = baseline.read()["one"]
    assert (entry["attained"], entry["reason"]) == (True, "a better bound")
    assert entry["upper"] == float("inf")
    assert entry["seconds"] >= 0


# --- the replay itself ----------------------------------------------------------------------------


def test_enumeration_and_messages_agree(monkeypatch):
    """The two ways to sum, on every kind of chain and mechanism that both can do."""
    names = [
        f"{model}: {noise}: any"
        for model in ("activity of 5", "order two of 6", "hidden regimes of 6", "steps")
        for noise in ("level", "count", "flips")
    ]
    names += ["activity of 5: xor: any", "periodic: table: any", "start elsewhere: erased: any"]
    once = [cases.CASES[name].ask()["attained"] for name in names]
    monkeypatch.setattr(replay, "ENUMERATED", 0)
    again = [cases.CASES[name].ask()["attained"] for name in names]
    assert again == pytest.approx(once, rel=1e-11)
    assert min(once) > 0.1


def test_a_wrong_witness_attains_less():
    chain, level = ut.MarkovChain(cases.P, length=30), ut.PureDP(0.7)
    leak = ut.leakage(level, chain)
    assert leak.witness is not None
    right = replay.replayed(leak.witness, level, chain)
    told = leak.witness.to_dict()
    assert right == pytest.approx(leak.lower, abs=1e-9)
    changes: list[dict[str, Any]] = [
        {"sets": told["sets"][:-1]}, {"value": told["other"], "other": told["value"]},
        {"known": []},
    ]  # fmt: skip
    for change in changes:
        other = replay.replayed(Witness.from_dict({**told, **change}), level, chain)
        assert list(wrong_witness(leak.lower, leak.upper, other))
