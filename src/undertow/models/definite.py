"""Positive definite matrices, with proofs that hold in floating-point arithmetic."""

import math

import numpy as np
import numpy.typing as npt

from undertow.numerics import ROUNDOFF, Array

__all__ = ["blocks", "exponents", "gamma", "least_eigenvalue_lower"]


def gamma(operations: float) -> float:
    """Return the relative error of so many roundings one after the other, an upper bound.

    k u / (1 - k u) with u the unit roundoff; inf where that means nothing any more.

    >>> gamma(10) < 1.2e-15
    True
    """
    share = operations * ROUNDOFF
    return share / (1 - share) * (1 + 4 * ROUNDOFF) if share < 0.5 else math.inf


def least_eigenvalue_lower(matrix: Array) -> float:
    """Return a positive number below all eigenvalues of a symmetric matrix, or 0.

    If Cholesky's algorithm in floating-point arithmetic succeeds on A - s I, then A - s I + E is
    positive semidefinite for some E of norm at most g / (1 - g) times its trace, g = gamma(n + 1),
    hence every eigenvalue of A is at least s less that norm [rump2006]. The shift s is near the
    least eigenvalue that LAPACK finds; 0 means that nothing was proved: the matrix is not positive
    definite, or too close to one that is not. Cost O(n^3). Rounded down.

    >>> 0.49 < least_eigenvalue_lower(np.array([[1.0, 0.5], [0.5, 1.0]])) < 0.5
    True
    >>> least_eigenvalue_lower(np.array([[1.0, 1.0], [1.0, 1.0]]))
    0.0
    """
    size = len(matrix)
    estimate = float(np.linalg.eigvalsh(matrix)[0])
    if not estimate > 0:
        return 0.0
    error = gamma(size + 3)
    for share in (1 - 2.0**-7, 0.9, 0.5):
        shift = share * estimate
        moved = matrix - shift * np.eye(size)  # A - s I
        try:
            np.linalg.cholesky(moved)
        except np.linalg.LinAlgError:
            continue
        trace = float(np.abs(np.diag(matrix)).sum()) * (1 + gamma(size)) + size * shift
        # s less the norm of E [rump2006]
        found = shift - (error / (1 - error) + 4 * ROUNDOFF) * trace
        if found > 0:
            return found * (1 - 8 * ROUNDOFF)
    return 0.0


def exponents(variances: Array) -> npt.NDArray[np.int64]:
    """Return whole numbers k with 1/2 <= variance / 4^k < 2: the exact change of units to 2^k.

    >>> exponents(np.array([1.0, 400.0, 0.1])).tolist()
    [0, 4, -2]
    """
    half = np.frexp(variances)[1] - 1  # variance = m 2^half with 1 <= m < 2
    return np.asarray(np.ceil(half / 2), dtype=np.int64)


def blocks(matrix: Array) -> list[list[int]]:
    """Return the connected components of the records, linked by entries other than 0.

    >>> blocks(np.array([[1.0, 0.0, 0.2], [0.0, 1.0, 0.0], [0.2, 0.0, 1.0]]))
    [[0, 2], [1]]
    """
    linked, left = matrix != 0, np.ones(len(matrix), dtype=bool)
    found: list[list[int]] = []
    for first in range(len(matrix)):
        if not left[first]:
            continue
        inside = np.zeros(len(matrix), dtype=bool)
        inside[first] = True
        fresh = inside
        while fresh.any():
            fresh = linked[fresh].any(axis=0) & ~inside
            inside = inside | fresh
        left &= ~inside
        found.append(np.flatnonzero(inside).tolist())
    return found
