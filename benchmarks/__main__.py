"""Time the main calls: ``python -m benchmarks``, or ``make bench``.

Each line is the best of a few runs in this process, on models that the tests and the documentation
use. Nothing here asserts a time; it is read, and compared between versions.
"""

import time
from collections.abc import Callable

import numpy as np

import undertow as ut
from undertow._version import __version__

RUNS = 3

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
FOUR_STATES = ut.MarkovChain(
    [[0.7, 0.15, 0.1, 0.05], [0.1, 0.65, 0.2, 0.05], [0.05, 0.15, 0.7, 0.1], [0.1, 0.1, 0.2, 0.6]],
    length=1000,
)


def lazy_chain(states: int) -> ut.MarkovChain:
    """Return a chain that mostly stays, with unequal rows (the same one every time)."""
    drawn = np.random.default_rng(states).dirichlet(np.ones(states), size=states)
    return ut.MarkovChain(0.6 * np.eye(states) + 0.4 * drawn)


def cases() -> dict[str, Callable[[], object]]:
    plan = ut.calibrate(ut.Count("active"), ACTIVITY, epsilon=1.0)
    day = ACTIVITY.simulate(288, seed=1)
    twelve = lazy_chain(12)
    return {
        "leakage of PureDP(1), 2 states, any length": lambda: ut.leakage(ut.PureDP(1.0), ACTIVITY),
        "leakage of PureDP(1), 12 states, any length": lambda: ut.leakage(ut.PureDP(1.0), twelve),
        "budget for leakage 1, 2 states, any length": lambda: ut.dp_budget(ACTIVITY, epsilon=1.0),
        "least noise of a count, 2 states, any length": lambda: ut.calibrate(
            ut.Count("active"), ACTIVITY, epsilon=1.0
        ),
        "least noise of a count, 4 states, 1000 records": lambda: ut.calibrate(
            ut.Count([2, 3]), FOUR_STATES, epsilon=1.0
        ),
        "release of a count of 288 records": lambda: ut.release(plan, day),
    }


def best_time(call: Callable[[], object]) -> float:
    """Return the least wall-clock seconds of a few calls."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    print(f"undertow {__version__}, best of {RUNS}")
    for name, call in cases().items():
        print(f"{best_time(call) * 1e3:12.1f} ms  {name}", flush=True)


if __name__ == "__main__":
    main()
