"""Data in, private answer out, in two phases: everything that can be refused, then the noise.

`prepare` reads the shape, finds the proof that covers it, checks the question, and evaluates
nothing private; `carry_out` evaluates, reserves, draws, records, and only then shows.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from undertow.accounting import Asking, asking, check_ledger, level_of
from undertow.accuracy import accuracy
from undertow.certificate import Leakage
from undertow.errors import AccountWarning, InvalidInput, NotSupported
from undertow.plan import Plan
from undertow.planning.coverage import covering
from undertow.queries import AnyQuery, Count, Histogram, Mean, Query, State
from undertow.reporting.brief import brief
from undertow.reporting.report import Report
from undertow.sampling.apply import lattice_scale, randomise
from undertow.sampling.bits import Insecure, Randomness, Secure

if TYPE_CHECKING:
    from undertow.data.table import Data
    from undertow.ledger.book import Ledger

__all__ = ["Prepared", "Release", "carry_out", "prepare", "release"]

_UNDECLARED = "a Python function's answer has no declared lattice; ask for a count or a sum"


@dataclass(frozen=True, slots=True)
class Series:
    """The public facts about one plain series: it is whole, and one person's."""

    rows: int
    persons: int = 1
    gaps: bool = False
    windowed: bool = False
    split: bool = False
    start: None = None
    end: None = None
    groups: None = None

    @property
    def longest(self) -> int:
        """The records of the longest series: this one."""
        return self.rows

    @property
    def shortest(self) -> int:
        """The records of the shortest series: this one."""
        return self.rows

    @property
    def series(self) -> int:
        """The steps of the whole series: these."""
        return self.rows


@dataclass(frozen=True, slots=True)
class Release:
    """A released answer, and what may be said about it.

    ``value`` is one number, for a histogram one per state; with groups, one of these for each.
    ``proof`` is the certificate that covers this very release. ``entry`` is the ledger's entry,
    None where the release was not accounted; ``replayed`` says that the answer was recorded
    earlier and is given again, ``made`` when it was drawn. ``window`` are the ends of the window,
    None without one. ``sizes`` counts the records behind each group's answer (behind the one
    answer, where there are no groups).

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> out = release(calibrate(Count("active"), chain, limit=1.0), ["idle", "active"] * 50)
    >>> isinstance(out.value, int)
    True
    """

    value: Any
    plan: Plan
    randomness: str
    rows: int
    persons: int
    release_id: str
    entry: str | None = None
    source: str | None = None
    groups: tuple[Any, ...] | None = None
    sizes: tuple[int, ...] = ()
    made: str = ""
    replayed: bool = False
    window: tuple[Any, Any] | None = None
    proof: Leakage | None = None

    def __str__(self) -> str:
        """Return the answer and its promise for people."""
        return brief(self)

    def error_bar(self, beta: float = 0.05) -> float:
        """Return alpha: all numbers are within alpha of the truth with probability 1 - beta.

        Means of different groups err differently, in proportion to 1 / size: that of the smallest.
        """
        return max(self.error_bars(beta))

    def error_bars(self, beta: float = 0.05) -> tuple[float, ...]:
        """Return alpha for each group: all together hold with probability 1 - beta.

        The noise of a mean is on the sum of the records, so fewer records have larger errors.
        """
        numbers = self.plan.numbers * max(1, len(self.groups or ()))
        alpha = accuracy(self.plan.noise, beta, numbers)
        sizes = self.sizes or (self.rows,)
        if not isinstance(self.plan.noise.query, Mean) or self.plan.length is None:
            return (alpha,) * len(sizes)
        return tuple(alpha * self.plan.length / max(size, 1) for size in sizes)

    def report(self) -> Report:
        """Return what was released, how far off it may be, and what it promises."""
        return Report.of(self)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A release that nothing stands against: what will be asked, spent and proved."""

    plan: Plan
    table: Any
    shape: Any
    proof: Leakage
    asking: Asking | None

    @property
    def level(self) -> float:
        """The level that a ledger is asked for."""
        return level_of(self.plan, self.proof)


def prepare(
    plan: Plan,
    data: "Data | Sequence[Any]",
    ledger: "Ledger | None" = None,
    *,
    release_id: str | None = None,
) -> Prepared:
    """Return what a release would do, after every check that can refuse it; nothing is spent.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> ready = prepare(calibrate(Count("active"), chain, limit=1.0), ["idle", "active"] * 50)
    >>> ready.proof.proves(1.0), ready.shape.rows
    (True, 100)
    """
    if not isinstance(plan, Plan):
        raise InvalidInput(f"a Plan is required, found {type(plan).__name__}; use calibrate(...)")
    query = plan.noise.query
    if isinstance(query, Query):
        raise NotSupported(_UNDECLARED)
    if isinstance(query, Histogram) and not plan.states:
        raise NotSupported("a histogram needs a model that names the states, e.g. a MarkovChain")
    lattice_scale(plan.noise, plan.length)  # refuses what has no lattice
    table: Any = data if hasattr(data, "answers") else _Records(_records(data))
    shape = table.shape()
    if not shape.rows:
        raise InvalidInput("there are no records: nothing to release")
    proof = covering(plan, shape, persons=table.asked().get("person") is not None)
    if ledger is None:
        return Prepared(plan, table, shape, proof, None)
    check_ledger(plan, ledger, shape.series)
    return Prepared(plan, table, shape, proof, asking(plan, table, shape, release_id))


def release(
    plan: Plan,
    data: "Data | Sequence[Any]",
    ledger: "Ledger | None" = None,
    *,
    release_id: str | None = None,
    source: str | None = None,
    insecure_seed: int | None = None,
) -> Release:
    """Return the private answer of a plan on data: `Data`, or one plain series of records.

    The proof of the plan must cover the shape of the data: whole series, windows, groups. Where
    another proof covers it and the noise suffices, that one is used; else the release is refused.
    Missing or foreign values count in no state (in a sum, as the query says), so a release never
    fails on a value. Noise comes from the operating system's secure source; ``insecure_seed``
    makes it repeatable, gives up privacy, and is recorded in the release.

    With a ``ledger`` the DP level is reserved before noise is drawn, and the answer is recorded
    before it is returned. A ``release_id`` that has been released returns the recorded answer and
    spends nothing; by default it follows from the plan, the records touched, how they are read
    and their public shape, so asking the same again is free. ``source`` says where the model came
    from, for the report.

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Count("active"), chain, limit=1.0)
    >>> release(plan, ["idle", "active", None] * 9, insecure_seed=1).randomness
    'insecure, seed 1'
    """
    randomness = Secure() if insecure_seed is None else Insecure(insecure_seed)
    if ledger is not None and insecure_seed is not None:
        raise InvalidInput("seeded noise is not private: a ledger does not account for it")
    ready = prepare(plan, data, ledger, release_id=release_id)
    return carry_out(ready, ledger, source=source, randomness=randomness)


def carry_out(
    ready: Prepared,
    ledger: "Ledger | None" = None,
    *,
    source: str | None = None,
    randomness: Randomness | None = None,
) -> Release:
    """Return the answer of a prepared release: reserved before it is drawn, recorded before shown.

    The exact answer is evaluated before anything is reserved, so that whatever is wrong with the
    data or the question spends nothing.
    """
    bits = randomness or Secure()
    plan, asked = ready.plan, ready.asking
    if ledger is None or asked is None:
        drawn = _noisy(plan, _evaluated(ready), bits)
        return _told(ready, drawn, bits.describe(), None, None, source)
    entry = ledger.entry(asked.release_id)
    exact = None if entry is not None and entry.result is not None else _evaluated(ready)
    _bind(ready, ledger)
    reserved = ledger.reserve(asked.release_id, ready.level, asked.scope, about=asked.about)
    if reserved.result is not None:
        words = bits.describe(), reserved.entry_hash, reserved.made
        return _told(ready, reserved.result, *words, source)
    found = _evaluated(ready) if exact is None else exact
    ledger.begin(asked.release_id)
    drawn = _noisy(plan, found, bits)
    result = ledger.confirm(asked.release_id, drawn)
    other = (
        None
        if result == drawn
        else ledger.reserve(asked.release_id, ready.level, asked.scope, about=asked.about).made
    )  # somebody else was faster: theirs is the answer
    return _told(ready, result, bits.describe(), reserved.entry_hash, other, source)


def _bind(ready: Prepared, ledger: "Ledger") -> None:
    """Note the public shape of the table in the account, and say where it stands already."""
    known = ready.table.identity()
    for said in [] if known is None else ledger.bind(known):
        warnings.warn(said, AccountWarning, stacklevel=4)


def _evaluated(ready: Prepared) -> Any:
    """Return the exact answers, which are private; a file that changed meanwhile is refused."""
    return ready.table.answers(ready.plan.noise.query, ready.plan.states)


def _noisy(plan: Plan, found: Any, randomness: Randomness) -> dict[str, Any]:
    """Return the noisy whole numbers of every group: what is recorded, and all that leaves."""
    flat = [number for numbers in found.numbers for number in numbers]
    noisy = randomise(plan.noise, flat, randomness, plan.length)
    width = len(found.numbers[0]) if found.numbers else 0
    groups = None if found.groups is None else list(found.groups)
    return {
        "groups": groups,
        "numbers": [noisy[start : start + width] for start in range(0, len(noisy), max(width, 1))],
        "rows": list(found.rows),
    }


def _told(
    ready: Prepared, result: dict[str, Any], randomness: str, entry: str | None,
    made: str | None, source: str | None,
) -> Release:  # fmt: skip
    """Return the release that a recorded result stands for."""
    plan, shape = ready.plan, ready.shape
    values = [
        _value(plan, numbers, rows)
        for numbers, rows in zip(result["numbers"], result["rows"], strict=True)
    ]
    groups = result["groups"]
    value = values[0] if groups is None else dict(zip(groups, values, strict=True))
    return Release(
        value, plan, randomness, shape.rows, shape.persons,
        "" if ready.asking is None else ready.asking.release_id, entry, source,
        None if groups is None else tuple(groups),
        tuple(result["rows"]),
        made=made or datetime.now(UTC).isoformat(timespec="seconds"),
        replayed=made is not None,
        window=ready.table.bounds(),
        proof=ready.proof,
    )  # fmt: skip


def _value(plan: Plan, numbers: list[int], rows: int) -> Any:
    query = plan.noise.query
    if isinstance(query, Histogram):
        return dict(zip(plan.states, numbers, strict=True))
    if isinstance(query, Count):
        return numbers[0]
    if isinstance(query, Query):
        raise NotSupported(_UNDECLARED)
    exact: Fraction = query.answer(numbers[0], rows)
    return float(exact)


@dataclass(frozen=True, slots=True)
class _Answers:
    groups: None
    numbers: list[list[int]]
    rows: list[int]


@dataclass(frozen=True, slots=True)
class _Records:
    """One plain series, read without any table library."""

    records: list[Any]

    def shape(self) -> Series:
        return Series(len(self.records))

    def scope(self) -> Any:
        from undertow.ledger.scopes import Scope

        return Scope()

    def asked(self) -> dict[str, Any]:
        return {"source": "the list of records"}

    def identity(self) -> None:
        return None

    def bounds(self) -> None:
        return None

    def answers(self, query: AnyQuery, states: tuple[State, ...]) -> _Answers:
        return _Answers(None, [_exact(query, self.records, states)], [len(self.records)])


def _exact(query: AnyQuery, records: list[Any], states: tuple[State, ...]) -> list[int]:
    if isinstance(query, Count | Histogram):
        found = query.evaluate(records, states)
        return found if isinstance(found, list) else [found]
    if isinstance(query, Query):
        raise NotSupported(_UNDECLARED)
    lattice = query.lattice()
    places = [lattice.place(record) for record in records]
    if lattice.weights is None:
        return [sum(places)]
    if len(places) != len(lattice.weights):
        raise InvalidInput(f"{len(lattice.weights)} weights do not fit {len(places)} records")
    # record t has |weight| of the steps, and the weight's sign
    weighted = zip(places, lattice.weights, strict=True)
    return [sum((2 * p * w + lattice.steps) // (2 * lattice.steps) for p, w in weighted)]


def _records(data: Any) -> list[Any]:
    if isinstance(data, str | bytes):
        raise InvalidInput("a series of records is required, found one string")
    if isinstance(data, Mapping) or hasattr(data, "columns") or getattr(data, "ndim", 1) != 1:
        raise InvalidInput(
            "a single series of records is required, found a table; pass one of its columns, or "
            "Data(table, value=...)"
        )
    try:
        records = data.tolist() if hasattr(data, "tolist") else list(data)
    except TypeError as error:
        raise InvalidInput(
            f"a series of records is required, found {type(data).__name__}"
        ) from error
    if not isinstance(records, list) or not records:
        raise InvalidInput("the series has no records")
    return records
