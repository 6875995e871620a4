"""Time leakages and plans at a delta: ``python -m benchmarks.approximate``. No time is asserted.

Each line is one cold run in this process. Ratios: the closed exchange against the pure budget it
rests on; a sweep against the linear program over all tests of a short series, which it bounds for
any length.
"""

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linprog

import undertow as ut
from undertow.bounds.approximate.polygons import polygon_of_lines
from undertow.bounds.approximate.sweep import sweep_delta
from undertow.sampling.normals import discrete_gaussian, rounded_normal

ACTIVITY = np.array([[0.882, 0.118], [0.305, 0.695]])
CHAIN = ut.MarkovChain(ACTIVITY, states=("inactive", "active"))
ACTIVE = ut.Count("active")


def program(records: int, level: float, delta: float, epsilon: float) -> float:
    """Return the largest delta of all (level, delta)-DP tests, the middle record the target."""
    target, shape = records // 2, (2,) * records
    law = np.array([0.305, 0.118]) / 0.423
    for _ in range(records - 1):
        law = law[..., None] * ACTIVITY
    one, two = (np.where(np.indices(shape)[target] == x, law, 0.0).ravel() for x in (1, 0))
    gain = one / one.sum() - math.exp(epsilon) * two / two.sum()
    rows, bounds = [], []
    for place in itertools.product(range(2), repeat=records):
        for record in range(records):
            other = tuple(1 - v if t == record else v for t, v in enumerate(place))
            row = np.zeros(len(gain))
            row[np.ravel_multi_index(place, shape)] = 1.0
            row[np.ravel_multi_index(other, shape)] = -math.exp(level)
            turned = np.where(row < 0, -math.exp(-level), row)  # of the event that does not happen
            rows += [row, turned]
            bounds += [delta, -math.expm1(-level) + math.exp(-level) * delta]
    found = linprog(-gain, np.array(rows), np.array(bounds), bounds=(0, 1))
    return float(-found.fun)


def timed(name: str, work: Callable[[], Any], against: float | None = None) -> float:
    """Print how long a call takes, and how many times as long as another."""
    began = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - began
    ratio = "" if against is None else f"  {seconds / against:8.2f} times"
    print(f"{name:<58} {seconds:9.4f} s{ratio}  {found}")
    return seconds


def main() -> None:
    pure = timed("pure budget, limit 1", lambda: f"{ut.dp_budget(CHAIN, 1.0):.8f}")
    timed(
        "budget at delta 1e-6, closed, against it",
        lambda: f"sigma {ut.dp_budget(CHAIN, 1.0, delta=1e-6).sigma:.4f}",
        pure,
    )
    polygon = polygon_of_lines([(1.0, 1e-6)])
    short = timed("program over all tests, 7 records", lambda: f"{program(7, 1.0, 1e-6, 3.0):.3e}")
    timed(
        "sweep, any length, against it",
        lambda: f"{sweep_delta(polygon, CHAIN, 3.0, 'any'):.3e}",
        short,
    )
    for name, mechanism in (
        ("leakage of all GDP algorithms, mu 1/16.58", ut.GDP(1 / 16.58)),
        ("leakage of all zCDP algorithms, rho .0015", ut.ZCDP(0.0015)),
        ("leakage of a Gaussian count, sigma 16.5001058", ut.Gaussian(ACTIVE, 16.5001058)),
    ):
        timed(name, lambda m=mechanism: f"{ut.leakage(m, CHAIN, delta=1e-6).upper:.6f}")  # type: ignore[misc]
    for method in ("closed", "sweep", "exact"):
        timed(
            f"plan of a Gaussian count, {method}",
            lambda m=method: (
                ut.calibrate(  # type: ignore[misc]
                    ACTIVE, CHAIN, 1.0, delta=1e-6, noise="gaussian", method=m
                ).mechanism.amount
            ),
        )
    timed("100,000 normal variables, rounded, exactly", lambda: len(rounded_normal(16.5, 100_000)))
    timed("100,000 discrete Gaussian variables", lambda: len(discrete_gaussian(16.5, 100_000)))


if __name__ == "__main__":
    main()
