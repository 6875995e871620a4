"""From a file of real records to a release, and the same from a simulated twin.

The data stay outside the project: name their folder in UNDERTOW_DATA, or keep them beside the
checkout in shared/data. Nothing is written.
"""

import csv
import gzip
import itertools
import os
from pathlib import Path

import pytest

import undertow as ut
from tests.facts import ACTIVITY
from undertow.errors import NotSupported

ROOT = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data")
NAMES = ("inactive", "active")


def read_activity():
    """The observed intervals in order; rows without a measurement are dropped."""
    path = FOLDER / "activity" / "activity.csv.gz"
    if not path.is_file():
        pytest.skip("no activity data: set UNDERTOW_DATA to the folder that holds activity/")
    with gzip.open(path, "rt", newline="") as file:
        steps = [row["steps"] for row in csv.DictReader(file)]
    return [NAMES[float(count) > 0] for count in steps if count != "NA"]


def counted_chain(series):
    """The chain whose rows are the observed shares of each step."""
    pairs = list(itertools.pairwise(series))
    rows = []
    for source in NAMES:
        ends = [end for start, end in pairs if start == source]
        share = ends.count("active") / len(ends)
        rows.append([1 - share, share])
    return ut.MarkovChain(rows, NAMES, length=len(series))


def oracle(series, scale, tolerance):
    """Leakage, plan and release on a series, and how they hang together."""
    chain = counted_chain(series)
    budget = ut.dp_budget(chain, limit=1.0)
    plain = ut.leakage(ut.PureDP(1.0), chain)
    assert 3.3 < plain.lower <= plain.upper < 3.7
    assert ut.leakage(ut.PureDP(budget), chain).proves(1.0)

    plan = ut.calibrate(ut.Count("active"), chain, limit=1.0)
    assert plan.mechanism.scale == pytest.approx(scale, abs=tolerance)
    assert plan.mechanism.scale == pytest.approx(1 / budget, rel=1e-8)
    assert plan.leakage.proves(1.0)
    plan = ut.Plan.from_json(plan.to_json())

    out = ut.release(plan, series)
    truth = series.count("active")
    assert isinstance(out.value, int)
    assert abs(out.value - truth) <= plan.accuracy(1e-9)  # fails once in a thousand million runs
    assert plan.accuracy(1e-9) < 100
    assert str(out.value) in out.report().text()
    bins = ut.release(ut.calibrate(ut.Histogram(), chain, limit=1.0), series).value
    assert isinstance(bins, dict)
    assert list(bins) == list(NAMES)
    return chain


def test_activity_from_file_to_release():
    series = read_activity()
    assert len(series) == ACTIVITY["observed_length"]
    assert series.count("active") == ACTIVITY["observed_active"]
    chain = oracle(series, scale=3.99, tolerance=0.02)
    assert chain.transition[0, 1] == pytest.approx(0.1176, abs=5e-5)
    assert chain.transition[1, 0] == pytest.approx(0.3047, abs=5e-5)
    assert series.count("active") / len(series) == pytest.approx(chain.initial[1], abs=1e-3)


def test_the_wrong_series_is_refused():
    model = ut.MarkovChain(ACTIVITY["transition"], NAMES, length=ACTIVITY["observed_length"])
    plan = ut.calibrate(ut.Count("active"), model, limit=1.0)
    out = ut.release(plan, ["inactive"] * 17_568)  # the noise suffices for any length
    assert out.proof.valid_for in ("windows", "any")
    short = ut.MarkovChain(ACTIVITY["transition"], NAMES, length=12)
    plan = ut.calibrate(ut.Count("active"), short, limit=1.0)
    with pytest.raises(NotSupported, match=r"17568 records.* of 12 records"):
        ut.release(plan, ["inactive"] * 17_568)
