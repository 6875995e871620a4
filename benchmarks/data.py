"""Count, histogram and fit over rows of Parquet: ``python -m benchmarks.data``.

Each question runs in a process of its own; beside it a plain query of Polars for the same numbers,
which checks neither persons nor times, and OpenDP's count. The file is written to a temporary
directory and removed. Nothing here asserts a time.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

import undertow as ut
from benchmarks.rows import Row, show

PART = "Data"
ROWS = 2_000_000
PERSONS = 10_000
STAGES = ("W", "1", "2", "N3", "R")
ACTIVE = ("inactive", "active")


def write(path: Path, rows: int, *, shuffled: bool = False) -> None:
    """Write records of every five minutes, one person after the other, or in no order."""
    rng, each = np.random.default_rng(0), max(rows // PERSONS, 1)
    person = np.arange(rows) // each
    columns = {
        "id": pl.Series(person),
        "ts": pl.Series(np.arange(rows) % each * 300_000_000).cast(pl.Datetime("us")),
        "steps": pl.Series(rng.integers(0, 200, rows)),
        "stage": pl.Series(rng.integers(0, 5, rows)),
    }
    frame = pl.DataFrame(columns).with_columns(
        pl.format("person {}", "id").alias("id"),
        pl.format("cohort {}", pl.col("id") % 12).alias("cohort"),
        pl.col("stage").replace_strict(dict(enumerate(STAGES)), return_dtype=pl.String),
    )
    frame = frame.sample(fraction=1, shuffle=True, seed=1) if shuffled else frame
    frame.write_parquet(path, row_group_size=250_000)


def data(path: Path, **options: object) -> ut.Data:
    """Return the table with all checks: persons, times on a grid, groups."""
    return ut.Data(path, person="id", time="ts", every="5m", by="cohort", **options)  # type: ignore[arg-type]


def by_cohort(answers: object) -> object:
    return answers.numbers  # type: ignore[attr-defined]


def plain(path: Path, *keys: str, **parts: pl.Expr) -> object:
    """Return what Polars alone finds."""
    query = pl.scan_parquet(path).group_by(keys).agg(**parts)
    return query.collect(engine="streaming").sort(keys).rows()


def opendp_count(path: Path) -> object:
    """Return a noisy count by OpenDP of the rows that Polars finds: one number, no cohorts."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=bool)), dp.symmetric_distance()
    counts = dp.t.make_count(*space) >> dp.m.then_laplace(scale=4.0)
    found = pl.scan_parquet(path).filter(pl.col("steps") > 0).select(pl.col("steps") > 0)
    return counts(found.collect(engine="streaming")["steps"].to_list())


QUESTIONS: dict[str, Callable[[Path], object]] = {
    "count per cohort": lambda path: by_cohort(
        data(path, value="steps", state="steps > 0").answers(ut.Count("active"), ACTIVE)
    ),
    "Polars alone": lambda path: plain(path, "cohort", n=(pl.col("steps") > 0).sum()),
    "OpenDP, one count": lambda path: opendp_count(path),
    "histogram per cohort": lambda path: by_cohort(
        data(path, value="stage").answers(ut.Histogram(), STAGES)
    ),
    "Polars alone, histogram": lambda path: plain(path, "cohort", "stage", n=pl.len()),
    "sum per cohort": lambda path: by_cohort(data(path, value="steps").answers(ut.Sum(0, 200))),
    "Polars alone, sum": lambda path: plain(path, "cohort", n=pl.col("steps").sum()),
    "histogram of one day": lambda path: by_cohort(
        data(path, value="stage").window("1970-01-01", "1970-01-02").answers(ut.Histogram(), STAGES)
    ),
    "histogram, gaps filled": lambda path: by_cohort(
        data(path, value="stage", gaps="W").answers(ut.Histogram(), STAGES)
    ),
    "shape": lambda path: data(path, value="stage").shape(),
    "fit of a chain, by person": lambda path: ut.MarkovChain.fit(
        ut.Data(path, value="steps", state="steps > 99", person="id", time="ts", every="5m"),
        public=True,
    ).counts.tolist(),
}


BESIDE: dict[str, tuple[str, ...]] = {
    "count per cohort": ("Polars alone", "OpenDP, one count"),
    "histogram per cohort": ("Polars alone, histogram",),
    "sum per cohort": ("Polars alone, sum",),
    "histogram of one day": (),
    "histogram, gaps filled": (),
    "shape": (),
    "fit of a chain, by person": (),
}
"""The questions of the table, each with what it stands beside."""


def ask(name: str, path: Path) -> None:
    """Answer one question and print its CPU seconds and a digest of the numbers."""
    start = time.process_time()
    found = QUESTIONS[name](path)
    print(json.dumps([time.process_time() - start, _total(found)]))


def _total(found: object) -> int:
    """Return the sum of all whole numbers in an answer, to compare two of them."""
    if isinstance(found, list | tuple):
        return sum(map(_total, found))
    return found if isinstance(found, int) else 0


def run(*arguments: str) -> str:
    """Return what this module prints in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.data", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part; the seconds are those of all threads."""
    count = 20_000 if quick else ROWS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sorted.parquet")
        write(path, count)
        for name, peers in BESIDE.items():
            ours = json.loads(run("ask", name, str(path)))
            for peer in peers or ("",):
                theirs = json.loads(run("ask", peer, str(path))) if peer else None
                yield Row(PART, f"{name}, {count:,} rows", ours[0], peer,
                          None if theirs is None else theirs[0])  # fmt: skip
                if quick:
                    return


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ask", name, path]:
            ask(name, Path(path))
        case _:
            list(show(rows()))
