"""Exact selection by permute-and-flip, in whole numbers on the operating system's random bits."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from undertow.mechanisms import Selection
from undertow.sampling.bits import Insecure, Randomness
from undertow.sampling.normals import Bits, keeps
from undertow.sampling.streams import system_bytes

__all__ = ["select"]


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
