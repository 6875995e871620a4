"""Leakage of a noisy histogram on a Markov chain.

Windows of up to D steps a side are enumerated, at whole answers. The record z at distance D bounds
what lies beyond, loss(a, c; u, v) <= max_z [l_D(z) - l_a(u) + loss(D, c; z, v)] with
l_t(z) = ln P^t(z, x) / P^t(z, x') (docs, theory: noisy histograms).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.levels.replay import replay_count
from undertow.bounds.levels.sides import (
    Bools,
    complete,
    ordered_pairs,
    start_error,
    stated,
    witnessed,
)
from undertow.certificate import Leakage, Witness
from undertow.models.chains import MarkovChain
from undertow.numerics import Array, log_error, pad_log

__all__ = [
    "STEPS",
    "histogram_leakage",
]


METHOD = "exact"
STEPS = {2: 12, 3: 6, 4: 4, 5: 3, 6: 2}
"""Steps from the target within which windows are enumerated, by the number of states (cost: some
tenths of a second for all windows at one scale)."""

ORDINARY = 600.0
"""Largest -log of a likelihood that is computed as a product."""


@dataclass(frozen=True, slots=True)
class HistogramOption:
    """Knowledge on one side: the value ``known`` at a distance, or nothing up to the end.

    ``records`` are unknown between it and the target, or all there are on that side.
    """

    records: int
    known: int | None

    @property
    def reach(self) -> int:
        """Least number of records on the side."""
        return self.records + (self.known is not None)


def histogram_leakage(scale: float, chain: MarkovChain, against: Against = "any") -> Leakage | None:
    """Return the leakage of a histogram with (discrete) Laplace noise, as a certified interval.

    None where it has nothing to say: more than 6 states, steps that differ or are impossible, an
    adversary of one's own, noise too small for ordinary numbers. Closed where no series is longer
    than the windows, and all but closed where the chain forgets within them. The lower end is
    attained at an answer that is looked at. Cost k^2 D^2 C (2 D)^k with the steps D of `STEPS` and
    the C = (D + k - 1 over k) histograms of a side.

    >>> chain = MarkovChain([[.2, .4, .4], [.4, .2, .4], [.4, .4, .2]], length=4)
    >>> leak = histogram_leakage(4.0, chain)
    >>> round(leak.lower, 6), round(leak.upper, 6)
    (0.5, 0.5)
    """
    reduced = chain.visited()
    if reduced is None or reduced.size not in STEPS or against not in ("any", "ignorant"):
        return None
    if not reduced.homogeneous or min(reduced.transition.min(), reduced.initial.min()) <= 0:
        return None
    steps = STEPS[reduced.size]
    steps = steps if reduced.length is None else min(steps, reduced.length)
    if 3 * steps * reduced.size / scale > ORDINARY:
        return None
    return _Windows(reduced, steps, scale, against == "ignorant").leakage(against)


@dataclass(frozen=True, slots=True)
class _HistogramSide:
    """The options of one side and the laws of their histograms, (options, k, D, ..., D)."""

    options: tuple[HistogramOption, ...]
    laws: Array

    def far(self) -> list[int]:
        """Return the options that know the record D steps away, by its value."""
        steps = self.laws.shape[-1]
        return [
            place
            for place, option in enumerate(self.options)
            if option.known is not None and option.records == steps - 1
        ]


@lru_cache(maxsize=8)
def _side(chain: MarkovChain, steps: int, right: bool, ignorant: bool) -> _HistogramSide:
    """Return one side of every target: it depends neither on the noise nor on the position."""
    size = chain.size
    kernel = chain.transition if right else chain.transition.T  # (inner, outer), up to a factor
    ends = np.ones(size) if right else chain.initial  # of the farthest record of an open side
    # (target, outermost record, its histogram without that record: D, ..., D)
    path = np.zeros((size, size, *(steps,) * size))
    none: Any = (..., *(0,) * size)  # no record in any bin
    path[none] = kernel
    start = np.zeros((size, *(steps,) * size))
    start[none] = 1.0
    options, laws = [HistogramOption(0, None)], [start]
    for step in range(1, steps + 1):
        if not ignorant or step == steps:
            options += [HistogramOption(step - 1, value) for value in range(size)]
            laws += [path[:, value] for value in range(size)]
        if step == steps:
            break
        counted = np.zeros_like(path)
        for value in range(size):  # the outermost record enters the histogram
            axis = value + 1  # of the array without the axis of the outermost record
            into = tuple(slice(1, None) if a == axis else slice(None) for a in range(size + 1))
            out = tuple(slice(None, -1) if a == axis else slice(None) for a in range(size + 1))
            counted[:, value][into] = path[:, value][out]
        options.append(HistogramOption(step, None))
        laws.append(np.tensordot(ends, counted, axes=(0, 1)))
        path = np.moveaxis(np.tensordot(kernel, counted, axes=(0, 1)), 0, 1)
    tables = np.stack(laws)  # (options, target, D, ..., D)
    totals = tables.reshape(len(options), size, -1).sum(axis=2)
    return _HistogramSide(tuple(options), tables / totals.reshape(*totals.shape, *(1,) * size))


class _Windows:
    """All windows of up to D steps a side at one scale, and what lies beyond them."""

    def __init__(self, chain: MarkovChain, steps: int, scale: float, ignorant: bool) -> None:
        self.chain, self.steps, self.scale, self.ignorant = chain, steps, scale, ignorant
        self.left, self.right = (_side(chain, steps, right, ignorant) for right in (False, True))
        self.value, self.other = ordered_pairs(chain.size)
        self.top = 2 * steps - 1  # records of the largest window, and so the highest answer
        size = chain.size
        # every law is a sum of non-negative products: over steps, along the axes, over histograms
        sums = 2 * steps * (size + 4) + size * (steps + 4) + math.comb(steps - 1 + size, size) + 64
        exponents = 6 * size * (3 * steps / scale + 1)
        self.pad = 4 * log_error(sums + exponents + ORDINARY) + 2 * start_error(chain)

    def smooth(self, place: int) -> Array:
        """Return one law of the right side with noise, (k, answers -D .. 2 D - 1 in each bin)."""
        law = self.right.laws[place]
        answers = np.arange(-self.steps, self.top + 1)
        noise = np.exp(-np.abs(answers[:, None] - np.arange(self.steps)) / self.scale)
        for axis in range(1, self.chain.size + 1):
            law = np.moveaxis(np.tensordot(noise, law, axes=(1, axis)), 0, axis)
        return np.asarray(law)

    def logs(self, place: int, lefts: "list[int] | slice" = slice(None)) -> list[Array]:
        """Return, for each value of the target, ln Pr[answer] of windows, (left options, answers).

        The target and the left side move the answers at which the right side is read.
        """
        noisy, size, steps = self.smooth(place), self.chain.size, self.steps
        shifts = [c for c in product(range(steps), repeat=size) if sum(c) < steps]
        columns = []
        for target in range(size):
            read = []
            for shift in shifts:
                moved = [steps - n - (bin_ == target) for bin_, n in enumerate(shift)]
                read.append(noisy[target][tuple(slice(m, m + self.top + 1) for m in moved)].ravel())
            laws = self.left.laws[lefts, target]  # (left options, D, ..., D)
            weights = laws[(slice(None), *np.array(shifts).T)]
            columns.append(np.log(weights @ np.stack(read)))
        return columns

    def losses(self) -> Array:
        """Return the loss of every window, (left options, right options, pairs)."""
        rows = []
        for place in range(len(self.right.options)):
            logs = self.logs(place)
            rows.append(
                [
                    (logs[x] - logs[y]).max(axis=1)
                    for x, y in zip(self.value, self.other, strict=True)
                ]
            )
        return np.moveaxis(np.array(rows), 2, 0)

    def beyond(self) -> tuple[Array, Array]:
        """Return the cost of the record D steps away where more is known, (k, pairs) each.

        l_D(z) less the least that ln Pr[known | x] / Pr[known | x'] can be for what is D + 1 steps
        away or more, on the left; on the right the same with rows. An open side has ln of the
        ratio of the laws of the target on the left, 0 on the right.
        """
        power = np.linalg.matrix_power(self.chain.transition, self.steps)
        more = power @ self.chain.transition
        settled = isinstance(self.chain.start, str)
        pad = 4 * pad_log(self.steps + 1, self.chain.size)
        ends = []
        for near, far in ((power, more), (power.T, more.T)):
            logs, farther = (np.log(p[:, self.value] / p[:, self.other]) for p in (near, far))
            least = farther.min(axis=0)  # (pairs,)
            if near is power and not settled:
                least = logs.min(axis=0)  # an open side may have D records and no more
            elif self.ignorant:
                law = self.chain.initial
                least = np.log(law[self.value] / law[self.other]) if near is power else 0 * least
            ends.append(logs - least + pad)
        return ends[0], ends[1] + 0.0

    def leakage(self, against: Against) -> Leakage:
        """Return the interval: the worst window, and a bound on all others."""
        losses = self.losses()  # (left options, right options, pairs)
        # a last row and column for what is farther away
        wide = np.full((losses.shape[0] + 1, losses.shape[1] + 1, losses.shape[2]), -np.inf)
        wide[:-1, :-1] = losses
        left, right = self.beyond()
        wide[-1, :-1] = (left[:, None] + losses[self.left.far()]).max(axis=0)
        wide[:-1, -1] = (right[:, None] + losses[:, self.right.far()].swapaxes(0, 1)).max(axis=0)
        wide[-1, -1] = (right[:, None] + self._corner(losses, left)).max(axis=0).max(axis=0)
        wide[~self._possible()] = -np.inf
        exact = np.where(self._possible()[:-1, :-1, None], losses, -np.inf)
        if self.ignorant:  # what is known D steps away only serves to bound what is farther
            exact[self.left.far()] = exact[:, self.right.far()] = -np.inf
            wide[self.left.far()] = wide[:, self.right.far()] = -np.inf
        upper = max(float(wide.max()) + self.pad, 0.0)
        place = np.unravel_index(int(exact.argmax()), exact.shape)
        value, witness = self._attack(*map(int, place))
        return stated(
            METHOD, "docs, theory: noisy histograms", min(max(value, 0.0), upper), upper, against,
            witness if value > 0 else None,
        )  # fmt: skip

    def _corner(self, losses: Array, left: Array) -> Array:
        """Return the losses with both records D steps away known, with the left offset added."""
        both = losses[self.left.far()][:, self.right.far()]  # (k, k, pairs)
        return np.asarray((left[:, None] + both).max(axis=0)[:, None])

    def _possible(self) -> Bools:
        """Return which pairs of options some target of the series has; the last is *farther*."""
        length, steps = self.chain.length, self.steps
        values = np.ones((len(self.left.options) + 1, len(self.right.options) + 1), dtype=bool)
        if length is None:
            values[0, 0] = False  # both sides open and empty: a series has two records at least
            return values
        for row, before in enumerate(_rooms(self.left.options, steps)):
            for column, after in enumerate(_rooms(self.right.options, steps)):
                # targets with ``before`` records to the left, and ``after`` to the right
                low = max(before[0], length - 1 - after[1])
                high = min(before[1], length - 1 - after[0])
                values[row, column] = low <= high
        return values

    def _attack(self, row: int, column: int, pair: int) -> tuple[float, Witness]:
        """Return the attack on one window and its loss, rounded down."""
        chain, before, after = self.chain, self.left.options[row], self.right.options[column]
        target, length = before.reach, before.reach + 1 + after.reach
        if chain.length is not None:
            length = chain.length
            if before.known is not None:  # the later, the more is on the left
                target = length - 1 - after.reach
        known = {} if before.known is None else {target - before.reach: before.known}
        if after.known is not None:
            known[target + after.reach] = after.known
        path = complete(chain, known, target, length)
        x, y = int(self.value[pair]), int(self.other[pair])
        logs = self.logs(column, [row])
        ratio = (logs[x] - logs[y])[0].reshape((self.top + 1,) * chain.size)
        attained = float(ratio.max()) - self.pad
        attack = witnessed(chain, target, length, path, (x, y))
        ends = ratio[(slice(None, None, self.top),) * chain.size]  # every bin far too low or high
        if attained > float(ends.max()) + self.pad:
            return attained, attack  # at an answer in between
        high = np.unravel_index(int(ends.argmax()), ends.shape)
        members = tuple(state for state, end in zip(chain.states, high, strict=True) if end)
        loss = replay_count(replace(attack, output=-1), chain, members, self.scale / 2)[1]
        return loss, replace(attack, sets=((target, members),))


def _rooms(options: tuple[HistogramOption, ...], steps: int) -> Iterator[tuple[float, float]]:
    """Yield how many records a side with an option has, the least and the most; then *farther*."""
    for option in options:
        most = math.inf if option.known is not None else option.records
        yield option.reach, most
    yield steps, math.inf
