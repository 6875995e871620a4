"""Files of any bytes: a table or a typed error, never anything else."""

import gzip
import io
import tempfile
import traceback
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow.data.table import Data
from undertow.errors import InvalidInput

LAWS = settings(
    deadline=None, derandomize=True, database=None, max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
SECRET = "Hesperus"
TABLE = pl.DataFrame(
    {
        "who": ["p", "p", "q", "q"] * 8,
        "t": list(range(32)),
        "v": [SECRET, "a", None, "b"] * 8,
        "x": [1.5, None, -2.0, 0.0] * 8,
    }
)
PARQUET = io.BytesIO()
TABLE.write_parquet(PARQUET, compression="uncompressed")


def read(content, ending):
    """Ask all questions of a file; whatever it holds, errors are typed and quote nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"table{ending}")
        path.write_bytes(content)
        for value, state, query in (
            ("v", None, ut.Histogram()),
            ("x", "x > 0", ut.Count("b")),
            ("x", None, ut.Sum(0, 1)),
        ):
            said = ""
            try:
                data = Data(path, value=value, state=state, person="who", time="t", every=1)
                data.shape()
                data.answers(query, ("a", "b"))
                data.sequences()
                data.problems(query, ("a", "b"))
            except InvalidInput as error:
                said = "".join(traceback.format_exception(error))
            assert SECRET not in said


@st.composite
def damaged(draw, content):
    """The bytes with some changed, some cut out, some cut off."""
    made = bytearray(content)
    for _ in range(draw(st.integers(0, 4))):
        if not made:
            break
        place = draw(st.integers(0, len(made) - 1))
        how = draw(st.sampled_from(["change", "cut", "insert"]))
        if how == "change":
            made[place] = draw(st.integers(0, 255))
        elif how == "cut":
            del made[place : place + draw(st.integers(1, 9))]
        else:
            made[place:place] = draw(st.binary(max_size=5))
    return bytes(made[: draw(st.integers(0, len(made)))] if draw(st.booleans()) else made)


@law(LAWS, 10, content=damaged(TABLE.write_csv().encode()) | st.binary(max_size=60))
def test_csv(content):
    read(content, ".csv")


@law(LAWS, 20, content=damaged(gzip.compress(TABLE.write_csv().encode(), mtime=0)))
def test_zipped_csv(content):
    read(content, ".csv.gz")


@law(LAWS, 20, content=damaged(PARQUET.getvalue()))
def test_parquet(content):
    read(content, ".parquet")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b'who,t,v\np,0,"' + SECRET.encode() + b"\n", "damaged, or not CSV"),
        (b"p,0," + SECRET.encode() + b"\n", "has no column 'v' among its 3"),
        (b"who,t,w\np,0," + SECRET.encode() + b"\n", "its columns are 'who', 't', 'w'"),
        (b"who,v,v\np,0," + SECRET.encode() + b"\n", "two columns 'v'"),
        (b"who,t,\xff\np,0,1\n", "not text in UTF-8"),
        (b"who\0,t,v\np,0,1\n", "is not CSV, as its name says"),
        (b"PAR1", "but Parquet"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, words):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=words) as caught:
        Data(path, value="v", person="who").answers(ut.Histogram(), ("a", "b"))
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert str(path) in str(caught.value)


def test_values_that_are_not_utf8_are_foreign(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"who,v\np,\xff\np,a\np,\0\np,\n")
    data = Data(path, value="v", person="who")
    assert data.answers(ut.Histogram(), ("a", "b")).numbers == [[1, 0]]
    assert [p.row for p in data.problems(ut.Histogram(), ("a", "b"))] == [3, 0, 2]


def test_lines_that_are_too_long_are_no_error_but_a_problem(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("who,v,w\np,a,1,2\np,b,1\n")
    data = Data(path, value="v")
    assert data.answers(ut.Histogram(), ("a", "b")).numbers == [[1, 1]]
    (problem,) = data.problems(ut.Histogram(), ("a", "b"))
    assert "more fields than the header" in str(problem)
