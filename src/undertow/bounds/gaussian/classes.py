"""Gaussian records of which only a bound on the correlations is known."""

import math

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.gaussian.numbers import Form
from undertow.bounds.gaussian.search import Factor
from undertow.models.definite import gamma
from undertow.models.gaussian import GaussianClass
from undertow.numerics import Array, down, up

__all__ = ["class_factor"]


def class_factor(model: GaussianClass, form: Form, against: Against = "any") -> Factor:
    """Return the largest value of a form over a class of covariances, as a certified interval.

    With v the weights of the records (column sums of |rows|), s the standard deviations and k
    known records, the unknown records' coefficients on X_i satisfy |beta_j| <= (s_j / s_i) rho /
    (1 - k rho): the correlation matrix of known records and target is I + E with column sums of
    |E| at most k rho, hence the column of its inverse sums to at most 1 / (1 - k rho). So

        max over i, k, U with n - 1 - k records of  v_i + sum over U of v_j min(cap, |beta_j|),

    where the worst U has the largest terms. k = 0 is attained by equal correlations with the signs
    of the weights, so that the bound is exact where k = 0 is the worst: for equal variances and
    weights if rho <= 1 / (n - 1), where it is 1 + (n - 1) rho. Unclipped forms are unbounded if
    n - 2 known records can be nearly collinear (rho >= 1 / (n - 2)); clipped ones never exceed
    the sum of the weights. Cost O(n^3 ln n) with clipping, O(n^2 ln n) otherwise.

    Differs from the paper: Theorem 6.2 of [lange2024] has n^2 / (4 (1 / rho - n + 2)) + 1 for equal
    variances, which is larger.

    >>> model = GaussianClass(5, 0.2)
    >>> round(class_factor(model, Form.apart(np.ones(5), clipped=False)).upper, 9)
    1.8
    """
    size, rho = model.length, model.rho
    weights = np.abs(form.rows).sum(axis=0)  # (n,): v_j
    if len(form.rows) > 1 and not form.alone:
        weights = weights * (1 + gamma(len(form.rows) + 2))
    clipped = bool(np.isfinite(form.caps).all())
    sds = np.ones(size) if model.sds is None else np.array(model.sds)
    targets = [against.target] if isinstance(against, Adversary) else list(range(size))
    best, target = 0.0, targets[0]
    for i in targets:
        others = np.delete(np.arange(size), i)  # (n - 1,)
        if isinstance(against, Adversary):
            left = np.array([j for j in others if j not in against.known], dtype=np.intp)
            found = _sums(weights[left], sds[left] / sds[i], rho, len(against.known), clipped)[-1]
        elif against == "informed":
            found = 0.0
        elif against == "ignorant":
            found = _sums(weights[others], sds[others] / sds[i], rho, 0, clipped)[-1]
        else:
            found = _worst(weights[others], sds[others] / sds[i], rho, clipped)
        if weights[i] + found > best:
            best, target = float(weights[i] + found), i
    known = against.known if isinstance(against, Adversary) else ()
    if against == "informed":
        known = tuple(k for k in range(size) if k != target)
    alike = not (clipped or known)
    values = [_attained(form, sds, rho if alike else 0.0, i) for i in targets]
    lower = max(down(max(values), 4 * size + 4 * len(form.rows) + 16), 0.0)
    upper = max(up(best, 4 * size + 16), lower)
    shown = targets[int(np.argmax(values))]
    return Factor(lower, upper, shown, known, size if rho else 1)


def _sums(weights: Array, ratios: Array, rho: float, known: int, clipped: bool) -> Array:
    """Return 0 and the sums of the 1, 2, ... largest terms where so many records are known."""
    # 1 - k rho: the inverse's column sums to at most 1 / room
    room = down(1 - up(known * rho)) if known else 1.0
    slope = up(rho / room) if room > 0 else math.inf
    if slope == 0 or not len(weights):
        return np.zeros(len(weights) + 1)
    bounds = ratios * slope  # (others,): |beta_j| at most
    with np.errstate(invalid="ignore"):
        terms = weights * (np.minimum(bounds, 1.0) if clipped else bounds)
    terms = np.sort(np.where(weights > 0, terms, 0.0))[::-1]  # largest first: the worst U
    return np.concatenate([[0.0], np.cumsum(terms)])


def _worst(weights: Array, ratios: Array, rho: float, clipped: bool) -> float:
    """Return the largest sum over the unknown records, over the number of known ones."""
    size = len(weights)
    if clipped:
        return max(
            (float(_sums(weights, ratios, rho, k, True)[size - k]) for k in range(size)),
            default=0.0,
        )
    plain = _sums(weights, ratios, 1.0, 0, False)  # the same order for every number of known ones
    best = 0.0
    for k in range(size):
        room = down(1 - up(k * rho)) if k else 1.0
        if plain[size - k] > 0 and rho > 0:
            best = max(best, up(rho / room) * float(plain[size - k]) if room > 0 else math.inf)
    return best


def _attained(form: Form, sds: Array, rho: float, i: int) -> float:
    """Return the value about one target where all correlations are rho (0: independent records).

    Nothing is known, and records may change their sign to suit the weights of a single row.
    Independent records give the target's own weights to every adversary.
    """
    rows = np.abs(form.rows) if len(form.rows) == 1 or form.alone else form.rows
    others = np.delete(rows * sds, i, axis=1).sum(axis=1)  # (rows,)
    return float(np.abs(rows[:, i] + rho * others / sds[i]).sum())
