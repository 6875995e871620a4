"""All benchmarks in one table: ``make bench``, which writes docs/benchmarks.md.

    python -m benchmarks [--only PART ...] [--quick] [--out FILE]

A part is a module of this package with a function ``rows(quick)`` that yields `Row`; to add one,
add its name to `PARTS`. ``--quick`` runs the smallest case of each.
"""

import argparse
import contextlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from benchmarks.rows import Row, markdown, show
from undertow._version import __version__

PARTS = (
    "chains",
    "published",
    "stubborn",
    "networks",
    "gaussian",
    "approximate",
    "flips",
    "attacks",
    "data",
    "scale",
    "ledger",
    "reports",
)
"""Modules of this package, in the order of the table. A new one is one line here."""

PEERS = ("numpy", "scipy", "polars", "numba", "opendp", "hmmlearn", "diffprivlib")

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def rows_of(part: str, quick: bool = False) -> Iterator[Row]:
    """Yield the rows of one part."""
    yield from import_module(f"benchmarks.{part}").rows(quick)


def machine() -> str:
    """Return the machine in words: cores, processor, versions."""
    model = platform.processor() or "unknown processor"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} cores of {model}, Python {platform.python_version()}"


def versions() -> str:
    """Return the versions of the peers, and which are absent."""
    found = []
    for name in PEERS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} absent")
    return ", ".join(found)


def page(rows: list[Row], minutes: float) -> str:
    """Return docs/benchmarks.md."""
    return f"""# Benchmarks

What the main calls cost, beside peers and plain versions of the same, in one run of `make bench`,
which rewrites this page; `python -m benchmarks --only networks` prints one part.

- undertow {__version__}; {machine()}; {versions()}. The machine was shared with other work.
- Times are CPU seconds of one process with nothing remembered: every cache of the library is
  emptied before each run. Calls under 0.2 s are the best of three. The whole table took
  {minutes:.0f} minutes of wall time.
- *Ratio* is how many times as long the peer takes: above 1 it is slower than we are. A plain
  version computes the same number from the same formula, one option after another, without pruning
  and without a certificate (`benchmarks/naive.py`). A case named with several sizes shows the time
  of the largest.
- *Growth* is the exponent p of time ~ n^p over records (or nodes, rows), or ~ k^p over states,
  fitted over the sizes named.
- The neural attacker (`python -m benchmarks.lstm`) and the cost of private fits
  (`python -m benchmarks.private_fits`) are studies of accuracy, not of time, and stand apart.

{markdown(rows)}"""


def main() -> None:
    told = argparse.ArgumentParser(description="All benchmarks in one table.")
    told.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    told.add_argument("--quick", action="store_true")
    told.add_argument("--out", type=Path)
    asked = told.parse_args()
    start = time.monotonic()
    rows = [row for part in asked.only for row in show(rows_of(part, asked.quick))]
    whole = tuple(asked.only) == PARTS and not asked.quick
    out = asked.out or (PAGE if whole else None)
    if out is not None:
        out.write_text(page(rows, (time.monotonic() - start) / 60))
        print(f"wrote {len(rows)} rows to {out.name}")


if __name__ == "__main__":
    main()
