"""Which records had an attacker on a two-state tree better know? A search, for lower ends only.

Behind an edge, each choice of known records and values gives a pair (l, s): how far it shifts the
odds at the edge, and what it lets the attacker learn through it. For equal l only the largest s
matters, so a few points spread over l are kept for each edge, from the leaves to the target. The
choice found is then evaluated exactly by `Branches`; nothing here needs to be right.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from undertow.bounds.trees.branches import Branches, Ints
from undertow.numerics import Array

__all__ = ["likely_facts"]

POINTS = 32
"""Points kept for each edge."""


@dataclass(frozen=True, slots=True)
class _Points:
    """Pairs (l, s) behind an edge; ``origin`` is a row of ``choices``, or -1 - a known value.

    ``choices`` has a column for each edge farther out: which of its points was taken.
    """

    shifts: Array
    gains: Array
    origin: Ints
    choices: Ints
    beyond: tuple[int, ...]


def likely_facts(
    branches: Branches, target: int, pair: tuple[int, int], most: int
) -> dict[int, int]:  # fmt: skip
    """Return known records and values that make one target's pair of values easy to tell apart.

    Looks at the ``most`` nearest nodes.

    >>> kernel = np.array([np.zeros((2, 2)), *[[[.9, .1], [.2, .8]]] * 4])
    >>> from undertow.bounds.trees.branches import neighbours
    >>> parent, record = np.arange(-1, 4), np.ones(5, dtype=bool)
    >>> path = Branches(parent, kernel, kernel, record, 0.0, 3.0, neighbours(parent))
    >>> likely_facts(path, 0, (0, 1), 9)
    {3: 1}
    """
    near = branches.region(target, most)
    facts: dict[int, int] = {}
    for first in branches.around[target]:
        order = branches.outwards(first, target, (), near)
        if not order:
            continue
        wanted = branches.wanted(order, target, pair)
        points: dict[int, _Points] = {}
        farther: dict[int, list[int]] = {}
        for node, before in order:
            farther.setdefault(before, []).append(node)
        for node, before in reversed(order):
            beyond = tuple(farther.get(node, ()))
            points[node] = _behind(branches, node, before, wanted, [points[b] for b in beyond],
                                   beyond)  # fmt: skip
        stack = [(first, int(np.argmax(points[first].gains)))]
        while stack:
            node, chosen = stack.pop()
            origin = int(points[node].origin[chosen])
            if origin < 0:
                facts[node] = -1 - origin
                continue
            row = points[node].choices[origin].tolist()
            stack += list(zip(points[node].beyond, row, strict=True))
    return facts


def _behind(
    branches: Branches, node: int, before: int, wanted: dict[int, tuple[int, int]],
    farther: Sequence[_Points], beyond: tuple[int, ...],
) -> _Points:  # fmt: skip
    """Return the points of one edge from those of the edges farther out."""
    shifts = np.zeros(1)
    gains = np.array([branches.epsilon if branches.record[node] else 0.0])
    choices = np.zeros((1, 0), dtype=np.int64)
    for points in farther:
        both = np.add.outer(shifts, points.shifts).ravel()  # (kept points x points of the edge,)
        more = np.add.outer(gains, points.gains).ravel()
        rows = np.repeat(choices, len(points.shifts), axis=0)  # (combinations, edges so far)
        last = np.tile(np.arange(len(points.shifts)), len(shifts))[:, None]
        kept = _kept(both, more)
        shifts, gains = both[kept], more[kept]
        choices = np.hstack([rows, last])[kept]  # (kept, edges so far + 1)
    kernel = branches.kernel(node, before)
    x, other = wanted[before]
    end = gains if wanted[node] == (0, 1) else -gains
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(kernel[:, 0]) - np.log(kernel[:, 1])  # (2,)
        learnt = _gain(odds[x] + shifts, end) - _gain(odds[other] + shifts, end)
        moved = np.logaddexp(np.log(kernel[0, 0]) + shifts, np.log(kernel[0, 1])) - np.logaddexp(
            np.log(kernel[1, 0]) + shifts, np.log(kernel[1, 1])
        )
        told = np.log(kernel[0]) - np.log(kernel[1])  # (2,): shifts where the node itself is known
    if branches.record[node]:
        moved, learnt = np.append(moved, told), np.append(learnt, [0.0, 0.0])
    origin = np.arange(len(moved))
    origin[len(gains) :] = -1 - np.arange(len(moved) - len(gains))
    fine = np.flatnonzero(np.isfinite(moved) & np.isfinite(learnt))
    if not fine.size:
        fine, moved, learnt = np.array([0]), np.zeros(1), np.zeros(1)
    kept = fine[_kept(moved[fine], learnt[fine])]
    return _Points(moved[kept], learnt[kept], origin[kept], choices, beyond)


def _kept(shifts: Array, gains: Array) -> Ints:
    """Return the places of the largest gain in each of a few ranges of the shift."""
    if len(shifts) <= POINTS:
        return np.arange(len(shifts))
    low, high = float(shifts.min()), float(shifts.max())
    cell = np.minimum(((shifts - low) / max(high - low, 1e-300) * POINTS).astype(int), POINTS - 1)
    order = np.lexsort((gains, cell))  # by range of the shift, then by gain
    # the largest gain of each range
    last = np.append(np.flatnonzero(np.diff(cell[order])), len(order) - 1)
    return np.asarray(order[last])


def _gain(odds: Array, end: Array) -> Array:
    return np.asarray(np.logaddexp(0.0, odds + end) - np.logaddexp(0.0, odds))
