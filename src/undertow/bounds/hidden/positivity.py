"""Whether a hidden chain is attractive: total positivity of order two, checked exactly.

A law on ordered values is attractive (MTP2) if p(x v y) p(x ^ y) >= p(x) p(y) for all x, y, with
the larger and the smaller value record by record. If all minors of two rows and two columns of the
transitions are non-negative in some order of the hidden states, in which the symbols rise, then
the joint law of hidden states and records is a product of factors of two variables that are each
totally positive of order two, so it is MTP2, and so is its marginal, the law of the records
(Proposition 3.2 of [karlin1980]). Entries may be 0.
"""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import permutations, product

import numpy as np

from undertow.models.hidden_chain import HiddenChain
from undertow.numerics import ROUNDOFF, Array

__all__ = ["attractive", "order_margin", "order_table", "rising_order"]

NEAR = 1e-9
"""Second differences below this are decided exactly (a few dozen roundings of logarithms)."""

MOST_ORDER = 5
"""Orders up to which second differences are gone through (cost)."""

MOST_ORDERS = 5000
"""Orders of the hidden states that are tried (cost)."""


def rising_order(chain: HiddenChain) -> tuple[int, ...] | None:
    """Return an order of the hidden states in which the chain is totally positive, or None.

    None says nothing: the condition is sufficient, not necessary. Every order in which symbols
    rise is tried, up to 5000 of them. Exact: minors are compared as rational numbers. Cost
    O(orders m^4).

    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> rising_order(chain)
    (0, 1, 2)
    >>> rising_order(HiddenChain([[.1, .9], [.8, .2]], (0, 1))) is None
    True
    """
    parts = [np.flatnonzero(chain.shown == state).tolist() for state in range(chain.size)]
    if math.prod(math.factorial(len(part)) for part in parts) > MOST_ORDERS:
        return None
    for chosen in product(*map(permutations, parts)):
        order = tuple(state for part in chosen for state in part)
        if _positive(chain.transition[np.ix_(order, order)]):
            return order
    return None


def _positive(matrix: Array) -> bool:
    """Return whether no minor of two rows and two columns is negative."""
    size = len(matrix)
    low, high = np.triu_indices(size, 1)  # pairs of rows, or of columns
    one = matrix[low][:, low] * matrix[high][:, high]  # T(i, k) T(j, l): (row pairs, column pairs)
    two = matrix[low][:, high] * matrix[high][:, low]  # T(i, l) T(j, k)
    if (one < two * (1 - 4 * ROUNDOFF)).any():
        return False
    close = np.argwhere(one < two * (1 + 4 * ROUNDOFF) + np.finfo(np.float64).tiny)
    for rows, columns in close.tolist():
        i, j, k, l = low[rows], high[rows], low[columns], high[columns]
        a, b, c, d = (Fraction(float(matrix[place])) for place in ((i, k), (j, l), (i, l), (j, k)))
        if a * b < c * d:
            return False
    return True


def order_table(chain: HiddenChain) -> Array | None:
    """Return the laws (k,) * (m + 1) if hidden states are runs of m records, None otherwise.

    As `HiddenChain.of_order` lays them out, with all of them positive.

    >>> order_table(HiddenChain.of_order([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]])).shape
    (2, 2, 2)
    """
    size, runs = chain.size, np.arange(chain.hidden)
    order = round(math.log(chain.hidden, size))
    if size**order != chain.hidden or (chain.shown != runs % size).any():
        return None
    after = runs[:, None] % size ** (order - 1) * size + np.arange(size)  # (runs, next record)
    laws = np.take_along_axis(chain.transition, after, axis=1)
    if not (laws > 0).all() or np.count_nonzero(chain.transition) != laws.size:
        return None
    return laws.reshape((size,) * (order + 1))


def order_margin(laws: Array) -> float:
    """Return the least second difference of a chain of order m on two states; exact at 0.

    The chain is attractive if for every lag d = 1 .. m and all other records the sum over
    t = j .. i + m of D_i D_j ln p(x_t | x_{t-m} .. x_{t-1}) is at least 0, with j = i + d (docs,
    memory). Sums within rounding of 0 are decided by rational numbers: what is returned is negative
    only where the sum is. Cost O(m 4^m).

    >>> round(order_margin(np.array([[[.88, .12], [.5, .5]], [[.8, .2], [.42, .58]]])), 6)
    0.322773
    """
    order = laws.ndim - 1
    least = math.inf
    for lag in range(1, order + 1):
        others = 2 * order - lag - 1
        for free in product((0, 1), repeat=others):
            # records i + lag - m .. i + m, with i at place m - lag and j at place m
            logs, signed = 0.0, []
            for x, y in product((0, 1), repeat=2):
                records = [*free]
                records.insert(order - lag, x)
                records.insert(order, y)
                factors = [
                    float(laws[tuple(records[t - order : t + 1])])
                    for t in range(order, 2 * order - lag + 1)
                ]
                logs += (1 if x == y else -1) * sum(map(math.log, factors))
                signed.append((x == y, factors))
            if abs(logs) < NEAR:
                ratio = math.prod(
                    math.prod(map(Fraction, some)) ** (1 if agree else -1) for agree, some in signed
                )
                logs = 0.0 if ratio == 1 else math.copysign(max(abs(logs), NEAR**2), ratio - 1)
            least = min(least, logs)
    return least


@lru_cache(maxsize=64)
def attractive(chain: HiddenChain) -> bool:
    """Return whether the law of the records was proved attractive; False says nothing.

    >>> attractive(HiddenChain.of_order([[[.88, .12], [.5, .5]], [[.8, .2], [.42, .58]]]))
    True
    """
    if chain.size == 2:
        laws = order_table(chain)
        if laws is not None and laws.ndim <= MOST_ORDER + 1:
            return order_margin(laws) >= 0
    return rising_order(chain) is not None
