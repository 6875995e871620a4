"""The likelihood ratio of several tables of transitions against one law for all of them.

One statistic serves four checks of a fit: the tables are those of the record before the last
(order), of the halves of the records (time), of the hours of the day, or of the persons. Used by
`undertow.models.checking`, `undertow.models.fitting` and `undertow.models.persons`.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.models.tallies import Ints
from undertow.numerics import Array

__all__ = ["MATTERS", "Difference", "RatioTest", "differ", "shown_p_value"]

MATTERS = 1.5
"""The departure that a check must be able to see: odds that are so many times those of the fit.

A departure matters where, in one half of the tables, the odds of the likeliest next state are this
many times those of the fit, and in the other half as many times smaller; of memory, where the
integrated autocorrelation is this many times that of the fit. Both are what small DP levels are
multiplied by for an attacker who knows no other record (a chain that moves on half as often has
about twice the sum of autocorrelations): what a plan leaks is then off by about this factor.
"""
_DRAWS, _FEWEST = 999, 30
"""Samples drawn where counts are too small for the law of many, and the fewest (cost)."""
_MOST_DRAWN = 2 * 10**7
"""Counts that are drawn in all (cost)."""
_FEW, _SHARE = 5.0, 0.2
"""The chi-square law is trusted where at most this share of expected counts is this small."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Whether several tables of transitions have one law: the likelihood ratio against that.

    2 sum N_cxy ln [p_c(y | x) / p(y | x)] over tables c, compared with a chi-square law of
    ``degrees`` degrees of freedom, which holds in the limit of many transitions [anderson1957], or,
    where counts are small, with samples of the one law (``drawn``). ``departure`` is the
    noncentrality of the smallest departure that matters (`MATTERS`).
    """

    statistic: float
    degrees: int
    p_value: float
    departure: float = 0.0
    drawn: bool = False

    def power(self, level: float) -> float:
        """Return the probability that a departure that matters gives a p-value below ``level``.

        >>> round(Difference(1.0, 2, 0.6, departure=14.0).power(0.01), 1)
        0.8
        """
        from scipy.special import chdtri
        from scipy.stats import ncx2

        if not self.degrees:
            return 0.0
        return float(ncx2.sf(chdtri(self.degrees, level), self.degrees, self.departure))

    def stretched(self, factor: float) -> "Difference":
        """Return the test where the ratio may be larger by a factor [rao1981], by chi-square.

        >>> Difference(10.0, 2, 0.0067).stretched(2.0).p_value < 0.09
        True
        """
        from scipy.special import chdtrc

        if not self.degrees:
            return self
        least, apart = self.statistic / factor, self.departure / factor
        p_value = max(self.p_value, float(chdtrc(self.degrees, least)))
        return Difference(least, self.degrees, p_value, apart, self.drawn)

    def shown(self) -> str:
        """Return the p-value in words."""
        return shown_p_value(self.p_value)


class RatioTest:
    """A test by a likelihood ratio: its numbers."""

    __slots__ = ()

    difference: Difference

    @property
    def statistic(self) -> float:
        """The likelihood ratio."""
        return self.difference.statistic

    @property
    def degrees(self) -> int:
        """Its degrees of freedom."""
        return self.difference.degrees

    @property
    def p_value(self) -> float:
        """The probability of so large a ratio where nothing differs."""
        return self.difference.p_value

    @property
    def drawn(self) -> bool:
        """Whether it was compared with samples, because counts are small."""
        return self.difference.drawn


def shown_p_value(p_value: float) -> str:
    """Return a p-value in words.

    >>> shown_p_value(0.0312), shown_p_value(0)
    ('p = 0.031', 'p < 1e-12')
    """
    return f"p = {p_value:.2g}" if p_value >= 1e-12 else "p < 1e-12"


def differ(tables: Ints) -> Difference:
    """Return the test whether tables of transitions, shape (c, k, k), have one law.

    Degrees of freedom: for each state, (tables in which it is left - 1) times (states it is left
    for - 1). How often a state is left counts as fixed. Where many expected counts are small the
    statistic is compared with samples of the pooled law: by its rank among 999, or, for tables so
    many that fewer are drawn, by Student's law of a further sample. Cost O(c k^2), times the
    samples.

    >>> differ(np.array([[[90, 10], [9, 21]], [[60, 40], [9, 21]]])).degrees
    2
    """
    from scipy.special import chdtrc

    counts = np.asarray(tables, dtype=np.int64)
    counts = counts[counts.sum(axis=(1, 2)) > 0]
    left, pooled = counts.sum(axis=2), counts.sum(axis=0)  # (c, k), (k, k)
    shares = pooled / np.maximum(pooled.sum(axis=1, keepdims=True), 1)
    statistic = float(_ratios(counts[None])[0])
    ways = np.maximum((left > 0).sum(axis=0) - 1, 0) * np.maximum((pooled > 0).sum(axis=1) - 1, 0)
    degrees = int(ways.sum())
    if not degrees:
        return Difference(statistic, 0, 1.0)
    departure = float((_apart(left) * _departures(shares)).sum())
    expected = (left[:, :, None] * shares)[(left[:, :, None] > 0) & (shares > 0)]
    if float((expected < _FEW).mean()) <= _SHARE:
        p_value = float(chdtrc(degrees, statistic))
        return Difference(statistic, degrees, p_value, departure)
    return Difference(statistic, degrees, _drawn(left, shares, statistic), departure, drawn=True)


def _drawn(left: Ints, shares: Array, statistic: float) -> float:
    """Return the p-value of a statistic among samples of one law."""
    from scipy.special import stdtr

    randomness = np.random.default_rng(0)
    draws = int(np.clip(_MOST_DRAWN // (left.size * len(shares)), _FEWEST, _DRAWS))
    found = np.concatenate(
        [_ratios(randomness.multinomial(left, shares)[None]) for _ in range(draws)]
    )
    if draws == _DRAWS:
        reached = int((found >= statistic * (1 - 1e-12)).sum())
        return (1 + reached) / (1 + draws)
    # a sum of very many terms: normal, with mean and variance estimated from the samples
    spread = float(found.std(ddof=1)) * math.sqrt(1 + 1 / draws)
    return float(stdtr(draws - 1, (float(found.mean()) - statistic) / max(spread, 1e-300)))


def _apart(left: Ints) -> Array:
    """Return for each state how many departures two halves of the tables amount to, (k,).

    With n and m departures in the halves and rows tilted apart by 2 t, a common row takes up part
    of it: n m / (n + m) (2 t)^2 instead of (n + m) t^2. Halves are alternate tables by size.
    """
    ranked = -np.sort(-left, axis=0)  # (c, k)
    one, other = ranked[::2].sum(axis=0), ranked[1::2].sum(axis=0)
    return np.asarray(4 * one * other / np.maximum(one + other, 1))


def _departures(shares: Array) -> Array:
    """Return for each state twice the divergence of one departure of its row that matters, (k,).

    With p the probability of the likeliest next state, tilted by t = +-ln MATTERS, the divergence
    is ln (1 - p + p e^t) averaged over both signs up to terms of the fourth order, p (1 - p) t^2.
    """
    most = shares.max(axis=1)
    return np.asarray(most * (1 - most) * math.log(MATTERS) ** 2)


def _ratios(counts: Ints) -> Array:
    """Return the likelihood ratios of samples of tables (S, c, k, k), shape (S,)."""

    def weighed(table: Ints) -> Array:
        """Return sum N_xy ln N_xy - sum N_x ln N_x over the last two axes."""
        return np.asarray(_entropy(table).sum(axis=(-2, -1)) - _entropy(table.sum(-1)).sum(-1))

    return np.asarray(np.maximum(2 * (weighed(counts).sum(-1) - weighed(counts.sum(1))), 0.0))


def _entropy(counts: Ints) -> Array:
    """Return n ln n."""
    return np.asarray(counts * np.log(np.maximum(counts, 1)))
