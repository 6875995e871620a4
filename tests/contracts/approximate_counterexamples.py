"""Statements about approximate leakage that sound true and are not, each with its numbers.

Every function computes one counterexample from the oracle and returns its numbers; tests hold them
against the theory, pages may print them.
"""

import numpy as np

from tests.contracts.approximate_oracle import (
    Floats,
)

ACTIVITY = np.array([[0.882, 0.118], [0.305, 0.695]])
ACTIVITY_START = np.array([305, 118]) / 423


Side = int | tuple[int, int]
"""One side of a target: so many unknown records up to the end, or (distance, value) of a known."""


# --- counts of long windows -----------------------------------------------------------------------


def side_counts(x: int, side: Side, transition: Floats = ACTIVITY) -> Floats:
    """The law of the number of ones among the unknown records of a side, next to a record x.

    The chain is followed outwards from x: left of it this needs a reversible chain, such as every
    stationary one with two states.
    """
    unknown, known = (side, None) if isinstance(side, int) else (side[0] - 1, side[1])
    law = np.zeros((len(transition), unknown + 1))  # last state x number of ones
    law[x, 0] = 1.0
    for _ in range(unknown):
        law = transition.T @ law
        law[1] = np.roll(law[1], 1)
    counts: Floats = law.sum(axis=0) if known is None else transition[:, known] @ law
    return counts / counts.sum()


def window_counts(left: Side, right: Side, transition: Floats = ACTIVITY) -> tuple[Floats, Floats]:
    """The laws of the count of a window given that its target is 0, and that it is 1."""
    sides = [
        np.convolve(side_counts(x, left, transition), side_counts(x, right, transition))
        for x in (0, 1)
    ]
    return np.array([*sides[0], 0.0]), np.array([0.0, *sides[1]])
