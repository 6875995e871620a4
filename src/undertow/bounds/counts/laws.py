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
    ordered_pairs,
    start_error,
    witnessed,
)
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.chains import MarkovChain
from undertow.numerics import ROUNDOFF, Array, log_ratio, pad_log, up
from undertow.progress import spend

__all__ = [
    "ENTRIES",
    "ChainPairs",
    "CountPairs",
    "CountSide",
    "CountWindows",
    "VaryingPairs",
    "chain_pairs",
    "count_windows",
    "fading",
    "joint_counts",
    "side_options",
    "stack_pairs",
    "varying_pairs",
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
    target, ``span`` (options,) how many records the option needs, ``shut`` which end in a known
    record, ``value`` that record's value (-1: open).
    """

    laws: Array
    prior: Array
    span: Ints
    shut: Bools
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


def joint_counts(kernels: Iterable[Array], counted: Bools) -> Iterator[Array]:
    """Yield Pr[m-th record, count of the first m | target] for m = 0, 1, .., (k, k, m + 1).

    ``kernels`` lead from the target outwards, one for each record; axes (target, record, count).

    >>> [float(table.sum()) for table in joint_counts([np.eye(2)] * 2, np.array([False, True]))]
    [2.0, 2.0, 2.0]
    """
    table = np.eye(len(counted))[:, :, None]
    yield table
    for kernel in kernels:
        moved = np.einsum("xyj,yz->xzj", table, kernel)  # (target, next, count)
        table = np.zeros((*moved.shape[:2], moved.shape[2] + 1))
        table[:, counted, 1:] = moved[:, counted]
        table[:, ~counted, :-1] = moved[:, ~counted]
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


FADED = 2e-5
"""Share of a limit that sides beyond the reach should cost at most (upper side)."""


COARSE = 1e-2
"""Share beyond which that cost is not accepted, where more windows are too many."""


TABLED = 1.2e7
"""Most entries of the laws of a chain's windows for noise from a table (memory and cost)."""


OPEN = 96
"""Most records of a series whose windows without known records are all enumerated."""


class ChainPairs:
    """The pairs of a chain, and the attack that each of them stands for."""

    def __init__(self, chain: MarkovChain, windows: CountWindows, against: Against) -> None:
        """Keep the windows with what rounding can have done to them."""
        self.chain, self.windows = chain, windows
        reach = int(max(side.span.max() for side in windows.sides))
        counts = windows.laws.shape[1]
        # steps of both sides, a division for what is known, and the convolution of the sides
        pad = 2 * pad_log(2 * reach + 4, chain.size) + 2 * pad_log(counts + 4, 1)
        slack = np.where(windows.edge, windows.eta, 0.0)
        real = np.ones(len(slack), bool) if against == "any" else ~windows.edge
        if (
            chain.length is None
        ):  # series of a single record are not meant, but bounded all the same
            spans = [side.span[windows.options[:, i]] for i, side in enumerate(windows.sides)]
            real = real & (spans[0] + spans[1] > 0)
        self.pairs = CountPairs(windows.laws, windows.others, slack, real, pad + start_error(chain))

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a window at an answer, less the counts of known records."""
        windows, chain = self.windows, self.chain
        attack = windows.witness(where, answer)
        states = {record: chain.index(value) for record, value in attack.known}
        left, right = (int(option) for option in windows.options[where])
        nearest = [
            int(side.value[option])
            for side, option in zip(windows.sides, (left, right), strict=True)
            if side.shut[option]
        ]
        own = sum(bool(windows.counted[state]) for state in nearest)
        known = complete(chain, states, attack.target, attack.length)
        pair = (int(windows.pair[where, 0]), int(windows.pair[where, 1]))
        return witnessed(chain, attack.target, attack.length, known, pair, output=answer - own)


def chain_pairs(
    chain: MarkovChain, counted: tuple[bool, ...], against: Against, limit: float
) -> ChainPairs:
    """Return all windows of a stationary chain that visits all its states, or refuse.

    ``counted`` says which states are counted, ``limit`` how large a leakage is looked at: the
    longer sides may cost a small share of it.
    """
    ignorant = against == "ignorant"
    return _pairs(chain, counted, _reach(chain, limit, ignorant), ignorant)


@lru_cache(maxsize=2)
def _pairs(chain: MarkovChain, counted: tuple[bool, ...], reach: int, ignorant: bool) -> ChainPairs:
    windows = count_windows(chain, np.array(counted), reach, known=not ignorant)
    return ChainPairs(chain, windows, "ignorant" if ignorant else "any")


def _reach(chain: MarkovChain, limit: float, ignorant: bool) -> int:
    """Return up to which distance sides are enumerated, or refuse a chain of long memory."""
    if ignorant and chain.length is not None and chain.length <= OPEN:
        return chain.length - 1
    # a window of two states and its mirror image have one law: half of them are enumerated
    entries = TABLED * (2 if chain.size == 2 else 1)
    instead = "method='exact' or 'exchange'"
    return window_reach(chain, FADED * limit, COARSE * limit, entries, instead)


class VaryingPairs:
    """The pairs of a chain, position by position, and the attack that each of them stands for.

    ``places`` (pairs, 7): the target, its two values, and on each side the distance of the known
    record and its value, -1 where nothing is known.
    """

    def __init__(self, chain: MarkovChain, counted: tuple[bool, ...], ignorant: bool) -> None:
        """Enumerate the windows of every target."""
        self.chain, self.counted = chain, counted
        records, marks = _length(chain), np.array(counted)
        laws: list[Array] = []
        others: list[Array] = []
        places: list[Ints] = []
        marginals = chain.marginals(records)
        back = _backwards(chain, marginals)
        for target in range(records):
            steps = [back[t] for t in range(target - 1, -1, -1)]
            ahead = [chain.step(t) for t in range(target, records - 1)]
            left, right = (side_options(side, marks, not ignorant) for side in (steps, ahead))
            options = _options(left, right)
            for x, y in zip(*ordered_pairs(chain.size), strict=True):
                if min(marginals[target, x], marginals[target, y]) == 0:
                    continue
                # (options,): what is known can occur with either value
                seen = [
                    (side.prior[options[:, i]][:, [x, y]] > 0).all(axis=1)
                    for i, side in enumerate((left, right))
                ]
                own = options[seen[0] & seen[1]]
                for tables, value in ((laws, x), (others, y)):
                    law = window_laws(left, right, own, int(value), counted[value])
                    # the sides' counts and the target's: padded to those of the whole series
                    tables.append(np.pad(law, ((0, 0), (0, records + 3 - law.shape[1]))))
                ends = [
                    np.where(side.shut, entry, -1)[own[:, i]]
                    for i, side in enumerate((left, right))
                    for entry in (side.span, side.value)
                ]
                places.append(np.stack([*np.tile([[target], [x], [y]], len(own)), *ends], axis=1))
        # both sides: a step, a division by marginals for each record, what is known, convolution
        steps_pad = 4 * records * pad_log(records + 4, chain.size)
        pad = 2 * pad_log(2 * records + 4, chain.size) + 2 * pad_log(records + 8, 1) + steps_pad
        first, second = np.concatenate(laws), np.concatenate(others)
        self.places: Ints = np.concatenate(places)
        none = np.zeros(len(first))
        self.pairs = CountPairs(first, second, none, none == 0, pad)

    def witness(self, where: int, answer: int) -> Witness:
        """Return the attack of a window at an answer, less the counts of known records."""
        target, x, y, *ends = (int(part) for part in self.places[where])
        signs = ((-1, ends[0], ends[1]), (1, ends[2], ends[3]))
        known = {target + sign * far: value for sign, far, value in signs if value >= 0}
        own = sum(self.counted[value] for value in known.values())
        records = _length(self.chain)
        path = complete(self.chain, known, target, records)
        return witnessed(self.chain, target, records, path, (x, y), output=answer - own)


def varying_pairs(chain: MarkovChain, counted: tuple[bool, ...], ignorant: bool) -> VaryingPairs:
    """Return all windows of a chain of a stated length, or refuse one with too many of them.

    >>> chain = MarkovChain([[.9, .1], [.3, .7]], start=[1, 0], length=2)
    >>> varying_pairs(chain, (False, True), False).pairs.laws.shape  # the second record alone
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
    return _varying_pairs(chain, counted, ignorant)


_varying_pairs = lru_cache(maxsize=2)(VaryingPairs)


def _length(chain: MarkovChain) -> int:
    """Return the number of records, which is stated here."""
    return chain.length or 0


def _backwards(chain: MarkovChain, marginals: Array) -> list[Array]:
    """Return Pr[record t | record t + 1] for every t, rows of impossible states 0."""
    kernels = []
    for t in range(len(marginals) - 1):
        joint = marginals[t][:, None] * chain.step(t)  # (state at t, state at t + 1)
        after = marginals[t + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            kernels.append(np.where(after[:, None] > 0, joint.T / after[:, None], 0.0))
    return kernels


def _options(left: CountSide, right: CountSide) -> Ints:
    """Return the options of both sides together, (options, 2); open sides reach to the ends.

    Open after fewer records than there are is no option of this target.
    """
    each = [
        np.flatnonzero(side.shut | (side.span == side.span.max())) for side in (left, right)
    ]  # fmt: skip
    first, second = np.meshgrid(*each, indexing="ij")
    return np.stack([first.ravel(), second.ravel()], axis=1)
