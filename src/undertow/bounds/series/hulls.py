"""Few states: the messages that matter are the corners of a convex hull.

A message is a vector of likelihoods, one for each state, up to a factor. One step inwards is a
linear map for each output, and the gain of a pair (x, x') is ln m(x) / m(x'), whose largest value
over a convex hull lies at a corner: so is every later one. Of the messages reachable on a side
only the corners are carried on. There are few of them, because far outputs move a message less
and less.

What is dropped is certified, whoever computed the hull: for each dropped message p a combination
q of kept ones with non-negative weights is written down, and the largest |ln p(y) / q(y)|, delta,
is measured. Whatever p leads to, q leads to within a factor e^delta in every entry, so no
log-ratio is missed by more than 2 delta. A step with positive kernel K shrinks such a difference
by Birkhoff's factor tanh(D / 4), with D the diameter of K, so the errors of many steps do not add
up. Messages for which no good combination was found are kept. Where a hull is so round that its
corners are too many, some that lie close together are dropped as well, at a delta of the square
of their distance or so: the interval is then wider, and still certified.

Rounding. A step is a sum of k products of non-negative numbers: 2 (k + 4) roundings in a log-ratio,
on top of what is carried, shrunk in the same way.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from undertow.bounds.chains.known import Ints, ordered_pairs
from undertow.numerics import ROUNDOFF, Array, log_ratio
from undertow.progress import spend

__all__ = ["LEAST", "TINY", "Cover", "MessageHull", "beam", "contraction", "diameters", "prune"]

TWINS = 64 * ROUNDOFF
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

SPARED = 8
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
        """Return the messages without what only the next step needs."""
        return replace(self, cover=None)

    def ratios(self, value: Ints, other: Ints) -> tuple[Array, Array]:
        """Return the largest log-ratio of each pair of states (-inf: none), and upper ends."""
        found = log_ratio(self.points[:, value], self.points[:, other])  # (p, D)
        largest = np.asarray(np.fmax.reduce(found, axis=0, initial=-np.inf))
        return largest, largest + self.error

    def best(self, value: int, other: int) -> int:
        """Return the message with the largest log-ratio of a pair of states."""
        found = log_ratio(self.points[:, value], self.points[:, other])
        return int(np.where(np.isnan(found), -np.inf, found).argmax())

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
    found = list(first)
    for _ in range(len(first), most):
        found.append(
            min(shrink * found[-depth] for depth, shrink in enumerate(shrinks, start=1))
            * (1 + 4 * ROUNDOFF)
        )
    return np.array(found)


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
    kept, delta = _without_twins(points)
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
    worst = np.argsort(-deltas, kind="stable")[: most // SPARED]
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


def _without_twins(points: Array) -> tuple[Ints, float]:
    """Return one of each group of equal messages, and how far its twins are away."""
    logs = np.log(points / points.sum(axis=1, keepdims=True))  # (p, k)
    order = np.lexsort(np.round(logs / (4 * TWINS)).T)
    near = np.abs(np.diff(logs[order], axis=0)).max(axis=1, initial=0.0)
    fresh = np.concatenate([[True], near > TWINS])
    first = np.maximum.accumulate(np.where(fresh, np.arange(len(order)), 0))
    apart = np.abs(logs[order] - logs[order[first]]).max(axis=1)  # (p,)
    if apart.max() > 4 * TWINS:  # a drifting row of near twins
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
    made = np.einsum("nks,ns->nk", parts, weights)  # (n, k): q, which stands for the dropped p
    with np.errstate(divide="ignore"):
        delta = np.abs(np.log(made) - np.log(goal)).max(axis=1)
    return np.asarray(delta + 8 * size * ROUNDOFF)
