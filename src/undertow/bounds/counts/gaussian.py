"""A count with Gaussian noise on a Markov chain: exactly what it leaks at a delta, against any.

Given the target the two sides are independent, and what lies outside the nearest known records adds
an independent summand, which hides more (data processing). So the leakage is the largest over
*windows*: on either side the nearest known record at some distance with some value, or an open end
after some records. The law of the count in a window is a convolution of its two sides.

Sides longer than ``reach`` are not enumerated: whoever also knows the record at that distance has a
window, and this costs an eta in epsilon (Theorem 5 of the theory of approximate guarantees).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from undertow.bounds.levels.sides import Bools, Ints, extremes, ordered_pairs, witnessed
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.chains import MarkovChain
from undertow.numerics import LIBM, ROUNDOFF, Array, log_ratio, ndtr_error, pad_log, up
from undertow.progress import spend

__all__ = [
    "CountSide",
    "CountWindows",
    "Divergences",
    "choose_reach",
    "count_windows",
    "divergences",
    "fading",
    "kernels",
    "side_options",
    "widest",
    "window_laws",
]


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
"""How often cells are cut, at most: what is open then stays in the upper end."""

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
    """Return what rounding can have done to each window's divergence, (windows,).

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


_LARGEST = 6e6
"""Entries of the table of all windows that are looked at (a cost limit)."""

_MOST_LEVEL = 700.0
"""Level whose exponential is still a float."""

_ETA = 1e-4
"""Share of a level that sides beyond the reach may cost (upper side): they are never the worst, so
that this is not what a plan pays."""


@dataclass(frozen=True, slots=True)
class CountSide:
    """The options of one side: the law of its count for each value of the target.

    ``laws`` (options, k, counts), ``prior`` (options, k) the probability of what is known given the
    target, ``span`` (options,) how many records the option needs, ``shut`` which end in a known
    record, ``value`` that record's value (-1: open).
    """

    laws: Array
    prior: Array
    span: Ints
    shut: Bools
    value: Ints


@dataclass(frozen=True, slots=True)
class CountWindows:
    """All windows of a chain within a reach, and how much epsilon longer sides cost (``eta``).

    ``counted`` (k,) says which states are counted. ``laws`` and ``others`` (windows, counts) are
    the laws of the count under the two values;
    ``pair`` (windows, 2) these values, ``options`` (windows, 2) what is known on either side;
    ``edge`` marks windows with a known record at the reach, beyond which there are others.
    """

    chain: MarkovChain
    counted: Bools
    sides: tuple[CountSide, CountSide]
    laws: Array
    others: Array
    pair: Ints
    options: Ints
    edge: Bools
    eta: float

    def delta(
        self, sigma: float, epsilon: float, among: Ints | None = None, decide: float | None = None
    ) -> Divergences:
        """Return the ends of the largest divergence at a level, over all windows or some.

        Longer sides are paid for: the upper end is that at epsilon - eta. With ``decide`` the ends
        need not meet, only leave that number outside.
        """
        rows = np.arange(len(self.laws)) if among is None else among
        laws, others = self.laws[rows], self.others[rows]
        # who knows the record at the reach stands for all longer sides, at a level lower by eta
        levels = np.where(self.edge[rows], epsilon - self.eta, epsilon)
        spend(60 * laws.size)
        # divergences fall with the level: at a lower one they are upper ends
        factor = np.exp(np.minimum(levels, _MOST_LEVEL))[:, None]
        bracket = divergences(laws - factor * others, laws + factor * others, sigma, decide)
        lower, at = bracket.lower, int(rows[bracket.where])
        if self.edge[at]:
            law, other = self.laws[[at]], math.exp(min(epsilon, _MOST_LEVEL)) * self.others[[at]]
            lower = divergences(law - other, law + other, sigma, decide).lower
        lower = lower if epsilon <= _MOST_LEVEL else 0.0
        return Divergences(lower, up(bracket.upper), at, rows[bracket.leaders])

    def threshold(self, window: int, sigma: float, epsilon: float) -> float:
        """Return the answer from which on (or up to which) the attack says yes, to nearest.

        Where the density ratio crosses e^epsilon, on the side of the larger gain.
        """
        law, other = self.laws[window], math.exp(min(epsilon, _MOST_LEVEL)) * self.others[window]
        places = np.arange(len(law))
        y = np.linspace(-10 * sigma, len(law) + 10 * sigma, 20_001)
        gain = np.exp(-((y[:, None] - places) ** 2) / (2 * sigma**2)) @ (law - other)  # (y,)
        above_ = np.cumsum(gain[::-1])[::-1]  # what an attack "at least y" gains, up to a factor
        below_ = np.cumsum(gain)
        best = above_ if above_.max() >= below_.max() else below_
        return float(y[int(best.argmax())])

    def witness(self, window: int, output: float) -> Witness:
        """Return the attack on a window: wait for a count beyond ``output``."""
        known: dict[int, int] = {}
        left, right = (int(o) for o in self.options[window])
        spans = [int(side.span[o]) for side, o in zip(self.sides, (left, right), strict=True)]
        target = spans[0]
        if self.sides[0].shut[left]:
            known[0] = int(self.sides[0].value[left])
        if self.sides[1].shut[right]:
            known[target + spans[1]] = int(self.sides[1].value[right])
        length = sum(spans) + 1
        pair = (int(self.pair[window, 0]), int(self.pair[window, 1]))
        total = self.chain.length
        if total is not None and length < total:  # somewhere in the series, from its end
            shift = total - length if not self.sides[1].shut[right] else 0
            known = {record + shift: value for record, value in known.items()}
            target, length = target + shift, total
        return witnessed(self.chain, target, length, known, pair, output=round(output))


def fading(chain: MarkovChain, steps: int) -> float:
    """Return how far ln P^t(x, z) / P^t(x', z) varies with z, for the worst pair, t steps away.

    Given a record further out the weights of z are divided by their sum, a mean of them: so the
    largest and the least ratio matter, not the largest alone. Of both directions of a stationary
    chain together; inf where some state can be reached from one value alone. Rounded up.

    >>> fading(MarkovChain([[.882, .118], [.305, .695]]), 40) < 1e-8
    True
    """
    total = 0.0
    value, other = ordered_pairs(chain.size)
    for kernel in kernels(chain):
        power = np.linalg.matrix_power(kernel, steps)
        low, high = extremes(log_ratio(power[value], power[other]), axis=1)  # (pairs,)
        total += float((high - low).max()) + 2 * pad_log(steps, chain.size)
    return up(total)


def choose_reach(chain: MarkovChain, epsilon: float) -> int:
    """Return the distance up to which sides are enumerated, or refuse a chain of long memory."""
    most = math.inf if chain.length is None else chain.length - 1
    reach = 8
    while reach < most and fading(chain, reach) > _ETA * epsilon:
        reach = min(2 * reach, reach + 8)
        if _entries(chain.size, reach) > _LARGEST:
            raise NotSupported(
                "the windows of this chain are too many to enumerate: it remembers for more than "
                f"{reach} records; use method='sweep' or 'closed'"
            )
    return int(min(reach, most))


def _entries(size: int, reach: int) -> float:
    options = reach * (size + 1) + 1
    return options**2 * size * (size - 1) * (2 * reach + 2)


def kernels(chain: MarkovChain) -> tuple[Array, Array]:
    """Return the kernels outwards, left (the reversal of a stationary chain) and right."""
    law, step = chain.initial, chain.transition
    return np.asarray(step.T * law[None, :] / law[:, None]), step


def count_windows(
    chain: MarkovChain, counted: Bools, reach: int, *, known: bool = True
) -> CountWindows:
    """Return all windows of a stationary chain with sides of at most ``reach`` records.

    Without ``known`` those of an adversary who knows no record; windows with a known record at the
    reach then stand for longer ones alone.
    """
    left, right = (
        side_options([kernel] * reach, counted, known, last=True) for kernel in kernels(chain)
    )
    value, other = ordered_pairs(chain.size)
    first, second = np.meshgrid(
        np.arange(len(left.span)), np.arange(len(right.span)), indexing="ij"
    )
    options = np.stack([first.ravel(), second.ravel()], axis=1)  # (windows, 2)
    allowed = _fits(chain, left, right, options)
    if chain.size == 2:  # reversible: a window and its mirror image have one law
        allowed &= options[:, 0] <= options[:, 1]
    longer = chain.length is None or chain.length - 1 > reach
    if not known and not longer:
        allowed &= ~left.shut[options[:, 0]] & ~right.shut[options[:, 1]]
    options = options[allowed]
    laws, others, pairs, chosen = [], [], [], []
    for a, b in zip(value, other, strict=True):
        possible = (
            (left.prior[options[:, 0], a] > 0) & (left.prior[options[:, 0], b] > 0)
            & (right.prior[options[:, 1], a] > 0) & (right.prior[options[:, 1], b] > 0)
        )  # fmt: skip
        own = options[possible]
        laws.append(window_laws(left, right, own, int(a), bool(counted[a])))
        others.append(window_laws(left, right, own, int(b), bool(counted[b])))
        pairs.append(np.tile([a, b], (len(own), 1)))
        chosen.append(own)
    every = np.concatenate(chosen)
    far = [(side.shut & (side.span == reach))[every[:, i]] for i, side in enumerate((left, right))]
    edge = (far[0] | far[1]) & longer
    eta = fading(chain, reach) if longer else 0.0
    return CountWindows(
        chain, counted, (left, right), np.concatenate(laws), np.concatenate(others),
        np.concatenate(pairs), every, edge, eta,
    )  # fmt: skip


def _fits(chain: MarkovChain, left: CountSide, right: CountSide, options: Ints) -> Bools:
    """Return which pairs of options a series of the chain's length has room for."""
    if chain.length is None:
        return np.ones(len(options), dtype=bool)
    needed = left.span[options[:, 0]] + right.span[options[:, 1]] + 1
    open_ = ~left.shut[options[:, 0]] & ~right.shut[options[:, 1]]
    return np.asarray(np.where(open_, needed == chain.length, needed <= chain.length))


def side_options(
    steps: Sequence[Array], counted: Bools, known: bool, *, last: bool = False
) -> CountSide:
    """Return the options of one side: open after 0, 1, .. records, or known at 1, 2, ..

    ``steps`` are the kernels outwards, one for each record. Without ``known`` none is known, or the
    ``last`` one alone. The joint table T_t[x, v, j] of the state at distance t and the count of
    records 1 .. t.
    """
    size, reach = len(counted), len(steps)
    table = np.zeros((size, size, reach + 2))  # (target, state, count)
    table[np.arange(size), np.arange(size), 0] = 1.0
    laws, prior = [table.sum(axis=1)], [np.ones(size)]
    span, value = [0], [-1]
    for step, kernel in enumerate(steps, start=1):
        moved = np.einsum("xuj,uv->xvj", table, kernel)
        table = np.where(counted[None, :, None], np.roll(moved, 1, axis=2), moved)
        laws.append(table.sum(axis=1))  # open: (target, count)
        prior.append(np.ones(size))
        span.append(step)
        value.append(-1)
        mass = table.sum(axis=2)  # (target, state)
        for v in range(size if known or (last and step == reach) else 0):
            with np.errstate(divide="ignore", invalid="ignore"):
                given = table[:, v] / mass[:, v, None]
            laws.append(np.where(mass[:, v, None] > 0, given, 0.0))
            prior.append(mass[:, v])
            span.append(step)
            value.append(v)
    values = np.array(value)
    return CountSide(np.stack(laws), np.stack(prior), np.array(span), values >= 0, values)


def window_laws(left: CountSide, right: CountSide, options: Ints, x: int, own: bool) -> Array:
    """Return the law of the count in each window, (windows, counts), the target included."""
    one, two = left.laws[:, x], right.laws[:, x]  # (options, counts)
    width = one.shape[1] + two.shape[1]
    values = np.zeros((len(options), width))
    spend(4 * values.size * one.shape[1])
    for at in range(one.shape[1]):  # convolution, one count of the left side at a time
        share = one[options[:, 0], at, None]
        values[:, at + own : at + own + two.shape[1]] += share * two[options[:, 1]]
    return values
