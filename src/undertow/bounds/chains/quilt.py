"""Markov quilts: how little a record says about others far away, and the noise that follows.

A quilt of record i is a pair of records at distances a (left) and c (right), or one of them, or
none. It cuts off the a + c - 1 records around i. Whoever sees the answer of a tau-DP algorithm
learns at most tau for each record inside, and about the quilt itself no more than its
max-influence e, the largest log-ratio of the probabilities of its values for two values of i:

    leakage(i) <= min over quilts of (a + c - 1) tau + e(a, c)           Theorem 4.4 of [wang2016].

Against an attacker who knows nothing else e is unconditional (MQMExact). Against one who knows
any other records it is conditional on them: a known record beyond the quilt shifts the
log-ratio, and the worst one lies next to it (docs, theory: quilts). The approximate influences of
[wang2016] need only the least stationary probability and the spectral gap.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from undertow.bounds.chains.known import Ints
from undertow.bounds.chains.quilt_records import TABLE, record_influences, shares, worst_record
from undertow.bounds.chains.quilt_scores import Bound, Influence, NoiseScore, Quilt, Score
from undertow.errors import MethodRefused
from undertow.models.markov import MarkovChain
from undertow.numerics import GAP, MAX_STEPS, Array, log_ratio, pad_log
from undertow.queries import State

__all__ = [
    "Bound",
    "Influence",
    "NoiseScore",
    "Quilt",
    "Score",
    "approximate_influence",
    "basic_search",
    "chain_influence",
    "chain_pairs",
    "fast_search",
    "pruned_search",
    "quilt_search",
    "spectral_gap",
]

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
    found = [Quilt(0.0, 0, None, None)]
    if early.size:
        found.append(worst_record(reduced, against, wanted, score, early))
    late = [record for record in places if record >= settled]
    if late:
        found.append(pruned_search(partial(table, settled=settled), length, score, late))
    return max(found, key=lambda quilt: quilt.value)


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
        found = _worst(influence, length, score, records)
        most = MAX_STEPS if length is None else min(MAX_STEPS, length - 1)
        wanted = min(most, score.reach(found.value))
        pairs = influence.left.shape[1]
        if steps >= wanted or 4 * steps * steps * pairs > TABLE:
            return found
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
    found = _located(float(values[worst]), int(place[worst]), inside)
    if found.left is not None:
        return found
    for room, table, side in ((left, influence.right, "right"), (right, influence.left, "left")):
        alone = np.concatenate([[np.inf], table[1:].max(axis=1)])
        cuts = np.flatnonzero(score.value(room[worst] + near, alone) <= found.value)
        if cuts.size and cuts[0] <= length - 1 - room[worst]:
            return replace(found, **{side: int(cuts[0])})
    return found


def _located(value: float, record: int, both: Array) -> Quilt:
    """Return the two-sided quilt that has the given score, or one without sides."""
    places = np.argwhere(both <= value)
    if not places.size or np.isinf(value):
        return Quilt(value, record, None, None)
    return Quilt(value, record, int(places[0, 0]), int(places[0, 1]))


def basic_search(influence: Influence, length: int, score: Score) -> Quilt:
    """Return the same by looking at every quilt of every record: O(T^3), Algorithm 1 and 2.

    >>> chain = MarkovChain([[.9, .1], [.3, .7]], length=9)
    >>> pairs = chain_pairs(chain, None)
    >>> influence = chain_influence(chain, "ignorant", pairs, 8)
    >>> round(basic_search(influence, 9, NoiseScore(1.0)).value, 6)
    9.0
    """
    found = [_best_quilt(influence, length, record, score) for record in range(length)]
    return max(found, key=lambda quilt: quilt.value)


def fast_search(influence: Influence, length: int, score: Score) -> Quilt:
    """Return the same from the middle outwards: Algorithm 3 of [wang2016].

    If the middle record's best quilt lies inside the series it serves every record. Otherwise
    walk towards the end that the best quilt still reaches, until it no longer reaches it.
    """
    record, worst, seen = (length - 1) // 2, None, set()
    while 0 <= record < length and record not in seen:
        seen.add(record)
        quilt = _best_quilt(influence, length, record, score)
        worst = quilt if worst is None or quilt.value > worst.value else worst
        if (quilt.left is None) == (quilt.right is None):
            break
        record += 1 if quilt.left is None else -1
    if worst is None:
        raise MethodRefused("a series needs at least one record")
    return worst


def _best_quilt(influence: Influence, length: int, record: int, score: Score) -> Quilt:
    """Return the best quilt of one record: every pair of distances, or sides left out."""
    best = Quilt(_one(score, float(length), 0.0), record, None, None)
    lefts: list[int | None] = [None, *range(1, record + 1)]
    rights: list[int | None] = [None, *range(1, length - record)]
    none = np.zeros(influence.left.shape[1])
    for a in lefts:
        for c in rights:
            if a is None and c is None:
                continue
            local = (record + 1 if a is None else a) + (length - record if c is None else c) - 1
            share = none if a is None else influence.left[a]
            share = share + (none if c is None else influence.right[c])
            value = _one(score, float(local), float(share.max()))
            if value < best.value:
                best = Quilt(value, record, a, c)
    return best


def _one(score: Score, local: float, influence: float) -> float:
    return float(score.value(np.array(local), np.array(influence)))
