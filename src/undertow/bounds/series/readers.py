"""How the sides of a series of two states are read: exactly, by the fastest way that applies.

Where some step is impossible, extreme messages are carried inwards (`messages`). Where every
transition is possible, the worst output of a record does not depend on what lies beyond it (the
maps of `messages` are monotone). Read outwards from the target, each record then shows the
output of largest or of least weight, as the product of the signs of det K on the way tells. With
these outputs z_t the products

    S_t = K_1 diag(B(., z_1)) K_2 diag(B(., z_2)) ... K_t diag(B(., z_t))

hold the extremes of all options: column v of S_{t-1} K_t for the value v known at distance t, and
S_t 1 for an open side of t records (weighted by the law of the farthest record, on the left).
Where all steps are alike, blocks of products are doubled, and n distances cost O(n) in a dozen
array operations.

Rounding. Only non-negative numbers are multiplied and added. A product of t factors makes t - 1
products of 2 x 2 matrices in whatever order, each of 3 roundings with its rescaling, and each
factor has one: an entry of S_t is off by less than 4 t roundings, relatively. A gain is a
difference of two log-ratios of such entries; `PLAIN_ERROR` covers it and its logarithms. Entries
that underflow are smaller by more than `PLAIN` squared than those beside them in every sum.
"""

from collections.abc import Callable, Iterator

import numpy as np

from undertow.bounds.chains.known import Bools, Ints
from undertow.bounds.series.messages import (
    FLIP,
    Extremes,
    intervals,
    law_ratios,
    own_weights,
    pulls,
    rung,
    traced,
)
from undertow.bounds.series.observed import PLAIN, ObservedChain, Option, primitive
from undertow.bounds.series.rungs import Rung
from undertow.numerics import ROUNDOFF, Array

__all__ = ["Products", "TwoStates", "climb"]

PLAIN_ERROR = 20.0
"""Roundings charged for each factor of a product, and for each unit of a log-ratio (upper side)."""


def _patterned(
    observed: ObservedChain, target: int, side: int, option: Option, direction: int
) -> dict[int, int]:
    """Return the worst outputs of a side, by record."""
    low, high = pulls(observed.channels)
    shown = (high, low) if direction == 0 else (low, high)
    outputs: dict[int, int] = {}
    turned = 0
    last = option.distance if option.value is None else option.distance - 1
    for step in range(1, last + 1):
        record = target + side * step
        turned ^= int(_turns(observed.kernel(record - side, side)))
        outputs[record] = int(shown[turned][0 if len(low) == 1 else record])
    if option.value is None and side < 0 and last:
        outputs |= _certain(observed, target - last)
    return outputs


def _certain(observed: ObservedChain, record: int) -> dict[int, int]:
    """Return a possible output of a record that has only one possible value, or nothing."""
    law = observed.chain.law(record)
    if law.all():
        return {}
    return {record: int(observed.channel(record)[int(law.argmax())].argmax())}


def _turns(kernel: Array) -> Bools:
    """Return whether the map of a kernel (..., 2, 2) falls."""
    falls = kernel[..., 0, 0] * kernel[..., 1, 1] < kernel[..., 0, 1] * kernel[..., 1, 0]
    return np.asarray(falls)


class Products:
    """One side of a series all of whose steps and channels are alike, grown as far as needed."""

    def __init__(self, observed: ObservedChain, side: int) -> None:
        """Start with the identity and the first factor of each pass: 0 over 1, 1 over 0, none."""
        chain, channel = observed.chain, observed.channels[0]
        self.kernel = chain.transition if side > 0 else np.ascontiguousarray(chain.transition.T)
        self.far = np.ones(2) if side > 0 else chain.initial
        low, high = (channel[:, int(index[0])] for index in pulls(observed.channels))
        even = [high, low, np.ones(2)]
        odd = [low, high, np.ones(2)] if _turns(self.kernel) else even
        self.even = np.stack([self.kernel * seen / seen.max() for seen in even])  # pass, x, y
        self.table = np.empty((3, 2, 2, 2))  # pass, x, y, t
        self.table[..., 0] = np.eye(2)
        self.table[..., 1] = np.stack([self.kernel * seen / seen.max() for seen in odd])

    @property
    def steps(self) -> int:
        """How many distances there are."""
        return self.table.shape[3] - 1

    def grow(self, steps: int) -> None:
        """Extend the products to at least so many factors, by doubling."""
        while self.steps < steps:
            count = self.steps + 1  # even: the pattern of outputs repeats after two records
            take = min(count, steps + 1 - count + (steps + 1) % 2)
            block = np.einsum("pxk,pky->pxy", self.table[..., -1], self.even)  # (pass, x, y)
            near = self.table[..., :take]  # (pass, x, y, t)
            part = (
                block[:, :, 0, None, None] * near[:, None, 0]
                + block[:, :, 1, None, None] * near[:, None, 1]
            )
            part /= part.max(axis=(1, 2), keepdims=True)
            self.table = np.concatenate([self.table, part], axis=3)

    def rung(self) -> Rung:
        """Return the gains at all distances as one rung, a row for each distance."""
        near, k = self.table[..., :-1], self.kernel
        # (pass, x, v, t)
        known = near[:, :, 0, None] * k[0][:, None] + near[:, :, 1, None] * k[1][:, None]
        # (pass, x, t)
        ended = self.table[:, :, 0, 1:] * self.far[0] + self.table[:, :, 1, 1:] * self.far[1]
        if not self.far.all():  # the first record is certain: as good as known
            ended = known[:, :, int(self.far.argmax())]
        ratio = np.log(known[:, 0]) - np.log(known[:, 1])  # (pass, v, t)
        total = np.log(ended[:, 0]) - np.log(ended[:, 1])  # (pass, t)
        return _passed(ratio.transpose(2, 0, 1), total.T, np.arange(1, self.steps + 1))


def _passed(ratio: Array, total: Array, steps: Ints) -> Rung:
    """Return the gains of three passes: known (N, 3, v) and open (N, 3), after so many steps."""
    size = 1.0 + float(np.abs(ratio).max())
    error = np.asarray(PLAIN_ERROR * (steps + 2.0 + size) * ROUNDOFF)
    every = np.concatenate([ratio, total[..., None]], axis=2)[:, :, None]  # (N, 3, 1, v and open)
    return rung(every[:, 1], every[:, 0], ratio[:, 2], total[:, 2], error)


def climb(observed: ObservedChain, side: int, targets: Ints, most: int) -> Iterator[Rung]:
    """Yield the gains of some targets at distances 1 .. most; nonsense where room is lacking."""
    chain, channels = observed.chain, observed.channels
    steps = chain.transition[None] if chain.homogeneous else chain.transition
    steps = steps if side > 0 else steps.transpose(0, 2, 1)
    falls = _turns(steps)
    shown = np.stack(pulls(channels))
    laws = np.ones((1, 2)) if side > 0 else chain.marginals(int(targets.max()) + 1)
    passed = targets if side < 0 else np.zeros_like(targets)  # roundings of their laws
    turned = np.zeros(len(targets), dtype=np.int64)
    near = np.broadcast_to(np.eye(2), (len(targets), 3, 2, 2))  # S: target, pass, x, y
    for distance in range(1, most + 1):
        record = np.maximum(targets + side * distance, 0)
        step = np.minimum(record - (side > 0), len(steps) - 1)
        kernel = steps[step]
        turned = turned ^ falls[step]
        known = (
            near[..., 0, None] * kernel[:, None, None, 0]
            + near[..., 1, None] * kernel[:, None, None, 1]
        )  # (N, 3, x, v)
        here = np.minimum(record, len(channels) - 1)
        pick = shown[np.stack([1 - turned, turned], axis=1), here[:, None]]  # (N, pass)
        seen = np.ones((len(targets), 3, 2))
        seen[:, :2] = channels[here[:, None], :, pick]
        near = known * seen[:, :, None, :]
        near = near / near.max(axis=(2, 3), keepdims=True)
        law = laws[np.minimum(record, len(laws) - 1)]  # (N, 2)
        # (N, pass, x)
        ended = near[..., 0] * law[:, None, None, 0] + near[..., 1] * law[:, None, None, 1]
        sure = np.flatnonzero(~law.all(axis=1))  # a certain record is as good as known
        ended[sure] = known[sure, :, :, law[sure].argmax(axis=1)]
        ratio = np.log(known[:, :, 0]) - np.log(known[:, :, 1])  # (N, 3, v)
        total = np.log(ended[..., 0]) - np.log(ended[..., 1])  # (N, 3)
        yield _passed(ratio, total, distance + passed)


class TwoStates:
    """Two states: products of matrices where every step is possible, else extreme messages."""

    longest: int = 65_536
    mirrored: bool = True  # every two-state chain is reversible

    def __init__(self, observed: ObservedChain) -> None:
        """Choose the way to read."""
        self.observed = observed
        # every transition is possible, so that the worst outputs form a pattern
        self.steady = observed.noise is None and bool(observed.chain.transition.min() >= PLAIN)
        if not primitive(observed.chain):
            self.longest = 64  # nothing merges, however far one reads

    def own(self, targets: Ints) -> tuple[Array, Ints]:
        """Return the log-ratio of the target's own output and which it is, (N, O, 2)."""
        return own_weights(self.observed, targets)

    def table(self, side: int, most: int, settled: Callable[[Rung], bool]) -> Rung:
        """Return the gains of one target by distance, where all are alike, until settled."""
        if self.steady:
            products, steps = Products(self.observed, side), 64
            while True:
                products.grow(min(steps, most))
                found = products.rung()
                if products.steps >= most or settled(found):
                    return found
                steps *= 4
        read: list[Extremes] = []
        check = 16
        for extremes in intervals(self.observed, side, most):
            read.append(extremes)
            if len(read) == check:
                if settled(_stacked(read)):
                    break
                check += check // 2
        return _stacked(read)

    def rungs(self, side: int, targets: Ints, most: int) -> Iterator[Rung]:
        """Yield the gains of some targets, distance by distance."""
        if self.steady:
            yield from climb(self.observed, side, targets, most)
            return
        for low, high, prior, ended, error in intervals(self.observed, side, most):
            yield rung(*(part[targets] for part in (low, high, prior, ended, error)))

    def laws(self, records: int) -> tuple[Array, Array]:
        """Return what the laws of the first records say, (records, 2), and errors (records,)."""
        found, error = law_ratios(self.observed, records)
        return FLIP * found[:, None], error

    def outputs(
        self, target: int, side: int, option: Option, own: int, pair: int
    ) -> dict[int, int]:
        """Return the outputs behind the best gain of a side."""
        if not option.distance:
            return {}
        if self.steady:
            return _patterned(self.observed, target, side, option, pair)
        return traced(self.observed, target, side, option, own, pair)


def _stacked(read: list[Extremes]) -> Rung:
    """Return what was read of one target as one rung, a row for each distance."""
    low, high, prior, ended, error = (np.concatenate(part) for part in zip(*read, strict=True))
    return rung(low, high, prior, ended, error)
