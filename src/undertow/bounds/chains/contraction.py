"""What all epsilon-DP algorithms leak on any chain of a box, by how fast its chains forget.

Let D be the largest ln [P(x,y) P(x',y') / (P(x,y') P(x',y))] over the box. On a side of the target,
psi(y, z, ...) is a likelihood that changes by at most e^epsilon with each record, and g_m bounds
ln E[psi | X_i = x] / E[psi | X_i = x'] over all sides of at most m unknown records, open at the far
end or with a known record there. Then g_0 = 0 and g_m <= T(epsilon + g_{m-1}), where

    tanh(T(B) / 4) = tanh(D / 4) tanh(B / 4).

*Proof.* Let F(y) = E[psi(y, .) | y] over the records after the first. psi(y, .) <= e^epsilon
psi(y', .) pointwise, and psi(y', .) is such a likelihood of one record less: ln F(y) / F(y') <=
epsilon + g_{m-1} = B. The laws mu, nu of the first record given x and x' are proportional to
P(x, y) k(y) and P(x', y) k(y), with k the probability of what is known further on (and to w(y)
P(y, x) k(y) on the left, w the law of that record): whatever k and w are, ln dmu/dnu varies by at
most D. mu F / nu F is largest for F = e^{B 1_S}, where it is (1 + mu(S) (e^B - 1)) / (1 + nu(S)
(e^B - 1)), with odds of mu(S) at most e^D times those of nu(S); over nu(S) the largest value is
[cosh((D + B) / 4) / cosh((D - B) / 4)]^2, which is e^T. The target itself adds epsilon, and given
it the sides are independent. QED

A g with T(epsilon + g) <= g bounds all g_m. The bound holds for every start and for chains whose
steps differ, as long as each step is in the box.
"""

import math

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.chains.exchange import exchange_leakage
from undertow.certificate import Leakage
from undertow.models.chain_classes import ChainBox
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, up

__all__ = ["contraction_leakage", "contraction_rate", "contraction_upper"]

_STEPS = 5000
"""Records of a side after which only the bound for all lengths is used (cost)."""

_LEAST = 1e-20
"""What links states that a chain of the box need not leave, where its upper ends allow it."""


def contraction_leakage(epsilon: float, box: ChainBox, against: Against = "any") -> Leakage:
    """Return the worst leakage of all epsilon-DP algorithms over a box of any number of states.

    ``upper`` holds against every adversary, on every chain of the box, and is infinite for a box
    with zeros and no length; ``lower`` is attained on the chain of the box whose states last
    longest. Cost O(k^4), and one exchange.

    >>> low = [[.6, .1, .1], [.1, .6, .1], [.1, .1, .6]]
    >>> box = ChainBox(low, [[.8, .3, .3], [.3, .8, .3], [.3, .3, .8]])
    >>> leak = contraction_leakage(0.2, box)
    >>> round(leak.lower, 2), round(leak.upper, 2)
    (1.18, 1.56)
    """
    upper = epsilon if against == "informed" else contraction_upper(epsilon, box)
    lower, witness = 0.0, None
    if math.isfinite(upper):  # else some state may never be left, and nothing need be attained
        found = exchange_leakage(epsilon, _lasting(box), against)
        lower, witness = min(found.lower, upper), found.witness
    return Leakage(
        lower, upper, "exchange", against, witness,
        assumptions=("the records follow one of the chains of the box, with a stationary start",),
        citation="contraction of likelihood ratios (docs, theory)",
    )  # fmt: skip


def contraction_upper(epsilon: float, box: ChainBox) -> float:
    """Return a bound on what all epsilon-DP algorithms leak on any chain of a box, to anyone.

    Cost O(k^4). Whatever the start of the chain, and if its steps differ within the box.

    >>> narrow = ChainBox([[.9, .1], [.2, .8]], [[.9, .1], [.2, .8]], length=2)
    >>> contraction_upper(1.0, narrow) <= 2.0
    True
    """
    gains = _gains(epsilon, contraction_rate(box), box.length)
    return up(epsilon + float((gains + gains[::-1]).max()), 4)


def contraction_rate(box: ChainBox) -> float:
    """Return D, the largest log cross-ratio of two rows of any chain of a box, rounded up.

    >>> round(contraction_rate(ChainBox([[.9, .1], [.2, .8]], [[.9, .1], [.2, .8]])), 6)
    3.583519
    """
    low, high = _narrowed(box)
    with np.errstate(divide="ignore", invalid="ignore"):
        # (from, to, other to): ln of the largest P(x, y) / P(x, y')
        ratio = np.log(high)[:, :, None] - np.log(low)[:, None, :]
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    ratio[:, np.arange(box.size), np.arange(box.size)] = 0.0  # y = y'
    # (from, other from, to, other to)
    with np.errstate(invalid="ignore"):  # inf - inf: nothing is known, and NaN is read as inf below
        cross = ratio[:, None] + ratio.transpose(0, 2, 1)[None, :]
    cross[np.arange(box.size), np.arange(box.size)] = 0.0  # x = x'
    worst = float(cross.max())
    return up(max(worst, 0.0) + 1e-14 * (1 + abs(worst)), 8) if math.isfinite(worst) else math.inf


def _narrowed(box: ChainBox) -> tuple[Array, Array]:
    """Return the box after rows that sum to 1 have narrowed it, outwards."""
    pad = 4e-16 * box.size
    least = 1 - (box.upper.sum(axis=1, keepdims=True) - box.upper) - pad
    most = 1 - (box.lower.sum(axis=1, keepdims=True) - box.lower) + pad
    low = np.maximum(box.lower, least)
    return low, np.maximum(np.minimum(box.upper, most), low)


def _contracted(rate: float, width: float) -> float:
    """Return T(width) for log cross-ratios of at most ``rate``, rounded up.

    >>> round(_contracted(2.0, 3.0), 6), _contracted(float("inf"), 3.0) >= 3.0
    (1.209626, True)
    """
    if math.isinf(rate) or math.isinf(width):
        return up(min(rate, width), 4)
    if width < 1:  # no cancellation, and nothing near 1
        return min(up(4 * math.atanh(math.tanh(rate / 4) * math.tanh(width / 4)), 64), width)
    wide, apart = (rate + width) / 4, abs(rate - width) / 4
    # ln cosh z = z + ln(1 + e^{-2z}) - ln 2
    curved = math.log1p(math.exp(-2 * wide)) - math.log1p(math.exp(-2 * apart))
    return min(up(2 * (wide - apart + curved) + 1e-15 * (1 + wide), 4), width)


def _gains(epsilon: float, rate: float, length: int | None) -> Array:
    """Return bounds on the gain of sides of 0 .. length - 1 records; of any, without a length."""
    gain, gains = 0.0, [0.0]
    steps = _STEPS if length is None else min(length - 1, _STEPS)
    for _ in range(steps):
        gain = max(_contracted(rate, up(epsilon + gain)), gain)
        if gain == gains[-1]:
            break
        gains.append(gain)
    if length is not None and len(gains) == length:
        return np.array(gains)
    ceiling = _ceiling(gain, epsilon, rate)
    if length is None:
        return np.array([ceiling])
    whole = np.array([*gains, *[ceiling] * (length - len(gains))])
    most = np.array([up(m * epsilon) for m in range(length)])
    return np.asarray(np.minimum(whole, most))


def _ceiling(gain: float, epsilon: float, rate: float) -> float:
    """Return a gain that one more record does not raise, found by widening; inf where none is."""
    for widen in 1e-13 * 4.0 ** np.arange(24):
        wide = gain + widen * max(1.0, gain)
        if _contracted(rate, up(epsilon + wide)) <= wide:
            return float(wide)
    return math.inf


def _lasting(box: ChainBox) -> MarkovChain:
    """Return the chain of the box whose states last longest."""
    low, high = box.lower, box.upper
    matrix = low.copy()
    for x in range(box.size):
        order = [x, *np.argsort(-high[x]).tolist()]  # what is left goes to the state itself first
        for y in dict.fromkeys(order):
            room = max(1 - matrix[x].sum(), 0.0)
            matrix[x, y] += min(room, high[x, y] - matrix[x, y])
    matrix = np.maximum(matrix, np.minimum(high, _LEAST))  # so that all states meet
    return MarkovChain(matrix / matrix.sum(axis=1, keepdims=True), box.states, length=box.length)
