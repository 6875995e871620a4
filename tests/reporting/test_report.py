"""A report says what was released and guaranteed, to people and programs."""

import dataclasses
import json
import re

import numpy as np
import pytest

import undertow as ut
from tests.reporting.pages import (
    CHAIN,
    COUNT,
    HISTOGRAM,
    IGNORANT,
    MEAN,
    PERSON,
    RECORDS,
    STATES,
    SUM,
    TEN,
    Page,
    grouped,
    told,
)
from undertow.accuracy import accuracy
from undertow.certificate import Witness
from undertow.errors import MethodRefused
from undertow.methods import METHODS
from undertow.releasing.request import Release
from undertow.reporting import words
from undertow.reporting.report import Report

# --- what it says ---------------------------------------------------------------------------------


def test_the_answer_its_error_bar_and_its_guarantee():
    out = ut.release(COUNT, RECORDS, source="a public diary study")
    text = " ".join(out.report().text().split())
    for said in (
        "Release report: number of records in 'active'",
        f"Answer {out.value} Error bar within {COUNT.accuracy(0.05):g} of the truth",
        "An attacker who knows any other records can raise the odds between any two values",
        "of one record by at most a factor 2.72",
        "equally likely before will think neither more than 73.2% likely afterwards",
        "one record: a single record of a person's series is protected",
        "none of them, some, or all, and their values",
        "records that depend on each other in another way than the model says",
        "which persons, times and groups have records, and how many",
        "the records follow the stated Markov chain",
        "Markov chain on 2 states, a stationary start, any length",
        "Origin a public diary study",
        COUNT.fingerprint(),
        "not accounted in a ledger",
        f"undertow {ut.__version__}, Python",
    ):
        assert said in text, said
    assert "10, of 1 person" in text
    assert "NOT PRIVATE" not in text


def test_where_the_model_came_from_is_not_made_up():
    assert "Origin              not stated" in told().text()
    assert json.loads(told().to_json())["model"]["source"] is None


def test_a_release_in_a_ledger_names_its_entry():
    text = grouped(COUNT, {"north": 7, "south": 9}).text()
    assert f"Ledger entry        {'e' * 64}" in text
    assert "Release             weeks" in text
    assert "Release             none" in told().text()


def test_seeded_noise_is_announced_before_everything_else():
    report = told(insecure_seed=7)
    warning = "NOT PRIVATE: the noise was drawn from insecure, seed 7"
    assert report.text().splitlines()[3] == warning
    page = report.html()
    assert page.index(warning) < page.index(">Release<")
    assert json.loads(report.to_json())["noise"]["private"] is False


def test_who_is_not_covered():
    said = words.not_covered(IGNORANT)[0]
    assert said.startswith("an attacker who knows some or all other records of the person")
    assert "nothing is guaranteed" in said
    assert said in " ".join(told(IGNORANT).text().split())
    informed = ut.calibrate(ut.Count("active"), TEN, 1.0, against="informed")
    assert "an attacker who knows fewer records" in words.not_covered(informed)[0]
    one = ut.calibrate(ut.Count("active"), TEN, 1.0, against=ut.Adversary(3, [1]))
    assert "another record" in words.not_covered(one)[0]
    assert words.covered(one) == "only an attacker who wants record 3 and knows 1"
    pairs = ut.calibrate(
        ut.Count("active"), TEN, 1.0, method="quilt", secret=ut.Pairs([STATES], [2, 3])
    )
    assert "other pairs" in words.not_covered(pairs)[0]
    assert "records other than" in words.not_covered(pairs)[1]


def test_a_person_is_the_unit_in_words():
    text = " ".join(told(PERSON).text().split())
    assert "one person: all records of a person at once are protected" in text
    assert "between any two histories of one person" in text
    assert "records of one person that depend on those of another" in text
    assert "knows any records of other persons" in text


def test_worst_attacks_are_told_in_runs():
    known = tuple((record, "active") for record in [*range(37), 62])
    witness = Witness(49, 63, known, "active", "idle")
    assert "knowing records 0 to 36 ('active') and 62 ('active')" in words.attack(witness)
    alone = Witness(0, 2, (), "active", "idle")
    assert "knowing no other record" in words.attack(alone)
    assert "knowing record 1 ('x')" in words.attack(Witness(0, 2, ((1, "x"),), "a", "b"))


# --- numbers --------------------------------------------------------------------------------------


def test_error_bars_hold_all_together():
    """With more numbers each bar is wider: all hold at once with probability 95%."""
    one = told(COUNT).facts.numbers[0].within
    many = grouped(COUNT, dict.fromkeys(range(20), 5)).facts.numbers
    assert {number.within for number in many} == {accuracy(COUNT.mechanism, 0.05, 20)}
    assert many[0].within > one
    bins = told(HISTOGRAM).facts.numbers
    assert {number.within for number in bins} == {HISTOGRAM.accuracy(0.05)}


def test_the_error_of_a_mean_shrinks_with_the_records_behind_it():
    """The plan is for 10 records: noise on a sum, so 40 records have a quarter of the error."""
    alone = told(MEAN).facts.numbers[0].within
    assert alone == pytest.approx(MEAN.accuracy(0.05))
    more = Report.of(Release(3.0, MEAN, "secure", 40, 4, "", None, None))
    assert more.facts.numbers[0].within == pytest.approx(alone / 4)
    uneven = grouped(MEAN, {"many": 3.0, "few": 4.0}, sizes=(38, 2)).facts.numbers
    assert uneven[1].within == pytest.approx(19 * uneven[0].within)
    assert uneven[1].within > 5 * alone


def test_digits_below_the_noise_are_not_shown():
    (number,) = told(SUM).facts.numbers
    assert re.fullmatch(r"-?\d+\.\d\d?", number.shown())
    assert isinstance(number.to_dict()["value"], float)
    assert len(repr(number.to_dict()["value"])) >= len(number.shown())


def test_rounding_is_accounted_for():
    assert words.rounding(ut.Sum(0, 10, steps=1000), 200) == (
        "each record is rounded to the nearest step of 0.01 before the noise is added; this moves "
        "the answer by at most 1"
    )
    assert "at most 0.005" in str(words.rounding(ut.Mean(0, 10, steps=1000), 200))
    assert words.rounding(ut.Count("active"), 200) is None
    linear = ut.Linear([2.0, -1.0], spread=2.0**23, lower=0.0)
    assert "at most 3" in str(words.rounding(linear, 2))
    assert "Rounding" in told(SUM).text()
    assert "Rounding" not in told(COUNT).text()


@pytest.mark.parametrize("seed", range(20))
def test_stated_rounding_is_never_exceeded(seed):
    """Whole steps against exact sums: Linear by 1.5 steps a record, Sum by half a step."""
    draw = np.random.default_rng(seed)
    free = ut.MultivariateGaussian(np.zeros(10), np.eye(10))  # of the readings themselves
    weights, values = draw.normal(size=10), draw.uniform(-1, 12, size=10)
    clipped = np.clip(values, 0, 10)
    linear = ut.Linear(weights, spread=10.0, lower=0.0)
    plan = ut.calibrate(linear, free, limit=1.0)
    zero = ut.release(plan, [0.0] * 10, insecure_seed=1).value
    moved = ut.release(plan, values.tolist(), insecure_seed=1).value - zero
    step = float(np.abs(weights).max()) * 10 / 2**24
    assert abs(moved - weights @ clipped) <= 15 * step
    coarse = ut.calibrate(ut.Sum(0, 10, steps=100), free, limit=1.0)
    zero = ut.release(coarse, [0.0] * 10, insecure_seed=1).value
    moved = ut.release(coarse, values.tolist(), insecure_seed=1).value - zero
    assert abs(moved - clipped.sum()) <= 10 * 0.1 / 2 + 1e-9


def test_groups_and_states_have_their_own_rows():
    values = {"north": {"idle": 3, "active": -2}, "south": {"idle": 0, "active": 12}}
    report = grouped(HISTOGRAM, values)
    numbers = json.loads(report.to_json())["numbers"]
    assert [(n["group"], n["state"], n["value"]) for n in numbers] == [
        ("north", "idle", 3), ("north", "active", -2), ("south", "idle", 0), ("south", "active", 12)
    ]  # fmt: skip
    assert re.search(
        r"\n  group  state   released  within\n  north  idle    3 +\d+\n", report.text()
    )
    page = Page(report.html())
    assert [c.get("scope") for c in page.all("th")][:8] == ["col"] * 4 + ["row"] * 4
    counts = json.loads(grouped(COUNT, {7: 3, None: 4}).to_json())["numbers"]
    assert [n.get("group") for n in counts] == [7, None]


# --- comparison -----------------------------------------------------------------------------------


def test_other_methods_are_calibrated_for_the_same_guarantee():
    rows = {row.method: row for row in told(MEAN).facts.alternatives}
    assert set(rows) == {MEAN.method, "group", "quilt", "lange", "zhao"}
    assert rows["group"].scale == ut.calibrate(MEAN.query, TEN, 1.0, method="group").mechanism.scale
    assert rows["lange"].scale is None
    assert "needs a limit above" in str(rows["lange"].reason)


def test_a_method_that_does_not_cover_the_attacker_is_refused(monkeypatch):
    quilt = METHODS["answer"]["quilt"]
    only = dataclasses.replace(
        quilt, scope=dataclasses.replace(quilt.scope, protects=("ignorant",))
    )
    monkeypatch.setitem(METHODS["answer"], "quilt", only)
    rows = {row.method: row for row in told(MEAN).facts.alternatives}
    assert "protects only against" in str(rows["quilt"].reason)


def test_persons_have_one_method():
    assert [row.method for row in told(PERSON).facts.alternatives] == ["group"]


def test_refused_methods_are_told_in_one_line():
    with pytest.raises(MethodRefused):
        ut.calibrate(ut.Count("active"), CHAIN, 1.0, method="group")
    assert "does not apply: 'group' multiplies" in told(COUNT).text()
