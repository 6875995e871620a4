"""Who attacks: how much of the other records the attacker knows.

``"any"`` knows any set of other records (Bayesian differential privacy), ``"ignorant"`` none
(Pufferfish as in [wang2016]), ``"informed"`` all of them (plain differential privacy). An
`Adversary` is one explicit target and set of known records. `Secrets` says what must stay hidden.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from undertow.errors import InvalidInput
from undertow.numerics import check_count
from undertow.queries import State

__all__ = ["EVERYTHING", "Adversary", "Against", "Secrets", "check_against", "words"]

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
    if against in ("any", "ignorant", "informed"):
        return against
    raise InvalidInput(
        f"against must be 'any', 'ignorant', 'informed' or an Adversary, found {against!r}"
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


def words(against: Against) -> str:
    """Return the adversary in plain words.

    >>> words("informed")
    'an attacker who knows all other records'
    """
    if isinstance(against, Adversary):
        known = ", ".join(map(str, against.known)) or "no other record"
        return f"an attacker who wants record {against.target} and knows {known}"
    return {
        "any": "an attacker who knows any other records",
        "ignorant": "an attacker who knows no other record",
        "informed": "an attacker who knows all other records",
    }[against]


@dataclass(frozen=True, slots=True)
class Secrets:
    """What must stay hidden: which pairs of values, of which records; None means all.

    A pair is unordered: neither value may be told from the other.

    >>> Secrets(pairs=[("walk", "run")], records=[3]).words()
    "between 'walk' and 'run' of record 3"
    """

    pairs: tuple[tuple[State, State], ...] | None = None
    records: tuple[int, ...] | None = None

    def __init__(self, pairs: Any = None, records: Any = None) -> None:
        """Check both lists."""
        object.__setattr__(self, "pairs", None if pairs is None else _pairs(pairs))
        object.__setattr__(self, "records", None if records is None else _records(records))

    @property
    def everything(self) -> bool:
        """Whether all values of all records are secret."""
        return self.pairs is None and self.records is None

    def words(self) -> str:
        """Return what is hidden, in words that follow "the odds"."""
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
    if any(x == y for x, y in listed):
        raise InvalidInput("a pair names the same state twice; name two different states")
    distinct = {frozenset(pair): pair for pair in reversed(listed)}
    return tuple((x, y) for x, y in reversed(distinct.values()))


def _records(records: Any) -> tuple[int, ...]:
    try:
        listed = sorted({check_count(record, "protected record", 0) for record in records})
    except TypeError as error:
        raise InvalidInput(
            f"protect must be a list of records, found {type(records).__name__}; write protect=[5]"
        ) from error
    if not listed:
        raise InvalidInput("protect is empty: name at least one record, or leave it out for all")
    return tuple(listed)
