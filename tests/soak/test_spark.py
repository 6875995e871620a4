"""Spark at full size: ten million records, every verb beside Polars, and a worker killed.

UNDERTOW_SPARK_ROWS says how many records (10,000,000 unless told), a thousand of each person. The
summary has the seconds of the clock and of all processors, and microseconds for a record: the
constants of docs/scale.md.
"""

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil  # type: ignore[import-untyped]
import pytest
from polars.testing import assert_frame_equal

import undertow as ut
from tests.series_plans import CHAIN, MILD, STATES
from tests.spark.cluster import Waiting, cluster, kill_worker, needs_spark
from undertow.ledger import keys
from undertow.releasing import drafts
from undertow.releasing import series as sanitizing
from undertow.sampling.keyed import Key

ROWS = int(os.environ.get("UNDERTOW_SPARK_ROWS", "10000000"))
LENGTH = 1000
OPTIONS: dict[str, Any] = {"value": "mood", "person": "id", "time": "ts", "every": 1}


def made(path: Path, *, shuffled: bool) -> None:
    """Write records of many persons, one missing or foreign in a hundred, in eight files."""
    draw = np.random.default_rng(19)
    who = np.repeat(np.arange(ROWS // LENGTH), LENGTH)
    frame = pl.DataFrame(
        {
            "id": who,
            "ts": np.tile(np.arange(LENGTH), ROWS // LENGTH),
            "ward": who % 20,
            "mood": draw.choice(4, ROWS, p=[0.69, 0.3, 0.005, 0.005]),
        }
    ).with_columns(
        id=pl.format("person {}", pl.col("id")),
        mood=pl.col("mood").replace_strict([0, 1, 2, 3], [*STATES, "?", None]),
    )
    frame = frame.sample(fraction=1.0, shuffle=True, seed=1) if shuffled else frame
    path.mkdir()
    for part, rows in enumerate(frame.iter_slices(-(-frame.height // 8))):
        rows.write_parquet(path / f"{part}.parquet")


def spent() -> float:
    """The seconds that all processes of this one have worked."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:  # gone meanwhile
            continue
        total += sum(getattr(times, name, 0.0) for name in (
            "user", "system", "children_user", "children_system"))  # fmt: skip
    return total


class Watch:
    """How long each verb takes."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def __call__(self, what: str, verb: Any) -> Any:
        begun, worked = time.monotonic(), spent()
        found = verb()
        wall, work = time.monotonic() - begun, spent() - worked
        each = 1e6 * work / ROWS
        self.lines.append(f"| {what} | {wall:.1f} | {work:.1f} | {each:.2f} |")
        return found


class KnownKey(Key):
    """A key that is no secret."""

    @classmethod
    def fresh(cls) -> Key:
        return Key(b"7" * 32)


@pytest.mark.soak
@pytest.mark.parametrize("shuffled", [False, True], ids=["by person", "in no order"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::undertow.errors.AccountWarning")
def test_every_verb_on_ten_million_records(lines, tmp_path, monkeypatch, shuffled):
    needs_spark()
    files = tmp_path / "files"
    made(files, shuffled=shuffled)
    lines += [
        "", f"## Spark, {ROWS:,} records {'in no order' if shuffled else 'by person'}", "",
        "| verb | seconds | processor seconds | microseconds a record |", "|---|---|---|---|",
    ]  # fmt: skip
    watch = Watch(lines)
    frame = pl.read_parquet(files / "*.parquet")
    held = ut.Data(frame, by="ward", **OPTIONS)
    monkeypatch.setattr(sanitizing, "Key", KnownKey)
    monkeypatch.setattr(keys, "Key", KnownKey)
    settings = {
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.adaptive.coalescePartitions.enabled": "true",
        "spark.driver.extraJavaOptions": "",
        "spark.executor.extraJavaOptions": "",
    }
    with cluster(tmp_path / "cluster", **settings) as session:
        source = session.read.parquet(str(files))
        source.count()
        far = ut.Data(source, by="ward", **OPTIONS)
        counts = held.answers(ut.Histogram(), STATES)
        assert watch("first question (workers start)", far.shape) == held.shape()
        assert watch("counts by cohort", lambda: far.answers(ut.Histogram(), STATES)) == counts
        pairs = held.answers(ut.Transitions(), STATES)
        assert watch("transitions", lambda: far.answers(ut.Transitions(), STATES)) == pairs
        tally = watch("tally of a fit", lambda: far.tally(STATES))
        assert np.array_equal(tally.counts, held.tally(STATES).counts)
        held, far = ut.Data(frame, **OPTIONS), ut.Data(source, **OPTIONS)
        out = tmp_path / "out"
        watch("flips, no ledger", lambda: ut.sanitize(MILD, far, output=out))
        accounts = [
            ut.Ledger(tmp_path / f"{name}.db", "w25", model=CHAIN, limit=9.0)
            for name in ("here", "far")
        ]
        wanted = ut.sanitize(MILD, held, ledger=accounts[0], release_id="week 1")
        told = tmp_path / "told"
        marker, killed = tmp_path / "marker", []
        threading.Thread(
            target=lambda: killed.append(kill_worker(marker, 3600)), daemon=True
        ).start()
        slow = ut.Data(source.mapInArrow(Waiting(marker, told), source.schema), **OPTIONS)
        begin = drafts.Drafts.__enter__
        monkeypatch.setattr(drafts.Drafts, "__enter__", lambda self: told.touch() or begin(self))
        paid = {"ledger": accounts[1], "release_id": "week 1", "output": tmp_path / "paid"}
        path = watch("flips in a ledger, a worker killed", lambda: ut.sanitize(MILD, slow, **paid))
        assert len(killed) == 1
        found = pl.read_parquet(path / "*.parquet")
        assert_frame_equal(found.sort("id", "ts"), wanted.sort("id", "ts"))
        assert len(accounts[1].entries()) == 1
