"""Tables that are larger than memory, read in pieces: bounded, in the order of their rows.

A piece is a frame of the same columns, a few thousand to a million rows. Parquet files are read
by slices of rows: measured, that is bounded even where all rows are in one group of a file, and as
quick as reading it whole. CSV files, packed or not, are read once, in blocks of lines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.data.columns import column_of_name
from undertow.data.folds import Fold, Ordered, PickedRows, PresentGroups, PublicFacts
from undertow.data.lines import blocks
from undertow.data.sources import read_lines
from undertow.errors import NotSupported
from undertow.progress import doing

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.sources import Source
    from undertow.data.table import Data

BLOCKS = 64
"""Blocks of lines that would fill the memory: texts take more room in a frame than in a file."""

__all__ = [
    "BLOCKS",
    "check_whole",
    "culprit",
    "facts_of",
    "feed",
    "feed_in_order",
    "pieces",
    "rows_of",
]


def pieces(
    data: "Data", *made: "pl.Expr", also: Sequence[str] = (), words: str = "rows read"
) -> "Iterator[pl.DataFrame]":
    """Yield the frames of `Data.rows`, numbered, of one piece of the table after the other.

    At least one, which is empty where there are no rows. ``also`` names columns that are needed
    beyond those of the data. Says how many rows are done, to whoever watches.
    """
    size = data.piece or 1
    names = list(dict.fromkeys([*data.source.columns, *also]))
    done, total = 0, data.source.rows
    doing(words, done, total)
    for frame in _frames(data, names, size):
        yield rows_of(data, frame, done, *made)
        done += frame.height
        doing(words, done, total)


def rows_of(data: "Data", frame: "pl.DataFrame", first: int, *made: "pl.Expr") -> "pl.DataFrame":
    """Return the frame of `Data.rows` of some rows of a table, numbered from ``first`` on."""
    part = data.changed(source=replace(data.source, frame=frame.lazy(), seen=None))
    return part.source.collect(part.rows(*made, first=first))[0]


def feed(
    data: "Data", folds: Sequence[Fold], *made: "pl.Expr", words: str = "rows read"
) -> PublicFacts:
    """Feed all rows of data to some folds in one pass, and return the facts about them.

    Raises `InvalidInput` where rows are not in order of person and time.
    """
    return data.source.feed(data, folds, *made, words=words)


def feed_in_order(
    data: "Data", folds: Sequence[Fold], *made: "pl.Expr", words: str = "rows read"
) -> PublicFacts:
    """Feed the rows of a table that this machine reads, as `feed` does."""
    facts = PublicFacts(data.grid)
    line = Ordered(data.grid, [facts, *folds], most=data.memory // 4)
    for rows in pieces(data, *made, words=words):
        line.feed(rows)
    line.close()
    return facts


def facts_of(data: "Data") -> tuple[dict[str, Any], list[Any]]:
    """Return the facts about the rows, as of `Grid.summed`, and the keys of the groups that occur.

    One pass for all questions about the same window and groups: facts are kept with the source.
    """
    asked = ("facts", data.piece, data.grid, data.by, data.groups)
    found: tuple[dict[str, Any], list[Any]] | None = data.source.kept.get(asked)
    if found is None:
        groups = PresentGroups(data.grid)
        found = feed(data, [groups]).told, groups.keys
        data.source.kept[asked] = found
    data.source.check_unchanged()
    return found


def culprit(data: "Data", wrong: str) -> int:
    """Return the first row with which something is wrong; a pass that ends there."""
    found = PickedRows(data.grid, lambda rows: data.grid.culprits(rows, wrong), 1)
    for rows in pieces(data):
        found.feed(rows)
        if found.rows:
            break
    return found.rows[0]


def check_whole(data: "Data", what: str) -> None:
    """Refuse to hold all rows of a table that is read in pieces."""
    if data.piece is not None:
        held = "is read in pieces; allow more memory (memory=..., --memory), or take fewer records"
        spread = "is a Spark frame; take fewer records, and pass them in memory"
        raise NotSupported(
            f"{what} needs all records in memory, and {data.source.named} "
            f"{spread if data.source.spread else held}"
        )


def _frames(data: "Data", names: Sequence[str], size: int) -> "Iterator[pl.DataFrame]":
    """Yield the rows of a table as they are, at most ``size`` at a time, at least once."""
    source = data.source
    if ".csv" in source.file:
        for path in source.paths:
            yield from _lines(source, path, names, size, data.memory // BLOCKS)
        return
    for part in source.parts or (source.frame,):
        frame = part.select(*map(column_of_name, names))
        at, full = 0, True
        while full:
            (found,) = source.collect(frame.slice(at, size))
            if found.height or at == 0:
                yield found
            at, full = at + size, found.height == size


def _lines(
    source: "Source", path: Path, names: Sequence[str], size: int, block: int
) -> "Iterator[pl.DataFrame]":
    """Yield the rows of a CSV file, which can only be read from its beginning."""
    import polars as pl

    try:
        for lines in blocks(path, path.name.lower(), block):
            frame = read_lines(lines).select(*map(column_of_name, names))
            found = frame.collect(engine="streaming")
            source.check_unchanged()
            for start in range(0, max(found.height, 1), size):
                yield found.slice(start, size)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        source.check_unchanged()  # what seems wrong may be the change
        raise source.unreadable(str(error)) from None
    source.check_unchanged()
