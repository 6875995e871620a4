"""Times and persons that nobody named are known by what columns hold, in a fit and in a release."""

import datetime as dt
import random
from typing import Any

import polars as pl
import pytest

import undertow as ut
from undertow.errors import InvalidInput

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
PLAN = ut.calibrate(ut.Count(1), CHAIN, limit=3.0)
FLIPS = ut.calibrate(ut.Series(), CHAIN, limit=5.0)
X = CHAIN.simulate(60, seed=1)
START = dt.datetime(2025, 1, 1, 0, 5)
SHUFFLED = random.Random(1).sample(range(60), 60)
MINUTES = [START + dt.timedelta(minutes=step) for step in range(60)]

NOT_ONE_SERIES: dict[str, dict[str, Any]] = {
    "a shuffled clock of whole numbers": {"zeit": SHUFFLED},
    "in steps of five": {"zeit": [1000 + 5 * n for n in SHUFFLED]},
    "shuffled times": {"wann": [MINUTES[n] for n in SHUFFLED]},
    "shuffled days": {"tag": [dt.date(2025, 1, 1) + dt.timedelta(n) for n in SHUFFLED]},
    "shuffled texts of times": {"quand": [MINUTES[n].isoformat() for n in SHUFFLED]},
    "persons one after the other": {
        "wer": ["a"] * 20 + ["b"] * 20 + ["c"] * 20,
        "zeit": [*range(20)] * 3,
    },
    "persons in turns": {"wer": ["a", "b", "c"] * 20, "zeit": [n // 3 for n in range(60)]},
    "persons with times in turns": {
        "wer": ["a", "b", "c"] * 20,
        "zeit": [MINUTES[n // 3] for n in range(60)],
    },
    "persons by number with times in turns": {
        "wer": [1, 2, 3] * 20,
        "zeit": [MINUTES[n // 3] for n in range(60)],
    },
    "persons by number with times": {
        "wer": [1] * 30 + [2] * 30,
        "zeit": MINUTES[:30] * 2,
    },
    "persons with days": {
        "wer": ["a"] * 30 + ["b"] * 30,
        "zeit": [dt.date(2025, 1, 1) + dt.timedelta(n % 30) for n in range(60)],
    },
}
ONE_SERIES: dict[str, dict[str, Any]] = {
    "times in order": {"wann": MINUTES},
    "a calendar in two columns": {
        "date": [dt.date(2025, 1, 1 + n // 12) for n in range(60)],
        "slot": [5 * (n % 12) for n in range(60)],
    },
    "the hour of the day": {"hour": [n % 24 for n in range(60)]},
    "day and minute as numbers": {
        "day": [1 + n // 30 for n in range(60)],
        "minute": [n % 30 for n in range(60)],
    },
    "numbers that are no clock": {"score": [(7 * n * n) % 61 for n in range(60)]},
    "a mood": {"mood": ["ok" if n % 3 else "low" for n in range(60)]},
    "a mood beside a clock": {"mood": ["ok" if n % 3 else "low" for n in range(60)], "t": MINUTES},
    "measurements": {"kw": [0.5 * n for n in SHUFFLED]},
}


def verbs(frame, **more):
    """Return every reading of a table as one series, as functions."""
    table = ut.Data(frame, value="x", **more)
    return [
        lambda: ut.MarkovChain.fit(table, public=True),
        lambda: ut.MarkovChain.fit(table.changed(piece=17), public=True),
        lambda: ut.release(PLAN, table),
        lambda: ut.sanitize(FLIPS, table),
    ]


@pytest.mark.parametrize("library", ["polars", "pandas", "arrow"])
@pytest.mark.parametrize("name", NOT_ONE_SERIES)
def test_what_is_not_one_series_is_refused_by_fit_and_release(name, library):
    frame = pl.DataFrame({**NOT_ONE_SERIES[name], "x": X})
    table = {"polars": frame, "pandas": frame.to_pandas(), "arrow": frame.to_arrow()}[library]
    for place, verb in enumerate(verbs(table)):
        if place == 1 and name in ("persons one after the other", "persons in turns"):
            continue  # a text beside whole numbers is compared in memory alone
        with pytest.raises(InvalidInput, match=r"order of column|several series by column"):
            verb()


@pytest.mark.parametrize("name", ONE_SERIES)
def test_ordinary_columns_are_no_reason_to_refuse(name, tmp_path):
    frame = pl.DataFrame({**ONE_SERIES[name], "x": X})
    path = tmp_path / "t.csv"
    frame.write_csv(path)
    for table in (frame, frame.to_pandas()):
        for verb in verbs(table):
            verb()
    ut.MarkovChain.fit(ut.Data(path, value="x"), (0, 1), public=True)


@pytest.mark.parametrize("name", NOT_ONE_SERIES)
def test_the_fields_of_a_csv_file_say_the_same(name, tmp_path):
    path = tmp_path / "t.csv"
    pl.DataFrame({**NOT_ONE_SERIES[name], "x": X}).write_csv(path)
    with pytest.raises(InvalidInput, match=r"order of column|several series by column"):
        ut.release(PLAN, ut.Data(path, value="x"))


def test_named_columns_are_as_they_are_named():
    frame = pl.DataFrame({**NOT_ONE_SERIES["persons in turns"], "x": X})
    fit, _, *others = verbs(frame, person="wer")  # in pieces persons follow each other
    for verb in (fit, *others):
        verb()
    assert ut.release(PLAN, ut.Data(frame, value="x", person="wer", time="zeit")).rows
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=2)
    with pytest.raises(InvalidInput, match="order of column 'zeit'"):
        ut.release(PLAN, ut.Data(shuffled, value="x", person="wer"))


def test_values_are_never_looked_at():
    """The order of private values is no reason to refuse, whatever they look like."""
    chain = ut.MarkovChain([[1 / 60] * 60] * 60, states=range(60))
    plan = ut.calibrate(ut.Count(3), chain, limit=3.0)
    assert ut.release(plan, ut.Data(pl.DataFrame({"x": SHUFFLED}), value="x")).rows
    frame = pl.DataFrame({"x": SHUFFLED, "y": X})
    assert ut.release(
        PLAN, ut.Data(frame, value="y", state="case when x > 30 then y else y end")
    ).rows


def test_models_without_order_do_not_ask_for_it():
    frame = pl.DataFrame({"born": [dt.date(1950 + n, 1, 1) for n in SHUFFLED], "x": X})
    alone = ut.calibrate(ut.Count(1), ut.Groups(1, states=(0, 1)), limit=3.0)
    assert ut.release(alone, ut.Data(frame, value="x", ungrouped=True)).rows
    with pytest.raises(InvalidInput, match="order of column 'born'"):
        ut.release(PLAN, ut.Data(frame, value="x"))
