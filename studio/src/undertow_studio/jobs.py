"""Long work in processes of its own, which pages watch and cancel.

A worker is a process that waits for a call, makes it, and sends its progress, then the result or
the refusal. Workers are used again; one that was cancelled or has died is replaced. The same piece
of work, by its key, is done once: a page that is loaded again finds it.
"""

import multiprocessing
import os
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from multiprocessing.connection import Connection
from secrets import token_urlsafe
from typing import Any, Literal

from undertow.errors import UndertowError
from undertow.progress import Step, watching
from undertow_studio.rendering import in_words

__all__ = ["Job", "Jobs"]

Status = Literal["waiting", "running", "done", "refused", "failed", "cancelled"]
ENDED = ("done", "refused", "failed", "cancelled")

_KEPT = 200
"""Pieces of work whose results are kept."""
_APART = 0.1
"""Seconds between two words about progress."""


class Job:
    """One piece of work: how far it is, and what came of it."""

    def __init__(self, key: Hashable, call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.id, self.key = token_urlsafe(12), key
        self.call, self.arguments = call, arguments
        self.status: Status = "waiting"
        self.step: Step | None = None
        self.result: Any = None
        self.reason = ""
        self.began = time.monotonic()
        self._ended = threading.Event()
        self._worker: _Worker | None = None
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""
        return self.status in ENDED

    @property
    def seconds(self) -> int:
        """How long it has taken so far."""
        return int(time.monotonic() - self.began)

    def wait(self, seconds: float) -> bool:
        """Return whether it has ended, after waiting for that for some time."""
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """End the work and the process that does it."""
        with self._lock:
            self._settle("cancelled", reason="the work was cancelled")
            if self._worker is not None:
                self._worker.kill()

    def run(self, worker: "_Worker") -> None:
        """Run the call in a worker, and receive its messages until the end."""
        with self._lock:
            if self.ended:
                return
            self.status, self._worker = "running", worker
        try:
            worker.begin(self.call, self.arguments)
            while not self.ended:
                kind, content = worker.next()
                if kind == "step":
                    self.step = content
                else:
                    self._finish(kind, content)
        except (EOFError, OSError):
            worker.kill()
            with self._lock:
                self._settle(
                    "failed", reason="the process that did this ended; the studio goes on: try "
                    "again, with fewer records or a simpler question if it happens again",
                )  # fmt: skip

    def _finish(self, kind: Status, content: Any) -> None:
        with self._lock:
            if kind == "done":
                self._settle(kind, result=content)
            else:
                self._settle(kind, reason=content)

    def _settle(self, status: Status, *, result: Any = None, reason: str = "") -> None:
        if not self.ended:
            self.result, self.reason, self.status = result, reason, status
            self.arguments = ()
            self._ended.set()


class Jobs:
    """The pieces of work of a studio, each done once, at most ``workers`` at a time.

    Work that nobody waits for (``later``) is done one at a time beside them, so that it keeps
    nobody waiting.
    """

    def __init__(self, workers: int = 2) -> None:
        self._lock, self._room = threading.Lock(), threading.Semaphore(workers)
        self._later = threading.Semaphore(1)
        self._idle: list[_Worker] = []
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._keys: dict[Hashable, str] = {}
        self._closed = False

    def warm(self) -> None:
        """Start a worker, so that the first piece of work finds one."""
        worker = _Worker()
        with self._lock:
            self._idle.append(worker)

    def find(self, job: str) -> Job | None:
        """Return the work of that name, None if it is not known (any more)."""
        with self._lock:
            return self._jobs.get(job)

    def known(self, key: Hashable) -> Job | None:
        """Return the work with that key, None if it was never begun."""
        with self._lock:
            return self._jobs.get(self._keys.get(key, ""))

    def ask(
        self, key: Hashable, call: Callable[..., Any], *arguments: Any, later: bool = False
    ) -> Job:
        """Return the work with that key, begun now unless it was begun before.

        ``call`` is a function of a module, ``arguments`` can be sent to another process. What was
        cancelled, or has failed, is begun again.
        """
        with self._lock:
            job_before = self._jobs.get(self._keys.get(key, ""))
            if job_before is not None and job_before.status not in ("failed", "cancelled"):
                self._jobs.move_to_end(job_before.id)
                return job_before
            job = Job(key, call, arguments)
            self._jobs[job.id], self._keys[key] = job, job.id
            while len(self._jobs) > _KEPT:
                _, old = self._jobs.popitem(last=False)
                if self._keys.get(old.key) == old.id:
                    del self._keys[old.key]
        threading.Thread(target=self._do, args=(job, later), daemon=True).start()
        return job

    def forget(self, key: Hashable) -> None:
        """Forget the work with that key, so that it can be begun again."""
        with self._lock:
            self._keys.pop(key, None)

    def close(self) -> None:
        """End all work and all workers."""
        with self._lock:
            self._closed = True
            jobs, idle = list(self._jobs.values()), list(self._idle)
            self._idle.clear()
        for job in jobs:
            if not job.ended:
                job.cancel()
        for worker in idle:
            worker.kill()

    def _do(self, job: Job, later: bool) -> None:
        with self._later if later else self._room:
            if job.ended:
                return
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            if worker is None or not worker.alive:
                worker = _Worker()
            job.run(worker)
            with self._lock:
                keep = worker.alive and job.status != "cancelled" and not self._closed
                if keep:
                    self._idle.append(worker)
            if not keep:
                worker.kill()


class _Worker:
    """A process that makes calls, one after the other."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=work, args=(there,), daemon=True)
        self._process.start()
        there.close()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def begin(self, call: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._here.send((call, arguments))

    def next(self) -> tuple[Any, Any]:
        message: tuple[Any, Any] = self._here.recv()
        return message

    def kill(self) -> None:
        self._process.kill()
        self._process.join(5)


def work(wire: Connection) -> None:
    """Make the calls that come over a wire, until it is closed."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends the workers
    warnings.simplefilter("ignore")  # what a warning says is said on the page
    threading.Thread(target=_end_with_the_studio, daemon=True).start()
    while True:
        try:
            call, arguments = wire.recv()
        except EOFError:
            return
        reporter = _Teller(wire)
        try:
            with watching(reporter):
                wire.send(("done", call(*arguments)))
        except (UndertowError, MemoryError) as error:
            wire.send(("refused", in_words(error)))
        except Exception as error:  # noqa: BLE001  (its words may quote the data: only its kind is told)
            wire.send(
                ("failed", f"this failed in a way that it should not ({type(error).__name__})")
            )


def _end_with_the_studio() -> None:
    """End this process when the studio has ended, also if it was killed.

    What a release has reserved by then is finished by the next run, as after any crash.
    """
    studio = multiprocessing.parent_process()
    if studio is not None:
        studio.join()
        os._exit(1)


class _Teller:
    """Sends what is being done, not too often."""

    def __init__(self, wire: Connection) -> None:
        self._wire, self._last = wire, 0.0

    def __call__(self, step: Step) -> None:
        now = time.monotonic()
        if now - self._last >= _APART:
            self._last = now
            self._wire.send(("step", step))
