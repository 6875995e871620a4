"""Tables written piece by piece, and outputs put back into the form of the table."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.data.codes import (
    FOREIGN,
    MISSING,
    Coded,
    CodedPieces,
    Coding,
    Erased,
    Numbers,
    Rule,
    settled,
)
from undertow.data.columns import Column, as_float, column_of_name, part_of
from undertow.data.folds import CODE
from undertow.data.grid import GROUP, PERSON, ROW, THERE, TIME
from undertow.errors import InvalidInput, NotSupported
from undertow.queries import State

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = [
    "ERASED",
    "OutputDigest",
    "coded_table",
    "codes_of",
    "column_of",
    "concatenated",
    "is_frame",
    "made_of",
    "person_labels",
    "restored",
    "write_frames",
]


_LEVEL = 6
"""How hard gzip tries."""


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


ERASED = "erased"
"""The column that says which records of a redacted table are erased."""


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


def coded_table(data: "Data", rule: Rule) -> "Coded | CodedPieces":
    """Return the records of each person in order of time, absent steps counted in ``spans``.

    Put back, they become a frame with the columns of persons, times and groups as they were and
    the outputs in the column of the records, last; rows are in the order of the table. A table
    that is read in pieces is coded in pieces.
    """
    columns = made_of(data, rule)
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


def made_of(data: "Data", rule: Rule) -> "list[pl.Expr]":
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
