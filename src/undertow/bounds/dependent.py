"""Dependence coefficients of [liu2016]: how far one record shows in another's noisy value.

For two records their sum bounds the leakage; for more it does not (`dependence_matrix`), so no
guarantee rests on it: `undertow.planning.dependent` asks for the leakage itself. The published
fragment ends inside section VI-B, and everything here follows from the definition given there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.bounds.levels.sides import log
from undertow.errors import InvalidInput, MethodRefused, NothingToProtect
from undertow.models.chains import MarkovChain
from undertow.models.networks import BayesianNetwork
from undertow.numerics import (
    MAX_STEPS,
    ROUNDOFF,
    Array,
    check_count,
    check_epsilon,
    check_positive,
    divide_up,
    freeze,
    log_sum,
    up,
)
from undertow.queries import AnyQuery, Count, Linear

__all__ = [
    "Parts",
    "Total",
    "baseline_scale",
    "chain_total",
    "check_laws",
    "dependence_matrix",
    "dependent_scale",
    "dependent_sensitivity",
    "discrete_coefficient",
    "fixed_point_scale",
    "gaussian_coefficients",
    "gaussian_total",
    "level_coefficient",
    "level_separations",
    "linear_coefficient",
    "network_total",
    "pair_table",
    "parts_of",
    "separation_upper",
    "separations",
    "weak_pair",
]


def separation_upper(laws: Any, answers: Any, scale: float) -> float:
    """Return how far Laplace noise leaves the laws of an answer apart, rounded up.

    The separation of [liu2016]: ``laws[x][y]`` is the probability, up to a factor in each row, that
    the answer is ``answers[y]`` if the target record is x. The result is the largest
    ln Pr[s | x] / Pr[s | x'] over x, x' and all real s: the leakage about the target, to whoever
    knows no other record. The entries count as exact, values x with a row of zeros as impossible.

    >>> round(separation_upper([[1, 0, 0], [0, 1, 1]], [0.0, 0.5, 1.0], scale=1.0), 9)
    0.780929804
    """
    table, places = check_laws(laws), freeze(answers)
    scale = check_positive(scale, "noise scale")
    if places.shape != (table.shape[1],) or not np.isfinite(places).all():
        raise InvalidInput(
            f"one finite answer per column is required: {table.shape[1]} columns, answers of "
            f"shape {places.shape}"
        )
    possible = table[(table > 0).any(axis=1)]  # values x that can be
    if len(possible) < 2 or (possible == possible[0]).all():
        return 0.0
    logs = log(possible)
    number = float(separations(logs, places, scale))
    reach = up(float(places.max() - places.min()) / scale)
    largest = float(np.abs(logs[np.isfinite(logs)]).max()) + min(reach, 1e300)
    # 16 roundings of the largest logarithm, and one for each term, in either of the two sums
    padding = 2 * (16 * (largest + 1) + 4 * table.shape[1]) * ROUNDOFF
    return min(up(number + padding), reach)


def separations(logs: Array, answers: Array, scale: float) -> Array:
    """Return the separation of each of many tables, to nearest.

    ``logs`` has shape (..., x, y): the log-probability, up to a constant in each row, that the
    answer is ``answers[y]`` if the record is x; a row of -inf is a value that cannot be. The
    result has shape (...). Between two neighbouring answers both densities have the form
    A e^(s/scale) + B e^(-s/scale), so their ratio is a Moebius function of e^(2 s/scale), monotone,
    and beyond all answers it is constant: the supremum over the line is the maximum over the
    answers.

    >>> float(separations(np.log([[.8, .2], [.2, .8]]), np.array([0.0, 1.0]), 1.0).round(9))
    0.569445196
    """
    with np.errstate(over="ignore", invalid="ignore"):
        moved = -np.abs(answers[:, None] - answers) / scale  # (y, s): log-noise at the answers s
        # (..., x, s)
        scores = log_sum(logs[..., None] + moved, axis=-2) - log_sum(logs, axis=-1)[..., None]
        high = np.where(np.isnan(scores), -math.inf, scores).max(axis=-2)  # (..., s)
        low = np.where(np.isnan(scores), math.inf, scores).min(axis=-2)
        # (...): answers suffice, as the ratio is monotone between
        largest = (high - low).max(axis=-1)
        reach = (answers.max() - answers.min()) / scale
    return np.asarray(np.clip(np.where(np.isnan(largest), reach, largest), 0.0, reach))


def level_separations(logs: Array, level: float | Array) -> Array:
    """Return how far any algorithm of a DP level can tell the laws of a record apart, to nearest.

    As `separations`, with an arbitrary algorithm in place of noise on a number: the likelihood of
    its output varies by at most e^level over the states y of the record, so the ratio is largest
    for a likelihood of e^level on a set S of states and 1 elsewhere, and S holds the states that
    favour x over x' the most. Laplace noise on a histogram attains it at level 2 / scale.
    ``level`` may differ from table to table.

    >>> float(level_separations(np.log([[.8, .2], [.2, .8]]), 1.0).round(9))
    0.569445196
    """
    size, worst = logs.shape[-2], np.zeros(logs.shape[:-2])
    with np.errstate(invalid="ignore"):
        laws = logs - log_sum(logs, axis=-1)[..., None]  # (..., x, y), rows normalised
    for x, other in permutations(range(size), 2):
        worst = np.maximum(worst, _best_set(laws[..., x, :], laws[..., other, :], level))
    return worst


def _best_set(law: Array, other: Array, level: float | Array) -> Array:
    """Return max over S of ln E[e^(level 1[S])] under ``law`` over the same under ``other``."""
    with np.errstate(invalid="ignore", divide="ignore"):
        favour = law - other  # (..., y)
        order = np.argsort(np.where(np.isnan(favour), math.inf, -favour), axis=-1)
        ends = []
        for side in (law, other):
            # (..., y), those that favour x first
            mass = np.exp(np.take_along_axis(side, order, -1))
            inside = np.cumsum(mass, axis=-1)[..., :-1]  # Pr[S] for the first 1, 2, ... states
            beyond = np.cumsum(mass[..., ::-1], axis=-1)[..., ::-1][..., 1:]
            raised = np.log(inside) + np.asarray(level)[..., None]
            ends.append(np.logaddexp(raised, np.log(beyond)))
        gain = np.clip((ends[0] - ends[1]).max(axis=-1), 0.0, level)
    return np.where(np.isnan(law).any(-1) | np.isnan(other).any(-1), 0.0, gain)


def check_laws(laws: Any) -> Array:
    """Return a table of probabilities, one row for each value of the target, or refuse it.

    >>> check_laws([[1, 0], [0, 1]]).shape
    (2, 2)
    """
    table = freeze(laws)
    if table.ndim != 2 or not table.size:
        raise InvalidInput(
            "a law must be a table, one row for each value of the target; found shape "
            f"{table.shape}"
        )
    if not np.isfinite(table).all() or (table < 0).any() or not table.any():
        raise InvalidInput("probabilities must be finite, not negative, and not all zero")
    return table


PRECISION = 1e-12
"""Relative width at which the search for a scale stops; the end returned is the one that holds."""


def discrete_coefficient(joint: Any, scale: float, values: Any = None) -> float:
    """Return how much of record i shows in record j under noise of a scale, from 0 to 1.

    rho_ij with rho_ij Delta_j / scale = sup ln Pr[s | x_i = x] / Pr[s | x_i = x'], where s is what
    record j contributes, plus Laplace noise: section VI-B of [liu2016]. Rounded up.

    Parameters
    ----------
    joint
        joint[x][y], the probability that record i is x and record j is y.
    scale
        Of the noise: the coefficient depends on it, and may rise or fall as the noise grows.
    values
        What record j contributes to the answer for each y, by default 0, 1, 2, ...; Delta_j is
        their range, over the y that can be.

    >>> round(discrete_coefficient([[.4, .1], [.1, .4]], scale=1.0), 9)
    0.569445196
    >>> discrete_coefficient([[.25, .25], [.25, .25]], scale=1.0)
    0.0
    """
    table = check_laws(joint)
    places = np.arange(table.shape[1]) if values is None else freeze(values)
    if places.shape != (table.shape[1],):
        raise InvalidInput(
            f"one value per column of the joint law is required: {table.shape[1]} columns, values "
            f"of shape {places.shape}"
        )
    kept = (table > 0).any(axis=0)  # values of record j that can be
    table, places = table[:, kept], places[kept]
    spread = float(places.max() - places.min())
    if spread == 0:
        return 0.0
    apart = separation_upper(table, places, scale)
    return min(1.0, up(apart * scale / spread)) if apart else 0.0


def level_coefficient(joint: Any, level: float) -> float:
    """Return the share of a DP level that an algorithm can spend on record i through record j.

    Between 0 (independent records) and 1. As `discrete_coefficient`, for the worst of all
    algorithms whose outputs are at most e^level times as probable under one value of record j as
    under another. Rounded to nearest: no guarantee rests on it.

    >>> round(level_coefficient([[.4, .1], [.1, .4]], level=1.0), 9)
    0.569445196
    """
    level, table = check_positive(level, "level"), check_laws(joint)
    return min(1.0, float(level_separations(log(table), level)) / level)


def linear_coefficient(slope: float, own: float = 1.0, other: float = 1.0) -> float:
    """Return the coefficient of a record that follows another: |slope| own / other.

    Record j is slope times record i plus something independent of it; ``own`` is the range of i's
    contribution and ``other`` that of j's. Whatever the scale: a move of i by its whole range
    moves the law of j rigidly, and Laplace noise shows a rigid move in its tails in full, unless
    the independent part has tails as heavy as the noise; then less. Rounded up.

    >>> linear_coefficient(0.5)
    0.5
    """
    own, other = check_positive(own, "range"), check_positive(other, "range")
    if not math.isfinite(slope):
        raise InvalidInput(f"the slope must be finite, found {slope}")
    return divide_up(abs(Fraction(slope)) * Fraction(own), other) if slope else 0.0


def gaussian_coefficients(covariance: Any, ranges: Any = None) -> Array:
    """Return the coefficients of jointly Gaussian records, rho[i, j] of record j on record i.

    |beta_ji| Delta_i / Delta_j with beta_ji = Cov(X_j, X_i) / Var(X_i), the regression of j on i:
    `linear_coefficient` with that slope. ``ranges`` are the Delta, by default all 1. A coefficient
    may exceed 1 where record j has the larger deviation: nothing bounds its values. Rounded up.

    >>> gaussian_coefficients([[1.0, 0.5], [0.5, 4.0]])
    array([[1.   , 0.5  ],
           [0.125, 1.   ]])
    """
    sigma = freeze(covariance)
    if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1] or not sigma.size:
        raise InvalidInput(f"a covariance must be a square matrix, found shape {sigma.shape}")
    size = len(sigma)
    if not np.isfinite(sigma).all() or not (np.diag(sigma) > 0).all():
        raise InvalidInput("a covariance must be finite, with positive variances on its diagonal")
    spans = [1.0] * size if ranges is None else _ranges(ranges, size)
    values = np.eye(size)
    for i, j in permutations(range(size), 2):
        if sigma[j, i]:
            slope = Fraction(float(abs(sigma[j, i]))) * Fraction(spans[i]) / Fraction(spans[j])
            values[i, j] = divide_up(slope, float(sigma[i, i]))
    return values


def dependence_matrix(joint: Any, scale: float, values: Any = None) -> Array:
    """Return rho[i, j] for all pairs of records of a joint table of shape (k,) * n; rho[i, i] = 1.

    ``values`` are the contributions of the states, shape (k,) or (n, k). See
    `discrete_coefficient`.

    Pairs do not tell the whole: if record 2 is record 0 xor record 1, all coefficients are 0, and
    yet a sum of the three with noise for independent records leaks twice what it should.

    >>> xor = np.zeros((2, 2, 2))
    >>> xor[0, 0, 0] = xor[0, 1, 1] = xor[1, 0, 1] = xor[1, 1, 0] = 1 / 4
    >>> dependence_matrix(xor, scale=1.0)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    law = _table(joint)
    rows, matrix = _contributions(values, law), np.eye(law.ndim)
    for i, j in permutations(range(law.ndim), 2):
        matrix[i, j] = discrete_coefficient(pair_table(law, i, j), scale, rows[j])
    return matrix


def dependent_sensitivity(coefficients: Any, ranges: Any) -> float:
    """Return max over i of sum over j of rho[i, j] Delta_j, rounded up.

    How far the answer moves, in the units of noise, if record i moves and takes the others along.

    >>> dependent_sensitivity([[1, 0.5], [1, 1]], ranges=[1, 1])
    2.0
    """
    matrix = freeze(coefficients)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise InvalidInput(f"coefficients must be a square matrix, found shape {matrix.shape}")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InvalidInput("coefficients must be finite and not negative")
    spans = [Fraction(span) for span in _ranges(ranges, len(matrix))]
    totals = [
        sum((Fraction(rho) * span for rho, span in zip(row, spans, strict=True)), Fraction(0))
        for row in matrix.tolist()
    ]
    return divide_up(max(totals), 1.0)


def dependent_scale(joint: Any, epsilon: float, values: Any = None) -> float:
    """Return the Laplace scale of the dependent perturbation mechanism for a sum of records.

    The scale b at which max over i of sum over j of rho_ij(b) Delta_j equals epsilon b: the
    coefficients depend on the scale and the scale on them. Rounded up.

    With two records the noise leaks at most epsilon against every adversary: given x_i the density
    of the answer is that of record j's part, shifted by i's, and the shift costs Delta_i / b. With
    more records nothing is guaranteed (`dependence_matrix` has the counterexample).

    Parameters
    ----------
    joint
        The probability of every data set, shape (k,) * n.
    epsilon
        What is to be leaked at most.
    values
        The contributions of the states, shape (k,) or (n, k), by default 0, 1, 2, ...

    >>> round(dependent_scale([[.4, .1], [.1, .4]], epsilon=1.0), 9)
    1.587533097
    """
    law, epsilon = _table(joint), check_epsilon(epsilon)
    rows = _contributions(values, law)
    pairs = {(i, j): pair_table(law, i, j) for i, j in permutations(range(law.ndim), 2)}
    spans = []
    for i in range(law.ndim):
        # (k,): states record i can have
        alone = law.sum(axis=tuple(j for j in range(law.ndim) if j != i)) > 0
        spans.append(up(float(np.ptp(rows[i][alone])), 1) if np.ptp(rows[i][alone]) else 0.0)
    if not any(spans):
        raise NothingToProtect("no record moves the sum: nothing can leak, and no noise is needed")

    def total(scale: float) -> float:
        losses = []
        for i, span in enumerate(spans):
            parts = [up(span / scale)]
            parts += [
                separation_upper(pairs[i, j], rows[j], scale) for j in range(law.ndim) if j != i
            ]
            losses.append(up(math.fsum(parts)))
        return max(losses)

    return fixed_point_scale(total, epsilon, max(spans) / epsilon)


def fixed_point_scale(
    total: Callable[[float], float], epsilon: float, start: float, precision: float = PRECISION
) -> float:
    """Return the least scale, to ``precision``, whose total loss is at most epsilon.

    ``total(scale)`` falls as the noise grows: Laplace noise of a scale is that of a smaller one
    plus more noise. The scale returned has total(scale) <= epsilon as computed, so it is as safe
    as ``total`` is. `InvalidInput` if no scale up to 1e18 times the start will do.

    >>> round(fixed_point_scale(lambda scale: 3 / scale, epsilon=2.0, start=1.0), 9)
    1.5
    """
    low, high, scale = 0.0, math.inf, check_positive(start, "start")
    last: tuple[float, float] | None = None
    for _ in range(400):
        loss = total(scale)
        low, high = (low, scale) if loss <= epsilon else (scale, high)
        if low and high / low - 1 <= precision:
            break
        if low > 1e18 * start:
            raise InvalidInput("no scale brings the total loss below epsilon")
        if high < 1e-18 * start:
            raise NothingToProtect("no noise is needed: nothing leaks, however little there is")
        scale, last = _next_scale(scale, loss / epsilon, last, (low, high), precision)
    return high


def _next_scale(
    scale: float,
    excess: float,
    last: tuple[float, float] | None,
    bracket: tuple[float, float],
    precision: float,
) -> tuple[float, tuple[float, float]]:
    """Return the next scale to try, by a secant in log-log coordinates, and the point just seen."""
    (low, high), slope = bracket, -1.0
    here = math.log(scale), math.log(max(excess, 1e-300))
    if last is not None and last[0] != here[0]:
        slope = (here[1] - last[1]) / (here[0] - last[0])
    step = here[1] / -slope if -10 < slope < -0.1 else here[1]
    estimate = scale * math.exp(max(-3.0, min(3.0, step)))
    aside = 0.4 * precision  # one probe just above and one just below close the bracket
    trial = estimate * (1 + aside if high > estimate * (1 + 2 * aside) else 1 - aside)
    if not low < trial < high:
        trial = math.sqrt(low * high) if low and high < math.inf else (low * 4 or high / 4)
    return trial, here


def baseline_scale(size: int, sensitivity: float, epsilon: float) -> float:
    """Return L * sensitivity / epsilon, the noise for L records that depend on each other anyhow.

    Theorem 7 of [liu2016], and sound: L records at level epsilon / L leak at most epsilon (Theorem
    4.2 of [lange2024]), if L is the size of the largest *group* of mutually dependent records; that
    each record depends on L - 1 others is not enough. Rounded up.

    >>> baseline_scale(2, sensitivity=1.0, epsilon=0.5)
    4.0
    """
    size, epsilon = check_count(size, "dependence size", 1), check_epsilon(epsilon)
    return divide_up(size * Fraction(check_positive(sensitivity, "sensitivity")), epsilon)


def weak_pair(ratio: float) -> Array:
    """Return two bits whose correlation is as small, and whose leakage is as large, as one likes.

    joint[x, y] of Table 2 in [lange2024]: record 0 is 0 with probability 1 / ratio^2, and then so
    is record 1; record 1 is 1 with probability 1 - 1 / ratio. The correlation is
    1 / sqrt(ratio + 1), yet a noisy count at DP level epsilon leaks at least
    2 epsilon + ln (ratio^2 - 1) / (e^epsilon (ratio - 1) + ratio^2 - ratio), which tends to the
    bound 2 epsilon of two records that depend on each other anyhow: Theorem 4.3 of [lange2024].

    >>> weak_pair(2)
    array([[0.25, 0.  ],
           [0.25, 0.5 ]])
    """
    ratio = check_positive(ratio, "ratio")
    if ratio <= 1:
        raise InvalidInput(f"ratio must be above 1, found {ratio}: one record is certain below")
    rare = 1 / ratio**2
    return freeze([[rare, 0.0], [1 / ratio - rare, 1 - 1 / ratio]])


def _table(joint: Any) -> Array:
    """Check a joint table of probabilities."""
    law = freeze(joint)
    if law.ndim < 2 or len(set(law.shape)) != 1 or not law.size:
        raise InvalidInput(f"a joint table of n >= 2 records has shape (k,) * n, found {law.shape}")
    if not np.isfinite(law).all() or (law < 0).any() or not law.any():
        raise InvalidInput("probabilities must be finite, not negative, and not all zero")
    return law


def pair_table(law: Array, i: int, j: int) -> Array:
    """Return the joint law of two records, row = the first named.

    >>> pair_table(np.array([[.4, .1], [.2, .3]]), 1, 0)
    array([[0.4, 0.2],
           [0.1, 0.3]])
    """
    rest = tuple(record for record in range(law.ndim) if record not in (i, j))
    both: Array = law.sum(axis=rest)  # (k, k), the smaller number first
    return both if i < j else both.T


def _contributions(values: Any, law: Array) -> list[Array]:
    """Return the numbers of the states of each record."""
    size = law.shape[0]
    table = freeze(np.arange(size) if values is None else values)
    if table.shape not in ((size,), (law.ndim, size)) or not np.isfinite(table).all():
        raise InvalidInput(
            f"values must be finite, of shape ({size},) or ({law.ndim}, {size}), found "
            f"{table.shape}"
        )
    return list(np.broadcast_to(table, (law.ndim, size)))


def _ranges(ranges: Any, size: int) -> list[float]:
    spans: npt.NDArray[np.float64] = freeze(ranges)
    if spans.shape != (size,) or not np.isfinite(spans).all() or not (spans > 0).all():
        raise InvalidInput(f"ranges must be {size} positive numbers, found shape {spans.shape}")
    return [float(span) for span in spans]


Total = Callable[[float], float]

FORGOTTEN = 1e-15
"""Largest difference of two rows of P^t at which records t apart count as independent (to nearest:
no guarantee rests on a total)."""

MOST_RECORDS = 128
"""Most records of which all pairs are looked at, where no two pairs are alike."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Contribution of each record to an answer: numbers of its states, or a range alone.

    With ``answers`` every state has its number and ``spans`` is their range; without, a record may
    move the answer by its span in any way, and the algorithm counts as the worst of its DP level.
    ``spans`` has one entry if all records are alike.

    >>> parts_of(Count("a"), ("a", "b", "c"), length=3).answers
    array([1., 0., 0.])
    """

    answers: Array | None
    spans: Array

    def losses(self, logs: Array, records: npt.NDArray[np.intp] | int, scale: float) -> Array:
        """Return rho_ij Delta_j / scale for tables of log-laws of the records j given i."""
        if self.answers is not None:
            return separations(logs, self.answers, scale)
        spans = self.spans[0] if len(self.spans) == 1 else self.spans[records]
        return level_separations(logs, spans / scale)


def parts_of(query: AnyQuery, states: tuple[Any, ...], length: int | None) -> Parts:
    """Return each record's contribution: 0 or 1 for a count's states, else a range.

    >>> parts_of(Linear([1.0, -2.0], spread=3.0), (0, 1), length=2).spans
    array([3., 6.])
    """
    if isinstance(query, Count):
        answers = np.array([float(state in query.states) for state in states])
        return Parts(answers, np.array([np.ptp(answers)]))
    if isinstance(query, Linear):
        return Parts(None, np.abs(query.weights) * query.spread)
    return Parts(None, np.array([query.sensitivity(length)]))


def chain_total(chain: MarkovChain, query: AnyQuery) -> Total:
    """Return the total loss of a scale on a chain.

    Records t apart have the law P^t, and backwards its reversal pi_y P^t(y, x) / pi_x. A chain with
    a stationary start needs one table for each distance, O(t k^3); any other one for each pair, up
    to `MOST_RECORDS` records. Beyond `MAX_STEPS` distances a chain that has not forgotten counts
    with the largest coefficient, 1.

    >>> pair = MarkovChain([[.8, .2], [.2, .8]], length=2)
    >>> round(chain_total(pair, Count(1))(1.587533097), 8)
    1.0
    """
    reduced = chain.visited()
    if reduced is None:
        raise NothingToProtect("every record is certain under this model: no noise is needed")
    parts = parts_of(query, reduced.states, reduced.length)
    alike = len(parts.spans) == 1
    if isinstance(reduced.start, str) and alike:
        return _by_distance(reduced, parts)
    length = reduced.length
    if length is None or length > MOST_RECORDS:
        raise MethodRefused(
            "no two pairs of records are alike on this chain, and coefficients of all pairs are "
            f"looked at for at most {MOST_RECORDS} records"
        )
    laws = reduced.marginals(length)
    tables: dict[tuple[int, int], Array] = {}
    for i in range(length):
        step = np.eye(reduced.size)
        for j in range(i + 1, length):
            step = step @ reduced.step(j - 1)  # Pr[X_j | X_i], (k, k)
            both = laws[i][:, None] * step  # (k, k): joint of records i and j
            tables[i, j], tables[j, i] = both, both.T
    return _by_pairs(tables, parts, length)


def network_total(network: BayesianNetwork, query: AnyQuery) -> Total:
    """Return the total loss of a scale on a network of at most `MOST_RECORDS` records.

    >>> pair = BayesianNetwork([("a", "b")], {"a": [.5, .5], "b": [[.8, .2], [.2, .8]]})
    >>> round(network_total(pair, Count(1))(1.587533097), 8)
    1.0
    """
    length = network.length
    if length > MOST_RECORDS:
        raise MethodRefused(
            f"coefficients of all pairs of records are looked at for at most {MOST_RECORDS} "
            f"records, found {length}"
        )
    tables: dict[tuple[int, int], Array] = {}
    records = {node: place for place, node in enumerate(network.observed)}
    for group in network.components():
        members = [n for place in group if (n := network.nodes[place]) in records]
        for first, one in enumerate(members):
            for two in members[first + 1 :]:
                both = network.law([one, two])
                i, j = records[one], records[two]
                tables[i, j], tables[j, i] = both, both.T
    return _by_pairs(tables, parts_of(query, network.states, length), length)


def gaussian_total(covariance: Array, weights: Array, spread: float, clipped: bool) -> Total:
    """Return the total loss of a scale for a weighted sum of jointly Gaussian records.

    Record i moves by at most ``spread`` and takes the mean of record j along by beta_ji times that
    (`undertow.bounds.dependent.gaussian_coefficients`); ``clipped`` records move by
    at most the spread themselves.

    >>> total = gaussian_total(np.array([[1, .5], [.5, 4]]), np.ones(2), 1.0, clipped=False)
    >>> total(1.0), gaussian_total(np.array([[1, 3], [3, 16]]), np.ones(2), 1.0, True)(1.0)
    (1.5, 2.0)
    """
    moves = np.abs(covariance) / np.diag(covariance)[:, None]  # (n, n): |beta_ji|, row i
    if clipped:
        moves = np.minimum(moves, 1.0)
    reach = float((moves @ np.abs(weights)).max()) * spread
    return lambda scale: reach / scale


def _by_distance(chain: MarkovChain, parts: Parts) -> Total:
    """Return the total of a stationary chain, whose pairs differ in their distance only."""
    steps, forgets = _powers(chain)
    # (distances, x, contributions): records after the target
    right, answers = _grouped(parts, steps)
    # pi_y P^t(y, x): before it
    left, _ = _grouped(parts, np.swapaxes(chain.initial[:, None] * steps, 1, 2))
    parts = Parts(answers, parts.spans)
    span, length = float(parts.spans[0]), chain.length
    if length is None and not forgets:
        raise MethodRefused(
            "the chain does not forget where it was, so infinitely many records depend on each "
            "other in full"
        )

    def total(scale: float) -> float:
        # (distances,) each
        sides = [np.cumsum(parts.losses(logs, 0, scale)) for logs in (left, right)]
        if length is None:
            return span / scale + float(sides[0][-1] + sides[1][-1])
        rest = 0.0 if forgets else span / scale
        reach = np.arange(length)
        worst = np.zeros(length)
        for side, away in zip(sides, (reach, reach[::-1]), strict=True):
            known = np.concatenate([[0.0], side])  # sums over the nearest 0, 1, 2, ... records
            near = np.minimum(away, len(side))  # (length,)
            worst += known[near] + (away - near) * rest
        return span / scale + float(worst.max())

    return total


def _powers(chain: MarkovChain) -> tuple[Array, bool]:
    """Return P, P^2, ... until the chain has forgotten, at most `MAX_STEPS`, and whether it has."""
    most = MAX_STEPS if chain.length is None else min(MAX_STEPS, chain.length - 1)
    powers, step = [], np.eye(chain.size)
    for _ in range(most):
        step = step @ chain.transition
        powers.append(step)
        if np.ptp(step, axis=0).max() <= FORGOTTEN:
            return np.array(powers), True  # (distances, k, k)
    return np.array(powers), False


def _grouped(parts: Parts, tables: Array) -> tuple[Array, Array | None]:
    """Return the log-laws of the contributions, states with the same number taken together."""
    if parts.answers is None:
        return log(tables), None
    answers = np.unique(parts.answers)
    sums = [tables[..., parts.answers == value].sum(axis=-1) for value in answers]
    return log(np.stack(sums, axis=-1)), answers


def _by_pairs(tables: dict[tuple[int, int], Array], parts: Parts, length: int) -> Total:
    """Return the total over pairs that are given one by one, each by its joint law."""
    spans = np.broadcast_to(parts.spans, (length,))
    if not tables:
        return lambda scale: float(spans.max()) / scale
    targets = np.array([i for i, _ in tables])
    others = np.array([j for _, j in tables])
    logs, answers = _grouped(parts, np.stack(list(tables.values())))
    parts = Parts(answers, parts.spans)

    def total(scale: float) -> float:
        losses = parts.losses(logs, others, scale)
        sums = np.bincount(targets, weights=losses, minlength=length)  # (length,): by target
        return float((spans / scale + sums).max())

    return total
