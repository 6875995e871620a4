"""Tables of Spark: opened by their types, evaluated on the workers, with errors that quote no data.

The only module that knows Spark. A Spark frame is never collected: the columns that are needed go
through the same expressions of Polars as those of any other table, in the processes of the workers,
and what arrives here are numbers of all of them together. No worker draws noise of an answer.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from undertow import errors
from undertow.data.codes import (
    ERASED,
    Coded,
    CodedPieces,
    Coding,
    Numbers,
    Rule,
    Survey,
    coding_columns,
    restored,
)
from undertow.data.columns import Column, kind_of
from undertow.data.folds import (
    CODE,
    CountTable,
    Fold,
    Ordered,
    PickedRows,
    PublicFacts,
    check_whole,
    feed,
    packed,
    unpacked,
)
from undertow.data.grid import EARLIEST, GROUP, PERSON, ROW, THERE, TIME, Grid
from undertow.data.readers.sources import Roles, Source, check_columns
from undertow.errors import InvalidInput, NotSupported, UndertowError
from undertow.mechanisms import LocalMechanism
from undertow.progress import doing
from undertow.sampling.keyed import Carry, Digest, Key, randomised

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from undertow.data.table import Data

    Exprs = tuple[pl.Expr, ...]

__all__ = [
    "CHUNK",
    "Counted",
    "Digested",
    "Evaluated",
    "Folded",
    "Packed",
    "Rewriting",
    "Rewritten",
    "SparkSource",
    "SpreadSeries",
    "Summed",
    "apart",
    "held",
    "needed",
    "open_spark",
    "place",
    "refusal_in",
    "spark_session",
]


def needed(data: "Data", rule: Rule) -> "Exprs":
    """Return what these folds need of each row, or refuse a table that cannot be rewritten."""
    return (*coding_columns(data, rule), data.record.there.alias(THERE))


class SpreadSeries(CodedPieces):
    """Records of a cluster: summaries of them only, since this machine reads none."""

    @property
    def source(self) -> "SparkSource":
        """The table that Spark holds."""
        return cast("SparkSource", self.data.source)  # no other is spread

    def survey(self, length: int | None = None) -> Survey:
        """Refuse records that are in no state, where the rule does; the refusal depends on them."""
        data, rule = self.data, self.rule
        wrong = data.record.positions(rule.names, named=True).is_null()
        wrong = wrong if rule.missing is None else wrong & data.record.there
        counted = CountTable(data.grid, [GROUP, CODE])
        feed(data, [counted], wrong.alias(CODE))
        if counted.counted()[CODE].any():
            raise rule.refusal(f"a row of {data.record.words}")
        return Survey(length)

    def irregular(self, length: int) -> None:
        """Refuse series that do not have exactly so many records; they have no numbers."""
        shape = self.data.shape()
        if (shape.shortest, shape.series) != (length, length):
            records = shape.shortest if shape.series == length else shape.series
            raise InvalidInput(
                f"the plan is for exactly {length} records, and a series has {records}, absent "
                "steps and records outside a window or its groups included; plan for this length"
            )

    def pieces(self, words: str = "records read") -> Iterator[Coded]:
        """Yield outputs, a partition after the other; records are never brought to this machine."""
        if not self.rule.outputs:
            check_whole(self.data, "a list of records")
        coding = Coding(self.data, self.rule)
        for rows in self.source.brought(self.data, *needed(self.data, self.rule)):
            piece = coding.take(rows)
            if piece is not None:
                yield piece


class Digested:
    """A fold: the keyed digest of records, and how many records and series there are.

    ``secret`` is its key. Without one anybody can compute it: for outputs, which are public. Then
    places are ranks, whatever step of time is named.
    """

    ordered = True

    def __init__(self, data: "Data", rule: Rule, secret: bytes | None = None) -> None:
        self._given = (data, rule, secret)
        self._coding, self._digest = Coding(data, rule), Digest(Key(secret or bytes(32)))
        self.records = self.series = 0

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        piece = self._coding.take(rows)
        if piece is not None:
            self.add(piece, piece.codes)

    def add(self, piece: Coded, codes: Numbers) -> None:
        """Take the next series, with numbers of their states or of their outputs."""
        self.records += codes.size
        self.series += len(piece.labels) - piece.goes_on
        places = None if self._given[2] is None else piece.places
        self._digest.feed(piece.labels, piece.lengths, codes, places)

    def result(self) -> bytes:
        """Return the digest of all series."""
        return self._digest.result()

    def merge(self, state: list[Any]) -> None:
        """Add the state of other persons."""
        self._digest.merge(bytes.fromhex(state[0]))
        self.records, self.series = self.records + state[1], self.series + state[2]

    def state(self) -> list[Any]:
        """Return the digest and the numbers."""
        return [self.result().hex(), self.records, self.series]

    def __reduce__(self) -> Any:
        return Digested, self._given


class Rewriting:
    """Randomiser of rows under a key, piece by piece, with digests of records and outputs.

    ``secret`` is that of the flips, ``digest`` that of the digest of the records.
    """

    def __init__(
        self, data: "Data", rule: Rule, mechanism: LocalMechanism, names: Sequence[Any],
        secret: bytes, digest: bytes,
    ) -> None:  # fmt: skip
        self._given = (data, rule, mechanism, tuple(names), secret, digest)
        self._coding, self._key = Coding(data, rule), Key(secret)
        self._carry: Carry | None = None
        self.read, self.shown = Digested(data, rule, digest), Digested(data, rule)

    @property
    def needed(self) -> "Exprs":
        """Computed columns of each row of the table."""
        return needed(*self._given[:2])

    def rewritten(self, rows: "pl.DataFrame") -> "pl.DataFrame":
        """Return the released ones of the next rows: public columns as they were, then outputs."""
        data, _, mechanism, names, _, _ = self._given
        piece = self._coding.take(rows)
        if piece is None:
            erased = np.zeros(0, np.bool_) if mechanism.task == "redact" else None
            return restored(data, rows[:0], names, np.zeros(0, np.uint8), erased)
        self.read.add(piece, piece.codes)
        drawn = randomised(
            mechanism,
            self._key,
            piece.labels,
            piece.lengths,
            piece.codes,
            piece.places,
            self._carry,
        )
        self._carry, erased = drawn.carry, drawn.erased
        shown = drawn.numbers if erased is None else np.where(erased, len(names), drawn.numbers)
        self.shown.add(piece, shown)
        table: pl.DataFrame = piece.restore(names, drawn.numbers, erased)
        return table

    def merge(self, state: list[Any]) -> None:
        """Add the state of other persons."""
        self.read.merge(state[0])
        self.shown.merge(state[1])

    def state(self) -> list[Any]:
        """Return both digests."""
        return [self.read.state(), self.shown.state()]

    def __reduce__(self) -> Any:
        return Rewriting, self._given


CHUNK = 2**18
"""Rows that are handled at a time, whatever the size of batches: what a call costs is shared."""

STATE = "state"
"""The column of what folds keep; all others are numbered, since any name can be a column's."""

Batches = Iterable["pa.RecordBatch"]
Kernel = Callable[[Any, Batches], Iterator["pa.RecordBatch"]]


class KernelError(Exception):
    """Failure of a kernel; its message may quote the data, and is not shown."""


def place(number: int) -> str:
    """Return the name of a column by its place, as it is called between kernels.

    >>> place(3)
    'c3'
    """
    return f"c{number}"


def apart(data: "Data") -> "Data":
    """Return the same questions without the table: what is sent to the workers."""
    source = data.source
    return data.changed(source=Source(source.title, source.frame, source.columns))


def held(schema: "pl.Schema", *, state: bool = False) -> "pa.Schema":
    """Return the Arrow schema that stands for columns of Polars, by place."""
    import polars as pl
    import pyarrow as pa

    types = _arrow(pl.DataFrame(schema=schema)).schema.types
    fields = [(place(number), _plain(dtype)) for number, dtype in enumerate(types)]
    return pa.schema([*fields, *([(STATE, pa.binary())] if state else [])])


def _arrow(frame: "pl.DataFrame") -> "pa.Table":
    """Return a frame with its columns named by their places: names of Arrow have no null."""
    import polars as pl

    named = frame.rename(dict(zip(frame.columns, map(place, range(frame.width)), strict=True)))
    return named.to_arrow(compat_level=pl.CompatLevel.oldest())


def _plain(dtype: Any) -> Any:
    """Return a type that every engine of Arrow has."""
    import pyarrow as pa

    if pa.types.is_large_string(dtype):
        return pa.string()
    if pa.types.is_null(dtype):
        return pa.int32()
    if pa.types.is_unsigned_integer(dtype):
        return pa.int64()
    return dtype


def quiet(kernel: Kernel) -> Kernel:
    """Return a kernel whose failures quote nothing; they end up in logs of the cluster."""

    @wraps(kernel)
    def guarded(self: Any, batches: Batches) -> "Iterator[pa.RecordBatch]":
        try:
            yield from kernel(self, batches)
        except UndertowError as error:  # quotes nothing, whoever raises it
            missing = KernelError(f"<<{type(error).__name__}>>{error}<</>>")
        except ImportError as error:
            missing = KernelError(f"No module named '{error.name}'")
        except (Exception, _panic()) as error:  # noqa: BLE001  (may quote the data)
            missing = KernelError(type(error).__name__)
        else:
            return
        raise missing from None

    return guarded


def refusal_in(message: str) -> UndertowError | None:
    """Return the refusal that a kernel raised, from the cluster's message; None if there is none.

    >>> refusal_in("Task 3 failed: <<InvalidInput>>no records<</>> at worker 7")
    InvalidInput('no records')
    """
    match = re.search(r"<<(\w+)>>(.*?)<</>>", message, re.DOTALL)
    kind = None if match is None else getattr(errors, match[1], None)
    return None if match is None or kind is None else kind(match[2])


def _panic() -> type[BaseException]:
    import polars as pl

    return pl.exceptions.PanicException


def frames(batches: Batches, schema: "pl.Schema") -> "Iterator[pl.DataFrame]":
    """Yield batches as frames of Polars with the columns of a schema, at least one.

    They have `CHUNK` rows or a batch more. Times that have a zone are put into UTC.
    """
    import polars as pl

    waiting: list[pa.RecordBatch] = []
    rows, empty = 0, False
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= CHUNK:
            yield _frame(waiting, schema)
            waiting, rows, empty = [], 0, True
    if rows:
        yield _frame(waiting, schema)
    elif not empty:
        yield pl.DataFrame(schema=schema)


def _frame(batches: "Sequence[pa.RecordBatch]", schema: "pl.Schema") -> "pl.DataFrame":
    import polars as pl
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    columns = []
    for (name, dtype), column in zip(schema.items(), table.columns, strict=False):
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            column = column.cast(pa.timestamp("us", "UTC"))
        columns.append(pl.Series(name, column).cast(dtype))
    return pl.DataFrame(columns)


def _sent(frame: "pl.DataFrame", schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    """Yield a frame as batches of a schema."""
    import pyarrow as pa

    pairs = zip(_arrow(frame).columns, schema, strict=False)
    columns = [part.cast(field.type) for part, field in pairs]
    if len(schema) > len(columns):
        columns.append(pa.nulls(frame.height, pa.binary()))
    yield from pa.table(columns, schema=schema).combine_chunks().to_batches()


def _kept(folds: Sequence[Fold], schema: "pa.Schema") -> "pa.RecordBatch":
    """Return the states of folds as one row."""
    import pyarrow as pa

    state = packed([fold.state() for fold in folds])
    columns = [pa.nulls(1, field.type) for field in schema][:-1]
    return pa.RecordBatch.from_arrays([*columns, pa.array([state], pa.binary())], schema=schema)


@dataclass(frozen=True)
class Evaluated:
    """Columns of a table into the frame of `Data.rows`, with what is made of each row."""

    data: "Data"
    made: "Exprs"

    @property
    def columns(self) -> "pl.Schema":
        """The columns of the rows."""
        return self.data.rows(*self.made).collect_schema()

    @property
    def schema(self) -> "pa.Schema":
        """The same by place, for Arrow."""
        return held(self.columns)

    def rows(self, batches: Batches) -> "Iterator[pl.DataFrame]":
        """Yield the rows, chunk after chunk."""
        source = self.data.source
        import polars as pl

        schema = source.frame.collect_schema()
        needed = pl.Schema({name: schema[name] for name in source.columns})
        for frame in frames(batches, needed):
            part = self.data.changed(source=replace(source, frame=frame.lazy()))
            yield part.rows(*self.made).collect()

    @quiet
    def __call__(self, batches: Batches) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of a partition."""
        schema = self.schema
        for rows in self.rows(batches):
            yield from _sent(rows, schema)


@dataclass(frozen=True)
class Counted:
    """Columns of a table, in any order, into what is known of persons and what folds keep.

    A row for each person of each chunk, as `Grid.by_person` tells it, and one with the state of
    the folds, of which none may ask for an order.
    """

    rows: Evaluated
    folds: tuple[Fold, ...]

    @property
    def columns(self) -> "pl.Schema":
        """Summary of a person's rows."""
        import polars as pl

        grid = self.rows.data.grid
        return grid.by_person(pl.LazyFrame(schema=self.rows.columns)).collect_schema()

    @property
    def schema(self) -> "pa.Schema":
        """The same by place, for Arrow, and the state of folds."""
        return held(self.columns, state=True)

    @quiet
    def __call__(self, batches: Batches) -> "Iterator[pa.RecordBatch]":
        """Yield what is kept of a partition."""
        schema, folds = self.schema, deepcopy(self.folds)
        for rows in self.rows.rows(batches):
            yield from _sent(self.rows.data.grid.by_person(rows.lazy()).collect(), schema)
            for fold in folds:
                fold.feed(rows)
        yield _kept(folds, schema)


@dataclass(frozen=True)
class Summed:
    """Fold of summaries of parts of persons, each in order of time, into the facts.

    Gives what folds have kept as it came, and one row with the facts and whether parts of a
    person overlap in time: then equal times may be in two of them.
    """

    grid: Grid
    columns: "pl.Schema"

    @property
    def schema(self) -> "pa.Schema":
        """State of the folds."""
        import pyarrow as pa

        return pa.schema([("kind", pa.string()), (STATE, pa.binary())])

    @quiet
    def __call__(self, batches: Batches) -> "Iterator[pa.RecordBatch]":
        """Yield states, and the facts about the persons of a partition."""
        import pyarrow as pa

        facts, overlap, last = PublicFacts(self.grid), False, None

        def row(kind: str, state: bytes) -> "pa.RecordBatch":
            return pa.RecordBatch.from_pydict({"kind": [kind], STATE: [state]}, schema=self.schema)

        def persons() -> Batches:
            for batch in batches:
                kept = batch.column(STATE)
                states.extend(kept.drop_null().to_pylist())
                yield batch.filter(kept.is_null())

        states: list[bytes] = []
        for parts in frames(persons(), self.columns):
            for state in states:
                yield row("folds", state)
            states.clear()
            overlap = overlap or self.grid.overlap(parts, last)
            last = parts[-1:] if parts.height else last
            facts.take(self.grid.merged(parts))
        for state in states:
            yield row("folds", state)
        yield row("facts", packed([facts.state(), overlap]))


@dataclass(frozen=True)
class Folded:
    """Rows in order of person and time into what folds keep: one row with their states."""

    grid: Grid
    folds: tuple[Fold, ...]
    columns: "pl.Schema"

    @property
    def schema(self) -> "pa.Schema":
        """State of the folds."""
        import pyarrow as pa

        return pa.schema([(STATE, pa.binary())])

    @quiet
    def __call__(self, batches: Batches) -> "Iterator[pa.RecordBatch]":
        """Yield what is kept of a partition."""
        folds, done = deepcopy(self.folds), 0
        line = Ordered(self.grid, folds)
        for rows in frames(batches, self.columns):
            line.feed(rows.with_row_index(ROW, offset=done))
            done += rows.height
        line.close()
        yield _kept(folds, self.schema)


@dataclass(frozen=True)
class Rewritten:
    """Rows in order of person and time into rows with outputs, by place as in ``written``.

    What is known of a partition, the facts and the digests, goes to ``report`` at its end: the
    one thing that a kernel does beyond its rows.
    """

    grid: Grid
    rewriting: Rewriting
    columns: "pl.Schema"
    report: Callable[[bytes], None]

    @property
    def written(self) -> "pl.Schema":
        """The columns of the output."""
        import polars as pl

        return deepcopy(self.rewriting).rewritten(pl.DataFrame(schema=self.columns)).schema

    @property
    def schema(self) -> "pa.Schema":
        """The same by place, for Arrow."""
        return held(self.written)

    @quiet
    def __call__(self, batches: Batches) -> "Iterator[pa.RecordBatch]":
        """Yield the outputs of a partition."""
        schema, line, facts = self.schema, deepcopy(self.rewriting), PublicFacts(self.grid)
        for rows in frames(batches, self.columns):
            facts.feed(rows)
            yield from _sent(line.rewritten(rows), schema)
        self.report(packed([facts.state(), line.state()]))


@dataclass(frozen=True)
class Packed:
    """Rows into one row for each chunk of them, with all of its columns as bytes."""

    columns: "pl.Schema"

    @property
    def schema(self) -> "pa.Schema":
        """Bytes."""
        import pyarrow as pa

        return pa.schema([(STATE, pa.binary())])

    @quiet
    def __call__(self, batches: Batches) -> "Iterator[pa.RecordBatch]":
        """Yield the chunks of a partition."""
        import pyarrow as pa

        for number, rows in enumerate(frames(batches, self.columns)):
            chunk = rows.with_row_index(ROW, offset=number * CHUNK)
            packet = pa.array([packed(chunk)], pa.binary())
            yield pa.RecordBatch.from_arrays([packet], schema=self.schema)


_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",  # a task has one core
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # what Spark logs of a failure may quote the data
}
_HERE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""Settings of a session that has no other machine: nothing listens to the network."""
_SKIPPING = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_OLDEST_JAVA = 17
_SIGNS = {
    r"No module named '([\w.]+)'": "the Python of Spark's workers lacks the package {}; start the "
    "session with undertow.spark_session(), or set PYSPARK_PYTHON to a Python that has undertow",
    r"Cannot run program|PYTHON_VERSION_MISMATCH|ModuleNotFoundError": "the Python of Spark's "
    "workers cannot be started, or is of another version than this one; start the session with "
    "undertow.spark_session(), or set PYSPARK_PYTHON before it is started",
    r"FileNotFound|does not exist|FAILED_READ_FILE|no longer exist|PATH_NOT_FOUND": "a file behind "
    "it is gone, damaged, or of another schema than the others; restore it, or make the frame anew",
    r"SparkContext was shut down|stopped SparkContext|Connection refused|Answer from Java side is "
    r"empty|An error occurred while trying to connect": "its session has ended; start one, and "
    "make the frame anew",
    r"[Nn]o space left|NoSpaceLeft": "the disk of a worker or of the output is full; make room",
    r"ExecutorLostFailure|ExecutorDeadException|MetadataFetchFailed|FetchFailed": "workers were "
    "lost more often than Spark tries again",
    r"OutOfMemoryError|MemoryError|Python worker exited unexpectedly": "a worker has not enough "
    "memory; give the workers more, or the table more partitions",
}
"""Pattern of the cause in a failure's message; the message itself may quote the data."""


def spark_session(master: str | None = None, **settings: str) -> Any:
    """Return a Spark session whose workers find this Python, with times in UTC.

    ``master`` says where the workers are (default: this machine, all its cores); ``settings`` are
    properties of Spark, passed as ``**{"spark.executor.memory": "4g"}``. A session that runs
    already is returned as it is, if no master is given. On this machine alone, nothing listens
    to the network.

    Needs the extra ``spark`` and a Java runtime, 17 or newer. Takes seconds to start.

    >>> session = spark_session()  # doctest: +SKIP
    >>> frame = session.read.parquet("w25")  # doctest: +SKIP
    """
    SparkSession = _spark().SparkSession
    running = SparkSession.getActiveSession()
    if running is not None:
        if master is not None or settings:
            raise InvalidInput(
                "a Spark session runs already, and its settings stay as they are; stop it first, "
                "or call spark_session() without any"
            )
        return running
    _check_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = "local[*]" if master is None else master
    alone = master.startswith("local")
    if alone:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("undertow")
    for name, value in ({**_SETTINGS, **(_HERE if alone else {}), **settings}).items():
        builder = builder.config(name, value)
    with _quoting_nothing("cannot start Spark"):
        return builder.getOrCreate()


@dataclass(frozen=True, slots=True)
class SparkSource(Source):
    """A table that Spark holds: its columns by name, and the Spark frame of the needed ones.

    ``frame`` is an empty frame of the same columns, on which expressions are tried out.
    """

    table: Any = None

    @property
    def spread(self) -> bool:
        """Whether workers hold the rows: they do."""
        return True

    def pieces(self, limit: int) -> int:
        """Return how many rows a worker handles at a time; all are never in one memory."""
        return CHUNK

    def collect(self, *frames: "pl.LazyFrame") -> "list[pl.DataFrame]":
        """Refuse queries of a frame in memory: a cluster holds this table."""
        raise NotSupported(
            "this is not done on a Spark frame; write the records that it needs to a Parquet file"
        )

    def mapped(self, kernel: Any, table: Any = None) -> Any:
        """Return the Spark frame that a kernel makes of each partition, not evaluated yet.

        The kernel takes an iterator of Arrow batches and gives batches of its ``schema``.
        """
        frame = self.table if table is None else table
        return frame.mapInArrow(kernel, _spark_schema(kernel.schema))

    def gathered(self, table: Any) -> "pa.Table":
        """Return a Spark frame in memory: for numbers of all records together."""
        with _quoting_nothing(f"cannot read {self.title}"):
            numbers: pa.Table = table.toArrow()
        return numbers

    def feed(
        self, data: "Data", folds: Sequence[Fold], *columns: "pl.Expr", words: str = "rows read"
    ) -> PublicFacts:
        """Feed all rows of data to some folds, and return the facts about them.

        Without an order: one pass, in which what is known of the persons of a partition is all
        that is shuffled. In order of person and time: rows are shuffled by person and sorted.
        """
        doing(words)
        unordered = not data.grid.fill and not any(fold.ordered for fold in folds)
        return self._same(
            data, (self._counted if unordered else self._folded)(data, folds, columns)
        )

    def _same(self, data: "Data", facts: PublicFacts) -> PublicFacts:
        """Return the facts, or refuse a frame of which other facts were found before."""
        question, (_, wrong) = (
            ("read", data.grid, data.by, data.groups),
            data.grid.shape_in(facts.summary),
        )
        if wrong is None and self.kept.setdefault(question, facts.summary) != facts.summary:
            raise self.changed()
        return facts

    def changed(self) -> InvalidInput:
        """Return the error about a frame that gives other records than before."""
        return InvalidInput(
            f"{self.title} gave other records when it was read again: it changed meanwhile, or one "
            "of its steps is random; nothing was released. Write it to files first, and read those"
        )

    def refusal(self, data: "Data", wrong: str) -> InvalidInput:
        """Return the error about rows with which something is wrong; they have no numbers."""
        rows = PickedRows(data.grid, partial(data.grid.culprits, wrong=wrong), 0)
        self._folded(data, [rows], ())
        column, what = data.grid.complaint(wrong)
        return InvalidInput(
            f"{self.where(0, column)} {what} ({rows.count} in all; rows of a Spark frame have no "
            "numbers); correct them, or leave them out"
        )

    def where(self, row: int, column: str | None) -> str:
        """Return which row of a column is meant: they have no numbers."""
        return f"a row of column {column!r}"

    def __reduce__(self) -> Any:
        """Return what is sent to workers: the columns, and nothing of the table."""
        return Source, (self.title, self.frame, self.columns)

    def _counted(self, data: "Data", folds: Sequence[Fold], columns: "Exprs") -> PublicFacts:
        kernel = Counted(Evaluated(apart(data), columns), tuple(folds))
        names = (PERSON,) if data.grid.time is None else (PERSON, EARLIEST)
        parts = self._sorted(self.mapped(kernel), *_places(kernel.columns, *names))
        summed = self.mapped(Summed(data.grid, kernel.columns), parts)
        facts, overlap = PublicFacts(data.grid), False
        for kind, state in zip(*self.gathered(summed).to_pydict().values(), strict=True):
            if kind == "folds":
                _take(folds, unpacked(state))
            else:
                summary, apart_not = unpacked(state)
                facts.merge(summary)
                overlap = overlap or apart_not
        if overlap and self._twice(data):
            facts.merge({"twice": True})
        return facts

    def _twice(self, data: "Data") -> bool:
        """Return whether two rows have the person and the time of each other."""
        kernel, grid = Evaluated(apart(data), ()), data.grid
        who, when = _places(kernel.columns, PERSON, TIME)
        rows = self.mapped(kernel)
        rows = rows if grid.start is None else rows.filter(rows[when] >= grid.start)
        rows = rows if grid.end is None else rows.filter(rows[when] < grid.end)
        same = rows.groupBy(who, when).count().filter("count > 1")
        return bool(self.gathered(same.limit(1).select("count")).num_rows)

    def _folded(self, data: "Data", folds: Sequence[Fold], columns: "Exprs") -> PublicFacts:
        facts, kernel = PublicFacts(data.grid), Evaluated(apart(data), columns)
        rows = self.in_order(data, kernel)
        both = (facts, *folds)
        states = self.gathered(self.mapped(Folded(data.grid, both, kernel.columns), rows))
        for state in states.column(0).to_pylist():
            _take(both, unpacked(state))
        return facts

    def write(self, data: "Data", rewriting: Rewriting, folder: Path) -> PublicFacts:
        """Write outputs for the records to a folder of Parquet files; return the facts about them.

        What ``rewriting`` has kept afterwards is what was kept of all records. Spark writes each
        partition once, however often it is tried. Every worker must see the folder.
        """
        kernel = Evaluated(apart(data), rewriting.needed)
        session = self.table.sparkSession
        reports = session.sparkContext.accumulator({}, _reports())
        work = Rewritten(data.grid, rewriting, kernel.columns, _Report(reports))
        out = self.mapped(work, self.in_order(data, kernel)).toDF(*work.written)
        with _quoting_nothing(f"cannot write {folder.name}, or cannot read {self.title}"):
            out.write.parquet(folder.as_uri())
        facts = PublicFacts(data.grid)
        for state in reports.value.values():
            seen, fold = unpacked(state)
            facts.merge(seen)
            rewriting.merge(fold)
        return self._same(data, facts)

    def opened(self, data: "Data", folder: Path) -> "Data":
        """Return what was written to a folder for some data, as data."""
        with _quoting_nothing(f"cannot read {folder.name}"):
            table = self.table.sparkSession.read.parquet(folder.as_uri())
        grid, names = data.grid, [name for name in table.columns if name != ERASED]
        options = {"value": names[-1], "person": grid.person, "time": grid.time, "by": data.by}
        return type(data)(table, **options)

    def brought(self, data: "Data", *columns: "pl.Expr") -> "Iterator[pl.DataFrame]":
        """Yield all rows in order, a chunk at a time: for outputs, which are public."""
        kernel = Evaluated(apart(data), columns)
        packed = self.mapped(Packed(kernel.columns), self.in_order(data, kernel))
        with _quoting_nothing(f"cannot read {self.title}"):
            for row in packed.toLocalIterator(prefetchPartitions=True):
                yield unpacked(bytes(row[0]))

    def in_order(self, data: "Data", kernel: Evaluated) -> Any:
        """Return rows with those of each person together, in order of time; not evaluated yet."""
        if data.grid.time is None:
            raise InvalidInput(
                "the rows of a Spark frame are in no order, and this asks for one; name the column "
                "of times with time=..."
            )
        return self._sorted(self.mapped(kernel), *_places(kernel.columns, PERSON, TIME))

    @staticmethod
    def _sorted(table: Any, who: str, *when: str) -> Any:
        return table.repartition(who).sortWithinPartitions(who, *when)

    def first_text(self, name: str) -> str | None:
        """Return some text of a column of times, which are public: it says how to read all."""
        functions = _spark("functions")
        column = functions.col(place(list(self.columns).index(name)))
        with _quoting_nothing(f"cannot read {self.title}"):
            rows = self.table.select(column).filter(functions.length(column) > 0).take(1)
        return rows[0][0] if rows else None


@dataclass(frozen=True)
class _Report:
    """Accumulator of the states of partitions; the last write of a partition wins."""

    reports: Any

    def __call__(self, state: bytes) -> None:
        from pyspark import TaskContext

        task: Any = TaskContext.get()
        self.reports.add({task.partitionId(): state})


def _reports() -> Any:
    """Return how reports are put together: by their partitions."""
    from pyspark.accumulators import AccumulatorParam

    class Reports(AccumulatorParam):  # type: ignore[misc]
        def zero(self, value: dict[int, bytes]) -> dict[int, bytes]:
            return {}

        def addInPlace(self, one: dict[int, bytes], other: dict[int, bytes]) -> dict[int, bytes]:  # noqa: N802
            return {**one, **other}

    return Reports()


def _take(folds: Sequence[Fold], states: Sequence[Any]) -> None:
    """Merge states into folds."""
    for fold, state in zip(folds, states, strict=True):
        fold.merge(state)


def open_spark(table: Any, roles: Roles) -> SparkSource:
    """Return a frame of Spark with the columns that are needed; nothing of it is read.

    What a column holds follows from its type. Texts that are not UTF-8 are missing, as everywhere.
    Refused are streams, a session that skips files it cannot read, and a column that is not there.
    """
    import polars as pl

    if "connect" in type(table).__module__:
        raise NotSupported(
            "frames of Spark Connect are not read; start a session with undertow.spark_session()"
        )
    if table.isStreaming:
        raise InvalidInput("a Spark frame that never ends cannot be released; pass one that does")
    names = table.columns
    check_columns(names, roles, "the table", header=True)
    for name in roles:
        if names.count(name) > 1:
            raise InvalidInput(f"the table has two columns {name!r}; rename one of them")
    for setting in _SKIPPING:
        if str(table.sparkSession.conf.get(setting, "false")).lower() == "true":
            raise InvalidInput(
                f"the session is set to leave out files that it cannot read ({setting}), so what "
                "is released would not be what it says; set it to false"
            )
    schema = {name: _polars_type(table.schema.fields[names.index(name)].dataType) for name in roles}
    columns = {name: kind_of(name, dtype) for name, dtype in schema.items()}
    frame = pl.LazyFrame(schema=schema)
    return SparkSource("the table", frame, columns, table=_needed(table, names, columns))


def _needed(table: Any, names: Sequence[str], columns: dict[str, Column]) -> Any:
    """Return the needed columns of a Spark frame by their places: names can be ambiguous there."""
    functions = _spark("functions")
    renamed = table.toDF(*(f"column{number}" for number in range(len(names))))
    chosen = []
    for number, (name, column) in enumerate(columns.items()):
        held = functions.col(f"column{names.index(name)}")
        if column.kind == "text":  # Polars does not check texts of Arrow, and broken ones crash it
            held = functions.try_validate_utf8(held)
        chosen.append(held.alias(place(number)))
    return renamed.select(*chosen)


def _places(columns: "pl.Schema", *names: str) -> list[str]:
    """Return what columns are called between kernels."""
    return [place(list(columns).index(name)) for name in names]


def _polars_type(dtype: Any) -> "pl.DataType":
    """Return the type of Polars that holds values of a Spark type; binary where there is none."""
    import polars as pl
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    try:
        arrow = to_arrow_type(dtype, timezone="UTC")
        held = pl.from_arrow(pa.table({"held": pa.array([], arrow)}))
    except (PySparkException, pa.ArrowException, pl.exceptions.PolarsError):
        return pl.Binary()
    return held.to_series(0).dtype if isinstance(held, pl.DataFrame) else held.dtype


def _spark_schema(schema: "pa.Schema") -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _spark(part: str = "") -> Any:
    """Import pyspark, or raise an error that says how to install it."""
    from importlib import import_module

    try:
        return import_module(f"pyspark.sql.{part}".rstrip("."))
    except ImportError as error:
        raise InvalidInput(
            f"Spark needs the package {error.name}; install undertow[spark]"
        ) from None


def _check_java() -> None:
    """Refuse to start without a Java runtime that Spark runs on."""
    import subprocess

    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java") if home is None else shutil.which("java", path=f"{home}/bin")
    output = "" if java is None else subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False
    ).stderr  # fmt: skip
    match = re.search(r'version "(\d+)', output)
    if match is None or int(match[1]) < _OLDEST_JAVA:
        held = "none was found" if match is None else f"version {match[1]} was found"
        raise InvalidInput(
            f"Spark needs a Java runtime, {_OLDEST_JAVA} or newer, and {held}; install the package "
            "openjdk-17-jre-headless of your system (in a clone: scripts/system-deps)"
        )


@contextmanager
def _quoting_nothing(what: str) -> Iterator[None]:
    """Convert failures of Spark into errors that quote neither data nor Spark."""
    try:
        with _unlogged():
            yield
    except Exception as error:  # noqa: BLE001  (may quote the data)
        message = f"{type(error).__name__}: {error}"
    else:
        return
    own = refusal_in(message)
    raise InvalidInput(f"{what}: {_reason(message)}") if own is None else own from None


@contextmanager
def _unlogged() -> Iterator[None]:
    """Suppress pyspark's logs of failures, which quote data."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def _reason(message: str) -> str:
    """Describe a failure, quoting nothing of it but the name of a package.

    >>> _reason("ModuleNotFoundError: No module named 'polars'")[:52]
    "the Python of Spark's workers lacks the package pola"
    """
    for sign, words in _SIGNS.items():
        match = re.search(sign, message)
        if match is not None:
            return words.format(*match.groups())
    return "Spark failed; see that all steps of the frame can be done, and run it again"
