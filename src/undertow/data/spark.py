"""Tables of Spark: opened by their types, read where they lie, refused in words that quote nothing.

The only module that knows Spark. A Spark frame is never collected: the columns that are needed go
through `undertow.data.partitions`, the same expressions of Polars as for any other table, in the
processes of the workers, and what arrives here are numbers of all of them together. No worker
draws noise of an answer.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.data.columns import Column, kind_of
from undertow.data.folds import Fold, PickedRows, PublicFacts, unpacked
from undertow.data.grid import EARLIEST, PERSON, TIME
from undertow.data.partitions import (
    CHUNK,
    Counted,
    Evaluated,
    Folded,
    Packed,
    Rewritten,
    Summed,
    apart,
    place,
    refusal_in,
)
from undertow.data.rewriting import ERASED
from undertow.data.runs import Rewriting
from undertow.data.sources import Roles, Source, check_columns
from undertow.errors import InvalidInput, NotSupported
from undertow.progress import doing

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from undertow.data.table import Data

    Exprs = tuple[pl.Expr, ...]

__all__ = ["SparkSource", "open_spark", "spark_session"]

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
"""What in the message of a failure says what happened; the message itself may quote the data."""


def spark_session(master: str | None = None, **settings: str) -> Any:
    """Return a Spark session whose workers find this Python, with times in UTC.

    ``master`` says where the workers are (default: this machine, all its cores); ``settings`` are
    properties of Spark, passed as ``**{"spark.executor.memory": "4g"}``. A session that runs
    already is returned as it is, if no master is asked for. On this machine alone, nothing listens
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
        """Refuse: no query of one frame in memory can be asked of a table that is none."""
        raise NotSupported(
            "this is not done on a Spark frame; write the records that it needs to a Parquet file"
        )

    def mapped(self, kernel: Any, table: Any = None) -> Any:
        """Return the Spark frame that a kernel makes of each partition, not evaluated yet.

        The kernel takes an iterator of Arrow batches and gives batches of its ``schema``.
        """
        given = self.table if table is None else table
        return given.mapInArrow(kernel, _spark_schema(kernel.schema))

    def gathered(self, table: Any) -> "pa.Table":
        """Return a Spark frame in memory: for numbers of all records together."""
        with _quoting_nothing(f"cannot read {self.title}"):
            found: pa.Table = table.toArrow()
        return found

    def feed(
        self, data: "Data", folds: Sequence[Fold], *made: "pl.Expr", words: str = "rows read"
    ) -> PublicFacts:
        """Feed all rows of data to some folds, and return the facts about them.

        Without an order: one pass, in which what is known of the persons of a partition is all
        that is shuffled. In order of person and time: rows are shuffled by person and sorted.
        """
        doing(words)
        unordered = not data.grid.fill and not any(fold.ordered for fold in folds)
        return self._same(data, (self._counted if unordered else self._folded)(data, folds, made))

    def _same(self, data: "Data", facts: PublicFacts) -> PublicFacts:
        """Return the facts, or refuse a frame of which other facts were found before."""
        asked, (_, wrong) = ("read", data.grid, data.by, data.groups), data.grid.told(facts.told)
        if wrong is None and self.kept.setdefault(asked, facts.told) != facts.told:
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

    def _counted(self, data: "Data", folds: Sequence[Fold], made: "Exprs") -> PublicFacts:
        kernel = Counted(Evaluated(apart(data), made), tuple(folds))
        names = (PERSON,) if data.grid.time is None else (PERSON, EARLIEST)
        parts = self._sorted(self.mapped(kernel), *_places(kernel.columns, *names))
        summed = self.mapped(Summed(data.grid, kernel.columns), parts)
        facts, overlap = PublicFacts(data.grid), False
        for kind, state in zip(*self.gathered(summed).to_pydict().values(), strict=True):
            if kind == "folds":
                _take(folds, unpacked(state))
            else:
                told, apart_not = unpacked(state)
                facts.merge(facts.load(told))
                overlap = overlap or apart_not
        if overlap and self._twice(data):
            facts.merge(facts.load({"twice": True}))
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

    def _folded(self, data: "Data", folds: Sequence[Fold], made: "Exprs") -> PublicFacts:
        facts, kernel = PublicFacts(data.grid), Evaluated(apart(data), made)
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
        told = session.sparkContext.accumulator({}, _reports())
        work = Rewritten(data.grid, rewriting, kernel.columns, _Report(told))
        out = self.mapped(work, self.in_order(data, kernel)).toDF(*work.written)
        with _quoting_nothing(f"cannot write {folder.name}, or cannot read {self.title}"):
            out.write.parquet(folder.as_uri())
        facts = PublicFacts(data.grid)
        for state in told.value.values():
            seen, made = unpacked(state)
            facts.merge(facts.load(seen))
            rewriting.merge(rewriting.load(made))
        return self._same(data, facts)

    def opened(self, data: "Data", folder: Path) -> "Data":
        """Return what was written to a folder for some data, as data."""
        with _quoting_nothing(f"cannot read {folder.name}"):
            table = self.table.sparkSession.read.parquet(folder.as_uri())
        grid, made = data.grid, [name for name in table.columns if name != ERASED]
        given = {"value": made[-1], "person": grid.person, "time": grid.time, "by": data.by}
        return type(data)(table, **given)

    def brought(self, data: "Data", *made: "pl.Expr") -> "Iterator[pl.DataFrame]":
        """Yield all rows in order, a chunk at a time: for outputs, which are public."""
        kernel = Evaluated(apart(data), made)
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
    """Where a worker tells what it has kept of a partition; the last who did it is heard."""

    told: Any

    def __call__(self, state: bytes) -> None:
        from pyspark import TaskContext

        task: Any = TaskContext.get()
        self.told.add({task.partitionId(): state})


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
    """Let folds take over what others have kept."""
    for fold, state in zip(folds, states, strict=True):
        fold.merge(fold.load(state))


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
                f"the session is told to leave out files that it cannot read ({setting}), so what "
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
    """Return the package, or say how to get it."""
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
    said = "" if java is None else subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False
    ).stderr  # fmt: skip
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < _OLDEST_JAVA:
        held = "none was found" if found is None else f"version {found[1]} was found"
        raise InvalidInput(
            f"Spark needs a Java runtime, {_OLDEST_JAVA} or newer, and {held}; install the package "
            "openjdk-17-jre-headless of your system (in a clone: scripts/system-deps)"
        )


@contextmanager
def _quoting_nothing(what: str) -> Iterator[None]:
    """Turn whatever fails in Spark into an error that quotes neither data nor Spark."""
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
    """Keep pyspark from logging failures of its own accord, with what they quote."""
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
    """Return what a failure was in words that quote nothing of it but the name of a package.

    >>> _reason("ModuleNotFoundError: No module named 'polars'")[:52]
    "the Python of Spark's workers lacks the package pola"
    """
    for sign, words in _SIGNS.items():
        found = re.search(sign, message)
        if found is not None:
            return words.format(*found.groups())
    return "Spark failed; see that all steps of the frame can be done, and run it again"
