"""Expressions of one row: what they mean, what they refuse, and that no value makes them fail."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.grids import law
from undertow.data.expressions import columns_of
from undertow.data.table import Data
from undertow.errors import InvalidInput

LAWS = settings(deadline=None, derandomize=True, database=None, max_examples=300)
X = [1.5, -2.0, 0.0, None, math.inf, 7.0]
TABLE = pl.DataFrame(
    {
        "x": X,
        "s": ["a", "Abc", None, "", "a.c%", "zoë"],
        "b": [True, False, None, True, True, False],
        "of day": [1, 2, 3, 4, 5, 6],
        "list": [[1]] * 6,
    }
)


def made(text, table=TABLE):
    """The record of each row, as it comes out of a series."""
    (series,) = Data(table, state=text).sequences()
    return series


def refusal(text, table=TABLE):
    with pytest.raises(InvalidInput) as caught:
        Data(table, state=text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("x > 0", [True, False, False, None, True, True]),
        ("NOT x > 0", [False, True, True, None, False, False]),
        ("not not x > 0 OR b", [True, False, None, True, True, True]),
        ("x > 0 and b", [True, False, False, None, True, False]),
        ("x is null", [False, False, False, True, False, False]),
        ("x is not null", [True, True, True, False, True, True]),
        ("x between 0 and 7", [True, False, True, None, False, True]),
        ("x not between 0 and 7", [False, True, False, None, True, False]),
        ("x in (0, 7.0, 1.5)", [True, False, True, None, False, True]),
        ("s not in ('a', 'zoë')", [False, True, None, True, True, False]),
        ("s like 'a%'", [True, False, None, False, True, False]),
        ("s like '_.c\\%'", [False] * 2 + [None] + [False] * 3),
        ("s not like '%c%'", [True, False, None, True, False, True]),
        ("s = 'it''s'", [False, False, None, False, False, False]),
        ("s < 'b'", [True, True, None, True, True, False]),
        ("b = false", [False, True, None, False, False, True]),
        ("x = null", [None] * 6),
        ("x + 1 = 2.5", [True, False, False, None, False, False]),
        ("2 * x - 1", [2, -5, -1, None, None, 13]),
        ("-x", [-1.5, 2, 0, None, None, -7]),
        ("x / 2", [0.75, -1, 0, None, None, 3.5]),
        ("1 / x", [1 / 1.5, -0.5, None, None, 0, 1 / 7]),
        ("x % 4", [1.5, -2, 0, None, None, 3]),
        ("x % 0", [None] * 6),
        ("x - x", [0, 0, 0, None, None, 0]),
        ("1 + 2 * x % 3", [1, 0, 1, None, None, 3]),
        ("abs(x) + floor(x) + ceil(x)", [4.5, -2, 0, None, None, 21]),
        ("round(x)", [2, -2, 0, None, None, 7]),
        ("round(-x)", [-2, 2, 0, None, None, -7]),
        ("sqrt(x) > 1", [True, None, False, None, True, True]),
        ("ln(x) > 0", [True, None, False, None, True, True]),
        ("exp(x) > 1", [True, False, False, None, True, True]),
        ("length(s)", [1, 3, None, 0, 4, 3]),
        ("upper(s)", ["A", "ABC", None, "", "A.C%", "ZOË"]),
        ("lower(trim(s)) = 'abc'", [False, True, None, False, False, False]),
        ("coalesce(s, 'none')", ["a", "Abc", "none", "", "a.c%", "zoë"]),
        ("nullif(x, 7)", [1.5, -2, 0, None, None, None]),
        ("least(x, 1)", [1, -2, 0, 1, 1, 1]),
        ("greatest(x, 1)", [1.5, 1, 1, 1, None, 7]),
        ("cast(x as integer)", [1, -2, 0, None, None, 7]),
        ("x::int", [1, -2, 0, None, None, 7]),
        ("cast(b as int)", [1, 0, None, 1, 1, 0]),
        ("cast(x as boolean)", [True, True, False, None, True, True]),
        ("cast(s as double precision)", [None] * 6),
        ("cast(s as text)", ["a", "Abc", None, "", "a.c%", "zoë"]),
        ("case when x > 1 then 'hi' when x < 0 then null else 'lo' end",
         ["hi", None, "lo", "lo", "hi", "hi"]),
        ("case s when 'a' then 1 when 'Abc' then 2 end", [1, 2, None, None, None, None]),
        ('"of day" > 3 and `of day` < 6', [False, False, False, True, True, False]),
        ("CASE WHEN b THEN x ELSE 0 END", [1.5, 0, 0, None, None, 0]),
        ("(((x))) >= ((0))", [True, False, True, None, True, True]),
        ("1e1 > x", [True, True, True, None, False, True]),
        ("x > .5", [True, False, False, None, True, True]),
        ("x > 0\n  and\tx < 2", [True, False, False, None, False, False]),
    ],
)  # fmt: skip
def test_meaning(text, wanted):
    found = made(text)
    assert [type(a) is bool for a in found] == [type(a) is bool for a in wanted]
    assert found == [pytest.approx(a) if isinstance(a, float) else a for a in wanted]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("x >", "at its end"),
        ("x > 0 or", "at its end"),
        ("x > 0; drop", "at character 5"),
        ("x ! 0", "at character 1"),
        ("x > 'a", "at character 3"),
        ("1x > 0", "at character 0"),
        ("x > 0 x", "goes on where it should end"),
        ("select x", "no column 'select'"),
        ("(x > 0", "')' is missing"),
        ("x in 3", "'(' is missing"),
        ("x between 1", "'AND' is missing"),
        ("x is 3", "'NULL' is missing"),
        ("x not 3", "BETWEEN, IN or LIKE"),
        ("s like x", "LIKE is followed by a text"),
        ("case x when end", "near 'end'"),
        ("case x end", "CASE needs WHEN"),
        ("case when b then 1", "'END' is missing"),
        ("cast(x as money)", "a type is missing: bigint"),
        ("x::", "a type is missing"),
        ("and x", "a value, a column or a bracket is missing"),
        ("true", "does not say the state of each record"),
        ("1 > 0", "does not say the state of each record"),
        ("y > 0", "no column 'y'"),
        ("x > 'a'", "compares a number with a text"),
        ("s > 1", "compares a text with a number"),
        ("b > true", "orders truth values"),
        ("s + 1", "needs a number where it has a text"),
        ("not x", "needs a truth where it has a number"),
        ("x and b", "needs a truth where it has a number"),
        ("upper(x)", "needs a text where it has a number"),
        ("cast(x as text)", "needs a text where it has a number"),
        ("case when b then 1 else 'a' end", "gives a number or a text"),
        ("avg(x)", "not among the functions of one row"),
        ("x > max(x)", "not among the functions of one row"),
        ("row_number() > x", "not among the functions of one row"),
        ("random(x)", "not among the functions of one row"),
        ("abs(x, x)", "takes one"),
        ("nullif(x)", "gives nullif 1 values"),
        ("least() > x", "gives least 0 values"),
        ("list > 0", "type List(Int64)"),
        ("(" * 50 + "x" + ")" * 50, "nested more than 40 deep"),
        ("x" + "+x" * 600, "more than 1000 words"),
        ("s like '" + "a_" * 10_000 + "'", "more than 20000 characters"),
    ],
)
def test_refusals(text, words):
    assert words in refusal(text)


def test_names_of_columns():
    assert columns_of("cast(x as double precision) > 1 and precision::int > y") == [
        "x",
        "precision",
        "y",
    ]
    assert columns_of("\"case\" = 'when' and true") == ["case"]
    table = pl.DataFrame({"text": ["a", "b"], "integer": [1, 2]})
    assert made("cast(text as text) = 'a' or integer::integer = 2", table) == [True, True]


def test_loose_columns_are_what_they_are_compared_with(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("x,y\n1,01\n 2 ,b\nNA,3\ntrue,\n1e3,nan\n")
    assert made("x > 1", path) == [False, True, None, None, True]
    assert made("x = '1'", path) == [True, False, None, False, False]
    assert made("x in (1, 2)", path) == [True, True, None, None, False]
    assert made("x = true", path) == [True, None, None, True, None]
    assert made("cast(x as double) > cast(y as double)", path) == [False, None, None, None, None]
    assert made("y is null", path) == [False, False, False, True, True]
    assert made("case when y = 'b' then 'B' else y end", path) == ["01", "B", "3", None, None]
    for text in ("x > y", "x = y", "nullif(x, y) > 1"):
        assert "say which with CAST" in refusal(text, path)


def test_a_missing_value_stays_missing_unless_the_value_is_left_out():
    table = pl.DataFrame({"x": [1, None]})
    always = "case when x is null then 'off' else 'on' end"
    assert Data(table, state=always, value="x").sequences() == [["on", None]]
    assert Data(table, state=always).sequences() == [["on", "off"]]


# --- random expressions beside a plain interpreter ------------------------------------------------


def arithmetic(sign, x, y):
    if x is None or y is None or (sign in "/%" and y == 0):
        return None
    x, y = np.float64(x), np.float64(y)
    with np.errstate(all="ignore"):
        if sign == "%":
            if not abs(x / y) < 2.0**53:
                return None
            result = np.sign(x) * (abs(x) - np.floor(abs(x) / abs(y)) * abs(y))
        else:
            result = {"+": x + y, "-": x - y, "*": x * y, "/": x / y}[sign]
    return None if np.isnan(result) else float(result)


def compared(sign, x, y):
    if x is None or y is None:
        return None
    return {"<": x < y, "<=": x <= y, "=": x == y, "<>": x != y, ">": x > y, ">=": x >= y}[sign]


def joined(sign, x, y):
    decisive = sign == "or"
    if decisive in (x, y):
        return decisive
    return None if None in (x, y) else not decisive


literals = st.sampled_from(["0", "1", "2.5", "0.1", "3e2", "1e308"])
numbers = st.recursive(
    st.sampled_from(["x", "y"]).map(lambda name: (name, lambda row: row[name]))
    | literals.map(lambda text: (text, lambda row: float(text))),
    lambda inner: st.tuples(st.sampled_from("+-*/%"), inner, inner).map(
        lambda t: (f"({t[1][0]} {t[0]} {t[2][0]})",
                   lambda row: arithmetic(t[0], t[1][1](row), t[2][1](row)))
    ),
    max_leaves=6,
)  # fmt: skip
truths = st.recursive(
    st.tuples(st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), numbers, numbers).map(
        lambda t: (f"{t[1][0]} {t[0]} {t[2][0]}",
                   lambda row: compared(t[0], t[1][1](row), t[2][1](row)))
    )
    | numbers.map(lambda n: (f"{n[0]} is null", lambda row: n[1](row) is None)),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner).map(
        lambda t: (f"({t[1][0]} {t[0]} {t[2][0]})",
                   lambda row: joined(t[0], t[1][1](row), t[2][1](row)))
    )
    | inner.map(lambda i: (f"not ({i[0]})",
                           lambda row: None if i[1](row) is None else not i[1](row))),
    max_leaves=5,
)  # fmt: skip
floats = st.none() | st.floats() | st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, 2.5])


@law(
    LAWS, 32,
    expression=truths, values=st.lists(st.tuples(floats, floats), min_size=1, max_size=5),
)  # fmt: skip
def test_random_expressions(expression, values):
    text, meaning = expression
    if not columns_of(text):
        return
    table = pl.DataFrame(values, schema={"x": pl.Float64, "y": pl.Float64}, orient="row")
    rows = [
        {k: None if v is None or math.isnan(v) else v for k, v in zip("xy", pair, strict=True)}
        for pair in values
    ]
    assert made(text, table) == [meaning(row) for row in rows]


@LAWS
@given(st.text(max_size=12) | st.lists(st.sampled_from(
    ["x", "s", "b", "(", ")", "case", "when", "then", "else", "end", "and", "not", "is", "null",
     "in", ",", "1", "'a'", "::", "int", "cast", "as", "+", "<", "like", "between", "abs", "list"]
), max_size=12).map(" ".join))  # fmt: skip
def test_any_text_is_an_expression_or_refused(text):
    try:
        data = Data(TABLE, state=text)
    except InvalidInput:
        return
    assert data.answers(
        ut.Sum(0, 1) if "number" in data.record.planes else ut.Count(["a", True])
    ).rows == [6]
