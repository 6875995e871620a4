"""The account once more, from the events alone: what the other tables must hold."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NoReturn

from undertow.errors import LedgerDamaged, UndertowError
from undertow.ledger.events import ORIGIN, Event
from undertow.ledger.rules import (
    REST,
    Entry,
    Layout,
    Region,
    Segment,
    Terms,
    check_beside,
    check_fits,
    overlay,
    region,
    settled,
)
from undertow.ledger.scopes import Scope
from undertow.ledger.store import Transaction

__all__ = ["Account", "entry_of", "replayed", "verified"]


@dataclass(slots=True)
class Account:
    """A data set while its events are gone through."""

    terms: Terms
    layout: Layout = field(default_factory=Layout)
    entries: dict[str, Entry] = field(default_factory=dict)
    cells: dict[str, list[Segment]] = field(default_factory=lambda: {REST: []})

    def reserve(self, entry: Entry) -> None:
        """Add an entry under the same rules as when it was written."""
        check_beside(self.layout, entry)
        where = region(self.layout, entry.scope, self.terms.unit)
        check_fits(self._spent(where), entry, self.terms)
        for cell in where.fresh:
            self.cells[cell] = list(self.cells[REST])
        if entry.level is not None:
            for cell in where.cells:
                line, (low, high) = self.cells[cell], self._slice(cell, where)
                line[low:high] = overlay(
                    line[low:high], where.start, where.end, Fraction(entry.level)
                )
        self.layout = settled(self.layout, entry, self.terms.unit)
        self.entries[entry.release_id] = entry

    def _slice(self, cell: str, where: Region) -> tuple[int, int]:
        """Return the positions of the segments that meet or border the window."""
        line = self.cells[cell]
        low = bisect_left(line, where.start, key=lambda segment: segment.end)
        return low, bisect_left(line, where.end + 1, lo=low, key=lambda segment: segment.start)

    def _spent(self, where: Region) -> Fraction:
        most = Fraction(0)
        for cell in where.seen:
            low, high = self._slice(cell, where)
            for segment in self.cells[cell][low:high]:
                if segment.start < where.end and segment.end > where.start:
                    most = max(most, segment.level)
        return most


def entry_of(event: Event, body: dict[str, Any], confirmed: dict[str, Any] | None = None) -> Entry:
    """Return the entry that the body of a reserve event, and of its confirmation, describe."""
    try:
        return Entry(
            release_id=event.release_id or "",
            kind=body["kind"],
            level=body["level"],
            leakage=body["leakage"],
            scope=Scope(**body["scope"]),
            about=body["about"],
            status="reserved" if confirmed is None else "confirmed",
            result=None if confirmed is None else confirmed["result"],
            at=body["at"],
            hash=event.hash,
        )
    except (KeyError, TypeError, ValueError):
        _damaged(event.seq, "does not describe an entry")


def replayed(events: Iterable[Event]) -> tuple[dict[str, Account], list[str]]:
    """Return the accounts that the events make, and all hashes.

    Refuses a chain that is broken (a row changed, missing, added or moved) and events that could
    not have been written: an unknown data set, a second reservation, a spend beyond the budget.
    """
    accounts: dict[str, Account] = {}
    hashes = [ORIGIN]
    for number, event in enumerate(events, 1):
        if event.seq != number:
            _damaged(number, f"is missing: the next one found is number {event.seq}")
        if event.previous != hashes[-1]:
            _damaged(number, "does not follow the one before it")
        hashes.append(event.hash)
        try:
            _apply(accounts, event)
        except LedgerDamaged:
            raise
        except (UndertowError, KeyError, TypeError, ValueError, AttributeError) as error:
            _damaged(number, f"could not have been written ({type(error).__name__})")
    return accounts, hashes


def _apply(accounts: dict[str, Account], event: Event) -> None:
    body, account = event.content(), accounts.get(event.dataset)
    key = event.release_id or ""
    if event.kind == "open" and account is None:
        accounts[event.dataset] = Account(Terms(**body["terms"]))
    elif event.kind == "limit" and account is not None:
        account.terms = replace(account.terms, limit=body["limit"], budget=body["budget"])
    elif event.kind == "reserve" and account is not None and key not in account.entries:
        account.reserve(entry_of(event, body))
    elif event.kind == "confirm" and account is not None and key in account.entries:
        entry = account.entries[key]
        if entry.status == "confirmed":
            _damaged(event.seq, "confirms what was confirmed before")
        account.entries[key] = replace(entry, status="confirmed", result=body["result"])
    else:
        _damaged(event.seq, "has no place here")


def verified(transaction: Transaction, holding: Iterable[str] = ()) -> int:
    """Return the number of events after checking everything that is stored against them.

    ``holding`` are hashes known from elsewhere (printed reports): each must be in the chain,
    which is what finds a ledger that was rolled back or written anew.
    """
    accounts, hashes = replayed(transaction.events())
    number = len(hashes) - 1
    if transaction.head != (number, hashes[-1]):
        raise LedgerDamaged(
            f"{transaction.head[0]} events were written, {number} are left, or the last is another"
        )
    found = {name: (account.terms, account.layout) for name, account in accounts.items()}
    if found != transaction.datasets():
        raise LedgerDamaged("the stored terms of the data sets do not follow from the events")
    spent = [
        (name, cell, segment)
        for name, account in sorted(accounts.items())
        for cell, line in sorted(account.cells.items())
        for segment in line
    ]
    if spent != sorted(transaction.all_segments()):
        raise LedgerDamaged("the stored spent levels do not follow from the events")
    missing = sum(one not in set(hashes[1:]) for one in holding)
    if missing:
        raise LedgerDamaged(
            f"{missing} of the entries named are not in this ledger: it is an old copy, or not the "
            "one they were written to"
        )
    return number


def _damaged(seq: int, what: str) -> NoReturn:
    raise LedgerDamaged(f"event {seq} {what}; go back to a copy of the ledger that verifies")
