"""What every question about records says of itself, and where a real answer may lie."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from undertow.errors import NotSupported
from undertow.numerics import up

__all__ = [
    "STEPS",
    "BaseQuery",
    "Lattice",
    "State",
    "Task",
    "as_numbers",
    "known",
    "rest_of",
]

State = Hashable

Task = Literal["answer", "flip", "redact"]
"""What is released: a noisy answer, a series with false records, a series with erased ones."""


class BaseQuery:
    """What every query says about itself; the answers here are those of most of them."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its name in files."""

    task: ClassVar[Task] = "answer"

    integral: ClassVar[bool] = False
    """Whether the answer is made of whole numbers of records."""

    per_state: ClassVar[bool] = False
    """Whether there is a number for each state of the model."""

    exact: ClassVar[bool] = False
    """Whether its sensitivity is what it is, and not a float near it."""

    selects: ClassVar[bool] = False
    """Whether states are released, chosen by their counts, and no numbers."""

    @property
    def totalled(self) -> bool:
        """Whether the noisy numbers are moved to a public sum: the number of records."""
        return False

    def on(self, states: Sequence[State], rest: State | None = None) -> Any:
        """Return the query as it is planned for a model with these states.

        ``rest`` is the state of missing records, None where they are in no state.
        """
        return self

    @property
    def named(self) -> tuple[State, ...]:
        """The states that are asked for by name."""
        return ()

    @property
    def values(self) -> tuple[tuple[State, float], ...] | None:
        """The number of each state, where records are added up; None where nobody said."""
        return None

    def valued(self, states: Sequence[State], cuts: Sequence[float] = ()) -> Any:
        """Return the query with a number for each of a model's states, if it adds numbers up.

        ``cuts`` are the ends of the bins that the states are, () where they are none.
        """
        return self

    def carried(self, error: float, rows: int) -> float:
        """Return how far the answer moves, if each record moves by at most ``error``."""
        return 0.0

    @property
    def counted(self) -> Any:
        """The question whose exact answer is randomised: itself, but for a selection."""
        return self

    @property
    def records(self) -> int | None:
        """The number of records that it is for, None if any."""
        return None

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the range that records are clipped to, where there is one."""
        return None

    def added(
        self, states: Sequence[State], length: int | None = None
    ) -> tuple[Fraction, ...] | None:
        """Return what each state adds to the answer, None where records may add something else."""
        return None

    def bins(self, states: Sequence[State]) -> tuple[tuple[State, ...], ...]:
        """Return the states counted by each number of the answer, () where records are added."""
        return ()

    def numbers(self, states: Sequence[State]) -> int:
        """Return how many numbers the answer has."""
        return 1

    def cells(self, states: Sequence[State]) -> tuple[State, ...]:
        """Return the names of the numbers of the answer, () where there is one without a name."""
        return ()

    def completed(self, numbers: list[int], rows: int, states: Sequence[State]) -> list[int]:
        """Return the noisy numbers with those that follow from them and the number of records."""
        return numbers

    def settled(self) -> str | None:
        """Return in words what becomes of the noisy numbers, None where they are told as drawn."""
        return None

    def told(self, numbers: Sequence[int], states: Sequence[State]) -> Any:
        """Return the released whole numbers as a person gets them: alone, or by their names."""
        names = self.cells(states)
        return dict(zip(names, numbers, strict=True)) if names else numbers[0]

    def listed(self, told: Any, states: Sequence[State]) -> list[tuple[State | None, Any]]:
        """Return the numbers of what was told, each with its name."""
        return list(told.items()) if self.cells(states) else [(None, told)]

    def words(self) -> str:
        """Return the question for people."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        raise NotImplementedError

    def sensitivity(self, length: int | None = None) -> float:
        """Return how far the answer moves in l1 when one record is replaced."""
        raise NotImplementedError

    def span(self, length: int | None = None) -> float:
        """Return what all steps of the lattice amount to in the answer."""
        return self.sensitivity(length)

    def sensitivity_upper(self, length: int | None = None) -> float:
        """Return the sensitivity, rounded up where it was computed.

        >>> from undertow.queries import Count, Mean
        >>> Count("active").sensitivity_upper(), Mean(0, 1).sensitivity_upper(3) > 1 / 3
        (1.0, True)
        """
        moved = self.sensitivity(length)
        return moved if self.exact else up(moved)

    def euclidean(self, length: int | None = None) -> float:
        """Return how far the answer moves in l2 when one record is replaced; never too little.

        >>> from undertow.queries import Count, Histogram
        >>> Count("active").euclidean(), round(Histogram().euclidean(), 6)
        (1.0, 1.414214)
        """
        return self.sensitivity_upper(length)

    def person_upper(self, records: int, length: int | None = None) -> Fraction:
        """Return how far the answer moves in l1 when all of a person's records are replaced.

        >>> from undertow.queries import Count, Transitions
        >>> int(Count("active").person_upper(30)), int(Transitions().person_upper(30))
        (30, 58)
        """
        return records * Fraction(self.sensitivity_upper(length))

    def answer(self, total: int, rows: int) -> Fraction:
        """Return what so many steps of the lattice over so many records stand for, exactly."""
        raise NotImplementedError

    def lattice(self) -> "Lattice":
        """Return the whole numbers that records become when they are added."""
        raise NotSupported(
            "a Python function's answer has no declared lattice, and floating-point noise on a "
            "float is not private; release a Count, Histogram, Sum, Mean or Linear"
        )


STEPS = 2**24
"""Steps of the lattice between the ends of a range: fine beside any noise worth adding."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Where a real answer may lie: whole steps, so that exact noise can be added to it.

    A record's value x becomes the whole number round(steps (x - lower) / (upper - lower)), clipped
    to 0 .. steps; a missing or foreign one becomes ``missing``. With ``weights`` (signed whole
    numbers, one per record, none beyond ``steps``) record t has |weights[t]| steps instead, and
    the sign of its weight. ``places`` are the steps of a model's states, in its order: a record is
    then its state, and no other number is read. Replacing a record moves the sum by at most
    ``moved`` steps.

    >>> Lattice(0.0, 10.0, steps=100, missing=0).place(2.5)
    25
    """

    lower: float
    upper: float
    steps: int
    missing: int
    weights: tuple[int, ...] | None = None
    places: tuple[int, ...] | None = None

    @property
    def moved(self) -> int:
        """The most steps by which a replaced record moves the sum."""
        return self.steps if self.places is None else max(self.places) - min(self.places)

    def steps_of(self, states: Sequence[State], missing: State = "any") -> tuple[list[int], int]:
        """Return the step of each state, and that of a record that is missing or foreign.

        ``missing`` says what such a record is: ``"any"`` (the number nearest to 0), ``"none"`` (the
        first state), or the name of a state.

        >>> Lattice(0.0, 4.0, 4, 0, places=(1, 3)).steps_of(("low", "high"), "high")
        ([1, 3], 3)
        """
        places = list(self.places or ())
        rest = rest_of(missing, states)
        return places, self.missing if rest is None else places[list(states).index(rest)]

    def place(self, value: Any) -> int:
        """Return the step of a value: the rule that frames follow, one record at a time.

        A text is foreign, even if it reads as a number. Foreign objects are never asked for one:
        what they would raise could quote the data.
        """
        if not isinstance(value, Real | Decimal | np.number | np.bool_):
            return self.missing
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            return self.missing
        if math.isnan(number):
            return self.missing
        share = (min(max(number, self.lower), self.upper) - self.lower) / (self.upper - self.lower)
        return min(max(math.floor(share * self.steps + 0.5), 0), self.steps)


def as_numbers(states: Sequence[State]) -> tuple[float, ...] | None:
    """Return states that are finite numbers as floats, None where one is something else.

    >>> as_numbers((0, 1.5)), as_numbers(("low", 1))
    ((0.0, 1.5), None)
    """
    named: Sequence[object] = states
    try:
        numbers = tuple(float(state) for state in named if isinstance(state, Real))
    except OverflowError:
        return None
    return numbers if len(numbers) == len(named) and all(map(math.isfinite, numbers)) else None


_PLAIN = (str, bytes, bool, int, float)


def rest_of(missing: State, states: Sequence[State]) -> State | None:
    """Return the state of missing records in a plan, None where they are in no state.

    ``missing`` is the plan's word: ``"any"`` pattern of them, ``"none"`` (one that turns up all the
    same is in the first state), or their state.

    >>> rest_of("any", ("idle", "run")), rest_of("none", ("idle", "run")), rest_of("run", ("run",))
    (None, 'idle', 'run')
    """
    if missing == "any" or not states:
        return None
    return states[0] if missing == "none" else missing


def known(record: Any, wanted: set[State]) -> bool:
    """Return whether a record is one of the states; foreign types are never asked to compare.

    >>> known("a", {"a", "b"}), known(["a"], {"a", "b"})
    (True, False)
    """
    kind = type(record)
    plain = kind in _PLAIN or isinstance(record, np.generic)
    if not plain and kind not in {type(state) for state in wanted}:
        return False
    try:
        return record in wanted
    except TypeError:  # unhashable: foreign to every model
        return False
