"""`undertow validate`: what is odd about a table, by column and row, never a value."""

from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import call, call_json, rows, strict
from tests.cli.scenario import ACTIVE, HOURS, STEPS, WHO, scenario
from tests.data.test_files import VCF

__all__ = ["scenario"]

pytestmark = pytest.mark.usefixtures("scenario")


def test_a_clean_table():
    result = call("validate", "steps.csv", *ACTIVE, "--plan", "count.plan")
    assert result.exit_code == 0
    said = rows(result)
    assert said["problems"].strip() == "none"
    assert said["records"].strip() == f"{4 * HOURS}, at most {HOURS} of a person"
    assert said["times"].strip() == "2025-01-06T00:00:00 to 2025-01-07T23:00:00"
    found = call_json("validate", "steps.csv", *ACTIVE)
    assert found["problems"] == []
    assert (found["rows"], found["persons"], found["gaps"]) == (4 * HOURS, 4, False)


def readings():
    """Write a plan for a sum of the readings themselves."""
    plan = ut.calibrate(ut.Sum(0, 100), ut.Groups(HOURS), 0.5)
    Path("range.plan").write_text(plan.to_json())


def test_problems_name_column_and_row_and_no_value():
    lines = Path("steps.csv").read_text().splitlines()
    lines[3] = lines[3].rsplit(",", 1)[0] + ","
    lines[5] = lines[5].rsplit(",", 1)[0] + ",canary-77"
    Path("odd.csv").write_text("\n".join(lines) + "\n")
    readings()
    result = call("validate", "odd.csv", *STEPS, "--plan", "range.plan", "--json")
    assert result.exit_code == 1
    assert not result.stderr
    found = {(p["column"], p["row"], p["what"]) for p in strict(result.stdout)["problems"]}
    assert ("steps", 2, "is missing") in found
    assert ("steps", 4, "is not a number") in found
    told = call("validate", "odd.csv", *STEPS, "--plan", "range.plan")
    assert told.exit_code == 1
    assert "for the curator only" in told.stdout
    assert "is missing" in told.stdout
    assert "canary" not in told.output + result.output


def test_values_outside_the_range_are_told_apart():
    Path("high.csv").write_text("x\n5\n101\n-3\n")
    readings()
    result = call("validate", "high.csv", "--value", "x", "--plan", "range.plan", "--json")
    assert [p["row"] for p in strict(result.stdout)["problems"]] == [1, 2]


def test_rows_that_do_not_fit_together():
    text = Path("steps.csv").read_text()
    Path("twice.csv").write_text(text + text.splitlines()[1] + "\n")
    result = call("validate", "twice.csv", *ACTIVE)
    assert result.exit_code == 1
    assert "cannot be counted" in result.stdout
    assert "Problems, rows counted from 0" in result.stdout
    found = strict(call("validate", "twice.csv", *ACTIVE, "--json").stdout)
    assert found["rows"] is None
    assert found["problems"]


def test_gaps_are_said_and_are_no_problem():
    lines = Path("steps.csv").read_text().splitlines()
    Path("gap.csv").write_text("\n".join([*lines[:5], *lines[6:]]) + "\n")
    result = call("validate", "gap.csv", *ACTIVE)
    assert result.exit_code == 0
    assert rows(result)["gaps"].strip() == "there are absent steps"


def test_many_problems_are_counted():
    result = call("validate", "missing.csv", *STEPS)
    assert result.exit_code == 1
    assert "more" in result.stdout
    assert len(result.stdout.splitlines()) < 40


def test_names_that_look_alike_are_said():
    Path("alike.csv").write_text("ward,mood\nA,good\na,Good\n\uff21,bad\nB,bad\nC,bad \n")
    found = strict(
        call("validate", "alike.csv", "--value", "mood", "--by", "ward", "--json").stdout
    )
    said = {(p["column"], p["row"], p["what"]) for p in found["problems"]}
    alike = "the groups 'A', 'a' and '\\uff21' look alike: one name misspelt, or two?"
    assert ("ward", None, alike) in said
    assert ("mood", None, "some texts differ only in case, blanks or the width of letters") in said
    assert "good" not in str(found).lower().replace("'mood'", "")
    declared = ("--value", "mood", "--by", "ward", "--groups", "A,B")
    assert "look alike" in call("validate", "alike.csv", *declared).stdout


def test_records_that_are_nearly_a_state_are_told_apart():
    Path("states.csv").write_text("mood\ngood\nGood\n bad\nelse\n")
    chain = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=("good", "bad"))
    Path("mood.plan").write_text(ut.calibrate(ut.Histogram(), chain, 1.0).to_json())
    result = call("validate", "states.csv", "--value", "mood", "--plan", "mood.plan", "--json")
    said = {p["row"]: p["what"] for p in strict(result.stdout)["problems"]}
    assert "differs from one only in case" in said[1]
    assert "differs from one only in case" in said[2]
    assert said[3] == "is in no state of the plan"
    same = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=("bad", "Bad"))
    Path("same.plan").write_text(ut.calibrate(ut.Histogram(), same, 1.0).to_json())
    result = call("validate", "states.csv", "--value", "mood", "--plan", "same.plan", "--json")
    assert "the states 'bad' and 'Bad' look alike" in result.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--gaps", "inactive"),
        ("--by", "id"),
        ("--by", "id", "--groups", "p0,p1"),
        ("--window", "2025-01-06,2025-01-07"),
    ],
)
def test_every_way_to_read_a_table(options):
    result = call("validate", "steps.csv", *ACTIVE, *options, "--plan", "count.plan", "--json")
    assert set(strict(result.stdout)) >= {"rows", "persons", "problems"}


def test_variants_are_validated():
    pytest.importorskip("pysam")
    Path("cohort.vcf").write_bytes(VCF)
    found = strict(call("validate", "cohort.vcf", "--locus", "rs2", "--json").stdout)
    assert found["rows"] == 2
    assert [p["row"] for p in found["problems"]] == [1]
    assert call("validate", "cohort.vcf", "--allele", "A").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none.csv", *STEPS), "none.csv"),
        (("steps.csv", *WHO, "--value", "speed"), "no column 'speed'"),
        (("steps.csv", *STEPS, "--plan", "none.plan"), "no such file"),
        (("steps.csv", *STEPS, "--state", "steps >"), "cannot be read"),
    ],
)
def test_refusals(arguments, words):
    result = call("validate", *arguments)
    assert result.exit_code == 1
    assert words in result.stderr
    assert not result.stdout
    assert len(result.stderr.splitlines()) == 1


def test_wrong_usage():
    assert call("validate").exit_code == 2
    assert call("validate", "steps.csv").exit_code == 2
    assert call("validate", "steps.csv", "--value", "steps", "--every", "1h").exit_code == 2
