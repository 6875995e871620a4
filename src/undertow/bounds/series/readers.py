"""How the sides of a series are read: two states exactly, by the fastest way that applies."""

from collections.abc import Callable, Iterator

import numpy as np

from undertow.bounds.chains.known import Ints
from undertow.bounds.series.ladders import Products, climb, patterned, steady
from undertow.bounds.series.messages import (
    FLIP,
    Extremes,
    intervals,
    law_ratios,
    own_weights,
    rung,
    traced,
)
from undertow.bounds.series.rungs import Rung
from undertow.bounds.series.watched import Option, Watched, primitive
from undertow.numerics import Array

__all__ = ["TwoStates"]


class TwoStates:
    """Two states: products of matrices where every step is possible, else extreme messages."""

    longest: int = 65_536
    mirrored: bool = True  # every two-state chain is reversible

    def __init__(self, watched: Watched) -> None:
        """Choose the way to read."""
        self.watched, self.steady = watched, steady(watched)
        if not primitive(watched.chain):
            self.longest = 64  # nothing merges, however far one reads

    def own(self, targets: Ints) -> tuple[Array, Ints]:
        """Return the log-ratio of the target's own output and which it is, (N, O, 2)."""
        return own_weights(self.watched, targets)

    def table(self, side: int, most: int, settled: Callable[[Rung], bool]) -> Rung:
        """Return the gains of one target by distance, where all are alike, until settled."""
        if self.steady:
            products, steps = Products(self.watched, side), 64
            while True:
                products.grow(min(steps, most))
                found = products.rung()
                if products.steps >= most or settled(found):
                    return found
                steps *= 4
        read: list[Extremes] = []
        check = 16
        for extremes in intervals(self.watched, side, most):
            read.append(extremes)
            if len(read) == check:
                if settled(_stacked(read)):
                    break
                check += check // 2
        return _stacked(read)

    def rungs(self, side: int, targets: Ints, most: int) -> Iterator[Rung]:
        """Yield the gains of some targets, distance by distance."""
        if self.steady:
            yield from climb(self.watched, side, targets, most)
            return
        for low, high, prior, ended, error in intervals(self.watched, side, most):
            yield rung(*(part[targets] for part in (low, high, prior, ended, error)))

    def laws(self, records: int) -> tuple[Array, Array]:
        """Return what the laws of the first records say, (records, 2), and errors (records,)."""
        found, error = law_ratios(self.watched, records)
        return FLIP * found[:, None], error

    def outputs(
        self, target: int, side: int, option: Option, own: int, pair: int
    ) -> dict[int, int]:
        """Return the outputs behind the best gain of a side."""
        if not option.distance:
            return {}
        if self.steady:
            return patterned(self.watched, target, side, option, pair)
        return traced(self.watched, target, side, option, own, pair)


def _stacked(read: list[Extremes]) -> Rung:
    """Return what was read of one target as one rung, a row for each distance."""
    low, high, prior, ended, error = (np.concatenate(part) for part in zip(*read, strict=True))
    return rung(low, high, prior, ended, error)
