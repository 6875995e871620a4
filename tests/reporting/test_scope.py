"""Answers and reports say which records they are about, when they were drawn, what is proved."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.reporting.pages import CHAIN, COUNT, MEAN, PERSON, STATES, SUM, Page, told
from undertow.certificate import Witness
from undertow.models import ChainBox
from undertow.releasing.request import Release
from undertow.reporting import scope, words
from undertow.reporting.facts import SMALL, parameters
from undertow.reporting.report import Report, SeriesReport
from undertow.reporting.sections import SeriesFacts

MADE = "2026-11-16T10:00:00.25+00:00"
AGAIN = "this answer was drawn on 2026-11-16T10:00:00 and is given again; nothing was spent"


def made(plan=COUNT, value=7, **fields) -> Release:
    out = Release(value, plan, "secure", 40, 4, "week-1", "e" * 64, made=MADE)
    return dataclasses.replace(out, **fields)


def forms(release):
    """The text, the words of the page, and the JSON of a release's report."""
    report = Report.of(release)
    return " ".join(report.text().split()), Page(report.html()).text(), json.loads(report.to_json())


def test_window_groups_and_date_are_in_every_form():
    release = made(
        value={"day": 3, "night": 4}, groups=("day", "night"), sizes=(20, 20),
        window=("2025-01-06", "2025-01-13"),
    )  # fmt: skip
    text, page, said = forms(release)
    for shown in (text, page, str(release)):
        assert "from 2025-01-06 on and before 2025-01-13" in shown
        assert "2: day, night" in shown
        assert "2026-11-16T10:00:00 (UTC)" in shown
        assert "no: drawn for this release" in shown
        assert AGAIN not in shown
    assert said["window"] == ["2025-01-06", "2025-01-13"]
    assert said["groups"] == ["day", "night"]
    assert (said["made"], said["recorded_earlier"]) == (MADE, False)


def test_without_window_groups_and_date_that_is_said():
    text, page, said = forms(made(made=""))
    for shown in (text, page):
        assert "all times" in shown
        assert "none: one answer for all records" in shown
        assert "not recorded" in shown
    assert (said["window"], said["groups"], said["made"]) == (None, None, None)


def test_a_replay_says_so_before_anything_else():
    release = made(replayed=True)
    text, page, said = forms(release)
    assert text.index(AGAIN) < text.index("Release ------- Question")
    assert page.index(AGAIN) < page.index("Release Question")
    assert said["recorded_earlier"]
    assert AGAIN in str(release).splitlines()[1]
    assert scope.replay("") == "this answer was drawn earlier and is given again; nothing was spent"


def test_a_replay_is_the_first_report_but_for_the_notes():
    """Nothing else differs, so that a file written before a crash can be recognised."""
    first, again = made(), made(replayed=True)
    one, other = (json.loads(r.report().to_json()) for r in (first, again))
    assert {key for key in one if one[key] != other[key]} == {"recorded_earlier"}


@pytest.mark.parametrize(
    ("valid_for", "window", "said"),
    [
        ("series", None, "each whole series of any length, in one answer"),
        ("windows", None, "one window of each series of any length, in one answer"),
        ("windows", (0, 9), "this window of each series of any length, in one answer"),
        ("any", None, "any windows and groups of a series of any length, and series with gaps"),
    ],
)
def test_the_proof_of_the_release_is_the_one_that_is_told(valid_for, window, said):
    proof = dataclasses.replace(
        COUNT.leakage, valid_for=valid_for, upper=0.5, method="exchange", citation="a theorem",
        assumptions=("another one",), witness=None,
    )  # fmt: skip
    text, page, told_json = forms(made(proof=proof, window=window))
    for shown in (text, page):
        assert said in shown
        assert "factor 1.65 (leakage 0.5)" in shown
        assert "method 'exchange'; a theorem" in shown
        assert "another one" in shown
        assert "Worst known attack" not in shown
    guarantee = told_json["promise"]
    assert (guarantee["valid_for"], guarantee["proved_for"]) == (valid_for, said)
    assert (guarantee["leakage"][1], guarantee["method"]) == (0.5, "exchange")
    assert told_json["plan"] == COUNT.fingerprint()  # the plan stays what it is
    assert "of 10 records" in told(MEAN).text()


# --- the model ------------------------------------------------------------------------------------


def large(size=SMALL + 1):
    return ut.MarkovChain(np.full((size, size), 1 / size))


STEPS = ut.MarkovChain(np.array([CHAIN.transition] * 4), start=[0.5, 0.5], length=5)
BOX = ChainBox(CHAIN.transition - 0.05, CHAIN.transition + 0.05, STATES)


@pytest.mark.parametrize(
    ("model", "size", "printed"),
    [
        (large(), "a matrix of 7 x 7", 0),
        (large(SMALL), "a matrix of 6 x 6", 1),
        (STEPS, "a matrix of 2 x 2 for each of 4 steps", 0),
        (BOX, "a matrix of 2 x 2", 1),
        (ut.ModelSet([CHAIN, BOX]), "a matrix of 2 x 2", 2),
        (
            ut.ModelSet([CHAIN, ut.Groups(4)]),
            "a matrix of 2 x 2 and parameters that are no matrix",
            0,
        ),
        (ut.ModelSet([CHAIN] * 5), "the parameters of 5 models", 0),
        (ut.Groups(4), "parameters that are no matrix", 0),
    ],
)
def test_a_large_matrix_is_located_by_the_fingerprint_of_the_plan(model, size, printed):
    found = parameters(model)
    assert (found.size, len(found.matrices)) == (size, printed)
    values = SUM.query.values if model.states == STATES else None
    noise: Any = dataclasses.replace(SUM.noise, query=model.valued(ut.Sum(0, 10, values)))
    plan = dataclasses.replace(SUM, model=model, mechanism=noise)
    text = " ".join(made(plan).report().text().split())
    assert f"Parameters {size}, {'below' if printed else 'in the plan file'}" in text
    assert plan.fingerprint() in text


def test_a_box_has_both_ends():
    (matrix,) = parameters(BOX).matrices
    assert matrix.rows()[0] == ("idle", "0.85 to 0.95", "0.05 to 0.15")
    assert set(matrix.to_dict()) == {"transition_lower", "transition_upper"}


# --- attacks on series of any length --------------------------------------------------------------


def test_an_attack_on_a_model_of_any_length_is_a_pattern():
    witness = Witness(57, 72, (), "a", "b")
    pattern = "record 57 of a pattern of 72 records within a longer series"
    assert words.attack(witness, longer=True).startswith(f"an attacker who wants {pattern},")
    assert f"target {pattern}, nothing known" in witness.words(longer=True)
    assert "record 57 of 72," in witness.words()
    one = Witness(0, 1, (), "a", "b")
    assert "a pattern of 1 record within" in one.words(longer=True)
    assert "of a pattern of" in " ".join(told(COUNT).text().split())
    assert "of a pattern of" not in " ".join(told(MEAN).text().split())


# --- randomised series ----------------------------------------------------------------------------


def test_the_report_of_a_series_says_the_same():
    plan = ut.calibrate(ut.Series(), CHAIN, limit=2.0)
    facts = SeriesFacts(
        plan, rows=9, persons=1, made=MADE, replayed=True, window=(0, 48), groups=("a",)
    )
    report = SeriesReport(facts)
    text, said = " ".join(report.text().split()), json.loads(report.to_json())
    for shown in (text, Page(report.html()).text()):
        assert "from 0 on and before 48" in shown
        assert AGAIN in shown
        assert "Transition matrix" in shown
    assert (said["window"], said["groups"], said["recorded_earlier"]) == ([0, 48], ["a"], True)
    plain = SeriesReport(SeriesFacts(plan, rows=9, persons=1))
    assert "Note:" not in plain.text()


# --- print(release) -------------------------------------------------------------------------------


def test_a_release_prints_for_people():
    shown = str(made()).splitlines()
    assert shown[0] == "number of records in 'active'"
    assert shown[1].split()[:3] == ["answer", "7,", "within"]
    text = "\n".join(shown)
    for said in ("guarantee", "one record", "40, of 4 persons", "e" * 64):
        assert said in text
    assert "one person" in str(made(PERSON))
    assert "NOT PRIVATE" in str(made(randomness="insecure, seed 1"))
