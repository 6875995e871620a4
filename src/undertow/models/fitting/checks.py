"""What was tested before a fitted model is believed, and what each failure would cost.

A leakage is exact under a model; the way from records to the model is not. Whoever fits a model
has looked at the records, so the outcome of a test is a fact about them: `Check.basis` says whether
they were public.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from undertow.errors import FailedChecks, InvalidInput, InvalidModel
from undertow.models.described import fields, number, text
from undertow.models.fitting.tally import Ints, Tally
from undertow.models.records import Origin, weakest
from undertow.numerics import Array, check_listed, shown

if TYPE_CHECKING:
    from undertow.models.base import Model

__all__ = [
    "MATTERS",
    "NAMES",
    "SAME_RECORDS",
    "Autocorrelation",
    "Basis",
    "Check",
    "Difference",
    "Dynamics",
    "Outcome",
    "RatioTest",
    "accept_option",
    "accepted",
    "check_accepted",
    "checks_from_list",
    "differ",
    "failed",
    "listed",
    "memory",
    "origin_of",
    "privately",
    "shown_p_value",
    "untested",
    "without_alternatives",
    "worst_of",
]


Outcome = Literal["passed", "failed", "not tested"]

Basis = Literal["public", "not private", "private"]
"""What a check was computed from: public records, private ones, or a private fit of these."""

NAMES = ("sample", "order", "memory", "time", "hours", "persons")
"""The checks of a fit, in the order in which they are told."""

_BASES: dict[Basis, str] = {
    "public": "computed from public records",
    "not private": "computed from the records themselves: NOT PRIVATE",
    "private": "computed from a private fit",
}

_WORSE: tuple[Outcome, ...] = ("passed", "not tested", "failed")

_MOST = 32
"""Checks that a file may hold."""


@dataclass(frozen=True, slots=True)
class Check:
    """One assumption of a model, whether the records bear it out, and what is at stake.

    ``alternative`` is the model that the records suggest instead. ``leakage`` holds what a plan
    leaks under it: what an attack attains, and what is proved (None where no bound is known).
    ``p_value`` is that of the test by itself, None for what is no test; whether the check failed is
    decided over all tests of a fit together (`undertow.models.fitting.checking`).

    >>> check = Check("order", "failed", "the last two records predict more than the last one")
    >>> print(check.summary())
    order: failed; the last two records predict more than the last one
    """

    name: str
    outcome: Outcome
    words: str
    basis: Basis = "not private"
    alternative: "Model | None" = None
    leakage: tuple[float, float | None] | None = None
    p_value: float | None = None

    def __post_init__(self) -> None:
        """Refuse outcomes and bases that there are not."""
        if self.outcome not in get_args(Outcome) or self.basis not in get_args(Basis):
            raise InvalidModel(
                f"a check is {', '.join(get_args(Outcome))}, on a basis that is "
                f"{', '.join(get_args(Basis))}; found {self.outcome!r} and {self.basis!r}"
            )

    @property
    def origin(self) -> str:
        """What the check was computed from, in words."""
        return _BASES[self.basis]

    def cost(self) -> str:
        """Return what the plan leaks under the alternative in words, '' where it is not known.

        >>> Check("time", "failed", "it drifts", leakage=(1.23456, 2.0)).cost()
        'this plan leaks between 1.2345 and 2 under the model that the records suggest instead'
        """
        from undertow.rounding import above, below

        if self.leakage is None:
            return ""
        least, most = self.leakage
        span = f"at least {below(least)}"
        if most is not None:
            span = (
                f"between {below(least)} and {above(most)}" if least else f"at most {above(most)}"
            )
        return f"this plan leaks {span} under the model that the records suggest instead"

    def summary(self) -> str:
        """Return the check in one line: its name, its outcome, the reason, what a failure costs."""
        cost = self.cost()
        return f"{self.name}: {self.outcome}; {self.words}" + (f"; {cost}" if cost else "")

    def priced(self, lower: float, upper: float | None) -> "Check":
        """Return the check with what a plan leaks under its alternative."""
        return replace(self, leakage=(lower, upper))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        described: dict[str, Any] = {
            "name": self.name,
            "outcome": self.outcome,
            "words": self.words,
            "basis": self.basis,
        }
        if self.alternative is not None:
            described["alternative"] = self.alternative.law_dict()
        if self.leakage is not None:
            described["leakage"] = list(self.leakage)
        if self.p_value is not None:
            described["p_value"] = self.p_value
        return described

    @classmethod
    def from_dict(cls, description: Any) -> "Check":
        """Return the check described by `to_dict`."""
        from undertow.models.registry import model_from_dict

        needed, more = ("name", "outcome", "words", "basis"), ("alternative", "leakage", "p_value")
        read = fields(description, "a check", needed, more)
        other, result = read.get("alternative"), read.get("leakage")
        p_value = read.get("p_value")
        return cls(
            name=text(read["name"], "the name of a check"),
            outcome=read["outcome"],
            words=text(read["words"], "the words of a check"),
            basis=read["basis"],
            alternative=None if other is None else model_from_dict(other),
            leakage=None if result is None else _ends(result),
            p_value=None if p_value is None else number(p_value, "the p-value of a check"),
        )


def checks_from_list(described: Any) -> tuple[Check, ...]:
    """Return the checks of a file.

    >>> checks_from_list([Check("time", "passed", "no drift").to_dict()])[0].outcome
    'passed'
    """
    if not isinstance(described, list) or len(described) > _MOST:
        raise InvalidModel(f"checks are a list of at most {_MOST}; found something else")
    return tuple(map(Check.from_dict, described))


def origin_of(checks: Iterable[Check]) -> Origin:
    """Return the origin of a model of which these checks are known.

    >>> origin_of([Check("order", "passed", "no sign"), *privately(.05)])
    'not public'
    """
    return weakest("not public" if one.basis == "not private" else one.basis for one in checks)


def untested(public: bool, *names: str) -> tuple[Check, ...]:
    """Return the mark of a model that was fitted to records, and whose assumptions nobody tested.

    >>> untested(False, "order")[0].origin
    'computed from the records themselves: NOT PRIVATE'
    """
    basis: Basis = "public" if public else "not private"
    reason = "the model was fitted to records, and this was not tested"
    return tuple(Check(name, "not tested", reason, basis) for name in names)


def worst_of(several: Iterable[tuple[Check, ...]]) -> tuple[Check, ...]:
    """Return of each check the worst outcome among several models, one of which is true.

    >>> kept, broken = Check("time", "passed", "alike"), Check("time", "failed", "it drifts")
    >>> worst_of([(kept,), (broken,)])[0].words
    'it drifts'
    """
    worst: dict[str, Check] = {}
    for check in (check for checks in several for check in checks):
        kept = worst.setdefault(check.name, check)
        if _WORSE.index(check.outcome) > _WORSE.index(kept.outcome):
            worst[check.name] = check
        elif check.outcome == kept.outcome == "failed" and check is not kept:
            worst[check.name] = replace(kept, alternative=_either(kept, check))
    return tuple(worst.values())


def _either(first: Check, second: Check) -> "Model | None":
    """Return what two failures of one check suggest together, None where one suggests nothing."""
    from undertow.models.sets import ModelSet

    one, other = first.alternative, second.alternative
    if one is None or other is None or one == other:
        return one if one == other else None
    try:
        return ModelSet([one, other])
    except InvalidModel:  # of other states, or another length
        return None


def without_alternatives(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks for a model of other records, to which what they suggest does not apply.

    >>> failed = Check("order", "failed", "two records predict more", leakage=(1.0, 2.0))
    >>> without_alternatives([failed])[0].leakage is None
    True
    """
    return tuple(replace(check, alternative=None, leakage=None) for check in checks)


def privately(miss: float) -> tuple[Check, ...]:
    """Return what is known of a chain that was learnt through noise: its region, and no more.

    ``miss`` is the probability with which the region misses the chain.

    >>> [check.outcome for check in privately(.05)][:2]
    ['passed', 'not tested']
    """
    from undertow.rounding import above

    sentence = f"the region misses the chain with probability at most {above(miss)}"
    only = "a private fit publishes how often states follow each other, and nothing else"
    others = ("order", "memory", "time", "hours", "persons")
    return (
        Check("sample", "passed", sentence, "private"),
        *(Check(name, "not tested", only, "private") for name in others),
    )


def _ends(value: Any) -> tuple[float, float | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidModel("the leakage of a check has two ends")
    least, most = value
    return number(least, "leakage"), None if most is None else number(most, "leakage")


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
    statistics = np.concatenate(
        [_ratios(randomness.multinomial(left, shares)[None]) for _ in range(draws)]
    )
    if draws == _DRAWS:
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
    if not lags or records < FEWEST or not (weight > 0).any():
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
    """Return 2, 4, 8 ... up to where half of the records still have a partner."""
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


SAME_RECORDS = "same-records"
"""Accepts that the records to be released are those that the model was fitted to; no check."""


def failed(checks: "Iterable[Check]") -> "tuple[Check, ...]":
    """Return the checks that failed, in their order.

    >>> from undertow.models.fitting.checks import Check
    >>> [check.name for check in failed([Check("time", "failed", ""), Check("order", "passed", "")])]
    ['time']
    """  # noqa: E501
    return tuple(check for check in checks if check.outcome == "failed")


def accepted(checks: "Sequence[Check]", accept: object, *, all_of: bool = True) -> tuple[str, ...]:
    """Return the names that are accepted, or refuse a failed check that is not among them.

    Each failed check must be named, and nothing else may be but ``"same-records"``. With
    ``all_of=False`` a failed check may be missing from ``accept``.

    >>> from undertow.models.fitting.checks import Check
    >>> checks = Check("order", "failed", "two records predict more"), Check("time", "passed", "")
    >>> accepted(checks, ["order"])
    ('order',)
    >>> accepted(checks, ["time"])
    Traceback (most recent call last):
    ...
    undertow.errors.InvalidInput: 'time' did not fail and needs no acceptance; 'order' did
    """
    names, broken = _names(accept), [check.name for check in failed(checks)]
    for name in names:
        if name not in (*broken, SAME_RECORDS):
            which = f"{listed(broken)} did" if broken else "no check of this model did"
            raise InvalidInput(f"{name[:40]!r} did not fail and needs no acceptance; {which}")
    if all_of:
        check_accepted(checks, names)
    return tuple(name for name in (*broken, SAME_RECORDS) if name in names)


def check_accepted(checks: "Iterable[Check]", names: Sequence[str]) -> None:
    """Refuse checks of which one failed and is not among the accepted names."""
    missing = [check for check in failed(checks) if check.name not in names]
    if missing:
        raise FailedChecks(
            f"{_refused(missing)}; {accept_option([*names, *(one.name for one in missing)])} takes "
            "that upon you, and every promise says so",
            tuple(check.name for check in missing),
        )


def accept_option(names: Iterable[str]) -> str:
    """Return names as the argument that accepts them.

    >>> accept_option(["order"]), accept_option(["order", "time"])
    ("accept=('order',)", "accept=('order', 'time')")
    """
    return f"accept={tuple(names)!r}"


def listed(names: Sequence[str]) -> str:
    """Return quoted names in words.

    >>> listed(["order"]), listed(["order", "memory", "time"])
    ("'order'", "'order', 'memory' and 'time'")
    """
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def _refused(missing: "Sequence[Check]") -> str:
    plural = "checks" if len(missing) > 1 else "check"
    reasons = "; ".join(f"{check.name}: {check.words}" for check in missing)
    return f"the records speak against the model, which failed the {plural} {reasons}"


def _names(accept: object) -> list[str]:
    names = check_listed(accept, "accept")
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"accept is a list of names of checks, found {shown(name)}")
    return list(dict.fromkeys(names))
