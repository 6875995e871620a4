"""Descriptions of local randomisation, record by record; nothing here draws a random number.

A channel takes the state of one record to an output. Flips show another state in its place,
erasures show nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from undertow.base_query import State, Task
from undertow.errors import InvalidInput, NotSupported
from undertow.labels import axes, labelled, labels_of, refuse_labels
from undertow.numerics import (
    ROW_SUM,
    Array,
    Keyed,
    check_count,
    check_number,
    freeze,
    log_ratio,
    up,
)
from undertow.queries import Redacted, Series, protected

__all__ = [
    "Channel",
    "Flips",
    "LocalMechanism",
    "RandomizedResponse",
    "Redaction",
    "XorNoise",
    "flips_epsilon_upper",
]


class Channel:
    """What every local randomisation says about itself."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its name in files."""

    task: ClassVar[Task] = "flip"

    @property
    def query(self) -> Series | Redacted:
        """What is shown."""
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
        """What is shown."""
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
"""What shows a whole series, some of it false."""

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
    if isinstance(names, str) or not hasattr(type(names), "__iter__"):
        raise InvalidInput("outputs must be a list with a name for each column of the channel")
    found = tuple(names)
    try:
        different = len(set(found))
    except TypeError as error:
        raise InvalidInput("outputs must be strings, numbers or other hashables") from error
    if len(found) != columns or different != columns:
        raise InvalidInput(f"{columns} outputs need {columns} different names, found {len(found)}")
    return found
