"""The sides of all targets joined into the worst attack.

The gain of a side never depends on the other one, so the leakage is the largest sum of left side,
own output and right side over targets and pairs of values. A side is read outwards until nothing
beyond can matter: farther messages are mixtures of those that a known value at this distance
would send, so the largest of these bounds them all; and what farther known values say by
themselves lies between what those at this distance say.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.chains.known import Bools, Ints, joined, nearest_known, ordered_pairs, supports
from undertow.bounds.series.observed import ObservedChain, Option, SeriesAttack
from undertow.bounds.series.rungs import TAIL, Reader, Rung
from undertow.numerics import GAP, Array
from undertow.progress import spend

__all__ = ["Solved", "join", "join_pairs"]

SAME = GAP / 1000
"""Options this close to the best may take its place, so that witnesses are short (lower side)."""


@dataclass(frozen=True, slots=True)
class Solved:
    """A certified upper end, and the attack found with its outputs (None: nothing to attack).

    ``unfinished`` says that the effort ended before the bounds could close.
    """

    upper: float
    attack: SeriesAttack | None = None
    outputs: dict[int, int] | None = None
    unfinished: bool = False


def join(observed: ObservedChain, reader: Reader, against: Against, wanted: Ints | None) -> Solved:
    """Return the largest sum of left side, own output and right side over the wanted targets."""
    rows = _Alike if observed.alike else _Differing
    return rows(observed, reader, against, wanted).solve()


def join_pairs(observed: ObservedChain, reader: Reader, against: Against) -> list[Solved]:
    """Return the worst attack of each ordered pair of values, for records that are all alike.

    The upper end is that of all pairs. A pair that no target can take is left out.
    """
    return _Alike(observed, reader, against, None).each_pair()


class _Rows:
    """Targets and what is asked about them."""

    def __init__(
        self, observed: ObservedChain, reader: Reader, against: Against, wanted: Ints | None
    ) -> None:
        if isinstance(against, Adversary):
            wanted = np.array([against.target])
        self.observed, self.reader, self.against, self.wanted = observed, reader, against, wanted
        self.everything, self.informed = against == "any", against == "informed"
        self.near = dict(zip((-1, 1), nearest_known(against), strict=True))
        self.value, self.other = ordered_pairs(observed.size)

    def possible(self, targets: Ints, seen: Bools) -> tuple[Ints, Array]:
        """Return the targets with two possible values, and their own weights, -inf elsewhere."""
        targets = targets[seen[targets].sum(axis=1) > 1]
        if not targets.size:
            return targets, np.zeros(0)
        both = seen[targets][:, self.value] & seen[targets][:, self.other]  # (N, D)
        return targets, np.where(both[:, None], self.reader.own(targets)[0], -np.inf)

    def conclude(
        self, upper: Array, target: int, length: int, left: Option, right: Option, own: int,
        pair: int,
    ) -> Solved:  # fmt: skip
        """Return the attack with all that it wants to see."""
        attack = SeriesAttack(
            target, length, left, right, int(self.value[pair]), int(self.other[pair])
        )
        shown: dict[int, int] = {}
        for side, option in attack.sides():
            shown |= self.reader.outputs(target, side, option, own, pair)
        shown[target] = int(self.reader.own(np.array([target]))[1][0, own, pair])
        return Solved(float(upper.max()), attack, shown)


class _Differing(_Rows):
    """Steps or channels differ: a row for each target, read as far as any of them needs."""

    def solve(self) -> Solved:
        length = self.observed.length or 2
        seen = supports(self.observed.chain, length)
        targets = np.arange(length) if self.wanted is None else self.wanted
        targets, total = self.possible(targets, seen)
        if not targets.size:
            return Solved(0.0)
        upper, options = total, []
        for side in (-1, 1):
            gain, ceiling, distance, value = self._side(side, targets, seen, total.shape)
            total, upper = joined(total, gain), joined(upper, ceiling)
            options.append((distance, value))
        place = np.unravel_index(int(total.argmax()), total.shape)
        if np.isneginf(total[place]):
            return Solved(0.0)
        row, own, pair = (int(axis) for axis in place)
        left, right = (
            Option(int(d[place]), int(v[place]) if v[place] < self.observed.size else None)
            for d, v in options
        )
        return self.conclude(upper, int(targets[row]), length, left, right, own, pair)

    def _side(
        self, side: int, targets: Ints, seen: Bools, shape: tuple[int, ...]
    ) -> tuple[Array, Array, Ints, Ints]:
        """Return gains, certified gains, and the distance and value of the best option."""
        near, size = self.near[side], self.observed.size
        room = targets if side < 0 else len(seen) - 1 - targets
        best = np.full(shape, -np.inf)
        best[(room == 0) & (near == 0)] = 0.0
        most = near or int(room.max())
        if self.informed:  # who knows the neighbour on every side that has one
            near = most = 1
        raised = best.copy()
        distance, value = np.zeros(shape, dtype=np.int64), np.full(shape, size)
        going = room > 0
        for step, rung in enumerate(self.reader.rungs(side, targets, most), start=1):
            # (N, O, D, V): targets whose side still goes on, and values that can occur so far left
            here = going[:, None, None, None]
            if side < 0:
                here = here & seen[np.maximum(targets - step, 0)][:, None, None]
            tables = []
            for known, free in ((rung.known, rung.free), (rung.known_upper, rung.free_upper)):
                table = np.full((*shape, size + 1), -np.inf)
                if self.everything or near == step:
                    table[..., :size] = np.where(here, known, -np.inf)
                if not near:
                    table[..., size] = np.where(going[:, None, None], free, -np.inf)
                tables.append(table)
            # tables are (N, O, D, V + 1), the last column for nothing known; the best over it is
            # (N, O, D)
            top = tables[0].max(axis=3)
            better = top > best + SAME
            value = np.where(better, tables[0].argmax(axis=3), value)
            distance = np.where(better, step, distance)
            best = np.where(better, top, best)
            raised = np.maximum(raised, tables[1].max(axis=3))
            going = going & (room > step)
            if not near:
                with np.errstate(invalid="ignore"):
                    # (N, O, D)
                    beyond = rung.top - (rung.base if self.everything else rung.law)[:, None]
                # farther messages are mixtures of those that the values here would send: `top`
                # bounds them
                enough = going & (beyond <= raised + TAIL).all(axis=(1, 2))
                raised[enough] = np.maximum(raised, beyond)[enough]
                going = going & ~enough
            if not going.any():
                break
        return best, raised, distance, value


class _Alike(_Rows):
    """All steps and channels are alike: one table of distances serves every target."""

    def solve(self) -> Solved:
        targets, total, upper, records = self._totals()
        if not targets.size or np.isneginf(total.max()):
            return Solved(0.0)
        return self._attack(targets, total, upper, records)

    def each_pair(self) -> list[Solved]:
        targets, total, upper, records = self._totals()
        if not targets.size:
            return []
        pairs = np.flatnonzero(total.max(axis=(0, 1)) > -np.inf)  # (D,), of those that can occur
        alone = np.arange(total.shape[2])[:, None] == pairs  # (D, pairs)
        return [
            self._attack(targets, np.where(only, total, -np.inf), upper, records)
            for only in alone.T
        ]

    def _totals(self) -> tuple[Ints, Array, Array, int]:
        """Return the targets, what each attack on them tells (N, O, D), upper ends, and records."""
        observed, length = self.observed, self.observed.length
        self.given = not isinstance(observed.chain.start, str)
        self.tables = {-1: self._read(-1)}
        mirrored = self.reader.mirrored and not self.given and self.near[-1] == self.near[1]
        self.tables[1] = self.tables[-1] if mirrored else self._read(1)
        self.laws, self.doubt = self.reader.laws((length or 1) if self.given else 1)
        targets, records = self._targets()
        if self.given and length is None:
            self.laws, self.doubt = self.reader.laws(records)
        self.seen = supports(observed.chain, records)
        targets, total = self.possible(targets, self.seen)
        upper = total
        for side in (-1, 1) if targets.size else ():
            gain, ceiling = self._side(side, targets, records)
            total, upper = joined(total, gain), joined(upper, ceiling)
        return targets, total, upper, records

    def _attack(self, targets: Ints, total: Array, upper: Array, records: int) -> Solved:
        """Return the earliest of the worst attacks."""
        length, best = self.observed.length, total.max()
        early = (total == best) | (total >= best - SAME)  # (N, O, D)
        row, own, pair = (int(axis) for axis in np.argwhere(early)[0])
        target = int(targets[row])
        left = self._option(-1, target, target, own, pair)
        right = self._option(1, target, records - 1 - target, own, pair)
        if length is None:
            if not self.given and self.wanted is None:
                target = left.distance
            records = max(target + right.distance + 1, 2)
        return self.conclude(upper, target, records, left, right, own, pair)

    def _targets(self) -> tuple[Ints, int]:
        """Return the targets to look at, and how many records there are for them.

        Of a chain of any length, one target far from both ends stands for all of them, or with a
        given start the last one for all later ones.
        """
        length = self.observed.length
        left, right = len(self.tables[-1].law), len(self.tables[1].law)
        if length is not None:
            moving = np.flatnonzero((self.laws[1:] != self.laws[:-1]).any(axis=1))
            left = max(left, int(moving[-1]) + 1 if moving.size else 0) + self.observed.size**2
            targets = np.arange(length) if self.wanted is None else self.wanted
            if self.wanted is None and length > left + right + 8:
                targets = np.r_[: left + 2, length - right - 2 : length]  # the middle is all alike
                self.doubt = np.full_like(self.doubt, self.doubt.max())
            return targets, length
        if self.wanted is not None:
            return self.wanted, int(self.wanted.max()) + right + 2
        more = 4 + self.observed.size**2
        return np.arange(left + more) if self.given else np.array(
            [left + 1]
        ), left + right + 2 * more

    def _read(self, side: int) -> Rung:
        """Return the gains by distance, as far as needed."""
        near, length = self.near[side], self.observed.length
        most = near or (self.reader.longest if length is None else length - 1)
        if self.informed:
            most = 1
        found = self.reader.table(side, most, lambda rung: not near and self._settled(rung, side))
        if near and len(found.law) < near:
            spend(math.inf)  # what was read does not reach the known record
        return found

    def _settled(self, table: Rung, side: int) -> bool:
        """Return whether nothing beyond the last distance can matter.

        Either what lies beyond is bounded by what was found, or all messages agree by now, and so
        does all that a known value, or the law of the target, can say.
        """
        top, base = table.top[-1], table.base[-1]
        given = side < 0 and self.given
        with np.errstate(invalid="ignore"):
            narrow = bool((top - table.law[-1] <= table.free_upper[-1] + TAIL).all())
            mirror = np.lexsort((self.value, self.other))  # (D,): the place of (x', x)
            forgotten = bool((-base[mirror] - base <= TAIL).all())
            if not self.everything:
                return narrow and (forgotten or not given)
            known, free = table.known_upper, table.free_upper[-1]
            if given:
                late = supports(self.observed.chain, 4 + self.observed.size**2)[-1]
                known, free = np.where(late, known, -np.inf), -np.inf
            best = np.maximum(known.max(axis=(0, 3)), free)  # (O, D)
            below = bool((top - base <= best + TAIL).all())
        return below or (narrow and forgotten)

    def _side(self, side: int, targets: Ints, records: int) -> tuple[Array, Array]:
        """Return gains and certified gains (N, O, D) of one side of all targets."""
        table, near = self.tables[side], self.near[side]
        room = targets if side < 0 else records - 1 - targets
        if near or self.informed:
            return self._fixed(side, targets, room, near or 1)
        steps = len(table.law)
        constant = side > 0 or not self.given  # an open side depends on its length alone
        reach = np.minimum(room, steps)
        found = []
        for known, free in ((table.known, table.free), (table.known_upper, table.free_upper)):
            # axis 0 is the distance: of a longer open side an attacker may use the nearer outputs
            # alone
            free = np.maximum.accumulate(free, axis=0) if constant else free
            part = np.concatenate([np.zeros((1, *free.shape[1:])), free])[reach]  # (N, O, D)
            if self.everything:
                part = np.maximum(part, self._known(known, side, targets, reach))
            found.append(part)
        gain, upper = found
        far = (room > steps)[:, None, None]
        if far.any():
            base = np.tile(table.base[-1], (len(targets), 1))  # (N, D)
            if not self.everything:
                law = table.law[[-1] * len(targets)]
                if not constant:
                    law = self.laws[targets] - self.doubt[targets][:, None]
                rest = self.observed.length is None and not constant and self.wanted is None
                base = np.concatenate([law[:-1], base[-1:]]) if rest else law
            with np.errstate(invalid="ignore"):
                beyond = table.top[-1] - base[:, None]
            # (N, O, D) of the sides longer than the table; inf - inf proves nothing
            beyond = np.where(np.isnan(beyond), np.inf, beyond)
            upper = np.where(far, np.maximum(upper, beyond), upper)
            if not constant:
                gain = np.where(far, np.minimum(beyond, upper), gain)
        return gain, upper

    def _fixed(self, side: int, targets: Ints, room: Ints, distance: int) -> tuple[Array, Array]:
        """Return gains and certified gains where the nearest known record is given."""
        table = self.tables[side]
        found = []
        for known in (table.known[distance - 1], table.known_upper[distance - 1]):
            rows = np.broadcast_to(known, (len(targets), *known.shape))  # (N, O, D, V)
            if side < 0:
                back = self.seen[np.maximum(targets - distance, 0)][:, None, None]
                rows = np.where(back, rows, -np.inf)
            found.append(np.where((room > 0)[:, None, None], rows.max(axis=3), 0.0))
        return found[0], found[1]

    def _known(self, known: Array, side: int, targets: Ints, reach: Ints) -> Array:
        """Return the best gain over known records within reach, (N, O, D)."""
        nothing = np.full((1, *known.shape[1:3]), -np.inf)
        if side > 0 or not self.given:
            best = np.concatenate([nothing, np.maximum.accumulate(known.max(axis=3), axis=0)])
            return np.asarray(best[reach])
        changes = np.flatnonzero((self.seen != self.seen[-1]).any(axis=1))
        early = int(changes[-1]) + 1 if changes.size else 0
        if early > 2 * self.observed.size**2 + 2:  # supports that keep changing: one by one
            return self._masked(known, targets, reach)
        # (t, O, D): records from `early` on can have the states that the last one can
        late = np.where(self.seen[-1], known, -np.inf).max(axis=3)
        best = np.concatenate([nothing, np.maximum.accumulate(late, axis=0)])
        result = best[np.clip(targets - early, 0, len(known))]
        for record in range(early):
            step = targets - record
            here = (step >= 1) & (step <= len(known))
            gain = np.where(self.seen[record], known, -np.inf).max(axis=3)  # (t, O, D)
            result[here] = np.maximum(result[here], gain[step[here] - 1])
        return np.asarray(result)

    def _masked(self, known: Array, targets: Ints, reach: Ints) -> Array:
        result = np.full((len(targets), *known.shape[1:3]), -np.inf)
        for row, (target, far) in enumerate(zip(targets, reach, strict=True)):
            # (t, 1, 1, V), nearest record first, like the distances of `known`
            back = self.seen[target - far : target][::-1][:, None, None]
            result[row] = np.where(back, known[:far], -np.inf).max(axis=(0, 3), initial=-np.inf)
        return result

    def _option(self, side: int, target: int, room: int, own: int, pair: int) -> Option:
        """Return the nearest option that attains the best gain of a side."""
        table, near, size = self.tables[side], self.near[side], self.observed.size
        if self.informed:
            near = min(room, 1)
        reach = near or min(room, len(table.law))
        if not reach:
            return Option(0)
        grid = np.full((reach, size + 1), -np.inf)  # (distance, known value or open)
        grid[:, :size] = table.known[:reach, own, pair]
        if side < 0 and self.given:
            back = self.seen[target - reach : target][::-1]
            grid[:, :size] = np.where(back, grid[:, :size], -np.inf)
        if near:
            return Option(near, int(grid[near - 1].argmax()))
        if not self.everything:
            grid[:, :size] = -np.inf
        if side > 0 or not self.given:
            grid[:, size] = table.free[:reach, own, pair]
        else:
            grid[-1, size] = table.free[reach - 1, own, pair]
            if room > reach:
                grid[-1, size] = table.top[-1, own, pair] - self.laws[target, pair]
        best = grid.max()
        step, value = np.argwhere((grid == best) | (grid >= best - SAME))[0]
        return Option(int(step) + 1, int(value) if value < size else None)
