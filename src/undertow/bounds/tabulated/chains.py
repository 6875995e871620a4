"""The pairs of laws of a count on a Markov chain: all windows around a target.

Sides longer than the reach are paid for. Whoever knows less than the record z at the reach sees a
mixture over z of windows in which it is known, convolved with what lies beyond, which does not
depend on the target. Between two values x, x' of the target the weights of the mixture differ by a
factor of e^eta at most, eta the oscillation over z of ln P^t(x, z) / P^t(x', z): what is known
further out divides both weights by their sum, so that the largest and the least ratio matter. If
(p_z * g)(s) <= e^(limit - eta) (q_z * g)(s) for every z and s, then the mixtures keep e^limit,
whatever the noise g is (docs, theory: least noise of any shape).
"""

from functools import lru_cache

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.approximate.counts import CountWindows, count_windows, fading
from undertow.bounds.chains.known import complete, witnessed
from undertow.bounds.chains.side_laws import start_error
from undertow.bounds.tabulated.pairs import CountPairs
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.markov import MarkovChain
from undertow.numerics import pad_log

__all__ = ["ChainPairs", "chain_pairs"]

ETA = 2e-5
"""Share of a limit that sides beyond the reach should cost at most (upper side)."""

COARSE = 1e-2
"""Share beyond which that cost is not accepted, where more windows are too many."""

LARGEST = 1.2e7
"""Most entries of the laws of all windows (memory and cost)."""

OPEN = 96
"""Most records of a series whose windows without known records are all enumerated."""


class ChainPairs:
    """The pairs of a chain, and the attack that each of them stands for."""

    def __init__(self, chain: MarkovChain, windows: CountWindows, against: Against) -> None:
        """Keep the windows with what rounding can have done to them."""
        self.chain, self.windows = chain, windows
        reach = int(max(side.span.max() for side in windows.sides))
        counts = windows.laws.shape[1]
        # steps of both sides, a division for what is known, and the convolution of the sides
        pad = 2 * pad_log(2 * reach + 4, chain.size) + 2 * pad_log(counts + 4, 1)
        slack = np.where(windows.edge, windows.eta, 0.0)
        real = np.ones(len(slack), bool) if against == "any" else ~windows.edge
        if (
            chain.length is None
        ):  # series of a single record are not meant, but bounded all the same
            spans = [side.span[windows.options[:, i]] for i, side in enumerate(windows.sides)]
            real = real & (spans[0] + spans[1] > 0)
        self.pairs = CountPairs(windows.laws, windows.others, slack, real, pad + start_error(chain))

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a window at an answer, less what known records contribute."""
        windows, chain = self.windows, self.chain
        found = windows.witness(where, answer)
        states = {record: chain.index(value) for record, value in found.known}
        left, right = (int(option) for option in windows.options[where])
        nearest = [
            int(side.value[option])
            for side, option in zip(windows.sides, (left, right), strict=True)
            if side.shut[option]
        ]
        own = sum(bool(windows.counted[state]) for state in nearest)
        known = complete(chain, states, found.target, found.length)
        pair = (int(windows.pair[where, 0]), int(windows.pair[where, 1]))
        return witnessed(chain, found.target, found.length, known, pair, output=answer - own)


def chain_pairs(
    chain: MarkovChain, counted: tuple[bool, ...], against: Against, limit: float
) -> ChainPairs:
    """Return all windows of a stationary chain that visits all its states, or refuse.

    ``counted`` says which states are counted, ``limit`` how large a leakage is looked at: the
    longer sides may cost a small share of it.
    """
    ignorant = against == "ignorant"
    return _pairs(chain, counted, _reach(chain, limit, ignorant), ignorant)


@lru_cache(maxsize=2)
def _pairs(chain: MarkovChain, counted: tuple[bool, ...], reach: int, ignorant: bool) -> ChainPairs:
    windows = count_windows(chain, np.array(counted), reach, known=not ignorant)
    return ChainPairs(chain, windows, "ignorant" if ignorant else "any")


def _reach(chain: MarkovChain, limit: float, ignorant: bool) -> int:
    """Return up to which distance sides are enumerated, or refuse a chain of long memory."""
    most = np.inf if chain.length is None else chain.length - 1
    if ignorant and most < OPEN:
        return int(most)
    reach, cost = 8, np.inf
    while True:
        reach = int(min(reach, most))
        cost = 0.0 if reach >= most else fading(chain, reach)
        if cost <= ETA * limit or _entries(chain.size, reach + 8) > LARGEST:
            break
        reach += 8
    if cost > COARSE * limit:
        raise NotSupported(
            "the windows of this chain are too many to enumerate: it remembers for more than "
            f"{reach} records; use method='exact' or 'exchange'"
        )
    return reach


def _entries(size: int, reach: int) -> float:
    options = reach * (size + 1) + 1
    windows = options**2 / (2 if size == 2 else 1)
    return float(windows * size * (size - 1) * (2 * reach + 2))
