"""Fitted chains: coverage and power by simulation, and real records."""

import csv
import gzip
import itertools

import numpy as np
import pytest
from scipy import stats

import undertow as ut
from tests.models.test_fitting import FOLDER, fit, likelihood_ratio
from tests.oracles.samples import limit

# --- statistics: each test states its null, sample size and false-alarm rate ----------------------

TRUE = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
RUNS = 90


@pytest.fixture(scope="module")
def fits():
    return [fit(TRUE.simulate(300, seed=seed)) for seed in range(RUNS)]


def misses(fits, inside):
    return sum(not inside(chain) for chain in fits)


def test_intervals_cover(fits):
    """Null: an interval misses with probability 5%; 90 series of 300; false alarms below 1e-6."""
    most = stats.binom.isf(1e-6, RUNS, 0.05)

    def inside(confidence, x, y):
        def oracle(chain):
            low, high = chain.intervals(confidence)[x, y]
            return low <= TRUE.transition[x, y] <= high

        return oracle

    for x, y in ((0, 1), (1, 0)):
        assert misses(fits, inside(0.95, x, y)) <= most
        assert misses(fits, inside(0.5, x, y)) > most  # the test sees intervals that are too short


def test_the_likelihood_ratio_region_covers():
    """Null: it misses with probability 10%; 60 series of 600; false alarms below 1e-6."""
    chain = ut.MarkovChain([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]])
    ratios = [
        likelihood_ratio(fit(chain.simulate(600, seed=seed)).counts, chain.transition)
        for seed in range(60)
    ]
    most = stats.binom.isf(1e-6, 60, 0.1)
    assert sum(ratio > stats.chi2.isf(0.1, 6) for ratio in ratios) <= most
    assert sum(ratio > stats.chi2.isf(0.6, 6) for ratio in ratios) > most


def test_the_order_test_keeps_its_level(fits):
    """Null: order 1, p-values uniform; 400 series of 300; DKW limit of 1e-6."""
    values = np.sort([chain.order_test().p_value for chain in fits])
    grid = np.arange(RUNS + 1) / RUNS
    distance = max(np.abs(values - grid[1:]).max(), np.abs(values - grid[:-1]).max())
    assert distance <= limit(RUNS)
    assert np.abs(values**2 - grid[1:]).max() > limit(RUNS)  # and p-values that are not are seen


def test_the_order_test_sees_a_second_order():
    """Each record repeats the one before the last with probability 0.7; 8 series of 2,000.

    The statistic is near 2 * 2000 * (ln 2 - H(0.7)) = 329 with a standard deviation of 36, and
    p = 1e-6 lies at 28, eight of them away: it fails less than once in 1e12 runs.
    """
    for seed in range(8):
        rng = np.random.default_rng(seed)
        series = [0, 1]
        for repeat in rng.random(1998) < 0.7:
            series.append(series[-2] if repeat else 1 - series[-2])
        test = fit(series).order_test()
        assert test.p_value < 1e-6
        assert "predict more" in test.words()


# --- real records, and their twins ----------------------------------------------------------------


def read(folder, name):
    path = FOLDER / folder / name
    if not path.is_file():
        pytest.skip(f"no {folder} data: set UNDERTOW_DATA to the folder that holds {folder}/")
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def test_activity():
    rows = read("activity", "activity.csv.gz")
    active = [None if row["steps"] == "NA" else float(row["steps"]) > 0 for row in rows]
    joined = fit([record for record in active if record is not None])
    assert joined.counts.tolist() == [[9718, 1295], [1295, 2955]]
    assert joined.transition[0, 1] == pytest.approx(0.11759, abs=5e-6)
    assert joined.transition[1, 0] == pytest.approx(0.30471, abs=5e-6)
    across = fit(active)
    assert across.transition[0, 1] == pytest.approx(0.11764, abs=5e-6)
    days = [
        [record for record, _ in day]
        for _, day in itertools.groupby(
            zip(active, rows, strict=True), key=lambda pair: pair[1]["date"]
        )
    ]
    assert len(days) == 61
    within = fit(days)
    assert within.transition[0, 1] == pytest.approx(0.11793, abs=5e-6)
    assert within.transition[1, 0] == pytest.approx(0.30445, abs=5e-6)
    assert within.order_test().p_value < 1e-12  # activity remembers more than five minutes
    assert np.diff(joined.intervals(), axis=2).max() < 0.03
