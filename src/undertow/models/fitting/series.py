"""Unbroken series of records in memory, and the public cycles that their clock gives.

Hidden states, longer orders and public contexts are fitted to these; counts that need no records
in memory are those of `undertow.models.fitting.tally`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput
from undertow.models.fitting.tally import MISSING, Encoded, encode
from undertow.models.hidden import PeriodicHiddenChain
from undertow.models.records import UNSTATED, RecordDescription, microseconds
from undertow.queries import State

__all__ = ["CONTEXTS", "Cycle", "Unbroken", "cycle_named", "cycle_of", "cycles", "unbroken"]


HOUR, DAY = 3_600_000_000, 86_400_000_000
"""Microseconds."""

WEEK = 7 * DAY

MONDAY = 4 * DAY
"""The first Monday after 1970 began, in microseconds."""

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

CONTEXTS = {"part of day": (DAY, 8), "hour": (DAY, 24), "weekday": (WEEK, 7)}
"""Public contexts by name: the period of the cycle, and how many parts it has."""

FEWEST_CYCLES = 2
"""Cycles that the records of a fit span at least."""


@dataclass(frozen=True, eq=False)
class Unbroken:
    """Records as numbers of states without missing ones: ``ends`` says where each series ends.

    ``persons`` numbers the person of each series, ``times`` has microseconds of the clock by
    record; None without.
    """

    codes: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    states: tuple[State, ...]
    described: RecordDescription = UNSTATED
    persons: npt.NDArray[np.int64] | None = None
    times: npt.NDArray[np.int64] | None = None

    @property
    def begins(self) -> npt.NDArray[np.int64]:
        """Start of each series."""
        return np.concatenate([[0], self.ends[:-1]])

    @property
    def series(self) -> npt.NDArray[np.int64]:
        """The number of the series of each record."""
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """The place of each record in its series, from 0."""
        return np.arange(self.codes.size) - self.begins[self.series]

    @cached_property
    def step(self) -> int | None:
        """The microseconds from each record to the next of its series; None if they differ."""
        if self.times is None:
            return None
        apart = np.diff(self.times)[np.diff(self.series) == 0]
        if not apart.size or apart[0] <= 0 or (apart != apart[0]).any():
            return None
        return int(apart[0])

    def encoded(self, states: Sequence[State] | None = None) -> Encoded:
        """Return the records as those of a table are: for fits that count."""
        names = self.states if states is None else tuple(states)
        persons = None if self.persons is None else self.persons[self.series]
        hours = None if self.times is None else (self.times % DAY // HOUR).astype(np.int8)
        return Encoded(
            self.codes, names, self.series, persons, hours, self.described, times=self.times
        )

    def part(self, kept: npt.NDArray[np.bool_]) -> "Unbroken":
        """Return the records of a mask; series that it cuts are several.

        >>> unbroken([0, 1, 1, 0]).part(np.array([True, False, True, True])).ends.tolist()
        [1, 3]
        """
        series = self.series
        begins = np.ones(self.codes.size, dtype=np.bool_)
        begins[1:] = (series[1:] != series[:-1]) | ~kept[:-1]
        begins = begins[kept]
        first = np.flatnonzero(begins)
        return Unbroken(
            self.codes[kept], np.append(first[1:], begins.size).astype(np.int64), self.states,
            self.described, None if self.persons is None else self.persons[series[kept][first]],
            None if self.times is None else self.times[kept],
        )  # fmt: skip


def unbroken(sequences: Any, states: Sequence[State] | None = None) -> Unbroken:
    """Return series of records in memory, broken where one is missing.

    >>> unbroken(["a", "b", None, "b", "a"]).ends.tolist()
    [2, 4]
    """
    if getattr(sequences, "piece", None) is not None:
        raise InvalidInput(
            "hidden states and orders beyond two need all records in memory, and this table is "
            "read in pieces; raise its memory limit, or fit a part of the table"
        )
    if isinstance(sequences, Unbroken):
        return sequences
    read = encode(sequences, states)
    codes = np.asarray(read.codes, dtype=np.int64)
    if not (codes != MISSING).any():
        raise InvalidInput("there are no records to fit a model to")
    series = np.asarray(read.series)
    split = np.flatnonzero(np.diff(series)) + 1
    owners = series if read.persons is None else np.asarray(read.persons)
    whole = Unbroken(
        codes, np.append(split, codes.size).astype(np.int64), tuple(read.states), read.described,
        owners[np.concatenate([[0], split])].astype(np.int64),
        None if read.times is None else np.asarray(read.times, dtype=np.int64),
    )  # fmt: skip
    return whole.part(codes != MISSING)


@dataclass(frozen=True, slots=True)
class Cycle:
    """A public cycle of the clock: each label has ``steps_per`` records ``step`` apart.

    A day begins at midnight, a week on Monday. ``step`` is None without a clock: every series then
    begins at the first label.

    >>> cycle = Cycle("half", ("night", "day"), 12, 3_600_000_000)
    >>> cycle.phase(np.array([0, 13 * 3_600_000_000])).tolist(), cycle.period == DAY
    ([0, 13], True)
    """

    words: str
    labels: tuple[str, ...]
    steps_per: int
    step: int | None = None

    @property
    def phases(self) -> int:
        """The number of records of a cycle."""
        return len(self.labels) * self.steps_per

    @property
    def period(self) -> int | None:
        """The microseconds of a cycle."""
        return None if self.step is None else self.step * self.phases

    def phase(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the place in the cycle of records at some times."""
        if self.step is None or self.period is None:
            return np.zeros_like(times)
        origin = MONDAY if self.period == WEEK else 0
        return np.asarray((times - origin) % self.period // self.step)

    def phases_of(self, read: Unbroken) -> npt.NDArray[np.int64]:
        """Return the place in the cycle of each record."""
        if self.step is None or read.times is None:
            return np.asarray(read.places % self.phases)
        first = self.phase(read.times[read.begins])
        return np.asarray((first[read.series] + read.places) % self.phases)

    def labels_of(self, read: Unbroken) -> npt.NDArray[np.int64]:
        """Return the number of the label of each record."""
        return np.asarray(self.phases_of(read) // self.steps_per)


def cycles(read: Unbroken) -> Iterator[tuple[str, Cycle]]:
    """Yield the public cycles that the clock of the records gives, by name.

    None without clock times that are a whole fraction of a part of the cycle apart.
    """
    step = read.step
    if step is None or read.times is None:
        return
    for name, (period, count) in CONTEXTS.items():
        part = period // count
        if part % step or int(np.ptp(read.times)) < FEWEST_CYCLES * period:
            continue
        hours = tuple(f"{place * 24 // count:02}:00" for place in range(count))
        labels = hours if period == DAY else DAYS
        cycle = Cycle(name, labels, part // step, step)
        if np.unique(cycle.labels_of(read)).size == count:
            yield name, cycle


def cycle_named(read: Unbroken, name: str) -> Cycle:
    """Return one of the public cycles of the records, or refuse its name."""
    found = dict(cycles(read))
    if name in found:
        return found[name]
    if name not in CONTEXTS:
        raise InvalidInput(
            f"context must be {', '.join(map(repr, CONTEXTS))}, found {str(name)[:40]!r}"
        )
    raise InvalidInput(
        f"the records have no public context {name!r}: it needs the time column of a Data with "
        f"records equally far apart, that divide its parts, over {FEWEST_CYCLES} cycles at least; "
        "those that they have are "
        f"{', '.join(map(repr, found)) or 'none'}"
    )


def cycle_of(model: PeriodicHiddenChain) -> Cycle:
    """Return the cycle of a model, by the clock if it is a day or a week of it."""
    every = model.records.every
    step = microseconds(every) if isinstance(every, str) else None
    clock = step is not None and step * model.phases in (DAY, WEEK)
    labels = tuple(map(str, model.labels))
    return Cycle(model.context, labels, model.steps_per, step if clock else None)
