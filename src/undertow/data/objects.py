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

__all__ = [
    "LARGEST",
    "as_float",
    "instants",
    "is_missing",
    "keys",
    "moment",
    "number_label",
    "plain",
    "readings",
    "whole",
    "words",
]

_NUMBERS = (bool, int, float, Decimal, Fraction, np.bool_, np.integer, np.floating)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LARGEST = 2**62
"""Times beyond this (146,000 years in microseconds) are none: differences could overflow."""


def plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value it stands for, anything else as it is.

    >>> plain(np.int64(3)), plain("a")
    (3, 'a')
    """
    if isinstance(value, np.datetime64) and not np.isnat(value):
        return value.astype("datetime64[us]").item()
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
    listed = list(values)
    texts = [words(value) if isinstance(value, str) else None for value in listed]
    numbers = [as_float(value) if isinstance(value, _NUMBERS) else None for value in listed]
    return texts, numbers, [not is_missing(value) for value in listed]


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
        if is_missing(value):
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


def instants(values: Iterable[Any]) -> tuple[list[int | None], bool | None, bool | None]:
    """Return each time as a whole number, None where it is none, if they are clock times, if zoned.

    Clock times become microseconds since 1970 in UTC. The first value decides whether the column
    holds clock times or whole numbers, and times with or without a zone (None: no value); a value
    of the other kind is no time of this column.

    >>> instants([dt.date(1970, 1, 2), "1970-01-01T00:00:01", "1970-01-01T00:00:01Z"])
    ([86400000000, 1000000, None], True, False)
    >>> instants([3, 4.0, 4.5])
    ([3, 4, None], False, None)
    """
    listed = [plain(value) for value in values]
    first = next((value for value in listed if not is_missing(value)), None)
    if first is None:
        return [None] * len(listed), None, None
    if not (isinstance(first, dt.date) or (isinstance(first, str) and not _reads_whole(first))):
        return [None if is_missing(value) else whole(value) for value in listed], False, None
    found = [None if is_missing(value) else moment(value) for value in listed]
    zoned = next((one[1] for one in found if one is not None), False)
    return [None if one is None or one[1] != zoned else one[0] for one in found], True, zoned


def moment(value: Any) -> tuple[int, bool] | None:
    """Return a date, time or ISO text as microseconds since 1970, and whether it has a zone.

    A time with a zone is counted in UTC, one without as it is written. None: it is no time.

    >>> moment("1970-01-01T01:00+01:00"), moment("1970-01-01"), moment("tomorrow")
    ((0, True), (0, False), None)
    """
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, dt.datetime):
        zoned = value.utcoffset() is not None
        try:
            held = value if zoned else value.replace(tzinfo=dt.UTC)
            return int((held - _EPOCH) // dt.timedelta(microseconds=1)), zoned
        except OverflowError:  # before the year 1 in UTC
            return None
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days * 86_400_000_000, False
    return None


def number_label(number: Any) -> str | int | float:
    """Return a number as the name of a group: whole where it is, JSON in any case.

    >>> number_label(2.0), number_label(Decimal("0.5")), number_label(math.inf)
    (2, 0.5, 'inf')
    """
    if isinstance(number, int):
        return number
    try:
        whole = int(number)
    except (OverflowError, ValueError):
        return str(float(number))
    if whole == number and (abs(whole) < 2**53 or not isinstance(number, float)):
        return whole
    try:
        held = float(number) + 0.0
    except OverflowError:
        return str(number)
    return int(held) if held.is_integer() and abs(held) < 2**53 else held


def whole(value: Any) -> int | None:
    """Return a whole number, however it is written, None if it is none.

    >>> whole(3.0), whole("-7"), whole(2.5)
    (3, -7, None)
    """
    if isinstance(value, str):
        return int(value) if _reads_whole(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    if not -LARGEST < value < LARGEST:
        return None
    number = int(value)
    return number if number == value else None


def _reads_whole(text: str) -> bool:
    digits = text.strip().removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) < 19


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


def as_float(value: Any) -> float | None:
    """Return a number as a float; NaN, and what lies beyond all floats, is none.

    >>> as_float("1.5"), as_float(math.nan), as_float(10**400)
    (1.5, None, None)
    """
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return None if math.isnan(number) else number
