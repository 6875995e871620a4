"""Verification of a ledger before each write.

A grant relies on the derived tables, and they are only worth what the events behind them are. So
before each write the ledger is held against what this process has verified of it before (or, the
first time, against all of its events), and against what the memory outside knows.

What was verified is kept by the process: number and hash of the last event, and the accounts that
the events make. As long as nobody else has written, that is all there is to know. Where somebody
has, all hashes are computed again, new events are replayed and all tables are compared: in a
reading transaction, so that no writer waits for it. Inside the lock only what came in between is
left.
"""

import os
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from undertow.errors import AccountWarning, LedgerDamaged
from undertow.ledger.entries import Event, Row, rows
from undertow.ledger.memory import Memory
from undertow.ledger.replay import Account, Accounts, chained, replayed
from undertow.ledger.rules import Region
from undertow.ledger.store import Store, Transaction
from undertow.ledger.transactions import Head, Snapshot

__all__ = ["Checks", "Granting", "verified"]

_MOST = 16
"""Ledgers whose accounts a process keeps."""


@dataclass(slots=True)
class _Known:
    """Verified state of the ledger at one place, up to event ``seq``.

    Whoever holds ``lock`` may read the ledger, but never waits to write it: writers take the
    ledger's lock first and this one second.
    """

    id: str = ""
    seq: int = 0
    hash: str = ""
    accounts: Accounts = field(default_factory=dict)
    mark: object = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def start(self, head: Head) -> None:
        """Reset what was checked to the ledger's name alone."""
        self.id, self.seq, self.hash = head.id, 0, head.seal.origin(head.id)
        self.accounts, self.mark = {}, None


_known: dict[str, _Known] = {}


def _at(place: str) -> _Known:
    """Return what is known of a place; the process forgets places it has not used for long."""
    checked = _known.pop(place, None) or _Known()
    _known[place] = checked
    for old in [*_known][:-_MOST]:
        _known.pop(old, None)
    return checked


if sys.platform != "win32":  # another thread of the parent may have held a lock
    os.register_at_fork(after_in_child=_known.clear)


@dataclass(slots=True)
class Granting:
    """A writing transaction on a ledger that was just checked, and its accounts."""

    transaction: Transaction
    accounts: Accounts

    def check_region(self, dataset: str, account: Account, where: Region) -> None:
        """Refuse spent levels, among those that a grant relies on, that do not follow."""
        stored = self.transaction.segments(dataset, where.seen, where.start, where.end)
        for cells, line in account.spends.expected(where):
            expected = rows(line)
            if any(stored[cell] != expected for cell in cells):
                raise LedgerDamaged("the stored spent levels do not follow from the events")

    def account(self, dataset: str) -> Account:
        """Return the account of a data set, whose stored terms must follow from the events."""
        stored = self.transaction.dataset(dataset)
        account = self.accounts.get(dataset)
        if stored is None and account is not None:
            raise LedgerDamaged(f"the data set {dataset!r} is no longer in the ledger")
        if account is None or stored != (account.terms, account.layout):
            raise LedgerDamaged("the stored terms of the data sets do not follow from the events")
        return account


class Checks:
    """The way to write to one ledger: checked before, remembered afterwards."""

    def __init__(self, store: Store, memory: Memory) -> None:
        self._store, self._memory = store, memory
        self._place = "" if store.path is None else str(store.path)
        self._id = ""

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """Give a reading transaction on a ledger that has the last event that was seen in it.

        What was seen is looked up before the ledger is: another process may write in between.
        """
        self._id = self._id or self._store.seen
        if not self._id:
            with self._store.reading() as transaction:
                self._id = transaction.head.id
        last = self._memory.head(self._id)
        with self._store.reading() as transaction:
            head = transaction.head
            if head.id != self._id:  # the file is another one now
                self._id, last = head.id, self._memory.head(head.id)
            if last is not None and transaction.hash_at(last[0]) != last[1]:
                raise _rolled_back(self._store.place, head.seq, last[0])
            yield transaction

    def look_around(self, *, created: bool) -> None:
        """Refuse a ledger that took another's place, unless it was just created: then warn."""
        before = self._memory.others_at(self._place, self._id) if self._place else 0
        if not before:
            return
        warning = f"another ledger was kept as {self._store.place} before, with {before} events"
        if not created:
            raise LedgerDamaged(
                f"{warning}: this one has replaced it, and what was spent there is not in it; go "
                "back to that one, or, if it is given up, record that with: undertow ledger forget "
                "LEDGER --yes"
            )
        self._memory.give_up(self._place, self._id)
        warnings.warn(
            f"{warning}: what was spent there is not known here, and adds up; go back to it if it "
            "was lost",
            AccountWarning,
            stacklevel=4,
        )

    def verify(self, holding: Iterable[str] = ()) -> int:
        """Return the number of events after checking everything from the first event on."""
        with self.reading() as transaction:
            transaction.head.seal.needed(self._store.place)
            events = transaction.snapshot()
        number = verified(events, holding)
        self._remember(events.head)
        return number

    @contextmanager
    def writing(self, what: str) -> Iterator[Granting]:
        """Give a writing transaction on a ledger that is as it was written; remember its end."""
        checked = self._checked()
        with self._store.writing(what) as transaction:
            with checked.lock:
                alone = checked.mark is not None and transaction.mark() == checked.mark
                self._follow(checked, transaction)
            start = transaction.head
            yield Granting(transaction, checked.accounts)
            end, after = transaction.head, transaction.mark()
        if end != start:
            with checked.lock:
                checked.mark = self._store.touched(after) if alone else None
        self._remember(end)

    def forget(self, at: str) -> int:
        """Record that a ledger has lost events; return how many were remembered.

        The record is written before anything is forgotten: a crash in between refuses once more.
        """
        with self._store.reading() as transaction:
            head = transaction.head
            head.seal.needed(self._store.place)
            verified(transaction.snapshot())
        checked = _at(self._store.address)
        with checked.lock:
            checked.start(head)
        last = self._memory.head(head.id)
        with Checks(self._store, Memory(None)).writing("forget") as granting:
            body = {"remembered": None if last is None else [*last], "at": at}
            granting.transaction.append("", "forget", None, body)
            end = granting.transaction.head
        self._memory.forget(head.id)
        self._memory.give_up(self._place, head.id)
        self._remember(end)
        return 0 if last is None else last[0]

    def bound(self, transaction: Transaction, identity: str, dataset: str) -> list[tuple[str, str]]:
        """Return where else a table was released, by the memory: (data set, ledger)."""
        return self._memory.bind(identity, transaction.head.id, dataset, self._store.place)

    def _remember(self, head: Head) -> None:
        self._memory.advance(head.id, self._place or self._store.place, head.seq, head.hash)

    def _checked(self) -> _Known:
        """Check what can be checked before the lock; return what is verified by now."""
        checked = _at(self._store.address)
        with checked.lock:
            snapshot: Snapshot | None = None
            with self.reading() as transaction:
                head = transaction.head
                head.seal.needed(self._store.place)
                if checked.id != head.id:
                    checked.start(head)
                if checked.mark is None or transaction.mark() != checked.mark:
                    snapshot = transaction.snapshot()
                else:
                    self._follow(checked, transaction)
            if snapshot is not None:
                self._compare(checked, snapshot)
        return checked

    def _follow(self, checked: _Known, transaction: Transaction) -> None:
        """Replay from the last checked event to the ledger's last event."""
        if checked.id != transaction.head.id or checked.seq > transaction.head.seq:
            raise _rolled_back(self._store.place, transaction.head.seq, checked.seq)
        _continue(checked, transaction.events(after=checked.seq), transaction.head)

    def _compare(self, checked: _Known, snapshot: Snapshot) -> None:
        """Hold everything in a ledger against what was verified of it, and go on from there."""
        if checked.seq > snapshot.head.seq:
            raise _rolled_back(self._store.place, snapshot.head.seq, checked.seq)
        origin = snapshot.head.seal.origin(snapshot.head.id)
        for event, _ in chained(snapshot.events[: checked.seq], snapshot.head.seal, origin):
            if event.seq == checked.seq and event.hash != checked.hash:
                raise _rolled_back(self._store.place, snapshot.head.seq, checked.seq)
        _continue(checked, snapshot.events[checked.seq :], snapshot.head)
        _tables(snapshot, checked.accounts)
        checked.mark = snapshot.mark


def verified(found: Snapshot, holding: Iterable[str] = ()) -> int:
    """Return the number of events after checking everything that is stored against them.

    ``holding`` are hashes known from elsewhere (printed reports): each must be in the chain,
    which is what finds a ledger that was rolled back or written anew.
    """
    fresh = _Known()
    fresh.start(found.head)
    _continue(fresh, found.events, found.head)
    _tables(found, fresh.accounts)
    hashes = {event.hash for event in found.events}
    missing = sum(one not in hashes for one in holding)
    if missing:
        raise LedgerDamaged(
            f"{missing} of the entries named are not in this ledger: it is an old copy, or not the "
            "one they were written to"
        )
    return fresh.seq


def _continue(checked: _Known, events: Iterable[Event], head: Head) -> None:
    """Replay what was appended since; the last event must be the ledger's last."""
    done = False
    try:
        for event, body in chained(events, head.seal, checked.hash, checked.seq):
            replayed(checked.accounts, event, body)
            checked.seq, checked.hash = event.seq, event.hash
        if (checked.seq, checked.hash) != head[:2]:
            raise LedgerDamaged(
                f"{head.seq} events were written, {checked.seq} are left, or the last is another"
            )
        done = True
    finally:
        if not done:  # an event may have been half applied
            checked.start(head)


def _tables(found: Snapshot, accounts: Accounts) -> None:
    """Refuse derived tables that do not follow from the events."""
    for name in accounts.keys() - found.datasets.keys():
        raise LedgerDamaged(f"the terms of the data set {name!r} are no longer in the ledger")
    if {name: (one.terms, one.layout) for name, one in accounts.items()} != found.datasets:
        raise LedgerDamaged("the stored terms of the data sets do not follow from the events")
    lines: dict[int, list[Row]] = {}  # cells share them
    spent = 0
    for name, account in accounts.items():
        for cell, line in account.cells.items():
            if id(line) not in lines:
                lines[id(line)] = rows(line)
            expected = lines[id(line)]
            spent += bool(expected)
            if found.segments.get((name, cell), []) != expected:
                raise LedgerDamaged("the stored spent levels do not follow from the events")
    if spent != len(found.segments):
        raise LedgerDamaged("the stored spent levels do not follow from the events")


def _rolled_back(place: str, seq: int, last: int) -> LedgerDamaged:
    lost = (
        f"the last {last - seq} of {last} events that were written are not in it"
        if last > seq
        else f"event {last} is not the one that was written"
    )
    return LedgerDamaged(
        f"{place} is an older copy, or was written anew: {lost}; go back to the newest copy, or, "
        "if the loss is accepted, record that with: undertow ledger forget LEDGER --yes"
    )
