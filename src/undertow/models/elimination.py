"""Sums over the variables of a product of tables, one variable at a time.

A factor is a table with the names of its axes. To sum a variable out, the factors that mention it
are multiplied and added up along it; the variable whose table is smallest goes first. All entries
are non-negative, so every sum keeps its relative accuracy.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from undertow.errors import NotSupported
from undertow.numerics import Array

__all__ = ["LARGEST", "Factor", "eliminate"]

LARGEST = 2**24
"""Most entries of a table on the way (a cost limit: 128 MiB)."""

_AXES = 31
"""Most axes of a table."""

_OPERANDS = 16
"""Most tables multiplied at once."""

_SMALL = 2.0**-20
"""Tables below it are multiplied by a power of two, lest they vanish."""

Factor = tuple[Array, tuple[int, ...]]


def eliminate(
    factors: Sequence[Factor],
    keep: Sequence[int],
    sizes: Mapping[int, int],
    limit: int = LARGEST,
    *,
    support: bool = False,
    floor: float = 0.0,
) -> Array:
    """Return the product of all factors, summed over every variable that is not kept.

    The axes of the result are ``keep``, in that order; ``sizes`` gives the states of each variable.
    Where all entries are tiny the result is multiplied by a power of two. With ``support`` the
    result only says which entries are positive (1) and which are not (0). Refuses with
    `NotSupported` where a table would exceed ``limit`` entries, or has an entry below ``floor``:
    then none has lost its relative accuracy.

    >>> law, kernel = np.array([.5, .5]), np.array([[.9, .1], [.2, .8]])
    >>> eliminate([(law, (0,)), (kernel, (0, 1))], keep=[1], sizes={0: 2, 1: 2})
    array([0.55, 0.45])
    """
    kept = set(keep)
    live = dict(enumerate(factors))
    places: dict[int, set[int]] = {}
    for name, (_, axes) in live.items():
        for variable in axes:
            places.setdefault(variable, set()).add(name)
    queue = [
        (_cost(variable, live, names, sizes), variable)
        for variable, names in places.items()
        if variable not in kept
    ]
    heapq.heapify(queue)
    fresh = len(live)
    while queue:
        cost, variable = heapq.heappop(queue)
        if variable not in places:
            continue
        now = _cost(variable, live, places[variable], sizes)
        if now > cost:  # grew since it was queued
            heapq.heappush(queue, (now, variable))
            continue
        names = places.pop(variable)
        axes = _union(live[name][1] for name in sorted(names))
        _check(axes, sizes, limit)
        rest = tuple(axis for axis in axes if axis != variable)  # axes of the new factor
        table = _product([live.pop(name) for name in sorted(names)], rest, support)
        _above(table, floor)
        live[fresh] = (table, rest)
        for axis in rest:
            places[axis] = (places[axis] - names) | {fresh}
            if axis not in kept:
                heapq.heappush(queue, (_cost(axis, live, places[axis], sizes), axis))
        fresh += 1
    _check(tuple(keep), sizes, limit)
    table = _product(list(live.values()), tuple(keep), support)
    _above(table, floor)
    return table


def _above(table: Array, floor: float) -> None:
    if floor and float(table.min()) < floor:
        raise NotSupported("some values of the records are too rare for exact arithmetic")


def _union(groups: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(axis for group in groups for axis in group))


def _cost(
    variable: int, live: Mapping[int, Factor], names: set[int], sizes: Mapping[int, int]
) -> float:
    axes = {axis for name in names for axis in live[name][1]}
    return sum(math.log(sizes[axis]) for axis in axes)


def _check(axes: Sequence[int], sizes: Mapping[int, int], limit: int) -> None:
    if math.prod(sizes[axis] for axis in axes) > limit:
        raise NotSupported(
            f"too many records depend on each other here: a table over {len(axes)} of them would "
            f"have more than {limit} entries; ask about fewer records, or use Groups"
        )


def _product(factors: list[Factor], rest: tuple[int, ...], support: bool) -> Array:
    """Return the product of factors, summed over all axes that are not in ``rest``."""
    if len(rest) > _AXES:
        raise NotSupported(
            f"a table over {len(rest)} records cannot be held; ask about fewer records"
        )
    if not factors:
        return np.ones(())
    while len(factors) > _OPERANDS:
        part = _union(axes for _, axes in factors[:_OPERANDS])
        factors = [*factors[_OPERANDS:], (_product(factors[:_OPERANDS], part, support), part)]
    names = {axis: place for place, axis in enumerate(_union(axes for _, axes in factors))}
    operands: list[Any] = []
    for table, axes in factors:
        operands += [_raised(table), [names[axis] for axis in axes]]
    product = np.asarray(np.einsum(*operands, [names[axis] for axis in rest]))
    if support:
        return np.asarray(product > 0, dtype=np.float64)
    return product


def _raised(table: Array) -> Array:
    """Return a table times a power of two if all its entries are small."""
    peak = float(table.max(initial=0.0))
    if 0 < peak < _SMALL:
        return np.asarray(np.ldexp(table, -math.frexp(peak)[1]))
    return table
