"""Chains of order two: the next record depends on the last two.

Such a chain is a Markov chain on pairs of neighbours. It answers what a plan made for a first-order
chain leaks if the truth has a longer memory; its own plans rest on a bound that is not tight.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from undertow.errors import InvalidInput, InvalidModel
from undertow.labels import square
from undertow.models.base import Model
from undertow.models.chains import MarkovChain, refuse_rare_steps, stationary_law
from undertow.models.lowered import LoweredLaw
from undertow.models.validation import fields, names, numbers, probability_rows, whole
from undertow.numerics import Array, Keyed, Seed, check_count, freeze
from undertow.queries import BaseQuery, State

if TYPE_CHECKING:
    from undertow.models.fitting.fit import FittedChain, FittedSecondOrderChain

__all__ = ["SecondOrderChain"]


@dataclass(frozen=True, slots=True, eq=False)
class SecondOrderChain(Keyed, Model):
    """A stationary chain of order two: Pr[X_t = z | X_{t-2} = x, X_{t-1} = y].

    Parameters
    ----------
    transition
        Shape (k, k, k), entry (x, y, z); every row (x, y) sums to 1.
    states
        k names, by default 0 .. k - 1.
    length
        The number of records; None means any length.
    every
        The step between neighbouring records, such as ``"5m"``; None: one row of the data.

    >>> chain = SecondOrderChain([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]])
    >>> chain.pair_law.round(3)
    array([[0.5  , 0.062],
           [0.062, 0.375]])
    """

    kind: ClassVar[str] = "second-order-chain"
    family: ClassVar[str] = "second-order"

    transition: Array
    states: tuple[State, ...]
    length: int | None
    pair_law: Array = field(repr=False)
    """Pr[X_t = x, X_{t+1} = y], shape (k, k)."""

    def __init__(
        self, transition: Any, states: Sequence[State] | None = None, length: int | None = None,
        *, every: str | int | None = None,
    ) -> None:  # fmt: skip
        """Check the rows, find the stationary law of the pairs, and freeze."""
        transition, states = square(transition, states, "transition")
        table = freeze(transition)
        if table.ndim != 3 or len(set(table.shape)) != 1 or not table.size:
            raise InvalidModel(
                "transition must have shape (k, k, k), entry (x, y, z) for z after y after x; "
                f"found shape {table.shape}"
            )
        frame = MarkovChain(np.full(table.shape[:2], 1 / len(table)), states, length=length)
        set_ = object.__setattr__
        set_(self, "transition", probability_rows(table, "transition"))
        set_(self, "states", frame.states)
        set_(self, "length", frame.length)
        matrix = self._on_pairs()
        law = stationary_law(matrix)
        refuse_rare_steps(matrix, law, None, stationary=True)
        set_(self, "pair_law", freeze(law.reshape(table.shape[:2])))
        self._state_step(every)

    def _key(self) -> tuple[object, ...]:
        return self.transition.shape, self.transition.tobytes(), self.states, self.length

    @classmethod
    def of(cls, chain: MarkovChain) -> "SecondOrderChain":
        """Return a first-order chain as a chain of order two.

        >>> SecondOrderChain.of(MarkovChain([[.9, .1], [.3, .7]])).transition[:, 0, 1]
        array([0.1, 0.1])
        """
        if not chain.homogeneous or not isinstance(chain.start, str):
            raise InvalidModel(
                "a chain with one transition matrix and a stationary start is needed"
            )
        lifted = cls(np.stack([chain.transition] * chain.size), chain.states, chain.length)
        return chain.derived(lifted)

    @classmethod
    def fit(
        cls,
        sequences: Any,
        states: Sequence[State] | None = None,
        *,
        prior: float = 0.0,
        length: int | None = None,
        public: bool = False,
    ) -> "FittedSecondOrderChain":
        """Return the chain fitted to runs of three records; arguments as in `MarkovChain.fit`.

        >>> SecondOrderChain.fit(list("aababbbaabba"), prior=1.0, public=True).transition[0, 0]
        array([0.25, 0.75])
        """
        from undertow.models.fitting.fit import fit_second_order

        return fit_second_order(sequences, states, prior=prior, length=length, public=public)

    @classmethod
    def from_fit(cls, fitted: "FittedChain", prior: float | None = None) -> "SecondOrderChain":
        """Return the chain of order two from the runs of three that a fit has counted.

        ``prior`` adds that many pseudo-counts to every run of three; by default that of the fit.
        """
        from undertow.models.fitting.fit import FittedChain, FittedSecondOrderChain

        if not isinstance(fitted, FittedChain):
            raise InvalidInput(f"a fitted chain is required, found {type(fitted).__name__}")
        fitted_chain = FittedSecondOrderChain.of_fit(fitted, prior)
        chain = SecondOrderChain(fitted_chain.transition, fitted_chain.states, fitted_chain.length)
        return fitted_chain.derived(chain)

    @property
    def size(self) -> int:
        """The number of states."""
        return len(self.states)

    def first_order(self) -> MarkovChain:
        """Return the first-order chain with the same law of two neighbours.

        >>> chain = SecondOrderChain([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]])
        >>> chain.first_order().transition.round(3)
        array([[0.889, 0.111],
               [0.143, 0.857]])
        """
        sums = self.pair_law.sum(axis=1, keepdims=True)
        if not (sums > 0).all():
            raise InvalidModel("a state has probability 0; leave it out")
        chain = MarkovChain(self.pair_law / sums, self.states, length=self.length)
        return self.derived(chain)

    def pairs(self) -> MarkovChain:
        """Return the chain of pairs of neighbours, states (x, y) in the order x k + y.

        >>> SecondOrderChain.of(MarkovChain([[.9, .1], [.3, .7]])).pairs().states
        ((0, 0), (0, 1), (1, 0), (1, 1))
        """
        names = [(x, y) for x in self.states for y in self.states]
        return self.derived(MarkovChain(self._on_pairs(), names))

    def reverse(self) -> "SecondOrderChain":
        """Return the law of the records read backwards.

        >>> chain = SecondOrderChain([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]])
        >>> bool(abs(chain.reverse().pair_law - chain.pair_law.T).max() < 1e-12)
        True
        """
        joint = (self.pair_law[..., None] * self.transition).transpose(2, 1, 0)  # (z, y, x)
        sums = joint.sum(axis=2, keepdims=True)
        if not (sums > 0).all():
            raise InvalidModel("a pair of neighbours has probability 0; fit with a prior")
        return self.derived(SecondOrderChain(joint / sums, self.states, self.length))

    def joint(self, records: int) -> Array:
        """Return the law of the first records, shape (k,) * records: for oracles of small sizes.

        >>> SecondOrderChain.of(MarkovChain([[.9, .1], [.3, .7]])).joint(3)[0, 0, 1].round(4)
        np.float64(0.0675)
        """
        table = self.pair_law
        for _ in range(check_count(records, "records", 2) - 2):
            table = table[..., None] * self.transition  # one more axis: the next record
        return np.asarray(table)

    def simulate(self, length: int | None = None, *, seed: Seed = None) -> list[State]:
        """Return one series drawn from the model (for experiments: not a private release).

        >>> chain = SecondOrderChain.of(MarkovChain([[.9, .1], [.3, .7]]))
        >>> len(chain.simulate(10, seed=1))
        10
        """
        length = self.length if length is None else check_count(length, "length", 2)
        if length is None:
            raise InvalidInput("the chain has no length; say how many records: simulate(1000)")
        series = self.pairs().simulate(length - 1, seed=seed)
        pairs: list[Any] = list(series)
        return [pairs[0][0], *(pair[1] for pair in pairs)]

    def describe(self) -> str:
        """Return the model in one sentence."""
        length = "any length" if self.length is None else f"{self.length} records"
        return f"chain of order two on {self.size} states, a stationary start, {length}"

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind,
            "transition": self.transition.tolist(),
            "states": list(self.states),
            "length": self.length,
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "SecondOrderChain":
        """Return the chain described by `law_dict`."""
        read = fields(
            description, "a chain of order two", ("transition",), ("kind", "states", "length")
        )
        return cls(
            numbers(read["transition"]),
            names(read.get("states"), "states"),
            whole(read.get("length"), "length (records in a series)"),
        )

    def endless(self) -> "SecondOrderChain":
        """Return the chain for series of any length."""
        return self.passed_on(SecondOrderChain(self.transition, self.states))

    def examples(self, query: BaseQuery) -> "list[Model]":
        """Return the chain itself."""
        return [self]

    def lowered(self) -> LoweredLaw:
        """Return the chain of hidden states (record, the one before it), by record.

        >>> SecondOrderChain.of(MarkovChain([[.9, .1], [.3, .7]])).lowered().symbols
        array([0, 0, 1, 1])
        """
        size = self.size
        steps = np.zeros((size,) * 4)
        for now in range(size):  # (now, before) to (next, now): axes (now, before, next, now)
            steps[now, :, :, now] = self.transition[:, now]
        symbols = np.repeat(np.arange(size), size)
        return LoweredLaw(steps.reshape(1, size**2, size**2), symbols, self.pair_law.T.reshape(-1))

    def reach(self) -> str:
        """Return how far back a record looks."""
        return "the last two"

    def _on_pairs(self) -> Array:
        size = len(self.transition)
        matrix = np.zeros((size,) * 4)
        middle = np.arange(size)
        matrix[:, middle, middle] = self.transition  # (x, y) to (y, z): axes (x, y, y, z)
        return matrix.reshape(size**2, size**2)
