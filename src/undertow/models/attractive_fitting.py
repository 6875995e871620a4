"""Transitions of hidden states that make a law attractive, with the largest expected likelihood.

A hidden chain is attractive (`undertow.models.attractive`) if in some order of its hidden states,
those of symbol 0 before those of symbol 1, the transition matrix T is totally positive of order 2:

    L_ij = ln T_ij + ln T_{i+1,j+1} - ln T_{i,j+1} - ln T_{i+1,j} >= 0    of neighbours i, j.

Every positive T with rows that sum to 1 is, for one b (b_0 = 0) and one L,

    T_ij = e^{u_ij} / sum_j e^{u_ij},    u_ij = b_j + sum_{k < i, l < j} L_kl,

and the expected log-likelihood sum_ij c_ij ln T_ij of a step of expectation-maximisation is concave
in (b, L): linear less logarithms of sums of exponentials. So the largest one over L >= 0 is found
by Newton steps that stop at the bounds, and each step raises the likelihood as without them.
"""

from functools import cache

import numpy as np

from undertow.numerics import Array

__all__ = ["MARGIN", "attractive_rows"]

MARGIN, LARGEST = 1e-6, 25.0
"""Least and largest L, and the largest |b|: a law that is attractive by at least the first is so
after rounding, and transitions e^25 times rarer than others are as good as impossible."""

STEPS, ARRIVED = 30, 1e-9
"""Newton steps (cost), and the gain for each transition that was counted at which they end."""


@cache
def _design(size: int) -> Array:
    """Return du_ij / d(b, L), shape (m, m, parameters)."""
    inner = size - 1
    table = np.zeros((size, size, inner + inner * inner))
    for i in range(size):
        for j in range(1, size):
            table[i, j, j - 1] = 1.0
            table[i, j, inner:].reshape(inner, inner)[:i, :j] = 1.0
    table.setflags(write=False)
    return table


def _rows(point: Array, size: int) -> tuple[Array, Array]:
    """Return T (m, m), and ln T."""
    exponents = _design(size) @ point
    top = exponents.max(axis=1, keepdims=True)
    logs = exponents - top - np.log(np.exp(exponents - top).sum(axis=1, keepdims=True))
    return np.exp(logs), logs


def attractive_rows(counts: Array, start: Array) -> Array:
    """Return the T that makes sum c_ij ln T_ij largest among the totally positive ones.

    ``counts`` (m, m) are expected transitions, ``start`` a matrix to begin at; the hidden states
    are in their order. Of an order that ``start`` does not have the nearest one is taken. Cost
    O(m^6) for each of a few steps.

    >>> rows = attractive_rows(np.array([[3.0, 1.0], [2.0, 2.0]]), np.full((2, 2), .5))
    >>> rows.round(6).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    >>> rows = attractive_rows(np.array([[1.0, 3.0], [2.0, 2.0]]), np.full((2, 2), .5))
    >>> rows.round(4).tolist()  # a change may be no likelier than staying: equal rows
    [[0.375, 0.625], [0.375, 0.625]]
    """
    size = len(counts)
    design, visits = _design(size), counts.sum(axis=1)
    low = np.where(np.arange(design.shape[2]) < size - 1, -LARGEST, MARGIN)
    logs = np.log(np.maximum(start, np.finfo(np.float64).tiny))
    second = logs[1:, 1:] + logs[:-1, :-1] - logs[1:, :-1] - logs[:-1, 1:]
    point = np.clip(np.concatenate([logs[0, 1:] - logs[0, 0], second.ravel()]), low, LARGEST)
    total = max(float(counts.sum()), 1.0)
    table, logs = _rows(point, size)
    value = float((counts * logs).sum())
    for _ in range(STEPS):
        slope = np.einsum("ij,ijp->p", counts - visits[:, None] * table, design)
        free = ~(((point <= low) & (slope < 0)) | ((point >= LARGEST) & (slope > 0)))
        mean = np.einsum("ij,ijp->ip", table, design)
        weighed = np.einsum("i,ij,ijp->ijp", visits, table, design)
        bend = np.einsum("ijp,ijq->pq", weighed, design) - np.einsum(
            "i,ip,iq->pq", visits, mean, mean
        )  # less the second derivatives: positive semidefinite
        # rows that were never visited leave directions without any bend
        ridge = np.diag(1e-6 * np.diag(bend) + 1e-9 * total)
        step = np.zeros_like(point)
        step[free] = np.linalg.solve((bend + ridge)[np.ix_(free, free)], slope[free])
        gain, share = 0.0, 1.0
        while share > 1e-9:
            tried = np.clip(point + share * step, low, LARGEST)
            table_tried, logs = _rows(tried, size)
            gain = float((counts * logs).sum()) - value
            if gain >= 1e-4 * float(slope @ (tried - point)) and gain >= 0:
                break
            share /= 2
        else:
            break
        point, table, value = tried, table_tried, value + gain
        if gain <= ARRIVED * total * 1e-3:
            break
    return table
