"""Laws of counts as logarithms: added up, compared, and matched state by state."""

import math

import numpy as np

from undertow.bounds.chains.known import Bools, Ints
from undertow.numerics import Array, log_sum

__all__ = [
    "MARGIN",
    "convolve",
    "labelled_bounds",
    "marked",
    "matched",
    "shifted",
    "spread",
    "widened",
]

MARGIN = 1e-8
"""Log margin above which a comparison of two probabilities is certain; rounding stays below it."""


def spread(first: Array, second: Array, margin: float) -> tuple[int, int]:
    """Return the least (down, up) with X - Y in [-down, up], X and Y drawn together.

    ``first`` and ``second`` are log-laws on the same lattice 0, 1, ... with equal totals.
    Comparisons within ``margin`` count as failed where it is positive.
    """
    down = shift(first, second, margin)
    return down, shift(second, first, margin)


def shift(first: Array, second: Array, margin: float) -> int:
    """Return the least w with F_first(j) <= F_second(j + w) for all j, by the smaller tail."""
    below_1, below_2 = (np.logaddexp.accumulate(law) for law in (first, second))
    # ln Pr[more than j], -inf at the top
    above_1, above_2 = (
        np.append(np.logaddexp.accumulate(law[::-1])[::-1][1:], -np.inf) for law in (first, second)
    )
    places = np.arange(len(first))
    low = np.searchsorted(below_2, below_1 + margin, side="left")
    high = np.searchsorted(-above_2, -(above_1 - margin), side="left")
    median = below_1[-1] - math.log(2)
    needed = np.where(below_1 <= median, low, high) - places
    possible = below_1 > -np.inf
    return int(needed[possible].max())


def widened(down: Ints, up: Ints) -> tuple[Ints, Ints]:
    """Return the bounds with all intervals [-down, up] of two different states equally wide."""
    missing = (down + up).max() - (down + up)
    apart = ~np.eye(len(down), dtype=bool)
    extra = np.where(apart, missing, 0)
    lower = np.triu(extra)  # the mirror image gets its share on the other end
    return down + lower.T, up + lower


def labelled_bounds(law: Array, down: Ints, up: Ints) -> tuple[Ints, Ints] | None:
    """Return the bounds of a longer side whose remainder keeps to the given ones."""
    size = len(law)
    new_down, new_up = np.zeros_like(down), np.zeros_like(up)
    for x in range(size):
        for other in range(x):
            # place each cross pair so that its interval falls on [-down, up] of (x, other)
            offset = up[x, other] - up
            ends = matched(law[x], law[other], offset)
            if ends is None:
                return None
            new_down[x, other], new_up[x, other] = ends
            new_up[other, x], new_down[other, x] = ends
    return new_down, new_up


def matched(first: Array, second: Array, offset: Ints) -> tuple[int, int] | None:
    """Return (down, up) of two labelled log-laws (labels, j), matched label by label.

    Where a label is likelier under ``first`` its surplus is moved, at one count, to a label that
    is likelier under ``second``, at a count lower by ``offset[label, label']``.
    """
    masses = [log_sum(law, axis=1) for law in (first, second)]  # (labels,) each
    if not np.array_equal(np.isfinite(masses[0]), np.isfinite(masses[1])):
        return None
    here = np.flatnonzero(np.isfinite(masses[0]))
    change = np.zeros(len(first))
    change[here] = np.exp(masses[0][here]) - np.exp(masses[1][here])
    gives, takes = np.maximum(change, 0.0), np.maximum(-change, 0.0)
    first, second = first.copy(), second.copy()
    if gives.sum() > 0 and takes.sum() > 0:
        # (counts,): what every label has there, under both
        common = np.minimum(first[here], second[here]).min(axis=0)
        centre = int(np.argmax(common))
        share = takes / takes.sum()
        for label in np.flatnonzero(gives):
            if not _remove(first, int(label), centre, gives[label]):
                return None
            for goal in np.flatnonzero(takes):
                place = centre - int(offset[label, goal])
                amount = gives[label] * share[goal] * (takes.sum() / gives.sum())
                if not _remove(second, int(goal), place, amount):
                    return None
    found = [spread(first[label], second[label], MARGIN) for label in here]
    return max(down for down, _ in found), max(up for _, up in found)


def _remove(law: Array, label: int, place: int, amount: float) -> bool:
    """Take probability from one atom, at most half of it; return whether there was as much."""
    if not 0 <= place < law.shape[1] or not np.isfinite(law[label, place]):
        return False
    ratio = amount / math.exp(law[label, place])
    if ratio > 0.5:
        return False
    law[label, place] += math.log1p(-ratio)
    return True


def marked(law: Array, marks: Bools) -> Array:
    """Return (..., state, j) with the counts of marked states raised by one, one place longer."""
    longer = np.full((*law.shape[:-1], law.shape[-1] + 1), -np.inf)
    longer[..., ~marks, :-1] = law[..., ~marks, :]
    longer[..., marks, 1:] = law[..., marks, :]
    return longer


def shifted(law: Array, counted: bool) -> Array:
    """Return the law with the target's own mark added, one place longer."""
    pad = np.full((*law.shape[:-1], 1), -np.inf)
    return np.concatenate([pad, law] if counted else [law, pad], axis=-1)


def convolve(left: Array, right: Array) -> Array:
    """Return the log-law of a sum of two independent counts, along the last axis."""
    shape = np.broadcast_shapes(left.shape[:-1], right.shape[:-1])
    places = right.shape[-1]
    total = np.full((*shape, left.shape[-1] + places - 1), -np.inf)
    for count in range(left.shape[-1]):
        window = total[..., count : count + places]
        np.logaddexp(window, left[..., count : count + 1] + right, out=window)
    return total
