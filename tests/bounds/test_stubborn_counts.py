"""Noisy counts on stubborn chains: negative correlation, periods, classes, constant counts.

A chain of any length leaks at least what every finite one leaks, and those are enumerated.
"""

import math

import numpy as np
import pytest

import undertow as ut
from tests.grids import each
from undertow.bounds.counts import laplace as count
from undertow.bounds.counts.laplace import drift

NEAR = [[0.02, 0.96, 0.02], [0.02, 0.02, 0.96], [0.96, 0.02, 0.02]]
ODD = [[0.235, 0.02, 0.745], [0.105, 0.02, 0.875], [0.505, 0.425, 0.07]]
BACK = [[0.1, 0.9], [0.9, 0.1]]


def noisy(states, scale):
    return ut.Laplace(ut.Count(states), scale)


def drawn(kind: str, seed: int) -> ut.MarkovChain:
    rng = np.random.default_rng(seed)
    k = 2 + seed % 2
    rows = rng.dirichlet(np.ones(k), size=k).clip(0.02)
    if kind == "negative":
        rows = rows * (1.0 - 0.9 * np.eye(k))
    if kind == "periodic":
        rows = 0.1 * rows + np.roll(np.eye(k), 1, axis=1)
    start = rng.dirichlet(np.ones(k)) if seed % 3 == 0 else "stationary"
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True), start=start)


@each(
    ("kind", "who", "seeds"),
    ["negative", "periodic", "generic"], ["any", "ignorant"], [(0, 1), (2, 3)],
)  # fmt: skip
def test_a_short_frontier_covers_all_that_lies_beyond_it(kind, who, seeds):
    """The top of a search over 1, 2 or 3 records a side is no less than any series leaks."""
    for seed in seeds:
        chain, scale = drawn(kind, seed), (0.3, 1.0, 4.0)[seed % 3]
        counted = np.arange(chain.size) == seed % chain.size
        truth = max(
            count.count_leakage(
                scale, counted, ut.MarkovChain(chain.transition, start=chain.start, length=n), who
            ).lower
            for n in (2, 4, 7, 9)
        )
        for steps in (1, 2):
            search = count._search(chain, counted, scale, who, steps, -math.inf)
            search.run(lambda: math.inf)
            assert max(search.top, search.best) >= truth


def test_finite_series_approach_the_endless_one():
    for rows, states, scale in ((BACK, [1], 0.4), (NEAR, [0], 1.0), (ODD, [1], 0.5)):
        endless = ut.leakage(noisy(states, scale), ut.MarkovChain(rows))
        assert endless.closed
        for n in (3, 6, 36):
            finite = ut.leakage(noisy(states, scale), ut.MarkovChain(rows, length=n))
            assert finite.closed
            assert finite.lower <= endless.upper
        assert finite.upper >= endless.lower - 1e-9


@pytest.mark.parametrize("start", ["stationary", [0.9, 0.1]])
def test_a_constant_count_leaks_nothing(start):
    for length in (None, 5, 1000):
        chain = ut.MarkovChain([[0.99, 0.01], [0.004, 0.996]], start=start, length=length)
        leak = ut.leakage(noisy([0, 1], 1.0), chain)
        assert (leak.lower, leak.upper) == (0.0, 0.0)
        for valid_for in ("series", "windows"):
            with pytest.raises(ut.errors.NothingToProtect):
                ut.calibrate(ut.Count([0, 1]), chain, 1.0, valid_for=valid_for)
    unvisited = ut.MarkovChain([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], start=[1, 0, 0])
    assert ut.leakage(noisy([2], 1.0), unvisited).upper == 0.0
    assert ut.leakage(noisy([0, 1], 1.0), unvisited).upper == 0.0


def test_series_that_repeat_themselves_are_closed():
    for rows, states, start in (
        ([[0, 1], [1, 0]], [1], "stationary"),
        ([[0, 1], [1, 0]], [0], [0.3, 0.7]),
        (np.roll(np.eye(5), 1, axis=1), [0, 1], "stationary"),
        (np.kron(np.eye(2), [[0, 1], [1, 0]]), [0, 2], [0.1, 0.2, 0.3, 0.4]),
    ):
        endless = ut.leakage(noisy(states, 4.0), ut.MarkovChain(rows, start=start))
        assert endless.closed
        finite = [
            ut.leakage(noisy(states, 4.0), ut.MarkovChain(rows, start=start, length=n)).lower
            for n in (2, 3, 6, 11, 12, 13)
        ]
        assert endless.lower == pytest.approx(max(finite), abs=1e-9)


REDUCIBLE = [
    ([[1, 0], [0, 1]], [0.5, 0.5], [1]),
    ([[1, 0], [0.5, 0.5]], [0.5, 0.5], [1]),
    ([[0.5, 0.5, 0], [0, 0.1, 0.9], [0, 0.9, 0.1]], [1, 0, 0], [1]),
    (np.kron(np.eye(2), [[0, 1], [1, 0]]), [0.1, 0.2, 0.3, 0.4], [0]),
]


@pytest.mark.parametrize(("rows", "start", "states"), REDUCIBLE)
def test_what_is_proved_unbounded_grows_without_end(rows, start, states):
    endless = ut.leakage(noisy(states, 2.0), ut.MarkovChain(rows, start=start))
    assert math.isinf(endless.lower)
    assert any("without bound" in said for said in endless.assumptions)
    short, long = (
        ut.leakage(noisy(states, 2.0), ut.MarkovChain(rows, start=start, length=n)).lower
        for n in (16, 64)
    )
    assert long > short + 2.0
    with pytest.raises(ut.errors.NotSupported):
        ut.calibrate(ut.Count(states), ut.MarkovChain(rows, start=start), 1.0, method="exact")


@pytest.mark.parametrize("seed", range(4))
def test_the_drift_is_attained_and_never_exceeded(seed):
    """The largest E_p[B] / E_q[B] for oscillations o of ln p / q and r of ln B."""
    rng = np.random.default_rng(seed)
    o, r = rng.uniform(0, 4, size=2)
    most = 0.0
    for _ in range(2000):
        q = rng.dirichlet(np.ones(3))
        p = q * np.exp(o * rng.choice([0, 1, rng.random()], size=3))
        b = np.exp(r * rng.choice([0, 1, rng.random()], size=3))
        most = max(most, float(np.log((p @ b) / p.sum() / (q @ b))))
    w = 1 / (1 + math.exp((o + r) / 2))
    two = (1 - w + w * math.exp(o + r)) / ((1 - w + w * math.exp(o)) * (1 - w + w * math.exp(r)))
    assert most <= float(drift(o, r)) + 1e-12
    assert float(drift(o, r)) == pytest.approx(math.log(two), abs=1e-12)
    assert float(drift(o, math.inf)) == o
