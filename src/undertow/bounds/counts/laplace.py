"""Exact leakage of a count with Laplace noise on a Markov chain, by branch and bound over windows.

A window is bounded by its two sides, loss <= |f(x) - f(x')| / b + loss(left) + loss(right), and
only those whose bound exceeds the best value are evaluated, at integer answers. All laws are
logarithms: an improbable count may still matter (docs, theory: noisy counts).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from undertow import progress
from undertow.adversaries import Adversary, Against
from undertow.bounds.counts.laws import joint_counts
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.levels.replay import replay_count
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
    log,
    nearest_known,
    ordered_pairs,
    positions,
    start_error,
    stated,
    support_cycle,
    supports,
    witnessed,
)
from undertow.certificate import Leakage
from undertow.models.chains import MarkovChain, reachable
from undertow.numerics import GAP, ROUNDOFF, Array, down, log_ratio, log_sum, up
from undertow.progress import metered, spend

__all__ = [
    "LOGS",
    "Laws",
    "Numbers",
    "OptionSide",
    "PairWindows",
    "WindowSearch",
    "count_leakage",
    "drift",
    "informed_count",
    "period_of_cycles",
    "unbounded_pair",
]


_THETAS = (1.0, -1.0, 0.5, -0.5)
"""Tilts that are tried, in units of the inverse scale."""

_SLACK = 1e-12
"""Relative room left for the rounding of a product of rates (upper side)."""

LONGEST = 512
"""Longest round of a chain that repeats itself whose windows are all evaluated (cost)."""

_ROUNDS = 400
"""Steps of the power iteration behind a spectral radius; its bounds hold after any number."""


def unbounded_pair(
    scale: float, counted: Bools, chain: MarkovChain, against: Against = "any"
) -> tuple[int, int] | None:
    """Return two values of a record that a noisy count tells apart without bound, if it is proved.

    Of a homogeneous chain of any length, all of whose states are visited. None says nothing.

    >>> frozen = MarkovChain([[1, 0], [0, 1]], start=[.5, .5])
    >>> unbounded_pair(1.0, np.array([False, True]), frozen)
    (1, 0)
    """
    reach = reachable(chain.transition)  # (from, to)
    if reach.all():
        return None  # the same class lies ahead of and behind every value
    seen, _ = support_cycle(chain)
    met = (seen[:, :, None] & seen[:, None, :]).any(axis=0)  # (x, x'): possible at the same record
    every, begun = np.ones(chain.size, dtype=bool), chain.initial > 0
    # far ends of a side, and which states lie between them and the target: (class, target)
    sides = [(reach & every).T]
    if _aperiodic(chain.transition, reach):  # else rates depend on the remainder of the distance
        ends = [(begun, True)]
        if against == "any":
            ends += [(at, way) for at in np.eye(chain.size, dtype=bool) for way in (True, False)]
        for end, forward in ends:
            way = reach if forward else reach.T
            sides.append((end.astype(float) @ way > 0)[:, None] & way)
    plain = _radii(chain.transition, reach)
    for theta in _THETAS:
        # a factor common to all states changes no comparison
        tilt = np.exp((theta * counted - max(theta, 0.0)) / scale)
        tilted = _radii(chain.transition * tilt, reach)
        for between in sides:
            low, high, once, most = (
                np.where(between, radius[:, None], 0.0).max(axis=0) for radius in (*tilted, *plain)
            )  # (target,) each
            ok = met & (once > 0)[:, None] & (once > 0) & (most > 0)[:, None]
            for x, y in np.argwhere(ok):
                # rounded so that x grows faster for certain
                if low[x] * once[y] * (1 - _SLACK) > high[y] * most[x]:
                    return int(x), int(y)
    return None


def _aperiodic(transition: Array, reach: Bools) -> bool:
    """Return whether every class with a cycle can be crossed in any large number of steps."""
    together = reach & reach.T
    inside = np.where(together, transition, 0.0) > 0
    step = inside
    for _ in range(len(transition) ** 2):
        step = (step.astype(float) @ inside.astype(float)) > 0
    again = inside.any(axis=1)  # states that lie on a cycle
    return bool((step == together)[again].all())


def _radii(matrix: Array, reach: Bools) -> tuple[Array, Array]:
    """Return bounds of the spectral radius of the class of every state, (k,) each.

    min and max of (A v)_i / v_i enclose the radius of a non-negative irreducible A for any v > 0.
    """
    low, high = np.zeros(len(matrix)), np.zeros(len(matrix))
    together = reach & reach.T  # (k, k): states of the same class
    for first in range(len(matrix)):
        members = np.flatnonzero(together[first])
        part = matrix[np.ix_(members, members)]
        vector = np.ones(len(members))
        for _ in range(_ROUNDS):  # half a step in place, so that periods die out
            vector = vector + part @ vector
            vector = vector / vector.max()
        ratio = (part @ vector) / np.maximum(vector, np.finfo(float).tiny)
        slack = 8 * (len(members) + 8) * ROUNDOFF
        low[first], high[first] = ratio.min() * (1 - slack), ratio.max() * (1 + slack)
    return low, high


def period_of_cycles(chain: MarkovChain, counted: Bools) -> int | None:
    """Return after how many records every series repeats itself, None if one need not.

    None, too, where the counts of a round depend on where it begins: then they drift apart.

    >>> chain = MarkovChain(np.kron(np.eye(2), [[0, 1], [1, 0]]), start=[.25] * 4)
    >>> period_of_cycles(chain, np.array([True, False, True, False]))
    2
    >>> period_of_cycles(chain, np.array([True, False, False, False]))
    """
    if not chain.homogeneous or not np.isin(chain.transition, (0.0, 1.0)).all():
        return None
    follow = chain.transition.argmax(axis=1)
    if len(set(follow.tolist())) < chain.size:
        return None
    lengths = []
    for first in range(chain.size):
        state, steps = int(follow[first]), 1
        while state != first:
            state, steps = int(follow[state]), steps + 1
        lengths.append(steps)
    period, place = math.lcm(*lengths), np.arange(chain.size)
    if period > LONGEST:
        return None
    total = np.zeros(chain.size, dtype=np.int64)  # the count of one round, from each state
    for _ in range(period):
        total, place = total + counted[place], follow[place]
    return period if len(set(total.tolist())) == 1 else None


LOGS = 64
"""How much dearer a sum of logarithms is than a multiplication."""

FLOOR = 1e-250
"""Least likelihood that a product is trusted with; terms lost to underflow are far below."""


@dataclass(frozen=True, slots=True)
class Laws:
    """Log-laws of side counts, before and after the noise, and what follows from them.

    ``law`` and ``noisy`` have shape (T + 1, B, k + 1, k, J): distance, which, column (known state
    or open), value of the target, count. ``loss`` (T + 1, B, k + 1, P) is the side loss, ``joint``
    the same for the side together with the target, and ``tails`` (2, ...) the side loss far below
    and far above the counts; -inf marks impossible options. ``likely`` is exp of ``law``.
    """

    law: Array
    noisy: Array
    loss: Array
    joint: Array
    tails: Array
    likely: Array


def _likelihoods(
    laws: Laws, which: Ints, states: tuple[int, int], own: tuple[int, int], left: Ints, right: int,
    rate: float,
) -> tuple[list[Array], bool, int]:  # fmt: skip
    """Return the likelihoods of all answers of windows under two values, (options, answers) each.

    With some left options and one right option, flat indices of (distance, column); ``own`` is
    what the target adds under either value. Then whether they are logarithms, and the number of
    multiplications: options times left counts times answers.
    """
    width, columns = laws.law.shape[-1], laws.law.shape[2]
    near, far = int(left.max()) // columns + 1, right // columns + 1
    answers = near + far
    products, parts = [], []
    for state, shift in zip(states, own, strict=True):
        noisy = laws.noisy[:, which[1], :, state].reshape(-1, width)[right, :far]  # (right counts,)
        reach = _reach(noisy, near, shift, rate)
        likely = laws.likely[:, which[0], :, state].reshape(-1, width)[left, :near]
        products.append(likely @ np.exp(reach))  # (left options, answers)
        parts.append(reach)
    work = 2 * len(left) * near * answers
    spend(work + 40 * near * answers, 3)
    if min(float(product.min()) for product in products) >= FLOOR:
        return products, False, work
    spend(LOGS * work)
    logs = [
        _blend(laws.law[:, which[0], :, state].reshape(-1, width)[left, :near], reach)
        for state, reach in zip(states, parts, strict=True)
    ]
    return logs, True, LOGS * work


def _reach(noisy: Array, near: int, shift: int, rate: float) -> Array:
    """Return ln of the noisy right law at each answer, for each count on the left: (near, answers).

    ``noisy`` covers counts 0 .. len - 1; beyond them it falls off like the noise. The target adds
    ``shift``.
    """
    answers = near + len(noisy)
    place = np.arange(-near - shift, answers)
    inside = np.clip(place, 0, len(noisy) - 1)
    line = noisy[inside] - rate * np.abs(place - inside)
    # the row of left count j begins at place -shift - j, which is entry near - j of the line
    return np.lib.stride_tricks.sliding_window_view(line, answers)[near:0:-1]


def _blend(law: Array, reach: Array) -> Array:
    """Return ln of sum over counts of exp(law + reach), (N, answers)."""
    total = np.full((len(law), reach.shape[1]), -np.inf)
    for count in np.flatnonzero(np.isfinite(law).any(axis=0)):
        total = np.logaddexp(total, law[:, count, None] + reach[count])
    return total


def drift(wave: Array | float, spread: Array | float) -> Array:
    """Return by how much a common record, summed out, can raise a log-ratio, elementwise.

    ln of max E_p[B] / E_q[B] over laws p, q and B > 0 with ln p/q oscillating by at most
    ``wave`` and ln B by at most ``spread``: 2 ln cosh((o + r) / 4) / cosh((o - r) / 4), at most the
    smaller of the two. A linear functional's ratio is largest where B has two values only, and then
    so may p / q.

    >>> drift(2.0, 0.0), round(float(drift(2.0, 2.0)), 6)
    (array(0.), 0.867562)
    """
    less, more = np.minimum(wave, spread), np.maximum(wave, spread)
    with np.errstate(invalid="ignore"):
        # ln cosh u = u + ln(1 + exp(-2 u)) - ln 2 for u >= 0; the larger one may be endless
        curve = np.log1p(np.exp(-(more + less) / 2)) - np.log1p(np.exp(-(more - less) / 2))
    return np.asarray(np.where(np.isinf(less), np.inf, less + 2 * curve))


Numbers = Array | float


@dataclass(frozen=True, slots=True)
class OptionSide:
    """One side of a pair of values: its options, and what lies beyond them.

    ``options`` are flat indices of (distance, column), ``real`` those that the adversary can have,
    ``edge`` those of the frontier, empty where nothing lies beyond. ``loss`` and ``joint`` bound an
    option, without and with the target, and ``far`` holds the same two for all that lies beyond;
    ``shift`` (edge), ``wave`` and ``hint`` are what the frontier's bounds add.
    """

    options: Ints
    real: Bools
    edge: Ints
    loss: Array
    joint: Array
    far: tuple[float, float]
    shift: Array
    wave: float
    hint: float


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Bounds of all windows of an ordered pair by the sums of their sides.

    ``inside`` (left options, right options), ``left`` (right options): beyond the left frontier,
    ``right`` (left options): beyond the right one, ``both``: beyond both. -inf where there is none.
    """

    inside: Array
    left: Array
    right: Array
    both: float


class PairWindows:
    """The windows of one row and a pair of values, in either order."""

    def __init__(self, search: "WindowSearch", row: int, pairs: tuple[int, int]) -> None:
        self.search, self.row, self.pairs = search, row, pairs
        # [order][side]; the options are the same for both orders
        self.sides = [[search.side(row, side, pair) for side in (0, 1)] for pair in pairs]
        left, right = self.sides[0]
        kinds = search.kind[left.options][:, None], search.kind[right.options]
        self.allowed = left.real[:, None] & right.real & search.together[kinds]
        self.edges = [np.isin(side.options, side.edge) for side in self.sides[0]]
        self.bounds = [
            self._bounds(pair, *sides) for pair, sides in zip(pairs, self.sides, strict=True)
        ]

    def _bounds(self, pair: int, left: OptionSide, right: OptionSide) -> _Bounds:
        """Return the bounds of an ordered pair."""
        total = self.search.sum
        spend(20 * left.loss.size * right.loss.size, 4)
        inside = total(pair, left.loss[:, None], left.joint[:, None], right.loss, right.joint)
        inside = np.where(self.allowed, inside, -np.inf)
        beyond = [np.full(len(side.options), -np.inf) for side in (right, left)]
        if left.edge.size:
            near = np.where(right.real, right.loss, -np.inf)
            beyond[0] = total(pair, *left.far, near, right.joint)
        if right.edge.size:
            near = np.where(left.real, left.loss, -np.inf)
            beyond[1] = total(pair, near, left.joint, *right.far)
        both = -np.inf
        if left.edge.size and right.edge.size:
            both = float(total(pair, *left.far, *right.far))
        return _Bounds(inside, beyond[0], beyond[1], both)

    def run(self) -> None:
        """Evaluate what may exceed the best, the most promising right options first."""
        edge = self.edges[1]
        most = np.max([np.maximum(b.inside.max(axis=0), b.left) for b in self.bounds], axis=0)
        order = np.argsort(-most, kind="stable")
        for place in order[~edge[order]]:
            self._evaluate(np.array([place]))
        if edge.any():
            self._evaluate(np.flatnonzero(edge))

    def _evaluate(self, columns: Ints) -> None:
        """Evaluate the windows of one right option, or of all those of the right frontier."""
        search, goal = self.search, self.search.goal
        spend(6 * self.allowed.shape[0] * len(columns), 4)
        at_edge = bool(self.edges[1][columns[0]])
        need = np.zeros(len(self.allowed), dtype=bool)  # (left options,)
        for bounds in self.bounds:
            need |= (bounds.inside[:, columns] > goal).any(axis=1)
            far = bounds.left[columns].max()
            if at_edge:
                need |= bounds.right > goal
                far = max(far, bounds.both)
            if far > goal:
                need |= self.edges[0]
        if search.effort <= 0:
            need[:] = False
        for bounds in self.bounds:  # what is not looked at keeps its bound
            search.top = max(
                search.top, float(bounds.inside[~need][:, columns].max(initial=-np.inf))
            )
        rows = np.flatnonzero(need)
        ends = np.flatnonzero(self.edges[0][rows])
        parts = [self._column(int(place), rows, ends) for place in columns] if rows.size else []
        for order, bounds in enumerate(self.bounds):
            for at, place in enumerate(columns):
                beyond = float(bounds.left[place])
                if beyond > goal and parts:
                    logs = [part[ends] for part in parts[at]]  # (z, answers)
                    beyond = min(beyond, self._frontier(order, logs, 0))
                search.top = max(search.top, beyond)
            if not at_edge:
                continue
            reach = bounds.right.copy()  # (left options,)
            for at, row in enumerate(rows):
                if reach[row] > goal:
                    logs = [np.stack([each[part][at] for each in parts]) for part in (0, 1)]
                    reach[row] = min(reach[row], self._frontier(order, logs, 1))
            search.top = max(search.top, float(reach.max(initial=-np.inf)))
            most = bounds.both
            if most > goal and parts:
                # (left z, right z, answers), flattened
                logs = [np.stack([each[part][ends] for each in parts], axis=1) for part in (0, 1)]
                logs = [part.reshape(-1, part.shape[-1]) for part in logs]
                most = min(most, self._frontier(order, logs, 0, 1))
            search.top = max(search.top, most)

    def _column(self, place: int, rows: Ints, ends: Ints) -> tuple[Array, Array]:
        """Evaluate the windows of one right option and some left ones; return ln likelihoods.

        Of the left frontier alone, or of all rows where the right option is at its frontier.
        """
        search = self.search
        left, right = self.sides[0]
        states = int(search.value[self.pairs[0]]), int(search.other[self.pairs[0]])
        own = int(search.counted[states[0]]), int(search.counted[states[1]])
        both, logs, work = _likelihoods(
            search.laws, search.rows.which[self.row], states, own, left.options[rows],
            int(right.options[place]), 1.0 / search.scale,
        )  # fmt: skip
        search.effort -= work
        ratio = both[0] - both[1] if logs else both[0] / both[1]  # (options, answers)
        allowed, at = self.allowed[rows, place], np.arange(len(rows))
        for pair, sign, answers in zip(
            self.pairs, (1, -1), (ratio.argmax(axis=1), ratio.argmin(axis=1)), strict=True
        ):
            most = ratio[at, answers]
            losses = np.where(allowed, sign * (most if logs else np.log(most)), -np.inf)
            best = int(losses.argmax())
            search.top = max(search.top, float(losses[best]) + 2 * search.pad)
            options = int(left.options[rows[best]]), int(right.options[place])
            search.offer(float(losses[best]), self.row, pair, options, int(answers[best]))
        wanted = at if self.edges[1][place] else ends
        result = np.full((2, *ratio.shape), np.nan)
        for table, part in zip(result, both, strict=True):
            table[wanted] = part[wanted] if logs else np.log(part[wanted])
        return result[0], result[1]

    def _frontier(self, order: int, logs: list[Array], *sides: int) -> float:
        """Return the bound of all windows beyond the frontier of one side, or of both.

        ``logs`` (z, answers) are ln likelihoods under the first and the second value of the pair;
        with both frontiers the records inserted are pairs, the left one first.
        """
        search = self.search
        one, two = logs if order == 0 else logs[::-1]
        parts = [self.sides[order][side] for side in sides]
        shift = parts[0].shift
        if len(parts) > 1:
            shift = np.add.outer(shift, parts[1].shift).ravel()
        ratio = one - two  # (z, answers)
        first = float((ratio + shift[:, None]).max())
        # by how much the likelihood varies over z, under the steadier value; and what lies beyond
        spread = min(float(np.ptp(part, axis=0).max()) for part in (one, two)) + 2 * search.pad
        wave, hint = sum(part.wave for part in parts), sum(part.hint for part in parts)
        second = float(ratio.max()) + float(drift(wave, spread + hint))
        return float(min(first, second) + 2 * search.pad)


EFFORT = 4_000_000_000
"""Multiplications spent on windows before the remaining ones keep their bound."""

_LONGEST_WALK = 20_000
"""Most steps of the power iteration behind a lower end (cost)."""

_HINT_ROUNDS = 6
"""Improvements of a bound that depends on itself, at most."""

_KNOWN, _EMPTY, _OPEN = 0, 1, 2
"""Kinds of options: a known record, an open side without records, an open side with some."""


class WindowSearch:
    """Branch and bound over the windows of all rows and pairs.

    A row whose room exceeds the sweep has options beyond it. Those of a known record are within
    the oscillation of the prior ratio of the options at the last step (added as ``shift``). An
    open side alone is bounded by the known values z at the last step, shifted by their prior
    ratio against the open one.

    A count is not monotone in the length, so targets near the ends of the series matter too. The
    single row that stands for all targets of a long stationary series (``pooled``) therefore also
    has every shorter open side; then not both sides may be open at once, or, in a series of any
    length, not both empty.
    """

    def __init__(
        self, side_laws: SideLaws, rows: Rows, laws: Laws, step: Array, value: Ints, other: Ints,
        counted: Bools, scale: float, length: int | None, sheltered: bool, pooled: bool,
        floor: float = -math.inf, exact: bool = False,
    ) -> None:  # fmt: skip
        self.side_laws, self.rows, self.laws = side_laws, rows, laws
        self.step, self.value, self.other = step, value, other
        self.counted, self.scale, self.length = counted, scale, length
        self.sheltered = sheltered
        self.pooled = pooled
        kind = np.full((side_laws.steps + 1, laws.law.shape[2]), _KNOWN)
        kind[:, -1] = np.where(np.arange(side_laws.steps + 1) > 0, _OPEN, _EMPTY)
        self.kind = kind.ravel()
        self.together = np.ones((3, 3), dtype=bool)
        if self.pooled:
            self.together[_EMPTY, _EMPTY] = False
            if length is not None:
                self.together[1:, 1:] = False
        self.best, self.top = floor, -math.inf
        self.exact = exact
        self.hints: dict[int, float] = {}
        self.masks: list[tuple[Bools, Bools]] = []
        self.doubt: list[tuple[int, int, int]] = []
        self.window: tuple[int, int, tuple[int, int], tuple[int, int]] | None = None
        self.output = 0
        self.effort = EFFORT
        self.prior = side_laws.log_prior(value, other)
        # prior ratios of all options beyond the sweep lie within these, so its oscillation bounds
        # them
        low, high = side_laws.tail_range(value, other)
        self.tail_low, self.tail_high = low, high
        finite_range = np.isfinite(low) & np.isfinite(high)
        # (B, P)
        self.spread = np.where(finite_range, np.where(finite_range, high, 0.0) - low, np.inf)
        finite = self.laws.noisy[np.isfinite(self.laws.noisy)]
        size = float(np.abs(finite).max(initial=1.0))
        self.pad = 8 * (side_laws.steps + 4) * (size + side_laws.weights.shape[1]) * ROUNDOFF

    @property
    def goal(self) -> float:
        """The value up to which a window is not looked at: that of the best one, or a gap more."""
        return max(self.best, 0.0) + (8 * self.pad if self.exact else GAP * max(1.0, self.best))

    @property
    def closed(self) -> bool:
        """Whether no window can widen the interval noticeably."""
        return self.top <= max(self.best, 0.0) + GAP * max(1.0, self.best)

    def bound_windows(self) -> None:
        """Evaluate far answers, and list the pairs that the sums of the sides leave open."""
        rows = range(len(self.rows.position))
        self.masks = [(self._mask(row, 0), self._mask(row, 1)) for row in rows]
        for row in rows:
            self._try_tails(row, self.masks[row])
        reverse = {(x, y): at for at, (x, y) in enumerate(zip(self.value, self.other, strict=True))}
        for row in rows:
            for pair in np.flatnonzero(self.rows.feasible[row] & (self.value < self.other)):
                back = reverse[self.other[pair], self.value[pair]]
                dismissed = [self._dismissed(row, order) for order in (int(pair), back)]
                if not all(dismissed):
                    self.doubt.append((row, int(pair), back))

    def run(self, ceiling: Callable[[], float]) -> None:
        """Find the best window, and the certified top over all of them.

        ``ceiling`` is another certified bound on all windows, asked for only if some are left;
        where the far answers meet it, none is.
        """
        if self.doubt and (cap := ceiling()) <= self.goal:
            self.top = max(self.top, cap)
            return
        for number, (row, pair, back) in enumerate(self.doubt):
            progress.doing("pairs of values compared", number, len(self.doubt))
            PairWindows(self, row, (pair, back)).run()

    @property
    def undecidable(self) -> bool:
        """Whether the frontier leaves something in doubt whatever the windows are.

        Far answers separate into sides, and the bound of the frontier is at least what it is there.
        """
        if self.top == math.inf:
            return True
        steps, limit = self.side_laws.steps, max(self.best, 0.0) + GAP * max(1.0, self.best)
        for row, *pairs in self.doubt:
            for pair in pairs:
                sides = [self.side(row, side, pair) for side in (0, 1)]
                for tail, sign in ((0, -1.0), (1, 1.0)):
                    near, far = [], []
                    for side, which in zip(sides, self.rows.which[row], strict=True):
                        table = self.laws.tails[tail][:, which, :, pair].ravel()
                        near.append(table[side.options[side.real]].max(initial=-np.inf))
                        if not side.edge.size:
                            far.append(-np.inf)
                            continue
                        ends = self.laws.noisy[steps, which, :-1, :, -tail]  # (z, target)
                        ends = ends[side.edge % self.laws.law.shape[2]]
                        ends = ends[:, [self.value[pair], self.other[pair]]]
                        wave = float((ends.max(axis=0) - ends.min(axis=0)).min())
                        worst = table[side.edge].max() + drift(side.wave, wave + side.hint)
                        shifted = (table[side.edge] + side.shift).max()
                        far.append(min(float(worst), float(shifted)))
                    own = sign * float(self.step[pair])
                    if max(own + far[0] + near[1], own + near[0] + far[1]) > limit:
                        return True
        return False

    def _mask(self, row: int, side: int) -> Bools:
        """Return which (distance, column) the adversary really has on a side, (T + 1, k + 1)."""
        rows, steps = self.rows, self.side_laws.steps
        mask = np.zeros((steps + 1, self.laws.law.shape[2]), dtype=bool)
        room = rows.room[row, side]
        first, last = rows.first[row, side], min(rows.last[row, side], steps)
        if last >= first:
            mask[first : last + 1, :-1] = True
            if side == 0 and rows.seen is not None:
                back = rows.place[row] - np.arange(first, last + 1)
                mask[first : last + 1, :-1] &= rows.seen[back]
        if rows.open[row, side]:
            if self.pooled or (room > steps and self.length is None and side == 1):
                mask[:, -1] = True
            elif room <= steps:
                mask[room, -1] = True
        return mask

    def _shifted(self, row: int, side: int, pair: int, mask: Bools) -> Array:
        """Return what to add to each option's loss, (T + 1, k + 1); -inf if it does not stand
        for anything. Options at the last step also stand for those beyond it.
        """
        steps, which = self.side_laws.steps, self.rows.which[row, side]
        shift = np.where(mask, 0.0, -np.inf)
        if self.rows.last[row, side] > steps:
            shift[steps, :-1] = self.spread[which, pair]
        elif self._longer(row, side):
            base = self.tail_low[which, pair]
            if self.side_laws.ends[which]:
                base = self.prior[-1, which, pair, -1]
            gap = self.prior[-1, which, pair, :-1] - base  # (z,)
            shift[steps, :-1] = np.where(np.isnan(gap), np.inf, gap)
        return shift

    def _unbounded(self, row: int, side: int, pair: int) -> bool:
        """Return whether options beyond the sweep have no finite bound.

        A state reachable from one value alone at the last step lets the prior ratio of a record
        known further out run away; on an open side only the value in the numerator can do harm.
        """
        rows, which = self.rows, self.rows.which[row, side]
        if rows.last[row, side] > self.side_laws.steps:
            return bool(np.isinf(self.spread[which, pair]))
        low = 0.0 if self.side_laws.ends[which] else float(self.tail_low[which, pair])
        harm = np.isposinf(self.tail_high[which, pair]) or np.isinf(low)
        return bool(harm and self._longer(row, side))

    def _try_tails(self, row: int, masks: tuple[Bools, Bools]) -> None:
        """Raise the best value by the windows' far answers, where left and right separate."""
        columns, signs = masks[0].shape[1], np.array([-1.0, 1.0])  # far below, far above
        most, places = [], []
        for side, which in enumerate(self.rows.which[row]):
            tails = self.laws.tails[:, :, which]  # (tails, T + 1, k + 1, P)
            tails = tails.reshape(2, 1, -1, tails.shape[-1])  # (tails, 1, options, P)
            # (kinds, options, 1)
            allowed = (masks[side].ravel() & (self.kind == np.arange(3)[:, None]))[:, :, None]
            table = np.where(allowed, tails, -np.inf)
            best, place = table.max(axis=2), table.argmax(axis=2)  # (tails, kinds, P)
            ends = self.length is not None and self.side_laws.ends[which]
            if ends and not self.exact and self._longer(row, side):
                far = np.array([self._far_tail(row, side, sign / self.scale) for sign in signs])
                better = far > best[:, _KNOWN]  # (tails, P)
                place[:, _KNOWN][better] = table.shape[2] + columns - 1
                best[:, _KNOWN][better] = far[better]
            most.append(best)
            places.append(place)
        # (tails, left kinds, right kinds, P): in a far answer the sides separate
        own = np.multiply.outer(signs, self.step)[:, None, None]
        value = own + most[0][:, :, None] + most[1][:, None]
        value = np.where(self.together[:, :, None] & self.rows.feasible[row], value, -np.inf)
        tail, left, right, pair = map(int, np.unravel_index(value.argmax(), value.shape))
        if value[tail, left, right, pair] > self.best:
            at = [
                divmod(int(place[tail, kind, pair]), columns)
                for place, kind in zip(places, (left, right), strict=True)
            ]
            self.best = float(value[tail, left, right, pair])
            self.window = (row, pair, at[0], at[1])
            self.output = -1 if tail else 0

    def _longer(self, row: int, side: int) -> bool:
        """Return whether nothing known is allowed on a side that is longer than the sweep."""
        return bool(self.rows.open[row, side] and self.rows.room[row, side] > self.side_laws.steps)

    def _far_tail(self, row: int, side: int, rate: float) -> Array:
        """Return the loss of a far answer on an open side longer than the sweep, (P,).

        E[exp(rate F) | x] follows a power iteration, which soon repeats itself.
        """
        which = self.rows.which[row, side]
        kernel, weights = self.side_laws.kernel(1)[which], self.side_laws.weights[which]
        length = self.length or 0
        position = int(self.rows.position[row])
        room = length - 1 - position if side else position
        tilted = kernel * np.exp(rate * self.counted - max(rate, 0.0))  # (k, k)
        message = weights / weights.max()
        for _ in range(min(room, _LONGEST_WALK)):
            moved = tilted @ message
            moved = moved / moved.max()
            settled = np.abs(moved - message).max() <= 4 * ROUNDOFF
            message = moved
            if settled:
                break
        # (P,)
        loss = log_ratio(message[self.value], message[self.other]) - self.prior[-1, which, :, -1]
        return np.where(np.isfinite(loss), loss, -np.inf)

    def side(self, row: int, side: int, pair: int) -> OptionSide:
        """Return one side of a pair: the possible options, and the bounds beyond them."""
        mask, which = self.masks[row][side], self.rows.which[row, side]
        shift = self._shifted(row, side, pair, mask).ravel()
        loss = self.laws.loss[:, which, :, pair].ravel()
        joint = self.laws.joint[:, which, :, pair].ravel()
        possible = loss != -np.inf
        real = mask.ravel() & possible
        stands, edge = real.copy(), np.zeros(0, dtype=np.int64)
        if self._beyond(row, side):  # known values at the last step stand for those beyond it
            edge = np.arange(len(loss) - mask.shape[1], len(loss) - 1)
            edge = edge[possible[edge]]
            stands[edge] = True
        options = np.flatnonzero(stands)
        moved = [float((table[edge] + shift[edge]).max(initial=-np.inf)) for table in (loss, joint)]
        return OptionSide(
            options, real[options], edge, loss[options], joint[options],
            (moved[0], moved[1]), shift[edge], float(self.spread[which, pair]), self._hint(which),
        )  # fmt: skip

    def _hint(self, which: int) -> float:
        """Return the largest loss of a side's count, with its first record, about that record.

        Inside the sweep, or beyond its frontier, which again depends on this bound. inf where
        every record has a side of its own.
        """
        if len(self.side_laws.weights) > 2:
            return math.inf
        if which in self.hints:
            return self.hints[which]
        laws, steps, hint = self.laws, self.side_laws.steps, math.inf
        joint = laws.joint[:, which]  # (T + 1, k + 1, P)
        inside = joint[:, -1] if self.rows.last.max() == 0 else joint
        inside = inside.reshape(-1, joint.shape[-1]).max(axis=0)  # (P,)
        edge = joint[steps, :-1].max(axis=0)  # (P,)
        ends = laws.noisy[steps, which, :-1]  # (z, target, counts)
        ends = np.where(np.isfinite(ends), ends, np.nan)
        wave = np.fmax.reduce(ends, axis=0) - np.fmin.reduce(ends, axis=0)  # (target, counts)
        wave = np.where(np.isnan(wave), 0.0, wave).max(axis=-1)
        wave = np.minimum(wave[self.value], wave[self.other]) + 2 * self.pad  # (P,)
        spread = self.spread[which]  # (P,); inf where the supports have not merged
        for _ in range(_HINT_ROUNDS):
            beyond = np.where(np.isinf(spread), 0.0, edge) + drift(spread, wave + hint)
            hint = max(0.0, float(np.maximum(inside, beyond).max())) + 4 * self.pad
        self.hints[which] = hint
        return hint

    def _beyond(self, row: int, side: int) -> bool:
        """Return whether the adversary has options beyond the sweep."""
        longer = self.rows.last[row, side] > self.side_laws.steps
        return bool(longer) or self._longer(row, side)

    def _dismissed(self, row: int, pair: int) -> bool:
        """Return whether no window of the row and pair can exceed the best, raising the top."""
        if any(self._unbounded(row, side, pair) for side in (0, 1)):
            self.top = math.inf
            return True
        most = []
        for side in (self.side(row, 0, pair), self.side(row, 1, pair)):
            for table, far in zip((side.loss, side.joint), side.far, strict=True):
                most.append(max(float(table[side.real].max(initial=-np.inf)), far))
        ceiling = float(self.sum(pair, *most))
        if ceiling > self.goal and not math.isinf(ceiling):
            return False
        self.top = max(self.top, ceiling)
        return True

    def sum(
        self, pair: int, left: Numbers, with_left: Numbers, right: Numbers, with_right: Numbers
    ) -> Array:
        """Return the bound of windows by their sides: the target apart, or with either of them."""
        apart = np.add(abs(float(self.step[pair])) + left, right)
        with_one = np.minimum(np.add(with_left, right), np.add(left, with_right))
        return np.asarray(np.minimum(apart, with_one) + 2 * self.pad)

    def offer(
        self, loss: float, row: int, pair: int, options: tuple[int, int], output: int
    ) -> None:
        """Keep a window if it is the best so far, and its loss attained."""
        if self.sheltered and loss > self.best:
            columns = self.laws.law.shape[2]
            left, right = (divmod(option, columns) for option in options)
            self.best, self.window, self.output = loss, (row, pair, left, right), output


METHOD = "exact"
WINDOW = 512
"""Most records per side in a window (cost: memory grows with its square)."""

LEVELS = (4, 8, 16, 32, 64, 128, 256)
"""Records a side that are tried before the chain has forgotten."""

FIRST_WINDOWS = 128
"""Most records a side whose far answers, and sums of sides, are looked at before all levels."""

SHORT = 32
"""Longest series whose leakage is not held against that of an endless one first (cost)."""

POSITIONS = 64
"""Most records of a chain with differing steps whose windows are enumerated."""

_leakage = partial(stated, METHOD, "docs, theory: noisy counts")


def count_leakage(
    scale: float, counted: Bools, chain: MarkovChain, against: Against = "any"
) -> Leakage | None:
    """Return the exact leakage of a count plus (discrete) Laplace noise, as certified interval.

    ``counted`` (k,) says which states are counted. Cost O(T^2 k^2) plus the windows that survive
    pruning, T records a side. Where too many survive (slow, strongly negative correlation) the
    windows are searched again over fewer records, and the interval stays a little open. None if
    the chain's windows are too many from the start (steps that differ over more than `POSITIONS`
    records).

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(count_leakage(1.0, np.array([False, True]), chain).upper, 8)
    3.47487338
    """
    reduced = chain.visited()
    if reduced is None:
        return _leakage(0.0, 0.0, against, None)
    marks = np.array([counted[chain.index(state)] for state in reduced.states])
    if marks.all() or not marks.any():  # the count is the number of records, or 0
        return _leakage(0.0, 0.0, against, None)
    if against == "informed":
        return informed_count(scale, marks, reduced)
    if not reduced.homogeneous:
        if not isinstance(against, Adversary) and len(reduced.transition) >= POSITIONS:
            return None
        search = _search(reduced, marks, scale, against, POSITIONS)
        search.run(lambda: math.inf)
        return _conclude(search, reduced, against, _upper(search, reduced))
    return _by_levels(reduced, marks, scale, against)


def _by_levels(chain: MarkovChain, marks: Bools, scale: float, against: Against) -> Leakage:
    """Return the leakage on a homogeneous chain, from as few records a side as will do.

    Where the worst window is a short one, all longer ones are dismissed at a short frontier; where
    it is an endless one, the sums of the sides dismiss all others once the chain has forgotten.
    """
    endless = chain.length is None and not isinstance(against, Adversary)
    if endless and (apart := unbounded_pair(scale, marks, chain, against)) is not None:
        names = " and ".join(repr(chain.states[state]) for state in apart)
        more = (f"with {names} counts grow at different rates: longer series leak without bound",)
        return _leakage(math.inf, math.inf, against, None, more=more)
    steps = min(choose_steps(chain, against), WINDOW)
    repeats = period_of_cycles(chain, marks) if endless else None
    if repeats is not None:
        # whole rounds add the same to the count under both values: no side need be longer than one
        search = _search(chain, marks, scale, against, repeats, whole=True)
        search.run(lambda: math.inf)
        return _conclude(search, chain, against, _upper(search, chain))

    @cache
    def ceiling() -> float:
        cheap = chain.size == 2 or against == "ignorant"
        return exchange_leakage(up(1 / scale), chain, against).upper if cheap else math.inf

    def searched(records: int, floor: float | None = None) -> WindowSearch:
        return _search(chain, marks, scale, against, records, floor)

    last = searched(steps) if steps <= FIRST_WINDOWS else None
    cap = math.inf
    long = chain.length is not None and chain.length > SHORT
    if long and not isinstance(against, Adversary) and (last is None or last.doubt):
        # a series of any length leaks no less: often a short window of it is the worst here too
        anylong = MarkovChain(chain.transition, chain.states, chain.start)
        cap = _by_levels(anylong, marks, scale, against).upper
    if math.isfinite(cap):
        level = searched(min(LEVELS[1], steps), -math.inf)
        level.run(lambda: cap)
        bracket = _conclude(level, chain, against, cap)
        if bracket.closed:
            return bracket
    best, upper, effort = last, cap, EFFORT
    if not isinstance(against, Adversary) and (last is None or last.doubt):
        for fewer in LEVELS:
            # near the ends of a short series every target is searched by itself: once is enough
            ends = chain.length is not None and chain.length <= 2 * (fewer + 1) and fewer > SHORT
            if fewer >= steps or effort <= 0 or ends:
                break
            level = searched(fewer, best.best if best else -math.inf)
            undecidable = level.undecidable
            if not undecidable:
                level.effort = effort
                level.run(ceiling)
                effort, upper = level.effort, min(upper, _upper(level, chain))
            best = level if best is None or level.window else best
            if level.closed and not undecidable:
                return _conclude(best, chain, against, upper)
    last = last or searched(steps)
    most = WINDOW if chain.length is None else min(WINDOW, chain.length - 1)
    while True:
        if best is not None and best.best > last.best:
            last.best, last.window = best.best, None
        last.effort = max(effort, EFFORT // 4)
        last.run(ceiling)
        best = last if best is None or last.window else best
        upper = min(upper, _upper(last, chain))
        bracket = _conclude(best, chain, against, upper)
        if isinstance(against, Adversary) or bracket.closed or last.effort <= 0:
            return bracket
        before = steps  # open sides settle more slowly than the chain mixes
        steps = deepest_steps(chain, min(2 * steps, most))
        if steps <= before or math.isinf(upper):
            return bracket
        last = searched(steps)


def _search(
    chain: MarkovChain, marks: Bools, scale: float, against: Against, steps: int,
    floor: float | None = None, whole: bool = False,
) -> WindowSearch:  # fmt: skip
    """Return a search of the windows of up to ``steps`` records a side, with its windows bounded.

    With a ``floor``, a value known to be attained, no window above it is left unseen. ``whole``
    says that nothing beyond those records need be covered.
    """
    if chain.homogeneous:
        side_laws, (rows, pooled) = build_side_laws(chain, steps), _rows(chain, steps, against)
        if whole:
            rows = replace(rows, room=rows.room * 0 + steps, last=np.minimum(rows.last, steps))
        law = _chain_laws(chain, steps, tuple(bool(mark) for mark in marks))
    else:
        side_laws, rows = build_positions(chain, positions(chain, against), steps, against, True)
        law, pooled = _count_laws(side_laws, marks), False
    value, other = ordered_pairs(chain.size)
    step = np.subtract(marks[value], marks[other], dtype=float) / scale  # (P,)
    search = WindowSearch(
        side_laws, rows, _side_laws(law, marks, scale), step, value, other, marks, scale,
        chain.length, _knows_outside(chain, against), pooled,
        -math.inf if floor is None else floor, floor is not None,
    )  # fmt: skip
    named = frozenset(state for state, mark in zip(chain.states, marks, strict=True) if mark)
    request = ("count", (scale, named, "series"), chain, against, 1)
    # stopped, it has its best window to show, and proves nothing
    progress.attained(request, lambda: _conclude(search, chain, against, math.inf).lower)
    search.bound_windows()
    return search


def _rows(chain: MarkovChain, steps: int, against: Against) -> tuple[Rows, bool]:
    """Return the rows of a homogeneous chain, and whether one of them stands for all targets.

    So it does in a long stationary series. With a given start an option is one that some target
    has: a known state occurs somewhere, or so many records precede. In a series of any length
    every left option goes with every right one; in a long one too, if all states can occur again.
    """
    long, beyond = chain.length, steps + 1
    if isinstance(against, Adversary) or isinstance(chain.start, str):
        rows = build_rows(chain, steps, against)
        named = isinstance(chain.start, str) and not isinstance(against, Adversary)
        return rows, named and bool((rows.room > steps).all())
    seen, _ = support_cycle(chain)
    if long is not None and not (seen[-1].all() and long > 2 * beyond + len(seen)):
        return build_rows(chain, steps, against, ends=True), False
    place = np.array([beyond if long is None else long // 2])
    room = np.full((1, 2), beyond)
    last = room if against == "any" else np.zeros_like(room)
    feasible = np.ones((1, chain.size * (chain.size - 1)), dtype=bool)
    which, free = np.array([[0, 1]]), np.ones((1, 2), dtype=bool)
    rows = Rows(place, place, which, room, np.ones_like(room), last, free, feasible)
    return rows, True


def _knows_outside(chain: MarkovChain, against: Against) -> bool:
    """Return whether the adversary may know all records outside the window.

    The worst one of ``any`` does, and an ignorant one has none outside. For an explicit adversary
    unknown records beyond the nearest known ones blur the count further: the window's loss is
    then only an upper end, and the far answers, which factorise, the lower one.
    """
    if not isinstance(against, Adversary):
        return True
    left, right = nearest_known(against)
    if right and chain.length is None:
        return False
    before = range(against.target - left if left else 0)
    after = range(against.target + right, chain.length or 0) if right else ()
    return all(record in against.known for record in (*before, *after))


def informed_count(scale: float, counted: Bools, chain: MarkovChain) -> Leakage:
    """Return 1/scale if a target between known neighbours can enter or leave the count, else 0."""
    marks = dict(zip(chain.states, counted, strict=True))
    for target in informed_targets(chain):
        if marks[target.value] != marks[target.other]:
            attack = replace(target, output=int(marks[target.value]))
            return _leakage(down(1 / scale), up(1 / scale), "informed", attack)
    return _leakage(0.0, 0.0, "informed", None)


def _side_laws(law: Array, marks: Bools, scale: float) -> Laws:
    """Return the laws of the counts on all sides with the noise added, and the side losses."""
    size, rate = law.shape[3], 1.0 / scale
    noisy = _smooth(law, rate)  # (T + 1, B, k + 1, k, counts)
    possible = np.asarray(np.isfinite(noisy).all(axis=4))  # (T + 1, B, k + 1, k)
    # one more place below and above, where the laws fall off like the noise
    wide = np.concatenate([noisy[..., :1] - rate, noisy, noisy[..., -1:] - rate], axis=-1)
    parts: list[list[Array]] = [[], [], [], []]
    for x, y in zip(*ordered_pairs(size), strict=True):
        spend(6 * noisy[..., 0, :].size, 1)
        ok = possible[..., x] & possible[..., y]  # (T + 1, B, k + 1)
        with np.errstate(invalid="ignore"):
            ratio = noisy[..., x, :] - noisy[..., y, :]  # (T + 1, B, k + 1, counts)
            # the same at answer s less what the target adds
            ours, theirs = (
                wide[..., z, 1 - int(marks[z]) : wide.shape[-1] - int(marks[z])] for z in (x, y)
            )
            tables = ratio.max(axis=-1), (ours - theirs).max(axis=-1), ratio[..., 0], ratio[..., -1]
        for part, table in zip(parts, tables, strict=True):
            part.append(np.where(ok, table, -np.inf))
    loss, joint, low, high = (np.stack(part, axis=-1) for part in parts)
    return Laws(law, noisy, loss, joint, np.stack([low, high]), np.exp(law))


@metered(4)
def _chain_laws(chain: MarkovChain, steps: int, counted: tuple[bool, ...]) -> Array:
    """Return the laws of a homogeneous chain's counts: they do not depend on the noise."""
    law = _count_laws(build_side_laws(chain, steps), np.array(counted))
    law[0, 0, -1, chain.initial <= 0, 0] = -np.inf  # the first record begins as the chain does
    return law


def _count_laws(side_laws: SideLaws, counted: Bools) -> Array:
    """Return ln Pr[count on a side | target value, option], (T + 1, B, k + 1, k, T + 1)."""
    steps, (count, size) = side_laws.steps, side_laws.weights.shape
    law = np.full((steps + 1, count, size + 1, size, steps + 1), -np.inf)
    far = log(side_laws.weights)[:, None, :, None]
    kernels = (side_laws.kernel(step) for step in range(1, steps + 1))
    for step, joint in enumerate(joint_counts(kernels, counted, logs=True)):
        spend(30 * joint.size * size, 4)
        # open, the last record summed out: (B, target value, j)
        law[step, :, size, :, : step + 1] = log_sum(joint + far, axis=2) if step else 0.0
        for state in range(size if step else 0):  # known, and not counted itself
            own = int(counted[state])
            law[step, :, state, :, :step] = joint[:, :, state, own : step + own]
    # condition on the option: divide by Q_t[x, v], or by the open mass; (t, which, column, x)
    masses = np.einsum("tbxv,bv->tbx", side_laws.products, side_laws.weights)  # (t, B, x)
    totals = np.concatenate([side_laws.products.transpose(0, 1, 3, 2), masses[:, :, None]], axis=2)
    law[1:] -= np.where(totals[1:] > 0, log(totals[1:]), 0.0)[..., None]
    return law


def _smooth(law: Array, rate: float) -> Array:
    """Return ln sum_j exp(law(j) - rate |s - j|) for every s, along the last axis."""
    rising, falling = law.copy(), law.copy()
    for place in range(1, law.shape[-1]):
        spend(60 * law[..., 0].size, 1)
        rising[..., place] = np.logaddexp(law[..., place], rising[..., place - 1] - rate)
        falling[..., -place - 1] = np.logaddexp(law[..., -place - 1], falling[..., -place] - rate)
    before = np.full_like(law, -np.inf)
    before[..., 1:] = rising[..., :-1] - rate  # counts below s; s itself is in `falling`
    return np.asarray(np.logaddexp(before, falling))


def _upper(search: WindowSearch, chain: MarkovChain) -> float:
    """Return the proved bound of a search, rounded up."""
    if search.top == -math.inf:  # no target has two possible values
        return 0.0
    return max(up(max(search.top, search.best), 64), 0.0) + start_error(chain)


def _conclude(search: WindowSearch, chain: MarkovChain, against: Against, upper: float) -> Leakage:
    """Turn the best window of a search into a witness, replay it, and round it down."""
    if search.window is None:
        return _leakage(0.0, upper, against, None)
    row, pair, left, right = search.window
    position = int(search.rows.position[row])
    if left[1] == chain.size and left[0] <= search.side_laws.steps:
        position = left[0]
    elif search.pooled and left[1] < chain.size and not isinstance(chain.start, str):
        position = left[0] + int(supports(chain, chain.size)[:, left[1]].argmax())
    if chain.length and right[1] == chain.size and right[0] <= search.side_laws.steps:
        position = chain.length - 1 - right[0]
    near = {}
    for distance, column, sign in ((*left, -1), (*right, 1)):
        if column < chain.size:
            near[position + sign * distance] = column
    length = chain.length or max(position + 1 + right[0], 2)
    known = {
        record: state
        for record, state in complete(chain, near, position, length).items()
        if not isinstance(against, Adversary) or record in against.known
    }
    values = search.value[pair], search.other[pair]
    witness = witnessed(chain, position, length, known, values, output=search.output)
    counted = tuple(s for s, c in zip(chain.states, search.counted, strict=True) if c)
    unknown = length - len(against.known) if isinstance(against, Adversary) else 0
    witness, exact = replay_count(witness, chain, counted, search.scale, unknown)
    lower = min(max(down(exact, 64) - search.pad, 0.0), upper)
    return _leakage(lower, upper, against, witness)
