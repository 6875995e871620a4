"""What an audit makes of an answer: how much it speaks for one value of the target.

A score is any function of the answer; audits are sound for every one of them, and sharp for the
likelihood ratio. It is computed here from the plan's description, by sums of this module's own:
forwards and backwards through a hidden chain for series, by convolution for counts. Where the law
of the answer is not at hand the answer itself is the score.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.auditing.blackbox import Batch
from undertow.auditing.draws import ChainSource
from undertow.auditing.hidden import Hidden
from undertow.numerics import Array
from undertow.tabulated import TabulatedNoise

__all__ = [
    "Blur",
    "Score",
    "answer_score",
    "call_score",
    "count_middle",
    "count_score",
    "laplace_blur",
    "normal_blur",
    "of_mean",
    "series_score",
    "table_blur",
]

Score = Callable[[Batch], Array]
"""Answers in, a row for each answer and a column for each score out."""

TRUTH = 1e-6
"""How much a score believes that an output is the plain truth, whatever the plan says: so outputs
that the plan rules out still count for something."""

MOST_RECORDS = 2000
"""Records up to which the law of a count is computed; beyond, the answer itself is the score."""

_REACH = 10
"""Standard deviations of normal noise beyond all counts, up to which the ratio is computed."""

_COMPARED = 6
"""Released numbers of which all pairs are compared."""

_DIGITS = 6
_EVERY = 16
"""Scores are rounded, so that equal ones stay equal; messages are rescaled once in a while."""


def _trusting(channel: Array, owner: npt.NDArray[np.intp]) -> Array:
    """Return the channel mixed with a little truth, and with a very little of everything."""
    states, outputs = int(owner[-1]) + 1, channel.shape[1]
    truth = np.full(channel.shape, 1 / outputs)
    if outputs >= states:
        truth = np.eye(states, outputs)[owner]  # (hidden states, outputs)
    return np.asarray((1 - TRUTH - TRUTH**2) * channel + TRUTH * truth + TRUTH**2 / outputs)


def series_score(
    model: Hidden, window: range, known: Mapping[int, int], target: int, pair: tuple[int, int]
) -> Score:
    """Return the log-likelihood ratio of two values of the target, given outputs of a window.

    ln Pr[outputs, known, X_i = x] - ln Pr[outputs, known, X_i = x'], which is the ratio of
    likelihoods up to a constant. Messages run from both ends of the window to the target.

    >>> from undertow import MarkovChain, RandomizedResponse
    >>> from undertow.auditing.hidden import hidden
    >>> model = hidden(RandomizedResponse.binary(.25, .25), MarkovChain([[.9, .1], [.1, .9]]))
    >>> shown = np.array([[0, 0, 0], [1, 0, 1]], dtype=np.uint8)
    >>> series_score(model, range(3), {}, 1, (0, 1))(shown).round(3).ravel().tolist()
    [2.793, -0.596]
    """
    start = model.law(window.start)  # (hidden states,)
    steps = [model.step(record) for record in window[:-1]]
    shown = [_trusting(model.outputs(record).T, model.owner) for record in window]
    for record in set(known) & set(window):
        shown[record - window.start] *= (model.owner == known[record])[:, None]
    at = target - window.start

    def score(outputs: Batch) -> Array:
        lying = np.ascontiguousarray(outputs.T)  # (records, draws)
        ahead = _folded(start, [step.T for step in steps[:at]], shown[:at], lying[:at])
        behind = _folded(np.ones_like(start), steps[at:][::-1], shown[:at:-1], lying[:at:-1])
        both = [
            sum(
                ahead[h] * behind[h] * shown[at][h].take(lying[at])
                for h in np.flatnonzero(model.owner == value)
            )
            for value in pair
        ]  # two arrays (draws,): Pr[outputs, known, X_i] for either value
        tiny = np.finfo(np.float64).tiny
        ratio = np.log(np.maximum(both[0], tiny)) - np.log(np.maximum(both[1], tiny))
        return np.asarray(np.round(ratio, _DIGITS)[:, None])  # (draws, 1)

    return score


def _folded(start: Array, steps: list[Array], shown: list[Array], outputs: Batch) -> list[Any]:
    """Return the message that arrives at the target, a vector over draws for each hidden state.

    ``steps[t][h, g]`` is the weight with which the message at g, after its output, enters h.
    """
    message: list[Any] = start.tolist()
    for place, (step, table) in enumerate(zip(steps, shown, strict=True)):
        # for each hidden state (draws,): the message times the probability of the record's output
        weighed = [message[g] * table[g].take(outputs[place]) for g in range(len(message))]
        message = []
        for row in step:
            terms = [weight * weighed[g] for g, weight in enumerate(row.tolist()) if weight]
            message.append(sum(terms[1:], terms[0]) if terms else 0.0 * weighed[0])
        if place % _EVERY == _EVERY - 1:
            peak = np.maximum(np.max(message, axis=0), np.finfo(np.float64).tiny)  # (draws,)
            message = [part / peak for part in message]
    return message


def answer_score(answers: Batch) -> Array:
    """Return the released numbers themselves, and for two or more their differences.

    Those of all pairs of the first six, and of all neighbours: noise that is shared shows there.

    >>> answer_score(np.array([[3.0, 5.0]])).tolist()
    [[3.0, 5.0, -2.0]]
    """
    numbers = answers.shape[1]
    if numbers == 1:
        return np.asarray(answers, dtype=np.float64)
    near = {(place, place + 1) for place in range(numbers - 1)}
    pairs = sorted(near | set(combinations(range(min(numbers, _COMPARED)), 2)))
    one, two = (list(side) for side in zip(*pairs, strict=True))
    return np.hstack([answers, answers[:, one] - answers[:, two]])


def call_score(numbers: int) -> Score:
    """Return the score of an answer beside those before and after it: differences and sums.

    Each has so many ``numbers``. Differences show where the noise is the same, sums where it has
    the other sign.

    >>> call_score(1)(np.array([[7.0, 4.0, 9.0]])).tolist()
    [[3.0, -2.0, 11.0, 16.0]]
    """

    def score(answers: Batch) -> Array:
        own, before, after = (part[:, :numbers] for part in np.split(answers, 3, axis=1))
        parts = np.hstack([own - before, own - after, own + before, own + after])
        return np.asarray(np.round(parts, _DIGITS))

    return score


@dataclass(frozen=True, slots=True)
class Blur:
    """Noise on a count: its likelihoods at whole numbers in a row, up to a factor.

    Beyond ``reach`` outside all counts, ratios of likelihoods stay what they are.
    """

    law: Callable[[Batch], Array]
    reach: int


def laplace_blur(scale: float) -> Blur:
    """Return Laplace noise: exp(-|z| / scale)."""
    return Blur(lambda z: np.exp(-(np.abs(z) / scale)), 1)


def normal_blur(sigma: float) -> Blur:
    """Return normal noise: exp(-z^2 / (2 sigma^2))."""
    return Blur(lambda z: np.exp(-((np.abs(z) / sigma) ** 2) / 2), 1 + math.ceil(_REACH * sigma))


def table_blur(noise: TabulatedNoise) -> Blur:
    """Return noise with a table of probabilities."""
    reach = 1 + max(abs(noise.first), abs(noise.last))
    return Blur(lambda z: noise.law(int(z[0]), int(z[-1])), reach)


def count_score(
    source: ChainSource,
    fixed: tuple[Mapping[int, int], Mapping[int, int]],
    bins: Batch,
    blur: "Blur",
) -> Score:
    """Return the log-likelihood ratio of noisy counts on a chain, and the counts themselves.

    ``bins`` has a row of indicators for each count. The law of a count given the fixed records is
    built record by record, and convolved with noise. Several counts enter as if they were
    independent. Beyond all possible counts the ratio of Laplace noise stays the same, that of a
    table from its tails on; that of normal noise goes on for ten standard deviations.

    >>> from undertow import MarkovChain
    >>> source = ChainSource(MarkovChain([[.9, .1], [.1, .9]]), 3)
    >>> score = count_score(source, ({1: 1}, {1: 0}), np.array([[0, 1]]), laplace_blur(1.0))
    >>> score(np.array([[-4.0], [3.0], [9.0]]))[:, 0].round(3).tolist()
    [-2.552, 2.552, 2.552]
    """
    if source.length > MOST_RECORDS:
        return answer_score
    laws = [[_count_law(source, given, row) for row in bins] for given in fixed]
    reach = blur.reach
    grid = np.arange(-reach, source.length + 1 + reach)  # (counts,); beyond, the ratio is constant
    ratios = [
        np.log(_blurred(one, blur)) - np.log(_blurred(two, blur))
        for one, two in zip(*laws, strict=True)
    ]

    def score(answers: Batch) -> Array:
        found = sum(np.interp(answers[:, place], grid, ratio) for place, ratio in enumerate(ratios))
        return np.hstack([np.round(np.asarray(found), _DIGITS)[:, None], answer_score(answers)])

    return score


def of_mean(score: Score, releases: int) -> Score:
    """Return a score of several releases: that of their mean, number by number.

    The mean is all that releases with normal noise say; of other noise it says nearly all.

    >>> of_mean(answer_score, 2)(np.array([[3.0, 9.0, 5.0, 9.0]])).tolist()
    [[4.0, 9.0, -5.0]]
    """
    if releases == 1:
        return score
    return lambda answers: score(answers.reshape(len(answers), releases, -1).mean(axis=1))


def _count_law(source: ChainSource, fixed: Mapping[int, int], counted: Batch) -> Array:
    """Return the probabilities that 0, 1, .. of the records are counted."""
    start, steps = source.laws(fixed)
    counted = counted[source.law.symbols]  # (hidden states,)
    size, places = len(start), source.length + 1
    law = np.zeros((size, places))  # (states, counts)
    law[np.arange(size), counted.astype(np.int64)] = start
    for record, step in enumerate(steps, start=1):
        moved = step.T @ law[:, : record + 1]  # (states, counts so far)
        law[:, : record + 2] = 0.0
        for state in range(size):
            shift = int(counted[state])
            law[state, shift : shift + record + 1] = moved[state]
    return np.asarray(law.sum(axis=0))


def _blurred(law: Array, blur: Blur) -> Array:
    """Return the law plus noise at -reach .. n + reach, up to a constant; never quite 0."""
    padded = np.pad(law, blur.reach)  # (counts,): -reach .. n + reach
    noise = blur.law(np.arange(1 - padded.size, padded.size))  # of the answer less the count
    blurred = np.convolve(noise, padded, "valid")  # (counts,)
    return np.asarray(np.maximum(blurred, np.finfo(np.float64).tiny))


def count_middle(source: ChainSource, fixed: Mapping[int, int], counted: Batch) -> int:
    """Return the mean of a count given the fixed records, rounded; 0 where it is not computed.

    >>> from undertow import MarkovChain
    >>> source = ChainSource(MarkovChain([[.5, .5], [.5, .5]]), 9)
    >>> count_middle(source, {1: 1, 2: 1}, np.array([0, 1]))
    6
    """
    if source.length > MOST_RECORDS:
        return 0
    law = _count_law(source, fixed, counted)
    return int(np.rint(law @ np.arange(law.size)))
