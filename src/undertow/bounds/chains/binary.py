"""Two states: closed forms that propose, and the gains of all options in one pass.

With q = P(0 -> 1), r = P(1 -> 0) and q + r <= 1 the worst epsilon-DP algorithm flips every record
independently, and the fixed point of its likelihood ratio solves a quadratic. These formulas
propose; the sweep certifies.
"""

import math

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
    """Return lower and certified upper gains on homogeneous two-state sides, without roots.

    The log-ratio R of the two messages obeys R' = M(R +- epsilon) with the monotone map
    M(R) = ln (K00 e^R + K01) / (K10 e^R + K11), whose slope is at most 1 in size; the extremes of
    R for every distance come from one O(T) pass.
    """
    steps = len(prior)
    kernel = side_laws.kernel(1)[:, None]  # (B, 1, 2, 2) against columns v = 0, 1, open

    logs = log(kernel)  # (B, 1, 2, 2)

    def step_through(ratio: Array) -> Array:
        """Return M(ratio) without ever leaving logarithms; +-inf is a state ruled out."""
        with np.errstate(invalid="ignore"):
            top = np.logaddexp(logs[..., 0, 0] + ratio, logs[..., 0, 1])
            bottom = np.logaddexp(logs[..., 1, 0] + ratio, logs[..., 1, 1])
            inner = top - bottom
            above = np.where(np.isposinf(ratio), logs[..., 0, 0] - logs[..., 1, 0], inner)
            below = np.where(np.isneginf(ratio), logs[..., 0, 1] - logs[..., 1, 1], above)
        return np.asarray(below)

    known = log_ratio(side_laws.kernel(1)[:, 0], side_laws.kernel(1)[:, 1])  # (B, v)
    # (B, 1): what the far end says by itself
    far = log_ratio(side_laws.weights[:, :1], side_laws.weights[:, 1:])
    # (B, 3): known 0, known 1, nothing known
    most = np.concatenate([known, step_through(far + epsilon)], axis=1)
    least = np.concatenate([known, step_through(far - epsilon)], axis=1)
    # M rises or falls throughout, so the extremes after a step come from those before it
    highs, lows = [np.maximum(most, least)], [np.minimum(most, least)]
    for _ in range(steps - 1):
        ends = step_through(highs[-1] + epsilon), step_through(lows[-1] - epsilon)
        highs.append(np.maximum(*ends))
        lows.append(np.minimum(*ends))
    high, low = np.stack(highs), np.stack(lows)  # (T, B, 3)
    first = (value == 0)[None, None, :, None]  # (1, 1, P, 1): 0 over 1, or the reverse
    with np.errstate(invalid="ignore"):
        gains = np.where(first, high[:, :, None], -low[:, :, None]) - prior  # (T, B, P, 3)
    size = np.nanmax(np.abs(np.where(np.isfinite(high), high, 0.0)), initial=1.0) + epsilon
    distance = np.arange(1, steps + 1)[:, None, None, None]  # (T, 1, 1, 1)
    # M never stretches, so the roundings of all steps at most add up
    pad = distance * (40 + 6 * size) * ROUNDOFF + pad_log(steps, 3)
    upper = np.where(np.isnan(prior), -np.inf, np.maximum(gains + pad, 0.0))
    return np.where(np.isnan(prior), -np.inf, np.maximum(gains, 0.0)), upper
