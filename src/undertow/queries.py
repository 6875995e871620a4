"""What is asked of the records: frozen descriptions, no randomness, no data.

Each query of a curator knows its l1 sensitivity: how far its answer can move when one record is
replaced. `Series` and `Redacted` ask for the records themselves, randomised one by one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from undertow.base_query import STEPS, BaseQuery, Lattice, State, Task, as_numbers
from undertow.counts import BinaryHistogram, Count, Histogram
from undertow.errors import InvalidInput, NotSupported
from undertow.numerics import Array, Keyed, check_count, check_number, check_positive, freeze
from undertow.selections import TopK
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
    """Records clipped to [lower, upper], rounded to ``steps`` equal steps, and added."""

    lower: float
    upper: float
    missing: float | None = None
    steps: int = STEPS

    def __post_init__(self) -> None:
        """Refuse an empty or infinite range."""
        _check_range(self.lower, self.upper)
        check_count(self.steps, "steps of the lattice", 1)
        if self.missing is not None and not (
            self.lower <= check_number(self.missing, "missing") <= self.upper
        ):
            raise InvalidInput(
                f"missing must lie in the range [{self.lower}, {self.upper}]: it is what a "
                "missing record counts as"
            )

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the range."""
        return float(self.lower), float(self.upper)

    def words(self) -> str:
        """Return the question for people."""
        return f"{self.kind} of the records, clipped to [{self.lower:g}, {self.upper:g}]"

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        ends = {"lower": self.lower, "upper": self.upper}
        return {"kind": self.kind, **ends, "missing": self.missing, "steps": self.steps}

    def lattice(self) -> Lattice:
        """Return the whole numbers that the records become."""
        nearest = min(max(0.0, self.lower), self.upper)
        plain = Lattice(*self.ends, self.steps, 0)
        missing = plain.place(nearest if self.missing is None else self.missing)
        return Lattice(plain.lower, plain.upper, plain.steps, missing)

    def added(
        self, states: Sequence[State], length: int | None = None
    ) -> tuple[Fraction, ...] | None:
        """Return what each state adds to the sum, less the lower end.

        Only where the steps of the lattice are the states themselves: then every record, whatever
        number it is, is rounded to one of them before it is added.

        >>> [str(number) for number in Sum(0, 4, steps=2).added((0, 2, 4))], Sum(0, 4).added((0, 4))
        (['0', '2', '4'], None)
        """
        if as_numbers(states) is None:
            return None
        lattice = self.lattice()
        places = [lattice.place(state) for state in states]
        if len({*places}) <= self.steps:  # of steps + 1 places
            return None
        spread = Fraction(self.upper) - Fraction(self.lower)
        return tuple(Fraction(place, self.steps) * spread for place in places)

    def answer(self, total: int, rows: int) -> Fraction:
        """Return the sum that so many steps over so many records stand for, exactly."""
        spread = Fraction(self.upper) - Fraction(self.lower)
        return rows * Fraction(self.lower) + Fraction(total, self.steps) * spread


@dataclass(frozen=True, slots=True)
class Sum(_Clipped):
    """The sum of the records, each clipped to [lower, upper].

    A missing or foreign value counts as ``missing``, by default the end of the range nearest to
    0. Records are rounded to ``steps`` equal steps of the range before they are added.

    >>> Sum(0, 200).sensitivity()
    200.0
    """

    kind: ClassVar[str] = "sum"

    def sensitivity(self, length: int | None = None) -> float:
        """Return upper - lower."""
        return float(self.upper) - float(self.lower)


@dataclass(frozen=True, slots=True)
class Mean(_Clipped):
    """The mean of the records, each clipped to [lower, upper]; the number of records is public.

    Missing and foreign values count as in `Sum`, and in the number of records.

    >>> Mean(0, 200).sensitivity(length=100)
    2.0
    """

    kind: ClassVar[str] = "mean"

    def sensitivity(self, length: int | None = None) -> float:
        """Return (upper - lower) / length."""
        if length is None:
            raise InvalidInput(
                "the sensitivity of a mean depends on the number of records; give the model a "
                "length, e.g. MarkovChain(..., length=1000), or release the sum and divide it by "
                "the number of records, which is public"
            )
        return (float(self.upper) - float(self.lower)) / check_count(length, "length", 1)

    def added(
        self, states: Sequence[State], length: int | None = None
    ) -> tuple[Fraction, ...] | None:
        """Return what each state adds to the mean of so many records, None if any number."""
        found = _Clipped.added(self, states)
        if found is None or length is None:
            return None
        return tuple(number / length for number in found)

    def answer(self, total: int, rows: int) -> Fraction:
        """Return the mean that so many steps over so many records stand for, exactly."""
        return _Clipped.answer(self, total, rows) / max(rows, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Linear(Keyed, BaseQuery):
    """A weighted sum of records, two values of one record differing by at most ``spread``.

    Weights in a matrix (outputs, records) ask for several sums at once. To be released a single
    sum needs ``lower``, the least value: records are clipped to [lower, lower + spread], and a
    missing one counts as ``lower``.

    >>> Linear([1.0, -2.0], spread=3.0).sensitivity()
    6.0
    >>> Linear([[1.0, 1.0], [1.0, -1.0]], spread=3.0).sensitivity()
    6.0
    """

    kind: ClassVar[str] = "linear"

    weights: Array
    spread: float
    lower: float | None = None

    def __init__(self, weights: Any, spread: float, lower: float | None = None) -> None:
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

    def _key(self) -> tuple[tuple[int, ...], bytes, float, float | None]:
        return self.weights.shape, self.weights.tobytes(), self.spread, self.lower

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

    def numbers(self, states: Sequence[State]) -> int:
        """Return the number of sums asked for."""
        return self.outputs

    def words(self) -> str:
        """Return the question for people."""
        return f"weighted sum of {self.records} records"

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        weights = self.weights.tolist()
        return {"kind": self.kind, "weights": weights, "spread": self.spread, "lower": self.lower}

    def sensitivity(self, length: int | None = None) -> float:
        """Return spread times the largest sum of |weight| of one record over the outputs."""
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
        return Lattice(
            self.lower, self.lower + self.spread, STEPS, 0, tuple(int(w) for w in signed)
        )

    def answer(self, total: int, rows: int) -> Fraction:
        """Return the weighted sum that so many steps stand for, exactly."""
        base = Fraction(self.lower or 0) * sum(map(Fraction, self.weights.tolist()))
        step = Fraction(float(np.abs(self.weights).max())) * Fraction(self.spread) / STEPS
        return base + total * step


@dataclass(frozen=True, slots=True)
class Query(BaseQuery):
    """Any function of the records that moves by at most ``sensitivity`` (in l1) per record.

    The caller vouches for the sensitivity.

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


def _check_range(lower: float, upper: float) -> None:
    try:
        fine = math.isfinite(lower) and math.isfinite(upper) and lower < upper
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("lower and upper must be numbers") from error
    if not fine:
        raise InvalidInput(
            f"lower must be below upper and both finite, found lower={lower}, upper={upper}"
        )
