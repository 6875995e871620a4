"""How many records are in some states, or in each: the questions whose answers are whole numbers.

The number of records is public. Where missing records are in a state, the numbers of a histogram
add up to it, and one of them follows from the others.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from undertow.base_query import BaseQuery, State, known
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.numerics import check_flag, up

__all__ = ["BinaryHistogram", "Count", "Histogram"]


@dataclass(frozen=True, slots=True)
class Count(BaseQuery):
    """The number of records whose state is one of ``states``.

    F(x) = #{t : x_t in states}. Replacing one record moves it by at most 1. Missing or foreign
    values are not counted.

    >>> Count("active").sensitivity()
    1.0
    >>> Count(["walking", "running"]).states
    ('walking', 'running')
    """

    kind: ClassVar[str] = "count"
    integral: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    states: Any

    def __post_init__(self) -> None:
        """Normalise a single state to a tuple of one."""
        several = isinstance(self.states, list | tuple | set | frozenset)
        states = tuple(self.states) if several else (self.states,)
        if not states:
            raise InvalidInput("a count needs at least one state; pass Count('active')")
        try:
            distinct = len(set(states))
        except TypeError as error:
            raise InvalidInput(
                "states must be names or numbers, or a list of them; found something unhashable"
            ) from error
        if distinct != len(states):
            raise InvalidInput("a state is named twice in the count; name each state once")
        object.__setattr__(self, "states", states)

    @property
    def named(self) -> tuple[State, ...]:
        """The states that are counted."""
        return tuple(self.states)

    def bins(self, states: Sequence[State]) -> tuple[tuple[State, ...], ...]:
        """Return the states that are counted, as the only bin."""
        return (self.named,)

    def words(self) -> str:
        """Return the question for people.

        >>> Count(["walk", "run"]).words()
        "number of records in 'walk' or 'run'"
        """
        return "number of records in " + " or ".join(map(repr, self.states))

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        return {"kind": self.kind, "states": list(self.states)}

    def sensitivity(self, length: int | None = None) -> float:
        """Return 1: a replaced record enters or leaves the count."""
        return 1.0

    def evaluate(self, records: Sequence[Any], states: tuple[State, ...]) -> int:
        """Return the count; foreign and missing values are in no state."""
        wanted = set(self.states)
        return sum(1 for record in records if known(record, wanted))


@dataclass(frozen=True, slots=True, repr=False)
class Histogram(BaseQuery):
    """The number of records in each state of the model.

    Replacing one record moves one count down and another up: l1 sensitivity 2. Missing or
    foreign values are in no bin, so the sum of the bins is private. A plan that says in which state
    missing records are (``calibrate(..., missing=...)``) makes the histogram ``totalled``: its bins
    add up to the number of records, which is public, and the noisy numbers are moved to the nearest
    whole numbers with that sum. Two states are then one count, see `BinaryHistogram`.

    >>> Histogram().sensitivity()
    2.0
    >>> Histogram().evaluate(["idle", None, "run"], ("idle", "walk", "run"))
    [1, 0, 1]
    """

    kind: ClassVar[str] = "histogram"
    integral: ClassVar[bool] = True
    per_state: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    totalled: bool = False

    def __post_init__(self) -> None:
        """Refuse anything but a truth value."""
        check_flag(self.totalled, "totalled")

    def __repr__(self) -> str:
        """Return it as it is written."""
        return f"Histogram({'totalled=True' if self.totalled else ''})"

    def on(
        self, states: Sequence[State], rest: State | None = None
    ) -> "Histogram | BinaryHistogram":
        """Return the histogram as it is planned for some states: of two that are all, one count.

        >>> Histogram().on(("idle", "active"), rest="idle")
        BinaryHistogram(states=('active',), rest='idle')
        """
        if rest is None or not states:
            return Histogram()
        if len(states) != 2:
            return Histogram(totalled=True)
        return BinaryHistogram([state for state in states if state != rest], rest)

    def bins(self, states: Sequence[State]) -> tuple[tuple[State, ...], ...]:
        """Return each state as a bin of its own."""
        return tuple((state,) for state in states)

    def numbers(self, states: Sequence[State]) -> int:
        """Return the number of states, or refuse a model that names none."""
        if not states:
            raise NotSupported(
                "this model names no states, and a histogram needs a model that names the states, "
                "such as a MarkovChain"
            )
        return len(states)

    def cells(self, states: Sequence[State]) -> tuple[State, ...]:
        """Return the states: each number has one."""
        return tuple(states)

    def words(self) -> str:
        """Return the question for people."""
        return "number of records in each state"

    def settled(self) -> str | None:
        """Return what becomes of the noisy numbers."""
        if not self.totalled:
            return None
        return "the noisy numbers are moved to the nearest that add up to the number of records"

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        return {"kind": self.kind, **({"totalled": True} if self.totalled else {})}

    def sensitivity(self, length: int | None = None) -> float:
        """Return 2: one bin loses a record and another gains it."""
        return 2.0

    def euclidean(self, length: int | None = None) -> float:
        """Return the square root of 2, rounded up: two bins move by one each."""
        return up(math.sqrt(2.0))

    def evaluate(self, records: Sequence[Any], states: tuple[State, ...]) -> list[int]:
        """Return one count per state, in the model's order."""
        counts = dict.fromkeys(states, 0)
        wanted = set(states)
        for record in records:
            if known(record, wanted):
                counts[record] += 1
        return [counts[state] for state in states]


@dataclass(frozen=True, slots=True)
class BinaryHistogram(Count):
    """The number of records in each of two states, as one count and what is left.

    The number of records n is public and every record is in one of the two, missing ones in the
    state ``rest``: the count of the other state, with its noise, tells both. Replacing a record
    moves that count by 1, so a histogram of two states needs half the noise of `Histogram` on each
    number, and both err alike. What `Histogram` is planned as on a model of two states where the
    plan says in which of them missing records are.

    >>> query = BinaryHistogram("active", rest="idle")
    >>> query.sensitivity(), query.completed([7], 100, ("idle", "active"))
    (1.0, [93, 7])
    """

    kind: ClassVar[str] = "binary-histogram"

    rest: Any

    def __post_init__(self) -> None:
        """Check that there are two states."""
        Count.__post_init__(self)
        Count([self.rest])  # refuses what cannot be a state
        if len(self.states) != 1 or self.rest is None or self.rest in self.states:
            raise InvalidInput(
                "a histogram of two states counts one and leaves the rest to another, as in "
                "BinaryHistogram('active', rest='idle')"
            )

    def on(
        self, states: Sequence[State], rest: State | None = None
    ) -> "Histogram | BinaryHistogram":
        """Return the histogram of the two states as it is planned, or refuse other states."""
        if states and set(states) != {*self.states, self.rest}:
            shown = ", ".join(map(repr, states[:12]))
            raise UnknownState(
                f"a histogram of {self.states[0]!r} and {self.rest!r} needs a model with these "
                f"two states; its states are {shown}"
            )
        return Histogram().on(states, rest)

    def cells(self, states: Sequence[State]) -> tuple[State, ...]:
        """Return both states, in the model's order."""
        return tuple(states) or (self.rest, *self.states)

    def completed(self, numbers: list[int], rows: int, states: Sequence[State]) -> list[int]:
        """Return the noisy count, and what it leaves of all records, in the model's order."""
        (count,) = numbers
        return [count if cell in self.states else rows - count for cell in self.cells(states)]

    def words(self) -> str:
        """Return the question for people."""
        return f"number of records in {self.states[0]!r} and in {self.rest!r}, which has all others"

    def settled(self) -> str | None:
        """Return what becomes of the noisy number."""
        return f"what {self.states[0]!r} leaves of the number of records is {self.rest!r}"

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        return {"kind": self.kind, "counted": self.states[0], "rest": self.rest}
