"""Series randomised record by record: forms of data, plans, erasures, streams."""

import copy
import multiprocessing
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import undertow as ut
from tests.series_plans import (
    CHAIN,
    CURATOR,
    ERASE,
    FLIPPED,
    FLIPS,
    FOUR,
    SECRET,
    SERIES,
    STATES,
    SURE,
    XOR,
    P,
    plan_for,
)
from undertow.errors import (
    InvalidInput,
    InvalidPlan,
    NotSupported,
    UnknownState,
)
from undertow.releasing.series import sanitize, stream
from undertow.sampling import flips

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
