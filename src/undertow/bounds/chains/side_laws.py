"""The geometry of attacks on a chain: sides from a target, options on a side, rows of positions.

A *side law* is that of one side of a target, read outwards. There the attacker has *options*: the
nearest known record lies at distance t and has value v, or nothing is known (open) and exactly m
records follow. With the outward kernel K (the transition matrix to the right, its transpose to
the left) the products Q_t = K^t give every probability needed:

    known v at distance t:   Pr proportional to Q_t[x, v]
    open with m records:     Pr proportional to Q_m[x] . h,   h = ones (right), the start (left)

both up to the law of the target itself, which cancels between the two sides. A *row* is a
position of the target together with the options that its room and the adversary allow.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.chains.known import (
    Bools,
    Ints,
    check_inside,
    extremes,
    nearest_known,
    ordered_pairs,
    support_cycle,
    supports,
)
from undertow.models.markov import MarkovChain
from undertow.numerics import GAP, MAX_STEPS, ROUNDOFF, Array, log_ratio, pad_log
from undertow.progress import metered, spend

__all__ = [
    "Rows",
    "SideLaws",
    "build_positions",
    "build_rows",
    "build_side_laws",
    "choose_steps",
    "deepest_steps",
    "positions",
    "start_error",
]


@dataclass(frozen=True, slots=True)
class SideLaws:
    """B sides of up to T records each.

    ``kernels`` has shape (T, B, k, k), or (1, B, k, k) when every step is the same;
    ``products`` (T + 1, B, k, k); ``weights`` (B, k), the h of an open which; ``ends`` (B,), true
    where ``weights`` is also the law at step T of a longer which (so that an output that ignores
    what lies beyond T is an output on the longer side).
    """

    kernels: Array
    products: Array
    weights: Array
    ends: Bools

    @property
    def steps(self) -> int:
        """The number of records swept, T."""
        return len(self.products) - 1

    def kernel(self, step: int) -> Array:
        """Return the kernels of the given step (1 .. T) of all sides, (B, k, k)."""
        return np.asarray(self.kernels[0 if len(self.kernels) == 1 else step - 1])

    def log_prior(self, value: Ints, other: Ints) -> Array:
        """Return ln Q_t[x, v] / Q_t[x', v] and, last, ln of the open masses: (T, B, P, k + 1).

        NaN marks options at which one of the two values is impossible.
        """
        # (T + 1, B, k, 1)
        masses = np.einsum("tbxv,bv->tbx", self.products, self.weights)[..., None]
        table = np.concatenate([self.products, masses], axis=3)[1:]  # (T, B, k, k + 1)
        upper, lower = table[:, :, value], table[:, :, other]  # (T, B, P, k + 1)
        ratio = log_ratio(upper, lower)
        ratio[(upper <= 0) | (lower <= 0)] = np.nan
        return ratio

    def tail_range(self, value: Ints, other: Ints) -> tuple[Array, Array]:
        """Return the extremes over z of ln Q_T[x, z] / Q_T[x', z], each (B, P), rounded outwards.

        Every option beyond T has a prior ratio between them; +-inf where a state can be reached
        from one value alone.
        """
        last = self.products[-1]
        ratio = log_ratio(last[:, value], last[:, other])  # (B, P, z)
        pad = pad_log(self.steps, ratio.shape[-1])
        low, high = extremes(ratio, axis=2)
        return low - pad, high + pad


@dataclass(frozen=True, slots=True)
class Rows:
    """Positions of the target and what the adversary may do on either side of each.

    Pairs are those of `ordered_pairs`. Index 0 of the second axis is the left side, 1 the right.
    ``room`` counts the records on a side, capped at T + 1 ("more than T"); known records may lie
    at distances ``first`` .. ``last`` (none if last < first); ``open`` says whether nothing known
    is allowed.
    ``feasible`` (rows, P) tells which pairs of values the target can take there, and ``seen``
    (places, k), where given, which states can occur at each place; ``place`` is the position, or
    one that looks like it. Of a window of records, ``position`` and the left side are those of its
    first record, the right side that of its last one, which can take the pairs ``parting``.
    """

    position: Ints
    place: Ints
    which: Ints
    room: Ints
    first: Ints
    last: Ints
    open: Bools
    feasible: Bools
    seen: Bools | None = None
    parting: Bools | None = None

    def part(self, pairs: Ints) -> "Rows":
        """Return the rows for some of the pairs."""
        parting = None if self.parting is None else self.parting[:, pairs]
        return replace(self, feasible=self.feasible[:, pairs], parting=parting)

    def sides(self) -> Iterator[tuple[int, int, int, int, int, int, bool]]:
        """Yield row, side, which, room, first, last and open of both sides of every row."""
        for row, side in np.ndindex(*self.room.shape):
            at = row, side
            yield (
                row, side, int(self.which[at]), int(self.room[at]), int(self.first[at]),
                int(self.last[at]), bool(self.open[at]),
            )  # fmt: skip


SMALLEST = 1e-200
"""Probability below which a sweep ends: beyond, possible options would underflow."""


@metered(16)
def deepest_steps(chain: MarkovChain, most: int) -> int:
    """Return how many steps, up to ``most``, no probability on the way falls below `SMALLEST`."""
    product, steps = chain.transition, 1
    while steps < most and product[product > 0].min() >= SMALLEST:
        spend(product.size * chain.size, 0.3)
        product, steps = product @ chain.transition, steps + 1
    return steps


@metered(4)
def build_side_laws(chain: MarkovChain, steps: int) -> SideLaws:
    """Return the left which (0) and the right which (1) of a homogeneous chain."""
    kernels = np.stack([chain.transition.T, chain.transition])[None]  # (1, B, k, k)
    products = np.empty((steps + 1, 2, chain.size, chain.size))
    products[0] = np.eye(chain.size)
    for step in range(steps):
        spend(2 * chain.size**3, 0.1)
        products[step + 1] = products[step] @ kernels[0]
    weights = np.stack([chain.initial, np.ones(chain.size)])  # (B, k)
    stationary = isinstance(chain.start, str)
    return SideLaws(kernels, products, weights, np.array([stationary, True]))


def positions(chain: MarkovChain, against: Against, window: int = 1) -> Ints:
    """Return the targets of a chain whose steps differ: all records, or that of an adversary.

    Of a window its first record.
    """
    every = np.arange(len(chain.transition) + 2 - window)
    return every[against.target :][:1] if isinstance(against, Adversary) else every


def build_positions(
    chain: MarkovChain, positions: Ints, most: int, against: Against, full: bool = False,
    window: int = 1,
) -> tuple[SideLaws, Rows]:  # fmt: skip
    """Return left sides of all positions, then right sides, and one row for each position.

    For a chain whose steps differ. The sweep ends where the far records add less than the gap
    tolerance, unless ``full``; at ``most`` steps in any case. A position is the first record of a
    ``window``.
    """
    records = chain.transition.shape[0] + 1
    value, other = ordered_pairs(chain.size)
    count, ends = len(positions), positions + window - 1
    room = np.concatenate([positions, records - 1 - ends])  # (B,)
    kernels: list[Array] = []
    products: list[Array] = [np.tile(np.eye(chain.size), (2 * count, 1, 1))]
    while len(kernels) < most:
        step = len(kernels) + 1
        left = np.clip(positions - step, 0, records - 2)
        right = np.clip(ends + step - 1, 0, records - 2)
        kernels.append(
            np.concatenate([chain.transition[left].transpose(0, 2, 1), chain.transition[right]])
        )
        products.append(products[-1] @ kernels[-1])
        longer = room > step
        if not longer.any() or products[-1][products[-1] > 0].min() < SMALLEST:
            break
        far = products[-1][longer]  # (sides that go on, k, k)
        if not full and _spread(far[:, value], far[:, other]) <= GAP / 4:
            break
    weights = np.ones((2 * count, chain.size))
    weights[:count] = chain.marginals(records)[np.maximum(positions - len(kernels), 0)]
    steady = np.ones(2 * count, dtype=bool)
    side_laws = SideLaws(np.array(kernels), np.array(products), weights, steady)
    check_inside(against, chain.length)
    left, seen = np.arange(count), supports(chain, records)
    which = np.stack([left, count + left], axis=1)  # (rows, 2): the sides of each position
    right = records - 1 - ends
    rows = _rows(against, len(kernels), positions, right, which, seen, positions, ends, window)
    return side_laws, rows


def _spread(numerator: Array, denominator: Array) -> float:
    """Return the largest oscillation of ln numerator/denominator along the last axis."""
    low, high = extremes(log_ratio(numerator, denominator), axis=-1)
    if np.isinf(high).any() or np.isinf(low).any():
        return float("inf")
    return float((high - low).max())


@metered(16)
def choose_steps(chain: MarkovChain, against: Against) -> int:
    """Return how many records to sweep so that the far ones add less than the gap tolerance.

    For a homogeneous chain the smallest T at which ln Q_T[x, .]/Q_T[x', .] oscillates by less
    than a quarter of `GAP` on both sides and all pairs, doubling-searched; at most the length
    minus one and `MAX_STEPS`. Where no T does (supports that never merge) a chain of any length
    is swept briefly, because no finite tail bound exists.
    """
    most = MAX_STEPS if chain.length is None else min(chain.length - 1, MAX_STEPS)
    if not chain.homogeneous:
        return most
    check_inside(against, chain.length)
    least = max(nearest_known(against))
    value, other = ordered_pairs(chain.size)
    powers = np.stack([chain.transition.T, chain.transition])  # (B, k, k)
    apart, worst = 0, slice(0, 0)
    product, steps = powers, 1
    while steps < most:
        spend(2 * chain.size**3, 1)
        product, steps = product @ powers, steps + 1
        possible = product > 0
        if product.min(where=possible, initial=1.0) < SMALLEST:
            return steps
        # some ratio is infinite
        if not possible.all() and (possible.any(axis=1) != possible.all(axis=1)).any():
            apart, spread = apart + 1, float("inf")
        else:
            with np.errstate(divide="ignore"):
                logs = np.log(product)
            # all pairs only where the worst one so far does not keep the chain apart by itself
            spread, _ = _oscillation(logs, value[worst], other[worst])
            if spread <= GAP / 4:
                spread, place = _oscillation(logs, value, other)
                worst = slice(place, place + 1)
        settled = spread <= GAP / 4 or (chain.length is None and apart > max(64, chain.size**2))
        if settled and steps >= least:
            return steps
    return most


def _oscillation(logs: Array, value: Ints, other: Ints) -> tuple[float, int]:
    """Return how much logs[:, x] - logs[:, x'] varies at most, and the pair where it does."""
    if not len(value):
        return 0.0, 0
    with np.errstate(invalid="ignore"):
        spend(8 * len(value) * logs.size / len(logs[0]))
        ratios = logs[:, value] - logs[:, other]  # (B, P, k): NaN where both are impossible
    swing = np.fmax.reduce(ratios, axis=-1) - np.fmin.reduce(ratios, axis=-1)  # (B, P)
    worst = np.fmax.reduce(swing, axis=0, initial=0.0)
    return float(worst.max()), int(worst.argmax())


def start_error(chain: MarkovChain) -> float:
    """Return by how much a leakage may rise for the rounding of the stationary law.

    Elimination without subtractions computes every entry to a relative error of order k^3
    roundings; an open left side feels it twice. A given start counts as exact.
    """
    return 4.0 * chain.size**3 * ROUNDOFF if isinstance(chain.start, str) else 0.0


@metered(16)
def build_rows(
    chain: MarkovChain, steps: int, against: Against, ends: bool = False, window: int = 1
) -> Rows:
    """Return the rows of a homogeneous chain, all of whose states are visited.

    Where the gain of an open side grows with its length, as for all epsilon-DP algorithms, a
    target far from both ends stands for all; ``ends`` asks for the rows near the ends as well.
    """
    beyond = steps + 1
    # (positions of a target, or of the first record of a window; None for no last one)
    length = None if chain.length is None else chain.length - window + 1
    side_laws = np.array([[0, 1]])
    if isinstance(against, Adversary):
        check_inside(against, chain.length)
        target = np.array([against.target])
        first = max(against.target - beyond, 0)
        seen, after = supports(chain, against.target + window, first), target - first
        right = np.full(1, beyond) if length is None else length - 1 - target
        return _rows(
            against, steps, target, right, side_laws, seen, after, after + window - 1, window
        )
    seen, period = np.ones((1, chain.size), dtype=bool), 1
    if not isinstance(chain.start, str):
        # a position past the last row looks, `beyond` records back, like one a few periods earlier
        once, period = support_cycle(chain)
        seen = supports(chain, len(once) + 1 + beyond + period)
    given = len(seen) > 1
    early = len(seen) if given else beyond + 1
    if length is None:
        left = np.arange(early) if given else np.array([beyond])
        right = np.full(len(left), beyond)
    else:
        left = np.arange(min(length, early))
        if ends or length <= 2 * beyond + 1:
            left = np.unique(np.concatenate([left, np.arange(max(0, length - early), length)]))
        elif not given:
            left = np.array([length // 2])
        right = length - 1 - left
    last = len(seen) - period

    def alike(records: Ints) -> Ints:
        # past the last row states repeat
        return np.where(records < len(seen), records, last + (records - len(seen)) % period)

    which = np.tile(side_laws, (len(left), 1))
    after = alike(left + window - 1)
    return _rows(against, steps, left, right, which, seen, alike(left), after, window)


def _rows(
    against: Against, steps: int, left: Ints, right: Ints, which: Ints, seen: Bools, place: Ints,
    after: Ints, window: int,
) -> Rows:  # fmt: skip
    """Return rows with so many records left and right, from what the adversary may know there.

    ``after`` is the place of the last record of a window, ``place`` that of its first.
    """
    value, other = ordered_pairs(seen.shape[1])
    room = np.stack([left, right], axis=1)  # (rows, sides)
    first, last, free = np.ones_like(room), np.zeros_like(room), np.ones(room.shape, dtype=bool)
    if isinstance(against, Adversary):
        last = np.array([nearest_known(against, window)])  # (1, sides)
        first, free = np.maximum(last, 1), last == 0
    elif against == "any":
        last = room
    room, first, last = (np.minimum(part, steps + 1) for part in (room, first, last))
    feasible = seen[place][:, value] & seen[place][:, other]  # (rows, P)
    parting = seen[after][:, value] & seen[after][:, other] if window > 1 else None
    some = None if seen.all() else seen
    return Rows(left, place, which, room, first, last, free, feasible, some, parting)
