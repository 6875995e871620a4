"""The small study once more, with plans for its series: flips, noise in runs, erasures."""

import csv
import gzip
import io
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import call
from tests.cli.scenario import ACTIVE, CHAIN, HOURS, LEDGER, SERIES, new_ledger, scenario
from undertow.mechanisms import Redaction, XorNoise
from undertow.planning.calibrate import calibrate

__all__ = ["scenario", "studio"]

SECRET = 20
FIXED = ut.MarkovChain(CHAIN.transition, CHAIN.states, length=HOURS)
IDS = [f"p{person}" for person in range(4)]


def erasures(against="any"):
    """Records beside the secret are erased at times, and the secret always."""
    table = np.zeros((HOURS, 2))
    table[SECRET - 4 : SECRET + 5] = [0.5, 0.75]
    table[SECRET] = 1
    mechanism = Redaction(table, SECRET)
    leak = ut.leakage(mechanism, FIXED, against)
    shares = (("utility", float((1 - table @ FIXED.initial).mean())), ("optimum", 0.95))
    return ut.Plan(mechanism, FIXED, leak.upper, leak, "optimal", measures=shares)


def in_runs():
    mechanism = XorNoise(0.25, 0.25)
    leak = ut.leakage(mechanism, FIXED)
    return ut.Plan(mechanism, FIXED, leak.upper, leak, "xor", measures=(("expected flips", 0.5),))


LOCAL = {
    "flips": calibrate(ut.Series(), CHAIN, 0.5, method="exchange"),
    "few": calibrate(ut.Series(), CHAIN, 5.0),
    "ignorant": calibrate(ut.Series(), CHAIN, 5.0, "ignorant"),
    "runs": in_runs(),
    "erasures": erasures(),
    "unseen": erasures("ignorant"),
}


@cache
def texts():
    return {name: plan.to_json() for name, plan in LOCAL.items()}


@pytest.fixture
def studio(scenario):
    """The folder of the study, with the plans for series."""
    for name, text in texts().items():
        Path(f"{name}.plan").write_text(text)
    Path("wide.db").write_bytes(new_ledger(5.0))
    return scenario


def run(verb, *arguments, data="steps.csv", plan="flips.plan", account=(), options=ACTIVE):
    """Randomise the series of the scenario."""
    return call(verb, data, "--plan", plan, *options, *account, *arguments)


def table(path):
    """The rows of a CSV file."""
    content = Path(path).read_bytes()
    text = gzip.decompress(content) if str(path).endswith(".gz") else content
    return list(csv.DictReader(io.StringIO(text.decode())))


def truth():
    """The true records, in the order of the table."""
    return [state for series in SERIES for state in series]


def names():
    """The files that are there, hidden ones among them, but for what the scenario wrote."""
    given = {"chain.json", "year.db", "wide.db"}
    found = {path.name for path in Path().iterdir() if path.suffix != ".plan"}
    return sorted(found - given - {f"{name}.csv" for name in ("steps", "zeros", "missing", "odd")})


def refused(result):
    assert result.exit_code == 1, result.output
    assert not result.stdout
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("undertow: ")
    return result.stderr


ACCOUNT = LEDGER
WIDE = ("--ledger", "wide.db", "--dataset", "w25")
"""An account with room for the redaction."""
