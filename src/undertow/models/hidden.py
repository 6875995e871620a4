"""Hidden chains: records that show the state of a chain that nobody sees.

Regimes (at rest, on the move), dwell times that are not geometric, and chains of every order are
of this kind. A hidden state shows one symbol, with certainty; several hidden states show the same.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from undertow.errors import InvalidInput, InvalidModel
from undertow.labels import along, square
from undertow.models.base import Model
from undertow.models.chains import MarkovChain, backwards, refuse_rare_steps, stationary_law
from undertow.models.lowered import LoweredLaw
from undertow.models.validation import fields, names, numbers, probability_rows, state_names, whole
from undertow.numerics import Array, Keyed, Seed, check_count, check_listed, freeze
from undertow.queries import BaseQuery, State

if TYPE_CHECKING:
    from undertow.models.fitting.hidden import FittedHiddenChain
    from undertow.models.second_order import SecondOrderChain

__all__ = [
    "HiddenChain",
]


MOST_HIDDEN = 256
"""Hidden states up to which a chain is accepted (cost of passes: their square for each record)."""


@dataclass(frozen=True, slots=True, eq=False)
class HiddenChain(Keyed, Model):
    """Records X_t = symbols[S_t] of a stationary chain S_0, S_1, ... of hidden states.

    Pr[S_{t+1} = s' | S_t = s] = transition[s, s'].

    Parameters
    ----------
    transition
        Shape (m, m), row = from, over the hidden states. Labels of a data frame name them: rows
        and columns, and the index of ``symbols`` where it is a series, must agree.
    symbols
        m names: the state of the record in each hidden state.
    states
        The names of the records' states in order; by default that in which ``symbols`` has them.
    length
        The number of records; None means any length.

    >>> rest, move = [.97, .02, .005, .005], [.3, .4, .25, .05]
    >>> chain = HiddenChain([rest, move, [.05, .25, .4, .3], [.005, .005, .02, .97]],
    ...                     symbols=("idle", "idle", "active", "active"))
    >>> chain.states, chain.initial.round(3)
    (('idle', 'active'), array([0.467, 0.033, 0.033, 0.467]))
    """

    kind: ClassVar[str] = "hidden-chain"

    transition: Array
    symbols: tuple[State, ...]
    states: tuple[State, ...]
    length: int | None
    initial: Array = field(repr=False)
    """The stationary law of the hidden states."""

    def __init__(
        self,
        transition: Any,
        symbols: Sequence[State],
        states: Sequence[State] | None = None,
        length: int | None = None,
        *,
        every: str | int | None = None,
    ) -> None:
        """Check the rows and the symbols, find the stationary law, and freeze."""
        transition, names = square(transition, None, "transition")
        symbols, _ = along(symbols, names, "symbols")
        matrix = freeze(transition)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise InvalidModel(
                "transition must be a square matrix over at least two hidden states; found shape "
                f"{matrix.shape}"
            )
        if len(matrix) > MOST_HIDDEN:
            raise InvalidModel(
                f"at most {MOST_HIDDEN} hidden states are accepted, found {len(matrix)}"
            )
        shown = _symbols(symbols, len(matrix))
        listed = tuple(dict.fromkeys(shown))
        if states is not None:
            listed = state_names(states, len(check_listed(states, "states")))
        if len(listed) < 2 or {*listed} != {*shown}:
            raise InvalidModel(
                "records have at least two states, and each is shown by some hidden state; found "
                f"{len({*shown})} symbols and {len(listed)} states: they must be the same"
            )
        set_ = object.__setattr__
        set_(self, "transition", probability_rows(matrix, "transition"))
        set_(self, "symbols", shown)
        set_(self, "states", listed)
        set_(self, "length", None if length is None else check_count(length, "length", 2))
        set_(self, "initial", freeze(stationary_law(self.transition)))
        refuse_rare_steps(self.transition, self.initial, None, stationary=True)
        for state, share in zip(listed, self.marginal, strict=True):
            if share <= 0:
                raise InvalidModel(f"no record is ever {state!r}; leave its hidden states out")
        self._state_step(every)

    def _key(self) -> tuple[object, ...]:
        return self.transition.tobytes(), self.symbols, self.states, self.length

    @classmethod
    def of(cls, chain: "MarkovChain | SecondOrderChain | HiddenChain") -> "HiddenChain":
        """Return a stationary chain of order one or two, or a hidden one, as a hidden chain.

        >>> HiddenChain.of(MarkovChain([[.9, .1], [.3, .7]])).symbols
        (0, 1)
        """
        from undertow.models.second_order import SecondOrderChain

        if isinstance(chain, HiddenChain):
            return chain
        if isinstance(chain, SecondOrderChain):
            lifted = cls.of_order(chain.transition, chain.states, chain.length)
            return chain.derived(lifted)
        if not isinstance(chain, MarkovChain):
            raise InvalidInput(f"a chain is required, found {type(chain).__name__}")
        law, stationary = chain.lowered(), chain.start
        if len(law.kernels) > 1 or not isinstance(stationary, str):
            raise InvalidModel(
                "a chain with one transition matrix and a stationary start is needed"
            )
        shown = [chain.states[place] for place in law.symbols]
        lifted = cls(law.kernels[0], shown, chain.states, chain.length)
        return chain.derived(lifted)

    @classmethod
    def of_order(
        cls, table: Any, states: Sequence[State] | None = None, length: int | None = None
    ) -> "HiddenChain":
        """Return the chain of order m whose next record has the law ``table[x_1, .., x_m]``.

        The axes are the last m records, the oldest first, and the next one. A hidden state is a
        run of m records.

        >>> HiddenChain.of_order([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]]).symbols
        (0, 1, 0, 1)
        """
        table, states = square(table, states, "table")
        laws = freeze(table)
        order, size = laws.ndim - 1, laws.shape[-1] if laws.ndim else 0
        if order < 1 or size < 2 or len(set(laws.shape)) != 1:
            raise InvalidModel(
                "table must have shape (k,) * (m + 1), the last axis the next record; found shape "
                f"{laws.shape}"
            )
        rows = laws.reshape(size**order, size)
        runs = np.arange(size**order)
        matrix = np.zeros((size**order, size**order))
        for state in range(size):  # x_1 .. x_m is followed by x_2 .. x_m, state
            matrix[runs, runs % size ** (order - 1) * size + state] = rows[:, state]
        listed = state_names(states, size)
        return cls(matrix, [listed[run % size] for run in runs], listed, length)

    def order_table(self) -> Array | None:
        """Return the laws of `of_order` if hidden states are runs of records, None otherwise.

        None too where a law has a 0.

        >>> HiddenChain.of_order([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]]).order_table().shape
        (2, 2, 2)
        """
        size, runs = self.size, np.arange(self.hidden)
        order = round(math.log(self.hidden, size))
        if size**order != self.hidden or (self.shown != runs % size).any():
            return None
        after = runs[:, None] % size ** (order - 1) * size + np.arange(size)  # (runs, next record)
        laws = np.take_along_axis(self.transition, after, axis=1)
        if not (laws > 0).all() or np.count_nonzero(self.transition) != laws.size:
            return None
        return laws.reshape((size,) * (order + 1))

    @classmethod
    def fit(
        cls,
        sequences: Any,
        states: Sequence[State] | None = None,
        *,
        hidden: int = 2,
        starts: int = 8,
        seed: Seed = 0,
        length: int | None = None,
        public: bool = False,
        attractive: bool = False,
    ) -> "FittedHiddenChain":
        """Return the hidden chain fitted by expectation-maximisation from several random starts.

        Sequences as in `MarkovChain.fit`; ``hidden`` states show each symbol. Of all starts the
        one with the largest likelihood is kept [baum1970]: it need not be the largest there is.
        Warns with `DisclosureWarning` unless the records are ``public``. With ``attractive``, for
        records of two states, it is the likeliest of those whose transitions are totally positive:
        the law is then attractive, so that plans can be made with it, mostly at a small price in
        likelihood. Cost O(n m^2) for each step of a start, some hundreds of them.

        >>> series = MarkovChain([[.9, .1], [.3, .7]]).simulate(300, seed=1)
        >>> HiddenChain.fit(series, hidden=1, starts=1, public=True).transition.shape
        (2, 2)
        """
        from undertow.models.fitting.hidden import fit_hidden

        return fit_hidden(
            sequences, states, hidden=hidden, starts=starts, seed=seed, length=length,
            public=public, attractive=attractive,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """The number of states of a record."""
        return len(self.states)

    @property
    def hidden(self) -> int:
        """The number of hidden states."""
        return len(self.symbols)

    @property
    def shown(self) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
        """The number of the state that each hidden state shows."""
        return np.array([self.states.index(symbol) for symbol in self.symbols], dtype=np.intp)

    @property
    def marginal(self) -> Array:
        """The law of one record."""
        shows = self.shown == np.arange(self.size)[:, None]  # (states, hidden)
        return np.asarray(shows @ self.initial)

    def lowered(self) -> LoweredLaw:
        """Return the chain with the hidden states of each state next to each other."""
        order = np.argsort(self.shown, kind="stable")
        steps = self.transition[np.ix_(order, order)]
        return LoweredLaw(steps[None], self.shown[order], self.initial[order])

    def unproved(self) -> str:
        """Return the models and queries to plan with instead."""
        return (
            "no upper end of the leakage is known on this hidden chain: its law must be "
            "attractive, with at most two hidden states for each state; fit it so "
            "(HiddenChain.fit(..., attractive=True)), or plan with a chain of order two "
            "(MarkovChain.fit(..., order=2))"
        )

    def reach(self) -> str:
        """Return how far back a record looks."""
        return "a hidden state, which follows the one before it"

    def reverse(self) -> "HiddenChain":
        """Return the law of the records read backwards.

        >>> chain = HiddenChain.of(MarkovChain([[.9, .1], [.3, .7]]))
        >>> bool(abs(chain.reverse().transition - chain.transition).max() < 1e-12)
        True
        """
        matrix = backwards(self.transition, self.initial, self.initial)
        turned = HiddenChain(matrix, self.symbols, self.states, self.length)
        return self.derived(turned)

    def joint(self, records: int) -> Array:
        """Return the law of the first records, shape (k,) * records: for oracles of small sizes.

        >>> HiddenChain.of(MarkovChain([[.9, .1], [.3, .7]])).joint(3)[0, 0, 1].round(4)
        np.float64(0.0675)
        """
        shows = self.shown == np.arange(self.size)[:, None]  # (states, hidden)
        table = self.initial * shows  # (x_0, s)
        for _ in range(check_count(records, "records", 1) - 1):
            moved = table @ self.transition  # (x_0, .., s)
            table = moved[..., None, :] * shows  # one more axis: the next record
        return np.asarray(table.sum(axis=-1))

    def first_order(self) -> MarkovChain:
        """Return the first-order chain with the same law of two neighbours."""
        pairs = self.joint(2)
        chain = MarkovChain(
            pairs / pairs.sum(axis=1, keepdims=True), self.states, length=self.length
        )
        return self.derived(chain)

    def autocorrelation(self) -> float:
        """Return the largest of `integrated`: about what small DP levels multiply by."""
        return float(self.integrated().max())

    def integrated(self) -> Array:
        """Return 1 + 2 sum_k rho_k by state, the integrated autocorrelation.

        rho_k is the correlation of "record t is in the state" and "record t + k is". From the
        fundamental matrix, cost O(m^3).

        >>> HiddenChain.of(MarkovChain([[.9, .1], [.1, .9]])).integrated().round(6)
        array([9., 9.])
        """
        law = self.initial
        # Z = sum_k (T - 1 pi)^k = I + sum_{k >= 1} (T^k - 1 pi)
        powers = np.linalg.inv(np.eye(self.hidden) - self.transition + law) - np.eye(self.hidden)
        averages = []
        for state, share in enumerate(self.marginal):
            inside = (self.shown == state).astype(np.float64)
            # sum_k Pr[X_t = X_{t+k} = state] - share^2, over the variance
            sums = (law * inside) @ powers @ inside
            averages.append(1 + 2 * sums / (share * (1 - share)))
        return np.array(averages)

    def simulate(self, length: int | None = None, *, seed: Seed = None) -> list[State]:
        """Return one series drawn from the model (for experiments: not a private release).

        >>> len(HiddenChain.of(MarkovChain([[.9, .1], [.3, .7]])).simulate(10, seed=1))
        10
        """
        length = self.length if length is None else check_count(length, "length", 1)
        if length is None:
            raise InvalidInput("the chain has no length; say how many records: simulate(1000)")
        hidden = MarkovChain(self.transition).simulate(length, seed=seed)
        return [self.symbols[int(state)] for state in hidden]  # type: ignore[call-overload]

    def describe(self) -> str:
        """Return the model in one sentence."""
        length = "any length" if self.length is None else f"{self.length} records"
        return (
            f"hidden chain of {self.hidden} hidden states on {self.size} states, a stationary "
            f"start, {length}"
        )

    def disclaimers(self) -> tuple[str, ...]:
        """Return the statement that hidden states are not protected."""
        return ("nothing is guaranteed about the hidden states themselves, only about records",)

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind,
            "transition": self.transition.tolist(),
            "symbols": list(self.symbols),
            "states": list(self.states),
            "length": self.length,
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "HiddenChain":
        """Return the chain described by `law_dict`."""
        needed, more = ("transition", "symbols"), ("kind", "states", "length")
        read = fields(description, "a hidden chain", needed, more)
        return HiddenChain(
            numbers(read["transition"]),
            names(read["symbols"], "symbols"),
            names(read.get("states"), "states"),
            whole(read.get("length"), "length (records in a series)"),
        )

    def endless(self) -> "HiddenChain":
        """Return the chain for series of any length."""
        return self.passed_on(HiddenChain(self.transition, self.symbols, self.states))

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the chain itself."""
        return [self]


def _symbols(symbols: Any, hidden: int) -> tuple[State, ...]:
    """Return one symbol for each hidden state."""
    if isinstance(symbols, str) or not isinstance(symbols, Iterable):
        raise InvalidModel(
            "symbols must be a list with the record's state for each hidden state, found "
            f"{type(symbols).__name__}"
        )
    shown = tuple(one.item() if isinstance(one, np.generic) else one for one in symbols)
    if len(shown) != hidden:
        raise InvalidModel(f"{hidden} hidden states need {hidden} symbols, found {len(shown)}")
    try:
        set(shown)
    except TypeError as error:
        raise InvalidModel("symbols must be strings, numbers or other hashables") from error
    return shown
