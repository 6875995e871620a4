"""Brute force for the published methods on chains, written from the papers and from nothing else.

Two kinds of oracle. The first takes the joint table of a small chain and enumerates: every series,
every quilt, every set of known records, every value. The second is the plain O(n^3) search of
[wang2016] over powers of P, for lengths at which tables end. Where both apply they must agree,
and `test_published_numbers` says so. Records are counted from 0; a quilt {left, right} of a
target has left < target < right, None standing for the imaginary nodes beyond the ends.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from typing import Any

import numpy as np
import numpy.typing as npt

import undertow as ut
from tests.oracles.enumeration import Pairs, largest, ordered, table_leakage
from tests.oracles.exact import normalised, stationary

Floats = npt.NDArray[np.float64]
Law = Mapping[int, Fraction]


# --- leakage of one mechanism, for some pairs and some targets ------------------------------------


def leakage(
    joint: Floats,
    likelihood: Floats,
    against: str = "any",
    pairs: Pairs = None,
    protect: Sequence[int] | None = None,
) -> float:
    """sup ln Pr[s | x_K, x] / Pr[s | x_K, x'] over the protected targets and the secret pairs."""
    return table_leakage(joint, likelihood, against, protect, pairs)


def noisy_answer(
    size: int, n: int, scale: float, answer: Callable[[tuple[int, ...]], Sequence[int]]
) -> Floats:
    """The likelihood of an integer vector plus independent (discrete) Laplace noise per number.

    Outputs are the integers from the least to the largest answer in every coordinate: beyond
    them, and between them, no ratio is larger.
    """
    table = np.array([answer(series) for series in product(range(size), repeat=n)])
    axes = [range(low, high + 1) for low, high in zip(table.min(0), table.max(0), strict=True)]
    outputs = np.array(list(product(*axes)))
    distance = np.abs(table[:, None, :] - outputs[None, :, :]).sum(axis=2)
    return np.exp(-distance / scale).reshape((size,) * n + (len(outputs),))


def counted(states: Sequence[int]) -> Callable[[tuple[int, ...]], Sequence[int]]:
    return lambda series: [sum(value in states for value in series)]


def binned(size: int) -> Callable[[tuple[int, ...]], Sequence[int]]:
    return lambda series: [series.count(state) for state in range(size)]


# --- influences by enumeration --------------------------------------------------------------------


def influence(
    joint: Floats,
    target: int,
    quilt: Sequence[int],
    known: Sequence[int] = (),
    pairs: Pairs = None,
) -> float:
    """max ln Pr[x_Q | x_K, x] / Pr[x_Q | x_K, x'] over pairs and possible values.

    Definition 4.2 of [wang2016] with nothing known, the ratio of Theorem 7.3 of [lange2024] with
    Q all unknown records. Values of probability 0 are no secrets.
    """
    n, k = joint.ndim, joint.shape[0]
    named = (target, *known, *quilt)
    order = (*named, *(record for record in range(n) if record not in named))
    table = joint.transpose(order).reshape(k, k ** len(known), k ** len(quilt), -1).sum(axis=3)
    prior = np.broadcast_to(table.sum(axis=2, keepdims=True), table.shape)
    return largest(table, prior, pairs)


def conditional_influence(
    joint: Floats, target: int, left: int | None, right: int | None, pairs: Pairs = None
) -> float:
    """The largest influence on the quilt, whatever is known on its far sides.

    Records known within the window, or on the quilt, only cut influence off on that side.
    """
    far = [*range(left or 0), *range(joint.ndim if right is None else right + 1, joint.ndim)]
    quilt = tuple(node for node in (left, right) if node is not None)
    return max(
        influence(joint, target, quilt, known, pairs)
        for size in range(len(far) + 1)
        for known in combinations(far, size)
    )


# --- the searches of [wang2016] -------------------------------------------------------------------

Influence = Callable[[int, int | None, int | None], float]


def search(
    n: int, epsilon: float, influence_of: Influence, protect: Sequence[int] | None = None
) -> float:
    """Algorithms 1 and 2: max over targets of min over quilts of nearby / (epsilon - influence).

    The trivial quilt has influence 0 and n nearby records; a quilt of influence >= epsilon is
    passed over (the printed test passes over > epsilon, and then divides by 0).
    """
    worst = 0.0
    for target in range(n) if protect is None else protect:
        best = n / epsilon
        for left in (None, *range(target)):
            for right in (None, *range(target + 1, n)):
                nearby = (n if right is None else right) - (-1 if left is None else left) - 1
                if nearby / epsilon >= best:
                    continue  # not even without influence
                found = influence_of(target, left, right)
                if found < epsilon:
                    best = min(best, nearby / (epsilon - found))
        worst = max(worst, best)
    return worst


def quilt_by_enumeration(
    joint: Floats,
    epsilon: float,
    *,
    conditional: bool = False,
    pairs: Pairs = None,
    protect: Sequence[int] | None = None,
) -> float:
    """The scale of MQMExact from the joint table; with conditional influences against any."""

    def influence_of(target: int, left: int | None, right: int | None) -> float:
        if conditional:
            return conditional_influence(joint, target, left, right, pairs)
        quilt = [node for node in (left, right) if node is not None]
        return influence(joint, target, quilt, pairs=pairs)

    return search(joint.ndim, epsilon, influence_of, protect)


def approx_influence(pi: float, gap: float, target: int, left: int | None, right: int | None):
    """Lemma 4.7 of [wang2016]; inf at distances up to ln(1/pi)/gap, where it says nothing."""

    def side(distance: int, factor: int) -> float:
        if not distance > math.log(1 / pi) / gap:
            return math.inf
        tail = math.exp(-gap * distance)
        return factor * math.log((pi + tail) / (pi - tail))

    near = 0.0 if left is None else side(target - left, 2)
    return near + (0.0 if right is None else side(right - target, 1))


def quilt_approx(
    pi: float, gap: float, n: int, epsilon: float, protect: Sequence[int] | None = None
) -> float:
    """The scale of MQMApprox, for every chain with these two numbers."""
    return search(n, epsilon, lambda *quilt: approx_influence(pi, gap, *quilt), protect)


def mixing_numbers(transition: npt.ArrayLike) -> tuple[float, float]:
    """The least stationary probability, and the gap that Lemma A.1 of [wang2016] needs.

    1 - |lambda_2| for a reversible chain; otherwise (1 - lambda_2(P P*)) / 2, P* the reversal.
    """
    matrix = np.asarray(transition, dtype=np.float64)
    k = len(matrix)
    system = np.vstack([matrix.T - np.eye(k), np.ones(k)])
    pi = np.linalg.lstsq(system, np.append(np.zeros(k), 1.0), rcond=None)[0]
    flow = pi[:, None] * matrix
    if np.allclose(flow, flow.T, rtol=0, atol=1e-12):
        return float(pi.min()), 1 - sorted(abs(np.linalg.eigvals(matrix)))[-2]
    both = matrix @ (flow.T / pi[:, None])
    return float(pi.min()), (1 - sorted(np.linalg.eigvals(both).real)[-2]) / 2


# --- W_infinity, in exact arithmetic --------------------------------------------------------------


def w_infinity(one: Law, two: Law) -> int:
    """The least w with F1(m) <= F2(m + w) and F2(m) <= F1(m + w) for all m."""
    low, high = min(*one, *two), max(*one, *two)
    first, second = _cumulated(one, low, high), _cumulated(two, low, high)
    w = 0
    while not (_within(first, second, w) and _within(second, first, w)):
        w += 1
    return w


def tied(one: Law, two: Law) -> bool:
    """Whether two CDFs meet exactly where W_infinity is decided: rounding may then add 1."""
    low, high = min(*one, *two), max(*one, *two)
    w = w_infinity(one, two)
    laws = _cumulated(one, low, high), _cumulated(two, low, high)
    return any(
        0 < first[m] == second[m + w] < 1
        for first, second in permutations(laws)
        for m in range(high - low + 1 - w)
    )


def answer_laws(
    model: ut.MarkovChain, target: int, answer: Callable[[tuple[int, ...]], Sequence[int]]
) -> dict[int, dict[int, Fraction]]:
    """The law of a scalar integer answer given each possible value of the target."""
    laws: dict[int, dict[int, Fraction]] = {}
    for series, probability in exact_joint(model).items():
        (value,) = answer(series)
        law = laws.setdefault(series[target], {})
        law[value] = law.get(value, Fraction(0)) + probability
    return {x: {m: mass / sum(law.values()) for m, mass in law.items()} for x, law in laws.items()}


def count_laws(
    model: ut.MarkovChain, target: int, states: Sequence[int]
) -> dict[int, dict[int, Fraction]]:
    """The same for a count, by adding record after record on both sides: any length."""
    start, steps = exact_chain(model)
    k = model.size
    left = {(x, int(x in states)): probability for x, probability in enumerate(start)}
    for step in steps[:target]:
        left = _collect(
            ((y, m + (y in states)), mass * step[x][y])
            for (x, m), mass in left.items()
            for y in range(k)
        )
    right = {(x, 0): Fraction(1) for x in range(k)}
    for step in reversed(steps[target:]):
        right = _collect(
            ((x, m + (y in states)), step[x][y] * mass)
            for (y, m), mass in right.items()
            for x in range(k)
        )
    laws = {}
    for value in range(k):
        law = _collect(
            (m + more, one * two)
            for (x, m), one in left.items()
            for (y, more), two in right.items()
            if x == y == value
        )
        if law:
            laws[value] = {m: mass / sum(law.values()) for m, mass in law.items()}
    return laws


def wasserstein_of_count(
    model: ut.MarkovChain, states: Sequence[int], protect: Sequence[int] | None = None
) -> int:
    """W of a count, every position by default, in exact arithmetic."""
    laws = [count_laws(model, i, states) for i in protect or range(model.length or 0)]
    return max(w_infinity(law[x], law[y]) for law in laws for x, y in combinations(law, 2))


def wasserstein(
    model: ut.MarkovChain,
    answer: Callable[[tuple[int, ...]], Sequence[int]],
    pairs: Pairs = None,
    protect: Sequence[int] | None = None,
) -> tuple[int, bool]:
    """W of the Wasserstein mechanism by enumerating all series, and whether a tie decides it."""
    assert model.length is not None
    worst, tie = 0, False
    for target in range(model.length) if protect is None else protect:
        laws = answer_laws(model, target, answer)
        for x, other in ordered(model.size, pairs):
            if x in laws and other in laws:
                w = w_infinity(laws[x], laws[other])
                near = w >= worst and tied(laws[x], laws[other])
                worst, tie = max(worst, w), near or (tie and w <= worst)
    return worst, tie


def exact_chain(model: ut.MarkovChain) -> tuple[list[Fraction], list[list[list[Fraction]]]]:
    """Start and steps, rows rescaled so that they sum to 1 exactly."""
    assert model.length is not None
    steps = [[normalised(row) for row in model.step(record)] for record in range(model.length - 1)]
    start = stationary(steps[0]) if isinstance(model.start, str) else normalised(model.start)
    return start, steps


def exact_joint(model: ut.MarkovChain) -> dict[tuple[int, ...], Fraction]:
    """The probability of every possible series."""
    start, steps = exact_chain(model)
    probabilities: dict[tuple[int, ...], Fraction] = {}
    for series in product(range(model.size), repeat=len(steps) + 1):
        probability = start[series[0]]
        for step, (x, y) in zip(steps, pairwise(series), strict=True):
            probability *= step[x][y]
        if probability:
            probabilities[series] = probability
    return probabilities


def _collect(parts: Iterable[tuple[Any, Fraction]]) -> dict[Any, Fraction]:
    """Add up the masses of equal keys; impossible ones are left out."""
    total: dict[Any, Fraction] = {}
    for key, mass in parts:
        if mass:
            total[key] = total.get(key, Fraction(0)) + mass
    return total


def _cumulated(law: Law, low: int, high: int) -> list[Fraction]:
    total, sums = Fraction(0), []
    for value in range(low, high + 1):
        total += law.get(value, Fraction(0))
        sums.append(total)
    return sums


def _within(first: list[Fraction], second: list[Fraction], w: int) -> bool:
    last = len(second) - 1
    return all(first[m] <= second[min(m + w, last)] for m in range(len(first)))
