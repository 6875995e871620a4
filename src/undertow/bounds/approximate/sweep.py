"""What all algorithms with a given curve leak on a Markov chain: delta at epsilon, and back.

Certified upper bounds of delta(epsilon) = sup over algorithms, targets, values and what is known,
of Pr[S | x_i = a, x_K] - e^epsilon Pr[S | x_i = b, x_K]. One side is exact (Theorem 3); the two
sides of a target meet in an upper bound (Theorem 4); any length costs an additive eta (Theorem 5).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.approximate.lines import Samples, lifted
from undertow.bounds.approximate.sides import Ints, Options, SideKernels, option_values
from undertow.bounds.approximate.windows import (
    AttainedWindow,
    ChainSides,
    Curve,
    Room,
    SweptOrder,
    alive_after,
    choose_windows,
    possible_pairs,
    shown,
)
from undertow.errors import InvalidInput
from undertow.models.markov import MarkovChain
from undertow.numerics import ROUNDOFF, Array, check_count, up

__all__ = [
    "SweepBound",
    "known_sided_value",
    "one_sided_value",
    "sweep_bound",
    "sweep_delta",
    "sweep_epsilon",
    "two_sided_delta",
]

_FARTHEST = 700.0
"""A level beyond which e^epsilon is no float: the search for one ends there."""

CLOSE = 1e-7
"""Relative width of the last bracket of a least epsilon (upper side: its upper end is returned)."""


@dataclass(frozen=True, slots=True)
class SweepBound:
    """A certified upper bound of delta at an epsilon, and where it is met.

    ``window`` names the pair of values (numbers of states) and the (distance, value) known on each
    side; ``reach`` records were swept on a side, at a cost of ``eta`` in epsilon.
    """

    delta_upper: float
    epsilon: float
    window: AttainedWindow | None
    reach: int
    eta: float


def one_sided_value(curve: Curve, kernels: Sequence[Array], a: int, b: int, g: float) -> float:
    """Return max of E[f | a] - g E[f | b] over all tests f with a curve, one side, rounded up.

    Target first, then one unknown record per kernel. Exact up to rounding (Theorem 3). Cost
    O(m k^2) per node, of which a polygon has O(M m).

    >>> from undertow.bounds.approximate.polygons import polygon_of_lines
    >>> P = np.array([[.882, .118], [.305, .695]])
    >>> round(one_sided_value(polygon_of_lines([(1.0, 0.0)]), [P], 1, 0, math.e), 10)
    0.2666415997
    """
    side = _side(kernels, a, b)
    return _valued(curve, side, len(kernels), side.size, a, b, g)


def known_sided_value(
    curve: Curve, transition: Array, a: int, b: int, g: float, distance: int, value: int
) -> float:
    """Return the same for a homogeneous side whose record at ``distance`` is known.

    Only that value's function of the plain sweep is needed, at g P^c(a, v) / P^c(b, v).

    >>> from undertow.bounds.approximate.polygons import polygon_of_lines
    >>> P = np.array([[.882, .118], [.305, .695]])
    >>> round(known_sided_value(polygon_of_lines([(1.0, 0.0)]), P, 1, 0, math.e, 3, 1), 10)
    0.3110496374
    """
    distance = check_count(distance, "distance", 1)
    side = _side([transition] * distance, a, b)
    return _valued(curve, side, distance, check_count(value, "value", 0), a, b, g)


def _side(kernels: Sequence[Array], a: int, b: int) -> SideKernels:
    stack = tuple(np.asarray(kernel, dtype=np.float64) for kernel in kernels)
    if not stack:
        stack = (np.eye(max(a, b) + 1),)  # never used: the target stands alone
    if a == b:
        raise InvalidInput(f"two different values are compared, found {a} twice")
    return SideKernels(stack)


def _valued(
    curve: Curve, side: SideKernels, distance: int, column: int, a: int, b: int, g: float
) -> float:
    options = side.options(np.array([distance]), np.array([column]), a, b)
    if not len(options):
        raise InvalidInput("the known value is impossible with one of the target's values")
    nodes = curve.nodes(distance)
    value, _ = option_values(nodes, nodes.g, side, (a, b), options, g)
    return min(up(float(value[0]) + nodes.slack * (1.0 + g)), 1.0)


def two_sided_delta(
    curve: Curve,
    left_kernels: Sequence[Array],
    right_kernels: Sequence[Array],
    a: int,
    b: int,
    epsilon: float,
) -> float:
    """Return an upper bound of delta for a target between two sides of unknown records.

    Theorem 4 in both orders of the sides; the smaller value. Rounded up.

    >>> from undertow.bounds.approximate.polygons import polygon_of_lines
    >>> P = np.array([[.882, .118], [.305, .695]])
    >>> round(two_sided_delta(polygon_of_lines([(1.0, 0.0)]), [P, P], [P, P], 1, 0, 1.0), 9)
    0.438867852
    """
    sides = [(left_kernels, right_kernels)]
    same = len(left_kernels) == len(right_kernels) and all(
        np.array_equal(one, two) for one, two in zip(left_kernels, right_kernels, strict=True)
    )
    if not same:
        sides.append((right_kernels, left_kernels))
    return min(_composed(curve, inner, outer, a, b, epsilon) for outer, inner in sides)


def _composed(
    curve: Curve, inner: Sequence[Array], outer: Sequence[Array], a: int, b: int, epsilon: float
) -> float:
    """Return the bound with the curve of the target and its inner side at the start."""
    first, second = _side(inner, a, b), _side(outer, a, b)
    g = _slope(epsilon)
    open_ = [
        side.options(np.array([len(kernels)]), np.array([side.size]), a, b)
        for side, kernels in ((first, inner), (second, outer))
    ]
    samples = Samples.begun(
        curve.nodes(len(inner)), first, [(a, b)], curve.steepest, free=True
    )  # fmt: skip
    samples.refine(open_[:1], curve.tolerance)
    lines = samples.lines(0, open_[0]).simplified(0.02 * curve.tolerance)
    nodes = curve.nodes(len(outer), lines.kinks)
    value, _ = option_values(nodes, lifted(nodes, lines), second, (a, b), open_[1], g)
    return min(up(float(value[0]) + nodes.slack * (1.0 + g)), 1.0)


def _slope(epsilon: float) -> float:
    """Return e^epsilon rounded down: bounds fall with it."""
    return math.exp(epsilon) * (1.0 - 8.0 * ROUNDOFF * max(1.0, abs(epsilon)))


def sweep_delta(
    curve: Curve,
    chain: MarkovChain,
    epsilon: float,
    against: Against,
    *,
    reach: int | None = None,
) -> float:
    """Return a certified upper bound of delta at epsilon, over all algorithms with a curve.

    Every target, pair of values, and set of known records that ``against`` ("any", "ignorant")
    allows, for the chain's own length or any (None). See `sweep_bound`.
    """
    return sweep_bound(curve, chain, epsilon, against, reach=reach).delta_upper


def sweep_bound(
    curve: Curve,
    chain: MarkovChain,
    epsilon: float,
    against: Against,
    *,
    reach: int | None = None,
) -> SweepBound:
    """Return the bound of `sweep_delta` with the window in which it is met.

    ``reach`` records are swept on each side, by default so many that the cost eta in epsilon is
    below a millionth of it.

    >>> from undertow.bounds.approximate.polygons import polygon_of_lines
    >>> chain = MarkovChain([[.882, .118], [.305, .695]], length=3)
    >>> bound = sweep_bound(polygon_of_lines([(1.0, 0.0)]), chain, 1.0, "any")
    >>> round(bound.delta_upper, 6), bound.window.pair
    (0.396252, (0, 1))
    """
    reduced = chain.visited()
    if reduced is None:
        return SweepBound(0.0, epsilon, None, 0, 0.0)
    windows = choose_windows(reduced, epsilon, against, reach)
    search = _Search.over(curve, reduced, windows, against)
    delta, window = search.at(_slope(epsilon - windows.eta), 0.0)
    return SweepBound(delta, epsilon, window, windows.reach, windows.eta)


def sweep_epsilon(curve: Curve, chain: MarkovChain, delta: float, against: Against) -> float:
    """Return the least epsilon, rounded up, whose bound `sweep_delta` is at most ``delta``.

    Curves of inner sides do not depend on epsilon and are computed once; options that are below
    delta at a smaller epsilon are not tried again. Infinite where no epsilon up to 700 will do.

    >>> from undertow.bounds.approximate.polygons import polygon_of_lines
    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(sweep_epsilon(polygon_of_lines([(0.2, 0.0)]), chain, 1e-4, "any"), 4)
    0.7925
    """
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1, found {delta:g}")
    reduced = chain.visited()
    if reduced is None:
        return 0.0
    low = _plain_epsilon(curve, delta)
    if low > _FARTHEST:
        return math.inf
    windows = choose_windows(reduced, max(low, 1e-3), against, None)
    search = _Search.over(curve, reduced, windows, against)
    value, _ = search.at(_slope(low), delta)
    if value <= delta:
        return up(low + windows.eta)
    high, top = min(max(2.0 * low, 1e-3), _FARTHEST), 1.0
    while True:
        top, _ = search.at(_slope(high), delta)
        if top <= delta:
            break
        if high == _FARTHEST:
            return math.inf
        low, value, high = high, top, min(2.0 * high, _FARTHEST)
    return up(_closed(search, delta, (low, value), (high, top)) + windows.eta)


def _closed(
    search: "_Search", delta: float, low: tuple[float, float], high: tuple[float, float]
) -> float:
    """Return the upper end of a narrow bracket: false position on ln delta, never one-sided."""
    (left, above), (right, below) = low, high
    stuck = 0
    while right - left > CLOSE * right:
        rise, fall = math.log(above / delta), math.log(delta / max(below, 1e-300))
        share = rise / (rise + fall) if rise + fall > 0 else 0.5
        # an end that stays put twice is pulled in: its weight is halved
        if stuck >= 2:
            share = 2.0 * share / (1.0 + share)
        elif stuck <= -2:
            share = share / (2.0 - share)
        share = min(max(share, 0.01), 0.99)
        middle = left + share * (right - left)
        value, _ = search.at(_slope(middle), delta)
        if value > delta:
            left, above, stuck = middle, value, max(stuck, 0) + 1
        else:
            right, below, stuck = middle, value, min(stuck, 0) - 1
    return right


def _plain_epsilon(curve: Curve, delta: float) -> float:
    """Return an epsilon (rounded down) at which the target's own output alone has this delta."""
    nodes = curve.nodes(0)
    low, high = 0.0, 700.0
    for _ in range(60):
        middle = (low + high) / 2.0
        value = float((nodes.g - math.exp(middle) * nodes.u).max())
        low, high = (middle, high) if value > delta else (low, middle)
    return low


@dataclass(slots=True)
class _Search:
    """All rows, pairs and options of a chain; those that still matter at a growing slope."""

    windows: ChainSides
    orders: list[SweptOrder]
    options: dict[tuple[int, int, int], Options] = field(default_factory=dict)
    alive: dict[tuple[int, int, int], Ints] = field(default_factory=dict)
    reached: float = 0.0

    @classmethod
    def over(
        cls, curve: Curve, chain: MarkovChain, windows: ChainSides, against: Against
    ) -> "_Search":
        """Return the search over both orders of the sides."""
        pairs = possible_pairs(chain)
        orders = [
            SweptOrder(curve, windows.right, windows.left, against, pairs),
            SweptOrder(curve, windows.left, windows.right, against, pairs),
        ]
        if windows.mirrored and all(left == right for left, right in windows.rows):
            del orders[1]  # both orders are the same
        search = cls(windows, orders)
        for row in range(len(windows.rows)):
            for pair in range(len(pairs)):
                for order in range(len(orders)):
                    key = row, pair, order
                    _, outer = search.rooms(row, order)
                    search.options[key] = orders[order].outer_options(outer, pair)
                    search.alive[key] = np.arange(len(search.options[key]))
        return search

    def rooms(self, row: int, order: int) -> tuple[Room, Room]:
        """Return the rooms of the inner and the outer side of an order."""
        left, right = self.windows.rows[row]
        return (left, right) if order else (right, left)

    def at(self, g: float, threshold: float) -> tuple[float, AttainedWindow | None]:
        """Return the bound at slope g and its window; what is below ``threshold`` is left out.

        Where the bound exceeds the threshold, options below it are never tried again: g must not
        fall below such a g later.
        """
        worst: tuple[float, AttainedWindow | None] = (0.0, None)
        left_over: dict[tuple[int, int, int], Ints] = {}
        for row in range(len(self.windows.rows)):
            for pair in range(len(self.orders[0].pairs)):
                value, window = math.inf, None
                for order in range(len(self.orders)):
                    if value <= max(worst[0] if threshold <= 0 else threshold, threshold):
                        break
                    key = row, pair, order
                    found, seen = self._one(key, g, threshold, left_over)
                    if found < value:
                        value, window = found, seen
                if value > worst[0]:
                    worst = value, window
        if worst[0] > threshold > 0:
            self.alive.update(left_over)
        return worst

    def _one(
        self, key: tuple[int, int, int], g: float, threshold: float,
        left_over: dict[tuple[int, int, int], Ints],
    ) -> tuple[float, AttainedWindow | None]:  # fmt: skip
        """Return the bound of one row, pair and order, over the options that still matter."""
        row, pair, order = key
        which, alive = self.orders[order], self.alive[key]
        left_over[key] = alive
        if not alive.size:
            return 0.0, None
        inner, _ = self.rooms(row, order)
        options = self.options[key].take(alive)
        values, places = which.values(inner, pair, options, g)
        left_over[key] = alive_after(values, alive, threshold)
        best = int(values.argmax())
        ends = (
            shown(options, best, which.outer.size),
            which.inner_option(inner, pair, float(places[best])),
        )
        window = AttainedWindow(which.pairs[pair], *(ends[::-1] if order else ends))
        return float(values[best]), window
