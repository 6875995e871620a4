"""`undertow sanitize` with erasures: erased records stay erased, files come whole."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from tests.cli.calls import rows
from tests.cli.local_scenario import (
    IDS,
    LOCAL,
    SECRET,
    WIDE,
    names,
    refused,
    run,
    scenario,
    studio,
    table,
    truth,
)
from tests.cli.scenario import HOURS, TABLES, ledger, release, ut_ledger

__all__ = ["scenario", "studio"]

pytestmark = pytest.mark.usefixtures("studio")
OUT = ("--output", "out.csv")


def done(result):
    assert result.exit_code == 0, result.output
    return result


def redact(*arguments, plan="erasures.plan", **options):
    return run("sanitize", *arguments, plan=plan, **options)


# --- what is written ------------------------------------------------------------------------------


def test_a_table_keeps_its_columns_and_says_what_is_erased():
    result = done(redact(*OUT))
    found, given = table("out.csv"), table("steps.csv")
    assert list(found[0]) == ["id", "ts", "steps", "erased"]
    for name in ("id", "ts"):
        assert [row[name] for row in found] == [row[name] for row in given]
    for place, (row, state) in enumerate(zip(found, truth(), strict=True)):
        erased = row["erased"] == "true"
        assert row["steps"] == ("" if erased else state)
        if not LOCAL["erasures"].mechanism.probabilities[place % HOURS].any():
            assert not erased
        if place % HOURS == SECRET:
            assert erased
    said = rows(result)
    assert said["question"].strip() == f"the series with records erased around record {SECRET}"
    assert said["records"].strip() == f"{4 * HOURS}, of 4 persons"
    assert "of the records are shown on average" in said["utility"]
    assert "95% by the best erasures" in said["optimum"]
    assert f"of record {SECRET}" in said["guarantee"]


@pytest.mark.parametrize("data", [f"{name}.csv" for name in TABLES])
def test_the_secret_is_never_written(data):
    done(redact(*OUT, data=data))
    rows_ = table("out.csv")
    for person in IDS:
        own = [row for row in rows_ if row["id"] == person]
        assert own[SECRET]["steps"] == ""
        assert own[SECRET]["erased"] == "true"


def test_rows_in_any_order_come_back_in_that_order():
    lines = Path("steps.csv").read_text().splitlines()
    order = np.random.default_rng(5).permutation(len(lines) - 1)
    Path("mixed.csv").write_text("\n".join([lines[0], *(lines[1 + place] for place in order)]))
    done(redact(*OUT, data="mixed.csv"))
    found = table("out.csv")
    assert [(row["id"], row["ts"]) for row in found] == [
        tuple(lines[1 + place].split(",")[:2]) for place in order
    ]
    hour = sorted({row["ts"] for row in found})[SECRET]
    assert all(row["erased"] == "true" for row in found if row["ts"] == hour)


# --- the account ----------------------------------------------------------------------------------


def test_a_redaction_admits_no_other_release():
    whole = "the whole account"
    assert whole in rows(done(redact(*OUT, "--dry-run", account=WIDE)))["spends"]
    done(redact(*OUT, account=WIDE))
    for result in (
        redact("--output", "b.csv", "--id", "again", account=WIDE),
        redact("--output", "b.csv", "--id", "again", "--dry-run", account=WIDE),
        run("sanitize", "--output", "b.csv", account=WIDE),
        run("sanitize", "--output", "b.csv", "--dry-run", account=WIDE),
        release(account=WIDE),
    ):
        assert "redact" in refused(result)
    assert "was made already" in refused(redact("--output", "b.csv", account=WIDE))
    assert names() == ["out.csv"]
    assert len(ledger("wide.db").entries()) == 1


def test_other_releases_admit_no_redaction():
    assert release(account=WIDE).exit_code == 0
    for arguments in ((), ("--dry-run",)):
        said = refused(redact(*OUT, *arguments, account=WIDE))
        assert "other releases" in said


def test_a_ledger_for_more_attackers_or_less_leakage_refuses():
    for arguments in ((), ("--dry-run",)):
        said = refused(redact(*OUT, *arguments, plan="unseen.plan", account=WIDE))
        assert "the ledger covers" in said
        ut_ledger("small.db", limit=0.5)
        account = ("--ledger", "small.db", "--dataset", "w25")
        assert "the limit is 0.5" in refused(redact(*OUT, *arguments, account=account))
    assert names() == ["small.db"]


# --- refusals -------------------------------------------------------------------------------------


def test_series_of_another_length_are_refused():
    lines = Path("steps.csv").read_text().splitlines()
    Path("short.csv").write_text("\n".join(lines[:-1]))
    assert f"exactly {HOURS} records" in refused(redact(*OUT, data="short.csv"))
    Path("gap.csv").write_text("\n".join(lines[:10] + lines[11:]))
    assert f"exactly {HOURS} records" in refused(redact(*OUT, data="gap.csv"))
    said = refused(redact(*OUT, "--window", "2025-01-06,2025-01-07"))
    assert f"exactly {HOURS} records" in said
    assert not Path("out.csv").exists()


def test_a_figure_that_cannot_be_written_keeps_the_table_back(monkeypatch):
    real, calls = os.fsync, []

    def second_fails(number):
        calls.append(number)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(number)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", second_fails)
        said = refused(redact(*OUT, "--figure", "out.png"))
    assert "cannot write out.png: no space left on device" in said
    assert not names()
    Path("out.png").write_text("mine")
    assert "out.png exists" in refused(redact(*OUT, "--figure", "out.png", account=WIDE))
    assert names() == ["out.png"]
    assert not ledger("wide.db").entries()
