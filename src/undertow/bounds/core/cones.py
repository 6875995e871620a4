"""Extreme rays of the cone of a directed metric, in closed form: exact local programs.

The largest quotient of two linear forms over cone(D) = {u > 0: u(s) <= e^D(s,s') u(s')} is attained
at one of C(2m - 2, m - 1) rays, the same for all forms (docs, theory-engine: E5). Arrays hold many
cones on the last axis.
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations, combinations_with_replacement, permutations

import numpy as np
import numpy.typing as npt

from undertow.bounds.core.arrays import LIBM, STEP
from undertow.numerics import Array

__all__ = ["LARGEST_FACTOR", "MOST_STATES", "between", "ray_error", "rays"]

Places = npt.NDArray[np.intp]

MOST_STATES = 8
"""Hidden states up to which rays are listed (cost: 20 for 4 states, 252 for 6, 3432 for 8)."""

LARGEST_FACTOR = 600.0
"""Largest logarithm of a ray's entry (upper side: beyond, products overflow)."""


@dataclass(frozen=True, slots=True, eq=False)
class _Rays:
    """Rays of the partitions into p upper and n lower states, one for each choice of repeats.

    With ``mirrored`` False the logarithm of u at the lower state j is the least sum of D over the
    matchings of ``repeats`` (n - 1 upper states) to the other lower states; ``upper`` (count, p),
    ``lower`` (count, n), ``repeats`` (count, n - 1). Mirrored: roles exchanged, for -D and 1/u.
    """

    upper: Places
    lower: Places
    repeats: Places
    mirrored: bool


def rays(distance: Array) -> Array:
    """Return the extreme rays of cones, shape (rays, m, n), for D of shape (m, m, n).

    The rays are those of the cones with the limits of upper on lower states alone, over all
    partitions into upper and lower states; they contain the extreme rays of the cone wherever the
    triangle inequality holds, and bound every quotient where it does not (docs, theory-engine: E5).
    One ray for each multiset of n - 1 upper states: its entries are tropical minors.

    >>> rays(np.zeros((2, 2, 1)) + np.array([[0.0, 1.0], [2.0, 0.0]])[..., None])[:, :, 0].round(4)
    array([[2.7183, 1.    ],
           [1.    , 7.3891]])
    """
    size = distance.shape[0]
    with np.errstate(over="ignore"):
        price = np.exp(distance)
    parts = [_listed(price, group, size) for group in _groups(size)]
    return np.concatenate(parts)


def between(distance: Array) -> tuple[Array, Array]:
    """Return the rays with all upper states on the first axis of D and lower ones on the second.

    Shapes (rays, p, n) and (rays, q, n) for D of shape (p, q, n): extreme for forms that live on
    the upper and on the lower states alone, as at a target.

    >>> above, below = between(np.array([[[1.0]], [[2.0]]]))
    >>> above[:, :, 0].round(4).tolist(), below[:, :, 0].tolist()
    ([[2.7183, 7.3891]], [[1.0]])
    """
    p, q, count = distance.shape
    square = np.zeros((p + q, p + q, count))
    with np.errstate(over="ignore"):
        square[:p, p:] = np.exp(distance)
    uppers, lowers = np.arange(p)[None], np.arange(p, p + q)[None]
    parts = _listed(square, _group(uppers, lowers), p + q)
    return parts[:, :p], parts[:, p:]


def ray_error(size: int) -> float:
    """Return the relative error of an entry of a ray: products of fewer than 2m exponentials."""
    return 2 * size * (LIBM + 2 * STEP)


@cache
def _groups(size: int) -> tuple[_Rays, ...]:
    """Return the partitions of the states by the number of upper ones."""
    groups = []
    for p in range(1, size):
        uppers = np.array(list(combinations(range(size), p)), dtype=np.intp)
        lowers = np.array(
            [[s for s in range(size) if s not in row] for row in uppers.tolist()], dtype=np.intp
        )
        groups.append(_group(uppers, lowers))
    return tuple(groups)


def _group(uppers: Places, lowers: Places) -> _Rays:
    """Return the rays of some partitions, by the smaller minors."""
    p, n = uppers.shape[1], lowers.shape[1]
    mirrored = p < n
    sources, count = (lowers, p - 1) if mirrored else (uppers, n - 1)
    chosen = list(combinations_with_replacement(range(sources.shape[1]), count))
    places = np.array(chosen, dtype=np.intp).reshape(len(chosen), count)
    repeats = sources[:, places].reshape(len(sources) * len(chosen), count)
    times = len(chosen)
    return _Rays(np.repeat(uppers, times, 0), np.repeat(lowers, times, 0), repeats, mirrored)


def _listed(price: Array, group: _Rays, size: int) -> Array:
    """Return the rays of a group, (rays, m, n), for prices e^D (m, m, n)."""
    if group.mirrored:  # 1/u of upper states is limited by those of lower states
        price = price.swapaxes(0, 1)
    ends, starts = (
        (group.upper, group.lower) if group.mirrored else (group.lower, group.upper)
    )  # fmt: skip
    count, width = ends.shape
    table = np.empty((count, size, price.shape[-1]))
    rows = np.arange(count)
    for place in range(width):
        others = [other for other in range(width) if other != place]
        minor: Array | None = None
        for matching in permutations(others):
            term: Array | None = None
            for number, other in enumerate(matching):
                factor = price[group.repeats[:, number], ends[:, other]]
                term = factor if term is None else term * factor
            if term is None:
                term = np.ones((count, price.shape[-1]))
            minor = term if minor is None else np.minimum(minor, term)
        table[rows, ends[:, place]] = minor if minor is not None else 1.0
    for start in range(starts.shape[1]):
        least: Array | None = None
        for place in range(width):
            value = price[starts[:, start], ends[:, place]] * table[rows, ends[:, place]]
            least = value if least is None else np.minimum(least, value)
        table[rows, starts[:, start]] = least if least is not None else 1.0
    return 1 / table if group.mirrored else table
