"""Tables read in pieces beside the same tables in memory: ``python -m benchmarks.scale``.

Each question runs in a process of its own, and prints CPU seconds of all its threads and its peak
of memory. The file is written to a temporary directory and removed. Nothing here asserts a time.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import undertow as ut
from benchmarks.data import write
from benchmarks.rows import Row, show

PART = "Scale"
ROWS = 10_000_000
IN_PIECES, IN_MEMORY = "1GB", "64GB"
STATES = (False, True)
CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=STATES)


def table(path: Path, memory: str, **options: Any) -> ut.Data:
    """Return the table with all checks; a gigabyte is less than it would take."""
    return ut.Data(
        path, value="steps", state="steps > 99", person="id", time="ts", every="5m", memory=memory,
        **options,
    )  # fmt: skip


def flipped(path: Path, memory: str) -> None:
    """Write the flipped table beside the file that is read."""
    from undertow.data.codes import write_frames
    from undertow.releasing.series import Outputs, prepare

    plan = ut.calibrate(ut.Series(), CHAIN, limit=3.0)
    with path.with_suffix(".out.parquet").open("wb") as file:
        write_frames(Outputs(prepare(plan, table(path, memory))).frames(), file, file.name)


QUESTIONS: dict[str, Callable[[Path, str], object]] = {
    "count per cohort": lambda path, memory: table(path, memory, by="cohort").answers(
        ut.Count(True), STATES
    ),
    "transitions": lambda path, memory: table(path, memory).answers(ut.Transitions(), STATES),
    "tally for a fit": lambda path, memory: table(path, memory).tally(STATES),
    "flips to Parquet": flipped,
}


def ask(name: str, path: Path, memory: str) -> None:
    """Answer one question; print its CPU seconds and the peak of memory in MB."""
    start = time.process_time()
    QUESTIONS[name](path, memory)
    print(json.dumps([time.process_time() - start, peak()]))


def peak() -> float:
    """Return the most memory that this process had, in MB (nan where the system does not say).

    What getrusage tells includes the process that started this one.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1000
    return math.nan


def run(*arguments: str) -> list[float]:
    """Return what this module prints in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout)
    return found


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part: pieces beside the whole table, and the memory of both."""
    count = 20_000 if quick else ROWS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sorted.parquet")
        write(path, count)
        for name in QUESTIONS:
            (ours, some), (theirs, whole) = (
                run("ask", name, str(path), memory) for memory in (IN_PIECES, IN_MEMORY)
            )
            case = f"{name}, {count:,} rows, {some:.0f} MB"
            yield Row(PART, case, ours, f"in memory, {whole:.0f} MB", theirs)
            if quick:
                return


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["ask", name, path, memory]:
            ask(name, Path(path), memory)
        case _:
            list(show(rows()))
