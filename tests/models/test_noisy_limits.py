"""Limits from noisy counts: tails by convolution, small cases by enumeration, coverage by draws."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from undertow.models.fitting.private import (
    PrivateFit,
    _tail,
    limits,
    lower_limit,
)

ACTIVITY = [[0.882, 0.118], [0.305, 0.695]]
STICKY = [[0.99, 0.01], [0.02, 0.98]]
RARE = [[0.995, 0.005], [0.4, 0.6]]
LIVELY = [[0.2, 0.8], [0.7, 0.3]]
THREE = [[0.8, 0.15, 0.05], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]]
CASES = {  # chain, records, scale of the noise
    "activity": (ACTIVITY, 10_000, 66.7),
    "little noise": (ACTIVITY, 2000, 1.0),
    "sticky": (STICKY, 4000, 8.0),
    "sticky, all noise": (STICKY, 1000, 20.0),
    "rare": (RARE, 4000, 5.0),
    "lively": (LIVELY, 500, 8.0),
    "three states": (THREE, 6000, 20.0),
}


def tables(chain, records, scale, fits, generator):
    """Noisy tables of so many simulated series, all series at once."""
    matrix = np.array(chain)
    size = len(matrix)
    law = np.linalg.matrix_power(matrix, 20_000)[0]
    edges = matrix.cumsum(axis=1)
    now = np.minimum((generator.random((fits, 1)) > law.cumsum()).sum(axis=1), size - 1)
    counts = np.zeros((fits, size, size), dtype=np.int64)
    row = np.arange(fits)
    for _ in range(records - 1):
        after = np.minimum((generator.random((fits, 1)) > edges[now]).sum(axis=1), size - 1)
        counts[row, now, after] += 1
        now = after
    stop = -math.expm1(-1 / scale)
    noise = generator.geometric(stop, counts.shape) - generator.geometric(stop, counts.shape)
    return counts + noise


def misses(name, fits, seed, claimed=1.0, miss=0.05):
    """How many regions leave the true chain out where ``claimed`` times the noise is said."""
    chain, records, scale = CASES[name]
    truth = np.array(chain)
    count = 0
    for table in tables(chain, records, scale, fits, np.random.default_rng(seed)):
        said = scale * claimed
        fit = PrivateFit(
            table, level=4 / said, scale=said, sample_size=records, confidence=1 - miss
        )
        region = fit.region()
        inside = ((region.lower <= truth) & (truth <= region.upper)).all()
        count += not (inside and np.trace(truth) <= (region.trace or len(truth)))
    return count


# Null: a region misses with probability at most .05. 60 or 120 fits; the test fails with a
# probability below 1e-4 if that is true (exact binomial test), and must fail where the noise is
# said to be a tenth.
@pytest.mark.parametrize("fits", [60])
@pytest.mark.parametrize("name", ["little noise", "sticky, all noise"])
def test_regions_have_their_confidence(name, fits):
    found = misses(name, fits, seed=11)
    assert binomtest(found, fits, 0.05, alternative="greater").pvalue > 1e-4


def test_noise_that_is_said_to_be_less_is_noticed():
    found = misses("sticky, all noise", 20, seed=11, claimed=0.1)
    assert binomtest(found, 20, 0.05, alternative="greater").pvalue < 1e-4


@pytest.mark.parametrize("scales", [(3.0, 1.0), (2.0, 2.0), (5.0, 0.3, 0.3), (1.0, 1.0, 1.0, 1.0)])
def test_tails_of_noise_are_those_of_a_convolution(scales):
    step = 0.02
    grid = np.arange(-60, 60 + step / 2, step)
    law = np.array([1.0])
    for scale in scales:
        # mass of each cell, exactly
        ends = np.concatenate([grid - step / 2, [grid[-1] + step / 2]])
        total = np.where(ends < 0, np.exp(ends / scale) / 2, 1 - np.exp(-ends / scale) / 2)
        law = np.convolve(law, np.diff(total))
        keep = (len(law) - len(grid)) // 2
        law = law[keep : len(law) - keep] if keep else law
    for t in (0.5, 3.0, 8.0):
        truth = law[grid >= t].sum()
        tail, hazard = (part[0] for part in _tail(np.array(scales)[:, None], np.array([t])))
        assert truth * (1 - 0.02) <= tail <= truth * 1.25  # equal scales are told apart
        inside = law[(grid >= t) & (grid < t + 0.2)].sum() / truth / 0.2
        assert hazard <= inside * 1.1
    assert (_tail(np.array(scales)[:, None], np.array([-1.0]))[0] == 1).all()


def worst_case(scale, beta, p, visits):
    """The probability that the limit exceeds p, by enumeration of counts and noise."""
    ratio = math.exp(-1 / scale)
    reach = int(12 * scale) + 3
    z = np.arange(-reach, reach + 1)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(z)
    total = 0.0
    for hits in range(visits + 1):
        mass = math.comb(visits, hits) * p**hits * (1 - p) ** (visits - hits)
        for a, b in np.ndindex(len(z), len(z)):
            if mass * law[a] * law[b] > 1e-6:
                one, two = float(hits + z[a]), float(visits - hits + z[b])
                seen = lower_limit(one, 1, two, 1, scale, visits, beta)
                total += (seen > p) * mass * law[a] * law[b]
    return total


@pytest.mark.parametrize(("scale", "p"), [(0.4, 0.3), (0.8, 0.5)])
def test_small_cases_keep_beta_by_enumeration(scale, p):
    beta = 0.1
    found = worst_case(scale, beta, p, 8)
    assert found <= beta
    assert found > 0  # the limit says something


def test_more_records_and_less_noise_tell_more():
    wide = limits([[630, 85], [84, 190]], 20.0, 1000, 0.05)
    near = limits([[6300, 850], [840, 1900]], 20.0, 10_000, 0.05)
    still = limits([[6300, 850], [840, 1900]], 2.0, 10_000, 0.05)
    assert (near[0] >= wide[0]).all()
    assert (near[1] <= wide[1]).all()
    assert (still[1] - still[0] <= near[1] - near[0]).all()


def test_counts_that_say_nothing_leave_everything_open():
    low, high = limits([[-5, 3], [0, -2]], 50.0, 1000, 0.05)
    assert low.tolist() == [[0, 0], [0, 0]]
    assert high.tolist() == [[1, 1], [1, 1]]
    low, high = limits([[900, 50], [0, 0]], 5.0, 1000, 0.05)  # a state never left
    assert low[0, 1] > 0.01
    assert low[1].tolist() == [0, 0]
    assert high[1].tolist() == [1, 1]
