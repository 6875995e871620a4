"""Exact noise with a table of probabilities, in whole numbers on random bits."""

from bisect import bisect_right
from itertools import accumulate

from undertow.mechanisms import BITS, FINE, TabulatedNoise
from undertow.numerics import check_count
from undertow.sampling.bits import Insecure, Randomness
from undertow.sampling.streams import Bytes, single_draws, system_bytes

__all__ = ["tabulated"]


def tabulated(noise: TabulatedNoise, count: int, randomness: Randomness | None = None) -> list[int]:
    """Return independent whole numbers with exactly the probabilities of the table.

    A uniform number of 128 bits falls into one of the places, as often as its weight says; from a
    place at either end the walk outwards goes on as long as uniform numbers of 48 bits are below
    the ratio. Linear in ``count``.

    >>> from undertow.queries import Count
    >>> from undertow.sampling.bits import Insecure
    >>> noise = TabulatedNoise(Count("active"), -1, (2**126, 2**127, 2**126), 0.25)
    >>> len(tabulated(noise, 3, Insecure(seed=1)))
    3
    """
    count = check_count(count, "count", 1)
    seeded = isinstance(randomness, Insecure)
    source = single_draws(randomness).first if seeded else system_bytes(randomness)
    ends = list(accumulate(noise.weights))  # ends[i]: the first number beyond place i
    limit = int(noise.ratio * 2**FINE)
    words = source.take(count * BITS // 8).tobytes()
    draws = []
    for start in range(0, len(words), BITS // 8):
        place = bisect_right(ends, int.from_bytes(words[start : start + BITS // 8], "little"))
        if place in (0, len(ends) - 1):
            farther = _successes(limit, source)
            draws.append(noise.first - farther if place == 0 else noise.last + farther)
        else:
            draws.append(noise.first + place)
    return draws


def _successes(limit: int, source: Bytes) -> int:
    """Return how many numbers of 48 bits below ``limit`` come before the first that is not."""
    successes = 0
    while int.from_bytes(source.take(FINE // 8).tobytes(), "little") < limit:
        successes += 1
    return successes
