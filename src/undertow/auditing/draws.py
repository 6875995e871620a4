"""Data drawn from a model, given the target's value and what the attacker knows.

An audit compares answers on data with X_i = x with answers on data with X_i = x', both given the
known records. The laws are those of the model, conditioned exactly; many series are drawn at once.
Series come as an array with a row for each draw and a column for each record: numbers of states,
or real values for Gaussian records.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from undertow.auditing.hidden import lawful
from undertow.errors import InvalidInput, NotSupported
from undertow.models.base import Model
from undertow.models.gaussian import MultivariateGaussian
from undertow.models.lowered import LoweredLaw
from undertow.models.network import BayesianNetwork, Node
from undertow.numerics import Array

__all__ = ["ChainSource", "Draw", "GaussianSource", "NetworkSource", "SeriesSource"]

Draw = Callable[[int, np.random.Generator], npt.NDArray[Any]]
"""So many series, drawn with this generator."""

MOST_CONFIGURATIONS = 2**20
"""Joint states of a connected component of a network: its law is listed in full."""

_IMPOSSIBLE = (
    "these values of the target and the known records cannot occur together under the model; "
    "choose values that can"
)


class SeriesSource(Protocol):
    """Where series come from."""

    @property
    def length(self) -> int:
        """The number of records of a series."""
        ...

    def given(self, fixed: Mapping[int, Any]) -> Draw:
        """Return how to draw series in which some records have these values."""
        ...


@dataclass(frozen=True, slots=True)
class ChainSource:
    """Records ``first`` .. ``first + length - 1`` of a Markov chain, of any order or hidden.

    Conditioning runs backwards once: h_t(s) is the probability of all fixed values after record t
    given X_t = s, and then X_{t+1} follows X_t = s with probability P(s, s') h_{t+1}(s') / h_t(s)
    (h including the indicator of a value fixed at t + 1). Linear in records and draws. Where
    states are hidden, s is a hidden state, and what is fixed leaves those that show it.

    >>> from undertow import MarkovChain
    >>> chain = MarkovChain([[.9, .1], [.2, .8]])
    >>> draw = ChainSource(chain, 5).given({0: 1, 4: 0})
    >>> series = draw(1000, np.random.default_rng(1))
    >>> series.shape, set(series[:, 0].tolist()), set(series[:, 4].tolist())
    ((1000, 5), {1}, {0})
    """

    chain: Model
    length: int
    first: int = 0

    @property
    def law(self) -> LoweredLaw:
        """The chain of hidden states."""
        return lawful(self.chain)

    def given(self, fixed: Mapping[int, Any]) -> Draw:
        """Return how to draw; values are numbers of states, records counted within the series."""
        start, steps = self.laws(fixed)
        law = self.law
        # of each record (states before it, states - 1): borders between the states, for uniforms
        cuts = [np.cumsum(start)[None, :-1], *np.cumsum(steps, axis=2)[:, :, :-1]]
        # (records, states): which state is certain, whatever came before
        certain = np.concatenate([[start == 1], (steps == 1).all(axis=1)])
        kind = np.uint8 if law.size <= 256 else np.uint16
        shown = None if law.plain else law.symbols.astype(kind)

        template = certain.argmax(axis=1).astype(kind)
        unsure = np.flatnonzero(~certain.any(axis=1)).tolist()

        def draw(draws: int, generator: np.random.Generator) -> npt.NDArray[Any]:
            made = np.empty((self.length, draws), dtype=kind)  # (records, draws)
            made[:] = template[:, None]
            for record in unsure:  # the first one has no record before it, and one row of cuts
                _step(cuts[record], made[record - 1], generator.random(draws), made[record])
            return made.T if shown is None else shown[made].T  # (draws, records)

        return draw

    def laws(self, fixed: Mapping[int, int]) -> tuple[Array, Array]:
        """Return the law of the first hidden state and all transitions, given the fixed values.

        Shapes (hidden,) and (records - 1, hidden, hidden).
        """
        law = self.law
        seen = np.ones((self.length, law.size))  # (records, hidden): 0 where a fixed value differs
        for record, state in fixed.items():
            if not 0 <= record < self.length:
                raise InvalidInput(f"record {record} is outside the {self.length} records drawn")
            seen[record] = law.symbols == state
        ahead = seen[-1].copy()  # h of the last record, its own indicator included
        weights = np.empty((self.length - 1, law.size, law.size))  # (records, from, to)
        for record in reversed(range(self.length - 1)):
            weights[record] = law.kernel(self.first + record) * ahead  # P(s, s') h(s')
            ahead = seen[record] * weights[record].sum(axis=1)  # (from,): h_t(s)
            most = ahead.max()
            if most <= 0:
                raise InvalidInput(_IMPOSSIBLE)
            ahead = ahead / most
        start = law.law(self.first) * ahead
        if start.sum() <= 0:
            raise InvalidInput(_IMPOSSIBLE)
        # states that cannot lead to the fixed values are never entered: any row will do
        weights[weights.sum(axis=2) <= 0] = 1.0
        return start / start.sum(), weights / weights.sum(axis=2, keepdims=True)


def _step(cuts: Array, before: npt.NDArray[Any], uniforms: Array, out: npt.NDArray[Any]) -> None:
    """Fill in the next states: the number of cuts of the row that a uniform number has passed."""
    if cuts.shape[1] == 1:
        border = cuts[:, 0].take(before) if len(cuts) > 1 else cuts[0, 0]
        np.greater_equal(uniforms, border, out=out, casting="unsafe")
        return
    out[:] = 0
    for column in range(cuts.shape[1]):
        border = cuts[:, column].take(before) if len(cuts) > 1 else cuts[0, column]
        out += uniforms >= border


@dataclass(frozen=True, slots=True)
class GaussianSource:
    """Jointly Gaussian records; the law of the rest is Gaussian whatever is fixed.

    >>> pair = MultivariateGaussian(0, [[1, .5], [.5, 1]])
    >>> series = GaussianSource(pair).given({0: 2.0})(4000, np.random.default_rng(1))
    >>> float(series[0, 0]), round(float(series[:, 1].mean()), 1)
    (2.0, 1.0)
    """

    model: MultivariateGaussian

    @property
    def length(self) -> int:
        """The number of records."""
        return self.model.length

    def given(self, fixed: Mapping[int, Any]) -> Draw:
        """Return how to draw; values are real numbers."""
        known = sorted(fixed)
        free = [record for record in range(self.length) if record not in fixed]
        mean, covariance = self.model.mean, self.model.covariance
        values = np.array([float(fixed[record]) for record in known])
        # the mean of the free records is linear in the known ones: gain is (free, known)
        gain = np.linalg.solve(
            covariance[np.ix_(known, known)], covariance[np.ix_(known, free)]
        ).T  # fmt: skip
        centre = mean[free] + gain @ (values - mean[known])
        rest = covariance[np.ix_(free, free)] - gain @ covariance[np.ix_(known, free)]
        # rest is the Schur complement, (free, free)
        root = np.linalg.cholesky((rest + rest.T) / 2) if free else rest

        def draw(draws: int, generator: np.random.Generator) -> npt.NDArray[Any]:
            made = np.empty((draws, self.length))
            made[:, known] = values
            made[:, free] = centre + generator.standard_normal((draws, len(free))) @ root.T
            return made

        return draw


@dataclass(frozen=True, slots=True)
class NetworkSource:
    """The records of a Bayesian network; each connected component is listed in full.

    Columns are the nodes of ``order``, by default in the network's own order.

    >>> flu = BayesianNetwork([("ann", "bob")], {"ann": [.9, .1], "bob": [[.9, .1], [.5, .5]]})
    >>> series = NetworkSource(flu).given({1: 1})(4000, np.random.default_rng(1))
    >>> round(float(series[:, 0].mean()), 1), int(series[0, 1])
    (0.4, 1)
    """

    network: BayesianNetwork
    order: tuple[Node, ...] = ()

    @property
    def length(self) -> int:
        """The number of records."""
        return self.network.length

    def given(self, fixed: Mapping[int, Any]) -> Draw:
        """Return how to draw; values are numbers of states."""
        numbers = {node: place for place, node in enumerate(self.order or self.network.observed)}
        parts = [(part, [numbers[node] for node in part.observed]) for part in self.network.parts()]
        laws = [(records, *_listed(part, records, fixed)) for part, records in parts]

        def draw(draws: int, generator: np.random.Generator) -> npt.NDArray[Any]:
            made = np.empty((draws, self.length), dtype=np.uint8)
            for records, states, bounds in laws:
                chosen = np.searchsorted(bounds, generator.random(draws), side="right")
                made[:, records] = states[np.minimum(chosen, len(states) - 1)]
            return made

        return draw


def _listed(
    part: BayesianNetwork, records: list[int], fixed: Mapping[int, Any]
) -> tuple[npt.NDArray[np.uint8], Array]:
    """Return the states of a part that fit the fixed values, and their cumulative law."""
    size = part.size ** len(records)
    if size > MOST_CONFIGURATIONS:
        raise NotSupported(
            f"{len(records)} records of the network depend on each other: they have "
            f"{part.size}^{len(records)} joint states, and an audit draws from at most "
            f"2^{round(math.log2(MOST_CONFIGURATIONS))}; audit the plan on a smaller network"
        )
    joint = part.joint()  # one axis for each record of the part
    where = tuple(fixed.get(record, slice(None)) for record in records)
    law = np.zeros_like(joint)
    law[where] = joint[where]
    probabilities = law.ravel()
    if probabilities.sum() <= 0:
        raise InvalidInput(_IMPOSSIBLE)
    kept = np.flatnonzero(probabilities)  # (configurations,): those that can occur
    states = np.stack(np.unravel_index(kept, joint.shape), axis=1).astype(np.uint8)
    return states, np.cumsum(probabilities[kept] / probabilities[kept].sum())
