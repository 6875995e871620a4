"""How far noise leaves the laws of an answer apart."""

import math
from itertools import permutations
from typing import Any

import numpy as np

from undertow.errors import InvalidInput
from undertow.numerics import ROUNDOFF, Array, check_positive, freeze, log_sum, up

__all__ = ["check_laws", "level_separations", "log_laws", "separation_upper", "separations"]


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
    logs = log_laws(possible)
    found = float(separations(logs, places, scale))
    reach = up(float(places.max() - places.min()) / scale)
    largest = float(np.abs(logs[np.isfinite(logs)]).max()) + min(reach, 1e300)
    # 16 roundings of the largest logarithm, and one for each term, in either of the two sums
    padding = 2 * (16 * (largest + 1) + 4 * table.shape[1]) * ROUNDOFF
    return min(up(found + padding), reach)


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
        found = (high - low).max(axis=-1)
        reach = (answers.max() - answers.min()) / scale
    return np.asarray(np.clip(np.where(np.isnan(found), reach, found), 0.0, reach))


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
        found = np.clip((ends[0] - ends[1]).max(axis=-1), 0.0, level)
    return np.where(np.isnan(law).any(-1) | np.isnan(other).any(-1), 0.0, found)


def log_laws(table: Array) -> Array:
    """Return the logarithms of probabilities, -inf for those that are 0.

    >>> log_laws(np.array([1.0, 0.0]))
    array([  0., -inf])
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(table))


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
