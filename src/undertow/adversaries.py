"""Who attacks: how much of the other records the attacker knows.

``"any"`` knows any set of other records (Bayesian differential privacy), ``"ignorant"`` none
(Pufferfish as in [wang2016]), ``"informed"`` all of them (plain differential privacy). An
`Adversary` is one explicit target and set of known records.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from undertow.errors import InvalidInput
from undertow.numerics import check_count

__all__ = ["Adversary", "Against", "check_against", "words"]

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
