"""The tables of a ledger, and the reads and writes of one transaction on them, in whole statements.

``undertow_events`` is the account, to which rows are only appended, each with the hash of the row
before it; the other tables are derived from it in the same transaction. The one row of
``undertow_ledger`` is also the lock: a writer holds it from its first read to its commit."""

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from undertow.certificate import canonical
from undertow.errors import LedgerDamaged
from undertow.ledger.amounts import Spend
from undertow.ledger.entries import Change, Event, Row, Seal, decoding, rows
from undertow.ledger.rules import Layout, Terms

__all__ = [
    "DATASETS",
    "EVENTS",
    "LEDGER",
    "SEGMENTS",
    "VERSION",
    "Head",
    "Snapshot",
    "Transaction",
    "fill",
]


VERSION = 2
"""The schema that this code reads and writes; any other is refused."""

_META = sa.MetaData()
LEDGER = sa.Table(
    "undertow_ledger", _META,
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("id", sa.Text),
    sa.Column("key_mark", sa.Text),
)  # fmt: skip
EVENTS = sa.Table(
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
DATASETS = sa.Table(
    "undertow_datasets", _META,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("terms", sa.Text, nullable=False),
    sa.Column("layout", sa.Text, nullable=False),
)  # fmt: skip
SEGMENTS = sa.Table(
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


def fill(connection: sa.Connection, key: bytes | None) -> None:
    """Make the tables of an empty ledger, with an id that no other ledger has."""
    for statement in _making(connection.dialect):
        connection.exec_driver_sql(statement)
    name, seal = secrets.token_hex(16), Seal(key)
    row = {"version": VERSION, "seq": 0, "id": name}
    connection.execute(
        sa.insert(LEDGER).values(**row, hash=seal.origin(name), key_mark=seal.mark(name))
    )


@lru_cache(maxsize=16)
def _making(dialect: sa.Dialect) -> list[str]:
    """Return the statements that make the tables which are not there."""
    tables = _META.sorted_tables
    statements: list[sa.schema.ExecutableDDLElement] = [
        *(sa.schema.CreateTable(table, if_not_exists=True) for table in tables),
        *(sa.schema.CreateIndex(i, if_not_exists=True) for t in tables for i in t.indexes),
    ]
    return [str(one.compile(dialect=dialect)) for one in statements]


_DELETE = "DELETE FROM undertow_segments WHERE dataset = ? AND cell = ? AND start = ?"
_WRITE = """INSERT INTO undertow_segments (dataset, cell, start, "end", level, exact)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (dataset, cell, start)
DO UPDATE SET "end" = excluded."end", level = excluded.level, exact = excluded.exact"""

_LAST = sa.select(EVENTS.c.seq, EVENTS.c.hash).order_by(EVENTS.c.seq.desc()).limit(1)
_HASH = sa.select(EVENTS.c.hash).where(EVENTS.c.seq == sa.bindparam("wanted"))
_APPEND, _ADVANCE = sa.insert(EVENTS), sa.update(LEDGER)

_RESERVED = sa.select(EVENTS.c.seq, EVENTS.c.release_id).where(
    EVENTS.c.dataset == sa.bindparam("dataset"), EVENTS.c.kind == "reserve"
)
_RESERVED_AS = _RESERVED.where(EVENTS.c.release_id == sa.bindparam("release_id"))
_RESERVED_AFTER = (
    _RESERVED.where(EVENTS.c.seq > sa.bindparam("after"))
    .order_by(EVENTS.c.seq)
    .limit(sa.bindparam("most"))
)

_DATASETS = sa.select(DATASETS)
_DATASET = _DATASETS.where(DATASETS.c.name == sa.bindparam("wanted"))
_CHANGE = sa.update(DATASETS).where(DATASETS.c.name == sa.bindparam("wanted"))
_OPEN = sa.insert(DATASETS)

_OWN = SEGMENTS.c
_ROW = (_OWN.start, _OWN.end, _OWN.level, _OWN.exact)
_SPENT = sa.select(_OWN.dataset, _OWN.cell, *_ROW).order_by(_OWN.dataset, _OWN.cell, _OWN.start)
# A window, and one line of it: from the last segment that starts before the window (see `_within`).
_FIRST, _START, _END = (
    sa.bindparam(name, type_=sa.BigInteger) for name in ("first", "low", "high")
)
_HERE = _OWN.dataset == sa.bindparam("data")
_LINE = (_HERE, _OWN.cell == sa.bindparam("place"))
_WITHIN = (*_LINE, _OWN.start >= _FIRST, _OWN.start <= _END)
_MEETS = (_OWN.end > _START, _OWN.start < _END)
_BEFORE = sa.select(sa.func.max(_OWN.start)).where(*_LINE, _OWN.start < _START)

_HIGHEST = sa.select(sa.func.max(_OWN.level)).where(_HERE)
_MOST = sa.func.max(_OWN.level + 0.0)
_MOST_BY_CELL = sa.select(_OWN.cell, _MOST).where(_HERE, *_MEETS).group_by(_OWN.cell)
_MOST_WITHIN = sa.select(_MOST).where(*_WITHIN, *_MEETS)

_EXACT = sa.select(_OWN.cell, _OWN.exact).where(_HERE).distinct()
_EXACT_MEETING, _EXACT_WITHIN = _EXACT.where(*_MEETS), _EXACT.where(*_WITHIN, *_MEETS)

_BORDERING = sa.select(_OWN.cell, *_ROW).order_by(_OWN.cell, _OWN.start).where(_OWN.end >= _START)
_BORDERING_ANY = _BORDERING.where(_HERE, _OWN.start <= _END)
_BORDERING_WITHIN = _BORDERING.where(*_WITHIN)

_FEW = 50
"""Cells that are looked up one by one; more are found in one pass over the data set."""


class Head(NamedTuple):
    """The ledger's own row: its last event, its name, and how it is sealed."""

    seq: int
    hash: str
    id: str
    seal: Seal


class Snapshot(NamedTuple):
    """Everything in a ledger at one moment, as it is stored."""

    head: Head
    mark: object
    events: list[Event]
    datasets: dict[str, tuple[Terms, Layout]]
    segments: dict[tuple[str, str], list[Row]]


class Transaction:
    """The reads and writes of one transaction; it keeps derived tables in step with the events.

    ``head`` is the last event, as the ledger's own row has it.
    """

    def __init__(
        self, connection: sa.Connection, head: Head, mark: Callable[[sa.Connection], object]
    ) -> None:
        self._run = connection.execute
        self.head = head
        self._mark = mark
        self._connection = connection

    def mark(self) -> object:
        """Return what changes whenever anybody writes, None if that is not available."""
        return self._mark(self._connection)

    def append(self, dataset: str, kind: str, release_id: str | None, body: dict[str, Any]) -> str:
        """Append one event to the chain and return its hash; the chain never forks.

        The end of the chain is compared with the ledger's row first, so that a lost last event
        is noticed by the next writer.
        """
        seq, previous, name, seal = self.head
        last = self._run(_LAST).first()
        if (tuple(last) if last else (0, seal.origin(name))) != (seq, previous):
            raise LedgerDamaged(
                f"the last event is not number {seq}, which was written last; see verify(), and "
                "go back to a copy that verifies"
            )
        text = canonical(body, "entry")
        own = seal.of(previous, seq + 1, dataset, kind, release_id, text)
        event = Event(seq + 1, dataset, kind, release_id, text, previous, own)
        self._run(_APPEND, event._asdict())
        self._run(_ADVANCE, {"seq": seq + 1, "hash": own})
        self.head = Head(seq + 1, own, name, seal)
        return own

    def events(
        self, dataset: str | None = None, release_id: str | None = None, after: int | None = None
    ) -> Iterator[Event]:
        """Yield events in order: all, those of a data set or of one release, those after one."""
        options = {"dataset": dataset, "release_id": release_id, "after": after}
        wanted = {name: value for name, value in options.items() if value is not None}
        return map(Event._make, self._run(_events(*wanted), wanted))

    def reserved(self, dataset: str, release_id: str) -> int | None:
        """Return the number of the event that reserved a release, None if there is none."""
        wanted = {"dataset": dataset, "release_id": release_id}
        number: int | None = self._run(_RESERVED_AS, wanted).scalar()
        return number

    def reserved_after(self, dataset: str, after: int, most: int) -> list[str]:
        """Return the next releases that were reserved after an event, in order."""
        wanted = {"dataset": dataset, "after": after, "most": most}
        return [row.release_id for row in self._run(_RESERVED_AFTER, wanted)]

    def hash_at(self, seq: int) -> str | None:
        """Return the hash of an event, None if there is none of that number."""
        digest: str | None = self._run(_HASH, {"wanted": seq}).scalar()
        return digest

    def snapshot(self) -> Snapshot:
        """Return everything at once, so that it can be gone through when the lock is free again."""
        segments: dict[tuple[str, str], list[Row]] = {}
        for row in self._run(_SPENT):
            segments.setdefault((row[0], row[1]), []).append(row[2:])
        return Snapshot(self.head, self.mark(), [*self.events()], self.datasets(), segments)

    def datasets(self) -> dict[str, tuple[Terms, Layout]]:
        """Return the terms and the layout of every data set."""
        return {row.name: _account(row) for row in self._run(_DATASETS)}

    def dataset(self, name: str) -> tuple[Terms, Layout] | None:
        """Return the terms and the layout of a data set, None if there is none of that name."""
        row = self._run(_DATASET, {"wanted": name}).first()
        return None if row is None else _account(row)

    def put_dataset(self, name: str, terms: Terms, layout: Layout) -> None:
        """Write terms and layout as the event just appended has made them."""
        values = {
            "terms": canonical(terms.to_dict(), "model"),
            "layout": canonical(layout.to_dict(), "layout"),
        }
        if not self._run(_CHANGE, {"wanted": name, **values}).rowcount:
            self._run(_OPEN, {"name": name, **values})

    def highest(self, dataset: str, cells: Sequence[str] | None, start: int, end: int) -> float:
        """Return the largest spend in cells (None: anywhere, ever), rounded up.

        Anywhere is one look at the index of levels; a window goes through its own segments (the
        added zero keeps PostgreSQL from going down the index of levels in search of one); many
        cells are one pass.
        """
        window = {"data": dataset, "low": start, "high": end}
        with decoding("a spent level"):
            if cells is None:
                return float(self._run(_HIGHEST, {"data": dataset}).scalar() or 0.0)
            if len(cells) > _FEW:
                level = dict(tuple(row) for row in self._run(_MOST_BY_CELL, window))
                return max(float(level.get(cell) or 0.0) for cell in cells)
            lines = [self._run(_MOST_WITHIN, self._within(window, cell)) for cell in cells]
            return max(float(line.scalar() or 0.0) for line in lines)

    def spends(self, dataset: str, cells: Sequence[str] | None, start: int, end: int) -> set[Spend]:
        """Return the different spends in cells (None: anywhere, ever).

        Levels have an order that an index knows; spends of several kinds have none, so that the
        distinct ones are read. One pass over the data set, or over the cells' own stretches.
        """
        window = {"data": dataset, "low": start, "high": end}
        with decoding("a spent level"):
            if cells is None:
                spends = [*self._run(_EXACT, {"data": dataset})]
            elif len(cells) > _FEW:
                wanted = {*cells}
                spends = [row for row in self._run(_EXACT_MEETING, window) if row[0] in wanted]
            else:
                lines = [self._run(_EXACT_WITHIN, self._within(window, cell)) for cell in cells]
                spends = [row for line in lines for row in line]
            return {Spend.read(text) for text in {row[1] for row in spends}}

    def segments(
        self, dataset: str, cells: Sequence[str], start: int, end: int
    ) -> dict[str, list[Row]]:
        """Return the segments of cells that meet or border a window, in order, as stored."""
        segments: dict[str, list[Row]] = {cell: [] for cell in cells}
        window = {"data": dataset, "low": start, "high": end}
        lines = (
            [self._run(_BORDERING_WITHIN, self._within(window, cell)) for cell in cells]
            if len(cells) <= _FEW
            else [self._run(_BORDERING_ANY, window)]
        )
        for line in lines:
            for row in line:
                if row[0] in segments:
                    segments[row[0]].append(row[1:])
        return segments

    def _within(self, window: dict[str, Any], cell: str) -> dict[str, Any]:
        """Return the parameters of one line of a window, for an index.

        It goes from the last segment that starts before the window: segments of a cell are
        disjoint, so no earlier one can meet or border it. That start is looked up first: as a
        subquery, PostgreSQL would not know how short the stretch is.
        """
        line = {**window, "place": cell}
        first = self._run(_BEFORE, line).scalar()
        return {**line, "first": window["low"] if first is None else first}

    def write(self, dataset: str, changes: Sequence[Change]) -> None:
        """Write what `overlay` made of segments: one statement that deletes, one that writes.

        In plain SQL: going through a hundred thousand rows one by one is left to the driver.
        """
        gone: list[tuple[str, str, int]] = []
        come: list[tuple[str, str, int, int, float, str]] = []
        for cells, old, new in changes:
            # a segment that begins where an old one did replaces it: only other starts go
            more = rows(sorted(set(new) - set(old)))
            starts = {s.start for s in old} - {s.start for s in new}
            gone += [(dataset, cell, start) for cell in cells for start in starts]
            come += [(dataset, cell, *row) for cell in cells for row in more]
        mark = "?" if self._connection.dialect.name == "sqlite" else "%s"
        for statement, values in ((_DELETE, gone), (_WRITE, come)):
            if values:
                self._connection.exec_driver_sql(statement.replace("?", mark), values)


@cache
def _events(*wanted: str) -> sa.Select[Any]:
    """Return the query of events by the names of its conditions."""
    own = EVENTS.c
    conditions = {
        "dataset": own.dataset == sa.bindparam("dataset"),
        "release_id": own.release_id == sa.bindparam("release_id"),
        "after": own.seq > sa.bindparam("after"),
    }
    return sa.select(EVENTS).where(*map(conditions.__getitem__, wanted)).order_by(own.seq)


def _account(row: Any) -> tuple[Terms, Layout]:
    with decoding(f"the terms of the data set {row.name!r}"):
        layout = json.loads(row.layout)
        return Terms(**json.loads(row.terms)), Layout(**{**layout, "cells": (*layout["cells"],)})
