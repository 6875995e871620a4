"""The randomisation of the series of a table as a plan says, into files and the ledger.

Files are complete on the disk, as private drafts, before a release is confirmed in the ledger, and
get their names after it. A full disk spends nothing but the reservation, which the same command
uses again; a run killed after the confirmation is completed by the next one.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from undertow.cli.files import check_output
from undertow.cli.options import RecordsOptions, ReleaseOptions, TableOptions, figure_kind
from undertow.cli.output import (
    UNACCOUNTED,
    level_words,
    say,
    show,
    spend_rows,
    strict_json,
    waiting,
)
from undertow.cli.plan import measure_rows, uncovered
from undertow.cli.sanitize import SeriesFiles
from undertow.data.codes import concatenated, write_frames
from undertow.data.readers.sources import Seen, seen
from undertow.errors import InvalidInput, LedgerConflict, NotSupported, UndertowError
from undertow.releasing.account import Foretold, foretell, released, reserve
from undertow.releasing.drafts import Drafts, abandoned, clear, digest
from undertow.releasing.series import Outputs, SeriesRequest, prepare

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger, Reservation
    from undertow.plan import Plan
    from undertow.queries import State

__all__ = ["Sanitization"]


def name_of(entry: str | None, output: Path) -> str:
    """Return the name of the drafts of a release, from its entry, or else from its output.

    >>> name_of("ab" * 32, Path("out.csv"))
    'release-abababababababababababababababab'
    """
    if entry is not None:
        return f"release-{entry[:32]}"
    return f"unaccounted-{hashlib.sha256(output.name.encode()).hexdigest()[:32]}"


CHANGED = (
    "changed while it was read; nothing was written or spent: run the command again when the file "
    "is complete"
)
"""The refusal of a table that changed while it was read."""


@contextmanager
def unchanged(before: Seen) -> Iterator[None]:
    """Refuse a file that changed, before any other refusal, which the change may have caused."""
    try:
        yield
    except UndertowError:
        before.check(CHANGED)
        raise
    before.check(CHANGED)


_FORMULA, _NUMBER = r"^[=+\-@\t\r]", r"^[+\-]?[0-9.]+([eE][+\-]?[0-9]+)?$"


def formulas(frame: Any, path: Path) -> list[str]:
    """Return the columns that a spreadsheet would evaluate as formulas.

    Persons, times, groups and states are written unchanged, so that files can be joined and
    estimated from; a warning names the columns instead.
    """
    if path.name.lower().endswith(".parquet"):
        return []
    columns = []
    for name in frame.columns:
        text = str(frame[name].dtype) == "String"
        texts = [name, *(frame[name].unique().to_list() if text else ())]
        if any(re.match(_FORMULA, t) and not re.match(_NUMBER, t) for t in texts if t):
            columns.append(name)
    return columns


def counted_words(state: "State | None") -> str:
    """Return the meaning of missing and foreign records in words, empty if they are refused.

    >>> counted_words("idle")
    "records that are missing or no state of the plan count as 'idle'"
    """
    if state is None:
        return ""
    return f"records that are missing or no state of the plan count as {state!r}"


_TITLES = {"flip": "The flipped series", "redact": "The redacted series"}


@dataclass(frozen=True, slots=True)
class Sanitization:
    """A series to randomise: how it is read, by which plan, and where it goes."""

    reading: TableOptions
    records: RecordsOptions
    places: SeriesFiles
    release: ReleaseOptions

    def run(self) -> None:
        """Randomise and write the series, or print a preview without ``--output``."""
        self.release.keep_off(self.places.named())
        plan = self._plan()
        with waiting("reading the data"):
            before, book = seen(self.release.data), self.release.open()
            with unchanged(before):
                self.places.check(free=book is None)
                ready = prepare(
                    plan, self.reading.read(self.release.data), book, strict=self.records.strict,
                    release_id=self.release.release_id,
                )  # fmt: skip
            preview = foretell(ready.entry, book)
            if preview is not None and not preview.recorded:
                self.places.check()
        if self.release.dry_run or self.places.output is None:
            if preview is not None and preview.recorded:
                self._check_published(preview)
            _show_preview(self, ready, preview)
            return
        reservation = None
        with waiting("randomising the records"):
            before.check(CHANGED)
            if book is not None and ready.entry is not None:
                reservation = reserve(ready.entry, ready.table, book)
        if reservation is not None and reservation.result is not None:
            with waiting("writing"):
                result = self._publish_again(
                    reservation.release_id, reservation.entry_hash, reservation.result
                )
        else:
            result = self._randomise(ready, book, reservation)
        if book is None:
            say(f"warning: {UNACCOUNTED}")
        left = None
        if book is not None and plan.task == "flip":
            left = book.left(ready.table.scope())
        _show(self, ready, reservation, result, left)

    def _plan(self) -> "Plan[Any]":
        """Return the plan, refusing those of other commands and figures of flips."""
        plan = self.release.read_plan()
        if plan.task == "answer":
            raise NotSupported(
                f"the plan file {self.release.plan} answers a question with noise; use it with "
                "'undertow release'"
            )
        if plan.task == "flip" and self.places.figure is not None:
            raise NotSupported(
                f"--figure draws erasures, and the plan file {self.release.plan} flips records; "
                "leave it out"
            )
        return plan

    def _randomise(
        self, ready: SeriesRequest, book: "Ledger | None", reservation: "Reservation | None"
    ) -> dict[str, Any]:
        """Draw, write everything, record the release, and then give the files their names.

        Drafts of an earlier run that was not recorded are removed before anything is drawn.
        """
        places = self.places
        name = name_of(None if reservation is None else reservation.entry_hash, places.named()[0])
        if any(abandoned(places.named(), name)):
            alike = ", with the same outputs if the records are the same"
            say(
                "an earlier run was interrupted: its drafts are removed, and records are "
                f"randomised anew{'' if reservation is None else alike}"
            )
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
                        if role.startswith("figure"):
                            content = _figure(ready.plan, shown.first(), self.reading, path)
                        else:
                            content = self._report(ready, reservation, path)
                        hashes[role] = drafts.write(path, content)
                drafts.settle()
            except InvalidInput as error:
                again = "draws anew" if reservation is None else "uses what is reserved"
                raise InvalidInput(
                    f"{error}; nothing was released: the same command again {again}"
                ) from None
            result = outputs.result
            if book is not None and reservation is not None:
                drafts.keep = True  # from here on it may be recorded, even if confirm raises
                try:
                    record(book, reservation.release_id, {**result, "files": hashes})
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

    def _report(self, ready: SeriesRequest, reservation: "Reservation | None", path: Path) -> bytes:
        from undertow.reporting.report import SeriesReport
        from undertow.reporting.sections import SeriesFacts

        facts = SeriesFacts(
            ready.plan, ready.shape.rows, ready.shape.persons, source=self.release.source,
            release_id=None if reservation is None else reservation.release_id,
            entry=None if reservation is None else reservation.entry_hash,
            foreign=counted_words(self.records.rest(ready.plan)),
            conditions=ready.conditions,
        )  # fmt: skip
        return SeriesReport(facts).content(path)

    def _recorded_drafts(
        self, release_id: str, name: str, recorded: Mapping[str, Any]
    ) -> dict[Path, Path]:
        """Return the recorded drafts of the files to write, and the place of each.

        A file that is at its place has no draft. Raises if a file is neither a draft nor at its
        place.
        """
        hashes, places = recorded.get("files", {}), {}
        roles = self.places.roles()
        for role, path in roles.items():
            expected = hashes.get(role)
            if expected is not None and digest(path) == expected:
                continue
            drafts = (one for one in abandoned([path], name) if digest(one) == expected)
            draft = None if expected is None else next(drafts, None)
            if draft is None:
                raise released(release_id)
            places[draft] = path
        if not roles:
            raise released(release_id)
        return places

    def _check_published(self, preview: Foretold) -> None:
        """Refuse a recorded release whose outputs are gone, or cannot be published."""
        entry = preview.found
        if entry is None or entry.result is None or self.places.output is None:
            raise released(preview.entry.release_id)
        name = name_of(entry.hash, self.places.output)
        for path in self._recorded_drafts(entry.release_id, name, entry.result).values():
            check_output(path, force=self.places.force)

    def _publish_again(
        self, release_id: str, entry: str, recorded: dict[str, Any]
    ) -> dict[str, Any]:
        """Publish the drafts that an earlier run recorded; draw nothing."""
        name = name_of(entry, self.places.named()[0])
        kept = self._recorded_drafts(release_id, name, recorded)
        with Drafts(name, self.places.writable, keep=True) as drafts:
            for draft, path in kept.items():
                drafts.adopt(draft, path)
            drafts.publish()
        clear(self.places.named(), name)
        return recorded


class FirstOutputs:
    """The first person's rows, and columns like formulas, of outputs written piece by piece."""

    def __init__(self, path: Path, person: str | None) -> None:
        self._path, self._person = path, person
        self._first: list[Any] = []
        self._over = False
        self.formulas: list[str] = []

    def noting(self, frames: "Iterator[Any]") -> "Iterator[Any]":
        """Yield frames of outputs, and note the first person's rows and columns like formulas."""
        for frame in frames:
            columns = formulas(frame, self._path)
            self.formulas = list(dict.fromkeys([*self.formulas, *columns]))
            if not self._over:
                self._take(frame)
            yield frame

    def first(self) -> Any:
        """Return the rows of the first person."""
        return concatenated(self._first)

    def _take(self, frame: Any) -> None:
        own = frame
        if self._person is not None:
            first = (self._first or [frame])[0][self._person][0]
            own = frame.filter(frame[self._person] == first)
            self._over = self._over or (bool(self._first) and own.height < frame.height)
        self._first.append(own)


def record(book: "Ledger", release_id: str, result: dict[str, Any]) -> None:
    """Record a release with the hashes of its files, unless another run recorded it first."""
    if book.confirm(release_id, result) != result:
        raise released(release_id)


def _figure(plan: "Plan[Any]", frame: Any, reading: TableOptions, path: Path) -> bytes:
    """Return the figure of the first person's series, in order of time."""
    from undertow.data.codes import column_of
    from undertow.data.table import Data
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.series import draw_redaction
    from undertow.reporting.words import sentence

    series = Data(frame, value=column_of(frame).name, time=reading.time)
    shown = series.sequences(plan.states)[0]
    drawn = draw_redaction(plan, shown, sentence(plan.query.words()))
    return figure_bytes(drawn, figure_kind(path))


def _facts(task: Sanitization, ready: SeriesRequest) -> dict[str, Any]:
    from undertow.plan import adversary_to_dict

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
        "against": adversary_to_dict(plan.against),
        "not_covered": [words for _, words in uncovered(plan)],
        "unit": plan.unit,
        "method": plan.method,
        "measures": dict(plan.measures),
        "plan": plan.fingerprint(),
        "files": [str(path) for path in task.places.named()],
    }


def _rows(task: Sanitization, ready: SeriesRequest) -> list[tuple[str, str]]:
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


def _show(
    task: Sanitization, ready: SeriesRequest, reservation: "Reservation | None",
    result: Mapping[str, Any], left: float | None,
) -> None:  # fmt: skip
    again = reservation is not None and reservation.result is not None
    when = None if reservation is None else reservation.made
    if task.release.as_json:
        recorded = {
            "recorded_earlier": again,
            "made": when,
            "release_id": None if reservation is None else reservation.release_id,
            "ledger_entry": None if reservation is None else reservation.entry_hash,
            "sha256": None if reservation is None else result.get("sha256"),
            "left": left,
        }
        typer.echo(strict_json(_facts(task, ready) | recorded))
        return
    rows = _rows(task, ready)
    if reservation is not None:
        rows += [("release", reservation.release_id), ("entry", reservation.entry_hash)]
    if again:
        words = "" if when is None else f" {when}"
        rows.append(("recorded earlier", f"this is what was drawn{words} under that release"))
    if left is not None:
        rows.append(("left", f"{level_words(left)} for these records"))
    written = ", ".join(map(str, task.places.named()))
    show(_TITLES[ready.plan.task], [*rows, ("written to", written)])


def _show_preview(task: Sanitization, ready: SeriesRequest, preview: Foretold | None) -> None:
    if task.release.as_json:
        fields = {
            "dry_run": True,
            "release_id": None if preview is None else preview.entry.release_id,
            "level": None if preview is None else preview.entry.level,
            "spends": 0.0 if preview is None else preview.spends,
            "left": None if preview is None else preview.left,
            "left_after": None if preview is None else preview.left_after,
        }
        typer.echo(strict_json(_facts(task, ready) | fields))
        return
    written = ", ".join(map(str, task.places.named())) or "nothing; name --output"
    spending = [("spends", "nothing is accounted: no ledger is given")]
    if preview is not None:
        spending = spend_rows(
            preview, "nothing more: it was recorded by an earlier run, whose outputs are published"
        )
    why = "dry run" if task.release.dry_run else "no --output"
    show(
        f"Preview of the randomisation ({why}: nothing was drawn, recorded or written)",
        [*_rows(task, ready), *spending, ("writes", written)],
    )
