"""`undertow studio` as a process: it prints its address, answers, and ends on Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.studio.conftest import found
from undertow.errors import InvalidInput
from undertow.serving.http import listening

ROOT = Path(__file__).parents[2]


@pytest.fixture
def running(tmp_path):
    """Return how to start the command; it is ended with the test."""
    started = []

    def start(*options):
        code = "from undertow.cli import main; main()"
        places = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        told = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": places}
        one = subprocess.Popen(
            [sys.executable, "-c", code, "studio", "--no-browser", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=told, cwd=tmp_path,
        )  # fmt: skip
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.communicate()


def test_it_prints_its_address_answers_and_ends_cleanly(running, tmp_path):
    one = running("--demo")
    address = found(r"(http://127\.0\.0\.1:\d+/\?token=\S+)", one.stdout.readline())
    assert "Ctrl-C" in one.stdout.readline()
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(address)
        assert page.status_code in (200, 202)
        assert "token" not in str(page.url)
        assert page.url.path.endswith("/depends")
        assert list(tmp_path.glob("undertow-studio-*"))
    one.send_signal(signal.SIGINT)
    _, complained = one.communicate(timeout=60)
    assert one.returncode == 0, complained
    assert not complained
    assert not list(tmp_path.glob("undertow-studio-*"))


def test_a_port_that_is_taken_is_refused_in_words():
    with listening("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(InvalidInput, match="cannot listen"):
            listening("127.0.0.1", taken.getsockname()[1])


def test_files_and_accounts_that_are_not_there_are_refused_before_anything_is_served(running):
    for options in (["nowhere.csv"], ["--ledger", "nowhere.db", "--dataset", "w25"]):
        one = running(*options)
        said, complained = one.communicate(timeout=60)
        assert one.returncode == 1
        assert "nowhere" in complained
        assert "http" not in said
    one = running("--ledger", "year.db")
    one.communicate(timeout=60)
    assert one.returncode == 2
