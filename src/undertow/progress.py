"""Progress, interrupts and counted effort of searches.

Searches report stages with `doing` and lower ends with `attained`; `watching` receives them, and
after an interrupt has the interval reached. Kernels count work with `spend`, and `allowing` limits
it, so that a search ends at the same place on every machine. Nothing here is a private value.
"""

import math
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, ParamSpec, TypeVar, cast

from undertow.errors import EffortSpent, InvalidInput

__all__ = [
    "EFFORT",
    "SPENT",
    "Metered",
    "Question",
    "Step",
    "Watch",
    "allowing",
    "asking",
    "attained",
    "check_effort",
    "doing",
    "granted",
    "granting",
    "inside",
    "left",
    "metered",
    "overtime",
    "spend",
    "spent",
    "unmetered",
    "watching",
]

EFFORT = 3e5
"""Budget of an effort of 1, in units of some 30 microseconds: five to ten seconds."""

LARGEST_EFFORT = 1e15
"""Largest limited effort: thousands of years, and as good as none."""

SPENT = (
    "the search ended with its effort spent: the upper end is proved, the truth may be lower; "
    "effort=10 allows ten times as much, effort=math.inf searches to the end"
)
"""The note of an interval whose search ended early."""

_LATE = 3e3
"""Work that an end of an interval may take once the effort is spent: about a tenth of a second."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Step:
    """A stage of work: its words, and the steps done and in total if they are known."""

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
"""The deferred evaluation of an end of an interval."""


class Question:
    """An open question and the ends reached so far, evaluated on demand."""

    def __init__(self, name: Hashable, lower: End, upper: End) -> None:
        """Take a question with ends that need no search."""
        self.name, self._lower, self._upper = name, [lower], upper

    def reached(self) -> tuple[float, float]:
        """Return the attained lower end and the proved upper end."""
        lower, upper = max(map(_worked, self._lower)), self._upper()
        return min(lower, upper), upper

    def say(self, lower: End) -> None:
        """Add a lower end that a search attains."""
        self._lower.append(lower)


def _worked(end: End) -> float:
    """Return a lower end, 0 if its evaluation takes too long."""
    with unmetered(_LATE):
        try:
            return end()
        except EffortSpent:
            return 0.0


class Watch:
    """A receiver of progress, with the open question at an interrupt.

    >>> with watching() as watch, asking("how far", upper=lambda: 8.0):
    ...     attained("how far", lambda: 3.0)
    ...     attained("another question", lambda: 5.0)
    ...     watch.reached()
    (3.0, 8.0)
    >>> watch.reached() is None  # the question was answered
    True
    """

    def __init__(self, callback: Callable[[Step], object]) -> None:
        """Receive steps with a callback."""
        self.callback = callback
        self.outer: list[Step] = []
        self.question: Question | None = None

    def reached(self) -> tuple[float, float] | None:
        """Return the ends reached of the interrupted question, None without one.

        Ends are evaluated on demand.
        """
        return None if self.question is None else self.question.reached()


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watching(callback: Callable[[Step], object] | None = None) -> Iterator[Watch]:
    """Receive the steps of the work inside with a callback.

    An exception of the callback ends the work. Nested watches replace each other.

    >>> with watching(print) as watch:
    ...     doing("counting", 1, 2)
    counting (1 of 2)
    """
    watch = Watch(callback or (lambda _: None))
    before = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(before)


def doing(words: str, done: int | None = None, total: int | None = None) -> None:
    """Report a stage to the watch; its words never contain a private value."""
    watch = _WATCH.get()
    if watch is not None:
        before = "".join(f"{outer}: " for outer in watch.outer)
        watch.callback(Step(before + words, done, total))


@contextmanager
def inside(words: str, done: int | None = None, total: int | None = None) -> Iterator[None]:
    """Report a stage, and prefix the stages inside with it.

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


_ASKED: ContextVar[tuple[Question, ...]] = ContextVar("asked", default=())


@contextmanager
def asking(
    question: Hashable, lower: End = lambda: 0.0, upper: End = lambda: math.inf
) -> Iterator[Question]:
    """Name the question of the work inside, and yield it.

    ``lower`` and ``upper`` give ends without a search. Lower ends count only for the question of
    their name: leakages use others, of other levels or adversaries, on their way. An interrupt
    leaves the outermost question in the watch.
    """
    current, watch, before = Question(question, lower, upper), _WATCH.get(), _ASKED.get()
    token = _ASKED.set((*before, current))
    outermost = watch is not None and watch.question is None
    stopped = False
    if watch is not None and outermost:
        watch.question = current
    try:
        yield current
    except KeyboardInterrupt:
        stopped = True
        raise
    finally:
        _ASKED.reset(token)
        if watch is not None and outermost and not stopped:
            watch.question = None


def attained(question: Hashable, lower: End) -> None:
    """Report the deferred evaluation of the lower end that a search has attained."""
    for outer in _ASKED.get():
        if outer.name == question:
            outer.say(lower)


class _Work(threading.local):
    """The work of this thread, and the current limits on it (ends of ``used``).

    ``late`` is the work allowed after the end of an effort.
    """

    used = 0.0
    late = math.inf
    ends: tuple[float, ...] = ()


_WORK = _Work()


def spend(multiplications: float, calls: float = 1.0) -> None:
    """Count work: multiplications in arrays, and calls of some 30 microseconds each.

    Raises `EffortSpent` beyond the limit.
    """
    _charge(calls + multiplications / 3e4)


def _charge(units: float) -> None:
    end = min(_WORK.ends, default=math.inf)
    short = _WORK.used + units > end
    _WORK.used = max(_WORK.used, end) if short else _WORK.used + units  # not begun, if short
    if short:
        raise EffortSpent(
            "the search needs more than the effort allowed; effort=10 allows ten times as much, "
            "effort=math.inf any"
        )


def granted() -> bool:
    """Tell whether this is part of a search with a limited effort."""
    return bool(_WORK.ends)


def spent() -> float:
    """Return the work of this thread, in units of some 30 microseconds."""
    return _WORK.used


def left() -> float:
    """Return the work still allowed, in units of some 30 microseconds; inf without a limit."""
    return max(min(_WORK.ends, default=math.inf) - _WORK.used, 0.0)


@contextmanager
def allowing(units: float) -> Iterator[None]:
    """Limit the work inside, within the limit outside.

    >>> with allowing(10.0):
    ...     spend(0, 4)
    ...     left()
    6.0
    """
    before = _WORK.ends
    _WORK.ends = (*before, _WORK.used + units)
    try:
        yield
    finally:
        _WORK.ends = before


@contextmanager
def granting(effort: float) -> Iterator[None]:
    """Limit the effort inside, unless an outer search has a limit.

    >>> with granting(1.0), granting(math.inf):
    ...     round(left() / EFFORT, 6)
    1.0
    """
    if _WORK.ends:
        yield
        return
    _WORK.late = EFFORT * effort / 2
    try:
        with allowing(EFFORT * effort):
            yield
    finally:
        _WORK.late = math.inf


@contextmanager
def unmetered(units: float = math.inf) -> Iterator[None]:
    """Limit the work inside, independently of the limit outside, and count none of it there.

    For the short work after the end of an effort.
    """
    before = _WORK.ends, _WORK.used
    _WORK.ends = (before[1] + units,)
    try:
        yield
    finally:
        _WORK.ends, _WORK.used = before


class _UnkeptError(Exception):
    """A result that is not cached."""

    def __init__(self, result: object) -> None:
        self.result = result


class Metered(Generic[P, R]):
    """A pure function with a cache, in which a cached result costs as much as its computation.

    Results of a spent effort are not cached, nor those of unhashable arguments.

    >>> def square(number: int) -> int:
    ...     spend(0, 5)
    ...     return number * number
    >>> kept = Metered(square, most=4)
    >>> with allowing(12.0):
    ...     kept(3), kept(3), left()
    (9, 9, 2.0)
    """

    def __init__(self, function: Callable[P, R], most: int = 16) -> None:
        """Wrap a function with a cache of its last results."""
        self.__doc__ = function.__doc__
        self._function = function

        def worked(*args: P.args, **kwargs: P.kwargs) -> tuple[R, float]:
            before = _WORK.used
            result = function(*args, **kwargs)
            if not left():  # with more effort it may be another
                raise _UnkeptError(result)
            return result, _WORK.used - before

        kept = lru_cache(maxsize=most)(worked)
        self._kept: Callable[P, tuple[R, float]] = kept
        self.forget = kept.cache_clear

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the function's result, from memory where it is there."""
        try:
            hash(args)
        except TypeError:
            return self._function(*args, **kwargs)
        before = _WORK.used
        try:
            result, cost = self._kept(*args, **kwargs)
        except _UnkeptError as found:
            return cast("R", found.result)
        if _WORK.used - before >= cost:
            return result
        if cost > left():  # worked out with more effort than there is
            return self._function(*args, **kwargs)
        _charge(cost)
        return result


def metered(most: int) -> Callable[[Callable[P, R]], Metered[P, R]]:
    """Return a decorator that keeps the last results of a pure function: see `Metered`."""
    return lambda function: Metered(function, most)


@contextmanager
def overtime(units: float) -> Iterator[None]:
    """Allow so much work inside though the effort is spent: all in all half as much again.

    For bounds that come close without a search; where this is spent too there are quicker ones.
    """
    allowed = min(units, _WORK.late)
    with unmetered(allowed):
        before = _WORK.used
        try:
            yield
        finally:
            _WORK.late -= _WORK.used - before


def check_effort(effort: object) -> float:
    """Return an effort above 0, or refuse it.

    >>> check_effort(2)
    2.0
    """
    if isinstance(effort, bool) or not isinstance(effort, int | float) or not effort > 0:
        raise InvalidInput(
            f"effort must be above 0, found {effort!r}; 1 is the default, five to ten "
            "seconds for a method, 10 allows ten times as much, math.inf any"
        )
    return math.inf if effort > LARGEST_EFFORT else float(effort)
