"""The best guess of a record from a noisy count or sum, given any known records.

The answer is a + noise with a density proportional to exp(-|noise| / scale), discrete or not, or
with a table of probabilities in its place. So
Pr[X_t = x | answer, known] is proportional to the sum over c of Pr[X_t = x, total = c | known]
exp(-|answer - c| / scale): a walk forth along the chain keeps the law of (state, total so far), a
walk back the weight of each total still to come. Totals are whole numbers of a unit.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from undertow.auditing.hidden import check_length, known_places, known_states, lawful
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import Noise, Scaled, TabulatedNoise
from undertow.models.base import Model
from undertow.models.lowered import LoweredLaw
from undertow.numerics import Array, check_count, log_sum
from undertow.queries import Mean, State, Sum

__all__ = ["Totals", "answer_posteriors", "totals"]

_FAINT = 1e-280
"""Below it the sum over totals may have lost terms (lower side): done again with logarithms."""

_MOST_CELLS = 4e8
"""Records times totals: a cost limit, minutes rather than hours."""

_BATCH = 2**21
"""Cells of the walk back that are held at once."""

_CLOSE = 1e-9
"""How far (of the range) a value may be from a whole number of units and count as one."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What each state adds to an answer: a whole number of units, and the scale in units.

    An answer a means (a - length * base) / unit units. A histogram of two states is a pair of
    answers about one total. Noise may have a ``table`` in place of a scale.

    >>> Totals((0, 1), 0.0, 1.0, 4.0).units([7.0], length=10)
    array([[7.]])
    """

    adds: tuple[int, ...]
    base: float
    unit: float
    scale: float
    pair: bool = False
    table: TabulatedNoise | None = None

    def units(self, answers: Any, length: int) -> Array:
        """Return answers in units, a row for each (with two numbers for a histogram)."""
        numbers = np.asarray(answers, dtype=np.float64).reshape(-1, 2 if self.pair else 1)
        found: Array = (numbers - length * self.base) / self.unit  # (answers, numbers of each)
        if self.pair:  # the first number counts what the second does not
            found[:, 0] = length - found[:, 0]
        return found

    def log_weights(self, answers: Array, most: int) -> Array:
        """Return the log of the weight that each answer gives to the totals 0 .. most."""
        apart = answers[:, :, None] - np.arange(most + 1)  # (answers, numbers, totals)
        return np.asarray(self.log_law(apart).sum(axis=1))  # (answers, totals)

    def log_law(self, apart: Array) -> Array:
        """Return the log of the likelihood of noise, up to a constant, in units.

        -|noise| / scale, or by the table: its entries, and the ratio of its tails beyond. Answers
        between whole numbers cannot be; they are read at the next whole number.
        """
        if self.table is None:
            return np.asarray(-np.abs(apart) / self.scale)
        table, places = self.table, np.rint(apart)
        inside = np.clip(places, table.first, table.last)
        law = np.log(table.law(table.first, table.last))
        beyond = np.abs(places - inside) * math.log(table.ratio)
        return np.asarray(law[inside.astype(np.int64) - table.first] + beyond)


def totals(mechanism: Noise, states: Sequence[State], length: int) -> Totals:
    """Return what each state adds to the answer of a mechanism.

    The lattice on which sums are released is left out: it is finer than a record's range by 2^24.

    >>> from undertow import Count, DiscreteLaplace
    >>> totals(DiscreteLaplace(Count("b"), 4.0), ("a", "b"), 9).adds
    (0, 1)
    """
    if not isinstance(mechanism, Scaled | TabulatedNoise):
        raise NotSupported(
            f"no attacker weighs answers with {mechanism.words} noise; audit(plan) attacks the "
            "code that draws it"
        )
    query = mechanism.query
    if query.named:
        adds = tuple(int(state in query.named) for state in states)
        if isinstance(mechanism, TabulatedNoise):
            return Totals(adds, 0.0, 1.0, 1.0, table=mechanism)
        return Totals(adds, 0.0, 1.0, mechanism.scale)
    if isinstance(mechanism, TabulatedNoise):  # for nothing but counts
        raise InvalidInput("noise with a table is for a Count")
    if query.per_state:
        if len(states) != 2:
            raise NotSupported(
                "a histogram of more than two states has too many possible answers to weigh; "
                "attack a Count, or the histogram of a model with two states"
            )
        return Totals((0, 1), 0.0, 1.0, mechanism.scale, pair=True)
    if not isinstance(query, Sum | Mean):
        raise NotSupported(
            f"no attacker for a {type(query).__name__}; there are some for Count, Sum, Mean, and "
            "for the Histogram of two states"
        )
    lattice = query.lattice()
    spread = lattice.upper - lattice.lower
    values = [_value(number, query.ends, spread) for number in _numbers(query, states)]
    unit, adds = _units([value - min(values) for value in values], spread)
    share = length if isinstance(query, Mean) else 1
    return Totals(
        adds,
        float(Fraction(lattice.lower) + min(values)) / share,
        unit / share,
        mechanism.scale * share / unit,
    )


def answer_posteriors(
    answers: Any,
    mechanism: Noise,
    chain: Model,
    length: int | Sequence[int] | None = None,
    targets: Iterable[int] | None = None,
    known: Mapping[int, State] | None = None,
) -> Array:
    """Return Pr[X_t = x | answer, known records] for each answer and target.

    Exact up to rounding, for counts, sums, means and histograms of two states. With the totals
    0 .. S that n records can have, time is n S k^2 for all targets together, memory S k for each.

    Parameters
    ----------
    answers
        One noisy answer, or a list of answers to the same question about the same records; for a
        histogram two numbers each.
    mechanism
        `Laplace` or `DiscreteLaplace` noise on a `Count`, `Sum`, `Mean` or `Histogram`, or
        `TabulatedNoise` on a `Count`.
    chain
        The law of the records.
    length
        How many records were added up; by default those of the chain. A list of lengths stands
        for independent series that follow each other.
    targets
        The records wanted (0-based); by default all.
    known
        The state of each record that the attacker knows.

    Returns
    -------
    The array (answers, targets, states).

    >>> from undertow import Count, DiscreteLaplace, MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=5)
    >>> answer_posteriors(5, DiscreteLaplace(Count(1), 1.0), chain, targets=[2]).round(3)
    array([[[0.027, 0.973]]])
    """
    lengths = _lengths(length, chain)
    records = sum(lengths)
    made = totals(mechanism, chain.states, records)
    _check_cost(records, made)
    wanted = list(range(records)) if targets is None else list(targets)
    for record in wanted:
        if check_count(record, "target", 0) >= records:
            raise InvalidInput(f"record {record} is wanted, but there are {records} records")
    facts = known_states(known, chain)
    known_places(facts, np.array([records]))  # refuses records beyond the last
    law = lawful(chain)
    walk = _Walk(law, lengths, tuple(made.adds[place] for place in law.symbols), facts)
    units = made.units(answers, records)
    if not np.isfinite(units).all():
        raise InvalidInput("answers must be finite numbers")
    return walk.posteriors(made.log_weights, units, wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """The hidden chain, what each hidden state adds, and what is known of each record."""

    chain: LoweredLaw
    lengths: tuple[int, ...]
    adds: tuple[int, ...]
    facts: dict[int, int]

    @property
    def most(self) -> int:
        return sum(self.lengths) * max(self.adds)

    def posteriors(self, weights: Any, units: Array, wanted: list[int]) -> Array:
        """Return the posteriors of the wanted records, some answers at a time."""
        size = self.chain.size
        found = np.empty((len(units), len(wanted), int(self.chain.symbols[-1]) + 1))
        forth = self._forth(set(wanted), logs=False)
        batch = max(1, _BATCH // (size * (self.most + 1)))
        for begin in range(0, len(units), batch):
            part = slice(begin, begin + batch)
            told = weights(units[part], self.most)  # (answers, totals)
            mass = self._meet(forth, told, wanted, logs=False)  # (answers, wanted, states)
            # answers to be done again, with logarithms
            faint = np.flatnonzero((mass.sum(axis=2) < _FAINT).any(axis=1))
            if faint.size:
                carefully = self._forth(set(wanted), logs=True)
                mass[faint] = self._meet(carefully, told[faint], wanted, logs=True)
            mass = self.chain.records(mass)
            found[part] = mass / mass.sum(axis=2, keepdims=True)
        return found

    def _forth(self, wanted: set[int], *, logs: bool) -> dict[int, Array]:
        """Return the law of (state, total up to it) at each wanted record, up to a factor."""
        found = {}
        law = np.zeros((1, self.chain.size, self.most + 1))  # (1, states, totals)
        law[0, :, 0] = self.chain.start
        law = _log(law) if logs else law
        for record, step in enumerate(self._steps()):
            moved = _mixed(law, step.T, logs=logs) if record else law
            law = self._shifted(moved, record, 1, logs=logs)
            if logs and law.max() == -np.inf:
                raise InvalidInput(
                    f"what is known of the records up to record {record} (counting from 0) has "
                    "probability 0 under the model; check that truth and model belong together"
                )
            law = law - law.max() if logs else law / (law.sum() or 1.0)
            if record in wanted:
                found[record] = law[0]  # (states, totals)
        return found

    def _meet(
        self, forth: dict[int, Array], told: Array, wanted: list[int], *, logs: bool
    ) -> Array:
        """Return the mass of each state of each wanted record, for each answer."""
        records, size = sum(self.lengths), self.chain.size
        mass = np.empty((len(told), len(wanted), size))
        told = told - told.max(axis=1, keepdims=True)
        # weight of the answer by the state and the total so far: (answers, states, totals)
        ahead = np.repeat((told if logs else np.exp(told))[:, None, :], size, axis=1)
        places: dict[int, list[int]] = {}
        for place, record in enumerate(wanted):
            places.setdefault(record, []).append(place)
        steps = list(self._steps())
        for record in range(records - 1, -1, -1):
            for place in places.get(record, ()):
                mass[:, place] = _met(forth[record], ahead, logs=logs)  # (answers, states)
            if record:
                taken = self._shifted(ahead, record, -1, logs=logs)
                ahead = _mixed(taken, steps[record], logs=logs)
                # posteriors need no scale: (answers, 1, 1)
                top = ahead.max(axis=(1, 2), keepdims=True)
                ahead = ahead - top if logs else ahead / np.where(top > 0, top, 1.0)
        if logs:
            mass = np.exp(mass - mass.max(axis=2, keepdims=True))
        return mass

    def _steps(self) -> Iterable[Array]:
        """Yield the matrix that leads to each record; a new series forgets the one before."""
        for length in self.lengths:
            yield np.tile(self.chain.start, (self.chain.size, 1))
            for record in range(length - 1):
                yield self.chain.kernel(record)

    def _shifted(self, masses: Array, record: int, way: int, *, logs: bool) -> Array:
        """Return masses by the total after the record (``way`` 1) or before it (-1).

        Their axes are (answers, states, totals). States that the record cannot have are left out.
        """
        made = np.full_like(masses, -np.inf if logs else 0.0)
        for state, add in enumerate(self.adds):
            own = int(self.chain.symbols[state])
            if self.facts.get(record, own) == own:
                low, high = slice(0, masses.shape[2] - add), slice(add, None)
                source, place = (low, high) if way > 0 else (high, low)
                made[:, state, place] = masses[:, state, source]
        return made


def _mixed(law: Array, matrix: Array, *, logs: bool) -> Array:
    """Return matrix @ law for each answer, over the states."""
    if not logs:
        # (new states, states) @ (answers, states, totals)
        return np.asarray(np.matmul(matrix, law))
    # (answers, new states, states, totals), summed over the states
    return log_sum(_log(matrix)[None, :, :, None] + law[:, None, :, :], axis=2)


def _met(law: Array, ahead: Array, *, logs: bool) -> Array:
    if not logs:
        return np.asarray(np.einsum("xc,axc->ax", law, ahead))
    return log_sum(law[None] + ahead, axis=2)


def _log(values: Any) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def _lengths(length: Any, chain: Model) -> tuple[int, ...]:
    if length is None:
        length = chain.length
    if length is None:
        raise InvalidInput("the chain has no length; say how many records were added up: length=")
    listed = length if isinstance(length, Sequence) else [length]
    lengths = tuple(check_count(one, "length", 1) for one in listed)
    check_length(chain, max(lengths))
    return lengths


def _check_cost(records: int, made: Totals) -> None:
    cells = float(records) * records * max(max(made.adds), 1)
    if cells > _MOST_CELLS:
        raise NotSupported(
            f"{records} records with totals in {records * max(made.adds)} steps are too many to "
            "weigh; attack a shorter window, or states whose values are multiples of a larger unit"
        )


def _numbers(query: Sum | Mean, states: Sequence[State]) -> list[float]:
    """Return the number of each state."""
    values = dict(query.valued(states).values or ())
    return [values[state] for state in states]


def _value(number: float, ends: tuple[float, float], spread: float) -> Fraction:
    """Return what a state counts as above the lower end, in small whole numbers if it can be."""
    above = Fraction(min(max(number, ends[0]), ends[1])) - Fraction(ends[0])
    plain = above.limit_denominator(10**4)
    return plain if abs(plain - above) <= _CLOSE * spread else above.limit_denominator(10**9)


def _units(values: list[Fraction], spread: float) -> tuple[float, tuple[int, ...]]:
    """Return the largest unit of which all values are whole multiples, and the multiples."""
    common = math.lcm(*(value.denominator for value in values))
    unit = Fraction(math.gcd(*(int(value * common) for value in values)), common)
    if not unit:
        return spread, tuple(0 for _ in values)
    return float(unit), tuple(int(value / unit) for value in values)
