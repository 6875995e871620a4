"""What ``undertow sanitize`` and ``undertow redact`` share: read, account, draw, write whole.

Files are complete on the disk, in a private folder, before a release is confirmed in the ledger,
and get their names after it. So a full disk spends nothing but the reservation, which the same
command uses again; and a run that is killed after the confirmation is completed by the next one,
which publishes what was drawn. Before each draw the drafts of earlier ones are removed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from undertow.accounting import Foretold, foretell, released, reserve
from undertow.cli.data_options import TableText
from undertow.cli.files import check_output
from undertow.cli.local_drafts import Drafts, abandoned, clear, digest, name_of
from undertow.cli.local_files import (
    CHANGED,
    FlippedFiles,
    RedactedFiles,
    formulas,
    unchanged,
)
from undertow.cli.local_options import RecordsText
from undertow.cli.local_output import counted_words, measure_rows, uncovered, verb_of
from undertow.cli.options import ReleaseText, figure_kind
from undertow.cli.output import (
    UNACCOUNTED,
    adversary_fields,
    level_words,
    say,
    show,
    spend_rows,
    strict_json,
    waiting,
)
from undertow.data.watching import seen
from undertow.data.writing import concatenated, write_frames
from undertow.errors import InvalidInput, LedgerConflict, NotSupported
from undertow.sanitizing import Outputs, PreparedSeries, prepare

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger, Reservation
    from undertow.plan import Plan

__all__ = ["Task", "record"]

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
        self, ready: PreparedSeries, book: "Ledger | None", made: "Reservation | None"
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
        with waiting("randomising and writing"), Drafts(name, places.force) as drafts:
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
        self, role: str, path: Path, ready: PreparedSeries, shown: "FirstOutputs",
        made: "Reservation | None",
    ) -> bytes:  # fmt: skip
        """Return what a file beside the outputs holds, by what it is."""
        if role.startswith("figure"):
            return _figure(ready.plan, shown.first(), self.reading, path)
        return self._report(ready, made, path)

    def _report(self, ready: PreparedSeries, made: "Reservation | None", path: Path) -> bytes:
        from undertow.reporting.report import SeriesReport
        from undertow.reporting.series import SeriesFacts

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
        with Drafts(name, self.places.force, keep=True) as drafts:
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
    from undertow.data.rewriting import column_of
    from undertow.data.table import Data
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.erasures import draw_redaction

    series = Data(frame, value=column_of(frame).name, time=reading.time)
    shown = series.sequences(plan.states)[0]
    title = plan.query.words()
    drawn = draw_redaction(plan, shown, title[:1].upper() + title[1:])
    return figure_bytes(drawn, figure_kind(path))


def _facts(task: Task, ready: PreparedSeries) -> dict[str, Any]:
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


def _rows(task: Task, ready: PreparedSeries) -> list[tuple[str, str]]:
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
    task: Task, ready: PreparedSeries, made: "Reservation | None", result: Mapping[str, Any],
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


def _tell_intent(task: Task, ready: PreparedSeries, asked: Foretold | None) -> None:
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
