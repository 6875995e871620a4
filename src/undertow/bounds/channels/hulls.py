"""Messages of a side of a chain with few states: the corners of a convex hull.

Log-ratios of a message are largest at corners, and a step keeps hulls. What is dropped is certified
by a combination of kept messages within a factor e^delta, which later steps shrink (docs, theory:
flipped series, more states). A step adds 2 (k + 4) roundings to a log-ratio.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from undertow import progress
from undertow.bounds.channels.two_states import TAIL, ObservedChain, Option, Rung, gains, primitive
from undertow.bounds.levels.sides import Ints, log, ordered_pairs
from undertow.errors import EffortSpent
from undertow.numerics import ROUNDOFF, Array, log_ratio, log_sum
from undertow.progress import spend

__all__ = [
    "LEAST",
    "TINY",
    "Bounded",
    "Cover",
    "FewStates",
    "MessageHull",
    "Strides",
    "beam",
    "contraction",
    "diameters",
    "next_bounds",
    "prune",
]


SAME = 64 * ROUNDOFF
"""Messages that differ by no more than this in every logarithm are one (charged to the upper)."""

INSIDE = 1e-12
"""Largest delta with which a message may be dropped (charged to the upper end)."""

TINY = 1e-200
"""Messages with smaller entries may lose some: nothing is certified from there on (upper side)."""

LEAST = 1e-50
"""Positive probabilities below it are not supported: a step could underflow (upper side)."""

MOST = 1024
"""Messages of an option beyond which close ones are thinned out (cost; charged to the upper)."""

APART = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
"""Distances, in logarithms, at which messages are thinned out until few enough are left."""

KEPT_SHARE = 8
"""The share of the messages, one in so many, that stay where thinning out would cost most."""

DEPTH, STRINGS = 12, 1024
"""Steps, and strings of outputs, of the products whose diameters are measured (cost)."""

_POINT, _HULL = 300.0, 8.0
"""Work of a message in a hull for each state, in multiplications, and of a hull, in calls."""

FLAT = 1e-12
"""Extent, relative to the largest, below which a direction of a cloud of messages is ignored when
its hull is computed (what that costs shows in delta)."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Which messages of a cloud to keep, and what makes up each of the others.

    ``parts`` (n, r + 1) are rows of the cloud for each dropped one in ``rest``, the first being
    -1 for the centre of the ``corners``.
    """

    count: int
    keep: Ints
    corners: Ints
    rest: Ints
    parts: Ints


@dataclass(frozen=True, slots=True)
class MessageHull:
    """Messages of one option, what they came from, and how far they may be off.

    ``points`` (p, k) have 1 as largest entry; ``came`` and ``shown`` (p,) say from which message
    one step farther and through which output; ``error`` bounds how much any log-ratio may exceed
    those of the points. ``cover`` is tried first on the next step.
    """

    points: Array
    came: Ints
    shown: Ints
    error: float
    cover: Cover | None = None
    most: int = MOST

    @classmethod
    def single(cls, message: Array, most: int = MOST) -> "MessageHull":
        """Return the family of one message, or of none where it is impossible."""
        count = int(message.max() > 0)
        nothing = np.zeros(count, dtype=np.int64)
        points = message[None][:count] / (message.max() or 1.0)
        return cls(points, nothing, nothing, 2 * ROUNDOFF, most=most)

    def step(self, kernel: Array, channel: Array, shrink: float) -> "MessageHull":
        """Return the messages one step inwards: K (m * B(., z)) for all m and z, pruned."""
        size, outputs = channel.shape
        spend(_POINT * self.count * outputs * size, calls=_HULL)
        moved, some = self.moved(kernel, channel)
        if not some.size:
            return MessageHull.single(np.zeros(size), self.most)
        keep, delta, cover = prune(moved, self.cover)
        if len(keep) > self.most:
            keep, delta, cover = thin(moved, keep, self.most)
        # what is carried shrinks; what is dropped and rounded here adds
        error = shrink * self.error + 2 * delta + 2 * (size + 4) * ROUNDOFF
        if moved[moved > 0].min() < TINY:
            error = math.inf
        came, shown = some[keep] // outputs, some[keep] % outputs
        return MessageHull(moved[keep], came, shown, error, cover, self.most)

    def moved(self, kernel: Array, channel: Array) -> tuple[Array, Ints]:
        """Return all possible messages one step inwards, (q, k), and their places among (p z,)."""
        # (p z, k)
        moved = (self.points[:, None, :] * channel.T).reshape(-1, len(channel)) @ kernel.T
        peak = moved.max(axis=1)  # (p z,)
        some = np.flatnonzero(peak > 0)
        return moved[some] / peak[some, None], some

    @property
    def count(self) -> int:
        """The number of messages."""
        return len(self.points)

    def bare(self) -> "MessageHull":
        """Return the messages without the tables of the next step."""
        return replace(self, cover=None)

    def ratios(self, value: Ints, other: Ints) -> tuple[Array, Array]:
        """Return the largest log-ratio of each pair of states (-inf: none), and upper ends."""
        ratio = log_ratio(self.points[:, value], self.points[:, other])  # (p, D)
        largest = np.asarray(np.fmax.reduce(ratio, axis=0, initial=-np.inf))
        return largest, largest + self.error

    def best(self, value: int, other: int) -> int:
        """Return the message with the largest log-ratio of a pair of states."""
        ratio = log_ratio(self.points[:, value], self.points[:, other])
        return int(np.where(np.isnan(ratio), -np.inf, ratio).argmax())

    def source(self, place: int) -> tuple[int, int]:
        """Return which message one came from, and through which output."""
        return int(self.came[place]), int(self.shown[place])


def beam(points: Array, kernel: Array, count: int) -> Ints:
    """Return about ``count`` messages with the largest log-ratios, now and one step later."""
    value, other = ordered_pairs(points.shape[1])
    keep: set[int] = set()
    each = max(1, count // (2 * len(value)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for cloud in (np.log(points), np.log(points @ kernel.T)):
            scores = np.nan_to_num(cloud[:, value] - cloud[:, other], nan=-np.inf)  # (p, D)
            best = np.argpartition(-scores, min(each, len(scores)) - 1, axis=0)[:each]
            keep.update(best.ravel().tolist())
    return np.array(sorted(keep), dtype=np.int64)


def contraction(kernel: Array) -> float:
    """Return Birkhoff's factor tanh(D / 4) of a kernel, rounded up; 1 where it has a zero.

    >>> round(contraction(np.array([[.9, .1], [.1, .9]])), 12)
    0.8
    """
    if kernel.min() <= 0:
        return 1.0
    logs = np.log(kernel)
    rows = logs[:, None] - logs  # (x, x', y)
    spread = float((rows.max(axis=2) - rows.min(axis=2)).max())
    return min(1.0, math.tanh(spread / 4) + 64 * ROUNDOFF * (1 + spread))


def diameters(kernel: Array, channel: Array, most: int) -> Array:
    """Return, by distance, how much the far end of a side can still matter, rounded up.

    Entry t - 1 bounds the log-ratios by which two messages from t records away differ that were
    read through the same outputs: the largest diameter of the products
    A_z = K B_1 K .. B_(t-1) K, over outputs z. A further product of d steps shrinks a diameter by
    Birkhoff's factor tanh(D_d / 4), so those of a few steps bound all: D_t <= tanh(D_d / 4)
    D_(t-d). inf where no product is positive.

    >>> diameters(np.array([[.9, .1], [.1, .9]]), np.full((2, 2), .5), 3).round(6)
    array([4.394449, 3.032695, 2.261746])
    """
    size, outputs = channel.shape
    links = kernel * channel.T[:, None, :]  # (z, x, y)
    products, first = kernel[None], []  # (strings of outputs, x, y)
    for depth in range(1, min(most, DEPTH) + 1):
        if products.min() < TINY:
            first.append(math.inf)
        else:
            logs = np.log(products)
            rows = logs[:, :, None] - logs[:, None]  # (strings, x, x', y)
            spread = float((rows.max(axis=3) - rows.min(axis=3)).max())
            # each entry is a sum of products of non-negative numbers, rounded depth (k + 4) times
            slack = 4 * depth * (size + 4) + 16 * (1 + float(np.abs(logs).max()))
            first.append(spread + slack * ROUNDOFF)
        if len(products) * outputs > STRINGS:
            break
        products = np.einsum("axk,bky->abxy", links, products).reshape(-1, size, size)
        products = products / products.max(axis=(1, 2), keepdims=True).clip(min=TINY)
    shrinks = [
        math.tanh(spread / 4) + 64 * ROUNDOFF * (1 + spread) if spread < math.inf else 1.0
        for spread in first
    ]
    widths = list(first)
    for _ in range(len(first), most):
        widths.append(
            min(shrink * widths[-depth] for depth, shrink in enumerate(shrinks, start=1))
            * (1 + 4 * ROUNDOFF)
        )
    return np.array(widths)


def prune(points: Array, cover: Cover | None = None) -> tuple[Ints, float, Cover | None]:
    """Return which messages to keep, delta (how well they stand for the others), and the cover.

    A cover that served a cloud of the same size before is tried first.

    >>> cloud = np.array([[1, .1, .2], [.1, 1, .2], [.3, .2, 1], [.5, .5, .5]])
    >>> prune(cloud)[0]
    array([0, 1, 2])
    """
    patterns = points > 0
    if patterns.all():
        if cover is not None and cover.count == len(points):
            scaled = _scaled(points)
            deltas = _deltas(scaled, _flattened(scaled), cover)
            if deltas.max(initial=0.0) <= INSIDE:
                return cover.keep, float(deltas.max(initial=0.0)), cover
        return _prune_positive(points)
    keep: list[Ints] = []
    worst = 0.0
    _, group = np.unique(patterns, axis=0, return_inverse=True)
    group = group.ravel()
    for one in range(int(group.max()) + 1):  # messages with the same zeros stand for each other
        members = np.flatnonzero(group == one)
        kept, delta, _ = _prune_positive(points[members][:, patterns[members[0]]])
        keep.append(members[kept])
        worst = max(worst, delta)
    return np.sort(np.concatenate(keep)), worst, None


def _prune_positive(points: Array) -> tuple[Ints, float, Cover | None]:
    size = points.shape[1]
    if size == 1:
        return np.zeros(1, dtype=np.int64), 0.0, None
    kept, delta = _without_duplicates(points)
    if len(kept) <= size:
        return kept, delta, None
    scaled = _scaled(points)
    flat = _flattened(scaled)
    cover = _hull(flat, kept)
    if cover is None:
        return kept, delta, None
    deltas = _deltas(scaled, flat, cover)
    good = deltas <= INSIDE
    if not good.all():
        keep = np.sort(np.concatenate([cover.corners, cover.rest[~good]]))
        cover = Cover(cover.count, keep, cover.corners, cover.rest[good], cover.parts[good])
    return cover.keep, float(deltas[good].max(initial=0.0)), cover


def thin(points: Array, keep: Ints, most: int) -> tuple[Ints, float, None]:
    """Return fewer messages than ``keep``, and how well they stand for the whole cloud.

    One of every group of messages close to each other stays, and of each pair of states the one
    with the largest log-ratio. Where zeros make messages incomparable only these stay, uncertified.
    """
    foremost = np.unique(beam(points[keep], np.eye(points.shape[1]), 1))
    if not (points > 0).all():
        return keep[beam(points[keep], np.eye(points.shape[1]), most)], math.inf, None
    scaled = _scaled(points)
    flat = _flattened(scaled)
    logs = np.log(scaled[keep])
    for apart in APART:
        _, first = np.unique(np.round(logs / apart), axis=0, return_index=True)
        chosen = np.unique(np.concatenate([first, foremost]))
        if len(chosen) <= most:
            break
    cover = _hull(flat, keep[chosen])
    if cover is None:
        return keep[chosen], math.inf, None
    deltas = _deltas(scaled, flat, cover)
    worst = np.argsort(-deltas, kind="stable")[: most // KEPT_SHARE]
    worst = worst[np.isfinite(deltas[worst])]  # those that the others stand for worst stay as well
    spared = np.unique(np.concatenate([cover.keep, cover.rest[worst]]))
    return spared, float(np.delete(deltas, worst).max(initial=0.0)), None


def _scaled(points: Array) -> Array:
    scaled = points / points.max(axis=0)
    return np.asarray(scaled / scaled.sum(axis=1, keepdims=True))


def _flattened(scaled: Array) -> Array:
    """Return coordinates of a cloud within the directions in which it extends at all."""
    centred = scaled - scaled.mean(axis=0)  # (p, k)
    _, extent, axes = np.linalg.svd(centred, full_matrices=False)
    wide = extent > FLAT * extent[0]
    wide[0] = True
    flat = centred @ axes[wide].T  # (p, r)
    return np.asarray(flat / np.abs(flat).max(axis=0))


def _without_duplicates(points: Array) -> tuple[Ints, float]:
    """Return one of each group of equal messages, and how far the others are away."""
    logs = np.log(points / points.sum(axis=1, keepdims=True))  # (p, k)
    order = np.lexsort(np.round(logs / (4 * SAME)).T)
    near = np.abs(np.diff(logs[order], axis=0)).max(axis=1, initial=0.0)
    fresh = np.concatenate([[True], near > SAME])
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    apart = np.abs(logs[order] - logs[order[first]]).max(axis=1)  # (p,)
    if apart.max() > 4 * SAME:  # a drifting row of near duplicates
        return np.arange(len(points)), 0.0
    return np.sort(order[fresh]), float(apart.max()) + 4 * ROUNDOFF


def _line(flat: Array, kept: Ints) -> Cover:
    values = flat[:, 0]
    ends = np.array([int(kept[values[kept].argmin()]), int(kept[values[kept].argmax()])])
    rest = np.setdiff1d(np.arange(len(flat)), ends)
    above = (values[rest] > values[ends].mean()).astype(np.int64)
    return _cover(ends, ends[:, None], rest, above, len(flat))


def _hull(flat: Array, kept: Ints) -> Cover | None:
    """Return corners and facets of the hull of the kept points, and which facet each one faces."""
    from scipy.spatial import ConvexHull, QhullError

    if flat.shape[1] == 1:
        return _line(flat, kept)
    if len(kept) <= flat.shape[1] + 1:
        return None
    try:
        hull = ConvexHull(flat[kept])
    except QhullError:
        return None
    corners = kept[hull.vertices]
    centre = flat[corners].mean(axis=0)
    normals, offsets = hull.equations[:, :-1], hull.equations[:, -1]
    room = -(normals @ centre + offsets)  # (facets,): how far the centre is from each
    real = room > 0
    if not real.any():
        return None
    rest = np.setdiff1d(np.arange(len(flat)), corners)
    facing = (flat[rest] - centre) @ (normals[real] / room[real, None]).T  # (rest, facets)
    return _cover(corners, kept[hull.simplices[real]], rest, facing.argmax(axis=1), len(flat))


def _cover(corners: Ints, facets: Ints, rest: Ints, faced: Ints, count: int) -> Cover:
    parts = np.concatenate([np.full((len(rest), 1), -1), facets[faced]], axis=1)  # (rest, r + 1)
    return Cover(count, np.sort(corners), corners, rest, parts)


def _deltas(scaled: Array, flat: Array, cover: Cover) -> Array:
    """Return how well its parts make up each dropped message, inf if not at all."""
    rest, size = len(cover.rest), scaled.shape[1]
    if cover.parts.shape[1] != flat.shape[1] + 1:
        return np.full(max(1, rest), np.inf)
    full = np.concatenate([scaled, scaled[cover.corners].mean(axis=0)[None]])
    goal = scaled[cover.rest]
    parts = full[cover.parts].transpose(0, 2, 1)  # (n, k, parts)
    if parts.shape[2] == size:
        # Both sides relative to the goal, and all parts of size one: then what elimination gets
        # wrong is small beside every single entry of the goal, however small that one is.
        system = parts / goal[:, :, None]
        peak = system.max(axis=1)
        system, wanted = system / peak[:, None, :], np.ones((rest, size, 1))
    else:
        flat = np.concatenate([flat, flat[cover.corners].mean(axis=0)[None]])
        places = flat[cover.parts].transpose(0, 2, 1)
        system = np.concatenate([places, np.ones((rest, 1, places.shape[2]))], axis=1)
        wanted = np.concatenate([flat[cover.rest], np.ones((rest, 1))], axis=1)[:, :, None]
        peak = np.ones((rest, 1))
    try:
        weights = np.linalg.solve(system, wanted)[:, :, 0] / peak
    except np.linalg.LinAlgError:
        return np.full(max(1, rest), np.inf)
    weights = np.where(np.isfinite(weights), np.maximum(weights, 0.0), 0.0)
    substitute = np.einsum(
        "nks,ns->nk", parts, weights
    )  # (n, k): q, which stands for the dropped p
    with np.errstate(divide="ignore"):
        delta = np.abs(np.log(substitute) - np.log(goal)).max(axis=1)
    return np.asarray(delta + 8 * size * ROUNDOFF)


LARGEST = 600.0
"""Log-ratios above it count as infinite (upper side)."""

_SCORE, _CORNER = 60.0, 25.0
"""Work of a log-ratio of a message, and of a corner of a box, in multiplications."""


@dataclass(frozen=True, slots=True)
class Strides:
    """Effort of a search: messages kept, and operations for a bound."""

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
class Bounded(MessageHull):
    """Some messages of an option, and bounds on all of them.

    ``bounds`` are D now, one step ago, and so on. While no message has been left out
    (``complete``), the messages themselves give D.
    """

    bounds: tuple[Array, ...] = ()
    complete: bool = True
    strides: Strides = Strides(0, 0, alike=False)

    @classmethod
    def begun(cls, message: Array, strides: Strides) -> "Bounded":
        """Return the messages of an option that has one."""
        hull = MessageHull.single(message)
        parts = hull.points, hull.came, hull.shown, hull.error
        return cls(*parts, bounds=(_exact(hull),), strides=strides)

    def step(self, kernel: Array, channel: Array, shrink: float) -> "Bounded":
        """Return the messages and their bounds one step inwards."""
        size, outputs = channel.shape
        spend(_SCORE * self.count * outputs * size**2)
        moved, some = self.moved(kernel, channel)
        short = len(some) <= 4 * self.strides.beam and moved.min(initial=1.0) >= TINY
        complete = self.complete and short
        every = np.arange(len(some), dtype=np.int64)
        keep = every if complete else beam(moved, kernel, self.strides.beam)
        after = replace(
            self, points=moved[keep], came=some[keep] // outputs, shown=some[keep] % outputs,
            error=self.error + 2 * (size + 4) * ROUNDOFF, complete=complete,
        )  # fmt: skip
        bound = _exact(after) if complete else self._bound(kernel, channel)
        depth = max(1, self.strides.depth(size, outputs))
        return replace(after, bounds=(bound, *self.bounds)[:depth])

    def ratios(self, value: Ints, other: Ints) -> tuple[Array, Array]:
        """Return the largest log-ratio found of each pair of states, and upper ends."""
        # the certified ends are the bounds, not those of the messages that were kept
        return MessageHull.ratios(self, value, other)[0], self.bounds[0][value, other]

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
    bounded = np.full(len(value), -np.inf)
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
            drift = np.log(above) - np.log(below)  # (a, D, k + 1)
        # (D,): the worst corner, in the best box
        drift = np.where(np.isnan(drift), np.inf, drift).max(axis=2).min(axis=0)
        never = ~(top > 0).any(axis=1)
        bounded = np.maximum(bounded, np.where(never, -np.inf, drift))
    finite = np.where(np.isfinite(bounded), np.abs(bounded), 0.0)
    scale = np.where(np.isfinite(bounds), np.abs(bounds), 0.0).max(initial=0.0)
    slack = (4 * (size + 4) + 8 * (1 + finite + scale)) * ROUNDOFF
    square = np.zeros((size, size))
    square[value, other] = np.where(bounded > LARGEST, np.inf, bounded + slack)
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
    square[value, other] = MessageHull.ratios(family, value, other)[1] + 64 * ROUNDOFF
    return square


THINNED = 1e-9
"""Width of a gain from which on reading ever farther would not narrow it (upper side)."""

HISTORY = 2**20
"""Messages of one side that are remembered, for the outputs behind them (cost: about 50 MB); those
beyond are read again."""


class FewStates:
    """A few states: all corners of the hull of messages, one family for each option."""

    longest: int = 512
    mirrored: bool = False
    ended: bool = False
    """Whether the effort ended before enough records on each side were read."""

    def __init__(
        self, observed: ObservedChain, known: bool, most: int, strides: Strides | None = None,
        tails: bool = False,
    ) -> None:  # fmt: skip
        """Prepare; ``known`` says whether known records are asked for, or a bound on the rest.

        With ``tails`` only the bound on the rest: where the chain forgets, it takes no families
        of known records. At most about ``most`` messages are carried for each option. With
        ``strides`` they are bounded pair by pair instead of by hulls.
        """
        self.observed, self.known, self.most, self.strides = observed, known, most, strides
        self.tails = tails
        self.history: dict[tuple[int, int | None], list[MessageHull]] = {}
        if strides is not None:
            self.longest = 64
        self.value, self.other = ordered_pairs(observed.size)
        entries = np.concatenate([observed.chain.transition.ravel(), observed.channels.ravel()])
        self.lost = bool(entries[entries > 0].min() < LEAST)
        if not primitive(observed.chain):
            self.longest = min(self.longest, 64)  # nothing merges, however far one reads

    def own(self, targets: Ints) -> tuple[Array, Ints]:
        """Return the log-ratio of the target's own output and which it is, (N, 1, D)."""
        channels = self.observed.channels
        ratio = log_ratio(channels[:, self.value], channels[:, self.other])  # (n, D, m)
        ratio = np.where(np.isnan(ratio), -np.inf, ratio)
        at = targets if len(channels) > 1 else np.zeros(len(targets), dtype=np.int64)
        return ratio.max(axis=2)[at][:, None], ratio.argmax(axis=2)[at][:, None]

    def laws(self, records: int) -> tuple[Array, Array]:
        """Return the log-ratios of the first records' laws, (records, D), and errors (records,)."""
        chain = self.observed.chain
        law = log(chain.initial)
        values = np.empty((records, len(self.value)))
        for record in range(records):
            if record:
                law = log_sum(law[:, None] + log(chain.step(record - 1)), axis=0)  # (k,)
                law = law - law.max()
            with np.errstate(invalid="ignore"):
                values[record] = law[self.value] - law[self.other]  # (D,)
            same = record and np.array_equal(values[record], values[record - 1], equal_nan=True)
            if chain.homogeneous and same:
                values[record:] = values[record]
                break
        size = self.observed.size + float(np.abs(values[np.isfinite(values)]).max(initial=1.0))
        steps = np.arange(1.0, records + 1)
        shrink = contraction(chain.transition.T) if chain.homogeneous else 1.0
        steps = np.minimum(steps, 1 / (1 - shrink)) if shrink < 1 else steps
        return values, 40.0 * size * steps * ROUNDOFF

    def table(self, side: int, most: int, settled: Callable[[Rung], bool]) -> Rung:
        """Return the gains of one target by distance, where all are alike, until settled.

        A side may take half the effort that is left, and is read as far as that suffices.
        """
        kernel, channel = self.observed.kernel(1, side), self.observed.channel(0)
        shrink, size = contraction(kernel), self.observed.size
        far = self.observed.chain.initial if side < 0 else np.ones(size)
        rest = diameters(kernel, channel, most) if self.tails and self.known else np.zeros(0)
        if (
            rest.size and rest[-1] > TAIL / 2
        ):  # the chain forgets too slowly for that: families tell sooner
            rest = np.zeros(0)
        request = self.known and not rest.size
        families = [self._single(kernel[:, v]) for v in range(size if request else 0)]
        free = self._single(far)
        plain = np.eye(size + 1)[:size]  # (state, columns)
        plain[:, size] = far
        rows: list[Rung] = []
        history: dict[tuple[int, int | None], list[MessageHull]] = {(side, None): [free]}
        check, kept = 8, 0
        half = progress.left() / 2
        for step in range(1, most + 1):
            before = progress.spent()
            try:
                with progress.allowing(half):
                    if step > 1:
                        families = [family.step(kernel, channel, shrink) for family in families]
                    free = free.step(kernel, channel, shrink)
            except EffortSpent:
                if not rows:
                    raise
                self.ended = True
                break
            half -= progress.spent() - before
            for value, family in zip((None, *range(size)), (free, *families), strict=False):
                history.setdefault((side, value), []).append(family.bare())
                kept += family.count
            if kept <= HISTORY:
                self.history |= history
            # columns: the messages without outputs of a known v at this distance, and of the far
            # law
            plain = _level(kernel @ plain)
            rows.append(self._rung(families, free, plain, step, size, rest[step - 1 : step]))
            if step == check and self.known:
                if rest.size and self._beyond_reach(rows[-1], rest[step - 1], side):
                    break
                if rest[step - 1 : step].sum() <= TAIL / 16 and settled(_stacked(rows)):
                    break
                check += max(4, check // 8)
        return _stacked(rows)

    def _beyond_reach(self, rung: Rung, rest: float, side: int) -> bool:
        """Return whether the bound on the rest is small beside the cost of thinned hulls."""
        given = side < 0 and not isinstance(self.observed.chain.start, str)
        if given or self.strides is not None or not np.isfinite(rung.free_upper).all():
            return False
        gap = float((rung.free_upper - rung.free).max())
        return gap > THINNED and rest <= gap / 64

    def rungs(self, side: int, targets: Ints, most: int) -> Iterator[Rung]:
        """Yield the gains of some targets, distance by distance.

        The families of a distance are those of the neighbours at one less, moved one step.
        """
        observed, size = self.observed, self.observed.size
        length = observed.length or 2
        shrinks = {
            record: contraction(observed.kernel(record, side)) for record in self._inner(side)
        }
        free, plain_free = self._open(side, shrinks)
        families: dict[int, list[MessageHull]] = {}
        plain: dict[int, Array] = {}
        for step in range(1, most + 1):
            before, old = families, plain
            families, plain = {}, {}
            for record in self._needed(side, targets, most - step):
                outer = record + side * step
                if not 0 <= outer < length:
                    continue
                kernel = observed.kernel(record, side)
                plain[record] = _level(kernel if step == 1 else kernel @ old[record + side])
                if not self.known:
                    continue
                if step == 1:
                    families[record] = [self._single(kernel[:, v]) for v in range(size)]
                    continue
                channel = observed.channel(record + side)
                families[record] = [
                    family.step(kernel, channel, shrinks[record])
                    for family in before[record + side]
                ]
            yield _stacked([
                self._row(families, plain, free, plain_free, int(target), side, step)
                for target in targets
            ])  # fmt: skip

    def outputs(
        self, target: int, side: int, option: Option, own: int, pair: int
    ) -> dict[int, int]:
        """Return the outputs behind the best gain of a side, by record."""
        if not option.distance:
            return {}
        read = self._remembered(side, option) or self._read(target, side, option)
        inner = range(target, target + side * (len(read) - 1), side)
        place = read[-1].best(int(self.value[pair]), int(self.other[pair]))
        shown: dict[int, int] = {}
        for record, family in zip(inner, reversed(read), strict=False):
            place, shown[record + side] = family.source(place)
        return shown

    def _remembered(self, side: int, option: Option) -> list[MessageHull]:
        """Return the messages of an option as `table` found them, none where it did not."""
        given = not isinstance(self.observed.chain.start, str)
        steps = option.distance + (option.value is None)  # an open side begins with its end
        read = self.history.get((side, option.value), [])
        return [] if len(read) < steps or (side < 0 and given) else read[:steps]

    def _read(self, target: int, side: int, option: Option) -> list[MessageHull]:
        """Return the messages of an option, from its far end to the target."""
        observed, far = self.observed, target + side * option.distance
        message = np.ones(observed.size) if side > 0 else observed.chain.law(far)
        if option.value is not None:  # the known record is read already, through its column
            far -= side
            message = observed.kernel(far, side)[:, option.value]
        read = [self._single(message)]
        for record in range(far - side, target - side, -side):
            kernel = observed.kernel(record, side)
            read.append(read[-1].step(kernel, observed.channel(record + side), 1.0))
        return read

    def _single(self, message: Array) -> MessageHull:
        if self.strides is None:
            return MessageHull.single(message, self.most)
        return Bounded.begun(message, self.strides)

    def _inner(self, side: int) -> range:
        length = self.observed.length or 2
        return range(length - 1) if side > 0 else range(1, length)

    def _needed(self, side: int, targets: Ints, more: int) -> list[int]:
        """Return the records whose families some target will need."""
        records = {int(t) + side * back for t in targets for back in range(more + 1)}
        return sorted(record for record in records if 0 <= record < (self.observed.length or 2))

    def _open(
        self, side: int, shrinks: dict[int, float]
    ) -> tuple[dict[int, MessageHull], dict[int, Array]]:
        """Return the families of open sides, to the end of the series, and their laws."""
        observed = self.observed
        length = observed.length or 2
        record = length - 1 if side > 0 else 0
        law = np.ones(observed.size) if side > 0 else observed.chain.initial
        families, laws = {record: self._single(law)}, {record: law}
        for inner in range(record - side, length if side < 0 else -1, -side):
            kernel = observed.kernel(inner, side)
            families[inner] = families[inner + side].step(
                kernel, observed.channel(inner + side), shrinks[inner]
            )
            law = _level(kernel @ law)
            laws[inner] = law
        return families, laws

    def _row(
        self, families: dict[int, list[MessageHull]], plain: dict[int, Array],
        free: dict[int, MessageHull], laws: dict[int, Array], target: int, side: int, step: int,
    ) -> Rung:  # fmt: skip
        """Return the rung of one target; an open side counts only once it is complete."""
        size, length = self.observed.size, self.observed.length or 2
        table = np.zeros((size, size + 1))  # (state, columns)
        table[:, :size] = plain.get(target, 0.0)
        table[:, size] = laws[target]
        room = target if side < 0 else length - 1 - target
        rung = self._rung(families.get(target, []), free[target], table, step, size, np.zeros(0))
        if room == step:
            return rung
        never = np.full_like(rung.free, -np.inf)
        return replace(rung, free=never, free_upper=never)

    def _rung(
        self, families: list[MessageHull], free: MessageHull, plain: Array, step: int, size: int,
        rest: Array,
    ) -> Rung:  # fmt: skip
        """Return the rung of one target from its families and from messages without outputs.

        ``rest``, where it has an entry, is how much what lies beyond can differ.
        """
        pairs = len(self.value)
        ratio = log_ratio(plain[self.value], plain[self.other])  # (D, columns); NaN for 0/0
        if families:
            read = [family.ratios(self.value, self.other) for family in families]
            known, upper = (np.stack(part, axis=1) for part in zip(*read, strict=True))  # (D, V)
        else:  # not asked for: nothing is found, and nothing is bounded
            known, upper = np.full((pairs, size), -np.inf), np.full((pairs, size), np.inf)
        message, most = free.ratios(self.value, self.other)  # (D,)
        sizes = np.concatenate([known.ravel(), message, ratio.ravel()])
        large = float(np.abs(sizes[np.isfinite(sizes)]).max(initial=0.0))
        slack = (4 * (step + 2) * (size + 4) + 32 * (1 + large)) * ROUNDOFF
        rung = gains(
            (known[None, None], upper[None, None]), (message[None, None], most[None, None]),
            ratio[None, :, :size], ratio[None, :, size], np.array([slack]),
        )  # fmt: skip
        if rest.size:  # a message from beyond, read through the same outputs, differs by no more
            beyond = (most + slack + rest) * (1 + 4 * ROUNDOFF)  # (D,)
            beyond = np.where(np.isnan(beyond) | np.isinf(beyond), np.inf, beyond)
            rung = replace(rung, top=beyond[None, None])
        if not self.lost and plain[plain > 0].min(initial=1.0) >= TINY:
            return rung
        return replace(  # an entry may have underflowed: nothing is certified
            rung,
            known_upper=np.full_like(rung.known, np.inf),
            free_upper=np.full_like(rung.free, np.inf),
            top=np.full_like(rung.top, np.inf),
        )


def _level(columns: Array) -> Array:
    """Return columns with 1 as largest entry, or 0 throughout."""
    peak = columns.max(axis=0)
    return np.asarray(columns / np.where(peak > 0, peak, 1.0))


def _stacked(rows: list[Rung]) -> Rung:
    """Return several rungs of one row each as one."""
    names = ("known", "known_upper", "free", "free_upper", "top", "base", "law")
    return Rung(*(np.concatenate([getattr(row, name) for row in rows]) for name in names))
