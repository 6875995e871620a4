"""Every example runs, and does what it says."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


SHORTER = {"heart_robustness": {"epsilons": (4.0,), "beats": 1500}}
LONG = {*SHORTER, "weekly_histogram"}  # the gate runs them with less, below
LISTED = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.soak] if path.stem in LONG else [])
    for path in EXAMPLES
]


@pytest.mark.parametrize("path", LISTED)
def test_example_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("name", SHORTER)
def test_example_runs_with_less(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (path,) = [path for path in EXAMPLES if path.stem == name]
    runpy.run_path(str(path))["main"](**SHORTER[name])


def test_a_year_of_weeks_costs_one(tmp_path, monkeypatch, capsys):
    import undertow as ut
    from undertow.ledger.book import Ledger

    monkeypatch.chdir(tmp_path)
    (path,) = [path for path in EXAMPLES if path.stem == "weekly_histogram"]
    example = runpy.run_path(str(path))
    example["main"](weeks=5)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[:5]] == [
        "2025-01-06", "2025-01-13", "2025-01-20", "2025-01-27", "2025-02-03",
    ]  # fmt: skip
    ledger = Ledger("year.db", "w25", create=False)
    plan = ut.calibrate(ut.Histogram(), example["CHAIN"], limit=1.0)
    assert len(ledger.entries()) == 5
    assert ledger.level() == pytest.approx(plan.dp_epsilon)
    assert ledger.leakage().proves(1.0)
    truth = {"day": [0, 0], "night": [0, 0]}
    for row in example["simulate"](5).filter(example["pl"].col("ts") >= example["MONDAY"]).rows():
        ts, steps, _, cohort = row
        if ts < example["MONDAY"] + example["WEEK"]:
            truth[cohort][steps > 0] += 1
    result = ledger.entries()[0].result
    assert result is not None
    for cohort, numbers in zip(result["groups"], result["numbers"], strict=True):
        for found, true in zip(numbers, truth[cohort], strict=True):
            assert abs(found - true) < plan.accuracy(1e-9)
    assert "<svg" in Path("last-week.html").read_text("utf-8")
