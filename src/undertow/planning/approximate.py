"""Methods of calibration for Gaussian noise: the closed exchange, the sweep, exact counts.

Several releases together are one algorithm of the composed guarantee: what is solved and proved
here is the noise of one release with sigma / sqrt(releases), see `Question.together`.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from undertow.bounds.curves.leakages import (
    closed_leakage,
    closed_points,
    count_leakage,
    exact_windows,
    largest_parameter,
    least,
    pure_budget_delta,
    record_leakage,
    sweep_leakage,
    sweep_shape,
    sweepable,
)
from undertow.bounds.curves.sweep import sweep_delta
from undertow.bounds.engine import leakage
from undertow.certificate import Leakage, worst
from undertow.curves import GaussianCurve
from undertow.errors import MethodRefused, NothingToProtect, NotSupported
from undertow.mechanisms import Gaussian, Normal, PureDP
from undertow.models.chains import MarkovChain
from undertow.numerics import up
from undertow.planning.budget import aim, budget_for
from undertow.planning.questions import CERTAIN, Question, Remembered, noise_solver
from undertow.secrets import Window

__all__ = ["CLOSED", "EXACT", "SWEEP"]

_SWEPT = 2e-4
"""Relative width at which the search for a sigma by sweeps ends (upper side)."""

_NUDGE = 1e-11
"""Share by which a sigma grows where the last digits of its proof are in the way."""


def solve_closed(question: Question) -> Normal:
    """Return the least Gaussian noise by Theorem 1: (beta, d0), then the sigma that keeps it."""
    limit = aim(question.limit)
    budget = budget_for(question.model, limit, question.against, question.window)
    if math.isinf(budget):
        raise NothingToProtect(CERTAIN)
    small = pure_budget_delta(limit, question.delta, budget)
    if not small > 0:
        raise NotSupported(f"no delta is left for a limit of {question.limit:g}; lower the limit")
    mu = largest_parameter(GaussianCurve, budget, small)
    if not mu > 0:
        raise NotSupported(f"no noise keeps a delta of {question.delta:g}; ask for a larger one")
    noise = question.normal(up(question.query.euclidean(question.length) / mu, 8))
    while noise.curve(question.length).delta(budget) > small:  # discrete noise has its own curve
        noise = question.normal(noise.sigma * (1 + 1e-6))
    return _proved(question, noise, prove_closed)


def _proved(
    question: Question, noise: Normal, prove: Callable[[Question, Normal], Leakage]
) -> Normal:
    """Return the noise, or a little more, where the last digits of the proof are in the way."""
    for turn in range(40):
        if prove(question, noise).proves(question.limit):
            break
        noise = question.normal(up(noise.sigma * (1 + _NUDGE * 2**turn)))
    return noise


@Remembered
def prove_closed(question: Question, noise: Normal) -> Leakage:
    """Return the leakage of the curve of a noise by Theorem 1, on any model."""
    curve = noise.curve(question.length)

    @lru_cache(maxsize=64)
    def rate(level: float) -> float:
        model, against = question.model, question.against
        return leakage(PureDP(level), model, against, question.window).upper

    bound = closed_leakage(curve, rate, question.delta, question.against)
    secret = Window(question.secret.window)
    return replace(bound, curve=closed_points(curve, rate), secret=secret)


def solve_sweep(question: Question) -> Normal:
    """Return the least Gaussian noise by the sweep: a secant in logarithms, then a proof."""
    chains = _chains(question)
    limit, delta = aim(question.limit), question.delta
    moved = question.query.euclidean(question.length)

    def excess(sigma: float) -> float:
        curve = question.normal(sigma).curve(question.length)
        shape = sweep_shape(curve)
        delta_needed = max(sweep_delta(shape, chain, limit, question.against) for chain in chains)
        return math.log(max(delta_needed, 1e-300)) - math.log(delta)

    # the sweep saves a few percent; ln delta falls nearly straight in sigma
    high = solve_closed(question).sigma
    under = excess(high)
    if under > 0:
        return question.normal(high)
    low = 0.96 * high
    over = excess(low)
    while over <= 0 and low > 1e-3 * moved:
        high, under, low = low, over, 0.9 * low
        over = excess(low)
    for turn in range(12):
        if high / low - 1 <= _SWEPT:
            break
        trial = low + over / (over - under) * (high - low) + 0.4 * _SWEPT * high
        trial = trial if low < trial < high and turn % 4 != 3 else (low + high) / 2
        value = excess(trial)
        low, high, over, under = (
            (low, trial, over, value) if value <= 0 else (trial, high, value, under)
        )
    return question.normal(high)


@Remembered
def prove_sweep(question: Question, noise: Normal) -> Leakage:
    """Return the leakage of the curve of a noise by the sweep, the worst over the chains.

    Where it keeps delta at the limit, the limit is what is proved; else the least epsilon.
    """
    curve, delta, against = noise.curve(question.length), question.delta, question.against
    shape, limit = sweep_shape(curve), aim(question.limit)
    bounds = []
    for chain in _chains(question):
        at = limit if sweep_delta(shape, chain, limit, against) <= delta else None
        bounds.append(sweep_leakage(curve, chain, delta, against, at))
    return worst(bounds) if len(bounds) > 1 else bounds[0]


def _chains(question: Question) -> list[MarkovChain]:
    chains = question.chains("sweep")
    if question.shape == "discrete-gaussian":
        raise MethodRefused(
            "'sweep' is for Gaussian noise; discrete Gaussian noise has a curve of its own: use "
            "method='closed', or noise='gaussian', which is rounded to whole numbers"
        )
    if not all(sweepable(chain, question.against) for chain in chains):
        raise MethodRefused(
            "'sweep' knows chains with one transition matrix and a stationary start, against 'any' "
            "or 'ignorant'; use method='closed'"
        )
    return chains


def solve_exact(question: Question) -> Normal:
    """Return the least Gaussian noise by its exact leakage: a count, or Gaussian records."""
    _check_exact(question)
    if question.families == {"gaussian"}:
        return _solve_records(question)
    limit = aim(question.limit)

    def place(sigma: float) -> tuple[float, float]:
        return sigma, limit

    start, sigmas = solve_closed(question).sigma, []  # a few percent too much
    for chain in question.chains("exact"):
        windows = exact_windows(question.normal(1.0), chain, question.limit)
        sigmas.append(least(windows, question.delta, place, start, close=True)[1])
    return _proved(question, question.normal(up(max(sigmas))), prove_exact)


def _solve_records(question: Question) -> Normal:
    """Return the noise for the largest mu that keeps the limit."""
    mu = largest_parameter(GaussianCurve, aim(question.limit), question.delta)
    low, high = 0.0, up(question.query.euclidean(question.length) / mu)
    while not prove_exact(question, question.normal(high)).proves(question.limit):
        low, high = high, 2 * high
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        keeps = prove_exact(question, question.normal(middle)).proves(aim(question.limit))
        low, high = (low, middle) if keeps else (middle, high)
    return _proved(question, question.normal(up(high)), prove_exact)


@Remembered
def prove_exact(question: Question, noise: Normal) -> Leakage:
    """Return the exact leakage of Gaussian noise on a count, or on Gaussian records."""
    _check_exact(question)
    against, delta = question.against, question.delta
    plain = Gaussian(noise.query, noise.sigma)
    if question.families == {"gaussian"}:
        members = question.model.members()
        bounds = [record_leakage(plain, member, against, delta) for member in members]
    else:
        chains = question.chains("exact")
        bounds = [count_leakage(plain, chain, delta, question.limit) for chain in chains]
    return worst(bounds) if len(bounds) > 1 else bounds[0]


def _check_exact(question: Question) -> None:
    """Refuse what has no exact leakage at a delta."""
    if question.releases > 1:
        raise MethodRefused(
            "'exact' is about one answer; several are accounted by their guarantees: use "
            "method='sweep' or 'closed'"
        )
    if question.shape == "discrete-gaussian":
        raise MethodRefused(
            "'exact' knows Gaussian noise, rounded to whole numbers at most; use method='closed' "
            "for discrete Gaussian noise"
        )
    if question.families == {"gaussian"}:
        return
    if not question.query.named:
        raise MethodRefused(
            f"'exact' knows counts on chains, not {type(question.query).__name__}; use "
            "method='sweep' or 'closed'"
        )
    question.chains("exact")
    if question.against != "any":
        raise MethodRefused(
            "a particular noise has no leakage at a delta against who knows less: a count of many "
            "records without any noise would pass, and two of them reveal a record; use "
            "method='sweep' or 'closed', which go through a guarantee, or against='any'"
        )


CLOSED = noise_solver(solve_closed, prove_closed)
SWEEP = noise_solver(solve_sweep, prove_sweep)
EXACT = noise_solver(solve_exact, prove_exact)
