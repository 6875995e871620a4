"""Series randomised record by record: forms of data, plans, streams, tables, ledgers and keys.

Under a key, until a release is recorded, the same records give the same outputs, so that there is
nothing to average; changed records get flips that have nothing to do with the ones before.
"""

import copy
import datetime as dt
import hashlib
import math
import multiprocessing
import os
import pickle
import re
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undertow as ut
from tests.ledger import soak_work as work
from tests.ledger.test_keys import run
from tests.series_plans import (
    ALTERNATING,
    CHAIN,
    CURATOR,
    ERASE,
    FLIPPED,
    FLIPS,
    FOUR,
    MILD,
    SECRET,
    SERIES,
    STATES,
    SURE,
    XOR,
    P,
    data_of,
    plan_for,
    table,
)
from undertow.data.codes import Rule, coded, person_labels
from undertow.data.columns import Column
from undertow.errors import (
    BudgetExceeded,
    InvalidInput,
    InvalidPlan,
    LedgerConflict,
    NotSupported,
    UnknownState,
)
from undertow.mechanisms import RandomizedResponse, Redaction, XorNoise, flips_epsilon_upper
from undertow.releasing import series as sanitizing
from undertow.releasing.account import reserve
from undertow.releasing.series import carry_out, draw, fingerprint, prepare, sanitize, stream
from undertow.sampling import flips, keyed
from undertow.sampling.keyed import Key

# --- forms of data --------------------------------------------------------------------------------


def test_columns_stay_columns():
    frame = pd.DataFrame({"x": SERIES}, index=[9, 8, 7, 6])
    made = sanitize(SURE, frame["x"])
    assert isinstance(made, pd.Series)
    assert made.index.tolist() == [9, 8, 7, 6]
    assert made.name == "x"
    assert made.tolist() == FLIPPED
    polar = sanitize(SURE, pl.Series("x", SERIES))
    assert isinstance(polar, pl.Series)
    assert (polar.name, polar.to_list()) == ("x", FLIPPED)


def test_flips_of_one_person_differ_from_anothers():
    made = sanitize(FLIPS, [["idle"] * 200] * 2)
    assert made[0] != made[1]


# --- plans ----------------------------------------------------------------------------------------


def test_every_plan_has_its_verb():
    with pytest.raises(NotSupported, match=r"release\(plan"):
        sanitize(CURATOR, SERIES)
    with pytest.raises(NotSupported, match=r"release\(plan"):
        stream(CURATOR)
    text: Any = "plan"
    with pytest.raises(InvalidInput, match="a Plan is required"):
        sanitize(text, SERIES)


def test_states_of_plan_and_model_must_agree():
    three = ut.MarkovChain(np.full((3, 3), 1 / 3))
    for mechanism in (FLIPS.mechanism, XOR.mechanism):
        with pytest.raises(InvalidPlan, match="2 states"):
            sanitize(plan_for(mechanism, three), [0, 1])
    with pytest.raises(InvalidPlan, match="2 states"):
        sanitize(replace(ERASE, model=three), [0, 1])
    with pytest.raises(InvalidPlan, match="nothing to say about independent groups"):
        sanitize(plan_for(FLIPS.mechanism, ut.Groups(3)), [0, 1])


def test_longer_series_than_planned_are_refused():
    plan = plan_for(FLIPS.mechanism, FOUR)
    assert len(sanitize(plan, SERIES)) == 4
    assert len(sanitize(plan, SERIES[:2])) == 2
    with pytest.raises(InvalidInput, match=r"at most 4 records.*one has 5"):
        sanitize(plan, [SERIES, [*SERIES, "idle"]])


def test_seeds_repeat_and_secure_bits_do_not():
    long = SERIES * 50
    assert sanitize(FLIPS, long, insecure_seed=3) == sanitize(FLIPS, long, insecure_seed=3)
    assert sanitize(FLIPS, long, insecure_seed=3) != sanitize(FLIPS, long, insecure_seed=4)
    assert sanitize(FLIPS, long) != sanitize(FLIPS, long)
    with pytest.raises(InvalidInput, match="seed"):
        sanitize(FLIPS, long, insecure_seed=-1)


def _flipped(queue):
    queue.put("".join(x[0] for x in sanitize(FLIPS, SERIES * 50)))


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_workers_flip_differently():
    context = multiprocessing.get_context("fork")
    sanitize(FLIPS, SERIES)
    queue = context.SimpleQueue()
    workers = [context.Process(target=_flipped, args=(queue,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    seen = {queue.get() for _ in workers}
    for worker in workers:
        worker.join()
    assert len(seen) == 4


# --- erasures -------------------------------------------------------------------------------------


def test_erased_records_of_a_list_are_none():
    seen = {tuple(sanitize(ERASE, SERIES)) for _ in range(60)}
    assert seen == {("idle", "active", None, None), ("idle", None, None, None)}
    assert {tuple(sanitize(ERASE, ["idle", "idle", "idle", "active"])) for _ in range(60)} == {
        ("idle", "idle", None, "active"),
        ("idle", None, None, "active"),
    }


def test_erased_records_of_an_array_are_masked_with_nothing_below():
    made = sanitize(ERASE, np.array([["active"] * 4] * 300))
    assert made.shape == (300, 4)
    assert made.mask[:, 2].all()
    assert not made.mask[:, 0].any()
    assert set(made.data[made.mask].tolist()) == {""}
    numbers = plan_for(ERASE.mechanism, ut.MarkovChain(P, length=4))
    under = sanitize(numbers, np.ones((300, 4), dtype=np.uint8))
    assert under.dtype == np.uint8
    assert not under.data[under.mask].any()
    (nested,) = sanitize(numbers, [np.ones(4, dtype=int)])
    assert not nested.data[nested.mask].any()
    objects = sanitize(ERASE, np.array(["active"] * 4, dtype=object))
    assert "active" not in objects.data[objects.mask].tolist()


def test_erased_records_of_columns_are_missing():
    made = sanitize(ERASE, pd.Series(["active"] * 4))
    assert made.isna().tolist()[2]
    assert made.tolist()[0] == "active"
    numbers = plan_for(ERASE.mechanism, ut.MarkovChain(P, length=4))
    assert sanitize(numbers, pd.Series([1, 1, 1, 1])).tolist()[0] == 1
    assert sanitize(ERASE, pl.Series(["active"] * 4)).to_list()[2] is None


def test_a_redaction_is_of_whole_series():
    for data in (SERIES[:3], [*SERIES, "idle"], [SERIES, SERIES[:2]]):
        with pytest.raises(InvalidInput, match="exactly 4 records"):
            sanitize(ERASE, data)


def test_the_protected_record_never_appears(monkeypatch):
    """Not for any data, in any form, and not even if the drawn erasures were wrong."""
    everything = [[a, b, c, d] for a in STATES for b in STATES for c in STATES for d in STATES]
    assert all(made[2] is None for _ in range(20) for made in sanitize(ERASE, everything))
    assert all(list(stream(ERASE).each(one))[2] is None for one in everything)
    nothing = np.zeros(64, dtype=bool)
    monkeypatch.setattr(flips, "erase", lambda *_: nothing.copy())
    for seed in (None, 1):
        shown = sanitize(ERASE, everything, insecure_seed=seed)
        assert shown == [[a, b, None, d] for a, b, _, d in everything]


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("plan", [FLIPS, XOR], ids=["flips", "noise"])
def test_a_stream_makes_the_same_as_the_whole_series(plan):
    long = SERIES * 300
    for seed in range(3):
        assert list(stream(plan, insecure_seed=seed).each(long)) == (
            sanitize(plan, long, insecure_seed=seed)
        )


def test_a_stream_of_erasures_makes_the_same_as_the_whole_series():
    for seed in range(40):
        assert list(stream(ERASE, insecure_seed=seed).each(SERIES)) == (
            sanitize(ERASE, SERIES, insecure_seed=seed)
        )


def test_secure_streams_differ():
    made = [list(stream(plan).each(SERIES * 50)) for plan in (FLIPS, FLIPS, XOR, XOR)]
    assert made[0] != made[1]
    assert made[2] != made[3]


def test_a_stream_ends_with_its_plan():
    for plan in (ERASE, plan_for(FLIPS.mechanism, FOUR)):
        device = stream(plan)
        list(device.each(SERIES))
        assert device.records == 4
        with pytest.raises(InvalidInput, match="4 records"):
            device.push("idle")
    loose = stream(plan_for(ERASE.mechanism, CHAIN))  # the mechanism has a length of its own
    list(loose.each(SERIES))
    with pytest.raises(InvalidInput, match="4 records"):
        loose.push("idle")


def test_a_refused_record_does_not_move_a_stream():
    device = stream(ERASE, strict=True)
    device.push("idle")
    with pytest.raises(UnknownState, match="record 1 ") as caught:
        device.push(SECRET)
    assert SECRET not in str(caught.value)
    assert device.records == 1
    assert stream(replace(SURE, missing="active")).push(SECRET) == "idle"


def test_a_stream_is_not_copied():
    with pytest.raises(NotSupported, match="never copied"):
        copy.deepcopy(stream(FLIPS))


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
    for frame in (pd.DataFrame({"x": SERIES}), pl.DataFrame({"x": SERIES})):
        with pytest.raises(InvalidInput, match=r"Data\("):
            sanitize(FLIPS, frame)


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


WHOLE = replace(
    plan_for(MILD.mechanism), leakage=replace(plan_for(MILD.mechanism).leakage, secret=ut.Person())
)


@pytest.fixture
def ledger(tmp_path):
    return ut.Ledger(tmp_path / "year.db", "w25", model=CHAIN, limit=5.0)


def test_flips_reserve_their_level_and_record_a_hash(ledger):
    made = sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")
    entry = ledger.entry("week 1")
    assert entry.status == "confirmed"
    assert np.log(5 / 3) <= entry.level < np.log(5 / 3) + 1e-12
    text = "".join(f'"{x}"\n' for x in made) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert entry.result == {"records": 40, "series": 1, "sha256": digest}
    assert fingerprint(made, MILD) == digest
    assert ledger.verify()


def test_a_second_draw_is_refused(ledger):
    for release_id in ("week 1", None):
        sanitize(MILD, ALTERNATING, ledger=ledger, release_id=release_id)
        with pytest.raises(LedgerConflict, match="use the outputs that were written"):
            sanitize(MILD, ALTERNATING, ledger=ledger, release_id=release_id)
    assert len(ledger.entries()) == 2


def test_an_interrupted_release_can_be_repeated(ledger, monkeypatch):
    """Killed between reservation and record: nothing was shown, so it is charged once."""

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sanitizing, "randomised", killed)
        with pytest.raises(KeyboardInterrupt):
            sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")
    assert ledger.entry("week 1").status == "reserved"
    level = ledger.level()
    sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")
    assert ledger.level() == level
    assert ledger.entry("week 1").status == "confirmed"


def test_of_two_racing_releases_one_is_shown(ledger, monkeypatch):
    """Another process confirms the same release after this one has reserved it."""
    real = ut.Ledger.reserve

    def raced(self, release_id, *args, **more):
        reserved = real(self, release_id, *args, **more)
        self.confirm(release_id, {"records": 40, "series": 1, "sha256": "another"})
        return reserved

    monkeypatch.setattr(ut.Ledger, "reserve", raced)
    with pytest.raises(LedgerConflict, match="second draw"):
        sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")


def test_nothing_is_reserved_for_what_is_refused(ledger):
    refusals = [
        (InvalidInput, lambda: sanitize(MILD, [], ledger=ledger)),
        (UnknownState, lambda: sanitize(MILD, ["?"], strict=True, ledger=ledger)),
        (InvalidInput, lambda: sanitize(MILD, SERIES, ledger=ledger, insecure_seed=1)),
        (NotSupported, lambda: sanitize(XOR, SERIES, ledger=ledger)),
        (NotSupported, lambda: sanitize(SURE, SERIES, ledger=ledger)),
        (LedgerConflict, lambda: sanitize(plan_for(MILD.mechanism, ut.MarkovChain(P)), [0, 1],
                                          ledger=ledger)),
        (InvalidPlan, lambda: sanitize(WHOLE, SERIES,
                                       ledger=ledger)),
        (BudgetExceeded, lambda: sanitize(plan_for(RandomizedResponse.binary(2.0**-20, 2.0**-20)),
                                          SERIES, ledger=ledger)),
    ]  # fmt: skip
    for error, call in refusals:
        with pytest.raises(error):
            call()
    assert ledger.entries() == []


def test_flips_hide_records_and_no_person(tmp_path):
    book = ut.Ledger(tmp_path / "p.db", "w25", model=CHAIN, limit=5.0, secret=ut.Person())
    with pytest.raises(InvalidPlan, match="not between any two histories of one person"):
        sanitize(WHOLE, SERIES, ledger=book)
    with pytest.raises(LedgerConflict, match=r"secret=Person\(\)"):
        sanitize(MILD, SERIES, ledger=book)
    assert book.entries() == []


def test_levels_are_never_rounded_down():
    """ln of an exact ratio, in 60 digits, lies at or below the level; and close to it."""
    with localcontext() as context:
        context.prec = 60
        for parts in (1, 3, 2**20 + 1, 2**51 - 1, 2**52 - 1):
            rho = parts * 2.0**-53
            exact = ((1 - Decimal(rho)) / Decimal(rho)).ln()
            level = Decimal(flips_epsilon_upper(RandomizedResponse.binary(rho, rho)))
            assert exact <= level <= exact + Decimal("1e-13")
    assert flips_epsilon_upper(RandomizedResponse([[0.5, 0.5, 0], [0.5, 0.25, 0.25]])) == math.inf
    assert flips_epsilon_upper(RandomizedResponse([[0.5, 0.5, 0], [0.25, 0.75, 0]])) < math.inf


def test_a_redaction_stands_alone(ledger):
    whole = ut.MarkovChain(P, STATES, length=4)
    plan = plan_for(ERASE.mechanism, whole)
    made = sanitize(plan, [SERIES, SERIES], ledger=ledger, release_id="once")
    entry = ledger.entry("once")
    assert (entry.kind, entry.level) == ("redaction", None)
    assert entry.leakage == plan.leakage.upper
    assert entry.result["sha256"] == fingerprint(made, plan)
    for call in (
        lambda: sanitize(plan, [SERIES], ledger=ledger, release_id="twice"),
        lambda: sanitize(MILD, SERIES, ledger=ledger),
        lambda: ut.release(CURATOR, SERIES, ledger=ledger),
    ):
        with pytest.raises(LedgerConflict, match="redaction"):
            call()
    with pytest.raises(LedgerConflict, match="second draw"):
        sanitize(plan, [SERIES, SERIES], ledger=ledger, release_id="once")


def test_a_redaction_must_cover_the_ledgers_adversary(ledger):
    weak = plan_for(ERASE.mechanism, FOUR, "ignorant")
    with pytest.raises(LedgerConflict, match="against='any'"):
        sanitize(weak, SERIES, ledger=ledger)


def test_a_redaction_is_charged_what_is_proved(tmp_path):
    """A plan that claims less than its erasures leak is refused, whatever its file says."""
    proved = ERASE.leakage.upper
    tight = ut.Ledger(tmp_path / "tight.db", "w25", model=CHAIN, limit=proved / 2)
    with pytest.raises(BudgetExceeded):
        sanitize(ERASE, SERIES, ledger=tight)
    forged = replace(ERASE, limit=0.1, leakage=replace(ERASE.leakage, lower=0.0, upper=0.1))
    for ledger in (tight, None):
        with pytest.raises(InvalidPlan, match="edited"):
            sanitize(forged, SERIES, ledger=ledger)


def test_a_redaction_may_use_the_whole_limit(tmp_path):
    limit = ERASE.leakage.upper
    book = ut.Ledger(tmp_path / "whole.db", "w25", model=CHAIN, limit=limit)
    assert sanitize(ERASE, SERIES, ledger=book)[2] is None


def test_releases_of_other_windows_are_accounted_apart(ledger):
    first = data_of().window("2025-01-06T00:00", "2025-01-06T02:00")
    second = data_of().window("2025-01-06T02:00", "2025-01-06T04:00")
    for window in (first, second):
        sanitize(MILD, window, ledger=ledger)
    assert len(ledger.entries()) == 2
    assert ledger.level() == ledger.entries()[0].level


def test_the_fingerprint_tells_outputs_apart():
    assert fingerprint([["idle"], ["idle"]], FLIPS) != fingerprint([["idle", "idle"]], FLIPS)
    assert fingerprint(["idle", None, None, None], ERASE) != (
        fingerprint(["idle", "idle", None, None], ERASE)
    )
    with pytest.raises(UnknownState, match="no output"):
        fingerprint(["?"], FLIPS)
    with pytest.raises(UnknownState, match="no output"):
        fingerprint([None], FLIPS)
    frame = sanitize(FLIPS, data_of())
    again = ut.Data(frame, value="steps", person="id", time="ts", every="1h")
    assert len(fingerprint(again, FLIPS)) == 64


def test_a_ledger_hears_of_a_draw_before_it_is_made(ledger, monkeypatch):
    """After that, a reservation cannot be given back: someone may have seen a draw."""
    heard = []
    monkeypatch.setattr(ut.Ledger, "begin", lambda _, name: heard.append(name), raising=False)

    def killed(*_):
        assert heard == ["week 1"]
        raise KeyboardInterrupt

    monkeypatch.setattr(sanitizing, "randomised", killed)
    with pytest.raises(UnknownState):
        sanitize(MILD, ["?"], strict=True, ledger=ledger, release_id="week 1")
    assert not heard
    with pytest.raises(KeyboardInterrupt):
        sanitize(MILD, ALTERNATING, ledger=ledger, release_id="week 1")


KEY = Key(bytes(range(32)))
LONG = ["idle", "active"] * 2000
HALF = plan_for(RandomizedResponse.binary(0.5, 0.5))


@pytest.fixture
def known(monkeypatch):
    """All draws under one key, which a test knows."""
    monkeypatch.setattr(Key, "fresh", classmethod(lambda _: KEY))


def kept():
    return [*(Path(os.environ["UNDERTOW_STATE"]) / "ledgers.db.keys").glob("*")]


def hold(ready, book) -> Any:
    """Reserve what a release that is ready needs."""
    return reserve(ready.entry, ready.table, book)


def tried(ledger, records, plan=MILD, release_id="week 1"):
    """What a run draws that is interrupted before the ledger records it."""
    ready = prepare(plan, records, ledger, release_id=release_id)
    assert hold(ready, ledger).result is None
    return draw(ready, ledger)[0]


# --- until it is recorded -------------------------------------------------------------------------


def test_a_run_that_is_repeated_draws_the_same(ledger):
    """The null is that of the code: equal outputs are equal by chance with 2^-1000 or so."""
    first = tried(ledger, LONG)
    assert all(tried(ledger, LONG) == first for _ in range(3))
    assert len(kept()) == 1
    assert sanitize(MILD, LONG, ledger=ledger, release_id="week 1") == first
    assert not kept()
    with pytest.raises(LedgerConflict, match="second draw"):
        sanitize(MILD, LONG, ledger=ledger, release_id="week 1")
    other = sanitize(MILD, LONG, ledger=ledger, release_id="week 2")
    assert other != first


def test_averaging_repeated_runs_tells_no_more_than_one(ledger, tmp_path):
    """The attack: ask 30 times before the release is recorded, and take the majority.

    3 in 8 records are false in one run. Without a kept key, the broken twin, the majority of 30
    independent flips of 4,000 records is wrong with probability Pr[B(30, 3/8) >= 15] = 0.111;
    a share above 0.15 has a probability below 1e-12.
    """
    truth = np.array(LONG) == "active"

    def errors(book):
        ready = prepare(MILD, np.array(LONG), book, release_id="week 1")
        hold(ready, book)
        votes = sum(draw(ready, book)[0] == "active" for _ in range(30))
        return float(np.mean((votes >= 15) != truth))

    assert errors(ledger) > 0.3
    forgetful = ut.Ledger(tmp_path / "b.db", "w25", model=CHAIN, limit=5.0, memory=False)
    assert errors(forgetful) < 0.15


def test_changed_records_get_other_flips(ledger):
    """One record of 4,000 is changed. With the same flips only its output could differ.

    Flips with probability 3/8 that are independent differ in 2 (3/8)(5/8) = 15/32 of the places:
    1875 +- 197 of 4,000 at 1e-9 (6.1 standard deviations of 31.6). The twin with the old flips
    would differ in one place at most.
    """
    first = tried(ledger, LONG)
    changed = [*LONG[:7], "idle" if LONG[7] == "active" else "active", *LONG[8:]]
    second = tried(ledger, changed)
    flips = [np.array(shown) != np.array(truth)
             for shown, truth in ((first, LONG), (second, changed))]  # fmt: skip
    assert abs(int((flips[0] != flips[1]).sum()) - 1875) < 197
    assert tried(ledger, changed) == second
    assert tried(ledger, LONG) == first
    assert len(kept()) == 1


def test_a_release_that_is_cancelled_has_no_key(ledger):
    ready = prepare(MILD, ALTERNATING, ledger, release_id="week 1")
    hold(ready, ledger)
    ledger.release_key("week 1")
    assert len(kept()) == 1
    ledger.cancel("week 1", "not wanted")
    assert not kept()


def test_redactions_are_repeated_too(ledger):
    plan = plan_for(ERASE.mechanism, ut.MarkovChain(P, CHAIN.states, length=4))
    records = [ALTERNATING[:4]] * 50
    first = tried(ledger, records, plan)
    assert first == tried(ledger, records, plan)
    assert sanitize(plan, records, ledger=ledger, release_id="week 1") == first


def test_without_a_ledger_every_call_draws_anew():
    assert sanitize(HALF, LONG) != sanitize(HALF, LONG)
    assert not kept()


def test_a_recorded_result_that_differs_is_refused(ledger, monkeypatch):
    """Another machine, which has no key of this one, records the release while this one draws."""
    ready = prepare(MILD, ALTERNATING, ledger, release_id="week 1")
    real = keyed.randomised

    def slow(*told):
        ledger.confirm("week 1", {"records": 40, "series": 1, "sha256": "theirs"})
        return real(*told)

    monkeypatch.setattr(sanitizing, "randomised", slow)
    with pytest.raises(LedgerConflict, match="second draw"):
        carry_out(ready, ledger)
    assert not kept()


# --- processes ------------------------------------------------------------------------------------


def _release(task):
    """Draw, write what was drawn where the test sees it, and record."""
    book = ut.Ledger(task.where, "w25", CHAIN, 5.0, memory=Path(task.shown).with_name("memory.db"))
    ready = prepare(MILD, [ALTERNATING, ALTERNATING * 3], book, release_id="r")
    if hold(ready, book).result is None:
        made, result = draw(ready, book)
        with Path(task.shown).open("a") as file:
            file.write(f"{made}\n")
        book.confirm("r", result)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_killed_process_and_the_next_draw_the_same(tmp_path):
    """Killed after its reservation, after its key, and twice after its draw."""
    shown = tmp_path / "shown"
    points = ["reserve-committed", "hold-committed", "confirm-begun", "confirm-written"]
    for point in (*points, None):
        task = work.Task(str(tmp_path / "year.db"), str(shown), "r", 0, point)
        assert run(_release, task) == (0 if point is None else work.KILLED)
    draws = shown.read_text().splitlines()
    assert len(draws) == 3
    assert len(set(draws)) == 1
    (entry,) = ut.Ledger(tmp_path / "year.db", "w25", memory=False).entries()
    assert entry.result is not None
    assert not [*(tmp_path / "memory.db.keys").iterdir()]


def _race(where, gate, queue):
    book = ut.Ledger(where, "w25", CHAIN, 5.0, memory=Path(where).with_name("memory.db"))
    ready = prepare(MILD, [ALTERNATING], book, release_id="r")
    reserved = hold(ready, book)
    gate.wait(60)
    made: Any = [None] if reserved.result is not None else draw(ready, book)
    gate.wait(60)
    queue.put((made[0], None if made[0] is None else book.confirm("r", made[1])))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_of_two_racing_processes_there_is_one_draw(tmp_path):
    where = str(tmp_path / "year.db")
    ut.Ledger(where, "w25", CHAIN, 5.0, memory=False)
    context = multiprocessing.get_context("fork")
    gate, queue = context.Barrier(2), context.SimpleQueue()
    racers = [context.Process(target=_race, args=(where, gate, queue)) for _ in range(2)]
    for racer in racers:
        racer.start()
    (one, recorded), (other, again) = queue.get(), queue.get()
    for racer in racers:
        racer.join()
    assert one == other
    assert recorded == again
    assert sanitizing.fingerprint(one, MILD) == recorded["sha256"]
    assert not [*(tmp_path / "memory.db.keys").iterdir()]


# --- every form of the same records ---------------------------------------------------------------


def table_of(series, persons):
    """A table with a row for each record, persons mixed, in an order of its own."""
    rows = [(person, t, x) for person, records in zip(persons, series, strict=True)
            for t, x in enumerate(records)]  # fmt: skip
    order = np.random.default_rng(0).permutation(len(rows))
    mixed = [rows[n] for n in order]
    return {name: [row[n] for row in mixed] for n, name in enumerate(("id", "t", "state"))}


def of_table(frame, plan, **more):
    """What becomes of each person in a table, in order of time."""
    made = sanitize(plan, ut.Data(frame, value="state", person="id", time="t", **more))
    made = made.with_columns(pl.col("t").cast(pl.Int64))
    return {str(who): part.sort("t")["state"].to_list()
            for (who,), part in made.group_by("id", maintain_order=True)}  # fmt: skip


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("plan", [FLIPS, XOR], ids=["flips", "noise"])
def test_the_form_of_the_records_does_not_matter(plan, tmp_path):
    """Lists, arrays, and tables whose persons are numbered: the same outputs, to the byte."""
    series = [ALTERNATING, ALTERNATING[::-1], ["active"] * 40]
    listed = sanitize(plan, series)
    expected = {str(n): one for n, one in enumerate(listed)}
    assert sanitize(plan, np.array(series)).tolist() == listed
    assert sanitize(plan, [tuple(one) for one in series]) == [tuple(one) for one in listed]
    assert [one.tolist() for one in sanitize(plan, [pd.Series(one) for one in series])] == listed
    numbers, texts = table_of(series, [0, 1, 2]), table_of(series, ["0", "1", "2"])
    pl.DataFrame(numbers).write_csv(tmp_path / "a.csv")
    pl.DataFrame(numbers).write_parquet(tmp_path / "a.parquet")
    mixed = pd.DataFrame(numbers).astype({"id": object})
    for frame in (
        *(pl.DataFrame(one) for one in (numbers, texts)),
        *(pd.DataFrame(one) for one in (numbers, texts)),
        *(pl.DataFrame(numbers).cast({"id": kind}) for kind in (pl.Int8, pl.UInt64, pl.Float32)),
        *(tmp_path / name for name in ("a.csv", "a.parquet")),
        mixed,
    ):
        found = of_table(frame, plan)
        assert {str(int(float(who))): one for who, one in found.items()} == expected


@pytest.mark.usefixtures("known")
def test_a_series_alone_is_one_without_a_person():
    frame = pl.DataFrame({"t": range(40), "state": ALTERNATING})
    alone = sanitize(FLIPS, ALTERNATING)
    assert sanitize(FLIPS, np.array(ALTERNATING)).tolist() == alone
    assert sanitize(FLIPS, pl.Series(ALTERNATING)).to_list() == alone
    assert sanitize(FLIPS, ut.Data(frame, value="state", time="t"))["state"].to_list() == alone
    assert sanitize(FLIPS, ut.Data(ALTERNATING))["record"].to_list() == alone
    assert sanitize(FLIPS, [ALTERNATING])[0] != alone  # the first of several is named 0


@pytest.mark.usefixtures("known")
@settings(deadline=None, derandomize=True, database=None, max_examples=10)
@given(
    gaps=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_neither_rows_in_another_order_nor_absent_steps_of_others_matter(gaps, order):
    """A record keeps its bits by person and step, whoever else is there, whatever comes first."""
    times = [sum(gaps[:n]) for n in range(len(gaps) + 1)]
    rows = [(who, t, "idle") for who in "ab" for t in times] + [("c", 5, "active")]
    order.shuffle(rows)
    frame = pl.DataFrame(rows, schema=["id", "t", "state"], orient="row")
    found = of_table(frame, XOR, every=1)
    alone = of_table(frame.filter(pl.col("id") == "a"), XOR, every=1)
    assert found["a"] == alone["a"]
    whole = pl.DataFrame({"id": "a", "t": range(times[-1] + 1), "state": "idle"})
    assert [of_table(whole, XOR, every=1)["a"][t] for t in times] == found["a"]


# --- who is who -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["b", "a"], ["b", "a"]),
        ([3, -7], ["3", "-7"]),
        ([2.0, 0.5, -1e300, 1e-7, float("inf")], ["2", "0.5", str(int(-1e300)), "1e-07", "inf"]),
        ([True, False], ["true", "false"]),
        ([dt.datetime(1970, 1, 2), dt.datetime(1969, 12, 31)], ["86400000000", "-86400000000"]),
        ([dt.date(1970, 1, 2)], ["86400000000"]),
    ],
)
def test_labels_of_persons(values, labels):
    """The same from a column of the type and from one of Python objects."""
    frame = pl.DataFrame({"id": values, "x": ["idle"] * len(values)})
    assert coded(ut.Data(frame, value="x", person="id"), RULE).labels == labels
    held = pd.DataFrame({"id": pd.Series(values, dtype=object), "x": ["idle"] * len(values)})
    assert coded(ut.Data(held, value="x", person="id"), RULE).labels == labels


RULE = Rule(("idle", "active"))


def labels_of(*persons):
    held = Column("id", "objects", labels=persons)
    return person_labels(held, pl.Series(range(len(persons))))


def test_labels_of_python_objects():
    assert labels_of("1", 1) == ["1", "\x001"]
    assert labels_of("a", 1, True) == ["a", "\x001", "\0true"]
    assert labels_of(Decimal("0.5"), Fraction(3, 2), Decimal(7)) == ["0.5", "1.5", "7"]
    assert labels_of(Decimal("0.1"), 0.1, Fraction(1, 3)) == ["\x001/10", "0.1", "\x001/3"]
    assert labels_of(Decimal("Infinity"), Decimal("1e400")) == ["inf", str(10**400)]
    assert labels_of(("x", 1), b"x") == ["\0tuple\0('x', 1)", "\0bytes\0b'x'"]
    assert labels_of(dt.date(1970, 1, 1), "x") == ["\x000", "x"]
    huge = Fraction(10**400 + 1, 3)
    assert labels_of(huge) == [f"\0{huge}"]


def test_two_persons_who_are_written_alike_are_refused():
    frame = pd.DataFrame({"id": [0, dt.date(1970, 1, 1)], "x": ["idle", "idle"]}, dtype=object)
    with pytest.raises(InvalidInput, match="two persons of column 'id' are written alike"):
        sanitize(FLIPS, ut.Data(frame, value="x", person="id"))


def test_times_too_far_apart_are_refused_before_anything_is_spent(ledger):
    frame = pl.DataFrame({"t": [0, 2**41], "x": ["idle", "active"]})
    data = ut.Data(frame, value="x", time="t", every=1)
    with pytest.raises(InvalidInput, match="a longer step of time"):
        sanitize(MILD, data, ledger=ledger)
    assert not ledger.entries()
    assert len(sanitize(MILD, ut.Data(frame, value="x", time="t"))) == 2


# --- nothing that is kept or passed on holds a key ------------------------------------------------


def test_what_is_prepared_and_returned_holds_no_key(ledger, monkeypatch):
    secrets: list[bytes] = []
    real = ut.Ledger.release_key

    def seen(self, name):
        secrets.append(real(self, name).exported())
        return Key(secrets[-1])

    monkeypatch.setattr(ut.Ledger, "release_key", seen)
    ready = prepare(MILD, ALTERNATING, ledger, release_id="week 1")
    outputs = carry_out(ready, ledger)
    parts: list[Any] = [MILD, ready.entry, ready.table, ready.shape, outputs, ledger.entries()]
    assert len(secrets) == 1
    for part in parts:
        content = pickle.dumps(part) + repr(part).encode()
        assert secrets[0] not in content
        assert secrets[0].hex().encode() not in content
