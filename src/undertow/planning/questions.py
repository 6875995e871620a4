"""The question that a method of calibration answers, its validation, and the solution."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, ParamSpec, get_args

from typing_extensions import TypeVar

from undertow import progress
from undertow.adversaries import Against, check_against, check_window
from undertow.bounds.engine import check_fit
from undertow.certificate import Leakage, ValidFor, check_valid_for
from undertow.curves import check_delta
from undertow.errors import InvalidInput, MethodRefused, UnknownState
from undertow.labels import along
from undertow.mechanisms import DiscreteGaussian, Gaussian, Noise, Normal, Scaled, noisy
from undertow.models.base import Model, stands_for
from undertow.models.chains import MarkovChain
from undertow.models.sets import AnyModel
from undertow.numerics import check_choice, check_count, check_epsilon, down, shown, up
from undertow.planning.budget import PRECISE, Search
from undertow.queries import AnyQuery, BaseQuery, LocalQuery, State, Task, rest_of
from undertow.secrets import Secret, Window, check_secret

__all__ = [
    "CERTAIN",
    "Noise",
    "Objective",
    "Question",
    "Remembered",
    "Scaled",
    "Shape",
    "Solution",
    "Solver",
    "chains_of",
    "check_question",
    "noise_solver",
]


Objective = Literal["flips", "information", "absolute", "squared"] | Sequence[float]

CERTAIN = (
    "every record is certain under this model, or to this adversary, or the answer does not depend "
    "on any record: nothing can leak, and no noise is needed"
)

Shape = Literal["laplace", "gaussian", "discrete-gaussian"]
"""The kinds of noise that can be asked for."""

MOST_RELEASES = 10**9
"""Releases that one plan counts at most: their levels add up to a float."""

P = ParamSpec("P")
R = TypeVar("R")
Q = TypeVar("Q", bound=AnyQuery | LocalQuery, default=AnyQuery, covariant=True)


def chains_of(model: AnyModel) -> list[MarkovChain]:
    """Return the Markov chains among the models that may be true."""
    return [member for member in model.members() if isinstance(member, MarkovChain)]


@dataclass(frozen=True, slots=True)
class Question(Generic[Q]):
    """A validated question for a method of calibration.

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
        """Which influences of a record on others count: given other known records, or alone."""
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
        """Return the question with what a missing record is.

        A histogram whose records are all in some state is another question: its sum is public.
        """
        query: Any = self.query.on(self.model.states, rest_of(missing, self.model.states))
        return replace(self, missing=missing, query=query)

    def shapes(self, noise: Shape | None) -> list[Shape]:
        """Return the kinds of noise to try: the one asked for, or all that may keep the limit."""
        query = self.query
        if noise is not None or query.task != "answer" or query.selects or not self.delta:
            return [noise or "laplace"]
        return ["laplace", "gaussian"]

    def shaped(self, shape: Shape) -> "Question[Q]":
        """Return the question for one kind of noise; Laplace noise keeps a limit without delta."""
        return replace(self, shape=shape, delta=0.0 if shape == "laplace" else self.delta)

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


class Remembered(progress.Metered[P, R]):
    """A pure function that keeps its last results.

    Every plan is proved when it is made and again before it is used; the second time is free.

    >>> square = Remembered(lambda number: number * number)
    >>> square(3), square(3)
    (9, 9)
    """


@dataclass(frozen=True, slots=True)
class Solution:
    """A mechanism that answers a question, with its proof, notes and measures.

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
class Solver:
    """The two functions of a method: one finds a mechanism, one proves any given one.

    ``prove`` returns what the method certifies for a mechanism, and searches for none.
    """

    solve: Callable[["Question[Any]"], Solution]
    prove: Callable[["Question[Any]", Any], Leakage]


N = TypeVar("N", bound=Noise)


def noise_solver(solve: Callable[[Question], N], prove: Callable[[Question, N], Leakage]) -> Solver:
    """Return the solver of a method whose solution is noise alone."""
    return Solver(lambda question: Solution(solve(question)), prove)


def check_question(
    query: AnyQuery | LocalQuery,
    model: AnyModel,
    limit: float,
    against: Against,
    secret: Secret | None = None,
    *,
    objective: Objective | None = None,
    valid_for: ValidFor | None = None,
    delta: float = 0.0,
    noise: Shape | None = None,
    releases: int = 1,
    missing: State | None = None,
    effort: float = 1.0,
) -> Question[Any]:
    """Check all parts of a question against the model, and return it."""
    if not isinstance(query, BaseQuery):
        raise InvalidInput(
            f"the first argument must be a query such as Count('active'), found "
            f"{type(query).__name__}"
        )
    if not isinstance(model, Model):
        raise InvalidInput(
            f"the second argument must be a model such as MarkovChain(...), found "
            f"{type(model).__name__}"
        )
    model = stands_for(model)
    task = query.task
    if noise is not None:
        check_choice(noise, "noise", get_args(Shape))
    if task != "answer" and secret is not None:
        raise InvalidInput(
            "a secret belongs to a curator's answers; a Series hides every record, and "
            "Redacted(protect=...) names the records"
        )
    if task == "flip":
        objective = along(objective, model.states, "objective")[0]
    served = {"flip": (objective,), "answer": (None, "absolute", "squared"), "redact": (None,)}
    costs = task != "flip" and not isinstance(objective, str | None)
    if costs or objective not in served[task]:
        raise InvalidInput("an objective belongs to calibrate(Series(), ...); leave it out here")
    hidden = check_secret(secret)
    query = model.valued(query.on(model.states))
    missing = _check_missing(missing, task, model)
    if query.values is not None and not model.states:
        raise InvalidInput(
            "values give the states of a model their numbers, and this model names no states: it "
            "describes numbers themselves, leave values out"
        )
    question: Question[Any] = Question(
        query, model, check_epsilon(limit, "limit"), check_against(against), hidden,
        valid_for=check_valid_for("series" if valid_for is None else valid_for),
        alone=isinstance(valid_for, str) and valid_for == "series",
        objective="flips" if objective is None else objective,
        delta=_check_delta(task, delta, noise),
        releases=check_count(releases, "releases", 1, MOST_RELEASES),
        shape=noise or "laplace", effort=progress.check_effort(effort),
    )  # fmt: skip
    if missing is not None:
        question = question.with_missing(missing)
    if task != "answer" and question.releases > 1:
        raise InvalidInput("several releases are planned for a curator's answers, not for a series")
    named = [*query.named, *(state for pair in hidden.value_pairs or () for state in pair)]
    known = model.states
    for state in named:
        if known and state not in known:
            listed = ", ".join(map(repr, known[:12]))
            raise UnknownState(f"the model has no state {state!r}; its states are {listed}")
    for member in model.members():
        check_fit(query, member)
        check_window(Window(hidden.window), question.against, member.length)
    last = max(hidden.targets or (0,))
    if question.length is not None and last >= question.length:
        raise InvalidInput(
            f"the secret names record {last}, but the series has {question.length} records, "
            "counted from 0"
        )
    return question


def _check_missing(missing: Any, task: Task, model: Model) -> State | None:
    """Check what a missing record is; None leaves it to the method of an answer."""
    states = model.states
    for word in ("any", "none"):
        if word in states:
            raise InvalidInput(
                f"a state of the model is called {word!r}, which missing={word!r} has another "
                f"meaning for: give that state another name, as in states=('{word}_of_them', ...)"
            )
    local = task != "answer"
    if missing is None:
        missing = model.records.missing
    if missing is None:
        return "none" if local else None
    if local and isinstance(missing, str) and missing == "any":
        raise InvalidInput(
            "flips and erasures are of states, so a missing record needs one: say missing='none' "
            "(one that turns up all the same counts as the first state), or name its state"
        )
    if isinstance(missing, str) and missing in ("any", "none"):
        return missing
    if not any(type(state) is type(missing) and state == missing for state in states):
        names = ", ".join(map(repr, states[:12])) or "none, as this model names none"
        raise UnknownState(
            f"missing must be 'any', 'none' or a state of the model, found {shown(missing)}; its "
            f"states are {names}"
        )
    return missing  # type: ignore[no-any-return]


def _check_delta(task: Task, delta: float, noise: Shape | None) -> float:
    """Return delta if the question can have one, or refuse it with the reason."""
    delta = check_delta(delta)
    if delta and task != "answer":
        raise InvalidInput(
            "flips and erasures are planned for pure leakage, which holds at every delta: leave "
            "delta out"
        )
    if not delta and noise not in (None, "laplace"):
        raise MethodRefused(
            f"{noise} noise leaks without bound at delta 0, because far answers tell two values "
            "apart; say how rare may be ignored, delta=1e-6 (far below 1 / number of records)"
        )
    return delta
