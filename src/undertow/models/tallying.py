"""A tally of records that come in pieces: the same numbers, without all records in memory.

What a piece adds is the tally of the last records before it and itself, less that of the last
records alone: transitions, runs of three and pairs of records reach no further back than the
longest lag. Only the halves of a person's records need more: which half a transition is in is
known when the person ends, so those that may be in either are kept, half of a person's records.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.base_query import State
from undertow.models.sequences import MISSING
from undertow.models.tallies import LONGEST_LAG, MOST_CELLS, MOST_TRIPLED, Ints, Tally, tally

__all__ = ["Tallying"]

_NUMBERS = ("counts", "triples", "hours", "together", "ends", "pairs", "visits")
"""Arrays that add up."""


class Tallying:
    """A tally that grows: `add` records in order, `tally` what has come.

    ``most_cells`` bounds the counts that are kept for each person, all persons together, and
    ``most_kept`` the records of one person of which it is not known yet in which half they are;
    beyond them the tally has neither (None).

    >>> growing = Tallying(("a", "b"))
    >>> growing.add(np.array([0, 0]), np.array([0, 0]), np.array([0, 0]))
    >>> growing.add(np.array([1, 1]), np.array([0, 1]), np.array([0, 0]))
    >>> growing.tally().counts.tolist()
    [[1, 1], [0, 0]]
    """

    def __init__(
        self,
        states: Sequence[State],
        *,
        hours: bool = False,
        most_cells: int = MOST_CELLS,
        most_kept: int = 2**28,
    ) -> None:
        self.states, size = tuple(states), len(states)
        self._most_cells, self._most_kept = most_cells, most_kept
        self._sums: dict[str, Ints] = {
            "counts": np.zeros((size, size), np.int64),
            "together": np.zeros((LONGEST_LAG + 1, size), np.int64),
            "ends": np.zeros((LONGEST_LAG + 1, size), np.int64),
            "pairs": np.zeros(LONGEST_LAG + 1, np.int64),
            "visits": np.zeros(size, np.int64),
            "halves": np.zeros((2, size, size), np.int64),
        }
        if size <= MOST_TRIPLED:
            self._sums["triples"] = np.zeros((size,) * 3, np.int64)
        if hours:
            self._sums["hours"] = np.zeros((24, size, size), np.int64)
        self.records = self.missing = self.series = self._longest = self._run = 0
        self._persons: list[Ints] | None = []
        self._halves: _HalfTransitions | None = _HalfTransitions(size, most_kept)
        self._carry: list[Any] = [np.empty(0, np.int64) for _ in range(4)]

    @property
    def persons(self) -> int:
        """How many persons have come, as far as they are counted."""
        return sum(map(len, self._persons or ()))

    def add(self, codes: Any, series: Any, persons: Any, hours: Any = None) -> None:
        """Take the next records: numbers of states, and labels of their series and persons.

        Labels change where a series or a person ends, and are the same in two pieces where one
        goes on; ``hours`` are those of the clock. Shape (n,) each.
        """
        new = [np.asarray(part) for part in (codes, series, persons)]
        new.append(np.zeros(new[0].size, np.int8) if hours is None else np.asarray(hours))
        if not new[0].size:
            return
        kept = self._carry[0].size
        both = [np.concatenate(parts) for parts in zip(self._carry, new, strict=True)]
        whole, before = self._tally(both), self._tally([part[:kept] for part in both])
        for name in _NUMBERS:
            if name in self._sums:
                self._add(name, getattr(whole, name), 1)
                self._add(name, getattr(before, name), -1)
        goes_on = bool(kept and both[2][kept] == both[2][kept - 1])
        self._add_persons(whole, before, goes_on)
        if self._halves is not None and not self._halves.add(both[0], both[1], both[2], kept):
            self._halves = None
        self.records += whole.records - before.records
        self.missing += whole.missing - before.missing
        self.series += whole.series - before.series
        self._measure(new[1], goes_on=bool(kept and both[1][kept] == both[1][kept - 1]))
        others = np.flatnonzero(both[1] != both[1][-1])  # of series that ended
        start = max(int(others[-1]) + 1 if others.size else 0, both[0].size - LONGEST_LAG)
        self._carry = [part[start:].copy() for part in both]

    def merge(self, other: "Tallying") -> None:
        """Take over the tally of other persons."""
        for name, held in other.closed()._sums.items():
            self._sums[name] = self._sums[name] + held
        self.close()
        self._longest = max(self._longest, other._longest)
        self.records += other.records
        self.missing += other.missing
        self.series += other.series
        if self._persons is None or other._persons is None:
            self._persons = None
        else:
            self._persons += other._persons
            self._bound()
        if other._halves is None:
            self._halves = None

    def close(self) -> None:
        """Say that the last person has no more records."""
        if self._halves is not None:
            self._sums["halves"] = self._sums["halves"] + self._halves.ended()
        self._run, self._carry = 0, [part[:0] for part in self._carry]

    def closed(self) -> "Tallying":
        """Return this tally, closed."""
        self.close()
        return self

    def tally(self, order: npt.NDArray[Any] | None = None, *, hours: bool = True) -> Tally:
        """Return the tally of all records that came; ``order`` says how persons are put."""
        self.close()
        sums, lags = self._sums, min(LONGEST_LAG, max(self._longest, 1) - 1) + 1
        persons = None
        if self._persons is not None:
            persons = np.concatenate(
                [np.zeros((0, *sums["counts"].shape), np.int64), *self._persons]
            )
            persons = persons if order is None else persons[order]
        return Tally(
            states=self.states,
            counts=sums["counts"].copy(),
            triples=sums["triples"].copy() if "triples" in sums else None,
            persons=persons,
            halves=None if self._halves is None else sums["halves"].copy(),
            hours=sums["hours"].copy() if hours and "hours" in sums else None,
            together=sums["together"][:lags].copy(),
            ends=sums["ends"][:lags].copy(),
            pairs=sums["pairs"][:lags].copy(),
            visits=sums["visits"].copy(),
            records=self.records,
            missing=self.missing,
            series=self.series,
        )

    def state(self) -> dict[str, Any]:
        """Return the numbers of all persons that came, as arrays and whole numbers."""
        self.close()
        persons = None
        if self._persons is not None:
            shape = (0, *self._sums["counts"].shape)
            persons = np.concatenate([np.zeros(shape, np.int64), *self._persons])
        own = {name: getattr(self, name) for name in ("records", "missing", "series")}
        return {**own, "longest": self._longest, "sums": self._sums, "persons": persons,
                "halved": self._halves is not None}  # fmt: skip

    def load(self, state: dict[str, Any]) -> "Tallying":
        """Return the tally that has this state."""
        made = Tallying(self.states, hours="hours" in self._sums, most_cells=self._most_cells,
                        most_kept=self._most_kept)  # fmt: skip
        made.records, made.missing, made.series = (
            state[name] for name in ("records", "missing", "series")
        )
        made._longest, made._sums = state["longest"], dict(state["sums"])
        made._persons = None if state["persons"] is None else [state["persons"]]
        made._halves = made._halves if state["halved"] else None
        return made

    def _tally(self, parts: list[Any]) -> Tally:
        codes, series, persons, hours = parts
        return tally(
            codes, self.states, series=series, persons=persons,
            hours=hours if "hours" in self._sums else None,
        )  # fmt: skip

    def _add(self, name: str, part: Ints | None, sign: int) -> None:
        if part is not None:  # lags of a piece may end before the longest
            self._sums[name][: len(part)] += sign * part

    def _add_persons(self, whole: Tally, before: Tally, goes_on: bool) -> None:
        """Add the transitions of each person; the first may go on from the last piece."""
        if self._persons is None:
            return
        if whole.persons is None:
            self._persons = None
            return
        found = whole.persons.copy()  # (persons of the piece, k, k)
        if before.persons is not None and len(before.persons):
            found[0] -= before.persons[0]
            if goes_on:
                self._persons[-1][-1] += found[0]
            found = found[1:]
        if len(found):
            self._persons.append(found)
        self._bound()

    def _bound(self) -> None:
        if self.persons * len(self.states) ** 2 > self._most_cells:
            self._persons = None

    def _measure(self, series: Any, *, goes_on: bool) -> None:
        """Keep the length of the longest series, of which the last may go on."""
        lengths = np.bincount(np.cumsum(np.append(False, series[1:] != series[:-1])))
        lengths[0] += self._run if goes_on else 0
        self._longest, self._run = max(self._longest, int(lengths.max())), int(lengths[-1])


class _HalfTransitions:
    """Transitions in the first and the second half of each person's records.

    A transition from record i to i + 1 of a person with n records is in the second half if
    2 i >= n + n % 2. Of the person who is not complete, those from i on with 2 i >= m + m % 2 are
    kept, m the records so far: the others are in the first half, however many come.
    """

    def __init__(self, size: int, most: int) -> None:
        self._size, self._most = size, most
        self._type = np.int16 if size**2 < 2**15 else np.int32
        self._sums = np.zeros((2, size**2), np.int64)
        # transitions by the place of their second record, from ``first`` on; -1 where there is none
        self._kept: deque[npt.NDArray[Any]] = deque()
        self._first = self._count = 0

    def add(self, codes: Any, series: Any, persons: Any, kept: int) -> bool:
        """Take records, the first ``kept`` of which came before; return if all can be kept."""
        ending = np.full(codes.size, -1, self._type)
        there = codes != MISSING
        pair = there[1:] & there[:-1] & (series[1:] == series[:-1])
        flat = codes[:-1].astype(np.int64) * self._size + codes[1:]
        ending[1:][pair] = flat[pair].astype(self._type)
        starts = np.flatnonzero(np.append(True, persons[1:] != persons[:-1]))
        starts = starts[starts >= kept] if kept else starts
        if kept or self._count:  # the person at the border goes on, or is complete
            until = int(starts[0]) if starts.size else codes.size
            self._extend(ending[kept:until])
        ends = np.append(starts[1:], codes.size)
        if starts.size:
            self._end()
            begin, last = int(starts[0]), int(starts[-1])
            lengths = (ends - starts)[:-1]  # of persons that begin and end in this piece
            places = np.arange(begin, last) - np.repeat(starts[:-1], lengths)
            whole = np.repeat(lengths, lengths)
            self._sort(ending[begin:last], 2 * (places - 1) >= whole + whole % 2)
            self._extend(ending[last:])
        return sum(part.nbytes for part in self._kept) <= self._most

    def ended(self) -> Ints:
        """Return the transitions of both halves, (2, k, k), the last person's too; begin anew."""
        self._end()
        found = self._sums.reshape(2, self._size, self._size)
        self._sums = np.zeros_like(self._sums)
        return found

    def _extend(self, ending: npt.NDArray[Any]) -> None:
        """Take records of the person who is not complete."""
        if ending.size:
            self._kept.append(ending)
        self._count += ending.size
        half = (self._count + self._count % 2) // 2 + 1  # places before are in the first half
        while self._kept and self._first < half:
            part = self._kept.popleft()
            sure, open_ = part[: half - self._first], part[half - self._first :]
            self._sort(sure, np.zeros(sure.size, np.bool_))
            self._first += sure.size
            if open_.size:
                self._kept.appendleft(open_)

    def _end(self) -> None:
        """Count what is left of a person who is complete now."""
        for part in self._kept:
            places = np.arange(self._first, self._first + part.size)
            self._sort(part, 2 * (places - 1) >= self._count + self._count % 2)
            self._first += part.size
        self._kept.clear()
        self._first = self._count = 0

    def _sort(self, ending: npt.NDArray[Any], late: npt.NDArray[np.bool_]) -> None:
        for half, wanted in enumerate((~late, late)):
            found = ending[wanted & (ending >= 0)].astype(np.int64)
            self._sums[half] += np.bincount(found, minlength=self._size**2)
