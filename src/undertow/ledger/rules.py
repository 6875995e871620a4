"""What composes and what it costs: pure rules, without database, clock or random number.

An entry is what a release spends, a DP level, or the mu or rho of noise that has none, and the
records it touches. Spends of the same record add up; the level of a data set is the largest such
sum, and only that is exchanged for a leakage, once, under the data set's model. Leakages are never
added (they do not compose), and there is no function here that could: entries hold no leakages
but those of a redaction, which stands alone.

Sums are exact (fractions); numbers that leave as floats are rounded to the safe side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from json.encoder import encode_basestring_ascii
from typing import Any, Literal, NamedTuple

from undertow.data.scopes import HIGH, LOW, Scope
from undertow.errors import LedgerConflict
from undertow.ledger.amounts import NOTHING, Spend, round_up
from undertow.mechanisms import Unit
from undertow.numerics import check_positive

__all__ = [
    "REST",
    "Entry",
    "Kind",
    "Layout",
    "Region",
    "Segment",
    "Terms",
    "check_beside",
    "check_same",
    "exact_level",
    "freed",
    "overlay",
    "region",
    "settled",
    "without",
]

REST = ""
"""The cell of all records whose group no entry has named yet."""

Kind = Literal["release", "redaction"]


@dataclass(frozen=True, slots=True)
class Terms:
    """What a data set is accounted under; ``budget`` is the DP level for the leakage ``limit``.

    Where the limit is kept up to a ``delta``, ``small`` is the delta that goes with the budget:
    all that is (budget, small)-DP leaks at most (limit, delta). ``pure`` is the level that is set
    aside for releases that have one, also after noise without one has begun. ``window`` counts the
    records in a row whose history is not to leak more than the limit: no record spends more than
    the budget, and that is what all algorithms of this level leak about so many of them.
    ``missed`` is the probability with which the model, the region of a private fit, misses the true
    one; 0 where the model was stated. ``checks`` are what was tested of the model, each as in a
    file and without its alternative, and ``accepted`` the names of those that failed: the limit
    holds if the model is true all the same.
    """

    model: dict[str, Any]
    limit: float
    budget: float
    against: Literal["any", "ignorant", "informed"]
    unit: Unit
    delta: float = 0.0
    small: float = 0.0
    pure: float = 0.0
    window: int = 1
    missed: float = 0.0
    checks: Sequence[Mapping[str, Any]] = ()
    accepted: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Hold what was tested as tuples, however it was read."""
        object.__setattr__(self, "checks", tuple(self.checks))
        object.__setattr__(self, "accepted", tuple(self.accepted))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description; of the terms with a default, those that differ."""
        told = {name: getattr(self, name) for name in self.__slots__}
        left = () if self.delta else ("delta", "small", "pure")
        window = ("window",) if self.window == 1 else ()
        unsaid = (name for name in ("missed", "checks", "accepted") if not told[name])
        told |= {name: list(told[name]) for name in ("checks", "accepted")}
        return without(told, *left, *window, *unsaid)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the account: a reserved (spent) or confirmed (spent and published) release.

    A release has a ``level``, or the ``mu`` or ``rho`` of noise that has none; a ``delta`` beside
    these is that of a point guarantee. A redaction has none of them, and stands with the
    ``leakage`` proved for it.
    ``at`` is when it was reserved, ``made`` when its result was recorded. ``begun``: its noise may
    have been drawn. A cancelled entry spends nothing, and ``why`` says why.
    """

    release_id: str
    kind: Kind
    level: float | None
    leakage: float | None
    scope: Scope
    about: Mapping[str, Any]
    status: Literal["reserved", "confirmed", "cancelled"] = "reserved"
    result: Mapping[str, Any] | None = None
    at: str = ""
    hash: str = ""
    made: str | None = None
    begun: bool = False
    why: str | None = None
    mu: float | None = None
    rho: float | None = None
    delta: float | None = None

    @property
    def spend(self) -> Spend | None:
        """What it adds to the records it touches, None for a redaction."""
        if self.kind == "redaction":
            return None
        level = Fraction(self.level or 0)
        if not self.parts:
            return Spend(level)
        mu, rho, delta = (Fraction(part or 0) for part in (self.mu, self.rho, self.delta))
        return Spend(level, mu * mu, rho, delta)

    @property
    def parts(self) -> dict[str, float]:
        """What it has of mu, rho and delta: of most releases nothing."""
        named = {"mu": self.mu, "rho": self.rho, "delta": self.delta}
        return {name: part for name, part in named.items() if part is not None}

    def body(self) -> dict[str, Any]:
        """Return what is asked for, JSON-ready: equal bodies are the same request."""
        return {
            "kind": self.kind, "level": self.level, "leakage": self.leakage,
            "scope": self.scope.to_dict(), "about": dict(self.about), **self.parts,
        }  # fmt: skip


class Segment(NamedTuple):
    """The exact spend of the records of one cell for start <= time < end."""

    start: int
    end: int
    spend: Spend


@dataclass(frozen=True, slots=True)
class Layout:
    """What the entries so far have fixed: the partition, the clock, the cells that are apart."""

    by: str | None = None
    clock: str | None = None
    cells: tuple[str, ...] = (REST,)
    used: bool = False
    redaction: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "cells": [*self.cells]}


@dataclass(frozen=True, slots=True)
class Region:
    """Where an entry adds its spend: cells, of which ``fresh`` start as copies of the rest."""

    cells: tuple[str, ...]
    fresh: tuple[str, ...]
    start: int
    end: int

    @property
    def seen(self) -> tuple[str, ...]:
        """The stored cells that say what these records have spent."""
        fresh = set(self.fresh)
        stored = tuple(cell for cell in self.cells if cell not in fresh)
        return (*stored, REST) if self.fresh and REST not in stored else stored


def region(layout: Layout, scope: Scope, unit: Unit) -> Region:
    """Return the cells and the window that a scope touches: never less than the true records.

    Whatever cannot be told apart is touched: groups by a second column, windows on a second clock.
    With ``unit="person"`` an entry on any records of a person is an entry on the person, so every
    entry touches everything.

    >>> region(Layout(by="cohort"), Scope("sex", ["f"], 0, 7), "record")
    Region(cells=('',), fresh=(), start=0, end=7)
    """
    if unit == "person":
        return Region(layout.cells, (), LOW, HIGH)
    start, end = LOW, HIGH
    if layout.clock in (None, scope.clock):  # else every time is touched
        start = LOW if scope.start is None else scope.start
        end = HIGH if scope.end is None else scope.end
    if scope.groups is None or layout.by not in (None, scope.by):  # else every cell is
        return Region(layout.cells, (), start, end)
    cells = tuple(map(encode_basestring_ascii, scope.groups))  # JSON: never the empty text of REST
    stored = set(layout.cells)
    return Region(cells, tuple(cell for cell in cells if cell not in stored), start, end)


def settled(layout: Layout, entry: Entry, unit: Unit, where: Region | None = None) -> Layout:
    """Return the layout after an entry: the first partition and the first clock stay for good.

    ``where`` is its region, if that is known already.
    """
    scope, redaction = entry.scope, entry.leakage if entry.kind == "redaction" else None
    if unit == "person":
        return replace(layout, used=True, redaction=redaction)
    windowed = scope.start is not None or scope.end is not None
    by = layout.by if layout.by is not None or scope.groups is None else scope.by
    clock = layout.clock if layout.clock is not None or not windowed else scope.clock
    fresh = (where or region(layout, scope, unit)).fresh
    if layout.used and not fresh and (by, clock, redaction) == (layout.by, layout.clock, None):
        return layout
    return Layout(by, clock, (*layout.cells, *fresh), used=True, redaction=redaction)


def freed(layout: Layout, live: int) -> Layout:
    """Return the layout after a cancellation that leaves ``live`` entries; its cells stay apart.

    >>> freed(Layout(by="cohort", used=True), 0)
    Layout(by='cohort', clock=None, cells=('',), used=False, redaction=None)
    """
    return replace(layout, used=live > 0, redaction=None)


def overlay(segments: Sequence[Segment], start: int, end: int, spend: Spend) -> list[Segment]:
    """Return the segments after adding a spend (a negative one: giving it back) in a window.

    Keeps: sorted, disjoint, positive, and no two adjacent ones of the same spend (so fifty-two
    weeks of one level are one segment). Only segments that meet or border the window
    start <= time < end are needed.

    >>> one = Spend(Fraction(1))
    >>> overlay([Segment(0, 7, one)], 7, 14, one) == [Segment(0, 14, one)]
    True
    >>> overlay(overlay([], 0, 7, one), 0, 7, -one)
    []
    """
    pieces: list[Segment] = []
    first = NOTHING + spend  # where nothing was spent yet
    at = start  # the window is done up to here
    for old in segments:
        low, high = max(old.start, start), min(old.end, end)
        if old.start < start:  # what lies before the window stays
            pieces.append(Segment(old.start, min(old.end, start), old.spend))
        if low < high:  # where nothing was spent yet, and where something was
            pieces += [Segment(at, low, first)] if at < low else []
            pieces.append(Segment(low, high, old.spend + spend))
            at = high
        if old.end > end:  # what lies after it stays
            pieces += [Segment(at, end, first)] if at < end else []
            pieces.append(Segment(max(old.start, end), old.end, old.spend))
            at = end
    pieces += [Segment(at, end, first)] if at < end else []
    merged: list[Segment] = []
    for piece in pieces:
        if not piece.spend:
            continue
        if piece.spend.negative:
            raise ValueError("more would be given back than was spent")
        last = merged[-1] if merged else piece
        if last.end == piece.start and last.spend == piece.spend:  # one segment, not two
            merged[-1] = Segment(last.start, piece.end, last.spend)
        else:
            merged.append(piece)
    return merged


def check_beside(layout: Layout, entry: Entry) -> None:
    """Refuse a redaction beside anything and anything beside a redaction."""
    if layout.redaction is not None or (entry.kind == "redaction" and layout.used):
        found = "a redaction" if layout.redaction is not None else "other releases"
        raise LedgerConflict(
            f"the data set already has {found}: a redaction shows which records were erased and "
            "has no finite DP level, so nothing certified can be said about it together with any "
            "other release of the same records; a redacted data set has one release"
        )


def check_same(found: Entry, wanted: Entry) -> None:
    """Refuse a release id that was used for something else: it would get another's answer."""
    if found.status == "cancelled":
        raise LedgerConflict(
            f"the release id {found.release_id!r} was cancelled and is retired; use another id"
        )
    if found.body() != wanted.body():
        changed = _differences(found, wanted) or ["description"]
        raise LedgerConflict(
            f"the release id {found.release_id!r} is taken by a release with another "
            f"{' and another '.join(changed)}; repeat that one unchanged, or use a new id"
        )


def _differences(found: Entry, wanted: Entry) -> list[str]:
    """Return in words what two requests differ in; values stay out of it."""
    (one, read, shape), (other, reread, reshaped) = _parts(found), _parts(wanted)
    nested = {
        "meaning of the columns": _keys(read, reread),
        "shape of the data": _keys(shape, reshaped),
    }
    said = [f"{what} ({', '.join(keys)})" for what, keys in nested.items() if keys]
    return [*_keys(one, other), *said]


def _parts(entry: Entry) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return what is asked under the names of its parts, how it is read, and the public shape."""
    about, scope = dict(entry.about), entry.scope
    read, shape = (dict(about.pop(name, None) or {}) for name in ("asked", "shape"))
    parts = {
        "kind": entry.kind, "level": entry.level, "leakage": entry.leakage, **entry.parts,
        "choice of groups": (scope.by, scope.groups),
        "window": (scope.start, scope.end, scope.clock),
    }  # fmt: skip
    return {**parts, **about, "source": read.pop("source", None)}, read, shape


def _keys(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names under which two descriptions differ."""
    return [k for k in {**one, **other} if one.get(k) != other.get(k) or (k in one) != (k in other)]


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a description without some of its names.

    >>> without({"limit": 1.0, "delta": 0.0}, "delta")
    {'limit': 1.0}
    """
    return {name: value for name, value in fields.items() if name not in names}


def exact_level(level: Any, what: str = "the DP level of a release") -> float:
    """Return a DP level as a float not below it, or refuse what is no level."""
    number = check_positive(level, what)
    exact = hasattr(level, "as_integer_ratio")  # fractions, decimals, long floats
    return round_up(Fraction(*level.as_integer_ratio())) if exact else number
