"""Walks of a chain: series drawn from it, its steps read backwards, walks between known ends."""

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np

from undertow.base_query import State
from undertow.errors import InvalidModel
from undertow.numerics import Array, check_count, check_seed

if TYPE_CHECKING:
    from undertow.models.markov import MarkovChain

__all__ = ["MOST_DRAWN", "MOST_RECORDS", "backwards", "bridge", "simulate"]

MOST_RECORDS = 10**6
"""Records of a chain whose steps are written out: each has a matrix in memory."""

MOST_DRAWN = 10**8
"""Records of a series that is drawn (memory)."""


def bridge(chain: "MarkovChain", first: State, last: State, length: int) -> "MarkovChain":
    """Return the law of ``length`` records of which both ends are known; `MarkovChain.bridge`."""
    length = check_count(length, "length (records in the bridge)", 2, MOST_RECORDS)
    source, goal = chain.index(first), chain.index(last)
    if not chain.homogeneous:
        raise InvalidModel("bridges need a chain with one transition matrix")
    steps = np.empty((length - 1, chain.size, chain.size))
    ahead, leads = np.zeros(chain.size), np.zeros(chain.size, dtype=bool)
    ahead[goal], leads[goal] = 1.0, True  # P^0(y, last), up to a factor, and whether y leads there
    for step in reversed(range(length - 1)):
        weighted = chain.transition * ahead[None, :]  # P(x, y) P^d(y, last)
        ahead, leads = weighted.sum(axis=1), (chain.transition > 0) @ leads
        if ((ahead > 0) != leads).any():
            raise InvalidModel(
                f"some walks to state {last!r} of {length - 1 - step} steps are too unlikely for "
                "floats; ask for a shorter bridge, or merge states that are hardly ever left"
            )
        # a state that does not lead there: any row will do
        rows = weighted / np.where(leads, ahead, 1.0)[:, None]
        steps[step] = np.where(leads[:, None], rows, chain.transition)
        ahead = ahead / ahead.max() if leads.any() else ahead
    if not leads[source]:
        raise InvalidModel(
            f"state {last!r} cannot follow {first!r} after {length - 1} steps; "
            "choose ends that the chain can join"
        )
    start = np.zeros(chain.size)
    start[source] = 1.0
    rows = steps / steps.sum(axis=2, keepdims=True)
    from undertow.models.markov import MarkovChain

    return MarkovChain(rows, chain.states, start=start)


def simulate(chain: "MarkovChain", length: int, seed: int | None) -> list[State]:
    """Return one series of ``length`` records drawn from a chain; `MarkovChain.simulate`."""
    length = check_count(length, "length", 1, MOST_DRAWN)
    uniforms = np.random.default_rng(check_seed(seed)).random(length).tolist()
    steps = np.cumsum(chain.transition, axis=-1).tolist()
    states, alike = chain.states, chain.homogeneous
    series: list[State] = []
    bounds = np.cumsum(chain.initial).tolist()
    for record, uniform in enumerate(uniforms):
        row = min(bisect_right(bounds, uniform), len(states) - 1)
        series.append(states[row])
        if record < length - 1:
            bounds = steps[row] if alike else steps[record][row]
    return series


def backwards(matrix: Array, before: Array, after: Array) -> Array:
    """Return the matrix of one step read backwards, given the laws at both of its ends.

    >>> backwards(np.array([[.9, .1], [.2, .8]]), np.array([2/3, 1/3]), np.array([2/3, 1/3]))
    array([[0.9, 0.1],
           [0.2, 0.8]])
    """
    joint = before[:, None] * matrix  # (before, after)
    rows = joint.T / np.where(after > 0, after, 1)[:, None]
    rows[after <= 0] = before  # a state that never occurs: any row will do
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))
