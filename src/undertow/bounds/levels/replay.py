"""Re-evaluation of witnesses on chains, apart from the searches that found them.

Every replay is a log-likelihood ratio, rounded down. Outputs whose likelihood is a product over the
records are played on the lowered law (`undertow.bounds.core.play`), in logarithms where they lie
too far apart for floats; other answers of a count are summed over the law of the count.
"""

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from undertow.bounds.core.arrays import LIBM, STEP
from undertow.bounds.core.play import Attack, play
from undertow.bounds.levels.sides import Bools, Ints, log, start_error
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.chains import MarkovChain
from undertow.models.lowered import LoweredLaw
from undertow.numerics import ROUNDOFF, Array, log_error, log_sum
from undertow.queries import State

__all__ = ["forward_logs", "replay_count", "replay_product", "replay_pure_dp", "replay_window"]


APART = 100.0
"""Log-ratio of two likelihoods of a record up to which they are played as floats (cost)."""

LONGEST = 512
"""Longest window whose answers are all replayed; of longer ones the extremes (memory)."""

SAFE = 1e-250
"""Least likelihood of an answer that is taken at its word: terms lost to underflow are far below
(lower side)."""

FORGOTTEN = 1e-17
"""How far the ratio of two messages may depend on records that are left out (lower side)."""

Given = Mapping[int, tuple[int, int]]
"""The numbers of the two values that a record is given with: known, or compared."""


def replay_pure_dp(witness: Witness, chain: MarkovChain, epsilon: float) -> float:
    """Return the leakage of the witness's mechanism at its output and adversary, rounded down.

    The mechanism answers with likelihood proportional to exp(epsilon #{t : X_t in sets[t]}),
    which is epsilon-DP.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=2)
    >>> attack = Witness(0, 2, (), value=0, other=1, sets=((0, (0,)), (1, (0,))))
    >>> round(replay_pure_dp(attack, chain, 1.0), 6)
    1.776137
    """
    sets = dict(witness.sets)
    first = min([witness.target, *sets])
    logs = np.zeros((max([witness.last, *sets]) - first + 1, chain.size))
    for record, states in sets.items():
        logs[record - first] = epsilon * _marks(chain, states)
    return replay_product(chain, _given(witness, chain), first, logs)


def replay_count(
    witness: Witness, chain: MarkovChain, counted: Collection[State], scale: float,
    unknown: int = 0,
) -> tuple[Witness, float]:  # fmt: skip
    """Return the witness with its output filled in, and what a noisy count leaks, rounded down.

    Pr[answer s | x] is proportional to E[exp(-|s - F| / scale)], F the count over the records
    between the nearest known ones. ``output`` -1 stands for the largest count, over ``unknown``
    records if the adversary leaves some unknown outside the window. The ends of the range stand
    for all answers beyond them and factorise over records.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=2)
    >>> attack = Witness(0, 2, (), value=0, other=1, output=0)
    >>> round(replay_count(attack, chain, [0], 1.0)[1], 6)
    -1.776137
    """
    known = [record for record, _ in witness.known]
    first = max((record + 1 for record in known if record < witness.target), default=0)
    end = min((record for record in known if record > witness.target), default=witness.length)
    high = witness.output in (None, -1, end - first)
    output = max(end - first, unknown) if high else int(witness.output or 0)
    marks = _marks(chain, counted)
    if high or output == 0:
        loss = _far(witness, chain, (first, end), marks, scale, high=high)
    else:
        loss = float(_between(witness, chain, (first, end), marks, scale, np.array([output]))[0])
    return replace(witness, output=output), loss


def replay_window(
    witness: Witness, chain: MarkovChain, counted: Collection[State], scale: float
) -> tuple[Witness, float]:
    """Return the witness with its best answer filled in, and its loss, rounded down.

    Pr[answer s | x] is proportional to E[exp(-|s - F| / scale)], F the count of the window. The
    known records must lie outside the window; all others are summed out. The least and the
    largest answer stand for all beyond them and are products over the records.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]])
    >>> attack = Witness(0, 2, (), value=0, other=1, window=(0, 2))
    >>> round(replay_window(attack, chain, [0], 1.0)[1], 6)
    1.776137
    """
    window = first, end = witness.window or (0, witness.length)
    marks, most = _marks(chain, counted), end - first
    losses = [
        (high * most, _far(witness, chain, window, marks, scale, high=high))
        for high in (False, True)
    ]
    if most <= LONGEST:
        inside = _between(witness, chain, window, marks, scale, np.arange(most + 1))
        losses.append((int(inside.argmax()), float(inside.max())))
    output, loss = max(losses, key=lambda entry: entry[1])
    return replace(witness, output=output), loss


def replay_product(chain: MarkovChain, given: Given, start: int, logs: Array) -> float:
    """Return what records show whose likelihood is a product, rounded down; -inf if it cannot be.

    ``logs`` (records, k) are the logarithms of the factors of the records from ``start`` on, each
    right up to a few roundings; of known records, whose two values agree, they do not matter.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]])
    >>> round(replay_product(chain, {0: (0, 1)}, 0, np.array([[1., 0.], [1., 0.]])), 6)
    1.776137
    """
    apart = [record for record, (x, y) in given.items() if x != y]
    target, last = min(apart), max(apart)
    first, end = min(start, *given), max(start + len(logs), *(record + 1 for record in given))
    factors = np.zeros((end - first, chain.size))
    factors[start - first : start - first + len(logs)] = logs
    # records farther away tell next to nothing, whatever is seen of them
    near, slack = _reach(chain), 4 * FORGOTTEN
    cut = first < target - near
    window = slice(target - near - first if cut else 0, last + near + 1 - first)
    first, factors = first + window.start, factors[window]
    end = first + len(factors)
    given = {record: pair for record, pair in given.items() if first <= record < end}
    known = {record - first: x for record, (x, y) in given.items() if x == y}
    factors[[*known]] = 0.0
    factors -= factors.max(axis=1, keepdims=True)
    deepest = -float(factors[np.isfinite(factors)].min())
    law = np.full(chain.size, 1 / chain.size)
    if not cut and 0 not in known:
        law, slack = chain.law(first), slack + 2 * _law_error(chain, first)
    if deepest <= APART:
        steps = chain.transition[None] if chain.homogeneous else chain.transition[first:end]
        lived = [given[record] for record in range(target, last + 1)]
        facts = {place: x for place, x in known.items() if not target <= first + place <= last}
        one, two = zip(*lived, strict=True)
        error = LIBM + 4 * STEP * (1 + deepest)
        attack = Attack(target - first, facts, (one, two), np.exp(factors), error)
        try:
            loss = play(LoweredLaw(steps, np.arange(chain.size), law), attack).lower
        except NotSupported:  # some probabilities lie too far apart for floats
            loss = -math.inf
        if loss > -math.inf:  # else an answer may be impossible under the second value alone
            return loss - slack
    allowed = {
        record - first: np.arange(chain.size) == np.array(pair)[:, None]
        for record, pair in given.items()
    }
    steps = log(chain.transition)
    steps = steps[None] if chain.homogeneous else steps[first:end]
    return forward_logs(log(law), steps, factors, allowed) - slack


@lru_cache(maxsize=16)
def _reach(chain: MarkovChain) -> int:
    """Return how far from the target records matter by more than `FORGOTTEN`.

    A step brings two messages together by tanh(D / 4), for the largest log-ratio D of products
    P(a, c) P(b, d) / P(a, d) P(b, c) [birkhoff1957]; likelihoods, which multiply rows or columns,
    leave D as it is. The length of the series, or more, where no transition may be left out.
    """
    if not chain.homogeneous or (chain.transition <= 0).any():
        return sys.maxsize
    logs = np.log(chain.transition)
    rows = logs[:, None, :] - logs[None, :, :]  # (a, b, c)
    widest = float((rows.max(axis=2) - rows.min(axis=2)).max()) + FORGOTTEN
    shrink = math.tanh(widest / 4) + 64 * ROUNDOFF * (1 + widest)
    if shrink >= 1:
        return sys.maxsize
    return 2 + max(0, math.ceil(math.log(FORGOTTEN / widest) / math.log(shrink)))


def forward_logs(start: Array, steps: Array, factors: Array, allowed: Mapping[int, Bools]) -> float:
    """Return what records show whose likelihood is a product, by logarithms throughout.

    ``start`` (m,), the kernels ``steps`` (phases, m, m) and the ``factors`` of what is seen
    (records, m) are logarithms; ``allowed`` (2, m) are the hidden states of records given, under
    either value. Nothing underflows; rounded down, -inf where it cannot be, inf where it cannot be
    under the second value alone. Cost O(records m^2).

    >>> steps, facts = np.log([[[.9, .1], [.1, .9]]]), {0: np.eye(2, dtype=bool)}
    >>> round(forward_logs(np.zeros(2), steps, np.eye(2)[[0, 0]], facts), 6)
    1.776137
    """
    message, largest = np.tile(start, (4, 1)), 1.0  # both values with what is seen, and without
    for place, factor in enumerate(factors):
        if place:
            terms = message[:, None, :] + steps[(place - 1) % len(steps)].T  # (4, here, before)
            largest = max(largest, _size(terms))
            message = log_sum(terms, axis=2)
        message[:2] += factor
        if place in allowed:
            message = np.where(np.tile(allowed[place], (2, 1)), message, -np.inf)
        peak = message.max(axis=1)
        if np.isneginf(peak[[0, 2, 3]]).any():
            return -math.inf
        if np.isneginf(peak[1]):
            return math.inf
        message = message - np.repeat([peak[:2].max(), peak[2:].max()], 2)[:, None]
        largest = max(largest, _size(message))
    totals = log_sum(message, axis=1)
    # a sum of m terms at each record, each an exponential of a sum of logarithms
    error = 4 * log_error(len(factors) * (8 * largest + 4 * len(start) + 16))
    return float((totals[0] - totals[1]) - (totals[2] - totals[3])) - error


def _size(logs: Array) -> float:
    """Return the size of the largest logarithm that is finite."""
    return float(np.abs(logs[np.isfinite(logs)]).max(initial=0.0))


def _far(
    witness: Witness, chain: MarkovChain, window: tuple[int, int], marks: Bools, scale: float,
    *, high: bool,
) -> float:  # fmt: skip
    """Return what an answer above (or below) all counts reveals, rounded down."""
    load = np.where(marks, 1.0, 0.0) if high else np.where(marks, -1.0, 0.0)
    logs = np.tile(load / scale, (window[1] - window[0], 1))
    return replay_product(chain, _given(witness, chain), window[0], logs)


def _between(
    witness: Witness, chain: MarkovChain, window: tuple[int, int], marks: Bools, scale: float,
    answers: Ints,
) -> Array:  # fmt: skip
    """Return what some answers reveal, rounded down; -inf where one would underflow."""
    given = _given(witness, chain)
    first, end = min(window[0], *given), max(window[1], *(record + 1 for record in given))
    states, counts = np.arange(chain.size), np.arange(window[1] - window[0] + 1)
    away = np.abs(answers[:, None] - counts) / scale  # (answer, count)
    noise = np.exp(away.min(axis=1, keepdims=True) - away)
    logs = []
    for side in (0, 1):
        table = np.zeros((chain.size, len(counts)))  # Pr[state, count, what is given so far]
        table[:, 0] = chain.law(first)
        for record in range(first, end):
            if record > first:
                table = chain.step(record - 1).T @ table
            if record in given:
                table[states != given[record][side]] = 0.0
            if window[0] <= record < window[1]:
                table[marks] = np.roll(table[marks], 1, axis=1)
        law = table.sum(axis=0)
        likely = noise @ law  # (answer,)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs.append(np.where(likely > SAFE, np.log(likely / law.sum()), np.nan))
    # four sums of non-negative terms, over the records, the states and the counts with their noise
    sizes = (end - first) * (chain.size + 4) + 3 * len(counts) + 2 * away.max(axis=1) + 32
    ratio = logs[0] - logs[1] - 4 * ROUNDOFF * (sizes + np.abs(logs[0]) + np.abs(logs[1]))
    return np.where(np.isnan(ratio), -np.inf, ratio - 2 * _law_error(chain, first))


def _given(witness: Witness, chain: MarkovChain) -> dict[int, tuple[int, int]]:
    """Return the nearest known records and the target, or the window, with their two values."""
    known = {record: chain.index(state) for record, state in witness.known}
    left = [record for record in known if record < witness.target]
    right = [record for record in known if record > witness.last]
    nearest = [*([max(left)] if left else []), *([min(right)] if right else [])]
    pairs = enumerate(zip(*witness.lived, strict=True), start=witness.target)
    lived = {record: (chain.index(x), chain.index(y)) for record, (x, y) in pairs}
    return {record: (known[record],) * 2 for record in nearest} | lived


def _marks(chain: MarkovChain, counted: Collection[State]) -> Bools:
    """Return which states are counted, (k,)."""
    return np.array([state in counted for state in chain.states])


def _law_error(chain: MarkovChain, record: int) -> float:
    """Return the relative error of the law of a record."""
    steps = 0 if isinstance(chain.start, str) else record * (chain.size + 2)
    return start_error(chain) + log_error(2 * steps)
