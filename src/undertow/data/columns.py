"""Columns and their readings as numbers, texts, truth values or times: by type, never by value."""

import datetime as dt
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.data.expressions import NUMBER, TEXT, TRUTH, Planes, no_value
from undertow.errors import InvalidInput
from undertow.queries import State

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "LARGEST",
    "MISSING",
    "Column",
    "as_float",
    "check_fields",
    "check_kinds",
    "column_of_name",
    "instants",
    "is_missing",
    "iso",
    "keys",
    "kind_of",
    "kind_of_type",
    "kind_of_value",
    "kinds_of",
    "moment",
    "number_label",
    "part_of",
    "plain",
    "readings",
    "whole",
    "words",
]


_NUMBERS = (bool, int, float, Decimal, Fraction, np.bool_, np.integer, np.floating)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LARGEST = 2**62
"""Times beyond this (146,000 years in microseconds) are none: differences could overflow."""


def plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value it stands for, anything else as it is.

    >>> plain(np.int64(3)), plain("a")
    (3, 'a')
    """
    if isinstance(value, np.datetime64) and not np.isnat(value):
        return value.astype("datetime64[us]").item()
    return value.item() if isinstance(value, np.generic) else value


def words(text: str) -> str:
    """Return a text that any library can hold: lone surrogates are written out.

    >>> words("a\\ud800")
    'a\\\\ud800'
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def readings(
    values: Iterable[Any],
) -> tuple[list[str | None], list[float | None], list[bool]]:
    """Return the text, the number (None if not readable) and the presence of each value.

    Truth values count as 0 and 1. The last list is False where a value is missing; a value that is
    there and neither text nor number is foreign.

    >>> readings(["1", 1, True, None, [2]])
    (['1', None, None, None, None], [None, 1.0, 1.0, None, None], [True, True, True, False, True])
    """
    listed = list(values)
    texts = [words(value) if isinstance(value, str) else None for value in listed]
    numbers = [as_float(value) if isinstance(value, _NUMBERS) else None for value in listed]
    return texts, numbers, [not is_missing(value) for value in listed]


def keys(values: Sequence[Any], name: str) -> tuple[list[int | None], list[Hashable]]:
    """Return each value as its place among the different values, and these values.

    Equal values have equal places; missing ones have none.

    >>> keys(["b", "a", None, "b"], "who")
    ([0, 1, None, 0], ['b', 'a'])
    """
    places: dict[Any, int] = {}
    codes: list[int | None] = []
    for row, given in enumerate(values):
        value = plain(given)
        if is_missing(value):
            codes.append(None)
            continue
        try:
            codes.append(places.setdefault(value, len(places)))
        except TypeError:
            raise InvalidInput(
                f"row {row} of column {name!r} (counting from 0) is a {type(value).__name__}; "
                "persons and groups are texts, numbers, dates or other values that can be compared"
            ) from None
    return codes, list(places)


def instants(values: Iterable[Any]) -> tuple[list[int | None], bool | None, bool | None]:
    """Return times as whole numbers (None if unreadable), whether clock times, and whether zoned.

    Clock times become microseconds since 1970 in UTC. The first value decides whether the column
    holds clock times or whole numbers, and times with or without a zone (None: no value); a value
    of the other kind is no time of this column.

    >>> instants([dt.date(1970, 1, 2), "1970-01-01T00:00:01", "1970-01-01T00:00:01Z"])
    ([86400000000, 1000000, None], True, False)
    >>> instants([3, 4.0, 4.5])
    ([3, 4, None], False, None)
    """
    listed = [plain(value) for value in values]
    first = next((value for value in listed if not is_missing(value)), None)
    if first is None:
        return [None] * len(listed), None, None
    if not (isinstance(first, dt.date) or (isinstance(first, str) and not _reads_whole(first))):
        return [None if is_missing(value) else whole(value) for value in listed], False, None
    moments = [None if is_missing(value) else moment(value) for value in listed]
    zoned = next((one[1] for one in moments if one is not None), False)
    return [None if one is None or one[1] != zoned else one[0] for one in moments], True, zoned


def moment(value: Any) -> tuple[int, bool] | None:
    """Return a date, time or ISO text as microseconds since 1970, and whether it has a zone.

    A time with a zone is counted in UTC, one without as it is written. None: it is no time.

    >>> moment("1970-01-01T01:00+01:00"), moment("1970-01-01"), moment("tomorrow")
    ((0, True), (0, False), None)
    """
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, dt.datetime):
        zoned = value.utcoffset() is not None
        try:
            held = value if zoned else value.replace(tzinfo=dt.UTC)
            return int((held - _EPOCH) // dt.timedelta(microseconds=1)), zoned
        except OverflowError:  # before the year 1 in UTC
            return None
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days * 86_400_000_000, False
    return None


def number_label(number: Any) -> str | int | float:
    """Return a number as the name of a group: whole where it is, JSON in any case.

    >>> number_label(2.0), number_label(Decimal("0.5")), number_label(math.inf)
    (2, 0.5, 'inf')
    """
    if isinstance(number, int):
        return number
    try:
        whole = int(number)
    except (OverflowError, ValueError):
        return str(float(number))
    if whole == number and (abs(whole) < 2**53 or not isinstance(number, float)):
        return whole
    try:
        held = float(number) + 0.0
    except OverflowError:
        return str(number)
    return int(held) if held.is_integer() and abs(held) < 2**53 else held


def whole(value: Any) -> int | None:
    """Return a whole number, however it is written, None if it is none.

    >>> whole(3.0), whole("-7"), whole(2.5)
    (3, -7, None)
    """
    if isinstance(value, str):
        return int(value) if _reads_whole(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    if not -LARGEST < value < LARGEST:
        return None
    number = int(value)
    return number if number == value else None


def _reads_whole(text: str) -> bool:
    digits = text.strip().removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit() and len(digits) < 19


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, float | np.floating):
        return bool(value != value)
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


def as_float(value: Any) -> float | None:
    """Return a number as a float; NaN, and what lies beyond all floats, is none.

    >>> as_float("1.5"), as_float(math.nan), as_float(10**400)
    (1.5, None, None)
    """
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return None if math.isnan(number) else number


MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null")
"""Fields of a CSV file that hold no value."""

_DAY = 86_400_000_000
_KINDS = {
    **dict.fromkeys(("String", "Categorical", "Enum"), "text"),
    **dict.fromkeys(("Date", "Datetime"), "time"),
    "Boolean": "truth",
    "Null": "nothing",
}
"""Descriptions of the values of types that are no numbers."""
_FORMS = ("%Y-%m-%d", "%Y-%m-%d{}%H:%M", "%Y-%m-%d{}%H:%M:%S%.f", "%Y-%m-%d{}%H:%M:%S%.f%#z")
"""Formats of times in texts; the first row of a column decides for all."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, its kind, and where its values are.

    Kinds: *number*, *text*, *truth* and *time* are what the type says; *csv* holds fields of a CSV
    file and *objects* Python objects, whose values are read as what they are used for; *nothing*
    has no values at all; *other* (lists, durations, bytes) can be neither states nor numbers.
    ``types`` is what the values of a list are.

    >>> Column("steps", "csv").type
    'text of a CSV file'
    """

    name: str
    kind: str
    given: str = ""
    whole: bool = False
    day: bool = False
    clock: bool | None = None
    zoned: bool | None = None
    labels: tuple[Hashable, ...] = ()
    groups: tuple[str | int | float, ...] = ()
    types: frozenset[str] = frozenset()

    @property
    def kinds(self) -> frozenset[str]:
        """The public types of its values: the declared one, or those that occur in a list."""
        declared = {"number": NUMBER, "text": TEXT, "truth": TRUTH}.get(self.kind)
        return self.types if declared is None else frozenset({declared})

    @property
    def type(self) -> str:
        """The type in words."""
        return {"csv": "text of a CSV file", "objects": "Python objects"}.get(self.kind, self.given)

    def part(self, part: str) -> "pl.Expr":
        """Return one of the columns into which Python objects were converted."""
        import polars as pl

        return pl.col(part_of(self.name, part))

    def planes(self, missing: tuple[str, ...] = MISSING) -> Planes:
        """Return the readings of the values; no value makes one of these expressions fail."""
        import polars as pl

        value = column_of_name(self.name)
        if self.kind == "number":
            return {NUMBER: value.cast(pl.Float64).fill_nan(None)}
        if self.kind == "text":
            return {TEXT: value.cast(pl.String)}
        if self.kind == "truth":
            return {TRUTH: value}
        if self.kind == "csv":
            text = pl.when(~value.is_in(missing)).then(value) if missing else value
            number = value.str.strip_chars().cast(pl.Float64, strict=False).fill_nan(None)
            return {NUMBER: number, TEXT: text, TRUTH: _truth(number, value.str.to_lowercase())}
        if self.kind == "objects":
            number = self.part("number")
            return {NUMBER: number, TEXT: self.part("text"), TRUTH: _truth(number, None)}
        if self.kind == "nothing":
            return no_value()
        raise InvalidInput(
            f"column {self.name!r} holds values of type {self.type}; records are texts, numbers or "
            "truth values: make another column of it first"
        )

    def there(self) -> "pl.Expr":
        """Return whether there is a value: neither null nor NaN, nor NA in a CSV file."""
        import polars as pl

        if self.kind == "objects":
            return self.part("there")
        if self.kind == "nothing":
            return pl.lit(False)
        planes = self.planes()
        return (planes[TEXT] if TEXT in planes else next(iter(planes.values()))).is_not_null()

    def key(self) -> "pl.Expr":
        """Return values that are equal where persons or groups are, null where there is none."""
        import polars as pl

        value = column_of_name(self.name)
        if self.kind == "objects":
            return self.part("key")
        if self.kind == "csv":
            return pl.when(value != "").then(value)
        if self.kind == "number":
            return value if self.whole else value.cast(pl.Float64).fill_nan(None) + 0.0
        if self.kind == "time":
            return self._instant()
        if self.kind == "other":
            raise InvalidInput(
                f"column {self.name!r} holds values of type {self.type}, which name neither "
                "persons nor groups; use texts, numbers or dates"
            )
        return self.planes()[TEXT] if self.kind == "text" else value

    def persons(self, keys: Sequence[Any]) -> list[Any]:
        """Return the persons with these keys as any table would hold them."""
        if self.kind != "objects":
            return list(keys)
        named = [self.labels[key] for key in keys]
        moments = [moment(name) if isinstance(name, dt.date) else None for name in named]
        return [
            name if when is None else when[0] for name, when in zip(named, moments, strict=True)
        ]

    def group(self) -> "pl.Expr":
        """Return values that are equal where groups are, null where there is none."""
        return self.part("group") if self.kind == "objects" else self.key()

    def label(self, key: Any) -> str | int | float:
        """Return the name of the group with this key: a text, a number or a truth value."""
        if self.kind == "objects":
            return self.groups[int(key)]
        if self.kind == "time":
            return iso(key, day=self.day, zoned=bool(self.zoned))
        if self.kind in ("csv", "text"):
            return str(key)
        if self.given == "Float32":  # the shortest number that this type tells from others
            return number_label(float(str(np.float32(key))))
        return number_label(key)

    def time(self, first: str | None) -> tuple["pl.Expr", bool | None, bool | None]:
        """Return times as whole numbers (null if missing), whether clock times, and whether zoned.

        Clock times are microseconds since 1970, in UTC where they have a zone. ``first`` is the
        first text of the column; it decides how all are read. None instead of a truth value says
        that there are no times.
        """
        import polars as pl

        value = column_of_name(self.name)
        if self.kind == "objects":
            return _bounded(self.part("time")), self.clock, self.zoned
        if self.kind == "time":
            return _bounded(self._instant()), True, self.zoned
        if self.kind == "number":
            number = value if self.whole else pl.when(value == value.floor()).then(value)
            return _bounded(number.cast(pl.Int64, strict=False)), False, None
        if self.kind in ("csv", "text"):
            text = value.cast(pl.String).str.strip_chars()
            if _columns_reads_whole(first):
                return _bounded(text.cast(pl.Int64, strict=False)), False, None
            form = _form(first)
            read = text.str.to_datetime(form, time_unit="us", time_zone="UTC", strict=False)
            clock = (None, None) if first is None else (True, form.endswith("z"))
            return _bounded(read.dt.epoch("us")), *clock
        raise InvalidInput(
            f"column {self.name!r} holds values of type {self.type}; times are dates, times, ISO "
            "texts or whole numbers"
        )

    def _instant(self) -> "pl.Expr":
        import polars as pl

        value = column_of_name(self.name)
        return value.cast(pl.Int64) * _DAY if self.day else value.dt.epoch("us")


def column_of_name(name: str) -> "pl.Expr":
    """Return the column of exactly this name; Polars reads some names as patterns.

    >>> import polars as pl
    >>> pl.DataFrame({"*": [1], "x": [2]}).select(column_of_name("*")).columns
    ['*']
    """
    import polars as pl
    import polars.selectors as cs

    pattern = name == "*" or (name.startswith("^") and name.endswith("$"))
    return cs.by_name(name).as_expr() if pattern else pl.col(name)


def part_of(name: str, part: str) -> str:
    """Return the name of an internal column made of another; no file can have it.

    Names of columns have no null character, internal ones begin with it. Those that contain the
    name of a column have a second one, so that they differ from all that do not.
    """
    return f"\0{part}\0{name}"


def iso(instant: int, *, day: bool, zoned: bool = False) -> str:
    """Return microseconds since 1970 as the text of a time, in UTC if it has a zone, or of its day.

    >>> iso(0, day=True), iso(300_000_000, day=False), iso(0, day=False, zoned=True)
    ('1970-01-01', '1970-01-01T00:05:00', '1970-01-01T00:00:00+00:00')
    """
    zone = dt.UTC if zoned else None
    try:
        when = dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=instant)
    except OverflowError:  # beyond the year 9999
        return f"{instant} microseconds"
    return (when.date() if day else when).isoformat()


def kind_of(name: str, dtype: Any) -> Column:
    """Return a column of a Polars type.

    >>> import polars as pl
    >>> kind_of("x", pl.Int16()).kind, kind_of("x", pl.List(pl.Int8)).kind
    ('number', 'other')
    """
    zoned = getattr(dtype, "time_zone", None) is not None
    day, whole = type(dtype).__name__ == "Date", dtype.is_integer()
    return Column(name, kind_of_type(dtype), str(dtype), whole=whole, day=day, zoned=zoned)


def kind_of_type(dtype: Any) -> str:
    """Return the kind of a type of Polars or of Narwhals, which call their types alike.

    >>> import polars as pl
    >>> kind_of_type(pl.Boolean()), kind_of_type(pl.Binary())
    ('truth', 'other')
    """
    return "number" if dtype.is_numeric() else _KINDS.get(type(dtype).__name__, "other")


def _truth(number: "pl.Expr", text: "pl.Expr | None") -> "pl.Expr":
    """Return True for 1 and true, False for 0 and false, missing for anything else."""
    import polars as pl

    yes, no = number == 1, number == 0
    if text is not None:
        yes, no = yes.fill_null(False) | (text == "true"), no.fill_null(False) | (text == "false")
    return pl.when(yes).then(True).when(no).then(False)


def _bounded(time: "pl.Expr") -> "pl.Expr":
    import polars as pl

    return pl.when((time > -LARGEST) & (time < LARGEST)).then(time)


def _columns_reads_whole(first: str | None) -> bool:
    digits = (first or "").strip().removeprefix("-").removeprefix("+")
    return digits.isascii() and digits.isdigit()


def _form(first: str | None) -> str:
    """Return the form in which the first of the times is written."""
    text = (first or "").strip()
    zoned = text[-1:] in ("Z", "z") or "+" in text[19:] or "-" in text[19:]
    long = _FORMS[3 if zoned else 2]
    form = _FORMS[0] if len(text) <= 10 else {16: _FORMS[1]}.get(len(text), long)
    return form.format("T" if text[10:11] == "T" else " ")


_WORDS = {TEXT: "text", NUMBER: "numbers", TRUTH: "truth values"}


def kind_of_value(value: Any) -> str:
    """Return the kind of a value: text, number, truth value, or the name of another type.

    >>> kind_of_value("1"), kind_of_value(1.5), kind_of_value(True), kind_of_value((1, 2))
    ('text', 'number', 'truth', 'tuple')
    """
    value = plain(value)
    if isinstance(value, str):
        return TEXT
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, int | float | Decimal | Fraction):
        return NUMBER
    return type(value).__name__


def kinds_of(records: Any) -> frozenset[str]:
    """Return the kinds of the records of a list or an array; empty if all are missing.

    Of an array, its declared type; of a list, the set of the types in it.

    >>> sorted(kinds_of(["a", 1, None])), kinds_of([None])
    (['number', 'text'], frozenset())
    """
    dtype = getattr(records, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biufU":
        return frozenset({{"b": TRUTH, "U": TEXT}.get(dtype.kind, NUMBER)})
    listed = records.reshape(-1) if isinstance(records, np.ndarray) else records
    there = (one for one in listed if one is not np.ma.masked and not is_missing(one))
    return frozenset(map(kind_of_value, there))


def check_kinds(kinds: Iterable[str], states: Sequence[State], what: str) -> None:
    """Refuse records none of whose types can be a state's; truth values count as the numbers 0, 1.

    >>> check_kinds({"text", "number"}, ("rest", "move"), "the list")
    >>> check_kinds({"truth"}, (0, 1), "the list")
    """
    types, wanted = set(kinds), {kind_of_value(state) for state in states}
    if TRUTH in types:
        types.add(NUMBER)
    if not types or not wanted or types & wanted:
        return
    words = " and ".join(sorted(_WORDS.get(kind, kind) for kind in set(kinds)))
    named = ", ".join(map(repr, states[:4]))
    raise InvalidInput(
        f"{what} holds {words}, and no such value is one of the states {named}"
        f"{', ...' if len(states) > 4 else ''}; say what makes a state of it: an expression, "
        "Data(..., state='value > 0') or --state 'value > 0', or a mapping, "
        "Data(..., state={True: ...})"
    )


def check_fields(states: Sequence[State], what: str) -> None:
    """Refuse fields of a CSV file as truth values: which are true cannot be told from a type.

    >>> check_fields((0, 1), "column 'steps'")
    """
    if states and all(isinstance(state, bool) for state in states):
        raise InvalidInput(
            f"the states are True and False, and {what} is of a CSV file, which has no types; say "
            "which of its fields are True: state='value > 0' or --state 'value > 0', or state="
            "\"value = 'true'\", with the name of the column"
        )
