"""How often each state is followed by each: what chains and synthetic series are made of."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

from undertow.base_query import BaseQuery, State, known
from undertow.errors import NotSupported
from undertow.numerics import up

__all__ = ["Transitions"]


@dataclass(frozen=True, slots=True)
class Transitions(BaseQuery):
    """The number of times that a record in state x is followed by one in state y, for all x, y.

    N_xy = #{t : x_t = x, x_{t+1} = y}, over pairs of neighbours in one unbroken series of one
    person: no pair crosses a gap, a missing or foreign record, the edge of a window, or the border
    between two groups. A replaced record takes at most two pairs out and puts two in: l1
    sensitivity 4 (2 at the ends of a series). All m records of a person are in m - 1 pairs, and
    move the table by 2 (m - 1).

    >>> Transitions().sensitivity()
    4.0
    >>> Transitions().evaluate(list("aabab"), ("a", "b"))
    [1, 2, 1, 0]
    """

    kind: ClassVar[str] = "transitions"
    integral: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def numbers(self, states: Sequence[State]) -> int:
        """Return the square of the number of states, or refuse a model that names none."""
        if not states:
            raise NotSupported(
                "this model names no states, and transitions need a model that names the states, "
                "such as a MarkovChain"
            )
        return len(states) ** 2

    def cells(self, states: Sequence[State]) -> tuple[State, ...]:
        """Return the names of the numbers: from and to.

        >>> Transitions().cells(("a", "b"))
        ('a to a', 'a to b', 'b to a', 'b to b')
        """
        return tuple(f"{before} to {after}" for before in states for after in states)

    def told(self, numbers: Sequence[int], states: Sequence[State]) -> Any:
        """Return the table as a dictionary: from, then to.

        >>> Transitions().told([1, 2, 1, 0], ("a", "b"))
        {'a': {'a': 1, 'b': 2}, 'b': {'a': 1, 'b': 0}}
        """
        size = len(states)
        rows = [numbers[start : start + size] for start in range(0, size**2, size)]
        return {
            state: dict(zip(states, row, strict=True))
            for state, row in zip(states, rows, strict=True)
        }

    def listed(self, told: Any, states: Sequence[State]) -> list[tuple[State | None, Any]]:
        """Return the numbers of the table row by row, each with its name."""
        flat = [told[before][after] for before in states for after in states]
        return list(zip(self.cells(states), flat, strict=True))

    def words(self) -> str:
        """Return the question for people."""
        return "number of times that each state is followed by each"

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        return {"kind": self.kind}

    def sensitivity(self, length: int | None = None) -> float:
        """Return 4: two pairs go and two come. Shorter series move less; a plan may meet others."""
        return 4.0

    def euclidean(self, length: int | None = None) -> float:
        """Return the square root of 6, rounded up.

        Four different pairs move by one each (2). The two that go are the same where the record
        and both its neighbours agree, and then the two that come differ: one moves by 2 and two by
        1. The mirror case is alike, and both at once cannot be.
        """
        return up(math.sqrt(6.0))

    def person_upper(self, records: int, length: int | None = None) -> Fraction:
        """Return 2 (m - 1) for all m records of a person: every pair may change."""
        return Fraction(2 * max(records - 1, 1))

    def evaluate(self, records: Sequence[Any], states: tuple[State, ...]) -> list[int]:
        """Return the table row by row (from, then to) of one series."""
        place = {state: index for index, state in enumerate(states)}
        wanted, size = set(states), len(states)
        codes = [place[record] if known(record, wanted) else None for record in records]
        counts = [0] * size**2
        for before, after in pairwise(codes):
            if before is not None and after is not None:
                counts[before * size + after] += 1
        return counts
