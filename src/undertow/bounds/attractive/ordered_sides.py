"""One side of a target on a chain of ordered states: what its records add, for every distance.

With T the step, rows the value nearer to the target, and D the weights of unknown records: what a
value known at distance d adds to a pair u, u' comes from T (D T)^{d-1} = (T D)^{d-1} T and T^d,
what j records of which none is known add from (T D)^j 1, and more than m records add no more than
the entries of (T D)^m and T^m allow (`undertow.bounds.attractive.ordered`).
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.bounds.attractive.sums import FAINT, check_range
from undertow.errors import NotSupported
from undertow.models.lowered import LoweredLaw
from undertow.numerics import ROUNDOFF, Array

__all__ = ["SideGains", "side_table"]

SETTLED = 1e-13
"""What distant records may add to the best found before the search ends (upper side)."""


@dataclass(frozen=True, slots=True, eq=False)
class SideGains:
    """What one side adds to each pair of values, by the number of records there.

    ``upto[j]`` (k, k) is the most that j records can add, ``most`` that of any number up to
    ``reach``, ``tail`` bounds that of more; ``error`` bounds all of their errors. ``opened[j]`` and
    ``fixed[d]`` are the parts: nothing known, or a record known at distance d.
    """

    upto: Array
    most: Array
    tail: Array
    error: float
    reach: int
    opened: Array
    fixed: Array
    facts: Array

    def option(self, records: int, u: int, other: int) -> tuple[int, int | None]:
        """Return how the most is attained: a distance, and the value known there (None: none)."""
        single = np.maximum.accumulate(self.fixed[: records + 1, u, other])[-1]
        if records == self.reach and self.opened[: records + 1, u, other].max() >= single:
            return int(self.opened[: records + 1, u, other].argmax()), None
        if self.opened[records, u, other] >= single:
            return records, None
        distance = int(self.fixed[: records + 1, u, other].argmax())
        return distance, int(self.facts[distance, u, other])


def _quotients(matrix: Array) -> Array:
    """Return ln of the quotients of two rows, (u, u', column); NaN where neither is possible."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(matrix)
        return np.asarray(logs[:, None, :] - logs[None, :, :])


def _scaled(matrix: Array) -> Array:
    made = np.ldexp(matrix, -int(np.frexp(matrix.max())[1]))
    if ((made > 0) & (made < FAINT)).any():
        raise NotSupported("likelihoods of the values of some records lie too far apart")
    return np.asarray(made)


def side_table(
    law: LoweredLaw, weights: Array, *, left: bool, known: bool, reach: int, length: int | None
) -> SideGains:
    """Return what the records on one side add, for every number of them up to ``reach``.

    Stops early where more records cannot add more than `SETTLED` to any pair, and a series of the
    length has room for as many on both sides. Cost O(k^3) for every number.
    """
    size = law.size
    step = law.kernels[0].T if left else law.kernels[0]  # rows are the value nearer to the target
    depth = check_range(law, weights)
    seen, plain = np.eye(size), np.eye(size)  # (T D)^d and T^d
    message, prior = np.ones(size), np.ones(size)  # of an open side
    if left:
        message = prior = law.start
    opened, fixed, facts = [np.zeros((size, size))], [np.full((size, size), -math.inf)], []
    facts.append(np.zeros((size, size), dtype=np.int64))
    tail = np.full((size, size), math.inf)
    largest, records, check = 1.0, 0, 64
    while records < reach:
        records += 1
        last = seen @ step  # a record known at this distance is not weighed
        seen, plain = _scaled(last * weights), _scaled(plain @ step)
        if left:
            message, prior = _scaled(step @ (weights * message)), _scaled(step @ prior)
        else:
            message = _scaled(step @ (weights * message))
        gain = _quotients(message[:, None])[..., 0]  # (u, u')
        if left:
            with np.errstate(invalid="ignore"):
                gain = gain - _quotients(prior[:, None])[..., 0]
        opened.append(np.where(np.isnan(gain), -math.inf, gain))
        logs = (np.abs(np.log(x[x > 0])).max() for x in (seen, plain, message, prior))
        largest = max(largest, *map(float, logs))
        if known:
            with np.errstate(invalid="ignore"):
                each = _quotients(last) - _quotients(plain)  # (u, u', known value)
            each = np.where(np.isfinite(each), each, -math.inf)
            facts.append(each.argmax(axis=2))
            fixed.append(each.max(axis=2))
        else:
            facts.append(facts[0])
            fixed.append(fixed[0])
        if records in (check, reach):
            check *= 2
            tail = _tail(seen, plain)
            best = np.maximum(np.max(opened, axis=0), np.max(fixed, axis=0))
            room = length is None or 2 * records < length
            if room and (tail - best <= SETTLED).all():
                break
    roundings = (records + 2) * (size + 6 + 4 * depth) + 8.0 * size**2
    error = 8 * ROUNDOFF * (roundings + 4 * (largest + depth))
    top = np.maximum.accumulate(np.array(fixed), axis=0)
    upto = np.maximum(np.array(opened), top)
    return SideGains(
        upto, upto.max(axis=0), tail, error, records, np.array(opened), np.array(fixed),
        np.array(facts),
    )  # fmt: skip


def _tail(seen: Array, plain: Array) -> Array:
    """Return a bound on what more records can add, from (T D)^m and T^m; inf where none is."""
    high, low = _quotients(seen), _quotients(plain)
    high = np.where(np.isnan(high), -math.inf, high).max(axis=2)
    low = np.where(np.isnan(low), math.inf, low).min(axis=2)
    tail = high - low
    return np.asarray(np.where(np.isnan(tail), math.inf, tail))
