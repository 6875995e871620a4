"""How far an answer lies from the truth: expected error, variance, (alpha, beta) accuracy."""

import math

from undertow.errors import InvalidInput
from undertow.mechanisms import DiscreteLaplace, Laplace

__all__ = ["accuracy", "expected_error", "variance"]


def expected_error(mechanism: Laplace | DiscreteLaplace) -> float:
    """Return E|Z| of the noise on one number.

    scale for Laplace noise, 1 / sinh(1 / scale) for discrete Laplace noise.

    >>> from undertow.queries import Count
    >>> round(expected_error(DiscreteLaplace(Count("active"), scale=4.0)), 4)
    3.9586
    """
    if isinstance(mechanism, DiscreteLaplace):
        rate = 1 / mechanism.scale
        return 2 * math.exp(-rate) / -math.expm1(-2 * rate)
    return mechanism.scale


def variance(mechanism: Laplace | DiscreteLaplace) -> float:
    """Return the variance of the noise on one number.

    2 scale^2 for Laplace noise; 2 r / (1 - r)^2 with r = exp(-1 / scale) for discrete noise.

    >>> from undertow.queries import Count
    >>> variance(Laplace(Count("active"), scale=4.0))
    32.0
    """
    if isinstance(mechanism, DiscreteLaplace):
        rate = 1 / mechanism.scale
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2
    return 2 * mechanism.scale**2


def accuracy(mechanism: Laplace | DiscreteLaplace, beta: float, numbers: int = 1) -> float:
    """Return the smallest alpha with Pr[some of ``numbers`` errors exceeds alpha] <= beta.

    The errors are independent, so each may fail with probability 1 - (1 - beta)^(1 / numbers).
    Laplace: scale ln(1 / beta). Discrete Laplace: the exact quantile, a whole number.

    >>> from undertow.queries import Count
    >>> accuracy(DiscreteLaplace(Count("active"), scale=4.0), beta=.05)
    12.0
    """
    if not 0 < beta < 1:
        raise InvalidInput(f"beta must lie strictly between 0 and 1, found {beta}")
    each = -math.expm1(math.log1p(-beta) / numbers)
    if isinstance(mechanism, Laplace):
        return mechanism.scale * math.log(1 / each)
    rate = 1 / mechanism.scale

    def exceeds(alpha: int) -> float:
        return 2 * math.exp(-rate * (alpha + 1)) / (1 + math.exp(-rate))

    guess = math.log(2 / ((1 + math.exp(-rate)) * each)) / rate - 1
    alpha = max(0, math.floor(guess) - 1)
    while exceeds(alpha) > each:
        alpha += 1
    return float(alpha)
