"""Attackers on noisy counts and sums, and the answers that they attack."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.auditing.attackers import Guess, best, given_others, prior_law
from undertow.auditing.counting import answer_posteriors, totals
from undertow.auditing.guarantees import odds_shift
from undertow.auditing.hidden import check_length
from undertow.data.codes import Coded
from undertow.errors import InvalidInput, NotSupported
from undertow.models.base import Model
from undertow.numerics import Array
from undertow.plan import Plan

__all__ = ["Answered", "answered", "read_answers"]


def read_answers(sanitised: Any, plan: Plan[Any], series: int) -> Array:
    """Return released answers, a row for each: one for each series, or one for all together.

    Takes a number, a list of numbers, or what `release` returned; a histogram is a mapping from
    states to numbers, or a list of them in the order of the states.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> plan = calibrate(Count(1), MarkovChain([[.9, .1], [.3, .7]]), limit=1.0)
    >>> read_answers([3, 5], plan, series=2).tolist()
    [[3.0], [5.0]]
    """
    value = getattr(sanitised, "value", sanitised)
    if plan.query.selects:
        raise NotSupported(
            "no attacker weighs selected states; audit(plan) attacks the code that selects them"
        )
    if plan.query.per_state or (plan.query.named and plan.query.cells(plan.states)):
        value = _histograms(value, plan)
    elif isinstance(value, Mapping):  # one for each group
        value = list(value.values())
    width = plan.numbers
    try:
        numbers = np.asarray(value, dtype=np.float64).reshape(-1, width)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "a released answer is required: a number, a list of numbers, or what release returned"
        ) from error
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers).all(axis=1))[0])
        raise InvalidInput(f"answer {row} (counting from 0) is not a finite number")
    if len(numbers) not in (1, series):
        raise InvalidInput(
            f"there are {len(numbers)} answers and {series} series; pass one answer for each "
            "series, or one for all of them together"
        )
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Answers about series of which some records are known, and the truth."""

    answers: Array
    plan: Plan[Any]
    chain: Model
    true: Coded
    known: npt.NDArray[np.int64]
    prior: Array

    def parts(self) -> Iterator[tuple[Array, list[int], slice]]:
        """Yield each answer, the lengths of the series behind it, and where their records are."""
        lengths = self.true.lengths
        groups = [lengths] if len(self.answers) == 1 else np.split(lengths, len(lengths))
        ends = np.cumsum([group.sum() for group in groups]).tolist()
        parts = map(slice, [0, *ends[:-1]], ends)
        for answer, group, part in zip(self.answers, groups, parts, strict=True):
            yield answer, group.tolist(), part

    def guess(self, attacker: str) -> Guess:
        """Return what an attacker guesses for every record."""
        if attacker == "prior":
            return Guess(best(self.prior), self.prior, np.zeros(len(self.prior)))
        prior, found = (
            self._informed() if attacker == "informed" else (self.prior, self._posteriors())
        )
        return Guess(best(found), prior, odds_shift(found, prior))

    def _posteriors(self) -> Array:
        """Return the law of every record given its answer and what is known."""
        found = np.empty((self.true.codes.size, len(self.chain.states)))  # (records, states)
        for answer, lengths, part in self.parts():
            known = {
                int(place - part.start): self.chain.states[self.true.codes[place]]
                for place in self.known
                if part.start <= place < part.stop
            }
            found[part] = answer_posteriors(
                answer, self.plan.noise, self.chain, lengths, known=known
            )[0]
        return found

    def _informed(self) -> tuple[Array, Array]:
        """Return the law of each record given all others, without and with the answer."""
        truth, lengths = self.true.codes.astype(np.intp), self.true.lengths
        ends = np.cumsum(lengths[lengths > 0])
        around = given_others(self.chain, truth, ends)
        found = np.empty_like(around)  # (records, states)
        for answer, behind, part in self.parts():
            made = totals(self.plan.noise, self.chain.states, sum(behind))
            adds = np.array(made.adds)  # (states,)
            own = adds[truth[part]]  # (records,)
            rest = own.sum() - own  # the total of all others
            units = made.units(answer, sum(behind))[0]  # (numbers of the answer,)
            # (numbers, records, states), then (records, states): numbers have noise of their own
            told = made.log_law(units[:, None, None] - (rest[:, None] + adds)).sum(axis=0)
            weight = np.exp(told - told.max(axis=1, keepdims=True))
            found[part] = around[part] * weight
        return around, found / found.sum(axis=1, keepdims=True)


def answered(
    answers: Array, plan: Plan[Any], chain: Model, true: Coded, known: npt.NDArray[np.int64]
) -> Answered:
    """Return the scenario of an attack on answers.

    >>> from undertow import Count, MarkovChain, calibrate
    >>> from undertow.data.codes import Rule, coded
    >>> chain = MarkovChain([[.9, .1], [.3, .7]])
    >>> plan = calibrate(Count(1), chain, limit=1.0)
    >>> true = coded([0, 1, 1], Rule((0, 1)))
    >>> scenario = answered(np.array([[9.0]]), plan, chain, true, np.array([0]))
    >>> scenario.guess("bayes").states.tolist()
    [0, 0, 0]
    """
    check_length(chain, int(true.lengths.max()))
    law = prior_law(chain, true.lengths, known, true.codes[known])
    return Answered(answers, plan, chain, true, known, law)


def _histograms(value: Any, plan: Plan[Any]) -> Any:
    """Return the numbers of histograms in the order of the states; of two, the one counted."""
    if not isinstance(value, Mapping):
        return value
    listed = [value] if all(state in value for state in plan.states) else list(value.values())
    asked = [state for some in plan.query.bins(plan.states) for state in some]
    try:
        return [[one[state] for state in asked] for one in listed]
    except (KeyError, TypeError, IndexError) as error:
        raise InvalidInput("a histogram needs a number for each state of the plan") from error
