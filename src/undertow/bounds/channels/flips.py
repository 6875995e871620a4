"""Leakage of a series that is shown record by record: flips, erasures, or any other channel.

The supremum of the log-ratio of two output laws, over targets, values, known records and outputs.
Two states are solved exactly, few by convex hulls, more by certified bounds from both sides; a
plain forward pass replays the attack (docs, theory: flipped series and redaction).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from undertow.adversaries import Adversary, Against, check_against
from undertow.bounds.channels.hulls import FewStates, Strides
from undertow.bounds.channels.redaction import redaction_leakage
from undertow.bounds.channels.two_states import (
    TAIL,
    ObservedChain,
    Option,
    Reader,
    Rung,
    SeriesAttack,
    TwoStates,
    observe,
)
from undertow.bounds.levels.exchange import exchange_leakage
from undertow.bounds.levels.replay import forward_logs, replay_product
from undertow.bounds.levels.sides import (
    Bools,
    Ints,
    check_inside,
    complete,
    joined,
    log,
    nearest_known,
    neighbours,
    ordered_pairs,
    start_error,
    stated,
    supports,
    witnessed,
)
from undertow.certificate import Leakage, Witness
from undertow.errors import InvalidInput, NotSupported
from undertow.mechanisms import (
    LocalMechanism,
    RandomizedResponse,
    Redaction,
    XorNoise,
)
from undertow.models.chains import MarkovChain
from undertow.numerics import GAP, ROUNDOFF, Array, check_count, log_ratio, up
from undertow.progress import SPENT, spend
from undertow.queries import State

__all__ = [
    "EFFORT",
    "Solved",
    "chain_leakage",
    "channel_leakage",
    "join",
    "join_pairs",
    "local_leakage",
    "worst_attacks",
]


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
        """Return the worst attack over all targets."""
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
        """Return targets, losses of each attack on them (N, O, D), upper ends, and records."""
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
        nearest = self.reader.table(side, most, lambda rung: not near and self._settled(rung, side))
        if near and len(nearest.law) < near:
            spend(math.inf)  # what was read does not reach the known record
        return nearest

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
        parts = []
        for known, free in ((table.known, table.free), (table.known_upper, table.free_upper)):
            # axis 0 is the distance: of a longer open side an attacker may use the nearer outputs
            # alone
            free = np.maximum.accumulate(free, axis=0) if constant else free
            part = np.concatenate([np.zeros((1, *free.shape[1:])), free])[reach]  # (N, O, D)
            if self.everything:
                part = np.maximum(part, self._known(known, side, targets, reach))
            parts.append(part)
        gain, upper = parts
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
        ends = []
        for known in (table.known[distance - 1], table.known_upper[distance - 1]):
            rows = np.broadcast_to(known, (len(targets), *known.shape))  # (N, O, D, V)
            if side < 0:
                back = self.seen[np.maximum(targets - distance, 0)][:, None, None]
                rows = np.where(back, rows, -np.inf)
            ends.append(np.where((room > 0)[:, None, None], rows.max(axis=3), 0.0))
        return ends[0], ends[1]

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
        """Return the largest gain of each target over possible known values within its reach."""
        gains = np.full((len(targets), *known.shape[1:3]), -np.inf)
        for row, (target, far) in enumerate(zip(targets, reach, strict=True)):
            # (t, 1, 1, V), nearest record first, like the distances of `known`
            back = self.seen[target - far : target][::-1][:, None, None]
            gains[row] = np.where(back, known[:far], -np.inf).max(axis=(0, 3), initial=-np.inf)
        return gains

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


EXACT, INTERVAL = "exact", "interval"

SHORT = 64
"""Longest series read to its end against who knows nothing, without a bound on the rest (cost)."""

HULL = 2
"""Hulls are used up to this many states, and one more for each step of effort (cost)."""

CORNERS = 256
"""Corners of a hull that are carried on at no effort; twice as many for each step of it (cost)."""

EFFORT = 2
"""Default effort of the bounds that do not close by themselves; each step doubles the work."""


def local_leakage(
    mechanism: RandomizedResponse | XorNoise,
    chain: MarkovChain,
    against: Against = "any",
    effort: int = EFFORT,
) -> Leakage:
    """Return the leakage of a flipped series on a chain, as a certified interval.

    Two states are exact: O(n) where all steps are alike, O(n W) where they differ, with W records
    until the chain forgets; so is noise that is a chain itself. Up to ``effort`` + 2 states the
    interval closes too, unless a hull of messages is so round that it has to be thinned out.
    Beyond, the bounds from both sides leave a gap of some percent, or none. The method says
    "exact" or "interval" accordingly. The witness names what to see.

    Differs from the paper: Theorem 2 of [chakrabarti2022] claims that knowing nothing is the
    worst case. A record known to have the opposite value is worse.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=5)
    >>> round(local_leakage(RandomizedResponse.binary(.02, .02), chain).upper, 8)
    9.40794154
    """
    if isinstance(mechanism, XorNoise):
        if chain.size != 2:
            raise NotSupported(
                f"noise is added modulo two, but the chain has {chain.size} states; use "
                "RandomizedResponse"
            )
        rho0, rho1 = mechanism.rho0, mechanism.rho1
        # (2,): how often a record is kept, and flipped
        rate = np.array([rho1, rho0]) / (rho0 + rho1)
        observed = ObservedChain(
            chain, np.array([[rate, rate[::-1]]]), chain.length,
            np.array([[1 - rho0, rho0], [rho1, 1 - rho1]]),
        )  # fmt: skip
        return _leakage_of(observed, against, None, chain.states, effort)
    names = mechanism.names(chain.states)
    return channel_leakage(mechanism.matrix, chain, against, outputs=names, effort=effort)


def channel_leakage(
    channels: object,
    chain: MarkovChain,
    against: Against = "any",
    targets: Iterable[int] | None = None,
    *,
    outputs: Sequence[State] | None = None,
    effort: int = EFFORT,
) -> Leakage:
    """Return the leakage of records shown through channels, as a certified interval.

    ``channels`` is one (k, m) matrix for all records or a stack (n, k, m); ``targets`` are the
    records that matter, by default all; ``outputs`` names the m columns (default 0, 1, ...), None
    among them standing for an erased record.

    >>> chain = MarkovChain([[.8, .2], [.2, .8]], length=5)
    >>> round(channel_leakage([[.7, .3], [.3, .7]], chain).upper, 8)
    2.31073677
    """
    observed = observe(chain, channels)
    count = observed.channels.shape[2]
    if outputs is not None and len(outputs) != count:
        raise InvalidInput(f"{count} outputs need {count} names, found {len(outputs)}")
    return _leakage_of(observed, against, targets, outputs or range(count), effort)


def _leakage_of(
    observed: ObservedChain, against: Against, targets: Iterable[int] | None,
    names: Sequence[State],
    effort: int,
) -> Leakage:  # fmt: skip
    """Return the certified leakage of observed records."""
    against = check_against(against)
    wanted = _wanted(observed, against, targets)
    check_count(effort, "effort", 0)
    reduced = observed.chain.visited()
    if reduced is None:
        return _leakage(0.0, 0.0, against, None)
    if reduced.size < observed.size:
        members = [observed.chain.index(state) for state in reduced.states]
        observed = replace(observed, chain=reduced, channels=observed.channels[:, members])
    if observed.noise is None and (observed.channels == observed.channels[:, :1]).all():
        return _leakage(0.0, 0.0, against, None)  # outputs say nothing about any record
    if against == "informed" and observed.noise is None:
        return _conclude(observed, _solve_informed(observed, wanted), against, names)
    solved = _solve(observed, against, wanted, effort)
    bracket = _conclude(observed, solved, against, names)
    if bracket.witness is not None and _diverges(observed, against, wanted is not None):
        return replace(bracket, lower=math.inf, upper=math.inf, method=EXACT)
    return bracket


def _solve(observed: ObservedChain, against: Against, wanted: Ints | None, effort: int) -> Solved:
    """Return the bracket of the worst attack on observed records."""
    if observed.size == 2:
        return join(observed, TwoStates(observed), against, wanted)
    reader = _reader(observed, against, effort)
    solved = replace(join(observed, reader, against, wanted), unfinished=reader.ended)
    if solved.attack is None or (reader.strides is None and math.isfinite(solved.upper)):
        return solved
    return replace(solved, upper=min(solved.upper, _ceiling(observed, against)))


def _reader(observed: ObservedChain, against: Against, effort: int) -> FewStates:
    """Return how the sides of a chain of more than two states are read."""
    short = observed.length is not None and observed.length <= SHORT
    ignorant = against == "ignorant"
    strides = Strides.of(effort, observed.alike) if observed.size > HULL + effort else None
    most = CORNERS * 2**effort
    return FewStates(observed, not (ignorant and short), most, strides, tails=ignorant)


def worst_attacks(
    channel: object, chain: MarkovChain, against: Against = "any", effort: int = EFFORT
) -> list[Witness]:
    """Return the worst attack found on each ordered pair of values, for a search over channels.

    For chains of more than two states whose steps are alike, shown through one (k, k) matrix, and
    adversaries that are no list of records; for others there are none. What they attain is not
    certified here. Cost: as for the leakage, and a few percent of it for each pair.

    >>> chain = MarkovChain([[.8, .1, .1], [.3, .6, .1], [.4, .1, .5]], length=5)
    >>> [(one.value, one.other) for one in worst_attacks(np.eye(3) / 2 + 1 / 6, chain)]
    [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    """
    observed = observe(chain, channel)
    wide = against in ("any", "ignorant") and observed.size > 2
    if not wide or not observed.alike or chain.visited() is not chain:
        return []
    pairs = join_pairs(observed, _reader(observed, against, effort), against)
    return [
        _witness(observed, one.attack, one.outputs, chain.states, against)
        for one in pairs
        if one.attack is not None and one.outputs is not None
    ]


def _ceiling(observed: ObservedChain, against: Against) -> float:
    """Return the bound for all algorithms of the channels' DP level."""
    channels = observed.channels
    level = float(np.nanmax(log_ratio(channels[:, :, None], channels[:, None])))
    if math.isinf(level):
        return level
    chain = observed.chain
    if chain.length != observed.length:
        chain = MarkovChain(chain.transition, chain.states, chain.start, observed.length)
    return exchange_leakage(up(level, 8), chain, against).upper


def _diverges(observed: ObservedChain, against: Against, fixed: bool) -> bool:
    """Return whether the leakage of a two-state chain surely grows without bound with its length.

    It does where the two values never meet (both states are kept for ever, or always left), and,
    unless the targets are ``fixed``, where one state is never left and the other can be kept: a
    late target then has seen long runs of either. Called for channels that say something.
    """
    if observed.size != 2 or observed.length is not None or observed.noise is not None:
        return False
    stay = observed.chain.transition.diagonal()
    apart = stay.min() == 1 or stay.max() == 0
    late = not fixed and stay.max() == 1 and stay.min() > 0
    return not nearest_known(against)[1] and bool(apart or late)


def _wanted(
    observed: ObservedChain, against: Against, targets: Iterable[int] | None
) -> Ints | None:
    """Return the targets asked for, or None for all."""
    named = None if targets is None else sorted({check_count(t, "target", 0) for t in targets})
    if isinstance(against, Adversary):
        if named is not None and against.target not in named:
            raise InvalidInput(
                f"the adversary wants record {against.target}, which is not among the targets"
            )
        named = [against.target]
    if named is None:
        return None
    if not named:
        raise InvalidInput("there are no targets; name at least one record, or leave them out")
    check_inside(against, observed.length, named)
    return np.array(named, dtype=np.int64)


def _solve_informed(observed: ObservedChain, wanted: Ints | None) -> Solved:
    """Return the best own output over all values possible between two known neighbours.

    Where all records are alike, supports repeat early on: the first targets and the last two
    stand for all.
    """
    chain, size = observed.chain, observed.size
    records = observed.length or 3 + 2 * size**2
    if wanted is not None:
        records = max(records, int(wanted.max()) + 1 + (observed.length is None))
    places = range(records) if wanted is None else wanted.tolist()
    if wanted is None and observed.alike and records > 4 + 2 * size**2:
        places = [*range(2 + 2 * size**2), records - 2, records - 1]
    best, attack, shown = -math.inf, None, 0
    for target in places:
        channel = observed.channel(target)
        weight = log_ratio(channel[:, None], channel)  # (x, x', output)
        weight = np.where(np.isnan(weight), -np.inf, weight)
        for known, pairs in neighbours(chain, target, records):
            for x, y in pairs:
                if weight[x, y].max() > best:
                    best, shown = float(weight[x, y].max()), int(weight[x, y].argmax())
                    left, right = (
                        Option(int(place in known), known.get(place))
                        for place in (target - 1, target + 1)
                    )
                    attack = SeriesAttack(target, records, left, right, x, y)
    if attack is None:
        return Solved(0.0)
    return Solved(best, attack, {attack.target: shown})


def _conclude(
    observed: ObservedChain, solved: Solved, against: Against, names: Sequence[State]
) -> Leakage:
    """Replay the attack, round outwards, and name the assumptions."""
    more = (SPENT,) if solved.unfinished else ()
    if solved.attack is None or solved.outputs is None:
        return _leakage(0.0, solved.upper, against, None).with_assumptions(more)
    value = _replayed(observed, solved.attack, solved.outputs)
    # a difference of two logarithms is off by the roundings of the largest
    largest = 1.0 - math.log(float(observed.channels[observed.channels > 0].min()))
    slack = start_error(observed.chain) + 16 * ROUNDOFF * largest
    lower, upper = max(value - slack, 0.0), up(solved.upper, 16) + slack
    witness = _witness(observed, solved.attack, solved.outputs, names, against)
    return _leakage(lower, upper, against, witness).with_assumptions(more)


def _replayed(observed: ObservedChain, attack: SeriesAttack, outputs: dict[int, int]) -> float:
    """Return the log-likelihood ratio of some outputs as the attacker sees it, rounded down.

    Records without an output are summed out; -inf stands for an attack that cannot occur.
    """
    chain, noise, known = observed.chain, observed.noise, attack.known()
    first = attack.target - attack.left.distance
    count = attack.left.distance + 1 + attack.right.distance
    given = {record: (value, value) for record, value in known.items()}
    given[attack.target] = (attack.value, attack.other)
    if noise is None:
        channels, logs = log(observed.channels), np.zeros((count, observed.size))
        for record in outputs.keys() - known.keys():
            logs[record - first] = channels[record % len(channels), :, outputs[record]]
        return replay_product(chain, given, first, logs)
    # hidden states are pairs (state, noise), and Pr[keep], Pr[flip] the law of the noise
    state, flip = np.repeat([0, 1], 2), np.tile([0, 1], 2)
    start = log(np.outer(chain.law(first), observed.channels[0, 0]).ravel())
    moves = chain.transition[None] if chain.homogeneous else chain.transition[first:]
    logs = np.zeros((count, 4))
    for record, output in outputs.items():
        logs[record - first] = np.where(state ^ flip == output, 0.0, -np.inf)
    allowed = {record - first: state == np.array(pair)[:, None] for record, pair in given.items()}
    value = forward_logs(
        start, log(np.array([np.kron(move, noise) for move in moves])), logs, allowed
    )
    return value - 2 * start_error(chain)


def _witness(
    observed: ObservedChain, attack: SeriesAttack, shown: dict[int, int], names: Sequence[State],
    against: Against,
) -> Witness:  # fmt: skip
    """Return the attack on a series with its outputs."""
    known = attack.known()
    if against == "informed":
        known = complete(observed.chain, known, attack.target, attack.length)
    return witnessed(
        observed.chain, attack.target, attack.length, known, (attack.value, attack.other),
        outputs=tuple((record, names[shown[record]]) for record in sorted(shown)),
    )  # fmt: skip


def _leakage(lower: float, upper: float, against: Against, witness: Witness | None) -> Leakage:
    leak = stated(
        EXACT, "extreme messages on a chain (docs, theory)", lower, upper, against, witness
    )
    return leak if leak.closed else replace(leak, method=INTERVAL)


def chain_leakage(
    mechanism: LocalMechanism, chain: MarkovChain, against: Against, effort: int
) -> Leakage:
    """Return the leakage of a local mechanism on a chain.

    >>> chain = MarkovChain([[.9, .1], [.1, .9]], length=5)
    >>> round(chain_leakage(RandomizedResponse.binary(.02, .02), chain, "any", 2).upper, 6)
    9.407942
    """
    if isinstance(mechanism, Redaction):
        return redaction_leakage(mechanism, chain, against)
    if mechanism.inputs != chain.size:
        raise InvalidInput(
            f"the mechanism is for {mechanism.inputs} states, the chain has {chain.size}; they "
            "must agree"
        )
    return local_leakage(mechanism, chain, against, effort)
