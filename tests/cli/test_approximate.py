"""Approximate guarantees on the command line: leakage, budget, plan, compare, release, report."""

import json
import math
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import CHAIN, NAMED, call, call_json, rows, strict
from tests.cli.scenario import ACTIVE, release, scenario

__all__ = ["scenario"]

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
GAUSSIAN = ("--count", "active", "--limit", 1, "--delta", 1e-6, "--noise", "gaussian")
CLOSED = ("--method", "closed")
PNG = b"\x89PNG"


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


def test_gaussian_noise_on_an_answer(couples):
    for query, asked in (
        (ut.Sum(0, 1), ("--sum", "0,1")),
        (ut.Sum(0, 3), ("--sum", "0,3", "--noise", "gaussian")),
    ):
        found = call_json("leakage", *couples, *asked, "--sigma", 9, "--delta", 1e-6)
        wanted = ut.leakage(ut.Gaussian(query, 9.0), ut.Groups(2), delta=1e-6)
        assert found["upper"] == wanted.upper
    said = rows(call("leakage", *couples, "--sum", "0,1", "--sigma", 9, "--delta", 1e-6))
    assert "Gaussian noise of sigma 9" in said["question"]


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


def test_a_budget_without_a_delta_is_a_level():
    found = call_json("leakage", *CHAIN, "--limit", 1)
    (assumed,) = found.pop("assumptions")
    assert "reads the states of records alone" in assumed
    assert found == {
        "limit": 1.0, "against": "any", "epsilon": ut.dp_budget(ACTIVITY, 1.0),
        "conditions": ["the model was not checked against records"],
    }  # fmt: skip
    assert "a DP level of 0.2503257" in call("leakage", *CHAIN, "--limit", 1).stdout


def test_nothing_can_leak():
    certain = ("--transition", "1,0;0,1", "--start", "1,0", "--length", 3)
    for more in ((), ("--delta", 1e-6)):
        result = call("leakage", *certain, "--limit", 1, *more)
        assert result.exit_code == 0
        assert "whatever you like" in result.stdout


# --- figures --------------------------------------------------------------------------------------


def test_the_curve_is_drawn(couples, tmp_path):
    path = tmp_path / "curve.png"
    asked = ("leakage", *couples, "--mu", 0.1, "--delta", 1e-6, "--figure", path)
    assert call_json(*asked)["figure"] == str(path)
    assert path.read_bytes().startswith(PNG)
    assert call(*asked).exit_code == 1
    result = call(*asked, "--force")
    assert str(path) in rows(result)["figure"]


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


def test_a_plan_for_many_releases():
    asked = ("plan", *NAMED, "--count", "active", "--limit", 1, "--delta", 1e-6, *CLOSED)
    said = rows(call(*asked, "--releases", 52))
    assert said["noise"].strip() == "Gaussian, sigma 121.9639"
    assert said["releases"].startswith(" 52 on the same records") or "52 on the" in said["releases"]
    plan = ut.Plan.from_json(call(*asked, "--releases", 52, "--json").stdout)
    assert plan.releases == 52


def test_a_plan_with_discrete_noise_says_rho():
    said = rows(call("plan", *NAMED, *GAUSSIAN[:-1], "discrete-gaussian", *CLOSED))
    assert said["zCDP"].strip().startswith("rho 0.00174")
    assert "discrete Gaussian" in said["noise"]


def test_the_best_says_why():
    asked = ("plan", *NAMED, "--count", "active", "--limit", 1, "--delta", 1e-6)
    assert (
        "Laplace noise errs 3.4 times less than Gaussian noise would here"
        in (rows(call(*asked))["assumes"])
    )


def test_a_series_has_no_delta():
    result = call("plan", *NAMED, "--series", "--limit", 1, "--delta", 1e-6)
    assert result.exit_code == 2
    assert "--delta goes with a query such as --count" in " ".join(result.stderr.split())


# --- comparisons ----------------------------------------------------------------------------------


def test_a_comparison_names_the_noise():
    short = (*NAMED, "--length", 4)
    asked = ("compare", *short, *GAUSSIAN[:-1], "discrete-gaussian", "--releases", 9)
    result = call(*asked)
    assert "at most 1 at delta 1e-6 to an attacker" in result.stdout
    assert "by 9 releases together" in result.stdout
    assert "discrete-gaussian sigma" in result.stdout
    assert "exact, discrete-gaussian" in result.stdout
    found = call_json(*asked)
    assert (found["delta"], found["releases"]) == (1e-6, 9)
    assert {row["noise"] for row in found["rows"]} == {"discrete-gaussian"}
    kept = {row["method"]: row["sigma"] for row in found["rows"] if row["meets"]}
    assert kept["closed"] > 9
    assert found["best_noise"] == "discrete-gaussian"


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
