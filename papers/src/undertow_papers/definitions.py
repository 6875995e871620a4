"""Definitions of privacy, levels of finite mechanisms, and limits on the accuracy of any.

A mechanism is a table of shape (k,) * n + (outputs,): entry (x_0, ..., x_{n-1}, s) is
Pr[s | x] for n records of k states, up to a factor that may depend on s alone. Since an event is
a union of outputs, the largest ratio of two probabilities is that of a single output, and each
level is a maximum of finitely many log-ratios; x / 0 counts as inf, 0 / 0 not at all. Maxima are
exact, logarithms rounded to nearest.

For every law of the records, with the Bayesian level against every adversary between the others
(`undertow.testing.enumeration.mechanism_leakage`, Definition 2.12 of [lange2024]):

    Bayesian <= free-lunch <= n * DP,    and    DP <= Bayesian if every data set is possible.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import product
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput
from undertow.numerics import Array, check_count, check_epsilon, check_positive, log_ratio

__all__ = [
    "PAIR_LIMIT",
    "dp_level",
    "failure_floor",
    "free_lunch_law",
    "free_lunch_level",
    "group_accuracy",
    "half_range_failure",
    "hamming",
    "impossible_alpha",
    "largest_ratio",
    "metric_level",
]

PAIR_LIMIT = 2**21
"""Pairs of data sets that `metric_level` measures at most (a cost limit: seconds)."""

Value = TypeVar("Value", bound=Hashable)
Distance = Callable[[tuple[int, ...], tuple[int, ...]], float]


def dp_level(table: npt.ArrayLike) -> float:
    """Return the least epsilon for which a mechanism is epsilon-DP, one record being replaced.

    max ln Pr[s | x] / Pr[s | x'] over outputs s and data sets x, x' that differ in one record
    [dwork2006]. Cost O(n * size of the table).

    >>> flips = [[.75, .25], [.25, .75]]
    >>> round(dp_level(flips), 6)
    1.098612
    """
    mechanism = _mechanism(table)
    return max(_widest(mechanism, (record,)) for record in range(mechanism.ndim - 1))


def free_lunch_level(table: npt.ArrayLike) -> float:
    """Return the least epsilon for which a mechanism is epsilon-free-lunch private.

    max ln Pr[s | x] / Pr[s | x'] over outputs s and all data sets x, x', however different.
    No law of the records makes the mechanism leak more than that, and `free_lunch_law` makes it
    leak as much. Cost O(size of the table). Definition 2.10 of [lange2024].

    >>> twice = np.multiply.outer([.75, .25], [.75, .25])[..., None]
    >>> round(free_lunch_level(twice), 6), round(dp_level(twice), 6)
    (2.197225, 1.098612)
    """
    mechanism = _mechanism(table)
    return _widest(mechanism, tuple(range(mechanism.ndim - 1)))


def metric_level(table: npt.ArrayLike, distance: Distance) -> float:
    """Return the least epsilon for which a mechanism is d-private with d = epsilon * distance.

    max ln(Pr[s | x] / Pr[s | x']) / distance(x, x') over outputs s and data sets x != x', two
    tuples of n state numbers 0 .. k - 1. ``distance`` must be a metric; it is called once for
    each unordered pair. `hamming` gives `dp_level`, because any two data sets are joined by
    replacing one record at a time. Cost O(k^(2 n) * outputs), at most `PAIR_LIMIT` pairs.
    Definition 2.6 of [lange2024].

    >>> flips = [[.75, .25], [.25, .75]]
    >>> round(metric_level(flips, lambda x, y: 2 * abs(x[0] - y[0])), 6)
    0.549306
    """
    mechanism = _mechanism(table)
    shape = mechanism.shape[:-1]
    size = math.prod(shape)
    if size * (size - 1) // 2 > PAIR_LIMIT:
        raise InvalidInput(
            f"a metric level compares {shape[0]}^{len(shape)} data sets in pairs; at most "
            f"{PAIR_LIMIT} pairs are measured; take fewer records or states"
        )
    rows = mechanism.reshape(size, -1)  # (data sets, outputs)
    points = list(product(range(shape[0]), repeat=len(shape)))
    worst = 0.0
    for first in range(size - 1):
        # (later data sets,)
        apart = np.array([distance(points[first], point) for point in points[first + 1 :]])
        if not np.all((apart > 0) & np.isfinite(apart)):
            raise InvalidInput(
                "distance must be positive and finite between any two different data sets; pass a "
                "metric, such as hamming"
            )
        widths = np.abs(log_ratio(rows[first + 1 :], rows[first]))  # (later data sets, outputs)
        widths[np.isnan(widths)] = 0.0
        worst = max(worst, float(np.max(widths.max(axis=1) / apart)))
    return worst


def hamming(first: Sequence[object], second: Sequence[object]) -> float:
    """Return the number of records in which two data sets of the same length differ.

    >>> hamming((0, 1, 1), (0, 0, 2))
    2.0
    """
    _same_length(first, second)
    return float(sum(x != y for x, y in zip(first, second, strict=True)))


def free_lunch_law(
    first: Sequence[Value], second: Sequence[Value]
) -> tuple[dict[tuple[Value, ...], float], int | None]:
    """Return the law under which leaking little about a record is hiding which data set it was.

    Each of the two data sets has probability 1/2, everything else 0, so that one record in which
    they differ decides all others. The leakage of a mechanism against an adversary who knows
    nothing and targets that record is then the larger of ln Pr[s | first] / Pr[s | second] and
    its inverse: an algorithm that leaks at most epsilon is epsilon-free-lunch private on these
    two data sets. Returned are the law and the (first) deciding record; if the data sets are the
    same, all probability is on that one, and None decides. Theorem 4.5 of [lange2024], which
    says nothing, as this law does not, about data sets of probability 0.

    >>> free_lunch_law((0, 0, 1), (0, 1, 0))
    ({(0, 0, 1): 0.5, (0, 1, 0): 0.5}, 1)
    """
    one, two = tuple(first), tuple(second)
    _same_length(one, two)
    deciding = next((t for t, (x, y) in enumerate(zip(one, two, strict=True)) if x != y), None)
    if deciding is None:
        return {one: 1.0}, None
    return {one: 0.5, two: 0.5}, deciding


def _widest(mechanism: Array, axes: tuple[int, ...]) -> float:
    """Return the largest log-ratio of two entries that differ only along ``axes``."""
    widths = log_ratio(mechanism.max(axis=axes), mechanism.min(axis=axes))
    return float(np.max(widths, initial=0.0, where=~np.isnan(widths)))


def _same_length(first: Sequence[object], second: Sequence[object]) -> None:
    if len(first) != len(second) or not len(first):
        raise InvalidInput(
            "two data sets of the same number of records, at least 1, are required, found "
            f"{len(first)} and {len(second)} records"
        )


def _mechanism(table: npt.ArrayLike) -> Array:
    mechanism = np.asarray(table, dtype=np.float64)
    if mechanism.ndim < 2 or not mechanism.size or len(set(mechanism.shape[:-1])) != 1:
        raise InvalidInput(
            "a mechanism must have shape (k,) * n + (outputs,) with n, k, outputs >= 1, found "
            f"{mechanism.shape}"
        )
    if not np.all((mechanism >= 0) & np.isfinite(mechanism)):
        raise InvalidInput("the probabilities of a mechanism must be finite and non-negative")
    return mechanism


# --- accuracy of any algorithm ----------------------------------------------------------------


def group_accuracy(alpha: float, records: int) -> float:
    """Return the error records * alpha that protection by groups turns alpha into.

    If Laplace noise at DP level epsilon is (alpha, beta)-accurate and at most ``records`` records
    depend on each other, then Laplace noise at level epsilon / records leaks at most epsilon
    against every adversary and is (records * alpha, beta)-accurate, at the same beta. Assumes
    Laplace noise; the quantiles of discrete noise are whole numbers and scale only nearly so.
    Corollary 4.4 of [lange2024].

    >>> from undertow import Count, Laplace
    >>> from undertow.accuracy import accuracy
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
    `free_lunch_law` of the two data sets (Corollary 4.8). Theorem 4.6
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
