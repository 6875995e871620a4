"""Two states: closed forms that propose, and the gains of all options in one pass.

With q = P(0 -> 1), r = P(1 -> 0) and q + r <= 1 the worst epsilon-DP algorithm flips every record
independently, and the fixed point of its likelihood ratio solves a quadratic. These formulas
propose; the sweep certifies.
"""

import math
from itertools import pairwise

import numpy as np

from undertow.bounds.chains.known import Ints, log
from undertow.bounds.chains.side_laws import SideLaws
from undertow.models.markov import MarkovChain
from undertow.numerics import ROUNDOFF, Array, log_ratio, pad_log

__all__ = ["binary_gains", "closed_budget", "ignorant_ratios"]

_LARGE = 300.0
"""Levels beyond which squares in the closed form would overflow."""


def ignorant_ratios(q: float, r: float, epsilon: float) -> tuple[float, float]:
    """Return the largest ln S and ln T that leak epsilon to an attacker who knows no record.

    S = m^2, m = [(r E^2 - q) + sqrt((r E^2 - q)^2 + 4 (1-q)(1-r) E^2)] / (2 (1-q) E) with
    E = e^(epsilon/2); T with q = P(0 -> 1) and r = P(1 -> 0) exchanged. For 0 < q, r and
    q + r <= 1, a stationary start and series of any length: Theorem 1 of [chakrabarti2022]
    solved for the flips, which is linear in them. Rounded to nearest.

    >>> [round(math.exp(ratio), 9) for ratio in ignorant_ratios(.2, .35, 2.0)]
    [2.572388328, 2.171342795]
    """
    return _ignorant_ratio(q, r, epsilon), _ignorant_ratio(r, q, epsilon)


def _ignorant_ratio(q: float, r: float, epsilon: float) -> float:
    if epsilon > _LARGE:  # m = r E / (1 - q), to far beyond the last bit
        return epsilon + 2 * math.log(r / (1 - q))
    e = math.exp(epsilon / 2)
    half = (r * e * e - q) / 2
    product = (1 - q) * (1 - r) * e * e
    root = math.sqrt(half * half + product)
    # the positive root, without cancellation on either side
    m = half + root if half >= 0 else product / (root - half)
    return 2 * math.log(m / ((1 - q) * e))


def closed_budget(chain: MarkovChain, epsilon: float) -> float | None:
    """Return the DP level that leaks ``epsilon`` to an ignorant adversary, None for no form.

    The smaller of `ignorant_ratios`. Floating point, not rounded to a side: a proposal.

    >>> round(closed_budget(MarkovChain([[.882, .118], [.305, .695]]), 1.0), 12)
    0.250487070113
    """
    if chain.size != 2 or not chain.homogeneous or not isinstance(chain.start, str):
        return None
    q, r = float(chain.transition[0, 1]), float(chain.transition[1, 0])
    if not (0 < q < 1 and 0 < r < 1 and q + r <= 1) or epsilon > _LARGE:
        return None
    return min(ignorant_ratios(q, r, epsilon))


def binary_gains(
    side_laws: SideLaws, value: Ints, epsilon: float, prior: Array
) -> tuple[Array, Array]:
    """Return lower and certified upper gains on two-state sides, without roots.

    The log-ratio R of the two messages obeys R' = M(R +- epsilon) with the monotone map
    M(R) = ln (K00 e^R + K01) / (K10 e^R + K11), whose slope is at most 1 in size; the extremes of
    R for every distance come from one O(T) pass, whether steps are alike or differ.
    """
    steps = len(prior)
    if len(side_laws.kernels) > 1:
        return _between(*_varied_ends(side_laws, epsilon, steps), value, epsilon, prior)
    kernel = side_laws.kernel(1)  # (B, 2, 2)
    (k00, k01), (k10, k11) = log(kernel.transpose(1, 2, 0)[..., None])  # (B, 1) each
    push = epsilon * np.array([1.0, -1.0])[:, None, None]  # (most or least, 1, 1)
    ends = np.empty((steps, 2, len(kernel), 3))  # columns: known 0, known 1, nothing known
    with np.errstate(invalid="ignore"):
        sure = k00 - k10  # M(inf); M(-inf) needs no care

        def step_through(ratio: Array) -> Array:
            """Return M(ratio) without ever leaving logarithms; +-inf is a state ruled out."""
            inner = np.logaddexp(k00 + ratio, k01) - np.logaddexp(k10 + ratio, k11)
            return np.asarray(np.where(ratio == np.inf, sure, inner))

        ends[0, :, :, :2] = log_ratio(kernel[:, 0], kernel[:, 1])  # (B, v)
        # (B, 1): what the far end says by itself
        far = log_ratio(side_laws.weights[:, :1], side_laws.weights[:, 1:])
        ends[0, :, :, 2:] = step_through(far + push)
        ends[0] = ends[0].max(axis=0), ends[0].min(axis=0)
        # M rises or falls throughout, so the extremes after a step come from those before it
        for before, after in pairwise(ends):
            one, two = step_through(before + push)
            np.maximum(one, two, out=after[0])
            np.minimum(one, two, out=after[1])
    return _between(ends[:, 0], ends[:, 1], 0.0, value, epsilon, prior)


def _varied_ends(side_laws: SideLaws, epsilon: float, steps: int) -> tuple[Array, Array, float]:
    """Return the largest and least ratios where steps differ, (T, B, 3), and the largest logarithm.

    R = M_1(+-epsilon + M_2(+-epsilon + ...)): the ratio of the rows of K_1 D_1 K_2 D_2 ... K_t with
    D = diag(e^(+-epsilon), 1). It is largest if the sign of D_s is that of det K_1 ... det K_s, the
    direction in which M_1 ... M_s go together, and least with all signs turned. So one product,
    grown outwards, serves all distances; kept in logarithms, where nothing under- or overflows and
    a step adds a few roundings of its largest term. A determinant whose sign is lost in rounding
    belongs to a map whose slope is a rounding itself.
    """
    kernels = side_laws.kernels  # (T, B, 2, 2)
    logs, far = log(kernels), log(side_laws.weights)  # far (B, 2)
    falls = kernels[..., 0, 0] * kernels[..., 1, 1] < kernels[..., 0, 1] * kernels[..., 1, 0]
    turned = np.cumprod(np.where(falls, -1.0, 1.0), axis=0)  # (T, B)
    push = epsilon * np.array([1.0, -1.0])[:, None, None] * turned  # (most or least, T, B)
    table = np.stack([logs[0], logs[0]])  # (2, B, x, v): ln of the rows of the product
    ends = np.empty((steps, 2, len(far), 3))
    largest = float(np.abs(logs[np.isfinite(logs)]).max(initial=1.0))
    size = largest
    with np.errstate(invalid="ignore"):  # inf - inf: neither value can have it, as the prior says
        for step in range(steps):
            ends[step, ..., :2] = table[..., 0, :] - table[..., 1, :]
            table[..., 0] += push[:, step, :, None]
            free = np.logaddexp(table[..., 0] + far[:, None, 0], table[..., 1] + far[:, None, 1])
            ends[step, ..., 2] = free[..., 0] - free[..., 1]
            size = max(size, float(np.abs(table[np.isfinite(table)]).max(initial=0.0)) + largest)
            if step + 1 == steps:
                break
            # ln of sum over z of exp(table[x, z]) K[z, v]
            table = np.logaddexp(
                table[..., :1] + logs[step + 1][None, :, :1, :],
                table[..., 1:] + logs[step + 1][None, :, 1:, :],
            )
            table -= table.max(axis=(2, 3), keepdims=True)
    return ends[:, 0], ends[:, 1], size


def _between(
    high: Array, low: Array, size: float, value: Ints, epsilon: float, prior: Array
) -> tuple[Array, Array]:
    """Return lower and certified upper gains from the extreme ratios, (T, B, 3) each.

    ``size`` is the largest logarithm on the way, where it is larger than that of a ratio.
    """
    steps = len(prior)
    first = (value == 0)[None, None, :, None]  # (1, 1, P, 1): 0 over 1, or the reverse
    with np.errstate(invalid="ignore"):
        gains = np.where(first, high[:, :, None], -low[:, :, None]) - prior  # (T, B, P, 3)
    most = np.nanmax(np.abs(np.where(np.isfinite(high), high, 0.0)), initial=1.0)
    size = max(float(most), size) + epsilon
    distance = np.arange(1, steps + 1)[:, None, None, None]  # (T, 1, 1, 1)
    # M never stretches, so the roundings of all steps at most add up
    pad = distance * (40 + 6 * size) * ROUNDOFF + pad_log(steps, 3)
    upper = np.where(np.isnan(prior), -np.inf, np.maximum(gains + pad, 0.0))
    return np.where(np.isnan(prior), -np.inf, np.maximum(gains, 0.0)), upper
