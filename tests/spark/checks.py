"""What must hold on a cluster: functions of a session and an empty folder, for one test to run."""

import collections
import contextlib
import dataclasses
import datetime as dt
import functools
import random
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import undertow as ut
from tests.series_plans import CHAIN, ERASE, FLIPS, MILD, STATES, XOR
from tests.spark.cluster import Waiting, kill_worker, spread
from undertow import sanitizing, spreading
from undertow.errors import (
    AccountWarning,
    InvalidInput,
    LedgerConflict,
    NotSupported,
    UnknownState,
)
from undertow.ledger import keys
from undertow.sampling.keyed import Key

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
    "foreign": lambda data: data.answers(ut.Histogram(foreign="idle"), STATES),
    "transitions": lambda data: data.answers(ut.Transitions(), STATES),
}
MOODS = {"value": "mood", "person": "id", "time": "ts"}


@check
def answers_are_those_of_a_frame_in_memory(session, _folder):
    cases: list[tuple[dict[str, Any], Callable[[ut.Data], ut.Data], tuple[str, ...]]] = [
        ({"by": "ward", "every": "5m"}, lambda d: d, ("shape", "identity", "transitions")),
        ({"by": "ward", "every": "5m", "gaps": "idle"},
         lambda d: d.window("2025-03-29T23:00", "2025-03-30T01:00"),
         ("shape", "foreign", "transitions")),
        ({"by": "ward", "groups": ["south", "west"]},
         lambda d: d.window("2025-03-29T23:00"), ("shape", "histogram", "transitions")),
    ]  # fmt: skip
    for seed, (options, taken, names) in enumerate(cases):
        held, far = (taken(data) for data in both(session, table(seed), **MOODS, **options))
        for name in names:
            there, here = QUESTIONS[name](far), QUESTIONS[name](held)
            assert there == here, (seed, name, there, here)
    held, far = both(session, table(9, clock=False), value="steps", person="id", time="ts")
    for query in (ut.Sum(0, 5), ut.Mean(0, 5, missing=1)):
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
        for part in dataclasses.fields(held):
            one, other = getattr(far, part.name), getattr(held, part.name)
            assert np.array_equal(one, other), part.name
    split = ut.Data(spread(session, table(4)), by="ward", **MOODS)
    assert "two groups" in refused(InvalidInput, split.tally)
    number = pl.int_range(pl.len())
    many = pl.concat([frame] * 12).with_columns(ts=number, mood=number.cast(pl.String))
    measured = ut.Data(spread(session, many), **MOODS)
    assert "measurements, not states" in refused(InvalidInput, measured.tally)


def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all draws be those of one key."""
    for module in (sanitizing, spreading):
        monkeypatch.setattr(module, "Key", KnownKey)


class KnownKey(Key):
    """A key that is no secret."""

    @classmethod
    def fresh(cls) -> Key:
        return Key(b"7" * 32)


def in_rows(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("id", "ts")


def read(session: Any, folder: Path) -> pl.DataFrame:
    found = pl.from_arrow(session.read.parquet(str(folder)).toArrow())
    assert isinstance(found, pl.DataFrame)
    return found


@check
def flips_are_those_of_a_frame_in_memory(session, folder):
    whole = pl.DataFrame(
        [(f"p{who}", when, "idle" if (who + when) % 3 else "active")
         for who in range(9) for when in range(4)],
        schema=["id", "ts", "mood"], orient="row",
    )  # fmt: skip
    cases: list[tuple[Any, pl.DataFrame, dict[str, Any]]] = [
        (FLIPS, table(5), {"every": "5m", "by": "ward", "groups": ["north"]}),
        (XOR, table(6, clock=False), {"every": 1}),
        (FLIPS, table(7), {}),
        (ERASE, whole, {}),
    ]
    for number, (plan, frame, options) in enumerate(cases):
        verb = ut.redact if plan is ERASE else ut.sanitize
        with pytest.MonkeyPatch.context() as patch:
            keyed(patch)
            held, far = both(session, frame, **MOODS, **options)
            wanted = verb(plan, held)
            path = verb(plan, far, output=folder / f"out{number}")
        assert_frame_equal(in_rows(read(session, path)), in_rows(wanted), check_dtypes=True)
        assert {one.suffix for one in path.iterdir()} == {".parquet"}
    assert not (folder / spreading.DRAFTS).exists()


@check
def what_is_written_is_one_set_of_flips(session, folder):
    far = ut.Data(spread(session, table(8)), **MOODS)
    path = ut.sanitize(MILD, far, output=folder / "out")
    counts = [session.read.parquet(str(path)).filter("mood = 'idle'").count() for _ in range(3)]
    assert len(set(counts)) == 1
    other = read(session, ut.sanitize(MILD, far, output=folder / "again"))
    assert not in_rows(other).equals(in_rows(read(session, path)))  # another key, other flips


@check
def estimates_and_problems_are_those_of_a_frame_in_memory(session, folder):
    frame = table(20)
    held, far = both(session, frame, **MOODS, by="ward", every="5m")
    with pytest.MonkeyPatch.context() as patch:
        keyed(patch)
        wanted = ut.sanitize(FLIPS, held)
        path = ut.sanitize(FLIPS, far, output=folder / "out")
    shown = ut.Data(session.read.parquet(str(path)), **MOODS, every="5m")
    for query in (None, "transitions"):
        here, there = (
            ut.estimate(data, FLIPS, query)
            for data in (ut.Data(wanted, **MOODS, every="5m"), shown)
        )
        assert str(here) == str(there)
    odd = frame.with_columns(mood=pl.col("mood").str.replace("idle", "Idle"))
    odd = pl.concat([odd, frame.head(12)])
    rows, counts = (data.problems(ut.Histogram(), STATES) for data in both(session, odd, **MOODS))
    assert {one.row for one in counts} == {None}
    counted = collections.Counter((one.column, one.what) for one in rows if one.row is not None)
    for (column, what), number in counted.items():
        more = [one for one in rows if one.row is None and one.what.endswith(what)]
        number += sum(int(one.what.split()[0]) for one in more)
        assert (column, f"{number} rows: {what}") in {(one.column, one.what) for one in counts}
    for data in both(session, odd, **MOODS):
        assert any("differ only in case" in one.what for one in data.problems())


@check
def a_ledger_stands_at_the_driver(session, folder):
    ledger = ut.Ledger(folder / "year.db", "w25", model=CHAIN, limit=9.0)
    far = ut.Data(spread(session, table(10)), **MOODS)
    first = ut.sanitize(MILD, far, output=folder / "out", ledger=ledger, release_id="week 1")
    entry: Any = ledger.entry("week 1")
    assert entry.status == "confirmed"
    assert entry.result["records"] == far.shape().rows
    assert entry.result["series"] == far.shape().persons
    written = ut.Data(session.read.parquet(str(first)), **MOODS)
    assert sanitizing.fingerprint(written, MILD) == entry.result["digest"]
    refused(LedgerConflict, lambda: ut.sanitize(
        MILD, far, output=folder / "twice", ledger=ledger, release_id="week 1"))  # fmt: skip
    assert not (folder / "twice").exists()

    plan = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0)
    out = ut.release(plan, far, ledger=ledger)
    again = ut.release(plan, ut.Data(table(10), **MOODS), ledger=ledger)
    assert again.replayed  # the same question of the same table, wherever it lies
    assert out.value == again.value


@check
def an_interrupted_run_is_repeated_with_the_same_outputs(session, folder):
    ledger = ut.Ledger(folder / "year.db", "w25", model=CHAIN, limit=9.0)
    frame = table(11)
    held, far = both(session, frame, **MOODS)

    def run(data, name, **more):
        return ut.sanitize(MILD, data, ledger=ledger, release_id="week 1", **more)

    kept: list[pl.DataFrame] = []
    with pytest.MonkeyPatch.context() as patch:

        def interrupted(draft):
            kept.append(read(session, draft.path))
            raise KeyboardInterrupt

        patch.setattr(spreading._Draft, "settle", interrupted)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                run(far, "out", output=folder / "out")
        changed = ut.Data(spread(session, frame.with_columns(mood=pl.lit("idle"))), **MOODS)
        with pytest.raises(KeyboardInterrupt):
            run(changed, "out", output=folder / "out")
    same, again, other = map(in_rows, kept)
    assert_frame_equal(same, again)
    # where the records are the same, changed ones have flips of their own
    unchanged = frame.sort("id", "ts")["mood"].eq_missing("idle")
    assert same.filter(unchanged)["mood"].to_list() != other.filter(unchanged)["mood"].to_list()
    assert not (folder / spreading.DRAFTS).exists()
    assert_frame_equal(in_rows(run(held, "out")), same)  # in memory too: it is one release


@check
def outputs_that_are_recorded_get_their_name_from_the_next_run(session, folder):
    ledger = ut.Ledger(folder / "year.db", "w25", model=CHAIN, limit=9.0)
    far = ut.Data(spread(session, table(12)), **MOODS)
    options: Any = {"ledger": ledger, "release_id": "week 1", "output": folder / "out"}
    with pytest.MonkeyPatch.context() as patch:

        def killed(draft):
            draft.keep = True
            raise KeyboardInterrupt

        patch.setattr(spreading._Draft, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            ut.sanitize(MILD, far, **options)
    assert ledger.entry("week 1").status == "confirmed"
    assert not (folder / "out").exists()
    path = ut.sanitize(MILD, far, **options)
    written = ut.Data(session.read.parquet(str(path)), **MOODS)
    entry: Any = ledger.entry("week 1")
    assert sanitizing.fingerprint(written, MILD) == entry.result["digest"]
    assert not (folder / spreading.DRAFTS).exists()


@check
def a_worker_that_is_killed_loses_and_adds_nothing(session, folder):
    frame, killed, told = table(13), [], folder / "told"
    held, far = ut.Data(frame, **MOODS), spread(session, frame)

    def slow(name: str) -> ut.Data:
        marker = folder / name
        threading.Thread(target=lambda: killed.append(kill_worker(marker)), daemon=True).start()
        return ut.Data(far.mapInArrow(Waiting(marker, told), far.schema), **MOODS)

    told.touch()
    assert slow("count").answers(ut.Histogram(), STATES) == held.answers(ut.Histogram(), STATES)
    told.unlink()
    accounts = [
        ut.Ledger(folder / f"{name}.db", "w25", model=CHAIN, limit=9.0) for name in ("here", "far")
    ]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", AccountWarning)  # one table in two accounts
        patch.setattr(keys, "Key", KnownKey)
        wanted = ut.sanitize(MILD, held, ledger=accounts[0], release_id="week 1")
        begin = spreading._Draft.__enter__
        # the worker is killed while the outputs are written, not before
        patch.setattr(spreading._Draft, "__enter__", lambda self: told.touch() or begin(self))
        path = ut.sanitize(
            MILD, slow("flips"), ledger=accounts[1], release_id="week 1", output=folder / "out"
        )
    assert_frame_equal(in_rows(read(session, path)), in_rows(wanted))
    assert len(set(killed)) == 2
    assert len(accounts[1].entries()) == 1
    assert accounts[1].entry("week 1").status == "confirmed"
    assert accounts[1].verify()


class Growing:
    """A step that gives fewer records the first time."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, batches: Any) -> Any:
        from pyspark import TaskContext

        mark = Path(self.folder, f".grown{TaskContext.get().partitionId()}")
        for batch in batches:
            yield batch if mark.exists() else batch.slice(1)
            mark.touch()


class Failing:
    """A step that fails in the middle of every partition, the first time it is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, batches: Any) -> Any:
        from pyspark import TaskContext

        mark = Path(self.folder, f"failed{TaskContext.get().partitionId()}")
        for batch in batches:
            yield batch.slice(0, 5)
            if not mark.exists():
                mark.touch()
                raise ValueError(SECRET)
            yield batch.slice(5)


@check
def tasks_that_are_tried_again_give_the_same_bytes(session, folder):
    frame = table(14)
    far = spread(session, frame)
    far = far.mapInArrow(Failing(folder), far.schema)
    with pytest.MonkeyPatch.context() as patch:
        keyed(patch)
        path = ut.sanitize(FLIPS, ut.Data(far, **MOODS), output=folder / "out")
        wanted = ut.sanitize(FLIPS, ut.Data(frame, **MOODS))
    assert list(folder.glob("failed*"))
    assert_frame_equal(in_rows(read(session, path)), in_rows(wanted))


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
def records_that_change_between_readings_are_not_released(session, folder):
    frame = session.range(200).selectExpr(
        "'a' as id", "id as ts", "case when rand() < 0.5 then 'idle' else 'active' end as mood"
    )
    ledger = ut.Ledger(folder / "year.db", "w25", model=CHAIN, limit=9.0)

    def step(batches):
        import os

        import pyarrow as pa

        for batch in batches:
            drawn = os.urandom(batch.num_rows)
            moods = pa.array([STATES[byte % 2] for byte in drawn])
            yield pa.RecordBatch.from_arrays([*batch.columns[:2], moods], schema=batch.schema)

    far = ut.Data(frame.mapInArrow(step, frame.schema), **MOODS)
    said = refused(InvalidInput, lambda: ut.sanitize(
        MILD, far, output=folder / "out", ledger=ledger, release_id="week 1"))  # fmt: skip
    assert "other records" in said
    assert ledger.entry("week 1").result is None
    short = session.range(50).selectExpr("'a' as id", "id as ts", "'idle' as mood")
    grown = ut.Data(short.mapInArrow(Growing(folder), short.schema), **MOODS)
    assert "other records" in refused(InvalidInput, lambda: ut.release(
        ut.calibrate(ut.Count("active"), CHAIN, limit=1.0), grown, ledger=ledger))  # fmt: skip
    assert [entry.release_id for entry in ledger.entries()] == ["week 1"]
    assert {one.name for one in folder.iterdir() if one.suffix == ""} <= {".grown0", ".grown1"}


@check
def what_is_not_done_on_a_cluster_is_said(session, folder):
    far = ut.Data(spread(session, table(18)), **MOODS)
    assert "output=" in refused(NotSupported, lambda: ut.sanitize(MILD, far))
    refused(NotSupported, lambda: ut.sanitize(MILD, far, output=folder / "o", insecure_seed=1))
    refused(NotSupported, lambda: ut.sanitize(MILD, ["idle"], output=folder / "o"))
    refused(UnknownState, lambda: ut.sanitize(MILD, far, output=folder / "o", strict=True))
    (folder / "there").mkdir()
    refused(InvalidInput, lambda: ut.sanitize(MILD, far, output=folder / "there"))
    refused(InvalidInput, lambda: ut.sanitize(MILD, far, output=folder / "no" / "folder"))
    (folder / spreading.DRAFTS).touch()  # no folder can be made there
    refused(InvalidInput, lambda: ut.sanitize(MILD, far, output=folder / "o"))
    (folder / spreading.DRAFTS).unlink()
    assert [one.name for one in folder.iterdir()] == ["there"]


@check
def the_page_says_what_works(session, folder):
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text("utf-8")
    block = page.partition("## Spark")[2].partition("```text\n")[2].partition("```")[0]
    frame = table(21).with_columns(ward=pl.col("id").str.slice(1).cast(pl.Int8) % 2)
    rows = frame.rename({"ward": "cohort"}).drop("mood")
    spread(session, rows).write.parquet(str(folder / "w25"))
    named: dict[str, Any] = {
        "plan": ut.calibrate(ut.Count("active"), CHAIN, limit=1.0),
        "flips": MILD,
        "ledger": ut.Ledger(folder / "year.db", "w25", model=CHAIN, limit=9.0),
    }
    with contextlib.chdir(folder):
        exec(compile(block.replace('"w25"', repr(str(folder / "w25"))), "scale.md", "exec"), named)
    assert set(named["out"].value) == {0, 1}
    assert len(read(session, named["folder"])) == rows.height
    assert len(named["ledger"].entries()) == 2


@check
def workers_without_our_python_give_one_clear_error(session, _folder):
    context = session.sparkContext
    own, context.pythonExec = context.pythonExec, "no-such-python"
    try:
        far = ut.Data(spread(session, table(19)), **MOODS)
        assert "PYSPARK_PYTHON" in refused(InvalidInput, far.shape)
    finally:
        context.pythonExec = own
    assert ut.spark_session() is session
    refused(InvalidInput, lambda: ut.spark_session("local[1]"))
