"""Secrets: the values of a record, of some records, of a window, or of a person.

A question, a certificate and a plan file each carry one `Secret`; by default any two values of any
one record must not be told apart. `Pairs` and `Records` narrow that down, `Window` and `Person`
hide whole histories.
"""

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from undertow.errors import InvalidInput
from undertow.models.records import microseconds
from undertow.numerics import check_count, shown
from undertow.queries import State

__all__ = [
    "ONE_RECORD",
    "Pairs",
    "Person",
    "Records",
    "Secret",
    "Window",
    "check_secret",
    "secret_from_dict",
]

_DURATION = re.compile(
    r"(\d+)\s*(?:(us|ms)|(s|m|h|d|w|(?:second|minute|hour|day|week)s?|min))", re.IGNORECASE
)

_SHOWN_PAIRS, _SHOWN_RECORDS = 6, 8
"""Pairs and records that a sentence lists."""


class Secret:
    """Base class of secrets."""

    __slots__ = ()

    @property
    def window(self) -> int:
        """The number of records in a row whose history is secret; 1 for the value of a record."""
        return 1

    @property
    def targets(self) -> tuple[int, ...] | None:
        """The records whose values are secret, counted from 0; None for all."""
        return None

    @property
    def value_pairs(self) -> tuple[tuple[State, State], ...] | None:
        """The pairs of values that must not be told apart; None for all."""
        return None

    @property
    def person(self) -> bool:
        """Whether all records of a person are secret together."""
        return False

    def words(self) -> str:
        """Return the secret in words that follow "the odds"."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description, read by `secret_from_dict`."""
        raise NotImplementedError


MOST_RECORDS = 1_000_000
"""Records of a window at most (time and memory of the proof: half a minute, half a gigabyte)."""


@dataclass(frozen=True, slots=True)
class Window(Secret):
    """The whole history of several records in a row, wherever they are: "the hour from ten".

    Given as a number of records, or as a duration with the time between two records, ``every``;
    a duration that is no multiple of it counts every record that it can touch. A window of one
    record is that record.

    >>> Window(12), Window("1 hour", every="5m")
    (Window(records=12), Window(records=12))
    """

    records: int

    def __init__(
        self, records: int | str | dt.timedelta, every: str | dt.timedelta | None = None
    ) -> None:
        """Count the records."""
        if not isinstance(records, str | dt.timedelta):
            if every is not None:
                raise InvalidInput(
                    "every belongs to a duration: write Window(12), or Window('1 hour', every='5m')"
                )
            most = MOST_RECORDS
            object.__setattr__(self, "records", check_count(records, "the window", 1, most))
            return
        if every is None:
            raise InvalidInput(
                f"the window {str(records)[:40]!r} is a duration: say how far apart records are, "
                "Window('1 hour', every='5m'), or count its records, Window(12)"
            )
        steps = Fraction(_microseconds(records, "the window"), _microseconds(every, "every"))
        count = -(-steps.numerator // steps.denominator)
        object.__setattr__(self, "records", check_count(count, "the window", 1, MOST_RECORDS))

    @property
    def window(self) -> int:
        """The number of records."""
        return self.records

    def length_words(self) -> str:
        """Return the window in words that follow "of".

        >>> Window(12).length_words(), Window(1).length_words()
        ('12 records in a row', 'one record')
        """
        return "one record" if self.records == 1 else f"{self.records} records in a row"

    def words(self) -> str:
        """Return the secret in words that follow "the odds".

        >>> Window(12).words()
        'between any two histories of 12 records in a row'
        """
        if self.records == 1:
            return "between any two values of one record"
        return f"between any two histories of {self.length_words()}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {"kind": "window", "records": self.records}


ONE_RECORD = Window(1)
"""The default secret: any two values of any one record."""


@dataclass(frozen=True, slots=True)
class Person(Secret):
    """All records of one person together, whatever the dependence among them.

    Persons are taken to be independent of each other, and to have at most as many records as the
    model says.

    >>> Person().words()
    'between any two histories of one person'
    """

    @property
    def person(self) -> bool:
        """True."""
        return True

    def words(self) -> str:
        """Return the secret in words that follow "the odds"."""
        return "between any two histories of one person"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {"kind": "person"}


@dataclass(frozen=True, slots=True)
class Records(Secret):
    """The values of some records (counted from 0), one record at a time.

    >>> Records([17, 3]), Records([17]).words()
    (Records(records=(3, 17)), 'between any two values of record 17')
    """

    records: tuple[int, ...]

    def __init__(self, records: Iterable[int]) -> None:
        """Sort and check the records."""
        object.__setattr__(self, "records", _listed_records(records))

    @property
    def targets(self) -> tuple[int, ...]:
        """The records."""
        return self.records

    def words(self) -> str:
        """Return the secret in words that follow "the odds"."""
        return f"between any two values of {_record_words(self.records)}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {"kind": "records", "records": list(self.records)}


@dataclass(frozen=True, slots=True)
class Pairs(Secret):
    """Pairs of values that must not be told apart, of any record or of the ``records`` named.

    A pair is unordered. Values that no pair connects may be told apart.

    >>> Pairs([("walk", "run")]).words()
    "between 'walk' and 'run' of one record"
    >>> Pairs([("walk", "run")], records=[3]).words()
    "between 'walk' and 'run' of record 3"
    """

    pairs: tuple[tuple[State, State], ...]
    records: tuple[int, ...] | None = None

    def __init__(
        self, pairs: Iterable[tuple[State, State]], records: Iterable[int] | None = None
    ) -> None:
        """Check both lists."""
        object.__setattr__(self, "pairs", _listed_pairs(pairs))
        numbers = None if records is None else _listed_records(records)
        object.__setattr__(self, "records", numbers)

    @property
    def targets(self) -> tuple[int, ...] | None:
        """The records; None for all."""
        return self.records

    @property
    def value_pairs(self) -> tuple[tuple[State, State], ...]:
        """The pairs."""
        return self.pairs

    def words(self) -> str:
        """Return the secret in words that follow "the odds"."""
        some = [f"{x!r} and {y!r}" for x, y in self.pairs[:_SHOWN_PAIRS]]
        rest = len(self.pairs) - _SHOWN_PAIRS
        more = f" (and {rest} more pairs)" if rest > 0 else ""
        whose = "one record" if self.records is None else _record_words(self.records)
        return f"between {' or '.join(some)}{more} of {whose}"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        records = None if self.records is None else list(self.records)
        return {"kind": "pairs", "pairs": [list(pair) for pair in self.pairs], "records": records}


def check_secret(secret: object) -> Secret:
    """Return the secret of a question, any one record by default; refuse anything else.

    >>> check_secret(None), check_secret(Window(3))
    (Window(records=1), Window(records=3))
    """
    if secret is None:
        return ONE_RECORD
    if isinstance(secret, Secret):
        return secret
    raise InvalidInput(
        "secret must be Window(12), Person(), Pairs([('walk', 'run')]) or Records([17]), found "
        f"{shown(secret)}; leave it out for any value of any one record"
    )


def secret_from_dict(description: dict[str, Any]) -> Secret:
    """Return the secret described by its ``to_dict``; refuse anything else.

    >>> secret_from_dict(Pairs([("walk", "run")]).to_dict())
    Pairs(pairs=(('walk', 'run'),), records=None)
    """
    described = {**description}
    kind = described.pop("kind", None)
    match kind, sorted(described):
        case "window", ["records"] if isinstance(described["records"], int):
            return Window(described["records"])
        case "person", []:
            return Person()
        case "records", ["records"]:
            return Records(described["records"])
        case "pairs", ["pairs", "records"]:
            return Pairs(described["pairs"], described["records"])
    raise InvalidInput(
        "a secret is of kind 'window' or 'records' with its records, of kind 'pairs' with its "
        "pairs and records, or of kind 'person'; found another"
    )


def _record_words(records: tuple[int, ...]) -> str:
    """Return a list of records in words."""
    some = " or ".join(map(str, records[:_SHOWN_RECORDS]))
    rest = len(records) - _SHOWN_RECORDS
    return f"record {some}" + (f" (and {rest} more)" if rest > 0 else "")


def _microseconds(duration: object, what: str) -> int:
    """Return a duration in microseconds."""
    match = _DURATION.fullmatch(duration.strip()) if isinstance(duration, str) else None
    size = microseconds(f"{match[1]}{match[2] or match[3][0]}".lower()) if match else None
    if isinstance(duration, dt.timedelta):
        size = duration // dt.timedelta(microseconds=1)
    if size is None or size <= 0:
        raise InvalidInput(
            f"{what} must be a duration such as '30s', '5m', '1 hour' or '1 day', found "
            f"{str(duration)[:40]!r}"
        )
    return size


def _listed_pairs(pairs: Any) -> tuple[tuple[State, State], ...]:
    """Return different pairs of different states, in order."""
    form = "Pairs needs a list of pairs of states such as [('walk', 'run')]"
    if isinstance(pairs, str):
        raise InvalidInput(f"{form}; found one string")
    try:
        listed = [() if isinstance(pair, str) else tuple(pair) for pair in pairs]
    except TypeError as error:
        raise InvalidInput(f"{form}; found something else") from error
    if not listed or any(len(pair) != 2 for pair in listed):
        raise InvalidInput(f"{form}; found an empty list, or an entry that is no pair")
    try:
        hash(tuple(listed))
    except TypeError as error:
        raise InvalidInput(f"{form}; found states that are no hashables") from error
    if any(x == y for x, y in listed):
        raise InvalidInput("a pair names the same state twice; name two different states")
    distinct = {frozenset(pair): pair for pair in reversed(listed)}
    return tuple((x, y) for x, y in reversed(distinct.values()))


def _listed_records(records: Any) -> tuple[int, ...]:
    """Return different records in order."""
    try:
        listed = sorted({check_count(record, "secret record", 0) for record in records})
    except TypeError as error:
        raise InvalidInput(
            f"Records needs a list of records, found {type(records).__name__}; write Records([5]), "
            "or Window(12) for records in a row"
        ) from error
    if not listed:
        raise InvalidInput("no record is named: name at least one, or leave the secret out for all")
    return tuple(listed)
