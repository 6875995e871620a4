"""Non-negative numbers whose error travels with them: values, powers of two, one relative error.

A sum of products of non-negative numbers loses a few relative roundings and never cancels, so one
number bounds the error of a whole array. Every message, kernel and likelihood of the engine is a
`PositiveArray`; what leaves it is rounded by `upper`, `lower`, `log_upper` or `log_lower`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import NotSupported
from undertow.numerics import ROUNDOFF, Array

__all__ = [
    "FAINT",
    "LIBM",
    "STEP",
    "PositiveArray",
    "add_upper",
    "exp_upper",
    "log_upper_of",
    "rescale",
]

STEP = ROUNDOFF * (1 + 2.0**-10)
"""-ln(1 - u), and room for the additions that count the errors themselves (upper side)."""

LIBM = 4 * ROUNDOFF
"""Relative error of exp and of log (away from 1) in the C and NumPy libraries: 2 ulp (upper
side)."""

FAINT = 2.0**-250
"""Least positive entry beside a largest one near 1 (either side): no product of four underflows."""

_LN2 = math.log(2.0)


@dataclass(frozen=True, slots=True, eq=False)
class PositiveArray:
    """Numbers values * 2^exponent, each within a factor e^(+-error) of the true one.

    ``exponent`` broadcasts against ``values``, with size 1 along every axis that is summed. A zero
    is a true zero: an entry below 2^-250 of the largest of its scale is refused by `scaled`.

    >>> half = PositiveArray.of([[.5, .5], [.25, .75]])
    >>> square = half @ half
    >>> square.values.tolist(), 0 < square.error < 1e-15
    ([[0.375, 0.625], [0.3125, 0.6875]], True)
    """

    values: Array
    exponent: npt.NDArray[np.int64]
    error: float

    @classmethod
    def of(cls, values: Any, error: float = 0.0) -> "PositiveArray":
        """Return an array of floats, each within a factor e^(+-error) of the number it is for."""
        table = np.asarray(values, dtype=np.float64)
        return cls(table, np.zeros((1,) * table.ndim, dtype=np.int64), error)

    @classmethod
    def exp(cls, logs: Any, error: float = 0.0) -> "PositiveArray":
        """Return e^logs of logarithms with an absolute error, one power of two for each row.

        >>> float(PositiveArray.exp([1000.0, 999.0]).log_upper()[0]) >= 1000.0
        True
        """
        table = np.asarray(logs, dtype=np.float64)
        peak = table.max(axis=-1, keepdims=True) if table.ndim else table
        power = np.where(np.isfinite(peak), np.round(peak / _LN2), 0.0)
        # ln 2 is rounded, and so is its multiple and the difference: all relative to |logs|
        spread = float(np.abs(table[np.isfinite(table)]).max(initial=0.0))
        slack = error + 4 * STEP * (1 + spread) + LIBM
        return cls(np.exp(table - power * _LN2), power.astype(np.int64), slack)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return self.values.shape

    def scaled(self, *axes: int, faint: float = FAINT) -> "PositiveArray":
        """Return the same numbers with the largest along some axes between a half and one.

        See `rescale`: powers of two are exact, and an entry below ``faint`` is refused.
        """
        values, power = rescale(self.values, *axes, faint=faint)
        return PositiveArray(values, self.exponent + power, self.error)

    def power(self, exponent: int, faint: float = FAINT) -> "PositiveArray":
        """Return a power of each matrix by repeated squaring; ``exponent`` is at least 1.

        >>> PositiveArray.of([[.5, .5], [.25, .75]]).power(2).log_upper().round(3)[0]
        array([-0.981, -0.47 ])
        """
        power: PositiveArray | None = None
        square = self
        while True:
            if exponent % 2:
                power = square if power is None else (power @ square).scaled(-2, -1, faint=faint)
            exponent //= 2
            if not exponent:
                break
            square = (square @ square).scaled(-2, -1, faint=faint)
        return self if power is None else power

    def __getitem__(self, key: Any) -> "PositiveArray":
        """Return some of the numbers; keys keep all axes (slices and arrays of places)."""
        exponent = np.broadcast_to(self.exponent, self.values.shape)[key]
        return PositiveArray(self.values[key], exponent, self.error)

    def __mul__(self, other: "PositiveArray") -> "PositiveArray":
        """Return the products, number by number."""
        return PositiveArray(
            self.values * other.values, self.exponent + other.exponent,
            self.error + other.error + STEP,
        )  # fmt: skip

    def __truediv__(self, other: "PositiveArray") -> "PositiveArray":
        """Return the quotients, number by number; 0 / 0 is 0."""
        safe = np.where((self.values == 0) & (other.values == 0), 1.0, other.values)
        with np.errstate(divide="ignore"):
            quotients = self.values / safe
        return PositiveArray(
            quotients, self.exponent - other.exponent, self.error + other.error + STEP
        )

    def __matmul__(self, other: "PositiveArray") -> "PositiveArray":
        """Return the matrix product; each matrix or message has one power of two for all sums."""
        terms = self.values.shape[-1]
        return PositiveArray(
            self.values @ other.values, _outer(self.exponent, other.exponent),
            self.error + other.error + terms * STEP,
        )  # fmt: skip

    def __add__(self, other: "PositiveArray") -> "PositiveArray":
        """Return the sums, number by number, on the larger of both powers of two."""
        power = np.maximum(self.exponent, other.exponent)
        values = _shift(self.values, self.exponent - power)
        values = values + _shift(other.values, other.exponent - power)
        return PositiveArray(values, power, max(self.error, other.error) + STEP)

    def sum(self, axis: int) -> "PositiveArray":
        """Return the sums along an axis of one power of two; the axis is kept."""
        if self.exponent.shape[axis] > 1 and (np.diff(self.exponent, axis=axis) != 0).any():
            power = self.exponent.max(axis=axis, keepdims=True)
            values = _shift(self.values, self.exponent - power)
        else:
            power, values = self.exponent.take([0], axis=axis), self.values
        error = self.error + max(self.values.shape[axis] - 1, 0) * STEP
        return PositiveArray(values.sum(axis=axis, keepdims=True), power, error)

    def upper(self) -> Array:
        """Return floats not below the numbers; inf where they are no floats."""
        with np.errstate(over="ignore"):
            values = np.ldexp(self.values * (1 + 2 * (self.error + 2 * STEP)), self.exponent)
        return np.asarray(np.where(values > 0, np.nextafter(values, np.inf), values))

    def lower(self) -> Array:
        """Return floats not above the numbers, at least 0."""
        shrink = max(1 - 2 * (self.error + 2 * STEP), 0.0)
        return np.asarray(np.nextafter(np.ldexp(self.values * shrink, self.exponent), 0.0))

    def log(self) -> tuple[Array, Array]:
        """Return the logarithms, -inf of 0, and bounds of their absolute errors."""
        with np.errstate(divide="ignore"):
            parts, scale = np.log(self.values), self.exponent * _LN2
        # the log, ln 2, its multiple and their sum each lose a rounding or two of their size
        size = np.where(np.isfinite(parts), np.abs(parts), 0.0) + np.abs(scale)
        return np.asarray(parts + scale), np.asarray(self.error + (1 + size) * 2 * LIBM)

    def log_upper(self) -> Array:
        """Return the logarithms, rounded up."""
        logs, errors = self.log()
        return np.asarray(logs + errors)

    def log_lower(self) -> Array:
        """Return the logarithms, rounded down."""
        logs, errors = self.log()
        return np.asarray(logs - errors)


def rescale(values: Array, *axes: int, faint: float = FAINT) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return numbers divided by powers of two, the largest in [1/2, 1), and these powers.

    One power for all numbers along ``axes`` (by default all of them), which are kept with size 1.
    Division by a power of two is exact; a positive entry below ``faint`` is refused, so that no
    later product underflows.

    >>> rescale(np.array([[6.0, 1.5], [.25, 0.0]]), 1)
    (array([[0.75  , 0.1875],
           [0.5   , 0.    ]]), array([[ 3],
           [-1]]))
    """
    along = axes or tuple(range(values.ndim))
    power = np.frexp(values.max(axis=along, keepdims=True))[1].astype(np.int64)
    scaled = np.ldexp(values, -power)
    if faint and ((scaled > 0) & (scaled < faint)).any():
        raise NotSupported("likelihoods of the values of some records lie too far apart")
    return np.asarray(scaled), power


def _shift(values: Array, power: npt.NDArray[np.int64]) -> Array:
    """Return numbers times powers of two up to 1; refuse what would vanish."""
    shifted = np.ldexp(values, power)
    if ((values > 0) & (shifted < FAINT**3)).any():
        raise NotSupported("likelihoods of the values of some records lie too far apart")
    return np.asarray(shifted)


def _outer(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the powers of two of a matrix product: that of the row plus that of the column."""
    if right.ndim == 1:
        return np.asarray(left[..., 0] + right[0])
    if left.ndim == 1:
        return np.asarray(left[0] + right[..., 0, :])
    return np.asarray(left[..., :, :1] + right[..., :1, :])


def exp_upper(logs: Array) -> Array:
    """Return e^logs of floats that count as exact, rounded up; inf of inf.

    >>> bool(exp_upper(np.array(1.0)) > np.exp(1.0))
    True
    """
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(logs) * (1 + 2 * LIBM))


def log_upper_of(quotients: Array) -> Array:
    """Return the logarithms of upper ends, rounded up; -inf of 0."""
    with np.errstate(divide="ignore"):
        logs = np.log(quotients)
    size = np.where(np.isfinite(logs), np.abs(logs), 0.0)
    return np.asarray(logs + (1 + size) * LIBM)


def add_upper(*terms: Array | float) -> Array:
    """Return a sum of non-negative floats, rounded up.

    >>> bool(add_upper(.1, .2) >= .3)
    True
    """
    total: Array = np.asarray(0.0)
    for term in terms:
        total = total + np.asarray(term)
    return np.asarray(total * (1 + len(terms) * STEP))
