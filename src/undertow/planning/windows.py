"""What may be spent against what is protected: from one record, over windows, to a whole person."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from undertow.adversaries import Against, Window, check_against, words
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.errors import InvalidInput
from undertow.mechanisms import PureDP
from undertow.models.sets import AnyModel
from undertow.numerics import check_count, check_epsilon
from undertow.planning.budget import Search, largest_level
from undertow.rounding import below, columns

__all__ = ["WindowBudget", "WindowTable", "budget_by_window", "window_sizes"]

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
class WindowTable:
    """DP levels that keep one limit, from one record to the longest window; rounded down.

    ``person`` is the level at which all records of a person together leak no more, whatever their
    dependence: the limit over their number. None where the model does not say how many there are.
    """

    limit: float
    against: Against
    rows: tuple[WindowBudget, ...]
    person: float | None = None

    def __iter__(self) -> Iterator[WindowBudget]:
        """Iterate over the rows."""
        return iter(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "limit": self.limit,
            "against": self.against if isinstance(self.against, str) else words(self.against),
            "person": self.person,
            "rows": [row.to_dict() for row in self.rows],
        }

    def __str__(self) -> str:
        """Return the table as plain text."""
        lines = [("protected", "DP level", "if independent")]
        lines += [
            (Window(row.records).words(), below(row.level), below(row.independent))
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
            return leakage(PureDP(level), model, against, protect=window)

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
