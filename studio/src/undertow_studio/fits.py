"""What a fitted chain shows: how fast its memory fades, its checks, and how persons differ.

All of it is made from the counts that a fit keeps, which are as private as the records: ``basis``
says so, and the pages show it to whoever holds the records.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from undertow import MarkovChain
from undertow.diagnostics import persons
from undertow.errors import DisclosureWarning, InvalidInput, InvalidModel, NotSupported
from undertow.models import FittedChain
from undertow.models.fitting.checks import Check
from undertow.models.fitting.tally import Tally
from undertow.numerics import Array, check_count
from undertow.progress import doing
from undertow_studio.tables import PrivateTable, Reading, naming

__all__ = ["Fading", "Fit", "fading", "findings", "fit"]

MOST_STATES = 100
"""More different values than this are measurements, not states."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A chain fitted to a table, how much was read, and whether persons do not fit, in words."""

    chain: FittedChain
    records: int
    missing: int
    persons: int | None
    people: str


def fit(source: PrivateTable, reading: Reading) -> Fit:
    """Return the chain that the records of a table follow, with its checks computed."""
    with naming(source), warnings.catch_warnings():
        warnings.simplefilter("ignore", DisclosureWarning)  # the page says it
        data = reading.open(source)
        doing("reading the records")
        kept = data.tally(reading.states or None)
        if len(kept.states) > MOST_STATES:
            raise InvalidInput(
                f"there are more than {MOST_STATES} different values, too many for states; say "
                "what makes a state of a record, such as 'steps > 0'"
            )
        doing("testing what the model assumes")
        named = kept.states if len(kept.states) > 1 else None
        chain = MarkovChain.fit(kept, named, public=source.simulated)
        _ = chain.checks  # computed here, once
        people = None if kept.persons is None else len(kept.persons)
        doing("comparing persons")
        differences = _people(chain)
        return Fit(chain, kept.records, kept.missing, people, differences)


def _people(chain: FittedChain) -> str:
    """Return whether persons do not fit, in words; '' where they cannot be compared."""
    outcomes = [check.outcome for check in chain.checks if check.name == "persons"]
    if "passed" in outcomes:
        return "No person differs from the others by more than chance."
    if chain.tally is None or chain.tally.persons is None or len(chain.tally.persons) < 2:
        return ""
    try:
        budgets = persons(chain, least=_LEAST)
    except NotSupported:  # nobody with so many transitions, or too many persons to compare
        return ""
    if budgets.leaks <= budgets.limit:
        return (
            f"The chain for all protects each of the {budgets.persons} persons compared as well "
            "as it protects the average."
        )
    return (
        f"Some of the {budgets.persons} persons compared do not fit: for one of them the noise of "
        f"the chain for all leaks {budgets.leaks:.3g} where {budgets.limit:g} was meant. Plan for "
        "the population instead."
    )


LAGS = 60
"""Steps that are shown at most."""

_FADED = 0.005
"""Association from which memory counts as faded away, for the length of the axis."""

_ERRORS = 2.0
"""Standard errors of the band around what was measured."""

_LEAST = 30
"""Transitions that a person needs to be compared: fewer say nothing about one person."""


@dataclass(frozen=True, slots=True)
class Fading:
    """Association of two records by the steps between them: in the data, and under the chain.

    (Pr[X_t = X_{t+l}] - a) / (1 - a), a the probability that two unrelated records agree: 1 for
    copies, 0 for unrelated records. ``measured`` is None where no records were fitted; ``errors``
    are standard errors of it, for records as dependent as the chain says. ``gone`` is the first
    lag from which on the chain's stays below one hundredth.
    """

    lags: tuple[int, ...]
    modelled: tuple[float, ...]
    measured: tuple[float, ...] | None
    errors: tuple[float, ...] | None
    gone: int | None

    def words(self) -> str:
        """Return how fast memory fades, in one sentence."""
        if self.gone is None:
            return (
                f"After {self.lags[-1]} steps the association of two records is still above 0.01."
            )
        step = "step" if self.gone == 1 else "steps"
        return f"After {self.gone} {step} the association of two records is below 0.01."


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """One check of a model for people: what was asked, the outcome, and what it means."""

    name: str
    question: str
    outcome: str
    words: str
    meaning: str
    basis: str


_QUESTIONS = {
    "sample": ("Are there enough records?", "Few records estimate a chain badly."),
    "order": (
        "Does the last record say all that matters about the next one?",
        "If older records matter too, an attacker can use them, and the chain does not count that.",
    ),
    "memory": (
        "Does the memory of the data fade as fast as that of the chain?",
        "Memory that lasts longer lets distant records give a record away.",
    ),
    "time": (
        "Did the first half of the records move like the second?",
        "If habits changed, one chain for all of the time fits neither half.",
    ),
    "hours": (
        "Do all hours of the day move alike?",
        "If days have a rhythm that everyone knows, an attacker can use it.",
    ),
    "persons": (
        "Is one chain right for everybody?",
        "Whoever moves differently from the average is protected less, or more, than planned.",
    ),
}  # fmt: skip


def fading(chain: MarkovChain, lags: int | None = None) -> Fading:
    """Return how fast memory fades under a chain and, where it was fitted, in its records.

    For a homogeneous chain, at its stationary law; O(lags k^3). By default as many lags as it
    takes until nothing is left, at most 60.

    >>> memory = fading(MarkovChain([[.9, .1], [.1, .9]]), lags=3)
    >>> [round(value, 3) for value in memory.modelled], memory.gone
    ([1.0, 0.8, 0.64, 0.512], None)
    """
    if not chain.homogeneous:
        raise NotSupported("memory is drawn for chains with one transition matrix for all steps")
    most = LAGS if lags is None else check_count(lags, "lags", 1)
    law = chain.initial if isinstance(chain.start, str) else _long_run(chain)
    agree = float(law @ law)
    if agree >= 1:
        raise InvalidModel("the chain has one certain state: there is no memory to draw")
    powers = np.diagonal(chain.powers(most), axis1=1, axis2=2)  # (lags + 1, k): P^l(s, s)
    modelled = (powers @ law - agree) / (1 - agree)
    tally = chain.tally if isinstance(chain, FittedChain) else None
    measured = errors = None
    shown = most
    if tally is not None:
        most = min(most, len(tally.pairs) - 1)
        measured, errors = _measured(tally, modelled, most)
    if lags is None:
        strong = np.abs(modelled[: most + 1]) > _FADED
        if measured is not None and errors is not None:
            strong |= np.abs(measured) > np.maximum(_FADED, _ERRORS * errors)
        shown = max(min(8, most), min(most, int(np.flatnonzero(strong)[-1] * 1.25) + 2))
    shown = min(shown, most)
    lasting = np.flatnonzero(np.abs(modelled[: most + 1]) >= 0.01)
    gone = int(lasting[-1]) + 1 if lasting.size else 0
    return Fading(
        tuple(range(shown + 1)),
        tuple(modelled[: shown + 1].tolist()),
        None if measured is None else tuple(measured[: shown + 1].tolist()),
        None if errors is None else tuple(errors[: shown + 1].tolist()),
        gone if gone <= most else None,
    )


def findings(checks: Sequence[Check]) -> tuple[CheckOutcome, ...]:
    """Return the checks of a model as questions and answers, in the order of the model.

    >>> chain = MarkovChain.from_counts([[900, 100], [90, 210]], public=True)
    >>> [(one.question, one.outcome) for one in findings(chain.checks)][0]
    ('Are there enough records?', 'passed')
    """
    outcomes = []
    for check in checks:
        question, meaning = _QUESTIONS.get(check.name, (check.name.capitalize(), ""))
        words = check.words + (f"; {check.cost()}" if check.cost() else "")
        outcomes.append(
            CheckOutcome(check.name, question, check.outcome, words, meaning, check.origin)
        )
    return tuple(outcomes)


def _measured(tally: Tally, modelled: Array, most: int) -> tuple[Array, Array]:
    """Return the association of the records by lag, and its standard errors, (most + 1,) each.

    Bartlett's formula for the variance of an autocorrelation, with the chain's own: about
    (1 + 2 sum of its squares up to the lag) / pairs [bartlett1946].
    """
    pairs = np.maximum(tally.pairs[: most + 1].astype(np.float64), 1.0)
    share = tally.visits / max(int(tally.visits.sum()), 1)  # (k,)
    agree = float(share @ share)
    # Pr[both in s] - share_s (Pr[first in s] + Pr[second in s]) + share_s^2, summed over s
    products = (
        tally.together[: most + 1].sum(axis=1) / pairs
        - (tally.ends[: most + 1] @ share) / pairs
        + agree
    )
    squares = np.concatenate([[0.0], np.cumsum(modelled[: most + 1] ** 2)[:-1]])
    errors = np.sqrt(np.maximum(2 * squares - 1, 0.0) / pairs)
    errors[0] = 0.0
    return products / max(1 - agree, 1e-300), errors


def _long_run(chain: MarkovChain) -> Array:
    """Return the law after very many steps, the mean over the last of them."""
    power = np.linalg.matrix_power(chain.transition, 2**20)
    return np.asarray(chain.initial @ (power + power @ chain.transition) / 2)
