"""Attacks of one adversary on a lowered law: product likelihoods, improved record by record.

Given what is seen of all other records, the best output of one record maximises a quotient of two
sums over its symbols. Passes over the records repeat that until nothing changes; `play` evaluates
what is left.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain as joined
from itertools import combinations

import numpy as np
import numpy.typing as npt

from undertow.bounds.core.play import Attack, Interval, play
from undertow.mechanisms import Levelled, Mechanism, MetricDP, PureDP, RandomizedResponse
from undertow.models.lowered import LoweredLaw
from undertow.numerics import Array
from undertow.queries import State, as_numbers

__all__ = ["MOST_LEVEL", "Choices", "FoundAttack", "choices", "search_attack"]

PASSES = 8
"""Passes over all records at most (cost)."""

REACHES = (32, 128, 512)
"""Records beyond the known ones and the target that are looked at; further ones only while they add
`GAIN` (cost)."""

GAIN = 1e-7
"""What more records must add, relative to max(1, value), to look at still more (cost)."""

MOST_SUBSETS = 6
"""States up to which all sets of them are tried in a record (cost)."""

MOST_LEVEL = 300.0
"""Largest logarithm of a likelihood that is weighed (lower side: beyond, no attack is sought)."""


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Observations of one record: likelihoods (choices, symbols), and the name of each.

    ``sets`` tells whether names are sets of states, as those of all algorithms of a level, or
    outputs. ``tied``: all records show the same, as in a far answer of a count.
    """

    table: Array
    names: tuple[State, ...]
    sets: bool
    tied: bool = False


def choices(mechanism: Mechanism, states: tuple[State, ...]) -> Choices:
    """Return what an attacker may see of one record, the first choice being nothing.

    >>> choices(PureDP(1.0), ("a", "b")).names
    (None, ('a',), ('b',))
    """
    size = len(states)
    nothing = np.ones((1, size))
    if isinstance(mechanism, RandomizedResponse):
        table = mechanism.matrix.T
        return Choices(np.vstack([nothing, table]), (None, *mechanism.names(states)), sets=False)
    if isinstance(mechanism, PureDP) and mechanism.epsilon <= MOST_LEVEL:
        rows = _subsets(size)
        names = [tuple(states[i] for i in np.flatnonzero(row)) for row in rows]
        table = np.exp(mechanism.epsilon * rows)
        return Choices(np.vstack([nothing, table]), (None, *names), sets=True)
    numbers = as_numbers(states)
    if isinstance(mechanism, MetricDP) and numbers is not None:
        apart = mechanism.rate * np.abs(np.subtract.outer(numbers, numbers))
        if apart.max() <= MOST_LEVEL:
            return Choices(np.vstack([nothing, np.exp(-apart)]), (None, *states), sets=False)
    if isinstance(mechanism, Levelled) and not isinstance(mechanism, PureDP):
        named = mechanism.query.named
        if named and 1 / mechanism.scale <= MOST_LEVEL:
            counted = np.array([state in named for state in states], dtype=np.float64)
            tilts = np.exp(np.stack([counted, -counted]) / mechanism.scale)
            return Choices(tilts, ("high", "low"), sets=False, tied=True)
        if mechanism.query.per_state and 2 / mechanism.scale <= MOST_LEVEL:
            # the bins of a set far too high and all others far too low
            rows = _subsets(size)
            names = [tuple(states[i] for i in np.flatnonzero(row)) for row in rows]
            return Choices(np.exp(2 / mechanism.scale * rows), tuple(names), sets=True, tied=True)
    return Choices(nothing, (None,), sets=False)


def _subsets(size: int) -> Array:
    """Return proper subsets of the states as rows of 0 and 1: all, or those of one or all but one.

    >>> len(_subsets(3)), len(_subsets(8))
    (6, 16)
    """
    sizes = range(1, size) if size <= MOST_SUBSETS else (1, size - 1)
    members = joined.from_iterable(combinations(range(size), count) for count in sizes)
    return np.array([np.isin(np.arange(size), chosen) for chosen in members], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class FoundAttack:
    """An attack, the number of the choice of each record, and what it reveals."""

    attack: Attack
    chosen: npt.NDArray[np.intp]
    value: Interval


def search_attack(
    law: LoweredLaw,
    seen: Choices,
    target: int,
    known: Mapping[int, int],
    histories: tuple[tuple[int, ...], tuple[int, ...]],
    records: int | None,
) -> FoundAttack | None:
    """Return the best attack that passes over the records end with, None if none can occur.

    ``records`` None: as many as add something. Cost O(passes records m^2) for each reach.
    """
    anchors = (target, target + len(histories[0]) - 1, *known)
    best: FoundAttack | None = None
    for reach in REACHES:
        first, end = max(0, min(anchors) - reach), max(anchors) + reach + 1
        if records is not None:
            end = min(end, records)
        if seen.tied:
            first, end = 0, records or max(anchors) + REACHES[-1] + 1
        attack = _ascend(law, seen, target, known, histories, first, end)
        before = best
        if attack is not None and (best is None or attack.value.lower > best.value.lower):
            best = attack
        value = -math.inf if best is None else best.value.lower
        gained = before is None or value - before.value.lower > GAIN * max(1.0, value)
        if seen.tied or not gained or (first == 0 and end == records):
            break
    return best


def _ascend(
    law: LoweredLaw, seen: Choices, target: int, known: Mapping[int, int],
    histories: tuple[tuple[int, ...], tuple[int, ...]], first: int, end: int,
) -> FoundAttack | None:  # fmt: skip
    """Return the attack that records first .. end - 1 settle at, from two starts."""
    tied = range(len(seen.table)) if seen.tied else ()
    inside = (law.symbols == np.arange(law.states)[:, None]).astype(np.float64)
    last = target + len(histories[0]) - 1
    masks = np.ones((end - first, 2, law.size))  # of what is given: known values, both histories
    for record in range(first, end):
        if record in known:
            masks[record - first] = inside[known[record]]
        elif target <= record <= last:
            masks[record - first] = inside[[history[record - target] for history in histories]]
    weights = seen.table[:, law.symbols]  # (choices, m)
    free = np.array([record not in known for record in range(first, end)])
    start = law.law(first)
    candidates: list[npt.NDArray[np.intp]] = [
        np.where(free, choice, 0).astype(np.intp) for choice in tied
    ]
    if not seen.tied:
        own = inside[[histories[0][0], histories[1][0]]] @ weights.T  # (2, choices)
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.where(own[0] > 0, own[0] / own[1], 0.0)
        for choice in (0, int(odds.argmax())):
            chosen = np.where(free, choice, 0).astype(np.intp)
            candidates.append(_passes(law, weights, masks, free, start, chosen, first))
    best: FoundAttack | None = None
    for chosen in candidates:
        table = np.ones((end, law.states))
        table[first:] = np.where(free[:, None], seen.table[chosen], 1.0)
        peak = table.max(axis=1, keepdims=True)
        attack = Attack(target, dict(known), histories, table / peak)
        value = play(law, attack)
        if best is None or value.lower > best.value.lower:
            codes = np.zeros(end, dtype=np.intp)
            codes[first:] = np.where(free, chosen, 0)
            best = FoundAttack(attack, codes, value)
    return None if best is None or not math.isfinite(best.value.lower) else best


def _passes(
    law: LoweredLaw, weights: Array, masks: Array, free: npt.NDArray[np.bool_], start: Array,
    chosen: npt.NDArray[np.intp], first: int,
) -> npt.NDArray[np.intp]:  # fmt: skip
    """Return the choices after passes forwards, each record's the best given all others."""
    count, size = len(masks), law.size
    chosen = chosen.copy()
    for _ in range(PASSES):
        before = chosen.copy()
        behind = np.ones((count, 2, size))
        for place in range(count - 2, -1, -1):
            ahead = behind[place + 1] * masks[place + 1]
            if free[place + 1]:
                ahead = ahead * weights[chosen[place + 1]]
            message = ahead @ law.kernel(first + place).T
            behind[place] = message / np.maximum(message.max(axis=1, keepdims=True), 1e-300)
        front = np.stack([start, start])
        for place in range(count):
            here = front * masks[place]
            if free[place]:
                mass = (here * behind[place]) @ weights.T  # (2, choices)
                with np.errstate(divide="ignore", invalid="ignore"):
                    odds = np.where(mass[0] > 0, mass[0] / mass[1], 0.0)
                if odds.max() > odds[chosen[place]] * (1 + 1e-12):
                    chosen[place] = int(odds.argmax())
                here = here * weights[chosen[place]]
            front = here @ law.kernel(first + place)
            front = front / np.maximum(front.max(axis=1, keepdims=True), 1e-300)
        if (chosen == before).all():
            break
    return chosen
