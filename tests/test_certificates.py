"""Certificates: two readers that share no code accept what is true and nothing else."""

import copy
import json
import math
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import CHAIN, call, call_json
from tests.verifier import CHECKED, agree, build, holds, judged
from undertow.certifying.arithmetic import (
    Interval,
    exp_lower,
    exp_upper,
    normalised,
    quotient,
    stationary,
)
from undertow.certifying.document import parse
from undertow.errors import InvalidCertificate, NoPublicForm, NothingToProtect, NotSupported
from undertow.models.fitting.checks import Check
from undertow.testing import enumeration

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
TURNING = ut.MarkovChain([[0.2, 0.8], [0.7, 0.3]])
THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]]
HOLES = [[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.0, 0.4, 0.6]]
GIVEN = ut.MarkovChain(THREE, start=[0.2, 0.5, 0.3])
GIVEN_SHORT = ut.MarkovChain(THREE, start=[0.2, 0.5, 0.3], length=4)
SHORT = ut.MarkovChain(THREE, length=5)
FLIPS = ut.RandomizedResponse.binary(0.2, 0.35)
# mechanism, chain, against, whether the certificate is as tight as the leakage
CASES: dict[str, Any] = {
    "level, any": (ut.PureDP(1.0), ACTIVITY, "any", True),
    "level, ignorant": (ut.PureDP(0.3), ACTIVITY, "ignorant", True),
    "level, informed": (ut.PureDP(0.3), ACTIVITY, "informed", True),
    "level, short": (ut.PureDP(2.0), ut.MarkovChain(THREE, length=6), "any", True),
    "level, given start": (ut.PureDP(0.5), GIVEN, "any", True),
    "level, impossible steps": (ut.PureDP(0.5), ut.MarkovChain(HOLES), "any", True),
    "count, lasting": (ut.DiscreteLaplace(ut.Count(1), 2.0), ACTIVITY, "any", True),
    "count, turning": (ut.Laplace(ut.Count(1), 1.0), TURNING, "any", True),
    "count, three states": (ut.Laplace(ut.Count(1), 1.5), SHORT, "any", True),
    "count, ignorant": (ut.Laplace(ut.Count([0, 2]), 1.0), GIVEN_SHORT, "ignorant", True),
    "histogram": (ut.Laplace(ut.Histogram(), 4.0), ACTIVITY, "any", True),
    "flips": (FLIPS, ACTIVITY, "any", True),
    "flips, turning": (FLIPS, TURNING, "ignorant", True),
    "flips, three states": (
        ut.RandomizedResponse([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]),
        SHORT, "any", False,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("verifier"), *CHECKED)


@pytest.fixture(scope="module")
def made():
    return {name: ut.certify(*asked[:3]) for name, asked in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_both_readers_accept_what_is_true_and_no_less(name, made, program):
    mechanism, chain, against, tight = CASES[name]
    certificate = made[name]
    leak = ut.leakage(mechanism, chain, against)
    assert certificate.upper >= leak.lower
    assert certificate.upper <= leak.upper * (1 + 1e-9 if tight else 1.1)
    assert judged(program, certificate.to_json())[0] == 0
    assert ut.verify(certificate) <= certificate.upper
    assert ut.verify(certificate.to_json()) <= certificate.upper
    least = min(certificate.upper * (1 - 1e-6), math.nextafter(leak.lower, 0))
    less = replace(certificate, claim=replace(certificate.claim, upper=least)).to_json()
    code, said = judged(program, less)
    assert code == 1
    assert said.startswith("rejected: ")
    assert not holds(less)


def brute(mechanism, chain, against):
    """Return the leakage by enumeration."""
    joint = enumeration.chain_joint(chain.initial, chain.transition, chain.length)
    if isinstance(mechanism, ut.PureDP):
        return enumeration.pure_dp_leakage(joint, mechanism.epsilon, against).leakage
    if isinstance(mechanism, ut.RandomizedResponse):
        tables = enumeration.product_channel_likelihood([mechanism.matrix] * chain.length)
    else:
        weights = [float(mechanism.query.named[0] == state) for state in chain.states]
        tables = enumeration.additive_noise_likelihood(weights, mechanism.scale, chain.length)
    return enumeration.mechanism_leakage(joint, tables, against).leakage


@pytest.mark.parametrize("against", ["any", "ignorant"])
@pytest.mark.parametrize("seed", range(2))
def test_certificates_hold_by_enumeration(seed, against, program):
    rng = np.random.default_rng(seed)
    size, length = (2, 4) if seed else (3, 2)
    start = "stationary" if seed % 2 else rng.dirichlet(np.ones(size))
    matrix = 0.05 + rng.dirichlet(np.ones(size), size)
    matrix /= matrix.sum(axis=1, keepdims=True)
    chain = ut.MarkovChain(matrix, start=start, length=length)
    asked: list[Any] = [ut.PureDP(1.2), ut.Laplace(ut.Count(0), 0.7)]
    for mechanism in [*asked, *([FLIPS] if size == 2 else [])]:
        truth = brute(mechanism, chain, against)
        certificate = ut.certify(mechanism, chain, against)
        assert truth - 1e-9 <= certificate.upper <= truth + 1e-8
        assert judged(program, certificate.to_json())[0] == 0


# --- what is rejected -----------------------------------------------------------------------------


def changed(body, path, value):
    """Return the file with one field changed."""
    new = copy.deepcopy(body)
    at = new
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(new)


def weakened(certificate):
    """Return the certificate with one field changed, so that less is proved or more claimed."""
    body = certificate.to_dict()
    kind, proof, mechanism = certificate.proof, body["proof"], body["mechanism"]
    yield changed(body, ("claim", "upper"), certificate.upper * (1 - 1e-9))
    if mechanism["kind"] == "pure-dp":
        yield changed(body, ("mechanism", "epsilon"), mechanism["epsilon"] * (1 + 1e-9))
    if "scale" in mechanism:
        yield changed(body, ("mechanism", "scale"), mechanism["scale"] * (1 - 1e-9))
    if "matrix" in mechanism:
        first = [0.8 + 1e-9, 0.2 - 1e-9]
        yield changed(body, ("mechanism", "matrix", 0), first)
    if kind == "sweep":
        for side in ("left", "right"):
            for at, entry in enumerate(proof[side]):
                less = [gain * (1 - 1e-9) for gain in entry["gains"]]
                yield changed(body, ("proof", side, at, "gains"), less)
                for mu in range(len(entry["mus"])):
                    fewer = entry["mus"][:mu] + entry["mus"][mu + 1 :]
                    yield changed(body, ("proof", side, at, "mus"), fewer)
    for row in range(2):
        away = list(body["model"]["transition"][row])
        away[row] += 1e-8
        away[1 - row] -= 1e-8
        if certificate.claim.transition[row][row] > 0.5:  # stickier leaks more
            yield changed(body, ("model", "transition", row), away)
    for side in ("left", "right") if kind == "sweep" else ():
        yield changed(body, ("proof", side), proof[side][1:])
        yield changed(body, ("proof", side), proof[side][::-1])


@pytest.mark.parametrize("name", ["level, any", "count, turning", "flips"])
def test_no_weaker_proof_and_no_stronger_claim_is_accepted(name, made, program):
    mutants = list(weakened(made[name]))
    assert len(mutants) > 1
    for mutant in mutants:
        code, said = judged(program, mutant)
        assert code == 1, (said, mutant)
        assert not holds(mutant)


ROWS: tuple[Any, ...] = (
    [0.9, 0.2], [0.5, 0.5, 0.0], [1.0], [-0.1, 1.1], ["a", "b"], [math.nextafter(0.5, 0)], 1,
)  # fmt: skip
KINDS = ("magic", None, 3, "counts", "level")
LISTS: tuple[Any, ...] = ([], [-1.0], ["x"], [1e301], [[1.0]], None, [1.0] * 70000)
WRONG: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = [
    (("version",), (0, 2, "1", True, None, 1.5)),
    (("made_by",), ([[[]]], None, 1)),
    (("claim", "against"), ("all", "", None, ["any"], "ANY")),
    (("model", "transition", 0), ROWS),
    (("model", "start"), ROWS),
    (("model", "length"), (1, -3, 2.5, "7", 10**10, [7], True)),
    (("model", "states"), (["a"], ["a", "a"], ["a", 1], "ab", ["a", "b", "c"])),
    (("model", "kind"), KINDS),
    (("mechanism", "kind"), KINDS),
    (("proof", "kind"), KINDS),
    (("proof", "steps"), (0, -1, 1.5, 10**7, "16", None)),
    (("proof", "left", 0, "mus"), LISTS),
    (("proof", "left", 0, "gains"), (*LISTS, [1.0, 0.5])),
    (("proof", "left", 0, "value"), (1, 2, -1, "0", 0.0, None)),
]
NUMBERS = (
    "NaN", "Infinity", "-1", "1e999", "601", '"3"', "null", "true", "[3.5]", "0x9", "+4", "4.",
)  # fmt: skip


def test_gains_by_records_need_every_record_swept(made, program):
    """Gains of sides that the sweep does not reach would be checked by none of its steps."""
    body = made["level, short"].to_dict()
    for steps in (1, 4):
        fewer = changed(body, ("proof", "steps"), steps)
        assert judged(program, fewer) == (
            1,
            "rejected: gains for each record need all of them swept",
        )
        assert not holds(fewer)


def malformed(body):
    text = json.dumps(body)
    yield from ("", "null", "[]", "3", text + " x", text + text, "\ufeff" + text, text[:-1])
    yield text.replace('"version": 1', '"version": 1, "version": 1')
    yield text.replace('"version": 1', '"version": 1, "more": 1')
    for path, values in WRONG:
        yield from (changed(body, path, value) for value in values)
    for written in NUMBERS:
        yield text.replace(f'"upper": {body["claim"]["upper"]!r}', f'"upper": {written}')
    yield text.replace('"made_by": "', '"made_by": "\\ud83d\\ude00\x01')
    yield '{"format":' + "[" * 100_000
    yield "[" * 5000 + "]" * 5000
    for key in body:
        yield json.dumps({name: part for name, part in body.items() if name != key})


def test_malformed_files_are_rejected_in_one_line(made, program):
    body = made["level, any"].to_dict()
    found = [*malformed(body), b"\xff\xfe{}", json.dumps(body).encode("utf-16")]
    assert len(found) > 100
    for text in found:
        code, said = judged(program, text)
        assert code == 1, (said, text[:200])
        assert said.startswith(("rejected: ", "not checkable: ")), said
        assert not holds(text), text[:200]


def test_what_weakens_a_claim_stands_in_the_file(program):
    """A certificate under a model that failed a check says so, and both readers accept it."""
    checks = [
        Check("order", "failed", "two predict more", "public"),
        Check("hours", "not tested", "none", "public"),
    ]
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
    plain = ut.certify(ut.PureDP(1.0), chain)
    assert "conditions" not in plain.to_dict()
    found = ut.certify(ut.PureDP(1.0), chain.with_checks(checks))
    assert replace(found, conditions=()) == plain
    assert "not bounded" in found.conditions[0]
    assert "'order' failed" in found.conditions[0]
    assert found.conditions[1] == "'hours' was not tested"
    assert parse(found.to_json()) == found
    assert judged(program, found.to_json())[0] == 0
    plan = ut.calibrate(ut.Count(1), chain.with_checks(checks), 1.0, accept=["order"])
    assert ut.certify(plan).conditions == found.conditions
    for check in (Check("order", "passed", "no sign"), Check("order", "failed", "two predict")):
        with pytest.raises(NoPublicForm, match="fit --private"):  # computed from private records
            ut.certify(ut.PureDP(1.0), chain.with_checks([check]))
    body = found.to_dict()
    for wrong in ([], "a", [1], [None], ["a"] * 65, {"a": "b"}):
        text = json.dumps({**body, "conditions": wrong})
        assert judged(program, text)[0] == 1
        assert not holds(text)


def test_a_state_that_floats_lose_is_no_way_round_the_proof(program):
    """Made by a version that took a reachable state for impossible: the truth is 2, not 1.97."""
    text = (Path(__file__).parent / "certificates" / "rare_steps.json").read_text("utf-8")
    assert not holds(text)
    code, line = judged(program, text)
    assert (code, line) == (1, "rejected: a gain is less than what the sweep at its mus proves")


def test_quotients_and_products_that_vanish_are_rounded_up():
    tiny = Interval(np.full(1, 1e-200), np.full(1, 1e-200))
    assert quotient(tiny, Interval(np.full(1, 1e200), np.full(1, 1e200))).high[0] > 0
    assert quotient(tiny, Interval(np.zeros(1), np.ones(1))).high[0] == math.inf
    zero = Interval(np.zeros(1), np.zeros(1))
    assert quotient(zero, tiny).high[0] == 0


@pytest.mark.parametrize("name", ["level, any", "count, three states", "flips"])
def test_mangled_files_never_part_the_readers(name, made, program):
    assert agree(program, made[name], 40, seed=len(name)) < 40


@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_mangled_files_at_length(name, made, program):
    assert agree(program, made[name], 3000, seed=7) < 3000


@pytest.mark.soak
def test_random_chains_at_length(program):
    rng = np.random.default_rng(20261118)
    for _ in range(200):
        size = int(rng.integers(2, 5))
        matrix = rng.dirichlet(np.full(size, rng.choice([0.5, 1.0, 3.0])), size) + 0.003
        matrix /= matrix.sum(axis=1, keepdims=True)
        start = "stationary" if rng.random() < 0.6 else rng.dirichlet(np.ones(size))
        length = [None, 2, 3, 9, 300][int(rng.integers(5))]
        chain = ut.MarkovChain(matrix, start=start, length=length)
        level = float(rng.choice([0.05, 0.5, 2.0, 6.0]))
        against: Any = ["any", "ignorant"][int(rng.integers(2))]
        asked: list[Any] = [ut.PureDP(level), ut.Laplace(ut.Count(0), 1 / level)]
        for mechanism in asked:
            certificate = ut.certify(mechanism, chain, against)
            leak = ut.leakage(mechanism, chain, against)
            assert leak.lower <= certificate.upper <= leak.upper + 1e-8
            assert judged(program, certificate.to_json())[0] == 0
            claim = replace(certificate.claim, upper=certificate.upper * (1 - 1e-6))
            if claim.upper < leak.lower:
                assert judged(program, replace(certificate, claim=claim).to_json())[0] == 1


def test_usage(program, tmp_path):
    for given in ([], ["a", "b"], ["--help"]):
        done = subprocess.run([program, *given], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: ")
    missing = subprocess.run([program, tmp_path / "none"], capture_output=True, check=False)
    assert missing.returncode == 1


# --- what has no certificate ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "chain", "against", "said"),
    [
        (ut.ZCDP(0.1), ACTIVITY, "any", "of ZCDP"),
        (ut.PureDP(1.0, unit="person"), ACTIVITY, "any", "of PureDP"),
        (ut.PureDP(1.0), ut.Groups(3), "any", "of a Groups"),
        (ut.PureDP(1.0), ACTIVITY, ut.Adversary(3), "a named adversary"),
        (ut.PureDP(1.0), ut.MarkovChain([[0, 1], [1, 0]], start=[0.5, 0.5]), "any", "unbounded"),
        (ut.PureDP(1.0), ut.MarkovChain([THREE, THREE], start=[1, 0, 0]), "any", "steps differ"),
        (ut.Laplace(ut.Sum(0, 1), 1.0), ACTIVITY, "any", "of a Sum"),
        (ut.RandomizedResponse([[1, 0], [0.5, 0.5]]), ACTIVITY, "any", "rule a state out"),
        (ut.PureDP(700.0), ACTIVITY, "any", "protects nothing"),
    ],
)
def test_what_cannot_be_checked_is_refused_with_the_reason(mechanism, chain, against, said):
    with pytest.raises(NotSupported, match=said):
        ut.certify(mechanism, chain, against)


def test_plans_have_certificates_within_their_limits(program):
    for query, limit in ((ut.Count(1), 1.0), (ut.Series(), 2.0)):
        plan = ut.calibrate(query, ACTIVITY, limit)
        certificate = ut.certify(plan)
        assert certificate.upper <= limit
        assert judged(program, certificate.to_json())[0] == 0
    others = (
        (replace(plan, delta=1e-6), "at a delta"),
        (replace(plan, releases=52), "of several releases"),
        (replace(plan, leakage=replace(plan.leakage, secret=ut.Person())), "of a person"),
        (ut.calibrate(ut.Count(1), ACTIVITY, 1.0, secret=ut.Window(3)), "about a window"),
    )
    for other, said in others:
        with pytest.raises(NotSupported, match=said):
            ut.certify(other)
    with pytest.raises(NothingToProtect):
        ut.certify(ut.PureDP(1.0), ut.MarkovChain([[1, 0], [0.5, 0.5]]))


# --- the arithmetic -------------------------------------------------------------------------------


def test_the_exponential_is_bracketed():
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for x in (
            0.0,
            1e-300,
            1e-9,
            0.3,
            0.5,
            0.51,
            1.0,
            2.5,
            30.0,
            599.9,
            -1e-9,
            -0.7,
            -20.0,
            -600.0,
        ):
            low, high = exp_lower(x), exp_upper(x)
            assert low <= mpmath.exp(mpmath.mpf(x)) <= high
            assert high <= low * (1 + 1e-11)


def test_the_stationary_law_is_bracketed():
    found = stationary(normalised(np.array(THREE)))
    assert found is not None
    law = ut.MarkovChain(THREE).initial
    assert (found.low <= law).all()
    assert (law <= found.high).all()
    assert (found.high - found.low < 1e-14).all()
    assert stationary(normalised(np.array([[1.0, 0.0], [0.0, 1.0]]))) is None


# --- the command line -----------------------------------------------------------------------------


def test_the_command_line_writes_and_reads(tmp_path, monkeypatch, program):
    monkeypatch.chdir(tmp_path)
    asked = ("leakage", *CHAIN, "--epsilon", "1", "--certificate", "c.json")
    assert call_json(*asked)["certificate"] == "c.json"
    assert judged(program, (tmp_path / "c.json").read_bytes())[0] == 0
    told = call_json("verify", "c.json")
    assert told["accepted"] is True
    assert told["proved"] <= told["claimed"]
    assert "The certificate holds" in call("verify", "c.json").stdout
    again = call(*asked)
    assert again.exit_code == 1
    assert "--force" in again.stderr
    assert call(*asked, "--force").exit_code == 0
    planned = call("plan", *CHAIN, "--count", "1", "--limit", "1", "--certificate", "p.json")
    assert "certificate" in planned.stdout
    assert call("verify", "p.json").exit_code == 0


def test_the_command_line_refuses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.json").write_text("{}")
    assert call("verify", "c.json").exit_code == 1
    assert call("verify", "none.json").exit_code == 1
    assert call("verify").exit_code == 2
    for more in (
        ("--limit", "1"),
        ("--epsilon", "1", "--delta", "1e-6"),
        ("--epsilon", "1", "--renew", "day"),
    ):
        assert call("leakage", *CHAIN, *more, "--certificate", "d.json").exit_code == 2
    refused = call(
        "plan", *CHAIN, "--length", "9", "--mean", "0,1", "--limit", "1", "--certificate", "d.json",
        "--output", "plan.json",
    )  # fmt: skip
    assert refused.exit_code == 1
    assert "of a Mean" in refused.stderr
    assert not list(tmp_path.glob("[dp]*.json"))
    with pytest.raises(InvalidCertificate, match="not JSON"):
        ut.verify("{")
