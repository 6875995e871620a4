"""Records that are no states of the plan: what they count as, and that no message quotes one."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import undertow as ut
from tests.series_plans import (
    ERASE,
    FLIPS,
    SECRET,
    SERIES,
    STATES,
    SURE,
    P,
    plan_for,
)
from undertow.errors import (
    InvalidInput,
    NotSupported,
    UnknownState,
)
from undertow.mechanisms import Redaction
from undertow.releasing.series import sanitize, stream

# --- records that are no states -------------------------------------------------------------------


class Loud:
    """An object that would tell its secret if it were compared, hashed or printed."""

    def __eq__(self, other):
        raise ValueError(SECRET)

    def __hash__(self):
        raise ValueError(SECRET)

    def __repr__(self):
        raise ValueError(SECRET)


FOREIGN = [SECRET, None, float("nan"), Loud(), [SECRET], 1, pd.NA, b"idle"]


@pytest.mark.parametrize("record", FOREIGN, ids=[type(one).__name__ for one in FOREIGN])
def test_a_foreign_record_counts_as_a_state(record):
    """By default as the first of the plan: whether there is one is nobody's business."""
    assert sanitize(SURE, ["active", record]) == ["idle", "active"]
    busy = replace(SURE, missing="active")
    assert sanitize(busy, ["idle", record]) == ["active", "idle"]
    shown = plan_for(Redaction([[0, 0], [0, 0], [1, 1]]), ut.MarkovChain(P, STATES, length=3))
    assert sanitize(shown, ["active", record, "idle"]) == ["active", "idle", None]
    hidden = replace(shown, missing="active")
    assert sanitize(hidden, ["idle", record, record]) == ["idle", "active", None]
    assert stream(SURE).push(record) == "active"
    assert stream(busy).push(record) == "idle"


@pytest.mark.parametrize("record", FOREIGN, ids=[type(one).__name__ for one in FOREIGN])
def test_a_curator_may_have_a_foreign_record_refused_by_its_place(record):
    with pytest.raises(UnknownState, match=r"record 2 .counting from 0.*strict=True") as caught:
        sanitize(FLIPS, ["idle", "active", record], strict=True)
    assert SECRET not in str(caught.value)
    assert "depends on the records" in str(caught.value)
    with pytest.raises(UnknownState, match="record 1 of series 1"):
        sanitize(FLIPS, [["idle"], ["active", record]], strict=True)
    with pytest.raises(UnknownState, match="record 3 "):
        sanitize(ERASE, ["idle"] * 3 + [record], strict=True)
    with pytest.raises(UnknownState, match="record 0 "):
        stream(FLIPS, strict=True).push(record)


@pytest.mark.parametrize(
    "records",
    [
        np.array([0, 1, 2], dtype=np.uint8),
        np.array([0, 1, -1]),
        np.array([0.0, 1.0, np.nan]),
        np.array([0, 1, None]),
        np.ma.MaskedArray([0, 1, 1], mask=[False, False, True]),
        pd.Series([0, 1, pd.NA], dtype="Int64"),
        pl.Series([0, 1, None]),
    ],
    ids=lambda records: f"{type(records).__name__} {records.dtype}",
)
def test_foreign_records_of_arrays(records):
    plan = plan_for(SURE.mechanism, ut.MarkovChain(P))
    with pytest.raises(UnknownState, match=r"record [02] "):
        sanitize(plan, records, strict=True)
    assert len(sanitize(replace(plan, missing=1), records)) == 3
    assert sanitize(plan, records)[2] == 1  # state 0, flipped for certain


@pytest.mark.parametrize(
    "records",
    [
        np.array(["0", "1", "1"]), np.array([0, 1, 0], dtype="datetime64[s]"), ["0", "1"],
        [["0"], ["1", None]],
    ],
)  # fmt: skip
def test_types_that_fit_no_state_are_refused(records):
    with pytest.raises(InvalidInput, match="no such value is one of the states 0, 1"):
        sanitize(plan_for(SURE.mechanism, ut.MarkovChain(P)), records)


@pytest.mark.parametrize(
    "data",
    [[], [[]], np.array([]), np.zeros((2, 2, 2)), "idle", 7, {"idle": 1}, {"idle"}, pl.Series([])],
    ids=lambda data: type(data).__name__,
)
def test_what_is_no_series_is_refused(data):
    with pytest.raises(InvalidInput):
        sanitize(FLIPS, data)


def test_a_table_is_refused_with_the_way_out():
    for table in (pd.DataFrame({"x": SERIES}), pl.DataFrame({"x": SERIES})):
        with pytest.raises(InvalidInput, match=r"Data\("):
            sanitize(FLIPS, table)


# --- no value in any message ----------------------------------------------------------------------


def test_no_message_quotes_a_record():
    calls = [
        lambda: sanitize(FLIPS, [SECRET], strict=True),
        lambda: sanitize(FLIPS, {SECRET: 1}),
        lambda: sanitize(FLIPS, SECRET),
        lambda: sanitize(FLIPS, np.array([[[SECRET]]])),
        lambda: sanitize(ERASE, [SECRET] * 4, strict=True),
        lambda: sanitize(FLIPS, ut.Data(pl.DataFrame({"x": [SECRET]}), value="x"), strict=True),
    ]
    for call in calls:
        with pytest.raises((InvalidInput, NotSupported)) as caught:
            call()
        assert not re.search(SECRET, str(caught.value))
        assert SECRET not in repr(caught.value.__cause__)
