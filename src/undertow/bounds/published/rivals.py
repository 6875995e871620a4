"""Bounds of others for any DP algorithm on a chain: to compare with, never certified.

Rounded to nearest. The texts of the papers could not be had here: each docstring says what is
theirs by name, and what was derived from it.
"""

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np

from undertow.bounds.chains.quilt import chain_influence, chain_pairs
from undertow.errors import Infeasible, MethodRefused
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, check_epsilon

__all__ = [
    "curve_budget",
    "influence_curve",
    "influence_leakage",
    "step_leakage",
    "temporal_budget",
    "temporal_leakage",
]

WIDEST = 1024
"""Records on either side that an influence curve looks at (a cost limit; past it a(b) is taken to
be larger than it is, on the safe side)."""

MOST_STEPS = 2**11
"""Steps after which a temporal leakage that still grows is given up as infinite (a cost limit)."""

_NEAR = 32
"""Records on either side that are looked at first."""

STILL = 1e-13
"""Relative change of a leakage at which its recursion has settled."""


def step_leakage(matrix: Array, leaked: float) -> float:
    """Return how much of a leakage about the next record is one about this record.

    L(alpha) = max over rows q, d of the matrix and sets S of states of
    ln (1 + q(S) (e^alpha - 1)) / (1 + d(S) (e^alpha - 1)): a likelihood of the next record's
    states lies between 1 and e^alpha up to a factor, and the ratio of its two means is largest at a
    vertex, that is, where it takes the two ends only. The best set holds the states with the
    largest q / d, so k sets are tried for a pair. Cost O(k^3 ln k).

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(step_leakage(chain.transition, 1.0), 6)
    0.601204
    """
    return _step(*_nested(matrix), leaked)


def _nested(matrix: Array) -> tuple[Array, Array]:
    """Return q(S) and d(S) of all pairs of rows and the k sets that may be the best of each."""
    made: tuple[list[Array], list[Array]] = ([], [])
    for one, other in permutations(range(len(matrix)), 2):
        q, d = matrix[one], matrix[other]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(d > 0, q / d, np.where(q > 0, np.inf, 0.0))
        order = np.argsort(-ratio, kind="stable")
        made[0].append(np.cumsum(q[order]))
        made[1].append(np.cumsum(d[order]))
    return np.array(made[0]), np.array(made[1])  # (pairs, k) each


def _step(inside: Array, other: Array, leaked: float) -> float:
    more = math.expm1(min(leaked, 700.0))
    return max(0.0, math.log(float(((1 + inside * more) / (1 + other * more)).max())))


def temporal_leakage(chain: MarkovChain, level: float, most: float = math.inf) -> float:
    """Return the temporal privacy leakage of a level spent at every step, inf if it grows for ever.

    Where it is above ``most``, that is found out early, and inf returned.

    max over t of alpha_t + beta_t - level, where alpha_1 = level, alpha_t = level + L(alpha_(t-1))
    with the backward matrix Pr(x_(t-1) | x_t), and beta alike from the end with the forward one
    (`step_leakage`). Assumes one matrix and a stationary start. Cost O(k^3 ln k) for each step.
    After the recursion of [cao2017] for releases at every time; its text could not be had, and the
    recursion is derived here. It bounds what every algorithm of the level leaks to an attacker who
    knows no other record, because the worst of them has a likelihood that is a product over
    records (docs, theory: exchange rate). That use for one answer about a series is ours.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(temporal_leakage(chain, 1.0), 4)
    3.4583
    """
    _check(chain, "temporal")
    backward = _reversed(chain)
    ahead = [level]  # (steps,): alpha_1, alpha_2, ...
    behind = [level]
    steps = min(chain.length or MOST_STEPS, MOST_STEPS)
    for made, matrix in ((ahead, backward), (behind, chain.transition)):
        sets = _nested(matrix)
        while len(made) < steps:
            made.append(level + _step(*sets, made[-1]))
            if made[-1] > most:  # and the other side adds to it
                return math.inf
            if made[-1] - made[-2] <= STILL * made[-1]:
                break
    settled = all(len(made) < steps for made in (ahead, behind))
    if steps != chain.length:
        return ahead[-1] + behind[-1] - level if settled else math.inf
    return max(
        ahead[min(t, len(ahead) - 1)] + behind[min(chain.length - 1 - t, len(behind) - 1)] - level
        for t in range(min(chain.length, len(ahead) + len(behind)))
    )


def temporal_budget(chain: MarkovChain, limit: float) -> float:
    """Return the level whose `temporal_leakage` is the limit; 0 < level <= limit.

    Found by bisection, to nearest; the leakage grows with the level.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(1 / temporal_budget(chain, 1.0), 4)
    3.9922
    """
    limit = check_epsilon(limit)
    return _largest(lambda level: temporal_leakage(chain, level, limit), limit, "temporal")


def influence_curve(chain: MarkovChain, b: float, widest: int = WIDEST) -> int | None:
    """Return a(b): how many records in a row around any record leave the others influenced by b.

    The least l + r - 1 with influence at most b on the records at distance l before and r after
    the target, the largest ln Pr[x_(t-l), x_(t+r) | x] / Pr[x_(t-l), x_(t+r) | x']; all n records
    of a series have influence 0. None where no such window is within ``widest``. Assumes one matrix
    and a stationary start. Cost O(widest^2 k^2).

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> [influence_curve(chain, b) for b in (.1, .5, 2.0)]
    [15, 9, 4]
    """
    _check(chain, "influence-curve")
    inside, influence = _windows(chain, widest)
    held = inside[influence <= b]
    found = int(held.min()) if held.size else None
    whole = chain.length
    return whole if found is None else min(found, whole or found)


def influence_leakage(chain: MarkovChain, level: float) -> float:
    """Return min over b of a(b) level + b, what an algorithm of a DP level leaks as published.

    The bound of the influence curves of [bai2026] in the notation of its abstract. The text could
    not be had; a(b) is read here as `influence_curve`, by Markov quilts, for which the bound is
    proved like Theorem 4.4 of [wang2016]: protect a(b) records as a group, and let the others tell
    b. Their curve may be sharper. Rounded to nearest.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> round(influence_leakage(chain, .5), 4)
    3.5514
    """
    _check(chain, "influence-curve")
    inside, influence = _windows(chain, WIDEST)
    whole = math.inf if chain.length is None else chain.length * level
    return min(float((inside * level + influence).min()), whole)


def curve_budget(chain: MarkovChain, limit: float) -> float:
    """Return the level with a(b) level + b = limit for the best b: max of (limit - b) / a(b).

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> round(1 / curve_budget(chain, 1.0), 3)
    14.813
    """
    limit = check_epsilon(limit)
    _check(chain, "influence-curve")
    best, reach = 0.0 if chain.length is None else limit / chain.length, _NEAR
    while True:
        inside, influence = _windows(chain, reach)
        best = max(best, float(((limit - influence) / inside).max()))
        # a window that does better has fewer than limit / best records inside
        if reach >= WIDEST or best * reach >= limit:
            break
        reach *= 2
    if best <= 0:
        raise Infeasible(
            f"'influence-curve' finds no window of {2 * WIDEST} records that a record influences "
            f"by less than {limit:g}; give the chain a length, or use method='exchange'",
            float(influence.min()),
        )
    return best


def _windows(chain: MarkovChain, widest: int) -> tuple[Array, Array]:
    """Return for all distances l, r how many records are inside, and the influence beyond them."""
    reach = widest if chain.length is None else max(1, min(widest, chain.length - 1))
    table = chain_influence(chain, "ignorant", chain_pairs(chain, None), reach)
    left, right = table.left[1:], table.right[1:]  # (reach, pairs): by distance
    influence = np.full((reach, reach), -np.inf)
    for one, other in zip(left.T, right.T, strict=True):
        np.maximum(influence, one[:, None] + other[None, :], out=influence)
    away = np.arange(1.0, reach + 1)  # (reach,): distances
    return away[:, None] + away[None, :] - 1, influence


def _reversed(chain: MarkovChain) -> Array:
    """Return Pr(x_(t-1) = u | x_t = x) as a matrix from x to u."""
    law = chain.initial
    flow = law[:, None] * chain.transition  # (u, x): both records
    return np.asarray((flow / flow.sum(axis=0)).T)


def _largest(measure: Callable[[float], float], limit: float, method: str) -> float:
    """Return the largest level that is measured to leak at most the limit."""
    low, high = 0.0, limit
    if measure(limit) <= limit:
        return limit
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if measure(middle) <= limit else (low, middle)
    if low <= limit * 2.0**-39:
        raise Infeasible(
            f"'{method}' grows without end on this chain at every level; give it a length, or use "
            "method='exchange'",
            math.inf,
        )
    return low


def _check(chain: MarkovChain, method: str) -> None:
    """Refuse a chain without a stationary law, or with states that never occur."""
    if not chain.homogeneous or not isinstance(chain.start, str):
        raise MethodRefused(
            f"'{method}' is computed for one transition matrix and a stationary start; use "
            "method='exchange'"
        )
    if not (chain.initial > 0).all():
        raise MethodRefused(
            f"'{method}' needs states that all occur, and some of this chain never do; leave them "
            "out, or use method='exchange'"
        )
