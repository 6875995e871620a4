"""What workers of a cluster do with their partitions: kernels from Arrow batches to Arrow batches.

Nothing here knows Spark. Every kernel is a plain object that is sent to the workers, takes the
batches of one partition in their order, and gives batches of its ``schema``:

- `Evaluated` makes the frame of `Data.rows` of the columns of the table: who, when, which group,
  and what was made of each record;
- `Counted` keeps of such rows, in any order, what is known of each person, and what folds keep;
- `Summed` adds up what is known of persons whose parts come together, in order of time;
- `Folded` feeds rows in order of person and time to folds;
- `Rewritten` makes outputs of such rows, under the key of a release.

What fails in a worker is told without its reason, which may quote the data. Memory is that of
`CHUNK` rows, and of what folds keep.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from undertow import errors
from undertow.data.folds import Fold, Ordered, PublicFacts, packed
from undertow.data.grid import ROW, Grid
from undertow.data.runs import Rewriting
from undertow.data.sources import Source
from undertow.errors import UndertowError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from undertow.data.table import Data

__all__ = [
    "CHUNK",
    "Counted",
    "Evaluated",
    "Folded",
    "Packed",
    "Rewritten",
    "Summed",
    "apart",
    "held",
    "place",
    "refusal_in",
]

CHUNK = 2**18
"""Rows that are handled at a time, whatever the size of batches: what a call costs is shared."""

STATE = "state"
"""The column of what folds keep; all others are numbered, since any name can be a column's."""

Batches = Iterable["pa.RecordBatch"]
Kernel = Callable[[Any, Batches], Iterator["pa.RecordBatch"]]


class KernelError(Exception):
    """A kernel failed; why may quote the data, and is not told."""


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
    """Return the refusal of ours that a kernel has met, as the cluster tells it; None for none.

    >>> refusal_in("Task 3 failed: <<InvalidInput>>no records<</>> at worker 7")
    InvalidInput('no records')
    """
    found = re.search(r"<<(\w+)>>(.*?)<</>>", message, re.DOTALL)
    kind = None if found is None else getattr(errors, found[1], None)
    return None if found is None or kind is None else kind(found[2])


def _panic() -> type[BaseException]:
    import polars as pl

    return pl.exceptions.PanicException


def frames(batches: Batches, schema: "pl.Schema") -> "Iterator[pl.DataFrame]":
    """Yield batches as frames of Polars with the columns of a schema, at least one.

    They have `CHUNK` rows or a batch more. Times that have a zone are put into UTC.
    """
    import polars as pl

    waiting: list[pa.RecordBatch] = []
    rows, given = 0, False
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= CHUNK:
            yield _frame(waiting, schema)
            waiting, rows, given = [], 0, True
    if rows:
        yield _frame(waiting, schema)
    elif not given:
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
    """Return what folds keep as one row."""
    import pyarrow as pa

    state = packed([fold.state() for fold in folds])
    columns = [pa.nulls(1, field.type) for field in schema][:-1]
    return pa.RecordBatch.from_arrays([*columns, pa.array([state], pa.binary())], schema=schema)


@dataclass(frozen=True)
class Evaluated:
    """Columns of a table into the frame of `Data.rows`, with what is made of each row."""

    data: "Data"
    made: "tuple[pl.Expr, ...]"

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

        given = source.frame.collect_schema()
        needed = pl.Schema({name: given[name] for name in source.columns})
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
        """What is known of a person."""
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
    """What is known of parts of persons, each person's in order of time, into the facts.

    Gives what folds have kept as it came, and one row with the facts and whether parts of a
    person overlap in time: then equal times may be in two of them.
    """

    grid: Grid
    columns: "pl.Schema"

    @property
    def schema(self) -> "pa.Schema":
        """What folds keep."""
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
        """What folds keep."""
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

    What is known of a partition, the facts and the digests, is told to ``report`` at its end: the
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
            made = pa.array([packed(chunk)], pa.binary())
            yield pa.RecordBatch.from_arrays([made], schema=self.schema)
