"""Limits of a mechanism: a directed metric between the symbols of one record.

theta(v, v') bounds ln f(.., x_t = v, ..) / f(.., x_t = v', ..) for every output's likelihood f.
Bounds of what a mechanism leaks on a chain use its limits alone (docs, theory-engine: E0, E11).
"""

import math
from fractions import Fraction

import numpy as np

from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import (
    Levelled,
    LocalMechanism,
    Mechanism,
    MetricDP,
    PureDP,
    RandomizedResponse,
    TabulatedNoise,
)
from undertow.numerics import Array, log_error, log_ratio, up
from undertow.queries import BaseQuery, State, as_numbers

__all__ = ["limits", "uniform"]


def limits(mechanism: Mechanism, states: tuple[State, ...], length: int | None = None) -> Array:
    """Return how far one record moves a mechanism's log-likelihood, shape (k, k), rounded up.

    Row = the value in the numerator. PureDP: epsilon between any two values; flips: the largest
    log-ratio of an output; counts and sums with Laplace noise: what the values add to the answer,
    over the scale; histograms: 2 / scale (a record leaves one cell for another); everything else
    of a DP level: that level.

    >>> from undertow.queries import Count
    >>> from undertow.mechanisms import Laplace
    >>> limits(Laplace(Count("b"), scale=4.0), ("a", "b", "c")).round(3).tolist()
    [[0.0, 0.25, 0.0], [0.25, 0.0, 0.25], [0.0, 0.25, 0.0]]
    """
    size = len(states)
    if isinstance(mechanism, RandomizedResponse):
        return _flips(mechanism, size)
    if isinstance(mechanism, LocalMechanism):
        raise NotSupported(
            f"{type(mechanism).__name__} has no limit for one record by itself; use "
            "RandomizedResponse, a noisy answer, or PureDP"
        )
    if isinstance(mechanism, MetricDP):
        numbers = as_numbers(states)
        if numbers is None:
            raise InvalidInput(
                f"MetricDP needs states that are finite numbers, found {states!r}; name the "
                "states by their values, or use PureDP"
            )
        return _apart([Fraction(number) for number in numbers], Fraction(mechanism.rate))
    if isinstance(mechanism, PureDP):
        if mechanism.unit != "record":
            raise NotSupported("a level for whole persons does not depend on their records' chain")
        return uniform(mechanism.epsilon, size)
    if not isinstance(mechanism, Levelled | TabulatedNoise):
        raise NotSupported(
            f"{type(mechanism).__name__} has no pure DP level; ask for a delta above 0"
        )
    if isinstance(mechanism, Levelled):
        unknown = [state for state in mechanism.query.named if state not in states]
        if unknown:
            raise InvalidInput(f"the chain has no state {unknown[0]!r}; its states are {states!r}")
        steps = _added(mechanism.query, states, length)
        if steps is not None:
            return _apart(steps, 1 / Fraction(mechanism.scale))
    return uniform(mechanism.level_upper(length), size)


def uniform(level: float, size: int) -> Array:
    """Return the same limit between any two different values.

    >>> uniform(1.0, 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return np.where(np.eye(size, dtype=bool), 0.0, level)


def _added(
    query: BaseQuery, states: tuple[State, ...], length: int | None
) -> list[Fraction] | None:
    """Return what each state adds to an answer of one number, None where that is not known."""
    if query.named:
        return [Fraction(int(state in query.named)) for state in states]
    if query.per_state or query.selects:
        return None
    adds = query.added(states, length)
    return None if adds is None else list(adds)


def _apart(values: list[Fraction], rate: Fraction) -> Array:
    """Return the distances of values times a rate, rounded up."""
    return np.array([
        [up(float(abs(one - other) * rate)) if one != other else 0.0 for other in values]
        for one in values
    ])  # fmt: skip


def _flips(mechanism: RandomizedResponse, size: int) -> Array:
    """Return the largest log-ratio of an output under two values of its record."""
    if mechanism.inputs != size:
        raise InvalidInput(
            f"the mechanism is for {mechanism.inputs} states, the chain has {size}; they must agree"
        )
    matrix = mechanism.matrix
    # (states, states, outputs); nan where neither value gives the output
    ratios = log_ratio(matrix[:, None, :], matrix[None, :, :])
    most = np.nanmax(ratios, axis=2)
    size_of_logs = float(np.abs(np.log(matrix[matrix > 0])).max(initial=0.0))
    limits = np.where(np.isfinite(most), np.maximum(most + log_error(8, 1 + size_of_logs), 0), most)
    np.fill_diagonal(limits, 0.0)
    return np.asarray(np.where(np.isnan(limits), math.inf, limits))
