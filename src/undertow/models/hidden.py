"""Hidden chains: records that show the state of a chain that nobody sees.

Regimes (at rest, on the move), dwell times that are not geometric, and chains of every order are
of this kind. A hidden state shows one symbol, with certainty; several hidden states show the same.
A public context that goes through a cycle (hour, weekday) gives each of its parts a kernel.
"""

import math
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

import numpy as np

from undertow.errors import InvalidInput, InvalidModel
from undertow.labels import along, parts, square
from undertow.models.base import Model
from undertow.models.chains import (
    MarkovChain,
    backwards,
    cyclic_law,
    refuse_rare_steps,
    stacked_matrices,
    stationary_law,
)
from undertow.models.lowered import LoweredLaw, by_state
from undertow.models.validation import (
    fields,
    names,
    number,
    numbers,
    probability_rows,
    state_names,
    text,
    whole,
)
from undertow.numerics import (
    Array,
    Keyed,
    Seed,
    check_count,
    check_listed,
    check_number,
    freeze,
    random_generator,
)
from undertow.queries import BaseQuery, State

if TYPE_CHECKING:
    from undertow.models.fitting.hidden import FittedHiddenChain, FittedPeriodicChain
    from undertow.models.second_order import SecondOrderChain

__all__ = [
    "FLOOR",
    "HiddenChain",
    "PeriodicHiddenChain",
    "mixed_rows",
    "run_kernel",
]


MOST_HIDDEN = 256
"""Hidden states up to which a chain is accepted (cost of passes: their square for each record)."""

MOST_PHASES = 10**5
"""Records of a public cycle: each has a kernel in memory."""

FLOOR = 1e-4
"""Share of the uniform kernel that is mixed into a fitted one: entries near 0 make bounds useless
(docs, theory-engine E10)."""


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
    floor: float = field(repr=False)
    """The share of the uniform kernel that `mixed` has put into ``transition``; 0 if none."""

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
        shown, listed = _symbols(symbols, states, len(matrix))
        set_ = object.__setattr__
        set_(self, "transition", probability_rows(matrix, "transition"))
        set_(self, "symbols", shown)
        set_(self, "states", listed)
        set_(self, "length", None if length is None else check_count(length, "length", 2))
        set_(self, "initial", freeze(stationary_law(self.transition)))
        set_(self, "floor", 0.0)
        refuse_rare_steps(self.transition, self.initial, None, stationary=True)
        _refuse_absent(listed, self.marginal)
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
    def periodic(
        cls,
        kernels: Any,
        symbols: Sequence[State],
        states: Sequence[State] | None = None,
        *,
        steps_per: int = 1,
        length: int | None = None,
        context: str = "time of the cycle",
        every: str | int | None = None,
    ) -> "PeriodicHiddenChain":
        """Return the hidden chain whose kernels go through the labels of a public cycle.

        A dictionary by label, or a list: 24 hours, 7 days. Each leads on from ``steps_per``
        records, the first label first; the first record has the law that comes back after a cycle.
        ``length=None`` means any length. ``context`` names what is public, and not guaranteed.

        >>> rest, busy = [[.9, .08, .02], [.3, .5, .2], [.1, .3, .6]], [[.5, .3, .2]] * 3
        >>> chain = HiddenChain.periodic({"night": rest, "day": busy}, ("a", "b", "b"), steps_per=6)
        >>> chain.lowered().kernels.shape, chain.length
        ((12, 3, 3), None)
        """
        return PeriodicHiddenChain(
            kernels, symbols, states, steps_per=steps_per, length=length, context=context,
            every=every,
        )  # fmt: skip

    def mixed(self, floor: float = FLOOR) -> "HiddenChain":
        """Return the chain with transitions (1 - floor) T + floor / m: another law, which says so.

        Fits have entries near 0, and the leakage to those who know any records may be proved only
        far above the truth there (docs, theory-engine E10).

        >>> chain = HiddenChain([[.999, .001], [.2, .8]], (0, 1)).mixed(.01)
        >>> chain.transition.round(5).tolist(), chain.floor
        ([[0.99401, 0.00599], [0.203, 0.797]], 0.01)
        """
        share = _mixing(floor)
        rows = mixed_rows(self.transition, share)
        changed = HiddenChain(rows, self.symbols, self.states, self.length)
        object.__setattr__(changed, "floor", 1 - (1 - self.floor) * (1 - share))
        return self.derived(changed)

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
        matrix = run_kernel(laws.reshape(1, size**order, size))[0]
        listed = state_names(states, size)
        return cls(matrix, [listed[run % size] for run in range(size**order)], listed, length)

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

    @overload
    @classmethod
    def fit(
        cls, sequences: Any, states: Sequence[State] | None = ..., *, hidden: int = ...,
        starts: int = ..., seed: Seed = ..., length: int | None = ..., public: bool = ...,
        attractive: bool = ..., context: None = ..., floor: float = ...,
    ) -> "FittedHiddenChain": ...  # fmt: skip
    @overload
    @classmethod
    def fit(
        cls, sequences: Any, states: Sequence[State] | None = ..., *, hidden: int = ...,
        starts: int = ..., seed: Seed = ..., length: int | None = ..., public: bool = ...,
        attractive: bool = ..., context: str, floor: float = ...,
    ) -> "FittedPeriodicChain": ...  # fmt: skip
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
        context: str | None = None,
        floor: float = 0.0,
    ) -> "FittedHiddenChain | FittedPeriodicChain":
        """Return the hidden chain fitted by expectation-maximisation from several random starts.

        Sequences as in `MarkovChain.fit`; ``hidden`` states show each symbol. Of all starts the
        one with the largest likelihood is kept [baum1970]: it need not be the largest there is.
        Warns with `DisclosureWarning` unless the records are ``public``. With ``attractive``, for
        records of two states, it is the likeliest of those whose transitions are totally positive:
        the law is then attractive, so that plans can be made with it, mostly at a small price in
        likelihood. ``context`` names a public cycle that the clock of a `undertow.Data` gives
        ("part of day", "hour", "weekday"): each of its labels gets a kernel, drawn towards that of
        all, and the chain is that of `periodic`. ``floor`` mixes a share of the uniform kernel into
        the fit, as `mixed` does. Cost O(n R^3) for each step of a start with R hidden states for
        each symbol, some hundreds of them.

        >>> series = MarkovChain([[.9, .1], [.3, .7]]).simulate(300, seed=1)
        >>> HiddenChain.fit(series, hidden=1, starts=1, public=True).transition.shape
        (2, 2)
        """
        from undertow.models.fitting.hidden import fit_hidden

        return fit_hidden(
            sequences, states, hidden=hidden, starts=starts, seed=seed, length=length,
            public=public, attractive=attractive, context=context, floor=floor,
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
            "no upper end of the leakage is known on this hidden chain: it is where the law is "
            "attractive, or all transitions are positive, for at most eight hidden states; mix "
            "them with uniform ones, chain.mixed(1e-4), which is another model and says so"
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
        return self.derived(_with_floor(turned, self.floor))

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
        """Return what is not protected: hidden states, and the law before it was mixed."""
        mixed = _floored(self.floor)
        return (
            "nothing is guaranteed about the hidden states themselves, only about records",
            *([mixed] if mixed else []),
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind,
            "transition": self.transition.tolist(),
            "symbols": list(self.symbols),
            "states": list(self.states),
            "length": self.length,
            **({"floor": self.floor} if self.floor else {}),
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "HiddenChain":
        """Return the chain described by `law_dict`."""
        needed, more = ("transition", "symbols"), ("kind", "states", "length", "floor")
        read = fields(description, "a hidden chain", needed, more)
        chain = HiddenChain(
            numbers(read["transition"]),
            names(read["symbols"], "symbols"),
            names(read.get("states"), "states"),
            whole(read.get("length"), "length (records in a series)"),
        )
        return _with_floor(chain, read.get("floor"))

    def endless(self) -> "HiddenChain":
        """Return the chain for series of any length."""
        unbounded = HiddenChain(self.transition, self.symbols, self.states)
        return self.passed_on(_with_floor(unbounded, self.floor))

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the chain itself."""
        return [self]


def run_kernel(rows: Array) -> Array:
    """Return kernels over runs of m records, (G, k^m, k^m), from laws of the next, (G, k^m, k).

    >>> run_kernel(np.array([[[.9, .1], [.4, .6], [.8, .2], [.1, .9]]]))[0, 1].tolist()
    [0.0, 0.0, 0.4, 0.6]
    """
    count, size = rows.shape[1:]
    runs = np.arange(count)
    kernels = np.zeros((len(rows), count, count))
    for state in range(size):  # x_1 .. x_m is followed by x_2 .. x_m, state
        kernels[:, runs, runs % (count // size) * size + state] = rows[..., state]
    return kernels


def mixed_rows(rows: Array, floor: float) -> Array:
    """Return (1 - floor) T + floor / m for rows T over m states.

    >>> mixed_rows(np.array([[1.0, 0.0]]), 0.5).tolist()
    [[0.75, 0.25]]
    """
    return np.asarray((1 - floor) * rows + floor / rows.shape[-1])


def _mixing(floor: Any) -> float:
    """Return a share of the uniform kernel, or refuse it."""
    share = check_number(floor, "floor")
    if not 0 < share < 1:
        raise InvalidInput(f"floor must lie between 0 and 1, such as {FLOOR:g}; found {share:g}")
    return share


def _floored(floor: float) -> str:
    """Return the statement that kernels were mixed, "" if they were not."""
    if not floor:
        return ""
    return (
        f"every kernel is mixed with {floor:g} of the uniform one, which is a change of the law "
        "that was fitted"
    )


def _symbols(
    symbols: Any, states: Sequence[State] | None, hidden: int
) -> tuple[tuple[State, ...], tuple[State, ...]]:
    """Return one symbol for each hidden state, and the states of the records in order."""
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
    listed = tuple(dict.fromkeys(shown))
    if states is not None:
        listed = state_names(states, len(check_listed(states, "states")))
    if len(listed) < 2 or {*listed} != {*shown}:
        raise InvalidModel(
            "records have at least two states, and each is shown by some hidden state; found "
            f"{len({*shown})} symbols and {len(listed)} states: they must be the same"
        )
    return shown, listed


def _refuse_absent(states: tuple[State, ...], shares: Array) -> None:
    """Refuse states that no record has."""
    for state, share in zip(states, shares, strict=True):
        if share <= 0:
            raise InvalidModel(f"no record is ever {state!r}; leave its hidden states out")


@dataclass(frozen=True, slots=True, eq=False)
class PeriodicHiddenChain(Keyed, Model):
    """Records X_t = symbols[S_t] of hidden states whose kernels go through a public cycle.

    Pr[S_{t+1} = s' | S_t = s] = kernels[g(t)][s, s'], where the label g(t) of record t is the first
    one for ``steps_per`` records, then the second, and after the last label the first again. S_0
    has the law that comes back after a cycle. Made by `HiddenChain.periodic`.

    >>> day, night = [[.8, .1, .1], [.2, .6, .2], [.1, .3, .6]], [[.98, .01, .01]] * 3
    >>> chain = HiddenChain.periodic({"night": night, "day": day}, (0, 1, 1), steps_per=12)
    >>> chain.phases, chain.label(11), chain.label(12)
    (24, 'night', 'day')
    >>> chain.marginals()[[0, 12]].round(3).tolist()  # of the first records of both labels
    [[0.437, 0.563], [0.98, 0.02]]
    """

    kind: ClassVar[str] = "periodic-hidden-chain"

    kernels: Array
    """Shape (labels, m, m), row = from."""
    labels: tuple[Hashable, ...]
    steps_per: int
    symbols: tuple[State, ...]
    states: tuple[State, ...]
    length: int | None
    context: str
    initial: Array = field(repr=False)
    """The periodic law of the hidden states at the first record."""
    floor: float = field(repr=False)
    """The share of the uniform kernel that `mixed` has put into ``kernels``; 0 if none."""

    def __init__(
        self,
        kernels: Any,
        symbols: Sequence[State],
        states: Sequence[State] | None = None,
        *,
        steps_per: int = 1,
        length: int | None = None,
        context: str = "time of the cycle",
        every: str | int | None = None,
    ) -> None:
        """Check the kernels one by one, find the periodic law, and freeze."""
        named = None
        if not isinstance(kernels, Mapping):
            kernels = dict(enumerate(kernels if isinstance(kernels, Sequence | np.ndarray) else ()))
        else:
            kernels, named = parts(kernels, None, "the matrix of")
        symbols, _ = along(symbols, named, "symbols")
        table, labels = stacked_matrices(kernels)
        hidden = table.shape[1]
        if hidden > MOST_HIDDEN:
            raise InvalidModel(f"at most {MOST_HIDDEN} hidden states are accepted, found {hidden}")
        shown, listed = _symbols(symbols, states, hidden)
        each = check_count(steps_per, "steps_per (records of each label)", 1, MOST_PHASES)
        if len(labels) * each > MOST_PHASES:
            raise InvalidModel(
                f"a cycle has at most {MOST_PHASES} records, found {len(labels)} labels of {each}"
            )
        said: Any = context
        if not isinstance(said, str) or not said.strip():
            raise InvalidModel("context must say in words what is public, such as 'hour of day'")
        set_ = object.__setattr__
        set_(self, "kernels", table)
        set_(self, "labels", labels)
        set_(self, "steps_per", each)
        set_(self, "symbols", shown)
        set_(self, "states", listed)
        set_(self, "length", None if length is None else check_count(length, "length", 2))
        set_(self, "context", context)
        set_(self, "floor", 0.0)
        order = np.repeat(np.arange(len(labels)), each)
        set_(self, "initial", freeze(cyclic_law(table, order)))
        refuse_rare_steps(table[order], self.initial, self.phases + 1, stationary=False)
        _refuse_absent(listed, self.marginals().max(axis=0))
        self._state_step(every)

    def _key(self) -> tuple[object, ...]:
        return (
            self.kernels.shape, self.kernels.tobytes(), self.labels, self.steps_per, self.symbols,
            self.states, self.length, self.context,
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
    def phases(self) -> int:
        """The number of records of a cycle."""
        return len(self.labels) * self.steps_per

    @property
    def shown(self) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
        """The number of the state that each hidden state shows."""
        return np.array([self.states.index(symbol) for symbol in self.symbols], dtype=np.intp)

    def label(self, record: int) -> Hashable:
        """Return the label of a record, whose kernel leads to the next one."""
        return self.labels[check_count(record, "record", 0) % self.phases // self.steps_per]

    def kernel(self, record: int) -> Array:
        """Return the kernel that leads from the hidden state of a record to the next one."""
        step: Array = self.kernels[record % self.phases // self.steps_per]
        return step

    def hidden_laws(self) -> Array:
        """Return the laws of the hidden states of the records of a cycle, shape (phases, m)."""
        laws = np.empty((self.phases, self.hidden))
        law = self.initial
        for record in range(self.phases):
            laws[record] = law
            law = law @ self.kernel(record)
        return laws

    def marginals(self, records: int | None = None) -> Array:
        """Return the laws of the first records, by default of one cycle, shape (records, k)."""
        cycle = by_state(self.hidden_laws(), self.shown)
        if records is None:
            return cycle
        return np.asarray(cycle[np.arange(check_count(records, "records", 1)) % self.phases])

    def lowered(self) -> LoweredLaw:
        """Return the chain with the hidden states of each state next to each other.

        One kernel for each record of the cycle.
        """
        order = np.argsort(self.shown, kind="stable")
        steps = np.repeat(self.kernels[:, order[:, None], order], self.steps_per, axis=0)
        return LoweredLaw(steps, self.shown[order], self.initial[order])

    def mixed(self, floor: float = FLOOR) -> "PeriodicHiddenChain":
        """Return the chain with kernels (1 - floor) T + floor / m; see `HiddenChain.mixed`."""
        share = _mixing(floor)
        table = dict(zip(self.labels, mixed_rows(self.kernels, share), strict=True))
        changed = self._like(table, self.labels)
        object.__setattr__(changed, "floor", 1 - (1 - self.floor) * (1 - share))
        return self.derived(changed)

    def _like(
        self, kernels: Mapping[Any, Any], labels: Sequence[Hashable], steps_per: int | None = None
    ) -> "PeriodicHiddenChain":
        """Return a chain of the same records with other kernels."""
        changed = PeriodicHiddenChain(
            dict(zip(labels, kernels.values(), strict=True)), self.symbols, self.states,
            steps_per=steps_per or self.steps_per, length=self.length, context=self.context,
        )  # fmt: skip
        object.__setattr__(changed, "floor", self.floor)
        return changed

    def unproved(self) -> str:
        """Return the models and queries to plan with instead."""
        return (
            "no upper end of the leakage is known on this hidden chain with a public context: it "
            "is where all transitions are positive, for at most eight hidden states; mix them with "
            "uniform ones, chain.mixed(1e-4), which is another model and says so"
        )

    def reach(self) -> str:
        """Return how far back a record looks."""
        return "a hidden state, which follows the one before it by the public context"

    def reverse(self) -> "PeriodicHiddenChain":
        """Return the law of the records read backwards, from the last one or the end of a cycle.

        Marginals differ within a label, so every record of the cycle is a label of its own.

        >>> chain = HiddenChain.periodic([[[.9, .1], [.3, .7]], [[.5, .5], [.2, .8]]], (0, 1))
        >>> turned = chain.reverse()  # read from a record of label 0, which label 1 reaches
        >>> turned.labels, bool(np.allclose(turned.initial, chain.initial))
        ((1, 0), True)
        """
        laws = self.hidden_laws()
        last = self.phases if self.length is None else self.length - 1
        turned = {}
        for step in range(self.phases):
            left = (last - 1 - step) % self.phases  # the step from record left to left + 1
            label = self.label(left)
            place = left % self.steps_per
            name = label if self.steps_per == 1 else f"{label}, step {place}"
            after = laws[(left + 1) % self.phases]
            turned[name] = backwards(self.kernel(left), laws[left], after)
        return self.derived(self._like(turned, tuple(turned), 1))

    def joint(self, records: int) -> Array:
        """Return the law of the first records, shape (k,) * records: for oracles of small sizes."""
        shows = self.shown == np.arange(self.size)[:, None]  # (states, hidden)
        table = self.initial * shows  # (x_0, s)
        for record in range(check_count(records, "records", 1) - 1):
            moved = table @ self.kernel(record)  # (x_0, .., s)
            table = moved[..., None, :] * shows  # one more axis: the next record
        return np.asarray(table.sum(axis=-1))

    def autocorrelation(self) -> float:
        """Return the largest of `integrated`."""
        return float(self.integrated().max())

    def integrated(self) -> Array:
        """Return 1 + 2 sum_k rho_k by state, averaged over a cycle.

        rho_k is the covariance of "record t is in the state" and "record t + k is", each less its
        own mean at its phase, over the variance; both averaged over the phases. Cost O(P m^2 + m^3)
        for P phases.
        """
        laws, shows = self.hidden_laws(), self.shown
        averages = []
        for state in range(self.size):
            inside = (shows == state).astype(np.float64)
            shares = laws @ inside
            # h_t(s) = sum_k Pr[X_{t+k} = state | S_t = s] - share_{t+k} = A h_0 + b at t = 0
            product = np.eye(self.hidden)
            ahead: Array = np.zeros(self.hidden)
            for record in reversed(range(self.phases)):
                after = inside - shares[(record + 1) % self.phases]
                ahead = self.kernel(record) @ (after + ahead)
                product = self.kernel(record) @ product
            whole_cycle = np.eye(self.hidden) - product + self.initial
            ahead = np.asarray(np.linalg.solve(whole_cycle, ahead), dtype=np.float64)
            sums = 0.0
            for record in reversed(range(self.phases)):
                after = inside - shares[(record + 1) % self.phases]
                ahead = self.kernel(record) @ (after + ahead)
                sums += float((laws[record] * inside) @ ahead)
            averages.append(1 + 2 * sums / float((shares * (1 - shares)).sum()))
        return np.array(averages)

    def simulate(self, length: int | None = None, *, seed: Seed = None) -> list[State]:
        """Return one series drawn from the model (for experiments: not a private release)."""
        length = self.length if length is None else check_count(length, "length", 1)
        if length is None:
            raise InvalidInput("the chain has no length; say how many records: simulate(1000)")
        rows = np.cumsum(self.kernels, axis=-1).tolist()
        bounds, last = np.cumsum(self.initial).tolist(), self.hidden - 1
        series: list[State] = []
        for record, uniform in enumerate(random_generator(seed).random(length).tolist()):
            row = min(bisect_right(bounds, uniform), last)
            series.append(self.symbols[row])
            bounds = rows[record % self.phases // self.steps_per][row]
        return series

    def describe(self) -> str:
        """Return the model in one sentence."""
        length = "any length" if self.length is None else f"{self.length} records"
        each = "one record" if self.steps_per == 1 else f"{self.steps_per} records"
        return (
            f"hidden chain of {self.hidden} hidden states on {self.size} states with a kernel for "
            f"each of {len(self.labels)} values of a public context ({self.context}), {each} each, "
            f"{length}"
        )

    def disclaimers(self) -> tuple[str, ...]:
        """Return what is not protected: hidden states, the context, series out of phase."""
        begins = (
            f"every series begins at {self.context} {self.labels[0]!r}, in step with the model"
            if self.length is not None
            else f"every series is in step with the {self.context}, and begins in its periodic law"
        )
        mixed, public = _floored(self.floor), f"the context ({self.context}) is public"
        return (
            "nothing is guaranteed about the hidden states themselves, only about records",
            f"{public}: nothing is guaranteed about what the context itself reveals",
            begins,
            *([mixed] if mixed else []),
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description: each kernel once."""
        return {
            "kind": self.kind,
            "context": self.context,
            "labels": list(self.labels),
            "kernels": self.kernels.tolist(),
            "steps_per": self.steps_per,
            "symbols": list(self.symbols),
            "states": list(self.states),
            "length": self.length,
            **({"floor": self.floor} if self.floor else {}),
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "PeriodicHiddenChain":
        """Return the chain described by `law_dict`."""
        needed = ("context", "labels", "kernels", "steps_per", "symbols")
        more = ("kind", "states", "length", "floor")
        read = fields(description, "a hidden chain by context", needed, more)
        labels, kernels = names(read["labels"], "labels") or [], read["kernels"]
        if not labels or not isinstance(kernels, list) or len(kernels) != len(labels):
            raise InvalidModel("a hidden chain by context needs one kernel for each of its labels")
        if len(set(labels)) != len(labels):
            raise InvalidModel("two contexts bear the same label; labels must differ")
        chain = PeriodicHiddenChain(
            dict(zip(labels, map(numbers, kernels), strict=True)),
            names(read["symbols"], "symbols"),
            names(read.get("states"), "states"),
            steps_per=whole(read["steps_per"], "steps_per (records of each label)") or 0,
            length=whole(read.get("length"), "length (records in a series)"),
            context=text(read["context"], "the context"),
        )
        return _with_floor(chain, read.get("floor"))

    def endless(self) -> "PeriodicHiddenChain":
        """Return the chain for series of any length."""
        unbounded = PeriodicHiddenChain(
            dict(zip(self.labels, self.kernels, strict=True)), self.symbols, self.states,
            steps_per=self.steps_per, context=self.context,
        )  # fmt: skip
        return self.passed_on(_with_floor(unbounded, self.floor))

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the chain itself."""
        return [self]


H = TypeVar("H", HiddenChain, PeriodicHiddenChain)


def _with_floor(chain: H, floor: Any) -> H:
    """Return a new chain with the share of the uniform kernel that its file states."""
    if floor:
        share = number(floor, "floor")
        object.__setattr__(chain, "floor", _mixing(share))
    return chain
