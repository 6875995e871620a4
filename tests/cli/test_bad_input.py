"""Bad input: exit code 1 and one clear line where it is refused, 2 where it cannot be read."""

import pytest

import undertow.errors
from tests.cli.calls import CHAIN, NAMED, call, strict

ASK = ("--epsilon", 1)
AT_MOST = ("--limit", 1)

REFUSED = {
    "rows that do not sum to one": (
        ("leakage", "--transition", "0.9,0.2;0.3,0.7", *ASK),
        "InvalidModel",
        "row 0 of transition sums to 1.1",
    ),
    "negative entry": (
        ("leakage", "--transition", "0.5,0.5;-0.3,1.3", *ASK),
        "InvalidModel",
        "entry (1, 0) of transition is -0.3",
    ),
    "NaN entry": (
        ("leakage", "--transition", "nan,0.5;0.3,0.7", *ASK),
        "InvalidModel",
        "entry (0, 0) of transition is nan",
    ),
    "one state": (("leakage", "--transition", "1", *ASK), "InvalidModel", "at least two states"),
    "ragged rows": (
        ("leakage", "--transition", "0.5,0.5;0.5", *ASK),
        "InvalidModel",
        "row 1 of transition has 1 entries",
    ),
    "stationary start not unique": (
        ("leakage", "--transition", "1,0;0,1", *ASK),
        "InvalidModel",
        "stationary law is not unique",
    ),
    "start that does not sum to one": (
        ("leakage", *CHAIN, "--start", "0.5,0.6", *ASK),
        "InvalidModel",
        "start sums to 1.1",
    ),
    "too few names": (
        ("leakage", *CHAIN, "--states", "a", *ASK),
        "InvalidModel",
        "2 states need 2 names",
    ),
    "the same name twice": (
        ("leakage", *CHAIN, "--states", "a,a", *ASK),
        "InvalidModel",
        "same name",
    ),
    "unknown state": (
        ("leakage", *NAMED, "--count", "running", "--scale", 1),
        "UnknownState",
        "no state 'running'; its states are 'inactive', 'active'",
    ),
    "unknown number of a state": (
        ("leakage", *CHAIN, "--count", "2", "--scale", 1),
        "UnknownState",
        "no state '2'; its states are 0, 1",
    ),
    "a state counted twice": (
        ("leakage", *CHAIN, "--count", "1,1", "--scale", 1),
        "InvalidInput",
        "named twice",
    ),
    "length zero": (
        ("leakage", *CHAIN, "--length", 0, *ASK),
        "InvalidInput",
        "must be at least 2, found 0",
    ),
    "length one": (
        ("leakage", *CHAIN, "--length", 1, *ASK),
        "InvalidInput",
        "must be at least 2, found 1",
    ),
    "epsilon zero": (("leakage", *CHAIN, "--epsilon", 0), "InvalidInput", "found 0.0"),
    "epsilon negative": (("leakage", *CHAIN, "--epsilon", -1), "InvalidInput", "found -1.0"),
    "epsilon infinite": (("leakage", *CHAIN, "--epsilon", "inf"), "InvalidInput", "found inf"),
    "epsilon NaN": (("leakage", *CHAIN, "--epsilon", "nan"), "InvalidInput", "found nan"),
    "scale zero": (
        ("leakage", *CHAIN, "--count", 1, "--scale", 0),
        "InvalidInput",
        "noise scale must be positive and finite, found 0.0",
    ),
    "scale NaN": (
        ("leakage", *CHAIN, "--histogram", "--scale", "nan"),
        "InvalidInput",
        "found nan",
    ),
    "target also known": (
        ("leakage", *CHAIN, *ASK, "--target", 3, "--known", "3"),
        "InvalidInput",
        "both target and known",
    ),
    "negative target": (
        ("leakage", *CHAIN, *ASK, "--target", -1),
        "InvalidInput",
        "target must be at least 0",
    ),
    "target outside the series": (
        ("leakage", *CHAIN, *ASK, "--length", 5, "--target", 9),
        "InvalidInput",
        "names record 9",
    ),
    "plan, epsilon zero": (
        ("plan", *CHAIN, "--count", 1, "--limit", 0),
        "InvalidInput",
        "found 0.0",
    ),
    "plan, unknown state": (
        ("plan", *NAMED, "--count", "running", *AT_MOST),
        "UnknownState",
        "no state 'running'",
    ),
    "plan, empty range": (
        ("plan", *CHAIN, "--sum", "5,5", *AT_MOST),
        "InvalidInput",
        "lower must be below upper",
    ),
    "plan, NaN range": (
        ("plan", *CHAIN, "--sum", "nan,5", *AT_MOST),
        "InvalidInput",
        "both finite",
    ),
    "plan, mean of any number of records": (
        ("plan", *CHAIN, "--mean", "0,1", *AT_MOST),
        "InvalidInput",
        "length",
    ),
    "plan, a method that does not apply": (
        ("plan", *CHAIN, "--histogram", *AT_MOST, "--method", "exact"),
        "MethodRefused",
        "'exact' enumerates",
    ),
    "plan, a method that does not protect from this attacker": (
        ("plan", *CHAIN, "--length", 9, "--count", 1, *AT_MOST, "--method", "wasserstein"),
        "MethodRefused",
        "protects only against 'ignorant'",
    ),
    "plan, a method that needs a larger epsilon": (
        ("plan", *CHAIN, "--count", 1, *AT_MOST, "--method", "lange"),
        "Infeasible",
        "needs a limit above 8.046",
    ),
    "plan, a pair of unknown states": (
        ("plan", *CHAIN, "--length", 9, "--count", 1, *AT_MOST, "--secret", "0:2"),
        "UnknownState",
        "no state '2'",
    ),
    "plan, a protected record outside the series": (
        ("plan", *CHAIN, "--length", 9, "--count", 1, *AT_MOST, "--protect", "9"),
        "InvalidInput",
        "record 9",
    ),
    "plan, a bound that needs a length": (
        ("plan", *CHAIN, "--count", 1, *AT_MOST, "--method", "group"),
        "MethodRefused",
        "length",
    ),
}

UNREADABLE = {
    "not a number": ("leakage", *CHAIN, "--epsilon", "one"),
    "a matrix of words": ("leakage", "--transition", "a,b;c,d", *ASK),
    "an empty matrix": ("leakage", "--transition", "", *ASK),
    "a fraction of nothing": ("leakage", "--transition", "1/0,1;1,0", *ASK),
    "a start of words": ("leakage", *CHAIN, "--start", "anywhere", *ASK),
    "an empty name": ("leakage", *CHAIN, "--states", "a,,b", *ASK),
    "length not whole": ("leakage", *CHAIN, "--length", "2.5", *ASK),
    "no model": ("leakage", *ASK),
    "two models": ("leakage", *CHAIN, "--model", "chain.json", *ASK),
    "states for a file": ("leakage", "--model", "x.json", "--states", "a,b", *ASK),
    "start for a file": ("leakage", "--model", "x.json", "--start", "1,0", *ASK),
    "no question": ("leakage", *CHAIN),
    "two questions": ("leakage", *CHAIN, *ASK, "--count", "1"),
    "count and histogram": ("leakage", *CHAIN, "--histogram", "--count", "1", "--scale", 1),
    "count without scale": ("leakage", *CHAIN, "--count", "1"),
    "epsilon with scale": ("leakage", *CHAIN, *ASK, "--scale", 1),
    "unit of a count": ("leakage", *CHAIN, "--count", 1, "--scale", 1, "--unit", "person"),
    "unknown unit": ("leakage", *CHAIN, *ASK, "--unit", "house"),
    "unknown attacker": ("leakage", *CHAIN, *ASK, "--against", "everyone"),
    "two attackers": ("leakage", *CHAIN, *ASK, "--against", "any", "--target", 1),
    "known without target": ("leakage", *CHAIN, *ASK, "--known", "1"),
    "known not whole": ("leakage", *CHAIN, *ASK, "--target", 1, "--known", "2,x"),
    "an extra word": ("leakage", *CHAIN, *ASK, "more"),
    "unknown option": ("leakage", *CHAIN, *ASK, "--deltas", 1),
    "unknown command": ("leak",),
    "plan without epsilon": ("plan", *CHAIN, "--count", 1),
    "plan without query": ("plan", *CHAIN, *AT_MOST),
    "plan with two queries": ("plan", *CHAIN, "--count", 1, "--sum", "0,1", *AT_MOST),
    "plan with half a range": ("plan", *CHAIN, "--sum", "5", *AT_MOST),
    "plan with a range of words": ("plan", *CHAIN, "--mean", "a,b", *AT_MOST),
    "plan with unknown method": ("plan", *CHAIN, "--count", 1, *AT_MOST, "--method", "magic"),
    "plan with half a pair": ("plan", *CHAIN, "--count", 1, *AT_MOST, "--secret", "0:"),
    "plan with a word for a secret": ("plan", *CHAIN, "--count", 1, *AT_MOST, "--secret", "soon"),
    "plan with an empty pair": ("plan", *CHAIN, "--count", 1, *AT_MOST, "--secret", "0:1,"),
    "plan with a pair of three": ("plan", *CHAIN, "--count", 1, *AT_MOST, "--secret", "0:1:0"),
    "plan with records of words": ("plan", *CHAIN, "--count", 1, *AT_MOST, "--protect", "first"),
    "plan forced to nowhere": ("plan", *CHAIN, "--count", 1, *AT_MOST, "--force"),
    "demo with a negative seed": ("demo", "--seed", -1),
    "demo with a word for a seed": ("demo", "--seed", "one"),
}


@pytest.mark.parametrize(("arguments", "kind", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(arguments, kind, words):
    result = call(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("undertow: ")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not result.stdout

    result = call(*arguments, "--json")
    assert result.exit_code == 1
    assert words in result.stderr
    said = strict(result.stdout)
    assert said.keys() == {"error", "message"}
    assert said["error"] == kind
    assert issubclass(getattr(undertow.errors, kind), undertow.errors.UndertowError)
    assert said["message"] == result.stderr.removeprefix("undertow: ").rstrip("\n")


@pytest.mark.parametrize("arguments", UNREADABLE.values(), ids=UNREADABLE)
def test_wrong_usage(arguments):
    result = call(*arguments)
    assert result.exit_code == 2
    assert "Error" in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


def test_wrong_usage_names_the_option_and_what_was_found():
    said = call("leakage", "--transition", "0.5,0.5;0.5,x", *ASK).stderr
    assert "--transition" in said
    assert "'x'" in said


MODEL_FILES = {
    "not JSON": ("{", "InvalidModel", "is not JSON: Expecting"),
    "empty": ("", "InvalidModel", "is not JSON"),
    "a list": ("[]", "InvalidModel", "'kind'"),
    "no matrix": ("{}", "InvalidModel", "needs a 'transition' matrix"),
    "unknown kind": ('{"kind": "web"}', "InvalidModel", "unknown kind of model 'web'"),
    "NaN": ('{"transition": [[NaN, 1], [0, 1]]}', "InvalidModel", "contains NaN"),
    "infinite": ('{"transition": [[1e999, 1], [0, 1]]}', "InvalidModel", "(0, 0) of transition"),
    "states of the wrong type": (
        '{"transition": [[0.5, 0.5], [0.5, 0.5]], "states": 5}',
        "InvalidModel",
        "",
    ),
    "length of the wrong type": (
        '{"transition": [[0.5, 0.5], [0.5, 0.5]], "length": "5"}',
        "InvalidInput",
        "must be a whole number, found '5'",
    ),
    "start of the wrong type": (
        '{"transition": [[0.5, 0.5], [0.5, 0.5]], "start": {"a": 1}}',
        "InvalidInput",
        "numbers are required",
    ),
    "nested without end": ("[" * 100_000, "InvalidModel", "nested too deeply"),
    "a number without end": (
        '{"transition": ' + "9" * 5000 + "}",
        "InvalidModel",
        "is malformed",
    ),
    "an empty set": ('{"kind": "set", "models": []}', "InvalidModel", "at least one model"),
}


@pytest.mark.parametrize(("text", "kind", "words"), MODEL_FILES.values(), ids=MODEL_FILES)
def test_malformed_model_files(tmp_path, text, kind, words):
    path = tmp_path / "model.json"
    path.write_text(text)
    result = call("leakage", "--model", path, *ASK, "--json")
    assert result.exit_code == 1
    said = strict(result.stdout)
    assert said["error"] == kind
    assert f"the model file {path}" in said["message"]
    assert words in said["message"]
    assert len(result.stderr.splitlines()) == 1


def test_unreadable_model_files(tmp_path):
    missing = call("leakage", "--model", tmp_path / "none.json", *ASK)
    assert missing.exit_code == 1
    assert "no such file" in missing.stderr
    folder = call("leakage", "--model", tmp_path, *ASK)
    assert folder.exit_code == 1
    assert "is a directory" in folder.stderr
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    binary = call("plan", "--model", tmp_path / "binary.json", "--count", "a", *AT_MOST)
    assert binary.exit_code == 1
    assert "UTF-8" in binary.stderr


def test_length_is_refused_where_the_file_says_it(tmp_path):
    path = tmp_path / "model.json"
    path.write_text('{"transition": [[0.5, 0.5], [0.5, 0.5]], "length": 5}')
    assert call("leakage", "--model", path, "--length", 9, *ASK).exit_code == 2
    path.write_text('{"kind": "groups", "size": 3}')
    assert call("leakage", "--model", path, "--length", 9, *ASK).exit_code == 2


def test_a_histogram_needs_states(tmp_path):
    path = tmp_path / "groups.json"
    path.write_text('{"kind": "groups", "size": 3}')
    result = call("plan", "--model", path, "--histogram", *AT_MOST)
    assert result.exit_code == 1
    assert "names the states" in result.stderr
