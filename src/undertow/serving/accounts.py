"""The ledger behind a service: every data set opened once, asked by many threads at once.

Readers hold no lock that writers wait for: each reads one state of the database in a transaction
of its own, and what a question may cost is bounded. Writers queue for the database one by one.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from undertow.canonical import DEEPEST, depth
from undertow.errors import InvalidInput, LedgerConflict, LedgerUnavailable
from undertow.ledger.book import Ledger, Reservation, datasets
from undertow.ledger.rules import Entry
from undertow.models.origins import audience_of
from undertow.serving.clients import Client
from undertow.serving.requests import Amount, Records

__all__ = ["Accounts", "NoSuchDataset"]

_CLIENT = "client"
"""The field of ``about`` that says who reserved a release."""


class NoSuchDataset(InvalidInput):
    """The ledger has no data set of that name."""


class Accounts:
    """All data sets of one ledger; rules, races and recovery are those of `Ledger`.

    A release belongs to the client that reserved it: its name is recorded with the entry, and
    nobody else begins, confirms or cancels it.
    """

    def __init__(self, where: str, key: Path | None = None) -> None:
        """Look whether the ledger is there and can be read."""
        self._where, self._key = where, key
        self._open: dict[str, Ledger] = {}
        self._writing, self._verifying = Lock(), Lock()
        datasets(where)

    def names(self) -> list[str]:
        """Return the names of the data sets."""
        return datasets(self._where)

    def _book(self, dataset: str) -> Ledger:
        """Return the account of a data set."""
        if dataset not in self._open:
            if dataset not in datasets(self._where):
                raise NoSuchDataset(f"the ledger has no data set {dataset!r}")
            book = Ledger(self._where, dataset, create=False, key=self._key)
            self._open.setdefault(dataset, book)
        return self._open[dataset]

    @contextmanager
    def _written(self, dataset: str) -> Iterator[Ledger]:
        """Give the account of a data set to one writer."""
        book = self._book(dataset)
        with self._writing:
            yield book

    def terms(self, dataset: str) -> dict[str, Any]:
        """Return the terms of an account, what is spent and what is left of it."""
        book = self._book(dataset)
        leak, level = book.leakage(), book.level()
        return {
            "dataset": dataset, "model": book.model.describe(), "origin": book.model.origin,
            "audience": audience_of(book.model.origin), "against": book.against,
            "unit": book.unit, "protect_window": book.protect.records, "limit": book.limit,
            "delta": book.delta, "budget": book.budget,
            "level": level if math.isfinite(level) else None, "left": book.left(),
            "leakage": {"lower": leak.lower, "upper": leak.upper},
            "accepted": list(book.accepted), "conditions": list(book.conditions()),
        }  # fmt: skip

    def left(self, dataset: str, records: Records) -> dict[str, Any]:
        """Return what still fits the records in a scope."""
        book, scope = self._book(dataset), records.scope()
        return {"level": book.left(scope), "mu": book.left_mu(scope)}

    def releases(self, dataset: str, after: str | None, most: int) -> dict[str, Any]:
        """Return entries in the order in which they were reserved, and after which to go on."""
        found, rest = self._book(dataset).page(after, most)
        return {"releases": [_told(entry) for entry in found], "next": rest}

    def release(self, dataset: str, release_id: str) -> dict[str, Any] | None:
        """Return one entry, None if nothing was reserved under the id."""
        found = self._book(dataset).entry(release_id)
        return None if found is None else _told(found)

    def reserve(
        self, dataset: str, release_id: str, amount: Amount, client: Client
    ) -> tuple[bool, Reservation]:
        """Reserve a release; return whether it is new, and what is recorded of it."""
        if _CLIENT in amount.about:
            raise InvalidInput(f"'{_CLIENT}' in about is written by the service; leave it out")
        with self._written(dataset) as book:
            known = book.entry(release_id) is not None
            made = book.reserve(
                release_id, amount.level, amount.records.scope(),
                {**amount.about, _CLIENT: client.name}, mu=amount.mu, rho=amount.rho,
                delta=amount.delta, leakage=amount.leakage,
                kind="release" if amount.leakage is None else "redaction",
            )  # fmt: skip
        return not known, made

    def begin(self, dataset: str, release_id: str, client: Client) -> None:
        """Record that noise is about to be drawn."""
        with self._written(dataset) as book:
            _own(book, release_id, client)
            book.begin(release_id)

    def confirm(
        self, dataset: str, release_id: str, result: dict[str, Any], client: Client
    ) -> dict[str, Any]:
        """Record what is published, and return what is recorded: show only that."""
        with self._written(dataset) as book:
            _own(book, release_id, client)
            return book.confirm(release_id, result)

    def cancel(self, dataset: str, release_id: str, why: str, client: Client) -> None:
        """Give back what was reserved for a release that never began."""
        with self._written(dataset) as book:
            _own(book, release_id, client)
            book.cancel(release_id, why)

    def set_limit(self, dataset: str, limit: float, delta: float | None) -> None:
        """Change the limit, on record."""
        with self._written(dataset) as book:
            book.set_limit(limit, delta)

    def verify(self, holding: list[str]) -> int:
        """Return the number of events, or raise what is wrong with them; one at a time."""
        names = self.names()
        if not names:
            raise NoSuchDataset("the ledger holds no data set")
        book = self._book(names[0])
        if not self._verifying.acquire(blocking=False):
            raise LedgerUnavailable("the ledger is being verified; ask again when that has ended")
        try:
            return book.verify(*holding)
        finally:
            self._verifying.release()


def _own(book: Ledger, release_id: str, client: Client) -> None:
    """Refuse a release that somebody else reserved, here or without the service."""
    found = book.entry(release_id)
    if found is not None and found.about.get(_CLIENT) != client.name:
        raise LedgerConflict(
            f"the release {release_id!r} was reserved by another client, and only that one goes on "
            "with it"
        )


def _told(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON; its result is what was published.

    A value of an older service that no reader's stack holds is left out: it is in the ledger.
    """
    became = ("status", "begun", "at", "made", "why", "hash", "result")
    named = {"release_id": entry.release_id, **entry.body()}
    told = named | {name: getattr(entry, name) for name in became}
    return {name: part if depth(part) <= DEEPEST else None for name, part in told.items()}
