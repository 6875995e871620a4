"""Fitted chains: coverage and power by simulation, and real records."""

import csv
import gzip
import itertools

import numpy as np
import pytest
from scipy import stats

import undertow as ut
from tests.facts import ACTIVITY
from tests.models.test_fitting import FOLDER, SLEEP, STAGES, fit, from_counts, likelihood_ratio
from tests.oracles.samples import limit
from undertow.models.chain_classes import ChainBox

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


def pairs_of(series):
    table = np.zeros((2, 2), dtype=int)
    np.add.at(table, (series[:-1], series[1:]), 1)
    return table


def test_boxes_cover_both_rows():
    """Null: the box misses with probability 10%; 90 series of 300; false alarms below 1e-6."""
    most = stats.binom.isf(1e-6, RUNS, 0.1)
    fits = [from_counts(pairs_of(TRUE.simulate(300, seed=seed))) for seed in range(RUNS)]

    def inside(confidence):
        def oracle(chain):
            box = chain.region(confidence)
            return (box.lower <= TRUE.transition).all() and (TRUE.transition <= box.upper).all()

        return oracle

    assert misses(fits, inside(0.9)) <= most
    assert misses(fits, inside(0.4)) > most


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


def test_the_twin_of_activity():
    """Always runs: 53 simulated days, apart and joined."""
    model = ut.MarkovChain(ACTIVITY["transition"], ("inactive", "active"))
    days = [model.simulate(288, seed=seed) for seed in range(53)]
    apart, joined = fit(days), fit(list(itertools.chain(*days)))
    assert joined.counts.sum() - apart.counts.sum() == 52
    for chain in (apart, joined):
        assert chain.states == ("active", "inactive")
        order = [chain.index("inactive"), chain.index("active")]
        box = chain.region(1 - 1e-9)
        assert isinstance(box, ChainBox)
        assert (box.lower[np.ix_(order, order)] <= model.transition).all()
        assert (model.transition <= box.upper[np.ix_(order, order)]).all()


def test_sleep():
    rows = read("sleep", "sleep_edf_hypnograms.csv.gz")
    names = {"W": "W", "1": "N1", "2": "N2", "3": "N3", "4": "N3", "R": "REM"}
    nights = []
    for _, night in itertools.groupby(rows, key=lambda row: row["record"]):
        stages = [row["stage"] for row in night]
        asleep = [epoch for epoch, stage in enumerate(stages) if stage in ("1", "2", "3", "4", "R")]
        kept = stages[max(asleep[0] - 60, 0) : asleep[-1] + 61]
        nights.append([names.get(stage) for stage in kept])
    chain = fit(nights, STAGES)
    assert len(nights) == 20
    assert sum(stage is not None for night in nights for stage in night) == 21_039
    assert chain.counts.tolist() == SLEEP
    assert chain.unseen == []
    assert chain.initial == pytest.approx([0.1713, 0.0792, 0.4252, 0.1480, 0.1763], abs=5e-5)


def test_the_twin_of_sleep():
    """Always runs: 20 simulated nights with gaps give back the chain they came from."""
    model = from_counts(SLEEP, STAGES)
    rng = np.random.default_rng(1)
    nights = [
        [stage if rng.random() > 0.01 else None for stage in model.simulate(1000, seed=seed)]
        for seed in range(20)
    ]
    chain = fit(nights, STAGES)
    present = [[stage is not None for stage in night] for night in nights]
    assert chain.counts.sum() == sum(
        a and b for night in present for a, b in itertools.pairwise(night)
    )
    # within the likelihood-ratio region of confidence 1 - 1e-9
    assert likelihood_ratio(chain.counts, model.transition) < stats.chi2.isf(1e-9, 20)
