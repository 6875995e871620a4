"""Series that are released under a key: repeated, never drawn twice, alike in every form.

Until a release is recorded the same records give the same outputs, so that there is nothing to
average; changed records get flips that have nothing to do with the ones before.
"""

import datetime as dt
import multiprocessing
import os
import pickle
from decimal import Decimal
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
from tests.series_plans import ALTERNATING, CHAIN, ERASE, FLIPS, MILD, XOR, P, plan_for
from undertow.data.codes import Rule, coded, person_labels
from undertow.data.columns import Column
from undertow.errors import InvalidInput, LedgerConflict
from undertow.mechanisms import RandomizedResponse
from undertow.releasing import series as sanitizing
from undertow.releasing.account import reserve
from undertow.releasing.series import carry_out, draw, prepare, sanitize
from undertow.sampling import keyed
from undertow.sampling.keyed import Key

KEY = Key(bytes(range(32)))
LONG = ["idle", "active"] * 2000
HALF = plan_for(RandomizedResponse.binary(0.5, 0.5))


@pytest.fixture
def ledger(tmp_path):
    return ut.Ledger(tmp_path / "year.db", "w25", model=CHAIN, limit=5.0)


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
