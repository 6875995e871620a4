"""A reader is added by one module and one line of a registry, and works."""

import sqlite3
from contextlib import closing

import pytest

import undertow as ut
from tests.extending.sqlite_table import SQLITE, SqliteTable
from undertow.data.readers import sources

CHAIN = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=("idle", "active"), every=5)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(sources.READERS, "sqlite", SQLITE)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "steps.db"
    rows = [
        (person, 5 * step, 30 if state == "active" else 0)
        for person in ("anna", "bert")
        for step, state in enumerate(CHAIN.simulate(40, seed=len(person)))
    ]
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("create table w25 (id text, t integer, steps integer)")
        db.executemany("insert into w25 values (?, ?, ?)", rows)
    return SqliteTable(path, "w25")


def read(table, **more):
    return ut.Data(table, person="id", time="t", every=5, value="steps", state="steps > 0", **more)


def test_shape_and_answer(table):
    data = read(table)
    shape = data.shape()
    assert (shape.rows, shape.persons, shape.longest) == (80, 2, 40)
    with closing(sqlite3.connect(table.path)) as db:
        (count,) = db.execute("select count(*) from w25 where steps > 0").fetchone()
    assert data.answers(ut.Count("active"), CHAIN.states).numbers == [[count]]


def test_release(table):
    plan = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0, valid_for="any")
    out = ut.release(plan, read(table))
    assert isinstance(out.value, int)


def test_errors_name_the_table_and_no_value(table):
    with pytest.raises(ut.errors.InvalidInput, match="no column 'cohort'"):
        read(table, by="cohort")
    with pytest.raises(ut.errors.InvalidInput, match="has no column"):
        read(SqliteTable(table.path, "w26"))
    table.path.write_text("no database, and anna's secret")
    with pytest.raises(ut.errors.InvalidInput, match="cannot read table 'w25'") as refusal:
        read(table)
    assert "secret" not in str(refusal.value)
