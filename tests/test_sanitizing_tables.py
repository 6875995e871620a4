"""Tables randomised record by record: rows, columns, windows, gaps."""

from dataclasses import dataclass, replace

import polars as pl
import pytest

import undertow as ut
from tests.series_plans import (
    FOUR,
    STATES,
    SURE,
    P,
    data_of,
    plan_for,
    table,
)
from undertow.errors import (
    InvalidInput,
    NotSupported,
    UnknownState,
)
from undertow.mechanisms import Redaction, XorNoise
from undertow.releasing.series import sanitize


def test_a_table_keeps_its_rows_and_public_columns():
    made = sanitize(SURE, data_of(by="cohort"))
    assert made.columns == ["id", "ts", "cohort", "steps"]
    assert made.drop("steps").equals(table().select("id", "ts", "cohort"))
    assert made["steps"].to_list() == ["active", "idle", "active", "idle", "active", "idle"]


def test_a_csv_file_keeps_its_fields(tmp_path):
    frame = table().with_columns(ts=pl.col("ts").dt.to_string("%Y-%m-%d %H:%M"))
    frame.write_csv(tmp_path / "steps.csv")
    made = sanitize(SURE, data_of(tmp_path / "steps.csv"))
    assert made.drop("steps").equals(frame.select("id", "ts"))


def test_windows_and_groups_leave_rows_out():
    made = sanitize(SURE, data_of().window("2025-01-06T01:00", "2025-01-06T04:00"))
    assert made["ts"].dt.hour().to_list() == [1, 3, 2]
    chosen = sanitize(SURE, data_of(by="cohort", groups=["y"]))
    assert set(chosen["id"]) == {"a"}
    with pytest.raises(InvalidInput, match="no records"):
        sanitize(SURE, data_of().window("2030-01-01"))


def test_missing_records_of_a_table_count_as_the_first_state_or_are_refused_by_row():
    broken = table(steps=pl.Series([0, 5, 0, None, 0, 5]))
    with pytest.raises(UnknownState, match=r"row 3 .*strict=True"):
        sanitize(SURE, data_of(broken), strict=True)
    assert sanitize(SURE, data_of(broken))["steps"].to_list()[3] == "active"
    made = sanitize(replace(SURE, missing="active"), data_of(broken))
    assert made["steps"].to_list()[3] == "idle"


def test_absent_steps_count_in_the_length():
    """Person b has three rows over five steps."""
    assert sanitize(plan_for(SURE.mechanism, ut.MarkovChain(P, STATES, length=5)), data_of()).height
    with pytest.raises(InvalidInput, match=r"at most 4 .*one has 5, absent steps"):
        sanitize(plan_for(SURE.mechanism, FOUR), data_of())
    with pytest.raises(InvalidInput, match=r"series 0.* has 3, and 2 steps are absent"):
        sanitize(plan_for(Redaction([[1, 1]] * 5), ut.MarkovChain(P, STATES, length=5)), data_of())


def test_filled_gaps_have_no_row():
    with pytest.raises(NotSupported, match="gaps='split'"):
        sanitize(SURE, data_of(gaps="idle"))


def test_noise_goes_on_where_steps_are_absent():
    """Noise that alternates for certain: records two steps apart get the same noise."""
    plan = plan_for(XorNoise(1.0, 1.0))
    for _ in range(20):
        made = sanitize(plan, data_of())["steps"].to_list()
        noise = [x != y for x, y in zip(made, ["idle", "active"] * 3, strict=True)]
        # rows 3, 4, 0 are person b at 0, 3, 4; rows 2, 1, 5 are person a at 0, 1, 2
        assert noise[4] != noise[3]
        assert noise[0] == noise[3]
        assert noise[1] != noise[2]
        assert noise[5] == noise[2]


def test_redacted_tables():
    plan = plan_for(
        Redaction([[0, 0], [1, 1], [1, 0]], protect=1), ut.MarkovChain(P, STATES, length=3)
    )
    whole = table().filter(pl.col("id") == "a")
    made = sanitize(plan, data_of(whole))
    assert made.columns == ["id", "ts", "steps", "erased"]
    # hours 1, 0, 2 with states active, idle, active
    assert made["steps"].to_list() == [None, "idle", "active"]
    assert made["erased"].to_list() == [True, False, False]
    with pytest.raises(InvalidInput, match="rename"):
        sanitize(plan, data_of(whole.rename({"id": "erased"}), person="erased"))


# --- windows of longer series ---------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """The shape of a table of which some records are not shown."""

    series: int
    windowed: bool = True


def shaped(monkeypatch, series):
    monkeypatch.setattr(ut.Data, "shape", lambda _: Whole(series))


@pytest.mark.parametrize("mechanism", [SURE.mechanism, XorNoise(0.125, 0.25)], ids=["flips", "xor"])
def test_the_whole_series_counts_whatever_window_is_shown(monkeypatch, mechanism):
    """Records outside a window depend on those inside: the proof must be about all of them.

    Two records each in the window; a plan for four, and one for any length.
    """
    window = data_of().window("2025-01-06T00:00", "2025-01-06T02:00")
    plan = plan_for(mechanism, FOUR)
    shaped(monkeypatch, 4)
    assert sanitize(plan, window).height == 3
    shaped(monkeypatch, 5)
    with pytest.raises(InvalidInput, match=r"at most 4 records .*one has 5, .*outside a window"):
        sanitize(plan, window)
    assert sanitize(plan_for(mechanism), window).height == 3


def test_a_redaction_of_a_window_is_refused(monkeypatch):
    """Three hours of person a; the plan is for three, and nothing may lie outside."""
    plan = plan_for(Redaction([[0, 0], [1, 1], [1, 0]]), ut.MarkovChain(P, STATES, length=3))
    window = data_of(table().filter(pl.col("id") == "a")).window("2025-01-06", "2025-01-07")
    shaped(monkeypatch, 3)
    assert sanitize(plan, window).height == 3
    shaped(monkeypatch, 4)
    with pytest.raises(InvalidInput, match="a redaction is of whole series"):
        sanitize(plan, window)
