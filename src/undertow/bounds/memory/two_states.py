"""Two states, order two: the worst case where it is known, brackets of it for every length.

*Attractive* laws (`undertow.models.attractive`): of all likelihoods that grow by at most e^theta
when a record turns from 0 to 1, F = exp(theta sum of unknown records) tells 1 from 0 best, whatever
is known (docs, theory-memory). It is what all epsilon-DP algorithms can do at most, the far tail of
a noisy count, and all outputs of flips alike. So no outputs are searched. Where every second record
has to be *relabelled* for that, the likelihood alternates. Of other laws flips are known by trying
every word of outputs between two known records. What is said here is about 1 against 0; for 0
against 1 the states change places.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.core.play import Attack, Interval, play, play_many, play_open
from undertow.bounds.memory.attractive import (
    best_case,
    chain_sums,
    check_cases,
    ignorant_value,
)
from undertow.bounds.memory.boxes import (
    LEFT,
    MOST_GAP,
    RIGHT,
    Joint,
    NeighbourElements,
    PhaseGaps,
    Rows,
    SideBoxes,
    Tilts,
    binary_laws,
    by_phase,
    elements,
    grouped,
    joined,
    joint_pad,
    longest_gap,
    open_gaps,
    quotients,
    side_boxes,
    worst_of,
)
from undertow.bounds.memory.envelopes import (
    LEAST_THETA,
    Elements,
    Envelope,
    Factors,
    Order,
    envelope,
    side_gaps,
    worst_pair,
)
from undertow.bounds.memory.envelopes import elements as envelope_elements
from undertow.certificate import Witness
from undertow.errors import NotSupported
from undertow.models.attractive import is_attractive
from undertow.models.base import Model
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import Array, up

__all__ = [
    "QUICK",
    "THOROUGH",
    "AttainedBracket",
    "Bracketing",
    "Effort",
    "Law",
    "MoveBounds",
    "Pattern",
    "PatternGuide",
    "Pool",
    "TargetPattern",
    "attack_arrays",
    "best_pair",
    "envelope_bracket",
    "law_of",
    "message_pool",
    "pattern_guide",
    "played",
    "side_points",
    "tilt_weights",
    "worst_case",
]


Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

Pattern = tuple[tuple[str, int], ...]
"""What is looked at, outwards: ("known", value) or ("shown", place of the tilt) for each record."""

CELL = 2e-3
"""Messages that agree to it, in logarithms, count as one (cost)."""

MOST_POINTS, MOST_REACHED = 1200, 60_000
"""Messages that are kept of a record known to be one value, and what they reach through all gaps
(cost); the cells are widened for it."""

MOST_BINS = 2000
"""Bins of a side that are held against those of the other (cost)."""

ENOUGH = 600
"""Elements of a side of which all pairs are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Messages (points, 2), with outputs and plain, and how they came about.

    ``word`` is the row of the gap, ``known`` the value of the record beyond it, -1 at the end of
    the series, ``parent`` the place of that record's message one round before.
    """

    messages: Array
    word: Ints
    known: Ints
    parent: Ints

    def chosen(self, places: Ints) -> "Points":
        """Return some of the points."""
        return Points(
            self.messages[places], self.word[places], self.known[places], self.parent[places]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The messages of a side after each round: [round][phase][value]."""

    gaps: tuple[PhaseGaps, ...]
    rounds: tuple[tuple[tuple[Points, Points], ...], ...]

    def pattern(self, phase: int, word: int, known: int, parent: int, number: int) -> Pattern:
        """Return the pattern beyond a record at some phase, as a message of a round."""
        shown = self.gaps[phase].word[word]
        found: Pattern = tuple(("shown", output) for output in shown)
        if known < 0:
            return found
        beyond = (phase + len(shown) + 1) % len(self.gaps)
        before = self.rounds[number - 1][beyond][known]
        inner = int(before.word[parent]), int(before.known[parent]), int(before.parent[parent])
        return (*found, ("known", known), *self.pattern(beyond, *inner, number - 1))


def message_pool(gaps: tuple[PhaseGaps, ...], rounds: int | None, cell: float = CELL) -> Pool:
    """Return messages of a side that patterns attain, after up to so many gaps; None: no record is
    known.
    """
    if rounds is None:
        return Pool(gaps, ())
    phases = range(len(gaps))
    most = min(MOST_POINTS, MOST_REACHED // len(gaps[0].word))

    def made(before: tuple[tuple[Points, Points], ...] | None) -> tuple[tuple[Points, Points], ...]:
        return tuple(
            (
                _kept(_reached(gaps[phase], (2, 0), phase, before), cell, most),
                _kept(_reached(gaps[phase], (3, 1), phase, before), cell, most),
            )
            for phase in phases
        )

    found = [made(None)]
    for _ in range(rounds):
        found.append(made(found[-1]))
    return Pool(gaps, tuple(found))


def _reached(
    gaps: PhaseGaps, rows: Rows, phase: int, before: tuple[tuple[Points, Points], ...] | None
) -> Points:
    """Return all messages at two pairs: those of open ends, and those of the round before."""
    words = np.arange(len(gaps.word))
    ends = gaps.ends[:, rows[0]] / gaps.ends[:, rows[1]]
    none = np.full(len(words), -1)
    parts = [(np.stack([ends, np.ones_like(ends)], axis=1), words, none, none)]
    for beyond, places in enumerate(by_phase(gaps, phase, 0 if before is None else len(before))):
        for known in (0, 1):
            points = before[beyond][known]  # type: ignore[index]
            seen = quotients(gaps.seen[places], rows, known, points.messages[:, 0])
            bare = quotients(gaps.plain, rows, known, points.messages[:, 1])[gaps.gap[places]]
            count = len(points.messages)
            parts.append((
                np.stack([seen, bare], axis=-1).reshape(-1, 2),
                np.repeat(places, count),
                np.full(seen.size, known),
                np.tile(np.arange(count), len(places)),
            ))  # fmt: skip
    return Points(*(np.concatenate([part[each] for part in parts]) for each in range(4)))


def _kept(points: Points, cell: float, most: int) -> Points:
    """Return one point for each cell, in wider cells where there are many."""
    while True:
        order, starts = grouped(np.floor(np.log(points.messages) / cell))
        if len(starts) <= most:
            return points.chosen(order[starts])
        cell *= 2


def side_points(
    pool: Pool, rows: tuple[Rows, Rows, Rows, Rows], phase: int
) -> tuple[Array, Points, Array]:
    """Return the elements of a side that patterns attain, their points, and m/m~ where a = 1.

    Columns as in `joins.NeighbourElements`. Of a pool without rounds: where no record is known.
    """
    last = pool.rounds[-1] if pool.rounds else None
    made = [_reached(pool.gaps[phase], pair, phase, last) for pair in rows]
    main, one, zero, other = (each.messages for each in made)
    table = np.stack(
        [main[:, 0] / main[:, 1], one[:, 0], zero[:, 1], zero[:, 0], one[:, 1]], axis=1
    )
    return table, made[0], other[:, 0] / other[:, 1]


def best_pair(left: Array, right: Array, joint: Joint) -> tuple[float, int, int]:
    """Return the largest value of the pairs that were tried, and their places.

    Of the elements in a bin the one with the largest m/m~ is tried; then bins are made finer where
    the values were large.
    """
    lefts, rights = np.arange(len(left)), np.arange(len(right))
    width, best = 0.1, (-math.inf, 0, 0)
    for _ in range(8):
        first, first_of = _leaders(left[lefts], width)
        second, second_of = _leaders(right[rights], width)
        one, two = left[lefts[first]], right[rights[second]]
        by_left, by_right = worst_of(one, two, joint)
        place = int(by_left.argmax())
        values, _ = worst_of(two, one[place : place + 1], joint)
        found = joint.own + math.log(float(by_left.max()))
        if found > best[0]:
            best = found, int(lefts[first[place]]), int(rights[second[int(values.argmax())]])
        if len(first) == len(lefts) and len(second) == len(rights):
            break
        close = math.exp(best[0] - joint.own - 6 * width)
        lefts, rights = lefts[by_left[first_of] >= close], rights[by_right[second_of] >= close]
        width = width / 3 if max(len(lefts), len(rights)) > ENOUGH else 1e-12
    return best


def _leaders(table: Array, width: float) -> tuple[Ints, Ints]:
    """Return the element of each bin with the largest m/m~, and the bin of each element."""
    order, starts = grouped(np.floor(np.log(table[:, 1:]) / width), table[:, 0])
    place = np.empty(len(table), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(table)]))
    if len(starts) > MOST_BINS:
        return _leaders(table, 2 * width)
    return order[starts], place


MERGE, MERGE_WORDS = 1e-4, 3e-3
"""Widths of boxes that are merged, in logarithms; wider where every output is tried (cost)."""

ATTACK_ROUNDS = 2
"""Known records beyond the first of each side of an attack."""


@dataclass(frozen=True, slots=True)
class TargetPattern:
    """A pattern around a target: what is looked at on the left, and on the right, outwards."""

    value: float
    left: Pattern
    right: Pattern


class Bracketing:
    """The bracket of one direction, found step by step: attacks first, then bounds."""

    def __init__(self, chain: SecondOrderChain, tilts: Tilts) -> None:
        """Prepare the gaps of both sides."""
        self.tilts = tilts
        self.law, back = binary_laws(chain)
        self.steps = {"left": back, "right": chain.transition}
        self.longest = max(longest_gap(step, tilts) for step in self.steps.values())

    def attack(self, rounds: int | None = ATTACK_ROUNDS) -> TargetPattern:
        """Return the best pattern found; its value is not rounded: it is to be played out.

        ``rounds`` counts known records beyond the first of each side; None: no record is known.
        """
        pools = {side: message_pool(self._gaps(side), rounds) for side in self.steps}
        near = 1 % self.tilts.phases
        right, right_points, right_one = side_points(pools["right"], RIGHT, 0)
        left, left_points, _ = side_points(pools["left"], LEFT, near)
        found: list[TargetPattern] = []
        number = 0 if rounds is None else rounds + 1
        for place, joint in enumerate(self._joints()):
            value, i, j = best_pair(left, right, joint)
            patterns = (
                _pattern(pools["left"], left_points, near, i, number),
                _pattern(pools["right"], right_points, 0, j, number),
            )
            found.append(TargetPattern(value, (("shown", place), *patterns[0]), patterns[1]))
        for known, beside in enumerate(() if rounds is None else (right[:, 0], right_one)):
            points = pools["left"].rounds[-1][near][known]
            ratio = points.messages[:, 0] / points.messages[:, 1]
            i, j = int(ratio.argmax()), int(beside.argmax())
            value = self.tilts.own + math.log(float(ratio[i])) + math.log(float(beside[j]))
            left_side = _pattern(pools["left"], points, near, i, number - 1)
            right_side = _pattern(pools["right"], right_points, 0, j, number)
            found.append(TargetPattern(value, (("known", known), *left_side), right_side))
        return max(found, key=lambda attack: attack.value)

    def open_upper(self, floor: float = 0.0) -> float:
        """Return an upper bound for someone who knows no record, every word of outputs tried."""
        near = 1 % self.tilts.phases
        sides = {side: SideBoxes(self._gaps(side), ()) for side in self.steps}
        right = elements(sides["right"], RIGHT, 0)
        left = elements(sides["left"], LEFT, near)
        return max(joined(left.table, right.table, joint, floor) for joint in self._joints())

    def upper(self, rounds: int, floor: float = 0.0) -> float:
        """Return an upper bound, at least ``floor``, which is attained anyway."""
        near = 1 % self.tilts.phases
        merge = MERGE_WORDS if self.tilts.words else MERGE
        sides = {
            side: side_boxes(step, self.tilts, rounds, merge, self.longest)
            for side, step in self.steps.items()
        }
        right = elements(sides["right"], RIGHT, 0)
        left = elements(sides["left"], LEFT, near)
        best = max(floor, self._beside(sides["left"], right, near))
        for joint in self._joints():
            best = max(best, joined(left.table, right.table, joint, best))
        return best

    def _beside(self, left: SideBoxes, right: NeighbourElements, near: int) -> float:
        """Return the bound where the left neighbour is known: the sides multiply."""
        own = self.tilts.own
        found = []
        for known in (0, 1):
            boxes = left.boxes[near][known]
            value = float((boxes[:, 1] / boxes[:, 2]).max()) * right.beside[known]
            found.append(own + math.log(value) + joint_pad(own, math.log(value)))
        return max(found)

    def _joints(self) -> list[Joint]:
        """Return the join for each output of the left neighbour, where it is unknown."""
        ratio = self.law[1] / self.law[0]  # pi(1, x) / pi(0, x)
        found = []
        for tilt in self.tilts.near[1 % self.tilts.phases]:
            seen = math.exp(tilt)
            one, zero = float(ratio[1]), float(ratio[0])
            pad = joint_pad(self.tilts.own, 100.0)
            found.append(Joint(self.tilts.own, (seen * one, zero, seen * zero, one), pad))
        return found

    def _gaps(self, side: str) -> tuple[PhaseGaps, ...]:
        return tuple(
            open_gaps(self.steps[side], self.tilts, phase, self.longest)
            for phase in range(self.tilts.phases)
        )


def _pattern(pool: Pool, points: "object", phase: int, place: int, number: int) -> Pattern:
    """Return the pattern of one point."""
    word, known, parent = (
        int(getattr(points, name)[place]) for name in ("word", "known", "parent")
    )
    return pool.pattern(phase, word, known, parent, number)


def attack_arrays(attack: TargetPattern, tilts: Tilts) -> tuple[Array, list[tuple[int, int]], int]:
    """Return an attack as weights (records, 2), known records and values, and the target."""
    target = len(attack.left)
    weights = np.ones((target + 1 + len(attack.right), 2))
    known: list[tuple[int, int]] = []
    weights[target] = tilt_weights(tilts.own)
    for sign, pattern in ((-1, attack.left), (1, attack.right)):
        for distance, (kind, what) in enumerate(pattern, start=1):
            record = target + sign * distance
            if kind == "known":
                known.append((record, what))
            else:
                weights[record] = tilt_weights(tilts.near[distance % tilts.phases][what])
    return weights, sorted(known), target


def tilt_weights(tilt: float) -> Array:
    """Return the likelihoods of 0 and 1, at most 1."""
    return np.exp([min(-tilt, 0.0), min(tilt, 0.0)])


LEFT_ORDER: Order = (0, 2, 1, 3)
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
    one, two = envelope_elements(left, LEFT_ORDER), envelope_elements(right)
    ratio, seen = law[1] / law[0], math.exp(theta)  # pi(1, x) / pi(0, x), weight of a = 1
    factors: Factors = (
        seen * float(ratio[1]), float(ratio[0]), seen * float(ratio[0]), float(ratio[1]),
    )  # fmt: skip
    upper, i, j = worst_pair(one, two, theta, factors)
    found = [
        (
            upper,
            (("shown", 0), *_envelopes_pattern(left, one, i)),
            _envelopes_pattern(right, two, j),
        )
    ]
    # the left neighbour is known to be v: R(v, 1) / R(v, 0), seen over plain
    mu, _, _, g, h = two.table.T
    for value, beside in ((0, mu), (1, mu + g - h)):
        best = left.values[value]
        total = theta + math.log(float(best.max())) + float(beside.max())
        cell, place = int(best.argmax()), int(beside.argmax())
        beyond = _outwards(left.traced(value, cell, MOST_KNOWN), left.gaps.longest)
        pattern = (("known", value), *beyond)
        found.append(
            (total + joint_pad(theta, total), pattern, _envelopes_pattern(right, two, place))
        )
    worst, first, second = max(found, key=lambda each: each[0])
    return worst, TargetPattern(worst, first, second)


def _envelopes_pattern(side: Envelope, made: Elements, place: int) -> Pattern:
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


Law = Literal["attractive", "relabelled", "words"]
"""Why the worst outputs are known: they are all alike, they alternate, or all are tried."""

LARGEST = 60.0
"""Log-ratios above it are left to other bounds: likelihoods would lie too far apart."""

FEW_RECORDS, FEWER_RECORDS = 8, 6
"""Series up to which all known sets and values are gone through (cost 3^records), and where every
output has to be tried too (cost 4^records)."""

LONG = 4096
"""Records of a series in which every target is looked at (cost); longer ones leak no less than this
many, and no more than endless ones."""

LENGTHS = (65, 257, 1025, LONG + 1)
"""Records of a series that stands for an endless one (lower side)."""

NEGLIGIBLE = 1e-10
"""What more records must add to be looked at, relative (lower side)."""

CLOSE = 2e-4
"""Relative width of a bracket that is not narrowed further (cost)."""


@dataclass(frozen=True, slots=True)
class MoveBounds:
    """How much one record moves a likelihood at most, in logarithms: towards 1, and towards 0."""

    one: float
    zero: float

    @property
    def swapped(self) -> "MoveBounds":
        """The same with both states changing places."""
        return MoveBounds(self.zero, self.one)

    def tilts(self, law: Law) -> Tilts:
        """Return what tells 1 from 0 best."""
        near: dict[Law, tuple[tuple[float, ...], ...]] = {
            "attractive": ((self.one,),),
            "relabelled": ((self.one,), (-self.zero,)),  # even distances, odd ones
            "words": ((self.one, -self.zero),),
        }
        return Tilts(self.one, near[law])


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to work: rounds of boxes, and known records of an attack beyond its first."""

    rounds: int
    attack_rounds: int


QUICK, THOROUGH = Effort(1, 1), Effort(2, 2)


@dataclass(frozen=True, slots=True, eq=False)
class AttainedBracket:
    """A bracket, and the attack that attains its lower end: ``value`` against the other one.

    ``weights`` (records, 2) are the likelihoods of what is seen, in the chain's own states.
    """

    lower: float
    upper: float
    value: int
    weights: Array
    known: tuple[tuple[int, int], ...]
    target: int


def law_of(chain: SecondOrderChain) -> Law | None:
    """Return why the worst likelihood is known, None where it is not.

    >>> law_of(SecondOrderChain([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]]))
    'attractive'
    """
    found = is_attractive(chain)
    if found:
        return "attractive"
    return "relabelled" if found.relabelled else None


def swapped(chain: SecondOrderChain) -> SecondOrderChain:
    """Return the chain with both states changing places."""
    return SecondOrderChain(chain.transition[::-1, ::-1, ::-1], None, chain.length)


def worst_case(
    chain: SecondOrderChain,
    ratios: MoveBounds,
    law: Law,
    against: Against,
    effort: Effort = THOROUGH,
) -> AttainedBracket:
    """Return a bracket of the leakage over all targets and both directions, with its attack.

    ``law`` says which likelihoods have to be tried; against an `Adversary` and for short series
    outputs must be known (``attractive`` or ``relabelled``).
    """
    if not (chain.transition > 0).all():
        raise NotSupported("a transition is impossible; fit with a prior")
    if max(ratios.one, ratios.zero) > LARGEST:
        raise NotSupported(f"ratios above e^{LARGEST:g} are not told apart here")
    plain = SecondOrderChain(chain.transition, None, chain.length)
    return _worst_case(plain, ratios, law, against, effort)


@lru_cache(maxsize=64)
def _worst_case(
    chain: SecondOrderChain, ratios: MoveBounds, law: Law, against: Against, effort: Effort
) -> AttainedBracket:
    few = FEWER_RECORDS if law == "words" else FEW_RECORDS
    short = chain.length is not None and chain.length <= few
    both = [(chain, ratios), (swapped(chain), ratios.swapped)]
    if against == "ignorant":
        found = [_ignorant(one, each.tilts(law)) for one, each in both]
    elif isinstance(against, Adversary):
        found = [_explicit(one, each.tilts(law), against) for one, each in both]
    elif short:
        found = [_all_attacks(one, each.tilts(law)) for one, each in both]
    else:
        found = _brackets([(one, each.tilts(law)) for one, each in both], law, effort)
    found[1] = replace(
        found[1], value=0, weights=found[1].weights[:, ::-1],
        known=tuple((record, 1 - value) for record, value in found[1].known),
    )  # fmt: skip
    best = max(found, key=lambda each: each.lower)
    return replace(best, upper=max(each.upper for each in found))


def _brackets(
    sides: list[tuple[SecondOrderChain, Tilts]], law: Law, effort: Effort
) -> list[AttainedBracket]:
    """Return the brackets of both directions; neither is narrowed below what is attained anyway."""
    if law == "attractive":
        return [_enveloped(chain, tilts) for chain, tilts in sides]
    # a direction in which no output says anything leaks nothing
    work = [Bracketing(chain, tilts) if tilts.says else None for chain, tilts in sides]
    attained = [
        _silent() if one is None else _fitted(chain, tilts, one.attack(effort.attack_rounds))
        for (chain, tilts), one in zip(sides, work, strict=True)
    ]
    floor = max(bracket.lower for bracket in attained)
    results = []
    for one, bracket in zip(work, attained, strict=True):
        upper = 0.0 if one is None else math.inf
        for rounds in range(1, effort.rounds + 1 if one is not None else 0):
            upper = min(upper, one.upper(rounds, floor))  # type: ignore[union-attr]
            if upper <= floor * (1 + CLOSE / 8):
                break
        results.append(replace(bracket, upper=max(upper, bracket.lower)))
    return results


def _enveloped(chain: SecondOrderChain, tilts: Tilts) -> AttainedBracket:
    """Return the bracket of one direction of an attractive law by envelopes."""
    if not tilts.says:
        return _silent()
    if tilts.own < LEAST_THETA:
        raise NotSupported(f"ratios below e^{LEAST_THETA:g} are not told apart here")
    upper, attack = envelope_bracket(chain, tilts.own)
    bracket = _fitted(chain, tilts, attack)
    return replace(bracket, upper=max(upper, bracket.lower))


def _silent() -> AttainedBracket:
    """Return the bracket of a direction that leaks nothing: a lone record without an output."""
    return AttainedBracket(0.0, 0.0, 1, np.ones((1, 2)), (), 0)


def _all_weights(tilts: Tilts, records: int, target: int) -> Array:
    """Return the likelihoods of all records, each with its worst output: shape (records, 2)."""
    distances = np.abs(np.arange(records) - target)
    table = np.array([tilt_weights(row[0]) for row in tilts.near])
    weights = table[distances % tilts.phases]
    weights[target] = tilt_weights(tilts.own)
    return np.asarray(weights)


def played(
    chain: SecondOrderChain, weights: Array, known: Sequence[tuple[int, int]], target: int
) -> Interval:
    """Return what one attack reveals, with weights (records, 2) and known records and values.

    >>> chain = SecondOrderChain([[[.9, .1], [.4, .6]], [[.8, .2], [.1, .9]]])
    >>> attack = played(chain, np.exp([[0, 0], [0, 1.0], [0, 1.0]]), [(0, 0)], 1)
    >>> round(attack.lower, 6), attack.upper - attack.lower < 1e-11
    (1.549948, True)
    """
    return play(chain.lowered(), Attack(target, dict(known), ((1,), (0,)), weights))


def _fitted(chain: SecondOrderChain, tilts: Tilts, attack: TargetPattern) -> AttainedBracket:
    """Return an attack played out in a series of the chain's length, cut where it does not fit."""
    length = chain.length
    if length is not None:
        # the target as near to the middle as the pattern allows; what does not fit is left out
        room = max(length - 1, 0)
        left = min(len(attack.left), max(room - len(attack.right), room // 2))
        right = min(len(attack.right), room - left)
        attack = replace(attack, left=attack.left[:left], right=attack.right[:right])
    weights, known, target = attack_arrays(attack, tilts)
    if length is not None and len(weights) < length:
        extra = (length - len(weights)) // 2 if length <= LONG else 0
        known = [(record + extra, value) for record, value in known]
        target += extra
        after = min(length, LONG) - len(weights) - extra
        if tilts.words:  # outputs beyond the pattern are summed out
            weights = np.concatenate([np.ones((extra, 2)), weights, np.ones((max(after, 0), 2))])
        else:
            weights = _all_weights(tilts, len(weights) + extra + max(after, 0), target)
    value = played(chain, weights, known, target)
    return AttainedBracket(max(value.lower, 0.0), math.inf, 1, weights, tuple(known), target)


def _all_attacks(chain: SecondOrderChain, tilts: Tilts, *, known: bool = True) -> AttainedBracket:
    """Return the exact worst case of a short series: all targets, known sets, values and outputs.

    Without ``known`` of someone who knows no record.
    """
    records = chain.length or 1
    outputs = len(tilts.near[0])
    best: tuple[float, int, tuple[int, ...]] = (0.0, 0, (0,) * (records - 1))
    upper = 0.0
    for target in range(records):
        others = [record for record in range(records) if record != target]
        # of each other record: the output that is seen (0 ..), or its value (outputs + value)
        codes = range(outputs + 2 * known)
        choices = np.array(list(product(codes, repeat=len(others))), dtype=np.int64)
        weights, possible = _coded(tilts, records, target, choices)
        values, errors = play_many(chain.lowered(), weights, possible, target, (1, 0))
        place = int(values.argmax())
        upper = max(upper, float((values + errors).max()))
        attained = float(values[place] - errors[place])
        if attained > best[0]:
            best = attained, target, tuple(choices[place].tolist())
    value, target, code = best
    weights, _ = _coded(tilts, records, target, np.array([code], dtype=np.int64))
    others = [record for record in range(records) if record != target]
    pairs = tuple((r, c - outputs) for r, c in zip(others, code, strict=True) if c >= outputs)
    return AttainedBracket(value, upper, 1, weights[0], pairs, target)


def _coded(
    tilts: Tilts, records: int, target: int, choices: "np.ndarray[Any, np.dtype[np.int64]]"
) -> tuple[Array, Array]:
    """Return weights and possible values (attacks, records, 2) of coded attacks."""
    outputs = len(tilts.near[0])
    others = [record for record in range(records) if record != target]
    weights, possible = np.ones((2, len(choices), records, 2))
    weights[:, target] = tilt_weights(tilts.own)
    for column, record in enumerate(others):
        row = tilts.near[abs(record - target) % tilts.phases]
        for code in range(outputs + 2):
            mine = choices[:, column] == code
            if code < outputs:
                weights[mine, record] = tilt_weights(row[code])
            else:
                possible[mine, record, 1 - (code - outputs)] = 0.0
    return weights, possible


def _ignorant(chain: SecondOrderChain, tilts: Tilts) -> AttainedBracket:
    """Return the worst case of someone who knows no record.

    Of laws whose worst likelihood is known a longer series leaks no less, as a likelihood may
    ignore records, and one without ends has a closed form.
    """
    if tilts.words and chain.length is not None and chain.length <= FEWER_RECORDS:
        return _all_attacks(chain, tilts, known=False)
    if tilts.words:
        work = Bracketing(chain, tilts)
        bracket = _fitted(chain, tilts, work.attack(None))
        return replace(bracket, upper=max(work.open_upper(bracket.lower), bracket.lower))
    if chain.length is not None and chain.length <= LONG:
        lower, upper, target = _open_attack(chain, tilts, chain.length)
        weights = _all_weights(tilts, chain.length, target)
        return AttainedBracket(max(lower, 0.0), max(upper, 0.0), 1, weights, (), target)
    law = chain.lowered()
    value, error = ignorant_value(law.kernels[0], law.symbols, [row[0] for row in tilts.near])
    lower, target, records = -math.inf, 0, 0
    for records in LENGTHS:
        lower, _, target = _open_attack(chain, tilts, records)
        if lower >= value - max(NEGLIGIBLE * value, error):
            break
    weights = _all_weights(tilts, records, target)
    upper = max(up(value + error), lower, 0.0)
    return AttainedBracket(max(lower, 0.0), upper, 1, weights, (), target)


def _open_attack(chain: SecondOrderChain, tilts: Tilts, records: int) -> tuple[float, float, int]:
    """Return what the worst record of a series reveals if none is known: both ends, the record."""
    best: tuple[float, float, int] = (-math.inf, 0.0, 0)
    for turn in range(tilts.phases):  # targets of one parity at a time
        values, error = play_open(chain.lowered(), _all_weights(tilts, records, turn), (1, 0))
        values[np.arange(records) % tilts.phases != turn] = -math.inf
        top = float(values.max())
        # of all but equal ones, the target nearest to the middle
        close = np.flatnonzero(values >= top - error)
        place = int(close[np.abs(close - records // 2).argmin()])
        best = max(best, (top - error, top + error, place))
    return best


def _explicit(chain: SecondOrderChain, tilts: Tilts, against: Adversary) -> AttainedBracket:
    """Return the exact worst case of one adversary over the values of the records it knows.

    A longer series leaks no less, and one of any length no more than one that never ends.
    """
    if tilts.words:
        raise NotSupported("the outputs are too many to try")
    target, known, law = against.target, against.known, chain.lowered()
    check_cases(2, len(known))
    last = max((target, *known)) + 1
    records = last + MOST_GAP if chain.length is None else chain.length
    table = np.array([tilt_weights(row[0]) for row in tilts.near])  # (phases, values)
    rows = (table / table.max(axis=1, keepdims=True))[:, law.symbols]
    plain = np.ones((1, law.size))
    found = []
    for length in {records, chain.length}:
        sums = [chain_sums(law, each, target, known, length) for each in (rows, plain)]
        best = best_case(sums[0], sums[1], (1, 0), (2,) * len(known))
        if best is None:
            raise NotSupported("a case of a positive law cannot be impossible")
        found.append((best, length))
    shown = next(best for best, length in found if length == records)
    pairs = tuple(zip(known, shown.known, strict=True))
    upper = max(best.upper for best, _ in found)
    weights = _all_weights(tilts, min(records, last + LONG), target)
    return AttainedBracket(shown.lower, upper, 1, weights, pairs, target)


RatiosOf = Callable[[float], MoveBounds]
"""The log-ratios of a level."""


def _alike(level: float) -> MoveBounds:
    return MoveBounds(level, level)


def pattern_guide(
    model: Model, against: Against, ratios: RatiosOf = _alike, *, words: bool = False
) -> "PatternGuide | None":
    """Return a guide for levels on a chain of order two, None where none is needed or known.

    ``words``: of flips, whose outputs are tried where the worst is not known.
    """
    if not isinstance(model, SecondOrderChain) or model.size != 2 or against != "any":
        return None
    if not (model.transition > 0).all():
        return None
    law = law_of(model) or ("words" if words else None)
    plain = SecondOrderChain(model.transition)
    return None if law is None else PatternGuide(plain, law, ratios)


@dataclass(slots=True)
class PatternGuide:
    """What some patterns of known records attain on a chain of order two: a guide, no proof."""

    chain: SecondOrderChain
    law: Law
    ratios: RatiosOf
    patterns: list[tuple[bool, TargetPattern]] = field(default_factory=list)
    bracketed: ClassVar[bool] = True

    def attains(self, epsilon: float) -> float:
        """Return what the patterns attain at a level."""
        if not self.patterns:
            self.focus(epsilon)
        best = 0.0
        for turned, attack in self.patterns:
            chain, tilts = self._direction(epsilon, turned)
            best = max(best, played(chain, *attack_arrays(attack, tilts)).lower)
        return best

    def focus(self, epsilon: float) -> None:
        """Look for the patterns that are worst at this level, in both directions."""
        self.patterns.clear()
        for turned in (False, True):
            chain, tilts = self._direction(epsilon, turned)
            if tilts.own > 0:
                self.patterns.append((turned, Bracketing(chain, tilts).attack()))

    def learn(self, witness: Witness) -> bool:
        """Return False: both directions are evaluated already."""
        return False

    def _direction(self, level: float, turned: bool) -> tuple[SecondOrderChain, Tilts]:
        found = self.ratios(level)
        ratios = MoveBounds(min(found.one, LARGEST), min(found.zero, LARGEST))
        if turned:
            return swapped(self.chain), ratios.swapped.tilts(self.law)
        return self.chain, ratios.tilts(self.law)
