"""What is asked of a method of calibration, and what a method is."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Literal, ParamSpec, TypeVar

from undertow.adversaries import Against, Secrets, words
from undertow.certificate import Covers, Leakage
from undertow.errors import MethodRefused
from undertow.mechanisms import DiscreteLaplace, Laplace
from undertow.models.contagion import Contagion
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.markov import MarkovChain
from undertow.models.network import BayesianNetwork
from undertow.models.pedigree import Pedigree
from undertow.models.sets import AnyModel, SingleModel, members
from undertow.planning.budget import PRECISE, Search
from undertow.queries import AnyQuery, Count, Histogram

__all__ = [
    "CERTAIN",
    "Kind",
    "Method",
    "Noise",
    "Prove",
    "Question",
    "Remembered",
    "Solve",
    "Way",
    "kind_of",
]

CERTAIN = (
    "every record is certain under this model, or to this adversary, or the answer does not depend "
    "on any record: nothing can leak, and no noise is needed"
)

Kind = Literal["chain", "gaussian", "network", "groups"]
"""Kinds of models that have solvers of their own."""

Noise = Laplace | DiscreteLaplace

P = ParamSpec("P")
R = TypeVar("R")


def kind_of(model: SingleModel) -> Kind:
    """Return which solvers a model belongs to; classes of chains count as chains.

    >>> kind_of(Groups(3))
    'groups'
    """
    match model:
        case MultivariateGaussian() | GaussianClass():
            return "gaussian"
        case BayesianNetwork() | Pedigree() | Contagion():
            return "network"
        case Groups():
            return "groups"
        case _:
            return "chain"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a method."""

    query: AnyQuery
    model: AnyModel
    epsilon: float
    against: Against
    secrets: Secrets
    search: Search = PRECISE
    covers: Covers = "series"

    @property
    def length(self) -> int | None:
        """The number of records, where the model fixes it."""
        return self.model.length

    def chains(self, method: str) -> list[MarkovChain]:
        """Return the chains of the model, or refuse on behalf of a method that needs chains."""
        found = members(self.model)
        chains = [member for member in found if isinstance(member, MarkovChain)]
        if len(chains) < len(found):
            other = next(m for m in found if not isinstance(m, MarkovChain))
            raise MethodRefused(
                f"'{method}' needs a MarkovChain, found {other.describe()}; use method='best'"
            )
        return chains

    def noise(self, scale: float) -> Noise:
        """Return the query with noise of the given scale: discrete for whole numbers."""
        if isinstance(self.query, Count | Histogram):
            return DiscreteLaplace(self.query, scale)
        return Laplace(self.query, scale)


Solve = Callable[[Question], Noise]
Prove = Callable[[Question, Noise], Leakage]


class Remembered(Generic[P, R]):
    """A pure function that keeps what it found last.

    Every plan is proved when it is made and again before it is used; the second time is free.

    >>> square = Remembered(lambda number: number * number)
    >>> square(3), square(3)
    (9, 9)
    """

    def __init__(self, function: Callable[P, R]) -> None:
        """Keep the function, and room for its last results."""
        self.__doc__ = function.__doc__
        self._function = function
        kept = lru_cache(maxsize=16)(function)
        self._kept: Callable[P, R] = kept
        self.forget = kept.cache_clear

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the function's result, from memory where it is there."""
        try:
            hash(args)
        except TypeError:  # a query made of a Python object that has no hash
            return self._function(*args, **kwargs)
        return self._kept(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class Way:
    """How a method goes about one kind of models: find the noise, prove a noise."""

    solve: Solve
    prove: Prove


@dataclass(frozen=True, slots=True)
class Method:
    """A way to calibrate noise: whom it protects, by what proof, and how.

    ``certified`` methods are proved and rounded outwards; the others stand as published, and a
    plan of theirs carries the leakage that we certify for its noise. ``kinds`` are the models it
    has something to say about. ``solve`` returns the noise for a question; ``prove`` returns what
    the method certifies for that question at any given noise, and searches for none.
    """

    name: str
    summary: str
    citation: str
    certified: bool
    protects: tuple[Literal["any", "ignorant"], ...]
    kinds: tuple[Kind, ...]
    solve: Solve
    prove: Prove

    def suits(self, model: AnyModel) -> bool:
        """Return whether the method has something to say about every part of a model."""
        return all(kind_of(member) in self.kinds for member in members(model))

    def covers(self, against: Against) -> bool:
        """Return whether the method protects against an adversary (``any`` covers them all)."""
        return "any" in self.protects or against in self.protects

    def admit(self, against: Against) -> None:
        """Refuse an adversary that the method does not protect against."""
        if not self.covers(against):
            whom = " and ".join(f"'{name}' ({words(name)})" for name in self.protects)
            raise MethodRefused(
                f"'{self.name}' protects only against {whom}, not against "
                f"{against if isinstance(against, str) else words(against)!r}; choose "
                "method='exact' or 'exchange', or say against='ignorant'"
            )
