"""Where concave functions are kept: nodes that a sweep over records maps into each other.

Every function of a sweep is concave and linear between nodes. One record replaces phi by

    psi(u) = max {phi(v) : u <= v <= G(u)},

again linear between nodes if the nodes hold their preimages under G. Axes here and in `sides`:
(state, problem, node).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from undertow.numerics import Array

__all__ = ["Nodes", "PolygonNodes", "ShiftNodes", "closed_nodes"]

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
    found, cut = [front], False
    for _ in range(depth):
        front = front[(front > g[0]) & (front < 1.0)]
        front = np.interp(front, levels, places)
        cut |= bool((front < TINY).any())
        front = front[front >= TINY]
        if not front.size:
            break
        found.append(front)
    merged = np.unique(np.concatenate(found))
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
