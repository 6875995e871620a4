"""Tables of any size, made in pieces, and what a process takes to read them."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from undertow.data.codes import write_frames

__all__ = ["counted", "made", "measured"]

FILE = 50_000_000
"""Rows of each file of a table."""
PIECE = 2_000_000


def made(folder: Path, rows: int, each: int = 10_000) -> dict[str, int]:
    """Write a table of persons with so many records each; return the truth about its cohorts.

    Persons and their times are in order, cohorts are those of ``person % 4``, and a record is 1
    where a mix of its row's bits is small: one of ten, spread over all cohorts.
    """
    folder.mkdir(parents=True, exist_ok=True)
    truth: dict[str, int] = {}
    for number, start in enumerate(range(0, rows, FILE)):
        stop = min(start + FILE, rows)
        cuts = [*range(start, stop, PIECE), stop]
        frames = (_piece(*ends, each, truth) for ends in pairwise(cuts))
        with (folder / f"part-{number:04}.parquet").open("wb") as file:
            write_frames(frames, file, "part.parquet")
    return truth


def _piece(start: int, stop: int, each: int, truth: dict[str, int]) -> pl.DataFrame:
    row = np.arange(start, stop)
    mixed = (row.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    active = (mixed % np.uint64(10) == 0).astype(np.uint8)
    person = row // each
    for cohort in range(4):
        name = f"cohort {cohort}"
        truth[name] = truth.get(name, 0) + int(active[person % 4 == cohort].sum())
    return pl.DataFrame(
        {"id": person.astype(np.int32), "t": (row % each).astype(np.int32), "x": active}
    ).select(
        pl.col("id").cast(pl.String),
        pl.format("cohort {}", pl.col("id") % 4).alias("cohort"),
        "t",
        "x",
    )


def counted(folder: Path, **options: Any) -> dict[str, int]:
    """Return the count of each cohort, with all checks of persons and times."""
    import undertow as ut

    data = ut.Data(folder, value="x", person="id", time="t", every=1, by="cohort", **options)
    found = data.answers(ut.Count(1), (0, 1))
    return dict(zip(found.groups or (), (row[0] for row in found.numbers), strict=True))


WATCHED = """
import json, resource, sys, time
began = time.monotonic()
{code}
used = resource.getrusage(resource.RUSAGE_SELF)  # its peak is also that of the parent
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({{
    "seconds": time.monotonic() - began, "cpu": used.ru_utime + used.ru_stime,
    "peak": int(status["VmHWM"].split()[0]) * 1024, "told": told,
}}))
"""


def measured(code: str, *arguments: str) -> dict[str, Any]:
    """Run code that leaves ``told`` in a process of its own; its seconds and its peak of memory."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED.format(code=code), *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
