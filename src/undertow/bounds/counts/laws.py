"""Pairs of laws of a count that adversaries can tell apart, before any noise is added.

Given the target the two sides of a chain are independent, and what lies outside the nearest known
records adds an independent summand, which hides more (docs, theory: noisy counts). So the pairs of
a chain are its windows. Noise is added in `gaussian` and `tables`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Against
from undertow.bounds.levels.sides import (
    Bools,
    Ints,
    complete,
    extremes,
    log,
    ordered_pairs,
    start_error,
    witnessed,
)
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.chains import MarkovChain
from undertow.numerics import ROUNDOFF, Array, log_ratio, log_sum, pad_log, up
from undertow.progress import spend

__all__ = [
    "ENTRIES",
    "CountPairs",
    "CountSide",
    "CountWindows",
    "chain_windows",
    "count_windows",
    "fading",
    "joint_counts",
    "side_options",
    "stack_pairs",
    "varying_windows",
    "window_laws",
    "window_reach",
]

ENTRIES = 6e6
"""Most entries of the laws of all pairs (memory and cost)."""


@dataclass(frozen=True, slots=True)
class CountPairs:
    """All pairs of laws of a count that adversaries can tell apart, (pairs, counts) each.

    ``slack`` (pairs,) is how much more than its own loss a pair must be charged with, because it
    stands for others too; ``real`` (pairs,) whether some adversary really sees this pair; ``pad``
    bounds what rounding can have done to the log of a ratio of two entries.
    """

    laws: Array
    others: Array
    slack: Array
    real: Bools
    pad: float

    @property
    def counts(self) -> int:
        """The number of counts."""
        return int(self.laws.shape[1])

    def error(self, answers: int) -> float:
        """Return how far the log of a computed ratio can lie from the true one."""
        return self.pad + 8.0 * (2 * self.counts + answers + 16) * ROUNDOFF


def stack_pairs(pieces: Sequence[CountPairs]) -> CountPairs:
    """Stack the pairs of several models."""
    counts = max(pairs.counts for pairs in pieces)

    def wide(law: Array) -> Array:
        return np.pad(law, ((0, 0), (0, counts - law.shape[1])))

    real: npt.NDArray[np.bool_] = np.concatenate([pairs.real for pairs in pieces])
    return CountPairs(
        np.concatenate([wide(pairs.laws) for pairs in pieces]),
        np.concatenate([wide(pairs.others) for pairs in pieces]),
        np.concatenate([pairs.slack for pairs in pieces]),
        real,
        max(pairs.pad for pairs in pieces),
    )


@dataclass(frozen=True, slots=True)
class CountSide:
    """The options of one side: the law of its count for each value of the target.

    ``laws`` (options, k, counts), ``prior`` (options, k) the probability of what is known given the
    target, ``span`` (options,) how many records the option needs, ``value`` that of the known
    record at its end (-1: none, the side is open).
    """

    laws: Array
    prior: Array
    span: Ints
    value: Ints


def kernels(chain: MarkovChain) -> tuple[Array, Array]:
    """Return the kernels outwards, left (the reversal of a stationary chain) and right."""
    law, step = chain.initial, chain.transition
    return np.asarray(step.T * law[None, :] / law[:, None]), step


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


def _entries(size: int, reach: int) -> float:
    options = reach * (size + 1) + 1
    return options**2 * size * (size - 1) * (2 * reach + 2)


def window_reach(
    chain: MarkovChain, faded: float, accepted: float, entries: float, instead: str
) -> int:
    """Return the distance up to which sides are enumerated, or refuse a chain of long memory.

    Longer sides should cost at most ``faded`` (`fading`); where the laws of the windows would have
    more than ``entries`` numbers before that, at most ``accepted``. ``instead`` names the methods
    for other chains.
    """
    most = math.inf if chain.length is None else chain.length - 1
    reach, cost = 8, math.inf
    while True:
        reach = int(min(reach, most))
        cost = 0.0 if reach >= most else fading(chain, reach)
        if cost <= faded or _entries(chain.size, reach + 8) > entries:
            break
        reach += 8
    if cost > accepted:
        raise NotSupported(
            "the windows of this chain are too many to enumerate: it remembers for more than "
            f"{reach} records; use {instead}"
        )
    return reach


def joint_counts(
    kernels: Iterable[Array], counted: Bools, *, logs: bool = False
) -> Iterator[Array]:
    """Yield Pr[m-th record, count of the first m | target] for m = 0, 1, .., (..., k, k, m + 1).

    ``kernels`` (..., k, k) lead from the target outwards, one for each record; the axes are those
    of stacked kernels, target, record, count. With ``logs`` logarithms: improbable counts of long
    sides are no floats.

    >>> [float(table.sum()) for table in joint_counts([np.eye(2)] * 2, np.array([False, True]))]
    [2.0, 2.0, 2.0]
    """
    start = np.eye(len(counted))[:, :, None]
    table = log(start) if logs else start
    yield table
    for kernel in kernels:
        if logs:
            terms = table[..., None, :] + log(kernel)[..., None, :, :, None]
            moved = log_sum(terms, axis=-3)  # (..., target, next, count)
        else:
            moved = np.einsum("...xyj,...yz->...xzj", table, kernel)
        table = np.full((*moved.shape[:-1], moved.shape[-1] + 1), -np.inf if logs else 0.0)
        table[..., counted, 1:] = moved[..., counted, :]
        table[..., ~counted, :-1] = moved[..., ~counted, :]
        yield table


def side_options(
    steps: Sequence[Array], counted: Bools, known: bool, *, last: bool = False
) -> CountSide:
    """Return the options of one side: open after 0, 1, .. records, or known at 1, 2, ..

    ``steps`` are the kernels outwards, one for each record. Without ``known`` none is known, or the
    ``last`` one alone.
    """
    size, reach = len(counted), len(steps)
    laws, prior, span, value = [], [], [], []
    for step, joint in enumerate(joint_counts(steps, counted)):
        table = np.pad(joint, ((0, 0), (0, 0), (0, reach + 1 - step)))  # (target, state, count)
        laws.append(table.sum(axis=1))  # open: (target, count)
        prior.append(np.ones(size))
        span.append(step)
        value.append(-1)
        mass = table.sum(axis=2)  # (target, state)
        for v in range(size if step and (known or (last and step == reach)) else 0):
            with np.errstate(divide="ignore", invalid="ignore"):
                given = table[:, v] / mass[:, v, None]
            laws.append(np.where(mass[:, v, None] > 0, given, 0.0))
            prior.append(mass[:, v])
            span.append(step)
            value.append(v)
    return CountSide(np.stack(laws), np.stack(prior), np.array(span), np.array(value))


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


@dataclass(frozen=True, slots=True, eq=False)
class CountWindows:
    """The windows of a chain as pairs of laws, and the attack that each of them stands for.

    ``counted`` (k,) says which states are counted. ``places`` (windows, 7): the target, -1 where
    its sides say which it is; its two values; and on each side, left first, the distance up to
    which records are looked at and the value of the known one there (-1: none).
    """

    chain: MarkovChain
    counted: Bools
    pairs: CountPairs
    places: Ints

    def witness(self, where: int, answer: float) -> Witness:
        """Return the attack on a window: an answer, less the counts of known records."""
        target, x, y, before, left, after, right = (int(part) for part in self.places[where])
        length = self.chain.length or max(before + 1 + after, 2)
        if target < 0:  # an open side on the right reaches to the end
            target = length - 1 - after if right < 0 else before
        ends = (target - before, left), (target + after, right)
        known = {record: value for record, value in ends if value >= 0}
        output = round(answer) - sum(bool(self.counted[value]) for value in known.values())
        path = complete(self.chain, known, target, length)
        return witnessed(self.chain, target, length, path, (x, y), output=output)


def _pairs_of(
    sides: Sequence[CountSide], options: Ints, counted: Bools, target: int = -1
) -> Iterator[tuple[Array, Array, Ints]]:
    """Yield the laws, the others and the places of windows, for each pair of values.

    ``options`` (windows, 2) are those of the two sides; what is known can occur with either value.
    """
    for x, y in zip(*ordered_pairs(len(counted)), strict=True):
        seen = [
            (side.prior[options[:, i]][:, [x, y]] > 0).all(axis=1) for i, side in enumerate(sides)
        ]
        own = options[seen[0] & seen[1]]
        laws, others = (
            window_laws(sides[0], sides[1], own, int(v), bool(counted[v])) for v in (x, y)
        )
        ends = [part[own[:, i]] for i, side in enumerate(sides) for part in (side.span, side.value)]
        yield laws, others, np.stack([*np.tile([[target], [x], [y]], len(own)), *ends], axis=1)


def _joined(pieces: Iterable[tuple[Array, Array, Ints]]) -> tuple[Array, Array, Ints]:
    """Return the laws, the others and the places of all pieces together."""
    laws, others, places = zip(*pieces, strict=True)
    return np.concatenate(laws), np.concatenate(others), np.concatenate(places)


def _both(left: Ints, right: Ints) -> Ints:
    """Return all pairs of options of two sides, (windows, 2)."""
    return np.stack(np.meshgrid(left, right, indexing="ij"), axis=-1).reshape(-1, 2)


def count_windows(
    chain: MarkovChain, counted: Bools, reach: int, *, known: bool = True
) -> CountWindows:
    """Return all windows of a stationary chain with sides of at most ``reach`` records.

    Windows with a known record at the reach stand for longer ones too, and are charged with what
    those cost (`fading`). Without ``known`` the windows of an adversary who knows no record; those
    with a known record at the reach then stand for longer ones alone.
    """
    sides = left, right = tuple(
        side_options([kernel] * reach, counted, known, last=True) for kernel in kernels(chain)
    )
    options = _both(np.arange(len(left.span)), np.arange(len(right.span)))
    allowed = _fits(chain, left, right, options)
    if chain.size == 2:  # reversible: a window and its mirror image have one law
        allowed &= options[:, 0] <= options[:, 1]
    longer = chain.length is None or chain.length - 1 > reach
    if not known and not longer:
        allowed &= (left.value[options[:, 0]] < 0) & (right.value[options[:, 1]] < 0)
    laws, others, places = _joined(_pairs_of(sides, options[allowed], counted))
    edge = longer & ((places[:, [3, 5]] == reach) & (places[:, [4, 6]] >= 0)).any(axis=1)
    slack = np.where(edge, fading(chain, reach) if longer else 0.0, 0.0)
    real = np.full(len(slack), True) if known else ~edge
    if chain.length is None:  # series of a single record are not meant, but bounded all the same
        real = real & (places[:, 3] + places[:, 5] > 0)
    # steps of both sides, a division for what is known, and the convolution of the sides
    pad = 2 * pad_log(2 * reach + 4, chain.size) + 2 * pad_log(laws.shape[1] + 4, 1)
    pairs = CountPairs(laws, others, slack, real, pad + start_error(chain))
    return CountWindows(chain, counted, pairs, places)


def _fits(chain: MarkovChain, left: CountSide, right: CountSide, options: Ints) -> Bools:
    """Return which pairs of options a series of the chain's length has room for."""
    if chain.length is None:
        return np.ones(len(options), dtype=bool)
    needed = left.span[options[:, 0]] + right.span[options[:, 1]] + 1
    open_ = (left.value[options[:, 0]] < 0) & (right.value[options[:, 1]] < 0)
    return np.asarray(np.where(open_, needed == chain.length, needed <= chain.length))


FADED = 2e-5
"""Share of a limit that sides beyond the reach should cost at most (upper side)."""


COARSE = 1e-2
"""Share beyond which that cost is not accepted, where more windows are too many."""


TABLED = 1.2e7
"""Most entries of the laws of a chain's windows for noise from a table (memory and cost)."""


OPEN = 96
"""Most records of a series whose windows without known records are all enumerated."""


def chain_windows(
    chain: MarkovChain, counted: tuple[bool, ...], against: Against, limit: float
) -> CountWindows:
    """Return all windows of a stationary chain that visits all its states, or refuse.

    ``counted`` says which states are counted, ``limit`` how large a leakage is looked at: the
    longer sides may cost a small share of it.
    """
    ignorant = against == "ignorant"
    return _windows(chain, counted, _reach(chain, limit, ignorant), ignorant)


@lru_cache(maxsize=2)
def _windows(
    chain: MarkovChain, counted: tuple[bool, ...], reach: int, ignorant: bool
) -> CountWindows:
    return count_windows(chain, np.array(counted), reach, known=not ignorant)


def _reach(chain: MarkovChain, limit: float, ignorant: bool) -> int:
    """Return up to which distance sides are enumerated, or refuse a chain of long memory."""
    if ignorant and chain.length is not None and chain.length <= OPEN:
        return chain.length - 1
    # a window of two states and its mirror image have one law: half of them are enumerated
    entries = TABLED * (2 if chain.size == 2 else 1)
    instead = "method='exact' or 'exchange'"
    return window_reach(chain, FADED * limit, COARSE * limit, entries, instead)


def varying_windows(chain: MarkovChain, counted: tuple[bool, ...], ignorant: bool) -> CountWindows:
    """Return all windows of a chain of a stated length, or refuse one with too many of them.

    >>> chain = MarkovChain([[.9, .1], [.3, .7]], start=[1, 0], length=2)
    >>> varying_windows(chain, (False, True), False).pairs.laws.shape  # the second record alone
    (4, 5)
    """
    records = chain.length
    if records is None:
        raise NotSupported(
            "the windows of a count are enumerated for stationary chains, and for chains of a "
            "stated length; use method='exact' or 'exchange'"
        )
    wide = 1 if ignorant else (records * chain.size / 2) ** 2
    if records**2 * wide * chain.size * (chain.size - 1) > ENTRIES:
        raise NotSupported(
            f"the windows of {records} records whose steps differ, or whose start is given, are "
            "too many to enumerate; use method='exact' or 'exchange'"
        )
    return _varying_windows(chain, counted, records, ignorant)


@lru_cache(maxsize=2)
def _varying_windows(
    chain: MarkovChain, counted: tuple[bool, ...], records: int, ignorant: bool
) -> CountWindows:
    """Return the windows of every target."""
    marks, marginals = np.array(counted), chain.marginals(records)
    back = _backwards(chain, marginals)
    pieces: list[tuple[Array, Array, Ints]] = []
    for target in range(records):
        steps = [back[t] for t in range(target - 1, -1, -1)]
        ahead = [chain.step(t) for t in range(target, records - 1)]
        sides = tuple(side_options(side, marks, not ignorant) for side in (steps, ahead))
        # open after fewer records than there are is no option of this target
        options = _both(*(
            np.flatnonzero((side.value >= 0) | (side.span == side.span.max())) for side in sides
        ))  # fmt: skip
        possible = marginals[target] > 0
        for laws, others, places in _pairs_of(sides, options, marks, target):
            rows = possible[places[:, 1:3]].all(axis=1)
            pieces.append((laws[rows], others[rows], places[rows]))
    laws, others, places = _joined(pieces)
    # both sides: a step, a division by marginals for each record, what is known, convolution
    steps_pad = 4 * records * pad_log(records + 4, chain.size)
    pad = 2 * pad_log(2 * records + 4, chain.size) + 2 * pad_log(records + 8, 1) + steps_pad
    none = np.zeros(len(laws))
    return CountWindows(chain, marks, CountPairs(laws, others, none, none == 0, pad), places)


def _backwards(chain: MarkovChain, marginals: Array) -> list[Array]:
    """Return Pr[record t | record t + 1] for every t, rows of impossible states 0."""
    kernels = []
    for t in range(len(marginals) - 1):
        joint = marginals[t][:, None] * chain.step(t)  # (state at t, state at t + 1)
        after = marginals[t + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            kernels.append(np.where(after[:, None] > 0, joint.T / after[:, None], 0.0))
    return kernels
