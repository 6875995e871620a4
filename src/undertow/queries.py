"""What is asked of the records: frozen descriptions, no randomness, no data.

Each query of a curator knows its l1 sensitivity: how far its answer can move when one record is
replaced. `Series` and `Redacted` ask for the records themselves, randomised one by one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from undertow.base_query import STEPS, BaseQuery, Lattice, State, Task
from undertow.counts import BinaryHistogram, Count, Histogram
from undertow.errors import InvalidInput, NothingToProtect, NotSupported
from undertow.numerics import Array, Keyed, check_count, check_number, check_positive, freeze, up
from undertow.selections import TopK
from undertow.state_numbers import Values, numbers_of, read_values
from undertow.transitions import Transitions

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
    "protected",
]


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
        found = replace(self, values=numbers_of(self.values, states, cuts, self.ends))
        _check_moved(found.lattice())
        return found

    def words(self) -> str:
        """Return the question for people.

        >>> Mean(0, 6, values={"rest": 0.2, "move": 1.6}).words()
        "mean of the records, clipped to [0, 6], 'rest' as 0.2, 'move' as 1.6"
        """
        plain = f"{self.kind} of the records, clipped to [{self.lower:g}, {self.upper:g}]"
        return ", ".join([plain, *_said(self.values)])

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        ends = {"lower": self.lower, "upper": self.upper}
        return {"kind": self.kind, **ends, "values": _listed(self.values), "steps": self.steps}

    def lattice(self) -> Lattice:
        """Return the whole numbers that the records become."""
        return _placed(Lattice(*self.ends, self.steps, 0), self.values)

    def added(
        self, states: Sequence[State], length: int | None = None
    ) -> tuple[Fraction, ...] | None:
        """Return what each state adds to the sum, less the lower end; None where nobody said.

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
        """Return the sum that so many steps over so many records stand for, exactly."""
        return rows * Fraction(self.lower) + self._share(total)

    def carried(self, error: float, rows: int) -> float:
        """Return how far a sum moves, if each record moves by at most ``error``; rounded up."""
        return up(error * rows)

    def _share(self, steps: int) -> Fraction:
        """Return so many steps as a number."""
        return Fraction(steps, self.steps) * (Fraction(self.upper) - Fraction(self.lower))

    def _moved(self) -> Fraction:
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
        return _float(self._moved())

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
        return _float(self._moved() / self._length(length))

    def span(self, length: int | None = None) -> float:
        """Return (upper - lower) / length."""
        return (float(self.upper) - float(self.lower)) / self._length(length)

    def added(
        self, states: Sequence[State], length: int | None = None
    ) -> tuple[Fraction, ...] | None:
        """Return what each state adds to the mean of so many records; None where nobody said."""
        found = _Clipped.added(self, states)
        if found is None or length is None:
            return None
        return tuple(number / length for number in found)

    def answer(self, total: int, rows: int) -> Fraction:
        """Return the mean that so many steps over so many records stand for, exactly."""
        return _Clipped.answer(self, total, rows) / max(rows, 1)

    def carried(self, error: float, rows: int) -> float:
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
        found = Linear(self.weights, self.spread, self.lower, values)
        if self.lower is not None and self.weights.ndim == 1:
            _check_moved(found.lattice())
        return found

    def numbers(self, states: Sequence[State]) -> int:
        """Return the number of sums asked for."""
        return self.outputs

    def words(self) -> str:
        """Return the question for people."""
        return ", ".join([f"weighted sum of {self.records} records", *_said(self.values)])

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        weights = self.weights.tolist()
        return {
            "kind": self.kind, "weights": weights, "spread": self.spread, "lower": self.lower,
            "values": _listed(self.values),
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
        """Return the weighted sum that so many steps stand for, exactly."""
        base = Fraction(self.lower or 0) * sum(map(Fraction, self.weights.tolist()))
        step = Fraction(float(np.abs(self.weights).max())) * Fraction(self.spread) / STEPS
        return base + total * step

    def carried(self, error: float, rows: int) -> float:
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
        """Return the question for people."""
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
        """Return the question for people."""
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
                    f"record {records[-1]} is to be protected, but the series has {length} "
                    "records, counted from 0"
                )
        object.__setattr__(self, "protect", records)
        object.__setattr__(self, "length", length)

    def words(self) -> str:
        """Return the question for people."""
        more = f" and {len(self.protect) - 8} more" if len(self.protect) > 8 else ""
        shown = ", ".join(map(str, self.protect[:8]))
        return f"the series with records erased around record {shown}{more}"


AnyQuery = Count | Histogram | TopK | Transitions | Sum | Mean | Linear | Query
"""What a curator answers from all records."""

LocalQuery = Series | Redacted
"""What is released record by record."""


def protected(records: Any) -> tuple[int, ...]:
    """Return the records to protect, one or several, each once and in order.

    >>> protected([17, 3, 17])
    (3, 17)
    """
    many = hasattr(type(records), "__iter__") and not isinstance(records, str)
    found = {check_count(each, "protected record", 0) for each in (records if many else [records])}
    if not found:
        raise InvalidInput("name at least one record to protect, e.g. protect=17")
    return tuple(sorted(found))


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


def _check_moved(lattice: Lattice) -> None:
    """Refuse states that all count as the same number."""
    if not lattice.moved:
        raise NothingToProtect(
            "every state counts as the same number, once numbers are clipped to the range and "
            "rounded to its steps: the answer is public; take another range, or other values"
        )


def _said(values: Values | None) -> list[str]:
    """Return what the states count as, where their names do not tell and there are but a few."""
    if values is None or all(state == number for state, number in values):
        return []
    if len(values) > _SHOWN:
        return [f"{len(values)} states as numbers of their own"]
    return [f"{state!r} as {number:g}" for state, number in values]


_SHOWN = 6


def _listed(values: Values | None) -> list[list[Any]] | None:
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
