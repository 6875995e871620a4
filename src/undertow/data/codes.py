"""Series of states as numbers, from lists, arrays, columns and tables, and back into the same form.

A record that is none of the names is foreign; None, NaN and masked entries are missing. Foreign
objects are never asked to compare themselves: what they would raise could quote the data.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from undertow.data.columns import check_kinds, kinds_of
from undertow.data.folds import pieces
from undertow.data.grid import GROUP, PERSON, THERE, TIME, Order
from undertow.errors import InvalidInput, NotSupported, UnknownState
from undertow.queries import State, rest_of

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = [
    "FOREIGN",
    "MISSING",
    "Coded",
    "CodedPiece",
    "CodedPieces",
    "Coding",
    "Erased",
    "Lookup",
    "Rule",
    "Survey",
    "check_types",
    "coded",
    "coded_whole",
    "named",
    "settled",
    "standing",
]


Numbers = npt.NDArray[Any]
Erased = npt.NDArray[np.bool_] | None
"""Which records are erased; None: none can be."""
Restore = Callable[[Sequence[State], Numbers, Erased], Any]
"""Puts outputs (their names, the number of each record, which are erased) into the old form."""

_PLAIN = (str, bytes, bool, int, float)
FOREIGN, MISSING = -1, -2
"""What stands for the number of a record that has none."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How records become numbers: names in order, and what foreign and missing ones count as.

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
    """Series as numbers of states, one series after the other.

    ``lengths`` counts the records of each series and ``spans`` its steps of time, absent ones
    included; ``places`` is the step of each record (None: no step is absent). ``labels`` tell
    series apart: the person of a table, the number of a series in a list, an empty text for a
    series that is alone.
    """

    codes: Numbers
    lengths: npt.NDArray[np.int64]
    spans: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64] | None
    labels: Sequence[str]
    restore: Restore

    goes_on: ClassVar[bool] = False
    """Whether the first series has records in a piece before: all of them are here."""

    def pieces(self, _words: str = "") -> "Iterator[Coded]":
        """Yield the series in the pieces in which they are read: all of them at once."""
        yield self

    @property
    def longest(self) -> int:
        """The steps of the longest series, absent ones included."""
        return int(self.spans.max())

    def irregular(self, length: int) -> tuple[int, int, int] | None:
        """Return the first series without exactly so many steps, its records and absent steps."""
        wrong = np.flatnonzero((self.spans != length) | (self.lengths != self.spans))
        if not wrong.size:
            return None
        one = int(wrong[0])
        return one, int(self.lengths[one]), int(self.spans[one] - self.lengths[one])


def coded(data: "Data | Any", rule: Rule) -> "Coded | CodedPieces":
    """Return the records of one series, of several, or of a table as numbers.

    >>> coded(["b", "a", "b"], Rule(("a", "b"))).codes.tolist()
    [1, 0, 1]
    >>> coded([["b"], ["a", "b"]], Rule(("a", "b"))).lengths.tolist()
    [1, 2]
    """
    if hasattr(type(data), "answers"):
        from undertow.data.writing import coded_table

        return coded_table(data, rule)
    return _array(data, rule) if isinstance(data, np.ndarray) else _listed(data, rule)


def check_types(data: Any, states: Sequence[State]) -> None:
    """Refuse series, or a table, whose records can be in no state by their types alone.

    >>> check_types([["b"], ["a", None]], ("a", "b"))
    """
    if hasattr(type(data), "answers"):
        data.check_types(states)
    elif isinstance(data, np.ndarray) or _is_column(data):
        check_kinds(kinds_of(data), states, "the series")
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        many = bool(data) and all(_is_series(item, tuple(states)) for item in data)
        kinds = [kinds_of(item) for item in (data if many else [data])]
        check_kinds(frozenset().union(*kinds), states, "the series")


def standing(records: Sequence[Any], states: Sequence[State], missing: State) -> Sequence[Any]:
    """Return the records with a state in place of missing and foreign ones, if they are one.

    >>> standing(["a", None], ("a", "b"), "b")
    ['a', 'b']
    """
    rest = rest_of(missing, states)
    if rest is None:
        return records
    known = Lookup(Rule(tuple(states)))
    return [rest if known.number(record) < 0 else record for record in records]


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


def _array(data: npt.NDArray[Any], rule: Rule) -> Coded:
    if data.ndim not in (1, 2) or not data.size:
        raise InvalidInput(
            "an array of records has one dimension, or two (a row for each series), and at least "
            f"one record; found shape {data.shape}"
        )
    masked = isinstance(data, np.ma.MaskedArray)
    flat = np.asarray(np.ma.getdata(data)).reshape(-1)  # (series * records,)
    numbers = _array_numbers(flat, rule)
    if masked:
        numbers = np.where(np.ma.getmaskarray(data).reshape(-1), MISSING, numbers)
    rows, width = (1, data.size) if data.ndim == 1 else data.shape
    labels = _numbered(rows, many=data.ndim == 2)
    lengths = np.full(rows, width, dtype=np.int64)  # (series,)
    codes = _settled(numbers, rule, lengths, many=data.ndim == 2)

    def restore(names: Sequence[State], found: Numbers, erased: Erased) -> Any:
        table = _names_array(names, data.dtype)
        plain = Rule(tuple(names)).plainly_numbered and table.dtype == found.dtype
        values = found if plain else table[found]  # (series * records,)
        if erased is None:
            return values.reshape(data.shape)
        shown = np.zeros_like(values)  # what is erased must not lie under the mask
        shown[~erased] = values[~erased]
        return np.ma.MaskedArray(shown, mask=erased).reshape(data.shape)

    return Coded(codes, lengths, lengths, None, labels, restore)


def _array_numbers(flat: npt.NDArray[Any], rule: Rule) -> Numbers:
    """Return the number of each record of a flat array, negative where it has none."""
    if flat.dtype == np.object_:
        return _numbers(flat.tolist(), rule)
    whole = rule.plainly_numbered and flat.dtype.kind in "ui"
    if whole and flat.min() >= 0 and flat.max() < len(rule.names):
        return flat if flat.dtype == np.uint8 else flat.astype(np.int64)
    made = np.full(flat.size, FOREIGN, dtype=np.int64)
    kinds: tuple[type, ...] = {"U": (str,), "S": (bytes,)}.get(flat.dtype.kind, (bool, int, float))
    if flat.dtype.kind not in "USbuif":
        return made
    for place, name in enumerate(rule.names):
        if isinstance(name, kinds):  # a text is not a number, not even '1'
            made[flat == name] = place
    if flat.dtype.kind == "f":
        made[np.isnan(flat)] = MISSING
    return made


def _listed(data: Any, rule: Rule) -> Coded:
    """Return a list or a column of records, or a list of lists of records."""
    kind, column = type(data), _is_column(data)
    if hasattr(kind, "columns") or isinstance(data, Mapping):
        raise InvalidInput(
            "records in order are required, found a table; pass Data(table, value=..., person=..., "
            "time=...), or one of its columns"
        )
    if isinstance(data, str | bytes | Set) or not hasattr(kind, "__iter__"):
        raise InvalidInput(f"records in order are required, found {kind.__name__}")
    items = data.to_list() if column else list(data)
    many = not column and bool(items) and all(_is_series(item, rule.names) for item in items)
    series = [list(item) for item in items] if many else [items]
    lengths = np.array([len(one) for one in series], dtype=np.int64)  # (series,)
    if not lengths.sum():
        raise InvalidInput("the series has no records")
    flat = [record for one in series for record in one]
    codes = _settled(_numbers(flat, rule), rule, lengths, many=many)

    def restore(names: Sequence[State], found: Numbers, erased: Erased) -> Any:
        outputs = named(names, found)
        if erased is not None:
            gone = zip(outputs, erased.tolist(), strict=True)
            outputs = [None if hidden else name for name, hidden in gone]
        if not many:
            return _like(data, outputs, erased)
        ends = np.cumsum(lengths).tolist()
        parts = [slice(end - size, end) for size, end in zip(lengths, ends, strict=True)]
        return [
            _like(item, outputs[part], None if erased is None else erased[part])
            for item, part in zip(items, parts, strict=True)
        ]

    labels = _numbered(len(series), many=many)
    return Coded(codes, lengths, lengths, None, labels, restore)


def _numbered(series: int, *, many: bool) -> Sequence[str]:
    """Return the labels of series that nobody has named."""
    return [str(number) for number in range(series)] if many else [""]


def _like(item: Any, part: list[Any], erased: Erased) -> Any:
    """Return the outputs of one series in the form that the series had."""
    if isinstance(item, tuple):
        return tuple(part)
    if _is_column(item):
        if not hasattr(item, "index"):
            return type(item)(item.name, part)
        kind = None if erased is None else object  # else None would make numbers of names
        return type(item)(part, index=item.index, name=item.name, dtype=kind)
    if not isinstance(item, np.ndarray):
        return part
    if erased is None:
        return np.array(part)
    filler = next((name for name in part if name is not None), 0)
    blank = type(filler)()  # what is erased must not lie under the mask
    return np.ma.MaskedArray([blank if name is None else name for name in part], mask=erased)


def _is_series(item: Any, names: tuple[State, ...]) -> bool:
    """Return whether an item of a list is a series: no text, no state of the plan."""
    if isinstance(item, str | bytes | Set | Mapping) or not hasattr(type(item), "__iter__"):
        return False
    return getattr(item, "ndim", 1) == 1 and not (isinstance(item, tuple) and item in names)


def _numbers(records: list[Any], rule: Rule) -> npt.NDArray[np.int64]:
    """Return the number of each record, negative where it has none."""
    number = Lookup(rule).number
    return np.fromiter((number(record) for record in records), np.int64, len(records))


class Lookup:
    """The numbers of single records; foreign objects are not asked to compare themselves.

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


def _settled(
    numbers: Numbers, rule: Rule, lengths: npt.NDArray[np.int64], *, many: bool
) -> Numbers:
    """Return numbers of states only: unsigned bytes are such, they were checked already."""
    if numbers.dtype == np.uint8:
        return numbers
    return settled(numbers, rule, lambda wrong: _where(int(np.argmax(wrong)), lengths, many))


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


def _where(place: int, lengths: npt.NDArray[np.int64], many: bool) -> str:
    ends = np.cumsum(lengths)  # (series,)
    series = int(np.searchsorted(ends, place, side="right"))
    record = place - int(ends[series] - lengths[series])
    return f"record {record} of series {series}" if many else f"record {record}"


def _names_array(names: Sequence[State], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the names as an array, of the type that the records had if it can hold them."""
    kinds = {type(name) for name in names}
    same = len(kinds) == 1 or kinds <= {bool, int, float}
    table = np.empty(len(names), dtype=np.object_)
    table[:] = list(names)
    if not same or dtype == np.object_:
        return table
    natural = np.array(list(names))
    if natural.dtype.kind not in "USbuif":
        return table
    try:
        cast = natural.astype(dtype)
    except (TypeError, ValueError):
        return natural
    return cast if cast.tolist() == natural.tolist() else natural


def _is_column(data: Any) -> bool:
    """Return whether this is a column of pandas, which has an index, or of Polars."""
    library = type(data).__module__.partition(".")[0]
    return library in ("pandas", "polars") and hasattr(data, "to_list")


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
        from undertow.data.writing import made_of

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
        from undertow.data.writing import codes_of, person_labels, restored

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
