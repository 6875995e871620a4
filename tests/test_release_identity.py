"""The same question is the same release; another question never gets its answer."""

import datetime

import polars as pl
import pytest

import undertow as ut
from undertow.errors import AccountWarning, InvalidInput, LedgerConflict, NotSupported

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]])
PLAN = ut.calibrate(ut.Count(1), CHAIN, limit=0.1)


def table(records=60, **columns):
    frame = {
        "id": ["a"] * records,
        "t": list(range(records)),
        "steps": [time % 2 for time in range(records)],
        "beats": [(time // 2) % 2 for time in range(records)],
    }
    return pl.DataFrame({**frame, **columns})


@pytest.fixture
def ledger(tmp_path):
    return ut.Ledger(tmp_path / "year.db", dataset="w25", model=CHAIN, limit=4.0)


def data(source, value="steps", **words):
    return ut.Data(source, value=value, **{"person": "id", "time": "t", **words})


def test_the_same_question_again_is_free_and_says_so(ledger):
    first = ut.release(PLAN, data(table()), ledger=ledger)
    again = ut.release(PLAN, data(table()), ledger=ledger)
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.value, again.release_id, again.made) == (
        first.value, first.release_id, first.made,
    )  # fmt: skip
    assert len(ledger.entries()) == 1
    assert datetime.datetime.fromisoformat(again.made).tzinfo is not None


def variants(folder):
    """Questions that differ from the first in one thing each."""
    for name in ("one.csv", "two.csv"):
        table().write_csv(folder / name)
    yield "first", data(folder / "one.csv")
    yield "file", data(folder / "two.csv")
    yield "value", data(folder / "one.csv", value="beats")
    yield "state", data(folder / "one.csv", state="steps < 1")
    yield "another state", data(folder / "one.csv", state="beats > 0")
    yield "map", data(folder / "one.csv", state={1: 0, 0: 1})
    yield "cuts", data(folder / "one.csv", state=[0.5])
    yield "step", data(folder / "one.csv", every=1)
    yield "gaps", data(folder / "one.csv", every=1, gaps=0)
    yield "nobody", data(folder / "one.csv", person=None)
    yield "shape", data(table(61))
    yield "window", data(folder / "one.csv").window(0, 30)


def test_another_question_is_another_release(tmp_path, ledger):
    names = {kind: ut.release(PLAN, asked, ledger=ledger) for kind, asked in variants(tmp_path)}
    assert len({out.release_id for out in names.values()}) == len(names)
    assert not any(out.replayed for out in names.values())
    assert len(ledger.entries()) == len(names)


def test_another_question_under_the_same_name_is_refused(tmp_path, ledger):
    asked = dict(variants(tmp_path))
    ut.release(PLAN, asked.pop("first"), ledger=ledger, release_id="week 1")
    for other in asked.values():
        with pytest.raises(LedgerConflict, match="week 1"):
            ut.release(PLAN, other, ledger=ledger, release_id="week 1")
    assert len(ledger.entries()) == 1


def test_the_name_does_not_depend_on_values(tmp_path):
    ledgers = [
        ut.Ledger(tmp_path / f"{n}.db", dataset="w25", model=CHAIN, limit=4.0, memory=False)
        for n in range(2)
    ]
    other = table().with_columns(pl.lit(1).alias("steps"))
    names = [
        ut.release(PLAN, data(frame), ledger=ledger).release_id
        for frame, ledger in zip((table(), other), ledgers, strict=True)
    ]
    assert names[0] == names[1]


def test_a_second_account_of_the_same_table_is_warned_about(tmp_path):
    first = ut.Ledger(tmp_path / "one.db", dataset="w25", model=CHAIN, limit=4.0)
    ut.release(PLAN, data(table()), ledger=first)
    renamed = ut.Ledger(tmp_path / "one.db", dataset="renamed", model=CHAIN, limit=4.0)
    second = ut.Ledger(tmp_path / "two.db", dataset="w25", model=CHAIN, limit=4.0)
    for ledger in (renamed, second):
        with pytest.warns(AccountWarning) as said:
            ut.release(PLAN, data(table()), ledger=ledger)
        assert any("'w25'" in str(warning.message) for warning in said)


def test_mistakes_spend_nothing(ledger):
    """Whatever is wrong with the question or the data is found before a level is reserved."""
    weights = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], length=60)
    own = ut.Ledger(ledger._store.path, dataset="lines", model=weights, limit=4.0)
    linear = ut.calibrate(ut.Linear([1.0] * 60, spread=1.0, lower=0.0), weights, limit=0.1)
    two = pl.concat([table(30), table(30).with_columns(pl.lit("b").alias("id"))])
    for plan, asked, book in [
        (linear, data(two), own),
        (PLAN, data(table(t=[0] * 60)), ledger),
        (ut.calibrate(ut.Query(len), CHAIN, limit=0.1), data(table()), ledger),
        (PLAN, data(table()).window(100, 200), ledger),
    ]:
        with pytest.raises((InvalidInput, NotSupported)):
            ut.release(plan, asked, ledger=book)
        assert book.entries() == []


def test_groups_of_dates_are_recorded(ledger):
    days = [datetime.date(2025, 1, 6) + datetime.timedelta(days=n // 12) for n in range(60)]
    dated = table(day=days)
    wanted = [datetime.date(2025, 1, 6), datetime.date(2025, 1, 7)]
    out = ut.release(PLAN, data(dated, by="day", groups=wanted), ledger=ledger)
    assert list(out.value) == ["2025-01-06", "2025-01-07"]
    assert ledger.entries()[0].status == "confirmed"
