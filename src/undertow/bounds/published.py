"""Bounds as printed in the literature: published, not certified.

They stand here to be compared with. No guarantee of this package rests on them, and they are
rounded to nearest, not outwards.
"""

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np

from undertow.bounds.channels.quilts import chain_influence, chain_pairs
from undertow.errors import Infeasible, InvalidInput, MethodRefused
from undertow.models.chains import MarkovChain
from undertow.numerics import Array, check_count, check_epsilon, check_positive

__all__ = [
    "MOST_STEPS",
    "curve_budget",
    "influence_curve",
    "influence_leakage",
    "lange_constant",
    "largest_correlation",
    "published_gaussian_factor",
    "ratio_constant",
    "step_leakage",
    "temporal_budget",
    "temporal_leakage",
    "zhao_budget",
    "zhao_constant",
]


MOST_STEPS = 2**17
"""Powers of the transition matrix that `zhao_budget` tries at most (a cost limit, about a second:
past it the level returned is the largest so far, hence on the safe side)."""


def lange_constant(chain: MarkovChain) -> float:
    """Return c such that an epsilon-DP algorithm leaks at most epsilon + c, as published.

    c = 4 ln(max P / min P) over all entries of the transition matrix P, against every
    adversary and for every length. Assumes one matrix without zeros and a stationary start.
    Cost O(k^2). Rounded to nearest. Corollary 7.4 of [lange2024], proved there;
    `ratio_constant` is the exact value of what the proof bounds.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(lange_constant(chain), 6)
    8.04603
    """
    _check(chain, "lange")
    return 4 * (math.log(float(chain.transition.max())) - math.log(float(chain.transition.min())))


def ratio_constant(chain: MarkovChain) -> float:
    """Return the exact value of what Theorem 7.3 of [lange2024] bounds by `lange_constant`.

    The largest ln Pr[x_U | x_K, x_i = x] / Pr[x_U | x_K, x_i = x'] over every target i, known
    set K, unknown set U (all the rest) and all values, for chains of any length. By Bayes it is
    what the records next to the target say about x against x', less what the nearest known
    records say. With l_t(u) = ln P^t(u, x) / P^t(u, x') and r_t(v) = ln P^t(x, v) / P^t(x', v),

        max over x != x' of  [max l_1 - min l_2] + [max r_1 - min r_2].

    The nearest known record stands at distance t >= 2 (where the neighbour itself is known, a
    side says nothing new), and P^(t+1) = P P^t makes min l_t grow with t, min r_t alike: two is
    the worst. Knowing nothing is milder still, because ln pi(x) / pi(x') >= min l_2 on the left
    and 0 >= min r_2 on the right. Attained from five records on, the target in the middle and
    the first and the last one known.

    An epsilon-DP algorithm leaks at most epsilon + ratio_constant (the proof of Corollary 7.4
    uses nothing else about the chain), and some come arbitrarily close as epsilon grows. The
    constant is at most `lange_constant`, and at most 4 ln omega where `zhao_constant` is
    6 ln omega: min l_1 <= min l_2, and max l_1 - min l_1 compares two columns. Assumes one matrix
    without zeros and a stationary start. Cost O(k^3). Rounded to nearest, so not certified.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(ratio_constant(chain), 6)
    4.598492
    """
    _check(chain, "lange")
    # one and two steps
    one, two = np.log(chain.transition), np.log(chain.transition @ chain.transition)

    def gain(x: int, other: int) -> float:
        # max l_1 - min l_2
        left = np.max(one[:, x] - one[:, other]) - np.min(two[:, x] - two[:, other])
        right = np.max(one[x] - one[other]) - np.min(two[x] - two[other])  # max r_1 - min r_2
        return float(left + right)

    return max(0.0, *(gain(x, other) for x, other in permutations(range(chain.size), 2)))


def zhao_constant(chain: MarkovChain, steps: int = 1) -> float:
    """Return c = 6 ln omega; an epsilon-DP algorithm leaks at most epsilon + c, as published.

    omega = max Q(x, y) / Q(x', y) with Q = P^steps: the largest ratio of two entries of the same
    column, that is, of two ways into the same state y. The bound is the one for a single step;
    more steps serve `zhao_budget`, and c never grows with them, because every entry of a column
    of P^(t+1) is a mean of that column of P^t. Assumes one matrix without zeros and a stationary
    start. Cost O(k^3 ln steps). Rounded to nearest. Stated in [zhao2017], whose proof is not
    available; reported as equation (280) of [lange2024] and, in a form for two states, before
    Proposition 1 of [chakrabarti2022]. `ratio_constant` confirms it with 4 in place of 6.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(zhao_constant(chain), 6)
    10.639363
    >>> round(zhao_constant(chain, steps=2), 6)
    6.154343
    """
    _check(chain, "zhao")
    steps = check_count(steps, "steps", 1)
    return _six_log_omega(np.linalg.matrix_power(chain.transition, steps))


def zhao_budget(chain: MarkovChain, epsilon: float, length: int | None = None) -> float:
    """Return the DP level at which an algorithm leaks at most epsilon, as published.

    max over 1 <= t <= n / 2 of (epsilon - 6 ln omega_t) / (2 t - 1), where 6 ln omega_t is
    `zhao_constant` of t steps and n the number of records: ``length``, by default the chain's
    own; where that is None too, every t is allowed. Raises `Infeasible` where no t gives a
    positive level. Assumes one matrix without zeros and a stationary start. Cost O(k^3) for
    each t tried, at most `MOST_STEPS`. Rounded to nearest. Proposition 1 of [chakrabarti2022],
    adapted there from [zhao2017], whose proof is not available.

    Differs from the paper: stated there for symmetric chains of two states; omega_t has the same
    meaning for k. "If and only if" there can only mean "if": DP of this level implies the leakage,
    not the reverse. The level is confirmed, with 4 in place of 6: protect the t - 1 records on
    either side as a group together with the target, and bound what is farther away as
    `ratio_constant` does, from P^t and P^(t+1) in place of P and P^2.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(1 / zhao_budget(chain, epsilon=1.0), 2)
    20.04
    """
    _check(chain, "zhao-multistep")
    epsilon = check_epsilon(epsilon)
    records = chain.length if length is None else check_count(length, "length", 2)
    most = MOST_STEPS if records is None else min(records // 2, MOST_STEPS)
    power, best, smallest = np.eye(chain.size), 0.0, math.inf
    for t in range(1, most + 1):
        # No t from here on gives more than epsilon / (2 t - 1). A search over all t ends for that
        # reason: omega_t falls to 1 geometrically, so some level is positive.
        if best * (2 * t - 1) >= epsilon:
            break
        power = power @ chain.transition
        constant = _six_log_omega(power)
        smallest = min(smallest, constant)
        best = max(best, (epsilon - constant) / (2 * t - 1))
    if best <= 0:
        raise Infeasible(
            f"'zhao-multistep' needs epsilon above {smallest:.6g} on this chain, with up to {most} "
            f"steps, and found {epsilon:g}; raise epsilon or use method='exchange'",
            smallest,
        )
    return best


def _six_log_omega(power: Array) -> float:
    logs = np.log(power)
    return 6 * float(np.max(logs.max(axis=0) - logs.min(axis=0)))


def _check(chain: MarkovChain, method: str) -> None:
    if not chain.homogeneous:
        raise MethodRefused(
            f"'{method}' is stated for one transition matrix, this chain has one for each step; "
            "use method='exchange'"
        )
    zeros = np.argwhere(chain.transition <= 0)
    if zeros.size:
        row, column = (int(place) for place in zeros[0])
        raise MethodRefused(
            f"'{method}' needs transition probabilities above zero, but entry ({row}, {column}) "
            "is 0; use method='exchange'"
        )
    if not isinstance(chain.start, str):
        raise MethodRefused(
            f"'{method}' is stated for a stationary start, this chain has a given one; use "
            "method='exchange'"
        )


def published_gaussian_factor(records: int, rho: float) -> float:
    """Return c such that a clipped d-private algorithm of DP level epsilon leaks c epsilon.

    c = n^2 / (4 (1 / rho - n + 2)) + 1 with n the number of records and rho the largest correlation
    in absolute value. Assumes rho < 1 / (n - 2) and *equal variances*: without them it is too small
    (see `undertow.bounds.gaussian.leakages.leakage`). Proposition 6.4 of [lange2024],
    stated there for n >= 3.

    >>> round(published_gaussian_factor(3, 0.275), 6)
    1.853448
    """
    size = check_count(records, "records", 2)
    if not 0 <= rho < 1:
        raise InvalidInput(f"rho must lie in [0, 1), found {rho}")
    if rho == 0:
        return 1.0
    room = 1 / rho - size + 2
    if room <= 0:
        raise MethodRefused(
            f"'gaussian-bound' needs correlations below 1 / (n - 2) = {1 / max(size - 2, 1):.6g} "
            f"for {size} records, found {rho:.6g}; use method='exact'"
        )
    return size**2 / (4 * room) + 1


def largest_correlation(records: int, factor: float, *, published: bool = True) -> float:
    """Return the largest correlation at which Bayesian DP costs at most ``factor`` in accuracy.

    Laplace noise on a clipped sum that leaks at most epsilon then errs at most h = factor times as
    much as Laplace noise at DP level epsilon. As published, 1 / (n^2 / (4 (h - 1)) + n - 2):
    Corollary 6.5 of [lange2024]; with the exact factor 1 + (n - 1) rho of this package, the smaller
    of (h - 1) / (n - 1) and 1 / (n - 1). Both assume equal variances.

    >>> round(largest_correlation(10, 2.0), 6)
    0.030303
    >>> round(largest_correlation(10, 2.0, published=False), 6)
    0.111111
    """
    size, cost = check_count(records, "records", 2), check_positive(factor, "factor")
    if cost <= 1:
        raise InvalidInput(
            f"factor must be above 1, found {cost}: records that depend on each other cost "
            "accuracy; ask for the correlation at a factor such as 2"
        )
    if published:
        return 1 / (size**2 / (4 * (cost - 1)) + size - 2)
    return min(cost - 1, 1.0) / (size - 1)


WIDEST = 1024
"""Records on either side that an influence curve looks at (a cost limit; past it a(b) is taken to
be larger than it is, on the safe side)."""

RIVALS_MOST_STEPS = 2**11
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
    sums: tuple[list[Array], list[Array]] = ([], [])
    for one, other in permutations(range(len(matrix)), 2):
        q, d = matrix[one], matrix[other]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(d > 0, q / d, np.where(q > 0, np.inf, 0.0))
        order = np.argsort(-ratio, kind="stable")
        sums[0].append(np.cumsum(q[order]))
        sums[1].append(np.cumsum(d[order]))
    return np.array(sums[0]), np.array(sums[1])  # (pairs, k) each


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
    _rivals_check(chain, "temporal")
    backward = _reversed(chain)
    ahead = [level]  # (steps,): alpha_1, alpha_2, ...
    behind = [level]
    steps = min(chain.length or RIVALS_MOST_STEPS, RIVALS_MOST_STEPS)
    for losses, matrix in ((ahead, backward), (behind, chain.transition)):
        sets = _nested(matrix)
        while len(losses) < steps:
            losses.append(level + _step(*sets, losses[-1]))
            if losses[-1] > most:  # and the other side adds to it
                return math.inf
            if losses[-1] - losses[-2] <= STILL * losses[-1]:
                break
    settled = all(len(losses) < steps for losses in (ahead, behind))
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
    _rivals_check(chain, "influence-curve")
    inside, influence = _windows(chain, widest)
    held = inside[influence <= b]
    first = int(held.min()) if held.size else None
    whole = chain.length
    return whole if first is None else min(first, whole or first)


def influence_leakage(chain: MarkovChain, level: float) -> float:
    """Compute min over b of a(b) level + b: the published leakage of a DP level.

    The bound of the influence curves of [bai2026] in the notation of its abstract. The text could
    not be had; a(b) is read here as `influence_curve`, by Markov quilts, for which the bound is
    proved like Theorem 4.4 of [wang2016]: protect a(b) records as a group, and let the others tell
    b. Their curve may be sharper. Rounded to nearest.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=15264)
    >>> round(influence_leakage(chain, .5), 4)
    3.5514
    """
    _rivals_check(chain, "influence-curve")
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
    _rivals_check(chain, "influence-curve")
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


def _rivals_check(chain: MarkovChain, method: str) -> None:
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
