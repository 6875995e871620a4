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

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.certificate import Leakage, Witness
from undertow.errors import Contradiction, InvalidInput
from undertow.models.chains import MarkovChain
from undertow.numerics import GAP, MAX_STEPS, ROUNDOFF, Array, log_ratio, pad_log
from undertow.progress import metered, spend

__all__ = [
    "SHOWN",
    "Bools",
    "Ints",
    "Rows",
    "SideLaws",
    "build_positions",
    "build_rows",
    "build_side_laws",
    "check_inside",
    "choose_steps",
    "complete",
    "deepest_steps",
    "extremes",
    "far_supports",
    "informed_targets",
    "joined",
    "log",
    "nearest_known",
    "neighbours",
    "ordered_pairs",
    "positions",
    "start_error",
    "stated",
    "support_cycle",
    "supports",
    "witnessed",
]


Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
Ints = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

SHOWN = 256
"""Longest series whose known records are all listed; beyond, only the nearest, which matter."""


def log(values: Array) -> Array:
    """Return the logarithm, -inf at 0 without a warning.

    >>> log(np.array([1.0, 0.0]))
    array([  0., -inf])
    """
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def ordered_pairs(size: int) -> tuple[Ints, Ints]:
    """Return all ordered pairs of distinct states as two index arrays.

    >>> ordered_pairs(2)
    (array([0, 1]), array([1, 0]))
    """
    value, other = np.nonzero(~np.eye(size, dtype=bool))
    return value.astype(np.int64), other.astype(np.int64)


def joined(*parts: Array) -> Array:
    """Return what the sides of a target and its own output give together.

    Given the target they are independent, so their logarithms add; what cannot occur on one of
    them (-inf) cannot occur at all, however much another gives.

    >>> joined(np.array([1.0, -np.inf]), np.array([2.0, np.inf]))
    array([  3., -inf])
    """
    never = np.isneginf(parts).any(axis=0)  # one impossible part makes the whole impossible
    return np.asarray(
        sum(np.where(never, 0.0, part) for part in parts) + np.where(never, -np.inf, 0.0)
    )


@lru_cache(maxsize=16)
def support_cycle(chain: MarkovChain) -> tuple[Bools, int]:
    """Return which states can occur at the first records, (records, k), and the period.

    Of one transition matrix the rows end before the first that came before, ``period`` rows
    earlier; where the steps differ there is a row for each record, and no period (0).
    """
    rows, first = [chain.initial > 0], dict[bytes, int]()
    while rows[-1].tobytes() not in first:
        if chain.homogeneous:
            first[rows[-1].tobytes()] = len(rows) - 1
        elif len(rows) > len(chain.transition):
            return np.array(rows), 0
        rows.append((rows[-1].astype(float) @ (chain.step(len(rows) - 1) > 0)) > 0)
    return np.array(rows[:-1]), len(rows) - 1 - first[rows[-1].tobytes()]


def supports(chain: MarkovChain, end: int, first: int = 0) -> Bools:
    """Return which states can occur at records first .. end - 1, (records, k).

    Arrows are followed, not probabilities, so nothing underflows.

    >>> supports(MarkovChain([[.5, .5], [0, 1]], start=[1, 0]), 3)
    array([[ True, False],
           [ True,  True],
           [ True,  True]])
    """
    rows, period = support_cycle(chain)
    place, count = np.arange(first, end), len(rows)
    if period:
        # past the last row they repeat
        place = np.where(place < count, place, count - period + (place - count) % period)
    return np.asarray(rows[place])


def far_supports(matrix: Array) -> Bools:
    """Return which states a transition matrix leads to in the long run, (from, to).

    After at least k^2 steps. Past k^2 - 2 k + 2 of them all moves are possible, or never will be;
    and supports of two rows that have met stay joined.

    >>> far_supports(np.array([[0, 1], [1, 0]]))
    array([[ True, False],
           [False,  True]])
    """
    far, steps = matrix > 0, 1
    while steps < len(matrix) ** 2:
        far, steps = (far.astype(float) @ far.astype(float)) > 0, 2 * steps
    return np.asarray(far)


def nearest_known(against: Against, window: int = 1) -> tuple[int, int]:
    """Return how far an explicit attacker's nearest known records are, left and right, 0 for none.

    From the first and from the last record of the ``window`` that is wanted, none of it known.

    >>> nearest_known(Adversary(3, [0, 1, 8])), nearest_known("any")
    ((2, 5), (0, 0))
    >>> nearest_known(Adversary(3, [0, 1, 8]), window=4)
    (2, 2)
    """
    if not isinstance(against, Adversary):
        return 0, 0
    gaps = [record - against.target for record in against.known]
    left, right = (-gap for gap in gaps if gap < 0), (gap - window + 1 for gap in gaps if gap > 0)
    return min(left, default=0), min(right, default=0)


def check_inside(against: Against, records: int | None, targets: Iterable[int] = ()) -> None:
    """Refuse targets and known records beyond the last record; None stands for no last one."""
    named = (against.target, *against.known) if isinstance(against, Adversary) else ()
    last = max((*named, *targets), default=-1)
    if records is not None and last >= records:
        raise InvalidInput(
            f"record {last} is outside: the chain has {records} records, counted from 0"
        )


def complete(chain: MarkovChain, known: dict[int, int], target: int, length: int) -> dict[int, int]:
    """Return the known records with all others outside the nearest ones filled in.

    Any values will do that can occur together with the nearest ones. Longer series than `SHOWN`
    are left alone.

    >>> complete(MarkovChain([[.9, .1], [.2, .8]]), {3: 1}, target=1, length=6)
    {3: 1, 4: 1, 5: 1}
    """
    path = dict(known)
    if length <= SHOWN:
        left = max((record for record in known if record < target), default=0)
        right = min((record for record in known if record > target), default=length)
        for record in range(left - 1, -1, -1):
            # (k,): Pr[state, the next one], any positive one will do
            back = chain.law(record) * chain.step(record)[:, path[record + 1]]
            path[record] = int(back.argmax())
        for record in range(right + 1, length):
            path[record] = int(chain.step(record - 1)[path[record - 1]].argmax())
    return dict(sorted(path.items()))


def neighbours(
    chain: MarkovChain, target: int, records: int
) -> Iterator[tuple[dict[int, int], list[tuple[int, int]]]]:
    """Yield what the neighbours of a target may be known to be, and the pairs of values left.

    Whoever knows all other records knows both neighbours, and nothing beyond them matters.
    """
    inside = chain.initial > 0
    lefts: list[tuple[dict[int, int], Bools]] = [({}, inside)]
    if target:
        before = np.flatnonzero(supports(chain, target, target - 1)[0])
        lefts = [({target - 1: int(u)}, chain.step(target - 1)[u] > 0) for u in before]
    rights: list[tuple[dict[int, int], Bools]] = [({}, np.ones_like(inside))]
    if target < records - 1:
        rights = [({target + 1: v}, chain.step(target)[:, v] > 0) for v in range(chain.size)]
    for left, ahead in lefts:
        for right, back in rights:
            yield left | right, [*permutations(np.flatnonzero(ahead & back).tolist(), 2)]


def informed_targets(chain: MarkovChain) -> Iterator[Witness]:
    """Yield, for every pair of values that a target can take between known neighbours, one target.

    A pair may be possible at an end of the series alone, or only early on; positions are looked
    through until supports must have repeated, and the last two.

    >>> [attack.target for attack in informed_targets(MarkovChain([[.5, .5], [.5, .5]], length=2))]
    [0, 0]
    """
    records = chain.length or 3 + chain.size**2
    limit = records if not chain.homogeneous else min(records, 3 + 2 * chain.size**2)
    covered: set[tuple[int, int]] = set()
    for target in sorted({*range(limit), max(records - 2, 0), records - 1}):
        for known, pairs in neighbours(chain, target, records):
            for x, y in pairs:
                if (x, y) not in covered:
                    covered.add((x, y))
                    path = complete(chain, known, target, records)
                    yield witnessed(chain, target, records, path, (x, y))
        if len(covered) == chain.size * (chain.size - 1):
            return


def witnessed(
    chain: MarkovChain, target: int, length: int, known: dict[int, int],
    pair: tuple[int, int] | tuple[tuple[int, ...], tuple[int, ...]], **seen: Any,
) -> Witness:  # fmt: skip
    """Return an attack in the names of the states: what is known, and what is compared.

    Two values of the target, or two histories of a window that begins with it.

    >>> witnessed(MarkovChain([[.5, .5], [.5, .5]], ("a", "b")), 1, 3, {0: 1}, (0, 1)).known
    ((0, 'b'),)
    """
    names = chain.states
    facts = tuple((record, names[state]) for record, state in sorted(known.items()))
    one, two = (each if isinstance(each, tuple) else (each,) for each in pair)
    if len(one) > 1:
        seen["histories"] = tuple(tuple(names[state] for state in each) for each in (one, two))
    return Witness(target, length, facts, names[one[0]], names[two[0]], **seen)


def extremes(ratios: Array, axis: int | tuple[int, ...]) -> tuple[Array, Array]:
    """Return the least and the largest along some axes; NaN (0 / 0, not an option) is neither."""
    none = np.isnan(ratios)
    low, high = np.where(none, np.inf, ratios), np.where(none, -np.inf, ratios)
    return np.asarray(low.min(axis=axis)), np.asarray(high.max(axis=axis))


def stated(
    method: str, citation: str, lower: float, upper: float, against: Against,
    witness: Witness | None = None, *, more: tuple[str, ...] = (), **parts: Any,
) -> Leakage:  # fmt: skip
    """Return a leakage on a chain with its one assumption, that the records follow the chain.

    Raises `Contradiction` where an attack exceeds what was proved: then one of them is wrong.
    """
    if lower > upper:
        raise Contradiction(
            f"an attack attains {lower!r}, but at most {upper!r} was proved possible; please "
            "report the model and the mechanism"
        )
    return Leakage(
        lower, upper, method, against, witness,
        assumptions=("the records follow the stated Markov chain", *more),
        citation=citation, **parts,
    )  # fmt: skip


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
