"""Leakage of all algorithms with a given curve on a Markov chain: delta at epsilon, and back.

Certified upper bounds of delta(epsilon) = sup over algorithms, targets, values and what is known,
of Pr[S | x_i = a, x_K] - e^epsilon Pr[S | x_i = b, x_K]. One side is exact (Theorem 3); the two
sides of a target meet in an upper bound (Theorem 4); any length costs an additive eta (Theorem 5).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.levels.sides import extremes, ordered_pairs, start_error
from undertow.errors import InvalidInput, NotSupported
from undertow.models.chains import MarkovChain
from undertow.numerics import (
    NDTR,
    ROUNDOFF,
    Array,
    check_count,
    check_positive,
    freeze,
    log_ratio,
    pad_log,
    up,
)
from undertow.progress import spend

__all__ = [
    "AttainedWindow",
    "ChainSides",
    "Curve",
    "GaussianGrid",
    "Lines",
    "Nodes",
    "Options",
    "Polygon",
    "PolygonNodes",
    "Samples",
    "ShiftNodes",
    "SideKernels",
    "SweepBound",
    "SweptOrder",
    "choose_windows",
    "closed_nodes",
    "concave_nodes",
    "lifted",
    "one_sided_value",
    "option_values",
    "polygon_of_lines",
    "rounding",
    "side_values",
    "sweep_bound",
    "sweep_delta",
    "sweep_epsilon",
    "tangent_lines",
]


Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

MERGED = 2e-15
"""Relative distance at which two nodes count as one; part of the rounding error of a sweep."""

TINY = 1e-280
"""Nodes below are left out; the curve is raised to the least one that is kept (upper side)."""


class Nodes(Protocol):
    """Nodes ``u``, the curve ``g`` there, and what one record does to functions on them."""

    @property
    def u(self) -> Array:
        """The nodes, increasing."""

    @property
    def g(self) -> Array:
        """The curve at the nodes."""

    @property
    def slack(self) -> float:
        """What clipping tests to the nodes costs in delta, per 1 + e^epsilon."""

    def widen(self, phi: Array) -> Array:
        """Return max {phi(v) : u <= v <= G(u)} along the last axis."""


@dataclass(frozen=True, slots=True, eq=False)
class PolygonNodes:
    """Nodes of a piecewise linear curve, with G(u_j) between the nodes ahead[j], ahead[j] + 1."""

    u: Array
    g: Array
    ahead: Ints
    share: Array
    first: Ints
    slack: float = 0.0

    def widen(self, phi: Array) -> Array:
        """Return the largest value between u and G(u); by concavity an end, unless the top is."""
        peak = phi.argmax(axis=-1)[..., None]  # (states, problems, 1)
        # (states, problems, nodes): phi at G(u), linear between two nodes
        psi = np.take(phi, self.ahead, axis=-1, mode="clip")
        step = np.take(phi, self.ahead + 1, axis=-1, mode="clip")
        step -= psi
        step *= self.share
        psi += step
        np.maximum(psi, phi, out=psi)
        place = np.arange(len(self.u))
        inside = place <= peak
        inside &= place >= self.first[peak]
        np.copyto(psi, np.take_along_axis(phi, peak, axis=-1), where=inside)
        return psi


@dataclass(frozen=True, slots=True, eq=False)
class ShiftNodes:
    """Nodes on which the curve is a shift of the index by ``shift``, capped at the last node.

    The last node is held ``shift`` more times, so that a shifted index stays inside its row.
    """

    u: Array
    shift: int

    @classmethod
    def padded(cls, u: Array, shift: int) -> "ShiftNodes":
        """Return the nodes with the last one repeated."""
        return cls(np.append(u, np.full(shift, u[-1])), shift)

    @property
    def g(self) -> Array:
        """The curve at the nodes."""
        return np.append(self.u[self.shift :], np.full(self.shift, self.u[-1]))

    @property
    def slack(self) -> float:
        """Phi(-span), rounded up; the last node is at least as close to 1."""
        return float(self.u[0]) * (1.0 + 1e-10)

    def widen(self, phi: Array) -> Array:
        """Return the largest of shift + 1 neighbours, by doubling windows.

        Rows are joined to one (all states, problems and nodes): windows that reach into the next
        row belong to repeated nodes, which keep their value.
        """
        flat, width = phi.reshape(-1), 1
        while width <= self.shift:
            step = min(width, self.shift + 1 - width)
            wider = np.empty_like(flat)
            np.maximum(flat[:-step], flat[step:], out=wider[:-step])
            wider[-step:] = flat[-step:]
            flat, width = wider, width + step
        psi = flat.reshape(phi.shape)
        psi[..., -self.shift :] = phi[..., -self.shift :]
        return psi


def closed_nodes(u: Array, g: Array, depth: int, seeds: Array) -> PolygonNodes:
    """Return the nodes of a polygon (u, g) with all preimages of its nodes and of ``seeds``.

    B_{t+1} = B_t + G^{-1}(B_t), ``depth`` times. Values below G(0) have no preimage, and 1 has the
    end of the flat part, a node already.
    """
    rising = np.concatenate([[True], np.diff(g) > 0])  # the flat end at 1 has one preimage
    levels, places = g[rising], u[rising]
    front = np.unique(np.concatenate([u, seeds[(seeds > 0) & (seeds < 1)]]))
    fronts, cut = [front], False
    for _ in range(depth):
        front = front[(front > g[0]) & (front < 1.0)]
        front = np.interp(front, levels, places)
        cut |= bool((front < TINY).any())
        front = front[front >= TINY]
        if not front.size:
            break
        fronts.append(front)
    merged = np.unique(np.concatenate(fronts))
    keep = np.concatenate([[True], np.diff(merged) > MERGED * merged[1:]])
    keep[-1] = True
    nodes = merged[keep]
    if len(nodes) > 2 and 1.0 - nodes[-2] < MERGED:
        nodes = np.delete(nodes, -2)
    values = np.maximum(np.interp(nodes, u, g), nodes)
    if cut:
        values[0] = values[1]
    ahead = np.minimum(np.searchsorted(nodes, values, side="right") - 1, len(nodes) - 2)
    share = np.clip((values - nodes[ahead]) / (nodes[ahead + 1] - nodes[ahead]), 0.0, 1.0)
    # first[i]: the least node whose image reaches node i
    first = np.searchsorted(values, nodes * (1.0 - MERGED), side="left")
    return PolygonNodes(nodes, values, ahead, share, first)


BLOCK = 1 << 14
"""Numbers swept at once, so that they stay in the cache (memory)."""

_CARRIED = 0.15
"""Work of a number carried one record on, in multiplications for each state and twenty more."""


def rounding(steps: Ints, states: int) -> Array:
    """Return the relative error of a sweep over so many records, in E_a f and in g E_b f apart.

    A value is E_a f - g E_b f for some test f, computed by sums of products of nonnegative kernels
    with numbers no larger than these two; moving a node by a relative r costs at most r phi(u)
    where phi rises (phi is concave, phi(0) >= 0) and r g E_b f where it falls (f >= u). So a sweep
    at g (1 - 2r), raised by 1 + 2r, is certified; no absolute error is left. Each record costs
    k + 4 roundings for its sums, the rest is for nodes and their merging.
    """
    return np.asarray((steps + 3.0) * (states + 40.0) * 2.0 * ROUNDOFF)


@dataclass(frozen=True)
class SideKernels:
    """The kernels of the records on one side, from the target outwards."""

    kernels: tuple[Array, ...]

    @property
    def size(self) -> int:
        """The number of states."""
        return int(self.kernels[0].shape[0])

    @cached_property
    def products(self) -> Array:
        """Products of the first t kernels, t = 0 .. steps; axes (distance, from, to)."""
        powers = [np.eye(self.size)]
        for kernel in self.kernels:
            powers.append(powers[-1] @ kernel)
        return np.array(powers)

    def options(self, distances: Ints, columns: Ints, a: int, b: int) -> "Options":
        """Return the options that are possible with both values of the target."""
        known = columns < self.size
        column = np.where(known, columns, 0)
        # (options,): probability of the known value given a and b; 1 where nothing is known
        mass = np.where(known, self.products[distances, a, column], 1.0)
        other = np.where(known, self.products[distances, b, column], 1.0)
        possible = (mass > 0) & (other > 0)
        pad = 1.0 + 8.0 * rounding(distances[possible], self.size)
        return Options(
            distances[possible], columns[possible], mass[possible],
            mass[possible] / other[possible], pad,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Options:
    """Possible knowledge on a side, one entry each.

    ``column`` v < k: value v at ``distance``, nothing nearer. Column k: nothing known, ``distance``
    records. Column k + 1: nothing known, at least that many records; the record at ``distance`` is
    revealed (upper bound). ``mass`` is the probability of the known value given a, ``ratio`` that
    over the probability given b; ``pad`` covers the rounding of both and of the sweep (`rounding`).
    """

    distance: Ints
    column: Ints
    mass: Array
    ratio: Array
    pad: Array

    def __len__(self) -> int:
        return len(self.distance)

    def take(self, which: Ints) -> "Options":
        """Return some of the options."""
        return Options(
            self.distance[which], self.column[which], self.mass[which],
            self.ratio[which], self.pad[which],
        )  # fmt: skip


def _starts(nodes: Nodes, kernel: Array, curve: Array, a: Ints, b: Ints, g: Array) -> Array:
    """Return phi_y(u) = K(a, y) C(u) - g K(b, y) u; axes (state, problem, node)."""
    phi = kernel[a].T[:, :, None] * curve
    phi -= (g[:, None] * kernel[b]).T[:, :, None] * nodes.u
    return np.asarray(phi)


def _carried(kernel: Array, psi: Array) -> Array:
    """Return sum_y K(y, z) psi_y; axes (state, problem, node)."""
    spend(_CARRIED * psi.size * (len(psi) + 20))
    states = len(psi)
    return np.asarray((kernel.T @ psi.reshape(states, -1)).reshape(-1, *psi.shape[1:]))


def _blocks(count: int, states: int, nodes: int) -> Iterator[slice]:
    size = max(1, BLOCK // (states * nodes))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def side_values(
    nodes: Nodes, side: SideKernels, a: Ints, b: Ints, g: Array, *, free: bool
) -> tuple[Array, Array]:
    """Return max_u phi^(t)_v(u), (steps, k, problems), and open values, (steps + 1, problems).

    Problem p compares a[p] with b[p] at slope g[p], under the curve of the nodes. Open values are
    left at 0 unless ``free``. Not rounded: `Options.pad` covers it. Cost O(steps k^2) per problem
    and node.
    """
    steps, states, count = len(side.kernels), side.size, len(g)
    known = np.zeros((steps, states, count))
    opened = np.zeros((steps + 1, count))
    curve = nodes.g
    for part in _blocks(count, states, len(nodes.u)):
        opened[0, part] = (curve - g[part, None] * nodes.u).max(axis=1)
        phi = _starts(nodes, side.kernels[0], curve, a[part], b[part], g[part])
        for step in range(steps):
            known[step, :, part] = phi.max(axis=2)  # (states, problems)
            if step + 1 == steps and not free:
                break
            psi = nodes.widen(phi)
            if free:
                opened[step + 1, part] = psi.sum(axis=0).max(axis=1)
            if step + 1 < steps:
                phi = _carried(side.kernels[step + 1], psi)
    return known, opened


def option_values(
    nodes: Nodes, curve: Array, side: SideKernels, pair: tuple[int, int], options: Options, g: float
) -> tuple[Array, Array]:
    """Return V of every option at slope g (rounded up), and the node that attains it.

    The sweep starts from ``curve`` (at the nodes). A known value needs no bridges: with
    g' = g P^c(a, v) / P^c(b, v), V = max_u phi^(c)_v(u) / P^c(a, v). Problems leave the sweep at
    their distance.
    """
    values, places = np.zeros(len(options)), np.zeros(len(options))
    order = np.argsort(-options.distance, kind="stable")
    slopes = g * options.ratio / options.pad  # rounded down: V falls with g
    for part in _blocks(len(options), side.size, len(nodes.u)):
        _sweep_options(nodes, curve, side, pair, options, slopes, order[part], (values, places))
    return np.minimum(np.maximum(values, 0.0) / options.mass * options.pad, 1.0), places


def _sweep_options(
    nodes: Nodes, curve: Array, side: SideKernels, pair: tuple[int, int], options: Options,
    slopes: Array, here: Ints, values: tuple[Array, Array],
) -> None:  # fmt: skip
    """Sweep some options, farthest first, and write their values."""
    states = side.size
    distance, column = options.distance[here], options.column[here]

    def settle(ending: Ints, table: Array) -> None:  # table: (problems ending, nodes)
        peak = table.argmax(axis=1)
        values[0][here[ending]] = table[np.arange(len(ending)), peak]
        values[1][here[ending]] = nodes.u[peak]

    at_target = np.flatnonzero(distance == 0)
    if at_target.size:
        settle(at_target, curve - slopes[here[at_target], None] * nodes.u)
    alive = int((distance > 0).sum())
    if not alive:
        return
    a, b = (np.full(alive, value) for value in pair)
    phi = _starts(nodes, side.kernels[0], curve, a, b, slopes[here[:alive]])
    for step in range(1, int(distance[0]) + 1):
        ending = np.flatnonzero(distance[:alive] == step)
        last = len(ending) == alive
        known = ending[column[ending] < states]
        if known.size:
            settle(known, phi[column[known], known])
        shown = ending[column[ending] > states]
        if shown.size:
            settle(shown, phi[:, shown].sum(axis=0))
            values[0][here[shown]] = phi[:, shown].max(axis=2).sum(axis=0)
        free = ending[column[ending] == states]
        if last and not free.size:
            return
        psi = nodes.widen(phi)
        if free.size:
            settle(free, psi[:, free].sum(axis=0))
        alive -= len(ending)
        if not alive:
            return
        phi = _carried(side.kernels[step], np.ascontiguousarray(psi[:, :alive]))


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
        """Crossings of neighbouring lines."""
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
        keep = _lower_envelope(points, tops)
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
    changes = []
    for place in np.flatnonzero(option[1:] != option[:-1]):
        ends = points[place : place + 2]
        one, two = (np.interp(ends, g[row], value[row]) for row in option[place : place + 2])
        ahead = one - two  # positive, then negative
        if ahead[0] > ahead[1]:
            changes.append(
                ends[0] + np.clip(ahead[0] / (ahead[0] - ahead[1]), 0, 1) * np.diff(ends)[0]
            )
    return np.array(changes)


def _lower_envelope(slope: Array, intercept: Array) -> list[int]:
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
    most = np.minimum(value + raised, 1.0)
    hull = concave_nodes(u.tolist(), most.tolist())
    return np.maximum(np.interp(u, u[hull], most[hull]), most)


def concave_nodes(u: Sequence[float], g: Sequence[float]) -> list[int]:
    """Return the points on the least concave polygon above points (u, g), from left to right.

    >>> concave_nodes([0.0, 0.5, 1.0], [0.0, 0.4, 1.0])
    [0, 2]
    """
    hull: list[int] = []
    for place in range(len(u)):
        while len(hull) > 1:
            i, j = hull[-2], hull[-1]
            if (g[j] - g[i]) * (u[place] - u[i]) > (g[place] - g[i]) * (u[j] - u[i]):
                break
            hull.pop()  # below the chord of its neighbours
        hull.append(place)
    return hull


SupportLines = Sequence[tuple[float, float]]

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


def polygon_of_lines(lines: SupportLines) -> Polygon:
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
        from scipy.special import ndtr  # its import costs more than a question without a delta

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


Curve = Polygon | GaussianGrid

MAX_REACH = 128
"""Records swept on one side at most (a cost limit; a larger eta is charged instead)."""

MAX_ROWS = 24
"""Positions of the target tried apart; in longer series neighbours share the larger rooms."""

MAX_NODES = 6000
"""Nodes for the kinks of one curve; beyond, kinks are rounded away upwards (a cost limit)."""

SIMPLER = 0.02
"""Tolerance of the curve in that of its values: values are differences of larger numbers."""

NEGLIGIBLE_ETA = 1e-6
"""Share of epsilon that truncation may cost; the reach is the first that does (upper side)."""

_RATIO, _OPTION = 12.0, 75.0
"""Work of a ratio of two probabilities, and of an option of a side, in multiplications."""

Room = int | None
"""Number of records on a side; None for more than the reach."""


@dataclass(frozen=True, slots=True)
class AttainedWindow:
    """What a bound is attained for: the pair, and (distance, value) known on either side.

    A side of which nothing is known has value None.
    """

    pair: tuple[int, int]
    left: tuple[int, int | None]
    right: tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class ChainSides:
    """The sides of a chain, the rooms (left, right) to try, and what truncation costs."""

    left: SideKernels
    right: SideKernels
    rows: tuple[tuple[Room, Room], ...]
    reach: int
    eta: float
    mirrored: bool


def choose_windows(
    chain: MarkovChain, epsilon: float, against: Against, reach: int | None
) -> ChainSides:
    """Return the windows whose bounds together cover every target of the chain.

    All states must be visited and the start stationary. Rooms are as large as the length allows:
    more records never give less, as a test may ignore them.
    """
    if against not in ("any", "ignorant"):
        raise NotSupported("the sweep is built for against='any' and 'ignorant'")
    if not chain.homogeneous or not isinstance(chain.start, str):
        raise NotSupported(
            "the sweep needs one transition matrix and a stationary start; the closed exchange "
            "serves chains with a given start or differing steps"
        )
    forward = np.asarray(chain.transition)
    weights = chain.initial
    # (from, to) read backwards: pi_y P(y, x) / pi_x
    backward = (forward * weights[:, None]).T / weights[:, None]
    backward /= backward.sum(axis=1, keepdims=True)
    most = MAX_REACH if chain.length is None else min(MAX_REACH, chain.length - 1)
    if reach is None:
        reach, eta = _choose_reach(forward, backward, NEGLIGIBLE_ETA * epsilon, most)
    else:
        reach = min(check_count(reach, "reach", 1), most)
        *_, eta = _etas(forward, backward, reach)
    rows = _rows(chain.length, reach)
    beyond = any(room is None for row in rows for room in row)
    if against == "ignorant" or not beyond:
        eta = 0.0
    if not math.isfinite(eta):
        raise NotSupported(
            "some values never become possible together, however far a known record is, so no "
            "finite reach bounds a series of this length; the closed exchange serves such chains"
        )
    mirrored = bool(np.allclose(forward, backward, rtol=1e-12, atol=0.0))
    if mirrored:
        rows = tuple(row for row in rows if _size(row[0]) <= _size(row[1]))
    return ChainSides(
        SideKernels((backward,) * reach), SideKernels((forward,) * reach), rows, reach,
        eta + start_error(chain), mirrored,
    )  # fmt: skip


def _size(room: Room) -> float:
    return math.inf if room is None else float(room)


def _etas(forward: Array, backward: Array, most: int) -> Iterator[float]:
    """Yield for reach 1 .. most how far ln P^d(a, z)/P^d(b, z) oscillates, both sides added."""
    value, other = ordered_pairs(len(forward))
    products = [np.eye(len(forward))] * 2
    for step in range(1, most + 1):
        spend(_RATIO * len(value) * len(forward))
        total = 2.0 * pad_log(step, len(forward))
        for side, kernel in enumerate((forward, backward)):
            products[side] = products[side] @ kernel
            if (products[side] <= 0).any():
                total = math.inf
                continue
            ratios = log_ratio(products[side][value], products[side][other])  # (pairs, z)
            low, high = extremes(ratios, axis=1)
            total += float((high - low).max()) + pad_log(step, len(forward))
        yield total


def _choose_reach(
    forward: Array, backward: Array, negligible: float, most: int
) -> tuple[int, float]:
    """Return the distance up to which sides are swept, and the cost eta of longer ones."""
    for reach, eta in enumerate(_etas(forward, backward, most), start=1):
        if eta <= negligible or reach == most:
            break
    return reach, eta


def _rows(length: int | None, reach: int) -> tuple[tuple[Room, Room], ...]:
    """Return the rooms (left, right) of all targets, neighbouring targets joined if many."""
    if length is None or length - 1 >= 2 * (reach + 1):
        return ((None, None),)
    others = length - 1
    size = -(-length // MAX_ROWS)
    rows = []
    for first in range(0, length, size):
        last = min(first + size - 1, others)
        left, right = others - first, last
        rows.append((left if left <= reach else None, right if right <= reach else None))
    return tuple(dict.fromkeys(rows))


def side_options(side: SideKernels, room: Room, against: Against, pair: tuple[int, int]) -> Options:
    """Return the options of a side with that many records."""
    states, reach = side.size, len(side.kernels)
    last = reach if room is None else room
    distances, columns = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if against == "any":
        distances = np.repeat(np.arange(1, last + 1), states)
        columns = np.tile(np.arange(states), last)
    if room is not None:  # nothing known; in a room beyond reach the known cover it (Theorem 5)
        distances, columns = np.append(distances, room), np.append(columns, states)
    elif against != "any":
        distances, columns = np.append(distances, reach), np.append(columns, states + 1)
    spend(_OPTION * len(distances))
    return side.options(distances, columns, *pair)


@dataclass(slots=True)
class SweptOrder:
    """One order of the sides: curves of the inner one, swept on along the outer one."""

    curve: Curve
    inner: SideKernels
    outer: SideKernels
    against: Against
    pairs: list[tuple[int, int]]
    samples: Samples | None = None
    starts: dict[tuple[Room, int], tuple[Nodes, Array, Lines, Options]] = field(
        default_factory=dict
    )

    def _start(self, room: Room, pair: int) -> tuple[Nodes, Array, Lines, Options]:
        """Return nodes for the outer side, the curve there, its lines and the inner options."""
        if (room, pair) not in self.starts:
            if self.samples is None:
                self.samples = Samples.begun(
                    self.curve.nodes(len(self.inner.kernels)), self.inner, self.pairs,
                    self.curve.steepest, free=True,
                )  # fmt: skip
            tolerance = self.curve.tolerance
            options = [side_options(self.inner, room, self.against, ends) for ends in self.pairs]
            self.samples.refine(options, tolerance)
            for at in range(len(self.pairs)):
                size, exact = SIMPLER * tolerance, self.samples.lines(at, options[at])
                lines = exact.simplified(size)
                while len(lines.slope) * len(self.outer.kernels) > MAX_NODES and size < 1e-2:
                    size *= 4.0
                    lines = exact.simplified(size)
                nodes = self.curve.nodes(len(self.outer.kernels), lines.kinks)
                self.starts[room, at] = nodes, lifted(nodes, lines), lines, options[at]
        return self.starts[room, pair]

    def outer_options(self, room: Room, pair: int) -> Options:
        """Return the options of the outer side."""
        return side_options(self.outer, room, self.against, self.pairs[pair])

    def values(self, room: Room, pair: int, options: Options, g: float) -> tuple[Array, Array]:
        """Return the bound at slope g for every outer option (rounded up), and where it is met."""
        nodes, start, _, _ = self._start(room, pair)
        values, places = option_values(nodes, start, self.outer, self.pairs[pair], options, g)
        return np.minimum(values + nodes.slack * (1.0 + g), 1.0), places

    def inner_option(self, room: Room, pair: int, place: float) -> tuple[int, int | None]:
        """Return the inner option behind the line that is met at a place."""
        _, _, lines, options = self._start(room, pair)
        return shown(options, int(lines.option[int(lines.line(place))]), self.inner.size)


def shown(options: Options, which: int, states: int) -> tuple[int, int | None]:
    """Return an option as (distance, value), value None where nothing is known."""
    column = int(options.column[which])
    return int(options.distance[which]), column if column < states else None


def possible_pairs(chain: MarkovChain) -> list[tuple[int, int]]:
    """Return all ordered pairs of states as plain numbers."""
    value, other = ordered_pairs(chain.size)
    if not len(value):
        raise InvalidInput("a chain with one state has nothing to tell apart")
    return [(int(x), int(y)) for x, y in zip(value, other, strict=True)]


def alive_after(values: Array, alive: Ints, threshold: float) -> Ints:
    """Return the options whose bound still exceeds a threshold; it only falls with g."""
    return np.asarray(alive[values > threshold])


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

    >>> from undertow.bounds.curves.sweep import polygon_of_lines
    >>> P = np.array([[.882, .118], [.305, .695]])
    >>> round(one_sided_value(polygon_of_lines([(1.0, 0.0)]), [P], 1, 0, math.e), 10)
    0.2666415997
    """
    stack = tuple(np.asarray(kernel, dtype=np.float64) for kernel in kernels)
    if a == b:
        raise InvalidInput(f"two different values are compared, found {a} twice")
    # without kernels the one given is never used: the target stands alone
    side = SideKernels(stack or (np.eye(max(a, b) + 1),))
    options = side.options(np.array([len(stack)]), np.array([side.size]), a, b)
    nodes = curve.nodes(len(stack))
    value, _ = option_values(nodes, nodes.g, side, (a, b), options, g)
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

    >>> from undertow.bounds.curves.sweep import polygon_of_lines
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

    >>> from undertow.bounds.curves.sweep import polygon_of_lines
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
        """Return the bound at slope g and its window, above ``threshold`` only.

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
                    reward, seen = self._one(key, g, threshold, left_over)
                    if reward < value:
                        value, window = reward, seen
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
