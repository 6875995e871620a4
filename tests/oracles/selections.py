"""The law of a selection by enumeration: permute-and-flip as it is defined, order by order."""

import math
from collections.abc import Sequence
from itertools import permutations

__all__ = ["list_law", "round_law"]


def round_law(counts: Sequence[int], scale: float) -> list[float]:
    """Return Pr[r] of one round: over all orders, those before r are passed over and r is taken."""
    best = max(counts)
    taken = [math.exp(-(best - count) / scale) for count in counts]
    law = [0.0] * len(counts)
    orders = list(permutations(range(len(counts))))
    for order in orders:
        passed = 1.0
        for place in order:
            law[place] += passed * taken[place] / len(orders)
            passed *= 1 - taken[place]
    return law


def list_law(counts: Sequence[int], k: int, scale: float) -> dict[tuple[int, ...], float]:
    """Return the probability of every ordered list of k places."""
    made: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(k):
        longer: dict[tuple[int, ...], float] = {}
        for chosen, probability in made.items():
            left = [place for place in range(len(counts)) if place not in chosen]
            law = round_law([counts[place] for place in left], scale)
            for place, each in zip(left, law, strict=True):
                longer[*chosen, place] = probability * each
        made = longer
    return made
