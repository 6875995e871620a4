"""Exact sums of what releases have spent on a record, rounded outwards when reported.

Three currencies add up over releases that touch a record, each on its own: DP levels, the squares
of the mu of Gaussian differential privacy, and the rho of zero-concentrated differential privacy.
A point guarantee (epsilon, delta) adds its epsilon to the levels and its delta to a sum of deltas.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["NOTHING", "Spend", "highest", "root_up", "round_down", "round_up", "worst"]

_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Spend:
    """Spend of one record: exact sums over all entries that touch it.

    ``level`` of DP levels, ``squares`` of mu^2 (GDP: Gaussian noise), ``rho`` of what is only zCDP,
    ``delta`` of point guarantees. ``held`` and ``rare`` are the level and the delta that were spent
    when noise without a level began, ``dense`` whether zCDP was among it: what comes after it is
    granted beside these (`undertow.ledger.rules`), also if they are given back.

    >>> both = Spend(Fraction(1, 4)) + Spend(squares=Fraction(1, 289))
    >>> str(both), str(both + Spend(Fraction(1, 4)))
    ('1/4;1/289;0;0;1/4;0;0', '1/2;1/289;0;0;1/4;0;0')
    """

    level: Fraction = _ZERO
    squares: Fraction = _ZERO
    rho: Fraction = _ZERO
    delta: Fraction = _ZERO
    held: Fraction = _ZERO
    rare: Fraction = _ZERO
    dense: bool = False

    @property
    def noisy(self) -> bool:
        """Whether there is noise in it that has no DP level."""
        return bool(self.squares or self.rho)

    @property
    def pure(self) -> bool:
        """Whether it is a DP level and nothing else."""
        if self.squares is _ZERO and self.rho is _ZERO and self.delta is _ZERO:
            return True  # as most are: looked at first, because a ledger adds up many
        return not (self.squares or self.rho or self.delta)

    @property
    def mu(self) -> float:
        """The mu of all that is GDP together, rounded up."""
        return root_up(self.squares)

    def __add__(self, more: "Spend") -> "Spend":
        """Return what is spent when more is spent after this, or given back."""
        if self.pure and more.pure:
            return Spend(self.level + more.level)
        level, squares, rho, delta = (
            a + b for a, b in zip(self.parts(), more.parts(), strict=True)
        )
        begun = (level, delta, bool(rho))
        if self.noisy:
            begun = self.begun()
        if not squares and not rho:
            begun = (_ZERO, _ZERO, False)
        return Spend(level, squares, rho, delta, *begun)

    def __neg__(self) -> "Spend":
        """Return what gives this back."""
        if self.pure:
            return Spend(-self.level)
        return Spend(-self.level, -self.squares, -self.rho, -self.delta)

    def __bool__(self) -> bool:
        """Return whether anything is spent."""
        return bool(self.level) or not self.pure

    def __str__(self) -> str:
        """Return the one text of it: of a DP level just that, else all parts.

        >>> str(Spend(Fraction(1, 4))), str(Spend(rho=Fraction(1, 8)))
        ('1/4', '0;0;1/8;0;0;0;0')
        """
        all_parts = (*self.parts(), self.held, self.rare, int(self.dense))
        return str(self.level) if self.pure else ";".join(map(str, all_parts))

    @classmethod
    def read(cls, text: str) -> "Spend":
        """Parse the canonical text of a spend, or raise ValueError.

        >>> Spend.read("1/4").level, Spend.read("0;0;1/8;0;0;0;1").rho
        (Fraction(1, 4), Fraction(1, 8))
        """
        level, *others = text.split(";")
        spend = cls(Fraction(level))
        if others:
            squares, rho, delta, held, rare, dense = map(Fraction, others)
            spend = cls(spend.level, squares, rho, delta, held, rare, bool(dense))
        if str(spend) != text or spend.negative:
            raise ValueError("no spend")
        return spend

    @property
    def negative(self) -> bool:
        """Whether more was given back than was spent of anything."""
        return self.level < 0 or not (self.pure or min(self.parts()) >= 0)

    def parts(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """Return level, squares, rho and delta."""
        return self.level, self.squares, self.rho, self.delta

    def begun(self) -> tuple[Fraction, Fraction, bool]:
        """Return what was fixed when noise without a level began."""
        return self.held, self.rare, self.dense

    def covers(self, other: "Spend") -> bool:
        """Return whether what fits beside this fits beside the other: alike, and not more of it."""
        alike = self.noisy == other.noisy and self.begun() == other.begun()
        return alike and all(a >= b for a, b in zip(self.parts(), other.parts(), strict=True))


NOTHING = Spend()
"""Spend of a record that no release has touched."""


def worst(spends: Iterable[Spend]) -> tuple[Spend, ...]:
    """Return the spends that no other one covers; of DP levels alone that is the largest.

    What fits beside each of them fits beside all. () for none.

    >>> half, noisy = Spend(Fraction(1, 2)), Spend(squares=Fraction(1, 4))
    >>> [str(one) for one in worst([half, noisy, Spend(Fraction(1, 3))])]
    ['1/2', '0;1/4;0;0;0;0;0']
    """
    largest: Spend | None = None  # of the levels alone, which are most, and which have an order
    mixed: set[Spend] = set()
    for spend in spends:
        if not spend.pure:
            mixed.add(spend)
        elif largest is None or spend.level > largest.level:
            largest = spend
    candidates = [] if largest is None else [largest]
    if not mixed:
        return tuple(candidates)
    kept: list[Spend] = []  # whatever covers a spend comes before it in this order
    for spend in sorted([*candidates, *mixed], key=Spend.parts, reverse=True):
        if not any(before.covers(spend) for before in kept):
            kept.append(spend)
    return tuple(kept)


def highest(spends: Iterable[Spend]) -> Spend:
    """Return the largest of each part, whichever record has it.

    >>> str(highest([Spend(Fraction(1, 2)), Spend(Fraction(1, 3), Fraction(1, 4))]))
    '1/2;1/4;0;0;0;0;0'
    """
    parts = [spend.parts() for spend in (NOTHING, *spends)]
    return Spend(*map(max, zip(*parts, strict=True)))


def root_up(square: Fraction) -> float:
    """Return a float whose square is not below a fraction: the least, where squares are floats.

    >>> root_up(Fraction(1, 4)), Fraction(root_up(Fraction(2))) ** 2 > 2
    (0.5, True)
    """
    root = math.sqrt(round_up(square))
    while math.isfinite(root) and Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    for _ in range(2):  # the square was rounded up, and then its root to nearest
        below = math.nextafter(root, 0.0)
        if math.isfinite(root) and Fraction(below) ** 2 >= square:
            root = below
    return root


def round_up(value: Fraction) -> float:
    """Return the least float that is not below a fraction.

    >>> Fraction(round_up(Fraction(1, 3))) > Fraction(1, 3), round_up(Fraction(1, 4))
    (True, 0.25)
    """
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def round_down(value: Fraction) -> float:
    """Return the largest float that is not above a fraction, and at least 0.

    >>> round_down(Fraction(1, 3)) < 1 / 3 + 1e-16, round_down(Fraction(-1))
    (True, 0.0)
    """
    return max(0.0, -round_up(-value))
