"""Intervals for shares of outcomes that depend on each other."""

import numpy as np
import pytest

from undertow.auditing.attacking import share_interval


def sticky(rng, records, stay):
    """Outcomes, 70% of them right, that stay as they were with some probability."""
    kept, fresh = rng.random(records) < stay, rng.random(records) < 0.7
    last = np.maximum.accumulate(np.where(kept, 0, np.arange(records)))
    return fresh[last]


def misses(stay, runs, records, series=1, *, naive=False):
    rng, found = np.random.default_rng(3), 0
    for _ in range(runs):
        right = np.concatenate([sticky(rng, records, stay) for _ in range(series)])
        sizes = np.full(series, records)
        low, high = share_interval(rng.permutation(right) if naive else right, sizes, 0.95)
        found += not low <= 0.7 <= high
    return found


@pytest.mark.parametrize(("stay", "records", "series"), [(0.0, 400, 1), (0.9, 4000, 1),
                                                         (0.8, 40, 60), (0.9, 900, 4)])  # fmt: skip
def test_intervals_hold(stay, records, series):
    """Null: at most 5% of intervals miss. 400 runs; 38 misses have probability 0.0001 by chance."""
    assert misses(stay, 400, records, series) <= 37


@pytest.mark.parametrize("right", [True, False])
def test_few_outcomes_and_those_all_alike(right):
    low, high = share_interval(np.array([right]), np.array([1]), 0.95)
    assert (low, high) == pytest.approx((0.025, 1.0) if right else (0.0, 0.975))
    low, high = share_interval(np.full(10_000, right), np.array([10_000]), 0.95)
    width = 1 - 0.025**0.01  # 100 blocks
    assert high - low == pytest.approx(width)


def test_confidence_widens():
    right = np.random.default_rng(1).random(500) < 0.5
    narrow, wide = (share_interval(right, np.array([500]), level) for level in (0.5, 0.999))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
