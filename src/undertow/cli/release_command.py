"""``undertow release``: from a file to a private answer, accounted and written whole."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undertow.cli.data_options import (
    AlleleOption,
    ByOption,
    DataArgument,
    DataText,
    EveryOption,
    GapsOption,
    GroupsOption,
    LocusOption,
    PersonOption,
    StateOption,
    TimeOption,
    ValueOption,
    WindowOption,
)
from undertow.cli.ledger_command import level_words, open_ledger
from undertow.cli.options import JsonOption, misuse
from undertow.cli.output import above, query_words, refusals, show, strict_json, waiting
from undertow.cli.tables import show_table
from undertow.errors import BudgetExceeded, InvalidInput

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger
    from undertow.plan import Plan
    from undertow.releasing import Prepared
    from undertow.reporting.report import Report

__all__ = ["release"]

_UNACCOUNTED = (
    "not accounted in a ledger: every run draws new noise and reveals more; "
    "name one with --ledger and --dataset"
)
_PUBLISHED = (
    "question", "numbers", "probability", "records", "persons", "rounding", "plan", "release_id",
    "ledger_entry", "versions",
)  # fmt: skip


def release(
    data: DataArgument,
    plan: Annotated[
        Path, typer.Option("--plan", metavar="FILE", help="What 'undertow plan --output' wrote.")
    ],
    value: ValueOption = None,
    person: PersonOption = None,
    time: TimeOption = None,
    state: StateOption = None,
    every: EveryOption = None,
    by: ByOption = None,
    groups: GroupsOption = None,
    gaps: GapsOption = "split",
    window: WindowOption = None,
    locus: LocusOption = None,
    allele: AlleleOption = None,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", metavar="LEDGER", help="The account to spend from: a file or URL"),
    ] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME", help="... and the data set in it.")
    ] = None,
    release_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Its name; by default it follows from the asking."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="TEXT", help="Where the model came from, for the report."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write the answer there (.json or .csv)."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write a report (.html, .json or .txt)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be spent and written; do nothing."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """The private answer of a plan on a table, accounted in a ledger.

    The DP level is reserved before noise is drawn, and the answer is recorded before it is shown.
    The same command again gives the recorded answer and spends nothing: run it again after a
    crash or a full disk.

    \b
    Examples:
      undertow release activity.csv.gz --plan plan.json --value steps --state 'steps > 0' \\
        --ledger year.db --dataset w25 --output answer.json --report report.html
      undertow release activity.csv.gz --plan plan.json --value steps --state 'steps > 0' \\
        --ledger year.db --dataset w25 --dry-run
      undertow release cohort.vcf.gz --plan families.json --locus 22:16050075
    """
    with refusals(as_json):
        if (ledger is None) != (dataset is None):
            raise misuse("--ledger and --dataset go together")
        options = DataText(
            value, person, time, state, every, by, groups, gaps, window, locus, allele
        )
        places = _Places(output, report, force)
        places.keep_off([data, plan, *([] if ledger is None else [Path(ledger)])])
        from undertow.cli.files import read_plan

        found = read_plan(plan)
        with waiting("reading the data"):
            book = None if ledger is None else open_ledger(ledger, dataset)
            from undertow.releasing import carry_out, prepare

            table = options.read(data, found.states, _people(found))
            ready = prepare(found, table, book, release_id=release_id)
            asked = _foretold(ready, book)
            places.check(recorded=asked.recorded)
        if dry_run:
            _tell_intent(asked, places, as_json)
            return
        with waiting("releasing"):
            told = carry_out(ready, book, source=source).report()
        places.write(told, accounted=book is not None)
        if book is None:
            typer.echo(f"undertow: warning: {_UNACCOUNTED}", err=True)
        if as_json:
            typer.echo(strict_json(_published(told)))
        else:
            _tell(told, places, None if book is None else book.left(table.scope()))


def _people(plan: "Plan") -> tuple[Any, ...]:
    """Return the people of a plan's pedigree, in the order of its records."""
    from undertow.models.pedigree import Pedigree
    from undertow.models.sets import members

    found = [model for model in members(plan.model) if isinstance(model, Pedigree)]
    return found[0].people if found else ()


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the answer and the report go."""

    output: Path | None
    report: Path | None
    force: bool

    def __post_init__(self) -> None:
        """Refuse names that do not say what to write."""
        if self.force and not self.named():
            raise misuse("--force goes with --output or --report")
        if self.output is not None and self.output.suffix.lower() not in (".json", ".csv"):
            raise misuse(f"--output needs a name in .json or .csv; found {self.output.name!r}")
        if self.report is not None:
            from undertow.reporting.report import check_ending

            try:
                check_ending(self.report)
            except InvalidInput as error:
                raise misuse(f"--report: {error}") from None

    def named(self) -> list[Path]:
        """Return the files that will be written."""
        return [path for path in (self.output, self.report) if path is not None]

    def keep_off(self, inputs: list[Path]) -> None:
        """Refuse to write over what is read, or one file over the other."""
        seen = [_real(path) for path in inputs]
        for path in self.named():
            if _real(path) in seen:
                raise misuse(f"{path} is named twice; results need files of their own")
            seen.append(_real(path))

    def check(self, *, recorded: bool) -> None:
        """Refuse, before anything is spent, places where the results cannot be written.

        Where the answer is already recorded nothing will be spent, and a file that is there may
        be this very answer, written before a crash: it is looked at later.
        """
        from undertow.cli.files import check_output

        for path in self.named():
            check_output(path, force=self.force or recorded)

    def write(self, told: "Report", *, accounted: bool) -> None:
        """Write the files, each whole or not at all; one that holds the same already stays."""
        from undertow.cli.files import write_bytes

        contents = []
        if self.output is not None:
            contents.append((self.output, _answer(told, self.output)))
        if self.report is not None:
            contents.append((self.report, told.content(self.report)))
        try:
            for path, content in contents:
                if not _holds(path, content):
                    write_bytes(path, content, force=self.force)
        except InvalidInput as error:
            advice = (
                "the answer is recorded: the same command again writes it and spends nothing"
                if accounted
                else "nothing was shown; run the command again for an answer with new noise"
            )
            raise InvalidInput(f"{error}; {advice}") from None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a release would do: everything but the noise."""

    ready: "Prepared"
    release_id: str | None
    left: float | None
    recorded: bool
    reserved: bool

    @property
    def spends(self) -> float:
        """The level that would be reserved."""
        return 0.0 if self.reserved else self.ready.level

    @property
    def left_after(self) -> float | None:
        """What would be left then."""
        return None if self.left is None else max(self.left - self.spends, 0.0)


def _foretold(ready: "Prepared", book: "Ledger | None") -> _Asked:
    """Return what a prepared release would spend, or refuse what the ledger would refuse."""
    from undertow.ledger.rules import Entry, check_same
    from undertow.ledger.scopes import as_scope

    asked = ready.asking
    if book is None or asked is None:
        return _Asked(ready, None, None, recorded=False, reserved=False)
    entry, left = book.entry(asked.release_id), book.left(asked.scope)
    if entry is not None:
        wanted = (asked.release_id, "release", ready.level, None, as_scope(asked.scope))
        check_same(entry, Entry(*wanted, asked.about))
    elif ready.level > left:
        raise BudgetExceeded(
            f"the release needs a DP level of {above(ready.level)}, and {level_words(left)} is "
            "left for its records; plan for less, with --method exchange, release other records, "
            "or raise the limit with 'undertow ledger limit'",
            left,
        )
    recorded = entry is not None and entry.result is not None
    return _Asked(ready, asked.release_id, left, recorded=recorded, reserved=entry is not None)


def _tell_intent(asked: _Asked, places: _Places, as_json: bool) -> None:
    files = [str(path) for path in places.named()]
    ready = asked.ready
    question, shape = query_words(ready.plan.noise.query), ready.shape
    if as_json:
        fields = {
            "dry_run": True,
            "question": question,
            "records": shape.rows,
            "persons": shape.persons,
            "release_id": asked.release_id,
            "level": ready.level,
            "spends": asked.spends,
            "recorded": asked.recorded,
            "left": asked.left,
            "left_after": asked.left_after,
            "proof": {"method": ready.proof.method, "covers": ready.proof.covers},
            "files": files,
        }
        typer.echo(strict_json(fields))
        return
    if asked.recorded:
        spend = "nothing: this release is recorded, and its answer would be given again"
    elif asked.reserved:
        spend = "nothing more: its level was reserved by a run that did not end"
    else:
        spend = f"a DP level of {above(ready.level)}"
    left = "there is no ledger: nothing is accounted"
    if asked.left is not None:
        after = level_words(asked.left_after or 0.0)
        left = f"{level_words(asked.left)} for these records, then {after}"
    show(
        "What a release would do (dry run: nothing was drawn, recorded or written)",
        [
            ("question", question),
            ("records", _records(shape.rows, shape.persons)),
            ("release", asked.release_id or "not named: there is no ledger"),
            ("spends", spend),
            ("left", left),
            ("writes", ", ".join(files) or "nothing"),
        ],
    )


def _tell(told: "Report", places: _Places, left: float | None) -> None:
    said = told.to_dict()
    numbers = told.facts.numbers
    alone = len(numbers) == 1 and not numbers[0].label()
    sure = f"with probability {100 * said['probability']:g}%"
    rows = [("question", said["question"])]
    if alone:
        bar = f"within {above(numbers[0].within, 6)} of the truth {sure}"
        rows += [("answer", numbers[0].shown()), ("error bar", bar)]
    else:
        rows += [("answer", "see the table"), ("error bars", f"hold all together {sure}")]
    rows += [
        ("promise", said["promise"]["words"]),
        ("protects", said["promise"]["unit_words"].partition(":")[0]),
        ("records", _records(said["records"], said["persons"])),
    ]
    if left is not None:
        rows += [
            ("release", said["release_id"]),
            ("entry", said["ledger_entry"]),
            ("left", f"{level_words(left)} for these records"),
        ]
    written = ", ".join(map(str, places.named()))
    show("The answer", [*rows, *([("written to", written)] if written else [])])
    if not alone:
        cells = [(n.label(), n.shown(), above(n.within, 6)) for n in numbers]
        show_table("Released numbers", ("which", "released", "within"), cells)


def _records(rows: int, persons: int) -> str:
    return f"{rows}, of {persons} person{'s' * (persons != 1)}"


def _published(told: "Report") -> dict[str, Any]:
    """Return the answer and its promise, as a program wants them."""
    said = told.to_dict()
    promise = {"promise": said["promise"]["words"], "unit": said["promise"]["unit"]}
    chosen = {name: said[name] for name in _PUBLISHED}
    return {"format": "undertow-release", "version": 1} | chosen | promise


def _answer(told: "Report", path: Path) -> bytes:
    if path.suffix.lower() == ".json":
        return (strict_json(_published(told)) + "\n").encode("utf-8", "backslashreplace")
    rows = [number.to_dict() for number in told.facts.numbers]
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.is_file() and path.read_bytes() == content
    except OSError:
        return False


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
