"""Data in, private answer out: evaluate, reserve, draw, record, and only then show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from undertow.accounting import check_ledger, identity, level_of
from undertow.accuracy import accuracy
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import PureDP, dp_epsilon_upper
from undertow.models.markov import MarkovChain
from undertow.plan import Plan
from undertow.queries import AnyQuery, Count, Histogram, Linear, Mean, Query, State
from undertow.reporting.brief import brief
from undertow.reporting.report import Report
from undertow.sampling.apply import lattice_scale, randomise
from undertow.sampling.bits import Insecure, Randomness, Secure

if TYPE_CHECKING:
    from undertow.data.table import Data
    from undertow.ledger.book import Ledger

__all__ = ["Release", "release"]

_ANY_LENGTH = ("exchange", "group")
"""Methods whose plan for n records also holds for fewer: their leakage grows with the length."""


class Shaped(Protocol):
    """The public facts about a data set."""

    @property
    def rows(self) -> int: ...
    @property
    def persons(self) -> int: ...
    @property
    def longest(self) -> int: ...
    @property
    def gaps(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Series:
    """The public facts about one plain series."""

    rows: int
    persons: int = 1
    gaps: bool = False

    @property
    def longest(self) -> int:
        """The records of the longest series: this one."""
        return self.rows


@dataclass(frozen=True, slots=True)
class Release:
    """A released answer, and what may be said about it.

    ``value`` is one number, for a histogram one per state; with groups, one of these for each.
    ``entry`` is the ledger's entry, None where the release was not accounted. ``sizes`` counts
    the records behind each group's answer (behind the one answer, where there are no groups).

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> out = release(calibrate(Count("active"), chain, epsilon=1.0), ["idle", "active"] * 50)
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
        """Return the answer and its promise, for people."""
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

    Missing or foreign values count in no state (in a sum, as the query says), so a release never
    fails on a value. Noise comes from the operating system's secure source; ``insecure_seed``
    makes it repeatable, gives up privacy, and is recorded in the release.

    With a ``ledger`` the DP level is reserved before noise is drawn, and the answer is recorded
    before it is returned. A ``release_id`` that has been released returns the recorded answer and
    spends nothing; by default it follows from plan and scope, so asking again is free. ``source``
    says where the model came from, for the report.

    >>> from undertow import Count, MarkovChain, calibrate, release
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], states=("idle", "active"))
    >>> plan = calibrate(Count("active"), chain, epsilon=1.0)
    >>> release(plan, ["idle", "active", None] * 9, insecure_seed=1).randomness
    'insecure, seed 1'
    """
    if not isinstance(plan, Plan):
        raise InvalidInput(f"a Plan is required, found {type(plan).__name__}; use calibrate(...)")
    if isinstance(plan.noise.query, Histogram) and not plan.states:
        raise NotSupported("a histogram needs a model that names the states, e.g. a MarkovChain")
    lattice_scale(plan.noise, plan.length)  # refuses what has no lattice
    randomness = Secure() if insecure_seed is None else Insecure(insecure_seed)
    if ledger is not None and insecure_seed is not None:
        raise InvalidInput("seeded noise is not private: a ledger does not account for it")
    table: Any = data if hasattr(data, "answers") else _Records(_records(data))
    shape = table.shape()
    _check_shape(plan, shape)
    _check_gaps(plan, shape)
    asked = release_id or ("" if ledger is None else _identity(plan, table))
    if ledger is None:
        result = _draw(plan, table, randomness)
        return _told(plan, result, randomness.describe(), shape, asked, None, source)
    check_ledger(plan, ledger)
    level = level_of(plan)
    reserved = ledger.reserve(asked, level, table.scope(), about={"plan": plan.fingerprint()})
    recorded = reserved.result
    if recorded is None:
        recorded = ledger.confirm(asked, _draw(plan, table, randomness))
    return _told(plan, recorded, randomness.describe(), shape, asked, reserved.entry_hash, source)


def _draw(plan: Plan, table: Any, randomness: Randomness) -> dict[str, Any]:
    """Return the noisy whole numbers of every group: what is recorded, and all that leaves."""
    found = table.answers(plan.noise.query, plan.states)
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
    plan: Plan, result: dict[str, Any], randomness: str, shape: Shaped, release_id: str,
    entry: str | None, source: str | None,
) -> Release:  # fmt: skip
    """Return the release that a recorded result stands for."""
    values = [
        _value(plan, numbers, rows)
        for numbers, rows in zip(result["numbers"], result["rows"], strict=True)
    ]
    groups = result["groups"]
    value = values[0] if groups is None else dict(zip(groups, values, strict=True))
    names = None if groups is None else tuple(groups)
    return Release(
        value, plan, randomness, shape.rows, shape.persons, release_id, entry, source, names,
        tuple(result["rows"]),
    )  # fmt: skip


def _value(plan: Plan, numbers: list[int], rows: int) -> Any:
    query = plan.noise.query
    if isinstance(query, Histogram):
        return dict(zip(plan.states, numbers, strict=True))
    if isinstance(query, Count):
        return numbers[0]
    if isinstance(query, Query):
        raise NotSupported("a Python function's answer has no declared lattice")
    exact: Fraction = query.answer(numbers[0], rows)
    return float(exact)


def _check_shape(plan: Plan, shape: Shaped) -> None:
    if not shape.rows:
        raise InvalidInput("there are no records: nothing to release")
    if plan.length is None:
        return
    if plan.unit == "person" or plan.method in _ANY_LENGTH:
        if shape.longest > plan.length:
            raise InvalidInput(
                f"the plan is for at most {plan.length} records of a person, and one has "
                f"{shape.longest}; plan for that many, or for any length"
            )
        if not (shape.persons == 1 and isinstance(plan.noise.query, Linear)):
            return
    if shape.rows != shape.persons * plan.length or shape.longest != plan.length:
        series = f"{shape.rows}" if shape.persons == 1 else f"up to {shape.longest}"
        raise InvalidInput(
            f"the plan is for {plan.length} records, the series has {series}; "
            "plan for this length, or for any length"
        )


def _check_gaps(plan: Plan, shape: Shaped) -> None:
    """Refuse a plan that relies on every record being there where some are not.

    An algorithm that ignores the absent records is a DP algorithm of the same level on the whole
    series, so what all such algorithms leak bounds it, whatever is absent.
    """
    if not shape.gaps or plan.unit == "person" or plan.method in _ANY_LENGTH:
        return
    from undertow.bounds.engine import leakage

    level = PureDP(dp_epsilon_upper(plan.noise, plan.length))
    if not leakage(level, _endless(plan), plan.against).proves(plan.epsilon * (1 + 1e-9)):
        raise NotSupported(
            f"the series have gaps, and the plan's method '{plan.method}' counts on every record "
            "being there; plan with method='exchange' and without a length"
        )


def _endless(plan: Plan) -> Any:
    model = plan.model
    if isinstance(model, MarkovChain) and model.homogeneous:
        return MarkovChain(model.transition, model.states, model.start)
    return model


def _identity(plan: Plan, table: Any) -> str:
    """Return a name that follows from what is asked of which records: the same question again."""
    if isinstance(plan.noise.query, Query):
        raise NotSupported("a Python function's answer has no declared lattice")
    return identity(plan, table.scope())


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

    def answers(self, query: AnyQuery, states: tuple[State, ...]) -> _Answers:
        return _Answers(None, [_exact(query, self.records, states)], [len(self.records)])


def _exact(query: AnyQuery, records: list[Any], states: tuple[State, ...]) -> list[int]:
    if isinstance(query, Count | Histogram):
        found = query.evaluate(records, states)
        return found if isinstance(found, list) else [found]
    if isinstance(query, Query):
        raise NotSupported("a Python function's answer has no declared lattice")
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
