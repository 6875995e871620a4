"""``undertow sanitize``: the series of a table, its records flipped or erased as a plan says."""

from dataclasses import dataclass
from pathlib import Path

from undertow.cli.files import ReportFiles, check_output
from undertow.cli.options import (
    RecordsOptions,
    ReleasedOptions,
    ReleaseOptions,
    command,
    figure_kind,
    misuse,
    option,
)

__all__ = ["SeriesFiles", "sanitize"]

TABLES = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class SeriesFiles(ReportFiles):
    """The files of a randomised series: its outputs, a report, and a figure of erasures."""

    output: Path | None = option(
        "FILE", "Path of the randomised series (.csv, .csv.gz or .parquet).", group="Output"
    )
    figure: Path | None = option(
        "FILE", "Path of a figure of erasures, of the first person (.png or .svg).", group="Output"
    )

    def __post_init__(self) -> None:
        """Refuse names of unknown formats."""
        if self.output is None:
            given = (("force", self.force), ("figure", self.figure), ("report", self.report))
            for name, value in given:
                if value:
                    raise misuse(f"--{name} goes with --output")
            return
        if not self.output.name.lower().endswith(TABLES):
            raise misuse(
                f"--output needs a name in {', '.join(TABLES)}; found {self.output.name!r}"
            )
        if self.figure is not None:
            figure_kind(self.figure)
        self.check_report()

    def roles(self) -> dict[str, Path]:
        """Return the files to write by their role and format."""
        if self.output is None:
            return {}
        name = self.output.name.lower()
        roles = {"output" + next(end for end in TABLES if name.endswith(end)): self.output}
        for role, path in (("figure", self.figure), ("report", self.report)):
            if path is not None:
                roles[role + path.suffix.lower()] = path
        return roles

    def named(self) -> list[Path]:
        """Return the files to write."""
        return list(self.roles().values())

    def check(self, *, free: bool = True) -> None:
        """Refuse, before anything is spent, places where the results cannot be written.

        A name in use may be that of a recorded release; ``free`` says that none is recorded.
        """
        from undertow.releasing.drafts import check_folder

        for path in self.named():
            check_output(path, force=self.force or not free)
            check_folder(path)
        if self.figure is not None:
            from undertow.figures.canvas import check_drawing

            check_drawing()

    def writable(self, path: Path) -> None:
        """Refuse a path where no result can be written."""
        check_output(path, force=self.force)


@command
def sanitize(
    reading: ReleasedOptions, records: RecordsOptions, places: SeriesFiles, release: ReleaseOptions
) -> None:
    """Randomise the series of a table as a plan says: flip its records, or erase some.

    The file has the columns of persons, times and groups unchanged, and the outputs (empty where
    erased, with a column 'erased'). Without --output nothing is drawn, and the guarantee is
    printed. A second run is a second release; a run that was cut off is completed by the same
    command. A plan that erases needs series of exactly its records, and allows no other release
    of them.

    \b
    Examples:
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.csv
      undertow sanitize activity.csv.gz --plan flips.json --value steps --state 'steps > 0' \\
        --output flipped.parquet --dry-run
      undertow sanitize activity.csv.gz --plan erasures.json --value steps \\
        --state 'steps > 0' --output shown.csv --figure shown.png --dry-run
    """
    from undertow.cli.sanitization import Sanitization

    Sanitization(reading, records, places, release).run()
