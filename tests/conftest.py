"""What all tests share, and the summary of the soak: `make soak` writes soak/last-result.md."""

import datetime
import os
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest
from hypothesis import settings

# Matrices here are small and the workers already take every core: threads of their own only wait
# for each other. Read when numpy and torch are first loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "soak" / "last-result.md"
# No test looks at the clock: other processes may take the machine for seconds.
settings.register_profile("undertow", deadline=None)
settings.load_profile("undertow")

STATE = tempfile.TemporaryDirectory(prefix="undertow-state-")
os.environ["UNDERTOW_STATE"] = STATE.name  # what is remembered of ledgers stays in this run


@pytest.fixture(autouse=True)
def own_state(monkeypatch):
    """Give every test a state folder of its own, made when the first ledger is written."""
    monkeypatch.setenv("UNDERTOW_STATE", str(Path(STATE.name) / uuid.uuid4().hex))


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
