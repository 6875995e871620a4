"""A ledger of many entries, and reservations: ``python -m benchmarks.ledger``.

Every entry has a window and a level of its own, so that no two segments join: the worst case. The
ledger is a file in a temporary directory. Then one reservation over many groups, against what one
statement for each group would take (measured on fewer groups in the same run).
"""

import itertools
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import undertow as ut
from benchmarks.rows import Row, beside, show, spent
from undertow.certificate import canonical
from undertow.data.scopes import Scope
from undertow.ledger import checks, transactions
from undertow.ledger.amounts import Spend
from undertow.ledger.book import Ledger
from undertow.ledger.entries import Change, Event, request
from undertow.ledger.rules import REST

PART = "Ledger"
ENTRIES = 20_000
GROUPS = 20_000
SINGLE = 500


def fill(ledger: Ledger, entries: int) -> float:
    """Write many entries at once, as if reserved one by one; return seconds.

    Only a benchmark may do this; `Ledger.verify` says afterwards whether it did it right.
    """
    rng, start = random.Random(1), time.process_time()
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
        transaction._run(transactions.EVENTS.insert(), [row._asdict() for row in rows])
        transaction._run(transactions.LEDGER.update().values(seq=seq + entries, hash=last))
        transaction.put_dataset(ledger.dataset, account.terms, account.layout)
        transaction.write(ledger.dataset, [Change([REST], before, account.cells[REST])])
    checks._known.clear()
    return time.process_time() - start


def one_by_one(ledger: Ledger, groups: int) -> float:
    """Return the seconds of the statements that one group after another needs, for all of them."""
    with ledger._checks.writing("reserve") as granting:
        transaction, account = granting.transaction, granting.account(ledger.dataset)
        start = time.process_time()
        where = account.region(Scope("group", range(SINGLE)))
        for cell in where.cells:
            transaction.segments(ledger.dataset, [cell], where.start, where.end)
        for cells, old, new in account.spends.changes(where, Spend(Fraction(1, 1024))):
            for cell in cells:
                transaction.write(ledger.dataset, [Change([cell], old, new)])
        seconds = time.process_time() - start
        for cells, old, new in account.spends.changes(where, Spend(Fraction(1, 1024))):
            transaction.write(ledger.dataset, [Change(cells, new, old)])
    return seconds * groups / SINGLE


def group_rows(where: str) -> Iterator[Row]:
    """Yield reservations over many groups, beside one statement for each group."""
    ledger = Ledger(where, "groups", ut.Groups(2), 1.0)
    scope = Scope("group", range(GROUPS), 0, 7)
    numbers = itertools.count()
    reserve = lambda: ledger.reserve(f"r{next(numbers)}", 0.03125, scope)  # noqa: E731
    reserve()
    slow = one_by_one(ledger, GROUPS)
    yield Row(PART, f"reserve {GROUPS:,} groups", spent(reserve)[0],
              f"the same statements, one by one ({SINGLE})", slow)  # fmt: skip
    half = Scope("group", range(GROUPS // 2), 3, 5)
    yield beside(PART, "what is left for half of the groups", lambda: ledger.left(half))
    yield Row(PART, "verify all of these", spent(ledger.verify)[0])


def entry_rows(where: str, entries: int) -> Iterator[Row]:
    """Yield the main calls of a ledger with many entries."""
    model = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    ledger = Ledger(where, "bench", model, 1.0)
    numbers = itertools.count()

    def reserve(
        scope: Callable[[int], Scope] = lambda k: Scope(start=-7 * k - 7, end=-7 * k),
    ) -> None:
        k = next(numbers)
        ledger.reserve(f"new {k}", 1e-6, scope(k))

    yield beside(PART, "reserve a week, empty ledger", reserve)
    fill(ledger, entries)
    middle = Scope(start=7 * entries // 2, end=7 * entries // 2 + 365)
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: Ledger(where, "bench"),
        "reserve a week": reserve,
        "reserve a year in the middle": lambda: reserve(lambda _: middle),
        "what is left": ledger.left,
        "what is left of a year in the middle": lambda: ledger.left(middle),
        "find an entry": lambda: ledger.entry(f"entry {entries // 2}"),
        "verify": ledger.verify,
    }
    for name, call in calls.items():
        yield beside(PART, f"{name}, {entries:,} entries", call)
    checks._known.clear()


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("UNDERTOW_STATE")
        os.environ["UNDERTOW_STATE"] = str(Path(folder) / "state")
        try:
            found = entry_rows(str(Path(folder) / "ledger.db"), 20 if quick else ENTRIES)
            yield from itertools.islice(found, 1) if quick else found
            if not quick:
                yield from group_rows(str(Path(folder) / "groups.db"))
        finally:
            os.environ.pop("UNDERTOW_STATE")
            if before is not None:
                os.environ["UNDERTOW_STATE"] = before


if __name__ == "__main__":
    list(show(rows()))
