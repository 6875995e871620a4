"""Two states, order two: the worst case where it is known, brackets of it for every length.

Attractive laws have one worst likelihood (docs, theory-memory) and brackets by envelopes; it
alternates where every second record has to be relabelled for that, and of other laws every word of
outputs of flips is tried: both by boxes. All is about 1 against 0, or the states change places.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from typing import Any, Literal

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.core.patterns import (
    WIDTH,
    Codes,
    Pattern,
    PatternGuide,
    PatternSearch,
    Symbol,
    known_values,
    outputs,
    pattern_attack,
)
from undertow.bounds.core.play import Attack, play, play_many, play_open
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
    SideBoxes,
    Tilts,
    binary_laws,
    joined,
    joint_pad,
    longest_gap,
    neighbour_elements,
    open_gaps,
    side_boxes,
)
from undertow.bounds.memory.envelopes import (
    LEAST_THETA,
    Elements,
    Envelope,
    Factors,
    Order,
    elements,
    envelope,
    pattern_codes,
    side_gaps,
    worst_pair,
)
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
    "envelope_bracket",
    "law_of",
    "pattern_guide",
    "worst_case",
]


MERGE, MERGE_WORDS = 1e-4, 3e-3
"""Widths of boxes that are merged, in logarithms; wider where every output is tried (cost)."""

REACH, LITTLE_REACH, ALTERNATING_REACH = 24, 12, 8
"""How far from the target attacks choose record by record (cost); with less effort; and where the
likelihood alternates, so that all but the known records is given."""

ALTERNATING_WIDTH = 16
"""Attempts that are kept there (cost)."""

GAPS = (0, 4, 8, 16, 32, 64, 128)
"""Unknown records that may follow beyond (cost), before a known one or the end."""


class Bracketing:
    """The bracket of one direction, narrowed step by step: attacks first, then bounds."""

    def __init__(self, chain: SecondOrderChain, tilts: Tilts) -> None:
        """Prepare the gaps of both sides."""
        self.chain, self.tilts = chain, tilts
        self._beyond: dict[tuple[int, int], list[tuple[Array, Codes]]] = {}
        self.law, back = binary_laws(chain)
        self.steps = {"left": back, "right": chain.transition}
        self.longest = max(longest_gap(step, tilts) for step in self.steps.values())

    def attack(self, reach: int = REACH, *, known: bool = True) -> Pattern:
        """Return the best pattern of a search; its value is not rounded: it is to be played out.

        ``known``: whether records may be known.
        """
        law, look = self.chain.lowered(), partial(self._look, known=known)
        most, width = reach, WIDTH
        if not self.tilts.words:
            most, width = min(reach, ALTERNATING_REACH), ALTERNATING_WIDTH
        search = PatternSearch(law, look, self._ends, width)
        pattern = search.search(most, (1, 0))
        return Pattern(0.0, (1, 0), ~0, (), ()) if pattern is None else pattern

    def _look(self, distance: int, *, known: bool) -> list[Symbol]:
        """Return what can be seen at a distance."""
        shown = outputs(self.tilts.weights(distance))
        return [*shown, *known_values(2)] if known and distance else shown

    def _ends(self, side: int, distance: int) -> list[tuple[Array, Codes]]:
        """Return what may follow beyond a distance: unknown records, then a known one or none."""
        key = side, distance % self.tilts.phases
        if key not in self._beyond:
            self._beyond[key] = self._followers(side, distance)
        return self._beyond[key]

    def _followers(self, side: int, distance: int) -> list[tuple[Array, Codes]]:
        law = self.chain.lowered()
        step = (law if side > 0 else law.reversed()).kernels[0]
        ones = np.ones((2, law.size))
        ends: list[tuple[Array, Codes]] = [(ones, ())]
        if self.tilts.words:
            return ends
        inside = [law.symbols == value for value in (0, 1)]
        ends += [(np.stack([step @ row, step @ row]), (value,)) for value, row in enumerate(inside)]
        followers = []
        for gap in GAPS:
            for end, codes in ends:
                seen, plain = end
                for record in range(distance + gap, distance, -1):
                    seen = (step * self.tilts.weights(record)[0, law.symbols]) @ seen
                    seen, plain = seen / seen.max(), step @ plain
                    plain = plain / plain.max()
                followers.append((np.stack([seen, plain]), (~0,) * gap + codes))
        return followers

    def open_upper(self, floor: float = 0.0) -> float:
        """Return an upper bound for someone who knows no record, every word of outputs tried."""
        near = 1 % self.tilts.phases
        sides = {side: SideBoxes(self._gaps(side), ()) for side in self.steps}
        right = neighbour_elements(sides["right"], RIGHT, 0)
        left = neighbour_elements(sides["left"], LEFT, near)
        return max(joined(left.table, right.table, joint, floor) for joint in self._joints())

    def upper(self, rounds: int, floor: float = 0.0) -> float:
        """Return an upper bound, at least ``floor``, which is attained anyway."""
        near = 1 % self.tilts.phases
        merge = MERGE_WORDS if self.tilts.words else MERGE
        sides = {
            side: side_boxes(step, self.tilts, rounds, merge, self.longest)
            for side, step in self.steps.items()
        }
        right = neighbour_elements(sides["right"], RIGHT, 0)
        left = neighbour_elements(sides["left"], LEFT, near)
        best = max(floor, self._beside(sides["left"], right, near))
        for joint in self._joints():
            best = max(best, joined(left.table, right.table, joint, best))
        return best

    def _beside(self, left: SideBoxes, right: NeighbourElements, near: int) -> float:
        """Return the bound where the left neighbour is known: the sides multiply."""
        own = self.tilts.own
        bounds = []
        for known in (0, 1):
            boxes = left.boxes[near][known]
            value = float((boxes[:, 1] / boxes[:, 2]).max()) * right.beside[known]
            bounds.append(own + math.log(value) + joint_pad(own, math.log(value)))
        return max(bounds)

    def _joints(self) -> list[Joint]:
        """Return the join for each output of the left neighbour, where it is unknown."""
        ratio = self.law[1] / self.law[0]  # pi(1, x) / pi(0, x)
        joints = []
        for tilt in self.tilts.near[1 % self.tilts.phases]:
            seen = math.exp(tilt)
            one, zero = float(ratio[1]), float(ratio[0])
            pad = joint_pad(self.tilts.own, 100.0)
            joints.append(Joint(self.tilts.own, (seen * one, zero, seen * zero, one), pad))
        return joints

    def _gaps(self, side: str) -> tuple[PhaseGaps, ...]:
        return tuple(
            open_gaps(self.steps[side], self.tilts, phase, self.longest)
            for phase in range(self.tilts.phases)
        )


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


@lru_cache(maxsize=64)
def envelope_bracket(chain: SecondOrderChain, theta: float) -> tuple[float, Pattern]:
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
    one, two = elements(left, LEFT_ORDER), elements(right)
    ratio, seen = law[1] / law[0], math.exp(theta)  # pi(1, x) / pi(0, x), weight of a = 1
    factors: Factors = (
        seen * float(ratio[1]), float(ratio[0]), seen * float(ratio[0]), float(ratio[1]),
    )  # fmt: skip
    upper, i, j = worst_pair(one, two, theta, factors)
    worst = (
        upper, (~0, *_element_codes(left, one, i)), _element_codes(right, two, j)
    )  # fmt: skip
    # the left neighbour is known to be v: R(v, 1) / R(v, 0), seen over plain
    mu, _, _, g, h = two.table.T
    for value, beside in ((0, mu), (1, mu + g - h)):
        best = left.values[value]
        total = theta + math.log(float(best.max())) + float(beside.max())
        total += joint_pad(theta, total)
        if total > worst[0]:
            known = left.traced(value, int(best.argmax()), MOST_KNOWN)
            codes = pattern_codes((tuple(known), left.gaps.longest), 1)
            place = int(beside.argmax())
            worst = total, (value, *codes), _element_codes(right, two, place)
    return worst[0], Pattern(worst[0], (1, 0), ~0, worst[1], worst[2])


def _element_codes(side: Envelope, table: Elements, place: int) -> Codes:
    """Return the pattern of an element."""
    known, gap, cell = table.origin[place].tolist()
    if known < 0:
        return pattern_codes(((), gap), 1)
    further = side.traced(known, cell, MOST_KNOWN - 1)
    return pattern_codes((((gap, known), *further), side.gaps.longest), 1)


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
    """Log-limits of one record: towards 1, and towards 0."""

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
    """Effort of a search: rounds of boxes, and the distance up to which attacks choose."""

    rounds: int
    reach: int


QUICK, THOROUGH = Effort(1, LITTLE_REACH), Effort(2, REACH)


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
    attractiveness = is_attractive(chain)
    if attractiveness:
        return "attractive"
    return "relabelled" if attractiveness.relabelled else None


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
        brackets = [_ignorant(one, each.tilts(law)) for one, each in both]
    elif isinstance(against, Adversary):
        brackets = [_explicit(one, each.tilts(law), against) for one, each in both]
    elif short:
        brackets = [_all_attacks(one, each.tilts(law)) for one, each in both]
    else:
        brackets = _brackets([(one, each.tilts(law)) for one, each in both], law, effort)
    brackets[1] = replace(
        brackets[1], value=0, weights=brackets[1].weights[:, ::-1],
        known=tuple((record, 1 - value) for record, value in brackets[1].known),
    )  # fmt: skip
    best = max(brackets, key=lambda each: each.lower)
    return replace(best, upper=max(each.upper for each in brackets))


def _brackets(
    sides: list[tuple[SecondOrderChain, Tilts]], law: Law, effort: Effort
) -> list[AttainedBracket]:
    """Return the brackets of both directions; neither is narrowed below what is attained anyway."""
    if law == "attractive":
        return [_enveloped(chain, tilts) for chain, tilts in sides]
    # a direction in which no output says anything leaks nothing
    work = [Bracketing(chain, tilts) if tilts.says else None for chain, tilts in sides]
    attained = [
        _silent() if one is None else _fitted(chain, tilts, one.attack(effort.reach))
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
    table = np.array([tilts.shown(phase)[0] for phase in range(tilts.phases)])
    weights = table[distances % tilts.phases]
    weights[target] = tilts.weights(0)[0]
    return np.asarray(weights)


def _fitted(chain: SecondOrderChain, tilts: Tilts, pattern: Pattern) -> AttainedBracket:
    """Return a pattern played out in a series of the chain's length, cut where it does not fit."""
    length = chain.length
    if length is not None:
        # the target as near to the middle as the pattern allows; what does not fit is left out
        room = max(length - 1, 0)
        left = min(len(pattern.left), max(room - len(pattern.right), room // 2))
        right = min(len(pattern.right), room - left)
        pattern = replace(pattern, left=pattern.left[:left], right=pattern.right[:right])
    attack = pattern_attack(pattern, tilts.weights)
    if length is not None and len(attack.likelihoods) < length:
        attack = _widened(attack, tilts, length)
    value = play(chain.lowered(), attack)
    return AttainedBracket(
        max(value.lower, 0.0), math.inf, 1, attack.likelihoods,
        tuple(sorted(attack.known.items())), attack.target,
    )  # fmt: skip


def _widened(attack: Attack, tilts: Tilts, length: int) -> Attack:
    """Return an attack on a series of so many records: those beyond are shown where that helps."""
    records = min(length, LONG)
    before = (length - attack.records) // 2 if length <= LONG else 0
    target = attack.target + before
    known = {record + before: value for record, value in attack.known.items()}
    likelihoods = np.ones((records, 2))
    if not tilts.words:
        likelihoods = _all_weights(tilts, records, target)
    likelihoods[before : before + attack.records] = attack.likelihoods
    return replace(attack, target=target, known=known, likelihoods=likelihoods)


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
    weights[:, target] = tilts.weights(0)[0]
    for column, record in enumerate(others):
        shown = tilts.shown(record - target)
        for code in range(outputs + 2):
            mine = choices[:, column] == code
            if code < outputs:
                weights[mine, record] = shown[code]
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
        bracket = _fitted(chain, tilts, work.attack(known=False))
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
    table = np.array([tilts.shown(phase)[0] for phase in range(tilts.phases)])  # (phases, values)
    rows = (table / table.max(axis=1, keepdims=True))[:, law.symbols]
    plain = np.ones((1, law.size))
    cases = []
    for length in {records, chain.length}:
        sums = [chain_sums(law, each, target, known, length) for each in (rows, plain)]
        best = best_case(sums[0], sums[1], (1, 0), (2,) * len(known))
        if best is None:
            raise NotSupported("a case of a positive law cannot be impossible")
        cases.append((best, length))
    shown = next(best for best, length in cases if length == records)
    pairs = tuple(zip(known, shown.known, strict=True))
    upper = max(best.upper for best, _ in cases)
    weights = _all_weights(tilts, min(records, last + LONG), target)
    return AttainedBracket(shown.lower, upper, 1, weights, pairs, target)


RatiosOf = Callable[[float], MoveBounds]
"""The log-ratios of a level."""


def _alike(level: float) -> MoveBounds:
    return MoveBounds(level, level)


def pattern_guide(
    model: Model, against: Against, ratios: RatiosOf = _alike, *, words: bool = False
) -> PatternGuide | None:
    """Return a guide for levels on a chain of order two, None where none is needed or known.

    ``words``: of flips, whose outputs are tried where the worst is not known.
    """
    if not isinstance(model, SecondOrderChain) or model.size != 2 or against != "any":
        return None
    if not (model.transition > 0).all():
        return None
    law = law_of(model) or ("words" if words else None)
    if law is None:
        return None
    plain = SecondOrderChain(model.transition)

    def tilts(level: float, value: int) -> Tilts:
        bounds = ratios(level)
        within = MoveBounds(min(bounds.one, LARGEST), min(bounds.zero, LARGEST))
        return (within if value else within.swapped).tilts(law)

    def patterns(level: float) -> list[Pattern]:
        worst = []
        for value, chain in ((1, plain), (0, swapped(plain))):
            tilt = tilts(level, value)
            if tilt.own > 0:
                pattern = _worst_pattern(chain, tilt, law)
                worst.append(pattern if value else _states_swapped(pattern))
        return worst

    def attack(pattern: Pattern, level: float) -> Attack:
        value = pattern.pair[0]
        tilt = tilts(level, value)
        turn = 1 if value else -1
        return pattern_attack(pattern, lambda distance: tilt.weights(distance)[:, ::turn])

    return PatternGuide(plain.lowered(), patterns, attack)


def _worst_pattern(chain: SecondOrderChain, tilts: Tilts, law: Law) -> Pattern:
    """Return the worst pattern of 1 against 0 that the search finds."""
    if law == "attractive" and tilts.own >= LEAST_THETA:
        return envelope_bracket(chain, tilts.own)[1]
    return Bracketing(chain, tilts).attack()


def _states_swapped(pattern: Pattern) -> Pattern:
    """Return a pattern of two states with both states changing places."""

    def turned(codes: Codes) -> Codes:
        return tuple(code if code < 0 else 1 - code for code in codes)

    return replace(pattern, pair=(0, 1), left=turned(pattern.left), right=turned(pattern.right))
