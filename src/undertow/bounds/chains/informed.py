"""The informed attacker, who knows every record but the target: plain differential privacy."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np

from undertow.bounds.chains.paths import complete
from undertow.certificate import Witness
from undertow.models.markov import MarkovChain

__all__ = ["informed_targets"]


def informed_targets(chain: MarkovChain) -> Iterator[Witness]:
    """Yield, for every pair of values that a target can take between known neighbours, one target.

    Only the two neighbours matter. A pair may be possible at an end of the series alone, or only
    early on; positions are looked through until supports must have repeated, and the last two.

    >>> [attack.target for attack in informed_targets(MarkovChain([[.5, .5], [.5, .5]], length=2))]
    [0, 0]
    """
    records = chain.length or 3 + chain.size**2
    limit = records if not chain.homogeneous else min(records, 3 + 2 * chain.size**2)
    positions = sorted({*range(limit), max(records - 2, 0), records - 1})
    found: set[tuple[int, int]] = set()
    for target in positions:
        for u, v, values in _between(chain, target, records):
            for x, y in permutations(values, 2):
                if (x, y) not in found:
                    found.add((x, y))
                    yield _witness(chain, target, records, u, v, x, y)
        if len(found) == chain.size * (chain.size - 1):
            return


def _between(
    chain: MarkovChain, target: int, records: int
) -> Iterator[tuple[int | None, int | None, list[int]]]:
    """Yield the neighbours' values (None at an end) with the target values they allow."""
    lefts: list[tuple[int | None, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]]]
    if target:
        before = chain.law(target - 1)
        lefts = [(int(u), chain.step(target - 1)[u] > 0) for u in np.flatnonzero(before > 0)]
    else:
        lefts = [(None, chain.initial > 0)]
    for u, ahead in lefts:
        if target == records - 1:
            yield u, None, [int(x) for x in np.flatnonzero(ahead)]
            continue
        for v in range(chain.size):
            both = ahead & (chain.step(target)[:, v] > 0)
            yield u, v, [int(x) for x in np.flatnonzero(both)]


def _witness(
    chain: MarkovChain, target: int, records: int, u: int | None, v: int | None, x: int, y: int
) -> Witness:
    near = {target - 1: u, target + 1: v}
    path = {record: state for record, state in near.items() if state is not None}
    path = complete(chain, path, target, records)
    known = tuple((record, chain.states[state]) for record, state in path.items())
    return Witness(target, records, known, chain.states[x], chain.states[y])
