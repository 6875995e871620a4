"""Accuracy of answers: (alpha, beta) bounds on the error.

An answer is (alpha, beta)-accurate if, whatever the records are, it errs by alpha or more with
probability at most beta (Definition 2.5 of [lange2024]).
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from undertow.errors import InvalidInput
from undertow.mechanisms import Noise
from undertow.numerics import (
    Array,
    check_number,
    freeze,
)

__all__ = [
    "accuracy",
    "errors",
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
