"""Sources of randomness: the operating system, or, for experiments only, a seed."""

from dataclasses import dataclass

from undertow.errors import InvalidInput
from undertow.numerics import check_count

__all__ = ["Insecure", "Randomness", "Secure", "chosen"]


@dataclass(frozen=True, slots=True)
class Secure:
    """Bits of the operating system's cryptographic source, drawn anew at every call.

    Nothing is kept between calls: no seed, no key, no generator (but for the key of series that a
    ledger has reserved and not recorded, `undertow.ledger.keys`). So a process that was forked,
    restored from a snapshot, or copied together with its number repeats no other's noise. A copy
    made in the middle of a call goes on with the same question about the same records; of the
    copies, a ledger lets one publish.

    >>> Secure().describe()
    'secure'
    """

    def describe(self) -> str:
        """Return the word that releases record."""
        return "secure"


@dataclass(frozen=True, slots=True)
class Insecure:
    """A seeded generator: repeatable, and therefore **not private**.

    Whoever knows or guesses the seed can subtract the noise. For tests and demonstrations.

    >>> Insecure(seed=7).describe()
    'insecure, seed 7'
    """

    seed: int

    def __post_init__(self) -> None:
        """Check the seed."""
        object.__setattr__(self, "seed", check_count(self.seed, "seed", 0))

    def describe(self) -> str:
        """Return the words that releases record."""
        return f"insecure, seed {self.seed}"


Randomness = Secure | Insecure


def chosen(insecure_seed: int | None, *, accounted: bool) -> Randomness:
    """Return secure bits, or seeded ones for an experiment, which no ledger accounts for.

    >>> chosen(None, accounted=True)
    Secure()
    """
    if insecure_seed is None:
        return Secure()
    if accounted:
        raise InvalidInput("seeded noise is not private: a ledger does not account for it")
    return Insecure(insecure_seed)
