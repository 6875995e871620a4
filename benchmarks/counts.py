"""``python -m benchmarks.counts``: noisy counts on stubborn chains, in CPU seconds on one core.

The figures before are those of the windows searched only as deep as the chain remembers.
"""

import time
from collections.abc import Callable

import numpy as np

import undertow as ut
from benchmarks.__main__ import random_chain
from undertow.errors import NotSupported

BACK = ut.MarkovChain([[0.1, 0.9], [0.9, 0.1]])
NEAR = ut.MarkovChain([[0.02, 0.96, 0.02], [0.02, 0.02, 0.96], [0.96, 0.02, 0.02]])
ODD = ut.MarkovChain([[0.235, 0.02, 0.745], [0.105, 0.02, 0.875], [0.505, 0.425, 0.07]])
FLIP = ut.MarkovChain([[0, 1], [1, 0]])
STUCK = ut.MarkovChain([[1, 0], [0.5, 0.5]], start=[0.5, 0.5])


def shown(found: ut.Leakage | ut.Plan) -> str:
    """Return the interval of a leakage, or the scale of a plan."""
    if isinstance(found, ut.Plan):
        return f"scale {found.noise.amount:.6f}, {'closed' if found.leakage.closed else 'OPEN'}"
    ends = f"[{found.lower:.9f}, {found.upper:.9f}]"
    return f"{ends}{'' if found.closed else ' OPEN'}"


def show(name: str, before: str, call: Callable[[], ut.Leakage | ut.Plan]) -> None:
    """Print the CPU seconds of a call beside those before, and what it finds."""
    start = time.process_time()
    try:
        said = shown(call())
    except NotSupported as reason:
        said = type(reason).__name__
    print(
        f"{name:44} {time.process_time() - start:7.2f} s  (before {before:>8})  {said}", flush=True
    )


def leaking(
    states: list[int], scale: float, chain: ut.MarkovChain
) -> Callable[[], ut.Leakage | ut.Plan]:
    """Return the question what a count leaks."""
    return lambda: ut.leakage(ut.Laplace(ut.Count(states), scale), chain)


def planned(
    states: list[int], limit: float, chain: ut.MarkovChain
) -> Callable[[], ut.Leakage | ut.Plan]:
    """Return the question which plan is the best."""
    return lambda: ut.calibrate(ut.Count(states), chain, limit)


def main() -> None:
    """Print the table."""
    ut.leakage(ut.Laplace(ut.Count(0), 1.0), ut.MarkovChain([[0.5, 0.5], [0.5, 0.5]]))  # imports
    show("negative, leakage at scale .25", "5.9 s", leaking([1], 0.25, BACK))
    show("negative, plan at limit 2", "> 28 s", planned([1], 2.0, BACK))
    show("near-periodic, leakage at scale 1", "18 s", leaking([0], 1.0, NEAR))
    show("near-periodic, plan at limit 1", "-", planned([0], 1.0, NEAR))
    for states, before in (([0], "0.2 s"), ([1], "5.1 s"), ([2], "5.5 s"), ([0, 1], "-")):
        show(f"three states, {states} at scale .25", before, leaking(states, 0.25, ODD))
    show("three states, plan of [1] at limit 4", "-", planned([1], 4.0, ODD))
    for start, before in (("stationary", "13 s"), (np.array([0.3, 0.7]), "> 200 s")):
        chain = ut.MarkovChain([[0.99, 0.01], [0.004, 0.996]], start=start)
        show("constant count, leakage", before, leaking([0, 1], 1.0, chain))
        show("constant count, plan", before, planned([0, 1], 1.0, chain))
    show("two alternating states", "inf", leaking([1], 4.0, FLIP))
    show("an absorbing state", "inf", leaking([1], 4.0, STUCK))
    for states in ([0], [0, 1], [0, 1, 2, 3, 4]):
        show(
            f"10 states, plan of {states} at limit 1",
            "20 s",
            planned(states, 1.0, random_chain(10)),
        )


if __name__ == "__main__":
    main()
