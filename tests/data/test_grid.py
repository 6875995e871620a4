"""The shape: persons, times, gaps and windows; what is refused, and by which words."""

import datetime as dt
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.data.tables import BACKENDS, DAY, STEP, as_source, is_missing, tables
from tests.grids import law
from undertow.data.grid import step_of
from undertow.data.scopes import Scope
from undertow.data.table import Data, Shape
from undertow.errors import InvalidInput

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=60)
pd = pytest.importorskip("pandas")


def frame(**columns):
    size = len(next(iter(columns.values())))
    return pl.DataFrame({"v": [1] * size, **columns})


def plain_shape(rows, persons, longest, gaps, start=None, end=None, series=None):
    """The shape of whole series, all as long as the longest."""
    return Shape(rows, persons, longest, gaps, start, end, series=series or longest,
                 shortest=longest, windowed=False, split=False)  # fmt: skip


def refusal(call, *arguments, **options):
    with pytest.raises(InvalidInput) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("every", "clock", "step"),
    [
        ("30s", True, 30_000_000),
        ("5m", True, 300_000_000),
        (" 1 h ", True, 3_600_000_000),
        ("1d", True, 86_400_000_000),
        ("2w", True, 14 * 86_400_000_000),
        ("250ms", True, 250_000),
        (dt.timedelta(minutes=5), True, 300_000_000),
        (5, False, 5),
        (5.0, False, 5),
        (np.int64(5), False, 5),
    ],
)
def test_steps_of_time(every, clock, step):
    assert step_of(every, clock=clock) == step


@pytest.mark.parametrize(
    ("every", "clock", "words"),
    [
        ("5 minutes", True, "duration such as '30s'"),
        ("1mo", True, "duration such as '30s'"),
        (5, True, "because the times are clock times"),
        ("0m", True, "duration"),
        ("9" * 30 + "d", True, "duration"),
        ("5m", False, "because the times are whole numbers"),
        (0.5, False, "positive whole number"),
        (-1, False, "positive whole number"),
        (math.inf, False, "positive whole number"),
        (True, False, "positive whole number"),
    ],
)
def test_steps_that_are_none(every, clock, words):
    assert words in refusal(step_of, every, clock=clock)


@pytest.mark.parametrize(
    "times",
    [
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 10)],
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 0, 10, tzinfo=dt.UTC)],
        ["2024-01-01T00:00:00", "2024-01-01T00:10:00.000"],
        ["2024-01-01 00:00", "2024-01-01 00:10"],
        ["2024-01-01T00:00:00Z", "2024-01-01T01:10:00+01:00"],
        ["2024-01-01 00:00:00.5+00:00", "2024-01-01 00:10:00.5+00:00"],
    ],
)
@pytest.mark.parametrize("how", ["polars", "objects", "csv"])
def test_times_of_every_kind(times, how, tmp_path):
    source: Any = frame(t=times)
    if how == "objects":
        source = pd.DataFrame({"v": [1, 1], "t": pd.Series(times, dtype=object)})
    elif how == "csv":
        source = tmp_path / "table.csv"
        source.write_text("v,t\n" + "".join(f"1,{time}\n" for time in times))
    data = Data(source, value="v", time="t", every="5m")
    half = ".500000" if str(times[0]).endswith(".5+00:00") else ""
    zone = "+00:00" if str(times[0]).endswith(("Z", "+00:00")) else ""
    first, last = (f"2024-01-01T00:{minute}:00{half}{zone}" for minute in ("00", "10"))
    wanted = plain_shape(2, 1, 2, True, first, last, series=3)
    assert data.shape() == wanted
    end = dt.datetime(2024, 1, 1, 0, 11, tzinfo=dt.UTC if zone else None)
    narrow = data.window(f"2024-01-01T00:05{zone}", end)
    assert narrow.shape().rows == 1
    assert narrow.bounds() == (f"2024-01-01T00:05:00{zone}", f"2024-01-01T00:11:00{zone}")
    other = "" if zone else "+00:00"
    for bound in (
        f"2024-01-01T00:05{other}",
        dt.datetime(2024, 1, 1, tzinfo=None if zone else dt.UTC),
    ):
        assert "which moment is meant cannot be known" in refusal(data.window, bound)
    if zone:
        assert "has none" in refusal(data.window, None, "2024-01-01")
        assert data.window("2024-01-01T01:05+01:00").scope().start == 1_704_067_500_000_000
        assert data.scope().clock == "microseconds of t in UTC"
    assert data.sequences() == [[1], [1]]


def test_dates_and_whole_numbers(tmp_path):
    days = frame(t=[dt.date(2024, 1, 1), dt.date(2024, 1, 2)])
    data = Data(days, value="v", time="t", every="1d")
    assert data.shape() == plain_shape(2, 1, 2, False, "2024-01-01", "2024-01-02")
    scope = data.window(dt.date(1970, 1, 2), "2024-01-02").scope()
    assert scope == Scope(None, None, 86_400_000_000, 1_704_153_600_000_000, "microseconds of t")
    for times in ([3, 5], [3.0, 5.0], ["3", "5"], ["+3", " 5"]):
        data = Data(frame(t=times), value="v", time="t", every=1)
        assert data.shape() == plain_shape(2, 1, 2, True, 3, 5, series=3)
        assert data.window(4, None).scope() == Scope(None, None, 4, None, "t")
        assert data.window(None, 5).answers(ut.Count(1)).rows == [1]
    path = tmp_path / "table.csv"
    path.write_text("v,t\n1,3\n1,5\n")
    assert Data(path, value="v", time="t", every=2).shape() == plain_shape(2, 1, 2, False, 3, 5)


@pytest.mark.parametrize("how", ["polars", "pandas", "objects"])
@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"t": [0, 1, 1]}, {}, "row 2 of column 't' (counting from 0) has the person and the time"),
        ({"t": [0, None, 1]}, {}, "row 1 of column 't' (counting from 0) is not a whole number"),
        ({"t": [0.0, 1.5, 1.0]}, {}, "row 1 of column 't' (counting from 0) is not a whole"),
        ({"t": [0, 2, 5]}, {"every": 2}, "row 2 of column 't' (counting from 0) is off the grid"),
        ({"t": [-4, -2, 5]}, {"every": 3}, "row 1 of column 't' (counting from 0) is off the grid"),
        ({"t": ["2024-01-01", "1", "2024-01-03"]}, {}, "row 1 of column 't' (counting from 0) is"),
        ({"t": ["0", "1", "2024-01-03"]}, {}, "row 2 of column 't'"),
        ({"p": ["a", None, "b"]}, {"person": "p"}, "row 1 of column 'p' (counting from 0) has no"),
    ],
)  # fmt: skip
def test_shapes_that_are_refused(columns, options, words, how):
    table: Any = frame(**columns)
    if how == "pandas":
        table = frame(**columns).to_pandas()
    elif how == "objects":
        table = pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in columns.items()})
        table = table.assign(v=1)
    time = {"time": "t"} if "t" in columns else {}
    data = Data(table, value="v", **time, **options)
    for ask in (data.shape, data.sequences, lambda: data.answers(ut.Count(1))):
        assert words in refusal(ask)
    (problem, *_) = data.problems()
    assert words.startswith(f"row {problem.row} of column {problem.column!r}")
    assert problem.what in refusal(data.shape)


def test_two_persons_may_share_a_time_and_have_grids_of_their_own():
    table = frame(p=["a", "b", "a"], t=[0, 0, 5]).vstack(frame(p=["b"], t=[7]))
    data = Data(table, value="v", person="p", time="t", every=5)
    assert "row 3" in refusal(data.shape)
    shape = Data(table.with_columns(pl.col("t").replace(7, 10)), value="v", person="p", time="t",
                 every=5).shape()  # fmt: skip
    assert (shape.persons, shape.longest, shape.gaps) == (2, 2, True)


def test_persons_and_groups_of_every_type():
    for whose in (
        ["a", "b", "a"], [1, 2, 1], [1.5, -0.0, 1.5], [True, False, True],
        [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2024, 1, 1)],
    ):  # fmt: skip
        objects = pd.DataFrame({"v": 1, "p": pd.Series(whose, dtype=object)})
        for table in (frame(p=whose), objects, frame(p=whose).to_pandas()):
            assert Data(table, value="v", person="p").shape().persons == 2
            answers = Data(table, value="v", by="p").answers(ut.Count(1))
            assert sorted(answers.numbers) == [[1], [2]]
            names = answers.groups or ()
            named = Data(table, value="v", by="p", groups=list(names)[::-1]).answers(ut.Count(1))
            assert named.numbers == answers.numbers[::-1]
            assert Data(table, value="v", by="p").shape().groups == names
    assert "list" in refusal(Data, pd.DataFrame({"v": [1], "p": [[1]]}), value="v", person="p")
    assert "List" in refusal(Data, frame(p=[[1]]), value="v", person="p")
    pair = pd.DataFrame({"v": [1], "p": pd.Series([("a", 1)], dtype=object)})
    assert Data(pair, value="v", person="p").shape().persons == 1
    assert "group that is a tuple" in refusal(Data, pair, value="v", by="p")


def test_groups_that_were_declared():
    table = frame(g=["x", "y", None, "z"])
    data = Data(table, value="v", by="g", groups=["y", "x", "w"])
    answers = data.answers(ut.Count(1))
    assert (answers.groups, answers.numbers) == (("y", "x", "w"), [[1], [1], [0]])
    assert data.touched()[1] == ("y", "x", "w")
    assert data.scope().groups == ("w", "x", "y")
    found = Data(table, value="v", by="g").answers(ut.Count(1))
    assert (found.groups, found.rows) == (("x", "y", "z"), [1, 1, 1])
    days = frame(g=[dt.date(2024, 1, 1), dt.date(2024, 1, 2)])
    for names in (["2024-01-02"], [dt.date(2024, 1, 2)]):
        assert Data(days, value="v", by="g", groups=names).answers(ut.Count(1)).numbers == [[1]]
    numbered = Data(frame(g=[1, 2, 2]), value="v", by="g", groups=["2", 1])
    assert numbered.answers(ut.Count(1)).numbers == [[2], [1]]
    assert "1 is no group of column 'g'" in refusal(Data, table, value="v", by="g", groups=[1])
    for groups, words in (
        ("x", "must be a list"), ([], "must be a list"), ([[1]], "[1] is no group"),
        (["x", "x"], "named twice"), ([math.nan], "nan is no group"),
    ):  # fmt: skip
        assert words in refusal(Data, table, value="v", by="g", groups=groups)
    assert "say by=" in refusal(Data, table, value="v", groups=["x"])


def test_arguments_that_lack_their_companion():
    table = frame(t=[0, 1])
    assert "say time=" in refusal(Data, table, value="v", every=1)
    assert "say every=" in refusal(Data, table, value="v", time="t", gaps="off")
    assert "say time=" in refusal(Data(table, value="v").window, 0, 1)
    assert "must name a column" in refusal(Data, table, value=3)
    assert "gaps must be" in refusal(Data, table, value="v", time="t", every=1, gaps=None)
    assert "no column 'w'; its columns are 'v', 't'" in refusal(Data, table, value="w")
    assert "no column 'record'" in refusal(Data, table)
    data = Data(table, value="v", time="t", every=1, gaps="off")
    assert "'off', which is not among" in refusal(data.answers, ut.Count(1), (0, 1))
    assert "'off', which is not among" in refusal(data.sequences, (0, 1))


def test_windows():
    data = Data(frame(t=[0, 1, 2, 3]), value="v", time="t")
    assert data.window(1, 3).window(None, 2).scope() == Scope(None, None, 1, 2, "t")
    assert data.window(1, 3).answers(ut.Count(1)).rows == [2]
    assert data.window(10, 20).shape() == plain_shape(0, 0, 0, False)
    assert data.window(10, 20).answers(ut.Count(1)).numbers == [[0]]
    assert "before its end" in refusal(data.window, 3, 3)
    assert "nothing in common" in refusal(data.window(0, 1).window, 2, 3)
    for bound in ("2024-01-01", 1.5, True, None):
        if bound is not None:
            assert "a whole number, like column 't'" in refusal(data.window, bound, None)
    assert data.window().scope() == Scope(clock="t")
    clock = Data(frame(t=[dt.datetime(2024, 1, 1)]), value="v", time="t")
    for bound in (3, "soon", "2024-13-01", math.nan):
        assert "a date, a time or an ISO text" in refusal(clock.window, bound, None)
    for start in (
        "2024-01-01", dt.date(2024, 1, 1), np.datetime64("2024-01-01"), pd.Timestamp("2024-01-01"),
        np.datetime64("2024-01-01", "ns"),
    ):  # fmt: skip
        assert clock.window(start).scope().start == 1_704_067_200_000_000
    zurich = pd.Timestamp("2024-01-01 01:00", tz="Europe/Zurich")
    assert "no zone" in refusal(clock.window, zurich)
    zoned = Data(frame(t=[dt.datetime(2024, 1, 1, tzinfo=dt.UTC)]), value="v", time="t")
    assert zoned.window(zurich).scope().start == 1_704_067_200_000_000


@pytest.mark.parametrize("how", ["objects", "text", "csv"])
@pytest.mark.parametrize("first", [0, 1])
def test_times_with_and_without_a_zone_are_never_mixed(how, first, tmp_path):
    texts = ["2024-01-01T00:00:00", "2024-01-01T01:00:00+00:00", "2024-01-01T02:00:00+02:00"]
    texts = [texts[first], texts[1 - first]]
    table: Any = pl.DataFrame({"v": [1, 1], "t": texts})
    if how == "objects":
        times = [dt.datetime.fromisoformat(text) for text in texts]
        table = pd.DataFrame({"v": 1, "t": pd.Series(times, dtype=object)})
    elif how == "csv":
        table = tmp_path / "table.csv"
        pl.DataFrame({"v": [1, 1], "t": texts}).write_csv(table)
    data = Data(table, value="v", time="t")
    assert "row 1 of column 't' (counting from 0) is not a time of the same form" in refusal(
        data.shape
    )


def test_a_table_of_no_named_columns_counts_its_rows(tmp_path):
    table = frame(t=[0, 1, 2])
    table.write_parquet(tmp_path / "table.parquet")
    table.write_csv(tmp_path / "table.csv")
    for source in (table, tmp_path / "table.parquet", tmp_path / "table.csv", [1, 2, 3]):
        data = Data(source, value=None if isinstance(source, list) else "v")
        assert data.shape() == plain_shape(3, 1, 3, False)
        assert data.scope() == Scope()


def test_the_printed_form_says_nothing_of_the_records():
    data = Data(frame(t=[0, 77]), value="v", time="t", state="v > 0")
    assert repr(data) == "Data(the table, value='v', time='t')"
    assert "77" not in repr(data.answers(ut.Count(1), (0, 1)))


# --- series ---------------------------------------------------------------------------------------


@law(LAWS, 10, data=st.data())
def test_series_are_those_of_a_loop(data):
    kind = data.draw(st.sampled_from(["whole", "text"]))
    rows = data.draw(tables(kind))
    backend = data.draw(st.sampled_from([b for b in BACKENDS if b not in ("csv", "gzip")]))
    gaps = data.draw(st.sampled_from(["split", 7]))
    window = data.draw(st.none() | st.tuples(st.integers(0, 5), st.integers(6, 10)))
    with tempfile.TemporaryDirectory() as folder:
        source = as_source(rows, kind, backend, Path(folder))
        table = Data(source, value="v", person="who", time="when", every="5m", gaps=gaps)
        if window is not None:
            table = table.window(*(DAY + end * STEP for end in window))
        found = table.sequences()
    low, high = window or (0, 10)
    wanted: list[list[object]] = []
    for who in dict.fromkeys(row.who for row in rows):
        mine = sorted((row for row in rows if row.who == who), key=lambda row: row.when)
        cells: dict[int, object] = {
            row.when: None if is_missing(row.value) else _as_float(row.value) for row in mine
        }
        if gaps != "split":
            cells |= {t: gaps for t in range(mine[0].when, mine[-1].when) if t not in cells}
        before = -9
        for when in sorted(t for t in cells if low <= t < high):
            if when != before + 1:
                wanted.append([])
            wanted[-1].append(cells[when])
            before = when
    assert sorted(map(str, found)) == sorted(map(str, wanted))


def _as_float(value):
    return int(float(value)) if isinstance(value, int) else value


def test_series_of_states():
    table = frame(t=[0, 1, 3], x=[0.2, 5, math.nan])
    data = Data(table, value="x", time="t", every=1, state=[1])
    assert data.sequences() == [[0, 1], [None]]
    assert data.sequences(("low", "high")) == [["low", "high"], [None]]
    mapped = Data(table, value="x", time="t", state={5: "five", None: "off"})
    assert mapped.sequences() == [[None, "five", "off"]]
    assert Data(table, value="x", state="x > 1").sequences() == [[False, True, None]]
    assert Data(table, value="x", state="x > 1").sequences(("no", "yes")) == [["no", "yes", None]]
    assert Data([1, "a", None, 0.5, True, math.inf]).sequences() == [[1, "a", None, 0.5, 1, None]]


def test_a_chain_is_fitted_to_series():
    table = frame(p=["a"] * 4 + ["b"] * 2, t=[0, 1, 2, 9, 0, 1], x=[0, 1, 1, 0, 0, 0])
    data = Data(table, value="x", person="p", time="t", every=1)
    assert data.sequences() == [[0, 1, 1], [0], [0, 0]]
    chain = ut.MarkovChain.fit(data.sequences(), prior=0.5, public=True)
    assert chain.counts.tolist() == [[1, 1], [0, 1]]


# --- what a curator is told -----------------------------------------------------------------------


def test_problems_name_rows_and_no_values(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("p,t,v,g\na,0,5,x\na,1,NA,x\na,2,walrus,y\na,3,900,\na,3,1,x\n,9,1,x\n")
    data = Data(path, value="v", person="p", time="t", every=1, by="g")
    said = [str(problem) for problem in data.problems(ut.Sum(0, 100))]
    assert said == [
        "column 'p', row 5: has no person",
        "column 't', row 4: has the person and the time of another row",
        "column 'v', row 1: is missing",
        "column 'v', row 2: is not a number",
        "column 'v', row 3: is outside the range, and will be clipped",
        "column 'g', row 3: is in no group",
    ]
    assert [str(p) for p in data.problems(ut.Count(5), (5, 1))][2:] == [
        "column 'v', row 1: is missing",
        "column 'v', row 2: is in no state of the plan",
        "column 'v', row 3: is in no state of the plan",
        "column 'g', row 3: is in no group",
    ]
    assert [p.what for p in data.problems()][2:] == ["is missing", "is in no group"]
    assert "walrus" not in " ".join(said)
    assert "needs the states" in refusal(data.problems, ut.Histogram())


def test_a_chain_is_fitted_to_a_table_as_it_is():
    """Persons and gaps end a series; foreign values are missing."""
    rows = [
        ("a", 0, 1.0),
        ("a", 1, 0.0),
        ("b", 0, 0.0),
        ("b", 1, 2.0),
        ("b", 3, 0.0),
        ("a", 2, 9.0),
    ]
    frame = pl.DataFrame(rows, schema=["who", "when", "what"], orient="row")
    data = ut.Data(frame, person="who", time="when", value="what", every=1)
    assert ut.MarkovChain.fit(data, (0, 1, 2), prior=0.5, public=True).counts.tolist() == [
        [0, 0, 1],
        [1, 0, 0],
        [0, 0, 0],
    ]
