"""The ledger as its users see it: one data set, its limit, and what was released from it."""

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from json import loads
from typing import TYPE_CHECKING, Any, Literal

from undertow.adversaries import Named
from undertow.certificate import Leakage, canonical
from undertow.curves import check_delta
from undertow.data.scopes import HIGH, Scope, as_scope, check_name
from undertow.errors import InvalidInput, LedgerConflict, LedgerDamaged
from undertow.guarantees import Guarantee, PureDP
from undertow.ledger.amounts import Spend, highest, round_down, round_up, worst
from undertow.ledger.checks import Checks, Granting
from undertow.ledger.entries import check_terms, read_key, request, wanted_terms
from undertow.ledger.keys import Keys, released
from undertow.ledger.memory import memory_at
from undertow.ledger.replay import entries_of
from undertow.ledger.rules import (
    Entry,
    Kind,
    Layout,
    Room,
    Terms,
    affordable,
    allowance,
    believed,
    check_narrowing,
    check_same,
    exchanged,
    exchanged_at_delta,
    recorded_fit,
    region,
    settled,
    spend_words,
    tested_of,
)
from undertow.ledger.store import Store
from undertow.ledger.transactions import Transaction
from undertow.mechanisms import Unit
from undertow.models.classes import ChainBox
from undertow.models.registry import law_to_dict
from undertow.models.sets import AnyModel, model_from_dict
from undertow.numerics import check_choice, check_count, check_flag, check_positive
from undertow.plan import Suggested, checked
from undertow.queries import AnyQuery
from undertow.rounding import above, below
from undertow.sampling.keyed import Key
from undertow.secrets import Person, Window

if TYPE_CHECKING:
    from undertow.plan import Plan

__all__ = ["Ledger", "Reservation", "datasets", "forget"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """An entry of the account; ``result`` is the published answer, None before confirmation.

    ``entry_hash`` names the entry for good: `Ledger.verify` finds it again. ``made`` is when the
    result was recorded (UTC), None where none is.
    """

    release_id: str
    result: dict[str, Any] | None
    entry_hash: str
    made: str | None = None


class Ledger:
    """The account of everything released from one data set.

    The budget is ``dp_budget(model, limit, against)``, computed once and rounded down; where the
    secret is a person it is the limit itself. Invariant: for every record, the DP levels of the
    entries that touch it add up to at most the budget, whoever writes, crashes or races. An entry
    counts as soon as it is reserved. With a ``delta`` entries may have the mu or the rho of noise
    without a DP level, which add up on their own (`undertow.ledger.rules`).

    Parameters
    ----------
    where
        A file name (SQLite) or an address ``postgresql://user@host/database``.
    dataset
        The name of the data set. A ledger holds any number of them.
    model, limit
        How the records depend on each other, and the leakage that all releases together may
        reach. Required for a new data set; an existing one keeps its own, and refuses others.
    delta
        How rare outputs may be that break the limit; by default 0, which admits DP levels only.
    pure
        With a delta: the DP level that is set aside for releases that have one, by default 0.
        Levels spent *before* noise without a level begins need no such share.
    against
        The adversary covered, by default ``"any"``.
    secret
        What the limit is kept for: by default one record; ``Window(12)``, the whole history of any
        twelve records in a row, for the budget ``dp_budget(model, limit, against, Window(12))``; or
        ``Person()``, all records of a person.
    accept
        The names of failed checks of a fitted model that are taken upon oneself, as in `calibrate`;
        they are recorded, and the account's statement tells them.
    create
        Whether a missing ledger or data set is created.
    key
        Bytes or their file (by default that in ``UNDERTOW_LEDGER_KEY``): nobody without it can
        write a ledger that verifies. Set when a ledger is created; without it one can only read.
    memory
        The file that remembers the last event of each ledger, so that an old copy is noticed; by
        default in the folder ``UNDERTOW_STATE`` or ``~/.local/state/undertow``; False for none.
        Beside it lie the keys of series that are being released (`release_key`).

    >>> import tempfile
    >>> from undertow import MarkovChain
    >>> from undertow.data.scopes import Scope
    >>> folder = tempfile.TemporaryDirectory()
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], states=("inactive", "active"))
    >>> ledger = Ledger(f"{folder.name}/year.db", "w25", model=chain, limit=1.0, memory=False)
    >>> week = ledger.reserve("week 1", 0.2, Scope(start=0, end=7))
    >>> ledger.confirm("week 1", {"active": 1017})
    {'active': 1017}
    >>> ledger.level(), round(ledger.left(Scope(start=0, end=1)), 4), ledger.verify()
    (0.2, 0.0503, 3)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        where: str | os.PathLike[str],
        dataset: str,
        model: AnyModel | None = None,
        limit: float | None = None,
        *,
        delta: float | None = None,
        pure: float | None = None,
        against: Named | None = None,
        secret: Window | Person | None = None,
        accept: Sequence[str] = (),
        create: bool = True,
        key: bytes | str | os.PathLike[str] | None = None,
        memory: str | os.PathLike[str] | Literal[False] | None = None,
    ) -> None:
        """Open the account, or start it; a refusal leaves everything as it was."""
        self.dataset = check_name(dataset, "the name of the data set")
        create = check_flag(create, "create")
        wanted = wanted_terms(model, limit, against, secret, delta, pure, accept)
        self._store = Store(where, read_key(key))
        remembered = memory_at(memory)
        self._checks, self._keys = Checks(self._store, remembered), Keys(remembered.keys)
        present = self._store.prepare(needed=not create)
        terms = self._stored() if present else None
        if terms is None:
            if model is not None and create and wanted["unit"] != "person":
                _admit(model, wanted, accept)
            terms = self._start(wanted, present, create)
        check_terms(self.dataset, terms, wanted)
        self.model: AnyModel = believed(terms)
        self.against: Named = terms.against
        self.unit: Unit = terms.unit
        self.secret: Window | Person = Person() if terms.unit == "person" else Window(terms.window)
        self.accepted: tuple[str, ...] = tuple(terms.accepted)
        self._forget_recorded()

    def __repr__(self) -> str:
        return f"Ledger({self._store.place!r}, dataset={self.dataset!r})"

    def verify(self, *holding: str) -> int:
        """Return the number of events in the ledger (all data sets), or raise `LedgerDamaged`.

        Checks the hash chain, the numbering, every rule at every step, and that all derived tables
        follow from the events. ``holding``: hashes of entries from printed reports, which must be
        in the chain. Linear in the number of events.
        """
        return self._checks.verify(holding)

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

    def set_limit(self, limit: float, delta: float | None = None) -> None:
        """Change the limit, and record the change; it cannot fall below what is already spent.

        ``delta`` stays as it is where none is given.
        """
        old = self._terms()
        rare = old.delta if delta is None else check_delta(delta)
        wanted = check_positive(limit, "the limit")
        model = model_from_dict(old.model)
        budget, small = allowance(wanted, rare, model, old.against, old.unit, old.window)
        pure = min(old.pure, budget) if rare else 0.0
        new = replace(old, limit=wanted, budget=budget, delta=rare, small=small, pure=pure)
        with self._checks.writing("limit") as granting:
            account = granting.account(self.dataset)
            layout, spent = account.layout, account.room(account.region(Scope())).spent
            if not Room(new, spent).fits() or (layout.redaction or 0.0) > new.limit:
                at = f" at delta {new.delta:.7g}" if new.delta else ""
                raise LedgerConflict(
                    f"a limit of {new.limit:.7g}{at} allows a DP level of {below(new.budget)}, but "
                    f"{_spent_words(highest(spent))} is already spent: what was released cannot be "
                    "taken back"
                )
            changed = {"limit": new.limit, "budget": new.budget}
            beside = {"delta": new.delta, "small": new.small, "pure": new.pure}
            self._append(granting, "limit", **changed, **(beside if new.delta else {}))
            granting.transaction.put_dataset(self.dataset, new, layout)

    def narrow(self, release_id: str) -> ChainBox:
        """Narrow the account to the region of a private fit, on record, and return the region.

        All levels spent so far, that of the fit among them, count under the region: given what the
        fit has published, fit and answers together change likelihoods by at most their sum
        (`undertow.releasing.private_fit`). The limit then holds unless the region misses the true
        chain, with the probability that was fixed when the fit was reserved. Once, by the first
        fit, in an account of records without a delta; refused where the region allows no more
        than the class stated beforehand.
        """
        old = self._terms()
        check_narrowing(old)
        found = self.entry(release_id)
        if found is None:
            raise LedgerConflict(f"nothing was reserved under the id {release_id!r}")
        fit = recorded_fit(found, old)
        first = next(entry for entry in self.entries() if "fit" in entry.about and entry.begun)
        if first.release_id != found.release_id:
            raise LedgerConflict(
                "only the first fit of an account narrows it: one chosen among several by what "
                "they show would miss more often than is said"
            )
        region = fit.region()
        described = loads(canonical(law_to_dict(region), "model"))
        budget = affordable(old, model_from_dict(described))
        if budget <= old.budget:
            raise LedgerConflict(
                f"under the region of the fit the limit allows a DP level of {below(budget)}, "
                f"under the class stated beforehand {below(old.budget)}: the account stays as it "
                "is; more records or a fit of a larger level would tell more"
            )
        new = replace(old, model=described, budget=budget, missed=1 - fit.confidence)
        with self._checks.writing("narrow") as granting:
            account = granting.account(self.dataset)
            if account.terms != old:
                raise LedgerConflict("the terms of the account have just changed; look at it again")
            entry = self._held(granting, found.release_id)
            changed = {"model": new.model, "budget": new.budget, "missed": new.missed}
            self._append(granting, "narrow", entry.release_id, **changed)
            granting.transaction.put_dataset(self.dataset, new, account.layout)
        self.model = believed(new)
        return region

    @property
    def narrowed(self) -> bool:
        """Whether a private fit has narrowed the account."""
        return self._terms().missed > 0

    def stated(self) -> AnyModel:
        """Return the model that was stated when the account was opened."""
        with self._checks.reading() as transaction:
            for event in transaction.events(self.dataset):
                if event.kind == "open":
                    return believed(Terms(**transaction.head.seal.content(event)["terms"]))
        raise LedgerDamaged(f"the terms of the data set {self.dataset!r} are lost")

    def plan(self, query: AnyQuery, level: float | None = None) -> "Plan[Any]":
        """Return the plan of an answer that spends ``level``, by default all that is left.

        For the ledger's model, adversary and unit; its limit is what it leaks by itself.
        """
        from undertow.planning.calibrate import plan_at_level

        wanted = self.left() if level is None else check_positive(level, "level")
        if not wanted:
            raise LedgerConflict("nothing is left in the account for a further answer")
        plan = plan_at_level(
            query, self.model, wanted, self.against, self.secret, accept=self.accepted
        )
        # what the whole account leaks under what a check suggests, a part of it does not exceed
        costs = {check.name: check.leakage for check in tested_of(self._terms()) if check.leakage}
        checks = [
            check.priced(0.0, costs[check.name][1]) if check.name in costs else check
            for check in plan.checks
        ]
        return replace(plan, checks=tuple(checks))

    def reserve(
        self,
        release_id: str,
        level: float | PureDP | Guarantee | None = None,
        scope: Scope | None = None,
        about: Mapping[str, Any] | None = None,
        *,
        mu: float | None = None,
        rho: float | None = None,
        delta: float | None = None,
        kind: Kind = "release",
        leakage: float | None = None,
        unit: Unit | None = None,
    ) -> Reservation:
        """Spend a DP level on the records in a scope; draw noise only after this returns.

        In an account with a delta also the ``mu`` of Gaussian differential privacy, the ``rho`` of
        zCDP, a ``delta`` beside a level; or a guarantee in place of the level, which says its own.
        The same id again, with the same level, scope and ``about``, changes nothing and returns
        what is recorded, so a release that was interrupted can be repeated: it is charged once.
        ``about`` describes the release (JSON, nothing private) and must not change when it is
        repeated. A redaction (``kind="redaction"``, ``level=None``) comes with its proved
        ``leakage``, and alone. Raises `BudgetExceeded` or `LedgerConflict` before anything is
        written, and `LedgerDamaged` where the ledger is not as it was written. Cost: the segments
        that the scope meets; the first time, or after another writer, all events.
        """
        beside = {"mu": mu, "rho": rho, "delta": delta}
        entry = request(release_id, level, scope, about, kind, leakage, beside)
        unit = getattr(level, "unit", None) if unit is None else unit
        if unit is not None:
            check_choice(unit, "unit", ("record", "person"))
        if unit == "record" and self.unit == "person":
            raise LedgerConflict(
                "this ledger hides all records of a person, the release hides one record: its "
                "level says nothing about a person; release with unit='person'"
            )
        with self._checks.writing("reserve") as granting:
            reservation = self._reserve(granting, entry)
        if reservation.result is not None:  # recorded by a process that was killed before it forgot
            self._forget_key(granting.transaction.head.id, entry.release_id)
        return reservation

    def begin(self, release_id: str) -> None:
        """Record that noise is about to be drawn for a release: it can no longer be cancelled.

        Once is enough, and a release with a recorded result has begun.
        """
        with self._checks.writing("begin") as granting:
            entry = self._held(granting, release_id)
            if not entry.begun:
                self._append(granting, "begin", entry.release_id)

    def cancel(self, release_id: str, why: str) -> None:
        """Give back, on record, what was reserved for a release that never began.

        The id is retired: nothing can be reserved under it again. Refused once noise may have
        been drawn (after `begin` or `confirm`): what was seen cannot be taken back.
        """
        reason = check_name(why, "the reason, which is recorded,")
        with self._checks.writing("cancel") as granting:
            entry = self._held(granting, release_id)
            if entry.begun:
                raise LedgerConflict(
                    f"the release {entry.release_id!r} has begun: noise may have been drawn and "
                    "seen, so its level stays spent; repeat it with the same id"
                )
            transaction, account = granting.transaction, granting.account(self.dataset)
            where, spend, layout = account.given_back(entry)
            granting.check_region(self.dataset, account, where)
            self._append(granting, "cancel", entry.release_id, why=reason)
            if spend:
                transaction.write(self.dataset, account.spends.changes(where, spend))
            if layout != account.layout:
                transaction.put_dataset(self.dataset, account.terms, layout)
        self._forget_key(transaction.head.id, entry.release_id)

    def confirm(self, release_id: str, result: dict[str, Any]) -> dict[str, Any]:
        """Record what a reserved release publishes, and return what is recorded: show only that.

        The first confirmation wins: a second one, from a repeated or concurrent run, gets the
        first one's result back.
        """
        return self.record(release_id, result)[0]

    def record(self, release_id: str, result: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Return what `confirm` does, and whether it is this one, not an equal one before it."""
        key = check_name(release_id, "release id")
        if not isinstance(result, dict):
            raise InvalidInput(f"the result must be a dictionary, found {type(result).__name__}")
        text = canonical(result, "result")
        with self._checks.writing("confirm") as granting:
            entry = self._held(granting, key)
            first = entry.result is None
            recorded: dict[str, Any] = loads(text) if entry.result is None else dict(entry.result)
            if first:
                self._append(granting, "confirm", key, result=recorded)
        self._forget_key(granting.transaction.head.id, key)
        return recorded, first

    def bind(self, identity: str) -> list[str]:
        """Remember the public shape that the data set is released with; return what to warn about.

        ``identity`` is a hash of the table's public shape. The same table under another data set,
        or in another ledger that the memory knows, has two budgets, and what is spent adds up.
        A table that has grown is another shape, and is remembered too.
        """
        name = check_name(identity, "the identity of the data")
        with self._checks.writing("shape") as granting:
            account = granting.account(self.dataset)
            if name not in account.shapes:
                self._append(granting, "shape", identity=name)
            here = [
                (other, self._store.place)
                for other, beside in sorted(granting.accounts.items())
                if other != self.dataset and name in beside.shapes
            ]
            elsewhere = self._checks.bound(granting.transaction, name, self.dataset)
        return [
            f"the same table was released as data set {other!r} in {place}: budgets of two "
            "accounts of the same records add up"
            for other, place in (*here, *elsewhere)
        ]

    def release_key(self, release_id: str) -> Key:
        """Return the secret key of a reserved release: the same to every run until it is recorded.

        What is drawn under it must be drawn under ``key.for_input(digest)``, with the `Digest` of
        the records: then the same records give the same outputs, and changed records other flips.
        `confirm` and `cancel` remove the key. With ``memory=False``, and where no file can be
        kept (a warning says so), every call returns another key.
        """
        name = check_name(release_id, "release id")
        self._forget_recorded()
        with self._store.reading() as transaction:
            self._account(transaction)
            entry, own = self._entry(transaction, name), transaction.head.id
        if entry is not None and entry.result is not None:
            raise released(name)
        if entry is None or entry.status != "reserved":
            raise LedgerConflict(
                f"nothing is reserved under the id {name!r}, so it has no key; reserve before "
                "drawing"
            )
        return self._keys.held(own, self.dataset, name)

    def _forget_recorded(self) -> None:
        """Remove the keys of releases that a killed process, or one elsewhere, has recorded.

        Of all data sets of the ledger, whenever one is opened and before a key is made. The key of
        a release that is not in the ledger stays: the ledger may be an older copy.
        """
        if not self._keys.any():
            return
        done: list[tuple[str, str]] = []
        with self._store.reading() as transaction:
            own, seal = transaction.head.id, transaction.head.seal
            for kept in self._keys.kept(own):
                with suppress(LedgerDamaged):  # reported when that release is used
                    found = entries_of(transaction.events(*kept), seal)
                    done += [kept for entry in found if entry.status != "reserved"]
        for dataset, release_id in done:
            self._keys.forget(own, dataset, release_id)
        self._keys.forget_wiped()

    def _forget_key(self, ledger: str, release_id: str) -> None:
        self._keys.forget(ledger, self.dataset, release_id)

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

    def _append(
        self, granting: Granting, kind: str, release_id: str | None = None, /, **body: Any
    ) -> str:
        """Append an event with the time of now, and return its hash."""
        return granting.transaction.append(self.dataset, kind, release_id, {**body, "at": _now()})

    def _held(self, granting: Granting, release_id: str) -> Entry:
        """Return the entry of a release that was reserved and not cancelled."""
        key = check_name(release_id, "release id")
        entry = self._recorded(granting, key)
        if entry is None:
            raise LedgerConflict(
                f"nothing was reserved under the id {key!r}; reserve before drawing noise"
            )
        if entry.status == "cancelled":
            raise LedgerConflict(f"the release {key!r} was cancelled; reserve under another id")
        return entry

    def _recorded(self, granting: Granting, release_id: str) -> Entry | None:
        """Return the entry of a release, which must be the one that was verified."""
        line = granting.account(self.dataset).lines.get(release_id)
        entry = self._entry(granting.transaction, release_id)
        if (None if line is None else line.hash) != (None if entry is None else entry.hash):
            raise LedgerDamaged(f"the entry of the release {release_id!r} is not as it was written")
        return entry

    def _reserve(self, granting: Granting, entry: Entry) -> Reservation:
        """Reserve inside a transaction; keeps segments and layout in step with the new event."""
        transaction, account = granting.transaction, granting.account(self.dataset)
        recorded = self._recorded(granting, entry.release_id)
        if recorded is not None:
            check_same(recorded, entry)
            result = None if recorded.result is None else dict(recorded.result)
            return Reservation(entry.release_id, result, recorded.hash, recorded.made)
        where = account.region(entry.scope)
        granting.check_region(self.dataset, account, where)
        account.check(entry, where)
        own = self._append(granting, "reserve", entry.release_id, **entry.body())
        if entry.spend is not None:
            transaction.write(self.dataset, account.spends.changes(where, entry.spend))
        after = settled(account.layout, entry, account.terms.unit, where)
        if after != account.layout:
            transaction.put_dataset(self.dataset, account.terms, after)
        return Reservation(entry.release_id, None, own)

    def _stored(self, *, created: bool = False) -> Terms | None:
        with self._checks.reading() as transaction:
            self._checks.look_around(created=created)
            account = transaction.dataset(self.dataset)
            return None if account is None else account[0]

    def _start(self, wanted: Mapping[str, Any], present: bool, create: bool) -> Terms:
        """Write the terms of a new data set, unless another process wrote them first."""
        if not create or wanted["model"] is None or wanted["limit"] is None:
            raise InvalidInput(
                f"there is no data set {self.dataset!r} in {self._store.place}"
                + ("; a new one needs a model and a limit" if create else "")
            )
        against: Named = wanted["against"] or "any"
        unit: Unit = wanted["unit"] or "record"
        described = model_from_dict(wanted["model"])
        limit, delta = wanted["limit"], wanted["delta"] or 0.0
        window = wanted["window"] or 1
        budget, small = allowance(limit, delta, described, against, unit, window)
        pure = _share(wanted["pure"] or 0.0, budget, delta)
        checks = wanted["checks"]
        if unit == "record":
            from undertow.planning.acceptance import priced_level

            checks = priced_level(checks, budget, against, window)
        tested = [replace(check, alternative=None).to_dict() for check in checks]
        terms = Terms(
            wanted["model"], limit, budget, against, unit, delta, small, pure, window,
            checks=loads(canonical({"checks": tested}, "checks"))["checks"],
            accepted=wanted["accepted"],
        )  # fmt: skip
        if not present:
            self._store.create()
            self._stored(created=True)
        with self._checks.writing("open") as granting:
            account = granting.transaction.dataset(self.dataset)
            if account is not None:
                return account[0]
            if self.dataset in granting.accounts:  # a second budget for the same records
                raise LedgerDamaged(f"the terms of the data set {self.dataset!r} are lost")
            self._append(granting, "open", terms=terms.to_dict())
            granting.transaction.put_dataset(self.dataset, terms, Layout())
        return terms


def _searched(
    terms: Terms, layout: Layout, scope: Scope
) -> tuple[tuple[str, ...] | None, int, int]:
    """Return the cells (None: all) and the window in which a scope has spent."""
    where = region(layout, scope, terms.unit)
    everything = where == region(layout, Scope(), terms.unit)
    return None if everything else where.seen, where.start, where.end


def datasets(where: str | os.PathLike[str]) -> list[str]:
    """Return the names of the data sets in a ledger, sorted."""
    store = Store(where)
    store.prepare(needed=True)
    with store.reading() as transaction:
        return sorted(transaction.datasets())


def forget(
    where: str | os.PathLike[str],
    *,
    key: bytes | str | os.PathLike[str] | None = None,
    memory: str | os.PathLike[str] | None = None,
) -> int:
    """Record that a ledger has lost events; return how many were remembered.

    For a ledger that was restored from an older copy: what was spent since then is not in it.
    """
    store = Store(where, read_key(key))
    store.prepare(needed=True)
    return Checks(store, memory_at(memory)).forget(_now())


def _admit(model: AnyModel, wanted: Mapping[str, Any], accept: Sequence[str]) -> None:
    """Refuse a model with a failed check that is not accepted, and say what there is to do."""
    from undertow.planning.acceptance import admit
    from undertow.planning.budget import level_trial

    limit, window = wanted["limit"] or 1.0, Window(wanted["window"] or 1)
    against: Named = wanted["against"] or "any"
    admit(model, accept, lambda: level_trial(model, limit, against, 0.0, window))


def _share(pure: float, budget: float, delta: float) -> float:
    """Return the level that is set aside, if there is something to set it aside from."""
    if pure and not delta:
        raise InvalidInput("without a delta all of the budget is for DP levels; leave pure out")
    if pure > budget:
        raise InvalidInput(
            f"a level of {pure:.7g} is to be set aside, and the limit allows {below(budget)}"
        )
    return pure


def _spent_words(spent: Spend) -> str:
    """Return what is spent for people, a level alone by its number."""
    return above(round_up(spent.level)) if spent.pure else spend_words(spent)


def _now() -> str:
    """Return the time for people to read; nothing depends on it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
