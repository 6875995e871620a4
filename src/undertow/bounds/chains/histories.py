"""Two histories of a window of records that differ wherever they can: what an attacker compares."""

import numpy as np

from undertow.bounds.chains.known import complete, witnessed
from undertow.certificate import Witness
from undertow.models.markov import MarkovChain

__all__ = ["histories", "informed_window"]

History = tuple[int, ...]
Pair = tuple[int, int]


def histories(
    chain: MarkovChain, start: int, ends: tuple[Pair, Pair], window: int
) -> tuple[History, History] | None:
    """Return two possible histories with given first and last values that differ most often.

    ``ends`` are the pairs of values of the first and of the last record, ``start`` the first
    record. None where there are none. Cost O(w k^4), O(w) where all transitions are possible.

    >>> chain = MarkovChain([[.9, .1], [.2, .8]])
    >>> histories(chain, 5, ((0, 1), (0, 1)), 4)
    ((0, 0, 0, 0), (1, 1, 1, 1))
    >>> histories(MarkovChain([[0, 1], [1, 0]]), 0, ((0, 1), (0, 1)), 2) is None
    True
    """
    if window == 1:
        return (ends[0][0],), (ends[0][1],)
    if (chain.transition > 0).all():
        between = [ends[0]] * (window - 2)  # whatever: all moves are possible
        one, two = zip(ends[0], *between, ends[1], strict=True)
        return one, two
    size = chain.size
    pairs = np.array([(x, y) for x in range(size) for y in range(size)])  # (k^2, 2)
    apart = (pairs[:, 0] != pairs[:, 1]).astype(float)
    # best[p]: most differences from record t on, if the pair there is p; -inf for none
    best = np.where(np.arange(size**2) == ends[1][0] * size + ends[1][1], apart, -np.inf)
    following = []
    for record in range(start + window - 2, start - 1, -1):
        possible = chain.step(record) > 0
        moves = np.kron(possible, possible)  # (pair, next pair): both histories move
        table = np.where(moves, best[None, :], -np.inf)
        following.append(table.argmax(axis=1))
        best = table.max(axis=1) + apart
    pair = ends[0][0] * size + ends[0][1]
    if np.isneginf(best[pair]):
        return None
    path = [pair]
    for choice in reversed(following):
        path.append(int(choice[path[-1]]))
    one, two = zip(*(divmod(step, size) for step in path), strict=True)
    return one, two


def informed_window(chain: MarkovChain, window: int) -> Witness | None:
    """Return an attack by whoever knows all records around a window; None with impossible moves.

    >>> informed_window(MarkovChain([[.9, .1], [.2, .8]]), 2).words()
    'target records 1 to 2 of 4, record 0 = 0, record 3 = 0 known: (0, 0) against (1, 1)'
    """
    if (chain.transition <= 0).any():
        return None
    length = chain.length or window + 2
    target = min(1, length - window)
    known = {0: 0} if target else {}
    known |= {target + window: 0} if target + window < length else {}
    path = complete(chain, known, target, length) if known else {}
    lived = (0,) * window, (1,) * window
    own = tuple((target + place, (chain.states[0],)) for place in range(window))
    return witnessed(chain, target, length, path, lived, sets=own)
