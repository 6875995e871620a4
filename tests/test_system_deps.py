"""What `scripts/system-deps` does where something is missing: stubs stand for the system."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "system-deps"
TOOLS = ("cat", "grep", "head", "sed", "sh", "touch")
STUBS = {
    # there once its package is installed
    "java": 'test -e "$HERE/installed" && echo \'openjdk version "17.0.9" 2023-10-17\' >&2',
    "chromium": "true",
    "cc": "true",
    "id": 'echo "$WHO"',
    "apt-get": 'echo "apt-get $*" >>"$HERE/calls"; test "$1" = update || touch "$HERE/installed"',
    "apt-cache": 'test "$2" = "$KNOWN" && echo "  Candidate: 17" || echo "  Candidate: (none)"',
}


@pytest.fixture
def system(tmp_path):
    """Run the script on a system of stubs, and return its exit code, its words and its installs."""
    for name in TOOLS:
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    for name, body in STUBS.items():
        (tmp_path / name).write_text(f"#!{shutil.which('sh')}\n{body}\n")
        (tmp_path / name).chmod(0o755)

    def run(user="0", known="openjdk-17-jre-headless"):
        given = {"PATH": str(tmp_path), "HERE": str(tmp_path), "WHO": user, "KNOWN": known}
        done = subprocess.run(
            [str(shutil.which("sh")), SCRIPT],
            env=given,
            capture_output=True,
            text=True,
            check=False,
        )
        calls = tmp_path / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return done.returncode, done.stdout + done.stderr, [x for x in lines if "install" in x]

    return run


def test_what_is_missing_is_installed_once(system):
    code, words, calls = system()
    assert code == 0
    assert "installing openjdk-17-jre-headless" in words
    assert len(calls) == 1
    code, words, calls = system()
    assert (code, calls) == (0, [])
    assert "already there" in words


def test_without_root_it_says_so_and_installs_nothing(system):
    code, words, calls = system(user="1000")
    assert (code, calls) == (1, [])
    assert "as root" in words


def test_the_gate_calls_it_first():
    lines = (SCRIPT.parents[1] / ".ci" / "run").read_text("utf-8").splitlines()
    assert lines.index("scripts/system-deps") < lines.index("make test")
    assert os.access(SCRIPT, os.X_OK)


def test_a_compiler_that_is_missing_is_installed(system, tmp_path):
    (tmp_path / "installed").touch()
    (tmp_path / "cc").rename(tmp_path / "elsewhere")
    code, words, calls = system(known="gcc")
    assert "a C compiler, for the verifier of certificates: installing gcc" in words
    assert len(calls) == 1
    assert code == 1  # the stub installs nothing
    (tmp_path / "elsewhere").rename(tmp_path / "gcc")
    assert system()[0] == 0


def test_a_browser_that_is_missing_is_installed(system, tmp_path):
    (tmp_path / "installed").touch()  # Java is there
    (tmp_path / "chromium").rename(tmp_path / "chromium-elsewhere")
    code, words, calls = system(known="chromium")
    assert "installing chromium" in words
    assert len(calls) == 1
    assert code == 1  # the stub installs nothing
    (tmp_path / "chromium-elsewhere").rename(tmp_path / "chromium-browser")
    assert system()[0] == 0
