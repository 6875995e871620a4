"""Quilts where every record has influences of its own: differing steps, a given start, few records.

The products of steps to either side, the influences and the quilts of many records are worked
out together, one distance after another. Near quilts are tried first. What they score only falls as
farther ones are added, so that a record which already scores less than the worst one found needs
none.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from undertow.bounds.chains.known import Bools, Ints, extremes, supports
from undertow.bounds.chains.quilt_scores import Influence, Quilt, Score
from undertow.models.markov import MarkovChain
from undertow.numerics import MAX_STEPS, Array, log_ratio, pad_log

__all__ = ["TABLE", "record_influences", "shares", "worst_record"]

TABLE = 40_000_000
"""Most entries (quilts x pairs) of one table of influences (a cost limit: past it the search
stops at nearer quilts, which only adds noise)."""

_NEAR = 16
"""Distances tried first for every record; doubled for those that may still be the worst."""

_TURNS = 4
"""How often the best distance on one side is sought for that on the other."""

_TRIED = 32
"""Most records all of whose quilts are tried together."""

_BLOCK = 2_000_000
"""Most entries of an array over records, distances and pairs (memory: 16 MB)."""


def record_influences(
    chain: MarkovChain, against: Literal["any", "ignorant"], pairs: Ints, steps: int, records: Ints
) -> Influence:
    """Return the influences around some records, tables of shape (records, steps + 1, pairs).

    The shares of `undertow.bounds.chains.quilt.chain_influence`, with the law of each record
    and the steps around it. Cost O(records steps k^2 (k + pairs)).

    >>> stack = MarkovChain([[[.9, .1], [.3, .7]]] * 4, start=[.75, .25])
    >>> both = np.array([[0, 1], [1, 0]])
    >>> record_influences(stack, "ignorant", both, 1, np.array([1, 2])).right[:, 1].round(4)
    array([[1.0986, 1.9459],
           [1.0986, 1.9459]])
    """
    x, other = pairs[:, 0], pairs[:, 1]
    left, right = _products(chain, records, steps + 1)
    last = int(records.max())
    seen = supports(chain, last + 1)  # (record, value)
    for step in range(steps + 2):
        inside = records >= step
        # a value that cannot occur says nothing
        left[inside, step] *= seen[records[inside] - step][:, :, None]
    laws = chain.marginals(last + 1)[records]  # (records, k)
    laws = np.where(laws > 0, laws, np.nan)
    prior = log_ratio(laws[:, x], laws[:, other])  # (records, pairs)
    walked = np.zeros(len(records)) if isinstance(chain.start, str) else records.astype(float)
    return shares(left, right, prior, pairs, against, walked)


def _products(chain: MarkovChain, records: Ints, steps: int) -> tuple[Array, Array]:
    """Return the products of the steps before and after records, zero where there is none."""
    room = np.full_like(records, steps) if chain.length is None else chain.length - 1 - records
    # (records, distance, k, k)
    left, right = np.zeros((2, len(records), steps + 1, chain.size, chain.size))
    if chain.homogeneous:
        powers, distance = chain.powers(steps), np.arange(steps + 1)
        for products, most in ((left, records), (right, room)):
            products[:] = powers * (distance <= most[:, None])[:, :, None, None]
        return left, right
    left[:, 0] = right[:, 0] = np.eye(chain.size)
    for step in range(1, steps + 1):
        inside = np.flatnonzero(records >= step)
        before = chain.transition[records[inside] - step]
        left[inside, step] = before @ left[inside, step - 1]
        inside = np.flatnonzero(room >= step)
        after = chain.transition[records[inside] + step - 1]
        right[inside, step] = right[inside, step - 1] @ after
    return left, right


def shares(
    left: Array, right: Array, prior: Array, pairs: Ints, against: str, walked: Array | float = 0.0
) -> Influence:
    """Return both tables from the products Q_0 .. Q_{W+1} of each side, (..., W + 2, k, k).

    ``prior`` (..., pairs) is ln w(x) / w(x'), or less; nan where the record cannot take a value.
    ``walked`` (...) counts the steps after which w was found: their rounding is added too.
    """
    x, other = pairs[:, 0], pairs[:, 1]
    possible = ~np.isnan(prior)[..., None, :]
    # (..., distance, far value, pair) to the left, (..., distance, pair, far value) to the right
    left_low, left_top = extremes(log_ratio(left[..., x], left[..., other]), axis=-2)
    right_low, right_top = extremes(log_ratio(right[..., x, :], right[..., other, :]), axis=-1)
    prior = prior[..., None, :]  # (..., 1, pairs)
    if against == "any":
        far_left = np.minimum(left_low[..., 1:, :], prior)
        far_right = np.minimum(right_low[..., 1:, :], 0.0)
    else:
        far_left = np.broadcast_to(prior, left_top[..., :-1, :].shape)
        far_right = np.zeros_like(right_top[..., :-1, :])
    steps, size = left.shape[-3] - 2, left.shape[-1]
    padding = np.array(
        [[pad_log(2 * step + 2, size)] for step in range(steps + 1)]
    )  # (distance, 1)
    # of the law of the record: what one product more costs, for each step to it
    late = np.asarray(walked)[..., None, None] * (pad_log(1, size) - pad_log(0, size))
    tables = []
    for top, far, pad in ((left_top, far_left, padding + late), (right_top, far_right, padding)):
        with np.errstate(invalid="ignore"):
            never = np.isneginf(top[..., :-1, :])
            share = np.where(never, 0.0, top[..., :-1, :] - far)  # (..., distance, pairs)
        share = np.maximum(np.nan_to_num(share, nan=np.inf, posinf=np.inf), 0.0)
        tables.append(np.where(possible, share + pad, 0.0))
    return Influence(tables[0], tables[1])


def worst_record(
    chain: MarkovChain, against: Literal["any", "ignorant"], pairs: Ints, score: Score,
    records: Ints,
) -> Quilt:  # fmt: skip
    """Return the worst of some records and its best quilt, each with influences of its own.

    Some good quilts of every record bound its score: those of equal sides, and then the best on
    one side for what was best on the other. Every quilt is tried only for records whose bound
    exceeds the worst score found, the largest bound first; distances beyond the reach of a score
    never. Cost O(records W k pairs) and O(W^2 pairs) for each record tried, W the reach.
    """
    length = chain.length or 0
    laws = chain.marginals(int(records.max()) + 1)[records]  # (records, k)
    waiting = records[(laws[:, pairs] > 0).all(axis=-1).any(axis=-1)]  # both values can occur
    most = min(MAX_STEPS, length - 1)
    steps = min(_NEAR, max(most, 1))
    worst = Quilt(0.0, 0, None, None)
    while waiting.size:
        bounds = np.empty(len(waiting))
        for part in _blocks(len(waiting), (steps + 2) * chain.size * len(pairs)):
            influence = record_influences(chain, against, pairs, steps, waiting[part])
            bounds[part] = _good_quilts(influence, waiting[part], length, score)
        stopped = steps >= most or 4 * steps * steps * len(pairs) > TABLE
        ready = np.array([stopped or steps >= score.reach(bound) for bound in bounds])
        order = np.argsort(-np.where(ready, bounds, -np.inf), kind="stable")[: ready.sum()]
        several = (steps + 2) * max(steps + 2, chain.size * len(pairs))
        for part in _blocks(len(order), several, most=_TRIED):
            tried = np.sort(order[part][bounds[order[part]] > worst.value])
            if not tried.size:
                break
            here = waiting[tried]
            influence = record_influences(chain, against, pairs, steps, here)
            scored = _Scored(influence, here, length, score)
            if scored.values.max() > worst.value:
                worst = scored.quilt(int(scored.values.argmax()))
        # more quilts can only lower a score: what is below the worst stays below it
        waiting = waiting[~ready & (bounds > worst.value)]
        steps = min(2 * steps, most)
    return worst


def _blocks(records: int, each: int, most: int = MAX_STEPS) -> Iterator[slice]:
    """Yield slices of the records whose arrays, of ``each`` entries a record, stay small."""
    rows = min(most, max(1, _BLOCK // each))
    for start in range(0, records, rows):
        yield slice(start, start + rows)


def _good_quilts(influence: Influence, records: Ints, length: int, score: Score) -> Array:
    """Return a bound on the score of each record, by some of its quilts: (records,)."""
    near = np.arange(1.0, influence.left.shape[1])  # distances 1 .. W
    row = np.arange(len(records))
    rooms = records, length - 1 - records
    tables = influence.left[:, 1:], influence.right[:, 1:]  # (records, distance, pair)
    absent = [near > room[:, None] for room in rooms]
    found = np.full(len(records), score.value(np.array(float(length)), np.array(0.0)))
    for side, other in ((0, 1), (1, 0)):  # one side missing
        alone = _alone(score, rooms[other], near, tables[side].max(axis=-1), absent[side])
        found = np.minimum(found, alone.min(axis=1))
    joint = (tables[0] + tables[1]).max(axis=-1)  # both at the same distance
    even = np.where(absent[0] | absent[1], np.inf, score.value(2 * near - 1, joint))
    found = np.minimum(found, even.min(axis=1))
    best = even.argmin(axis=1)  # on one side; then the best on the other for it, in turns
    possible = best < np.minimum(*rooms)
    for turn in range(_TURNS):
        fixed, free = turn % 2, 1 - turn % 2
        joint = (tables[free] + tables[fixed][row, best][:, None]).max(axis=-1)
        values = score.value(near + best[:, None], joint)  # best counts from 0: a + c - 1 inside
        values = np.where(absent[free] | ~possible[:, None], np.inf, values)
        found = np.minimum(found, values.min(axis=1))
        best = values.argmin(axis=1)
    return np.asarray(found)


class _Scored:
    """The best quilt of each of some records, from their own tables."""

    def __init__(self, influence: Influence, records: Ints, length: int, score: Score) -> None:
        near = np.arange(1.0, influence.left.shape[1])  # distances 1 .. W
        self.records = records
        before, behind = records, length - 1 - records
        left, right = influence.left[:, 1:], influence.right[:, 1:]  # (records, distance, pair)
        no_left, no_right = near > before[:, None], near > behind[:, None]
        joint = np.full((len(records), len(near), len(near)), -np.inf)  # (records, a, c)
        for pair in range(left.shape[-1]):
            np.maximum(joint, left[:, :, None, pair] + right[:, None, :, pair], out=joint)
        local = near[:, None] + near - 1
        both = np.where(
            no_left[:, :, None] | no_right[:, None, :], np.inf, score.value(local, joint)
        )
        self.width = len(near)
        # each (records, options): two sides, no left one, no right one, none
        self.options = [
            both.reshape(len(records), -1),
            _alone(score, before, near, right.max(axis=-1), no_right),
            _alone(score, behind, near, left.max(axis=-1), no_left),
            np.full((len(records), 1), score.value(np.array(float(length)), np.array(0.0))),
        ]
        self.values = np.min([option.min(axis=1) for option in self.options], axis=0)

    def quilt(self, row: int) -> Quilt:
        """Return the quilt of one of the records: two sides before one, one before none."""
        value, record = float(self.values[row]), int(self.records[row])
        places = [np.flatnonzero(option[row] <= value) for option in self.options]
        if places[0].size:
            a, c = divmod(int(places[0][0]), self.width)
            return Quilt(value, record, a + 1, c + 1)
        if places[1].size:
            return Quilt(value, record, None, int(places[1][0]) + 1)
        if places[2].size:
            return Quilt(value, record, int(places[2][0]) + 1, None)
        return Quilt(value, record, None, None)


def _alone(score: Score, room: Ints, near: Array, influence: Array, missing: Bools) -> Array:
    """Return the scores of quilts with one side, (records, distance); the rest is inside."""
    return np.where(missing, np.inf, score.value(room[:, None] + near, influence))
