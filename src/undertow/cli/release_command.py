"""``undertow release``: from a file to a private answer, accounted and written whole."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    people_of,
)
from undertow.cli.files import keep_off, read_plan, read_trusted
from undertow.cli.ledger_command import KeyOption, level_words, open_ledger
from undertow.cli.local_account import rehearsed
from undertow.cli.local_options import TrustOption
from undertow.cli.options import JsonOption, misuse
from undertow.cli.output import above, query_words, refusals, say, show, strict_json, waiting
from undertow.cli.release_files import Places, published
from undertow.cli.tables import show_table

if TYPE_CHECKING:
    from undertow.ledger.book import Ledger
    from undertow.releasing import Prepared
    from undertow.reporting.report import Report

__all__ = ["release"]

_UNACCOUNTED = (
    "not accounted in a ledger: every run draws new noise and reveals more; "
    "name one with --ledger and --dataset"
)


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
    key: KeyOption = None,
    release_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Its name; by default it follows from the asking."),
    ] = None,
    trust: TrustOption = None,
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
        places = Places(output, report, force)
        keep_off(places.named(), [data, plan, *([] if ledger is None else [Path(ledger)])])
        from undertow.releasing import carry_out, prepare

        found = read_plan(plan, read_trusted(trust))
        with waiting("reading the data"):
            book = None if ledger is None else open_ledger(ledger, dataset, key)

            table = options.read(data, found.states, people_of(found))
            ready = prepare(found, table, book, release_id=release_id)
            asked = _foretold(ready, book)
            places.check(recorded=asked.recorded)
        if dry_run:
            _tell_intent(asked, places, as_json)
            return
        with waiting("releasing"):
            out = carry_out(ready, book, source=source)
            told = out.report()
        places.write(out, accounted=book is not None)
        if book is None:
            say(f"warning: {_UNACCOUNTED}")
        if as_json:
            typer.echo(strict_json(published(told)))
        else:
            _tell(told, places, None if book is None else book.left(table.scope()))


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
    from undertow.ledger.rules import Entry
    from undertow.ledger.scopes import as_scope

    asked = ready.asking
    if book is None or asked is None:
        return _Asked(ready, None, None, recorded=False, reserved=False)
    left, where = book.left(asked.scope), as_scope(asked.scope)
    entry = rehearsed(
        book, Entry(asked.release_id, "release", ready.level, None, where, asked.about)
    )
    recorded = entry is not None and entry.result is not None
    return _Asked(ready, asked.release_id, left, recorded=recorded, reserved=entry is not None)


def _tell_intent(asked: _Asked, places: Places, as_json: bool) -> None:
    from undertow.reporting import scope

    files = [str(path) for path in places.named()]
    ready, window = asked.ready, asked.ready.table.bounds()
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
            ("records", scope.records(shape.rows, shape.persons)),
            ("proved for", scope.proved_for(ready.proof, ready.plan.length, window)),
            ("window", scope.window(window)),
            ("groups", scope.groups(shape.groups)),
            ("release", asked.release_id or "not named: there is no ledger"),
            ("spends", spend),
            ("left", left),
            ("writes", ", ".join(files) or "nothing"),
        ],
    )


def _tell(told: "Report", places: Places, left: float | None) -> None:
    from undertow.reporting import scope

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
    release = told.facts.release
    rows += [
        ("promise", said["promise"]["words"]),
        ("protects", said["promise"]["unit_words"].partition(":")[0]),
        ("proved for", said["promise"]["proved_for"]),
        ("records", scope.records(said["records"], said["persons"])),
        ("window", scope.window(release.window)),
        ("groups", scope.groups(release.groups)),
        ("drawn", scope.drawn(release.made)),
    ]
    if release.replayed:
        rows.append(("note", scope.replay(release.made)))
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
