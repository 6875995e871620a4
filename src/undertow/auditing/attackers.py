"""Attackers on randomised series and on noisy answers, and the bounds that guarantees give.

On series each takes a `Scenario` and returns a `Guess`: *prior*, *single-bit* (one output, no
model), *correlation-aware* (the posterior mode of each record), *viterbi* (the likeliest series),
*informed* (all other records known); section 4 of [chakrabarti2022]. `Answered` attacks answers.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Adversary
from undertow.auditing.inference import (
    Observed,
    blank,
    check_length,
    decoded,
    known_places,
    known_states,
    lowered_law,
    smoothed,
)
from undertow.data.codes import Coded
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import Noise, Scaled, TabulatedNoise
from undertow.models.base import Model
from undertow.models.lowered import LoweredLaw
from undertow.models.sets import ModelSet
from undertow.numerics import Array, check_count, log_sum
from undertow.plan import Plan
from undertow.queries import Mean, State, Sum

__all__ = [
    "ATTACKERS",
    "Answered",
    "Attacker",
    "Guess",
    "Scenario",
    "Totals",
    "answer_posteriors",
    "answered",
    "average_bound",
    "between_neighbours",
    "covers",
    "given_others",
    "pointwise_bound",
    "prior_law",
    "read_answers",
    "totals",
]


def average_bound(prior: Any, epsilon: float) -> Any:
    """Return the largest probability of a right guess, on average over the outputs.

    ``prior`` is the law of the record before the outputs are seen (given what is known), or an
    array of such laws in its rows. Over all channels of level epsilon, sum_x prior(x) Pr[guess x |
    x] is largest where the m likeliest states are guessed and told apart alike: e^epsilon (sum of
    the m largest priors) / (e^epsilon + m - 1), for the best m. For two states that is max(pi_0,
    pi_1, e^epsilon / (1 + e^epsilon)).

    >>> round(average_bound([.5, .5], 0.5), 9)
    0.622459331
    >>> average_bound([.9, .1], 0.5)
    0.9
    """
    law = np.asarray(prior, dtype=np.float64)
    top = np.cumsum(-np.sort(-law, axis=-1), axis=-1)  # (..., m): the m largest priors
    extra = np.arange(law.shape[-1])
    # e^epsilon / (e^epsilon + m - 1) for m = 1 + extra; e^-epsilon is 0 where nothing is guaranteed
    bound = np.minimum((top / (1 + extra * math.exp(-epsilon))).max(axis=-1), 1.0)  # (...)
    return bound if law.ndim > 1 else float(bound)


def pointwise_bound(prior: Any, epsilon: float) -> Any:
    """Return the largest posterior of a state, whatever the output.

    e^epsilon / (e^epsilon + (1 - p) / p) for the largest prior p: for two states of a stationary
    chain e^epsilon / (e^epsilon + min(q/r, r/q)).

    >>> round(pointwise_bound([.25, .75], 1.0), 6)
    0.890768
    """
    law = np.asarray(prior, dtype=np.float64)
    largest = law.max(axis=-1)  # (...): over the states
    bound = largest / (largest + (1 - largest) * math.exp(-epsilon))
    return bound if law.ndim > 1 else float(bound)


def covers(
    plan: Plan[Any],
    *,
    attacker: str,
    known: tuple[int, ...],
    targets: tuple[int, ...] | None,
    model: Model,
) -> bool:
    """Return whether the guarantee of a plan is about this attacker.

    An attacker who looks at one output alone is covered by every guarantee about that record: what
    he sees is part of what each of the others sees, and speaks of no other record. All others are
    covered if they know what the guarantee allows them to know: *any* covers all, *ignorant* those
    who know nothing, *informed* those who know all other records. ``targets`` None means all.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> plan = calibrate(Count(1), chain, limit=1.0, against="ignorant", method="exact")
    >>> [covers(plan, attacker="bayes", known=k, targets=None, model=chain) for k in [(), (3,)]]
    [True, False]
    """
    secret, against = plan.leakage.secret, plan.against
    if secret.value_pairs is not None and len(secret.value_pairs) < math.comb(len(model.states), 2):
        return False
    if secret.targets is not None and (targets is None or not set(targets) <= {*secret.targets}):
        return False
    if not _is_member(model, plan.model):
        return False
    if isinstance(against, Adversary):
        alone = targets == (against.target,)
        return alone and (attacker == "single-bit" or _knows(attacker, known) == against.known)
    if attacker in ("single-bit", "prior") or against == "any":
        return True
    return _knows(attacker, known) == (() if against == "ignorant" else None)


def _knows(attacker: str, known: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return which records an attacker knows, None for all but the target."""
    return None if attacker == "informed" else tuple(sorted(known))


def _is_member(model: Model, guaranteed: Any) -> bool:
    if isinstance(guaranteed, ModelSet):
        return any(_is_member(model, member) for member in guaranteed.models)
    return bool(model == guaranteed)


def odds_shift(posterior: Array, prior: Array) -> npt.NDArray[np.float64]:
    """Return the largest shift of the log-odds between two states of each record.

    The largest ln (p(x) / p(x')) - ln (prior(x) / prior(x')) over the states that the prior allows.

    >>> odds_shift(np.array([[.9, .1]]), np.array([[.75, .25]])).round(6)
    array([1.098612])
    """
    shifts = np.empty(len(posterior))
    for begin in range(0, len(posterior), _LOG_BATCH):
        part = slice(begin, begin + _LOG_BATCH)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.log(posterior[part]) - np.log(prior[part])  # (records, states)
        barred = prior[part] <= 0
        high = np.where(barred, -np.inf, moved).max(axis=1)  # (records,): over the states allowed
        low = np.where(barred, np.inf, moved).min(axis=1)
        shifts[part] = np.maximum(high - low, 0.0)
    return shifts


_LOG_BATCH = 2**18
"""Records whose logarithms are taken at once: what they need beside the posteriors."""


Codes = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """The input of an attacker: series of outputs, the model, the known records, and the truth.

    ``outputs`` are the bare outputs, ``observed`` the same with the known records as evidence.
    ``prior`` is the law of each record before any output is seen, given what is known. ``truth``
    has the number of each record's state: attackers read of it what they are said to know.
    """

    chain: Model
    outputs: Observed
    observed: Observed
    prior: Array
    truth: Codes


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """The guessed state of each record, and the shift of its odds by the outputs.

    ``prior`` is the law of each record by all that this attacker knows without outputs.
    ``shifts`` says how far the outputs moved the odds of each record (None: not computed).
    """

    states: Codes
    prior: Array
    shifts: npt.NDArray[np.float64] | None = None


Attacker = Callable[[Scenario], Guess]


def prior(scenario: Scenario) -> Guess:
    """Guess the likeliest state without any output."""
    return Guess(best(scenario.prior), scenario.prior, np.zeros(len(scenario.prior)))


def single_bit(scenario: Scenario) -> Guess:
    """Guess the state that makes the record's own output most likely.

    Where the output says nothing (an erasure that is as likely in every state), the prior.
    """
    own, codes = (
        scenario.outputs.hidden.own,
        scenario.outputs.present_values(scenario.outputs.codes),
    )
    high, low = own.max(axis=1), own.min(axis=1)  # (outputs,): over the states
    with np.errstate(divide="ignore", invalid="ignore"):
        shifts = np.where(high == low, 0.0, np.log(high) - np.log(low))
    silent = (high == low)[codes]  # (records,)
    guessed = own.argmax(axis=1)[codes]
    if silent.any():
        guessed = np.where(silent, best(scenario.prior), guessed)
    return Guess(guessed, scenario.prior, shifts[codes])


def correlation_aware(scenario: Scenario) -> Guess:
    """Guess the likeliest state of each record given all outputs and known records."""
    law = smoothed(scenario.observed)
    return Guess(best(law), scenario.prior, odds_shift(law, scenario.prior))


def viterbi(scenario: Scenario) -> Guess:
    """Guess the series that is likeliest as a whole."""
    return Guess(decoded(scenario.observed), scenario.prior)


def informed(scenario: Scenario) -> Guess:
    """Guess each record given all others: from its neighbours and its own output.

    Noise that is a chain is known beside the known records, so it tells of the noise in between.
    """
    observed = scenario.outputs
    if observed.present is not None:
        raise NotSupported(
            "an attacker who knows all other records needs series without absent steps"
        )
    model, truth = observed.hidden, scenario.truth.astype(np.intp)
    chain = lowered_law(scenario.chain)
    around = given_others(scenario.chain, truth, observed.ends)
    law = around
    if not chain.plain:
        if model.start.size != chain.size:
            raise NotSupported(
                "an attacker who knows all other records needs flips that are independent, or a "
                "chain of order one"
            )
        law = around * model.own[observed.codes]  # (records, states)
        law /= law.sum(axis=1, keepdims=True)
        return Guess(best(law), around, odds_shift(law, around))
    if model.start.size != chain.size:  # noise that is a chain: what a record hides
        pair = 2 * truth + (truth ^ observed.codes)  # (records,): numbers of (record, flip)
        law = between_neighbours(model.start, model.steps, pair, observed.ends)
    law = model.records(law * model.emission[observed.codes])  # (records, states)
    law /= law.sum(axis=1, keepdims=True)
    return Guess(best(law), around, odds_shift(law, around))


ATTACKERS: Mapping[str, Attacker] = MappingProxyType(
    {
        "prior": prior,
        "single-bit": single_bit,
        "correlation-aware": correlation_aware,
        "viterbi": viterbi,
        "informed": informed,
    }
)
"""The attackers on series, by name."""


def best(law: Array) -> Codes:
    """Return the likeliest state of each record, the first of those that are equally likely."""
    if law.shape[1] == 2:
        return np.asarray(law[:, 1] > law[:, 0]).astype(np.uint8)
    return np.asarray(law.argmax(axis=1))


def prior_law(
    chain: Model, lengths: npt.NDArray[np.int64], places: npt.NDArray[np.int64], states: Codes
) -> Array:
    """Return the law of every record of some series, given the states of those at some places.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.1, .9]])
    >>> prior_law(chain, np.array([3]), np.array([0]), np.array([1])).round(2).tolist()
    [[0.0, 1.0], [0.1, 0.9], [0.18, 0.82]]
    """
    law = lowered_law(chain)
    if not places.size and isinstance(getattr(chain, "start", "stationary"), str):
        start = law.records(law.start)
        return np.broadcast_to(start, (int(lengths.sum()), start.size))
    return smoothed(blank(chain, lengths[lengths > 0]).with_known(places, states))


def given_others(chain: Model, truth: Codes, ends: npt.NDArray[np.int64]) -> Array:
    """Return the law of each record given all others, shape (records, states).

    On a chain of order one its neighbours stand for them. Elsewhere messages of the hidden states
    run forth and back over the true records: cost O(n m^2).

    >>> from undertow import MarkovChain
    >>> from undertow.models import SecondOrderChain
    >>> one = MarkovChain([[.9, .1], [.1, .9]])
    >>> rows = [given_others(c, np.array([0, 1, 0]), np.array([3]))
    ...         for c in (one, SecondOrderChain.of(one))]
    >>> bool(abs(rows[0] - rows[1]).max() < 1e-12)
    True
    """
    law = lowered_law(chain)
    if law.plain:
        return between_neighbours(law.start, law.kernels, truth, ends)
    shows = (law.symbols == np.arange(int(law.symbols[-1]) + 1)[:, None]).astype(np.float64)
    before, after = np.empty((truth.size, law.size)), np.ones((truth.size, law.size))
    first = 0
    for end in ends:
        # before[t](s) = Pr[S_t = s | records before], after[t](s) ~ Pr[records after | S_t = s]
        before[first] = law.start
        for t in range(first + 1, end):
            evidence = before[t - 1] * shows[truth[t - 1]]
            before[t] = evidence @ law.kernel(t - 1 - first) / evidence.sum()
        for t in range(end - 2, first - 1, -1):
            message = law.kernel(t - first) @ (shows[truth[t + 1]] * after[t + 1])
            after[t] = message / message.max()
        first = end
    laws = law.records(before * after)
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))


def between_neighbours(
    start: Array, steps: Array, truth: Codes, ends: npt.NDArray[np.int64]
) -> Array:
    """Return the law of each record given its two neighbours, which stand for all others.

    >>> rows = np.array([[[.9, .1], [.1, .9]]])
    >>> law = between_neighbours(np.array([.5, .5]), rows, np.array([0, 1, 0]), np.array([3]))
    >>> law.round(3).tolist()
    [[0.1, 0.9], [0.988, 0.012], [0.1, 0.9]]
    """
    law = np.ones((truth.size, start.size))
    begins = np.concatenate([[0], ends[:-1]])
    inner = np.ones(truth.size, dtype=np.bool_)
    inner[begins] = False
    later = np.flatnonzero(inner)
    # (later records,): the number of the step within its series
    step = later - np.repeat(begins, np.diff(ends, prepend=0))[later] - 1
    step *= len(steps) > 1
    law[begins] = start
    law[later] = steps[step, truth[later - 1]]  # P(x_{t-1}, .): (later records, states)
    law[later - 1] *= steps[step, :, truth[later]]  # P(., x_{t+1}): (later records, states)
    return np.asarray(law / law.sum(axis=1, keepdims=True))


_LEAST_MASS = 1e-280
"""Below it the sum over totals may have lost terms (lower side): done again with logarithms."""

_MOST_CELLS = 4e8
"""Records times totals: a cost limit, minutes rather than hours."""

_BACKWARD_BATCH = 2**21
"""Cells of the walk back that are held at once."""

_UNIT_TOLERANCE = 1e-9
"""Tolerance, relative to the range, of a value that counts as a whole number of units."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Contribution of each state to an answer: a whole number of units, and the scale in units.

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
        steps: Array = (numbers - length * self.base) / self.unit  # (answers, numbers of each)
        if self.pair:  # the first number counts what the second does not
            steps[:, 0] = length - steps[:, 0]
        return steps

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
    sums = totals(mechanism, chain.states, records)
    _check_cost(records, sums)
    wanted = list(range(records)) if targets is None else list(targets)
    for record in wanted:
        if check_count(record, "target", 0) >= records:
            raise InvalidInput(f"record {record} is wanted, but there are {records} records")
    facts = known_states(known, chain)
    known_places(facts, np.array([records]))  # refuses records beyond the last
    law = lowered_law(chain)
    walk = _Walk(law, lengths, tuple(sums.adds[place] for place in law.symbols), facts)
    units = sums.units(answers, records)
    if not np.isfinite(units).all():
        raise InvalidInput("answers must be finite numbers")
    return walk.posteriors(sums.log_weights, units, wanted)


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """The hidden chain, what each hidden state adds, and the known records."""

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
        laws = np.empty((len(units), len(wanted), int(self.chain.symbols[-1]) + 1))
        forth = self._forth(set(wanted), logs=False)
        batch = max(1, _BACKWARD_BATCH // (size * (self.most + 1)))
        for begin in range(0, len(units), batch):
            part = slice(begin, begin + batch)
            log_weights = weights(units[part], self.most)  # (answers, totals)
            mass = self._meet(forth, log_weights, wanted, logs=False)  # (answers, wanted, states)
            # answers to be done again, with logarithms
            faint = np.flatnonzero((mass.sum(axis=2) < _LEAST_MASS).any(axis=1))
            if faint.size:
                carefully = self._forth(set(wanted), logs=True)
                mass[faint] = self._meet(carefully, log_weights[faint], wanted, logs=True)
            mass = self.chain.records(mass)
            laws[part] = mass / mass.sum(axis=2, keepdims=True)
        return laws

    def _forth(self, wanted: set[int], *, logs: bool) -> dict[int, Array]:
        """Return the law of (state, total up to it) at each wanted record, up to a factor."""
        laws = {}
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
                laws[record] = law[0]  # (states, totals)
        return laws

    def _meet(
        self, forth: dict[int, Array], log_weights: Array, wanted: list[int], *, logs: bool
    ) -> Array:
        """Return the mass of each state of each wanted record, for each answer."""
        records, size = sum(self.lengths), self.chain.size
        mass = np.empty((len(log_weights), len(wanted), size))
        log_weights = log_weights - log_weights.max(axis=1, keepdims=True)
        # weight of the answer by the state and the total so far: (answers, states, totals)
        ahead = np.repeat((log_weights if logs else np.exp(log_weights))[:, None, :], size, axis=1)
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
        shifted = np.full_like(masses, -np.inf if logs else 0.0)
        for state, add in enumerate(self.adds):
            own = int(self.chain.symbols[state])
            if self.facts.get(record, own) == own:
                low, high = slice(0, masses.shape[2] - add), slice(add, None)
                source, place = (low, high) if way > 0 else (high, low)
                shifted[:, state, place] = masses[:, state, source]
        return shifted


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


def _check_cost(records: int, sums: Totals) -> None:
    cells = float(records) * records * max(max(sums.adds), 1)
    if cells > _MOST_CELLS:
        raise NotSupported(
            f"{records} records with totals in {records * max(sums.adds)} steps are too many to "
            "weigh; attack a shorter window, or states whose values are multiples of a larger unit"
        )


def _numbers(query: Sum | Mean, states: Sequence[State]) -> list[float]:
    """Return the number of each state."""
    values = dict(query.valued(states).values or ())
    return [values[state] for state in states]


def _value(number: float, ends: tuple[float, float], spread: float) -> Fraction:
    """Return the value of a state above the lower end as a fraction, simplified if close."""
    above = Fraction(min(max(number, ends[0]), ends[1])) - Fraction(ends[0])
    plain = above.limit_denominator(10**4)
    return (
        plain if abs(plain - above) <= _UNIT_TOLERANCE * spread else above.limit_denominator(10**9)
    )


def _units(values: list[Fraction], spread: float) -> tuple[float, tuple[int, ...]]:
    """Return the largest unit of which all values are whole multiples, and the multiples."""
    common = math.lcm(*(value.denominator for value in values))
    unit = Fraction(math.gcd(*(int(value * common) for value in values)), common)
    if not unit:
        return spread, tuple(0 for _ in values)
    return float(unit), tuple(int(value / unit) for value in values)


def read_answers(sanitised: Any, plan: Plan[Any], series: int) -> Array:
    """Return released answers, a row for each: one for each series, or one for all together.

    Takes a number, a list of numbers, or what `release` returned; a histogram is a mapping from
    states to numbers, or a list of them in the order of the states.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> plan = calibrate(Count(1), MarkovChain([[.9, .1], [.3, .7]]), limit=1.0)
    >>> read_answers([3, 5], plan, series=2).tolist()
    [[3.0], [5.0]]
    """
    value = getattr(sanitised, "value", sanitised)
    if plan.query.selects:
        raise NotSupported(
            "no attacker weighs selected states; audit(plan) attacks the code that selects them"
        )
    if plan.query.per_state or (plan.query.named and plan.query.cells(plan.states)):
        value = _histograms(value, plan)
    elif isinstance(value, Mapping):  # one for each group
        value = list(value.values())
    width = plan.numbers
    try:
        numbers = np.asarray(value, dtype=np.float64).reshape(-1, width)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "a released answer is required: a number, a list of numbers, or what release returned"
        ) from error
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers).all(axis=1))[0])
        raise InvalidInput(f"answer {row} (counting from 0) is not a finite number")
    if len(numbers) not in (1, series):
        raise InvalidInput(
            f"there are {len(numbers)} answers and {series} series; pass one answer for each "
            "series, or one for all of them together"
        )
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Answers about series of which some records are known, and the truth."""

    answers: Array
    plan: Plan[Any]
    chain: Model
    true: Coded
    known: npt.NDArray[np.int64]
    prior: Array

    def parts(self) -> Iterator[tuple[Array, list[int], slice]]:
        """Yield each answer, the lengths of the series behind it, and where their records are."""
        lengths = self.true.lengths
        groups = [lengths] if len(self.answers) == 1 else np.split(lengths, len(lengths))
        ends = np.cumsum([group.sum() for group in groups]).tolist()
        parts = map(slice, [0, *ends[:-1]], ends)
        for answer, group, part in zip(self.answers, groups, parts, strict=True):
            yield answer, group.tolist(), part

    def guess(self, attacker: str) -> Guess:
        """Return what an attacker guesses for every record."""
        if attacker == "prior":
            return Guess(best(self.prior), self.prior, np.zeros(len(self.prior)))
        prior, posterior = (
            self._informed() if attacker == "informed" else (self.prior, self._posteriors())
        )
        return Guess(best(posterior), prior, odds_shift(posterior, prior))

    def _posteriors(self) -> Array:
        """Return the law of every record given its answer and what is known."""
        laws = np.empty((self.true.codes.size, len(self.chain.states)))  # (records, states)
        for answer, lengths, part in self.parts():
            facts = {
                int(place - part.start): self.chain.states[self.true.codes[place]]
                for place in self.known
                if part.start <= place < part.stop
            }
            laws[part] = answer_posteriors(
                answer, self.plan.noise, self.chain, lengths, known=facts
            )[0]
        return laws

    def _informed(self) -> tuple[Array, Array]:
        """Return the law of each record given all others, without and with the answer."""
        truth, lengths = self.true.codes.astype(np.intp), self.true.lengths
        ends = np.cumsum(lengths[lengths > 0])
        around = given_others(self.chain, truth, ends)
        posterior = np.empty_like(around)  # (records, states)
        for answer, behind, part in self.parts():
            sums = totals(self.plan.noise, self.chain.states, sum(behind))
            adds = np.array(sums.adds)  # (states,)
            own = adds[truth[part]]  # (records,)
            rest = own.sum() - own  # the total of all others
            units = sums.units(answer, sum(behind))[0]  # (numbers of the answer,)
            # (numbers, records, states), then (records, states): numbers have noise of their own
            log_weights = sums.log_law(units[:, None, None] - (rest[:, None] + adds)).sum(axis=0)
            weight = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
            posterior[part] = around[part] * weight
        return around, posterior / posterior.sum(axis=1, keepdims=True)


def answered(
    answers: Array, plan: Plan[Any], chain: Model, true: Coded, known: npt.NDArray[np.int64]
) -> Answered:
    """Return the scenario of an attack on answers.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> from undertow.data.codes import Rule, coded
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> plan = calibrate(Count(1), chain, limit=1.0)
    >>> true = coded([0, 1, 1], Rule((0, 1)))
    >>> scenario = answered(np.array([[9.0]]), plan, chain, true, np.array([0]))
    >>> scenario.guess("bayes").states.tolist()
    [0, 0, 0]
    """
    check_length(chain, int(true.lengths.max()))
    law = prior_law(chain, true.lengths, known, true.codes[known])
    return Answered(answers, plan, chain, true, known, law)


def _histograms(value: Any, plan: Plan[Any]) -> Any:
    """Return the numbers of histograms in the order of the states; of two, the one counted."""
    if not isinstance(value, Mapping):
        return value
    listed = [value] if all(state in value for state in plan.states) else list(value.values())
    wanted = [state for some in plan.query.bins(plan.states) for state in some]
    try:
        return [[one[state] for state in wanted] for one in listed]
    except (KeyError, TypeError, IndexError) as error:
        raise InvalidInput("a histogram needs a number for each state of the plan") from error
