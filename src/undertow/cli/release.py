"""``undertow release``: a private answer from a table, accounted in a ledger."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from undertow.cli.files import ReportFiles, check_output, write_bytes
from undertow.cli.options import DataOptions, ReleaseOptions, command, misuse, option
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
from undertow.reporting.formats import csv_bytes, strict_json

if TYPE_CHECKING:
    from undertow.ledger.rules import Room
    from undertow.releasing.account import Foretold
    from undertow.releasing.request import Release, ReleaseRequest
    from undertow.reporting.report import Report

__all__ = ["release"]


_PUBLISHED = (
    "audience", "question", "numbers", "probability", "records", "persons", "window", "groups",
    "made", "recorded_earlier", "rounding", "model", "plan", "release_id", "ledger_entry",
    "versions",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnswerFiles(ReportFiles):
    """The paths of the answer and of the report."""

    output: Path | None = option("FILE", "Path of the answer (.json or .csv).", group="Output")

    def __post_init__(self) -> None:
        """Refuse names of unknown formats."""
        if self.force and not self.named():
            raise misuse("--force goes with --output or --report")
        if self.output is not None and self.output.suffix.lower() not in (".json", ".csv"):
            raise misuse(f"--output needs a name in .json or .csv; found {self.output.name!r}")
        self.check_report()

    def named(self) -> list[Path]:
        """Return the files to write."""
        return [path for path in (self.output, self.report) if path is not None]

    def check(self, *, recorded: bool) -> None:
        """Refuse, before anything is spent, places where the results cannot be written.

        If the answer is already recorded nothing will be spent, and an existing file may be this
        very answer, written before a crash: its content is compared later.
        """
        for path in self.named():
            check_output(path, force=self.force or recorded)

    def write(self, out: "Release", *, accounted: bool) -> None:
        """Write the files, each completely or not at all; one with the same content stays.

        A file written before a crash calls the answer new, and the next run calls it recorded
        earlier: both contents are the same answer.
        """
        from undertow.reporting.report import Report

        report, first = out.report(), replace(out, replayed=False).report()
        try:
            for path in self.named():
                content = Report.content if path == self.report else _answer
                if not _holds(path, content(report, path), content(first, path)):
                    write_bytes(path, content(report, path), force=self.force)
        except InvalidInput as error:
            advice = (
                "the answer is recorded: the same command again writes it and spends nothing"
                if accounted
                else "nothing was shown; run the command again for an answer with new noise"
            )
            raise InvalidInput(f"{error}; {advice}") from None


def published(report: "Report") -> dict[str, Any]:
    """Return the answer and its guarantee as the fields of a JSON object."""
    fields = report.to_dict()
    guarantee = {"promise": fields["promise"]["words"], "unit": fields["promise"]["unit"]}
    if "delta" in fields["promise"]:
        guarantee |= {name: fields["promise"][name] for name in ("leakage", "delta")}
    chosen = {name: fields[name] for name in _PUBLISHED}
    return {"format": "undertow-release", "version": 1} | chosen | guarantee


def _answer(report: "Report", path: Path) -> bytes:
    if path.suffix.lower() == ".json":
        return (strict_json(published(report)) + "\n").encode("utf-8", "backslashreplace")
    rows = report.facts.rows()
    return csv_bytes(rows, list(rows[0]) if rows else [])


def _holds(path: Path, *contents: bytes) -> bool:
    try:
        return path.is_file() and path.read_bytes() in contents
    except OSError:
        return False


@command
def release(reading: DataOptions, places: AnswerFiles, request: ReleaseOptions) -> None:
    """Release the private answer of a plan on a table, accounted in a ledger.

    The DP level is reserved before noise is drawn, and the answer is recorded before it is printed.
    The same command again gives the recorded answer and spends nothing, also after a crash or a
    full disk.

    \b
    Examples:
      undertow release activity.csv.gz --plan plan.json --value steps --state 'steps > 0' \\
        --ledger year.db --dataset w25 --output answer.json --report report.html
      undertow release activity.csv.gz --plan plan.json --value steps --state 'steps > 0' \\
        --ledger year.db --dataset w25 --dry-run
      undertow release cohort.vcf.gz --plan families.json --locus 22:16050075
    """
    request.keep_off(places.named())
    from undertow.releasing.account import foretell
    from undertow.releasing.request import carry_out, prepare

    plan = request.read_plan()
    with waiting("reading the data"):
        book, table = request.open(), reading.read_for(request.data, plan)
        ready = prepare(plan, table, book, release_id=request.release_id)
        preview = foretell(ready.entry, book)
        places.check(recorded=preview is not None and preview.recorded)
    if request.dry_run:
        _show_preview(ready, preview, places, request.as_json)
        return
    with waiting("releasing"):
        out = carry_out(ready, book, source=request.source)
        report = out.report()
    places.write(out, accounted=book is not None)
    if book is None:
        say(f"warning: {UNACCOUNTED}")
    answer(
        published(report),
        lambda: _show(report, places, None if book is None else book.room(table.scope())),
        as_json=request.as_json,
    )


def _show_preview(
    ready: "ReleaseRequest", preview: "Foretold | None", places: AnswerFiles, as_json: bool
) -> None:
    from undertow.reporting import scope

    files = [str(path) for path in places.named()]
    question, shape, window = ready.plan.query.words(), ready.shape, ready.table.bounds()
    if as_json:
        level = ready.spends.get("level")
        fields = {
            "dry_run": True,
            "question": question,
            "records": shape.rows,
            "persons": shape.persons,
            "release_id": None if preview is None else preview.entry.release_id,
            "level": level,
            "spends": level if preview is None or level is None else preview.spends,
            **{name: part for name, part in ready.spends.items() if name != "level"},
            "recorded": preview is not None and preview.recorded,
            "left": None if preview is None else preview.left,
            "left_after": None if preview is None else preview.left_after,
            "proof": {"method": ready.proof.method, "valid_for": ready.proof.valid_for},
            "files": files,
        }
        typer.echo(strict_json(fields))
        return
    spends = (f"{_SPENT[name]}{above(part)}" for name, part in ready.spends.items())
    spending = [
        ("release", "unnamed: no ledger is given"),
        ("spends", " and ".join(spends)),
        ("left", "nothing is accounted: no ledger is given"),
    ]
    if preview is not None:
        spending = spend_rows(
            preview, "nothing: this release is recorded, and its answer would be given again"
        )
    show(
        "Preview of the release (dry run: nothing was drawn, recorded or written)",
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


_SPENT = {"level": "a DP level of ", "mu": "mu ", "rho": "rho "}


def _show(report: "Report", places: AnswerFiles, room: "Room | None") -> None:
    from undertow.plan import exact_answer, readings_moved
    from undertow.reporting import scope

    fields = report.to_dict()
    numbers = report.facts.numbers
    alone = len(numbers) == 1 and not numbers[0].label()
    sure = f"with probability {100 * fields['probability']:g}%"
    rows = [("question", fields["question"])]
    if alone:
        of = exact_answer(report.facts.plan)
        bar = f"within {above(numbers[0].within, 6)} of {of} {sure}"
        rows += [("answer", numbers[0].shown()), ("error bar", bar)]
    else:
        bars = f"hold all together {sure}"
        if report.facts.plan.noise.query.selects:
            from undertow.reporting.words import shortfall

            bars = shortfall(numbers[0].within, sure.rpartition(" ")[2])
        rows += [("answer", "see the table"), ("error bars", bars)]
    release = report.facts.release
    moved = readings_moved(release.plan, release.rows)
    rows += [
        *([] if moved is None else [("readings", moved)]),
        ("guarantee", fields["promise"]["words"]),
        ("protects", fields["promise"]["unit_words"].partition(":")[0]),
        ("proved for", fields["promise"]["proved_for"]),
        ("records", scope.records(fields["records"], fields["persons"])),
        ("window", scope.window(release.window)),
        ("groups", scope.groups(release.groups)),
        ("drawn", scope.drawn(release.made)),
    ]
    if release.replayed:
        rows.append(("note", scope.replay(release.made)))
    if room is not None:
        rows += [
            ("release", fields["release_id"]),
            ("entry", fields["ledger_entry"]),
            ("left", f"{room_words(room)} for these records"),
        ]
    written = ", ".join(map(str, places.named()))
    show("The answer", [*rows, *([("written to", written)] if written else [])])
    if not alone:
        cells = [(n.label(), n.shown(), above(n.within, 6)) for n in numbers]
        selects = report.facts.plan.noise.query.selects
        title, bar = ("Selected states", "short by") if selects else ("Released numbers", "within")
        show_table(title, ("which", "released", bar), cells)
