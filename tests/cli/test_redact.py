"""`undertow sanitize` with erasures: erased records stay erased, files come whole."""

import errno
import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import undertow as ut
from tests.cli.calls import call, rows, strict
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
from tests.cli.scenario import ACTIVE, HOURS, TABLES, ledger, release, ut_ledger
from undertow.releasing.series import fingerprint

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


def test_parquet_has_nulls():
    done(redact("--output", "out.parquet"))
    frame = pl.read_parquet("out.parquet")
    assert frame["erased"].to_list() == frame["steps"].is_null().to_list()
    assert frame["erased"].sum() >= 4


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


def test_a_plan_for_the_ignorant_says_whom_it_leaves_out():
    said = rows(done(redact(plan="unseen.plan")))
    assert "knows no other record" in said["guarantee"]
    assert "knows some or all other records" in said["NOT covered"]
    assert "nothing is guaranteed" in said["NOT covered"]


def test_figures():
    done(redact(*OUT, "--figure", "out.svg"))
    drawn = Path("out.svg").read_text()
    assert f"record {SECRET}" in drawn
    erased = sum(row["erased"] == "true" for row in table("out.csv")[:HOURS])
    assert f"{erased} of {HOURS}" in drawn
    done(redact("--output", "b.csv", "--figure", "b.png"))
    assert Path("b.png").read_bytes().startswith(b"\x89PNG")
    lines = Path("steps.csv").read_text().splitlines()[1 : HOURS + 1]
    numbered = [f"{hour},{line.split(',')[3]}" for hour, line in enumerate(lines)]
    Path("numbered.csv").write_text("\n".join(["t,steps", *numbered]))
    options = ("--time", "t", "--every", "1", "--value", "steps", "--state", "steps > 0")
    done(redact("--output", "c.csv", "--figure", "c.svg", data="numbered.csv", options=options))
    assert f"of {HOURS}" in Path("c.svg").read_text()


def test_a_report():
    done(redact(*OUT, "--report", "r.txt", account=WIDE))
    text = " ".join(Path("r.txt").read_text().split())
    assert f"{SECRET} (protected)" in text
    assert ledger("wide.db").entries()[0].hash in text.replace(" ", "")


def test_json():
    said = strict(done(redact(*OUT, "--json", account=WIDE)).stdout)
    assert said["measures"]["utility"] == LOCAL["erasures"].utility
    assert said["left"] is None
    data = ut.Data("out.csv", value="steps", person="id", time="ts")
    assert said["sha256"] == fingerprint(data, LOCAL["erasures"])
    (entry,) = ledger("wide.db").entries()
    assert (entry.kind, entry.level, entry.status) == ("redaction", None, "confirmed")


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


def test_plans_of_another_kind_name_the_right_command():
    assert "use it with 'undertow release'" in refused(redact(*OUT, plan="count.plan"))
    assert not names()


def test_series_of_another_length_are_refused():
    lines = Path("steps.csv").read_text().splitlines()
    Path("short.csv").write_text("\n".join(lines[:-1]))
    assert f"exactly {HOURS} records" in refused(redact(*OUT, data="short.csv"))
    Path("gap.csv").write_text("\n".join(lines[:10] + lines[11:]))
    assert f"exactly {HOURS} records" in refused(redact(*OUT, data="gap.csv"))
    said = refused(redact(*OUT, "--window", "2025-01-06,2025-01-07"))
    assert f"exactly {HOURS} records" in said
    assert not Path("out.csv").exists()


def test_foreign_records_are_refused_by_their_row_if_a_curator_wishes():
    said = refused(redact(*OUT, "--strict", data="odd.csv"))
    assert "row 0 of" in said
    assert "canary" not in said
    assert not names()
    done(redact(*OUT, data="odd.csv"))


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


def test_figures_need_matplotlib(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest, **options):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "figures need matplotlib" in refused(redact(*OUT, "--figure", "f.png", account=WIDE))
    assert not ledger("wide.db").entries()


def test_a_file_that_changes_while_it_is_read_is_refused(monkeypatch):
    from undertow.data.codes import coded as real

    def meanwhile(*given):
        read = real(*given)
        with Path("steps.csv").open("a") as file:
            file.write("\n")
        return read

    monkeypatch.setattr("undertow.releasing.series.coded", meanwhile)
    assert "changed while it was read" in refused(redact(*OUT, account=WIDE))
    assert not names()
    assert not ledger("wide.db").entries()


USAGE = {
    "a figure of nothing": ("--figure", "f.png"),
    "a figure of another form": (*OUT, "--figure", "f.pdf"),
    "another form": ("--output", "out.txt"),
    "an id without ledger": (*OUT, "--id", "x"),
    "half an account": (*OUT, "--ledger", "year.db"),
}


@pytest.mark.parametrize("arguments", USAGE.values(), ids=USAGE)
def test_wrong_usage(arguments):
    result = call("sanitize", "steps.csv", "--plan", "erasures.plan", *ACTIVE, *arguments)
    assert result.exit_code == 2
    assert not result.stdout
    assert not names()


@pytest.mark.parametrize("arguments", [OUT, (*OUT, "--json"), (*OUT, "--dry-run"), ()])
def test_tables_of_one_shape_are_told_with_the_same_bytes(arguments):
    seen = set()
    for name in TABLES:
        Path("data.csv").write_bytes(Path(f"{name}.csv").read_bytes())
        Path("wide.db").unlink()
        ut_ledger("wide.db", limit=5.0)
        result = redact(*arguments, data="data.csv", account=WIDE)
        Path("out.csv").unlink(missing_ok=True)
        said = re.sub("[0-9a-f]{64}", "hash", result.stdout)
        seen.add((said, result.stderr))
        assert result.exit_code == 0
        assert "canary" not in result.output
    assert len(seen) == 1, seen
