"""Reports: what is said, for whom, and at which delta."""

import dataclasses
import json
import re
from functools import cache
from typing import Any

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
from undertow.models import ChainBox
from undertow.releasing.request import Release
from undertow.reporting import scope, words
from undertow.reporting.facts import SMALL, parameters
from undertow.reporting.report import Report, SeriesReport
from undertow.reporting.sections import SeriesFacts

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


ASKED: dict[str, Any] = {"delta": 1e-6, "method": "closed"}


@cache
def count(noise="gaussian"):
    return ut.calibrate(ut.Count("active"), CHAIN, 1.0, noise=noise, **ASKED)


def said(plan, records=RECORDS):
    return " ".join(ut.release(plan, records).report().text().split())


def test_what_a_report_says_at_a_delta():
    text = said(count())
    for words_ in (
        "by more than a factor 5.44 with probability at most 2e-6 (leakage 1 at delta 1e-6)",
        "move by more than a factor 5.44 (that is 2 e^1) with probability at most 2e-6",
        "Each release mu",
        "of Gaussian DP for one replaced record, rho",
        ": a normal variable, drawn exactly, rounded to a whole number; drawn from the operating",
        "method 'closed'; Theorem 1",
        "exact: whole numbers, no floating-point trace",
        "closed (this release) Gaussian, sigma",
        "the records depend on each other as the model says",
    ):
        assert words_ in text, words_
    assert "lost" not in text
    assert "equally likely before" not in text


def test_which_noise_was_really_sampled():
    summed = ut.calibrate(
        ut.Sum(0, 10, {state: 3 * place for place, state in enumerate(CHAIN.states)}),
        CHAIN,
        1.0,
        noise="gaussian",
        **ASKED,
    )
    assert "discrete Gaussian noise, sigma" in said(count("discrete-gaussian"))
    assert "rho" in words.levels(count("discrete-gaussian"))
    assert "mu" not in words.levels(count("discrete-gaussian"))
    assert "rounded to a whole number of steps of the lattice" in said(
        summed, list(CHAIN.states) * 5
    )
    assert "exact, on a lattice" in said(summed, list(CHAIN.states) * 5)
    assert words.levels(COUNT) is None
    assert words.noise(COUNT).startswith("discrete Laplace noise, scale")


def test_json_and_page():
    report = ut.release(count(), RECORDS).report()
    found = json.loads(report.to_json())
    noise, promise = found["noise"], found["promise"]
    assert noise["sigma"] == count().noise.amount
    assert noise["scale"] is None
    assert promise["delta"] == 1e-6
    assert promise["mu"] == count().noise.mu_upper()
    assert promise["rho"] == count().noise.rho_upper()
    assert "2 e^1" in promise["odds"]
    assert promise["dp_level"] == "inf"
    assert found["comparison"][0]["sigma"] == count().noise.amount
    page = " ".join(" ".join(Page(report.html()).words).split())
    assert "a normal variable, drawn exactly, rounded to a whole number" in page
    assert "with probability at most 2e-6" in page


def test_data_of_another_shape_finds_the_closed_proof():
    ten = ut.MarkovChain(CHAIN.transition, CHAIN.states, length=10)
    plan = ut.calibrate(ut.Count("active"), ten, 1.0, noise="gaussian", **ASKED)
    assert ut.release(plan, RECORDS[:7]).proof.upper <= 1
    with pytest.raises(ut.errors.UndertowError, match="series have 20 records"):
        ut.release(plan, RECORDS * 2)
