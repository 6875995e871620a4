"""The search for the gains and ratios of a certificate, in plain floats; nothing is certified here.

The sweep of `undertow.certifying.checking` for an option changes its sign at one ratio, its root.
Roots are bracketed as well as the largest ln root - ln prior needs, and the fewest ratios are
chosen that lie in all intervals between roots and priors.
"""

import math
from dataclasses import dataclass

import numpy as np

from undertow.certifying.arithmetic import Ints
from undertow.certifying.document import LARGEST, SideProof
from undertow.numerics import Array

__all__ = ["Roots", "SidePlan", "find_roots"]

_POINTS = 48
"""Ratios swept at a time, for each pair."""

_ROUNDS = 20
_CLOSED = 2e-14
"""Width of a bracket below which roots are not told apart."""


@dataclass(frozen=True, slots=True)
class SidePlan:
    """One side of the target: its kernels, its laws, and the adversary's options."""

    kernel: Array
    """(y, z): towards the left, the transposed transition matrix."""

    ends: Array
    """(k,): weights of the last record where nothing is known."""

    laws: Array
    """(steps + 1, k): Pr[target = x] where so many records precede; ones on the right."""

    spend: Array
    known: bool
    tail: bool
    left: bool
    rooms: int
    """Number of gains stated: one, or one for each number of records."""

    @property
    def steps(self) -> int:
        """The number of records swept."""
        return len(self.laws) - 1


@dataclass(frozen=True, slots=True)
class Roots:
    """The priors of all options and the roots of their sweeps, in logarithms.

    Both are (steps + 1, pairs, k + 1): at the last step stands what lies beyond.
    """

    plan: SidePlan
    prior: Array
    root: Array

    def sides(self, slack: float) -> tuple[tuple[SideProof, ...], float] | None:
        """Return gains and ratios for all pairs, and by how much the tail widens the gains.

        ``slack`` is added to every gain. None where some gain is not finite: then nothing can be
        proved at this number of steps.
        """
        plan, wanted = self.plan, ~np.isnan(self.prior)
        with np.errstate(invalid="ignore"):
            needed = np.where(wanted, self.root - np.where(wanted, self.prior, 0.0), 0.0)
        gain = np.maximum(np.maximum.accumulate(needed.max(axis=2), axis=0), 0.0) + slack
        if not (gain <= LARGEST).all():  # nan too
            return None
        loose = float((gain[-1] - gain[-2]).max()) if plan.tail else 0.0
        proofs = []
        for at, (x, y) in enumerate(_pairs(len(plan.kernel))):
            gains = gain[-1:, at] if plan.rooms == 1 else np.r_[0.0, gain[: plan.rooms - 1, at]]
            limit = gain[-1, at] if plan.rooms == 1 else gain[:, at, None]
            ends = np.where(wanted[:, at], self.prior[:, at] + limit, np.nan)
            mus = _stabbed(self.root[:, at], ends, slack / 4)
            proofs.append(SideProof(x, y, tuple(gains.tolist()), tuple(mus)))
        return tuple(proofs), loose


def find_roots(plan: SidePlan) -> Roots:
    """Return the priors and roots of one side. Cost O(P k^2 steps) for some dozens of ratios."""
    value, other = (np.array(ends) for ends in zip(*_pairs(len(plan.kernel)), strict=True))
    prior = _priors(plan, value, other)
    return Roots(plan, prior, _brackets(plan, value, other, prior))


def _pairs(size: int) -> list[tuple[int, int]]:
    return [(x, y) for x in range(size) for y in range(size) if x != y]


def _priors(plan: SidePlan, value: Ints, other: Ints) -> Array:
    """Return ln Pr[option | x] / Pr[option | x'], nan where it is none, (steps + 1, P, k + 1)."""
    size, steps = len(plan.kernel), plan.steps
    priors = np.full((steps + 1, len(value), size + 1), np.nan)
    table = plan.kernel
    with np.errstate(divide="ignore", invalid="ignore"):
        for step in range(1, steps + 1):
            both = np.log(table[value]), np.log(table[other])  # (P, v)
            ratio = np.where(np.isfinite(both[0]) & np.isfinite(both[1]), both[0] - both[1], np.nan)
            if plan.known:
                priors[step - 1, :, :-1] = ratio
            law = np.log(plan.laws[step])
            free = law[value] - law[other]
            priors[step - 1, :, -1] = np.where(np.isfinite(free), free, np.nan)
            if step < steps:
                table = table @ plan.kernel
        if plan.tail:
            # one number for all beyond: the least prior with a value known at the last step
            far = np.where(table[other] > 0, np.log(table[value]) - np.log(table[other]), np.inf)
            least = far.min(axis=1)
            priors[steps, :, -1] = least if plan.known or plan.left else 0.0
    return priors


def _brackets(plan: SidePlan, value: Ints, other: Ints, prior: Array) -> Array:
    """Return upper ends of ln root for all options, tight where a gain may be the largest."""
    shape = prior.shape
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.log(plan.kernel[value]) - np.log(plan.kernel[other])  # (P, v)
    known = np.isfinite(first)
    width = -math.log(float(plan.spend.min())) if plan.spend.min() > 0 else LARGEST
    wanted = ~np.isnan(prior)
    base = np.where(wanted, prior, 0.0)
    # all roots lie between the least and the largest ratio of the first step, where all are finite
    least = np.where(wanted, prior, np.inf).min(axis=(0, 2))
    most = np.where(wanted, prior, -np.inf).max(axis=(0, 2))
    least = np.minimum(least, np.where(known, first, np.inf).min(axis=1))
    most = np.maximum(most, np.where(known, first, -np.inf).max(axis=1))
    bottom = np.clip(np.where(np.isfinite(least), least, 0.0), -LARGEST, LARGEST) - 1e-9
    top = np.where(np.isfinite(most), most, 0.0) + 1e-9
    top = np.where(known.all(axis=1), top, top + 60 * width + 5)
    top = np.maximum(np.minimum(top, LARGEST), bottom + 1e-9)
    grid = np.linspace(bottom, top, _POINTS, axis=1)  # (P, points)
    for _ in range(_ROUNDS):
        count = _positive(plan, value, other, np.exp(grid))  # (steps + 1, P, k + 1)
        padded = np.concatenate(
            [np.full((len(grid), 1), -np.inf), grid, np.full((len(grid), 1), np.inf)], axis=1
        )
        rows = np.arange(len(grid))[None, :, None]
        low = np.maximum(low, padded[rows, count])
        high = np.minimum(high, padded[rows, count + 1])
        reached = np.where(wanted, low - base, -np.inf).max(axis=2)  # (steps + 1, P)
        reached = np.maximum(np.maximum.accumulate(reached, axis=0), 0.0)
        if plan.rooms == 1:
            reached = np.broadcast_to(reached[-1], reached.shape)
        with np.errstate(invalid="ignore"):  # inf - inf: unbounded, and not wanted
            excess = np.where(wanted, high - base - reached[:, :, None], -np.inf)
            narrow = high - low <= _CLOSED * (1 + np.abs(base))
        excess = np.where(narrow | (excess <= _CLOSED), -np.inf, excess)
        if not (excess > 0).any():
            break
        grid = np.stack(
            [_refined(low[:, at], high[:, at], excess[:, at], grid[at]) for at in range(len(grid))]
        )
    return high


def _refined(low: Array, high: Array, excess: Array, grid: Array) -> Array:
    """Return new points inside the brackets that leave the most in doubt."""
    doubtful = np.flatnonzero(excess.ravel() > 0)
    order = doubtful[np.argsort(-excess.ravel()[doubtful], kind="stable")]
    cells: list[tuple[float, float]] = []
    for at in order.tolist():
        cell = (float(low.flat[at]), float(high.flat[at]))
        if cell not in cells:
            cells.append(cell)
        if len(cells) == _POINTS // 4:
            break
    if not cells:
        return grid
    each, points = _POINTS // len(cells), []
    for under, over in cells:
        if math.isinf(over):
            over = min(max(under, 0.0) * 2 + 10, LARGEST + 1)
        under = max(under, over - 2 * LARGEST)
        points += np.linspace(under, over, each + 2)[1:-1].tolist()
    points += [points[-1]] * (_POINTS - len(points))
    return np.sort(points)


def _positive(plan: SidePlan, value: Ints, other: Ints, mus: Array) -> Ints:
    """Return the number of the rising ratios at which each option's sweep is positive."""
    size, steps = len(plan.kernel), plan.steps
    count = np.zeros((steps + 1, len(value), size + 1), dtype=np.int64)
    signed = plan.kernel[value][:, None] - mus[..., None] * plan.kernel[other][:, None]  # (P, m, k)
    for step in range(steps):
        count[step, :, :-1] = (signed > 0).sum(axis=1)
        spent = np.where(signed < 0, signed * plan.spend, signed)
        count[step, :, -1] = (spent @ plan.ends > 0).sum(axis=1)
        if step == steps - 1:
            count[steps, :, -1] = (signed > 0).any(axis=2).sum(axis=1)
            break
        signed = spent @ plan.kernel
        if step % 8 == 7:
            peak = np.abs(signed).max(axis=2, keepdims=True)
            signed = signed / np.where(peak > 0, peak, 1.0)
    return count


def _stabbed(root: Array, limit: Array, margin: float) -> list[float]:
    """Return the fewest ratios such that every interval from a root to its limit holds one.

    They keep a margin from both ends, since the check rounds.
    """
    wanted = ~np.isnan(limit)
    starts, stops = root[wanted] + margin, limit[wanted] - margin
    chosen: list[float] = []
    last = -math.inf
    for at in np.argsort(stops, kind="stable").tolist():
        if starts[at] > last:
            last = float(stops[at])
            chosen.append(math.exp(last))
    return chosen or [1.0]
