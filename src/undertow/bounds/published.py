"""Bounds as printed in the literature: published, not certified.

They stand here to be compared with. No guarantee of this package rests on them, and they are
rounded to nearest, not outwards.
"""

import math

import numpy as np

from undertow.errors import MethodRefused
from undertow.models.markov import MarkovChain

__all__ = ["lange_constant", "zhao_constant"]


def lange_constant(chain: MarkovChain) -> float:
    """Return c such that an epsilon-DP algorithm leaks at most epsilon + c, as published.

    c = 4 ln(max P / min P) over all entries of the transition matrix P, against every
    adversary and for every length. Assumes one matrix without zeros and a stationary start.
    Cost O(k^2). Corollary 7.4 of [lange2024].

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(lange_constant(chain), 6)
    8.04603
    """
    _check(chain, "lange")
    return 4 * math.log(float(chain.transition.max()) / float(chain.transition.min()))


def zhao_constant(chain: MarkovChain) -> float:
    """Return c such that an epsilon-DP algorithm leaks at most epsilon + c, as published.

    c = 6 ln max P(x, y) / P(x', y): the largest ratio of two entries of the same column of the
    transition matrix P, that is, of two ways into the same state y. Assumes one matrix without
    zeros and a stationary start. Cost O(k^2). Stated in [zhao2017], whose proof is not
    available; reported as equation (280) of [lange2024] and, in a form for two states, as
    Proposition 1 of [chakrabarti2022].

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(zhao_constant(chain), 6)
    10.639363
    """
    _check(chain, "zhao")
    return 6 * math.log(float(np.max(chain.transition.max(axis=0) / chain.transition.min(axis=0))))


def _check(chain: MarkovChain, method: str) -> None:
    if not chain.homogeneous:
        raise MethodRefused(
            f"'{method}' is stated for one transition matrix, this chain has one for each step; "
            "use method='exchange'"
        )
    zeros = np.argwhere(chain.transition <= 0)
    if zeros.size:
        row, column = (int(place) for place in zeros[0])
        raise MethodRefused(
            f"'{method}' needs transition probabilities above zero, but entry ({row}, {column}) "
            "is 0; use method='exchange'"
        )
    if not isinstance(chain.start, str):
        raise MethodRefused(
            f"'{method}' is stated for a stationary start, this chain has a given one; use "
            "method='exchange'"
        )
