"""Rows in order as series of numbers, piece by piece: digests of them, and their outputs.

What `undertow.data.rewriting` does with a table in memory is done here with the rows of
`Data.rows(*made)` that come in pieces, each person's together and in order of time. The labels,
places and numbers are the same, and so are the outputs under the same key.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.channels import LocalMechanism
from undertow.data.codes import FOREIGN, MISSING, Numbers, Rule
from undertow.data.columns import Column, column_of_name, part_of
from undertow.data.folds import CODE
from undertow.data.grid import GROUP, PERSON, THERE, TIME, Grid
from undertow.data.rewriting import ERASED, kept_columns, output_column, outputs, person_labels
from undertow.sampling.keyed import Carry, Digest, Key, randomised

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = ["Digested", "Reading", "Rewriting", "Run"]


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of series: labels, records of each, their numbers and places, and their rows.

    ``places`` is None where they follow one another without a gap that could be known.
    """

    labels: Sequence[str]
    lengths: npt.NDArray[np.int64]
    codes: Numbers
    places: npt.NDArray[np.int64] | None
    rows: "pl.DataFrame"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read of each row, and how it becomes a number of a state.

    ``made`` are the expressions of `Data.rows`; ``kept`` the columns that are written as they were.
    """

    grid: Grid
    person: Column | None
    rule: Rule
    made: "tuple[pl.Expr, ...]"
    kept: tuple[str, ...]
    title: str

    @classmethod
    def of(cls, data: "Data", rule: Rule, *, written: bool = True) -> "Reading":
        """Return how the records of data are read; whether their other columns are needed."""
        kept = kept_columns(data)
        title = output_column(data, kept)
        made = [
            data.record.positions(rule.names, named=True).alias(CODE),
            data.record.there.alias(THERE),
        ]
        if written:
            made += [column_of_name(name).alias(part_of(name, "kept")) for name in kept]
        person = None if data.grid.person is None else data.source.columns[data.grid.person]
        return cls(data.grid, person, rule, tuple(made), tuple(kept), title)


class _Runs:
    """Pieces of rows into runs; the person at a border goes on."""

    def __init__(self, reading: Reading) -> None:
        self._reading, self.wrong = reading, 0  # records that the rule refuses
        self._last: tuple[Any, int] | None = None  # the last person, and their first time

    def read(self, rows: "pl.DataFrame") -> Run | None:
        """Return the released records of some rows as numbers, None where there are none."""
        grid = self._reading.grid
        rows = grid.windowed(rows.lazy()).drop_nulls(GROUP).collect()
        if not rows.height:
            return None
        person = rows[PERSON]
        begins = np.flatnonzero(person.ne_missing(person.shift(1)).to_numpy())
        begins = np.union1d([0], begins)  # (series,)
        lengths = np.diff(np.append(begins, rows.height))
        keys = person.gather(begins)
        labels = person_labels(self._reading.person, keys)
        return Run(labels, lengths, self._codes(rows), self._places(rows, begins, lengths), rows)

    def _codes(self, rows: "pl.DataFrame") -> Numbers:
        """Return the numbers of states; what is refused is counted, and stands for the first."""
        rule = self._reading.rule
        codes = rows[CODE].fill_null(-1).to_numpy().astype(np.int64)
        none = np.where(rows[THERE].to_numpy(), FOREIGN, MISSING)  # (rows,)
        missing = rule.foreign if rule.missing is None else rule.missing
        numbers = np.where(codes < 0, none, codes)
        for kind, code in ((FOREIGN, rule.foreign), (MISSING, missing)):
            wrong = numbers == kind
            self.wrong += int(wrong.sum()) if code is None else 0
            numbers = np.where(wrong, code or 0, numbers)
        return numbers.astype(np.uint8 if numbers.max() < 256 else np.uint16)

    def _places(
        self, rows: "pl.DataFrame", begins: Any, lengths: Any
    ) -> npt.NDArray[np.int64] | None:
        step = self._reading.grid.step
        if step is None:
            return None
        times, firsts = rows[TIME].to_numpy(), rows[TIME].to_numpy()[begins].copy()
        if self._last is not None and self._last[0] == rows[PERSON][0]:
            firsts[0] = self._last[1]
        self._last = rows[PERSON][-1], int(firsts[-1])
        return np.asarray((times - np.repeat(firsts, lengths)) // step)  # (rows,)


class Digested:
    """A fold: the keyed digest of records, and how many records and series there are.

    ``secret`` is its key; without one anybody can compute it: for outputs, which are public. Then
    places are ranks, whatever step of time is named. ``wrong`` counts records that are refused.
    """

    ordered = True

    def __init__(self, reading: Reading, secret: bytes | None = None) -> None:
        self._given = (reading, secret)
        self._runs, self._digest = _Runs(reading), Digest(Key(secret or bytes(32)))
        self.records = self.series = self.wrong = 0
        self._last: str | None = None

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        found = self._runs.read(rows)
        self.wrong += self._runs.wrong
        self._runs.wrong = 0
        if found is not None:
            self.add(found, found.codes)

    def add(self, run: Run, codes: Numbers) -> None:
        """Take the next series, with numbers of their states or of their outputs."""
        self.records += codes.size
        same = bool(run.labels) and run.labels[0] == self._last  # of the piece before
        self.series += len(run.labels) - same
        self._last = run.labels[-1] if run.labels else self._last
        places = None if self._given[1] is None else run.places
        self._digest.feed(run.labels, run.lengths, codes, places)

    def result(self) -> bytes:
        """Return the digest of all series."""
        return self._digest.result()

    def merge(self, other: "Digested") -> None:
        """Take over what was kept of other persons."""
        self._digest.merge(other.result())
        for name in ("records", "series", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def state(self) -> list[Any]:
        """Return the digest and the numbers."""
        return [self.result().hex(), self.records, self.series, self.wrong]

    def load(self, state: list[Any]) -> "Digested":
        """Return the fold that has these."""
        made = Digested(*self._given)
        made._digest.merge(bytes.fromhex(state[0]))
        made.records, made.series, made.wrong = state[1:]
        return made

    def __reduce__(self) -> Any:  # copied or sent, it begins anew
        return Digested, self._given


class Rewriting:
    """Rows into outputs under a key, piece by piece; keeps digests of the records and the outputs.

    ``secret`` is that of the flips, ``digest`` that of the digest of the records.
    """

    ordered = True

    def __init__(
        self, reading: Reading, mechanism: LocalMechanism, names: Sequence[Any], secret: bytes,
        digest: bytes,
    ) -> None:  # fmt: skip
        self._given = (reading, mechanism, tuple(names), secret, digest)
        self._runs, self._key = _Runs(reading), Key(secret)
        self._carry: Carry | None = None
        self.read, self.shown = Digested(reading, digest), Digested(reading)

    @property
    def made_of(self) -> "tuple[pl.Expr, ...]":
        """What is made of each row of the table."""
        return self._given[0].made

    def rewritten(self, rows: "pl.DataFrame") -> "pl.DataFrame":
        """Return the released ones of the next rows: columns as they were, and the outputs."""
        import polars as pl

        reading, mechanism, names, _, _ = self._given
        found = self._runs.read(rows)
        if found is None:
            found = Run([], np.zeros(0, np.int64), np.zeros(0, np.uint8), None, rows[:0])
        self.read.add(found, found.codes)
        series = (found.labels, found.lengths, found.codes, found.places)
        drawn = randomised(mechanism, self._key, *series, carry=self._carry)
        self._carry, erased = drawn.carry, drawn.erased
        written = {name: found.rows[part_of(name, "kept")] for name in reading.kept}
        written[reading.title] = outputs(names, drawn.numbers, erased)
        shown = drawn.numbers
        if mechanism.task == "redact":
            erased = np.zeros(0, np.bool_) if erased is None else erased
            shown = np.where(erased, len(names), shown)
            written[ERASED] = pl.Series(erased)
        self.shown.add(found, shown)
        return pl.DataFrame(written)

    def merge(self, other: "Rewriting") -> None:
        """Take over what was kept of other persons."""
        self.read.merge(other.read)
        self.shown.merge(other.shown)

    def state(self) -> list[Any]:
        """Return both digests."""
        return [self.read.state(), self.shown.state()]

    def load(self, state: list[Any]) -> "Rewriting":
        """Return what has these digests."""
        made = Rewriting(*self._given)
        made.read, made.shown = self.read.load(state[0]), self.shown.load(state[1])
        return made

    def __reduce__(self) -> Any:  # copied or sent, it begins anew
        return Rewriting, self._given
