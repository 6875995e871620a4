"""Series of states as numbers, from lists, arrays, columns and tables, and back into the same form.

A record that is none of the names is foreign; None, NaN and masked entries are missing. Foreign
objects are never asked to compare themselves: what they would raise could quote the data.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.data.folds import pieces
from undertow.data.grid import GROUP, PERSON, THERE, TIME, Order
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.queries import State

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = [
    "FOREIGN",
    "MISSING",
    "Coded",
    "CodedPieces",
    "Coding",
    "Erased",
    "Lookup",
    "Rule",
    "Survey",
    "coded",
    "coded_whole",
    "named",
    "settled",
]


Numbers = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Erased = npt.NDArray[np.bool_] | None
"""Which records are erased; None: none can be."""
Restore = Callable[[Sequence[State], Numbers, Erased], Any]
"""Puts outputs (their names, the number of each record, which are erased) into the old form."""

_PLAIN = (str, bytes, bool, int, float)
FOREIGN, MISSING = -1, -2
"""What stands for the number of a record that has none."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Coding of records: names in order, and the states that foreign and missing ones count as.

    None refuses them. ``missing`` None treats missing records as foreign. ``outputs`` says that
    the names are a plan's outputs, not its states.

    >>> Rule(("idle", "active"), foreign=0).missing is None
    True
    """

    names: tuple[State, ...]
    foreign: int | None = None
    missing: int | None = None
    outputs: bool = False

    def refusal(self, where: str) -> UnknownState:
        """Return the error about a record at a place that is named, without its value."""
        if self.outputs:
            return UnknownState(
                f"{where} (counting from 0) is missing, or no output of this plan; pass what "
                "sanitize or redact returned for it"
            )
        return UnknownState(
            f"{where} (counting from 0) is missing, or none of the plan's states; correct it, "
            "leave strict=True out, or plan with a state for such records (missing=...). This "
            "refusal depends on the records: do not make it public"
        )

    @property
    def plainly_numbered(self) -> bool:
        """Whether the names are the whole numbers 0, 1, 2 ... themselves."""
        return all(type(name) is int for name in self.names) and self.names == tuple(
            range(len(self.names))
        )


@dataclass(frozen=True, slots=True)
class Coded:
    """Series as numbers of states, one series after the other: all of them, or a piece.

    ``lengths`` counts the records of each series and ``spans`` its steps of time up to the last
    record here, absent ones included; ``places`` is the step of each record (None: no step is
    absent). ``labels`` tell series apart: the person of a table, the number of a series in a list,
    an empty text for a series that is alone. ``goes_on``: the first series began in the piece
    before.
    """

    codes: Numbers
    lengths: Ints
    spans: Ints
    places: Ints | None
    labels: Sequence[str]
    restore: Restore
    goes_on: bool = False

    def pieces(self, _words: str = "") -> "Iterator[Coded]":
        """Yield the series in the pieces in which they are read: all of them at once."""
        yield self

    @property
    def longest(self) -> int:
        """The steps of the longest series, absent ones included."""
        return int(self.spans.max())

    def irregular(self, length: int) -> tuple[int, int, int] | None:
        """Return the first series without exactly so many steps, its records and absent steps."""
        return Survey.of([self], length).irregular


def coded(data: "Data | Any", rule: Rule) -> "Coded | CodedPieces":
    """Return the records of one series, of several, or of a table as numbers.

    >>> coded(["b", "a", "b"], Rule(("a", "b"))).codes.tolist()
    [1, 0, 1]
    >>> coded([["b"], ["a", "b"]], Rule(("a", "b"))).lengths.tolist()
    [1, 2]
    """
    from undertow.data.readers.lists import read_records

    return read_records(data, rule.names).coded(rule)


def coded_whole(data: "Data | Any", rule: Rule, what: str) -> Coded:
    """Return the records as numbers, all of them in memory; ``what`` needs them so."""
    read = coded(data, rule)
    if isinstance(read, Coded):
        return read
    raise NotSupported(
        f"{what} needs all records in memory, and {data.source.named} is read in pieces; allow "
        "more memory (memory=..., --memory), or take fewer records"
    )


def named(names: Sequence[State], numbers: Numbers) -> list[Any]:
    """Return the name of each number.

    >>> named(("a", "b"), np.array([1, 0]))
    ['b', 'a']
    """
    return [names[number] for number in numbers.tolist()]


class Lookup:
    """Lookup of single records; the comparison methods of foreign objects are never called.

    >>> [Lookup(Rule(("a", "b"))).number(record) for record in ("b", "c", None)]
    [1, -1, -2]
    """

    def __init__(self, rule: Rule) -> None:
        """Make the table of names."""
        self._rule = rule
        self._known = {name: place for place, name in enumerate(rule.names)}
        self._kinds = {*_PLAIN, *map(type, rule.names)}

    def number(self, record: Any) -> int:
        """Return the number of a record, negative where it has none."""
        if type(record) in self._kinds or isinstance(record, np.generic):
            try:
                place = self._known.get(record)
            except TypeError:  # it cannot be looked up
                return FOREIGN
            if place is not None:
                return place
            unequal = isinstance(record, float | np.floating) and record != record
            return MISSING if unequal else FOREIGN
        none = record is None or record is np.ma.masked
        return MISSING if none or type(record).__name__ in ("NAType", "NaTType") else FOREIGN

    def settled(self, record: Any, where: str) -> int:
        """Return the number that a record counts as, or refuse it by its place."""
        number = self.number(record)
        if number < 0 and self._rule.foreign is None:
            raise self._rule.refusal(where)
        return number if number >= 0 else self._rule.foreign or 0


def settled(numbers: Numbers, rule: Rule, where: Callable[[npt.NDArray[np.bool_]], str]) -> Numbers:
    """Return numbers of states only: what foreign and missing records count as, or an error.

    ``where`` says which is the first of some records, in words.
    """
    missing = rule.foreign if rule.missing is None else rule.missing
    counted = {FOREIGN: rule.foreign, MISSING: missing}
    refused = np.isin(numbers, [kind for kind, code in counted.items() if code is None])
    if refused.any():
        raise rule.refusal(where(refused))
    for kind, code in counted.items():
        if code is not None:
            numbers = np.where(numbers == kind, code, numbers)
    return numbers.astype(np.uint8 if numbers.max() < 256 else np.uint16)


@dataclass(slots=True)
class Survey:
    """Summary of a pass over series: how many, and the first of another length than ``length``.

    ``irregular`` is the number of that series, its records and its absent steps.
    """

    length: int | None = None
    records: int = 0
    series: int = 0
    irregular: tuple[int, int, int] | None = None
    _open: tuple[int, int] = (0, 0)  # records and steps of the series that may go on

    @classmethod
    def of(cls, pieces: Iterable[Coded], length: int | None = None) -> "Survey":
        """Return the summary of all pieces."""
        survey = cls(length)
        for piece in pieces:
            survey.take(piece)
        survey.end()
        return survey

    def take(self, piece: Coded) -> None:
        """Take the next piece."""
        spans, lengths = piece.spans, piece.lengths.copy()
        if piece.goes_on:
            lengths[0] += self._open[0]
        elif self.series:
            self._close(self.series - 1, self._open)
        first = self.series - int(piece.goes_on)
        if self.length is not None and self.irregular is None:
            wrong = np.flatnonzero((spans[:-1] != self.length) | (lengths[:-1] != self.length))
            for one in wrong[:1].tolist():
                self._close(first + one, (int(lengths[one]), int(spans[one])))
        self._open = int(lengths[-1]), int(spans[-1])
        self.records += int(piece.lengths.sum())
        self.series = first + len(lengths)

    def end(self) -> None:
        """Close the last series."""
        if self.series:
            self._close(self.series - 1, self._open)

    def _close(self, series: int, held: tuple[int, int]) -> None:
        if self.length is None or self.irregular is not None or held == (self.length, self.length):
            return
        self.irregular = series, held[0], held[1] - held[0]


class CodedPieces:
    """The records of each person in order of time, piece after piece; see `Coded`.

    Rows out of order, and records without a state where the ``rule`` refuses them, are refused by
    a pass before any other.
    """

    def __init__(self, data: "Data", rule: Rule) -> None:
        """Refuse a malformed table."""
        self.data, self.rule = data, rule
        self._shape = data.shape()
        if not self._shape.shortest:
            raise InvalidInput("there are no records")
        if rule.foreign is None:
            self.survey()

    @property
    def longest(self) -> int:
        """The steps of the longest series at all times, which none that is released exceeds."""
        return self._shape.series

    def irregular(self, length: int) -> tuple[int, int, int] | None:
        """Return the first series without exactly so many steps, its records and absent steps."""
        return self.survey(length).irregular

    def survey(self, length: int | None = None) -> Survey:
        """Return the summary of a pass over all records."""
        return Survey.of(self.pieces(), length)

    def pieces(self, words: str = "records read") -> Iterator[Coded]:
        """Yield the series, or parts of them, in the order of the table."""
        from undertow.data.writing import made_of

        data = self.data
        columns = [*made_of(data, self.rule), data.record.there.alias(THERE)]
        order, coding = Order(data.grid, most=data.memory // 4), Coding(data, self.rule)
        for rows in pieces(data, *columns, words=words):
            order.feed(rows)
            piece = coding.take(rows)
            if piece is not None:
                yield piece
        order.close()


class Coding:
    """Coder of ordered rows into pieces of series; a series may span several pieces."""

    def __init__(self, data: "Data", rule: Rule) -> None:
        self.data, self.rule = data, rule
        self._last: tuple[str, int, int] | None = None  # label, first time, last place of a series

    def take(self, rows: "pl.DataFrame") -> Coded | None:
        """Code the next rows that are released; return None if there are none."""
        grid = self.data.grid
        kept = grid.windowed(rows.lazy()).drop_nulls(GROUP).collect()
        if not kept.height:
            return None
        piece, self._last = self.code(kept, self._last)
        return piece

    def code(
        self, rows: "pl.DataFrame", last: tuple[str, int, int] | None = None
    ) -> tuple[Coded, tuple[str, int, int]]:
        """Code a piece of rows; return it and its end. ``last`` is the end of the piece before."""
        from undertow.data.writing import codes_of, person_labels, restored

        data, grid = self.data, self.data.grid
        codes = codes_of(data, rows, self.rule)
        new = rows[PERSON].ne_missing(rows[PERSON].shift(1)).to_numpy()
        begins = np.union1d([0], np.flatnonzero(new))  # (series,)
        lengths = np.diff(np.append(begins, rows.height))
        person = None if grid.person is None else data.source.columns[grid.person]
        labels = person_labels(person, rows[PERSON].gather(begins))
        goes_on = last is not None and bool(last[0] == labels[0])
        first = 0
        if grid.step is None:
            starts = np.zeros(begins.size, np.int64)
            starts[0] = last[2] + 1 if last is not None and goes_on else 0
            places = np.arange(rows.height) - np.repeat(begins - starts, lengths)  # (rows,)
        else:
            times = rows[TIME].to_numpy()
            firsts = times[begins]  # (series,)
            firsts[0] = last[1] if last is not None and goes_on else firsts[0]
            places = (times - np.repeat(firsts, lengths)) // grid.step
            first = int(firsts[-1])
        spans = places[np.cumsum(lengths) - 1] + 1  # (series,): steps up to the last record here
        restore = partial(restored, data, rows)
        piece = Coded(codes, lengths, spans, places, labels, restore, goes_on)
        return piece, (labels[-1], first, int(places[-1]))
