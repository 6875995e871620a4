"""Series from files: what is read, where it is cut, and refusals that quote no data."""

import gzip
import traceback

import polars as pl
import pytest

from undertow.data.table import Data
from undertow.errors import InvalidInput

TABLE = "day,steps,mood,share\nmon,0,low,0.5\nmon,14,high,0.25\nmon,NA,,NaN\ntue,7,low,0.5\n"
SECRET = "Hesperus"


def read_sequences(path, column, *, state=None, person=None):
    """Return the series of a column, as 'undertow fit' reads them."""
    return Data(path, value=column, state=state, person=person).sequences()


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def written(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def refusal(*arguments, **options):
    """Return the message of a refusal, after checking that nothing printed quotes the data."""
    with pytest.raises(InvalidInput) as caught:
        read_sequences(*arguments, **options)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


def test_columns_of_every_kind(table):
    assert read_sequences(table, "steps") == [[0, 14, None, 7]]
    assert read_sequences(table, "mood") == [["low", "high", None, "low"]]
    assert read_sequences(table, "share") == [[0.5, 0.25, None, 0.5]]


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        ("steps > 0", [False, True, None, True]),
        ("steps / 2", [0, 7, None, 3.5]),
        ("steps % 2", [0, 0, None, 1]),
        ("case when mood = 'low' then 'L' else 'H' end", ["L", "H", None, "L"]),
        ("share > 0.3 and steps < 10", [True, False, None, True]),
        ("case when steps > 10 then null else 'calm' end", ["calm", None, None, "calm"]),
    ],
)
def test_expressions(table, state, wanted):
    assert read_sequences(table, "steps", state=state) == [wanted]


def test_a_record_missing_in_the_column_stays_missing(table):
    assert read_sequences(table, "steps", state="day = 'mon'") == [[True, True, None, False]]
    assert read_sequences(table, "share", state="share > 0.1") == [[True, True, None, True]]


def test_formats_agree(tmp_path, table):
    zipped = tmp_path / "table.csv.gz"
    zipped.write_bytes(gzip.compress(TABLE.encode(), mtime=0))
    parquet = tmp_path / "table.parquet"
    pl.read_csv(table, null_values="NA").write_parquet(parquet)
    loud = written(tmp_path, TABLE, "TABLE.CSV")
    marked = tmp_path / "marked.csv"
    marked.write_bytes(b"\xef\xbb\xbf" + TABLE.encode())
    for path in (zipped, parquet, loud, str(table), marked):
        for column in ("steps", "mood", "share"):
            assert read_sequences(path, column, person="day") == read_sequences(
                table, column, person="day"
            )


def test_types_of_parquet(tmp_path):
    path = tmp_path / "typed.parquet"
    frame = pl.DataFrame(
        {
            "category": pl.Series(["a", None, "b"], dtype=pl.Categorical),
            "choice": pl.Series(["a", None, "b"], dtype=pl.Enum(["b", "a"])),
            "whole": [1.0, None, 0.0],
            "exact": pl.Series(["1.00", None, "0.00"]).cast(pl.Decimal(6, 2)),
            "huge": [1e300, None, 0.0],
            "truth": [True, None, False],
            "nothing": pl.Series([None, None, None], dtype=pl.Null),
            "when": pl.Series([1, None, 2]).cast(pl.Date),
            "list": [[1], None, [2]],
        }
    )
    frame.write_parquet(path)
    assert read_sequences(path, "category") == [["a", None, "b"]]
    assert read_sequences(path, "choice") == [["a", None, "b"]]
    assert read_sequences(path, "whole") == [[1, None, 0]]
    assert isinstance(read_sequences(path, "whole")[0][0], int)
    assert read_sequences(path, "exact") == [[1, None, 0]]
    assert read_sequences(path, "huge") == [[1e300, None, 0.0]]
    assert read_sequences(path, "truth") == [[True, None, False]]
    assert read_sequences(path, "nothing") == [[None, None, None]]
    assert "type Date" in refusal(path, "when")
    assert "type List" in refusal(path, "list")
    assert "header" not in refusal(path, "x")


def test_missing_and_unreadable_files(tmp_path):
    assert "no such file" in refusal(tmp_path / "none.csv", "x")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert "names no table" in refusal(folder, "x")
    text = written(tmp_path, TABLE, "table.txt")
    assert ".csv, .csv.gz, .parquet" in refusal(text, "steps")


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
PARQUET = b"PAR1" + b"\0" * 40


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "is empty"),
        ("a.parquet", b"", "is empty"),
        ("a.csv", b"\n\n", "is empty"),
        ("a.csv", PARQUET, "but Parquet"),
        ("a.csv", gzip.compress(b"x\n1\n", mtime=0), "but gzip"),
        ("a.csv.gz", b"x\n1\n", "is not gzip, as its name says"),
        ("a.csv.gz", gzip.compress(PNG, mtime=0), "UTF-8"),
        ("a.csv.gz", gzip.compress(bytes(range(97, 122)) * 99, mtime=0)[:-20], "cannot read"),
        ("a.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("a.parquet", TABLE.encode(), "is not Parquet"),
        ("a.parquet", PARQUET, "damaged, or not Parquet"),
        ("a.csv", f'x,y\n"{SECRET},1\n'.encode(), "damaged, or not CSV"),
    ],
)
def test_files_that_are_not_what_they_should_be(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    said = refusal(path, "x")
    assert words in said
    assert str(path) in said


def test_what_a_value_cannot_make_fail(tmp_path):
    assert read_sequences(written(tmp_path, "x,y\n"), "x") == []
    path = written(tmp_path, f"x,y\n1,2\n1,2,{SECRET}\n")
    assert read_sequences(path, "x") == [[1, 1]]
    path.write_bytes("x,y\né,1\n".encode("latin-1"))
    assert read_sequences(path, "x") == [["\ufffd"]]
    path.write_bytes(PNG)
    assert "not text in UTF-8" in refusal(path, "x")


def test_an_unknown_column_is_answered_with_those_there_are(tmp_path, table):
    assert "no column 'step' among its 4; its first line must be a header" in refusal(table, "step")
    several = refusal(table, "step", person="day")
    assert "no column 'step'; its columns are 'day', 'steps', 'mood', 'share'" in several
    assert "no column 'date'" in refusal(table, "steps", person="date")
    assert "no column 'sleps'" in refusal(table, "steps", state="sleps > 0")
    wide = written(tmp_path, ",".join(f"c{i}" for i in range(20)) + "\n" + "1," * 19 + "1\n")
    assert "'c11' and 8 more" in refusal(wide, "x", person="c1")


@pytest.mark.parametrize(
    "text",
    [
        f"1,{SECRET}\n2,W\n",
        f"{SECRET}\nW\n{SECRET}\n",
        f"2012-10-01,{SECRET}\n2012-10-02,W\n",
        f"-0.5,{SECRET}\n0.5,W\n",
        f"{SECRET},{SECRET}\nW,R\n",
    ],
)
def test_a_file_without_a_header_is_not_quoted(tmp_path, text):
    assert "its first line must be a header" in refusal(written(tmp_path, text), "x")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("steps >", "cannot be read"),
        ("", "empty"),
        ("select steps", "select"),
        ("steps > 0; drop", "cannot be read"),
        ("magic(steps)", "magic"),
        ("steps > avg(steps)", "avg"),
        ("(select 1)", "select"),
        ("max(steps)", "max"),
        ("true", "the state of each record"),
        ("count(*)", "count"),
        ("cast(steps as date)", "cannot be read near 'date'"),
    ],
)
def test_expressions_that_make_no_states(tmp_path, state, words):
    path = written(tmp_path, f"steps,name\n0,{SECRET}\n1,{SECRET}\n")
    assert words in refusal(path, "steps", state=state)


def test_values_in_no_state_are_missing(tmp_path):
    path = written(tmp_path, f"steps,name\n0,{SECRET}\n1,7\n")
    assert read_sequences(path, "steps", state="cast(name as integer)") == [[None, 7]]
