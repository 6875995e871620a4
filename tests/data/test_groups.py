"""Groups: the same rows have the same name in the ledger, however the group is spelled."""

import datetime as dt
import math
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow.data.scopes import as_scope, group_key
from undertow.data.table import Data
from undertow.errors import InvalidInput

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=400)
pd = pytest.importorskip("pandas")

DAYS = [dt.date(2025, 1, 6), dt.date(2025, 1, 7), dt.date(1969, 12, 31)]
NAIVE = [
    dt.datetime(2025, 1, 6),
    dt.datetime(2025, 1, 6, 0, 5),
    dt.datetime(2025, 1, 7, 1, 0, 0, 1),
]
ZONED = [one.replace(tzinfo=dt.UTC) for one in NAIVE]
ABROAD = [one.astimezone(dt.timezone(dt.timedelta(hours=2))) for one in ZONED]
TEXTS = [
    "1", "01", "1.0", "1e0", " 1", "1.00000000000000000001", "0.1", "0.10000000000000000001", "a",
    "A", " a", "e\u0301", "\u00e9", "true", "True", "TRUE", "1/10", "2025-01-06", "20250106",
    "2025-W02-1", "2025-01-06T00:00:00", "2025-01-06 00:05", "2025-01-06T00:05:00+00:00",
    "2025-01-06T02:05:00+02:00", "inf", "1e400", "-0", "0", "9007199254740993", "1e17",
    "100000000000000001", "nan", "NA", "\uff11",
]  # fmt: skip
NUMBERS = [0, 1, -1, 2**53, 2**53 + 1, 10**17, 10**17 + 1, 20250106]
FLOATS = [
    0.0,
    -0.0,
    1.0,
    0.1,
    float(np.float32(0.1)),
    1e17,
    1e300,
    5e-324,
    math.inf,
    -math.inf,
    2.5,
]
OBJECTS = [
    *TEXTS[:10], 1, 1.0, True, False, 0, 0.1, Decimal("0.1"), Decimal("1.00000000000000000001"),
    Fraction(1, 10), Decimal(1), *DAYS, *NAIVE, *ZONED, *ABROAD, 10**17, 1e17,
]  # fmt: skip
COLUMNS: dict[str, tuple[list[Any], Any]] = {
    "csv": (TEXTS, None),
    "text": (TEXTS, pl.String),
    "category": (TEXTS, pl.Categorical),
    "whole": (NUMBERS, pl.Int64),
    "small": ([0, 1, 2], pl.UInt8),
    "positive": ([0, 1, 2**63 + 1, 2**53 + 1], pl.UInt64),
    "real": (FLOATS, pl.Float64),
    "half": ([0.1, 1.0, -0.0, 2.5, 16777216.0], pl.Float32),
    "decimal": ([Decimal("0.10"), Decimal("1.00"), Decimal("2.50")], pl.Decimal(20, 2)),
    "truth": ([True, False], pl.Boolean),
    "day": (DAYS, pl.Date),
    "naive": (NAIVE, pl.Datetime("us")),
    "nano": (NAIVE, pl.Datetime("ns")),
    "zoned": (ZONED, pl.Datetime("us", "UTC")),
    "abroad": (ABROAD, pl.Datetime("ms", "Europe/Zurich")),
    "objects": (OBJECTS, None),
}
SPELLINGS = [*TEXTS, *NUMBERS, *FLOATS, *OBJECTS, *ABROAD, np.int64(1), np.float32(0.1)]


def source(kind: str, values: list[Any], folder: Path) -> Any:
    held, dtype = [None, *values], COLUMNS[kind][1]
    if kind == "csv":
        path = folder / "table.csv"
        lines = "".join(f'1,"{"" if value is None else value}"\n' for value in held)
        path.write_text("v,g\n" + lines, encoding="utf-8")
        return path
    if kind == "objects":
        return pd.DataFrame({"v": 1, "g": pd.Series(held, dtype=object)})
    return pl.DataFrame({"v": [1] * len(held), "g": pl.Series(held, dtype=dtype)})


def selected(table: Any, name: Any) -> tuple[set[int], Data] | None:
    """The rows in the group, None where the spelling is refused."""
    try:
        data = Data(table, value="v", by="g", groups=[name])
    except InvalidInput:
        return None
    rows = data.source.collect(data.rows(numbered=True))[0]
    there = rows.filter(pl.col("\0group").is_not_null())
    return set(there["\0row"].to_list()), data


@law(LAWS, 12, data=st.data())
def test_the_same_rows_have_the_same_key(data):
    kind = data.draw(st.sampled_from(list(COLUMNS)))
    values = data.draw(st.lists(st.sampled_from(COLUMNS[kind][0]), min_size=1, max_size=6))
    near = [*values, *(str(value) for value in values)]
    near += [value.isoformat() for value in values if isinstance(value, dt.date)]
    names = st.sampled_from(near) | st.sampled_from(SPELLINGS)
    one, other = data.draw(names), data.draw(names)
    with tempfile.TemporaryDirectory() as folder:
        table = source(kind, values, Path(folder))
        first, second = selected(table, one), selected(table, other)
        everything = Data(table, value="v", by="g").answers(ut.Count(1))
        if first is None or second is None:
            return
        (rows, told), (rows_too, told_too) = first, second
        keys, keys_too = as_scope(told.scope()).groups, as_scope(told_too.scope()).groups
        if rows & rows_too:
            assert keys == keys_too, (one, other)
        if rows and rows == rows_too and kind != "csv":  # there 1 and '1' are two questions
            assert told.touched() == told_too.touched()
        # what the ledger is told of all groups, and what was answered, agree with what is named
        found = told.answers(ut.Count(1))
        assert found.rows == [len(rows)]
        assert found.groups == told.groups == told.touched()[1]
        if rows and kind != "csv":
            assert {*(told.groups or ())} <= {*(everything.groups or ())}
        assert len(set(everything.groups or ())) == len(everything.groups or ())


@pytest.mark.parametrize(
    ("kind", "values", "spellings"),
    [
        ("whole", [1, 2], ["1", "1.00000000000000000001", "01", 1.0, True, "1e0"]),
        ("day", DAYS, ["2025-01-06", "20250106", "2025-W02-1", dt.date(2025, 1, 6), NAIVE[0]]),
        ("naive", NAIVE, ["2025-01-06", "2025-01-06T00:00", dt.date(2025, 1, 6), NAIVE[0]]),
        ("zoned", ZONED, ["2025-01-06T00:00Z", "2025-01-06T02:00+02:00", ABROAD[0]]),
        ("half", [0.1], ["0.1", 0.1, float(np.float32(0.1)), np.float32(0.1)]),
        ("truth", [True], [True, 1, "true", "TRUE", "1"]),
        ("real", [0.1], ["0.1", "0.10000000000000000001", Fraction(1, 10), Decimal("0.1")]),
    ],
)
def test_spellings_of_one_group(kind, values, spellings, tmp_path):
    table = source(kind, values, tmp_path)
    found = [selected(table, name) for name in spellings]
    assert all(one is not None and one[0] == {1} for one in found)
    assert len({one[1].groups for one in found if one is not None}) == 1
    for name in spellings[1:]:
        with pytest.raises(InvalidInput, match=r"same group|named twice"):
            Data(table, value="v", by="g", groups=[spellings[0], name])


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("whole", "0.5", "whole numbers"),
        ("whole", "a", "whole numbers"),
        ("whole", dt.date(2025, 1, 6), "whole numbers"),
        ("real", "a", "numbers"),
        ("real", "nan", "numbers"),
        ("truth", "yes", "truth values"),
        ("truth", 2, "truth values"),
        ("text", 1, "not even '1'"),
        ("day", "2025-01-06T05:00", "without a time of day"),
        ("day", "2025-01-06T00:00Z", "without a zone"),
        ("day", 3, "dates or times"),
        ("naive", "2025-01-06T00:00Z", "without a zone"),
        ("zoned", "2025-01-06", "with a zone"),
        ("csv", "", "empty field"),
        ("csv", 1e17, "neighbours"),
        ("csv", math.inf, "write it as a text"),
        ("objects", (1, 2), "texts, numbers"),
    ],
)
def test_spellings_of_no_group(kind, name, words, tmp_path):
    table = source(kind, COLUMNS[kind][0], tmp_path)
    with pytest.raises(InvalidInput, match=words):
        Data(table, value="v", by="g", groups=[name])


def test_a_field_is_not_a_number_and_a_text_at_once(tmp_path):
    table = source("csv", TEXTS, tmp_path)
    for pair in ([1, "1"], ["1.0", 1], [True, "TRUE"], [0.1, "0.10000000000000000001"]):
        with pytest.raises(InvalidInput, match="same group"):
            Data(table, value="v", by="g", groups=pair)
    assert Data(table, value="v", by="g", groups=["1", "01"]).answers(ut.Count(1)).rows == [1, 1]


@pytest.mark.parametrize(
    "names",
    [
        ["1", 1, 1.0, "01", "1.00000000000000000001", np.float64(1)],
        [0.1, "0.10", "1e-1", "0.10000000000000000001", "1/10"],
        ["2025-01-06", DAYS[0], NAIVE[0], ZONED[0], "2025-01-06T00:00", "2025-01-06 00:00:00Z"],
        [NAIVE[1], "2025-01-06T00:05", "2025-01-06 00:05:00", "2025-01-06T02:05+02:00"],
        ["A", "a", " a "],
        ["\u00e9", "e\u0301"],
        ["1e300", "10e299", 1e300],
    ],
)
def test_names_that_could_be_one_group_in_two_files(names):
    assert len({group_key(name) for name in names}) == 1


def test_groups_that_are_dates_are_released_and_confirmed(tmp_path):
    """What JSON cannot hold was drawn, charged, and then refused by the ledger."""
    chain = ut.MarkovChain([[0.9, 0.1], [0.1, 0.9]], states=(0, 1))
    plan = ut.calibrate(ut.Count(1), chain, limit=1.0, method="exchange")
    frame = pl.DataFrame(
        {"p": [0, 1, 2, 3], "v": [0, 1, 1, 0], "day": [DAYS[0], DAYS[0], DAYS[1], DAYS[1]]}
    )
    ledger = ut.Ledger(tmp_path / "ledger.db", "days", model=chain, limit=4.0)
    for names, shown in (
        ([DAYS[0]], ("2025-01-06",)),
        ([dt.datetime(2025, 1, 7)], ("2025-01-07",)),
    ):
        data = Data(frame, value="v", person="p", by="day", groups=names)
        made = ut.release(plan, data, ledger=ledger)
        assert tuple(made.groups or ()) == shown
    data = Data(frame, value="v", person="p", by="day", groups=["20250106"])
    spent = as_scope(data.scope()).groups
    assert spent == ("2025-01-06",)


# --- one column, two roles ------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["person", "time", "by"])
@pytest.mark.parametrize(
    "options",
    [
        {"value": "x"},
        {"state": "x > 5"},
        {"value": "y", "state": "x + y > 5"},
        {"value": "x", "state": [1, 2]},
        {"value": "x", "state": {1: "a"}},
    ],
)
def test_what_is_private_is_not_public_as_well(role, options):
    frame = pl.DataFrame({"x": [1, 2], "y": [1, 2], "z": [1, 2]})
    with pytest.raises(InvalidInput, match=f"'x' is named twice, as .* and as {role}"):
        Data(frame, **options, **{role: "x"})
    assert Data(frame, **options, **{role: "z"}).shape().rows == 2


def test_which_public_columns_may_be_one():
    frame = pl.DataFrame({"x": [1, 2], "z": [1, 2]})
    with pytest.raises(InvalidInput, match="both person and time"):
        Data(frame, value="x", person="z", time="z")
    for roles in ({"person": "z", "by": "z"}, {"time": "z", "by": "z"}):
        assert Data(frame, value="x", **roles).answers(ut.Count(1)).rows == [1, 1]
    objects = pd.DataFrame({"x": 1, "z": pd.Series(["a", "b"], dtype=object)})
    assert Data(objects, value="x", person="z", by="z").answers(ut.Count(1)).groups == ("a", "b")


# --- what is asked, and of which table ------------------------------------------------------------


def test_what_is_asked_is_json_and_one_text(tmp_path):
    path = tmp_path / "folder" / "steps.csv"
    path.parent.mkdir()
    path.write_text("id,t,ward,steps\na,0,N,1\n")
    data = Data(path, person="id", time="t", value="steps", state="steps > 0", every=1, by="ward")
    assert data.reading() == {
        "source": "steps.csv", "value": "steps", "state": "steps > 0", "person": "id", "time": "t",
        "every": 1, "gaps": "split", "by": "ward",
    }  # fmt: skip
    assert Data([1, 2]).reading()["source"] == "the list of records"
    mapped = Data([1, 2], state={2: "b", 1: "a", None: None, math.inf: "c"}).reading()["state"]
    assert mapped == Data([1], state={math.inf: "c", None: None, 1: "a", 2: "b"}).reading()["state"]
    assert [1, "a"] in mapped
    clock = pl.DataFrame({"t": [dt.datetime(2025, 1, 6)], "x": [1]})
    steps = [Data(clock, value="x", time="t", every=e).reading()["every"] for e in ("300s", "5m")]
    assert steps == ["5m", "5m"]


def test_the_identity_is_that_of_the_whole_table(tmp_path):
    frame = pl.DataFrame(
        {"id": ["a", "a", "b"], "t": [0, 1, 5], "g": ["x", "y", "x"], "v": [1, 0, 1]}
    )
    options = {"value": "v", "person": "id", "time": "t"}
    data = Data(frame, **options)
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    same = [
        data.window(0, 1),
        Data(frame, **options, by="g", groups=["x"]),
        Data(frame, **options, every=1, gaps=0),
        Data(frame.with_columns(v=pl.Series([7, 7, 7])), **options),
        Data(frame.reverse(), **options, state="v > 0"),
        Data(tmp_path / "t.csv", **options),
        Data(tmp_path / "t.parquet", **options),
    ]
    assert {one.identity() for one in same} == {data.identity()}
    others = [
        Data(frame.head(2), **options),
        Data(frame.with_columns(pl.col("t") + 1), **options),
        Data(frame, value="v", person="id"),
        Data(frame.rename({"id": "who"}), value="v", person="who", time="t"),
    ]
    assert len({data.identity(), *(one.identity() for one in others)}) == 5
    assert Data([1, 2]).identity() is None
