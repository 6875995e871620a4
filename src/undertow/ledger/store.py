"""Where the account is kept: tables, the hash chain, transactions, migrations.

``undertow_events`` is the account: rows are only ever appended, each with the hash of the row
before it. All else is derived from it in the same transaction: ``undertow_datasets`` (terms and
layout of each data set), ``undertow_segments`` (what the records of each cell have spent) and the
one row of ``undertow_ledger`` (schema version, number and hash of the last event). That row is
also the lock: a writer holds it from its first read to its commit.

SQLite is used with a rollback journal, not a write-ahead log: the ledger then is one file, which
can be copied while no release runs, and works wherever files can be locked. ``synchronous=EXTRA``
because a commit that returned must not be undone by a power cut. Each transaction opens its own
connection, so that no handle survives a fork or a file that was replaced. The file is never opened
but through SQLite: closing any other handle of it would drop this process's locks.
"""

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from undertow import ledger
from undertow.errors import InvalidInput, LedgerDamaged, LedgerUnavailable
from undertow.ledger.events import ORIGIN, Event, decoding, sealed
from undertow.ledger.faults import file_exists, refusal, sync_directory
from undertow.ledger.rules import Layout, Segment, Terms, canonical, round_up

__all__ = ["DURABILITY", "MIGRATIONS", "VERSION", "WAIT", "Store", "Transaction"]

VERSION = 1
"""The schema that this code reads and writes; older ones are migrated, newer ones refused."""

WAIT = 30.0
"""Seconds that a writer waits for the others before it gives up."""

DURABILITY = "EXTRA"
"""How hard SQLite tries: EXTRA also syncs the directory, so that a commit survives a power cut."""

MIGRATIONS: dict[int, Callable[[sa.Connection], None]] = {}
"""What brings a ledger of a version to the next one; events are never rewritten."""

_META = sa.MetaData()
_LEDGER = sa.Table(
    "undertow_ledger", _META,
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)  # fmt: skip
_EVENTS = sa.Table(
    "undertow_events", _META,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("release_id", sa.Text),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.UniqueConstraint("dataset", "release_id", "kind"),
)  # fmt: skip
_DATASETS = sa.Table(
    "undertow_datasets", _META,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("terms", sa.Text, nullable=False),
    sa.Column("layout", sa.Text, nullable=False),
)  # fmt: skip
_SEGMENTS = sa.Table(
    "undertow_segments", _META,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("cell", sa.Text, primary_key=True),
    sa.Column("start", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("end", sa.BigInteger, nullable=False),
    sa.Column("level", sa.Double, nullable=False),  # of `exact`, rounded up: what SQL can compare
    sa.Column("exact", sa.Text, nullable=False),
    sa.Index("undertow_segments_level", "dataset", "level"),
    sqlite_with_rowid=False,  # rows lie in the order of their key: a window is one stretch
)  # fmt: skip


class Transaction:
    """The reads and writes of one transaction; it keeps derived tables in step with the events."""

    def __init__(self, connection: sa.Connection, head: tuple[int, str]) -> None:
        self._run = connection.execute
        self._head = head

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last event, as the ledger's own row has them."""
        return self._head

    def append(self, dataset: str, kind: str, release_id: str | None, body: dict[str, Any]) -> str:
        """Append one event to the chain and return its hash; the chain never forks.

        The end of the chain is compared with the ledger's row first, so that a lost last event
        is noticed by the next writer.
        """
        seq, previous = self._head
        last = self._run(
            sa.select(_EVENTS.c.seq, _EVENTS.c.hash).order_by(_EVENTS.c.seq.desc()).limit(1)
        ).first()
        if (tuple(last) if last else (0, ORIGIN)) != self._head:
            raise LedgerDamaged(
                f"the last event is not number {seq}, which was written last; see verify(), and "
                "go back to a copy that verifies"
            )
        text = canonical(body, "entry")
        own = sealed(previous, seq + 1, dataset, kind, release_id, text)
        self._run(
            sa.insert(_EVENTS).values(
                seq=seq + 1, dataset=dataset, kind=kind, release_id=release_id, body=text,
                previous=previous, hash=own,
            )
        )  # fmt: skip
        self._run(sa.update(_LEDGER).values(seq=seq + 1, hash=own))
        self._head = (seq + 1, own)
        return own

    def events(self, dataset: str | None = None, release_id: str | None = None) -> Iterator[Event]:
        """Yield events in order: all, those of a data set, or those of one release."""
        query = sa.select(_EVENTS).order_by(_EVENTS.c.seq)
        if dataset is not None:
            query = query.where(_EVENTS.c.dataset == dataset)
        if release_id is not None:
            query = query.where(_EVENTS.c.release_id == release_id)
        for row in self._run(query):
            yield Event(*row)

    def datasets(self) -> dict[str, tuple[Terms, Layout]]:
        """Return the terms and the layout of every data set."""
        return {row.name: _account(row) for row in self._run(sa.select(_DATASETS))}

    def dataset(self, name: str) -> tuple[Terms, Layout] | None:
        """Return the terms and the layout of a data set, None if there is none of that name."""
        row = self._run(sa.select(_DATASETS).where(_DATASETS.c.name == name)).first()
        return None if row is None else _account(row)

    def put_dataset(self, name: str, terms: Terms, layout: Layout) -> None:
        """Write terms and layout as the event just appended has made them."""
        values = {
            "terms": canonical(terms.to_dict(), "model"),
            "layout": canonical(layout.to_dict(), "layout"),
        }
        same = _DATASETS.c.name == name
        if not self._run(sa.update(_DATASETS).where(same).values(values)).rowcount:
            self._run(sa.insert(_DATASETS).values(name=name, **values))

    def highest(self, dataset: str, cells: Sequence[str] | None, start: int, end: int) -> float:
        """Return the largest spend in cells (None: anywhere, ever), rounded up.

        Anywhere is one look at the index of levels; a window goes through its own segments (the
        added zero keeps PostgreSQL from going down the index of levels in search of one).
        """
        own = _SEGMENTS.c
        if cells is None:
            queries = [sa.select(sa.func.max(own.level)).where(own.dataset == dataset)]
        else:
            meets = (own.end > start, own.start < end)
            queries = [
                sa.select(sa.func.max(own.level + 0.0)).where(
                    *self._within(dataset, cell, start, end), *meets
                )
                for cell in cells
            ]
        with decoding("a spent level"):
            return max(float(self._run(query).scalar() or 0.0) for query in queries)

    def segments(self, dataset: str, cell: str, start: int, end: int) -> list[Segment]:
        """Return the segments of a cell that meet or border a window, in order."""
        conditions = (*self._within(dataset, cell, start, end), _SEGMENTS.c.end >= start)
        query = sa.select(_SEGMENTS).where(*conditions).order_by(_SEGMENTS.c.start)
        return [_segment(row) for row in self._run(query)]

    def _within(
        self, dataset: str, cell: str, start: int, end: int
    ) -> tuple[sa.ColumnElement[bool], ...]:
        """Return conditions for an index: from the last segment that starts before the window.

        Segments of a cell are disjoint, so no earlier one can meet or border it. That start is
        looked up first: as a subquery, PostgreSQL would not know how short the stretch is.
        """
        own = _SEGMENTS.c
        line = (own.dataset == dataset, own.cell == cell)
        first = self._run(
            sa.select(sa.func.max(own.start)).where(*line, own.start < start)
        ).scalar()
        return *line, own.start >= (start if first is None else first), own.start <= end

    def all_segments(self) -> Iterator[tuple[str, str, Segment]]:
        """Yield (data set, cell, segment), sorted."""
        key = _SEGMENTS.c
        for row in self._run(sa.select(_SEGMENTS).order_by(key.dataset, key.cell, key.start)):
            yield row.dataset, row.cell, _segment(row)

    def copy_cell(self, dataset: str, source: str, target: str) -> None:
        """Let a new cell start with what another has spent."""
        own = _SEGMENTS.c
        rows = sa.select(
            own.dataset, sa.literal(target), own.start, own.end, own.level, own.exact
        ).where(own.dataset == dataset, own.cell == source)
        self._run(sa.insert(_SEGMENTS).from_select([column.name for column in own], rows))

    def replace_segments(
        self, dataset: str, cell: str, old: Sequence[Segment], new: Sequence[Segment]
    ) -> None:
        """Write what `overlay` made of some segments."""
        gone, come = set(old) - set(new), set(new) - set(old)
        own = _SEGMENTS.c
        if gone:
            same = (own.dataset == dataset, own.cell == cell, own.start == sa.bindparam("was"))
            self._run(sa.delete(_SEGMENTS).where(*same), [{"was": s.start} for s in gone])
        if come:
            self._run(sa.insert(_SEGMENTS), [
                {"dataset": dataset, "cell": cell, "start": s.start, "end": s.end,
                 "level": round_up(s.level), "exact": str(s.level)}
                for s in come
            ])  # fmt: skip


class Store:
    """A ledger file, or a PostgreSQL database that holds a ledger."""

    def __init__(self, where: object) -> None:
        """Say where; nothing is opened yet."""
        text = os.fspath(where) if isinstance(where, str | os.PathLike) else None
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            raise InvalidInput("a ledger is a file name or a postgresql:// address")
        url = _url(text) if "://" in text else None
        self._path: Path | None = None
        if url is None or url.drivername == "sqlite":
            self._path = _path(text if url is None else url.database)
            self.place = f"the ledger {self._path.name}"
            self._engine = _sqlite(self._path, "rw")
        else:  # user, password and options stay out of all messages
            self.place = f"the ledger in PostgreSQL at {url.host or 'this machine'}"
            self._engine = _postgres(url)

    def __repr__(self) -> str:
        return f"Store({self.place!r})"

    def prepare(self) -> bool:
        """Return whether there is a ledger; migrate an old one, refuse what is none."""
        if self._path is not None and not file_exists(self._path, self.place):
            return False
        with self._connected() as connection:
            if not sa.inspect(connection).has_table(_LEDGER.name):
                if self._path is not None:
                    raise LedgerDamaged(
                        f"{self.place} is a database of something else; name another file"
                    )
                return False
            version = self._head(connection)[0]
        if version < VERSION:
            with self._connected(writing="migrate") as connection:
                _migrate(connection, self._head(connection)[0], self.place)
        return True

    def create(self) -> None:
        """Create an empty ledger, whole or not at all; whoever comes second finds the first's."""
        if self._path is None:
            with self._connected(writing="create") as connection:
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(7853712236)"))
                if not sa.inspect(connection).has_table(_LEDGER.name):
                    _fill(connection)
            return
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(6)}")
        try:
            with self._connected(_sqlite(draft, "rwc"), writing="create") as connection:
                _fill(connection)
            with suppress(FileExistsError):
                os.link(draft, self._path)
            sync_directory(self._path.parent)
        except OSError as error:
            raise LedgerUnavailable(
                f"{self.place} cannot be created ({error.strerror or 'no reason given'}); a "
                "ledger needs a file system with hard links and locks: use a local disk"
            ) from None
        finally:
            with suppress(OSError):
                draft.unlink()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Give a transaction that sees one state of the ledger and changes nothing."""
        with self._connected() as connection:
            yield Transaction(connection, self._current(connection))

    @contextmanager
    def writing(self, what: str) -> Iterator[Transaction]:
        """Give a transaction that no other writer runs beside; all of it is written, or nothing.

        When this returns, it is on disk; when it raises, the ledger is as it was (only a
        connection cut in the very moment of the commit leaves that open: repeating is safe).
        """
        with self._connected(writing=what) as connection:
            yield Transaction(connection, self._current(connection))

    def _current(self, connection: sa.Connection) -> tuple[int, str]:
        version, seq, last = self._head(connection)
        if version != VERSION:
            raise LedgerUnavailable(
                f"{self.place} was changed to version {version} meanwhile; open it again"
            )
        return seq, last

    def _head(self, connection: sa.Connection) -> tuple[int, int, str]:
        """Return (version, seq, hash) and, in a writing PostgreSQL transaction, lock the row."""
        query = sa.select(_LEDGER)
        if connection.get_execution_options().get("writing"):
            query = query.with_for_update()
        rows = connection.execute(query).all()
        if len(rows) != 1 or [*map(type, rows[0])] != [int, int, str]:
            raise LedgerDamaged(f"{self.place} has lost the row with its version; use a backup")
        version, seq, last = rows[0]
        if version > VERSION:
            raise LedgerUnavailable(
                f"{self.place} has version {version}, this undertow knows versions up to "
                f"{VERSION}; use a newer undertow"
            )
        return version, seq, last

    @contextmanager
    def _connected(
        self, engine: sa.Engine | None = None, writing: str = ""
    ) -> Iterator[sa.Connection]:
        """Give a connection inside a transaction, with every database error in our words."""
        try:
            with (engine or self._engine).connect() as plain:
                connection = plain.execution_options(writing=bool(writing))
                if self._path is None and not writing:
                    connection = connection.execution_options(isolation_level="REPEATABLE READ")
                with connection.begin():
                    if writing:
                        ledger.reached(f"{writing}-begun")
                    yield connection
                    if writing:
                        ledger.reached(f"{writing}-written")
        except DBAPIError as error:
            raise refusal(error.orig, self.place) from None
        if writing:
            ledger.reached(f"{writing}-committed")


def _account(row: Any) -> tuple[Terms, Layout]:
    with decoding(f"the terms of the data set {row.name!r}"):
        layout = json.loads(row.layout)
        return Terms(**json.loads(row.terms)), Layout(**{**layout, "cells": (*layout["cells"],)})


def _segment(row: Any) -> Segment:
    with decoding("a spent level"):
        level = Fraction(row.exact)
        if row.level != round_up(level) or not row.start < row.end:
            raise ValueError
        return Segment(row.start, row.end, level)


def _fill(connection: sa.Connection) -> None:
    _META.create_all(connection)
    connection.execute(sa.insert(_LEDGER).values(version=VERSION, seq=0, hash=ORIGIN))


def _migrate(connection: sa.Connection, version: int, place: str) -> None:
    """Bring an old schema to this one, in one transaction."""
    while version < VERSION:
        if version not in MIGRATIONS:
            raise LedgerUnavailable(f"{place} has version {version}, which cannot be migrated")
        MIGRATIONS[version](connection)
        version += 1
        connection.execute(sa.update(_LEDGER).values(version=version))


def _url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidInput("the address of the ledger is no database URL") from None
    backend = url.drivername.partition("+")[0]
    if backend not in ("sqlite", "postgresql", "postgres"):
        raise InvalidInput(f"a ledger is kept in SQLite or PostgreSQL, found {backend!r}")
    if backend == "sqlite" and url.query:
        raise InvalidInput("the address of a SQLite ledger takes no options; pass the file's name")
    return url.set(drivername="sqlite" if backend == "sqlite" else "postgresql+psycopg")


def _path(text: str | None) -> Path:
    if text is None or text == ":memory:":
        raise InvalidInput("a ledger must outlive the process; name a file")
    try:
        return Path(text).expanduser().resolve()
    except (OSError, RuntimeError):
        raise InvalidInput("the path of the ledger cannot be resolved") from None


def _sqlite(path: Path, mode: str) -> sa.Engine:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            f"{path.as_uri()}?mode={mode}", uri=True, timeout=WAIT, isolation_level=None
        )

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writing = connection.get_execution_options().get("writing")
        if writing:
            connection.exec_driver_sql(f"PRAGMA synchronous = {DURABILITY}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _postgres(url: sa.URL) -> sa.Engine:
    patience = {
        "connect_timeout": int(WAIT), "keepalives_idle": int(WAIT),
        "tcp_user_timeout": int(1000 * WAIT),
    }  # fmt: skip
    options = {key: value for key, value in patience.items() if key not in url.query}
    try:
        engine = sa.create_engine(
            url,
            poolclass=NullPool,
            connect_args=options,
            isolation_level="READ COMMITTED",
            use_native_hstore=False,
        )
    except (ModuleNotFoundError, NoSuchModuleError):
        raise LedgerUnavailable(
            "a PostgreSQL ledger needs psycopg; install it with: pip install 'undertow[postgres]'"
        ) from None

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get("writing"):
            connection.exec_driver_sql(
                f"SELECT set_config('lock_timeout', '{int(1000 * WAIT)}', true), CASE "
                "current_setting('synchronous_commit') WHEN 'off' THEN "
                "set_config('synchronous_commit', 'on', true) END"
            )

    return engine
