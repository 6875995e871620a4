"""Many states: messages bounded pair by pair from above, and a beam of them from below.

Let D(y, y') bound ln m(y) / m(y') over all messages m of an option. One step inwards over an output
is a non-negative matrix G[x, y] = K[x, y] B(y, z), and the ratio (G m)(x) / (G m)(x') is largest,
over all m that D allows, at most as large as over the box

    exp(-D(a, y)) <= m(y) / m(a) <= exp(D(y, a))

around any state a: there it is the largest where the states with large G[x, y] / G[x', y] take
the upper end and the others the lower, in one of k + 1 ways. The least of these values over a,
the largest over outputs, is D one step inwards. Several steps at once (all strings of outputs)
give a tighter D at a higher price.

Rounding. Each value is a ratio of sums of products of non-negative numbers and one logarithm:
4 (k + 4) roundings and 8 for each unit of the logarithms, added at every step. Values of D that
overflow count as infinite.
"""

from dataclasses import dataclass, replace

import numpy as np

from undertow.bounds.chains.known import Ints, ordered_pairs
from undertow.bounds.series.hulls import TINY, MessageHull, beam
from undertow.numerics import ROUNDOFF, Array
from undertow.progress import spend

__all__ = ["Bounded", "Strides", "next_bounds"]

LARGEST = 600.0
"""Log-ratios above it count as infinite (upper side)."""

_SCORE, _CORNER = 60.0, 25.0
"""Work of a log-ratio of a message, and of a corner of a box, in multiplications."""


@dataclass(frozen=True, slots=True)
class Strides:
    """How much work to put in: messages kept, and operations for a bound."""

    beam: int
    budget: int
    alike: bool

    @classmethod
    def of(cls, effort: int, alike: bool) -> "Strides":
        """Return the work that goes with an effort; several steps at once must be alike."""
        return cls(32 * 2**effort, 4 ** (6 + effort), alike)

    def depth(self, size: int, outputs: int) -> int:
        """Return how many steps to take at once; 0 where even one is too dear."""
        depth = int(outputs * size**4 <= self.budget)
        while self.alike and 0 < depth < 4 and outputs ** (depth + 1) * size**4 <= self.budget:
            depth += 1
        return depth


@dataclass(frozen=True, slots=True)
class Bounded:
    """Some messages of an option, and bounds on all of them.

    ``bounds`` are D now, one step ago, and so on. While no message has been left out, the
    messages themselves give D.
    """

    family: MessageHull
    bounds: tuple[Array, ...]
    complete: bool
    strides: Strides

    @classmethod
    def single(cls, message: Array, strides: Strides) -> "Bounded":
        """Return the messages of an option that has one."""
        family = MessageHull.single(message)
        return cls(family, (_exact(family),), True, strides)

    def step(self, kernel: Array, channel: Array, shrink: float) -> "Bounded":
        """Return the messages and their bounds one step inwards."""
        size, outputs = channel.shape
        family = self.family
        spend(_SCORE * family.count * outputs * size**2)
        moved, some = family.moved(kernel, channel)
        short = len(some) <= 4 * self.strides.beam and moved.min(initial=1.0) >= TINY
        complete = self.complete and short
        every = np.arange(len(some), dtype=np.int64)
        keep = every if complete else beam(moved, kernel, self.strides.beam)
        error = family.error + 2 * (size + 4) * ROUNDOFF
        after = MessageHull(moved[keep], some[keep] // outputs, some[keep] % outputs, error)
        bound = _exact(after) if complete else self._bound(kernel, channel)
        depth = max(1, self.strides.depth(size, outputs))
        return replace(self, family=after, bounds=(bound, *self.bounds)[:depth], complete=complete)

    @property
    def count(self) -> int:
        """The number of messages kept."""
        return self.family.count

    def bare(self) -> "Bounded":
        """Return the messages without what only the next step needs."""
        return replace(self, family=self.family.bare())

    def ratios(self, value: Ints, other: Ints) -> tuple[Array, Array]:
        """Return the largest log-ratio found of each pair of states, and upper ends."""
        return self.family.ratios(value, other)[0], self.bounds[0][value, other]

    def best(self, value: int, other: int) -> int:
        """Return the message with the largest log-ratio of a pair of states."""
        return self.family.best(value, other)

    def source(self, place: int) -> tuple[int, int]:
        """Return which message one came from, and through which output."""
        return self.family.source(place)

    def _bound(self, kernel: Array, channel: Array) -> Array:
        """Return D from D one step ago, and from D several steps ago where all were alike."""
        if not self.strides.depth(*channel.shape):
            return np.full(kernel.shape, np.inf)
        links = kernel * channel.T[:, None, :]  # (z, x, y)
        bound = next_bounds(links, self.bounds[0])
        product = links
        for earlier in self.bounds[1:]:
            spend(len(product) * channel.shape[1] * len(kernel) ** 3)
            # (strings of outputs, x, y)
            product = np.einsum("axk,bky->abxy", links, product).reshape(-1, *kernel.shape)
            product = product / product.max(axis=(1, 2), keepdims=True).clip(min=1e-300)
            last = earlier
        if len(self.bounds) > 1:
            bound = np.minimum(bound, next_bounds(product, last))
        return bound


def next_bounds(links: Array, bounds: Array) -> Array:
    """Return D one step inwards, over all maps ``links`` (z, k, k), rounded up.

    >>> two = np.array([[[.9, .1], [.1, .9]]])
    >>> next_bounds(two, np.array([[0, 1.0], [1.0, 0]])).round(6)
    array([[0.      , 0.776137],
           [0.776137, 0.      ]])
    """
    size = len(bounds)
    value, other = ordered_pairs(size)
    wide = np.where(bounds > LARGEST, np.inf, bounds)
    with np.errstate(over="ignore"):
        high, low = np.exp(wide.T), np.exp(-wide)  # (a, y)
    result = np.full(len(value), -np.inf)
    spend(_CORNER * len(links) * size**2 * len(value), calls=8 * len(links))
    for link in links:
        # the extreme of a ratio of sums over a box is at a corner that switches once along this
        # order
        top, bottom = link[value], link[other]  # (D, y)
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-(top / bottom), axis=1)  # what neither reaches comes last
        top, bottom = np.take_along_axis(top, order, 1), np.take_along_axis(bottom, order, 1)
        up, down = high[:, order], low[:, order]  # (a, D, y)
        with np.errstate(divide="ignore", invalid="ignore"):
            above = _switched(top * up, top * down)
            below = _switched(bottom * up, bottom * down)
            found = np.log(above) - np.log(below)  # (a, D, k + 1)
        # (D,): the worst corner, in the best box
        found = np.where(np.isnan(found), np.inf, found).max(axis=2).min(axis=0)
        never = ~(top > 0).any(axis=1)
        result = np.maximum(result, np.where(never, -np.inf, found))
    finite = np.where(np.isfinite(result), np.abs(result), 0.0)
    scale = np.where(np.isfinite(bounds), np.abs(bounds), 0.0).max(initial=0.0)
    slack = (4 * (size + 4) + 8 * (1 + finite + scale)) * ROUNDOFF
    square = np.zeros((size, size))
    square[value, other] = np.where(result > LARGEST, np.inf, result + slack)
    return square


def _switched(upper: Array, lower: Array) -> Array:
    """Return sums of the first s terms of one and the others of the other, s = 0 .. k."""
    shape = (*upper.shape[:2], 1)
    head = np.concatenate([np.zeros(shape), np.cumsum(upper, axis=2)], axis=2)  # (a, D, k + 1)
    tail = np.concatenate([np.cumsum(lower[..., ::-1], axis=2)[..., ::-1], np.zeros(shape)], axis=2)
    return np.asarray(head + tail)


def _exact(family: MessageHull) -> Array:
    size = family.points.shape[1]
    value, other = ordered_pairs(size)
    square = np.zeros((size, size))
    square[value, other] = family.ratios(value, other)[1] + 64 * ROUNDOFF
    return square
