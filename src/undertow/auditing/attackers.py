"""Attackers on flipped and erased series, from the simple to the all-knowing.

Each takes a `Scenario` and returns a `Guess` of every record. *prior* sees nothing. *single-bit*
looks at one output at a time and knows no model. *correlation-aware* takes the likeliest state of
each record given all outputs, which no other guess beats on average. *viterbi* takes the
likeliest series as a whole. *informed* knows all other records. The first four of them, but for
the prior, are those of section 4 of [chakrabarti2022].
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.auditing.guarantees import odds_shift
from undertow.auditing.hidden import Observed, blank, lawful
from undertow.auditing.posteriors import smoothed
from undertow.auditing.viterbi import decoded
from undertow.errors import NotSupported
from undertow.models.base import Model
from undertow.numerics import Array

__all__ = [
    "ATTACKERS", "Attacker", "Guess", "Scenario", "between_neighbours", "given_others", "prior_law",
]  # fmt: skip

Codes = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """What there is to attack: series of outputs, the model, what is known, and the truth.

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
    """The state that an attacker guesses for each record, and what its outputs told of it.

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
    own, codes = scenario.outputs.hidden.own, scenario.outputs.there(scenario.outputs.codes)
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
    found = smoothed(scenario.observed)
    return Guess(best(found), scenario.prior, odds_shift(found, scenario.prior))


def viterbi(scenario: Scenario) -> Guess:
    """Guess the series that is likeliest as a whole."""
    return Guess(decoded(scenario.observed), scenario.prior)


def informed(scenario: Scenario) -> Guess:
    """Guess each record knowing all others: its neighbours and its own output are what matters.

    Noise that is a chain is known beside the known records, so it tells of the noise in between.
    """
    observed = scenario.outputs
    if observed.present is not None:
        raise NotSupported(
            "an attacker who knows all other records needs series without absent steps"
        )
    model, truth = observed.hidden, scenario.truth.astype(np.intp)
    chain = lawful(scenario.chain)
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
    law = lawful(chain)
    if not places.size and isinstance(getattr(chain, "start", "stationary"), str):
        start = law.records(law.start)
        return np.broadcast_to(start, (int(lengths.sum()), start.size))
    return smoothed(blank(chain, lengths[lengths > 0]).knowing(places, states))


def given_others(chain: Model, truth: Codes, ends: npt.NDArray[np.int64]) -> Array:
    """Return the law of each record given all others, shape (records, states).

    On a chain of order one its neighbours stand for them. Elsewhere messages of the hidden states
    run forth and back over the true records: cost O(n m^2).

    >>> from undertow import MarkovChain, SecondOrderChain
    >>> one = MarkovChain([[.9, .1], [.1, .9]])
    >>> rows = [given_others(c, np.array([0, 1, 0]), np.array([3]))
    ...         for c in (one, SecondOrderChain.of(one))]
    >>> bool(abs(rows[0] - rows[1]).max() < 1e-12)
    True
    """
    law = lawful(chain)
    if law.plain:
        return between_neighbours(law.start, law.kernels, truth, ends)
    shows = (law.symbols == np.arange(int(law.symbols[-1]) + 1)[:, None]).astype(np.float64)
    before, after = np.empty((truth.size, law.size)), np.ones((truth.size, law.size))
    first = 0
    for end in ends:
        # before[t](s) = Pr[S_t = s | records before], after[t](s) ~ Pr[records after | S_t = s]
        before[first] = law.start
        for t in range(first + 1, end):
            seen = before[t - 1] * shows[truth[t - 1]]
            before[t] = seen @ law.kernel(t - 1 - first) / seen.sum()
        for t in range(end - 2, first - 1, -1):
            message = law.kernel(t - first) @ (shows[truth[t + 1]] * after[t + 1])
            after[t] = message / message.max()
        first = end
    found = law.records(before * after)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


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
