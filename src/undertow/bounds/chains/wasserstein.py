"""The Wasserstein distance of a count: how far one record's value can push it, almost surely.

W is the least w such that, for every record and pair of its values x, x', the counts under x and
under x' can be drawn together and never differ by more than w. Laplace noise of scale W / epsilon
then hides the record from an attacker who knows no other one (Theorem 3.2 of [wang2016]).

On the line the best joint drawing is monotone, so X - Y lies in [-down, up] if and only if
F_x(j) <= F_x'(j + down) and F_x'(j) <= F_x(j + up) for all j. All laws are kept as logarithms and
each comparison must hold with a margin larger than the rounding.

*Long series.* Stop at distance d on a side and look at the state z there. Given z, what follows
has the same law under x and x', so only the counts up to there need be matched, z by z. The
probabilities of z differ a little under x and x'; that small surplus is matched across two states
z, z', where what follows differs by at most what one side can differ in all (induction on the
length). Finitely many comparisons thus bound W for every length (docs, theory: Wasserstein
distance).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from undertow.bounds.chains.slow_counts import DEEPEST as SLOW_DEEPEST, slow_distance
from undertow.bounds.chains.count_matching import (
    MARGIN,
    convolve,
    labelled_bounds,
    marked,
    matched,
    shifted,
    spread,
    widened,
)
from undertow.bounds.chains.known import Bools, Ints, log
from undertow.bounds.chains.quilt import chain_pairs
from undertow.errors import MethodRefused
from undertow.models.markov import MarkovChain
from undertow.numerics import MAX_STEPS, Array, log_sum
from undertow.queries import State

__all__ = ["Distance", "count_distance"]

DIRECT = 128
"""Records up to which every window is compared outright at once."""

STUBBORN = 512
"""Most records that are compared outright where no cut gives the exact distance."""

DEEPEST = 512
"""Greatest distance at which a long series is cut (cost)."""

SETTLED = 64
"""Steps from which a depth that tells no more than half of it ends the search (cost: depth^3 where
any number of records may lie on either side)."""

_TILTS = tuple(float(tilt) for tilt in np.geomspace(1e-4, 4.0, 36))
"""Exponents at which moments are compared for a lower end."""


@dataclass(frozen=True, slots=True)
class Distance:
    """A certified interval around W, in counts."""

    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a target, read outwards: laws of counts up to each depth, and their spread.

    ``laws[m]`` (k, k, m + 1) is ln Pr[count of m records = j, last state = v | x]; ``down`` and
    ``up`` (pairs of states) bound X - Y on this side for every length, ``open_down[m]`` and
    ``open_up[m]`` for exactly m records.
    """

    laws: list[Array]
    down: Ints
    up: Ints
    open_down: Ints
    open_up: Ints


def count_distance(
    chain: MarkovChain,
    counted: Bools,
    pairs: Sequence[tuple[State, State]] | None = None,
    records: Sequence[int] | None = None,
) -> Distance:
    """Return the W-infinity distance of a count of the states marked in ``counted``.

    The largest over all ``records`` and ``pairs`` (all by default). Cost O(n^3 k^2) up to `DIRECT`
    records; beyond, O(d^3 k^4) with d the distance at which the chain has mixed enough. A long
    series needs a stationary start.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> count_distance(chain, np.array([False, True]))
    Distance(lower=5, upper=5)
    """
    marks = tuple(bool(mark) for mark in counted)
    which = None if pairs is None else tuple(pairs)
    return _distance(chain, marks, which, None if records is None else tuple(records))


@lru_cache(maxsize=16)  # the noise does not change it, and curves ask for it again and again
def _distance(
    chain: MarkovChain,
    counted: tuple[bool, ...],
    pairs: tuple[tuple[State, State], ...] | None,
    records: tuple[int, ...] | None,
) -> Distance:
    reduced = chain.visited()
    if reduced is None:
        return Distance(0, 0)
    marks = np.array([counted[chain.index(state)] for state in reduced.states])
    wanted = chain_pairs(reduced, pairs)
    rows = reduced.transition
    if reduced.homogeneous and (rows == rows[0]).all():  # independent records
        step = int((marks[wanted[:, 0]] != marks[wanted[:, 1]]).any()) if wanted.size else 0
        return Distance(step, step)
    if reduced.length is not None and reduced.length <= DIRECT:
        return _direct(reduced, marks, wanted, records)
    if not (reduced.homogeneous and isinstance(reduced.start, str)):
        raise MethodRefused(
            f"'wasserstein' compares every window of a chain with a given start or differing "
            f"steps, which takes at most {DIRECT} records; use method='exact' or 'exchange'"
        )
    if not wanted.size:
        return Distance(0, 0)
    lower = _attained(reduced, marks, wanted, records)
    upper = _long(reduced, marks, wanted, records, lower)
    if upper > lower and reduced.length is not None and reduced.length <= STUBBORN:
        return _direct(reduced, marks, wanted, records)
    if math.isinf(upper):
        steps = reduced.reverse().transition, reduced.transition
        upper = slow_distance(*steps, marks, wanted, records, reduced.length)
    if math.isinf(upper):
        raise MethodRefused(
            "'wasserstein' could not bound how far a record reaches in this chain (it mixes too "
            f"slowly for windows of {SLOW_DEEPEST} records); use method='exact' or "
            "'exchange'"
        )
    return Distance(lower, int(upper))


def _attained(chain: MarkovChain, marks: Bools, pairs: Ints, records: Sequence[int] | None) -> int:
    """Return a lower end: E[e^{tN} | x] <= e^{|t| W} E[e^{tN} | x'], whatever t.

    Looks at the middle record only. Products of tilted kernels, by repeated squaring.
    """
    record = MAX_STEPS if records is None else sorted(records)[len(records) // 2]
    length = chain.length or record + MAX_STEPS + 1
    if records is None:
        record = length // 2
    backward = chain.reverse().transition
    best = 0.0
    for tilt in (*_TILTS, *(-tilt for tilt in _TILTS)):
        growth = np.exp(tilt * marks)
        total = tilt * marks + _log_growth(backward * growth, record)
        # (k,): ln E[e^{tN} | x]
        total = total + _log_growth(chain.transition * growth, length - 1 - record)
        best = max(best, float(np.abs(total[pairs[:, 0]] - total[pairs[:, 1]]).max() / abs(tilt)))
    return math.ceil(best - MARGIN)


def _log_growth(kernel: Array, steps: int) -> Array:
    """Return ln kernel^steps 1, up to a constant common to all states."""
    vector, power = np.ones(len(kernel)), kernel
    while steps:
        if steps & 1:
            vector = power @ vector
            vector = vector / vector.max()
        power = power @ power
        power = power / power.max()
        steps >>= 1
    return np.asarray(np.log(vector))


# --- every window outright ---------------------------------------------------------------------


def _direct(
    chain: MarkovChain, marks: Bools, pairs: Ints, records: Sequence[int] | None
) -> Distance:
    """Return the distance from the laws before and after each record."""
    length = chain.length or 0
    before, after = _around(chain, marks, length)
    lower = upper = 0
    for record in range(length) if records is None else records:
        law = chain.law(record)
        for x, other in pairs[pairs[:, 0] <= pairs[:, 1]]:  # mirror images are as far apart
            if law[x] <= 0 or law[other] <= 0:
                continue
            both = [shifted(convolve(before[record][s], after[record][s]), bool(marks[s]))
                    for s in (x, other)]  # fmt: skip
            upper = max(upper, *spread(both[0], both[1], MARGIN))
            lower = max(lower, *spread(both[0], both[1], -MARGIN))
    return Distance(lower, upper)


def _around(
    chain: MarkovChain, marks: Bools, length: int
) -> tuple[list[Array], list[Array]]:  # fmt: skip
    """Return the log-laws of the counts before and after each record, given its state: (k, j)."""
    size = chain.size
    with np.errstate(divide="ignore"):
        joint = np.log(np.asarray(chain.initial))[:, None]  # ln Pr[state, count before]
        before = [np.zeros((size, 1))]
        for record in range(length - 1):
            moved = marked(joint, marks)  # (state, count up to here)
            kernel = np.log(chain.step(record))
            # (next state, count before it)
            joint = log_sum(moved[:, None, :] + kernel[:, :, None], axis=0)
            total = log_sum(joint, axis=1)
            before.append(joint - np.where(np.isfinite(total), total, 0.0)[:, None])
        backward = np.zeros((size, 1))
        after = [backward]
        for record in reversed(range(length - 1)):
            moved = marked(backward, marks)  # (next state, count from there on)
            kernel = np.log(chain.step(record))
            # (state, count after it)
            backward = log_sum(kernel[:, :, None] + moved[None, :, :], axis=1)
            after.append(backward)
    return before, after[::-1]


# --- long series ---------------------------------------------------------------------------------


def _long(
    chain: MarkovChain, marks: Bools, pairs: Ints, records: Sequence[int] | None, lower: int
) -> float:
    """Return an upper end for a stationary series of any length, inf if no depth yields one."""
    backward = chain.reverse().transition
    upper, depth, settled = math.inf, 16, False
    few = chain.length is not None or records is not None
    while depth <= DEEPEST and (chain.length is None or 2 * depth < chain.length):
        left, right = (_side(kernel, marks, depth) for kernel in (backward, chain.transition))
        if left is not None and right is not None:
            found = _at_depth(left, right, marks, pairs, records, chain.length, depth)
            # twice as deep told no more, where all pairs of rooms are compared
            settled = not few and depth >= SETTLED and found >= upper
            upper = min(upper, found)
        enough = settled or depth * chain.size**2 >= 2 * DEEPEST
        if upper <= lower or (math.isfinite(upper) and enough):
            break
        depth *= 2
    return upper


def _side(kernel: Array, marks: Bools, depth: int) -> _Side | None:
    """Return one side with bounds for every length, or None if the depth does not suffice."""
    size = len(kernel)
    laws = [np.where(np.eye(size, dtype=bool), 0.0, -np.inf)[:, :, None]]
    log_kernel = log(kernel)
    for _ in range(depth):
        # (x, v, count)
        step = log_sum(laws[-1][:, :, None, :] + log_kernel[None, :, :, None], axis=1)
        laws.append(marked(step, marks))
    open_down = np.zeros((depth + 1, size, size), dtype=np.int64)
    open_up = np.zeros_like(open_down)
    for steps in range(1, depth + 1):
        whole = log_sum(laws[steps], axis=1)  # (x, count)
        for x in range(size):
            for other in range(x):
                ends = spread(whole[x], whole[other], MARGIN)
                open_down[steps, x, other], open_up[steps, x, other] = ends
                open_up[steps, other, x], open_down[steps, other, x] = ends
    down, up = open_down.max(axis=0), open_up.max(axis=0)
    for _ in range(4):  # the surplus needs the bounds that it helps to find: repeat until stable
        down, up = widened(down, up)
        found = labelled_bounds(laws[depth], down, up)
        if found is None:
            return None
        if (found[0] <= down).all() and (found[1] <= up).all():
            return _Side(laws, down, up, open_down, open_up)
        down, up = np.maximum(down, found[0]), np.maximum(up, found[1])
    return None


def _at_depth(
    left: _Side, right: _Side, marks: Bools, pairs: Ints, records: Sequence[int] | None,
    length: int | None, depth: int,
) -> float:  # fmt: skip
    """Return an upper end over all windows, cut at ``depth`` where they are longer."""
    worst = 0
    for rooms in dict.fromkeys(_rooms(records, length, depth)):
        for x, other in pairs[pairs[:, 0] >= pairs[:, 1]]:  # mirror images are as far apart
            step = int(marks[x]) - int(marks[other])
            cheap = _apart(left, right, rooms, depth, x, other, step)
            if cheap <= worst:
                continue
            found = _window(left, right, rooms, depth, marks, x, other)
            worst = max(worst, cheap if found is None else min(cheap, found))
    return worst


def _rooms(
    records: Sequence[int] | None, length: int | None, depth: int
) -> list[tuple[int, int]]:  # fmt: skip
    """Return the windows to compare: records on either side, at most ``depth``, deepest first."""
    if length is None:
        sides = range(depth, -1, -1)
        lefts = sides if records is None else sorted({min(r, depth) for r in records}, reverse=True)
        return [(a, c) for a in lefts for c in sides]
    if records is None:
        ends = range(min(depth, length))
        records = [length // 2, *ends, *(length - 1 - end for end in ends)]
    return [(min(record, depth), min(length - 1 - record, depth)) for record in records]


def _apart(
    left: _Side, right: _Side, rooms: tuple[int, int], depth: int, x: int, other: int, step: int
) -> int:
    """Return the bound by the sides alone: their intervals add."""
    down, up = -step, step
    for side, room in ((left, rooms[0]), (right, rooms[1])):
        cut = room >= depth
        down += int(side.down[x, other] if cut else side.open_down[room, x, other])
        up += int(side.up[x, other] if cut else side.open_up[room, x, other])
    return max(down, up)


def _window(
    left: _Side, right: _Side, rooms: tuple[int, int], depth: int, marks: Bools, x: int, other: int
) -> int | None:
    """Return the bound by matching the counts of a whole window, cut where a side is deep."""
    sides, lowest, highest = [], [], []
    for side, room in ((left, rooms[0]), (right, rooms[1])):
        law = side.laws[room]
        cut = room >= depth
        sides.append(law if cut else log_sum(law, axis=1)[:, None, :])
        zero = np.zeros((1, 1), dtype=np.int64)
        lowest.append(side.down if cut else zero)
        highest.append(side.up if cut else zero)
    laws = []
    for state in (x, other):
        # (left label, right label, count)
        joint = convolve(sides[0][state][:, None, :], sides[1][state][None, :, :])
        laws.append(shifted(joint.reshape(-1, joint.shape[-1]), bool(marks[state])))
    labels = len(laws[0])
    # (labels, labels)
    down = (lowest[0][:, None, :, None] + lowest[1][None, :, None, :]).reshape(labels, labels)
    up = (highest[0][:, None, :, None] + highest[1][None, :, None, :]).reshape(labels, labels)
    offset = (down - up) // 2  # centres [-down, up] around nought
    cross = int(np.maximum(down - offset, up + offset).max()) if labels > 1 else 0
    ends = matched(laws[0], laws[1], offset)
    return None if ends is None else max(*ends, cross)
