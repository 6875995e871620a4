"""Random histories of releases through the public API, compared with what was guaranteed.

Every history is determined by its number: `single(number)` is one release without a ledger,
`account(number, folder)` a sequence of releases from one ledger, whose noise is fresh. A release is
granted if it returns, and refused if it raises an `UndertowError`. The joint leakage of everything
granted about a person must not exceed what was guaranteed: ``plan.limit`` of the one release, the
limit of the ledger. No tolerance but the oracle's own error.
"""

import itertools
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import undertow as ut
from tests.contracts import joint_histories as parts
from tests.contracts.joint_histories import Ask, Promise, Table, View, World
from tests.oracles.joint import ERROR, Answer
from undertow.errors import UndertowError

SMALL = {2: 6, 3: 4}  # most records of a series, by the number of states
LARGE = {2: 6, 3: 6}


@dataclass
class Outcome:
    """A history: what was granted, what that guaranteed, and what it leaks."""

    name: str
    kinds: list[tuple[str, str, bool]] = field(default_factory=list)  # view, method, granted
    promised: float = math.inf
    found: float = 0.0
    decisions: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # on other values of the same shape
    odd: list[str] = field(default_factory=list)  # what does not fit what was answered

    @property
    def granted(self) -> int:
        return sum(granted for *_, granted in self.kinds)

    @property
    def failure(self) -> str | None:
        """What is wrong with the history, None if nothing is."""
        if not self.found <= self.promised + ERROR:  # nan fails
            return f"{self.name}: promised {self.promised!r}, leaks {self.found!r}"
        if self.others and self.others != self.decisions:
            return f"{self.name}: {self.decisions} on one table, {self.others} on another"
        return f"{self.name}: {'; '.join(self.odd)}" if self.odd else None


@dataclass
class Tally:
    """What a run of histories saw."""

    histories: int = 0
    grants: Counter = field(default_factory=Counter)  # by (view, method)
    asked: Counter = field(default_factory=Counter)
    tight: int = 0  # granted histories that leak more than nine tenths of what was guaranteed
    excess: float = -math.inf
    failures: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.histories += 1
        for view, method, granted in outcome.kinds:
            self.asked[view, method] += 1
            self.grants[view, method] += granted
        if outcome.granted:
            self.excess = max(self.excess, outcome.found - outcome.promised)
            self.tight += outcome.found > 0.9 * outcome.promised
        if outcome.failure is not None:
            self.failures.append(outcome.failure)

    def share(self, view: str, methods: Iterable[str]) -> float:
        """The share of granted releases of a kind."""
        names = list(methods)
        asked = sum(self.asked[view, method] for method in names)
        return sum(self.grants[view, method] for method in names) / asked if asked else math.nan


def run(case: Callable[[int], Outcome], numbers: Iterable[int], seconds: float) -> Tally:
    """Compare histories with their guarantees until numbers or time run out."""
    tally, end = Tally(), time.monotonic() + seconds
    for number in numbers:
        tally.add(case(number))
        if time.monotonic() > end:
            break
    return tally


# --- one release ----------------------------------------------------------------------------------


def made(
    plan: Any, data: Any, ledger: ut.Ledger | None = None, seed: int | None = None
) -> tuple[Any, str]:
    """What a release returned and "granted", or None and the name of the refusal."""
    verb: Any = ut.release
    if isinstance(plan.query, ut.Series):
        verb = ut.sanitize
    if isinstance(plan.query, ut.Redacted):
        verb = ut.sanitize
    try:
        with warnings.catch_warnings():  # about the shape of the table, which is as it is here
            warnings.simplefilter("ignore", UserWarning)
            return verb(plan, data, ledger=ledger, insecure_seed=seed), "granted"
    except UndertowError as refusal:
        return None, type(refusal).__name__


def promise(plan: Any) -> Promise:
    """What the plan guarantees, whatever was proved."""
    secret = plan.leakage.secret
    pairs = (
        None
        if secret.value_pairs is None
        else tuple((int(x), int(y)) for x, y in secret.value_pairs)
    )
    targets = secret.targets
    if isinstance(plan.query, ut.Redacted):
        targets = plan.query.protect
    return Promise(plan.limit, plan.against, plan.unit, pairs, targets)


def worst(
    where: World, table: Table, told: Promise, granted: Callable[[Any], list[Answer]]
) -> float:
    """The largest joint leakage about any person of the table."""
    seen: dict[Any, float] = {}
    for person in table.people:
        n, places = table.series(person)
        public = None
        if table.fill is not None:
            n = person.present[-1] + 1
            if told.against == "any":  # absent steps are public, and records in one state
                public = {step: table.fill for step in range(n) if step not in places}
        answers = tuple(granted(person))
        key = (n, answers, tuple(sorted((public or {}).items())))
        if key not in seen:
            seen[key] = parts.joint(where, told, n, answers, public)
    return max(seen.values(), default=0.0)


def size(rng: np.random.Generator, where: World, most: dict[int, int]) -> int:
    """The number of records of the longest series; one whose steps differ has its own number."""
    largest = where.longest or most[where.states]
    if where.longest is not None and rng.random() < 0.7:
        return largest
    return int(rng.integers(2, largest + 1, size=2).max())


def single(number: int, most: dict[int, int] | None = None) -> Outcome:
    """One release without a ledger."""
    rng = np.random.default_rng([14, number])
    where = parts.world(rng)
    n = size(rng, where, most or SMALL)
    if where.states == 3 and where.longest is not None:
        n = min(n, (most or SMALL)[3])
    table = parts.table(rng, n)
    draw, unit = rng.random(), "record"
    asked: Any = None
    if draw < 0.1:
        asked = ut.Series()
    elif draw < 0.14 and where.dependent is None:
        asked = ut.Redacted(int(rng.integers(n)), length=n)
    elif draw < 0.24:
        unit = "person"
    if draw > 0.9 and table.every:
        table = replace(table, fill=int(rng.integers(where.states)))
    if draw > 0.96:
        table = replace(table, timed=False, every=False, fill=None)
    ask = parts.ask(rng, where, n, asked=asked, unit=unit)
    view = parts.view(rng, table)
    if view.window is not None and ask.length is not None and ask.length <= n:
        first = int(rng.integers(n - ask.length + 1)) + table.people[0].first
        view = replace(view, window=(first, first + ask.length))  # what a plan of this length fits
    if isinstance(asked, ut.Redacted):
        view = replace(view, by=None, groups=None)
        # a redaction is for exactly so many records: a whole series, or a window of one
        length = n if view.window is None else int(rng.integers(1, n + 1))
        ask = replace(ask, length=n, query=ut.Redacted(int(rng.integers(n)), length=n))
        if length < n and length > 1:
            first = int(rng.integers(n - length + 1)) + table.people[0].first
            view = replace(view, window=(first, first + length))
            chosen = ut.Redacted(int(rng.integers(length)), length=length)
            ask = replace(ask, length=length, query=chosen)
    return release_of(f"single {number}", ask, table, view, rng)


def release_of(name: str, ask: Ask, table: Table, view: View, rng: np.random.Generator) -> Outcome:
    """One release of a plan on a view of a table, judged."""
    plan, where = ask.plan(), ask.world
    out = Outcome(f"{name}: {ask} | {view} | {_told(table)}")
    if isinstance(plan, UndertowError):
        return out
    try:
        data = view.data(table, table.frame(rng, where.states))
    except UndertowError as refusal:
        out.kinds.append((view.kind, ask.method, False))
        out.decisions = (type(refusal).__name__,)
        return out
    result, decision = made(plan, data, seed=1)
    local = isinstance(plan.query, ut.Series | ut.Redacted)
    other = table.frame(rng, where.states, missing=not local)
    out.decisions = (decision,)
    out.others = (made(plan, view.data(table, other), seed=1)[1],)
    out.kinds.append((view.kind, ask.method, result is not None))
    if result is None:
        return out
    out.odd = [] if local else sizes_odd(result, table, view)
    told = promise(plan)
    if isinstance(plan.query, ut.Redacted) and view.window is not None:
        return _redacted(out, ask, plan, table, view)
    out.promised = told.limit
    out.found = worst(
        where, table, told, lambda person: parts.answers(plan, table, view, person, where.states)
    )
    if not local and plan.missing == "any" and not isinstance(plan.query, ut.Linear):
        gone = parts.pattern(rng, max(table.series(person)[0] for person in table.people))
        out.found = max(out.found, worst(
            where, table, told,
            lambda person: parts.answers(plan, table, view, person, where.states, gone),
        ))  # fmt: skip
    return out


def _redacted(out: Outcome, ask: Ask, plan: Any, table: Table, view: View) -> Outcome:
    """A redacted window: the protected record is counted from the window's first."""
    out.promised = plan.limit
    for person in table.people:
        records = [place for cell in view.covered(table, person).values() for place in cell]
        if not records:
            continue
        told = replace(promise(plan), targets=tuple(records[p] for p in plan.query.protect))
        answers = parts.answers(plan, table, view, person, ask.world.states)
        n, _ = table.series(person)
        out.found = max(out.found, parts.joint(ask.world, told, n, answers))
    return out


def sizes_odd(result: Any, table: Table, view: View) -> list[str]:
    """Whether the release says the same as the table about how many records are behind it."""
    counted: Counter = Counter()
    for person in table.people:
        for records in view.covered(table, person).values():
            counted[None] += len(records)
    said = sum(result.sizes)
    return [] if said == counted[None] else [f"{said} records said, {counted[None]} covered"]


def _told(table: Table) -> str:
    people = "; ".join(
        f"{person.first}+{list(person.present)} groups {list(person.groups)}"
        for person in table.people
    )
    return f"every={table.every} fill={table.fill} timed={table.timed} people: {people}"


# --- ledgers --------------------------------------------------------------------------------------

STYLES = ("disjoint", "overlapping", "repeated", "random", "adaptive", "groups", "series")


@dataclass
class Account:
    """One data set of a ledger, and all that was granted from it."""

    where: World
    table: Table
    frame: pl.DataFrame
    ledger: ut.Ledger
    granted: dict[str, tuple[Any, View, Any]] = field(default_factory=dict)  # by release id

    def ask(self, ask: Ask, view: View) -> tuple[Any, str]:
        """Release one plan on one view; a replay of the same value counts once."""
        plan = ask.plan()
        if isinstance(plan, UndertowError):
            return None, "unplanned"
        try:
            data = view.data(self.table, self.frame)
        except UndertowError as refusal:
            return None, type(refusal).__name__
        result, decision = made(plan, data, self.ledger)
        if result is None:
            return None, decision
        release_id = getattr(result, "release_id", None)
        before = self.granted.get(release_id or "")
        if release_id is None or before is None or before[2] != result.value:
            key = release_id if release_id and before is None else f"draw {len(self.granted)}"
            self.granted[key] = (plan, view, getattr(result, "value", None))
        return result, decision

    def leakage(self) -> float:
        """The joint leakage of all that was granted."""
        told = Promise(self.ledger.limit, self.ledger.against, self.ledger.unit)

        def answers(person: Any) -> list[Answer]:
            return [
                answer
                for plan, view, _ in self.granted.values()
                for answer in parts.answers(plan, self.table, view, person, self.where.states)
            ]

        return worst(self.where, self.table, told, answers)


def account(number: int, folder: Path, most: dict[int, int] | None = None) -> Outcome:
    """A sequence of releases from a ledger, in every third history also from a second one.

    The second is of a table with the same shape and other values, and must be granted the same.
    """
    rng = np.random.default_rng([15, number])
    style = STYLES[number % len(STYLES)]
    unit: Any = "person" if style != "series" and rng.random() < 0.15 else "record"
    where = parts.world(rng, three=0.2)
    n = min(size(rng, where, most or SMALL), (most or SMALL)[where.states])
    if style in ("overlapping", "repeated", "random") and where.states == 3:
        n = min(n, 4)
    limit = float(rng.choice([1.0, 2.0, 3.0, 5.0]))
    against: Any = "ignorant" if rng.random() < 0.2 else "any"
    length = None if rng.random() < 0.6 else int(rng.choice([n, max(2, n - 2), 2]))
    if unit == "person":
        length = n
    model = where.model(None if where.stack else length)
    steps = int(rng.integers(2, 5)) if where.states == 2 else int(rng.integers(2, 4))
    table = parts.table(rng, n, people=2)
    if style == "groups":
        table = replace(table, named=True)
    script = list(_script(rng, style, where, table, n, steps, limit, length, unit))
    name = f"account {number} {style}: limit {limit}, against {against}, {unit}, length {length}"
    out = Outcome(f"{name}, {where} | {_told(table)}")
    kept = []
    for sibling in ("one", "two") if number % 3 == 0 and style != "adaptive" else ("one",):
        try:
            ledger = ut.Ledger(
                folder / f"{number}-{sibling}.db",
                "data",
                model,
                limit,
                against=against,
                secret=ut.Person() if unit == "person" else None,
            )
        except UndertowError:
            return out
        book = Account(where, table, table.frame(rng, where.states), ledger)
        kept.append((book, _played(book, script, style, out if sibling == "one" else None)))
    decisions = kept[0][1]
    out.decisions = tuple(decisions)
    out.others = tuple(kept[1][1]) if len(kept) > 1 else ()
    out.promised = limit
    out.found = max(book.leakage() for book, _ in kept)
    out.name += " | " + " / ".join(
        f"{decision}: {ask} {view}"
        for decision, (ask, view) in zip(decisions, script, strict=False)
    )
    return out


def _played(
    book: Account, script: list[tuple[Ask, View]], style: str, out: Outcome | None
) -> list[str]:
    """Ask everything; the adaptive one skips a question where the last answer was small."""
    decisions, skip = [], False
    for ask, view in script:
        if skip:
            skip = False
            decisions.append("skipped")
            continue
        result, decision = book.ask(ask, view)
        decisions.append(decision)
        if decision != "unplanned" and out is not None:
            out.kinds.append((f"ledger {style}", ask.method, result is not None))
        value = getattr(result, "value", None)
        skip = style == "adaptive" and isinstance(value, int) and value < 1
    return decisions


def _script(
    rng: np.random.Generator, style: str, where: World, table: Table, n: int, steps: int,
    limit: float, length: int | None, unit: str,
) -> Iterable[tuple[Ask, View]]:  # fmt: skip
    """The questions of a history, in order."""
    last = max(person.first + person.present[-1] for person in table.people) + 1
    cuts = sorted({0, last, *rng.integers(last + 1, size=steps - 1).tolist()})
    windows = list(itertools.pairwise(cuts))
    if length is not None:  # as long as the ledger's model says that series are
        windows = [(a, a + length) for a in range(0, last - length + 1, length)] or windows
    same: Ask | None = None
    for step in range(steps):
        level = limit if style in ("disjoint", "groups") else limit / int(rng.choice([1, 2, 2, 3]))
        asked = parts.query(rng, where.states, n)
        while isinstance(asked, ut.Linear | ut.Mean):
            asked = parts.query(rng, where.states, n)
        if style == "series" and step == int(rng.integers(2)) and where.dependent is None:
            asked = ut.Series()
        size: Any = "draw" if rng.random() < 0.4 and unit == "record" else length
        ask = parts.ask(rng, where, n, level, asked, None, unit, size)
        if where.stack is not None:
            ask = replace(ask, length=None)
        if isinstance(ask.against, ut.Adversary) or rng.random() < 0.6:
            ask = replace(ask, against="any")
        if rng.random() < 0.6 and not isinstance(asked, ut.Series):
            ask = replace(ask, method="exchange", pairs=None, protect=None)
        view = parts.view(rng, table, spelled=True)
        if style == "disjoint":
            view = View(windows[step % len(windows)])
        elif style == "repeated":
            same, view = same or ask, View(windows[0])
            ask = same if rng.random() < 0.5 else ask
        elif style == "groups":
            view = View(None, "g", (parts.SPELLED[rng.integers(len(parts.SPELLED))],))
        elif style == "series" and rng.random() < 0.5:
            view = View()
        yield ask, view
