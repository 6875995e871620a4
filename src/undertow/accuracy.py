"""How far an answer lies from the truth: (alpha, beta) accuracy.

An answer is (alpha, beta)-accurate if, whatever the records are, it errs by alpha or more with
probability at most beta (Definition 2.5 of [lange2024]). Besides the errors of our noise, the
module holds what that thesis proves about the errors of anybody's: how accuracy suffers when
records depend on each other, and what no algorithm can do. Those functions are rounded to
nearest; no guarantee rests on them.
"""

import math

from undertow.errors import InvalidInput
from undertow.mechanisms import Noise
from undertow.numerics import check_count, check_epsilon, check_positive

__all__ = [
    "accuracy",
    "failure_floor",
    "group_accuracy",
    "half_range_failure",
    "impossible_alpha",
    "largest_ratio",
]


def accuracy(mechanism: Noise, beta: float, numbers: int = 1) -> float:
    """Return the smallest alpha with Pr[some of ``numbers`` errors exceeds alpha] <= beta.

    The errors are independent, so each may fail with probability 1 - (1 - beta)^(1 / numbers).
    Laplace: scale ln(1 / beta). Discrete Laplace: the exact quantile, a whole number.

    >>> from undertow import Count, DiscreteLaplace
    >>> accuracy(DiscreteLaplace(Count("active"), scale=4.0), beta=.05)
    12.0
    """
    if not 0 < beta < 1:
        raise InvalidInput(f"beta must lie strictly between 0 and 1, found {beta}")
    each = -math.expm1(math.log1p(-beta) / numbers)
    return mechanism.quantile(each)


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
    `undertow.bounds.published.chains.lange_constant` leaves a DP level of at least epsilon / h, so
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
    `undertow.bounds.definitions.free_lunch_law` of the two data sets (Corollary 4.8). Theorem 4.6
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
