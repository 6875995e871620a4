"""Faults of servers, and ledgers of other versions."""

import subprocess
import sys
import traceback

import pytest

import undertow as ut
from tests.ledger.places import HALF, LIMIT, MODEL, Place
from tests.ledger.test_faults import refused
from undertow import ledger as checkpoints
from undertow.errors import (
    InvalidInput,
    LedgerDamaged,
    LedgerUnavailable,
)
from undertow.ledger.book import Ledger
from undertow.ledger.store import Store, refusal

# --- servers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", ["reserve-begun", "reserve-written"])
def test_a_cut_connection_changes_nothing(postgres_place, monkeypatch, checkpoint):
    ledger = postgres_place.open()

    def cut(reached):
        if reached == checkpoint:
            postgres_place.forge(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> "
                "pg_backend_pid() AND state = 'idle in transaction'"
            )

    monkeypatch.setattr(checkpoints, "reached", cut)
    with pytest.raises(LedgerUnavailable, match=r"cut the connection.*same release id"):
        ledger.reserve("r", HALF)
    monkeypatch.undo()
    assert (ledger.level(), ledger.verify()) == (0.0, 1)
    ledger.reserve("r", HALF)
    assert ledger.verify() == 2


def test_a_connection_cut_after_the_commit_is_charged_once(place, monkeypatch):
    ledger = place.open()

    def cut(reached):
        if reached == "reserve-committed":
            raise ConnectionResetError

    monkeypatch.setattr(checkpoints, "reached", cut)
    with pytest.raises(ConnectionResetError):
        ledger.reserve("r", HALF)
    monkeypatch.undo()
    assert ledger.level() == HALF
    assert ledger.reserve("r", HALF).result is None
    assert (ledger.level(), ledger.verify()) == (HALF, 2)


@pytest.mark.parametrize(
    "where",
    [
        "postgresql://someone:hunter2@127.0.0.1:1/db",
        "postgres://someone@127.0.0.1:1/db?password=hunter2",
        "postgresql+psycopg2://someone:hunter2@127.0.0.1:1/db",
        "postgresql://someone:hunter2@127.0.0.1:x/db",
    ],
)
def test_passwords_are_never_shown(where):
    with pytest.raises((LedgerUnavailable, InvalidInput)) as caught:
        Ledger(where, "w25", MODEL, LIMIT)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    if not where.endswith("x/db"):
        shown += repr(Store(where)) + str(Store(where))
    assert "hunter2" not in shown
    assert "someone" not in shown


def test_a_missing_driver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LedgerUnavailable, match=r"undertow\[postgres\]"):
        Ledger("postgresql://127.0.0.1:1/other", "w25", MODEL, LIMIT)


def test_a_database_that_does_not_exist_is_reported(postgres):
    with pytest.raises(LedgerUnavailable):
        Ledger(postgres.replace("/postgres?", "/nowhere?"), "w25", MODEL, LIMIT)


def test_a_user_who_may_not_write_is_told(postgres, postgres_place):
    ledger = postgres_place.open()
    ledger.reserve("r", HALF)
    reader = Place("postgresql", postgres_place.where + "%20-cdefault_transaction_read_only%3Don")
    assert Ledger(reader.where, "w25").level() == HALF
    with pytest.raises(LedgerUnavailable, match="may not be written"):
        Ledger(reader.where, "w25").confirm("r", {})


def test_a_careless_server_is_made_to_wait_for_its_disk(postgres_place):
    careless = Place("postgresql", postgres_place.where + "%20-csynchronous_commit%3Doff")
    with careless.open()._store._connected(writing="reserve") as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    strict = Place("postgresql", postgres_place.where + "%20-csynchronous_commit%3Dremote_apply")
    with strict.open()._store._connected(writing="reserve") as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "remote_apply"


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("SQLITE_BUSY_SNAPSHOT", LedgerUnavailable, "locked"),
        ("SQLITE_IOERR_FSYNC", LedgerUnavailable, "writing it failed"),
        ("SQLITE_CORRUPT_VTAB", LedgerDamaged, "damaged"),
        ("53100", LedgerUnavailable, "disk is full"),
        ("53300", LedgerUnavailable, "resources"),
        ("42501", LedgerUnavailable, "denied"),
        ("42P01", LedgerDamaged, "damaged"),
        ("XX001", LedgerDamaged, "damaged"),
        ("08006", LedgerUnavailable, "cannot be reached"),
        (None, LedgerUnavailable, "cannot be reached"),
    ],
)
def test_errors_in_our_words(code, kind, words):
    error = Exception("secret")
    error.sqlstate = code  # type: ignore[attr-defined]
    found = refusal(error, "the ledger")
    assert type(found) is kind
    assert words in str(found)
    assert "secret" not in str(found)


# --- versions -------------------------------------------------------------------------------------


def test_a_newer_ledger_is_refused_and_left_alone(place):
    ledger = place.open()
    place.forge("UPDATE undertow_ledger SET version = 3")
    refused(place.where, LedgerUnavailable, "use a newer undertow")
    with pytest.raises(LedgerUnavailable, match="newer"):
        ledger.reserve("r", HALF)
    assert place.forge("SELECT version, seq FROM undertow_ledger") == [(3, 1)]


def test_an_older_ledger_is_refused_and_left_alone(place):
    ledger = place.open()
    place.forge(
        "ALTER TABLE undertow_ledger DROP COLUMN id",
        "ALTER TABLE undertow_ledger DROP COLUMN key_mark",
        "UPDATE undertow_ledger SET version = 1",
    )
    refused(place.where, LedgerUnavailable, "has version 1, this undertow reads version 2; use")
    for question in (ledger.level, lambda: ledger.reserve("r", HALF)):
        with pytest.raises(LedgerUnavailable, match="the undertow that made it"):
            question()
    assert place.forge("SELECT version, seq FROM undertow_ledger") == [(1, 1)]


def test_the_public_package_does_not_load_the_database():
    code = "import undertow, undertow.ledger.rules, sys; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert ut.Groups(2) == MODEL
