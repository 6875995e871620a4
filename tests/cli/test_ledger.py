"""`undertow ledger`: create, show, limit, verify, cancel, forget, roles."""

import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.cli.calls import call, call_json, rows, strict
from tests.cli.scenario import (
    ACTIVE,
    CHAIN,
    ledger,
    release,
    scenario,
)
from undertow.planning.budget import dp_budget

__all__ = ["scenario"]

pytestmark = pytest.mark.usefixtures("scenario")
CREATE = ("ledger", "create", "new.db", "--dataset", "w25", "--model", "chain.json", "--limit", 1)


def refused(result):
    assert result.exit_code == 1
    assert not result.stdout
    assert len(result.stderr.splitlines()) == 1
    return result.stderr


def test_an_account_is_created_with_its_budget():
    said = call_json(*CREATE)
    assert said == {
        "dataset": "w25",
        "model": "Markov chain on 2 states, a stationary start, any length",
        "origin": "hand",
        "audience": "public",
        "against": "any",
        "unit": "record",
        "secret": {"kind": "window", "records": 1},
        "limit": 1.0,
        "budget": dp_budget(CHAIN, 1.0),
        "accepted": [],
        "conditions": ["the model was not checked against records"],
    }
    assert ledger("new.db").model == CHAIN
    assert release(account=("--ledger", "new.db", "--dataset", "w25")).exit_code == 0


def test_an_account_in_words():
    said = rows(call(*CREATE, "--against", "ignorant"))
    assert said["attacker"].strip() == "an attacker who knows no other record"
    assert "a leakage of 1: a factor 2.72" in said["limit"]
    assert "DP level" in said["budget"]
    person = rows(call(*CREATE[:4], "p25", *CREATE[5:], "--secret", "person"))
    assert person["protects"].strip() == "all records of one person"


def test_an_account_is_not_created_twice():
    assert call(*CREATE).exit_code == 0
    assert "already has the data set 'w25'" in refused(call(*CREATE))
    assert call(*CREATE[:4], "w26", *CREATE[5:]).exit_code == 0


def test_creation_that_fails_leaves_nothing():
    for wrong in (
        (*CREATE[:-1], 0),
        (*CREATE[:-1], "nan"),
        (*CREATE[:6], "none.json", *CREATE[7:]),
        ("ledger", "create", "no/such/new.db", *CREATE[3:]),
    ):
        refused(call(*wrong))
    assert not Path("new.db").exists()
    assert call(*CREATE[:5], "--limit", 1).exit_code == 2
    assert call(*CREATE[:-2]).exit_code == 2
    assert call(*CREATE, "--secret", "house").exit_code == 2


def test_a_table_of_what_was_released():
    release("--window", "2025-01-06,2025-01-07", options=(*ACTIVE, "--by", "cohort"))
    release("--window", "2025-01-07,2025-01-08", "--id", "a-long-name-" * 9)
    result = call("ledger", "show", "year.db")
    assert result.exit_code == 0
    said = result.stdout
    assert "ts from 2025-01-06 before 2025-01-07" in said
    assert said.count("confirmed") == 2
    assert "left" in said
    assert max(map(len, said.splitlines())) < 140
    for entry in ledger().entries():
        assert entry.hash[:8] in said
        assert entry.result is not None
        assert f" {entry.result['numbers']}" not in said


def test_several_data_sets_must_be_named():
    call("ledger", "create", "year.db", "--dataset", "w26", "--model", "chain.json", "--limit", 1)
    said = refused(call("ledger", "show", "year.db"))
    assert "the ledger holds 2, w25, w26" in said
    assert call("ledger", "show", "year.db", "--dataset", "w26").exit_code == 0
    assert "no data set 'w27'" in refused(call("ledger", "show", "year.db", "--dataset", "w27"))


def test_a_limit_is_changed_and_the_change_is_recorded():
    release()
    events = ledger().verify()
    said = call_json("ledger", "limit", "year.db", "--dataset", "w25", 2)
    assert said["limit"] == 2.0
    assert said["budget"] == dp_budget(CHAIN, 2.0)
    assert ledger().verify() == events + 1
    assert "already spent" in refused(call("ledger", "limit", "year.db", "--dataset", "w25", 0.01))
    assert ledger().limit == 2.0
    assert rows(call("ledger", "limit", "year.db", "--dataset", "w25", 3))["limit"]


def test_what_was_released_and_more_fits_after_the_limit_is_raised():
    release()
    assert release(plan="large.plan").exit_code == 1
    assert call("ledger", "limit", "year.db", "--dataset", "w25", 4).exit_code == 0
    assert release(plan="large.plan").exit_code == 0


def test_a_ledger_is_verified():
    release()
    entry = ledger().entries()[0].hash
    said = call_json("ledger", "verify", "year.db", "--entry", entry)
    assert said == {"verified": True, "events": 5, "datasets": ["w25"]}
    assert "5, each chained" in rows(call("ledger", "verify", "year.db"))["events"]
    assert refused(call("ledger", "verify", "year.db", "--entry", "0" * 64))


def test_a_changed_ledger_is_noticed():
    release()
    with sqlite3.connect("year.db") as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
        assert "events" in "".join(tables)
        (name,) = [t for t in tables if re.fullmatch(r"\w*events", t)]
        connection.execute(
            f"UPDATE {name} SET body = replace(body, '0.1', '0.0') WHERE kind = 'reserve'"
        )
    connection.close()
    result = call("ledger", "verify", "year.db", "--json")
    assert result.exit_code == 1
    assert strict(result.stdout)["error"] == "LedgerDamaged"


@pytest.mark.parametrize("command", ["show", "verify"])
def test_what_is_no_ledger(command):
    Path("notes.db").write_text("notes " * 200)
    Path("empty.db").touch()
    for name in ("none.db", "notes.db", "empty.db", ".", "mysql://host/x"):
        refused(call("ledger", command, name))


def test_wrong_usage():
    assert call("ledger").exit_code == 2
    assert call("ledger", "spend").exit_code == 2
    assert call("ledger", "show").exit_code == 2
    assert call("ledger", "limit", "year.db", 2).exit_code == 2
    assert call("ledger", "limit", "year.db", "--dataset", "w25", "much").exit_code == 2


CANCEL = ("ledger", "cancel", "year.db", "--dataset", "w25", "--why", "wrong table", "--id")


def test_what_was_never_drawn_is_given_back():
    ledger().reserve("r", 0.1)
    said = call_json(*CANCEL, "r")
    assert said == {"cancelled": "r", "why": "wrong table", "left": ledger().budget}
    (entry,) = call_json("ledger", "show", "year.db")["entries"]
    assert (entry["status"], entry["why"], entry["begun"]) == ("cancelled", "wrong table", False)
    assert "cancelled" in call("ledger", "show", "year.db").stdout
    assert "was cancelled" in refused(call(*CANCEL, "r"))
    assert "nothing was reserved" in refused(call(*CANCEL, "s"))
    ledger().reserve("s", 0.1)
    assert rows(call(*CANCEL, "s"))["why"].strip() == "wrong table"
    ledger().reserve("t", 0.1)
    ledger().begin("t")
    assert "noise may have been drawn" in refused(call(*CANCEL, "t"))
    assert "begun" in call("ledger", "show", "year.db").stdout


def test_an_older_copy_is_refused_until_its_loss_is_accepted():
    shutil.copy("year.db", "old.db")
    release()
    shutil.copy("old.db", "year.db")
    for refusal in (
        release(),
        call("ledger", "show", "year.db"),
        call("ledger", "verify", "year.db"),
    ):
        assert "older copy" in refused(refusal)
        assert "undertow ledger forget" in refusal.stderr
    assert "--yes" in call("ledger", "forget", "year.db").stderr
    assert call("ledger", "forget", "year.db").exit_code == 2
    said = call_json("ledger", "forget", "year.db", "--yes")
    assert said == {"forgotten": True, "remembered": 5}
    assert release().exit_code == 0
    assert ledger().verify() == 6
    assert call("ledger", "forget", "year.db", "--yes").exit_code == 0


def test_a_ledger_under_a_key(monkeypatch):
    Path("key").write_bytes(bytes(range(32)))
    Path("other").write_bytes(bytes(32))
    keyed = ("--key", "key")
    assert call(*CREATE, *keyed).exit_code == 0
    assert call("ledger", "show", "new.db").exit_code == 0
    account = ("--ledger", "new.db", "--dataset", "w25")
    assert "kept under a key" in refused(release(account=account))
    assert "kept under a key" in refused(call("ledger", "verify", "new.db"))
    assert "another key" in refused(call("ledger", "verify", "new.db", "--key", "other"))
    assert "not kept under a key" in refused(call("ledger", "verify", "year.db", *keyed))
    assert "at least 16" in refused(call("ledger", "verify", "new.db", "--key", "/dev/null"))
    assert call("ledger", "verify", "new.db", *keyed).exit_code == 0
    assert call("ledger", "limit", "new.db", "--dataset", "w25", 2, *keyed).exit_code == 0
    monkeypatch.setenv("UNDERTOW_LEDGER_KEY", "key")
    assert release(account=account).exit_code == 0
    assert call("ledger", "verify", "new.db").exit_code == 0


def test_a_ledger_that_was_replaced_is_told_in_one_line():
    release()
    Path("year.db").unlink()
    result = call(*CREATE[:2], "year.db", *CREATE[3:])
    assert result.exit_code == 0
    assert len(result.stderr.splitlines()) == 1
    assert "another ledger was kept as the ledger year.db before, with 5 events" in result.stderr


def test_roles_belong_to_servers():
    assert "PostgreSQL" in refused(call("ledger", "roles", "year.db", "--role", "analyst"))
