"""Small plans for series and a small table, for the tests of `sanitize`, `redact` and `stream`."""

from datetime import datetime, timedelta
from typing import Any

import polars as pl

import undertow as ut
from undertow.certificate import Leakage
from undertow.mechanisms import RandomizedResponse, Redaction, XorNoise

P = [[0.9, 0.1], [0.3, 0.7]]
STATES = ("idle", "active")
CHAIN = ut.MarkovChain(P, states=STATES)
PROVED = Leakage(1.0, 1.0, "exact", "any")
SECRET = "s3cret"


def plan_for(mechanism, model=CHAIN, against="any", **more):
    """A plan for any mechanism: flips as published, which guarantee nothing, erasures as proved."""
    if isinstance(mechanism, Redaction):
        leak = ut.leakage(mechanism, model, against)
        return ut.Plan(mechanism, model, leak.upper, leak, "optimal", **more)
    return ut.Plan(mechanism, model, 1.0, PROVED, "chakrabarti", **more)


FLIPS = plan_for(RandomizedResponse.binary(0.25, 0.375))
SURE = plan_for(RandomizedResponse([[0, 1], [1, 0]]))  # always flips: outputs are known
XOR = plan_for(XorNoise(0.125, 0.25))
FOUR = ut.MarkovChain(P, states=STATES, length=4)
ERASE = plan_for(Redaction([[0, 0], [0.5, 0.25], [1, 1], [1, 0]], protect=2), FOUR)
CURATOR: Any = ut.calibrate(ut.Count("active"), CHAIN, limit=1.0)
SERIES = ["idle", "active", "active", "idle"]
FLIPPED = ["active", "idle", "idle", "active"]
MILD = plan_for(RandomizedResponse.binary(0.375, 0.375))
ALTERNATING = ["idle", "active"] * 20


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
