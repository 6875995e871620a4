"""Series of records from tables: one column of a CSV or Parquet file, cut where it must be.

Values of a file are private. No message of this module contains one, nor does the error it came
from: what polars says often quotes the data, so its errors are not chained.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.data.columns import MISSING, column_of_name
from undertow.data.lines import check_lines
from undertow.data.pages import check_pages
from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "MOST_STATES",
    "check_content",
    "fault",
    "quoted",
    "read_numbers",
    "read_sequences",
    "table_name",
]

MOST_STATES = 100
"""More different values than this are measurements, not states."""

_ENDINGS = (".csv", ".csv.gz", ".parquet")
_SHOWN = 12
_ADVICE = "make states of it with an expression such as 'steps > 0' (state=..., or --state)"


def read_sequences(
    path: str | Path, column: str, *, state: str | None = None, by: str | None = None
) -> list[list[Any]]:
    """Return the series of records in a file, one list per series, ``None`` where one is missing.

    The file is CSV (``.csv``, ``.csv.gz``) with a header, or Parquet (``.parquet``). Records are
    the values of ``column``, or what the SQL expression ``state`` makes of each row: a truth
    value, a text or a whole number. Empty fields, NA and NaN are missing, and a record missing
    in ``column`` stays missing whatever ``state`` says. A new series starts wherever the value
    of the column ``by`` changes.

    Assumes that rows are in the order of time. Reads the whole file; linear in its size.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "steps.csv")
    ...     _ = path.write_text("day,steps\\n1,0\\n1,14\\n1,NA\\n2,7\\n2,0\\n")
    ...     read_sequences(path, "steps", state="steps > 0", by="day")
    [[False, True, None], [True, False]]
    """
    import polars as pl

    path = Path(path)
    frame = _read(path)
    for name in (column,) if by is None else (column, by):
        _check_column(frame, name, path)
    if not frame.height:
        raise InvalidInput(f"{path} has a header and no records")
    values = frame[column].alias("\0value")  # some names are patterns to Polars
    if state is None:
        records = _states(values, f"column {column!r}")
    else:
        records = _evaluate(frame, state, path)
    records = _check_few(pl.select(pl.when(values.is_not_null()).then(records)).to_series())
    if by is None:
        return [records.to_list()]
    starts = [0, *(frame[by].alias("\0by").rle_id().diff() == 1).arg_true().to_list(), frame.height]
    listed = records.to_list()
    return [listed[a:b] for a, b in pairwise(starts)]


def read_numbers(path: str | Path, columns: Sequence[str]) -> tuple[list[list[float]], int]:
    """Return the rows in which all the columns hold a number, and how many rows lack one.

    Files as in `read_sequences`; a column must hold numbers only, apart from missing values.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "heights.csv")
    ...     _ = path.write_text("father,child\\n70,68\\n71,NA\\n66.5,65\\n")
    ...     read_numbers(path, ["father", "child"])
    ([[70.0, 68.0], [66.5, 65.0]], 1)
    """
    import polars as pl

    path = Path(path)
    frame = _read(path)
    for name in columns:
        _check_column(frame, name, path)
        if not frame[name].dtype.is_numeric():
            raise InvalidInput(f"the column {name!r} of {path} must hold numbers only")
    table = frame.select(column_of_name(name).cast(pl.Float64) for name in columns)
    whole = table.drop_nulls()
    return [list(row) for row in whole.rows()], table.height - whole.height


def _read(path: Path) -> "pl.DataFrame":
    import polars as pl

    name = table_name(path)
    check_content(path, name)
    try:
        if name.endswith(".parquet"):
            frame = pl.read_parquet(path, glob=False)
        else:
            frame = pl.read_csv(
                path, glob=False, infer_schema_length=None, null_values=list(MISSING)
            )
    except pl.exceptions.NoDataError:
        raise InvalidInput(f"{path} is empty; a header and records are required") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {fault(str(error), name)}") from None
    if any("\ufffd" in column or "\0" in column for column in frame.columns):
        raise InvalidInput(f"cannot read {path}: {fault('utf-8', name)}")
    frame = frame if name.endswith(".parquet") else frame.rename(quoted(frame.columns))
    return frame.with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))


def table_name(path: Path) -> str:
    """Return the name of a file in lower case, or refuse it if it is no table by its ending.

    >>> table_name(Path("folder/Steps.CSV"))
    'steps.csv'
    """
    name = path.name.lower()
    if not name.endswith(_ENDINGS):
        raise InvalidInput(f"{path} must be a table: a file ending in {', '.join(_ENDINGS)}")
    return name


def quoted(columns: Sequence[str]) -> dict[str, str]:
    """Return the names that have quotes, which Polars leaves doubled, as they are meant.

    >>> quoted(["a", 'say ""hi""'])
    {'say ""hi""': 'say "hi"'}
    """
    meant = {name: name.replace('""', '"') for name in columns if '""' in name}
    return meant if len({*columns, *meant.values()}) == len(columns) + len(meant) else {}


def check_content(path: Path, name: str, *, header_only: bool = False) -> None:
    """Refuse a file that is not what its name says.

    A CSV file has no null byte, in its header or anywhere near its beginning: with ``header_only``
    the records, which are private, have no say.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        reason = (error.strerror or "it cannot be opened").lower()
        raise InvalidInput(f"cannot read {path}: {reason}") from None
    if not head:
        raise InvalidInput(f"{path} is empty; a header and records are required")
    parquet, zipped = head.startswith(b"PAR1"), head.startswith(b"\x1f\x8b")
    if name.endswith(".parquet"):
        fits, kind = parquet, "Parquet"
    elif name.endswith(".gz"):
        fits, kind = zipped, "gzip"
    else:
        text = head.split(b"\n")[0] if header_only else head
        fits, kind = not (parquet or zipped or b"\0" in text), "CSV"
    if not fits:
        found = "Parquet" if parquet else "gzip" if zipped else "something else"
        raise InvalidInput(f"{path} is not {kind}, as its name says, but {found}; rename it")
    if kind == "Parquet":
        check_pages(path)
    else:
        check_lines(path, name)


def fault(message: str, name: str) -> str:
    """Return what is wrong with a file in words that quote nothing of it.

    >>> fault("invalid utf-8 sequence", "a.csv")
    'it is not text in UTF-8'
    """
    if name.endswith(".parquet"):
        return "it is damaged, or not Parquet"
    for sign, words in {
        "utf-8": "it is not text in UTF-8",
        "utf8": "it is not text in UTF-8",
        "more fields": "a line has more fields than the header",
        "end of file": "it is cut off",
    }.items():
        if sign in message.lower():
            return words
    return "it is damaged, or not CSV with a header"


def _check_column(frame: "pl.DataFrame", name: str, path: Path) -> None:
    if name not in frame.columns:
        raise InvalidInput(f"{path} has no column {name!r}; {_columns(frame, path)}")


def _columns(frame: "pl.DataFrame", path: Path) -> str:
    """Return the columns in words, or that the first line is no header: then it is data."""
    text = not path.name.lower().endswith(".parquet")
    if text and any(map(_looks_like_data, frame.get_columns())):
        return "its first line does not look like a header; files without one cannot be read"
    shown = ", ".join(map(repr, frame.columns[:_SHOWN]))
    more = f" and {frame.width - _SHOWN} more" if frame.width > _SHOWN else ""
    return f"its columns are {shown}{more}{' (its first line must be a header)' if text else ''}"


def _looks_like_data(column: "pl.Series") -> bool:
    import polars as pl

    name = column.name.strip()
    if name[:1].isdigit() or name[:1] in ("-", "+", ".") or "_duplicated_" in name:
        return True
    return column.dtype == pl.String and name in column


def _states(column: "pl.Series", what: str) -> "pl.Series":
    """Return a column as states: whole floats become integers, categories text."""
    import polars as pl

    if column.dtype.is_float() or column.dtype.is_decimal():
        numbers = column.cast(pl.Float64)
        whole = numbers.cast(pl.Int64, strict=False)
        return whole if whole.cast(pl.Float64).equals(numbers) else numbers
    return _check_kind(column, what)


def _evaluate(frame: "pl.DataFrame", state: str, path: Path) -> "pl.Series":
    """Return what an SQL expression makes of each row."""
    import polars as pl

    try:
        expression = pl.sql_expr(state)
        names = expression.meta.root_names()
    except pl.exceptions.PolarsError:
        raise InvalidInput(
            f"the expression {state!r} cannot be read; write SQL such as 'steps > 0'"
        ) from None
    for name in names:
        _check_column(frame, name, path)
    try:
        made = frame.select(expression).to_series()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, IndexError):
        raise InvalidInput(
            f"the expression {state!r} cannot be evaluated on this table: an operation does not "
            "fit the type of its column, or the values in it"
        ) from None
    if made.len() != frame.height or not names:
        raise InvalidInput(
            f"the expression {state!r} does not say the state of each record; compare a column "
            "with something, as in 'steps > 0'"
        )
    return _check_kind(made, f"the expression {state!r}")


def _check_kind(values: "pl.Series", what: str) -> "pl.Series":
    import polars as pl

    kind = values.dtype
    if kind in (pl.Categorical, pl.Enum):
        return values.cast(pl.String)
    if kind in (pl.Boolean, pl.String, pl.Null) or kind.is_integer():
        return values
    raise InvalidInput(
        f"{what} gives values of type {kind}; states are truth values, texts or whole numbers: "
        f"{_ADVICE}"
    )


def _check_few(records: "pl.Series") -> "pl.Series":
    if records.drop_nulls().n_unique() > MOST_STATES:
        raise InvalidInput(
            f"there are more than {MOST_STATES} different values, too many for states; {_ADVICE}"
        )
    return records
