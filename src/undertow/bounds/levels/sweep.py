"""The signed sweep: per option, the root in mu at which the worst likelihood breaks even.

For a pair of target values (x, x') and outward kernels K_t put

    c_1 = K_1[x] - mu K_1[x'],      c_{t+1} = (c_t exp(epsilon 1[c_t > 0])) K_{t+1}.

c_t(v; mu) is convex and decreasing in mu. Its root gives the worst likelihood over all
epsilon-DP algorithms when v is known at distance t; the root of h . (c_m exp(...)) gives it when
nothing is known. The *gain* of an option is s = ln root - ln prior ratio. The map c_t -> c_{t+1}
is monotone, so a sweep that rounds every c upwards and still ends at most 0 certifies that the
root is at most mu. Multiplying the negative part by exp(-epsilon) instead of the positive part by
exp(epsilon) changes c by a positive factor only, and cannot overflow.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from undertow import progress
from undertow.bounds.levels.sides import (
    Bools,
    Ints,
    SideLaws,
    extremes,
    far_supports,
    log,
    ordered_pairs,
)
from undertow.errors import EffortSpent
from undertow.models.chains import MarkovChain, reachable
from undertow.models.classes import ChainBox
from undertow.numerics import MAX_STEPS, ROUNDOFF, Array, log_ratio, pad_log, up
from undertow.progress import metered, spend

__all__ = [
    "MEMORY",
    "STAGES",
    "Ask",
    "Goal",
    "Problems",
    "binary_gains",
    "block_upper",
    "box_rates",
    "capped",
    "ceiling_of_all",
    "ceilings",
    "certified",
    "closed_budget",
    "contraction_rate",
    "contraction_upper",
    "diverging",
    "first_span",
    "grid_gains",
    "ignorant_ratios",
    "leading_pairs",
    "newton",
    "open_gains",
    "screenable",
    "signed_sets",
    "undismissed",
]


_TINY = 1e-250
_CLEAR = 1e-200
"""Size from which on a value owes nothing to what was flushed to 0 or `_TINY` (lower ends)."""

_FARTHEST = 600.0
"""Largest ln mu on a grid; roots beyond keep their trivial bounds."""

_LONG = 256
"""Records of an open side from which on passes end early, and with less than `_STEADY` (cost)."""

_STEADY = 1e-13
"""Relative progress below which the gain of a long open side counts as reached (lower end)."""

_LONGEST = 65_536
"""Steps after which a sweep that still has both signs is given up (cost)."""


@dataclass(frozen=True, slots=True)
class Problems:
    """N roots to find at one DP level: the side of each, and its pair of values; each (N,)."""

    side_laws: SideLaws
    which: Ints
    value: Ints
    other: Ints
    epsilon: float

    def part(self, which: Ints | slice) -> "Problems":
        """Return some of the problems."""
        return Problems(
            self.side_laws, self.which[which], self.value[which], self.other[which], self.epsilon
        )

    def first(self) -> tuple[Array, Array]:
        """Return K_1[x] and K_1[x'], each (N, k)."""
        kernel = self.side_laws.kernel(1)
        return kernel[self.which, self.value], kernel[self.which, self.other]

    def carry(self, rows: Array, step: int) -> Array:
        """Return rows (N, G, k) times the kernel of the step after ``step`` of each one's which."""
        kernel = self.side_laws.kernel(step + 1)
        if rows.size < 20_000:
            return np.asarray(rows @ kernel[self.which])
        result = np.empty_like(rows)
        for one in np.unique(self.which):  # a few large products instead of many small ones
            here = self.which == one
            part = rows[here]
            result[here] = (part.reshape(-1, part.shape[-1]) @ kernel[one]).reshape(part.shape)
        return result


def _upper_values(problems: Problems, mu: Array, steps: int) -> Iterator[Array]:
    """Yield for t = 1 .. steps the rounded-up c_t and, last, the open sum: (N, G, k + 1).

    Each problem has G values of mu (shape (N, G)). They share a scale, so chords through the
    values are meaningful.
    """
    epsilon, far = problems.epsilon, problems.side_laws.weights
    kept = math.exp(-epsilon) * (1 - 8 * ROUNDOFF)
    slack = (2 * far.shape[1] + 16) * ROUNDOFF
    weights = far[problems.which][:, :, None]  # (N, k, 1)
    value, other = problems.first()
    top, low = value[:, None, :], mu[:, :, None] * other[:, None, :]  # (N, 1, k) and (N, G, k)
    signed = (top - low) + 4 * ROUNDOFF * (top + low)  # (N, G, k): c_1, rounded up
    rescale = max(1, min(8, int(16 / epsilon)))
    for step in range(1, steps + 1):
        spend(signed.size * (2 * signed.shape[2] + 12), 2)
        spent = np.where(signed > 0, signed, kept * signed)
        mass = np.abs(spent)
        total = spent @ weights + (2 * slack) * (mass @ weights)  # (N, G, 1): the open sum
        yield np.concatenate([signed, total], axis=2)
        if step == steps:
            return
        # every term is rounded up by its share of the mass: the map is monotone, so c stays above
        signed = problems.carry(spent, step) + slack * problems.carry(mass, step)
        if step % rescale == 0:
            peak = np.abs(signed).max(axis=(1, 2))  # (N,): one scale for all mu of a problem
            exponent = np.frexp(np.where(peak > 0, peak, 1.0))[1]
            signed = np.ldexp(signed, -exponent[:, None, None])
            small = np.abs(signed) < _TINY
            signed[small & (signed < 0)] = 0.0
            signed[small & (signed > 0)] = _TINY


def grid_gains(
    problems: Problems, prior: Array, span: Array, points: int, wanted: Ints
) -> tuple[Array, Array]:
    """Return lower and certified upper gains of all options of N problems: (W, N, k + 1).

    One sweep over a grid of mu per problem, geometric over ``span`` (N, 2) in ln mu, shared by
    all its options at the W distances ``wanted``. Between grid points a convex function lies
    below its chords and above their extensions, which brackets every root inside the span;
    roots outside keep the trivial bounds. ``prior`` (T, N, k + 1) is NaN at impossible options,
    which get -inf.
    """
    steps, _, columns = prior.shape
    base = prior[wanted - 1]  # (W, N, k + 1)
    possible = ~np.isnan(base)
    distance = wanted[:, None, None].astype(float)
    most = problems.epsilon * np.where(np.arange(columns) < columns - 1, distance - 1, distance)
    lower = np.where(possible, 0.0, -np.inf)
    upper = np.where(possible, most * (1 + 4 * ROUNDOFF), -np.inf)
    share = np.linspace(0.0, 1.0, points)
    pick = {int(step): place for place, step in enumerate(wanted)}
    chunk = max(1, 2_000_000 // max(1, len(wanted) * columns * points))
    for start in range(0, len(span), chunk):
        part = slice(start, min(start + chunk, len(span)))
        ends = np.clip(span[part], -_FARTHEST, _FARTHEST)
        grid = np.exp(ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * share)  # (problems, G)
        values = np.empty((len(wanted), len(grid), points, columns))  # (W, problems, G, k + 1)
        sweep = _upper_values(problems.part(part), grid, steps)
        for step, signed in enumerate(sweep, start=1):
            if step in pick:
                values[pick[step]] = signed
        low, high = _brackets(values, grid)
        with np.errstate(invalid="ignore"):
            high = np.maximum(high - base[:, part] + pad_log(steps, columns), 0.0)
            low = low - base[:, part]
        upper[:, part] = np.where(possible[:, part], np.fmin(upper[:, part], high), -np.inf)
        lower[:, part] = np.where(possible[:, part], np.fmax(lower[:, part], low), -np.inf)
    return np.minimum(lower, upper), upper


def first_span(problems: Problems, prior: Array) -> Array:
    """Return a span of ln mu that holds all roots of each problem, or a finite part: (N, 2).

    No root lies below the smallest prior ratio, nor above the largest first-step ratio.
    """
    low, most = extremes(prior, axis=(0, 2))  # (N,)
    low = np.where(np.isfinite(low), low, 0.0)
    high = extremes(log_ratio(*problems.first()), axis=1)[1]
    room = min(problems.epsilon * prior.shape[0], 16 * problems.epsilon + 16)
    high = np.minimum(high, np.where(np.isfinite(most), most, 0.0) + room) + 1e-12
    return np.stack([low, np.maximum(high, low + 1e-9)], axis=1)


def _brackets(values: Array, grid: Array) -> tuple[Array, Array]:
    """Return ln of lower and upper ends of each root from values (T, N, G, C) on grid (N, G)."""
    # values are (T, N, G, C); c is convex and falls along G, axis 2, so one sign change brackets a
    # root
    positive = values > 0
    last = grid.shape[1] - 1
    # one past the last positive value: from there on every value is certainly at most 0
    right = np.where(positive.any(axis=2), last + 1 - positive[:, :, ::-1].argmax(axis=2), 0)
    inside = (right > 0) & (right <= last)
    r = np.clip(right, 1, last)
    row = np.arange(len(grid))[None, :, None]

    def at(index: Ints) -> tuple[Array, Array]:
        point = np.take_along_axis(values, index[:, :, None, :], axis=2)[:, :, 0]
        return grid[row, index], point

    (mu_l, f_l), (mu_r, f_r) = at(r - 1), at(r)
    (mu_ll, f_ll), (mu_rr, f_rr) = at(np.maximum(r - 2, 0)), at(np.minimum(r + 1, last))
    with np.errstate(divide="ignore", invalid="ignore"):
        # convex: a chord crosses 0 at or beyond the root
        chord = mu_l + (mu_r - mu_l) * (f_l / (f_l - f_r))
        # lines through two points of one sign cross 0 at or before it
        before = mu_l - f_l * (mu_l - mu_ll) / (f_l - f_ll)
        after = mu_r - f_r * (mu_rr - mu_r) / (f_rr - f_r)
    chord = np.where(np.isfinite(chord), np.minimum(chord * (1 + 16 * ROUNDOFF), mu_r), mu_r)
    # lines through values that rescaling has flushed towards 0 say nothing
    before = np.where((r >= 2) & np.isfinite(before) & (f_l > _CLEAR), before, 0.0)
    after = np.where((r < last) & np.isfinite(after) & (f_r < -_CLEAR), after, 0.0)
    low = np.maximum(np.maximum(before, after), mu_l)
    upper = np.where(right == 0, grid[row, 0], np.where(inside, chord, np.inf))
    lower = np.where(right == 0, 0.0, np.where(inside, low, grid[row, last]))
    with np.errstate(divide="ignore"):
        return np.log(lower), np.log(upper)


def newton(problems: Problems, option: Ints, gain: Array, prior: Array) -> tuple[Array, Array]:
    """Return lower and certified upper gains of N single options (t, column), shape (N,).

    Newton's method on a convex decreasing function from the left of its root is Dinkelbach's
    iteration [dinkelbach1967]: with the current sets S_t, mu <- E[phi | x] / E[phi | x'] never
    passes the root. ``gain`` is where to start. The upper end is the first mu (1 + delta) at
    which the rounded-up sweep ends at most 0.
    """
    distance = option[:, 0]
    best = _dinkelbach(problems, option, gain + prior)
    upper = np.full(len(best), np.inf)
    pending = np.ones(len(best), dtype=bool)
    for delta in (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-4, 1e-2):
        todo = np.flatnonzero(pending)
        if not todo.size:
            break
        trial = best[todo] + delta * (distance[todo] + 1)
        ok = certified(problems.part(todo), option[todo], trial)
        upper[todo[ok]] = trial[ok]
        pending[todo[ok]] = False
    pad = pad_log(float(distance.max(initial=1)), problems.side_laws.weights.shape[1])
    return np.maximum(best - prior, 0.0), np.maximum(upper - prior + pad, 0.0)


def _dinkelbach(problems: Problems, option: Ints, logmu: Array) -> Array:
    """Return ln of the roots of single options (t, column), approached from below."""

    def ratio(active: Ints, old: Array) -> Array:
        return _ratio(problems.part(active), option[active], old)

    return _climbed(ratio, logmu)


def _climbed(
    ratio: Callable[[Ints, Array], Array], logmu: Array, least: float = 2 * ROUNDOFF
) -> Array:
    """Return where mu <- E[phi | x] / E[phi | x'] ends; ``ratio`` gives its ln for some of them.

    ``least`` is the relative progress that is worth another pass.
    """
    best = logmu.copy()
    active = np.arange(len(best))
    for _ in range(60):
        old = best[active]
        ratios = ratio(active, old)
        better = np.isfinite(ratios) & (ratios > old + least * np.maximum(1.0, np.abs(old)))
        best[active[better]] = ratios[better]
        active = active[better]
        if not active.size:
            break
    return best


def certified(problems: Problems, option: Ints, logmu: Array) -> Bools:
    """Return whether the rounded-up sweep at mu ends at most 0, so that the root is <= mu."""
    distance, column = option.T
    result = np.zeros(len(logmu), dtype=bool)
    row = np.arange(len(logmu))
    mu = np.exp(np.minimum(logmu, 700.0)) * (1 - 4 * ROUNDOFF * (1 + np.abs(logmu)))
    sweep = _upper_values(problems, mu[:, None], int(distance.max(initial=0)))
    for step, values in enumerate(sweep, start=1):
        here = distance == step
        result[here] = values[row[here], 0, column[here]] <= 0
    return result


def _ratio(problems: Problems, option: Ints, logmu: Array) -> Array:
    """Return ln E[phi | x] / E[phi | x'] for the sets S_t = {c_t > 0} at mu, unnormalised."""
    weights, (distance, column) = problems.side_laws.weights, option.T
    kept = math.exp(-problems.epsilon)
    mu = np.exp(np.minimum(logmu, 700.0))[:, None]
    both = np.stack(problems.first(), axis=1)  # (N, x or x', k)
    result = np.full(len(logmu), -np.inf)
    for step in range(1, int(distance.max(initial=0)) + 1):
        spend(both.size * (both.shape[2] + 8), 1)
        signed = both[:, 0] - mu * both[:, 1]  # (N, k)
        spent = both * np.where(signed > 0, 1.0, kept)[:, None, :]
        here = np.flatnonzero(distance == step)
        if here.size:
            known = here[column[here] < weights.shape[1]]
            free = here[column[here] == weights.shape[1]]
            pick = both[known, :, column[known]]
            # (open ones, x or x')
            sums = np.einsum("nak,nk->na", spent[free], weights[problems.which[free]])
            result[known] = log_ratio(pick[:, 0], pick[:, 1])
            result[free] = log_ratio(sums[:, 0], sums[:, 1])
        if step == distance.max():
            break
        both = problems.carry(spent, step)
        peak = both.max(axis=(1, 2))
        exponent = np.frexp(np.where(peak > 0, peak, 1.0))[1]
        both = np.ldexp(both, -exponent[:, None, None])
    return result


def signed_sets(
    side_laws: SideLaws,
    which: int,
    value: int,
    other: int,
    distance: int,
    logmu: float,
    epsilon: float,
) -> list[Ints]:
    """Return the sets S_1 .. S_distance of one problem at mu, as arrays of states."""
    first = side_laws.kernel(1)[which]
    kept, mu = math.exp(-epsilon), math.exp(min(logmu, 700.0))
    signed = first[value] - mu * first[other]
    sets: list[Ints] = []
    for step in range(1, distance + 1):
        sets.append((signed > 0).nonzero()[0])
        if step < distance:
            # only what is negative is spent
            signed = np.maximum(signed, kept * signed) @ side_laws.kernel(step + 1)[which]
            peak = np.abs(signed).max()
            signed = signed / peak if peak > 0 else signed
    return sets


# --- open sides of unbounded length --------------------------------------------------------------
# The gain of an open side grows with its length towards a limit. From below, the limit is
# approached by finite sides. From above, a rounded-up sweep at mu whose c is nowhere positive after
# some step stays so for ever (the sweep is monotone), which caps the gain of every length.


def open_gains(problems: Problems, steps: int, start: Array) -> Array:
    """Return the gains of open sides of ``steps`` records, from below; ``start`` are reached."""
    prior = _open_prior(problems)
    best = start + prior
    if steps < _LONG:
        # (N, 2), for no problems too: the open column at the last step
        option = np.tile((steps, problems.side_laws.weights.shape[1]), (len(start), 1))
        return _dinkelbach(problems, option, best) - prior
    laws, (one, two) = problems.side_laws, problems.first()
    for which in np.unique(problems.which):
        here = np.flatnonzero(problems.which == which)
        first = np.stack([one[here], two[here]], axis=1)  # (N, x or x', k)
        kernel, weights = laws.kernel(1)[which], laws.weights[which]
        ratio = partial(_open_ratio, first, kernel, weights, problems.epsilon, steps)
        best[here] = _climbed(ratio, best[here], least=_STEADY)
    return best - prior


def _open_ratio(
    first: Array, kernel: Array, weights: Array, epsilon: float, steps: int, active: Ints,
    logmu: Array,
) -> Array:  # fmt: skip
    """Return ln E[phi | x] / E[phi | x'] on open sides of ``steps`` records, for some problems.

    Once every c has one sign no later set tells anything, and the masses stay what they are.
    """
    both, kept = first[active], math.exp(-epsilon)
    mu = np.exp(np.minimum(logmu, 700.0))[:, None]
    rescale = max(1, min(8, int(300 / max(epsilon, 1.0))))
    for step in range(1, steps + 1):
        spend(both.size * (both.shape[2] + 4), 0.3)
        signed = both[:, 0] - mu * both[:, 1]  # (N, k)
        both = both * np.where(signed > 0, 1.0, kept)[:, None, :]
        if step == steps:
            break
        if step % rescale == 0:
            if ((signed.max(axis=1) <= 0) | (signed.min(axis=1) > 0)).all():
                break
            peak = both.max(axis=(1, 2))
            exponent = np.frexp(np.where(peak > 0, peak, 1.0))[1]
            both = np.ldexp(both, -exponent[:, None, None])
        both = both @ kernel
    sums = both @ weights  # (N, x or x')
    return log_ratio(sums[:, 0], sums[:, 1])


def capped(problems: Problems, gain: Array) -> Bools:
    """Return for which open sides no length gains more than ``gain``, certified."""
    prior = _open_prior(problems)
    logmu = gain + prior - 1e-14 * (1 + np.abs(prior) + np.abs(gain))
    result = np.zeros(len(gain), dtype=bool)
    mu = np.exp(np.minimum(logmu, 700.0))[:, None]
    one, two = problems.first()
    signed = (one - mu * two) + 4 * ROUNDOFF * (one + mu * two)  # (N, k): c_1, rounded up
    for which in np.unique(problems.which):
        here = np.flatnonzero(problems.which == which)
        laws = problems.side_laws
        result[here] = _falls(
            signed[here], laws.kernel(1)[which], laws.weights[which], problems.epsilon
        )
    return result


def _falls(signed: Array, kernel: Array, weights: Array, epsilon: float) -> Bools:
    """Return for which rows (N, k) the sweep ends below 0 at every length from some step on.

    Either c is nowhere positive, and stays so, or its open sum is negative and the growth test
    holds (`_shrinks`). Positive and negative parts are widened by what a product errs by, so one
    product will do.
    """
    result = np.zeros(len(signed), dtype=bool)
    slack = (2 * len(kernel) + 16) * ROUNDOFF
    gained, spent = 1 + slack, math.exp(-epsilon) * (1 - slack)
    active, step = np.arange(len(signed)), 1
    # a few steps between looks: as many as keep clear of underflow
    rescale = max(1, min(8, int(200 / (epsilon - math.log(kernel[kernel > 0].min())))))
    while active.size and step <= _LONGEST:
        spend(signed.size * (signed.shape[1] + 4), 0.3)
        look = step % rescale == 0
        if look:
            fallen = signed.max(axis=1) <= 0
            result[active[fallen]] = True
            left = ~fallen & (signed.min(axis=1) < 0)  # nowhere negative stays so: hopeless
            active, signed = active[left], signed[left]
            exponent = np.frexp(np.abs(signed).max(axis=1))[1]
            signed = np.ldexp(signed, -exponent[:, None])
        weighed = np.maximum(gained * signed, spent * signed)
        following = weighed @ kernel + _TINY
        if look:
            total = weighed @ weights
            settled = (total < 0) & _shrinks(signed, following)
            result[active[settled]] = True
            # the mirrored test: an open sum that is positive stays so, and c never falls
            left = ~settled & ~((total > 0) & _shrinks(-signed, -following))
            active, following = active[left], following[left]
        signed, step = following, step + 1
    return result


def _shrinks(signed: Array, following: Array) -> Bools:
    """Return for which rows c (N, k) of a sweep the next one is certainly at most a multiple of c.

    f(c) <= kappa c with kappa > 0 stays so in all further steps, by monotonicity and homogeneity:
    f^j(c) <= kappa^j c, and an open sum that is negative stays negative (docs, theory-engine: T1).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = following / signed
    most = np.where(signed > 0, growth, 0.0).max(axis=1) * (1 + 4 * ROUNDOFF)
    least = np.where(signed < 0, growth, np.inf).min(axis=1) * (1 - 4 * ROUNDOFF)
    still = ((signed != 0) | (following <= 0)).all(axis=1)
    return np.asarray(still & (most > 0) & (most <= least))


def _open_prior(problems: Problems) -> Array:
    """Return ln of the ratio of the open masses, the same at every length."""
    side_laws = problems.side_laws
    masses = np.log(np.einsum("bkv,bv->bk", side_laws.products[1], side_laws.weights))  # (B, k)
    return np.asarray(
        masses[problems.which, problems.value] - masses[problems.which, problems.other]
    )


def diverging(chain: MarkovChain, epsilon: float) -> Bools:
    """Return for which pairs (value, other) an open right side gains without bound, (k, k).

    It does if the states possible after ``value`` and after ``other`` stay disjoint (mark the
    former: every record adds epsilon), or if among the states that ``other`` never reaches the
    chain lingers long enough after ``value``: spectral radius times e^epsilon above 1.

    >>> diverging(MarkovChain([[0, 1], [1, 0]]), 0.1)
    array([[False,  True],
           [ True, False]])
    >>> diverging(MarkovChain([[.9, .1], [.2, .8]]), 5.0).any()
    np.False_
    """
    if (chain.transition > 0).all():
        return np.zeros(chain.transition.shape, dtype=bool)
    far = far_supports(chain.transition)
    apart = (far.astype(float) @ far.T.astype(float)) == 0
    reach = reachable(chain.transition)
    for value, other in zip(*np.nonzero(~apart), strict=True):
        alone = np.flatnonzero(reach[value] & ~reach[other])
        if alone.size:
            radius = np.abs(np.linalg.eigvals(chain.transition[np.ix_(alone, alone)])).max()
            apart[value, other] = radius * math.exp(min(epsilon, 700.0)) > 1 + 1e-9
    return np.asarray(apart)


MEMORY = 2**28
"""Bytes of the tables that are held at once; with everything else a process stays below 1 GB."""

_POINTS = 256
"""Most grid points of one pair: beyond, the grid is coarser (cost)."""

_CACHE = 2**22
"""Bytes of the rows that are carried one step together (they stay in the cache)."""

_UNDERFLOW = 1e-280
"""Added to every value in each step: more than all that underflow can take away (upper side)."""

_LONGEST_SIDE = MAX_STEPS
"""Steps after which what is left is bounded from the last one (cost)."""

_EFFORT = 30_000_000_000
"""Multiplications after which a block of pairs ends with what it has proved (cost)."""

_ALIKE = 1 / 64
"""Part of a cell of the grid below which prior ratios count as alike (cost)."""

_SHRINK = 1e-90
"""Least factor by which a value may shrink between two rescalings."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Pairs on one side of a chain, whose gains are to be bounded from above.

    ``kernel`` (k, k) leads outwards. ``weights`` (k,) is the law at the far end of an open side
    where the gain of an open side need not grow with its length, None otherwise. ``value``,
    ``other`` and ``floor`` are (N,); ``spacing`` is that of the grid, in ln mu, and ``reach`` how
    far above the floor it goes.
    """

    kernel: Array
    weights: Array | None
    value: Ints
    other: Ints
    epsilon: float
    floor: Array
    spacing: float
    reach: float

    def part(self, which: Ints) -> "Ask":
        """Return some of the pairs."""
        return Ask(
            self.kernel, self.weights, self.value[which], self.other[which], self.epsilon,
            self.floor[which], self.spacing, self.reach,
        )  # fmt: skip


def ceilings(ask: Ask) -> tuple[Array, Array]:
    """Return what no option of each pair exceeds, certified, and what some option reaches, (N,).

    All distances, all known values, and open sides of every length. At least the floor; the other
    end is a hint (-inf for none), within some two spacings where the gain exceeds the floor. Cost
    O(k^2) for each pair, grid point and step until the point is decided; pairs are taken in blocks
    that keep within `MEMORY`.

    >>> kernel = np.array([[.6, .3, .1], [.2, .5, .3], [.3, .3, .4]])
    >>> pair = np.array([0]), np.array([2])
    >>> ask = Ask(kernel, None, *pair, 1.0, np.array([0.1]), 0.01, 3.0)
    >>> [round(float(end[0]), 2) for end in ceilings(ask)]
    [0.42, 0.4]
    """
    upper, lower = np.empty(len(ask.value)), np.empty(len(ask.value))
    begin, start, end = _spans(ask)
    points = np.minimum(np.ceil((end - start) / ask.spacing).astype(np.int64) + 2, _POINTS)
    # rows, two copies while some are dropped, and their marks
    room = max(1, MEMORY // (8 * (3 * len(ask.kernel) + 8)))
    block = np.cumsum(points) // room
    for one in np.unique(block):
        here = np.flatnonzero(block == one)
        spend(40 * float(points[here].sum()) * len(ask.kernel))
        sweep = _Sweep(ask.part(here), begin[here], start[here], end[here], points[here])
        upper[here], lower[here] = sweep.run()
    return upper, lower


def _spans(ask: Ask) -> tuple[Ints, Array, Array]:
    """Return up to which distance nothing exceeds the floor, and the ends of the grid; each (N,).

    Beyond that distance the ratios that matter lie between the extremes there: mixtures of them.
    """
    # an open side of t records gains at most t epsilon, one with the last of them known less
    begin = np.floor(ask.floor * (1 - 8 * ROUNDOFF) / ask.epsilon)
    begin = np.clip(begin, 0, _LONGEST_SIDE).astype(np.int64)
    start, end = np.empty(len(begin)), np.empty(len(begin))
    product, step = np.asarray(ask.kernel), 1
    for stop in np.unique(begin):
        while step < stop:
            product, step = product @ ask.kernel, step + 1
        here = np.flatnonzero(begin == stop)
        ratio = log_ratio(product[ask.value[here]], product[ask.other[here]])  # (pairs, v)
        real = np.isfinite(ratio)
        start[here] = np.where(real, ratio, np.inf).min(axis=1)
        end[here] = np.where(real, ratio, -np.inf).max(axis=1)
    start = np.where(np.isfinite(start), start, -ask.reach) + ask.floor - ask.spacing
    return begin, start, np.where(np.isfinite(end), end, ask.reach) + ask.floor + ask.reach


class _Sweep:
    """The rows of some pairs: for each grid point that is not decided yet, c at the present step.

    Of the grid points of a pair ``low`` .. ``high`` - 1 are undecided: below, c is nowhere
    negative; from ``high`` on it is nowhere positive. One more on either side is carried on, for
    chords: ``bottom`` .. ``top`` - 1. Rows are sorted by pair and mu; ``first`` is where those of
    each pair begin.
    """

    def __init__(self, ask: Ask, begin: Ints, start: Array, end: Array, points: Ints) -> None:
        self.ask, self.begin, self.start, self.points = ask, begin, start, points
        self.width = (end - start) / (points - 1)  # (N,)
        self.upper, self.lower = ask.floor.copy(), np.full(len(points), -np.inf)
        self.low, self.high = np.zeros_like(points), points.copy()
        self.bottom, self.top = self.low, self.high
        self.alive = np.arange(len(points))
        self.first = np.cumsum(points) - points
        # (rows,): the pair of each row, and its grid point
        self.pair = np.repeat(np.arange(len(points)), points)
        self.point = np.arange(points.sum()) - self.first[self.pair]
        size = len(ask.kernel)
        slack = (2 * size + 16) * ROUNDOFF
        self.gained, self.spent = 1 + slack, math.exp(-ask.epsilon) * (1 - slack)
        top = ask.kernel[ask.value[self.pair]]
        low = self._mu(self.pair, self.point)[:, None] * ask.kernel[ask.other[self.pair]]
        self.signed = (top - low) + 4 * ROUNDOFF * (top + low)  # (rows, k): c_1, rounded up
        block = max(1, _CACHE // (8 * size))
        self.buffers = np.empty((2, block, size))
        least = ask.epsilon - math.log(ask.kernel[ask.kernel > 0].min())
        self.rescale = max(1, min(8, int(-math.log(_SHRINK) / least)))

    def _mu(self, pair: Ints, point: Ints) -> Array:
        return np.asarray(np.exp(self.start[pair] + self.width[pair] * point))

    def run(self) -> tuple[Array, Array]:
        """Return the certified ceilings and what is reached, (N,) each."""
        ask = self.ask
        product, weights = np.asarray(ask.kernel), ask.weights
        work, most = 0, _EFFORT // len(ask.kernel) ** 2
        for step in range(1, _LONGEST_SIDE + 1):
            work += len(self.signed)
            spend(self.signed.size * (len(product) + 12) + product.size * len(product), 4)
            last = step == _LONGEST_SIDE or work > most
            with np.errstate(divide="ignore"):
                logs = np.log(product)  # (k, k)
                masses = None if weights is None else np.log(product @ weights)  # (k,)
            self._raise(step, logs, masses)
            if step < 8 or step % 4 == 0 or last:
                self._decide()
                self._retire(step, logs, last)
                if last or not self.alive.size:
                    break
            self._carry(step)
            product = product @ ask.kernel
        return self.upper, self.lower

    def _raise(self, step: int, logs: Array, masses: Array | None) -> None:
        """Raise the ceilings where no grid point proves that all options keep below them."""
        ask = self.ask
        pairs = self.alive[self.begin[self.alive] < step]
        if not pairs.size:
            return
        with np.errstate(invalid="ignore"):
            prior = logs[ask.value[pairs]] - logs[ask.other[pairs]]  # (pairs, v)
            if masses is not None:
                free = masses[ask.value[pairs]] - masses[ask.other[pairs]]
                prior = np.concatenate([prior, free[:, None]], axis=1)
        # the last grid point from which the ceiling could be proved; -1 where there is none
        place = (self.upper[pairs, None] + prior - self.start[pairs, None]) / self.width[
            pairs, None
        ]
        place = np.minimum(np.floor(place), self.points[pairs, None] - 1)
        # impossible options are none; c is nowhere positive from ``high`` on
        row, column = np.nonzero(np.isfinite(prior) & (place < self.high[pairs, None]))
        pair, ratio = pairs[row], prior[row, column]
        lowest = place[row, column].astype(np.int64)
        point = np.maximum(lowest, self.bottom[pair])
        # below every grid point left, or not proved by the lowest one
        doubtful = (lowest < point) | (self._values(pair, point, column) > 0)
        if not doubtful.any():
            return
        pair, column, point = pair[doubtful], column[doubtful], point[doubtful]
        ratio = ratio[doubtful]
        root, before = self._roots(pair, column, point)
        most = ask.epsilon * (step if masses is not None else step - 1) * (1 + 4 * ROUNDOFF)
        gain = np.minimum(root - ratio + self._pad(step, root, ratio), most)
        np.maximum.at(self.upper, pair, gain)
        np.maximum.at(self.lower, pair, before - ratio)

    def _pad(self, step: int, root: Array | float, ratio: Array) -> Array:
        """Return the roundings of a gain: of the prior ratio, of mu and of their logarithms."""
        size = np.abs(ratio) + np.where(np.isfinite(root), np.abs(root), 0.0)
        return np.asarray(pad_log(step, len(self.ask.kernel) + 1) + 32 * ROUNDOFF * (1 + size))

    def _values(self, pair: Ints, point: Ints, column: Ints) -> Array:
        """Return c of some pairs at grid points left to them, of a column or of an open side."""
        rows = self.first[pair] + point - self.bottom[pair]
        size = len(self.ask.kernel)
        values = self.signed[rows, np.minimum(column, size - 1)]
        free = np.flatnonzero(column == size)
        if free.size and self.ask.weights is not None:
            signed = self.signed[rows[free]]  # (open ones, k)
            spent = np.maximum(self.gained * signed, self.spent * signed)
            values[free] = spent @ self.ask.weights + _UNDERFLOW
        return np.asarray(values)

    def _roots(self, pair: Ints, column: Ints, point: Ints) -> tuple[Array, Array]:
        """Return ln of upper ends of the roots of options, and of grid points before them."""
        after = point.copy()  # the first grid point at which c is not positive
        left = np.arange(len(after))
        while left.size:
            positive = self._values(pair[left], after[left], column[left]) > 0
            left = left[positive]
            after[left] += 1
            left = left[after[left] < self.top[pair[left]]]
        start, width = self.start[pair], self.width[pair]
        root = np.where(after < self.points[pair], start + width * after, np.inf)
        inner = np.flatnonzero((after < self.top[pair]) & (after > self.bottom[pair]))
        one, at, last = pair[inner], after[inner], column[inner]
        f_r, f_l = self._values(one, at, last), self._values(one, at - 1, last)
        mu_r, mu_l = self._mu(one, at), self._mu(one, at - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            # convex: a chord crosses 0 at or beyond the root
            chord = mu_l + (mu_r - mu_l) * (f_l / (f_l - f_r))
        fine = (f_l > 0) & np.isfinite(chord)
        root[inner] = np.log(np.where(fine, np.minimum(chord * (1 + 16 * ROUNDOFF), mu_r), mu_r))
        return root, np.where(after > 0, start + width * (after - 1), -np.inf)

    def _decide(self) -> None:
        """Narrow the grid points left: c of one sign keeps it for ever."""
        never = self.signed.max(axis=1) <= 0
        always = (self.signed.min(axis=1) >= 0) & ~never
        low, high = self.low.copy(), self.high.copy()
        np.minimum.at(high, self.pair[never], self.point[never])
        np.maximum.at(low, self.pair[always], self.point[always] + 1)
        self._keep(np.minimum(low, high), high, np.ones(len(self.upper), dtype=bool))

    def _keep(self, low: Ints, high: Ints, pairs: Bools) -> None:
        """Drop the rows of all but some pairs, and those outside the grid points left to them."""
        self.low, self.high = low, high
        self.bottom, self.top = np.maximum(low - 1, 0), np.minimum(high + 1, self.points)
        keep = (self.point >= self.bottom[self.pair]) & (self.point < self.top[self.pair])
        keep &= pairs[self.pair]
        if not keep.all():
            self.signed = self.signed[keep]
            self.pair, self.point = self.pair[keep], self.point[keep]
            count = np.bincount(self.pair, minlength=len(low))
            self.first = np.cumsum(count) - count

    def _retire(self, step: int, logs: Array, last: bool) -> None:
        """End pairs whose ceiling holds for all that follows, or whose grid is used up."""
        pairs = self.alive[(self.begin[self.alive] <= step) | last]
        with np.errstate(invalid="ignore"):
            prior = logs[self.ask.value[pairs]] - logs[self.ask.other[pairs]]
        prior, most = extremes(prior, axis=1)  # (pairs,) each
        # roots from here on are mixtures of the present ones, and prior ratios at least the
        # present least one; -inf where the values do not lead to the same states yet
        root, joint = self._largest_roots(pairs), np.isfinite(prior)
        ratio = np.where(joint, prior, 0.0)
        rest = np.where(joint, root - ratio + self._pad(step, root, ratio), np.inf)
        done = rest <= self.upper[pairs]
        # nothing more to learn: all roots in one cell of the grid, and priors that are all alike
        near = (self.low[pairs] >= self.high[pairs]) & joint
        used = (near & (most <= prior + _ALIKE * self.width[pairs])) | last
        ended = pairs[used]
        self.upper[ended] = np.maximum(self.upper[ended], rest[used])
        gone = np.zeros(len(self.upper), dtype=bool)
        gone[pairs[done | used]] = True
        self.alive = self.alive[~gone[self.alive]]
        if gone.any():
            left = np.zeros(len(self.upper), dtype=bool)
            left[self.alive] = True
            self._keep(self.low, self.high, left)

    def _largest_roots(self, pairs: Ints) -> Array:
        """Return ln of a ceiling of all roots of some pairs, (pairs,): exact in a single cell."""
        root = self.start[pairs] + self.width[pairs] * self.high[pairs]
        root = np.where(self.high[pairs] < self.points[pairs], root, np.inf)
        size = len(self.ask.kernel)
        here = np.flatnonzero((self.low[pairs] >= self.high[pairs]) & np.isfinite(root))
        pair, column = np.repeat(pairs[here], size), np.tile(np.arange(size), len(here))
        if here.size:
            each, _ = self._roots(pair, column, self.bottom[pair])
            root[here] = np.minimum(root[here], each.reshape(-1, size).max(axis=1))
        return np.asarray(root)

    def _carry(self, step: int) -> None:
        """Go one step on: c <- (c e^(epsilon 1[c > 0])) K up to a factor, rounded up."""
        block = self.buffers.shape[1]
        for start in range(0, len(self.signed), block):
            rows = self.signed[start : start + block]
            more, less = self.buffers[:, : len(rows)]
            np.multiply(rows, self.gained, out=more)
            np.multiply(rows, self.spent, out=less)
            np.maximum(more, less, out=more)  # c > 0 takes the former, c < 0 the latter
            np.matmul(more, self.ask.kernel, out=rows)
            rows += _UNDERFLOW
        if step % self.rescale == 0 and len(self.signed):
            peak = np.zeros(len(self.upper))  # (N,): one scale for all mu of a pair
            np.maximum.at(peak, self.pair, np.abs(self.signed).max(axis=1))
            exponent = np.frexp(np.where(peak > 0, peak, 1.0))[1]
            self.signed = np.ldexp(self.signed, -exponent[self.pair][:, None])


STAGES = 4
"""Grids on which pairs are tried, each four times as fine as the one before (cost)."""

_SPACING = 12.0
"""Part of what is to be reached that the coarsest grid has between two points."""

_LEAST = 0.1
"""Least distance of two points of the coarsest grid: at small levels chords are nearly exact."""

_FLOOR = 0.4
"""Part of what is to be reached by two sides that one may have without anybody asking."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What some pair attains on both sides, ``each`` and together; ``alone``: by the same pair.

    ``proved`` is the least that can be said of all pairs anyway, where an end was left open.
    """

    each: tuple[float, float]
    alone: bool
    proved: float = 0.0

    def floor(self, side: int, rest: Array) -> Array:
        """Return gains of a side that leave room to dismiss a pair; ``rest``: of the other side."""
        if self.alone:
            spare = sum(self.each) - np.maximum(rest, 0.0)
            return np.clip(0.9 * spare, 0.0, _FLOOR * sum(self.each))
        return np.full(len(rest), 2 * _FLOOR * self.each[side])

    def beyond(self, left: Array, right: Array) -> Array:
        """Return by how much pairs with such ceilings could exceed what is known, rounded up."""
        if self.alone:
            return np.asarray((left + right) * (1 + 1e-15) - max(sum(self.each), self.proved))
        return np.maximum(left - self.each[0], right - self.each[1])


def screenable(chain: MarkovChain) -> bool:
    """Return whether all states lead everywhere in the same number of steps: ceilings are finite.

    >>> screenable(MarkovChain([[0, 1], [1, 0]])), screenable(MarkovChain([[.5, .5], [1, 0]]))
    (False, True)
    """
    return bool(far_supports(chain.transition).all())


def leading_pairs(chain: MarkovChain) -> Ints:
    """Return all ordered pairs, those first that the chain distinguishes longest.

    By the sum over distances of the total variation between the laws given either value, on both
    sides: what a pair gains at small levels, up to a factor, with nothing known. A proposal.

    >>> chain = MarkovChain([[.9, .1, 0], [.1, .8, .1], [0, .1, .9]])
    >>> [(int(x), int(y)) for x, y in zip(*ordered_pairs(3))][leading_pairs(chain)[0]]
    (0, 2)
    """
    value, other = ordered_pairs(chain.size)
    law = chain.initial
    back = chain.transition.T * law[None, :] / np.maximum(law, 1e-300)[:, None]
    back /= np.maximum(back.sum(axis=1, keepdims=True), 1e-300)
    total = np.zeros(len(value))
    for step in (back, chain.transition):
        spend(28 * len(value) * chain.size + 14 * chain.size**3, 14)
        power, length = step, 1.0
        for _ in range(14):  # distances 1, 2, 4, ...; each stands for as many as it counts
            apart = np.zeros(len(value))
            for state in power.T:  # one column at a time: (P,) instead of (P, k)
                apart += np.abs(state[value] - state[other])
            total += length * apart
            power, length = power @ power, 2 * length
    return np.asarray(np.argsort(-total, kind="stable"))


def undismissed(
    chain: MarkovChain, epsilon: float, pairs: Ints, goal: Goal, stage: int
) -> tuple[Ints, Array, Array]:
    """Return the pairs that could exceed a goal, their ceilings and hints, each (sides, pairs).

    A hint is what one side of a pair gains at least, up to rounding; -inf for none.
    """
    value, other = ordered_pairs(chain.size)
    most = max(sum(goal.each), epsilon)
    upper, hint = np.full((2, len(pairs)), np.inf), np.full((2, len(pairs)), -np.inf)
    here, rest = np.arange(len(pairs)), np.zeros(len(pairs))
    open_left = None if isinstance(chain.start, str) else chain.initial
    for side, kernel in enumerate((np.ascontiguousarray(chain.transition.T), chain.transition)):
        ask = Ask(
            kernel, None if side else open_left, value[pairs[here]], other[pairs[here]], epsilon,
            goal.floor(side, rest[here]), max(most / _SPACING, _LEAST) / 4**stage, most,
        )  # fmt: skip
        upper[side, here], hint[side, here] = ceilings(ask)
        if not side:  # pairs whose left side alone could exceed the goal are not dismissed anyway
            rest = upper[0]
            here = np.flatnonzero(goal.beyond(rest, np.zeros(len(pairs))) <= 0)
    better = goal.alone & (hint.sum(axis=0) > sum(goal.each))  # a worse attack, most likely
    left = np.flatnonzero(~(goal.beyond(upper[0], upper[1]) <= 0) | better)
    return pairs[left], upper[:, left], hint[:, left]


_STEPS = 5000
"""Records of a side after which only the bound for all lengths is used (cost)."""


_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""Records of a block that are tried (cost: a product of matrices for each)."""

_RECORDS = 256
"""Records by which the contraction of a box is followed (cost)."""
_WORK = 1e7
"""Cubed states times steps that are followed (cost)."""
_STRIDES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""Steps of the products from which later ones are multiplied (cost)."""
_MOST_SUBSETS = 8
"""States up to which all sets of them are followed (cost)."""
_NEGLIGIBLE = 1e-4
"""tanh(D / 4) from which on more records change nothing that matters."""
_FAR = 600.0
"""Largest spread of a likelihood whose exponential is used: beyond, the intervals alone count."""
_LOGS = 1e-12
"""Above the rounding of a logarithm of ratios of sums, and of a spread (upper side)."""
_TRIES = 200
"""Steps by which the best record to end at is sought (cost; no bound rests on them)."""

_FORGOTTEN = 1e-6
"""Cross-ratio from which on a longer block gains nothing."""


def contraction_upper(epsilon: float, box: ChainBox, window: int = 1) -> float:
    """Return a bound on what all epsilon-DP algorithms leak on any chain of a box, to anyone.

    About a ``window`` of records in a row: given it its sides are independent, and each depends on
    one record of it alone. Cost O(k^4) and, once for each box, O(2^k k^2) for each of some hundred
    steps. Whatever the start of the chain, and if its steps differ within the box.

    >>> narrow = ChainBox([[.9, .1], [.2, .8]], [[.9, .1], [.2, .8]], length=2)
    >>> contraction_upper(1.0, narrow) <= 2.0
    True
    """
    bound = up(window * epsilon + 2 * _recordwise(epsilon, box_rates(box)), 4)
    if box.length is None:
        return bound
    gains = _gains(epsilon, contraction_rate(box), box.length)  # of sides that end
    return min(bound, up(window * epsilon + float((gains + gains[::-1]).max()), 4))


def _recordwise(epsilon: float, rates: list[float]) -> float:
    """Return a bound on the gain of a side of any length, record by record.

    ``rates`` are tanh(D_j / 4), rounded up, for j = 1, 2 ...
    """
    own = [_mixed(rate, epsilon) for rate in rates]  # T_j(epsilon)
    sums = np.concatenate([[0.0], np.cumsum(own)[:-1]]) * (1 + (len(own) + 4) * ROUNDOFF)
    # one record more is worth its T_j now, or a share of the gain that is left: where it is worth
    # the least is computed to nearest, and bounded outwards
    shares, gain = np.array(rates), sums.copy()
    with np.errstate(divide="ignore"):
        for _ in range(_TRIES):
            part = np.minimum(shares * np.tanh((epsilon + gain) / 4), 1 - ROUNDOFF)
            gain = sums + np.minimum(4 * np.arctanh(part), epsilon + gain)
    place = int(np.where(shares < 1, gain, np.inf).argmin())
    done, rate = float(sums[place]), rates[place]
    if rate >= 1:
        return math.inf
    return _settled(lambda gain: up(done + _mixed(rate, up(epsilon + gain))))


def _mixed(rate: float, width: float) -> float:
    """Return T(width) for tanh(D / 4) of at most ``rate``, rounded up."""
    if math.isinf(width):
        return width if rate >= 1 else up(4 * math.atanh(min(up(rate, 2), 1 - 1e-16)), 64)
    product = up(rate * math.tanh(width / 4), 8)
    return width if product >= 1 else min(up(4 * math.atanh(product), 64), width)


@metered(8)
def box_rates(box: ChainBox) -> list[float]:
    """Return bounds on tanh(D_j / 4) over products of j matrices of a box, j = 1, 2 ..."""
    low, high = _narrowed(box)
    size = box.size
    sets = np.eye(size)
    if size <= _MOST_SUBSETS:  # (k, S): the indicators of all subsets but none and all
        numbers = np.arange(1, 2**size - 1)
        sets = (numbers[None] >> np.arange(size)[:, None] & 1).astype(np.float64)
    single = np.flatnonzero(sets.sum(axis=0) == 1)
    single = single[np.argsort(sets[:, single].argmax(axis=0))]
    most = least = sets
    kept: dict[int, tuple[Array, Array]] = {}
    spreads: list[Array] = []
    rates: list[float] = []
    same = np.eye(size, dtype=np.bool_)
    for step in range(1, int(np.clip(_WORK / size**3, 8, _RECORDS)) + 1):
        spend(8 * sets.size * size, 4)
        most, least = _extreme(low, high, most, 1), _extreme(low, high, least, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(most[:, None, single]) - np.log(least[None, :, single])  # (x, x', y)
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        for steps, (wide, narrow) in kept.items():
            further = spreads[step - steps - 1]
            if size > _MOST_SUBSETS or not np.isfinite(further).all() or further.max() > _FAR:
                continue
            more = np.expm1(further)  # (y,)
            part = (1 + wide[:, None, :, None] * more) / (1 + narrow[None, :, :, None] * more)
            ratio = np.minimum(ratio, np.log(part.max(axis=2)) + _LOGS)
        ratio[same] = 0.0
        spreads.append(ratio.max(axis=(0, 1)))
        apart = _apart(ratio) + _LOGS
        rate = 1.0 if not math.isfinite(apart) else min(up(math.tanh(apart / 4), 8), 1.0)
        before = np.array(rates)
        rates.append(min(rate, *(up(one, 8) for one in before * before[::-1]), 1.0))
        if step in _STRIDES:
            kept[step] = most, least
        if rates[-1] < _NEGLIGIBLE:
            break
    return rates


def _apart(ratio: Array) -> float:
    """Return the largest sum of ratios (x, x', y) and (x', x, y') over different y and y'."""
    back = ratio.transpose(1, 0, 2)
    places, others = ratio.argmax(axis=2), back.argmax(axis=2)  # (x, x')
    second, first = np.moveaxis(np.partition(ratio, -2, axis=2)[..., -2:], 2, 0)
    below, above = np.moveaxis(np.partition(back, -2, axis=2)[..., -2:], 2, 0)
    met = np.maximum(first + below, second + above)
    return float(np.where(places == others, met, first + above).max())


def _extreme(low: Array, high: Array, values: Array, sign: int) -> Array:
    """Return the largest (sign 1) or least mean of each column of values by a row of the box.

    The least of a row everywhere, and the rest of it where the values are most extreme; rounded
    outwards.
    """
    order = np.argsort(-sign * values, axis=0)  # (k, S)
    rest = 1 - low.sum(axis=1)  # (k,)
    room = (high - low)[:, order]  # (row, rank, S)
    taken = np.diff(np.minimum(np.cumsum(room, axis=1), np.maximum(rest, 0)[:, None, None]),
                    axis=1, prepend=0.0)  # fmt: skip
    sums = low @ values + (taken * np.take_along_axis(values, order, axis=0)).sum(axis=1)
    odd = np.maximum(-rest, 0) + np.maximum(1 - high.sum(axis=1), 0)  # rows sum to 1 but nearly
    pad = (1e-15 * len(low) + odd)[:, None]
    return np.asarray(np.clip(sums + sign * pad, 0.0, 1.0))


def contraction_rate(box: ChainBox) -> float:
    """Return D, the largest log cross-ratio of two rows of any chain of a box, rounded up.

    Cost O(k^3).

    >>> round(contraction_rate(ChainBox([[.9, .1], [.2, .8]], [[.9, .1], [.2, .8]])), 6)
    3.583519
    """
    low, high = _narrowed(box)
    with np.errstate(divide="ignore", invalid="ignore"):
        # (from, to, other to): ln of the largest P(x, y) / P(x, y')
        ratio = np.log(high)[:, :, None] - np.log(low)[:, None, :]
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    ratio[:, np.arange(box.size), np.arange(box.size)] = 0.0  # y = y'
    # over two different rows: the largest of the one there and of the other back, or, where the
    # same row has both, the second largest of either
    order = np.argsort(ratio, axis=0)[-2:]  # (second and first, to, other to)
    second, first = np.take_along_axis(ratio, order, axis=0)
    back = order[1] == order[1].T
    with np.errstate(invalid="ignore"):  # inf - inf: nothing is known, and NaN is read as inf below
        cross = np.where(
            back, np.maximum(first + second.T, second + first.T), first + first.T
        )  # (to, other to)
    worst = float(cross.max())
    return up(max(worst, 0.0) + 1e-14 * (1 + abs(worst)), 8) if math.isfinite(worst) else math.inf


def block_upper(epsilon: float, chain: MarkovChain, window: int = 1) -> float:
    """Return a bound on what all epsilon-DP algorithms leak about a window of records of a chain.

    For chains of one transition matrix, over the best block; inf where states lead to no common
    one, and for steps that differ.

    >>> chain = MarkovChain([[.5, .5, 0], [.2, .6, .2], [0, .5, .5]])
    >>> round(block_upper(0.1, chain), 3)
    0.733
    """
    gain = min((_block_gain(epsilon, *block) for block in _blocks(chain)), default=math.inf)
    # given a window its sides are independent, and each depends on one record of it alone
    return up(window * epsilon + 2 * gain, 4)


def _block_gain(epsilon: float, records: int, rate: float) -> float:
    """Return a bound on the gain of a side of any length by blocks of so many records."""
    own = up((records - 1) * epsilon)
    return _settled(lambda gain: up(own + _contracted(rate, up(epsilon + gain))))


def _settled(more: Callable[[float], float]) -> float:
    """Return a gain that one more step does not raise, found by widening; inf if there is none."""
    gain = 0.0
    for _ in range(_STEPS):
        further = more(gain)
        if further <= gain * (1 + 1e-9):
            break
        gain = further
    for widen in 1e-12 * 4.0 ** np.arange(20):
        wide = float(gain + widen * max(1.0, gain))
        if more(wide) <= wide:
            return wide
    return math.inf


@metered(8)
def _blocks(chain: MarkovChain) -> tuple[tuple[int, float], ...]:
    """Return the lengths of blocks of a chain, and the cross-ratio of each, rounded up."""
    if not chain.homogeneous:
        return ()
    blocks: list[tuple[int, float]] = []
    product, records = chain.transition, 1
    for block in _BLOCKS:
        product = product @ np.linalg.matrix_power(chain.transition, block - records)
        records = block
        spend(16 * chain.size**3, 4)
        if not (product > 1e-200).all():
            if block > 2 * chain.size**2:  # some states never lead everywhere
                break
            continue
        logs = np.log(product)
        apart = max(float(np.ptp(logs - row, axis=1).max()) for row in logs)
        # each entry of a product of so many factors is right to so many roundings
        error = 8 * (block * (chain.size + 2) + 4 + float(np.abs(logs).max())) * ROUNDOFF
        blocks.append((block, up(apart + error)))
        if apart < _FORGOTTEN:
            break
    return tuple(blocks)


def _narrowed(box: ChainBox) -> tuple[Array, Array]:
    """Return the box after rows that sum to 1 have narrowed it, outwards."""
    pad = 4e-16 * box.size
    least = 1 - (box.upper.sum(axis=1, keepdims=True) - box.upper) - pad
    most = 1 - (box.lower.sum(axis=1, keepdims=True) - box.lower) + pad
    low = np.maximum(box.lower, least)
    return low, np.maximum(np.minimum(box.upper, most), low)


def _contracted(rate: float, width: float) -> float:
    """Return T(width) for log cross-ratios of at most ``rate``, rounded up.

    >>> round(_contracted(2.0, 3.0), 6), _contracted(float("inf"), 3.0) >= 3.0
    (1.209626, True)
    """
    if math.isinf(rate) or math.isinf(width):
        return up(min(rate, width), 4)
    if width < 1:  # no cancellation, and nothing near 1
        return min(up(4 * math.atanh(math.tanh(rate / 4) * math.tanh(width / 4)), 64), width)
    wide, apart = (rate + width) / 4, abs(rate - width) / 4
    # ln cosh z = z + ln(1 + e^{-2z}) - ln 2
    curved = math.log1p(math.exp(-2 * wide)) - math.log1p(math.exp(-2 * apart))
    return min(up(2 * (wide - apart + curved) + 1e-15 * (1 + wide), 4), width)


def _gains(epsilon: float, rate: float, length: int) -> Array:
    """Return bounds on the gain of sides of 0 .. length - 1 records, (length,)."""

    def longer(gain: float) -> float:
        return _contracted(rate, up(epsilon + gain))

    gains = [0.0]
    while len(gains) < min(length, _STEPS) and longer(gains[-1]) > gains[-1]:
        gains.append(longer(gains[-1]))
    if len(gains) < length:
        gains += [_settled(longer)] * (length - len(gains))
    return np.minimum(gains, [up(m * epsilon) for m in range(length)])


_FLOORS = (0.35, 0.5, 0.7, 0.85)
"""Floors, as parts of the gain that is known to bound a side, until one gives a finite ceiling."""

_AGAIN = 0.8
"""The floor, as a part of that ceiling, above which a finer grid looks once more."""

_COARSE, _FINE = 8.0, 24.0
"""Points of the two grids over a gain (cost)."""

_CEILING_WORK = 4e4
"""Work that the ceilings may take, in units of some 30 microseconds (`undertow.progress`)."""


def ceiling_of_all(chain: MarkovChain, epsilon: float, window: int = 1) -> float:
    """Return a bound on what all epsilon-DP algorithms leak about a window of records of a chain.

    It holds against everybody, at every length. ``chain`` has no state that is never visited.

    >>> chain = MarkovChain([[.9, .1, 0], [.1, .8, .1], [0, .1, .9]])
    >>> 1.0 <= ceiling_of_all(chain, 0.1) <= block_upper(0.1, chain)
    True
    """
    own = up(window * epsilon)
    upper = math.inf if chain.length is None else up(chain.length * epsilon)
    if not chain.homogeneous:
        return upper
    upper = min(upper, block_upper(epsilon, chain, window))
    if math.isinf(upper) or not screenable(chain):
        return upper
    # multiplications of a few steps: where even these are too many nothing is begun
    if 5 * _COARSE * chain.size**4 / 3e4 > _CEILING_WORK:
        return upper
    try:
        with progress.overtime(_CEILING_WORK):
            for floor in _FLOORS:
                gain = _surveyed(chain, epsilon, window, (upper - own) / 2, floor, _COARSE)
                if math.isfinite(gain):
                    upper = min(upper, up(own + gain, 4))
                    gain = _surveyed(chain, epsilon, window, (upper - own) / 2, _AGAIN, _FINE)
                    return min(upper, up(own + gain, 4))
    except EffortSpent:
        pass
    return upper


def _surveyed(
    chain: MarkovChain, epsilon: float, window: int, most: float, floor: float, points: float
) -> float:
    """Return a ceiling of what both sides gain; ``most`` is what one is known to gain at most."""
    value, other = ordered_pairs(chain.size)
    each = np.full(len(value), floor * most)
    open_left = None if isinstance(chain.start, str) else chain.initial
    sides = ((chain.transition.T.copy(), open_left), (chain.transition, None))
    left, right = (
        ceilings(Ask(kernel, far, value, other, epsilon, each, most / points, most))[0]
        for kernel, far in sides
    )
    # of a window each side has its own worst pair
    return float((left + right).max() if window == 1 else left.max() + right.max())


_LARGE = 300.0
"""Levels beyond which squares in the closed form would overflow."""


def ignorant_ratios(q: float, r: float, epsilon: float) -> tuple[float, float]:
    """Return the largest ln S and ln T that leak epsilon to an attacker who knows no record.

    S = m^2, m = [(r E^2 - q) + sqrt((r E^2 - q)^2 + 4 (1-q)(1-r) E^2)] / (2 (1-q) E) with
    E = e^(epsilon/2); T with q = P(0 -> 1) and r = P(1 -> 0) exchanged. For 0 < q, r and
    q + r <= 1, a stationary start and series of any length: Theorem 1 of [chakrabarti2022]
    solved for the flips, which is linear in them. Rounded to nearest.

    >>> [round(math.exp(ratio), 9) for ratio in ignorant_ratios(.2, .35, 2.0)]
    [2.572388328, 2.171342795]
    """
    return _ignorant_ratio(q, r, epsilon), _ignorant_ratio(r, q, epsilon)


def _ignorant_ratio(q: float, r: float, epsilon: float) -> float:
    if epsilon > _LARGE:  # m = r E / (1 - q), to far beyond the last bit
        return epsilon + 2 * math.log(r / (1 - q))
    e = math.exp(epsilon / 2)
    half = (r * e * e - q) / 2
    product = (1 - q) * (1 - r) * e * e
    root = math.sqrt(half * half + product)
    # the positive root, without cancellation on either side
    m = half + root if half >= 0 else product / (root - half)
    return 2 * math.log(m / ((1 - q) * e))


def closed_budget(chain: MarkovChain, epsilon: float) -> float | None:
    """Return the DP level that leaks ``epsilon`` to an ignorant adversary, None for no form.

    The smaller of `ignorant_ratios`. Floating point, not rounded to a side: a proposal.

    >>> round(closed_budget(MarkovChain([[.882, .118], [.305, .695]]), 1.0), 12)
    0.250487070113
    """
    if chain.size != 2 or not chain.homogeneous or not isinstance(chain.start, str):
        return None
    q, r = float(chain.transition[0, 1]), float(chain.transition[1, 0])
    if not (0 < q < 1 and 0 < r < 1 and q + r <= 1) or epsilon > _LARGE:
        return None
    return min(ignorant_ratios(q, r, epsilon))


def binary_gains(
    side_laws: SideLaws, value: Ints, epsilon: float, prior: Array
) -> tuple[Array, Array]:
    """Return lower and certified upper gains on two-state sides, without roots.

    The log-ratio R of the two messages obeys R' = M(R +- epsilon) with the monotone map
    M(R) = ln (K00 e^R + K01) / (K10 e^R + K11), whose slope is at most 1 in size; the extremes of
    R for every distance come from one O(T) pass, whether steps are alike or differ.
    """
    steps = len(prior)
    if len(side_laws.kernels) > 1:
        return _between(*_varied_ends(side_laws, epsilon, steps), value, epsilon, prior)
    kernel = side_laws.kernel(1)  # (B, 2, 2)
    (k00, k01), (k10, k11) = log(kernel.transpose(1, 2, 0)[..., None])  # (B, 1) each
    push = epsilon * np.array([1.0, -1.0])[:, None, None]  # (most or least, 1, 1)
    ends = np.empty((steps, 2, len(kernel), 3))  # columns: known 0, known 1, nothing known
    with np.errstate(invalid="ignore"):
        sure = k00 - k10  # M(inf); M(-inf) needs no care

        def step_through(ratio: Array) -> Array:
            """Return M(ratio) without ever leaving logarithms; +-inf is a state ruled out."""
            inner = np.logaddexp(k00 + ratio, k01) - np.logaddexp(k10 + ratio, k11)
            return np.asarray(np.where(ratio == np.inf, sure, inner))

        ends[0, :, :, :2] = log_ratio(kernel[:, 0], kernel[:, 1])  # (B, v)
        # (B, 1): what the far end says by itself
        far = log_ratio(side_laws.weights[:, :1], side_laws.weights[:, 1:])
        ends[0, :, :, 2:] = step_through(far + push)
        ends[0] = ends[0].max(axis=0), ends[0].min(axis=0)
        # M rises or falls throughout, so the extremes after a step come from those before it
        for before, after in pairwise(ends):
            one, two = step_through(before + push)
            np.maximum(one, two, out=after[0])
            np.minimum(one, two, out=after[1])
    return _between(ends[:, 0], ends[:, 1], 0.0, value, epsilon, prior)


def _varied_ends(side_laws: SideLaws, epsilon: float, steps: int) -> tuple[Array, Array, float]:
    """Return the largest and least ratios where steps differ, (T, B, 3), and the largest logarithm.

    R = M_1(+-epsilon + M_2(+-epsilon + ...)): the ratio of the rows of K_1 D_1 K_2 D_2 ... K_t with
    D = diag(e^(+-epsilon), 1). It is largest if the sign of D_s is that of det K_1 ... det K_s, the
    direction in which M_1 ... M_s go together, and least with all signs turned. So one product,
    grown outwards, serves all distances; kept in logarithms, where nothing under- or overflows and
    a step adds a few roundings of its largest term. A determinant whose sign is lost in rounding
    belongs to a map whose slope is a rounding itself.
    """
    kernels = side_laws.kernels  # (T, B, 2, 2)
    logs, far = log(kernels), log(side_laws.weights)  # far (B, 2)
    falls = kernels[..., 0, 0] * kernels[..., 1, 1] < kernels[..., 0, 1] * kernels[..., 1, 0]
    turned = np.cumprod(np.where(falls, -1.0, 1.0), axis=0)  # (T, B)
    push = epsilon * np.array([1.0, -1.0])[:, None, None] * turned  # (most or least, T, B)
    table = np.stack([logs[0], logs[0]])  # (2, B, x, v): ln of the rows of the product
    ends = np.empty((steps, 2, len(far), 3))
    largest = float(np.abs(logs[np.isfinite(logs)]).max(initial=1.0))
    size = largest
    with np.errstate(invalid="ignore"):  # inf - inf: neither value can have it, as the prior says
        for step in range(steps):
            ends[step, ..., :2] = table[..., 0, :] - table[..., 1, :]
            table[..., 0] += push[:, step, :, None]
            free = np.logaddexp(table[..., 0] + far[:, None, 0], table[..., 1] + far[:, None, 1])
            ends[step, ..., 2] = free[..., 0] - free[..., 1]
            size = max(size, float(np.abs(table[np.isfinite(table)]).max(initial=0.0)) + largest)
            if step + 1 == steps:
                break
            # ln of sum over z of exp(table[x, z]) K[z, v]
            table = np.logaddexp(
                table[..., :1] + logs[step + 1][None, :, :1, :],
                table[..., 1:] + logs[step + 1][None, :, 1:, :],
            )
            table -= table.max(axis=(2, 3), keepdims=True)
    return ends[:, 0], ends[:, 1], size


def _between(
    high: Array, low: Array, size: float, value: Ints, epsilon: float, prior: Array
) -> tuple[Array, Array]:
    """Return lower and certified upper gains from the extreme ratios, (T, B, 3) each.

    ``size`` is the largest logarithm on the way, where it is larger than that of a ratio.
    """
    steps = len(prior)
    first = (value == 0)[None, None, :, None]  # (1, 1, P, 1): 0 over 1, or the reverse
    with np.errstate(invalid="ignore"):
        gains = np.where(first, high[:, :, None], -low[:, :, None]) - prior  # (T, B, P, 3)
    most = np.nanmax(np.abs(np.where(np.isfinite(high), high, 0.0)), initial=1.0)
    size = max(float(most), size) + epsilon
    distance = np.arange(1, steps + 1)[:, None, None, None]  # (T, 1, 1, 1)
    # M never stretches, so the roundings of all steps at most add up
    pad = distance * (40 + 6 * size) * ROUNDOFF + pad_log(steps, 3)
    upper = np.where(np.isnan(prior), -np.inf, np.maximum(gains + pad, 0.0))
    return np.where(np.isnan(prior), -np.inf, np.maximum(gains, 0.0)), upper
