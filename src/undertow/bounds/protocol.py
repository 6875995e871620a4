"""Problems, provers and their registry.

A `Problem` is a mechanism, a model, an adversary, a secret and the shape of the data. A `Prover`
tells whether it supports a problem and proves a leakage. `provers_of` returns the provers that a
kind of model names in `undertow.models.registry`; a `Registry` intersects what they prove.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Generic, Protocol, TypeVar, runtime_checkable

from undertow.adversaries import Against
from undertow.certificate import Leakage, ValidFor, check_order
from undertow.errors import EffortSpent, NotSupported
from undertow.guarantees import Guarantee
from undertow.mechanisms import Levelled, LocalMechanism, Mechanism, MetricDP, Noise, PureDP
from undertow.models.base import Model
from undertow.models.registry import KINDS
from undertow.progress import SPENT
from undertow.secrets import ONE_RECORD, Secret

__all__ = [
    "AnswerProver",
    "ChannelProver",
    "Problem",
    "Prover",
    "Registry",
    "WindowProver",
    "provers_of",
]

M = TypeVar("M", bound=Model)

STEPS = 2
"""Refinements of a channel on many states at an effort of 1; each costs four times as much."""

MOST_STEPS = 5
"""Most of these refinements (memory)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One question about a leakage.

    ``secret`` is what must stay hidden, one record by default; ``delta`` 0 asks for the pure
    leakage; ``valid_for`` names the shapes of data that the proof has to cover; ``effort`` scales
    the work of a search.
    """

    mechanism: Mechanism
    model: Model
    against: Against = "any"
    secret: Secret = ONE_RECORD
    delta: float = 0.0
    valid_for: ValidFor = "series"
    effort: float = 1.0

    @property
    def about_persons(self) -> bool:
        """Whether the secret, or the level of the mechanism, is about whole persons."""
        mechanism = self.mechanism
        if isinstance(mechanism, PureDP | Guarantee) and mechanism.unit == "person":
            return True
        return self.secret.person

    @property
    def about_parts(self) -> bool:
        """Whether a noisy answer may be about parts of the series."""
        return isinstance(self.mechanism, Noise) and self.valid_for != "series"

    @property
    def about_one_record(self) -> bool:
        """Whether the secret is one record, the leakage pure and the answer about whole series."""
        if self.about_persons or self.about_parts or self.delta:
            return False
        return self.secret.window == 1

    def steps(self) -> int:
        """Return how often a channel on many states may be refined at this effort."""
        if math.isinf(self.effort):
            return MOST_STEPS
        return min(max(STEPS + round(math.log(self.effort, 4)), 0), MOST_STEPS)


@runtime_checkable
class Prover(Protocol):
    """A way to prove leakages."""

    @property
    def name(self) -> str:
        """The prover's name in messages."""
        ...

    def supports(self, problem: Problem) -> bool:
        """Tell whether the problem is of the kind that this prover solves."""
        ...

    def prove(self, problem: Problem) -> Leakage:
        """Return a certified leakage, or refuse with `NotSupported`."""
        ...


class Registry:
    """Provers in the order in which they are asked: the sharpest or fastest first.

    >>> Registry().prove(Problem(PureDP(1.0), Model()))
    Traceback (most recent call last):
    ...
    undertow.errors.NotSupported: no bound is known of what PureDP leaks under Model; ...
    """

    def __init__(self, *provers: Prover) -> None:
        """Keep the provers in order."""
        self._provers: list[Prover] = list(provers)

    def register(self, prover: Prover, *, first: bool = False) -> None:
        """Add a prover, to be asked last, or first."""
        self._provers.insert(0 if first else len(self._provers), prover)

    def supporting(self, problem: Problem) -> list[Prover]:
        """Return the provers that support a problem, in order."""
        return [prover for prover in self._provers if prover.supports(problem)]

    def prove(self, problem: Problem) -> Leakage:
        """Intersect what the supporting provers prove, until the bracket is closed.

        The certificate is that of the least upper end, with the largest lower end and its witness.
        A prover that refuses is passed over; if all do, the first refusal is raised. Two intervals
        that do not meet raise `Contradiction`.
        """
        bracket: Leakage | None = None
        refusal: NotSupported | None = None
        for prover in self.supporting(problem):
            try:
                leak = prover.prove(problem)
            except EffortSpent:
                if bracket is None:
                    raise
                return bracket.with_assumptions((SPENT,))
            except NotSupported as error:
                refusal = refusal or error
                continue
            bracket = leak if bracket is None else intersection(bracket, leak)
            if bracket.closed:
                break
        if bracket is None:
            raise refusal or unanswered(problem)
        return bracket


def intersection(first: Leakage, second: Leakage) -> Leakage:
    """Return the least upper end of two proofs of one quantity, above the largest lower end.

    >>> loose, sharp = Leakage(1.0, 9.0, "group", "any"), Leakage(0.5, 2.0, "exact", "any")
    >>> both = intersection(loose, sharp)
    >>> both.lower, both.upper, both.method
    (1.0, 2.0, 'exact')
    """
    attained = max(first, second, key=lambda leak: leak.lower)
    proved = min(first, second, key=lambda leak: leak.upper)
    check_order(attained, proved)
    both = replace(proved, lower=attained.lower, witness=attained.witness)
    if (first.unfinished or second.unfinished) and not (both.unfinished or both.closed):
        return both.with_assumptions((SPENT,))
    return both


def unanswered(problem: Problem) -> NotSupported:
    """Return the refusal of a problem that no prover supports."""
    model, mechanism = problem.model, type(problem.mechanism).__name__
    if problem.secret.window > 1:
        return NotSupported(_unanswered_window(problem))
    if isinstance(problem.mechanism, LocalMechanism):
        return NotSupported(
            f"what {mechanism} leaks is known for a MarkovChain, found {_described(model)}; use a "
            "chain, or a ModelSet of chains"
        )
    return NotSupported(
        f"no bound is known of what {mechanism} leaks under {_described(model)}; use PureDP or a "
        "noisy answer, or plan with Groups"
    )


def _unanswered_window(problem: Problem) -> str:
    """Return why nothing is known about a window, and what may be asked instead."""
    if problem.model.lowered() is None:
        return (
            f"a window is of records in a row, and those of {_described(problem.model)} have no "
            "order; hide one record, or plan with Groups"
        )
    return (
        f"what is revealed about a window of records of a {_described(problem.model)} is bounded "
        "for one explicit attacker, who wants the window that begins with the target: say "
        "against=Adversary(5, known=[2]), or --target 5 --known 2"
    )


def _described(model: Model) -> str:
    """Return a model in words, its class where it has none."""
    try:
        return model.describe()
    except NotImplementedError:
        return type(model).__name__


@dataclass(frozen=True, slots=True)
class AnswerProver(Generic[M]):
    """Bounds on a curator's answer, or on all algorithms of a level, about one record.

    ``bound`` takes the mechanism, the model and the adversary.
    """

    name: str
    model: type[M]
    bound: Callable[[Levelled | MetricDP, M, Against], Leakage]

    def supports(self, problem: Problem) -> bool:
        """Tell whether the problem is pure, about one record and an answer on whole series."""
        return (
            problem.about_one_record
            and isinstance(problem.mechanism, Levelled | MetricDP)
            and isinstance(problem.model, self.model)
        )

    def prove(self, problem: Problem) -> Leakage:
        """Return the bound."""
        mechanism, model = problem.mechanism, problem.model
        if not isinstance(mechanism, Levelled | MetricDP) or not isinstance(model, self.model):
            raise unanswered(problem)
        leak = self.bound(mechanism, model, problem.against)
        summed = isinstance(mechanism, Noise) and mechanism.query.totalled
        return leak.with_assumptions((SUMMED,)) if summed else leak


SUMMED = (
    "the lower end and the witness are those of the noisy numbers before they are moved to their "
    "public sum"
)


@dataclass(frozen=True, slots=True)
class ChannelProver(Generic[M]):
    """Bounds on a series that is released record by record, about one record.

    ``bound`` takes the channel, the model, the adversary and the number of refinements.
    """

    name: str
    model: type[M]
    bound: Callable[[LocalMechanism, M, Against, int], Leakage]

    def supports(self, problem: Problem) -> bool:
        """Tell whether the problem is pure, about one record and a local mechanism."""
        return (
            problem.about_one_record
            and isinstance(problem.mechanism, LocalMechanism)
            and isinstance(problem.model, self.model)
        )

    def prove(self, problem: Problem) -> Leakage:
        """Return the bound."""
        mechanism, model = problem.mechanism, problem.model
        if not isinstance(mechanism, LocalMechanism) or not isinstance(model, self.model):
            raise unanswered(problem)
        return self.bound(mechanism, model, problem.against, problem.steps())


@dataclass(frozen=True, slots=True)
class WindowProver(Generic[M]):
    """Bounds on all algorithms of a level, about a window of records.

    ``bound`` takes the level, the model, the adversary and the number of records.
    """

    name: str
    model: type[M]
    bound: Callable[[float, M, Against, int], Leakage]

    def supports(self, problem: Problem) -> bool:
        """Tell whether the problem is pure, about a window and all algorithms of a level."""
        return (
            problem.secret.window > 1
            and not problem.about_persons
            and not problem.delta
            and isinstance(problem.mechanism, PureDP)
            and isinstance(problem.model, self.model)
        )

    def prove(self, problem: Problem) -> Leakage:
        """Return the bound."""
        mechanism, model = problem.mechanism, problem.model
        if not isinstance(mechanism, PureDP) or not isinstance(model, self.model):
            raise unanswered(problem)
        return self.bound(mechanism.epsilon, model, problem.against, problem.secret.window)


def provers_of(model: Model) -> tuple[Prover, ...]:
    """Return the provers that are registered for a kind of model, () if its members have them.

    >>> from undertow.models.groups import Groups
    >>> [prover.name for prover in provers_of(Groups(3))]
    ['groups', 'groups, window', 'groups, channel']
    """
    place = KINDS[model.kind].provers
    return () if place is None else _provers(place)


@cache
def _provers(place: str) -> tuple[Prover, ...]:
    """Import the provers ``module:NAME``."""
    module, name = place.split(":")
    provers: tuple[Prover, ...] = getattr(import_module(module), name)
    return provers
