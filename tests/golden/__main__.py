"""Compare the present code with the recorded baseline, or record cases anew.

``python -m tests.golden [PATTERN...]``: what breaks the relation.
``python -m tests.golden --times [PATTERN...]``: the same, and seconds before and now.
``python -m tests.golden --record CASE... --reason WORDS``: record the named cases anew.
``python -m tests.golden --record-new``: record the cases that have no line yet.
"""

import argparse
import fnmatch
import os
import sys
import tempfile

# Threads that wait for each other count as processor time: read when numpy is first loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.golden.baseline import Baseline, entry_of, read, timed, write
from tests.golden.cases import CASES
from tests.golden.relation import CHANGED, wrong

MILLISECONDS = 5
"""Cases that took less are summed in their group only: their time is that of the clock."""


def main() -> int:
    """Run what the arguments say, and return the exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m tests.golden", None, __doc__, formatter_class=form)
    parser.add_argument("cases", nargs="*", help="names or patterns of cases, by default all")
    parser.add_argument("--times", action="store_true", help="seconds before and now")
    parser.add_argument("--record", action="store_true", help="record the named cases anew")
    parser.add_argument("--record-new", action="store_true", help="record cases without a line")
    parser.add_argument("--reason", help="why the answer of a recorded case changed on purpose")
    told = parser.parse_args()
    if told.record or told.record_new:
        return record(told.cases, told.reason, told.record_new)
    return compare(matching(told.cases), read(), told.times)


def matching(patterns: list[str]) -> list[str]:
    """Return the names that a pattern matches, all without patterns."""
    return [
        name
        for name in CASES
        if not patterns or any(name == each or fnmatch.fnmatchcase(name, each) for each in patterns)
    ]


def record(patterns: list[str], reason: str | None, new: bool) -> int:
    """Record cases, and drop the lines of cases that are listed as dropped."""
    baseline = read()
    names = [name for name in CASES if name not in baseline] if new else matching(patterns)
    if not new and (not patterns or not names):
        print("--record needs names of cases; see tests/golden/cases.py", file=sys.stderr)
        return 2
    if not reason and any(name in baseline for name in names):
        print("--record of a recorded case needs --reason: why it changed", file=sys.stderr)
        return 2
    for name in names:
        baseline[name] = entry_of(CASES[name], reason if name in baseline else None)
        print(name, baseline[name])
    # in the order of the cases; lines without a case stay, at the end, for the test to name
    write({name: baseline[name] for name in (*CASES, *baseline) if name in baseline})
    return 0


def compare(names: list[str], baseline: Baseline, times: bool) -> int:
    """Print what breaks the relation, and the seconds if they are wanted."""
    broken = 0
    seconds: dict[str, list[float]] = {}
    for name in names:
        before = baseline.get(name)
        if before is None:
            print(f"{name}: not recorded yet; --record-new")
            broken += 1
            continue
        answer, taken = timed(CASES[name]) if times else (CASES[name].ask(), 0.0)
        for words in wrong(before, answer):
            print(f"{name}: {words}")
            broken += 1
        seconds[name] = [before["seconds"], taken]
    gone = [name for name in baseline if name not in CASES and f"case {name}" not in CHANGED]
    for name in gone:
        print(f"{name}: recorded, but no case any more; list it in CHANGED with a reason")
    if times:
        table(seconds)
    return 1 if broken or gone else 0


def table(seconds: dict[str, list[float]]) -> None:
    """Print seconds before and now: by group, and of every case that takes over twice as long."""
    groups: dict[str, list[float]] = {}
    for name, pair in seconds.items():
        group = groups.setdefault(name.split(":")[0], [0.0, 0.0])
        group[:] = [group[0] + pair[0], group[1] + pair[1]]
    print(f"{'seconds':36} {'before':>9} {'now':>9} {'ratio':>7}")
    total = [sum(column) for column in zip(*groups.values(), strict=True)] or [0.0, 0.0]
    for name, (before, now) in (*groups.items(), ("all", total)):
        print(f"{name:36} {before:9.3f} {now:9.3f} {now / max(before, 1e-9):7.2f}")
    slower = [
        (now / max(before, 1e-9), name, before, now)
        for name, (before, now) in seconds.items()
        if now > 2 * before and 1000 * now > MILLISECONDS
    ]
    for ratio, name, before, now in sorted(slower, reverse=True):
        print(f"over twice: {name:50} {before:9.3f} {now:9.3f} {ratio:7.2f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("UNDERTOW_STATE", folder)
        sys.exit(main())
