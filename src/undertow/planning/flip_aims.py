"""What flips are chosen for: few of them, much information, or little of what a caller minds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from undertow.errors import InvalidInput
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, freeze

__all__ = ["Aim", "Objective", "check_objective", "information", "long_run_law"]

Objective = Literal["flips", "information", "absolute", "squared"] | Sequence[float]

_DOUBLINGS = 50
"""The mean law of a series of any length is taken over 2^50 records."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The laws of a record, one for each model of a set, and the cost of flipping a state.

    ``laws`` has a row for each model, ``weights`` an entry for each state; None asks for
    information instead. Over several laws the worst one counts.

    >>> aim = Aim(np.array([[.75, .25]]), np.ones(2))
    >>> aim.flips(np.array([[.9, .1], [.2, .8]]))
    0.125
    """

    laws: Array
    weights: Array | None

    def cost(self, channel: Array) -> float:
        """Return what a channel costs: weighted flips, or bits short of full knowledge of none."""
        if self.weights is None:
            return -self.bits(channel)
        return self.cost_of_rates(1 - np.diag(channel))

    def cost_of_rates(self, rates: Array) -> float:
        """Return the expected cost of flipping each state at its rate."""
        weights = 1.0 if self.weights is None else self.weights
        return float(np.max(self.laws @ (weights * rates)))

    def flips(self, channel: Array) -> float:
        """Return the expected share of flipped records."""
        return float(np.max(self.laws @ (1 - np.diag(channel))))

    def bits(self, channel: Array) -> float:
        """Return the information of one record and its output, in bits."""
        return min(information(law, channel) for law in self.laws)


def information(law: Array, channel: Array) -> float:
    """Return the mutual information of a record and its output, in bits.

    >>> information(np.array([.5, .5]), np.eye(2))
    1.0
    """
    shown = law @ channel  # (outputs)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = law[:, None] * channel * (np.log2(channel) - np.log2(shown))  # (states, outputs)
    return max(0.0, float(np.nansum(terms)))


def long_run_law(chain: MarkovChain) -> Array:
    """Return the law of a record, on average over the series.

    The stationary law, or with a given start the mean of the laws of all records; where the
    length is open, the limit of that mean.

    >>> long_run_law(MarkovChain([[0, 1], [1, 0]], start=[1, 0]))
    array([0.5, 0.5])
    """
    if isinstance(chain.start, str):
        return chain.initial
    if chain.length is not None:
        return np.asarray(chain.marginals(chain.length).mean(axis=0))
    mean, power = np.eye(chain.size), chain.transition
    for _ in range(_DOUBLINGS):
        # the mean of P^0 .. P^(2m - 1) from that of P^0 .. P^(m - 1)
        mean = (mean + power @ mean) / 2
        power = power @ power
        power = power / power.sum(axis=1, keepdims=True)
    law = chain.initial @ mean
    return np.asarray(law / law.sum())


def check_objective(objective: Any, size: int) -> Array | None:
    """Return the weights of an objective, None for information.

    >>> check_objective("flips", 2)
    array([1., 1.])
    """
    if isinstance(objective, str):
        if objective == "flips":
            return freeze(np.ones(size))
        if objective == "information":
            return None
        raise InvalidInput(
            f"objective must be 'flips', 'information' or a list of {size} costs, found "
            f"{objective!r}"
        )
    weights = freeze(objective)
    if weights.shape != (size,):
        raise InvalidInput(
            f"objective needs one cost for each of the {size} states, found shape {weights.shape}"
        )
    if not all(math.isfinite(w) and w >= 0 for w in weights) or not weights.any():
        raise InvalidInput(
            "objective: costs must be finite, none below 0 and one at least above it"
        )
    return weights
