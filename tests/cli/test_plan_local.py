"""`undertow plan` for series, and `undertow leakage --flips`: options, words, files, refusals."""

import math

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import NAMED, call, call_json, rows, strict
from undertow.certificate import Leakage
from undertow.cli.plan import plan_rows
from undertow.mechanisms import RandomizedResponse, Redaction, XorNoise

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
SERIES = ("plan", *NAMED, "--series", "--limit", 2)
COUNT = ("plan", *NAMED, "--count", "active", "--limit", 1)


def said(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    assert not result.stderr
    lines = [line for line in result.stdout.splitlines()[1:] if line.startswith("  ")]
    return {label: text.strip() for label, text in (line.strip().split("  ", 1) for line in lines)}


# --- flips ----------------------------------------------------------------------------------------


def test_json_is_the_plan(tmp_path):
    path = tmp_path / "flips.json"
    result = call(*SERIES, "--json", "--output", path)
    strict(result.stdout)
    assert path.read_text() == result.stdout
    assert ut.Plan.from_json(result.stdout) == ut.calibrate(ut.Series(), ACTIVITY, 2.0)


def test_the_ignorant_attacker_is_named_and_so_is_who_is_left_out():
    found = said(*SERIES, "--against", "ignorant")
    assert "an attacker who knows no other record" in found["guarantee"]
    assert found["NOT covered"].startswith("an attacker who knows some or all other records")
    one = said(*SERIES, "--length", 9, "--target", 3, "--known", "1,5")
    assert one["NOT covered"].startswith("every attacker who wants another record")
    curators = said(*COUNT, "--against", "ignorant")
    assert "some or all other records" in curators["NOT covered"]


def test_published_flips_say_so_and_what_they_really_leak():
    found = said(*SERIES, "--method", "chakrabarti")
    assert found["method"] == "chakrabarti (as published; the leakage below is certified)"
    assert "that is allowed" in found["leakage"]
    stated = said(*SERIES, "--method", "chakrabarti", "--against", "ignorant")
    assert "NOT covered" in stated
    leaky = ut.Plan(
        RandomizedResponse.binary(0.1, 0.1), ACTIVITY, 1.0,
        ut.leakage(RandomizedResponse.binary(0.1, 0.1), ACTIVITY), "chakrabarti",
    )  # fmt: skip
    assert "; MORE than the 1 that is allowed" in dict(plan_rows(leaky))["leakage"]


@pytest.mark.parametrize("objective", ["flips", "information", "1,3"])
def test_objectives(objective):
    found = call_json(*SERIES, "--objective", objective)
    aim = [1.0, 3.0] if objective == "1,3" else objective
    plan = ut.calibrate(ut.Series(), ACTIVITY, 2.0, objective=aim)
    assert isinstance(plan.mechanism, RandomizedResponse)
    assert found["channel"]["matrix"] == plan.mechanism.matrix.tolist()


def by_hand(mechanism, chain=ACTIVITY, **options):
    leak = Leakage(1.0, 2.0, "exact", "any")
    return ut.Plan(mechanism, chain, 2.0, leak, "exact", **options)


def test_noise_in_runs_and_flips_without_a_level():
    found = dict(plan_rows(by_hand(XorNoise(0.1, 0.3))))
    assert found["flips"] == "each record with probability 0.25, in runs"
    assert found["flips begin"] == "with probability 0.1 after a record that is kept"
    assert found["flips end"] == "with probability 0.3 after a record that is flipped"
    assert found["DP level"].startswith("none is known")
    certain = dict(plan_rows(by_hand(RandomizedResponse([[1.0, 0.0], [0.5, 0.5]]))))
    assert certain["DP level"].startswith("none: an output excludes a state")
    assert math.isinf(by_hand(RandomizedResponse([[1.0, 0.0], [0.5, 0.5]])).dp_epsilon)


# --- erasures -------------------------------------------------------------------------------------

REDACTED = (
    "plan", *NAMED, "--length", 60, "--redacted", "--protect", "30", "--limit", 1,
)  # fmt: skip


def erasing(records, length=60, against="any"):
    """A plan by hand: some records are erased at times."""
    table = np.zeros((length, 2))
    for record, probabilities in records.items():
        table[record] = probabilities
    chain = ut.MarkovChain(ACTIVITY.transition, ACTIVITY.states, length=length)
    mechanism = Redaction(table, [r for r, probability in records.items() if probability == 1])
    measures = (
        ("utility", 0.9), ("window bound printed", 0.7), ("window bound", 0.8), ("optimum", 0.95),
    )  # fmt: skip
    leak = ut.leakage(mechanism, chain, against)
    return ut.Plan(mechanism, chain, leak.upper, leak, "mq", measures=measures)


def test_a_redaction_for_the_ignorant_says_whom_it_leaves_out():
    found = dict(plan_rows(erasing({30: 1, 31: (0.5, 0.5)}, against="ignorant")))
    assert found["NOT covered"].endswith("nothing is guaranteed")


def test_redactions_are_planned(tmp_path):
    path = tmp_path / "erasures.json"
    found = said(*REDACTED, "--output", path)
    plan = ut.Plan.from_json(path.read_text())
    assert plan.query == ut.Redacted(30, 60)
    assert plan.leakage.proves(1.0)
    assert found["always erased"].startswith("record")
    assert "utility" in found
    assert "of record 30" in found["guarantee"]
    assert found["method"] == "optimal"


# --- refusals -------------------------------------------------------------------------------------

REFUSED = {
    "a curator's method": ((*SERIES, "--method", "quilt"), "methods for a series"),
    "a series' method": (
        (*COUNT, "--method", "xor"),
        "unknown method 'xor'",
    ),
    "three costs": ((*SERIES, "--objective", "1,2,3"), "one cost for each of the 2 states"),
    "negative costs": ((*SERIES, "--objective", "1,-2"), "none below 0"),
    "no leakage": ((*SERIES[:-1], 0), "limit must be positive"),
    "protected outside": (
        (*REDACTED[:-4], "--protect", "60", "--limit", 1), "record 60 is to be protected"
    ),
    "a negative record": (
        (*REDACTED[:-4], "--protect", "-1", "--limit", 1), "protected record must be at least 0"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_refusals(arguments, words):
    result = call(*arguments)
    assert result.exit_code == 1, result.output
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not result.stdout


USAGE = {
    "two questions": (*SERIES, "--histogram"),
    "two questions about the series": (*SERIES, "--redacted", "--protect", "1"),
    "nothing to hide": ("plan", *NAMED, "--length", 9, "--redacted", "--limit", 1),
    "protect with a series": (*SERIES, "--protect", "1"),
    "pairs with a series": (*SERIES, "--secret", "inactive:active"),
    "an aim of a redaction": (*REDACTED, "--objective", "flips"),
    "an aim of a count": (
        "plan",
        *NAMED,
        "--count",
        "active",
        "--limit",
        1,
        "--objective",
        "1,2",
    ),
    "no aim": (*SERIES, "--objective", "fun"),
    "no record": (*REDACTED[:-4], "--protect", "x", "--limit", 1),
    "no method": (*SERIES, "--method", "magic"),
    "no question": ("plan", *NAMED, "--limit", 1),
}


@pytest.mark.parametrize("arguments", USAGE.values(), ids=USAGE)
def test_wrong_usage(arguments):
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert not result.stdout


# --- what flips reveal ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mechanism"),
    [
        ("0.3", RandomizedResponse.symmetric(2, 0.3)),
        ("0.3,0.4", RandomizedResponse.binary(0.3, 0.4)),
        ("1/4", RandomizedResponse.symmetric(2, 0.25)),
    ],
)
def test_leakage_of_flips(text, mechanism):
    asked = ("leakage", *NAMED, "--length", 40, "--flips", text)
    found = call_json(*asked)
    leak = ut.leakage(mechanism, ut.MarkovChain(ACTIVITY.transition, ACTIVITY.states, length=40))
    assert (found["lower"], found["upper"]) == (leak.lower, leak.upper)
    assert "each record flipped with probability 0." in rows(call(*asked))["question"]
    assert call_json(*asked, "--effort", 3)["upper"] == leak.upper


def test_leakage_of_flips_refused():
    flips = ("leakage", *NAMED, "--flips")
    for text, words in (("1.5", "must lie in [0, 1]"), ("-0.1,0.2", "must lie in [0, 1]")):
        result = call(*flips, text)
        assert result.exit_code == 1
        assert words in result.stderr
    for arguments in (
        ("0.1,0.2,0.3",), ("x",), ("0.3", "--scale", 2), ("0.3", "--unit", "record"),
        ("0.3", "--epsilon", 1), ("0.3", "--count", "active"),
    ):  # fmt: skip
        assert call(*flips, *arguments).exit_code == 2
    for effort in (0, -1, "nan"):
        assert call("leakage", *NAMED, "--epsilon", 1, "--effort", effort).exit_code == 2
    three = ("leakage", "--transition", "0.8,0.1,0.1;0.2,0.6,0.2;0.1,0.1,0.8", "--length", 9)
    result = call(*three, "--flips", "0.1,0.2")
    assert result.exit_code == 1
    assert "for 2 states, the chain has 3" in result.stderr
