"""The chart of a year of an account: a cell for each day above the budget that is used."""

import datetime as dt
import math
from typing import TYPE_CHECKING

from markupsafe import Markup

from undertow_studio.charts.svg import (
    NARROW,
    Scale,
    join,
    letters,
    number,
    path,
    picture,
    places,
    tag,
    text,
    titled,
)

if TYPE_CHECKING:
    from undertow_studio.pages.release import BudgetYear, Day

__all__ = ["calendar_chart"]

_LEGEND = (
    ("spent", "released"),
    ("reserved", "reserved"),
    ("weekly", "a weekly release"),
    ("over", "no longer fits"),
)


def calendar_chart(year: "BudgetYear", name: str = "calendar") -> Markup:
    """Return a year of days, those with releases filled, above the budget as it is used up."""
    first = dt.date.fromisoformat(year.first)
    days = {day.day: day for day in year.days}
    planned = dict(year.weeks())

    def draw(width: float) -> tuple[float, list[Markup]]:
        left, right = 38.0, width - 8.0
        step = (right - left) / 54
        parts: list[Markup] = []
        begin = first - dt.timedelta(days=first.weekday())  # columns are weeks, Monday on top
        for row, words in ((0, "Mon"), (2, "Wed"), (4, "Fri")):
            if step > 8 or row == 0:
                parts.append(text(words, left - 6, 30 + row * step + step * 0.8, "tick", "end"))
        kept = -99.0
        for offset in range((dt.date.fromisoformat(year.last) - first).days + 1):
            day = first + dt.timedelta(days=offset)
            column, row = divmod((day - begin).days, 7)
            x, y = left + column * step, 26 + row * step
            iso = day.isoformat()
            if day.day == 1 and x - kept > 34 and (width > NARROW or day.month % 2):
                parts.append(text(f"{day:%b}", x, 16, "tick"))
                kept = x
            kind, said = _cell(iso, days, planned, year)
            parts.append(
                titled(
                    "rect", f"{day.day} {day:%B %Y}{said}", x=places(x + step * 0.07),
                    y=places(y + step * 0.07), width=places(step * 0.86),
                    height=places(step * 0.86), rx=places(step * 0.2),
                    class_=f"day {kind}{' today' * (iso == year.today)}".replace("  ", " ").strip(),
                    data_day=iso if kind else None,
                    data_spent=days[iso].spent if iso in days else None,
                    data_reserved=days[iso].reserved if iso in days else None,
                )
            )  # fmt: skip
        top = 26 + 7 * step + 40
        foot, more = _budget(year, (left, right, top, top + (96 if width > NARROW else 84)))
        parts += more
        below, legend = _legend(year, left, foot + 40, width)
        return below, [*parts, *legend]

    return picture(name, "The budget of a year", year.words(), draw, "calendar")


def _cell(
    iso: str, days: dict[str, "Day"], planned: dict[str, float], year: "BudgetYear"
) -> tuple[str, str]:
    """Return the look of a day, and what it says."""
    day = days.get(iso)
    if day is not None and day.spent:
        return "spent", f": released, level {number(day.spent)}"
    if day is not None:
        return "reserved", f": reserved, level {number(day.reserved)}"
    level = planned.get(iso)
    if level is None:
        return "", ""
    if level > year.budget:
        return "over", ": a weekly release would no longer fit"
    return "weekly", f": a weekly release, then {number(max(year.budget - level, 0.0))} is left"


def _budget(
    year: "BudgetYear", box: tuple[float, float, float, float]
) -> tuple[float, list[Markup]]:
    """Return the foot and the parts of the line that climbs towards the budget."""
    left, right, top, foot = box
    first = dt.date.fromisoformat(year.first)
    span = (dt.date.fromisoformat(year.last) - first).days
    planned = year.weeks()
    finite = [day.level for day in year.days if math.isfinite(day.level)]
    high = max([year.budget, *finite, *(level for _, level in planned if level <= 2 * year.budget)])
    x, y = Scale(0, span, left, right), Scale(0, high * 1.08, foot, top)

    def at(iso: str) -> float:
        return x.at((dt.date.fromisoformat(iso) - first).days)

    parts = [
        path([(left, foot), (right, foot)], "base"),
        text("budget used", left - 30, top - 14, "axis"),
    ]
    steps = [(left, y.at(0.0))]
    for day in year.days:
        steps += [(at(day.day), steps[-1][1]), (at(day.day), y.at(min(day.level, high)))]
    now = (at(year.today), steps[-1][1])
    steps.append(now)
    parts.append(path([*steps, (now[0], foot), (left, foot)], "area", closed=True))
    parts.append(path(steps, "step"))
    ahead = [now]
    for iso, level in planned:
        if level > high:
            break
        ahead += [(at(iso), ahead[-1][1]), (at(iso), y.at(level))]
    if len(ahead) > 1:
        parts.append(path(ahead, "step weekly"))
    limit = y.at(year.budget)
    parts.append(path([(left, limit), (right, limit)], "ceiling"))
    parts.append(text(f"budget {number(year.budget)}", left + 4, limit - 6, "ceiling-label"))
    parts.append(text(number(0), left - 6, foot + 4, "tick", "end"))
    label = f"today: {number(year.spent)}" if math.isfinite(year.spent) else "today: redacted"
    ahead_ = now[0] + letters(label) + 10 < right
    parts.append(tag("circle", cx=places(now[0]), cy=places(now[1]), r="4", class_="after",
                     data_spent=min(year.spent, year.budget), data_budget=year.budget))  # fmt: skip
    parts.append(text(label, now[0] + (8 if ahead_ else -8), foot + 18, "label",
                      "start" if ahead_ else "end"))  # fmt: skip
    return foot, parts


def _legend(year: "BudgetYear", left: float, y: float, width: float) -> tuple[float, list[Markup]]:
    parts, x = [], left
    ends = year.exhausted() is not None
    for kind, words in _LEGEND:
        if (kind == "weekly" and not year.weekly) or (kind == "over" and not ends):
            continue
        wide = 20 + letters(words, 12.5) + 12
        if x + wide > width and x > left:
            x, y = left, y + 20
        parts.append(tag("rect", x=places(x), y=places(y - 10), width="11", height="11", rx="2.5",
                         class_=f"day {kind}"))  # fmt: skip
        parts.append(text(words, x + 18, y, "legend"))
        x += wide
    return y + 12, [join(parts)]
