"""Predictive scores of fits on real records, frozen after the first 70%, and on a simulated twin.

The data stay outside the project: name their folder in UNDERTOW_DATA, or keep them beside the
checkout in shared/data.
"""

import csv
import datetime
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import undertow as ut

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("UNDERTOW_DATA") or ROOT.parent / "shared" / "data")

TWIN = ut.HiddenChain.periodic(
    {
        place: [[0.3, 0.65, 0.04, 0.01], [0.02, 0.95, 0.025, 0.005], [0.3, 0.3, 0.38, 0.02],
                [0.1, 0.02, 0.01, 0.87]]
        if 2 <= place < 7
        else [[0.5, 0.49, 0.005, 0.005], [0.008, 0.99, 0.0015, 0.0005], [0.4, 0.4, 0.19, 0.01],
              [0.3, 0.1, 0.1, 0.5]]
        for place in range(8)
    },
    (0, 0, 1, 1), steps_per=36, every="5m",
)  # fmt: skip


def table(values, minutes):
    """Values of one person from a midnight on."""
    start, step = datetime.datetime(2025, 1, 6), datetime.timedelta(minutes=minutes)
    frame = pl.DataFrame(
        {"ts": [start + step * place for place in range(len(values))], "x": values}
    )
    return ut.Data(frame, time="ts", value="x", every=f"{minutes}m")


def activity():
    """Steps > 0 in five minutes of the 53 days that were observed, one after the other."""
    path = FOLDER / "activity" / "activity.csv.gz"
    if not path.is_file():
        pytest.skip("no activity data: set UNDERTOW_DATA to the folder that holds activity/")
    with gzip.open(path, "rt", newline="") as file:
        return [
            int(float(row["steps"]) > 0) for row in csv.DictReader(file) if row["steps"] != "NA"
        ]


def heart():
    """Whether a heart beats faster than its mean, beat by beat: record N10."""
    path = FOLDER / "heartrate" / "N10.txt.gz"
    if not path.is_file():
        pytest.skip("no heart rates: set UNDERTOW_DATA to the folder that holds heartrate/")
    with gzip.open(path, "rt") as file:
        rates = np.array([float(line.replace(",", " ").split()[1]) for line in file])
    return (rates >= rates.mean()).astype(int).tolist()


@pytest.mark.parametrize(
    ("name", "score"),
    [("order1", 0.558), ("order2", 0.526), ("hidden2", 0.491), ("hidden3", 0.478),
     ("hidden2 by part of day", 0.474), ("hidden3 by part of day", 0.469)],
)  # fmt: skip
def test_scores_of_activity(name, score):
    chain: Any = ut.fit(table(activity(), 5), model=name, public=True)
    case = chain.alternatives[name]
    assert case.score == pytest.approx(score, abs=0.006)
    assert len(chain.alternatives) == 1


@pytest.mark.parametrize(("name", "score"), [("order1", 0.457), ("order2", 0.437),
                                             ("hidden2", 0.392), ("hidden3", 0.376)])  # fmt: skip
def test_scores_of_a_heart(name, score):
    case = ut.fit(heart(), model=name, public=True).alternatives[name]
    assert case.score < score + 0.007
    if "order" in name:  # counts have one answer, random starts have better ones
        assert case.score == pytest.approx(score, abs=0.001)


def test_a_twin_of_the_activity_record():
    """Memory and hours are found, and found to be worth what they are under the truth."""
    data = table(TWIN.simulate(53 * 288, seed=3), 5)
    fresh = table(TWIN.simulate(100 * 288, seed=4), 5)
    scores = {}
    for name in ("order1", "hidden2", "hidden2 by part of day"):
        chain: Any = ut.fit(data, model=name, public=True)
        scores[name] = chain.score(fresh)
    truth = TWIN.score(fresh)
    assert truth < scores["hidden2 by part of day"] < truth + 0.01
    assert scores["hidden2 by part of day"] < scores["hidden2"] - 0.005
    assert scores["hidden2"] < scores["order1"] - 0.003
