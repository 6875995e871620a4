"""State kept outside a ledger: its last event, and the tables released in it.

A ledger cannot know that it is last month's copy. A small file of the user's own can: it keeps
number and hash of the last event seen in each ledger, and the fingerprints of the tables that were
released. The ledger must contain that event, or it was rolled back or written anew. The file is
behind the ledger at worst (a crash between the two commits), which is harmless.
"""

import os
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from undertow.errors import AccountWarning, InvalidInput
from undertow.files import create_new

__all__ = ["STATE_VARIABLE", "Memory", "memory_at"]

STATE_VARIABLE = "UNDERTOW_STATE"
"""The environment variable that names the folder of this file."""

DURABILITY = "NORMAL"
"""Durability of SQLite here: a power cut may lose the last head, not the file."""

_NAME = "ledgers.db"
_WAIT = 10.0
_TABLES = """
CREATE TABLE IF NOT EXISTS heads (
    ledger TEXT PRIMARY KEY, place TEXT NOT NULL, seq INTEGER NOT NULL, hash TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shapes (
    identity TEXT, ledger TEXT, dataset TEXT, place TEXT NOT NULL,
    PRIMARY KEY (identity, ledger, dataset)
) WITHOUT ROWID;
"""
_told: set[str] = set()


class Memory:
    """A file outside the ledgers that remembers them; nowhere (None) where it is turned off.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> memory = Memory(Path(folder.name) / "ledgers.db")
    >>> memory.advance("a3", "year.db", 7, "f0")
    >>> memory.advance("a3", "year.db", 5, "0c")
    >>> memory.head("a3"), memory.head("b4")
    ((7, 'f0'), None)
    >>> folder.cleanup()
    """

    def __init__(self, path: Path | None) -> None:
        """Say where; nothing is opened yet."""
        self._path = path

    @property
    def keys(self) -> Path | None:
        """The folder beside the file for keys of releases that are not recorded yet."""
        return None if self._path is None else self._path.with_name(f"{self._path.name}.keys")

    def head(self, ledger: str) -> tuple[int, str] | None:
        """Return number and hash of the last event that was seen in a ledger."""
        query = "SELECT seq, hash FROM heads WHERE ledger = ?"
        heads: list[tuple[int, str]] = self._run((query, (ledger,)), writing=False)
        return heads[0] if heads else None

    def advance(self, ledger: str, place: str, seq: int, last: str) -> None:
        """Remember the last event of a ledger, unless a later one is known."""
        put = (
            "INSERT INTO heads VALUES (?, ?, ?, ?) ON CONFLICT (ledger) DO UPDATE SET "
            "place = excluded.place, seq = excluded.seq, hash = excluded.hash "
            "WHERE excluded.seq > heads.seq"
        )
        self._run((put, (ledger, place, seq, last)))

    def forget(self, ledger: str) -> None:
        """Forget a ledger's events."""
        self._run(("DELETE FROM heads WHERE ledger = ?", (ledger,)))

    def give_up(self, place: str, ledger: str) -> None:
        """Let a ledger be the one at a place from now on, whatever was kept there before."""
        free = "UPDATE heads SET place = '' WHERE place = ? AND ledger <> ?"
        self._run((free, (place, ledger)))

    def others_at(self, place: str, ledger: str) -> int:
        """Return how many events the other ledgers have that were last seen at this place."""
        query = "SELECT sum(seq) FROM heads WHERE place = ? AND ledger <> ?"
        ledgers = self._run((query, (place, ledger)), writing=False)
        return int(ledgers[0][0] or 0) if ledgers else 0

    def bind(self, identity: str, ledger: str, dataset: str, place: str) -> list[tuple[str, str]]:
        """Remember that a table was released here; return (data set, place) in other ledgers."""
        put = "INSERT OR IGNORE INTO shapes VALUES (?, ?, ?, ?)"
        query = (
            "SELECT dataset, place FROM shapes WHERE identity = ? AND ledger <> ? "
            "ORDER BY place, dataset"
        )
        return self._run((put, (identity, ledger, dataset, place)), (query, (identity, ledger)))

    def _run(self, *statements: tuple[str, tuple[Any, ...]], writing: bool = True) -> list[Any]:
        """Return the rows of the last statement, all in one transaction of the file.

        Where the file cannot be used, warn once and go on without any.
        """
        if self._path is None:
            return []
        rows: list[Any] = []
        try:
            if not writing and not self._path.exists():
                return []
            with _opened(self._path, writing) as file:
                for query, values in statements:
                    rows = [] if file is None else file.execute(query, values).fetchall()
        except (OSError, sqlite3.Error):
            if str(self._path) not in _told:
                _told.add(str(self._path))
                warnings.warn(
                    "what was released cannot be remembered outside the ledger: the file "
                    f"{self._path.name} cannot be read or written, so an old copy of a ledger "
                    f"would not be noticed; name a folder of yours in {STATE_VARIABLE}, or pass "
                    "memory=False",
                    AccountWarning,
                    stacklevel=2,
                )
            return []
        return rows


@contextmanager
def _opened(path: Path, writing: bool) -> Iterator[sqlite3.Connection | None]:
    """Give the file in a transaction of its own; nobody but its owner may read it.

    None where there is nothing in it yet. A new file is made without opening one that is there:
    closing any other handle of it would drop this process's locks.
    """
    if writing:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(create_new(path))
    name = f"{path.absolute().as_uri()}?mode=rw"  # readers, too, undo what a killed writer left
    with closing(sqlite3.connect(name, uri=True, timeout=_WAIT, isolation_level=None)) as file:
        file.execute(f"PRAGMA synchronous = {DURABILITY}")
        file.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
        empty = not file.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if empty and writing:
            for statement in _TABLES.split(";"):
                file.execute(statement)
        yield None if empty and not writing else file
        file.execute("COMMIT")


def file_name(where: object) -> str | None:
    """Return the name of a file as text, None for what no file can be called.

    >>> file_name(Path("year.db")), file_name(" "), file_name("\\ud800")
    ('year.db', None, None)
    """
    text = os.fspath(where) if isinstance(where, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        return None
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return None
    return text


def memory_at(memory: object) -> Memory:
    """Return the memory at a path, at the default place (None), or none (False).

    >>> memory_at(False).head("a3") is None
    True
    """
    if memory is False:
        return Memory(None)
    if memory is not None:
        named = file_name(memory)
        if named is None or not Path(named).name:
            raise InvalidInput("memory must be a file name, None, or False to turn it off")
        return Memory(Path(named))
    folder = os.environ.get(STATE_VARIABLE)
    if folder:
        return Memory(Path(folder) / _NAME)
    state = os.environ.get("XDG_STATE_HOME")
    with suppress(RuntimeError):
        return Memory((Path(state) if state else Path.home() / ".local/state") / "undertow" / _NAME)
    return Memory(None)
