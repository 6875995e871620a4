"""``undertow release``: from a file to a private answer, accounted and written whole."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from undertow.cli.files import ReportFiles, check_output, write_bytes
from undertow.cli.options import DataText, ReleaseText, command, misuse, option
from undertow.cli.output import (
    UNACCOUNTED,
    above,
    answer,
    room_words,
    say,
    show,
    show_table,
    spend_rows,
    waiting,
)
from undertow.errors import InvalidInput
from undertow.reporting.report import csv_bytes, strict_json

if TYPE_CHECKING:
    from undertow.ledger.rules import Room
    from undertow.releasing.account import Foretold
    from undertow.releasing.request import Release, ReleaseRequest
    from undertow.reporting.report import Report

__all__ = [
    "AnswerFiles",
    "published",
    "release",
]


_PUBLISHED = (
    "audience", "question", "numbers", "probability", "records", "persons", "window", "groups",
    "made", "recorded_earlier", "rounding", "model", "plan", "release_id", "ledger_entry",
    "versions",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnswerFiles(ReportFiles):
    """Where the answer and the report go."""

    output: Path | None = option("FILE", "Write the answer there (.json or .csv).")

    def __post_init__(self) -> None:
        """Refuse names that do not say what to write."""
        if self.force and not self.named():
            raise misuse("--force goes with --output or --report")
        if self.output is not None and self.output.suffix.lower() not in (".json", ".csv"):
            raise misuse(f"--output needs a name in .json or .csv; found {self.output.name!r}")
        self.check_report()

    def named(self) -> list[Path]:
        """Return the files that will be written."""
        return [path for path in (self.output, self.report) if path is not None]

    def check(self, *, recorded: bool) -> None:
        """Refuse, before anything is spent, places where the results cannot be written.

        Where the answer is already recorded nothing will be spent, and a file that is there may
        be this very answer, written before a crash: it is looked at later.
        """
        for path in self.named():
            check_output(path, force=self.force or recorded)

    def write(self, out: "Release", *, accounted: bool) -> None:
        """Write the files, each whole or not at all; one that holds the same already stays.

        What was written before a crash says that the answer is new, and the next run that it was
        recorded earlier: both are the same answer.
        """
        from undertow.reporting.report import Report

        told, first = out.report(), replace(out, replayed=False).report()
        try:
            for path in self.named():
                made = Report.content if path == self.report else _answer
                if not _holds(path, made(told, path), made(first, path)):
                    write_bytes(path, made(told, path), force=self.force)
        except InvalidInput as error:
            advice = (
                "the answer is recorded: the same command again writes it and spends nothing"
                if accounted
                else "nothing was shown; run the command again for an answer with new noise"
            )
            raise InvalidInput(f"{error}; {advice}") from None


def published(told: "Report") -> dict[str, Any]:
    """Return the answer and its guarantee, as a program wants them."""
    said = told.to_dict()
    guarantee = {"promise": said["promise"]["words"], "unit": said["promise"]["unit"]}
    if "delta" in said["promise"]:
        guarantee |= {name: said["promise"][name] for name in ("leakage", "delta")}
    chosen = {name: said[name] for name in _PUBLISHED}
    return {"format": "undertow-release", "version": 1} | chosen | guarantee


def _answer(told: "Report", path: Path) -> bytes:
    if path.suffix.lower() == ".json":
        return (strict_json(published(told)) + "\n").encode("utf-8", "backslashreplace")
    rows = told.facts.rows()
    return csv_bytes(rows, list(rows[0]) if rows else [])


def _holds(path: Path, *contents: bytes) -> bool:
    try:
        return path.is_file() and path.read_bytes() in contents
    except OSError:
        return False


@command
def release(reading: DataText, places: AnswerFiles, told: ReleaseText) -> None:
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
    told.keep_off(places.named())
    from undertow.releasing.account import foretell
    from undertow.releasing.request import carry_out, prepare

    found = told.read_plan()
    with waiting("reading the data"):
        book, table = told.open(), reading.read_for(told.data, found)
        ready = prepare(found, table, book, release_id=told.release_id)
        asked = foretell(ready.entry, book)
        places.check(recorded=asked is not None and asked.recorded)
    if told.dry_run:
        _tell_intent(ready, asked, places, told.as_json)
        return
    with waiting("releasing"):
        out = carry_out(ready, book, source=told.source)
        report = out.report()
    places.write(out, accounted=book is not None)
    if book is None:
        say(f"warning: {UNACCOUNTED}")
    answer(
        published(report),
        lambda: _tell(report, places, None if book is None else book.room(table.scope())),
        as_json=told.as_json,
    )


def _tell_intent(
    ready: "ReleaseRequest", asked: "Foretold | None", places: AnswerFiles, as_json: bool
) -> None:
    from undertow.reporting import scope

    files = [str(path) for path in places.named()]
    question, shape, window = ready.plan.query.words(), ready.shape, ready.table.bounds()
    if as_json:
        fields = {
            "dry_run": True,
            "question": question,
            "records": shape.rows,
            "persons": shape.persons,
            "release_id": None if asked is None else asked.entry.release_id,
            **_spending(ready, asked),
            "recorded": asked is not None and asked.recorded,
            "left": None if asked is None else asked.left,
            "left_after": None if asked is None else asked.left_after,
            "proof": {"method": ready.proof.method, "covers": ready.proof.covers},
            "files": files,
        }
        typer.echo(strict_json(fields))
        return
    spending = [
        ("release", "not named: there is no ledger"),
        ("spends", _spend(ready)),
        ("left", "there is no ledger: nothing is accounted"),
    ]
    if asked is not None:
        spending = spend_rows(
            asked, "nothing: this release is recorded, and its answer would be given again"
        )
    show(
        "What a release would do (dry run: nothing was drawn, recorded or written)",
        [
            ("question", question),
            ("records", scope.records(shape.rows, shape.persons)),
            ("proved for", scope.proved_for(ready.proof, ready.plan.length, window)),
            ("window", scope.window(window)),
            ("groups", scope.groups(shape.groups)),
            *spending,
            ("writes", ", ".join(files) or "nothing"),
        ],
    )


def _spending(ready: "ReleaseRequest", asked: "Foretold | None") -> dict[str, Any]:
    """Return what would be spent: a level, or the mu or rho of noise that has none."""
    level = ready.spends.get("level")
    spends = level if asked is None or level is None else asked.spends
    beside = {name: part for name, part in ready.spends.items() if name != "level"}
    return {"level": level, "spends": spends, **beside}


def _spend(ready: "ReleaseRequest") -> str:
    told = {"level": "a DP level of ", "mu": "mu ", "rho": "rho "}
    return " and ".join(f"{told[name]}{above(part)}" for name, part in ready.spends.items())


def _tell(told: "Report", places: AnswerFiles, room: "Room | None") -> None:
    from undertow.plan import exact_answer, readings_moved
    from undertow.reporting import scope

    said = told.to_dict()
    numbers = told.facts.numbers
    alone = len(numbers) == 1 and not numbers[0].label()
    sure = f"with probability {100 * said['probability']:g}%"
    rows = [("question", said["question"])]
    if alone:
        of = exact_answer(told.facts.plan)
        bar = f"within {above(numbers[0].within, 6)} of {of} {sure}"
        rows += [("answer", numbers[0].shown()), ("error bar", bar)]
    else:
        bars = f"hold all together {sure}"
        if told.facts.plan.noise.query.selects:
            from undertow.reporting.words import shortfall

            bars = shortfall(numbers[0].within, sure.rpartition(" ")[2])
        rows += [("answer", "see the table"), ("error bars", bars)]
    release = told.facts.release
    moved = readings_moved(release.plan, release.rows)
    rows += [
        *([] if moved is None else [("readings", moved)]),
        ("guarantee", said["promise"]["words"]),
        ("protects", said["promise"]["unit_words"].partition(":")[0]),
        ("proved for", said["promise"]["proved_for"]),
        ("records", scope.records(said["records"], said["persons"])),
        ("window", scope.window(release.window)),
        ("groups", scope.groups(release.groups)),
        ("drawn", scope.drawn(release.made)),
    ]
    if release.replayed:
        rows.append(("note", scope.replay(release.made)))
    if room is not None:
        rows += [
            ("release", said["release_id"]),
            ("entry", said["ledger_entry"]),
            ("left", f"{room_words(room)} for these records"),
        ]
    written = ", ".join(map(str, places.named()))
    show("The answer", [*rows, *([("written to", written)] if written else [])])
    if not alone:
        cells = [(n.label(), n.shown(), above(n.within, 6)) for n in numbers]
        selects = told.facts.plan.noise.query.selects
        title, bar = ("Selected states", "short by") if selects else ("Released numbers", "within")
        show_table(title, ("which", "released", bar), cells)
