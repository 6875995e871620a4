"""Expressions in one form: what is the same is written alike, and reads as it did."""

import polars as pl
import pytest

from undertow.data.columns import Column
from undertow.data.expressions import evaluate, normalised

SAME = [
    ("x > 0", "((X)) ".lower() + ">(0.0)", "x>0e3"),
    ("not x = 1 AND y <> 2", "NOT (x==1) and (y != 2.0)"),
    ("x between 1 and 2 or x in (3, 4)", "(X BETWEEN (1) AND 2) OR x IN(3,4.0)".replace("X", "x")),
    ("cast(x as double) > 1", "x::float > 1", "CAST((x) AS double precision) > 1"),
    ("x - y - 1 > 0", "(x - y) - 1 > 0"),
    ("case when x > 0 then 'a' else 'b' end = 'a'", "CASE WHEN (x>0) THEN 'a' ELSE 'b' END='a'"),
]
DIFFERENT = [
    ("x > 0", "x >= 0"),
    ("x - y - 1 > 0", "x - (y - 1) > 0"),
    ("x / y / 2 > 0", "x / (y / 2) > 0"),
    ("x > 0 or x < 1 and y > 0", "(x > 0 or x < 1) and y > 0"),
    ("not (x > 0 and y > 0)", "not x > 0 and y > 0"),
    ("-(x + 1) > 0", "-x + 1 > 0"),
    ("x > 0", "y > 0"),
    ("m = 'a'", "m = 'A'"),
    ("m is null", "m is not null"),
]


@pytest.mark.parametrize("group", SAME)
def test_the_same_rule_is_written_alike(group):
    assert len({normalised(text, "q") for text in group}) == 1


@pytest.mark.parametrize("text", [text for group in (*SAME, *DIFFERENT) for text in group])
def test_what_is_written_reads_as_it_did(text):
    """The normal form is an expression with the same result on every row, and normal itself."""
    numbers = [None, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0]
    rows = [{"x": x, "y": y, "m": m} for x in numbers for y in numbers for m in ("a", "A", None)]
    frame = pl.DataFrame(rows)
    columns = {
        name: Column(name, "text" if name == "m" else "number").planes() for name in frame.columns
    }
    found = []
    for one in (text, normalised(text, "q")):
        steps, planes = evaluate(one, columns)
        made = frame
        for step in steps:
            made = made.with_columns(step)
        found.append(made.select(state=planes["truth"])["state"].to_list())
    assert found[0] == found[1]
    assert normalised(normalised(text, "q"), "q") == normalised(text, "q")


def test_the_value_column_is_a_placeholder_and_another_of_its_name_is_quoted():
    assert normalised('"the steps" > 0') == normalised("kw > 0") == "value > 0"
    assert normalised("kw > 0 and value > 1", "kw") == 'value > 0 and "value" > 1'
    assert normalised("kw > 0 and hr > 1") == "kw > 0 and hr > 1"
