"""The oracle of leakages: every adversary, every value of what is known, every pair, every output.

Written from the definition and from nothing else: the leakage is the largest
ln Pr[s | x_K, x_i = x] / Pr[s | x_K, x_i = x'] over targets i, known sets K, values x_K that are
possible with x and with x', and outputs s. Records are counted from 0. A joint law is an array with
an axis for each record, or a dictionary from data sets to probabilities; `exact` does the same in
exact numbers, and modules by kind of model and mechanism say what is enumerated.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Adversary

Floats = npt.NDArray[Any]
Point = tuple[int, ...]
Who = tuple[int, tuple[int, ...]]
Pairs = Iterable[tuple[int, int]] | None


def adversaries(n: int, against: Any, targets: Iterable[int] | None = None) -> Iterator[Who]:
    """Every target, with every set of known records that an adversary stands for."""
    if isinstance(against, Adversary):
        if targets is None or against.target in targets:
            yield against.target, against.known
        return
    sizes = {"any": range(n), "ignorant": [0], "informed": [n - 1]}[against]
    for target in range(n) if targets is None else targets:
        others = [record for record in range(n) if record != target]
        for size in sizes:
            yield from ((target, known) for known in itertools.combinations(others, size))


def ordered(size: int, pairs: Pairs = None) -> list[tuple[int, int]]:
    """Both directions of every secret pair, all pairs of states by default."""
    if pairs is None:
        return list(itertools.permutations(range(size), 2))
    return [way for x, y in pairs for way in ((x, y), (y, x))]


def largest(seen: Floats, prior: Floats, pairs: Pairs = None) -> float:
    """The largest log ratio of seen / prior between two rows, where both priors are positive."""
    worst = 0.0
    for x, other in ordered(len(seen), pairs):
        fine = (prior[x] > 0) & (prior[other] > 0) & (seen[x] > 0)
        if not fine.any():
            continue
        # conditional probabilities first: products of rare ones would vanish
        top, bottom = seen[x][fine] / prior[x][fine], seen[other][fine] / prior[other][fine]
        if (bottom == 0).any():
            return math.inf
        worst = max(worst, float(np.log(top / bottom).max()))
    return worst


def table_leakage(
    joint: Floats, likelihood: Floats, against: Any = "any",
    targets: Sequence[int] | None = None, pairs: Pairs = None,
) -> float:  # fmt: skip
    """The leakage of any mechanism: likelihood[x_0, ..., x_{n-1}, s] = Pr[s | x]."""
    weighted = joint[..., None] * likelihood
    worst = 0.0
    for target, known in adversaries(joint.ndim, against, targets):
        hidden = tuple(r for r in range(joint.ndim) if r != target and r not in known)
        seen = np.moveaxis(weighted.sum(axis=hidden, keepdims=True), target, 0)
        prior = np.moveaxis(joint.sum(axis=hidden, keepdims=True), target, 0)[..., None]
        worst = max(worst, largest(seen, np.broadcast_to(prior, seen.shape), pairs))
    return worst


def grouped(
    points: Iterable[Point], target: int, known: Sequence[int]
) -> dict[Point, dict[int, list[Point]]]:
    """Data sets by the values of the known records, then by that of the target."""
    found: dict[Point, dict[int, list[Point]]] = {}
    for point in points:
        facts = found.setdefault(tuple(point[record] for record in known), {})
        facts.setdefault(point[target], []).append(point)
    return found


def law_leakage(law: Mapping[Point, Any], score: Callable[[Point], Floats], against: Any) -> float:
    """The leakage under a law in fractions or floats; ``score``: log-likelihoods of all outputs.

    Conditional laws are divided first and only then turned into logarithms, so that probabilities
    far below the least float stay what they are.
    """
    scores = {point: score(point) for point in law}
    worst = 0.0
    for target, known in adversaries(len(next(iter(law))), against):
        for by_value in grouped(law, target, known).values():
            if len(by_value) < 2:
                continue
            seen = []
            for members in by_value.values():
                total = sum((law[point] for point in members), Fraction(0))
                logs = np.array([log(law[point] / total) for point in members])
                seen.append(_log_sum(logs[:, None] + np.array([scores[p] for p in members])))
            stack = np.array(seen)
            worst = max(worst, float((stack.max(axis=0) - stack.min(axis=0)).max()))
    return worst


def log(probability: Any) -> float:
    """The logarithm of a float, or of a fraction of any size."""
    if isinstance(probability, Fraction):
        return math.log(probability.numerator) - math.log(probability.denominator)
    return math.log(probability)


def _log_sum(rows: Floats) -> Floats:
    top = rows.max(axis=0)
    return np.asarray(np.log(np.exp(rows - top).sum(axis=0)) + top)
