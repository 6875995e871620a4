"""Exact leakage of a count with Laplace noise on a Markov chain.

Given the nearest known records (or open ends) on either side, the target's value x fixes the law
of the window's count; the leakage is the largest log-ratio of two such laws after the noise, and
the noise makes it enough to look at integer answers (the ratio is Moebius in e^{2s/b} between
them). Windows are many, so each is first bounded by its two sides,

    loss(window) <= |f(x) - f(x')| / b + loss(left) + loss(right),

and only those whose bound exceeds the best value found are evaluated. The far tails of the noise
give exact values for free; with positive correlation they meet the bound and no window is left.
All laws are kept as logarithms: a count can be astronomically unlikely and still matter.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from undertow.adversaries import Against
from undertow.bounds.informed import informed_targets
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
from undertow.bounds.replay import replay_count
from undertow.certificate import Leakage, Witness
from undertow.models.markov import MarkovChain
from undertow.numerics import GAP, ROUNDOFF, Array, down, up

__all__ = ["count_leakage"]

METHOD = "exact"
WINDOW = 512
"""Most records per side in a window (cost: memory grows with its square)."""

POSITIONS = 64
"""Most records of a chain with differing steps whose windows are enumerated."""

EFFORT = 4_000_000_000
"""Multiplications spent on windows before the remaining ones keep their bound."""


@dataclass(frozen=True, slots=True)
class _Laws:
    """Log-laws of side counts, before and after the noise, and what follows from them.

    ``law`` and ``noisy`` have shape (T + 1, B, k + 1, k, J): distance, ray, column (known state
    or open), value of the target, count. ``loss`` (T + 1, B, k + 1, P) is the side loss and
    ``tails`` (2, ...) its value far below and far above the counts; -inf marks impossible options.
    """

    law: Array
    noisy: Array
    loss: Array
    tails: Array


def count_leakage(
    scale: float, counted: Bools, chain: MarkovChain, against: Against = "any"
) -> Leakage | None:
    """Return the exact leakage of a count plus (discrete) Laplace noise, as certified interval.

    ``counted`` (k,) says which states are counted. Cost O(T^2 k^2) plus the windows that survive
    pruning, T records a side. None if the chain's windows are too many to enumerate (steps that
    differ over more than `POSITIONS` records).

    >>> chain = MarkovChain([[.882, .118], [.305, .695]])
    >>> round(count_leakage(1.0, np.array([False, True]), chain).upper, 8)
    3.47487338
    """
    reduced = visited(chain)
    if reduced is None:
        return _leakage(0.0, 0.0, against, None)
    weights = np.array([counted[chain.index(state)] for state in reduced.states])
    value, other = ordered_pairs(reduced.size)
    if against == "informed":
        return _informed(scale, weights, reduced)
    if reduced.homogeneous:
        steps = min(choose_steps(reduced, against), WINDOW)
        rays, rows = build_rays(reduced, steps), build_rows(reduced, steps, against)
        law = _chain_laws(reduced, steps, tuple(bool(mark) for mark in weights))
    else:
        positions = np.arange(reduced.transition.shape[0] + 1)
        if len(positions) > POSITIONS:
            return None
        rays = build_position_rays(reduced, positions, POSITIONS)
        rows = build_position_rows(reduced, positions, rays.steps, against)
        law = _count_laws(rays, weights)
    laws = _side_laws(law, value, other, scale)
    step = np.subtract(weights[value], weights[other], dtype=float) / scale
    search = _Search(rays, rows, laws, step, value, other, weights, scale, reduced.length)
    search.run()
    if search.top == -math.inf:
        return _leakage(0.0, 0.0, against, None)
    return _conclude(search, reduced, against)


def _informed(scale: float, counted: Bools, chain: MarkovChain) -> Leakage:
    """Return 1/scale if a target between known neighbours can enter or leave the count, else 0."""
    marks = dict(zip(chain.states, counted, strict=True))
    for target in informed_targets(chain):
        if marks[target.value] != marks[target.other]:
            attack = replace(target, output=int(marks[target.value]))
            return _leakage(down(1 / scale), up(1 / scale), "informed", attack)
    return _leakage(0.0, 0.0, "informed", None)


def _side_laws(law: Array, value: Ints, other: Ints, scale: float) -> _Laws:
    """Return the laws of the counts on all rays with the noise added, and the side losses."""
    noisy = _smooth(law, 1.0 / scale)
    possible = np.asarray(np.isfinite(noisy).all(axis=4))
    pair_ok = possible[..., value] & possible[..., other]
    with np.errstate(invalid="ignore"):
        ratio = noisy[..., value, :] - noisy[..., other, :]
    ratio[~pair_ok] = -np.inf
    return _Laws(law, noisy, ratio.max(axis=-1), np.stack([ratio[..., 0], ratio[..., -1]]))


@lru_cache(maxsize=4)
def _chain_laws(chain: MarkovChain, steps: int, counted: tuple[bool, ...]) -> Array:
    """Return the laws of a homogeneous chain's counts: they do not depend on the noise."""
    return _count_laws(build_rays(chain, steps), np.array(counted))


def _count_laws(rays: Rays, counted: Bools) -> Array:
    """Return ln Pr[count on a ray | target value, option], (T + 1, B, k + 1, k, T + 1)."""
    steps, (count, size) = rays.steps, rays.weights.shape
    law = np.full((steps + 1, count, size + 1, size, steps + 1), -np.inf)
    with np.errstate(divide="ignore"):
        far = np.log(rays.weights)
        path = np.full((count, size, size, steps + 1), -np.inf)  # (ray, last, target value, j)
        path[..., 0] = np.log(rays.kernel(1)).transpose(0, 2, 1)
        law[0, :, size, :, 0] = 0.0
        for step in range(1, steps + 1):
            law[step, :, :size] = path
            moved = path.copy()
            moved[:, counted, :, 1:] = path[:, counted, :, :-1]
            moved[:, counted, :, 0] = -np.inf
            law[step, :, size] = _log_sum(moved + far[:, :, None, None], axis=1)
            if step < steps:
                kernel = np.log(rays.kernel(step + 1))
                path = _log_sum(moved[:, :, None] + kernel[:, :, :, None, None], axis=1)
        masses = np.einsum("tbxv,bv->tbx", rays.products, rays.weights)
        totals = np.concatenate([rays.products.transpose(0, 1, 3, 2), masses[:, :, None]], axis=2)
        law[1:] -= np.where(totals[1:] > 0, np.log(totals[1:]), 0.0)[..., None]
    return law


def _log_sum(terms: Array, axis: int) -> Array:
    peak = terms.max(axis=axis, keepdims=True)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.squeeze(safe, axis=axis) + np.log(np.exp(terms - safe).sum(axis=axis)))


def _smooth(law: Array, rate: float) -> Array:
    """Return ln sum_j exp(law(j) - rate |s - j|) for every s, along the last axis."""
    rising, falling = law.copy(), law.copy()
    for place in range(1, law.shape[-1]):
        rising[..., place] = np.logaddexp(law[..., place], rising[..., place - 1] - rate)
        falling[..., -place - 1] = np.logaddexp(law[..., -place - 1], falling[..., -place] - rate)
    before = np.full_like(law, -np.inf)
    before[..., 1:] = rising[..., :-1] - rate
    return np.asarray(np.logaddexp(before, falling))


class _Search:
    """Branch and bound over the windows of all rows and pairs.

    A row whose room exceeds the sweep has options beyond it. Those of a known record are within
    the oscillation of the prior ratio of the options at the last step (added as ``shift``). An
    open side alone is bounded by the known values z at the last step, shifted by their prior
    ratio against the open one; such a side offers no real window, except that a chain of any
    length may simply end there.
    """

    def __init__(
        self, rays: Rays, rows: Rows, laws: _Laws, step: Array, value: Ints, other: Ints,
        counted: Bools, scale: float, length: int | None,
    ) -> None:  # fmt: skip
        self.rays, self.rows, self.laws = rays, rows, laws
        self.step, self.value, self.other = step, value, other
        self.counted, self.scale, self.length = counted, scale, length
        self.best, self.top = -math.inf, -math.inf
        self.window: tuple[int, int, tuple[int, int], tuple[int, int]] | None = None
        self.output = 0
        self.effort = EFFORT
        self.prior = rays.log_prior(value, other)
        low, high = rays.tail_range(value, other)
        self.tail_low, self.tail_high = low, high
        finite_range = np.isfinite(low) & np.isfinite(high)
        self.spread = np.where(finite_range, np.where(finite_range, high, 0.0) - low, np.inf)
        finite = self.laws.noisy[np.isfinite(self.laws.noisy)]
        size = float(np.abs(finite).max(initial=1.0))
        self.pad = 8 * (rays.steps + 4) * (size + rays.weights.shape[1]) * ROUNDOFF

    @property
    def goal(self) -> float:
        """The value up to which a window cannot widen the interval noticeably."""
        return max(self.best, 0.0) + GAP * max(1.0, self.best)

    def run(self) -> None:
        """Find the best window, and the certified top over all of them."""
        rows = range(len(self.rows.position))
        masks = [(self._mask(row, 0), self._mask(row, 1)) for row in rows]
        for row in rows:
            self._try_tails(row, masks[row])
        for row in rows:
            for pair in np.flatnonzero(self.rows.feasible[row]):
                self._windows(row, int(pair), masks[row])

    def _mask(self, row: int, side: int) -> Bools:
        """Return which (distance, column) the adversary really has on a side, (T + 1, k + 1)."""
        rows, steps = self.rows, self.rays.steps
        mask = np.zeros((steps + 1, self.laws.law.shape[2]), dtype=bool)
        room = rows.room[row, side]
        first, last = rows.first[row, side], min(rows.last[row, side], steps)
        if last >= first:
            mask[first : last + 1, :-1] = True
            if side == 0 and rows.seen is not None:
                at = np.minimum(rows.position[row], len(rows.seen) - 1)
                mask[first : last + 1, :-1] &= rows.seen[at - np.arange(first, last + 1)]
        if rows.open[row, side]:
            if room <= steps:
                mask[room, -1] = True
            elif self.length is None and self.rays.ends[rows.ray[row, side]]:
                mask[steps, -1] = True
        return mask

    def _shifted(self, row: int, side: int, pair: int, mask: Bools) -> Array:
        """Return what to add to each option's loss, (T + 1, k + 1); -inf if it does not stand
        for anything. Options at the last step also stand for those beyond it.
        """
        rows, steps, ray = self.rows, self.rays.steps, self.rows.ray[row, side]
        shift = np.where(mask, 0.0, -np.inf)
        free = rows.open[row, side] and rows.room[row, side] > steps
        if rows.last[row, side] > steps:
            shift[steps, :-1] = self.spread[ray, pair]
        elif free:
            base = self.tail_low[ray, pair]
            if self.rays.ends[ray]:
                base = self.prior[-1, ray, pair, -1]
            gap = self.prior[-1, ray, pair, :-1] - base
            shift[steps, :-1] = np.where(np.isnan(gap), np.inf, gap)
        return shift

    def _unbounded(self, row: int, side: int, pair: int) -> bool:
        """Return whether options beyond the sweep have no finite bound.

        A state reachable from one value alone at the last step lets the prior ratio of a record
        known further out run away; on an open side only the value in the numerator can do harm.
        """
        rows, ray = self.rows, self.rows.ray[row, side]
        if rows.last[row, side] > self.rays.steps:
            return bool(np.isinf(self.spread[ray, pair]))
        free = rows.open[row, side] and rows.room[row, side] > self.rays.steps
        low = 0.0 if self.rays.ends[ray] else float(self.tail_low[ray, pair])
        return bool(free and (np.isposinf(self.tail_high[ray, pair]) or np.isinf(low)))

    def _try_tails(self, row: int, masks: tuple[Bools, Bools]) -> None:
        """Raise the best value by the windows' far answers, where left and right separate."""
        columns = masks[0].shape[1]
        for tail, sign in ((0, -1.0), (1, 1.0)):
            sides = []
            for side, ray in enumerate(self.rows.ray[row]):
                table = self.laws.tails[tail][:, ray]
                flat = np.where(masks[side][:, :, None], table, -np.inf)
                flat = flat.reshape(-1, flat.shape[-1])
                if not masks[side].any() and self.rays.ends[ray]:
                    flat[-1] = self._far_tail(table[-1], ray)
                sides.append((flat.max(axis=0), flat.argmax(axis=0)))
            value = sign * self.step + sides[0][0] + sides[1][0]
            value = np.where(self.rows.feasible[row], value, -np.inf)
            pair = int(value.argmax())
            if value[pair] > self.best:
                options = [divmod(int(place[pair]), columns) for _, place in sides]
                self.best = float(value[pair])
                self.window = (row, pair, options[0], options[1])
                self.output = -1 if tail else 0

    def _far_tail(self, tails: Array, ray: int) -> Array:
        """Return what a far answer reveals, at least, about an open side longer than the sweep.

        Its likelihood ratio is a mean of those given the state at the last step.
        """
        moved = tails[:-1] + self.prior[-1, ray, :, :-1].T
        least = np.where(np.isnan(moved), -np.inf, moved).min(axis=0)
        return np.asarray(least - self.prior[-1, ray, :, -1])

    def _windows(self, row: int, pair: int, masks: tuple[Bools, Bools]) -> None:
        """Bound all windows of one row and pair; evaluate those that may exceed the best."""
        if any(self._unbounded(row, side, pair) for side in (0, 1)):
            self.top = math.inf
            return
        shifts, bounds = [], []
        for side in (0, 1):
            shift = self._shifted(row, side, pair, masks[side]).ravel()
            table = self.laws.loss[:, self.rows.ray[row, side], :, pair].ravel()
            with np.errstate(invalid="ignore"):
                bound = np.where(np.isneginf(shift) | np.isneginf(table), -np.inf, table + shift)
            shifts.append(shift)
            bounds.append(bound)
        left, right = (np.flatnonzero(~np.isneginf(part)) for part in bounds)
        if not left.size or not right.size:
            return
        base = abs(float(self.step[pair])) + 2 * self.pad
        ceiling = base + float(bounds[0].max()) + float(bounds[1].max())
        if ceiling <= self.goal or math.isinf(ceiling):
            self.top = max(self.top, ceiling)
            return
        order = right[np.argsort(-bounds[1][right], kind="stable")]
        most = float(bounds[0].max())
        for place in order:
            reach = base + float(bounds[1][place])
            if reach + most <= self.goal or self.effort <= 0:
                self.top = max(self.top, reach + most)
                return
            doubtful = left[bounds[0][left] + reach > self.goal]
            self.top = max(self.top, min(self.goal, reach + most))
            losses, outputs = self._evaluate(row, pair, doubtful, int(place))
            moved = losses + shifts[0][doubtful] + shifts[1][place]
            self.top = max(self.top, float(moved.max()) + 2 * self.pad)
            real = masks[0].ravel()[doubtful] & masks[1].ravel()[place]
            best = int(np.where(real, losses, -np.inf).argmax())
            if real[best] and losses[best] > self.best:
                columns = masks[0].shape[1]
                options = divmod(int(doubtful[best]), columns), divmod(int(place), columns)
                self.best = float(losses[best])
                self.window = (row, pair, options[0], options[1])
                self.output = int(outputs[best])

    def _evaluate(self, row: int, pair: int, left: Ints, right: int) -> tuple[Array, Ints]:
        """Return the losses of windows with one right option, and the answers that show them."""
        width = self.laws.law.shape[-1]
        self.effort -= len(left) * width * width
        rays = self.rows.ray[row]
        logs = []
        for state in (self.value[pair], self.other[pair]):
            law = self.laws.law[:, rays[0], :, state].reshape(-1, width)[left]
            noisy = self.laws.noisy[:, rays[1], :, state].reshape(-1, width)[right]
            logs.append(_blend(law, noisy, int(self.counted[state]), 1.0 / self.scale))
        ratio = logs[0] - logs[1]
        return ratio.max(axis=1), ratio.argmax(axis=1)


def _blend(law: Array, noisy: Array, shift: int, rate: float) -> Array:
    """Return ln of noisy window laws at answers 0 .. 2 width - 1, the target adding ``shift``.

    ``law`` (N, width) are counts on the left, ``noisy`` (width,) the noisy count on the right. A
    matrix product where no term can underflow, sums of logarithms otherwise.
    """
    width = len(noisy)
    place = np.arange(2 * width)[None, :] - shift - np.arange(width)[:, None]
    inside = np.clip(place, 0, width - 1)
    reach = noisy[inside] - rate * np.abs(place - inside)  # (count on the left, answer)
    finite = law[np.isfinite(law)]
    if float(finite.min()) + float(reach.min()) > -600.0:
        with np.errstate(under="ignore"):
            return np.asarray(np.log(np.exp(law) @ np.exp(reach)))
    total = np.full((len(law), 2 * width), -np.inf)
    for count in np.flatnonzero(np.isfinite(law).any(axis=0)):
        total = np.logaddexp(total, law[:, count, None] + reach[count])
    return total


def _conclude(search: _Search, chain: MarkovChain, against: Against) -> Leakage:
    """Turn the best window into a witness, replay it, and round the interval outwards."""
    upper = max(up(max(search.top, search.best), 64), 0.0)
    if search.window is None:
        return _leakage(0.0, upper, against, None)
    row, pair, left, right = search.window
    position = int(search.rows.position[row])
    if chain.length is None and left[1] == chain.size:
        position = left[0]
    known = []
    for distance, column, sign in ((*left, -1), (*right, 1)):
        if column < chain.size:
            known.append((position + sign * distance, chain.states[column]))
    length = chain.length or max(position + 1 + right[0], 2)
    witness = Witness(
        position, length, tuple(sorted(known)),
        chain.states[search.value[pair]], chain.states[search.other[pair]],
        output=search.output,
    )  # fmt: skip
    counted = tuple(s for s, c in zip(chain.states, search.counted, strict=True) if c)
    witness, exact = replay_count(witness, chain, counted, search.scale)
    lower = min(max(down(exact, 64) - search.pad, 0.0), upper)
    return _leakage(lower, upper, against, witness)


def _leakage(lower: float, upper: float, against: Against, witness: Witness | None) -> Leakage:
    return Leakage(
        lower, upper, METHOD, against, witness,
        assumptions=("the records follow the stated Markov chain",),
        citation="docs, theory: noisy counts",
    )  # fmt: skip
