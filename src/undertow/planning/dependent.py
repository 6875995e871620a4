"""The dependent perturbation mechanism, used only where a leakage confirms it.

[liu2016] adds up the dependence of the target on every other record, pair by pair, and calls the
sum a sensitivity. Here the sum proposes a scale, and the leakage of that noise decides; else the
noise is that of the paper's baseline, which treats all dependent records as one.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from undertow.bounds.dependent import (
    Total,
    chain_total,
    fixed_point_scale,
    gaussian_total,
    network_total,
)
from undertow.bounds.engine import leakage
from undertow.bounds.groups import group_leakage
from undertow.certificate import Leakage
from undertow.errors import MethodRefused, NothingToProtect, NotSupported
from undertow.models.chains import MarkovChain
from undertow.models.gaussian import GaussianClass, MultivariateGaussian
from undertow.models.groups import Groups
from undertow.models.networks import BayesianNetwork
from undertow.numerics import Array, up
from undertow.planning.budget import aim
from undertow.planning.groups import dependents, group_noise
from undertow.planning.questions import Question, Remembered, Scaled, noise_solver
from undertow.queries import AnyQuery, Linear

__all__ = ["DEPENDENT"]

EVERY_GROUP = "nothing is known of the dependence inside a group: every coefficient is 1"

SLIGHT = 1e-4
"""Relative excess of a leakage over the guarantee that more noise makes good: rounding, and the
lattice on which sums are released. Any larger one speaks against the coefficients."""


Proposal = tuple[Scaled | None, str]
"""The noise that the coefficients ask for, None where it is not confirmed, and why."""


def dependent(question: Question) -> Scaled:
    """Return the noise of the dependence coefficients, or that of the baseline.

    The scale is the fixed point of max over i of sum over j of rho_ij(scale) Delta_j / limit, the
    largest over the members of a set of models. `undertow.leakage` must prove that it leaks at most
    limit against the adversary of the question; for two records it always does, and for `Groups`,
    whose coefficients are all 1. Otherwise the scale is L * sensitivity / limit, with L the size
    of the largest group of mutually dependent records (Theorem 7 of [liu2016], proved by Theorem
    4.2 of [lange2024]), and the assumptions of the leakage name the reason. Refuses with
    `MethodRefused` where neither is possible, as on a chain of any length.

    >>> from undertow import Count, MarkovChain
    >>> from undertow.planning.questions import check_question
    >>> chain = MarkovChain([[.8, .2], [.2, .8]], length=2)
    >>> question = check_question(Count(1), chain, 1.0, "any")
    >>> noise = dependent(question)
    >>> round(noise.scale, 6), prove_dependent(question, noise).proves(1.0)
    (1.587533, True)
    """
    proposal, note = _proposal(question)
    if proposal is not None:
        return proposal
    noise = group_noise(_size(question, note), question)
    leak = _prove_baseline(question, noise, note)
    if not leak.proves(question.limit):
        raise MethodRefused(
            f"'dependent' cannot keep this guarantee: {leak.assumptions[-1]}, and since Gaussian "
            f"records have no range even that leaks up to {leak.upper:.6g}; use method='best'"
        )
    return noise


@Remembered
def prove_dependent(question: Question, noise: Scaled) -> Leakage:
    """Return the leakage that confirms a noise, or else that of its baseline."""
    proposal, note = _proposal(question)
    if proposal is not None:
        leak = leakage(noise, question.model, question.against)
        if leak.proves(question.limit):
            level_alone = question.families == {"groups"}
            return _with_note(leak, note, "any" if level_alone else "series")
    return _prove_baseline(question, noise, note)


@Remembered
def _proposal(question: Question) -> Proposal:
    """Return the noise of the coefficients if its leakage keeps the guarantee, else the reason."""
    scales: list[float] = []
    certain = 0
    members = question.model.members()
    reason = ""
    for member in members:
        try:
            scales.append(_coefficient_scale(member, question))
        except NothingToProtect:
            certain += 1
        except MethodRefused as refusal:
            reason = str(refusal)
    if certain == len(members):
        raise NothingToProtect(
            "every record is certain under this model, or the answer does not depend on any: "
            "nothing can leak, and no noise is needed"
        )
    return (None, reason) if reason else _confirmed_noise(question, max(scales))


def _coefficient_scale(model: object, question: Question) -> float:
    """Return the scale that the coefficients ask for on one model, or refuse."""
    query, limit = question.query, question.limit
    total: Total
    match model:
        case Groups():  # nothing is known inside a group: every coefficient is 1
            return group_noise(model.size, question).scale
        case MarkovChain():
            total = chain_total(model, query)
        case BayesianNetwork():
            total = network_total(model, query)
        case MultivariateGaussian() | GaussianClass():
            total = gaussian_total(_covariance(model), *_weights(query, model.length))
        case _:
            raise MethodRefused(
                "dependence coefficients need the law of the records, and this model is a class "
                "of laws"
            )
    least = query.sensitivity(question.length) / limit
    return fixed_point_scale(total, limit, least, question.search.precision)


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
    if query.ends is not None:
        each = 1 / length if query.kind == "mean" else 1.0
        return np.full(length, each), query.ends[1] - query.ends[0], True
    raise MethodRefused(
        f"dependence coefficients of Gaussian records are those of a Linear, Sum or Mean, not of "
        f"{type(query).__name__}"
    )


def _confirmed_noise(question: Question, first: float) -> Proposal:
    """Return the noise of a scale if its leakage keeps the guarantee, else the reason."""
    scale, more = first, ""
    target = question.limit if question.families == {"groups"} else aim(question.limit)
    for _ in range(8):
        mechanism = question.noise(scale)
        try:
            leak = leakage(mechanism, question.model, question.against)
        except NotSupported as refusal:
            return None, f"the leakage of the coefficients' scale {first:.6g} is unknown: {refusal}"
        if leak.proves(target):
            note = (
                EVERY_GROUP
                if question.families == {"groups"}
                else "the scale is that of the dependence coefficients of [liu2016], "
                f"{first:.6g}{more}; pairs of records prove nothing by themselves, the leakage "
                "of this noise does"
            )
            return mechanism, note
        scale *= up(leak.upper / target, 2**12)
        more = " and a little more for rounding"
        if not scale <= first * (1 + SLIGHT):
            break
    verdict = (
        f"leaks {leak.lower:.6g} or more"
        if leak.lower > question.limit
        else f"is proved to leak at most {leak.upper:.6g}"
    )
    note = (
        f"the dependence coefficients ask for a scale of {first:.6g}, which {verdict}, not "
        f"{question.limit:g}: pairs of records do not tell all"
    )
    return None, note


def _prove_baseline(question: Question, noise: Scaled, reason: str) -> Leakage:
    """Return the leakage of a noise on L records of arbitrary dependence.

    Gaussian records without a range are beyond that bound: only their leakage can prove it.
    """
    size = _size(question, reason)
    note = f"{reason}; so this is the noise for {size} records that depend in any way"
    query = question.query
    if "gaussian" in question.families and query.kind == "linear" and query.ends is None:
        return _with_note(leakage(noise, question.model, question.against), note, "series")
    leak = group_leakage(noise, size, question.against, question.length)
    return _with_note(replace(leak, lower=0.0), note, "any")


def _size(question: Question, reason: str) -> int:
    """Return how many records depend on each other, or refuse a model that does not bound it."""
    return dependents(
        question,
        f"'dependent' cannot keep this guarantee: {reason}; and its baseline multiplies by the "
        "number of dependent records, which this model does not bound; give it a length",
    )


def _with_note(leak: Leakage, note: str, valid_for: Literal["series", "any"]) -> Leakage:
    return replace(leak, assumptions=(*leak.assumptions, note), valid_for=valid_for)


DEPENDENT = noise_solver(dependent, prove_dependent)
