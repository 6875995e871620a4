"""Branch and bound over the windows of a noisy count: bounds first, evaluation where needed.

A window is bounded by its sides: by the sum of their losses and of the target's own step, the
target counted apart or with either side. What lies beyond the sweep's last step, the *frontier*, is
bounded by inserting the record z there: with A_z(s) and B_z(s) the likelihoods of an answer under
the two values, given z, and ln Q(x, z) / Q(x', z) oscillating by o over z,

    loss <= max over s and z of ln A_z(s) / B_z(s)  +  drift(o, r + h),

r the oscillation over z of ln A_z(s), or of ln B_z(s), for the worst answer s. The records beyond z
are counted too: h bounds what the count of z and all of them tells about z.
"""

import math
from collections.abc import Callable

import numpy as np

from undertow import progress
from undertow.bounds.chains.known import Bools, Ints
from undertow.bounds.chains.side_laws import Rows, SideLaws
from undertow.bounds.chains.window_losses import Laws, drift
from undertow.bounds.chains.window_pairs import Numbers, OptionSide, PairWindows
from undertow.numerics import GAP, ROUNDOFF, Array, log_ratio

__all__ = ["WindowSearch"]

EFFORT = 4_000_000_000
"""Multiplications spent on windows before the remaining ones keep their bound."""

_LONG = 20_000
"""Most steps of the power iteration behind a lower end (cost)."""

_ROUNDS = 6
"""How often a bound that depends on itself is improved."""

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

    def glance(self) -> None:
        """Look at far answers alone, and note what the sums of the sides leave in doubt."""
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
    def hopeless(self) -> bool:
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
                        worst = table[side.edge].max() + drift(side.wave, wave + side.told)
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

    def side(self, row: int, side: int, pair: int) -> OptionSide:
        """Return one side of a pair: the possible options, and what lies beyond them."""
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
            (moved[0], moved[1]), shift[edge], float(self.spread[which, pair]), self._told(which),
        )  # fmt: skip

    def _told(self, which: int) -> float:
        """Return what the count of a record and all beyond it on a side tells about that record.

        The largest loss of one side with its target: inside the sweep, or beyond its frontier,
        which again depends on what is told. inf where every record has a side of its own.
        """
        if len(self.side_laws.weights) > 2:
            return math.inf
        if which in self.hints:
            return self.hints[which]
        laws, steps, told = self.laws, self.side_laws.steps, math.inf
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
        for _ in range(_ROUNDS):
            beyond = np.where(np.isinf(spread), 0.0, edge) + drift(spread, wave + told)
            told = max(0.0, float(np.maximum(inside, beyond).max())) + 4 * self.pad
        self.hints[which] = told
        return told

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
