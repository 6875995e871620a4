"""Exact discrete Laplace noise, in whole numbers on the operating system's random bits.

After the algorithms 1 and 2 of [canonne2020], for many draws at once. Every decision compares
uniform whole numbers; there is no floating-point number in the noise, and no state between calls.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import NotSupported
from undertow.numerics import check_count, check_positive
from undertow.sampling.bits import Insecure, Randomness
from undertow.sampling.streams import Bytes, system_bytes

__all__ = ["LARGEST_SCALE", "discrete_laplace", "uniform"]

LARGEST_SCALE = 2.0**50
"""Largest scale of noise: uniform numbers of 64 bits do for it, with room to spare."""

Numbers = npt.NDArray[np.uint64]
Lanes = npt.NDArray[np.intp]
"""Which of the draws are still going on."""


def discrete_laplace(scale: float, count: int, randomness: Randomness | None = None) -> list[int]:
    """Return independent integers with Pr[z] proportional to exp(-|z| / scale).

    The scale is taken as the exact fraction that the float is. All bits come from the operating
    system inside this call, so no process that was forked, restored or copied with its number
    before it repeats another's noise. With `Insecure` randomness, the difference of two seeded
    geometric variables instead. Linear in ``count``.

    >>> from undertow.sampling.bits import Insecure
    >>> len(discrete_laplace(4.0, 3, Insecure(seed=1)))
    3
    """
    scale = check_positive(scale, "noise scale")
    if scale > LARGEST_SCALE:
        raise NotSupported(
            f"a noise scale of {scale:g} is too large for uniform numbers of 64 bits; the largest "
            f"is {LARGEST_SCALE:g}"
        )
    count = check_count(count, "count", 1)
    if isinstance(randomness, Insecure):
        draw = np.random.default_rng(randomness.seed)
        miss = -np.expm1(-1.0 / scale)
        return [int(z) for z in draw.geometric(miss, count) - draw.geometric(miss, count)]
    return _laplace(Fraction(scale), count, system_bytes(randomness))


def _laplace(scale: Fraction, count: int, source: Bytes) -> list[int]:
    """Return draws of Algorithm 2 of [canonne2020] for the scale t / s.

    U below t is kept with probability exp(-U / t), V counts successes of probability exp(-1), so
    Pr[U + t V = x] is proportional to exp(-x / t), and Y = floor((U + t V) / s) has ratio
    exp(-s / t). A fair sign makes it two-sided; "minus zero" is drawn again.
    """
    t, s = scale.numerator, scale.denominator
    draws = [0] * count
    lanes = np.arange(count)  # (draws that are not made yet,)
    while lanes.size:
        below = uniform(t, lanes.size, source)  # U of Algorithm 2
        kept = _survives(below, t, source)
        below, tried = below[kept], lanes[kept]
        turns = _successes(tried.size, source)  # V of Algorithm 2
        minus = uniform(2, tried.size, source)
        again = []
        # sums in Python's whole numbers, which do not overflow
        for lane, u, v, sign in zip(
            tried.tolist(), below.tolist(), turns.tolist(), minus.tolist(), strict=True
        ):
            size = (u + t * v) // s
            draws[lane] = -size if sign else size
            if sign and not size:
                again.append(lane)
        lanes = np.concatenate([lanes[~kept], np.array(again, dtype=np.intp)])
    return draws


def _survives(parts: Numbers, whole: int, source: Bytes) -> npt.NDArray[np.bool_]:
    """Return independent Bernoulli draws of probability exp(-parts / whole), for parts <= whole.

    Algorithm 1 of [canonne2020]: count k = 1, 2, ... as long as truths of probability gamma / k
    follow each other; k is odd at the end with probability exp(-gamma). Gamma / k is a truth of
    probability 1 / k and one of gamma = parts / whole, both compared in whole numbers.
    """
    survives = np.empty(parts.size, dtype=np.bool_)
    lanes, k = np.arange(parts.size), 1
    while lanes.size:
        goes = uniform(k, lanes.size, source) == 0  # a truth of probability 1 / k
        goes[goes] = uniform(whole, int(goes.sum()), source) < parts[lanes[goes]]
        survives[lanes[~goes]] = k % 2 == 1  # the series of exp(-gamma), summed by the parity of k
        lanes, k = lanes[goes], k + 1
    return survives


def _successes(count: int, source: Bytes) -> npt.NDArray[np.int64]:
    """Return the number of successes of probability exp(-1) before the first failure."""
    successes = np.zeros(count, dtype=np.int64)
    lanes: Lanes = np.arange(count)
    while lanes.size:
        lanes = lanes[_survives(np.ones(lanes.size, dtype=np.uint64), 1, source)]
        successes[lanes] += 1
    return successes


def uniform(limit: int, count: int, source: Bytes) -> Numbers:
    """Return uniform whole numbers from 0 up to below ``limit``, at most 2^63.

    As many bits as limit - 1 has; what is not below it is drawn again, so all are equally likely.
    """
    numbers = np.zeros(count, dtype=np.uint64)
    bits = (limit - 1).bit_length()
    if not bits:
        return numbers
    width = next(width for width in (1, 2, 4, 8) if bits <= 8 * width)
    lanes: Any = slice(None)  # all of them, at first
    while count:
        words = source.take(width * count).view(f"<u{width}").astype(np.uint64)
        words &= np.uint64(2**bits - 1)  # less than half of them are drawn again
        numbers[lanes] = words
        wrong = np.flatnonzero(words >= limit)
        lanes = wrong if isinstance(lanes, slice) else lanes[wrong]
        count = wrong.size
    return numbers
