"""Long work on the command line: what it shows while it runs, and what an interrupt leaves."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import undertow as ut
from tests.cli.calls import CHAIN, NAMED, PLAIN, call, strict
from tests.cli.scenario import ledger, release, scenario
from tests.processes import SOURCE
from undertow import progress
from undertow.bounds.engine import at_most
from undertow.cli import output
from undertow.cli import output as waiting
from undertow.methods import methods_for
from undertow.planning import calibrate as search
from undertow.planning import compare as comparison
from undertow.planning import compare as rows
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


def test_json_stays_clean():
    result = call(*COMPARE, "--progress", "--json")
    assert result.stderr.startswith("undertow: comparing the methods, 0 s\n")
    assert [row["method"] for row in strict(result.stdout)["rows"]]


@pytest.mark.parametrize(
    "asked",
    [LEAKAGE, ("plan", *CHAIN, "--count", 1, "--limit", 1), ("leakage", *CHAIN, "--limit", 1)],
)
def test_every_command_says_what_it_does(asked):
    assert call(*asked, "--progress").stderr.startswith("undertow: ")
    assert not call(*asked, "--no-progress").stderr
    assert not call(*asked, "--no-progress", env=TERMINAL).stderr


def test_a_terminal_shows_it_once_it_takes_long(monkeypatch, capsys):
    for name in ("NO_COLOR", "TERM", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in TERMINAL.items():
        monkeypatch.setenv(name, value)
    begun = threading.Event()
    real = waiting._Live._begin

    def begin(live):
        real(live)
        begun.set()

    monkeypatch.setattr(waiting._Live, "_begin", begin)

    def shown(patience, wait):
        monkeypatch.setattr(waiting, "_PATIENCE", patience)
        with output.waiting("thinking") as display:
            display.note("found so far: one")
            progress.doing("levels tried", 3)
            assert not wait or begun.wait(60)
        streams = capsys.readouterr()
        assert not streams.out
        return streams.err

    assert not shown(60.0, wait=False)
    said = shown(0.0, wait=True)
    assert "found so far: one" in said
    assert "thinking: levels tried (3)" in said


def test_nothing_runs_on_when_the_work_fails(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    before = set(threading.enumerate())
    with pytest.raises(KeyError), output.waiting("thinking"):
        raise KeyError
    monkeypatch.delenv("FORCE_COLOR")
    with pytest.raises(KeyError), waiting.wanting(True), output.waiting("thinking"):
        raise KeyError
    assert set(threading.enumerate()) <= before


def test_plain_lines_are_few(monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    lines = waiting._Lines("thinking")
    for step in range(1000):
        clock[0] = step / 10
        lines.tell(progress.Step("levels tried", step))
        lines.tell(progress.Step("pairs", step))
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "undertow: thinking: levels tried (0), 0 s"
    assert 50 <= len(said) <= 101  # of two stages in turn, one a second
    lines = waiting._Lines("thinking")
    for step in range(1000):
        clock[0] = 100 + step / 10
        lines.tell(progress.Step("levels tried", step))
    assert len(capsys.readouterr().err.splitlines()) == 20


# --- interrupts -----------------------------------------------------------------------------------


def stopping(holder, name, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(holder, name, stop)


def test_an_interrupted_comparison_prints_what_it_has(monkeypatch):
    def row_of(method, *rest):
        if method.name == "quilt":
            raise KeyboardInterrupt
        return rows.row_of(method, *rest)

    monkeypatch.setattr(comparison, "row_of", row_of)
    result = call(*COMPARE)
    assert result.exit_code == 130
    assert result.stderr.startswith("undertow: interrupted; not computed: quilt, quilt-approx, ")
    assert "  exchange " in result.stdout
    told = strict(call(*COMPARE, "--json").stdout)
    assert told["interrupted"] is True
    assert [row["method"] for row in told["rows"]] == ["exact", "exchange", "optimal"]
    assert told["missing"][0] == "quilt"


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


def test_an_interrupted_budget_says_so(monkeypatch):
    from undertow.planning import budget

    stopping(budget, "dp_budget", monkeypatch)
    result = call("leakage", *CHAIN, "--limit", 1)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "undertow: interrupted; run the same command again\n"


def test_an_interrupted_leakage_prints_what_is_known_at_once(monkeypatch):
    from undertow.bounds import engine

    stopping(engine, "_proved", monkeypatch)
    chain = ut.MarkovChain([[0.882, 0.118], [0.305, 0.695]])
    result = call(*LEAKAGE)
    assert result.exit_code == 130
    assert "What it reveals about one record, at the interrupt" in result.stdout
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
