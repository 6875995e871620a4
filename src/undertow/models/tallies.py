"""What a fit keeps of the records: counts from which chains, tests and checks are made.

A tally holds no record and no name of a person, but it is as private as the records are: it is
never written, and never printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.base_query import State
from undertow.models.records import UNSTATED, RecordDescription
from undertow.models.sequences import MISSING

__all__ = ["LONGEST_LAG", "MOST_CELLS", "MOST_TRIPLED", "Ints", "Tally", "tally"]

Ints = npt.NDArray[np.int64]

MOST_TRIPLED = 100
"""States up to which runs of three are counted (memory k^3)."""
MOST_CELLS = 2**26
"""Counts that are kept for each person, all persons together (512 MiB)."""
LONGEST_LAG = 400
"""Steps up to which two records are compared: no longer than a test of dependence reaches."""
_WORD = 64


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
            made = np.zeros((*table.shape[: table.ndim - axes], *(size,) * axes), np.int64)
            where: Any = (..., *np.ix_(*(old,) * axes))
            made[where] = table
            return made

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
        """Return how many states there are: the counts are private."""
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

    >>> found = tally(np.array([0, 0, 1, 1]), ("a", "b"), series=np.array([0, 0, 0, 1]))
    >>> found.counts.tolist(), found.persons.tolist(), found.pairs.tolist()
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
        persons=_split(who[first], flat, people, size) if people * size**2 <= MOST_CELLS else None,
        halves=_split(late.astype(np.int64), flat, 2, size),
        hours=None
        if hours is None
        else _split(np.asarray(hours)[first].astype(np.int64), flat, 24, size),
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


def _split(part: Ints, flat: Ints, parts: int, size: int) -> Ints:
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
    held = np.zeros(-(-flags.size // _WORD) * _WORD, np.bool_)
    held[: flags.size] = flags
    return np.packbits(held, bitorder="little").view("<u8").astype(np.uint64)


def _shifted(words: npt.NDArray[np.uint64], by: int) -> npt.NDArray[np.uint64]:
    """Return the bits moved down along the last axis: bit i of the result is bit i + by."""
    jump, rest = divmod(by, _WORD)
    moved = np.zeros_like(words)
    kept = words[..., jump:]
    np.right_shift(kept, np.uint64(rest), out=moved[..., : kept.shape[-1]])
    if rest:
        moved[..., : max(kept.shape[-1] - 1, 0)] |= kept[..., 1:] << np.uint64(_WORD - rest)
    return moved


def _ones(words: npt.NDArray[np.uint64]) -> Ints:
    """Return how many bits are set along the last axis."""
    return np.asarray(np.bitwise_count(words).sum(axis=-1, dtype=np.int64))
