"""The account once more, from the events alone: what the other tables must hold."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, NoReturn

from undertow.data.scopes import Scope
from undertow.errors import LedgerDamaged, UndertowError
from undertow.ledger.amounts import NOTHING, Spend, highest, round_up
from undertow.ledger.entries import Event, Seal, Spends
from undertow.ledger.rules import (
    Entry,
    Layout,
    Region,
    Room,
    Segment,
    Terms,
    check_beside,
    check_narrowing,
    freed,
    region,
    settled,
)
from undertow.mechanisms import Unit

__all__ = [
    "Account",
    "Accounts",
    "Progress",
    "chained",
    "entries_of",
    "levels_after",
    "replayed",
]

Status = Literal["reserved", "begun", "confirmed", "cancelled"]


class Progress(NamedTuple):
    """State of a release; its request is kept as long as it can be withdrawn."""

    status: Status
    hash: str
    asked: Entry | None


@dataclass(slots=True)
class Account:
    """A data set while its events are gone through."""

    terms: Terms
    layout: Layout = field(default_factory=Layout)
    lines: dict[str, Progress] = field(default_factory=dict)
    spends: Spends = field(default_factory=Spends)
    shapes: set[str] = field(default_factory=set)
    live: int = 0

    @property
    def cells(self) -> dict[str, list[Segment]]:
        """Spend of each cell."""
        return self.spends.cells()

    def region(self, scope: Scope) -> Region:
        """Return where an entry with this scope adds its spend."""
        return region(self.layout, scope, self.terms.unit)

    def room(self, where: Region) -> Room:
        """Return what is spent and what is left in a region."""
        return Room(self.terms, self.spends.most(where))

    def check(self, entry: Entry, where: Region, *, again: bool = False) -> None:
        """Refuse an entry that must not be beside the others, or that does not fit."""
        check_beside(self.layout, entry)
        self.room(where).check(entry, again=again)

    def reserve(self, entry: Entry) -> None:
        """Add an entry under the same rules as when it was written."""
        where, spend = self.region(entry.scope), entry.spend
        if spend is not None and (spend.negative or not spend):
            raise ValueError("an entry of nothing")
        self.check(entry, where, again=True)
        self.spends.add(where, spend)
        self.layout = settled(self.layout, entry, self.terms.unit, where)
        self.lines[entry.release_id] = Progress("reserved", entry.hash, entry)
        self.live += 1

    def given_back(self, entry: Entry) -> tuple[Region, Spend, Layout]:
        """Return what cancelling an entry takes away where, and the layout afterwards.

        Cells that were set apart since then are copies that hold the spend too: the region of the
        scope under the layout of now contains them.
        """
        spend = -(entry.spend or NOTHING)
        return self.region(entry.scope), spend, freed(self.layout, self.live - 1)

    def cancel(self, release_id: str) -> None:
        """Give an entry back that was reserved and never begun."""
        line = self.lines[release_id]
        if line.status != "reserved" or line.asked is None:
            raise ValueError("not reserved")
        where, spend, self.layout = self.given_back(line.asked)
        self.spends.add(where, spend or None)
        self.lines[release_id] = Progress("cancelled", line.hash, None)
        self.live -= 1

    def advance(self, release_id: str, status: Status, *before: Status) -> None:
        """Take a release one step further, if it stood where that is possible."""
        line = self.lines[release_id]
        if line.status not in before:
            raise ValueError("out of order")
        self.lines[release_id] = Progress(status, line.hash, None)


Accounts = dict[str, Account]


def entries_of(events: Iterable[Event], seal: Seal) -> list[Entry]:
    """Return the entries among events, each with what became of it, in order."""
    entries: dict[str | None, Entry] = {}
    for event in events:
        body, before = seal.content(event), entries.get(event.release_id)
        if event.kind == "reserve":
            entries[event.release_id] = _entry(event, body)
        elif before is not None:
            entries[event.release_id] = _later(before, event, body)
    return list(entries.values())


def _entry(event: Event, body: Mapping[str, Any]) -> Entry:
    """Return the entry that the body of a reserve event describes."""
    try:
        return Entry(
            release_id=event.release_id or "",
            kind=body["kind"],
            level=body["level"],
            leakage=body["leakage"],
            scope=Scope.stored(body["scope"]),
            about=body["about"],
            at=body["at"],
            hash=event.hash,
            mu=body.get("mu"),
            rho=body.get("rho"),
            delta=body.get("delta"),
        )
    except (KeyError, TypeError, ValueError):
        _damaged(event.seq, "does not describe an entry")


def _later(entry: Entry, event: Event, body: Mapping[str, Any]) -> Entry:
    """Return an entry after its confirmation, its beginning or its cancellation."""
    try:
        if event.kind == "confirm":
            return replace(
                entry, status="confirmed", result=body["result"], made=body["at"], begun=True
            )
        if event.kind == "cancel":
            return replace(entry, status="cancelled", why=body["why"])
    except KeyError:
        _damaged(event.seq, f"does not {event.kind} an entry")
    return replace(entry, begun=True) if event.kind == "begin" else entry


def chained(
    events: Iterable[Event], seal: Seal, previous: str, seq: int = 0
) -> Iterator[tuple[Event, dict[str, Any]]]:
    """Yield events with their bodies after checking that each follows the one before it.

    Refuses a chain that is broken: a row changed, missing, added or moved.
    """
    for number, event in enumerate(events, seq + 1):
        if event.seq != number:
            _damaged(number, f"is missing: the next one found is number {event.seq}")
        if event.previous != previous:
            _damaged(number, "does not follow the one before it")
        yield event, seal.content(event)
        previous = event.hash


def replayed(accounts: Accounts, event: Event, body: dict[str, Any]) -> None:
    """Take accounts through an event, and refuse one that could not have been written.

    An unknown data set, a second reservation, a spend beyond the budget, noise after a
    cancellation.
    """
    try:
        _apply(accounts, event, body)
    except LedgerDamaged:
        raise
    except (UndertowError, KeyError, TypeError, ValueError, AttributeError) as error:
        _damaged(event.seq, f"could not have been written ({type(error).__name__})")


def _apply(accounts: Accounts, event: Event, body: dict[str, Any]) -> None:
    key, kind = event.release_id or "", event.kind
    if kind == "forget":  # about the ledger, not about a data set
        return
    if kind == "open" and event.dataset not in accounts:
        accounts[event.dataset] = Account(Terms(**body["terms"]))
        return
    account = accounts[event.dataset]
    if kind == "limit":
        changed = {name: body[name] for name in ("limit", "budget")}
        beside = {name: body.get(name, 0.0) for name in ("delta", "small", "pure")}
        account.terms = replace(account.terms, **changed, **beside)
    elif kind == "narrow":
        if account.lines[key].status != "confirmed":
            _damaged(event.seq, "narrows by what was not released")
        check_narrowing(account.terms)
        changed = {name: body[name] for name in ("model", "budget", "missed")}
        account.terms = replace(account.terms, **changed)
        if not account.room(account.region(Scope())).fits():
            _damaged(event.seq, "narrows below what was spent")
    elif kind == "reserve" and key not in account.lines:
        account.reserve(_entry(event, body))
    elif kind == "begin":
        account.advance(key, "begun", "reserved")
    elif kind == "confirm":
        if account.lines[key].status == "confirmed":
            _damaged(event.seq, "confirms what was confirmed before")
        account.advance(key, "confirmed", "reserved", "begun")
    elif kind == "cancel":
        account.cancel(key)
    elif kind == "shape":
        account.shapes.add(body["identity"])
    else:
        _damaged(event.seq, "has no place here")


def _damaged(seq: int, what: str) -> NoReturn:
    raise LedgerDamaged(f"event {seq} {what}; go back to a copy of the ledger that verifies")


def levels_after(entries: Sequence[Entry], unit: Unit) -> Iterator[tuple[Entry, float]]:
    """Yield the entries that are not cancelled, by time, with the level of the data set after each.

    Levels of entries on different records do not add up; those that touch the same records do. The
    level is inf after a redaction. Spends without a DP level (Gaussian noise) are not in it.

    >>> one = Entry("a", "release", 0.5, None, Scope(start=0, end=7), {}, at="2026-01-05T09:00")
    >>> two = Entry("b", "release", 0.5, None, Scope(start=7, end=9), {}, at="2026-01-06T09:00")
    >>> [level for _, level in levels_after([one, two], "record")]
    [0.5, 0.5]
    """
    layout, spends = Layout(), Spends()
    live = (entry for entry in entries if entry.status != "cancelled")
    for entry in sorted(live, key=lambda each: each.at):
        where = region(layout, entry.scope, unit)
        layout = settled(layout, entry, unit, where)
        spends.add(where, entry.spend)
        most = highest(spends.most(region(layout, Scope(), unit)))
        yield entry, math.inf if entry.kind == "redaction" else round_up(most.level)
