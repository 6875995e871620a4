"""Wrong files, full disks, locks, lost connections, old and new schemas: typed, and unchanged."""

import os
import resource
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.ledger import soak_work as work
from tests.ledger.places import EIGHTH, HALF, LIMIT, MODEL, QUARTER
from undertow import ledger as checkpoints
from undertow.data.scopes import Scope
from undertow.errors import (
    InvalidInput,
    LedgerDamaged,
    LedgerError,
    LedgerUnavailable,
)
from undertow.ledger import store
from undertow.ledger.book import Ledger, datasets

PNG = b"\x89PNG\r\n\x1a\n" + bytes(5000)


def attempts(where):
    """Return everything that could be tried with a file that is no ledger."""
    return [
        lambda: Ledger(where, "w25", MODEL, LIMIT),
        lambda: Ledger(where, "w25", create=False),
        lambda: datasets(where),
    ]


def refused(where, kind, match):
    for attempt in attempts(where):
        with pytest.raises(kind, match=match) as caught:
            attempt()
        assert isinstance(caught.value, LedgerError)


def names(folder):
    return [path.name for path in folder.iterdir()]


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [PNG, b"", b"x", b"SQLite format 3\0", b"SQLite format 3\0" + bytes(5000), PNG[:99]]
)
def test_a_foreign_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    refused(path, LedgerDamaged, "ledger.db")
    assert path.read_bytes() == content
    assert names(tmp_path) == ["ledger.db"]


def test_another_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "ledger.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE events (seq INTEGER)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    refused(path, LedgerDamaged, "something else")
    assert path.read_bytes() == before


def test_a_damaged_ledger_is_refused(sqlite_place):
    ledger = sqlite_place.open()
    for number in range(30):
        ledger.reserve(f"{number}", HALF, Scope(start=2 * number, end=2 * number + 1))
    path = Path(sqlite_place.where)
    content = path.read_bytes()
    path.write_bytes(content[:5000] + bytes(len(content) - 5000))
    with pytest.raises(LedgerDamaged):
        ledger.verify()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(LedgerDamaged):
        ledger.verify()
    path.write_bytes(content)
    assert ledger.verify() == 31


def test_what_is_no_file_is_refused(tmp_path):
    refused(tmp_path, LedgerUnavailable, "directory or device")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", LedgerUnavailable, "directory or device")
    refused(tmp_path / "no" / "such" / "ledger.db", LedgerUnavailable, "directory does not exist")
    refused(tmp_path / "pipe" / "ledger.db", LedgerUnavailable, "cannot be reached")
    refused(tmp_path / ("x" * 300), LedgerUnavailable, "cannot be reached")


@pytest.mark.parametrize(
    "where",
    [
        "", "  ", "a\0b", 7, None, b"ledger.db", "sqlite://", "sqlite:///:memory:", ":memory:",
        "sqlite:///ledger.db?mode=memory", "mysql://host/db", "http://host/db",
        "postgresql://host:port/db", "://",
    ],
)  # fmt: skip
def test_what_is_no_place_is_refused(where):
    with pytest.raises(InvalidInput):
        Ledger(where, "w25", MODEL, LIMIT)


def test_a_file_may_be_named_in_many_ways(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["odd %20 näme?#.db", Path("odd %20 näme?#.db"), tmp_path / "odd %20 näme?#.db"]
    for number, where in enumerate(names):
        ledger = Ledger(where, "w25", MODEL, LIMIT)
        ledger.reserve(f"{number}", EIGHTH)
    assert [entry.release_id for entry in ledger.entries()] == ["0", "1", "2"]
    Ledger("sqlite:///plain.db", "w25", MODEL, LIMIT)
    assert Ledger("plain.db", "w25").verify() == 1
    monkeypatch.chdir("/")
    assert ledger.verify() == 4  # a ledger stays where it was


def test_a_ledger_is_one_file(sqlite_place):
    ledger = sqlite_place.open()
    ledger.reserve("r", HALF)
    folder = Path(sqlite_place.where).parent
    assert names(folder) == ["ledger.db"]
    copy = folder / "copy.db"
    copy.write_bytes(Path(sqlite_place.where).read_bytes())
    assert Ledger(copy, "w25").level() == HALF


def test_a_deleted_ledger_is_not_started_anew(sqlite_place):
    ledger = sqlite_place.open()
    Path(sqlite_place.where).unlink()
    for call in (ledger.level, ledger.verify, lambda: ledger.reserve("r", HALF)):
        with pytest.raises(LedgerUnavailable, match="cannot be opened"):
            call()
    assert not Path(sqlite_place.where).exists()


def test_a_ledger_that_appears_meanwhile_is_used(place, monkeypatch):
    def appear(checkpoint):
        if checkpoint == "create-begun":
            monkeypatch.setattr(checkpoints, "reached", lambda checkpoint: None)
            place.open().reserve("first", HALF)

    monkeypatch.setattr(checkpoints, "reached", appear)
    ledger = place.open()
    assert [entry.release_id for entry in ledger.entries()] == ["first"]
    if place.backend == "sqlite":
        assert names(Path(place.where).parent) == ["ledger.db"]


def test_a_path_that_leads_nowhere_is_refused(tmp_path):
    loop = tmp_path / "loop.db"
    loop.symlink_to(loop)
    with pytest.raises((InvalidInput, LedgerUnavailable)):
        Ledger(loop, "w25", MODEL, LIMIT)


def test_a_file_system_without_links_is_refused(sqlite_place, monkeypatch):
    def link(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(LedgerUnavailable, match="hard links"):
        sqlite_place.open()
    assert names(Path(sqlite_place.where).parent) == []


# --- disks ----------------------------------------------------------------------------------------


def spoiled(monkeypatch, pragma=None, mode=None):
    """Let every connection to SQLite have a fault."""
    plain = sqlite3.connect

    def connect(address, **options):
        connection = plain(
            address if mode is None else address.replace("=rw", f"={mode}"), **options
        )
        if pragma:
            connection.execute(pragma)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)


def test_commits_wait_for_the_disk(sqlite_place, monkeypatch):
    ledger = sqlite_place.open()
    assert store.DURABILITY == "EXTRA"
    found = []

    def look(checkpoint):
        if checkpoint == "reserve-written":
            found.append(checkpoint)

    monkeypatch.setattr(checkpoints, "reached", look)
    with ledger._store._connected(writing="reserve") as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
    assert found


def test_a_full_disk_changes_nothing(sqlite_place, monkeypatch):
    ledger = sqlite_place.open()
    ledger.reserve("r", QUARTER)
    pages = sqlite_place.forge("PRAGMA page_count")[0][0]
    spoiled(monkeypatch, f"PRAGMA max_page_count = {pages}")
    about = {"text": "x" * 100_000}
    with pytest.raises(LedgerUnavailable, match=r"disk is full.*same release id"):
        ledger.reserve("big", QUARTER, about=about)
    with pytest.raises(LedgerUnavailable, match="disk is full"):
        ledger.confirm("r", about)
    monkeypatch.undo()
    assert (ledger.level(), ledger.verify(), ledger.entry("big")) == (QUARTER, 2, None)
    ledger.reserve("big", QUARTER, about=about)
    assert ledger.verify() == 3


def test_a_new_ledger_on_a_full_disk_leaves_nothing(sqlite_place, monkeypatch):
    spoiled(monkeypatch, "PRAGMA max_page_count = 2")
    with pytest.raises(LedgerUnavailable, match="disk is full"):
        sqlite_place.open()
    assert names(Path(sqlite_place.where).parent) == []


def grow(where):
    """Reserve with as much disk as the ledger has now; a real limit of the operating system."""
    size = Path(where).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        Ledger(where, "w25").reserve("big", QUARTER, about={"text": "x" * 100_000})
    except LedgerUnavailable:
        os._exit(42)


def test_a_write_that_fails_changes_nothing(sqlite_place):
    ledger = sqlite_place.open()
    with work.nursery() as run:
        assert run(grow, sqlite_place.where) == 42
    assert (ledger.level(), ledger.verify()) == (0.0, 1)


def test_a_ledger_that_may_not_be_written_can_be_read(sqlite_place, monkeypatch):
    ledger = sqlite_place.open(memory=False)
    ledger.reserve("r", QUARTER)
    spoiled(monkeypatch, mode="ro")
    assert (ledger.level(), ledger.verify(), len(ledger.entries())) == (QUARTER, 2, 1)
    assert Ledger(sqlite_place.where, "w25").left() > 0
    for call in (
        lambda: ledger.reserve("s", QUARTER),
        lambda: ledger.confirm("r", {}),
        lambda: ledger.set_limit(2.0),
        lambda: sqlite_place.open("new"),
    ):
        with pytest.raises(LedgerUnavailable, match="may not be written"):
            call()
    monkeypatch.undo()
    assert ledger.verify() == 2


# --- locks ----------------------------------------------------------------------------------------


def test_a_locked_ledger_is_waited_for_and_then_reported(place, monkeypatch):
    ledger = place.open()
    holder = place.connect()
    holder.execute(
        "BEGIN IMMEDIATE"
        if place.backend == "sqlite"
        else "SELECT * FROM undertow_ledger FOR UPDATE"
    )
    monkeypatch.setattr(store, "WAIT", 0.1)
    with pytest.raises(LedgerUnavailable, match="locked"):
        ledger.reserve("r", HALF)
    assert ledger.level() == 0.0  # readers do not wait
    monkeypatch.setattr(store, "WAIT", 30.0)
    timer = threading.Timer(0.3, lambda: None)
    timer.start()
    timer.join()
    holder.rollback()
    holder.close()
    ledger.reserve("r", HALF)
    assert ledger.verify() == 2


def test_a_reader_who_stays_makes_a_commit_give_up_whole(sqlite_place, monkeypatch):
    ledger = sqlite_place.open()
    reader = sqlite_place.connect()
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM undertow_events").fetchall()
    monkeypatch.setattr(store, "WAIT", 0.1)
    with pytest.raises(LedgerUnavailable, match="locked"):
        ledger.reserve("r", HALF)
    reader.rollback()
    reader.close()
    assert (ledger.level(), ledger.verify()) == (0.0, 1)
    ledger.reserve("r", HALF)
    assert ledger.verify() == 2


def test_a_writer_waits_for_another(place, monkeypatch):
    ledger, order = place.open(), []
    inside, go_on = threading.Event(), threading.Event()

    def stop(checkpoint):
        if checkpoint == "reserve-written" and not inside.is_set():
            inside.set()
            go_on.wait(10)
            order.append("first")

    monkeypatch.setattr(checkpoints, "reached", stop)
    first = threading.Thread(target=ledger.reserve, args=("first", HALF))
    first.start()
    inside.wait(10)
    second = threading.Thread(target=ledger.reserve, args=("second", HALF))
    second.start()
    second.join(0.2)
    assert second.is_alive()
    go_on.set()
    first.join()
    second.join()
    assert [entry.release_id for entry in ledger.entries()] == ["first", "second"]
    assert (order, ledger.left()) == (["first"], 0.0)


LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try:
    connection.execute("BEGIN IMMEDIATE")
except sqlite3.OperationalError:
    sys.exit(5)
"""


def test_opening_a_ledger_does_not_drop_the_locks_of_this_process(sqlite_place, monkeypatch):
    """POSIX drops all locks of a process on a file when it closes any handle of that file."""
    ledger, codes = sqlite_place.open(), []

    def probe(checkpoint):
        if checkpoint == "reserve-written":
            other = Ledger(sqlite_place.where, "w25")
            assert other.level() == 0.0
            command = [sys.executable, "-c", LOCKER, sqlite_place.where]
            codes.append(subprocess.run(command, check=False).returncode)

    monkeypatch.setattr(checkpoints, "reached", probe)
    ledger.reserve("r", HALF)
    assert codes == [5]
