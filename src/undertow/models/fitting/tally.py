"""Tallies of records: the counts from which chains, tests and checks are computed.

A tally holds no record and no name of a person, but it is as private as the records are: it is
never written, and never printed.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, InvalidModel, UnknownState
from undertow.frames import is_table
from undertow.models.records import UNSTATED, RecordDescription
from undertow.models.validation import state_names
from undertow.queries import State

__all__ = [
    "LONGEST_LAG",
    "MISSING",
    "MOST_CELLS",
    "MOST_STATES",
    "MOST_TRIPLED",
    "Encoded",
    "Ints",
    "Tally",
    "Tallying",
    "encode",
    "given_states",
    "tally",
]


MISSING = -1
"""The number of a record that is not there."""
MOST_STATES = 1000
"""More different records than this are measurements, not states."""
_PLAIN_TYPES = (str, int, float, bool, bytes, type(None))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Encoded:
    """Records as numbers of states, in order: one series after the other, person after person.

    ``codes`` are numbers of ``states``, `MISSING` where a record is not there; ``series`` and
    ``persons`` change where an unbroken series or a person ends (None: each series is of another
    person); ``hours`` are those of the clock, ``times`` microseconds of it since 1970, None without
    clock times. ``described`` is what a table says that its records are.
    """

    codes: npt.NDArray[Any]
    states: Sequence[State]
    series: npt.NDArray[Any]
    persons: npt.NDArray[Any] | None = None
    hours: npt.NDArray[Any] | None = None
    described: RecordDescription = UNSTATED
    times: npt.NDArray[Any] | None = None

    def placed(self, places: Sequence[int], states: Sequence[State]) -> "Encoded":
        """Return the same records with other states; ``places`` are the new ones of the old.

        >>> encode(["b", "a"]).placed([1, 0], ("B", "A")).codes
        array([0, 1])
        """
        table = np.array([*places, MISSING])  # the last, -1, is that of what is missing
        return replace(self, codes=table[self.codes], states=states)

    def filled(self, missing: State) -> "Encoded":
        """Return the same records, those that are missing in a state of this name, the last if new.

        >>> read = encode(["b", None, "a"]).filled("off")
        >>> read.codes, read.states
        (array([1, 2, 0]), ['a', 'b', 'off'])
        """
        states = [*self.states, *([] if missing in self.states else [missing])]
        codes = np.where(self.codes == MISSING, states.index(missing), self.codes)
        return replace(self, codes=codes, states=states)

    def encoded(self, states: Sequence[State] | None = None) -> "Encoded":
        """Return the records under other names of their states, by default under their own."""
        return self if states is None else replace(self, states=states)


@runtime_checkable
class EncodedSource(Protocol):
    """A source of records that encodes them itself, as `undertow.Data` does."""

    def encoded(self, states: Sequence[State] | None = None) -> Encoded:
        """Return all records as numbers of states."""


@runtime_checkable
class TalliedSource(Protocol):
    """A source of records that counts its transitions itself, as `undertow.Data` does."""

    def tally(self, states: Sequence[State] | None = None) -> "Tally":
        """Return the counts of transitions."""


@runtime_checkable
class _Listable(Protocol):
    """An array, or a series of pandas."""

    def tolist(self) -> list[Any]:
        """Return the records as Python values."""


def encode(sequences: Any, states: Sequence[State] | None = None) -> Encoded:
    """Return all records as numbers of states, and the names of the states.

    Without ``states`` they are all that occur, sorted where they can be, otherwise in the order of
    their first appearance. An `EncodedSource`, such as `undertow.Data`, is read by its own method.

    >>> read = encode([["b", "a"], ["a", None, "a"]])
    >>> read.codes, read.states, read.series
    (array([ 1,  0,  0, -1,  0]), ['a', 'b'], array([0, 0, 1, 1, 1]))
    """
    if isinstance(sequences, EncodedSource):
        return sequences.encoded(None if states is None else given_states(states))
    known: dict[Any, int] = {}
    names: Sequence[State] = ()
    if states is not None:
        names = given_states(states)
        known = {name: place for place, name in enumerate(names)}
    known[None] = MISSING
    codes: list[int] = []
    lengths: list[int] = []
    for place, records in enumerate(_split(sequences)):
        lengths.append(len(records))
        for position, record in enumerate(records):
            try:
                code = known.get(record)
            except TypeError as error:  # it cannot be looked up
                if not _is_missing(record):
                    raise InvalidInput(
                        f"record {position} of sequence {place} is a {type(record).__name__}; "
                        "records must be texts, numbers, truth values or missing (None)"
                    ) from error
                code = MISSING
            if code is None:
                code = _new(record, known, states, f"record {position} of sequence {place}")
            codes.append(code)
    numbers = np.array(codes, dtype=np.int64)
    series = np.repeat(np.arange(len(lengths)), lengths)  # (n,)
    if states is not None:
        return Encoded(numbers, names, series)
    del known[None]
    labels = list(known)
    try:
        order = sorted(range(len(labels)), key=labels.__getitem__)
    except TypeError:  # names without an order keep that of their first appearance
        order = list(range(len(labels)))
    place_of = np.empty(len(labels) + 1, dtype=np.int64)
    place_of[order] = np.arange(len(labels))
    place_of[MISSING] = MISSING
    return Encoded(place_of[numbers], [_plain(labels[place]) for place in order], series)


def _split(sequences: Any) -> list[list[Any]]:
    """Return the sequences, each as a list; a single one is a list of one."""
    records = _listed(sequences, "sequences")
    nested = [type(record) not in _PLAIN_TYPES and _is_sequence(record) for record in records]
    if not any(nested):
        return [records]
    runs: list[list[Any]] = []
    for place, (record, many) in enumerate(zip(records, nested, strict=True)):
        if not many and not _is_missing(record):
            raise InvalidInput(
                f"item {place} of sequences is a single record and others are sequences; pass one "
                "sequence of records, or a list of sequences"
            )
        runs.append(_listed(record, f"sequence {place}") if many else [])
    return runs


def _listed(data: Any, what: str) -> list[Any]:
    kind = type(data)
    if is_table(data):
        raise InvalidInput(f"{what} must be records in order, found a table; pass its column")
    if isinstance(data, str | bytes | Mapping | Set) or not isinstance(data, Iterable):
        raise InvalidInput(f"{what} must be a list of records in order, found {kind.__name__}")
    if getattr(data, "ndim", 1) < 1:
        raise InvalidInput(f"{what} must be a list of records in order, found one number")
    return list(data.tolist() if isinstance(data, _Listable) else data)


def _is_sequence(record: Any) -> bool:
    return (
        isinstance(record, Iterable)
        and not isinstance(record, str | bytes | Set)
        and getattr(record, "ndim", 1) > 0
    )


def _is_missing(record: Any) -> bool:
    """Return whether a record is None, NaN, NaT, pandas' NA or a masked entry."""
    if record is None or record is np.ma.masked or type(record).__name__ == "NAType":
        return True
    try:
        return bool(record != record)  # only NaN and its like differ from themselves
    except (TypeError, ValueError):
        return False


def _plain(name: Any) -> Any:
    """Return a NumPy scalar as the Python value that a file can hold."""
    return name.item() if isinstance(name, np.generic) else name


def given_states(states: Sequence[State]) -> tuple[State, ...]:
    """Return the checked names of states."""
    if isinstance(states, str | Mapping | Set) or not isinstance(states, Iterable):
        raise InvalidModel(
            f"states must be a list of names in order, found {type(states).__name__}"
        )
    names = [_plain(name) for name in states]
    if len(names) < 2:
        raise InvalidModel(f"a chain needs at least two states, found {len(names)} names")
    return state_names(names, len(names))


def _new(record: Any, known: dict[Any, int], states: Sequence[State] | None, where: str) -> int:
    """Return a new number for a record of an unseen state."""
    if _is_missing(record):
        return MISSING
    if states is not None:
        raise UnknownState(
            f"{where} is none of the given states; list every state, or make the record "
            "missing (None)"
        )
    if len(known) > MOST_STATES:
        raise InvalidInput(
            f"the records have more than {MOST_STATES} different values: measurements, not "
            "states; cut them into a few classes first"
        )
    known[record] = len(known) - 1
    return known[record]


Ints = npt.NDArray[np.int64]

MOST_TRIPLED = 100
"""States up to which runs of three are counted (memory k^3)."""
MOST_CELLS = 2**26
"""Counts that are kept for each person, all persons together (512 MiB)."""
LONGEST_LAG = 400
"""Steps up to which two records are compared: no longer than a test of dependence reaches."""
_WORD_BITS = 64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tally:
    """Counts of transitions: all, by person, by half of a person's span, by hour of the day.

    A transition is two neighbours of one unbroken series that are both there. All arrays are
    read-only, k is the number of states.

    - ``states``: the names, in the order of every axis below.
    - ``counts``, ``triples``: (k, k) transitions and (k, k, k) runs of three; no runs for more than
      100 states (None).
    - ``persons``: (P, k, k) transitions of each person, without names; in the order of their names
      for a table, of their sequences for a list. None where that would be more than 2^26 numbers.
    - ``halves``: (2, k, k) transitions in the first and the second half of each person's records;
      one belongs to the half of its first record, the middle record of an odd number to the first.
      None where a table was read in pieces and a person has more records than could be kept.
    - ``hours``: (24, k, k) transitions by the hour in which they begin, None without clock times.
      Hours are those of UTC where times have a zone, else those that are written.
    - ``together``, ``ends``, ``pairs``: (L + 1, k) twice and (L + 1,): ``pairs[l]`` counts the
      pairs of records l steps apart in one series that are both there, ``together[l, s]`` those of
      them that are both in state s, ``ends[l, s]`` the records of these pairs that are; L is 400,
      or the steps between the ends of the longest series.
    - ``visits``: (k,) records in each state.
    - ``records``, ``missing``, ``series``: how many records there are, how many of them are
      missing, and how many unbroken series.
    - ``described``: what a table says that its records are.

    >>> tally(np.array([0, 0, 1, 0]), ("a", "b"))
    Tally(2 states)
    """

    states: tuple[State, ...]
    counts: Ints
    triples: Ints | None
    persons: Ints | None
    halves: Ints | None
    hours: Ints | None
    together: Ints
    ends: Ints
    pairs: Ints
    visits: Ints
    records: int
    missing: int
    series: int
    described: RecordDescription = UNSTATED

    def __post_init__(self) -> None:
        """Freeze the arrays."""
        for part in fields(self):
            held = getattr(self, part.name)
            if isinstance(held, np.ndarray):
                held.setflags(write=False)

    def placed(self, places: Sequence[int], states: Sequence[State]) -> "Tally":
        """Return the same counts with other states; ``places`` are the new ones of the old.

        >>> tally(np.array([0, 0, 1]), ("a", "b")).placed([1, 0], ("B", "A")).counts.tolist()
        [[0, 0], [1, 1]]
        """
        old, size = np.asarray(places, np.int64), len(states)

        def moved(table: Ints, axes: int) -> Ints:
            """Return a table whose last axes are states, each state at its new place."""
            wider = np.zeros((*table.shape[: table.ndim - axes], *(size,) * axes), np.int64)
            where: Any = (..., *np.ix_(*(old,) * axes))
            wider[where] = table
            return wider

        def some(table: Ints | None, axes: int, *, kept: bool = True) -> Ints | None:
            return None if table is None or not kept else moved(table, axes)

        few = self.persons is None or len(self.persons) * size**2 <= MOST_CELLS
        return replace(
            self,
            states=tuple(states),
            counts=moved(self.counts, 2),
            triples=some(self.triples, 3, kept=size <= MOST_TRIPLED),
            persons=some(self.persons, 2, kept=few),
            halves=some(self.halves, 2),
            hours=some(self.hours, 2),
            together=moved(self.together, 1),
            ends=moved(self.ends, 1),
            visits=moved(self.visits, 1),
        )

    def tally(self, states: Sequence[State] | None = None) -> "Tally":
        """Return the tally under other names of its states, by default under their own."""
        return self if states is None else replace(self, states=tuple(states))

    def __repr__(self) -> str:
        """Return the number of states only: the counts are private."""
        return f"Tally({len(self.states)} states)"


def tally(
    codes: npt.NDArray[Any],
    states: Sequence[State],
    *,
    series: npt.NDArray[Any] | None = None,
    persons: npt.NDArray[Any] | None = None,
    hours: npt.NDArray[Any] | None = None,
) -> Tally:
    """Return the tally of records in order: each person's follow each other, as do each series'.

    ``codes`` are numbers of states, `MISSING` where a record is not there; ``series`` and
    ``persons`` are numbers that change where an unbroken series or a person ends (by default one
    series, and one person for each series); ``hours`` are those of the clock, from 0 to 23. Cost
    O(n) for the counts and O(n L k / 64) for the lags.

    >>> tallied = tally(np.array([0, 0, 1, 1]), ("a", "b"), series=np.array([0, 0, 0, 1]))
    >>> tallied.counts.tolist(), tallied.persons.tolist(), tallied.pairs.tolist()
    ([[1, 1], [0, 0]], [[[1, 1], [0, 0]], [[0, 0], [0, 0]]], [4, 2, 1])
    """
    codes = np.asarray(codes)
    size, total = len(states), codes.size
    series = np.zeros(total, np.int64) if series is None else np.asarray(series)
    run_of, runs = _numbered(series)
    who, people = (run_of, runs) if persons is None else _numbered(np.asarray(persons))
    there = codes != MISSING  # (n,)
    linked = run_of[:-1] == run_of[1:]  # (n - 1,): neighbours of one series
    pair = there[:-1] & there[1:] & linked
    first = np.flatnonzero(pair)  # where transitions begin
    flat = codes[first].astype(np.int64) * size + codes[first + 1]  # (from, to) as one number
    counts = np.bincount(flat, minlength=size**2).reshape(size, size)
    triples = None
    if size <= MOST_TRIPLED:
        run = (pair[:-1] & pair[1:])[first[first < total - 2]]  # three records in a row
        start = first[first < total - 2][run]
        number = flat[: run.size][run] * size + codes[start + 2]
        triples = np.bincount(number, minlength=size**3).reshape((size,) * 3)
    lengths = np.bincount(who, minlength=people)  # (P,)
    starts = np.cumsum(lengths) - lengths
    late = 2 * (first - starts[who[first]]) >= lengths[who[first]] + lengths[who[first]] % 2
    together, ends, pairs = _lags(
        codes, there, linked, size, int(np.bincount(run_of).max(initial=1))
    )
    return Tally(
        states=tuple(states),
        counts=counts.astype(np.int64),
        triples=None if triples is None else triples.astype(np.int64),
        persons=_tallies_split(who[first], flat, people, size)
        if people * size**2 <= MOST_CELLS
        else None,
        halves=_tallies_split(late.astype(np.int64), flat, 2, size),
        hours=None
        if hours is None
        else _tallies_split(np.asarray(hours)[first].astype(np.int64), flat, 24, size),
        together=together,
        ends=ends,
        pairs=pairs,
        visits=np.bincount(codes[there], minlength=size).astype(np.int64),
        records=total,
        missing=int(total - there.sum()),
        series=runs,
    )


def _numbered(labels: npt.NDArray[Any]) -> tuple[Ints, int]:
    """Return labels as numbers 0, 1, 2 ... that rise where the label changes, and how many."""
    change = np.zeros(labels.size, np.int64)
    change[1:] = labels[1:] != labels[:-1]
    numbers = np.cumsum(change)
    return numbers, int(numbers[-1]) + 1 if labels.size else 0


def _tallies_split(part: Ints, flat: Ints, parts: int, size: int) -> Ints:
    """Return the transitions of each part, shape (parts, k, k)."""
    cells = np.bincount(part * size**2 + flat, minlength=parts * size**2)
    return cells.reshape(parts, size, size).astype(np.int64)


def _lags(
    codes: npt.NDArray[Any],
    there: npt.NDArray[np.bool_],
    linked: npt.NDArray[np.bool_],
    size: int,
    longest: int,
) -> tuple[Ints, Ints, Ints]:
    """Return together (L + 1, k), ends (L + 1, k) and pairs (L + 1,).

    Indicators are packed into words of 64 records. Records i and i + l are in one series if
    i and i + l - 1 are, and the neighbours i + l - 1 and i + l: one shift for each lag.
    """
    reach = min(LONGEST_LAG, longest - 1)
    present, edges = _packed(there), _packed(np.append(linked, False)[: codes.size])
    of_state = np.empty((size, present.size), np.uint64)  # (k, words)
    for state in range(size):
        of_state[state] = _packed(codes == state)
    joined = _packed(np.ones(codes.size, np.bool_))  # records l steps apart in one series
    together, ends = (np.zeros((reach + 1, size), np.int64) for _ in range(2))
    pairs = np.zeros(reach + 1, np.int64)
    for lag in range(reach + 1):
        if lag:
            joined = joined & _shifted(edges, lag - 1)
        first, second = present & joined, _shifted(present, lag) & joined
        later = _shifted(of_state, lag)
        pairs[lag] = _ones(first & second)
        later &= first
        ends[lag] = _ones(of_state & second) + _ones(later)
        later &= of_state
        together[lag] = _ones(later)
    return together, ends, pairs


def _packed(flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """Return flags as bits, the first in the lowest bit of the first word."""
    held = np.zeros(-(-flags.size // _WORD_BITS) * _WORD_BITS, np.bool_)
    held[: flags.size] = flags
    return np.packbits(held, bitorder="little").view("<u8").astype(np.uint64)


def _shifted(words: npt.NDArray[np.uint64], by: int) -> npt.NDArray[np.uint64]:
    """Return the bits moved down along the last axis: bit i of the result is bit i + by."""
    jump, rest = divmod(by, _WORD_BITS)
    moved = np.zeros_like(words)
    kept = words[..., jump:]
    np.right_shift(kept, np.uint64(rest), out=moved[..., : kept.shape[-1]])
    if rest:
        moved[..., : max(kept.shape[-1] - 1, 0)] |= kept[..., 1:] << np.uint64(_WORD_BITS - rest)
    return moved


def _ones(words: npt.NDArray[np.uint64]) -> Ints:
    """Return how many bits are set along the last axis."""
    return np.asarray(np.bitwise_count(words).sum(axis=-1, dtype=np.int64))


_SUMMED = ("counts", "triples", "hours", "together", "ends", "pairs", "visits")
"""Arrays that add up."""


class Tallying:
    """Incremental tally: `add` records in order, then read the `tally`.

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
        """The number of persons added so far."""
        return sum(map(len, self._persons or ()))

    def add(self, codes: Any, series: Any, persons: Any, hours: Any = None) -> None:
        """Add the next records: numbers of states, and labels of their series and persons.

        Labels change where a series or a person ends, and are the same in two pieces where one
        goes on; ``hours`` are those of the clock. Shape (n,) each.
        """
        new = [np.asarray(part) for part in (codes, series, persons)]
        new.append(np.zeros(new[0].size, np.int8) if hours is None else np.asarray(hours))
        if not new[0].size:
            return
        carried = self._carry[0].size
        both = [np.concatenate(parts) for parts in zip(self._carry, new, strict=True)]
        whole, before = self._tally(both), self._tally([part[:carried] for part in both])
        for name in _SUMMED:
            if name in self._sums:
                self._add(name, getattr(whole, name), 1)
                self._add(name, getattr(before, name), -1)
        goes_on = bool(carried and both[2][carried] == both[2][carried - 1])
        self._add_persons(whole, before, goes_on)
        if self._halves is not None and not self._halves.add(both[0], both[1], both[2], carried):
            self._halves = None
        self.records += whole.records - before.records
        self.missing += whole.missing - before.missing
        self.series += whole.series - before.series
        self._measure(new[1], goes_on=bool(carried and both[1][carried] == both[1][carried - 1]))
        others = np.flatnonzero(both[1] != both[1][-1])  # of series that ended
        start = max(int(others[-1]) + 1 if others.size else 0, both[0].size - LONGEST_LAG)
        self._carry = [part[start:].copy() for part in both]

    def merge(self, other: "Tallying") -> None:
        """Add the tally of other persons."""
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
        """Close the last person's records."""
        if self._halves is not None:
            self._sums["halves"] = self._sums["halves"] + self._halves.ended()
        self._run, self._carry = 0, [part[:0] for part in self._carry]

    def closed(self) -> "Tallying":
        """Return this tally, closed."""
        self.close()
        return self

    def tally(self, order: npt.NDArray[Any] | None = None, *, hours: bool = True) -> Tally:
        """Return the tally of all added records; ``order`` is that of the persons."""
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
        """Return the state of the tally as arrays and whole numbers."""
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
        tallying = Tallying(self.states, hours="hours" in self._sums, most_cells=self._most_cells,
                        most_kept=self._most_kept)  # fmt: skip
        tallying.records, tallying.missing, tallying.series = (
            state[name] for name in ("records", "missing", "series")
        )
        tallying._longest, tallying._sums = state["longest"], dict(state["sums"])
        tallying._persons = None if state["persons"] is None else [state["persons"]]
        tallying._halves = tallying._halves if state["halved"] else None
        return tallying

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
        cells = whole.persons.copy()  # (persons of the piece, k, k)
        if before.persons is not None and len(before.persons):
            cells[0] -= before.persons[0]
            if goes_on:
                self._persons[-1][-1] += cells[0]
            cells = cells[1:]
        if len(cells):
            self._persons.append(cells)
        self._bound()

    def _bound(self) -> None:
        if self.persons * len(self.states) ** 2 > self._most_cells:
            self._persons = None

    def _measure(self, series: Any, *, goes_on: bool) -> None:
        """Update the length of the longest series; the last one may continue."""
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
        """Add records after the first ``kept``; return whether all fit into memory."""
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
        tables = self._sums.reshape(2, self._size, self._size)
        self._sums = np.zeros_like(self._sums)
        return tables

    def _extend(self, ending: npt.NDArray[Any]) -> None:
        """Append records of the incomplete person."""
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
        """Count the remaining records of the completed person."""
        for part in self._kept:
            places = np.arange(self._first, self._first + part.size)
            self._sort(part, 2 * (places - 1) >= self._count + self._count % 2)
            self._first += part.size
        self._kept.clear()
        self._first = self._count = 0

    def _sort(self, ending: npt.NDArray[Any], late: npt.NDArray[np.bool_]) -> None:
        for half, wanted in enumerate((~late, late)):
            places = ending[wanted & (ending >= 0)].astype(np.int64)
            self._sums[half] += np.bincount(places, minlength=self._size**2)
