"""Whether persons differ: each person's own chain against one for all."""

from dataclasses import dataclass

import numpy as np

from undertow.errors import NotSupported
from undertow.models.tallies import Ints, Tally
from undertow.numerics import Array

__all__ = ["HomogeneityTest", "homogeneity_test", "of_persons"]

_DRAWS = 999
"""Samples drawn where counts are too small for the law of many; the least p-value is 1/1000."""
_MOST_DRAWN = 2 * 10**7
"""Rows of counts that are drawn in all (cost)."""
_FEW, _SHARE = 5.0, 0.2
"""The chi-square law is trusted where at most this share of expected counts is this small."""


@dataclass(frozen=True, slots=True)
class HomogeneityTest:
    """Whether one chain describes all persons.

    ``statistic`` is the likelihood ratio 2 sum N_pxy ln [p_p(y | x) / p(y | x)] of one chain for
    each person p against one for all, compared with a chi-square law of ``degrees`` degrees of
    freedom or, where counts are small, with samples of the one chain (``drawn``); a small
    ``p_value`` says that persons differ. ``persons`` counts those with a transition.

    >>> HomogeneityTest(9, 8.1, 16, 0.95, drawn=False).words()
    'no sign that persons differ (p = 0.95)'
    """

    persons: int
    statistic: float
    degrees: int
    p_value: float
    drawn: bool

    def words(self) -> str:
        """Return the outcome in plain words."""
        if not self.degrees:
            return "whether persons differ cannot be tested: no state was left by two of them"
        shown = f"p = {self.p_value:.2g}" if self.p_value >= 1e-12 else "p < 1e-12"
        if self.p_value >= 0.05:
            return f"no sign that persons differ ({shown})"
        return (
            f"persons differ ({shown}): one chain for all is not each person's chain, and noise "
            "made for it protects some of them less"
        )


def of_persons(tally: Tally | None) -> Ints:
    """Return the transitions of each person (P, k, k), or refuse a fit that kept none."""
    if tally is None or tally.persons is None:
        raise NotSupported(
            "persons are compared by the transitions of each, and this fit has kept none; fit the "
            "records themselves with MarkovChain.fit, with fewer states if there are many persons"
        )
    return tally.persons


def homogeneity_test(tally: Tally | None) -> HomogeneityTest:
    """Return the likelihood-ratio test of one chain for all persons; see `FittedChain`.

    Degrees of freedom: for each state, (persons who left it - 1) (states reached from it - 1).
    Visits count as fixed. Cost O(P k^2), times 1000 where counts are small.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> sample = [chain.simulate(500, seed=seed) for seed in range(5)]
    >>> MarkovChain.fit(sample, public=True).homogeneity_test().degrees
    8
    """
    from scipy.special import chdtrc

    counts = of_persons(tally)
    counts = counts[counts.sum(axis=(1, 2)) > 0]  # (P, k, k)
    left = counts.sum(axis=2)  # (P, k): how often each person left each state
    pooled = counts.sum(axis=0)  # (k, k)
    shares = pooled / np.maximum(pooled.sum(axis=1, keepdims=True), 1)
    statistic = float(_ratios(counts[None], shares)[0])
    ways = np.maximum((left > 0).sum(axis=0) - 1, 0) * np.maximum((pooled > 0).sum(axis=1) - 1, 0)
    degrees = int(ways.sum())
    if not degrees:
        return HomogeneityTest(len(counts), statistic, 0, 1.0, drawn=False)
    expected = (left[:, :, None] * shares)[(left[:, :, None] > 0) & (shares > 0)]
    small = float((expected < _FEW).mean()) > _SHARE
    if not small or left.size * _DRAWS > _MOST_DRAWN:
        p_value = float(chdtrc(degrees, statistic))
        return HomogeneityTest(len(counts), statistic, degrees, p_value, drawn=False)
    randomness = np.random.default_rng(0)
    reached = 0
    for _ in range(_DRAWS):
        drawn = randomness.multinomial(left, shares)  # (P, k, k)
        own = drawn.sum(axis=0)
        again = own / np.maximum(own.sum(axis=1, keepdims=True), 1)
        reached += bool(_ratios(drawn[None], again)[0] >= statistic * (1 - 1e-12))
    p_value = (1 + reached) / (1 + _DRAWS)
    return HomogeneityTest(len(counts), statistic, degrees, p_value, drawn=True)


def _ratios(counts: Ints, shares: Array) -> Array:
    """Return the likelihood ratios of samples (S, P, k, k) against rows (k, k), shape (S,)."""
    left = counts.sum(axis=3, keepdims=True)
    own = counts / np.maximum(left, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(counts > 0, counts * np.log(own / shares), 0.0)
    return np.asarray(np.maximum(2 * terms.sum(axis=(1, 2, 3)), 0.0))
