"""Terms, entries, spent and remaining budget of one data set of a ledger."""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal

from undertow.certificate import Leakage
from undertow.data.scopes import HIGH, Scope, as_scope, check_name
from undertow.errors import InvalidInput, LedgerDamaged
from undertow.ledger.amounts import Spend, highest, round_down, round_up, worst
from undertow.ledger.entries import Spends
from undertow.ledger.replay import entries_of
from undertow.ledger.rules import (
    Entry,
    Layout,
    Room,
    Terms,
    exchanged,
    exchanged_at_delta,
    region,
    settled,
    tested_of,
)
from undertow.ledger.store import Store, Transaction
from undertow.mechanisms import Unit
from undertow.models.sets import AnyModel
from undertow.numerics import check_count
from undertow.plan import Suggested, checked

__all__ = ["Balance", "Named", "levels_after"]

Named = Literal["any", "ignorant", "informed"]


class Balance:
    """The account of one data set as it is read; every number is of one moment."""

    dataset: str
    model: AnyModel
    against: Named
    unit: Unit
    accepted: tuple[str, ...]
    _store: Store

    @property
    def limit(self) -> float:
        """The leakage that all releases together may reach."""
        return self._terms().limit

    @property
    def delta(self) -> float:
        """Probability of outputs that may exceed the limit."""
        return self._terms().delta

    @property
    def budget(self) -> float:
        """The DP level that the limit allows every record."""
        return self._terms().budget

    def conditions(self) -> tuple[str, ...]:
        """Return what weakens the account, each as a clause of its statement, the weightiest first.

        Failed checks that were accepted when it was opened, with what they cost once the limit is
        reached, and what was not tested. An account of persons depends on none of them.
        """
        if self.unit == "person":
            return ()
        terms = self._terms()
        costs = Suggested.by(tested_of(terms), terms.limit).beyond(terms.limit)
        return (*costs, *checked(self.model.checks, self.accepted))

    def level(self, scope: Scope | None = None) -> float:
        """Return the largest sum of DP levels over the records in a scope, rounded up.

        Sums entries, reserved ones included; inf for a redacted data set. A few index reads for
        the whole data set; for a window, linear in the segments inside it.
        """
        with self._store.reading() as transaction:
            return self._level(transaction, *self._account(transaction), as_scope(scope))

    def spent(self, scope: Scope | None = None) -> Spend:
        """Return the largest exact sum of each kind over the records in a scope.

        DP levels, squares of mu, rho, deltas. Of a redaction there is none.
        """
        return highest(self.room(scope).spent)

    def left(self, scope: Scope | None = None) -> float:
        """Return a DP level that still fits all records in a scope, rounded down.

        Of an account without a delta: budget - level. If nobody writes in between, ``reserve``
        accepts exactly this level.
        """
        with self._store.reading() as transaction:
            terms, layout = self._account(transaction)
            if terms.delta and layout.redaction is None:
                return self._room(transaction, terms, layout, as_scope(scope)).left()
            level = self._level(transaction, terms, layout, as_scope(scope))
        return 0.0 if math.isinf(level) else round_down(Fraction(terms.budget) - Fraction(level))

    def left_mu(self, scope: Scope | None = None) -> float:
        """Return a mu of GDP that still fits all records in a scope, rounded down.

        Gaussian noise of standard deviation 1 / mu for each unit by which a record moves an answer
        fits. 0 for an account without a delta.
        """
        with self._store.reading() as transaction:
            terms, layout = self._account(transaction)
            if not terms.delta or layout.redaction is not None:
                return 0.0
            return self._room(transaction, terms, layout, as_scope(scope)).left_mu()

    def room(self, scope: Scope | None = None) -> Room:
        """Return what the records in a scope have spent, and what fits beside it."""
        with self._store.reading() as transaction:
            terms, layout = self._account(transaction)
            return self._room(transaction, terms, layout, as_scope(scope))

    def leakage(self) -> Leakage:
        """Return what all releases together leak: what is spent, exchanged once under the model.

        Of an account with a delta it is the leakage at that delta.
        """
        return self._together().with_assumptions(self.conditions())

    def _together(self) -> Leakage:
        """Return what all releases together leak, if the model is true."""
        with self._store.reading() as transaction:
            terms, layout = self._account(transaction)
            level = self._level(transaction, terms, layout, Scope())
            mixed = bool(terms.delta) and layout.redaction is None
            spent = self._room(transaction, terms, layout, Scope()).spent if mixed else ()
        if layout.redaction is not None:
            return Leakage(0.0, layout.redaction, "redaction", self.against, delta=terms.delta)
        if not level and not spent:
            return Leakage(0.0, 0.0, "nothing was released", self.against, delta=terms.delta)
        if spent:
            return exchanged_at_delta(spent, self.model, terms)
        return exchanged(level, self.model, self.against, self.unit, terms.window)

    def entries(self) -> list[Entry]:
        """Return all entries in the order in which they were reserved, cancelled ones too."""
        with self._store.reading() as transaction:
            self._account(transaction)
            return entries_of(transaction.events(self.dataset), transaction.head.seal)

    def page(
        self, after: str | None = None, most: int = 100, size: int = 2**22
    ) -> tuple[list[Entry], str | None]:
        """Return the next entries after that of a release, and the id to go on after, if any.

        At most so many, of so many characters together (one at least): what a reader asks for costs
        no more, however long the account is.
        """
        most, size = check_count(most, "most", 1, HIGH - 1), check_count(size, "size", 1)
        first = 0
        with self._store.reading() as transaction:
            self._account(transaction)
            if after is not None:
                start = transaction.reserved(self.dataset, check_name(after, "release id"))
                if start is None:
                    raise InvalidInput(f"nothing was reserved under the id {after!r}")
                first = start
            page: list[Entry] = []
            for name in transaction.reserved_after(self.dataset, first, most + 1):
                if len(page) == most or size <= 0:
                    return page, page[-1].release_id
                events = [*transaction.events(self.dataset, name)]
                size -= sum(len(event.body) for event in events)
                page += entries_of(events, transaction.head.seal)
            return page, None

    def entry(self, release_id: str) -> Entry | None:
        """Return the entry of a release, None if nothing was reserved for it."""
        key = check_name(release_id, "release id")
        with self._store.reading() as transaction:
            self._account(transaction)
            return self._entry(transaction, key)

    def _terms(self) -> Terms:
        with self._store.reading() as transaction:
            return self._account(transaction)[0]

    def _level(self, transaction: Transaction, terms: Terms, layout: Layout, scope: Scope) -> float:
        """Return the level in a scope, by the index of levels."""
        if layout.redaction is not None:
            return math.inf
        return transaction.highest(self.dataset, *_searched(terms, layout, scope))

    def _room(self, transaction: Transaction, terms: Terms, layout: Layout, scope: Scope) -> Room:
        """Return what is spent in a scope, by the spends that are stored there."""
        spends = transaction.spends(self.dataset, *_searched(terms, layout, scope))
        return Room(terms, worst(spends))

    def _entry(self, transaction: Transaction, release_id: str) -> Entry | None:
        events = transaction.events(self.dataset, release_id)
        entries = entries_of(events, transaction.head.seal)
        return entries[0] if entries else None

    def _account(self, transaction: Transaction) -> tuple[Terms, Layout]:
        account = transaction.dataset(self.dataset)
        if account is None:
            raise LedgerDamaged(f"the data set {self.dataset!r} is no longer in the ledger")
        return account


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


def _searched(
    terms: Terms, layout: Layout, scope: Scope
) -> tuple[tuple[str, ...] | None, int, int]:
    """Return the cells (None: all) and the window in which a scope has spent."""
    where = region(layout, scope, terms.unit)
    everything = where == region(layout, Scope(), terms.unit)
    return None if everything else where.seen, where.start, where.end
