"""Intervals of estimates cover the truth as often as they say.

An interval misses the truth in at most a share 1 - confidence of the draws. Of `DRAWS` draws more
than `MOST` misses have a probability below 1e-6 if each misses with probability 0.05; intervals
that are 0.7 times as wide miss more often, and fail.
"""

import numpy as np
import pytest
from scipy import stats

from tests.test_estimation import (
    BINARY,
    ERASURES,
    NOISE,
    THREE,
    TOLD,
    counts_of,
    pairs_of,
    plan_for,
    sticky,
)
from undertow.releasing.estimate import estimate, estimate_transitions
from undertow.releasing.series import sanitize

DRAWS = 400
MOST = int(stats.binom.ppf(1 - 1e-6, DRAWS, 0.05))


def misses(plan, verb, series, truth, shares, shrink=1.0):
    """How often each interval, ``shrink`` times as wide, misses the truth."""
    counted, moved = np.zeros(truth.shape, int), np.zeros(shares.shape, int)
    for seed in range(DRAWS):
        z = verb(plan, series, insecure_seed=seed)
        for found, exact, missed in (
            (estimate(z, plan), truth, counted),
            (estimate_transitions(z, plan), shares, moved),
        ):
            value, low, high = (
                np.array(list(part.values()) if isinstance(part, dict) else part)
                for part in (found.value, found.low, found.high)
            )
            missed += (value + shrink * (low - value) > exact + 1e-9) | (
                value + shrink * (high - value) < exact - 1e-9
            )
    return counted, moved


@pytest.mark.parametrize(
    ("mechanism", "states", "exact"),
    [
        pytest.param(BINARY, 2, True, id="binary"),
        pytest.param(THREE, 3, True, id="three"),
        pytest.param(NOISE, 2, False, id="noise"),
    ],
)
def test_intervals_cover_the_truth(mechanism, states, exact):
    """One series of 1,200 records, flipped DRAWS times; the twins are 0.7 times as wide.

    Intervals under a noise chain are those of the worst series: they have no twin.
    """
    series = sticky(states, 1200, seed=states)
    pairs = pairs_of(series, states)
    truth, shares = counts_of(series, states), pairs / pairs.sum(axis=1, keepdims=True)
    plan = plan_for(mechanism, states)
    counted, moved = misses(plan, sanitize, np.array(series, np.uint8), truth, shares)
    assert counted.max() <= MOST
    assert moved.max() <= MOST
    if exact:
        counted, moved = misses(plan, sanitize, np.array(series, np.uint8), truth, shares, 0.7)
        assert counted.max() > MOST
        assert moved.max() > MOST


def test_intervals_from_redacted_series_cover_the_truth():
    """150 series of seven records, redacted DRAWS times; the twin is 0.6 times as wide."""
    series = [sticky(2, 7, seed) for seed in range(150)]
    truth = sum(counts_of([one[t] for t in TOLD]) for one in series)
    pairs = sum(pairs_of(one[:3]) + pairs_of(one[4:]) for one in series)
    plan = plan_for(ERASURES, length=7)
    shares = pairs / pairs.sum(axis=1, keepdims=True)
    counted, moved = misses(plan, sanitize, series, truth, shares)
    assert counted.max() <= MOST
    assert moved.max() <= MOST
    counted, _ = misses(plan, sanitize, series, truth, shares, 0.6)
    assert counted.max() > MOST
