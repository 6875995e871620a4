"""Approximate guarantees on the command line: leakage, budget, plan, compare, release, report."""

import json
import math
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import CHAIN, NAMED, call, call_json, rows, strict
from tests.cli.scenario import ACTIVE, release, scenario

__all__ = ["scenario"]

GAUSSIAN = ("--count", "active", "--limit", 1, "--delta", 1e-6, "--noise", "gaussian")
CLOSED = ("--method", "closed")


@pytest.fixture
def couples(tmp_path):
    """Records that agree two by two: everything is the closed formula, and quick."""
    path = tmp_path / "couples.json"
    path.write_text(json.dumps(ut.Groups(2).to_dict()))
    return ("--model", path)


# --- leakage --------------------------------------------------------------------------------------


def test_a_pair_is_exchanged_at_a_delta(couples):
    found = call_json(
        "leakage", *couples, "--epsilon", 1, "--guarantee-delta", 1e-6, "--delta", 4e-6
    )
    assert found["upper"] == 2.0
    assert found["delta"] == 4e-6
    (pair, *_) = found["curve"]
    assert pair == [2.0, pytest.approx(1e-6 * (1 + math.e))]
    assert found["method"] == "closed"


def test_words_say_the_odds_and_never_that_all_is_lost(couples):
    asked = ("leakage", *couples, "--epsilon", 1, "--guarantee-delta", 1e-6, "--delta", 2e-5)
    said = rows(call(*asked))
    assert said["question"].strip() == "any (1, 1e-6)-DP algorithm, one record replaced"
    assert said["leakage"].strip() == "at most 2 at delta 2e-5"
    assert "by more than a factor 14.8 with probability at most 4e-5" in said["meaning"]
    assert "lost" not in " ".join(said.values())


@pytest.mark.parametrize(
    ("option", "guarantee"),
    [
        (("--rho", 0.01), ut.ZCDP(0.01)),
        (("--mu", 0.1), ut.GDP(0.1)),
        (("--rho", 0.01, "--neighbours", "add-remove"), ut.ZCDP(0.01, neighbours="add-remove")),
        (
            ("--epsilon", 0.5, "--guarantee-delta", 1e-9, "--neighbours", "add-remove"),
            ut.ApproximateDP(0.5, 1e-9, neighbours="add-remove"),
        ),
        (("--epsilon", 0.5, "--neighbours", "add-remove"), ut.PureDP(1.0)),
        (("--epsilon", 0.5), ut.PureDP(0.5)),
    ],
)
def test_every_guarantee(couples, option, guarantee):
    found = call_json("leakage", *couples, *option, "--delta", 1e-6)
    assert found["upper"] == ut.leakage(guarantee, ut.Groups(2), delta=1e-6).upper
    words = rows(call("leakage", *couples, *option, "--delta", 1e-6))["question"]
    assert ("added or removed" in words) == (getattr(guarantee, "neighbours", "") == "add-remove")


def test_a_person_is_protected_by_the_curve_itself():
    named = (*CHAIN, "--length", 9, "--unit", "person")
    found = call_json("leakage", *named, "--mu", 0.1, "--delta", 1e-6)
    assert found["upper"] == ut.GDP(0.1).curve().epsilon(1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--epsilon", 1, "--rho", 1), "one guarantee of the algorithm: --epsilon or --rho"),
        (("--guarantee-delta", 1e-6, "--rho", 1), "--guarantee-delta goes with --epsilon"),
        (("--count", 1, "--neighbours", "replace", "--scale", 1), "--neighbours goes with"),
        (("--count", 1), "needs --scale, the scale of its Laplace noise, or --sigma"),
        (("--count", 1, "--scale", 1, "--sigma", 1), "one of --scale"),
        (("--count", 1, "--scale", 1, "--noise", "gaussian"), "gaussian goes with --sigma"),
        (("--count", 1, "--sigma", 1, "--noise", "laplace"), "laplace goes with --scale"),
        (("--mu", 1, "--sigma", 1), "--sigma goes with a noisy answer, not with --mu"),
        (("--limit", 1, "--mu", 1), "give one question"),
        (("--limit", 1, "--scale", 1), "not with --limit"),
        (("--mu", 1, "--figure", "a.png"), "it needs --delta"),
        (("--limit", 1, "--delta", 1e-6, "--figure", "a.png"), "leave --delta out"),
        (("--mu", 1, "--delta", 1e-6, "--force"), "--force goes with --figure"),
        (("--count", 1, "--sigma", 1, "--unit", "person"), "--unit goes with --epsilon"),
    ],
)
def test_wrong_usage(arguments, words):
    result = call("leakage", *CHAIN, *arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    "arguments",
    [
        ("leakage", *CHAIN, "--mu", 1),
        ("leakage", *CHAIN, "--count", 1, "--sigma", 4),
        ("plan", *CHAIN, "--count", 1, "--limit", 1, "--noise", "gaussian"),
        ("compare", *CHAIN, "--count", 1, "--limit", 1, "--noise", "discrete-gaussian"),
    ],
)
def test_without_a_delta_the_reason_is_told(arguments):
    result = call(*arguments)
    assert result.exit_code == 1
    assert "say how rare may be ignored, --delta 1e-6" in result.stderr
    assert "delta=" not in result.stderr


def test_a_delta_that_is_none():
    for delta in (1, -1, "nan"):
        result = call("leakage", *CHAIN, "--mu", 1, "--delta", delta)
        assert result.exit_code == 1
        assert "delta" in result.stderr


# --- budgets --------------------------------------------------------------------------------------


def test_what_to_ask_of_a_library():
    found = call_json("leakage", *CHAIN, "--limit", 1, "--delta", 1e-6)
    assert found["epsilon"] == pytest.approx(0.25032578764, abs=1e-10)
    assert found["delta"] == pytest.approx(1.655396686e-7, rel=1e-8)
    assert found["sigma"] == pytest.approx(16.9133455890, rel=1e-9)
    assert found["rho"] == pytest.approx(0.00152022137, rel=1e-7)
    assert found["mu"] == pytest.approx(1 / 16.9133455890, rel=1e-9)
    assert found["at_delta"] == 1e-6
    result = call("leakage", *CHAIN, "--limit", 1, "--delta", 1e-6)
    for words in (
        "no record leaks more than 1 at delta 1e-6",
        "(0.2503257, 1.655396e-7)-DP, one record replaced",
        "zCDP with rho 0.001520221",
        "GDP with mu 0.0591249",
        "Gaussian noise of sigma 16.91335",
    ):
        assert words in result.stdout


def test_nothing_can_leak():
    certain = ("--transition", "1,0;0,1", "--start", "1,0", "--length", 3)
    for more in ((), ("--delta", 1e-6)):
        result = call("leakage", *certain, "--limit", 1, *more)
        assert result.exit_code == 0
        assert "whatever you like" in result.stdout


# --- plans ----------------------------------------------------------------------------------------


def test_a_plan_with_gaussian_noise(tmp_path):
    path = tmp_path / "plan.json"
    said = rows(call("plan", *NAMED, *GAUSSIAN, *CLOSED, "--output", path))
    assert said["noise"].strip() == "Gaussian, sigma 16.91335"
    assert said["GDP"].strip() == "mu 0.05912491, which is rho 0.001747878 of zCDP"
    assert said["leakage"].strip() == "at most 1 at delta 1e-6; 1 is allowed"
    assert "by more than a factor 5.44 with probability at most 2e-6" in said["guarantee"]
    plan = ut.Plan.from_json(path.read_text())
    assert plan.delta == 1e-6
    assert plan.noise.amount == pytest.approx(16.9133455890, rel=1e-9)


# --- from a plan to an answer ---------------------------------------------------------------------


@pytest.mark.usefixtures("scenario")
@pytest.mark.parametrize("noise", ["gaussian", "discrete-gaussian"])
def test_from_a_plan_to_an_answer(noise):
    made = call("plan", *NAMED, *GAUSSIAN[:-1], noise, *CLOSED, "--output", "normal.plan")
    assert made.exit_code == 0
    foretold = release("--dry-run", plan="normal.plan", account=())
    assert ("mu " if noise == "gaussian" else "rho ") in rows(foretold)["spends"]
    files = ("--output", "a.json", "--report", "r.html")
    said = rows(release(*files, plan="normal.plan", account=()))
    assert "by more than a factor 5.44 with probability at most 2e-6" in said["guarantee"]
    page = Path("r.html").read_text()
    drawn = "rounded to a whole number" if noise == "gaussian" else "discrete Gaussian noise"
    assert drawn in page
    found = strict(Path("a.json").read_text())
    assert found["delta"] == 1e-6
    assert isinstance(found["numbers"][0]["value"], int)
    checked = call("validate", "steps.csv", *ACTIVE, "--plan", "normal.plan")
    assert checked.exit_code == 0, checked.output
