"""Exact leakage of noisy counts and histograms on a small network.

Given what an adversary knows, the target's value fixes the law of the answer; the leakage is the
largest log-ratio of two such laws after the noise, and outputs on the lattice suffice (docs,
theory: networks).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.adversaries import Adversary, Against
from undertow.bounds.graphs import attack_on
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.networks import BayesianNetwork
from undertow.numerics import ROUNDOFF, Array, log_sum

__all__ = [
    "BLOCK",
    "VANISHING",
    "AnswerLattice",
    "CaseLoss",
    "CaseTable",
    "Ints",
    "JointLaws",
    "Siblings",
    "best",
    "check_effort",
    "count_loss",
    "count_tally",
    "exact_law",
    "histogram_tally",
    "loss_at",
    "rarest",
    "rounding",
    "spread",
    "worst_of",
]


Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AnswerLattice:
    """The lattice of an answer: what each state adds to it, and the outputs worth looking at.

    Answers are numbered along one axis; a record with state v moves the number up by
    ``offsets[v]``. ``points[c]`` is the answer with number c. ``outputs`` are the outputs worth
    looking at and those one step beside them; ``seen[v]`` are the places among them where the
    unknown records' answer must be read so that the target's own value v is included, for each of
    the outputs worth looking at. ``corners`` are those beyond all answers on every side, whose
    likelihood is a product over records.
    """

    offsets: tuple[int, ...]
    points: Ints
    outputs: Ints
    seen: Ints
    corners: Ints

    @property
    def deepest(self) -> int:
        """The largest distance between an output and an answer."""
        apart = np.abs(self.outputs[:, None, :] - self.points[None, :, :]).sum(axis=2)
        return int(apart.max())

    def smooth(self, table: Array, rate: float, logs: bool) -> Array:
        """Return sum_c table[:, c] exp(-rate |s - c|) for every output s, along axis 1.

        With ``logs`` both are logarithms.
        """
        if self.points.shape[1] == 1:
            return _smooth_count(table, rate, logs)
        apart = np.abs(self.outputs[:, None, :] - self.points[None, :, :]).sum(axis=2)
        noise = -rate * apart  # (outputs, answers)
        flat = table.reshape(*table.shape[:2], -1)  # (layers, answers, cases)
        if logs:
            rows = [log_sum(flat + row[:, None], axis=1) for row in noise]
            smooth = np.stack(rows, axis=1)  # (layers, outputs, cases)
        else:
            smooth = np.exp(noise) @ flat  # (layers, outputs, cases)
        return smooth.reshape(table.shape[0], len(noise), *table.shape[2:])


def _smooth_count(table: Array, rate: float, logs: bool) -> Array:
    """Return the noisy law of a count at -1 .. n, as the sum of a rising and a falling part."""
    length = table.shape[1]
    total = np.empty((table.shape[0], length + 1, *table.shape[2:]))  # (layers, outputs, cases ...)
    weight = math.exp(-rate)
    add: np.ufunc = np.logaddexp if logs else np.add

    def farther(law: Array) -> Array:
        return law - rate if logs else law * weight

    below: Array = table[:, 0]
    total[:, 1] = below
    for count in range(1, length):  # from below
        below = add(table[:, count], farther(below))
        total[:, count + 1] = below
    above: Array = table[:, -1]
    for count in range(length - 2, -1, -1):  # from above
        moved = farther(above)
        add(total[:, count + 1], moved, out=total[:, count + 1])
        above = add(table[:, count], moved)
    total[:, 0] = farther(above)
    return total


def count_tally(counted: Sequence[bool], records: int) -> AnswerLattice:
    """Return the lattice of a count over some records.

    >>> count_tally([False, True], 2).outputs.ravel()
    array([-1,  0,  1,  2])
    """
    offsets = tuple(int(mark) for mark in counted)
    points = np.arange(records + 1, dtype=np.int64)
    outputs = np.arange(-1, records + 1, dtype=np.int64)
    # (states, outputs): output 0 stands at 1
    seen = np.array([points + 1 - offset for offset in offsets])
    corners = np.array([0, records], dtype=np.int64)
    return AnswerLattice(offsets, points[:, None], outputs[:, None], seen, corners)


def histogram_tally(states: int, records: int) -> AnswerLattice:
    """Return the lattice of a histogram; its last bin counts the remaining records.

    How many records are unknown is the same under both values of a target, so the last bin may be
    counted from there.

    >>> histogram_tally(2, 1).points.tolist()
    [[0, 0], [1, -1]]
    """
    base = records + 1
    # (answers, states - 1): counts of all bins but the last
    digits = np.array(list(product(range(base), repeat=states - 1)), dtype=np.int64)
    points = np.hstack([digits, -digits.sum(axis=1, keepdims=True)])  # (answers, states)
    moves = np.zeros((states, states), dtype=np.int64)
    for state in range(states - 1):
        moves[state, state], moves[state, -1] = 1, -1
    offsets = [base ** (states - 2 - state) for state in range(states - 1)]  # digits of the number
    wide = [range(-1, base)] * (states - 1) + [range(-records, 2)]
    outputs = np.array(list(product(*wide)), dtype=np.int64)  # (outputs, states), one step wider
    where = {tuple(output): place for place, output in enumerate(outputs.tolist())}
    inner = [range(base)] * (states - 1) + [range(-records, 1)]
    listed = np.array(list(product(*inner)), dtype=np.int64)  # those worth looking at
    seen = [[where[tuple(row)] for row in (listed - move).tolist()] for move in moves]
    ends = np.array([(0, records)] * (states - 1) + [(-records, 0)], dtype=np.int64)
    # every bin at one of its two ends
    corner = ((listed == ends[:, 0]) | (listed == ends[:, 1])).all(axis=1)
    return AnswerLattice((*offsets, 0), points, outputs, np.array(seen), np.flatnonzero(corner))


BLOCK = 2**21
"""Most entries that are looked at together (memory)."""

MOST_ENTRIES = 2**24
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
        """Number of states of each axis when no target is chosen."""
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

    >>> from undertow.bounds.networks.counts import count_tally
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
    layer = [_joint(network, tally, records, groups, summed, variant) for variant in variants]
    if layer:
        layers.append((sum((table for table, _ in layer[1:]), layer[0][0]), layer[0][1]))
    states = network.size
    depth = 4 * (len(network.nodes) + len(layer)) + sum(
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

    >>> from undertow.bounds.networks.counts import count_tally
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
    """Refuse a network whose rarest case underflows."""
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
    return _leaf_counts(factors, kept, sizes, length)


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


def _leaf_counts(
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
        table, axes, steps = _product(inside, sizes, length)
        place = axes.index(variable)
        # the variable is summed out
        factors.append((table.sum(axis=place), (*axes[:place], *axes[place + 1 :])))
        operations += steps + sizes[variable]
    _check_entries(math.prod(sizes[axis] for axis in keep) * length)
    table, axes, steps = _product(factors, sizes, length)
    # (kept ..., counts)
    whole = np.zeros((*(sizes[axis] for axis in keep), length), dtype=table.dtype)
    whole[..., : table.shape[-1]] = np.transpose(
        table, [*(axes.index(axis) for axis in keep), len(axes)]
    )
    return whole, operations + steps


def _check_entries(entries: int) -> None:
    if entries > MOST_ENTRIES:
        raise NotSupported(
            "too many records depend on each other to go through all their values"
        )  # fmt: skip


def _product(
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


EFFORT = 6e10
"""Most work for one network: cases x outputs x (counts + `LOGARITHM`); half a minute or so."""

LONGEST = 96
"""Most records that are summed over for each of them as a target (cost: half a minute)."""

LOGARITHM = 50.0
"""What a logarithm costs beside a product."""

ORDINARY = 680.0
"""Largest -log of a likelihood that is computed without taking logarithms first."""


@dataclass(frozen=True, slots=True)
class CaseLoss:
    """The largest loss found, the largest at far outputs, and how wrong rounding can make them.

    ``known`` pairs places of nodes with the states known; ``output`` numbers the tally's outputs.
    """

    value: float
    far: float
    pad: float
    target: int
    known: tuple[tuple[int, int], ...]
    states: tuple[int, int]
    output: int

    def witness(self, network: BayesianNetwork, tally: AnswerLattice) -> Witness:
        """Return the attack in the network's own words."""
        single = tally.outputs.shape[1] == 1
        sets: dict[int, list[int]] = {}
        if not single and self.output in tally.corners:
            still = tally.seen[-1]  # the last state moves nothing
            high = tally.outputs[still[self.output]] == tally.outputs[still].max(axis=0)  # (bins,)
            sets[self.target] = np.flatnonzero(high).tolist()
        attack = attack_on(network, self.target, self.states, dict(self.known), sets)
        return replace(attack, output=self.output if single else None)


def count_loss(
    network: BayesianNetwork, tally: AnswerLattice, rate: float, against: Against
) -> CaseLoss | None:
    """Return the worst attack on an answer with Laplace noise, None if no target has two values.

    ``rate`` is 1 / scale. Refuses with `NotSupported`, saying why, where the network is too large.
    The informed attacker is not looked at here.
    """
    places = network.places
    if against == "any":
        whole = spread(network, tally)
        check_effort(whole, tally)
        return worst_of(whole, tally, rate, whole.targets())
    if isinstance(against, Adversary):
        held = [places[record] for record in against.known]
        return worst_of(spread(network, tally, held, places[against.target]), tally, rate, [0])
    if network.length > LONGEST:
        raise NotSupported(f"{network.length} records depend on each other, too many to sum over")
    findings = [
        worst_of(spread(network, tally, (), target), tally, rate, [0]) for target in places
    ]  # fmt: skip
    return best([finding for finding in findings if finding is not None])


def best(findings: Sequence[CaseLoss]) -> CaseLoss | None:
    """Return the worst attack of several, with the largest far loss of all."""
    if not findings:
        return None
    top = max(findings, key=lambda finding: finding.value)
    far = max(finding.far for finding in findings)
    return replace(top, far=far, pad=max(finding.pad for finding in findings))


def check_effort(whole: JointLaws, tally: AnswerLattice) -> None:
    """Refuse tables with too many cases to go through."""
    cases = math.prod(whole.sizes) * len(whole.targets())
    outputs, counts = len(tally.outputs), whole.base.shape[1]
    if cases * outputs * (counts + LOGARITHM) > EFFORT:
        raise NotSupported(
            f"there are {math.prod(whole.sizes):.3g} ways to know some of the records, too many "
            "to go through"
        )


def worst_of(
    whole: JointLaws, tally: AnswerLattice, rate: float, axes: Sequence[int]
) -> CaseLoss | None:
    """Return the worst attack on the targets of some axes."""
    states = range(len(tally.offsets))
    deepest = rate * tally.deepest
    tiny = deepest - whole.least > ORDINARY
    pad = rounding(whole, deepest)
    top, far, worst = -1.0, 0.0, None
    if not tally.deepest:  # every answer is the same
        return None
    for block in whole.blocks(axes):
        table = likelihoods(block.table, tally, rate, tiny)  # (layers, outputs, cases ...)
        for axis in block.targets:
            # for each value (outputs, cases)
            scores = [block.given(table, axis, v)[0][tally.seen[v]] for v in states]
            if not (sum(~np.isnan(score) for score in scores) > 1).any():
                continue  # nobody's record can have two values
            # NaN (impossible) gives way
            most, least = reduce(np.fmax, scores), reduce(np.fmin, scores)
            loss = most - least if tiny else most / least
            loss[np.isnan(loss)] = 0.0  # no value is possible
            edge = float(loss[tally.corners].max())  # far outputs: beyond all answers
            far = max(far, edge if tiny else math.log(max(edge, 1.0)))
            output, row = np.unravel_index(int(np.argmax(loss)), loss.shape)
            value = float(loss[output, row])
            value = value if tiny else math.log(max(value, 1.0))
            if value > top:
                top = value
                column = [float(part[output, row]) for part in scores]  # (states,)
                pair = int(np.nanargmax(column)), int(np.nanargmin(column))
                worst = loss_at(block, axis, int(row), pair, int(output), top, pad)
    return None if worst is None else replace(worst, far=far)


def loss_at(
    block: CaseTable,
    axis: int,
    row: int,
    pair: tuple[int, int],
    output: int,
    value: float,
    pad: float,
) -> CaseLoss:
    """Return the attack that one case of a target stands for."""
    known = _members(block.spread, axis, block.case(axis, row))
    return CaseLoss(value, 0.0, pad, _target(block.spread, axis), known, pair, output)


def likelihoods(table: Array, tally: AnswerLattice, rate: float, tiny: bool) -> Array:
    """Return Pr[output | case] up to a constant, or its log where it is tiny; NaN if impossible."""
    prior = table.sum(axis=1, keepdims=True)  # (layers, 1, cases ...): Pr[case]
    with np.errstate(divide="ignore", invalid="ignore"):
        if not tiny:
            return np.asarray(tally.smooth(table, rate, logs=False) / prior)
        base = np.where(prior > 0, np.log(prior), np.nan)
        return np.asarray(tally.smooth(np.log(table), rate, logs=True) - base)


def rounding(whole: JointLaws, deepest: float) -> float:
    """Return how far a computed log-ratio can lie from the true one.

    Each of four sums carries a relative error for every operation behind it, each logarithm one
    rounding of its own size, each noise weight the rounding of its exponent.
    """
    counts = whole.base.shape[1]
    size = deepest - whole.least + 1.0  # largest logarithm on the way
    return float(ROUNDOFF * (4.0 * (whole.operations + 6 * counts + 8) + 16.0 * size))


def _target(whole: JointLaws, axis: int) -> int:
    if axis < len(whole.records):
        return whole.records[axis]
    return whole.groups[axis - len(whole.records)].members[0]


def _members(whole: JointLaws, target: int, cell: dict[int, int]) -> tuple[tuple[int, int], ...]:
    """Return which nodes are known at which state in one case."""
    states = len(whole.offsets)
    known: list[tuple[int, int]] = []
    for axis, state in cell.items():
        if axis < len(whole.records):
            if axis != target and state < states:
                known.append((whole.records[axis], state))
            continue
        group = whole.groups[axis - len(whole.records)]
        cases: Ints = whole.others(axis) if axis == target else group.cases
        members = iter(group.members[1:] if axis == target else group.members)
        for value, number in enumerate(cases[state]):
            known += [(next(members), value) for _ in range(int(number))]
    return tuple(sorted(known))
