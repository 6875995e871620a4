"""What must hold of outputs that a cluster writes: flips, erasures and their accounts."""

import collections
import contextlib
import threading
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import undertow as ut
from tests.series_plans import CHAIN, ERASE, FLIPS, MILD, STATES, XOR
from tests.spark.checks import MOODS, SECRET, both, check, refused, table
from tests.spark.cluster import Waiting, kill_worker, spread
from undertow.errors import (
    AccountWarning,
    InvalidInput,
    LedgerConflict,
    NotSupported,
    UnknownState,
)
from undertow.ledger import keys
from undertow.releasing import drafts
from undertow.releasing import series as sanitizing
from undertow.sampling.keyed import Key


def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all draws be those of one key."""
    monkeypatch.setattr(sanitizing, "Key", KnownKey)


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
        verb = ut.sanitize
        with pytest.MonkeyPatch.context() as patch:
            keyed(patch)
            held, far = both(session, frame, **MOODS, **options)
            wanted = verb(plan, held)
            path = verb(plan, far, output=folder / f"out{number}")
        assert_frame_equal(in_rows(read(session, path)), in_rows(wanted), check_dtypes=True)
        assert {one.suffix for one in path.iterdir()} == {".parquet"}
    assert not (folder / drafts.FOLDER).exists()


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

        def interrupted(self):
            kept.append(read(session, self._drafts[0].path))
            raise KeyboardInterrupt

        patch.setattr(drafts.Drafts, "settle", interrupted)
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
    assert not (folder / drafts.FOLDER).exists()
    assert_frame_equal(in_rows(run(held, "out")), same)  # in memory too: it is one release


@check
def outputs_that_are_recorded_get_their_name_from_the_next_run(session, folder):
    ledger = ut.Ledger(folder / "year.db", "w25", model=CHAIN, limit=9.0)
    far = ut.Data(spread(session, table(12)), **MOODS)
    options: Any = {"ledger": ledger, "release_id": "week 1", "output": folder / "out"}
    with pytest.MonkeyPatch.context() as patch:

        def killed(self):
            self.keep = True
            raise KeyboardInterrupt

        patch.setattr(drafts.Drafts, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            ut.sanitize(MILD, far, **options)
    assert ledger.entry("week 1").status == "confirmed"
    assert not (folder / "out").exists()
    path = ut.sanitize(MILD, far, **options)
    written = ut.Data(session.read.parquet(str(path)), **MOODS)
    entry: Any = ledger.entry("week 1")
    assert sanitizing.fingerprint(written, MILD) == entry.result["digest"]
    assert not (folder / drafts.FOLDER).exists()


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
        begin = drafts.Drafts.__enter__
        # the worker is killed while the outputs are written, not before
        patch.setattr(drafts.Drafts, "__enter__", lambda self: told.touch() or begin(self))
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
    (folder / drafts.FOLDER).touch()  # no folder can be made there
    refused(InvalidInput, lambda: ut.sanitize(MILD, far, output=folder / "o"))
    (folder / drafts.FOLDER).unlink()
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
