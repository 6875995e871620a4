"""The checks of a fitted chain: does one record suffice, do its steps stay alike, are there enough?

Each check is a test that the counts of a fit allow. Together they fail a true model in at most
`DOUBT` of fits: Holm's procedure [holm1979] over the p-values of all that were tested. A check
passes only where it would have noticed a departure that matters (`MATTERS`)
with probability `POWER`; one that would not is not tested, and so is what the counts do not allow.
Whether there are enough records is no hypothesis, and cannot fail: an estimate from few is named as
untested, and accounted for by the region of the fit.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.models.chains import MarkovChain
from undertow.models.fitting.checks import (
    MATTERS,
    Autocorrelation,
    Basis,
    Check,
    Difference,
    Dynamics,
    differ,
    memory,
)
from undertow.models.sets import ModelSet

if TYPE_CHECKING:
    from undertow.models.base import Model
    from undertow.models.fitting.fit import FittedChain
    from undertow.models.fitting.tally import Ints, Tally

__all__ = [
    "FEW",
    "Hypothesis",
    "checks_of",
    "decided",
    "hypotheses_of",
    "memory_test",
    "sample",
]


DOUBT = 0.05
"""The largest share of fits to a true model of which some check fails."""
POWER = 0.8
"""The probability with which a check that passes would have noticed a departure that matters."""
FEW = 100
"""A state left fewer times than this is known only roughly: within about 10 percentage points."""
MOST_PERSONS = 10**5
"""Persons up to which a failed check makes a model of the population (cost: seconds)."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One hypothesis, before it is decided together with the others of a fit.

    ``statistic`` is None if nothing could be computed; ``passed``, ``failed`` and ``untested``
    are the words for each outcome, ``alternative`` makes the model that a failure suggests,
    and ``advice`` is told with it.
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


def decided(tests: Iterable[Hypothesis], basis: Basis) -> Iterator[Check]:
    """Yield the checks that tests amount to: failures by Holm's procedure, passes with power.

    The power of a test is that at the strictest level which the procedure can ask of it.

    >>> doubtful = Hypothesis("time", Difference(7.4, 2, 0.025, departure=50.0), "alike", "drifts")
    >>> sound = Hypothesis("order", Difference(1.0, 2, 0.6, departure=50.0), "one record suffices")
    >>> [check.outcome for check in decided([doubtful], "public")]
    ['failed']
    >>> [check.outcome for check in decided([doubtful, sound], "public")]
    ['failed', 'passed']
    >>> [check.outcome for check in decided([doubtful, sound, sound], "public")]
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
    """Return all checks of a fitted chain, in the order in which they are told.

    >>> chain = MarkovChain.fit(MarkovChain([[.9, .1], [.3, .7]]).simulate(2999, seed=1), public=True)
    >>> [(check.name, check.outcome) for check in checks_of(chain, "public")]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('sample', 'passed'), ('order', 'passed'), ('memory', 'passed'), ('time', 'passed'),
     ('hours', 'not tested'), ('persons', 'not tested')]
    """  # noqa: E501
    left = chain.counts.sum(axis=1)
    rarest = int(left.argmin())
    least = int(left[rarest])
    counts = f"{int(left.sum())} transitions; {chain.states[rarest]!r} was left {least} times"
    return sample(least, counts, basis), *decided(hypotheses_of(chain), basis)


def hypotheses_of(chain: "FittedChain") -> tuple[Hypothesis, ...]:
    """Return the tests of a fitted chain."""
    return tuple(test(chain) for test in (_order, _memory, _time, _hours, _persons))


def sample(least: int, reason: str, basis: Basis) -> Check:
    """Return whether there are enough records for every row of a fit: no test, and no failure.

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


def memory_test(tally: "Tally | None", model: Dynamics, what: str = "the chain") -> Hypothesis:
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


def _each(tables: "Ints", chain: "FittedChain") -> "Model | None":
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
