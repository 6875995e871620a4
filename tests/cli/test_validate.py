"""`undertow validate`: what is odd about a table, by column and row, never a value."""

from pathlib import Path

import pytest

from tests.cli.calls import call, call_json, rows, strict
from tests.cli.scene import ACTIVE, HOURS, STEPS, WHO, scene

__all__ = ["scene"]

pytestmark = pytest.mark.usefixtures("scene")


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


def test_problems_name_column_and_row_and_no_value():
    lines = Path("steps.csv").read_text().splitlines()
    lines[3] = lines[3].rsplit(",", 1)[0] + ","
    lines[5] = lines[5].rsplit(",", 1)[0] + ",canary-77"
    Path("odd.csv").write_text("\n".join(lines) + "\n")
    result = call("validate", "odd.csv", *STEPS, "--plan", "sum.plan", "--json")
    assert result.exit_code == 1
    assert not result.stderr
    found = {(p["column"], p["row"], p["what"]) for p in strict(result.stdout)["problems"]}
    assert ("steps", 2, "is missing") in found
    assert ("steps", 4, "is not a number") in found
    told = call("validate", "odd.csv", *STEPS, "--plan", "sum.plan")
    assert told.exit_code == 1
    assert "for the curator's eyes only" in told.stdout
    assert "is missing" in told.stdout
    assert "canary" not in told.output + result.output


def test_values_outside_the_range_are_told_apart():
    Path("high.csv").write_text("x\n5\n101\n-3\n")
    result = call("validate", "high.csv", "--value", "x", "--plan", "sum.plan", "--json")
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
