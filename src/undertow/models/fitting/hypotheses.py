"""Tests of a fitted chain: its order, its memory, drift, hours of the day, and persons.

All tests of a fit together fail a true model with probability at most `DOUBT`, by Holm's procedure
[holm1979]; a test passes if it would have noticed a departure of size `MATTERS` with probability
`POWER`, and is "not tested" otherwise. Few records are untested, never failed.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.models.chains import MarkovChain
from undertow.models.fitting.checks import Basis, Check
from undertow.models.fitting.tally import Ints, Tally
from undertow.models.sets import ModelSet
from undertow.numerics import Array

if TYPE_CHECKING:
    from undertow.models.base import Model
    from undertow.models.fitting.fit import FittedChain

__all__ = [
    "FEW",
    "MATTERS",
    "Autocorrelation",
    "Difference",
    "Dynamics",
    "Hypothesis",
    "RatioTest",
    "checks_of",
    "decide",
    "differ",
    "hypotheses_of",
    "memory",
    "memory_test",
    "sample",
    "shown_p_value",
]


DOUBT = 0.05
"""The largest share of fits to a true model of which some check fails."""
POWER = 0.8
"""The probability with which a check that passes would have noticed a departure that matters."""
FEW = 100
"""A state left fewer times than this is known only roughly: within about 10 percentage points."""
MOST_PERSONS = 10**5
"""Persons up to which a failed check makes a model of the population (cost: seconds)."""

MATTERS = 1.5
"""The departure that a check must be able to see: odds that are so many times those of the fit.

A departure matters where, in one half of the tables, the odds of the likeliest next state are this
many times those of the fit, and in the other half as many times smaller; of memory, where the
integrated autocorrelation is this many times that of the fit. Both are what small DP levels are
multiplied by for an attacker who knows no other record (a chain that moves on half as often has
about twice the sum of autocorrelations): what a plan leaks is then off by about this factor.
"""
_MOST_SAMPLES, _FEWEST_SAMPLES = 999, 30
"""Samples drawn where counts are too small for the law of many, and the fewest (cost)."""
_MOST_DRAWN = 2 * 10**7
"""Counts that are drawn in all (cost)."""
_SMALL_COUNT, _SMALL_SHARE = 5.0, 0.2
"""The chi-square law is trusted where at most this share of expected counts is this small."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Likelihood-ratio test of one law for several tables of transitions.

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
    """Base class of named likelihood-ratio tests."""

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
    if float((expected < _SMALL_COUNT).mean()) <= _SMALL_SHARE:
        p_value = float(chdtrc(degrees, statistic))
        return Difference(statistic, degrees, p_value, departure)
    return Difference(statistic, degrees, _drawn(left, shares, statistic), departure, drawn=True)


def _drawn(left: Ints, shares: Array, statistic: float) -> float:
    """Return the p-value of a statistic among samples of one law."""
    from scipy.special import stdtr

    randomness = np.random.default_rng(0)
    draws = int(np.clip(_MOST_DRAWN // (left.size * len(shares)), _FEWEST_SAMPLES, _MOST_SAMPLES))
    statistics = np.concatenate(
        [_ratios(randomness.multinomial(left, shares)[None]) for _ in range(draws)]
    )
    if draws == _MOST_SAMPLES:
        reached = int((statistics >= statistic * (1 - 1e-12)).sum())
        return (1 + reached) / (1 + draws)
    # a sum of very many terms: normal, with mean and variance estimated from the samples
    spread = float(statistics.std(ddof=1)) * math.sqrt(1 + 1 / draws)
    return float(stdtr(draws - 1, (float(statistics.mean()) - statistic) / max(spread, 1e-300)))


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


FEWEST_RECORDS = 100
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

    >>> from undertow.models.fitting.tally import tally
    >>> from undertow.models.chains import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.1, .9]])
    >>> codes = np.array(chain.simulate(4000, seed=1))
    >>> model = Dynamics(chain.transition, chain.initial, np.arange(2))
    >>> correlation = memory(tally(codes, (0, 1)), model)
    >>> round(correlation.modelled, 6), 6 < correlation.measured < 13, correlation.p_value > .01
    (9.0, True, True)
    """
    records, pairs = int(tally.visits.sum()), tally.pairs.astype(np.float64)
    share = tally.visits / max(records, 1)  # (k,)
    weight = share * (1 - share)
    lags = _lags(pairs, len(model.law))
    if not lags or records < FEWEST_RECORDS or not (weight > 0).any():
        return None
    states = np.argsort(-weight)[: min(_MOST_STATES, len(weight) - 1)]  # of two states one
    gap = tally.records / max(pairs[1], 1) - 1  # steps that were not counted, for each that was
    estimates: list[tuple[float, float, float, int]] = []
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
        estimates.append((z, float((longer / error[sure]).max()), modelled, int(state)))
    if not estimates:
        return None
    from scipy.special import ndtr

    z, _, modelled, state = max(estimates)
    measured, last = _measured(tally, state)
    least = min(1.0, tests * float(ndtr(-z)))
    return Autocorrelation(measured, modelled, last, least, min(f[1] for f in estimates), tests)


def _lags(pairs: Array, size: int) -> list[int]:
    """Return the lags 2, 4, 8 ... at which half of the records still have a partner."""
    far = np.flatnonzero(2 * pairs >= pairs[1]) if len(pairs) > 1 else np.zeros(1, np.int64)
    most = int(far[-1])
    lags, lag = [], 2
    while lag <= most and size * lag * (lag + size) <= _MOST_WORK:
        lags.append(lag)
        lag *= 2
    return lags


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
    showing = np.flatnonzero(inside)
    distance = np.abs(np.subtract.outer(np.arange(most), np.arange(most)))
    nearer = np.minimum.outer(np.arange(most), np.arange(most))
    spread, reached = np.zeros(len(lags)), np.eye(len(law))[:, showing]  # back^j, from x to s
    paths = np.empty((most, len(law), len(showing)))
    for lag in range(most):
        paths[lag] = reached
        reached = back @ reached
    for x in np.flatnonzero(law > 0):
        # [j, j']: both of the records j and j' steps before x are in s
        both = (paths[:, x] @ before[:most, showing].T)[nearer, distance]
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


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One hypothesis, before it is decided together with the others of a fit.

    ``statistic`` is None if nothing could be computed; ``passed``, ``failed`` and ``untested``
    are the words for each outcome, ``alternative`` makes the model that a failure suggests,
    and ``advice`` is added to its words.
    """

    name: str
    statistic: Difference | Autocorrelation | None
    passed: str = ""
    failed: str = ""
    untested: str = ""
    alternative: "Callable[[], Model | None] | None" = None
    advice: str = ""

    @property
    def p_value(self) -> float | None:
        """The p-value of the statistic, None where nothing could be tested."""
        if self.statistic is None or (
            isinstance(self.statistic, Difference) and not self.statistic.degrees
        ):
            return None
        return self.statistic.p_value


def decide(tests: Iterable[Hypothesis], basis: Basis) -> Iterator[Check]:
    """Decide tests together: failures by Holm's procedure, passes by their power.

    The power of a test is that at the strictest level which the procedure can ask of it.

    >>> doubtful = Hypothesis("time", Difference(7.4, 2, 0.025, departure=50.0), "alike", "drifts")
    >>> sound = Hypothesis("order", Difference(1.0, 2, 0.6, departure=50.0), "one record suffices")
    >>> [check.outcome for check in decide([doubtful], "public")]
    ['failed']
    >>> [check.outcome for check in decide([doubtful, sound], "public")]
    ['failed', 'passed']
    >>> [check.outcome for check in decide([doubtful, sound, sound], "public")]
    ['passed', 'passed', 'passed']
    """
    held = list(tests)
    values = sorted((test.p_value, place) for place, test in enumerate(held)
                    if test.p_value is not None)  # fmt: skip
    failed: set[int] = set()
    for step, (p_value, place) in enumerate(values):
        if p_value > DOUBT / (len(values) - step):
            break
        failed.add(place)
    for place, test in enumerate(held):
        if test.statistic is None or test.p_value is None:
            yield Check(test.name, "not tested", test.untested, basis)
            continue
        p_value = test.p_value
        if place in failed:
            other = None if test.alternative is None else test.alternative()
            sentence = f"{test.failed}; {test.advice}" if other and test.advice else test.failed
            yield Check(test.name, "failed", sentence, basis, other, p_value=p_value)
        elif (power := test.statistic.power(DOUBT / len(values))) < POWER:
            few = (
                f"{test.passed}, but the records are too few to tell: "
                f"{_DEPARTURES[type(test.statistic)]} would be noticed with probability "
                f"{np.floor(100 * power) / 100:.2f} only"
            )
            yield Check(test.name, "not tested", few, basis, p_value=p_value)
        else:
            yield Check(test.name, "passed", test.passed, basis, p_value=p_value)


_DEPARTURES: dict[type, str] = {
    Difference: f"odds that differ by a factor of {MATTERS:g} from those of the fit",
    Autocorrelation: f"autocorrelations that add up to {MATTERS:g} times as much",
}


def checks_of(chain: "FittedChain", basis: Basis) -> tuple[Check, ...]:
    """Return all checks of a fitted chain, in the order of reports.

    >>> series = MarkovChain([[.9, .1], [.3, .7]]).simulate(2999, seed=1)
    >>> chain = MarkovChain.fit(series, public=True)
    >>> [(check.name, check.outcome) for check in checks_of(chain, "public")]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('sample', 'passed'), ('order', 'passed'), ('memory', 'passed'), ('time', 'passed'),
     ('hours', 'not tested'), ('persons', 'not tested')]
    """
    left = chain.counts.sum(axis=1)
    rarest = int(left.argmin())
    least = int(left[rarest])
    counts = f"{int(left.sum())} transitions; {chain.states[rarest]!r} was left {least} times"
    return sample(least, counts, basis), *decide(hypotheses_of(chain), basis)


def hypotheses_of(chain: "FittedChain") -> tuple[Hypothesis, ...]:
    """Return the tests of a fitted chain."""
    return tuple(test(chain) for test in (_order, _memory, _time, _hours, _persons))


def sample(least: int, reason: str, basis: Basis) -> Check:
    """Return the check of the sample size: it cannot fail.

    >>> sample(40, "40 records", "public").words
    '40 records, fewer than 100: known only roughly'
    """
    if least >= FEW:
        return Check("sample", "passed", reason, basis)
    return Check("sample", "not tested", f"{reason}, fewer than {FEW}: known only roughly", basis)


def _order(chain: "FittedChain") -> Hypothesis:
    from undertow.models.second_order import SecondOrderChain

    try:
        test = chain.order_test()
    except NotSupported:
        return Hypothesis("order", None, untested="only pairs of records were counted")

    def longer() -> "Model | None":
        try:
            return SecondOrderChain.from_fit(chain)
        except InvalidModel:  # runs of three that were never seen
            return None

    plain, failed = test.words(failed=False), test.words(failed=True)
    return Hypothesis("order", test.difference, plain, failed, plain, longer)


def _memory(chain: "FittedChain") -> Hypothesis:
    model = Dynamics(chain.transition, chain.initial, np.arange(chain.size))
    return memory_test(chain.tally, model)


def memory_test(tally: Tally | None, model: Dynamics, what: str = "the chain") -> Hypothesis:
    """Return the test whether records remember longer than a model."""
    correlation = None if tally is None else memory(tally, model)
    if correlation is None:
        return Hypothesis("memory", None, untested="too few records follow each other")
    times = correlation.measured / max(correlation.modelled, 1e-9)
    more = (
        ": at small DP levels an attacker who knows no other record learns about "
        f"{times:.2g} times what the chain says"
        if times > 1
        else ""
    )
    return Hypothesis(
        "memory", correlation, correlation.words(what), correlation.words(what) + more
    )


def _time(chain: "FittedChain") -> Hypothesis:
    if chain.tally is None:
        return Hypothesis("time", None, untested="the order of the transitions was not kept")
    halves = chain.tally.halves
    if halves is None:
        reason = "some person has more records than were kept while reading the table in pieces"
        return Hypothesis("time", None, untested=reason)
    test = differ(halves)
    return Hypothesis(
        "time",
        test,
        f"the first half moves like the second ({test.shown()})",
        f"the first half of the records moves otherwise than the second ({test.shown()})",
        "one half of the records has too few of them",
        lambda: _each(halves, chain),
    )


def _hours(chain: "FittedChain") -> Hypothesis:
    hours = None if chain.tally is None else chain.tally.hours
    if hours is None:
        return Hypothesis("hours", None, untested="the records have no clock times")
    test = differ(hours)
    return Hypothesis(
        "hours",
        test,
        f"all hours of the day move alike ({test.shown()})",
        f"hours of the day move differently ({test.shown()}): where the hour is public, fit one "
        "matrix for each",
        "all records are of one hour",
    )


def _persons(chain: "FittedChain") -> Hypothesis:
    persons = None if chain.tally is None else chain.tally.persons
    if persons is None or len(persons) < 2:
        reason = "the records are those of one person"
        if persons is None:
            reason = "there are too many persons to keep the transitions of each"
            reason = reason if chain.tally is not None else "persons unknown"
        return Hypothesis("persons", None, untested=reason)
    test = chain.homogeneity_test()
    plain, failed = test.words(failed=False), test.words(failed=True)
    return Hypothesis(
        "persons", test.difference, plain, failed, plain,
        lambda: _population(chain, len(persons)), "plan for the population",
    )  # fmt: skip


def _each(tables: Ints, chain: "FittedChain") -> "Model | None":
    """Return the set of the chains of several tables, None where one of them is no chain."""
    try:
        chains = [
            MarkovChain.from_counts(
                table, chain.states, prior=chain.prior, length=chain.length, public=True
            )
            for table in tables
        ]
    except InvalidModel:
        return None
    plain = [MarkovChain(one.transition, one.states, length=one.length) for one in chains]
    return ModelSet(plain, "the first half of the records, and the second")


def _population(chain: "FittedChain", persons: int) -> "Model | None":
    """Return the boxes that hold every person's chain, None where there are no such boxes."""
    if persons > MOST_PERSONS:
        return None
    from undertow.models.fitting.fit import population

    try:
        return population(chain.tally, length=chain.length)
    except (NotSupported, InvalidInput):  # more than two states, or persons with few records
        return None
