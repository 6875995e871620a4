"""The exchange rate: exactly what epsilon-DP algorithms leak on a Markov chain.

The leakage of all epsilon-DP algorithms against one adversary is epsilon plus one gain per side
(docs, "The exchange rate"). This module maximises the sum over targets, pairs of values and
options, and certifies the result: options are bracketed coarsely, those that could still matter
are closed by Newton's method or dismissed by one rounded-up sweep at the best value found.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.chains.known import (
    Bools,
    Ints,
    informed_targets,
    joined,
    nearest_known,
    ordered_pairs,
    stated,
    witnessed,
)
from undertow.bounds.chains.replay import replay_pure_dp
from undertow.bounds.chains.side_laws import (
    build_positions,
    build_rows,
    build_side_laws,
    choose_steps,
    deepest_steps,
    positions,
    start_error,
)
from undertow.bounds.chains.sides import ExchangeAttack, Sides
from undertow.bounds.chains.sweep import (
    Problems,
    capped,
    diverging,
    open_gains,
    signed_sets,
)
from undertow.certificate import Leakage, Witness
from undertow.models.markov import MarkovChain
from undertow.numerics import GAP, MAX_STEPS, Array, down, up

__all__ = ["exchange_leakage"]

METHOD = "exchange"
_leakage = partial(stated, METHOD, "exchange-rate theorem (docs, theory)")

_BLOCK = 256
"""Positions of a chain with differing steps that are swept together (memory)."""


@dataclass(slots=True)
class _Found:
    """The best attack so far and the certified ceiling of everything examined."""

    lower: float
    upper: float
    attack: ExchangeAttack | None


def exchange_leakage(epsilon: float, chain: MarkovChain, against: Against = "any") -> Leakage:
    """Return the exact leakage of all epsilon-DP algorithms on a chain, as certified interval.

    epsilon + max over targets, values x != x' and options of s_left(x, x') + s_right(x, x').
    Cost O(T k^2) per pair and sweep, with T records on either side of a target: as many as it
    takes for the chain to forget, whatever its length.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(exchange_leakage(1.0, chain).upper, 8)
    3.47487338
    """
    reduced = chain.visited()
    if reduced is None:
        return _leakage(0.0, 0.0, against, None)
    if against == "informed":
        target = next(informed_targets(reduced), None)
        if target is None:
            return _leakage(0.0, 0.0, against, None)
        own = ((target.target, (target.value,)),)
        return _leakage(epsilon, epsilon, against, replace(target, sets=own))
    found = _Found(-math.inf, -math.inf, None)
    if reduced.homogeneous:
        endless = _endless(reduced, epsilon, against)
        if endless is not None:
            return _leakage(math.inf, math.inf, against, endless)
        _solve_homogeneous(reduced, epsilon, against, found)
    else:
        targets, full = positions(reduced, against), isinstance(against, Adversary)
        value, other = ordered_pairs(reduced.size)
        for start in range(0, len(targets), _BLOCK):
            block = targets[start : start + _BLOCK]
            side_laws, rows = build_positions(reduced, block, MAX_STEPS, against, full)
            _maximise(
                Sides(side_laws, rows, value, other, epsilon, binary=reduced.size == 2), found
            )
    if found.upper == -math.inf:  # no target has two possible values
        return _leakage(0.0, 0.0, against, None)
    return _conclude(found, reduced, epsilon, against)


def _endless(chain: MarkovChain, epsilon: float, against: Against) -> Witness | None:
    """Return a target and two values whose leakage grows without bound with the length, if any."""
    if chain.length is not None or nearest_known(against)[1]:
        return None
    apart = diverging(chain, epsilon)
    if not apart.any():
        return None
    rows = build_rows(chain, 1, against)
    for pair, (x, y) in enumerate(zip(*ordered_pairs(chain.size), strict=True)):
        places = np.flatnonzero(rows.feasible[:, pair])
        if places.size and apart[x, y]:
            target = int(rows.position[places[0]])
            return witnessed(chain, target, target + 2, {}, (x, y))
    return None


def _solve_homogeneous(chain: MarkovChain, epsilon: float, against: Against, found: _Found) -> None:
    steps = choose_steps(chain, against)
    endless = chain.length is None or chain.length > 2 * steps + 2
    if against == "ignorant" and isinstance(chain.start, str) and endless and chain.size > 2:
        _solve_open(chain, epsilon, found)
        return
    most = MAX_STEPS if chain.length is None else min(MAX_STEPS, chain.length - 1)
    value, other = ordered_pairs(chain.size)
    alive = np.arange(len(value))
    while True:
        side_laws = build_side_laws(chain, steps)
        rows = build_rows(chain, steps, against)
        part = replace(rows, feasible=rows.feasible[:, alive])
        ceiling = found.upper
        sides = Sides(side_laws, part, value[alive], other[alive], epsilon, binary=chain.size == 2)
        doubtful, tops = _maximise(sides, found)
        if not doubtful.size or steps >= most or not (part.room > steps).any():
            return
        if (
            np.isinf(sides.tail_high[:, doubtful]).any()
            or np.isinf(sides.tail_low[:, doubtful]).any()
        ):
            return
        settled = np.delete(tops, doubtful)
        found.upper = max(ceiling, float(settled.max(initial=-math.inf)))
        alive, steps = alive[doubtful], deepest_steps(chain, min(2 * steps, most))
        if steps <= side_laws.steps:
            found.upper = max(found.upper, float(tops.max()))
            return


def _solve_open(chain: MarkovChain, epsilon: float, found: _Found) -> None:
    """Maximise over two open sides of unbounded length.

    Short sides rank the pairs; the leaders are lengthened until their gain is steady; the others
    are dismissed by one sweep each at what they would need to win, or lengthened and tried again.
    """
    side_laws = build_side_laws(chain, 1)
    value, other = ordered_pairs(chain.size)
    longest = 4 * MAX_STEPS if chain.length is None else (chain.length - 1) // 2
    # (sides, P) and (P,)
    gains, reach = np.zeros((2, len(value))), np.zeros(len(value), dtype=np.int64)

    def both(pairs: Ints) -> Problems:
        # (2 P,): every pair on the left, then on the right
        which, pair = np.repeat((0, 1), len(pairs)), np.tile(pairs, 2)
        return Problems(side_laws, which, value[pair], other[pair], epsilon)

    def lengthen(pairs: Ints, steps: int) -> None:
        found_ = open_gains(both(pairs), steps, gains[:, pairs].ravel()).reshape(2, -1)
        gains[:, pairs] = np.maximum(gains[:, pairs], found_)
        reach[pairs] = steps

    def dismissed(pairs: Ints, ceilings: Array) -> Bools:
        ok = capped(both(pairs), ceilings.ravel())  # (2 P,)
        return np.asarray(ok.reshape(2, -1).all(axis=0))

    alive, steps = np.arange(len(value)), min(8, longest)
    lengthen(alive, steps)
    while True:
        order = np.argsort(-gains[:, alive].sum(axis=0), kind="stable")
        leaders, far = alive[order[:4]], steps
        while far < longest and not dismissed(leaders[:1], gains[:, leaders[:1]] + GAP / 4):
            far = min(4 * far, longest)
            lengthen(leaders, far)
        # given the target the sides are independent: gains add
        best = epsilon + float(gains.sum(axis=0).max())
        goal = best + GAP * max(1.0, best) / 2
        spare = (goal - epsilon - gains[:, alive].sum(axis=0)) / 2
        # both sides capped: together they stay below the goal
        alive = alive[~dismissed(alive, gains[:, alive] + spare)]
        if not alive.size or steps >= longest:
            break
        steps = min(4 * steps, longest)
        lengthen(alive[reach[alive] < steps], steps)
    pair = int(gains.sum(axis=0).argmax())
    distance = int(reach[pair])
    found.lower, found.upper = best, math.inf if alive.size else goal
    found.attack = ExchangeAttack(
        distance, (int(value[pair]), int(other[pair])), ((distance, chain.size),) * 2,
        (float(gains[0, pair]), float(gains[1, pair])), build_side_laws(chain, distance), (0, 1),
    )  # fmt: skip


def _maximise(sides: Sides, found: _Found) -> tuple[Ints, Array]:
    """Raise ``found`` to the best of these sides; return pairs left open and all ceilings."""
    feasible, epsilon = sides.rows.feasible, sides.epsilon
    for round_ in range(200):
        low = sides.totals(sides.lower, certain=False)
        high = sides.totals(sides.upper, certain=True)
        # (rows, sides, pairs) -> (rows, pairs): the target's own output adds epsilon for either
        # value
        lows = np.where(feasible, epsilon + joined(low[:, 0], low[:, 1]), -np.inf)
        highs = np.where(feasible, epsilon + joined(high[:, 0], high[:, 1]), -np.inf)
        row, pair = np.unravel_index(int(lows.argmax()), lows.shape)
        best = float(lows[row, pair])
        if highs.max() == -math.inf:  # the adversary leaves no target two possible values
            return np.zeros(0, dtype=np.int64), highs.max(axis=0)
        if best > found.lower:
            found.lower, found.attack = best, sides.attack(int(row), int(pair))
        gap = GAP * max(1.0, found.lower)
        if highs.max() <= found.lower + gap:
            break
        with np.errstate(invalid="ignore"):
            # (rows, sides, P): what the other side leaves to this one
            slack = found.lower + gap - epsilon - high[:, ::-1]
        # harmless: below what the pair needs in total, or below what its side has anyway
        limit = np.fmax(np.where(np.isnan(slack), -np.inf, slack), low + gap / 4)
        if not _tighten(sides, np.where(feasible[:, None, :], limit, np.inf), round_):
            break
    tops = highs.max(axis=0)  # (P,)
    found.upper = max(found.upper, float(tops.max()))
    return np.flatnonzero(tops > found.lower + gap), tops


def _tighten(sides: Sides, limit: Array, round_: int) -> bool:
    """Grid, close or dismiss the options that keep the ceiling up; False if none is left.

    While many options are doubtful a finer grid narrows them together. Then the most promising
    option of each side and pair is closed, and the others are dismissed against it.
    """
    allowed = sides.allowances(limit)  # (T, B, P, k + 1)
    with np.errstate(invalid="ignore"):
        doubtful = (sides.upper > allowed) & ~sides.closed
    options = np.argwhere(doubtful)  # (options, 4): t, side, pair, column
    if not options.size:
        return False
    if round_ < 3 and len(options) > 64:
        sides.zoom(doubtful, allowed, most=16 << round_)
        return True
    lower = np.where(doubtful, sides.lower, -np.inf)
    upper = np.where(doubtful, sides.upper, -np.inf)
    problems = np.argwhere(doubtful.any(axis=(0, 3)))  # (problems, 2): side, pair
    order = np.argsort(-upper.max(axis=(0, 3))[tuple(problems.T)], kind="stable")
    pivots = set()
    for which, pair in problems[order[:32]]:
        for table in (lower, upper):
            place = np.unravel_index(
                int(table[:, which, pair].argmax()), table[:, which, pair].shape
            )
            pivots.add((int(place[0]), int(which), int(pair), int(place[1])))
    sides.close(np.array(sorted(pivots)))
    rest = options[~sides.closed[tuple(options.T)]]
    at = tuple(rest.T)
    peak = sides.lower.max(axis=(0, 3))[at[1], at[2]] if len(sides.rows.position) == 1 else -np.inf
    gains = np.maximum(allowed[at], peak + GAP / 4)
    rest, gains = rest[gains > sides.lower[at]], gains[gains > sides.lower[at]]
    if len(rest):
        sides.dismiss(rest[:4096], gains[:4096])
    return True


def _conclude(found: _Found, chain: MarkovChain, epsilon: float, against: Against) -> Leakage:
    """Turn the best attack into a witness, replay it, and round the interval outwards."""
    attack = found.attack
    upper = up(found.upper, 16) + start_error(chain)
    if chain.length is not None:
        upper = min(upper, up(chain.length * epsilon))
    if attack is None:
        return _leakage(0.0, upper, against, None)
    value, witness = -math.inf, None
    for back in (0.0, 1e-12, 1e-9, 1e-6):
        trial = _witness(attack, chain, epsilon, back)
        reached = replay_pure_dp(trial, chain, epsilon)
        if reached > value:
            value, witness = reached, trial
        if value >= found.lower - GAP / 100:
            break
    lower = max(down(value, 64), 0.0)
    return _leakage(min(lower, upper), upper, against, witness)


def _witness(attack: ExchangeAttack, chain: MarkovChain, epsilon: float, back: float) -> Witness:
    """Return the attack with its sets, taken a little below the root, where signs are clear."""
    known: dict[int, int] = {}
    sets: list[tuple[int, tuple[object, ...]]] = []
    reach = 0
    for side, option in enumerate(attack.options):
        if option is None:
            continue
        distance, column = option
        which, (x, y) = attack.which[side], attack.pair
        masses = attack.side_laws.products[distance, which]  # (target value, v)
        table = (
            masses[:, column] if column < chain.size else masses @ attack.side_laws.weights[which]
        )
        logmu = attack.gains[side] + math.log(table[x]) - math.log(table[y]) - back
        if column < chain.size:
            place = attack.position + (distance if side else -distance)
            known[place] = column
        found = signed_sets(attack.side_laws, which, x, y, distance, logmu, epsilon)
        for step, members in enumerate(found, start=1):
            shown = step < distance or column == chain.size
            if shown and 0 < len(members) < chain.size:  # the whole or nothing says nothing
                place = attack.position + (step if side else -step)
                sets.append((place, tuple(chain.states[member] for member in members)))
        reach = max(reach, distance if side else 0)
    sets.append((attack.position, (chain.states[attack.pair[0]],)))
    length = chain.length or max(attack.position + reach + 1, 2)
    told = tuple(sorted(sets, key=lambda entry: entry[0]))
    return witnessed(chain, attack.position, length, known, attack.pair, sets=told)
