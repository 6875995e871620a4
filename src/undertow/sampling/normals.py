"""Exact Gaussian noise in whole numbers, on the operating system's random bits.

*Rounded normal*: a normal variable rounded to the nearest whole number (post-processing, so GDP
holds). *Discrete Gaussian*: Pr[z] ~ exp(-z^2 / 2 sigma^2). Real numbers are drawn bit by bit and
compared as intervals of whole numbers, so there is no rounding and no state between calls.
"""

import os
from fractions import Fraction

import numpy as np

from undertow.errors import NotSupported
from undertow.numerics import check_count, check_positive
from undertow.sampling.bits import Insecure, Randomness
from undertow.sampling.integers import LARGEST_SCALE, discrete_laplace
from undertow.sampling.streams import system_bytes

__all__ = ["Bits", "discrete_gaussian", "keeps", "rounded_normal"]

_WORD = 64
"""Bits by which a real number is refined."""

_BUFFER = 8192
"""Random bytes that one call asks the operating system for at a time."""


class Bits:
    """Random words of one call."""

    def __init__(self) -> None:
        self._left = b""

    def word(self) -> int:
        """Return 64 random bits."""
        if len(self._left) < 8:
            self._left = os.urandom(_BUFFER)
        word, self._left = self._left[:8], self._left[8:]
        return int.from_bytes(word, "little")

    def below(self, limit: int) -> int:
        """Return a uniform whole number below ``limit``, by rejection."""
        size = (limit - 1).bit_length()
        words = -(-size // _WORD)
        while True:
            number = 0
            for _ in range(words):
                number = number << _WORD | self.word()
            number >>= words * _WORD - size
            if number < limit:
                return number


class _Real:
    """A uniform number in (0, 1), drawn bit by bit: between x and x + 1 in 2^-bits."""

    __slots__ = ("bits", "source", "x")

    def __init__(self, source: Bits) -> None:
        self.source, self.x, self.bits = source, source.word(), _WORD

    def refine(self) -> None:
        self.x = self.x << _WORD | self.source.word()
        self.bits += _WORD


def rounded_normal(sigma: float, count: int, randomness: Randomness | None = None) -> list[int]:
    """Return independent normal variables of standard deviation sigma, rounded to whole numbers.

    Algorithm N of [karney2016] for the normal variable. ``sigma`` is taken as the exact fraction
    that the float is. Linear in ``count``.

    >>> len(rounded_normal(4.0, 3))
    3
    """
    sigma, count = _checked(sigma, count)
    if isinstance(randomness, Insecure):
        seeded = np.random.default_rng(randomness.seed).normal(scale=sigma, size=count)
        return [int(z) for z in np.rint(seeded)]
    system_bytes(randomness)  # refuses what is no source of randomness
    source, exact = Bits(), Fraction(sigma)
    return [_normal(exact, source) for _ in range(count)]


def discrete_gaussian(sigma: float, count: int, randomness: Randomness | None = None) -> list[int]:
    """Return independent whole numbers with Pr[z] proportional to exp(-z^2 / (2 sigma^2)).

    Algorithm 3 of [canonne2020]: discrete Laplace proposals of scale t = floor(sigma) + 1, kept
    with probability exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2)). Linear in ``count``.

    >>> len(discrete_gaussian(4.0, 3))
    3
    """
    sigma, count = _checked(sigma, count)
    if isinstance(randomness, Insecure):
        return _seeded(sigma, count, randomness.seed)
    source, variance = Bits(), Fraction(sigma) ** 2
    wide = int(sigma) + 1
    draws: list[int] = []
    while len(draws) < count:
        proposals = discrete_laplace(float(wide), count - len(draws) + 8, randomness)
        for y in proposals:
            exponent = (abs(y) - variance / wide) ** 2 / (2 * variance)
            if keeps(exponent, source):
                draws.append(y)
    return draws[:count]


def _checked(sigma: float, count: int) -> tuple[float, int]:
    sigma = check_positive(sigma, "sigma")
    if sigma > LARGEST_SCALE:
        raise NotSupported(f"a sigma of {sigma:g} is too large; the largest is {LARGEST_SCALE:g}")
    return sigma, check_count(count, "count", 1)


def _normal(sigma: Fraction, source: Bits) -> int:
    """Return one rounded normal variable: sign, whole part k, and a fraction x known in bits."""
    while True:
        k = 0
        while _survives(1, 2, source):  # Pr[k] ~ exp(-k / 2)
            k += 1
        # exp(-k (k - 1) / 2) as k (k - 1) truths of probability exp(-1/2)
        if not all(_survives(1, 2, source) for _ in range(k * (k - 1))):
            continue
        x = _Real(source)
        # exp(-x (2k + x) / 2) as k + 1 truths of probability exp(-x (2k + x) / (2k + 2))
        if all(_outlives(x, k, source) for _ in range(k + 1)):
            break
    sign = -1 if source.word() & 1 else 1
    return sign * _rounded(sigma, k, x)


def _rounded(sigma: Fraction, k: int, x: _Real) -> int:
    """Return sigma (k + x) rounded to the nearest whole number, with as many bits as that takes."""
    t, s = sigma.numerator, sigma.denominator
    while True:
        one = 1 << x.bits
        low, high = ((2 * t * (k * one + x.x + end) + s * one) // (2 * s * one) for end in (0, 1))
        if low == high:
            return low
        x.refine()


def _outlives(x: _Real, k: int, source: Bits) -> bool:
    """Return True with probability exp(-gamma), gamma = x (2k + x) / (2k + 2) < 1.

    Algorithm 1 of [canonne2020]: count j = 1, 2, ... as long as truths of probability gamma / j
    follow each other; j is odd at the end with probability exp(-gamma).
    """
    j = 1
    while (j == 1 or source.below(j) == 0) and _under(x, k, source):
        j += 1
    return j % 2 == 1


def _under(x: _Real, k: int, source: Bits) -> bool:
    """Return whether a fresh uniform number lies below gamma = x (2k + x) / (2k + 2)."""
    u = _Real(source)
    while True:
        while u.bits < x.bits:
            u.refine()
        while x.bits < u.bits:
            x.refine()
        one = 1 << x.bits
        # gamma 2^(2 bits) (2k + 2) between these, u 2^(2 bits) (2k + 2) between those
        low, high = ((x.x + end) * (2 * k * one + x.x + end) for end in (0, 1))
        scale = (2 * k + 2) * one
        if (u.x + 1) * scale <= low:
            return True
        if u.x * scale >= high:
            return False
        u.refine()


def keeps(exponent: Fraction, source: Bits) -> bool:
    """Return True with probability exp(-exponent), the exponent a fraction of any size."""
    whole, rest = divmod(exponent.numerator, exponent.denominator)
    return all(_survives(1, 1, source) for _ in range(whole)) and _survives(
        rest, exponent.denominator, source
    )


def _survives(parts: int, whole: int, source: Bits) -> bool:
    """Return True with probability exp(-parts / whole), for parts <= whole."""
    j = 1
    while (j == 1 or source.below(j) == 0) and source.below(whole) < parts:
        j += 1
    return j % 2 == 1


def _seeded(sigma: float, count: int, seed: int) -> list[int]:
    """Return repeatable discrete Gaussian noise, by its table within 40 standard deviations."""
    reach = int(40 * min(sigma, 1e5)) + 40
    z = np.arange(-reach, reach + 1)
    law = np.exp(-(z.astype(np.float64) ** 2) / (2 * sigma**2))
    drawn = np.random.default_rng(seed).choice(z, size=count, p=law / law.sum())
    return [int(each) for each in drawn]
