"""The reads and writes of one transaction, in whole statements: never one for each group."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from undertow.errors import LedgerDamaged
from undertow.ledger.amounts import Spend
from undertow.ledger.events import Event, decoding
from undertow.ledger.rules import Layout, Terms, canonical
from undertow.ledger.seals import Seal
from undertow.ledger.spends import Change, Row, rows
from undertow.ledger.tables import DATASETS, EVENTS, LEDGER, SEGMENTS

__all__ = ["Head", "Snapshot", "Transaction"]

_DELETE = "DELETE FROM undertow_segments WHERE dataset = ? AND cell = ? AND start = ?"
_WRITE = """INSERT INTO undertow_segments (dataset, cell, start, "end", level, exact)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (dataset, cell, start)
DO UPDATE SET "end" = excluded."end", level = excluded.level, exact = excluded.exact"""

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
        """Return what changes whenever anybody writes, None where that cannot be told."""
        return self._mark(self._connection)

    def append(self, dataset: str, kind: str, release_id: str | None, body: dict[str, Any]) -> str:
        """Append one event to the chain and return its hash; the chain never forks.

        The end of the chain is compared with the ledger's row first, so that a lost last event
        is noticed by the next writer.
        """
        seq, previous, name, seal = self.head
        last = self._run(
            sa.select(EVENTS.c.seq, EVENTS.c.hash).order_by(EVENTS.c.seq.desc()).limit(1)
        ).first()
        if (tuple(last) if last else (0, seal.origin(name))) != (seq, previous):
            raise LedgerDamaged(
                f"the last event is not number {seq}, which was written last; see verify(), and "
                "go back to a copy that verifies"
            )
        text = canonical(body, "entry")
        own = seal.of(previous, seq + 1, dataset, kind, release_id, text)
        self._run(
            sa.insert(EVENTS).values(
                seq=seq + 1, dataset=dataset, kind=kind, release_id=release_id, body=text,
                previous=previous, hash=own,
            )
        )  # fmt: skip
        self._run(sa.update(LEDGER).values(seq=seq + 1, hash=own))
        self.head = Head(seq + 1, own, name, seal)
        return own

    def events(
        self, dataset: str | None = None, release_id: str | None = None, after: int | None = None
    ) -> Iterator[Event]:
        """Yield events in order: all, those of a data set or of one release, those after one."""
        query = sa.select(EVENTS).order_by(EVENTS.c.seq)
        if dataset is not None:
            query = query.where(EVENTS.c.dataset == dataset)
        if release_id is not None:
            query = query.where(EVENTS.c.release_id == release_id)
        if after is not None:
            query = query.where(EVENTS.c.seq > after)
        return map(Event._make, self._run(query))

    def hash_at(self, seq: int) -> str | None:
        """Return the hash of an event, None if there is none of that number."""
        found: str | None = self._run(sa.select(EVENTS.c.hash).where(EVENTS.c.seq == seq)).scalar()
        return found

    def snapshot(self) -> Snapshot:
        """Return everything at once, so that it can be gone through when the lock is free again."""
        segments: dict[tuple[str, str], list[Row]] = {}
        own = SEGMENTS.c
        columns = (own.dataset, own.cell, own.start, own.end, own.level, own.exact)
        for row in self._run(sa.select(*columns).order_by(own.dataset, own.cell, own.start)):
            segments.setdefault((row[0], row[1]), []).append(row[2:])
        return Snapshot(self.head, self.mark(), [*self.events()], self.datasets(), segments)

    def datasets(self) -> dict[str, tuple[Terms, Layout]]:
        """Return the terms and the layout of every data set."""
        return {row.name: _account(row) for row in self._run(sa.select(DATASETS))}

    def dataset(self, name: str) -> tuple[Terms, Layout] | None:
        """Return the terms and the layout of a data set, None if there is none of that name."""
        row = self._run(sa.select(DATASETS).where(DATASETS.c.name == name)).first()
        return None if row is None else _account(row)

    def put_dataset(self, name: str, terms: Terms, layout: Layout) -> None:
        """Write terms and layout as the event just appended has made them."""
        values = {
            "terms": canonical(terms.to_dict(), "model"),
            "layout": canonical(layout.to_dict(), "layout"),
        }
        same = DATASETS.c.name == name
        if not self._run(sa.update(DATASETS).where(same).values(values)).rowcount:
            self._run(sa.insert(DATASETS).values(name=name, **values))

    def highest(self, dataset: str, cells: Sequence[str] | None, start: int, end: int) -> float:
        """Return the largest spend in cells (None: anywhere, ever), rounded up.

        Anywhere is one look at the index of levels; a window goes through its own segments (the
        added zero keeps PostgreSQL from going down the index of levels in search of one); many
        cells are one pass.
        """
        own = SEGMENTS.c
        meets = (own.end > start, own.start < end)
        with decoding("a spent level"):
            if cells is None:
                query = sa.select(sa.func.max(own.level)).where(own.dataset == dataset)
                return float(self._run(query).scalar() or 0.0)
            highest = sa.func.max(own.level + 0.0)
            if len(cells) > _FEW:
                by_cell = sa.select(own.cell, highest).where(own.dataset == dataset, *meets)
                found = dict(tuple(row) for row in self._run(by_cell.group_by(own.cell)))
                return max(float(found.get(cell) or 0.0) for cell in cells)
            queries = [
                sa.select(highest).where(*self._within(dataset, cell, start, end), *meets)
                for cell in cells
            ]
            return max(float(self._run(query).scalar() or 0.0) for query in queries)

    def spends(self, dataset: str, cells: Sequence[str] | None, start: int, end: int) -> set[Spend]:
        """Return the different spends in cells (None: anywhere, ever).

        Levels have an order that an index knows; spends of several kinds have none, so that the
        distinct ones are read. One pass over the data set, or over the cells' own stretches.
        """
        own = SEGMENTS.c
        meets = (own.end > start, own.start < end)
        with decoding("a spent level"):
            if cells is None or len(cells) > _FEW:
                query = sa.select(own.cell, own.exact).where(own.dataset == dataset)
                wanted = None if cells is None else {*cells}
                rows = self._run((query if cells is None else query.where(*meets)).distinct())
                texts = {text for cell, text in rows if wanted is None or cell in wanted}
            else:
                within = [self._within(dataset, cell, start, end) for cell in cells]
                queries = [sa.select(own.exact).where(*one, *meets).distinct() for one in within]
                texts = {text for query in queries for text in self._run(query).scalars()}
            return {Spend.read(text) for text in texts}

    def segments(
        self, dataset: str, cells: Sequence[str], start: int, end: int
    ) -> dict[str, list[Row]]:
        """Return the segments of cells that meet or border a window, in order, as stored."""
        own = SEGMENTS.c
        found: dict[str, list[Row]] = {cell: [] for cell in cells}
        columns = (own.cell, own.start, own.end, own.level, own.exact)
        everywhere = (own.dataset == dataset, own.start <= end)
        conditions = (
            [self._within(dataset, cell, start, end) for cell in cells]
            if len(cells) <= _FEW
            else [everywhere]
        )
        for condition in conditions:
            query = sa.select(*columns).where(*condition, own.end >= start)
            for row in self._run(query.order_by(own.cell, own.start)):
                if row[0] in found:
                    found[row[0]].append(row[1:])
        return found

    def _within(
        self, dataset: str, cell: str, start: int, end: int
    ) -> tuple[sa.ColumnElement[bool], ...]:
        """Return conditions for an index: from the last segment that starts before the window.

        Segments of a cell are disjoint, so no earlier one can meet or border it. That start is
        looked up first: as a subquery, PostgreSQL would not know how short the stretch is.
        """
        own = SEGMENTS.c
        line = (own.dataset == dataset, own.cell == cell)
        first = self._run(
            sa.select(sa.func.max(own.start)).where(*line, own.start < start)
        ).scalar()
        return *line, own.start >= (start if first is None else first), own.start <= end

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


def _account(row: Any) -> tuple[Terms, Layout]:
    with decoding(f"the terms of the data set {row.name!r}"):
        layout = json.loads(row.layout)
        return Terms(**json.loads(row.terms)), Layout(**{**layout, "cells": (*layout["cells"],)})
