"""`--secret`: the history of records in a row, on every command that takes it."""

import pytest

import undertow as ut
from tests.cli.calls import NAMED, call, call_json, rows

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
HOUR = ut.Window(12)


def test_a_leakage_is_the_library_answer():
    leak = ut.leakage(ut.PureDP(0.5), ACTIVITY, secret=HOUR)
    found = call_json("leakage", *NAMED, "--epsilon", 0.5, "--secret", 12)
    assert (found["lower"], found["upper"]) == (leak.lower, leak.upper)
    assert found["secret"] == {"kind": "window", "records": 12}
    again = ("--secret", "1 hour", "--every", "5m")
    assert call_json("leakage", *NAMED, "--epsilon", 0.5, *again) == found
    one = call_json("leakage", *NAMED, "--epsilon", 0.5, "--secret", 1)
    assert one == call_json("leakage", *NAMED, "--epsilon", 0.5)


def test_words_say_what_is_protected():
    result = call("leakage", *NAMED, "--epsilon", 0.1, "--secret", 2, "--target", 5)
    assert result.stdout.startswith("Leakage about 2 records in a row")
    said = rows(result)
    assert "between two histories of 2 records in a row" in said["meaning"]
    assert "wants records 5 to 6" in said["attacker"]
    assert "target records 5 to 6" in said["witness"]


def test_a_plan_for_an_hour(tmp_path):
    path = tmp_path / "plan.json"
    asked = (*NAMED, "--count", "active", "--limit", 1, "--secret", 12)
    said = rows(call("plan", *asked, "--output", path))
    assert "between any two histories of 12 records in a row" in said["guarantee"]
    assert ut.Plan.from_json(path.read_text()).leakage.secret.window == 12


def test_compare_and_the_ledger_know_it(tmp_path):
    asked = (*NAMED, "--length", 24, "--count", "active", "--limit", 1, "--secret", 12)
    table = call_json("compare", *asked)
    assert (table["secret"]["records"], table["best"]) == (12, "exchange")
    said = " ".join(call("compare", *asked).stdout.split())
    assert "a leakage of at most 1 about the history of 12 records in a row to" in said
    book = tmp_path / "year.db"
    opened = call_json(
        "ledger", "create", book, "--dataset", "w25", *NAMED, "--limit", 1, "--secret", 12
    )
    assert opened["secret"] == {"kind": "window", "records": 12}
    assert opened["budget"] == ut.dp_budget(ACTIVITY, 1.0, secret=HOUR)
    assert rows(call("ledger", "show", book))["protects"].strip() == "12 records in a row"


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        (("--secret", "0"), 1, "the window must be at least 1, found 0"),
        (("--secret", "7"), 1, "the window has 7 records, but a series has 6"),
        (("--secret", "1h"), 2, "a duration such as 1h with the time between two records"),
        (("--secret", "2.5"), 2, "--secret needs a number of records"),
        (("--secret", "soon", "--every", "5m"), 1, "the window must be a duration such as"),
        (("--secret", "3", "--every", "5m"), 2, "--every goes with a duration"),
        (("--every", "5m"), 2, "--every goes with a duration"),
    ],
)
def test_bad_windows(typed, code, said):
    result = call("leakage", *NAMED, "--length", 6, "--epsilon", 1, *typed)
    assert result.exit_code == code
    assert said in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        (("--series",), 2, "--secret goes with a query such as --count"),
        (("--count", "active", "--protect", "3"), 2, "--protect goes without --secret"),
        (("--count", "active", "--method", "exact"), 1, "'exact' is about one record"),
    ],
)
def test_plans_that_cannot_have_a_window(typed, code, said):
    result = call("plan", *NAMED, "--length", 6, "--limit", 1, "--secret", 3, *typed)
    assert result.exit_code == code
    assert said in " ".join(result.stderr.split())
