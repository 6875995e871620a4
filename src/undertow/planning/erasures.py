"""Tables of erasures: windows that do not look at the values, and the three regions of a paper.

Everything here proposes; `redaction_leakage` certifies what is proposed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from undertow.adversaries import Adversary, Against
from undertow.bounds.chains.known import Bools, nearest_known
from undertow.bounds.chains.side_laws import start_error
from undertow.bounds.series.erasing import lone_losses
from undertow.bounds.series.regions import (
    binary_rates,
    influences,
    least_distance,
    widest,
)
from undertow.errors import MethodRefused
from undertow.models.markov import MarkovChain
from undertow.numerics import GRAIN, ROUNDOFF, Array
from undertow.planning.redaction_optimum import one_side
from undertow.planning.redaction_search import Pattern, climb
from undertow.planning.redaction_sides import two_state_side

__all__ = [
    "ErasureTask",
    "grained",
    "printed_windows",
    "shown_share",
    "three_regions",
    "window_choices",
    "window_table",
]

How = Literal["relaxed", "constant", "individual"]

FLAT = 1e-14
"""Log-ratio below which a record counts as saying nothing in the search for windows."""

ZOOMS, POINTS = 7, 257
"""Rounds and points of the search for a constant probability: each round narrows it 256-fold."""


@dataclass(frozen=True, slots=True)
class ErasureTask:
    """What is to be planned: a series, its protected records, a leakage, and an adversary.

    ``chains`` are all models that may be true; most methods want one.
    """

    chains: tuple[MarkovChain, ...]
    length: int
    protect: tuple[int, ...]
    limit: float
    against: Against

    @property
    def targets(self) -> tuple[int, ...]:
        """The records that the adversary may want."""
        return (self.against.target,) if isinstance(self.against, Adversary) else self.protect

    def one(self, method: str) -> tuple[MarkovChain, int]:
        """Return the chain and the protected record, or refuse several."""
        chain = self.chain(method)
        if len(self.protect) > 1:
            raise MethodRefused(
                f"'{method}' is stated for one protected record, found {len(self.protect)}; use "
                "method='mq' or 'optimal'"
            )
        return chain, self.protect[0]

    def chain(self, method: str) -> MarkovChain:
        """Return the chain, or refuse several."""
        if len(self.chains) > 1:
            raise MethodRefused(
                f"'{method}' needs one chain, found a set of {len(self.chains)}; use method='mq'"
            )
        return self.chains[0]


def grained(table: Array) -> Array:
    """Return probabilities of erasure rounded up to whole multiples of `GRAIN`.

    >>> bool(grained(np.array([0.3]))[0] >= 0.3), grained(np.array([0.0, 1e-30, 1.0])).tolist()
    (True, [0.0, 1.1102230246251565e-16, 1.0])
    """
    return np.asarray(np.minimum(np.ceil(table / GRAIN) * GRAIN, 1.0))


def shown_share(chain: MarkovChain, table: Array) -> float:
    """Return the expected share of the records that are shown, Definition 2 of [massny2025].

    >>> round(shown_share(MarkovChain([[.75, .25], [.5, .5]]), np.array([[1, 1], [1 / 8, 1]])), 6)
    0.291667
    """
    laws = chain.marginals(len(table))  # (records, states)
    return float((laws * (1 - table)).sum() / len(table))


Costs = list[tuple[Array, Array]]
"""Of each chain, what windows around one target cost: (records erased, pair of values), left and
right."""


def _loss(costs: Costs, left: int, right: int) -> float:
    """Return the largest loss when so many records are erased on either side of the target."""
    return max(float((one[left] + two[right]).max(initial=0.0)) for one, two in costs)


def _window_costs(chain: MarkovChain, task: ErasureTask, target: int) -> tuple[Array, Array]:
    """Return the rounded-up losses of all windows around a target."""
    near = (None, None) if task.against == "any" else nearest_known(task.against)
    tables = []
    for right in (False, True):
        room = task.length - 1 - target if right else target
        shown, error = lone_losses(
            chain, target, right, task.length, task.against, near[right], FLAT
        )
        table = np.zeros((room + 1, shown.shape[1]))  # (records erased, pairs)
        if room and task.against != "informed":
            # (distances, pairs): over the values shown
            best, error = shown.max(axis=2), error + start_error(chain)
            table[: len(best)] = best + np.where(best > 0, error + 64 * ROUNDOFF * best, 0.0)
            if not near[right]:
                table[len(best) - 1 : room] = np.maximum(table[len(best) - 1], 8 * FLAT)
            table[-1] = 0.0  # all of the side erased: nothing is told
        tables.append(table)
    return tables[0], tables[1]


def window_table(task: ErasureTask) -> Array:
    """Return the windows that erase fewest records, whatever the values: 1 inside, 0 outside.

    For one protected record all pairs of windows are compared, left against right, by their
    exact leakage: O(n). (Algorithm 1 of [massny2025] erases one record too many on each side, and
    knows only two splits of the budget.) For several the windows of each are joined, and then
    records are shown again as long as every leakage allows it.
    """
    table = np.zeros((task.length, task.chains[0].size))
    table[window_choices(task)[0]] = 1.0
    return table


def window_choices(task: ErasureTask, more: int = 0) -> list[Bools]:
    """Return which records the best windows erase, and up to ``more`` that erase little more."""
    costs = {
        target: [_window_costs(chain, task, target) for chain in task.chains]
        for target in task.targets
    }
    ranked = {target: _narrowest(found, task.limit) for target, found in costs.items()}
    several = len(costs) > 1
    choices: list[Bools] = []
    for place in range(1 if several else 1 + more):
        erased: Bools = np.zeros(task.length, dtype=np.bool_)
        erased[list(task.protect)] = True
        for target, windows in ranked.items():
            if place < len(windows):
                left, right = windows[place]
                erased[target - left : target + right + 1] = True
                choices.append(erased)
    if several:
        _shrink(erased, task, costs)
    return choices


def _narrowest(costs: Costs, limit: float) -> list[tuple[int, int]]:
    """Return widths left and right, the least sum first; of equals, those that leak least."""
    rooms = len(costs[0][0]) - 1, len(costs[0][1]) - 1
    found = [(sum(rooms), 0.0, *rooms)]
    right = rooms[1]
    for left in range(rooms[0] + 1):
        cost = _loss(costs, left, right)
        if cost > limit:
            continue
        while right and (less := _loss(costs, left, right - 1)) <= limit:
            right, cost = right - 1, less
        found.append((left + right, cost, left, right))
    return [(left, right) for _, _, left, right in sorted(found)]


def _shrink(erased: Bools, task: ErasureTask, costs: dict[int, Costs]) -> None:
    """Show records again, those farthest from a target first, while all leakages allow it."""
    targets = np.array(task.targets)
    again = [r for r in np.flatnonzero(erased).tolist() if r not in task.protect]
    again.sort(key=lambda record: -int(np.abs(targets - record).min()))
    for record in again:
        erased[record] = False
        shown = np.flatnonzero(~erased)
        for target, windows in costs.items():
            below, above = shown[shown < target], shown[shown > target]
            left = target - 1 - int(below[-1]) if below.size else target
            right = int(above[0]) - target - 1 if above.size else task.length - 1 - target
            if _loss(windows, left, right) > task.limit:
                erased[record] = True
                break


def printed_windows(task: ErasureTask) -> Array:
    """Return the windows of Algorithm 1 of [massny2025], as printed.

    >>> chain = MarkovChain([[.8, .2], [.3, .7]], length=12)
    >>> table = printed_windows(ErasureTask((chain,), 12, (5,), .92, "ignorant"))
    >>> table[:, 0].astype(int).tolist()
    [0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    """
    chain, target = task.one("mq-printed")
    alpha, beta = binary_rates(chain, "'mq-printed'")
    length, limit = task.length, task.limit
    mirrored = target + 1 > length / 2  # the paper counts from the nearer end
    place = length - target if mirrored else target + 1
    whole, half = (least_distance(alpha, beta, share) for share in (limit, limit / 2))
    one_sided = place == 1 or (
        limit < widest(alpha, beta, length + 1 - place) + widest(alpha, beta, place - 1)
        or place + whole - 2 * half < 0
    )
    left, right = (place - 1, min(whole, length - place)) if one_sided else (half, half)
    table = np.zeros((length, 2))
    table[max(place - 1 - left, 0) : place + right] = 1.0
    return np.ascontiguousarray(table[::-1]) if mirrored else table


def three_regions(task: ErasureTask, how: How) -> Array:
    """Return the 3R mechanisms of [massny2025]: large, medium and small influence.

    Each side gets half of limit (all of it where the other side is empty). Records of which
    both values have a pointwise influence of at most that are shown, those of which one value has
    are shown at times when they have it, all others never. The probability of erasure at those
    times: ``relaxed`` solves the convex program of Appendix A exactly (its optimum is the
    greatest convex minorant of the budgets, constant only if that is a line), ``constant`` is the
    smallest one probability for all that is private, ``individual`` the best one
    for each record.
    """
    name = f"3r-{how}"
    chain, target = task.one(name)
    alpha, beta = binary_rates(chain, f"'{name}'")
    value = 0 if alpha <= beta else 1
    weights = influences(chain, target, task.length)  # (records, states)
    table = np.ones((task.length, 2))
    rooms = target, task.length - 1 - target
    for right in (False, True):
        room = rooms[right]
        if not room:
            continue
        budget = task.limit if not rooms[not right] else task.limit / 2
        records = target + np.arange(1, room + 1) * (1 if right else -1)  # (distances)
        near = weights[records]  # (distances, states)
        begin = _first(near[:, value] <= budget)
        start = max(_first(near.max(axis=1) <= budget), begin)
        region = _Region(chain, value, begin, start, room, budget, near)
        tried = _CHOICES[how](region) if begin < start else np.empty(0)
        table[records[begin - 1 : start - 1], value] = tried
        table[records[start - 1 :]] = 0.0
    return table


def _first(holds: Bools) -> int:
    """Return the first distance at which something holds, one beyond the last for nowhere."""
    return int(holds.argmax()) + 1 if holds.any() else len(holds) + 1


@dataclass(frozen=True, slots=True)
class _Region:
    """The medium region of a side: distances begin .. start - 1 show ``value`` at times."""

    chain: MarkovChain
    value: int
    begin: int
    start: int
    room: int
    budget: float
    influences: Array


def _relaxed(region: _Region) -> Array:
    """Return the optimum of the convex program: minimise sum e^-c with bounded prefix sums."""
    begin, start = region.begin, region.start
    beyond = np.array([
        region.influences[t, region.value] if t + 1 < start
        else region.influences[t].max() if start <= region.room else 0.0
        for t in range(begin, start)
    ])  # fmt: skip
    # (medium records): bounds on the prefix sums of c
    most = np.minimum.accumulate((region.budget - beyond)[::-1])[::-1]
    points = [(0, 0.0), *enumerate(most.tolist(), 1)]
    hull: list[tuple[int, float]] = []
    for x, y in points:
        while len(hull) > 1 and (
            (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0])
            >= (y - hull[-2][1]) * (hull[-1][0] - hull[-2][0])
        ):
            hull.pop()
        hull.append((x, y))
    path = np.interp(np.arange(len(points)), *np.array(hull).T)  # the greatest convex minorant
    return np.asarray(np.exp(-np.maximum(np.diff(path), 0.0)))


def _constant(region: _Region) -> Array:
    """Return the smallest probability that, used throughout, keeps the loss within the budget."""
    low, high = 0.0, 1.0
    for _ in range(ZOOMS):
        tried = np.linspace(low, high, POINTS)
        fits = _constant_loss(region, tried) <= region.budget
        place = int(fits.argmax()) if fits.any() else POINTS - 1
        high = float(tried[place])
        low = float(tried[max(place - 1, 0)])
        if low == high:
            break
    return np.full(region.start - region.begin, high)


def _constant_loss(region: _Region, tried: Array) -> Array:
    """Return the loss of one side, for each of several constant probabilities of erasure."""
    step, value = region.chain.transition, region.value
    factor = np.ones((len(tried), 1, 2))  # (probabilities, 1, states)
    factor[:, 0, value] = tried
    # (probabilities, target value, state)
    reached = np.broadcast_to(np.linalg.matrix_power(step, region.begin), (len(tried), 2, 2))
    worst = np.zeros(len(tried))
    for distance in range(region.begin, min(region.start, region.room) + 1):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(np.log(reached[:, 0] / reached[:, 1]))
        seen = ratio.max(axis=1) if distance == region.start else ratio[:, value]  # (probabilities)
        worst = np.fmax(worst, seen)
        if distance == region.start:
            return np.asarray(worst)
        reached = (reached * factor) @ step  # this record is erased
    left = reached.sum(axis=2)  # (probabilities, target value): all erased
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.fmax(worst, np.abs(np.log(left[:, 0] / left[:, 1]))))


def _individual(region: _Region) -> Array:
    """Return the best probability for each record of the region."""
    chain, begin, start = region.chain, region.begin, region.start
    if chain.transition[0, 1] + chain.transition[1, 0] <= 1:
        side = two_state_side(chain, 0, region.room + 1, True, "ignorant")
        side = side.turned("ignorant") if region.value else side
        best = one_side(side, begin, start, region.budget)
        spent = np.zeros(start - begin) if best is None else side.spent(begin, start, best.theta)
        return np.exp(-spent)
    fixed = np.ones((region.room + 1, 2))
    fixed[start:] = 0.0
    free = np.zeros(fixed.shape, dtype=bool)
    free[begin:start, region.value] = True
    pattern = Pattern(chain, (0,), "ignorant", fixed, free, np.full(start - begin, 0.05))
    return np.exp(-climb(pattern, region.budget))


_CHOICES: dict[str, Callable[[_Region], Array]] = {
    "relaxed": _relaxed,
    "constant": _constant,
    "individual": _individual,
}
