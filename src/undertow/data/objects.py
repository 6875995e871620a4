"""Columns of Python objects, in which every value has a type of its own.

Lists of records and the object columns of pandas come this way. A text is text and a number is a
number: ``"1"`` is not 1. Whatever is neither is foreign. No value can fail here.
"""

import datetime as dt
import math
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from undertow.errors import InvalidInput

__all__ = ["LARGEST", "instant", "instants", "keys", "plain", "readings", "whole", "words"]

_NUMBERS = (bool, int, float, Decimal, Fraction, np.bool_, np.integer, np.floating)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LARGEST = 2**62
"""Times beyond this (146,000 years in microseconds) are none: differences could overflow."""


def plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value it stands for, anything else as it is.

    >>> plain(np.int64(3)), plain("a")
    (3, 'a')
    """
    return value.item() if isinstance(value, np.generic) else value


def words(text: str) -> str:
    """Return a text that any library can hold: lone surrogates are written out.

    >>> words("a\\ud800")
    'a\\\\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def readings(
    values: Iterable[Any],
) -> tuple[list[str | None], list[float | None], list[bool]]:
    """Return what each value is as a text, what as a number (None where it is not), and if it is.

    Truth values count as 0 and 1. The last list is False where a value is missing; a value that is
    there and neither text nor number is foreign.

    >>> readings(["1", 1, True, None, [2]])
    (['1', None, None, None, None], [None, 1.0, 1.0, None, None], [True, True, True, False, True])
    """
    texts: list[str | None] = []
    numbers: list[float | None] = []
    there: list[bool] = []
    for value in values:
        texts.append(words(value) if isinstance(value, str) else None)
        numbers.append(_float(value) if isinstance(value, _NUMBERS) else None)
        there.append(not _is_missing(value))
    return texts, numbers, there


def keys(values: Sequence[Any], name: str) -> tuple[list[int | None], list[Hashable]]:
    """Return each value as its place among the different values, and these values.

    Equal values have equal places; missing ones have none.

    >>> keys(["b", "a", None, "b"], "who")
    ([0, 1, None, 0], ['b', 'a'])
    """
    places: dict[Any, int] = {}
    found: list[int | None] = []
    for row, given in enumerate(values):
        value = plain(given)
        if _is_missing(value):
            found.append(None)
            continue
        try:
            found.append(places.setdefault(value, len(places)))
        except TypeError:
            raise InvalidInput(
                f"row {row} of column {name!r} (counting from 0) is a {type(value).__name__}; "
                "persons and groups are texts, numbers, dates or other values that can be compared"
            ) from None
    return found, list(places)


def instants(values: Iterable[Any]) -> tuple[list[int | None], bool | None]:
    """Return each time as a whole number, None where it is none, and whether they are clock times.

    Clock times become microseconds since 1970 in UTC; a time without a zone is taken as UTC. The
    first value decides whether the column holds clock times or whole numbers (None: no value).

    >>> instants([dt.date(1970, 1, 2), "1970-01-01T00:00:01Z"])
    ([86400000000, 1000000], True)
    >>> instants([3, 4.0, 4.5])
    ([3, 4, None], False)
    """
    listed = [plain(value) for value in values]
    first = next((value for value in listed if not _is_missing(value)), None)
    if first is None:
        return [None] * len(listed), None
    clock = isinstance(first, dt.date) or (isinstance(first, str) and not _reads_whole(first))
    read = instant if clock else whole
    return [None if _is_missing(value) else read(value) for value in listed], clock


def instant(value: Any) -> int | None:
    """Return a date, time or ISO text as microseconds since 1970 in UTC, None if it is none.

    >>> instant("1970-01-01T01:00+01:00"), instant("tomorrow")
    (0, None)
    """
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, dt.datetime):
        value = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return int((value - _EPOCH) // dt.timedelta(microseconds=1))
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days * 86_400_000_000
    return None


def whole(value: Any) -> int | None:
    """Return a whole number, however it is written, None if it is none.

    >>> whole(3.0), whole("-7"), whole(2.5)
    (3, -7, None)
    """
    if isinstance(value, str):
        return int(value) if _reads_whole(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return None
    if not -LARGEST < value < LARGEST:
        return None
    number = int(value)
    return number if number == value else None


def _reads_whole(text: str) -> bool:
    digits = text.strip().removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) < 19


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


def _float(value: Any) -> float | None:
    """Return a number as a float; NaN, and what lies beyond all floats, is none."""
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return None if math.isnan(number) else number
