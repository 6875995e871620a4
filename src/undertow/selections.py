"""The most frequent states, chosen privately: what is asked, and by which law the choice falls.

Nothing here draws a random number; `undertow.sampling.selection` does, in whole numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np

from undertow.base_query import BaseQuery, State, Task
from undertow.counts import Histogram
from undertow.curves import Curve, PointCurve
from undertow.errors import InvalidInput, NotSupported
from undertow.numerics import check_amount, check_count, up
from undertow.rounding import above

__all__ = ["Selection", "TopK"]


@dataclass(frozen=True, slots=True, repr=False)
class TopK(BaseQuery):
    """The ``k`` states with the most records, the most frequent first; no counts are released.

    Missing and foreign values are where the plan says, or in no state. Ties, and all else that is
    close, fall as the noise decides. ``among`` is the number of states to choose from, which
    planning fills in from the model: k must be below it (the order of all m states is what
    TopK(m - 1) leaves).

    One replaced record takes 1 from one count and adds 1 to another. Level times scale is then
    k + 1 for a `Selection`, which is what ``sensitivity`` returns: see there for the proof.

    >>> TopK(2).sensitivity(), TopK(2).on(("idle", "walk", "run"))
    (3.0, TopK(2))
    >>> TopK(2).told([2, 0], ("idle", "walk", "run"))
    ['run', 'idle']
    """

    kind: ClassVar[str] = "top-k"
    integral: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    selects: ClassVar[bool] = True

    k: int
    among: int | None = None

    def __post_init__(self) -> None:
        """Check how many are asked for, and from how many."""
        object.__setattr__(self, "k", check_count(self.k, "k, how many states to select,", 1))
        if self.among is not None:
            _check_room(self.k, check_count(self.among, "the number of states to choose from", 2))

    def __repr__(self) -> str:
        """Return it as it is written."""
        return f"TopK({self.k})"

    @property
    def counted(self) -> Histogram:
        """The counts that the choice is made by."""
        return Histogram()

    def on(self, states: Sequence[State], rest: State | None = None) -> "TopK":
        """Return the question as it is planned for some states, or refuse too few of them."""
        if not states:
            raise NotSupported(
                "this model names no states, and the most frequent ones need a model that does, "
                "such as a MarkovChain or Groups(m, states=...)"
            )
        _check_room(self.k, len(states))
        return replace(self, among=len(states))

    def numbers(self, states: Sequence[State]) -> int:
        """Return k, or refuse a model that names no states."""
        return self.on(states).k

    def told(self, numbers: Sequence[int], states: Sequence[State]) -> list[State]:
        """Return the selected states, the first choice first; ``numbers`` are their places."""
        return [states[place] for place in numbers]

    def listed(self, told: Any, states: Sequence[State]) -> list[tuple[State | None, Any]]:
        """Return the selected states, each with its rank."""
        return [(f"rank {rank}", state) for rank, state in enumerate(told, 1)]

    def words(self) -> str:
        """Return the question for people.

        >>> TopK(2).words(), TopK(1).words()
        ('the 2 most frequent states', 'the most frequent state')
        """
        return "the most frequent state" if self.k == 1 else f"the {self.k} most frequent states"

    def to_dict(self) -> dict[str, Any]:
        """Return the question as plan files hold it."""
        return {"kind": self.kind, "k": self.k, "among": self.among}

    def sensitivity(self, length: int | None = None) -> float:
        """Return k + 1, the DP level of a `Selection` times its scale."""
        return self.k + 1.0

    def evaluate(self, records: Sequence[Any], states: tuple[State, ...]) -> list[int]:
        """Return the counts that the choice is made by, in the model's order."""
        return self.counted.evaluate(records, states)


def _check_room(k: int, states: int) -> None:
    if k >= states:
        raise InvalidInput(
            f"the {k} most frequent of {states} states cannot be selected: k must be below the "
            f"number of states; TopK({max(states - 1, 1)}) puts all of them in order"
        )


@dataclass(frozen=True, slots=True)
class Selection:
    """The most frequent states by permute-and-flip, k rounds of it, each without those before.

    In a round the states left are gone through in a random order, and one whose count is d below
    the largest is taken with probability exp(-d / scale), else passed over. That is the state with
    the largest count after each got exponential noise of mean ``scale`` [mckenna2020].

    **The level is (k + 1) / scale** for one replaced record, which takes 1 from the count of a
    state u and adds 1 to that of v. In a round, r is chosen if its noise E is at least M - c_r,
    where M is the largest noisy count of the others, and Pr[E >= x - 1] <= e^(1 / scale)
    Pr[E >= x]. So raising c_r by 1, or lowering M by at most 1, multiplies the probability of r by
    at most e^(1 / scale). Hence: where v is chosen, both happen, at most e^(2 / scale); where
    another than u and v is chosen, only the loss of u helps, at most e^(1 / scale), and where u is
    chosen nothing helps before v is gone or after. A list in which v comes once and u never gains
    (k - 1) + 2 = k + 1 at most; a list with u in it loses in that round, and in later rounds only
    v, once, can gain, so no other list gains more. The opposite direction is the same with u and v
    exchanged. Nothing smaller is true for k < m: with u far ahead of all others every one of these
    steps is attained in the limit. (Rounds of any 2 / scale-DP choice would be 2 k / scale.)

    **Errors.** The count of a state chosen among m falls short of the largest by a or more with
    probability at most T(a) = 1 - (1 - (1 - p)^m) / (m p), p = exp(-a / scale), and by so much if
    all others are a behind. ``expected_error`` is max over a of a T(a), the largest expected
    shortfall where all others are equally far behind; `tests/test_selection.py` finds no worse
    counts. The state of rank j is compared with the largest count that is left, which is at least
    the j-th largest of all.

    >>> chosen = Selection(TopK(2, among=4), scale=6.0)
    >>> chosen.dp_epsilon(), round(chosen.expected_error(), 3), chosen.quantile(.05)
    (0.5, 2.644, 20.0)
    """

    kind: ClassVar[str] = "permute-and-flip"
    words: ClassVar[str] = "permute-and-flip"
    measure: ClassVar[Literal["scale", "sigma", "table"]] = "scale"
    shape: ClassVar[Literal["laplace", "gaussian", "discrete-gaussian"]] = "laplace"
    """It is asked for like Laplace noise: without any delta."""

    task: ClassVar[Task] = "answer"
    whole: ClassVar[bool] = True

    query: TopK
    scale: float

    def __post_init__(self) -> None:
        """Check the query and the scale."""
        found: object = self.query
        if not isinstance(found, TopK):
            raise InvalidInput(
                f"a selection answers TopK(k), found {type(found).__name__}; numbers get noise, "
                "Laplace or DiscreteLaplace"
            )
        object.__setattr__(self, "scale", check_amount(self.scale, "noise scale"))

    @property
    def length(self) -> None:
        """None: a selection is for series of any length."""
        return

    @property
    def amount(self) -> float:
        """The scale."""
        return self.scale

    def with_amount(self, amount: float) -> Self:
        """Return the same selection at another scale."""
        return replace(self, scale=amount)

    def said(self) -> str:
        """Return the randomisation for people, its scale rounded up.

        >>> Selection(TopK(2, among=4), scale=6.0).said()
        'permute-and-flip, 2 rounds, scale 6'
        """
        rounds = "" if self.query.k == 1 else f" {self.query.k} rounds,"
        return f"{self.words},{rounds} scale {above(self.scale)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the entries of a plan file that describe it."""
        return {"query": self.query.to_dict(), "noise": self.kind, self.measure: self.scale}

    def dp_epsilon(self, length: int | None = None) -> float:
        """Return (k + 1) / scale, the level against an attacker who knows all other records."""
        return self.query.sensitivity(length) / self.scale

    def level_upper(self, length: int | None = None) -> float:
        """Return the DP level, rounded up."""
        return up(self.dp_epsilon(length))

    def curve(self, length: int | None = None) -> Curve:
        """Return the curve that is 0 from the DP level on."""
        return PointCurve(((self.level_upper(length), 0.0),))

    def expected_error(self) -> float:
        """Return the largest expected shortfall of the count of a selected state."""
        return _worst_shortfall(self._states(), self.scale)

    def quantile(self, beta: float) -> float:
        """Return the least whole alpha with Pr[shortfall > alpha] <= beta, whatever the counts."""
        states = self._states()
        low, high = 0, 1
        while _tail(high + 1, states, self.scale) > beta:
            high *= 2
        while low < high:
            middle = (low + high) // 2
            small = _tail(middle + 1, states, self.scale) <= beta
            low, high = (low, middle) if small else (middle + 1, high)
        return float(low)

    def variance(self) -> float:
        """Refuse: states are released, and no numbers."""
        raise NotSupported(
            "a selection releases states, which have no variance; its expected_error and accuracy "
            "say how far their counts fall short"
        )

    def _states(self) -> int:
        if self.query.among is None:
            raise InvalidInput(
                "how far a selection falls short depends on the number of states to choose from; "
                "plan it for a model, or say TopK(k, among=4)"
            )
        return self.query.among


def _tail(short: float, states: int, scale: float) -> float:
    """Return T(short), rounded to nearest; for tiny ones (m - 1) p / 2, which is a little more."""
    p = math.exp(-short / scale)
    if states * p < 1e-6:
        return (states - 1) * p / 2
    none = -math.expm1(states * math.log1p(-p)) if p < 1 else 1.0
    return max(0.0, 1 - none / (states * p))


_FINE = 2**12
"""Shortfalls that are tried at most; beyond, they are taken as dense."""


@lru_cache(maxsize=256)
def _worst_shortfall(states: int, scale: float) -> float:
    """Return max over whole a >= 1 of a T(a): from 1 + ln m scales on the tail only falls."""
    reach = scale * (math.log(states) + 4) + 2
    tried = np.arange(1.0, reach + 1) if reach <= _FINE else np.linspace(1.0, reach, _FINE)
    return max(float(short) * _tail(float(short), states, scale) for short in tried)
