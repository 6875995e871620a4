"""What (epsilon, delta) guarantees and Gaussian noise reveal of a few records, by enumeration.

A law is a table with one axis for each record. Nothing here is taken from the package: the worst
case over all algorithms of a class is a linear program over all tests, the value of a mechanism a
sum over outputs, and everything is compared over all targets, known records, values and pairs.

Tests. A class of algorithms is given by lines (e, d): for two series x, y that differ in one record

    f(x) <= e^e f(y) + d      and      1 - f(y) <= e^e (1 - f(x)) + d,

where f is the probability of some event. The answer is max E_a f - e^epsilon E_b f.

Precision. A linear program is solved to about 1e-10; its solution is then lowered to the largest
test below it that keeps every line, so that what is returned is attained, up to rounding (1e-15).
Normal tails are taken in forty digits. Histories of noisy counts are enclosed: cells of outputs
give a lower end (data processing), the largest density ratio within a cell an upper end.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
from scipy.optimize import linprog, minimize_scalar
from scipy.sparse import coo_array

from tests.contracts.approximate_histories import (
    Channel,
    NoisyCount,
    joint_delta_any,
    joint_delta_of_releases,
    mechanism_delta,
)
from tests.contracts.approximate_laws import (
    Adversary,
    Against,
    Floats,
    all_adversaries,
    given,
    joint_law,
    possible,
    totals,
)

__all__ = [
    "DIGITS",
    "ERROR",
    "ROUNDING",
    "Adversary",
    "Channel",
    "Floats",
    "NoisyCount",
    "all_adversaries",
    "count_laws",
    "curve",
    "discrete_gaussian_count_delta",
    "discrete_gaussian_delta",
    "discrete_gaussian_pmf",
    "gaussian_count_delta",
    "gaussian_delta_any",
    "gdp_delta",
    "given",
    "joint_delta_any",
    "joint_delta_of_releases",
    "joint_law",
    "mechanism_delta",
    "possible",
    "pure_rate",
    "smoothed",
    "worst_delta",
    "worst_delta_any",
    "worst_delta_of",
    "worst_test",
    "zcdp_delta",
]

Line = tuple[float, float]
Lines = tuple[Line, ...]

DIGITS = mpmath.mp.clone()
"""Arithmetic in forty digits; the settings of the library itself stay as they are."""
DIGITS.dps = 40

TIGHT: Any = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), 1e-10)
"""The least tolerances that the solver takes."""

ERROR = 1e-9
"""How far below the true worst case a value of `worst_delta` may be: the program's tolerance."""

ROUNDING = 1e-14
"""How far above the true worst case it may be: at most 729 terms of size one are added."""


# --- the worst algorithm of a class ---------------------------------------------------------------


@cache
def _neighbours(shape: tuple[int, ...]) -> list[tuple[int, Any, Any]]:
    """(axis, x, y): the entries whose records differ in this axis only, for two of its values."""
    index = np.arange(math.prod(shape)).reshape(shape)
    return [
        (axis, index.take(u, axis).ravel(), index.take(v, axis).ravel())
        for axis, size in enumerate(shape)
        for u, v in itertools.permutations(range(size), 2)
    ]


@cache
def _program(shape: tuple[int, ...], lines: tuple[Lines, ...]) -> tuple[Any, Floats]:
    """Rows and right sides of f(x) - e^e f(y) <= d and e^e f(x) - f(y) <= e^e - 1 + d."""
    blocks = [
        block
        for axis, x, y in _neighbours(shape)
        for e, d in lines[axis]
        for block in ((x, y, 1.0, math.exp(e), d), (x, y, math.exp(e), 1.0, math.expm1(e) + d))
    ]
    row = np.arange(sum(len(x) for x, *_ in blocks))
    entries = np.concatenate(
        [np.full(len(x), p) for x, _, p, _, _ in blocks]
        + [np.full(len(x), -q) for x, _, _, q, _ in blocks]
    )
    columns = np.concatenate([x for x, *_ in blocks] + [y for _, y, *_ in blocks])
    right = np.concatenate([np.full(len(x), r) for x, _, _, _, r in blocks])
    return coo_array((entries, (np.tile(row, 2), columns))).tocsr(), right


def _per_axis(shape: Sequence[int], lines: Any) -> tuple[Lines, ...]:
    """Lines for each axis: the same for all, or a mapping from axes to lines."""
    if isinstance(lines, Mapping):
        return tuple(tuple(lines[axis]) for axis in range(len(shape)))
    return (tuple((float(e), float(d)) for e, d in lines),) * len(shape)


def curve(lines: Iterable[Line], u: Any) -> Any:
    """G(u): the most that a test may say of a neighbour of a series of which it says u."""
    best = np.ones_like(u)
    for e, d in lines:
        best = np.minimum(best, np.minimum(math.exp(e) * u + d, 1 - math.exp(-e) * (1 - d - u)))
    return np.maximum(best, u)  # 1 - e^-e (1 - d - u) rounds below u at u = 1


def smoothed(f: Any, shape: tuple[int, ...], lines: tuple[Lines, ...]) -> Floats:
    """The largest test below f that keeps every line."""
    f = np.clip(f, 0.0, 1.0)
    while True:
        before = f.copy()
        for axis, x, y in _neighbours(shape):
            f[x] = np.minimum(f[x], curve(lines[axis], f[y]))
        if np.array_equal(f, before):
            return f


def worst_test(
    law_a: Any, law_b: Any, shape: Sequence[int], lines: Any, epsilon: float
) -> tuple[float, Floats]:
    """The largest E_a f - e^epsilon E_b f over all tests that keep the lines, and such a test.

    Theorem 2 of the theory: the algorithm that answers Bernoulli(f) is of the class. Lines may be
    a mapping from axes to lines. A small answer is looked for again in units of itself.
    """
    shape = tuple(shape)
    gain = np.ravel(law_a) - math.exp(epsilon) * np.ravel(law_b)
    axes = _per_axis(shape, lines)
    rows, right = _program(shape, axes)
    best, test, unit = 0.0, np.zeros(len(gain)), 1.0
    for _ in range(3):
        found = linprog(-gain, rows, right / unit, bounds=(0, 1 / unit), options=TIGHT)
        if found.x is None:
            break
        f = smoothed(found.x * unit, shape, axes)
        if gain @ f > best:
            best, test = float(gain @ f), f
        smallest = min((d for some in axes for _, d in some), default=0.0)
        unit, last = max(best, smallest), unit
        if unit <= 0 or unit > 0.01 * last:
            break
    return best, test.reshape(shape)


def worst_delta(law_a: Any, law_b: Any, shape: Sequence[int], lines: Any, epsilon: float) -> float:
    """The delta at epsilon that some algorithm of the class attains and none exceeds."""
    return worst_test(law_a, law_b, shape, lines, epsilon)[0]


def worst_delta_of(adversary: Adversary, laws: Any, lines: Any, epsilon: float) -> float:
    """`worst_delta` over the tests of what an adversary does not know; lines may be by record."""
    law_a, law_b = (adversary.unknown(side) for side in laws)
    if isinstance(lines, Mapping):
        known = dict(adversary.known)
        left = [record for record in range(laws[0].ndim) if record not in known]
        lines = {axis: lines[record] for axis, record in enumerate(left)}
    return worst_delta(law_a, law_b, law_a.shape, lines, epsilon)


def worst_delta_any(
    transition: Any, start: Any, n: int, lines: Any, epsilon: float, against: Against = "any"
) -> float:
    """The largest `worst_delta` over all adversaries of a chain of n records."""
    return max(
        worst_delta_of(adversary, laws, lines, epsilon)
        for adversary, laws in possible(joint_law(transition, start, n), against)
    )


def pure_rate(law_a: Any, law_b: Any, shape: Sequence[int], e: Any) -> float:
    """l: the largest ln E_a g / E_b g over positive g that a record changes by e^e at most.

    A linear-fractional program; e is one level, or one for each axis. With one level the logarithms
    of g at a vertex are multiples of it apart: there the value is exact up to the last digits.
    """
    shape, p, q = tuple(shape), np.ravel(law_a), np.ravel(law_b)
    levels = np.broadcast_to(np.asarray(e, dtype=float), len(shape))
    pairs = _neighbours(shape)
    x, y = np.concatenate([x for _, x, _ in pairs]), np.concatenate([y for *_, y in pairs])
    factors = np.concatenate([np.full(len(u), -math.exp(levels[axis])) for axis, u, _ in pairs])
    row = np.tile(np.arange(len(x)), 2)
    entries = np.concatenate([np.ones(len(x)), factors])
    rows: Any = coo_array((entries, (row, np.concatenate([x, y])))).tocsr()
    found = linprog(-p, rows, np.zeros(len(x)), A_eq=q[None, :], b_eq=[1.0], options=TIGHT)
    logs = np.log(found.x / found.x.max())
    steps = np.round(logs / levels[0]) if np.ptp(levels) == 0 else np.inf
    if np.abs(logs - levels[0] * steps).max() < 1e-5:
        logs = levels[0] * steps
    for _ in shape:  # the largest function below it that keeps every level
        for axis, u, v in pairs:
            logs[u] = np.minimum(logs[u], logs[v] + levels[axis])
    g = np.exp(logs)
    return math.log((p @ g) / (q @ g))


# --- one noisy count ------------------------------------------------------------------------------


def count_laws(adversary: Adversary, laws: Any, counted: Any) -> tuple[Floats, Floats]:
    """The laws of the count of a state, or sum of weights, among the records not known."""
    tables = [adversary.unknown(side) for side in laws]
    counts = totals(tables[0].shape, range(tables[0].ndim), counted)
    counts -= counts.min()
    law_a, law_b = (np.bincount(counts, table.ravel()).astype(np.float64) for table in tables)
    return law_a, law_b


def _roots(ctx: Any, terms: list[tuple[Any, Any]]) -> list[Any]:
    """All z with sum c_j e^(j z) = 0, by Rolle: e^(-t z) times the sum, t at a change of sign,
    has a derivative with one change of sign less (Descartes)."""
    turns = [(i + j) / 2 for (i, c), (j, d) in itertools.pairwise(terms) if c * d < 0]
    if not turns:
        return []
    inner = _roots(ctx, [(j, c * (j - turns[0])) for j, c in terms])
    logs = [(j, ctx.log(abs(c)), 1 if c > 0 else -1) for j, c in terms]

    def sign(z: Any) -> bool:
        powers = [j * z + log for j, log, _ in logs]
        top = max(powers)
        return sum(s * ctx.exp(p - top) for p, (*_, s) in zip(powers, logs, strict=True)) > 0

    low, high, step = (inner[0], inner[-1], 1) if inner else (0, 0, 1)
    while sign(low) != (terms[0][1] > 0):
        low, step = low - step, 2 * step
    while sign(high) != (terms[-1][1] > 0):
        high, step = high + step, 2 * step
    roots = []
    for left, right in itertools.pairwise([ctx.mpf(low), *inner, ctx.mpf(high)]):
        if sign(left) != sign(right):
            for _ in range(ctx.prec):
                middle = (left + right) / 2
                left, right = (middle, right) if sign(middle) == sign(left) else (left, middle)
            roots.append(left)
    return roots


def _tail(ctx: Any, x: Any) -> Any:
    """Pr[N > x]."""
    return ctx.erfc(x / ctx.sqrt(2)) / 2


def _between(ctx: Any, low: Any, high: Any) -> Any:
    """Pr[low < N < high], from the side where nothing cancels."""
    return _tail(ctx, low) - _tail(ctx, high) if low > 0 else _tail(ctx, -high) - _tail(ctx, -low)


def gaussian_count_delta(
    law_a: Any, law_b: Any, sigma: float, epsilon: float, ctx: Any = DIGITS
) -> Any:
    """H of a count (its laws on 0, 1, ..) plus N(0, sigma^2), in forty digits.

    With d_j = a_j - e^epsilon b_j the density of the difference has the sign of
    sum_j d_j e^(-j^2 / 2 sigma^2) e^(j z), z = y / sigma^2: its zeros bound the best event.
    """
    factor, s = ctx.exp(ctx.mpf(epsilon)), ctx.mpf(sigma)
    gains = [
        ctx.mpf(float(p)) - factor * ctx.mpf(float(q)) for p, q in zip(law_a, law_b, strict=True)
    ]
    terms = [(ctx.mpf(j), d) for j, d in enumerate(gains) if d != 0]
    tilted = [(j, d * ctx.exp(-j * j / (2 * s * s))) for j, d in terms]
    ends = [-ctx.inf, *(z * s * s for z in _roots(ctx, tilted)), ctx.inf]
    parts = [
        sum(d * _between(ctx, (low - j) / s, (high - j) / s) for j, d in terms)
        for low, high in itertools.pairwise(ends)
    ]
    return sum(part for part in parts if part > 0)


def discrete_gaussian_pmf(sigma: float, reach: int) -> Floats:
    """Probabilities of -reach .. reach under weights e^(-z^2 / 2 sigma^2)."""
    z = np.arange(-reach, reach + 1)
    wide = np.arange(-math.ceil(40 * sigma), math.ceil(40 * sigma) + 1)
    return np.exp(-(z**2) / (2 * sigma**2)) / math.fsum(np.exp(-(wide**2) / (2 * sigma**2)))


def discrete_gaussian_count_delta(law_a: Any, law_b: Any, sigma: float, epsilon: float) -> float:
    """H of a count plus discrete Gaussian noise: the sum over all outputs within 40 sigma."""
    gain = np.asarray(law_a) - math.exp(epsilon) * np.asarray(law_b)
    outputs = np.convolve(gain, discrete_gaussian_pmf(sigma, math.ceil(40 * sigma)))
    return math.fsum(outputs[outputs > 0])


def gaussian_delta_any(
    transition: Any,
    start: Any,
    n: int,
    counted: Any,
    sigma: float,
    epsilon: float,
    against: Against = "any",
    discrete: bool = False,
) -> float:
    """The largest H of a noisy count over all adversaries: in floats, the largest in digits."""
    pairs: dict[Any, tuple[Floats, Floats]] = {}
    for adversary, laws in possible(joint_law(transition, start, n), against):
        law_a, law_b = count_laws(adversary, laws, counted)
        pairs[(*np.round(law_a, 14), *np.round(law_b, 14))] = law_a, law_b
    if discrete:
        return max(discrete_gaussian_count_delta(*pair, sigma, epsilon) for pair in pairs.values())
    by_size = sorted(
        pairs.values(),
        key=lambda pair: gaussian_count_delta(pair[0], pair[1], sigma, epsilon, mpmath.fp),
    )
    return max(float(gaussian_count_delta(*pair, sigma, epsilon)) for pair in by_size[-3:])


# --- guarantees for one replaced record -----------------------------------------------------------


def gdp_delta(mu: float, epsilon: float) -> float:
    """Pr[N > eps / mu - mu / 2] - e^eps Pr[N > eps / mu + mu / 2], in forty digits."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    m, e = DIGITS.mpf(mu), DIGITS.mpf(epsilon)
    return float(_tail(DIGITS, e / m - m / 2) - DIGITS.exp(e) * _tail(DIGITS, e / m + m / 2))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """min over orders a > 1 of e^((a-1)(a rho - eps)) (1 - 1/a)^a / (a - 1)."""

    def log_delta(t: float) -> float:  # a = 1 + e^t
        a = 1 + math.exp(t)
        return (a - 1) * (a * rho - epsilon) + a * math.log1p(-1 / a) - t

    grid = np.linspace(-15, 25, 801)
    near = grid[np.argmin([log_delta(t) for t in grid])]
    found = minimize_scalar(
        log_delta, bounds=(near - 0.1, near + 0.1), method="bounded", options={"xatol": 1e-10}
    )
    return min(1.0, math.exp(min(log_delta(float(found.x)), log_delta(float(near)))))


def discrete_gaussian_delta(sigma: float, epsilon: float) -> float:
    """Pr[Z > eps s^2 - 1/2] - e^eps Pr[Z > eps s^2 + 1/2] of discrete Gaussian noise, summed."""
    s, e = DIGITS.mpf(sigma), DIGITS.mpf(epsilon)
    reach = math.ceil(40 * sigma + epsilon * sigma**2)
    weight = {z: DIGITS.exp(-(z * z) / (2 * s * s)) for z in range(reach + 1)}
    total = weight[0] + 2 * sum(weight[z] for z in range(1, reach + 1))
    gains = (weight[abs(z)] - DIGITS.exp(e) * weight[abs(z + 1)] for z in range(-reach, reach))
    return float(sum(gain for gain in gains if gain > 0) / total)
