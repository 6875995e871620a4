"""Leakages and plans at a delta: ``python -m benchmarks.approximate``. No time is asserted.

A sweep, which bounds series of any length, stands beside the linear program over all tests of a
short one.
"""

import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linprog

import undertow as ut
from benchmarks.rows import Row, beside, show
from undertow.bounds.curves.sweep import polygon_of_lines, sweep_delta
from undertow.sampling.normals import discrete_gaussian, rounded_normal

PART = "At a delta"
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


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    records = 4 if quick else 7
    polygon = polygon_of_lines([(1.0, 1e-6)])
    yield beside(
        PART, "largest delta of all DP tests, chain of any length",
        lambda: sweep_delta(polygon, CHAIN, 3.0, "any"),
        f"program over all tests, {records} records",
        partial(program, records, 1.0, 1e-6, 3.0),
    )  # fmt: skip
    if quick:
        return
    yield beside(PART, "budget for leakage 1 at delta 1e-6",
                 lambda: ut.dp_budget(CHAIN, 1.0, delta=1e-6).sigma)  # fmt: skip
    for name, mechanism in (
        ("leakage of all GDP algorithms, mu 1/16.58", ut.GDP(1 / 16.58)),
        ("leakage of all zCDP algorithms, rho .0015", ut.ZCDP(0.0015)),
        ("leakage of a Gaussian count, sigma 16.5", ut.Gaussian(ACTIVE, 16.5001058)),
    ):
        yield beside(PART, name, partial(ut.leakage, mechanism, CHAIN, delta=1e-6))
    for method in ("closed", "sweep", "exact"):
        plan = partial(
            ut.calibrate, ACTIVE, CHAIN, 1.0, delta=1e-6, noise="gaussian", method=method
        )
        yield beside(PART, f"plan of a Gaussian count, {method}", plan)
    rng = np.random.default_rng()
    yield beside(
        PART, "100,000 normal variables, rounded, exactly", lambda: rounded_normal(16.5, 100_000),
        "NumPy (floats, not secure)", lambda: rng.normal(0, 16.5, 100_000).round(),
    )  # fmt: skip
    gauss = opendp_gaussian(16.5)
    yield beside(
        PART, "20,000 discrete Gaussian variables", lambda: discrete_gaussian(16.5, 20_000),
        "OpenDP", lambda: gauss([0] * 20_000),
    )  # fmt: skip


def opendp_gaussian(scale: float) -> Any:
    """Return OpenDP's discrete Gaussian noise on whole numbers."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=scale)


if __name__ == "__main__":
    list(show(rows()))
