"""Budgets that renew: a fresh epsilon every day, week or month.

A level that is spent afresh on the records of each period is, for any one record, spent once: all
outputs together are an epsilon-DP algorithm of the whole series, one record replaced. Differential
privacy says no more. But records of other periods depend on the one, and what their outputs tell
is told about it, too: that is the leakage of the level under the model of the series.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from undertow.adversaries import ONE_RECORD, Against, Window
from undertow.bounds.engine import leakage, read_window
from undertow.certificate import Leakage
from undertow.conditions import doubts
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import PureDP
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel
from undertow.models.standing import stands_for
from undertow.numerics import check_count, check_epsilon, divide_up, down
from undertow.planning.budget import Search, budget_for, largest_level

__all__ = [
    "LEVELS",
    "PERIODS",
    "PERSISTENCES",
    "Period",
    "Persistence",
    "Renewal",
    "by_persistence",
    "renewal",
]

Period = Literal["day", "week", "month"]

PERIODS: dict[Period, int] = {"day": 365, "week": 52, "month": 12}
"""How many periods a year has."""

LEVELS = (0.5, 1.0, 2.0)
"""Levels that are drawn by default."""

PERSISTENCES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.925, 0.95, 0.97, 0.98)
"""Probabilities of keeping one's value that are drawn by default."""

_DRAWN = Search(1e-5)
"""The search for budgets that are drawn: proved ones, to more digits than a line shows."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a level that renews every period leaks about a record, and about a lasting trait.

    ``leak`` is the certificate for one record, or a ``window`` of several, over any number of
    periods; ``doubts`` are what failed checks of the model say of it, and of the budget. ``trait``
    is what can be learned in a year of something that never changes, all records of the year
    together: their number times the level. ``budget`` and ``trait_budget`` are the levels to spend
    in each period so that no more than ``limit`` leaks about either, rounded down (0 where no level
    is small enough).
    """

    period: Period
    epsilon: float
    records: int
    leak: Leakage
    limit: float
    budget: float
    window: Window = ONE_RECORD
    doubts: tuple[str, ...] = ()

    @property
    def year(self) -> int:
        """How many records a year has."""
        return PERIODS[self.period] * self.records

    @property
    def trait(self) -> float:
        """What a year leaks at most about something that never changes, rounded up."""
        return divide_up(Fraction(self.epsilon) * self.year, 1.0)

    @property
    def trait_budget(self) -> float:
        """The level for which a year leaks at most the limit about such a thing, rounded down."""
        return down(self.limit / self.year)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What all of this rests on."""
        return (
            *self.doubts,
            *self.leak.assumptions,
            f"a release reads records of its own {self.period} only",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "renew": self.period,
            "epsilon": self.epsilon,
            "records_per_period": self.records,
            "protect_window": self.window.records,
            "lower": self.leak.lower,
            "upper": self.leak.upper,
            "trait_over_a_year": self.trait,
            "limit": self.limit,
            "budget": self.budget,
            "trait_budget": self.trait_budget,
            "assumptions": list(self.assumptions),
        }


def renewal(
    model: AnyModel,
    epsilon: float,
    period: Period = "day",
    *,
    records: int = 1,
    limit: float = 1.0,
    against: Against = "any",
    protect: Window | None = None,
) -> Renewal:
    """Return what a level leaks that is spent afresh in every period.

    Whatever is released in a period reads the records of that period only, and is together
    ``epsilon``-DP for one replaced record of the ``model``'s series; ``records`` of them make a
    period (by default a record is a period). Where releases read older records as well, their
    levels add up before they are asked about here. ``protect`` asks about the history of several
    records in a row, such as a week of days. The cost is that of `dp_budget`.

    >>> from undertow import MarkovChain
    >>> kept = renewal(MarkovChain([[.9, .1], [.1, .9]]), 2.0, "day")
    >>> round(kept.leak.upper, 4), round(kept.budget, 4), kept.trait
    (7.5837, 0.1156, 730.0)
    """
    if period not in PERIODS:
        raise InvalidInput(f"a budget renews every {', '.join(PERIODS)}; found {period!r}")
    epsilon, limit = check_epsilon(epsilon, "epsilon"), check_epsilon(limit, "limit")
    records = check_count(records, "records of a period", 1)
    endless = stands_for(model).endless()
    if endless is None:
        raise NotSupported(
            "a budget that renews goes on for ever, and this model speaks of a fixed number of "
            "records; use a chain of any length, or groups"
        )
    window = read_window(protect)
    leak = leakage(PureDP(epsilon), endless, against, protect=window)
    budget = _budget(endless, limit, against, window)
    said = doubts(endless.checks) if endless.checks and against != "informed" else ()
    return Renewal(period, epsilon, records, leak, limit, budget, window, said)


def _budget(model: AnyModel, limit: float, against: Against, window: Window) -> float:
    """Return the level to spend in each period, 0 where every level leaks without bound."""
    try:
        return budget_for(model, limit, against, protect=window)
    except NotSupported:
        return 0.0


@dataclass(frozen=True, slots=True)
class Persistence:
    """Leakages of a bit by the probability with which it persists from one period to the next.

    ``leakages`` has a row for each of ``levels`` and a column for each of ``persistences``, upper
    ends; ``budgets`` are the levels that leak at most ``limit``.
    """

    persistences: tuple[float, ...]
    levels: tuple[float, ...]
    leakages: tuple[tuple[float, ...], ...]
    limit: float
    budgets: tuple[float, ...]


def by_persistence(
    levels: Sequence[float] = LEVELS,
    persistences: Sequence[float] = PERSISTENCES,
    limit: float = 1.0,
) -> Persistence:
    """Return what renewed levels leak about a bit that persists with each of some probabilities.

    The bit changes as often one way as the other. Randomised response of the level leaks as much
    as the worst algorithm of it. Seconds; persistences close to 1 take the longest.

    >>> [round(leak, 3) for leak in by_persistence((1.0,), (.5, .8)).leakages[0]]
    [1.0, 3.136]
    """
    kept = tuple(float(p) for p in persistences)
    for p in kept:
        if not 0.5 <= p < 1:
            raise InvalidInput(f"a persistence lies in [0.5, 1), found {p:g}")
    chains = [MarkovChain([[p, 1 - p], [1 - p, p]]) for p in kept]
    spent = tuple(check_epsilon(level, "epsilon") for level in levels)
    rows = tuple(tuple(leakage(PureDP(level), chain).upper for chain in chains) for level in spent)
    budgets = []
    for chain in chains:

        def measure(level: float, chain: MarkovChain = chain) -> Leakage:
            return leakage(PureDP(level), chain)

        found = largest_level(measure, chain, check_epsilon(limit, "limit"), _DRAWN)
        budgets.append(found)
    return Persistence(kept, spent, rows, limit, tuple(budgets))
