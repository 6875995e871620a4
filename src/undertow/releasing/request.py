"""Releases of private answers in two phases: validation of the request, then noise.

`prepare` reads the shape, finds the proof that covers it, checks the question, and evaluates
nothing private; `carry_out` evaluates, reserves, draws, records, and only then shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from undertow.accuracy import accuracy
from undertow.certificate import Leakage
from undertow.data.grid import Shape
from undertow.data.readers.lists import PlainSeries, one_series
from undertow.data.records import check_records
from undertow.data.table import Data
from undertow.errors import InvalidInput
from undertow.ledger.rules import Entry
from undertow.mechanisms import Noise, Selection
from undertow.plan import Plan, check_plan
from undertow.planning.coverage import covering, group_conditions
from undertow.queries import Mean
from undertow.releasing.account import (
    account_conditions,
    check_ledger,
    entry_for,
    level_of,
    noise_terms,
    reserve,
    spend_terms,
)
from undertow.reporting.report import Report, brief
from undertow.sampling.answers import lattice_amount, randomise, select, totalled
from undertow.sampling.bits import Randomness, Secure, chosen

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger

__all__ = [
    "Release",
    "ReleaseRequest",
    "carry_out",
    "prepare",
    "release",
]


@dataclass(frozen=True, slots=True)
class Release:
    """Released answer, with its guarantee and error bars.

    ``value`` is one number, for a histogram one per state; with groups, one of these for each.
    ``proof`` is the certificate that covers this very release. ``entry`` is the ledger's entry,
    None where the release was not accounted; ``replayed`` says that the answer was recorded
    earlier and is given again, ``made`` when it was drawn. ``conditions`` are what the data did
    not say, each a clause of the guarantee's first sentence. ``window`` are the ends of the window,
    None without one. ``sizes`` counts the records behind each group's answer (behind the one
    answer, where there are no groups).

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> out = release(calibrate(Count("active"), chain, limit=1.0), ["idle", "active"] * 50)
    >>> isinstance(out.value, int)
    True
    """

    value: Any
    plan: Plan[Noise]
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
    conditions: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the answer and its guarantee for people."""
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
        groups = max(1, len(self.groups or ()))
        alpha = accuracy(self.plan.noise, beta, self.plan.numbers, groups)
        sizes = self.sizes or (self.rows,)
        if not isinstance(self.plan.noise.query, Mean) or self.plan.length is None:
            return (alpha,) * len(sizes)
        return tuple(alpha * self.plan.length / max(size, 1) for size in sizes)

    def report(self) -> Report:
        """Return what was released, how far off it may be, and what it guarantees."""
        return Report.of(self)


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A validated release request: plan, table, shape, proof and ledger entry."""

    plan: Plan[Noise]
    table: Data | PlainSeries
    shape: Shape
    proof: Leakage
    entry: Entry | None
    conditions: tuple[str, ...] = ()

    @property
    def level(self) -> float:
        """The level to reserve; inf for noise without one."""
        return level_of(self.plan, self.proof)

    @property
    def spends(self) -> dict[str, Any]:
        """Spend in words: a level, or the mu or rho of noise that has none."""
        return noise_terms(self.plan, self.proof)


def prepare(
    plan: Plan[Noise],
    data: "Data | PlainSeries | Sequence[Any]",
    ledger: "Ledger | None" = None,
    *,
    release_id: str | None = None,
) -> ReleaseRequest:
    """Validate a release and return the request; nothing is spent.

    First whether the table can be read as declared, then whether these are the records that the
    plan is about, then whether their types can be its states: of other records it is said what
    differs, and not that a type does not fit.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> ready = prepare(calibrate(Count("active"), chain, limit=1.0), ["idle", "active"] * 50)
    >>> ready.proof.proves(1.0), ready.shape.rows
    (True, 100)
    """
    check_plan(plan)
    plan.noise.query.numbers(plan.states)  # refuses a model without states where they are needed
    lattice_amount(plan.noise, plan.length)  # refuses what has no lattice
    table = data if isinstance(data, Data | PlainSeries) else one_series(data)
    shape = table.shape()
    if not shape.rows:
        raise InvalidInput("there are no records: nothing to release")
    conditions, reading = check_records(plan, table), table.reading()
    table.check_types(plan.states)
    ungrouped = reading.get("ungrouped", False)
    proof = covering(plan, shape, person=reading.get("person"), ungrouped=ungrouped)
    conditions += group_conditions(plan.model, ungrouped=ungrouped)
    if ledger is None:
        return ReleaseRequest(plan, table, shape, proof, None, conditions)
    check_ledger(plan, ledger, shape.series, table)
    entry = entry_for(plan, table, shape, release_id, **spend_terms(plan, proof))
    conditions += account_conditions(plan, ledger)
    return ReleaseRequest(plan, table, shape, proof, entry, conditions)


def release(
    plan: Plan[Noise],
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
    Missing and foreign values are what ``plan.missing`` says, in no state by default, and a release
    never fails on one. Noise comes from the operating system's secure source;
    ``insecure_seed`` makes it repeatable, gives up privacy, and is recorded in the release.

    With a ``ledger`` the DP level is reserved before noise is drawn, and the answer is recorded
    before it is returned. A ``release_id`` that has been released returns the recorded answer and
    spends nothing; by default it follows from the plan, the records touched, how they are read
    and their public shape, so that the same request is free. ``source`` says where the model
    came from, for the report.

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Count("active"), chain, limit=1.0)
    >>> release(plan, ["idle", "active", None] * 9, insecure_seed=1).randomness
    'insecure, seed 1'
    """
    randomness = chosen(insecure_seed, accounted=ledger is not None)
    ready = prepare(plan, data, ledger, release_id=release_id)
    return carry_out(ready, ledger, source=source, randomness=randomness)


def carry_out(
    ready: ReleaseRequest,
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
    plan, request = ready.plan, ready.entry
    if ledger is None or request is None:
        return _release_of(ready, _noisy(plan, _evaluated(ready), bits), bits, source)
    recorded = ledger.entry(request.release_id)
    exact = None if recorded is not None and recorded.result is not None else _evaluated(ready)
    reserved = reserve(request, ready.table, ledger)
    entry, time = reserved.entry_hash, reserved.made
    if reserved.result is not None:
        return _release_of(ready, reserved.result, bits, source, entry, time, replayed=True)
    exact = _evaluated(ready) if exact is None else exact
    ledger.begin(request.release_id)
    result, own = ledger.record(request.release_id, _noisy(plan, exact, bits))
    kept = ledger.entry(request.release_id)
    time = None if kept is None else kept.made  # the time on record, which every replay tells
    # Where somebody else was faster, theirs is the answer. Whether this draw equals it stays here:
    # that would be a second answer.
    return _release_of(ready, result, bits, source, entry, time, replayed=not own)


def _evaluated(ready: ReleaseRequest) -> Any:
    """Return the exact answers, which are private; a file that changed meanwhile is refused."""
    plan = ready.plan
    return ready.table.answers(plan.noise.query.exact_query, plan.states, plan.missing)


def _noisy(plan: Plan[Noise], exact: Any, randomness: Randomness) -> dict[str, Any]:
    """Return the noisy whole numbers of every group: all that is recorded and released."""
    groups = None if exact.groups is None else list(exact.groups)
    if isinstance(plan.noise, Selection):  # places of states, which tell no count
        return {
            "groups": groups,
            "numbers": select(plan.noise, exact.numbers, randomness),
            "rows": list(exact.rows),
        }
    flat = [number for numbers in exact.numbers for number in numbers]
    noisy = randomise(plan.noise, flat, randomness, plan.length)
    width = len(exact.numbers[0]) if exact.numbers else 0
    parts = [noisy[start : start + width] for start in range(0, len(noisy), max(width, 1))]
    query = plan.noise.query
    if query.totalled:
        parts = totalled(parts, exact.rows, randomness)
    return {
        "groups": groups,
        "numbers": [
            query.complete_numbers(part, rows, plan.states)
            for part, rows in zip(parts, exact.rows, strict=True)
        ],
        "rows": list(exact.rows),
    }


def _release_of(
    ready: ReleaseRequest, result: dict[str, Any], bits: Randomness, source: str | None,
    entry: str | None = None, time: str | None = None, *, replayed: bool = False,
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
        value, plan, bits.describe(), shape.rows, shape.persons,
        "" if ready.entry is None else ready.entry.release_id, entry, source,
        None if groups is None else tuple(groups),
        tuple(result["rows"]),
        made=time or datetime.now(UTC).isoformat(timespec="seconds"),
        replayed=replayed,
        window=ready.table.bounds(),
        proof=ready.proof,
        conditions=ready.conditions,
    )  # fmt: skip


def _value(plan: Plan[Noise], numbers: list[int], rows: int) -> Any:
    query: Any = plan.noise.query
    return (
        query.label_answer(numbers, plan.states)
        if query.integral
        else float(query.answer(numbers[0], rows))
    )
