"""Time all epsilon-DP algorithms on chains of many states: ``python -m benchmarks.large [name]``.

Each line is one cold run in a process of its own: CPU seconds, the most memory the process had,
the interval or the level found. Nothing here asserts a time. The chains are synthetic twins of data
that may not travel: household power by minute in steps of 200 W, and sleep stages of 30 s.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import undertow as ut

WATTS = np.array([150, 400, 900, 1500, 2000, 2200, 3000, 1200, 4600])
SWITCHED_ON = np.array([0.02, 0.01, 0.006, 0.005, 0.004, 0.004, 0.002, 0.004, 0.0012])
SWITCHED_OFF = np.array([0.02, 0.03, 0.04, 0.05, 0.1, 0.08, 0.03, 0.1, 0.025])


def power(minutes: int = 300_000) -> ut.MarkovChain:
    """Return a chain of 51 states fitted to a simulated house: half its entries are zero."""
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
    return ut.MarkovChain(counts / counts.sum(axis=1, keepdims=True))


def dense(states: int, sticky: float = 0.0) -> ut.MarkovChain:
    """Return a chain with uneven rows, none of whose entries is below a thousandth or so."""
    rows = np.random.default_rng(states).dirichlet(np.ones(states), size=states)
    rows = np.maximum(rows, 1e-3)
    rows /= rows.sum(axis=1, keepdims=True)
    return ut.MarkovChain(sticky * np.eye(states) + (1 - sticky) * rows)


def sleep() -> ut.MarkovChain:
    """Return a chain of eight states like scored nights: one of them lasts for a day."""
    rows = [
        [0.648, 0.241, 0.001, 0.0, 0.0, 0.0, 0.055, 0.055],
        [0.023, 0.905, 0.045, 0.001, 0.0, 0.001, 0.015, 0.010],
        [0.008, 0.209, 0.655, 0.117, 0.0, 0.004, 0.001, 0.006],
        [0.004, 0.013, 0.132, 0.847, 0.0, 0.001, 0.0, 0.003],
        [0.0, 0.0, 0.0, 0.0, 0.9997, 0.0, 0.0, 0.0003],
        [0.25, 0.25, 0.06, 0.0, 0.0, 0.03, 0.35, 0.06],
        [0.035, 0.016, 0.0003, 0.0, 0.0, 0.004, 0.9307, 0.014],
        [0.006, 0.0002, 0.0001, 0.0, 0.0006, 0.0, 0.0004, 0.9927],
    ]
    matrix = np.array(rows)
    return ut.MarkovChain(matrix / matrix.sum(axis=1, keepdims=True))


THREE = ut.MarkovChain([[0.235, 0.02, 0.745], [0.105, 0.02, 0.875], [0.505, 0.425, 0.07]])


def _leak(chain: ut.MarkovChain, against: Any = "any") -> tuple[float, float]:
    found = ut.leakage(ut.PureDP(1.0), chain, against)
    return found.lower, found.upper


def _plan(chain: ut.MarkovChain, against: Any = "any") -> tuple[float, float, float]:
    plan = ut.calibrate(ut.Histogram(), chain, limit=1.0, against=against, method="exchange")
    noise: Any = plan.mechanism
    return noise.scale, plan.leakage.lower, plan.leakage.upper


CASES: dict[str, Callable[[], object]] = {
    "51 states, power: leakage, any": lambda: _leak(power()),
    "51 states, power: leakage, ignorant": lambda: _leak(power(), "ignorant"),
    "51 states, power: dp_budget, any": lambda: ut.dp_budget(power(), limit=1.0),
    "51 states, power: dp_budget, ignorant": lambda: ut.dp_budget(
        power(), limit=1.0, against="ignorant"
    ),
    "51 states, power: histogram plan, any": lambda: _plan(power()),
    "51 states, power: histogram plan, ignorant": lambda: _plan(power(), "ignorant"),
    "51 states, dense: leakage, any": lambda: _leak(dense(51)),
    "25 states: leakage, any": lambda: _leak(dense(25)),
    "25 sticky states: leakage, any": lambda: _leak(dense(25, 0.9)),
    "10 states: dp_budget, any": lambda: ut.dp_budget(dense(10), limit=1.0),
    "10 states: histogram plan, any": lambda: _plan(dense(10)),
    "10 sticky states: dp_budget, any": lambda: ut.dp_budget(dense(10, 0.8), limit=1.0),
    "8 sleep states: leakage, any": lambda: _leak(sleep()),
    "8 sleep states: exchange plan, any": lambda: _plan(sleep()),
    "3 states, near-periodic: leakage, any": lambda: _leak(THREE),
    "3 states, near-periodic: dp_budget, any": lambda: ut.dp_budget(THREE, limit=1.0),
}


def run(name: str) -> None:
    """Print what one case costs here; the chain is made before the clock starts."""
    power_ = power() if "power" in name else None
    globals()["power"] = lambda: power_
    began = time.process_time()
    found = CASES[name]()
    seconds = time.process_time() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{name:<46} {seconds:8.2f} CPU s {most:6.2f} GiB   {found}", flush=True)


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted in CASES:
        run(wanted)
        return
    for name in CASES:
        if wanted in name:
            subprocess.run([sys.executable, "-m", "benchmarks.large", name], check=True)


if __name__ == "__main__":
    main()
