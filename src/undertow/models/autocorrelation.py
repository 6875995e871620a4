"""The memory of records against that of a fitted chain: sums of autocorrelations, and their law.

For a state s that has a share c of the records let T_L = sum over pairs of records (x, y) that are
l <= L steps apart of (1{x = s} - c) (1{y = s} - P^l(x, s)). Under the chain each term is a sum of
martingale differences: what a step to y adds to P^i(., s), times how many of the records j <= L - i
steps before it are in s. The rows of P are estimated from the same steps, which takes from that
number its mean given the state that the step leaves (the projection on the scores of the row). So
T_L is normal in the limit of many records, with mean 0 and the variance

    records * sum_x pi_x sum_{i, i'} Cov_x(P^i(Y, s), P^i'(Y, s)) Cov_x(W_{L-i}, W_{L-i'}),

W_m the number of the m records up to x that are in s: all of it from powers of the chain and of its
reversal. T_L is compared with it for L = 2, 4, 8, ... from about the chain's own memory on (shorter
ones rest on few events, and say nothing of a longer memory), and for several states; the least
p-value times their number is that of the check (Bonferroni). One side only: a longer memory leaks
more.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from undertow.models.ratios import MATTERS, shown_p_value
from undertow.models.tallies import Tally
from undertow.numerics import Array

__all__ = ["Autocorrelation", "Dynamics", "memory"]

FEWEST = 100
"""Records below which no memory is measured."""
_MOST_STATES = 4
"""States whose memory is tested, those with the most records first."""
_MOST_WORK = 10**8
"""Products of a covariance, m (L^2 + L m), beyond which lags are left out (cost)."""
_WINDOW = 5.0
"""Autocorrelations are summed up to the first lag of this many times their sum so far."""


class Dynamics(NamedTuple):
    """A chain whose states show records: its transitions (m, m), its law (m,), what each shows."""

    step: Array
    law: Array
    shows: npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """The integrated autocorrelation 1 + 2 sum rho_k of a state: measured, and under the chain.

    For small DP levels the leakage to an attacker who knows no other record is about so many times
    the level (where neighbours tend to agree; docs, "Memory"): a limit, not a bound. ``p_value`` is
    that of so long a memory under the chain, ``detectable`` the number of standard errors that a
    memory longer by a factor of `MATTERS` is apart (1 where records alternate), in the best of
    ``tests`` comparisons.
    """

    measured: float
    modelled: float
    lags: int
    p_value: float
    detectable: float
    tests: int

    def power(self, level: float) -> float:
        """Return the probability that a memory longer by `MATTERS` is noticed at a level."""
        from scipy.special import ndtr, ndtri

        return float(ndtr(self.detectable + ndtri(level / self.tests)))

    def words(self, what: str = "the chain") -> str:
        """Return the comparison in words."""
        return (
            f"autocorrelations add up to {self.measured:.3g} over {self.lags} steps, under {what} "
            f"to {self.modelled:.3g} ({shown_p_value(self.p_value)})"
        )


def memory(tally: Tally, model: Dynamics) -> Autocorrelation | None:
    """Return the memory of records against that of a fitted chain, None if too few were counted.

    The sum that is shown is that of the state that departs most, up to the first lag beyond five
    times the sum so far [sokal1997]. Cost O(m L (L + m)) for each state, with L up to 400 lags.

    >>> from undertow.models.tallies import tally
    >>> from undertow.models.markov import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.1, .9]])
    >>> codes = np.array(chain.simulate(4000, seed=1))
    >>> model = Dynamics(chain.transition, chain.initial, np.arange(2))
    >>> found = memory(tally(codes, (0, 1)), model)
    >>> round(found.modelled, 6), 6 < found.measured < 13, found.p_value > .01
    (9.0, True, True)
    """
    records, pairs = int(tally.visits.sum()), tally.pairs.astype(np.float64)
    share = tally.visits / max(records, 1)  # (k,)
    weight = share * (1 - share)
    lags = _lags(pairs, len(model.law))
    if not lags or records < FEWEST or not (weight > 0).any():
        return None
    states = np.argsort(-weight)[: min(_MOST_STATES, len(weight) - 1)]  # of two states one
    gap = tally.records / max(pairs[1], 1) - 1  # steps that were not counted, for each that was
    found: list[tuple[float, float, float, int]] = []
    tests = 0
    for state in states[weight[states] > 0]:
        expected, spread, modelled = _moments(model, int(state), lags, gap)
        # of the records of a pair, the first and the second are of a state equally often
        near, inside = slice(1, lags[-1] + 1), share[state]
        halves = tally.ends[near] / 2  # (lags, k)
        residual = tally.together[near, state] - inside * halves[:, state]
        residual -= expected[1:, state] * halves[:, state] - inside * (expected[1:] * halves).sum(1)
        sums = np.cumsum(residual)[np.array(lags) - 1]
        error = np.sqrt(tally.records * spread)  # (lags,)
        sure = (error > 1e-9 * records) & (np.array(lags) >= min(modelled / 2, lags[-1]))
        if not sure.any() or not math.isfinite(modelled):
            continue
        tests += int(sure.sum())
        z = float((sums[sure] / error[sure]).max())
        longer = (MATTERS - 1) / 2 * max(modelled, 1) * weight[state] * pairs[np.array(lags)][sure]
        found.append((z, float((longer / error[sure]).max()), modelled, int(state)))
    if not found:
        return None
    from scipy.special import ndtr

    z, _, modelled, state = max(found)
    measured, last = _measured(tally, state)
    least = min(1.0, tests * float(ndtr(-z)))
    return Autocorrelation(measured, modelled, last, least, min(f[1] for f in found), tests)


def _lags(pairs: Array, size: int) -> list[int]:
    """Return 2, 4, 8 ... up to where half of the records still have a partner."""
    far = np.flatnonzero(2 * pairs >= pairs[1]) if len(pairs) > 1 else np.zeros(1, np.int64)
    most = int(far[-1])
    found, lag = [], 2
    while lag <= most and size * lag * (lag + size) <= _MOST_WORK:
        found.append(lag)
        lag *= 2
    return found


def _moments(
    model: Dynamics, state: int, lags: list[int], gap: float
) -> tuple[Array, Array, float]:
    """Return P^l(., s), the variance of T_L by record, and the memory of s.

    ``gap``: of steps whose rows were estimated from others, because a record is missing, the mean
    is not taken away.
    """
    step, law, shows = model
    inside, most = (shows == state).astype(np.float64), lags[-1]
    share = float(law @ inside)
    back = (step * law[:, None]).T / np.maximum(law, 1e-300)[:, None]  # the reversed chain
    ahead, before = np.empty((2, most + 1, len(law)))  # [i, y] = P^i(y, s), and of the reversal
    ahead[0] = before[0] = inside
    for lag in range(1, most + 1):
        ahead[lag], before[lag] = step @ ahead[lag - 1], back @ before[lag - 1]
    within = np.eye(int(shows.max()) + 1)[:, shows] * law  # (k, m): the law within a state
    expected = ahead @ (within / np.maximum(within.sum(axis=1, keepdims=True), 1e-300)).T
    integrated = np.linalg.inv(np.eye(len(law)) - step + law) - np.eye(len(law))
    modelled = 1 + 2 * float((law * inside) @ integrated @ inside) / (share * (1 - share))
    seen = np.flatnonzero(inside)
    distance = np.abs(np.subtract.outer(np.arange(most), np.arange(most)))
    nearer = np.minimum.outer(np.arange(most), np.arange(most))
    spread, reached = np.zeros(len(lags)), np.eye(len(law))[:, seen]  # back^j, from x to s
    paths = np.empty((most, len(law), len(seen)))
    for lag in range(most):
        paths[lag] = reached
        reached = back @ reached
    for x in np.flatnonzero(law > 0):
        # [j, j']: both of the records j and j' steps before x are in s
        both = (paths[:, x] @ before[:most, seen].T)[nearer, distance]
        mean = before[:most, x]
        product = np.outer(mean, mean)
        counts = np.cumsum(np.cumsum(both - product + gap * product, axis=0), axis=1)
        adds = ahead[:most]
        moves = (adds * step[x]) @ adds.T - np.outer(adds @ step[x], adds @ step[x])
        for place, lag in enumerate(lags):
            before_it = counts[lag - 1 :: -1, lag - 1 :: -1][:lag, :lag]
            spread[place] += law[x] * float((moves[:lag, :lag] * before_it).sum())
    return expected, np.maximum(spread, 0.0), modelled


def _measured(tally: Tally, state: int) -> tuple[float, int]:
    """Return 1 + 2 sum rho_k of a state, and up to which lag it was summed."""
    pairs = tally.pairs.astype(np.float64)
    share = tally.visits[state] / tally.visits.sum()
    # sums of (1{x_t = s} - share) (1{x_t+l = s} - share) over pairs, (lags + 1,)
    products = tally.together[:, state] - share * tally.ends[:, state] + share**2 * pairs
    sums = 1 + 2 * np.cumsum(products[1:] / np.maximum(pairs[1:], 1)) / (share * (1 - share))
    lags = np.arange(1, len(sums) + 1)
    beyond = np.flatnonzero((lags >= _WINDOW * sums) & (pairs[1:] > 0))
    last = int(beyond[0]) if beyond.size else int(np.flatnonzero(pairs[1:] > 0)[-1])
    return float(sums[last]), int(lags[last])
