"""Bounds as printed in the literature: published, not certified.

They stand here to be compared with. No guarantee of this package rests on them, and they are
rounded to nearest, not outwards.
"""

import math
from itertools import permutations

import numpy as np

from undertow.errors import Infeasible, MethodRefused
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, check_count, check_epsilon

__all__ = ["MOST_STEPS", "lange_constant", "ratio_constant", "zhao_budget", "zhao_constant"]

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
