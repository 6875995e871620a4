"""Ceilings of the gains of many pairs at once: one rounded-up sweep that keeps no tables.

The sweep of `undertow.bounds.chains.sweep` is run for every pair on a grid of mu, and only its
last step is kept. A pair starts with a *floor*, a gain so small that nobody asks whether the truth
is smaller still; no option at a distance t with (t - 1) epsilon <= floor can exceed it. From then
on, with v known at distance t and prior ratio r, a grid point mu <= e^(ceiling + r) at which
c_t(v; mu) <= 0 proves that the gain of (t, v) is at most the ceiling; where there is none, the
chord of c in mu (convex, decreasing) raises the ceiling. Two facts end the sweep early:

- a row with c <= 0 everywhere stays so: its mu bounds all roots from here on, and with the least
  prior ratio, which only rises with the distance, all gains from here on;
- a row with c >= 0 everywhere stays so and never proves anything again.

Rounding: of spent = c^+ (1 + d) - e^(-epsilon) (1 - d) c^- the product with K errs by less than d
(|spent| K), so that it stays above the exact one without a second product; what underflows is
smaller than the constant added after each step.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.bounds.chains.known import Bools, Ints, extremes
from undertow.numerics import MAX_STEPS, ROUNDOFF, Array, log_ratio, pad_log
from undertow.progress import spend

__all__ = ["MEMORY", "Ask", "ceilings"]

MEMORY = 2**28
"""Bytes of the tables that are held at once; with everything else a process stays below 1 GB."""

_POINTS = 256
"""Most grid points of one pair: beyond, the grid is coarser (cost)."""

_CACHE = 2**22
"""Bytes of the rows that are carried one step together (they stay in the cache)."""

_UNDERFLOW = 1e-280
"""Added to every value in each step: more than all that underflow can take away (upper side)."""

_LONGEST = MAX_STEPS
"""Steps after which what is left is bounded from the last one (cost)."""

_EFFORT = 30_000_000_000
"""Multiplications after which a block of pairs ends with what it has proved (cost)."""

_ALIKE = 1 / 64
"""Part of a cell of the grid below which prior ratios count as alike (cost)."""

_SHRINK = 1e-90
"""Least factor by which a value may shrink between two rescalings."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Pairs on one side of a chain, whose gains are to be bounded from above.

    ``kernel`` (k, k) leads outwards. ``weights`` (k,) is the law at the far end of an open side
    where the gain of an open side need not grow with its length, None otherwise. ``value``,
    ``other`` and ``floor`` are (N,); ``spacing`` is that of the grid, in ln mu, and ``reach`` how
    far above the floor it goes.
    """

    kernel: Array
    weights: Array | None
    value: Ints
    other: Ints
    epsilon: float
    floor: Array
    spacing: float
    reach: float

    def part(self, which: Ints) -> "Ask":
        """Return some of the pairs."""
        return Ask(
            self.kernel, self.weights, self.value[which], self.other[which], self.epsilon,
            self.floor[which], self.spacing, self.reach,
        )  # fmt: skip


def ceilings(ask: Ask) -> tuple[Array, Array]:
    """Return what no option of each pair exceeds, certified, and what some option reaches, (N,).

    All distances, all known values, and open sides of every length. At least the floor; the other
    end is a hint (-inf for none), within some two spacings where the gain exceeds the floor. Cost
    O(k^2) for each pair, grid point and step until the point is decided; pairs are taken in blocks
    that keep within `MEMORY`.

    >>> kernel = np.array([[.6, .3, .1], [.2, .5, .3], [.3, .3, .4]])
    >>> pair = np.array([0]), np.array([2])
    >>> ask = Ask(kernel, None, *pair, 1.0, np.array([0.1]), 0.01, 3.0)
    >>> [round(float(end[0]), 2) for end in ceilings(ask)]
    [0.42, 0.4]
    """
    upper, lower = np.empty(len(ask.value)), np.empty(len(ask.value))
    begin, start, end = _spans(ask)
    points = np.minimum(np.ceil((end - start) / ask.spacing).astype(np.int64) + 2, _POINTS)
    # rows, two copies while some are dropped, and their marks
    room = max(1, MEMORY // (8 * (3 * len(ask.kernel) + 8)))
    block = np.cumsum(points) // room
    for one in np.unique(block):
        here = np.flatnonzero(block == one)
        spend(40 * float(points[here].sum()) * len(ask.kernel))
        sweep = _Sweep(ask.part(here), begin[here], start[here], end[here], points[here])
        upper[here], lower[here] = sweep.run()
    return upper, lower


def _spans(ask: Ask) -> tuple[Ints, Array, Array]:
    """Return up to which distance nothing exceeds the floor, and the ends of the grid; each (N,).

    Beyond that distance the ratios that matter lie between the extremes there: mixtures of them.
    """
    # an open side of t records gains at most t epsilon, one with the last of them known less
    begin = np.floor(ask.floor * (1 - 8 * ROUNDOFF) / ask.epsilon)
    begin = np.clip(begin, 0, _LONGEST).astype(np.int64)
    start, end = np.empty(len(begin)), np.empty(len(begin))
    product, step = np.asarray(ask.kernel), 1
    for stop in np.unique(begin):
        while step < stop:
            product, step = product @ ask.kernel, step + 1
        here = np.flatnonzero(begin == stop)
        ratio = log_ratio(product[ask.value[here]], product[ask.other[here]])  # (pairs, v)
        real = np.isfinite(ratio)
        start[here] = np.where(real, ratio, np.inf).min(axis=1)
        end[here] = np.where(real, ratio, -np.inf).max(axis=1)
    start = np.where(np.isfinite(start), start, -ask.reach) + ask.floor - ask.spacing
    return begin, start, np.where(np.isfinite(end), end, ask.reach) + ask.floor + ask.reach


class _Sweep:
    """The rows of some pairs: for each grid point that is not decided yet, c at the present step.

    Of the grid points of a pair ``low`` .. ``high`` - 1 are undecided: below, c is nowhere
    negative; from ``high`` on it is nowhere positive. One more on either side is carried on, for
    chords: ``bottom`` .. ``top`` - 1. Rows are sorted by pair and mu; ``first`` is where those of
    each pair begin.
    """

    def __init__(self, ask: Ask, begin: Ints, start: Array, end: Array, points: Ints) -> None:
        self.ask, self.begin, self.start, self.points = ask, begin, start, points
        self.width = (end - start) / (points - 1)  # (N,)
        self.upper, self.lower = ask.floor.copy(), np.full(len(points), -np.inf)
        self.low, self.high = np.zeros_like(points), points.copy()
        self.bottom, self.top = self.low, self.high
        self.alive = np.arange(len(points))
        self.first = np.cumsum(points) - points
        # (rows,): the pair of each row, and its grid point
        self.pair = np.repeat(np.arange(len(points)), points)
        self.point = np.arange(points.sum()) - self.first[self.pair]
        size = len(ask.kernel)
        slack = (2 * size + 16) * ROUNDOFF
        self.gained, self.spent = 1 + slack, math.exp(-ask.epsilon) * (1 - slack)
        top = ask.kernel[ask.value[self.pair]]
        low = self._mu(self.pair, self.point)[:, None] * ask.kernel[ask.other[self.pair]]
        self.signed = (top - low) + 4 * ROUNDOFF * (top + low)  # (rows, k): c_1, rounded up
        block = max(1, _CACHE // (8 * size))
        self.buffers = np.empty((2, block, size))
        least = ask.epsilon - math.log(ask.kernel[ask.kernel > 0].min())
        self.rescale = max(1, min(8, int(-math.log(_SHRINK) / least)))

    def _mu(self, pair: Ints, point: Ints) -> Array:
        return np.asarray(np.exp(self.start[pair] + self.width[pair] * point))

    def run(self) -> tuple[Array, Array]:
        """Return the certified ceilings and what is reached, (N,) each."""
        ask = self.ask
        product, weights = np.asarray(ask.kernel), ask.weights
        work, most = 0, _EFFORT // len(ask.kernel) ** 2
        for step in range(1, _LONGEST + 1):
            work += len(self.signed)
            spend(self.signed.size * (len(product) + 12) + product.size * len(product), 4)
            last = step == _LONGEST or work > most
            with np.errstate(divide="ignore"):
                logs = np.log(product)  # (k, k)
                masses = None if weights is None else np.log(product @ weights)  # (k,)
            self._raise(step, logs, masses)
            if step < 8 or step % 4 == 0 or last:
                self._decide()
                self._retire(step, logs, last)
                if last or not self.alive.size:
                    break
            self._carry(step)
            product = product @ ask.kernel
        return self.upper, self.lower

    def _raise(self, step: int, logs: Array, masses: Array | None) -> None:
        """Raise the ceilings where no grid point proves that all options keep below them."""
        ask = self.ask
        pairs = self.alive[self.begin[self.alive] < step]
        if not pairs.size:
            return
        with np.errstate(invalid="ignore"):
            prior = logs[ask.value[pairs]] - logs[ask.other[pairs]]  # (pairs, v)
            if masses is not None:
                free = masses[ask.value[pairs]] - masses[ask.other[pairs]]
                prior = np.concatenate([prior, free[:, None]], axis=1)
        # the last grid point from which the ceiling could be proved; -1 where there is none
        place = (self.upper[pairs, None] + prior - self.start[pairs, None]) / self.width[
            pairs, None
        ]
        place = np.minimum(np.floor(place), self.points[pairs, None] - 1)
        # impossible options are none; c is nowhere positive from ``high`` on
        row, column = np.nonzero(np.isfinite(prior) & (place < self.high[pairs, None]))
        pair, ratio = pairs[row], prior[row, column]
        found = place[row, column].astype(np.int64)
        point = np.maximum(found, self.bottom[pair])
        # below every grid point left, or not proved by the one that was found
        doubtful = (found < point) | (self._values(pair, point, column) > 0)
        if not doubtful.any():
            return
        pair, column, point = pair[doubtful], column[doubtful], point[doubtful]
        ratio = ratio[doubtful]
        root, before = self._roots(pair, column, point)
        most = ask.epsilon * (step if masses is not None else step - 1) * (1 + 4 * ROUNDOFF)
        gain = np.minimum(root - ratio + self._pad(step, root, ratio), most)
        np.maximum.at(self.upper, pair, gain)
        np.maximum.at(self.lower, pair, before - ratio)

    def _pad(self, step: int, root: Array | float, ratio: Array) -> Array:
        """Return the roundings of a gain: of the prior ratio, of mu and of their logarithms."""
        size = np.abs(ratio) + np.where(np.isfinite(root), np.abs(root), 0.0)
        return np.asarray(pad_log(step, len(self.ask.kernel) + 1) + 32 * ROUNDOFF * (1 + size))

    def _values(self, pair: Ints, point: Ints, column: Ints) -> Array:
        """Return c of some pairs at grid points left to them, of a column or of an open side."""
        rows = self.first[pair] + point - self.bottom[pair]
        size = len(self.ask.kernel)
        values = self.signed[rows, np.minimum(column, size - 1)]
        free = np.flatnonzero(column == size)
        if free.size and self.ask.weights is not None:
            signed = self.signed[rows[free]]  # (open ones, k)
            spent = np.maximum(self.gained * signed, self.spent * signed)
            values[free] = spent @ self.ask.weights + _UNDERFLOW
        return np.asarray(values)

    def _roots(self, pair: Ints, column: Ints, point: Ints) -> tuple[Array, Array]:
        """Return ln of upper ends of the roots of options, and of grid points before them."""
        after = point.copy()  # the first grid point at which c is not positive
        left = np.arange(len(after))
        while left.size:
            positive = self._values(pair[left], after[left], column[left]) > 0
            left = left[positive]
            after[left] += 1
            left = left[after[left] < self.top[pair[left]]]
        start, width = self.start[pair], self.width[pair]
        root = np.where(after < self.points[pair], start + width * after, np.inf)
        inner = np.flatnonzero((after < self.top[pair]) & (after > self.bottom[pair]))
        one, at, last = pair[inner], after[inner], column[inner]
        f_r, f_l = self._values(one, at, last), self._values(one, at - 1, last)
        mu_r, mu_l = self._mu(one, at), self._mu(one, at - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            # convex: a chord crosses 0 at or beyond the root
            chord = mu_l + (mu_r - mu_l) * (f_l / (f_l - f_r))
        fine = (f_l > 0) & np.isfinite(chord)
        root[inner] = np.log(np.where(fine, np.minimum(chord * (1 + 16 * ROUNDOFF), mu_r), mu_r))
        return root, np.where(after > 0, start + width * (after - 1), -np.inf)

    def _decide(self) -> None:
        """Narrow the grid points left: c of one sign keeps it for ever."""
        never = self.signed.max(axis=1) <= 0
        always = (self.signed.min(axis=1) >= 0) & ~never
        low, high = self.low.copy(), self.high.copy()
        np.minimum.at(high, self.pair[never], self.point[never])
        np.maximum.at(low, self.pair[always], self.point[always] + 1)
        self._keep(np.minimum(low, high), high, np.ones(len(self.upper), dtype=bool))

    def _keep(self, low: Ints, high: Ints, pairs: Bools) -> None:
        """Drop the rows of all but some pairs, and those outside the grid points left to them."""
        self.low, self.high = low, high
        self.bottom, self.top = np.maximum(low - 1, 0), np.minimum(high + 1, self.points)
        keep = (self.point >= self.bottom[self.pair]) & (self.point < self.top[self.pair])
        keep &= pairs[self.pair]
        if not keep.all():
            self.signed = self.signed[keep]
            self.pair, self.point = self.pair[keep], self.point[keep]
            count = np.bincount(self.pair, minlength=len(low))
            self.first = np.cumsum(count) - count

    def _retire(self, step: int, logs: Array, last: bool) -> None:
        """End pairs whose ceiling holds for all that follows, or whose grid is used up."""
        pairs = self.alive[(self.begin[self.alive] <= step) | last]
        with np.errstate(invalid="ignore"):
            prior = logs[self.ask.value[pairs]] - logs[self.ask.other[pairs]]
        prior, most = extremes(prior, axis=1)  # (pairs,) each
        # roots from here on are mixtures of the present ones, and prior ratios at least the
        # present least one; -inf where the values do not lead to the same states yet
        root, joint = self._largest_roots(pairs), np.isfinite(prior)
        ratio = np.where(joint, prior, 0.0)
        rest = np.where(joint, root - ratio + self._pad(step, root, ratio), np.inf)
        done = rest <= self.upper[pairs]
        # nothing more to learn: all roots in one cell of the grid, and priors that are all alike
        near = (self.low[pairs] >= self.high[pairs]) & joint
        used = (near & (most <= prior + _ALIKE * self.width[pairs])) | last
        ended = pairs[used]
        self.upper[ended] = np.maximum(self.upper[ended], rest[used])
        gone = np.zeros(len(self.upper), dtype=bool)
        gone[pairs[done | used]] = True
        self.alive = self.alive[~gone[self.alive]]
        if gone.any():
            left = np.zeros(len(self.upper), dtype=bool)
            left[self.alive] = True
            self._keep(self.low, self.high, left)

    def _largest_roots(self, pairs: Ints) -> Array:
        """Return ln of a ceiling of all roots of some pairs, (pairs,): exact in a single cell."""
        root = self.start[pairs] + self.width[pairs] * self.high[pairs]
        root = np.where(self.high[pairs] < self.points[pairs], root, np.inf)
        size = len(self.ask.kernel)
        here = np.flatnonzero((self.low[pairs] >= self.high[pairs]) & np.isfinite(root))
        pair, column = np.repeat(pairs[here], size), np.tile(np.arange(size), len(here))
        if here.size:
            each, _ = self._roots(pair, column, self.bottom[pair])
            root[here] = np.minimum(root[here], each.reshape(-1, size).max(axis=1))
        return np.asarray(root)

    def _carry(self, step: int) -> None:
        """Go one step on: c <- (c e^(epsilon 1[c > 0])) K up to a factor, rounded up."""
        block = self.buffers.shape[1]
        for start in range(0, len(self.signed), block):
            rows = self.signed[start : start + block]
            more, less = self.buffers[:, : len(rows)]
            np.multiply(rows, self.gained, out=more)
            np.multiply(rows, self.spent, out=less)
            np.maximum(more, less, out=more)  # c > 0 takes the former, c < 0 the latter
            np.matmul(more, self.ask.kernel, out=rows)
            rows += _UNDERFLOW
        if step % self.rescale == 0 and len(self.signed):
            peak = np.zeros(len(self.upper))  # (N,): one scale for all mu of a pair
            np.maximum.at(peak, self.pair, np.abs(self.signed).max(axis=1))
            exponent = np.frexp(np.where(peak > 0, peak, 1.0))[1]
            self.signed = np.ldexp(self.signed, -exponent[self.pair][:, None])
