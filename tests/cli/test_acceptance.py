"""``--accept``: a model whose checks failed is refused, and what is accepted stands first."""

import json

import pytest

import undertow as ut
from tests.cli.calls import call, call_json, rows, strict
from undertow.models.fitting.checks import Check
from undertow.models.registry import model_to_dict

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=("idle", "active"))
OTHER = ut.MarkovChain([[0.95, 0.05], [0.05, 0.95]], states=("idle", "active"))
CHECKS = (
    Check("order", "failed", "two records predict more", "public", OTHER),
    Check("memory", "failed", "it is longer", "public"),
    Check("time", "passed", "no drift", "public"),
    Check("hours", "not tested", "no clock", "public"),
)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    described = model_to_dict(CHAIN.with_checks(CHECKS))
    (tmp_path / "model.json").write_text(json.dumps(described))
    (tmp_path / "week.csv").write_text("state\n" + "idle\nactive\nactive\n" * 40)
    return tmp_path


MODEL = ("--model", "model.json")


def row(result, label):
    """Return one row of the first table that a command prints."""
    for line in result.stdout.splitlines():
        if line.strip().startswith(f"{label}  "):
            return line.strip().removeprefix(label).strip()
    raise AssertionError(result.stdout)


PLAN = ("plan", *MODEL, "--count", "active", "--limit", "1")
CREATE = ("ledger", "create", "year.db", "--dataset", "w25", *MODEL, "--limit", "1")
BUDGET = ("leakage", *MODEL, "--limit", "1")


@pytest.mark.parametrize("asked", [(*PLAN, "--output", "plan.json"), CREATE, BUDGET])
def test_failed_checks_are_refused_with_what_to_do(files, asked):
    before = {path.name for path in files.iterdir()}
    refused = call(*asked)
    assert refused.exit_code == 1
    said = " ".join(refused.stderr.split())
    assert "'order' and 'memory'" in said
    assert "--accept order,memory" in said
    assert "not bounded" in said
    assert "a leakage of up to" in said
    part = call(*asked, "--accept", "order")
    assert part.exit_code == 1
    assert "--accept order,memory" in " ".join(part.stderr.split())
    wrong = call(*asked, "--accept", "order,memory,time")
    assert wrong.exit_code == 1
    assert "'time' did not fail" in " ".join(wrong.stderr.split())
    assert call(*asked, "--accept", "order,,memory").exit_code == 2
    assert {path.name for path in files.iterdir()} == before
    assert call(*asked, "--accept", "order, memory").exit_code == 0


def test_the_promise_begins_with_it(files):
    said = call(*PLAN, "--accept", "order,memory", "--output", "plan.json")
    assert row(said, "guarantee").startswith("not bounded")
    text = " ".join(said.stdout.split())
    assert text.index("not bounded") < text.index("2.72")
    assert "failed and were accepted" in text
    plan = ut.Plan.from_json((files / "plan.json").read_text())
    assert plan.accepted == ("order", "memory")
    out = call("release", "week.csv", "--plan", "plan.json", "--value", "state", "--json")
    assert out.exit_code == 0, out.output
    assert "not bounded" in json.dumps(strict(out.stdout))
    report = call("release", "week.csv", "--plan", "plan.json", "--value", "state")
    text = " ".join(report.stdout.split())
    assert text.index("not bounded") < text.index("2.72")


def test_a_plan_that_was_made_before_is_refused(files):
    assert call(*PLAN, "--accept", "order,memory", "--output", "plan.json").exit_code == 0
    from undertow.plan import checksum

    body = json.loads((files / "plan.json").read_text())
    del body["accepted"], body["checksum"]
    (files / "plan.json").write_text(json.dumps({**body, "checksum": checksum(body)}))
    refused = call("release", "week.csv", "--plan", "plan.json", "--value", "state")
    assert refused.exit_code == 1
    assert "--accept order,memory" in " ".join(refused.stderr.split())


def test_an_account_tells_what_was_accepted():
    made = call_json(*CREATE, "--accept", "order,memory")
    assert made["accepted"] == ["order", "memory"]
    assert made["conditions"][0].startswith("not bounded")
    shown = call("ledger", "show", "year.db")
    assert "not bounded" in rows(shown)["limit"]
    assert call_json("ledger", "show", "year.db")["accepted"] == ["order", "memory"]


def test_a_budget_says_what_it_rests_on():
    said = call_json(*BUDGET, "--accept", "order,memory")
    assert said["conditions"][0].startswith("not bounded")
    assert any("leakage" in clause for clause in said["conditions"])
    misplaced = call("leakage", *MODEL, "--epsilon", "1", "--accept", "order,memory")
    assert misplaced.exit_code == 2


def test_a_leakage_a_comparison_and_a_renewal_say_it_without_being_asked():
    leak = call_json("leakage", *MODEL, "--epsilon", "1")
    assert "'order' and 'memory' failed" in leak["conditions"][0]
    assert "failed" in rows(call("leakage", *MODEL, "--epsilon", "1"))["assumes"]
    asked = ("compare", *MODEL, "--count", "active", "--limit", "1", "--method", "exchange")
    assert "failed" in row(call(*asked), "guarantee")
    assert "failed" in " ".join(call_json(*asked)["conditions"])
    renewed = call_json("leakage", *MODEL, "--epsilon", "1", "--renew", "day")
    assert "not bounded" in renewed["assumptions"][0]


def test_a_certificate_says_it(files):
    asked = ("leakage", *MODEL, "--epsilon", "1", "--certificate", "c.json")
    assert call(*asked).exit_code == 0
    assert "not bounded" in call_json("verify", "c.json")["conditions"][0]
    assert "not bounded" in rows(call("verify", "c.json"))["holds"]
