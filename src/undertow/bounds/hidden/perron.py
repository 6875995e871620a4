"""Perron vectors with a certified error, and the leakage to the ignorant that follows.

**Theorem** (docs, theory-memory). Let the law of the records be attractive, two symbols, and let
changing a record from 0 to 1 multiply a likelihood by at most e^theta. Then over all such
likelihoods, all targets and all lengths

    sup ln E[f | x_i = 1] / E[f | x_i = 0] = theta + ln (sum_1 u r / sum_0 u r) - ln pi(1) / pi(0),

with r = T D r and u = u D T the Perron vectors, D = e^(theta x), pi the stationary law, sums over
the hidden states of a symbol. *Proof.* The worst likelihood is exp(theta sum x_t), by the FKG
inequality; it may ignore records, so the value grows with the records on either side, and messages
of n records tend to the Perron vectors.

**Error.** Let M be a positive matrix with Perron vector v*, and v any positive vector. In Hilbert's
metric d, M contracts by tau = tanh(Delta / 4), Delta the largest ln M_ik M_jl / (M_il M_jk)
[birkhoff1957], so d(v, v*) <= d(v, M v) + tau d(v, v*), that is

    d(v, v*) <= d(v, M v) / (1 - tau),      d(v, M v) = ln max (M v / v) - ln min (M v / v),

the quotients of Collatz and Wielandt. A vector within d of v* moves the logarithm of a ratio of two
sums by at most d. M may be any power of the matrix in question: a higher one contracts more.
"""

import math

import numpy as np
import numpy.typing as npt

from undertow.numerics import ROUNDOFF, Array, log_error, up

__all__ = ["ignorant_upper", "ignorant_value", "perron"]

MOST_SQUARES = 16
"""Powers 2^0 .. 2^16 of a matrix that are tried (cost)."""

ITERATIONS = 60
"""Products with the largest power on the way to the Perron vector (cost)."""


def perron(matrix: Array) -> tuple[Array, float]:
    """Return a right Perron vector, and a bound on its distance from the true one (upper side).

    The distance is inf where no power that was tried is positive. Cost O(m^3).

    >>> vector, width = perron(np.array([[.9, .1], [.2, .8]]))
    >>> bool(abs(vector[0] / vector[1] - 1) < 1e-12), width < 1e-13
    (True, True)
    """
    size = len(matrix)
    powers = [matrix / matrix.max()]
    for _ in range(MOST_SQUARES):
        square = powers[-1] @ powers[-1]
        powers.append(square / square.max())
    vector = powers[-1].sum(axis=1)
    for place in (-1, 0):
        for _ in range(ITERATIONS):
            vector = powers[place] @ vector
            vector = vector / vector.max()
    if not (vector > 0).all():
        return vector, math.inf
    widths = [_width(power, vector, 2**place * (size + 4)) for place, power in enumerate(powers)]
    return vector, min(widths)


def _width(power: Array, vector: Array, roundings: int) -> float:
    """Return the bound on d(v, v*) from one power, whose entries have so many roundings each."""
    if not (power > np.finfo(np.float64).tiny * 2**60).all() or roundings > 2**40:
        return math.inf  # an entry that underflowed has no relative error
    logs = np.log(power)
    # Delta: largest over rows i, j of the range of ln M_i. - ln M_j.
    apart = logs[:, None] - logs[None]  # (i, j, k)
    largest = float(np.abs(logs).max())
    error = 2 * roundings * ROUNDOFF + log_error(8, 1 + largest)
    delta = float((apart.max(axis=2) - apart.min(axis=2)).max()) + 4 * error
    slack = 2 / (math.exp(min(delta / 2, 700.0)) + 1)  # 1 - tanh(Delta / 4)
    quotients = np.log(power @ vector) - np.log(vector)
    spread = float(quotients.max() - quotients.min()) + 4 * error
    return up(spread / (slack * (1 - 64 * ROUNDOFF)), 8)


def ignorant_value(
    transition: Array, shown: npt.NDArray[np.intp], theta: float, state: int = 1
) -> tuple[float, float]:
    """Return the closed form for one state of two against the other, and a bound on its error.

    Where the law is not attractive it is the limit of attacks, and no bound.

    >>> value, error = ignorant_value(np.array([[.9, .1], [.1, .9]]), np.arange(2), 1.0)
    >>> round(value, 6), error < 1e-12
    (4.499453, True)
    """
    counted = (shown == state).astype(np.float64)
    tilt = np.exp(theta * (counted - 1.0))  # e^theta and 1, up to a factor
    ahead, first = perron(transition * tilt)  # T D
    behind, second = perron(transition.T * tilt)  # (D T)^T
    law, third = perron(transition.T)
    inside = shown == state

    def odds(weights: Array) -> float:
        return math.log(float(weights[inside].sum())) - math.log(float(weights[~inside].sum()))

    value = theta + odds(ahead * behind) - odds(law)
    largest = 1 + theta + abs(odds(ahead * behind)) + abs(odds(law))
    return value, up(first + second + third + log_error(4 * len(transition) + 16, largest), 8)


def ignorant_upper(
    transition: Array, shown: npt.NDArray[np.intp], thetas: tuple[float, float]
) -> float:
    """Return the leakage to the ignorant on an attractive chain, any length, rounded up.

    ``thetas[a]`` bounds how far a likelihood grows where a record becomes ``a``.

    >>> round(ignorant_upper(np.array([[.9, .1], [.1, .9]]), np.arange(2), (1.0, 1.0)), 6)
    4.499453
    """
    found = [ignorant_value(transition, shown, thetas[state], state) for state in (0, 1)]
    return max(up(value + error) for value, error in found)
