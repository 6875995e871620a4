"""The worst known set by looking at all of them: Gaussian blocks of up to about 24 records."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from undertow.bounds.gaussian.numbers import FormValue, GaussianBlock, settle
from undertow.numerics import Array

__all__ = ["MOST_SETS", "all_known_sets", "count_sets", "sets_cost"]

MOST_SETS = 5e8
"""Numbers that looking at all known sets may compute (a cost limit, about ten seconds): 24 records
with one row of weights, 20 with a row for each record."""

_BATCH = 2**15
"""Numbers per array and level, so that the arrays of a batch stay in the processor's cache."""

_TIES = 512
"""Adversaries within rounding of the worst that are evaluated exactly (a cost limit: beyond it
the interval is wider by their margin)."""


@dataclass(slots=True)
class _Batch:
    """Conditional laws for many known sets: records 0 .. level - 1 are decided.

    Nodes run along the last axis. ``columns`` holds Cov(X_j, X_k | X_K) for all j and the
    undecided k, ``variance`` the diagonal (inf for known j), ``cross`` Cov(row, X_j | X_K).
    """

    level: int
    columns: Array
    variance: Array
    cross: Array
    codes: npt.NDArray[np.int64]

    def known(self) -> "_Batch":
        """Return the same sets with the next record added to each."""
        level, pivot = self.level, self.columns[:, 0]  # pivot (n, sets): Cov(X_j, X_level | X_K)
        share = pivot / pivot[level]  # (n, sets)
        variance = self.variance - share * pivot
        variance[level] = np.inf
        return _Batch(
            level + 1,
            # (n, undecided - 1, sets)
            self.columns[:, 1:] - share[:, None] * pivot[level + 1 :],
            variance,
            # (rows, n, sets)
            self.cross - share * self.cross[:, level][:, None],
            # bit k: record k is known
            self.codes | (1 << level),
        )

    def unknown(self) -> "_Batch":
        """Return the same sets with the next record left out."""
        return replace(self, level=self.level + 1, columns=self.columns[:, 1:])

    def joined(self, other: "_Batch") -> "_Batch":
        """Return both batches as one."""
        return _Batch(
            self.level,
            np.concatenate([self.columns, other.columns], axis=2),
            np.concatenate([self.variance, other.variance], axis=1),
            np.concatenate([self.cross, other.cross], axis=2),
            np.concatenate([self.codes, other.codes]),
        )


def count_sets(records: int) -> float:
    """Return the number of sets of records, or a number that no search can go through.

    >>> count_sets(3), count_sets(1100) > 1e300
    (8.0, True)
    """
    return 2.0 ** min(records, 1000)


def sets_cost(block: GaussianBlock) -> float:
    """Return how many numbers looking at all known sets computes."""
    return float(len(block.form.rows) * block.size * count_sets(block.size))


def all_known_sets(block: GaussianBlock) -> tuple[FormValue, float]:
    """Return the worst adversary of a block, certified, and an upper end for all of them.

    Every subset K of the records is visited once; conditioning on one more record is a rank-one
    change of the conditional covariances, shared by all targets and by all supersets, so that
    the whole costs O(rows n 2^n). Known sets whose value lies within the margin of the largest are
    evaluated exactly. Theorem: docs, theory of Gaussian records.

    >>> from undertow.bounds.gaussian.laws import Law
    >>> from undertow.bounds.gaussian.numbers import Form
    >>> covariance = np.array([[1, .9, 0], [.9, 1, .3], [0, .3, 1]])
    >>> sums = Form(np.ones((1, 3)), np.array([np.inf]))
    >>> worst, upper = all_known_sets(GaussianBlock.of(Law.of(covariance, range(3)), sums))
    >>> round(worst.lower, 9), worst.target, worst.known
    (2.578947368, 1, (0,))
    """
    matrix, size = block.covariance, block.size
    error = float(block.margin(block.dual).max())  # eliminations on the covariance, whatever K is
    most = max(1, _BATCH // (size * len(block.form.rows)))
    todo = [
        _Batch(
            0, matrix[:, :, None], np.diag(matrix)[:, None].copy(), block.products[:, :, None],
            np.zeros(1, dtype=np.int64),
        )
    ]  # fmt: skip
    best = -1.0
    kept: list[tuple[float, int, int]] = []
    while todo:
        batch = todo.pop()
        first, second = batch.unknown(), batch.known()
        if first.level < size:
            small = 2 * len(batch.codes) <= most
            todo.extend([first.joined(second)] if small else [first, second])
            continue
        for leaf in (first, second):
            values = _values(block, leaf)
            top = float(values.max())
            if top < best - 2 * error:
                continue
            best = max(best, top)
            kept += _largest(values, leaf.codes, best - 2 * error)
            if len(kept) > 4 * _TIES:
                kept = _thinned(kept, best - 2 * error)
    records = range(size)
    candidates = [
        (value, target, tuple(k for k in records if code >> k & 1))
        for value, target, code in _thinned(kept, best - 2 * error)
    ]
    return settle(block, candidates, error, _TIES)


def _values(block: GaussianBlock, leaf: _Batch) -> Array:
    """Return the form's value for every target (rows) and known set (columns)."""
    if len(block.form.rows) == 1:
        share = np.abs(leaf.cross[0]) / leaf.variance * block.scale[:, None]  # (n, sets)
        return np.asarray(np.minimum(share, block.form.caps[0]))
    shares = np.abs(leaf.cross) / leaf.variance  # (rows, n, sets); 0 for a target that is known
    shares *= block.scale[:, None]
    return np.asarray(np.minimum(shares, block.form.caps[:, None, None], out=shares).sum(axis=0))


def _largest(
    values: Array, codes: npt.NDArray[np.int64], least: float
) -> list[tuple[float, int, int]]:
    """Return values of at least ``least``, the largest where they are many; no known target."""
    targets = np.arange(len(values))[:, None]  # (n, 1)
    # places in (n, sets), row by row
    flat = np.flatnonzero((values >= least) & (codes >> targets & 1 == 0))
    if len(flat) > _TIES:
        flat = flat[np.argsort(values.ravel()[flat])[::-1][: _TIES + 1]]
    places = [divmod(int(place), values.shape[1]) for place in flat]
    return [(float(values[i, j]), i, int(codes[j])) for i, j in places]


def _thinned(kept: list[tuple[float, int, int]], least: float) -> list[tuple[float, int, int]]:
    """Return the largest candidates: enough to settle, and one more that stands for the rest."""
    return sorted((entry for entry in kept if entry[0] >= least), reverse=True)[: _TIES + 1]
