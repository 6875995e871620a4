"""Re-evaluation of witnesses by plain sums over paths, apart from the code that found them.

Every function here returns the log-likelihood ratio that the witness's attacker sees. A *message*
is Pr[what is known on one side of the target], times the likelihood of the output there, for
each value of the target (to the left jointly with the target's own law). Dividing by the
message without the output leaves the likelihood ratio.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from undertow.certificate import Witness
from undertow.models.markov import MarkovChain
from undertow.numerics import Array
from undertow.queries import State

__all__ = ["replay_count", "replay_pure_dp"]

Factor = Callable[[int], Array | float]


def replay_pure_dp(witness: Witness, chain: MarkovChain, epsilon: float) -> float:
    """Return the leakage of the witness's mechanism at the witness's output and adversary.

    The mechanism answers with likelihood proportional to
    exp(epsilon 1[X_target = value] + epsilon #{t : X_t in sets[t]}), which is epsilon-DP.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=2)
    >>> attack = Witness(0, 2, (), value=0, other=1, sets=((1, (0,)),))
    >>> round(replay_pure_dp(attack, chain, 1.0), 6)
    1.776137
    """
    boost = {
        record: np.exp(epsilon * np.array([state in states for state in chain.states]))
        for record, states in witness.sets
    }
    reach = [record for record, _ in witness.sets]
    ends = min([witness.target, *reach]), max([witness.target, *reach])
    return epsilon + _ratio(witness, chain, ends, lambda record: boost.get(record, 1.0))


def replay_count(
    witness: Witness, chain: MarkovChain, counted: Collection[State], scale: float
) -> tuple[Witness, float]:
    """Return the witness with its output filled in, and the leakage of a noisy count there.

    Pr[answer s | x] is proportional to E[exp(-|s - F| / scale)], F the count over the records
    between the nearest known ones. ``output`` -1 stands for the largest count. The ends of the
    range stand for all answers beyond them and factorise over records.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=2)
    >>> attack = Witness(0, 2, (), value=0, other=1, output=0)
    >>> round(replay_count(attack, chain, [0], 1.0)[1], 6)
    -1.776137
    """
    before = [record for record, _ in witness.known if record < witness.target]
    after = [record for record, _ in witness.known if record > witness.target]
    first = max(before) + 1 if before else 0
    last = min(after) - 1 if after else witness.length - 1
    most = last - first + 1
    output = most if witness.output in (None, -1) else int(witness.output or 0)
    marks = np.array([state in counted for state in chain.states], dtype=float)
    x, y = chain.index(witness.value), chain.index(witness.other)
    if output in (0, most):
        rate = (1.0 if output else -1.0) / scale
        factor = np.exp(rate * marks)
        loss = _ratio(witness, chain, (first, last), lambda record: factor)
        loss += rate * (marks[x] - marks[y])
    else:
        laws = [_counts(witness, chain, (first, last), side, marks) for side in (-1, 1)]
        sums = []
        for state in (x, y):
            law = np.convolve(laws[0][state], laws[1][state])
            away = np.abs(output - np.arange(len(law)) - marks[state])
            sums.append(math.log(float(law @ np.exp(-(away - away.min()) / scale))))
            sums[-1] -= float(away.min()) / scale
        loss = sums[0] - sums[1]
    return replace(witness, output=output), float(loss)


def _ratio(witness: Witness, chain: MarkovChain, ends: tuple[int, int], factor: Factor) -> float:
    """Return ln of the likelihood ratio of the records around the target, value against other."""
    x, y = chain.index(witness.value), chain.index(witness.other)
    total = 0.0
    for side, end in zip((-1, 1), ends, strict=True):
        start, message = _far_end(witness, chain, side, end)
        loaded = _inwards(chain, start, message, witness.target, side, factor)
        plain = _inwards(chain, start, message, witness.target, side, lambda record: 1.0)
        if min(plain[x], plain[y]) <= 0:
            return -math.inf  # a value that cannot occur: no attack
        total += math.log(loaded[x]) - math.log(loaded[y])
        total -= math.log(plain[x]) - math.log(plain[y])
    return total


def _far_end(witness: Witness, chain: MarkovChain, side: int, end: int) -> tuple[int, Array]:
    """Return the record at which a side starts and the message there: known, or open at ``end``."""
    near = [
        (abs(record - witness.target), record, state)
        for record, state in witness.known
        if (record - witness.target) * side > 0
    ]
    if near:
        _, record, state = min(near, key=lambda entry: entry[0])
        message = np.zeros(chain.size)
        message[chain.index(state)] = 1.0
        return record, message
    return end, np.ones(chain.size) if side > 0 else chain.law(end)


def _inwards(
    chain: MarkovChain, start: int, message: Array, target: int, side: int, factor: Factor
) -> Array:
    """Carry a message from record ``start`` to the target; stop early once it repeats itself."""
    known = np.count_nonzero(message) == 1
    for record in range(start, target, -side):
        weighted = message if known and record == start else message * factor(record)
        moved = chain.step(record - 1) @ weighted if side > 0 else weighted @ chain.step(record)
        moved = moved / moved.max()
        if chain.homogeneous and record != start and np.array_equal(moved, message):
            return np.asarray(moved)
        message = moved
    return message


def _counts(
    witness: Witness, chain: MarkovChain, ends: tuple[int, int], side: int, marks: Array
) -> Array:
    """Return the law of the count on one side given each value of the target, (k, counts)."""
    end = ends[0] if side < 0 else ends[1]
    start, message = _far_end(witness, chain, side, end)
    known = bool(witness.known) and start not in range(ends[0], ends[1] + 1)
    table = message[:, None]
    for record in range(start, witness.target, -side):
        if not (known and record == start):
            grown = np.zeros((chain.size, table.shape[1] + 1))
            grown[:, :-1] += table * (1 - marks)[:, None]
            grown[:, 1:] += table * marks[:, None]
            table = grown
        step = chain.step(record - 1) if side > 0 else chain.step(record).T
        table = step @ table
        table = table / table.max()
    return np.asarray(table / table.sum(axis=1, keepdims=True))
