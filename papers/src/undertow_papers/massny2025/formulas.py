"""The formulas of [massny2025] as printed, evaluated with nothing of the library.

They are what our numbers stand beside where a figure has no readable values. Records are counted
from 1, ``alpha`` and ``beta`` are the probabilities 0 -> 1 and 1 -> 0, and alpha <= beta.
"""

import math
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from undertow.numerics import Array

__all__ = [
    "GRID",
    "Setup",
    "algorithm_one",
    "budgets",
    "constant_by_grid",
    "erased_loss",
    "least_radius",
    "pointwise",
    "regions",
    "relaxed_probability",
    "theorem_two",
    "utility",
]

GRID = 1e-4
"""Step of the grid search for one probability of erasure; the paper does not say which it used."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A chain of two states, its length, the private record and the budget.

    >>> Setup(.25, .5, 2, 1, .5).words
    'alpha = 0.25, beta = 0.5, n = 2, p = 1, epsilon = 0.5'
    """

    alpha: float
    beta: float
    n: int
    p: int
    epsilon: float

    @property
    def words(self) -> str:
        """The parameters, to be read."""
        return (
            f"alpha = {self.alpha:.6g}, beta = {self.beta:.6g}, n = {self.n}, p = {self.p}, "
            f"epsilon = {self.epsilon:.9g}"
        )

    @property
    def transition(self) -> list[list[float]]:
        """The transition matrix of Section II."""
        return [[1 - self.alpha, self.alpha], [self.beta, 1 - self.beta]]


def pointwise(alpha: float, beta: float, distance: int, value: int) -> float:
    """Return the pointwise influence at a distance, Eqs. 13 and 14.

    >>> round(math.exp(pointwise(.25, .5, 1, 0)), 9), round(math.exp(pointwise(.25, .5, 1, 1)), 9)
    (1.5, 2.0)
    """
    fading = (1 - alpha - beta) ** distance
    factor = beta / alpha if value else alpha / beta
    return abs(math.log((1 + factor * fading) / (1 - fading)))


def least_radius(alpha: float, beta: float, epsilon: float) -> int:
    """Return Delta*(epsilon): the least distance with a max-influence of at most epsilon.

    >>> least_radius(.01, .8, 1.0)
    3
    """
    distance = 1
    while pointwise(alpha, beta, distance, 1) > epsilon:
        distance += 1
    return distance


def theorem_two(case: Setup, shift: int = 1, extra: tuple[int, int] = (0, 0)) -> float:
    """Return the bound of Theorem 2 on what data-independent redaction shows.

    ``shift`` is what is taken off 2 Delta*(epsilon / 2): 1 as printed, 2 (and at least one record)
    as corrected. ``extra`` records are erased beyond it, with a window on one side or on both.

    >>> case = Setup(.2, .3, 12, 6, .911517454)
    >>> theorem_two(case), theorem_two(case, 2)
    (0.5833333, 0.6666667)
    """
    a, b, n, p, epsilon = case.alpha, case.beta, case.n, case.p, case.epsilon
    far = pointwise(a, b, n - p, 1)
    if epsilon < far:
        return 0.0
    erased, more = least_radius(a, b, epsilon) + p - 1, extra[0]
    near = pointwise(a, b, p - 1, 1) if p > 1 else 0.0
    if epsilon >= near + far:
        erased = min(erased, max(1, 2 * least_radius(a, b, epsilon / 2) - shift))
        more = extra[1]
    return 1 - (erased + more) / n


def algorithm_one(case: Setup) -> tuple[int, int]:
    """Return the radii left and right of Algorithm 1, cut off at the ends of the series.

    >>> algorithm_one(Setup(.2, .3, 12, 6, .911517454))
    (3, 3)
    """
    a, b, n, p, epsilon = case.alpha, case.beta, case.n, case.p, case.epsilon
    whole, half = least_radius(a, b, epsilon), least_radius(a, b, epsilon / 2)
    if (
        p == 1
        or epsilon < pointwise(a, b, n + 1 - p, 1) + pointwise(a, b, p - 1, 1)
        or p + whole - 2 * half < 0
    ):
        return p - 1, min(whole, n - p)
    return min(half, p - 1), min(half, n - p)


def budgets(case: Setup) -> tuple[float, float]:
    """Return what the 3R mechanisms of Section IV spend left and right."""
    return (0.0, case.epsilon) if case.p == 1 else (case.epsilon / 2, case.epsilon / 2)


def regions(case: Setup, right: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the distances in M and in S on one side of the private record, Section IV.

    >>> regions(Setup(.01, .8, 5, 1, 1.0), True)
    ((1, 2), (3, 4))
    """
    budget = budgets(case)[right]
    room = case.n - case.p if right else case.p - 1
    low, high = (
        [d for d in range(1, room + 1) if pointwise(case.alpha, case.beta, d, value) <= budget]
        for value in (0, 1)
    )
    return tuple(d for d in low if d not in high), tuple(high)


def relaxed_probability(case: Setup, right: bool = True) -> float:
    """Return the one probability of erasure of the relaxed mechanism, Section IV-B; 1 without M.

    >>> round(relaxed_probability(Setup(.01, .8, 10, 1, 1.0)), 6)
    0.757415
    """
    medium, small = regions(case, right)
    budget = budgets(case)[right]
    probability = 0.0 if medium else 1.0
    for place, distance in enumerate(medium, 1):
        beyond = 0.0
        if distance + 1 in medium:
            beyond = pointwise(case.alpha, case.beta, distance + 1, 0)
        elif distance + 1 in small:
            beyond = pointwise(case.alpha, case.beta, distance + 1, 1)
        probability = max(probability, math.exp(-(budget - beyond) / place))
    return probability


def constant_by_grid(case: Setup, right: bool = True) -> float:
    """Return the least probability on a grid that satisfies Eqs. 5 and 6, Section V; 1 without M.

    The sums over all values of the records in M are written out.

    >>> round(constant_by_grid(Setup(.01, .8, 10, 1, 1.0)), 4)
    0.547
    """
    medium, small = regions(case, right)
    if not medium:
        return 1.0
    probabilities: Array = np.arange(1, round(1 / GRID) + 1, dtype=np.float64) * GRID
    budget = budgets(case)[right]
    room = case.n - case.p if right else case.p - 1
    allowed = np.ones(len(probabilities), dtype=bool)  # (grid)
    for count, distance in enumerate(medium, 1):
        seen = medium[:count]
        if distance == room:
            allowed &= erased_loss(case, seen, None, 0, probabilities) <= budget
            continue
        for value in (0, 1) if distance + 1 in small else (0,):
            allowed &= erased_loss(case, seen, distance + 1, value, probabilities) <= budget
    return float(probabilities[allowed.argmax()])


def erased_loss(
    case: Setup, erased: tuple[int, ...], shown: int | None, value: int, probabilities: Array
) -> Array:
    """Return the left side of Eq. 5 (or of Eq. 6 without a shown record) for each probability.

    The records of M at distances ``erased`` are seen erased, and then ``value`` at ``shown``.

    >>> erased_loss(Setup(.25, .5, 2, 1, .5), (1,), None, 0, np.array([.125])).round(6).tolist()
    [0.492476]
    """
    step = np.array(case.transition)
    paths = np.array([*product((0, 1), repeat=len(erased))])  # (paths, erased records)
    zeros = (paths == 0).sum(axis=1)  # (paths): each 0 is erased with the probability
    totals = []
    for start in (0, 1):
        walk = np.column_stack([np.full(len(paths), start), paths])
        places = [0, *erased]
        if shown is not None:
            walk = np.column_stack([walk, np.full(len(paths), value)])
            places.append(shown)
        weights = np.ones(len(paths))
        for spot, (here, there) in enumerate(pairwise(places)):
            ahead = np.linalg.matrix_power(step, there - here)  # (state, state) over the gap
            weights = weights * ahead[walk[:, spot], walk[:, spot + 1]]
        # (powers): a polynomial in the probability
        terms = np.bincount(zeros, weights, len(erased) + 1)
        totals.append(np.polynomial.polynomial.polyval(probabilities, terms))
    return np.abs(np.log(totals[0] / totals[1]))


def utility(case: Setup, probabilities: tuple[float, float]) -> float:
    """Return the utility of Eq. 3 for one probability of erasure left and one right.

    >>> round(utility(Setup(.01, .8, 10, 1, 1.0), (1.0, .546926)), 6)
    0.789496
    """
    shown = 0.0
    for right, probability in zip((False, True), probabilities, strict=True):
        medium, small = regions(case, right)
        weight = case.beta / (case.alpha + case.beta)
        shown += len(small) + weight * len(medium) * (1 - probability)
    return shown / case.n
