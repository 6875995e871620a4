"""Signed plans: who vouches for a file, and what happens to one that was changed."""

import json
import stat
from typing import Any

import pytest
from typer.testing import CliRunner

import undertow as ut
from tests.plan_mutations import signed
from undertow.cli.app import app
from undertow.cli.files import read_plan, read_trusted
from undertow.cli.keys_command import keys_app
from undertow.errors import InvalidInput, InvalidPlan
from undertow.signatures import check_private, check_signature, new_key, public_key, sign

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], ("inactive", "active"))
PLAN = ut.calibrate(ut.Count("active"), CHAIN, 1.0)


@pytest.fixture
def keys(tmp_path):
    """Two key files and their public keys."""
    return {name: (tmp_path / name, new_key(tmp_path / name)) for name in ("ann", "eve")}


def test_a_key_is_a_secret_file_and_a_public_one(tmp_path):
    public = new_key(tmp_path / "curator")
    private = tmp_path / "curator"
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert b"PRIVATE KEY" in private.read_bytes()
    assert (tmp_path / "curator.pub").read_text() == public + "\n"
    assert public_key(f" {public}\n") == check_private(private) == public
    assert new_key(tmp_path / "another") != public
    before = private.read_bytes()
    with pytest.raises(InvalidInput, match="exists; choose another name"):
        new_key(private)
    (tmp_path / "half.pub").write_text("taken")
    with pytest.raises(InvalidInput, match=r"half\.pub exists"):
        new_key(tmp_path / "half")
    assert not (tmp_path / "half").exists()
    assert private.read_bytes() == before
    with pytest.raises(InvalidInput, match="cannot write"):
        new_key(tmp_path / "no" / "folder")


def test_a_signed_plan_is_the_same_plan(keys):
    private, public = keys["ann"]
    text = sign(PLAN.to_json(), private)
    for trusted in (None, [public], [keys["eve"][1], public]):
        again = ut.Plan.from_json(text, trusted=trusted)
        assert again == PLAN
        assert again.fingerprint() == PLAN.fingerprint()
    assert check_signature(text, [public]) == public
    shuffled = json.dumps(dict(reversed(json.loads(text).items())))
    assert ut.Plan.from_json(shuffled, trusted=[public]) == PLAN


def test_unsigned_and_foreign_plans_are_refused_where_trust_is_asked_for(keys):
    (private, ann), (_, eve) = keys["ann"], keys["eve"]
    with pytest.raises(InvalidPlan, match="is not signed"):
        ut.Plan.from_json(PLAN.to_json(), trusted=[ann])
    text = sign(PLAN.to_json(), private)
    with pytest.raises(InvalidPlan, match="not among the trusted keys"):
        ut.Plan.from_json(text, trusted=[eve])
    with pytest.raises(InvalidPlan, match="not among the trusted keys"):
        ut.Plan.from_json(text, trusted=[])
    with pytest.raises(InvalidPlan, match="not among the trusted keys"):
        check_signature(text, [eve])
    with pytest.raises(InvalidInput, match="a public key is one line"):
        ut.Plan.from_json(text, trusted=["ann"])


def test_signing_again_replaces_the_signature(keys):
    twice = sign(sign(PLAN.to_json(), keys["ann"][0]), keys["eve"][0])
    assert check_signature(twice, [keys["eve"][1]]) == keys["eve"][1]


@pytest.mark.parametrize("trust", [False, True])
def test_what_was_changed_after_signing_is_refused_always(keys, trust):
    private, public = keys["ann"]
    trusted = [public] if trust else None
    body = json.loads(sign(PLAN.to_json(), private))
    edited = signed({**body, "epsilon": 2.0})
    with pytest.raises(InvalidPlan, match="edited after it was signed"):
        ut.Plan.from_json(edited, trusted=trusted)
    moved = {**json.loads(ut.calibrate(ut.Count("active"), CHAIN, 2.0).to_json())}
    moved["signature"] = body["signature"]
    with pytest.raises(InvalidPlan, match="edited after it was signed"):
        ut.Plan.from_json(json.dumps(moved), trusted=trusted)
    swapped = {**body, "signature": {**body["signature"], "public_key": keys["eve"][1]}}
    with pytest.raises(InvalidPlan, match="does not match"):
        ut.Plan.from_json(json.dumps(swapped), trusted=trusted)


BROKEN: list[Any] = [None, "yes", 5, [], {}, {"algorithm": "ed25519"}, {"extra": 1}]


@pytest.mark.parametrize("fault", BROKEN, ids=repr)
@pytest.mark.parametrize("trust", [False, True])
def test_malformed_signatures_are_refused_always(keys, fault, trust):
    private, public = keys["ann"]
    body = json.loads(sign(PLAN.to_json(), private))
    good = body["signature"]
    wrong = {**good, **fault} if fault == {"extra": 1} else fault
    tries = [wrong]
    for part in good:
        others: list[Any] = [None, 7, "", "%%%", good[part][:-4], []]
        tries += [{**good, part: other} for other in others]
        tries.append({key: value for key, value in good.items() if key != part})
    for signature in tries:
        with pytest.raises(InvalidPlan, match="signature"):
            ut.Plan.from_json(
                json.dumps({**body, "signature": signature}), trusted=[public] if trust else None
            )


def test_only_whole_plans_are_signed(keys, tmp_path):
    private, _ = keys["ann"]
    body = json.loads(PLAN.to_json())
    with pytest.raises(InvalidPlan, match="it is not signed"):
        sign(json.dumps({**body, "epsilon": 2.0}), private)
    with pytest.raises(InvalidPlan, match="not a plan file"):
        sign("{}", private)
    with pytest.raises(InvalidInput, match="cannot read the key file"):
        sign(PLAN.to_json(), tmp_path / "none")
    (tmp_path / "text").write_text("no key")
    with pytest.raises(InvalidInput, match="no private key for plans"):
        sign(PLAN.to_json(), tmp_path / "text")


# --- commands -------------------------------------------------------------------------------------

ASK = ("plan", "--transition", "0.882,0.118;0.305,0.695", "--states", "inactive,active",
       "--count", "active", "--limit", "1")  # fmt: skip


def run(*args, of=app):
    return CliRunner().invoke(of, [str(arg) for arg in args])


def test_keys_and_plans_on_the_command_line(tmp_path):
    key, target = tmp_path / "ann", tmp_path / "plan.json"
    made = run("new", key, "--json", of=keys_app)
    assert made.exit_code == 0, made.output
    public = json.loads(made.stdout)["key"]
    assert run("new", key, of=keys_app).exit_code == 1
    assert "keep it secret" in run("new", tmp_path / "bob", of=keys_app).stdout
    assert run(*ASK, "--sign", key, "--output", target).exit_code == 0
    assert read_plan(target, trusted=[public]) == read_plan(target)
    assert read_trusted([f"{key}.pub"]) == read_trusted([public]) == [public]
    assert read_trusted([]) is read_trusted(None) is None
    with pytest.raises(InvalidPlan, match="not among the trusted"):
        read_plan(target, trusted=read_trusted([str(tmp_path / "bob.pub")]))
    shown = run(*ASK, "--sign", key, "--json")
    assert check_signature(shown.stdout, [public]) == public


def test_a_plan_is_not_searched_for_a_key_that_is_none(tmp_path):
    (tmp_path / "text").write_text("no key")
    said = run(*ASK, "--sign", tmp_path / "text")
    assert said.exit_code == 1
    assert "no private key for plans" in said.stderr
    with pytest.raises(InvalidInput, match="cannot read the key file"):
        read_trusted([str(tmp_path / "none.pub")])
