"""Both sides of a target on a hidden chain: the worst of all pairs of messages.

With r the message of the right and f that of the left, over the four hidden states of the target,

    leak = theta + ln [(f2 r2 + f3 r3) / (f0 r0 + f1 r1)] - [the same of plain messages].

In logarithms of quotients, m = ln r2/r0, u = ln r3/r2, z = ln r1/r0 and plain ones with ~, let
mu = m - m~, g = u - u~ and h = z - z~ be what outputs add; sums of both sides are written as such:

    leak = theta + mu + [s(u~ + g) - s(u~)] - [s(z~ + h) - s(z~)],    s(x) = ln(1 + e^x),

By total positivity g, h >= 0. So, s being convex, it grows with mu, g and u~, and falls with h and
z~: an *element* (mu, u~, z~, g, h) of a side, which may be rounded the bad way. u~ and z~ count
only in proportion to what outputs add: bins of them may be wide where theta is small.

**Elements.** A side is open, far, or has its first known record after l unknown ones, with a plain
message p in some cell and a d of at most the envelope's. The leak grows with d, whatever the other
side, and at fixed d its second derivative in p is at most tau + tau' (see `envelopes`;
here tau of the extreme rows, at most 1/4): so the ends of cells, with the larger envelope beside
them and (tau + tau') (width)^2 / 8 added to mu, are all that has to be looked at.
"""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from undertow.bounds.hidden.envelopes import SLOP, Envelope, contraction, joined
from undertow.bounds.hidden.gaps import INSIDE, Gaps
from undertow.bounds.second_order.boxes import grouped
from undertow.bounds.second_order.joins import Joint, joint_pad, worst_of
from undertow.errors import NotSupported
from undertow.numerics import Array

__all__ = ["Elements", "elements", "open_elements", "worst_pair"]

Ints = npt.NDArray[np.int64]

Order = tuple[int, int, int, int]

Factors = tuple[float, float, float, float]

STRAIGHT: Order = (0, 1, 2, 3)
"""The states of the target as they come."""

FIRST_BIN, LAST_BIN = 0.5, 4e-4
"""Widths of bins of u~ and z~ at first and last (cost); those of g and h are in proportion to the
largest g."""

CLOSE = 1e-4
"""Relative distance of the bound from a pair of elements at which the bins are fine enough."""

MOST_PAIRS = 12_000_000
"""Pairs of bins that are looked at in one pass (cost): past them bins are not made finer."""

LARGEST = 100.0
"""Logarithms of quotients beyond it are refused: products of four must not overflow."""

MOST_TRIED = 300
"""Elements of a bin that are tried one by one (cost)."""


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """What one side can do: ``table`` (elements, 5) of (mu, u~, z~, g, h), rounded the bad way.

    ``origin`` (elements, 3) holds the value of the first known record (-1: none), the unknown
    records before it, and the cell of its message.
    """

    table: Array
    origin: Ints


def _coordinates(seen: Array, plain: Array) -> Array:
    """Return (mu, u~, z~, g, h) of messages (.., 4)."""
    a, p = np.log(seen), np.log(plain)
    u, z = p[..., 3] - p[..., 2], p[..., 1] - p[..., 0]
    parts = [
        (a[..., 2] - a[..., 0]) - (p[..., 2] - p[..., 0]), u, z,
        np.maximum((a[..., 3] - a[..., 2]) - u, 0.0), np.maximum((a[..., 1] - a[..., 0]) - z, 0.0),
    ]  # fmt: skip
    return np.stack(np.broadcast_arrays(*parts), axis=-1)


def open_elements(gaps: Gaps, order: Order = STRAIGHT) -> Elements:
    """Return the elements of sides without a known record among the first ones."""
    rows = list(order)
    ended = _coordinates(gaps.ends[:, rows], gaps.end[rows])
    seen, plain = np.log(gaps.far[rows]), np.log(gaps.far_plain[rows])  # (state, column)

    def ends(table: Array, first: int, other: int) -> tuple[float, float]:
        apart = table[first] - table[other]
        return float(apart.min()), float(apart.max())

    u, z = ends(plain, 3, 2), ends(plain, 1, 0)
    far = [
        ends(seen, 2, 0)[1] - ends(plain, 2, 0)[0], u[1], z[0],
        max(ends(seen, 3, 2)[1] - u[0], 0.0), max(ends(seen, 1, 0)[0] - z[1], 0.0),
    ]  # fmt: skip
    count = gaps.longest
    origin = np.stack([np.full(count + 1, -1), np.arange(count + 1), np.zeros(count + 1)], axis=1)
    return _padded(np.concatenate([ended, [far]]), origin.astype(np.int64), gaps)


def _padded(table: Array, origin: Ints, gaps: Gaps) -> Elements:
    """Return elements whose roundings are added to mu: no coordinate weighs more than it."""
    table[:, 0] += 8 * (4 * gaps.pad + gaps.end_error + SLOP)
    if not np.abs(table).max() < LARGEST:
        raise NotSupported("likelihoods so far apart are not told apart by this bound")
    return Elements(table, origin)


def elements(side: Envelope, order: Order = STRAIGHT) -> Elements:
    """Return all elements of a side; ``order`` are the target's states as 0, 1 | 2, 3."""
    gaps, rows = side.gaps, list(order)
    found = [open_elements(gaps, order)]
    for known in (0, 1):
        seen, plain = gaps.seen[:, rows, INSIDE[known]], gaps.plain[:, rows, INSIDE[known]]
        # of totally positive rows the extreme ones are those of the least and the largest state
        bends = [np.minimum(_contraction(table), 0.25) for table in (seen, plain)]
        bend = bends[0] + bends[1] + 8 * gaps.pad
        values = side.values[known]
        top = int(math.log2(len(values)))
        levels = np.clip(np.floor(np.log2(0.5 / bend) / 2), 0, top).astype(np.int64)
        for level in np.unique(levels).tolist():
            places = np.flatnonzero(levels == level)
            step = side.width[known] * 2**level
            wide = joined(values, level)
            # an end of a cell has the larger envelope of both cells that it belongs to
            beside = np.maximum(np.r_[0.0, wide], np.r_[wide, 0.0])
            points = np.flatnonzero(beside > 0)
            p = np.exp(side.low[known] + step * points)[None, :, None]
            raised = beside[points][None, :, None]
            messages = (
                (table[places][:, None, :, 0] + table[places][:, None, :, 1] * odds)
                for table, odds in ((seen, p * raised), (plain, p))
            )  # (gaps, points, states)
            made = _coordinates(*messages)
            made[..., 0] += (bend[places] * step**2 / 8)[:, None]
            cells = np.array([_largest(values, point, level) for point in points.tolist()])
            shape = made.shape[:2]
            origin = np.stack([
                np.full(shape, known), np.broadcast_to(places[:, None], shape),
                np.broadcast_to(cells, shape),
            ], axis=-1)  # fmt: skip
            found.append(_padded(made.reshape(-1, 5), origin.reshape(-1, 3), gaps))
    return Elements(
        np.concatenate([one.table for one in found]), np.concatenate([one.origin for one in found])
    )


def _contraction(rows: Array) -> Array:
    """Return the largest contraction coefficient of two of four rows (.., 4, 2)."""
    pairs = [contraction(rows[..., list(pair), :]) for pair in combinations(range(4), 2)]
    return np.asarray(np.max(pairs, axis=0))


def _largest(values: Array, point: int, level: int) -> int:
    """Return the cell beside an end of wide cells in which the envelope is largest."""
    first = max(point - 1, 0) << level
    return first + int(values[first : (point + 1) << level].argmax())


def worst_pair(
    left: Elements, right: Elements, theta: float, factors: Factors = (1.0, 1.0, 1.0, 1.0)
) -> tuple[float, int, int]:
    """Return an upper bound on the leakage over all pairs, and a pair that all but attains it.

    ``factors`` are those of `undertow.bounds.second_order.joins.Joint`, 1 where messages of the
    left are joint probabilities; the first is at least the last, and the third the second.

    Bins are as bad as the worst of their elements; those whose best partner stays below a pair that
    was looked at are dropped, and the others made finer.
    """
    scale = max(float(left.table[:, 3].max()), float(right.table[:, 3].max()), 1e-12)
    joint = Joint(theta, factors, joint_pad(theta, 400.0))
    lefts, rights = np.arange(len(left.table)), np.arange(len(right.table))
    width, best, floor, pair = FIRST_BIN, math.inf, -math.inf, (0, 0)
    while True:
        one, one_of = _binned(left.table[lefts], width, width * scale / 2)
        two, two_of = _binned(right.table[rights], width, width * scale / 2)
        if len(one) * len(two) > MOST_PAIRS and math.isfinite(best):
            break
        by_left, by_right = worst_of(one, two, joint)
        best = min(best, theta + math.log(float(by_left.max())) + joint.pad)
        first = int(by_left.argmax())
        other = int(worst_of(two, one[first : first + 1], joint)[0].argmax())
        tried = _tried(left, lefts[one_of == first], right, rights[two_of == other], joint)
        if tried[0] > floor:
            floor, pair = tried[0], tried[1:]
        if best <= floor * (1 + CLOSE) or width <= LAST_BIN:
            break
        goal = math.exp(floor - theta - 2 * joint.pad)
        lefts, rights = lefts[by_left[one_of] >= goal], rights[by_right[two_of] >= goal]
        if not len(lefts) or not len(rights):
            break
        width /= 2
    return max(best, floor + joint.pad), *pair


def _columns(table: Array) -> Array:
    """Return elements as `worst_of` takes them: e^ of (mu, u, z~, z, u~)."""
    mu, u, z, g, h = table.T
    return np.asarray(np.exp(np.stack([mu, u + g, z, z + h, u], axis=1)))


def _binned(table: Array, width: float, fine: float) -> tuple[Array, Ints]:
    """Return bins, each as bad as the worst of its elements, and the bin of each element."""
    order, starts = grouped(np.floor(table[:, 1:] / np.array([width, width, fine, fine])))
    ordered = table[order]
    bins = np.empty((len(starts), 5))
    # the leakage grows with mu, u~ and g, and falls with z~ and h
    for column, gather in enumerate((np.maximum, np.maximum, np.minimum, np.maximum, np.minimum)):
        bins[:, column] = gather.reduceat(ordered[:, column], starts)
    place = np.empty(len(table), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(table)]))
    return _columns(bins), place


def _tried(
    left: Elements, lefts: Ints, right: Elements, rights: Ints, joint: Joint
) -> tuple[float, int, int]:
    """Return the worst pair of single elements of two bins, those with the largest mu."""
    lefts = lefts[np.argsort(-left.table[lefts, 0], kind="stable")[:MOST_TRIED]]
    rights = rights[np.argsort(-right.table[rights, 0], kind="stable")[:MOST_TRIED]]
    one, two = _columns(left.table[lefts]), _columns(right.table[rights])
    by_left, _ = worst_of(one, two, joint)
    first = int(by_left.argmax())
    other = int(worst_of(two, one[first : first + 1], joint)[0].argmax())
    value = joint.own + math.log(float(by_left.max()))
    return value, int(lefts[first]), int(rights[other])
