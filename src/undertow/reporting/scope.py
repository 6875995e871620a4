"""Which records an answer is about, when it was drawn, and what its proof covers, in words."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from undertow.certificate import Leakage

__all__ = ["drawn", "groups", "proved_for", "records", "replay", "window"]

_MOST = 12
"""Groups that are named; more are in the table of answers."""

Window = tuple[Any, Any]


def window(ends: Window | None) -> str:
    """Return the times that were read.

    >>> window(("2025-01-06", "2025-01-13")), window((None, 48)), window(None)
    ('from 2025-01-06 on and before 2025-01-13', 'before 48', 'all times')
    """
    start, end = ends or (None, None)
    parts = [] if start is None else [f"from {start} on"]
    parts += [] if end is None else [f"before {end}"]
    return " and ".join(parts) or "all times"


def groups(names: Sequence[Any] | None) -> str:
    """Return the groups that have an answer each.

    >>> groups(("day", "night")), groups(None)
    ('2: day, night', 'none: one answer for all records')
    """
    if names is None:
        return "none: one answer for all records"
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{len(names)}: {', '.join(map(str, names[:_MOST]))}{more}"


def records(rows: int, persons: int) -> str:
    """Return how many records of how many persons there are.

    >>> records(48, 1)
    '48, of 1 person'
    """
    return f"{rows}, of {persons} person{'s' * (persons != 1)}"


def date(time: str) -> str:
    """Return when an answer was drawn, to the second; its clock is that of UTC.

    >>> date("2026-11-16T10:00:00.123456+00:00")
    '2026-11-16T10:00:00'
    """
    try:
        return datetime.fromisoformat(time).replace(microsecond=0, tzinfo=None).isoformat()
    except ValueError:  # as it was recorded
        return time


def drawn(time: str) -> str:
    """Return the date of an answer as a line of a report."""
    return f"{date(time)} (UTC)" if time else "not recorded"


def replay(time: str) -> str:
    """Return what must be said of an answer that was recorded earlier.

    >>> replay("2026-11-16T10:00:00")
    'this answer was drawn on 2026-11-16T10:00:00 and is given again; nothing was spent'
    """
    when = f"drawn on {date(time)}" if time else "drawn earlier"
    return f"this answer was {when} and is given again; nothing was spent"


def proved_for(proof: Leakage, length: int | None, ends: Window | None = None) -> str:
    """Return which shapes of data the proof covers.

    >>> proved_for(Leakage(1.0, 1.0, "exchange", "any", valid_for="any"), None)
    'any windows and groups of a series of any length, and series with gaps'
    >>> proved_for(Leakage(1.0, 1.0, "exact", "any", valid_for="windows"), 60)
    'one window of each series of any length, in one answer'
    """
    series = "of any length" if length is None else f"of {length} records"
    this = "one" if ends is None else "this"
    return {
        "series": f"each whole series {series}, in one answer",
        "windows": f"{this} window of each series of any length, in one answer",
        "any": f"any windows and groups of a series {series}, and series with gaps",
    }[proof.valid_for]
