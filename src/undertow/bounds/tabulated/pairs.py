"""Pairs of laws of a count, and the largest ratio that noise with a table leaves between them.

With p and q the laws of a count under two values of a target, given what an adversary knows, and g
the law of the noise, the loss is the largest ln (p * g)(s) / (q * g)(s) over all whole numbers s.
The table of g runs from ``first`` to ``last``, the counts from 0 to J - 1.

*All answers.* At s = first every s - j lies in the lower tail, where g falls by a constant ratio r:
(p * g)(s - 1) = r (p * g)(s), and likewise for q, so that the ratio stays what it is at s = first
for all answers below. The same holds from s = last + J - 1 upwards. So the answers from first to
last + J - 1 stand for all, and the tails are proved with them.

*Rounding.* Every number is a sum of products of positive numbers, without subtraction: each is
right to a relative error of as many roundings as there are operations behind it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from undertow.bounds.chains.known import Bools, Ints
from undertow.errors import NotSupported
from undertow.numerics import ROUNDOFF, Array
from undertow.tabulated import TabulatedNoise

__all__ = ["BLOCK", "CountPairs", "Losses", "joined", "shifted_law", "windows_of"]

BLOCK = 2**22
"""Most entries of the table of windows and answers that is looked at together (memory)."""

FAINT = 1e-280
"""Least likelihood of an answer whose sums have lost nothing to underflow (lower side)."""


@dataclass(frozen=True, slots=True)
class Losses:
    """The largest losses of some pairs: certified ends, and the pair and answer of the lower one.

    ``where`` is -1 if no pair is attained.
    """

    lower: float
    upper: float
    where: int
    answer: int


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
        """How many counts there are."""
        return int(self.laws.shape[1])

    def error(self, answers: int) -> float:
        """Return how far the log of a computed ratio can lie from the true one."""
        return self.pad + 8.0 * (2 * self.counts + answers + 16) * ROUNDOFF

    def losses(self, noise: TabulatedNoise) -> Losses:
        """Return the largest loss over all pairs and all answers, as certified ends."""
        if not len(self.laws):
            return Losses(0.0, 0.0, -1, 0)
        table = shifted_law(noise, self.counts)  # (counts, answers)
        pad = self.error(table.shape[1])
        upper, lower, where, answer = 0.0, 0.0, -1, 0
        for part, ratio in self._ratios(table):
            top = ratio.max(axis=1)  # (pairs of this block,)
            upper = max(upper, float((top + self.slack[part]).max()) + pad)
            seen = np.where(self.real[part], top, -np.inf)
            at = int(seen.argmax())
            if seen[at] - pad > lower:
                lower, where = float(seen[at]) - pad, part.start + at
                answer = noise.first + int(ratio[at].argmax())
        return Losses(lower, upper, where, answer)

    def _ratios(self, table: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the log ratios (pairs, answers) of some pairs at a time."""
        step = max(1, BLOCK // table.shape[1])
        for start in range(0, len(self.laws), step):
            part = slice(start, min(start + step, len(self.laws)))
            one, two = self.laws[part] @ table, self.others[part] @ table
            if min(float(one.min()), float(two.min())) < FAINT:
                raise NotSupported(
                    "some answers are too improbable for exact arithmetic with this noise; use "
                    "method='exact'"
                )
            yield part, np.log(one / two)


def shifted_law(noise: TabulatedNoise, counts: int) -> Array:
    """Return g(s - j) for the counts j and the answers s = first .. last + counts - 1."""
    first, last = noise.first, noise.last
    law = noise.law(first - counts + 1, last + counts - 1)
    return windows_of(law, counts)


def windows_of(law: Array, counts: int) -> Array:
    """Return T[j, s] = law[counts - 1 - j + s]: a law read at s - j, (counts, answers)."""
    answers = len(law) - counts + 1
    place: Ints = np.arange(answers)[None, :] + (counts - 1 - np.arange(counts))[:, None]
    return np.asarray(law[place])


def joined(found: Sequence[CountPairs]) -> CountPairs:
    """Return the pairs of several models together."""
    counts = max(pairs.counts for pairs in found)

    def wide(law: Array) -> Array:
        return np.pad(law, ((0, 0), (0, counts - law.shape[1])))

    real: npt.NDArray[np.bool_] = np.concatenate([pairs.real for pairs in found])
    return CountPairs(
        np.concatenate([wide(pairs.laws) for pairs in found]),
        np.concatenate([wide(pairs.others) for pairs in found]),
        np.concatenate([pairs.slack for pairs in found]),
        real,
        max(pairs.pad for pairs in found),
    )
