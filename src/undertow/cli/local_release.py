"""What ``undertow sanitize`` and ``undertow redact`` share: read, account, draw, write whole.

Files are complete on the disk, in a private folder, before a release is confirmed in the ledger,
and get their names after it. So a full disk spends nothing but the reservation, which the same
command uses again; and a run that is killed after the confirmation is completed by the next one,
which publishes what was drawn. Before each draw the drafts of earlier ones are removed.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from undertow.cli.data_options import DataText
from undertow.cli.files import keep_off, read_plan
from undertow.cli.ledger_command import level_words
from undertow.cli.local_account import (
    Account,
    Asked,
    Enough,
    Held,
    LedgerStage,
    Recorded,
    Stage,
    foretold,
    left_behind,
)
from undertow.cli.local_drafts import Drafts, clear, name_of
from undertow.cli.local_files import Places, Watch, figure_kind, formulas, table_bytes
from undertow.cli.local_output import (
    count_words,
    counted_words,
    measure_rows,
    uncovered,
    verb_of,
)
from undertow.cli.options import find_state, misuse
from undertow.cli.output import above, show, strict_json, waiting
from undertow.errors import InvalidInput, LedgerConflict, NotSupported

if TYPE_CHECKING:
    from undertow.data.table import Data, Shape
    from undertow.ledger.book import Ledger
    from undertow.plan import Plan
    from undertow.queries import State

__all__ = ["Task"]

_UNACCOUNTED = (
    "not accounted in a ledger: every run draws anew and reveals more; "
    "name one with --ledger and --dataset"
)
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
    data: Path
    plan_file: Path
    options: DataText
    foreign: str | None
    strict: bool
    account: Account
    places: Places
    source: str | None = None
    trusted: list[str] | None = None

    def __post_init__(self) -> None:
        """Refuse two ways of reading the same records."""
        if self.strict and self.foreign is not None:
            raise misuse("say one of --foreign and --strict")

    def run(self, *, dry_run: bool, as_json: bool) -> None:
        """Carry the task out, or say what it would do; nothing is half done."""
        account = [] if self.account.ledger is None else [Path(self.account.ledger)]
        keep_off(self.places.named(), [self.data, self.plan_file, *account])
        plan = self._plan()
        with waiting("reading the data"):
            watch, book = Watch(self.data), self.account.open()
            with watch:
                table = self.options.read(self.data, plan.states)
                self.places.check(free=book is None)
                shape = table.shape()
        if dry_run or self.places.output is None:
            with waiting("reading the data"), watch:
                asked = self._rehearse(plan, table, book)
            _tell_intent(self, plan, shape, asked, dry_run=dry_run, as_json=as_json)
            return
        held = None if book is None else Held(book, watch, self.places)
        if held is None:
            clear(self.places.named(), name_of(None, self.places.output))
        try:
            with waiting("randomising the records"), watch if held is None else held:
                frame = self._randomised(plan, table, held)
        except Recorded:
            with waiting("writing"):
                self._publish_again(held)
        else:
            with waiting("writing"):
                self._write(plan, frame, shape, held)
            self._warn(frame)
        if book is None:
            typer.echo(f"undertow: warning: {_UNACCOUNTED}", err=True)
        left = None if book is None or self.verb == "redact" else book.left(table.scope())
        _tell(self, plan, shape, held, left, as_json=as_json)

    def counted(self, plan: "Plan[Any]") -> "State | None":
        """Return the state of records that are missing or in no state, None if they are refused."""
        if self.strict:
            return None
        return plan.states[0] if self.foreign is None else find_state(self.foreign, plan.states)

    def _plan(self) -> "Plan[Any]":
        """Return the plan, if it is for this command."""
        plan: Plan[Any] = read_plan(self.plan_file, self.trusted)
        if verb_of(plan) != self.verb:
            raise NotSupported(
                f"the plan file {self.plan_file} {_DOES[verb_of(plan)]}; use it with 'undertow "
                f"{verb_of(plan)}'"
            )
        return plan

    def _randomised(self, plan: "Plan[Any]", table: "Data", ledger: Any) -> Any:
        """Return the frame of outputs."""
        from undertow import sanitizing

        carry_out: Callable[..., Any] = getattr(sanitizing, self.verb)
        state = None if self.foreign is None else find_state(self.foreign, plan.states)
        return carry_out(
            plan, table, foreign=state, strict=self.strict, ledger=ledger,
            release_id=self.account.release_id,
        )  # fmt: skip

    def _rehearse(self, plan: "Plan[Any]", table: "Data", book: "Ledger | None") -> "Asked | None":
        """Return what would be reserved, after the very checks that a release would make."""
        stage = Stage() if book is None else LedgerStage(book)
        with suppress(Enough):
            self._randomised(plan, table, stage)
        if book is None or stage.asked is None:
            return None
        return foretold(book, stage.asked, self.places)

    def _write(self, plan: "Plan[Any]", frame: Any, shape: "Shape", held: "Held | None") -> None:
        """Write everything, record the release, and only then give the files their names."""
        places = self.places
        roles = {path: role for role, path in places.roles().items()}
        name = name_of(None, places.named()[0]) if held is None else held.drafts
        with Drafts(name, places.force) as drafts:
            hashes = {}
            try:
                for path, content in self._contents(plan, frame, shape, held):
                    hashes[roles[path]] = drafts.write(path, content)
                drafts.settle()
            except InvalidInput as error:
                again = "draws anew" if held is None else "uses what is reserved"
                raise InvalidInput(
                    f"{error}; nothing was released: the same command again {again}"
                ) from None
            if held is not None:
                drafts.keep = True  # from here on it may be recorded, whatever is heard of it
                try:
                    held.settle(hashes)
                except LedgerConflict:
                    drafts.keep = False
                    raise
            drafts.publish()

    def _contents(
        self, plan: "Plan[Any]", frame: Any, shape: "Shape", held: "Held | None"
    ) -> Iterator[tuple[Path, bytes]]:
        """Yield the files and what they hold."""
        places = self.places
        if places.output is not None:
            yield places.output, table_bytes(frame, places.output)
        if places.figure is not None:
            yield places.figure, _figure(plan, frame, self.options, places.figure)
        if places.report is not None:
            counted = self.counted(plan)
            yield places.report, _report(plan, shape, held, self.source, counted, places.report)

    def _publish_again(self, held: "Held | None") -> None:
        """Publish what an earlier run drew and recorded, if it is still there; draw nothing."""
        made = None if held is None else held.reserved
        if held is None or made is None or made.result is None:
            raise LedgerConflict("nothing was recorded for this release")
        kept = left_behind(self.places, made.result, held.drafts)
        if kept is None:
            from undertow.accounting import released

            raise released(made.release_id)
        held.result = made.result
        with Drafts(held.drafts, self.places.force, keep=True) as drafts:
            for draft, path in kept.items():
                drafts.adopt(draft, path)
            drafts.publish()
        clear(self.places.named(), held.drafts)

    def _warn(self, frame: Any) -> None:
        """Say which columns a spreadsheet would calculate; they are written as they are."""
        columns = formulas(frame, self.places.named()[0])
        if columns:
            named = ", ".join(map(repr, columns))
            typer.echo(
                f"undertow: warning: names or texts of {named} begin like formulas; open the file "
                "in a spreadsheet as text only",
                err=True,
            )


def _figure(plan: "Plan[Any]", frame: Any, options: DataText, path: Path) -> bytes:
    """Return the figure of the first person's series, in order of time."""
    from undertow.data.rewriting import column_of
    from undertow.data.table import Data
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.erasures import draw_redaction

    if options.person is not None:
        frame = frame.filter(frame[options.person] == frame[options.person][0])
    series = Data(frame, value=column_of(frame).name, time=options.time)
    shown = series.sequences(plan.states)[0]
    title = plan.query.words()
    drawn = draw_redaction(plan, shown, title[:1].upper() + title[1:])
    return figure_bytes(drawn, figure_kind(path))


def _report(
    plan: "Plan[Any]", shape: "Shape", held: Held | None, source: str | None,
    counted: "State | None", path: Path,
) -> bytes:  # fmt: skip
    from undertow.reporting.report import SeriesReport
    from undertow.reporting.series import SeriesFacts

    made = None if held is None else held.reserved
    facts = SeriesFacts(
        plan, shape.rows, shape.persons, source=source,
        release_id=None if made is None else made.release_id,
        entry=None if made is None else made.entry_hash,
        foreign=counted_words(counted),
    )  # fmt: skip
    return SeriesReport(facts).content(path)


def _facts(task: Task, plan: "Plan[Any]", shape: "Shape") -> dict[str, Any]:

    against = plan.against
    return {
        "question": plan.query.words(),
        "records": shape.rows,
        "persons": shape.persons,
        "foreign": None if task.strict else str(task.counted(plan)),
        "foreign_words": counted_words(task.counted(plan)) or None,
        "promise": plan.guarantee(),
        "against": against if isinstance(against, str) else {
            "target": against.target, "known": list(against.known)
        },
        "not_covered": [words for _, words in uncovered(plan)],
        "unit": plan.unit,
        "method": plan.method,
        "measures": dict(plan.measures),
        "plan": plan.fingerprint(),
        "files": [str(path) for path in task.places.named()],
    }  # fmt: skip


def _rows(task: Task, plan: "Plan[Any]", shape: "Shape") -> list[tuple[str, str]]:

    counted = task.counted(plan)
    return [
        ("question", plan.query.words()),
        ("records", count_words(shape.rows, shape.persons)),
        ("foreign", counted_words(counted) or "refused by their row, which depends on the records"),
        *measure_rows(plan),
        ("promise", plan.guarantee()),
        *uncovered(plan),
    ]


def _tell(
    task: Task, plan: "Plan[Any]", shape: "Shape", held: Held | None, left: float | None,
    *, as_json: bool,
) -> None:  # fmt: skip
    made = None if held is None else held.reserved
    again = made is not None and made.result is not None
    when = None if made is None else made.made
    if as_json:
        recorded = {
            "recorded_earlier": again,
            "made": when,
            "release_id": None if made is None else made.release_id,
            "ledger_entry": None if made is None else made.entry_hash,
            "sha256": None if held is None else held.result.get("sha256"),
            "left": left,
        }
        typer.echo(strict_json(_facts(task, plan, shape) | recorded))
        return
    rows = _rows(task, plan, shape)
    if made is not None:
        rows += [("release", made.release_id), ("entry", made.entry_hash)]
    if again:
        words = "" if when is None else f" {when}"
        rows.append(("recorded earlier", f"this is what was drawn{words} under that release"))
    if left is not None:
        rows.append(("left", f"{level_words(left)} for these records"))
    written = ", ".join(map(str, task.places.named()))
    show(_TITLES[task.verb], [*rows, ("written to", written)])


def _tell_intent(
    task: Task, plan: "Plan[Any]", shape: "Shape", asked: Asked | None, *,
    dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    level = None if asked is None else asked.entry.level
    spends = 0.0 if asked is None or asked.reserved or level is None else level
    left = None if asked is None else asked.left
    if as_json:
        foretold = {
            "dry_run": True,
            "release_id": None if asked is None else asked.entry.release_id,
            "level": level,
            "spends": spends,
            "left": left,
            "left_after": None if left is None else max(left - spends, 0.0),
        }
        typer.echo(strict_json(_facts(task, plan, shape) | foretold))
        return
    rows = _rows(task, plan, shape)
    if asked is not None:
        rows.append(("release", asked.entry.release_id))
    rows.append(("spends", _spends(asked)))
    if left is not None:
        after = max(left - spends, 0.0)
        words = f"{level_words(left)} for these records, then {level_words(after)}"
        rows.append(("left", words))
    rows.append(("writes", ", ".join(map(str, task.places.named())) or "nothing; name --output"))
    why = "dry run" if dry_run else "no --output"
    show(
        f"What {task.verb} would do ({why}: nothing was drawn, recorded or written)",
        rows,
    )


def _spends(asked: Asked | None) -> str:
    if asked is None:
        return "there is no ledger: nothing is accounted"
    if asked.recorded:
        return "nothing more: it was recorded by an earlier run, whose outputs are published"
    if asked.reserved:
        return "nothing more: it was reserved by a run that did not end"
    if asked.entry.level is None:
        return "the whole account: a redaction stands in a ledger alone"
    return f"a DP level of {above(asked.entry.level)}"
