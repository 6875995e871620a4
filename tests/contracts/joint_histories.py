"""What random histories are made of: worlds, plans, small tables, and views of them.

What a granted release answered is read off the table that was built here, never asked of the
package. `joint_runs` puts histories together and compares them with their guarantees.
"""

import dataclasses
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

import undertow as ut
from tests.contracts.method_plans import secret_of
from tests.oracles import joint as oracle
from tests.oracles.joint import Answer, Noisy
from undertow.errors import UndertowError

ROOM = 60_000  # most output vectors of a history that are enumerated; else so many at random

TWO: dict[str, Any] = {  # two states, by name
    "activity": [[0.882, 0.118], [0.305, 0.695]],
    "negative": [[0.3, 0.7], [0.7, 0.3]],
    "sticky": [[0.9, 0.1], [0.1, 0.9]],
    "leaving": [[0.5, 0.5], [0.01, 0.99]],
    "never twice": [[0.0, 1.0], [0.5, 0.5]],
    "alternating": [[0.1, 0.9], [0.85, 0.15]],
    "wavering": [[0.35, 0.65], [0.6, 0.4]],
}
THREE: dict[str, Any] = {
    "round": [[0.07, 0.91, 0.02], [0.11, 0.02, 0.87], [0.39, 0.02, 0.59]],
    "pair": [[0.235, 0.02, 0.745], [0.105, 0.02, 0.875], [0.505, 0.425, 0.07]],
    "plain": [[0.6, 0.2, 0.2], [0.3, 0.5, 0.2], [0.1, 0.3, 0.6]],
    "turning": [[0.2, 0.5, 0.3], [0.3, 0.2, 0.5], [0.5, 0.3, 0.2]],
    "ladder": [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]],
}
# chains whose exact plans for any length take no second: with any start, and from the stationary
QUICK = {"activity", "plain", "ladder"}
STEADY = QUICK | {"negative", "sticky", "wavering", "turning"}
METHODS = ("best", "exact", "exchange", "quilt", "group", "dependent")
IGNORANT = ("quilt-approx", "wasserstein")
LEVELS = (0.5, 1.0, 2.0, 4.0)


# --- models ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """How the records of one person depend on each other; its models differ by their length."""

    name: str
    states: int
    start: tuple[float, ...] | None = None
    stack: tuple[int, ...] | None = None  # which chains of TWO or THREE follow each other
    others: tuple[str, ...] = ()  # a ModelSet of these chains as well
    dependent: int | None = None  # Groups of this size

    def chains(self, length: int | None = None) -> list[ut.MarkovChain]:
        """Every chain that the data may come from."""
        pool = TWO if self.states == 2 else THREE
        start: Any = "stationary" if self.start is None else self.start
        if self.stack is not None:
            rows = [list(pool.values())[place] for place in self.stack]
            return [ut.MarkovChain(rows, start=start)]
        return [
            ut.MarkovChain(pool[name], start=start, length=length)
            for name in (self.name, *self.others)
        ]

    def model(self, length: int | None) -> Any:
        """The package's model, for a length or for any."""
        if self.dependent is not None:
            return ut.Groups(self.dependent)
        chains = self.chains(length)
        return chains[0] if len(chains) == 1 else ut.ModelSet(chains)

    @property
    def longest(self) -> int | None:
        """The number of records, where the steps differ."""
        return None if self.stack is None else len(self.stack) + 1

    def slow(self, method: str, length: int | None) -> bool:
        """Whether a plan would take seconds."""
        if length is not None or self.stack is not None:
            return False
        if method == "wasserstein":
            return True
        fine = STEADY if self.start is None else QUICK
        return method in ("best", "exact", "dependent") and not {self.name, *self.others} <= fine


def world(rng: np.random.Generator, three: float = 0.4) -> World:
    """A random world, of three states with a given probability."""
    states = 3 if rng.random() < three else 2
    pool = list(TWO if states == 2 else THREE)
    name = str(rng.choice(pool))
    draw = rng.random()
    if draw < 0.06:
        return World("any", states, dependent=int(rng.integers(1, 4)))
    law: tuple[float, ...] | None = None
    if rng.random() < 0.35 or (draw < 0.2 and draw >= 0.06):
        edge = tuple(np.eye(states)[rng.integers(states)].tolist())
        law = edge if rng.random() < 0.4 else ((0.3, 0.7) if states == 2 else (0.2, 0.3, 0.5))
    if draw < 0.2:
        stack = tuple(int(place) for place in rng.integers(len(pool), size=rng.integers(2, 6)))
        return World("stack", states, law, stack)
    if draw < 0.28:
        return World(name, states, law, others=(str(rng.choice([p for p in pool if p != name])),))
    return World(name, states, law)


# --- plans ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask:
    """What is calibrated; two equal ones are one plan."""

    world: World
    query: Any
    epsilon: float
    method: str = "best"
    length: int | None = None
    against: Any = "any"
    unit: str = "record"
    pairs: tuple[tuple[int, int], ...] | None = None
    protect: tuple[int, ...] | None = None
    valid_for: str | None = None
    missing: Any = None

    def plan(self) -> Any:
        """The plan, or the error that refused it."""
        return _plan(self)

    def __str__(self) -> str:
        told = [
            f"{name.name}={getattr(self, name.name)}"
            for name in dataclasses.fields(self)
            if name.name != "world" and getattr(self, name.name) not in (None, "record")
        ]
        return f"{self.world.name}{self.world.start or ''}: {', '.join(told)}"


@lru_cache(maxsize=4096)
def _plan(ask: Ask) -> Any:
    more: dict[str, Any] = {}
    if not isinstance(ask.query, ut.Series | ut.Redacted):
        whole = ask.unit == "person"
        more = {"secret": ut.Person() if whole else secret_of(ask.pairs, ask.protect)}
    if ask.valid_for is not None:
        more["valid_for"] = ask.valid_for
    if ask.missing is not None:
        more["missing"] = ask.missing
    try:
        model = ask.world.model(ask.length)
        return ut.calibrate(ask.query, model, ask.epsilon, ask.against, method=ask.method, **more)
    except UndertowError as refusal:
        return refusal


def query(rng: np.random.Generator, states: int, n: int) -> Any:
    draw = rng.random()
    if draw < 0.6:
        counted = [x for x in range(states) if rng.random() < 0.4] or [int(rng.integers(states))]
        return ut.Count(counted[: states - 1])
    if draw < 0.82:
        return ut.Histogram()
    if draw < 0.92:
        return ut.Sum(0, states - 1, steps=states - 1)
    if draw < 0.96:
        return ut.Mean(0, states - 1, steps=states - 1)
    weights = rng.integers(-2, 3, size=n)
    return ut.Linear(weights if weights.any() else weights + 1, states - 1, lower=0.0)


def ask(
    rng: np.random.Generator, where: World, n: int, epsilon: float | None = None,
    asked: Any = None, against: Any = None, unit: str = "record", length: Any = "draw",
) -> Ask:  # fmt: skip
    """A random plan for a world whose series have about n records."""
    asked = query(rng, where.states, n) if asked is None else asked
    if length == "draw":
        near = int(rng.integers(2, max(n, 2) + 2))
        length = (None, None, None, n, n, near)[rng.integers(6)] if n > 1 else None
    if against is None:
        against = ("any", "any", "any", "ignorant", "informed")[rng.integers(5)]
        if rng.random() < 0.05 and n > 1:
            target, *known = rng.permutation(n)[: rng.integers(1, n + 1)].tolist()
            against, length = ut.Adversary(target, known), n
    methods = [*METHODS, *(IGNORANT if against == "ignorant" else ())]
    method = str(rng.choice(methods))
    if isinstance(asked, ut.Series):
        method = ("best", "exact", "exchange", "xor")[rng.integers(4)]
    if isinstance(asked, ut.Redacted):
        method = ("best", "optimal", "mq", "3r-constant")[rng.integers(4)]
    if isinstance(asked, ut.Series) and where.states == 3 and (length is None or where.others):
        method, against = "exchange", "any"  # others take long
    if where.slow(method, length):
        method = "exchange"
    pairs = protect = None
    if "quilt" in method or method == "wasserstein":
        if where.states == 3 and rng.random() < 0.2:
            pairs = ((0, 1),)
        if length is not None and rng.random() < 0.3:
            protect = (int(rng.integers(length)),)
    level = float(rng.choice(LEVELS)) if epsilon is None else epsilon
    valid_for = (None, None, "windows", "any")[rng.integers(4)]
    missing = (None, None, "any", "none", 0)[rng.integers(5)]
    if where.dependent is not None or isinstance(asked, ut.Series | ut.Redacted):
        missing = None
    return Ask(
        where, asked, level, method, length, against, unit, pairs, protect, valid_for, missing
    )


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Person:
    """One series: when there are rows, from which step on, and the groups of each row."""

    name: str
    first: int
    present: tuple[int, ...]  # steps with a row, the first and the last among them
    groups: tuple[int | None, ...]
    halves: tuple[int | None, ...]  # another column of groups


@dataclass(frozen=True)
class Table:
    """A small table without its values, and how it is declared."""

    people: tuple[Person, ...]
    every: bool
    named: bool  # whether there is a column of persons
    timed: bool = True
    fill: int | None = None  # absent steps are records in this state

    def frame(self, rng: np.random.Generator, states: int, missing: bool = False) -> pl.DataFrame:
        """The rows with random values, in random order where there are times.

        With ``missing`` some records have no value, and some one that is no state.
        """
        rows = [
            (person.name, person.first + step, 7 * (person.first + step), group, half)
            for person in self.people
            for step, group, half in zip(person.present, person.groups, person.halves, strict=True)
        ]
        values = [int(x) for x in rng.integers(states, size=len(rows))]
        drawn = rng.random(len(values)) if missing else np.ones(len(values))
        shown = [
            None if draw < 0.2 else FOREIGN if draw < 0.3 else x
            for x, draw in zip(values, drawn, strict=True)
        ]
        names = ("person", "t", "u", "g", "h")
        frame = pl.DataFrame(rows, schema=dict(zip(names, _TYPES, strict=True)), orient="row")
        frame = frame.with_columns(pl.Series("value", shown, dtype=pl.Int64))
        return frame.sample(fraction=1.0, shuffle=True, seed=1) if self.timed else frame

    def series(self, person: Person) -> tuple[int, dict[int, int]]:
        """The records of a person's series, and the place in it of every step with a row."""
        if self.every:
            return person.present[-1] + 1, {step: step for step in person.present}
        return len(person.present), {step: place for place, step in enumerate(person.present)}


FOREIGN = 99
"""A value that is a state of no world."""

_TYPES = (pl.String, pl.Int64, pl.Int64, pl.Int64, pl.Int64)


def table(rng: np.random.Generator, n: int, most: int | None = None, people: int = 3) -> Table:
    """A table whose longest series has n records (steps, where they are declared)."""
    persons = min(people, int(rng.choice([1, 1, 1, 2, 2, 3])))
    every, holes = bool(rng.random() < 0.5), bool(rng.random() < 0.3)
    kind = str(rng.choice(["person", "parity", "random", "nulls", "halves"]))
    found = []
    for number in range(persons):
        size = n if number == 0 or rng.random() < 0.6 else int(rng.integers(1, n + 1))
        first = int(rng.choice([0, 0, 3]))
        present = [
            step
            for step in range(size)
            if step in (0, size - 1) or not (holes and rng.random() < 0.35)
        ]
        groups = [_group(rng, kind, number, step, size) for step in present]
        halves = [int(2 * step >= size) for step in present]
        found.append(
            Person(
                string.ascii_lowercase[number], first, tuple(present), tuple(groups), tuple(halves)
            )
        )
    return Table(tuple(found), every, named=persons > 1 or bool(rng.random() < 0.5))


def _group(rng: np.random.Generator, kind: str, person: int, step: int, n: int) -> int | None:
    drawn = (int(rng.integers(2)), None if rng.random() < 0.4 else 1)
    return {
        "person": person % 2, "parity": step % 2, "random": drawn[0], "nulls": drawn[1],
        "halves": int(2 * step >= n),
    }[kind]  # fmt: skip


@dataclass(frozen=True)
class View:
    """Which rows are released, and in how many answers."""

    window: tuple[int | None, int | None] | None = None
    by: str | None = None
    groups: tuple[Any, ...] | None = None
    clock: str = "t"

    @property
    def kind(self) -> str:
        """In a word, for the tally."""
        parts = ["window"] * (self.window is not None) + ["groups"] * (self.by is not None)
        return " and ".join(parts) or "whole"

    def data(self, table: Table, frame: pl.DataFrame) -> ut.Data:
        """The package's view of the table."""
        more: dict[str, Any] = {}
        if table.timed:
            more["time"] = self.clock
            if table.every:
                more["every"] = 1 if self.clock == "t" else 7
            if table.fill is not None:
                more["gaps"] = table.fill
        if self.by is not None:
            more |= {"by": self.by, "groups": self.groups}
        data = ut.Data(frame, value="value", person="person" if table.named else None, **more)
        if self.window is None:
            return data
        ends = [
            None if end is None else end * (7 if self.clock == "u" else 1) for end in self.window
        ]
        return data.window(*ends)

    def covered(self, table: Table, person: Person) -> dict[Any, tuple[int, ...]]:
        """The records of a person behind each answer, by their places in the series."""
        _, places = table.series(person)
        low, high = self.window or (None, None)
        found: dict[Any, list[int]] = {}
        cells = person.groups if self.by == "g" else person.halves
        steps: Any = zip(person.present, cells, strict=True)
        if table.fill is not None:
            steps = ((step, None) for step in range(person.present[-1] + 1))
            places = {step: step for step in range(person.present[-1] + 1)}
        for step, cell in steps:
            when = person.first + step
            if (low is not None and when < low) or (high is not None and when >= high):
                continue
            if self.by is None:
                found.setdefault(None, []).append(places[step])
                continue
            if cell is None:
                continue
            names = [cell] if self.groups is None else [g for g in self.groups if float(g) == cell]
            for name in names:
                found.setdefault(name, []).append(places[step])
        return {name: tuple(records) for name, records in found.items()}


SPELLED = (0, 1, 0, 1, 0, 1, "0", "1", "01", 1.0, "1.0", "1.00000000000000000001", "1e0")


def view(rng: np.random.Generator, table: Table, spelled: bool = False) -> View:
    """A random view; windows that may miss some persons, and groups that occur or do not."""
    last = max(person.first + person.present[-1] for person in table.people)
    window = by = groups = None
    clock = "u" if rng.random() < 0.05 else "t"
    if table.timed and rng.random() < 0.5:
        low, high = sorted(rng.choice(last + 2, size=2, replace=False).tolist())
        window = [(low, high), (low, high), (low, high), (low, None), (None, high)][rng.integers(5)]
    if table.fill is None and rng.random() < 0.4:
        by = "g" if rng.random() < 0.85 else "h"
        if rng.random() < 0.6:
            pool = SPELLED if spelled else (0, 1)
            drawn = [pool[place] for place in rng.permutation(len(pool))]
            first = drawn[0]
            other = next(name for name in drawn if float(name) != float(first))
            groups = (first, other) if rng.random() < 0.3 else (first,)
    return View(window, by, groups, clock)


# --- what was answered ----------------------------------------------------------------------------


def pattern(rng: np.random.Generator, n: int) -> frozenset[int]:
    """The places of records that are missing: every second one, or at random."""
    if rng.random() < 0.5:
        return frozenset(range(int(rng.integers(2)), n, 2))
    return frozenset(np.flatnonzero(rng.random(n) < 0.4).tolist())


def answers(
    plan: Any, table: Table, view: View, person: Person, states: int,
    gone: frozenset[int] = frozenset(),
) -> list[Answer]:  # fmt: skip
    """What a granted release says about one person, some of whose records are missing."""
    asked, found = plan.query, list[Answer]()
    cells = {
        name: left
        for name, records in view.covered(table, person).items()
        if (left := tuple(record for record in records if record not in gone))
    }
    mechanism = plan.mechanism
    if isinstance(asked, ut.Series | ut.Redacted):
        records = tuple(sorted(record for cell in cells.values() for record in cell))
        if not records:
            return []
        if isinstance(mechanism, ut.XorNoise):
            return [oracle.Xored(records, mechanism.rho0, mechanism.rho1)]
        if isinstance(mechanism, ut.Redaction):
            return [oracle.erased(records, mechanism.probabilities, mechanism.protect)]
        return [oracle.flipped(records, mechanism.matrix)]
    for records in cells.values():
        if isinstance(asked, ut.Count):
            weights = tuple(int(state in asked.states) for state in range(states))
            found.append(Noisy(records, weights, mechanism.scale))
        elif isinstance(asked, ut.Histogram):
            found += oracle.histogram(records, states, mechanism.scale)
        elif isinstance(asked, ut.Linear):
            found.append(_linear(asked, records, states, mechanism.scale))
        else:  # a sum or a mean: state x is step x of the lattice
            moved = (states - 1) / (plan.length or 1) if isinstance(asked, ut.Mean) else states - 1
            scale = mechanism.scale * (states - 1) / moved
            found.append(Noisy(records, tuple(range(states)), scale))
    return found


def _linear(asked: ut.Linear, records: tuple[int, ...], states: int, scale: float) -> Noisy:
    """A linear statistic in units of its weights, which are whole numbers here."""
    weights = tuple(int(w) for w in asked.weights)
    return Noisy(records, tuple(range(states)), scale, tuple(weights[: len(records)]))


@dataclass(frozen=True)
class Promise:
    """Who is covered, and by how much the odds may rise."""

    limit: float
    against: Any
    unit: str = "record"
    pairs: tuple[tuple[int, int], ...] | None = None
    targets: tuple[int, ...] | None = None


def joint(
    where: World, promise: Promise, n: int, granted: Sequence[Answer],
    public: dict[int, int] | None = None,
) -> float:  # fmt: skip
    """The joint leakage of all answers about one person's series of n records."""
    if not granted:
        return 0.0
    if promise.unit == "person":
        return oracle.person_leakage(granted, n, where.states + (n <= 5))
    if where.dependent is not None:
        if promise.against == "informed":
            return oracle.dependent_leakage(granted, n, where.states, 1)
        return oracle.dependent_leakage(granted, n, where.states, where.dependent)
    against = promise.against
    if isinstance(against, ut.Adversary):
        if max(against.target, *against.known, 0) >= n:
            return 0.0
        against = (against.target, against.known)
    worst = 0.0
    for chain in where.chains():
        law = oracle.chain_law(chain, n)
        for record, state in (public or {}).items():  # what the shape of the table says
            mask = np.zeros(law.shape[record])
            mask[state] = 1.0
            law = law * mask.reshape([-1 if axis == record else 1 for axis in range(n)])
        if not law.sum():
            continue
        found = oracle.joint_leakage(
            law, granted, against, pairs=promise.pairs, targets=promise.targets, room=ROOM
        )
        worst = max(worst, found)
    return worst
