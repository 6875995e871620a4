"""Spark: the same numbers, refusals and flips as in memory, on a cluster that is killed in parts.

Starting a cluster takes most of the time of these tests, so one test starts one, and runs all that
`tests.spark.checks` and `output_checks` list, each as a subtest: in the gate on one machine, where
a worker that is killed is a process of Python, and in the soak with executors that are killed.
"""

import os
import time

import pytest

from tests.spark import output_checks  # noqa: F401  (adds its own to the list)
from tests.spark.checks import CHECKS, SECRET
from tests.spark.cluster import ONE_MACHINE, cluster, needs_spark

ONLY = os.environ.get("UNDERTOW_SPARK_CHECKS", "")
"""A part of the name of the checks to run: for whoever works on one of them."""

TELLING = {
    "answers_are_those_of_a_frame_in_memory",
    "what_is_written_is_one_set_of_flips",
    "a_ledger_stands_at_the_driver",
    "a_worker_that_is_killed_loses_and_adds_nothing",
    "records_that_change_between_readings_are_not_released",
}
"""What the gate runs on one machine: each takes seconds. All of them run in the soak.

What is done with one partition, and how the parts are joined, is tested without a cluster in
`tests/spark/test_partitions.py`.
"""


@pytest.mark.parametrize("master", [ONE_MACHINE])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_on_a_cluster(master, subtests, tmp_path, capfd):
    needs_spark()
    names = {check.__name__ for check in CHECKS}
    assert names >= TELLING
    wanted = TELLING if master == ONE_MACHINE and not ONLY else names
    chosen = [check for check in CHECKS if ONLY in check.__name__ and check.__name__ in wanted]
    begun = time.monotonic()
    with cluster(tmp_path / "cluster", master) as session:
        took = {"start": time.monotonic() - begun}
        for check in chosen:
            with subtests.test(check.__name__):
                begun = time.monotonic()
                folder = tmp_path / check.__name__[:40]
                folder.mkdir()
                check(session, folder)
                took[check.__name__] = time.monotonic() - begun
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err  # whatever else Spark and its loggers say
    print({name: round(seconds, 1) for name, seconds in took.items()})
