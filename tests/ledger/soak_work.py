"""Releases that are killed at any moment, and releases that race for the same budget.

The short versions run with the other tests of the ledger. The long ones are for the soak:
`kill_points(where, folder, 1000, seed)` and `race(where, 10_000, processes)`, each on a ledger
that does not exist yet; both return what they saw, and its ``faults`` must be empty.
"""

import json
import multiprocessing as mp
import os
import random
import secrets
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import undertow as ut
from tests.processes import CONTEXT
from undertow import ledger as checkpoints
from undertow.data.scopes import Scope
from undertow.errors import BudgetExceeded, LedgerError
from undertow.ledger import store
from undertow.ledger.book import Ledger
from undertow.ledger.rules import Entry

DATASET, MODEL, LIMIT = "soak", ut.Groups(2), 1.0
LEVEL = ut.dp_budget(MODEL, LIMIT) / 4
SLOTS = 4  # releases of LEVEL that fit one window
KILLED, REFUSED, FAILED = 77, 78, 1
CHECKPOINTS = [
    f"{what}-{when}"
    for what in ("create", "open", "reserve", "begin", "noise", "confirm", "show")
    for when in ("begun", "written", "committed")
    if what not in ("noise", "show") or when == "begun"
]
"""Where a release can be killed, in order; noise and show stand for what the caller does."""


@dataclass(frozen=True)
class Task:
    """One release in a process of its own, and when that process dies."""

    where: str
    shown: str  # the file that stands for the public
    release_id: str
    window: int
    checkpoint: str | None = None
    seconds: float | None = None


def release_once(task: Task) -> None:
    """Reserve, draw, confirm, show: what a release does, with a random number for the answer."""
    ledger = Ledger(task.where, DATASET, MODEL, LIMIT)
    scope = Scope(start=task.window, end=task.window + 1)
    result = ledger.reserve(task.release_id, LEVEL, scope, {"plan": "soak"}).result
    if result is None:
        ledger.begin(task.release_id)
        checkpoints.reached("noise-begun")
        result = ledger.confirm(task.release_id, {"value": secrets.randbelow(10**12)})
    checkpoints.reached("show-begun")
    line = json.dumps([task.release_id, result["value"]]) + "\n"
    handle = os.open(task.shown, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, line.encode())
    os.close(handle)


# --- processes that die ---------------------------------------------------------------------------


def leave(work: Callable[[Any], None], task: Any) -> None:
    """Do the work and leave, never through the interpreter's doors."""

    def reached(checkpoint: str) -> None:
        if checkpoint == getattr(task, "checkpoint", None):
            os._exit(KILLED)

    code = FAILED
    try:
        checkpoints.reached = reached
        work(task)
        code = 0
    except BudgetExceeded:
        code = REFUSED
    except BaseException:  # noqa: BLE001  (the process ends here)
        traceback.print_exc()
    finally:
        os._exit(code)


def _nursery(pipe: Connection, durability: str) -> None:
    """Fork a child for each task, kill it when its time is up, and report how it ended."""
    store.DURABILITY = durability
    while (order := pipe.recv()) is not None:
        work, task = order
        child = os.fork()
        if not child:
            leave(work, task)
        seconds = getattr(task, "seconds", None)
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        pipe.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@contextmanager
def nursery(durability: str = "OFF") -> Iterator[Callable[..., int]]:
    """Give a function that does some work in a new process and returns its exit code.

    The processes are forked from one that is started afresh, so each costs milliseconds.
    """
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    parent = context.Process(target=_nursery, args=(there, durability))
    parent.start()

    def run(work: Callable[[Any], None], task: Any) -> int:
        here.send((work, task))
        code: int = here.recv()
        return code

    try:
        yield run
    finally:
        here.send(None)
        parent.join(60)
        here.close()
        there.close()
        parent.close()


# --- what must hold -------------------------------------------------------------------------------


@dataclass
class Seen:
    """What a run saw."""

    runs: int = 0
    killed: int = 0
    refused: int = 0
    confirmed: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list)


def shown_values(shown: Path) -> dict[str, set[int]]:
    """Return what the public has seen, by release."""
    values: dict[str, set[int]] = {}
    for line in shown.read_text().splitlines() if shown.exists() else []:
        key, value = json.loads(line)
        values.setdefault(key, set()).add(value)
    return values


def faults(where: str, shown: Path) -> list[str]:
    """Return every way in which the ledger and the public disagree, or the budget is overspent."""
    public = shown_values(shown)
    if "://" not in where and not Path(where).exists():
        return ["an answer without a ledger"] if public else []
    try:
        ledger = Ledger(where, DATASET, MODEL, LIMIT)
        ledger.verify()
    except LedgerError as error:
        return [f"{type(error).__name__}: {error}"]
    entries = {entry.release_id: entry for entry in ledger.entries()}
    found = [
        f"{key} shown as {values}, recorded as {entries.get(key)}"
        for key, values in public.items()
        if key not in entries or values != {(entries[key].result or {}).get("value")}
    ]
    spent: dict[int | None, Fraction] = {}
    for entry in entries.values():
        spent[entry.scope.start] = spent.get(entry.scope.start, Fraction(0)) + _level(entry)
    worst = max(spent.values(), default=Fraction(0))
    if worst > Fraction(ledger.budget) or Fraction(ledger.level()) < worst:
        found.append(f"overspent: {float(worst)} of {ledger.budget}, said {ledger.level()}")
    return found


def _level(entry: Entry) -> Fraction:
    return Fraction(entry.level or 0.0)


def kill_points(where: str, folder: Path, number: int, seed: int, every: int = 1) -> Seen:
    """Kill ``number`` releases at random checkpoints or moments; then repeat all of them.

    Twice as many ids as fit each window compete. What must hold is checked after every
    ``every``-th kill and at the end, where each release is either recorded and shown, or refused.
    """
    rng, shown, seen = random.Random(seed), folder / "shown", Seen()
    start, patience = time.monotonic(), 0.15  # follows how long a release takes here
    with nursery() as run:
        for k in range(number):
            name = rng.randrange(k + 1) if rng.random() < 0.3 else k  # sometimes an old one
            how: dict[str, Any] = (
                {"checkpoint": rng.choice(CHECKPOINTS[0 if k < 20 else 6 :])}
                if rng.random() < 0.5
                else {"seconds": rng.uniform(0, patience)}
            )
            code = run(release_once, _task(where, shown, name, **how))
            if "seconds" in how:
                patience *= 1.15 if code == -signal.SIGKILL else 0.9
            seen.runs += 1
            seen.killed += code in (KILLED, -signal.SIGKILL)
            seen.refused += code == REFUSED
            if code not in (0, KILLED, REFUSED, -signal.SIGKILL):
                seen.faults.append(f"run {k} ended with {code}")
            if k % every == 0:
                seen.faults += [f"after run {k}: {fault}" for fault in faults(where, shown)]
        codes = [run(release_once, _task(where, shown, name)) for name in range(number)]
    seen.faults += faults(where, shown)
    seen.confirmed = codes.count(0)
    if (
        len(shown_values(shown)) != seen.confirmed
        or seen.confirmed + codes.count(REFUSED) != number
    ):
        seen.faults.append(f"{seen.confirmed} repeated, {len(shown_values(shown))} shown")
    if seen.confirmed != SLOTS * -(-number // (2 * SLOTS)) and number % (2 * SLOTS) == 0:
        seen.faults.append(f"{seen.confirmed} releases fitted, not half of {number}")
    seen.seconds = time.monotonic() - start
    return seen


def _task(where: str, shown: Path, name: int, **how: Any) -> Task:
    return Task(where, str(shown), f"r{name}", name // (2 * SLOTS), **how)


# --- processes that race --------------------------------------------------------------------------


def _racer(
    where: str, durability: str, mine: list[tuple[str, int]], gate: Any, out: Connection
) -> None:
    """Reserve one after another once all are there; report how many were granted."""
    store.DURABILITY = durability
    granted = 0
    gate.wait()
    ledger = Ledger(where, DATASET, MODEL, LIMIT)
    for key, window in mine:
        try:
            ledger.reserve(key, LEVEL, Scope(start=window, end=window + 1))
        except BudgetExceeded:
            continue
        granted += 1
    out.send(granted)


def race(where: str, reservations: int, processes: int = 8, durability: str = "OFF") -> Seen:
    """Let processes compete for windows that hold an eighth of what is asked for.

    Each of the ``reservations`` is a different release, so exactly ``SLOTS`` per window succeed.
    """
    windows = max(1, reservations // (8 * SLOTS))
    asked = [(f"r{k}", k % windows) for k in range(reservations)]
    gate, seen, start = CONTEXT.Barrier(processes), Seen(runs=reservations), time.monotonic()
    racers = []
    for k in range(processes):
        here, there = CONTEXT.Pipe(duplex=False)
        arguments = (where, durability, asked[k::processes], gate, there)
        racers.append((CONTEXT.Process(target=_racer, args=arguments), here, there))
        racers[-1][0].start()
    for process, here, there in racers:
        there.close()
        try:
            seen.confirmed += here.recv()
        except EOFError:
            seen.faults.append("a process failed")
        here.close()
        process.join()
        process.close()
    seen.refused = reservations - seen.confirmed
    ledger = Ledger(where, DATASET)
    spent = [entry.scope.start or 0 for entry in ledger.entries()]
    if sorted(set(spent)) != list(range(windows)) or len(spent) != SLOTS * windows:
        seen.faults.append(f"{len(spent)} entries, {SLOTS * windows} fit")
    if seen.confirmed != len(spent) or ledger.verify() != len(spent) + 1 or ledger.left():
        seen.faults.append(f"{seen.confirmed} were granted, {len(spent)} are recorded")
    seen.seconds = time.monotonic() - start
    return seen
