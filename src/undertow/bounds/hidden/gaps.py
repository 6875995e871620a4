"""What unknown records do to messages of hidden states, on one side of a target.

Four hidden states, 0 and 1 of symbol 0, 2 and 3 of symbol 1, in an order in which the transitions T
are positive and totally positive of order 2. Read outwards from a target; S = T on the right, S =
T^T on the left, where a message is the joint probability of the hidden state and all that lies
before it. With D = diag(1, 1, e^theta, e^theta) the likelihood of an unknown record, a message at
a record whose next l neighbours are unknown is

    (S D)^l S rho    where the record beyond is known and rho is its message (0 but on its symbol),
    (S D)^l e        where the series ends: e = 1 on the right, the stationary law on the left,

and *plain* messages, without outputs, are the same with D = 1. Beyond ``longest`` records all that
matters is that messages are non-negative combinations of the columns of (S D)^longest.

**Rounding.** Sums of products of positive numbers have relative errors. With u = 2^-53 an entry of
S D has one of at most 8 u (rows that sum to 1 up to rounding are meant to sum to 1), a product of
matrices adds 4 u and its scaling u, so that an entry of a product of l factors has at most 16 l u.
A quotient of two sums of two products adds 8 u. `Gaps.pad` is 64 (longest + 8) u.
"""

from dataclasses import dataclass

import numpy as np

from undertow.errors import NotSupported
from undertow.numerics import ROUNDOFF, Array

__all__ = ["INSIDE", "Gaps", "powers", "side_gaps"]

INSIDE = (slice(0, 2), slice(2, 4))
"""The hidden states of each symbol."""

SMALLEST = 1e-250
"""Entries below it are refused (either side): relative errors need numbers that do not
underflow."""

MOST_GAP = 6144
"""Unknown records between two known ones that are told apart (cost); past them bounds hold, and are
wider."""

SETTLED, LEAST_SETTLED = 1e-5, 1e-11
"""Width of the far messages in logarithms, in units of theta, at which longer gaps are no longer
told apart; and its least value, near the rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """All gaps of one side: of l = 0, 1, .. unknown records.

    ``seen`` (gaps, 4, 4) are (S D)^l S, ``plain`` S^l S; ``ends`` (gaps, 4) the messages (S D)^l e
    of a series that ends, ``end`` (4,) is e; ``far`` and ``far_plain`` (4, 4) are the powers of the
    longest gap. ``pad`` bounds the relative error of a quotient, ``end_error`` that of e.
    """

    seen: Array
    plain: Array
    ends: Array
    end: Array
    far: Array
    far_plain: Array
    pad: float
    end_error: float

    @property
    def longest(self) -> int:
        """The number of gaps."""
        return len(self.seen)


def _scaled(matrices: Array) -> Array:
    return np.asarray(matrices / matrices.max(axis=(-2, -1), keepdims=True))


def powers(matrix: Array, count: int) -> Array:
    """Return the powers 0, 1, .. of a positive matrix, each up to a factor: (count, m, m).

    Twice as many with each product: cost O(count m^3), in log(count) steps.

    >>> table = powers(np.array([[.5, .5], [.25, .75]]), 4)
    >>> bool(np.allclose(table[2], np.array([[.375, .625], [.3125, .6875]]) / .6875))
    True
    """
    one = _scaled(matrix)
    found = np.eye(len(matrix))[None]
    while len(found) < count:
        further = _scaled(found[-1] @ one)  # the power len(found)
        found = np.concatenate([found, _scaled(further @ found)])
    return np.asarray(found[:count])


def _width(matrix: Array) -> float:
    """Return how far columns are apart: the largest range of ln M_ik / M_jk over columns k."""
    if not matrix.min() > 0:
        return np.inf
    logs = np.log(matrix)
    return float(np.ptp(logs[:, None] - logs[None], axis=2).max())


def _longest(step: Array, tilted: Array, goal: float) -> int:
    """Return how many unknown records are told apart: until all that lies beyond looks alike."""
    half = [_scaled(step), _scaled(tilted)]
    records = 1
    while True:
        whole = [_scaled(matrix @ matrix) for matrix in half]
        between = [_scaled(one @ two) for one, two in zip(half, whole, strict=True)]
        for count, found in ((2 * records, whole), (3 * records, between)):
            if (count >= 8 and max(map(_width, found)) < goal) or count >= MOST_GAP:
                return min(count, MOST_GAP)
        half, records = whole, 2 * records


def side_gaps(step: Array, end: Array, end_error: float, theta: float) -> Gaps:
    """Return all gaps of a side with the matrix S = ``step``, and the message ``end`` at its end.

    >>> step = np.full((4, 4), .25)
    >>> side_gaps(step, np.ones(4), 0.0, 1.0).longest
    8
    """
    tilted = step * np.exp(theta * np.array([-1.0, -1.0, 0.0, 0.0]))  # S D / e^theta
    longest = _longest(step, tilted, max(SETTLED * min(theta, 1.0), LEAST_SETTLED))
    seen, plain = powers(tilted, longest + 1), powers(step, longest + 1)
    made = Gaps(
        _scaled(seen[:-1] @ step), _scaled(plain[:-1] @ step), seen[:-1] @ end, end,
        seen[-1], plain[-1], 64 * (longest + 8) * ROUNDOFF, end_error,
    )  # fmt: skip
    tables = (made.seen, made.plain, made.ends, made.far, made.far_plain)
    # a step over pairs of records has zeros, which are exact; they are gone after two of them
    least = min(float(table[table > 0].min()) for table in tables)
    if not least > SMALLEST or not all((table > 0).all() for table in tables[2:]):
        raise NotSupported("likelihoods so far apart are not told apart by this bound")
    return made
