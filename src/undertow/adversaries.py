"""Adversaries: the records that an attacker knows beside the target.

``"any"`` knows any set of other records (Bayesian differential privacy), ``"ignorant"`` none
(Pufferfish as in [wang2016]), ``"informed"`` all of them (plain differential privacy). An
`Adversary` is one explicit target and set of known records; `undertow.secrets` has the secrets.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from undertow.errors import InvalidInput
from undertow.numerics import check_count, shown
from undertow.secrets import Window

__all__ = [
    "Adversary",
    "Against",
    "check_against",
    "check_window",
    "every_adversary",
    "words",
]

Named = Literal["any", "ignorant", "informed"]


@dataclass(frozen=True, slots=True)
class Adversary:
    """One attacker, who knows the records ``known`` and attacks record ``target`` (0-based).

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
    """Return ``against``, or refuse it if it is no adversary.

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


def check_window(window: Window, against: Against, length: int | None) -> None:
    """Refuse a window that does not fit into a series, or of which the adversary knows records.

    An `Adversary` names the first record of the window as its target.

    >>> check_window(Window(2), Adversary(2, [0]), 4)
    """
    size = window.records
    if length is not None and size > length:
        raise InvalidInput(
            f"the window has {size} records, but a series has {length}; protect at most "
            f"Window({length}), or whole persons with Person()"
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


def every_adversary(against: Against, length: int) -> Iterator[Adversary]:
    """Yield the adversaries of some records that ``against`` stands for, least knowing first.

    ``any`` stands for length * 2^(length - 1) of them.

    >>> [(each.target, each.known) for each in every_adversary("any", 2)]
    [(0, ()), (1, ()), (0, (1,)), (1, (0,))]
    """
    if isinstance(against, Adversary):
        yield against
        return
    sizes = {"any": range(length), "ignorant": range(1), "informed": range(length - 1, length)}
    for size in sizes[against]:
        for target in range(length):
            others = [record for record in range(length) if record != target]
            for known in combinations(others, size):
                yield Adversary(target, known)


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
