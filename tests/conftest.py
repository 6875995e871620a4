"""What all tests share, and the summary of the soak: `make soak` writes soak/last-result.md."""

import atexit
import datetime
import gc
import os
import subprocess
import sys
import tempfile
import tomllib
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.grids import telling
from tests.remembering import Asked, Remembered

# Matrices here are small and the workers already take every core: threads of their own only wait
# for each other (a sixth of the gate). Read when numpy and torch are first loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "soak" / "last-result.md"
STATE = tempfile.TemporaryDirectory(prefix="undertow-state-")
os.environ["UNDERTOW_STATE"] = STATE.name  # what is remembered of ledgers never leaves the tests


@pytest.fixture(autouse=True)
def own_state(request):
    """Every test remembers ledgers in a folder of its own, made when the first is written.

    Nothing waits for the disk: no test cuts the power, and processes see the same without. Answers
    of other tests are used where the test changes nothing of the library.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERTOW_STATE", str(Path(STATE.name) / uuid.uuid4().hex))
        patch.setattr(os, "fsync", lambda _: None)
        for name in ("store", "memory"):
            if module := sys.modules.get(f"undertow.ledger.{name}"):
                patch.setattr(module, "DURABILITY", "OFF")
        engine: Any = sys.modules.get("undertow.bounds.engine")
        if engine is not None:
            if not isinstance(engine._answered, Remembered):
                engine._answered = Remembered(engine._answered)
            names = request.fixturenames
            changes = request.getfixturevalue("monkeypatch") if "monkeypatch" in names else None
            engine._answered.begin("anew" in names, changes)
        highs: Any = sys.modules.get("scipy.optimize._highspy._highs_wrapper")
        if not isinstance(check := getattr(highs, "check_option", None), Asked | None):
            highs.check_option = Asked(check)
        yield patch


@pytest.fixture
def anew():
    """Nothing is remembered of other tests: for those that look on while the library works."""


GATE = tomllib.loads((ROOT / "tests" / "gate.toml").read_text("utf-8"))


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(items):
    """Leave the soak what `gate.toml` says, and begin with what takes longest.

    No worker is then alone with it when the rest is done.
    """
    cases: dict[tuple[str, str], list[pytest.Function]] = {}
    for item in items:
        home = os.path.relpath(item.path, ROOT / "tests")
        named = getattr(item, "originalname", None) in GATE.get(home, ())
        if named and item.get_closest_marker("soak") is None:
            cases.setdefault((home, item.originalname), []).append(item)
    for (home, name), found in cases.items():
        names, told = [item.name for item in found], GATE[home][name]
        if isinstance(told, int):
            kept = telling(names, told)
        else:
            left = {f"{name}[{case}]" for case in told}
            kept = {number for number, one in enumerate(names) if one not in left}
        for number, item in enumerate(found):
            if number not in kept:
                item.add_marker(pytest.mark.soak)
    items.sort(key=lambda item: "spark/test_cluster" not in item.nodeid)


def pytest_collection():
    """Free nothing while tests are collected: all of it stays."""
    gc.disable()


def pytest_collection_finish():
    """Leave what was collected, millions of objects, out of what is freed later, until the end."""
    gc.enable()
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)
    gc.set_threshold(10_000, 20, 50)


def commit():
    """The commit that was tested, and whether the sources had changed since."""

    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()

    later = " and later changes" if git("status", "--porcelain", "--", "src") else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + later


def sections(text):
    """The parts of a summary by their headings, in order."""
    found: dict[str, str] = {}
    for part in text.split("\n## ")[1:]:
        heading, _, body = part.partition("\n")
        found[heading] = body.strip()
    return found


@pytest.fixture(scope="session")
def lines():
    """The lines of the summary; written when the session is done, whatever happened.

    A section replaces the one of an earlier run; sections that did not run stay as they were.
    """
    found: list[str] = []
    yield found
    new = sections("\n" + "\n".join(found))
    if not new:
        return
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    told = {name: f"Run on {today}, commit {commit()}.\n\n{body}" for name, body in new.items()}
    before = sections(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    text = "".join(f"\n## {name}\n\n{body}\n" for name, body in (before | told).items())
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text("# Last soak\n" + text, encoding="utf-8")
