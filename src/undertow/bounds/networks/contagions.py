"""The worst network of a family with one parameter, certified.

Move the parameter, and every entry of every table moves. For one attack the loss is
ln N(x) / D(x) - ln N(x') / D(x'), where N sums the joint probabilities weighed by those of an
output, and D the joint probabilities alone: N / D is a mean, and it changes by at most e^w if all
logarithms of joint probabilities change by amounts that lie within w of each other. So the leakage
changes by at most 2 w, and w is at most the sum, over the tables, of the spread of the changes of
their logarithms. If every entry is monotone in the parameter, the changes inside a piece of the
interval are largest at its ends.

Values at midpoints thus bound the leakage on whole pieces; the piece with the largest bound is
halved until the bound meets what is attained.
"""

import heapq
from dataclasses import replace

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.metric import refused
from undertow.bounds.networks.leakages import leakage as network_leakage
from undertow.bounds.networks.levels import dependent_records
from undertow.certificate import Leakage
from undertow.mechanisms import Levelled, MetricDP
from undertow.models.contagion import Contagion
from undertow.models.network import BayesianNetwork
from undertow.numerics import ROUNDOFF, Array, up

__all__ = ["leakage"]

WIDTH = 1e-4
"""Relative width at which the worst parameter counts as found (upper side)."""

NARROW = 1e-9
"""Share of the interval below which a piece is not halved (cost; then the interval stays open)."""

LOOKS = 4000
"""Most networks looked at (cost); past it the interval stays open."""


def leakage(mechanism: Levelled | MetricDP, model: Contagion, against: Against = "any") -> Leakage:
    """Return what a mechanism leaks about one person, at the worst probability of the interval.

    Counts and histograms with (discrete) Laplace noise are searched until the bound closes. For all
    other algorithms, and for households too large for an exact answer, the general bound is in
    force: m epsilon for m people (Theorem 4.2 of [lange2024]).

    >>> from undertow.mechanisms import Laplace
    >>> from undertow.queries import Count
    >>> flu = Contagion(3, outside=.1, passed=(.1, .5))
    >>> leak = leakage(Laplace(Count("ill"), scale=1.0), flu)
    >>> at_most = network_leakage(Laplace(Count("ill"), scale=1.0), flu.network(.5))
    >>> at_most.lower <= leak.upper <= at_most.upper * 1.0002
    True
    """
    mechanism = refused(mechanism)
    low, high = model.passed
    ends = [network_leakage(mechanism, model.network(p), against) for p in (low, high)]
    top = max(ends, key=lambda leak: leak.lower)
    where = low if top is ends[0] else high
    if low == high:
        return top
    people = 1 if against == "informed" else dependent_records(model.network(high), against)
    level = mechanism.level_upper(model.length)
    ceiling = max(up(people * level), *(leak.upper for leak in ends))
    if any(leak.method not in ("exact", "informed") for leak in ends):
        notes = (f"at most {people} people depend on each other, in any way", _told(model, where))
        return replace(
            top, upper=ceiling, method="group", assumptions=notes,
            citation="Theorem 4.2 of [lange2024]",
        )  # fmt: skip
    pieces: list[tuple[float, float, float]] = []

    def push(left: float, right: float) -> None:
        nonlocal top, where
        middle = (left + right) / 2
        centre = model.network(middle)
        leak = network_leakage(mechanism, centre, against)
        if leak.lower > top.lower:
            top, where = leak, middle
        # entries are monotone: the ends are the worst
        drift = max(_drift(centre, model.network(end)) for end in (left, right))
        heapq.heappush(pieces, (-min(up(leak.upper + 2 * drift), ceiling), left, right))

    push(low, high)
    looks = 1
    while -pieces[0][0] - top.lower > WIDTH * max(1.0, top.lower) and looks < LOOKS:
        if pieces[0][2] - pieces[0][1] < NARROW * (high - low):
            break  # at an end where something becomes impossible no piece is narrow enough
        _, left, right = heapq.heappop(pieces)
        push(left, (left + right) / 2)
        push((left + right) / 2, right)
        looks += 2
    upper = max(-pieces[0][0], *(leak.upper for leak in ends))
    return replace(top, upper=upper, assumptions=(*top.assumptions, _told(model, where)))


def _told(model: Contagion, where: float) -> str:
    low, high = model.passed
    return f"flu is passed on with probability {low:g} to {high:g}, the worst found is {where:.6g}"


def _drift(one: BayesianNetwork, two: BayesianNetwork) -> float:
    """Return by how much logarithms of joint probabilities can change differently, rounded up.

    Entries of tables, and their logarithms, carry a few roundings of their own each.
    """
    total = 0.0
    for first, second in zip(one.tables, two.tables, strict=True):
        moved = _moved(first, second)
        rarest = max(float(-np.log(table[table > 0].min())) for table in (first, second))
        # w: sums over the tables
        total += float(moved.max() - moved.min()) + 64 * ROUNDOFF * (2.0 + rarest)
    return up(total)


def _moved(first: Array, second: Array) -> Array:
    """Return the change of each logarithm, 0 where both are impossible, and where nothing moves.

    A change to or from an impossible value is infinite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.log(second) - np.log(first)
    moved[first == second] = 0.0
    return np.append(np.nan_to_num(moved, nan=np.inf, posinf=np.inf, neginf=-np.inf).ravel(), 0.0)
