"""What is shown on stderr while something takes its time: what is done, how far it is, how long.

On a terminal one line that changes, once two seconds have passed. Elsewhere plain lines, few of
them, if they were asked for with ``--progress``. After ten seconds, terminal or not, one line says
what is being done and which option is faster, unless ``--no-progress`` forbids it. Never anything
on stdout.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Annotated

import typer

from undertow import progress
from undertow.progress import Step, Watch
from undertow.rounding import visible

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "INTERRUPTED",
    "ProgressOption",
    "Shown",
    "counting",
    "remaining",
    "ticking",
    "waiting",
    "wanting",
]

INTERRUPTED = 130
"""The exit code after an interrupt (Ctrl-C), as shells have it: 128 + SIGINT."""

ProgressOption = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Say on stderr how far long work is; by default on a terminal only, and one line "
        "elsewhere after ten seconds.",
        show_default=False,
    ),
]

_PATIENCE = 2.0
"""Seconds before a terminal shows anything: a quick answer needs no progress."""

_LONG = 10.0
"""Seconds after which it is said what takes so long, and what would be faster."""

_EVERY, _APART = 5.0, 1.0
"""Seconds between plain lines, and at least between those of different stages."""

_WANTED: ContextVar[bool | None] = ContextVar("wanted", default=None)


@contextmanager
def wanting(wanted: bool | None) -> Iterator[None]:
    """Show the progress of what is done inside, or do not, or (None) on a terminal only."""
    before = _WANTED.set(wanted)
    try:
        yield
    finally:
        _WANTED.reset(before)


@contextmanager
def waiting(words: str, faster: str = "") -> Iterator["Shown"]:
    """Show what is being done while it takes its time; give what is shown, and has been reached.

    ``faster`` says which option would take less time.
    """
    with _showing(words, faster) as shown, progress.watching(shown.tell) as watch:
        shown.watch = watch
        yield shown


@contextmanager
def counting(words: str, faster: str = "") -> Iterator[Callable[[int, int], object]]:
    """Show what is being done; tell it how much is done, and of how much."""
    with _showing(words, faster) as shown, progress.watching(shown.tell):
        yield shown.count


@contextmanager
def ticking(words: str, total: int, faster: str = "") -> Iterator[Callable[[], object]]:
    """Show what is being done; each call is one step of ``total``."""
    done = count(1)
    with counting(words, faster) as tell:
        yield lambda: tell(next(done), total)


class Shown:
    """What is shown, which is nothing here: words, how much of them is done, and the last step."""

    def __init__(self, words: str) -> None:
        self.whole, self.step = Step(words), ""
        self.began = time.monotonic()
        self._stage, self._since = "", self.began
        self.watch = Watch(self.tell)

    def reached(self) -> tuple[float, float] | None:
        """Return the interval that an interrupt has left, if there is one."""
        return self.watch.reached()

    def tell(self, step: Step) -> None:
        """Take what is being done, and say how long it may take where its rows are counted."""
        if step.words != self._stage:
            self._stage, self._since = step.words, time.monotonic()
        left = remaining(step, time.monotonic() - self._since)
        self.step = f"{step}{left}"
        self.show()

    def count(self, done: int, total: int) -> None:
        """Take how much of the whole is done."""
        self.whole, self.step = Step(self.whole.words, done, total), ""
        self.show()

    def line(self) -> str:
        """Return what is being done, in one line."""
        return f"{self.whole}: {self.step}" if self.step else str(self.whole)

    def note(self, words: str) -> None:
        """Show a result of its own, which stays."""

    def show(self) -> None:
        """Show that something has changed."""

    def start(self) -> None:
        """Begin to show."""

    def stop(self) -> None:
        """Show nothing any more."""


def remaining(step: Step, passed: float) -> str:
    """Return the time that is left in words, nothing where it cannot be told yet.

    >>> remaining(Step("rows read", 25, 100), 20.0), remaining(Step("rows read", 25), 20.0)
    (', about 1 min left', '')
    """
    if not step.done or not step.total or step.done >= step.total or passed < _PATIENCE:
        return ""
    left = passed * (step.total - step.done) / step.done
    if left < 60:
        return f", about {max(round(left), 1)} s left"
    return (
        f", about {round(left / 60)} min left"
        if left < 5400
        else f", about {left / 3600:.1f} h left"
    )


class _Advising(Shown):
    """One line after `_LONG` seconds: what is being done, and what would be faster."""

    def __init__(self, words: str, faster: str) -> None:
        super().__init__(words)
        self.faster = faster or "--progress says how far it is"
        self._late = threading.Timer(_LONG, self._advise)

    def note(self, words: str) -> None:
        """Leave results to the command."""

    def advise(self, words: str) -> None:
        """Print the line."""
        typer.echo(f"undertow: {visible(words)}", err=True)

    def _advise(self) -> None:
        passed = time.monotonic() - self.began
        self.advise(f"{self.line()}, {passed:.0f} s; {self.faster}")

    def start(self) -> None:
        self._late.start()

    def stop(self) -> None:
        self._late.cancel()
        self._late.join()


class _Live(_Advising):
    """One line of a terminal, from `_PATIENCE` seconds on."""

    def __init__(self, words: str, faster: str, console: "Console") -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.table import Column

        super().__init__(words, faster)
        line = Column(no_wrap=True, overflow="ellipsis")
        said = TextColumn("{task.description}", markup=False, table_column=line)
        columns = SpinnerColumn(), said
        self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._task = self._bar.add_task(visible(self.line()), total=None)
        self._soon = threading.Timer(_PATIENCE, self._begin)
        self._notes: list[str] = []
        self._begun, self._lock = False, threading.Lock()

    def note(self, words: str) -> None:
        with self._lock:
            self._notes.append(words)
            if self._begun:
                self._print()

    def advise(self, words: str) -> None:
        self.note(words)

    def show(self) -> None:
        self._bar.update(self._task, description=visible(self.line()))

    def _begin(self) -> None:
        with self._lock:
            self._begun = True
            self._bar.start()
            self._print()

    def _print(self) -> None:
        for words in self._notes:
            self._bar.console.print(visible(words), markup=False, highlight=False)
        self._notes.clear()

    def start(self) -> None:
        super().start()
        self._soon.start()

    def stop(self) -> None:
        super().stop()
        self._soon.cancel()
        self._soon.join()
        self._bar.stop()


class _Lines(_Advising):
    """Plain lines: at the start, where a stage begins, and every `_EVERY` seconds."""

    def __init__(self, words: str, faster: str = "") -> None:
        super().__init__(words, faster)
        self._said, self._at = "", -_APART
        self._lock, self._over = threading.Lock(), threading.Event()
        self._clock = threading.Thread(target=self._beat, daemon=True)

    def note(self, words: str) -> None:
        with self._lock:
            self._print(words)

    def advise(self, words: str) -> None:
        self.note(words)

    @staticmethod
    def _print(words: str) -> None:
        typer.echo(f"undertow: {visible(words)}", err=True)

    def show(self) -> None:
        stage = self.step.partition(" (")[0] + str(self.whole.done)
        with self._lock:
            passed = time.monotonic() - self.began
            if passed - self._at < (_EVERY if stage == self._said else _APART):
                return
            self._said, self._at = stage, passed
            self._print(f"{self.line()}, {passed:.0f} s")

    def start(self) -> None:
        super().start()
        self.note(f"{self.line()}, 0 s")
        self._clock.start()

    def stop(self) -> None:
        super().stop()
        self._over.set()
        self._clock.join()

    def _beat(self) -> None:
        while not self._over.wait(_EVERY):
            self.show()


@contextmanager
def _showing(words: str, faster: str = "") -> Iterator[Shown]:
    """Show what is being done, as it was asked for and as the terminal allows."""
    shown = Shown(words)
    if _WANTED.get() is not False:
        from rich.console import Console

        console = Console(stderr=True)
        if console.is_terminal:
            shown = _Live(words, faster, console)
        else:
            shown = _Lines(words, faster) if _WANTED.get() else _Advising(words, faster)
    shown.start()
    try:
        yield shown
    finally:
        shown.stop()
