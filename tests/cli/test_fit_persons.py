"""`undertow fit` on tables of persons: one reader, any order of rows, cohorts and populations."""

import json
import random
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import call, strict
from undertow.models.sets import model_from_dict

OPTIONS = ("--value", "steps", "--state", "steps > 0", "--states", "idle,busy")
WHO = ("--person", "id", "--time", "time", "--every", "5m")


def rows_of(persons, length, seed=0):
    """Return rows (id, arm, time, steps) of persons with chains of their own."""
    drawn, rows = np.random.default_rng(seed), []
    for person in range(persons):
        a, b = drawn.uniform(0.1, 0.3, 2)
        series = ut.MarkovChain([[1 - a, a], [b, 1 - b]]).simulate(length, seed=seed + person)
        for step, state in enumerate(series):
            when = f"2025-01-{1 + step // 288:02d}T{step // 12 % 24:02d}:{step % 12 * 5:02d}"
            rows.append((f"p{person:03d}", "ab"[person % 2], when, 7 * state))
    return rows


def written(path, rows, header="id,arm,time,steps"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture(scope="module")
def nine():
    """Return a stand-in for nine persons with two hundred records each."""
    return rows_of(9, 200)


def fitted(path, *options):
    result = call("fit", path, *OPTIONS, *options, "--json")
    assert result.exit_code == 0, result.output
    return strict(result.stdout)


def test_any_order_of_rows_gives_the_same_fit(nine, tmp_path):
    shuffled = random.Random(3).sample(nine, len(nine))
    interleaved = sorted(nine, key=lambda row: row[2])
    one, *others = (
        fitted(written(tmp_path / f"{name}.csv", rows), *WHO)
        for name, rows in (("a", nine), ("b", shuffled), ("c", interleaved))
    )
    for found in (one, *others):
        assert found["model"]["records"].pop("source")["files"]  # which differ
    assert all(other == one for other in others)
    assert one["persons"]["persons"] == 9
    in_order = fitted(written(tmp_path / "d.csv", interleaved), "--person", "id")
    assert in_order["transition"] == one["transition"]


def test_shuffled_rows_without_their_time_are_refused(nine, tmp_path):
    shuffled = written(tmp_path / "s.csv", random.Random(3).sample(nine, len(nine)))
    result = call("fit", shuffled, *OPTIONS, "--person", "id")
    assert result.exit_code == 1
    assert "not in the order of column 'time'" in result.stderr
    assert "--time" in result.stderr
    several = call("fit", written(tmp_path / "n.csv", nine), *OPTIONS)
    assert several.exit_code == 1
    assert "--person" in several.stderr


def test_bins_and_windows(nine, tmp_path):
    path = written(tmp_path / "t.csv", nine)
    bins = call("fit", path, "--value", "steps", "--state", "0.5", "--states", "idle,busy", *WHO,
                "--json")  # fmt: skip
    assert strict(bins.stdout)["counts"] == fitted(path, *WHO)["counts"]
    wrong = call("fit", path, "--value", "steps", "--state", "0.5", "--states", "a,b,c", *WHO)
    assert wrong.exit_code == 2
    assert "2 bins" in wrong.stderr
    early = fitted(path, *WHO, "--window", "2025-01-01T00:00,2025-01-01T01:00")
    assert early["records"] == 9 * 12


def test_persons_who_differ_are_told_in_leakage(nine, tmp_path):
    path = written(tmp_path / "t.csv", nine)
    found = fitted(path, *WHO)["persons"]
    assert found["test"]["p_value"] < 0.05
    assert found["budgets"]["worst"] < found["budgets"]["pooled"]
    said = " ".join(call("fit", path, *OPTIONS, *WHO).stdout.split())
    assert "persons differ (p" in said
    assert "(worst of 9)" in said
    assert "not private" in said
    assert "p001" not in said


def test_a_population_is_a_model_that_says_for_whom_it_holds(nine, tmp_path):
    path, model = written(tmp_path / "t.csv", nine), tmp_path / "all.json"
    result = call("fit", path, *OPTIONS, *WHO, "--population", "--output", model)
    assert result.exit_code == 0, result.output
    assert "holds for every person in the sample (9 persons), with confidence 95%" in result.stdout
    held: Any = model_from_dict(json.loads(model.read_text()))
    assert {one.kind for one in held.models} == {"box"}
    plan = tmp_path / "plan.json"
    made = call("plan", "--model", model, "--count", "busy", "--limit", 1, "--accept", "memory",
                "--output", plan)  # fmt: skip
    assert made.exit_code == 0, made.output
    report = ut.load_plan(plan) if hasattr(ut, "load_plan") else None
    text = plan.read_text() if report is None else str(report.leakage.assumptions)
    assert "holds for every person in the sample" in text
    assert "not private" in text
    few = call("fit", path, *OPTIONS, *WHO, "--population", "--share", 0.99)
    assert few.exit_code == 1
    assert "299 are needed" in few.stderr


def changed(rows, **changes):
    return [*rows[:-1], tuple(changes.get(k, v) for k, v in zip(("id", "arm", "time", "steps"),
                                                               rows[-1], strict=True))]  # fmt: skip


BAD = {
    "one record": ({"id": "px"}, ("--population",), "1 of 10 persons have no two records"),
    "two cohorts": ({"arm": "c"}, ("--by", "arm"), "puts a person into two groups"),
    "mixed zones": ({"time": "2025-01-09T00:00Z"}, (), "not a time of the same form as the first"),
    "twice": ({"time": "2025-01-01T00:00"}, (), "has the person and the time of another row"),
    "nobody": ({"id": ""}, (), "has no person"),
}


@pytest.mark.parametrize(("changes", "options", "words"), BAD.values(), ids=BAD)
def test_bad_tables_are_refused_in_one_line(nine, tmp_path, changes, options, words):
    path = written(tmp_path / "t.csv", changed(nine, **changes))
    result = call("fit", path, *OPTIONS, *WHO, *options)
    assert result.exit_code == 1
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_state_that_is_never_left(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("steps\n0\n0\n7\n7\n7\n")
    result = call("fit", path, *OPTIONS)
    assert result.exit_code == 1
    assert "is never left" in result.stderr
    assert "--prior" in result.stderr
    assert call("fit", path, *OPTIONS, "--share", 0.5).exit_code == 2
    assert call("fit", path, *OPTIONS, "--point", "--population").exit_code == 2
