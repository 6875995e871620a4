"""Long work on the command line: what it shows while it runs, and what an interrupt leaves."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import CHAIN, NAMED, PLAIN, call, strict
from tests.cli.scenario import ledger, release, scenario
from tests.processes import SOURCE
from undertow.bounds.engine import at_most
from undertow.cli import output
from undertow.methods import methods_for
from undertow.planning import calibrate as search
from undertow.releasing import request as releasing

__all__ = ["scenario"]

TERMINAL = {"FORCE_COLOR": "1", "TERM": "xterm"}
COMPARE = ("compare", *NAMED, "--length", 6, "--count", "active", "--limit", 1)
LEAKAGE = ("leakage", *CHAIN, "--epsilon", 1)
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
from undertow.cli import main
main()
"""


# --- what is shown --------------------------------------------------------------------------------


def test_elsewhere_than_on_a_terminal_progress_is_shown_if_asked_for():
    quiet, loud = call(*COMPARE), call(*COMPARE, "--progress")
    assert not quiet.stderr
    lines = loud.stderr.splitlines()
    assert lines[0] == "undertow: comparing the methods, 0 s"
    found = [line for line in lines if line.startswith("undertow: exchange: expected error ")]
    assert len(found) == 1
    methods = methods_for(ut.MarkovChain([[0.9, 0.1], [0.2, 0.8]]))
    noted = [line.split(": ")[1] for line in lines if line.split(": ")[1] in methods]
    assert noted == methods  # each as it is found, in the order of the table
    assert "\x1b" not in loud.stderr
    assert "comparing" not in loud.stdout


@pytest.mark.parametrize(
    "asked",
    [LEAKAGE, ("plan", *CHAIN, "--count", 1, "--limit", 1), ("leakage", *CHAIN, "--limit", 1)],
)
def test_every_command_says_what_it_does(asked):
    assert call(*asked, "--progress").stderr.startswith("undertow: ")
    assert not call(*asked, "--no-progress").stderr
    assert not call(*asked, "--no-progress", env=TERMINAL).stderr


# --- interrupts -----------------------------------------------------------------------------------


def stopping(holder, name, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(holder, name, stop)


def test_an_interrupted_plan_writes_nothing(monkeypatch, tmp_path):
    stopping(search, "calibrate", monkeypatch)
    asked = ("plan", *CHAIN, "--count", 1, "--limit", 1, "--output", tmp_path / "plan.json")
    result = call(*asked, "--json")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert strict(result.stdout)["error"] == "Interrupted"
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("scenario")
@pytest.mark.parametrize("name", ["_evaluated", "reserve"])
def test_an_interrupted_release_spends_nothing(monkeypatch, name):
    before = sorted(Path().iterdir())
    stopping(releasing, name, monkeypatch)
    result = release("--output", "answer.json")
    assert (result.exit_code, result.stdout) == (130, "")
    assert sorted(Path().iterdir()) == before
    assert not list(ledger().entries())


def test_an_interrupted_leakage_prints_what_is_known_at_once(monkeypatch):
    from undertow.bounds import engine

    stopping(engine, "_proved", monkeypatch)
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    result = call(*LEAKAGE)
    assert result.exit_code == 130
    assert "Leakage about one record, at the interrupt" in result.stdout
    upper = output.above(at_most(ut.PureDP(1.0), chain, "any"))
    assert f"  leakage   between 1 and {upper}\n" in result.stdout
    assert "interrupted: the interval attained and proved so far" in result.stderr


SIZE, MEMBERS = 8, 300  # some hundredths of a second each, and a signal takes a thousandth


def test_an_interrupted_process_prints_the_interval_it_has_reached(tmp_path):
    drawn = np.random.default_rng(1).dirichlet(np.ones(SIZE), SIZE)
    chain = ut.MarkovChain(0.5 * np.eye(SIZE) + 0.5 * drawn)
    model = tmp_path / "set.json"
    model.write_text(json.dumps({"kind": "set", "models": [chain.to_dict()] * MEMBERS}))
    asked = ("leakage", "--model", "set.json", "--epsilon", "1", "--progress", "--json")
    child = subprocess.Popen(
        [sys.executable, "-c", MAIN, *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, cwd=tmp_path, env=os.environ | PLAIN | {"PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    said, stopped = [], False
    with child:
        for line in child.stderr:
            if "computing the leakage: " in line and not stopped:  # a step of the search itself
                child.send_signal(signal.SIGINT)
                stopped = True
            said.append(line)
        out = child.stdout.read()
    assert child.returncode == 130, said
    assert "interrupted: the interval attained and proved so far" in said[-1]
    assert not [line for line in said if not line.startswith("undertow: ")]  # no traceback
    assert [path.name for path in tmp_path.iterdir()] == ["set.json"]
    told, truth = strict(out), ut.leakage(ut.PureDP(1.0), chain)
    assert told["interrupted"] is True
    assert told["lower"] <= truth.upper
    assert truth.lower <= told["upper"] < math.inf
