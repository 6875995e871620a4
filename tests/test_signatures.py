"""Signed plans: who vouches for a file, and what happens to one that was changed."""

import base64
import json
import stat
from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

import undertow as ut
from tests.plan_mutations import signed
from undertow.cli.app import app
from undertow.cli.files import read_plan, read_trusted
from undertow.cli.keys import keys_app
from undertow.errors import InvalidInput, InvalidPlan
from undertow.plan import check_private, new_key, parse, public_key, sign, verified

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
    assert verified(parse(text), [public]) == public
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
        verified(parse(text), [eve])
    with pytest.raises(InvalidInput, match="a public key is one line"):
        ut.Plan.from_json(text, trusted=["ann"])


def test_signing_again_replaces_the_signature(keys):
    twice = sign(sign(PLAN.to_json(), keys["ann"][0]), keys["eve"][0])
    assert verified(parse(twice), [keys["eve"][1]]) == keys["eve"][1]


@pytest.mark.parametrize("trust", [False, True])
def test_what_was_changed_after_signing_is_refused_always(keys, trust):
    private, public = keys["ann"]
    trusted = [public] if trust else None
    body = json.loads(sign(PLAN.to_json(), private))
    edited = signed({**body, "limit": 2.0})
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


# --- keys under which anybody can sign ------------------------------------------------------------

PRIME = 2**255 - 19
D = -121665 * pow(121666, -1, PRIME) % PRIME
ORDER = 2**252 + 27742317777372353535851937790883648493


def added(one, other):
    """The sum of two points of the twisted Edwards curve -x^2 + y^2 = 1 + d x^2 y^2."""
    (x1, y1), (x2, y2) = one, other
    both = D * x1 * x2 * y1 * y2
    return (
        (x1 * y2 + x2 * y1) * pow(1 + both, -1, PRIME) % PRIME,
        (y1 * y2 + x1 * x2) * pow(1 - both, -1, PRIME) % PRIME,
    )


def times(number, point):
    found = (0, 1)
    while number:
        found, point = (added(found, point) if number & 1 else found), added(point, point)
        number >>= 1
    return found


def points_of(y):
    """The points of the curve with this y."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, PRIME) % PRIME
    root = pow(square, (PRIME + 3) // 8, PRIME)
    for x in (root, root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME):
        if x * x % PRIME == square:
            return {(x, y), (-x % PRIME, y)}
    return set()


@cache
def torsion():
    """The eight points whose order divides 8: what is left of any point times the prime order."""
    found = {times(ORDER, point) for y in range(2, 40) for point in points_of(y)}
    return {added(one, other) for one in found for other in found}


def encodings():
    """All texts of 32 bytes that mean a point of small order: also y + p, and a sign of x = 0."""
    found = set()
    for x, y in torsion():
        for shifted in (y, y + PRIME):
            signs = {0, 1} if x == 0 else {x & 1}
            found |= {shifted | sign << 255 for sign in signs if shifted < 2**255}
    return sorted(number.to_bytes(32, "little") for number in found)


def named(raw):
    return f"ed25519:{base64.b64encode(raw).decode()}"


def test_there_are_eight_such_points_and_fourteen_encodings():
    assert len(torsion()) == 8
    assert all(times(8, point) == (0, 1) for point in torsion())
    assert len(encodings()) == 14


@pytest.mark.parametrize("raw", encodings(), ids=bytes.hex)
def test_keys_of_small_order_are_refused_read_and_trusted(keys, raw):
    with pytest.raises(InvalidInput, match="anybody can sign"):
        public_key(named(raw))
    text = sign(PLAN.to_json(), keys["ann"][0])
    with pytest.raises(InvalidInput, match="anybody can sign"):
        ut.Plan.from_json(text, trusted=[keys["ann"][1], named(raw)])
    body = json.loads(text)
    body["signature"]["public_key"] = named(raw)
    for trusted in (None, [named(raw)]):
        with pytest.raises((InvalidPlan, InvalidInput), match="anybody can sign"):
            ut.Plan.from_json(json.dumps(body), trusted=trusted)


def test_a_signature_that_anybody_makes_is_refused():
    """Under the neutral point R = S B verifies for every message, and S = 0 needs no arithmetic."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    neutral, nothing = (1).to_bytes(32, "little"), bytes(32)
    Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + nothing, b"whatever")
    body = json.loads(PLAN.to_json())
    body["signature"] = {
        "algorithm": "ed25519",
        "public_key": named(neutral),
        "signature": base64.b64encode(neutral + nothing).decode(),
    }
    with pytest.raises(InvalidPlan, match="anybody can sign"):
        ut.Plan.from_json(json.dumps(body))


@pytest.mark.parametrize("y", [PRIME, PRIME + 2, PRIME + 3, 2**255 - 1])
@pytest.mark.parametrize("sign_of_x", [0, 1])
def test_second_encodings_of_a_key_are_refused(y, sign_of_x):
    with pytest.raises(InvalidInput, match="no canonical encoding"):
        public_key(named((y | sign_of_x << 255).to_bytes(32, "little")))


def test_second_spellings_of_a_key_are_refused(keys):
    """The last letter of 32 bytes has two bits to spare."""
    public = keys["ann"][1]
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = letters[letters.index(public[-2]) + 1]
    with pytest.raises(InvalidInput, match="a public key is one line"):
        public_key(f"{public[:-2]}{last}=")


def test_only_whole_plans_are_signed(keys, tmp_path):
    private, _ = keys["ann"]
    body = json.loads(PLAN.to_json())
    with pytest.raises(InvalidPlan, match="it is not signed"):
        sign(json.dumps({**body, "limit": 2.0}), private)
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
    assert verified(parse(shown.stdout), [public]) == public


def test_a_plan_is_not_searched_for_a_key_that_is_none(tmp_path):
    (tmp_path / "text").write_text("no key")
    said = run(*ASK, "--sign", tmp_path / "text")
    assert said.exit_code == 1
    assert "no private key for plans" in said.stderr
    with pytest.raises(InvalidInput, match="cannot read the key file"):
        read_trusted([str(tmp_path / "none.pub")])
