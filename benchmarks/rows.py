"""What a benchmark reports, and how its time is taken: rows of one table.

Times are CPU seconds of this process, so that other work on the machine does not count. Everything
that the library remembers is forgotten before each run: a time is of work done, never of a cache.
"""

import functools
import gc
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Row", "beside", "exponent", "forget", "markdown", "seconds", "show", "spent"]

COMPILED = "undertow.models.fitting.hidden"
"""Keeps compiled functions, not results: compiling is not what is timed."""

MANY = 0.2
"""Seconds below which a call is repeated, and the least of three runs taken."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what was asked, how long it took here and elsewhere, and how it grows.

    ``ours`` and ``theirs`` are CPU seconds of the same question, put to this library and to
    ``peer``; ``theirs`` is None where there is no peer, or where it is absent (``peer`` then says
    so). ``over_n`` and ``over_k`` are growth exponents over records and over states.
    """

    part: str
    case: str
    ours: float
    peer: str = ""
    theirs: float | None = None
    over_n: float | None = None
    over_k: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times as long the peer takes."""
        return None if self.theirs is None or not self.ours else self.theirs / self.ours


def forget() -> None:
    """Empty every cache of the library (`functools.cache`, `lru_cache`, and `Remembered` by it)."""
    for kept in gc.get_objects():
        if type(kept) is functools._lru_cache_wrapper:  # asks no other object for its class
            home = getattr(kept, "__module__", None) or ""
            if home.startswith("undertow") and home != COMPILED:
                kept.cache_clear()


def spent(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of one run with nothing remembered, and what it returned."""
    forget()
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def seconds(call: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call: the least of three runs where it is short."""
    first = spent(call)[0]
    return first if first > MANY else min(first, *(spent(call)[0] for _ in range(2)))


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Return the slope of log time over log size, by least squares.

    >>> round(exponent([10, 100, 1000], [2.0, 200.0, 20000.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def beside(
    part: str, case: str, ours: Callable[[], Any], peer: str = "",
    theirs: Callable[[], Any] | None = None,
) -> Row:  # fmt: skip
    """Return the row of a call and of the peer's; a first run loads and compiles what is needed."""
    ours()
    return Row(part, case, seconds(ours), peer, None if theirs is None else seconds(theirs))


def grown(
    part: str, case: str, sizes: Sequence[int], call: Callable[[int], Any], over: str = "n",
    peer: str = "", theirs: Callable[[int], Any] | None = None,
) -> Row:  # fmt: skip
    """Return the row of the largest size, with the growth over all of them.

    The peer is asked at the smallest size if ``peer`` says so; else at the largest.
    """
    call(sizes[0])
    times = [seconds(functools.partial(call, size)) for size in sizes]
    slope = exponent(sizes, times) if len(sizes) > 1 else None
    slow = None if theirs is None else seconds(functools.partial(theirs, sizes[-1]))
    growth = {"over_n": slope} if over == "n" else {"over_k": slope}
    return Row(part, case, times[-1], peer, slow, **growth)


def duration(value: float | None) -> str:
    """Return seconds for people.

    >>> duration(0.00123), duration(75.0), duration(None)
    ('1.23 ms', '75 s', '')
    """
    if value is None:
        return ""
    for scale, unit in ((1.0, "s"), (1e3, "ms")):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e6:.3g} us"


def _number(value: float | None, form: str = ".2f") -> str:
    return "" if value is None or not math.isfinite(value) else format(value, form)


def cells(row: Row) -> list[str]:
    """Return a row as the table has it, without its part."""
    return [
        row.case, duration(row.ours), row.peer, duration(row.theirs), _number(row.ratio, ".3g"),
        _number(row.over_n), _number(row.over_k),
    ]  # fmt: skip


def markdown(rows: Iterable[Row]) -> str:
    """Return one table of all rows, each part under its name."""
    lines = [
        "| case | ours | peer or plain version | theirs | ratio | growth over n | over k |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    part = ""
    for row in rows:
        if row.part != part:
            part = row.part
            lines.append(f"| **{part}** | | | | | | |")
        lines.append("| " + " | ".join(cells(row)) + " |")
    return "\n".join(lines) + "\n"


def show(rows: Iterable[Row]) -> Iterator[Row]:
    """Print each row as it comes, and pass it on."""
    for row in rows:
        print(f"{row.part:<22} " + "  ".join(cells(row)), flush=True)
        yield row
