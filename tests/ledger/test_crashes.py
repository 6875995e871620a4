"""Killed anywhere, racing for the last budget: never overspent, never an unrecorded answer."""

import os
from pathlib import Path

import pytest

from tests.grids import each
from tests.ledger import soak_work as work
from tests.ledger.soak_work import CHECKPOINTS, DATASET, KILLED, LEVEL, LIMIT, MODEL, Task
from tests.processes import CONTEXT
from undertow.ledger.book import Ledger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")


@pytest.fixture(scope="module")
def run():
    with work.nursery() as run:
        yield run


@each(("checkpoint", "place"), CHECKPOINTS, ["sqlite", "postgresql"], indirect=["place"])
def test_a_release_killed_anywhere_is_repeated_and_charged_once(run, place, tmp_path, checkpoint):
    shown = tmp_path / "shown"
    task = Task(place.where, str(shown), "r", 0, checkpoint)
    assert run(work.release_once, task) == KILLED
    assert not work.faults(place.where, shown)
    assert not shown.exists()
    ledger = Ledger(place.where, DATASET, MODEL, LIMIT)
    position = CHECKPOINTS.index(checkpoint)
    reserved = position >= CHECKPOINTS.index("reserve-committed")
    assert ledger.level() == (LEVEL if reserved else 0.0)
    found = ledger.entry("r")
    assert (found is not None) == reserved
    if found is not None:
        confirmed = position >= CHECKPOINTS.index("confirm-committed")
        assert found.status == ("confirmed" if confirmed else "reserved")
    assert run(work.release_once, Task(place.where, str(shown), "r", 0)) == 0
    assert not work.faults(place.where, shown)
    again = Ledger(place.where, DATASET).entries()[0]
    assert again.result is not None
    assert work.shown_values(shown) == {"r": {again.result["value"]}}
    assert found is None or found.result in (None, again.result)
    assert ledger.level() == LEVEL
    assert ledger.verify() == 4


def test_a_killed_creation_leaves_no_ledger(run, sqlite_place, tmp_path):
    for checkpoint in ("create-begun", "create-written", "create-committed"):
        task = Task(sqlite_place.where, str(tmp_path / "shown"), "r", 0, checkpoint)
        assert run(work.release_once, task) == KILLED
        assert not Path(sqlite_place.where).exists()


def test_the_last_budget_goes_to_one(place):
    seen = work.race(place.where, 12, processes=2)
    assert not seen.faults
    assert (seen.confirmed, seen.refused) == (4, 8)


def _same(where, gate, out):
    gate.wait()
    ledger = Ledger(where, DATASET, MODEL, LIMIT)
    ledger.reserve("r", LEVEL)
    out.send(ledger.confirm("r", {"value": os.getpid()}))


def test_two_processes_with_one_id_publish_one_answer(place):
    gate, (here, there) = CONTEXT.Barrier(2), CONTEXT.Pipe(duplex=False)
    racers = [CONTEXT.Process(target=_same, args=(place.where, gate, there)) for _ in range(2)]
    for racer in racers:
        racer.start()
    answers = [here.recv(), here.recv()]
    for racer in racers:
        racer.join()
        racer.close()
    here.close()
    there.close()
    assert answers[0] == answers[1]
    ledger = Ledger(place.where, DATASET)
    assert (ledger.level(), ledger.verify()) == (LEVEL, 3)


@pytest.mark.parametrize(("kills", "confirmed"), [pytest.param(8, 4)])
def test_many_random_kills(usual_place, tmp_path, kills, confirmed):
    seen = work.kill_points(usual_place.where, tmp_path, kills, seed=6, every=16)
    assert not seen.faults
    assert seen.killed
    assert seen.confirmed == confirmed


@pytest.mark.soak
def test_many_race(place):
    assert not work.race(place.where, 320, processes=4).faults
