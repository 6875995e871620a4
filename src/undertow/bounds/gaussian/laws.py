"""Blocks of dependent Gaussian records in convenient units, and their inverse covariances.

Units are exact powers of two that make all variances lie between 1/2 and 2, so that nothing is
rounded by the change, and errors can be counted in standard deviations.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.models.definite import exponents, gamma, least_eigenvalue_lower
from undertow.numerics import ROUNDOFF, Array

__all__ = ["Law", "Precision", "integers", "to_float"]


@dataclass(frozen=True, slots=True, eq=False)
class Precision:
    """The inverse covariance, with |error of entry (j, k)| <= error sqrt(Q_jj Q_kk).

    ``least`` lies below all eigenvalues of the inverse scaled to a diagonal of 1.
    """

    matrix: Array
    error: float
    least: float


@dataclass(frozen=True, eq=False)
class Law:
    """The covariance of a block of records, record j measured in units of 2^halves[j]."""

    covariance: Array
    halves: npt.NDArray[np.int64]

    @classmethod
    def of(cls, covariance: Array, records: Sequence[int]) -> "Law":
        """Return the law of some of the records.

        >>> Law.of(np.array([[400.0, 0.0], [0.0, 1.0]]), [0]).covariance
        array([[1.5625]])
        """
        part = covariance[np.ix_(records, records)]  # (n, n) of the block
        halves = exponents(np.diag(part))
        return cls(np.ldexp(part, -(halves[:, None] + halves)), halves)

    @property
    def size(self) -> int:
        """The number of records."""
        return len(self.covariance)

    @cached_property
    def least(self) -> float:
        """A positive number below all eigenvalues of the covariance.

        Models are proved positive definite when they are made, by far more than 1e-300; so are
        their blocks, whose eigenvalues are no smaller.
        """
        return max(least_eigenvalue_lower(self.covariance), 1e-300)

    @cached_property
    def whole(self) -> tuple[npt.NDArray[Any], int]:
        """The covariance as whole numbers over a power of two."""
        return integers(self.covariance)

    @cached_property
    def precision(self) -> Precision:
        """The inverse of the covariance, corrected once, and how good it is.

        For an approximate inverse P with residual R = I - Sigma P the inverse is P + Q R, and
        |Q e_j| <= sqrt(Q_jj / least eigenvalue) bounds each entry of Q R. Cost O(n^3).
        """
        matrix, size = self.covariance, self.size
        inverse: Array = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        inverse = inverse + inverse @ _residual(matrix, inverse)[0]  # one step of Newton: P + P R
        inverse = (inverse + inverse.T) / 2
        residual, rounding = _residual(matrix, inverse)
        far = np.abs(residual) * (1 + 1e-12) + rounding  # (n, n): |R| at most
        units = np.sqrt(np.maximum(np.diag(inverse), 1e-300))  # (n,): sqrt(P_jj)
        # (n,): |Q e_j| |R e_k| / sqrt(Q_jj)
        moved = np.sqrt((far**2).sum(axis=0) / self.least) * (1 + 1e-9)
        error = float((2 * moved / units).max()) * (1 + 1e-12)
        if not error < 0.25 or np.diag(inverse).min() <= 0:
            return Precision(np.asarray(inverse), math.inf, 0.0)
        scaled = inverse / units[:, None] / units  # (n, n), diagonal 1
        least = least_eigenvalue_lower((scaled + scaled.T) / 2) - size * (error + 8 * ROUNDOFF)
        return Precision(np.asarray(inverse), error, max(least, 0.0))


def _residual(matrix: Array, inverse: Array) -> tuple[Array, Array]:
    """Return I - matrix @ inverse, and a bound on its rounding errors, entry by entry.

    The leading bits of both factors, as few as make all sums of products exact, are multiplied
    apart from the rest, whose products are so much smaller that their rounding hardly matters.
    """
    size = len(matrix)
    bits = (52 - math.ceil(math.log2(size + 1))) // 2
    first, second = _leading(matrix, bits, axis=1), _leading(inverse, bits, axis=0)
    rest, more = matrix - first, inverse - second
    small = first @ more + rest @ inverse  # first @ second below is exact: so few bits
    found = (np.eye(size) - first @ second) - small
    sizes = np.abs(first) @ np.abs(more) + np.abs(rest) @ np.abs(inverse)
    return found, gamma(2 * size + 8) * sizes + 2 * ROUNDOFF * np.abs(found)


def _leading(values: Array, bits: int, axis: int) -> Array:
    """Return the values rounded to so many bits below the largest of their row or column."""
    top = np.frexp(np.abs(values).max(axis=axis, keepdims=True))[1]
    anchor = np.ldexp(0.75, top.astype(np.int64) + 53 - bits)
    return np.asarray((values + anchor) - anchor)


def integers(values: Array) -> tuple[npt.NDArray[Any], int]:
    """Return whole numbers N and p with values = N / 2^p, exactly.

    >>> integers(np.array([0.5, -3.0]))
    (array([4503599627370496, -27021597764222976], dtype=object), 53)
    """
    mantissas, powers = np.frexp(values)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    powers = powers.astype(np.int64) - 53
    used = powers[whole != 0]
    least = min(int(used.min()), 0) if used.size else 0
    pairs = zip(whole.ravel().tolist(), powers.ravel().tolist(), strict=True)
    flat = np.empty(values.size, dtype=object)
    flat[:] = [number << (power - least) if number else 0 for number, power in pairs]
    return flat.reshape(values.shape), -least


def to_float(number: int, power: int) -> float:
    """Return number 2^power to within one rounding.

    >>> to_float(3, -1)
    1.5
    """
    excess = max(0, abs(number).bit_length() - 64)
    return math.ldexp(float(number >> excess), power + excess)
