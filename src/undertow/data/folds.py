"""What is kept of rows that come in pieces: facts, counts and pairs, from one pass in order.

A piece is a Polars frame of `Data.rows(*made, numbered)`: the columns `ROW` (the number of the row
in its table), `PERSON`, `GROUP`, `TIME` where there are times, and those that were made (codes,
lattice steps). Pieces may be cut anywhere, also within a person, and may be empty; but the rows of
a person follow each other without those of another between them, and are in order of time.
`Ordered` checks that, counts absent steps where they are records, and feeds every fold.

A fold takes pieces (`feed`), takes over a fold of the same kind that has seen other persons, all
of whose rows it has seen (`merge`), and has a plain `state`, from which `load` makes it again:
numbers, texts, lists, dictionaries, arrays of NumPy and frames of Polars, which `packed` turns
into bytes and `unpacked` back. So a machine of a cluster feeds its partition, sends bytes, and
the driver merges:

    line = Ordered(grid, folds); line.feed(piece) for each; line.close()
    sent = packed([fold.state() for fold in folds])
    for fold, state in zip(folds, unpacked(sent)): fold.merge(fold.load(state))

`load` is called on a fold made with the same arguments, and returns another. States are as private
as the records are.
"""

import base64
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from undertow.data.grid import ABSENT, GROUP, PERSON, ROW, TIME, Grid
from undertow.data.order import Order

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "CODE",
    "TOTAL",
    "CountTable",
    "Fold",
    "Ordered",
    "Pairs",
    "PickedRows",
    "PresentGroups",
    "PublicFacts",
    "packed",
    "unpacked",
]

Ints = npt.NDArray[np.int64]
TOTAL, CODE = "\0n", "\0code"
"""Columns: how many rows a table counts, and the place of a record's state."""


class Fold(Protocol):
    """What is kept of rows in order, whatever the pieces they come in.

    Where absent steps are no records, a fold that is not ``ordered`` may be fed in any order.
    """

    ordered: bool

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""

    def merge(self, other: Any) -> None:
        """Take over what was kept of other persons."""

    def state(self) -> Any:
        """Return what is kept, as `packed` takes it; all rows of each person must have come."""

    def load(self, state: Any) -> Self:
        """Return a fold of the same arguments with a state."""


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
        """Say that all rows have come."""
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
    what the next piece says of the same person. ``told`` is a row of `Grid.summed`.
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
        """Take what is known of the next persons; the first may be the last one before."""
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
            self._add(self._told(part[:-1]))
        self._open = part[-1:] if part.height else self._open

    @property
    def told(self) -> dict[str, Any]:
        """The facts so far; those of the last person are not known before all rows have come."""
        told = self._closed or {}
        for part in (self._open, self._nobody):
            told = told if part is None else self.grid.together(told, self._told(part))
        return told

    def merge(self, other: "PublicFacts") -> None:
        """Take over the facts about other persons."""
        self._add(other.told)

    def state(self) -> dict[str, Any]:
        """Return the facts, by their names: whole numbers, truth values or None."""
        return self.told

    def load(self, state: dict[str, Any]) -> "PublicFacts":
        """Return the fold that has these facts."""
        made = PublicFacts(self.grid)
        made._closed = dict(state)
        return made

    def _told(self, persons: "pl.DataFrame") -> dict[str, Any]:
        return self.grid.summed(persons.lazy()).collect().row(0, named=True)

    def _add(self, told: dict[str, Any]) -> None:
        self._closed = told if self._closed is None else self.grid.together(self._closed, told)


class CountTable:
    """Rows of the window and of some group, counted by ``keys`` (the group first), with sums.

    ``sums`` are expressions that add up over rows, by name. ``counted`` has a row for each of the
    keys that occur: the keys, `TOTAL` and the sums; ``absent`` the absent steps of each group where
    they are records.
    """

    ordered = False

    def __init__(
        self, grid: Grid, keys: Sequence[str], sums: "Mapping[str, pl.Expr] | None" = None
    ) -> None:
        self.grid, self.keys, self.sums = grid, list(keys), dict(sums or {})
        self._counted: list[pl.DataFrame] = []
        self._absent: list[pl.DataFrame] = []

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        import polars as pl

        queries = [self.query(rows.lazy())]
        if self.grid.fill:
            queries.append(self.gaps(rows.lazy()))
        self.take(*pl.collect_all(queries))

    def query(self, rows: "pl.LazyFrame") -> "pl.LazyFrame":
        """Return the query for the counts of some rows."""
        import polars as pl

        parts = [expression.alias(name) for name, expression in self.sums.items()]
        named = self.grid.windowed(rows).drop_nulls(GROUP)
        return named.group_by(self.keys).agg(pl.len().cast(pl.Int64).alias(TOTAL), *parts)

    @staticmethod
    def gaps(rows: "pl.LazyFrame") -> "pl.LazyFrame":
        """Return the query for the absent steps of each group, counted in the rows before them."""
        import polars as pl

        absent = pl.col(ABSENT)
        return rows.drop_nulls(GROUP).group_by(GROUP).agg(absent.sum()).filter(absent > 0)

    def counted(self) -> "pl.DataFrame":
        """Return how many rows there are of each of the keys, and their sums."""
        return self._total(self._counted, self.keys)

    def absent(self) -> dict[Any, int]:
        """Return how many absent steps each group has, for those that have some."""
        if not self._absent:
            return {}
        return dict(self._total(self._absent, [GROUP]).select(GROUP, ABSENT).iter_rows())

    def merge(self, other: "CountTable") -> None:
        """Take over the counts of other rows."""
        self.take(other.counted(), *(other._absent or ()))

    def state(self) -> dict[str, Any]:
        """Return both tables as frames."""
        absent = self._total(self._absent, [GROUP]) if self._absent else None
        return {"counted": self.counted(), "absent": absent}

    def load(self, state: dict[str, Any]) -> "CountTable":
        """Return the fold that has these tables."""
        made = CountTable(self.grid, self.keys, self.sums)
        made.take(*(frame for frame in state.values() if frame is not None))
        return made

    def take(self, counted: "pl.DataFrame", *absent: "pl.DataFrame") -> None:
        """Take the counts of some rows, and their absent steps."""
        # one table, added to from time to time: memory stays that of the keys that occur
        self._counted.append(counted)
        self._absent += absent
        if len(self._counted) > 16:
            self._counted = [self.counted()]
            self._absent = [self._total(self._absent, [GROUP])] if self._absent else []

    @staticmethod
    def _total(tables: "list[pl.DataFrame]", keys: list[str]) -> "pl.DataFrame":
        import polars as pl

        if len(tables) == 1:
            return tables[0]
        return pl.concat(tables).group_by(keys).agg(pl.exclude(keys).sum())


class PresentGroups:
    """The groups with a record in the window, absent steps among them, by their keys."""

    ordered = False

    def __init__(self, grid: Grid) -> None:
        self.grid, self.keys = grid, list[Any]()

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows."""
        found = self.grid.held(rows.lazy()).select(GROUP).drop_nulls().unique().collect()[GROUP]
        self._add(found)

    def merge(self, other: "PresentGroups") -> None:
        """Take over the groups of other rows."""
        self._add(other.keys)

    def state(self) -> list[Any]:
        """Return the keys."""
        return self.keys

    def load(self, state: list[Any]) -> "PresentGroups":
        """Return the fold that has these keys."""
        made = PresentGroups(self.grid)
        made.keys = list(state)
        return made

    def _add(self, keys: Iterable[Any]) -> None:
        self.keys = list(dict.fromkeys([*self.keys, *keys]))


class Pairs:
    """How often each state is followed by each, for each group; both records in the window.

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

    def merge(self, other: "Pairs") -> None:
        """Take over the pairs of other persons."""
        for key, table in other.tables.items():
            self.tables[key] = self.tables[key] + table if key in self.tables else table

    def state(self) -> list[list[Any]]:
        """Return the groups and their tables."""
        return [[key, table] for key, table in self.tables.items()]

    def load(self, state: list[list[Any]]) -> "Pairs":
        """Return the fold that has these tables."""
        made = Pairs(self.grid, self.size, self.filled)
        made.tables = {key: np.asarray(table) for key, table in state}
        return made

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
        for key, part in zip(keys, table, strict=True):
            self.tables[key] = self.tables[key] + part if key in self.tables else part

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
    """Rows that a test picks: how many, and the first ``shown`` of their numbers.

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
        first = int(rows[ROW][0])
        both = rows if self._kept is None else pl.concat([self._kept, rows])
        found = self.pick(both.lazy()).select(ROW).filter(pl.col(ROW) >= first).collect()[ROW]
        self.count += found.len()
        self.rows = sorted([*self.rows, *found.sort().head(self.shown)])[: self.shown]
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

    def merge(self, other: "PickedRows") -> None:
        """Take over what was found among other rows."""
        self.count += other.count
        self.rows = sorted([*self.rows, *other.rows])[: self.shown]

    def state(self) -> list[Any]:
        """Return how many there are, and the first of them."""
        return [self.count, self.rows]

    def load(self, state: list[Any]) -> "PickedRows":
        """Return the fold that has found these."""
        made = PickedRows(self.grid, self.pick, self.shown)
        made.count, made.rows = state
        return made


def _places(values: "pl.Series", keys: "pl.Series") -> Ints:
    """Return the place of each value among the keys, -1 where it is none of them."""
    import polars as pl

    order = pl.Series(range(len(keys)), dtype=pl.Int64)
    found = values.replace_strict(keys, order, default=-1, return_dtype=pl.Int64)
    return found.to_numpy()


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
