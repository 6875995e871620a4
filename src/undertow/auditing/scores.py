"""What an audit makes of an answer: how much it speaks for one value of the target.

A score is any function of the answer; audits are sound for every one of them, and sharp for the
likelihood ratio. It is computed here from the plan's description, by sums of this module's own:
forwards and backwards through a hidden chain for series, by convolution for counts. Where the law
of the answer is not at hand the answer itself is the score.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from undertow.auditing.blackbox import Batch
from undertow.auditing.draws import ChainSource
from undertow.channels import LocalMechanism, RandomizedResponse, Redaction, XorNoise
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, freeze

__all__ = ["Hidden", "Score", "answer_score", "count_score", "hidden_chain", "series_score"]

Score = Callable[[Batch], Array]
"""Answers in, a row for each answer and a column for each score out."""

TRUTH = 1e-6
"""How much a score believes that an output is the plain truth, whatever the plan says: so outputs
that the plan rules out still count for something."""

MOST_RECORDS = 2000
"""Records up to which the law of a count is computed; beyond, the answer itself is the score."""

_DIGITS = 6
_EVERY = 16
"""Scores are rounded, so that equal ones stay equal; messages are rescaled once in a while."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """A chain of hidden states, each showing an output: what a series of outputs comes from.

    ``start`` is the law of the first hidden state, ``steps`` the transitions, ``shown[t]`` the
    probability of each output of record t by hidden state, ``state`` the record's state in each.

    >>> even = np.full((2, 2), .5)
    >>> len(Hidden(even[0], [even], [np.eye(2)] * 2, (0, 1)).shown)
    2
    """

    start: Array
    steps: list[Array]
    shown: list[Array]
    state: tuple[int, ...]


def hidden_chain(
    mechanism: LocalMechanism, chain: MarkovChain, first: int, length: int, offset: int = 0
) -> Hidden:
    """Return the hidden chain behind the outputs of records first .. first + length - 1.

    For XOR noise a hidden state is a state of the record and one of the noise. ``offset`` is the
    row of the redaction's table that the first record has.

    >>> chain = MarkovChain([[.9, .1], [.2, .8]])
    >>> len(hidden_chain(XorNoise(.1, .3), chain, 0, 5).start)
    4
    """
    start = chain.law(first)
    steps = [chain.step(first + record) for record in range(length - 1)]
    size = chain.size
    match mechanism:
        case RandomizedResponse():
            return Hidden(start, steps, [_trusting(mechanism.matrix)] * length, tuple(range(size)))
        case Redaction():
            rows = mechanism.probabilities[offset : offset + length]
            shown = [_trusting(np.column_stack([np.diag(1 - row), row])) for row in rows]
            return Hidden(start, steps, shown, tuple(range(size)))
        case XorNoise(rho0, rho1):
            moves = np.array([[1 - rho0, rho0], [rho1, 1 - rho1]])
            lasting = freeze([rho1 / (rho0 + rho1), rho0 / (rho0 + rho1)])
            output = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
            truth = np.repeat(np.eye(2), 2, axis=0)
            shown = [_trusting(output, truth)] * length
            joint = [np.kron(step, moves) for step in steps]
            return Hidden(freeze(np.kron(start, lasting)), joint, shown, (0, 0, 1, 1))


def _trusting(channel: Array, truth: Array | None = None) -> Array:
    """Return the channel mixed with a little truth, and with a very little of everything."""
    rows, columns = channel.shape
    if truth is None:
        truth = np.eye(rows, columns) if columns >= rows else np.full((rows, columns), 1 / columns)
    truth = np.hstack([truth, np.zeros((rows, columns - truth.shape[1]))])
    return np.asarray((1 - TRUTH - TRUTH**2) * channel + TRUTH * truth + TRUTH**2 / columns)


def series_score(
    hidden: Hidden, known: Mapping[int, int], target: int, pair: tuple[int, int]
) -> Score:
    """Return the log-likelihood ratio of two values of the target, given a series of outputs.

    ln Pr[outputs, known, X_i = x] - ln Pr[outputs, known, X_i = x'], which is the ratio of
    likelihoods up to a constant. Messages run from both ends to the target.

    >>> hidden = hidden_chain(RandomizedResponse.binary(.25, .25), MarkovChain([[.9, .1], [.1, .9]])
    ...  , 0, 3)
    >>> shown = np.array([[0, 0, 0], [1, 0, 1]], dtype=np.uint8)
    >>> series_score(hidden, {}, 1, (0, 1))(shown).round(3).ravel().tolist()
    [2.793, -0.596]
    """
    length, states = len(hidden.shown), np.array(hidden.state)
    shown = [table.copy() for table in hidden.shown]
    for record, state in known.items():
        if 0 <= record < length:
            shown[record] = shown[record] * (states == state)[:, None]

    def score(outputs: Batch) -> Array:
        lying = np.ascontiguousarray(outputs.T)
        ahead = _folded(
            [hidden.start],
            [step.T for step in hidden.steps[:target]],
            shown[:target],
            lying[:target],
        )
        behind = _folded(
            [np.ones(len(hidden.start))], hidden.steps[target:][::-1],
            shown[:target:-1], lying[:target:-1],
        )  # fmt: skip
        seen = shown[target]
        both = [
            sum(
                ahead[h] * behind[h] * seen[h].take(lying[target])
                for h in np.flatnonzero(states == value)
            )
            for value in pair
        ]
        tiny = np.finfo(np.float64).tiny
        ratio = np.log(np.maximum(both[0], tiny)) - np.log(np.maximum(both[1], tiny))
        return np.asarray(np.round(ratio, _DIGITS)[:, None])

    return score


def _folded(
    start: list[Array], steps: list[Array], shown: list[Array], outputs: Batch
) -> list[Any]:
    """Return the message that arrives at the target, a vector over draws for each hidden state.

    ``steps[t][h, g]`` is the weight with which the message at g, after its output, enters h.
    """
    message: list[Any] = [float(weight) for weight in start[0]]
    for place, (step, table) in enumerate(zip(steps, shown, strict=True)):
        weighed = [message[g] * table[g].take(outputs[place]) for g in range(len(message))]
        message = []
        for row in step:
            terms = [weight * weighed[g] for g, weight in enumerate(row.tolist()) if weight]
            message.append(sum(terms[1:], terms[0]) if terms else 0.0 * weighed[0])
        if place % _EVERY == _EVERY - 1:
            peak = np.maximum(np.max(message, axis=0), np.finfo(np.float64).tiny)
            message = [part / peak for part in message]
    return message


def answer_score(answers: Batch) -> Array:
    """Return the released numbers themselves, and for two or more each difference of neighbours.

    >>> answer_score(np.array([[3.0, 5.0]])).tolist()
    [[3.0, 5.0, -2.0]]
    """
    if answers.shape[1] == 1:
        return np.asarray(answers, dtype=np.float64)
    return np.hstack([answers, answers[:, :-1] - answers[:, 1:]])


def count_score(
    source: ChainSource,
    fixed: tuple[Mapping[int, int], Mapping[int, int]],
    bins: Batch,
    scale: float,
) -> Score:
    """Return the log-likelihood ratio of noisy counts on a chain, and the counts themselves.

    ``bins`` has a row of indicators for each count. The law of a count given the fixed records is
    built record by record; discrete Laplace noise of the stated scale is added by two running sums.
    Several counts enter as if they were independent. Beyond all possible counts the ratio stays
    the same.

    >>> source = ChainSource(MarkovChain([[.9, .1], [.1, .9]]), 3)
    >>> score = count_score(source, ({1: 1}, {1: 0}), np.array([[0, 1]]), 1.0)
    >>> score(np.array([[-4.0], [3.0], [9.0]]))[:, 0].round(3).tolist()
    [-2.552, 2.552, 2.552]
    """
    if source.length > MOST_RECORDS:
        return answer_score
    laws = [[_count_law(source, given, row) for row in bins] for given in fixed]
    grid = np.arange(-1, source.length + 2)
    ratios = [
        np.log(_blurred(one, scale)) - np.log(_blurred(two, scale))
        for one, two in zip(*laws, strict=True)
    ]

    def score(answers: Batch) -> Array:
        found = sum(np.interp(answers[:, place], grid, ratio) for place, ratio in enumerate(ratios))
        return np.hstack([np.round(np.asarray(found), _DIGITS)[:, None], answer_score(answers)])

    return score


def _count_law(source: ChainSource, fixed: Mapping[int, int], counted: Batch) -> Array:
    """Return the probabilities that 0, 1, .. of the records are counted."""
    start, steps = source.laws(fixed)
    size, places = len(start), source.length + 1
    law = np.zeros((size, places))
    law[np.arange(size), counted.astype(np.int64)] = start
    for record, step in enumerate(steps, start=1):
        moved = step.T @ law[:, : record + 1]
        law[:, : record + 2] = 0.0
        for state in range(size):
            shift = int(counted[state])
            law[state, shift : shift + record + 1] = moved[state]
    return np.asarray(law.sum(axis=0))


def _blurred(law: Array, scale: float) -> Array:
    """Return the law plus noise at -1 .. n + 1, up to a constant; never quite 0."""
    ratio = float(np.exp(-1.0 / scale))
    padded = np.concatenate([[0.0], law, [0.0]])
    left, right = np.empty_like(padded), np.empty_like(padded)
    running = 0.0
    for place, probability in enumerate(padded.tolist()):
        running = running * ratio + probability
        left[place] = running
    running = 0.0
    for place in reversed(range(padded.size)):
        right[place] = running
        running = (running + float(padded[place])) * ratio
    return np.asarray(np.maximum(left + right, np.finfo(np.float64).tiny))
