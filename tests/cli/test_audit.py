"""``undertow audit``: verdicts, exit codes, and what stands where."""

import json

import pytest

import undertow as ut
from tests.cli.calls import call, rows, strict
from undertow.certificate import Leakage

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("idle", "active"), length=20)

MIXING = ut.MarkovChain.mixing(["idle", "active"], 0.1, 0.2, 50)


def written(path, scale, model=CHAIN, query=None):
    noise = ut.DiscreteLaplace(query or ut.Count("active"), scale)
    plan = ut.Plan(noise, model, 1.0, Leakage(1.0, 1.0, "as sold", "any"), "exact")
    path.write_text(plan.to_json())
    return path


@pytest.fixture
def kept(tmp_path):
    return written(tmp_path / "kept.json", 3.9948)


@pytest.fixture
def broken(tmp_path):
    return written(tmp_path / "broken.json", 1.0)


def test_a_kept_guarantee(kept):
    result = call("audit", kept, "--draws", 2000, "--seed", 1)
    assert result.exit_code == 0
    assert not result.stderr
    assert result.stdout.startswith("The guarantee is consistent with the audit")
    said = rows(result)
    assert said["guarantee"].strip() == (
        "a leakage of at most 1 to an attacker who knows any other records"
    )
    assert "with 95% confidence" in said["found"]
    assert said["randomness"].strip() == "insecure, seed 1"


def test_a_broken_guarantee_exits_with_one(broken):
    result = call("audit", broken, "--draws", 2000, "--seed", 1)
    assert result.exit_code == 1
    assert not result.stderr
    assert result.stdout.startswith("The guarantee is REFUTED")
    lower = float(rows(result)["found"].split()[2].rstrip(","))
    assert 1.0 < lower < 3.5
    assert rows(result)["attack"].strip().startswith("target record 10 of 20")


def test_json(kept, broken):
    for path, code in ((kept, 0), (broken, 1)):
        result = call("audit", path, "--draws", 2000, "--seed", 1, "--json")
        assert result.exit_code == code
        assert not result.stderr
        found = strict(result.stdout)
        assert found["verdict"] == ("refuted" if code else "consistent")
        assert (found["lower"] > found["limit"]) == bool(code)
        assert found["draws"] == 2000
        assert found["plan"] == json.loads(path.read_text())["checksum"]
        assert set(found["attack"]) >= {"target", "known", "value", "other"}


def test_a_guarantee_with_a_delta(tmp_path):
    for sigma, code in ((6.8649, 0), (2.0, 1)):
        claim = Leakage(1.0, 1.0, "as sold", "any", delta=0.01)
        noise = ut.Gaussian(ut.Count("active"), sigma)
        plan = ut.Plan(noise, CHAIN, 1.0, claim, "exact", delta=0.01, releases=2 - code)
        path = tmp_path / f"{code}.json"
        path.write_text(plan.to_json())
        result = call("audit", path, "--draws", 2000, "--seed", 1)
        assert result.exit_code == code
        said = rows(result)
        assert said["guarantee"].strip() == (
            "a leakage of at most 1 at delta 0.01 (odds that move by more than a factor 5.44 with "
            "probability at most 0.02) to an attacker who knows any other records"
        )
        assert "at delta 0.01, with 95% confidence" in said["found"]
        assert ("2 releases together, target" in said["attack"]) == (not code)
        found = strict(call("audit", path, "--draws", 2000, "--seed", 1, "--json").stdout)
        assert (found["delta"], found["releases"]) == (0.01, 2 - code)
    found = strict(call("audit", path, "--draws", 2000, "--delta", 0.9, "--json").stdout)
    assert (found["delta"], found["verdict"]) == (0.9, "consistent")


def test_secure_noise_is_the_default(kept):
    found = strict(call("audit", kept, "--draws", 1000, "--json").stdout)
    assert found["randomness"] == "secure"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path / "none.json", "no such file"),
        (lambda path: written(path / "m.json", 9.0, MIXING), "MixingClass"),
        (lambda path: written(path / "g.json", 9.0, ut.Groups(2), ut.Histogram()), "Histogram"),
    ],
)  # fmt: skip
def test_refusals(make, words, tmp_path):
    path = make(tmp_path)
    result = call("audit", path, "--draws", 1000)
    assert result.exit_code == 1
    assert words in result.stderr
    assert not result.stdout
    assert len(result.stderr.splitlines()) == 1
    told = call("audit", path, "--draws", 1000, "--json")
    assert told.exit_code == 1
    assert words in strict(told.stdout)["message"]


def test_a_damaged_plan_is_refused(kept):
    kept.write_text(kept.read_text().replace("3.9948", "0.9948"))
    result = call("audit", kept)
    assert result.exit_code == 1
    assert "checksum" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--draws", "10"),
        ("--draws", "many"),
        ("--confidence", "1"),
        ("--limit", "0"),
        ("--delta", "1"),
        ("--seed", "-1"),
        ("--attackers", "all"),
    ],
)
def test_wrong_usage(words, kept):
    result = call("audit", *([kept] if words else []), *words)
    assert result.exit_code == 2
    assert not result.stdout
