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

from undertow.bounds.chains.rays import Ints, Rays
from undertow.numerics import ROUNDOFF, Array, log_ratio, pad_log

__all__ = [
    "binary_gains",
    "certified",
    "finite_gain",
    "first_span",
    "grid_gains",
    "newton",
    "signed_sets",
    "upper_values",
]

_TINY = 1e-250
_FARTHEST = 600.0
"""Largest ln mu on a grid; roots beyond keep their trivial bounds."""


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
    if rows.size < 20_000:
        return np.asarray(rows @ kernel[ray])
    result = np.empty_like(rows)
    for one in np.unique(ray):  # a few large products instead of many small ones
        here = ray == one
        part = rows[here]
        result[here] = (part.reshape(-1, part.shape[-1]) @ kernel[one]).reshape(part.shape)
    return result


def grid_gains(
    rays: Rays, ray: Ints, value: Ints, other: Ints, prior: Array, span: Array, points: int,
    epsilon: float, wanted: Ints,
) -> tuple[Array, Array]:  # fmt: skip
    """Return lower and certified upper gains of all options of N problems: (W, N, k + 1).

    One sweep over a grid of mu per problem, geometric over ``span`` (N, 2) in ln mu, shared by
    all its options at the W distances ``wanted``. Between grid points a convex function lies
    below its chords and above their extensions, which brackets every root inside the span;
    roots outside keep the trivial bounds. ``prior`` (T, N, k + 1) is NaN at impossible options,
    which get -inf.
    """
    steps, _, columns = prior.shape
    base = prior[wanted - 1]
    possible = ~np.isnan(base)
    distance = wanted[:, None, None].astype(float)
    most = epsilon * np.where(np.arange(columns) < columns - 1, distance - 1, distance)
    lower = np.where(possible, 0.0, -np.inf)
    upper = np.where(possible, most * (1 + 4 * ROUNDOFF), -np.inf)
    share = np.linspace(0.0, 1.0, points)
    pick = {int(step): place for place, step in enumerate(wanted)}
    chunk = max(1, 2_000_000 // max(1, len(wanted) * columns * points))
    for start in range(0, len(ray), chunk):
        part = slice(start, min(start + chunk, len(ray)))
        ends = np.clip(span[part], -_FARTHEST, _FARTHEST)
        grid = np.exp(ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * share)
        values = np.empty((len(wanted), len(grid), points, columns))
        sweep = upper_values(rays, ray[part], value[part], other[part], grid, epsilon, steps)
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


def first_span(
    rays: Rays, ray: Ints, value: Ints, other: Ints, prior: Array, epsilon: float
) -> Array:
    """Return a span of ln mu that holds all roots of each problem, or a finite part: (N, 2).

    No root lies below the smallest prior ratio, nor above the largest first-step ratio.
    """
    low = np.where(np.isnan(prior), np.inf, prior).min(axis=(0, 2))
    low = np.where(np.isfinite(low), low, 0.0)
    first = rays.kernel(1)
    ratio = log_ratio(first[ray, value], first[ray, other])
    high = np.where(np.isnan(ratio), -np.inf, ratio).max(axis=1)
    most = np.where(np.isnan(prior), -np.inf, prior).max(axis=(0, 2))
    room = min(epsilon * prior.shape[0], 16 * epsilon + 16)
    high = np.minimum(high, np.where(np.isfinite(most), most, 0.0) + room) + 1e-12
    return np.stack([low, np.maximum(high, low + 1e-9)], axis=1)


def _brackets(values: Array, grid: Array) -> tuple[Array, Array]:
    """Return ln of lower and upper ends of each root from values (T, N, G, C) on grid (N, G)."""
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
    best = _dinkelbach(rays, ray, value, other, distance, column, gain + prior, epsilon)
    upper = np.full(len(best), np.inf)
    pending = np.ones(len(best), dtype=bool)
    for delta in (1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-4, 1e-2):
        todo = np.flatnonzero(pending)
        if not todo.size:
            break
        trial = best[todo] + delta * (distance[todo] + 1)
        ok = certified(rays, ray[todo], value[todo], other[todo], option[todo], trial, epsilon)
        upper[todo[ok]] = trial[ok]
        pending[todo[ok]] = False
    pad = pad_log(float(distance.max(initial=1)), rays.weights.shape[1])
    return np.maximum(best - prior, 0.0), np.maximum(upper - prior + pad, 0.0)


def finite_gain(
    rays: Rays, ray: Ints, value: Ints, other: Ints, epsilon: float, steps: int, logmu: Array
) -> Array:
    """Return ln of the root of N open problems with ``steps`` records, from below, from logmu."""
    distance = np.full(len(ray), steps)
    column = np.full(len(ray), rays.weights.shape[1])
    return _dinkelbach(rays, ray, value, other, distance, column, logmu, epsilon)


def _dinkelbach(
    rays: Rays, ray: Ints, value: Ints, other: Ints, distance: Ints, column: Ints, logmu: Array,
    epsilon: float,
) -> Array:  # fmt: skip
    """Return ln of the roots of single options, approached from below."""
    best = logmu.copy()
    active = np.arange(len(best))
    for _ in range(60):
        found = _ratio(
            rays, ray[active], value[active], other[active], distance[active], column[active],
            best[active], epsilon,
        )  # fmt: skip
        old = best[active]
        better = np.isfinite(found) & (found > old + 2 * ROUNDOFF * np.maximum(1.0, np.abs(old)))
        best[active[better]] = found[better]
        active = active[better]
        if not active.size:
            break
    return best


def certified(
    rays: Rays, ray: Ints, value: Ints, other: Ints, option: Ints, logmu: Array, epsilon: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return whether the rounded-up sweep at mu ends at most 0, so that the root is <= mu."""
    distance, column = option[:, 0], option[:, 1]
    result = np.zeros(len(logmu), dtype=bool)
    row = np.arange(len(logmu))
    mu = (
        np.exp(np.minimum(logmu, 700.0))[:, None]
        * (1 - 4 * ROUNDOFF * (1 + np.abs(logmu)))[:, None]
    )
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

    with np.errstate(divide="ignore"):
        logs = np.log(kernel)

    def step_through(ratio: Array) -> Array:
        """Return M(ratio) without ever leaving logarithms; +-inf is a state ruled out."""
        with np.errstate(invalid="ignore"):
            top = np.logaddexp(logs[..., 0, 0] + ratio, logs[..., 0, 1])
            bottom = np.logaddexp(logs[..., 1, 0] + ratio, logs[..., 1, 1])
            inner = top - bottom
            above = np.where(np.isposinf(ratio), logs[..., 0, 0] - logs[..., 1, 0], inner)
            below = np.where(np.isneginf(ratio), logs[..., 0, 1] - logs[..., 1, 1], above)
        return np.asarray(below)

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
