"""A count with Gaussian noise on a Markov chain: exactly what it leaks at a delta, against any.

The leakage is the largest divergence over the windows of `laws`. Sides longer than their reach are
not enumerated: whoever also knows the record at that distance has a window, and this costs an eta
in epsilon (Theorem 5 of the theory of approximate guarantees).
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.bounds.counts.laws import CountWindows
from undertow.bounds.levels.sides import Ints
from undertow.numerics import LIBM, ROUNDOFF, Array, ndtr_error, up
from undertow.progress import spend

__all__ = ["Divergences", "divergences", "threshold", "widest", "window_divergences"]

_REACH = 10.0
"""Standard deviations beyond the counts where cells end; normal tails beyond are below 1e-23."""

_TAIL = 2e-23
"""More than the mass of both tails beyond `_REACH`, for each unit of sum |d|."""

_COARSE = 8.0
"""Cells for each standard deviation at first."""

_CUT = 16
"""Pieces into which a cell is cut that matters."""

_TIGHT = 1e-10
"""Relative width at which the ends have met (both sides)."""

_ROUNDS = 8
"""Cuts of cells at most: cells still open stay in the upper end."""

_LEADERS = 48
"""Windows that are remembered as the closest to the worst."""

_BLOCK = 2**22
"""Entries of the largest table of one block of windows (memory)."""


@dataclass(frozen=True, slots=True)
class Divergences:
    """The largest divergence of several windows: certified ends, and which window attains it.

    ``lower`` is attained in window ``where``; ``leaders`` are the windows closest to it, and it.
    """

    lower: float
    upper: float
    where: int
    leaders: Ints


def widest(sigma: float, counts: int) -> int:
    """Return how many cells one pass over windows with so many counts takes."""
    return int((2 * _REACH * sigma + counts) / sigma * _COARSE) + 2


def divergences(
    weights: Array, sizes: Array, sigma: float, decide: float | None = None
) -> Divergences:
    """Return the largest divergence over windows.

    ``weights`` (windows, counts) holds d = p - e^eps q of each, ``sizes`` p + e^eps q, to which
    rounding is relative. Ends meet to a relative `_TIGHT`, as far as the rounds allow, or leave
    ``decide`` outside, if that is all that is wanted; both pay for rounding.

    >>> one = np.array([[-np.e, 1.0]])  # the count moves by one: mu = 1 / sigma at epsilon = 1
    >>> bracket = divergences(one, abs(one), 4.22467889)
    >>> round(bracket.upper * 1e6, 6), bracket.upper - bracket.lower < 1e-15
    (1.0, True)
    """
    counts = weights.shape[1]
    ends = -_REACH * sigma, counts - 1 + _REACH * sigma
    edges = np.linspace(*ends, widest(sigma, counts) + 1)
    alive = np.arange(len(weights))
    settled = np.zeros((2, len(weights)))  # what cells that need no further look give, lower, upper
    # rounding, of all that is summed: enough to tell which windows are out of the running
    slack = _rounding(counts, len(edges)) * sizes.sum(axis=1) + _TAIL * sizes.sum(axis=1)
    starts, widths = edges[:-1], np.diff(edges)
    low, high = np.zeros(len(weights)), np.zeros(len(weights))
    spent = np.zeros(len(weights))  # what rounding has done to the masses of settled cells
    for turn in range(_ROUNDS):
        parts = _cells(weights[alive], sizes[alive], starts, widths, sigma)
        low[alive] = settled[0, alive] + parts.lower.sum(axis=1)
        high[alive] = settled[1, alive] + parts.upper.sum(axis=1)
        best = float((low[alive] - slack[alive]).max())
        keep = high[alive] + slack[alive] >= best
        alive, lower, upper = alive[keep], parts.lower[keep], parts.upper[keep]
        blur = parts.blur[keep]
        if float((high[alive] - low[alive]).max()) <= _TIGHT * max(best, 0.0):
            break
        top = float((high[alive] + slack[alive]).max())
        if decide is not None and not best <= decide < top:
            break
        # cells whose open part matters for some window that is still in the running
        share = 0.1 * _TIGHT * max(best, 1e-300) / len(starts)
        matters = (upper - lower > share).any(axis=0)
        more = int(matters.sum()) * _CUT
        if not more or turn == _ROUNDS - 1 or more * len(alive) > 16 * _BLOCK:
            break
        settled[0, alive] += lower[:, ~matters].sum(axis=1)
        settled[1, alive] += upper[:, ~matters].sum(axis=1)
        spent[alive] += blur[:, ~matters].sum(axis=1)
        wide = widths[matters]
        starts = (starts[matters][:, None] + wide[:, None] * (np.arange(_CUT) / _CUT)).ravel()
        widths = np.repeat(wide / _CUT, _CUT)
    error = _errors(weights[alive], sizes[alive], edges, sigma)
    error += (1 + _rounding(counts, len(starts))) * (spent[alive] + blur.sum(axis=1))
    where = int(alive[int((low[alive] - error).argmax())])
    lower_end = float((low[alive] - error).max())
    upper_end = float((high[alive] + error).max())
    leaders = np.union1d(alive, np.argsort(-low, kind="stable")[:_LEADERS])
    return Divergences(max(0.0, lower_end), max(0.0, upper_end), where, leaders)


def _rounding(counts: int, cells: int) -> float:
    """Return the relative error of sums over counts and over cells."""
    return 4 * (counts + cells + 16) * ROUNDOFF


def _errors(weights: Array, sizes: Array, edges: Array, sigma: float) -> Array:
    """Return the rounding error of each window's divergence, (windows,).

    Relative to the mass of both laws where the integrand is positive, or may be for all that
    rounding leaves of its sign; not to all of it.
    """
    starts, widths = edges[:-1], np.diff(edges)
    cells = _cells(weights, sizes, starts, widths, sigma)
    places = np.arange(weights.shape[1])[:, None]
    left, right = (starts - places) / sigma, (starts + widths - places) / sigma
    near = np.where(left * right <= 0, 0.0, np.minimum(abs(left), abs(right)))
    doubt = _rounding(weights.shape[1], len(starts)) * (sizes @ _density(near)) / sigma
    doubt += (
        sizes @ (_density_error(near, float(abs(edges).max()) / sigma) * _density(near)) / sigma
    )
    counted = cells.top + doubt > 0
    mass = np.where(counted, sizes @ _normal(left, right), 0.0).sum(axis=1)
    return np.asarray(_rounding(weights.shape[1], len(starts)) * mass + _TAIL * sizes.sum(axis=1))


@dataclass(frozen=True, slots=True)
class _Cells:
    """Ends of the positive part, and the most of the integrand, of each cell (windows, cells).

    ``blur`` is what the error of the normal distribution function does to the mass of a cell: that
    of a narrow cell is a small difference of two of its values.
    """

    lower: Array
    upper: Array
    top: Array
    blur: Array


def _cells(weights: Array, sizes: Array, starts: Array, widths: Array, sigma: float) -> _Cells:
    """Return both ends for every window and cell, block by block."""
    block = max(1, _BLOCK // max(len(starts), 1))
    if len(weights) > block:
        parts = [
            _cells(weights[at : at + block], sizes[at : at + block], starts, widths, sigma)
            for at in range(0, len(weights), block)
        ]
        return _Cells(
            np.concatenate([part.lower for part in parts]),
            np.concatenate([part.upper for part in parts]),
            np.concatenate([part.top for part in parts]),
            np.concatenate([part.blur for part in parts]),
        )
    places = np.arange(weights.shape[1])[:, None]  # (counts, 1)
    left, right = (starts - places) / sigma, (starts + widths - places) / sigma  # (counts, cells)
    span = float(max(abs(starts[0]), abs(starts + widths).max())) / sigma
    mass = weights @ _normal(left, right)  # (windows, cells)
    near = np.where(left * right <= 0, 0.0, np.minimum(abs(left), abs(right)))
    far = np.maximum(abs(left), abs(right))
    # |phi''(z)| = |z^2 - 1| phi(z), at most (far^2 + 1) phi(near) in the cell
    bend = np.abs(weights) @ ((far**2 + 1) * _density(near)) / sigma**3
    first, last = (weights @ _density(z) / sigma for z in (left, right))
    # rounding of the sums at the ends, and of the densities in them
    each = 4 * (weights.shape[1] + 16) * ROUNDOFF + _density_error(far, span)
    # between its ends s departs from the chord by at most (width^2 / 8) max |s''|
    sag = widths**2 / 8 * bend * (1 + 1e-9) + abs(weights) @ (each * _density(near)) / sigma
    positive = np.minimum(first, last) > sag
    negative = np.maximum(first, last) < -sag
    rises = widths * (np.maximum(np.maximum(first, last), 0.0) + sag)
    falls = mass + widths * (np.maximum(np.maximum(-first, -last), 0.0) + sag)
    mixed = np.minimum(rises, falls)
    upper = np.where(positive, mass, np.where(negative, 0.0, mixed))
    lower = np.maximum(mass, 0.0)
    upper = np.maximum(upper, lower)
    blur = np.where(upper > 0, sizes @ _normal_error(left, right, near, span), 0.0)
    return _Cells(lower, upper, np.maximum(first, last) + sag, blur)


def _density(z: Array) -> Array:
    return np.asarray(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def _density_error(z: Array, span: float) -> Array:
    """Return the relative error of densities at places up to ``z`` in size.

    A place is off by 3 roundings of itself and of the ends of cells, at most ``span``, and the
    logarithm of a density by z times that.
    """
    return np.asarray((LIBM + 4 + 4 * z**2 + 4 * span * abs(z)) * ROUNDOFF)


def _normal(left: Array, right: Array) -> Array:
    """Return Phi(right) - Phi(left), from the nearer tail, where digits are not lost."""
    from scipy.special import ndtr

    low, high = _tails(left, right)
    return np.asarray(ndtr(high) - ndtr(low))


def _normal_error(left: Array, right: Array, near: Array, span: float) -> Array:
    """Return the absolute error of `_normal`, that of rounding the places included.

    ndtr(z) times its relative error grows with z < 0, so that of the upper end counts twice.
    """
    from scipy.special import ndtr

    high = _tails(left, right)[1]
    share = 2 * ndtr_error(np.clip(high, -37.0, 0.0))
    return np.asarray(share * ndtr(high) + 8 * (near + span) * ROUNDOFF * _density(near))


def _tails(left: Array, right: Array) -> tuple[Array, Array]:
    """Return the ends of cells, mirrored where the upper tail is the nearer one."""
    flip = left > 0
    return np.where(flip, -right, left), np.where(flip, -left, right)


_MOST_LEVEL = 700.0
"""Level whose exponential is still a float."""


def window_divergences(
    windows: CountWindows, sigma: float, epsilon: float, among: Ints | None = None,
    decide: float | None = None,
) -> Divergences:  # fmt: skip
    """Return the ends of the largest divergence at a level, over all windows or some.

    Longer sides are paid for: the upper end is that at epsilon - eta. With ``decide`` the ends
    need not meet, only leave that number outside.
    """
    pairs = windows.pairs
    rows = np.arange(len(pairs.laws)) if among is None else among
    laws, others = pairs.laws[rows], pairs.others[rows]
    # who knows the record at the reach stands for all longer sides, at a level lower by the slack
    levels = epsilon - pairs.slack[rows]
    spend(60 * laws.size)
    # divergences fall with the level: at a lower one they are upper ends
    factor = np.exp(np.minimum(levels, _MOST_LEVEL))[:, None]
    bracket = divergences(laws - factor * others, laws + factor * others, sigma, decide)
    lower, at = bracket.lower, int(rows[bracket.where])
    if pairs.slack[at]:
        law, other = pairs.laws[[at]], math.exp(min(epsilon, _MOST_LEVEL)) * pairs.others[[at]]
        lower = divergences(law - other, law + other, sigma, decide).lower
    lower = lower if epsilon <= _MOST_LEVEL else 0.0
    return Divergences(lower, up(bracket.upper), at, rows[bracket.leaders])


def threshold(windows: CountWindows, window: int, sigma: float, epsilon: float) -> float:
    """Return the answer from which on (or up to which) the attack says yes, to nearest.

    Where the density ratio crosses e^epsilon, on the side of the larger gain.
    """
    law = windows.pairs.laws[window]
    other = math.exp(min(epsilon, _MOST_LEVEL)) * windows.pairs.others[window]
    places = np.arange(len(law))
    y = np.linspace(-10 * sigma, len(law) + 10 * sigma, 20_001)
    gain = np.exp(-((y[:, None] - places) ** 2) / (2 * sigma**2)) @ (law - other)  # (y,)
    above_ = np.cumsum(gain[::-1])[::-1]  # what an attack "at least y" gains, up to a factor
    below_ = np.cumsum(gain)
    best = above_ if above_.max() >= below_.max() else below_
    return float(y[int(best.argmax())])
