"""What is kept outside the ledger, a memory and a key: old copies, forgeries, a table twice."""

import json
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.ledger.places import EIGHTH, HALF, LIMIT, MODEL, QUARTER
from undertow import ledger as checkpoints
from undertow.errors import AccountWarning, LedgerConflict, LedgerDamaged
from undertow.ledger import checks
from undertow.ledger.book import Ledger, forget
from undertow.ledger.entries import Seal
from undertow.ledger.memory import Memory, memory_at

KEY = bytes(range(32))


@pytest.fixture
def another_process():
    """What this process has verified is not known to the next one."""
    return checks._known.clear


# --- rollback -------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [True, False])
def test_an_old_copy_grants_nothing(sqlite_place, tmp_path, another_process, other):
    ledger = sqlite_place.open()
    shutil.copy(sqlite_place.where, tmp_path / "old.db")
    ledger.reserve("a", HALF)
    ledger.confirm("a", {"value": 1})
    shutil.copy(tmp_path / "old.db", sqlite_place.where)
    if other:
        another_process()
    said = "older copy.*the last 2 of 3 events that were written are not in it.*undertow ledger"
    for attempt in (
        lambda: ledger.reserve("b", HALF),
        lambda: ledger.set_limit(2.0),
        ledger.verify,
        lambda: sqlite_place.open(),
        lambda: Ledger(tmp_path / "old.db", "w25"),
    ):
        with pytest.raises(LedgerDamaged, match=said):
            attempt()


def test_an_old_copy_that_went_on_grants_nothing(sqlite_place, tmp_path, another_process):
    """Both copies have three events, and what was spent in the other is unknown to each."""
    ledger = sqlite_place.open()
    shutil.copy(sqlite_place.where, tmp_path / "old.db")
    for number in range(2):
        ledger.reserve(f"{number}", QUARTER)
    another_process()
    shutil.copy(tmp_path / "old.db", sqlite_place.where)
    aside = sqlite_place.open(memory=False)
    for number in range(4):
        aside.reserve(f"other {number}", EIGHTH)
    for attempt in (lambda: ledger.reserve("b", EIGHTH), lambda: sqlite_place.open()):
        with pytest.raises(LedgerDamaged, match="event 3 is not the one that was written"):
            attempt()


def test_a_process_remembers_by_itself(sqlite_place, tmp_path):
    ledger = sqlite_place.open(memory=False)
    shutil.copy(sqlite_place.where, tmp_path / "old.db")
    ledger.reserve("a", HALF)
    ledger.reserve("b", HALF)
    shutil.copy(tmp_path / "old.db", sqlite_place.where)
    with pytest.raises(LedgerDamaged, match="older copy"):
        ledger.reserve("c", HALF)


def test_a_loss_is_accepted_on_record(sqlite_place, tmp_path):
    ledger = sqlite_place.open()
    shutil.copy(sqlite_place.where, tmp_path / "old.db")
    ledger.reserve("a", HALF)
    shutil.copy(tmp_path / "old.db", sqlite_place.where)
    assert forget(sqlite_place.where) == 2
    (body,) = sqlite_place.forge("SELECT body FROM undertow_events WHERE kind = 'forget'")[0]
    assert json.loads(body)["remembered"][0] == 2
    again = sqlite_place.open()
    again.reserve("b", HALF)
    assert (again.verify(), ledger.level()) == (3, HALF)


def test_a_damaged_ledger_is_not_accepted(sqlite_place):
    sqlite_place.open().reserve("a", HALF)
    sqlite_place.forge("DELETE FROM undertow_segments")
    with pytest.raises(LedgerDamaged, match="spent levels"):
        forget(sqlite_place.where)
    with pytest.raises(LedgerDamaged, match="spent levels"):
        sqlite_place.open().reserve("b", HALF)


def test_a_crash_before_the_head_is_remembered_is_harmless(place, monkeypatch):
    ledger = place.open()

    def die(checkpoint):
        if checkpoint == "reserve-committed":
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "reached", die)
    with pytest.raises(KeyboardInterrupt):
        ledger.reserve("a", HALF)
    monkeypatch.setattr(checkpoints, "reached", lambda _: None)
    assert place.open().verify() == 2
    assert ledger.reserve("a", HALF).result is None


def test_another_ledger_at_the_same_place_is_noticed(sqlite_place):
    sqlite_place.open().reserve("a", HALF)
    Path(sqlite_place.where).unlink()
    with pytest.warns(AccountWarning, match="before, with 2 events"):
        sqlite_place.open()
    sqlite_place.open().reserve("a", HALF)  # told once: this is the one that is kept here now


def test_a_ledger_that_took_the_place_of_another_is_refused(sqlite_place, tmp_path):
    """Whoever writes the whole file anew, under a name of its own, is noticed."""
    sqlite_place.open().reserve("a", HALF)
    Ledger(tmp_path / "other.db", "w25", MODEL, LIMIT, memory=False)
    shutil.copy(tmp_path / "other.db", sqlite_place.where)
    with pytest.raises(LedgerDamaged, match="with 2 events: this one has replaced it"):
        sqlite_place.open()
    forget(sqlite_place.where)
    sqlite_place.open().reserve("a", HALF)
    assert sqlite_place.open().verify() == 3


# --- the file -------------------------------------------------------------------------------------


def test_the_memory_belongs_to_its_user(sqlite_place, tmp_path):
    path = tmp_path / "deep" / "state" / "memory.db"
    sqlite_place.open(memory=path).reserve("a", HALF)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_default_place(monkeypatch, tmp_path):
    monkeypatch.setenv("UNDERTOW_STATE", "/one")
    assert memory_at(None)._path == Path("/one/ledgers.db")
    monkeypatch.delenv("UNDERTOW_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", "/two")
    assert memory_at(None)._path == Path("/two/undertow/ledgers.db")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert memory_at(None)._path == tmp_path / ".local/state/undertow/ledgers.db"
    assert memory_at(False)._path is None


@pytest.mark.parametrize("spoil", ["a file for a folder", "no database", "a folder"])
def test_a_memory_that_cannot_be_used_is_told_once(sqlite_place, tmp_path, spoil):
    path = tmp_path / "state" / "memory.db"
    if spoil == "a file for a folder":
        path.parent.write_text("x")
    else:
        path.parent.mkdir()
        path.write_text("x" * 5000) if spoil == "no database" else path.mkdir()
    with pytest.warns(AccountWarning, match="cannot be remembered") as told:
        ledger = sqlite_place.open(memory=path)
    assert len(told) == 1
    ledger.reserve("a", HALF)  # warnings are errors: it is told once
    ledger.confirm("a", {"value": 1})
    assert ledger.verify() == 3


def test_heads_only_advance_whoever_writes(tmp_path):
    path = tmp_path / "memory.db"

    def work(start):
        for seq in range(start, 60, 3):
            Memory(path).advance("a", "place", seq, f"{seq}")

    threads = [threading.Thread(target=work, args=(start,)) for start in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Memory(path).head("a") == (59, "59")


KILLED = """
import os, sqlite3, sys
file = sqlite3.connect(sys.argv[1], isolation_level=None)
file.execute("PRAGMA cache_size = 1")
file.execute("BEGIN IMMEDIATE")
file.execute("UPDATE heads SET seq = 99")
rows = [(str(k), 'x' * 4000) for k in range(99)]
file.executemany("INSERT INTO heads VALUES (?, '', 0, ?)", rows)
os._exit(0)
"""


def test_a_writer_killed_half_way_is_undone_by_the_next_reader(tmp_path):
    path = tmp_path / "memory.db"
    Memory(path).advance("a", "place", 7, "f0")
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=True)
    assert Path(f"{path}-journal").exists()
    assert Memory(path).head("a") == (7, "f0")


# --- the same table twice -------------------------------------------------------------------------


def test_the_same_table_in_two_accounts_is_told(place, tmp_path):
    one, two = place.open("one"), place.open("two")
    assert one.bind("f1") == []
    assert one.bind("f1") == []
    assert one.bind("f2") == []  # it has grown
    assert one.verify() == 4
    (said,) = two.bind("f2")
    assert said.startswith("the same table was released as data set 'one' in the ledger")
    assert "budgets of two accounts of the same records add up" in said
    assert two.bind("f2") == [said]
    other = Ledger(tmp_path / "second.db", "three", MODEL, LIMIT)
    said = " ".join(other.bind("f2"))
    assert "'one'" in said
    assert "'two'" in said
    assert Ledger(tmp_path / "third.db", "four", MODEL, LIMIT, memory=False).bind("f2") == []
    assert other.verify() == 2


# --- keys -----------------------------------------------------------------------------------------


def rewritten(place, change):
    """Write the whole chain anew after a change, as someone who knows the format could."""
    rows = place.forge("SELECT seq, dataset, kind, release_id, body FROM undertow_events")
    statements, last = ["DELETE FROM undertow_events"], "0" * 64
    for seq, dataset, kind, release_id, body in sorted(rows):
        text = change(body)
        own = Seal().of(last, seq, dataset, kind, release_id, text)
        key = "NULL" if release_id is None else f"'{release_id}'"
        row = f"{seq}, '{dataset}', '{kind}', {key}, '{text}', '{last}', '{own}'"
        statements.append(f"INSERT INTO undertow_events VALUES ({row})")
        last = own
    place.forge(*statements, f"UPDATE undertow_ledger SET hash = '{last}'")


def lower(place):
    """Halve what was spent, everywhere and consistently."""
    old, new = json.dumps(HALF), json.dumps(QUARTER)
    rewritten(place, lambda body: body.replace(f'"level":{old}', f'"level":{new}'))
    numerator, denominator = QUARTER.as_integer_ratio()
    place.forge(f"UPDATE undertow_segments SET level = {new}, exact = '{numerator}/{denominator}'")


def test_a_rewritten_chain_is_caught_under_a_key(place, another_process):
    ledger = place.open(key=KEY, memory=False)
    ledger.reserve("a", HALF)
    lower(place)
    another_process()
    for attempt in (
        lambda: ledger.reserve("b", EIGHTH),
        lambda: ledger.set_limit(2.0),
        ledger.verify,
        ledger.entries,
    ):
        with pytest.raises(LedgerDamaged):
            attempt()
    place.forge("UPDATE undertow_ledger SET key_mark = NULL")
    with pytest.raises(LedgerConflict, match="somebody wrote it anew"):
        place.open(key=KEY, memory=False)


def test_a_rewritten_chain_without_a_key_is_caught_by_the_memory_alone(place, another_process):
    plain = place.open()
    plain.reserve("a", HALF)
    lower(place)
    another_process()
    assert place.open(memory=False).verify() == 2  # what is consistent cannot be told apart
    with pytest.raises(LedgerDamaged, match="event 2 is not the one that was written"):
        plain.reserve("b", EIGHTH)


def test_a_key_is_needed_to_write_and_to_verify_but_not_to_read(place, tmp_path):
    ledger = place.open(key=KEY)
    ledger.reserve("a", HALF)
    blind = Ledger(place.where, "w25")
    assert (blind.level(), len(blind.entries()), blind.entry("a").level) == (HALF, 1, HALF)
    for attempt in (
        blind.verify,
        lambda: blind.reserve("b", EIGHTH),
        lambda: blind.reserve("a", HALF),
        lambda: blind.confirm("a", {}),
        lambda: blind.set_limit(2.0),
        lambda: place.open("other"),
    ):
        with pytest.raises(LedgerConflict, match="kept under a key"):
            attempt()
    with pytest.raises(LedgerConflict, match="another key"):
        place.open(key=bytes(32))
    file = tmp_path / "key"
    file.write_bytes(KEY)
    assert place.open(key=file).verify() == place.open(key=str(file)).verify() == 2
    assert repr(Seal(KEY)).find("\\x01") == -1


def test_a_ledger_gets_its_key_when_it_is_created(place):
    place.open()
    with pytest.raises(LedgerConflict, match="not kept under a key"):
        place.open(key=KEY)


@pytest.mark.parametrize("key", [b"short", 7, "no/such/file"])
def test_what_is_no_key_is_refused(sqlite_place, key):
    with pytest.raises(ValueError, match="key"):
        sqlite_place.open(key=key)
    assert not Path(sqlite_place.where).exists()


def test_the_key_may_be_named_in_the_environment(sqlite_place, tmp_path, monkeypatch):
    (tmp_path / "key").write_bytes(KEY)
    monkeypatch.setenv("UNDERTOW_LEDGER_KEY", str(tmp_path / "key"))
    sqlite_place.open().reserve("a", HALF)
    monkeypatch.delenv("UNDERTOW_LEDGER_KEY")
    assert sqlite_place.open(key=KEY).verify() == 2


def test_two_keyed_ledgers_of_one_history_differ(sqlite_place, tmp_path):
    """An event of one cannot be moved into the other."""
    hashes = set()
    for where in (sqlite_place.where, tmp_path / "second.db"):
        ledger = Ledger(where, "w25", MODEL, LIMIT, key=KEY)
        with ledger._store.reading() as transaction:
            hashes.add(next(transaction.events()).previous)  # names the ledger
    assert len(hashes) == 2
