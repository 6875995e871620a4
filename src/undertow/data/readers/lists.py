"""Plain series of records: lists, arrays and columns, read without a table library.

`read_series` takes one series or several, `one_series` exactly one. A series is whole, and each
belongs to another person. Records may be any objects: those of foreign types are never compared,
since what they raise could quote the data. Sanitised records get the form of what was read.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.data.answers import Answers, domain_of, numbers_of_states, weighted
from undertow.data.codes import (
    FOREIGN,
    MISSING,
    Coded,
    Erased,
    Lookup,
    Numbers,
    Restore,
    Rule,
    named,
    settled,
)
from undertow.data.columns import check_kinds, kinds_of
from undertow.data.grid import Shape
from undertow.data.scopes import Scope
from undertow.data.table import Data
from undertow.errors import InvalidInput
from undertow.queries import AnyQuery, State, Transitions, rest_of

__all__ = ["PlainSeries", "one_series", "read_records", "read_series"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PlainSeries:
    """Series of records in memory: the reader of what is no table.

    ``records`` holds all series one after the other, ``lengths`` the records of each. ``typed``
    are the containers that say the types of records. ``many`` tells a list of series from a series
    that is alone, and ``restore`` puts outputs into the form that was read.

    >>> read_series([["a", "b"], ["b"]], ("a", "b")).shape().longest
    2
    """

    records: Sequence[Any] | npt.NDArray[Any]
    lengths: Ints
    many: bool
    typed: Sequence[Any]
    restore: Restore

    def __repr__(self) -> str:
        """Return how many series there are; the records are private."""
        return f"PlainSeries({len(self.lengths)} series)"

    def check_types(self, states: Sequence[State]) -> None:
        """Refuse records none of whose types can be a state's."""
        kinds = frozenset().union(*map(kinds_of, self.typed))
        check_kinds(kinds, states, "the series" if self.many else "the list of records")

    def shape(self) -> Shape:
        """Return the public facts."""
        sizes = [int(length) for length in self.lengths]
        return Shape(
            sum(sizes), len(sizes), max(sizes), gaps=False, series=max(sizes), shortest=min(sizes),
            windowed=False, split=False,
        )  # fmt: skip

    def touched(self) -> tuple[Any, ...]:
        """Return the fields of the scope: all records."""
        return None, None, None, None, "time"

    def scope(self) -> Scope:
        """Return which records a release touches: all."""
        return Scope()

    def reading(self) -> dict[str, Any]:
        """Return what is read, as JSON."""
        return {"source": "the list of records"}

    def described(self) -> None:
        """Return None: a list does not say what its records are, and takes the model's word."""

    def identity(self) -> None:
        """Return None: a list has neither persons nor times to be identified by."""

    def bounds(self) -> None:
        """Return None: a list has no window."""

    def answers(
        self, query: AnyQuery, states: Sequence[State] = (), missing: State = "any"
    ) -> Answers:
        """Return the exact answer of a query about all series together: see `Data.answers`."""
        names = tuple(states)
        rows = [int(self.lengths.sum())]
        if query.integral:
            domain, rest = domain_of(query, names), rest_of(missing, names)
            codes = self.numbers(Rule(domain)).astype(np.int64)
            codes = codes if rest is None else np.where(codes < 0, domain.index(rest), codes)
            if isinstance(query, Transitions):
                return Answers(None, [self._transitions(codes, len(domain))], rows)
            counts = np.bincount(codes[codes >= 0], minlength=len(domain)).tolist()
            return Answers(None, [numbers_of_states(query, domain, counts)], rows)
        lattice = query.lattice()
        if lattice.places is None:
            held = self.records  # a masked array lists None where it is masked
            records = held.tolist() if isinstance(held, np.ndarray) else held
            places = [lattice.place(record) for record in records]
        else:
            steps, otherwise = lattice.steps_of(names, missing)
            codes = self.numbers(Rule(names))
            places = [otherwise if code < 0 else steps[code] for code in codes.tolist()]
        if lattice.weights is None:
            return Answers(None, [[sum(places)]], rows)
        if len(places) != len(lattice.weights):
            raise InvalidInput(f"{len(lattice.weights)} weights do not fit {len(places)} records")
        return Answers(None, [[weighted(places, lattice)]], rows)

    def _transitions(self, codes: Ints, size: int) -> list[int]:
        """Return the (k, k) table of pairs of neighbours, row by row."""
        series = np.repeat(np.arange(self.lengths.size), self.lengths)  # (n,)
        pair = (codes[:-1] >= 0) & (codes[1:] >= 0) & (series[1:] == series[:-1])
        cells = (codes[:-1] * size + codes[1:])[pair]
        return [int(n) for n in np.bincount(cells, minlength=size**2)]

    def numbers(self, rule: Rule) -> Numbers:
        """Return the number of each record's state, negative where it has none."""
        if not isinstance(self.records, np.ndarray):
            lookup = Lookup(rule).number
            codes = (lookup(record) for record in self.records)
            return np.fromiter(codes, np.int64, len(self.records))
        flat = np.asarray(np.ma.getdata(self.records))
        numbers = _array_numbers(flat, rule)
        if isinstance(self.records, np.ma.MaskedArray):
            numbers = np.where(np.ma.getmaskarray(self.records), MISSING, numbers)
        return numbers

    def coded(self, rule: Rule) -> Coded:
        """Return the records as numbers of states, or refuse one by its place."""
        numbers = self.numbers(rule)
        if numbers.dtype != np.uint8:  # unsigned bytes are numbers of states already
            numbers = settled(numbers, rule, lambda wrong: self._place(int(np.argmax(wrong))))
        labels = [str(number) for number in range(len(self.lengths))] if self.many else [""]
        return Coded(numbers, self.lengths, self.lengths, None, labels, self.restore)

    def _place(self, record: int) -> str:
        """Return in words which record is meant."""
        ends = np.cumsum(self.lengths)  # (series,)
        series = int(np.searchsorted(ends, record, side="right"))
        place = record - int(ends[series] - self.lengths[series])
        return f"record {place} of series {series}" if self.many else f"record {place}"


def read_records(data: Any, states: Sequence[State]) -> Data | PlainSeries:
    """Return the reader of records: a table as it is, or that of one series or several.

    >>> read_records(["b", "a"], ("a", "b"))
    PlainSeries(1 series)
    """
    return data if isinstance(data, Data) else read_series(data, states)


def one_series(data: Any) -> PlainSeries:
    """Read one series of records: a list, an array, a column, or anything in order.

    >>> one_series(["b", "a"]).lengths.tolist()
    [2]
    """
    if getattr(data, "ndim", 1) != 1:
        raise _table()
    if isinstance(data, np.ndarray):
        return _array(data)
    return _listed(data, lambda _: False)


def read_series(data: Any, states: Sequence[State]) -> PlainSeries:
    """Read one series or several: a list of series, or an array with a row for each.

    A tuple that is one of the ``states`` is a record, and no series.

    >>> read_series([["b"], ["a", "b"]], ("a", "b")).lengths.tolist()
    [1, 2]
    """
    if isinstance(data, np.ndarray):
        return _array(data)
    names = tuple(states)
    return _listed(data, lambda item: _is_series(item, names))


def _array(data: npt.NDArray[Any]) -> PlainSeries:
    """Read an array of one dimension, or of two: a row for each series."""
    if data.ndim not in (1, 2):
        raise InvalidInput(
            "an array of records has one dimension, or two (a row for each series); found shape "
            f"{data.shape}"
        )
    if not data.size:
        raise InvalidInput("the series has no records")
    rows, width = (1, data.size) if data.ndim == 1 else data.shape

    lengths = np.full(rows, width, dtype=np.int64)
    restore = partial(_restored_array, data.dtype, data.shape)
    return PlainSeries(data.reshape(-1), lengths, data.ndim == 2, [data], restore)


def _listed(data: Any, is_series: Callable[[Any], bool]) -> PlainSeries:
    """Read a list or a column of records, or a list of series."""
    kind, column = type(data), _is_column(data)
    if isinstance(data, str | bytes):
        raise InvalidInput("a series of records is required, found one string")
    if isinstance(data, Mapping) or hasattr(kind, "columns"):
        raise _table()
    if isinstance(data, Set) or not isinstance(data, Iterable):
        raise InvalidInput(f"a series of records is required, found {kind.__name__}")
    items = _items(data)
    many = not column and bool(items) and all(map(is_series, items))
    series = [_items(item) for item in items] if many else [items]
    lengths = np.array([len(one) for one in series], dtype=np.int64)  # (series,)
    if not lengths.sum():
        raise InvalidInput("the series has no records")

    records = [record for one in series for record in one]
    typed = items if many else [data if hasattr(data, "dtype") else items]
    restore = partial(_restored_series, items, lengths) if many else partial(_restored, data)
    return PlainSeries(records, lengths, many, typed, restore)


def _items(data: Any) -> list[Any]:
    """Return what a container holds as Python objects, where it has a way to give them."""
    if _is_column(data):
        return list(data.to_list())
    if isinstance(data, np.ndarray):  # its scalars keep their types
        return list(data)
    return list(data.tolist() if hasattr(data, "tolist") else data)


def _table() -> InvalidInput:
    """Return the error about a table where series are required."""
    return InvalidInput(
        "a series of records is required, found a table; pass Data(table, value=..., person=..., "
        "time=...), or one of its columns"
    )


def _restored_array(
    dtype: np.dtype[Any], shape: tuple[int, ...], names: Sequence[State], numbers: Numbers,
    erased: Erased,
) -> npt.NDArray[Any]:  # fmt: skip
    """Return outputs as an array of the shape that was read."""
    table = _names_array(names, dtype)
    plain = Rule(tuple(names)).plainly_numbered and table.dtype == numbers.dtype
    values = numbers if plain else table[numbers]  # (series * records,)
    if erased is None:
        return values.reshape(shape)
    visible = np.zeros_like(values)  # what is erased must not lie under the mask
    visible[~erased] = values[~erased]
    return np.ma.MaskedArray(visible, mask=erased).reshape(shape)


def _restored(item: Any, names: Sequence[State], numbers: Numbers, erased: Erased) -> Any:
    """Return the outputs of one series in the form that it had."""
    outputs = named(names, numbers)
    if erased is not None:
        gone = zip(outputs, erased.tolist(), strict=True)
        outputs = [None if hidden else name for name, hidden in gone]
    return _like(item, outputs, erased)


def _restored_series(
    items: Sequence[Any], lengths: Ints, names: Sequence[State], numbers: Numbers, erased: Erased
) -> list[Any]:
    """Return the outputs of several series, each in the form that it had."""
    ends = np.cumsum(lengths).tolist()
    parts = [slice(end - size, end) for size, end in zip(lengths, ends, strict=True)]
    return [
        _restored(item, names, numbers[part], None if erased is None else erased[part])
        for item, part in zip(items, parts, strict=True)
    ]


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


def _array_numbers(flat: npt.NDArray[Any], rule: Rule) -> Numbers:
    """Return the number of each record of a flat array, negative where it has none."""
    if flat.dtype == np.object_:
        lookup = Lookup(rule).number
        return np.fromiter((lookup(record) for record in flat.tolist()), np.int64, flat.size)
    whole = rule.plainly_numbered and flat.dtype.kind in "ui"
    if whole and flat.min() >= 0 and flat.max() < len(rule.names):
        return flat if flat.dtype == np.uint8 else flat.astype(np.int64)
    numbers = np.full(flat.size, FOREIGN, dtype=np.int64)
    kinds: tuple[type, ...] = {"U": (str,), "S": (bytes,)}.get(flat.dtype.kind, (bool, int, float))
    if flat.dtype.kind not in "USbuif":
        return numbers
    for place, name in enumerate(rule.names):
        if isinstance(name, kinds):  # a text is not a number, not even '1'
            numbers[flat == name] = place
    if flat.dtype.kind == "f":
        numbers[np.isnan(flat)] = MISSING
    return numbers


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
