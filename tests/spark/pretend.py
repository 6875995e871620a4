"""A cluster in this process: partitions as Arrow tables, kernels sent to them as bytes.

It has of a Spark frame what the reader asks of one, so that what workers and driver do
is tested on many tables without a Java runtime; what Spark itself does is tested on Spark.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any
from zlib import crc32

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

import undertow as ut
from undertow.data.columns import kind_of
from undertow.data.readers import sources, spark
from undertow.data.readers.spark import place

PARTITIONS = 3


@dataclass(frozen=True)
class Pretend:
    """Rows in partitions, each of them in some order."""

    parts: list[pa.Table]

    def mapInArrow(self, kernel: Any, schema: Any) -> "Pretend":  # noqa: N802
        sent = cloudpickle.dumps(kernel)
        made = []
        for part in self.parts:
            own = cloudpickle.loads(sent)
            batches = list(own(iter(part.to_batches(max_chunksize=2))))
            assert all(batch.schema == kernel.schema for batch in batches)
            made.append(pa.Table.from_batches(batches, schema=kernel.schema))
        return Pretend(made)

    def repartition(self, column: str) -> "Pretend":
        whole = pa.concat_tables(self.parts)
        where = [crc32(repr(key).encode()) % PARTITIONS for key in whole[column].to_pylist()]
        picked = [
            pa.array([at == number for at in where], pa.bool_()) for number in range(PARTITIONS)
        ]
        return Pretend([whole.filter(mask) for mask in picked])

    def sortWithinPartitions(self, *columns: str) -> "Pretend":  # noqa: N802
        keys = [(column, "ascending", "at_start") for column in columns]
        return Pretend([part.take(pc.sort_indices(part, sort_keys=keys)) for part in self.parts])

    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.concat_tables(self.parts)

    # --- the count of equal persons and times

    def __getitem__(self, column: str) -> "Compared":
        return Compared(column)

    def filter(self, test: "Callable[[pa.Table], Any] | str") -> "Pretend":
        if isinstance(test, str):
            assert test == "count > 1"
            return Pretend([part.filter(pc.greater(part["count"], 1)) for part in self.parts])
        return Pretend([part.filter(test(part)) for part in self.parts])

    def groupBy(self, *columns: str) -> "Pretend":  # noqa: N802
        whole = pa.concat_tables(self.parts)
        counted = whole.group_by(list(columns)).aggregate([([], "count_all")])
        return Pretend([counted.rename_columns([*columns, "count"])])

    def count(self) -> "Pretend":
        return self

    def limit(self, rows: int) -> "Pretend":
        return Pretend([pa.concat_tables(self.parts).slice(0, rows)])

    def select(self, *columns: str) -> "Pretend":
        return Pretend([part.select(list(columns)) for part in self.parts])


@dataclass(frozen=True)
class Compared:
    """A column that is compared with a number."""

    column: str

    def __ge__(self, bound: int) -> Any:
        return partial(lambda part: pc.greater_equal(part[self.column], bound))

    def __lt__(self, bound: int) -> Any:
        return partial(lambda part: pc.less(part[self.column], bound))


def pretended(frame: pl.DataFrame, cuts: Sequence[int], **options: Any) -> ut.Data:
    """Return a frame as data of the pretended cluster, cut into partitions at some rows."""

    def opened(given: pl.DataFrame, roles: Any) -> Any:
        named = given.select(list(roles))
        columns = {name: kind_of(name, dtype) for name, dtype in named.schema.items()}
        table = named.rename({name: place(n) for n, name in enumerate(columns)}).to_arrow()
        ends = [0, *sorted(min(cut, table.num_rows) for cut in cuts), table.num_rows]
        parts = [table.slice(a, b - a) for a, b in pairwise(ends)]
        empty = pl.LazyFrame(schema=named.schema)
        return spark.SparkSource("the table", empty, columns, table=Pretend(parts))

    data = ut.Data.__new__(ut.Data)
    own = ut.Data.__init__.__globals__
    before = own["open_source"]
    own["open_source"] = opened
    try:
        ut.Data.__init__(data, frame, **options)
    finally:
        own["open_source"] = before
    assert isinstance(data.source, sources.Source)
    return data
