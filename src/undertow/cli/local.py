"""What ``undertow sanitize`` and ``undertow redact`` share: read, account, draw, write whole.

Files are complete on the disk, in a private folder, before a release is confirmed in the ledger,
and get their names after it. So a full disk spends nothing but the reservation, which the same
command uses again; and a run that is killed after the confirmation is completed by the next one,
which publishes what was drawn. Before each draw the drafts of earlier ones are removed.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from undertow.cli.files import ReportFiles, check_output
from undertow.cli.options import (
    RecordsText,
    ReleasedText,
    ReleaseText,
    TableText,
    command,
    figure_kind,
    misuse,
    option,
)
from undertow.cli.output import (
    UNACCOUNTED,
    above,
    adversary_fields,
    interval,
    level_words,
    say,
    show,
    show_table,
    spend_rows,
    strict_json,
    waiting,
)
from undertow.data.readers.sources import Seen, seen
from undertow.data.writing import concatenated, write_frames
from undertow.errors import InvalidInput, LedgerConflict, NotSupported, UndertowError
from undertow.releasing.account import Foretold, foretell, released, reserve
from undertow.releasing.drafts import Drafts, abandoned, check_folder, clear, digest
from undertow.releasing.series import Outputs, SeriesRequest, prepare

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger, Reservation
    from undertow.mechanisms import RandomizedResponse, Redaction
    from undertow.plan import Plan
    from undertow.queries import State

__all__ = [
    "CHANGED",
    "FlippedFiles",
    "RedactedFiles",
    "Task",
    "counted_words",
    "formulas",
    "is_local",
    "local_rows",
    "measure_rows",
    "name_of",
    "record",
    "redact",
    "sanitize",
    "show_probabilities",
    "unchanged",
    "uncovered",
    "verb_of",
]


def name_of(entry: str | None, output: Path) -> str:
    """Return what the drafts of a release are called: by its entry, or else by its output.

    >>> name_of("ab" * 32, Path("out.csv"))
    'release-abababababababababababababababab'
    """
    if entry is not None:
        return f"release-{entry[:32]}"
    return f"unaccounted-{hashlib.sha256(output.name.encode()).hexdigest()[:32]}"


TABLES = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class FlippedFiles(ReportFiles):
    """Where a randomised series and its report go."""

    output: Path | None = option(
        "FILE", "Write the randomised series there (.csv, .csv.gz or .parquet)."
    )

    def __post_init__(self) -> None:
        """Refuse names that do not say what to write."""
        if self.output is None:
            for name in ("force", "figure", "report"):
                if getattr(self, name, None):
                    raise misuse(f"--{name} goes with --output")
            return
        if not self.output.name.lower().endswith(TABLES):
            raise misuse(
                f"--output needs a name in {', '.join(TABLES)}; found {self.output.name!r}"
            )
        self.check_report()

    def roles(self) -> dict[str, Path]:
        """Return the files that will be written, by what they are and how they are written."""
        if self.output is None:
            return {}
        name = self.output.name.lower()
        made = {"output" + next(end for end in TABLES if name.endswith(end)): self.output}
        for kind in ("figure", "report"):
            path = getattr(self, kind, None)
            if path is not None:
                made[kind + path.suffix.lower()] = path
        return made

    def named(self) -> list[Path]:
        """Return the files that will be written."""
        return list(self.roles().values())

    def check(self, *, free: bool = True) -> None:
        """Refuse, before anything is spent, places where the results cannot be written.

        A name in use may be that of a recorded release; ``free`` says that there is none.
        """
        for path in self.named():
            check_output(path, force=self.force or not free)
            check_folder(path)

    def writable(self, path: Path) -> None:
        """Refuse a place where no result can be written."""
        check_output(path, force=self.force)


@dataclass(frozen=True, slots=True)
class RedactedFiles(FlippedFiles):
    """Where a redacted series, its figure and its report go."""

    figure: Path | None = option("FILE", "Draw the first person's series (.png or .svg).")

    def __post_init__(self) -> None:
        """Refuse names that do not say what to write."""
        FlippedFiles.__post_init__(self)
        if self.figure is not None:
            figure_kind(self.figure)

    def check(self, *, free: bool = True) -> None:
        """Refuse places where the results cannot be written, and figures that cannot be drawn."""
        FlippedFiles.check(self, free=free)
        if self.figure is not None:
            from undertow.figures.canvas import check_drawing

            check_drawing()


CHANGED = (
    "changed while it was read; nothing was written or spent: run the command again when the file "
    "is complete"
)
"""What is said of a table that is no longer the one that was there."""


@contextmanager
def unchanged(before: Seen) -> Iterator[None]:
    """Refuse a file that changed, before any other refusal: what seems wrong may be the change."""
    try:
        yield
    except UndertowError:
        before.check(CHANGED)
        raise
    before.check(CHANGED)


_FORMULA, _NUMBER = r"^[=+\-@\t\r]", r"^[+\-]?[0-9.]+([eE][+\-]?[0-9]+)?$"


def formulas(frame: Any, path: Path) -> list[str]:
    """Return the columns that a spreadsheet would take for formulas, from names or public texts.

    Persons, times, groups and states are written as they are, or they could not be joined or
    estimated from again; so whoever opens the file in a spreadsheet is told.
    """
    if path.name.lower().endswith(".parquet"):
        return []
    found = []
    for name in frame.columns:
        text = str(frame[name].dtype) == "String"
        texts = [name, *(frame[name].unique().to_list() if text else ())]
        if any(re.match(_FORMULA, t) and not re.match(_NUMBER, t) for t in texts if t):
            found.append(name)
    return found


_DIGITS = 6
_MOST_STATES, _MOST_RECORDS, _MOST_RUNS = 12, 20, 6
"""What is shown of a large plan; the plan file has all of it."""


def is_local(plan: "Plan[Any]") -> bool:
    """Return whether a plan is for a series, not for a curator's answer."""
    return plan.task != "answer"


def verb_of(plan: "Plan[Any]") -> str:
    """Return the command that carries a plan out."""
    return {"answer": "release", "flip": "sanitize", "redact": "redact"}[plan.task]


def local_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return what a plan for a series does to the records, and what it leaks."""
    return [*_randomised(plan), *measure_rows(plan), *_levels(plan), ("leakage", _leakage(plan))]


def measure_rows(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return how much of the series stays, and how much could."""
    from undertow.reporting.words import measure

    return [measure(name, value) for name, value in plan.measures]


def uncovered(plan: "Plan[Any]") -> list[tuple[str, str]]:
    """Return whom the guarantee leaves out, nothing where it covers every attacker."""
    from undertow.reporting.words import not_covered

    if plan.against == "any" or plan.unit == "person":
        return []
    return [("NOT covered", not_covered(plan)[0])]


def show_probabilities(plan: "Plan[Any]") -> None:
    """Print the channel of a plan, or its erasures, where a row cannot hold the probabilities."""
    mechanism = plan.mechanism
    if mechanism.kind == "redaction":
        _show_erasures(plan, mechanism)
    elif mechanism.kind == "flips" and _brief(plan, mechanism) is None:
        _show_channel(plan, mechanism)


def runs(records: Iterable[int]) -> str:
    """Return records in words, neighbours told together.

    >>> runs([3, 4, 5, 9]), runs([7])
    ('records 3 to 5, 9', 'record 7')
    """
    from undertow.reporting.words import record_ends

    records = list(records)
    if not records:
        return ""
    found = [ends for ends, _ in record_ends((record, None) for record in records)]
    more = f" and {len(found) - _MOST_RUNS} more runs" if len(found) > _MOST_RUNS else ""
    return f"record{'s' * (len(records) > 1)} " + ", ".join(found[:_MOST_RUNS]) + more


def _randomised(plan: "Plan[Any]") -> list[tuple[str, str]]:
    mechanism = plan.mechanism
    if mechanism.kind == "redaction":
        return _erased(mechanism)
    if mechanism.kind != "flips":
        return [
            ("flips", f"each record {_likely(mechanism.flip_rate)}, in runs"),
            ("flips begin", f"{_likely(mechanism.rho0)} after a record that is kept"),
            ("flips end", f"{_likely(mechanism.rho1)} after a record that is flipped"),
        ]
    return [("flips", _brief(plan, mechanism) or "see the table")]


def _brief(plan: "Plan[Any]", channel: "RandomizedResponse") -> str | None:
    """Return a channel in a line, None where it takes a table."""
    matrix = channel.matrix.tolist()
    states, named = [repr(state) for state in plan.states], channel.outputs is None
    rows = list(map(tuple, matrix))
    if len(set(rows)) == 1:
        return "the output does not depend on the record: nothing is shown"
    if len(rows) != len(rows[0]) or not named:
        return None
    if len(rows) == 2:
        first, second = rows[0][1], rows[1][0]
        if first == second:
            return f"either state {_likely(first)}"
        return f"{states[0]} {_likely(first)}, {states[1]} with {_probability(second)}"
    kept = {row[place] for place, row in enumerate(rows)}
    moved = {p for place, row in enumerate(rows) for other, p in enumerate(row) if other != place}
    if max(kept) - min(kept) <= _SAME and max(moved) - min(moved) <= _SAME:
        return f"every state {_likely(1 - min(kept))}, to each other state alike"
    return None


_SAME = 1e-12
"""Probabilities that differ by less are told as one; the plan file has the exact ones."""


def _show_channel(plan: "Plan[Any]", channel: "RandomizedResponse") -> None:
    names = [str(name) for name in plan.mechanism.names(plan.states)]
    header = ["", *(f"shown as {name}" for name in names[:_MOST_STATES])]
    rows = [
        [str(state), *map(_probability, row[:_MOST_STATES])]
        for state, row in zip(plan.states, channel.matrix.tolist(), strict=True)
    ][:_MOST_STATES]
    cut = max(len(names), len(plan.states)) > _MOST_STATES
    more = f" (the first {_MOST_STATES} of each; the plan file has all)" if cut else ""
    show_table(f"How likely each state is shown as each output{more}", header, rows)


def _erased(mechanism: "Redaction") -> list[tuple[str, str]]:
    always, at_times = _always(mechanism), _at_times(mechanism)
    shown = mechanism.length - len(always) - len(at_times)
    return [
        ("always erased", runs(always)),
        ("erased at times", runs(at_times) or "none"),
        ("always shown", f"{shown} of {mechanism.length} records"),
    ]


def _always(mechanism: "Redaction") -> list[int]:
    rows = enumerate(mechanism.probabilities.tolist())
    return [record for record, row in rows if min(row) == 1]


def _at_times(mechanism: "Redaction") -> list[int]:
    rows = enumerate(mechanism.probabilities.tolist())
    return [record for record, row in rows if max(row) > 0 and min(row) < 1]


def _show_erasures(plan: "Plan[Any]", mechanism: "Redaction") -> None:
    """Print how likely records are erased that are so at times, those nearest to a secret first."""
    table, touched = mechanism.probabilities, _at_times(mechanism)
    if not touched:
        return
    nearest = sorted(touched, key=lambda r: min(abs(r - secret) for secret in mechanism.protect))
    shown = sorted(nearest[:_MOST_RECORDS])
    more = f" (the nearest {len(shown)} of {len(touched)})" if len(shown) < len(touched) else ""
    states = plan.states[:_MOST_STATES]
    rows = [
        [f"{record}", *(_probability(table[record][place]) for place in range(len(states)))]
        for record in shown
    ]
    show_table(
        f"How likely a record is erased, by its state{more}",
        ["record", *(f"if {state}" for state in states)],
        rows,
    )


def _levels(plan: "Plan[Any]") -> list[tuple[str, str]]:
    if plan.task == "redact":
        return []
    if plan.mechanism.kind != "flips":
        return [("DP level", "none is known: the flips depend on each other")]
    level = plan.dp_epsilon
    return [("DP level", "none: an output excludes a state" if math.isinf(level) else above(level))]


def _leakage(plan: "Plan[Any]") -> str:
    found, allowed = interval(plan.leakage), f"{plan.limit:g}"
    if plan.leakage.proves(plan.limit):
        return f"{found}; {allowed} is allowed"
    if plan.leakage.lower > plan.limit:
        return f"{found}; MORE than the {allowed} that is allowed"
    return f"{found}; NOT proved to be the {allowed} that is allowed"


def _probability(value: float) -> str:
    return f"{value:.{_DIGITS}g}"


def _likely(value: float) -> str:
    return f"with probability {_probability(value)}"


def counted_words(state: "State | None") -> str:
    """Return what records that are no states count as, nothing where they are refused.

    >>> counted_words("idle")
    "records that are missing or no state of the plan count as 'idle'"
    """
    if state is None:
        return ""
    return f"records that are missing or no state of the plan count as {state!r}"


_TITLES = {"sanitize": "The flipped series", "redact": "The redacted series"}
_DOES = {
    "release": "answers a question with noise",
    "sanitize": "flips the records of a series",
    "redact": "erases records of a series",
}


@dataclass(frozen=True, slots=True)
class Task:
    """A series to randomise: what is read, by which plan, and where it goes."""

    verb: str
    reading: TableText
    records: RecordsText
    places: FlippedFiles | RedactedFiles
    told: ReleaseText

    def run(self) -> None:
        """Carry the task out, or say what it would do; nothing is half done."""
        self.told.keep_off(self.places.named())
        plan = self._plan()
        with waiting("reading the data"):
            before, book = seen(self.told.data), self.told.open()
            with unchanged(before):
                self.places.check(free=book is None)
                ready = prepare(
                    plan, self.reading.read(self.told.data), book, strict=self.records.strict,
                    release_id=self.told.release_id,
                )  # fmt: skip
            asked = foretell(ready.entry, book)
            if asked is not None and not asked.recorded:
                self.places.check()
        if self.told.dry_run or self.places.output is None:
            if asked is not None and asked.recorded:
                self._check_published(asked)
            _tell_intent(self, ready, asked)
            return
        made = None
        with waiting("randomising the records"):
            before.check(CHANGED)
            if book is not None and ready.entry is not None:
                made = reserve(ready.entry, ready.table, book)
        if made is not None and made.result is not None:
            with waiting("writing"):
                result = self._publish_again(made.release_id, made.entry_hash, made.result)
        else:
            result = self._randomise(ready, book, made)
        if book is None:
            say(f"warning: {UNACCOUNTED}")
        left = None if book is None or self.verb == "redact" else book.left(ready.table.scope())
        _tell(self, ready, made, result, left)

    def _plan(self) -> "Plan[Any]":
        """Return the plan, if it is for this command."""
        plan = self.told.read_plan()
        if verb_of(plan) != self.verb:
            raise NotSupported(
                f"the plan file {self.told.plan} {_DOES[verb_of(plan)]}; use it with 'undertow "
                f"{verb_of(plan)}'"
            )
        return plan

    def _randomise(
        self, ready: SeriesRequest, book: "Ledger | None", made: "Reservation | None"
    ) -> dict[str, Any]:
        """Draw, write everything, record the release, and only then give the files their names.

        Drafts of an earlier run that was not recorded are removed before anything is drawn.
        """
        places = self.places
        name = name_of(None if made is None else made.entry_hash, places.named()[0])
        if any(abandoned(places.named(), name)):
            alike = "" if made is None else ", with the same outputs if the records are the same"
            say(f"an earlier run was interrupted: what it left is removed, all begins anew{alike}")
        clear(places.named(), name)
        with waiting("randomising the records"):
            outputs = Outputs(ready, book)
        shown = FirstOutputs(places.named()[0], self.reading.person)
        with waiting("randomising and writing"), Drafts(name, places.writable) as drafts:
            hashes = {}
            try:
                for role, path in places.roles().items():
                    if role.startswith("output"):
                        write = partial(write_frames, shown.noting(outputs.frames()))
                        hashes[role] = drafts.compose(path, partial(write, name=path.name))
                    else:
                        content = self._content(role, path, ready, shown, made)
                        hashes[role] = drafts.write(path, content)
                drafts.settle()
            except InvalidInput as error:
                again = "draws anew" if made is None else "uses what is reserved"
                raise InvalidInput(
                    f"{error}; nothing was released: the same command again {again}"
                ) from None
            result = outputs.result
            if book is not None and made is not None:
                drafts.keep = True  # from here on it may be recorded, whatever is heard of it
                try:
                    record(book, made.release_id, {**result, "files": hashes})
                except LedgerConflict:
                    drafts.keep = False
                    raise
            drafts.publish()
        if shown.formulas:
            named = ", ".join(map(repr, shown.formulas))
            say(
                f"warning: names or texts of {named} begin like formulas; open the file in a "
                "spreadsheet as text only"
            )
        return result

    def _content(
        self, role: str, path: Path, ready: SeriesRequest, shown: "FirstOutputs",
        made: "Reservation | None",
    ) -> bytes:  # fmt: skip
        """Return what a file beside the outputs holds, by what it is."""
        if role.startswith("figure"):
            return _figure(ready.plan, shown.first(), self.reading, path)
        return self._report(ready, made, path)

    def _report(self, ready: SeriesRequest, made: "Reservation | None", path: Path) -> bytes:
        from undertow.reporting.report import SeriesReport
        from undertow.reporting.sections import SeriesFacts

        facts = SeriesFacts(
            ready.plan, ready.shape.rows, ready.shape.persons, source=self.told.source,
            release_id=None if made is None else made.release_id,
            entry=None if made is None else made.entry_hash,
            foreign=counted_words(self.records.rest(ready.plan)),
            conditions=ready.conditions,
        )  # fmt: skip
        return SeriesReport(facts).content(path)

    def _left_behind(
        self, release_id: str, name: str, recorded: Mapping[str, Any]
    ) -> dict[Path, Path]:
        """Return the recorded drafts of the files that are asked for, and the place of each.

        A file that is at its place already has no draft. Refused where some file is neither here
        nor there.
        """
        hashes, found = recorded.get("files", {}), {}
        roles = self.places.roles()
        for role, path in roles.items():
            wanted = hashes.get(role)
            if wanted is not None and digest(path) == wanted:
                continue
            drafts = (one for one in abandoned([path], name) if digest(one) == wanted)
            draft = None if wanted is None else next(drafts, None)
            if draft is None:
                raise released(release_id)
            found[draft] = path
        if not roles:
            raise released(release_id)
        return found

    def _check_published(self, asked: Foretold) -> None:
        """Refuse a recorded release whose outputs are gone, or cannot be published."""
        found = asked.found
        if found is None or found.result is None or self.places.output is None:
            raise released(asked.entry.release_id)
        name = name_of(found.hash, self.places.output)
        for path in self._left_behind(found.release_id, name, found.result).values():
            check_output(path, force=self.places.force)

    def _publish_again(
        self, release_id: str, entry: str, recorded: dict[str, Any]
    ) -> dict[str, Any]:
        """Publish what an earlier run drew and recorded, if it is still there; draw nothing."""
        name = name_of(entry, self.places.named()[0])
        kept = self._left_behind(release_id, name, recorded)
        with Drafts(name, self.places.writable, keep=True) as drafts:
            for draft, path in kept.items():
                drafts.adopt(draft, path)
            drafts.publish()
        clear(self.places.named(), name)
        return recorded


class FirstOutputs:
    """What is said of outputs that are written piece by piece: the first person's, and formulas."""

    def __init__(self, path: Path, person: str | None) -> None:
        self._path, self._person = path, person
        self._first: list[Any] = []
        self._over = False
        self.formulas: list[str] = []

    def noting(self, frames: "Iterator[Any]") -> "Iterator[Any]":
        """Yield frames of outputs, and note what is said of them."""
        for frame in frames:
            found = formulas(frame, self._path)
            self.formulas = list(dict.fromkeys([*self.formulas, *found]))
            if not self._over:
                self._take(frame)
            yield frame

    def first(self) -> Any:
        """Return the rows of the first person."""
        return concatenated(self._first)

    def _take(self, frame: Any) -> None:
        own = frame
        if self._person is not None:
            named = (self._first or [frame])[0][self._person][0]
            own = frame.filter(frame[self._person] == named)
            self._over = self._over or (bool(self._first) and own.height < frame.height)
        self._first.append(own)


def record(book: "Ledger", release_id: str, result: dict[str, Any]) -> None:
    """Record a release with the hashes of its files; whoever drew first has it."""
    if book.confirm(release_id, result) != result:
        raise released(release_id)


def _figure(plan: "Plan[Any]", frame: Any, reading: TableText, path: Path) -> bytes:
    """Return the figure of the first person's series, in order of time."""
    from undertow.data.table import Data
    from undertow.data.writing import column_of
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.series import draw_redaction

    series = Data(frame, value=column_of(frame).name, time=reading.time)
    shown = series.sequences(plan.states)[0]
    title = plan.query.words()
    drawn = draw_redaction(plan, shown, title[:1].upper() + title[1:])
    return figure_bytes(drawn, figure_kind(path))


def _facts(task: Task, ready: SeriesRequest) -> dict[str, Any]:
    plan = ready.plan
    counted = task.records.rest(plan)
    return {
        "audience": plan.audience,
        "question": plan.query.words(),
        "records": ready.shape.rows,
        "persons": ready.shape.persons,
        "foreign": None if task.records.strict else str(counted),
        "foreign_words": counted_words(counted) or None,
        "promise": plan.guarantee(*ready.conditions),
        "against": adversary_fields(plan.against),
        "not_covered": [words for _, words in uncovered(plan)],
        "unit": plan.unit,
        "method": plan.method,
        "measures": dict(plan.measures),
        "plan": plan.fingerprint(),
        "files": [str(path) for path in task.places.named()],
    }


def _rows(task: Task, ready: SeriesRequest) -> list[tuple[str, str]]:
    from undertow.reporting import scope

    plan = ready.plan
    counted = counted_words(task.records.rest(plan))
    return [
        ("question", plan.query.words()),
        ("records", scope.records(ready.shape.rows, ready.shape.persons)),
        ("foreign", counted or "refused by their row, which depends on the records"),
        *measure_rows(plan),
        ("guarantee", plan.guarantee(*ready.conditions)),
        *uncovered(plan),
    ]


def _tell(
    task: Task, ready: SeriesRequest, made: "Reservation | None", result: Mapping[str, Any],
    left: float | None,
) -> None:  # fmt: skip
    again = made is not None and made.result is not None
    when = None if made is None else made.made
    if task.told.as_json:
        recorded = {
            "recorded_earlier": again,
            "made": when,
            "release_id": None if made is None else made.release_id,
            "ledger_entry": None if made is None else made.entry_hash,
            "sha256": None if made is None else result.get("sha256"),
            "left": left,
        }
        typer.echo(strict_json(_facts(task, ready) | recorded))
        return
    rows = _rows(task, ready)
    if made is not None:
        rows += [("release", made.release_id), ("entry", made.entry_hash)]
    if again:
        words = "" if when is None else f" {when}"
        rows.append(("recorded earlier", f"this is what was drawn{words} under that release"))
    if left is not None:
        rows.append(("left", f"{level_words(left)} for these records"))
    written = ", ".join(map(str, task.places.named()))
    show(_TITLES[task.verb], [*rows, ("written to", written)])


def _tell_intent(task: Task, ready: SeriesRequest, asked: Foretold | None) -> None:
    if task.told.as_json:
        told = {
            "dry_run": True,
            "release_id": None if asked is None else asked.entry.release_id,
            "level": None if asked is None else asked.entry.level,
            "spends": 0.0 if asked is None else asked.spends,
            "left": None if asked is None else asked.left,
            "left_after": None if asked is None else asked.left_after,
        }
        typer.echo(strict_json(_facts(task, ready) | told))
        return
    written = ", ".join(map(str, task.places.named())) or "nothing; name --output"
    spending = [("spends", "there is no ledger: nothing is accounted")]
    if asked is not None:
        spending = spend_rows(
            asked, "nothing more: it was recorded by an earlier run, whose outputs are published"
        )
    why = "dry run" if task.told.dry_run else "no --output"
    show(
        f"What {task.verb} would do ({why}: nothing was drawn, recorded or written)",
        [*_rows(task, ready), *spending, ("writes", written)],
    )


@command
def sanitize(
    reading: ReleasedText, records: RecordsText, places: FlippedFiles, told: ReleaseText
) -> None:
    """The series of a table, every record flipped at random as a plan says.

    The file has the columns of persons, times and groups as they were, and the outputs. Without
    --output nothing is drawn: you see what would be guaranteed. The flips of a file that is
    published are part of the release: a second run is a second release. A run that was cut off is
    completed by the same command, with --ledger from what was drawn and paid for.

    \b
    Examples:
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.csv
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.parquet --dry-run
    """

    Task("sanitize", reading, records, places, told).run()


@command
def redact(
    reading: ReleasedText, records: RecordsText, places: RedactedFiles, told: ReleaseText
) -> None:
    """The series of a table, records erased as a plan says; the protected ones always are.

    Every series must have exactly the records of the plan. The file has the columns of persons,
    times and groups as they were, the outputs (empty where erased), and a column 'erased'. A
    redaction admits no other release of the same series.

    \b
    Examples:
      undertow redact activity.csv.gz --plan erasures.json --value steps --state 'steps > 0' \\
        --output shown.csv
      undertow redact activity.csv.gz --plan erasures.json --value steps --state 'steps > 0' \\
        --output shown.parquet --figure shown.png --dry-run
    """

    Task("redact", reading, records, places, told).run()
