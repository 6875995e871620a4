"""``undertow fit --private``: paid by an account, repeated for nothing, and planned under."""

import shutil
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import call, strict

NAMES = ("inactive", "active")
TRUTH = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], NAMES)
WIDE = ut.MarkovChain.box([[0.75, 0.08], [0.2, 0.5]], [[0.92, 0.25], [0.5, 0.8]], NAMES)
ACTIVE = ("steps.csv", "--value", "steps", "--state", "steps > 0")
ACCOUNT = ("--ledger", "year.db", "--dataset", "w25")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table and an account of which nothing is spent, computed once."""
    folder = tmp_path_factory.mktemp("study")
    steps = [12 if one == "active" else 0 for one in TRUTH.simulate(10_000, seed=1)]
    (folder / "steps.csv").write_text("steps\n" + "\n".join(map(str, steps)) + "\n")
    ut.Ledger(folder / "year.db", "w25", model=WIDE, limit=1.0, memory=False)
    return folder


@pytest.fixture
def study(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def test_learn_plan_and_release(study):
    first = call("fit", *ACTIVE, "--private", 0.09, *ACCOUNT, "--narrow", "--output", "region.json")
    assert first.exit_code == 0, first.stderr
    assert "disclosure" not in first.stderr  # it is none
    assert "account     under the region now" in first.stdout
    limit = first.stdout.split("a plan with --limit ")[1].split()[0]
    plan = call("plan", "--model", "region.json", "--count", "active", "--limit", limit,
                "--output", "plan.json")  # fmt: skip
    assert plan.exit_code == 0, plan.stderr
    assert "computed from a private fit" in plan.stdout
    out = call("release", *ACTIVE, "--plan", "plan.json", *ACCOUNT, "--report", "report.txt")
    assert out.exit_code == 0, out.stderr
    report = " ".join(Path("report.txt").read_text().split())
    assert "misses the true chain with probability at most 0.05" in report
    assert "not for an attacker who is unsure which of them is" in report
    ledger = ut.Ledger("year.db", "w25")
    assert ledger.leakage().proves(1.0)
    again = call("fit", *ACTIVE, "--private", 0.09, *ACCOUNT, "--json")
    assert (
        strict(again.stdout)["noisy_counts"]
        == strict(call("fit", *ACTIVE, "--private", 0.09, *ACCOUNT, "--json").stdout)[
            "noisy_counts"
        ]
    )
    assert ledger.level() == pytest.approx(ut.Ledger("year.db", "w25").level())


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--private", 0.06), 2, "go together"),
        (("--private", 0.06, *ACCOUNT, "--prior", 1), 2, "--private goes with"),
        (("--narrow",), 2, "go with --private"),
        (("--private", 5, *ACCOUNT), 1, "level"),
        (("--private", 1e-6, *ACCOUNT), 1, "would be needed"),
        (("--private", 0.06, "--ledger", "none.db", "--dataset", "w25"), 1, "none.db"),
        (("--private", 0.06, *ACCOUNT, "--confidence", 2), 1, "confidence"),
    ],
)
def test_refusals_spend_nothing(study, more, code, said):
    result = call("fit", *ACTIVE, *more)
    assert result.exit_code == code
    assert said in " ".join(result.stderr.split())
    assert ut.Ledger("year.db", "w25").level() == 0
