"""Classes of algorithms as curves: what one replaced record can do to the probability of an event.

An algorithm has curve G if Pr[S | x] <= G(Pr[S | x']) for all events S and all x, x' that differ in
one record. Curves are kept as polygons that lie above: a larger curve admits more algorithms, so
every bound computed from it stays a bound.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from undertow.bounds.approximate.nodes import Nodes, ShiftNodes, closed_nodes
from undertow.errors import InvalidInput
from undertow.numerics import NDTR, ROUNDOFF, Array, check_count, check_positive, freeze

__all__ = ["GaussianGrid", "Lines", "Polygon", "polygon_of_lines", "tangent_lines"]

Lines = Sequence[tuple[float, float]]

FINE = 1e-7
"""Relative excess allowed in the value of a side under a polygon with few edges (upper side)."""

COARSE = 4e-4
"""The same for polygons with many edges and for Gaussian grids, which round by more themselves."""

FEW_EDGES = 12
"""Edges up to which a polygon is swept with the fine tolerance."""

FLOOR = 1e-13
"""Least delta at which an edge of a profile is worth having: rounding is as large (either side)."""


@dataclass(frozen=True, slots=True, eq=False)
class Polygon:
    """A concave curve G on [0, 1] by its nodes ``u`` and values ``g``, never below the true curve.

    >>> polygon = polygon_of_lines([(1.0, 0.0)])
    >>> polygon.u.round(6), polygon.g.round(6)
    (array([0.      , 0.268941, 1.      ]), array([0.      , 0.731059, 1.      ]))
    """

    u: Array
    g: Array

    def __init__(self, u: Iterable[float], g: Iterable[float]) -> None:
        """Check that the nodes rise from 0 to 1 and that the values are a curve; freeze."""
        nodes, values = freeze(list(u)), freeze(list(g))
        object.__setattr__(self, "u", nodes)
        object.__setattr__(self, "g", values)
        if nodes.ndim != 1 or nodes.shape != values.shape or len(nodes) < 2:
            raise InvalidInput("a curve needs as many nodes as values, and at least two of them")
        if nodes[0] != 0 or nodes[-1] != 1 or not (np.diff(nodes) > 0).all():
            raise InvalidInput("the nodes of a curve must rise from 0 to 1")
        if not (nodes <= values).all() or values[-1] != 1 or not (np.diff(values) >= 0).all():
            raise InvalidInput("a curve must not fall, must not lie below G(u) = u, and end at 1")
        share = np.diff(nodes)[:-1] / (nodes[2:] - nodes[:-2])
        chords = values[:-2] + share * (values[2:] - values[:-2])
        if not (values[1:-1] >= chords * (1.0 - 1e-14)).all():
            raise InvalidInput("a curve must be concave; take its concave hull")

    def __call__(self, u: Array | float) -> Array:
        """Return G(u), rounded up."""
        value = np.interp(u, self.u, self.g) * (1.0 + 8.0 * ROUNDOFF)
        return np.asarray(np.minimum(value, 1.0))

    @property
    def tolerance(self) -> float:
        """The relative excess to which a sweep is worth refining."""
        return FINE if len(self.u) <= FEW_EDGES + 1 else COARSE

    @property
    def steepest(self) -> float:
        """The log of the slope at 0, or where G leaves the rounding there."""
        at = max(float(self.u[1]), 1e-12)
        return max(math.log(float(self(at)) / at), 1e-3)

    def nodes(self, depth: int, seeds: Array | None = None) -> Nodes:
        """Return nodes on which ``depth`` records can be swept exactly, kinks at ``seeds`` too."""
        return closed_nodes(self.u, self.g, depth, np.zeros(0) if seeds is None else seeds)


def polygon_of_lines(lines: Lines) -> Polygon:
    """Return the curve of an algorithm that is (e_j, d_j)-DP for every pair of ``lines`` at once.

    G(u) = min over j of min(e^{e_j} u + d_j, 1 - e^{-e_j} (1 - d_j - u), 1). Rounded up.
    Cost O(M log M).

    >>> float(polygon_of_lines([(1.0, 1e-3), (0.5, 1e-2)])(0.0))
    0.001
    """
    edges = [(0.0, 1.0)]  # (slope, value at 0)
    for level, delta in lines:
        if not (0 <= level < 700 and 0 <= delta <= 1):
            raise InvalidInput(
                f"an (epsilon, delta) pair needs 0 <= epsilon < 700 and 0 <= delta <= 1, found "
                f"({level:g}, {delta:g})"
            )
        edges.append((math.exp(level), delta))
        # 1 - e^{-e}(1 - d), without cancellation for small e and d
        edges.append((math.exp(-level), -math.expm1(-level) + math.exp(-level) * delta))
    corners, values = _envelope(edges)
    raised = np.minimum(np.asarray(values) * (1.0 + 32.0 * ROUNDOFF), 1.0)
    raised[-1] = 1.0
    return Polygon(corners, np.maximum(raised, corners))


def _envelope(edges: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return the corners on [0, 1] of the lower envelope of lines (slope, value at 0)."""
    ordered: list[tuple[float, float]] = []
    for slope, value in sorted(edges, key=lambda edge: (edge[1], edge[0])):
        if not ordered or slope < ordered[-1][0]:  # higher at 0: useful only if flatter
            ordered.append((slope, value))
    hull: list[tuple[float, float]] = []
    starts: list[float] = []  # where each edge of the hull begins
    for slope, value in ordered:
        start = 0.0
        while hull:
            start = (value - hull[-1][1]) / (hull[-1][0] - slope)
            if start > starts[-1]:
                break
            hull.pop()
            starts.pop()
        if start >= 1.0:
            continue  # never the lowest on [0, 1]
        hull.append((slope, value))
        starts.append(start if hull[1:] else 0.0)
    values = [slope * u + value for (slope, value), u in zip(hull, starts, strict=True)]
    corners, tops = [starts[0]], [values[0]]
    for u, top in zip(starts[1:], values[1:], strict=True):
        if u > corners[-1] * (1.0 + 2e-15) and 1.0 - u > 1e-15:
            corners.append(u)
            tops.append(top)
    return [*corners, 1.0], [*tops, 1.0]


def tangent_lines(
    profile: Callable[[float], float],
    *,
    excess: float = 1e-4,
    floor: float = FLOOR,
    most: int = 64,
) -> list[tuple[float, float]]:
    """Return (e, profile(e)) pairs whose polygon is close to the curve of a whole profile.

    ``profile(e)`` must be an upper end of the delta at which the algorithm is (e, delta)-DP. Levels
    are taken from 0 up to where the profile falls below ``floor``, and halved where the line in the
    middle lowers the corner between its neighbours by more than ``excess``, relative to the corner.
    Any choice is sound: fewer lines only mean a larger curve.

    >>> from math import exp
    >>> lines = tangent_lines(lambda e: exp(-10 * e))
    >>> 8 < len(lines) <= 64 and lines[0] == (0.0, 1.0)
    True
    """
    most = check_count(most, "most (lines)", 2)
    top = 1e-6
    while profile(top) > floor and top < 350:
        top *= 2.0
    low = top / 2.0
    for _ in range(30):  # the least level at which the floor is reached: none beyond is needed
        middle = (low + top) / 2.0
        low, top = (middle, top) if profile(middle) > floor else (low, middle)
    lines = [(level, min(profile(level), 1.0)) for level in (0.0, top / 2.0, top)]
    gaps = [1.0, 1.0]  # what halving an interval would gain at its corner
    while len(lines) < most and max(gaps) > excess:
        place = int(np.argmax(gaps))
        middle = (lines[place][0] + lines[place + 1][0]) / 2.0
        lines.insert(place + 1, (middle, min(profile(middle), 1.0)))
        around = range(max(place - 1, 0), min(place + 3, len(lines) - 1))
        fresh = {at: _gain(lines, at, profile) for at in around}
        gaps.insert(place, 1.0)
        gaps = [fresh.get(at, gap) for at, gap in enumerate(gaps)]
    return lines


def _gain(lines: list[tuple[float, float]], at: int, profile: Callable[[float], float]) -> float:
    """Return how much the line halfway lowers the corner between two neighbours, relatively."""
    (low, more), (high, less) = lines[at], lines[at + 1]
    if more <= less or high - low < 1e-9:
        return 0.0
    corner = (more - less) / (math.exp(high) - math.exp(low))
    value = math.exp(low) * corner + more
    middle = (low + high) / 2.0
    return max(0.0, 1.0 - (math.exp(middle) * corner + profile(middle)) / value)


@dataclass(frozen=True, slots=True, eq=False)
class GaussianGrid:
    """The curve Phi(Phi^{-1}(u) + mu) of mu-GDP on nodes Phi(-span + j h): a shift of the index.

    h = mu' / nodes_per_mu, and mu' = mu + mu' h^2/8 exp(5 h (span + mu' + h)): chords of the curve
    of mu' between the nodes lie above the curve of mu. Tests are clipped to [Phi(-span),
    Phi(span)], which costs (1 + e^epsilon) Phi(-span) in delta.

    >>> grid = GaussianGrid(1.0, 64, 7.0)
    >>> 1 < grid.inflated < 1.0001, len(grid.u)
    (True, 897)
    """

    mu: float
    nodes_per_mu: int
    span: float
    inflated: float = field(init=False, repr=False)
    u: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find mu' (rounded up) and the nodes."""
        mu, span = check_positive(self.mu, "mu"), check_positive(self.span, "span")
        shift = check_count(self.nodes_per_mu, "nodes_per_mu", 1)
        if not 1.0 <= span <= 7.5:
            raise InvalidInput(
                f"span must lie between 1 and 7.5, found {span:g}: beyond, floats near 1 do not "
                "tell the nodes apart"
            )
        wide = mu
        for _ in range(60):
            step = wide / shift
            if step * (span + wide) > 0.5:
                raise InvalidInput(
                    f"{shift} nodes per mu = {mu:g} are too few for chords; take at least "
                    f"{math.ceil(2.5 * wide * (span + wide))}"
                )
            extra = wide * step**2 / 8.0 * math.exp(5.0 * step * (span + wide + step))
            # nodes are floats: below 1/2 one is off by at most 24 roundings of its place (the error
            # of ndtr times Mills' ratio), so two are by 48; above, by 2 of its value
            grown = (mu + extra) * (1.0 + 1e-11) + 4.0 * NDTR * ROUNDOFF
            if grown <= wide:
                break
            wide = grown
        else:
            raise InvalidInput(f"{shift} nodes per mu = {mu:g} are too few for chords; take more")
        step = wide / shift
        count = math.ceil(2.0 * span / step) + 1
        places = -span + step * np.arange(count)
        object.__setattr__(self, "inflated", wide)
        object.__setattr__(self, "u", freeze(ndtr(places)))

    @classmethod
    def of(cls, mu: float, span: float = 7.3, step: float = 0.015) -> "GaussianGrid":
        """Return a grid fine enough that chords cost less than 1e-4 of mu.

        >>> GaussianGrid.of(1 / 16.58).nodes_per_mu
        5
        """
        return cls(mu, max(1, math.ceil(mu / step)), span)

    @property
    def tolerance(self) -> float:
        """The relative excess to which a sweep is worth refining."""
        return COARSE

    @property
    def steepest(self) -> float:
        """The log of the slope at the least node."""
        return self.mu * self.span

    def nodes(self, depth: int, seeds: Array | None = None) -> Nodes:
        """Return the nodes, which serve any number of records; kinks elsewhere are rounded up."""
        return ShiftNodes.padded(self.u, self.nodes_per_mu)
