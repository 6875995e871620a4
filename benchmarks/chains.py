"""Leakages, budgets and counts on Markov chains, beside plain versions of them."""

from collections.abc import Iterator
from functools import cache, partial

import numpy as np

import undertow as ut
from benchmarks import naive
from benchmarks.rows import Row, beside, grown

PART = "Markov chains"
ACTIVITY = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], length=15264)
HEART = ut.MarkovChain([[0.9106, 0.0894], [0.1092, 0.8908]], length=26923)
FOUR = ut.MarkovChain(
    [[0.7, 0.15, 0.1, 0.05], [0.1, 0.65, 0.2, 0.05], [0.05, 0.15, 0.7, 0.1], [0.1, 0.1, 0.2, 0.6]],
    length=1000,
)


@cache
def ladder(states: int) -> ut.MarkovChain:
    """Return a chain that moves to near states more often: of one kind for every number of them."""
    apart = np.abs(np.subtract.outer(np.arange(states), np.arange(states)))
    rows = np.exp(-np.minimum(apart, 4.0)) * (1 + 0.1 * np.arange(states) / states)
    return ut.MarkovChain(rows / rows.sum(axis=1, keepdims=True))


def _any(states: int) -> object:
    return ut.leakage(ut.PureDP(1.0), ladder(states))


def _ignorant(states: int) -> object:
    return ut.leakage(ut.PureDP(1.0), ladder(states), against="ignorant")


def _long(records: int) -> object:
    return ut.leakage(ut.PureDP(1.0), ut.MarkovChain(ACTIVITY.transition, length=records))


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    yield beside(
        PART, "leakage of all DP algorithms, 2 states, any attacker",
        lambda: ut.leakage(ut.PureDP(1.0), ACTIVITY),
        f"plain, reach {4 if quick else 48}",
        lambda: naive.exchange(ACTIVITY, 1.0, reach=4 if quick else 48),
    )  # fmt: skip
    if quick:
        return
    yield grown(PART, "the same, 300 to 1,000,000 records", [300, 10_000, 1_000_000], _long)
    yield beside(
        PART, "DP budget for leakage 1, 2 states", lambda: ut.dp_budget(ACTIVITY, limit=1.0),
        "plain, 34 halvings, reach 12",
        lambda: [naive.exchange(ACTIVITY, 0.25, reach=12) for _ in range(34)],
    )  # fmt: skip
    yield grown(
        PART, "leakage, 3 to 8 states, any attacker", [3, 4, 6, 8], _any, "k", "plain, reach 8",
        lambda states: naive.exchange(ladder(states), 1.0, reach=8),
    )  # fmt: skip
    yield grown(PART, "leakage, 10 to 50 states, ignorant attacker", [10, 25, 50], _ignorant, "k")
    yield beside(
        PART, "exact leakage of a count, 4 states",
        lambda: ut.leakage(ut.Laplace(ut.Count([2, 3]), 4.66), FOUR), "plain, reach 30",
        lambda: naive.count(FOUR, [2, 3], 4.66, reach=30),
    )  # fmt: skip
    cases: list[tuple[str, ut.MarkovChain, list[int]]] = [
        ("activity", ACTIVITY, [1]), ("heart", HEART, [1]), ("4 states", FOUR, [2, 3]),
    ]  # fmt: skip
    for name, chain, states in cases:
        plan = partial(ut.calibrate, ut.Count(states), chain, limit=1.0, method="exact")
        yield beside(PART, f"plan of a count with its certificate, {name}", plan)
    for limit in (1.0, 4.0):
        optimal = partial(ut.calibrate, ut.Count(1), ACTIVITY, limit, method="optimal")
        yield beside(PART, f"least noise of any shape, activity, limit {limit:g}", optimal)
    yield beside(
        PART, "all methods compared, activity", lambda: ut.compare(ut.Count(1), ACTIVITY, 1.0)
    )
    box = ut.MarkovChain.box([[0.87, 0.11], [0.29, 0.68]], [[0.89, 0.13], [0.32, 0.71]])
    yield beside(PART, "budget over a box of chains", lambda: ut.dp_budget(box, limit=1.0))
