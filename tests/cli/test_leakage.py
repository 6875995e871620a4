"""`undertow leakage`: every option, in words and as JSON."""

import json
import re

import pytest

import undertow as ut
from tests.cli.calls import CHAIN, NAMED, call, call_json, rows

FIELDS = {
    "lower", "upper", "method", "against", "witness", "assumptions", "citation", "valid_for",
    "any_length", "secret", "conditions", "neighbours", "neighbours_assumed",
}  # fmt: skip
ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(ACTIVITY.to_dict()))
    return path


def test_json_has_exactly_the_fields_and_the_reference_value():
    found = call_json("leakage", *NAMED, "--epsilon", 1)
    assert found.keys() == FIELDS
    assert found["upper"] == pytest.approx(3.474873376754, abs=1e-9)
    assert found["lower"] <= found["upper"]
    assert found["against"] == "any"
    assert found["method"] == "exchange"
    assert {found["witness"]["value"], found["witness"]["other"]} == {"inactive", "active"}
    assert isinstance(found["assumptions"], list)


BIT = ("--transition", "0.9,0.1;0.1,0.9", "--epsilon", 2)


def test_a_level_that_renews(tmp_path):
    found = call_json("leakage", *BIT, "--renew", "day")
    assert found["upper"] == pytest.approx(7.583671911734, abs=1e-9)
    assert (found["records_per_period"], found["trait_over_a_year"]) == (1, 730.0)
    assert 0.11556 < found["budget"] < 0.11557
    fine = call_json("leakage", *BIT, "--renew", "week", "--every", "1h", "--limit", 2)
    assert (fine["records_per_period"], fine["limit"]) == (168, 2.0)
    assert fine["trait_over_a_year"] == 2 * 52 * 168
    drawing = tmp_path / "renewals.svg"
    told = rows(call("leakage", *BIT, "--renew", "month", "--figure", drawing))
    assert "spent afresh every month" in told["question"]
    assert "7.583672 about one record, over any number of months" in told["leakage"]
    assert "its own month only" in told["assumes"]
    assert "A fresh epsilon every month" in drawing.read_text()


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (("1,0;0,1", "--start", "0.5,0.5"), "nothing, for at most 1 about one record"),
        (("1,0;1,0", "--start", "1,0"), "whatever you like"),
    ],
)
def test_what_renews_without_end_or_without_harm(model, said):
    told = rows(call("leakage", "--transition", *model, "--epsilon", 1, "--renew", "day"))
    assert said in told["spend"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--epsilon", 2, "--every", "5m"), "--every goes with a duration"),
        (("--epsilon", 2, "--renew", "day", "--every", "2d"), "2d is longer than a day"),
        (("--epsilon", 2, "--renew", "day", "--unit", "person"), "no --unit"),
        (("--epsilon", 2, "--renew", "day", "--delta", "1e-6"), "--renew needs --epsilon"),
        (("--epsilon", 2, "--renew", "day", "--flips", "0.1"), "--renew needs --epsilon"),
        (("--limit", 2, "--renew", "day"), "--renew needs --epsilon"),
        (("--mu", 1, "--renew", "day"), "--renew needs --epsilon"),
        (("--epsilon", 2, "--renew", "hour"), "--renew"),
    ],
)
def test_wrong_usage_of_levels_that_renew(more, message):
    result = call("leakage", "--transition", "0.9,0.1;0.1,0.9", *more)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_chain_by_context_is_a_model_file(tmp_path):
    days = ut.MarkovChain.periodic([[[0.9, 0.1], [0.1, 0.9]], [[0.6, 0.4], [0.4, 0.6]]], length=9)
    path = tmp_path / "days.json"
    path.write_text(json.dumps(days.to_dict()))
    found = call_json("leakage", "--model", path, "--epsilon", 1)
    assert found["upper"] == ut.leakage(ut.PureDP(1.0), days).upper
    assert "nothing is guaranteed about what the context itself reveals" in found["assumptions"][1]


def test_a_step_that_is_none_is_refused():
    result = call("leakage", *BIT, "--renew", "day", "--every", "often")
    assert result.exit_code == 1
    assert "a duration such as" in result.stderr


def test_json_is_the_library_answer():
    leak = ut.leakage(ut.PureDP(0.5), ACTIVITY)
    found = call_json("leakage", *NAMED, "--epsilon", 0.5)
    assert (found["lower"], found["upper"]) == (leak.lower, leak.upper)
    assert leak.witness is not None
    assert found["witness"] == json.loads(json.dumps(leak.witness.to_dict()))


def test_words_say_interval_meaning_attacker_and_witness():
    result = call("leakage", *NAMED, "--epsilon", 1)
    said = rows(result)
    assert said["leakage"].strip() == "between 3.474873 and 3.474874"
    assert "factor 32.3" in said["meaning"]
    assert said["attacker"].strip() == "an attacker who knows any other records"
    assert "target record" in said["witness"]
    assert "Markov chain" in said["assumes"]
    assert not result.stderr


def test_model_file_and_transition_agree(model_file):
    assert call_json("leakage", "--model", model_file, "--epsilon", 1) == call_json(
        "leakage", *NAMED, "--epsilon", 1
    )


def test_length_completes_a_model_file(model_file):
    found = call_json("leakage", "--model", model_file, "--length", 5, "--epsilon", 1)
    assert found["upper"] == pytest.approx(2.8777, abs=1e-4)


COPIES = ("--transition", "1,0;0,1", "--start", "0.5,0.5")


def test_infinity_is_a_string_in_json_and_words_for_people():
    found = call_json("leakage", *COPIES, "--epsilon", 1)
    assert found["upper"] == "inf"
    said = rows(call("leakage", *COPIES, "--epsilon", 1))
    assert "inf" not in said["leakage"].split()
    assert "factor" not in said["meaning"]


def test_markup_in_a_name_is_only_text():
    names = ("--states", "[red]a[/red],b")
    env = {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "200"}
    result = call("leakage", *CHAIN, *names, "--epsilon", 1, env=env)
    assert "[red]a[/red]" in result.stdout


def test_a_witness_on_a_chain_of_any_length_is_a_pattern():
    """Null: the attack is told as record 49 of 58, as if series had that many records."""
    said = rows(call("leakage", *NAMED, "--epsilon", 1))["witness"]
    assert re.search(r"record \d+ of a pattern of \d+ records within a longer series", said)
    told = rows(call("leakage", *NAMED, "--length", 20, "--epsilon", 1))["witness"]
    assert "of 20," in told
    assert "pattern" not in told
    assert call_json("leakage", *NAMED, "--epsilon", 1)["any_length"] is True
    assert call_json("leakage", *NAMED, "--length", 20, "--epsilon", 1)["any_length"] is False
