"""Laws of counts on a network, for every set of known records and all their values at once.

Every record gets one more state, *unknown*: its sum over the values, each moved up the count by
what the value adds to it. A table over these extended states, with the count as its last axis,
holds the law of the count for all known sets and values together. Leaves with the same parents
and the same table are exchangeable, so of a group of siblings only the numbers known to have each
value matter: a dozen children cost a few hundred cases, not 4^12.

All entries are sums of products of probabilities, with no subtraction anywhere: each is right to a
relative error of (operations) x 2^-53, and is 0 only if it is impossible.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from undertow.bounds.networks.tally import AnswerLattice, Ints
from undertow.errors import NotSupported
from undertow.models.network import BayesianNetwork
from undertow.numerics import Array

__all__ = [
    "BLOCK",
    "VANISHING",
    "CaseTable",
    "JointLaws",
    "Siblings",
    "exact_law",
    "rarest",
    "spread",
]

BLOCK = 2**21
"""Most entries that are looked at together (memory)."""

LARGEST = 2**24
"""Most entries of a table before records become known or unknown (memory: 128 MiB)."""

VANISHING = -640.0
"""Least log of a product of probabilities that is still an ordinary float, with room to spare."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """Exchangeable records: ``cases[c, v]`` of them are known to have value v, the rest unknown."""

    members: tuple[int, ...]
    cases: Ints

    def places(self, cases: Ints, value: int) -> Ints:
        """Return where the cases with one more member known at ``value`` stand."""
        where = {tuple(case): place for place, case in enumerate(self.cases.tolist())}
        more = cases.copy()
        more[:, value] += 1
        return np.array([where[tuple(case)] for case in more.tolist()], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class JointLaws:
    """Joint laws of some records, groups of siblings, and the count of all others.

    ``base`` has an axis of layers (variants of the same table), one for the count, one for each of
    ``records`` (their values) and one for each of ``groups`` (their cases); ``open`` says whether
    records may also be unknown. ``operations`` bounds the roundings behind an
    entry of any block, ``least`` is the log of the least probability that occurs.
    """

    records: tuple[int, ...]
    groups: tuple[Siblings, ...]
    open: bool
    base: Array
    offsets: tuple[int, ...]
    operations: int
    least: float

    @property
    def sizes(self) -> list[int]:
        """How many states each axis can be in when no target is chosen."""
        records = [len(self.offsets) + self.open] * len(self.records)
        return [*records, *(len(group.cases) for group in self.groups)]

    def targets(self) -> list[int]:
        """Return the axes of which a member can be the target."""
        return list(range(len(self.records) + len(self.groups)))

    def blocks(self, targets: Sequence[int]) -> Iterator["CaseTable"]:
        """Yield the tables of all cases, in pieces, each with the targets to be read from it.

        A piece keeps some axes at one state to stay small; targets on these axes are read from
        other pieces.
        """
        left = list(targets)
        sizes = self.sizes
        while left:
            total = math.prod(sizes) * self.base.shape[0] * self.base.shape[1]
            # keep at one state first the axes that are no targets (any more), then the largest
            order = sorted(self.targets(), key=lambda axis: (axis in left, -sizes[axis]))
            split: list[int] = []
            while total > BLOCK and len(split) < len(order) - 1:
                split.append(order[len(split)])
                total //= sizes[split[-1]]
            # read from these pieces, the rest from later ones
            here = [axis for axis in left if axis not in split]
            for picked in product(*(range(sizes[axis]) for axis in split)):
                fixed = dict(zip(split, picked, strict=True))
                yield CaseTable(self, here, fixed, self._extended(fixed))
            left = [axis for axis in left if axis in split]

    def others(self, axis: int) -> Ints:
        """Return the cases of a target's siblings, the target itself left out."""
        group = self.groups[axis - len(self.records)]
        return _cases(len(self.offsets), 0, len(group.members) - 1)

    def _extended(self, fixed: Mapping[int, int]) -> Array:
        """Return the table with records known or unknown, fixed axes taken at their state."""
        whole = self.base  # (layers, counts, records ..., groups ...)
        states = len(self.offsets)
        for axis in sorted(self.targets(), key=lambda place: place not in fixed):
            if axis in fixed and (axis >= len(self.records) or fixed[axis] < states):
                # two axes come before the records: layers and counts
                whole = np.take(whole, [fixed[axis]], axis=axis + 2)
            elif axis in fixed:
                whole = _unknown(whole, axis + 2, self.offsets)
            elif axis < len(self.records) and self.open:
                whole = np.concatenate([whole, _unknown(whole, axis + 2, self.offsets)], axis + 2)
        return whole


@dataclass(frozen=True, slots=True)
class CaseTable:
    """All cases in which the axes of ``fixed`` are at the states given there.

    ``table`` has the axes of the spread's base.
    """

    spread: JointLaws
    targets: list[int]
    fixed: dict[int, int]
    table: Array

    def given(self, table: Array, axis: int, value: int) -> Array:
        """Return the part of a table like ``self.table`` in which a target has a value.

        Shape (layers, counts or outputs, cases).
        """
        spread = self.spread
        where = [value]
        if axis >= len(spread.records):
            group = spread.groups[axis - len(spread.records)]
            where = group.places(spread.others(axis), value).tolist()
        # (layers, counts or outputs, cases)
        return np.take(table, where, axis=axis + 2).reshape(*table.shape[:2], -1)

    def case(self, axis: int, row: int) -> dict[int, int]:
        """Return in which state each axis is in one case of a target.

        For the target's own group it is the row of `JointLaws.others`.
        """
        shape = list(self.table.shape[2:])  # (records ..., groups ...)
        inside = axis >= len(self.spread.records)
        shape[axis] = len(self.spread.others(axis)) if inside else 1
        cell = np.unravel_index(row, shape)
        return {a: int(state) + self.fixed.get(a, 0) for a, state in enumerate(cell)}


def _unknown(table: Array, axis: int, offsets: Sequence[int]) -> Array:
    """Return the sum over a record's values, each counted, as an axis of one state."""
    length = table.shape[1]
    total = np.zeros_like(np.take(table, [0], axis=axis))  # (layers, counts, ..., 1, ...)
    for value, offset in enumerate(offsets):
        # value v moves the count up by its offset
        total[:, offset:] += np.take(table, [value], axis=axis)[:, : length - offset]
    return total


def spread(
    network: BayesianNetwork,
    tally: AnswerLattice,
    known: Sequence[int] = (),
    target: int | None = None,
    variants: Sequence[Mapping[int, Array]] = (),
) -> JointLaws:
    """Return the joint laws behind all adversaries, or behind one.

    Without ``target`` every record may be known, unknown or the target. With one, exactly the
    records ``known`` (places of nodes) are known, and the others are summed out in a good order.
    ``variants`` are replacements for the tables of some nodes: their sum is a second layer.
    Refuses with `NotSupported` what is too large or would underflow.

    >>> from undertow.bounds.networks.tally import count_tally
    >>> pair = BayesianNetwork([(0, 1)], {0: [.5, .5], 1: [[.9, .1], [.2, .8]]})
    >>> spread(pair, count_tally([False, True], 2)).base.shape
    (1, 3, 2, 2)
    """
    least = _check_rarest(network)
    everyone = network.places
    pool = everyone if target is None else tuple(known)
    held = everyone if target is None else (target, *known)
    groups = _groups(network, pool, all_known=target is not None)
    grouped = {member for group in groups for member in group.members}
    records = tuple(place for place in held if place not in grouped)
    summed = [place for place in everyone if place not in held]
    layers = [_joint(network, tally, records, groups, summed, {})]
    found = [_joint(network, tally, records, groups, summed, variant) for variant in variants]
    if found:
        layers.append((sum((table for table, _ in found[1:]), found[0][0]), found[0][1]))
    states = network.size
    depth = 4 * (len(network.nodes) + len(found)) + sum(
        (states + 1) * (len(group.members) + 2) for group in groups
    )
    # as the module says: no subtraction, so roundings only add up
    operations = max(steps for _, steps in layers) + depth + states * len(records)
    return JointLaws(
        records,
        tuple(groups),
        target is None,
        np.ascontiguousarray(np.moveaxis(np.stack([table for table, _ in layers]), -1, 1)),
        tally.offsets,
        operations,
        least,
    )


def exact_law(network: BayesianNetwork, tally: AnswerLattice, target: int) -> list[list[Fraction]]:
    """Return the law of the other records' answer with each value of a target, as fractions.

    Entry [v][c] is Pr[target = v, answer c]. The model's numbers are taken as they are, each row
    divided by its sum. Refuses with `NotSupported` what is too large.

    >>> from undertow.bounds.networks.tally import count_tally
    >>> pair = BayesianNetwork([(0, 1)], {0: [.5, .5], 1: [[.75, .25], [.25, .75]]})
    >>> exact_law(pair, count_tally([False, True], 1), 0)
    [[Fraction(3, 8), Fraction(1, 8)], [Fraction(1, 8), Fraction(3, 8)]]
    """
    others = [place for place in network.places if place != target]
    known: dict[int, Array] = {}
    exact: dict[int, Array] = {}
    for place, table in enumerate(network.tables):
        if id(table) not in known:
            # shape of the table, fractions
            rational = np.vectorize(Fraction, otypes=[object])(table)
            known[id(table)] = rational / rational.sum(axis=-1, keepdims=True)
        exact[place] = known[id(table)]
    law, _ = _joint(network, tally, (target,), [], others, exact)
    return [list(row) for row in law.tolist()]


def rarest(network: BayesianNetwork) -> float:
    """Return the log of a product of probabilities below which none can fall.

    >>> round(rarest(BayesianNetwork([], {0: [.5, .5], 1: [.25, .75]})), 6) == -2.079442
    True
    """
    return sum(math.log(float(table[table > 0].min())) for table in network.tables)


def _check_rarest(network: BayesianNetwork) -> float:
    least = rarest(network)
    if least < VANISHING:
        raise NotSupported(
            f"the rarest combination of the {network.length} records is too improbable for exact "
            "arithmetic"
        )
    return least


def _groups(network: BayesianNetwork, pool: Sequence[int], all_known: bool) -> list[Siblings]:
    """Return the groups of exchangeable leaves among some records, two or more in each."""
    parents_of_others = {parent for parents in network.parents for parent in parents}
    alike: dict[tuple[object, ...], list[int]] = {}
    for place in pool:
        if place not in parents_of_others and network.parents[place]:
            key = (network.parents[place], network.tables[place].tobytes())
            alike.setdefault(key, []).append(place)
    return [
        Siblings(tuple(members), _cases(network.size, len(members) * all_known, len(members)))
        for members in alike.values()
        if len(members) > 1
    ]


def _cases(states: int, least: int, most: int) -> Ints:
    """Return all ways to have between ``least`` and ``most`` known members, by value."""
    cases: list[tuple[int, ...]] = [()]
    for _ in range(states):
        # one more value
        cases = [(*case, more) for case in cases for more in range(most - sum(case) + 1)]
    listed = [case for case in cases if sum(case) >= least]
    return np.array(listed, dtype=np.int64).reshape(-1, states)


def _joint(
    network: BayesianNetwork,
    tally: AnswerLattice,
    records: tuple[int, ...],
    groups: Sequence[Siblings],
    summed: Sequence[int],
    replaced: Mapping[int, Array],
) -> tuple[Array, int]:
    """Return the law of records, cases of groups, and the count of the records summed out."""
    length = len(tally.points)
    grouped = {member for group in groups for member in group.members}
    sizes = {place: table.shape[-1] for place, table in enumerate(network.tables)}
    factors: list[tuple[Array, tuple[int, ...]]] = []
    kind = next((table.dtype for table in replaced.values()), np.dtype(np.float64))
    for place, table in enumerate(network.tables):
        if place not in grouped:
            axes = (*network.parents[place], place)
            # a last axis of one count
            factors.append((replaced.get(place, table)[..., None], axes))
    for number, group in enumerate(groups):
        name = len(network.nodes) + number
        sizes[name] = len(group.cases)
        axes = (*network.parents[group.members[0]], name)
        factors.append((_group_law(network.tables[group.members[0]], group, tally, length), axes))
    for place in summed:
        # (states, counts): one record summed out
        mark = np.zeros((network.size, max(tally.offsets) + 1), dtype=kind)
        mark[np.arange(network.size), list(tally.offsets)] = 1
        factors.append((mark, (place,)))
    kept = (*records, *(len(network.nodes) + number for number in range(len(groups))))
    return _counted(factors, kept, sizes, length)


def _group_law(table: Array, group: Siblings, tally: AnswerLattice, length: int) -> Array:
    """Return Pr[a case, count of its unknown members | parents], (parents ..., case, count)."""
    most = len(group.members)
    # (unknown members, parents ..., counts)
    powers = np.zeros((most + 1, *table.shape[:-1], length))
    powers[0, ..., 0] = 1.0  # nobody unknown: count 0
    for unknown in range(1, most + 1):
        for value, offset in enumerate(tally.offsets):
            moved = powers[unknown - 1, ..., : length - offset] * table[..., value, None]
            powers[unknown, ..., offset:] += moved
    # (parents ..., cases): of the known members
    named = np.ones((*table.shape[:-1], len(group.cases)))
    for value in range(table.shape[-1]):
        named = named * table[..., value, None] ** group.cases[:, value]
    rest = most - group.cases.sum(axis=1)  # (cases,): how many are unknown
    # (parents ..., cases, counts)
    return np.asarray(named[..., None] * np.moveaxis(powers[rest], 0, -2))


def _counted(
    factors: list[tuple[Array, tuple[int, ...]]],
    keep: tuple[int, ...],
    sizes: Mapping[int, int],
    length: int,
) -> tuple[Array, int]:
    """Return the product of factors, counts added up, and the roundings behind an entry.

    Each factor's last axis is a count. Variables that are not kept are summed out one by one, the
    one with the smallest table first.
    """
    operations = 0
    left = {axis for _, axes in factors for axis in axes} - set(keep)
    while left:
        costs = {}
        for variable in left:
            around = {axis for _, named in factors if variable in named for axis in named}
            costs[variable] = math.prod(sizes[axis] for axis in around)
        variable = min(left, key=lambda name: (costs[name], name))
        _check_entries(costs[variable] * length)
        left.remove(variable)
        inside = [factor for factor in factors if variable in factor[1]]
        factors = [factor for factor in factors if variable not in factor[1]]
        table, axes, steps = _times(inside, sizes, length)
        place = axes.index(variable)
        # the variable is summed out
        factors.append((table.sum(axis=place), (*axes[:place], *axes[place + 1 :])))
        operations += steps + sizes[variable]
    _check_entries(math.prod(sizes[axis] for axis in keep) * length)
    table, axes, steps = _times(factors, sizes, length)
    # (kept ..., counts)
    whole = np.zeros((*(sizes[axis] for axis in keep), length), dtype=table.dtype)
    whole[..., : table.shape[-1]] = np.transpose(
        table, [*(axes.index(axis) for axis in keep), len(axes)]
    )
    return whole, operations + steps


def _check_entries(entries: int) -> None:
    if entries > LARGEST:
        raise NotSupported(
            "too many records depend on each other to go through all their values"
        )  # fmt: skip


def _times(
    factors: Sequence[tuple[Array, tuple[int, ...]]], sizes: Mapping[int, int], length: int
) -> tuple[Array, tuple[int, ...], int]:
    """Return the product of factors over the union of their axes; counts add up."""
    axes = tuple(dict.fromkeys(axis for _, named in factors for axis in named))
    kind = factors[0][0].dtype if factors else np.dtype(np.float64)
    total: Array = np.ones((1,) * len(axes) + (1,), dtype=kind)
    steps = 0
    for table, named in sorted(factors, key=lambda factor: factor[0].shape[-1]):
        order = sorted(range(len(named)), key=lambda place: axes.index(named[place]))
        shape = [sizes[axis] if axis in named else 1 for axis in axes]
        # axes of the union, 1 where the factor has none, counts last
        aligned = np.transpose(table, [*order, len(named)]).reshape(*shape, table.shape[-1])
        total = _convolved(total, aligned, length)
        steps += 1 + min(total.shape[-1], table.shape[-1])
    full = tuple(sizes[axis] for axis in axes)
    if total.shape[:-1] != full:
        total = np.broadcast_to(total, (*full, total.shape[-1]))
    return total, axes, steps


def _convolved(one: Array, two: Array, length: int) -> Array:
    """Return the product of two tables, the counts on the last axis added up."""
    short, long = (one, two) if one.shape[-1] <= two.shape[-1] else (two, one)
    if short.shape[-1] == 1:
        return np.asarray(short * long)
    places = min(short.shape[-1] + long.shape[-1] - 1, length)
    shape: Any = np.broadcast_shapes(short.shape[:-1], long.shape[:-1])
    total = np.zeros((*shape, places), dtype=long.dtype)
    for count in range(min(short.shape[-1], places)):
        room = min(long.shape[-1], places - count)
        if short[..., count].any():
            # counts add up: a convolution along the last axis
            total[..., count : count + room] += short[..., count, None] * long[..., :room]
    return total
