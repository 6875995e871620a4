"""Which records an entry touches, in names that mean the same in every file."""

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from undertow.data.columns import iso
from undertow.errors import InvalidInput
from undertow.numerics import check_count, check_listed

__all__ = ["HIGH", "LOW", "Scope", "as_scope", "check_name", "group_key"]

LOW, HIGH = -(2**63), 2**63 - 1
"""The ends of time: what an open end of a window is stored as."""

LONGEST = 200
"""Characters in a name."""

_RATIO = re.compile(r"-?[0-9]+/[0-9]+")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[t ].*)?")

_MICROSECONDS = "microseconds of "
"""Origin of the clock of a column of times."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The records that an entry touches: some groups of one partition, start <= time < end.

    None stands for all. Groups of the same ``by`` are disjoint; groups by another column are
    taken to touch everything in the window. ``clock`` says what the whole numbers of a window
    count; windows on another clock are taken to touch all times.

    >>> Scope("cohort", ["A", 7.0], start=0, end=52).groups
    ('7', 'a')
    """

    by: str | None
    groups: tuple[str, ...] | None
    start: int | None
    end: int | None
    clock: str

    def __init__(
        self,
        by: str | None = None,
        groups: Iterable[object] | None = None,
        start: int | None = None,
        end: int | None = None,
        clock: str = "time",
    ) -> None:
        """Check and normalise: groups become sorted keys."""
        listed = None if groups is None else check_listed(groups, "groups")
        keys = None if listed is None else tuple(sorted({group_key(name) for name in listed}))
        if keys is not None and by is None:
            raise InvalidInput("groups are given without by, the column that forms them; name it")
        if keys == ():
            raise InvalidInput("groups is empty: name at least one, or leave it out for all")
        first, last = _moment(start, "start"), _moment(end, "end")
        if first is not None and last is not None and first >= last:
            raise InvalidInput(
                f"a window is start <= time < end, found start {first} and end {last}; "
                "an entry must touch at least one moment"
            )
        fields = {
            "by": None if by is None else check_name(by, "by"),
            "groups": keys, "start": first, "end": last, "clock": check_name(clock, "clock"),
        }  # fmt: skip
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        groups = None if self.groups is None else list(self.groups)
        return {name: getattr(self, name) for name in self.__slots__} | {"groups": groups}

    @classmethod
    def stored(cls, fields: dict[str, Any]) -> "Scope":
        """Return a scope as it was recorded, its groups unchanged: other names are other cells.

        >>> Scope.stored(Scope("cohort", ["a"], 0, 7).to_dict()).groups
        ('a',)
        """
        groups, start, end = fields["groups"], fields["start"], fields["end"]
        keys = None if groups is None else tuple(groups)
        ends = [moment for moment in (start, end) if moment is not None]
        if (
            (keys is not None and (not keys or not all(type(key) is str for key in keys)))
            or not all(type(end) is int and LOW < end < HIGH for end in ends)
            or sorted(set(ends)) != ends
            or len(fields) != 5
        ):
            raise ValueError("no scope")
        scope = object.__new__(cls)
        own = {**fields, "groups": keys}
        for name in ("by", "groups", "start", "end", "clock"):
            object.__setattr__(scope, name, own[name])
        return scope

    def words(self) -> str:
        """Return the records in words, clock times as dates.

        >>> Scope("cohort", ["a"], start=0).words()
        'cohort a, time from 0'
        >>> Scope(start=0, end=86_400_000_000, clock="microseconds of ts").words()
        'all groups, ts from 1970-01-01 before 1970-01-02'
        """
        shown = [] if self.groups is None else list(self.groups[:6])
        more = f" and {len(self.groups) - 6} more" if self.groups and len(self.groups) > 6 else ""
        which = f"{self.by} {', '.join(shown)}{more}" if shown else "all groups"
        ends = (("from", self.start), ("before", self.end))
        bounds = [(word, end) for word, end in ends if end is not None]
        if not bounds:
            return f"{which}, all times"
        clock, times = self.clock, [str(end) for _, end in bounds]
        if clock.startswith(_MICROSECONDS):
            clock, times = clock.removeprefix(_MICROSECONDS), _dates([end for _, end in bounds])
        window = [f"{word} {time}" for (word, _), time in zip(bounds, times, strict=True)]
        return " ".join([f"{which}, {clock}", *window])


def as_scope(scope: Scope | None) -> Scope:
    """Return a scope; by default that of all records."""
    if scope is None or isinstance(scope, Scope):
        return scope or Scope()
    raise InvalidInput(f"a Scope(by, groups, start, end) is required, found {type(scope).__name__}")


@runtime_checkable
class _Scalar(Protocol):
    """A number of NumPy, alone or in an array."""

    size: int

    def item(self) -> Any:
        """Return the number as Python has it."""


def group_key(name: object) -> str:
    """Return the name of a group as the ledger knows it.

    Names that could mean the same group in two files are the same: ``1``, ``"1"``, ``1.0`` and
    ``" 01"``; ``"A"`` and ``"a"``; a day, its ISO text and its midnight; numbers that are the same
    float. Treating two groups as one costs budget, the opposite would spend a record's budget
    twice.

    >>> [group_key(name) for name in (1, "01", 1.0, True, " A", "b2", "0.10", date(2025, 1, 6))]
    ['1', '1', '1', 'true', 'a', 'b2', '1/10', '2025-01-06']
    """
    plain = name.item() if isinstance(name, _Scalar) and name.size == 1 else name
    if not isinstance(plain, str | int | float | date):
        raise InvalidInput(
            f"a group is named by a text, a number or a date, found {type(name).__name__}"
        )
    try:
        text = _folded(str(plain))
    except ValueError:  # thousands of digits
        raise InvalidInput(f"the name of a group has at most {LONGEST} characters") from None
    if len(text) > LONGEST:
        raise InvalidInput(f"the name of a group has {len(text)} characters, at most {LONGEST} fit")
    return _number_key(text) or _time_key(text) or text


def _number_key(text: str) -> str | None:
    """Return the key of a number: whole ones exactly, others as the float that they are."""
    try:
        number = Fraction(text) if _RATIO.fullmatch(text) else Decimal(text)
        if not number:
            return "0"
        if isinstance(number, Decimal) and number.is_finite():
            if number.adjusted() >= LONGEST:  # too long to write out
                return repr(float(number))
            number = Fraction(number) if number.adjusted() > -LONGEST else number
        if isinstance(number, Fraction) and number.denominator == 1:
            exact = str(number.numerator)
            return exact if len(exact) <= LONGEST else repr(float(number))
        value = float(number)
    except (InvalidOperation, ValueError, OverflowError, ZeroDivisionError):
        return None
    if math.isnan(value):
        return None
    if math.isinf(value):
        return repr(value)
    exact = str(Fraction(Decimal(repr(value))))
    return exact if len(exact) <= LONGEST else repr(value)


def _time_key(text: str) -> str | None:
    """Return the key of a date or time, in UTC where it has a zone; midnight is the day."""
    if not _TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
        if moment.utcoffset() is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None
    return (moment.date() if moment.time() == time() else moment).isoformat().casefold()


def check_name(name: object, what: str) -> str:
    """Return a name that every database can hold and every terminal can show."""
    if not isinstance(name, str) or not name.isprintable() or not name or name != name.strip():
        raise InvalidInput(f"{what} must be a printable text without blanks around it")
    if len(name) > LONGEST:
        raise InvalidInput(f"{what} has {len(name)} characters; at most {LONGEST} fit")
    return unicodedata.normalize("NFC", name)


def _folded(text: str) -> str:
    """Return a text without case, outer blanks and variants of encoding; twice is once."""
    for _ in range(9):
        folded = unicodedata.normalize("NFC", text.casefold()).strip()
        if folded == text:
            break
        text = folded
    return text


def _dates(moments: list[int]) -> list[str]:
    """Return microseconds since 1970 as days, or as times where one of them is not midnight."""
    day = not any(moment % 86_400_000_000 for moment in moments)
    return [iso(moment, day=day) for moment in moments]


def _moment(value: int | None, name: str) -> int | None:
    if value is None:
        return None
    number = check_count(value, f"{name} of a window", LOW + 1)
    if number >= HIGH:
        raise InvalidInput(f"{name} of a window must fit 64 bits; leave it out for an open end")
    return number
