"""Models that are large, sticky, nearly periodic or lopsided: what used to take minutes.

The chains of household power and of sleep are synthetic twins of data that may not travel.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

import undertow as ut
from benchmarks.rows import Row, beside

PART = "Stubborn models"

WATTS = np.array([150, 400, 900, 1500, 2000, 2200, 3000, 1200, 4600])
SWITCHED_ON = np.array([0.02, 0.01, 0.006, 0.005, 0.004, 0.004, 0.002, 0.004, 0.0012])
SWITCHED_OFF = np.array([0.02, 0.03, 0.04, 0.05, 0.1, 0.08, 0.03, 0.1, 0.025])

SLEEP = [
    [0.648, 0.241, 0.001, 0.0, 0.0, 0.0, 0.055, 0.055],
    [0.023, 0.905, 0.045, 0.001, 0.0, 0.001, 0.015, 0.010],
    [0.008, 0.209, 0.655, 0.117, 0.0, 0.004, 0.001, 0.006],
    [0.004, 0.013, 0.132, 0.847, 0.0, 0.001, 0.0, 0.003],
    [0.0, 0.0, 0.0, 0.0, 0.9997, 0.0, 0.0, 0.0003],
    [0.25, 0.25, 0.06, 0.0, 0.0, 0.03, 0.35, 0.06],
    [0.035, 0.016, 0.0003, 0.0, 0.0, 0.004, 0.9307, 0.014],
    [0.006, 0.0002, 0.0001, 0.0, 0.0006, 0.0, 0.0004, 0.9927],
]
FLIPPED = [
    [0.7, 0.15, 0.1, 0.05],
    [0.1, 0.6, 0.2, 0.1],
    [0.15, 0.2, 0.55, 0.1],
    [0.05, 0.1, 0.25, 0.6],
]
BACK = ut.MarkovChain([[0.1, 0.9], [0.9, 0.1]])
NEAR = ut.MarkovChain([[0.02, 0.96, 0.02], [0.02, 0.02, 0.96], [0.96, 0.02, 0.02]])
ODD = ut.MarkovChain([[0.235, 0.02, 0.745], [0.105, 0.02, 0.875], [0.505, 0.425, 0.07]])
SLOW = [[0.99, 0.01], [0.004, 0.996]]


@cache
def power(minutes: int = 300_000) -> ut.MarkovChain:
    """Return a chain of 51 states, steps of 200 W, fitted to a simulated house by minute."""
    rng = np.random.default_rng(51)
    draws, noise = rng.random((minutes, len(WATTS))), rng.normal(0, 60, minutes)
    running, drift = np.zeros(len(WATTS), dtype=bool), 0.0
    series = np.empty(minutes, dtype=int)
    for minute in range(minutes):
        running = np.where(running, draws[minute] >= SWITCHED_OFF, draws[minute] < SWITCHED_ON)
        drift = 0.95 * drift + noise[minute]
        series[minute] = np.clip((180 + drift + WATTS @ running) // 200, 0, 50)
    counts = np.zeros((51, 51))
    np.add.at(counts, (series[:-1], series[1:]), 1)
    return normalised(counts)


def normalised(rows: Any) -> ut.MarkovChain:
    """Return the chain with rows in these proportions."""
    matrix = np.asarray(rows, dtype=float)
    return ut.MarkovChain(matrix / matrix.sum(axis=1, keepdims=True))


@cache
def dense(states: int) -> ut.MarkovChain:
    """Return a chain with uneven rows, none of whose entries is below a thousandth or so."""
    return normalised(
        np.maximum(np.random.default_rng(states).dirichlet(np.ones(states), size=states), 1e-3)
    )


def _leak(chain: ut.MarkovChain, against: Any = "any") -> Callable[[], object]:
    return lambda: ut.leakage(ut.PureDP(1.0), chain, against)


def _budget(chain: ut.MarkovChain, against: Any = "any") -> Callable[[], object]:
    return lambda: ut.dp_budget(chain, limit=1.0, against=against)


def _histogram(chain: ut.MarkovChain, against: Any = "any") -> Callable[[], object]:
    return lambda: ut.calibrate(ut.Histogram(), chain, 1.0, against, method="exchange")


def _count(states: list[int], limit: float, chain: ut.MarkovChain) -> Callable[[], object]:
    return lambda: ut.calibrate(ut.Count(states), chain, limit)


def _noisy(states: list[int], scale: float, chain: ut.MarkovChain) -> Callable[[], object]:
    return lambda: ut.leakage(ut.Laplace(ut.Count(states), scale), chain)


def _flips(limit: float, against: Any, length: int | None = None) -> Callable[[], object]:
    chain = ut.MarkovChain(FLIPPED, length=length)
    return lambda: ut.calibrate(ut.Series(), chain, limit, against)


def _path() -> ut.BayesianNetwork:
    names = [f"x{t}" for t in range(10_000)]
    tables: dict[str, Any] = {name: [[0.9, 0.1], [0.2, 0.8]] for name in names}
    tables[names[0]] = [0.5, 0.5]
    return ut.BayesianNetwork(list(pairwise(names)), tables)


def _lopsided() -> object:
    chain = ut.MarkovChain([[0.99, 0.01], [0.8, 0.2]], length=100)
    return ut.calibrate(ut.Redacted(50), chain, 1.0)


def cases() -> dict[str, Callable[[], object]]:
    """Return what is asked, by name."""
    started = ut.MarkovChain(SLOW, start=np.array([0.3, 0.7]))
    path = _path()
    return {
        "leakage, 51 states (power), any": _leak(power()),
        "leakage, 51 states (power), ignorant": _leak(power(), "ignorant"),
        "DP budget, 51 states (power), any": _budget(power()),
        "DP budget, 51 states (power), ignorant": _budget(power(), "ignorant"),
        "histogram plan, 51 states (power), any": _histogram(power()),
        "histogram plan, 51 states (power), ignorant": _histogram(power(), "ignorant"),
        "leakage, 25 states, any": _leak(dense(25)),
        "DP budget, 10 states": _budget(dense(10)),
        "plan of a count, 10 states": _count([0, 1], 1.0, dense(10)),
        "all methods compared, 10 states": lambda: ut.compare(ut.Count(0), dense(10), 1.0),
        "histogram plan, 8 sleep states": _histogram(normalised(SLEEP)),
        "plan of a count, negative correlation, limit 2": _count([1], 2.0, BACK),
        "leakage of a count of all states": _noisy([0, 1], 1.0, ut.MarkovChain(SLOW)),
        "the same, a given start": _noisy([0, 1], 1.0, started),
        "leakage of a count, nearly periodic": _noisy([0], 1.0, NEAR),
        "leakage of a count, three uneven states": _noisy([1], 0.25, ODD),
        "leakage of a count, two alternating states": _noisy(
            [1], 4.0, ut.MarkovChain([[0, 1], [1, 0]])
        ),
        "flips of 4 states, any, limit 3": _flips(3.0, "any"),
        "flips of 4 states, ignorant, limit 1": _flips(1.0, "ignorant"),
        "redaction, lopsided, 100 records": _lopsided,
        "a path of 10,000 as a network": lambda: ut.leakage(ut.PureDP(1.0), path),
    }


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    if quick:
        yield beside(PART, "leakage, 10 states, any", _leak(dense(10)))
        return
    for name, call in cases().items():
        yield beside(PART, name, call)
