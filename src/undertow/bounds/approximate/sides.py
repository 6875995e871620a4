"""One side of a target, exactly: the sweep over concave functions, and what is known at its end.

For a target value a against b, tests f with curve G and a slope g,

    V(g) = max over f of E[f | a] - g E[f | b],       phi_y(u) = K_1(a, y) C(u) - g K_1(b, y) u,

where C is the curve of the target itself (G), or of the target with its other side. One record more
replaces phi_y by psi_y(u) = max {phi_y(v) : u <= v <= G(u)} and phi'_z = sum_y K(y, z) psi_y. All
functions hold values at `Nodes`; arrays have axes (state, problem, node).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from undertow.bounds.approximate.nodes import Nodes
from undertow.numerics import ROUNDOFF, Array
from undertow.progress import spend

__all__ = ["Options", "SideKernels", "option_values", "rounding", "side_values"]

Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

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
        found = [np.eye(self.size)]
        for kernel in self.kernels:
            found.append(found[-1] @ kernel)
        return np.array(found)

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
    """What may be known on a side, one entry each.

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
    slopes: Array, here: Ints, found: tuple[Array, Array],
) -> None:  # fmt: skip
    """Sweep some options, farthest first, and write what they reach."""
    states = side.size
    distance, column = options.distance[here], options.column[here]

    def settle(ending: Ints, table: Array) -> None:  # table: (problems ending, nodes)
        peak = table.argmax(axis=1)
        found[0][here[ending]] = table[np.arange(len(ending)), peak]
        found[1][here[ending]] = nodes.u[peak]

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
            found[0][here[shown]] = phi[:, shown].max(axis=2).sum(axis=0)
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
