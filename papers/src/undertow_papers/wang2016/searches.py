"""Algorithms 1-3 of [wang2016]: every quilt of every record, and from the middle outwards."""

import numpy as np

from undertow.bounds.channels.quilts import Influence, Quilt, Score
from undertow.errors import MethodRefused

__all__ = ["basic_search", "fast_search"]


def basic_search(influence: Influence, length: int, score: Score) -> Quilt:
    """Return the best quilt of the worst record by trying all: O(T^3), Algorithms 1 and 2.

    >>> from undertow.bounds.channels.quilts import NoiseScore, chain_influence, chain_pairs
    >>> from undertow.models.chains import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.3, .7]], length=9)
    >>> pairs = chain_pairs(chain, None)
    >>> influence = chain_influence(chain, "ignorant", pairs, 8)
    >>> round(basic_search(influence, 9, NoiseScore(1.0)).value, 6)
    9.0
    """
    quilts = [_best_quilt(influence, length, record, score) for record in range(length)]
    return max(quilts, key=lambda quilt: quilt.value)


def fast_search(influence: Influence, length: int, score: Score) -> Quilt:
    """Return the worst record's best quilt, from the middle outwards: Algorithm 3 of [wang2016].

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
