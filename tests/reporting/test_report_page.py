"""The forms of a report: only released numbers depend on records, and files are whole."""

import dataclasses
import errno
import json
import math
import os
import re

import pytest

import undertow as ut
from tests.reporting.pages import ALIKE, COUNT, HISTOGRAM, MEAN, PLANS, RECORDS, P, Page, told
from undertow.errors import InvalidInput
from undertow.figures.canvas import Bar, released_figure
from undertow.files import check_writable, write_whole
from undertow.reporting.formats import strict_json
from undertow.reporting.report import Report

# --- nothing but the released numbers -------------------------------------------------------------


def masked(report: Report) -> tuple[str, str, str]:
    """The three forms of a report, without released numbers and date; the figure apart."""
    undated = dataclasses.replace(report.facts.release, made="")
    report = Report(dataclasses.replace(report.facts, release=undated))
    numbers = report.facts.numbers
    page, text = report.html(), report.text()
    figure = page[page.index("<svg") : page.index("</svg>") + 6]
    estimates = [Bar(n.label(), n.value, n.within, n.shown()) for n in numbers]
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
    text = told(PLANS[name]).html()
    page = Page(text)
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert [tag for tag, _ in page.tags].count("title") == 2  # of the page, and of the figure
    assert len(page.all("h1")) == 1
    assert len(page.all("h2")) == len(page.all("section")) == 6
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
    assert len(page.all("caption")) == len(page.all("table")) == 3
    assert all(cell.get("scope") in ("col", "row") for cell in page.all("th"))
    (figure,) = page.all("svg")
    assert figure["role"] == "img"
    assert figure["aria-labelledby"] == "figure-title"
    assert "Released numbers with their error bars" in page.text()


def test_names_are_not_markup():
    odd = '<script>alert("1")</script>&\x00\n'
    chain = ut.MarkovChain(P, states=(odd, "b'</svg>"))
    plan = ut.calibrate(ut.Histogram(), chain, limit=1.0)
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
        said = json.loads(told(plan).to_json(), parse_constant=refuse)
        assert said["format"] == "undertow-report"
    assert strict_json([math.nan, {"a": (-math.inf,)}]) == json.dumps(
        ["nan", {"a": ["-inf"]}], indent=2
    )


def test_names_of_states_that_json_has_not_become_text():
    chain = ut.MarkovChain(P, states=(("a", 1), ("b", 2)))
    report = told(ut.calibrate(ut.Histogram(), chain, limit=1.0), [("a", 1)])
    said = json.loads(report.to_json())
    assert said["numbers"][0]["state"] == "('a', 1)"
    assert said["plan"] is None
