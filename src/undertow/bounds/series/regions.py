"""Influences of a protected record on others, and what [massny2025] builds on them.

An influence is computed to the nearest float and guides a search; what a redaction reveals is
certified by `redaction_leakage`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from undertow.bounds.chains.known import ordered_pairs
from undertow.bounds.series.erasing import build_side, plain_ratios
from undertow.channels import Redaction
from undertow.errors import InvalidInput, MethodRefused
from undertow.models.markov import MarkovChain
from undertow.numerics import MAX_STEPS, Array, check_count, check_epsilon, log_ratio
from undertow.queries import State

__all__ = [
    "Regions",
    "binary_rates",
    "influence",
    "influences",
    "least_distance",
    "radius",
    "redaction_radius",
    "regions",
    "widest",
    "window_bound",
]

ENDLESS = 2**62
"""Records that no series has: distances are not told apart beyond."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Records by what they may show: all values (small), some (medium), none (large)."""

    small: tuple[int, ...]
    medium: tuple[int, ...]
    large: tuple[int, ...]


def influence(chain: MarkovChain, target: int, record: Any, value: Any = None) -> float:
    """Return how much one record, or several, can say about the target.

    The pointwise influence ln max Pr[X_record = value | X_target = x] / Pr[.. | x'] over pairs x,
    x', for a given value; the largest over all values (the max-influence) without one.
    Definition 3 of [massny2025]. Of several records (and as many values) only the nearest on
    each side of the target count, because the chain forgets the rest there. A record says
    nothing about itself: 0. Differs from the paper: any number of states, so the maximum is over
    all pairs of values.

    >>> chain = MarkovChain([[.75, .25], [.5, .5]])
    >>> influence(chain, 0, 1, 0), influence(chain, 0, 1)
    (0.405465, 0.693147)
    """
    target = check_count(target, "target", 0)
    many = isinstance(record, Sequence | np.ndarray)
    records = [check_count(r, "record", 0) for r in (record if many else [record])]
    values: list[State] = [None] * len(records)
    if value is not None:
        values = list(value) if many else [value]
        if len(values) != len(records):
            raise InvalidInput(f"{len(records)} records need as many values, found {len(values)}")
    total: Any = 0.0
    for right in (False, True):
        beside = [
            (abs(r - target), r, v)
            for r, v in zip(records, values, strict=True)
            if r != target and (r > target) == right
        ]
        if beside:
            _, near, what = min(beside, key=lambda found: found[0])
            ratios = _log_ratios(chain, target, near)
            blank = np.where(np.isnan(ratios), -np.inf, ratios)
            total = total + (blank.max(axis=1) if what is None else blank[:, chain.index(what)])
    return float(np.max(total, initial=0.0))


def _log_ratios(chain: MarkovChain, target: int, record: int) -> Array:
    """Return ln Pr[X_record = v | X_target = x] / Pr[.. | x'], a row for each ordered pair.

    NaN where a value of the target is impossible, or the state under both values.
    """
    law = chain.law(target)
    if record > target:
        found = np.array(chain.between(target, record))
    else:
        joint = chain.law(record)[:, None] * chain.between(record, target)  # (v, x)
        found = joint.T / np.where(law > 0, law, 1.0)[:, None]  # (x, v), by Bayes' rule
    found[law <= 0] = np.nan
    value, other = ordered_pairs(chain.size)
    return log_ratio(found[value], found[other])


def influences(chain: MarkovChain, target: int, length: int) -> Array:
    """Return the pointwise influence of the target on each value of each record, (length, k).

    The target itself gets inf: its value would say everything. A value that a record cannot
    take gets 0. Cost O(n k^3).

    >>> influences(MarkovChain([[.75, .25], [.5, .5]]), 0, 3).round(4).tolist()
    [[inf, inf], [0.4055, 0.6931], [0.0953, 0.1823]]
    """
    value, other = ordered_pairs(chain.size)
    law = chain.law(target)
    possible = (law[value] > 0) & (law[other] > 0)
    found = np.full((length, chain.size), np.inf)
    ones = np.ones((length, chain.size))
    for right in (False, True):
        side = build_side(chain, ones, target, right, None)
        ratios = plain_ratios(side)[:, possible]  # (T, pairs, k)
        best = np.where(np.isnan(ratios), 0.0, ratios).max(axis=1, initial=0.0)  # (T, k)
        records = target + np.arange(1, side.room + 1) * (1 if right else -1)
        found[records] = best
    return found


def regions(chain: MarkovChain, target: int, epsilon: float, length: int | None = None) -> Regions:
    """Return the regions S, M, L around a target: which records may show what at a budget.

    Small: every value has a pointwise influence of at most epsilon. Medium: some values have.
    Large: none, and the target itself (in the paper by intention; its formula leaves it out).
    Section II of [massny2025], for any number of states.

    >>> regions(MarkovChain([[.99, .01], [.8, .2]], length=5), 0, 1.0)
    Regions(small=(3, 4), medium=(1, 2), large=(0,))
    """
    epsilon = check_epsilon(epsilon)
    length = _length(chain, length)
    if check_count(target, "target", 0) >= length:
        raise InvalidInput(f"record {target} is outside the {length} records, counted from 0")
    below = influences(chain, target, length) <= epsilon  # (records, k)
    every, some = below.all(axis=1), below.any(axis=1)
    return Regions(
        small=tuple(np.flatnonzero(every).tolist()),
        medium=tuple(np.flatnonzero(some & ~every).tolist()),
        large=tuple(np.flatnonzero(~some).tolist()),
    )


def radius(chain: MarkovChain, epsilon: float) -> int | None:
    """Return the least distance at which the max-influence is at most epsilon, on both sides.

    Delta*(epsilon) of Theorem 2 of [massny2025]; None where no distance up to `MAX_STEPS` is
    far enough. The chain must have one transition matrix and a stationary start.

    >>> radius(MarkovChain([[.99, .01], [.8, .2]]), 1.0)
    3
    """
    epsilon = check_epsilon(epsilon)
    if not chain.homogeneous or not isinstance(chain.start, str):
        raise InvalidInput(
            "a radius that holds for every record needs one transition matrix and a stationary "
            "start; use regions(chain, target, epsilon)"
        )
    value, other = ordered_pairs(chain.size)
    law = chain.initial
    possible = (law[value] > 0) & (law[other] > 0)
    back = chain.reverse().transition
    ahead, behind = np.eye(chain.size), np.eye(chain.size)
    for distance in range(1, MAX_STEPS + 1):
        ahead, behind = ahead @ chain.transition, behind @ back
        tables = np.stack([ahead, behind])  # (directions, k, k)
        # (directions, pairs, k)
        ratios = log_ratio(tables[:, value[possible]], tables[:, other[possible]])
        if np.where(np.isnan(ratios), 0.0, ratios).max(initial=0.0) <= epsilon:
            return distance
    return None


def redaction_radius(mechanism: Redaction, target: int | None = None) -> tuple[int, int]:
    """Return how many records next to a protected one are always erased, left and right.

    Definition 5 of [massny2025].

    >>> redaction_radius(Redaction([[0, 0], [1, 1], [1, 1], [1, 1], [0, 1]], protect=2))
    (1, 1)
    """
    target = mechanism.protect[0] if target is None else target
    shown = np.flatnonzero((mechanism.probabilities < 1).any(axis=1))
    left, right = shown[shown < target], shown[shown > target]
    return (
        int(target - 1 - left[-1]) if left.size else target,
        int(right[0] - target - 1) if right.size else mechanism.length - 1 - target,
    )


def window_bound(
    chain: MarkovChain, target: int, length: int, epsilon: float, printed: bool = False
) -> float:
    """Return an upper bound on the utility of erasures that do not look at the values.

    Theorem 2 of [massny2025], against an attacker who knows no other record. Differs from the
    paper: R2 = min{R1, max(1, 2 Delta*(epsilon / 2) - 2)}, because two windows whose widths
    differ by one can be private where the printed bound, 2 Delta*(epsilon / 2) - 1, excludes
    them; and it is refused for alpha + beta > 1, where influences are not convex and windows of
    very different widths can be private. ``printed`` asks for the theorem as printed, which is no
    bound.

    >>> chain = MarkovChain([[.8, .2], [.3, .7]])
    >>> window_bound(chain, 5, 12, .92), window_bound(chain, 5, 12, .92, printed=True)
    (0.6667, 0.5833)
    """
    alpha, beta = binary_rates(chain, "the window bound")
    if not printed and alpha + beta > 1:
        raise MethodRefused(
            "the window bound needs neighbours that agree more often than not, Pr(0 -> 1) + "
            f"Pr(1 -> 0) <= 1, found {alpha + beta:g}; use method='optimal' or 'mq'"
        )
    place = min(target + 1, length - target)  # counted from 1, from the nearer end

    near, far = (widest(alpha, beta, room) for room in (place - 1, length - place))
    if epsilon < far:
        return 0.0
    whole, half = (least_distance(alpha, beta, share) for share in (epsilon, epsilon / 2))
    one_sided = whole + place - 1
    if epsilon < near + far:
        return max(1 - one_sided / length, 0.0)
    two_sided = 2 * half - 1 if printed else max(1, 2 * half - 2)
    return max(1 - min(one_sided, two_sided) / length, 0.0)


def binary_rates(chain: MarkovChain, who: str) -> tuple[float, float]:
    """Return Pr(0 -> 1) and Pr(1 -> 0) of a stationary chain on two states, or refuse the chain.

    >>> binary_rates(MarkovChain([[.9, .1], [.4, .6]]), "this")
    (0.1, 0.4)
    """
    if chain.size != 2 or not chain.homogeneous or not isinstance(chain.start, str):
        raise MethodRefused(
            f"{who} is stated for two states, one transition matrix and a stationary start; use "
            "method='mq' or 'optimal'"
        )
    alpha, beta = float(chain.transition[0, 1]), float(chain.transition[1, 0])
    if not (0 < alpha < 1 and 0 < beta < 1):
        raise MethodRefused(
            f"{who} is stated for chains in which every step is possible; use method='mq' or "
            "'optimal'"
        )
    return alpha, beta


def widest(alpha: float, beta: float, distance: int) -> float:
    """Return the max-influence at a distance on a stationary chain of two states, 0 at 0.

    Proposition 1 of [massny2025], for either order of the rates.

    >>> widest(0.25, 0.5, 1)
    0.693147
    """
    if not distance:
        return 0.0
    factor = max(alpha / beta, beta / alpha)
    if alpha + beta < 1:  # what is forgotten can be far below what is left
        forgotten = -math.expm1(distance * math.log1p(-alpha - beta))
        return abs(math.log1p(factor * (1 - forgotten)) - math.log(forgotten))
    fading = (1 - alpha - beta) ** distance
    return abs(math.log1p(factor * fading) - math.log1p(-fading))


def least_distance(alpha: float, beta: float, epsilon: float) -> int:
    """Return Delta*(epsilon), the least distance with a max-influence of at most epsilon.

    Bisection, because influences fall with the distance; past `ENDLESS` no series ends.

    >>> least_distance(0.25, 0.5, 0.5)
    2
    """
    high = 1
    while high < ENDLESS and widest(alpha, beta, high) > epsilon:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if widest(alpha, beta, middle) > epsilon else (low, middle)
    return high


def _length(chain: MarkovChain, length: int | None) -> int:
    found = chain.length if length is None else check_count(length, "length", 1)
    if found is None:
        raise InvalidInput("the chain has no length; say how many records: length=100")
    if chain.length not in (None, found):
        raise InvalidInput(f"length is {found}, but the chain has {chain.length} records")
    return found
