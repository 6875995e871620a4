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
from dataclasses import replace
from functools import cache, partial

import numpy as np

from undertow import progress
from undertow.adversaries import Adversary, Against
from undertow.bounds.chains.endless import period_of_cycles, unbounded_pair
from undertow.bounds.chains.exchange import exchange_leakage
from undertow.bounds.chains.known import (
    Bools,
    complete,
    informed_targets,
    nearest_known,
    ordered_pairs,
    stated,
    support_cycle,
    supports,
    witnessed,
)
from undertow.bounds.chains.replay import replay_count
from undertow.bounds.chains.side_laws import (
    Rows,
    SideLaws,
    build_positions,
    build_rows,
    build_side_laws,
    choose_steps,
    deepest_steps,
    positions,
    start_error,
)
from undertow.bounds.chains.window_losses import Laws
from undertow.bounds.chains.windows import EFFORT, WindowSearch
from undertow.certificate import Leakage
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, down, log_sum, up
from undertow.progress import metered, spend

__all__ = ["count_leakage", "informed_count"]

METHOD = "exact"
WINDOW = 512
"""Most records per side in a window (cost: memory grows with its square)."""

LEVELS = (4, 8, 16, 32, 64, 128, 256)
"""Records a side that are tried before the chain has forgotten."""

GLANCE = 128
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
        return _by_cycles(chain, marks, scale, against, repeats)

    @cache
    def ceiling() -> float:
        cheap = chain.size == 2 or against == "ignorant"
        return exchange_leakage(up(1 / scale), chain, against).upper if cheap else math.inf

    def searched(records: int, floor: float | None = None) -> WindowSearch:
        return _search(chain, marks, scale, against, records, floor)

    last = searched(steps) if steps <= GLANCE else None
    cap = math.inf
    long = chain.length is not None and chain.length > SHORT
    if long and not isinstance(against, Adversary) and (last is None or last.doubt):
        # a series of any length leaks no less: often a short window of it is the worst here too
        anylong = MarkovChain(chain.transition, chain.states, chain.start)
        cap = _by_levels(anylong, marks, scale, against).upper
    if math.isfinite(cap):
        level = searched(min(LEVELS[1], steps), -math.inf)
        level.run(lambda: cap)
        found = _conclude(level, chain, against, cap)
        if found.closed:
            return found
    best, upper, effort = last, cap, EFFORT
    if not isinstance(against, Adversary) and (last is None or last.doubt):
        for fewer in LEVELS:
            # near the ends of a short series every target is searched by itself: once is enough
            ends = chain.length is not None and chain.length <= 2 * (fewer + 1) and fewer > SHORT
            if fewer >= steps or effort <= 0 or ends:
                break
            level = searched(fewer, best.best if best else -math.inf)
            hopeless = level.hopeless
            if not hopeless:
                level.effort = effort
                level.run(ceiling)
                effort, upper = level.effort, min(upper, _upper(level, chain))
            best = level if best is None or level.window else best
            if level.closed and not hopeless:
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
        found = _conclude(best, chain, against, upper)
        if isinstance(against, Adversary) or found.closed or last.effort <= 0:
            return found
        before = steps  # open sides settle more slowly than the chain mixes
        steps = deepest_steps(chain, min(2 * steps, most))
        if steps <= before or math.isinf(upper):
            return found
        last = searched(steps)


def _by_cycles(
    chain: MarkovChain, marks: Bools, scale: float, against: Against, repeats: int
) -> Leakage:
    """Return the leakage on a chain whose series repeat themselves.

    Whole rounds add the same to the count under both values: no side need be longer than one.
    """
    search = _search(chain, marks, scale, against, repeats, whole=True)
    search.run(lambda: math.inf)
    return _conclude(search, chain, against, _upper(search, chain))


def _search(
    chain: MarkovChain, marks: Bools, scale: float, against: Against, steps: int,
    floor: float | None = None, whole: bool = False,
) -> WindowSearch:  # fmt: skip
    """Return a search of the windows of up to ``steps`` records a side, after its first glance.

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
        chain.length, _sheltered(chain, against), pooled,
        -math.inf if floor is None else floor, floor is not None,
    )  # fmt: skip
    named = frozenset(state for state, mark in zip(chain.states, marks, strict=True) if mark)
    asked = ("count", (scale, named, "series"), chain, against, 1)
    # stopped, it has its best window to show, and proves nothing
    progress.attained(asked, lambda: _conclude(search, chain, against, math.inf).lower)
    search.glance()
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


def _sheltered(chain: MarkovChain, against: Against) -> bool:
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
    with np.errstate(divide="ignore"):
        far = np.log(side_laws.weights)  # (B, k)
        path = np.full((count, size, size, steps + 1), -np.inf)  # (which, last, target value, j)
        path[..., 0] = np.log(side_laws.kernel(1)).transpose(0, 2, 1)
        law[0, :, size, :, 0] = 0.0
        for step in range(1, steps + 1):
            spend(30 * path.size * size, 4)
            law[step, :, :size] = path
            # a counted last record raises the count: shift along j where the last state is counted
            moved = path.copy()
            moved[:, counted, :, 1:] = path[:, counted, :, :-1]
            moved[:, counted, :, 0] = -np.inf
            # the last record is summed out: (B, target value, j)
            law[step, :, size] = log_sum(moved + far[:, :, None, None], axis=1)
            if step < steps:
                kernel = np.log(side_laws.kernel(step + 1))  # (B, last, next)
                # (B, next, target value, j)
                path = log_sum(moved[:, :, None] + kernel[:, :, :, None, None], axis=1)
        # condition on the option: divide by Q_t[x, v], or by the open mass; (t, which, column, x)
        masses = np.einsum("tbxv,bv->tbx", side_laws.products, side_laws.weights)  # (t, B, x)
        totals = np.concatenate(
            [side_laws.products.transpose(0, 1, 3, 2), masses[:, :, None]], axis=2
        )
        law[1:] -= np.where(totals[1:] > 0, np.log(totals[1:]), 0.0)[..., None]
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
    """Return what a search has proved, rounded up."""
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
