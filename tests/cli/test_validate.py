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
