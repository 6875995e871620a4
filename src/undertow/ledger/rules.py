"""Composition rules of the account: pure functions, without database, clock or random number.

An entry is what a release spends, a DP level, or the mu or rho of noise that has none, and the
records it touches. Spends of the same record add up; the level of a data set is the largest such
sum, and only that is exchanged for a leakage, once, under the data set's model. Leakages are never
added (they do not compose), and there is no function here that could: entries hold no leakages
but those of a redaction, which stands alone.

Sums are exact (fractions); numbers that leave as floats are rounded to the safe side.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np

from undertow.adversaries import Against
from undertow.curves import ConcentratedCurve, Curve, GaussianCurve, LargestCurve
from undertow.data.scopes import HIGH, LOW, Scope
from undertow.errors import BudgetExceeded, LedgerConflict, NothingToProtect, NotSupported
from undertow.ledger.amounts import NOTHING, Spend, highest, root_up, round_down, round_up
from undertow.mechanisms import DiscreteLaplace, MetricDP, PureDP, Unit
from undertow.models.fitting.checks import Check, private_checks, worst_of
from undertow.models.fitting.private import PrivateFit
from undertow.models.records import RecordDescription, weakest
from undertow.models.sets import AnyModel, model_from_dict
from undertow.numerics import check_positive, down, up
from undertow.queries import Transitions
from undertow.rounding import above, below
from undertow.secrets import Person, Window

if TYPE_CHECKING:
    from undertow.certificate import Leakage

__all__ = [
    "REST",
    "Entry",
    "Kind",
    "Layout",
    "Region",
    "Room",
    "Segment",
    "SpendCurve",
    "Terms",
    "affordable",
    "allowance",
    "believed",
    "budget_of",
    "check_beside",
    "check_narrowing",
    "check_same",
    "exact_level",
    "exchanged",
    "exchanged_at_delta",
    "freed",
    "gradual_spread",
    "nothing",
    "overlay",
    "recorded_fit",
    "region",
    "settled",
    "spend_words",
    "tested_of",
    "without",
]


REST = ""
"""The cell of all records whose group no entry has named yet."""

Kind = Literal["release", "redaction"]


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of an account; ``budget`` is the DP level for the leakage ``limit``.

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
        fields = {name: getattr(self, name) for name in self.__slots__}
        left = () if self.delta else ("delta", "small", "pure")
        window = ("window",) if self.window == 1 else ()
        unsaid = (name for name in ("missed", "checks", "accepted") if not fields[name])
        fields |= {name: list(fields[name]) for name in ("checks", "accepted")}
        return without(fields, *left, *window, *unsaid)


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
        """Spend added to the records it touches, None for a redaction."""
        if self.kind == "redaction":
            return None
        level = Fraction(self.level or 0)
        if not self.parts:
            return Spend(level)
        mu, rho, delta = (Fraction(part or 0) for part in (self.mu, self.rho, self.delta))
        return Spend(level, mu * mu, rho, delta)

    @property
    def parts(self) -> dict[str, float]:
        """Spend in mu, rho and delta; zero for most releases."""
        named = {"mu": self.mu, "rho": self.rho, "delta": self.delta}
        return {name: part for name, part in named.items() if part is not None}

    def body(self) -> dict[str, Any]:
        """Return the JSON-ready body of the request: equal bodies are the same request."""
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
    """Conventions fixed by earlier entries: the partition, the clock, the separate cells."""

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
    """Cells to which an entry adds its spend; ``fresh`` ones start as copies of the rest."""

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
        others = "a redaction" if layout.redaction is not None else "other releases"
        raise LedgerConflict(
            f"the data set already has {others}: a redaction shows which records were erased and "
            "has no finite DP level, so nothing certified can be said about it together with any "
            "other release of the same records; a redacted data set has one release"
        )


def check_same(recorded: Entry, wanted: Entry) -> None:
    """Refuse a release id that was used for something else: it would get another's answer."""
    if recorded.status == "cancelled":
        raise LedgerConflict(
            f"the release id {recorded.release_id!r} was cancelled and is retired; use another id"
        )
    if recorded.body() != wanted.body():
        changed = _differences(recorded, wanted) or ["description"]
        raise LedgerConflict(
            f"the release id {recorded.release_id!r} is taken by a release with another "
            f"{' and another '.join(changed)}; repeat that one unchanged, or use a new id"
        )


def _differences(recorded: Entry, wanted: Entry) -> list[str]:
    """Return in words what two requests differ in; values stay out of it."""
    (one, read, shape), (other, reread, reshaped) = _parts(recorded), _parts(wanted)
    nested = {
        "meaning of the columns": _keys(read, reread),
        "shape of the data": _keys(shape, reshaped),
    }
    changes = [f"{what} ({', '.join(keys)})" for what, keys in nested.items() if keys]
    return [*_keys(one, other), *changes]


def _parts(entry: Entry) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the parts of a request by name: how records are read, and the public shape."""
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


@runtime_checkable
class _Rational(Protocol):
    """A number that is a quotient of integers: a float, long or not, a fraction or a decimal."""

    def as_integer_ratio(self) -> tuple[int, int]:
        """Return the integers."""


def exact_level(level: Any, what: str = "the DP level of a release") -> float:
    """Return a DP level as a float not below it, or refuse what is no level."""
    number = check_positive(level, what)
    exact = isinstance(level, _Rational)
    return round_up(Fraction(*level.as_integer_ratio())) if exact else number


_NOTHING = 1e-9
"""Share of a budget below which nothing is reported to be left."""

_FAINT = 1e-5
"""The part of a budget below which people are told that no mu is left: nobody wants that noise."""

_AGAIN = Fraction(1, 2**20)
"""Share of the small delta by which a grant of another machine may seem to exceed it when its event
is replayed (upper side): logarithms differ there in the last digits. Nothing is granted by it."""

_LOUD = 30.0
"""A rho beyond which a delta is taken to be 1 (upper side)."""

_MOST = 10.0
"""A mu or rho beyond which nobody asks what is left."""

_FINE = 1e-15
"""Relative width at which the search for what is left ends (lower side)."""


@lru_cache(maxsize=4096)
def _noise_delta(squares: Fraction, rho: Fraction, dense: bool, left: float) -> float:
    """Return the delta at a level of GDP alone, or of zCDP and GDP together, rounded up."""
    if not squares and not rho:
        return 0.0
    both = round_up(rho + squares / 2)
    if both > _LOUD:
        return 1.0
    if rho or dense:
        return ConcentratedCurve(both).delta(left)
    return GaussianCurve(root_up(squares)).delta(left)


def _delta(spend: Spend, left: Fraction) -> Fraction:
    """Return the deltas of a spend, and that of its noise at a level; only the curve is rounded."""
    noise = _noise_delta(spend.squares, spend.rho, spend.dense, round_down(left))
    return max(spend.delta, spend.rare) + Fraction(noise)


@dataclass(frozen=True, slots=True)
class SpendCurve(Curve):
    """All that was released of a record, as one guarantee: delta for each epsilon, rounded up.

    >>> SpendCurve(Spend(Fraction(1, 4), delta=Fraction(1, 8))).delta(.25)
    0.125
    """

    spend: Spend

    def delta(self, epsilon: float) -> float:
        """Return the sum of deltas, and that of the noise at what the levels leave of epsilon."""
        left = Fraction(epsilon) - self.spend.level
        return 1.0 if left < 0 else min(1.0, round_up(_delta(self.spend, left)))

    def corners(self) -> tuple[float, ...]:
        """Return the level of a spend without noise, which is the one where it says something."""
        return () if self.spend.noisy else (round_up(self.spend.level),)


@dataclass(frozen=True, slots=True)
class Room:
    """The terms of an account, and what the most used of some records have spent under them.

    ``spent``: spends of which none covers another (`undertow.ledger.amounts.worst`).

    >>> terms = Terms({}, 1.0, 0.25, "any", "record", delta=1e-6, small=1.65e-7)
    >>> room = Room(terms, (Spend(Fraction(1, 8)),))
    >>> room.left(), round(1 / room.left_mu(), 2)
    (0.125, 32.62)
    """

    terms: Terms
    spent: tuple[Spend, ...] = ()

    def fits(self, more: Spend = NOTHING, *, again: bool = False) -> bool:
        """Return whether all these records may spend more: levels exactly, without slack.

        ``again``: where an event is replayed that was granted once, see `_AGAIN`.
        """
        return all(self._fits(spend, more, again) for spend in self.spent or (NOTHING,))

    def _fits(self, spent: Spend, more: Spend, again: bool) -> bool:
        total, budget = spent + more, Fraction(self.terms.budget)
        if total.pure or total.level > budget:
            return total.level <= budget
        if not self.terms.delta or self._too_late(spent, more):
            return False
        most = self._most(total)
        small = Fraction(self.terms.small) * (1 + (_AGAIN if again else 0))
        return total.level <= most and _delta(total, budget - most) <= small

    def _most(self, spend: Spend) -> Fraction:
        """Return the level that levels may reach in all: c, where there is noise."""
        return max(spend.held, Fraction(self.terms.pure if spend.noisy else self.terms.budget))

    @staticmethod
    def _too_late(spent: Spend, more: Spend) -> bool:
        """Return whether what was fixed when noise began leaves no place for more of a kind."""
        return spent.noisy and bool(more.delta or (more.rho and not spent.dense))

    def after(self, more: Spend) -> "Room":
        """Return the room when more is spent on all these records."""
        return replace(self, spent=tuple(spend + more for spend in self.spent or (NOTHING,)))

    def left(self) -> float:
        """Return a DP level that fits all these records, rounded down."""
        top = round_down(min(self._most(spend) - spend.level for spend in self.spent or (NOTHING,)))
        return self._largest(lambda level: Spend(Fraction(level)), top)

    def left_mu(self) -> float:
        """Return a mu of GDP that fits all these records, rounded down: 1 / sigma of noise."""
        return self._largest(lambda mu: Spend(squares=Fraction(mu) ** 2), _MOST)

    def least_sigma(self) -> float | None:
        """Return the sigma of Gaussian noise, per unit of sensitivity, that fits; None for none."""
        mu = self.left_mu() if self.terms.delta else 0.0
        return up(1 / mu) if mu > _FAINT * self.terms.budget else None

    def left_rho(self) -> float:
        """Return a rho of zCDP that fits all these records, rounded down."""
        return self._largest(lambda rho: Spend(rho=Fraction(rho)), _MOST)

    def _largest(self, spend: Callable[[float], Spend], top: float) -> float:
        """Return the largest number up to ``top`` whose spend fits, by bisection; 0 for none."""
        if not top or self.fits(spend(top)):
            return top
        low, high = 0.0, min(top, self.terms.budget)
        while self.fits(spend(high)):
            low, high = high, 2 * high
        while high - low > _FINE * high and high > _NOTHING * _FINE * self.terms.budget:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if self.fits(spend(middle)) else (low, middle)
        return low

    def check(self, entry: Entry, *, again: bool = False) -> None:
        """Refuse an entry that would bring a record beyond the budget, and say what would not.

        For a redaction, which is the only entry there is, its own leakage must keep the limit.
        """
        wanted = entry.spend
        if wanted is None:
            self._check_redaction(entry)
        elif not wanted.pure and not self.terms.delta:
            raise LedgerConflict(
                f"the release spends {spend_words(wanted)}, which is no DP level: rare outputs of "
                "it tell two values apart, and this account is kept without a delta, which says "
                "how rare may be ignored; give it one with set_limit(limit, delta=1e-6), open an "
                "account with a delta, or release with Laplace noise"
            )
        elif not self.fits(wanted, again=again):
            left = self.left()
            raise BudgetExceeded(self._refusal(entry, wanted, left), left=left)

    def _check_redaction(self, entry: Entry) -> None:
        if self.terms.window > 1:
            raise LedgerConflict(
                f"the account protects the history of {self.terms.window} records in a row, and "
                "what a redaction leaks is known for one record; keep another account for it"
            )
        if entry.leakage is not None and entry.leakage > self.terms.limit:
            raise BudgetExceeded(
                f"the redaction leaks up to {_brief(entry.leakage, above)}, the limit is "
                f"{_brief(self.terms.limit, below)}; plan it for the limit or less, or raise the "
                "limit with set_limit",
                left=0.0,
            )

    def _refusal(self, entry: Entry, wanted: Spend, left: float) -> str:
        terms, spent = self.terms, highest(self.spent)
        limit = _brief(terms.limit, below)
        allows = f"a level of {_brief(terms.budget, below)}"
        used = _brief(round_up(spent.level), above)
        if terms.delta:
            limit += f" at delta {_brief(terms.delta, below)}"
            allows += f" and a delta of {_brief(terms.small, below)} beside it"
            used = spend_words(spent)
        plan = "method='exchange', or 'group' for Gaussian records, and no larger limit"
        if not wanted.pure:
            plan = "method='closed' and no larger limit, for all such releases together,"
        return (
            f"the release needs {spend_words(wanted)} on {entry.scope.words()}, but "
            f"{self._said(left)}: the limit {limit} allows {allows}, of which {used} is spent"
            f"{self._why(wanted)}; release with more noise (a plan with {plan} fits a fresh "
            "account), release other records, or raise the limit with set_limit"
        )

    def _why(self, wanted: Spend) -> str:
        """Return what was fixed when noise began and stands against a spend, in words."""
        begun = [spend for spend in self.spent if spend.noisy]
        if any(self._too_late(spend, wanted) for spend in begun):
            return (
                "; Gaussian noise was accounted there as GDP, and what is fixed by that may not "
                "depend on its answers: enter zCDP and point guarantees before it"
            )
        if wanted.level and any(spend.level + wanted.level > self._most(spend) for spend in begun):
            held = max(round_up(self._most(spend)) for spend in begun)
            return (
                f"; a level of {_brief(held, above)} was set aside when noise without a level "
                "began, and that may not depend on its answers: open an account with pure=LEVEL "
                "to set more aside"
            )
        return ""

    def _said(self, left: float) -> str:
        """Return in words what fits."""
        fits = []
        if not nothing(left, self.terms.budget):
            fits.append(f"a level of at most {_brief(left, below)}")
        sigma = self.least_sigma()
        if sigma is not None:
            fits.append(
                f"Gaussian noise of sigma {above(sigma)} or more per unit that a record moves it"
            )
        return f"{', or '.join(fits)} fits" if fits else "nothing is left"


def spend_words(spend: Spend) -> str:
    """Return a spend for people, every number rounded up.

    >>> spend_words(Spend(Fraction(1, 4))), spend_words(Spend(squares=Fraction(1, 4)))
    ('a DP level of 0.25', 'mu 0.5')
    """
    amounts = [("mu", spend.mu), ("rho", round_up(spend.rho)), ("delta", round_up(spend.delta))]
    parts = [f"{name} {_brief(number, above)}" for name, number in amounts if number]
    if spend.level or not parts:
        parts = [f"a DP level of {_brief(round_up(spend.level), above)}", *parts]
    return " and ".join(parts)


def nothing(left: float, budget: float) -> bool:
    """Return whether what is left is, in words, nothing: what rounding leaves over of a budget.

    For words only: whether a release fits is compared exactly.

    >>> nothing(3.6e-16, 0.25), nothing(1e-4, 0.25)
    (True, False)
    """
    return left < _NOTHING * budget


def _brief(value: float, rounded: Callable[[float], str]) -> str:
    """Return a number as it is if that is short, else with few digits, rounded to a side."""
    return repr(value) if len(repr(value)) <= 8 else rounded(value)


def gradual_spread(model: AnyModel) -> float | None:
    """Return the spread by which rates are counted, None where levels are those of DP.

    >>> from undertow import MultivariateGaussian
    >>> gradual_spread(MultivariateGaussian(0, [[1, .5], [.5, 1]], spread=40))
    40.0
    """
    spreads = [getattr(member, "spread", None) for member in model.members()]
    widths = [spread for spread in spreads if spread is not None]
    return max(widths) if len(widths) == len(spreads) else None


def exchanged(
    level: float, model: AnyModel, against: Against, unit: Unit = "record", window: int = 1
) -> "Leakage":
    """Return what all releases together leak whose levels sum up to ``level``.

    About one record, a ``window`` of several in a row, or a person. Levels are sums for each
    record, and ``level`` is the largest: together the releases are one algorithm of that level.

    >>> from undertow import MultivariateGaussian
    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]], spread=40)
    >>> round(exchanged(1.0, pair, "any").upper, 6)
    1.5
    """
    from undertow.bounds.engine import leakage

    spread = gradual_spread(model)
    if spread is None or unit == "person" or window > 1:
        hidden = Person() if unit == "person" else Window(window)
        return leakage(PureDP(level, unit), model, against, hidden)
    return leakage(MetricDP(up(level / spread)), model, against)


def budget_of(
    limit: float, model: AnyModel, against: Against, unit: Unit = "record", window: int = 1
) -> float:
    """Return the level for a leakage ``limit``, rounded down.

    >>> from undertow import MultivariateGaussian
    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]], spread=40)
    >>> round(budget_of(1.0, pair, "any"), 6)
    0.666667
    """
    if unit == "person":
        return limit
    if gradual_spread(model) is not None and window == 1:
        factor = exchanged(1.0, model, against).upper  # the leakage is proportional to the level
        return down(limit / factor, 16) if factor else math.inf
    budget = _searched()(model, limit, against, Window(window))
    if math.isinf(budget):
        raise NothingToProtect(
            "every record is certain under the model: nothing can leak and nothing needs a ledger"
        )
    return budget


@cache
def _searched() -> Callable[[AnyModel, float, Against, Window], float]:
    """Return the search for a level, which remembers: accounts of one model ask the same."""
    from undertow.planning.budget import budget_for
    from undertow.planning.questions import Remembered

    return Remembered(lambda model, limit, who, kept: budget_for(model, limit, who, kept))


def allowance(
    limit: float, delta: float, model: AnyModel, against: Against, unit: Unit = "record",
    window: int = 1,
) -> tuple[float, float]:  # fmt: skip
    """Return the level and the small delta for a ``limit`` kept up to ``delta``, rounded down.

    All that is (level, small delta)-DP leaks at most (limit, delta).

    >>> from undertow import Groups
    >>> level, small = allowance(1.0, 1e-6, Groups(2), "any")
    >>> round(level, 4), round(small * 1e7, 4)
    (0.5, 3.7754)
    """
    level = budget_of(limit, model, against, unit, window)
    if not delta or unit == "person":
        return level, delta
    if gradual_spread(model) is not None:
        raise NotSupported(
            "the levels of an account of Gaussian records with a spread are rates of d-privacy, "
            "and nothing is known of what these are worth together with Gaussian noise; keep the "
            "account without a delta, or under the model without its spread"
        )
    from undertow.bounds.curves.leakages import pure_budget_delta

    small = pure_budget_delta(limit, delta, level)
    if not small > 0:
        raise NotSupported(f"no delta is left for a limit of {limit:g}; lower the limit")
    return level, small


_CHOSEN = (
    "how much each release was to spend did not depend on the answers of earlier ones; where it "
    "did, the limit of the account holds"
)


def exchanged_at_delta(spent: Sequence[Spend], model: AnyModel, terms: Terms) -> "Leakage":
    """Return what all releases together leak at the delta of an account.

    Records have spent different amounts, and Theorem 1 wants one level for all of them: their
    curves are exchanged as one, the largest at each level, not one by one. A pure level leaks
    what it leaks at any delta. The closed exchange searches the best level; that of the budget,
    at which all grants were tested, is tried too.
    """
    from undertow.bounds.curves.leakages import closed_delta, closed_leakage

    pure = all(spend.pure for spend in spent)
    curve = LargestCurve(tuple(map(SpendCurve, spent)))
    if pure or terms.unit == "person":
        level = round_up(max(spend.level for spend in spent)) if pure else 1.0
        leakage = exchanged(level, model, terms.against, terms.unit, terms.window)
        upper = leakage.upper if pure else curve.epsilon(terms.delta)
        return replace(leakage, lower=0.0, upper=upper, witness=None, delta=terms.delta)

    @lru_cache(maxsize=256)
    def rate(level: float) -> float:
        return exchanged(level, model, terms.against, window=terms.window).upper

    leakage, granted = closed_leakage(curve, rate, terms.delta, terms.against), rate(terms.budget)
    leakage = replace(leakage, secret=Window(terms.window))
    kept = closed_delta(curve.delta(terms.budget), terms.budget, granted) <= terms.delta
    upper = min(leakage.upper, granted) if kept else leakage.upper
    return replace(leakage, upper=upper, assumptions=(*leakage.assumptions, _CHOSEN))


def check_narrowing(terms: Terms) -> None:
    """Refuse an account that a fit cannot narrow, or that one has narrowed already."""
    if terms.unit == "person":
        raise LedgerConflict(
            "an account of persons does not depend on how the records of a person depend on each "
            "other: its budget is the limit, before and after a fit"
        )
    if terms.delta:
        raise LedgerConflict(
            "an account with a delta is not narrowed: what is proved of fit and answers together "
            "is proved of DP levels; keep an account without a delta"
        )
    if terms.missed:
        raise LedgerConflict(
            "the account was narrowed by a fit before: it is under that region, and the fit may "
            "have missed once already"
        )


def recorded_fit(entry: Entry, terms: Terms) -> PrivateFit:
    """Return the fit that an entry holds; its confidence was written before its noise was drawn."""
    fit: Any = entry.about.get("fit")
    if not isinstance(fit, dict) or entry.kind != "release" or entry.level is None:
        raise LedgerConflict(
            f"the release {entry.release_id!r} is no private fit; make one with "
            "MarkovChain.fit(data, private=LEVEL, ledger=ledger)"
        )
    if entry.result is None:
        raise LedgerConflict(f"the fit {entry.release_id!r} was reserved and never made; repeat it")
    scale, states = fit["scale"], tuple(fit["states"])
    if DiscreteLaplace(Transitions(), scale).level_upper() > entry.level:
        raise LedgerConflict(f"the fit {entry.release_id!r} has spent less than its noise is worth")
    noisy = np.array(entry.result["numbers"][0]).reshape(len(states), len(states))
    return PrivateFit(
        noisy, states, level=entry.level, scale=scale, sample_size=fit["records"],
        confidence=fit["confidence"], within=model_from_dict(terms.model),
        release_id=entry.release_id,
    ).with_records(RecordDescription.from_dict(fit.get("described", {})))  # fmt: skip


def believed(terms: Terms) -> AnyModel:
    """Return the model of an account, with what was tested of it, or what a private fit knows.

    What failed checks cost when the limit is reached is no cost of a single plan, and left out.
    """
    model = model_from_dict(terms.model)
    tested = tuple(replace(check, leakage=None) for check in tested_of(terms))
    checks = worst_of([tested, private_checks(terms.missed) if terms.missed else ()])
    if terms.missed:
        model = model.with_origin(weakest((model.origin, "private")))
    return model.with_checks(checks) if checks else model


def tested_of(terms: Terms) -> tuple[Check, ...]:
    """Return what was tested of a model, with what all releases together leak where it failed."""
    return tuple(map(Check.from_dict, terms.checks))


def affordable(terms: Terms, model: AnyModel) -> float:
    """Return the level that the limit of an account allows under a region, 0 for nothing."""
    try:
        return allowance(terms.limit, 0.0, model, terms.against, terms.unit, terms.window)[0]
    except NotSupported:
        return 0.0
