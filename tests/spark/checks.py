"""What must hold on a cluster: functions of a session and an empty folder, for one test to run."""

import dataclasses
import datetime as dt
import functools
import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import undertow as ut
from tests.series_plans import CHAIN, MILD, STATES
from tests.spark.cluster import ONE_MACHINE, spread
from undertow.errors import (
    InvalidInput,
)
from undertow.integrations import spark_session

Check = Callable[[Any, Path], None]
CHECKS: list[Check] = []
SECRET = "Hesperus"
DAY = dt.datetime(2025, 3, 29, 22)


def check(function: Check) -> Check:
    """Add a function to those that the test runs."""
    CHECKS.append(function)
    return function


def table(seed: int, *, clock: bool = True, persons: int = 7, records: int = 60) -> pl.DataFrame:
    """Rows in no order: gaps, groups, foreign and missing values; a person in two groups."""
    draw = random.Random(seed)
    keys = [(draw.randrange(persons), when) for when in range(records) for _ in range(3)]
    keys = draw.sample(sorted(set(keys)), k=len(set(keys)) * 3 // 4)
    groups = ["north", "south", None]
    return pl.DataFrame(
        {
            "id": [f"p{who}" for who, _ in keys],
            "ts": [DAY + dt.timedelta(minutes=5 * when) if clock else when for _, when in keys],
            "ward": [groups[(who + (who == 0 and when > 30)) % 3] for who, when in keys],
            "mood": [draw.choice(["idle", "active", "idle", "?", None]) for _ in keys],
            "steps": [draw.choice([0, 1, 4, 99, None]) for _ in keys],
        },
        schema_overrides={"ward": pl.String, "steps": pl.Int32},
    )


def both(session: Any, frame: pl.DataFrame, **options: Any) -> tuple[ut.Data, ut.Data]:
    """The same records in memory and on the cluster."""
    return ut.Data(frame, **options), ut.Data(spread(session, frame), **options)


def refused(kind: type[Exception], question: Callable[[], object]) -> str:
    """Return what a refusal says, after checking that nothing of it quotes the data."""
    with pytest.raises(kind) as caught:
        question()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    return str(caught.value)


QUESTIONS: dict[str, Callable[[ut.Data], Any]] = {
    "shape": lambda data: data.shape(),
    "identity": lambda data: data.identity(),
    "histogram": lambda data: data.answers(ut.Histogram(), STATES),
    "foreign": lambda data: data.answers(ut.Histogram(), STATES, "idle"),
    "transitions": lambda data: data.answers(ut.Transitions(), STATES),
}
MOODS = {"value": "mood", "person": "id", "time": "ts"}


@check
def answers_are_those_of_a_frame_in_memory(session, _folder):
    cases: list[tuple[dict[str, Any], Callable[[ut.Data], ut.Data], tuple[str, ...]]] = [
        ({"by": "ward", "every": "5m"}, lambda d: d, ("shape", "identity", "transitions")),
        ({"by": "ward", "every": "5m", "gaps": "idle"},
         lambda d: d.window("2025-03-29T23:00", "2025-03-30T01:00"),
         ("transitions", "shape", "foreign")),
        ({"by": "ward", "groups": ["south", "west"]},
         lambda d: d.window("2025-03-29T23:00"), ("histogram", "shape", "transitions")),
    ]  # fmt: skip
    for seed, (options, taken, names) in enumerate(cases):
        held, far = (taken(data) for data in both(session, table(seed), **MOODS, **options))
        # many tables are asked everything in test_partitions, where no job has to be started
        for name in names[:1] if seed and session.sparkContext.master == ONE_MACHINE else names:
            there, here = QUESTIONS[name](far), QUESTIONS[name](held)
            assert there == here, (seed, name, there, here)
    held, far = both(session, table(9, clock=False), value="steps", person="id", time="ts")
    for query in (ut.Sum(0, 5), ut.Mean(1, 5)):
        assert far.answers(query) == held.answers(query)


@check
def every_type_is_read_as_in_memory(session, _folder):
    when = pl.Series([DAY + dt.timedelta(hours=n) for n in range(6)])
    frame = pl.DataFrame(
        {
            "text": ["a", "b", "a", "b", "a", "c"],
            "whole": pl.Series([1, 2, 1, 2, 1, 3], dtype=pl.Int16),
            "real": [0.5, -0.0, 0.5, 0.0, 0.5, 2.0],
            "truth": [True, False, True, False, True, False],
            "day": when.dt.date(),
            "zoned": when.dt.replace_time_zone("UTC"),
            "plain": when,
            "exact": pl.Series(["1.5", "2", "1.5", "2", "1.5", "0.25"]).cast(pl.Decimal(9, 2)),
            "iso": when.dt.strftime("%Y-%m-%dT%H:%M:%S"),
            "list": [[1]] * 6,
        }
    )  # fmt: skip
    session.conf.set("spark.sql.session.timeZone", "America/New_York")  # moments are moments
    try:
        far = spread(session, frame)
        for person, time_column in (
            ("text", "zoned"), ("whole", "plain"), ("real", "iso"), ("truth", "zoned"),
            ("exact", "plain"), ("day", "iso"),
        ):  # fmt: skip
            options = {"value": "whole" if person != "whole" else "text", "person": person}
            shapes = [
                ut.Data(one, time=time_column, by=person, **options).shape() for one in (frame, far)
            ]
            assert shapes[0] == shapes[1], person
    finally:
        session.conf.set("spark.sql.session.timeZone", "UTC")
    assert "values of type" in refused(InvalidInput, lambda: ut.Data(far, value="list"))


@check
def records_without_an_order_are_counted_and_not_followed(session, _folder):
    held, far = both(session, table(3), value="mood")
    assert far.answers(ut.Histogram(), STATES) == held.answers(ut.Histogram(), STATES)
    said = refused(InvalidInput, lambda: far.answers(ut.Transitions(), STATES))
    assert "time=" in said


@check
def tallies_for_a_fit_are_those_of_a_frame_in_memory(session, _folder):
    frame = table(4).with_columns(ward=pl.col("id").str.slice(1).cast(pl.Int8) % 2)
    for options, states in (({"every": "5m", "by": "ward"}, None), ({}, STATES)):
        held, far = (data.tally(states) for data in both(session, frame, **MOODS, **options))
        assert far.states == held.states
        own, known = held.described, far.described  # which records they are is not known far away
        assert dataclasses.replace(own, source=known.source, apart=None) == known
        for part in dataclasses.fields(held):
            one, other = getattr(far, part.name), getattr(held, part.name)
            assert part.name == "described" or np.array_equal(one, other), part.name
    split = ut.Data(spread(session, table(4)), by="ward", **MOODS)
    assert "two groups" in refused(InvalidInput, split.tally)
    number = pl.int_range(pl.len())
    many = pl.concat([frame] * 12).with_columns(ts=number, mood=number.cast(pl.String))
    measured = ut.Data(spread(session, many), **MOODS)
    assert "measurements, not states" in refused(InvalidInput, measured.tally)


@check
def rows_that_are_wrong_are_named_by_column_and_number(session, folder):
    good = table(15).head(40)

    def said(frame: pl.DataFrame, **options: Any) -> str:
        far = ut.Data(spread(session, frame), **(MOODS | options))
        return refused(InvalidInput, far.shape)

    def without(column: str, rows: int) -> pl.DataFrame:
        return good.with_columns(
            pl.when(pl.int_range(40) < rows).then(None).otherwise(column).alias(column)
        )

    for frame, column, number, what in (
        (pl.concat([good, good.head(3)]), "ts", 3, "the person and the time of another row"),
        (without("id", 2), "id", 2, "has no person"),
        (without("ts", 1), "ts", 1, "is not a time"),
    ):
        told = said(frame)
        for part in (f"column {column!r}", f"({number} in all", what):
            assert part in told
    off = good.with_columns(ts=pl.col("ts") + pl.duration(seconds=pl.int_range(40) // 39))
    assert "off the grid" in said(off, every="5m")
    texts = good.with_columns(ts=pl.col("ts").dt.strftime("%Y-%m-%d %H:%M:%S"))
    broken = texts.with_columns(
        ts=pl.when(pl.int_range(40) < 4).then(pl.lit("soon")).otherwise("ts")
    )
    assert "not a time of the same form" in said(broken)
    far = ut.Data(spread(session, pl.concat([good, good.head(1)])), **MOODS)
    assert "another row" in refused(InvalidInput, lambda: ut.sanitize(
        MILD, far, output=folder / "out"))  # fmt: skip
    assert not (folder / "out").exists()


@check
def frames_that_cannot_be_read_are_refused_in_our_words(session, folder):
    good = spread(session, table(16))
    for column in ("id", "ts", "mood"):
        wanted = MOODS | {name: "none" for name, own in MOODS.items() if own == column}
        said = refused(InvalidInput, functools.partial(ut.Data, good, **wanted))
        assert "has no column 'none'" in said
    doubled = good.toDF("id", "ts", "ward", "mood", "mood")
    assert "two columns" in refused(InvalidInput, lambda: ut.Data(doubled, **MOODS))
    endless = session.readStream.format("rate").load()
    refused(InvalidInput, lambda: ut.Data(endless, value="value"))

    def failing(batches):
        yield from batches
        raise ValueError(SECRET)

    bad = ut.Data(good.mapInArrow(failing, good.schema), **MOODS)
    refused(InvalidInput, bad.shape)
    quoting = good.selectExpr("id", "ts", f"cast('{SECRET}' || mood as int) as mood")
    refused(InvalidInput, lambda: ut.Data(quoting, **MOODS).answers(ut.Histogram(), (0, 1)))

    files = folder / "files"
    good.write.parquet(str(files))
    gone = ut.Data(session.read.parquet(str(files)), **MOODS)
    ledger = ut.Ledger(folder / "year.db", "w25", model=CHAIN, limit=9.0)
    sorted(files.glob("*.parquet"))[0].unlink()
    assert "file behind it is gone" in refused(InvalidInput, gone.shape)
    for question in (
        lambda: ut.release(ut.calibrate(ut.Count("active"), CHAIN, limit=1.0), gone, ledger=ledger),
        lambda: ut.sanitize(MILD, gone, output=folder / "out", ledger=ledger),
    ):
        refused(InvalidInput, question)
    assert not ledger.entries()
    assert not (folder / "out").exists()
    mixed = folder / "mixed"
    good.write.parquet(str(mixed))
    table(17).with_columns(mood=1.5).write_parquet(mixed / "other.parquet")
    differing = ut.Data(session.read.parquet(str(mixed)), **MOODS)
    refused(InvalidInput, lambda: differing.answers(ut.Histogram(), STATES))
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        assert "leave out files" in refused(InvalidInput, lambda: ut.Data(good, **MOODS))
    finally:
        session.conf.set("spark.sql.files.ignoreMissingFiles", "false")


@check
def workers_without_our_python_give_one_clear_error(session, _folder):
    context = session.sparkContext
    own, context.pythonExec = context.pythonExec, "no-such-python"
    try:
        far = ut.Data(spread(session, table(19)), **MOODS)
        assert "PYSPARK_PYTHON" in refused(InvalidInput, far.shape)
    finally:
        context.pythonExec = own
    assert spark_session() is session
    refused(InvalidInput, lambda: spark_session("local[1]"))
