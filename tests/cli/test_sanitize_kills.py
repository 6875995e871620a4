"""`undertow sanitize` killed anywhere: one draw is seen by others, charged once, and published.

A process is killed at a checkpoint of the ledger or of the files. Then nobody but its owner may be
able to read a draw, except the one that is recorded; and the same command again ends with that
one published.
"""

import hashlib
import os
import stat
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import apart, rows, strict
from tests.cli.local_scenario import ACCOUNT, LOCAL, WIDE, names, refused, run, scenario, studio
from tests.cli.scenario import ACTIVE, ledger
from tests.cli.test_sanitize import OUT, done, sanitize
from tests.processes import die_at_checkpoint
from undertow.releasing.drafts import FOLDER
from undertow.releasing.series import fingerprint

__all__ = ["scenario", "studio"]

pytestmark = [
    pytest.mark.usefixtures("studio"),
    pytest.mark.skipif(os.name != "posix", reason="rights of files are those of POSIX"),
]

BEFORE = (
    "reserve-begun", "reserve-written", "reserve-committed", "draft-begun", "draft-written",
    "confirm-begun", "confirm-written",
)  # fmt: skip
AFTER = ("confirm-committed", "publish-begun", "publish-named")
REPORTED = (*OUT, "--report", "r.txt")
PUBLIC = stat.S_IROTH | stat.S_IRGRP


def killed(point, *arguments, count=1, umask=0o000, account=ACCOUNT, files=REPORTED):
    """Kill a run at a checkpoint, when it is passed for the ``count``-th time."""
    asked = ("sanitize", "steps.csv", "--plan", "flips.plan", *ACTIVE, *account, *files)
    done = apart(*asked, *arguments, prepare=(die_at_checkpoint, point, count, umask))
    assert done.returncode == 9, (done.returncode, done.stderr)
    assert not done.stdout


def draws(folder="."):
    """The hashes of all tables of states under a folder that others can read."""
    found = set()
    for path in Path(folder).rglob("*"):
        if not path.is_file() or path.name in ("steps.csv", "zeros.csv", "missing.csv", "odd.csv"):
            continue
        others = path.stat().st_mode & PUBLIC
        inside = [parent for parent in path.parents if parent.name == FOLDER]
        closed = any(not parent.stat().st_mode & 0o077 for parent in inside)
        content = path.read_bytes()
        if content.startswith(b"id,ts,steps") and others and not closed:
            found.add(hashlib.sha256(content).hexdigest())
    return found


def private():
    """The drafts that are there, after a look at their rights."""
    folder = Path(FOLDER)
    if not folder.exists():
        return []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    drafts = sorted(folder.iterdir())
    assert all(stat.S_IMODE(draft.stat().st_mode) == 0o600 for draft in drafts)
    return drafts


def assert_published(account=ACCOUNT, path="year.db"):
    """The outputs are those on record, charged once, and nothing is left behind."""
    (entry,) = ledger(path).entries()
    assert entry.result is not None
    data = ut.Data("out.csv", value="steps", person="id", time="ts")
    assert entry.result["sha256"] == fingerprint(data, LOCAL["flips"])
    assert ledger(path).level() == entry.level
    assert draws() == {entry.result["files"]["output.csv"]}
    assert not Path(FOLDER).exists()


POINTS = [(point, 1) for point in (*BEFORE, *AFTER)]
POINTS += [("draft-written", 2), ("publish-begun", 2), ("publish-named", 2)]


@pytest.mark.parametrize(("point", "count"), POINTS)
def test_killed_anywhere_one_draw_is_charged_and_published(point, count):
    killed(point, count=count)
    kept = private() if point != "publish-named" or count == 1 else []
    recorded = ledger().entries()[0].result if ledger().entries() else None
    assert (recorded is not None) == (point in AFTER)
    assert draws() <= ({recorded["files"]["output.csv"]} if recorded else set())
    if recorded is None:
        assert not Path("out.csv").exists()
    result = done(sanitize(*REPORTED, account=ACCOUNT))
    assert_published()
    assert Path("r.txt").exists()
    assert names() == ["out.csv", "r.txt"]
    assert not any(draft.exists() for draft in kept)
    if recorded is None:
        assert "recorded earlier" not in rows(result)
        return
    assert ledger().entries()[0].result == recorded
    assert "this is what was drawn" in rows(result)["recorded earlier"]
    assert rows(result)["entry"].strip() == ledger().entries()[0].hash
    assert not result.stderr


def test_killed_again_and_again_one_draft_is_there_at_most():
    """Four runs that draw and are killed: each removes what the one before has left.

    All draw the same, and so does the run that ends.
    """
    seen, content = set(), set()
    for _ in range(4):
        killed("confirm-begun", files=OUT)
        (draft,) = private()
        seen.add(draft.name)
        content.add(draft.read_bytes())
        assert not draws()
    assert (len(seen), len(content)) == (4, 1)
    done(sanitize(*OUT, account=ACCOUNT))
    assert_published()
    assert {Path("out.csv").read_bytes()} == content


def test_drafts_without_a_ledger_go_with_the_next_run():
    for _ in range(2):
        killed("publish-begun", account=(), files=OUT)
        assert len(private()) == 1
        assert not draws()
    done(sanitize("--output", "other.csv"))
    assert len(private()) == 1  # of another output
    done(sanitize(*OUT))
    assert names() == ["other.csv", "out.csv"]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277], ids=oct)
def test_drafts_are_private_and_outputs_have_the_rights_of_new_files(umask):
    killed("confirm-committed", umask=umask, files=OUT)
    assert len(private()) == 1
    before = os.umask(0o027)
    try:
        done(sanitize(*OUT, account=ACCOUNT))
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path("out.csv").stat().st_mode) == 0o640
    assert not Path(FOLDER).exists()


def test_a_recorded_release_may_be_published_under_another_name_beside_it():
    killed("confirm-committed", files=OUT)
    Path("out.csv").write_text("mine")
    said = refused(sanitize(*OUT, account=ACCOUNT))
    assert "out.csv exists" in said
    assert "its outputs are kept" in said
    assert len(private()) == 1
    assert Path("out.csv").read_text() == "mine"
    told = strict(done(sanitize("--output", "b.csv", "--json", account=ACCOUNT)).stdout)
    assert told["recorded_earlier"] is True
    recorded = ledger().entries()[0].result
    assert told["sha256"] == recorded["sha256"]
    assert draws() == {recorded["files"]["output.csv"]}


@pytest.mark.parametrize("point", ["confirm-committed", "wipe-begun"])
def test_a_key_that_was_left_goes_when_the_ledger_is_looked_at(point):
    """Nobody repeats the command: 'ledger show' is enough."""
    killed(point, files=OUT)
    keys = Path(os.environ["UNDERTOW_STATE"]) / "ledgers.db.keys"
    assert len([*keys.iterdir()]) == 1
    assert apart("ledger", "show", "year.db").returncode == 0
    assert not [*keys.iterdir()]


def test_what_was_not_drawn_then_cannot_be_published_now():
    killed("confirm-committed", files=OUT)
    Path("elsewhere").mkdir()
    for files in (("--output", "out.parquet"), REPORTED, ("--output", "elsewhere/out.csv")):
        for extra in ((), ("--dry-run",)):
            assert "was made already" in refused(sanitize(*files, *extra, account=ACCOUNT))
    assert len(private()) == 1
    Path(private()[0]).write_bytes(b"id,ts,steps\n")  # no longer what is on record
    assert "was made already" in refused(sanitize(*OUT, account=ACCOUNT))
    assert not Path("out.csv").exists()


def test_a_dry_run_foretells_that_a_recorded_release_is_published():
    killed("confirm-committed", files=OUT)
    told = rows(done(sanitize(*OUT, "--dry-run", account=ACCOUNT)))
    assert "recorded by an earlier run, whose outputs are published" in told["spends"]
    assert len(private()) == 1
    done(sanitize(*OUT, account=ACCOUNT))
    again = rows(done(sanitize(*OUT, account=ACCOUNT)))  # the very file is there
    assert "this is what was drawn" in again["recorded earlier"]
    assert_published()


def test_drafts_of_a_living_process_are_left_alone(monkeypatch):
    """Another run of the same release, while this one is between its draft and its record.

    Both draw under the key of the release: what they publish is the same.
    """
    from undertow.cli import sanitization as local_release

    real = local_release.record
    others: list[str] = []

    def slow(*given):
        if not others:
            others.append("theirs.csv")
            done(sanitize("--output", "theirs.csv", account=ACCOUNT))
            assert len(private()) == 1
        real(*given)

    monkeypatch.setattr(local_release, "record", slow)
    done(sanitize("--output", "mine.csv", account=ACCOUNT))
    assert names() == ["mine.csv", "theirs.csv"]
    (entry,) = ledger().entries()
    assert entry.result is not None
    assert draws() == {entry.result["files"]["output.csv"]}


def test_a_record_that_may_have_been_made_keeps_its_drafts(monkeypatch):
    """The answer of the database is lost after it has committed."""
    from undertow.errors import LedgerUnavailable
    from undertow.ledger.book import Ledger

    real = Ledger.confirm

    def lost(self, *given):
        real(self, *given)
        raise LedgerUnavailable("cut off")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "confirm", lost)
        assert "cut off" in refused(sanitize(*OUT, account=ACCOUNT))
    assert len(private()) == 1
    done(sanitize(*OUT, account=ACCOUNT))
    assert_published()


def test_a_folder_of_drafts_that_is_no_folder_of_ours_is_refused_first():
    Path("shared").mkdir()
    Path(FOLDER).symlink_to("shared")
    said = refused(sanitize(*OUT, account=ACCOUNT))
    assert "not a folder of your own" in said
    assert not ledger().entries()
    Path(FOLDER).unlink()
    Path(FOLDER).mkdir(mode=0o777)
    Path(FOLDER).chmod(0o777)
    killed("confirm-committed", files=OUT)
    assert len(private()) == 1


@pytest.mark.parametrize("point", ["draft-written", "confirm-committed", "publish-named"])
def test_redactions_too(point):
    files = (*OUT, "--figure", "f.svg")
    asked = ("sanitize", "steps.csv", "--plan", "erasures.plan", *ACTIVE, *WIDE, *files)
    assert apart(*asked, prepare=(die_at_checkpoint, point, 1, 0o000)).returncode == 9
    if point != "publish-named":
        assert len(private()) == 1 + (point != "draft-written")
    done(run("sanitize", *files, plan="erasures.plan", account=WIDE))
    (entry,) = ledger("wide.db").entries()
    assert entry.result is not None
    assert set(entry.result["files"]) == {"output.csv", "figure.svg"}
    for role, name in (("output.csv", "out.csv"), ("figure.svg", "f.svg")):
        content = Path(name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry.result["files"][role]
    assert names() == ["f.svg", "out.csv"]
