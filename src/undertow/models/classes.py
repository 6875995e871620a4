"""Classes of chains: all the chains inside a box, or all that mix at a known rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np

from undertow.errors import InvalidModel, NotSupported
from undertow.labels import square
from undertow.models.base import Model
from undertow.models.chains import MarkovChain, one_closed_class
from undertow.models.fitting.checks import without_alternatives
from undertow.models.validation import fields, names, number, numbers, refuse_rare, text, whole
from undertow.numerics import (
    RAREST,
    ROUNDOFF,
    ROW_SUM,
    Array,
    Keyed,
    check_count,
    check_positive,
    freeze,
)
from undertow.queries import BaseQuery, State

__all__ = [
    "ChainBox",
    "MixingClass",
]


_MOST_STEPS = 10_000
"""Steps that a box is taken along at once."""

_MOST_CORNERS = 4096
"""Most extreme points of a box that are listed (cost)."""

_OPTIONAL = ("kind", "states", "length")

_LINK = 1e-20
"""Probability that links states which a chain of a box need not leave, if the box allows it."""

_MOST_STATES = 4096
"""States that a class of chains may have without naming them."""


@dataclass(frozen=True, slots=True, eq=False)
class ChainBox(Keyed, Model):
    """All stationary chains whose transition matrix P has lower <= P <= upper in every entry.

    Any one of them may be the true chain; a leakage is the worst case over all of them.

    Parameters
    ----------
    lower, upper
        (k, k) matrices, row = from, column = to; every row must leave room for a sum of 1.
    states
        k names, by default 0 .. k - 1.
    length
        The number of records; None means any length.
    note
        Where the box comes from, if that is part of what is assumed.
    trace
        A largest sum of the diagonal, None for none. With two states it is one more than the
        correlation of neighbours: chains that keep it forget at least that fast. Used for two
        states; a bound over the whole box holds with it all the more.
    every
        The step between neighbouring records, such as ``"5m"``; None: one row of the data.

    >>> box = ChainBox([[.87, .11], [.29, .68]], [[.89, .13], [.32, .71]])
    >>> box.describe()
    'any chain inside a box of transition matrices on 2 states, a stationary start, any length'
    """

    kind: ClassVar[str] = "box"
    family: ClassVar[str] = "chain"

    lower: Array
    upper: Array
    states: tuple[State, ...]
    length: int | None
    note: str | None
    trace: float | None

    def __init__(
        self,
        lower: Any,
        upper: Any,
        states: Sequence[State] | None = None,
        length: int | None = None,
        note: str | None = None,
        trace: float | None = None,
        *,
        every: str | int | None = None,
    ) -> None:
        """Check that every row holds a distribution, and freeze."""
        lower, states = square(lower, states, "the lower matrix")
        upper, states = square(upper, states, "the upper matrix")
        low, high = freeze(lower), freeze(upper)
        if low.ndim != 2 or low.shape[0] != low.shape[1] or low.shape != high.shape or not low.size:
            raise InvalidModel(
                "a box needs two square matrices of the same size, lower and upper; found shapes "
                f"{low.shape} and {high.shape}"
            )
        frame = _frame(low.shape[0], states, length)
        bad = np.argwhere(~((low >= 0) & (low <= high) & (high <= 1)))
        if bad.size:
            x, y = (int(axis) for axis in bad[0])
            raise InvalidModel(
                f"entry ({x}, {y}) of the box is [{low[x, y]}, {high[x, y]}]; it must have "
                "0 <= lower <= upper <= 1"
            )
        refuse_rare(low, "the lower matrix")
        refuse_rare(high, "the upper matrix")
        for row, (least, most) in enumerate(zip(low.sum(axis=1), high.sum(axis=1), strict=True)):
            if least > 1 + ROW_SUM or most < 1 - ROW_SUM:
                raise InvalidModel(
                    f"row {row} of the box holds no distribution: its entries sum to between "
                    f"{least:.12g} and {most:.12g}; widen it until 1 lies between"
                )
        set_ = object.__setattr__
        set_(self, "lower", low)
        set_(self, "upper", high)
        set_(self, "states", frame.states)
        set_(self, "length", frame.length)
        if note is not None and not isinstance(note, str):
            raise InvalidModel(f"the note of a box must be a text, found {type(note).__name__}")
        set_(self, "note", note)
        set_(self, "trace", None if trace is None else _check_trace(trace, low, high))
        self._state_step(every)

    def _key(self) -> tuple[object, ...]:
        ends = self.lower.tobytes(), self.upper.tobytes()
        return *ends, self.states, self.length, self.note, self.trace

    def several(self) -> bool:
        """Return whether the box holds more than one chain."""
        return not np.array_equal(self.lower, self.upper)

    def disclaimers(self) -> tuple[str, ...]:
        """Return the note of the box, if there is one."""
        return () if self.note is None else (self.note,)

    @property
    def size(self) -> int:
        """The number of states."""
        return len(self.states)

    def corners(self) -> list[MarkovChain]:
        """Return the chains at the extreme points: every row at a vertex of its own polytope.

        Two states have at most four. Corners without a unique stationary law (rows that are never
        left) are skipped, and those beyond the trace. More than 4096 corners are refused.

        >>> box = ChainBox([[.8, .1], [.3, .7]], [[.9, .2], [.3, .7]])
        >>> [corner.transition.tolist()[0] for corner in box.corners()]
        [[0.9, 0.1], [0.8, 0.2]]
        """
        rows = [_vertices(low, high) for low, high in zip(self.lower, self.upper, strict=True)]
        count = math.prod(map(len, rows))
        if count > _MOST_CORNERS:
            raise NotSupported(
                f"the box has {count} corners, more than {_MOST_CORNERS}; pass a ModelSet of the "
                "chains that matter instead"
            )
        chains: list[MarkovChain] = []
        for matrix in product(*rows):
            if self.trace is not None and np.trace(np.array(matrix)) > self.trace + ROW_SUM:
                continue
            if one_closed_class(np.array(matrix)):
                chain = MarkovChain(np.array(matrix), self.states, length=self.length)
                chains.append(self.derived(chain, alone=False))
        return chains

    def endless(self) -> "ChainBox":
        """Return the box for series of any length."""
        box = ChainBox(self.lower, self.upper, self.states, note=self.note, trace=self.trace)
        return self.passed_on(box)

    def every_nth(self, step: int) -> "ChainBox":
        """Return a box that holds the law of every ``step``-th record under each of its chains.

        Each step goes by the row of the box that leads there most, or least, by itself: exact for
        two states that last, wider than need be for others. Rounded outwards.

        >>> ChainBox([[.8, .1], [.3, .6]], [[.9, .2], [.4, .7]]).every_nth(2).upper.round(2)
        array([[0.85, 0.3 ],
               [0.6 , 0.55]])
        """
        step = check_count(step, "step (records to go on by)", 1, _MOST_STEPS)
        least, most = self.lower, self.upper
        slack = 4 * (self.size + 2) * ROUNDOFF
        for _ in range(step - 1):
            least, most = -_farthest(self, -least), _farthest(self, most)
            least = np.maximum(least - slack, 0.0)
            most = np.where(most > 0, np.minimum(most + slack, 1.0), 0.0)
        least = np.where(least < RAREST, 0.0, least)  # where the smallest numbers are no bounds
        most = np.where((most > 0) & (most < RAREST), RAREST, most)
        length = None if self.length is None else (self.length - 1) // step + 1
        box = ChainBox(least, most, self.states, length, self.note)
        box = self.passed_on(box, without_alternatives(self.checks))
        return box.with_records(self.records.thinned(step))

    def lasting(self) -> MarkovChain:
        """Return the chain of the box with the largest probabilities of staying.

        What a row leaves goes to the state itself first, then to the likeliest others.

        >>> ChainBox([[.8, .1], [.3, .6]], [[.9, .2], [.4, .7]]).lasting().transition
        array([[0.9, 0.1],
               [0.3, 0.7]])
        """
        matrix = self.lower.copy()
        for x in range(self.size):
            for y in dict.fromkeys([x, *np.argsort(-self.upper[x]).tolist()]):
                room = max(1 - matrix[x].sum(), 0.0)
                matrix[x, y] += min(room, self.upper[x, y] - matrix[x, y])
        matrix = np.maximum(matrix, np.minimum(self.upper, _LINK))  # so that all states meet
        rows = matrix / matrix.sum(axis=1, keepdims=True)
        return self.derived(MarkovChain(rows, self.states, length=self.length), alone=False)

    def middle(self) -> MarkovChain:
        """Return the chain in the middle of the box: each row as far from its lower ends as others.

        Beyond a trace the corner with the least diagonal takes its place.

        >>> ChainBox([[.8, .1], [.3, .6]], [[.9, .2], [.4, .7]]).middle().transition
        array([[0.85, 0.15],
               [0.35, 0.65]])
        """
        room = self.upper - self.lower
        rest = 1 - self.lower.sum(axis=1, keepdims=True)
        matrix = self.lower + room * rest / np.maximum(room.sum(axis=1, keepdims=True), _LINK)
        if self.trace is not None and np.trace(matrix) > self.trace:
            return min(self.corners(), key=lambda chain: float(np.trace(chain.transition)))
        return self.derived(MarkovChain(matrix, self.states, length=self.length), alone=False)

    def examples(self, query: BaseQuery) -> list[Model]:
        """Return the corners for two states; for more, the chain of `lasting`."""
        return [*self.corners()] if self.size == 2 else [self.lasting()]

    def reach(self) -> str:
        """Return how far back a record looks."""
        return "the last one"

    def describe(self) -> str:
        """Return the model in one sentence."""
        length = "any length" if self.length is None else f"{self.length} records"
        sums = "" if self.trace is None else f" whose diagonals sum to at most {self.trace:.6g}"
        return (
            f"any chain inside a box of transition matrices on {self.size} states{sums}, "
            f"a stationary start, {length}" + (f" ({self.note})" if self.note else "")
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind,
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "states": list(self.states),
            "length": self.length,
            **({} if self.note is None else {"note": self.note}),
            **({} if self.trace is None else {"trace": self.trace}),
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "ChainBox":
        """Return the box described by `law_dict`."""
        read = fields(
            description, "a box of chains", ("lower", "upper"), (*_OPTIONAL, "note", "trace")
        )
        note, trace = read.get("note"), read.get("trace")
        return cls(
            numbers(read["lower"]),
            numbers(read["upper"]),
            names(read.get("states"), "states"),
            whole(read.get("length"), "length"),
            None if note is None else text(note, "the note of a box"),
            None if trace is None else number(trace, "trace"),
        )


def _farthest(box: ChainBox, values: Array) -> Array:
    """Return for each row of a box the largest mean of each column of values, shape (k, k)."""
    rows = np.empty_like(values)
    for y in range(box.size):
        order = np.argsort(-values[:, y])
        for x in range(box.size):
            row, room = box.lower[x].copy(), 1 - box.lower[x].sum()
            for z in order:
                more = min(max(room, 0.0), box.upper[x, z] - row[z])
                row[z], room = row[z] + more, room - more
            rows[x, y] = row @ values[:, y]
    return rows


@dataclass(frozen=True, slots=True)
class MixingClass(Model):
    """All reversible chains, with any start, that mix at a known rate.

    Irreducible and aperiodic, on ``states`` states, every stationary probability at least
    ``pi_min``, spectral gap 1 - |lambda_2| at least ``gap``: all that MQMApprox of [wang2016]
    needs to know. ``states`` is a number, or a list of names.

    >>> MixingClass(5, pi_min=.05, gap=.1, length=5000).states
    (0, 1, 2, 3, 4)
    """

    kind: ClassVar[str] = "mixing"
    family: ClassVar[str] = "chain"

    states: tuple[State, ...]
    pi_min: float
    gap: float
    length: int | None

    def __init__(
        self, states: int | Sequence[State], pi_min: float, gap: float, length: int | None = None,
        *, every: str | int | None = None,
    ) -> None:  # fmt: skip
        """Check that such chains exist."""
        names = None if isinstance(states, int | np.integer) else states
        if names is None:
            size = check_count(states, "states (how many)", 2, _MOST_STATES)  # type: ignore[arg-type]
        elif isinstance(names, list | tuple):
            size = len(names)
        else:
            raise InvalidModel(
                "states must be a number of states or a list of names, found "
                f"{type(states).__name__}"
            )
        frame = _frame(size, names, length)
        least, rate = check_positive(pi_min, "pi_min"), check_positive(gap, "gap")
        if least * size > 1 + ROW_SUM:
            raise InvalidModel(
                f"pi_min is {least}, but the least of {size} probabilities is at most 1/{size}"
            )
        if rate > 1:
            raise InvalidModel(f"gap is 1 - |lambda_2| and lies in (0, 1], found {rate}")
        set_ = object.__setattr__
        set_(self, "states", frame.states)
        set_(self, "pi_min", least)
        set_(self, "gap", rate)
        set_(self, "length", frame.length)
        self._state_step(every)

    @property
    def size(self) -> int:
        """The number of states."""
        return len(self.states)

    def several(self) -> bool:
        """Return True: the class holds every chain of its mixing rate."""
        return True

    def endless(self) -> "MixingClass":
        """Return the class for series of any length."""
        return self.passed_on(MixingClass(self.states, self.pi_min, self.gap))

    def reach(self) -> str:
        """Return how far back a record looks."""
        return "the last one"

    def describe(self) -> str:
        """Return the model in one sentence."""
        length = "any length" if self.length is None else f"{self.length} records"
        return (
            f"any reversible chain on {self.size} states with stationary probabilities of at "
            f"least {self.pi_min:g} and a spectral gap of at least {self.gap:g}, {length}"
        )

    def law_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            "kind": self.kind,
            "states": list(self.states),
            "pi_min": self.pi_min,
            "gap": self.gap,
            "length": self.length,
        }

    @classmethod
    def from_law_dict(cls, description: Any) -> "MixingClass":
        """Return the class described by `law_dict`."""
        read = fields(description, "a mixing class", ("states", "pi_min", "gap"), _OPTIONAL)
        states = read["states"]
        return cls(
            _few(states) if isinstance(states, int) else names(states, "states"),
            number(read["pi_min"], "pi_min"),
            number(read["gap"], "gap"),
            whole(read.get("length"), "length"),
        )


def _check_trace(trace: Any, low: Array, high: Array) -> float:
    """Return the largest sum of the diagonal, if some chain of the box keeps it."""
    most = check_positive(trace, "trace")
    rest = high.sum(axis=1) - np.diag(high)  # (k,): what the other entries of a row may take
    least = float(np.maximum(np.diag(low), 1 - rest).sum())
    if most < least:
        raise InvalidModel(
            f"no chain of the box has a diagonal that sums to at most {most:.6g}: the least is "
            f"{least:.6g}; widen the box, or raise the trace"
        )
    return most


def _frame(size: int, states: Sequence[State] | None, length: int | None) -> MarkovChain:
    """Return some chain with these names and this length, both checked."""
    if size < 2:
        raise InvalidModel("a chain needs at least two states; one state has nothing to protect")
    return MarkovChain(np.full((size, size), 1 / size), states, length=length)


def _vertices(low: Array, high: Array) -> list[Array]:
    """Return the extreme points of the distributions between two bounds.

    At a vertex all entries but one sit at a bound; the last takes what is left.
    """
    size = len(low)
    vertices: dict[tuple[float, ...], Array] = {}
    if np.prod(np.where(low < high, 2.0, 1.0)) * size > 2**20:
        raise NotSupported(
            f"a row with {size} free entries has too many extreme points; pass a ModelSet of the "
            "chains that matter instead"
        )
    for free in range(size):
        others = [index for index in range(size) if index != free]
        for ends in product(*(sorted({float(low[o]), float(high[o])}) for o in others)):
            rest = 1 - math.fsum(ends)
            if low[free] - ROW_SUM <= rest <= high[free] + ROW_SUM:
                vertex = np.empty(size)
                vertex[others] = ends
                vertex[free] = min(max(rest, low[free]), high[free])
                vertices.setdefault(tuple(vertex.round(12)), vertex)
    return list(vertices.values())


def _few(states: int) -> int:
    """Return the number of states in a file, or refuse one too large for memory."""
    if isinstance(states, bool) or states > _MOST_STATES:
        raise InvalidModel(
            f"a mixing class is on at most {_MOST_STATES} states, or on a list of names"
        )
    return states
