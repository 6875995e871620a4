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
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, Literal

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.attractive.sums import best_case, chain_sums, check_cases
from undertow.bounds.hidden.bracket import LEAST_THETA
from undertow.bounds.second_order.bracket import (
    Bracketing,
    TargetPattern,
    attack_arrays,
    tilt_weights,
)
from undertow.bounds.second_order.envelopes import envelope_bracket
from undertow.bounds.second_order.gaps import MOST_GAP, Tilts
from undertow.bounds.second_order.messages import attack_values, open_values, played
from undertow.errors import NotSupported
from undertow.models.attractive import is_attractive
from undertow.models.second_order import SecondOrderChain
from undertow.numerics import Array

__all__ = [
    "QUICK",
    "THOROUGH",
    "AttainedBracket",
    "Effort",
    "Law",
    "MoveBounds",
    "law_of",
    "worst_case",
]

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
        found = _brackets([(one, each.tilts(law)) for one, each in both], effort)
    found[1] = replace(
        found[1], value=0, weights=found[1].weights[:, ::-1],
        known=tuple((record, 1 - value) for record, value in found[1].known),
    )  # fmt: skip
    best = max(found, key=lambda each: each.lower)
    return replace(best, upper=max(each.upper for each in found))


def _brackets(sides: list[tuple[SecondOrderChain, Tilts]], effort: Effort) -> list[AttainedBracket]:
    """Return the brackets of both directions; neither is narrowed below what is attained anyway."""
    # a direction in which no output says anything leaks nothing
    work = [Bracketing(chain, tilts) if tilts.says else None for chain, tilts in sides]
    attained = [
        _silent() if one is None else _fitted(chain, tilts, one.attack(effort.attack_rounds))
        for (chain, tilts), one in zip(sides, work, strict=True)
    ]
    enveloped = [_enveloped(chain, tilts) for chain, tilts in sides]
    attained = [max(pair, key=lambda f: f.lower) for pair in zip(attained, enveloped, strict=True)]
    floor = max(found.lower for found in attained)
    results = []
    for one, found, other in zip(work, attained, enveloped, strict=True):
        upper = 0.0 if one is None else other.upper
        for rounds in range(1, effort.rounds + 1 if one is not None else 0):
            upper = min(upper, one.upper(rounds, floor))  # type: ignore[union-attr]
            if upper <= floor * (1 + CLOSE / 8):
                break
        results.append(replace(found, upper=max(upper, found.lower)))
    return results


def _enveloped(chain: SecondOrderChain, tilts: Tilts) -> AttainedBracket:
    """Return the bracket by envelopes, which are narrow at small ratios too; of attractive laws."""
    if tilts.words or tilts.phases > 1 or not LEAST_THETA <= tilts.own <= LARGEST:
        return replace(_silent(), upper=math.inf)
    try:
        upper, attack = envelope_bracket(chain, tilts.own)
    except NotSupported:
        return replace(_silent(), upper=math.inf)
    return replace(_fitted(chain, tilts, attack), upper=upper)


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
        values, error = attack_values(chain, weights, possible, target)
        place = int(values.argmax())
        upper = max(upper, float(values[place]) + error)
        if float(values[place]) - error > best[0]:
            best = float(values[place]) - error, target, tuple(choices[place].tolist())
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

    Of laws whose worst likelihood is known a longer series leaks no less: a likelihood may ignore
    records. The limit is that of the Perron vectors of T D on either side; the columns of a high
    power of it hold them between themselves, rounded outwards.
    """
    if tilts.words and chain.length is not None and chain.length <= FEWER_RECORDS:
        return _all_attacks(chain, tilts, known=False)
    if tilts.words:
        work = Bracketing(chain, tilts)
        found = _fitted(chain, tilts, work.attack(None))
        return replace(found, upper=max(work.open_upper(found.lower), found.lower))
    work = Bracketing(chain, tilts)
    endless = chain.length is None or chain.length > LONG
    records = min(8 * work.longest, LONG) + 1 if endless else int(chain.length or 1)
    best: tuple[float, float, int] = (0.0, 0.0, 0)
    for turn in range(tilts.phases):  # targets of one parity at a time
        values, error = open_values(chain, _all_weights(tilts, records, turn))
        values[np.arange(records) % tilts.phases != turn] = -math.inf
        top = float(values.max())
        # of all but equal ones, the target nearest to the middle
        close = np.flatnonzero(values >= top - error)
        place = int(close[np.abs(close - records // 2).argmin()])
        best = max(best, (float(values[place]) - error, top + error, place))
    lower, upper, target = best
    if endless:
        upper = max(work.limit_upper(), lower)
    weights = _all_weights(tilts, records, target)
    return AttainedBracket(max(lower, 0.0), max(upper, 0.0), 1, weights, (), target)


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
