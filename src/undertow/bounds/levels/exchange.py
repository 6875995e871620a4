"""The exchange rate: exactly what epsilon-DP algorithms leak on a Markov chain.

The leakage of all epsilon-DP algorithms against one adversary is epsilon plus one gain per side
(docs, "The exchange rate"). The sum is maximised over targets, pairs of values and options
(`undertow.bounds.levels.exchange`); here the best attack becomes a witness and is replayed.

Where the secret is the history of a window of w records, given it the sides are independent, the
left one depends on its first record alone and the right one on its last: the leakage about two
histories u, u' is epsilon #{t : u_t != u'_t} + s_left(u_1, u'_1) + s_right(u_w, u'_w), by the same
proof. For w >= 2 each side takes its own worst pair, and w epsilon + max s_left + max s_right is
exact where all transitions are possible, an upper end otherwise.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from undertow import progress
from undertow.adversaries import Adversary, Against
from undertow.bounds.levels.replay import replay_pure_dp
from undertow.bounds.levels.sides import (
    Bools,
    Ints,
    Rows,
    SideLaws,
    build_positions,
    build_rows,
    build_side_laws,
    choose_steps,
    complete,
    deepest_steps,
    informed_targets,
    joined,
    nearest_known,
    ordered_pairs,
    positions,
    start_error,
    stated,
    support_cycle,
    witnessed,
)
from undertow.bounds.levels.sweep import (
    MEMORY,
    STAGES,
    Goal,
    Problems,
    binary_gains,
    capped,
    ceiling_of_all,
    certified,
    diverging,
    first_span,
    grid_gains,
    leading_pairs,
    newton,
    open_gains,
    screenable,
    signed_sets,
    undismissed,
)
from undertow.certificate import Leakage, Witness
from undertow.errors import EffortSpent
from undertow.models.chains import MarkovChain
from undertow.numerics import GAP, MAX_STEPS, Array, down, pad_log, up

__all__ = [
    "ExchangeAttack",
    "Incumbent",
    "Scout",
    "Sides",
    "exchange_leakage",
    "histories",
    "informed_window",
    "maximise",
    "scout",
    "solve_homogeneous",
]


@dataclass(frozen=True, slots=True)
class ExchangeAttack:
    """A target position, and for each side a pair of values and the option chosen with its gain.

    The pair is that of the target; of a window that of its first record, and that of its last one.
    """

    position: int
    pairs: tuple[tuple[int, int], tuple[int, int]]
    options: tuple[tuple[int, int] | None, tuple[int, int] | None]
    gains: tuple[float, float]
    side_laws: SideLaws
    which: tuple[int, int]


class Sides:
    """Brackets of the gains of all options on some sides, and what rows make of them."""

    def __init__(
        self,
        side_laws: SideLaws,
        rows: Rows,
        value: Ints,
        other: Ints,
        epsilon: float,
        binary: bool,
    ) -> None:
        """Bracket every option: in closed recursion for two states, on a coarse grid otherwise."""
        self.side_laws, self.rows, self.epsilon = side_laws, rows, epsilon
        self.value, self.other = value, other
        self.prior = side_laws.log_prior(value, other)  # (T, B, P, k + 1)
        self.tail_low, self.tail_high = side_laws.tail_range(value, other)  # (B, P)
        if binary:
            self.lower, self.upper = binary_gains(side_laws, value, epsilon, self.prior)
        else:
            distance = np.arange(1, side_laws.steps + 1)[:, None, None, None]  # (T, 1, 1, 1)
            possible = ~np.isnan(self.prior)
            self.lower = np.where(possible, 0.0, -np.inf)
            self.upper = np.where(possible, up(epsilon) * distance, -np.inf)
            self.wanted = self._wanted()
            which, pair = (axis.ravel() for axis in np.indices(self.prior.shape[1:3]))  # (B P,)
            span = first_span(self._problems(which, pair), self.prior[:, which, pair])
            self.grid(which, pair, span, points=17)
        self.closed = np.zeros(self.prior.shape, dtype=bool) | binary

    @property
    def steps(self) -> int:
        """The number of records swept on each side."""
        return self.side_laws.steps

    def _problems(self, which: Ints, pair: Ints) -> Problems:
        return Problems(self.side_laws, which, self.value[pair], self.other[pair], self.epsilon)

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
        # (B, P, v): ln of the roots with v known at the last step. What lies beyond is a mixture
        # over
        # them, so the largest root bounds every farther one (docs, "The exchange rate").
        far = (self.upper + self.prior)[-1, :, :, :-1]
        roots = np.where(np.isnan(far), -np.inf, far).max(axis=2)
        roots = np.where(np.isposinf(self.tail_high), np.inf, roots)
        with np.errstate(invalid="ignore"):
            known = roots - self.tail_low  # (B, P): no farther prior is below tail_low
            mass = np.where(self.side_laws.ends[:, None], self.prior[-1, :, :, -1], self.tail_low)
            free = roots - mass
        # inf - inf proves nothing
        parts = (np.where(np.isnan(part), np.inf, np.maximum(part, 0.0)) for part in (known, free))
        known, free = parts
        return known, free

    def totals(self, table: Array, certain: bool) -> Array:
        """Return the best gain of each row and side, (R, 2, P): upper ends if ``certain``."""
        rows, steps = self.rows, self.steps
        result = np.zeros((*rows.room.shape, len(self.value)))
        # table (t, B, P, v and open last) -> (t, B, P)
        best_known = table[..., :-1].max(axis=3)
        running = np.maximum.accumulate(best_known, axis=0)  # (t, B, P): the best up to distance t
        tail_known, tail_open = self.tails() if certain else (None, None)
        for row, side, which, room, first, last, free in rows.sides():
            gains = result[row, side]  # (P,)
            gains[:] = -np.inf
            if free:
                gains[:] = 0.0 if room == 0 or not certain else gains
                if 0 < room <= steps:
                    np.maximum(gains, table[room - 1, which, :, -1], out=gains)
                elif room > steps and tail_open is not None:
                    np.maximum(gains, tail_open[which], out=gains)
                elif room > steps and self.side_laws.ends[which]:
                    np.maximum(gains, table[steps - 1, which, :, -1], out=gains)
            near = min(last, steps)
            if first <= near:
                if side == 0 and rows.seen is not None:
                    part = self._masked(table, row, side, first, near).max(axis=(0, 2))
                elif first == 1:
                    part = running[near - 1, which]
                else:
                    part = best_known[first - 1 : near, which].max(axis=0)
                np.maximum(gains, part, out=gains)
            if last > steps:
                far = tail_known[which] if tail_known is not None else 0.0
                np.maximum(gains, far, out=gains)
        return result

    def _masked(self, table: Array, row: int, side: int, first: int, last: int) -> Array:
        """Return gains (t, P, v) with known states that cannot occur to the left set to -inf."""
        rows = self.rows
        part = table[first - 1 : last, rows.which[row, side], :, :-1]
        if side or rows.seen is None:
            return part
        # (t, 1, v): the states of the records at distances first .. last to the left
        back = rows.place[row] - np.arange(first, last + 1)
        return np.where(rows.seen[back][:, None, :], part, -np.inf)

    def allowances(self, slack: Array) -> Array:
        """Return per option the gain up to which it cannot matter, given slack (R, 2, P)."""
        rows, steps = self.rows, self.steps
        allowed = np.full(self.prior.shape, np.inf)
        for row, side, which, room, first, last, free in rows.sides():
            limit = slack[row, side]  # (P,)
            known = allowed[first - 1 : min(last, steps), which, :, :-1]
            np.minimum(known, limit[None, :, None], out=known)
            if free and 0 < room <= steps:
                part = allowed[room - 1, which, :, -1]
                np.minimum(part, limit, out=part)
            if max(last, room if free else 0) > steps:  # options beyond follow from the last step
                base = self.tail_low[which]
                if last <= steps and self.side_laws.ends[which]:
                    base = self.prior[-1, which, :, -1]
                with np.errstate(invalid="ignore"):
                    need = (limit + base)[:, None] - self.prior[-1, which, :, :-1]  # (P, v)
                part = allowed[-1, which, :, :-1]
                np.minimum(part, np.where(np.isnan(need), np.inf, need), out=part)
                if self.side_laws.ends[which] and free:
                    part = allowed[-1, which, :, -1]
                    np.minimum(part, limit, out=part)
        return allowed

    def grid(self, which: Ints, pair: Ints, span: Array, points: int) -> None:
        """Narrow the brackets of all options of some sides and pairs by a grid over ``span``."""
        groups = (
            [which == b for b in np.unique(which)]
            if len(self.side_laws.kernels) == 1
            else [which >= 0]
        )
        for group in groups:  # problems on one side share their matrix products
            b, p = which[group], pair[group]
            low, high = grid_gains(
                self._problems(b, p), self.prior[:, b, p], span[group], points, self.wanted
            )
            at = (self.wanted[:, None] - 1, b, p)
            self.lower[at] = np.maximum(self.lower[at], low)
            self.upper[at] = np.minimum(self.upper[at], high)

    def zoom(self, doubtful: Bools, allowed: Array, most: int) -> None:
        """Grid once more the sides and pairs with doubtful options, where their roots can lie."""
        problems = np.argwhere(doubtful.any(axis=(0, 3)))
        which, pair = problems.T
        crowd = doubtful[:, which, pair].sum(axis=(0, 2))  # (problems,)
        keep = np.argsort(-crowd, kind="stable")[:most]
        which, pair = which[keep], pair[keep]
        here = doubtful[:, which, pair]  # (t, problems, column)
        floor = np.maximum(allowed, self.lower)[:, which, pair] + self.prior[:, which, pair]
        ceiling = (self.upper + self.prior)[:, which, pair]
        low = np.where(here & np.isfinite(floor), floor, np.inf).min(axis=(0, 2))  # (problems,)
        high = np.where(here & np.isfinite(ceiling), ceiling, -np.inf).max(axis=(0, 2))
        low = np.where(np.isfinite(low), low, 0.0)
        high = np.where(np.isfinite(high), high, low)
        pad = 1e-12 * np.maximum(1.0, np.abs(high))
        self.grid(which, pair, np.stack([low - pad, np.maximum(high, low) + pad], axis=1), 65)

    def close(self, options: Ints) -> None:
        """Close the brackets of some options (rows of (t, which, pair, column)) by Newton."""
        at = t, which, pair, column = tuple(options.T)
        option = np.stack([t + 1, column], axis=1)
        lower, upper = newton(self._problems(which, pair), option, self.lower[at], self.prior[at])
        self.lower[at] = np.maximum(self.lower[at], lower)
        self.upper[at] = np.minimum(self.upper[at], upper)
        self.closed[at] = True

    def dismiss(self, options: Ints, gains: Array) -> None:
        """Lower the upper ends of options to the given gains where a sweep certifies them."""
        at = t, which, pair, column = tuple(options.T)
        logmu = gains + self.prior[at] - pad_log(self.steps, self.prior.shape[3])
        option = np.stack([t + 1, column], axis=1)
        ok = certified(self._problems(which, pair), option, logmu)
        self.upper[at] = np.where(ok, np.minimum(self.upper[at], gains), self.upper[at])

    def attack(self, row: int, pairs: tuple[int, int]) -> ExchangeAttack:
        """Return the attack behind the lower end of a row and the pair of each side."""
        rows, steps = self.rows, self.steps
        options: list[tuple[int, int] | None] = []
        gains: list[float] = []
        for side, pair in enumerate(pairs):
            which, room = rows.which[row, side], rows.room[row, side]
            first, last = rows.first[row, side], min(rows.last[row, side], steps)
            best: tuple[float, tuple[int, int] | None] = (0.0, None)
            if rows.open[row, side] and room > 0 and (room <= steps or self.side_laws.ends[which]):
                distance = int(min(room, steps))
                gain = float(self.lower[distance - 1, which, pair, -1])
                best = max(best, (gain, (distance, self.prior.shape[3] - 1)), key=lambda b: b[0])
            if last >= first:
                part = self._masked(self.lower, row, side, first, last)[:, pair]  # (t, v)
                place = np.unravel_index(int(part.argmax()), part.shape)
                option = (float(part[place]), (int(first + place[0]), int(place[1])))
                if option[0] > best[0] or not rows.open[row, side]:
                    best = option
            gains.append(best[0])
            options.append(best[1])
        return ExchangeAttack(
            int(rows.position[row]), (self._named(pairs[0]), self._named(pairs[1])),
            (options[0], options[1]), (gains[0], gains[1]),
            self.side_laws, (int(rows.which[row, 0]), int(rows.which[row, 1])),
        )  # fmt: skip

    def _named(self, pair: int) -> tuple[int, int]:
        return int(self.value[pair]), int(self.other[pair])


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
class Incumbent:
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


def solve_homogeneous(
    chain: MarkovChain, epsilon: float, against: Against, incumbent: Incumbent
) -> None:
    """Raise ``incumbent`` to the worst attack on a chain of one transition matrix.

    Few options are bracketed together. Otherwise likely pairs come first, ceilings dismiss most of
    the others (`_screened`), and the rest follow in blocks whose tables keep within `MEMORY`; past
    a counted effort they keep their ceilings, and the search says that it was not finished.
    """
    steps = choose_steps(chain, against)
    pairs: Ints = np.arange(chain.size * (chain.size - 1))
    if _all_open(chain, against, steps, incumbent.window):
        _solve_open(chain, epsilon, incumbent, pairs)
        return
    if chain.size == 2 or steps * len(pairs) * (chain.size + 1) <= _SMALL:
        _solve_pairs(chain, epsilon, against, incumbent, pairs)
        return
    pairs = leading_pairs(chain)
    block = max(1, MEMORY // (_TABLES * 16 * steps * (chain.size + 1)))
    _solve_pairs(chain, epsilon, against, incumbent, pairs[:_LEADERS])
    pairs, tops = _screened(chain, epsilon, against, incumbent, pairs[_LEADERS:])
    if incumbent.window > 1:  # each side has its own worst pair: both must be looked at together
        pairs = np.union1d(leading_pairs(chain)[:_LEADERS], pairs)
        _solve_pairs(chain, epsilon, against, incumbent, pairs)
        return
    incumbent.ceiling = max(incumbent.upper, incumbent.own + float(tops.max(initial=-math.inf)))
    work = np.cumsum(np.full(len(pairs), steps * chain.size**2))
    for start in range(0, len(pairs), block):
        if work[start] > _EFFORT:
            incumbent.upper = max(incumbent.upper, incumbent.own + float(tops[start:].max()))
            incumbent.unfinished = True
            return
        _solve_pairs(chain, epsilon, against, incumbent, pairs[start : start + block])


@dataclass(frozen=True, slots=True)
class Scout:
    """Attained values of some pairs on a chain: a guide for searches over levels, no proof.

    Of two levels the same pairs are usually the worst, so what they attain tells where the
    leakage crosses a limit, at the cost of a few pairs instead of all of them.
    """

    chain: MarkovChain
    against: Against
    window: int
    pairs: list[int]
    bracketed: ClassVar[bool] = False

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
                self._add(x, y)

    def _best(self, epsilon: float, pairs: Ints) -> Incumbent:
        incumbent = Incumbent(self.window * epsilon, self.window)
        steps = choose_steps(self.chain, self.against)
        if _all_open(self.chain, self.against, steps, self.window):
            _solve_open(self.chain, epsilon, incumbent, pairs)
        else:
            _solve_pairs(self.chain, epsilon, self.against, incumbent, pairs)
        return incumbent

    def learn(self, witness: Witness) -> bool:
        """Add the two values of a witness, and return whether they are a new pair."""
        return self._add(self.chain.index(witness.value), self.chain.index(witness.other))

    def _add(self, x: int, y: int) -> bool:
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
    chain: MarkovChain, epsilon: float, against: Against, incumbent: Incumbent, pairs: Ints
) -> tuple[Ints, Array]:
    """Return pairs that may exceed the incumbent, and their ceilings, worst first."""
    tops = np.full(len(pairs), np.inf)
    if not screenable(chain):
        return pairs, tops
    for stage in range(STAGES):
        if incumbent.attack is None or len(pairs) <= _LEADERS:
            break
        proved = max(incumbent.upper - incumbent.own, 0.0) * (1 - 1e-15)
        goal = Goal(incumbent.attack.gains, incumbent.window == 1, proved)
        pairs, upper, hints = undismissed(chain, epsilon, pairs, goal, stage)
        tops = upper.sum(axis=0)
        order = np.argsort(-np.where(np.isfinite(hints), hints, 0.0).sum(axis=0), kind="stable")
        pairs, tops = pairs[order], tops[order]
        if incumbent.window == 1 and len(pairs):  # the most promising one first
            _solve_pairs(chain, epsilon, against, incumbent, pairs[:1])
            pairs, tops = pairs[1:], tops[1:]
    return pairs, tops


def _solve_pairs(
    chain: MarkovChain, epsilon: float, against: Against, incumbent: Incumbent, alive: Ints
) -> None:
    """Raise ``incumbent`` to the worst of some pairs, on sides as long as it takes."""
    steps = choose_steps(chain, against)
    most = MAX_STEPS if chain.length is None else min(MAX_STEPS, chain.length - 1)
    value, other = ordered_pairs(chain.size)
    while True:
        side_laws = build_side_laws(chain, steps)
        part = build_rows(chain, steps, against, window=incumbent.window).part(alive)
        ceiling = incumbent.upper
        sides = Sides(side_laws, part, value[alive], other[alive], epsilon, binary=chain.size == 2)
        doubtful, tops = maximise(sides, incumbent)
        if not doubtful.size or steps >= most or not (part.room > steps).any():
            return
        if (
            np.isinf(sides.tail_high[:, doubtful]).any()
            or np.isinf(sides.tail_low[:, doubtful]).any()
        ):
            return
        settled = np.delete(tops, doubtful)
        incumbent.upper = max(ceiling, float(settled.max(initial=-math.inf)))
        alive, steps = alive[doubtful], deepest_steps(chain, min(2 * steps, most))
        if steps <= side_laws.steps:
            incumbent.upper = max(incumbent.upper, float(tops.max()))
            return


_WIDTHS = (GAP, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)
"""Widths of the interval that are tried in turn on sides that forget slowly (cost)."""


def _solve_open(chain: MarkovChain, epsilon: float, incumbent: Incumbent, alive: Ints) -> None:
    """Raise ``incumbent`` to the worst of some pairs on two open sides of unbounded length.

    Short sides rank the pairs; the leaders are lengthened until their gain is steady; the others
    are dismissed by one sweep each at what they would need to win, or lengthened and tried again.
    """
    side_laws = build_side_laws(chain, 1)
    value, other = ordered_pairs(chain.size)
    longest = 4 * MAX_STEPS if chain.length is None else (chain.length - incumbent.window) // 2
    # (sides, P) and (P,)
    gains, reach = np.zeros((2, len(value))), np.zeros(len(value), dtype=np.int64)

    def both(pairs: Ints) -> Problems:
        # (2 P,): every pair on the left, then on the right
        which, pair = np.repeat((0, 1), len(pairs)), np.tile(pairs, 2)
        return Problems(side_laws, which, value[pair], other[pair], epsilon)

    def lengthen(pairs: Ints, steps: int) -> None:
        longer = open_gains(both(pairs), steps, gains[:, pairs].ravel()).reshape(2, -1)
        gains[:, pairs] = np.maximum(gains[:, pairs], longer)
        reach[pairs] = steps

    def dismissed(pairs: Ints, ceilings: Array) -> Bools:
        ok = capped(both(pairs), ceilings.ravel())  # (2 P,)
        return np.asarray(ok.reshape(2, -1).all(axis=0))

    alone = incumbent.window == 1

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
        while True:
            # a chain that forgets slowly is not steady at the longest side: a wider interval holds
            widths = _WIDTHS if far >= longest else _WIDTHS[:1]
            narrow = (w for w in widths if dismissed(first, gains[:, first] + w / 4).all())
            width = next(narrow, None)
            if width is not None or far >= longest:
                break
            far = min(4 * far, longest)
            lengthen(leaders, far)
        width = GAP if width is None else width
        # given the target the sides are independent: gains add
        reached = _choices(gains[None], None if alone else np.ones_like(gains[None], dtype=bool))[0]
        best = incumbent.own + float(reached.sum(axis=0).max())
        goal = best + width * max(1.0, best) / 2
        spare = (goal - incumbent.own - reached[:, alive].sum(axis=0)) / 2
        # both sides capped: together they stay below the goal
        alive = alive[~dismissed(alive, reached[:, alive] + spare)]
        if not alive.size or steps >= longest:
            break
        steps = min(4 * steps, longest)
        lengthen(alive[reach[alive] < steps], steps)
    left, right = (gains.sum(axis=0).argmax(),) * 2 if alone else gains.argmax(axis=1)
    distances = int(reach[left]), int(reach[right])
    incumbent.lower, incumbent.upper = best, math.inf if alive.size else goal
    if max(distances) <= _HELD:  # beyond, one step stands for all: open masses are the same
        side_laws = build_side_laws(chain, max(distances))
    incumbent.attack = ExchangeAttack(
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


def maximise(sides: Sides, incumbent: Incumbent) -> tuple[Ints, Array]:
    """Raise ``incumbent`` to the best of these sides; return pairs left open and all ceilings."""
    feasible, own, parting = sides.rows.feasible, incumbent.own, sides.rows.parting
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
        if best > incumbent.lower:
            left, right = pair, pair
            if ends is not None:
                left, right = np.where(ends[row], each[row], -np.inf).argmax(axis=1)
            incumbent.lower = best
            incumbent.attack = sides.attack(int(row), (int(left), int(right)))
        gap = GAP * max(1.0, incumbent.lower)
        if highs.max() <= incumbent.lower + gap:
            break
        with np.errstate(invalid="ignore"):
            # (rows, sides, P): what the other side leaves to this one
            slack = incumbent.lower + gap - own - high[:, ::-1]
        # harmless: below what the pair needs in total, or below what its side has anyway
        limit = np.fmax(np.where(np.isnan(slack), -np.inf, slack), low + gap / 4)
        if not _tighten(sides, np.where(used, limit, np.inf), round_):
            break
    tops = highs.max(axis=0)  # (P,)
    incumbent.upper = max(incumbent.upper, float(tops.max()))
    return np.flatnonzero(tops > incumbent.lower + gap), tops


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


History = tuple[int, ...]
Pair = tuple[int, int]


def histories(
    chain: MarkovChain, start: int, ends: tuple[Pair, Pair], window: int
) -> tuple[History, History] | None:
    """Return two possible histories with given first and last values that differ most often.

    ``ends`` are the pairs of values of the first and of the last record, ``start`` the first
    record. None where there are none. Cost O(w k^4), O(w) where all transitions are possible.

    >>> chain = MarkovChain([[.9, .1], [.2, .8]])
    >>> histories(chain, 5, ((0, 1), (0, 1)), 4)
    ((0, 0, 0, 0), (1, 1, 1, 1))
    >>> histories(MarkovChain([[0, 1], [1, 0]]), 0, ((0, 1), (0, 1)), 2) is None
    True
    """
    if window == 1:
        return (ends[0][0],), (ends[0][1],)
    if (chain.transition > 0).all():
        between = [ends[0]] * (window - 2)  # whatever: all moves are possible
        one, two = zip(ends[0], *between, ends[1], strict=True)
        return one, two
    size = chain.size
    pairs = np.array([(x, y) for x in range(size) for y in range(size)])  # (k^2, 2)
    apart = (pairs[:, 0] != pairs[:, 1]).astype(float)
    # best[p]: most differences from record t on, if the pair there is p; -inf for none
    best = np.where(np.arange(size**2) == ends[1][0] * size + ends[1][1], apart, -np.inf)
    following = []
    for record in range(start + window - 2, start - 1, -1):
        possible = chain.step(record) > 0
        moves = np.kron(possible, possible)  # (pair, next pair): both histories move
        table = np.where(moves, best[None, :], -np.inf)
        following.append(table.argmax(axis=1))
        best = table.max(axis=1) + apart
    pair = ends[0][0] * size + ends[0][1]
    if np.isneginf(best[pair]):
        return None
    path = [pair]
    for choice in reversed(following):
        path.append(int(choice[path[-1]]))
    one, two = zip(*(divmod(step, size) for step in path), strict=True)
    return one, two


def informed_window(chain: MarkovChain, window: int) -> Witness | None:
    """Return an attack by whoever knows all records around a window; None with impossible moves.

    >>> informed_window(MarkovChain([[.9, .1], [.2, .8]]), 2).words()
    'target records 1 to 2 of 4, record 0 = 0, record 3 = 0 known: (0, 0) against (1, 1)'
    """
    if (chain.transition <= 0).any():
        return None
    length = chain.length or window + 2
    target = min(1, length - window)
    known = {0: 0} if target else {}
    known |= {target + window: 0} if target + window < length else {}
    path = complete(chain, known, target, length) if known else {}
    lived = (0,) * window, (1,) * window
    own = tuple((target + place, (chain.states[0],)) for place in range(window))
    return witnessed(chain, target, length, path, lived, sets=own)


METHOD = "exchange"
_leakage = partial(stated, METHOD, "exchange-rate theorem (docs, theory)")

_BLOCK = 256
"""Positions of a chain with differing steps that are swept together (memory)."""

_REPLAYED = 20_000_000
"""Records times squared states up to which an attack is replayed once the effort is spent."""

_LONG = 1024
"""Records of a witness from which on no more signs are tried than help (cost)."""

_UNFINISHED = (
    "the chain has too many pairs of states that leak almost alike: the upper end is that of a "
    "search ended by its effort limit, the truth may be lower"
)

_ZEROS = (
    "some transitions are impossible: the upper end allows a window any two histories, possible or "
    "not"
)


def exchange_leakage(
    epsilon: float, chain: MarkovChain, against: Against = "any", window: int = 1
) -> Leakage:
    """Return the exact leakage of all epsilon-DP algorithms on a chain, as certified interval.

    epsilon + max over targets, values x != x' and options of s_left(x, x') + s_right(x, x').
    About a ``window`` of w >= 2 records in a row, w epsilon + max s_left + max s_right. Cost
    O(T k^2) per pair and sweep, with T records on either side of a target: as many as it takes for
    the chain to forget, whatever its length and whatever the window.

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(exchange_leakage(1.0, chain).upper, 8)
    3.47487338
    >>> round(exchange_leakage(1.0, chain, window=12).upper, 8)
    14.47487338
    """
    reduced = chain.visited()
    if reduced is None or (window > 1 and support_cycle(reduced)[0].sum(axis=1).max() < 2):
        return _leakage(0.0, 0.0, against, None)
    if window > 1 and against == "informed":
        attack = informed_window(reduced, window)
        most = up(window * epsilon)
        if attack is None:  # one record of it may still be uncertain
            return _about(exchange_leakage(epsilon, chain, against), most, against)
        return _leakage(down(window * epsilon), most, against, attack)
    if against == "informed":
        target = next(informed_targets(reduced), None)
        if target is None:
            return _leakage(0.0, 0.0, against, None)
        own = ((target.target, (target.value,)),)
        return _leakage(epsilon, epsilon, against, replace(target, sets=own))
    incumbent = Incumbent(epsilon if window == 1 else up(window * epsilon), window)
    progress.attained(
        ("level", epsilon, chain, against, window),
        lambda: _conclude(replace(incumbent, upper=math.inf), reduced, epsilon, against).lower,
    )
    endless = _endless(reduced, epsilon, against) if reduced.homogeneous else None
    if endless is not None:
        return _leakage(math.inf, math.inf, against, endless)
    try:
        _search(reduced, epsilon, against, incumbent)
    except EffortSpent:
        with progress.unmetered():
            return _spent(incumbent, reduced, epsilon, against)
    if incumbent.upper == -math.inf:  # no target has two possible values
        return _leakage(0.0, 0.0, against, None)
    leak = _conclude(incumbent, reduced, epsilon, against)
    if window == 1 or (reduced.transition > 0).all():
        return leak
    # a record of the window leaks no more than the window
    single = exchange_leakage(epsilon, chain, against)
    best = max(leak, single, key=lambda proved: proved.lower)
    return _about(best, leak.upper, against)


def _search(chain: MarkovChain, epsilon: float, against: Against, incumbent: Incumbent) -> None:
    """Raise ``incumbent`` to the worst attack on a chain."""
    if chain.homogeneous:
        solve_homogeneous(chain, epsilon, against, incumbent)
        return
    window = incumbent.window
    targets, full = positions(chain, against, window), isinstance(against, Adversary)
    value, other = ordered_pairs(chain.size)
    for start in range(0, len(targets), _BLOCK):
        block = targets[start : start + _BLOCK]
        side_laws, rows = build_positions(chain, block, MAX_STEPS, against, full, window)
        maximise(Sides(side_laws, rows, value, other, epsilon, binary=chain.size == 2), incumbent)


def _spent(incumbent: Incumbent, chain: MarkovChain, epsilon: float, against: Against) -> Leakage:
    """Return the interval that a search leaves whose effort is spent.

    The best attack so far, and what bounds all of them without a search, or with a short one.
    """
    upper = min(incumbent.ceiling, ceiling_of_all(chain, epsilon, incumbent.window))
    partial = replace(incumbent, upper=upper)
    if partial.attack is not None and chain.size**2 * partial.attack.side_laws.steps > _REPLAYED:
        partial = replace(partial, attack=None)  # to replay it takes long, too
    leak = _conclude(partial, chain, epsilon, against)
    return leak.with_assumptions((progress.SPENT,))


def _about(attained: Leakage, upper: float, against: Against) -> Leakage:
    """Return the leakage about a window of a chain with impossible transitions."""
    lower = min(attained.lower, upper)
    return _leakage(lower, upper, against, attained.witness, more=(_ZEROS,))


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


def _conclude(
    incumbent: Incumbent, chain: MarkovChain, epsilon: float, against: Against
) -> Leakage:
    """Turn the best attack into a witness, replay it, and round the interval outwards."""
    attack = incumbent.attack
    upper = up(incumbent.upper, 16) + start_error(chain)
    if chain.length is not None:
        upper = min(upper, up(chain.length * epsilon))
    if attack is None:
        return _leakage(0.0, upper, against, None)
    value, witness = -math.inf, None
    for back in (0.0, 1e-12, 1e-9, 1e-6):
        trial = _witness(attack, chain, epsilon, back, incumbent.window)
        if trial is None:  # no two histories have these ends
            return _leakage(0.0, upper, against, None)
        reached = replay_pure_dp(trial, chain, epsilon)
        if reached > value:
            value, witness = reached, trial
        elif trial.length > _LONG:  # clearer signs do not help, and each replay takes long
            break
        if value >= incumbent.lower - GAP / 100:
            break
    lower = max(down(value, 64), 0.0)
    more = (_UNFINISHED,) if incumbent.unfinished else ()
    return _leakage(min(lower, upper), upper, against, witness, more=more)


def _witness(
    attack: ExchangeAttack, chain: MarkovChain, epsilon: float, back: float, window: int
) -> Witness | None:
    """Return the attack with its sets, taken a little below the root, where signs are clear.

    None where no two histories of the window begin and end with the pairs of the attack.
    """
    lived = histories(chain, attack.position, attack.pairs, window)
    if lived is None:
        return None
    edge = attack.position, attack.position + window - 1
    known: dict[int, int] = {}
    sets: list[tuple[int, tuple[object, ...]]] = []
    reach = 0
    for side, option in enumerate(attack.options):
        if option is None:
            continue
        distance, column = option
        which, (x, y) = attack.which[side], attack.pairs[side]
        # an open side of a stationary chain, of which only one step is held, has the same at all
        masses = attack.side_laws.products[min(distance, attack.side_laws.steps), which]  # (x, v)
        table = (
            masses[:, column] if column < chain.size else masses @ attack.side_laws.weights[which]
        )
        logmu = attack.gains[side] + math.log(table[x]) - math.log(table[y]) - back
        if column < chain.size:
            place = edge[side] + (distance if side else -distance)
            known[place] = column
        memberships = signed_sets(attack.side_laws, which, x, y, distance, logmu, epsilon)
        for step, members in enumerate(memberships, start=1):
            shown = step < distance or column == chain.size
            if shown and 0 < len(members) < chain.size:  # the whole or nothing says nothing
                place = edge[side] + (step if side else -step)
                sets.append((place, tuple(chain.states[member] for member in members)))
        reach = max(reach, distance if side else 0)
    for record, (x, y) in enumerate(zip(*lived, strict=True), start=attack.position):
        sets += [(record, (chain.states[x],))] if x != y else []
    length = chain.length or max(edge[1] + reach + 1, 2)
    entries = tuple(sorted(sets, key=lambda entry: entry[0]))
    return witnessed(chain, attack.position, length, known, lived, sets=entries)
