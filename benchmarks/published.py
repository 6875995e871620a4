"""Quilts and Wasserstein distances beside plain searches from their definitions [wang2016]."""

from collections.abc import Iterator
from functools import cache

import numpy as np

import undertow as ut
from benchmarks import naive
from benchmarks.chains import ACTIVITY, HEART
from benchmarks.rows import Row, beside, grown
from undertow.bounds.channels.quilts import NoiseScore, quilt_search
from undertow.bounds.channels.wasserstein import count_distance

PART = "Published methods"
ONE = np.array([False, True])


def stationary(records: int) -> ut.MarkovChain:
    return ut.MarkovChain(ACTIVITY.transition, length=records)


@cache
def differing(records: int, states: int = 2) -> ut.MarkovChain:
    """Return a chain each of whose steps has a matrix of its own."""
    drawn = np.random.default_rng(records).dirichlet(np.full(states, 2.0), (records - 1, states))
    drawn = np.maximum(drawn, 0.02)
    steps = drawn / drawn.sum(axis=2, keepdims=True)
    return ut.MarkovChain(steps, start=np.full(states, 1 / states))


def rows(quick: bool = False) -> Iterator[Row]:
    """Yield the rows of this part."""
    sizes = [20] if quick else [125, 250, 500]
    yield grown(
        PART, f"quilt scale, up to {sizes[-1]} records",
        sizes, lambda n: quilt_search(stationary(n), "ignorant", NoiseScore(1.0)), "n",
        "plain: every quilt of every record",
        lambda n: naive.quilt_scale(stationary(n), 1.0),
    )  # fmt: skip
    if quick:
        return
    for against in ("ignorant", "any"):
        yield grown(
            PART, f"quilt scale, differing steps, 250 to 1,000 records, {against}",
            [250, 500, 1000],
            lambda n, a=against: quilt_search(differing(n), a, NoiseScore(1.0)),  # type: ignore[misc]
        )  # fmt: skip
    yield beside(
        PART, "quilt scale, differing steps, 60 records",
        lambda: quilt_search(differing(60), "ignorant", NoiseScore(1.0)),
        "plain: every quilt of every record", lambda: naive.varied_quilt_scale(differing(60), 1.0),
    )  # fmt: skip
    yield grown(
        PART, "quilt scale, differing steps, 1,000 records, 2 to 8 states", [2, 4, 8],
        lambda k: quilt_search(differing(1000, k), "any", NoiseScore(1.0)), "k",
    )  # fmt: skip
    yield beside(
        PART, "quilt plan, any attacker, 17,568 records",
        lambda: ut.calibrate(ut.Count(1), stationary(17568), 1.0, method="quilt"),
    )  # fmt: skip
    yield beside(
        PART, "Wasserstein distance, 1,500 records", lambda: count_distance(stationary(1500), ONE),
        "plain: the window of every record", lambda: naive.count_distance(stationary(1500), [1]),
    )  # fmt: skip
    yield beside(PART, "Wasserstein distance, 15,264", lambda: count_distance(ACTIVITY, ONE))
    yield beside(PART, "Wasserstein distance, heart, 26,923", lambda: count_distance(HEART, ONE))
    for flip in (0.02, 0.002):
        chain = ut.MarkovChain([[1 - flip, flip], [flip, 1 - flip]], length=10_000)
        yield beside(
            PART, f"Wasserstein distance, q = r = {flip}, 10,000",
            lambda c=chain: count_distance(c, ONE),  # type: ignore[misc]
        )  # fmt: skip
