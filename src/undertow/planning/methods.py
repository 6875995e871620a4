"""Every method that turns a promise into noise, side by side.

Each answers the same question: what noise keeps the leakage of this query on this model below
epsilon, against whom, and by what proof? A method is one idea; chains, Gaussian records and
networks have ways of their own for it.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Literal

from undertow.bounds.groups import group_leakage
from undertow.certificate import WIDTHS, Leakage
from undertow.errors import MethodRefused
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.sets import AnyModel, ModelSet, SingleModel, members
from undertow.numerics import divide_up
from undertow.planning import chains, gaussian, networks
from undertow.planning.dependent import CITATION, dependent, prove_dependent
from undertow.planning.questions import Kind, Method, Noise, Question, Way, kind_of
from undertow.queries import Count, Histogram, Linear

__all__ = ["METHODS", "check_ranges", "methods_for"]


def _for_each(**ways: Way) -> Way:
    """Return a way that hands each question to the one for its kind of model.

    Where kinds are mixed, each is asked by itself: the largest noise serves them all, since more
    noise never leaks more, and the worst proof of a noise counts. Where one has no way of its own,
    that for chains answers or refuses.
    """

    def solve(question: Question) -> Noise:
        found = [way.solve(part) for way, part in _parts(question, ways)]
        return max(found, key=lambda noise: noise.scale)

    def prove(question: Question, noise: Noise) -> Leakage:
        found = [way.prove(part, noise) for way, part in _parts(question, ways)]
        if len(found) == 1:
            return found[0]
        worst = max(found, key=lambda leak: leak.upper)
        notes = dict.fromkeys(note for leak in found for note in leak.assumptions)
        least = min(found, key=lambda leak: WIDTHS.index(leak.covers))
        return replace(
            worst, lower=0.0, witness=None, assumptions=tuple(notes), covers=least.covers
        )

    return Way(solve, prove)


def _parts(question: Question, ways: dict[str, Way]) -> list[tuple[Way, Question]]:
    """Return each kind of a question's models as a question of its own, with the way for it."""
    by_kind: dict[Kind, list[SingleModel]] = {}
    for member in members(question.model):
        by_kind.setdefault(kind_of(member), []).append(member)
    if len(by_kind) == 1:
        (kind,) = by_kind
        return [(ways.get(kind, ways["chain"]), question)]
    return [
        (ways.get(kind, ways["chain"]), replace(question, model=ModelSet(found)))
        for kind, found in by_kind.items()
    ]


def _group(question: Question) -> Noise:
    """Return the noise for as many records as depend on each other, in any way."""
    moved = Fraction(question.query.sensitivity_upper(question.length))
    return question.noise(divide_up(_group_size(question) * moved, question.epsilon))


def _prove_group(question: Question, noise: Noise) -> Leakage:
    """Return what any dependence among as many records could leak."""
    leak = group_leakage(noise, _group_size(question), question.against, question.length)
    alone = all(isinstance(member, Groups) for member in members(question.model))
    return replace(leak, lower=leak.lower if alone else 0.0, covers="any")


def _group_size(question: Question) -> int:
    """Return how many records depend on each other, or refuse."""
    sizes = [member.dependent_records() for member in members(question.model)]
    if any(size is None for size in sizes):
        raise MethodRefused(
            "'group' multiplies by the number of dependent records; give the chain a length"
        )
    check_ranges(question)
    informed = question.against == "informed"
    return 1 if informed else max(size for size in sizes if size is not None)


def check_ranges(question: Question) -> None:
    """Refuse a question in which one record can move the answer without bound."""
    query, found = question.query, members(question.model)
    if not any(isinstance(member, MultivariateGaussian | GaussianClass) for member in found):
        return
    if isinstance(query, Count | Histogram):
        raise MethodRefused(
            f"{type(query).__name__} asks for states, and Gaussian records are real numbers; ask "
            "for a Sum, a Mean or a Linear statistic"
        )
    if isinstance(query, Linear) and query.lower is None:
        raise MethodRefused(
            "'group' needs records with a range, and unclipped Gaussian records have none; use "
            "method='exact', or clip them (Sum, Mean)"
        )


_EVERY: tuple[Kind, ...] = ("chain", "gaussian", "network", "groups")
_PATTERN: tuple[Kind, ...] = ("chain", "network")
_CHAIN: tuple[Kind, ...] = ("chain",)

_WAYS: dict[str, Way] = {
    "exact": _for_each(
        chain=Way(chains.solve_exact, chains.prove_exact),
        gaussian=Way(gaussian.exact, gaussian.prove_exact),
        network=Way(networks.solve_exact, networks.prove_exact),
    ),
    "exchange": _for_each(
        chain=Way(chains.solve_exchange, chains.prove_exchange),
        gaussian=Way(gaussian.exchange, gaussian.prove_exchange),
        network=Way(networks.solve_exchange, networks.prove_exchange),
    ),
    "quilt": _for_each(
        chain=Way(chains.solve_quilt, chains.prove_quilt),
        network=Way(networks.solve_quilt, networks.prove_quilt),
    ),
    "quilt-approx": Way(chains.solve_quilt_approx, chains.prove_quilt_approx),
    "wasserstein": _for_each(
        chain=Way(chains.solve_wasserstein, chains.prove_wasserstein),
        network=Way(networks.solve_wasserstein, networks.prove_wasserstein),
    ),
    "group": Way(_group, _prove_group),
    "dependent": Way(dependent, prove_dependent),
    "lange": Way(chains.solve_lange, chains.prove_published),
    "zhao": Way(chains.solve_zhao, chains.prove_published),
    "zhao-multistep": Way(chains.solve_zhao_multistep, chains.prove_published),
    "gaussian-bound": Way(gaussian.gaussian_bound, gaussian.prove_gaussian_bound),
}
"""How each method finds noise and proves noise."""


def _listed(
    name: str, summary: str, citation: str, certified: bool,
    protects: tuple[Literal["any", "ignorant"], ...], kinds: tuple[Kind, ...],
) -> Method:  # fmt: skip
    return Method(
        name, summary, citation, certified, protects, kinds, _WAYS[name].solve, _WAYS[name].prove
    )


_LISTED = (
    _listed("exact", "the leakage of this very answer", "docs, theory: noisy counts",
            True, ("any",), ("chain", "gaussian", "network")),
    _listed("exchange", "what any algorithm of the same level could leak",
            "docs, theory: exchange rate", True, ("any",), _EVERY),
    _listed("quilt", "Markov quilts with exact influences", "Theorem 4.4 of [wang2016]",
            True, ("any", "ignorant"), _PATTERN),
    _listed("quilt-approx", "Markov quilts from the least probability and the spectral gap",
            "Lemma 4.7 of [wang2016]", True, ("ignorant",), _CHAIN),
    _listed("wasserstein", "how far one record can move the answer", "Theorem 3.2 of [wang2016]",
            True, ("ignorant",), _PATTERN),
    _listed("group", "any dependence whatever among the records", "Theorem 4.2 of [lange2024]",
            True, ("any",), _EVERY),
    _listed("dependent", "dependence coefficients, confirmed by the leakage", CITATION,
            True, ("any",), _EVERY),
    _listed("lange", "epsilon + 4 ln max P / min P", "Corollary 7.4 of [lange2024]",
            False, ("any",), _CHAIN),
    _listed("zhao", "epsilon + 6 ln of the largest ratio into one state", "[zhao2017]",
            False, ("any",), _CHAIN),
    _listed("zhao-multistep", "the same over several steps",
            "Proposition 1 of [chakrabarti2022], after [zhao2017]", False, ("any",), _CHAIN),
    _listed("gaussian-bound", "a factor from the largest correlation",
            "Proposition 6.4 of [lange2024]", False, ("any",), ("gaussian",)),
)  # fmt: skip

METHODS: dict[str, Method] = {method.name: method for method in _LISTED}
"""All methods by name, in the order in which tables show them."""


def methods_for(model: AnyModel) -> list[str]:
    """Return the names of the methods that have something to say about a model.

    >>> methods_for(Groups(3))
    ['exchange', 'group', 'dependent']
    """
    return [name for name, method in METHODS.items() if method.suits(model)]
