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

Blocks of b records: where every step is the same, let D be the cross-ratio of P^b instead. Then

    g_m <= (b - 1) epsilon + T(epsilon + g_{m-b}) for m >= b, and g_m <= (b - 1) epsilon before.

*Proof.* Let psi'(y_b, ...) be the least of psi over the b - 1 records next to the target: psi' <=
psi <= e^{(b - 1) epsilon} psi', and psi' is such a likelihood of the records from the b-th on.
Given x the b-th record follows P^b(x, .), and the argument above applies to psi'. A side of fewer
unknown records changes psi by e^epsilon for each of them. QED

A g with (b - 1) epsilon + T(epsilon + g) <= g bounds all of these. Chains with impossible
transitions have finite cross-ratios once all states lead everywhere.

Record by record: let D_j be the largest log cross-ratio of a product of j matrices of the box, and
T_j the map above with D_j in place of D. Then for every b

    g_m <= T_1(epsilon) + ... + T_{b-1}(epsilon) + T_b(epsilon + g_{m-b}).

*Proof.* Let psi_j be the least of psi over its first j records, and r_j = psi_{j-1} / psi_j, which
lies in [1, e^epsilon] and depends on the j-th record and those after it. The ratio of
E_x[psi_{j-1}] to E_x[psi_j] is the mean of r_j under the law given x tilted by psi_j. Given the
j-th record y that law does not depend on x, and y has a law proportional to P^j(x, y) k(y) with one
k for all x. So the means of r_j given x and x' differ by at most T_j(epsilon), by the argument
above; the ratio for psi_{b-1}, whose first record is the b-th, is at most T_b(epsilon + g_{m-b}).
QED

The D_j come from intervals. With hi_j(x, S) and lo_j(x, S) the largest and least probability that j
steps of chains of the box, each the worst for what follows, lead from x into S,

    P^j(x, y) / P^j(x', y) <= hi_j(x, y) / lo_j(x', y), and, with s the largest ln v(z) / v(z') of
    v = P^{j-a}(., y),  <= max_S [1 + hi_a(x, S) (e^s - 1)] / [1 + lo_a(x', S) (e^s - 1)],

as sums of v with weights of rows of P^a are extreme where v takes two values. Rows of one chain
meet: the second line contracts even where the intervals stay wide. tanh(D / 4) of a product is at
most the product of those of its factors [birkhoff1957].
"""

import math
from collections.abc import Callable

import numpy as np

from undertow.models.chain_classes import ChainBox
from undertow.models.markov import MarkovChain
from undertow.numerics import ROUNDOFF, Array, up
from undertow.progress import metered, spend

__all__ = ["block_upper", "box_rates", "contraction_rate", "contraction_upper"]

_STEPS = 5000
"""Records of a side after which only the bound for all lengths is used (cost)."""


_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Records of a block that are tried (cost: a product of matrices for each)."""

_RECORDS = 256
"""Records by which the contraction of a box is followed (cost)."""
_WORK = 1e7
"""Cubed states times steps that are followed (cost)."""
_STRIDES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""Steps of the products that later ones are made of (cost)."""
_MOST_SUBSETS = 8
"""States up to which all sets of them are followed (cost)."""
_NEGLIGIBLE = 1e-4
"""tanh(D / 4) from which on more records change nothing that matters."""
_FAR = 600.0
"""Largest spread of a likelihood whose exponential is used: beyond, the intervals alone count."""
_LOGS = 1e-12
"""Above the rounding of a logarithm of ratios of sums, and of a spread (upper side)."""
_TRIES = 200
"""Steps by which the best record to end at is sought (cost; no bound rests on them)."""

_FORGOTTEN = 1e-6
"""Cross-ratio from which on a longer block gains nothing."""


def contraction_upper(epsilon: float, box: ChainBox, window: int = 1) -> float:
    """Return a bound on what all epsilon-DP algorithms leak on any chain of a box, to anyone.

    About a ``window`` of records in a row: given it its sides are independent, and each depends on
    one record of it alone. Cost O(k^4) and, once for each box, O(2^k k^2) for each of some hundred
    steps. Whatever the start of the chain, and if its steps differ within the box.

    >>> narrow = ChainBox([[.9, .1], [.2, .8]], [[.9, .1], [.2, .8]], length=2)
    >>> contraction_upper(1.0, narrow) <= 2.0
    True
    """
    found = up(window * epsilon + 2 * _recordwise(epsilon, box_rates(box)), 4)
    if box.length is None:
        return found
    gains = _gains(epsilon, contraction_rate(box), box.length)  # of sides that end
    return min(found, up(window * epsilon + float((gains + gains[::-1]).max()), 4))


def _recordwise(epsilon: float, rates: list[float]) -> float:
    """Return a bound on the gain of a side of any length, record by record.

    ``rates`` are tanh(D_j / 4), rounded up, for j = 1, 2 ...
    """
    own = [_mixed(rate, epsilon) for rate in rates]  # T_j(epsilon)
    sums = np.concatenate([[0.0], np.cumsum(own)[:-1]]) * (1 + (len(own) + 4) * ROUNDOFF)
    # one record more is worth its T_j now, or a share of the gain that is left: where it is worth
    # least is found without care for rounding, and bounded with it
    shares, gain = np.array(rates), sums.copy()
    with np.errstate(divide="ignore"):
        for _ in range(_TRIES):
            part = np.minimum(shares * np.tanh((epsilon + gain) / 4), 1 - ROUNDOFF)
            gain = sums + np.minimum(4 * np.arctanh(part), epsilon + gain)
    place = int(np.where(shares < 1, gain, np.inf).argmin())
    done, rate = float(sums[place]), rates[place]
    if rate >= 1:
        return math.inf
    return _settled(lambda gain: up(done + _mixed(rate, up(epsilon + gain))))


def _mixed(rate: float, width: float) -> float:
    """Return T(width) for tanh(D / 4) of at most ``rate``, rounded up."""
    if math.isinf(width):
        return width if rate >= 1 else up(4 * math.atanh(min(up(rate, 2), 1 - 1e-16)), 64)
    product = up(rate * math.tanh(width / 4), 8)
    return width if product >= 1 else min(up(4 * math.atanh(product), 64), width)


@metered(8)
def box_rates(box: ChainBox) -> list[float]:
    """Return bounds on tanh(D_j / 4) over products of j matrices of a box, j = 1, 2 ..."""
    low, high = _narrowed(box)
    size = box.size
    sets = np.eye(size)
    if size <= _MOST_SUBSETS:  # (k, S): the indicators of all subsets but none and all
        numbers = np.arange(1, 2**size - 1)
        sets = (numbers[None] >> np.arange(size)[:, None] & 1).astype(np.float64)
    single = np.flatnonzero(sets.sum(axis=0) == 1)
    single = single[np.argsort(sets[:, single].argmax(axis=0))]
    most = least = sets
    kept: dict[int, tuple[Array, Array]] = {}
    spreads: list[Array] = []
    rates: list[float] = []
    same = np.eye(size, dtype=np.bool_)
    for step in range(1, int(np.clip(_WORK / size**3, 8, _RECORDS)) + 1):
        spend(8 * sets.size * size, 4)
        most, least = _extreme(low, high, most, 1), _extreme(low, high, least, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(most[:, None, single]) - np.log(least[None, :, single])  # (x, x', y)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        for steps, (wide, narrow) in kept.items():
            further = spreads[step - steps - 1]
            if size > _MOST_SUBSETS or not np.isfinite(further).all() or further.max() > _FAR:
                continue
            more = np.expm1(further)  # (y,)
            part = (1 + wide[:, None, :, None] * more) / (1 + narrow[None, :, :, None] * more)
            ratio = np.minimum(ratio, np.log(part.max(axis=2)) + _LOGS)
        ratio[same] = 0.0
        spreads.append(ratio.max(axis=(0, 1)))
        apart = _apart(ratio) + _LOGS
        rate = 1.0 if not math.isfinite(apart) else min(up(math.tanh(apart / 4), 8), 1.0)
        before = np.array(rates)
        rates.append(min(rate, *(up(one, 8) for one in before * before[::-1]), 1.0))
        if step in _STRIDES:
            kept[step] = most, least
        if rates[-1] < _NEGLIGIBLE:
            break
    return rates


def _apart(ratio: Array) -> float:
    """Return the largest sum of ratios (x, x', y) and (x', x, y') over different y and y'."""
    back = ratio.transpose(1, 0, 2)
    places, others = ratio.argmax(axis=2), back.argmax(axis=2)  # (x, x')
    second, first = np.moveaxis(np.partition(ratio, -2, axis=2)[..., -2:], 2, 0)
    below, above = np.moveaxis(np.partition(back, -2, axis=2)[..., -2:], 2, 0)
    met = np.maximum(first + below, second + above)
    return float(np.where(places == others, met, first + above).max())


def _extreme(low: Array, high: Array, values: Array, sign: int) -> Array:
    """Return the largest (sign 1) or least mean of each column of values by a row of the box.

    The least of a row everywhere, and the rest of it where the values are most extreme; rounded
    outwards.
    """
    order = np.argsort(-sign * values, axis=0)  # (k, S)
    rest = 1 - low.sum(axis=1)  # (k,)
    room = (high - low)[:, order]  # (row, rank, S)
    taken = np.diff(np.minimum(np.cumsum(room, axis=1), np.maximum(rest, 0)[:, None, None]),
                    axis=1, prepend=0.0)  # fmt: skip
    sums = low @ values + (taken * np.take_along_axis(values, order, axis=0)).sum(axis=1)
    odd = np.maximum(-rest, 0) + np.maximum(1 - high.sum(axis=1), 0)  # rows sum to 1 but nearly
    pad = (1e-15 * len(low) + odd)[:, None]
    return np.asarray(np.clip(sums + sign * pad, 0.0, 1.0))


def contraction_rate(box: ChainBox) -> float:
    """Return D, the largest log cross-ratio of two rows of any chain of a box, rounded up.

    Cost O(k^3).

    >>> round(contraction_rate(ChainBox([[.9, .1], [.2, .8]], [[.9, .1], [.2, .8]])), 6)
    3.583519
    """
    low, high = _narrowed(box)
    with np.errstate(divide="ignore", invalid="ignore"):
        # (from, to, other to): ln of the largest P(x, y) / P(x, y')
        ratio = np.log(high)[:, :, None] - np.log(low)[:, None, :]
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    ratio[:, np.arange(box.size), np.arange(box.size)] = 0.0  # y = y'
    # over two different rows: the largest of the one there and of the other back, or, where the
    # same row has both, the second largest of either
    order = np.argsort(ratio, axis=0)[-2:]  # (second and first, to, other to)
    second, first = np.take_along_axis(ratio, order, axis=0)
    back = order[1] == order[1].T
    with np.errstate(invalid="ignore"):  # inf - inf: nothing is known, and NaN is read as inf below
        cross = np.where(
            back, np.maximum(first + second.T, second + first.T), first + first.T
        )  # (to, other to)
    worst = float(cross.max())
    return up(max(worst, 0.0) + 1e-14 * (1 + abs(worst)), 8) if math.isfinite(worst) else math.inf


def block_upper(epsilon: float, chain: MarkovChain, window: int = 1) -> float:
    """Return a bound on what all epsilon-DP algorithms leak about a window of records of a chain.

    For chains of one transition matrix, over the best block; inf where states lead to no common
    one, and for steps that differ.

    >>> chain = MarkovChain([[.5, .5, 0], [.2, .6, .2], [0, .5, .5]])
    >>> round(block_upper(0.1, chain), 3)
    0.733
    """
    gain = min((_block_gain(epsilon, *block) for block in _blocks(chain)), default=math.inf)
    # given a window its sides are independent, and each depends on one record of it alone
    return up(window * epsilon + 2 * gain, 4)


def _block_gain(epsilon: float, records: int, rate: float) -> float:
    """Return a bound on the gain of a side of any length by blocks of so many records."""
    own = up((records - 1) * epsilon)
    return _settled(lambda gain: up(own + _contracted(rate, up(epsilon + gain))))


def _settled(more: Callable[[float], float]) -> float:
    """Return a gain that one more step does not raise, found by widening; inf if there is none."""
    gain = 0.0
    for _ in range(_STEPS):
        further = more(gain)
        if further <= gain * (1 + 1e-9):
            break
        gain = further
    for widen in 1e-12 * 4.0 ** np.arange(20):
        wide = float(gain + widen * max(1.0, gain))
        if more(wide) <= wide:
            return wide
    return math.inf


@metered(8)
def _blocks(chain: MarkovChain) -> tuple[tuple[int, float], ...]:
    """Return the lengths of blocks of a chain, and the cross-ratio of each, rounded up."""
    if not chain.homogeneous:
        return ()
    found: list[tuple[int, float]] = []
    product, records = chain.transition, 1
    for block in _BLOCKS:
        product = product @ np.linalg.matrix_power(chain.transition, block - records)
        records = block
        spend(16 * chain.size**3, 4)
        if not (product > 1e-200).all():
            if block > 2 * chain.size**2:  # some states never lead everywhere
                break
            continue
        logs = np.log(product)
        apart = max(float(np.ptp(logs - row, axis=1).max()) for row in logs)
        # each entry of a product of so many factors is right to so many roundings
        error = 8 * (block * (chain.size + 2) + 4 + float(np.abs(logs).max())) * ROUNDOFF
        found.append((block, up(apart + error)))
        if apart < _FORGOTTEN:
            break
    return tuple(found)


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
