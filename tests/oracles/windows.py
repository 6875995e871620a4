"""What all epsilon-DP algorithms leak about a window of records, by linear programs.

Shares nothing with the package: plain joint tables in, one program for each known set, known
values and pair of histories, over every likelihood that changes by at most a factor e^epsilon
where one record changes.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

Floats = np.ndarray[Any, np.dtype[np.float64]]
_TIGHT = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), 1e-10)


@lru_cache(maxsize=32)
def _cone(size: int, records: int, epsilon: float) -> csr_matrix:
    """Return the rows phi(y) - e^epsilon phi(y') for all y, y' that differ in one record."""
    rows = []
    for y in product(range(size), repeat=records):
        for place, state in product(range(records), range(size)):
            if state != y[place]:
                rows.append((y, (*y[:place], state, *y[place + 1 :])))
    number = {y: i for i, y in enumerate(product(range(size), repeat=records))}
    top = [number[y] for y, _ in rows]
    low = [number[z] for _, z in rows]
    count = np.arange(len(rows))
    data = np.concatenate([np.ones(len(rows)), np.full(len(rows), -math.exp(epsilon))])
    shape = (len(rows), size**records)
    return csr_matrix((data, (np.tile(count, 2), np.concatenate([top, low]))), shape=shape)


def histories_leak(
    joint: Floats, epsilon: float, start: int, known: dict[int, int], one: tuple[int, ...],
    two: tuple[int, ...],
) -> float:  # fmt: skip
    """Return the most that an epsilon-DP algorithm tells history ``one`` from ``two``."""
    n, size, window = joint.ndim, joint.shape[0], len(one)
    wanted = range(start, start + window)
    unknown = [t for t in range(n) if t not in known and t not in wanted]
    table = joint.transpose(*known, *wanted, *unknown)[tuple(known.values())]
    top, low = np.zeros_like(table), np.zeros_like(table)
    top[one], low[two] = table[one] / table[one].sum(), table[two] / table[two].sum()
    cone = _cone(size, window + len(unknown), epsilon)
    solve: Any = linprog  # its stubs do not know sparse constraints
    found = solve(
        -top.ravel(), A_ub=cone, b_ub=np.zeros(cone.shape[0]), A_eq=low.reshape(1, -1), b_eq=[1.0],
        method="highs", options=_TIGHT,
    )  # fmt: skip
    assert found.status == 0, found.message
    return math.log(-found.fun)


def adversaries(
    joint: Floats, window: int, against: Any = "any"
) -> Iterator[tuple[int, dict[int, int], list[tuple[int, ...]]]]:
    """Yield the first record, what is known with which values, and the possible histories."""
    n, size = joint.ndim, joint.shape[0]
    for start in range(n - window + 1):
        others = [t for t in range(n) if not start <= t < start + window]
        sets = [set(k) for m in range(len(others) + 1) for k in combinations(others, m)]
        if against == "ignorant":
            sets = [set()]
        elif against == "informed":
            sets = [set(others)]
        elif against != "any":
            sets = [set(against.known)] if against.target == start else []
        for known in sets:
            for values in product(range(size), repeat=len(known)):
                facts = dict(zip(sorted(known), values, strict=True))
                rest = [t for t in others if t not in known]
                order = (*facts, *range(start, start + window), *rest)
                table = joint.transpose(order)[tuple(facts.values())]
                law = table.reshape(*(size,) * window, -1).sum(axis=-1)
                yield start, facts, [u for u in np.ndindex(*law.shape) if law[u] > 0]


def window_leak(
    joint: Floats, epsilon: float, window: int, against: Any = "any", *, all_apart: bool = False
) -> float:
    """Return the most that any epsilon-DP algorithm leaks about any window of so many records.

    ``all_apart`` looks only at histories that differ in every record (fewer programs).
    """
    worst = 0.0
    for start, facts, possible in adversaries(joint, window, against):
        for one, two in product(possible, repeat=2):
            differ = sum(a != b for a, b in zip(one, two, strict=True))
            if differ == window or (differ and not all_apart):
                worst = max(worst, histories_leak(joint, epsilon, start, facts, one, two))
    return worst


def noisy_counts(size: int, n: int, state: int, releases: list[tuple[range, float]]) -> Floats:
    """Return the likelihood of independent noisy counts, (size,) * n + (outputs,), up to factors.

    Each is a count of a state over some records with Laplace noise of a scale; the exact answers
    are all the outputs that matter, as in `tests.oracles.joint`.
    """
    table = np.ones((*(size,) * n, 1))
    for records, scale in releases:
        total = np.zeros((size,) * n)
        for place in records:
            shape = [1] * n
            shape[place] = size
            total = total + (np.arange(size) == state).reshape(shape)
        own = np.exp(-np.abs(np.arange(len(records) + 1) - total[..., None]) / scale)
        table = (table[..., :, None] * own[..., None, :]).reshape(*(size,) * n, -1)
    return table


def released_leak(joint: Floats, likelihood: Floats, window: int, against: Any = "any") -> float:
    """Return what the outputs of a likelihood leak about any window, by plain enumeration."""
    worst, weighted = 0.0, joint[..., None] * likelihood
    for start, facts, possible in adversaries(joint, window, against):
        rest = [t for t in range(joint.ndim) if t not in facts]
        rest = [t for t in rest if not start <= t < start + window]
        order = (*facts, *range(start, start + window), *rest)
        law = joint.transpose(order)[tuple(facts.values())]
        seen = weighted.transpose(*order, joint.ndim)[tuple(facts.values())]
        given = np.array([seen[u].reshape(-1, seen.shape[-1]).sum(axis=0) for u in possible])
        given /= np.array([law[u].sum() for u in possible])[:, None]  # (histories, outputs)
        logs = np.log(given)
        worst = max(worst, float((logs.max(axis=0) - logs.min(axis=0)).max()))
    return worst
