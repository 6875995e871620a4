"""What is asked of a method of calibration, and what it answers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, ParamSpec

import numpy as np
from typing_extensions import TypeVar

from undertow.adversaries import Against
from undertow.certificate import Leakage, ValidFor
from undertow.errors import InvalidInput, MethodRefused
from undertow.mechanisms import DiscreteGaussian, Gaussian, Noise, Normal, Scaled, noisy
from undertow.models.chains import MarkovChain
from undertow.models.sets import AnyModel
from undertow.numerics import Array, down, freeze, up
from undertow.planning.budget import PRECISE, Search
from undertow.progress import Metered
from undertow.queries import AnyQuery, LocalQuery, State, rest_of
from undertow.secrets import Secret, Window

__all__ = [
    "CERTAIN",
    "Aim",
    "Noise",
    "Objective",
    "Prove",
    "Question",
    "Remembered",
    "Scaled",
    "Shape",
    "Solution",
    "Solve",
    "Way",
    "chains_of",
    "check_objective",
    "information",
    "long_run_law",
    "noise_way",
]


Objective = Literal["flips", "information", "absolute", "squared"] | Sequence[float]

_DOUBLINGS = 50
"""The mean law of a series of any length is taken over 2^50 records."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The laws of a record, one for each model of a set, and the cost of flipping a state.

    ``laws`` has a row for each model, ``weights`` an entry for each state; None asks for
    information instead. Over several laws the worst one counts.

    >>> aim = Aim(np.array([[.75, .25]]), np.ones(2))
    >>> aim.flips(np.array([[.9, .1], [.2, .8]]))
    0.125
    """

    laws: Array
    weights: Array | None

    def cost(self, channel: Array) -> float:
        """Return what a channel costs: weighted flips, or bits short of full knowledge of none."""
        if self.weights is None:
            return -self.bits(channel)
        return self.cost_of_rates(1 - np.diag(channel))

    def cost_of_rates(self, rates: Array) -> float:
        """Return the expected cost of flipping each state at its rate."""
        weights = 1.0 if self.weights is None else self.weights
        return float(np.max(self.laws @ (weights * rates)))

    def flips(self, channel: Array) -> float:
        """Return the expected share of flipped records."""
        return float(np.max(self.laws @ (1 - np.diag(channel))))

    def bits(self, channel: Array) -> float:
        """Return the information of one record and its output, in bits."""
        return min(information(law, channel) for law in self.laws)


def information(law: Array, channel: Array) -> float:
    """Return the mutual information of a record and its output, in bits.

    >>> information(np.array([.5, .5]), np.eye(2))
    1.0
    """
    shown = law @ channel  # (outputs)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = law[:, None] * channel * (np.log2(channel) - np.log2(shown))  # (states, outputs)
    return max(0.0, float(np.nansum(terms)))


def long_run_law(chain: MarkovChain) -> Array:
    """Return the law of a record, on average over the series.

    The stationary law, or with a given start the mean of the laws of all records; where the
    length is open, the limit of that mean.

    >>> long_run_law(MarkovChain([[0, 1], [1, 0]], start=[1, 0]))
    array([0.5, 0.5])
    """
    if isinstance(chain.start, str):
        return chain.initial
    if chain.length is not None:
        return np.asarray(chain.marginals(chain.length).mean(axis=0))
    mean, power = np.eye(chain.size), chain.transition
    for _ in range(_DOUBLINGS):
        # the mean of P^0 .. P^(2m - 1) from that of P^0 .. P^(m - 1)
        mean = (mean + power @ mean) / 2
        power = power @ power
        power = power / power.sum(axis=1, keepdims=True)
    law = chain.initial @ mean
    return np.asarray(law / law.sum())


def check_objective(objective: Any, size: int) -> Array | None:
    """Return the weights of an objective, None for information.

    >>> check_objective("flips", 2)
    array([1., 1.])
    """
    if isinstance(objective, str):
        if objective == "flips":
            return freeze(np.ones(size))
        if objective == "information":
            return None
        raise InvalidInput(
            f"objective must be 'flips', 'information' or a list of {size} costs, found "
            f"{objective!r}"
        )
    weights = freeze(objective)
    if weights.shape != (size,):
        raise InvalidInput(
            f"objective needs one cost for each of the {size} states, found shape {weights.shape}"
        )
    if not all(math.isfinite(w) and w >= 0 for w in weights) or not weights.any():
        raise InvalidInput(
            "objective: costs must be finite, none below 0 and one at least above it"
        )
    return weights


CERTAIN = (
    "every record is certain under this model, or to this adversary, or the answer does not depend "
    "on any record: nothing can leak, and no noise is needed"
)

Shape = Literal["laplace", "gaussian", "discrete-gaussian"]
"""The kinds of noise that can be asked for."""

P = ParamSpec("P")
R = TypeVar("R")
Q = TypeVar("Q", bound=AnyQuery | LocalQuery, default=AnyQuery, covariant=True)


def chains_of(model: AnyModel) -> list[MarkovChain]:
    """Return the Markov chains among the models that may be true."""
    return [member for member in model.members() if isinstance(member, MarkovChain)]


@dataclass(frozen=True, slots=True)
class Question(Generic[Q]):
    """What is asked of a method.

    ``search`` says how closely to look for the least noise, ``objective`` what flips should spare,
    or which error a table of noise.
    ``alone``: this answer on whole series is all that is released of them. ``effort`` is what each
    method may spend on it (`undertow.progress`), ``patience`` the share of an effort limit of its
    own.
    The leakage of all ``releases`` together is to be at most ``limit`` at ``delta``, by noise of
    the kind ``shape``. ``missing`` is what a missing record is, as in a plan; None leaves it to the
    method: any pattern of them where its proof covers that, else none.
    """

    query: Q
    model: AnyModel
    limit: float
    against: Against
    secret: Secret
    search: Search = PRECISE
    valid_for: ValidFor = "series"
    alone: bool = False
    patience: float = 1.0
    effort: float = 1.0
    objective: Objective = "flips"
    delta: float = 0.0
    releases: int = 1
    shape: Shape = "laplace"
    missing: State | None = None

    @property
    def length(self) -> int | None:
        """The number of records, where the model fixes it."""
        return self.model.length

    @property
    def window(self) -> Window:
        """The records in a row whose history is secret: one, unless a window was asked for."""
        return Window(self.secret.window)

    @property
    def families(self) -> set[str]:
        """The families of models that may be true."""
        return {member.family for member in self.model.members()}

    @property
    def form(self) -> Literal["any", "ignorant"]:
        """Which influences of a record on others count: given what is known, or alone."""
        return "ignorant" if self.against == "ignorant" else "any"

    @property
    def influences(self) -> str:
        """Which influences count, in words."""
        given = " (conditional on whatever else is known)" if self.form == "any" else ""
        return f"exact max-influences{given}"

    def chains(self, method: str) -> list[MarkovChain]:
        """Return the chains of the model, or refuse on behalf of a method that needs chains."""
        chains = chains_of(self.model)
        for other in self.model.members():
            if other not in chains:
                raise MethodRefused(
                    f"'{method}' needs a MarkovChain, found {other.describe()}"
                    + ("; use method='best'" if self.query.task == "answer" else "")
                )
        return chains

    def with_missing(self, missing: State) -> "Question[Q]":
        """Return the question once it is said what a missing record is.

        A histogram whose records are all in some state is another question: its sum is public.
        """
        query: Any = self.query.on(self.model.states, rest_of(missing, self.model.states))
        return replace(self, missing=missing, query=query)

    def noise(self, scale: float) -> Scaled:
        """Return the query with Laplace noise of the given scale: discrete for whole numbers."""
        return noisy(self.query, scale)  # type: ignore[arg-type]

    def normal(self, sigma: float) -> Normal:
        """Return the query with Gaussian noise of the given sigma, of the kind asked for."""
        kind = DiscreteGaussian if self.shape == "discrete-gaussian" else Gaussian
        return kind(self.query, sigma)  # type: ignore[arg-type]

    def each(self, together: Noise) -> Noise:
        """Return the noise of one release, if all of them are as much as ``together``.

        Levels add up, and so do squares of mu: scales grow with the number of releases, sigmas
        with its square root. Rounded up, by more than `together` rounds down.
        """
        if self.releases == 1:
            return together
        return together.with_amount(up(together.amount * self._growth(together), 24))

    def together(self, each: Noise) -> Noise:
        """Return the noise of one release that leaks as much as all of them, rounded down."""
        if self.releases == 1:
            return each
        return each.with_amount(down(each.amount / self._growth(each), 8))

    def _growth(self, noise: Noise) -> float:
        """Return how much more noise each of several releases needs."""
        return self.releases if noise.measure == "scale" else math.sqrt(self.releases)


Solve = Callable[[Question], Scaled]
Prove = Callable[[Question, Scaled], Leakage]


class Remembered(Metered[P, R]):
    """A pure function that keeps what it found last.

    Every plan is proved when it is made and again before it is used; the second time is free.

    >>> square = Remembered(lambda number: number * number)
    >>> square(3), square(3)
    (9, 9)
    """


@dataclass(frozen=True, slots=True)
class Solution:
    """A mechanism that answers a question, and what is to be said about it.

    ``leakage`` is what its search proved of it, None where that is still to be done; ``notes`` are
    further assumptions, ``measures`` named numbers about it, and ``optimal`` says whether nothing
    can serve better.
    """

    mechanism: Any
    leakage: Leakage | None = None
    notes: tuple[str, ...] = ()
    measures: tuple[tuple[str, float], ...] = ()
    optimal: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """How a method goes about a question: find a mechanism for it, and prove any given one.

    ``prove`` returns what the method certifies for a mechanism, and searches for none.
    """

    solve: Callable[["Question[Any]"], Solution]
    prove: Callable[["Question[Any]", Any], Leakage]


def noise_way(solve: Solve, prove: Prove) -> Way:
    """Return the way of a method that finds nothing but noise."""
    return Way(lambda question: Solution(solve(question)), prove)
