"""`undertow release`: reserve, draw, record, write, show; or say why not, and spend nothing."""

import errno
import os
import re
from pathlib import Path

import pytest

from tests.cli.calls import rows, strict
from tests.cli.scenario import (
    ACTIVE,
    HOURS,
    PLANS,
    SERIES,
    STEPS,
    exact_level,
    ledger,
    release,
    scenario,
)
from undertow.errors import InvalidInput

__all__ = ["scenario"]

FILES = ("--output", "answer.json", "--report", "report.html")
pytestmark = pytest.mark.usefixtures("scenario")


def released(result):
    assert result.exit_code == 0, result.output
    return strict(result.stdout)


def names():
    return sorted(path.name for path in Path().iterdir() if path.suffix not in (".csv", ".plan"))


# --- answers --------------------------------------------------------------------------------------


def test_an_answer_in_words():
    result = release("--source", "a diary study", *FILES)
    assert result.exit_code == 0
    assert not result.stderr
    said = rows(result)
    assert said["question"].strip() == "number of records in 'active'"
    assert re.fullmatch(r" *-?\d+", said["answer"])
    assert "with probability 95%" in said["error bar"]
    assert "factor 1.65" in said["guarantee"]
    assert said["protects"].strip() == "one record"
    assert said["records"].strip() == f"{4 * HOURS}, of 4 persons"
    assert said["written to"].strip() == "answer.json, report.html"
    (entry,) = ledger().entries()
    assert said["release"].strip() == entry.release_id
    assert said["entry"].strip() == entry.hash
    assert entry.status == "confirmed"
    assert entry.level == exact_level(PLANS["count"])
    assert "a diary study" in Path("report.html").read_text()


def test_the_file_holds_what_json_prints():
    said = released(release("--json", *FILES))
    assert strict(Path("answer.json").read_text()) == said
    assert said["format"] == "undertow-release"
    assert said["plan"] == PLANS["count"].fingerprint()
    assert said["ledger_entry"] == ledger().entries()[0].hash
    (number,) = said["numbers"]
    assert isinstance(number["value"], int)
    result = ledger().entries()[0].result
    assert result is not None
    assert result["numbers"] == [[number["value"]]]


def test_answers_are_near_the_truth():
    """Within the bar of a failure probability of 1e-12."""
    truth = sum(series.count("active") for series in SERIES)
    found = released(release("--json"))["numbers"][0]["value"]
    assert abs(found - truth) <= PLANS["count"].accuracy(1e-12)


def test_groups_and_states_are_numbered_one_by_one():
    result = release(plan="histogram.plan", options=(*ACTIVE, "--by", "cohort"))
    assert result.exit_code == 0
    table = [line.split() for line in result.stdout.splitlines()[-4:]]
    assert [line[:2] for line in table] == [
        ["north,", "inactive"], ["north,", "active"], ["south,", "inactive"], ["south,", "active"],
    ]  # fmt: skip
    assert all(re.fullmatch(r"-?\d+", line[2]) for line in table)


def test_windows_cost_one_and_the_same_question_again_nothing():
    """Two days of one level each: the level of every record is that of one."""
    level = exact_level(PLANS["count"])
    for window in ("2025-01-06,2025-01-07", "2025-01-07,2025-01-08", "2025-01-07,2025-01-08"):
        assert release("--window", window).exit_code == 0
    assert len(ledger().entries()) == 2
    assert ledger().level() == level


def test_the_same_command_again_gives_the_same_bytes():
    first = release(*FILES)
    before = {name: Path(name).read_bytes() for name in ("answer.json", "report.html")}
    again = release(*FILES)
    assert again.exit_code == 0
    said = [line for line in again.stdout.splitlines() if not line.startswith("  note ")]
    assert said == first.stdout.splitlines()
    assert "is given again; nothing was spent" in again.stdout
    assert {name: Path(name).read_bytes() for name in before} == before
    assert len(ledger().entries()) == 1


def test_an_id_is_a_name_for_one_question():
    assert release("--id", "week 1").exit_code == 0
    assert rows(release("--id", "week 1"))["release"].strip() == "week 1"
    other = release("--id", "week 1", plan="histogram.plan")
    assert other.exit_code == 1
    assert "'week 1' is taken" in other.stderr
    dry = release("--id", "week 1", "--dry-run", plan="histogram.plan")
    assert dry.exit_code == 1
    assert "'week 1' is taken" in dry.stderr


def test_persons_are_a_unit_of_their_own():
    refused = release(plan="person.plan")
    assert refused.exit_code == 1
    assert "protects one person, the ledger accounts by record" in refused.stderr
    said = released(release("--json", plan="person.plan", account=()))
    assert said["unit"] == "person"
    assert "histories of one person" in said["promise"]


def test_without_a_ledger_a_warning_is_given():
    result = release(account=())
    assert result.exit_code == 0
    assert result.stderr.startswith("undertow: warning: not accounted in a ledger")
    assert len(result.stderr.splitlines()) == 1
    assert released(release("--json", account=()))["ledger_entry"] is None


# --- dry run --------------------------------------------------------------------------------------


def test_a_dry_run_draws_records_and_writes_nothing(monkeypatch):
    def never(*_):
        raise AssertionError("noise was drawn")

    before, events = names(), ledger().verify()
    content = Path("year.db").read_bytes()
    monkeypatch.setattr("undertow.releasing.request.randomise", never)
    result = release("--dry-run", *FILES)
    assert result.exit_code == 0
    assert names() == before
    assert ledger().verify() == events
    assert Path("year.db").read_bytes() == content
    said = rows(result)
    assert "dry run" in result.stdout.splitlines()[0]
    assert said["writes"].strip() == "answer.json, report.html"
    assert "a DP level of 0.12" in said["spends"]
    assert "0.25" in said["left"]


def test_a_dry_run_foretells_what_is_spent():
    said = released(release("--dry-run", "--json"))
    assert said["recorded"] is False
    assert said["level"] == said["spends"] == exact_level(PLANS["count"])
    assert said["left"] == ledger().budget
    done = released(release("--json"))
    assert done["release_id"] == said["release_id"]
    assert ledger().left() == pytest.approx(said["left_after"], abs=1e-15)
    again = released(release("--dry-run", "--json"))
    assert (again["recorded"], again["spends"]) == (True, 0)
    assert "nothing: this release is recorded" in rows(release("--dry-run"))["spends"]


def test_a_dry_run_says_what_a_release_would_refuse():
    for arguments in (
        {"plan": "large.plan"},
        {"plan": "person.plan"},
        {"options": (*STEPS, "--state", "speed > 0")},
        {"data": "none.csv"},
    ):
        dry, wet = release("--dry-run", **arguments), release(**arguments)
        assert dry.exit_code == wet.exit_code == 1
        assert len(dry.stderr.splitlines()) == len(wet.stderr.splitlines()) == 1
        if "large" not in str(arguments):
            assert dry.stderr == wet.stderr


def test_a_dry_run_without_a_ledger():
    said = rows(release("--dry-run", account=()))
    assert "no ledger is given" in said["left"]
    assert released(release("--dry-run", "--json", account=()))["left"] is None


def test_a_reservation_left_by_a_crash_is_told(monkeypatch):
    def crash(*_, **__):
        raise InvalidInput("the process died here")

    with monkeypatch.context() as patched:
        patched.setattr("undertow.releasing.request.randomise", crash)
        assert release().exit_code == 1
    (entry,) = ledger().entries()
    assert entry.status == "reserved"
    assert "an interrupted run reserved it" in rows(release("--dry-run"))["spends"]
    level = ledger().level()
    assert release().exit_code == 0
    assert ledger().level() == level
    assert [e.status for e in ledger().entries()] == ["confirmed"]


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_full_disk_after_the_answer_is_repaired_by_the_same_command(monkeypatch, broken):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, broken, fail)
        result = release(*FILES)
    assert result.exit_code == 1
    assert result.stderr == (
        "undertow: cannot write answer.json: no space left on device; the answer is recorded: the "
        "same command again writes it and spends nothing\n"
    )
    assert not result.stdout
    assert names() == ["chain.json", "year.db"]
    level = ledger().level()
    said = released(release("--json", *FILES))
    assert ledger().level() == level
    result_in_ledger = ledger().entries()[0].result
    assert result_in_ledger is not None
    assert result_in_ledger["numbers"] == [[said["numbers"][0]["value"]]]
    assert Path("report.html").exists()


def test_a_crash_between_two_files_is_repaired_by_the_same_command(monkeypatch):
    from undertow.cli import files
    from undertow.cli import release as release_files

    real = files.write_bytes

    def second_fails(path, content, *, force):
        if path.name == "report.html":
            raise InvalidInput(f"cannot write {path}: no space left on device")
        real(path, content, force=force)

    with monkeypatch.context() as patched:
        patched.setattr(release_files, files.write_bytes.__name__, second_fails)
        assert release(*FILES).exit_code == 1
    first = Path("answer.json").read_bytes()
    assert release(*FILES).exit_code == 0
    assert Path("answer.json").read_bytes() == first
    assert Path("report.html").exists()


def test_a_file_of_somebody_else_is_never_replaced_unasked():
    Path("answer.json").write_text("mine")
    refused = release(*FILES)
    assert refused.exit_code == 1
    assert "answer.json exists" in refused.stderr
    assert not ledger().entries()
    release()
    refused = release(*FILES)  # the answer is recorded now, and the file is still not it
    assert refused.exit_code == 1
    assert Path("answer.json").read_text() == "mine"
    assert release(*FILES, "--force").exit_code == 0
    assert Path("answer.json").read_text() != "mine"


def test_places_are_refused_before_anything_is_spent():
    for output in ("no/such/answer.json", "folder.json", f"{'x' * 300}.json"):
        Path("folder.json").mkdir(exist_ok=True)
        result = release("--output", output)
        assert result.exit_code == 1
        assert result.stderr.startswith("undertow: cannot write")
        assert len(result.stderr.splitlines()) == 1
    assert not ledger().entries()


def test_a_read_only_folder_is_refused_before_anything_is_spent(monkeypatch):
    real = os.open

    def read_only(path, flags, *rest, **options):
        if flags & os.O_EXCL:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, *rest, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", read_only)
        result = release(*FILES)
    assert result.exit_code == 1
    assert result.stderr == "undertow: cannot write answer.json: permission denied\n"
    assert not ledger().entries()


def test_without_a_ledger_a_full_disk_shows_nothing(monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", fail)
    result = release(*FILES, account=())
    assert result.exit_code == 1
    assert "nothing was shown" in result.stderr
    assert not result.stdout
