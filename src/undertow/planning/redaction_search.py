"""Probabilities of erasure found by a local search, where no recursion gives the best ones.

A *pattern* says which values of which records may be shown at all. Inside a pattern the losses
of all options are smooth in c = -ln(probability of erasure), and a sequential quadratic program
climbs to a local optimum. What it finds is a proposal; `redaction_leakage` certifies it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.chains.known import Bools, Ints, ordered_pairs
from undertow.bounds.series.erasing import build_side, lone_losses, shown_levels
from undertow.models.markov import MarkovChain
from undertow.numerics import Array
from undertow.planning.redaction_optimum import BothSides, erasure_table

__all__ = ["MANY", "Pattern", "climb", "likely_patterns", "redaction_pattern"]

DEPTH, MANY = 6, 40
"""Records next to what is always shown in which a pattern shows values at times, and most values
shown at times for which a local search is worth its time."""

EFFORT = ((3, 100, MANY), (4, 12, 24), (6, 4, 12), (10**9, 0, 0))
"""Up to how many states, how many patterns are tried, with how many values shown at times."""

SHARES = (0.5, 0.25, 0.75)
"""Shares of limit that the left side of a target may take."""

ROUNDS, TOUCH = 20, 1e-11
"""Rounds of a program, and the violation of a constraint at which the next one takes it in."""

AHEAD, TELLING = (1.0, 3.0), 0.6
"""Values of c at which the worst options are taken in before the first round, and the share of
limit that they must lose there."""

Losses = tuple[Array, Ints, Array]
"""Of all options of a side: loss, pair of values, gradient in c."""

Joint = tuple[int, int, int]
"""A target, an option on its left, an option on its right."""

STEEPEST = 40.0
"""Largest c of a search: a probability of erasure of e^-40 is 0 for all purposes."""


@dataclass(frozen=True)
class Pattern:
    """Which values may be shown: never (1), always (0), or at times (free), by record and state.

    ``first`` is where a search over the free values starts.
    """

    chain: MarkovChain
    targets: tuple[int, ...]
    against: Against
    fixed: Array
    free: Bools
    first: Array

    @cached_property
    def sides(self) -> "tuple[tuple[PatternSide, PatternSide], ...]":
        """The two sides of each target."""
        return tuple(
            (_pattern_side(self, target, False), _pattern_side(self, target, True))
            for target in self.targets
        )

    def table(self, spent: Array) -> Array:
        """Return the probabilities of erasure for the c of the free values."""
        table = self.fixed.copy()
        table[self.free] = np.exp(-spent)
        return table


@dataclass(frozen=True, slots=True)
class PatternSide:
    """One side of a target up to the first record that is always shown.

    ``shown`` and ``met`` (T, pairs, k) are what the losses of shown, and of met known records,
    start from; NaN where there is no such option. ``kernels`` (T, k, k) lead outwards.
    """

    records: Ints
    kernels: Array
    shown: Array
    met: Array
    end: Array
    last: Array


def _pattern_side(pattern: Pattern, target: int, right: bool) -> PatternSide:
    chain, size = pattern.chain, pattern.chain.size
    always = ((pattern.fixed == 0) & ~pattern.free).all(axis=1)  # (records)
    plain = np.where(always[:, None], 0.0, np.ones_like(pattern.fixed))  # (records, states)
    side = build_side(chain, plain, target, right, 0 if pattern.against == "ignorant" else None)
    # (distances, pairs, states), the same, (pairs)
    shown, met, end = shown_levels(side, pattern.against)
    sign = 1 if right else -1
    records = target + sign * np.arange(1, side.room + 1)  # (distances)
    ends = bool(always[records].any())
    reach = int(always[records].argmax()) + 1 if ends else side.room
    records = records[:reach]
    if right:
        kernels = [chain.step(int(record) - 1) for record in records]
    else:
        kernels = [chain.step(int(record)).T for record in records]
    offered = (pattern.free | (pattern.fixed < 1))[records]  # (distances, states)
    return PatternSide(
        records=records,
        kernels=np.array(kernels).reshape(reach, size, size),
        shown=np.where(offered[:, None, :], shown[:reach], np.nan),
        met=met[:reach],
        end=np.full_like(end, np.nan) if ends else end,
        last=np.ones(size) if right else chain.initial,
    )


def climb(pattern: Pattern, limit: float) -> Array:
    """Return c of the free values with as much shown as a local search finds.

    Maximises sum_v weight (1 - e^-c) over c >= 0 subject to left + right <= limit for each
    target, pair of values, and option on the left and on the right. Few of them matter: the
    program starts with the worst of each pair, and takes in those that its answer violates.
    """
    spent = pattern.first
    if not spent.size:
        return spent
    chosen = dict.fromkeys(
        joint
        for level in (0.0, *AHEAD)
        for joint in _worst(pattern, np.maximum(spent, level), TELLING * limit)
    )
    for _ in range(ROUNDS):
        spent = _program(pattern, limit, spent, list(chosen))
        violated = _worst(pattern, spent, limit + TOUCH)
        if chosen.keys() >= violated.keys():
            break
        chosen |= violated
    return np.clip(spent, 0.0, STEEPEST)


def _sides(pattern: Pattern, spent: Array) -> list[Losses]:
    """Return losses, pairs of values and gradients of all options, side by side."""
    index = np.full(pattern.free.shape, -1)  # (records, states): which free value, -1 for none
    index[pattern.free] = np.arange(len(spent))
    table = pattern.table(spent)
    return [_losses(side, table, index, len(spent)) for both in pattern.sides for side in both]


def _worst(pattern: Pattern, spent: Array, above: float) -> dict[Joint, None]:
    """Return the worst joint options of each target and pair of values that lose so much."""
    sides = _sides(pattern, spent)
    found: dict[Joint, None] = {}
    for number in range(len(pattern.targets)):
        (left, pair, _), (right, other, _) = sides[2 * number], sides[2 * number + 1]
        for which in np.intersect1d(pair, other):
            # options of this pair
            one, two = np.flatnonzero(pair == which), np.flatnonzero(other == which)
            # the two that lose most
            one, two = one[np.argsort(-left[one])[:2]], two[np.argsort(-right[two])[:2]]
            for a, b in ((0, 0), (1, 0), (0, 1)):
                if a < len(one) and b < len(two) and left[one[a]] + right[two[b]] > above:
                    found[number, int(one[a]), int(two[b])] = None
    return found


def _program(pattern: Pattern, limit: float, spent: Array, chosen: list[Joint]) -> Array:
    """Return the answer of the program with the chosen constraints, from a point."""
    from scipy.optimize import minimize

    weights = pattern.chain.marginals(len(pattern.fixed))[pattern.free]  # (free values)
    cache: dict[bytes, tuple[Array, Array]] = {}

    def limits(place: Array) -> tuple[Array, Array]:
        key = place.tobytes()
        if key not in cache:
            cache.clear()
            sides = _sides(pattern, place)
            # (constraints)
            slack = [limit - sides[2 * t][0][a] - sides[2 * t + 1][0][b] for t, a, b in chosen]
            # (constraints, free values)
            slope = [-sides[2 * t][2][a] - sides[2 * t + 1][2][b] for t, a, b in chosen]
            cache[key] = np.array(slack), np.array(slope)
        return cache[key]

    def erased(place: Array) -> tuple[float, Array]:
        kept = weights * np.exp(-place)
        return float(kept.sum()), -kept

    within: Any = {
        "type": "ineq", "fun": lambda x: limits(x)[0], "jac": lambda x: limits(x)[1],
    }  # fmt: skip
    with np.errstate(all="ignore"):
        found = minimize(
            erased, spent, jac=True, method="SLSQP",
            bounds=[(0.0, STEEPEST) for _ in range(len(spent))], constraints=within,
            options={"maxiter": 40, "ftol": 1e-13},
        )  # fmt: skip
    return np.asarray(found.x)


def _losses(side: PatternSide, table: Array, index: Ints, count: int) -> Losses:
    """Return the losses of all options of a side, their pairs, and their gradients in c."""
    reach, size = len(side.records), table.shape[1]
    value, other = ordered_pairs(size)
    if not reach:
        return np.zeros(len(value)), np.arange(len(value)), np.zeros((len(value), count))
    laws = np.zeros((reach + 1, size, size))  # (distances, values, states)
    parts = np.zeros((reach + 1, size, reach, size, size))  # value, record, its state, state here
    # (values, states), (values, records, their states, states)
    law, moved, same = np.eye(size), parts[0], np.eye(size)
    for step in range(reach):
        if step:
            erased = table[side.records[step - 1]]
            law, moved = law * erased, moved * erased
            # d/dc of a product: the factor of this record, by its state, for each value of the
            # target
            moved[:, step - 1] = law[:, :, None] * same
        law, moved = law @ side.kernels[step], moved @ side.kernels[step]  # one record outwards
        top = law.max()  # ratios of values do not change
        law, moved = law / top, moved / top
        laws[step], parts[step] = law, moved
    erased = table[side.records[-1]] * side.last  # (states): every record of the side is erased
    law, moved = law * erased, moved * erased
    moved[:, reach - 1] = law[:, :, None] * same
    # the end, in the place of state 0
    laws[reach, :, 0], parts[reach, ..., 0] = law.sum(axis=1), moved.sum(axis=3)
    # (shown or met, distances, pairs, states)
    bases = np.full((2, reach + 1, len(value), size), np.nan)
    bases[0, :reach], bases[1, :reach], bases[0, reach, :, 0] = side.shown, side.met, side.end
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(laws)  # (distances, values, states)
        loss = logs[:, value] - logs[:, other] - bases  # (kinds, distances, pairs, states)
    kind, place, pair, state = np.nonzero(np.isfinite(loss))  # (options) each
    slope = np.zeros((len(pair), reach, size))  # (options, records, states)
    for sign, values in ((-1.0, value[pair]), (1.0, other[pair])):
        share = parts[place, values, :, :, state] / laws[place, values, state][:, None, None]
        slope += sign * share
    rows = np.zeros((len(pair), count + 1))  # (options, free values and one for the rest)
    rows[:, index[side.records].ravel()] = slope.reshape(len(pair), reach * size)  # -1: the rest
    return loss[kind, place, pair, state], pair, rows[:, :count]


def redaction_pattern(
    chain: MarkovChain,
    target: int,
    length: int,
    against: Against,
    redactions: BothSides,
) -> Pattern:
    """Return the pattern of a redaction in three stretches, to improve on it."""
    table = erasure_table(length, target, redactions)
    free = np.zeros(table.shape, dtype=bool)
    for redaction, sign in zip(redactions, (-1, 1), strict=True):
        for distance in range(redaction.begin, redaction.start):
            free[target + sign * distance, redaction.side.early[distance - 1]] = True
    spent = np.clip(-np.log(np.maximum(table[free], 1e-12)), 0.0, 4.0)
    return Pattern(chain, (target,), against, np.where(free, 1.0, table), free, spent)


def likely_patterns(
    chain: MarkovChain,
    targets: tuple[int, ...],
    against: Against,
    limit: float,
    windows: list[Bools],
) -> Iterator[Pattern]:
    """Yield patterns around given windows, and around the first of them a little wider.

    Whatever is offered fits limit as long as nothing is shown at times too often: values that
    do not fit are taken back, the most telling first, or each side keeps to its share. Only the
    outermost values are kept.
    """
    length, size = len(windows[0]), chain.size
    losses = [_alone(chain, target, against, length) for target in targets]
    possible = chain.marginals(length) > 0  # (records, states)
    possible[list(targets)] = False
    offers = [(erased, possible.copy()) for erased in (*_wider(windows[0]), *windows[1:])]
    for share in SHARES:
        fits = possible.copy()
        for target, loss in zip(targets, losses, strict=True):
            # (records, states): over the pairs of target values
            top = loss.max(axis=2, initial=0.0)
            fits[:target] &= top[:target] <= share * limit
            fits[target + 1 :] &= top[target + 1 :] <= (1 - share) * limit
        shown = np.asarray((fits | ~possible).all(axis=1))
        shown[list(targets)] = False
        offers += [(erased, fits) for erased in list(_wider(~shown))[:4]]
    looks, most = next((looks, most) for states, looks, most in EFFORT if size <= states)
    for erased, values in offers[:looks]:
        offered = values & erased[:, None]  # (records, states)
        depth = _depths(erased)  # (records)
        offered[depth > DEPTH] = False
        if not _take_back(offered, erased, targets, losses, limit):
            continue
        for nearest in range(DEPTH, 0, -1):
            if offered.sum() > most:
                offered[depth > nearest] = False
        if 0 < offered.sum() <= most:
            fixed = np.where(erased[:, None], np.ones((length, size)), 0.0)
            start = np.full(int(offered.sum()), 0.05)
            yield Pattern(chain, targets, against, fixed, offered, start)


def _depths(erased: Bools) -> Ints:
    """Return how far each record is from the next one that is always shown."""
    far, places = len(erased), np.arange(len(erased))
    # from the last one shown to the left
    before = places - np.maximum.accumulate(np.where(erased, -far, places))
    # from the next to the right
    after = np.minimum.accumulate(np.where(erased, 2 * far, places)[::-1])[::-1] - places
    return np.minimum(far, np.minimum(before, after))


def _wider(inside: Bools) -> Iterator[Bools]:
    """Yield windows, and windows wider by one or two records to the left, the right, or both."""
    for left, right in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)):
        wider = inside.copy()
        for shift in range(1, left + 1):
            wider[:-shift] |= inside[shift:]
        for shift in range(1, right + 1):
            wider[shift:] |= inside[:-shift]
        yield wider


def _take_back(
    offered: Bools, erased: Bools, targets: tuple[int, ...], losses: list[Array], limit: float
) -> bool:
    """Withdraw offers until the rest fits limit; return whether it does."""
    shown = np.flatnonzero(~erased)
    spans = []
    for target in targets:
        below, above = shown[shown < target], shown[shown > target]
        low = int(below[-1]) if below.size else 0
        high = int(above[0]) if above.size else len(erased) - 1
        spans.append((slice(low, target), slice(target + 1, high + 1)))
    while True:
        open_ = offered | ~erased[:, None]  # (records, states)
        worst = (limit, -1, -1)
        for number, loss in enumerate(losses):
            if not loss.shape[2]:  # the target is certain
                continue
            tops = [
                np.where(open_[span][..., None], loss[span], 0.0).max(axis=(0, 1), initial=0.0)
                for span in spans[number]
            ]
            pair = int((tops[0] + tops[1]).argmax())
            worst = max(worst, (float(tops[0][pair] + tops[1][pair]), number, pair))
        if worst[1] < 0:
            return True
        _, number, pair = worst
        loss = np.where(offered, losses[number][..., pair], -1.0)  # (records, states)
        near = np.zeros(len(erased), dtype=bool)
        for span in spans[number]:
            near[span] = True
        loss[~near] = -1.0
        record, state = np.unravel_index(int(loss.argmax()), loss.shape)
        if loss[record, state] <= 0:
            return False
        offered[record, state] = False


def _alone(chain: MarkovChain, target: int, against: Against, length: int) -> Array:
    """Return the loss of showing each value of each record alone, by pair of target values."""
    reach = None if against == "any" else 0
    left, right = (
        # (distances, states, pairs)
        lone_losses(chain, target, side, length, against, reach)[0].transpose(0, 2, 1)
        for side in (False, True)
    )
    # (records, states, pairs)
    return np.concatenate([left[::-1], np.zeros((1, *left.shape[1:])), right])
