"""Brackets of attractive chains of order two by envelopes, where boxes are too wide.

A chain of order two is a hidden chain of its pairs (y, v), y the inner neighbour of a record v.
What total positivity does in `undertow.bounds.hidden.envelopes` attractiveness does here, for y is
a record: given v, what outputs beyond say of y grows with y; and a message at a record known to be
v is a factor of y alone, whatever its value, so that what is left is an attractive law: outputs
raise messages, and the leakage grows with them. With L(x, a) and R(a, x) the messages of the sides,
a the left neighbour of the target, the join is that of `undertow.bounds.second_order.joins`; where
a is known the sides multiply.
"""

import math

import numpy as np

from undertow.bounds.hidden.both_sides import Elements, Factors, Order, elements, worst_pair
from undertow.bounds.hidden.envelopes import Envelope, envelope
from undertow.bounds.hidden.gaps import side_gaps
from undertow.bounds.second_order.bracket import TargetPattern
from undertow.bounds.second_order.gaps import binary_laws
from undertow.bounds.second_order.joins import joint_pad
from undertow.bounds.second_order.patterns import Pattern
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import Array

__all__ = ["envelope_bracket"]

LEFT: Order = (0, 2, 1, 3)
"""Pairs (x, a) of the left, with a the record and x its inner neighbour, by x first."""

MOST_KNOWN = 12
"""Known records on a side of an attack (cost)."""


def _on_pairs(step: Array) -> Array:
    """Return the step over pairs (y, v), in the order 2 v + y: shape (4, 4)."""
    matrix = np.zeros((4, 4))
    for y in range(2):
        for v in range(2):
            for z in range(2):  # (y, v) is followed by (v, z)
                matrix[2 * v + y, 2 * z + v] = step[y, v, z]
    return matrix


def envelope_bracket(chain: SecondOrderChain, theta: float) -> tuple[float, TargetPattern]:
    """Return an upper bound of 1 against 0 on an attractive chain, and a pattern near it.

    ``theta`` bounds how far the likelihood of an output grows where a record becomes 1. The bound
    holds for every length and every set of known records; the pattern is to be played out.

    >>> chain = SecondOrderChain([[[.88, .12], [.5, .5]], [[.8, .2], [.42, .58]]])
    >>> upper, attack = envelope_bracket(chain, 1.0)
    >>> 2.96028 < upper < 2.963
    True
    """
    law, back = binary_laws(chain)
    left, right = (
        envelope(side_gaps(_on_pairs(step), np.ones(4), 0.0, theta), theta)
        for step in (back, chain.transition)
    )
    one, two = elements(left, LEFT), elements(right)
    ratio, seen = law[1] / law[0], math.exp(theta)  # pi(1, x) / pi(0, x), weight of a = 1
    factors: Factors = (
        seen * float(ratio[1]), float(ratio[0]), seen * float(ratio[0]), float(ratio[1]),
    )  # fmt: skip
    upper, i, j = worst_pair(one, two, theta, factors)
    found = [(upper, (("shown", 0), *_pattern(left, one, i)), _pattern(right, two, j))]
    # the left neighbour is known to be v: R(v, 1) / R(v, 0), seen over plain
    mu, _, _, g, h = two.table.T
    for value, beside in ((0, mu), (1, mu + g - h)):
        best = left.values[value]
        total = theta + math.log(float(best.max())) + float(beside.max())
        cell, place = int(best.argmax()), int(beside.argmax())
        beyond = _outwards(left.traced(value, cell, MOST_KNOWN), left.gaps.longest)
        pattern = (("known", value), *beyond)
        found.append((total + joint_pad(theta, total), pattern, _pattern(right, two, place)))
    worst, first, second = max(found, key=lambda each: each[0])
    return worst, TargetPattern(worst, first, second)


def _pattern(side: Envelope, made: Elements, place: int) -> Pattern:
    """Return the pattern of an element."""
    known, gap, cell = made.origin[place].tolist()
    if known < 0:
        return _outwards([], gap)
    further = side.traced(known, cell, MOST_KNOWN - 1)
    return _outwards([(gap, known), *further], side.gaps.longest)


def _outwards(known: list[tuple[int, int]], last: int) -> Pattern:
    """Return gaps and known values, and the shown records at the end, record by record."""
    found: list[tuple[str, int]] = []
    for gap, value in known:
        found += [("shown", 0)] * gap + [("known", value)]
    return (*found, *([("shown", 0)] * last))
