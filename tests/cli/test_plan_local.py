"""`undertow plan` for series, and `undertow leakage --flips`: options, words, files, refusals."""

import math

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import NAMED, call, call_json, rows, strict
from undertow.cli.plan import plan_rows, runs
from undertow.mechanisms import RandomizedResponse, Redaction, XorNoise

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
SERIES = ("plan", *NAMED, "--series", "--limit", 2)
COUNT = ("plan", *NAMED, "--count", "active", "--limit", 1)
EVEN = "0.65,0.35;0.35,0.65"


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


def test_words():
    plan = ut.calibrate(ut.Series(), ACTIVITY, 2.0)
    assert isinstance(plan.mechanism, RandomizedResponse)
    found = said(*SERIES)
    (_, first), (second, _) = plan.mechanism.matrix.tolist()
    assert found["question"] == "the whole series, each record flipped at random"
    assert found["model"] == "Markov chain on 2 states, a stationary start, any length"
    assert found["method"] == "exact"
    expected = f"'inactive' with probability {first:.6g}, 'active' with {second:.6g}"
    assert found["flips"] == expected
    assert found["expected flips"].endswith("% of the records are false on average")
    share = float(found["expected flips"].partition("%")[0])
    assert 0 <= share - 100 * plan.expected_flips <= 1e-3
    assert found["information"].endswith(" bits in an output about its record")
    assert float(found["DP level"]) >= plan.dp_epsilon
    assert found["leakage"].endswith("; 2 is allowed")
    assert "an attacker who knows any other records" in found["guarantee"]
    assert "NOT covered" not in found


def test_a_reference_number():
    """The least flips of theory, section 13: 30 records, transition 0.35, a leakage of 1."""
    found = call_json("plan", "--transition", EVEN, "--length", 30, "--series", "--limit", 1)
    assert found["measures"]["expected flips"] == pytest.approx(0.364992, abs=1e-6)
    row = said("plan", "--transition", EVEN, "--length", 30, "--series", "--limit", 1)["flips"]
    assert row == "either state with probability 0.364992"


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


@pytest.mark.parametrize("method", ["exact", "exchange", "xor", "chakrabarti"])
def test_methods(method):
    found = call_json(*SERIES, "--method", method)
    assert found["method"] == method
    assert found == strict(ut.calibrate(ut.Series(), ACTIVITY, 2.0, method=method).to_json())


def by_hand(mechanism, chain=ACTIVITY, **options):
    leak = ut.Leakage(1.0, 2.0, "exact", "any")
    return ut.Plan(mechanism, chain, 2.0, leak, "exact", **options)


THREE = ut.MarkovChain([[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]], states=("a", "b", "c"))


def test_channels_of_many_states_in_few_words(capsys):
    from undertow.cli.plan import show_probabilities

    even = by_hand(RandomizedResponse.symmetric(3, 0.25), THREE)
    assert (
        dict(plan_rows(even))["flips"]
        == "every state with probability 0.25, to each other state alike"
    )
    show_probabilities(even)
    assert not capsys.readouterr().out
    channel = [[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]]
    odd = by_hand(RandomizedResponse(channel), THREE)
    assert dict(plan_rows(odd))["flips"] == "see the table"
    show_probabilities(odd)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "How likely each state is shown as each output"
    assert lines[1].split() == ["shown", "as", "a", "shown", "as", "b", "shown", "as", "c"]
    assert lines[3].split() == ["b", "0.2", "0.5", "0.3"]
    silent = by_hand(RandomizedResponse([[0.5, 0.5], [0.5, 0.5]]))
    assert "does not depend on the record" in dict(plan_rows(silent))["flips"]
    named = by_hand(RandomizedResponse([[0.9, 0.1], [0.2, 0.8]], outputs=("low", "high")))
    show_probabilities(named)
    assert "shown as high" in capsys.readouterr().out
    big = ut.MarkovChain(np.full((30, 30), 1 / 30))
    wide = np.full((30, 30), 0.01)
    np.fill_diagonal(wide, 0.71)
    wide[0, :2] = 0.7, 0.02
    show_probabilities(by_hand(RandomizedResponse(wide), big))
    lines = capsys.readouterr().out.splitlines()
    assert "the first 12 of each; the plan file has all" in lines[0]
    assert len(lines) == 14


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


def test_erasures_in_words(capsys):
    from undertow.cli.plan import show_probabilities

    plan = erasing({30: 1, 28: (0.25, 0.5), 29: (0.125, 1), 31: (0.5, 0.5), 40: (1e-9, 0)})
    found = dict(plan_rows(plan))
    assert found["question"] == "the series with records erased around record 30"
    assert found["always erased"] == "record 30"
    assert found["erased at times"] == "records 28 to 29, 31, 40"
    assert found["always shown"] == "55 of 60 records"
    assert found["utility"] == "90% of the records are shown on average"
    assert found["windows, printed"].startswith("at most 70% ")
    assert found["windows"].startswith("at most 80% ")
    assert found["optimum"].startswith("95% ")
    assert "of record 30" in found["guarantee"]
    assert "DP level" not in found
    show_probabilities(plan)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["record", "if", "inactive", "if", "active"]
    assert lines[2].split() == ["28", "0.25", "0.5"]
    assert len(lines) == 6


def test_many_erasures_are_cut_short(capsys):
    from undertow.cli.plan import show_probabilities

    plan = erasing({100: 1} | {r: (0.5, 0.5) for r in range(40, 200, 2) if r != 100}, 200)
    assert dict(plan_rows(plan))["erased at times"].endswith("50 and 73 more runs")
    show_probabilities(plan)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("(the nearest 20 of 79)")
    assert [line.split()[0] for line in lines[2:]] == [
        str(r) for r in range(80, 121, 2) if r != 100
    ]
    only = erasing({3: 1, 4: 1}, 9)
    assert dict(plan_rows(only))["erased at times"] == "none"
    assert dict(plan_rows(only))["always erased"] == "records 3 to 4"
    show_probabilities(only)
    assert not capsys.readouterr().out


def test_runs():
    assert runs([]) == ""
    assert runs([5, 4, 3, 9]) == "records 3 to 5, 9"


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


@pytest.mark.parametrize(
    "method", ["optimal", "mq", "mq-printed", "3r-relaxed", "3r-constant", "3r-individual"]
)
def test_methods_of_redactions(method):
    found = call_json(*REDACTED, "--against", "ignorant", "--method", method)
    assert found["method"] == method
    assert found["channel"]["protect"] == [30]
    if method != "mq-printed":
        assert found["leakage"]["upper"] <= 1
    words = said(*REDACTED, "--against", "ignorant", "--method", method)
    assert ("as published" in words["method"]) == (method == "mq-printed")
    assert "NOT covered" in words


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
