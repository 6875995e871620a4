"""`undertow plan`: every option, the file it writes, and what happens when it cannot."""

import errno
import json
import os

import pytest

import undertow as ut
from tests.cli.calls import NAMED, apart, call, call_json, rows, strict
from tests.processes import small_files
from undertow.errors import InvalidPlan
from undertow.methods import METHODS as REGISTRY
from undertow.methods import method_names, methods_for

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
ASKED = ("plan", *NAMED, "--count", "active", "--limit", 1)


def test_json_is_the_plan():
    result = call(*ASKED, "--json")
    strict(result.stdout)
    assert ut.Plan.from_json(result.stdout) == ut.calibrate(ut.Count("active"), ACTIVITY, 1.0)


def test_words():
    said = rows(call(*ASKED))
    assert "scale 3.994795" in said["noise"]
    assert said["DP level"].strip() == "0.2503258"
    assert "1 is allowed" in said["leakage"]
    assert said["expected error"].startswith("3.953")
    assert said["error bar"].strip() == "within 12 with probability 95%"
    assert "an attacker who knows any other records" in said["guarantee"]
    assert "factor 2.72" in said["guarantee"]
    assert said["method"].strip() in METHODS


NUMBERED = ("--values", "inactive=0.5,active=3")


def test_what_missing_records_are():
    for missing, state in (("any", None), ("none", "inactive"), ("active", "active")):
        said = call(
            "plan", *NAMED, "--count", "active", "--missing", missing, "--limit", 1, "--json"
        )
        plan = ut.Plan.from_json(said.stdout)
        assert (plan.missing, plan.rest) == (missing, state)
    said = call("plan", *NAMED, "--histogram", "--missing", "asleep", "--limit", 1)
    assert said.exit_code == 1
    assert "a state of the model" in said.output
    said = call("plan", *NAMED, "--series", "--missing", "any", "--limit", 3)
    assert said.exit_code == 1
    assert "--missing none" in said.output


def test_values_are_needed_where_states_are_no_numbers():
    said = call("plan", *NAMED, "--sum", "0,5", "--limit", 1)
    assert said.exit_code == 1
    assert "--values" in said.output
    for typed in ("inactive", "inactive=x"):
        assert call("plan", *NAMED, "--sum", "0,5", "--values", typed, "--limit", 1).exit_code == 2
    for typed in ("inactive=1", "inactive=1,asleep=2"):
        assert call("plan", *NAMED, "--sum", "0,5", "--values", typed, "--limit", 1).exit_code == 1
    said = call("plan", *NAMED, "--count", "active", *NUMBERED, "--limit", 1)
    assert said.exit_code == 2


def test_steps_belong_to_a_sum():
    said = call("plan", *NAMED, "--count", "active", "--steps", 5, "--limit", 1)
    assert said.exit_code == 2
    assert "--steps goes with --sum" in said.output


METHODS = REGISTRY["answer"]
SHORT = ut.MarkovChain(ACTIVITY.transition, ACTIVITY.states, length=20)


def test_every_method_can_be_named():
    named = method_names()
    assert named[: len(METHODS) + 1] == ["best", *METHODS]
    assert {*named} == {"best", *METHODS, *REGISTRY["flip"], *REGISTRY["redact"]}
    said = call(*ASKED, "--method", "magic").stderr
    assert all(f"'{name}'" in said for name in named)
    assert len({*named}) == len(named)


@pytest.mark.parametrize("method", ["best", *methods_for(SHORT)])
def test_methods(method):
    limit = 4 if method == "optimal" else 12  # tables do not reach so far
    asked = (*ASKED[:-1], limit, "--length", 20, "--against", "ignorant", "--method", method)
    found = call_json(*asked)
    assert found["method"] in METHODS
    assert method in ("best", found["method"])
    plan = ut.calibrate(ut.Count("active"), SHORT, float(limit), "ignorant", method=method)
    told = plan.mechanism.to_dict()
    assert {name: found[name] for name in told} == told
    said = rows(call(*asked))["method"].strip()
    published = not METHODS[found["method"]].certified
    assert said == found["method"] + published * " (as published; the leakage below is certified)"


@pytest.mark.parametrize("against", ["any", "ignorant", "informed"])
def test_against(against):
    found = call_json(*ASKED, "--against", against)
    assert found["leakage"]["against"] == against


@pytest.mark.parametrize("option", [("--valid-for", "any"), ("--secret", "person")])
def test_a_series_has_neither_shape_nor_unit(option):
    result = call("plan", *NAMED, "--series", "--limit", 1, *option)
    assert result.exit_code == 2
    assert f"{option[0]} goes with a query such as --count" in result.output


def test_a_file_is_not_replaced_unless_forced(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("mine")
    refused = call(*ASKED, "--output", path)
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert path.read_text() == "mine"
    assert call(*ASKED, "--output", path, "--force").exit_code == 0
    assert ut.Plan.from_json(path.read_text()).limit == 1.0


@pytest.mark.parametrize("call_name", ["fsync", "replace"])
@pytest.mark.parametrize("forced", [False, True])
def test_a_failed_write_leaves_nothing_and_keeps_the_old_file(
    tmp_path, monkeypatch, call_name, forced
):
    path = tmp_path / "plan.json"
    if forced:
        path.write_text("mine")

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call_name, fail)
    result = call(*ASKED, "--output", path, *(["--force"] if forced else []))
    assert result.exit_code == 1
    assert result.stderr == f"undertow: cannot write {path}: no space left on device\n"
    assert not result.stdout
    assert [p.name for p in tmp_path.iterdir()] == (["plan.json"] if forced else [])
    if forced:
        assert path.read_text() == "mine"


def test_a_full_disk_leaves_no_file(tmp_path):
    done = apart(*ASKED, "--output", "plan.json", cwd=tmp_path, prepare=(small_files, 200))
    assert done.returncode == 1
    assert done.stderr.startswith("undertow: cannot write plan.json:")
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_an_unwritable_directory_is_one_clear_error(tmp_path):
    tmp_path.chmod(0o555)
    result = call(*ASKED, "--output", tmp_path / "plan.json")
    assert result.exit_code == 1
    assert "permission denied" in result.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "it is a directory"),
        ("no/such/plan.json", "there is no directory"),
        ("x" * 300, "cannot write"),
    ],
)
def test_impossible_places(tmp_path, name, words):
    result = call(*ASKED, "--output", tmp_path / name, "--force")
    assert result.exit_code == 1
    assert words in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_plan_edited_by_hand_is_refused(tmp_path):
    path = tmp_path / "plan.json"
    call(*ASKED, "--output", path)
    body = json.loads(path.read_text())
    body["scale"] /= 2
    with pytest.raises(InvalidPlan, match="checksum"):
        ut.Plan.from_json(json.dumps(body))
    with pytest.raises(InvalidPlan, match="not JSON"):
        ut.Plan.from_json(path.read_text()[:-20])
