"""Noise on answers, selections and public sums: all that makes a true answer a released one."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np

from undertow.mechanisms import BITS, FINE, Noise, Selection, TabulatedNoise, lattice_amount
from undertow.numerics import check_count
from undertow.sampling.bits import Insecure, Randomness
from undertow.sampling.integers import discrete_laplace, uniform
from undertow.sampling.normals import Bits, discrete_gaussian, keeps, rounded_normal
from undertow.sampling.streams import Bytes, single_draws, system_bytes

__all__ = ["lattice_amount", "randomise", "select", "tabulated", "totalled"]


_DRAWS: dict[str, Callable[[float, int, Randomness], list[int]]] = {
    "laplace": discrete_laplace,  # on the lattice of a real answer
    "discrete-laplace": discrete_laplace,
    "gaussian": rounded_normal,
    "discrete-gaussian": discrete_gaussian,
}
"""Sampler of each kind of noise with an amount; all in whole numbers."""


def randomise(
    mechanism: Noise, answer: list[int], randomness: Randomness, length: int | None = None
) -> list[int]:
    """Return the whole-number answer plus the mechanism's noise, independent per number.

    >>> from undertow.mechanisms import DiscreteLaplace
    >>> from undertow.queries import Count
    >>> from undertow.sampling.bits import Secure
    >>> type(randomise(DiscreteLaplace(Count("a"), 2.0), [10], Secure())[0])
    <class 'int'>
    """
    if isinstance(mechanism, TabulatedNoise):
        noise = tabulated(mechanism, len(answer), randomness)
    else:
        amount = lattice_amount(mechanism, length)
        noise = _DRAWS[mechanism.kind](amount, len(answer), randomness)
    return [exact + z for exact, z in zip(answer, noise, strict=True)]


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


def totalled(
    numbers: Sequence[Sequence[int]], totals: Sequence[int], randomness: Randomness | None = None
) -> list[list[int]]:
    """Return, for each row of noisy numbers, nearest whole numbers with the given sum.

    With k numbers y and d = total - sum(y) = q k + r, 0 <= r < k, every number moves by q and r of
    them by one more: sum (z_j - y_j)^2 is least among whole numbers z with that sum, whichever r
    they are. They stand next to each other, the first anywhere with equal probability, so each
    number moves by d / k on average. Numbers may fall below 0: clipping would make them err to one
    side. A function of the noisy numbers and of independent bits, so it reveals no more than they
    do. Linear.

    >>> from undertow.sampling.bits import Insecure
    >>> totalled([[4, 9, 1]], [11], Insecure(seed=1))
    [[3, 8, 0]]
    >>> sum(totalled([[4, 9, 1]], [100], Insecure(seed=1))[0])
    100
    """
    rows = []
    for place, (row, total) in enumerate(zip(numbers, totals, strict=True)):
        size = len(row)
        each, more = divmod(total - sum(row), size)
        first = _first(size, place, randomness) if more else 0
        moved = [each + ((cell - first) % size < more) for cell in range(size)]
        rows.append([y + step for y, step in zip(row, moved, strict=True)])
    return rows


def _first(size: int, place: int, randomness: Randomness | None) -> int:
    """Return a number from 0 up to below ``size``, all equally likely."""
    if isinstance(randomness, Insecure):  # other bits than those of the noise
        return int(np.random.default_rng((randomness.seed, place, size)).integers(size))
    return int(uniform(size, 1, system_bytes(randomness))[0])


def select(
    mechanism: Selection, counts: Sequence[Sequence[int]], randomness: Randomness | None = None
) -> list[list[int]]:
    """Return the places of the selected states for each row of counts, the first choice first.

    Rounds of permute-and-flip: of the states left, one chosen uniformly among those not yet tried
    is taken with probability exp(-(largest - count) / scale), else passed over; the most frequent
    one is always taken, so a round ends. The scale is taken as the exact fraction that the float
    is, every decision compares uniform whole numbers, and no floating-point number takes part.
    With `Insecure` randomness the largest count with seeded exponential noise instead, which has
    the same law but for rounding. A row of m counts costs O(k m).

    >>> from undertow.queries import TopK
    >>> select(Selection(TopK(2, among=3), scale=0.01), [[1, 99, 50]])
    [[1, 2]]
    """
    k = mechanism.query.k
    if isinstance(randomness, Insecure):
        return _seeded(np.array(counts, dtype=np.float64), k, mechanism.scale, randomness.seed)
    system_bytes(randomness)  # refuses what is no source of randomness
    source, scale = Bits(), Fraction(mechanism.scale)
    return [_ranked(row, k, scale, source) for row in counts]


def _ranked(counts: Sequence[int], k: int, scale: Fraction, source: Bits) -> list[int]:
    """Return k places, selected in turn without replacement."""
    left = list(range(len(counts)))
    chosen = []
    for _ in range(k):
        place = _round(counts, left, scale, source)
        left.remove(place)
        chosen.append(place)
    return chosen


def _round(counts: Sequence[int], left: list[int], scale: Fraction, source: Bits) -> int:
    """Return the place selected in a round; the random order is drawn lazily."""
    largest = max(counts[place] for place in left)
    waiting = list(left)
    while True:
        place = waiting.pop(source.below(len(waiting)))
        if keeps((largest - counts[place]) / scale, source):
            return place


def _seeded(
    counts: np.typing.NDArray[np.float64], k: int, scale: float, seed: int
) -> list[list[int]]:
    """Return repeatable selections: the largest count with exponential noise, drawn every round."""
    draw, rows = np.random.default_rng(seed), np.arange(len(counts))
    left = counts.copy()  # (rows, states): -inf where a state is taken
    chosen = np.empty((len(counts), k), dtype=np.int64)
    for turn in range(k):
        chosen[:, turn] = (left + draw.exponential(scale, left.shape)).argmax(axis=1)
        left[rows, chosen[:, turn]] = -np.inf
    return [[int(place) for place in row] for row in chosen]
