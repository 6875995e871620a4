"""One step along an edge of a tree: how much of what lies beyond can still be told apart.

Beyond the edge stands a likelihood g > 0 of which only pairwise bounds are known,
ln g(y) - ln g(y') <= B(y, y'). Seen through the edge's kernel K it becomes x -> (K g)(x), and

    step(K, B)(x, x') = max over such g of ln (K g)(x) / (K g)(x').

Arrays have leading axes of edges; B and the results have shape (..., k, k). The maximum of a ratio
of linear functions over a cone lies on one of its extreme points: for two states the two ends of
g(0)/g(1), for a few more the solutions in which a spanning tree of the bounds is tight. Beyond
`LISTED` states only the largest bound is used. Results are rounded to one ``side``: up (1) for an
upper end, down (-1) for a lower one; ``error`` is how much the kernel's own errors can add. Since a
step grows with B, errors never change sides.
"""

from functools import lru_cache
from itertools import combinations, permutations, product

import numpy as np

from undertow.numerics import ROUNDOFF, Array

__all__ = ["LISTED", "evidence_step", "roundings", "step"]

LISTED = 5
"""Most states whose extreme points are listed: 2000 of them; 6 would have 41,000."""

_SLACK = 1e-12
"""Relative slack with which an extreme point may break a bound and still count (upper side)."""

_TOGETHER = 4_000_000
"""Most numbers held at once while extreme points are looked at."""


def roundings(kernel: Array, bound: Array) -> Array:
    """Return how far rounding can move the log-ratios of one step, for each edge.

    Logarithms of the kernel and of the likelihood carry an error of their own size.

    >>> float(roundings(np.full((2, 2), .5), np.zeros((2, 2)))) < 1e-14
    True
    """
    states = kernel.shape[-1]
    size = np.where(np.isfinite(bound), np.abs(bound), 0.0).max(axis=(-2, -1))  # (...)
    with np.errstate(divide="ignore"):
        logs = np.log(kernel)
    # (...): rarest entry of each kernel
    rare = np.where(np.isfinite(logs), -logs, 0.0).max(axis=(-2, -1))
    return np.asarray(8.0 * ROUNDOFF * (states + 4.0 + size + rare))


def step(kernel: Array, bound: Array, side: float = 1.0, error: float = 0.0) -> Array:
    """Return the largest log-ratios of K g, at least 0; 0 on the diagonal.

    An infinite bound gives inf wherever it matters.

    >>> kernel, bound = np.array([[.9, .1], [.2, .8]]), np.array([[0, 1.], [1., 0]])
    >>> step(kernel, bound).round(6)
    array([[0.      , 0.639307],
           [0.706275, 0.      ]])
    """
    states = kernel.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(kernel)
        if states == 2:
            best = _two(logs, bound)
        elif states <= LISTED:
            best = _extremes(logs, bound)
        else:
            best = _scalar(kernel, bound)
    best = np.where(np.isnan(best), bound.max(axis=(-2, -1), keepdims=True), best)
    pad = side * (roundings(kernel, bound) + error)
    best = np.maximum(best + pad[..., None, None], 0.0)
    best[..., np.arange(states), np.arange(states)] = 0.0
    return np.asarray(best)


def _two(logs: Array, bound: Array) -> Array:
    """Return the step for two states: the ratio g(0)/g(1) at its ends."""
    best = np.full(np.broadcast_shapes(logs.shape, bound.shape), -np.inf)
    for end in (bound[..., 0, 1], -bound[..., 1, 0]):
        # (..., k): ln K g, g(1) = 1
        mixed = np.logaddexp(logs[..., 0] + end[..., None], logs[..., 1])
        open_ended = np.isinf(end)[..., None]
        # an unbounded ratio: what is left is the larger share
        limit = np.where(end[..., None] > 0, logs[..., 0], logs[..., 1])
        mixed = np.where(open_ended, limit, mixed)
        best = np.maximum(best, mixed[..., :, None] - mixed[..., None, :])  # (..., k, k)
    return best


def evidence_step(
    kernel: Array, bound: Array, known: Array, error: float = 0.0
) -> tuple[Array, Array]:  # fmt: skip
    """Return the step where what is known beyond the edge may also shift the kernel, and step(L).

    Known records beyond the edge multiply the kernel's columns by lambda, of which only
    ln lambda(y) - ln lambda(y') <= L(y, y') is used, L = ``known``. For two states the worst shift
    is found in closed form; otherwise step(K, B + L)(x, x') + step(K, L)(x', x), and never more
    than max B. step(K, L) is how far lambda itself is seen through the edge. Upper ends only.

    >>> kernel = np.array([[.9, .1], [.2, .8]])
    >>> bound, known = np.array([[0, 1.], [1., 0]]), np.array([[0, .5], [.5, 0]])
    >>> evidence_step(kernel, bound, known)[0].round(6)
    array([[0.      , 0.693049],
           [0.70704 , 0.      ]])
    """
    states = kernel.shape[-1]
    most = np.maximum(bound.max(axis=(-2, -1)), 0.0)[..., None, None]  # (..., 1, 1)
    if states == 2:
        seen = step(kernel, known, 1.0, error)
        with np.errstate(divide="ignore", invalid="ignore"):
            best = _shifted(np.log(kernel), bound, known)
        pad = roundings(kernel, bound) + roundings(kernel, known) + error
        best = best + pad[..., None, None]
    else:
        # both steps at once, (2, ..., k, k)
        both = step(np.stack([kernel] * 2), np.stack([bound + known, known]), 1.0, error)
        seen = both[1]
        best = both[0] + np.swapaxes(seen, -1, -2)  # step(K, B + L)(x, x') + step(K, L)(x', x)
        best = np.where(np.isfinite(best), best, most)
    best = np.where(np.isnan(best), most, best)
    best = np.clip(best, 0.0, most)
    best[..., np.arange(states), np.arange(states)] = 0.0
    return np.asarray(best), seen


def _shifted(logs: Array, bound: Array, known: Array) -> Array:
    """Return the largest log-ratio over all shifts l of the kernel's log-odds.

    With a = logit K(x, 0), a' = logit K(x', 0) and the likelihood's log-ratio at its end b, the
    loss h(a + l) - h(a' + l), h(z) = ln(1 + e^{z+b}) - ln(1 + e^z), has one maximum in l, at
    -b/2 - (a + a')/2.
    """
    odds = logs[..., 0] - logs[..., 1]  # (..., k): logit K(x, 0)
    best = np.zeros(np.broadcast_shapes(logs.shape, bound.shape))
    low, high = -known[..., 1, 0], known[..., 0, 1]  # (...): how far lambda can shift the odds
    for x, other in ((0, 1), (1, 0)):
        first, second = odds[..., x], odds[..., other]
        end = np.where(first >= second, bound[..., 0, 1], -bound[..., 1, 0])
        middle = -end / 2 - (first + second) / 2  # (...): where the loss is largest
        shift = np.clip(middle, low, high)
        loss = _gain(first + shift, end) - _gain(second + shift, end)
        same = np.isinf(first) & (first == second)
        unclear = ~np.isfinite(shift) | np.isnan(loss)
        loss = np.where(unclear, np.abs(end), loss)
        best[..., x, other] = np.where(same, 0.0, loss)
    return best


def _gain(odds: Array, end: Array) -> Array:
    """Return ln(1 + e^{z + b}) - ln(1 + e^z), with its limits b and 0."""
    gain = np.logaddexp(0.0, odds + end) - np.logaddexp(0.0, odds)
    return np.where(np.isinf(odds), np.where(odds > 0, end, 0.0), gain)


def _extremes(logs: Array, bound: Array) -> Array:
    """Return the step for a few states, over all extreme points."""
    states = logs.shape[-1]
    shape = np.broadcast_shapes(logs.shape, bound.shape)
    flat_logs = np.broadcast_to(logs, shape).reshape(-1, states, states)  # (edges, k, k)
    flat = np.broadcast_to(bound, shape).reshape(-1, states, states)
    combos = _spanning(states)  # (points, k, k, k)
    best = np.empty_like(flat)
    size = max(1, _TOGETHER // (len(combos) * states * states))
    for start in range(0, len(flat), size):
        piece = slice(start, start + size)
        best[piece] = _extremes_of(flat_logs[piece], flat[piece], combos)
    return best.reshape(shape)


def _extremes_of(logs: Array, bound: Array, combos: Array) -> Array:
    count, states = bound.shape[:2]
    endless = np.isinf(bound).any(axis=(1, 2))
    safe = np.where(np.isfinite(bound), bound, 0.0)
    # (edges, points k): ln g = combos . B
    heights = safe.reshape(count, -1) @ combos.reshape(-1, states * states).T
    heights = heights.reshape(count, -1, states)  # ln g of every extreme point
    slack = _SLACK * (1.0 + np.abs(safe).max(axis=(1, 2)))
    apart = heights[..., :, None] - heights[..., None, :] - safe[:, None]  # (edges, points, k, k)
    # (edges, points): all bounds are kept
    allowed = (apart <= slack[:, None, None, None]).all(axis=(2, 3))
    mixes = _log_mix(logs[:, None], heights[:, :, None])  # ln K g for every extreme point and row
    ratios = np.where(
        allowed[:, :, None, None], mixes[..., :, None] - mixes[..., None, :], -np.inf
    )  # fmt: skip
    best: Array = ratios.max(axis=1)  # (edges, k, k)
    best[:, range(states), range(states)] = -np.inf
    best[endless] = np.inf
    return best


def _log_mix(logs: Array, heights: Array) -> Array:
    total = logs + heights
    peak = total.max(axis=-1)  # (edges, points, k)
    return np.asarray(peak + np.log(np.exp(total - peak[..., None]).sum(axis=-1)))


@lru_cache(maxsize=8)
def _spanning(states: int) -> Array:
    """Return every spanning tree with every choice of tight bounds, as ln g = combos . B.

    Shape (points, states, states, states): entry [r, y] are the coefficients of B in ln g(y), with
    ln g(0) = 0.
    """
    edges = list(combinations(range(states), 2))
    rows = []
    for tree in combinations(edges, states - 1):
        for upward in product((True, False), repeat=states - 1):
            coefficients: dict[int, Array] = {0: np.zeros((states, states))}
            left = list(zip(tree, upward, strict=True))
            while left:
                ready = [item for item in left if (item[0][0] in coefficients)
                         != (item[0][1] in coefficients)]  # fmt: skip
                if not ready:
                    break
                (a, b), up = ready[0]
                left.remove(ready[0])
                known, fresh = (a, b) if a in coefficients else (b, a)
                row = coefficients[known].copy()
                if up:
                    row[fresh, known] += 1.0  # ln g(fresh) = ln g(known) + B(fresh, known)
                else:
                    row[known, fresh] -= 1.0
                coefficients[fresh] = row
            if len(coefficients) == states:
                rows.append(np.stack([coefficients[state] for state in range(states)]))
    return np.stack(rows)


def _scalar(kernel: Array, bound: Array) -> Array:
    """Return the step when only the largest bound is used: sets of the likeliest states."""
    most = bound.max(axis=(-2, -1))[..., None]  # (..., 1)
    best = np.full(np.broadcast_shapes(kernel.shape, bound.shape), -np.inf)
    for x, other in permutations(range(kernel.shape[-1]), 2):
        rows = kernel[..., x, :], kernel[..., other, :]
        # g = e^most on the states that favour x the most, 1 elsewhere: one cut of this order
        order = np.argsort(-(rows[0] / (rows[0] + rows[1])), axis=-1)
        mixed = []
        for row in rows:
            mass = np.take_along_axis(row, order, -1)  # (..., states), likeliest first
            inside, beyond = np.cumsum(mass, -1), np.cumsum(mass[..., ::-1], -1)[..., ::-1]
            mixed.append(np.logaddexp(np.log(inside[..., :-1]) + most, np.log(beyond[..., 1:])))
        best[..., x, other] = (mixed[0] - mixed[1]).max(axis=-1)  # over the states - 1 cuts
    return best
