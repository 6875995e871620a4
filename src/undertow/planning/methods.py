"""Every method that turns a promise into noise, side by side.

Each answers the same question: what noise keeps the leakage of this query on this model below
epsilon, against whom, and by what proof? A method is one idea; chains, Gaussian records and
networks have solvers of their own for it.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from undertow.bounds.dependence.sizes import dependence_size
from undertow.bounds.engine import group_leakage
from undertow.certificate import Leakage
from undertow.errors import MethodRefused
from undertow.mechanisms import sensitivity_upper
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.sets import AnyModel, ModelSet, SingleModel, members
from undertow.numerics import divide_up
from undertow.planning import chains, gaussian, networks
from undertow.planning.dependent import CITATION, dependent
from undertow.planning.questions import Kind, Method, Question, Solution, kind_of
from undertow.queries import Count, Histogram, Linear

__all__ = ["METHODS", "methods_for"]

Solve = Callable[[Question], Solution]


def _for_each(**solvers: Solve) -> Solve:
    """Return a solver that hands each question to the one for its kind of model.

    Where kinds are mixed, each is asked by itself, and the largest noise serves them all; where one
    has no solver, the one for chains answers or refuses.
    """

    def solve(question: Question) -> Solution:
        by_kind: dict[Kind, list[SingleModel]] = {}
        for member in members(question.model):
            by_kind.setdefault(kind_of(member), []).append(member)
        if len(by_kind) == 1:
            (kind,) = by_kind
            return solvers.get(kind, solvers["chain"])(question)
        parts = [
            solvers.get(kind, solvers["chain"])(replace(question, model=ModelSet(found)))
            for kind, found in by_kind.items()
        ]
        return _loudest(parts)

    return solve


def _loudest(parts: list[Solution]) -> Solution:
    """Return the largest noise of several, which serves them all: more noise never leaks more."""
    mechanism = max((noise for noise, _ in parts), key=lambda noise: noise.scale)

    def prove() -> Leakage:
        found = [proof() for _, proof in parts]
        worst = max(found, key=lambda leak: leak.upper)
        notes = dict.fromkeys(note for leak in found for note in leak.assumptions)
        return replace(worst, lower=0.0, witness=None, assumptions=tuple(notes))

    return mechanism, prove


def _group(question: Question) -> Solution:
    length, found = question.length, members(question.model)
    sizes = [dependence_size(member) for member in found]
    if any(size is None for size in sizes):
        raise MethodRefused(
            "'group' multiplies by the number of dependent records; give the chain a length"
        )
    if isinstance(question.query, Count | Histogram) and any(
        isinstance(member, MultivariateGaussian | GaussianClass) for member in found
    ):
        raise MethodRefused(
            f"{type(question.query).__name__} asks for states, and Gaussian records are real "
            "numbers; ask for a Sum, a Mean or a Linear statistic"
        )
    if (
        isinstance(question.query, Linear)
        and question.query.lower is None
        and any(isinstance(member, MultivariateGaussian | GaussianClass) for member in found)
    ):
        raise MethodRefused(
            "'group' needs records with a range, and unclipped Gaussian records have none; use "
            "method='exact', or clip them (Sum, Mean)"
        )
    informed = question.against == "informed"
    size = 1 if informed else max(size for size in sizes if size is not None)
    total = Fraction(size) * Fraction(sensitivity_upper(question.query, length))
    mechanism = question.noise(divide_up(total, question.epsilon))
    leak = group_leakage(mechanism, size, question.against, length)
    if not all(isinstance(member, Groups) for member in found):
        leak = replace(leak, lower=0.0)
    return mechanism, lambda: leak


_EVERY: tuple[Kind, ...] = ("chain", "gaussian", "network", "groups")
_PATTERN: tuple[Kind, ...] = ("chain", "network")
_CHAIN: tuple[Kind, ...] = ("chain",)

_LISTED = (
    Method("exact", "the leakage of this very answer", "docs, theory: noisy counts",
           True, ("any",), ("chain", "gaussian", "network"),
           _for_each(chain=chains.solve_exact, gaussian=gaussian.exact,
                     network=networks.solve_exact)),
    Method("exchange", "what any algorithm of the same level could leak",
           "docs, theory: exchange rate", True, ("any",), _EVERY,
           _for_each(chain=chains.solve_exchange, gaussian=gaussian.exchange,
                     network=networks.solve_exchange)),
    Method("quilt", "Markov quilts with exact influences", "Theorem 4.4 of [wang2016]",
           True, ("any", "ignorant"), _PATTERN,
           _for_each(chain=chains.solve_quilt, network=networks.solve_quilt)),
    Method("quilt-approx", "Markov quilts from the least probability and the spectral gap",
           "Lemma 4.7 of [wang2016]", True, ("ignorant",), _CHAIN, chains.solve_quilt_approx),
    Method("wasserstein", "how far one record can move the answer", "Theorem 3.2 of [wang2016]",
           True, ("ignorant",), _PATTERN,
           _for_each(chain=chains.solve_wasserstein, network=networks.solve_wasserstein)),
    Method("group", "any dependence whatever among the records", "Theorem 4.2 of [lange2024]",
           True, ("any",), _EVERY, _group),
    Method("dependent", "dependence coefficients, confirmed by the leakage", CITATION,
           True, ("any",), _EVERY, dependent),
    Method("lange", "epsilon + 4 ln max P / min P", "Corollary 7.4 of [lange2024]",
           False, ("any",), _CHAIN, chains.solve_lange),
    Method("zhao", "epsilon + 6 ln of the largest ratio into one state", "[zhao2017]",
           False, ("any",), _CHAIN, chains.solve_zhao),
    Method("zhao-multistep", "the same over several steps",
           "Proposition 1 of [chakrabarti2022], after [zhao2017]",
           False, ("any",), _CHAIN, chains.solve_zhao_multistep),
    Method("gaussian-bound", "a factor from the largest correlation",
           "Proposition 6.4 of [lange2024]", False, ("any",), ("gaussian",),
           gaussian.gaussian_bound),
)  # fmt: skip

METHODS: dict[str, Method] = {method.name: method for method in _LISTED}
"""All methods by name, in the order in which tables show them."""


def methods_for(model: AnyModel) -> list[str]:
    """Return the names of the methods that have something to say about a model.

    >>> methods_for(Groups(3))
    ['exchange', 'group', 'dependent']
    """
    return [name for name, method in METHODS.items() if method.suits(model)]
