"""Bounds for Gaussian records as printed in the literature: published, not certified.

They stand here to be compared with, rounded to nearest. No guarantee of this package rests on them.
"""

from undertow.errors import InvalidInput, MethodRefused
from undertow.numerics import check_count, check_positive

__all__ = ["largest_correlation", "published_gaussian_factor"]


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
