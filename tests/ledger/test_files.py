"""A ledger file that somebody reaches behind our back, in every way that SQLite has for it."""

import os
import re
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from tests.ledger.places import EIGHTH, QUARTER
from undertow.data.scopes import Scope
from undertow.errors import LedgerDamaged, LedgerError, LedgerUnavailable
from undertow.ledger.book import Ledger, datasets

OLD, NEW = '"value":17', '"value":71'
EDIT = f"UPDATE undertow_events SET body = replace(body, '{OLD}', '{NEW}') WHERE seq = 3"
BACK = f"UPDATE undertow_events SET body = replace(body, '{NEW}', '{OLD}') WHERE seq = 3"


@pytest.fixture
def ledger(sqlite_place):
    """A ledger that this process has verified, and goes on from."""
    made = sqlite_place.open()
    made.reserve("a", QUARTER, Scope(start=0, end=7))
    made.confirm("a", {"value": 17})
    made.reserve("b", EIGHTH)
    return made


def refused(ledger, kind=LedgerDamaged, words=None):
    """Nothing is granted: neither by who has verified the ledger nor by who opens it now."""
    for attempt in (
        lambda: ledger.reserve("next", EIGHTH, Scope(start=50)),
        lambda: ledger.confirm("b", {"value": 1}),
        lambda: ledger.set_limit(9.0),
        lambda: Ledger(ledger._store.path, "w25").reserve("next", EIGHTH),
    ):
        with pytest.raises(kind, match=words):
            attempt()


def in_place(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


# --- the log beside the file ----------------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False], ids=["in the log", "checkpointed"])
def test_a_write_ahead_log_is_refused(sqlite_place, ledger, kept):
    """An edit in the log leaves the file as it was: nobody would look at the old events again."""
    with closing(sqlite3.connect(sqlite_place.where, isolation_level=None)) as attacker:
        assert attacker.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        attacker.execute(EDIT)
        if not kept:
            attacker.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert Path(f"{sqlite_place.where}-wal").exists()
        refused(ledger, LedgerUnavailable, "write-ahead log")
        with pytest.raises(LedgerUnavailable, match="write-ahead log"):
            datasets(sqlite_place.where)
    refused(ledger, LedgerUnavailable, "write-ahead log")
    in_place(sqlite_place.where, "PRAGMA journal_mode = DELETE")
    refused(ledger, LedgerDamaged)


def test_a_log_that_edits_nothing_is_taken_away_as_the_refusal_says(sqlite_place, ledger):
    in_place(sqlite_place.where, "PRAGMA journal_mode = WAL")
    with pytest.raises(LedgerUnavailable) as refusal:
        ledger.reserve("next", EIGHTH)
    (command,) = re.findall(r'sqlite3 LEDGER "(.*)"', str(refusal.value))
    in_place(sqlite_place.where, command)
    ledger.reserve("next", EIGHTH)
    assert ledger.verify() == 5


def test_an_edited_log_that_is_put_beside_a_file_is_refused(sqlite_place, ledger):
    """SQLite reads a log that lies beside a file, whatever mode the file itself is in.

    And who closes the file last writes the log into it: then the edit is in the file, and found.
    """
    log = Path(f"{sqlite_place.where}-wal")
    with closing(sqlite3.connect(sqlite_place.where, isolation_level=None)) as attacker:
        attacker.execute("PRAGMA journal_mode = WAL")
        attacker.execute(EDIT)
        content = log.read_bytes()
        attacker.execute(BACK)
    in_place(sqlite_place.where, "PRAGMA journal_mode = DELETE")
    assert not log.exists()
    log.write_bytes(content)
    with pytest.raises(LedgerUnavailable, match="write-ahead log"):
        ledger.reserve("next", EIGHTH)
    refused(ledger, LedgerError)
    in_place(sqlite_place.where, "PRAGMA journal_mode = DELETE")
    refused(ledger, LedgerDamaged)


# --- other ways to write it -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF"])
def test_an_edit_under_any_journal_is_found(sqlite_place, ledger, mode):
    in_place(sqlite_place.where, f"PRAGMA journal_mode = {mode}", EDIT)
    refused(ledger)


def test_an_edit_through_an_attached_database_is_found(sqlite_place, ledger, tmp_path):
    in_place(
        tmp_path / "other.db",
        f"ATTACH '{sqlite_place.where}' AS ledger",
        EDIT.replace("undertow_events", "ledger.undertow_events"),
    )
    refused(ledger)


def test_an_edit_that_keeps_the_times_of_the_file_is_found(sqlite_place, ledger):
    before = Path(sqlite_place.where).stat()
    in_place(sqlite_place.where, EDIT)
    os.utime(sqlite_place.where, ns=(before.st_atime_ns, before.st_mtime_ns))
    refused(ledger)


def journal(path, old, new):
    """Write a rollback journal that puts pages of its own in place of those with a text."""
    content = path.read_bytes()
    size = struct.unpack(">H", content[16:18])[0]
    pages = [content[at : at + size] for at in range(0, len(content), size)]
    changed = {n: page.replace(old, new) for n, page in enumerate(pages, 1) if old in page}
    assert changed
    head = bytes.fromhex("d9d505f920a163d7")
    head += struct.pack(">IIIII", len(changed), 0, len(pages), 512, size)
    records = b"".join(
        struct.pack(">I", number) + page + struct.pack(">I", sum(page[size - 200 : 0 : -200]))
        for number, page in changed.items()
    )
    Path(f"{path}-journal").write_bytes(head.ljust(512, b"\0") + records)


def test_an_edit_by_a_journal_to_roll_back_is_found(sqlite_place, ledger):
    """What SQLite takes for the journal of a killed writer, and writes into the file itself."""
    journal(Path(sqlite_place.where), OLD.encode(), NEW.encode())
    refused(ledger)
    assert NEW.encode() in Path(sqlite_place.where).read_bytes()


# --- things in the file that act ------------------------------------------------------------------

ACTING = {
    "trigger on events": [
        f"CREATE TRIGGER quiet AFTER INSERT ON undertow_events BEGIN {EDIT}; END",
    ],
    "trigger on the head": [
        "CREATE TABLE notes (x)",
        "CREATE TRIGGER quiet AFTER UPDATE ON undertow_ledger BEGIN DELETE FROM notes; END",
    ],
    "trigger on another table": [
        "CREATE TABLE notes (x)",
        "CREATE TRIGGER quiet AFTER INSERT ON notes BEGIN DELETE FROM undertow_segments; END",
    ],
    "view for a table": [
        "ALTER TABLE undertow_segments RENAME TO hidden",
        "CREATE VIEW undertow_segments AS SELECT * FROM hidden WHERE level < 0.1",
        "CREATE TRIGGER quiet INSTEAD OF INSERT ON undertow_segments BEGIN SELECT 1; END",
    ],
    "view alone": ["CREATE VIEW seen AS SELECT 1"],
    "virtual table": ["CREATE VIRTUAL TABLE notes USING fts5(x)"],
}


@pytest.mark.parametrize("statements", ACTING.values(), ids=ACTING)
def test_a_file_with_anything_that_acts_is_refused(sqlite_place, ledger, statements):
    in_place(sqlite_place.where, *statements)
    refused(ledger, LedgerDamaged, "trigger, a view or a virtual table")
    with pytest.raises(LedgerDamaged, match="trigger, a view or a virtual table"):
        datasets(sqlite_place.where)
    events = sqlite3.connect(sqlite_place.where).execute("SELECT body FROM undertow_events")
    assert not any(NEW in body for (body,) in events)


def test_tables_of_others_in_the_file_are_left_alone(sqlite_place, ledger):
    in_place(sqlite_place.where, "CREATE TABLE notes (x)", "CREATE INDEX n ON notes (x)")
    ledger.reserve("next", EIGHTH)
    assert ledger.verify() == 5
