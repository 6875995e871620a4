"""Who attacks: how much of the other records the attacker knows.

``"any"`` knows any set of other records (Bayesian differential privacy), ``"ignorant"`` none
(Pufferfish as in [wang2016]), ``"informed"`` all of them (plain differential privacy). An
`Adversary` is one explicit target and set of known records. `Secrets` says what must stay hidden:
values of one record, or the whole history of a `Window` of records in a row.
"""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from undertow.errors import InvalidInput
from undertow.numerics import check_count, shown
from undertow.queries import State

__all__ = [
    "EVERYTHING",
    "ONE_RECORD",
    "Adversary",
    "Against",
    "Secrets",
    "Window",
    "check_against",
    "check_window",
    "words",
]

Named = Literal["any", "ignorant", "informed"]


@dataclass(frozen=True, slots=True)
class Adversary:
    """One attacker: wants record ``target``, knows the records ``known`` (0-based).

    Leakage against it is the worst case over the values of the known records.

    >>> Adversary(3, known=[0, 5])
    Adversary(target=3, known=(0, 5))
    """

    target: int
    known: tuple[int, ...] = ()

    def __init__(self, target: int, known: Iterable[int] = ()) -> None:
        """Sort and check the records."""
        target = check_count(target, "target", 0)
        try:
            listed = list(known)
        except TypeError as error:
            raise InvalidInput(
                f"known must be a list of records, found {type(known).__name__}; write known=[5]"
            ) from error
        records = tuple(sorted(check_count(record, "known record", 0) for record in listed))
        if len(set(records)) != len(records):
            raise InvalidInput("a known record is listed twice; list each once")
        if target in records:
            raise InvalidInput(f"record {target} is both target and known; leave it out of known")
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "known", records)


Against = Named | Adversary


def check_against(against: object) -> Against:
    """Return ``against`` if it names an adversary.

    >>> check_against("any")
    'any'
    """
    if isinstance(against, Adversary):
        return against
    words: tuple[Named, ...] = ("any", "ignorant", "informed")
    for word in words:
        if isinstance(against, str) and against == word:
            return word
    raise InvalidInput(
        f"against must be 'any', 'ignorant', 'informed' or an Adversary, found {shown(against)}"
    )


def check_records(against: Against, length: int | None) -> None:
    """Refuse an adversary who names records beyond a series.

    >>> check_records(Adversary(2, [0]), 3)
    """
    if isinstance(against, Adversary) and length is not None:
        last = max((against.target, *against.known))
        if last >= length:
            raise InvalidInput(
                f"the adversary names record {last}, but there are {length} records, counted from 0"
            )


def check_window(window: "Window", against: Against, length: int | None) -> None:
    """Refuse a window that does not fit into a series, or of which the adversary knows records.

    An `Adversary` names the first record of the window as its target.

    >>> check_window(Window(2), Adversary(2, [0]), 4)
    """
    size = window.records
    if length is not None and size > length:
        raise InvalidInput(
            f"the window has {size} records, but a series has {length}; protect at most "
            f"Window({length}), or whole persons with unit='person'"
        )
    if not isinstance(against, Adversary) or size == 1:
        return
    last = against.target + size - 1
    inside = [record for record in against.known if against.target < record <= last]
    if inside:
        raise InvalidInput(
            f"the adversary knows record {inside[0]} of the window that it wants, records "
            f"{against.target} to {last}; leave it out of known"
        )
    if length is not None and last >= length:
        raise InvalidInput(
            f"the window that the adversary wants ends at record {last}, but there are {length} "
            "records, counted from 0"
        )


def within(against: Against, records: Sequence[int]) -> Against:
    """Return the adversary as seen from a part of the records, whose record i is ``records[i]``.

    >>> within(Adversary(5, [2, 9]), records=[2, 5])
    Adversary(target=1, known=(0,))
    """
    if not isinstance(against, Adversary):
        return against
    place = {record: number for number, record in enumerate(records)}
    known = [place[record] for record in against.known if record in place]
    return Adversary(place[against.target], known)


def words(against: Against, window: int = 1) -> str:
    """Return the adversary in plain words; ``window`` counts the records that are wanted.

    >>> words("informed")
    'an attacker who knows all other records'
    >>> words(Adversary(3, [0]), window=12)
    'an attacker who wants records 3 to 14 and knows 0'
    """
    if isinstance(against, Adversary):
        known = ", ".join(map(str, against.known)) or "no other record"
        wanted = f"record {against.target}"
        if window > 1:
            wanted = f"records {against.target} to {against.target + window - 1}"
        return f"an attacker who wants {wanted} and knows {known}"
    return {
        "any": "an attacker who knows any other records",
        "ignorant": "an attacker who knows no other record",
        "informed": "an attacker who knows all other records",
    }[against]


_UNITS = {"us": 1, "ms": 1000, "s": 10**6, "m": 6 * 10**7, "h": 36 * 10**8,
          "d": 864 * 10**8, "w": 7 * 864 * 10**8}  # fmt: skip
"""Microseconds of each unit of time."""

_DURATION = re.compile(
    r"(\d+)\s*(?:(us|ms)|(s|m|h|d|w|(?:second|minute|hour|day|week)s?|min))", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Window:
    """So many records in a row, whose whole history is the secret: "the hour from ten to eleven".

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
            object.__setattr__(self, "records", check_count(records, "the window", 1))
            return
        if every is None:
            raise InvalidInput(
                f"the window {str(records)[:40]!r} is a duration: say how far apart records are, "
                "Window('1 hour', every='5m'), or count its records, Window(12)"
            )
        steps = Fraction(_lasting(records, "the window"), _lasting(every, "every"))
        object.__setattr__(self, "records", -(-steps.numerator // steps.denominator))

    def words(self) -> str:
        """Return the window in words that follow "of".

        >>> Window(12).words(), Window(1).words()
        ('12 records in a row', 'one record')
        """
        return "one record" if self.records == 1 else f"{self.records} records in a row"


ONE_RECORD = Window(1)
"""What is protected unless something else is asked for."""


def _lasting(duration: object, what: str) -> int:
    """Return a duration in microseconds."""
    found = _DURATION.fullmatch(duration.strip()) if isinstance(duration, str) else None
    size = int(found[1]) * _UNITS[(found[2] or found[3][0]).lower()] if found else 0
    if isinstance(duration, dt.timedelta):
        size = duration // dt.timedelta(microseconds=1)
    if size <= 0:
        raise InvalidInput(
            f"{what} must be a duration such as '30s', '5m', '1 hour' or '1 day', found "
            f"{str(duration)[:40]!r}"
        )
    return size


@dataclass(frozen=True, slots=True)
class Secrets:
    """What must stay hidden: which pairs of values, of which records; None means all.

    A pair is unordered: neither value may be told from the other. A ``window`` of more than one
    record hides any two histories of so many records in a row, wherever they are.

    >>> Secrets(pairs=[("walk", "run")], records=[3]).words()
    "between 'walk' and 'run' of record 3"
    >>> Secrets(window=12).words()
    'between any two histories of 12 records in a row'
    """

    pairs: tuple[tuple[State, State], ...] | None = None
    records: tuple[int, ...] | None = None
    window: int = 1

    def __init__(self, pairs: Any = None, records: Any = None, window: int = 1) -> None:
        """Check both lists."""
        object.__setattr__(self, "pairs", None if pairs is None else _pairs(pairs))
        object.__setattr__(self, "records", None if records is None else _records(records))
        object.__setattr__(self, "window", check_count(window, "the window", 1))
        if window > 1 and (pairs is not None or records is not None):
            raise InvalidInput(
                "a window hides the whole history of any records in a row: leave pairs and the "
                "numbers of records out"
            )

    @classmethod
    def asked(cls, pairs: Any, protect: Any) -> "Secrets":
        """Return the secrets of a question; ``protect`` is a `Window`, or a list of records.

        >>> Secrets.asked(None, Window(3)).window, Secrets.asked(None, [5]).records
        (3, (5,))
        """
        if isinstance(protect, Window):
            return cls(pairs, None, protect.records)
        return cls(pairs, protect)

    @property
    def protect(self) -> "Window | tuple[int, ...] | None":
        """What `asked` was told: a window, some records, or None for one record, any of them."""
        return Window(self.window) if self.window > 1 else self.records

    @property
    def everything(self) -> bool:
        """Whether all values of all records are secret, one record at a time."""
        return self.pairs is None and self.records is None and self.window == 1

    def words(self) -> str:
        """Return what is hidden, in words that follow "the odds"."""
        if self.window > 1:
            return f"between any two histories of {Window(self.window).words()}"
        which = "between any two values"
        if self.pairs is not None:
            shown = [f"{x!r} and {y!r}" for x, y in self.pairs[:6]]
            more = f" (and {len(self.pairs) - 6} more pairs)" if len(self.pairs) > 6 else ""
            which = "between " + " or ".join(shown) + more
        if self.records is None:
            return f"{which} of one record"
        shown = [str(record) for record in self.records[:8]]
        more = f" (and {len(self.records) - 8} more)" if len(self.records) > 8 else ""
        return f"{which} of record {' or '.join(shown)}{more}"


EVERYTHING = Secrets()
"""All values of all records are secret."""


def _pairs(pairs: Any) -> tuple[tuple[State, State], ...]:
    form = "pairs must be a list of pairs of states such as [('walk', 'run')]"
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


def _records(records: Any) -> tuple[int, ...]:
    try:
        listed = sorted({check_count(record, "protected record", 0) for record in records})
    except TypeError as error:
        raise InvalidInput(
            f"protect must be a list of records or a Window, found {type(records).__name__}; write "
            "protect=[5] or protect=Window(12)"
        ) from error
    if not listed:
        raise InvalidInput("protect is empty: name at least one record, or leave it out for all")
    return tuple(listed)
