"""Post-processing of noisy numbers: moved to their public sum."""

from collections.abc import Sequence

import numpy as np

from undertow.sampling.bits import Insecure, Randomness
from undertow.sampling.integers import uniform
from undertow.sampling.streams import system_bytes

__all__ = ["totalled"]


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
