"""`undertow sanitize`: files come whole or not at all, and what was paid for is never lost."""

import errno
import os
from pathlib import Path

import pytest

import undertow as ut
from tests.cli.calls import rows
from tests.cli.local_scenario import ACCOUNT, LOCAL, names, refused, scenario, studio
from tests.cli.scenario import ledger
from tests.cli.test_sanitize import OUT, done, sanitize
from undertow.releasing.series import fingerprint

__all__ = ["scenario", "studio"]

pytestmark = pytest.mark.usefixtures("studio")


@pytest.mark.parametrize("account", [(), ACCOUNT], ids=["no ledger", "ledger"])
def test_a_full_disk_leaves_nothing_and_the_same_command_again_is_free(monkeypatch, account):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def reached(point):
        if point == "draft-begun":
            patched.setattr(os, "fsync", fail)

    with monkeypatch.context() as patched:
        patched.setattr("undertow.ledger.reached", reached)
        said = refused(sanitize(*OUT, account=account))
    assert said.startswith("undertow: cannot write out.csv: no space left on device; ")
    assert "nothing was released" in said
    assert not names()
    assert [entry.status for entry in ledger().entries()] == ["reserved"] * bool(account)
    if account:
        assert "interrupted run" in rows(sanitize(*OUT, "--dry-run", account=account))["spends"]
    level = ledger().level()
    done(sanitize(*OUT, account=account))
    assert ledger().level() == level
    assert names() == ["out.csv"]


def test_outputs_that_are_recorded_are_not_lost(monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        said = refused(sanitize(*OUT, account=ACCOUNT))
    assert "the release is recorded, and its outputs are kept" in said
    assert names() == [".undertow-drafts"]
    done(sanitize(*OUT, account=ACCOUNT))
    data = ut.Data("out.csv", value="steps", person="id", time="ts")
    result = ledger().entries()[0].result
    assert result is not None
    assert result["sha256"] == fingerprint(data, LOCAL["flips"])
    assert names() == ["out.csv"]


def test_without_a_ledger_nothing_is_kept(monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "replace", fail)
    assert "cannot write out.csv" in refused(sanitize(*OUT))
    assert not names()


def test_files_that_are_there_stay():
    Path("out.csv").write_text("mine")
    for extra in ((), ("--dry-run",)):
        assert "out.csv exists" in refused(sanitize(*OUT, *extra, account=ACCOUNT))
    assert Path("out.csv").read_text() == "mine"
    assert not ledger().entries()
    done(sanitize(*OUT, "--force"))
    assert Path("out.csv").read_text() != "mine"


def test_a_file_that_appears_meanwhile_stays(monkeypatch):
    from undertow.sampling.keyed import randomised as real

    def slow(*arguments):
        Path("out.csv").write_text("mine")
        return real(*arguments)

    monkeypatch.setattr("undertow.releasing.series.randomised", slow)
    assert "out.csv exists" in refused(sanitize(*OUT))
    assert Path("out.csv").read_text() == "mine"


def test_places_are_refused_before_anything_is_spent():
    Path("folder.csv").mkdir()
    for output in ("no/such/out.csv", "folder.csv", f"{'x' * 300}.csv"):
        said = refused(sanitize("--output", output, account=ACCOUNT))
        assert said.startswith("undertow: cannot write")
    assert not ledger().entries()


def test_what_is_read_is_never_written_over():
    before = Path("steps.csv").read_bytes()
    Path("link.csv").symlink_to("steps.csv")
    Path("p.csv").write_text(Path("flips.plan").read_text())
    for output, options in (
        ("steps.csv", {}),
        ("./x/../steps.csv", {}),
        ("link.csv", {}),
        ("p.csv", {"plan": "p.csv"}),
    ):
        result = sanitize("--output", output, "--force", **options)
        assert result.exit_code == 2
        assert "named twice" in result.stderr
    assert Path("steps.csv").read_bytes() == before
