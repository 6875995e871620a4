"""Exact leakage of a noisy count of any one window of a series that follows a Markov chain.

A count of a window is no function of the whole count, the attacker may know records outside the
window, and the target may lie outside it. The supremum is over the windows of the endless series,
all targets and all that may be known; a series of any length is a part of the endless one. The
attack that attains the lower end is evaluated again here by plain sums over the records.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.chains.count import informed_count
from undertow.bounds.chains.exchange import exchange_leakage
from undertow.bounds.chains.known import Bools, stated, supports, witnessed
from undertow.bounds.chains.piece_search import PieceSearch
from undertow.bounds.chains.piece_sides import FoundWindow
from undertow.bounds.chains.side_laws import start_error
from undertow.certificate import Leakage, Witness
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, down, log_error, up
from undertow.queries import State

__all__ = ["replay_window", "window_leakage"]

METHOD = "exact"
CLOSE = 1e-6
"""Width of the interval, relative to its lower end, from which a costly second bound pays."""

LONGEST = 512
"""Longest window whose answers are all replayed; of longer ones the extremes (memory)."""

_SAFE = 1e-250
"""Least likelihood that a replay takes at its word: terms lost to underflow are far below."""


def window_leakage(
    scale: float, counted: Bools, chain: MarkovChain, against: Against = "any"
) -> Leakage | None:
    """Return the leakage of a noisy count of any one window of a series, as certified interval.

    The supremum over windows, over targets inside and outside them, and over what the adversary
    may know, of a count plus (discrete) Laplace noise; the chain's ``length`` does not matter.
    ``counted`` (k,) says which states are counted. Cost: about T^3 k^3 times the windows that
    pruning leaves, T records a side until the chain has forgotten; past an effort limit the
    interval stays a little open. None for an explicit `Adversary` and for steps that differ: then
    the place of the window matters.

    >>> chain = MarkovChain([[.07, .91, .02], [.11, .02, .87], [.39, .02, .59]])
    >>> leak = window_leakage(0.5, np.array([True, False, False]), chain)
    >>> round(leak.upper, 6), leak.witness.words()
    (2.392681, 'target record 3 of 4, record 0 = 1 known: 0 against 2, count of records 2 to 3')
    """
    if isinstance(against, Adversary) or not chain.homogeneous:
        return None
    endless = MarkovChain(chain.transition, chain.states, chain.start).visited()
    if endless is None:
        return _leakage(0.0, 0.0, against, None)
    marks = tuple(bool(counted[chain.index(state)]) for state in endless.states)
    if against == "informed":
        plain = informed_count(scale, np.array(marks), endless)
        return _leakage(plain.lower, plain.upper, against, plain.witness)
    if len(set(marks)) < 2:  # the count is known
        return _leakage(0.0, 0.0, against, None)
    cheap = endless.size == 2 or against == "ignorant" or isinstance(endless.start, str)
    cap = exchange_leakage(up(1 / scale), endless, against).upper if cheap else math.inf
    search = PieceSearch(endless, marks, scale, against, cap)
    search.run()
    upper = up(search.top, 8) + start_error(endless)
    if not cheap and search.top > (1 + CLOSE) * search.best:
        cap = exchange_leakage(up(1 / scale), endless, against).upper
    upper = min(upper, cap)
    if search.found is None:
        return _leakage(0.0, upper, against, None)
    witness = _witness(search.found, search, endless)
    names = [state for state, mark in zip(endless.states, marks, strict=True) if mark]
    witness, lower = replay_window(witness, endless, names, scale)
    return _leakage(max(lower, 0.0), upper, against, witness)


_leakage = partial(
    stated, METHOD, "docs, theory: noisy counts", more=("any window of a series of any length",),
    covers="windows",
)  # fmt: skip


def _witness(found: FoundWindow, search: PieceSearch, chain: MarkovChain) -> Witness:
    """Return the attack on the first records of the series where it can take place."""
    known: dict[int, int] = {}
    before, column, row = found.left
    first = 0  # of the window, or the target's place where no record is counted before it
    if column and row == chain.size:
        first = column - 1
    elif column:
        place = int(supports(chain, chain.size)[:, row].argmax())  # the first that can have it
        known[place] = row
        first = place + column
    target = first + before
    after, column, row = found.right
    if column:
        known[target + after + column] = row
    window = first, target + after + 1
    if found.outside:
        window = (target + 1, window[1]) if after else (first, target)
    last = max([target, window[1] - 1, *known])
    values = search.value[found.pair], search.other[found.pair]
    return witnessed(chain, target, max(last + 1, 2), known, values, window=window)


def replay_window(
    witness: Witness, chain: MarkovChain, counted: Collection[State], scale: float
) -> tuple[Witness, float]:
    """Return the witness with its best answer filled in, and what it reveals, rounded down.

    Pr[answer s | x] is proportional to E[exp(-|s - F| / scale)], F the count of the window. The
    known records must lie outside the window; all others are summed out. The least and the
    largest answer stand for all beyond them and are products over the records.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]])
    >>> attack = Witness(0, 2, (), value=0, other=1, window=(0, 2))
    >>> round(replay_window(attack, chain, [0], 1.0)[1], 6)
    1.776137
    """
    first, end = witness.window or (0, witness.length)
    marks = np.array([state in counted for state in chain.states])
    found = [(0, _far(witness, chain, (first, end), (0.0 - marks) / scale))]
    found.append((end - first, _far(witness, chain, (first, end), (marks - 1.0) / scale)))
    if end - first <= LONGEST:
        ratio = _near(witness, chain, (first, end), marks, scale)
        found.append((int(ratio.argmax()), float(ratio.max())))
    output, loss = max(found, key=lambda entry: entry[1])
    # four sums of non-negative terms over the records, then over the answers with their noise
    answers = min(end - first, LONGEST) + 1
    sums = witness.length * (chain.size + 4) + 2 * answers + 2 * (answers + 1) / scale + 16
    slack = log_error(4 * sums) + start_error(chain)
    return replace(witness, output=output), down(loss, 8) - slack


def _records(
    witness: Witness, chain: MarkovChain, value: State, window: tuple[int, int]
) -> Iterator[tuple[int, Bools]]:
    """Yield the records that matter in their order, each with the states it may have."""
    known = {record: chain.index(state) for record, state in witness.known}
    known[witness.target] = chain.index(value)
    for record in range(min([*known, window[0]]), max([*known, window[1] - 1]) + 1):
        allowed = np.ones(chain.size, dtype=bool)
        if record in known:
            allowed = np.arange(chain.size) == known[record]
        yield record, allowed


def _near(
    witness: Witness, chain: MarkovChain, window: tuple[int, int], marks: Bools, scale: float
) -> Array:
    """Return ln of the likelihood ratio of every answer, -inf where one would underflow."""
    answers = np.arange(window[1] - window[0] + 1)
    noise = np.exp(-np.abs(answers[:, None] - answers) / scale)  # (answer, count)
    logs = []
    for value in (witness.value, witness.other):
        table = np.zeros((chain.size, len(answers)))  # Pr[state, count, what is known so far]
        for place, (record, allowed) in enumerate(_records(witness, chain, value, window)):
            if place:
                table = chain.transition.T @ table
            else:
                table[:, 0] = chain.law(record)
            # (state, count): forbidden states go, counted ones move up by one
            table[~allowed] = 0.0
            if window[0] <= record < window[1]:
                table[marks] = np.roll(table[marks], 1, axis=1)
        law = table.sum(axis=0)  # (count,)
        likely = noise @ law  # (answer,)
        with np.errstate(divide="ignore", invalid="ignore"):
            safe = likely > _SAFE
            logs.append(np.where(safe, np.log(likely) - np.log(law.sum()), np.nan))
    ratio = logs[0] - logs[1]
    return np.where(np.isnan(ratio), -np.inf, ratio)


def _far(witness: Witness, chain: MarkovChain, window: tuple[int, int], tilt: Array) -> float:
    """Return ln of the likelihood ratio of an answer that every counted record multiplies.

    Scales are powers of two, taken out exactly. -inf where something possible would underflow.
    """
    total, powers, factor = 0.0, 0, np.exp(tilt)
    for sign, value in ((1, witness.value), (-1, witness.other)):
        for part, tilted in ((sign, True), (-sign, False)):
            message, exponent = np.zeros(chain.size), 0  # (k,), times 2^exponent
            possible = np.zeros(chain.size, dtype=bool)
            for place, (record, allowed) in enumerate(_records(witness, chain, value, window)):
                if place:
                    message = message @ chain.transition
                    possible = (possible.astype(float) @ (chain.transition > 0)) > 0
                else:
                    message = chain.law(record)
                    possible = message > 0
                message, possible = np.where(allowed, message, 0.0), possible & allowed
                if tilted and window[0] <= record < window[1]:
                    message = message * factor
                power = int(np.frexp(message.max())[1])
                message, exponent = np.ldexp(message, -power), exponent + power
                if not possible.any() or message[possible].min() < _SAFE:
                    return -math.inf
            total += part * math.log(float(message.sum()))
            powers += part * exponent
    return total + powers * math.log(2)
