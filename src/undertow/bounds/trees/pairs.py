"""The messages of a two-state tree, node by node: for trees that are long and thin.

The same two sweeps as in `trees`, in plain arithmetic. A message is the pair s(0, 1), s(1, 0).
"""

import math
from collections.abc import Sequence

import numpy as np

from undertow.bounds.trees.branches import Branches
from undertow.numerics import ROUNDOFF, Array

__all__ = ["pair_messages"]

Pair = tuple[float, float]


def pair_messages(tree: Branches, side: float, *, known: bool) -> Array:
    """Return the sum of all messages into every node, (n, 2, 2), rounded to one side.

    All entries of the kernels ``down`` and ``back`` must be positive; ``side`` is 1 for upper ends
    and -1 for lower ones. Cost O(n), whatever the shape.

    >>> kernel = np.array([[[0, 0], [0, 0]], [[.9, .1], [.2, .8]]], dtype=float)
    >>> args = np.array([-1, 0]), kernel, kernel, np.array([True, True]), 0.0, 1.0, [[1], [0]]
    >>> pair_messages(Branches(*args), 1.0, known=False).round(4).tolist()
    [[[0.0, 0.6393], [0.7063, 0.0]], [[0.0, 0.6393], [0.7063, 0.0]]]
    """
    parent, error = tree.parent, tree.error
    count, above = len(parent), parent.tolist()
    own = [tree.epsilon if is_record else 0.0 for is_record in tree.record.tolist()]
    degree = np.bincount(parent[parent >= 0], minlength=count).tolist()
    slack = [side * ROUNDOFF * (number + 4.0) for number in degree]
    rising, seen = [(0.0, 0.0)] * count, [(0.0, 0.0)] * count
    children, facts = [[0.0, 0.0] for _ in above], [[0.0, 0.0] for _ in above]
    kernels = tree.down.tolist()
    for node in range(count - 1, -1, -1):
        if above[node] < 0:
            continue
        more = 1.0 + slack[node]
        bound = own[node] + children[node][0] * more, own[node] + children[node][1] * more
        evidence = facts[node][0] * more, facts[node][1] * more
        rising[node] = _passed(kernels[node], bound, evidence, known, side, 0.0)
        _add(children[above[node]], rising[node])
        if known:
            seen[node] = _moved(kernels[node], evidence, own[node] > 0, 0.0)
            _add(facts[above[node]], seen[node])
    falling, told = [(0.0, 0.0)] * count, [(0.0, 0.0)] * count
    kernels = tree.back.tolist()
    for node, before in enumerate(above):
        if before < 0:
            continue
        rest = _rest(children[before], rising[node], slack[before], falling[before])
        bound = own[before] + rest[0], own[before] + rest[1]
        evidence = _rest(facts[before], seen[node], slack[before], told[before])
        falling[node] = _passed(kernels[node], bound, evidence, known, side, 2 * error)
        if known:
            told[node] = _moved(kernels[node], evidence, own[before] > 0, 2 * error)
    total = np.zeros((count, 2, 2))
    # (2, n) taken apart
    total[:, 0, 1], total[:, 1, 0] = (np.array(children) + np.array(falling)).T
    return np.asarray(total + np.abs(total) * np.array(slack)[:, None, None])


def _add(total: list[float], term: Pair) -> None:
    total[0] += term[0]
    total[1] += term[1]


def _rest(total: Sequence[float], own: Pair, slack: float, above: Pair) -> Pair:
    """Return sums without one of their terms, and with what comes from above."""
    return (
        max(max(total[0] - own[0], 0.0) + slack * total[0] + above[0], 0.0),
        max(max(total[1] - own[1], 0.0) + slack * total[1] + above[1], 0.0),
    )


def _passed(
    kernel: list[list[float]], bound: Pair, evidence: Pair, known: bool, side: float, error: float
) -> Pair:
    """Return the message behind an edge, its kernel possibly shifted by what is known there."""
    (p0, q0), (p1, q1) = kernel
    rare = -math.log(min(p0, q0, p1, q1))
    pad = side * (8.0 * ROUNDOFF * (12.0 + max(bound) + max(evidence) + 2.0 * rare) + error)
    end = bound[0] if p0 >= p1 else -bound[1]  # ln g(0)/g(1) at which 0 is most likely
    back = -bound[1] if p0 >= p1 else bound[0]
    if not known:
        first = _mixed(p0, q0, end) - _mixed(p1, q1, end)
        second = _mixed(p1, q1, back) - _mixed(p0, q0, back)
        return max(first + pad, 0.0), max(second + pad, 0.0)
    a, b = math.log(p0 / q0), math.log(p1 / q1)
    first = _shifted(a, b, end, evidence)
    second = _shifted(b, a, back, evidence)
    most = max(bound)
    return min(max(first + pad, 0.0), most), min(max(second + pad, 0.0), most)


def _moved(kernel: list[list[float]], evidence: Pair, record: bool, error: float) -> Pair:
    """Return how far known records behind an edge can move the odds of the two values."""
    (p0, q0), (p1, q1) = kernel
    pad = 8.0 * ROUNDOFF * (6.0 + max(evidence) - 2.0 * math.log(min(p0, q0, p1, q1))) + error
    end, back = (evidence[0], -evidence[1]) if p0 >= p1 else (-evidence[1], evidence[0])
    first = _mixed(p0, q0, end) - _mixed(p1, q1, end)
    second = _mixed(p1, q1, back) - _mixed(p0, q0, back)
    if record:
        first = max(first, math.log(p0 / p1), math.log(q0 / q1))
        second = max(second, math.log(p1 / p0), math.log(q1 / q0))
    return max(first + pad, 0.0), max(second + pad, 0.0)


def _mixed(p: float, q: float, end: float) -> float:
    """Return ln(p e^end + q)."""
    if end > 0:
        return end + math.log(p + q * math.exp(-end))
    return math.log(p * math.exp(end) + q)


def _shifted(first: float, second: float, end: float, evidence: Pair) -> float:
    """Return the largest h(a + l) - h(a' + l) over shifts l, h(z) = ln(1+e^{z+b}) - ln(1+e^z)."""
    # the one maximum, within what is known
    shift = min(max(-end / 2 - (first + second) / 2, -evidence[1]), evidence[0])
    return _gain(first + shift, end) - _gain(second + shift, end)


def _gain(odds: float, end: float) -> float:
    return _softplus(odds + end) - _softplus(odds)


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))
