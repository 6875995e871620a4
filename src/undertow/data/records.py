"""The description of a table's records, compared with that of a model.

Everything here is a public fact: what was named when the table was opened, the declared types of
columns, persons and times. Every reader of records under a plan calls `check_records` before
anything is spent.
"""

import datetime as dt
import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.data.columns import column_of_name
from undertow.data.expressions import normalised
from undertow.data.folds import pieces
from undertow.data.grid import GROUP, PERSON, TIME, step_words
from undertow.data.table import Data
from undertow.errors import InvalidInput, RecordsDiffer, SameRecords, UndertowError
from undertow.models.fitting.checks import SAME_RECORDS
from undertow.models.records import (
    MOST_PERSONS,
    RecordDescription,
    RecordSource,
    Seen,
    StateRule,
    microseconds,
)

if TYPE_CHECKING:
    import polars as pl

    from undertow.models.base import Model
    from undertow.plan import Plan

__all__ = [
    "check_account",
    "check_kind",
    "check_order",
    "check_records",
    "described",
    "differences",
    "source_of",
    "spread",
    "steps_of",
    "unnamed_spreads",
]


_DAY = 86_400_000_000
_FEWEST = 4
"""Rows below which numbers in equal steps are a coincidence."""
_SERIES = "\0series"


@dataclass(frozen=True, slots=True)
class _Clock:
    """An unnamed column read as times: on a clock, or whole numbers."""

    name: str
    moment: "pl.Expr"
    clock: bool


def check_order(data: "Data") -> None:
    """Refuse rows that are not in the order of an unnamed time, or of several unnamed persons.

    Asked where no time is named. One pass over the column for each that could be a time.
    """
    if data.grid.time is not None or data.source.spread:
        return
    texts: list[str] | None = None
    for clock in _clocks(data):
        order = _Order(clock)
        for rows in pieces(data, clock.moment.alias(TIME), also=[clock.name]):
            order.feed(rows)
        if order.none or not order.rows:
            continue
        if order.goes_back():
            raise _shuffled(clock.name)
        if data.grid.person is not None or order.rises:
            continue
        if data.piece is None:  # rows of one text need not follow each other
            texts = _texts(data) if texts is None else texts
            for name in texts:
                if _along(data, clock, name):
                    raise _several(clock.name, name)
        if order.repeats():
            raise _several(clock.name, None)


def unnamed_spreads(data: "Data") -> dict[str, tuple[int, int]]:
    """Return the least and the largest step by each unnamed column of dates or times that rises.

    Where no time is named; in microseconds, between neighbouring rows of a person.

    >>> import polars as pl
    >>> from undertow.data.table import Data
    >>> days = [dt.date(2024, 1, day) for day in (1, 2, 4)]
    >>> spreads = unnamed_spreads(Data(pl.DataFrame({"day": days, "x": [0, 1, 0]}), value="x"))
    >>> {name: (least // _DAY, most // _DAY) for name, (least, most) in spreads.items()}
    {'day': (1, 2)}
    """
    if data.grid.time is not None or data.source.spread:
        return {}
    spreads: dict[str, tuple[int, int]] = {}
    for clock in _clocks(data):
        if clock.clock:
            rows = pieces(data, clock.moment.alias(TIME), also=[clock.name])
            ends = _ends((part.select(PERSON, TIME) for part in rows), complete=True)
            spreads |= {clock.name: ends} if ends is not None and ends[0] > 0 else {}
    return spreads


def _ends(frames: "Iterable[pl.DataFrame]", *, complete: bool = False) -> tuple[int, int] | None:
    """Return the least and the largest step between neighbouring rows of a person, if there are.

    ``complete``: None, too, if a row has no time.
    """
    import polars as pl

    step = (pl.col(TIME) - pl.col(TIME).shift(1)).filter(pl.col(PERSON) == pl.col(PERSON).shift(1))
    ends = step.min().alias("least"), step.max().alias("most")
    ranges: list[tuple[int, int]] = []
    last: pl.DataFrame | None = None
    for rows in frames:
        if complete and rows[TIME].null_count():
            return None
        both = rows if last is None else pl.concat([last, rows])
        last = both[-1:]
        least, most = both.select(ends).row(0)
        ranges += [] if least is None else [(least, most)]
    return (min(one for one, _ in ranges), max(one for _, one in ranges)) if ranges else None


def _clocks(data: "Data") -> Iterator[_Clock]:
    """Yield the columns that nobody named, and that hold dates, times or whole numbers."""
    for name, kind in _others(data):
        if kind in ("text", "csv") and not _reads_as_time(data.source.first_text(name)):
            continue
        if kind in ("time", "text", "csv", "whole"):
            moment, clock = data.timed(name)
            if clock is not None:
                yield _Clock(name, moment, clock)


def _texts(data: "Data") -> list[str]:
    """Return the columns of texts that nobody named, and that are no numbers or times."""
    return [
        name
        for name, kind in _others(data)
        if kind in ("text", "csv") and not _reads_otherwise(data.source.first_text(name))
    ]


def _reads_as_time(text: str | None) -> bool:
    """Return whether a text is an ISO time or a whole number."""
    text = (text or "").strip()
    try:
        return text.lstrip("+-").isdecimal() or bool(dt.datetime.fromisoformat(text))
    except ValueError:
        return False


def _reads_otherwise(text: str | None) -> bool:
    """Return whether a text is a time, a number, or none at all."""
    try:
        float(text or "0")
    except ValueError:
        return _reads_as_time(text)
    return True


def _others(data: "Data") -> Iterator[tuple[str, str]]:
    """Yield the columns that have no part in the data, with their kinds."""
    for name, column in data.others():
        yield name, "whole" if column.kind == "number" and column.whole else column.kind


class _Order:
    """A fold of rows: how the times of an unnamed column follow each other for each person."""

    def __init__(self, clock: _Clock) -> None:
        self.clock, self.rows = clock, 0
        self.none = self.back = self.same = self.within = False
        self._ends: dict[object, tuple[int, int, int, int, int]] = {}
        self._last: pl.DataFrame | None = None

    @property
    def rises(self) -> bool:
        """Whether the times rise strictly from row to row."""
        return not self.back and not self.same

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the next rows; those of a person follow each other if they come in pieces."""
        import polars as pl

        held = rows.select(PERSON, TIME)
        self.none |= bool(held[TIME].null_count())
        if self.none or not held.height:
            return
        self.rows += held.height
        both = held if self._last is None else pl.concat([self._last, held])
        self._last = held[-1:]
        step = pl.col(TIME).diff().over(PERSON)
        back, same, within = both.select(
            (step < 0).any().alias("back"),
            (step == 0).any().alias("same"),
            (pl.col(TIME) % _DAY != 0).any().alias("within"),
        ).row(0)
        self.back, self.same = self.back or bool(back), self.same or bool(same)
        self.within = self.within or bool(within)
        if self.clock.clock:
            return
        parts = held.group_by(PERSON).agg(
            pl.len().cast(pl.Int64).alias("rows"),
            pl.col(TIME).n_unique().cast(pl.Int64).alias("different"),
            pl.col(TIME).min().alias("least"),
            pl.col(TIME).max().alias("most"),
            (pl.col(TIME) - pl.col(TIME).first()).cast(pl.Int64).alias("steps").implode(),
        )
        for person, count, different, least, most, steps in parts.rows():
            gcd = math.gcd(*(abs(one) for one in steps))
            kept = self._ends.get(person)
            if kept is not None:
                gcd = math.gcd(gcd, kept[4], abs(least - kept[2]))
                count, different = count + kept[0], different + kept[1]
                least, most = min(least, kept[2]), max(most, kept[3])
            self._ends[person] = (count, different, least, most, gcd)

    def goes_back(self) -> bool:
        """Return whether the rows are not in the order of the column."""
        return self.back and (self.clock.clock or self._is_clock())

    def repeats(self) -> bool:
        """Return whether two neighbours have one time of day."""
        return self.same and self.clock.clock and self.within

    def _is_clock(self) -> bool:
        """Return whether each person's numbers are one of each in equal steps."""
        steps = {
            gcd
            for count, different, least, most, gcd in self._ends.values()
            if count > 1 and (different != count or not gcd or most - least != gcd * (count - 1))
        }
        sizes = {gcd for count, _, _, _, gcd in self._ends.values() if count > 1}
        return not steps and len(sizes) == 1 and self.rows >= _FEWEST


def _along(data: "Data", clock: _Clock, name: str) -> bool:
    """Return whether times rise within each value of a text, of which there are several."""
    import polars as pl

    text = column_of_name(name).cast(pl.String).alias(_SERIES)
    rows = data.rows(clock.moment.alias(TIME), text).select(_SERIES, TIME)
    parts = rows.group_by(_SERIES).agg(
        pl.len().alias("rows"),
        pl.col(TIME).diff().min().alias("least"),
        pl.col(TIME).diff().max().alias("most"),
    )
    summaries = pl.col("rows").min(), pl.col("least").min(), pl.col("most").max(), pl.len()
    (summary,) = data.source.collect(
        parts.select(*(p.alias(str(k)) for k, p in enumerate(summaries)))
    )
    fewest, least, most, several = summary.row(0)
    if several < 2 or fewest < 2 or least <= 0:
        return False
    return clock.clock or bool(least == most)


def _shuffled(name: str) -> InvalidInput:
    """Return the error about rows that do not follow a column that looks like their time."""
    return InvalidInput(
        f"the rows are not in the order of column {name!r}, and neighbours in a table count as "
        f"neighbours in time; say time={name!r}, and person=... if the rows are those of several "
        "persons, or leave that column out of the table"
    )


def _several(name: str, person: str | None) -> InvalidInput:
    """Return the error about rows of several persons of whom none was named."""
    seen = "of which two have one time" if person is None else f"one for each {person!r}"
    whom = "..." if person is None else repr(person)
    return InvalidInput(
        f"the rows look like several series by column {name!r}, {seen}, and without person=... "
        f"all count as one person's; say person={whom} and time={name!r}, or leave that column "
        "out of the table"
    )


_TYPES = {"number": "number", "text": "text", "truth": "truth value"}
"""Declared types of columns; a CSV file and Python objects declare none."""

_UNITS = (("week", 7 * 86_400_000_000), ("day", 86_400_000_000), ("hour", 3_600_000_000),
          ("minute", 60_000_000), ("second", 1_000_000), ("millisecond", 1000),
          ("microsecond", 1))  # fmt: skip
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
           "eleven", "twelve")  # fmt: skip


def described(data: "Data") -> RecordDescription | None:
    """Return what a record of a table is; None for a plain list, which takes the model's word.

    >>> import polars as pl
    >>> from undertow.data.table import Data
    >>> table = pl.DataFrame({"id": ["a", "a"], "t": [0, 1], "steps": [0, 14]})
    >>> str(described(Data(table, value="steps", state="steps>0", person="id", time="t", every=1)))
    'one record every 1, a state by value > 0, of a number, series of a person'
    """
    record, grid = data.record, data.grid
    plain = record.text is None and not record.cuts and not record.mapping
    if data.source.listed and plain:
        return None
    column = None if data.value is None else data.source.columns[data.value]
    if column is None and len(data.source.columns) - _public(data) == 1:
        column = next(c for name, c in data.source.columns.items() if name not in _roles(data))
    rule = StateRule(
        expression=None if record.text is None else _shown(normalised(record.text, data.value)),
        cuts=record.cuts,
        mapping=record.mapping,
        type=None if column is None else _TYPES.get(column.kind),
        column=None if column is None or data.source.listed else _shown(column.name),
    )
    every = None if grid.step is None else step_words(grid.step, clock=grid.clock)
    return RecordDescription(every, rule, None if grid.person is None else "person")


def _shown(text: str) -> str:
    """Return a text without control characters, which no file holds and no terminal shows."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _roles(data: "Data") -> set[str | None]:
    return {data.grid.person, data.grid.time, data.by}


def _public(data: "Data") -> int:
    return len(_roles(data) & set(data.source.columns))


def spread(data: "Data") -> tuple[int, int] | None:
    """Return the least and the largest step between neighbouring rows of a person, which is public.

    None without times, without neighbours, and for a table that a cluster holds.

    >>> import polars as pl
    >>> from undertow.data.table import Data
    >>> spread(Data(pl.DataFrame({"t": [0, 7, 54], "x": [0, 1, 0]}), value="x", time="t"))
    (7, 47)
    """
    if data.grid.time is None or data.source.spread:
        return None
    windowed = (data.grid.windowed(part.lazy()) for part in pieces(data))
    return _ends(rows.select(PERSON, TIME).collect() for rows in windowed)


def steps_of(data: "Data") -> tuple[str | int, str | int] | None:
    """Return the least and the largest step between rows where no step was named, None else."""
    ends = spread(data) if data.grid.step is None else None
    if ends is None or ends[0] <= 0:
        return None
    return step_words(ends[0], clock=data.grid.clock), step_words(ends[1], clock=data.grid.clock)


def source_of(data: "Data") -> RecordSource:
    """Return which records a table holds, by public facts: files, persons and their times.

    Files by where they are, persons by digests of their names. No value has a part in it, so that
    neighbouring tables have the same source. One pass over persons and times; of a table that a
    cluster holds they are not known.
    """
    import polars as pl

    files = tuple(digest for path in data.source.paths for digest in _file_digests(path))
    grid = data.grid
    if (grid.person is None and grid.time is None) or data.source.spread:
        return RecordSource(files)
    # the least of a constant is none of what polars before 1.35 aggregates
    unknown = pl.lit(None, dtype=pl.Int64)
    least, most = (
        (unknown, unknown) if grid.time is None else (pl.col(TIME).min(), pl.col(TIME).max())
    )
    ends = least.alias("first"), most.alias("last")
    column = PERSON if data.by is None else GROUP  # of whom there are records in this data
    parts = [
        grid.windowed(rows.lazy()).drop_nulls(column).group_by(PERSON).agg(*ends).collect()
        for rows in pieces(data)
    ]
    merged = pl.col("first").min(), pl.col("last").max()
    persons = pl.concat(parts).group_by(PERSON).agg(*merged)
    clock = None if grid.time is None else "microseconds" if grid.clock else "numbers"
    start, end = persons.select(pl.col("first").min(), pl.col("last").max()).row(0)
    if grid.person is None:
        return RecordSource(files, (), 0, clock, start, end)
    names = data.source.columns[grid.person].persons(persons[PERSON].to_list())
    digests = map(_digest, names)
    listed = sorted(
        zip(digests, persons["first"].to_list(), persons["last"].to_list(), strict=True)
    )
    return RecordSource(files, tuple(listed[:MOST_PERSONS]), len(listed), clock, start, end)


def _file_digests(path: Path) -> Iterator[str]:
    """Yield digests of where a file is: of its path, and of its place on the device."""
    yield _digest(f"path {path.resolve()}")
    try:
        status = path.stat()
    except OSError:
        return
    yield _digest(f"place {status.st_dev} {status.st_ino} {status.st_mtime_ns}")


def _digest(name: Any) -> str:
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    return hashlib.blake2b(str(name).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def differences(model: "Model", data: "Data") -> list[tuple[str, str, str]]:
    """Return in what the records of a table are not those of a model: what, the model's, these."""
    theirs, own = model.records, described(data)
    if own is None:
        return []
    pairs = []
    if theirs.every is not None:
        step = _other_step(theirs.every, own.every, data)
        pairs += [] if step is None else [("the step", f"every {theirs.every}", step)]
    elif (
        theirs.apart is not None and theirs.apart[0] == theirs.apart[1]
    ):  # nobody named it: rows say it
        step = _other_step(theirs.apart[0], own.every, data, equal=True)
        pairs += [] if step is None else [("the step", f"rows {theirs.apart[0]} apart", step)]
    if theirs.state is not None and own.state is not None and not theirs.state.same(own.state):
        pairs.append(("the states", str(theirs.state), str(own.state)))
    truths = bool(model.states) and all(isinstance(state, bool) for state in model.states)
    if theirs.state is None and own.state is not None and truths and _bare_number(own.state):
        states = " and ".join(map(str, model.states))
        pairs.append(("the states", states, f"numbers of column {own.state.column!r}"))
    if theirs.unit is not None and own.unit is None:
        pairs.append(("the series", f"of a {theirs.unit} each", "no column says whose"))
    return pairs


def _bare_number(rule: StateRule) -> bool:
    """Tell whether a record is the number of a column as it stands."""
    return rule.same(StateRule(type="number")) and rule.type == "number"


def _other_step(
    step: str | int, own: str | int | None, data: "Data", *, equal: bool = False
) -> str | None:
    """Return the step of a table in words if it differs from the stated one.

    ``equal``: nobody has named a step, and only rows in equal steps are certainly others.
    """
    if own is not None:
        return None if own == step else f"every {own}"
    ends = spread(data)
    if ends is None:
        return _unnamed_step(step, data, equal=equal)
    if equal and ends[0] != ends[1]:
        return None
    if {step_words(end, clock=data.grid.clock) for end in ends} == {step}:
        return None
    return f"rows {_apart(ends, clock=data.grid.clock)}, no step named"


def _unnamed_step(step: str | int, data: "Data", *, equal: bool) -> str | None:
    """Return the step by an unnamed column of times, if none has the stated step."""
    if not isinstance(step, str):
        return None
    clocks = unnamed_spreads(data)
    if equal:
        clocks = {name: ends for name, ends in clocks.items() if ends[0] == ends[1]}
    if not clocks or any(
        {step_words(e, clock=True) for e in ends} == {step} for ends in clocks.values()
    ):
        return None
    name, ends = next(iter(clocks.items()))
    return (
        f"rows {_apart(ends, clock=True)} by column {_shown(name)!r}, which time=... did not name"
    )


def check_kind(model: "Model", data: Any) -> None:
    """Refuse a table whose records are of another kind than those of the model."""
    if not isinstance(data, Data):
        return
    pairs = differences(model, data)
    if pairs:
        raise RecordsDiffer(pairs, _advice(model, data))


def _advice(model: "Model", data: "Data") -> str:
    read, own = "read them as the model's records were read", described(data)
    nth = None if own is None else _multiple(model.records.every, own.every)
    if nth is not None and nth > 1 and _thins(model, nth):
        return f"{read}, or plan for the model at these steps: model.every_nth({nth})"
    return f"{read}, or fit a model to records of this kind"


def _thins(model: "Model", nth: int) -> bool:
    """Tell whether every nth record follows a model of the same kind."""
    try:
        model.every_nth(nth)
    except UndertowError:
        return False
    return True


def _multiple(fine: str | int | None, coarse: str | int | None) -> int | None:
    """Return how many steps of a model one step of a table is, None where it is no multiple."""
    if isinstance(fine, str) is not isinstance(coarse, str):
        return None
    one = microseconds(fine) if isinstance(fine, str) else fine
    many = microseconds(coarse) if isinstance(coarse, str) else coarse
    return many // one if one and many and many % one == 0 else None


def check_records(plan: "Plan[Any]", table: Any) -> tuple[str, ...]:
    """Refuse records that a plan is not about; return what the table or the model did not say.

    Refused are records of another kind than the model's, and those that the model was fitted to
    unless the plan accepts them. The clauses belong into the first sentence of what is released.
    """
    clauses: list[str] = []
    is_table = isinstance(table, Data)
    if is_table:
        check_kind(plan.model, table)
        if _ordered(plan.model):
            check_order(table)
        clauses += _unsaid(plan.model, table)
    return (*clauses, *_overlap(plan, table if is_table else None))


def _ordered(model: "Model") -> bool:
    """Return whether a record depends on those before it, so that the order of rows matters."""
    return any(member.reach() for member in model.members())


def _unsaid(model: "Model", data: "Data") -> Iterator[str]:
    """Yield what the model leaves open about its records, and how this table reads them."""
    theirs, own = model.records, described(data)
    if own is None:
        return
    steps = None if theirs.apart is None else {*theirs.apart}
    silent = "the model does not say"
    if theirs.every is None and _ordered(model) and not _as_fitted(steps, data):
        fitted = silent
        if theirs.apart is not None:
            fitted = f"{theirs.apart[0]} to {theirs.apart[1]} where the model was fitted"
        yield f"one record = one row, {_step(data)} ({fitted})"
    unnamed = theirs.every is not None and own.every is None and not unnamed_spreads(data)
    if unnamed and spread(data) is None:
        step = f"every {theirs.every}"
        yield f"rows are taken to be {step}, as the model says (the table does not say)"
    rule = own.state
    if theirs.state is None and rule is not None and (rule.expression or rule.cuts or rule.mapping):
        yield f"the state of a record is {rule.rule} in this table ({silent})"
    before = None if theirs.state is None else theirs.state.column
    now = None if rule is None else rule.column
    if before is not None and now is not None and before != now:
        yield f"fitted on column {before!r}, and read from column {now!r}"


def _as_fitted(steps: set[str | int] | None, data: "Data") -> bool:
    """Tell whether rows are in the one step in which those of the fit were."""
    if steps is None or len(steps) > 1:
        return False
    if data.grid.step is not None:
        return {step_words(data.grid.step, clock=data.grid.clock)} == steps
    here = steps_of(data)
    return here is not None and {*here} == steps


def _step(data: "Data") -> str:
    grid = data.grid
    if grid.step is not None:
        ends: tuple[int, int] | None = (grid.step, grid.step)
    else:
        ends = spread(data)
    if ends is None:
        for name, apart in unnamed_spreads(data).items():
            return f"{_apart(apart, clock=True)} by column {_shown(name)!r} of this table"
        return "whatever the time between rows"
    return f"{_apart(ends, clock=grid.clock)} in this table"


def _apart(ends: tuple[int, int], *, clock: bool) -> str:
    """Return how far apart rows are, in words: five minutes, or 7 to 47 minutes."""
    least, most = ends
    if not clock:
        return f"{least} apart" if least == most else f"{least} to {most} apart"
    name, size = next((unit for unit in _UNITS if unit[1] <= max(least, 1)), _UNITS[-1])
    if least == most:
        exact = next(unit for unit in _UNITS if least % unit[1] == 0)
        name, size = exact if least else (name, size)
        count = least // size
        shown = _COUNTS[count] if count < len(_COUNTS) else str(count)
        return f"{shown} {name}{'' if count == 1 else 's'} apart"
    return f"{least / size:.4g} to {most / size:.4g} {name}s apart"


def _overlap(plan: "Plan[Any]", data: "Data | None") -> Iterator[str]:
    """Yield what is known of whether the model was fitted to these records, or refuse them."""
    model, fitted = plan.model, plan.model.records.source
    checks = plan.checks or model.checks
    if fitted is None and (not checks or all(check.basis == "private" for check in checks)):
        return  # no fit, or one through noise that the account of these records has paid for
    overlap: Seen = "unknown"
    if fitted is not None and data is not None and not data.source.listed:
        overlap = fitted.seen(source_of(data))
    if overlap == "unknown":
        yield "whether these are the records that were fitted is not known"
    if overlap != "same":
        return
    if SAME_RECORDS not in plan.accepted:
        raise _same_records()
    yield "these are the records that the model was fitted to"


def _same_records() -> SameRecords:
    """Return the refusal of records that a model was fitted to."""
    return SameRecords(
        "the model was fitted to these very records (the same file, or the same persons at "
        "overlapping times): it tells of them what the noise is to hide; fit it to older or "
        "other records, fit it through noise (private=LEVEL and a ledger), or plan with "
        f"accept=({SAME_RECORDS!r},), which every answer then says"
    )


def check_account(model: "Model", plan: "Plan[Any]", table: Any) -> None:
    """Refuse a table that an account is not about, where its model says more than a plan's.

    Levels are exchanged under the model of the account, so these records must be its records.
    """
    if not isinstance(table, Data) or model.records == plan.model.records:
        return
    pairs = differences(model, table)
    if pairs:
        raise RecordsDiffer(
            pairs, "this is the model of the account: keep another account for these records"
        )
    source = None if table.source.listed else model.records.source
    if source is None or SAME_RECORDS in plan.accepted:
        return
    if source.seen(source_of(table)) == "same":
        raise _same_records()
