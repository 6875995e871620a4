"""Time a ledger of 100,000 entries, and reservations: ``python -m benchmarks.ledger [URL]``.

Every entry has a window and a level of its own, so that no two segments join: the worst case. The
ledger is a file in a temporary directory, or in the PostgreSQL database at the URL. Then one
reservation over 100,000 groups, against what one statement for each group would take (measured on
fewer groups in the same run).
"""

import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import undertow as ut
from undertow.data.scopes import Scope
from undertow.ledger import checks, tables
from undertow.ledger.amounts import Spend
from undertow.ledger.book import Ledger
from undertow.ledger.events import Event
from undertow.ledger.requests import request
from undertow.ledger.rules import REST, canonical
from undertow.ledger.spends import Change

ENTRIES = 100_000
REPEATS = 50
GROUPS = 100_000
SINGLE = 500


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
    checks._known.clear()
    with ledger._checks.writing("reserve") as granting:
        transaction, account = granting.transaction, granting.account(ledger.dataset)
        before = list(account.cells[REST])
        seq, last, _, seal = transaction.head
        rows = []
        for k in range(entries):
            entry = request(
                f"entry {k}", rng.uniform(1e-4, 0.1), Scope(start=7 * k, end=7 * k + 7), None,
                "release", None,
            )  # fmt: skip
            account.reserve(entry)
            body = canonical({**entry.body(), "at": ""}, "entry")
            content = (seq + k + 1, ledger.dataset, "reserve", entry.release_id, body)
            rows.append(Event(*content, last, seal.of(last, *content)))
            last = rows[-1].hash
        transaction._run(tables.EVENTS.insert(), [row._asdict() for row in rows])
        transaction._run(tables.LEDGER.update().values(seq=seq + entries, hash=last))
        transaction.put_dataset(ledger.dataset, account.terms, account.layout)
        transaction.write(ledger.dataset, [Change([REST], before, account.cells[REST])])
    checks._known.clear()
    return time.perf_counter() - start


def one_by_one(ledger: Ledger, groups: int) -> float:
    """Return the seconds of the statements that one group after another needs, for all of them."""
    with ledger._checks.writing("reserve") as granting:
        transaction, account = granting.transaction, granting.account(ledger.dataset)
        start = time.perf_counter()
        where = account.region(Scope("group", range(SINGLE)))
        for cell in where.cells:
            transaction.segments(ledger.dataset, [cell], where.start, where.end)
        for cells, old, new in account.spends.changes(where, Spend(Fraction(1, 1024))):
            for cell in cells:
                transaction.write(ledger.dataset, [Change([cell], old, new)])
        seconds = time.perf_counter() - start
        for cells, old, new in account.spends.changes(where, Spend(Fraction(1, 1024))):
            transaction.write(ledger.dataset, [Change(cells, new, old)])
    return seconds * groups / SINGLE


def measure_groups(where: str) -> None:
    """Print the times of reservations over many groups."""
    ledger = Ledger(where, "groups", ut.Groups(2), 1.0)
    scope = Scope("group", range(GROUPS), 0, 7)
    numbers, seconds = itertools.count(), 0.0
    for number in range(3):
        reserve = lambda: ledger.reserve(f"r{next(numbers)}", 0.125, scope)  # noqa: E731
        seconds = median(reserve, 1) / 1000
        print(f"{f'reserve {GROUPS} groups, time {number + 1}':<44} {seconds:9.2f} s", flush=True)
    half = Scope("group", range(GROUPS // 2), 3, 5)
    print(f"{'left(half of the groups)':<44} {median(lambda: ledger.left(half), 1):9.2f} ms")
    print(f"{'level(half of the groups)':<44} {median(lambda: ledger.level(half), 1):9.2f} ms")
    slow = one_by_one(ledger, GROUPS)
    print(f"{'the same statements group by group':<44} {slow:9.2f} s, {slow / seconds:.1f} times")
    print(f"{'verify()':<44} {median(ledger.verify, 1):9.2f} ms", flush=True)


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
    print(f"{'reserve, first time: all is checked':<44} {median(reserve, 1):9.2f} ms")
    middle = Scope(start=7 * ENTRIES // 2, end=7 * ENTRIES // 2 + 365)

    def foreign() -> None:
        checks._at(ledger._store.address).mark = None
        reserve()

    calls: dict[str, Callable[[], object]] = {
        "open": lambda: Ledger(where, "bench"),
        "level()": ledger.level,
        "left()": ledger.left,
        "left(a year in the middle)": lambda: ledger.left(middle),
        "left(all but the first day)": lambda: ledger.left(Scope(start=1)),
        "entry(release id)": lambda: ledger.entry(f"entry {ENTRIES // 2}"),
        "reserve a week": reserve,
        "reserve a week in the middle": lambda: reserve(lambda _: middle),
        "reserve again (recorded)": lambda: ledger.reserve("new 0", 1e-6, Scope(start=-7, end=0)),
    }
    for name, call in calls.items():
        print(f"{name:<44} {median(call):9.2f} ms")
    calls = {
        "reserve after another writer": foreign,
        "verify()": ledger.verify,
        "entries()": ledger.entries,
        "reserve everything (all segments change)": lambda: reserve(lambda _: Scope()),
    }
    for name, call in calls.items():
        print(f"{name:<44} {median(call, 1):9.2f} ms", flush=True)
    checks._known.clear()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["UNDERTOW_STATE"] = str(Path(folder) / "state")
        where = sys.argv[1] if len(sys.argv) > 1 else str(Path(folder) / "ledger.db")
        measure(where)
        measure_groups(where if "://" in where else str(Path(folder) / "groups.db"))


if __name__ == "__main__":
    main()
