"""What composes and what it costs: pure rules, without database, clock or random number.

An entry is a DP level and the records it touches. Levels of the same record add up; the level of
a data set is the largest such sum, and only that number is exchanged for a leakage, once, under
the data set's model. Leakages are never added (they do not compose), and there is no function
here that could: entries hold levels.

Sums are exact (fractions); numbers that leave as floats are rounded to the safe side.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from json import dumps, loads
from json.encoder import encode_basestring_ascii
from typing import Any, Literal, NamedTuple

from undertow.data.scopes import HIGH, LOW, Scope
from undertow.errors import BudgetExceeded, InvalidInput, LedgerConflict
from undertow.mechanisms import Unit
from undertow.numerics import check_positive
from undertow.rounding import above, below

__all__ = [
    "REST",
    "Entry",
    "Kind",
    "Layout",
    "Region",
    "Segment",
    "Terms",
    "canonical",
    "check_beside",
    "check_fits",
    "check_same",
    "exact_level",
    "freed",
    "nothing",
    "overlay",
    "region",
    "round_down",
    "round_up",
    "settled",
]

REST = ""
"""The cell of all records whose group no entry has named yet."""

Kind = Literal["release", "redaction"]

_NOTHING = 1e-9
"""The part of a budget below which people are told that nothing is left."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a data set is accounted under; ``budget`` is the DP level for the leakage ``limit``."""

    model: dict[str, Any]
    limit: float
    budget: float
    against: Literal["any", "ignorant", "informed"]
    unit: Unit

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the account: a reserved (spent) or confirmed (spent and published) release.

    A release has a ``level``; a redaction has none and stands with the ``leakage`` proved for it.
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

    def body(self) -> dict[str, Any]:
        """Return what is asked for, JSON-ready: equal bodies are the same request."""
        return {
            "kind": self.kind, "level": self.level, "leakage": self.leakage,
            "scope": self.scope.to_dict(), "about": dict(self.about),
        }  # fmt: skip


class Segment(NamedTuple):
    """The exact spend of the records of one cell for start <= time < end."""

    start: int
    end: int
    level: Fraction


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
    """Where an entry adds its level: cells, of which ``fresh`` start as copies of the rest."""

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


def overlay(segments: Sequence[Segment], start: int, end: int, level: Fraction) -> list[Segment]:
    """Return the segments after adding a level (a negative one: giving it back) in a window.

    Keeps: sorted, disjoint, positive, and no two adjacent ones of the same level (so fifty-two
    weeks of one level are one segment). Only segments that meet or border the window
    start <= time < end are needed.

    >>> overlay([Segment(0, 7, Fraction(1))], 7, 14, Fraction(1))
    [Segment(start=0, end=14, level=Fraction(1, 1))]
    >>> overlay(overlay([], 0, 7, Fraction(1)), 0, 7, Fraction(-1))
    []
    """
    pieces: list[Segment] = []
    at = start  # the window is done up to here
    for old in segments:
        low, high = max(old.start, start), min(old.end, end)
        if old.start < start:  # what lies before the window stays
            pieces.append(Segment(old.start, min(old.end, start), old.level))
        if low < high:  # where nothing was spent yet, and where something was
            pieces += [Segment(at, low, level)] if at < low else []
            pieces.append(Segment(low, high, old.level + level))
            at = high
        if old.end > end:  # what lies after it stays
            pieces += [Segment(at, end, level)] if at < end else []
            pieces.append(Segment(max(old.start, end), old.end, old.level))
            at = end
    pieces += [Segment(at, end, level)] if at < end else []
    merged: list[Segment] = []
    for piece in pieces:
        if not piece.level:
            continue
        if piece.level < 0:
            raise ValueError("more would be given back than was spent")
        last = merged[-1] if merged else piece
        if last.end == piece.start and last.level == piece.level:  # one segment, not two
            merged[-1] = Segment(last.start, piece.end, last.level)
        else:
            merged.append(piece)
    return merged


def check_fits(spent: Fraction, entry: Entry, terms: Terms) -> None:
    """Refuse an entry that would bring records from ``spent`` beyond the budget: exact, no slack.

    For a redaction, which is the only entry there is, its own leakage must keep the limit.
    """
    if entry.level is None:
        if entry.leakage is not None and entry.leakage > terms.limit:
            raise BudgetExceeded(
                f"the redaction leaks up to {_brief(entry.leakage, above)}, the limit is "
                f"{_brief(terms.limit, below)}; plan it for the limit or less, or raise the limit "
                "with set_limit",
                left=0.0,
            )
        return
    if spent + Fraction(entry.level) > Fraction(terms.budget):
        left = round_down(Fraction(terms.budget) - spent)
        fits = (
            "nothing is left"
            if nothing(left, terms.budget)
            else f"a level of at most {_brief(left, below)} fits"
        )
        raise BudgetExceeded(
            f"the release needs a DP level of {_brief(entry.level, above)} on "
            f"{entry.scope.words()}, but {fits}: the limit {_brief(terms.limit, below)} allows a "
            f"level of {_brief(terms.budget, below)}, of which {_brief(round_up(spent), above)} is "
            "spent; release with more noise (a plan with method='exchange', or 'group' for "
            "Gaussian records, and no larger limit fits a fresh account), release other records, "
            "or raise the limit with set_limit",
            left=left,
        )


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
        "kind": entry.kind, "level": entry.level, "leakage": entry.leakage,
        "choice of groups": (scope.by, scope.groups),
        "window": (scope.start, scope.end, scope.clock),
    }  # fmt: skip
    return {**parts, **about, "source": read.pop("source", None)}, read, shape


def _keys(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names under which two descriptions differ."""
    return [k for k in {**one, **other} if one.get(k) != other.get(k) or (k in one) != (k in other)]


def nothing(left: float, budget: float) -> bool:
    """Return whether what is left is, in words, nothing: what rounding leaves over of a budget.

    For words only: whether a release fits is compared exactly.

    >>> nothing(3.6e-16, 0.25), nothing(1e-4, 0.25)
    (True, False)
    """
    return left < _NOTHING * budget


def canonical(value: Any, what: str) -> str:
    """Return the one JSON text of a value, or refuse what JSON would change.

    >>> canonical({"b": 0.1, "a": [1]}, "result")
    '{"a":[1],"b":0.1}'
    """
    try:
        text = dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
        same = loads(text) == value
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise InvalidInput(
            f"the {what} must be plain JSON that reads back as it was: dictionaries with texts as "
            "keys, lists, texts, finite numbers; write pairs as lists"
        )
    return text


def round_up(value: Fraction) -> float:
    """Return the least float that is not below a fraction.

    >>> Fraction(round_up(Fraction(1, 3))) > Fraction(1, 3), round_up(Fraction(1, 4))
    (True, 0.25)
    """
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def round_down(value: Fraction) -> float:
    """Return the largest float that is not above a fraction, and at least 0.

    >>> round_down(Fraction(1, 3)) < 1 / 3 + 1e-16, round_down(Fraction(-1))
    (True, 0.0)
    """
    return max(0.0, -round_up(-value))


def exact_level(level: Any) -> float:
    """Return a DP level as a float not below it, or refuse what is no level."""
    number = check_positive(level, "the DP level of a release")
    exact = hasattr(level, "as_integer_ratio")  # fractions, decimals, long floats
    return round_up(Fraction(*level.as_integer_ratio())) if exact else number


def _brief(value: float, rounded: Callable[[float], str]) -> str:
    """Return a number as it is if that is short, else with few digits, rounded to a side."""
    return repr(value) if len(repr(value)) <= 8 else rounded(value)
