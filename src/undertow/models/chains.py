"""Markov chains: each record depends on the one before it."""

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, InvalidModel, NotSupported
from undertow.labels import along, parts, square
from undertow.models.base import Model
from undertow.models.fitting.checks import NAMES, untested, without_alternatives
from undertow.models.fitting.tally import MISSING, encode
from undertow.models.lowered import LoweredLaw
from undertow.models.records import UNSTATED, RecordDescription, fitted_origin
from undertow.models.validation import (
    check_prior,
    fields,
    names,
    numbers,
    probability_rows,
    state_names,
    text,
    warn_fitted,
    whole,
)
from undertow.numerics import (
    RAREST,
    Array,
    Keyed,
    Seed,
    check_count,
    check_listed,
    freeze,
    random_generator,
)
from undertow.queries import BaseQuery, State

if TYPE_CHECKING:
    from undertow.models.classes import ChainBox, MixingClass
    from undertow.models.fitting.fit import FittedChain, FittedSecondOrderChain
    from undertow.models.fitting.hidden import FittedHiddenChain
    from undertow.models.fitting.private import PrivateFit
    from undertow.models.hidden import PeriodicHiddenChain
    from undertow.models.second_order import SecondOrderChain

__all__ = [
    "MOST_DRAWN",
    "MOST_RECORDS",
    "ContextChain",
    "FittedContexts",
    "MarkovChain",
    "Support",
    "backwards",
    "bridge",
    "by_context",
    "cyclic_law",
    "fit_by_context",
    "one_closed_class",
    "periodic",
    "reachable",
    "refuse_rare_steps",
    "simulate",
    "stacked_matrices",
    "stationary_law",
]


Support = npt.NDArray[np.bool_]
"""Which entries of a law or a matrix are possible."""

_CHECKED_RECORDS = 4096
"""First records of a chain with a given start at which rare steps are looked for one by one: the
last ones are looked at too, and in between the law of a state that is left for good falls."""


def reachable(matrix: Array | Support) -> Support:
    """Return whether y can be reached from x in zero or more steps, as a boolean matrix.

    >>> reachable(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([[ True, False],
           [ True,  True]])
    """
    reach = np.asarray((matrix > 0) | np.eye(len(matrix), dtype=bool))
    for _ in range(max(1, int(np.ceil(np.log2(len(matrix)))))):
        reach = reach @ reach
    return reach


def one_closed_class(support: Array | Support) -> bool:
    """Return whether a matrix has one closed class of states (a unique stationary law).

    >>> one_closed_class(np.eye(2)), one_closed_class(np.array([[0.5, 0.5], [0, 1]]))
    (False, True)
    """
    members, reach = _recurrent(support)
    return bool(reach[np.ix_(members, members)].all())


def _recurrent(support: Array | Support) -> tuple[npt.NDArray[np.intp], Support]:
    """Return the states from which only states are reached that lead back, and what is reached."""
    reach = reachable(support)
    return np.flatnonzero(~(reach & ~reach.T).any(axis=1)), reach


def stationary_law(matrix: Array, support: Support | None = None) -> Array:
    """Return the unique law pi with pi P = pi.

    States are eliminated one by one without a subtraction [grassmann1985], so every entry has
    a relative error of a few k^2 roundings however small it is. Cost O(k^3). Raises
    `InvalidModel` where two closed classes make the law ambiguous, and where a state of the closed
    class has a probability below `RAREST`. What is lost on the way is less than 1e-307, and no
    exit is rarer than the rarest step (`refuse_rare_steps`): a law that passes is accurate.
    ``support`` says which entries are possible where the matrix is a product that may have lost
    some.

    >>> stationary_law(np.array([[0.9, 0.1], [0.3, 0.7]]))
    array([0.75, 0.25])
    """
    members, reach = _recurrent(matrix if support is None else support)
    if not reach[np.ix_(members, members)].all():
        raise InvalidModel(
            "the stationary law is not unique: the chain has several closed classes of states; "
            "pass start=[...], the distribution of the first record"
        )
    law = np.zeros(len(matrix))
    with np.errstate(all="ignore"):  # what overflows or is lost is found below
        law[members] = _eliminate(matrix[np.ix_(members, members)])
    rare = members[~(law[members] >= RAREST)]
    if rare.size:
        raise InvalidModel(
            f"state number {rare[0]} can occur, but its probability under the stationary law is "
            f"below {RAREST:g}: {_RARE_STEP_ADVICE}"
        )
    return law


_RARE_STEP_ADVICE = (
    "numbers so small are lost when they are multiplied; write 0 for a step that is impossible, "
    "raise the probability of one that is not, or merge the state with another"
)


def refuse_rare_steps(
    transition: Array, initial: Array, length: int | None, *, stationary: bool
) -> None:
    """Refuse a chain on which a step that can occur has a joint probability below `RAREST`.

    Joint: of the two records at its ends, Pr[X_t = x] P_t(x, y). Where the start is stationary one
    law is looked at; where it is given, and the steps are alike, the laws of the first and the last
    records, or the first 2 k where the length is open; where the steps differ, all.
    """
    most = float(transition.min())
    if most > 0 and most * min(most, float(initial[initial > 0].min())) >= RAREST:
        return  # from the second record on every law is at least the least entry
    if stationary:
        _refuse(initial[None], (initial > 0)[None], transition[None], None)
        return
    for first, laws, possible in _laws(transition, initial, length):
        steps = transition[None] if transition.ndim == 2 else transition[first : first + len(laws)]
        _refuse(laws, possible, steps, first)


def _refuse(laws: Array, possible: Support, steps: Array, first: int | None) -> None:
    """Refuse rare steps from records with these laws, the first of them ``first``."""
    rare = possible[:, :, None] & (steps > 0) & ~(laws[:, :, None] * steps >= RAREST)
    if rare.any():
        record, x, y = np.argwhere(rare)[0].tolist()
        at = "under the stationary law" if first is None else f"at record {first + record}"
        shorter = "" if first is None else ", or give the chain fewer records"
        raise InvalidModel(
            f"the step from state number {x} to {y} can occur, but the joint probability of its "
            f"two records {at} is below {RAREST:g}: {_RARE_STEP_ADVICE}{shorter}"
        )


def _laws(
    transition: Array, initial: Array, length: int | None
) -> Iterator[tuple[int, Array, Support]]:
    """Yield the first of some records, their laws, and which states they can have."""
    size, alike = len(initial), transition.ndim == 2
    steps = 2 * size if length is None else length - 1
    law, possible = initial, initial > 0
    support = transition > 0
    first = 0
    while first < (min(steps, _CHECKED_RECORDS) if alike else steps):
        count = min(_CHECKED_RECORDS, steps - first)
        laws, states = np.empty((count, size)), np.empty((count, size), dtype=bool)
        for place in range(count):
            laws[place], states[place] = law, possible
            step = ... if alike else first + place
            law, possible = law @ transition[step], possible @ support[step]
        yield first, laws, states
        first += count
    for record in range(max(first, steps - size), steps):
        law = initial @ np.linalg.matrix_power(transition, record)
        possible = (initial > 0) @ np.linalg.matrix_power(support, record)
        yield record, law[None], possible[None]


def _eliminate(matrix: Array) -> Array:
    work = np.array(matrix)
    size = len(work)
    for last in range(size - 1, 0, -1):
        leaving = work[last, :last].sum()
        work[:last, last] /= leaving
        # paths through the state left out
        work[:last, :last] += np.outer(work[:last, last], work[last, :last])
    law = np.ones(size)
    for state in range(1, size):
        law[state] = law[:state] @ work[:state, state]
    return np.asarray(law / law.sum())


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

    return MarkovChain(rows, chain.states, start=start)


def simulate(chain: "MarkovChain", length: int, seed: Seed) -> list[State]:
    """Return one series of ``length`` records drawn from a chain; `MarkovChain.simulate`."""
    length = check_count(length, "length", 1, MOST_DRAWN)
    uniforms = random_generator(seed).random(length).tolist()
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
        """Return the law of one record, by powers of the matrix.

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

    def simulate(self, length: int | None = None, *, seed: Seed = None) -> list[State]:
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
        thinned = self.passed_on(chain, without_alternatives(self.checks))
        thinned = thinned.with_records(self.records.thinned(step))
        region = self.plausible_region()
        return thinned if region is None else thinned.with_region(region.every_nth(step))

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
        part = MarkovChain(
            self.transition[np.ix_(members, members)],
            [self.states[member] for member in members],
            self.start if isinstance(self.start, str) else self.start[members],
            self.length,
        )
        return self.derived(part)

    def dependent_records(self) -> int | None:
        """Return the longest stretch of records without an independent step.

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
        unbounded = self.passed_on(MarkovChain(self.transition, self.states, self.start))
        region = self.plausible_region()
        return unbounded if region is None else unbounded.with_region(region.endless())  # type: ignore[arg-type]

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the chain itself."""
        return [self]

    def lowered(self) -> LoweredLaw:
        """Return the chain as a law whose hidden states are the records' states."""
        steps = self.transition[None] if self.homogeneous else self.transition
        return LoweredLaw(np.array(steps), np.arange(self.size), np.array(self.initial))

    def reach(self) -> str:
        """Return how far back a record looks."""
        return "the last one"

    def point(self) -> "MarkovChain":
        """Return the point estimate of a fit as a chain; for a chain written by hand, itself.

        By default a fit stands for its confidence region. What is proved for the point holds if
        the estimate is exact, and its checks say that this is not so.

        >>> chain = MarkovChain.from_counts([[90, 10], [9, 21]], public=True).point()
        >>> chain.checks[0].outcome, chain.checks[0].words  # doctest: +ELLIPSIS
        ('not tested', 'the estimate itself is taken for the truth; 130 transitions...')
        """
        from undertow.models.fitting.checks import estimated

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
        `PrivateFit`, whose region has the ``confidence`` (`undertow.releasing.private_fit`).

        >>> MarkovChain.fit(["a", "a", "b", None, "b", "a", "a"], public=True).counts
        array([[2, 1],
               [1, 0]])
        """
        from undertow.models.fitting.fit import fit

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
        from undertow.models.fitting.fit import FittedChain

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
        from undertow.models.classes import ChainBox

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
        from undertow.models.classes import MixingClass

        return MixingClass(states, pi_min, gap, length, every=every)

    @classmethod
    def second_order(
        cls, tensor: Any, states: Sequence[State] | None = None, length: int | None = None,
        *, every: str | int | None = None,
    ) -> "SecondOrderChain":  # fmt: skip
        """Return the stationary chain of order two with ``tensor[a][b]`` the law after a, then b.

        Shape (k, k, k), entry (a, b, c) = Pr[X_t = c | X_{t-2} = a, X_{t-1} = b].

        >>> MarkovChain.second_order([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]]).pair_law.round(3)
        array([[0.5  , 0.062],
               [0.062, 0.375]])
        """
        from undertow.models.second_order import SecondOrderChain

        return SecondOrderChain(tensor, states, length, every=every)

    @overload
    @classmethod
    def periodic(
        cls, matrices: Any, states: Sequence[State] | None = ..., *, length: int,
        phase: int = ..., steps_per: int = ..., start: Any = ..., context: str = ...,
        every: str | int | None = ...,
    ) -> "ContextChain": ...  # fmt: skip
    @overload
    @classmethod
    def periodic(
        cls, matrices: Any, states: Sequence[State] | None = ..., *, length: None = ...,
        phase: int = ..., steps_per: int = ..., start: Any = ..., context: str = ...,
        every: str | int | None = ...,
    ) -> "PeriodicHiddenChain": ...  # fmt: skip
    @classmethod
    def periodic(
        cls, matrices: Any, states: Sequence[State] | None = None, *, length: int | None = None,
        phase: int = 0, steps_per: int = 1, start: Any = None,
        context: str = "time of the cycle", every: str | int | None = None,
    ) -> "ContextChain | PeriodicHiddenChain":  # fmt: skip
        """Return the chain of ``length`` records that goes through its matrices in a cycle.

        A list, or a dictionary by name: 24 hours, 7 days. Each is used for ``steps_per`` steps;
        the first step is number ``phase`` of the cycle (from 0). The start law, by default, is the
        one that comes back after a cycle. ``context`` names what is public, and not guaranteed.
        ``length=None`` means any length: the chain is then a `PeriodicHiddenChain` of which nothing
        is hidden, and its start the law that comes back.

        >>> day, night = [[.8, .2], [.3, .7]], [[.97, .03], [.5, .5]]
        >>> MarkovChain.periodic([day, night], length=24, steps_per=6).transition.shape
        (23, 2, 2)
        """

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


_MOST_STEPS = 10**6
"""Steps of one chain: each has a matrix in memory."""

_SHOWN_CONTEXTS = 4
"""Contexts that a sentence names."""


@dataclass(frozen=True, slots=True, eq=False)
class ContextChain(MarkovChain):
    """A chain whose step from record t to the next has the matrix of the context of record t.

    ``matrices`` (contexts, k, k) belong to ``labels``; ``steps`` (n - 1,) says which of them leads
    from each record to the next; ``context`` is what the labels are: "hour of day". In every other
    respect a `MarkovChain` of n records with a matrix for each step. Made by
    `MarkovChain.periodic` and `MarkovChain.by_context`.

    >>> chain = MarkovChain.by_context({"day": [[.8, .2], [.4, .6]], "night": [[1, 0], [.5, .5]]},
    ...                                ["day", "night", "night"], start=[.5, .5])
    >>> chain.length, chain.transition[2].tolist()
    (4, [[1.0, 0.0], [0.5, 0.5]])
    """

    kind: ClassVar[str] = "context-chain"

    matrices: Array = field(repr=False)
    labels: tuple[Hashable, ...]
    steps: Any = field(repr=False)
    context: str

    def __init__(
        self,
        matrices: Mapping[Any, Any],
        steps: Sequence[int],
        states: Sequence[State] | None = None,
        start: Any = None,
        context: Any = "context",
        *,
        every: str | int | None = None,
    ) -> None:
        """Check the matrices one by one, and stack those of the steps."""
        matrices, states = _read(matrices, states)
        table, labels = stacked_matrices(matrices)
        order = np.array(steps, dtype=np.int64)
        order.setflags(write=False)
        if not isinstance(context, str) or not context.strip():
            raise InvalidModel("context must say in words what is public, such as 'hour of day'")
        law = stationary_law(table[order[0]]) if start is None else start
        MarkovChain.__init__(self, table[order], states, law)
        set_ = object.__setattr__
        set_(self, "matrices", table)
        set_(self, "labels", labels)
        set_(self, "steps", order)
        set_(self, "context", context)
        self._state_step(every)

    def _key(self) -> tuple[object, ...]:
        return (*MarkovChain._key(self), self.labels, self.steps.tobytes(), self.context)

    def disclaimers(self) -> tuple[str, ...]:
        """Return what is not protected: the context, and series that start out of phase."""
        first = self.labels[int(self.steps[0])]
        public = f"the context ({self.context}) is public"
        return (
            f"{public}: nothing is guaranteed about what the context itself reveals",
            f"every series begins at {self.context} {first!r}, in step with the model",
        )

    def describe(self) -> str:
        """Return the model in one sentence."""
        shown = ", ".join(map(str, self.labels[:_SHOWN_CONTEXTS]))
        more = (
            f" and {len(self.labels) - _SHOWN_CONTEXTS} more"
            if len(self.labels) > _SHOWN_CONTEXTS
            else ""
        )
        return (
            f"Markov chain on {self.size} states with a matrix for each {self.context} ({shown}"
            f"{more}), which is public, {self.length} records"
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description: each matrix once."""
        return {
            "kind": self.kind,
            "context": self.context,
            "labels": list(self.labels),
            "matrices": self.matrices.tolist(),
            "steps": self.steps.tolist(),
            "states": list(self.states),
            "start": self.initial.tolist(),
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "ContextChain":
        """Return the chain described by `law_dict`."""
        needed = ("context", "labels", "matrices", "steps", "start")
        read = fields(description, "a chain by context", needed, ("kind", "states"))
        labels = names(read["labels"], "labels") or []
        matrices, steps = read["matrices"], read["steps"]
        if not labels or not isinstance(matrices, list) or len(matrices) != len(labels):
            raise InvalidModel("a chain by context needs one matrix for each of its labels")
        if len(set(labels)) != len(labels):
            raise InvalidModel("two contexts bear the same label; labels must differ")
        if not isinstance(steps, list) or not 0 < len(steps) <= _MOST_STEPS:
            raise InvalidModel("steps must be a list of places of labels, at least one")
        for step in steps:
            if type(step) is not int or not 0 <= step < len(labels):
                raise InvalidModel(f"steps must be places of labels, 0 to {len(labels) - 1}")
        table = dict(zip(labels, map(numbers, matrices), strict=True))
        context = text(read["context"], "the context")
        return cls(
            table, steps, names(read.get("states"), "states"), numbers(read["start"]), context
        )


def by_context(
    matrices: Mapping[Any, Any],
    context: Iterable[Any],
    states: Sequence[State] | None = None,
    start: Any = None,
    name: str = "context",
    every: str | int | None = None,
) -> ContextChain:
    """Return the chain whose steps have these contexts; see `MarkovChain.by_context`.

    >>> by_context({"a": [[.5, .5], [.5, .5]]}, "aaa").length
    4
    """
    matrices, states = _read(matrices, states)
    _, labels = stacked_matrices(matrices)
    place = {label: number for number, label in enumerate(labels)}
    steps: list[int] = []
    listed = list(context) if isinstance(context, str) else check_listed(context, "context")
    for step, label in enumerate(listed):
        try:
            steps.append(place[label])
        except (KeyError, TypeError):
            raise InvalidModel(
                f"step {step} has the context {label!r}, which has no matrix; those with one are "
                f"{', '.join(map(repr, labels[:12]))}"
            ) from None
        if len(steps) > _MOST_STEPS:
            raise InvalidModel(f"a chain by context has at most {_MOST_STEPS} steps")
    if not steps:
        raise InvalidModel("context must name the context of each step: one fewer than records")
    return ContextChain(matrices, steps, states, start, name, every=every)


def periodic(
    matrices: Any,
    states: Sequence[State] | None = None,
    *,
    length: int | None = None,
    phase: int = 0,
    steps_per: int = 1,
    start: Any = None,
    context: str = "time of the cycle",
    every: str | int | None = None,
) -> "ContextChain | PeriodicHiddenChain":
    """Return the chain that goes through its matrices in a cycle; see `MarkovChain.periodic`.

    >>> chain = periodic([[[.9, .1], [.3, .7]], [[.6, .4], [.4, .6]]], length=5, phase=1)
    >>> chain.steps.tolist()
    [1, 0, 1, 0]
    """
    if not isinstance(matrices, Mapping):
        listed = matrices if isinstance(matrices, Sequence | np.ndarray) else ()
        matrices = dict(enumerate(listed))
    matrices, states = _read(matrices, states)
    table, _ = stacked_matrices(matrices)
    each = check_count(steps_per, "steps_per (steps with each matrix)", 1, _MOST_STEPS)
    cycle = len(table) * each
    first = check_count(phase, "phase", 0)
    if first >= cycle:
        raise InvalidModel(
            f"phase counts steps into the cycle of {cycle}, 0 to {cycle - 1}; found {first}"
        )
    whole = (first + np.arange(cycle)) % cycle  # the cycle from the first record on
    if length is None:
        if start is not None:
            raise InvalidModel(
                "a periodic chain of any length begins in the law that comes back after a cycle; "
                "leave start out, or give it a length"
            )
        return _endless(matrices, whole, each, states, context, every)
    records = check_count(length, "length (records in a series)", 2)
    if records > _MOST_STEPS:
        raise InvalidModel(f"a periodic chain has at most {_MOST_STEPS} records, found {records}")
    steps = whole[np.arange(records - 1) % cycle] // each
    if start is None:
        start = cyclic_law(table, whole // each)
    return ContextChain(matrices, steps.tolist(), states, start, context, every=every)


def _endless(
    matrices: Mapping[Any, Any], whole: npt.NDArray[np.intp], each: int,
    states: Sequence[State] | None, context: str, every: str | int | None,
) -> "PeriodicHiddenChain":  # fmt: skip
    """Return the chain of any length whose cycle has these steps, each label ``each`` of them."""
    from undertow.models.hidden import PeriodicHiddenChain

    table, labels = stacked_matrices(matrices)
    named = state_names(states, table.shape[1])
    if whole[0] % each == 0:  # a label begins: its steps stay together
        turned = {labels[place]: table[place] for place in whole[::each] // each}
    else:
        turned = {
            f"{labels[step // each]}, step {step % each}": table[step // each]
            for step in whole.tolist()
        }
        each = 1
    return PeriodicHiddenChain(turned, named, named, steps_per=each, context=context, every=every)


def cyclic_law(table: Array, order: Any) -> Array:
    """Return the law of a record that is the same one cycle later: pi = pi P_1 P_2 ... P_c."""
    product, support = np.eye(table.shape[1]), np.eye(table.shape[1], dtype=bool)
    for step in order:
        product, support = product @ table[step], support @ (table[step] > 0)
    if not one_closed_class(support):
        raise InvalidModel(
            "no single law of the first record repeats itself after a cycle; pass start=[...]"
        )
    return stationary_law(product / product.sum(axis=1, keepdims=True), support)


C = TypeVar("C", bound=Model)


@dataclass(frozen=True, slots=True)
class FittedContexts:
    """Chains fitted by context: ``matrices`` and ``counts``, each (k, k), by label.

    `over` and `periodic` make the chain of a series.

    >>> fitted = fit_by_context([list("aabab")], [list("ddnnn")], prior=1, public=True)
    >>> fitted.counts["n"].tolist()
    [[0, 1], [1, 0]]
    """

    matrices: Mapping[Any, Array]
    counts: Mapping[Any, Any]
    states: tuple[State, ...]
    context: str
    public: bool = False
    records: RecordDescription = UNSTATED

    def over(self, context: Iterable[Any], start: Any = None) -> ContextChain:
        """Return the chain whose steps have these contexts."""
        return self._marked(by_context(self.matrices, context, self.states, start, self.context))

    def periodic(
        self,
        length: int | None = None,
        *,
        cycle: Iterable[Any] | None = None,
        phase: int = 0,
        steps_per: int = 1,
    ) -> "ContextChain | PeriodicHiddenChain":
        """Return the chain that goes through the contexts, by default all of them in order."""
        labels = sorted(self.matrices, key=_order) if cycle is None else list(cycle)
        for label in labels:
            if label not in self.matrices:
                raise InvalidModel(f"no records were seen at {self.context} {label!r}")
        table = {label: self.matrices[label] for label in labels}
        chain = periodic(
            table, self.states, length=length, phase=phase, steps_per=steps_per,
            context=self.context,
        )  # fmt: skip
        return self._marked(chain)

    def _marked(self, chain: C) -> C:
        """Return the chain with its origin and untested checks."""
        marked = chain.with_checks(untested(self.public, *NAMES))
        marked = marked.with_origin(fitted_origin(self.public))
        return marked.with_records(replace(self.records, context=self.context))


def fit_by_context(
    sequences: Any,
    context: Any,
    states: Sequence[State] | None = None,
    *,
    prior: float = 0.0,
    name: str = "context",
    public: bool = False,
) -> FittedContexts:
    """Return a transition matrix for each context; see `MarkovChain.fit_by_context`.

    Cost O(n + c k^2) for c contexts.

    >>> fit_by_context(list("aabab"), list("ddddd"), public=True).matrices["d"].round(2).tolist()
    [[0.33, 0.67], [1.0, 0.0]]
    """
    read, about = encode(sequences, states), encode(context)
    codes, state_labels, places, labels = read.codes, read.states, about.codes, about.states
    ends, public_ends = np.diff(read.series) != 0, np.diff(about.series) != 0
    if len(codes) != len(places) or not np.array_equal(ends, public_ends):
        raise InvalidInput(
            "records and contexts must be of the same lengths, sequence by sequence; found "
            f"{len(codes)} and {len(places)} entries, or sequences that end elsewhere"
        )
    if len(state_labels) < 2:
        raise InvalidModel(
            f"a chain needs records of at least two states, found {len(state_labels)}"
        )
    weight, size = check_prior(prior), len(state_labels)
    # a step belongs to the context of the record that it leaves
    there = (codes[:-1] != MISSING) & (codes[1:] != MISSING) & (places[:-1] != MISSING)
    there &= read.series[:-1] == read.series[1:]  # no step leads from one series to the next
    flat = (places[:-1] * size + codes[:-1]) * size + codes[1:]
    table = np.bincount(flat[there], minlength=len(labels) * size**2)
    table = table.reshape(len(labels), size, size)  # (contexts, from, to)
    matrices, counts = {}, {}
    for label, count in zip(labels, table, strict=True):
        totals = (count + weight).sum(axis=1, keepdims=True)
        if not (totals > 0).all():
            state = state_labels[int(np.flatnonzero(totals[:, 0] <= 0)[0])]
            raise InvalidModel(
                f"no step leaves state {state!r} at {name} {label!r}: the context has no row for "
                "it; pass a prior (pseudo-counts, such as prior=0.5), or join contexts"
            )
        count.setflags(write=False)
        matrices[label], counts[label] = freeze((count + weight) / totals), count
    warn_fitted(public, stacklevel=3)
    named = state_names(state_labels, size)
    return FittedContexts(matrices, counts, named, name, public, read.described)


def _read(matrices: Any, states: Sequence[State] | None) -> tuple[Any, Sequence[State] | None]:
    """Return the matrices with their labels read, and the states."""
    if not isinstance(matrices, Mapping):
        return matrices, states
    return parts(matrices, states, "the matrix of")


def stacked_matrices(matrices: Any) -> tuple[Array, tuple[Any, ...]]:
    """Return all matrices stacked, and their labels; a refusal names the label."""
    if not isinstance(matrices, Mapping) or not matrices:
        raise InvalidModel(
            "matrices must be a transition matrix for each context: {'day': P, 'night': Q}, or a "
            "list of them where they follow each other"
        )
    stochastic: list[Array] = []
    for label, matrix in matrices.items():
        table = freeze(matrix)
        if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
            raise InvalidModel(
                f"the matrix of {label!r} must be square, of at least two states; found shape "
                f"{table.shape}"
            )
        if stochastic and table.shape != stochastic[0].shape:
            raise InvalidModel(
                f"the matrix of {label!r} has {len(table)} states, that of "
                f"{next(iter(matrices))!r} has {len(stochastic[0])}; all "
                "contexts have the same states"
            )
        stochastic.append(probability_rows(table, f"the matrix of {label!r}"))
    return freeze(np.stack(stochastic)), tuple(matrices)


def _order(label: Any) -> tuple[bool, Any]:
    """Return the key of a label in order: numbers, then texts."""
    return (isinstance(label, str), label)
