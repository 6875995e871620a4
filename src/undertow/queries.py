"""Queries: what is released of the records, how far a record moves it, and its lattice."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np

from undertow.errors import InvalidInput, NothingToProtect, NotSupported, UnknownState
from undertow.numerics import (
    Array,
    Keyed,
    check_count,
    check_flag,
    check_number,
    check_positive,
    freeze,
    shown,
    up,
)

__all__ = [
    "STEPS",
    "AnyQuery",
    "BaseQuery",
    "BinaryHistogram",
    "Count",
    "Histogram",
    "Lattice",
    "Linear",
    "LocalQuery",
    "Mean",
    "Query",
    "Redacted",
    "Series",
    "State",
    "Sum",
    "Task",
    "TopK",
    "Transitions",
    "Values",
    "as_numbers",
    "farthest",
    "known",
    "numbers_of",
    "protected",
    "read_values",
    "rest_of",
]


State = Hashable

Task = Literal["answer", "flip", "redact"]
"""Kinds of releases: a noisy answer, a series with flipped records, a series with erased ones."""


class BaseQuery:
    """Base class of queries; the defaults are those of most of them."""

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
        """The number of each state, where records are added up; None where it is not stated."""
        return None

    def valued(self, states: Sequence[State], cuts: Sequence[float] = ()) -> Any:
        """Return the query with a number for each of a model's states, if it adds numbers up.

        ``cuts`` are the ends of the bins that the states are, () where they are none.
        """
        return self

    def answer_shift(self, error: float, rows: int) -> float:
        """Return how far the answer moves, if each record moves by at most ``error``."""
        return 0.0

    @property
    def exact_query(self) -> Any:
        """The query whose exact answer is randomised: itself, but for a selection."""
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

    def complete_numbers(self, numbers: list[int], rows: int, states: Sequence[State]) -> list[int]:
        """Complete the noisy numbers with those that follow from the number of records."""
        return numbers

    def adjustment(self) -> str | None:
        """Describe what is done to the noisy numbers, None where they are released as drawn."""
        return None

    def label_answer(self, numbers: Sequence[int], states: Sequence[State]) -> Any:
        """Label released integers with their names; return a bare integer for one number."""
        names = self.cells(states)
        return dict(zip(names, numbers, strict=True)) if names else numbers[0]

    def labelled_numbers(
        self, answer: Any, states: Sequence[State]
    ) -> list[tuple[State | None, Any]]:
        """List the numbers of a labelled answer, each with its name."""
        return list(answer.items()) if self.cells(states) else [(None, answer)]

    def words(self) -> str:
        """Describe the query in words."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe the query."""
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
        """Return the exact answer of a sum of lattice steps over so many records."""
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
    """Lattice of a real answer: whole steps, so that exact noise can be added to it.

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


Values = tuple[tuple[State, float], ...]
"""Each state with its number."""

Ends = tuple[float, float]


@runtime_checkable
class _Labelled(Protocol):
    """Values by their labels: a dictionary, or a series of pandas."""

    def items(self) -> Iterable[tuple[Any, Any]]:
        """Return the labels with their values."""


def read_values(values: Any) -> Values | None:
    """Return the numbers of states as pairs, or refuse what gives a state no finite number.

    >>> read_values({"low": 0.2, "high": 1.6})
    (('low', 0.2), ('high', 1.6))
    """
    if values is None:
        return None
    labelled = isinstance(values, _Labelled)
    try:
        pairs = [(state, number) for state, number in (values.items() if labelled else values)]
        distinct = len({state for state, _ in pairs})
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "values give each state its number, as in values={'low': 0.2, 'high': 1.6}"
        ) from error
    if not pairs or distinct < len(pairs):
        raise InvalidInput("values give each state one number; name each state once")
    return tuple((state, float(check_number(number, "a value"))) for state, number in pairs)


def numbers_of(
    values: Values | None, states: Sequence[State], cuts: Sequence[float], ends: Ends | None
) -> Values:
    """Return the number of each state in the model's order, or refuse states without one.

    Numbers that were stated come first, then the middles of bins, then names that are numbers.
    ``ends`` close the two open bins, and bins are cut off at them.

    >>> numbers_of(None, ("low", "mid", "high"), (1.0, 3.0), (0.0, 6.0))
    (('low', 0.5), ('mid', 2.0), ('high', 4.5))
    """
    if values is not None:
        stated = dict(values)
        for state in stated:
            if state not in states:
                known = ", ".join(map(repr, states[:12]))
                raise UnknownState(
                    f"values name {state!r}, which is no state of the model; its states are {known}"
                )
        for state in states:
            if state not in stated:
                raise InvalidInput(
                    f"values give no number for the state {state!r}; every state needs one"
                )
        return tuple((state, stated[state]) for state in states)
    if len(states) == len(cuts) + 1 > 1:
        if ends is None:
            raise InvalidInput(
                "the first and the last bin have no end, so no middle; say what each state counts "
                f"as: values={{{_example(states)}}}"
            )
        middles = [low + (high - low) / 2 for low, high in pairwise(_edges(cuts, ends))]
        return tuple(zip(states, middles, strict=True))
    numbers = as_numbers(states)
    if numbers is None:
        raise InvalidInput(
            "numbers are added up, and the states of this model are names: the model says nothing "
            "about readings within a state, so a record counts as the number of its state; say "
            f"which, values={{{_example(states)}}}"
        )
    return tuple(zip(states, numbers, strict=True))


def farthest(values: Values, cuts: Sequence[float], ends: Ends) -> float | None:
    """Return how far a reading is at most from the number of its bin, rounded up; None if unknown.

    Readings and numbers are clipped to ``ends``. The worst case over all readings, never measured.

    >>> farthest((("low", 0.5), ("mid", 2.0), ("high", 4.5)), (1.0, 3.0), (0.0, 6.0))
    1.5
    """
    if len(values) != len(cuts) + 1:
        return None
    low, high = ends
    numbers = [Fraction(min(max(number, low), high)) for _, number in values]
    bins = pairwise(map(Fraction, _edges(cuts, ends)))
    most = max(
        max(abs(number - one), abs(number - other))
        for number, (one, other) in zip(numbers, bins, strict=True)
    )
    distance = float(most)
    return distance if Fraction(distance) >= most else up(distance)


def _edges(cuts: Sequence[float], ends: Ends) -> list[float]:
    """Return the ends of all bins, cut off at the ends of the range."""
    low, high = ends
    return [low, *(min(max(float(cut), low), high) for cut in cuts), high]


def _example(states: Sequence[State]) -> str:
    """Return what values of these states look like."""
    shown = [f"{state!r}: {place}" for place, state in enumerate(states[:2])]
    return ", ".join([*shown, *(["..."] if len(states) > 2 else [])])


class _Counts(BaseQuery):
    """Base class of queries that count records by their states."""

    __slots__ = ()

    integral: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def evaluate(self, records: Sequence[Any], states: tuple[State, ...]) -> Any:
        """Return the counts of records, before any choice among them: one number, or one per bin.

        Foreign and missing values are in no state.
        """
        query = self.exact_query
        bins = query.bins(states)
        wanted = {state for some in bins for state in some}
        counts = Counter(record for record in records if known(record, wanted))
        numbers = [sum(counts[state] for state in some) for some in bins]
        return numbers if query.per_state else numbers[0]


@dataclass(frozen=True, slots=True)
class Count(_Counts):
    """The number of records whose state is one of ``states``.

    F(x) = #{t : x_t in states}. Replacing one record moves it by at most 1. Missing or foreign
    values are not counted.

    >>> Count("active").sensitivity()
    1.0
    >>> Count(["walking", "running"]).states
    ('walking', 'running')
    """

    kind: ClassVar[str] = "count"

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
        """Describe the query in words.

        >>> Count(["walk", "run"]).words()
        "number of records in 'walk' or 'run'"
        """
        return "number of records in " + " or ".join(map(repr, self.states))

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe the query."""
        return {"kind": self.kind, "states": list(self.states)}

    def sensitivity(self, length: int | None = None) -> float:
        """Return 1: a replaced record enters or leaves the count."""
        return 1.0


@dataclass(frozen=True, slots=True, repr=False)
class Histogram(_Counts):
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
    per_state: ClassVar[bool] = True

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
        """Describe the query in words."""
        return "number of records in each state"

    def adjustment(self) -> str | None:
        """Describe the move to the public total, where there is one."""
        if not self.totalled:
            return None
        return "the noisy numbers are moved to the nearest that add up to the number of records"

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe the query."""
        return {"kind": self.kind, **({"totalled": True} if self.totalled else {})}

    def sensitivity(self, length: int | None = None) -> float:
        """Return 2: one bin loses a record and another gains it."""
        return 2.0

    def euclidean(self, length: int | None = None) -> float:
        """Return the square root of 2, rounded up: two bins move by one each."""
        return up(math.sqrt(2.0))


@dataclass(frozen=True, slots=True)
class BinaryHistogram(Count):
    """The number of records in each of two states, as one count and what is left.

    The number of records n is public and every record is in one of the two, missing ones in the
    state ``rest``: the count of the other state, with its noise, tells both. Replacing a record
    moves that count by 1, so a histogram of two states needs half the noise of `Histogram` on each
    number, and both err alike. What `Histogram` is planned as on a model of two states where the
    plan says in which of them missing records are.

    >>> query = BinaryHistogram("active", rest="idle")
    >>> query.sensitivity(), query.complete_numbers([7], 100, ("idle", "active"))
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

    def complete_numbers(self, numbers: list[int], rows: int, states: Sequence[State]) -> list[int]:
        """Return the noisy count and the number of all other records, in the model's order."""
        (count,) = numbers
        return [count if cell in self.states else rows - count for cell in self.cells(states)]

    def words(self) -> str:
        """Describe the query in words."""
        return f"number of records in {self.states[0]!r} and in {self.rest!r}, which has all others"

    def adjustment(self) -> str | None:
        """Describe how the other count follows from the noisy one."""
        return f"what {self.states[0]!r} leaves of the number of records is {self.rest!r}"

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe the query."""
        return {"kind": self.kind, "counted": self.states[0], "rest": self.rest}


@dataclass(frozen=True, slots=True)
class Transitions(_Counts):
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

    def label_answer(self, numbers: Sequence[int], states: Sequence[State]) -> Any:
        """Return the table as a dictionary: from, then to.

        >>> Transitions().label_answer([1, 2, 1, 0], ("a", "b"))
        {'a': {'a': 1, 'b': 2}, 'b': {'a': 1, 'b': 0}}
        """
        size = len(states)
        rows = [numbers[start : start + size] for start in range(0, size**2, size)]
        return {
            state: dict(zip(states, row, strict=True))
            for state, row in zip(states, rows, strict=True)
        }

    def labelled_numbers(
        self, answer: Any, states: Sequence[State]
    ) -> list[tuple[State | None, Any]]:
        """List the numbers of the table row by row, each with its name."""
        flat = [answer[before][after] for before in states for after in states]
        return list(zip(self.cells(states), flat, strict=True))

    def words(self) -> str:
        """Describe the query in words."""
        return "number of times that each state is followed by each"

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe the query."""
        return {"kind": self.kind}

    def sensitivity(self, length: int | None = None) -> float:
        """Return 4: two pairs go and two come. Shorter series move less; a plan may meet others."""
        return 4.0

    def euclidean(self, length: int | None = None) -> float:
        """Return the square root of 6, rounded up (docs, theory: selections and transitions)."""
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


@dataclass(frozen=True, slots=True, repr=False)
class TopK(_Counts):
    """The ``k`` states with the most records, the most frequent first; no counts are released.

    Missing and foreign values are where the plan says, or in no state. Ties, and all else that is
    close, fall as the noise decides. ``among`` is the number of states to choose from, which
    planning fills in from the model: k must be below it (the order of all m states is what
    TopK(m - 1) leaves).

    One replaced record takes 1 from one count and adds 1 to another. Level times scale is then
    k + 1 for a `Selection`, which is what ``sensitivity`` returns.

    >>> TopK(2).sensitivity(), TopK(2).on(("idle", "walk", "run"))
    (3.0, TopK(2))
    >>> TopK(2).label_answer([2, 0], ("idle", "walk", "run"))
    ['run', 'idle']
    """

    kind: ClassVar[str] = "top-k"
    selects: ClassVar[bool] = True

    k: int
    among: int | None = None

    def __post_init__(self) -> None:
        """Check how many are asked for, and from how many."""
        object.__setattr__(self, "k", check_count(self.k, "k, how many states to select,", 1))
        if self.among is not None:
            _check_room(self.k, check_count(self.among, "the number of states to choose from", 2))

    def __repr__(self) -> str:
        """Return it as it is written."""
        return f"TopK({self.k})"

    @property
    def exact_query(self) -> Histogram:
        """The counts that the choice is made by."""
        return Histogram()

    def on(self, states: Sequence[State], rest: State | None = None) -> "TopK":
        """Return the question as it is planned for some states, or refuse too few of them."""
        if not states:
            raise NotSupported(
                "this model names no states, and the most frequent ones need a model that does, "
                "such as a MarkovChain or Groups(m, states=...)"
            )
        _check_room(self.k, len(states))
        return replace(self, among=len(states))

    def numbers(self, states: Sequence[State]) -> int:
        """Return k, or refuse a model that names no states."""
        return self.on(states).k

    def label_answer(self, numbers: Sequence[int], states: Sequence[State]) -> list[State]:
        """Name the selected states, the first choice first; ``numbers`` are their indices."""
        return [states[place] for place in numbers]

    def labelled_numbers(
        self, answer: Any, states: Sequence[State]
    ) -> list[tuple[State | None, Any]]:
        """List the selected states, each with its rank."""
        return [(f"rank {rank}", state) for rank, state in enumerate(answer, 1)]

    def words(self) -> str:
        """Describe the query in words.

        >>> TopK(2).words(), TopK(1).words()
        ('the 2 most frequent states', 'the most frequent state')
        """
        return "the most frequent state" if self.k == 1 else f"the {self.k} most frequent states"

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe the query."""
        return {"kind": self.kind, "k": self.k, "among": self.among}

    def sensitivity(self, length: int | None = None) -> float:
        """Return k + 1, the DP level of a `Selection` times its scale."""
        return self.k + 1.0


def _check_room(k: int, states: int) -> None:
    if k >= states:
        raise InvalidInput(
            f"the {k} most frequent of {states} states cannot be selected: k must be below the "
            f"number of states; TopK({max(states - 1, 1)}) puts all of them in order"
        )


@dataclass(frozen=True, slots=True)
class _Clipped(BaseQuery):
    """Records clipped to [lower, upper], rounded to ``steps`` equal steps, and added.

    On a model that has states a record counts as the number of its state: the one in ``values``,
    or else the middle of the bin that the state is, or its name, if that is a number.
    """

    lower: float
    upper: float
    values: Any = None
    steps: int = STEPS

    def __post_init__(self) -> None:
        """Refuse an empty or infinite range."""
        _check_range(self.lower, self.upper)
        check_count(self.steps, "steps of the lattice", 1)
        object.__setattr__(self, "values", read_values(self.values))

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the range."""
        return float(self.lower), float(self.upper)

    def valued(self, states: Sequence[State], cuts: Sequence[float] = ()) -> Self:
        """Return it with the number of each state, or refuse states without one.

        >>> Sum(0, 6).valued((0, 2)).values
        ((0, 0.0), (2, 2.0))
        """
        if not states:
            return self
        query = replace(self, values=numbers_of(self.values, states, cuts, self.ends))
        _check_lattice(query.lattice())
        return query

    def words(self) -> str:
        """Describe the query in words.

        >>> Mean(0, 6, values={"rest": 0.2, "move": 1.6}).words()
        "mean of the records, clipped to [0, 6], 'rest' as 0.2, 'move' as 1.6"
        """
        plain = f"{self.kind} of the records, clipped to [{self.lower:g}, {self.upper:g}]"
        return ", ".join([plain, *_value_words(self.values)])

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe the query."""
        ends = {"lower": self.lower, "upper": self.upper}
        return {"kind": self.kind, **ends, "values": _value_pairs(self.values), "steps": self.steps}

    def lattice(self) -> Lattice:
        """Return the whole numbers that the records become."""
        return _placed(Lattice(*self.ends, self.steps, 0), self.values)

    def added(
        self, states: Sequence[State], length: int | None = None
    ) -> tuple[Fraction, ...] | None:
        """Return what each state adds to the sum, less the lower end; None if not stated.

        >>> query = Sum(0, 4, steps=2)
        >>> [str(number) for number in query.valued((0, 2, 4)).added((0, 2, 4))], query.added((0,))
        (['0', '2', '4'], None)
        """
        if self.values is None:
            return None
        lattice = self.lattice()
        places = dict(zip((state for state, _ in self.values), lattice.places or (), strict=True))
        if not places.keys() >= {*states}:
            return None
        return tuple(self._share(places[state]) for state in states)

    def answer(self, total: int, rows: int) -> Fraction:
        """Return the exact sum of so many lattice steps over so many records."""
        return rows * Fraction(self.lower) + self._share(total)

    def answer_shift(self, error: float, rows: int) -> float:
        """Return how far a sum moves, if each record moves by at most ``error``; rounded up."""
        return up(error * rows)

    def _share(self, steps: int) -> Fraction:
        """Return so many steps as a number."""
        return Fraction(steps, self.steps) * (Fraction(self.upper) - Fraction(self.lower))

    def _record_shift(self) -> Fraction:
        """Return how far a replaced record moves the sum."""
        return self._share(self.steps if self.values is None else self.lattice().moved)


@dataclass(frozen=True, slots=True)
class Sum(_Clipped):
    """The sum of the records, each clipped to [lower, upper].

    On a model that has states each record counts as the number of its state, in ``values`` if the
    states are no numbers. Records are rounded to ``steps`` equal steps of the range before they
    are added.

    >>> Sum(0, 200).sensitivity()
    200.0
    >>> Sum(0, 200, values={"idle": 10, "active": 60}).sensitivity() < 50.001
    True
    """

    kind: ClassVar[str] = "sum"

    def sensitivity(self, length: int | None = None) -> float:
        """Return how far the numbers that records can be lie apart, at most upper - lower."""
        return _float(self._record_shift())

    def span(self, length: int | None = None) -> float:
        """Return upper - lower."""
        return float(self.upper) - float(self.lower)


@dataclass(frozen=True, slots=True)
class Mean(_Clipped):
    """The mean of the records, each clipped to [lower, upper]; the number of records is public.

    Records are numbers as in `Sum`.

    >>> Mean(0, 200).sensitivity(length=100)
    2.0
    """

    kind: ClassVar[str] = "mean"

    def sensitivity(self, length: int | None = None) -> float:
        """Return how far the numbers that records can be lie apart, over the length."""
        return _float(self._record_shift() / self._length(length))

    def span(self, length: int | None = None) -> float:
        """Return (upper - lower) / length."""
        return (float(self.upper) - float(self.lower)) / self._length(length)

    def added(
        self, states: Sequence[State], length: int | None = None
    ) -> tuple[Fraction, ...] | None:
        """Return what each state adds to the mean; None where its number is not stated."""
        terms = _Clipped.added(self, states)
        if terms is None or length is None:
            return None
        return tuple(term / length for term in terms)

    def answer(self, total: int, rows: int) -> Fraction:
        """Return the exact mean of so many lattice steps over so many records."""
        return _Clipped.answer(self, total, rows) / max(rows, 1)

    def answer_shift(self, error: float, rows: int) -> float:
        """Return how far a mean moves, if each record moves by at most ``error``: as far."""
        return error

    def _length(self, length: int | None) -> int:
        if length is None:
            raise InvalidInput(
                "the sensitivity of a mean depends on the number of records; give the model a "
                "length, e.g. MarkovChain(..., length=1000), or release the sum and divide it by "
                "the number of records, which is public"
            )
        return check_count(length, "length", 1)


@dataclass(frozen=True, slots=True, eq=False)
class Linear(Keyed, BaseQuery):
    """A weighted sum of records, two values of one record differing by at most ``spread``.

    Weights in a matrix (outputs, records) ask for several sums at once. To be released a single
    sum needs ``lower``, the least value: records are clipped to [lower, lower + spread]. On a model
    that has states records are numbers as in `Sum`.

    >>> Linear([1.0, -2.0], spread=3.0).sensitivity()
    6.0
    >>> Linear([[1.0, 1.0], [1.0, -1.0]], spread=3.0).sensitivity()
    6.0
    """

    kind: ClassVar[str] = "linear"

    weights: Array
    spread: float
    lower: float | None = None
    values: Any = None

    def __init__(
        self, weights: Any, spread: float, lower: float | None = None, values: Any = None
    ) -> None:
        """Copy and check the weights."""
        weights = freeze(weights)
        if weights.ndim not in (1, 2) or not weights.size or not np.isfinite(weights).all():
            raise InvalidInput(
                "weights must be a non-empty list of finite numbers, one for each record, or a "
                "matrix of them, one row for each output"
            )
        if not weights.any():
            raise InvalidInput("all weights are zero: the answer is public; nothing to protect")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "spread", check_positive(spread, "spread"))
        if lower is not None:
            lower = check_number(lower, "lower")
            _check_range(lower, lower + self.spread)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "values", read_values(values))

    def _key(self) -> tuple[Any, ...]:
        return self.weights.shape, self.weights.tobytes(), self.spread, self.lower, self.values

    @property
    def records(self) -> int:
        """The number of records."""
        return int(self.weights.shape[-1])

    @property
    def outputs(self) -> int:
        """The number of sums asked for."""
        return 1 if self.weights.ndim == 1 else len(self.weights)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the range that records are clipped to, where ``lower`` says."""
        return None if self.lower is None else (float(self.lower), self.lower + self.spread)

    def valued(self, states: Sequence[State], cuts: Sequence[float] = ()) -> "Linear":
        """Return it with the number of each state, or refuse states without one."""
        if not states:
            return self
        values = numbers_of(self.values, states, cuts, self.ends)
        query = Linear(self.weights, self.spread, self.lower, values)
        if self.lower is not None and self.weights.ndim == 1:
            _check_lattice(query.lattice())
        return query

    def numbers(self, states: Sequence[State]) -> int:
        """Return the number of sums asked for."""
        return self.outputs

    def words(self) -> str:
        """Describe the query in words."""
        return ", ".join([f"weighted sum of {self.records} records", *_value_words(self.values)])

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe the query."""
        weights = self.weights.tolist()
        return {
            "kind": self.kind, "weights": weights, "spread": self.spread, "lower": self.lower,
            "values": _value_pairs(self.values),
        }  # fmt: skip

    def sensitivity(self, length: int | None = None) -> float:
        """Return the largest sum of |weight| of one record over the outputs, times the spread.

        Where states have numbers and these are clipped, the spread is theirs.
        """
        if self.values is None or self.lower is None or self.weights.ndim != 1:
            return self.span(length)
        share = Fraction(self.lattice().moved, STEPS) * Fraction(self.spread)
        return _float(Fraction(float(np.abs(self.weights).max())) * share)

    def span(self, length: int | None = None) -> float:
        """Return the largest sum of |weight| of one record over the outputs, times the spread."""
        columns = np.atleast_2d(np.abs(self.weights)).T
        return max(math.fsum(column) for column in columns) * self.spread

    def lattice(self) -> Lattice:
        """Return the whole numbers that the weighted records become."""
        if self.weights.ndim != 1:
            raise NotSupported(
                "several linear statistics in one release are not supported: release each row of "
                "the weights as a Linear of its own"
            )
        if self.lower is None:
            raise NotSupported(
                "to release a linear statistic its records must be clipped to a range; say where "
                "it begins: Linear(weights, spread, lower=...)"
            )
        signed = np.rint(self.weights / np.abs(self.weights).max() * STEPS).astype(np.int64)
        weights = tuple(int(w) for w in signed)
        plain = Lattice(self.lower, self.lower + self.spread, STEPS, 0, weights)
        return _placed(plain, self.values)

    def answer(self, total: int, rows: int) -> Fraction:
        """Return the exact weighted sum of so many lattice steps."""
        base = Fraction(self.lower or 0) * sum(map(Fraction, self.weights.tolist()))
        step = Fraction(float(np.abs(self.weights).max())) * Fraction(self.spread) / STEPS
        return base + total * step

    def answer_shift(self, error: float, rows: int) -> float:
        """Return how far the sum moves, if each record moves by at most ``error``; rounded up."""
        return up(up(math.fsum(np.abs(self.weights).ravel())) * error)


@dataclass(frozen=True, slots=True)
class Query(BaseQuery):
    """Any function of the records that moves by at most ``sensitivity`` (in l1) per record.

    The caller vouches for the sensitivity. On a model that has states the records are the names of
    the states.

    >>> Query(max, sensitivity=5.0).sensitivity()
    5.0
    """

    kind: ClassVar[str] = "function"
    exact: ClassVar[bool] = True

    function: Callable[..., Any]
    bound: float = field(init=False)

    def __init__(self, function: Callable[..., Any], sensitivity: float = 1.0) -> None:
        """Keep the function and check the sensitivity."""
        if not callable(function):
            raise InvalidInput("a query needs a function of the records")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "bound", check_positive(sensitivity, "sensitivity"))

    def words(self) -> str:
        """Describe the query in words."""
        return "a function of the records"

    def to_dict(self) -> dict[str, Any]:
        """Refuse: code is not written to files."""
        raise InvalidInput(
            "a plan for a Python function cannot be written to a file; keep the plan in "
            "memory, or use Count, Histogram, Sum, Mean or Linear"
        )

    def sensitivity(self, length: int | None = None) -> float:
        """Return the bound the caller vouched for."""
        return self.bound


@dataclass(frozen=True, slots=True)
class Series(BaseQuery):
    """The whole series, each record randomised where it arises, before anyone sees it.

    >>> Series()
    Series()
    """

    kind: ClassVar[str] = "series"
    task: ClassVar[Task] = "flip"

    def words(self) -> str:
        """Describe the query in words."""
        return "the whole series, each record flipped at random"


@dataclass(frozen=True, slots=True)
class Redacted(BaseQuery):
    """The whole series with records erased around the protected ones (0-based).

    ``length`` may be left out where the model fixes it.

    >>> Redacted(protect=17, length=100)
    Redacted(protect=(17,), length=100)
    """

    kind: ClassVar[str] = "redacted"
    task: ClassVar[Task] = "redact"

    protect: tuple[int, ...]
    length: int | None = None

    def __init__(self, protect: Any, length: int | None = None) -> None:
        """Sort and check the protected records."""
        records = protected(protect)
        if length is not None:
            length = check_count(length, "length", 1)
            if records[-1] >= length:
                raise InvalidInput(
                    f"record {shown(records[-1])} is to be protected, but the series has {length} "
                    "records, counted from 0"
                )
        object.__setattr__(self, "protect", records)
        object.__setattr__(self, "length", length)

    def words(self) -> str:
        """Describe the query in words."""
        more = f" and {len(self.protect) - 8} more" if len(self.protect) > 8 else ""
        listed = ", ".join(map(str, self.protect[:8]))
        return f"the series with records erased around record {listed}{more}"


AnyQuery = Count | Histogram | TopK | Transitions | Sum | Mean | Linear | Query
"""Queries that a curator answers from all records."""

LocalQuery = Series | Redacted
"""Queries that are released record by record."""


def protected(records: Any) -> tuple[int, ...]:
    """Return the records to protect, one or several, each once and in order.

    >>> protected([17, 3, 17])
    (3, 17)
    """
    many = isinstance(records, Iterable) and not isinstance(records, str)
    indices = {
        check_count(each, "protected record", 0) for each in (records if many else [records])
    }
    if not indices:
        raise InvalidInput("name at least one record to protect, e.g. protect=17")
    return tuple(sorted(indices))


def _placed(lattice: Lattice, values: Values | None) -> Lattice:
    """Return a lattice with the steps of the states, and of missing and foreign records.

    Those count as the state whose number is nearest to 0 (of several the first), and where there
    are no states as the end of the range nearest to 0.
    """
    if values is None:
        return replace(lattice, missing=lattice.place(0.0))
    clipped = [min(max(number, lattice.lower), lattice.upper) for _, number in values]
    places = tuple(lattice.place(number) for number in clipped)
    nearest = min(range(len(places)), key=lambda state: abs(clipped[state]))
    return replace(lattice, missing=places[nearest], places=places)


def _check_lattice(lattice: Lattice) -> None:
    """Refuse states that all count as the same number."""
    if not lattice.moved:
        raise NothingToProtect(
            "every state counts as the same number, once numbers are clipped to the range and "
            "rounded to its steps: the answer is public; take another range, or other values"
        )


def _value_words(values: Values | None) -> list[str]:
    """Describe the numbers of the states, where their names do not tell and they are few."""
    if values is None or all(state == number for state, number in values):
        return []
    if len(values) > _SHOWN:
        return [f"{len(values)} states as numbers of their own"]
    return [f"{state!r} as {number:g}" for state, number in values]


_SHOWN = 6


def _value_pairs(values: Values | None) -> list[list[Any]] | None:
    return None if values is None else [list(pair) for pair in values]


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _check_range(lower: float, upper: float) -> None:
    try:
        fine = math.isfinite(lower) and math.isfinite(upper) and lower < upper
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("lower and upper must be numbers") from error
    if not fine:
        raise InvalidInput(
            f"lower must be below upper and both finite, found lower={lower}, upper={upper}"
        )
