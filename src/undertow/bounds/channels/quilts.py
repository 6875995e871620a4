"""Markov quilts of chains: leakage(i) <= (a + c - 1) tau + e(a, c) for cuts at distances a and c.

Theorem 4.4 of [wang2016] with the max-influence e, unconditional against an attacker who knows
nothing else, conditional on a known record beyond the quilt otherwise. Approximate influences need
the least stationary probability and the spectral gap alone (docs, theory: quilts).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from undertow.bounds.levels.sides import Bools, Ints, extremes, supports
from undertow.errors import MethodRefused
from undertow.models.chains import MarkovChain
from undertow.numerics import GAP, MAX_STEPS, Array, log_ratio, pad_log
from undertow.queries import State

__all__ = [
    "TABLE",
    "Bound",
    "Influence",
    "NoiseScore",
    "Quilt",
    "Score",
    "approximate_influence",
    "chain_influence",
    "chain_pairs",
    "pruned_search",
    "quilt_search",
    "record_influences",
    "shares",
    "spectral_gap",
    "worst_record",
]


@dataclass(frozen=True, slots=True)
class NoiseScore:
    """Scores a quilt by the noise it asks for: local / (epsilon - influence)."""

    epsilon: float

    def value(self, local: Array, influence: Array) -> Array:
        """Return the least scale per unit of sensitivity, inf where the influence is too large."""
        room = self.epsilon - influence
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(room > 0, local / room, np.inf)

    def reach(self, best: float) -> float:
        """Return how many records a quilt that beats ``best`` can have inside."""
        return best * self.epsilon


@dataclass(frozen=True, slots=True)
class Bound:
    """Scores a quilt by what a tau-DP algorithm can leak past it: local tau + influence."""

    tau: float

    def value(self, local: Array, influence: Array) -> Array:
        """Return the bound on the leakage."""
        return np.asarray(local * self.tau + influence)

    def reach(self, best: float) -> float:
        """Return how many records a quilt that beats ``best`` can have inside."""
        return best / self.tau


Score = NoiseScore | Bound


@dataclass(frozen=True, slots=True)
class Influence:
    """Influences of quilt records on either side, rounded up.

    ``left`` and ``right`` have shape (W + 1, pairs): row t is the side's share at distance t for
    each ordered pair of values; row 0 is not used. A quilt's influence is the largest sum over
    pairs, a missing side adding nothing.
    """

    left: Array
    right: Array

    @property
    def reach(self) -> int:
        """The farthest distance in the tables."""
        return len(self.left) - 1


@dataclass(frozen=True, slots=True)
class Quilt:
    """The worst record and its best quilt: distances, None where a side (or both) is missing."""

    value: float
    record: int
    left: int | None
    right: int | None

    def inside(self, length: int | None) -> int:
        """Return how many records the quilt cuts off, in a series of ``length`` records."""
        right = self.right
        if right is None:
            right = (length or self.record + 1) - self.record
        return (self.record + 1 if self.left is None else self.left) + right - 1


TABLE = 40_000_000
"""Most entries (quilts x pairs) of one table of influences (a cost limit: past it the search
stops at nearer quilts, which only adds noise)."""

_NEAR = 16
"""Distances tried first for every record; doubled for those that may still be the worst."""

_TURNS = 4
"""Alternations between the best distances of both sides, at most."""

_TRIED = 32
"""Most records all of whose quilts are tried together."""

_BLOCK = 2_000_000
"""Most entries of an array over records, distances and pairs (memory: 16 MB)."""


def record_influences(
    chain: MarkovChain, against: Literal["any", "ignorant"], pairs: Ints, steps: int, records: Ints
) -> Influence:
    """Return the influences around some records, tables of shape (records, steps + 1, pairs).

    The shares of `undertow.bounds.channels.quilts.chain_influence`, with the law of each record
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
    least = np.full(len(records), score.value(np.array(float(length)), np.array(0.0)))
    for side, other in ((0, 1), (1, 0)):  # one side missing
        alone = _alone(score, rooms[other], near, tables[side].max(axis=-1), absent[side])
        least = np.minimum(least, alone.min(axis=1))
    joint = (tables[0] + tables[1]).max(axis=-1)  # both at the same distance
    even = np.where(absent[0] | absent[1], np.inf, score.value(2 * near - 1, joint))
    least = np.minimum(least, even.min(axis=1))
    best = even.argmin(axis=1)  # on one side; then the best on the other for it, in turns
    possible = best < np.minimum(*rooms)
    for turn in range(_TURNS):
        fixed, free = turn % 2, 1 - turn % 2
        joint = (tables[free] + tables[fixed][row, best][:, None]).max(axis=-1)
        values = score.value(near + best[:, None], joint)  # best counts from 0: a + c - 1 inside
        values = np.where(absent[free] | ~possible[:, None], np.inf, values)
        least = np.minimum(least, values.min(axis=1))
        best = values.argmin(axis=1)
    return np.asarray(least)


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


_FIRST = 64
"""Distances looked at first; doubled while a farther quilt could still be better."""

_SHORT = 64
"""Records up to which every record has its own table: nothing lies beyond the ends of a series,
which makes influences there a little smaller."""


def chain_pairs(chain: MarkovChain, pairs: Sequence[tuple[State, State]] | None) -> Ints:
    """Return the ordered pairs of state indices to protect, shape (pairs, 2).

    >>> chain_pairs(MarkovChain([[.5, .5], [.5, .5]]), None).tolist()
    [[0, 1], [1, 0]]
    """
    if pairs is None:
        return np.argwhere(~np.eye(chain.size, dtype=bool))
    here = [(x, y) for x, y in pairs if x in chain.states and y in chain.states]
    named = [(chain.index(x), chain.index(y)) for x, y in here]
    both = list(dict.fromkeys([*named, *((y, x) for x, y in named)]))
    return np.array(both, dtype=np.int64).reshape(-1, 2)


def chain_influence(
    chain: MarkovChain,
    against: Literal["any", "ignorant"],
    pairs: Ints,
    steps: int,
    record: int | None = None,
    settled: int | None = None,
) -> Influence:
    """Return the influences up to ``steps`` away from a record of a chain.

    With l_t(u) = ln P^t(u, x) / P^t(u, x') and r_t(v) = ln P^t(x, v) / P^t(x', v), the shares are

        ignorant:   max l_a - ln w(x) / w(x'),    max r_c             (w the law of the record)
        any:        max l_a - min l_{a+1},        max r_c - min r_{c+1}.

    One table serves every record of a chain with a stationary start: leave ``record`` out. One
    also serves all records from ``settled`` on, whatever the start, with min l_settled in place
    of ln w(x) / w(x'), which is no smaller. Cost O(steps k^2 (k + pairs)).

    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> chain_influence(chain, "ignorant", chain_pairs(chain, None), 2).right[1].round(4)
    array([1.0986, 1.9459])
    """
    if record is not None:
        own = record_influences(chain, against, pairs, steps, np.array([record]))
        return Influence(own.left[0], own.right[0])
    powers = chain.powers(steps + 1)  # (distance, k, k)
    late = chain.initial[None] if settled is None else chain.between(0, settled)
    prior = log_ratio(late[:, pairs[:, 0]], late[:, pairs[:, 1]]).min(axis=0)  # (pairs,)
    return shares(powers, powers, prior, pairs, against, float(settled or 0))


def approximate_influence(pi_min: float, gap: float, steps: int) -> Influence:
    """Return the influences that follow from the least stationary probability and the gap.

    2 ln (pi + e^{-g t}) / (pi - e^{-g t}) to the left, once that to the right, for
    t > ln(1 / pi) / g; nearer records have none (inf). Lemma 4.7 of [wang2016], for reversible
    chains with any start.

    >>> round(float(approximate_influence(0.5, 0.8, 4).right[4, 0]), 6)
    0.163411
    """
    decay = np.exp(-gap * np.arange(steps + 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        once = np.log((pi_min + decay) / (pi_min - decay))
    once[decay >= pi_min] = np.inf
    once = (once * (1 + 1e-15) + pad_log(4, 2))[:, None]  # (distance, 1): no pair differs
    return Influence(2 * once, once)


def spectral_gap(chain: MarkovChain) -> tuple[float, bool]:
    """Return the gap g for which |P^t(x, y) / pi(y) - 1| <= e^{-g t} / min pi, and if reversible.

    1 - |lambda_2| where the chain is reversible, otherwise (1 - lambda_2(P P*)) / 2 with P* the
    time reversal. Rounded down. Cost O(k^3).

    >>> gap, reversible = spectral_gap(MarkovChain([[.9, .1], [.3, .7]]))
    >>> round(gap, 12), reversible
    (0.4, True)
    """
    matrix, law = np.asarray(chain.transition), np.asarray(chain.initial)
    root = np.sqrt(law)
    # D^(1/2) P D^(-1/2): symmetric for a reversible chain
    whole = root[:, None] * matrix / root[None, :]
    size = len(law)
    reversible = bool(np.abs(whole - whole.T).max() <= 64 * size * np.finfo(float).eps)
    if reversible:
        second = np.sort(np.abs(np.linalg.eigvalsh((whole + whole.T) / 2)))[-2]
        gap = 1 - float(second)
    else:
        gap = (1 - float(np.sort(np.linalg.eigvalsh(whole @ whole.T))[-2])) / 2
    return gap - 64 * size * float(np.finfo(float).eps), reversible


def quilt_search(
    chain: MarkovChain,
    against: Literal["any", "ignorant"],
    score: Score,
    pairs: Sequence[tuple[State, State]] | None = None,
    records: Sequence[int] | None = None,
) -> Quilt:
    """Return the worst record of a chain and its best quilt, with exact influences.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> round(quilt_search(chain, "ignorant", NoiseScore(1.0)).value, 6)
    14.813018
    """
    reduced = chain.visited()
    if reduced is None:
        return Quilt(0.0, 0, None, None)
    wanted = chain_pairs(reduced, pairs)
    if not wanted.size:
        return Quilt(0.0, 0, None, None)
    table = partial(chain_influence, reduced, against, wanted)
    length = reduced.length
    stationary = reduced.homogeneous and isinstance(reduced.start, str)
    if stationary and (length is None or length > _SHORT):
        return pruned_search(table, length, score, records)
    if length is None:
        raise MethodRefused(
            "'quilt' needs a stationary start or a length: the law of a record depends on its "
            "place; give the chain a length, or use method='exchange'"
        )
    places = range(length) if records is None else records
    settled = _settled(reduced, length) if length > _SHORT else length
    early = np.unique([record for record in places if record < settled]).astype(np.int64)
    quilts = [Quilt(0.0, 0, None, None)]
    if early.size:
        quilts.append(worst_record(reduced, against, wanted, score, early))
    late = [record for record in places if record >= settled]
    if late:
        quilts.append(pruned_search(partial(table, settled=settled), length, score, late))
    return max(quilts, key=lambda quilt: quilt.value)


def _settled(chain: MarkovChain, length: int) -> int:
    """Return a record from which on the start has been forgotten, ``length`` if there is none."""
    if not chain.homogeneous:
        return length
    record = _SHORT
    while record < min(length, MAX_STEPS):
        logs = log_ratio(chain.between(0, record), np.ones((chain.size, chain.size)))
        if np.isfinite(logs).all() and np.ptp(logs, axis=0).max() <= GAP:
            return record
        record *= 2
    return length


def pruned_search(
    table: Callable[[int], Influence], length: int | None, score: Score,
    records: Sequence[int] | None = None,
) -> Quilt:  # fmt: skip
    """Return the worst record's best quilt, looking only as far as a better one could lie.

    ``table(W)`` gives the influences up to distance W, the same for all ``records`` (all of the
    series by default; only the middle one counts where ``length`` is None). A quilt with m
    records inside scores at least what m records without influence score, so distances beyond
    the best score's reach are never tried: O(W^2 pairs + T) for a series of T records.
    """
    steps = _FIRST if length is None else min(_FIRST, max(length - 1, 1))
    while True:
        influence = table(steps)
        quilt = _worst(influence, length, score, records)
        most = MAX_STEPS if length is None else min(MAX_STEPS, length - 1)
        wanted = min(most, score.reach(quilt.value))
        pairs = influence.left.shape[1]
        if steps >= wanted or 4 * steps * steps * pairs > TABLE:
            return quilt
        steps = min(2 * steps, most)


def _worst(
    influence: Influence, length: int | None, score: Score, records: Sequence[int] | None
) -> Quilt:
    reach = influence.reach
    near = np.arange(reach + 1.0)
    both = np.full((reach + 1, reach + 1), np.inf)  # (a, c): the score of each two-sided quilt
    for a in range(1, reach + 1):
        joint = (influence.left[a] + influence.right[1:]).max(axis=1)  # (c,): the worst pair
        both[a, 1:] = score.value(a + near[1:] - 1, joint)
    # the best quilt with no more than a and c
    nearest = np.minimum.accumulate(np.minimum.accumulate(both, axis=0), axis=1)
    if length is None:
        return _located(float(nearest[-1, -1]), 0, both)
    place = np.arange(length) if records is None else np.unique(np.asarray(records))
    left, right = place, length - 1 - place
    values = np.minimum(
        nearest[np.minimum(left, reach), np.minimum(right, reach)],
        score.value(np.array(float(length)), np.array(0.0)),
    )
    # One side missing: good near that end, or where two-sided quilts are no good at all.
    middle = float(nearest[-1, -1])
    for room, other, table in ((left, right, influence.right), (right, left, influence.left)):
        alone = np.concatenate([[np.inf], table[1:].max(axis=1)])
        near_end = np.flatnonzero((room < reach) | np.isinf(middle))
        for chunk in np.array_split(near_end, 1 + near_end.size * reach // 2_000_000):
            # (records, distance)
            scores = score.value(room[chunk, None] + near[None, :], alone[None, :])
            scores[near[None, :] > other[chunk, None]] = np.inf
            values[chunk] = np.minimum(values[chunk], scores.min(axis=1))
    worst = int(np.argmax(values))
    inside = both[: min(left[worst], reach) + 1, : min(right[worst], reach) + 1]
    quilt = _located(float(values[worst]), int(place[worst]), inside)
    if quilt.left is not None:
        return quilt
    for room, table, side in ((left, influence.right, "right"), (right, influence.left, "left")):
        alone = np.concatenate([[np.inf], table[1:].max(axis=1)])
        cuts = np.flatnonzero(score.value(room[worst] + near, alone) <= quilt.value)
        if cuts.size and cuts[0] <= length - 1 - room[worst]:
            return replace(quilt, **{side: int(cuts[0])})
    return quilt


def _located(value: float, record: int, both: Array) -> Quilt:
    """Return the two-sided quilt that has the given score, or one without sides."""
    places = np.argwhere(both <= value)
    if not places.size or np.isinf(value):
        return Quilt(value, record, None, None)
    return Quilt(value, record, int(places[0, 0]), int(places[0, 1]))
