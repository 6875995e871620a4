"""Brackets of the gains of all options on some sides, and what rows of positions make of them."""

from dataclasses import dataclass

import numpy as np

from undertow.bounds.chains.binary import binary_gains
from undertow.bounds.chains.known import Bools, Ints
from undertow.bounds.chains.side_laws import Rows, SideLaws
from undertow.bounds.chains.sweep import Problems, certified, first_span, grid_gains, newton
from undertow.numerics import Array, pad_log, up

__all__ = ["ExchangeAttack", "Sides"]


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
                found = (float(part[place]), (int(first + place[0]), int(place[1])))
                if found[0] > best[0] or not rows.open[row, side]:
                    best = found
            gains.append(best[0])
            options.append(best[1])
        return ExchangeAttack(
            int(rows.position[row]), (self._named(pairs[0]), self._named(pairs[1])),
            (options[0], options[1]), (gains[0], gains[1]),
            self.side_laws, (int(rows.which[row, 0]), int(rows.which[row, 1])),
        )  # fmt: skip

    def _named(self, pair: int) -> tuple[int, int]:
        return int(self.value[pair]), int(self.other[pair])
