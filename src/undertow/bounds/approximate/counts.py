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

from undertow.bounds.approximate.hockey import Divergences, divergences
from undertow.bounds.chains.known import Bools, Ints, extremes, ordered_pairs, witnessed
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, log_ratio, pad_log, up
from undertow.progress import spend

__all__ = [
    "CountSide",
    "CountWindows",
    "choose_reach",
    "count_windows",
    "fading",
    "kernels",
    "side_options",
    "window_laws",
]

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
        found = divergences(laws - factor * others, laws + factor * others, sigma, decide)
        lower, at = found.lower, int(rows[found.where])
        if self.edge[at]:
            law, other = self.laws[[at]], math.exp(min(epsilon, _MOST_LEVEL)) * self.others[[at]]
            lower = divergences(law - other, law + other, sigma, decide).lower
        lower = lower if epsilon <= _MOST_LEVEL else 0.0
        return Divergences(lower, up(found.upper), at, rows[found.leaders])

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
    made = np.zeros((len(options), width))
    spend(4 * made.size * one.shape[1])
    for at in range(one.shape[1]):  # convolution, one count of the left side at a time
        share = one[options[:, 0], at, None]
        made[:, at + own : at + own + two.shape[1]] += share * two[options[:, 1]]
    return made
