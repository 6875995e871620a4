"""The most that a redaction can show of a chain on two states, one record protected.

Both sides of the target are cut into three stretches (see `redaction_sides`), and their losses
add up, once for each of the two values of the target. Which stretches, and how the losses are
shared between the sides, is searched: coarsely over all, then finely where it may matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.chains.known import Ints
from undertow.models.markov import MarkovChain
from undertow.numerics import Array
from undertow.planning.redaction_sides import SideCurve, TwoStateSide, two_state_side

__all__ = [
    "BothSides",
    "SideRedaction",
    "best_redactions",
    "erasure_table",
    "frontier",
    "one_side",
    "refine_mixed",
    "refine_same",
    "shown_at",
]

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
    found: list[tuple[float, int, int, SideCurve, SideCurve]] = []
    for kind in (common,) if steady else (0, 1):  # the likelier value says less
        left, right = tables[0][kind], tables[1][kind]
        joined: list[tuple[float, SideCurve, SideCurve]] = [(floor, windows[0], windows[1])]
        joined += _same(left, right, limit, floor)
        if max(left.stride, right.stride) > 1:
            for _, one, two in (joined[0], max(joined[1:] or joined, key=lambda pair: pair[0])):
                joined += _same(left.near(one), right.near(two), limit, floor)
        for shown, one, two in joined:
            found.append((shown, kind, kind, one, two))
            floor = max(floor, shown)
    for kind in () if steady else (0, 1):
        found += [
            (shown, kind, 1 - kind, one, two)
            for shown, one, two in _mixed(tables[0][kind], tables[1][1 - kind], limit, floor)
        ]
    found.sort(key=lambda candidate: -candidate[0])
    pairs: dict[tuple[int, ...], BothSides] = {}
    walked = 0
    for shown, a, b, one, two in found:
        if shown < found[0][0] - CLOSE or len(pairs) >= REFINED or walked > DEEP:
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
    found = [SideRedaction(side, begin, start, float(theta[best]), *_ends(curve, best))]
    for cell in np.flatnonzero(inside[:-1] != inside[1:]):
        near, far = (cell, cell + 1) if inside[cell] else (cell + 1, cell)
        if max(curve.shown[near], curve.shown[far]) > found[0].shown:
            ends = float(theta[near]), float(theta[far])
            found.append(_crossing(side, begin, start, budget, ends))
    return max(found, key=lambda redaction: redaction.shown)


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
                    found = shown_at(curve, self.levels)  # (levels)
                    better = found > best + 1e-12
                    best, which = np.maximum(best, found), np.where(better, len(curves), which)
                    idle = 0 if better.any() else idle + 1
                    curves.append(curve)
            self.known[begin] = curves, best, which
        return self.known[begin]

    def at(self, begin: int, budgets: Array) -> Array:
        """Return the most shown within each of several losses, coarsely."""
        curves = self.scan(begin)[0]
        found = [shown_at(curve, budgets) for curve in curves]
        return np.asarray(np.max(found, axis=0)) if found else np.full(len(budgets), -np.inf)


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
    found: dict[tuple[int, ...], Found] = {}
    for bound, one, two, cell in sorted(cells, reverse=True):
        if bound < floor - CLOSE or len(found) >= LOOKS:
            break
        lefts, _, best = left.scan(one)
        rights, _, other = right.scan(two)
        for near in {best[cell], best[cell + 1]}:
            for far in {other[LEVELS - cell], other[LEVELS - cell - 1]}:
                if (one, two, near, far) not in found:
                    curve, mate = lefts[near], rights[far]
                    top = float((curve.shown + shown_at(mate, limit - curve.cost)).max())
                    found[one, two, near, far] = top, curve, mate
                    floor = max(floor, top)
    return [candidate for candidate in found.values() if candidate[0] >= floor - CLOSE]


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
    found: list[Found] = []
    for one, two in np.argwhere(total >= max(total.max() - CLOSE, floor - CLOSE)):
        budgets = limit - second[two], limit - first[one]
        parts = []
        for side, begin, budget in zip(sides, (lists[0][one], lists[1][two]), budgets, strict=True):
            curves = side.scan(begin)[0]
            worth = [float(shown_at(curve, np.array([budget]))[0]) for curve in curves]
            parts.append(curves[int(np.argmax(worth))])
        found.append((float(total[one, two]), parts[0], parts[1]))
    return found


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
