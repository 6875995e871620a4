"""From a file to an answer: a plan is released on records of the kind that was fitted alone."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import call, strict

CHAIN = ut.MarkovChain([[0.7, 0.3], [0.4, 0.6]])
WHO = ("--person", "id", "--time", "ts")
STEPS = ("--value", "steps", "--state", "steps > 0")
HALF = (*WHO, "--every", "30m", *STEPS)


def table(path, start, minutes, *, scale=40, column="steps", persons="ab", rows=150):
    """Write rows of persons; ``steps`` are 0 or a number."""
    begin = datetime.fromisoformat(start)
    lines = [f"id,ts,{column}"]
    for place, person in enumerate(persons):
        for step, state in enumerate(CHAIN.simulate(rows, seed=place)):
            when = (begin + timedelta(minutes=minutes * step)).isoformat()
            lines.append(f"{person},{when},{state * scale}")
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model and a plan for half hours of last year, and this year's tables."""
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "old.csv", "2024-01-01", 30, rows=400)
    table(tmp_path / "half.csv", "2025-01-01", 30)
    table(tmp_path / "five.csv", "2025-01-01", 5)
    table(tmp_path / "power.csv", "2025-01-01", 30, column="kw", scale=0.7)
    fit = call("fit", "old.csv", *HALF, "--output", "chain.json")
    assert fit.exit_code == 0, fit.output
    plan = call("plan", "--model", "chain.json", "--count", "True", "--limit", 3, "--output",
                "plan.json")  # fmt: skip
    assert plan.exit_code == 0, plan.output
    return tmp_path


def refusal(*arguments):
    """Return what a command says that refuses, and writes nothing."""
    name = {"release": "answer.json", "fit": "model.json"}.get(arguments[0], "answer.csv")
    result = call(*arguments, "--output", name)
    assert result.exit_code == 1, result.output
    assert not Path(name).exists()
    return " ".join(result.stderr.split())


def test_a_model_file_says_what_its_records_are(folder):
    records = strict((folder / "chain.json").read_text())["records"]
    assert records["every"] == "30m"
    assert records["unit"] == "person"
    assert records["state"] == {"expression": "value > 0", "column": "steps"}
    assert [len(one) for one in records["source"]["persons"]] == [3, 3]
    plan = strict((folder / "plan.json").read_text())
    assert plan["model"]["records"] == records


def test_matching_records_pass(folder):
    out = call("release", "half.csv", "--plan", "plan.json", *HALF, "--json")
    assert out.exit_code == 0, out.output
    said = strict(out.stdout)
    assert "; one record every 30m" in said["promise"]
    assert said["model"]["records"]["every"] == "30m"
    assert call("validate", "half.csv", *HALF, "--plan", "plan.json").exit_code == 0


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("five.csv", (*WHO, "--every", "5m", *STEPS), "every 30m in the model, every 5m"),
        ("five.csv", (*WHO, *STEPS), "five minutes apart"),
        (
            "half.csv",
            (*WHO, "--every", "30m", "--value", "steps", "--state", "steps > 100"),
            "value > 0 in the model, value > 100 in the data",
        ),
        ("power.csv", (*WHO, "--every", "30m", "--value", "kw"), "the value itself in the data"),
        ("half.csv", (*WHO, "--every", "30m", "--value", "steps"), "the value itself in the data"),
        ("half.csv", STEPS, "no column says whose"),
    ],
)
def test_other_records_are_refused_by_every_command(folder, name, options, said):
    flips = call(
        "plan", "--model", "chain.json", "--series", "--limit", 5, "--output", "flips.json"
    )
    assert flips.exit_code == 0, flips.output
    ledger = call("ledger", "create", "a.db", "--dataset", "a", "--model", "chain.json",
                  "--limit", 3)  # fmt: skip
    assert ledger.exit_code == 0, ledger.output
    account = ("--ledger", "a.db", "--dataset", "a")
    assert said in refusal("release", name, "--plan", "plan.json", *options, *account)
    assert said in refusal("sanitize", name, "--plan", "flips.json", *options)
    book = ut.Ledger(folder / "a.db", "a")
    assert not book.entries()
    looked = call("validate", name, *options, "--plan", "plan.json", "--json")
    assert looked.exit_code == 1
    told = [problem["what"] for problem in strict(looked.stdout)["problems"]]
    assert any("a release is refused" in what for what in told)


def test_the_file_that_was_fitted_is_not_released(folder):
    said = refusal("release", "old.csv", "--plan", "plan.json", *HALF)
    assert "fitted to these very records" in said
    assert "--accept same-records" in said
    assert "--private" in said
    looked = call("validate", "old.csv", *HALF, "--plan", "plan.json")
    assert "fitted to these very records" in " ".join(looked.stdout.split())


def test_groups_need_their_column_or_the_word_of_the_curator(folder):
    groups = {"kind": "groups", "size": 3, "states": [False, True]}
    (folder / "groups.json").write_text(json.dumps(groups))
    made = call("plan", "--model", "groups.json", "--count", "True", "--limit", 1, "--output",
                "three.json")  # fmt: skip
    assert made.exit_code == 0, made.output
    said = refusal("release", "half.csv", "--plan", "three.json", *STEPS)
    assert "--ungrouped" in said
    assert "Data(" not in said
    out = call("release", "half.csv", "--plan", "three.json", *STEPS, "--ungrouped", "--json")
    assert out.exit_code == 0, out.output
    assert "the curator vouches" in out.stdout
    both = call("release", "half.csv", "--plan", "three.json", *HALF, "--ungrouped")
    assert both.exit_code == 2


def test_rows_out_of_order_are_refused_by_fit_and_release(folder):
    """Whatever the column of times is called."""
    text = (folder / "half.csv").read_text().replace("ts", "zeit", 1)
    (folder / "zeit.csv").write_text(text)
    free = ("--value", "steps", "--state", "steps > 0")
    (folder / "hand.json").write_text(
        json.dumps({"transition": [[0.7, 0.3], [0.4, 0.6]], "states": [False, True]})
    )
    made = call("plan", "--model", "hand.json", "--count", "True", "--limit", 3, "--output",
                "hand.plan")  # fmt: skip
    assert made.exit_code == 0, made.output
    for command in (
        ("fit", "zeit.csv", *free),
        ("release", "zeit.csv", "--plan", "hand.plan", *free),
    ):
        said = refusal(*command)
        assert "not in the order of column 'zeit'" in said
        assert "--person" in said


def test_what_was_never_said_is_in_every_promise(folder):
    """Of an answer and of a series: what is printed, and the report."""
    (folder / "hand.json").write_text(
        json.dumps({"transition": [[0.7, 0.3], [0.4, 0.6]], "states": [False, True]})
    )
    said = "one record = one row, 30 minutes apart in this table (the model does not say)"
    for verb, ask, output in (
        ("release", ("--count", "True"), "answer.json"),
        ("sanitize", ("--series",), "answer.csv"),
    ):
        made = call("plan", "--model", "hand.json", *ask, "--limit", 5, "--output", f"{verb}.plan")
        assert made.exit_code == 0, made.output
        out = call(verb, "half.csv", "--plan", f"{verb}.plan", *HALF, "--output", output,
                   "--report", f"{verb}.html", "--json")  # fmt: skip
        assert out.exit_code == 0, out.output
        assert said in strict(out.stdout)["promise"]
        assert said in " ".join((folder / f"{verb}.html").read_text().split())
