"""`undertow sanitize`: flipped tables, whole or not at all; one line where it is refused."""

import hashlib
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import rows, strict
from tests.cli.local_scenario import (
    ACCOUNT,
    LOCAL,
    WIDE,
    names,
    refused,
    run,
    scenario,
    studio,
    table,
    truth,
)
from tests.cli.scenario import ACTIVE, CHAIN, HOURS, STEPS, ledger
from undertow.ledger.keys import Keys
from undertow.releasing.series import fingerprint
from undertow.sampling.keyed import Key

__all__ = ["scenario", "studio"]

pytestmark = pytest.mark.usefixtures("studio")
OUT = ("--output", "out.csv")


def done(result):
    assert result.exit_code == 0, result.output
    return result


def sanitize(*arguments, **options):
    return run("sanitize", *arguments, **options)


# --- what is written ------------------------------------------------------------------------------


def test_a_table_keeps_its_columns_and_shows_states():
    result = done(sanitize(*OUT, options=(*ACTIVE, "--by", "cohort")))
    found, given = table("out.csv"), table("steps.csv")
    assert list(found[0]) == ["id", "ts", "cohort", "steps"]
    for name in ("id", "ts", "cohort"):
        assert [row[name] for row in found] == [row[name] for row in given]
    assert {row["steps"] for row in found} == {"inactive", "active"}
    said = rows(result)
    assert said["question"].strip() == "the whole series, each record flipped at random"
    assert said["records"].strip() == f"{4 * HOURS}, of 4 persons"
    assert said["expected flips"].strip() == "46.8117% of the records are false on average"
    assert "an attacker who knows any other records" in said["guarantee"]
    assert said["written to"].strip() == "out.csv"
    assert "NOT covered" not in said


def test_flips_are_those_of_the_plan():
    """192 flips of known probabilities: outside 6 deviations with probability below 1e-8."""
    done(sanitize(*OUT, plan="few.plan"))
    rates = dict(zip(CHAIN.states, 1 - LOCAL["few"].mechanism.matrix.diagonal(), strict=True))
    expected = [rates[state] for state in truth()]
    shown = [row["steps"] for row in table("out.csv")]
    flipped = sum(output != state for output, state in zip(shown, truth(), strict=True))
    spread = sum(p * (1 - p) for p in expected) ** 0.5
    assert 0 < flipped < 4 * HOURS
    assert abs(flipped - sum(expected)) <= 6 * spread


def test_foreign_records_count_as_a_state():
    """By default as the plan's first; what is said and the exit code do not depend on them."""
    words = "records that are missing or no state of the plan count as "
    told = rows(done(sanitize(*OUT, data="odd.csv", plan="few.plan")))
    assert told["foreign"].strip() == f"{words}'inactive'"
    assert len(table("out.csv")) == 4 * HOURS
    said = strict(done(sanitize("--json", data="odd.csv")).stdout)
    assert (said["foreign"], said["foreign_words"]) == ("inactive", f"{words}'inactive'")
    done(sanitize(*OUT, "--force", "--report", "r.txt", data="odd.csv"))
    assert f"{words}'inactive'" in " ".join(Path("r.txt").read_text().split())


def test_a_curator_may_have_foreign_records_refused_by_their_row():
    said = refused(sanitize(*OUT, "--strict", data="odd.csv"))
    assert "row 0 of" in said
    assert "leave --strict out, or plan with a state for such records (--missing)" in said
    assert "depends on the records" in said
    assert "canary" not in said
    assert not names()
    told = strict(done(sanitize("--strict", "--json")).stdout)
    assert (told["foreign"], told["foreign_words"]) == (None, None)
    assert "depends on the records" in rows(done(sanitize("--strict")))["foreign"]


def test_cells_that_a_spreadsheet_would_calculate_are_told():
    """They stay as they are: persons must be found again, and states estimated from."""
    text = Path("steps.csv").read_text()
    Path("bad.csv").write_text(text.replace("p1,", "=1+1,").replace("p2,", "-2,"))
    result = done(sanitize(*OUT, data="bad.csv"))
    assert {row["id"] for row in table("out.csv")} == {"p0", "=1+1", "-2", "p3"}
    assert "texts of 'id' begin like formulas" in result.stderr
    assert "formulas" not in done(sanitize("--output", "a.parquet", data="bad.csv")).stderr
    Path("numbers.csv").write_text(text.replace("p1,", "-1.5e3,").replace("p2,", "+2,"))
    assert "formulas" not in done(sanitize("--output", "b.csv", data="numbers.csv")).stderr


def test_nothing_is_drawn_without_an_output(monkeypatch):
    def never(*_, **__):
        raise AssertionError("records were flipped")

    monkeypatch.setattr("undertow.sampling.flips.flip", never)
    result = done(sanitize())
    assert "no --output: nothing was drawn" in result.stdout
    assert not result.stderr
    result = done(sanitize(account=ACCOUNT))
    assert "a DP level of 0.127" in rows(result)["spends"]
    assert not ledger().entries()
    assert not names()


def test_a_plan_for_the_ignorant_says_whom_it_leaves_out():
    said = rows(done(sanitize(*OUT, plan="ignorant.plan")))
    assert "an attacker who knows no other record" in said["guarantee"]
    assert "knows some or all other records" in said["NOT covered"]
    told = strict(done(sanitize("--json", plan="ignorant.plan")).stdout)
    assert told["against"] == "ignorant"
    assert "knows some or all other records" in told["not_covered"][0]


# --- the account ----------------------------------------------------------------------------------


def test_a_release_is_accounted_once():
    result = done(sanitize(*OUT, account=WIDE))
    assert not result.stderr
    (entry,) = ledger("wide.db").entries()
    said = rows(result)
    assert said["release"].strip() == entry.release_id
    assert said["entry"].strip() == entry.hash
    assert "for these records" in said["left"]
    assert entry.result == {
        "records": 4 * HOURS, "series": 4,
        "sha256": fingerprint(
            ut.Data("out.csv", value="steps", person="id", time="ts"), LOCAL["flips"]
        ),
        "files": {"output.csv": hashlib.sha256(Path("out.csv").read_bytes()).hexdigest()},
    }  # fmt: skip
    for arguments in (("--output", "b.csv"), ("--output", "b.csv", "--dry-run")):
        said = refused(sanitize(*arguments, account=WIDE))
        assert "was made already" in said
        assert "another --id" in said
    assert names() == ["out.csv"]
    done(sanitize("--output", "b.csv", "--id", "second", account=WIDE))
    assert len(ledger("wide.db").entries()) == 2


def test_without_a_ledger_a_warning_is_given():
    result = done(sanitize(*OUT))
    assert result.stderr.startswith("undertow: warning: not accounted in a ledger")
    assert len(result.stderr.splitlines()) == 1


def test_a_dry_run_foretells_and_draws_nothing(monkeypatch):
    def never(*_, **__):
        raise AssertionError("records were flipped")

    content = Path("year.db").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("undertow.sampling.flips.flip", never)
        result = done(sanitize(*OUT, "--dry-run", account=ACCOUNT))
        said = strict(done(sanitize(*OUT, "--dry-run", "--json", account=ACCOUNT)).stdout)
        assert "no ledger" in rows(done(sanitize(*OUT, "--dry-run")))["spends"]
    assert "dry run: nothing was drawn" in result.stdout
    assert rows(result)["writes"].strip() == "out.csv"
    assert Path("year.db").read_bytes() == content
    assert not names()
    told = strict(done(sanitize(*OUT, "--json", account=ACCOUNT)).stdout)
    assert told["release_id"] == said["release_id"]
    assert told["left"] == pytest.approx(said["left_after"], abs=1e-15)
    assert ledger().entries()[0].level == said["level"] == said["spends"]


def test_a_dry_run_refuses_what_a_run_refuses():
    done(sanitize("--output", "first.csv", "--id", "x", account=ACCOUNT))
    other = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=CHAIN.states)
    Path("other.plan").write_text(ut.calibrate(ut.Series(), other, 0.5).to_json())
    for arguments, options in (
        (("--id", "y"), {"plan": "few.plan", "account": ACCOUNT}),
        (("--id", "x"), {"plan": "few.plan", "account": ACCOUNT}),
        ((), {"plan": "runs.plan", "account": ACCOUNT}),
        ((), {"plan": "other.plan", "account": ACCOUNT}),
        ((), {"plan": "count.plan"}),
        (("--strict",), {"data": "odd.csv"}),
        ((), {"data": "none.csv"}),
        (("--window", "2030-01-01,2030-01-02"), {}),
        (("--strict",), {"options": STEPS}),
    ):
        dry = refused(sanitize(*OUT, *arguments, "--dry-run", **options))
        assert dry == refused(sanitize(*OUT, *arguments, **options))
    assert len(ledger().entries()) == 1
    assert names() == ["first.csv"]


def test_too_much_is_refused_with_what_fits():
    said = refused(sanitize(*OUT, plan="few.plan", account=ACCOUNT))
    assert f"{ledger().left():.6f}"[:7] in said
    assert not ledger().entries()


@pytest.mark.parametrize("kept", [True, False], ids=["one key", "two keys"])
def test_a_second_draw_of_a_race_is_never_published(monkeypatch, kept):
    """Another process draws and confirms while this one writes.

    Both have the key of the release, so that their draws are one; without it there are two, and
    this one is refused.
    """
    from undertow.releasing.drafts import Drafts

    real, calls = Drafts.compose, []

    def slow(drafts, path, write):
        calls.append(path)
        if len(calls) == 1:
            done(sanitize("--output", "theirs.csv", account=ACCOUNT))
        return real(drafts, path, write)

    monkeypatch.setattr(Drafts, "compose", slow)
    if not kept:
        monkeypatch.setattr(Keys, "held", lambda *_: Key.fresh())
    mine = sanitize("--output", "mine.csv", account=ACCOUNT)
    if kept:
        done(mine)
        assert names() == ["mine.csv", "theirs.csv"]
        assert Path("mine.csv").read_bytes() == Path("theirs.csv").read_bytes()
    else:
        assert "was made already" in refused(mine)
        assert names() == ["theirs.csv"]
    assert len(ledger().entries()) == 1
