"""Work in processes of its own: results, refusals, crashes, cancelling, and one at a time."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.studio import work_to_do as todo
from undertow_studio.jobs import Jobs


@pytest.fixture(scope="module")
def jobs():
    made = Jobs(workers=1)
    yield made
    made.close()


def test_a_result_comes_back_and_is_computed_once(jobs):
    first = jobs.ask("sum", todo.add, 2, 3)
    assert first.wait(60)
    assert (first.status, first.result) == ("done", 5)
    assert jobs.ask("sum", todo.add, 9, 9) is first
    jobs.forget("sum")
    assert jobs.ask("sum", todo.add, 9, 9) is not first


def test_a_refusal_says_why_and_a_defect_says_its_kind_and_nothing_it_saw(jobs):
    refused = jobs.ask("refused", todo.refuse)
    assert refused.wait(60)
    assert (refused.status, refused.reason) == ("refused", "choose another column")
    failed = jobs.ask("failed", todo.fail, "CANARY-4711")
    assert failed.wait(60)
    assert failed.status == "failed"
    assert "CANARY" not in failed.reason
    assert "ZeroDivisionError" in failed.reason


def test_progress_is_told_and_work_can_be_cancelled(jobs):
    job = jobs.ask("long", todo.count_for_long)
    until = time.monotonic() + 60
    while job.step is None and time.monotonic() < until:
        time.sleep(0.02)
    assert job.step is not None
    assert job.step.words == "counting"
    job.cancel()
    assert job.status == "cancelled"
    after = jobs.ask("after", todo.add, 1, 1)  # the only worker is replaced
    assert after.wait(60)
    assert after.result == 2
    again = jobs.ask("long", todo.add, 1, 2)  # what was cancelled is begun again
    assert again.wait(60)
    assert again.result == 3


def test_a_process_that_dies_takes_nothing_with_it(jobs):
    job = jobs.ask("dies", todo.die)
    assert job.wait(60)
    assert job.status == "failed"
    assert "ended" in job.reason
    after = jobs.ask("process", todo.process)
    assert after.wait(60)
    assert after.result != os.getpid()


ROOT = Path(__file__).parents[2]
KILLED = """
import os, signal
from tests.studio.work_to_do import process, say_nothing_for_long
from undertow_studio.jobs import Jobs

if __name__ == "__main__":
    jobs = Jobs()
    first = jobs.ask("first", process)
    while not first.ended:
        pass
    long = jobs.ask("long", say_nothing_for_long)
    while long.status != "running":
        pass
    print(first.result, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_studio_that_is_killed(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    told = tmp_path / "told"  # no pipe: a worker that lives on would hold it open
    with told.open("w") as out:
        done = subprocess.run(
            [sys.executable, script], stdout=out, stderr=out, check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, told.read_text()
    state = Path(f"/proc/{int(told.read_text())}/stat")
    end = time.monotonic() + 120
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end, "the worker outlives its studio"
        time.sleep(0.05)
