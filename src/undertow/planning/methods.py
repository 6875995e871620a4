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
from undertow.errors import MethodRefused
from undertow.mechanisms import sensitivity_upper
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.sets import AnyModel, members
from undertow.numerics import divide_up
from undertow.planning import chains, gaussian, networks
from undertow.planning.dependent import CITATION, dependent
from undertow.planning.questions import Kind, Method, Question, Solution, kind_of
from undertow.queries import Linear

__all__ = ["METHODS", "methods_for"]

Solve = Callable[[Question], Solution]


def _for_each(**solvers: Solve) -> Solve:
    """Return a solver that hands each question to the one for its kind of model.

    Where the kinds are mixed, or one has no solver, the one for chains answers or refuses.
    """

    def solve(question: Question) -> Solution:
        kinds = {kind_of(member) for member in members(question.model)}
        kind = kinds.pop() if len(kinds) == 1 else "chain"
        return solvers.get(kind, solvers["chain"])(question)

    return solve


def _group(question: Question) -> Solution:
    length, found = question.length, members(question.model)
    sizes = [dependence_size(member) for member in found]
    if any(size is None for size in sizes):
        raise MethodRefused(
            "'group' multiplies by the number of dependent records; give the chain a length"
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
