"""Descriptions of mechanisms: noise on an answer, and channels from a record to its output.

Nothing here draws a random number.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np

from undertow.curves import (
    ConcentratedCurve,
    Curve,
    DiscreteGaussianCurve,
    GaussianCurve,
    PointCurve,
)
from undertow.errors import InvalidInput, NotSupported
from undertow.guarantees import Guarantee, PureDP, Unit
from undertow.labels import axes, labelled, labels_of, refuse_labels
from undertow.numerics import (
    LARGEST_LEVEL,
    ROW_SUM,
    Array,
    Keyed,
    check_amount,
    check_count,
    check_listed,
    check_number,
    check_positive,
    freeze,
    log_ratio,
    up,
)
from undertow.queries import (
    AnyQuery,
    BaseQuery,
    Redacted,
    Series,
    State,
    Task,
    TopK,
    protected,
)
from undertow.rounding import above

__all__ = [
    "NOISES",
    "Channel",
    "Curved",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Flips",
    "Gaussian",
    "Laplace",
    "Levelled",
    "LocalMechanism",
    "Mechanism",
    "MetricDP",
    "Noise",
    "Normal",
    "PureDP",
    "RandomizedResponse",
    "Redaction",
    "Scaled",
    "Selection",
    "TabulatedNoise",
    "Unit",
    "XorNoise",
    "flips_epsilon_upper",
    "lattice_amount",
    "noisy",
]


class Channel:
    """Base class of channels, which randomise record by record."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its name in files."""

    task: ClassVar[Task] = "flip"

    @property
    def query(self) -> Series | Redacted:
        """The query."""
        return Series()

    @property
    def inputs(self) -> int:
        """The number of states that it is for."""
        raise NotImplementedError

    @property
    def length(self) -> int | None:
        """The number of records that it is for, None if any."""
        return None

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return the level against an attacker who knows all other records, or refuse."""
        raise NotSupported(
            f"{type(self).__name__} has no DP level: what it shows of a record depends on others, "
            "or on where the record stands"
        )

    def level_upper(self, length: int | None = None) -> float:
        """Return the DP level, rounded up, or refuse."""
        return self.dp_epsilon(length)

    def names(self, states: tuple[State, ...]) -> tuple[State, ...]:
        """Return what its outputs are called on a model with these states."""
        return states

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class RandomizedResponse(Keyed, Channel):
    """Every record goes through the same channel, independently: Pr[output | state].

    ``matrix`` has a row for each state of the model and a column for each output. ``outputs``
    names the columns; by default they are the labels of a data frame, the states where there are as
    many, else 0, 1, 2 ... (None, until the model is known). Rows are in the order of the states: a
    data frame whose rows have labels is refused.

    >>> RandomizedResponse.binary(.1, .2).matrix.tolist()
    [[0.9, 0.1], [0.2, 0.8]]
    """

    kind: ClassVar[str] = "flips"

    matrix: Array
    outputs: tuple[State, ...] | None

    def __init__(self, matrix: Any, outputs: Sequence[State] | None = None) -> None:
        """Check that rows are probabilities and sum to one."""
        if labelled(matrix) and labels_of(matrix)[0] is not None:
            refuse_labels(matrix)  # rows are the states of a model that is not known yet
        matrix, (_, outputs) = axes(matrix, (None, outputs), "the channel")
        channel = freeze(matrix)
        if channel.ndim != 2 or channel.shape[0] < 2 or not channel.shape[1]:
            raise InvalidInput(
                "a channel is a matrix with a row for each of at least two states and a column "
                f"for each output, found shape {channel.shape}"
            )
        _check_probabilities(channel, "the channel")
        sums = channel.sum(axis=1)
        off = np.flatnonzero(np.abs(sums - 1) > ROW_SUM)
        if off.size:
            raise InvalidInput(
                f"row {off[0]} of the channel sums to {sums[off[0]]:.15g}; rows must sum to 1 "
                f"within {ROW_SUM:g}"
            )
        object.__setattr__(self, "matrix", channel)
        object.__setattr__(self, "outputs", _outputs(outputs, channel.shape[1]))

    @classmethod
    def binary(cls, rho0: float, rho1: float) -> "RandomizedResponse":
        """Return the channel of two states that flips 0 with probability rho0 and 1 with rho1."""
        rates = _probability(rho0, "rho0"), _probability(rho1, "rho1")
        return cls([[1 - rates[0], rates[0]], [rates[1], 1 - rates[1]]])

    @classmethod
    def symmetric(cls, states: int, rho: float) -> "RandomizedResponse":
        """Return k-ary randomised response: flipped with probability rho, all other states alike.

        >>> RandomizedResponse.symmetric(3, .25).matrix.tolist()[0]
        [0.75, 0.125, 0.125]
        """
        states, rho = check_count(states, "states", 2), _probability(rho, "rho")
        channel = np.full((states, states), rho / (states - 1))
        np.fill_diagonal(channel, 1 - rho)
        return cls(channel)

    @property
    def inputs(self) -> int:
        """The number of rows."""
        return len(self.matrix)

    def names(self, states: tuple[State, ...]) -> tuple[State, ...]:
        """Return ``outputs``, by default the states or the numbers of the columns.

        >>> RandomizedResponse([[1, 0, 0], [0, 0, 1]]).names(("a", "b"))
        (0, 1, 2)
        """
        if self.outputs is not None:
            return self.outputs
        columns = self.matrix.shape[1]
        return states if columns == len(states) else tuple(range(columns))

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it."""
        named = None if self.outputs is None else list(self.outputs)
        return {"channel": {"kind": self.kind, "matrix": self.matrix.tolist(), "outputs": named}}

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return the level against an attacker who knows all other records; inf is possible."""
        # (states, states, outputs)
        ratios = log_ratio(self.matrix[:, None, :], self.matrix[None, :, :])
        return float(np.nanmax(ratios))

    def level_upper(self, length: int | None = None) -> float:
        """Return the DP level, rounded up."""
        return flips_epsilon_upper(self)

    def _key(self) -> tuple[Any, ...]:
        return self.matrix.shape, self.matrix.tobytes(), self.outputs


@dataclass(frozen=True, slots=True)
class XorNoise(Channel):
    """A two-state noise chain is added to the series modulo two, by one party who holds all of it.

    The noise is stationary: from 0 (keep) it goes to 1 (flip) with probability rho0, back with
    rho1, so a record is flipped with probability rho0 / (rho0 + rho1). Independent flips are
    the case rho0 + rho1 = 1. Section 3.3 of [chakrabarti2022].

    >>> XorNoise(.1, .3).flip_rate
    0.25
    """

    kind: ClassVar[str] = "xor"

    rho0: float
    rho1: float

    def __post_init__(self) -> None:
        """Check the probabilities."""
        object.__setattr__(self, "rho0", _probability(self.rho0, "rho0"))
        object.__setattr__(self, "rho1", _probability(self.rho1, "rho1"))
        if not self.rho0 + self.rho1:
            raise InvalidInput("rho0 and rho1 are both 0: the noise would never move; raise one")

    @property
    def inputs(self) -> int:
        """Two."""
        return 2

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it."""
        return {"channel": {"kind": self.kind, "rho0": self.rho0, "rho1": self.rho1}}

    @property
    def flip_rate(self) -> float:
        """The probability that a record is flipped."""
        return self.rho0 / (self.rho0 + self.rho1)

    @property
    def matrix(self) -> Array:
        """The channel of one record by itself, both states flipped alike."""
        return RandomizedResponse.binary(self.flip_rate, self.flip_rate).matrix


@dataclass(frozen=True, slots=True, eq=False)
class Redaction(Keyed, Channel):
    """Every record is shown or erased, independently: Pr[erased | state], a row for each record.

    ``protect`` names the records (0-based) whose values must stay hidden; by default all that
    are always erased. A protected record is always erased.

    >>> Redaction([[.5, 0], [1, 1], [0, 0]]).protect
    (1,)
    """

    kind: ClassVar[str] = "redaction"
    task: ClassVar[Task] = "redact"

    probabilities: Array
    protect: tuple[int, ...]

    def __init__(self, probabilities: Any, protect: Any = None) -> None:
        """Check the probabilities and the protected records."""
        table = freeze(probabilities)
        if table.ndim != 2 or not table.shape[0] or table.shape[1] < 2:
            raise InvalidInput(
                "erasures are a table with a row for each record and a column for each of at "
                f"least two states, found shape {table.shape}"
            )
        _check_probabilities(table, "the table of erasures")
        always = np.flatnonzero((table == 1).all(axis=1)).tolist()
        if protect is None:
            protect = always
            if not always:
                raise InvalidInput(
                    "no record is always erased, so none is protected; set the row of each "
                    "protected record to 1"
                )
        records = protected(protect)
        for record in records:
            if record >= table.shape[0]:
                raise InvalidInput(
                    f"record {record} is to be protected, but there are {table.shape[0]} records, "
                    "counted from 0"
                )
            if record not in always:
                raise InvalidInput(
                    f"the protected record {record} would be shown at times; set its row to 1"
                )
        object.__setattr__(self, "probabilities", table)
        object.__setattr__(self, "protect", records)

    @property
    def length(self) -> int:
        """The number of records."""
        return int(self.probabilities.shape[0])

    @property
    def query(self) -> Redacted:
        """The query."""
        return Redacted(self.protect, self.length)

    @property
    def inputs(self) -> int:
        """The number of columns."""
        return int(self.probabilities.shape[1])

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it."""
        table = self.probabilities.tolist()
        protect = list(self.protect)
        return {"channel": {"kind": self.kind, "probabilities": table, "protect": protect}}

    def _key(self) -> tuple[Any, ...]:
        return self.probabilities.shape, self.probabilities.tobytes(), self.protect


Flips = RandomizedResponse | XorNoise
"""Mechanisms that release a whole series with flipped records."""

LocalMechanism = Flips | Redaction


def flips_epsilon_upper(channel: RandomizedResponse) -> float:
    """Return the DP level of a channel, rounded up: ln of the largest ratio within a column.

    Ratios are exact; one of them is rounded up to a float, and so is its logarithm.

    >>> level = flips_epsilon_upper(RandomizedResponse.binary(.25, .25))
    >>> 1.0986122886681098 <= level < 1.09861228867
    True
    """
    largest = Fraction(1)
    for column in channel.matrix.T.tolist():
        entries = [Fraction(entry) for entry in column]
        if min(entries):
            largest = max(largest, max(entries) / min(entries))
        elif max(entries):
            return math.inf
    ratio = float(largest)
    return up(math.log(ratio if Fraction(ratio) >= largest else math.nextafter(ratio, math.inf)))


def _probability(value: float, name: str) -> float:
    number = check_number(value, name)
    if not 0 <= number <= 1:
        raise InvalidInput(f"{name} must lie in [0, 1], found {number}")
    return number


def _check_probabilities(table: Array, what: str) -> None:
    bad = np.argwhere(~((table >= 0) & (table <= 1 + ROW_SUM)))
    if bad.size:
        row, column = map(int, bad[0])
        raise InvalidInput(
            f"entry ({row}, {column}) of {what} is {table[row, column]}; probabilities lie in "
            "[0, 1]"
        )


def _outputs(names: Sequence[State] | None, columns: int) -> tuple[State, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidInput("outputs must be a list with a name for each column of the channel")
    outputs = tuple(names)
    try:
        different = len(set(outputs))
    except TypeError as error:
        raise InvalidInput("outputs must be strings, numbers or other hashables") from error
    if len(outputs) != columns or different != columns:
        raise InvalidInput(
            f"{columns} outputs need {columns} different names, found {len(outputs)}"
        )
    return outputs


@dataclass(frozen=True, slots=True)
class _Noisy:
    """A query plus noise, independent for each number of the answer."""

    kind: ClassVar[str]
    """Its name in files."""

    words: ClassVar[str]
    """Its name for people."""

    measure: ClassVar[Literal["scale", "sigma", "table"]] = "scale"
    """The field that says how much noise there is."""

    shape: ClassVar[Literal["laplace", "gaussian", "discrete-gaussian"]] = "laplace"
    """The kind of noise that is asked for to get it; Laplace: without any delta."""

    task: ClassVar[Task] = "answer"
    whole: ClassVar[bool] = False
    """Whether the noise is a whole number by its law."""

    query: AnyQuery

    def __post_init__(self) -> None:
        """Check the query and the amount of noise."""
        query: object = self.query
        if not isinstance(query, BaseQuery) or query.task != "answer":
            raise InvalidInput(
                "the first argument must be a query such as Count('active'), found "
                f"{type(query).__name__}"
            )
        if query.selects:
            raise InvalidInput(
                f"{type(query).__name__} releases states, and noise is added to numbers; it is "
                "answered by Selection(TopK(k), scale=...)"
            )
        if self.whole and not query.integral:
            raise InvalidInput(
                f"discrete noise needs an integer answer; {type(query).__name__} is real, "
                f"use {type(self).__name__.removeprefix('Discrete')}, or a Count or Histogram"
            )
        object.__setattr__(self, self.measure, check_amount(self.amount, f"noise {self.measure}"))

    @property
    def length(self) -> None:
        """None: noise is for series of any length."""
        return

    @property
    def amount(self) -> float:
        """Amount of noise: its scale, or its sigma."""
        amount: float = getattr(self, self.measure)
        return amount

    def with_amount(self, amount: float) -> Self:
        """Return the same noise in another amount."""
        changed: Any = {self.measure: amount}
        return replace(self, **changed)

    def describe(self) -> str:
        """Describe the noise in words, its amount rounded up.

        >>> from undertow.queries import Count
        >>> Gaussian(Count("active"), sigma=16.5).describe()
        'Gaussian, sigma 16.5'
        """
        return f"{self.words}, {self.measure} {above(self.amount)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it."""
        return {"query": self.query.to_dict(), "noise": self.kind, self.measure: self.amount}


BITS = 128
"""Probabilities are whole multiples of 2^-BITS: what a sampler compares with random bits."""

FINE = 48
"""The ratio of the tails is a whole multiple of 2^-FINE, and so is 1 minus it, exactly."""

LARGEST_RATIO = 1 - 2.0**-12
"""Ratio up to which tails are short enough to be gone through (a cost limit)."""

LONGEST = 4096
"""Most entries of a table (a plan holds them all)."""


@dataclass(frozen=True, slots=True)
class TabulatedNoise(_Noisy):
    """A count plus whole-number noise with a table of probabilities and geometric tails.

    Pr[Z = first + i] = weights[i] / 2^128 inside the table. Its first and last entry are those of
    the two tails together: Pr[Z = first - j] = weights[0] / 2^128 (1 - ratio) ratio^j for j >= 0,
    and alike beyond the last place. The weights are whole numbers that add up to 2^128, the ratio
    is a multiple of 2^-48: such noise is drawn exactly. It need not be symmetric, and its mean need
    not be 0: it errs little, as often as not to one side more than to the other.

    >>> from undertow.queries import Count
    >>> noise = TabulatedNoise(Count("active"), -1, (2**126, 2**127, 2**126), 0.25)
    >>> round(noise.expected_error(), 6), round(noise.dp_epsilon(), 6)
    (0.666667, 1.386294)
    """

    kind: ClassVar[str] = "tabulated"
    words: ClassVar[str] = "tabulated"
    measure: ClassVar[Literal["scale", "sigma", "table"]] = "table"
    whole: ClassVar[bool] = True

    first: int
    weights: tuple[int, ...]
    ratio: float

    def __post_init__(self) -> None:
        """Check the query and the table."""
        query: object = self.query
        if not isinstance(query, BaseQuery) or not query.named:
            raise InvalidInput(
                f"tabulated noise is for a Count, found {type(query).__name__}; use Laplace or "
                "DiscreteLaplace"
            )
        object.__setattr__(self, "weights", tuple(check_listed(self.weights, "weights")))
        if not all(type(weight) is int and weight > 0 for weight in self.weights):
            raise InvalidInput("the weights of a table are whole numbers above 0")
        if not 2 <= len(self.weights) <= LONGEST or type(self.first) is not int:
            raise InvalidInput(
                f"a table has 2 to {LONGEST} weights, from a whole number on; found "
                f"{len(self.weights)} weights"
            )
        if abs(self.first) > LONGEST:
            raise InvalidInput(f"a table begins within {LONGEST} of 0, found {self.first}")
        if sum(self.weights) != 2**BITS:
            raise InvalidInput(
                f"the weights must add up to 2^{BITS}, found "
                f"{min(sum(self.weights), 2 ** (BITS + 64)) / 2**BITS:.6g} of it"
            )
        object.__setattr__(self, "ratio", check_number(self.ratio, "ratio"))
        steps = self.ratio * 2**FINE
        if not (0 < self.ratio <= LARGEST_RATIO and steps == int(steps)):
            raise InvalidInput(
                f"the ratio of the tails must be a multiple of 2^-{FINE} above 0 and at most "
                f"1 - 2^-12, found {self.ratio!r}"
            )

    @property
    def last(self) -> int:
        """The last place of the table."""
        return self.first + len(self.weights) - 1

    @property
    def amount(self) -> float:
        """Amount of noise: its expected absolute error."""
        return self.expected_error()

    def with_amount(self, amount: float) -> Self:
        """Refuse: a table has one amount."""
        raise NotSupported("noise with a table of probabilities cannot be scaled; plan again")

    def describe(self) -> str:
        """Describe the noise in words.

        >>> from undertow.queries import Count
        >>> TabulatedNoise(Count("active"), -1, (2**126, 2**127, 2**126), 0.25).describe()
        'tabulated, 3 probabilities from -1 to 1, geometric beyond, mean 0'
        """
        mean = round(self.mean(), 4)
        return (
            f"{self.words}, {len(self.weights)} probabilities from {self.first} to {self.last}, "
            f"geometric beyond, mean {mean + 0.0:g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it; weights are hexadecimal."""
        table = {
            "first": self.first,
            "weights": [f"{weight:x}" for weight in self.weights],
            "ratio": self.ratio,
        }
        return {"query": self.query.to_dict(), "noise": self.kind, self.measure: table}

    def exact(self, place: int) -> Fraction:
        """Return Pr[Z = place], exactly."""
        inside = min(max(place, self.first), self.last)
        probability = Fraction(self.weights[inside - self.first], 2**BITS)
        if inside in (self.first, self.last):
            ratio = Fraction(self.ratio)
            probability *= (1 - ratio) * ratio ** abs(place - inside)
        return probability

    def law(self, low: int, high: int) -> Array:
        """Return Pr[Z = low .. high], each with a relative error of high - low + 8 roundings."""
        places = np.arange(low, high + 1)
        inside = np.clip(places, self.first, self.last)
        probabilities = np.array([weight / 2**BITS for weight in self.weights])  # correctly rounded
        probabilities[[0, -1]] *= 1 - self.ratio  # exact: a multiple of 2^-FINE
        return np.asarray(
            probabilities[inside - self.first] * self.ratio ** np.abs(places - inside)
        )

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return the largest |ln Pr[Z = z] / Pr[Z = z + 1]|, the level of the count.

        In the tails neighbouring answers have the ratio of the tails.
        """
        return _level(self)

    def level_upper(self, length: int | None = None) -> float:
        """Return the DP level, rounded up."""
        return up(self.dp_epsilon(length), 16)

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve that is 0 from the DP level on."""
        return PointCurve(((self.level_upper(length), 0.0),))

    def expected_error(self) -> float:
        """Return E|Z|."""
        return _moments(self)[1]

    def mean(self) -> float:
        """Return E[Z]: how much too high an answer is in the mean."""
        return _moments(self)[0]

    def variance(self) -> float:
        """Return E[(Z - E[Z])^2]."""
        mean, _, square = _moments(self)
        return square - mean**2

    def quantile(self, beta: float) -> float:
        """Return the least whole alpha with Pr[|Z| > alpha] <= beta.

        >>> from undertow.queries import Count
        >>> TabulatedNoise(Count("active"), -1, (2**126, 2**127, 2**126), 0.25).quantile(0.05)
        2.0
        """
        reach = max(abs(self.first), abs(self.last))
        far = max(0, math.ceil(math.log(max(beta, 1e-300) / 2) / math.log(self.ratio)))
        law = self.law(-reach - far, reach + far)
        sizes = np.abs(np.arange(-reach - far, reach + far + 1))
        mass = np.bincount(sizes, law)  # (sizes,): Pr[|Z| = size]
        ends = (
            (self.weights[0] / 2**BITS, reach + far + 1 + self.first),
            (
                self.weights[-1] / 2**BITS,
                reach + far + 1 - self.last,
            ),
        )
        rest = sum(weight * self.ratio**steps for weight, steps in ends)  # farther out than that
        beyond = np.append(mass[::-1].cumsum()[::-1][1:], 0.0) + rest  # Pr[|Z| > size]
        return float((beyond <= beta).argmax())


@lru_cache(maxsize=64)
def _level(noise: TabulatedNoise) -> float:
    """Return the largest log ratio of neighbours, to nearest; the tails have one of their own."""
    law = [noise.exact(place) for place in range(noise.first - 1, noise.last + 2)]
    steps = [max(one / two, two / one) for one, two in pairwise(law)]
    largest = max(steps)
    return math.log(float(largest)) if largest < 2**900 else math.inf


@lru_cache(maxsize=64)
def _moments(noise: TabulatedNoise) -> tuple[float, float, float]:
    """Return E[Z], E|Z| and E[Z^2], to nearest."""
    law = np.array([weight / 2**BITS for weight in noise.weights])
    places = np.arange(noise.first, noise.last + 1, dtype=np.float64)
    mean, error = float(law @ places), float(law @ np.abs(places))
    square = float(law @ places**2)
    ratio = noise.ratio
    step = ratio / (1 - ratio)  # E[j] of a geometric tail
    double = ratio * (1 + ratio) / (1 - ratio) ** 2  # E[j^2]
    for place, weight, sign in ((noise.first, law[0], -1), (noise.last, law[-1], 1)):
        mean += sign * weight * step
        square += weight * (2 * sign * place * step + double)
        error += weight * _farther(place, sign, ratio)
    return float(mean), float(error), float(square)


def _farther(place: int, sign: int, ratio: float) -> float:
    """Return E|place + sign j| - |place| for a geometric j, with the tail on the side of sign."""
    step = ratio / (1 - ratio)
    if sign * place >= 0:
        return step
    distance = abs(place)  # the tail begins on the other side of 0, and passes it
    j = np.arange(distance + 1)
    crossing = float(((1 - ratio) * ratio**j) @ (distance - j))  # E[(distance - j)^+]
    # |distance - j| = (j - distance) + 2 (distance - j)^+
    return step - 2 * distance + 2 * crossing


@dataclass(frozen=True, slots=True)
class MetricDP:
    """Any algorithm whose answers depend on numbers only gradually: d-privacy in l1.

    Pr[s | x] <= exp(rate * sum_t |x_t - x'_t|) Pr[s | x'] for every output s and all records x,
    x' with real values: ``rate`` is the level for each unit by which a value moves. It says more
    than a DP level does, namely that close values are harder to tell apart than distant ones. A
    sum with Laplace noise of scale b has rate 1 / b. Definition 2.6 of [lange2024] with
    d = rate * (l1 distance).

    >>> MetricDP(.01)
    MetricDP(rate=0.01)
    """

    kind: ClassVar[str] = "metric-dp"

    rate: float

    def __post_init__(self) -> None:
        """Check the rate."""
        object.__setattr__(self, "rate", check_amount(self.rate, "rate", LARGEST_LEVEL))

    def dp_epsilon(self, spread: float) -> float:
        """Return rate * spread, the level where two values of one record differ by at most spread.

        Rounded to nearest.

        >>> MetricDP(.01).dp_epsilon(spread=200)
        2.0
        """
        return self.rate * check_positive(spread, "spread")


@dataclass(frozen=True, slots=True)
class _Levelled(_Noisy):
    """Randomisation of a scale: it has a pure DP level."""

    scale: float

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return sensitivity / scale, the level against an attacker who knows all other records."""
        return self.query.sensitivity(length) / self.scale

    def level_upper(self, length: int | None = None) -> float:
        """Return the DP level, rounded up."""
        return up(self.dp_epsilon(length))

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve that is 0 from the DP level on."""
        return PointCurve(((self.level_upper(length), 0.0),))


@dataclass(frozen=True, slots=True)
class _Scaled(_Levelled):
    """Laplace noise, continuous or discrete."""

    def masses(self, most: int) -> Array:
        """Return Pr[Z = z] of the whole numbers 0 .. most that are drawn: discrete Laplace noise.

        >>> from undertow.queries import Count
        >>> DiscreteLaplace(Count("active"), scale=1.0).masses(1).round(4).tolist()
        [0.4621, 0.17]
        """
        rate = 1 / self.scale
        return np.asarray(math.tanh(rate / 2) * np.exp(-rate * np.arange(most + 1)))


@dataclass(frozen=True, slots=True)
class _Normal(_Noisy):
    """Noise of a standard deviation: no pure DP level, but a curve."""

    measure: ClassVar[Literal["scale", "sigma", "table"]] = "sigma"

    sigma: float

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return inf: far answers tell two values apart, however rarely they are given."""
        return math.inf

    def level_upper(self, length: int | None = None) -> float:
        """Return inf."""
        return math.inf

    def mu_upper(self, length: int | None = None) -> float:
        """Return how many standard deviations one replaced record moves the answer, rounded up."""
        return up(self.query.euclidean(length) / self.sigma, 8)

    def rho_upper(self, length: int | None = None) -> float:
        """Return the zCDP parameter mu^2 / 2, rounded up."""
        return up(self.mu_upper(length) ** 2 / 2)


@dataclass(frozen=True, slots=True)
class Laplace(_Scaled):
    """A query plus Laplace noise of the given scale, independent per output.

    The density is exp(-|z| / scale) / (2 scale); the algorithm is (sensitivity / scale)-DP.

    >>> from undertow.queries import Count
    >>> Laplace(Count("active"), scale=4.0).dp_epsilon()
    0.25
    """

    kind: ClassVar[str] = "laplace"
    words: ClassVar[str] = "Laplace"

    def expected_error(self) -> float:
        """Return E|Z| = scale."""
        return self.scale

    def variance(self) -> float:
        """Return 2 scale^2.

        >>> from undertow.queries import Count
        >>> Laplace(Count("active"), scale=4.0).variance()
        32.0
        """
        return 2 * self.scale**2

    def quantile(self, beta: float) -> float:
        """Return the alpha with Pr[|Z| > alpha] = beta: scale ln(1 / beta)."""
        return self.scale * math.log(1 / beta)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(_Scaled):
    """An integer query plus discrete Laplace noise: Pr[Z = z] proportional to exp(-|z| / scale).

    It leaks what `Laplace` of the same scale leaks and errs less [ghosh2009].

    >>> from undertow.queries import Histogram
    >>> DiscreteLaplace(Histogram(), scale=4.0).dp_epsilon()
    0.5
    """

    kind: ClassVar[str] = "discrete-laplace"
    words: ClassVar[str] = "discrete Laplace"
    whole: ClassVar[bool] = True

    def expected_error(self) -> float:
        """Return E|Z| = 1 / sinh(1 / scale).

        >>> from undertow.queries import Count
        >>> round(DiscreteLaplace(Count("active"), scale=4.0).expected_error(), 4)
        3.9586
        """
        rate = 1 / self.scale
        return 2 * math.exp(-rate) / -math.expm1(-2 * rate)

    def variance(self) -> float:
        """Return 2 r / (1 - r)^2 with r = exp(-1 / scale)."""
        rate = 1 / self.scale
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def quantile(self, beta: float) -> float:
        """Return the least whole alpha with Pr[|Z| > alpha] <= beta."""
        rate = 1 / self.scale

        def exceeds(alpha: int) -> float:
            return 2 * math.exp(-rate * (alpha + 1)) / (1 + math.exp(-rate))

        guess = math.log(2 / ((1 + math.exp(-rate)) * beta)) / rate - 1
        alpha = max(0, math.floor(guess) - 1)
        while exceeds(alpha) > beta:
            alpha += 1
        return float(alpha)


@dataclass(frozen=True, slots=True)
class Gaussian(_Normal):
    """A query plus Gaussian noise of standard deviation ``sigma``, independent per output.

    It is (euclidean sensitivity / sigma)-GDP. A whole-number answer is rounded after the noise,
    which reveals no more: the noise is then a normal variable rounded to a whole number.

    >>> from undertow.queries import Count
    >>> Gaussian(Count("active"), sigma=4.0).curve()
    GaussianCurve(mu=0.25...)
    """

    kind: ClassVar[str] = "gaussian"
    shape: ClassVar[Literal["laplace", "gaussian", "discrete-gaussian"]] = "gaussian"
    words: ClassVar[str] = "Gaussian"

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve of mu-GDP."""
        return GaussianCurve(self.mu_upper(length))

    def masses(self, most: int) -> Array:
        """Return Pr[Z = z] of the whole numbers 0 .. most that are drawn: a rounded normal."""
        from scipy.special import ndtr

        beyond = ndtr((0.5 - np.arange(most + 2)) / self.sigma)  # Pr[Z >= z]
        return np.asarray(beyond[:-1] - beyond[1:])

    def expected_error(self) -> float:
        """Return E|Z| = sigma sqrt(2 / pi), of rounded noise 2 sum over k of Pr[Z > k + 1/2].

        >>> from undertow.queries import Count
        >>> round(Gaussian(Count("active"), sigma=4.0).expected_error(), 4)
        3.1832
        """
        from scipy.special import ndtr

        if not self.query.integral or self.sigma > _FINE:
            return self.sigma * math.sqrt(2 / math.pi)
        halves = np.arange(int(40 * self.sigma) + 40) + 0.5
        return 2 * float(ndtr(-halves / self.sigma).sum())

    def variance(self) -> float:
        """Return sigma^2; rounding to whole numbers adds a twelfth."""
        return self.sigma**2 + (1 / 12 if self.query.integral else 0.0)

    def quantile(self, beta: float) -> float:
        """Return the least alpha with Pr[|Z| > alpha] <= beta, a whole number where Z is one."""
        from scipy.special import ndtri

        alpha = -self.sigma * float(ndtri(beta / 2))
        return float(max(0, math.ceil(alpha - 0.5))) if self.query.integral else alpha


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(_Normal):
    """An integer query plus discrete Gaussian noise: Pr[Z = z] ~ exp(-z^2 / (2 sigma^2)).

    It is not (1 / sigma)-GDP: a count has a curve of its own, a histogram that of its zCDP
    parameter 1 / sigma^2 [canonne2020].

    >>> from undertow.queries import Count
    >>> DiscreteGaussian(Count("active"), sigma=4.0).curve()
    DiscreteGaussianCurve(sigma=4.0, step=1)
    """

    kind: ClassVar[str] = "discrete-gaussian"
    shape: ClassVar[Literal["laplace", "gaussian", "discrete-gaussian"]] = "discrete-gaussian"
    words: ClassVar[str] = "discrete Gaussian"
    whole: ClassVar[bool] = True

    def curve(self, length: int | None = None) -> Curve:
        """Return the exact curve of a count, that of zCDP for a histogram or transitions."""
        if self.query.sensitivity(length) > 1:  # several numbers move, each by its own law
            return ConcentratedCurve(self.rho_upper(length))
        return DiscreteGaussianCurve(self.sigma, 1)

    def masses(self, most: int) -> Array:
        """Return Pr[Z = z] of the whole numbers 0 .. most."""
        law = np.zeros(most + 1)
        held = self._law()[1][: most + 1]
        law[: len(held)] = held
        return law

    def _law(self) -> tuple[Any, Any]:
        """Return whole numbers from 0 and their probabilities, on one side."""
        z = np.arange(int(40 * min(self.sigma, _FINE)) + 40, dtype=np.float64)
        mass = np.exp(-(z**2) / (2 * self.sigma**2))
        return z, mass / (2 * mass.sum() - 1)

    def expected_error(self) -> float:
        """Return E|Z|, by its table."""
        if self.sigma > _FINE:
            return self.sigma * math.sqrt(2 / math.pi)
        z, law = self._law()
        return 2 * float((z * law).sum())

    def variance(self) -> float:
        """Return E[Z^2], by its table; a little below sigma^2."""
        z, law = self._law()
        return 2 * float((z**2 * law).sum()) if self.sigma <= _FINE else self.sigma**2

    def quantile(self, beta: float) -> float:
        """Return the least whole alpha with Pr[|Z| > alpha] <= beta."""
        from scipy.special import ndtri

        if self.sigma > _FINE:
            return float(math.ceil(-self.sigma * float(ndtri(beta / 2))))
        z, law = self._law()
        beyond = 2 * (law[::-1].cumsum()[::-1] - law)  # Pr[|Z| > z]
        return float(z[int((beyond <= beta).argmax())])


_FINE = 1e5
"""Standard deviations up to which whole numbers are summed one by one; beyond, they are dense."""


@dataclass(frozen=True, slots=True)
class Selection(_Levelled):
    """The most frequent states by permute-and-flip, k rounds of it, each without those before.

    In a round the states left are gone through in a random order, and one whose count is d below
    the largest is taken with probability exp(-d / scale), else passed over [mckenna2020]. The DP
    level is (k + 1) / scale; ``expected_error`` is the largest expected shortfall of the count of a
    selected state, whatever the counts (docs, theory: selections and transitions).

    >>> selection = Selection(TopK(2, among=4), scale=6.0)
    >>> selection.dp_epsilon(), round(selection.expected_error(), 3), selection.quantile(.05)
    (0.5, 2.644, 20.0)
    """

    kind: ClassVar[str] = "permute-and-flip"
    words: ClassVar[str] = "permute-and-flip"
    whole: ClassVar[bool] = True

    query: TopK

    def __post_init__(self) -> None:
        """Check the query and the scale."""
        query: object = self.query
        if not isinstance(query, TopK):
            raise InvalidInput(
                f"a selection answers TopK(k), found {type(query).__name__}; numbers get noise, "
                "Laplace or DiscreteLaplace"
            )
        object.__setattr__(self, "scale", check_amount(self.scale, "noise scale"))

    def describe(self) -> str:
        """Describe the randomisation in words, its scale rounded up.

        >>> Selection(TopK(2, among=4), scale=6.0).describe()
        'permute-and-flip, 2 rounds, scale 6'
        """
        rounds = "" if self.query.k == 1 else f" {self.query.k} rounds,"
        return f"{self.words},{rounds} scale {above(self.scale)}"

    def expected_error(self) -> float:
        """Return the largest expected shortfall of the count of a selected state."""
        return _worst_shortfall(self._states(), self.scale)

    def quantile(self, beta: float) -> float:
        """Return the least whole alpha with Pr[shortfall > alpha] <= beta, whatever the counts."""
        states = self._states()
        low, high = 0, 1
        while _tail(high + 1, states, self.scale) > beta:
            high *= 2
        while low < high:
            middle = (low + high) // 2
            small = _tail(middle + 1, states, self.scale) <= beta
            low, high = (low, middle) if small else (middle + 1, high)
        return float(low)

    def variance(self) -> float:
        """Refuse: states are released, and no numbers."""
        raise NotSupported(
            "a selection releases states, which have no variance; its expected_error and accuracy "
            "say how far their counts fall short"
        )

    def _states(self) -> int:
        if self.query.among is None:
            raise InvalidInput(
                "how far a selection falls short depends on the number of states to choose from; "
                "plan it for a model, or say TopK(k, among=4)"
            )
        return self.query.among


def _tail(short: float, states: int, scale: float) -> float:
    """Return T(short), rounded to nearest; for tiny ones (m - 1) p / 2, which is a little more."""
    p = math.exp(-short / scale)
    if states * p < 1e-6:
        return (states - 1) * p / 2
    untaken = -math.expm1(states * math.log1p(-p)) if p < 1 else 1.0
    return max(0.0, 1 - untaken / (states * p))


_DENSE = 2**12
"""Shortfalls that are tried at most; beyond, they are taken as dense."""


@lru_cache(maxsize=256)
def _worst_shortfall(states: int, scale: float) -> float:
    """Return max over whole a >= 1 of a T(a): from 1 + ln m scales on the tail only falls."""
    reach = scale * (math.log(states) + 4) + 2
    shortfalls = np.arange(1.0, reach + 1) if reach <= _DENSE else np.linspace(1.0, reach, _DENSE)
    return max(float(short) * _tail(float(short), states, scale) for short in shortfalls)


Scaled = Laplace | DiscreteLaplace | Selection
"""Noise of a scale, or a selection at one, with a pure DP level."""

Normal = Gaussian | DiscreteGaussian
"""Noise without one."""

Noise = Scaled | TabulatedNoise | Normal
"""A query with noise: what a curator releases."""

Levelled = PureDP | Scaled
"""Curator mechanisms with a DP level of their own."""

Curved = PureDP | Guarantee | Noise
"""Curator mechanisms with a curve of their own."""

Mechanism = Curved | MetricDP | LocalMechanism

NOISES: dict[str, type[Noise]] = {
    noise.kind: noise
    for noise in (
        Laplace,
        DiscreteLaplace,
        TabulatedNoise,
        Selection,
        Gaussian,
        DiscreteGaussian,
    )
}
"""All kinds of noise, by their names in files."""


def noisy(query: AnyQuery, scale: float) -> Scaled:
    """Return a query with Laplace noise of its own kind: discrete for whole numbers.

    States are selected, by permute-and-flip of that scale.

    >>> from undertow.queries import Count
    >>> noisy(Count("active"), 4.0).words
    'discrete Laplace'
    """
    if isinstance(query, TopK):
        return Selection(query, scale)
    return (DiscreteLaplace if query.integral else Laplace)(query, scale)


def lattice_amount(mechanism: Noise, length: int | None = None) -> float:
    """Return the scale or sigma of the noise in the whole numbers that are released, rounded up.

    A count is a whole number already. A sum, mean or linear statistic is a number of lattice
    steps, all of which together amount to the span of the query: noise of steps / span times the
    amount keeps the mechanism's level.

    >>> from undertow.queries import Sum
    >>> lattice_amount(Laplace(Sum(0, 10, steps=1000), scale=20.0)) >= 2000
    True
    """
    query = mechanism.query
    if query.integral:
        return mechanism.amount
    return up(query.lattice().steps * mechanism.amount / query.span(length), 8)
