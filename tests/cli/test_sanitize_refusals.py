"""`undertow sanitize`: data that changes, plans that do not fit, and what is never shown."""

import json
import os
import re
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import apart
from tests.cli.local_scenario import (
    ACCOUNT,
    LOCAL,
    names,
    refused,
    scenario,
    studio,
    table,
    truth,
)
from tests.cli.scenario import ACTIVE, CHAIN, HOURS, STEPS, TABLES, ledger, release, ut_ledger
from tests.cli.test_sanitize import OUT, done, sanitize
from tests.grids import each
from tests.processes import die_in, full_output
from undertow.certificate import Leakage
from undertow.releasing.series import fingerprint

__all__ = ["scenario", "studio"]

pytestmark = pytest.mark.usefixtures("studio")


# --- data that changes ----------------------------------------------------------------------------


def appended():
    with Path("steps.csv").open("a") as file:
        file.write("p9,2025-01-09T00:00:00,north,1\n")


def replaced():
    Path("new.csv").write_bytes(Path("steps.csv").read_bytes())
    Path("new.csv").rename("steps.csv")


def edited():
    """The same size, and the same time of change."""
    found = Path("steps.csv").stat()
    Path("steps.csv").write_text(Path("steps.csv").read_text().replace(",40\n", ",41\n"))
    os.utime("steps.csv", ns=(found.st_atime_ns, found.st_mtime_ns))


@each(
    ("change", "arguments", ("account", "plan")),
    [appended, replaced, edited, lambda: Path("steps.csv").unlink()], [(), ("--dry-run",)],
    [((), "flips.plan"), (ACCOUNT, "flips.plan"), ((), "erasures.plan")],
)  # fmt: skip
def test_a_file_that_changes_while_it_is_read_is_refused(
    monkeypatch, change, arguments, account, plan
):
    real = ut.Data.coded

    def meanwhile(*given):
        read = real(*given)
        change()
        return read

    monkeypatch.setattr(ut.Data, "coded", meanwhile)
    said = refused(sanitize(*OUT, *arguments, account=account, plan=plan))
    assert "steps.csv changed while it was read" in said
    assert not names()
    assert not ledger().entries()


@pytest.mark.parametrize("account", [(), ACCOUNT], ids=["no ledger", "ledger"])
def test_what_seems_wrong_with_a_table_may_be_the_change(monkeypatch, account):
    """A row that is half written looks like a foreign record."""
    real = ut.Data.coded

    def meanwhile(data, rule):
        replaced()
        return real(ut.Data(["canary"]), rule)

    monkeypatch.setattr(ut.Data, "coded", meanwhile)
    said = refused(sanitize(*OUT, account=account))
    assert "steps.csv changed while it was read" in said
    assert not names()
    assert not ledger().entries()


def test_a_file_that_changes_after_it_was_read_and_reserved_does_no_harm(monkeypatch):
    from undertow.sampling.flips import flip as real

    def slow(*arguments):
        appended()
        return real(*arguments)

    monkeypatch.setattr("undertow.sampling.flips.flip", slow)
    done(sanitize(*OUT, account=ACCOUNT))
    assert len(table("out.csv")) == 4 * HOURS


# --- plans ----------------------------------------------------------------------------------------


def test_plans_of_another_kind_name_the_right_command():
    assert "use it with 'undertow release'" in refused(sanitize(*OUT, plan="count.plan"))
    assert "--figure draws erasures" in refused(sanitize(*OUT, "--figure", "f.png"))
    assert "use 'undertow sanitize'" in refused(release(plan="flips.plan"))
    assert "use 'undertow sanitize'" in refused(release(plan="erasures.plan"))
    assert "cannot read the plan file none.plan" in refused(sanitize(*OUT, plan="none.plan"))
    edited = json.loads(Path("flips.plan").read_text()) | {"limit": 9.0}
    Path("edited.plan").write_text(json.dumps(edited))
    assert "checksum does not match" in refused(sanitize(*OUT, plan="edited.plan"))
    assert not names()
    assert not ledger().entries()


def test_a_plan_for_other_states_is_refused():
    chain = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=("asleep", "awake"))
    three = ut.MarkovChain([[0.8, 0.1, 0.1]] * 3, states=("a", "b", "c"), length=HOURS)
    Path("two.plan").write_text(ut.calibrate(ut.Series(), chain, 0.5).to_json())
    leak = Leakage(0.0, 2.0, "exact", "any")
    plan = ut.Plan(ut.RandomizedResponse.symmetric(3, 0.25), three, 2.0, leak, "exact")
    Path("three.plan").write_text(plan.to_json())
    said = refused(sanitize(*OUT, plan="three.plan"))
    assert "truth value, and there are 3 states" in said
    Path("named.csv").write_text("state\n" + "\n".join(truth()[:HOURS]))
    options = ("--value", "state", "--strict")
    said = refused(sanitize(*OUT, plan="two.plan", data="named.csv", options=options))
    assert "row 0 of column 'state'" in said
    assert not any(state in said for state in CHAIN.states)
    assert not Path("out.csv").exists()


def test_series_that_are_longer_than_the_plan():
    short = ut.MarkovChain(CHAIN.transition, CHAIN.states, length=HOURS - 1)
    Path("short.plan").write_text(ut.calibrate(ut.Series(), short, 12.0).to_json())
    said = refused(sanitize(*OUT, plan="short.plan"))
    assert f"at most {HOURS - 1} records" in said


def test_data_that_does_not_fit_together_is_refused():
    text = Path("steps.csv").read_text()
    Path("twice.csv").write_text(text + text.splitlines()[1] + "\n")
    assert "row" in refused(sanitize(*OUT, data="twice.csv"))
    assert "no column 'speed'" in refused(sanitize(*OUT, options=(*STEPS, "--state", "speed > 0")))
    Path("empty.csv").write_text("id,ts,cohort,steps\n")
    assert "no records" in refused(sanitize(*OUT, data="empty.csv"))
    Path("binary.csv").write_bytes(b"PAR1" + bytes(100))
    assert "is not CSV" in refused(sanitize(*OUT, data="binary.csv"))
    assert not Path("out.csv").exists()


# --- nothing of a value ---------------------------------------------------------------------------

RUNS = {
    "written": (OUT, {}),
    "json": ((*OUT, "--json"), {}),
    "accounted": (OUT, {"account": ACCOUNT}),
    "dry run": ((*OUT, "--dry-run"), {"account": ACCOUNT}),
    "summary": ((), {}),
    "in runs": (OUT, {"plan": "runs.plan"}),
    "erasures": (OUT, {"plan": "erasures.plan"}),
    "erasures foretold": ((*OUT, "--dry-run"), {"plan": "erasures.plan"}),
    "window": ((*OUT, "--window", "2025-01-06,2025-01-07"), {}),
    "too much": (OUT, {"plan": "few.plan", "account": ACCOUNT}),
    "off the grid": ((*OUT, "--every", "7m"), {}),
}


@pytest.mark.parametrize(("arguments", "options"), RUNS.values(), ids=RUNS)
def test_tables_of_one_shape_are_told_with_the_same_bytes(arguments, options):
    """All that is printed, but for hashes; and the size of the table, but for its outputs."""
    seen = set()
    for name in TABLES:
        Path("data.csv").write_bytes(Path(f"{name}.csv").read_bytes())
        Path("year.db").unlink()
        ut_ledger("year.db")
        result = sanitize(*arguments, data="data.csv", **options)
        said = re.sub("[0-9a-f]{64}", "hash", result.stdout)
        shape = ""
        if Path("out.csv").exists():
            shape = str([(row["id"], row["ts"]) for row in table("out.csv")])
            Path("out.csv").unlink()
        assert "canary" not in result.output
        seen.add((said, result.stderr, result.exit_code, shape))
    assert len(seen) == 1, seen


# --- the program ----------------------------------------------------------------------------------

ASKED = ("sanitize", "steps.csv", "--plan", "flips.plan", *ACTIVE, *ACCOUNT, *OUT)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("undertow.releasing.series", "randomised"),
        ("undertow.cli.sanitization", "write_frames"),
        ("undertow.cli.sanitization", "record"),
    ],
)
def test_a_killed_process_is_repaired_by_the_same_command(module, name):
    """Wherever it is killed before the release is recorded, its level is spent once."""
    killed = apart(*ASKED, prepare=(die_in, module, name))
    assert killed.returncode == 9, killed.stderr
    assert not killed.stdout
    assert not Path("out.csv").exists()
    (entry,) = ledger().entries()
    assert entry.status == "reserved"
    again = apart(*ASKED)
    assert again.returncode == 0, again.stderr
    (after,) = ledger().entries()
    assert after.hash == entry.hash
    assert after.result is not None
    data = ut.Data("out.csv", value="steps", person="id", time="ts")
    assert after.result["sha256"] == fingerprint(data, LOCAL["flips"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_summary_that_cannot_be_printed_is_an_error():
    told = apart(*ASKED, prepare=(full_output,))
    assert told.returncode == 1
    assert told.stderr.startswith("undertow: cannot print the answer")
    assert Path("out.csv").exists()
