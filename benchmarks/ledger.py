"""Time a ledger of 100,000 entries, and reservations: ``python -m benchmarks.ledger [URL]``.

Every entry has a window and a level of its own, so that no two segments join: the worst case. The
ledger is a file in a temporary directory, or in the PostgreSQL database at the URL.
"""

import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import undertow as ut
from undertow.ledger import store
from undertow.ledger.book import Ledger, _request
from undertow.ledger.events import sealed
from undertow.ledger.replay import replayed
from undertow.ledger.rules import canonical
from undertow.ledger.scopes import HIGH, LOW, Scope

ENTRIES = 100_000
REPEATS = 50


def median(call: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median milliseconds of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * sorted(times)[repeats // 2]


def fill(ledger: Ledger, entries: int) -> float:
    """Write many entries at once, as if reserved one by one; return seconds.

    Only a benchmark may do this; `Ledger.verify` says afterwards whether it did it right.
    """
    rng, start = random.Random(1), time.perf_counter()
    with ledger._store.writing("reserve") as transaction:
        accounts, hashes = replayed(transaction.events())
        account, rows = accounts[ledger.dataset], []
        for k in range(entries):
            entry = _request(
                f"entry {k}", rng.uniform(1e-4, 0.1), Scope(start=7 * k, end=7 * k + 7), None,
                "release", None,
            )  # fmt: skip
            account.reserve(entry)
            content = (ledger.dataset, "reserve", entry.release_id,
                       canonical({**entry.body(), "at": ""}, "entry"))  # fmt: skip
            own = sealed(hashes[-1], len(hashes), *content)
            rows.append((len(hashes), *content, hashes[-1], own))
            hashes.append(own)
        names = [column.name for column in store._EVENTS.columns]
        transaction._run(
            store._EVENTS.insert(), [dict(zip(names, row, strict=True)) for row in rows]
        )
        transaction._run(store._LEDGER.update().values(seq=len(hashes) - 1, hash=hashes[-1]))
        transaction.put_dataset(ledger.dataset, account.terms, account.layout)
        for cell, line in account.cells.items():
            old = transaction.segments(ledger.dataset, cell, LOW, HIGH)
            transaction.replace_segments(ledger.dataset, cell, old, line)
    return time.perf_counter() - start


def measure(where: str) -> None:
    """Print the times of the main calls."""
    model = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    ledger = Ledger(where, "bench", model, 1.0)
    numbers = itertools.count()

    def reserve(
        scope: Callable[[int], Scope] = lambda k: Scope(start=-7 * k - 7, end=-7 * k),
    ) -> None:
        k = next(numbers)
        ledger.reserve(f"new {k}", 1e-6, scope(k))

    print(f"{'reserve, empty ledger':<44} {median(reserve):9.2f} ms")
    seconds = fill(ledger, ENTRIES)
    print(f"{f'{ENTRIES} entries written at once':<44} {seconds:9.1f} s")
    middle = Scope(start=7 * ENTRIES // 2, end=7 * ENTRIES // 2 + 365)
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: Ledger(where, "bench"),
        "level()": ledger.level,
        "left()": ledger.left,
        "left(a year in the middle)": lambda: ledger.left(middle),
        "left(all but the first day)": lambda: ledger.left(Scope(start=1)),
        "entry(release id)": lambda: ledger.entry("entry 50000"),
        "reserve a week": reserve,
        "reserve a week in the middle": lambda: reserve(lambda _: middle),
        "reserve again (recorded)": lambda: ledger.reserve("new 0", 1e-6, Scope(start=-7, end=0)),
    }
    for name, call in calls.items():
        print(f"{name:<44} {median(call):9.2f} ms")
    calls = {
        "verify()": ledger.verify,
        "entries()": ledger.entries,
        "reserve everything (all segments change)": lambda: reserve(lambda _: Scope()),
    }
    for name, call in calls.items():
        print(f"{name:<44} {median(call, 1):9.2f} ms", flush=True)


def main() -> None:
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(str(Path(folder) / "ledger.db"))


if __name__ == "__main__":
    main()
