"""Folds over rows that come in pieces: facts, counts and pairs, in one ordered pass.

A piece is a Polars frame of `Data.rows(*made, numbered)`: the columns `ROW` (the number of the row
in its table), `PERSON`, `GROUP`, `TIME` where there are times, and those that were made (codes,
lattice steps). Pieces may be cut anywhere, also within a person, and may be empty; but the rows of
a person follow each other without those of another between them, and are in order of time.
`Ordered` checks that, counts absent steps where they are records, and feeds every fold.

A fold takes pieces (`feed`), has a plain `state`, and takes the state of a fold of the same
arguments that has seen all rows of other persons (`merge`): numbers, texts, lists, dictionaries,
arrays of NumPy and frames of Polars, which `packed` turns into bytes and `unpacked` back. So a
machine of a cluster feeds its partition, sends bytes, and the driver merges:

    line = Ordered(grid, folds); line.feed(piece) for each; line.close()
    sent = packed([fold.state() for fold in folds])
    for fold, state in zip(folds, unpacked(sent)): fold.merge(state)

States are as private as the records are.
"""

import base64
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from undertow.data.columns import column_of_name
from undertow.data.expressions import NUMBER, TEXT, TRUTH
from undertow.data.grid import ABSENT, GROUP, PERSON, ROW, THERE, TIME, Grid, Order
from undertow.data.readers.files import blocks
from undertow.data.readers.sources import read_lines
from undertow.errors import InvalidInput, NotSupported
from undertow.models.fitting.tally import MISSING, MOST_STATES
from undertow.progress import doing
from undertow.queries import State

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.readers.sources import Source
    from undertow.data.table import Data

__all__ = [
    "BLOCKS",
    "CODE",
    "TOTAL",
    "CountTable",
    "Fold",
    "Ordered",
    "Pairs",
    "PickedRows",
    "PresentGroups",
    "PublicFacts",
    "QueryFold",
    "Values",
    "check_whole",
    "culprit",
    "facts_of",
    "feed",
    "feed_in_order",
    "feed_whole",
    "names_and_columns",
    "packed",
    "pieces",
    "places_of",
    "rows_of",
    "too_many_values",
    "unpacked",
]


Ints = npt.NDArray[np.int64]
TOTAL, CODE = "\0n", "\0code"
"""Columns: how many rows a table counts, and the place of a record's state."""


class Fold(Protocol):
    """Fold over ordered rows; its result does not depend on the pieces.

    Where absent steps are no records, a fold that is not ``ordered`` may be fed in any order.
    """

    ordered: bool

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""

    def merge(self, state: Any) -> None:
        """Add the state of a fold of other persons."""

    def state(self) -> Any:
        """Return the state, as `packed` takes it; the rows of each person must be complete."""


class Ordered:
    """Rows in order, fed to some folds; see the module for what pieces look like.

    ``most`` bounds the bytes in which persons are remembered, 24 for each, to notice one who comes
    back. Raises `InvalidInput` where rows are out of order.
    """

    def __init__(self, grid: Grid, folds: Sequence[Fold], *, most: int | None = None) -> None:
        self.grid, self.folds = grid, folds
        self.order = Order(grid, most=most)
        self._held: pl.DataFrame | None = None  # the last row, whose absent steps are not known

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        self.order.feed(rows)
        if self.grid.fill:
            import polars as pl

            both = rows if self._held is None else pl.concat([self._held, rows])
            self._held = both[-1:]
            rows = self._counted(both)[:-1]
        for fold in self.folds:
            fold.feed(rows)

    def close(self) -> None:
        """Close the pass."""
        self.order.close()
        if self._held is not None:
            rows = self._counted(self._held)
            for fold in self.folds:
                fold.feed(rows)

    def _counted(self, rows: "pl.DataFrame") -> "pl.DataFrame":
        return self.grid.absences(rows.lazy(), ordered=True).collect()


class PublicFacts:
    """The public facts: the shape of the data, and what is wrong with its rows.

    What is known of the person at a border is sums, least and greatest values, and is joined with
    what the next piece says of the same person. ``summary`` is a row of `Grid.summed`.
    """

    ordered = True

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._closed: dict[str, Any] | None = None
        self._open: pl.DataFrame | None = None
        self._nobody: pl.DataFrame | None = None

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        import polars as pl

        if rows[PERSON].null_count():  # rows without a person may stand anywhere
            nobody = self.grid.by_person(rows.lazy().filter(pl.col(PERSON).is_null())).collect()
            self.take(nobody)
            rows = rows.drop_nulls(PERSON)
        self.take(self.grid.by_person(rows.lazy(), ordered=True).collect())

    def take(self, part: "pl.DataFrame") -> None:
        """Add facts about the next persons; the first may continue the last one before."""
        import polars as pl

        nobody, part = part.filter(pl.col(PERSON).is_null()), part.drop_nulls(PERSON)
        if nobody.height:
            before = self._nobody
            self._nobody = nobody if before is None else self.grid.joined(before, nobody)
        if self._open is not None and part.height:
            begin, rest = part[:1], part[1:]
            if (self._open[PERSON] == begin[PERSON])[0]:
                part = pl.concat([self.grid.joined(self._open, begin), rest])
            else:
                part = pl.concat([self._open, part])
        if part.height > 1 or self._closed is None:
            self.merge(self._summarised(part[:-1]))
        self._open = part[-1:] if part.height else self._open

    @property
    def summary(self) -> dict[str, Any]:
        """The facts so far; those of the last person are provisional until all rows are fed."""
        summary = self._closed or {}
        for part in (self._open, self._nobody):
            summary = (
                summary if part is None else self.grid.together(summary, self._summarised(part))
            )
        return summary

    def merge(self, state: dict[str, Any]) -> None:
        """Add the facts about other persons."""
        self._closed = state if self._closed is None else self.grid.together(self._closed, state)

    def state(self) -> dict[str, Any]:
        """Return the facts, by their names: whole numbers, truth values or None."""
        return self.summary

    def _summarised(self, persons: "pl.DataFrame") -> dict[str, Any]:
        return self.grid.summed(persons.lazy()).collect().row(0, named=True)


class QueryFold(ABC):
    """Base class of folds in which each piece is a query of its rows, in any order.

    Of a table that is not read in pieces the queries go over the frame as it is.
    """

    ordered = False

    @abstractmethod
    def queries(self, rows: "pl.LazyFrame") -> "list[pl.LazyFrame]":
        """Return the queries of some rows, with absent steps counted where they are records."""

    @abstractmethod
    def take(self, *answers: "pl.DataFrame") -> None:
        """Add the answers to the queries of some rows."""

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        import polars as pl

        self.take(*pl.collect_all(self.queries(rows.lazy())))


class CountTable(QueryFold):
    """Rows of the window and of some group, counted by ``keys`` (the group first), with sums.

    ``sums`` are expressions that add up over rows, by name. ``counted`` has a row for each of the
    keys that occur: the keys, `TOTAL` and the sums; ``absent`` the absent steps of each group where
    they are records.
    """

    def __init__(
        self, grid: Grid, keys: Sequence[str], sums: "Mapping[str, pl.Expr] | None" = None
    ) -> None:
        self.grid, self.keys, self.sums = grid, list(keys), dict(sums or {})
        self._counted: list[pl.DataFrame] = []
        self._absent: list[pl.DataFrame] = []

    def queries(self, rows: "pl.LazyFrame") -> "list[pl.LazyFrame]":
        """Return the queries for the counts of some rows, and for the absent steps of groups."""
        import polars as pl

        parts = [expression.alias(name) for name, expression in self.sums.items()]
        named = self.grid.windowed(rows).drop_nulls(GROUP)
        counts = named.group_by(self.keys).agg(pl.len().cast(pl.Int64).alias(TOTAL), *parts)
        if not self.grid.fill:
            return [counts]
        absent = pl.col(ABSENT)  # counted in the rows before them
        gaps = rows.drop_nulls(GROUP).group_by(GROUP).agg(absent.sum()).filter(absent > 0)
        return [counts, gaps]

    def counted(self) -> "pl.DataFrame":
        """Return how many rows there are of each of the keys, and their sums."""
        return self._total(self._counted, self.keys)

    def absent(self) -> dict[Any, int]:
        """Return how many absent steps each group has, for those that have some."""
        if not self._absent:
            return {}
        return dict(self._total(self._absent, [GROUP]).select(GROUP, ABSENT).iter_rows())

    def merge(self, state: dict[str, Any]) -> None:
        """Add the counts of other rows."""
        self.take(*(frame for frame in state.values() if frame is not None))

    def state(self) -> dict[str, Any]:
        """Return both tables as frames."""
        absent = self._total(self._absent, [GROUP]) if self._absent else None
        return {"counted": self.counted(), "absent": absent}

    def take(self, *answers: "pl.DataFrame") -> None:
        """Add the counts of some rows, and their absent steps."""
        # one table, added to from time to time: memory stays that of the keys that occur
        self._counted.append(answers[0])
        self._absent += answers[1:]
        if len(self._counted) > 16:
            self._counted = [self.counted()]
            self._absent = [self._total(self._absent, [GROUP])] if self._absent else []

    @staticmethod
    def _total(tables: "list[pl.DataFrame]", keys: list[str]) -> "pl.DataFrame":
        import polars as pl

        if len(tables) == 1:
            return tables[0]
        return pl.concat(tables).group_by(keys).agg(pl.exclude(keys).sum())


class PresentGroups(QueryFold):
    """The groups with a record in the window, absent steps among them, by their keys."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.keys = grid, list[Any]()

    def queries(self, rows: "pl.LazyFrame") -> "list[pl.LazyFrame]":
        """Return the query for the groups of some rows."""
        return [self.grid.held(rows).select(GROUP).drop_nulls().unique()]

    def take(self, *answers: "pl.DataFrame") -> None:
        """Add the groups of some rows."""
        self.merge(answers[0][GROUP])

    def merge(self, state: Iterable[Any]) -> None:
        """Add the groups of other rows."""
        self.keys = list(dict.fromkeys([*self.keys, *state]))

    def state(self) -> list[Any]:
        """Return the keys."""
        return self.keys


class Pairs:
    """Counts of transitions between states, for each group; both records in the window.

    Rows have the place of their state in `CODE`, null for none. ``size`` is the number of states,
    ``filled`` the place of the state of absent steps, which are then records of the group of the
    row before them. ``tables`` has the counts (size, size) by the key of the group.
    """

    ordered = True

    def __init__(self, grid: Grid, size: int, filled: int | None) -> None:
        self.grid, self.size, self.filled = grid, size, filled
        self.tables: dict[Any, Ints] = {}
        self._last: pl.DataFrame | None = None

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows; those outside the window may be left out where gaps are none."""
        import polars as pl

        if not self.grid.fill:
            rows = self.grid.windowed(rows.lazy()).collect()
        names = [PERSON, GROUP, CODE, *([] if self.grid.time is None else [TIME])]
        rows = rows.select(names)
        rows = rows if self._last is None else pl.concat([self._last, rows])
        self._last = rows[-1:]
        if rows.height > 1:
            self._count(rows)

    def merge(self, state: Iterable[Sequence[Any]]) -> None:
        """Add the pairs of other persons: the keys of groups, each with its table."""
        for key, table in state:
            self.tables[key] = self.tables[key] + table if key in self.tables else table

    def state(self) -> list[list[Any]]:
        """Return the groups and their tables."""
        return [[key, table] for key, table in self.tables.items()]

    def _count(self, rows: "pl.DataFrame") -> None:
        keys = rows[GROUP].unique(maintain_order=True).drop_nulls()
        # (rows,): place of the state, -1 for none; place of the group among keys, -1 for none
        place = rows[CODE].fill_null(-1).to_numpy().astype(np.int64)
        group = _places(rows[GROUP], keys)
        person = rows[PERSON]
        same = (person[1:] == person[:-1]).fill_null(False).to_numpy()  # (rows - 1,)
        absent, seen, inside = self._near(rows)
        before, after = place[:-1], place[1:]
        own, other = group[:-1], group[1:]
        table = np.zeros((len(keys), self.size, self.size), dtype=np.int64)

        def add(wanted: Any, first: Any, second: Any, times: Any = 1) -> None:
            here = wanted & same & (own >= 0) & (first >= 0) & (second >= 0)
            pick = [np.broadcast_to(part, here.shape)[here] for part in (own, first, second, times)]
            np.add.at(table, tuple(pick[:3]), pick[3])

        add((absent == 0) & inside[:-1] & inside[1:] & (own == other), before, after)
        if self.filled is not None:  # absent steps are records, of the group of the row before them
            some, filled = seen > 0, self.filled
            add(some & inside[:-1], before, filled)
            add(some, filled, filled, seen - 1)
            add(some & inside[1:] & (own == other), filled, after)
        self.merge(zip(keys, table, strict=True))

    def _near(self, rows: "pl.DataFrame") -> tuple[Any, Any, Any]:
        """Return how rows follow each other.

        The absent steps between two, how many of them are in the window, (rows - 1,) each, and
        whether a row is in the window, (rows,). Without a step of time, one follows the other.
        """
        grid, none = self.grid, np.zeros(max(rows.height - 1, 0), dtype=np.int64)
        inside = np.ones(rows.height, dtype=bool)
        if grid.time is None:
            return none, none, inside
        time = rows[TIME].fill_null(0).to_numpy()
        inside &= True if grid.start is None else time >= grid.start
        inside &= True if grid.end is None else time < grid.end
        if grid.step is None:
            return none, none, inside
        absent = np.maximum(np.diff(time) // grid.step - 1, 0)

        def before(border: int) -> Any:  # of the absent steps after a row, those before a border
            return np.clip((border - 1 - time[:-1]) // grid.step, 0, absent)

        first = none if grid.start is None else before(grid.start)
        last = absent if grid.end is None else before(grid.end)
        return absent, last - first, inside


class PickedRows:
    """Rows selected by a test: their count, and the first ``shown`` of their numbers.

    ``pick`` takes a lazy frame of rows in order and returns those wanted. It is also given the
    first row of the person at a border and the last row before it, so that it may compare rows
    with the first of their person and with the one before.
    """

    ordered = True

    def __init__(
        self, grid: Grid, pick: "Callable[[pl.LazyFrame], pl.LazyFrame]", shown: int
    ) -> None:
        self.grid, self.pick, self.shown = grid, pick, shown
        self.count, self.rows = 0, list[int]()
        self._kept: pl.DataFrame | None = None

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        import polars as pl

        if not rows.height:
            return
        first = rows[ROW].min()
        both = rows if self._kept is None else pl.concat([self._kept, rows])
        numbers = self.pick(both.lazy()).select(ROW).filter(pl.col(ROW) >= first).collect()[ROW]
        self.merge([numbers.len(), numbers.sort().head(self.shown)])
        # of the last person: the first and the last row with a time in the window; rows without a
        # person may stand between those of one, and are kept beside them where they come last
        ends = []
        named = both[PERSON].drop_nulls()
        if len(named):
            ends.append(self._ends(both.lazy().filter(pl.col(PERSON) == named[-1])))
        if both[PERSON][-1] is None:
            ends.append(self._ends(both.lazy().filter(pl.col(PERSON).is_null())))
        self._kept = pl.concat(ends).sort(ROW)

    def _ends(self, own: "pl.LazyFrame") -> "pl.DataFrame":
        """Return the first and the last row of a person."""
        import polars as pl

        held = (own if self.grid.fill else self.grid.windowed(own)).collect()
        timed = held if self.grid.time is None else held.drop_nulls(TIME)
        return pl.concat([timed[:1], timed[1:][-1:]])

    def merge(self, state: list[Any]) -> None:
        """Add the rows of another fold."""
        self.count += state[0]
        self.rows = sorted([*self.rows, *state[1]])[: self.shown]

    def state(self) -> list[Any]:
        """Return how many there are, and the first of them."""
        return [self.count, self.rows]


def _places(values: "pl.Series", keys: "pl.Series") -> Ints:
    """Return the place of each value among the keys, -1 where it is none of them."""
    import polars as pl

    order = pl.Series(range(len(keys)), dtype=pl.Int64)
    places = values.replace_strict(keys, order, default=-1, return_dtype=pl.Int64)
    return places.to_numpy()


def packed(state: Any) -> bytes:
    """Return a state as bytes: JSON, with arrays and frames in base 64.

    >>> unpacked(packed({"n": [1, None], "table": np.eye(2)}))["table"].shape
    (2, 2)
    """
    return json.dumps(state, default=_written).encode()


def unpacked(sent: bytes) -> Any:
    """Return the state that `packed` made bytes of."""
    return json.loads(sent, object_hook=_read)


def _written(part: Any) -> Any:
    if isinstance(part, np.ndarray):
        held = io.BytesIO()
        np.save(held, part, allow_pickle=False)
        return {"\0array": base64.b64encode(held.getvalue()).decode()}
    if isinstance(part, np.generic):
        return part.item()
    held = io.BytesIO()
    part.write_ipc(held)
    return {"\0frame": base64.b64encode(held.getvalue()).decode()}


def _read(part: dict[str, Any]) -> Any:
    if "\0array" in part:
        return np.load(io.BytesIO(base64.b64decode(part["\0array"])), allow_pickle=False)
    if "\0frame" in part:
        import polars as pl

        return pl.read_ipc(io.BytesIO(base64.b64decode(part["\0frame"])))
    return part


BLOCKS = 64
"""Blocks of lines that would fill the memory: texts take more room in a frame than in a file."""


def pieces(
    data: "Data", *columns: "pl.Expr", also: Sequence[str] = (), words: str = "rows read"
) -> "Iterator[pl.DataFrame]":
    """Yield the frames of `Data.rows`, numbered, of one piece of the table after the other.

    At least one, which is empty where there are no rows. ``also`` names columns that are needed
    beyond those of the data. Reports its progress. A table that need not be read in pieces is one,
    and the only one that is put into order here.
    """
    if data.piece is None:
        yield data.source.collect(data.together(data.rows(*columns, numbered=True)))[0]
        return
    names = list(dict.fromkeys([*data.source.columns, *also]))
    done, total = 0, data.source.rows
    doing(words, done, total)
    for frame in _frames(data, names, data.piece):
        yield rows_of(data, frame, done, *columns)
        done += frame.height
        doing(words, done, total)


def rows_of(data: "Data", frame: "pl.DataFrame", first: int, *columns: "pl.Expr") -> "pl.DataFrame":
    """Return the frame of `Data.rows` of some rows of a table, numbered from ``first`` on."""
    part = data.changed(source=replace(data.source, frame=frame.lazy(), seen=None))
    return part.source.collect(part.rows(*columns, first=first))[0]


def feed(
    data: "Data", folds: Sequence[Fold], *columns: "pl.Expr", words: str = "rows read"
) -> PublicFacts:
    """Feed all rows of data to some folds in one pass, and return the facts about them.

    Raises `InvalidInput` where rows that are read in pieces are not in order of person and time.
    """
    return data.source.feed(data, folds, *columns, words=words)


def feed_whole(data: "Data", folds: Sequence[Fold], *columns: "pl.Expr") -> PublicFacts:
    """Feed the rows of a table that need not be read in pieces; only ordered folds sort it."""
    grid, facts = data.grid, PublicFacts(data.grid)
    rows = data.rows(*columns)
    ordered = data.together(data.rows(*columns, numbered=True))
    if grid.fill:
        rows, ordered = grid.absences(rows), grid.absences(ordered, ordered=True)
    lazy = [fold for fold in folds if isinstance(fold, QueryFold)]
    others = [fold for fold in folds if not isinstance(fold, QueryFold)]
    queries = [fold.queries(rows) for fold in lazy]
    summary, *answers = data.source.collect(
        grid.facts(data.rows()), *chain(*queries), *([ordered] if others else [])
    )
    facts.merge(summary.row(0, named=True))
    frames = iter(answers)
    for fold, own in zip(lazy, queries, strict=True):
        fold.take(*islice(frames, len(own)))
    for frame in frames:
        for other in others:
            other.feed(frame)
    return facts


def feed_in_order(
    data: "Data", folds: Sequence[Fold], *columns: "pl.Expr", words: str = "rows read"
) -> PublicFacts:
    """Feed the rows of a table that this machine reads in pieces, as `feed` does."""
    facts = PublicFacts(data.grid)
    line = Ordered(data.grid, [facts, *folds], most=data.memory // 4)
    for rows in pieces(data, *columns, words=words):
        line.feed(rows)
    line.close()
    return facts


def facts_of(data: "Data") -> tuple[dict[str, Any], list[Any]]:
    """Return the facts about the rows, as of `Grid.summed`, and the keys of the groups that occur.

    One pass for all questions about the same window and groups of a table that is read in pieces:
    its facts are kept with the source.
    """
    if data.piece is None:
        groups = PresentGroups(data.grid)
        folds = [] if data.by is None or data.groups is not None else [groups]
        return feed(data, folds).summary, groups.keys
    question = ("facts", data.piece, data.grid, data.by, data.groups)
    answer: tuple[dict[str, Any], list[Any]] | None = data.source.kept.get(question)
    if answer is None:
        groups = PresentGroups(data.grid)
        answer = feed(data, [groups]).summary, groups.keys
        data.source.kept[question] = answer
    data.source.check_unchanged()
    return answer


def culprit(data: "Data", wrong: str) -> int:
    """Return the number of the first wrong row, in a pass that ends there."""
    fold = PickedRows(data.grid, lambda rows: data.grid.culprits(rows, wrong), 1)
    for rows in pieces(data):
        fold.feed(rows)
        if fold.rows:
            break
    return fold.rows[0]


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
            (rows,) = source.collect(frame.slice(at, size))
            if rows.height or at == 0:
                yield rows
            at, full = at + size, rows.height == size


def _lines(
    source: "Source", path: Path, names: Sequence[str], size: int, block: int
) -> "Iterator[pl.DataFrame]":
    """Yield the rows of a CSV file, which can only be read from its beginning."""
    import polars as pl

    try:
        for lines in blocks(path, path.name.lower(), block):
            frame = read_lines(lines).select(*map(column_of_name, names))
            rows = frame.collect(engine="streaming")
            source.check_unchanged()
            for start in range(0, max(rows.height, 1), size):
                yield rows.slice(start, size)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        source.check_unchanged()  # what seems wrong may be the change
        raise source.unreadable(str(error)) from None
    source.check_unchanged()


def names_and_columns(
    data: "Data", states: tuple[State, ...] | None
) -> "tuple[Sequence[State] | None, list[pl.Expr]]":
    """Return the states that are named or follow from bins; None if values determine them.

    With them: the columns that a row needs for the number of its state, or for its value.
    """
    record = data.record
    names: Sequence[State] | None = states
    if states is None and record.cuts:
        names = range(len(record.cuts) + 1)
    elif states is None and record.mapping:
        names = list(dict.fromkeys(name for _, name in record.mapping if name is not None))
    if data.grid.fill and states is not None and data.gaps not in states:
        raise InvalidInput(f"gaps have the state {data.gaps!r}, which is not among {states}")
    if names is not None:
        return names, [record.positions(names, named=True).alias(CODE)]
    return None, [part.alias(f"\0{plane}") for plane, part in record.planes.items()]


def places_of(rows: "pl.DataFrame") -> Ints:
    """Return the number of each record's state, `MISSING` for none."""
    return _filled(rows[CODE])


def too_many_values() -> InvalidInput:
    """Return the error about records that are measurements."""
    return InvalidInput(
        f"the records have more than {MOST_STATES} different values: measurements, not states; "
        "make states of them with state=..., an expression or cut points"
    )


class Values:
    """Distinct values, and the index of each record's value among them.

    Records are truth values, whole numbers, numbers or texts; fields of a CSV file, which have
    both readings, are numbers if all of them are. Numbers come before texts. A fold: rows have the
    columns of `names_and_columns` and `THERE`, and may come in pieces.
    """

    def __init__(self, data: "Data", most: int | None = None) -> None:
        self.data, self.most = data, most
        self._truths: set[bool] = set()
        # numbers without and with a text beside them, and texts; a text that is no number
        self._numbers: tuple[Ints | Any, Ints | Any] = (np.empty(0), np.empty(0))
        self._texts: set[str] = set()
        self._worded = False

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the values of the next rows."""
        planes, there = self._planes(rows), rows[THERE]
        if list(planes) == [TRUTH]:
            self._truths |= set(planes[TRUTH].filter(there).drop_nulls().unique())
            return
        number, text = self._both(planes, rows.height)
        real = number.filter(there & number.is_finite() & text.is_null()).drop_nulls()
        beside = number.filter(there & number.is_finite() & text.is_not_null()).drop_nulls()
        self._numbers = tuple(  # type: ignore[assignment]
            np.unique(np.concatenate([old, new.unique().to_numpy() + 0.0]))
            for old, new in zip(self._numbers, (real, beside), strict=True)
        )
        self._worded |= bool((there & text.is_not_null() & number.is_null()).any())
        if self.most is None or len(self._texts) <= self.most:
            self._texts |= set(text.filter(there).drop_nulls().unique())
        if self.most is not None and len(self.names()) > self.most:
            raise too_many_values()

    def merge(self, state: list[Any]) -> None:
        """Add the values of other rows."""
        truths, numbers, beside, texts, worded = state
        self._truths |= set(truths)
        self._numbers = np.union1d(self._numbers[0], numbers), np.union1d(self._numbers[1], beside)
        self._texts |= set(texts)
        self._worded |= worded

    def state(self) -> list[Any]:
        """Return the values, by how they are read."""
        return [sorted(self._truths), *self._numbers, sorted(self._texts), self._worded]

    def names(self) -> list[State]:
        """Return the states: the values in order, and that of absent steps."""
        seen: list[State] = [*sorted(self._truths)]
        if not seen:
            plain = (int(n) if float(n).is_integer() else float(n) for n in self._values())
            seen = [*plain, *self._words()]
        if self.data.grid.fill and self.data.gaps not in seen:
            seen.append(self.data.gaps)  # only absent steps are in this state
        return seen

    def codes(self, rows: "pl.DataFrame") -> Ints:
        """Return the place of each record among the names, `MISSING` for none."""
        import polars as pl

        planes, there = self._planes(rows), rows[THERE]
        if list(planes) == [TRUTH]:
            code = pl.select(pl.when(there).then(planes[TRUTH].cast(pl.Int64))).to_series()
            # one value alone is the first of one
            return _filled(code if len(self._truths) > 1 else code * 0)
        number, text = self._both(planes, rows.height)
        numeric = there & number.is_finite() & (text.is_null() | (not self._worded))
        number = pl.select(pl.when(numeric).then(number + 0.0)).to_series()
        values, words = self._values(), self._words()
        codes = np.where(
            number.is_null().to_numpy(),
            MISSING,
            np.searchsorted(values, number.fill_null(0.0).to_numpy()),
        )
        if words:
            ranks = text.cast(pl.Enum(words), strict=False).to_physical().cast(pl.Int64)
            place = _filled(pl.select(pl.when(there).then(ranks)).to_series())
            codes = np.where(place == MISSING, codes, place + values.size)
        return codes.astype(np.int64)

    def _values(self) -> Any:
        return self._numbers[0] if self._worded else np.union1d(*self._numbers)

    def _words(self) -> list[str]:
        return sorted(self._texts) if self._worded else []

    @staticmethod
    def _planes(rows: "pl.DataFrame") -> "dict[str, pl.Series]":
        return {p: rows[f"\0{p}"] for p in (NUMBER, TEXT, TRUTH) if f"\0{p}" in rows.columns}

    @staticmethod
    def _both(planes: "dict[str, pl.Series]", height: int) -> "tuple[pl.Series, pl.Series]":
        """Return the readings as numbers and as texts, null where there are none."""
        import polars as pl

        nothing = pl.Series([None] * height, dtype=pl.Float64)
        text = planes.get(TEXT, nothing.cast(pl.String))
        return planes.get(NUMBER, nothing), text.cast(pl.String)


def _filled(codes: "pl.Series") -> Ints:
    return codes.fill_null(MISSING).to_numpy().astype(np.int64)
