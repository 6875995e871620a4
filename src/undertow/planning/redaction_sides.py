"""One side of a protected record of a chain on two states, and the best erasures on it.

Away from the target, rename the values of each record so that the first always supports the
first value of the target. Then the best redaction of a side has three stretches: nothing is
shown; only one of the two renamed values is shown, at times; everything is shown. (Once both
values may be shown at a record, showing all of it and of what lies beyond costs nothing more.)

With c = -ln(probability of erasure) of the values shown at times, let b be the log-odds against the
shown value that erasures and everything beyond may still build up. Going inwards one record,

    x = ln (K10 e^-b + K11) / (K00 e^-b + K01),      b = x + c at that record,

K the renamed step outwards, and at the start of the last stretch b = inf. What is left at the
target is the loss. A stationary point has weight e^-c = mu with mu -> mu / (dx/db) inwards, so
one number (mu at the outermost record) fixes all c: a curve, and on it lies the best.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.chains.known import Ints
from undertow.errors import MethodRefused
from undertow.models.markov import MarkovChain
from undertow.numerics import Array

__all__ = ["SideCurve", "TwoStateSide", "has_recursion", "two_state_side"]

DEEPEST = 36.0
"""Largest c on a curve: beyond, a probability of erasure is below `GRAIN`."""

LEAST_STEP = 1e-15
"""Least probability of a step or a first record for which the recursion keeps its digits (lower
side): below, 1 less the probability of the other value is rounding."""

FINE, COARSE = 140, 40
"""Points of a curve where c is moderate, and beyond."""


@dataclass(frozen=True, slots=True)
class SideCurve:
    """Stationary points of one side: what they cost and show, along one parameter.

    ``start`` is the distance from which everything is shown (room + 1: nowhere). ``theta`` is
    -ln mu at the outermost record before it, empty where no value is shown at times.
    """

    begin: int
    start: int
    theta: Array
    cost: Array
    shown: Array


Walk = tuple[Array, Array, Array]
"""Of each record from the outermost inwards: b by option (J, options, points), what is shown up
to there (J, points), c (J, points)."""


@dataclass(frozen=True)
class TwoStateSide:
    """One side of a target, distance 1 first, with renamed values.

    ``kernels`` and ``reached`` (m, 2, 2) are steps outwards and their products. ``early`` (m) is
    the state that is shown at times and ``weights`` its probability. ``first`` (m) is the loss of
    showing it at each distance, ``other`` (m) that of showing everything from there on while all
    nearer records are erased, and ``behind`` the part of it that a known record further out adds.
    ``period`` counts after how many records the steps repeat, 0 for never. ``met`` asks for the
    losses of attackers who know the record at which the erasures end; without, curves are what
    the two others demand, which is enough most of the time, and always where nothing is known.
    """

    kernels: Array
    reached: Array
    early: Ints
    weights: Array
    first: Array
    other: Array
    behind: Array
    period: int
    met: bool
    walks: dict[tuple[int, bytes], Walk] = field(default_factory=dict, compare=False, repr=False)

    @property
    def room(self) -> int:
        """The number of records."""
        return len(self.early)

    def turned(self, against: Against) -> "TwoStateSide":
        """Return the side with the names of the values exchanged."""
        swapped = replace(
            self,
            kernels=self.kernels[:, ::-1, ::-1],
            reached=self.reached[:, ::-1, ::-1],
            early=1 - self.early,
            weights=1 - self.weights,
            walks={},
        )
        return _with_losses(swapped, against)

    def curve(self, begin: int, start: int, theta: Array) -> SideCurve:
        """Return the stationary points between two distances, at given parameters."""
        rest = float(self.room - start + 1)
        if begin == start:
            cost = self.other[start - 1] if start <= self.room else 0.0
            return SideCurve(begin, start, np.empty(0), np.array([cost]), np.array([rest]))
        budget, shown, _ = self.walk(start, theta)
        deep = min(start - 1 - begin, len(budget) - 1)
        losses = _inwards(self.reached[start - 2 - deep], budget[deep])  # (options, points)
        losses += self._offsets(start)[:, None]
        return SideCurve(begin, start, theta, np.fmax.reduce(losses), rest + shown[deep])

    def _offsets(self, start: int) -> Array:
        """Return what the losses of the options at the outer end are raised by."""
        if start <= self.room:
            here = self.reached[start - 1]
            extra = [float(np.log(here[0, 0] / here[1, 0]))] if self.met else []
            return np.array([self.behind[start - 1], *extra])
        here = self.reached[-1]
        known = [np.log(here[0, 1] / here[1, 1]), np.log(here[0, 0] / here[1, 0])]
        return np.array([0.0, *(known if self.met else [])])

    def spent(self, begin: int, start: int, theta: float) -> Array:
        """Return c at distances begin .. start - 1."""
        found = np.zeros(start - begin)
        if begin < start:
            _, _, spent = self.walk(start, np.array([theta]))
            deep = min(start - begin, len(spent))
            found[start - begin - deep :] = spent[:deep, 0][::-1]
        return found

    def grid(self, limit: float) -> Array:
        """Return parameters along a curve, from where nothing is spent."""
        low, high = -np.log(self.weights.max()), -np.log(self.weights.min())
        middle = high + min(limit + 5.0, DEEPEST / 2)
        # mu from the largest weight down
        near, far = np.linspace(low, middle, FINE), np.linspace(middle, high + DEEPEST, COARSE + 1)
        return np.concatenate([near, far[1:]])

    def walk(self, start: int, theta: Array) -> Walk:
        """Return the stationary points from distance start - 1 inwards.

        Ends where no parameter spends anything any more. Sides that repeat share their walks.
        """
        place = start
        if self.period and start <= self.room:
            place = self.room - (self.room - start) % self.period
        key = (place, theta.tobytes())
        if key not in self.walks:
            if len(self.walks) > 64:
                self.walks.clear()
            self.walks[key] = self._walk(place, theta)
        budget, shown, spent = self.walks[key]
        return budget[: start - 1], shown[: start - 1], spent[: start - 1]

    def _walk(self, start: int, theta: Array) -> Walk:
        most, price = self.weights.max(), np.exp(-theta)
        ended = start > self.room
        outer = self.kernels[min(start, self.room) - 1]
        ends = [np.log(outer[1, 1] / outer[0, 1]), np.log(outer[1, 0] / outer[0, 0])]
        # (options): all erased where the side ends, then the two values of the record there
        options = ([0.0, *ends] if ended else ends)[: (2 + ended if self.met else 1)]
        left = np.repeat(np.array(options)[:, None], len(theta), axis=1)  # (options, points)
        total = np.zeros(len(theta))  # (points)
        rows: list[Walk] = []
        for distance in range(start - 1, 0, -1):
            weight, step = self.weights[distance - 1], self.kernels[distance - 1]
            # stationary: weight e^-c = mu, and c >= 0
            spent = np.maximum(np.log(weight / price), 0.0)
            total = total - weight * np.expm1(-spent)
            budget = left + spent  # b = x + c
            if ended and not rows:
                budget[1:] = np.nan  # the last record itself is known
            rows.append((budget, total, spent))
            fade = np.exp(-budget)
            below, above = step[1, 0] * fade + step[1, 1], step[0, 0] * fade + step[0, 1]
            determinant = step[0, 0] * step[1, 1] - step[0, 1] * step[1, 0]
            slope = fade[0] * determinant / (below[0] * above[0])  # dx/db of the first option
            inner = np.log(below / above)  # x of the next record inwards
            left = np.where(np.isnan(inner), left, inner)
            price = np.minimum(price / np.maximum(slope, 1e-300), 1e300)  # mu / (dx/db)
            if price.min() > most:
                break
        return tuple(np.array(part) for part in zip(*rows, strict=True))  # type: ignore[return-value]


def _inwards(step: Array, budget: Array) -> Array:
    fade = np.exp(-budget)
    return np.asarray(np.log((step[1, 0] * fade + step[1, 1]) / (step[0, 0] * fade + step[0, 1])))


def _with_losses(side: TwoStateSide, against: Against) -> TwoStateSide:
    reached = side.reached
    up = np.log(reached[:, 0, 0] / reached[:, 1, 0])  # (distances): what the early value tells
    down = np.log(reached[:, 1, 1] / reached[:, 0, 1])  # (distances): what the other one tells
    first, other, behind = up.copy(), down.copy(), np.zeros(side.room)
    if against != "ignorant" and side.room:
        behind[:-1] = up[1:]  # what a known record one step further out adds
        first[:-1] += down[1:]
    return replace(side, first=first, other=other + behind, behind=behind)


def has_recursion(chain: MarkovChain) -> bool:
    """Return whether the recursion for the best erasures can be carried out for a chain.

    >>> has_recursion(MarkovChain([[.5, .5], [1e-18, 1.0]]))
    False
    """
    least = min(float(chain.transition.min()), float(chain.initial.min()))
    return chain.size == 2 and least >= LEAST_STEP


def two_state_side(
    chain: MarkovChain, target: int, length: int, right: bool, against: Against, met: bool = False
) -> TwoStateSide:
    """Return one side of a target; refuse chains in which some step is all but impossible."""
    if not has_recursion(chain):
        raise MethodRefused(
            "the recursion for the best erasures needs two states and a chain in which every "
            f"step and first record has a probability of at least {LEAST_STEP:g}"
        )
    room = length - 1 - target if right else target
    laws = chain.marginals(length)  # (records, states)
    records = target + np.arange(1, room + 1) * (1 if right else -1)
    kernels = _steps(chain, laws, records, right)  # (distances, states, states)
    # (distances): neighbours rather agree
    positive = kernels[:, 0, 0] * kernels[:, 1, 1] >= kernels[:, 0, 1] * kernels[:, 1, 0]
    early = np.cumsum(~positive) % 2  # names change wherever neighbours rather differ
    # names of the record one step nearer
    before = np.concatenate([[0], early[:-1]]) if room else early
    kernels = np.where(before[:, None, None] == 1, kernels[:, ::-1, :], kernels)
    kernels = np.where(early[:, None, None] == 1, kernels[:, :, ::-1], kernels)
    reached = np.empty_like(kernels)
    product = np.eye(2)
    for distance in range(room):
        product = product @ kernels[distance]  # from the target to this distance
        reached[distance] = product
    steady = chain.homogeneous and isinstance(chain.start, str)
    none = np.empty(0)
    side = TwoStateSide(
        kernels=kernels,
        reached=reached,
        early=early.astype(np.int64),
        weights=laws[records, early],
        first=none, other=none, behind=none,
        period=(1 if positive.all() else 2) if steady else 0,
        met=met,
    )  # fmt: skip
    return _with_losses(side, against)


def _steps(chain: MarkovChain, laws: Array, records: Ints, right: bool) -> Array:
    """Return Pr[next record outwards | record], one step for each distance."""
    if right:
        rows = [chain.step(int(record) - 1) for record in records]
    else:
        rows = [
            # Bayes: the step from a record to the one before it
            (laws[record][:, None] * chain.step(int(record)) / laws[record + 1]).T
            for record in records
        ]
    return np.array(rows).reshape(len(records), 2, 2)
