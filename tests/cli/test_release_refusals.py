"""`undertow release`: refusals, what they never show, and the program itself."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import apart, call, strict
from tests.cli.scenario import (
    ACTIVE,
    LEDGER,
    STEPS,
    TABLES,
    ledger,
    release,
    scenario,
    ut_ledger,
)
from tests.cli.test_release import FILES
from tests.processes import die_in

__all__ = ["scenario"]

pytestmark = pytest.mark.usefixtures("scenario")


# --- refusals -------------------------------------------------------------------------------------


def refused(result):
    assert result.exit_code == 1
    assert not result.stdout
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("undertow: ")
    return result.stderr


def test_plans_that_cannot_be_read():
    assert "cannot read the plan file none.plan: no such file" in refused(release(plan="none.plan"))
    assert "is a directory" in refused(release(plan="."))
    Path("cut.plan").write_text(Path("count.plan").read_text()[:-40])
    assert "the plan file cut.plan" in refused(release(plan="cut.plan"))
    edited = json.loads(Path("count.plan").read_text()) | {"scale": 1.0}
    Path("edited.plan").write_text(json.dumps(edited))
    assert "checksum does not match" in refused(release(plan="edited.plan"))
    assert "not a plan file" in refused(release(plan="chain.json"))
    Path("binary.plan").write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in refused(release(plan="binary.plan"))
    assert not ledger().entries()


def test_a_budget_that_is_too_small_says_what_fits():
    assert release().exit_code == 0
    left = ledger().left()
    said = refused(release(plan="large.plan"))
    assert f"{left:.5f}"[:6] in said
    result = release("--json", plan="large.plan")
    assert result.exit_code == 1
    assert strict(result.stdout)["error"] == "BudgetExceeded"
    assert len(ledger().entries()) == 1


def test_ledgers_that_are_not_there():
    assert "does not exist" in refused(release(account=("--ledger", "x.db", "--dataset", "w25")))
    assert not Path("x.db").exists()
    other = refused(release(account=("--ledger", "year.db", "--dataset", "w26")))
    assert "there is no data set 'w26'" in other
    Path("text.db").write_text("this is no database, but long enough to look like a file" * 30)
    assert "text.db" in refused(release(account=("--ledger", "text.db", "--dataset", "w25")))


def test_another_model_than_the_ledgers_is_refused():
    other = ut.MarkovChain([[0.9, 0.1], [0.3, 0.7]], states=("inactive", "active"))
    plan = ut.calibrate(ut.Count("active"), other, 0.1, method="exchange")
    Path("other.plan").write_text(plan.to_json())
    assert "another model" in refused(release(plan="other.plan"))


def test_data_that_does_not_fit_together_is_refused():
    text = Path("steps.csv").read_text()
    Path("twice.csv").write_text(text + text.splitlines()[1] + "\n")
    assert "row" in refused(release(data="twice.csv"))
    assert "no column 'speed'" in refused(release(options=(*STEPS, "--state", "speed > 0")))
    assert "none.csv" in refused(release(data="none.csv"))
    assert "no records" in refused(release("--window", "2030-01-01,2030-01-02"))
    assert not ledger().entries()


USAGE = {
    "no plan": ("release", "steps.csv", *ACTIVE),
    "no data": ("release", "--plan", "count.plan", *ACTIVE),
    "ledger without data set": ("--ledger", "year.db"),
    "data set without ledger": ("--dataset", "w25"),
    "forced to nowhere": ("--force",),
    "an answer of another kind": ("--output", "answer.txt"),
    "a report of another kind": ("--report", "report.pdf"),
    "over the data": ("--output", "a.json", "--report", "a.json"),
    "over the ledger": (*LEDGER, "--output", "year.json", "--force", "--report", "year.json"),
    "half a window": ("--window", "2025-01-06"),
    "an empty window": ("--window", ","),
    "groups without by": ("--groups", "north"),
    "an empty group": ("--by", "cohort", "--groups", "north,,south"),
    "seeded noise": ("--insecure-seed", "7"),
}


@pytest.mark.parametrize("arguments", USAGE.values(), ids=USAGE)
def test_wrong_usage(arguments):
    full = arguments if "release" in arguments else (
        "release", "steps.csv", "--plan", "count.plan", *ACTIVE, *arguments
    )  # fmt: skip
    result = call(*full)
    assert result.exit_code == 2
    assert "Error" in result.stderr
    assert not result.stdout
    assert not ledger().entries()


@pytest.mark.parametrize(
    "options",
    [("--every", "1h"), ("--window", "0,1"), (), ("--state", "1,2"), ("--gaps", "inactive")],
)
def test_data_options_that_lack_a_companion(options):
    result = call("release", "steps.csv", "--plan", "count.plan", *options)
    assert result.exit_code == 2


def test_what_is_read_is_never_written_over():
    Path("plan.json").write_text(Path("count.plan").read_text())
    result = release("--output", "plan.json", "--force", plan="plan.json")
    assert result.exit_code == 2
    assert "named twice" in result.stderr
    result = release("--output", "./x/../steps.csv", "--force")
    assert result.exit_code == 2
    ut_ledger("year.json")
    result = release(
        "--report", "year.json", "--force", account=("--ledger", "year.json", "--dataset", "w25")
    )
    assert result.exit_code == 2


# --- nothing of a value ---------------------------------------------------------------------------


NOW = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d"


def masked(result, account):
    """Return what was seen of a run, numbers of the answer and hashes taken out."""
    said = re.sub(r"(?m)^(  answer +).*$", r"\1#", result.stdout)
    said = re.sub(r"(?m)^(  (?:north|south)?,? ?(?:in)?active +)-?\d+ +", r"\1#", said)
    said = re.sub(r'("value": )[-\d.e]+', r"\1#", said)
    said = re.sub(NOW, "now", said)
    return re.sub("[0-9a-f]{64}", "hash", said), result.stderr, result.exit_code, account


RUNS = {
    "count": ("count.plan", ACTIVE, ()),
    "json": ("count.plan", ACTIVE, ("--json",)),
    "histogram": ("histogram.plan", (*ACTIVE, "--by", "cohort"), ()),
    "sum": ("sum.plan", STEPS, ("--json",)),
    "dry run": ("sum.plan", STEPS, ("--dry-run",)),
    "window": ("count.plan", ACTIVE, ("--window", "2025-01-06,2025-01-07")),
    "beyond the budget": ("large.plan", ACTIVE, ()),
    "an unknown column": ("count.plan", (*STEPS, "--state", "speed > 0"), ()),
    "an empty window": ("count.plan", ACTIVE, ("--window", "2030-01-06,2030-01-07")),
    "off the grid": ("count.plan", (*ACTIVE, "--every", "7m"), ()),
    "a text as number": ("count.plan", (*STEPS, "--state", "steps + 1 > 0"), ()),
}


@pytest.mark.parametrize(("plan", "options", "arguments"), RUNS.values(), ids=RUNS)
def test_tables_of_one_shape_give_the_same_bytes(plan, options, arguments):
    """Output, messages, exit code and ledger, but for the noisy numbers and the hashes of them."""
    seen = set()
    for name in TABLES:
        Path("data.csv").write_bytes(Path(f"{name}.csv").read_bytes())
        Path("year.db").unlink()
        ut_ledger("year.db")
        result = release(*arguments, plan=plan, options=options, data="data.csv")
        account = [(e.release_id, e.level, e.status, str(e.about)) for e in ledger().entries()]
        seen.add(masked(result, str(account)))
        assert "canary" not in result.output
    assert len(seen) == 1, seen


def test_a_report_of_one_shape_has_one_size_of_everything_else():
    pages = set()
    for name in TABLES:
        Path("data.csv").write_bytes(Path(f"{name}.csv").read_bytes())
        Path("year.db").unlink()
        ut_ledger("year.db")
        assert release("--report", "r.txt", "--force", data="data.csv").exit_code == 0
        text = re.sub(r"(?m)^Answer .*$", "Answer", Path("r.txt").read_text())
        pages.add(re.sub("[0-9a-f]{64}", "hash", re.sub(NOW, "now", text)))
    assert len(pages) == 1


# --- the program ----------------------------------------------------------------------------------


ASKED = ("release", "steps.csv", "--plan", "count.plan", *ACTIVE, *LEDGER)


def test_processes_that_race_show_one_answer():
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: apart(*ASKED, "--json"), range(2)))
    assert [process.returncode for process in done] == [0, 0], done
    told = [json.loads(process.stdout) for process in done]
    assert told[0]["numbers"] == told[1]["numbers"]
    assert sum(not one["recorded_earlier"] for one in told) == 1
    assert len(ledger().entries()) == 1


KILLED = {
    "before the noise": ("undertow.releasing.request", "randomise", 0, "reserved"),
    "after the answer was recorded": ("undertow.files", "_beside", 2, "confirmed"),
    "between the two files": ("undertow.files", "_beside", 4, "confirmed"),
    "in the second file": ("undertow.files", "_beside", 5, "confirmed"),
}


@pytest.mark.parametrize(("module", "name", "spared", "status"), KILLED.values(), ids=KILLED)
def test_a_killed_process_is_repaired_by_the_same_command(module, name, spared, status):
    """Two places are probed before anything is spent, and each again before it is written."""
    killed = apart(*ASKED, *FILES, prepare=(die_in, module, name, spared))
    assert killed.returncode == 9, killed.stderr
    assert not killed.stdout
    (entry,) = ledger().entries()
    assert entry.status == status
    done = apart(*ASKED, *FILES)
    assert done.returncode == 0, done.stderr
    (after,) = ledger().entries()
    assert after.hash == entry.hash
    if entry.result is not None:
        assert after.result == entry.result
    assert after.result is not None
    written = json.loads(Path("answer.json").read_text())
    assert after.result["numbers"] == [[written["numbers"][0]["value"]]]
    assert after.hash in Path("report.html").read_text()
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]
