"""`undertow estimate`: what the true series hold, from a published file and its plan."""

from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import call, rows, strict
from tests.cli.local_scenario import LOCAL, refused, run, scenario, studio, truth
from tests.cli.scenario import HOURS
from undertow.releasing.estimate import estimate as compute

__all__ = ["scenario", "studio"]

pytestmark = pytest.mark.usefixtures("studio")
WHO = ("--person", "id", "--time", "ts")


@pytest.fixture
def flipped(studio):
    assert run("sanitize", "--output", "out.csv", plan="few.plan").exit_code == 0
    return ut.Data("out.csv", value="steps", person="id", time="ts")


def ask(*arguments, data="out.csv", plan="few.plan"):
    return call("estimate", data, "--plan", plan, "--value", "steps", *arguments)


def found(*arguments, **options):
    result = ask(*arguments, "--json", **options)
    assert result.exit_code == 0, result.output
    assert not result.stderr
    return strict(result.stdout)


def test_counts(flipped):
    known = compute(flipped, LOCAL["few"], ut.Count("active"), 0.999999999)
    said = found("--count", "active", "--confidence", "0.999999999")
    assert (said["value"], said["low"], said["high"]) == (known.value, known.low, known.high)
    assert said["low"] <= truth().count("active") <= said["high"]
    words = rows(ask("--count", "active"))
    assert float(words["estimate"]) == pytest.approx(known.value, rel=1e-5)
    assert " to " in words["interval"]


def test_transitions(flipped):
    known = compute(flipped, LOCAL["few"], "transitions")
    said = found("--transitions", *WHO)
    assert said["value"] == known.value.tolist()
    assert said["about"] == 4 * (HOURS - 1)
    assert "from active" in ask("--transitions", *WHO).stdout


def test_redacted_series():
    assert run("sanitize", "--output", "shown.csv", plan="erasures.plan").exit_code == 0
    said = found(*WHO, data="shown.csv", plan="erasures.plan")
    known = compute(ut.Data("shown.csv", value="steps", person="id", time="ts"), LOCAL["erasures"])
    assert said["value"] == list(known.value.values())
    assert said["about"] == 4 * (HOURS - 1)
    assert said["hidden"] == 4
    words = f"of {4 * HOURS} records, 4 are hidden by the redaction and not in this estimate"
    assert said["note"] == words
    assert rows(ask(*WHO, "--count", "active", data="shown.csv", plan="erasures.plan"))[
        "NOT in it"
    ].strip() == (words)
    said = refused(ask(data="shown.csv", plan="erasures.plan"))
    assert f"exactly {HOURS} records" in said


@pytest.mark.usefixtures("flipped")
def test_refusals():
    assert "answers a question with noise" in refused(ask(plan="count.plan"))
    assert "'running'" in refused(ask("--count", "running"))
    assert "confidence" in refused(ask("--confidence", "1"))
    Path("raw.csv").write_text(Path("steps.csv").read_text())
    said = refused(ask(data="raw.csv"))
    assert "no output of this plan" in said
    assert "40" not in said


@pytest.mark.parametrize(
    "arguments",
    [("--histogram", "--transitions"), ("--count", "active", "--histogram"), ("--every", "1h")],
)
def test_wrong_usage(arguments):
    assert ask(*arguments).exit_code == 2
