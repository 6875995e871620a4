"""Output of commands: tables, strict JSON, refusals, progress, messages in options."""

import math
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow import errors, progress
from undertow.progress import Step, Watch
from undertow.reporting.formats import aligned, strict_json
from undertow.rounding import above, below, odds, stated, visible

if TYPE_CHECKING:
    from rich.console import Console

    from undertow.certificate import Leakage
    from undertow.ledger.amounts import Spend
    from undertow.ledger.rules import Room
    from undertow.models.fitting.checks import Check
    from undertow.releasing.account import Foretold

__all__ = [
    "INTERRUPTED",
    "UNACCOUNTED",
    "ProgressOption",
    "above",
    "answer",
    "below",
    "counting",
    "in_cli_words",
    "interval",
    "level_words",
    "meaning",
    "odds",
    "refusals",
    "room_words",
    "say",
    "show",
    "show_checks",
    "show_table",
    "spend_rows",
    "spent_words",
    "stated",
    "strict_json",
    "ticking",
    "waiting",
    "wanting",
]


def show_table(title: str, header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    """Print a table; on a narrow terminal cells wrap between words.

    Control characters are stripped, and markup is printed literally.
    """
    from rich.console import Console

    console = Console()
    title, names = visible(title), [visible(name) for name in header or ()]
    rows = [[visible(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        typer.echo("\n".join([title, *aligned([names, *rows] if header else rows)]))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title, style="bold"), title_justify="left", box=None, pad_edge=False,
        padding=(0, 2, 0, 0), header_style="dim", show_header=header is not None,
    )  # fmt: skip
    for place in range(len(rows[0]) if rows else len(names)):
        style = None if place else "cyan"
        name = Text(names[place] if names else "")
        table.add_column(name, style=style, no_wrap=not place, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
    console.print()


def show_checks(checks: "Sequence[Check]") -> None:
    """Print the checks of a fitted model and the cost of failures, if there are any."""
    if not checks:
        return
    origins = "; ".join(dict.fromkeys(check.origin for check in checks))
    rows = [
        (check.name, check.outcome, "; ".join(filter(None, (check.words, check.cost()))))
        for check in checks
    ]
    show_table(f"Checks of the model ({origins})", ("assumption", "", "result"), rows)


INTERRUPTED = 130
"""The exit code after an interrupt (Ctrl-C), as in shells: 128 + SIGINT."""

ProgressOption = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Progress on stderr (default: on a terminal only).",
        show_default=False,
        rich_help_panel="Output",
    ),
]

_PATIENCE = 2.0
"""Seconds before a terminal shows progress."""

_LONG = 10.0
"""Seconds after which one line names the work and a faster option."""

_EVERY, _APART = 5.0, 1.0
"""Seconds between plain lines, and at least between lines of different stages."""

_WANTED: ContextVar[bool | None] = ContextVar("wanted", default=None)


@contextmanager
def wanting(wanted: bool | None) -> Iterator[None]:
    """Show the progress of the work inside, or not, or (None) on a terminal only."""
    before = _WANTED.set(wanted)
    try:
        yield
    finally:
        _WANTED.reset(before)


@contextmanager
def waiting(words: str, faster: str = "") -> Iterator["Shown"]:
    """Show the progress of the work inside, and yield the display, with the interval reached.

    ``faster`` names an option that takes less time.
    """
    with _showing(words, faster) as shown, progress.watching(shown.tell) as watch:
        shown.watch = watch
        yield shown


@contextmanager
def counting(words: str, faster: str = "") -> Iterator[Callable[[int, int], object]]:
    """Show the progress of the work inside, and yield a callback of steps done and in total."""
    with _showing(words, faster) as shown, progress.watching(shown.tell):
        yield shown.count


@contextmanager
def ticking(words: str, total: int, faster: str = "") -> Iterator[Callable[[], object]]:
    """Show the progress of the work inside, and yield a callback of one step of ``total``."""
    done = count(1)
    with counting(words, faster) as tell:
        yield lambda: tell(next(done), total)


class Shown:
    """A display of progress that prints nothing: the work, its steps, the last stage."""

    def __init__(self, words: str) -> None:
        self.whole, self.step = Step(words), ""
        self.began = time.monotonic()
        self._stage, self._since = "", self.began
        self.watch = Watch(self.tell)

    def reached(self) -> tuple[float, float] | None:
        """Return the interval reached at an interrupt, if there is one."""
        return self.watch.reached()

    def tell(self, step: Step) -> None:
        """Take a step, and estimate the time left if its rows are counted."""
        if step.words != self._stage:
            self._stage, self._since = step.words, time.monotonic()
        left = remaining(step, time.monotonic() - self._since)
        self.step = f"{step}{left}"
        self.show()

    def count(self, done: int, total: int) -> None:
        """Take the steps done and in total."""
        self.whole, self.step = Step(self.whole.words, done, total), ""
        self.show()

    def line(self) -> str:
        """Return the state of the work in one line."""
        return f"{self.whole}: {self.step}" if self.step else str(self.whole)

    def note(self, words: str) -> None:
        """Show a line that stays."""

    def show(self) -> None:
        """Show the changed state."""

    def start(self) -> None:
        """Start the display."""

    def stop(self) -> None:
        """Stop the display."""


def remaining(step: Step, passed: float) -> str:
    """Return the time left in words, empty if it cannot be estimated yet.

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
    """One line after `_LONG` seconds with the work and a faster option."""

    def __init__(self, words: str, faster: str) -> None:
        super().__init__(words)
        self.faster = faster or "--progress shows the progress"
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
    """One live line of a terminal, from `_PATIENCE` seconds on."""

    def __init__(self, words: str, faster: str, console: "Console") -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.table import Column

        super().__init__(words, faster)
        line = Column(no_wrap=True, overflow="ellipsis")
        label = TextColumn("{task.description}", markup=False, table_column=line)
        columns = SpinnerColumn(), label
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
    """Plain lines: at the start, at every stage, and every `_EVERY` seconds."""

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
    """Show progress as --progress says and as the terminal allows."""
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


_OPTIONS = (
    "accept", "against", "allele", "attackers", "by", "confidence", "dataset", "delta",
    "effort", "every", "gaps", "groups", "known", "least", "length", "limit", "method", "missing",
    "model", "neighbours", "noise", "objective", "person", "prior", "protect", "pure",
    "releases", "scale", "secret", "share", "sigma", "source", "start", "state", "states", "target",
    "targets", "time", "unit", "valid_for", "value", "window",
)  # fmt: skip
"""Arguments with an option of the same name."""

_RENAMED = {"release_id": "id"}
"""Arguments with an option of another name."""

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_VALUE = rf"(?:{_QUOTED}|\[[^\]]*\]|\([^)]*\)|\w+\((?:[^()]|\([^()]*\))*\)|\.\.\.|[\w.+-]*\w)"
_ARGUMENT = rf"\b(?:{'|'.join((*_OPTIONS, *_RENAMED))})=(?:{_VALUE}(?: or {_QUOTED})*)?"

_PHRASES = (
    (r"\bvalues=\{[^{}]*\}", "--values STATE=NUMBER,..."),
    (
        (
            r"Data\(\.\.\., state='value > 0'\) or --state 'value > 0', or a mapping, "
            r"Data\(\.\.\., state=\{True: \.\.\.\}\)"
        ),
        "--state 'value > 0'",
    ),
    (r"state='value > 0' or --state 'value > 0', or state=", "--state 'value > 0' or --state "),
    (r" \(person=\.\.\., --person\)", " (--person)"),
    (r"Data\(\.\.\., ungrouped=True\), --ungrouped", "--ungrouped"),
    (r"accept=\('same-records',\)", "--accept same-records"),
    (r"\bstrict=True\b", "--strict"),
    (r"\(private=LEVEL and a ledger\)", "(--private)"),
    (r": model\.every_nth\(\d+\)", " (in Python: every_nth)"),
    (r"'undertow plan' or calibrate\(\.\.\.\)", "'undertow plan'"),
    (r"Data\(table, value=\.\.\., person=\.\.\., time=\.\.\.\)", "--value, --person and --time"),
    (r"Data\(table, value=\.\.\.\)", "--value"),
    (r"release\(plan, data\)", "'undertow release'"),
    (r"sanitize\(plan, data\)", "'undertow sanitize'"),
    (r"calibrate\(Series\(\), \.\.\.\)", "'undertow plan --series'"),
    (r"calibrate\([^()]*\)", "'undertow plan'"),
    (r"Series\(\) or Redacted\(\.\.\.\)", "--series or --redacted"),
    (r"MarkovChain\(\.\.\., length=\d+\)", "--length {}"),
    (r"Redacted\(protect=\d+, length=\d+\)", "--redacted --protect {} --length {}"),
    (r"Redacted\(protect=\d+\)", "--redacted --protect {}"),
    (r"Redacted\(protect=\.\.\.\)", "--redacted with --protect"),
    (r"(?:secret=)?Window\((?:records=)?\d+\)", "--secret {}"),
    (r"(?:secret=)?Window\('1 hour', every='5m'\)", "--secret 1h --every 5m"),
    (r"(?:secret=)?Person\(\)", "--secret person"),
    (r"(?:secret=)?Records\(\[5\]\)", "--protect 5"),
    (r"(?:secret=)?Pairs\(\[\('walk', 'run'\)\]\)", "--secret walk:run"),
    (r"a model such as MarkovChain\(\.\.\.\)", "a model"),
    (r"\bset_limit\(limit, delta=1e-6\)", "'undertow ledger limit --delta 1e-6'"),
    (r"\bset_limit\b(?:\([^()]*\))?", "'undertow ledger limit'"),
    (r"\brelease_id\b(?!=)", "--id"),
    (r"\bverify\(\)", "'undertow ledger verify'"),
    (r"\(state=\.\.\., or --state\)", "(--state)"),
    (r"\b(?:lower|upper)=(?=[^.])", ""),
    (r"its point\(\) takes", "'undertow fit --point' takes"),
    (r"MarkovChain\.fit\(\.\.\., order=2\)", "'undertow fit --order 2'"),
    (r"model\.population\(\)", "'undertow fit --population'"),
    (r"plan with Groups\(\d+\)", 'plan with a model file of kind "groups" and size {}'),
    (r", such as MarkovChain\(\.\.\.\) or Groups\(5, states=\.\.\.\)", ", in its file"),
    (r"ModelSet\(\[Groups\(4\), MarkovChain\(\.\.\.\)\]\)", 'a model file of kind "set"'),
    (
        r"Laplace\(Sum\(lower, upper\), scale\), Laplace.* or PureDP",
        "--sum with --scale, or --epsilon",
    ),
)
"""Python expressions in messages of the library, and their options; the first match counts."""

_FOUND = re.compile(r"\d+")
_RULES: dict[str, str] = {f"rule{place}": meant for place, (_, meant) in enumerate(_PHRASES)}
_SCAN = re.compile(
    "|".join(f"(?P<rule{place}>{said})" for place, (said, _) in enumerate(_PHRASES))
    + rf"|(?P<argument>{_ARGUMENT})|(?P<name>(?<![\w=(\[])(?:{_QUOTED}))"
)


def in_cli_words(message: str) -> str:
    """Return a message of the library with options and commands in place of Python arguments.

    Text in quotation marks is a name from a file or from the user, and stays.

    >>> in_cli_words("plan with method='exchange' and without a length; found 'time=1'")
    "plan with --method exchange and without a length; found 'time=1'"
    >>> in_cli_words("a window needs the column of times; say time=...")
    'a window needs the column of times; say --time'
    >>> in_cli_words("raise the limit with set_limit")
    "raise the limit with 'undertow ledger limit'"
    """
    return _SCAN.sub(_meant, message)


def _meant(match: re.Match[str]) -> str:
    text, kind = match[0], match.lastgroup or "name"
    if kind == "argument":
        return _option(text)
    return text if kind == "name" else _RULES[kind].format(*_FOUND.findall(text))


def _option(text: str) -> str:
    """Return 'name=value' as an option of the command line.

    >>> _option("method='mq' or 'optimal'"), _option("protect=[5]"), _option("missing=...")
    ('--method mq or optimal', '--protect 5', '--missing')
    >>> _option("accept=('order', 'time')"), _option("accept=('order',)")
    ('--accept order,time', '--accept order')
    >>> print(_option("state='cast(v as double)'"))
    --state 'cast(v as double)'
    """
    name, _, value = text.partition("=")
    if value.startswith("MarkovChain("):  # a model is a file
        value = "FILE"
    if re.fullmatch(r"'[^']*[ (][^']*'", value):  # a shell needs the quotation marks
        return f"--{name} {value}"
    plain = re.sub(r"['\"\[\]()]", "", value).replace("...", "").replace(", ", ",").rstrip(",")
    return f"--{_RENAMED.get(name, name.replace('_', '-'))} {plain}".rstrip()


UNACCOUNTED = (
    "not accounted in a ledger: every run draws new noise and leaks more; give --ledger and "
    "--dataset"
)
"""The warning of a release without a ledger."""


def interval(leak: "Leakage") -> str:
    """Return both ends of a leakage, rounded outwards."""
    at = f" at delta {stated(leak.delta)}" if leak.delta else ""
    if math.isinf(leak.lower):
        return "unbounded"
    if math.isinf(leak.upper):
        return f"at least {below(leak.lower)}{at}; nothing finite is proved"
    if leak.delta and not leak.lower:
        return f"at most {above(leak.upper)}{at}"
    if leak.lower == leak.upper and below(leak.lower) == above(leak.upper):
        return above(leak.upper) + at
    return f"between {below(leak.lower)} and {above(leak.upper)}{at}"


def meaning(leak: "Leakage") -> str:
    """Return the meaning of a leakage for odds in words."""
    if math.isinf(leak.lower):
        return "some answers exclude a value of a record, or come arbitrarily close to that"
    if math.isinf(leak.upper):
        return "no limit is proved on how far an answer can move the odds between two values"
    window = leak.secret.window
    what = "values of a record" if window == 1 else f"histories of {window} records in a row"
    if leak.delta:
        return (
            f"an answer moves the odds between two {what} by more than a factor "
            f"{odds(leak.upper + math.log(2))} with probability at most {stated(2 * leak.delta)}"
        )
    return f"an answer moves the odds between two {what} by at most a factor {odds(leak.upper)}"


def level_words(level: float, budget: float = 1.0) -> str:
    """Return the rest of a budget in words.

    >>> level_words(0.25), level_words(2e-16)
    ('a DP level of 0.25', 'nothing')
    """
    from undertow.ledger.rules import nothing

    return "nothing" if nothing(level, budget) else f"a DP level of {below(level)}"


def room_words(room: "Room", budget: float = 1.0) -> str:
    """Return the rest of the budget of some records in words, with a delta also as Gaussian noise.

    >>> from undertow.ledger.rules import Room, Terms
    >>> room_words(Room(Terms({}, 1.0, 0.25, "any", "record", 1e-6, 1e-7)))
    'a DP level of 0.25, or Gaussian noise of sigma 17.34333 per unit'
    """
    level, sigma = level_words(room.left(), budget), room.least_sigma()
    if sigma is None:
        return level
    noise = f"Gaussian noise of sigma {above(sigma)} per unit"
    return noise if level == "nothing" else f"{level}, or {noise}"


def spent_words(spend: "Spend") -> str:
    """Return the spend of a release for the column of a table."""
    from undertow.ledger.amounts import round_up
    from undertow.ledger.rules import spend_words

    return above(round_up(spend.level)) if spend.pure else spend_words(spend)


def spend_rows(preview: "Foretold", recorded: str) -> list[tuple[str, str]]:
    """Return the spend of a release as labelled rows; ``recorded`` describes a recorded one."""
    spends = "the whole account: a redaction allows no other release"
    if preview.recorded:
        spends = recorded
    elif preview.found is not None:
        spends = "nothing more: an interrupted run reserved it"
    elif preview.entry.spend is not None:
        spend = preview.entry.spend
        spends = f"a DP level of {above(preview.spends)}" if spend.pure else spent_words(spend)
    rows = [("release", preview.entry.release_id), ("spends", spends)]
    if preview.room is None or preview.after is None:
        return rows
    now, then = room_words(preview.room), room_words(preview.after)
    return [*rows, ("left", f"{now} for these records, then {then}")]


def answer(fields: Mapping[str, Any], tell: Callable[[], object], *, as_json: bool) -> None:
    """Print an answer: one JSON object, or what ``tell`` prints."""
    if as_json:
        typer.echo(strict_json(fields))
    else:
        tell()


def show(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print labelled rows: a table on a terminal, plain unwrapped lines elsewhere."""
    show_table(title, None, rows)


@contextmanager
def refusals(as_json: bool) -> Iterator[None]:
    """Print a refusal as one line on stderr, with ``--json`` also as an object; exit code 1.

    An interrupt has exit code 130; files are written completely or not at all. Warnings of the
    library become lines on stderr. Messages name options in place of Python arguments.
    """
    try:
        with _told_warnings():
            yield
    except (errors.UndertowError, MemoryError) as error:
        message = in_cli_words(" ".join(str(error).split()))
        if isinstance(error, MemoryError):
            message = (
                "the computation needs more memory than is available; merge states, or use fewer "
                "records"
            )
        say(message)
        if as_json:
            typer.echo(strict_json({"error": type(error).__name__, "message": message}))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say("interrupted; run the same command again")
        if as_json:
            typer.echo(strict_json({"error": "Interrupted", "message": "interrupted"}))
        raise typer.Exit(INTERRUPTED) from None


def say(message: str) -> None:
    """Print one line on stderr, control characters escaped."""
    typer.echo(visible(f"undertow: {message}"), err=True)


@contextmanager
def _told_warnings() -> Iterator[None]:
    """Print the warnings of undertow as single lines; leave those of other libraries."""
    named = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in named if issubclass(kind, Warning)]
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show_warning(
            message: Warning | str, category: type[Warning], *place: Any, **more: Any
        ) -> None:
            if category in kinds:
                say(f"warning: {in_cli_words(' '.join(str(message).split()))}")
            else:
                shown(message, category, *place, **more)

        for kind in kinds:
            warnings.simplefilter("always", kind)
        warnings.showwarning = show_warning
        yield
