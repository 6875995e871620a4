"""Which state a value is in: by value and type, by place, through mappings and bins."""

import datetime as dt
import decimal
import math

import numpy as np
import polars as pl
import pytest

import undertow as ut
from undertow.data.table import Data
from undertow.errors import InvalidInput, NotSupported, UnknownState

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")


def counts(source, states, **options):
    value = {} if isinstance(source, list) else {"value": "v"}
    (found,) = Data(source, **value, **options).answers(ut.Histogram(), states).numbers
    return found


def refusal(call, *arguments, **options):
    with pytest.raises(InvalidInput) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_names_match_by_value_and_type(tmp_path):
    objects = ["1", 1, 1.0, True, np.int64(1), decimal.Decimal(1), "a", None, math.nan, [1], b"a"]
    assert counts(objects, (1, "1", "a")) == [5, 1, 1]
    assert counts(objects, (True, False)) == [5, 0]
    assert counts([0.0, -0.0, 0, False], (0, 1)) == [4, 0]
    assert counts(pl.DataFrame({"v": [1, 2, None]}), (1, 2.0)) == [1, 1]
    assert counts(pl.DataFrame({"v": [1, 2, None]}), (np.int64(1), np.float32(2))) == [1, 1]
    assert "--state" in refusal(counts, pl.DataFrame({"v": [1, 0, 5]}), (True, False))
    assert counts(pl.DataFrame({"v": [1.5, math.inf]}), (1.5, math.inf)) == [1, 1]
    assert counts(pl.DataFrame({"v": ["1", "a"]}), ("1", 1)) == [1, 0]
    path = tmp_path / "table.csv"
    path.write_text("v\n1\n1.0\n01\na\nTrue\n")
    assert counts(path, (1, 2)) == [3, 0]
    assert counts(path, ("1", "01")) == [1, 1]
    assert counts(path, (1, "1")) == [2, 1]  # a text before a number
    assert counts(path, (True, False)) == [4, 0]


def test_numbers_too_large_for_a_float_are_told_apart_from_states():
    table = pl.DataFrame({"v": [2**53, 2**53 + 1, 2**53 - 1]})
    assert counts(table, (2**53 - 1, 0)) == [1, 0]
    assert "below 2**53" in refusal(counts, table, (2**53, 0))


def test_every_type_of_a_column():
    for values, dtype in (
        (["a", "b"], pl.Categorical), (["a", "b"], pl.Enum(["b", "a"])), (["a", "b"], pl.String),
    ):  # fmt: skip
        assert counts(pl.DataFrame({"v": pl.Series(values, dtype=dtype)}), ("b", "c")) == [1, 0]
    exact = pl.Series(["1.00", "2.50"]).cast(pl.Decimal(6, 2))
    assert counts(pl.DataFrame({"v": exact}), (1, 2.5)) == [1, 1]
    assert counts(pl.DataFrame({"v": [None, None]}), ("a", "b")) == [0, 0]
    assert counts(pl.DataFrame({"v": [None, None]}), (0, 1)) == [0, 0]
    assert counts(pa.table({"v": pa.nulls(2)}), (0, 1)) == [0, 0]
    assert counts(pa.table({"v": pa.array(["a", "b"]).dictionary_encode()}), ("a", "c")) == [1, 0]
    assert counts(pa.table({"v": pa.array([7, 8]).dictionary_encode()}), (7, 9)) == [1, 0]
    assert counts(pd.DataFrame({"v": pd.Categorical([7, 8])}), (7, 9)) == [1, 0]
    assert counts(pd.DataFrame({"v": pd.array([7, None], dtype="Int64")}), (7, 9)) == [1, 0]
    assert counts(duckdb.sql("select 'a'::enum('a', 'b') as v"), ("a", "b")) == [1, 0]
    assert counts(duckdb.sql("select 7::hugeint as v, [1] as w"), (7, 9)) == [1, 0]
    for odd in ([dt.date(2024, 1, 1)], [[1]], [{"x": 1}], [b"a"], [dt.timedelta(1)]):
        table = pl.DataFrame({"v": odd})
        for source in (table, table.to_arrow(), table.lazy()):
            said = refusal(Data, source, value="v")
            assert "records are texts, numbers or truth values" in said
    wide = pa.table({"v": pa.array([decimal.Decimal(1)], pa.decimal256(50, 2))})
    assert "decimal256" in refusal(Data, wide, value="v")
    assert "complex128" in refusal(Data, pd.DataFrame({"v": [1j]}), value="v")


def test_truth_values_go_by_place_or_by_value():
    table = pl.DataFrame({"v": [True, True, False, None]})
    assert counts(table, ("idle", "active"), state="v") == [1, 2]  # an expression, by place
    assert counts(table, (True, False)) == [2, 1]
    assert counts(table, (1, 0)) == [2, 1]
    assert counts(table, ("0", "1"), state="v") == [1, 2]
    assert counts(table, ("idle", "active"), state={False: "idle", True: "active"}) == [1, 2]
    assert "holds truth values" in refusal(counts, table, ("idle", "active"))
    assert "gives a truth value, and there are 3 states" in refusal(
        counts, table, ("a", "b", "c"), state="v"
    )
    assert Data(table, value="v").answers(ut.Count(True)).numbers == [[2]]
    assert "holds truth values" in refusal(Data(table, value="v").answers, ut.Count("active"))


def test_bins():
    table = pl.DataFrame({"v": [-math.inf, 0.4, 0.5, 1, 1.99, 2, math.inf, math.nan, None]})
    assert counts(table, ("w", "x", "y", "z"), state=[0.5, 1, 2]) == [2, 1, 2, 2]
    assert counts(table, ("w", "x", "y", "z"), state=np.array([0.5, 1, 2])) == [2, 1, 2, 2]
    assert "3 cut points make 4 bins, and there are 2 states" in refusal(
        counts, table, ("a", "b"), state=[0.5, 1, 2]
    )
    data = Data(table, value="v", state=[0.5, 1, 2])
    assert data.answers(ut.Count([0, 3])).numbers == [[4]]
    assert "cut points make states" in refusal(data.answers, ut.Sum(0, 1))
    for cuts in ([2, 1], [1, 1], [], [math.nan], [math.inf], ["a"], [10**400]):
        assert "cut points are" in refusal(Data, table, value="v", state=cuts)
    assert "need numbers" in refusal(Data, pl.DataFrame({"v": ["a"]}), value="v", state=[1])
    assert "or a list of cut points; found a int" in refusal(Data, table, value="v", state=3)


def test_mappings():
    table = pl.DataFrame({"v": ["W", "1", "3", "4", "?", None]})
    mapping = {"W": "wake", "1": "light", "3": "deep", "4": "deep", None: "off", "?": None}
    states = ("deep", "wake", "light", "off")
    assert counts(table, states, state=mapping) == [2, 1, 1, 1]
    assert "'off', which is not among" in refusal(counts, table, states[:3], state=mapping)
    numbers = pl.DataFrame({"v": [1, 2, 3, None]})
    data = Data(numbers, value="v", state={1: 10, 2: 5, None: 1})
    assert data.answers(ut.Sum(0, 10, steps=10)).numbers == [[10 + 5 + 0 + 1]]
    assert "only numbers can be added up" in refusal(
        Data(numbers, value="v", state={1: "a"}).answers, ut.Sum(0, 1)
    )
    assert counts(numbers, ("a", "b"), state={None: "b"}) == [0, 1]
    assert "none of the names" in refusal(counts, numbers, ("a", "b"), state={"1": "a"})
    assert "is empty" in refusal(Data, numbers, value="v", state={})
    assert "found a tuple" in refusal(Data, numbers, value="v", state={(1,): "a"})
    assert "not by NaN" in refusal(Data, numbers, value="v", state={math.nan: "a"})


def test_what_no_type_can_give_is_refused_at_once():
    texts, numbers = pl.DataFrame({"v": ["1"]}), pl.DataFrame({"v": [1]})
    assert "column 'v' holds text, and no such value" in refusal(counts, texts, (0, 1))
    assert "column 'v' holds numbers, and no such value" in refusal(counts, numbers, ("0", "1"))
    assert "is text, and only numbers can be added up" in refusal(
        Data(texts, value="v").answers, ut.Sum(0, 1)
    )
    assert Data(texts, value="v", state="cast(v as double)").answers(
        ut.Sum(0, 1, steps=4)
    ).numbers == [[4]]


def test_queries_that_cannot_be_asked():
    data = Data([0, 1])
    with pytest.raises(UnknownState, match="asks for 7"):
        data.answers(ut.Count(7), (0, 1))
    assert "needs the states" in refusal(data.answers, ut.Histogram())
    with pytest.raises(NotSupported):
        data.answers(ut.Query(len))
    with pytest.raises(NotSupported, match="lower"):
        data.answers(ut.Linear([1.0, 2.0], spread=1.0))
    assert "at most 2**53 steps" in refusal(data.answers, ut.Sum(0, 1, steps=2**60))


def test_sums_do_not_overflow():
    query = ut.Sum(0, 1, steps=2**53)
    table = pl.DataFrame({"v": [1.0]}).select(pl.col("v").repeat_by(5000).explode())
    assert Data(table, value="v").answers(query).numbers == [[5000 * 2**53]]


def test_things_that_are_no_tables(tmp_path):
    for source in (3, None, {"v": [1]}, b"v", {1, 2}, object(), np.zeros((2, 2))):
        assert "a table is required" in refusal(Data, source, value="v")
    twice = pd.DataFrame([[1, 2]], columns=["v", "v"])
    assert "two columns of one name" in refusal(Data, twice, value="v")
    assert "no column 'v'" in refusal(Data, [1, 2], value="v")
    assert "no such file" in refusal(Data, tmp_path / "none.csv", value="v")
    assert ".csv, .csv.gz, .parquet" in refusal(Data, tmp_path / "table.txt", value="v")
    lazy = pl.LazyFrame({"v": [1]}).select(pl.col("w"))
    assert "the library that holds it failed" in refusal(Data, lazy, value="v")
    broken = duckdb.sql("select cast(x as integer) as v from (values ('Hesperus')) t(x)")
    said = refusal(Data, broken, value="v")
    assert "the library that holds it failed" in said
    assert "Hesperus" not in said
    failing = pl.LazyFrame({"x": ["Hesperus"]}).select(v=pl.col("x").cast(pl.Int64))
    assert "the library that holds it failed" in refusal(Data(failing, value="v").shape)


def test_series_of_any_library_are_lists_of_records():
    for series in (
        [0, 1, 1], (0, 1, 1), np.array([0, 1, 1]), pd.Series([0, 1, 1]), pl.Series([0, 1, 1]),
        range(2),
    ):  # fmt: skip
        data = Data(series)
        assert data.answers(ut.Count(1), (0, 1)).numbers[0][0] == len(series) - 1
        assert data.shape().rows == len(series)
    assert counts([3, 0, None], ("no", "yes"), state="record > 0") == [1, 1]
