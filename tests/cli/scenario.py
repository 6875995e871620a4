"""A small study in a folder: a model, plans, tables of one shape, and how to release from them."""

import json
import os
import shutil
import tempfile
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import call

CHAIN = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]], states=("inactive", "active"))
HOURS = 48
WHO = ("--person", "id", "--time", "ts", "--every", "1h")
STEPS = (*WHO, "--value", "steps")
ACTIVE = (*STEPS, "--state", "steps > 0")
LEDGER = ("--ledger", "year.db", "--dataset", "w25")
PLANS = {
    "count": ut.calibrate(ut.Count("active"), CHAIN, 0.5, method="exchange"),
    "histogram": ut.calibrate(ut.Histogram(), CHAIN, 0.5),
    "sum": ut.calibrate(ut.Sum(0, 100, {"inactive": 0, "active": 40}), CHAIN, 0.5),
    "large": ut.calibrate(ut.Count("active"), CHAIN, 2.0, method="exchange"),
    "person": ut.calibrate(
        ut.Count("active"), ut.MarkovChain(CHAIN.transition, CHAIN.states, length=HOURS), 0.5,
        secret=ut.Person(),
    ),
}  # fmt: skip


def table(steps, persons=4):
    """The text of a CSV file: ``steps(person, hour)`` is the private value."""
    begin = datetime(2025, 1, 6)
    lines = ["id,ts,cohort,steps"]
    for person in range(persons):
        cohort = "north" if person % 2 else "south"
        for hour in range(HOURS):
            when = (begin + timedelta(hours=hour)).isoformat()
            lines.append(f"p{person},{when},{cohort},{steps(person, hour)}")
    return "\n".join(lines) + "\n"


SERIES = [CHAIN.simulate(HOURS, seed=person) for person in range(4)]
TABLES = {
    "steps": lambda person, hour: 40 if SERIES[person][hour] == "active" else 0,
    "zeros": lambda person, hour: 0,
    "missing": lambda person, hour: "",
    "odd": lambda person, hour: ("canary-3c9f", "NaN", "1e400", "-7", "'", "inf", "0x1F")[hour % 7],
}
"""Tables of one shape: the same persons, hours and cohorts."""


@cache
def new_ledger(limit=1.0):
    """The bytes of a ledger in which nothing was released yet."""
    from undertow.ledger.book import Ledger

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "new.db")
        Ledger(path, "w25", CHAIN, limit, memory=False)
        return path.read_bytes()


@cache
def files():
    """What lies in the folder: names and bytes, made once."""
    plans = {f"{name}.plan": plan.to_json().encode() for name, plan in PLANS.items()}
    tables = {f"{name}.csv": table(steps).encode() for name, steps in TABLES.items()}
    model = json.dumps(CHAIN.to_dict()).encode()
    return {"chain.json": model, **plans, **tables, "year.db": new_ledger()}


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    """A folder with everything, made the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, content in files().items():
        Path(name).write_bytes(content)
    return tmp_path


def ut_ledger(path, limit=1.0, **options):
    """A new ledger; one that a test has deleted is forgotten, as if there had been none."""
    if not Path(path).exists():
        shutil.rmtree(os.environ["UNDERTOW_STATE"], ignore_errors=True)
    from undertow.ledger.book import Ledger

    return Ledger(path, "w25", CHAIN, limit, **options)


def ledger(path="year.db"):
    from undertow.ledger.book import Ledger

    return Ledger(path, "w25", create=False)


def release(*arguments, data="steps.csv", plan="count.plan", account=LEDGER, options=ACTIVE):
    """Release from the scenario."""
    return call("release", data, "--plan", plan, *options, *account, *arguments)


def exact_level(plan):

    return plan.mechanism.level_upper(plan.length)
