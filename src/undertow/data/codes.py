"""Series of states as numbers, from lists, arrays, columns and tables, and back into the same form.

A record that is none of the names is foreign; None, NaN and masked entries are missing. Foreign
objects are never compared: what their methods raise could quote the data.
"""

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.data.columns import Column, as_float, column_of_name, part_of
from undertow.data.folds import CODE, pieces
from undertow.data.grid import GROUP, PERSON, ROW, THERE, TIME, Order
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.mechanisms import LocalMechanism
from undertow.queries import State

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = [
    "ERASED",
    "FOREIGN",
    "MISSING",
    "Coded",
    "CodedPieces",
    "Coding",
    "Erased",
    "Lookup",
    "OutputDigest",
    "Rule",
    "Survey",
    "coded",
    "coded_table",
    "coded_whole",
    "codes_of",
    "coding_columns",
    "column_of",
    "concatenated",
    "is_frame",
    "named",
    "person_labels",
    "restored",
    "settled",
    "write_frames",
]


Numbers = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Erased = npt.NDArray[np.bool_] | None
"""Which records are erased; None: none can be."""
Restore = Callable[[Sequence[State], Numbers, Erased], Any]
"""Puts outputs (their names, the number of each record, which are erased) into the old form."""

_PLAIN = (str, bytes, bool, int, float)
ERASED = "erased"
"""The column that says which records of a redacted table are erased."""
FOREIGN, MISSING = -1, -2
"""Code of a record without a state."""


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

    @classmethod
    def of_outputs(cls, mechanism: LocalMechanism, states: tuple[State, ...]) -> "Rule":
        """Return the rule for outputs of a mechanism; an erased one has the number after all."""
        names = mechanism.names(states)
        erased = len(names) if mechanism.task == "redact" else None
        return cls(names, missing=erased, outputs=True)

    def refusal(self, where: str) -> UnknownState:
        """Return the error about a record at a place that is named, without its value."""
        if self.outputs:
            return UnknownState(
                f"{where} (counting from 0) is missing, or no output of this plan; pass what "
                "sanitize returned for it"
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
        data = self.data
        columns = [*coding_columns(data, self.rule), data.record.there.alias(THERE)]
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


def coded_table(data: "Data", rule: Rule) -> "Coded | CodedPieces":
    """Return the records of each person in order of time, absent steps counted in ``spans``.

    Put back, they become a frame with the columns of persons, times and groups as they were and
    the outputs in the column of the records, last; rows are in the order of the table. A table
    that is read in pieces is coded in pieces.
    """
    columns = coding_columns(data, rule)
    if data.source.spread:
        from undertow.data.readers.spark import SpreadSeries

        return SpreadSeries(data, rule)
    if data.piece is not None:
        return CodedPieces(data, rule)
    _, rows = data.in_order(*columns, grouped=True)
    if not rows.height:
        raise InvalidInput("there are no records")
    whole, _ = Coding(data, rule).code(rows)  # one piece, of persons one after the other
    places = None if (whole.spans == whole.lengths).all() else whole.places
    return replace(whole, places=places, restore=partial(_in_table_order, data, rows))


def _in_table_order(
    data: "Data", rows: "pl.DataFrame", names: Sequence[State], numbers: Numbers, erased: Erased
) -> "pl.DataFrame":
    """Return rows with their outputs, in the order of the table."""
    written = restored(data, rows, names, numbers, erased)
    return written.with_columns(rows[ROW]).sort(ROW).drop(ROW)


def coding_columns(data: "Data", rule: Rule) -> "list[pl.Expr]":
    """Return the columns that a row needs to be replaced, or refuse a table that cannot be."""
    if data.grid.fill:
        raise NotSupported(
            "absent steps that count as records have no row to write their output to; add the "
            "rows to the table, or say gaps='split'"
        )
    kept = _kept(data)
    _title(data, kept)
    return [
        data.record.positions(rule.names, named=True).alias(CODE),
        *(
            column_of_name(name).alias(part_of(name, "kept"))
            for name in kept
            if data.source.columns[name].kind != "objects"
        ),
    ]


def restored(
    data: "Data", rows: "pl.DataFrame", names: Sequence[State], numbers: Numbers, erased: Erased
) -> "pl.DataFrame":
    """Return rows with their outputs: public columns as they were, outputs last."""
    import polars as pl

    kept = _kept(data)
    written = {name: _given(data.source.columns[name], name, rows, data) for name in kept}
    written[_title(data, kept)] = _outputs(names, numbers, erased)
    if erased is not None:
        written[ERASED] = pl.Series(erased)
    return pl.DataFrame(written)


def person_labels(column: Column | None, keys: "pl.Series") -> list[str]:
    """Return the labels of persons, which do not depend on the kind of table.

    A text is itself; a whole number its decimal digits, another number its shortest form, a time
    its microseconds, a truth value ``true`` or ``false``; an empty text without a column. Among
    Python objects all others than texts have a null character in front where there are texts.
    ``keys`` are those of `Column.key`, one for each person.

    >>> import polars as pl
    >>> person_labels(Column("id", "number"), pl.Series([7.0, 0.5]))
    ['7', '0.5']
    """
    if column is None:
        return [""] * len(keys)
    persons = column.persons(keys.to_list())
    if column.kind != "objects":
        return [_label(person) for person in persons]
    mixed = len({isinstance(person, str) for person in persons}) > 1
    labels = [
        f"\0{_label(person)}" if mixed and not isinstance(person, str) else _label(person)
        for person in persons
    ]
    if len(set(labels)) < len(labels):
        raise InvalidInput(
            f"two persons of column {column.name!r} are written alike, such as a time and its "
            "number; name persons by texts"
        )
    return labels


def _label(person: Any) -> str:
    if isinstance(person, str):
        return person
    if isinstance(person, bool):
        return "true" if person else "false"
    if isinstance(person, int):
        return str(person)
    if isinstance(person, float):
        return str(int(person)) if person.is_integer() else repr(person)
    if isinstance(person, Decimal) and not person.is_finite():
        return repr(float(person))
    if isinstance(person, Decimal | Fraction):  # equal numbers are one person, and look alike
        exact = Fraction(person)
        if exact.denominator == 1:
            return str(exact.numerator)
        near = as_float(exact)
        return repr(near) if near is not None and near == exact else f"\0{exact}"
    return f"\0{type(person).__name__}\0{person!r}"


def _kept(data: "Data") -> list[str]:
    named = (data.grid.person, data.grid.time, data.by)
    return list(dict.fromkeys(name for name in named if name is not None))


def _title(data: "Data", kept: Sequence[str]) -> str:
    """Return the column of the outputs: that of the values, or one that is not there yet."""
    if ERASED in (*kept, data.value):
        raise InvalidInput(
            f"a column is named {ERASED!r}, like the one that says what is erased; rename it"
        )
    title = "state" if data.value is None else data.value
    while title in kept:
        title += "_"
    return title


def codes_of(data: "Data", table: "pl.DataFrame", rule: Rule) -> Numbers:
    """Return the number of each row's record, or refuse the first that has none, by its row."""
    if rule.foreign is not None and rule.missing is None:  # all of them count as one state
        numbers = table[CODE].fill_null(rule.foreign).to_numpy()
        return numbers.astype(np.uint8 if numbers.max(initial=0) < 256 else np.uint16)
    rows, codes = table[ROW].to_numpy(), table[CODE].fill_null(-1).to_numpy().astype(np.int64)
    none = np.where(table[THERE].to_numpy(), FOREIGN, MISSING)  # (rows,)
    numbers = np.where(codes < 0, none, codes)
    words = data.record.words
    return settled(numbers, rule, lambda wrong: f"row {int(rows[wrong].min())} of {words}")


def _given(column: Column, name: str, rows: "pl.DataFrame", data: "Data") -> "pl.Series":
    """Return a column unchanged; Python objects as they were read."""
    import polars as pl

    if column.kind != "objects":
        return rows[part_of(name, "kept")]
    if name == data.grid.time:
        times = rows[TIME]
        zone = "UTC" if data.grid.zoned else None
        return times.cast(pl.Datetime("us", zone)) if data.grid.clock else times
    key = PERSON if name == data.grid.person else GROUP
    names: Sequence[Any] = column.labels
    if key == GROUP:
        names = column.groups if data.groups is None else data.groups
    return pl.Series([names[place] for place in rows[key]], strict=False)


def _outputs(names: Sequence[State], numbers: Numbers, erased: Erased) -> "pl.Series":
    """Return the names of outputs as a column; an erased one is null."""
    import polars as pl

    kinds = {type(name) for name in names}
    plain = len(kinds) == 1 and kinds <= {str, int, float, bool}
    table = pl.Series(list(names)) if plain else pl.Series([str(name) for name in names])
    places = pl.Series(numbers.astype(np.uint32))
    if erased is not None:
        places = places.set(pl.Series(erased), None)
    return table.gather(places)


_LEVEL = 6
"""Compression level of gzip."""


def write_frames(frames: "Iterable[pl.DataFrame]", file: IO[bytes], name: str) -> None:
    """Write frames of the same columns, at least one, as one table of the kind that a name says.

    Memory is that of a few frames. Raises OSError where the file cannot be written, and whatever
    the frames raise.

    >>> import io
    >>> import polars as pl
    >>> held = io.BytesIO()
    >>> write_frames([pl.DataFrame({"x": [n]}) for n in range(2)], held, "t.csv")
    >>> held.getvalue()
    b'x\\n0\\n1\\n'
    """
    if name.lower().endswith(".parquet"):
        _parquet(iter(frames), file)
    elif name.lower().endswith(".gz"):
        with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
            _csv(frames, packed)
    else:
        _csv(frames, file)


def _csv(frames: "Iterable[pl.DataFrame]", file: IO[bytes] | gzip.GzipFile) -> None:
    for number, frame in enumerate(frames):
        text: Any = frame.write_csv(include_header=not number)
        file.write(text.encode())


def _parquet(frames: "Iterator[pl.DataFrame]", file: IO[bytes]) -> None:
    """Write frames as the streaming engine of Polars takes them: one is made, one is written."""
    import polars as pl
    from polars.io.plugins import register_io_source

    first = next(frames)
    raised: list[BaseException] = []

    def given(*_: Any) -> "Iterator[pl.DataFrame]":
        try:
            yield first
            yield from frames
        except BaseException as error:
            raised.append(error)  # Polars may wrap it
            raise

    try:
        register_io_source(given, schema=first.schema).sink_parquet(file, maintain_order=True)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if raised:
            raise raised[0] from None
        raise OSError(str(error)) from None


def concatenated(frames: "list[pl.DataFrame]") -> "pl.DataFrame":
    """Return the rows of frames of the same columns, one after the other."""
    import polars as pl

    return pl.concat(frames)


def is_frame(data: Any) -> bool:
    """Return whether this is a frame of Polars.

    >>> is_frame([1, 2])
    False
    """
    import polars as pl

    return isinstance(data, pl.DataFrame)


def column_of(frame: "pl.DataFrame") -> "pl.Series":
    """Return the column of records of a frame that was sanitised: the last.

    >>> import polars as pl
    >>> column_of(pl.DataFrame({"id": ["x"], "state": ["idle"]})).name
    'state'
    """
    names = [name for name in frame.columns if name != ERASED]
    if not names:
        raise InvalidInput("the table has no column of records")
    return frame[names[-1]]


_HASHED = 2**18
"""Outputs that are hashed at a time."""


class OutputDigest:
    """SHA-256 of outputs as JSON, a line each, and a line feed after each series.

    Series come one after the other, in whatever pieces.

    >>> whole, parts = OutputDigest("ab"), OutputDigest("ab")
    >>> whole.feed(np.array([3]), np.array([0, 1, 1]), None)
    >>> parts.feed(np.array([1]), np.array([0]), None)
    >>> parts.feed(np.array([2]), np.array([1, 1]), None, goes_on=True)
    >>> whole.result() == parts.result()
    True
    """

    def __init__(self, names: Sequence[State]) -> None:
        """Begin with no series."""
        lines = [json.dumps(name, default=str).encode() + b"\n" for name in names] + [b"null\n"]
        # (outputs, bytes): lines, filled up with zeros, which no line of JSON has
        widest = max(map(len, lines))
        filled = b"".join(line.ljust(widest, b"\0") for line in lines)
        self._lines = np.frombuffer(filled, np.uint8).reshape(len(lines), widest)
        self._digest, self._begun = hashlib.sha256(), False

    def feed(
        self, lengths: npt.NDArray[np.int64], numbers: Numbers, erased: Erased, *,
        goes_on: bool = False,
    ) -> None:  # fmt: skip
        """Add outputs; the first series may go on from those before."""
        if erased is not None:
            numbers = np.where(erased, len(self._lines) - 1, numbers)
        for series, (end, size) in enumerate(zip(np.cumsum(lengths), lengths, strict=True)):
            if self._begun and (series or not goes_on):
                self._digest.update(b"\n")
            self._begun = True
            for start in range(int(end - size), int(end), _HASHED):
                table = self._lines[numbers[start : min(start + _HASHED, int(end))]]
                self._digest.update(table[table > 0].tobytes())

    def result(self) -> str:
        """Return the hash of all series."""
        whole = self._digest.copy()
        if self._begun:
            whole.update(b"\n")
        return whole.hexdigest()
