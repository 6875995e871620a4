"""`undertow attack`: what attackers make of a release, from files."""

import json
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import call, strict
from tests.cli.local_scenario import LOCAL, refused, run, scenario, studio, truth
from tests.cli.scenario import ACTIVE, HOURS, SERIES, release
from undertow.auditing.attacking import attack as compute
from undertow.certificate import Leakage

__all__ = ["scenario", "studio"]

pytestmark = pytest.mark.usefixtures("studio")
WHO = ("--person", "id", "--time", "ts")


@pytest.fixture
def flipped(studio):
    assert run("sanitize", "--output", "out.csv", plan="few.plan").exit_code == 0
    return ut.Data("out.csv", value="steps", person="id", time="ts")


def ask(*arguments, data="out.csv", plan="few.plan", true="steps.csv", options=ACTIVE):
    return call("attack", data, "--plan", plan, "--truth", true, *options, *arguments)


def found(*arguments, **options):
    result = ask(*arguments, "--json", **options)
    assert result.exit_code == 0, result.output
    assert not result.stderr
    return strict(result.stdout)


def rows(result):
    """The labelled rows above the table."""
    lines = result.stdout.partition("\nSuccess of the attackers")[0].splitlines()[1:]
    return dict(line.strip().split("  ", 1) for line in lines)


def test_all_attackers_by_default(flipped):
    said = found()
    known = compute(flipped, LOCAL["few"], [list(map(str, one)) for one in SERIES])
    assert said["verdicts"] == strict(json.dumps(known.to_dict()["verdicts"]))
    assert said["plan"] == LOCAL["few"].fingerprint()
    assert (said["records"], said["series"]) == (4 * HOURS, 4)
    assert not said["broken"]
    text = ask().stdout
    words = rows(ask())
    assert words["the guarantee is"].startswith("kept")
    for one in said["verdicts"]:
        line = next(line for line in text.splitlines() if line.split()[:1] == [one["attacker"]])
        assert float(line.split()[1]) == pytest.approx(one["accuracy"], abs=1e-4)


def test_what_weakens_the_plan_stands_beside_the_result():
    """The fit's failed check was accepted for the plan: the command says so, as text and JSON."""
    turns = [0, 0, 1, 1] * 60
    fit = ut.MarkovChain.fit(turns, public=True)
    failed = tuple(check.name for check in fit.checks if check.outcome == "failed")
    plan = ut.calibrate(ut.Series(), fit.point(), 4.0, "ignorant", accept=failed)
    Path("turns.plan").write_text(plan.to_json())
    Path("turns.csv").write_text("\n".join(["state", *map(str, turns)]) + "\n")
    flips = ("--value", "state")
    made = call("sanitize", "turns.csv", "--plan", "turns.plan", *flips, "--output", "turned.csv")
    assert made.exit_code == 0, made.stderr
    settings = {"data": "turned.csv", "plan": "turns.plan", "true": "turns.csv", "options": flips}
    said = found(**settings)
    assert said["conditions"] == list(plan.conditions())
    assert {one["name"] for one in said["checks"] if one["outcome"] == "failed"} == {*failed}
    result = ask(**settings)
    assert "the check" in rows(result)["guarantee"]
    assert "Checks of the model" in result.stdout


def test_a_broken_guarantee_is_said_aloud():
    """A file that was flipped far less than the plan says."""
    assert run("sanitize", "--output", "out.csv", plan="few.plan").exit_code == 0
    lines = Path("out.csv").read_text().splitlines()
    told = [f"{line.rpartition(',')[0]},{state}" for line, state in
            zip(lines[1:], truth(), strict=True)]  # fmt: skip
    Path("bare.csv").write_text("\n".join([lines[0], *told]) + "\n")
    sold = ut.Plan(
        ut.RandomizedResponse.binary(0.25, 0.25), LOCAL["few"].model, 0.1,
        Leakage(0.1, 0.1, "exact", "any"), "exact",
    )  # fmt: skip
    Path("sold.plan").write_text(sold.to_json())
    said = found(data="bare.csv", plan="sold.plan")
    assert "correlation-aware" in said["broken"]
    assert "BROKEN by" in rows(ask(data="bare.csv", plan="sold.plan"))["the guarantee is"]


def test_redactions_and_noise_in_runs():
    assert run("sanitize", "--output", "shown.csv", plan="erasures.plan").exit_code == 0
    said = found(data="shown.csv", plan="erasures.plan")
    assert said["verdicts"][0]["targets"] == 4
    assert not said["broken"]
    assert run("sanitize", "--output", "runs.csv", plan="runs.plan").exit_code == 0
    assert not found(data="runs.csv", plan="runs.plan")["broken"]


def test_answers():
    assert release("--output", "answer.json").exit_code == 0
    said = found(data="answer.json", plan="count.plan")
    assert [one["attacker"] for one in said["verdicts"]] == ["prior", "bayes"]
    assert not said["broken"]
    picture = ask("--figure", "a.svg", "--limits", "1", data="answer.json", plan="count.plan")
    assert picture.exit_code == 0
    assert "bayes" in Path("a.svg").read_text()
    huge = '{"numbers": [{"value": 1' + "0" * 400 + "}]}"
    for content in ("{}", "[" * 100_000, huge):
        Path("no.json").write_text(content)
        assert "release --output" in refused(ask(data="no.json", plan="count.plan"))
    assert "cannot read" in refused(ask(data="none.json", plan="count.plan"))


@pytest.mark.usefixtures("flipped")
def test_bad_files():
    lines = Path("out.csv").read_text().splitlines()
    Path("short.csv").write_text("\n".join(lines[:-1]) + "\n")
    assert "series 3 (counting from 0) has 47 outputs and 48" in refused(ask(data="short.csv"))
    persons = [line for line in lines if not line.startswith("p3")]
    Path("fewer.csv").write_text("\n".join(persons) + "\n")
    assert "3 series, and the truth has 4" in refused(ask(data="fewer.csv"))
    Path("moved.csv").write_text("\n".join(lines).replace("p2,", "p9,") + "\n")
    assert f"row {2 * HOURS}" in refused(ask(data="moved.csv"))
    odd = [lines[0], lines[1].rpartition(",")[0] + ",canary-3c9f", *lines[2:]]
    Path("strange.csv").write_text("\n".join(odd) + "\n")
    said = refused(ask(data="strange.csv"))
    assert "row 0" in said
    assert "canary" not in said
    raw = (*WHO, "--value", "steps")
    first, *_ = found(true="odd.csv", options=raw)["verdicts"]  # in no state: in the plan's first
    assert (first["attacker"], first["accuracy"]) == ("prior", 1.0)
    Path("groups.json").write_text(json.dumps(ut.Groups(3).to_dict()))
    assert "one Markov chain" in refused(ask("--model", "groups.json"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--limits", "1,2"),
        ("--force",),
        ("--figure", "attack.pdf"),
        ("--known", "x"),
        ("--limits", "x", "--figure", "a.png"),
    ],
)
def test_wrong_usage(arguments):
    assert ask(*arguments).exit_code == 2
