"""What a proof about a histogram itself could gain: ``python -m benchmarks.histograms``.

The table holds the exchange rate against the worst far answer of a histogram: bins of a set
far too high, all others far too low, over all sets, values, and distances of what is known. Their
ratio is the most that any proof about the histogram itself could gain.
"""

from itertools import combinations

import numpy as np

import undertow as ut
from benchmarks.chains import ACTIVITY, FOUR
from undertow.numerics import Array
from undertow_papers.wang2016.records import POWER, SLEEP

FARTHEST = 600
"""Largest distance of a known record in the search for far answers."""


def side(kernel: Array, tilt: Array) -> Array:
    """Return the largest loss of one side under a likelihood exp(sum of tilts), (k, k)."""
    size = len(tilt)
    best, plain, tilted = np.zeros((size, size)), np.eye(size), np.eye(size)
    for _ in range(FARTHEST):
        known = np.log(tilted @ kernel) - np.log(plain @ kernel)  # (target, known value)
        best = np.maximum(best, (known[:, None] - known[None]).max(axis=2))
        plain, tilted = plain @ kernel, tilted @ (kernel * np.exp(tilt))
        tilted /= tilted.max()
        ends = np.log(tilted.sum(axis=1))  # nothing known
        best = np.maximum(best, ends[:, None] - ends[None])
    return best


def far_answer(chain: ut.MarkovChain, scale: float) -> float:
    """Return what the worst far answer of a histogram tells, rounded to nearest."""
    matrix, law = chain.transition, chain.initial
    back = matrix.T * law / law[:, None]
    found = []
    for members in range(1, chain.size):
        for some in combinations(range(chain.size), members):
            tilt = np.zeros(chain.size)
            tilt[list(some)] = 2 / scale
            own = tilt[:, None] - tilt
            found.append(float((own + side(matrix, tilt) + side(back, tilt)).max()))
    return max(found)


def gains() -> None:
    """Print what a proof about the histogram itself could gain at most."""
    nights = ut.MarkovChain(np.array(SLEEP) / np.sum(SLEEP, axis=1, keepdims=True))
    power = ut.MarkovChain(np.array(POWER) / np.sum(POWER, axis=1, keepdims=True))
    chains = {"activity": ACTIVITY, "four states": FOUR, "power": power, "sleep": nights}
    for name, chain in chains.items():
        endless = ut.MarkovChain(chain.transition)
        for limit in (0.5, 1.0, 2.0, 4.0):
            plan = ut.calibrate(ut.Histogram(), endless, limit, method="exchange")
            most = plan.leakage.upper / far_answer(endless, plan.mechanism.scale) - 1
            scale = plan.mechanism.scale
            print(
                f"{name:<12} limit {limit:<4g} scale {scale:8.3f}   at most {most:9.2e}", flush=True
            )


if __name__ == "__main__":
    gains()
