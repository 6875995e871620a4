"""A chain fitted to records through noise: what may be known of it, and how surely.

Nothing here looks at records: the noisy counts were released, and all that is made of them is
post-processing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, InvalidModel
from undertow.models.base import Model
from undertow.models.chains import MarkovChain
from undertow.models.classes import ChainBox
from undertow.models.fitting.checks import Check, private_checks
from undertow.models.records import Origin, weakest
from undertow.numerics import Array, check_count, check_positive, freeze
from undertow.queries import State
from undertow.rounding import above

__all__ = [
    "PrivateFit",
    "check_confidence",
    "limits",
    "lower_limit",
    "sum_limit",
]


_GRID_POINTS = 3000
"""Points of the grid in log-odds, from _LEAST_LOG_ODDS to its negative (cost; all are sound)."""
_LEAST_LOG_ODDS = -12.0
_WIDTHS = np.geomspace(0.02, 30.0, 48)
"""Trial values of w, the scale of the noise beside the likelihood (cost; each is sound)."""
_SCALE_RATIO = 1.02
"""Least ratio of two scales of the noise that are told apart (upper side)."""
_CELL_WIDTH = 0.012
"""Width of the cells in which two states are tested together, in log-odds (cost)."""
_MOST_CELLS = 60_000
"""Most cells that are looked at (cost); beyond, two states are not tested together."""
_JOINT_WIDTHS = np.geomspace(0.05, 20.0, 20)
"""Trial values of w where two states are tested together (cost)."""
_WEIGHT_PAD = 1e-15
"""Reduction of u and v, so that expectations stay at most 1 after rounding (upper side)."""


def limits(noisy: Any, scale: float, records: int, miss: float) -> tuple[Array, Array]:
    """Return the least and the largest transition matrix that noisy counts leave plausible.

    Both (k, k); together they hold with probability 1 - ``miss`` over records and noise, by a union
    bound. ``records`` is a public number of records, which only helps to choose good tests. Of two
    states the lower limits for leaving a state have .4 each, the upper ones .03: states that last
    are what leaks. Cost O(k^3) on a grid of 3,000 points.

    >>> low, high = limits([[6300, 850], [840, 1900]], 80.0, 10_000, 0.05)
    >>> low.round(2), high.round(2)
    (array([[0.82, 0.08],
           [0.23, 0.58]]), array([[0.92, 0.18],
           [0.42, 0.77]]))
    """
    table = np.asarray(noisy, dtype=np.float64)  # (from, to)
    size = len(table)
    lower, upper = np.zeros((size, size)), np.ones((size, size))
    often, seldom = (0.4 * miss, 0.03 * miss) if size == 2 else (miss / (2 * size**2),) * 2
    for x, y in np.ndindex(size, size):
        if size == 2 and x == y:
            continue  # the complement of the other entry
        own, rest, visits = float(table[x, y]), float(np.delete(table[x], y).sum()), records // size
        lower[x, y] = lower_limit(own, 1, rest, size - 1, scale, visits, often)
        kept = lower_limit(rest, size - 1, own, 1, scale, visits, seldom)
        upper[x, y] = np.nextafter(1 - kept, 2)
    if size == 2:
        lower[[0, 1], [0, 1]] = np.nextafter(1 - upper[[0, 1], [1, 0]], -1)
        upper[[0, 1], [0, 1]] = np.nextafter(1 - lower[[0, 1], [1, 0]], 2)
    return np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)


def lower_limit(
    hits: float, wide: int, misses: float, rest: int, scale: float, visits: int, beta: float
) -> float:
    """Return g with Pr[p < g] <= beta: p is the probability of a hit, 0 where nothing is rejected.

    ``hits`` is a sum of ``wide`` noisy counts, ``misses`` one of ``rest``; ``visits`` is a guess.

    >>> lower_limit(500.0, 1, 500.0, 1, 4.0, 1000, 0.01) < 0.5 - 2.3 * 0.5 / 1000**0.5
    True
    """
    points, up, down = _tests(wide, rest, float(scale), max(int(visits), 1), float(beta))
    statistic = up * hits + down * misses
    statistic -= 1e-12 * (np.abs(up * hits) + np.abs(down * misses))  # what products may round to
    refused = _bound(statistic, up, down, wide, rest, scale) <= beta
    count = int(np.argmin(np.append(refused, False)))  # the first that is not rejected
    return float(points[count - 1]) if count else 0.0


def sum_limit(
    noisy: Any, scale: float, records: int, beta: float, lower: Array, upper: Array
) -> float:
    """Return t with Pr[q + r < t] <= beta, for leaving probabilities q, r inside a box; two states.

    ``lower`` and ``upper`` are (2,), the ends of q and r: elsewhere nothing is looked for. At least
    the sum of the lower ends, and just that where the box has too many cells.

    >>> ends = np.array([.075, .2]), np.array([.18, .42])
    >>> round(sum_limit([[6300, 850], [840, 1900]], 66.7, 10_000, .025, *ends), 2)
    0.33
    """
    table = np.asarray(noisy, dtype=np.float64)  # (from, to)
    edges = [_cells(low, high) for low, high in zip(lower, upper, strict=True)]
    least = float(np.sum(lower))
    if len(edges[0]) * len(edges[1]) > _MOST_CELLS:
        return least
    # (cells,): upper corners, and what of the cells is in the box
    q, r = (part.ravel() for part in np.meshgrid(edges[0][1:], edges[1][1:], indexing="ij"))
    lows = [np.maximum(edge[:-1], low) for edge, low in zip(edges, lower, strict=True)]
    sums = np.add.outer(*lows).ravel()
    # equal weights for both estimates, S / visits, so that q + r is what is tested
    share = np.stack([(q + r) / (records * r), (q + r) / (records * q)])  # (2, cells)
    bounds = np.full(q.shape, np.inf)
    weights = np.zeros((4, *q.shape))
    for width in _JOINT_WIDTHS:
        slopes = share * (width / (scale * (share * [1 - q, 1 - r]).max(axis=0)))
        down = -np.log1p(np.stack([q, r]) * np.expm1(slopes)) - _WEIGHT_PAD
        up = slopes + down - _WEIGHT_PAD
        increments = np.concatenate([up, down])  # (4, cells): q hit, r hit, q miss, r miss
        largest = scale * np.abs(increments).max(axis=0)
        product = math.log(1 / beta) + sum(_log(part, scale) for part in increments)
        tail = largest * math.log(max(1 / (2 * beta), 1.0))
        needs = np.where(largest >= 1, tail, np.where(largest < 0.98, product, np.inf))
        drift = -((np.stack([q, r]) * up + (1 - np.stack([q, r])) * down) / share).sum(axis=0)
        total = (needs + drift) / (slopes / share)[0]
        weights = np.where(total < bounds, increments, weights)
        bounds = np.minimum(bounds, total)
    counts = np.array([table[0, 1], table[1, 0], table[0, 0], table[1, 1]])
    parts = weights * counts[:, None]
    statistic = parts.sum(axis=0) - 1e-12 * np.abs(parts).sum(axis=0)
    plausible = ~(_noise_bound(statistic, weights, scale) <= beta)
    return float(sums[plausible].min()) if plausible.any() else float(np.sum(upper))


def _cells(low: float, high: float) -> Array:
    """Return the ends of the fixed cells that meet an interval, in log-odds whole steps apart."""
    with np.errstate(divide="ignore"):
        ends = np.clip(
            np.log([low, high]) - np.log1p([-low, -high]), _LEAST_LOG_ODDS, -_LEAST_LOG_ODDS
        )
    # an end on the border of two cells, up to rounding, is in both
    first, last = math.floor(ends[0] / _CELL_WIDTH - 1e-9), math.ceil(ends[1] / _CELL_WIDTH + 1e-9)
    steps = np.arange(first, last + 1)
    probabilities = 1 / (1 + np.exp(-steps * _CELL_WIDTH))
    probabilities[0] = (
        0.0 if low <= probabilities[0] and ends[0] == _LEAST_LOG_ODDS else probabilities[0]
    )
    probabilities[-1] = 1.0 if ends[1] == -_LEAST_LOG_ODDS else probabilities[-1]
    return np.asarray(probabilities)


@lru_cache(maxsize=64)
def _tests(
    wide: int, rest: int, scale: float, visits: int, beta: float
) -> tuple[Array, Array, Array]:
    """Return the grid, and u and v for each of its points: the test that needs the least to reject.

    In expectation a test needs -visits (p u + (1 - p) v) more than its threshold; of all widths
    of the noise the one is taken for which that is the least part of its slope.
    """
    points = 1 / (
        1 + np.exp(-np.linspace(_LEAST_LOG_ODDS, -_LEAST_LOG_ODDS, _GRID_POINTS))
    )  # (grid,)
    slopes = _WIDTHS / scale  # (widths,): ln of how much a hit weighs against a miss
    # (widths, grid)
    down = -np.log1p(points * np.expm1(slopes[:, None])) - _WEIGHT_PAD
    up = slopes[:, None] + down - _WEIGHT_PAD
    width = scale * np.maximum(up, -down)
    above = np.maximum(width, 1.0)
    tail = up * wide - down * rest + above * math.log(max(1 / (2 * beta), 1.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        product = math.log(1 / beta) + _logs(up, down, wide, rest, scale)
    needs = np.where(width >= 1, tail, np.where(width < 0.98, product, np.inf))
    drift = -visits * (points * up + (1 - points) * down)
    best = np.argmin((needs + drift) / slopes[:, None], axis=0)  # (grid,)
    chosen = best, np.arange(_GRID_POINTS)
    return points, up[chosen], down[chosen]


def _logs(up: Array, down: Array, wide: int, rest: int, scale: float) -> Array:
    """Return ln E e^W of discrete Laplace noise, inf or nan where there is none."""
    return wide * _log(up, scale) + rest * _log(down, scale)


def _log(a: Array, scale: float) -> Array:
    """Return ln E e^{aZ}, Z discrete Laplace noise of a scale."""
    ratio = math.exp(-1 / scale)
    with np.errstate(invalid="ignore", divide="ignore"):
        both = np.log1p(-ratio * np.exp(a)) + np.log1p(-ratio * np.exp(-a))
    return np.asarray(2 * math.log1p(-ratio) - both)


def _bound(seen: Array, up: Array, down: Array, wide: int, rest: int, scale: float) -> Array:
    """Return an upper bound on the tail probability of the statistic at each point."""
    return _noise_bound(seen, np.stack([*[up] * wide, *[down] * rest]), scale)


def _noise_bound(seen: Array, weights: Array, scale: float) -> Array:
    """Return the Chernoff bound on the tail probability for weights (counts, grid)."""
    scales = scale * np.abs(weights)
    width = scales.max(axis=0)  # (grid,)
    tail, hazard = _tail(scales, seen - np.abs(weights).sum(axis=0))
    broad = (1 + np.maximum(1 / np.maximum(width, 1.0) - hazard, 0.0)) * tail
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = np.exp(sum(_log(part, scale) for part in weights) - seen)
    bounds = np.where(width >= 1, broad, narrow)
    return np.asarray(np.where(np.isnan(bounds), 1.0, bounds) * (1 + 1e-9))


def _tail(scales: Array, t: Array) -> tuple[Array, Array]:
    """Return Pr[V >= t] rounded up, and the hazard there rounded down.

    V is the sum of Laplace variables of these scales (counts, grid).

    For different scales a_i it is sum_i C_i e^{-t / a_i} / 2 with C_i = prod_{j != i} a_i^2 /
    (a_i^2 - a_j^2) (partial fractions of the characteristic function), t >= 0. Scales that are too
    near each other are enlarged first: the sum with a larger scale exceeds any t >= 0 more often,
    because the others together are symmetric and unimodal. Of its hazard nothing is said then: 0.
    """
    ordered = np.sort(scales, axis=0)
    a = ordered.copy()
    for place in range(1, len(a)):
        a[place] = np.maximum(a[place], a[place - 1] * _SCALE_RATIO)
    there = np.maximum(t, 0.0)
    total, sizes, slope = np.zeros_like(there), np.zeros_like(there), np.zeros_like(there)
    for i in range(len(a)):
        factor = np.ones_like(there)
        for j in range(len(a)):
            if j != i:
                factor = factor * (a[i] ** 2 / (a[i] ** 2 - a[j] ** 2))
        part = factor * np.exp(-there / a[i]) / 2
        total, sizes, slope = total + part, sizes + np.abs(part), slope + part / a[i]
    tail = np.where(t > 0, total + 1e-12 * sizes, 1.0)
    same = (a == ordered).all(axis=0) & (t > 0)
    lost = 1e-12 * sizes / a[0]  # each part of the slope is off by less
    hazard = np.where(same, np.maximum(slope - lost, 0.0) / np.maximum(tail, 1e-300), 0.0)
    return np.asarray(tail), np.asarray(hazard * (1 - 1e-9))


_ENTRY_SHARE, _SUM_SHARE = 0.6, 0.35
"""The shares of the limits of entries, and of that of their sum, in the probability of a miss."""
_BALANCING_ROUNDS = 200
"""Rounds after which flows are balanced well enough (no guarantee rests on them)."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivateFit(MarkovChain):
    """The chain estimated from noisy transition counts: a `MarkovChain`, and safe to publish.

    P(x, y) = (C_xy + prior) / (C_x + k prior), where C is the released table made non-negative and
    consistent: as many steps lead into a state as out of it, which is so for the records up to one
    step for each series.

    Parameters
    ----------
    noisy
        (k, k) whole numbers as released, row = from: discrete Laplace noise of ``scale`` on each.
    level
        The DP level that they spent.
    sample_size
        A public number of records that were fitted.
    confidence
        That of `region`, fixed before the noise was drawn.
    within
        The class stated beforehand. A box narrows the region.

    >>> fit = PrivateFit([[6300, 850], [840, 1900]], ("off", "on"), level=.05, scale=80.0,
    ...                  sample_size=10_000)
    >>> fit.transition.round(3), float(fit.region().lower[0, 1].round(3))
    (array([[0.882, 0.118],
           [0.308, 0.692]]), 0.079)
    """

    noisy: npt.NDArray[np.int64] = field(repr=False)
    counts: Array = field(repr=False)
    level: float
    scale: float
    sample_size: int
    confidence: float
    within: Model | None = field(repr=False)
    release_id: str

    def __init__(
        self,
        noisy: Any,
        states: Sequence[State] | None = None,
        *,
        level: float,
        scale: float,
        sample_size: int,
        confidence: float = 0.95,
        within: Model | None = None,
        prior: float = 0.5,
        length: int | None = None,
        release_id: str = "",
    ) -> None:
        """Make a chain of the released counts."""
        table = freeze(noisy)
        if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
            raise InvalidModel(f"noisy counts must be a square table, found shape {table.shape}")
        counts = freeze(_consistent(table))
        weights = counts + check_positive(prior, "prior")
        MarkovChain.__init__(
            self, weights / weights.sum(axis=1, keepdims=True), states, length=length
        )
        set_ = object.__setattr__
        whole = table.astype(np.int64)
        whole.setflags(write=False)
        self._set_provenance(origin="private")
        set_(self, "noisy", whole)
        set_(self, "counts", counts)
        set_(self, "level", check_positive(level, "level"))
        set_(self, "scale", check_positive(scale, "noise scale"))
        set_(self, "sample_size", check_count(sample_size, "sample_size", 1))
        set_(self, "confidence", check_confidence(confidence))
        set_(self, "within", within)
        set_(self, "release_id", release_id)

    @property
    def private(self) -> float:
        """The DP level that the fit spent."""
        return self.level

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of a private fit: its region passed, all else is not tested."""
        return private_checks(1 - self.confidence)

    @classmethod
    def from_law_dict(cls, description: Any) -> MarkovChain:
        """Return the plain chain described by `law_dict`: counts are not written."""
        return MarkovChain.from_law_dict(description)

    def describe(self) -> str:
        """Return the model in one sentence."""
        return f"{MarkovChain.describe(self)}, fitted through noise at a DP level of {self.level:g}"

    def plausible_region(self) -> ChainBox:
        """Return the confidence region of the fit."""
        return self.region()

    def _estimate(self) -> bool:
        return True

    def region(self, confidence: float | None = None) -> ChainBox:
        """Return the box of chains that holds the true one, except with probability 1 - confidence.

        Over the records and the noise together, for every number of visits to a state
        (module docstring), and inside the class that was stated beforehand where that is a box.
        The confidence is the one that was fixed when the noise was drawn: a confidence
        that is chosen by looking at the counts is none.
        """
        if confidence is not None and check_confidence(confidence) != self.confidence:
            raise InvalidInput(
                f"the confidence was fixed at {self.confidence:g} before the noise was drawn, and "
                "chosen afterwards it would be none; fit with confidence=... to have another"
            )
        miss = 1 - self.confidence
        two = self.size == 2
        low, high = limits(
            self.noisy, self.scale, self.sample_size, _ENTRY_SHARE * miss if two else miss
        )
        stated = self.within
        if isinstance(stated, ChainBox) and stated.size == self.size:
            low, high = np.maximum(low, stated.lower), np.minimum(high, stated.upper)
        bad = np.argwhere(low > high)
        if bad.size:
            x, y = (self.states[place] for place in bad[0])
            raise InvalidModel(
                f"the fit and the class that was stated beforehand exclude each other at {x!r} to "
                f"{y!r}: one of them is wrong; state a wider class"
            )
        trace = None
        if two:
            ends = low[[0, 1], [1, 0]], high[[0, 1], [1, 0]]  # of leaving either state
            least = sum_limit(self.noisy, self.scale, self.sample_size, _SUM_SHARE * miss, *ends)
            trace = float(np.nextafter(2 - least, 3))
        try:
            box = ChainBox(low, high, self.states, self.length, self._note(), trace)
        except InvalidModel as error:
            raise InvalidModel(
                "the fit and the class that was stated beforehand exclude each other: no row of "
                "probabilities is in both; state a wider class"
            ) from error
        box = box.with_checks(self.checks).with_origin(self._origin_within())
        return box.with_records(self.records)

    def _origin_within(self) -> Origin:
        """Return the origin of the region, including that of the class stated beforehand."""
        return self.origin if self.within is None else weakest((self.origin, self.within.origin))

    def _note(self) -> str:
        return (
            f"the box is the region of a private fit at a DP level of {above(self.level)}, which "
            f"misses the true chain with probability at most {above(1 - self.confidence)} over the "
            "records and the noise of the fit; the level of the fit is added to those of all other "
            "releases, and their sum is exchanged under it; which records are missing does not "
            "depend on what they would have been"
        )


def check_confidence(confidence: Any) -> float:
    """Return a confidence between 0 and 1.

    >>> check_confidence(.95)
    0.95
    """
    if isinstance(confidence, bool) or not isinstance(confidence, float | int):
        raise InvalidInput(f"confidence must be a number, found {type(confidence).__name__}")
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence must lie between 0 and 1, such as 0.95; found {confidence}")
    return float(confidence)


def _consistent(noisy: Array) -> Array:
    """Project counts in turn on balanced flows and on nonnegative tables.

    With d_x what leaves x less what enters it, C_xy = n_xy + (d_y - d_x) / 2k is the nearest table
    whose flows are balanced.

    >>> _consistent(np.array([[10.0, 4.0], [8.0, -3.0]]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    table, size = noisy.copy(), len(noisy)
    for _ in range(_BALANCING_ROUNDS):
        net = table.sum(axis=1) - table.sum(axis=0)  # (k,): out less in
        table = np.maximum(table + (net[None, :] - net[:, None]) / (2 * size), 0.0)
    return np.asarray(table)
