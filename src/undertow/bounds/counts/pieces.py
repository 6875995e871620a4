"""Exact leakage of a noisy count of one window of a series that follows a Markov chain.

The attacker may know records outside the window, and the target may lie outside it. The supremum
is over all windows of the endless series; the attack behind the lower end is evaluated again by
plain sums over the records (docs, theory: noisy counts of windows).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.counts.laplace import informed_count
from undertow.bounds.counts.laws import joint_counts
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.levels.replay import replay_window
from undertow.bounds.levels.sides import (
    Bools,
    Ints,
    choose_steps,
    extremes,
    ordered_pairs,
    start_error,
    stated,
    supports,
    witnessed,
)
from undertow.certificate import Leakage, Witness
from undertow.models.chains import MarkovChain
from undertow.numerics import GAP, Array, log_error, log_ratio, pad_log, up

__all__ = [
    "ANY_WINDOW",
    "Group",
    "Kind",
    "PieceSearch",
    "WindowAttack",
    "WindowSide",
    "build_sides",
    "empty_side",
    "far_answers",
    "window_leakage",
]


Kind = Literal["any", "ignorant"]

ANY_WINDOW = "any window of a series of any length"
"""What a proof on windows is about, whatever length the model has."""

RAREST = 1e-80
"""Least prior that is swept: products of two, times the noise, are far from underflow."""

FARTHEST = 1024
"""Most counted records on a side whose far answers are looked at (cost)."""

_COLUMNS = 24
"""Most columns whose far answers are looked at (cost)."""


@dataclass(frozen=True, slots=True)
class WindowSide:
    """One side of the target, up to T records outwards.

    ``counts[m]`` (k, k, m + 1): Pr[m-th record, count of the m | target], target first; to the
    left without the law of the outermost record, which is a weight. ``masses`` (T + 1, k, k) are
    their sums. ``weights`` (T + 2, R, k) is the column's weight on the outermost counted record
    (or on the target where m = 0), ``real`` (T + 2, R) whether the adversary can have it. ``shift``
    (P, k) is what the records beyond the frontier can add, ``sway`` (P,) the oscillation of
    ln Q(x, z) / Q(x', z) over z; ``every`` says whether the frontier has
    a column for every m, or for m = T alone.
    """

    counts: tuple[Array, ...]
    masses: Array
    weights: Array
    real: Bools
    shift: Array
    sway: Array
    every: bool

    @property
    def steps(self) -> int:
        """The number of records swept, T."""
        return len(self.counts) - 1

    def frontier(self, count: int) -> int | None:
        """Return the frontier's column where ``count`` records are counted, if it has one."""
        return 1 + self.steps - count if self.every or count == self.steps else None


@dataclass(frozen=True, slots=True)
class WindowAttack:
    """A window with its adversary: the pair, and (m, column, row) of the left and right side.

    ``outside`` says whether the target is no part of the window.
    """

    loss: float
    pair: int
    left: tuple[int, int, int]
    right: tuple[int, int, int]
    outside: bool


@lru_cache(maxsize=32)
def build_sides(
    chain: MarkovChain, counted: tuple[bool, ...], against: Kind, steps: int
) -> tuple[WindowSide, WindowSide] | None:
    """Return the left and the right side, or None where a prior is too rare to be swept.

    They do not depend on the noise. Cost O(T^2 k^3).
    """
    powers = chain.powers(steps + 1)
    possible = np.eye(chain.size)
    for power in powers:
        if power[possible > 0].min() < RAREST:
            return None
        possible = ((possible @ (chain.transition > 0)) > 0).astype(float)
    sides = []
    for right in (False, True):
        weights, real = _weights(chain, against, right, powers)
        if weights[weights > 0].min() < RAREST:
            return None
        counts = tuple(joint_counts([_outwards(chain, right)] * steps, np.array(counted)))
        masses = np.array([table.sum(axis=2) for table in counts])  # (m, target, outermost)
        far = powers[-1] if right else powers[-1].T
        # a known record, or the beginning, may come after any number of uncounted ones
        every = bool(real[1:].any())
        shift, sway = _shifts(far, None if every else weights[0, 0], steps)
        sides.append(WindowSide(counts, masses, weights, real, shift, sway, every))
    return sides[0], sides[1]


def _outwards(chain: MarkovChain, right: bool) -> Array:
    """Return the kernel that leads from the target outwards."""
    return chain.transition if right else chain.transition.T


def _weights(chain: MarkovChain, against: Kind, right: bool, powers: Array) -> tuple[Array, Bools]:
    """Return the weights of a side's columns, (C, R, k), and which are real, (C, R).

    ``powers`` are P^0 .. P^{C-1}.
    """
    size, begins = chain.size, not right and not isinstance(chain.start, str)
    weights = np.zeros((len(powers), size + begins, size))
    weights[1:, :size] = powers[1:].transpose(0, 2, 1) if right else powers[1:]  # (h, v, k)
    real = np.zeros(weights.shape[:2], dtype=bool)
    real[1:, :size] = against == "any"
    if begins:  # the outermost record is number h of the series
        weights[1:, size], real[1:, size] = chain.marginals(len(powers) - 1), True
    else:
        weights[0, 0], real[0, 0] = np.ones(size) if right else chain.initial, True
    return weights, real


def empty_side(size: int) -> WindowSide:
    """Return a side that says nothing about the target and has no counted records.

    >>> empty_side(2).weights
    array([[[1., 1.]]])
    """
    none = np.full((size * (size - 1), size), -np.inf)
    weights, real = np.ones((1, 1, size)), np.ones((1, 1), dtype=bool)
    counts = (np.eye(size)[:, :, None],)
    return WindowSide(counts, np.eye(size)[None], weights, real, none, none[:, 0], every=False)


def _shifts(far: Array, base: Array | None, steps: int) -> tuple[Array, Array]:
    """Return ln Q(x, z) / Q(x', z) - ln D(x) / D(x') for all pairs and z, (P, k), rounded up.

    D is ``base``, or any mixture over z: then its ratio is at least the least of Q. +inf where
    there is no bound, -inf where z cannot occur. Also its oscillation over z, (P,).
    """
    value, other = ordered_pairs(len(far))
    ratio = log_ratio(far[value], far[other])  # (P, z)
    pad = 2 * pad_log(steps + 1, len(far))
    least, most = extremes(ratio, axis=1)  # (P,)
    unbounded = np.isinf(least) | np.isinf(most)
    sway = np.where(unbounded, np.inf, np.where(unbounded, 0.0, most) - least + pad)
    against = least if base is None else log_ratio(base[value], base[other])
    with np.errstate(invalid="ignore"):
        shift = np.where(np.isneginf(against)[:, None], np.inf, ratio - against[:, None] + pad)
    return np.where(np.isnan(ratio), -np.inf, shift), sway


def far_answers(
    chain: MarkovChain, counted: tuple[bool, ...], against: Kind, rate: float
) -> Iterator[WindowAttack]:
    """Yield the best windows for answers far below and far above, where the sides separate.

    E[exp(+-rate F)] is a product over the records, so long windows are cheap: O(T k^3) for each
    column. Values are not rounded: they say where to look.
    """
    marks = np.array(counted)
    value, other = ordered_pairs(chain.size)
    steps = min(choose_steps(chain, "any"), FARTHEST)
    powers = chain.powers(max(steps, _COLUMNS))
    for sign in (-1.0, 1.0):
        signed = sign * marks
        # (k,): what a counted record adds to a far answer
        tilt = np.exp((signed - signed.max()) * rate)
        total = (signed[value] - signed[other]) * rate  # (P,)
        places = []
        for right in (False, True):
            kernel = _outwards(chain, right)
            weights, real = _weights(chain, against, right, powers[:_COLUMNS])
            loaded = np.empty((steps + 1, chain.size, chain.size))  # (m, target, outermost)
            loaded[0] = np.eye(chain.size)
            for step in range(steps):
                moved = loaded[step] @ (kernel * tilt)
                loaded[step + 1] = moved / moved.max()
            masses = powers[: steps + 1] if right else powers[: steps + 1].transpose(0, 2, 1)
            heavy = np.einsum("mxy,cry->mcrx", loaded, weights)  # (m, C, R, target)
            plain = np.einsum("mxy,cry->mcrx", masses, weights)
            ok = real[None, :, :, None] & (plain > RAREST) & (heavy > RAREST)
            logs = np.full(heavy.shape, np.nan)
            logs[ok] = np.log(heavy[ok]) - np.log(plain[ok])
            gain = logs[..., value] - logs[..., other]  # (m, C, R, P)
            gain = np.where(np.isnan(gain), -np.inf, gain).reshape(-1, len(value))
            place = gain.argmax(axis=0)
            total = total + gain[place, np.arange(len(value))]
            places.append(np.stack(np.unravel_index(place, logs.shape[:3]), axis=1))
        pair = int(total.argmax())
        (m, c, r), (n, d, e) = (map(int, place[pair]) for place in places)
        yield WindowAttack(float(total[pair]), pair, (m, c, r), (n, d, e), outside=False)


FLOOR = 1e-280
"""Least weight of an answer that is computed exactly; terms lost to underflow are far below."""

OVERHEAD = 400_000
"""Multiplications that the handling of one group is worth."""

_BLOCK = 2_000_000
"""Entries of one table of answers (memory)."""

Columns = tuple[Ints, Ints]


class Group:
    """All windows with ``counts`` counted records on the two sides, at one scale of the noise.

    ``own`` (k,) says in which states the target adds to the count. ``effort`` is the number of
    multiplications spent so far, ``pad`` covers the rounding of any loss.
    """

    def __init__(
        self, sides: tuple[WindowSide, WindowSide], counts: tuple[int, int], own: Bools, rate: float
    ) -> None:
        self.sides, self.counts = sides, counts
        left, right = counts
        size, answers = len(own), left + right + 2
        # noise around each count on the right, at the answers less what the left and target add
        away = np.arange(-left - 1, answers)
        # (right count, away)
        noise = np.exp(-np.abs(np.subtract.outer(np.arange(right + 1), away)) * rate)
        noisy = sides[1].counts[right] @ noise  # (target, right end, away)
        self.tables = np.empty((size, answers, size, size))  # (target, answer, left, right end)
        for state in range(size):
            place = left + 1 - int(own[state]) - np.arange(left + 1)[:, None]
            slid = noisy[state][:, place + np.arange(answers)]  # (right end, left count, answer)
            # (left end, right end, answer)
            product = np.tensordot(sides[0].counts[left][state], slid, axes=(1, 1))
            self.tables[state] = product.transpose(2, 0, 1)
        self.effort = OVERHEAD + self.tables.size * answers
        # four sums of non-negative terms: over records, counts, columns, with the noise
        reach = max(side.steps for side in sides)
        terms = (4 * reach + 8) * (size + 2) + 2 * answers + 2 * (answers + 1) * rate + 32
        self.pad = log_error(4 * terms)

    def _weights(self, columns: Columns) -> tuple[Array, Array]:
        """Return the weights of all rows of the columns, (C R, k), left and right."""
        left, right = (
            side.weights[part].reshape(-1, side.weights.shape[2])
            for side, part in zip(self.sides, columns, strict=True)
        )
        return left, right

    def _priors(self, weights: tuple[Array, Array]) -> Array:
        """Return the prior of every pair of rows, (target, left rows, right rows)."""
        left, right = (
            side.masses[count] @ rows.T
            for side, count, rows in zip(self.sides, self.counts, weights, strict=True)
        )
        return np.asarray(left[:, :, None] * right[:, None, :])

    def losses(self, columns: Columns, value: Ints, other: Ints) -> Array:
        """Return the loss of all pairs of values and columns, (P, C, R, C, R), not yet padded.

        -inf marks what is impossible for one of the two values, inf what would underflow.
        """
        left, right = self._weights(columns)
        size, answers = self.tables.shape[:2]
        least = self.tables.min(axis=1)  # (target, left end, right end)
        width = max(1, _BLOCK // (size * answers * len(left)))
        losses = np.empty((len(value), len(left), len(right)))  # (P, left rows, right rows)
        for first in range(0, len(right), width):
            part = slice(first, first + width)
            rows = right[part]
            likely = left @ (self.tables @ rows.T)  # (target, answer, left rows, right rows)
            prior = self._priors((left, rows))  # (target, left rows, right rows)
            faint = left @ (least @ rows.T) < FLOOR  # (target, left rows, right rows)
            for at, (x, y) in enumerate(zip(value, other, strict=True)):
                with np.errstate(divide="ignore", invalid="ignore"):
                    # the best answer: (left rows, right rows)
                    ratio = (likely[x] / likely[y]).max(axis=0)
                    loss = np.log(ratio) + np.log(prior[y] / prior[x])
                loss[faint[x] | faint[y]] = np.inf
                loss[(prior[x] <= 0) | (prior[y] <= 0)] = -np.inf
                losses[at, :, part] = loss
            self.effort += likely.size * (size + 2 * len(value) // size + 1)
        shape = (len(columns[0]), -1, len(columns[1]), self.sides[1].weights.shape[1])
        return losses.reshape(len(value), *shape)

    def beyond(
        self, frontier: tuple[bool, bool], columns: Columns, loss: Array,
        value: Ints, other: Ints, pairs: Ints, hints: Sequence[float],
    ) -> Array:  # fmt: skip
        """Return the bound beyond the frontier of one side or both, (P, C, C).

        ``columns`` holds just the frontier's column on such a side, and ``loss`` is that of
        `losses` for them; on the other side only what the adversary can really have counts.
        ``hints`` bound what the count of z and all beyond it tells about z, left and right.
        """
        size, hint = len(self.tables), 0.0
        shift, sway = np.zeros((1,) * 5), np.zeros((len(pairs), 1, 1, 1, 1))
        ends = tuple(2 + 2 * end for end in (0, 1) if frontier[end])
        for end, (side, part) in enumerate(zip(self.sides, columns, strict=True)):
            rows = side.real[part]
            if frontier[end]:  # known records z, whether real or inserted by the proof
                rows = np.broadcast_to(np.arange(rows.shape[1]) < size, rows.shape)
                moved = np.full((len(pairs), rows.shape[1]), -np.inf)  # (P, R)
                moved[:, :size] = side.shift[pairs]
                shape = (len(pairs), 1, -1, 1, 1) if end == 0 else (len(pairs), 1, 1, 1, -1)
                shift = _sum(shift, moved.reshape(shape))
                hint += hints[end] if self.counts[end] == side.steps else 0.0
                sway = sway + side.sway[pairs][:, None, None, None, None]
            loss = np.where(rows[:, :, None, None] if end == 0 else rows, loss, -np.inf)
        # the first bound of the module: (P, C, R, C, R)
        first = _sum(loss, shift).max(axis=ends, keepdims=True)
        wave = self._oscillation(columns, ends)  # (target, C, R, C, R)
        with np.errstate(over="ignore", invalid="ignore"):
            spread = np.minimum(wave[value], wave[other]) + hint + self.pad
            slope = np.sinh(sway / 2) * np.sinh(spread / 2)
            # the second bound, o = sway and r = spread
            second = loss.max(axis=ends, keepdims=True) + np.log1p(slope)
        second[np.isnan(second) | np.isinf(sway)] = np.inf
        return np.asarray(np.minimum(first, second).max(axis=(2, 4)) + self.pad)

    def _oscillation(self, columns: Columns, ends: tuple[int, ...]) -> Array:
        """Return by how much ln of an answer's likelihood varies over z, whatever the answer.

        The axes ``ends`` of (target, C, R, C, R) hold z and are kept with length one.
        """
        weights = self._weights(columns)
        # (target, answer, left rows, right rows)
        likely = weights[0] @ (self.tables @ weights[1].T)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(likely) - np.log(self._priors(weights))[:, None]
        self.effort += 16 * likely.size
        rows = [side.weights.shape[1] for side in self.sides]
        shape = (len(columns[0]), rows[0], len(columns[1]), rows[1])
        logs = logs.reshape(*self.tables.shape[:2], *shape)  # (target, answer, C, R, C, R)
        axes = tuple(axis + 1 for axis in ends)
        for axis in axes:  # known records only
            logs = logs.take(range(len(self.tables)), axis=axis)
        logs = np.where(np.isfinite(logs), logs, np.nan)  # what cannot occur, or would underflow
        high = np.fmax.reduce(logs, axis=axes, keepdims=True)
        return np.asarray((high - np.fmin.reduce(logs, axis=axes, keepdims=True)).max(axis=1))


def _sum(loss: Array, shift: Array) -> Array:
    """Return loss + shift, inf wherever one of them is, else -inf where one of them is."""
    with np.errstate(invalid="ignore"):
        total = loss + shift
    return np.where(np.isposinf(loss) | np.isposinf(shift), np.inf, total)


LEVELS = (3, 4, 5, 6, 8, 10, 13, 17, 22, 29, 38, 50, 65, 85, 110, 143)
"""Records swept on a side before the frontier takes over, one round after the other."""

EFFORT = 1_000_000_000
"""Multiplications spent on one tolerance before what is still in doubt keeps its bound."""

MEMORY = 8_000_000
"""Most entries of the tables of what is in doubt."""

TOLERANCES = (0.0, 0.02)
"""Widths relative to the value, beyond the package's own gap, that are tried one after the other
until one can be met (upper side)."""


class PieceSearch:
    """The best window found, and the certified top over all of them.

    ``cap`` is another certified bound on all windows: where the best meets it, the search ends.
    """

    def __init__(
        self, chain: MarkovChain, counted: tuple[bool, ...], scale: float, against: Kind, cap: float
    ) -> None:
        self.chain, self.counted, self.against, self.cap = chain, counted, against, cap
        self.rate = 1.0 / scale
        self.value, self.other = ordered_pairs(chain.size)
        self.window: WindowAttack | None = None
        self.best, self.top = 0.0, cap
        self.slack, self.effort = 0.0, EFFORT

    @property
    def goal(self) -> float:
        """The value up to which a window cannot widen the interval noticeably."""
        return self.best + max(GAP * max(1.0, self.best), self.slack * self.best)

    def run(self) -> None:
        """Find the best window, and a top as close to it as the effort allows."""
        for window in far_answers(self.chain, self.counted, self.against, self.rate):
            self.offer(window)
        for self.slack in TOLERANCES:
            if self.cap <= self.goal:
                return
            self.effort = EFFORT
            top, undecidable = self._sweep()
            self.top = min(self.top, top)
            if self.top <= self.goal or undecidable:
                return

    def offer(self, window: WindowAttack) -> None:
        """Keep the window if it is the best so far."""
        if window.loss > self.best and math.isfinite(window.loss):
            self.best, self.window = window.loss, window

    def _sweep(self) -> tuple[float, bool]:
        """Sweep further and further out, until nothing is in doubt or the effort is spent.

        Return the top, and whether no effort whatever would lower it.
        """
        doubt: _Doubt | None = None
        settled, reach = 0.0, math.inf  # tops of what is settled, and of what is in doubt
        apart = math.inf  # bound of windows that the target is no part of
        hints = [math.inf, math.inf]
        for steps in LEVELS:
            sides = build_sides(self.chain, self.counted, self.against, steps)
            if sides is None or 2 * len(self.value) * (steps + 2) ** 3 > MEMORY:
                break
            level = _Level(self, sides, hints)
            for right in (0, 1):
                hints[right] = min(hints[right], level.beside(right, counted=True))
            if apart > self.goal:
                apart = max(level.beside(right, counted=False) for right in (0, 1))
            fresh = level.inside(doubt)
            if fresh is None:  # out of effort: what was in doubt stays so
                break
            dropped, alive = fresh.sift(self.goal)
            settled = max(settled, level.top, dropped)
            reach, doubt = max(alive, apart), fresh
            # the zeros of P^t repeat themselves from t = (k - 1)^2 + 1 on, at the latest
            undecidable = math.isinf(reach) and steps >= (self.chain.size - 1) ** 2
            if reach <= self.goal or undecidable:
                return max(settled, reach), undecidable
        return max(settled, reach), False


@dataclass(frozen=True, slots=True)
class _Doubt:
    """Bounds of what lies beyond a frontier, -inf where nothing is in doubt.

    ``left`` (P, m, m, C): beyond the left frontier with a column on the right; ``right``
    (P, m, C, m) the mirror image; ``both`` (P, m, m): beyond both frontiers.
    """

    left: Array
    right: Array
    both: Array

    @classmethod
    def nothing(cls, pairs: int, steps: int) -> "_Doubt":
        """Return tables without doubt."""
        one, columns = steps + 1, steps + 2
        return cls(
            np.full((pairs, one, one, columns), -np.inf),
            np.full((pairs, one, columns, one), -np.inf),
            np.full((pairs, one, one), -np.inf),
        )

    @property
    def steps(self) -> int:
        """The number of records swept, T."""
        return int(self.both.shape[1]) - 1

    def sift(self, goal: float) -> tuple[float, float]:
        """Drop what is at most ``goal``; return the largest bound dropped and the largest left."""
        dropped, alive = -math.inf, -math.inf
        for table in (self.left, self.right, self.both):
            harmless = table <= goal
            dropped = max(dropped, float(table[harmless].max(initial=-np.inf)))
            table[harmless] = -np.inf
            alive = max(alive, float(table.max()))
        return dropped, alive

    def groups(self, steps: int) -> list[tuple[int, int]]:
        """Return the numbers of counted records (left, right) that must be looked at next."""
        near = np.minimum(np.arange(steps + 1), self.steps)
        old = np.arange(steps + 1) <= self.steps
        both = (self.both.max(axis=0) > -np.inf)[np.ix_(near, near)]  # (m, n)
        left = (self.left.max(axis=(0, 3)) > -np.inf)[np.ix_(near, near)] & old[None, :]
        right = (self.right.max(axis=(0, 2)) > -np.inf)[np.ix_(near, near)] & old[:, None]
        return [(int(m), int(n)) for m, n in np.argwhere(both | left | right)]

    def needed(self, left: int, right: int, steps: int) -> Bools:
        """Return which pairs and columns of a group were in doubt, (P, C, C)."""
        near = min(left, self.steps), min(right, self.steps)
        old, new = [], []
        for count in (left, right):
            columns = np.arange(2 + steps - count)
            # column 1 + h reaches count + h records out, column 0 just the counted ones
            inside = np.maximum(columns - 1, 0) + count <= self.steps
            old.append(columns[inside])
            new.append(columns[~inside])
        need = np.zeros((len(self.both), 2 + steps - left, 2 + steps - right), dtype=bool)
        need[:, new[0][:, None], new[1]] = (self.both[:, near[0], near[1]] > -np.inf)[:, None, None]
        if old[1].size and new[0].size:
            part = self.left[:, near[0], right][:, old[1]] > -np.inf
            need[:, new[0][:, None], old[1]] = part[:, None, :]
        if old[0].size and new[1].size:
            part = self.right[:, left][:, :, near[1]][:, old[0]] > -np.inf
            need[:, old[0][:, None], new[1]] = part[:, :, None]
        return need


class _Level:
    """One round of the search, with T records on a side."""

    def __init__(
        self, search: PieceSearch, sides: tuple[WindowSide, WindowSide], hints: list[float]
    ) -> None:
        self.search, self.sides, self.steps = search, sides, sides[0].steps
        self.marks = np.array(search.counted)
        self.hints = hints
        self.top = -math.inf

    def beside(self, right: int, counted: bool) -> float:
        """Return the bound of all windows that lie on one side of the target.

        The target is their first or last record if ``counted``, else the record next to them;
        then between two values of the same mark it might as well be counted.
        """
        search, side = self.search, self.sides[right]
        pairs = np.arange(len(search.value))
        if not counted:
            pairs = np.flatnonzero(self.marks[search.value] != self.marks[search.other])
        value, other = search.value[pairs], search.other[pairs]
        empty, free = empty_side(search.chain.size), self._free(self.sides[1 - right])
        own = self.marks & counted
        most = 0.0
        for count in range(0 if counted else 1, self.steps + 1):
            columns = np.arange(2 + self.steps - count)
            nothing = np.zeros(1, dtype=np.int64)
            group = Group(
                (empty, side) if right else (side, empty),
                (0, count) if right else (count, 0),
                own, search.rate,
            )  # fmt: skip
            loss = group.losses((nothing, columns) if right else (columns, nothing), value, other)
            edge = side.frontier(count)
            if edge is not None:
                at = np.array([edge])
                bound = group.beyond(
                    (not right, bool(right)), (nothing, at) if right else (at, nothing),
                    loss[:, :, :, at] if right else loss[:, at], value, other, pairs, self.hints,
                )  # fmt: skip
                most = max(most, float(bound.max()))
            search.effort -= group.effort
            loss = loss[:, 0, 0] if right else loss[:, :, :, 0, 0]  # (P, C, R)
            loss = np.where(side.real[columns], loss, -np.inf)
            most = max(most, float(loss.max()) + group.pad)
            for row, pair in enumerate(pairs):
                place = free[pair]
                if place is not None and not counted:
                    best = np.unravel_index(int(loss[row].argmax()), loss[row].shape)
                    near, far = (0, *place), (count, int(best[0]), int(best[1]))
                    sides = (near, far) if right else (far, near)
                    search.offer(
                        WindowAttack(float(loss[row][best]), int(pair), *sides, outside=True)
                    )
        return most

    def _free(self, side: WindowSide) -> list[tuple[int, int] | None]:
        """Return for each pair a column and row on a side without counted records, if any."""
        places: list[tuple[int, int] | None] = []
        for x, y in zip(self.search.value, self.search.other, strict=True):
            both = side.real & (side.weights[..., x] > 0) & (side.weights[..., y] > 0)
            first = np.argwhere(both)[:1]
            places.append((int(first[0][0]), int(first[0][1])) if first.size else None)
        return places

    def inside(self, doubt: _Doubt | None) -> _Doubt | None:
        """Evaluate the windows around the target that were in doubt; None if it takes too long."""
        fresh = _Doubt.nothing(len(self.search.value), self.steps)
        every = [(m, n) for m in range(self.steps + 1) for n in range(self.steps + 1)]
        for left, right in every if doubt is None else doubt.groups(self.steps):
            need = self._useful(left, right)
            if doubt is not None:
                need &= doubt.needed(left, right, self.steps)
            self.search.effort -= need.size // 8
            if need.any():
                self._group(left, right, need, fresh)
            if self.search.effort <= 0:
                return None
        return fresh

    def _useful(self, left: int, right: int) -> Bools:
        """Return which columns are real or on the frontier, for all pairs, (P, C, C)."""
        parts = []
        for side, count in zip(self.sides, (left, right), strict=True):
            useful = np.array(side.real.any(axis=1))[: 2 + self.steps - count]
            column = side.frontier(count)
            if column is not None:
                useful[column] = True
            parts.append(useful)
        grid = parts[0][:, None] & parts[1]  # (C, C)
        return np.repeat(grid[None], len(self.search.value), axis=0)

    def _group(self, left: int, right: int, need: Bools, fresh: _Doubt) -> None:
        """Evaluate the columns of one group that are needed, and keep the open ones."""
        search, counts = self.search, (left, right)
        pairs = np.flatnonzero(need.any(axis=(1, 2)))  # need is (P, C, C)
        value, other = search.value[pairs], search.other[pairs]
        columns = np.flatnonzero(need.any(axis=(0, 2))), np.flatnonzero(need.any(axis=(0, 1)))
        group = Group(self.sides, counts, self.marks, search.rate)
        loss = group.losses(columns, value, other)  # (P, C, R, C, R)
        request = need[np.ix_(pairs, *columns)]  # (P, C, C)
        real = [side.real[part] for side, part in zip(self.sides, columns, strict=True)]
        true = np.where(real[0][:, :, None, None] & real[1], loss, -np.inf)  # (P, C, R, C, R)
        best = np.unravel_index(int(true.argmax()), true.shape)
        pair, at, row, to, end = (int(part) for part in best)
        self.top = max(self.top, float(true[best]) + group.pad)
        places = (left, int(columns[0][at]), row), (right, int(columns[1][to]), end)
        search.offer(WindowAttack(float(true[best]), int(pairs[pair]), *places, outside=False))
        edges = [
            np.flatnonzero(part == side.frontier(count))
            for part, side, count in zip(columns, self.sides, counts, strict=True)
        ]
        for ends, table in (
            ((True, False), fresh.left[:, left, right]),
            ((False, True), fresh.right[:, left, :, right]),
            ((True, True), fresh.both[:, left, right]),
        ):
            rows, cols = (
                edge if there else np.arange(len(part))
                for edge, there, part in zip(edges, ends, columns, strict=True)
            )
            if not rows.size or not cols.size:
                continue
            cut = columns[0][rows], columns[1][cols]
            part = loss[:, rows][:, :, :, cols]  # (P, C, R, C, R), on the frontier
            bound = group.beyond(ends, cut, part, value, other, pairs, self.hints)
            bound = np.where(request[:, rows][:, :, cols], bound, -np.inf)  # (P, C, C)
            if all(ends):
                table[pairs] = bound[:, 0, 0]
            else:
                other_side = cut[1] if ends[0] else cut[0]
                table[pairs[:, None], other_side] = bound[:, 0] if ends[0] else bound[:, :, 0]
        search.effort -= group.effort


METHOD = "exact"
CLOSE = 1e-6
"""Width of the interval, relative to its lower end, from which a costly second bound pays."""


def window_leakage(
    scale: float, counted: Bools, chain: MarkovChain, against: Against = "any"
) -> Leakage | None:
    """Return the leakage of a noisy count of any one window of a series, as certified interval.

    The supremum over windows, over targets inside and outside them, and over what the adversary
    may know, of a count plus (discrete) Laplace noise; the chain's ``length`` does not matter.
    ``counted`` (k,) says which states are counted. Cost: about T^3 k^3 times the windows that
    pruning leaves, T records a side until the chain has forgotten; past an effort limit the
    interval stays a little open. None for an explicit `Adversary` and for steps that differ: then
    the place of the window matters.

    >>> chain = MarkovChain([[.07, .91, .02], [.11, .02, .87], [.39, .02, .59]])
    >>> leak = window_leakage(0.5, np.array([True, False, False]), chain)
    >>> round(leak.upper, 6), leak.witness.words()
    (2.392681, 'target record 3 of 4, record 0 = 1 known: 0 against 2, count of records 2 to 3')
    """
    if isinstance(against, Adversary) or not chain.homogeneous:
        return None
    endless = MarkovChain(chain.transition, chain.states, chain.start).visited()
    if endless is None:
        return _leakage(0.0, 0.0, against, None)
    marks = tuple(bool(counted[chain.index(state)]) for state in endless.states)
    if against == "informed":
        plain = informed_count(scale, np.array(marks), endless)
        return _leakage(plain.lower, plain.upper, against, plain.witness)
    if len(set(marks)) < 2:  # the count is known
        return _leakage(0.0, 0.0, against, None)
    cheap = endless.size == 2 or against == "ignorant" or isinstance(endless.start, str)
    cap = exchange_leakage(up(1 / scale), endless, against).upper if cheap else math.inf
    search = PieceSearch(endless, marks, scale, against, cap)
    search.run()
    upper = up(search.top, 8) + start_error(endless)
    if not cheap and search.top > (1 + CLOSE) * search.best:
        cap = exchange_leakage(up(1 / scale), endless, against).upper
    upper = min(upper, cap)
    if search.window is None:
        return _leakage(0.0, upper, against, None)
    witness = _witness(search.window, search, endless)
    names = [state for state, mark in zip(endless.states, marks, strict=True) if mark]
    witness, lower = replay_window(witness, endless, names, scale)
    return _leakage(max(lower, 0.0), upper, against, witness)


_leakage = partial(
    stated, METHOD, "docs, theory: noisy counts", more=(ANY_WINDOW,), valid_for="windows"
)  # fmt: skip


def _witness(attack: WindowAttack, search: PieceSearch, chain: MarkovChain) -> Witness:
    """Return the attack on the first records of the series where it can take place."""
    known: dict[int, int] = {}
    before, column, row = attack.left
    first = 0  # of the window, or the target's place where no record is counted before it
    if column and row == chain.size:
        first = column - 1
    elif column:
        place = int(supports(chain, chain.size)[:, row].argmax())  # the first that can have it
        known[place] = row
        first = place + column
    target = first + before
    after, column, row = attack.right
    if column:
        known[target + after + column] = row
    window = first, target + after + 1
    if attack.outside:
        window = (target + 1, window[1]) if after else (first, target)
    last = max([target, window[1] - 1, *known])
    values = search.value[attack.pair], search.other[attack.pair]
    return witnessed(chain, target, max(last + 1, 2), known, values, window=window)
