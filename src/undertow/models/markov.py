"""Markov chains: each record depends on the one before it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np

from undertow.base_query import BaseQuery, State
from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.labels import along, square
from undertow.models.base import Model
from undertow.models.checks import without_alternatives
from undertow.models.described import fields, names, numbers, whole
from undertow.models.lowered import LoweredLaw
from undertow.models.rows import probability_rows, state_names, warn_fitted
from undertow.models.stationary import reachable, refuse_rare_steps, stationary_law
from undertow.models.walks import MOST_DRAWN, MOST_RECORDS, backwards, bridge, simulate
from undertow.numerics import RAREST, Array, Keyed, check_count, freeze

if TYPE_CHECKING:
    from undertow.models.chain_classes import ChainBox, MixingClass
    from undertow.models.fitting import FittedChain
    from undertow.models.hidden_fitting import FittedHiddenChain
    from undertow.models.periodic import ContextChain, FittedContexts
    from undertow.models.private_fits import PrivateFit
    from undertow.models.second_order_fits import FittedSecondOrderChain

__all__ = ["MarkovChain"]


@dataclass(frozen=True, slots=True, eq=False)
class MarkovChain(Keyed, Model):
    """Records X_0, X_1, ... with Pr[X_{t+1} = y | X_t = x] = transition[x, y].

    Parameters
    ----------
    transition
        A (k, k) matrix, row = from, column = to; or a stack (n - 1, k, k) for a chain whose
        steps differ, which then has exactly n records. Zeros and periodic chains are allowed. The
        labels of data frames are the names of the states, or must agree with them.
    states
        k names, by default 0 .. k - 1.
    start
        ``"stationary"`` (refused where the stationary law is not unique) or the law of X_0.
    length
        The number of records; None means any length: a leakage is then the worst case over
        all lengths.
    every
        The step between neighbouring records, such as ``"5m"``; None: one row of the data.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]], states=("inactive", "active"))
    >>> chain.initial.round(4)
    array([0.721, 0.279])
    """

    kind: ClassVar[str] = "markov-chain"
    family: ClassVar[str] = "chain"

    transition: Array
    states: tuple[State, ...]
    start: Literal["stationary"] | Array
    length: int | None
    initial: Array = field(repr=False)

    def __init__(
        self,
        transition: Any,
        states: Sequence[State] | None = None,
        start: Any = "stationary",
        length: int | None = None,
        *,
        every: str | int | None = None,
    ) -> None:
        """Validate, rescale rows to sum to one, and freeze."""
        transition, states = square(transition, states, "transition")
        if not isinstance(start, str):
            start, states = along(start, states, "start")
        matrix = _probabilities(transition)
        size = matrix.shape[-1]
        set_ = object.__setattr__
        set_(self, "transition", matrix)
        set_(self, "states", state_names(states, size))
        if length is not None:
            length = check_count(length, "length (records in a series)", 2)
        if matrix.ndim == 3:
            if length not in (None, len(matrix) + 1):
                raise InvalidModel(
                    f"{len(matrix)} transition matrices make a chain of {len(matrix) + 1} records, "
                    f"but length is {length}; leave length out"
                )
            length = len(matrix) + 1
        set_(self, "length", length)
        if isinstance(start, str):
            if start != "stationary":
                raise InvalidModel(f"start must be 'stationary' or a distribution, found {start!r}")
            if matrix.ndim == 3:
                raise InvalidModel(
                    "a chain whose steps differ has no stationary start; pass start=[...], the "
                    "distribution of the first record"
                )
            set_(self, "start", "stationary")
            set_(self, "initial", freeze(stationary_law(matrix)))
        else:
            law = _distribution(start, size)
            set_(self, "start", law)
            set_(self, "initial", law)
        self._state_step(every)
        refuse_rare_steps(matrix, self.initial, length, stationary=isinstance(self.start, str))

    def _key(self) -> tuple[object, ...]:
        start = self.start if isinstance(self.start, str) else self.start.tobytes()
        return (
            self.transition.shape, self.transition.tobytes(), self.states, start, self.length,
        )  # fmt: skip

    @property
    def size(self) -> int:
        """The number of states."""
        return len(self.states)

    @property
    def homogeneous(self) -> bool:
        """Whether every step has the same transition matrix."""
        return self.transition.ndim == 2

    def step(self, record: int) -> Array:
        """Return the matrix that leads from ``record`` to the next one."""
        return self.transition if self.homogeneous else self.transition[record]

    def between(self, first: int, last: int) -> Array:
        """Return Pr[X_last = y | X_first = x] as a matrix.

        >>> MarkovChain([[.9, .1], [.2, .8]]).between(0, 2).round(2)
        array([[0.83, 0.17],
               [0.34, 0.66]])
        """
        first = check_count(first, "first", 0)
        last = check_count(last, "last", first)
        self._check_record(last)
        if self.homogeneous:
            return np.linalg.matrix_power(self.transition, last - first)
        return reduce(np.matmul, self.transition[first:last], np.eye(self.size))

    def powers(self, most: int) -> Array:
        """Return P^0 .. P^most of a homogeneous chain, shape (most + 1, k, k).

        >>> MarkovChain([[.9, .1], [.2, .8]]).powers(2).shape
        (3, 2, 2)
        """
        if not self.homogeneous:
            raise InvalidModel("powers need one transition matrix; use between(first, last)")
        powers = np.empty((check_count(most, "most", 0, MOST_DRAWN) + 1, self.size, self.size))
        powers[0] = np.eye(self.size)
        for step in range(most):
            powers[step + 1] = powers[step] @ self.transition
        return powers

    def marginals(self, records: int) -> Array:
        """Return the laws of X_0 .. X_{records-1}, shape (records, k).

        >>> MarkovChain([[.9, .1], [.2, .8]], start=[1, 0]).marginals(2)
        array([[1. , 0. ],
               [0.9, 0.1]])
        """
        records = check_count(records, "records", 1, MOST_DRAWN)
        self._check_record(records - 1)
        if isinstance(self.start, str):
            return np.tile(self.initial, (records, 1))
        laws = np.empty((records, self.size))
        laws[0] = self.initial
        for record in range(records - 1):
            laws[record + 1] = laws[record] @ self.step(record)
        return laws

    def law(self, record: int) -> Array:
        """Return the law of one record, without walking through those before it.

        >>> MarkovChain([[.9, .1], [.2, .8]], start=[1, 0]).law(1)
        array([0.9, 0.1])
        """
        self._check_record(check_count(record, "record", 0))
        if isinstance(self.start, str):
            return self.initial
        return np.asarray(self.initial @ self.between(0, record))

    def reverse(self) -> "MarkovChain":
        """Return the law of the records read backwards.

        A chain with a stationary start stays homogeneous: pi_y P(y, x) / pi_x. Otherwise each
        step has its own matrix, and the chain needs a length.

        >>> MarkovChain([[.9, .1], [.2, .8]]).reverse().transition
        array([[0.9, 0.1],
               [0.2, 0.8]])
        """
        if isinstance(self.start, str):
            turned = MarkovChain(
                backwards(self.transition, self.initial, self.initial),
                self.states, length=self.length,
            )  # fmt: skip
            return self.derived(turned)
        if self.length is None:
            raise InvalidModel(
                "the last record of a chain of any length has no fixed law; give it a length"
            )
        laws = self.marginals(check_count(self.length, "length", 1, MOST_RECORDS))
        stack = [
            backwards(self.step(record), laws[record], laws[record + 1])
            for record in reversed(range(self.length - 1))
        ]
        turned = MarkovChain(np.array(stack), self.states, start=laws[-1] / laws[-1].sum())
        return self.derived(turned)

    def bridge(self, first: State, last: State, length: int) -> "MarkovChain":
        """Return the law of ``length`` records of which the first and the last are known.

        Each step is reweighted by the probability of still reaching ``last`` in time:
        K_t(x, y) = P(x, y) P^d(y, last) / P^{d+1}(x, last) with d steps left after it.

        >>> MarkovChain([[.9, .1], [.2, .8]]).bridge(0, 1, length=3).marginals(3).round(3)
        array([[1.   , 0.   ],
               [0.529, 0.471],
               [0.   , 1.   ]])
        """
        return self.derived(bridge(self, first, last, length))

    def simulate(self, length: int | None = None, *, seed: int | None = None) -> list[State]:
        """Return one series drawn from the model (for experiments: not a private release).

        >>> len(MarkovChain([[.9, .1], [.2, .8]]).simulate(10, seed=1))
        10
        """
        length = self.length if length is None else check_count(length, "length", 1)
        if length is None:
            raise InvalidInput("the chain has no length; say how many records: simulate(1000)")
        self._check_record(length - 1)
        return simulate(self, length, seed)

    def every_nth(self, step: int) -> "MarkovChain":
        """Return the law of every ``step``-th record: exactly the chain of the matrix power.

        Its records are as many times further apart; the checks of a fit stay, and its region is
        taken along. Entries are sums of
        products of probabilities, so they keep their relative accuracy, but for the rounding of a
        float matrix. Refused where steps differ or the start is given, and where probabilities
        are too small for a float.

        >>> chain = MarkovChain([[.9, .1], [.2, .8]], every="5m").every_nth(6)
        >>> chain.records.every, chain.transition.round(4).tolist()
        ('30m', [[0.7059, 0.2941], [0.5882, 0.4118]])
        """
        step = check_count(step, "step (records to go on by)", 1, MOST_RECORDS)
        if not self.homogeneous or not isinstance(self.start, str):
            raise NotSupported(
                "every nth record is the chain of a matrix power where all steps have one matrix "
                "and the start is stationary; fit a chain to records at the longer step"
            )
        length = None if self.length is None else (self.length - 1) // step + 1
        if length is not None and length < 2:
            raise InvalidInput(f"of {self.length} records one in {step} is one record alone")
        power = np.linalg.matrix_power(self.transition, step)
        links = np.eye(self.size, dtype=bool)  # where a path of that many steps leads
        base, left = self.transition > 0, step
        while left:
            links = links @ base if left % 2 else links
            base, left = base @ base, left // 2
        if (links & (power < RAREST)).any():
            raise NotSupported(
                f"some state is reached in {step} steps with a probability below {RAREST:g}, too "
                "small for a model; take a smaller step"
            )
        chain = MarkovChain(np.where(links, power, 0.0), self.states, length=length)
        found = self.passed_on(chain, without_alternatives(self.checks))
        found = found.with_records(self.records.thinned(step))
        region = self.plausible_region()
        return found if region is None else found.with_region(region.every_nth(step))

    def visited(self) -> "MarkovChain | None":
        """Return the chain on the states it can ever visit, or None if there is only one.

        >>> MarkovChain([[1, 0, 0], [.5, .5, 0], [.2, .2, .6]], start=[0, 1, 0]).visited().states
        (0, 1)
        """
        if not self.homogeneous:
            return self
        reached = (self.initial > 0) @ reachable(self.transition)  # by state
        members = np.flatnonzero(reached)
        if len(members) == self.size:
            return self
        if len(members) < 2:
            return None
        kept = MarkovChain(
            self.transition[np.ix_(members, members)],
            [self.states[member] for member in members],
            self.start if isinstance(self.start, str) else self.start[members],
            self.length,
        )
        return self.derived(kept)

    def dependent_records(self) -> int | None:
        """Return the longest stretch without a step that forgets everything.

        >>> MarkovChain([[.3, .7], [.3, .7]], length=30).dependent_records()
        1
        """
        reduced = self.visited()
        if reduced is None:
            return 1
        if reduced.homogeneous:
            return 1 if (reduced.transition == reduced.transition[0]).all() else reduced.length
        longest = run = 1
        for step in reduced.transition:
            run = 1 if (step == step[0]).all() else run + 1
            longest = max(longest, run)
        return longest

    def endless(self) -> "MarkovChain | None":
        """Return the chain for series of any length; none where steps differ."""
        if not self.homogeneous:
            return None
        found = self.passed_on(MarkovChain(self.transition, self.states, self.start))
        region = self.plausible_region()
        return found if region is None else found.with_region(region.endless())  # type: ignore[arg-type]

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the chain itself."""
        return [self]

    def lowered(self) -> LoweredLaw:
        """Return the chain with nothing hidden."""
        steps = self.transition[None] if self.homogeneous else self.transition
        return LoweredLaw(np.array(steps), np.arange(self.size), np.array(self.initial))

    def reach(self) -> str:
        """Return how far back a record looks."""
        return "the last one"

    def point(self) -> "MarkovChain":
        """Return the estimate of a fit as if it were the truth; a chain by hand is its own.

        By default a fit stands for its confidence region. What is proved for the point holds if
        the estimate is exact, and its checks say that this is not so.

        >>> chain = MarkovChain.from_counts([[90, 10], [9, 21]], public=True).point()
        >>> chain.checks[0].outcome, chain.checks[0].words  # doctest: +ELLIPSIS
        ('not tested', 'the estimate itself is taken for the truth; 130 transitions...')
        """
        from undertow.models.standing import estimated

        if self.plausible_region() is None:
            return self
        alone = MarkovChain(self.transition, self.states, length=self.length)
        return self.passed_on(alone, estimated(self.checks))

    def describe(self) -> str:
        """Return the model in one sentence."""
        steps = "" if self.homogeneous else " with a matrix for each step"
        start = "a stationary start" if isinstance(self.start, str) else "a given start"
        length = "any length" if self.length is None else f"{self.length} records"
        return f"Markov chain on {self.size} states{steps}, {start}, {length}"

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind,
            "transition": self.transition.tolist(),
            "states": list(self.states),
            "start": self.start if isinstance(self.start, str) else self.start.tolist(),
            "length": self.length,
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "MarkovChain":
        """Return the chain described by `law_dict`."""
        if not isinstance(description, dict) or "transition" not in description:
            raise InvalidModel("a chain needs a 'transition' matrix; none was found")
        read = fields(
            description, "a chain", ("transition",), ("kind", "states", "start", "length")
        )
        start = read.get("start", "stationary")
        return cls(
            numbers(read["transition"]),
            names(read.get("states"), "states"),
            start if isinstance(start, str) else numbers(start),
            whole(read.get("length"), "length (records in a series)"),
        )

    @overload
    @classmethod
    def fit(
        cls, sequences: Any, states: Sequence[State] | None = ..., *, order: Literal[1] = ...,
        prior: float = ..., length: int | None = ..., public: bool = ...,
        missing: State | None = ...,
    ) -> "FittedChain": ...  # fmt: skip
    @overload
    @classmethod
    def fit(
        cls, sequences: Any, states: Sequence[State] | None = ..., *, order: Literal[2],
        prior: float = ..., length: int | None = ..., public: bool = ...,
        missing: State | None = ...,
    ) -> "FittedSecondOrderChain": ...  # fmt: skip
    @overload
    @classmethod
    def fit(
        cls, sequences: Any, states: Sequence[State] | None = ..., *, order: Literal["hidden"],
        length: int | None = ..., public: bool = ...,
    ) -> "FittedHiddenChain": ...  # fmt: skip
    @overload
    @classmethod
    def fit(
        cls, sequences: Any, states: Sequence[State] | None = ..., *, private: float, ledger: Any,
        confidence: float = ..., prior: float = ..., length: int | None = ...,
        release_id: str | None = ...,
    ) -> "PrivateFit": ...  # fmt: skip
    @classmethod
    def fit(
        cls, sequences: Any, states: Sequence[State] | None = None, *, order: int | str = 1,
        prior: float = 0.0, length: int | None = None, public: bool = False,
        private: float | None = None, ledger: Any = None, confidence: float = 0.95,
        release_id: str | None = None, missing: State | None = None,
    ) -> "FittedChain | FittedSecondOrderChain | FittedHiddenChain | PrivateFit":  # fmt: skip
        """Return the chain fitted to one sequence of records, or to many.

        Sequences are lists, arrays or Series; a list whose items are lists (tuples, arrays) is
        many sequences, and so is a `undertow.Data`. None and NaN are missing: they split a
        sequence and are never bridged. With ``missing``, the name of a state, such records are in
        that state instead, one of the model: its plans cover values that are missing for a reason.
        ``states`` fixes names and order (default: all that occur, sorted); ``prior`` adds that
        many pseudo-counts to every transition; ``length`` is that of the model. Warns with
        `DisclosureWarning` unless the records are ``public``. With ``order=2`` the next record
        depends on the last two, and a fitted `undertow.SecondOrderChain` is returned; with
        ``order="hidden"``, for two states, the likeliest `undertow.HiddenChain` of two hidden
        states for each that plans can be made with.

        With ``private``, a DP level, the counts get noise, and a ``ledger`` pays for it: returns a
        `undertow.PrivateFit`, whose region has the ``confidence`` (`undertow.learning`).

        >>> MarkovChain.fit(["a", "a", "b", None, "b", "a", "a"], public=True).counts
        array([[2, 1],
               [1, 0]])
        """
        from undertow.models.fits import fit

        return fit(
            sequences, states, order=order, prior=prior, length=length, public=public,
            private=private, ledger=ledger, confidence=confidence, release_id=release_id,
            missing=missing,
        )  # fmt: skip

    @classmethod
    def from_counts(
        cls,
        counts: Any,
        states: Sequence[State] | None = None,
        *,
        prior: float = 0.0,
        length: int | None = None,
        public: bool = False,
    ) -> "FittedChain":
        """Return the chain fitted to a (k, k) table of transition counts, row = from.

        ``prior`` and ``public`` as in `fit`.

        >>> MarkovChain.from_counts([[8, 2], [1, 4]], prior=0.5, public=True).transition.round(3)
        array([[0.773, 0.227],
               [0.25 , 0.75 ]])
        """
        from undertow.models.fitting import FittedChain

        chain = FittedChain(counts, states, prior=prior, length=length, public=public)
        warn_fitted(public, stacklevel=2)
        return chain

    @classmethod
    def box(
        cls,
        lower: Any,
        upper: Any,
        states: Sequence[State] | None = None,
        length: int | None = None,
        *,
        every: str | int | None = None,
    ) -> "ChainBox":
        """Return the class of all stationary chains between two matrices, entry by entry.

        >>> MarkovChain.box([[.8, .1], [.3, .6]], [[.9, .2], [.4, .7]]).size
        2
        """
        from undertow.models.chain_classes import ChainBox

        return ChainBox(lower, upper, states, length, every=every)

    @classmethod
    def mixing(
        cls, states: int | Sequence[State], pi_min: float, gap: float, length: int | None = None,
        *, every: str | int | None = None,
    ) -> "MixingClass":  # fmt: skip
        """Return the class of all reversible chains that mix at a known rate.

        Every stationary probability is at least ``pi_min``, the spectral gap at least ``gap``.

        >>> MarkovChain.mixing(states=5, pi_min=.05, gap=.1, length=5000).size
        5
        """
        from undertow.models.chain_classes import MixingClass

        return MixingClass(states, pi_min, gap, length, every=every)

    @classmethod
    def periodic(
        cls, matrices: Any, states: Sequence[State] | None = None, *, length: int | None = None,
        phase: int = 0, steps_per: int = 1, start: Any = None,
        context: str = "time of the cycle", every: str | int | None = None,
    ) -> "ContextChain":  # fmt: skip
        """Return the chain of ``length`` records that goes through its matrices in a cycle.

        A list, or a dictionary by name: 24 hours, 7 days. Each is used for ``steps_per`` steps;
        the first step is number ``phase`` of the cycle (from 0). The start law, by default, is the
        one that comes back after a cycle. ``context`` names what is public, and not guaranteed.

        >>> day, night = [[.8, .2], [.3, .7]], [[.97, .03], [.5, .5]]
        >>> MarkovChain.periodic([day, night], length=24, steps_per=6).transition.shape
        (23, 2, 2)
        """
        from undertow.models.periodic import periodic

        return periodic(matrices, states, length=length, phase=phase, steps_per=steps_per,
                        start=start, context=context, every=every)  # fmt: skip

    @classmethod
    def by_context(
        cls, matrices: Any, context: Any, states: Sequence[State] | None = None,
        start: Any = None, name: str = "context", every: str | int | None = None,
    ) -> "ContextChain":  # fmt: skip
        """Return the chain whose step from record t has the matrix of the public ``context[t]``.

        By default the first record has the stationary law of the first step's matrix.

        >>> MarkovChain.by_context({"day": [[.8, .2], [.3, .7]]}, ["day"] * 9).length
        10
        """
        from undertow.models.periodic import by_context

        return by_context(matrices, context, states, start, name, every=every)

    @classmethod
    def fit_by_context(
        cls, sequences: Any, context: Any, states: Sequence[State] | None = None, *,
        prior: float = 0.0, name: str = "context", public: bool = False,
    ) -> "FittedContexts":  # fmt: skip
        """Return a matrix for each context, fitted to sequences and their parallel contexts.

        Arguments as in `fit`; a step belongs to the context of the record that it leaves.

        >>> MarkovChain.fit_by_context([*"aab"], [*"ddd"], prior=1, public=True).counts["d"][0, 1]
        np.int64(1)
        """
        from undertow.models.periodic import fit_by_context

        return fit_by_context(sequences, context, states, prior=prior, name=name, public=public)

    def _check_record(self, record: int) -> None:
        if self.length is not None and record >= self.length:
            raise InvalidInput(
                f"record {record} is outside the chain's {self.length} records (counted from 0)"
            )


def _probabilities(transition: Any) -> Array:
    matrix = freeze(transition)
    if matrix.ndim not in (2, 3) or matrix.shape[-1] != matrix.shape[-2] or matrix.size == 0:
        raise InvalidModel(
            "transition must be a square matrix, or a stack of them of shape (n - 1, k, k); "
            f"found shape {matrix.shape}"
        )
    if matrix.shape[-1] < 2:
        raise InvalidModel("a chain needs at least two states; one state has nothing to protect")
    return probability_rows(matrix, "transition", stacked=matrix.ndim == 3)


def _distribution(start: Any, size: int) -> Array:
    law = freeze(start)
    if law.shape != (size,):
        raise InvalidModel(f"start must have {size} entries, found shape {law.shape}")
    return probability_rows(law, "start")
