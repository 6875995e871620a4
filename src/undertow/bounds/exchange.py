"""The exchange rate: exactly what epsilon-DP algorithms leak on a Markov chain.

The leakage of all epsilon-DP algorithms against one adversary is epsilon plus one gain per side
(docs, "The exchange rate"). This module maximises the sum over targets, pairs of values and
options, and certifies the result: options are bracketed coarsely, those that could still matter
are closed by Newton's method or dismissed by one rounded-up sweep at the best value found.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.informed import informed_targets
from undertow.bounds.open import capped, open_gains
from undertow.bounds.rays import (
    Bools,
    Ints,
    Rays,
    Rows,
    build_position_rays,
    build_position_rows,
    build_rays,
    build_rows,
    choose_steps,
    ordered_pairs,
    visited,
)
from undertow.bounds.replay import replay_pure_dp
from undertow.bounds.sweep import (
    binary_gains,
    certified,
    first_span,
    grid_gains,
    newton,
    signed_sets,
)
from undertow.certificate import Leakage, Witness
from undertow.models.markov import MarkovChain
from undertow.numerics import GAP, MAX_STEPS, Array, down, up

__all__ = ["exchange_leakage"]

METHOD = "exchange"
_BLOCK = 256
"""Positions of a chain with differing steps that are swept together (memory)."""


@dataclass(slots=True)
class _Found:
    """The best attack so far and the certified ceiling of everything examined."""

    lower: float
    upper: float
    attack: "_Attack | None"


@dataclass(frozen=True, slots=True)
class _Attack:
    position: int
    pair: tuple[int, int]
    options: tuple[tuple[int, int] | None, tuple[int, int] | None]
    gains: tuple[float, float]
    rays: Rays
    ray: tuple[int, int]


class _Sides:
    """Brackets of the gains of all options on some rays, and what rows make of them."""

    def __init__(
        self, rays: Rays, rows: Rows, value: Ints, other: Ints, epsilon: float, binary: bool
    ) -> None:
        self.rays, self.rows, self.epsilon = rays, rows, epsilon
        self.value, self.other = value, other
        self.prior = rays.log_prior(value, other)
        self.tail_low, self.tail_high = rays.tail_range(value, other)
        if binary:
            self.lower, self.upper = binary_gains(rays, value, epsilon, self.prior)
        else:
            distance = np.arange(1, rays.steps + 1)[:, None, None, None]
            possible = ~np.isnan(self.prior)
            self.lower = np.where(possible, 0.0, -np.inf)
            self.upper = np.where(possible, up(epsilon) * distance, -np.inf)
            self.wanted = self._wanted()
            ray, pair = (axis.ravel() for axis in np.indices(self.prior.shape[1:3]))
            span = first_span(
                rays, ray, value[pair], other[pair], self.prior[:, ray, pair], epsilon
            )
            self.grid(ray, pair, span, points=17)
        self.closed = np.zeros(self.prior.shape, dtype=bool) | binary

    @property
    def steps(self) -> int:
        return self.rays.steps

    def _wanted(self) -> Ints:
        """Return the distances that some row can use, and the last one for the tail."""
        rows, steps = self.rows, self.steps
        wanted = np.zeros(steps + 2, dtype=bool)
        for first, last in zip(rows.first.ravel(), rows.last.ravel(), strict=True):
            wanted[first : last + 1] = True
        wanted[rows.room[rows.open]] = True
        if (rows.room == steps + 1).any():
            wanted[steps] = True
        return np.flatnonzero(wanted[1 : steps + 1]) + 1

    def tails(self) -> tuple[Array, Array]:
        """Return certified gains of all options beyond the last step: known, open; each (B, P)."""
        far = (self.upper + self.prior)[-1, :, :, :-1]
        roots = np.where(np.isnan(far), -np.inf, far).max(axis=2)
        roots = np.where(np.isposinf(self.tail_high), np.inf, roots)
        with np.errstate(invalid="ignore"):
            known = roots - self.tail_low
            mass = np.where(self.rays.ends[:, None], self.prior[-1, :, :, -1], self.tail_low)
            free = roots - mass
        clean = (np.where(np.isnan(part), np.inf, np.maximum(part, 0.0)) for part in (known, free))
        known, free = clean
        return known, free

    def totals(self, table: Array, certain: bool) -> Array:
        """Return the best gain of each row and side, (R, 2, P): upper ends if ``certain``."""
        rows, steps = self.rows, self.steps
        result = np.zeros((*rows.room.shape, len(self.value)))
        best_known = table[..., :-1].max(axis=3)
        running = np.maximum.accumulate(best_known, axis=0)
        tail_known, tail_open = self.tails() if certain else (None, None)
        for row in range(len(rows.position)):
            for side in (0, 1):
                ray, room = rows.ray[row, side], rows.room[row, side]
                first, last = rows.first[row, side], rows.last[row, side]
                gains = result[row, side]
                gains[:] = -np.inf
                if rows.open[row, side]:
                    gains[:] = 0.0 if room == 0 or not certain else gains
                    if 0 < room <= steps:
                        np.maximum(gains, table[room - 1, ray, :, -1], out=gains)
                    elif room > steps and tail_open is not None:
                        np.maximum(gains, tail_open[ray], out=gains)
                    elif room > steps and self.rays.ends[ray]:
                        np.maximum(gains, table[steps - 1, ray, :, -1], out=gains)
                near = min(last, steps)
                if first <= near:
                    if side == 0 and rows.seen is not None:
                        part = self._seen(table, row, first, near)
                    elif first == 1:
                        part = running[near - 1, ray]
                    else:
                        part = best_known[first - 1 : near, ray].max(axis=0)
                    np.maximum(gains, part, out=gains)
                if last > steps:
                    far = tail_known[ray] if tail_known is not None else 0.0
                    np.maximum(gains, far, out=gains)
        return result

    def _seen(self, table: Array, row: int, first: int, last: int) -> Array:
        masked = self._masked(table, row, first, last)
        return np.asarray(masked.max(axis=(0, 2)))

    def _masked(self, table: Array, row: int, first: int, last: int) -> Array:
        """Return left gains (t, P, v) with known states that cannot occur there set to -inf."""
        rows = self.rows
        part = table[first - 1 : last, rows.ray[row, 0], :, :-1]
        if rows.seen is None:
            return part
        back = np.minimum(rows.position[row], len(rows.seen) - 1) - np.arange(first, last + 1)
        return np.where(rows.seen[back][:, None, :], part, -np.inf)

    def allowances(self, slack: Array) -> Array:
        """Return per option the gain up to which it cannot matter, given slack (R, 2, P)."""
        rows, steps = self.rows, self.steps
        allowed = np.full(self.prior.shape, np.inf)
        for row in range(len(rows.position)):
            for side in (0, 1):
                ray, room = rows.ray[row, side], rows.room[row, side]
                first, last = rows.first[row, side], min(rows.last[row, side], steps)
                limit = slack[row, side]
                if last >= first:
                    part = allowed[first - 1 : last, ray, :, :-1]
                    np.minimum(part, limit[None, :, None], out=part)
                beyond = max(rows.last[row, side], room if rows.open[row, side] else 0) > steps
                if rows.open[row, side] and 0 < room <= steps:
                    part = allowed[room - 1, ray, :, -1]
                    np.minimum(part, limit, out=part)
                if beyond:
                    base = self.tail_low[ray]
                    if rows.last[row, side] <= steps and self.rays.ends[ray]:
                        base = self.prior[-1, ray, :, -1]
                    with np.errstate(invalid="ignore"):
                        need = (limit + base)[:, None] - self.prior[-1, ray, :, :-1]
                    part = allowed[-1, ray, :, :-1]
                    np.minimum(part, np.where(np.isnan(need), np.inf, need), out=part)
                    if self.rays.ends[ray] and rows.open[row, side]:
                        part = allowed[-1, ray, :, -1]
                        np.minimum(part, limit, out=part)
        return allowed

    def grid(self, ray: Ints, pair: Ints, span: Array, points: int) -> None:
        """Narrow the brackets of all options of some rays and pairs by a grid over ``span``."""
        groups = [ray == b for b in np.unique(ray)] if len(self.rays.kernels) == 1 else [ray >= 0]
        for group in groups:  # problems on one ray share their matrix products
            b, p = ray[group], pair[group]
            low, high = grid_gains(
                self.rays, b, self.value[p], self.other[p], self.prior[:, b, p], span[group],
                points, self.epsilon, self.wanted,
            )  # fmt: skip
            at = (self.wanted[:, None] - 1, b, p)
            self.lower[at] = np.maximum(self.lower[at], low)
            self.upper[at] = np.minimum(self.upper[at], high)

    def zoom(self, doubtful: Bools, allowed: Array, most: int) -> None:
        """Grid once more the rays and pairs with doubtful options, where their roots can lie."""
        problems = np.argwhere(doubtful.any(axis=(0, 3)))
        ray, pair = problems.T
        crowd = doubtful[:, ray, pair].sum(axis=(0, 2))
        keep = np.argsort(-crowd, kind="stable")[:most]
        ray, pair = ray[keep], pair[keep]
        here = doubtful[:, ray, pair]
        floor = np.maximum(allowed, self.lower)[:, ray, pair] + self.prior[:, ray, pair]
        ceiling = (self.upper + self.prior)[:, ray, pair]
        low = np.where(here & np.isfinite(floor), floor, np.inf).min(axis=(0, 2))
        high = np.where(here & np.isfinite(ceiling), ceiling, -np.inf).max(axis=(0, 2))
        low = np.where(np.isfinite(low), low, 0.0)
        high = np.where(np.isfinite(high), high, low)
        pad = 1e-12 * np.maximum(1.0, np.abs(high))
        self.grid(ray, pair, np.stack([low - pad, np.maximum(high, low) + pad], axis=1), 65)

    def close(self, options: Ints) -> None:
        """Close the brackets of some options (rows of (t, ray, pair, column)) by Newton."""
        t, ray, pair, column = options.T
        at = (t, ray, pair, column)
        lower, upper = newton(
            self.rays, ray, self.value[pair], self.other[pair],
            np.stack([t + 1, column], axis=1), self.lower[at], self.prior[at], self.epsilon,
        )  # fmt: skip
        self.lower[at] = np.maximum(self.lower[at], lower)
        self.upper[at] = np.minimum(self.upper[at], upper)
        self.closed[at] = True

    def dismiss(self, options: Ints, gains: Array) -> Bools:
        """Certify that options stay at or below the given gains; return which did."""
        t, ray, pair, column = options.T
        at = (t, ray, pair, column)
        ok = certified(
            self.rays, ray, self.value[pair], self.other[pair],
            np.stack([t + 1, column], axis=1), gains + self.prior[at] - 1e-14, self.epsilon,
        )  # fmt: skip
        self.upper[at] = np.where(ok, np.minimum(self.upper[at], gains), self.upper[at])
        return ok

    def attack(self, row: int, pair: int) -> _Attack:
        """Return the attack behind the lower end of a row and pair."""
        rows, steps = self.rows, self.steps
        options: list[tuple[int, int] | None] = []
        gains: list[float] = []
        for side in (0, 1):
            ray, room = rows.ray[row, side], rows.room[row, side]
            first, last = rows.first[row, side], min(rows.last[row, side], steps)
            best: tuple[float, tuple[int, int] | None] = (0.0, None)
            if rows.open[row, side] and room > 0 and (room <= steps or self.rays.ends[ray]):
                distance = int(min(room, steps))
                gain = float(self.lower[distance - 1, ray, pair, -1])
                best = max(best, (gain, (distance, self.prior.shape[3] - 1)), key=lambda b: b[0])
            if last >= first:
                part = (
                    self._masked(self.lower, row, first, last)[:, pair]
                    if side == 0
                    else self.lower[first - 1 : last, ray, pair, :-1]
                )
                place = np.unravel_index(int(part.argmax()), part.shape)
                found = (float(part[place]), (int(first + place[0]), int(place[1])))
                if found[0] > best[0] or not rows.open[row, side]:
                    best = found
            gains.append(best[0])
            options.append(best[1])
        return _Attack(
            int(rows.position[row]), (int(self.value[pair]), int(self.other[pair])),
            (options[0], options[1]), (gains[0], gains[1]),
            self.rays, (int(rows.ray[row, 0]), int(rows.ray[row, 1])),
        )  # fmt: skip


def exchange_leakage(epsilon: float, chain: MarkovChain, against: Against = "any") -> Leakage:
    """Return the exact leakage of all epsilon-DP algorithms on a chain, as certified interval.

    epsilon + max over targets, values x != x' and options of s_left(x, x') + s_right(x, x').
    Cost O(T k^2) per pair and sweep, with T records on either side of a target: as many as it
    takes for the chain to forget, whatever its length.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(exchange_leakage(1.0, chain).upper, 8)
    3.47487338
    """
    reduced = visited(chain)
    if reduced is None:
        return _leakage(0.0, 0.0, against, None)
    if against == "informed":
        target = next(informed_targets(reduced), None)
        level = 0.0 if target is None else epsilon
        return _leakage(level, level, against, target)
    found = _Found(-math.inf, -math.inf, None)
    if reduced.homogeneous:
        _solve_homogeneous(reduced, epsilon, against, found)
    else:
        positions = np.arange(reduced.transition.shape[0] + 1)
        if isinstance(against, Adversary):
            positions = positions[against.target : against.target + 1]
        for start in range(0, len(positions), _BLOCK):
            block = positions[start : start + _BLOCK]
            rays = build_position_rays(reduced, block, MAX_STEPS)
            rows = build_position_rows(reduced, block, rays.steps, against)
            value, other = ordered_pairs(reduced.size)
            _maximise(_Sides(rays, rows, value, other, epsilon, binary=False), found)
    if found.upper == -math.inf:  # no target has two possible values
        return _leakage(0.0, 0.0, against, None)
    return _conclude(found, reduced, epsilon, against)


def _solve_homogeneous(
    chain: MarkovChain, epsilon: float, against: Against, found: _Found
) -> None:
    steps = choose_steps(chain, against)
    endless = chain.length is None or chain.length > 2 * steps + 2
    if against == "ignorant" and isinstance(chain.start, str) and endless and chain.size > 2:
        _solve_open(chain, epsilon, found)
        return
    most = MAX_STEPS if chain.length is None else min(MAX_STEPS, chain.length - 1)
    value, other = ordered_pairs(chain.size)
    alive = np.arange(len(value))
    while True:
        rays = build_rays(chain, steps)
        rows = build_rows(chain, steps, against)
        part = Rows(
            rows.position, rows.ray, rows.room, rows.first, rows.last, rows.open,
            rows.feasible[:, alive], rows.seen,
        )  # fmt: skip
        ceiling = found.upper
        sides = _Sides(rays, part, value[alive], other[alive], epsilon, binary=chain.size == 2)
        doubtful, tops = _maximise(sides, found)
        if not doubtful.size or steps >= most or not (part.room > steps).any():
            return
        if np.isinf(sides.tail_high[:, doubtful]).any() or np.isinf(
            sides.tail_low[:, doubtful]
        ).any():
            return
        settled = np.delete(tops, doubtful)
        found.upper = max(ceiling, float(settled.max(initial=-math.inf)))
        alive, steps = alive[doubtful], min(2 * steps, most)


def _solve_open(chain: MarkovChain, epsilon: float, found: _Found) -> None:
    """Maximise over two open sides of unbounded length.

    Short sides rank the pairs; the leaders are lengthened until their gain is steady; the others
    are dismissed by one sweep each at what they would need to win, or lengthened and tried again.
    """
    rays = build_rays(chain, 1)
    value, other = ordered_pairs(chain.size)
    longest = 4 * MAX_STEPS if chain.length is None else (chain.length - 1) // 2
    gains, reach = np.zeros((2, len(value))), np.zeros(len(value), dtype=np.int64)

    def lengthen(pairs: Ints, steps: int) -> None:
        ray, pair = np.repeat((0, 1), len(pairs)), np.tile(pairs, 2)
        found_ = open_gains(
            rays, ray, value[pair], other[pair], epsilon, steps, gains[ray, pair]
        )
        gains[ray, pair] = np.maximum(gains[ray, pair], found_)
        reach[pairs] = steps

    alive, steps = np.arange(len(value)), min(8, longest)
    lengthen(alive, steps)
    while True:
        leaders = alive[np.argsort(-gains[:, alive].sum(axis=0), kind="stable")[:4]]
        far = steps
        while far < longest:
            before = gains[:, leaders].sum(axis=0).max()
            far = min(4 * far, longest)
            lengthen(leaders, far)
            if gains[:, leaders].sum(axis=0).max() <= before + GAP / 16:
                break
        best = epsilon + float(gains.sum(axis=0).max())
        goal = best + GAP * max(1.0, best) / 2
        spare = (goal - epsilon - gains[:, alive].sum(axis=0)) / 2
        ray, pair = np.repeat((0, 1), len(alive)), np.tile(alive, 2)
        ok = capped(
            rays, ray, value[pair], other[pair], epsilon, gains[ray, pair] + np.tile(spare, 2)
        )
        alive = alive[~ok.reshape(2, -1).all(axis=0)]
        if not alive.size or steps >= longest:
            break
        steps = min(4 * steps, longest)
        lengthen(alive[reach[alive] < steps], steps)
    pair = int(gains.sum(axis=0).argmax())
    distance = int(reach[pair])
    found.lower, found.upper = best, math.inf if alive.size else goal
    found.attack = _Attack(
        distance, (int(value[pair]), int(other[pair])), ((distance, chain.size),) * 2,
        (float(gains[0, pair]), float(gains[1, pair])), build_rays(chain, distance), (0, 1),
    )  # fmt: skip


def _maximise(sides: _Sides, found: _Found) -> tuple[Ints, Array]:
    """Raise ``found`` to the best of these sides; return pairs left open and all ceilings."""
    feasible, epsilon = sides.rows.feasible, sides.epsilon
    for round_ in range(200):
        low = sides.totals(sides.lower, certain=False)
        high = sides.totals(sides.upper, certain=True)
        lows = np.where(feasible, epsilon + low.sum(axis=1), -np.inf)
        highs = np.where(feasible, epsilon + high.sum(axis=1), -np.inf)
        row, pair = np.unravel_index(int(lows.argmax()), lows.shape)
        best = float(lows[row, pair])
        if best > found.lower:
            found.lower, found.attack = best, sides.attack(int(row), int(pair))
        gap = GAP * max(1.0, abs(found.lower))
        if highs.max() <= found.lower + gap:
            break
        with np.errstate(invalid="ignore"):
            slack = found.lower + gap - epsilon - high[:, ::-1]
        # harmless: below what the pair needs in total, or below what its side has anyway
        limit = np.fmax(np.where(np.isnan(slack), -np.inf, slack), low + gap / 4)
        if not _tighten(sides, np.where(feasible[:, None, :], limit, np.inf), round_):
            break
    tops = highs.max(axis=0)
    found.upper = max(found.upper, float(tops.max()))
    return np.flatnonzero(tops > found.lower + gap), tops


def _tighten(sides: _Sides, limit: Array, round_: int) -> bool:
    """Grid, close or dismiss the options that keep the ceiling up; False if none is left.

    While many options are doubtful a finer grid narrows them together. Then the most promising
    option of each ray and pair is closed, and the others are dismissed against it.
    """
    allowed = sides.allowances(limit)
    with np.errstate(invalid="ignore"):
        doubtful = (sides.upper > allowed) & ~sides.closed
    options = np.argwhere(doubtful)
    if not options.size:
        return False
    if round_ < 3 and len(options) > 64:
        sides.zoom(doubtful, allowed, most=16 << round_)
        return True
    lower = np.where(doubtful, sides.lower, -np.inf)
    upper = np.where(doubtful, sides.upper, -np.inf)
    problems = np.argwhere(doubtful.any(axis=(0, 3)))
    order = np.argsort(-upper.max(axis=(0, 3))[tuple(problems.T)], kind="stable")
    pivots = set()
    for ray, pair in problems[order[:32]]:
        for table in (lower, upper):
            place = np.unravel_index(int(table[:, ray, pair].argmax()), table[:, ray, pair].shape)
            pivots.add((int(place[0]), int(ray), int(pair), int(place[1])))
    sides.close(np.array(sorted(pivots)))
    rest = options[~sides.closed[tuple(options.T)]]
    at = tuple(rest.T)
    peak = sides.lower.max(axis=(0, 3))[at[1], at[2]] if len(sides.rows.position) == 1 else -np.inf
    gains = np.maximum(allowed[at], peak + GAP / 4)
    rest, gains = rest[gains > sides.lower[at]], gains[gains > sides.lower[at]]
    if len(rest):
        sides.dismiss(rest[:4096], gains[:4096])
    return True


def _conclude(
    found: _Found, chain: MarkovChain, epsilon: float, against: Against
) -> Leakage:
    """Turn the best attack into a witness, replay it, and round the interval outwards."""
    attack = found.attack
    upper = up(found.upper, 16)
    if chain.length is not None:
        upper = min(upper, up(chain.length * epsilon))
    if attack is None:
        return _leakage(0.0, upper, against, None)
    tries = [_witness(attack, chain, epsilon, back) for back in (0.0, 1e-12, 1e-9, 1e-6)]
    value, witness = max(
        ((replay_pure_dp(witness, chain, epsilon), witness) for witness in tries),
        key=lambda pair: pair[0],
    )
    lower = max(down(value, 64), 0.0)
    return _leakage(min(lower, upper), upper, against, witness)


def _witness(attack: _Attack, chain: MarkovChain, epsilon: float, back: float) -> Witness:
    """Return the attack with its sets, taken a little below the root, where signs are clear."""
    known: list[tuple[int, object]] = []
    sets: list[tuple[int, tuple[object, ...]]] = []
    reach = 0
    for side, option in enumerate(attack.options):
        if option is None:
            continue
        distance, column = option
        ray, (x, y) = attack.ray[side], attack.pair
        masses = attack.rays.products[distance, ray]
        table = masses[:, column] if column < chain.size else masses @ attack.rays.weights[ray]
        logmu = attack.gains[side] + math.log(table[x]) - math.log(table[y]) - back
        if column < chain.size:
            place = attack.position + (distance if side else -distance)
            known.append((place, chain.states[column]))
        found = signed_sets(attack.rays, ray, x, y, distance, logmu, epsilon)
        for step, members in enumerate(found, start=1):
            if step < distance or column == chain.size:
                place = attack.position + (step if side else -step)
                sets.append((place, tuple(chain.states[member] for member in members)))
        reach = max(reach, distance if side else 0)
    sets = [(place, members) for place, members in sorted(sets) if 0 < len(members) < chain.size]
    return Witness(
        attack.position,
        chain.length or max(attack.position + reach + 1, 2),
        tuple(sorted(known)),
        chain.states[attack.pair[0]],
        chain.states[attack.pair[1]],
        tuple(sets),
    )


def _leakage(lower: float, upper: float, against: Against, witness: Witness | None) -> Leakage:
    return Leakage(
        lower, upper, METHOD, against, witness,
        assumptions=("the records follow the stated Markov chain",),
        citation="exchange-rate theorem (docs, theory)",
    )  # fmt: skip
