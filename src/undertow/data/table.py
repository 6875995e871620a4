"""`Data`: private records in a table, and the queries that it answers.

Public are the shape (how many rows, which persons, times and groups), the names and types of the
columns. Private are the values of the value column and of every column in the state expression:
no error, message or printed form depends on them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from undertow.data.columns import Column, check_fields, iso, kind_of, plain
from undertow.data.expressions import columns_of
from undertow.data.folds import check_whole, facts_of
from undertow.data.grid import (
    FIRST,
    GROUP,
    PERSON,
    ROW,
    THERE,
    TIME,
    Grid,
    Shape,
    declared,
    normalised,
    step_of,
    step_words,
)
from undertow.data.readers.files import DEFAULT, limit_of
from undertow.data.readers.sources import RECORD, Source, open_source
from undertow.data.scopes import Scope
from undertow.data.states import Record, as_json, record_of
from undertow.errors import InvalidInput
from undertow.models.records import RecordDescription
from undertow.numerics import check_flag
from undertow.queries import AnyQuery, State

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.answers import Answers
    from undertow.data.codes import Coded, CodedPieces, Rule
    from undertow.data.problems import Problem
    from undertow.models.base import Model
    from undertow.models.fitting.tally import Encoded, Tally

__all__ = [
    "Data",
    "Shape",
    "check_arguments",
    "first_text",
    "roles_of",
]


def check_arguments(value: Any, person: Any, time: Any, every: Any, by: Any, gaps: Any,
                    groups: Any) -> None:  # fmt: skip
    """Refuse arguments that are no names of columns, or lack their companion."""
    named = {"value": value, "person": person, "time": time, "by": by}
    for name, column in named.items():
        if column is not None and not isinstance(column, str):
            raise InvalidInput(f"{name} must name a column, found a {type(column).__name__}")
    if every is not None and time is None:
        raise InvalidInput("every, the step of time, needs the column of times; say time=...")
    if not isinstance(plain(gaps), str | int | float):
        raise InvalidInput("gaps must be 'split' or the name of a state")
    if gaps != "split" and every is None:
        raise InvalidInput("gaps are found by the step of time; say every='5m', or every=1")
    if groups is None:
        return
    if by is None:
        raise InvalidInput("groups need the column they are found in; say by=...")
    if isinstance(groups, str | bytes | Mapping) or not isinstance(groups, Sequence) or not groups:
        raise InvalidInput("groups must be a list of at least one name")


def roles_of(value: str | None, person: str | None, time: str | None, state: Any,
             by: str | None) -> dict[str, set[str]]:  # fmt: skip
    """Return the columns that are needed, and for what."""
    private = columns_of(state) if isinstance(state, str) else []
    if isinstance(state, str) and not private:
        raise InvalidInput(
            f"the expression {state!r} does not say the state of each record; compare a column "
            "with something, as in 'steps > 0'"
        )
    if person is not None and person == time:
        raise InvalidInput(
            f"column {person!r} cannot be both person and time of a record; name two columns"
        )
    records = [*([] if value is None else [value]), *private]
    for name, role in ((person, "person"), (time, "time"), (by, "by")):
        if name in records:
            part = "value" if name == value else "a column of the state expression"
            raise InvalidInput(
                f"column {name!r} is named twice, as {part} and as {role}: values are private, "
                "persons, times and groups are published as they are; name another column"
            )
    roles: dict[str, set[str]] = {}
    for name in records:
        roles.setdefault(name, set()).add("value")
    for name, role in ((person, "key"), (by, "group"), (time, "time")):
        if name is not None:
            roles.setdefault(name, set()).add(role)
    return roles


def first_text(source: Source, time: str) -> str | None:
    """Return the first text of a column of times; it is public, and says how to read the rest."""
    return source.first_text(time) if source.columns[time].kind in ("csv", "text") else None


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Data:
    """Records of one or many persons in a table: who, when, in which state or with which number.

    ``source`` is a path (``.csv``, ``.csv.gz``, ``.parquet``), a folder of such files or a pattern
    of their names (one table, in their order), a frame of pandas, Polars, Arrow, DuckDB or Spark,
    or a plain list of records. ``value`` names the column of the records, ``person`` whose they
    are (default: one person's), ``time`` when (default: rows are in order).

    ``state`` says what a record is: None, the value itself; an SQL expression of one row, such as
    ``"steps > 0"`` (false and true are the first and second state of the plan); a mapping from
    values to states; or cut points, whose bins are the states in order. Missing and foreign values
    are in no state, and no value can make a release fail.

    ``every`` is the step of time, ``"5m"`` or a whole number. A step without a row is a gap:
    ``gaps="split"`` adds nothing, the name of a state makes absent steps records in that state.
    ``by`` names a column of groups, ``groups`` those wanted; by default all that occur are public.

    ``memory`` is how many bytes a file may take: one that would need more is read in pieces, in
    the order of its rows, which must then be sorted by person and time.

    ``ungrouped=True`` vouches that no more records depend on each other than a model of groups
    says, where no column says whose they are; every report repeats it.

    >>> rows = {"id": ["a", "a", "b"], "t": [0, 1, 0], "steps": [0, 14, None]}
    >>> import polars as pl
    >>> data = Data(pl.DataFrame(rows), value="steps", state="steps > 0", person="id", time="t")
    >>> data.shape().persons, data.sequences()
    (2, [[False, True], [None]])
    """

    source: Source
    record: Record
    grid: Grid
    moment: "pl.Expr | None"
    by: str | None
    groups: tuple[Any, ...] | None
    gaps: State
    value: str | None
    memory: int
    piece: int | None
    ungrouped: bool

    def __init__(
        self,
        source: Any,
        *,
        value: str | None = None,
        person: str | None = None,
        time: str | None = None,
        state: Any = None,
        every: Any = None,
        by: str | None = None,
        gaps: State = "split",
        groups: Sequence[Any] | None = None,
        memory: int | str = DEFAULT,
        ungrouped: Any = False,
    ) -> None:
        """Open the source and check all that follows from names and types; read no records."""
        check_arguments(value, person, time, every, by, gaps, groups)
        if check_flag(ungrouped, "ungrouped") and person is not None:
            raise InvalidInput(
                f"ungrouped=True says that no column tells whose a record is, and person={person!r}"
                " names one; say one of both"
            )
        limit = limit_of(memory)
        value = RECORD if value is None and not isinstance(state, str) else value
        opened = open_source(source, roles_of(value, person, time, state, by))
        grid, moment = Grid(person, None), None
        if time is not None:
            moment, clocked, zoned = opened.columns[time].time(first_text(opened, time))
            clock = not isinstance(every, int | float) if clocked is None else clocked
            step = None if every is None else step_of(every, clock=clock)
            grid = Grid(person, time, clock, zoned, step, fill=gaps != "split")
        names = None if by is None or groups is None else normalised(opened.columns[by], groups)
        record = record_of(state, value, opened.columns)
        piece = opened.pieces(limit)
        fields = (
            opened, record, grid, moment, by, names, plain(gaps), value, limit, piece,
            bool(ungrouped),
        )  # fmt: skip
        for name, content in zip(self.__slots__, fields, strict=True):
            object.__setattr__(self, name, content)
        self._try_out()

    def __repr__(self) -> str:
        """Return what the data is made of, none of it read from the records."""
        grid = self.grid
        parts = [
            f"value={self.value!r}",
            *(f"{name}={part!r}" for name, part in (("person", grid.person), ("time", grid.time),
                                                    ("by", self.by)) if part is not None),
            *([] if self.piece is None else [f"in pieces of {self.piece} rows"]),
        ]  # fmt: skip
        return f"Data({self.source.title}, {', '.join(parts)})"

    def window(self, start: Any = None, end: Any = None) -> "Data":
        """Return the records with start <= time < end; an end left out is open.

        Ends are dates, times or ISO texts (UTC where they name no zone), or whole numbers, like
        the column. Windows of windows are their intersection.

        >>> import polars as pl
        >>> data = Data(pl.DataFrame({"t": [0, 1, 2], "x": [1, 1, 0]}), value="x", time="t")
        >>> data.window(1, 9).shape().rows
        2
        """
        if self.grid.time is None:
            raise InvalidInput("a window needs the column of times; say time=...")
        first = self.grid.bound(start, "the start")
        last = self.grid.bound(end, "the end")
        if first is not None and last is not None and first >= last:
            raise InvalidInput("the start of a window must be before its end")
        starts = [s for s in (self.grid.start, first) if s is not None]
        ends = [e for e in (self.grid.end, last) if e is not None]
        grid = replace(self.grid, start=max(starts, default=None), end=min(ends, default=None))
        if grid.start is not None and grid.end is not None and grid.start >= grid.end:
            raise InvalidInput("the window has nothing in common with the one it is taken of")
        return self.changed(grid=grid)

    def scope(self) -> Scope:
        """Return which records a release of this data touches, for the ledger.

        >>> import polars as pl
        >>> data = Data(pl.DataFrame({"t": [0, 1], "x": [1, 0]}), value="x", time="t")
        >>> data.window(0, 1).scope()
        Scope(by=None, groups=None, start=0, end=1, clock='t')
        """
        return Scope(*self.touched())

    def touched(self) -> tuple[Any, ...]:
        """Return the fields of the scope as they were named: by, groups, start, end, clock.

        Times are microseconds since 1970 in UTC, or whole numbers; the clock says which of them,
        and of which column.
        """
        grid = self.grid
        if grid.time is None:
            return self.by, self.groups, None, None, "time"
        clock = f"microseconds of {grid.time}" if grid.clock else grid.time
        clock = f"{clock} in UTC" if grid.zoned else clock  # another moment where it is not
        return self.by, self.groups, grid.start, grid.end, clock

    def bounds(self) -> tuple[int | str | None, int | str | None] | None:
        """Return both ends of the window as people write them, None where all times are in it.

        >>> import polars as pl
        >>> data = Data(pl.DataFrame({"t": [0, 1], "x": [1, 0]}), value="x", time="t")
        >>> data.bounds(), data.window(1).bounds()
        (None, (1, None))
        """
        grid = self.grid
        ends = (self._shown(grid.start), self._shown(grid.end))
        return None if grid.start is None and grid.end is None else ends

    def reading(self) -> dict[str, Any]:
        """Return what is read, as JSON: the source's name and what a record is; nothing of values.

        A file is named without its folder. Times, steps and cut points are written in one way.

        >>> Data([0, 3, 7], state=[1, 5]).reading()["state"]
        [1.0, 5.0]
        """
        grid = self.grid
        return {
            "source": self.source.named,
            "value": self.value,
            "state": self.record.reading(),
            "person": grid.person,
            "time": grid.time,
            "every": None if grid.step is None else step_words(grid.step, clock=grid.clock),
            "gaps": as_json(self.gaps),
            "by": self.by,
            **({"ungrouped": True} if self.ungrouped else {}),
        }

    def described(self) -> "RecordDescription | None":
        """Return what a record is here: its step, how its state is made, whose series it is in.

        None for a plain list, which takes the word of a model. Compared with `Model.records`
        before anything is spent; of values, only the declared type of their column is known.

        >>> Data([0, 3, 7], state="record > 0").described().state.expression
        'value > 0'
        """
        from undertow.data.records import described

        return described(self)

    def fitted(self) -> "RecordDescription":
        """Return what a model says of its records that is fitted to these: and which they are."""
        from undertow.data.records import source_of, steps_of

        description = self.described()
        if description is None or self.source.listed:
            return description or RecordDescription()
        return replace(description, source=source_of(self), apart=steps_of(self))

    def identity(self) -> str | None:
        """Return a hash of the public shape of the whole table, None without persons and times.

        All times and groups count, whatever the window and the groups; values do not.
        Two files with the same rows have the same. One pass, linear in the rows.
        """
        grid = self.grid
        if grid.person is None and grid.time is None:
            return None
        facts, _ = facts_of(self)
        own = {name: getattr(grid, name) for name in ("person", "time", "clock")}
        names = ("rows", "persons", "longest", "start", "end")
        public = {**own, **{n: facts.get(f"all_{n}") for n in names}, "zoned": bool(grid.zoned)}
        text = json.dumps(public, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def shape(self) -> Shape:
        """Return the public facts, or raise `InvalidInput` if the shape is not what was declared.

        Refused are rows without a person or a time, two rows of a person at one time, and times
        off the grid; the message names column and row, counting from 0. One pass over persons and
        times, linear in the rows; gap filling sorts.
        """
        summary, keys = facts_of(self)
        facts = self.checked(summary)
        start, end = (self._shown(moment) for moment in (facts.start, facts.end))
        names, _ = self.group_order(keys)
        return replace(facts, start=start, end=end, groups=names)

    def check_types(self, states: Sequence[State]) -> None:
        """Refuse records that can be in none of these states, by their declared type alone.

        A CSV column has no type. Where states are truth values, name which of its fields
        are true.

        >>> Data([0, 3, 7], state="record > 0").check_types(("inactive", "active"))
        """
        if not states:
            return
        self.record.positions(states, named=True)
        raw = self.value is not None and self.record.reading() is None
        if raw and self.source.columns[self.value or ""].kind == "csv":
            check_fields(states, f"column {self.value!r}")

    def answers(
        self, query: AnyQuery, states: Sequence[State] = (), missing: State = "any"
    ) -> "Answers":
        """Return the exact answer of a query in whole numbers, one list per group.

        Counts and histograms count records; sums, means and linear statistics count steps of the
        query's lattice. ``states`` are those of the plan's model, in order: a record is then its
        state, and adds the number of it. ``missing`` says what missing and foreign records are:
        ``"any"`` (in no state; in a sum the number nearest to 0), ``"none"`` (the first state), or
        a state. Never raises because of a value. One pass, linear in the rows.

        >>> from undertow.queries import Count
        >>> data = Data([0, 3, None, "x", 7], state="record > 0")
        >>> data.answers(Count("active"), ("inactive", "active")).numbers
        [[2]]
        """
        from undertow.data.answers import evaluate

        return evaluate(self, query, tuple(states), missing)

    def coded(self, rule: "Rule") -> "Coded | CodedPieces":
        """Return the records as numbers of states, to be put back into the form of the table."""
        from undertow.data.codes import coded_table

        return coded_table(self, rule)

    def sequences(self, states: Sequence[State] | None = None) -> list[list[Any]]:
        """Return the records of each person in order of time, split at gaps; None where missing.

        With ``states`` records become the names of their states, and foreign ones None. Without,
        they are what the column or the expression gives. What a model learns from them is a
        disclosure: `MarkovChain.fit` says so.
        """
        from undertow.data.series import sequences

        return sequences(self, None if states is None else tuple(states))

    def encoded(self, states: Sequence[State] | None = None) -> "Encoded":
        """Return the records as numbers of states, with persons, series and hours: for a fit.

        Foreign records are missing ones. Raises `InvalidInput` where a person is in two groups of
        ``by``, and where no time is named and rows do not follow a column that looks like one.
        Linear in the rows but for their sorting.
        """
        from undertow.data.series import encoded

        records = encoded(self, None if states is None else tuple(states))
        return replace(records, described=self.fitted())

    def tally(self, states: Sequence[State] | None = None) -> "Tally":
        """Return what a fit keeps of the records: counts, and nothing of a record by itself.

        Reads and refuses as `encoded`; a table that is read in pieces is never in memory.
        """
        from undertow.data.series import tallied

        counts = tallied(self, None if states is None else tuple(states))
        return replace(counts, described=self.fitted())

    def cohorts(self) -> "dict[Any, Data]":
        """Return the records of each group of persons apart, by the name of the group.

        >>> import polars as pl
        >>> rows = {"id": [1, 1, 2, 2], "arm": ["a", "a", "b", "b"], "x": [0, 1, 1, 1]}
        >>> data = Data(pl.DataFrame(rows), value="x", person="id", by="arm")
        >>> {name: part.sequences() for name, part in data.cohorts().items()}
        {'a': [[0, 1]], 'b': [[1, 1]]}
        """
        if self.by is None:
            raise InvalidInput("cohorts are groups of persons; name their column with by=...")
        column = self.source.columns[self.by]
        names = self.shape().groups or ()
        return {name: self.changed(groups=normalised(column, [name])) for name in names}

    def problems(
        self,
        query: AnyQuery | None = None,
        states: Sequence[State] = (),
        model: "Model | None" = None,
    ) -> "list[Problem]":
        """Return what a curator may want to look at, by column and row; never a value.

        With the plan's ``model``, also whether records are of the kind that it is about, those
        that it was fitted to, and whether a pedigree's allele is as frequent as it says.
        Depends on the records: for the curator's eyes, not for publication.
        """
        from undertow.data.problems import problems

        own = problems(self, query, tuple(states))
        if model is None:
            return own
        from undertow.data.genotypes import frequency_problems
        from undertow.data.problems import record_problems

        return [*record_problems(self, model), *own, *frequency_problems(self, model)]

    # --- the frame of rows, for the modules that ask the questions

    def rows(
        self, *expressions: "pl.Expr", numbered: bool = False, first: int | None = None
    ) -> "pl.LazyFrame":
        """Return person, time, group and what is made of each row, for all times.

        Rows are numbered from 0 on with ``numbered``, or from the number ``first`` on.
        """
        import polars as pl

        columns, grid, frame = self.source.columns, self.grid, self.source.frame
        numbered = numbered or first is not None
        frame = frame.with_row_index(ROW) if numbered else frame
        if first is not None:
            frame = frame.with_columns(pl.col(ROW).cast(pl.Int64) + first)
        frame = self.record.added(frame) if expressions else frame
        person = pl.lit(0) if grid.person is None else columns[grid.person].key()
        parts = [person.alias(PERSON), self._group().alias(GROUP), *expressions]
        if self.moment is not None:
            parts.append(self.moment.alias(TIME))
        names = [ROW] if numbered else []
        names += [part.meta.output_name() for part in parts]
        return frame.with_columns(parts).select(names)

    def in_order(self, *columns: "pl.Expr", grouped: bool = False) -> "tuple[Shape, pl.DataFrame]":
        """Return the checked facts, and the rows of each person in order of time.

        Persons come in the order of their first rows. Rows outside the window are left out unless
        absent steps count, rows in no group only if ``grouped``.
        """
        check_whole(self, "putting records in order")
        rows = self.rows(*columns, self.record.there.alias(THERE), numbered=True)
        rows = rows if self.grid.fill else self.grid.windowed(rows)
        rows = rows.drop_nulls(GROUP) if grouped else rows
        facts, ordered = self.source.collect(self.grid.facts(self.rows()), self.together(rows))
        return self.checked(facts.row(0, named=True)), ordered

    def together(self, rows: "pl.LazyFrame") -> "pl.LazyFrame":
        """Return numbered rows with those of each person together, in order of time."""
        import polars as pl

        first = pl.col(ROW).min().over(PERSON).alias(FIRST)
        return rows.with_columns(first).sort(
            FIRST, *([] if self.grid.time is None else [TIME]), ROW
        )

    def checked(self, summary: dict[str, Any]) -> Shape:
        """Return the facts that a query found, or raise an error that names the first bad row."""
        facts, wrong = self.grid.shape_in(summary)
        if wrong is None:
            return facts
        raise self.source.refusal(self, wrong)

    def group_order(self, keys: Iterable[Any]) -> tuple[tuple[Any, ...] | None, dict[Any, int]]:
        """Return the names of the groups (None without), and the place of each key among them."""
        if self.by is None:
            return None, {0: 0}
        if self.groups is not None:
            return self.groups, {place: place for place in range(len(self.groups))}
        column = self.source.columns[self.by]
        labels = {key: column.label(key) for key in keys}
        ordered = sorted(labels, key=lambda key: (isinstance(labels[key], str), labels[key]))
        return tuple(labels[key] for key in ordered), {k: n for n, k in enumerate(ordered)}

    def others(self) -> list[tuple[str, Column]]:
        """Return the columns of the table that have no part in the data, by name."""
        if self.source.listed:
            return []
        csv, schema = ".csv" in self.source.file, self.source.frame.collect_schema()
        return [
            (name, Column(name, "csv") if csv else kind_of(name, dtype))
            for name, dtype in schema.items()
            if name not in self.source.columns and "\0" not in name
        ]

    def timed(self, name: str) -> "tuple[pl.Expr, bool | None]":
        """Return another column read as times, and whether on a clock; refuse one of none."""
        column = dict(self.others())[name]
        held = replace(self.source, columns={**self.source.columns, name: column})
        moment, clock, _ = column.time(first_text(held, name))
        return moment, clock

    def _group(self) -> "pl.Expr":
        """Return the group of a row: its key, or its place among those declared."""
        import polars as pl

        if self.by is None:
            return pl.lit(0)
        column = self.source.columns[self.by]
        return column.group() if self.groups is None else declared(column, self.groups)

    def _shown(self, moment: int | str | None) -> int | str | None:
        if moment is None or isinstance(moment, str) or not self.grid.clock:
            return moment
        day = self.source.columns[self.grid.time or ""].day
        return iso(moment, day=day, zoned=bool(self.grid.zoned))

    def changed(self, **changes: Any) -> "Data":
        """Return the same data but for some fields."""
        data = object.__new__(Data)
        for name in self.__slots__:
            object.__setattr__(data, name, changes.get(name, getattr(self, name)))
        return data

    def _try_out(self) -> None:
        """Run all expressions on no rows: what fails here, fails by its form."""
        import polars as pl

        empty = pl.LazyFrame(schema=self.source.frame.collect_schema())
        columns = [part.alias(f"\0{name}") for name, part in self.record.planes.items()]
        there = self.record.there.alias(THERE)
        try:
            trial = self.changed(source=replace(self.source, frame=empty))
            trial.rows(*columns, there).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            raise InvalidInput(
                f"{self.record.words} cannot be evaluated on columns of these types"
            ) from None
