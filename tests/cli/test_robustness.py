"""``undertow robustness``: the table, the figure, and what is refused."""

import json

import pytest

import undertow as ut
from tests.accepting import broken
from tests.cli.calls import call, strict

LIVELY = ut.MarkovChain([[0.7, 0.3], [0.4, 0.6]], states=("idle", "active"))
STICKY = ut.MarkovChain([[0.95, 0.05], [0.1, 0.9]], states=("idle", "active"))


@pytest.fixture(scope="module")
def plan():
    series = LIVELY.simulate(2000, seed=1) + STICKY.simulate(2000, seed=2)
    chain = ut.MarkovChain.fit(series, public=True)
    return ut.calibrate(ut.Count("active"), chain, 1.0, accept=broken(chain)).to_json()


@pytest.fixture
def files(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(plan)
    (tmp_path / "sticky.json").write_text(json.dumps(STICKY.to_dict()))
    return tmp_path


def test_the_table_and_the_figure(files):
    result = call(
        "robustness", "plan.json", "--other", "sticky.json", "--factors", "0.5,2",
        "--figure", "other.png",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    said = " ".join(result.stdout.split())
    assert "odds of leaving x 0.5, x 2" in said
    assert "check: time" in said
    assert "sticky.json" in said
    assert "Checks of the model (computed from public records)" in said
    assert (files / "other.png").read_bytes().startswith(b"\x89PNG")
    again = call("robustness", "plan.json", "--figure", "other.png")
    assert again.exit_code == 1  # nothing is replaced unasked
    assert "--force" in again.stderr


def test_json(files):
    result = call("robustness", "plan.json", "--no-grid", "--other", "sticky.json", "--json")
    found = strict(result.stdout)
    assert found["cases"][0]["kind"] == "planned"
    assert {case["kind"] for case in found["cases"]} >= {"planned", "check", "other"}
    worst = next(case for case in found["cases"] if case["name"] == found["worst"])
    assert worst["verdict"] == "broken"
    plan = ut.Plan.from_json((files / "plan.json").read_text())
    expected = ut.leakage(plan.mechanism, STICKY)
    other = next(case for case in found["cases"] if case["name"] == "sticky.json")
    assert other["lower"] == expected.lower


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        (("plan.json", "--factors", "0,1"), 1, "factor"),
        (("plan.json", "--factors", "a"), 2, "numbers"),
        (("plan.json", "--factors", "2", "--no-grid"), 2, "exclude each other"),
        (("plan.json", "--other", "none.json"), 1, "none.json"),
        (("sticky.json",), 1, "plan"),
        (("plan.json", "--figure", "x.pdf"), 2, ".png or .svg"),
    ],
)
def test_refusals(files, asked, code, said):
    result = call("robustness", *asked)
    assert result.exit_code == code
    assert said in result.stderr
    assert not result.stdout
