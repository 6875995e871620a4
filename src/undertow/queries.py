"""What is asked of the records: frozen descriptions, no randomness, no data.

Each query knows its l1 sensitivity: how far its answer can move when one record is replaced.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from undertow.errors import InvalidInput
from undertow.numerics import Array, check_count, check_positive, freeze

__all__ = ["AnyQuery", "Count", "Histogram", "Linear", "Mean", "Query", "State", "Sum"]

State = Hashable


@dataclass(frozen=True, slots=True)
class Count:
    """The number of records whose state is one of ``states``.

    F(x) = #{t : x_t in states}. Replacing one record moves it by at most 1. Missing or foreign
    values are not counted.

    >>> Count("active").sensitivity()
    1.0
    >>> Count(["walking", "running"]).states
    ('walking', 'running')
    """

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

    def sensitivity(self, length: int | None = None) -> float:
        """Return 1: a replaced record enters or leaves the count."""
        return 1.0

    def evaluate(self, records: Sequence[Any], states: tuple[State, ...]) -> int:
        """Return the count; foreign and missing values are in no state."""
        wanted = set(self.states)
        return sum(1 for record in records if _known(record, wanted))


@dataclass(frozen=True, slots=True)
class Histogram:
    """The number of records in each state of the model.

    Replacing one record moves one count down and another up: l1 sensitivity 2. Missing or
    foreign values are in no bin.

    >>> Histogram().sensitivity()
    2.0
    """

    def sensitivity(self, length: int | None = None) -> float:
        """Return 2: one bin loses a record and another gains it."""
        return 2.0

    def evaluate(self, records: Sequence[Any], states: tuple[State, ...]) -> list[int]:
        """Return one count per state, in the model's order."""
        counts = dict.fromkeys(states, 0)
        wanted = set(states)
        for record in records:
            if _known(record, wanted):
                counts[record] += 1
        return [counts[state] for state in states]


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of the records, each clipped to [lower, upper].

    >>> Sum(0, 200).sensitivity()
    200.0
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        """Refuse an empty or infinite range."""
        _check_range(self.lower, self.upper)

    def sensitivity(self, length: int | None = None) -> float:
        """Return upper - lower."""
        return float(self.upper) - float(self.lower)


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of the records, each clipped to [lower, upper]; the number of records is public.

    >>> Mean(0, 200).sensitivity(length=100)
    2.0
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        """Refuse an empty or infinite range."""
        _check_range(self.lower, self.upper)

    def sensitivity(self, length: int | None = None) -> float:
        """Return (upper - lower) / length."""
        if length is None:
            raise InvalidInput(
                "the sensitivity of a mean depends on the number of records; give the model a "
                "length, e.g. MarkovChain(..., length=1000)"
            )
        return (float(self.upper) - float(self.lower)) / check_count(length, "length", 1)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A weighted sum of records, two values of one record differing by at most ``spread``.

    >>> Linear([1.0, -2.0], spread=3.0).sensitivity()
    6.0
    """

    weights: Array
    spread: float

    def __init__(self, weights: Any, spread: float) -> None:
        """Copy and check the weights."""
        weights = freeze(weights)
        if weights.ndim != 1 or not weights.size or not np.isfinite(weights).all():
            raise InvalidInput("weights must be a non-empty list of finite numbers")
        if not weights.any():
            raise InvalidInput("all weights are zero: the answer is public; nothing to protect")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "spread", check_positive(spread, "spread"))

    def __eq__(self, other: object) -> bool:
        """Return whether weights and spread agree."""
        return isinstance(other, Linear) and self._key() == other._key()

    def __hash__(self) -> int:
        """Return a hash that agrees with equality."""
        return hash(self._key())

    def _key(self) -> tuple[bytes, float]:
        return self.weights.tobytes(), self.spread

    def sensitivity(self, length: int | None = None) -> float:
        """Return max |weight| * spread."""
        return float(np.abs(self.weights).max()) * self.spread


@dataclass(frozen=True, slots=True)
class Query:
    """Any function of the records that moves by at most ``sensitivity`` (in l1) per record.

    The caller vouches for the sensitivity.

    >>> Query(max, sensitivity=5.0).sensitivity()
    5.0
    """

    function: Callable[..., Any]
    bound: float = field(init=False)

    def __init__(self, function: Callable[..., Any], sensitivity: float = 1.0) -> None:
        """Keep the function and check the sensitivity."""
        if not callable(function):
            raise InvalidInput("a query needs a function of the records")
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "bound", check_positive(sensitivity, "sensitivity"))

    def sensitivity(self, length: int | None = None) -> float:
        """Return the bound the caller vouched for."""
        return self.bound


AnyQuery = Count | Histogram | Sum | Mean | Linear | Query


def _check_range(lower: float, upper: float) -> None:
    try:
        fine = math.isfinite(lower) and math.isfinite(upper) and lower < upper
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("lower and upper must be numbers") from error
    if not fine:
        raise InvalidInput(
            f"lower must be below upper and both finite, found lower={lower}, upper={upper}"
        )


_PLAIN = (str, bytes, bool, int, float)


def _known(record: Any, wanted: set[State]) -> bool:
    """Return whether a record is one of the states; foreign types are never asked to compare."""
    kind = type(record)
    plain = kind in _PLAIN or isinstance(record, np.generic)
    if not plain and kind not in {type(state) for state in wanted}:
        return False
    try:
        return record in wanted
    except TypeError:  # unhashable: foreign to every model
        return False
