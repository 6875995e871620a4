"""Series of a table that is read in pieces, as numbers of states: what `Coded` is to a whole one.

A piece may begin and end within a series. Every record has its place in its series, however the
table is cut: its step from the first released record on where the step of time is known, else its
rank.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from undertow.data.codes import Numbers, Restore, Rule
from undertow.data.grid import GROUP, PERSON, THERE, TIME
from undertow.data.order import Order
from undertow.data.pieces import pieces
from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = ["CodedPiece", "CodedPieces", "Coding", "Survey"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CodedPiece:
    """Series or parts of them, one after the other; the first may go on from the piece before.

    As `undertow.data.codes.Coded`, but ``places`` are always there, and ``restore`` gives the rows
    of this piece.
    """

    codes: Numbers
    lengths: Ints
    places: Ints
    labels: Sequence[str]
    restore: Restore
    goes_on: bool


@dataclass(slots=True)
class Survey:
    """What a pass shows of all series: how many, and the first that has not the ``length``.

    ``irregular`` is the number of that series, its records and its absent steps.
    """

    length: int | None = None
    records: int = 0
    series: int = 0
    irregular: tuple[int, int, int] | None = None
    _open: tuple[int, int] = (0, 0)  # records and steps of the series that may go on

    def take(self, piece: CodedPiece) -> None:
        """Take the next piece."""
        ends = np.cumsum(piece.lengths)
        spans = piece.places[ends - 1] + 1  # (series,): steps up to the last record here
        lengths = piece.lengths.copy()
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
        """Say that all pieces have come."""
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
        """Refuse what is wrong with the table."""
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
        """Return what a pass over all records shows."""
        found = Survey(length)
        for piece in self.pieces():
            found.take(piece)
        found.end()
        return found

    def pieces(self, words: str = "records read") -> Iterator[CodedPiece]:
        """Yield the series, or parts of them, in the order of the table."""
        from undertow.data.rewriting import made_of

        data = self.data
        made = [*made_of(data, self.rule), data.record.there.alias(THERE)]
        order, coding = Order(data.grid, most=data.memory // 4), Coding(data, self.rule)
        for rows in pieces(data, *made, words=words):
            order.feed(rows)
            piece = coding.take(rows)
            if piece is not None:
                yield piece
        order.close()


class Coding:
    """Rows in order into pieces of series; a series goes on from piece to piece."""

    def __init__(self, data: "Data", rule: Rule) -> None:
        self.data, self.rule = data, rule
        self._last: tuple[str, int, int] | None = None  # label, first time, last place of a series

    def take(self, rows: "pl.DataFrame") -> CodedPiece | None:
        """Return the released ones of the next rows, None where there are none."""
        grid = self.data.grid
        kept = grid.windowed(rows.lazy()).drop_nulls(GROUP).collect()
        if not kept.height:
            return None
        piece, self._last = self._coded(kept, self._last)
        return piece

    def _coded(
        self, rows: "pl.DataFrame", last: tuple[str, int, int] | None
    ) -> tuple[CodedPiece, tuple[str, int, int]]:
        """Return a piece of rows, and where it ends; ``last`` is where the one before ended."""
        from undertow.data.rewriting import codes_of, person_labels, restored

        data, grid = self.data, self.data.grid
        codes = codes_of(data, rows, self.rule)
        new = rows[PERSON].ne_missing(rows[PERSON].shift(1)).to_numpy()
        begins = np.union1d([0], np.flatnonzero(new))  # (series,)
        lengths = np.diff(np.append(begins, rows.height))
        person = None if grid.person is None else data.source.columns[grid.person]
        labels = person_labels(person, rows[PERSON].gather(begins))
        goes_on = last is not None and last[0] == labels[0]
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
        piece = CodedPiece(codes, lengths, places, labels, partial(restored, data, rows), goes_on)
        return piece, (labels[-1], first, int(places[-1]))
