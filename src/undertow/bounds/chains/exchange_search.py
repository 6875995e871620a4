"""The search for the worst attack of all epsilon-DP algorithms on a chain, and its certificate.

Options are bracketed coarsely; those that could still matter are closed by Newton's method or
dismissed by one rounded-up sweep at the best value found. On a chain of many states whole pairs
are dismissed first, by ceilings that need no tables (`undertow.bounds.chains.screening`).
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow import progress
from undertow.adversaries import Against
from undertow.bounds.chains.known import Bools, Ints, joined, ordered_pairs
from undertow.bounds.chains.screening import (
    STAGES,
    Goal,
    leading_pairs,
    screenable,
    undismissed,
)
from undertow.bounds.chains.side_laws import (
    build_rows,
    build_side_laws,
    choose_steps,
    deepest_steps,
)
from undertow.bounds.chains.sides import ExchangeAttack, Sides
from undertow.bounds.chains.survey import MEMORY
from undertow.bounds.chains.sweep import Problems, capped, open_gains
from undertow.models.markov import MarkovChain
from undertow.numerics import GAP, MAX_STEPS, Array

__all__ = ["Found", "Scout", "maximise", "scout", "solve_homogeneous"]

_SMALL = 20_000
"""Options of all pairs up to which they are closed together (cost)."""

_TABLES = 24
"""Tables with an entry for each option that are held at once, copies included (memory)."""

_LEADERS = 2
"""Pairs that are closed before the others are looked at (cost)."""

_FEW = 128
"""Options that are closed together on the longest sides, where a pass costs the same for all."""

_HELD = 128
"""Distance up to which the laws of an open side are kept with its attack (memory)."""

_LIKELY = 12
"""Pairs among which a scout looks for the worst one (cost)."""

_EFFORT = 2_000_000_000
"""Records times squared states, over pairs, after which the rest keep their ceilings (cost)."""


@dataclass(slots=True)
class Found:
    """The best attack so far and the certified ceiling of everything examined.

    ``own`` is what the records wanted add by themselves: epsilon for each of a ``window``.
    ``ceiling`` holds for all there is, examined or not.
    """

    own: float
    window: int
    lower: float = -math.inf
    upper: float = -math.inf
    attack: ExchangeAttack | None = None
    unfinished: bool = False
    ceiling: float = math.inf


def solve_homogeneous(chain: MarkovChain, epsilon: float, against: Against, found: Found) -> None:
    """Raise ``found`` to the worst attack on a chain of one transition matrix.

    Few options are bracketed together. Otherwise likely pairs come first, ceilings dismiss most of
    the others (`_screened`), and the rest follow in blocks whose tables keep within `MEMORY`; past
    a counted effort they keep their ceilings, and the search says that it was not finished.
    """
    steps = choose_steps(chain, against)
    pairs: Ints = np.arange(chain.size * (chain.size - 1))
    if _all_open(chain, against, steps, found.window):
        _solve_open(chain, epsilon, found, pairs)
        return
    if chain.size == 2 or steps * len(pairs) * (chain.size + 1) <= _SMALL:
        _solve_pairs(chain, epsilon, against, found, pairs)
        return
    pairs = leading_pairs(chain)
    block = max(1, MEMORY // (_TABLES * 16 * steps * (chain.size + 1)))
    _solve_pairs(chain, epsilon, against, found, pairs[:_LEADERS])
    pairs, tops = _screened(chain, epsilon, against, found, pairs[_LEADERS:])
    if found.window > 1:  # each side has its own worst pair: both must be looked at together
        pairs = np.union1d(leading_pairs(chain)[:_LEADERS], pairs)
        _solve_pairs(chain, epsilon, against, found, pairs)
        return
    found.ceiling = max(found.upper, found.own + float(tops.max(initial=-math.inf)))
    work = np.cumsum(np.full(len(pairs), steps * chain.size**2))
    for start in range(0, len(pairs), block):
        if work[start] > _EFFORT:
            found.upper = max(found.upper, found.own + float(tops[start:].max()))
            found.unfinished = True
            return
        _solve_pairs(chain, epsilon, against, found, pairs[start : start + block])


@dataclass(frozen=True, slots=True)
class Scout:
    """What some pairs of values attain on a chain: a guide for searches over levels, no proof.

    Of two levels the same pairs are usually the worst, so what they attain tells where the
    leakage crosses a limit, at the cost of a few pairs instead of all of them.
    """

    chain: MarkovChain
    against: Against
    window: int
    pairs: list[int]

    def attains(self, epsilon: float) -> float:
        """Return what these pairs leak at a level, up to rounding."""
        return max(self._best(epsilon, np.array(self.pairs)).lower, 0.0)

    def focus(self, epsilon: float) -> None:
        """Look at more pairs, and keep those that are worst at this level."""
        likely = leading_pairs(self.chain)[:_LIKELY]
        attack = self._best(epsilon, np.union1d(self.pairs, likely)).attack
        if attack is not None:
            self.pairs.clear()
            for x, y in attack.pairs:
                self.learn(self.chain.states[x], self.chain.states[y])

    def _best(self, epsilon: float, pairs: Ints) -> Found:
        found = Found(self.window * epsilon, self.window)
        steps = choose_steps(self.chain, self.against)
        if _all_open(self.chain, self.against, steps, self.window):
            _solve_open(self.chain, epsilon, found, pairs)
        else:
            _solve_pairs(self.chain, epsilon, self.against, found, pairs)
        return found

    def learn(self, value: object, other: object) -> bool:
        """Take in two values of a worse attack, and return whether they are news."""
        x, y = self.chain.index(value), self.chain.index(other)
        pair = x * (self.chain.size - 1) + y - (y > x)
        if pair in self.pairs:
            return False
        self.pairs.append(pair)
        return True


def scout(chain: MarkovChain, against: Against, window: int = 1) -> Scout | None:
    """Return a scout of the likely worst pair of a chain, None where all pairs are as quick."""
    reduced = chain.visited()
    if reduced is None or not reduced.homogeneous or against == "informed":
        return None
    size = reduced.size
    entries = choose_steps(reduced, against) * size * (size - 1) * (size + 1)
    if size == 2 or entries <= _SMALL or not screenable(reduced):
        return None
    return Scout(reduced, against, window, [int(leading_pairs(reduced)[0])])


def _all_open(chain: MarkovChain, against: Against, steps: int, window: int) -> bool:
    """Return whether nothing is known on two sides that are longer than what is remembered."""
    endless = chain.length is None or chain.length - window > 2 * steps + 1
    stationary = isinstance(chain.start, str)
    return against == "ignorant" and stationary and endless and chain.size > 2


def _screened(
    chain: MarkovChain, epsilon: float, against: Against, found: Found, pairs: Ints
) -> tuple[Ints, Array]:
    """Return pairs that may exceed what was found, and what they leak at most, worst first."""
    tops = np.full(len(pairs), np.inf)
    if not screenable(chain):
        return pairs, tops
    for stage in range(STAGES):
        if found.attack is None or len(pairs) <= _LEADERS:
            break
        proved = max(found.upper - found.own, 0.0) * (1 - 1e-15)
        goal = Goal(found.attack.gains, found.window == 1, proved)
        pairs, upper, hints = undismissed(chain, epsilon, pairs, goal, stage)
        tops = upper.sum(axis=0)
        order = np.argsort(-np.where(np.isfinite(hints), hints, 0.0).sum(axis=0), kind="stable")
        pairs, tops = pairs[order], tops[order]
        if found.window == 1 and len(pairs):  # the most promising one first
            _solve_pairs(chain, epsilon, against, found, pairs[:1])
            pairs, tops = pairs[1:], tops[1:]
    return pairs, tops


def _solve_pairs(
    chain: MarkovChain, epsilon: float, against: Against, found: Found, alive: Ints
) -> None:
    """Raise ``found`` to the worst of some pairs, on sides as long as it takes."""
    steps = choose_steps(chain, against)
    most = MAX_STEPS if chain.length is None else min(MAX_STEPS, chain.length - 1)
    value, other = ordered_pairs(chain.size)
    while True:
        side_laws = build_side_laws(chain, steps)
        part = build_rows(chain, steps, against, window=found.window).part(alive)
        ceiling = found.upper
        sides = Sides(side_laws, part, value[alive], other[alive], epsilon, binary=chain.size == 2)
        doubtful, tops = maximise(sides, found)
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


def _solve_open(chain: MarkovChain, epsilon: float, found: Found, alive: Ints) -> None:
    """Maximise over two open sides of unbounded length, and some pairs.

    Short sides rank the pairs; the leaders are lengthened until their gain is steady; the others
    are dismissed by one sweep each at what they would need to win, or lengthened and tried again.
    """
    side_laws = build_side_laws(chain, 1)
    value, other = ordered_pairs(chain.size)
    longest = 4 * MAX_STEPS if chain.length is None else (chain.length - found.window) // 2
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

    alone = found.window == 1

    def leading(pairs: Ints) -> tuple[Ints, Ints]:
        # the worst pairs, and the very worst: of both sides together, or of each side of a window
        if alone:
            order = np.argsort(-gains[:, pairs].sum(axis=0), kind="stable")
            return pairs[order[:4]], pairs[order[:1]]
        each = pairs[np.argsort(-gains[:, pairs], axis=1, kind="stable")]  # (sides, pairs)
        return np.unique(each[:, :4]), each[:, 0]

    steps = min(8, longest)
    lengthen(alive, steps)
    while True:
        (leaders, first), far = leading(alive), steps
        while far < longest and not dismissed(first, gains[:, first] + GAP / 4).all():
            far = min(4 * far, longest)
            lengthen(leaders, far)
        # given the target the sides are independent: gains add
        reached = _choices(gains[None], None if alone else np.ones_like(gains[None], dtype=bool))[0]
        best = found.own + float(reached.sum(axis=0).max())
        goal = best + GAP * max(1.0, best) / 2
        spare = (goal - found.own - reached[:, alive].sum(axis=0)) / 2
        # both sides capped: together they stay below the goal
        alive = alive[~dismissed(alive, reached[:, alive] + spare)]
        if not alive.size or steps >= longest:
            break
        steps = min(4 * steps, longest)
        lengthen(alive[reach[alive] < steps], steps)
    left, right = (gains.sum(axis=0).argmax(),) * 2 if alone else gains.argmax(axis=1)
    distances = int(reach[left]), int(reach[right])
    found.lower, found.upper = best, math.inf if alive.size else goal
    if max(distances) <= _HELD:  # beyond, one step stands for all: open masses are the same
        side_laws = build_side_laws(chain, max(distances))
    found.attack = ExchangeAttack(
        distances[0],
        ((int(value[left]), int(other[left])), (int(value[right]), int(other[right]))),
        ((distances[0], chain.size), (distances[1], chain.size)),
        (float(gains[0, left]), float(gains[1, right])),
        side_laws, (0, 1),
    )  # fmt: skip


def _choices(gains: Array, possible: Bools | None) -> Array:
    """Return what each side gains (rows, sides, P) where it may choose its own pair.

    Of one record (None) it may not. Of a window every entry is the best of its side over pairs
    that are ``possible`` there (rows, sides, P); of two equal values it gains nothing.
    """
    if possible is None:
        return gains
    best = np.where(possible, gains, 0.0).max(axis=2, keepdims=True)
    return np.broadcast_to(np.maximum(best, 0.0), gains.shape)


def maximise(sides: Sides, found: Found) -> tuple[Ints, Array]:
    """Raise ``found`` to the best of these sides; return pairs left open and all ceilings."""
    feasible, own, parting = sides.rows.feasible, found.own, sides.rows.parting
    # (rows, sides, pairs): of a window, which pairs its first and its last record can take
    ends = None if parting is None else np.stack([feasible, parting], axis=1)
    feasible = feasible if ends is None else np.ones_like(feasible)
    used = feasible[:, None, :] if ends is None else ends
    for round_ in range(200):
        progress.doing("rounds of narrowing what an attacker can know", round_)
        each = sides.totals(sides.lower, certain=False)
        low = _choices(each, ends)
        high = _choices(sides.totals(sides.upper, certain=True), ends)
        # (rows, sides, pairs) -> (rows, pairs): the target's own output adds epsilon for either
        # value
        lows = np.where(feasible, own + joined(low[:, 0], low[:, 1]), -np.inf)
        highs = np.where(feasible, own + joined(high[:, 0], high[:, 1]), -np.inf)
        row, pair = np.unravel_index(int(lows.argmax()), lows.shape)
        best = float(lows[row, pair])
        if highs.max() == -math.inf:  # the adversary leaves no target two possible values
            return np.zeros(0, dtype=np.int64), highs.max(axis=0)
        if best > found.lower:
            left, right = pair, pair
            if ends is not None:
                left, right = np.where(ends[row], each[row], -np.inf).argmax(axis=1)
            found.lower, found.attack = best, sides.attack(int(row), (int(left), int(right)))
        gap = GAP * max(1.0, found.lower)
        if highs.max() <= found.lower + gap:
            break
        with np.errstate(invalid="ignore"):
            # (rows, sides, P): what the other side leaves to this one
            slack = found.lower + gap - own - high[:, ::-1]
        # harmless: below what the pair needs in total, or below what its side has anyway
        limit = np.fmax(np.where(np.isnan(slack), -np.inf, slack), low + gap / 4)
        if not _tighten(sides, np.where(used, limit, np.inf), round_):
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
    if sides.steps >= MAX_STEPS and len(options) <= _FEW:
        sides.close(options)
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
