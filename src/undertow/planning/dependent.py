"""The dependent perturbation mechanism, believed only where a leakage confirms it.

[liu2016] adds up what every other record gives away about the target, pair by pair, and calls the
sum a sensitivity. Pairs do not tell all, so here the sum proposes a scale and the leakage of that
noise decides. Where it does not confirm the promise, the noise is that of the paper's baseline,
which treats all dependent records as one, and the plan says why.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from undertow.bounds.dependence.coefficients import fixed_point_scale
from undertow.bounds.dependence.sizes import dependence_size
from undertow.bounds.dependence.totals import (
    Total,
    chain_total,
    gaussian_total,
    network_total,
)
from undertow.bounds.engine import group_leakage, leakage
from undertow.certificate import Leakage
from undertow.errors import MethodRefused, NothingToProtect, NotSupported
from undertow.mechanisms import DiscreteLaplace, Laplace, sensitivity_upper
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.markov import MarkovChain
from undertow.models.network import BayesianNetwork
from undertow.models.sets import members
from undertow.numerics import Array, divide_up, up
from undertow.planning.questions import Question, Solution
from undertow.queries import AnyQuery, Linear, Mean, Sum

__all__ = ["CITATION", "dependent"]

CITATION = "sections VI-A and VI-B of [liu2016], confirmed by the leakage"

EVERY_GROUP = "nothing is known of the dependence inside a group: every coefficient is 1"

SLIGHT = 1e-4
"""Relative excess of a leakage over the promise that more noise makes good: rounding, and the
lattice on which sums are released. Any larger one speaks against the coefficients."""


def dependent(question: Question) -> Solution:
    """Return the noise of the dependence coefficients, or that of the baseline, and its leakage.

    The scale is the fixed point of max over i of sum over j of rho_ij(scale) Delta_j / epsilon, the
    largest over the members of a set of models. `undertow.leakage` must prove that it leaks at most
    epsilon against the adversary of the question; for two records it always does, and for `Groups`,
    whose coefficients are all 1. Otherwise the scale is L * sensitivity / epsilon, with L the size
    of the largest group of mutually dependent records (Theorem 7 of [liu2016], proved by Theorem
    4.2 of [lange2024]), and the assumptions of the leakage name the reason. Refuses with
    `MethodRefused` where neither is possible, as on a chain of any length.

    >>> from undertow import Count, MarkovChain
    >>> from undertow.planning.search import check_question
    >>> chain = MarkovChain([[.8, .2], [.2, .8]], length=2)
    >>> mechanism, prove = dependent(check_question(Count(1), chain, 1.0, "any"))
    >>> round(mechanism.scale, 6), prove().proves(1.0)
    (1.587533, True)
    """
    wanted: list[float] = []
    certain = 0
    found = members(question.model)
    reason = ""
    for member in found:
        try:
            wanted.append(_wanted(member, question))
        except NothingToProtect:
            certain += 1
        except MethodRefused as refusal:
            reason = str(refusal)
    if certain == len(found):
        raise NothingToProtect(
            "every record is certain under this model, or the answer does not depend on any: "
            "nothing can leak, and no noise is needed"
        )
    if not reason:
        solution, reason = _confirmed(question, max(wanted))
        if solution is not None:
            return solution
    return _baseline(question, reason)


def _wanted(model: object, question: Question) -> float:
    """Return the scale that the coefficients ask for on one model, or refuse."""
    query, epsilon = question.query, question.epsilon
    total: Total
    if isinstance(model, Groups):  # nothing is known inside a group: every coefficient is 1
        return _noise_for(model.size, question)
    if isinstance(model, MarkovChain):
        total = chain_total(model, query)
    elif isinstance(model, BayesianNetwork):
        total = network_total(model, query)
    elif isinstance(model, MultivariateGaussian | GaussianClass):
        total = gaussian_total(_covariance(model), *_weights(query, model.length))
    else:
        raise MethodRefused(
            "dependence coefficients need the law of the records, and this model is a class of laws"
        )
    least = query.sensitivity(question.length) / epsilon
    return fixed_point_scale(total, epsilon, least, question.search.precision)


def _covariance(model: MultivariateGaussian | GaussianClass) -> Array:
    """Return the covariances, or the largest they may be."""
    if isinstance(model, MultivariateGaussian):
        return model.covariance
    sds = np.ones(model.length) if model.sds is None else np.array(model.sds)
    largest = model.rho * np.outer(sds, sds)
    np.fill_diagonal(largest, sds**2)
    return largest


def _weights(query: AnyQuery, length: int) -> tuple[Array, float, bool]:
    """Return the weights of a sum of numbers, the spread of a record, and whether it is clipped."""
    if isinstance(query, Linear):
        if query.outputs > 1:
            raise MethodRefused("dependence coefficients are those of one answer, not of several")
        return query.weights.reshape(-1), query.spread, query.lower is not None
    if isinstance(query, Sum | Mean):
        each = 1 / length if isinstance(query, Mean) else 1.0
        return np.full(length, each), float(query.upper) - float(query.lower), True
    raise MethodRefused(
        f"dependence coefficients of Gaussian records are those of a Linear, Sum or Mean, not of "
        f"{type(query).__name__}"
    )


def _confirmed(question: Question, asked: float) -> tuple[Solution | None, str]:
    """Return the noise of a scale if its leakage keeps the promise, else None and the reason."""
    scale, more = asked, ""
    for _ in range(8):
        mechanism = question.noise(scale)
        try:
            leak = leakage(mechanism, question.model, question.against)
        except NotSupported as refusal:
            return None, f"the leakage of the coefficients' scale {asked:.6g} is unknown: {refusal}"
        if leak.proves(question.epsilon):
            note = (
                EVERY_GROUP
                if _groups(question)
                else f"the scale is that of the dependence coefficients of [liu2016], {asked:.6g}"
                f"{more}; pairs of records prove nothing by themselves, the leakage of this noise "
                "does"
            )
            return (mechanism, _proof(leak, note)), ""
        scale *= up(leak.upper / question.epsilon, 2**12)
        more = " and a little more for rounding"
        if not scale <= asked * (1 + SLIGHT):
            break
    verdict = (
        f"leaks {leak.lower:.6g} or more"
        if leak.lower > question.epsilon
        else f"is proved to leak at most {leak.upper:.6g}"
    )
    return None, (
        f"the dependence coefficients ask for a scale of {asked:.6g}, which {verdict}, not "
        f"{question.epsilon:g}: pairs of records do not tell all"
    )


def _baseline(question: Question, reason: str) -> Solution:
    """Return the noise for L records that depend on each other in any way, or refuse."""
    found = members(question.model)
    sizes = [dependence_size(member) for member in found]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        raise MethodRefused(
            f"'dependent' cannot keep this promise: {reason}; and its baseline multiplies by the "
            "number of dependent records, which this model does not bound; give it a length"
        )
    size = 1 if question.against == "informed" else max(known)
    mechanism = question.noise(_noise_for(size, question))
    note = f"{reason}; so this is the noise for {size} records that depend in any way"
    if (
        isinstance(question.query, Linear)
        and question.query.lower is None
        and any(isinstance(member, MultivariateGaussian | GaussianClass) for member in found)
    ):
        return _unbounded(question, mechanism, note)
    leak = group_leakage(mechanism, size, question.against, question.length)
    return mechanism, _proof(replace(leak, lower=0.0), note)


def _unbounded(question: Question, mechanism: Laplace | DiscreteLaplace, note: str) -> Solution:
    """Return the baseline for records without a range: only their leakage can prove it."""
    leak = leakage(mechanism, question.model, question.against)
    if not leak.proves(question.epsilon):
        raise MethodRefused(
            f"'dependent' cannot keep this promise: {note}, and since Gaussian records have no "
            f"range even that leaks up to {leak.upper:.6g}; use method='best'"
        )
    return mechanism, _proof(leak, note)


def _noise_for(size: int, question: Question) -> float:
    """Return size * sensitivity / epsilon, rounded up."""
    moved = Fraction(sensitivity_upper(question.query, question.length))
    return divide_up(size * moved, question.epsilon)


def _groups(question: Question) -> bool:
    return all(isinstance(member, Groups) for member in members(question.model))


def _proof(leak: Leakage, note: str) -> Callable[[], Leakage]:
    proved = replace(leak, assumptions=(*leak.assumptions, note))
    return lambda: proved
