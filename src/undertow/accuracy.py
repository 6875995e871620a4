"""How far an answer lies from the truth: (alpha, beta) accuracy.

An answer is (alpha, beta)-accurate if, whatever the records are, it errs by alpha or more with
probability at most beta (Definition 2.5 of [lange2024]). Besides the errors of our noise, the
module holds what that thesis proves about the errors of anybody's: how accuracy suffers when
records depend on each other, and what no algorithm can do. Those functions are rounded to
nearest; no guarantee rests on them.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from undertow.errors import InvalidInput
from undertow.mechanisms import Noise
from undertow.numerics import (
    Array,
    check_count,
    check_epsilon,
    check_number,
    check_positive,
    freeze,
)

__all__ = [
    "accuracy",
    "errors",
    "failure_floor",
    "group_accuracy",
    "half_range_failure",
    "impossible_alpha",
    "largest_ratio",
]

_LEAST_BETA = 1e-200
"""Least probability of an error that is asked about."""


def accuracy(mechanism: Noise, beta: float, numbers: int = 1, groups: int = 1) -> float:
    """Return an alpha with Pr[some error exceeds alpha] <= beta, ``numbers`` in each of ``groups``.

    The errors are independent, so each may fail with probability 1 - (1 - beta)^(1 / all of them).
    Laplace: scale ln(1 / beta). Discrete Laplace: the exact quantile, a whole number. These are the
    smallest. Numbers that were moved to a public sum err together: those of a group may fail with
    probability 1 - (1 - beta)^(1 / groups), shared out among them, which is a little more than
    needed.

    >>> from undertow import Count, DiscreteLaplace
    >>> accuracy(DiscreteLaplace(Count("active"), scale=4.0), beta=.05)
    12.0
    """
    if not _LEAST_BETA <= check_number(beta, "beta") < 1:
        raise InvalidInput(
            f"beta must lie strictly between 0 and 1, and not below {_LEAST_BETA:g}; found {beta}"
        )
    if not mechanism.query.totalled or numbers == 1:
        return mechanism.quantile(-math.expm1(math.log1p(-beta) / (numbers * groups)))
    each = -math.expm1(math.log1p(-beta) / groups) / numbers
    if each < _TAIL:  # |Z_j - mean Z| < 2 max |Z|, and one more for whole numbers
        return 2 * mechanism.quantile(each) + 1
    law, step = _moved(mechanism, numbers)  # of k times the error, one side
    size = np.arange(len(law)) / numbers
    low, high = 0, int(size[-1])
    while low < high:  # the least whole alpha; moved numbers are at alpha + 1 with what is above
        alpha = (low + high) // 2
        beyond = 2 * float(law @ np.clip(size - alpha, 0.0, 1.0))
        low, high = (low, alpha) if beyond + _ROUGH <= each else (alpha + 1, high)
    return float(low) if step == 1 else float(math.ceil(low * step)) + 1


def errors(mechanism: Noise, numbers: int = 1) -> tuple[float, float]:
    """Return the expected absolute error and the variance of one released number.

    Those of the noise; where ``numbers`` noisy numbers are moved to a public sum, those of
    Z_j - mean(Z), rounded to one of its whole neighbours by a fair draw. That has (1 - 1 / numbers)
    of the variance, and less than 1/4 for rounding, which the expected absolute error does not
    notice. Rounded to nearest, for noise beyond a scale of `_DENSE` from that scale.

    >>> from undertow import DiscreteLaplace, Histogram
    >>> noise = DiscreteLaplace(Histogram(totalled=True), scale=4.0)
    >>> [round(value, 3) for value in (*errors(noise), *errors(noise, numbers=3))]
    [3.959, 31.834, 3.468, 21.371]
    """
    if mechanism.query.selects:  # states have no variance
        return mechanism.expected_error(), math.nan
    if not mechanism.query.totalled or numbers <= 1:
        return mechanism.expected_error(), mechanism.variance()
    law, step = _moved(mechanism, numbers)
    size = np.arange(len(law)) / numbers
    share = size - np.floor(size)
    mean = 2 * float(law @ size)
    square = 2 * float(law @ (size**2 + share * (1 - share)))
    return mean * step, square * step**2


_DENSE = 128.0
"""Amount of noise beyond which whole numbers count as dense: errors grow in proportion from there
on, and what rounding adds is overstated."""

_TAIL, _ROUGH = 1e-9, 1e-13
"""Least probability of failure that is read off a Fourier transform, and its error (upper side)."""

_REACH = 44.0
"""Scales up to which noise is summed: e^-44 is below the last digit of 1."""


@lru_cache(maxsize=64)
def _moved(mechanism: Any, numbers: int) -> tuple[Array, float]:
    """Return Pr[k (Z_j - mean Z) = w] for w = 0, 1, 2, ... and the unit that errors are in.

    k (Z_j - mean Z) = (k - 1) Z_j - (sum of k - 1 others) is symmetric. Its characteristic function
    is a product of those of its parts: one Fourier transform there, one back, n log n for
    n = 4 k scales. The entry at 0 is halved, so that twice a sum is one over both sides.
    """
    step = max(1.0, mechanism.amount / _DENSE)
    small = mechanism if step == 1 else mechanism.with_amount(_DENSE)
    most = math.ceil(_REACH * small.amount) + 8
    span = 1 << math.ceil(math.log2(4 * (numbers - 1) * most + 2))  # no tail meets the other
    half = small.masses(most)
    law = np.zeros(span)
    law[: most + 1], law[-most:] = half, half[:0:-1]
    wave = np.fft.fft(law).real  # symmetric, so real; (frequencies,)
    stretched = wave[(np.arange(span) * (numbers - 1)) % span]  # of (k - 1) Z_j
    masses = np.fft.ifft(stretched * wave ** (numbers - 1)).real
    side = np.maximum(masses[: span // 2], 0.0)
    side[0] /= 2
    return freeze(side / (2 * side.sum())), step


def group_accuracy(alpha: float, records: int) -> float:
    """Return the error records * alpha that protection by groups turns alpha into.

    If Laplace noise at DP level epsilon is (alpha, beta)-accurate and at most ``records`` records
    depend on each other, then Laplace noise at level epsilon / records leaks at most epsilon
    against every adversary and is (records * alpha, beta)-accurate, at the same beta. Assumes
    Laplace noise; the quantiles of discrete noise are whole numbers and scale only nearly so.
    Corollary 4.4 of [lange2024].

    >>> from undertow import Count, Laplace
    >>> alpha = accuracy(Laplace(Count("active"), scale=1.0), beta=.05)
    >>> round(alpha, 4), round(group_accuracy(alpha, records=10), 4)
    (2.9957, 29.9573)
    """
    return check_count(records, "records", 1) * check_positive(alpha, "alpha")


def half_range_failure(epsilon: float) -> float:
    """Return how often a count of n records errs by n / 2 or more, all n depending on each other.

    The count is protected as one group, by Laplace noise at level epsilon / n, so the probability
    is e^(-epsilon / 2), whatever n is. Figure 3 of [lange2024].

    >>> round(half_range_failure(1.0), 6), round(half_range_failure(5.0), 6)
    (0.606531, 0.082085)
    """
    return math.exp(-check_epsilon(epsilon) / 2)


def largest_ratio(epsilon: float, factor: float) -> float:
    """Return the largest ratio of two transition probabilities that costs at most ``factor``.

    If max P / min P <= exp((h - 1) epsilon / (4 h)) with h = factor, the published constant
    `undertow.bounds.published.lange_constant` leaves a DP level of at least epsilon / h, so
    that Laplace noise which leaks at most epsilon errs at most h times as much as Laplace noise at
    DP level epsilon. Assumes a chain with one matrix without zeros and a stationary start. The
    condition is sufficient, not necessary. Ratios beyond e^709 are returned as that. Corollary
    7.5 of [lange2024].

    >>> round(largest_ratio(epsilon=5.0, factor=10.0), 6)
    3.080217
    """
    epsilon, factor = check_epsilon(epsilon), check_positive(factor, "factor")
    if factor <= 1:
        raise InvalidInput(
            f"factor must be above 1, found {factor}: records that depend on each other cost "
            "accuracy; ask for the ratio at a factor such as 2"
        )
    return math.exp(min((1 - 1 / factor) * epsilon / 4, 709.0))


def failure_floor(epsilon: float) -> float:
    """Return 1 / (e^epsilon + 1): below it no probability of failure is possible.

    Let an algorithm produce any answer at most e^epsilon times as probably from data x as from
    data x', and let the true answers lie 2 alpha or more apart. Then from x or from x' it errs by
    alpha or more with at least this probability. Attained by giving the right one of the two true
    answers with probability e^epsilon / (e^epsilon + 1), else the other. Theorem 4.6 and Figure 5
    of [lange2024].

    >>> round(failure_floor(2.0), 6), round(failure_floor(4.0), 6)
    (0.119203, 0.017986)
    """
    odds = math.exp(-check_epsilon(epsilon))
    return odds / (1 + odds)


def impossible_alpha(spread: float, epsilon: float, beta: float) -> float:
    """Return an error alpha such that no algorithm is (alpha, beta)-accurate.

    Concerns every algorithm that produces any answer at most e^epsilon times as probably from
    data x as from data x', whose true answers differ by ``spread``. Half the spread if
    beta < `failure_floor`; smaller errors are impossible too, and nothing larger is: the
    constant answer half-way is (alpha, 0)-accurate for every alpha above. From the floor on the
    theorem is silent, and 0 is returned: if only these two answers are possible, every alpha
    above 0 can then be had (see `failure_floor`); if more are, perhaps not.

    Such algorithms are: those with epsilon-free-lunch privacy, with ``spread`` the range of the
    query (Corollary 4.7), and those that leak at most epsilon under the worst law of the records,
    `undertow_papers.definitions.free_lunch_law` of the two data sets (Corollary 4.8). Theorem 4.6
    of [lange2024].

    Differs from the paper: the text after Corollary 4.7 speaks of an error *greater* than half
    the spread; what is proved, and true, is *half the spread or more*. The range must be attained
    by two data sets, as it is where they are finitely many.

    >>> impossible_alpha(spread=100, epsilon=1.0, beta=.05)
    50.0
    >>> impossible_alpha(spread=100, epsilon=1.0, beta=.3)
    0.0
    """
    spread, floor = check_positive(spread, "spread"), failure_floor(epsilon)
    if not 0 <= beta <= 1:
        raise InvalidInput(f"beta must lie between 0 and 1, found {beta}")
    return spread / 2 if beta < floor else 0.0
