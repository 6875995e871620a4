"""The summary of the soak: `make soak` writes what its runs saw to soak/last-result.md."""

import datetime
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "soak" / "last-result.md"


def commit():
    """The commit that was tested, and whether the sources had changed since."""

    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip()

    later = " and later changes" if git("status", "--porcelain", "--", "src") else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + later


@pytest.fixture(scope="session")
def lines():
    """The lines of the summary; written when the session is done, whatever happened."""
    found: list[str] = []
    yield found
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = ["# Last soak", "", f"Date {today}, commit {commit()}.", ""]
    if found:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text("\n".join([*head, *found]).rstrip() + "\n", encoding="utf-8")
