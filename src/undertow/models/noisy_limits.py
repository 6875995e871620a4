"""Limits for transition probabilities from counts that have noise on them, at a stated confidence.

The records follow a chain P, and each count N_xy is seen with discrete Laplace noise of a scale s:
n_xy = N_xy + Z_xy. For a state x and a set Y of states let p = P(x, Y), S the number of steps from
x into Y, F the number of the others. Fix u > 0 > v with p0 e^u + (1 - p0) e^v <= 1.

*Sampling.* Go through the records in order, person by person. Every step from x, given all before
it, multiplies e^{uS + vF} by e^u with probability p and by e^v otherwise: by p e^u + (1 - p) e^v in
expectation, which is at most 1 for every p <= p0. So E e^T <= 1 for T = uS + vF at the end of the
records: nothing is said about the number of visits to x, which is random, and nothing has to be.
Which records are missing must not depend on what they would have been.

*Noise.* What is seen is T + W, W = u (noise in Y) + v (noise outside), independent of the records.
With discrete noise the difference of two rounded-down exponentials, W <= V + sum |w_i| / s for V a
sum of independent Laplace variables of scales w_i (s |u| or s |v|). Let w be the largest of them.
(a) w >= 1. V has a log-concave law, so the hazard of h(t) = Pr[V >= t] grows, to 1 / w; let r be
what it is at c. Then h(c - ln y) <= h(c) y^{1/w} <= h(c) (1 + (y - 1) / w) for y >= 1, and for
y < 1 it is <= h(c) y^r <= h(c) (1 - r (1 - y)). With y = e^T, E y <= 1, so that E (y - 1)^+ <=
E (1 - y)^+ <= 1: Pr[T + V >= c] = E h(c - T) <= (1 + 1 / w - r) h(c).
(b) w < 1. By Markov's inequality Pr[T + W >= c] <= e^{-c} prod m(w_i / s), m(a) = E e^{aZ}.

*Limits.* Fix a grid g_1 < g_2 < ... of probabilities, and u, v for each: all from public numbers. A
point is rejected if the bound at what is seen is at most ``beta``. The limit is the last g_k such
that g_1 .. g_k are rejected. If p < g_k, let g_i be the first point with p <= g_i: i <= k, so it
was rejected, which has probability at most ``beta``. No monotony of the tests is needed. An upper
limit is one minus the lower limit of the complement.

*Two states together.* What two states leak depends mostly on q + r, the probabilities of leaving
them. T = u S_0 + v F_0 + u' S_1 + v' F_1 has E e^T <= 1 for all q <= q0 and r <= r0 in the same
way. Cut the plane of (q, r) into fixed cells, each with the test at its upper corner: the cell of
the true pair is rejected with probability at most ``beta``, so that q + r is at least its least
value over the cells that are not, and need only be looked for where other limits leave room.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from undertow.numerics import Array

__all__ = ["limits", "lower_limit", "sum_limit"]

_GRID = 3000
"""Points of the grid, equally spaced in log-odds, from _LEAST to -_LEAST (cost; all are sound)."""
_LEAST = -12.0
_WIDTHS = np.geomspace(0.02, 30.0, 48)
"""What is tried for w, the scale of the noise beside the likelihood (cost; each is sound)."""
_APART = 1.02
"""Least ratio of two scales of the noise that are told apart (upper side)."""
_STEP = 0.012
"""Width of the cells in which two states are tested together, in log-odds (cost)."""
_CELLS = 60_000
"""Most cells that are looked at (cost); beyond, two states are not tested together."""
_JOINT = np.geomspace(0.05, 20.0, 20)
"""What is tried for w where two states are tested together (cost)."""
_PAD = 1e-15
"""By how much u and v are lowered, so that rounding keeps expectations at most 1 (upper side)."""


def limits(noisy: Any, scale: float, records: int, miss: float) -> tuple[Array, Array]:
    """Return the least and the largest transition matrix that noisy counts leave plausible.

    Both (k, k); together they hold with probability 1 - ``miss`` over records and noise, by a union
    bound. ``records`` is a public number of records, which only helps to choose good tests. Of two
    states the lower limits for leaving a state have .4 each, the upper ones .03: states that last
    are what leaks. Cost O(k^3) on a grid of 3,000 points.

    >>> low, high = limits([[6300, 850], [840, 1900]], 80.0, 10_000, 0.05)
    >>> low.round(2), high.round(2)
    (array([[0.82, 0.08],
           [0.23, 0.58]]), array([[0.92, 0.18],
           [0.42, 0.77]]))
    """
    table = np.asarray(noisy, dtype=np.float64)  # (from, to)
    size = len(table)
    lower, upper = np.zeros((size, size)), np.ones((size, size))
    often, seldom = (0.4 * miss, 0.03 * miss) if size == 2 else (miss / (2 * size**2),) * 2
    for x, y in np.ndindex(size, size):
        if size == 2 and x == y:
            continue  # the complement of the other entry
        own, rest, visits = float(table[x, y]), float(np.delete(table[x], y).sum()), records // size
        lower[x, y] = lower_limit(own, 1, rest, size - 1, scale, visits, often)
        kept = lower_limit(rest, size - 1, own, 1, scale, visits, seldom)
        upper[x, y] = np.nextafter(1 - kept, 2)
    if size == 2:
        lower[[0, 1], [0, 1]] = np.nextafter(1 - upper[[0, 1], [1, 0]], -1)
        upper[[0, 1], [0, 1]] = np.nextafter(1 - lower[[0, 1], [1, 0]], 2)
    return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


def lower_limit(
    hits: float, wide: int, misses: float, rest: int, scale: float, visits: int, beta: float
) -> float:
    """Return g with Pr[p < g] <= beta: p is the probability of a hit, 0 where nothing is rejected.

    ``hits`` is a sum of ``wide`` noisy counts, ``misses`` one of ``rest``; ``visits`` is a guess.

    >>> lower_limit(500.0, 1, 500.0, 1, 4.0, 1000, 0.01) < 0.5 - 2.3 * 0.5 / 1000**0.5
    True
    """
    points, up, down = _tests(wide, rest, float(scale), max(int(visits), 1), float(beta))
    seen = up * hits + down * misses
    seen -= 1e-12 * (np.abs(up * hits) + np.abs(down * misses))  # what products may round to
    refused = _bound(seen, up, down, wide, rest, scale) <= beta
    count = int(np.argmin(np.append(refused, False)))  # the first that is not rejected
    return float(points[count - 1]) if count else 0.0


def sum_limit(
    noisy: Any, scale: float, records: int, beta: float, lower: Array, upper: Array
) -> float:
    """Return t with Pr[q + r < t] <= beta, for leaving probabilities q, r inside a box; two states.

    ``lower`` and ``upper`` are (2,), the ends of q and r: elsewhere nothing is looked for. At least
    the sum of the lower ends, and just that where the box has too many cells.

    >>> ends = np.array([.075, .2]), np.array([.18, .42])
    >>> round(sum_limit([[6300, 850], [840, 1900]], 66.7, 10_000, .025, *ends), 2)
    0.33
    """
    table = np.asarray(noisy, dtype=np.float64)  # (from, to)
    edges = [_cells(low, high) for low, high in zip(lower, upper, strict=True)]
    least = float(np.sum(lower))
    if len(edges[0]) * len(edges[1]) > _CELLS:
        return least
    # (cells,): upper corners, and what of the cells is in the box
    q, r = (part.ravel() for part in np.meshgrid(edges[0][1:], edges[1][1:], indexing="ij"))
    lows = [np.maximum(edge[:-1], low) for edge, low in zip(edges, lower, strict=True)]
    sums = np.add.outer(*lows).ravel()
    # equal weights for both estimates, S / visits, so that q + r is what is tested
    share = np.stack([(q + r) / (records * r), (q + r) / (records * q)])  # (2, cells)
    found = np.full(q.shape, np.inf)
    weights = np.zeros((4, *q.shape))
    for width in _JOINT:
        slopes = share * (width / (scale * (share * [1 - q, 1 - r]).max(axis=0)))
        down = -np.log1p(np.stack([q, r]) * np.expm1(slopes)) - _PAD
        up = slopes + down - _PAD
        made = np.concatenate([up, down])  # (4, cells): q hit, r hit, q miss, r miss
        largest = scale * np.abs(made).max(axis=0)
        product = math.log(1 / beta) + sum(_log(part, scale) for part in made)
        tail = largest * math.log(max(1 / (2 * beta), 1.0))
        needs = np.where(largest >= 1, tail, np.where(largest < 0.98, product, np.inf))
        drift = -((np.stack([q, r]) * up + (1 - np.stack([q, r])) * down) / share).sum(axis=0)
        total = (needs + drift) / (slopes / share)[0]
        weights = np.where(total < found, made, weights)
        found = np.minimum(found, total)
    counts = np.array([table[0, 1], table[1, 0], table[0, 0], table[1, 1]])
    parts = weights * counts[:, None]
    seen = parts.sum(axis=0) - 1e-12 * np.abs(parts).sum(axis=0)
    kept = ~(_noise_bound(seen, weights, scale) <= beta)
    return float(sums[kept].min()) if kept.any() else float(np.sum(upper))


def _cells(low: float, high: float) -> Array:
    """Return the ends of the fixed cells that meet an interval, in log-odds whole steps apart."""
    with np.errstate(divide="ignore"):
        ends = np.clip(np.log([low, high]) - np.log1p([-low, -high]), _LEAST, -_LEAST)
    # an end on the border of two cells, up to rounding, is in both
    first, last = math.floor(ends[0] / _STEP - 1e-9), math.ceil(ends[1] / _STEP + 1e-9)
    steps = np.arange(first, last + 1)
    made = 1 / (1 + np.exp(-steps * _STEP))
    made[0] = 0.0 if low <= made[0] and ends[0] == _LEAST else made[0]
    made[-1] = 1.0 if ends[1] == -_LEAST else made[-1]
    return np.asarray(made)


@lru_cache(maxsize=64)
def _tests(
    wide: int, rest: int, scale: float, visits: int, beta: float
) -> tuple[Array, Array, Array]:
    """Return the grid, and u and v for each of its points: the test that needs the least to reject.

    In expectation a test needs -visits (p u + (1 - p) v) more than its threshold; of all widths
    of the noise the one is taken for which that is the least part of its slope.
    """
    points = 1 / (1 + np.exp(-np.linspace(_LEAST, -_LEAST, _GRID)))  # (grid,)
    slopes = _WIDTHS / scale  # (widths,): ln of how much a hit weighs against a miss
    # (widths, grid)
    down = -np.log1p(points * np.expm1(slopes[:, None])) - _PAD
    up = slopes[:, None] + down - _PAD
    width = scale * np.maximum(up, -down)
    above = np.maximum(width, 1.0)
    tail = up * wide - down * rest + above * math.log(max(1 / (2 * beta), 1.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        product = math.log(1 / beta) + _logs(up, down, wide, rest, scale)
    needs = np.where(width >= 1, tail, np.where(width < 0.98, product, np.inf))
    drift = -visits * (points * up + (1 - points) * down)
    best = np.argmin((needs + drift) / slopes[:, None], axis=0)  # (grid,)
    chosen = best, np.arange(_GRID)
    return points, up[chosen], down[chosen]


def _logs(up: Array, down: Array, wide: int, rest: int, scale: float) -> Array:
    """Return ln E e^W of discrete Laplace noise, inf or nan where there is none."""
    return wide * _log(up, scale) + rest * _log(down, scale)


def _log(a: Array, scale: float) -> Array:
    """Return ln E e^{aZ}, Z discrete Laplace noise of a scale."""
    ratio = math.exp(-1 / scale)
    with np.errstate(invalid="ignore", divide="ignore"):
        both = np.log1p(-ratio * np.exp(a)) + np.log1p(-ratio * np.exp(-a))
    return np.asarray(2 * math.log1p(-ratio) - both)


def _bound(seen: Array, up: Array, down: Array, wide: int, rest: int, scale: float) -> Array:
    """Return a bound on the probability of seeing so much, at each point; rounded up."""
    return _noise_bound(seen, np.stack([*[up] * wide, *[down] * rest]), scale)


def _noise_bound(seen: Array, weights: Array, scale: float) -> Array:
    """Return a bound on the probability of seeing so much with these weights (counts, grid)."""
    scales = scale * np.abs(weights)
    width = scales.max(axis=0)  # (grid,)
    tail, hazard = _tail(scales, seen - np.abs(weights).sum(axis=0))
    broad = (1 + np.maximum(1 / np.maximum(width, 1.0) - hazard, 0.0)) * tail
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = np.exp(sum(_log(part, scale) for part in weights) - seen)
    found = np.where(width >= 1, broad, narrow)
    return np.asarray(np.where(np.isnan(found), 1.0, found) * (1 + 1e-9))


def _tail(scales: Array, t: Array) -> tuple[Array, Array]:
    """Return Pr[V >= t] rounded up, and the hazard there rounded down.

    V is the sum of Laplace variables of these scales (counts, grid).

    For different scales a_i it is sum_i C_i e^{-t / a_i} / 2 with C_i = prod_{j != i} a_i^2 /
    (a_i^2 - a_j^2) (partial fractions of the characteristic function), t >= 0. Scales that are too
    near each other are enlarged first: the sum with a larger scale exceeds any t >= 0 more often,
    because the others together are symmetric and unimodal. Of its hazard nothing is said then: 0.
    """
    given = np.sort(scales, axis=0)
    a = given.copy()
    for place in range(1, len(a)):
        a[place] = np.maximum(a[place], a[place - 1] * _APART)
    there = np.maximum(t, 0.0)
    total, sizes, slope = np.zeros_like(there), np.zeros_like(there), np.zeros_like(there)
    for i in range(len(a)):
        factor = np.ones_like(there)
        for j in range(len(a)):
            if j != i:
                factor = factor * (a[i] ** 2 / (a[i] ** 2 - a[j] ** 2))
        part = factor * np.exp(-there / a[i]) / 2
        total, sizes, slope = total + part, sizes + np.abs(part), slope + part / a[i]
    tail = np.where(t > 0, total + 1e-12 * sizes, 1.0)
    same = (a == given).all(axis=0) & (t > 0)
    lost = 1e-12 * sizes / a[0]  # each part of the slope is off by less
    hazard = np.where(same, np.maximum(slope - lost, 0.0) / np.maximum(tail, 1e-300), 0.0)
    return np.asarray(tail), np.asarray(hazard * (1 - 1e-9))
