"""Two tables of one shape raise or do not raise alike, whatever values they hold.

This is what makes a release private beside its noise: message, type of error, traceback, groups,
numbers of rows and everything else but the exact numbers must be the same.
"""

import csv
import datetime as dt
import decimal
import fractions
import io
import math
import tempfile
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow.data.readers.sources import RECORD
from undertow.data.table import Data

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

LAWS = settings(
    deadline=None, derandomize=True, database=None, max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
LOOSE = settings(LAWS, max_examples=200)
AB = ("a", "b")

texts = st.text(max_size=6) | st.sampled_from(
    ["", "NA", "a", "b", "1", "0", "-1e400", "nan", "inf", "true", "False", "1,5", "0x1", " 2 ",
     "\0", '"', '""', "'", "\n", "\r\n", "a\nb", "ﬀ", "\U0010ffff", "2024-01-01", "'; drop", "%"]
)  # fmt: skip
integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 3)
floats = st.floats() | st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan, 5e-324])
objects = st.recursive(
    st.none() | texts | floats | st.integers() | st.booleans() | st.binary(max_size=3)
    | st.complex_numbers() | st.dates() | st.datetimes() | st.timedeltas() | st.decimals()
    | st.fractions() | st.sampled_from(
        ["\ud800", 10**400, decimal.Decimal("sNaN"), decimal.Decimal("Infinity"), pd.NA, pd.NaT,
         np.int8(1), np.float32(1.5), np.bool_(True), np.datetime64("NaT", "s"),
         float, object(), fractions.Fraction(1, 3), b"\xff", range(3), np.array([1, 2])]
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=1), inner),
    max_leaves=3,
)  # fmt: skip

# a type of Polars, and what a column of it can hold
TYPED: dict[str, Any] = {
    "Int64": (pl.Int64, integers),
    "Int8": (pl.Int8, st.integers(-128, 127)),
    "UInt64": (pl.UInt64, st.integers(0, 2**64 - 1)),
    "Int128": (pl.Int128, st.integers(-(2**127), 2**127 - 1)),
    "Float64": (pl.Float64, floats),
    "Float32": (pl.Float32, st.floats(width=32)),
    "Boolean": (pl.Boolean, st.booleans()),
    "String": (pl.String, texts),
    "Categorical": (pl.Categorical, texts),
    "Enum": (pl.Enum(["a", "b", "1"]), st.sampled_from(["a", "b", "1"])),
    "Decimal": (pl.Decimal(38, 4), st.decimals(-(10**33), 10**33, places=4)),
    "Date": (pl.Date, st.dates()),
    "Datetime": (pl.Datetime("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "Duration": (pl.Duration("us"), st.timedeltas(dt.timedelta(-99), dt.timedelta(99))),
    "Binary": (pl.Binary, st.binary(max_size=4)),
    "List": (pl.List(pl.Int64), st.lists(st.integers(-9, 9), max_size=3)),
    "Struct": (pl.Struct({"x": pl.Int64}), st.fixed_dictionaries({"x": st.integers(-9, 9)})),
    "Null": (pl.Null, st.none()),
}  # fmt: skip

STATES = [
    None,
    "v > 0",
    "v = 'a'",
    "v = true",
    "v is null",
    "v",
    "1 / v > 0.5",
    "v % 2 = 1 or v / 0 > 1",
    "cast(v as integer) in (0, 1)",
    "cast(v as double) * 1e308 * 1e308 > 0",
    "cast(v as text) like 'a%_'",
    "cast(v as boolean)",
    "case when v > 1e18 then 'a' when v < 0 then null else 'b' end",
    "case v when 'a' then 'b' when '1' then 'a' else v end",
    "sqrt(v) + ln(v) - exp(v) > round(v) * floor(v)",
    "length(upper(trim(v))) between 1 and 3",
    "coalesce(v, 'a')",
    "nullif(v, 1) > least(v, 2)",
    "v > avg(v)",
    "other > 0",
    "v >",
    {"a": "b", "b": "a", None: "a"},
    {1: "a", 0: "b", 2.5: None},
    {"a": "elsewhere"},
    [0.5],
    [-1e300, 0, 3],
    [2, 1],
]
QUERIES = [
    (ut.Histogram(), AB),
    (ut.Count("b"), AB),
    (ut.Histogram(), (0, 1, 2.5)),
    (ut.Histogram(), (True, False)),
    (ut.Count([1, "a"]), ()),
    (ut.Count("c"), AB),
    (ut.Sum(-1, 3), ()),
    (ut.Sum(-1.7e308, 1, steps=2**52), ()),
    (ut.Sum(-1, 3, {"a": 2, "b": -0.5}), AB),
    (ut.Mean(0, 2), (0, 1, 2.5)),
    (ut.Mean(0, 1e-300), ()),
    (ut.Linear([1.0, -2.0, 0.5], spread=2.0, lower=0.0), ()),
]


@st.composite
def shapes(draw):
    """Who, when and in which group: the public part of a table, sound or not."""
    size = draw(st.sampled_from([1, 2, 3, 3, 4, 6, 0]))
    clock = draw(st.booleans())
    times = draw(
        st.lists(st.integers(0, 40), min_size=size, max_size=size, unique=draw(st.booleans()))
    )
    whose = draw(st.lists(st.sampled_from(["p", "q"]), min_size=size, max_size=size))
    groups = draw(st.lists(st.sampled_from(["g", "h"]), min_size=size, max_size=size))
    start = dt.datetime(2024, 1, 1)
    whens = [start + dt.timedelta(minutes=t) if clock else t for t in times]
    return {"who": whose, "when": whens, "g": groups}


@st.composite
def options(draw, clock):
    made = {"value": "v", "state": draw(st.sampled_from(STATES))}
    if draw(st.booleans()):
        made |= {"person": "who"}
    if draw(st.booleans()):
        made |= {"time": "when"}
        if draw(st.booleans()):
            made |= {"every": draw(st.sampled_from(["1m", "2m"] if clock else [1, 2]))}
            made |= {"gaps": draw(st.sampled_from(["split", "a", 0]))}
    if draw(st.booleans()):
        made |= {"by": "g", "groups": draw(st.sampled_from([None, ["g", "x"]]))}
    return made


def outcome(call):
    """What anyone sees of a call: what it gave, or the error to the last character."""
    try:
        return call()
    except ut.errors.UndertowError as error:
        return type(error), str(error), "".join(traceback.format_exception(error))


def seen(source, made, query, states, window):
    """Everything but the exact numbers."""

    def build():
        data = Data(source, **made)
        return data if window is None else data.window(*window)

    def told(data):
        answers = data.answers(query, states)
        return answers.groups, answers.rows, [len(row) for row in answers.numbers], repr(answers)

    def listed(data):
        problems = data.problems(query, states)
        return all(p.column in ("v", "who", "when", "g", None, RECORD) for p in problems)

    made_data = outcome(build)
    if not isinstance(made_data, Data):
        return made_data
    return [
        repr(made_data),
        outcome(made_data.shape),
        outcome(made_data.scope),
        outcome(lambda: told(made_data)),
        outcome(lambda: listed(made_data)),
        outcome(lambda: sum(map(len, made_data.sequences()))),
        outcome(lambda: [len(run) for run in made_data.sequences(AB)]),
    ]


def windows(draw, shape):
    if not draw(st.booleans()) or not shape["when"]:
        return None
    first = min(shape["when"])
    return (first, None) if draw(st.booleans()) else (None, max(shape["when"]))


def columns(values, size):
    """Values at random, and columns that are all alike: what a library might infer a type from."""
    some = [values]
    if values is objects:
        some += [texts, integers, floats, st.booleans(), st.none(), st.dates()]
    return st.one_of([st.lists(one, min_size=size, max_size=size) for one in some])


def compared(draw, build, values, shape):
    """Draw two columns of values and compare what is seen of them."""
    size = len(shape["who"])
    made = draw(options(not shape["when"] or isinstance(shape["when"][0], dt.datetime)))
    query, states = draw(st.sampled_from(QUERIES))
    window = windows(draw, shape)
    both = []
    for _ in range(2):
        column = draw(columns(values, size))
        both.append(seen(build(column), made, query, states, window))
    assert both[0] == both[1]


@law(LOOSE, 6, data=st.data())
def test_csv(data):
    shape = data.draw(shapes())
    garbage = (texts | integers | floats).map(str).map(str.encode) | st.binary(max_size=5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")

        def build(column):
            file = io.StringIO(newline="")
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow(["who", "when", "g", "v"])
            for row in zip(shape["who"], shape["when"], shape["g"], strict=True):
                writer.writerow([str(part) for part in row] + ["\ue000"])
            text = file.getvalue().encode()
            for value in column:
                quoted = value.replace(b'"', b'""')
                text = text.replace("\ue000".encode(), quoted, 1)
            path.write_bytes(text)
            return path

        compared(data.draw, build, garbage, shape)


@pytest.mark.parametrize("kind", TYPED)
@law(LAWS, 3, data=st.data())
def test_typed_columns(kind, data):
    dtype, values = TYPED[kind]
    shape = data.draw(shapes())
    backend = data.draw(st.sampled_from(["polars", "lazy", "parquet", "arrow", "duckdb", "pandas"]))
    if kind in ("Int128", "Null") and backend not in ("polars", "lazy"):
        return  # not every format has them
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")

        def build(column):
            frame = pl.DataFrame(shape, schema={"who": pl.String, "when": None, "g": pl.String})
            if not shape["when"]:
                frame = frame.with_columns(pl.col("when").cast(pl.Int64))
            frame = frame.with_columns(pl.Series("v", column, dtype=dtype))
            if backend == "lazy":
                return frame.lazy()
            if backend == "parquet":
                frame.write_parquet(path)
                return path
            if backend == "arrow":
                return frame.to_arrow()
            if backend == "duckdb":
                return duckdb.connect().from_arrow(frame.to_arrow())
            if backend == "pandas":  # a plain to_pandas would choose the type by the values
                return frame.to_pandas(use_pyarrow_extension_array=True)
            return frame

        compared(data.draw, build, st.none() | values, shape)


@law(LOOSE, 6, data=st.data())
def test_python_objects(data):
    shape = data.draw(shapes())
    backend = data.draw(st.sampled_from(["pandas", "category", "polars"]))
    plain = st.none() | texts | st.integers(-3, 3) | st.sampled_from([0.5, dt.date(2024, 1, 1)])

    def build(column):
        if backend == "polars":
            frame = pl.DataFrame(shape)
            return frame.with_columns(pl.Series("v", column, dtype=pl.Object))
        held = np.empty(len(column), dtype=object)
        held[:] = column
        frame = pd.DataFrame(shape)
        typed = pd.Categorical(held) if backend == "category" else pd.Series(held, dtype=object)
        return frame.assign(v=typed)

    compared(data.draw, build, plain if backend == "category" else objects, shape)


@law(LOOSE, 6, data=st.data())
def test_lists_of_records(data):
    size = data.draw(st.integers(0, 5))
    query, states = data.draw(st.sampled_from(QUERIES))
    state = data.draw(st.sampled_from(STATES))
    state = state.replace("v", RECORD) if isinstance(state, str) else state
    both = [
        seen(data.draw(columns(objects, size)), {"state": state}, query, states, None)
        for _ in range(2)
    ]
    assert both[0] == both[1]


def broken_texts(kind):
    """Two texts, the first of them no UTF-8: Arrow makes such a thing without a complaint."""
    good = pa.array(["a", "b"], kind)
    return pa.Array.from_buffers(kind, 2, [None, good.buffers()[1], pa.py_buffer(b"\xffb")])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_broken_text_of_arrow(kind):
    """A text that is no UTF-8 is foreign, not an error, and never reaches Polars, which crashes."""
    broken = broken_texts(kind)
    as_pandas = pa.table({"v": broken}).to_pandas(types_mapper=pd.ArrowDtype)
    for source in (pa.table({"v": broken}), as_pandas):
        data = Data(source, value="v")
        assert data.answers(ut.Histogram(), AB).numbers == [[0, 1]]
        assert data.sequences() == [[None, "b"]]
        assert Data(source, value="v", state="upper(v) = 'B'").sequences() == [[None, True]]
    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1]), broken)
    data = Data(pa.table({"v": dictionary}), value="v")
    assert data.answers(ut.Histogram(), AB).numbers == [[0, 1]]


def test_errors_keep_no_value_in_sight():
    """What is printed of any error quotes none of the values."""
    secret = "Hesperus"
    frame = pd.DataFrame({"v": pd.Series([secret, 1, [secret]], dtype=object), "t": [1, 1, 2]})
    for made in ({"time": "t"}, {"state": "v >"}, {"state": "w > 0"}, {"by": "v"}, {"person": "v"}):
        with pytest.raises(ut.errors.InvalidInput) as caught:
            Data(frame, value="v", **made).shape()
        assert secret not in "".join(traceback.format_exception(caught.value))
