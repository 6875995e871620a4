"""The curve of a target with one side: C(u) = min over g of V(g) + g u, from finitely many sweeps.

V is convex in g, so chords between sampled slopes are upper bounds; slopes are added where the
chords of some option could still be lowered. Fewer slopes only raise C.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from undertow.bounds.approximate.nodes import Nodes
from undertow.bounds.approximate.sides import Ints, Options, SideKernels, side_values
from undertow.numerics import ROUNDOFF, Array

__all__ = ["Lines", "Samples", "lifted"]

ROUNDS = 40
"""Rounds of added slopes at most; what is left open is only a larger curve (a cost limit)."""

NEGLIGIBLE = 1e-10
"""Values of a side below are not refined further (either side: they stay upper bounds)."""


BETWEEN = np.array([0.03, 0.1, 0.25, 0.5, 0.75, 0.95])[:, None, None]
"""Shares of an interval of slopes at which a chord is held against other options."""


FEW_NODES = 512
"""Nodes at which one option in an interval of slopes is refined at a time; with fewer, more."""

MAX_CHORDS = 1_000_000
"""Chords evaluated for one curve; beyond, close slopes are joined (a cost limit, upper side)."""

LEADERS = 600
"""Slopes at which the leading option is followed (either side: it only steers the search)."""


@dataclass(frozen=True)
class Lines:
    """The concave curve min_i intercept_i + slope_i u; slopes fall, option[i] is behind line i."""

    slope: Array
    intercept: Array
    option: Ints

    @cached_property
    def kinks(self) -> Array:
        """Where neighbouring lines cross."""
        return np.asarray(np.diff(self.intercept) / -np.diff(self.slope))

    def __call__(self, u: Array) -> Array:
        """Return the curve, rounded up."""
        line = self.line(u)
        value = self.intercept[line] + self.slope[line] * u
        return np.asarray(np.minimum(value * (1.0 + 8.0 * ROUNDOFF), 1.0))

    def simplified(self, tolerance: float) -> "Lines":
        """Return fewer lines, whose envelope is at most (1 + tolerance) times as high."""
        keep = _simplified(self.slope, self.intercept, tolerance)
        return Lines(self.slope[keep], self.intercept[keep], self.option[keep])

    def line(self, u: Array | float) -> Ints:
        """Return which line is the lowest at u."""
        return np.asarray(np.searchsorted(self.kinks, u))


@dataclass(slots=True)
class Samples:
    """Values of one side at sampled slopes, for some pairs of target values.

    ``slopes[p]`` are those of pair p, increasing from 0; ``known[p]`` has axes (distance - 1,
    state, slope) and ``opened[p]`` (distance, slope).
    """

    nodes: Nodes
    side: SideKernels
    pairs: list[tuple[int, int]]
    free: bool
    slopes: list[Array]
    known: list[Array]
    opened: list[Array]

    @classmethod
    def begun(
        cls,
        nodes: Nodes,
        side: SideKernels,
        pairs: list[tuple[int, int]],
        steepest: float,
        free: bool,
    ) -> "Samples":
        """Return samples on a coarse grid of slopes that reaches to where nothing is left."""
        steps, states = len(side.kernels), side.size
        none = [np.zeros(0) for _ in pairs]
        samples = cls(
            nodes, side, pairs, free, none,
            [np.zeros((steps, states, 0)) for _ in pairs],
            [np.zeros((steps + 1, 0)) for _ in pairs],
        )  # fmt: skip
        top = 2.0 * steepest
        grid = np.concatenate([[0.0], np.exp(np.linspace(-top, top, 17))])
        samples.add([grid for _ in pairs])
        while top < 300 and samples._left() > NEGLIGIBLE:
            tail = np.exp(np.linspace(top, 2.0 * top, 5)[1:])
            samples.add([tail for _ in pairs])
            top *= 2.0
        return samples

    def _left(self) -> float:
        """Return the largest value at the steepest slope."""
        tops = [float(known[:, :, -1].max()) for known in self.known]
        return max(*tops, *(float(opened[:, -1].max()) for opened in self.opened))

    def add(self, slopes: list[Array]) -> None:
        """Sweep at more slopes, all pairs together."""
        which = np.repeat(np.arange(len(self.pairs)), [len(part) for part in slopes])
        ends = np.array(self.pairs)[which]  # (problems, 2)
        g = np.concatenate(slopes)
        known, opened = side_values(
            self.nodes, self.side, ends[:, 0], ends[:, 1], g, free=self.free
        )
        for pair in range(len(self.pairs)):
            mine = np.flatnonzero(which == pair)
            joined = np.concatenate([self.slopes[pair], g[mine]])
            order = np.argsort(joined, kind="stable")
            self.slopes[pair] = joined[order]
            # (..., slopes) in increasing order of slope
            both = np.concatenate([self.known[pair], known[..., mine]], axis=2)
            self.known[pair] = both[..., order]
            free = np.concatenate([self.opened[pair], opened[..., mine]], axis=1)
            self.opened[pair] = free[..., order]

    def table(self, pair: int, options: Options) -> tuple[Array, Array]:
        """Return slopes and values of each option, (options, slopes), both rounded up."""
        states, known = self.side.size, self.known[pair]
        raw = np.empty((len(options), known.shape[2]))
        for kind, rows in (
            (0, np.flatnonzero(options.column < states)),
            (1, np.flatnonzero(options.column == states)),
            (2, np.flatnonzero(options.column > states)),
        ):
            distance = options.distance[rows]
            if kind == 0:
                raw[rows] = known[distance - 1, options.column[rows]]
            elif kind == 1:
                raw[rows] = self.opened[pair][distance]
            else:
                raw[rows] = known[distance - 1].sum(axis=1)
        # a value that holds at g holds at any larger slope: slopes round up
        g = self.slopes[pair] / options.ratio[:, None] * options.pad[:, None]
        value = np.maximum(raw, 0.0) / options.mass[:, None] * options.pad[:, None]
        return g, np.minimum(value, 1.0)

    def refine(self, options: list[Options], tolerance: float) -> None:
        """Add slopes until no chord of a leading option exceeds its tangents by more."""
        leaders = [_Leaders.over(self.table(pair, o)[0]) for pair, o in enumerate(options)]
        rows = [np.arange(len(part)) for part in options]
        for _ in range(ROUNDS):
            more = [np.zeros(0) for _ in self.pairs]
            for pair, part in enumerate(options):
                # options that had no room are left out until the others have none either
                for tried in (rows[pair], np.arange(len(part))):
                    if tried.size and not more[pair].size:
                        more[pair], left = self._wanted(
                            pair, part.take(tried), tolerance, leaders[pair]
                        )
                        rows[pair] = tried[left]
            if not sum(len(part) for part in more):
                return
            self.add(more)

    def _wanted(
        self, pair: int, options: Options, tolerance: float, leaders: "_Leaders"
    ) -> tuple[Array, Ints]:
        """Return slopes where chords leave room above the tangents, and the options that do."""
        g, value = self.table(pair, options)
        width = np.diff(g, axis=1)  # (options, intervals)
        chord = np.diff(value, axis=1) / width
        # slopes of the tangents that bound V below on each interval: the neighbouring chords; at 0
        # the level is at most 1, at the end V no longer falls
        left = np.concatenate([np.full((len(g), 1), -1.0), chord[:, :-1]], axis=1)
        right = np.concatenate([chord[:, 1:], np.zeros((len(g), 1))], axis=1)
        left, right = np.minimum(left, chord), np.maximum(right, chord)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(right > left, (right - chord) / (right - left), 0.5)
        share = np.clip(share, 0.0, 1.0)
        # (places, options, intervals): where the tangents cross, and a few places between
        share = np.concatenate(
            [share[None], np.broadcast_to(BETWEEN, (len(BETWEEN), *g.shape))[..., 1:]]
        )
        place = g[:, :-1] + share * width
        top = value[:, :-1] + share * width * chord
        floor = np.maximum(value[:, :-1] + share * width * left, 0.0)
        np.maximum(floor, value[:, 1:] - (1.0 - share) * width * right, out=floor)
        # (options, slopes and crossings): what is certain from below; a chord matters only where it
        # rises above the best of these
        ends = np.concatenate([g, place[0]], axis=1)
        order = np.argsort(ends, axis=1, kind="stable")
        floors = np.concatenate([value, floor[0]], axis=1)
        leaders.learn(
            np.take_along_axis(ends, order, axis=1), np.take_along_axis(floors, order, axis=1)
        )
        leading = leaders(place)
        room = np.minimum(top - floor, top - leading)
        # relative to the curve where this slope is its tangent, V + g level, weighed towards V
        score = room / np.maximum(leading - 0.05 * place * chord, NEGLIGIBLE)
        # slopes closer than this are told apart by rounding alone
        score[:, width < 1e-9 * g[:, 1:]] = 0.0
        # the crossing is the place to try, if it is one; then (options, intervals)
        spot = np.where(score[0] > tolerance, 0, score.argmax(axis=0))
        tops = score.max(axis=0)
        # per interval the options with most room, more where sweeps are cheap (they share slopes)
        most = min(max(1, FEW_NODES // len(self.nodes.u)), len(tops))
        ranked = np.argsort(-tops, axis=0)[:most]
        rank, columns = np.nonzero(np.take_along_axis(tops, ranked, axis=0) > tolerance)
        rows = ranked[rank, columns]
        g0, g1 = self.slopes[pair][columns], self.slopes[pair][columns + 1]
        # a crossing close to an end is approached from inside
        more = g0 + np.clip(share[spot[rows, columns], rows, columns], 1e-3, 0.999) * (g1 - g0)
        more = np.unique(more)
        more = more[np.diff(more, append=np.inf) > 1e-9 * more]
        return np.asarray(more), np.flatnonzero(tops.max(axis=1) > tolerance)

    def lines(self, pair: int, options: Options) -> Lines:
        """Return the curve of the target with this side, whatever of ``options`` is the case.

        At the sampled slopes of the leading options, and where leaders change, the largest chord is
        a value of V; the lines of these values bound the curve from above.
        """
        g, value = self.table(pair, options)
        leaders = _Leaders.over(g)
        leaders.learn(g, value)
        points = np.unique(g[(value >= 0.98 * leaders(g) - NEGLIGIBLE) & (g > 0)])
        apart = 1e-12
        while apart < 1e-3:
            points = points[np.diff(points, append=np.inf) > apart * points]
            if len(points) * len(g) < MAX_CHORDS:
                break
            apart *= 10.0
        tops, option = _tops(g, value, points)
        for _ in range(4):  # a third option may lead between two leaders
            changes = _changes(g, value, points, option)
            points = np.union1d(points, changes)
            tops, option = _tops(g, value, points)
        bends = np.diff(np.diff(tops) / np.diff(points)) > 1e-13  # else within a straight piece
        kept = np.concatenate([[True], bends, [True]])
        points, tops, option = points[kept], tops[kept], option[kept]
        # a chord is rounded in units of its higher end, the sample before
        before = [np.searchsorted(g[row], x) - 1 for row, x in zip(option, points, strict=True)]
        tops += 8.0 * ROUNDOFF * value[option, np.maximum(before, 0)]
        # the line of slope 0 is 1: no probability is more
        points, tops = np.append(points[::-1], 0.0), np.append(tops[::-1], 1.0)
        option = np.append(option[::-1], 0)
        keep = _hull(points, tops)
        return Lines(points[keep], tops[keep], option[keep])


@dataclass(slots=True)
class _Leaders:
    """Roughly, from below, the largest value of all options by slope: where refining pays."""

    grid: Array
    floor: Array

    @classmethod
    def over(cls, g: Array) -> "_Leaders":
        """Return leaders over all sampled slopes, (options, slopes), of which nothing is known."""
        grid = np.exp(np.linspace(np.log(g[:, 1].min()), np.log(g[:, -1].max()), LEADERS))
        return cls(grid, np.zeros(len(grid)))

    def learn(self, g: Array, floor: Array) -> None:
        """Raise the floor to that of some options, (options, slopes)."""
        for row in range(len(g)):
            np.maximum(self.floor, np.interp(self.grid, g[row], floor[row]), out=self.floor)

    def __call__(self, place: Array) -> Array:
        """Return the floor at the next slope of the grid: values fall with the slope."""
        return np.asarray(self.floor[np.minimum(np.searchsorted(self.grid, place), LEADERS - 1)])


def _tops(g: Array, value: Array, points: Array) -> tuple[Array, Ints]:
    """Return the largest chord of all options at some slopes, and whose it is."""
    tops, option = np.full(len(points), -1.0), np.zeros(len(points), dtype=np.int64)
    for row in range(len(g)):
        chord = np.interp(points, g[row], value[row])
        option[chord > tops] = row
        np.maximum(tops, chord, out=tops)
    return tops, option


def _changes(g: Array, value: Array, points: Array, option: Ints) -> Array:
    """Return where the leading option of one point gives way to that of the next."""
    found = []
    for place in np.flatnonzero(option[1:] != option[:-1]):
        ends = points[place : place + 2]
        one, two = (np.interp(ends, g[row], value[row]) for row in option[place : place + 2])
        ahead = one - two  # positive, then negative
        if ahead[0] > ahead[1]:
            found.append(
                ends[0] + np.clip(ahead[0] / (ahead[0] - ahead[1]), 0, 1) * np.diff(ends)[0]
            )
    return np.array(found)


def _hull(slope: Array, intercept: Array) -> list[int]:
    """Return the lines on the lower envelope over u >= 0, steepest first."""
    kept: list[int] = []
    for line in range(len(slope)):
        while kept and intercept[line] <= intercept[kept[-1]]:
            kept.pop()  # flatter and lower
        while len(kept) > 1:
            first, middle = kept[-2], kept[-1]
            before = (intercept[middle] - intercept[first]) * (slope[first] - slope[line])
            after = (intercept[line] - intercept[first]) * (slope[first] - slope[middle])
            if before < after:
                break
            kept.pop()
        kept.append(line)
    return kept


def _simplified(slope: Array, intercept: Array, tolerance: float) -> list[int]:
    """Return lines of an envelope whose own is at most (1 + tolerance) times as high."""
    hull = list(range(len(slope)))
    kept, place = [hull[0]], 0
    while place < len(hull) - 1:
        reach = place + 1
        while reach + 1 < len(hull):
            first, last = hull[place], hull[reach + 1]
            corner = (intercept[last] - intercept[first]) / (slope[first] - slope[last])
            peak = intercept[first] + slope[first] * corner
            between = hull[place + 1 : reach + 1]
            floor = float((intercept[between] + slope[between] * corner).min())
            if peak > floor * (1.0 + tolerance) + 1e-17:
                break
            reach += 1
        kept.append(hull[reach])
        place = reach
    return kept


def lifted(nodes: Nodes, lines: Lines) -> Array:
    """Return values at the nodes whose chords lie above the curve of the lines, concave.

    A kink between two nodes raises both by what it stands out over the chord.
    """
    u = nodes.u
    value = lines(u)
    kinks = lines.kinks
    kinks = kinks[(kinks > u[0]) & (kinks < u[-1])]
    cell = np.searchsorted(u, kinks, side="right") - 1
    chord = value[cell] + (value[cell + 1] - value[cell]) * (kinks - u[cell]) / (
        u[cell + 1] - u[cell]
    )
    excess = np.maximum(lines(kinks) - chord, 0.0)
    raised = np.zeros(len(u))
    np.maximum.at(raised, cell, excess)
    np.maximum.at(raised, cell + 1, excess)
    if not (raised > 4.0 * ROUNDOFF * value).any():
        return value  # every kink is a node, up to the rounding that the sweep's error covers
    return _concave(u, np.minimum(value + raised, 1.0))


def _concave(u: Array, value: Array) -> Array:
    """Return the least concave function above some values."""
    hull: list[int] = []
    xs, ys = u.tolist(), value.tolist()
    for place in range(len(xs)):
        while len(hull) > 1:
            i, j = hull[-2], hull[-1]
            if (ys[j] - ys[i]) * (xs[place] - xs[i]) > (ys[place] - ys[i]) * (xs[j] - xs[i]):
                break
            hull.pop()
        hull.append(place)
    return np.maximum(np.interp(u, u[hull], value[hull]), value)
