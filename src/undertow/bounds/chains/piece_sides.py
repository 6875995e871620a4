"""The two sides of a target in an endless series of which a window is counted.

On either side there are m unknown counted records, then h unknown records outside the window,
then a known one. That is a *column*: column 0 stands for nothing known, column 1 + h for a known
record after h more (rows 0 .. k - 1: its value), or for the beginning of the series (row k, left
side only). A column is a weight on the outermost counted record: P^{h+1}(., v) to the right,
P^{h+1}(u, .) or its law to the left, 1 or the stationary law where nothing is known.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from undertow.bounds.chains.known import Bools, extremes, ordered_pairs
from undertow.bounds.chains.side_laws import choose_steps
from undertow.models.markov import MarkovChain
from undertow.numerics import Array, log_ratio, pad_log

__all__ = ["FoundWindow", "Kind", "WindowSide", "build_sides", "empty_side", "far_answers"]

Kind = Literal["any", "ignorant"]

RAREST = 1e-80
"""Least prior that is swept: products of two, times the noise, are far from underflow."""

FARTHEST = 1024
"""Most counted records on a side whose far answers are looked at (cost)."""

_COLUMNS = 24
"""Most columns whose far answers are looked at (cost)."""


@dataclass(frozen=True, slots=True)
class WindowSide:
    """One side of the target, up to T records outwards.

    ``counts[m]`` (k, k, m + 1): Pr[m-th record, count of the m | target], target first; to the
    left without the law of the outermost record, which is a weight. ``masses`` (T + 1, k, k) are
    their sums. ``weights`` (T + 2, R, k) is the column's weight on the outermost counted record
    (or on the target where m = 0), ``real`` (T + 2, R) whether the adversary can have it. ``shift``
    (P, k) is what the records beyond the frontier can add, ``sway`` (P,) the oscillation of
    ln Q(x, z) / Q(x', z) over z; ``every`` says whether the frontier has
    a column for every m, or for m = T alone.
    """

    counts: tuple[Array, ...]
    masses: Array
    weights: Array
    real: Bools
    shift: Array
    sway: Array
    every: bool

    @property
    def steps(self) -> int:
        """The number of records swept, T."""
        return len(self.counts) - 1

    def frontier(self, count: int) -> int | None:
        """Return the frontier's column where ``count`` records are counted, if it has one."""
        return 1 + self.steps - count if self.every or count == self.steps else None


@dataclass(frozen=True, slots=True)
class FoundWindow:
    """A window with its adversary: the pair, and (m, column, row) of the left and right side.

    ``outside`` says whether the target is no part of the window.
    """

    loss: float
    pair: int
    left: tuple[int, int, int]
    right: tuple[int, int, int]
    outside: bool


@lru_cache(maxsize=32)
def build_sides(
    chain: MarkovChain, counted: tuple[bool, ...], against: Kind, steps: int
) -> tuple[WindowSide, WindowSide] | None:
    """Return the left and the right side, or None where a prior is too rare to be swept.

    They do not depend on the noise. Cost O(T^2 k^3).
    """
    powers = chain.powers(steps + 1)
    possible = np.eye(chain.size)
    for power in powers:
        if power[possible > 0].min() < RAREST:
            return None
        possible = ((possible @ (chain.transition > 0)) > 0).astype(float)
    sides = []
    for right in (False, True):
        weights, real = _weights(chain, against, right, powers)
        if weights[weights > 0].min() < RAREST:
            return None
        counts = _counts(_outwards(chain, right), np.array(counted), steps)
        masses = np.array([table.sum(axis=2) for table in counts])  # (m, target, outermost)
        far = powers[-1] if right else powers[-1].T
        # a known record, or the beginning, may come after any number of uncounted ones
        every = bool(real[1:].any())
        shift, sway = _shifts(far, None if every else weights[0, 0], steps)
        sides.append(WindowSide(counts, masses, weights, real, shift, sway, every))
    return sides[0], sides[1]


def _outwards(chain: MarkovChain, right: bool) -> Array:
    """Return the kernel that leads from the target outwards."""
    return chain.transition if right else chain.transition.T


def _weights(chain: MarkovChain, against: Kind, right: bool, powers: Array) -> tuple[Array, Bools]:
    """Return the weights of a side's columns, (C, R, k), and which are real, (C, R).

    ``powers`` are P^0 .. P^{C-1}.
    """
    size, begins = chain.size, not right and not isinstance(chain.start, str)
    weights = np.zeros((len(powers), size + begins, size))
    weights[1:, :size] = powers[1:].transpose(0, 2, 1) if right else powers[1:]  # (h, v, k)
    real = np.zeros(weights.shape[:2], dtype=bool)
    real[1:, :size] = against == "any"
    if begins:  # the outermost record is number h of the series
        weights[1:, size], real[1:, size] = chain.marginals(len(powers) - 1), True
    else:
        weights[0, 0], real[0, 0] = np.ones(size) if right else chain.initial, True
    return weights, real


def empty_side(size: int) -> WindowSide:
    """Return a side that says nothing about the target and has no counted records.

    >>> empty_side(2).weights
    array([[[1., 1.]]])
    """
    none = np.full((size * (size - 1), size), -np.inf)
    weights, real = np.ones((1, 1, size)), np.ones((1, 1), dtype=bool)
    counts = (np.eye(size)[:, :, None],)
    return WindowSide(counts, np.eye(size)[None], weights, real, none, none[:, 0], every=False)


def _counts(kernel: Array, counted: Bools, steps: int) -> tuple[Array, ...]:
    """Return the joint laws of the m-th record and the count of the first m, for m = 0 .. T."""
    tables = [np.eye(len(kernel))[:, :, None]]
    for _ in range(steps):
        moved = np.einsum("xyj,yz->xzj", tables[-1], kernel)  # (target, next, count)
        grown = np.zeros((*moved.shape[:2], moved.shape[2] + 1))
        grown[:, counted, 1:] = moved[:, counted]
        grown[:, ~counted, :-1] = moved[:, ~counted]
        tables.append(grown)
    return tuple(tables)


def _shifts(far: Array, base: Array | None, steps: int) -> tuple[Array, Array]:
    """Return ln Q(x, z) / Q(x', z) - ln D(x) / D(x') for all pairs and z, (P, k), rounded up.

    D is ``base``, or any mixture over z: then its ratio is at least the least of Q. +inf where
    there is no bound, -inf where z cannot occur. Also its oscillation over z, (P,).
    """
    value, other = ordered_pairs(len(far))
    ratio = log_ratio(far[value], far[other])  # (P, z)
    pad = 2 * pad_log(steps + 1, len(far))
    least, most = extremes(ratio, axis=1)  # (P,)
    unbounded = np.isinf(least) | np.isinf(most)
    sway = np.where(unbounded, np.inf, np.where(unbounded, 0.0, most) - least + pad)
    against = least if base is None else log_ratio(base[value], base[other])
    with np.errstate(invalid="ignore"):
        shift = np.where(np.isneginf(against)[:, None], np.inf, ratio - against[:, None] + pad)
    return np.where(np.isnan(ratio), -np.inf, shift), sway


def far_answers(
    chain: MarkovChain, counted: tuple[bool, ...], against: Kind, rate: float
) -> Iterator[FoundWindow]:
    """Yield the best windows for answers far below and far above, where the sides separate.

    E[exp(+-rate F)] is a product over the records, so long windows are cheap: O(T k^3) for each
    column. Values are not rounded: they say where to look.
    """
    marks = np.array(counted)
    value, other = ordered_pairs(chain.size)
    steps = min(choose_steps(chain, "any"), FARTHEST)
    powers = chain.powers(max(steps, _COLUMNS))
    for sign in (-1.0, 1.0):
        signed = sign * marks
        # (k,): what a counted record adds to a far answer
        tilt = np.exp((signed - signed.max()) * rate)
        total = (signed[value] - signed[other]) * rate  # (P,)
        places = []
        for right in (False, True):
            kernel = _outwards(chain, right)
            weights, real = _weights(chain, against, right, powers[:_COLUMNS])
            loaded = np.empty((steps + 1, chain.size, chain.size))  # (m, target, outermost)
            loaded[0] = np.eye(chain.size)
            for step in range(steps):
                moved = loaded[step] @ (kernel * tilt)
                loaded[step + 1] = moved / moved.max()
            masses = powers[: steps + 1] if right else powers[: steps + 1].transpose(0, 2, 1)
            heavy = np.einsum("mxy,cry->mcrx", loaded, weights)  # (m, C, R, target)
            plain = np.einsum("mxy,cry->mcrx", masses, weights)
            ok = real[None, :, :, None] & (plain > RAREST) & (heavy > RAREST)
            logs = np.full(heavy.shape, np.nan)
            logs[ok] = np.log(heavy[ok]) - np.log(plain[ok])
            gain = logs[..., value] - logs[..., other]  # (m, C, R, P)
            gain = np.where(np.isnan(gain), -np.inf, gain).reshape(-1, len(value))
            place = gain.argmax(axis=0)
            total = total + gain[place, np.arange(len(value))]
            places.append(np.stack(np.unravel_index(place, logs.shape[:3]), axis=1))
        pair = int(total.argmax())
        (m, c, r), (n, d, e) = (map(int, place[pair]) for place in places)
        yield FoundWindow(float(total[pair]), pair, (m, c, r), (n, d, e), outside=False)
