"""Tables larger than memory at full size: a billion rows counted, 100 million records sanitised.

UNDERTOW_SOAK_ROWS divides both sizes, for a rehearsal.
"""

import os
from pathlib import Path

import polars as pl
import pytest

import undertow as ut
from tests.soak.scale import counted, made, measured

LIMIT = 10**9
SPARE = 3 * 10**8
"""Bytes that the interpreter and the libraries take before any table is read."""

COUNT = """
from pathlib import Path
from tests.soak.scale import counted
told = counted(Path(sys.argv[1]))
"""
SANITIZE = """
import contextlib
from undertow.cli.app import app
with contextlib.suppress(SystemExit):
    app([*sys.argv[1:]])
told = None
"""
CHAIN = ut.MarkovChain([[0.95, 0.05], [0.45, 0.55]])


def rows(full: int) -> int:
    return full // int(os.environ.get("UNDERTOW_SOAK_ROWS", "1"))


def told(name: str, size: int, found: dict[str, float]) -> list[str]:
    return [
        f"## {name}", "", "| what | found |", "|---|---|", f"| rows | {size:,} |",
        f"| seconds | {found['seconds']:.0f} |", f"| CPU seconds | {found['cpu']:.0f} |",
        f"| peak memory, MB | {found['peak'] / 1e6:.0f} |", "",
    ]  # fmt: skip


@pytest.mark.soak
def test_a_billion_rows_are_counted_within_memory(lines, tmp_path):
    size = rows(10**9)
    truth = made(tmp_path / "table", size)
    found = measured(COUNT, str(tmp_path / "table"))
    lines += told("A count per cohort of a table in pieces", size, found)
    assert found["told"] == truth
    assert found["peak"] < LIMIT + SPARE


@pytest.mark.soak
def test_a_hundred_million_records_are_sanitised_within_memory(lines, tmp_path):
    size = rows(10**8)
    made(tmp_path / "table", size)
    plan = ut.calibrate(ut.Series(), CHAIN, limit=3.0)
    (tmp_path / "flips.plan").write_text(plan.to_json())
    ut.Ledger(tmp_path / "year.db", "w25", model=CHAIN, limit=5.0)
    out = tmp_path / "out.parquet"
    found = measured(
        SANITIZE, "sanitize", str(tmp_path / "table"), "--plan", str(tmp_path / "flips.plan"),
        "--value", "x", "--person", "id", "--time", "t", "--every", "1", "--output", str(out),
        "--ledger", str(tmp_path / "year.db"), "--dataset", "w25",
    )  # fmt: skip
    lines += told("Series sanitised in pieces", size, found)
    assert out.exists()
    read = pl.scan_parquet(out).select(pl.len(), pl.col("x").cast(pl.Int64).sum()).collect()
    flips = plan.mechanism.matrix
    expected = size * (0.9 * flips[0, 1] + 0.1 * flips[1, 1])
    assert read.item(0, 0) == size
    # six standard deviations of a sum of independent flips: a false alarm in 10^9 runs
    assert abs(read.item(0, 1) - expected) < 6 * (size / 4) ** 0.5
    assert found["peak"] < LIMIT + SPARE


def test_the_small_form_of_both(tmp_path):
    """What the soak runs, with a few thousand rows in pieces of some hundred."""
    truth = made(tmp_path / "table", 6000, each=500)
    folder = Path(tmp_path / "table")
    assert counted(folder) == truth
    data = ut.Data(folder, value="x", person="id", time="t", every=1, by="cohort")
    found = data.changed(piece=137).answers(ut.Count(1), (0, 1))
    assert [row[0] for row in found.numbers] == list(truth.values())
