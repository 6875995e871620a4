"""The recorded baseline: one line of JSON for each case, with the seconds that it took.

A line that was recorded anew bears the reason. Seconds are those of a case by itself, with every
cache of the package empty; ``python -m tests.golden --times`` compares them, never a test.
"""

import functools
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.golden.cases import Case
from tests.golden.relation import Answer

PLACE = Path(__file__).with_name("baseline.jsonl")
Baseline = dict[str, dict[str, Any]]

SHORT = 0.2
"""Seconds up to which a case is timed three times, and the least counts."""


def read() -> Baseline:
    """Return the recorded answers by the name of their case."""
    lines = PLACE.read_text("utf-8").splitlines() if PLACE.is_file() else []
    entries = [json.loads(line) for line in lines]
    return {entry.pop("case"): entry for entry in entries}


def write(baseline: Baseline) -> None:
    """Write one line for each case."""
    lines = [json.dumps({"case": name, **entry}) for name, entry in baseline.items()]
    PLACE.write_text("\n".join(lines) + "\n", "utf-8")


def entry_of(case: Case, reason: str | None = None) -> dict[str, Any]:
    """Return what is recorded of a case: its answer, whether a witness was replayed, its time."""
    answer, seconds = timed(case)
    if "attained" in answer:
        answer = {**answer, "attained": answer["attained"] is not None}
    entry = {**answer, "seconds": float(f"{seconds:.2g}")}
    return entry if reason is None else {**entry, "reason": reason}


def timed(case: Case) -> tuple[Answer, float]:
    """Return the answer of a case and the processor seconds that it takes with empty caches.

    A turn that imported modules is not counted: the first case of a run would pay for all others.
    """
    taken: list[float] = []
    while True:
        _forget()
        modules, begun = len(sys.modules), time.process_time()
        answer = case.ask()
        seconds = time.process_time() - begun
        if len(sys.modules) > modules:
            continue
        taken.append(seconds)
        if taken[0] > SHORT or len(taken) == 3:
            return answer, min(taken)


@functools.lru_cache(maxsize=2)
def _caches(modules: int) -> list[Any]:
    """Return the caches of the package's modules, as many as are loaded."""
    return [
        each
        for each in gc.get_objects()
        if type(each)
        is functools._lru_cache_wrapper  # asks nothing of a proxy whose object is gone
        and str(getattr(each, "__module__", "")).startswith("undertow")
    ]


def _forget() -> None:
    for cache in _caches(len(sys.modules)):
        cache.cache_clear()
