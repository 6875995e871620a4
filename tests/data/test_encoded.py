"""Records as arrays for a fit: the same as in lists, whatever the order of rows."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow import Data
from undertow.errors import InvalidInput

VALUES = st.sampled_from([None, 0.0, 1.0, 2.5])
ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 12), VALUES),
    min_size=2, max_size=30, unique_by=lambda row: row[:2],
)  # fmt: skip


def table(rows, names=("who", "at", "x")):
    kinds = {"who": pl.String, "at": pl.Int64, "x": pl.Float64}
    return pl.DataFrame(rows, schema={name: kinds[name] for name in names}, orient="row")


def runs(read):
    """Return the series of an encoding, by the names of states."""
    names = [*read.states, None]
    found: dict[int, list[object]] = {}
    for series, code in zip(read.series.tolist(), read.codes.tolist(), strict=True):
        found.setdefault(series, []).append(names[code])
    return list(found.values())


@law(
    settings(max_examples=40, deadline=None), 12,
    rows=ROWS, randomness=st.randoms(use_true_random=False), gaps=st.sampled_from(["split", 1]),
)  # fmt: skip
def test_arrays_and_lists_agree_in_any_order_of_rows(rows, randomness, gaps):
    options = {"value": "x", "person": "who", "time": "at", "every": 1, "gaps": gaps}
    data = Data(table(rows), **options)
    read = data.encoded()
    assert sorted(map(str, runs(read))) == sorted(map(str, data.sequences()))
    shuffled = randomness.sample(rows, len(rows))
    again = Data(table(shuffled), **options).encoded()
    for name in ("codes", "series", "persons"):
        first, second = getattr(read, name), getattr(again, name)
        change = [np.flatnonzero(np.diff(part)).tolist() for part in (first, second)]
        assert change[0] == change[1]
    assert np.array_equal(read.codes, again.codes)
    assert list(read.states) == list(again.states)


@settings(max_examples=25, deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_a_fit_does_not_depend_on_the_order_of_rows(rows, randomness):
    options = {"value": "x", "person": "who", "time": "at"}
    fits = [
        ut.MarkovChain.fit(Data(table(some), **options), (0, 1, 2.5), prior=0.5, public=True)
        for some in (rows, randomness.sample(rows, len(rows)))
    ]
    assert fits[0] == fits[1]
    for name in ("counts", "persons", "halves", "together"):
        assert np.array_equal(getattr(fits[0].tally, name), getattr(fits[1].tally, name))


def test_hours_are_those_of_the_clock():
    start = dt.datetime(2025, 1, 6, 22, 30)
    times = [start + dt.timedelta(minutes=30 * step) for step in range(5)]
    data = Data(pl.DataFrame({"at": times, "x": [0, 1, 0, 1, 1]}), value="x", time="at")
    assert data.encoded().hours.tolist() == [22, 23, 23, 0, 0]
    found = ut.MarkovChain.fit(data, public=True).tally.hours
    assert found is not None
    assert np.argwhere(found).tolist() == [[0, 1, 1], [22, 0, 1], [23, 0, 1], [23, 1, 0]]
    days = [dt.date(2025, 1, day) for day in range(1, 6)]
    daily = Data(pl.DataFrame({"at": days, "x": [0, 1, 0, 1, 1]}), value="x", time="at")
    assert daily.encoded().hours is None


@pytest.mark.parametrize("name", ["time", "Date", " zeit"])
def test_rows_against_an_evident_time_are_refused(name):
    frame = pl.DataFrame({name: [3, 1, 2, 4], "x": [0, 1, 0, 1]})
    with pytest.raises(InvalidInput, match=r"not in the order of column.*time="):
        Data(frame, value="x").encoded()
    ordered = Data(frame.sort(name), value="x").encoded()
    assert ordered.codes.tolist() == [1, 0, 0, 1]
    assert Data(frame, value="x", time=name).encoded().codes.tolist() == [1, 0, 0, 1]
    other = frame.with_columns(pl.Series(name, [3, 1, 7, 4]))  # numbers, and no steps of a clock
    assert Data(other, value="x").encoded().codes.tolist() == [0, 1, 0, 1]


def test_a_column_of_no_times_is_not_taken_for_one(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("time,x\nlate,0\nearly,1\nnoon,0\n")
    assert Data(path, value="x").encoded().codes.tolist() == [0, 1, 0]
    path.write_text("time,x\n2025-01-02,0\n2025-01-01,1\n2025-01-03,0\n")
    with pytest.raises(InvalidInput, match="not in the order"):
        Data(path, value="x").encoded()


def test_cohorts_are_apart_and_persons_in_one():
    frame = pl.DataFrame({"who": list("aabb"), "arm": [1, 1, 2, 2], "x": [0, 1, 1, 0]})
    parts = Data(frame, value="x", person="who", by="arm").cohorts()
    assert {name: runs(part.encoded()) for name, part in parts.items()} == {
        1: [[0, 1]],
        2: [[1, 0]],
    }
    split = frame.with_columns(arm=pl.Series([1, 2, 2, 2]))
    with pytest.raises(InvalidInput, match=r"row 1 of column 'arm'.*two groups"):
        Data(split, value="x", person="who", by="arm").encoded()
    with pytest.raises(InvalidInput, match="by="):
        Data(frame, value="x").cohorts()


def test_many_values_are_measurements():
    with pytest.raises(InvalidInput, match="more than 1000 different values"):
        Data([float(n) / 7 for n in range(1001)]).encoded()
    mixed = Data(pl.DataFrame({"x": pl.Series([1, "b", None, "a", 1], dtype=pl.Object)}), value="x")
    assert list(mixed.encoded().states) == [1, "a", "b"]
