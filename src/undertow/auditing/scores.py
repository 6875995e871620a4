"""Scores and labels of answers: how strongly an answer favours one value of the target.

Audits are sound for every score, and sharp for the likelihood ratio, which is computed here from
the plan's description, independently of `undertow.bounds`: forwards and backwards through a hidden
chain for series, by convolution for counts. Without a law the answer itself is the score.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.auditing.blackbox import Batch
from undertow.auditing.inference import Hidden
from undertow.auditing.scenarios import ChainSource
from undertow.auditing.statistical import Labels
from undertow.mechanisms import TabulatedNoise
from undertow.numerics import Array

__all__ = [
    "MODULI",
    "Blur",
    "Labelled",
    "Score",
    "answer_score",
    "call_labels",
    "call_score",
    "count_middle",
    "count_score",
    "laplace_blur",
    "normal_blur",
    "number_labels",
    "of_mean",
    "output_labels",
    "pair_labels",
    "series_score",
    "table_blur",
]


Score = Callable[[Batch], Array]
"""Answers in, a row for each answer and a column for each score out."""

TRUTH = 1e-6
"""Weight of the identity in the scored channel, so that outputs which the plan rules out have a
finite score."""

MOST_RECORDS = 2000
"""Records up to which the law of a count is computed; beyond, the answer itself is the score."""

_REACH = 10
"""Standard deviations of normal noise beyond all counts, up to which the ratio is computed."""

_MOST_COMPARED = 6
"""Released numbers of which all pairs are compared."""

_DIGITS = 6
"""Digits of scores: rounded, so that equal scores stay equal."""

_RESCALED_EVERY = 16
"""Steps after which messages are rescaled."""


def _trusting(channel: Array, owner: npt.NDArray[np.intp]) -> Array:
    """Return the channel mixed with the identity and with the uniform channel."""
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
    >>> from undertow.auditing.inference import hidden
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
        if place % _RESCALED_EVERY == _RESCALED_EVERY - 1:
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
    pairs = sorted(near | set(combinations(range(min(numbers, _MOST_COMPARED)), 2)))
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
        ratio_sum = sum(
            np.interp(answers[:, place], grid, ratio) for place, ratio in enumerate(ratios)
        )
        return np.hstack([np.round(np.asarray(ratio_sum), _DIGITS)[:, None], answer_score(answers)])

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
    """Return the rounded mean of a count given the fixed records; 0 for long series.

    >>> from undertow import MarkovChain
    >>> source = ChainSource(MarkovChain([[.5, .5], [.5, .5]]), 9)
    >>> count_middle(source, {1: 1, 2: 1}, np.array([0, 1]))
    6
    """
    if source.length > MOST_RECORDS:
        return 0
    law = _count_law(source, fixed, counted)
    return int(np.rint(law @ np.arange(law.size)))


@dataclass(frozen=True, slots=True)
class Labelled:
    """Classifications of answers: a row for each answer, a column for each classification.

    ``columns`` has the name of each column, and the names of its labels.

    >>> parity = Labelled(lambda answers: answers % 2, (("parity", ("even", "odd")),))
    >>> parity.words(0, (1,))
    'parity odd'
    """

    label: Callable[[Batch], Labels]
    columns: tuple[tuple[str, tuple[str, ...]], ...]

    def words(self, column: int, labels: tuple[int, ...]) -> str:
        """Return some labels of a column in words."""
        name, named = self.columns[column]
        return f"{name} {' or '.join(named[label] for label in labels)}"


MODULI = (2, 3, 5, 7)
"""Divisors whose remainders are looked at: noise that is a multiple of one of them shows there."""

NEAR = 16
"""Distance from the middle up to which single answers are tested."""

_MOST_NUMBERS = 4
"""Most released numbers with labels."""

_NEIGHBOURS = 4
"""Neighbours of the target with labels, on either side."""

_MOST_LABELS = 256
"""Most labels of a column."""

_MOST_STEPS = 2.0**60
"""Largest number of lattice steps with an exact remainder."""


def number_labels(base: float, step: float, middles: tuple[int, ...]) -> Labelled:
    """Return the labels of released numbers: remainders of each, and how far from its middle it is.

    An answer is base + k step, and k is what is labelled. ``middles`` has a k for each released
    number; single values up to 16 around it have a label each.

    >>> labels = number_labels(0.0, 1.0, (3,))
    >>> labels.label(np.array([[4.0], [5.0], [-90.0]])).tolist()
    [[0, 1, 4, 4, 17], [1, 2, 0, 5, 18], [0, 0, 0, 1, 0]]
    >>> labels.words(1, (0, 2)), labels.words(4, (0, 17))
    ('the released number modulo 3 is 0 or 2', 'the released number is -13 or less or 4')
    """
    shown = middles[:_MOST_NUMBERS]
    columns: list[tuple[str, tuple[str, ...]]] = []
    for place, middle in enumerate(shown):
        name = "the released number" if len(middles) == 1 else f"released number {place}"
        columns += [(f"{name} modulo {m} is", tuple(map(str, range(m)))) for m in MODULI]
        near = [str(middle + offset) for offset in range(-NEAR, NEAR + 1)]
        near[0], near[-1] = f"{near[0]} or less", f"{near[-1]} or more"
        columns.append((f"{name}{', in steps,' * (step != 1)} is", tuple(near)))

    def label(answers: Batch) -> Labels:
        steps = np.rint((answers[:, : len(shown)] - base) / step)  # (draws, numbers)
        sorted_by: list[Batch] = []
        for place, middle in enumerate(shown):
            lone = min(place, steps.shape[1] - 1)  # code may answer with fewer numbers
            whole = np.clip(steps[:, lone], -_MOST_STEPS, _MOST_STEPS).astype(np.int64)  # (draws,)
            sorted_by += [whole % modulus for modulus in MODULI]
            sorted_by += [np.clip(whole - middle, -NEAR, NEAR) + NEAR]
        return np.stack(sorted_by, axis=1).astype(np.uint8)  # (draws, labels)

    return Labelled(label, tuple(columns))


def call_labels(base: float, step: float, numbers: int, where: str) -> Labelled:
    """Return the labels of an answer beside those before and after it: remainders of differences.

    The three answers have so many ``numbers`` each. Where the noise is the same, a difference is
    that of the exact answers, so its remainders show the target's value; the two differences are
    labelled together, since noise may be shared with one partner or the other.

    >>> labels = call_labels(0.0, 1.0, 1, "the row next to it")
    >>> labels.label(np.array([[7.0, 4.0, 9.0]])).tolist()  # differences 3 and -2
    [[2, 1, 18, 26]]
    >>> labels.words(0, (1,))
    'the released number less that in the row next to it modulo 2, (before, after), is (0, 1)'
    """
    columns: list[tuple[str, tuple[str, ...]]] = []
    for place in range(min(numbers, _MOST_NUMBERS)):
        name = "the released number" if numbers == 1 else f"released number {place}"
        columns += [
            (
                f"{name} less that in {where} modulo {m}, (before, after), is",
                tuple(map(str, product(range(m), repeat=2))),
            )
            for m in MODULI
        ]

    def label(answers: Batch) -> Labels:
        steps = np.rint((answers - base) / step)
        whole = np.clip(steps, -_MOST_STEPS, _MOST_STEPS).astype(np.int64)
        own, before, after = np.split(whole, 3, axis=1)  # (draws, numbers) each
        sorted_by: list[Batch] = []
        for place in range(min(numbers, _MOST_NUMBERS)):
            lone = min(place, own.shape[1] - 1)  # code may answer with fewer numbers
            one, two = own[:, lone] - before[:, lone], own[:, lone] - after[:, lone]
            sorted_by += [one % m * m + two % m for m in MODULI]
        return np.stack(sorted_by, axis=1).astype(np.uint8)  # (draws, labels)

    return Labelled(label, tuple(columns))


def output_labels(target: int, length: int, outputs: int, where: str) -> Labelled:
    """Return the labels of a series beside those before and after it: the target's outputs.

    Each of the three series has ``length`` shown records. Where coins are shared, the output in a
    known series shows which they were.

    >>> labels = output_labels(1, 2, 2, "the row next to it")
    >>> labels.label(np.array([[0, 1, 1, 0, 0, 1]])).tolist()  # outputs 1, 0 and 1
    [[2, 3, 5]]
    >>> labels.words(0, (2,))
    'the outputs of the target, and of its place in the row next to it (before), are (1, 0)'
    """
    groups = [("before", (0, 1)), ("after", (0, 2)), ("before, after", (0, 1, 2))]
    groups = [(name, group) for name, group in groups if outputs ** len(group) <= _MOST_LABELS]
    columns = tuple(
        (
            f"the outputs of the target, and of its place in {where} ({name}), are",
            tuple(map(str, product(range(outputs), repeat=len(group)))),
        )
        for name, group in groups
    )
    places = [[target + length * part for part in group] for _, group in groups]
    return Labelled(lambda shown: _coded(shown, places, outputs), columns)


def pair_labels(
    target: int, length: int, outputs: int, partner: int | None = None
) -> Labelled:  # fmt: skip
    """Return the labels of a series: the target's output with that of each neighbour, and of both.

    ``target`` is the place of the target among ``length`` shown records; a record has one of so
    many ``outputs``. With too many outputs to tell all pairs apart there are no labels. A
    ``partner`` is looked at too, wherever it is.

    >>> labels = pair_labels(1, 3, 2)
    >>> labels.label(np.array([[1, 0, 1]], dtype=np.uint8)).tolist()
    [[2, 1, 5]]
    >>> labels.words(0, (0, 3))
    'the outputs of records 0, 1 of the 3 looked at are (0, 0) or (1, 1)'
    """
    others = {*range(max(target - _NEIGHBOURS, 0), min(target + _NEIGHBOURS + 1, length))}
    if partner is not None:
        others.add(partner)
    groups = [tuple(sorted((target, other))) for other in sorted(others - {target})]
    if 0 < target < length - 1:
        groups.append((target - 1, target, target + 1))
    groups = [group for group in groups if outputs ** len(group) <= _MOST_LABELS]
    columns = tuple(
        (
            f"the outputs of records {', '.join(map(str, group))} of the {length} looked at are",
            tuple(map(str, product(range(outputs), repeat=len(group)))),
        )
        for group in groups
    )
    return Labelled(lambda shown: _coded(shown, groups, outputs), columns)


def _coded(shown: Batch, groups: Sequence[Sequence[int]], outputs: int) -> Labels:
    """Return for each group of places the outputs there, as digits of a number below 256."""
    codes = np.zeros((len(shown), len(groups)), dtype=np.uint8)
    for column, group in enumerate(groups):
        for record in group:
            codes[:, column] = codes[:, column] * outputs + shown[:, record].astype(np.uint8)
    return codes  # (draws, labels)
