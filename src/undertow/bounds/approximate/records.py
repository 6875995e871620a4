"""Gaussian records with Gaussian noise: exactly mu-GDP, whoever knows what.

Given what is known and the target, a statistic w . X with noise N(0, sigma^2) is normal with a
variance sigma^2 + v that does not depend on the target's value, and a mean that moves with it: two
values that differ by M are M |c| / sqrt(sigma^2 + v) standard deviations apart, c the coefficient
of the target and v = Var(w . X | X_K, X_i). So mu is at most M |c| / sigma, the factor that Laplace
noise has too.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.gaussian.leakages import Statistic, asked
from undertow.certificate import Leakage, Witness
from undertow.curves import GaussianCurve
from undertow.mechanisms import Gaussian
from undertow.models.gaussian import MultivariateGaussian
from undertow.numerics import ROUNDOFF, Array, divide_up, down, up
from undertow.queries import Linear

__all__ = ["record_leakage", "record_mu"]

_FEW = 10
"""Records up to which every known set is looked at."""

_SOLVED = 64.0
"""Roundings, for each record and unit of the condition number, that a regression may have lost."""


@dataclass(frozen=True, slots=True)
class _Move:
    """How many standard deviations the answer moves, and for whom."""

    lower: float
    upper: float
    target: int
    known: tuple[int, ...]


def record_leakage(mechanism: Gaussian, model: object, against: Against, delta: float) -> Leakage:
    """Return the leakage of Gaussian noise on a statistic of Gaussian records at a delta.

    Exact for one linear statistic of few records; otherwise sigma alone hides, and the upper end is
    that of the statistic's factor.

    >>> model = MultivariateGaussian(0, [[1, .9, 0], [.9, 1, .3], [0, .3, 1]])
    >>> noise = Gaussian(Linear([1, 1, 1], spread=1.0), sigma=10.0)
    >>> leak = record_leakage(noise, model, "any", 1e-6)
    >>> round(leak.upper, 4), leak.method
    (1.0938, 'exact')
    """
    question = asked(mechanism.query, model, against)  # type: ignore[arg-type]
    move = record_mu(question, mechanism, model, against)
    upper = GaussianCurve(move.upper).epsilon(delta)
    lower, witness = 0.0, None
    if move.lower > 0 and isinstance(model, MultivariateGaussian):
        lower = min(_least(move.lower, delta), upper)
        mean, half = [float(m) for m in model.mean], question.spread / 2
        centre, known = mean[move.target], tuple((k, mean[k]) for k in move.known)
        witness = Witness(move.target, model.length, known, centre + half, centre - half)
    return Leakage(
        lower, upper, "exact" if move.lower else "closed", against, witness,
        (*question.assumptions, f"the answer is {up(move.upper):.6g}-GDP about the target"),
        "docs, theory: approximate guarantees", delta=delta,
    )  # fmt: skip


def _least(mu: float, delta: float) -> float:
    """Return the leakage of mu-GDP at a delta, rounded down."""
    return max(0.0, down(GaussianCurve(mu).epsilon(delta * (1 + 1e-9)), 64) * (1 - 1e-9))


def record_mu(question: Statistic, noise: Gaussian, model: object, against: Against) -> _Move:
    """Return certified ends of the largest mu over what is known."""
    factor, moved = question.factor, question.moved
    whole = _Move(
        0.0, divide_up(Fraction(factor.upper) * moved / Fraction(noise.sigma), 1.0),
        factor.target, factor.known,
    )  # fmt: skip
    query = noise.query
    one = isinstance(query, Linear) and query.lower is None and np.asarray(query.weights).ndim == 1
    if not one or not isinstance(model, MultivariateGaussian) or model.length > _FEW:
        return whole
    weights = np.asarray(query.weights, dtype=np.float64)  # type: ignore[union-attr]
    found = [
        (_mu(model, weights, target, known, noise.sigma, float(moved)), target, known)
        for target, known in _adversaries(model.length, against)
    ]
    (lower, _), target, known = max(found, key=lambda each: each[0][0])
    upper = max(ends[1] for ends, _, _ in found)
    return _Move(lower, min(upper, whole.upper), target, known)


def _adversaries(records: int, against: Against) -> list[tuple[int, tuple[int, ...]]]:
    if isinstance(against, Adversary):
        return [(against.target, tuple(against.known))]
    made = []
    for target in range(records):
        others = [t for t in range(records) if t != target]
        sizes = {"ignorant": [0], "informed": [len(others)]}.get(
            str(against), range(len(others) + 1)
        )
        made += [(target, known) for size in sizes for known in combinations(others, size)]
    return made


def _mu(
    model: MultivariateGaussian, weights: Array, target: int, known: tuple[int, ...],
    sigma: float, moved: float,
) -> tuple[float, float]:  # fmt: skip
    """Return both ends of M |c| / sqrt(sigma^2 + v), the error of the regression paid.

    A solution loses a multiple of the condition number of what is given, relative to its norm.
    """
    given = [*known, target]
    unknown = [t for t in range(model.length) if t not in given]
    covariance = np.asarray(model.covariance)
    inside = covariance[np.ix_(given, given)]
    across = covariance[np.ix_(unknown, given)]  # (unknown, given)
    regression = np.linalg.solve(inside, across.T).T if unknown else np.zeros((0, len(given)))
    own, rest = float(weights[target]), weights[unknown]
    coefficient = own + float(rest @ regression[:, -1])
    left = covariance[np.ix_(unknown, unknown)] - regression @ across.T
    variance = float(rest @ left @ rest)
    pad = _SOLVED * ROUNDOFF * model.length * max(float(np.linalg.cond(inside)), 1.0)
    norms = np.linalg.norm(regression, axis=1)  # (unknown,)
    slack = pad * (abs(own) + float(np.abs(rest) @ norms))
    reach = np.abs(covariance[np.ix_(unknown, unknown)])
    reach = reach + np.outer(norms, np.linalg.norm(across, axis=1))
    loss = pad * float(np.abs(rest) @ reach @ np.abs(rest))
    low = moved * max(abs(coefficient) - slack, 0.0) / math.sqrt(sigma**2 + variance + loss)
    high = moved * (abs(coefficient) + slack) / math.sqrt(sigma**2 + max(variance - loss, 0.0))
    return max(down(low, 16), 0.0), up(high, 16)
