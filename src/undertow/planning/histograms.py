"""The noise of a histogram on a chain by its own leakage, where that is less than its level's."""

from undertow.bounds.counts.histograms import METHOD, STEPS
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage
from undertow.errors import MethodRefused
from undertow.mechanisms import PureDP
from undertow.planning import chains
from undertow.planning.questions import Question, Remembered, Scaled, Solution, Way, noise_way

__all__ = ["EXACT"]

MOST = 8
"""Most chains of a set (cost: some tenths of a second for each at every scale)."""

WORTH = 1e-3
"""Share by which the leakage of a histogram must be below that of its level to be searched for: a
look at one level tells, and chains that stay as they are have nothing to gain."""


def solve_histogram(question: Question) -> Scaled:
    """Return the least noise for a histogram, by windows of records around every target.

    Refuses with `MethodRefused` where the windows show nothing that the exchange rate does not.
    """
    _check(question)
    level, model, against = question.limit / 3, question.model, question.against
    noise = question.noise(question.query.sensitivity() / level)
    own, bound = leakage(noise, model, against), leakage(PureDP(level), model, against)
    if not own.upper < bound.upper * (1 - WORTH):
        raise MethodRefused(
            "'exact' enumerates the histograms of records near the target, and here they leak as "
            "much as any algorithm of the same level, or the chain remembers longer; use "
            "method='exchange'"
        )
    return chains.by_rate(
        question, lambda noise: leakage(noise, model, against), question.search
    )  # fmt: skip


@Remembered
def prove_histogram(question: Question, noise: Scaled) -> Leakage:
    """Return what windows of records prove of a noisy histogram."""
    _check(question)
    leak = leakage(noise, question.model, question.against)
    if leak.method != METHOD:
        raise MethodRefused(
            "'exact' proves nothing about this histogram that 'exchange' does not; use "
            "method='exchange'"
        )
    return leak


def _check(question: Question) -> None:
    """Refuse models and shapes of data that the windows say nothing about."""
    members = question.chains("exact")
    if len(members) > MOST:
        raise MethodRefused(
            f"'exact' knows histograms under at most {MOST} chains, found {len(members)}; use "
            "method='exchange'"
        )
    for chain in members:
        if chain.size not in STEPS:
            raise MethodRefused(
                f"'exact' knows histograms of at most {max(STEPS)} states on chains, found "
                f"{chain.size}; use method='exchange'"
            )
    if question.valid_for != "series":
        raise MethodRefused(
            "'exact' is about the histogram of whole series; use method='exchange', which covers "
            "everything that is done with a series"
        )


_HISTOGRAM = noise_way(solve_histogram, prove_histogram)


def _way(question: Question) -> Way:
    return _HISTOGRAM if question.query.per_state else chains.EXACT


def _solve(question: Question) -> Solution:
    return _way(question).solve(question)


def _prove(question: Question, noise: Scaled) -> Leakage:
    return _way(question).prove(question, noise)


EXACT = Way(_solve, _prove)
"""Counts and histograms: each by its own leakage."""
