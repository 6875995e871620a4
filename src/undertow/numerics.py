"""Outward-rounded arithmetic and every tolerance of the project, named, with its side.

A privacy guarantee rests on ``upper`` ends, so floating-point error may only ever push them
up. Two facts carry the whole package: a sum of products of non-negative numbers has a small
*relative* error, and a monotone map applied to an over-estimate gives an over-estimate.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput
from undertow.labels import refuse_labels, values_of

__all__ = [
    "GAP",
    "GRAIN",
    "LARGEST_AMOUNT",
    "LARGEST_LEVEL",
    "LEAST_AMOUNT",
    "LEAST_DELTA",
    "LEAST_LEVEL",
    "LIBM",
    "LOG_NDTR",
    "MAX_STEPS",
    "NDTR",
    "RAREST",
    "ROUNDOFF",
    "ROW_SUM",
    "SYMMETRY",
    "Array",
    "Keyed",
    "Seed",
    "check_amount",
    "check_choice",
    "check_count",
    "check_epsilon",
    "check_flag",
    "check_listed",
    "check_number",
    "check_positive",
    "divide_up",
    "down",
    "exp",
    "freeze",
    "log_error",
    "log_ratio",
    "log_sum",
    "ndtr_error",
    "pad_log",
    "random_generator",
    "shown",
    "up",
]

Array = npt.NDArray[np.float64]

Seed = int | np.random.Generator | None
"""The randomness of a simulation: a seed, a generator of NumPy, or None for the system's bits."""

ROUNDOFF = 2.0**-53
"""Relative error of one IEEE double operation rounded to nearest."""

LIBM = 4.0
"""Roundings (halves of a unit in the last place) by which a value of exp, log, log1p, expm1, log2,
tanh or sinh may be off, from Python's math module (the C library) or from NumPy (loops of its own).
The gate measures them against 200 bits; the largest seen is 2.5, of tanh."""

NDTR = 16.0
"""Roundings by which ``scipy.special.ndtr(x)`` may be off, beside the 2 x^2 of `ndtr_error` that
are due to rounding x^2 / 2 in an exponent."""

LOG_NDTR = 16.0
"""Roundings, of max(1, |value|), by which ``scipy.special.log_ndtr(x)`` may be off."""

ROW_SUM = 1e-12
"""Absolute slack allowed in the sum of a probability row (either side); rows are then rescaled."""

SYMMETRY = 1e-12
"""Difference of two mirrored covariances, in units of the two standard deviations, that counts as
rounding (either side); their mean is then used."""

LEAST_LEVEL = 1e-300
"""Least privacy level: noise for less would have an infinite scale (either side)."""

LARGEST_LEVEL = 1e100
"""Largest privacy level or limit (either side): it protects nothing, and its sums are floats."""

LEAST_DELTA = 1e-200
"""Least delta other than 0 (either side): below, its products with small shares are no floats."""

LEAST_AMOUNT = 1e-100
"""Least scale or standard deviation of noise, and least mu, rho or rate of a guarantee (either
side): their inverses and squares are ordinary floats."""

LARGEST_AMOUNT = 1e300
"""Largest scale or standard deviation of noise (either side)."""

RAREST = 1e-100
"""Least positive probability that a model may hold (either side): an entry of a table, and the
joint probability of two neighbours that can occur. What is possible is decided on the support, by
reachability; every probability of something possible must then be an ordinary float, so that no
quotient of two of them is lost. The least one is 2.2e-308. A joint probability of two neighbours
bounds the transition and both laws from below, it is the same for the chain read backwards, and a
product of three of them is still an ordinary float: sweeps stop at products below 1e-200 (or
rescale), so that one more step stays above 1e-300."""

GAP = 1e-10
"""Width, relative to max(1, value), at which a certified interval counts as closed (upper side)."""

GRAIN = 2.0**-53
"""Planned probabilities of flips and erasures are whole multiples of this, so that random bits hit
them exactly; they are rounded towards privacy."""

MAX_STEPS = 4096
"""Records swept on one side of a target before the tail bound must take over (a cost limit:
past it the interval stays certified and merely wider)."""


class Keyed:
    """Equality and hashing of frozen descriptions that hold arrays: by kind and key."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its name in files."""

    def _key(self) -> tuple[object, ...]:
        """Return the values by which two descriptions of a kind are compared."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Return whether kind and key agree."""
        return isinstance(other, Keyed) and self.kind == other.kind and self._key() == other._key()

    def __hash__(self) -> int:
        """Return a hash that agrees with equality."""
        return hash(self._key())


def up(value: float, operations: float = 4) -> float:
    """Return a number not below ``value`` after ``operations`` roundings.

    >>> up(1.0) > 1.0
    True
    """
    if math.isinf(value):
        return value
    return math.nextafter(value + operations * ROUNDOFF * abs(value), math.inf)


def down(value: float, operations: float = 4) -> float:
    """Return a number not above ``value`` after ``operations`` roundings.

    >>> down(1.0) < 1.0
    True
    """
    return -up(-value, operations)


def divide_up(value: float | Fraction, by: float) -> float:
    """Return the quotient of two positive numbers, rounded up only if it is not exact.

    >>> divide_up(5.0, 1.0), divide_up(1.0, 3.0) * 3 >= 1
    (5.0, True)
    """
    quotient = float(Fraction(value) / Fraction(by))
    if Fraction(quotient) * Fraction(by) < value:
        quotient = math.nextafter(quotient, math.inf)
    return quotient


def ndtr_error(x: Array | float) -> Array:
    """Return the relative error of ``scipy.special.ndtr(x)`` for -37.5 <= x (see arithmetic.md).

    The normal distribution function is computed as an exponential of -x^2 / 2, and a relative error
    of the exponent is an absolute one, of that size, of the logarithm of the result.

    >>> float(ndtr_error(-10.0)) < 3e-14
    True
    """
    return np.asarray((NDTR + 2.0 * np.square(x)) * ROUNDOFF)


def exp(exponent: float) -> float:
    """Return e^exponent, inf if it overflows.

    >>> exp(0.0), exp(1e6)
    (1.0, inf)
    """
    try:
        return math.exp(exponent)
    except OverflowError:
        return math.inf


def pad_log(products: float, states: int) -> float:
    """Return the error of the log of a ratio of two entries of a product of matrices.

    Each of the two entries is a sum of non-negative terms and loses at most (states + 1)
    roundings per product; the model's own entries count as exact up to one rounding each.

    >>> pad_log(10, 2) < 1e-13
    True
    """
    return 2.0 * (products + 2.0) * (states + 4.0) * ROUNDOFF


def log_error(operations: float, largest: float = 1.0) -> float:
    """Return the absolute error of a logarithm after roundings of numbers of at most that size.

    Rounding the result by a relative amount does not cover it: the log of a ratio near 1 is tiny,
    its error is not.

    >>> log_error(8) > abs(math.log(1 + 1e-12) - 1e-12)
    True
    """
    return operations * max(largest, 1.0) * ROUNDOFF


def log_ratio(numerator: Array, denominator: Array) -> Array:
    """Return ln(numerator / denominator) elementwise, with 0/0 as NaN, x/0 as inf, 0/x as -inf.

    >>> log_ratio(np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    array([ inf, -inf])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(numerator) - np.log(denominator))


def log_sum(terms: Array, axis: int) -> Array:
    """Return ln sum exp(terms) along an axis; -inf stands for nothing.

    >>> log_sum(np.log([[1.0, 3.0], [0.5, 0.5]]), axis=1).round(6)
    array([1.386294, 0.      ])
    """
    peak = terms.max(axis=axis, keepdims=True)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.squeeze(safe, axis=axis) + np.log(np.exp(terms - safe).sum(axis=axis)))


def freeze(values: Any) -> Array:
    """Return a read-only float copy of ``values``; labels must have been read before.

    >>> freeze([1, 2]).flags.writeable
    False
    """
    refuse_labels(values)
    try:
        array = np.array(values_of(values), dtype=np.float64, order="C")  # sums alike, however held
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            "numbers are required here, found something else, or a number beyond all floats; pass "
            "a rectangular nested list or array of real numbers"
        ) from error
    array.setflags(write=False)
    return array


def check_number(value: float, name: str) -> float:
    """Return ``value`` as a float, or raise `InvalidInput`.

    >>> check_number(0, "prior")
    0.0
    """
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be a number, found {type(value).__name__}") from error
    except OverflowError as error:
        raise InvalidInput(f"{name} must be finite, found a number beyond all floats") from error


def check_positive(value: float, name: str) -> float:
    """Return ``value`` as a float if it is positive and finite, or raise `InvalidInput`.

    >>> check_positive(2, "scale")
    2.0
    """
    number = check_number(value, name)
    if not math.isfinite(number) or number <= 0:
        raise InvalidInput(f"{name} must be positive and finite, found {number}")
    return number


def check_epsilon(value: float, name: str = "epsilon") -> float:
    """Return ``value`` if it is a usable privacy level.

    >>> check_epsilon(1)
    1.0
    """
    level = check_positive(value, name)
    if level < LEAST_LEVEL:
        raise InvalidInput(f"{name} must be at least {LEAST_LEVEL:g}, found {level:g}")
    if level > LARGEST_LEVEL:
        raise InvalidInput(f"{name} must be at most {LARGEST_LEVEL:g}, found {level:g}")
    return level


def check_amount(value: float, name: str, most: float = LARGEST_AMOUNT) -> float:
    """Return ``value`` if it is a usable amount of noise, or parameter of a guarantee.

    >>> check_amount(4, "noise scale")
    4.0
    """
    amount = check_positive(value, name)
    if not LEAST_AMOUNT <= amount <= most:
        raise InvalidInput(
            f"{name} must lie between {LEAST_AMOUNT:g} and {most:g}, found {amount:g}"
        )
    return amount


def check_count(value: int, name: str, least: int, most: int | None = None) -> int:
    """Return ``value`` if it is a whole number of at least ``least``, and at most ``most``.

    >>> check_count(3, "length", 2)
    3
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidInput(f"{name} must be a whole number, found {shown(value)}")
    if value < least:
        raise InvalidInput(f"{name} must be at least {least}, found {shown(value)}")
    if most is not None and value > most:
        raise InvalidInput(f"{name} must be at most {most}, found {shown(value)}")
    return int(value)


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of the given words.

    >>> check_choice("record", "unit", ("record", "person"))
    'record'
    """
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        listed = " or ".join(map(repr, words)) if len(words) < 3 else ", ".join(map(repr, words))
        raise InvalidInput(f"{name} must be {listed}, found {shown(value)}")
    return value


def check_flag(value: Any, name: str) -> bool:
    """Return ``value`` if it is True or False.

    >>> check_flag(True, "public")
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False, found {shown(value)}")
    return bool(value)


def check_listed(values: Any, name: str) -> list[Any]:
    """Return the entries of a list, an array or another collection; one text is no list.

    >>> check_listed((1, 2), "targets")
    [1, 2]
    """
    try:
        if not isinstance(values, str | bytes):
            return list(values)
    except TypeError:  # nothing to go through
        pass
    raise InvalidInput(f"{name} must be a list, found {shown(values)}")


def random_generator(seed: Seed) -> np.random.Generator:
    """Return the generator of a simulation: a given one, a seeded one, or one of the system's bits.

    A generator that is given goes on from where it stands.

    >>> bool(random_generator(7).integers(10) == random_generator(7).integers(10))
    True
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(None if seed is None else check_count(seed, "seed", 0))


def shown(value: Any) -> str:
    """Return an argument as errors show it: its text if short, else its type.

    >>> shown("x"), shown([1] * 100)
    ("'x'", 'list')
    """
    if isinstance(value, str | int | float | np.number | bool | None):
        try:
            text = ascii(value)
        except ValueError:  # an integer of more digits than Python writes
            text = ""
        if 0 < len(text) <= 60:
            return text
    return type(value).__name__
