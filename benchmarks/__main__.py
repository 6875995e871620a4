"""Time the main calls beside plain versions of them: ``make bench``.

Each line is the best of a few runs in this process; a ratio compares with the plain version in
``naive.py``, run in the same process on the same model (one run, with a smaller reach where it
would take minutes; the reach is stated). Nothing here asserts a time.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import undertow as ut
from benchmarks import naive
from undertow._version import __version__
from undertow.bounds.chains.quilt import Scale, quilt_search
from undertow.bounds.chains.wasserstein import count_distance
from undertow.planning.optimal import solve_optimal

RUNS = 3

ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=15264)
HEART = ut.MarkovChain([[0.9106, 0.0894], [0.1092, 0.8908]], length=26923)
FOUR = ut.MarkovChain(
    [[0.7, 0.15, 0.1, 0.05], [0.1, 0.65, 0.2, 0.05], [0.05, 0.15, 0.7, 0.1], [0.1, 0.1, 0.2, 0.6]],
    length=1000,
)


def random_chain(states: int) -> ut.MarkovChain:
    """Return a chain with uneven rows, none of whose entries is below a thousandth."""
    drawn = np.random.default_rng(states).dirichlet(np.ones(states), size=states)
    drawn = np.maximum(drawn, 1e-3)
    return ut.MarkovChain(drawn / drawn.sum(axis=1, keepdims=True))


def best_time(call: Callable[[], object], runs: int = RUNS) -> float:
    """Return the least wall-clock seconds of a few calls."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def show(name: str, call: Callable[[], object], plain: Callable[[], object] | None = None,
         note: str = "") -> None:  # fmt: skip
    """Print the time of a call, and its ratio to the plain version."""
    call()
    seconds = best_time(call)
    line = f"{name:<58} {seconds * 1000:9.1f} ms"
    if plain is not None:
        slow = best_time(plain, runs=1)
        line += f"   plain {slow:8.2f} s{note}   ratio {slow / seconds:9.0f}"
    print(line, flush=True)


def exchange_benchmarks() -> None:
    print("exchange rate")
    show(
        "2 states, against any", lambda: ut.leakage(ut.PureDP(1.0), ACTIVITY),
        lambda: naive.exchange(ACTIVITY, 1.0, reach=48), " (reach 48)",
    )  # fmt: skip
    show(
        "2 states, DP budget for leakage 1", lambda: ut.dp_budget(ACTIVITY, limit=1.0),
        lambda: [naive.exchange(ACTIVITY, 0.25, reach=48) for _ in range(34)], " (34 halvings)",
    )  # fmt: skip
    for states, reach in ((5, 24), (12, 8)):
        chain = random_chain(states)
        show(
            f"{states} states, against any", partial(ut.leakage, ut.PureDP(1.0), chain),
            partial(naive.exchange, chain, 1.0, reach), f" (reach {reach})",
        )  # fmt: skip
    fifty = random_chain(50)
    show(
        "50 states, against ignorant",
        lambda: ut.leakage(ut.PureDP(1.0), fifty, against="ignorant"),
    )
    for records in (300, 1_000_000):
        chain = ut.MarkovChain(ACTIVITY.transition, length=records)
        show(f"2 states, {records} records", partial(ut.leakage, ut.PureDP(1.0), chain))


def count_benchmarks() -> None:
    print("exact counts")
    show(
        "leakage, 4 states", lambda: ut.leakage(ut.Laplace(ut.Count([2, 3]), 4.66), FOUR),
        lambda: naive.count(FOUR, [2, 3], 4.66, reach=30), " (reach 30)",
    )  # fmt: skip
    cases: list[tuple[str, ut.MarkovChain, list[int]]] = [
        ("activity", ACTIVITY, [1]),
        ("heart", HEART, [1]),
        ("4 states", FOUR, [2, 3]),
    ]
    for name, chain, states in cases:
        count = ut.Count(states)
        show(
            f"calibration with certificate, {name}",
            partial(ut.calibrate, count, chain, limit=1.0, method="exact"),
        )

    def optimal(limit: float) -> object:
        solve_optimal.forget()
        return ut.calibrate(ut.Count(1), ACTIVITY, limit, method="optimal")

    for limit in (1.0, 4.0):
        show(f"least noise of any shape, activity, {limit:g}", partial(optimal, limit))


def method_benchmarks() -> None:
    print("published methods")
    count = ut.Count(1)
    for records in (500, 1000):
        chain = ut.MarkovChain(ACTIVITY.transition, length=records)
        show(
            f"quilt scale, {records} records",
            partial(quilt_search, chain, "ignorant", Scale(1.0)),
            partial(naive.quilt_scale, chain, 1.0),
        )
    longest = ut.MarkovChain(ACTIVITY.transition, length=17568)
    show("quilt scale, 17568 records", lambda: quilt_search(longest, "ignorant", Scale(1.0)))
    show("quilt plan against any", lambda: ut.calibrate(count, longest, 1.0, method="quilt"))
    short = ut.MarkovChain(ACTIVITY.transition, length=1500)
    marks = np.array([False, True])
    show(
        "Wasserstein distance, 1500 records",
        lambda: count_distance(short, marks), lambda: naive.count_distance(short, [1]),
    )  # fmt: skip
    show("Wasserstein distance, 15264 records", lambda: count_distance(ACTIVITY, marks))
    show("Wasserstein distance, heart, 26923 records", lambda: count_distance(HEART, marks))
    show("all methods compared, activity", lambda: ut.compare(count, ACTIVITY, 1.0))
    box = ut.MarkovChain.box([[0.87, 0.11], [0.29, 0.68]], [[0.89, 0.13], [0.32, 0.71]])
    show("budget over a box of chains", lambda: ut.dp_budget(box, limit=1.0))


def main() -> None:
    print(f"undertow {__version__}, best of {RUNS}; plain versions: one run")
    exchange_benchmarks()
    count_benchmarks()
    method_benchmarks()


if __name__ == "__main__":
    main()
