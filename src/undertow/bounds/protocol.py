"""What is asked of a proof, and who answers: typed problems, provers, their registry.

A `Problem` is a mechanism, a model, an adversary, a secret and the shape of the data. A `Prover`
tells whether it supports a problem and proves a leakage; `prover_for` returns the first registered
one that does.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from undertow.adversaries import Against
from undertow.certificate import Leakage, ValidFor
from undertow.errors import NotSupported
from undertow.mechanisms import Mechanism
from undertow.models.base import Model
from undertow.secrets import ONE_RECORD, Window

__all__ = ["Problem", "Prover", "Registry"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One question about a leakage.

    ``secret`` is the window of records that must stay hidden, one record by default; ``delta`` 0
    asks for the pure leakage; ``valid_for`` names the shapes of data that the proof has to cover;
    ``effort`` scales the work of a search.
    """

    mechanism: Mechanism
    model: Model
    against: Against = "any"
    secret: Window = ONE_RECORD
    delta: float = 0.0
    valid_for: ValidFor = "series"
    effort: float = 1.0


@runtime_checkable
class Prover(Protocol):
    """A way to prove leakages."""

    @property
    def name(self) -> str:
        """The method's name in certificates."""
        ...

    def supports(self, problem: Problem) -> bool:
        """Tell whether the problem is of the kind that this prover solves."""
        ...

    def prove(self, problem: Problem) -> Leakage:
        """Return a certified leakage, or refuse with `NotSupported`."""
        ...


class Registry:
    """Provers in the order in which they are asked: the sharpest or fastest first."""

    def __init__(self, *provers: Prover) -> None:
        """Keep the provers in order."""
        self._provers: list[Prover] = list(provers)

    def register(self, prover: Prover, *, first: bool = False) -> None:
        """Add a prover, to be asked last, or first."""
        self._provers.insert(0 if first else len(self._provers), prover)

    def supporting(self, problem: Problem) -> list[Prover]:
        """Return the provers that support a problem, in order."""
        return [prover for prover in self._provers if prover.supports(problem)]

    def prover_for(self, problem: Problem) -> Prover:
        """Return the first prover that supports a problem, or refuse."""
        for prover in self._provers:
            if prover.supports(problem):
                return prover
        raise NotSupported(
            f"no bound is known of what {type(problem.mechanism).__name__} leaks on "
            f"{problem.model.describe()}; use PureDP or a noisy answer, or plan with Groups"
        )
