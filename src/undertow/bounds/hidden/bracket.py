"""What is revealed of a record of a hidden chain, whatever is known: a bracket for every length.

For hidden chains of two symbols with one or two hidden states each whose transitions are positive,
and totally positive of order 2 in some order of the hidden states. Their laws are attractive, so
that of all likelihoods F = exp(theta sum of unknown records) is the worst (docs, theory-memory):
one computation for all algorithms of a level, counts and flips. The upper end holds for series of
every length and every set of known records (`envelopes`, `both_sides`); the lower end is attained
by a pattern of known records that is read off the upper one, and played out.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product

import numpy as np

from undertow.bounds.hidden.both_sides import elements, worst_pair
from undertow.bounds.hidden.envelopes import Envelope, envelope
from undertow.bounds.hidden.gaps import INSIDE, Gaps, side_gaps
from undertow.bounds.hidden.perron import perron
from undertow.errors import NotSupported
from undertow.models.attractive import kernel_margin
from undertow.models.hidden_chain import HiddenChain
from undertow.numerics import ROUNDOFF, Array

__all__ = ["Bracket", "SidePattern", "any_bracket", "pattern_codes", "regime_kernel"]

LARGEST_THETA, LEAST_THETA = 60.0, 1e-9
"""Log-ratios outside of it are left alone: likelihoods would lie too far apart, or too near for
the roundings."""

MOST_KNOWN = 40
"""Known records on a side of an attack (cost)."""

NEGLIGIBLE = 1e-7
"""Relative part of an attack's value that is given up for a shorter pattern."""

SidePattern = tuple[tuple[tuple[int, int], ...], int]
"""Outwards: (unknown records, then a record known to be the value) for each known record, and the
unknown records at the end. Values are 0 and 1 with 1 the value that is spoken for."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """One direction: bounds, and the pattern of either side that attains ``lower`` up to rounding.

    ``state`` is the value that outputs speak for.
    """

    lower: float
    upper: float
    state: int
    left: SidePattern
    right: SidePattern


def regime_kernel(chain: HiddenChain) -> Array | None:
    """Return the transitions over hidden states 0, 1 | 2, 3 of both symbols, totally positive.

    A symbol with one hidden state has it twice, each entered half of the time. None where that is
    not possible.

    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> regime_kernel(chain)[0].tolist()
    [0.7, 0.2, 0.05, 0.05]
    """
    shown = chain.shown
    parts = [np.flatnonzero(shown == state).tolist() for state in range(chain.size)]
    if chain.size != 2 or max(map(len, parts)) > 2 or not (chain.transition > 0).all():
        return None
    for low, high in product(*(permutations(part) for part in parts)):
        order = [*low, *high]
        if kernel_margin(chain.transition[np.ix_(order, order)]) >= 0:
            twice = [*(low * (3 - len(low))), *(high * (3 - len(high)))]
            entered = np.array([len(part) / 2 for part in (low, low, high, high)])
            return np.asarray(chain.transition[np.ix_(twice, twice)] * entered)
    return None


def any_bracket(chain: HiddenChain, state: int, theta: float) -> Bracket:
    """Return the bracket of one state against the other, for log-ratios of at most ``theta``.

    ``theta`` bounds how far the likelihood of an output grows where a record becomes ``state``.
    Raises `NotSupported` where no bound is known. Cost: some tenths of a second.

    >>> chain = HiddenChain([[.7, .2, .1], [.3, .4, .3], [.1, .2, .7]], (0, 0, 1))
    >>> found = any_bracket(chain, 1, 1.0)
    >>> 2.88 < found.lower <= found.upper < 2.9, found.upper / found.lower < 1.001
    (True, True)
    """
    if theta <= 0:
        return Bracket(0.0, 0.0, state, ((), 0), ((), 0))
    kernel = regime_kernel(chain)
    if kernel is None:
        raise NotSupported("this bound is for totally positive chains of two hidden states each")
    if not LEAST_THETA <= theta <= LARGEST_THETA:
        raise NotSupported(f"ratios of e^{theta:g} are not told apart here")
    if state == 0:  # the other way round: total positivity is the same in the opposite order
        kernel = np.ascontiguousarray(kernel[::-1, ::-1])
    return _bracket(kernel.tobytes(), state, theta)


@lru_cache(maxsize=64)
def _bracket(content: bytes, state: int, theta: float) -> Bracket:
    kernel = np.frombuffer(content).reshape(4, 4)
    left, right = _sides(kernel, theta)
    one, two = elements(left), elements(right)
    upper, i, j = worst_pair(one, two, theta)
    patterns = [
        _traced(side, *origin.tolist())
        for side, origin in ((left, one.origin[i]), (right, two.origin[j]))
    ]
    lower, shortest = _shortest(left.gaps, patterns[0], right.gaps, patterns[1], theta)
    return Bracket(min(max(lower, 0.0), upper), upper, state, *shortest)


def _sides(kernel: Array, theta: float) -> tuple[Envelope, Envelope]:
    """Return the envelopes of the left and the right."""
    law, error = perron(kernel.T)
    if not math.isfinite(error):
        raise NotSupported("the stationary law of this chain is not known well enough")
    # rows that sum to 1 up to rounding: the law is a quotient of sums of products of three entries
    gaps = (
        side_gaps(np.ascontiguousarray(kernel.T), law, error + 64 * ROUNDOFF, theta),
        side_gaps(kernel, np.ones(4), 0.0, theta),
    )
    return envelope(gaps[0], theta), envelope(gaps[1], theta)


def _traced(side: Envelope, known: int, gap: int, cell: int) -> SidePattern:
    """Return the pattern of an element."""
    if known < 0:
        return (), gap
    found = [(gap, known), *side.traced(known, cell, MOST_KNOWN - 1)]
    return tuple(found), side.gaps.longest


def _shortest(
    left: Gaps, first: SidePattern, right: Gaps, second: SidePattern, theta: float
) -> tuple[float, tuple[SidePattern, SidePattern]]:
    """Return the value of the shortest patterns that all but attain the largest one, and these."""
    one, two = _prefixes(first), _prefixes(second)
    lefts = np.stack([message(left, pattern) for pattern in one])  # (patterns, 2, 4)
    rights = np.stack([message(right, pattern) for pattern in two])
    both = lefts[:, None] * rights[None]  # (left, right, seen or plain, states)
    odds = np.log(both[..., 2:].sum(axis=-1)) - np.log(both[..., :2].sum(axis=-1))
    values = theta + odds[..., 0] - odds[..., 1]
    records = np.add.outer(*(np.array([_records(p) for p in each]) for each in (one, two)))
    enough = values >= values.max() - NEGLIGIBLE * abs(values.max())
    place = int(np.where(enough, records, np.iinfo(np.int64).max).argmin())
    i, j = divmod(place, len(two))
    return float(values[i, j]), (one[i], two[j])


def _prefixes(pattern: SidePattern) -> list[SidePattern]:
    """Return a pattern cut after each of its known records, with ends of several lengths."""
    known, last = pattern
    ends = sorted({min(last, 2**power) for power in range(3, 14)} | {last})
    return [(known[:count], end) for count in range(len(known) + 1) for end in ends]


def _records(pattern: SidePattern) -> int:
    return sum(gap + 1 for gap, _ in pattern[0]) + pattern[1]


def message(gaps: Gaps, pattern: SidePattern) -> Array:
    """Return what a pattern says of the target's hidden states, with outputs and plain: (2, 4)."""
    known, last = pattern
    seen = gaps.ends[last] if last < gaps.longest else gaps.far @ gaps.end
    found = []
    for vector, table in ((seen, gaps.seen), (gaps.end, gaps.plain)):
        for gap, value in reversed(known):
            inside = INSIDE[value]
            vector = table[gap][:, inside] @ vector[inside]
            vector = vector / vector.max()
        found.append(vector)
    return np.stack(found)


def pattern_codes(pattern: SidePattern, state: int, shown: int) -> tuple[int, ...]:
    """Return what is looked at outwards: ``shown`` for an output, or the known state.

    >>> pattern_codes((((2, 1), (0, 0)), 1), 0, -1)
    (-1, -1, 0, 1, -1)
    """
    codes: list[int] = []
    for gap, value in pattern[0]:
        codes += [shown] * gap + [state if value else 1 - state]
    return (*codes, *([shown] * pattern[1]))
