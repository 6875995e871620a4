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
from collections.abc import Iterator

import numpy as np

from undertow.bounds.rays import Ints, Rays
from undertow.numerics import ROUNDOFF, Array, pad_log

__all__ = ["binary_gains", "coarse_gains", "newton", "signed_sets", "upper_values"]

_TINY = 1e-250
_GRID = 17


def upper_values(
    rays: Rays, ray: Ints, value: Ints, other: Ints, mu: Array, epsilon: float, steps: int
) -> Iterator[Array]:
    """Yield for t = 1 .. steps the rounded-up c_t and, last, the open sum: (N, G, k + 1).

    N problems, each with its ray, its pair and G values of mu (shape (N, G)). All mu of one
    problem share a scale, so chords through the values are meaningful.
    """
    size = rays.weights.shape[1]
    spend = math.exp(-epsilon) * (1 - 8 * ROUNDOFF)
    slack = (2 * size + 16) * ROUNDOFF
    weights = rays.weights[ray][:, :, None]
    first = rays.kernel(1)
    top, low = first[ray, value][:, None, :], mu[:, :, None] * first[ray, other][:, None, :]
    signed = (top - low) + 4 * ROUNDOFF * (top + low)
    rescale = max(1, min(8, int(16 / epsilon)))
    for step in range(1, steps + 1):
        spent = np.where(signed > 0, signed, spend * signed)
        mass = np.abs(spent)
        total = spent @ weights + (2 * slack) * (mass @ weights)
        yield np.concatenate([signed, total], axis=2)
        if step == steps:
            return
        signed = _carry(spent, rays, ray, step) + slack * _carry(mass, rays, ray, step)
        if step % rescale == 0:
            peak = np.abs(signed).max(axis=(1, 2))
            exponent = np.frexp(np.where(peak > 0, peak, 1.0))[1]
            signed = np.ldexp(signed, -exponent[:, None, None])
            small = np.abs(signed) < _TINY
            signed[small & (signed < 0)] = 0.0
            signed[small & (signed > 0)] = _TINY


def _carry(rows: Array, rays: Rays, ray: Ints, step: int) -> Array:
    """Return rows (N, G, k) times the kernel of the step after ``step`` of each one's ray."""
    kernel = rays.kernel(step + 1)
    if (ray == ray[0]).all():  # one large product instead of many small ones
        return np.asarray((rows.reshape(-1, rows.shape[-1]) @ kernel[ray[0]]).reshape(rows.shape))
    return np.asarray(rows @ kernel[ray])


def coarse_gains(
    rays: Rays, value: Ints, other: Ints, epsilon: float, prior: Array, wanted: Ints
) -> tuple[Array, Array]:
    """Return lower and certified upper gains of all options, each (T, B, P, k + 1).

    One sweep over a grid of mu shared by all options of a pair. Between grid points a convex
    function lies below its chords and above their extensions, which brackets every root.
    ``prior`` is `Rays.log_prior`; impossible options get -inf. Only the distances ``wanted``
    are bracketed; the others keep the trivial bound of epsilon per record.
    """
    steps, count, pairs, columns = prior.shape
    possible = ~np.isnan(prior)
    lower = np.where(possible, 0.0, -np.inf)
    distance = np.arange(1, steps + 1, dtype=float)[:, None, None, None]
    most = epsilon * np.where(np.arange(columns) < columns - 1, distance - 1, distance)
    upper = np.where(possible, most * (1 + 4 * ROUNDOFF), -np.inf)
    ray, pair = (axis.ravel() for axis in np.indices((count, pairs)))
    chunk = max(1, 1_000_000 // max(1, len(wanted) * columns * _GRID))
    places = [0, *(int(place) for place in np.flatnonzero(np.diff(ray)) + 1), len(ray)]
    if count > 2:  # many short rays: mix them in one batch
        places = [0, len(ray)]
    pick = {int(step): place for place, step in enumerate(wanted)}
    for begin, end in zip(places[:-1], places[1:], strict=True):
        for start in range(begin, end, chunk):
            part = slice(start, min(start + chunk, end))
            b, p = ray[part], pair[part]
            grid = _grid(rays, b, value[p], other[p], prior[:, b, p], epsilon)
            values = np.empty((len(wanted), len(b), _GRID, columns))
            sweep = upper_values(rays, b, value[p], other[p], grid, epsilon, steps)
            for step, found in enumerate(sweep, start=1):
                if step in pick:
                    values[pick[step]] = found
            low, high = _brackets(values, grid)
            base = prior[:, b, p][wanted - 1]
            ok = possible[:, b, p][wanted - 1]
            high = np.where(ok, high - base + pad_log(steps, columns), -np.inf)
            low = np.where(ok, low - base, -np.inf)
            rows = wanted[:, None] - 1
            upper[rows, b, p] = np.minimum(upper[rows, b, p], np.maximum(high, 0.0))
            lower[rows, b, p] = np.maximum(lower[rows, b, p], low)
    return np.minimum(lower, upper), np.where(possible, upper, -np.inf)


def _grid(
    rays: Rays, ray: Ints, value: Ints, other: Ints, prior: Array, epsilon: float
) -> Array:
    """Return the grid of mu of each problem, from the smallest prior ratio upwards: (N, G)."""
    finite = np.where(np.isnan(prior), np.inf, prior)
    low = finite.min(axis=(0, 2))
    low = np.where(np.isfinite(low), low, 0.0)
    first = rays.kernel(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(first[ray, value]) - np.log(first[ray, other])
    high = np.where(np.isnan(ratio), -np.inf, ratio).max(axis=1)
    largest = np.where(np.isnan(prior), -np.inf, prior).max(axis=(0, 2))
    cap = np.where(np.isfinite(largest), largest, 0.0) + min(
        epsilon * prior.shape[0], 16 * epsilon + 16
    )
    high = np.minimum(high, cap) + 1e-12
    high = np.maximum(high, low + 1e-9)
    points = np.linspace(0.0, 1.0, _GRID)
    return np.exp(low[:, None] + (high - low)[:, None] * points)


def _brackets(values: Array, grid: Array) -> tuple[Array, Array]:
    """Return ln of lower and upper ends of each root from values (T, N, G, C) on grid (N, G)."""
    positive = values > 0
    right = positive.sum(axis=2)  # first index with value <= 0, as values decrease along G
    last = grid.shape[1] - 1
    inside = (right > 0) & (right <= last)
    r = np.clip(right, 1, last)
    row = np.arange(len(grid))[None, :, None]

    def at(index: Ints) -> tuple[Array, Array]:
        point = np.take_along_axis(values, index[:, :, None, :], axis=2)[:, :, 0]
        return grid[row, index], point

    (mu_l, f_l), (mu_r, f_r) = at(r - 1), at(r)
    (mu_ll, f_ll), (mu_rr, f_rr) = at(np.maximum(r - 2, 0)), at(np.minimum(r + 1, last))
    with np.errstate(divide="ignore", invalid="ignore"):
        chord = mu_l + (mu_r - mu_l) * (f_l / (f_l - f_r))
        before = mu_l - f_l * (mu_l - mu_ll) / (f_l - f_ll)
        after = mu_r - f_r * (mu_rr - mu_r) / (f_rr - f_r)
    chord = np.where(np.isfinite(chord), np.minimum(chord * (1 + 16 * ROUNDOFF), mu_r), mu_r)
    before = np.where((r >= 2) & np.isfinite(before), before, 0.0)
    after = np.where((r < last) & np.isfinite(after), after, 0.0)
    low = np.maximum(np.maximum(before, after), mu_l)
    upper = np.where(right == 0, grid[row, 0], np.where(inside, chord, np.inf))
    lower = np.where(right == 0, 0.0, np.where(inside, low, grid[row, last]))
    with np.errstate(divide="ignore"):
        return np.log(lower), np.log(upper)


def newton(
    rays: Rays, ray: Ints, value: Ints, other: Ints, option: Ints, gain: Array, prior: Array,
    epsilon: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Return lower and certified upper gains of N single options (t, column), shape (N,).

    Newton's method on a convex decreasing function from the left of its root is Dinkelbach's
    iteration [dinkelbach1967]: with the current sets S_t, mu <- E[phi | x] / E[phi | x'] never
    passes the root. ``gain`` is where to start. The upper end is the first mu (1 + delta) at
    which the rounded-up sweep ends at most 0.
    """
    distance, column = option[:, 0], option[:, 1]
    logmu = gain + prior
    best = logmu.copy()
    for _ in range(60):
        found = _ratio(rays, ray, value, other, distance, column, best, epsilon)
        better = found > best + 2 * ROUNDOFF * np.maximum(1.0, np.abs(best))
        best = np.where(np.isfinite(found) & better, found, best)
        if not better.any():
            break
    upper = np.full(len(best), np.inf)
    pending = np.ones(len(best), dtype=bool)
    for delta in (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-4, 1e-2):
        todo = np.flatnonzero(pending)
        if not todo.size:
            break
        trial = best[todo] + delta * (distance[todo] + 1)
        ok = certified(
            rays, ray[todo], value[todo], other[todo], option[todo], trial, epsilon
        )
        upper[todo[ok]] = trial[ok]
        pending[todo[ok]] = False
    pad = pad_log(float(distance.max(initial=1)), rays.weights.shape[1])
    return np.maximum(best - prior, 0.0), np.maximum(upper - prior + pad, 0.0)


def certified(
    rays: Rays, ray: Ints, value: Ints, other: Ints, option: Ints, logmu: Array, epsilon: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return whether the rounded-up sweep at mu ends at most 0, so that the root is <= mu."""
    distance, column = option[:, 0], option[:, 1]
    result = np.zeros(len(logmu), dtype=bool)
    row = np.arange(len(logmu))
    mu = np.exp(np.minimum(logmu, 700.0))[:, None] * (1 - 4 * ROUNDOFF * (1 + np.abs(logmu)))[
        :, None
    ]
    steps = int(distance.max(initial=0))
    for step, values in enumerate(
        upper_values(rays, ray, value, other, mu, epsilon, steps), start=1
    ):
        here = distance == step
        result[here] = values[row[here], 0, column[here]] <= 0
    return result


def _ratio(
    rays: Rays, ray: Ints, value: Ints, other: Ints, distance: Ints, column: Ints, logmu: Array,
    epsilon: float,
) -> Array:  # fmt: skip
    """Return ln E[phi | x] / E[phi | x'] for the sets S_t = {c_t > 0} at mu, unnormalised."""
    size = rays.weights.shape[1]
    spend = math.exp(-epsilon)
    first = rays.kernel(1)
    mu = np.exp(np.minimum(logmu, 700.0))[:, None]
    both = np.stack([first[ray, value], first[ray, other]], axis=1)
    result = np.full(len(logmu), -np.inf)
    for step in range(1, int(distance.max(initial=0)) + 1):
        signed = both[:, 0] - mu * both[:, 1]
        spent = both * np.where(signed > 0, 1.0, spend)[:, None, :]
        here = np.flatnonzero(distance == step)
        if here.size:
            known = here[column[here] < size]
            free = here[column[here] == size]
            pick = both[known, :, column[known]]
            sums = np.einsum("nak,nk->na", spent[free], rays.weights[ray[free]])
            with np.errstate(divide="ignore", invalid="ignore"):
                result[known] = np.log(pick[:, 0]) - np.log(pick[:, 1])
                result[free] = np.log(sums[:, 0]) - np.log(sums[:, 1])
        if step == distance.max():
            break
        both = _carry(spent, rays, ray, step)
        peak = both.max(axis=(1, 2))
        exponent = np.frexp(np.where(peak > 0, peak, 1.0))[1]
        both = np.ldexp(both, -exponent[:, None, None])
    return result


def signed_sets(
    rays: Rays, ray: int, value: int, other: int, distance: int, logmu: float, epsilon: float
) -> list[Ints]:
    """Return the sets S_1 .. S_distance of one problem at mu, as arrays of states."""
    first = rays.kernel(1)[ray]
    spend, mu = math.exp(-epsilon), math.exp(min(logmu, 700.0))
    signed = first[value] - mu * first[other]
    sets: list[Ints] = []
    for step in range(1, distance + 1):
        sets.append(np.flatnonzero(signed > 0))
        if step < distance:
            signed = np.where(signed > 0, signed, spend * signed) @ rays.kernel(step + 1)[ray]
            peak = float(np.abs(signed).max())
            signed = signed / peak if peak > 0 else signed
    return sets


def binary_gains(rays: Rays, value: Ints, epsilon: float, prior: Array) -> tuple[Array, Array]:
    """Return lower and certified upper gains on homogeneous two-state rays, without roots.

    The log-ratio R of the two messages obeys R' = M(R +- epsilon) with the monotone map
    M(R) = ln (K00 e^R + K01) / (K10 e^R + K11), whose slope is at most 1 in size; the extremes of
    R for every distance come from one O(T) pass.
    """
    steps = len(prior)
    kernel = rays.kernel(1)[:, None]  # (B, 1, 2, 2) against columns v = 0, 1, open

    def step_through(ratio: Array) -> Array:
        high = 1.0 / (1.0 + np.exp(-np.clip(ratio, -700, 700)))
        low = 1.0 / (1.0 + np.exp(np.clip(ratio, -700, 700)))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(
                np.log(kernel[..., 0, 0] * high + kernel[..., 0, 1] * low)
                - np.log(kernel[..., 1, 0] * high + kernel[..., 1, 1] * low)
            )

    with np.errstate(divide="ignore", invalid="ignore"):
        known = np.log(rays.kernel(1)[:, 0]) - np.log(rays.kernel(1)[:, 1])  # (B, v)
        far = np.log(rays.weights[:, :1]) - np.log(rays.weights[:, 1:])
    most = np.concatenate([known, step_through(far + epsilon)], axis=1)
    least = np.concatenate([known, step_through(far - epsilon)], axis=1)
    highs, lows = [np.maximum(most, least)], [np.minimum(most, least)]
    for _ in range(steps - 1):
        ends = step_through(highs[-1] + epsilon), step_through(lows[-1] - epsilon)
        highs.append(np.maximum(*ends))
        lows.append(np.minimum(*ends))
    high, low = np.stack(highs), np.stack(lows)  # (T, B, 3)
    first = (value == 0)[None, None, :, None]
    with np.errstate(invalid="ignore"):
        gains = np.where(first, high[:, :, None], -low[:, :, None]) - prior
    size = np.nanmax(np.abs(np.where(np.isfinite(high), high, 0.0)), initial=1.0) + epsilon
    distance = np.arange(1, steps + 1)[:, None, None, None]
    pad = distance * (40 + 6 * size) * ROUNDOFF + pad_log(steps, 3)
    upper = np.where(np.isnan(prior), -np.inf, np.maximum(gains + pad, 0.0))
    return np.where(np.isnan(prior), -np.inf, np.maximum(gains, 0.0)), upper
