"""A report says what was released and promised, to people and programs, and nothing else."""

import dataclasses
import errno
import json
import math
import os
import re
import time
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import undertow as ut
from undertow.accuracy import accuracy
from undertow.errors import InvalidInput, MethodRefused
from undertow.figures.numbers import Estimate, released_figure
from undertow.planning.methods import METHODS
from undertow.releasing import Release
from undertow.reporting import facts as facts_module
from undertow.reporting import words
from undertow.reporting.files import check_writable, strict_json, write_whole
from undertow.reporting.report import Report

STATES = ("idle", "active")
P = [[0.9, 0.1], [0.3, 0.7]]
CHAIN = ut.MarkovChain(P, states=STATES)
TEN = ut.MarkovChain(P, states=STATES, length=10)
COUNT = ut.calibrate(ut.Count("active"), CHAIN, epsilon=1.0)
IGNORANT = ut.calibrate(ut.Count("active"), TEN, epsilon=1.0, against="ignorant")
HISTOGRAM = ut.calibrate(ut.Histogram(), CHAIN, epsilon=1.0)
SUM = ut.calibrate(ut.Sum(0, 10), CHAIN, epsilon=1.0)
MEAN = ut.calibrate(ut.Mean(0, 10), TEN, epsilon=1.0)
LINEAR = ut.calibrate(ut.Linear(np.ones(10), spread=10.0, lower=0.0), TEN, epsilon=1.0)
PERSON = ut.calibrate(ut.Count("active"), TEN, epsilon=1.0, unit="person")
PLANS = {
    "count": COUNT, "ignorant": IGNORANT, "histogram": HISTOGRAM, "sum": SUM, "mean": MEAN,
    "linear": LINEAR, "person": PERSON,
}  # fmt: skip
RECORDS = ["idle", "active"] * 5
VOID = {"meta", "line", "path", "circle"}
ALIKE: list[list[Any]] = [
    ["active"] * 10,
    ["idle"] * 10,
    [None] * 10,
    [3.5] * 10,
    [[], {}, math.nan, "canary-5d1e", b"", 1, 2.5, object(), 1e300, "active"],
]


def told(plan=COUNT, records=RECORDS, **options) -> Report:
    return ut.release(plan, records, **options).report()


def grouped(plan, values, **fields) -> Report:
    """The report of a release per group; values are made up."""
    source, groups = "a diary study", tuple(values)
    sizes = (40 // len(groups),) * len(groups)
    out = Release(values, plan, "secure", 40, 4, "weeks", "e" * 64, source, groups, sizes)
    return Report.of(dataclasses.replace(out, **fields))


class Page(HTMLParser):
    """What stands in a page; fails on tags that are not closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), "an attribute is given twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def text(self):
        return " ".join(" ".join(self.words).split())


# --- what it says ---------------------------------------------------------------------------------


def test_the_answer_its_error_bar_and_its_promise():
    out = ut.release(COUNT, RECORDS, source="a public diary study")
    text = " ".join(out.report().text().split())
    for said in (
        "Release report: number of records in 'active'",
        f"Answer {out.value} Error bar within {COUNT.accuracy(0.05):g} of the truth",
        "An attacker who knows any other records can raise the odds between any two values",
        "of one record by at most a factor 2.72",
        "equally likely before can hold one of them to be at most 73.2% likely afterwards",
        "one record: a single record of a person's series is protected",
        "none of them, some, or all, and their values",
        "records that depend on each other in another way than the model says",
        "which persons, times and groups have records, and how many",
        "the records follow the stated Markov chain",
        "Markov chain on 2 states, a stationary start, any length",
        "Where it came from a public diary study",
        COUNT.fingerprint(),
        "not accounted in a ledger",
        f"undertow {ut.__version__}, Python",
        "opendp",
    ):
        assert said in text, said
    assert "10, of 1 person" in text
    assert "NOT PRIVATE" not in text


def test_no_line_of_the_text_is_wider_than_a_page():
    for plan in PLANS.values():
        for line in told(plan, [1.0] * 10).text().splitlines():
            assert len(line) <= 100, line


def test_where_the_model_came_from_is_not_made_up():
    assert "Where it came from  not stated" in told().text()
    assert json.loads(told().to_json())["model"]["source"] is None


def test_a_release_in_a_ledger_names_its_entry():
    text = grouped(COUNT, {"north": 7, "south": 9}).text()
    assert f"Ledger entry        {'e' * 64}" in text
    assert "Release             weeks" in text
    assert "has no id" in told().text()


def test_seeded_noise_is_announced_before_everything_else():
    report = told(insecure_seed=7)
    warning = "NOT PRIVATE: the noise was drawn from insecure, seed 7"
    assert report.text().splitlines()[3] == warning
    page = report.html()
    assert page.index(warning) < page.index("What was released")
    assert json.loads(report.to_json())["noise"]["private"] is False


def test_who_is_not_covered():
    said = words.not_covered(IGNORANT)[0]
    assert said.startswith("an attacker who knows some or all other records of the person")
    assert "nothing is promised" in said
    assert said in " ".join(told(IGNORANT).text().split())
    informed = ut.calibrate(ut.Count("active"), TEN, 1.0, against="informed")
    assert "an attacker who knows fewer records" in words.not_covered(informed)[0]
    one = ut.calibrate(ut.Count("active"), TEN, 1.0, against=ut.Adversary(3, [1]))
    assert "another record" in words.not_covered(one)[0]
    assert words.covered(one) == "only an attacker who wants record 3 and knows 1"
    pairs = ut.calibrate(
        ut.Count("active"), TEN, 1.0, method="quilt", pairs=[STATES], protect=[2, 3]
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
    witness = ut.Witness(49, 63, known, "active", "idle")
    assert "knowing records 0 to 36 ('active') and 62 ('active')" in words.attack(witness)
    alone = ut.Witness(0, 2, (), "active", "idle")
    assert "knowing no other record" in words.attack(alone)
    assert "knowing record 1 ('x')" in words.attack(ut.Witness(0, 2, ((1, "x"),), "a", "b"))


def test_huge_and_infinite_leakages_have_words():
    large = ut.calibrate(ut.Count("active"), TEN, epsilon=800, method="group")
    assert "odds of one to one can become 10^348 to one" in " ".join(told(large).text().split())
    leak = dataclasses.replace(COUNT.leakage, upper=math.inf)
    endless = told(dataclasses.replace(COUNT, leakage=leak))
    assert "may become certain" in endless.text()
    said = json.loads(endless.to_json())
    assert said["promise"]["leakage"][1] == "inf"
    assert said["plan"] is None  # it cannot be written to a file
    assert "has no fingerprint" in endless.text()


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
    (number,) = told(SUM, [math.pi] * 10).facts.numbers
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
    assert "Rounding" in told(SUM, [1.0] * 10).text()
    assert "Rounding" not in told(COUNT).text()


@pytest.mark.parametrize("seed", range(20))
def test_stated_rounding_is_never_exceeded(seed):
    """Whole steps against exact sums: Linear by 1.5 steps a record, Sum by half a step."""
    draw = np.random.default_rng(seed)
    weights, values = draw.normal(size=10), draw.uniform(-1, 12, size=10)
    clipped = np.clip(values, 0, 10)
    linear = ut.Linear(weights, spread=10.0, lower=0.0)
    plan = ut.calibrate(linear, TEN, epsilon=1.0)
    zero = ut.release(plan, [0.0] * 10, insecure_seed=1).value
    moved = ut.release(plan, values.tolist(), insecure_seed=1).value - zero
    step = float(np.abs(weights).max()) * 10 / 2**24
    assert abs(moved - weights @ clipped) <= 15 * step
    coarse = ut.calibrate(ut.Sum(0, 10, steps=100), CHAIN, epsilon=1.0)
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


def test_other_methods_are_calibrated_for_the_same_promise():
    rows = {row.method: row for row in told(MEAN).facts.alternatives}
    assert set(rows) == {MEAN.method, "group", "quilt", "lange", "zhao"}
    assert (
        rows["group"].scale
        == ut.calibrate(ut.Mean(0, 10), TEN, 1.0, method="group").mechanism.scale
    )
    assert rows["lange"].scale is None
    assert "needs an epsilon above" in str(rows["lange"].reason)


def test_a_method_that_does_not_cover_the_attacker_is_refused(monkeypatch):
    only = dataclasses.replace(METHODS["quilt"], protects=("ignorant",))
    monkeypatch.setitem(METHODS, "quilt", only)
    rows = {row.method: row for row in told(MEAN).facts.alternatives}
    assert "protects only against" in str(rows["quilt"].reason)


def test_persons_have_one_method():
    assert [row.method for row in told(PERSON).facts.alternatives] == ["group"]


def slow_chains():
    draw = np.random.default_rng(3)
    matrix = draw.dirichlet(np.ones(12), 12) + 2 * np.eye(12)
    matrix /= matrix.sum(axis=1, keepdims=True)
    sticky = [[0.999, 0.001], [0.002, 0.998]]
    steps = np.array([P, [[0.5, 0.5], [0.2, 0.8]]] * 150)[:299]
    return {
        "twelve states": ut.MarkovChain(matrix),
        "long": ut.MarkovChain(matrix, length=100_000),
        "sticky": ut.MarkovChain(sticky),
        "not stationary": ut.MarkovChain(sticky, start=[1.0, 0.0], length=1000),
        "changing": ut.MarkovChain(steps, start=[0.5, 0.5], length=300),
        "almost periodic": ut.MarkovChain([[0.0005, 0.9995], [0.9995, 0.0005]]),
        "many": ut.ModelSet([ut.MarkovChain(P), ut.MarkovChain(sticky)]),
    }


@pytest.mark.parametrize("name", slow_chains())
def test_a_report_takes_under_two_seconds(name):
    """On models where some leakages and quilts take a minute: a report computes none of them."""
    model = slow_chains()[name]
    leak = ut.Leakage(0.0, 1.0, "exchange", "any")
    plan = ut.Plan(ut.DiscreteLaplace(ut.Count(1), 9.0), model, 1.0, leak, "exchange")
    begun = time.perf_counter()
    report = Release(17, plan, "secure", 9, 1, "").report()
    assert report.html()
    assert report.text()
    assert report.to_json()
    assert time.perf_counter() - begun < 2.0


def test_quilts_that_take_long_are_left_out_and_said_to_be():
    rows = {}
    for name, model in slow_chains().items():
        plan = dataclasses.replace(COUNT, model=model, mechanism=ut.DiscreteLaplace(ut.Count(1), 9))
        rows[name] = next(r for r in facts_module._alternatives(plan) if r.method == "quilt")
    assert {name for name, row in rows.items() if row.scale is None} == {
        "sticky", "not stationary", "changing", "almost periodic", "many",
    }  # fmt: skip
    assert "'undertow compare'" in str(rows["sticky"].reason)


# --- nothing but the released numbers -------------------------------------------------------------


def masked(report: Report) -> tuple[str, str, str]:
    """The three forms of a report, the released numbers taken out; the figure apart."""
    numbers = report.facts.numbers
    page, text = report.html(), report.text()
    figure = page[page.index("<svg") : page.index("</svg>") + 6]
    estimates = [Estimate(n.label(), n.value, n.within, n.shown()) for n in numbers]
    assert figure == released_figure(estimates)  # of the released numbers, and nothing else
    page = page.replace(figure, "")
    for number in numbers:
        assert page.count(number.shown()) == text.count(number.shown()) == 1
        page, text = page.replace(number.shown(), "#"), text.replace(number.shown(), "#")
    said = json.loads(report.to_json())
    for number in said["numbers"]:
        number["value"] = 0
    return re.sub(" +", " ", text), page, json.dumps(said)


def loud(plan):
    """The plan with so much noise that a released number stands nowhere else by chance."""
    scale = plan.mechanism.scale * 2.0**20
    return dataclasses.replace(plan, mechanism=type(plan.mechanism)(plan.query, scale))


@pytest.mark.parametrize("name", PLANS)
def test_two_data_sets_of_one_shape_give_one_report(name):
    """Numbers of fewer than five digits could stand there by chance: drawn again."""
    seen = set()
    for records in ALIKE:
        report = told(loud(PLANS[name]), records)
        while any(len(number.shown()) < 6 for number in report.facts.numbers):
            report = told(loud(PLANS[name]), records)
        seen.add(masked(report))
    assert len(seen) == 1
    assert "#" in next(iter(seen))[0]
    assert "canary" not in "".join(next(iter(seen)))


def test_another_shape_is_noticed():
    """The mask does not hide everything: a record more, and the report differs."""
    plan = loud(COUNT)
    assert masked(told(plan, RECORDS)) != masked(told(plan, [*RECORDS, "idle"]))


# --- HTML -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANS)
def test_the_page_is_well_formed_and_stands_alone(name):
    text = told(PLANS[name], [2.0] * 10).html()
    page = Page(text)
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert [tag for tag, _ in page.tags].count("title") == 2  # of the page, and of the figure
    assert len(page.all("h1")) == 1
    assert len(page.all("h2")) == len(page.all("section")) == 5
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    for attributes in (a for _, a in page.tags):
        for name_of_id in str(attributes.get("aria-labelledby", "")).split():
            assert name_of_id in ids
        assert not {"src", "href", "onclick", "onload", "style"} & attributes.keys()
    assert not page.all("script")
    assert "@import" not in text
    assert "url(" not in text
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert "@media print" in text


def test_tables_and_figures_can_be_listened_to():
    page = Page(told(HISTOGRAM).html())
    assert len(page.all("caption")) == len(page.all("table")) == 2
    assert all(cell.get("scope") in ("col", "row") for cell in page.all("th"))
    (figure,) = page.all("svg")
    assert figure["role"] == "img"
    assert figure["aria-labelledby"] == "figure-title"
    assert "Released numbers with their error bars" in page.text()


def test_names_are_not_markup():
    odd = '<script>alert("1")</script>&\x00\n'
    chain = ut.MarkovChain(P, states=(odd, "b'</svg>"))
    plan = ut.calibrate(ut.Histogram(), chain, epsilon=1.0)
    report = told(plan, [odd, "b'</svg>"], source="<img src=x>")
    page = Page(report.html())
    assert not page.all("script")
    assert not page.all("img")
    assert len(page.all("svg")) == 1


def test_every_section_of_the_text_is_in_the_page():
    report = told(MEAN)
    heard = Page(report.html()).text()
    for line in report.text().splitlines():
        first = " ".join(line[20:40].replace("-", "=").replace("=", "").split())
        assert first in heard.replace("-", ""), line


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["txt", "html", "json", "HTML"])
def test_the_ending_says_what_is_written(tmp_path, ending):
    report = told()
    path = tmp_path / f"report.{ending}"
    report.save(path)
    forms = {"txt": report.text(), "html": report.html(), "json": report.to_json() + "\n"}
    assert path.read_text("utf-8") == forms[ending.lower()]
    report.save(str(path))  # again: it is replaced
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["report", "report.pdf", "report.html.gz", ""])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(InvalidInput, match=r"ends in \.html, \.json, \.txt"):
        told().save(name)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "report.txt"
    path.write_text("mine")

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(InvalidInput, match="no space left on device"):
        told().save(path)
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["report.txt"]


def test_places_that_cannot_be_written_are_refused(tmp_path):
    for path in (tmp_path / "none" / "x.txt", tmp_path / ("y" * 300)):
        with pytest.raises(InvalidInput, match="cannot write"):
            check_writable(path)
        with pytest.raises(InvalidInput, match="cannot write"):
            write_whole(path, b"")
    check_writable(tmp_path / "x.txt")
    assert not list(tmp_path.iterdir())


def test_json_is_strict():
    def refuse(constant):
        raise AssertionError(constant)

    for plan in PLANS.values():
        said = json.loads(told(plan, [1.0] * 10).to_json(), parse_constant=refuse)
        assert said["format"] == "undertow-report"
    assert strict_json([math.nan, {"a": (-math.inf,)}]) == json.dumps(
        ["nan", {"a": ["-inf"]}], indent=2
    )


def test_names_of_states_that_json_has_not_become_text():
    chain = ut.MarkovChain(P, states=(("a", 1), ("b", 2)))
    report = told(ut.calibrate(ut.Histogram(), chain, epsilon=1.0), [("a", 1)])
    said = json.loads(report.to_json())
    assert said["numbers"][0]["state"] == "('a', 1)"
    assert said["plan"] is None


def test_refused_methods_are_told_in_one_line():
    with pytest.raises(MethodRefused):
        ut.calibrate(ut.Count("active"), CHAIN, 1.0, method="group")
    assert "does not apply: 'group' multiplies" in told(COUNT).text()
