"""What long work says of itself: what it does, how far it is, and what it has shown so far.

Searches call `doing` where a stage or a round begins, and `attained` where something can be said of
their question before they end. Without a watch both do nothing. `watching` listens, to print it or
to be able to interrupt: an interrupted leakage leaves in the watch an interval that holds the
answer, its lower end attained, its upper end proved.

A question is named by the one who asks it (`asking`), and a search by the question that it answers:
what a search says counts only where the two names are equal. Leakages ask others on their way, of
other levels or against other adversaries, and what is attained there is not attained here.

Nothing said here depends on private values: models and mechanisms are public.
"""

import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Step", "Watch", "asking", "attained", "doing", "inside", "watching"]


@dataclass(frozen=True, slots=True)
class Step:
    """What is being done: in words, and how much of how many where that is known."""

    words: str
    done: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        """Return the step in one line.

        >>> str(Step("asking the methods", 3, 11)), str(Step("levels tried", 4))
        ('asking the methods (3 of 11)', 'levels tried (4)')
        """
        if self.done is None:
            return self.words
        whole = "" if self.total is None else f" of {self.total}"
        return f"{self.words} ({self.done}{whole})"


End = Callable[[], float]
"""How an end of an interval is worked out, if it should be asked for."""


class Watch:
    """Who listens, and what the work that is watched has shown of its question.

    >>> with watching() as watch, asking("how far", upper=lambda: 8.0):
    ...     attained("how far", lambda: 3.0)
    ...     attained("another question", lambda: 5.0)
    ...     watch.reached()
    (3.0, 8.0)
    >>> watch.reached() is None  # the question was answered
    True
    """

    def __init__(self, told: Callable[[Step], object]) -> None:
        """Listen with a callback."""
        self.told = told
        self.outer: list[Step] = []
        self.question: Hashable | None = None
        self._lower: list[End] = []
        self._upper: End = lambda: math.inf

    def reached(self) -> tuple[float, float] | None:
        """Return what is attained and what is proved of the question that was interrupted.

        None where there is no such question, or it was answered. Ends are worked out when they are
        asked for.
        """
        if self.question is None:
            return None
        lower, upper = max(end() for end in self._lower), self._upper()
        return min(lower, upper), upper

    def begin(self, question: Hashable, lower: End, upper: End) -> None:
        """Take a question for the one that is asked, with ends that need no search."""
        self.question, self._lower, self._upper = question, [lower], upper

    def end(self) -> None:
        """Forget the question: it is answered, or another one."""
        self.question, self._lower = None, []

    def say(self, question: Hashable, lower: End) -> None:
        """Take what a search attains, if the question is its own."""
        if question == self.question:
            self._lower.append(lower)


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching(told: Callable[[Step], object] | None = None) -> Iterator[Watch]:
    """Listen to the work inside: each `Step` is given to ``told``, by default to nobody.

    What ``told`` raises ends the work. Nested watches replace each other.

    >>> with watching(print) as watch:
    ...     doing("counting", 1, 2)
    counting (1 of 2)
    """
    watch = Watch(told or (lambda _: None))
    before = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(before)


def doing(words: str, done: int | None = None, total: int | None = None) -> None:
    """Say what is being done, to whoever watches; the words never contain a private value."""
    watch = _WATCH.get()
    if watch is not None:
        before = "".join(f"{outer}: " for outer in watch.outer)
        watch.told(Step(before + words, done, total))


@contextmanager
def inside(words: str, done: int | None = None, total: int | None = None) -> Iterator[None]:
    """Say what is being done, and what all that is said inside is part of.

    >>> with watching(print), inside("asking exact", 1, 11):
    ...     doing("levels tried", 4)
    asking exact (1 of 11)
    asking exact (1 of 11): levels tried (4)
    """
    doing(words, done, total)
    watch = _WATCH.get()
    if watch is None:
        yield
        return
    watch.outer.append(Step(words, done, total))
    try:
        yield
    finally:
        watch.outer.pop()


@contextmanager
def asking(
    question: Hashable, lower: End = lambda: 0.0, upper: End = lambda: math.inf
) -> Iterator[None]:
    """Name the question that is worked on inside, unless one is asked already.

    ``lower`` and ``upper`` give ends that are known without a search. An interrupt leaves the
    question in the watch, with what was shown of it; otherwise it is forgotten.
    """
    watch = _WATCH.get()
    if watch is None or watch.question is not None:
        yield
        return
    watch.begin(question, lower, upper)
    stopped = False
    try:
        yield
    except KeyboardInterrupt:
        stopped = True
        raise
    finally:
        if not stopped:
            watch.end()


def attained(question: Hashable, lower: End) -> None:
    """Say how a search would work out what it has attained of its question, if it were stopped."""
    watch = _WATCH.get()
    if watch is not None:
        watch.say(question, lower)
