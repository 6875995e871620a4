"""Every method that turns a promise into noise, side by side.

Each answers the same question: what noise keeps the leakage of this query on this model below
epsilon, against whom, and by what proof?
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from undertow.adversaries import Against, Secrets, words
from undertow.bounds.engine import group_leakage, leakage
from undertow.bounds.lipschitz import enumerable, query_distance
from undertow.bounds.published import lange_constant, zhao_budget, zhao_constant
from undertow.bounds.quilt import (
    Bound,
    Quilt,
    Scale,
    Score,
    approximate_influence,
    pruned_search,
    quilt_search,
    spectral_gap,
)
from undertow.bounds.rays import visited
from undertow.bounds.wasserstein import count_distance
from undertow.certificate import Leakage
from undertow.errors import Infeasible, InvalidModel, MethodRefused, NothingToProtect
from undertow.mechanisms import DiscreteLaplace, Laplace, PureDP, sensitivity_upper
from undertow.models.classes import MixingClass
from undertow.models.groups import Groups
from undertow.models.markov import MarkovChain
from undertow.models.sets import AnyModel, members
from undertow.numerics import divide_up, up
from undertow.plan import model_length
from undertow.planning.budget import PRECISE, Search, largest_level
from undertow.queries import AnyQuery, Count, Histogram

__all__ = ["METHODS", "Method", "Question"]

CERTAIN = (
    "every record is certain under this model, or to this adversary, or the answer does not depend "
    "on any record: nothing can leak, and no noise is needed"
)

Noise = Laplace | DiscreteLaplace
Solution = tuple[Noise, Callable[[], Leakage]]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a method."""

    query: AnyQuery
    model: AnyModel
    epsilon: float
    against: Against
    secrets: Secrets
    search: Search = PRECISE

    @property
    def length(self) -> int | None:
        """The number of records, where the model fixes it."""
        return model_length(self.model)

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


@dataclass(frozen=True, slots=True)
class Method:
    """A way to calibrate noise: whom it protects, by what proof, and how.

    ``certified`` methods are proved and rounded outwards; the others stand as published, and a
    plan of theirs carries the leakage that we certify for its noise. ``solve`` returns the noise,
    and a function that proves its leakage.
    """

    name: str
    summary: str
    citation: str
    certified: bool
    protects: tuple[Literal["any", "ignorant"], ...]
    solve: Callable[[Question], Solution]

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


def _exact(question: Question) -> Solution:
    query, model, against = question.query, question.model, question.against
    if not isinstance(query, Count):
        raise MethodRefused(
            f"'exact' knows counts on chains, not {type(query).__name__}; use method='exchange'"
        )
    question.chains("exact")

    def measure(rate: float) -> Leakage:
        return leakage(DiscreteLaplace(query, 1 / rate), model, against)

    rate = largest_level(measure, model, question.epsilon, question.search)
    if math.isinf(rate):
        raise NothingToProtect(CERTAIN)
    mechanism = DiscreteLaplace(query, up(1 / rate))

    def prove() -> Leakage:
        leak = leakage(mechanism, model, against)
        if leak.method != "exact":
            raise MethodRefused(
                "'exact' cannot enumerate the windows of this chain; use method='exchange'"
            )
        return leak

    return mechanism, prove


def _exchange(question: Question) -> Solution:
    model, length = question.model, question.length
    if any(isinstance(member, MixingClass) for member in members(model)):
        raise MethodRefused(
            "'exchange' needs the chain, not only how fast it mixes; use method='quilt-approx'"
        )
    budget = largest_level(
        lambda level: leakage(PureDP(level), model, question.against),
        model, question.epsilon, question.search,
    )  # fmt: skip
    if math.isinf(budget):
        raise NothingToProtect(CERTAIN)
    mechanism = question.noise(up(question.query.sensitivity(length) / budget, 16))

    def prove() -> Leakage:
        leak = leakage(PureDP(up(mechanism.dp_epsilon(length))), model, question.against)
        whose = "the lower end and the witness are those of the worst algorithm of this DP level"
        return replace(leak, assumptions=(*leak.assumptions, whose))

    return mechanism, prove


def _quilt(question: Question) -> Solution:
    chains = question.chains("quilt")
    form: Literal["any", "ignorant"] = "ignorant" if question.against == "ignorant" else "any"
    secrets = question.secrets
    if all(visited(chain) is None for chain in chains):
        raise NothingToProtect(CERTAIN)

    def search(score: Score) -> Quilt:
        found = [quilt_search(c, form, score, secrets.pairs, secrets.records) for c in chains]
        return max(found, key=lambda quilt: quilt.value)

    conditional = " (conditional on whatever else is known)" if form == "any" else ""
    assumptions = (
        "the records follow the stated Markov chain",
        f"exact max-influences{conditional}",
    )
    return _by_quilts(question, "quilt", search, assumptions)


def _quilt_approx(question: Question) -> Solution:
    classes: list[tuple[float, float]] = []
    notes: list[str] = []
    for member in members(question.model):
        if isinstance(member, MixingClass):
            classes.append((member.pi_min, member.gap))
        elif isinstance(member, MarkovChain):
            classes.append(_mixing(member, notes))
        else:
            raise MethodRefused(
                "'quilt-approx' needs a MarkovChain, or a class of chains known by how fast they "
                f"mix, found {member.describe()}; use method='best'"
            )

    def search(score: Score) -> Quilt:
        found = [
            pruned_search(
                partial(approximate_influence, pi_min, gap), question.length, score,
                question.secrets.records,
            )
            for pi_min, gap in classes
        ]  # fmt: skip
        return max(found, key=lambda quilt: quilt.value)

    said = (
        "the records follow a chain with at least this least stationary probability and gap: "
        + "; ".join(f"{pi_min:.6g}, {gap:.6g}" for pi_min, gap in classes),
        *notes,
    )
    return _by_quilts(question, "quilt-approx", search, said)


def _mixing(chain: MarkovChain, notes: list[str]) -> tuple[float, float]:
    """Return the least stationary probability and the gap of a chain, or refuse it."""
    reduced = visited(chain)
    if reduced is None:
        raise NothingToProtect(CERTAIN)
    if not reduced.homogeneous:
        raise MethodRefused(
            "'quilt-approx' is stated for one transition matrix, this chain has one for each step; "
            "use method='quilt'"
        )
    least, gap, reversible = 0.0, 0.0, True
    with suppress(InvalidModel):  # several closed classes: no gap
        settled = MarkovChain(reduced.transition, reduced.states)
        least = float(settled.initial.min())
        if least > 0:
            gap, reversible = spectral_gap(settled)
    if gap <= 0:
        raise MethodRefused(
            "'quilt-approx' needs a chain that forgets where it was (irreducible and aperiodic, a "
            "spectral gap above 0); use method='exchange'"
        )
    if not reversible:
        notes.append(
            f"the chain is not reversible: the gap is half that of P P*, {gap:.6g}, instead of "
            "1 - |lambda_2|"
        )
    return least, gap


def _by_quilts(
    question: Question, method: str, search: Callable[[Score], Quilt], assumptions: tuple[str, ...]
) -> Solution:
    """Return the noise for the best quilts, and the leakage they prove for it."""
    found = search(Scale(question.epsilon))
    if found.value == 0:
        raise NothingToProtect(CERTAIN)
    if math.isinf(found.value):
        raise MethodRefused(
            f"'{method}' finds no quilt that a record influences by less than "
            f"{question.epsilon:g}; give the chain a length, raise epsilon, or use "
            "method='exchange'"
        )
    scale = up(question.query.sensitivity(question.length) * found.value, 16)
    for _ in range(8):
        mechanism = question.noise(scale)
        level = up(mechanism.dp_epsilon(question.length))
        upper = up(search(Bound(level)).value)
        if upper <= question.epsilon:
            break
        scale = up(scale, 64)
    inside = found.inside(question.length)
    leak = Leakage(
        0.0, upper, method, question.against,
        assumptions=(*assumptions, f"the worst record's quilt has {inside} records inside"),
        citation="Theorem 4.4 of [wang2016]",
        secrets=question.secrets,
    )  # fmt: skip
    return mechanism, lambda: leak


def _wasserstein(question: Question) -> Solution:
    query, secrets = question.query, question.secrets
    distance = 0.0
    for chain in question.chains("wasserstein"):
        if isinstance(query, Count):
            counted = np.isin(np.arange(chain.size), [chain.index(s) for s in query.states])
            found = count_distance(chain, counted, secrets.pairs, secrets.records)
            reach = float(found.upper)
            if found.lower < found.upper and enumerable(chain):  # two chances may tie exactly
                reach = query_distance(chain, query, secrets.pairs, secrets.records)
        else:
            reach = query_distance(chain, query, secrets.pairs, secrets.records)
        distance = max(distance, reach)
    if distance == 0:
        raise NothingToProtect(CERTAIN)
    mechanism = question.noise(divide_up(distance, question.epsilon))
    leak = Leakage(
        0.0, min(up(distance / mechanism.scale, 1), question.epsilon), "wasserstein",
        question.against,
        assumptions=(
            "the records follow the stated Markov chain",
            f"two values of a record move the answer by at most {distance:g}",
        ),
        citation="Theorem 3.2 of [wang2016]",
        secrets=secrets,
    )  # fmt: skip
    return mechanism, lambda: leak


def _group(question: Question) -> Solution:
    length, found = question.length, members(question.model)
    sizes = [m.size if isinstance(m, Groups) else length for m in found]
    if any(size is None for size in sizes):
        raise MethodRefused(
            "'group' multiplies by the number of dependent records; give the chain a length"
        )
    informed = question.against == "informed"
    size = 1 if informed else max(size for size in sizes if size is not None)
    total = Fraction(size) * Fraction(sensitivity_upper(question.query, length))
    mechanism = question.noise(divide_up(total, question.epsilon))
    leak = group_leakage(mechanism, size, question.against, length)
    if not all(isinstance(member, Groups) for member in found):
        leak = replace(leak, lower=0.0)
    return mechanism, lambda: leak


def _published(
    method: str, constant: Callable[[MarkovChain], float], question: Question
) -> Solution:
    """Return the noise of a bound epsilon + constant, and the leakage we certify for it."""
    largest = max(constant(chain) for chain in question.chains(method))
    level = question.epsilon - largest
    if level <= 0:
        raise Infeasible(
            f"'{method}' adds {largest:.6f} to the DP level, whatever the noise: it needs an "
            f"epsilon above {largest:.6f}, found {question.epsilon:g}; use method='exchange'",
            largest,
        )
    return _at_level(question, level)


def _zhao_multistep(question: Question) -> Solution:
    chains = question.chains("zhao-multistep")
    return _at_level(question, min(zhao_budget(chain, question.epsilon) for chain in chains))


def _at_level(question: Question, level: float) -> Solution:
    """Return the noise of a DP level, and what it leaks in truth."""
    mechanism = question.noise(question.query.sensitivity(question.length) / level)
    return mechanism, lambda: leakage(mechanism, question.model, question.against)


_LISTED = (
    Method("exact", "the leakage of this very count", "docs, theory: noisy counts",
           True, ("any",), _exact),
    Method("exchange", "what any algorithm of the same DP level could leak",
           "docs, theory: exchange rate", True, ("any",), _exchange),
    Method("quilt", "Markov quilts with exact influences", "Theorem 4.4 of [wang2016]",
           True, ("any", "ignorant"), _quilt),
    Method("quilt-approx", "Markov quilts from the least probability and the spectral gap",
           "Lemma 4.7 of [wang2016]", True, ("ignorant",), _quilt_approx),
    Method("wasserstein", "how far one record can move the answer", "Theorem 3.2 of [wang2016]",
           True, ("ignorant",), _wasserstein),
    Method("group", "any dependence whatever among the records", "Theorem 4.2 of [lange2024]",
           True, ("any",), _group),
    Method("lange", "epsilon + 4 ln max P / min P", "Corollary 7.4 of [lange2024]",
           False, ("any",), partial(_published, "lange", lange_constant)),
    Method("zhao", "epsilon + 6 ln of the largest ratio into one state", "[zhao2017]",
           False, ("any",), partial(_published, "zhao", zhao_constant)),
    Method("zhao-multistep", "the same over several steps",
           "Proposition 1 of [chakrabarti2022], after [zhao2017]",
           False, ("any",), _zhao_multistep),
)  # fmt: skip

METHODS: dict[str, Method] = {method.name: method for method in _LISTED}
"""All methods by name, in the order in which tables show them."""
