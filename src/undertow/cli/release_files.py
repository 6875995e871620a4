"""Files of a released answer: written whole, recognised after a crash."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.cli.commands import option
from undertow.cli.files import ReportFiles, check_output, write_bytes
from undertow.cli.options import misuse
from undertow.errors import InvalidInput
from undertow.reporting.files import csv_bytes, strict_json

if TYPE_CHECKING:
    from undertow.releasing import Release
    from undertow.reporting.report import Report

__all__ = ["AnswerFiles", "published"]

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
