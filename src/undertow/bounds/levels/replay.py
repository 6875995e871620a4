"""Re-evaluation of witnesses by plain sums over paths, apart from the search.

Every function here returns the log-likelihood ratio that the witness's attacker sees, rounded
down: a ratio near 1 has a log with an absolute error, however small it is. A *message* is the log
of Pr[what is known on one side of the target], times the likelihood of the output there, for each
value of the target (to the left jointly with the target's own law). Subtracting the message
without the output leaves the log-likelihood.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache

import numpy as np

from undertow.bounds.levels.sides import log, start_error
from undertow.certificate import Witness
from undertow.models.chains import MarkovChain
from undertow.numerics import ROUNDOFF, Array, log_error
from undertow.queries import State

__all__ = [
    "replay_count",
    "replay_pure_dp",
]


SETTLED = 64
"""Change of a message, in roundings, below which it counts as repeating itself (lower side)."""

_LEAST = -1e300
"""Below every log-probability but that of what is impossible."""

Weight = Callable[[int], Array | float]


def replay_pure_dp(witness: Witness, chain: MarkovChain, epsilon: float) -> float:
    """Return the leakage of the witness's mechanism at its output and adversary, rounded down.

    The mechanism answers with likelihood proportional to exp(epsilon #{t : X_t in sets[t]}),
    which is epsilon-DP.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=2)
    >>> attack = Witness(0, 2, (), value=0, other=1, sets=((0, (0,)), (1, (0,))))
    >>> round(replay_pure_dp(attack, chain, 1.0), 6)
    1.776137
    """
    loads = {  # one array for all records with the same set: long runs are recognised by identity
        states: epsilon * np.array([state in states for state in chain.states])
        for states in {states for _, states in witness.sets}
    }
    weight = {record: loads[states] for record, states in witness.sets}
    reach = [record for record, _ in witness.sets]
    ends = min([witness.target, *reach]), max([witness.last, *reach])
    return _loss(witness, chain, ends, lambda record: weight.get(record, 0.0))


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
    before = [record for record, _ in witness.known if record < witness.target]
    after = [record for record, _ in witness.known if record > witness.target]
    first = max(before) + 1 if before else 0
    last = min(after) - 1 if after else witness.length - 1
    most = last - first + 1
    high = witness.output in (None, -1, most)
    output = max(most, unknown) if high else int(witness.output or 0)
    marks = np.array([state in counted for state in chain.states], dtype=float)
    if high or output == 0:
        weight = (marks if high else -marks) / scale
        loss = _loss(witness, chain, (first, last), lambda record: weight)
    else:
        laws = [_counts(witness, chain, end, side, marks) for side, end in ((-1, first), (1, last))]
        logs, slack = [], 0.0
        for state in (chain.index(witness.value), chain.index(witness.other)):
            # (counts,): the sides are independent given the target
            law = np.convolve(laws[0][state], laws[1][state])
            away = np.abs(output - np.arange(len(law)) - marks[state]) / scale
            logs.append(math.log(float(law @ np.exp(away.min() - away))) - float(away.min()))
            # a sum of non-negative terms: over records, counts, and with the noise
            terms = most * (chain.size + 4) + 3 * len(law) + 2 * float(away.max()) + 16
            slack += 2 * log_error(terms + abs(logs[-1]))
        loss = logs[0] - logs[1] - slack - 2 * _law_error(chain, first)
    return replace(witness, output=output), float(loss)


def _loss(witness: Witness, chain: MarkovChain, ends: tuple[int, int], weight: Weight) -> float:
    """Return ln of the likelihood ratio of a product output exp(sum of weights), rounded down."""
    # (records of the window, 2): the values compared, of one record or of each of a window
    lived = [[chain.index(state) for state in each] for each in zip(*witness.lived, strict=True)]
    total, slack = 0.0, 2 * _law_error(chain, ends[0])
    for record, (x, y) in enumerate(lived, start=witness.target):
        own = np.broadcast_to(weight(record), (chain.size,))
        total += float(own[x] - own[y])
    if len(lived) > 1:  # so many sums
        slack += log_error(2 * len(lived), abs(total))
    inner = (-1, witness.target, lived[0]), (1, witness.last, lived[-1])
    for (side, target, (x, y)), end in zip(inner, ends, strict=True):
        start, message, known = _far_end(witness, chain, side, end)
        for sign, load in ((1, weight), (-1, lambda record: 0.0)):
            inward, error = _inwards(chain, start, message, known, target, side, load)
            if not np.isfinite(inward[[x, y]]).all():
                return -math.inf  # a value that cannot occur: no attack
            total += sign * float(inward[x] - inward[y])
            slack += 2 * error + log_error(4, float(abs(inward[x]) + abs(inward[y])))
    return total - slack - log_error(8, abs(total))


def _law_error(chain: MarkovChain, record: int) -> float:
    """Return the relative error of the law of a record."""
    steps = 0 if isinstance(chain.start, str) else record * (chain.size + 2)
    return start_error(chain) + log_error(2 * steps)


def _far_end(witness: Witness, chain: MarkovChain, side: int, end: int) -> tuple[int, Array, bool]:
    """Return where a side starts, the message there, and whether that record is known."""
    near = [
        (abs(record - witness.target), record, state)
        for record, state in witness.known
        if (record - witness.target) * side > 0
    ]
    if not near:
        law = np.ones(chain.size) if side > 0 else chain.law(end)
        return end, log(law), False
    _, record, state = min(near, key=lambda entry: entry[0])
    message = np.full(chain.size, -np.inf)
    message[chain.index(state)] = 0.0
    return record, message, True


def _inwards(
    chain: MarkovChain, start: int, message: Array, known: bool, target: int, side: int,
    weight: Weight,
) -> tuple[Array, float]:  # fmt: skip
    """Carry a message from record ``start`` to the target, and bound its error.

    Once it repeats itself, records with the same weight change nothing and are skipped. A step
    never spreads two messages, and brings them together by the contraction of the kernel
    [birkhoff1957], so the errors of all steps add up to at most a few times that of one.
    """
    settled, steps = False, 0
    before: Array | float = math.nan
    alike = log(chain.transition if side > 0 else chain.transition.T) if chain.homogeneous else None
    largest = np.ones((chain.size, chain.size))  # (inner state, outer state)
    with np.errstate(divide="ignore", invalid="ignore"):  # ln 0, and nothing less nothing
        for record in range(start, target, -side):
            steps += 1
            here = weight(record)
            if settled and (here is before or np.array_equal(here, before)):
                continue
            loaded = message if known and record == start else message + here
            step = alike
            if step is None:
                step = log(chain.step(record - 1) if side > 0 else chain.step(record).T)
            terms = step + loaded  # (inner state, outer state)
            # (inner state,): finite even where no outer state is possible
            peak = np.maximum(terms.max(axis=1), _LEAST)
            # (inner state,): the outer one is summed out
            moved = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
            moved -= moved.max()
            settled = alike is not None and record != start and _same(moved, message)
            message, before = moved, here
            np.maximum(largest, np.abs(terms), out=largest, where=np.isfinite(terms))
    once = log_error(8 * float(largest.max()) + 4 * chain.size + 2 * SETTLED + 16)
    return message, once * min(float(steps), _repeats(chain))


@lru_cache(maxsize=16)
def _repeats(chain: MarkovChain) -> float:
    """Return how many times the error of one step all steps together can make, inf for no bound.

    1 / (1 - tanh(D / 4)) for the largest log-ratio D of products P(a, c) P(b, d) / P(a, d) P(b, c):
    likelihoods that multiply rows or columns leave D as it is.
    """
    if not chain.homogeneous or (chain.transition <= 0).any():
        return math.inf
    logs = np.log(chain.transition)
    rows = logs[:, None, :] - logs[None, :, :]  # (a, b, c)
    widest = float((rows.max(axis=2) - rows.min(axis=2)).max())  # D of Birkhoff's theorem
    return 1 + math.exp(min(widest / 2, 700.0))  # twice what the contraction leaves


def _counts(witness: Witness, chain: MarkovChain, end: int, side: int, marks: Array) -> Array:
    """Return the law of the count on one side given each value of the target, (k, counts)."""
    start, message, known = _far_end(witness, chain, side, end)
    table = np.exp(message)[:, None]  # (state, count)
    for record in range(start, witness.target, -side):
        if not (known and record == start):
            grown = np.zeros((chain.size, table.shape[1] + 1))
            grown[:, :-1] += table * (1 - marks)[:, None]
            grown[:, 1:] += table * marks[:, None]
            table = grown
        step = chain.step(record - 1) if side > 0 else chain.step(record).T
        table = step @ table
        table = table / table.max()
    totals = table.sum(axis=1, keepdims=True)
    return np.asarray(table / np.where(totals > 0, totals, 1.0))


def _same(one: Array, two: Array) -> bool:
    """Return whether two log-messages agree up to rounding, so that further steps change nothing.

    A power iteration that has settled stays settled; the witness's lower end is rounded down.
    Where both are -inf their difference is NaN, which exceeds nothing.
    """
    return not (np.abs(one - two) > SETTLED * ROUNDOFF).any()
