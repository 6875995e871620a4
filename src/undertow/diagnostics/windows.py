"""Budgets by secret: one record, windows of records, a whole person."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from undertow.adversaries import Against, check_against, words
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, NotSupported
from undertow.frames import ResultTable
from undertow.mechanisms import PureDP
from undertow.models.base import stands_for
from undertow.models.chains import MarkovChain
from undertow.models.sets import AnyModel
from undertow.numerics import check_count, check_epsilon, divide_up, down
from undertow.plan import doubts
from undertow.planning.budget import Search, budget_for, largest_level
from undertow.rounding import below, columns
from undertow.secrets import ONE_RECORD, Window

__all__ = [
    "LEVELS",
    "Period",
    "Persistence",
    "Renewal",
    "WindowBudget",
    "WindowTable",
    "budget_by_window",
    "by_persistence",
    "renewal",
    "window_sizes",
]


_PRECISION = 1e-6
"""Relative precision of the levels of a table: finer than a line is wide, and proved at any."""

_SIZES = (1, 2, 3, 6, 12, 24, 48, 96, 288, 1000)
"""Windows that are shown by default, in records, as far as a series is long."""


@dataclass(frozen=True, slots=True)
class WindowBudget:
    """The largest DP level, for one replaced record, that keeps a limit for a window of records.

    ``independent`` is what it would be if records were independent: the limit over their number.
    """

    records: int
    level: float
    independent: float

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {"records": self.records, "level": self.level, "independent": self.independent}


@dataclass(frozen=True, slots=True)
class WindowTable(ResultTable):
    """DP levels that keep one limit, from one record to the longest window; rounded down.

    ``person`` is the level at which all records of a person together leak no more, whatever their
    dependence: the limit over their number. None where the model does not say how many there are.
    """

    limit: float
    against: Against
    rows: tuple[WindowBudget, ...]
    person: float | None = None

    def descriptions(self) -> list[dict[str, Any]]:
        """Return the description of each row."""
        return [row.to_dict() for row in self.rows]

    def __iter__(self) -> Iterator[WindowBudget]:
        """Iterate over the rows."""
        return iter(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "limit": self.limit,
            "against": self.against if isinstance(self.against, str) else words(self.against),
            "person": self.person,
            "rows": self.descriptions(),
        }

    def __str__(self) -> str:
        """Return the table as plain text."""
        lines = [("protected", "DP level", "if independent")]
        lines += [
            (Window(row.records).length_words(), below(row.level), below(row.independent))
            for row in self.rows
        ]
        if self.person is not None:
            lines.append(("a whole person", below(self.person), below(self.person)))
        return "\n".join(columns(lines))


def window_sizes(model: AnyModel, *more: int) -> tuple[int, ...]:
    """Return windows to show for a model: from one record to the whole series, and ``more``.

    >>> from undertow import MarkovChain
    >>> window_sizes(MarkovChain([[.9, .1], [.3, .7]], length=30), 7)
    (1, 2, 3, 6, 7, 12, 24, 30)
    """
    length = model.length
    if length is None:
        return tuple(sorted({*_SIZES, *more}))
    return tuple(sorted({size for size in (*_SIZES, *more) if size < length} | {length}))


def _shared(limit: float, records: int) -> float:
    """Return the limit over a number of records, rounded down."""
    level = limit / records
    return level if Fraction(level) * records <= Fraction(limit) else math.nextafter(level, 0.0)


def budget_by_window(
    model: AnyModel,
    limit: float,
    against: Against = "any",
    windows: Sequence[int] | None = None,
    *,
    tick: Callable[[], object] | None = None,
) -> WindowTable:
    """Return the DP level that keeps a limit, for windows of several sizes.

    Each is proved and rounded down, and found to a millionth: `dp_budget` finds more digits.
    ``tick`` is called after each. Cost of a `dp_budget` for each window.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=288)
    >>> print(budget_by_window(chain, 1.0, windows=(1, 12, 288)))
    protected             DP level     if independent
    one record            0.2503257    1
    12 records in a row   0.06727416   0.08333333
    288 records in a row  0.003472222  0.003472222
    a whole person        0.003472222  0.003472222
    """
    limit, against = check_epsilon(limit, "limit"), check_against(against)
    sizes = window_sizes(model) if windows is None else tuple(windows)
    if not sizes or list(sizes) != sorted({check_count(size, "the window", 1) for size in sizes}):
        raise InvalidInput("a table needs sizes of windows in increasing order")
    rows: list[WindowBudget] = []
    for size in sizes:
        window = Window(size)

        def measure(level: float, window: Window = window) -> Leakage:
            return leakage(PureDP(level), model, against, window)

        # the sides hardly change with the window: 1 / level grows by about its records
        guess = None
        if rows:
            guess = limit / (limit / rows[-1].level + size - rows[-1].records)
        level = largest_level(measure, model, limit, Search(_PRECISION, guess))
        rows.append(WindowBudget(size, level, _shared(limit, size)))
        if tick is not None:
            tick()
    most = model.length
    return WindowTable(limit, against, tuple(rows), None if most is None else _shared(limit, most))


Period = Literal["day", "week", "month"]

PERIODS: dict[Period, int] = {"day": 365, "week": 52, "month": 12}
"""Number of periods in a year."""

LEVELS = (0.5, 1.0, 2.0)
"""Levels that are drawn by default."""

PERSISTENCES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.875, 0.9, 0.925, 0.95, 0.97, 0.98)
"""Probabilities of keeping one's value that are drawn by default."""

_DRAWN = Search(1e-5)
"""The search for budgets that are drawn: proved ones, to more digits than a line shows."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """Leakage of a level that renews every period, about a record and about a lasting trait.

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
        """Number of records in a year."""
        return PERIODS[self.period] * self.records

    @property
    def trait(self) -> float:
        """Largest leakage of a year about a trait that never changes, rounded up."""
        return divide_up(Fraction(self.epsilon) * self.year, 1.0)

    @property
    def trait_budget(self) -> float:
        """The level for which a year leaks at most the limit about such a thing, rounded down."""
        return down(self.limit / self.year)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions."""
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
            "secret": self.window.to_dict(),
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
    secret: Window | None = None,
) -> Renewal:
    """Return the leakage of a level that is spent afresh in every period.

    Whatever is released in a period reads the records of that period only, and is together
    ``epsilon``-DP for one replaced record of the ``model``'s series; ``records`` of them make a
    period (by default a record is a period). Where releases read older records as well, their
    levels add up before they are asked about here. ``secret`` asks about the history of several
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
    window = ONE_RECORD if secret is None else secret
    leak = leakage(PureDP(epsilon), endless, against, window)
    try:
        budget = budget_for(endless, limit, against, window)
    except NotSupported:  # every level leaks without bound
        budget = 0.0
    remarks = doubts(endless.checks) if endless.checks and against != "informed" else ()
    return Renewal(period, epsilon, records, leak, limit, budget, window, remarks)


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
    stays = tuple(float(p) for p in persistences)
    for p in stays:
        if not 0.5 <= p < 1:
            raise InvalidInput(f"a persistence lies in [0.5, 1), found {p:g}")
    chains = [MarkovChain([[p, 1 - p], [1 - p, p]]) for p in stays]
    epsilons = tuple(check_epsilon(level, "epsilon") for level in levels)
    rows = tuple(
        tuple(leakage(PureDP(level), chain).upper for chain in chains) for level in epsilons
    )
    budgets = []
    for chain in chains:

        def measure(level: float, chain: MarkovChain = chain) -> Leakage:
            return leakage(PureDP(level), chain)

        level = largest_level(measure, chain, check_epsilon(limit, "limit"), _DRAWN)
        budgets.append(level)
    return Persistence(stays, epsilons, rows, limit, tuple(budgets))
