"""What ``undertow sanitize`` and ``undertow redact`` share: read, account, draw, write whole.

Files are complete on the disk before a release is confirmed in the ledger, and get their names
after it. So a full disk spends nothing but the reservation, which the same command uses again.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from undertow.cli.data_options import DataText
from undertow.cli.ledger_command import level_words
from undertow.cli.local_account import Account, Asked, Enough, Held, LedgerStage, Stage, foretold
from undertow.cli.local_files import Drafts, Places, Watch, figure_kind, table_bytes
from undertow.cli.local_output import count_words, measure_rows, uncovered, verb_of
from undertow.cli.options import find_state
from undertow.cli.output import above, show, strict_json, waiting
from undertow.errors import InvalidInput, LedgerConflict, NotSupported, UnknownState

if TYPE_CHECKING:
    from undertow.data.table import Data, Shape
    from undertow.ledger.book import Ledger
    from undertow.plan import Plan

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
    account: Account
    places: Places
    source: str | None = None

    def run(self, *, dry_run: bool, as_json: bool) -> None:
        """Carry the task out, or say what it would do; nothing is half done."""
        account = [] if self.account.ledger is None else [Path(self.account.ledger)]
        self.places.keep_off([self.data, self.plan_file, *account])
        plan = self._plan()
        with waiting("reading the data"):
            watch, book = Watch(self.data), self.account.open()
            with watch:
                table = self.options.read(self.data, plan.states)
                self.places.check()
                shape = table.shape()
        if dry_run or self.places.output is None:
            with waiting("reading the data"), watch:
                asked = self._rehearse(plan, table, book)
            _tell_intent(self, plan, shape, asked, dry_run=dry_run, as_json=as_json)
            return
        held = None if book is None else Held(book, watch)
        with waiting("randomising the records"), watch if held is None else held:
            frame = self._randomised(plan, table, held)
        with waiting("writing"):
            self._write(plan, frame, shape, held)
        if book is None:
            typer.echo(f"undertow: warning: {_UNACCOUNTED}", err=True)
        left = None if book is None or self.verb == "redact" else book.left(table.scope())
        _tell(self, plan, shape, held, left, as_json=as_json)

    def _plan(self) -> "Plan[Any]":
        """Return the plan, if it is for this command."""
        from undertow.cli.files import read_plan

        plan: Plan[Any] = read_plan(self.plan_file)
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
        try:
            return carry_out(
                plan, table, foreign=state, ledger=ledger, release_id=self.account.release_id
            )
        except (UnknownState, LedgerConflict) as error:
            said = str(error).replace("foreign=...", "--foreign").replace("release_id", "--id")
            raise type(error)(said) from None

    def _rehearse(self, plan: "Plan[Any]", table: "Data", book: "Ledger | None") -> "Asked | None":
        """Return what would be reserved, after the very checks that a release would make."""
        stage = Stage() if book is None else LedgerStage(book)
        with suppress(Enough):
            self._randomised(plan, table, stage)
        return None if book is None or stage.asked is None else foretold(book, stage.asked)

    def _write(self, plan: "Plan[Any]", frame: Any, shape: "Shape", held: "Held | None") -> None:
        """Write everything, record the release, and only then give the files their names."""
        places = self.places
        with Drafts(places.force) as drafts:
            try:
                if places.output is not None:
                    drafts.write(places.output, table_bytes(frame, places.output))
                if places.figure is not None:
                    drafts.write(places.figure, _figure(plan, frame, self.options, places.figure))
                if places.report is not None:
                    said = _report(plan, shape, held, self.source, places.report)
                    drafts.write(places.report, said)
            except InvalidInput as error:
                again = "draws anew" if held is None else "uses what is reserved"
                raise InvalidInput(
                    f"{error}; nothing was released: the same command again {again}"
                ) from None
            if held is not None:
                held.settle()
                drafts.keep = True
            drafts.publish()


def _figure(plan: "Plan[Any]", frame: Any, options: DataText, path: Path) -> bytes:
    """Return the figure of the first person's series, in order of time."""
    from undertow.data.rewriting import column_of
    from undertow.data.table import Data
    from undertow.figures.canvas import figure_bytes
    from undertow.figures.erasures import draw_redaction
    from undertow.reporting.words import question

    if options.person is not None:
        frame = frame.filter(frame[options.person] == frame[options.person][0])
    series = Data(frame, value=column_of(frame).name, time=options.time)
    shown = series.sequences(plan.states)[0]
    title = question(plan.query)
    drawn = draw_redaction(plan, shown, title[:1].upper() + title[1:])
    return figure_bytes(drawn, figure_kind(path))


def _report(
    plan: "Plan[Any]", shape: "Shape", held: Held | None, source: str | None, path: Path
) -> bytes:
    from undertow.reporting.report import SeriesReport
    from undertow.reporting.series import SeriesFacts

    made = None if held is None else held.reserved
    facts = SeriesFacts(
        plan, shape.rows, shape.persons, source=source,
        release_id=None if made is None else made.release_id,
        entry=None if made is None else made.entry_hash,
    )  # fmt: skip
    return SeriesReport(facts).content(path)


def _facts(task: Task, plan: "Plan[Any]", shape: "Shape") -> dict[str, Any]:
    from undertow.reporting.words import question

    against = plan.against
    return {
        "question": question(plan.query),
        "records": shape.rows,
        "persons": shape.persons,
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


def _rows(plan: "Plan[Any]", shape: "Shape") -> list[tuple[str, str]]:
    from undertow.reporting.words import question

    return [
        ("question", question(plan.query)),
        ("records", count_words(shape.rows, shape.persons)),
        *measure_rows(plan),
        ("promise", plan.guarantee()),
        *uncovered(plan),
    ]


def _tell(
    task: Task, plan: "Plan[Any]", shape: "Shape", held: Held | None, left: float | None,
    *, as_json: bool,
) -> None:  # fmt: skip
    made = None if held is None else held.reserved
    if as_json:
        recorded = {
            "release_id": None if made is None else made.release_id,
            "ledger_entry": None if made is None else made.entry_hash,
            "sha256": None if held is None else held.result.get("sha256"),
            "left": left,
        }
        typer.echo(strict_json(_facts(task, plan, shape) | recorded))
        return
    rows = _rows(plan, shape)
    if made is not None:
        rows += [("release", made.release_id), ("entry", made.entry_hash)]
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
    rows = _rows(plan, shape)
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
    if asked.reserved:
        return "nothing more: it was reserved by a run that did not end"
    if asked.entry.level is None:
        return "the whole account: a redaction stands in a ledger alone"
    return f"a DP level of {above(asked.entry.level)}"
