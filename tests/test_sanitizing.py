"""Series randomised record by record: forms of data, refusals, the ledger, streams."""

import copy
import hashlib
import math
import multiprocessing
import re
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

import undertow as ut
from tests.statistical.judge import chi_square
from undertow import sanitizing
from undertow.certificate import Leakage
from undertow.channels import RandomizedResponse, Redaction, XorNoise, flips_epsilon_upper
from undertow.errors import (
    BudgetExceeded,
    InvalidInput,
    InvalidPlan,
    LedgerConflict,
    NotSupported,
    UnknownState,
)
from undertow.sanitizing import fingerprint, redact, sanitize, stream

P = [[0.9, 0.1], [0.3, 0.7]]
STATES = ("idle", "active")
CHAIN = ut.MarkovChain(P, states=STATES)
PROVED = Leakage(1.0, 1.0, "exact", "any")
SECRET = "s3cret"


def plan_for(mechanism, model=CHAIN, leakage=PROVED, **more):
    return ut.Plan(mechanism, model, 1.0, leakage, "exact", **more)


FLIPS = plan_for(RandomizedResponse.binary(0.25, 0.375))
SURE = plan_for(RandomizedResponse([[0, 1], [1, 0]]))  # always flips: outputs are known
XOR = plan_for(XorNoise(0.125, 0.25))
FOUR = ut.MarkovChain(P, states=STATES, length=4)
ERASE = plan_for(Redaction([[0, 0], [0.5, 0.25], [1, 1], [1, 0]], protect=2), FOUR)
CURATOR: Any = ut.calibrate(ut.Count("active"), CHAIN, epsilon=1.0)
SERIES = ["idle", "active", "active", "idle"]
FLIPPED = ["active", "idle", "idle", "active"]


# --- forms of data --------------------------------------------------------------------------------


def test_a_list_stays_a_list():
    assert sanitize(SURE, SERIES) == FLIPPED
    assert sanitize(SURE, tuple(SERIES)) == tuple(FLIPPED)
    assert sanitize(SURE, iter(SERIES)) == FLIPPED


def test_many_series_stay_many_series():
    assert sanitize(SURE, [SERIES, SERIES[:1], []]) == [FLIPPED, FLIPPED[:1], []]
    mixed = sanitize(SURE, [tuple(SERIES), np.array(SERIES)])
    assert mixed[0] == tuple(FLIPPED)
    assert mixed[1].tolist() == FLIPPED


def test_arrays_stay_arrays():
    made = sanitize(SURE, np.array(SERIES))
    assert made.dtype == "<U6"
    assert made.tolist() == FLIPPED
    both = sanitize(SURE, np.array([SERIES, SERIES]))
    assert both.shape == (2, 4)
    objects = sanitize(SURE, np.array(SERIES, dtype=object))
    assert objects.dtype == object
    assert objects.tolist() == FLIPPED


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int64, np.float32, bool])
def test_numbers_keep_their_type(kind):
    plan = plan_for(SURE.mechanism, ut.MarkovChain(P))
    records = np.array([0, 1, 1, 0]).astype(kind)
    made = sanitize(plan, records)
    assert made.dtype == records.dtype
    assert made.tolist() == [1, 0, 0, 1]
    assert records.tolist() == [0, 1, 1, 0]


def test_names_that_the_type_cannot_hold_get_another():
    plan = plan_for(RandomizedResponse([[0, 1], [1, 0]], outputs=("no", "certainly")))
    assert sanitize(plan, np.array(SERIES)).dtype == "<U9"
    numbers = plan_for(
        RandomizedResponse([[0, 1], [1, 0]], outputs=("no", 7)), ut.MarkovChain(P, states=(2, 3))
    )
    assert sanitize(numbers, np.array([2, 3])).tolist() == [7, "no"]
    assert sanitize(numbers, np.array([2.0, 3.0])).tolist() == [7, "no"]


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


def test_outputs_need_not_be_states():
    wide = plan_for(RandomizedResponse([[0, 0, 1], [1, 0, 0]]))
    assert sanitize(wide, SERIES) == [2, 0, 0, 2]
    named = plan_for(RandomizedResponse([[0, 0, 1], [1, 0, 0]], outputs=("x", "y", "z")))
    assert sanitize(named, SERIES) == ["z", "x", "x", "z"]


def test_flips_of_one_person_differ_from_anothers():
    made = sanitize(FLIPS, [["idle"] * 200] * 2)
    assert made[0] != made[1]


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
def test_a_foreign_record_is_refused_by_its_place(record):
    with pytest.raises(UnknownState, match=r"record 2 .counting from 0.*foreign=") as caught:
        sanitize(FLIPS, ["idle", "active", record])
    assert SECRET not in str(caught.value)
    with pytest.raises(UnknownState, match="record 1 of series 1"):
        sanitize(FLIPS, [["idle"], ["active", record]])


@pytest.mark.parametrize("record", FOREIGN, ids=[type(one).__name__ for one in FOREIGN])
def test_a_foreign_record_may_count_as_a_state(record):
    assert sanitize(SURE, ["idle", record], foreign="active") == ["active", "idle"]


@pytest.mark.parametrize(
    "records",
    [
        np.array([0, 1, 2], dtype=np.uint8),
        np.array([0, 1, -1]),
        np.array([0.0, 1.0, np.nan]),
        np.array(["0", "1", "1"]),
        np.array([0, 1, None]),
        np.ma.MaskedArray([0, 1, 1], mask=[False, False, True]),
        np.array([0, 1, 0], dtype="datetime64[s]"),
        pd.Series([0, 1, pd.NA], dtype="Int64"),
        pl.Series([0, 1, None]),
    ],
    ids=lambda records: f"{type(records).__name__} {records.dtype}",
)
def test_foreign_records_of_arrays(records):
    plan = plan_for(SURE.mechanism, ut.MarkovChain(P))
    with pytest.raises(UnknownState, match=r"record [02] "):
        sanitize(plan, records)
    assert len(sanitize(plan, records, foreign=1)) == 3


def test_foreign_must_be_a_state():
    with pytest.raises(UnknownState, match="'asleep'"):
        sanitize(FLIPS, SERIES, foreign="asleep")


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


# --- plans ----------------------------------------------------------------------------------------


def test_every_plan_has_its_verb():
    with pytest.raises(NotSupported, match=r"release\(plan"):
        sanitize(CURATOR, SERIES)
    with pytest.raises(NotSupported, match=r"release\(plan"):
        redact(CURATOR, SERIES)
    with pytest.raises(NotSupported, match=r"release\(plan"):
        stream(CURATOR)
    with pytest.raises(NotSupported, match=r"redact\(plan"):
        sanitize(ERASE, SERIES)
    with pytest.raises(NotSupported, match=r"sanitize\(plan"):
        redact(FLIPS, SERIES)
    text: Any = "plan"
    for verb in (sanitize, redact):
        with pytest.raises(InvalidInput, match="a Plan is required"):
            verb(text, SERIES)


def test_states_of_plan_and_model_must_agree():
    three = ut.MarkovChain(np.full((3, 3), 1 / 3))
    for mechanism in (FLIPS.mechanism, XOR.mechanism):
        with pytest.raises(InvalidPlan, match="2 states"):
            sanitize(plan_for(mechanism, three), [0, 1])
    with pytest.raises(InvalidPlan, match="2 states"):
        redact(plan_for(ERASE.mechanism, three), [0, 1])
    with pytest.raises(NotSupported, match="names no states"):
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
    seen = {tuple(redact(ERASE, SERIES)) for _ in range(60)}
    assert seen == {("idle", "active", None, None), ("idle", None, None, None)}
    assert {tuple(redact(ERASE, ["idle", "idle", "idle", "active"])) for _ in range(60)} == {
        ("idle", "idle", None, "active"),
        ("idle", None, None, "active"),
    }


def test_erased_records_of_an_array_are_masked_with_nothing_below():
    made = redact(ERASE, np.array([["active"] * 4] * 300))
    assert made.shape == (300, 4)
    assert made.mask[:, 2].all()
    assert not made.mask[:, 0].any()
    assert set(made.data[made.mask].tolist()) == {""}
    numbers = plan_for(ERASE.mechanism, ut.MarkovChain(P, length=4))
    under = redact(numbers, np.ones((300, 4), dtype=np.uint8))
    assert under.dtype == np.uint8
    assert not under.data[under.mask].any()
    (nested,) = redact(numbers, [np.ones(4, dtype=int)])
    assert not nested.data[nested.mask].any()
    objects = redact(ERASE, np.array(["active"] * 4, dtype=object))
    assert "active" not in objects.data[objects.mask].tolist()


def test_erased_records_of_columns_are_missing():
    made = redact(ERASE, pd.Series(["active"] * 4))
    assert made.isna().tolist()[2]
    assert made.tolist()[0] == "active"
    numbers = plan_for(ERASE.mechanism, ut.MarkovChain(P, length=4))
    assert redact(numbers, pd.Series([1, 1, 1, 1])).tolist()[0] == 1
    assert redact(ERASE, pl.Series(["active"] * 4)).to_list()[2] is None


def test_a_redaction_is_of_whole_series():
    for data in (SERIES[:3], [*SERIES, "idle"], [SERIES, SERIES[:2]]):
        with pytest.raises(InvalidInput, match="exactly 4 records"):
            redact(ERASE, data)


def test_the_protected_record_never_appears(monkeypatch):
    """Not for any data, in any form, and not even if the drawn erasures were wrong."""
    everything = [[a, b, c, d] for a in STATES for b in STATES for c in STATES for d in STATES]
    assert all(made[2] is None for _ in range(20) for made in redact(ERASE, everything))
    assert all(list(stream(ERASE).each(one))[2] is None for one in everything)
    nothing = np.zeros(64, dtype=bool)
    monkeypatch.setattr(sanitizing, "erase", lambda *_: nothing.copy())
    assert redact(ERASE, everything) == [[a, b, None, d] for a, b, _, d in everything]


# --- tables ---------------------------------------------------------------------------------------


def table(**more):
    """Two persons, out of order, person b with a gap of two hours at 1 and 2."""
    monday = datetime(2025, 1, 6)
    rows = [
        ("b", 4, "x"),
        ("a", 1, "y"),
        ("a", 0, "y"),
        ("b", 0, "x"),
        ("b", 3, "x"),
        ("a", 2, "y"),
    ]
    return pl.DataFrame(
        {
            "id": [who for who, _, _ in rows],
            "note": ["private"] * 6,
            "ts": [monday + timedelta(hours=hour) for _, hour, _ in rows],
            "cohort": [group for _, _, group in rows],
            "steps": [0, 5, 0, 5, 0, 5],
        }
    ).with_columns(**more)


def data_of(frame=None, **more):
    options = {"value": "steps", "state": "steps > 0", "person": "id", "time": "ts", "every": "1h"}
    return ut.Data(table() if frame is None else frame, **(options | more))


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


def test_pandas_objects_come_back():
    frame = table().to_pandas().astype({"id": object, "cohort": object})
    frame["ts"] = frame["ts"].astype(object)
    made = sanitize(SURE, data_of(frame, by="cohort"))
    assert made["id"].to_list() == table()["id"].to_list()
    assert made["cohort"].to_list() == table()["cohort"].to_list()
    assert made["ts"].to_list() == table()["ts"].to_list()


def test_windows_and_groups_leave_rows_out():
    made = sanitize(SURE, data_of().window("2025-01-06T01:00", "2025-01-06T04:00"))
    assert made["ts"].dt.hour().to_list() == [1, 3, 2]
    chosen = sanitize(SURE, data_of(by="cohort", groups=["y"]))
    assert set(chosen["id"]) == {"a"}
    with pytest.raises(InvalidInput, match="no records"):
        sanitize(SURE, data_of().window("2030-01-01"))


def test_a_plain_list_as_data():
    made = sanitize(SURE, ut.Data([0, 3, 7], state="record > 0"))
    assert made["state"].to_list() == ["active", "idle", "idle"]


def test_states_of_other_types_in_tables():
    frame = pl.DataFrame({"x": [0, 1]})
    numbered = plan_for(SURE.mechanism, ut.MarkovChain(P))
    assert sanitize(numbered, ut.Data(frame, value="x"))["x"].to_list() == [1, 0]
    mixed = plan_for(RandomizedResponse([[0, 1], [1, 0]], outputs=("no", 7)), ut.MarkovChain(P))
    assert sanitize(mixed, ut.Data(frame, value="x"))["x"].to_list() == ["7", "no"]


def test_missing_records_of_a_table_are_refused_by_row():
    broken = table(steps=pl.Series([0, 5, 0, None, 0, 5]))
    with pytest.raises(UnknownState, match=r"row 3 .*foreign="):
        sanitize(SURE, data_of(broken))
    made = sanitize(SURE, data_of(broken), foreign="active")
    assert made["steps"].to_list()[3] == "idle"


def test_absent_steps_count_in_the_length():
    """Person b has three rows over five steps."""
    assert sanitize(plan_for(SURE.mechanism, ut.MarkovChain(P, STATES, length=5)), data_of()).height
    with pytest.raises(InvalidInput, match=r"at most 4 .*one has 5, absent steps included"):
        sanitize(plan_for(SURE.mechanism, FOUR), data_of())
    with pytest.raises(InvalidInput, match=r"series 0.* has 3, and 2 steps are absent"):
        redact(plan_for(Redaction([[1, 1]] * 5), ut.MarkovChain(P, STATES, length=5)), data_of())


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
    made = redact(plan, data_of(whole))
    assert made.columns == ["id", "ts", "steps", "erased"]
    # hours 1, 0, 2 with states active, idle, active
    assert made["steps"].to_list() == [None, "idle", "active"]
    assert made["erased"].to_list() == [True, False, False]
    with pytest.raises(InvalidInput, match="rename"):
        redact(plan, data_of(whole.rename({"id": "erased"}), person="erased"))


# --- the ledger -----------------------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    return ut.Ledger(tmp_path / "year.db", "w25", model=CHAIN, limit=5.0)


MILD = plan_for(RandomizedResponse.binary(0.375, 0.375))
ALTERNATING = ["idle", "active"] * 20


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
        patch.setattr(sanitizing, "flip", killed)
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
        (UnknownState, lambda: sanitize(MILD, ["?"], ledger=ledger)),
        (InvalidInput, lambda: sanitize(MILD, SERIES, ledger=ledger, insecure_seed=1)),
        (NotSupported, lambda: sanitize(XOR, SERIES, ledger=ledger)),
        (NotSupported, lambda: sanitize(SURE, SERIES, ledger=ledger)),
        (LedgerConflict, lambda: sanitize(plan_for(MILD.mechanism, ut.MarkovChain(P)), [0, 1],
                                          ledger=ledger)),
        (LedgerConflict, lambda: sanitize(plan_for(MILD.mechanism, unit="person"), SERIES,
                                          ledger=ledger)),
        (BudgetExceeded, lambda: sanitize(plan_for(RandomizedResponse.binary(2.0**-20, 2.0**-20)),
                                          SERIES, ledger=ledger)),
    ]  # fmt: skip
    for error, call in refusals:
        with pytest.raises(error):
            call()
    assert ledger.entries() == []


def test_a_person_is_accounted_with_what_is_proved_for_persons(tmp_path):
    book = ut.Ledger(tmp_path / "p.db", "w25", model=CHAIN, limit=5.0, unit="person")
    sanitize(plan_for(MILD.mechanism, unit="person"), SERIES, ledger=book, release_id="one")
    entry = book.entry("one")
    assert entry is not None
    assert entry.level == pytest.approx(PROVED.upper)
    with pytest.raises(LedgerConflict, match="unit='person'"):
        sanitize(MILD, SERIES, ledger=book)


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
    made = redact(plan, [SERIES, SERIES], ledger=ledger, release_id="once")
    entry = ledger.entry("once")
    assert (entry.kind, entry.level) == ("redaction", None)
    assert entry.leakage == 1.0
    assert entry.result["sha256"] == fingerprint(made, plan)
    for call in (
        lambda: redact(plan, [SERIES], ledger=ledger, release_id="twice"),
        lambda: sanitize(MILD, SERIES, ledger=ledger),
        lambda: ut.release(CURATOR, SERIES, ledger=ledger),
    ):
        with pytest.raises(LedgerConflict, match="redaction"):
            call()
    with pytest.raises(LedgerConflict, match="second draw"):
        redact(plan, [SERIES, SERIES], ledger=ledger, release_id="once")


def test_a_redaction_must_cover_the_ledgers_adversary(ledger):
    weak = plan_for(ERASE.mechanism, FOUR, Leakage(1.0, 1.0, "exact", "ignorant"))
    with pytest.raises(LedgerConflict, match="against='any'"):
        redact(weak, SERIES, ledger=ledger)
    strong = plan_for(ERASE.mechanism, FOUR, Leakage(9.0, 9.0, "exact", "any"))
    with pytest.raises(BudgetExceeded):
        redact(strong, SERIES, ledger=ledger)
    nothing = plan_for(ERASE.mechanism, FOUR, Leakage(0.0, 0.0, "exact", "any"))
    assert redact(nothing, SERIES, ledger=ledger)[2] is None


def test_a_redaction_may_use_the_whole_limit(tmp_path):
    book = ut.Ledger(tmp_path / "whole.db", "w25", model=CHAIN, limit=1.0)
    assert redact(ERASE, SERIES, ledger=book)[2] is None


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
            redact(ERASE, SERIES, insecure_seed=seed)
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
    device = stream(ERASE)
    device.push("idle")
    with pytest.raises(UnknownState, match="record 1 ") as caught:
        device.push(SECRET)
    assert SECRET not in str(caught.value)
    assert device.records == 1
    assert stream(SURE, foreign="active").push(SECRET) == "idle"


def test_a_stream_is_not_copied():
    with pytest.raises(TypeError, match="never copied"):
        copy.deepcopy(stream(FLIPS))


# --- planned probabilities, through the verbs -----------------------------------------------------


def twin(plan, factor):
    """The same plan with flips or erasures that are off by a factor, where they are free."""
    grain = 2.0**-53
    mechanism = plan.mechanism
    if isinstance(mechanism, Redaction):
        chances = mechanism.probabilities
        off = np.where(chances == 1, 1, np.round(factor * chances / grain) * grain)
        return replace(plan, mechanism=Redaction(off, mechanism.protect))
    off = np.round(factor * mechanism.matrix / grain) * grain
    np.fill_diagonal(off, 0.0)
    np.fill_diagonal(off, 1 - off.sum(axis=1))
    return replace(plan, mechanism=RandomizedResponse(off))


@pytest.mark.statistical
def test_released_series_have_the_planned_flips():
    """Null: outputs follow the channel. 100,000 records of a planned channel, chi-square at 1e-9.

    Flips of 0.7 and 1.3 times the chance are hundreds of standard deviations away.
    """
    records = ["idle", "active", "active"] * 33_334
    states = np.array([STATES.index(x) for x in records])

    def p_value(plan):
        outputs = np.array([STATES.index(x) for x in sanitize(plan, records)])
        seen = np.bincount(2 * states + outputs, minlength=4)
        shares = np.bincount(states, minlength=2) / states.size
        return chi_square(seen, (shares[:, None] * FLIPS.mechanism.matrix).ravel())

    assert p_value(FLIPS) > 1e-9
    assert all(p_value(twin(FLIPS, factor)) < 1e-9 for factor in (0.7, 1.3))


@pytest.mark.statistical
def test_released_series_have_the_planned_erasures():
    """Null: record 1 of 20,000 series is erased with its chance, by state; chi-square at 1e-9."""
    series = [["idle", state, "idle", "active"] for state in STATES] * 10_000
    chances = ERASE.mechanism.probabilities

    def p_values(plan):
        made = redact(plan, series)
        for state in (0, 1):
            gone = sum(one[1] is None for one in made[state::2])
            law = [chances[1, state], 1 - chances[1, state]]
            yield chi_square([gone, 10_000 - gone], law)
        assert all(one[2] is None and one[0] == "idle" for one in made)

    assert min(p_values(ERASE)) > 1e-9
    assert all(max(p_values(twin(ERASE, factor))) < 1e-9 for factor in (0.7, 1.3))


# --- no value in any message ----------------------------------------------------------------------


def test_no_message_quotes_a_record():
    calls = [
        lambda: sanitize(FLIPS, [SECRET]),
        lambda: sanitize(FLIPS, {SECRET: 1}),
        lambda: sanitize(FLIPS, SECRET),
        lambda: sanitize(FLIPS, np.array([[[SECRET]]])),
        lambda: redact(ERASE, [SECRET] * 4),
        lambda: sanitize(FLIPS, ut.Data(pl.DataFrame({"x": [SECRET]}), value="x")),
    ]
    for call in calls:
        with pytest.raises((InvalidInput, NotSupported)) as caught:
            call()
        assert not re.search(SECRET, str(caught.value))
        assert SECRET not in repr(caught.value.__cause__)
