"""Intervals of floats, rounded outwards after every operation: what a check computes with.

One IEEE operation errs by at most half a unit in the last place, so the next float beyond its
result bounds the truth. Nothing else is trusted: the exponential is summed here.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from undertow.numerics import Array

__all__ = [
    "Bools",
    "Interval",
    "Ints",
    "exp_lower",
    "exp_upper",
    "normalised",
    "powers",
    "product",
    "quotient",
    "stationary",
]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_TERMS = 20
"""Terms of the exponential series at 1/2 and below: the rest is under 2^-20 / 20! < 1e-24."""


class Interval(NamedTuple):
    """Arrays of lower and upper ends of numbers that are not negative."""

    low: Array
    high: Array

    def row(self, index: int) -> "Interval":
        """Return one row."""
        return Interval(self.low[index], self.high[index])


def _up(values: Array) -> Array:
    """Return the next floats above, zeros where exact: a product with 0 is 0."""
    return np.where(values == 0, 0.0, np.nextafter(values, np.inf))


def _down(values: Array) -> Array:
    return np.where(values <= 0, 0.0, np.nextafter(values, -np.inf))


def _times(one: Interval, two: Interval) -> Interval:
    """Return the products; one that is too small for a float is at most the least float."""
    low, high = one.low * two.low, one.high * two.high
    lost = (high == 0) & (one.high > 0) & (two.high > 0)
    return Interval(_down(low), np.where(lost, np.nextafter(0.0, 1.0), _up(high)))


def _plus(one: Interval, two: Interval) -> Interval:
    return Interval(_down(one.low + two.low), _up(one.high + two.high))


def quotient(one: Interval, two: Interval) -> Interval:
    """Return the quotients; one that is too small for a float is at most the least float.

    Where a divisor may be 0 nothing is known from above, not even of 0 / 0.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        low, high = one.low / two.high, one.high / two.low
    high = np.where(one.high == 0, 0.0, np.where(high == 0, np.nextafter(0.0, 1.0), _up(high)))
    return Interval(_down(low), np.where(two.low > 0, high, np.inf))


def product(one: Interval, two: Interval) -> Interval:
    """Return the matrix product of intervals, (..., m) @ (m, k).

    >>> from fractions import Fraction
    >>> half = Interval(np.full((1, 1), .5), np.full((1, 1), .5))
    >>> square = product(half, half)
    >>> bool(square.low[0, 0] < .25 < square.high[0, 0])
    True
    """
    shape = (*one.low.shape[:-1], two.low.shape[1])
    total = Interval(np.zeros(shape), np.zeros(shape))
    for middle in range(two.low.shape[0]):
        left = Interval(one.low[..., middle, None], one.high[..., middle, None])
        total = _plus(total, _times(left, two.row(middle)))
    return total


def normalised(rows: Array) -> Interval:
    """Return rows divided by their sums, as intervals.

    >>> bool((normalised(np.array([[.5, .5]])).high >= .5).all())
    True
    """
    point = Interval(rows, rows)
    total = Interval(np.zeros(len(rows)), np.zeros(len(rows)))
    for column in range(rows.shape[1]):
        total = _plus(total, Interval(rows[:, column], rows[:, column]))
    return quotient(point, Interval(total.low[:, None], total.high[:, None]))


def powers(matrix: Interval, steps: int) -> Interval:
    """Return the powers 1 .. ``steps`` of a matrix, (steps, k, k). Cost O(steps k^3)."""
    products = [matrix]
    for _ in range(steps - 1):
        products.append(product(products[-1], matrix))
    return Interval(
        np.stack([one.low for one in products]), np.stack([one.high for one in products])
    )


def stationary(matrix: Interval) -> Interval | None:
    """Return the stationary law of an irreducible chain, None where elimination meets no exit.

    Elimination without a subtraction [grassmann1985]: relative errors stay small.

    >>> law = stationary(normalised(np.array([[.9, .1], [.3, .7]])))
    >>> bool(law.low[0] < .75 < law.high[0])
    True
    """
    low, high = matrix.low.copy(), matrix.high.copy()
    size = len(low)
    for last in range(size - 1, 0, -1):
        leaving = Interval(np.zeros(()), np.zeros(()))
        for column in range(last):
            leaving = _plus(leaving, Interval(low[last, column], high[last, column]))
        if not leaving.low > 0:
            return None
        share = quotient(Interval(low[:last, last], high[:last, last]), leaving)
        through = _times(
            Interval(share.low[:, None], share.high[:, None]),
            Interval(low[last, :last], high[last, :last]),
        )
        inner = _plus(Interval(low[:last, :last], high[:last, :last]), through)
        low[:last, :last], high[:last, :last] = inner
        low[:last, last], high[:last, last] = share
    law = Interval(np.ones(size), np.ones(size))
    for state in range(1, size):
        shares = Interval(low[:state, state, None], high[:state, state, None])
        part = product(Interval(law.low[None, :state], law.high[None, :state]), shares)
        law.low[state], law.high[state] = part.low[0, 0], part.high[0, 0]
    total = Interval(np.zeros(()), np.zeros(()))
    for state in range(size):
        total = _plus(total, Interval(law.low[state], law.high[state]))
    return quotient(law, total)


def exp_lower(exponent: float) -> float:
    """Return a float that is at most e^exponent, by less than a part in 10^12 up to 600.

    >>> 0 < math.e - exp_lower(1.0) < 1e-14
    True
    """
    return (
        _exponential(exponent)[0] if exponent >= 0 else math.nextafter(1 / exp_upper(-exponent), 0)
    )


def exp_upper(exponent: float) -> float:
    """Return a float that is at least e^exponent.

    >>> 0 < exp_upper(1.0) - math.e < 1e-14
    True
    """
    if exponent >= 0:
        return _exponential(exponent)[1]
    return math.nextafter(1 / exp_lower(-exponent), math.inf)


def _exponential(exponent: float) -> tuple[float, float]:
    """Sum the series at exponent / 2^m <= 1/2, and square m times."""
    squarings = 0
    while exponent > 0.5:
        exponent, squarings = exponent / 2, squarings + 1  # exact
    low = high = 1.0
    for term in range(_TERMS, 0, -1):  # 1 + t/1 (1 + t/2 (1 + t/3 ...
        # beyond the last term, 1 + t/(m+1) + ... <= 1 + t for t <= 1/2
        high = math.nextafter(high + exponent if term == _TERMS else high, math.inf)
        low = math.nextafter(low * exponent, 0) / term
        low = math.nextafter(1.0 + math.nextafter(low, 0), 0)
        high = math.nextafter(high * exponent, math.inf) / term
        high = math.nextafter(1.0 + math.nextafter(high, math.inf), math.inf)
    for _ in range(squarings):
        low, high = math.nextafter(low * low, 0), math.nextafter(high * high, math.inf)
    return low, high
