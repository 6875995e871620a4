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

import numpy as np

from undertow.bounds.chains.known import Bools, Ints, extremes, far_supports
from undertow.bounds.chains.side_laws import SideLaws
from undertow.models.markov import MarkovChain
from undertow.models.stationary import reachable
from undertow.numerics import ROUNDOFF, Array, log_ratio, pad_log
from undertow.progress import spend

__all__ = [
    "Problems",
    "capped",
    "certified",
    "diverging",
    "first_span",
    "grid_gains",
    "newton",
    "open_gains",
    "signed_sets",
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
        for step, found in enumerate(sweep, start=1):
            if step in pick:
                values[pick[step]] = found
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
        found = ratio(active, old)
        better = np.isfinite(found) & (found > old + least * np.maximum(1.0, np.abs(old)))
        best[active[better]] = found[better]
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
        result[here] = _falls(signed[here], problems.side_laws.kernel(1)[which], problems.epsilon)
    return result


def _falls(signed: Array, kernel: Array, epsilon: float) -> Bools:
    """Return for which rows (N, k) the sweep is nowhere positive at some step, and so ever after.

    Positive and negative parts are widened by what a product errs by, so one product will do.
    """
    result = np.zeros(len(signed), dtype=bool)
    slack = (2 * len(kernel) + 16) * ROUNDOFF
    gained, spent = 1 + slack, math.exp(-epsilon) * (1 - slack)
    active, step = np.arange(len(signed)), 1
    # a few steps between looks: as many as keep clear of underflow
    rescale = max(1, min(8, int(200 / (epsilon - math.log(kernel[kernel > 0].min())))))
    while active.size and step <= _LONGEST:
        spend(signed.size * (signed.shape[1] + 4), 0.3)
        if step % rescale == 0:
            fallen = signed.max(axis=1) <= 0
            result[active[fallen]] = True
            left = ~fallen & (signed.min(axis=1) < 0)  # nowhere negative stays so: hopeless
            active, signed = active[left], signed[left]
            exponent = np.frexp(np.abs(signed).max(axis=1))[1]
            signed = np.ldexp(signed, -exponent[:, None])
        signed = np.maximum(gained * signed, spent * signed) @ kernel + _TINY
        step += 1
    return result


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
