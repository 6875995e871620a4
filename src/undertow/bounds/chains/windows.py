"""Branch and bound over the windows of a noisy count: bounds first, evaluation where needed."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from undertow import progress
from undertow.bounds.chains.known import Bools, Ints
from undertow.bounds.chains.side_laws import Rows, SideLaws
from undertow.numerics import GAP, ROUNDOFF, Array, log_ratio

__all__ = ["Laws", "WindowSearch"]

EFFORT = 4_000_000_000
"""Multiplications spent on windows before the remaining ones keep their bound."""

_LOGS = 64
"""How much dearer a sum of logarithms is than a multiplication."""

_UNDERFLOW = -600.0
"""Smallest logarithm that is safe to exponentiate in a product."""

_LONG = 20_000
"""Most steps of the power iteration behind a lower end (cost)."""

_KNOWN, _EMPTY, _OPEN = 0, 1, 2
"""Kinds of options: a known record, an open side without records, an open side with some."""


@dataclass(frozen=True, slots=True)
class Laws:
    """Log-laws of side counts, before and after the noise, and what follows from them.

    ``law`` and ``noisy`` have shape (T + 1, B, k + 1, k, J): distance, which, column (known state
    or open), value of the target, count. ``loss`` (T + 1, B, k + 1, P) is the side loss and
    ``tails`` (2, ...) its value far below and far above the counts; -inf marks impossible options.
    """

    law: Array
    noisy: Array
    loss: Array
    tails: Array


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
        self.best, self.top = -math.inf, -math.inf
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
        """The value up to which a window cannot widen the interval noticeably."""
        return max(self.best, 0.0) + GAP * max(1.0, self.best)

    def run(self, ceiling: Callable[[], float]) -> None:
        """Find the best window, and the certified top over all of them.

        ``ceiling`` is another certified bound on all windows, asked for only if some are left;
        where the far answers meet it, none is.
        """
        rows = range(len(self.rows.position))
        masks = [(self._mask(row, 0), self._mask(row, 1)) for row in rows]
        for row in rows:
            self._try_tails(row, masks[row])
        cap = math.nan
        for row in rows:
            for pair in np.flatnonzero(self.rows.feasible[row]):
                progress.doing("pairs of values compared", int(pair), len(self.value))
                if self._dismissed(row, int(pair), masks[row]):
                    continue
                cap = ceiling() if math.isnan(cap) else cap
                if cap <= self.goal:
                    self.top = max(self.top, cap)
                    return
                self._windows(row, int(pair), masks[row])

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
            if room <= steps:
                mask[room, -1] = True
            elif self.pooled or (self.length is None and side == 1):
                mask[:, -1] = True
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
        columns = masks[0].shape[1]
        for tail, sign in ((0, -1.0), (1, 1.0)):
            sides = []
            for side, which in enumerate(self.rows.which[row]):
                table = self.laws.tails[tail][:, which]  # (T + 1, k + 1, P)
                flat = np.where(masks[side][:, :, None], table, -np.inf)
                flat = flat.reshape(-1, flat.shape[-1])  # (options, P)
                best = []
                for kind in (_KNOWN, _EMPTY, _OPEN):
                    part = np.where((self.kind == kind)[:, None], flat, -np.inf)
                    best.append((part.max(axis=0), part.argmax(axis=0)))
                ends = self.length is not None and self.side_laws.ends[which]
                if ends and self._longer(row, side):
                    far = self._far_tail(row, side, sign / self.scale)
                    better = far > best[_KNOWN][0]
                    place = np.where(better, len(flat) + columns - 1, best[_KNOWN][1])
                    best[_KNOWN] = np.where(better, far, best[_KNOWN][0]), place
                sides.append(best)
            for left, right in np.argwhere(self.together):
                # (P,): in a far answer the sides separate
                value = sign * self.step + sides[0][left][0] + sides[1][right][0]
                value = np.where(self.rows.feasible[row], value, -np.inf)
                pair = int(value.argmax())
                if value[pair] > self.best:
                    at = [
                        divmod(int(sides[i][kind][1][pair]), columns)
                        for i, kind in enumerate((left, right))
                    ]
                    self.best = float(value[pair])
                    self.window = (row, pair, at[0], at[1])
                    self.output = -1 if tail else 0

    def _longer(self, row: int, side: int) -> bool:
        """Return whether nothing known is allowed on a side that is longer than the sweep."""
        return bool(self.rows.open[row, side] and self.rows.room[row, side] > self.side_laws.steps)

    def _far_tail(self, row: int, side: int, rate: float) -> Array:
        """Return what a far answer reveals about an open side longer than the sweep, (P,).

        E[exp(rate F) | x] follows a power iteration, which soon repeats itself.
        """
        which = self.rows.which[row, side]
        kernel, weights = self.side_laws.kernel(1)[which], self.side_laws.weights[which]
        length = self.length or 0
        position = int(self.rows.position[row])
        room = length - 1 - position if side else position
        tilted = kernel * np.exp(rate * self.counted - max(rate, 0.0))  # (k, k)
        message = weights / weights.max()
        for _ in range(min(room, _LONG)):
            moved = tilted @ message
            moved = moved / moved.max()
            settled = np.abs(moved - message).max() <= 4 * ROUNDOFF
            message = moved
            if settled:
                break
        # (P,)
        loss = log_ratio(message[self.value], message[self.other]) - self.prior[-1, which, :, -1]
        return np.where(np.isfinite(loss), loss, -np.inf)

    def _bounds(self, row: int, pair: int, masks: tuple[Bools, Bools]) -> list[tuple[Array, Array]]:
        """Return for each side the bound of every option, and the shift in it, flattened."""
        found = []
        for side in (0, 1):
            shift = self._shifted(row, side, pair, masks[side]).ravel()
            table = self.laws.loss[:, self.rows.which[row, side], :, pair].ravel()
            with np.errstate(invalid="ignore"):
                # (options,)
                bound = np.where(np.isneginf(shift) | np.isneginf(table), -np.inf, table + shift)
            found.append((bound, shift))
        return found

    def _dismissed(self, row: int, pair: int, masks: tuple[Bools, Bools]) -> bool:
        """Return whether no window of the row and pair can exceed the best, raising the top."""
        if any(self._unbounded(row, side, pair) for side in (0, 1)):
            self.top = math.inf
            return True
        (left, _), (right, _) = self._bounds(row, pair, masks)
        ceiling = abs(float(self.step[pair])) + 2 * self.pad + float(left.max() + right.max())
        if ceiling > self.goal and not math.isinf(ceiling):
            return False
        self.top = max(self.top, ceiling)
        return True

    def _windows(self, row: int, pair: int, masks: tuple[Bools, Bools]) -> None:
        """Evaluate the windows of one row and pair that may exceed the best."""
        bounds, shifts = zip(*self._bounds(row, pair, masks), strict=True)
        left, right = (np.flatnonzero(~np.isneginf(part)) for part in bounds)
        base = abs(float(self.step[pair])) + 2 * self.pad
        order = right[np.argsort(-bounds[1][right], kind="stable")]
        most = float(bounds[0].max())
        for place in order:
            reach = base + float(bounds[1][place])
            if reach + most <= self.goal or self.effort <= 0:
                self.top = max(self.top, reach + most)
                return
            with_it = self.together[self.kind[left], self.kind[place]]
            doubtful = left[(bounds[0][left] + reach > self.goal) & with_it]
            if not doubtful.size:
                continue
            self.top = max(self.top, min(self.goal, reach + most))
            losses, outputs = self._evaluate(row, pair, doubtful, int(place))
            moved = losses + shifts[0][doubtful] + shifts[1][place]
            self.top = max(self.top, float(moved.max()) + 2 * self.pad)
            real = masks[0].ravel()[doubtful] & masks[1].ravel()[place]
            best = int(np.where(real, losses, -np.inf).argmax())
            if self.sheltered and real[best] and losses[best] > self.best:
                columns = masks[0].shape[1]
                options = divmod(int(doubtful[best]), columns), divmod(int(place), columns)
                self.best = float(losses[best])
                self.window = (row, pair, options[0], options[1])
                self.output = int(outputs[best])

    def _evaluate(self, row: int, pair: int, left: Ints, right: int) -> tuple[Array, Ints]:
        """Return the losses of windows with one right option, and the answers that show them."""
        width, columns = self.laws.law.shape[-1], self.laws.law.shape[2]
        near, far = int(left.max()) // columns + 1, right // columns + 1
        side_laws = self.rows.which[row]
        tables = []
        for state in (self.value[pair], self.other[pair]):
            # (left options, left counts)
            law = self.laws.law[:, side_laws[0], :, state].reshape(-1, width)[left, :near]
            # (right counts,)
            noisy = self.laws.noisy[:, side_laws[1], :, state].reshape(-1, width)[right, :far]
            reach = _reach(noisy, near, int(self.counted[state]), 1.0 / self.scale)
            tables.append((law, reach))
        least = min(law[np.isfinite(law)].min() + reach.min() for law, reach in tables)
        safe = bool(least > _UNDERFLOW)
        self.effort -= len(left) * near * (near + far) * (1 if safe else _LOGS)
        logs = [_blend(law, reach, safe) for law, reach in tables]
        ratio = logs[0] - logs[1]  # (left options, answers)
        return ratio.max(axis=1), ratio.argmax(axis=1)


def _reach(noisy: Array, near: int, shift: int, rate: float) -> Array:
    """Return ln of the noisy right law at each answer, for each count on the left: (near, answers).

    ``noisy`` covers counts 0 .. len - 1; beyond them it falls off like the noise. The target adds
    ``shift``.
    """
    answers = near + len(noisy)
    place = np.arange(answers)[None, :] - shift - np.arange(near)[:, None]
    inside = np.clip(place, 0, len(noisy) - 1)
    return np.asarray(noisy[inside] - rate * np.abs(place - inside))


def _blend(law: Array, reach: Array, safe: bool) -> Array:
    """Return ln of sum over counts of exp(law + reach), (N, answers): a product if it is safe."""
    if safe:
        return np.asarray(np.log(np.exp(law) @ np.exp(reach)))
    total = np.full((len(law), reach.shape[1]), -np.inf)
    for count in np.flatnonzero(np.isfinite(law).any(axis=0)):
        total = np.logaddexp(total, law[:, count, None] + reach[count])
    return total
