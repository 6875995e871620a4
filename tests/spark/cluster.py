"""One small cluster for all tests of Spark: two workers, with machines of their own in the soak."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from undertow.integrations import spark_session

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a cluster of seconds compiles no more than this
ONE_MACHINE = "local[2,2]"  # two tasks at a time, each of which may fail once
MACHINES = "local-cluster[2,1,1024]"  # executors of their own: three times as many Javas to start
SETTINGS = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.task.maxFailures": "2",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),  # for steps of these tests
}
INTERPRETED = {  # compiling the plan of a few rows takes longer than running it; the soak compiles
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def needs_spark() -> None:
    """Skip where Spark cannot run; in continuous integration that is a failure."""
    lacking = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    lacking += [] if shutil.which("java") else ["a Java runtime (scripts/system-deps)"]
    if lacking and os.environ.get("CI") == "true":
        pytest.fail(f"the gate tests Spark, and lacks {', '.join(lacking)}", pytrace=False)
    if lacking:
        pytest.skip(f"Spark needs {', '.join(lacking)}")


@contextmanager
def cluster(folder: Path, master: str = MACHINES, **settings: str) -> Iterator[Any]:
    """Start the cluster, and stop it; its files are written to a folder that goes away."""
    os.environ["SPARK_WORKER_DIR"] = str(folder / "workers")
    own = {
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    compiled = INTERPRETED if master == ONE_MACHINE else {}
    session = spark_session(master, **(SETTINGS | compiled | own | settings))
    try:
        yield session
    finally:
        session.stop()


def spread(session: Any, frame: pl.DataFrame) -> Any:
    """Return a frame of Polars as one of Spark, a half of the rows with each worker."""
    from pyspark.sql.pandas.types import from_arrow_schema

    held = frame.to_arrow()
    # a time without a zone stays one
    return session.createDataFrame(held, from_arrow_schema(held.schema))


class Waiting:
    """A step of a frame that waits until its worker is killed: once, after it was told to."""

    def __init__(self, marker: Path, told: Path) -> None:
        self.marker, self.told = str(marker), str(told)

    def __call__(self, batches: Any) -> Iterator[Any]:
        for place, batch in enumerate(batches):
            if place == 0 and Path(self.told).exists():
                self._wait()
            yield batch

    def _wait(self) -> None:
        try:
            held = os.open(self.marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return
        os.write(held, str(os.getpid()).encode())
        os.close(held)
        parent, end = os.getppid(), time.monotonic() + 120
        while os.getppid() == parent and time.monotonic() < end:
            time.sleep(0.05)
        os._exit(1)


def kill_worker(marker: Path, patience: float = 120) -> int:
    """Kill the executor whose task waits, or its Python on one machine; return its number."""
    end = time.monotonic() + patience
    while not (marker.exists() and marker.read_text()):
        assert time.monotonic() < end, "no task has come to wait"
        time.sleep(0.05)
    worker = int(marker.read_text())
    number = _parent(_parent(worker))  # of the worker, and of its daemon
    if "CoarseGrainedExecutorBackend" not in Path(f"/proc/{number}/cmdline").read_text():
        number = worker
    os.kill(number, signal.SIGKILL)
    return number


def _parent(number: int) -> int:
    status = Path(f"/proc/{number}/status").read_text()
    return int(next(x for x in status.splitlines() if x.startswith("PPid:")).split()[1])
