"""The checks of a fitted chain: does one record suffice, do its steps stay alike, are there enough?

Each is a test that the counts of a fit allow; what they do not allow is said to be not tested. A
check fails where the records speak against the assumption (p below 0.05, each test by itself).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.models.checks import Basis, Check
from undertow.models.markov import MarkovChain
from undertow.models.sets import ModelSet
from undertow.numerics import Array

if TYPE_CHECKING:
    from undertow.models.base import Model
    from undertow.models.fitting import FittedChain
    from undertow.models.tallies import Ints, Tally

__all__ = ["Autocorrelation", "Difference", "checks_of", "differ", "memory"]

DOUBT = 0.05
"""A check fails where its p-value is below this."""
FEW = 100
"""A state left fewer times than this is known only roughly: within about 10 percentage points."""
MOST_PERSONS = 10**5
"""Persons up to which a failed check makes a model of the population (cost: seconds)."""
_WINDOW = 5.0
"""Autocorrelations are summed up to the first lag of this many times their sum so far."""
_ERRORS = 2.0
"""Standard errors by which a measured sum must exceed the model's for the check to fail."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Whether several tables of transitions have one law: the likelihood ratio against that.

    2 sum N_cxy ln [p_c(y | x) / p(y | x)] over tables c, compared with a chi-square law of
    ``degrees`` degrees of freedom, which holds in the limit of many transitions [anderson1957].
    """

    statistic: float
    degrees: int
    p_value: float

    def shown(self) -> str:
        """Return the p-value in words."""
        return f"p = {self.p_value:.2g}" if self.p_value >= 1e-12 else "p < 1e-12"


def differ(tables: "Ints") -> Difference:
    """Return the test whether tables of transitions, shape (c, k, k), have one law.

    Degrees of freedom: for each state, (tables in which it is left - 1) times (states it is left
    for - 1).

    >>> differ(np.array([[[90, 10], [9, 21]], [[60, 40], [9, 21]]])).degrees
    2
    """
    from scipy.special import chdtrc

    counts = np.asarray(tables, dtype=np.float64)
    left = counts.sum(axis=2, keepdims=True)  # (c, k, 1): departures
    pooled = counts.sum(axis=0)  # (k, k)
    shares = pooled / np.maximum(pooled.sum(axis=1, keepdims=True), 1)
    expected = left * shares  # (c, k, k)
    seen = counts > 0
    statistic = max(2 * float((counts[seen] * np.log(counts[seen] / expected[seen])).sum()), 0.0)
    ways = np.maximum((left[..., 0] > 0).sum(axis=0) - 1, 0)  # (k,)
    degrees = int((ways * np.maximum((pooled > 0).sum(axis=1) - 1, 0)).sum())
    return Difference(statistic, degrees, float(chdtrc(degrees, statistic)) if degrees else 1.0)


@dataclass(frozen=True, slots=True)
class Autocorrelation:
    """The integrated autocorrelation 1 + 2 sum rho_k of a state: measured, and under the chain.

    For small DP levels the leakage to an attacker who knows no other record is about so many times
    the level (where neighbours tend to agree; docs, "Memory"): a limit, not a bound.
    """

    measured: float
    error: float
    modelled: float
    lags: int

    @property
    def longer(self) -> bool:
        """Whether the records remember longer than the chain, beyond doubt."""
        return self.measured - _ERRORS * self.error > self.modelled

    def check(self, basis: Basis, what: str = "the chain") -> Check:
        """Return the check that this is."""
        said = (
            f"autocorrelations add up to {self.measured:.3g} (give or take {self.error:.2g}, over "
            f"{self.lags} steps), under {what} to {self.modelled:.3g}"
        )
        if self.longer:
            said += (
                f": at small DP levels an attacker who knows no other record learns about "
                f"{self.measured / max(self.modelled, 1e-9):.2g} times what the chain says"
            )
        return Check("memory", "failed" if self.longer else "passed", said, basis)


def memory(
    tally: "Tally", chain: MarkovChain, modelled: Array | None = None
) -> Autocorrelation | None:
    """Return the memory of the state that has the most, None where nothing can be measured.

    ``modelled`` is that of each state under a chain of higher order, by default ``chain``'s.

    Sums end at the first lag beyond five times the sum so far [sokal1997]; the standard error is
    sum sqrt(2 (2 lags + 1) / records).

    >>> from undertow.models.tallies import tally
    >>> codes = np.array(MarkovChain([[.9, .1], [.1, .9]]).simulate(4000, seed=1))
    >>> found = memory(tally(codes, (0, 1)), MarkovChain([[.9, .1], [.1, .9]]))
    >>> round(found.modelled, 6), abs(found.measured - 9) < 4 * found.error
    (9.0, True)
    """
    pairs, records = tally.pairs.astype(np.float64), int(tally.visits.sum())
    share = tally.visits / max(records, 1)  # (k,)
    spread = share * (1 - share)
    if len(pairs) < 3 or records < FEW or not (spread > 0).any():
        return None
    # (lags + 1, k): sums of (1{x_t = s} - share) (1{x_t+l = s} - share) over pairs
    products = tally.together - share * tally.ends + share**2 * pairs[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = products / np.maximum(pairs, 1)[:, None] / spread
    under = _integrated(chain) if modelled is None else modelled  # (k,)
    found = []
    for state in np.flatnonzero(spread > 0):
        sums = 1 + 2 * np.cumsum(rho[1:, state])
        lags = np.arange(1, len(sums) + 1)
        beyond = np.flatnonzero((lags >= _WINDOW * sums) & (pairs[1:] > 0))
        last = int(beyond[0]) if beyond.size else int(np.flatnonzero(pairs[1:] > 0)[-1])
        total = float(sums[last])
        error = abs(total) * float(np.sqrt(2 * (2 * lags[last] + 1) / records))
        found.append(Autocorrelation(total, error, float(under[state]), int(lags[last])))
    # a chain that always moves on has no memory of its own
    return max(
        found, key=lambda one: (one.measured - _ERRORS * one.error) / max(one.modelled, 1e-9)
    )


def _integrated(chain: MarkovChain) -> Array:
    """Return 1 + 2 sum_k (P^k(s, s) - pi_s) / (1 - pi_s) by state, from the fundamental matrix."""
    size, law = chain.size, chain.initial
    # Z = sum_k (P - 1 pi)^k = I + sum_{k >= 1} (P^k - 1 pi)
    fundamental = np.linalg.inv(np.eye(size) - chain.transition + law)
    sums = np.diagonal(fundamental) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 + 2 * sums / (1 - law))


def checks_of(chain: "FittedChain", basis: Basis) -> tuple[Check, ...]:
    """Return all checks of a fitted chain, in the order in which they are told.

    >>> chain = MarkovChain.fit(MarkovChain([[.9, .1], [.3, .7]]).simulate(999, seed=1), public=True)
    >>> [(check.name, check.outcome) for check in checks_of(chain, "public")]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('sample', 'passed'), ('order', 'passed'), ('memory', 'passed'), ('time', 'passed'),
     ('hours', 'not tested'), ('persons', 'not tested')]
    """  # noqa: E501
    tests = (_sample, _order, _memory, _time, _hours, _persons)
    return tuple(check for test in tests for check in test(chain, basis))


def _sample(chain: "FittedChain", basis: Basis) -> Iterator[Check]:
    left = chain.counts.sum(axis=1)
    rarest = int(left.argmin())
    seen, least = int(left.sum()), int(left[rarest])
    said = f"{seen} transitions; {chain.states[rarest]!r} was left {least} times"
    if left[rarest] >= FEW:
        yield Check("sample", "passed", said, basis)
        return
    more = f", fewer than {FEW}: plan for the region of the fit"
    yield Check("sample", "failed", said + more, basis, _region(chain))


def _region(chain: "FittedChain") -> "Model | None":
    """Return the region of a fit to two states, without checks of its own."""
    return chain.plausible(0.95) if chain.size == 2 else None


def _order(chain: "FittedChain", basis: Basis) -> Iterator[Check]:
    from undertow.models.second_order import SecondOrderChain

    try:
        test = chain.order_test()
    except NotSupported:
        yield Check("order", "not tested", "only pairs of records were counted", basis)
        return
    if not test.degrees:
        yield Check("order", "not tested", test.words(), basis)
        return
    if test.p_value >= DOUBT:
        yield Check("order", "passed", test.words(), basis)
        return
    try:
        longer: Model | None = SecondOrderChain.from_fit(chain)
    except InvalidModel:  # runs of three that were never seen
        longer = None
    yield Check("order", "failed", test.words(), basis, longer)


def _memory(chain: "FittedChain", basis: Basis) -> Iterator[Check]:
    found = None if chain.tally is None else memory(chain.tally, chain)
    if found is None:
        yield Check("memory", "not tested", "too few records follow each other", basis)
        return
    yield found.check(basis)


def _time(chain: "FittedChain", basis: Basis) -> Iterator[Check]:
    if chain.tally is None:
        yield Check("time", "not tested", "the order of the transitions was not kept", basis)
        return
    halves = chain.tally.halves
    if halves is None:
        said = "some person has more records than were kept while reading the table in pieces"
        yield Check("time", "not tested", said, basis)
        return
    test = differ(halves)
    if not test.degrees:
        yield Check("time", "not tested", "one half of the records has too few of them", basis)
        return
    if test.p_value >= DOUBT:
        yield Check(
            "time", "passed", f"the first half moves like the second ({test.shown()})", basis
        )
        return
    said = f"the first half of the records moves otherwise than the second ({test.shown()})"
    yield Check("time", "failed", said, basis, _each(halves, chain))


def _each(tables: "Ints", chain: "FittedChain") -> "Model | None":
    """Return the set of the chains of several tables, None where one of them is no chain."""
    try:
        found = [
            MarkovChain.from_counts(
                table, chain.states, prior=chain.prior, length=chain.length, public=True
            )
            for table in tables
        ]
    except InvalidModel:
        return None
    plain = [MarkovChain(one.transition, one.states, length=one.length) for one in found]
    return ModelSet(plain, "the first half of the records, and the second")


def _hours(chain: "FittedChain", basis: Basis) -> Iterator[Check]:
    hours = None if chain.tally is None else chain.tally.hours
    if hours is None:
        yield Check("hours", "not tested", "the records have no clock times", basis)
        return
    test = differ(hours)
    if not test.degrees:
        yield Check("hours", "not tested", "all records are of one hour", basis)
    elif test.p_value >= DOUBT:
        yield Check("hours", "passed", f"all hours of the day move alike ({test.shown()})", basis)
    else:
        said = (
            f"hours of the day move differently ({test.shown()}): where the hour is public, fit "
            "one matrix for each"
        )
        yield Check("hours", "failed", said, basis)


def _persons(chain: "FittedChain", basis: Basis) -> Iterator[Check]:
    persons = None if chain.tally is None else chain.tally.persons
    if persons is None or len(persons) < 2:
        said = "the records are those of one person"
        if persons is None:
            said = "there are too many persons to keep the transitions of each"
            said = said if chain.tally is not None else "persons unknown"
        yield Check("persons", "not tested", said, basis)
        return
    test = chain.homogeneity_test()
    if not test.degrees:
        yield Check("persons", "not tested", test.words(), basis)
    elif test.p_value >= DOUBT:
        yield Check("persons", "passed", test.words(), basis)
    else:
        said = f"{test.words()}; plan for the population"
        yield Check("persons", "failed", said, basis, _population(chain, len(persons)))


def _population(chain: "FittedChain", persons: int) -> "Model | None":
    """Return the boxes that hold every person's chain, None where there are no such boxes."""
    if persons > MOST_PERSONS:
        return None
    from undertow.models.population import population

    try:
        return population(chain.tally, length=chain.length)
    except (NotSupported, InvalidInput):  # more than two states, or persons with few records
        return None
