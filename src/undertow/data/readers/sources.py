"""Sources of records: files, frames of any library, or a plain list, as one lazy frame.

Nothing here depends on a value: what a column holds is known from its type, or from the kind of
file. Errors of other libraries often quote the data, so they are never passed on.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.data.columns import (
    Column,
    column_of_name,
    instants,
    keys,
    kind_of,
    kind_of_type,
    kinds_of,
    part_of,
    readings,
)
from undertow.data.grid import TIME, group_labels
from undertow.data.readers.files import (
    blocks,
    check_content,
    fault,
    files_of,
    piece_rows,
    quoted,
    row_bytes,
    table_bytes,
    table_name,
)
from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.folds import Fold, PublicFacts
    from undertow.data.table import Data

__all__ = [
    "READERS",
    "RECORD",
    "AllSeen",
    "Reader",
    "Roles",
    "Seen",
    "Source",
    "check_columns",
    "column_names",
    "open_source",
    "read_lines",
    "scan",
    "seen",
]


_CHANGED = "changed since it was opened; open it again when it is complete"


@dataclass(frozen=True, slots=True)
class Seen:
    """Fingerprint of a file: device, inode, size and times, by which changes are detected.

    >>> Seen(Path("no such file"), None).unchanged()
    True
    """

    path: Path
    state: tuple[int, int, int, int, int] | None

    def unchanged(self) -> bool:
        """Return whether the file's metadata are unchanged."""
        return seen(self.path) == self

    def check(self, consequence: str = _CHANGED) -> None:
        """Refuse a file that was changed or replaced."""
        if not self.unchanged():
            raise InvalidInput(f"{self.path} {consequence}")


@dataclass(frozen=True, slots=True)
class AllSeen:
    """Fingerprints of the files of one table, and how they are listed again."""

    files: tuple[Seen, ...]
    listed: Callable[[], list[Path] | None]

    def check(self) -> None:
        """Refuse a table of which a file was changed, replaced, added or removed."""
        for one in self.files:
            one.check()
        now = self.listed()
        if now is not None and now != [one.path for one in self.files]:
            raise InvalidInput(
                f"the files in {self.files[0].path.parent} changed since they were opened; open "
                "them again when they are complete"
            )


def seen(path: Path) -> Seen:
    """Return the fingerprint of a file as it is now; without a state if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return Seen(path, None)
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return Seen(path, state)


RECORD = "record"
"""The column of a plain list of records."""
Roles = Mapping[str, set[str]]
"""The columns that are needed, and for what: value, key (of persons), group, time."""

_SHOWN = 12
_BLOCK = 2**18
"""Bytes of a CSV file in which its first time is looked for."""


@dataclass(frozen=True, slots=True)
class Source:
    """Table that is not read yet: a lazy frame, and the facts about its columns.

    A file or several (``paths``) hold it; one in several has a frame for each of its ``parts``.
    ``rows`` is how many rows there are where that is known without reading them, ``size`` about
    how many bytes a file takes in memory. What a pass over a file in pieces has shown is ``kept``
    for the next question. ``listed``: it is a plain list of records.
    """

    title: str
    frame: "pl.LazyFrame"
    columns: Mapping[str, Column]
    file: str = ""
    seen: Seen | AllSeen | None = None
    paths: tuple[Path, ...] = ()
    parts: "tuple[pl.LazyFrame, ...]" = ()
    rows: int | None = None
    size: int = 0
    kept: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    listed: bool = False

    @property
    def named(self) -> str:
        """The name of the table: a file's without its folder."""
        return Path(self.title).name if self.file else self.title

    @property
    def spread(self) -> bool:
        """Whether workers of a cluster hold the rows."""
        return False

    def collect(self, *frames: "pl.LazyFrame") -> "list[pl.DataFrame]":
        """Collect queries of the frame, in one pass where that is possible."""
        import polars as pl

        try:
            tables = pl.collect_all(frames, engine="streaming")
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            self.check_unchanged()  # what seems wrong may be the change
            raise self.unreadable(str(error)) from None
        self.check_unchanged()
        return tables

    def pieces(self, limit: int) -> int | None:
        """Return how many rows to read at a time, None where the whole table may be in memory."""
        if self.size <= limit:
            return None
        schema = self.frame.select(*map(column_of_name, self.columns)).collect_schema()
        return piece_rows(limit, row_bytes(schema))

    def feed(
        self, data: "Data", folds: "Sequence[Fold]", *columns: "pl.Expr", words: str = "rows read"
    ) -> "PublicFacts":
        """Feed all rows to some folds, in order where they ask for it, and return the facts."""
        from undertow.data.folds import feed_in_order, feed_whole

        if data.piece is None:
            return feed_whole(data, folds, *columns)
        return feed_in_order(data, folds, *columns, words=words)

    def first_text(self, name: str) -> str | None:
        """Return the first text of a column of times, public, which determines their format."""
        import polars as pl

        text = column_of_name(name).cast(pl.String).alias(TIME)
        for frame in _beginnings(self):
            filled = frame.select(text).filter(pl.col(TIME).str.len_chars() > 0)
            (rows,) = self.collect(filled.head(1))
            if rows.height:
                return str(rows[TIME][0])
        return None

    def refusal(self, data: "Data", wrong: str) -> InvalidInput:
        """Return the error about the first row with which something is wrong, by its number."""
        from undertow.data.folds import culprit

        row = culprit(data, wrong)
        column, what = data.grid.complaint(wrong)
        return InvalidInput(f"{self.where(row, column)} {what}; correct it, or leave the row out")

    def where(self, row: int, column: str | None) -> str:
        """Return which row of a column is meant, in words."""
        return f"row {row} of column {column!r} (counting from 0)"

    def check_unchanged(self) -> None:
        """Refuse a file that was changed or replaced since it was opened."""
        if self.seen is not None:
            self.seen.check()

    def unreadable(self, message: str) -> InvalidInput:
        """Return the error for a table that cannot be read; it quotes nothing of the table."""
        if self.file:
            return InvalidInput(f"cannot read {self.title}: {fault(message, self.file)}")
        return InvalidInput(
            f"cannot read {self.title}: the library that holds it failed; pass it in memory, with "
            "all its steps done"
        )


def _beginnings(source: Source) -> "Iterator[pl.LazyFrame]":
    """Yield the rows of a table from its beginning, those of a CSV file in blocks of lines."""
    if ".csv" not in source.file:
        yield source.frame
        return
    for path in source.paths:
        try:
            for lines in blocks(path, path.name.lower(), _BLOCK):
                yield read_lines(lines)
        except OSError as error:
            raise source.unreadable(str(error)) from None


def open_source(source: Any, roles: Roles) -> Source:
    """Return the table behind a path, a frame or a list, with the columns that are needed.

    The first reader of `READERS` that accepts it opens it; what none accepts is a frame of another
    library, through Narwhals. Files are not read, only their header; frames that are not Polars'
    are converted (the needed columns only). Raises `InvalidInput` if a column is missing or the
    source is no table.

    >>> open_source([0, 1, 1], {"record": {"value"}}).columns["record"].kind
    'objects'
    """
    for reader in READERS.values():
        if reader.accepts(source):
            return reader.opens(source, roles)
    return _foreign(source, roles)


def _is_path(source: Any) -> bool:
    """Tell whether this names a file, a folder or a pattern."""
    return isinstance(source, str | Path)


def _open_path(source: Any, roles: Roles) -> Source:
    path = Path(source)
    paths = files_of(path)
    return _file(path, roles) if paths is None else _files(path, paths, roles)


def _are_paths(source: Any) -> bool:
    """Tell whether these are the files of one table."""
    several = isinstance(source, list | tuple) and bool(source)
    return several and all(isinstance(path, Path) for path in source)


def _is_polars(source: Any) -> bool:
    """Tell whether this is a frame of Polars."""
    import polars as pl

    return isinstance(source, pl.LazyFrame | pl.DataFrame)


def _is_spark(source: Any) -> bool:
    """Tell whether this is a frame of Spark, which is not imported for it."""
    kind = type(source)
    return kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame"


def _open_spark(source: Any, roles: Roles) -> Source:
    from undertow.data.readers.spark import open_spark

    return open_spark(source, roles)


def _is_series(source: Any) -> bool:
    """Tell whether this is a list, an array or a column: one series of records."""
    if isinstance(source, bytes | Mapping) or hasattr(source, "columns"):
        return False
    return getattr(source, "ndim", 1) == 1 and (
        isinstance(source, Sequence) or hasattr(source, "tolist") or hasattr(source, "to_list")
    )


def _open_series(source: Any, roles: Roles) -> Source:
    import polars as pl

    types = kinds_of(source)
    records = source.to_list() if hasattr(source, "to_list") else source
    records = records.tolist() if hasattr(records, "tolist") else list(records)
    check_columns([RECORD], roles, "the list of records", header=True)
    column, parts = _parts(RECORD, records, roles[RECORD])
    column = replace(column, types=types)
    frame = pl.DataFrame(parts).lazy()
    return Source("the list of records", frame, {RECORD: column}, listed=True)


@dataclass(frozen=True, slots=True)
class Reader:
    """A kind of table: what it accepts, and what opens it with the columns that are needed."""

    accepts: Callable[[Any], bool]
    opens: Callable[[Any, Roles], Source]


READERS: dict[str, Reader] = {
    "path": Reader(_is_path, _open_path),
    "paths": Reader(_are_paths, lambda source, roles: _files(None, list(source), roles)),
    "polars": Reader(_is_polars, lambda source, roles: _polars(source.lazy(), roles, "the table")),
    "spark": Reader(_is_spark, _open_spark),
    "series": Reader(_is_series, _open_series),
}
"""The readers of tables, in the order in which they are asked: a new reader has one line here."""


def _file(path: Path, roles: Roles) -> Source:
    import polars as pl

    name = table_name(path)
    before = seen(path)
    check_content(path, name, header_only=True)
    blank = Source(str(path), pl.LazyFrame(), {}, name, before)
    text = not name.endswith(".parquet")
    try:
        frame = scan(path, ragged=True) if text else pl.scan_parquet(path, glob=False)
        schema = frame.collect_schema()
    except pl.exceptions.NoDataError:
        raise InvalidInput(f"{path} is empty; a header and records are required") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise blank.unreadable(str(error)) from None
    if any("\ufffd" in column or "\0" in column for column in schema):
        raise blank.unreadable("utf-8")
    if text:
        frame = frame.rename(quoted(schema.names()))
        schema = frame.collect_schema()
    check_columns(list(schema), roles, str(path), header=not text)
    width = row_bytes(frame.select(*map(column_of_name, roles)).collect_schema())
    if not text:
        source = replace(_polars(frame, roles, str(path), name), seen=before)
        rows = int(source.collect(frame.select(pl.len()))[0].item())
        size = table_bytes(path, name, width, rows)
        return replace(source, rows=rows, size=size, paths=(path,))
    for column in roles:
        if f"{column}_duplicated_0" in schema:
            raise InvalidInput(f"{path} has two columns {column!r}; rename one of them")
    columns = {column: Column(column, "csv") for column in roles}
    size = table_bytes(path, name, width, None)
    return Source(str(path), frame, columns, name, before, (path,), size=size)


def _files(folder: Path | None, paths: "list[Path]", roles: Roles) -> Source:
    """Return the table in several files, one after the other, if all have the same columns."""
    import polars as pl

    sources = [_file(path, roles) for path in paths]
    first, schemas = sources[0], [one.frame.collect_schema() for one in sources]
    for path, schema in zip(paths, schemas, strict=True):
        for name, dtype in schemas[0].items():
            if name not in schema:
                raise InvalidInput(
                    f"{path} has no column {name!r}, which {paths[0]} has; the files of one table "
                    "have the same columns"
                )
            if schema[name] != dtype:
                raise InvalidInput(
                    f"column {name!r} of {path} is of type {schema[name]}, and of type {dtype} in "
                    f"{paths[0]}; the files of one table have the same columns"
                )
        new = [name for name in schema if name not in schemas[0]]
        if new:
            raise InvalidInput(
                f"{path} has the column {new[0]!r}, which {paths[0]} does not have; the files of "
                "one table have the same columns"
            )
    names = list(schemas[0])
    frames = tuple(one.frame.select(*map(column_of_name, names)) for one in sources)
    title = str(folder) if folder is not None else f"{paths[0]} and {len(paths) - 1} more files"
    before = AllSeen(tuple(seen(path) for path in paths), partial(_listed_in, folder))
    return replace(
        first, title=title, frame=pl.concat(frames), seen=before, parts=frames,
        rows=None if first.rows is None else sum(one.rows or 0 for one in sources),
        size=sum(one.size for one in sources), paths=tuple(paths),
    )  # fmt: skip


def _listed_in(folder: Path | None) -> list[Path] | None:
    return None if folder is None else files_of(folder)


def read_lines(lines: bytes) -> "pl.LazyFrame":
    """Return lines of a CSV file, with their header, as the whole file would be read."""
    frame = scan(io.BytesIO(lines), ragged=True)
    return frame.rename(quoted(frame.collect_schema().names()))


def scan(path: Path | io.BytesIO, *, ragged: bool) -> "pl.LazyFrame":
    """Return a CSV file with all fields as text; whether lines may have more fields than columns.

    Polars notices a long line only if all columns are read. So that no question fails where
    another does not, fields beyond the header are ignored; `Data.problems` looks for them.
    """
    import polars as pl

    return pl.scan_csv(
        path, infer_schema=False, encoding="utf8-lossy", glob=False, truncate_ragged_lines=ragged
    )


def check_columns(names: Sequence[Any], roles: Roles, title: str, *, header: bool) -> None:
    """Refuse a table without a needed column; its columns are listed only if they are names.

    The first line of a CSV file may be data by mistake. It is taken for a header, and may be
    quoted, only if it has one of the named columns, and nothing that looks like a number.
    """
    if any("\0" in str(name) for name in names):
        raise InvalidInput(f"{title} has a column whose name has a null character; rename it")
    absent = [column for column in roles if column not in names]
    if not absent:
        return
    numbers = any(str(name).strip()[:1] in {*"0123456789+-."} for name in names)
    if header or (len(absent) < len(roles) and not numbers):
        shown = ", ".join(map(repr, names[:_SHOWN]))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise InvalidInput(f"{title} has no column {absent[0]!r}; its columns are {shown}{more}")
    raise InvalidInput(
        f"{title} has no column {absent[0]!r} among its {len(names)}; its first line must be a "
        "header with the names of the columns"
    )


def _polars(frame: "pl.LazyFrame", roles: Roles, title: str, file: str = "") -> Source:
    import polars as pl

    source = Source(title, frame, {}, file)
    try:
        schema = frame.collect_schema()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise source.unreadable(str(error)) from None
    check_columns(list(schema), roles, title, header=True)
    columns = {name: kind_of(name, schema[name]) for name in roles}
    objects = [name for name in roles if schema[name] == pl.Object]
    if not objects:
        return Source(title, frame, columns, file)
    (held,) = source.collect(frame.select(*map(column_of_name, roles)))
    for name in objects:
        columns[name], parts = _parts(name, held[name].to_list(), roles[name])
        held = held.with_columns(**parts)
    return Source(title, held.drop(objects).lazy(), columns)


def _foreign(source: Any, roles: Roles) -> Source:
    """Return a table of another library, through Narwhals."""
    import narwhals as nw

    try:
        frame = nw.from_native(source)
        names = frame.columns
    except (TypeError, ValueError, AttributeError, nw.exceptions.NarwhalsError):
        raise InvalidInput(
            "a table is required: a path to a .csv, .csv.gz or .parquet file, a frame of pandas, "
            "Polars, Arrow, DuckDB or Spark, or a list of records; found a "
            f"{type(source).__name__}, or a table with two columns of one name"
        ) from None
    check_columns(names, roles, "the table", header=True)
    if isinstance(frame, nw.LazyFrame):
        return _polars(_collected(frame, list(roles)), roles, "the table")
    import polars as pl

    columns, parts = {}, {}
    for name, wanted in roles.items():
        column, held = _converted(name, frame.get_column(name), wanted)
        columns[name] = column
        parts.update(held)
    parts |= {name: held for name, held in _unnamed(frame) if name not in roles}
    return Source("the table", pl.DataFrame(parts).lazy(), columns)


def _unnamed(frame: Any) -> "Iterator[tuple[str, pl.Series]]":
    """Yield columns of texts, times and whole numbers, whose order may say something of the rows.

    One that cannot be read is left out: it was not requested.
    """
    import polars as pl

    for name in frame.columns:
        series = frame.get_column(name)
        if not isinstance(name, str) or "\0" in name:
            continue
        kind = kind_of_type(series.dtype)
        if kind not in ("text", "time") and not series.dtype.is_integer():
            continue
        try:
            yield name, pl.Series(name, _listed(series)) if kind == "text" else series.to_polars()
        except (Exception, pl.exceptions.PanicException):  # noqa: BLE001
            continue


def _collected(frame: Any, names: list[str]) -> "pl.LazyFrame":
    """Return a frame of a database in memory."""
    import polars as pl

    try:
        held: pl.DataFrame = frame.select(*names).collect("polars").to_native()
    except ImportError as error:
        raise InvalidInput(
            f"reading this table needs the package {error.name}; install undertow[arrow]"
        ) from None
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001  (may quote the data)
        raise Source("the table", pl.LazyFrame(), {}).unreadable("") from None
    return held.lazy()


def _converted(name: str, series: Any, roles: set[str]) -> "tuple[Column, dict[str, pl.Series]]":
    """Return a column of pandas or Arrow as Polars holds it; the type alone decides its kind."""
    import polars as pl

    native = series.to_native()
    dtype = getattr(native, "dtype", None)
    if str(dtype) in ("object", "category"):
        listed = native.tolist()
        column, parts = _parts(name, listed, roles)
        declared = getattr(dtype, "categories", listed)  # objects are what the types in them are
        return replace(column, types=kinds_of(declared)), parts
    type_name = str(dtype if dtype is not None else native.type)
    if type_name == "null":
        return Column(name, "nothing", type_name), {name: pl.Series([None] * len(series))}
    if type_name.startswith("dictionary") and "string" not in type_name:
        return _parts(name, _listed(series), roles)
    kind = kind_of_type(series.dtype)
    if kind == "other" or type_name.startswith("decimal256"):
        return Column(name, "other", type_name), {name: pl.Series([None] * len(series))}
    values = (ImportError, TypeError, ValueError, RuntimeError, OverflowError)
    try:
        if kind == "text":  # Polars does not check texts of Arrow, and broken ones crash it
            series.to_arrow().validate(full=True)
        held: pl.Series = series.to_polars()
    except (*values, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        held = _one_by_one(kind, _listed(series))  # a value that the other library cannot hold
    return kind_of(name, held.dtype), {name: held}


def _listed(series: Any) -> list[Any]:
    """Return the values as Python objects, None for one that cannot be one (broken UTF-8)."""
    try:
        return list(series.to_list())
    except (ValueError, TypeError, OverflowError):
        return [_single(series, row) for row in range(len(series))]


def _single(series: Any, row: int) -> Any:
    try:
        return series.item(row)
    except (ValueError, TypeError, OverflowError):
        return ()  # foreign


def _one_by_one(kind: str, values: list[Any]) -> "pl.Series":
    """Return a column of one type, missing where a value does not have it."""
    import polars as pl

    texts, numbers, _ = readings(values)
    if kind == "text":
        return pl.Series(texts, dtype=pl.String)
    if kind == "time":
        times, _, zoned = instants(values)
        return pl.Series(times, dtype=pl.Int64).cast(pl.Datetime("us", "UTC" if zoned else None))
    held = pl.Series(numbers, dtype=pl.Float64)
    return held if kind == "number" else held == 1


def _parts(name: str, values: list[Any], roles: set[str]) -> "tuple[Column, dict[str, pl.Series]]":
    """Return a column of Python objects as the columns that stand for it."""
    import polars as pl

    parts: dict[str, pl.Series] = {}
    column = Column(name, "objects")
    if "value" in roles:
        texts, numbers, there = readings(values)
        parts[part_of(name, "text")] = pl.Series(texts, dtype=pl.String)
        parts[part_of(name, "number")] = pl.Series(numbers, dtype=pl.Float64)
        parts[part_of(name, "there")] = pl.Series(there, dtype=pl.Boolean)
    if "key" in roles:
        places, distinct = keys(values, name)
        parts[part_of(name, "key")] = pl.Series(places, dtype=pl.Int64)
        column = replace(column, labels=tuple(distinct))
    if "group" in roles:
        places, labels = group_labels(values, name)
        parts[part_of(name, "group")] = pl.Series(places, dtype=pl.Int64)
        column = replace(column, groups=labels)
    if "time" in roles:
        times, clock, zoned = instants(values)
        parts[part_of(name, "time")] = pl.Series(times, dtype=pl.Int64)
        column = replace(column, clock=clock, zoned=zoned)
    return column, parts


def column_names(path: Path) -> dict[str, str]:
    """Return the columns of a table and their types; those of CSV are all text.

    The first line of a CSV file may be records by mistake, which must not be shown: it is refused
    where a name looks like a number, or is empty. Reads the header only.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (path := Path(folder) / "steps.csv").write_text("id,steps\\n1,7\\n")
    ...     column_names(path)
    {'id': 'String', 'steps': 'String'}
    """
    schema = open_source(path, {}).frame.collect_schema()
    if any(not name.strip() or name.strip()[0] in "0123456789+-." for name in schema):
        raise InvalidInput(
            f"the first line of {path} must be a header with the names of the columns; at least "
            "one of them is empty or looks like a number"
        )
    return {name: str(kind) for name, kind in schema.items()}
