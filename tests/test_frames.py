"""Tables of results as data frames of Polars and of pandas."""

import sys

import pytest

import undertow as ut
from undertow.diagnostics import orders, persons
from undertow.diagnostics.other_models import robustness
from undertow.diagnostics.windows import budget_by_window
from undertow.errors import NotSupported

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], length=12)
PLAN = ut.calibrate(ut.Count(1), CHAIN, limit=1.0)
SERIES = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]).simulate(600, seed=1)


def attacked():
    plan = ut.calibrate(ut.Series(), ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]]), limit=2.0)
    shown = ut.sanitize(plan, SERIES[:100], insecure_seed=1)
    return ut.attack(shown, plan, truth=SERIES[:100])


TABLES = {
    "compare": lambda: ut.compare(ut.Count(1), CHAIN, limit=2.0),
    "orders": lambda: orders(SERIES, orders=(1, 2), hidden=(), public=True),
    "robustness": lambda: robustness(PLAN, factors=(0.5, 1.0)),
    "windows": lambda: budget_by_window(CHAIN, limit=1.0),
    "persons": lambda: persons(ut.MarkovChain.fit([SERIES, SERIES[::-1]], public=True)),
    "attack": attacked,
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_both_frames_hold_what_the_rows_say(name):
    table = TABLES[name]()
    rows, polars, pandas = table.descriptions(), table.to_polars(), table.to_pandas()
    assert len(rows) == polars.height == len(pandas) > 0
    assert list(pandas.columns) == polars.columns
    for key in rows[0].keys() & set(polars.columns):
        for row, one, two in zip(rows, polars[key], pandas[key], strict=True):
            if isinstance(row[key], str | float | int):
                assert one == two == row[key]


def test_an_interval_is_two_columns():
    table = TABLES["compare"]()
    frame = table.to_polars()
    for row, lower, upper in zip(
        table, frame["leakage_lower"], frame["leakage_upper"], strict=True
    ):
        ends = (None, None) if row.leakage is None else (row.leakage.lower, row.leakage.upper)
        assert (lower, upper) == ends


def test_a_missing_pandas_is_named(monkeypatch):
    table = TABLES["windows"]()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(NotSupported, match="pip install pandas"):
        table.to_pandas()
