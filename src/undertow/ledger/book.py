"""The ledger as its users see it: one data set, its limit, and what was released from it."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from json import loads
from typing import Any, Literal

from undertow.certificate import Leakage
from undertow.errors import (
    InvalidInput,
    LedgerConflict,
    LedgerDamaged,
    LedgerUnavailable,
)
from undertow.ledger.currency import budget_of, exchanged
from undertow.ledger.events import Event
from undertow.ledger.replay import entry_of, verified
from undertow.ledger.rules import (
    REST,
    Entry,
    Kind,
    Layout,
    Segment,
    Terms,
    canonical,
    check_beside,
    check_fits,
    check_same,
    exact_level,
    overlay,
    region,
    round_down,
    settled,
)
from undertow.ledger.scopes import Scope, as_scope, check_name
from undertow.ledger.store import Store, Transaction
from undertow.mechanisms import Unit
from undertow.models.sets import AnyModel, model_from_dict
from undertow.numerics import check_positive
from undertow.rounding import above, below

__all__ = ["Ledger", "Reservation", "datasets"]

Named = Literal["any", "ignorant", "informed"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A level that is spent for one release; ``result`` is what it published, None if nothing yet.

    ``entry_hash`` names the entry for good: `Ledger.verify` finds it again.
    """

    release_id: str
    result: dict[str, Any] | None
    entry_hash: str


class Ledger:
    """The account of everything released from one data set.

    The budget is ``dp_budget(model, limit, against)``, computed once and rounded down; where the
    unit is a person it is the limit itself. Invariant: for every record, the DP levels of the
    entries that touch it add up to at most the budget, whoever writes, crashes or races. An entry
    counts as soon as it is reserved.

    Parameters
    ----------
    where
        A file name (SQLite) or an address ``postgresql://user@host/database``.
    dataset
        The name of the data set. A ledger holds any number of them.
    model, limit
        How the records depend on each other, and the leakage that all releases together may
        reach. Required for a new data set; an existing one keeps its own, and refuses others.
    against, unit
        The adversary covered, by default ``"any"``, and whether one record or all records of one
        person are hidden, by default ``"record"``.
    create
        Whether a missing ledger or data set is created.

    >>> import tempfile
    >>> from undertow import MarkovChain
    >>> from undertow.ledger.scopes import Scope
    >>> folder = tempfile.TemporaryDirectory()
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], states=("inactive", "active"))
    >>> ledger = Ledger(f"{folder.name}/year.db", "w25", model=chain, limit=1.0)
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
        against: Named | None = None,
        unit: Unit | None = None,
        create: bool = True,
    ) -> None:
        """Open the account, or start it; a refusal leaves everything as it was."""
        self.dataset = check_name(dataset, "the name of the data set")
        wanted = _wanted(model, limit, against, unit)
        self._store = Store(where)
        present = self._store.prepare()
        if not present and not create:
            raise LedgerUnavailable(f"{self._store.place} does not exist")
        terms = self._stored() if present else None
        if terms is None:
            terms = self._start(wanted, present, create)
        _check_terms(self.dataset, terms, wanted)
        self.model: AnyModel = model_from_dict(terms.model)
        self.against: Named = terms.against
        self.unit: Unit = terms.unit

    def __repr__(self) -> str:
        return f"Ledger({self._store.place!r}, dataset={self.dataset!r})"

    @property
    def limit(self) -> float:
        """The leakage that all releases together may reach."""
        return self._state(None)[0].limit

    @property
    def budget(self) -> float:
        """The DP level that the limit allows every record."""
        return self._state(None)[0].budget

    def level(self, scope: object = None) -> float:
        """Return the largest sum of DP levels over the records in a scope, rounded up.

        Sums entries, reserved ones included; inf for a redacted data set. A few index reads for
        the whole data set; for a window, linear in the segments inside it.
        """
        return self._state(scope)[2]

    def left(self, scope: object = None) -> float:
        """Return a DP level that still fits all records in a scope: budget - level, rounded down.

        If nobody writes in between, ``reserve`` accepts exactly this level.
        """
        terms, _, level = self._state(scope)
        return 0.0 if math.isinf(level) else round_down(Fraction(terms.budget) - Fraction(level))

    def leakage(self) -> Leakage:
        """Return what all releases together leak: the level, exchanged once under the model."""
        _, layout, level = self._state(None)
        if layout.redaction is not None:
            return Leakage(0.0, layout.redaction, "redaction", self.against)
        if not level:
            return Leakage(0.0, 0.0, "nothing was released", self.against)
        return exchanged(level, self.model, self.against, self.unit)

    def entries(self) -> list[Entry]:
        """Return all entries in the order in which they were reserved."""
        with self._store.reading() as transaction:
            self._account(transaction)
            return _entries(transaction.events(self.dataset))

    def entry(self, release_id: str) -> Entry | None:
        """Return the entry of a release, None if nothing was reserved for it."""
        with self._store.reading() as transaction:
            self._account(transaction)
            found = _entries(transaction.events(self.dataset, check_name(release_id, "release id")))
        return found[0] if found else None

    def verify(self, *holding: str) -> int:
        """Return the number of events in the ledger (all data sets), or raise `LedgerDamaged`.

        Checks the hash chain, the numbering, every rule at every step, and that all derived tables
        follow from the events. ``holding``: hashes of entries from printed reports, which must be
        in the chain. Linear in the number of events.
        """
        with self._store.reading() as transaction:
            return verified(transaction, holding)

    def set_limit(self, limit: float) -> None:
        """Change the limit, and record the change; it cannot fall below what is already spent."""
        new = replace(self._state(None)[0], limit=check_positive(limit, "the limit"))
        new = replace(new, budget=budget_of(new.limit, self.model, new.against, new.unit))
        with self._store.writing("limit") as transaction:
            _, layout = self._account(transaction)
            level = transaction.highest(self.dataset, None, 0, 0)
            if level > new.budget or (layout.redaction or 0.0) > new.limit:
                raise LedgerConflict(
                    f"a limit of {new.limit:.7g} allows a DP level of {below(new.budget)}, but "
                    f"{above(level)} is already spent: what was released cannot be taken back"
                )
            body = {"limit": new.limit, "budget": new.budget, "at": _now()}
            transaction.append(self.dataset, "limit", None, body)
            transaction.put_dataset(self.dataset, new, layout)

    def reserve(
        self,
        release_id: str,
        level: float | None,
        scope: object = None,
        about: Mapping[str, Any] | None = None,
        *,
        kind: Kind = "release",
        leakage: float | None = None,
        unit: Unit | None = None,
    ) -> Reservation:
        """Spend a DP level on the records in a scope; draw noise only after this returns.

        The same id again, with the same level, scope and ``about``, changes nothing and returns
        what is recorded, so a release that was interrupted can be repeated: it is charged once.
        ``about`` describes the release (JSON, nothing private) and must not change when it is
        repeated. A redaction (``kind="redaction"``, ``level=None``) comes with its proved
        ``leakage``, and alone. Raises `BudgetExceeded` or `LedgerConflict` before anything is
        written. Cost: the segments that the scope meets.
        """
        entry = _request(release_id, level, scope, about, kind, leakage)
        if unit not in (None, "record", "person"):
            raise InvalidInput(f"unit must be 'record' or 'person', found {unit!r}")
        if unit == "record" and self.unit == "person":
            raise LedgerConflict(
                "this ledger hides all records of a person, the release hides one record: its "
                "level says nothing about a person; release with unit='person'"
            )
        with self._store.writing("reserve") as transaction:
            return self._reserve(transaction, entry)

    def confirm(self, release_id: str, result: dict[str, Any]) -> dict[str, Any]:
        """Record what a reserved release publishes, and return what is recorded: show only that.

        The first confirmation wins: a second one, from a repeated or concurrent run, gets the
        first one's result back.
        """
        key = check_name(release_id, "release id")
        if not isinstance(result, dict):
            raise InvalidInput(f"the result must be a dictionary, found {type(result).__name__}")
        text = canonical(result, "result")
        with self._store.writing("confirm") as transaction:
            self._account(transaction)
            found = _entries(transaction.events(self.dataset, key))
            if not found:
                raise LedgerConflict(
                    f"nothing was reserved under the id {key!r}; reserve before drawing noise"
                )
            if found[0].result is not None:
                return dict(found[0].result)
            body = {"result": loads(text), "at": _now()}
            transaction.append(self.dataset, "confirm", key, body)
        recorded: dict[str, Any] = loads(text)
        return recorded

    def _reserve(self, transaction: Transaction, entry: Entry) -> Reservation:
        """Reserve inside a transaction; keeps segments and layout in step with the new event."""
        terms, layout = self._account(transaction)
        found = _entries(transaction.events(self.dataset, entry.release_id))
        if found:
            check_same(found[0], entry)
            result = found[0].result
            return Reservation(
                entry.release_id, None if result is None else dict(result), found[0].hash
            )
        check_beside(layout, entry)
        where = region(layout, entry.scope, terms.unit)
        lines: dict[str, list[Segment]] = {
            cell: transaction.segments(self.dataset, cell, where.start, where.end)
            for cell in where.seen
        }
        spent = [
            segment.level
            for line in lines.values()
            for segment in line
            if segment.start < where.end and segment.end > where.start
        ]
        check_fits(max(spent, default=Fraction(0)), entry, terms)
        body = {**entry.body(), "at": _now()}
        own = transaction.append(self.dataset, "reserve", entry.release_id, body)
        if entry.level is not None:
            for cell in where.fresh:
                transaction.copy_cell(self.dataset, REST, cell)
            for cell in where.cells:
                old = lines[cell if cell in lines else REST]
                new = overlay(old, where.start, where.end, Fraction(entry.level))
                transaction.replace_segments(self.dataset, cell, old, new)
        after = settled(layout, entry, terms.unit)
        if after != layout:
            transaction.put_dataset(self.dataset, terms, after)
        return Reservation(entry.release_id, None, own)

    def _state(self, scope: object) -> tuple[Terms, Layout, float]:
        """Return terms, layout and the level in a scope, all of one moment."""
        wanted = as_scope(scope)
        with self._store.reading() as transaction:
            terms, layout = self._account(transaction)
            if layout.redaction is not None:
                return terms, layout, math.inf
            where = region(layout, wanted, terms.unit)
            everything = where == region(layout, Scope(), terms.unit)
            cells = None if everything else where.seen
            level = transaction.highest(self.dataset, cells, where.start, where.end)
            return terms, layout, level

    def _stored(self) -> Terms | None:
        with self._store.reading() as transaction:
            found = transaction.dataset(self.dataset)
            return None if found is None else found[0]

    def _account(self, transaction: Transaction) -> tuple[Terms, Layout]:
        found = transaction.dataset(self.dataset)
        if found is None:
            raise LedgerDamaged(f"the data set {self.dataset!r} is no longer in the ledger")
        return found

    def _start(self, wanted: Mapping[str, Any], present: bool, create: bool) -> Terms:
        """Write the terms of a new data set; whoever comes second gets the first one's."""
        if not create or wanted["model"] is None or wanted["limit"] is None:
            raise InvalidInput(
                f"there is no data set {self.dataset!r} in {self._store.place}"
                + ("; a new one needs a model and a limit" if create else "")
            )
        terms = Terms(
            model=wanted["model"],
            limit=wanted["limit"],
            budget=0.0,
            against=wanted["against"] or "any",
            unit=wanted["unit"] or "record",
        )
        described = model_from_dict(terms.model)
        budget = budget_of(terms.limit, described, terms.against, terms.unit)
        terms = replace(terms, budget=budget)
        if not present:
            self._store.create()
        with self._store.writing("open") as transaction:
            found = transaction.dataset(self.dataset)
            if found is not None:
                return found[0]
            if any(transaction.events(self.dataset)):  # a second budget for the same records
                raise LedgerDamaged(f"the terms of the data set {self.dataset!r} are lost")
            body = {"terms": terms.to_dict(), "at": _now()}
            transaction.append(self.dataset, "open", None, body)
            transaction.put_dataset(self.dataset, terms, Layout())
        return terms


def datasets(where: str | os.PathLike[str]) -> list[str]:
    """Return the names of the data sets in a ledger, sorted."""
    store = Store(where)
    if not store.prepare():
        raise LedgerUnavailable(f"{store.place} does not exist")
    with store.reading() as transaction:
        return sorted(transaction.datasets())


def _wanted(model: Any, limit: Any, against: Any, unit: Any) -> dict[str, Any]:
    """Return the terms that were passed, checked; None where nothing was."""
    if against not in (None, "any", "ignorant", "informed"):
        raise InvalidInput("a ledger is kept against 'any', 'ignorant' or 'informed'")
    if unit not in (None, "record", "person"):
        raise InvalidInput(f"unit must be 'record' or 'person', found {unit!r}")
    description = None
    if model is not None:
        if not isinstance(model, AnyModel):
            raise InvalidInput(f"a model is required, found {type(model).__name__}")
        description = loads(canonical(model.to_dict(), "model"))
    checked = None if limit is None else check_positive(limit, "the limit")
    return {"model": description, "limit": checked, "against": against, "unit": unit}


def _check_terms(dataset: str, terms: Terms, wanted: Mapping[str, Any]) -> None:
    """Refuse terms other than the stored ones: two sets of terms would be two promises."""
    reasons = {
        "model": "another model: levels are exchanged once, under one model. Open it without one",
        "limit": f"the limit {terms.limit:.7g}. Open it without one, then use set_limit",
        "against": f"the adversary {terms.against!r}; open it without naming one",
        "unit": f"the unit {terms.unit!r}; open it without naming one",
    }
    for name, reason in reasons.items():
        if wanted[name] is not None and wanted[name] != getattr(terms, name):
            raise LedgerConflict(f"the data set {dataset!r} is kept under {reason}")


def _request(
    release_id: str, level: Any, scope: object, about: Any, kind: str, leakage: Any
) -> Entry:
    """Return what is asked for, checked, or refuse what is no level."""
    key, where = check_name(release_id, "release id"), as_scope(scope)
    if about is not None and not isinstance(about, Mapping):
        raise InvalidInput(f"about must be a dictionary, found {type(about).__name__}")
    said = loads(canonical(dict(about or {}), "description in about"))
    if kind == "redaction":
        if level is not None and level != math.inf:
            raise InvalidInput("a redaction has no finite DP level; pass level=None")
        return Entry(key, "redaction", None, check_positive(leakage, "its leakage"), where, said)
    if kind != "release" or leakage is not None:
        raise InvalidInput(
            "an entry is a 'release' with a DP level or a 'redaction' with a leakage; leakages of "
            "releases are not added, they do not compose"
        )
    return Entry(key, "release", exact_level(level), None, where, said)


def _entries(events: Any) -> list[Entry]:
    """Return the entries among the events of a data set, each with its confirmation."""
    reserved: dict[str | None, Event] = {}
    confirmed: dict[str | None, dict[str, Any]] = {}
    for event in events:
        if event.kind == "reserve":
            reserved[event.release_id] = event
        elif event.kind == "confirm":
            confirmed[event.release_id] = event.content()
    return [entry_of(one, one.content(), confirmed.get(key)) for key, one in reserved.items()]


def _now() -> str:
    """Return the time for people to read; nothing depends on it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
