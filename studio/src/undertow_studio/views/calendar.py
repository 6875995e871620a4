"""The budget of a year: what was spent on which day, what is reserved, what a plan would leave."""

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from undertow.data.scopes import Scope
from undertow.errors import InvalidInput
from undertow.ledger.amounts import highest, round_up
from undertow.ledger.balance import Balance
from undertow.ledger.entries import Spends
from undertow.ledger.rules import Entry, Layout, region, settled
from undertow.mechanisms import Unit

__all__ = ["BudgetYear", "Day", "budget_year", "spending_days"]

DAYS = 366
"""Days of the calendar: a year, and the day after which it repeats."""


@dataclass(frozen=True, slots=True)
class Day:
    """A day with releases: the level of the data set after it, and what the day's releases had.

    ``spent`` and ``reserved`` add up the levels of the day's entries, ``level`` is the largest sum
    over the records, of all days up to this one: entries that touch different records do not add
    up there; inf after a redaction, beside which nothing can be released.
    """

    day: str
    spent: float
    reserved: float
    level: float


@dataclass(frozen=True, slots=True)
class BudgetYear:
    """A year of an account: its budget, its days with releases, and a weekly release from today on.

    ``weekly`` is the DP level of the release, 0 for none; it is taken to touch the same records
    every week, which is the most that it can cost.
    """

    budget: float
    first: str
    today: str
    days: tuple[Day, ...]
    weekly: float = 0.0

    @property
    def spent(self) -> float:
        """The level of the data set today."""
        return self.days[-1].level if self.days else 0.0

    @property
    def left(self) -> float:
        """What is left of the budget today."""
        return max(self.budget - self.spent, 0.0)

    @property
    def last(self) -> str:
        """The last day of the calendar."""
        return (dt.date.fromisoformat(self.first) + dt.timedelta(days=DAYS - 2)).isoformat()

    def weeks(self) -> tuple[tuple[str, float], ...]:
        """Return the days of the weekly release from today on, with the level after each."""
        if not self.weekly or math.isinf(self.spent):
            return ()
        today, last = dt.date.fromisoformat(self.today), dt.date.fromisoformat(self.last)
        count = (last - today).days // 7 + 1
        start = Fraction(self.spent)
        return tuple(
            ((today + dt.timedelta(weeks=week)).isoformat(),
             float(start + (week + 1) * Fraction(self.weekly)))
            for week in range(max(count, 0))
        )  # fmt: skip

    def exhausted(self) -> str | None:
        """Return the day of the first weekly release that does not fit, None if all do."""
        return next((day for day, level in self.weeks() if level > self.budget), None)

    def words(self) -> str:
        """Return the state of the account and what a weekly release would leave, in words."""
        if math.isinf(self.spent):
            return "The data set was redacted: nothing else of it can be released."
        share = 0.0 if not self.budget else self.spent / self.budget
        now = f"{share:.0%} of the budget is spent or reserved."
        if not self.weekly:
            return now
        if not self.weeks():
            return f"{now} The year is over."
        ends = self.exhausted()
        if ends is not None:
            fit = sum(level <= self.budget for _, level in self.weeks())
            times = "once more" if fit == 1 else f"{fit} more times"
            return f"{now} A weekly release fits {times}, and no longer on {_day(ends)}."
        over = self.budget - self.weeks()[-1][1]
        return (
            f"{now} A weekly release to the end of the year would leave {over / self.budget:.0%}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        days = [
            {**asdict(day), "level": day.level if math.isfinite(day.level) else None}
            for day in self.days
        ]
        spent = self.spent if math.isfinite(self.spent) else None
        return {
            **asdict(self), "days": days, "spent": spent, "left": self.left, "last": self.last,
            "exhausted": self.exhausted(), "words": self.words(),
        }  # fmt: skip


def budget_year(
    ledger: Balance, today: dt.date, weekly: float = 0.0, first: dt.date | None = None
) -> BudgetYear:
    """Return the year of a ledger's account, from ``first`` on (by default 1 January).

    Reads the ledger once; nothing is written. Entries before the first day count as spent on it.
    """
    if math.isnan(weekly) or weekly < 0:
        raise InvalidInput(f"a weekly release has a DP level of at least 0, found {weekly}")
    begin = first or dt.date(today.year, 1, 1)
    days = spending_days(ledger.entries(), ledger.unit, begin)
    return BudgetYear(ledger.budget, begin.isoformat(), today.isoformat(), days, weekly)


def spending_days(
    entries: Sequence[Entry], unit: Unit, first: dt.date, last: dt.date | None = None
) -> tuple[Day, ...]:
    """Return the days on which an account spent, with its level after each of them.

    Levels of entries on different records do not add up; those that touch the same records do.
    Cancelled entries spend nothing. Spends without a DP level (Gaussian noise) are not in it.

    >>> one = Entry("a", "release", 0.5, None, Scope(start=0, end=7), {}, at="2026-01-05T09:00")
    >>> two = Entry("b", "release", 0.5, None, Scope(start=7, end=9), {}, at="2026-01-06T09:00")
    >>> [day.level for day in spending_days([one, two], "record", dt.date(2026, 1, 1))]
    [0.5, 0.5]
    """
    live = [entry for entry in entries if entry.status != "cancelled"]
    layout, spends = Layout(), Spends()
    found: dict[str, Day] = {}
    for entry in sorted(live, key=lambda one: one.at):
        where = region(layout, entry.scope, unit)
        layout = settled(layout, entry, unit, where)
        spends.add(where, entry.spend)
        day = max(entry.at[:10], first.isoformat())
        if last is not None and day > last.isoformat():
            continue
        most = spends.most(region(layout, Scope(), unit))
        level = math.inf if entry.kind == "redaction" else round_up(highest(most).level)
        before = found.get(day, Day(day, 0.0, 0.0, 0.0))
        own = entry.level or 0.0
        kept = entry.status == "confirmed"
        found[day] = Day(
            day, before.spent + own * kept, before.reserved + own * (not kept), level
        )  # fmt: skip
    return tuple(found[day] for day in sorted(found))


def _day(iso: str) -> str:
    day = dt.date.fromisoformat(iso)
    return f"{day.day} {day:%B %Y}"
