"""Which records of a series to erase, and how often.

Protected records are always erased, others as often as a method says; probabilities of erasure are
whole multiples of `GRAIN`, and the leakage is certified for them as they are.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from undertow.adversaries import Adversary, Against, check_records
from undertow.bounds.channels.redaction import (
    binary_rates,
    build_side,
    influences,
    least_distance,
    lone_losses,
    shown_levels,
    widest,
    window_bound,
)
from undertow.bounds.engine import leakage
from undertow.bounds.levels.sides import Bools, Ints, nearest_known, ordered_pairs, start_error
from undertow.certificate import Leakage
from undertow.errors import InvalidInput, MethodRefused, NotSupported
from undertow.mechanisms import Redaction
from undertow.models.chains import MarkovChain
from undertow.numerics import GRAIN, ROUNDOFF, Array
from undertow.planning.questions import Question, Solution, Solver
from undertow.queries import Redacted

__all__ = ["CONSTANT", "INDIVIDUAL", "OPTIMAL", "PRINTED", "RELAXED", "WINDOWS"]


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
        """Return the offsets of the losses of the options at the outer end."""
        if start <= self.room:
            here = self.reached[start - 1]
            extra = [float(np.log(here[0, 0] / here[1, 0]))] if self.met else []
            return np.array([self.behind[start - 1], *extra])
        here = self.reached[-1]
        ends = [np.log(here[0, 1] / here[1, 1]), np.log(here[0, 0] / here[1, 0])]
        return np.array([0.0, *(ends if self.met else [])])

    def spent(self, begin: int, start: int, theta: float) -> Array:
        """Return c at distances begin .. start - 1."""
        depths = np.zeros(start - begin)
        if begin < start:
            _, _, spent = self.walk(start, np.array([theta]))
            deep = min(start - begin, len(spent))
            depths[start - begin - deep :] = spent[:deep, 0][::-1]
        return depths

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


IDLE = 4
"""Starts of the last stretch that must bring nothing, one after the other, to end their scan."""

CLOSE = 0.02
"""Records by which a coarse candidate may fall short of the best and still be refined."""

REFINED, DEEP = 12, 600
"""Most candidates that are refined, and the records that they may have between them."""

ROUNDS, POINTS = 9, 33
"""Rounds and points of the search for a loss: each round narrows a bracket 32-fold."""

SPLITS, CELLS, NARROW = 5, 400, 20
"""Rounds and cells of the search for the best split of a loss between the sides, and the cells on
either side of the best that the next round looks at."""

SCANNED = 64
"""Starts of the last stretch looked at one by one; where more are in question, only some of them,
and all around the best in a second look."""

LEVELS, LOOKS = 256, 4000
"""Levels of a loss at which sides are compared, and pairs of curves looked at."""


@dataclass(frozen=True, slots=True)
class SideRedaction:
    """A redaction of one side: nothing before ``begin``, everything from ``start`` on."""

    side: TwoStateSide
    begin: int
    start: int
    theta: float
    cost: float
    shown: float


BothSides = tuple[SideRedaction, SideRedaction]
"""A redaction of a series: what it does to the left of the target, and to the right."""


def best_redactions(
    chain: MarkovChain,
    target: int,
    length: int,
    limit: float,
    against: Against,
    met: bool = False,
    most: int = 1,
) -> list[BothSides]:
    """Return the redactions of the two sides that show most, best first, at most ``most``.

    ``met`` as in `TwoStateSide`. Without it the result bounds what any redaction shows, and is the
    best one where its leakage proves to be at most limit.
    """
    sides = [two_state_side(chain, target, length, right, against, met) for right in (False, True)]
    # (left or right) by (value shown at times)
    kinds = [(side, side.turned(against)) for side in sides]
    tables = [[_Frontiers(side, limit) for side in both] for both in kinds]
    steady = all(side.period == 1 for side in sides)
    floor, *windows = _windows(sides, limit)
    common = int(chain.initial[1] > chain.initial[0])
    candidates: list[tuple[float, int, int, SideCurve, SideCurve]] = []
    for kind in (common,) if steady else (0, 1):  # the likelier value says less
        left, right = tables[0][kind], tables[1][kind]
        joined: list[tuple[float, SideCurve, SideCurve]] = [(floor, windows[0], windows[1])]
        joined += _same(left, right, limit, floor)
        if max(left.stride, right.stride) > 1:
            for _, one, two in (joined[0], max(joined[1:] or joined, key=lambda pair: pair[0])):
                joined += _same(left.near(one), right.near(two), limit, floor)
        for shown, one, two in joined:
            candidates.append((shown, kind, kind, one, two))
            floor = max(floor, shown)
    for kind in () if steady else (0, 1):
        candidates += [
            (shown, kind, 1 - kind, one, two)
            for shown, one, two in _mixed(tables[0][kind], tables[1][1 - kind], limit, floor)
        ]
    candidates.sort(key=lambda candidate: -candidate[0])
    pairs: dict[tuple[int, ...], BothSides] = {}
    walked = 0
    for shown, a, b, one, two in candidates:
        if shown < candidates[0][0] - CLOSE or len(pairs) >= REFINED or walked > DEEP:
            break
        kinds_used = a if one.theta.size else -1, b if two.theta.size else -1
        key = (*kinds_used, one.begin, one.start, two.begin, two.start)
        if key not in pairs:
            refine = refine_same if a == b else refine_mixed
            walked += one.start - one.begin + two.start - two.begin
            redactions = refine((kinds[0][a], kinds[1][b]), (one, two), limit)
            if redactions is not None:
                pairs[key] = redactions
    ranked = sorted(pairs.values(), key=lambda both: -(both[0].shown + both[1].shown))
    return ranked[:most]


def one_side(side: TwoStateSide, begin: int, start: int, budget: float) -> SideRedaction | None:
    """Return the most that one side shows within a loss, for given stretches.

    None where even erasing every value that is shown at times costs more.
    """
    if begin == start:
        curve = side.curve(begin, start, np.empty(0))
        fits = curve.cost[0] <= budget
        return SideRedaction(side, begin, start, 0.0, *_ends(curve, 0)) if fits else None
    theta = side.grid(max(budget, 0.0))
    curve = side.curve(begin, start, theta)
    inside = curve.cost <= budget
    if not inside.any():
        return None
    best = int(np.where(inside, curve.shown, -np.inf).argmax())
    redactions = [SideRedaction(side, begin, start, float(theta[best]), *_ends(curve, best))]
    for cell in np.flatnonzero(inside[:-1] != inside[1:]):
        near, far = (cell, cell + 1) if inside[cell] else (cell + 1, cell)
        if max(curve.shown[near], curve.shown[far]) > redactions[0].shown:
            ends = float(theta[near]), float(theta[far])
            redactions.append(_crossing(side, begin, start, budget, ends))
    return max(redactions, key=lambda redaction: redaction.shown)


def _crossing(
    side: TwoStateSide, begin: int, start: int, budget: float, ends: tuple[float, float]
) -> SideRedaction:
    """Return the point of a curve at which its loss reaches the budget, from inside."""
    last = 0
    for _ in range(ROUNDS):
        theta = np.linspace(*ends, POINTS)  # (points)
        curve = side.curve(begin, start, theta)
        beyond = np.flatnonzero(curve.cost > budget)  # the loss is not monotone: the first crossing
        last = max(int(beyond[0]) - 1, 0) if beyond.size else POINTS - 1
        if last == POINTS - 1:
            break
        ends = float(theta[last]), float(theta[last + 1])
    return SideRedaction(side, begin, start, float(theta[last]), *_ends(curve, last))


def erasure_table(length: int, target: int, redactions: BothSides) -> Array:
    """Return the probabilities of erasure of two sides, a row for each record."""
    table = np.ones((length, 2))
    for redaction, sign in zip(redactions, (-1, 1), strict=True):
        side = redaction.side
        spent = side.spent(redaction.begin, redaction.start, redaction.theta)
        for distance in range(redaction.begin, side.room + 1):
            row = table[target + sign * distance]
            if distance >= redaction.start:
                row[:] = 0.0
            else:
                row[side.early[distance - 1]] = np.exp(-spent[distance - redaction.begin])
    return table


def _ends(curve: SideCurve, place: int) -> tuple[float, float]:
    return float(curve.cost[place]), float(curve.shown[place])


def _windows(sides: list[TwoStateSide], limit: float) -> tuple[float, SideCurve, SideCurve]:
    """Return how many records two windows can show, and the windows."""
    left, right = sides
    best, ends = -1, (left.room + 1, right.room + 1)
    for one in range(1, left.room + 2):
        used = (left.first[one - 1], left.other[one - 1]) if one <= left.room else (0.0, 0.0)
        if max(used) > limit:
            continue
        # (distances), either value of the target
        fits = (right.first <= limit - used[0]) & (right.other <= limit - used[1])
        two = int(fits.argmax()) + 1 if fits.any() else right.room + 1
        if left.room - one + right.room - two + 2 > best:
            best, ends = left.room - one + right.room - two + 2, (one, two)
        if two == 1:
            break
    none = np.empty(0)
    one, two = ends
    return float(best), left.curve(one, one, none), right.curve(two, two, none)


class _Frontiers:
    """The curves of one side by where its first stretch ends, each scanned once."""

    def __init__(self, side: TwoStateSide, limit: float) -> None:
        self.side, self.limit = side, limit
        self.focus: SideCurve | None = None
        self.theta = side.grid(limit) if side.room else np.empty(0)
        self.levels = np.linspace(0.0, limit, LEVELS + 1)  # (levels)
        self.known: dict[int, tuple[list[SideCurve], Array, Ints]] = {}
        fits = side.other <= limit
        self.safe = int(fits.argmax()) + 1 if fits.any() else side.room + 1
        # (distances + 1): most shown at times up to there
        self.sums = np.concatenate([[0.0], np.cumsum(side.weights)])
        self.stride = max(1, min(self.safe, side.room) // SCANNED)

    def near(self, curve: SideCurve) -> "_Frontiers":
        """Return the same, for a closer look around one curve."""
        closer = _Frontiers(self.side, self.limit)
        closer.focus, closer.stride = curve, self.stride
        return closer

    def begins(self) -> list[int]:
        """Return the ends of the first stretch to look at."""
        last = self.side.room + 1
        if self.focus is not None:
            around = range(self.focus.begin - self.stride, self.focus.begin + self.stride + 1)
            return [begin for begin in around if self.nearest(self.limit) <= begin <= last]
        return [*range(self.nearest(self.limit), last + 1)]

    def starts(self, begin: int) -> list[int]:
        """Return the starts of the last stretch to look at."""
        least, last = max(begin, self.safe), max(begin, self.side.room + 1)
        if self.focus is not None:
            around = range(self.focus.start - self.stride, self.focus.start + self.stride + 1)
            return [start for start in around if least <= start <= last]
        near = min(least + IDLE, last)
        return [*range(least, near), *range(near, last, self.stride), last]

    def first(self, begin: int) -> float:
        """Return what showing the early value from a distance on costs, 0 for never."""
        return float(self.side.first[begin - 1]) if begin <= self.side.room else 0.0

    def nearest(self, budget: float) -> int:
        """Return the least distance from which the early value fits a budget."""
        inside = self.side.first <= budget
        return int(inside.argmax()) + 1 if inside.any() else self.side.room + 1

    def most(self, begin: int) -> float:
        """Return a bound on what can be shown from a distance on."""
        safe = max(self.safe, begin)
        return float(self.sums[safe - 1] - self.sums[begin - 1]) + self.side.room - safe + 1

    def scan(self, begin: int) -> tuple[list[SideCurve], Array, Ints]:
        """Return curves that may be best for some loss, the most shown by level, and by which."""
        if begin not in self.known:
            curves: list[SideCurve] = []
            best = np.full(LEVELS + 1, -np.inf)
            which = np.zeros(LEVELS + 1, dtype=np.int64)
            idle, room = 0, self.side.room
            for start in self.starts(begin):
                if start <= room and idle >= IDLE:
                    continue
                curve = frontier(self.side.curve(begin, start, self.theta), self.limit)
                if curve.cost.size:
                    amounts = shown_at(curve, self.levels)  # (levels)
                    better = amounts > best + 1e-12
                    best, which = np.maximum(best, amounts), np.where(better, len(curves), which)
                    idle = 0 if better.any() else idle + 1
                    curves.append(curve)
            self.known[begin] = curves, best, which
        return self.known[begin]

    def at(self, begin: int, budgets: Array) -> Array:
        """Return the most shown within each of several losses, coarsely."""
        curves = self.scan(begin)[0]
        amounts = [shown_at(curve, budgets) for curve in curves]
        return np.asarray(np.max(amounts, axis=0)) if amounts else np.full(len(budgets), -np.inf)


def frontier(curve: SideCurve, limit: float) -> SideCurve:
    """Return the points of a curve that cost at most limit and show more than cheaper ones."""
    theta, cost, shown = curve.theta, curve.cost, curve.shown
    inside = cost <= limit
    cells = np.flatnonzero(inside[:-1] != inside[1:])
    if cells.size:  # where the curve reaches limit
        part = (limit - cost[cells]) / (cost[cells + 1] - cost[cells])  # linear between two points
        ends = [line[cells] + part * (line[cells + 1] - line[cells]) for line in (theta, shown)]
        theta, shown = (
            np.append(line, end) for line, end in zip((theta, shown), ends, strict=True)
        )
        cost = np.append(cost, np.full(len(cells), limit))
    fits = np.flatnonzero(cost <= limit)
    order = fits[np.lexsort((-shown[fits], cost[fits]))]  # by cost; of equals, the most shown first
    before = np.maximum.accumulate(np.concatenate([[-np.inf], shown[order][:-1]]))
    # only what shows more than all cheaper points
    order = order[shown[order] > before[: len(order)]]
    return SideCurve(
        curve.begin, curve.start, theta[order] if theta.size else theta, cost[order], shown[order]
    )


def shown_at(curve: SideCurve, budgets: Array) -> Array:
    """Return the most shown within each of several losses, linear between points of a frontier."""
    return np.interp(budgets, curve.cost, curve.shown, left=-np.inf)


Found = tuple[float, SideCurve, SideCurve]


def _same(left: _Frontiers, right: _Frontiers, limit: float, floor: float) -> list[Found]:
    """Return candidates in which both sides show the same renamed value at times."""
    nearest: dict[int, int] = {}
    for begin in left.begins():
        nearest.setdefault(right.nearest(limit - left.first(begin)), begin)
    cells: list[tuple[float, int, int, int]] = []
    for two, one in nearest.items():
        if left.most(one) + right.most(two) >= floor - CLOSE:
            # (cells): left at their upper ends, right at what their lower ends leave
            most = left.scan(one)[1][1:] + right.scan(two)[1][:0:-1]
            cells += [
                (float(most[cell]), one, two, int(cell))
                for cell in np.flatnonzero(most >= floor - CLOSE)
            ]
    candidates: dict[tuple[int, ...], Found] = {}
    for bound, one, two, cell in sorted(cells, reverse=True):
        if bound < floor - CLOSE or len(candidates) >= LOOKS:
            break
        lefts, _, best = left.scan(one)
        rights, _, other = right.scan(two)
        for near in {best[cell], best[cell + 1]}:
            for far in {other[LEVELS - cell], other[LEVELS - cell - 1]}:
                if (one, two, near, far) not in candidates:
                    curve, mate = lefts[near], rights[far]
                    top = float((curve.shown + shown_at(mate, limit - curve.cost)).max())
                    candidates[one, two, near, far] = top, curve, mate
                    floor = max(floor, top)
    return [candidate for candidate in candidates.values() if candidate[0] >= floor - CLOSE]


def _mixed(left: _Frontiers, right: _Frontiers, limit: float, floor: float) -> list[Found]:
    """Return candidates in which the sides show different renamed values at times."""
    sides = left, right
    lists = []
    for side, beyond in ((left, right), (right, left)):
        need = floor - CLOSE - beyond.most(beyond.nearest(limit)) if beyond.side.room else 0.0
        lists.append([begin for begin in side.begins()[:-1] if side.most(begin) >= need])
    if not lists[0] or not lists[1]:
        return []
    first, second = (
        np.array([side.first(begin) for begin in begins])
        for side, begins in zip(sides, lists, strict=True)
    )
    # (left begins, right begins)
    total = np.array([left.at(begin, limit - second) for begin in lists[0]])
    total = total + np.array([right.at(begin, limit - first) for begin in lists[1]]).T
    candidates: list[Found] = []
    for one, two in np.argwhere(total >= max(total.max() - CLOSE, floor - CLOSE)):
        budgets = limit - second[two], limit - first[one]
        parts = []
        for side, begin, budget in zip(sides, (lists[0][one], lists[1][two]), budgets, strict=True):
            curves = side.scan(begin)[0]
            worth = [float(shown_at(curve, np.array([budget]))[0]) for curve in curves]
            parts.append(curves[int(np.argmax(worth))])
        candidates.append((float(total[one, two]), parts[0], parts[1]))
    return candidates


Pair = tuple[TwoStateSide, TwoStateSide]


def refine_mixed(
    sides: Pair, curves: tuple[SideCurve, SideCurve], limit: float
) -> BothSides | None:
    """Return both sides at the losses that the first values of the other side leave them."""
    spent = [float(s.first[c.begin - 1]) for s, c in zip(sides, curves, strict=True)]
    return _both(sides, curves, (limit - spent[1], limit - spent[0]))


def _both(
    sides: Pair, curves: tuple[SideCurve, SideCurve], budgets: Sequence[float]
) -> BothSides | None:
    """Return both sides, each at a loss of its own; None where one of them cannot keep to it."""
    left, right = (
        one_side(side, curve.begin, curve.start, budget)
        for side, curve, budget in zip(sides, curves, budgets, strict=True)
    )
    return None if left is None or right is None else (left, right)


def refine_same(sides: Pair, curves: tuple[SideCurve, SideCurve], limit: float) -> BothSides | None:
    """Return both sides at the best split of the loss between them."""
    left, right = curves
    if not left.theta.size or not right.theta.size:
        if left.theta.size:  # a window on the right
            return _both(sides, curves, (limit - float(right.cost[0]), limit))
        return _both(sides, curves, (limit, limit - float(left.cost[0])))
    ends = [(curve.theta.min(), curve.theta.max()) for curve in curves]
    for _ in range(SPLITS):
        first, second = (
            side.curve(curve.begin, curve.start, np.linspace(*end, CELLS + 1))
            for side, curve, end in zip(sides, curves, ends, strict=True)
        )
        ranked = frontier(second, np.inf)  # shown by cost, increasing
        # (cells): right side at what is left
        best = int((first.shown + shown_at(ranked, limit - first.cost)).argmax())
        low, high = max(best - NARROW, 0), min(best + NARROW, CELLS)
        rooms = np.searchsorted(ranked.cost, limit - first.cost[[low, best, high]])
        near = ranked.theta[max(rooms.min() - NARROW, 0) : rooms.max() + NARROW]
        ends = [(first.theta[low], first.theta[high]), (near.min(), near.max())]
    redaction = SideRedaction(
        sides[0], left.begin, left.start, float(first.theta[best]), *_ends(first, best)
    )
    rest = one_side(sides[1], right.begin, right.start, limit - redaction.cost)
    return None if rest is None else (redaction, rest)


DEPTH, MANY = 6, 40
"""Records next to what is always shown in which a pattern shows values at times, and most values
shown at times for which a local search is worth its time."""

TRIES = ((3, 100, MANY), (4, 12, 24), (6, 4, 12), (10**9, 0, 0))
"""Up to how many states, how many patterns are tried, with how many values shown at times."""

SHARES = (0.5, 0.25, 0.75)
"""Shares of the limit that the left side of a target may take."""

PROGRAMS, TOUCH = 20, 1e-11
"""Rounds of a program, and the violation of a constraint at which the next one takes it in."""

AHEAD, TELLING = (1.0, 3.0), 0.6
"""Values of c at which the worst options are taken in before the first round, and the share of
limit that they must lose there."""

Losses = tuple[Array, Ints, Array]
"""Of all options of a side: loss, pair of values, gradient in c."""

Joint = tuple[int, int, int]
"""A target, an option on its left, an option on its right."""

STEEPEST = 40.0
"""Largest c of a search: a probability of erasure of e^-40 is 0 for all purposes."""


@dataclass(frozen=True)
class Pattern:
    """Which values may be shown: never (1), always (0), or at times (free), by record and state.

    ``first`` is where a search over the free values starts.
    """

    chain: MarkovChain
    targets: tuple[int, ...]
    against: Against
    fixed: Array
    free: Bools
    first: Array

    @cached_property
    def sides(self) -> "tuple[tuple[PatternSide, PatternSide], ...]":
        """The two sides of each target."""
        return tuple(
            (_pattern_side(self, target, False), _pattern_side(self, target, True))
            for target in self.targets
        )

    def table(self, spent: Array) -> Array:
        """Return the probabilities of erasure for the c of the free values."""
        table = self.fixed.copy()
        table[self.free] = np.exp(-spent)
        return table


@dataclass(frozen=True, slots=True)
class PatternSide:
    """One side of a target up to the first record that is always shown.

    ``shown`` and ``met`` (T, pairs, k) are what the losses of shown, and of met known records,
    start from; NaN where there is no such option. ``kernels`` (T, k, k) lead outwards.
    """

    records: Ints
    kernels: Array
    shown: Array
    met: Array
    end: Array
    last: Array


def _pattern_side(pattern: Pattern, target: int, right: bool) -> PatternSide:
    chain, size = pattern.chain, pattern.chain.size
    always = ((pattern.fixed == 0) & ~pattern.free).all(axis=1)  # (records)
    plain = np.where(always[:, None], 0.0, np.ones_like(pattern.fixed))  # (records, states)
    side = build_side(chain, plain, target, right, 0 if pattern.against == "ignorant" else None)
    # (distances, pairs, states), the same, (pairs)
    shown, met, end = shown_levels(side, pattern.against)
    sign = 1 if right else -1
    records = target + sign * np.arange(1, side.room + 1)  # (distances)
    ends = bool(always[records].any())
    reach = int(always[records].argmax()) + 1 if ends else side.room
    records = records[:reach]
    if right:
        kernels = [chain.step(int(record) - 1) for record in records]
    else:
        kernels = [chain.step(int(record)).T for record in records]
    offered = (pattern.free | (pattern.fixed < 1))[records]  # (distances, states)
    return PatternSide(
        records=records,
        kernels=np.array(kernels).reshape(reach, size, size),
        shown=np.where(offered[:, None, :], shown[:reach], np.nan),
        met=met[:reach],
        end=np.full_like(end, np.nan) if ends else end,
        last=np.ones(size) if right else chain.initial,
    )


def climb(pattern: Pattern, limit: float) -> Array:
    """Return c of the free values with as much shown as a local search finds.

    Maximises sum_v weight (1 - e^-c) over c >= 0 subject to left + right <= limit for each
    target, pair of values, and option on the left and on the right. Few of them matter: the
    program starts with the worst of each pair, and takes in those that its answer violates.
    """
    spent = pattern.first
    if not spent.size:
        return spent
    constraints = dict.fromkeys(
        joint
        for level in (0.0, *AHEAD)
        for joint in _worst(pattern, np.maximum(spent, level), TELLING * limit)
    )
    for _ in range(PROGRAMS):
        spent = _program(pattern, limit, spent, list(constraints))
        violated = _worst(pattern, spent, limit + TOUCH)
        if constraints.keys() >= violated.keys():
            break
        constraints |= violated
    return np.clip(spent, 0.0, STEEPEST)


def _sides(pattern: Pattern, spent: Array) -> list[Losses]:
    """Return losses, pairs of values and gradients of all options, side by side."""
    index = np.full(pattern.free.shape, -1)  # (records, states): which free value, -1 for none
    index[pattern.free] = np.arange(len(spent))
    table = pattern.table(spent)
    return [_losses(side, table, index, len(spent)) for both in pattern.sides for side in both]


def _worst(pattern: Pattern, spent: Array, above: float) -> dict[Joint, None]:
    """Return the worst joint options of each target and pair of values that lose so much."""
    sides = _sides(pattern, spent)
    options: dict[Joint, None] = {}
    for number in range(len(pattern.targets)):
        (left, pair, _), (right, other, _) = sides[2 * number], sides[2 * number + 1]
        for which in np.intersect1d(pair, other):
            # options of this pair
            one, two = np.flatnonzero(pair == which), np.flatnonzero(other == which)
            # the two that lose most
            one, two = one[np.argsort(-left[one])[:2]], two[np.argsort(-right[two])[:2]]
            for a, b in ((0, 0), (1, 0), (0, 1)):
                if a < len(one) and b < len(two) and left[one[a]] + right[two[b]] > above:
                    options[number, int(one[a]), int(two[b])] = None
    return options


def _program(pattern: Pattern, limit: float, spent: Array, constraints: list[Joint]) -> Array:
    """Return the answer of the program with the chosen constraints, from a point."""
    from scipy.optimize import minimize

    weights = pattern.chain.marginals(len(pattern.fixed))[pattern.free]  # (free values)
    cache: dict[bytes, tuple[Array, Array]] = {}

    def limits(place: Array) -> tuple[Array, Array]:
        key = place.tobytes()
        if key not in cache:
            cache.clear()
            sides = _sides(pattern, place)
            # (constraints)
            slack = [limit - sides[2 * t][0][a] - sides[2 * t + 1][0][b] for t, a, b in constraints]
            # (constraints, free values)
            slope = [-sides[2 * t][2][a] - sides[2 * t + 1][2][b] for t, a, b in constraints]
            cache[key] = np.array(slack), np.array(slope)
        return cache[key]

    def erased(place: Array) -> tuple[float, Array]:
        erasures = weights * np.exp(-place)
        return float(erasures.sum()), -erasures

    within: Any = {
        "type": "ineq", "fun": lambda x: limits(x)[0], "jac": lambda x: limits(x)[1],
    }  # fmt: skip
    with np.errstate(all="ignore"):
        optimum = minimize(
            erased, spent, jac=True, method="SLSQP",
            bounds=[(0.0, STEEPEST) for _ in range(len(spent))], constraints=within,
            options={"maxiter": 40, "ftol": 1e-13},
        )  # fmt: skip
    return np.asarray(optimum.x)


def _losses(side: PatternSide, table: Array, index: Ints, count: int) -> Losses:
    """Return the losses of all options of a side, their pairs, and their gradients in c."""
    reach, size = len(side.records), table.shape[1]
    value, other = ordered_pairs(size)
    if not reach:
        return np.zeros(len(value)), np.arange(len(value)), np.zeros((len(value), count))
    laws = np.zeros((reach + 1, size, size))  # (distances, values, states)
    parts = np.zeros((reach + 1, size, reach, size, size))  # value, record, its state, state here
    # (values, states), (values, records, their states, states)
    law, moved, same = np.eye(size), parts[0], np.eye(size)
    for step in range(reach):
        if step:
            erased = table[side.records[step - 1]]
            law, moved = law * erased, moved * erased
            # d/dc of a product: the factor of this record, by its state, for each value of the
            # target
            moved[:, step - 1] = law[:, :, None] * same
        law, moved = law @ side.kernels[step], moved @ side.kernels[step]  # one record outwards
        top = law.max()  # ratios of values do not change
        law, moved = law / top, moved / top
        laws[step], parts[step] = law, moved
    erased = table[side.records[-1]] * side.last  # (states): every record of the side is erased
    law, moved = law * erased, moved * erased
    moved[:, reach - 1] = law[:, :, None] * same
    # the end, in the place of state 0
    laws[reach, :, 0], parts[reach, ..., 0] = law.sum(axis=1), moved.sum(axis=3)
    # (shown or met, distances, pairs, states)
    bases = np.full((2, reach + 1, len(value), size), np.nan)
    bases[0, :reach], bases[1, :reach], bases[0, reach, :, 0] = side.shown, side.met, side.end
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(laws)  # (distances, values, states)
        loss = logs[:, value] - logs[:, other] - bases  # (kinds, distances, pairs, states)
    kind, place, pair, state = np.nonzero(np.isfinite(loss))  # (options) each
    slope = np.zeros((len(pair), reach, size))  # (options, records, states)
    for sign, values in ((-1.0, value[pair]), (1.0, other[pair])):
        share = parts[place, values, :, :, state] / laws[place, values, state][:, None, None]
        slope += sign * share
    rows = np.zeros((len(pair), count + 1))  # (options, free values and one for the rest)
    rows[:, index[side.records].ravel()] = slope.reshape(len(pair), reach * size)  # -1: the rest
    return loss[kind, place, pair, state], pair, rows[:, :count]


def redaction_pattern(
    chain: MarkovChain,
    target: int,
    length: int,
    against: Against,
    redactions: BothSides,
) -> Pattern:
    """Return the pattern of a redaction in three stretches, to improve on it."""
    table = erasure_table(length, target, redactions)
    free = np.zeros(table.shape, dtype=bool)
    for redaction, sign in zip(redactions, (-1, 1), strict=True):
        for distance in range(redaction.begin, redaction.start):
            free[target + sign * distance, redaction.side.early[distance - 1]] = True
    spent = np.clip(-np.log(np.maximum(table[free], 1e-12)), 0.0, 4.0)
    return Pattern(chain, (target,), against, np.where(free, 1.0, table), free, spent)


How = Literal["relaxed", "constant", "individual"]

FLAT = 1e-14
"""Log-ratio below which a record counts as saying nothing in the search for windows."""


def likely_patterns(
    chain: MarkovChain,
    targets: tuple[int, ...],
    against: Against,
    limit: float,
    windows: list[Bools],
) -> Iterator[Pattern]:
    """Yield patterns around given windows, and around the first of them a little wider.

    Whatever is offered fits limit as long as nothing is shown at times too often: values that
    do not fit are taken back, the most telling first, or each side keeps to its share. Only the
    outermost values are kept.
    """
    length, size = len(windows[0]), chain.size
    losses = [_alone(chain, target, against, length) for target in targets]
    possible = chain.marginals(length) > 0  # (records, states)
    possible[list(targets)] = False
    offers = [(erased, possible.copy()) for erased in (*_wider(windows[0]), *windows[1:])]
    for share in SHARES:
        fits = possible.copy()
        for target, loss in zip(targets, losses, strict=True):
            # (records, states): over the pairs of target values
            top = loss.max(axis=2, initial=0.0)
            fits[:target] &= top[:target] <= share * limit
            fits[target + 1 :] &= top[target + 1 :] <= (1 - share) * limit
        shown = np.asarray((fits | ~possible).all(axis=1))
        shown[list(targets)] = False
        offers += [(erased, fits) for erased in list(_wider(~shown))[:4]]
    looks, most = next((looks, most) for states, looks, most in TRIES if size <= states)
    for erased, values in offers[:looks]:
        offered = values & erased[:, None]  # (records, states)
        depth = _depths(erased)  # (records)
        offered[depth > DEPTH] = False
        if not _take_back(offered, erased, targets, losses, limit):
            continue
        for nearest in range(DEPTH, 0, -1):
            if offered.sum() > most:
                offered[depth > nearest] = False
        if 0 < offered.sum() <= most:
            fixed = np.where(erased[:, None], np.ones((length, size)), 0.0)
            start = np.full(int(offered.sum()), 0.05)
            yield Pattern(chain, targets, against, fixed, offered, start)


def _depths(erased: Bools) -> Ints:
    """Return how far each record is from the next one that is always shown."""
    far, places = len(erased), np.arange(len(erased))
    # from the last one shown to the left
    before = places - np.maximum.accumulate(np.where(erased, -far, places))
    # from the next to the right
    after = np.minimum.accumulate(np.where(erased, 2 * far, places)[::-1])[::-1] - places
    return np.minimum(far, np.minimum(before, after))


def _wider(inside: Bools) -> Iterator[Bools]:
    """Yield windows, and windows wider by one or two records to the left, the right, or both."""
    for left, right in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)):
        wider = inside.copy()
        for shift in range(1, left + 1):
            wider[:-shift] |= inside[shift:]
        for shift in range(1, right + 1):
            wider[shift:] |= inside[:-shift]
        yield wider


def _take_back(
    offered: Bools, erased: Bools, targets: tuple[int, ...], losses: list[Array], limit: float
) -> bool:
    """Withdraw offers until the rest fits limit; return whether it does."""
    shown = np.flatnonzero(~erased)
    spans = []
    for target in targets:
        below, above = shown[shown < target], shown[shown > target]
        low = int(below[-1]) if below.size else 0
        high = int(above[0]) if above.size else len(erased) - 1
        spans.append((slice(low, target), slice(target + 1, high + 1)))
    while True:
        open_ = offered | ~erased[:, None]  # (records, states)
        worst = (limit, -1, -1)
        for number, loss in enumerate(losses):
            if not loss.shape[2]:  # the target is certain
                continue
            tops = [
                np.where(open_[span][..., None], loss[span], 0.0).max(axis=(0, 1), initial=0.0)
                for span in spans[number]
            ]
            pair = int((tops[0] + tops[1]).argmax())
            worst = max(worst, (float(tops[0][pair] + tops[1][pair]), number, pair))
        if worst[1] < 0:
            return True
        _, number, pair = worst
        loss = np.where(offered, losses[number][..., pair], -1.0)  # (records, states)
        near = np.zeros(len(erased), dtype=bool)
        for span in spans[number]:
            near[span] = True
        loss[~near] = -1.0
        record, state = np.unravel_index(int(loss.argmax()), loss.shape)
        if loss[record, state] <= 0:
            return False
        offered[record, state] = False


def _alone(chain: MarkovChain, target: int, against: Against, length: int) -> Array:
    """Return the loss of showing each value of each record alone, by pair of target values."""
    reach = None if against == "any" else 0
    left, right = (
        # (distances, states, pairs)
        lone_losses(chain, target, side, length, against, reach)[0].transpose(0, 2, 1)
        for side in (False, True)
    )
    # (records, states, pairs)
    return np.concatenate([left[::-1], np.zeros((1, *left.shape[1:])), right])


ZOOMS, CELL_ENDS = 7, 257
"""Rounds and points of the search for a constant probability: each round narrows it 256-fold."""


@dataclass(frozen=True, slots=True)
class ErasureTask:
    """A redaction to plan: a series, its protected records, a leakage, and an adversary.

    ``chains`` are all models that may be true; most methods want one.
    """

    chains: tuple[MarkovChain, ...]
    length: int
    protect: tuple[int, ...]
    limit: float
    against: Against

    @property
    def targets(self) -> tuple[int, ...]:
        """The records that the adversary may want."""
        return (self.against.target,) if isinstance(self.against, Adversary) else self.protect

    def one(self, method: str) -> tuple[MarkovChain, int]:
        """Return the chain and the protected record, or refuse several."""
        chain = self.chain(method)
        if len(self.protect) > 1:
            raise MethodRefused(
                f"'{method}' is stated for one protected record, found {len(self.protect)}; use "
                "method='mq' or 'optimal'"
            )
        return chain, self.protect[0]

    def chain(self, method: str) -> MarkovChain:
        """Return the chain, or refuse several."""
        if len(self.chains) > 1:
            raise MethodRefused(
                f"'{method}' needs one chain, found a set of {len(self.chains)}; use method='mq'"
            )
        return self.chains[0]


def grained(table: Array) -> Array:
    """Return probabilities of erasure rounded up to whole multiples of `GRAIN`.

    >>> bool(grained(np.array([0.3]))[0] >= 0.3), grained(np.array([0.0, 1e-30, 1.0])).tolist()
    (True, [0.0, 1.1102230246251565e-16, 1.0])
    """
    return np.asarray(np.minimum(np.ceil(table / GRAIN) * GRAIN, 1.0))


def shown_share(chain: MarkovChain, table: Array) -> float:
    """Return the expected share of the records that are shown, Definition 2 of [massny2025].

    >>> round(shown_share(MarkovChain([[.75, .25], [.5, .5]]), np.array([[1, 1], [1 / 8, 1]])), 6)
    0.291667
    """
    laws = chain.marginals(len(table))  # (records, states)
    return float((laws * (1 - table)).sum() / len(table))


Costs = list[tuple[Array, Array]]
"""Of each chain, what windows around one target cost: (records erased, pair of values), left and
right."""


def _loss(costs: Costs, left: int, right: int) -> float:
    """Return the largest loss when so many records are erased on either side of the target."""
    return max(float((one[left] + two[right]).max(initial=0.0)) for one, two in costs)


def _window_costs(chain: MarkovChain, task: ErasureTask, target: int) -> tuple[Array, Array]:
    """Return the rounded-up losses of all windows around a target."""
    near = (None, None) if task.against == "any" else nearest_known(task.against)
    tables = []
    for right in (False, True):
        room = task.length - 1 - target if right else target
        shown, error = lone_losses(
            chain, target, right, task.length, task.against, near[right], FLAT
        )
        table = np.zeros((room + 1, shown.shape[1]))  # (records erased, pairs)
        if room and task.against != "informed":
            # (distances, pairs): over the values shown
            best, error = shown.max(axis=2), error + start_error(chain)
            table[: len(best)] = best + np.where(best > 0, error + 64 * ROUNDOFF * best, 0.0)
            if not near[right]:
                table[len(best) - 1 : room] = np.maximum(table[len(best) - 1], 8 * FLAT)
            table[-1] = 0.0  # all of the side erased: nothing is told
        tables.append(table)
    return tables[0], tables[1]


def window_table(task: ErasureTask) -> Array:
    """Return the windows that erase fewest records, whatever the values: 1 inside, 0 outside.

    For one protected record all pairs of windows are compared, left against right, by their
    exact leakage: O(n). (Algorithm 1 of [massny2025] erases one record too many on each side, and
    knows only two splits of the budget.) For several the windows of each are joined, and then
    records are shown again as long as every leakage allows it.
    """
    table = np.zeros((task.length, task.chains[0].size))
    table[window_choices(task)[0]] = 1.0
    return table


def window_choices(task: ErasureTask, more: int = 0) -> list[Bools]:
    """Return which records the best windows erase, and up to ``more`` that erase little more."""
    costs = {
        target: [_window_costs(chain, task, target) for chain in task.chains]
        for target in task.targets
    }
    ranked = {target: _narrowest(windows, task.limit) for target, windows in costs.items()}
    several = len(costs) > 1
    choices: list[Bools] = []
    for place in range(1 if several else 1 + more):
        erased: Bools = np.zeros(task.length, dtype=np.bool_)
        erased[list(task.protect)] = True
        for target, windows in ranked.items():
            if place < len(windows):
                left, right = windows[place]
                erased[target - left : target + right + 1] = True
                choices.append(erased)
    if several:
        _shrink(erased, task, costs)
    return choices


def _narrowest(costs: Costs, limit: float) -> list[tuple[int, int]]:
    """Return widths left and right, the least sum first; of equals, those that leak least."""
    rooms = len(costs[0][0]) - 1, len(costs[0][1]) - 1
    candidates = [(sum(rooms), 0.0, *rooms)]
    right = rooms[1]
    for left in range(rooms[0] + 1):
        cost = _loss(costs, left, right)
        if cost > limit:
            continue
        while right and (less := _loss(costs, left, right - 1)) <= limit:
            right, cost = right - 1, less
        candidates.append((left + right, cost, left, right))
    return [(left, right) for _, _, left, right in sorted(candidates)]


def _shrink(erased: Bools, task: ErasureTask, costs: dict[int, Costs]) -> None:
    """Show records again, those farthest from a target first, while all leakages allow it."""
    targets = np.array(task.targets)
    again = [r for r in np.flatnonzero(erased).tolist() if r not in task.protect]
    again.sort(key=lambda record: -int(np.abs(targets - record).min()))
    for record in again:
        erased[record] = False
        shown = np.flatnonzero(~erased)
        for target, windows in costs.items():
            below, above = shown[shown < target], shown[shown > target]
            left = target - 1 - int(below[-1]) if below.size else target
            right = int(above[0]) - target - 1 if above.size else task.length - 1 - target
            if _loss(windows, left, right) > task.limit:
                erased[record] = True
                break


def printed_windows(task: ErasureTask) -> Array:
    """Return the windows of Algorithm 1 of [massny2025], as printed.

    >>> chain = MarkovChain([[.8, .2], [.3, .7]], length=12)
    >>> table = printed_windows(ErasureTask((chain,), 12, (5,), .92, "ignorant"))
    >>> table[:, 0].astype(int).tolist()
    [0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    """
    chain, target = task.one("mq-printed")
    alpha, beta = binary_rates(chain, "'mq-printed'")
    length, limit = task.length, task.limit
    mirrored = target + 1 > length / 2  # the paper counts from the nearer end
    place = length - target if mirrored else target + 1
    whole, half = (least_distance(alpha, beta, share) for share in (limit, limit / 2))
    one_sided = place == 1 or (
        limit < widest(alpha, beta, length + 1 - place) + widest(alpha, beta, place - 1)
        or place + whole - 2 * half < 0
    )
    left, right = (place - 1, min(whole, length - place)) if one_sided else (half, half)
    table = np.zeros((length, 2))
    table[max(place - 1 - left, 0) : place + right] = 1.0
    return np.ascontiguousarray(table[::-1]) if mirrored else table


def three_regions(task: ErasureTask, how: How) -> Array:
    """Return the 3R mechanisms of [massny2025]: large, medium and small influence.

    Each side gets half of limit (all of it where the other side is empty). Records of which
    both values have a pointwise influence of at most that are shown, those of which one value has
    are shown at times when they have it, all others never. The probability of erasure at those
    times: ``relaxed`` solves the convex program of Appendix A exactly (its optimum is the
    greatest convex minorant of the budgets, constant only if that is a line), ``constant`` is the
    smallest one probability for all that is private, ``individual`` the best one
    for each record.
    """
    name = f"3r-{how}"
    chain, target = task.one(name)
    alpha, beta = binary_rates(chain, f"'{name}'")
    value = 0 if alpha <= beta else 1
    weights = influences(chain, target, task.length)  # (records, states)
    table = np.ones((task.length, 2))
    rooms = target, task.length - 1 - target
    for right in (False, True):
        room = rooms[right]
        if not room:
            continue
        budget = task.limit if not rooms[not right] else task.limit / 2
        records = target + np.arange(1, room + 1) * (1 if right else -1)  # (distances)
        near = weights[records]  # (distances, states)
        begin = _first(near[:, value] <= budget)
        start = max(_first(near.max(axis=1) <= budget), begin)
        region = _Region(chain, value, begin, start, room, budget, near)
        erasures = _CHOICES[how](region) if begin < start else np.empty(0)
        table[records[begin - 1 : start - 1], value] = erasures
        table[records[start - 1 :]] = 0.0
    return table


def _first(holds: Bools) -> int:
    """Return the first distance at which something holds, one beyond the last for nowhere."""
    return int(holds.argmax()) + 1 if holds.any() else len(holds) + 1


@dataclass(frozen=True, slots=True)
class _Region:
    """The medium region of a side: distances begin .. start - 1 show ``value`` at times."""

    chain: MarkovChain
    value: int
    begin: int
    start: int
    room: int
    budget: float
    influences: Array


def _relaxed(region: _Region) -> Array:
    """Return the optimum of the convex program: minimise sum e^-c with bounded prefix sums."""
    begin, start = region.begin, region.start
    beyond = np.array([
        region.influences[t, region.value] if t + 1 < start
        else region.influences[t].max() if start <= region.room else 0.0
        for t in range(begin, start)
    ])  # fmt: skip
    # (medium records): bounds on the prefix sums of c
    most = np.minimum.accumulate((region.budget - beyond)[::-1])[::-1]
    points = [(0, 0.0), *enumerate(most.tolist(), 1)]
    hull: list[tuple[int, float]] = []
    for x, y in points:
        while len(hull) > 1 and (
            (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0])
            >= (y - hull[-2][1]) * (hull[-1][0] - hull[-2][0])
        ):
            hull.pop()
        hull.append((x, y))
    path = np.interp(np.arange(len(points)), *np.array(hull).T)  # the greatest convex minorant
    return np.asarray(np.exp(-np.maximum(np.diff(path), 0.0)))


def _constant(region: _Region) -> Array:
    """Return the smallest probability that, used throughout, keeps the loss within the budget."""
    low, high = 0.0, 1.0
    for _ in range(ZOOMS):
        grid = np.linspace(low, high, CELL_ENDS)
        fits = _constant_loss(region, grid) <= region.budget
        place = int(fits.argmax()) if fits.any() else CELL_ENDS - 1
        high = float(grid[place])
        low = float(grid[max(place - 1, 0)])
        if low == high:
            break
    return np.full(region.start - region.begin, high)


def _constant_loss(region: _Region, grid: Array) -> Array:
    """Return the loss of one side, for each of several constant probabilities of erasure."""
    step, value = region.chain.transition, region.value
    factor = np.ones((len(grid), 1, 2))  # (probabilities, 1, states)
    factor[:, 0, value] = grid
    # (probabilities, target value, state)
    reached = np.broadcast_to(np.linalg.matrix_power(step, region.begin), (len(grid), 2, 2))
    worst = np.zeros(len(grid))
    for distance in range(region.begin, min(region.start, region.room) + 1):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(np.log(reached[:, 0] / reached[:, 1]))
        # (probabilities)
        losses = ratio.max(axis=1) if distance == region.start else ratio[:, value]
        worst = np.fmax(worst, losses)
        if distance == region.start:
            return np.asarray(worst)
        reached = (reached * factor) @ step  # this record is erased
    left = reached.sum(axis=2)  # (probabilities, target value): all erased
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.fmax(worst, np.abs(np.log(left[:, 0] / left[:, 1]))))


def _individual(region: _Region) -> Array:
    """Return the best probability for each record of the region."""
    chain, begin, start = region.chain, region.begin, region.start
    if chain.transition[0, 1] + chain.transition[1, 0] <= 1:
        side = two_state_side(chain, 0, region.room + 1, True, "ignorant")
        side = side.turned("ignorant") if region.value else side
        best = one_side(side, begin, start, region.budget)
        spent = np.zeros(start - begin) if best is None else side.spent(begin, start, best.theta)
        return np.exp(-spent)
    fixed = np.ones((region.room + 1, 2))
    fixed[start:] = 0.0
    free = np.zeros(fixed.shape, dtype=bool)
    free[begin:start, region.value] = True
    pattern = Pattern(chain, (0,), "ignorant", fixed, free, np.full(start - begin, 0.05))
    return np.exp(-climb(pattern, region.budget))


_CHOICES: dict[str, Callable[[_Region], Array]] = {
    "relaxed": _relaxed,
    "constant": _constant,
    "individual": _individual,
}


MARGINS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-7, 1e-5)
"""What a search leaves of limit, relative to max(1, limit), for the roundings of its proof;
tried in turn until the proof succeeds."""

SILENT = 1e-18
"""Log-ratio, up to a factor, below which a record says nothing."""

CHOICES = 6
"""Windows besides the best around which a local search looks."""

NEAR = 1e-9
"""By how much the leakage of an optimum may exceed limit, relative to max(1, limit), to count
as rounding, which a margin makes good."""

MOST = "no redaction of this series, record by record, shows more at this leakage"
FOUND = "the best redaction found; others might show more"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A table of erasures, with notes and whether it is optimal."""

    table: Array
    notes: tuple[str, ...] = ()
    optimal: bool = False


def _task(question: Question[Redacted]) -> ErasureTask:
    """Return the question as a task of erasures, or refuse records beyond the series."""
    query, model, against = question.query, question.model, question.against
    chains = tuple(question.chains("redaction"))
    own = model.length
    length = own if query.length is None else query.length
    if length is None:
        raise InvalidInput(
            "the number of records is not known; write Redacted(protect=17, length=100), or give "
            "the chain a length"
        )
    if own not in (None, length):
        raise InvalidInput(
            f"the query is about {length} records, the model about {own}; they must agree"
        )
    if query.protect[-1] >= length:
        raise InvalidInput(
            f"record {query.protect[-1]} is to be protected, but the series has {length} records, "
            "counted from 0"
        )
    check_records(against, length)
    if isinstance(against, Adversary) and against.target not in query.protect:
        raise InvalidInput(
            f"the adversary wants record {against.target}, which the query does not protect; add "
            "it to protect"
        )
    return ErasureTask(chains, length, query.protect, question.limit, against)


def _solver(
    propose: Callable[[ErasureTask], Proposal], margins: Sequence[float] = MARGINS
) -> Solver:
    """Return the solver of a method that proposes erasures, and certifies its proposal."""

    def solve(question: Question[Redacted]) -> Solution:
        task = _task(question)
        proposal, leak = _proved(task, propose, margins)
        mechanism = Redaction(proposal.table, task.protect)
        measures = tuple(_measures(task, proposal))
        return Solution(mechanism, leak, proposal.notes, measures, proposal.optimal)

    def prove(question: Question[Redacted], mechanism: Redaction) -> Leakage:
        return leakage(mechanism, question.model, question.against)

    return Solver(solve, prove)


def _proved(
    task: ErasureTask, propose: Callable[[ErasureTask], Proposal], margins: Sequence[float]
) -> tuple[Proposal, Leakage]:
    """Return the proposal of a method, rounded, at the first margin that keeps the limit.

    Where it does at none, what it proposes at the last.
    """
    scale = max(1.0, task.limit)
    allowed = [less for margin in margins if (less := task.limit - margin * scale) > 0]
    if not allowed:
        raise NotSupported(f"a leakage of {task.limit:g} is too small to tell from rounding")
    for less in allowed:
        proposal = propose(replace(task, limit=less))
        proposal = replace(proposal, table=grained(proposal.table))
        leak = _certified(task, proposal.table)
        if leak.proves(task.limit):
            break
    return proposal, leak


def _certified(task: ErasureTask, table: Array) -> Leakage:
    """Return the certified leakage of a table, the worst case over the chains."""
    mechanism = Redaction(table, task.protect)
    bounds = [leakage(mechanism, chain, task.against) for chain in task.chains]
    worst = max(bounds, key=lambda leak: leak.lower)
    return replace(worst, upper=max(leak.upper for leak in bounds))


def _measures(task: ErasureTask, proposal: Proposal) -> Iterator[tuple[str, float]]:
    """Yield how much is shown, and how much could be."""
    chain = task.chains[0]
    utility = min(shown_share(member, proposal.table) for member in task.chains)
    yield "utility", utility
    if len(task.chains) > 1:
        return
    with suppress(MethodRefused):
        one, target = task.one("the window bound")
        arguments = (one, target, task.length, task.limit)
        yield "window bound printed", window_bound(*arguments, printed=True)
        yield "window bound", window_bound(*arguments)
    if proposal.optimal:
        yield "optimum", utility
        return
    if len(task.protect) == 1 and chain.size == 2:
        best = _optimal(task)
        if best.optimal:
            yield "optimum", shown_share(chain, best.table)


def _optimal(task: ErasureTask) -> Proposal:
    """Return the erasures that show most, or the best of a local search."""
    chain = task.chain("optimal")
    if task.against == "informed":
        note = "whoever knows the neighbours of a record learns nothing from a redaction"
        return Proposal(window_table(task), (note, MOST), optimal=True)
    if isinstance(task.against, Adversary):
        named: Literal["any", "ignorant"] = "any" if task.against.known else "ignorant"
        wider = _optimal(replace(task, against=named))
        if named == "ignorant":
            return wider
        return replace(
            wider, optimal=False,
            notes=("planned against an attacker who knows any other records", FOUND),
        )  # fmt: skip
    if len(task.protect) == 1 and has_recursion(chain):
        return _nearby(task, chain, task.protect[0])
    best = window_table(task)
    windows = window_choices(task, CHOICES)
    for pattern in likely_patterns(chain, task.protect, task.against, task.limit, windows):
        best = _better(task, chain, best, pattern)
    return Proposal(best, (FOUND,))


def _nearby(task: ErasureTask, chain: MarkovChain, target: int) -> Proposal:
    """Return the optimum over the records that can leak anything; the rest are shown."""
    length = task.length
    if not chain.homogeneous or not isinstance(chain.start, str):
        return _two_states(task, chain, target)
    fading = abs(1 - chain.transition[0, 1] - chain.transition[1, 0])
    if fading >= 1:  # as a float: it never forgets, or not within any series
        return _two_states(task, chain, target)
    reach = 2 + math.ceil(math.log(SILENT) / math.log(max(fading, SILENT)))
    first, last = max(0, target - reach), min(length, target + reach + 1)
    if last - first == length:
        return _two_states(task, chain, target)
    inner = replace(
        task, chains=(MarkovChain(chain.transition, chain.states),),
        length=last - first, protect=(target - first,),
    )  # fmt: skip
    proposal = _two_states(inner, inner.chains[0], target - first)
    table = np.zeros((length, 2))
    table[first:last] = proposal.table
    return replace(proposal, table=table)


def _two_states(task: ErasureTask, chain: MarkovChain, target: int) -> Proposal:
    """Return the optimum against an ignorant attacker, and the best that is found against any.

    Against any attacker the recursion leaves out those who know a record up to which all are
    erased: what it gives is a bound, and a local search begins there.
    """
    against, length = task.against, task.length
    ideal = best_redactions(chain, target, length, task.limit, against, most=3)
    table = erasure_table(length, target, ideal[0])
    allowed = task.limit + NEAR * max(1.0, task.limit)
    if against == "ignorant":
        return Proposal(table, (MOST,), optimal=True)
    best = table
    if not _certified(task, grained(table)).proves(allowed):
        safe = best_redactions(chain, target, length, task.limit, against, met=True)
        best = erasure_table(length, target, safe[0])
        if not _certified(task, grained(best)).proves(allowed):
            best = window_table(task)
        for redactions in ideal:
            pattern = redaction_pattern(chain, target, length, against, redactions)
            most = sum(each.shown for each in redactions)
            if pattern.free.sum() <= MANY and most > length * shown_share(chain, best):
                best = _better(task, chain, best, pattern)
    return Proposal(best, (FOUND,))


def _better(task: ErasureTask, chain: MarkovChain, best: Array, pattern: Pattern) -> Array:
    """Return the result of a local search from a pattern, if it is private and shows more."""
    shown = shown_share(chain, best)
    less = task.limit
    if shown_share(chain, np.where(pattern.free, 0.0, pattern.fixed)) <= shown:
        return best
    for _ in range(3):
        table = pattern.table(climb(pattern, less))
        leak = _certified(task, grained(table))
        if leak.proves(task.limit + MARGINS[0] * max(1.0, task.limit)):
            return table if shown_share(chain, table) > shown else best
        less -= 2 * (leak.upper - task.limit)
        if less <= 0:
            break
    return best


def _three(how: Literal["relaxed", "constant", "individual"]) -> Solver:
    return _solver(lambda task: Proposal(three_regions(task, how)))


OPTIMAL = _solver(_optimal)
WINDOWS = _solver(lambda task: Proposal(window_table(task)))
INDIVIDUAL, CONSTANT, RELAXED = _three("individual"), _three("constant"), _three("relaxed")
PRINTED = _solver(
    lambda task: Proposal(printed_windows(task), ("windows as printed in Algorithm 1",)),
    MARGINS[:1],  # as printed, whatever it leaks
)
