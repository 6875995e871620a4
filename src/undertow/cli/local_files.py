"""Files of a randomised series: where they go, tables in and out, files that change."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from undertow.cli.commands import option
from undertow.cli.files import ReportFiles, check_output
from undertow.cli.local_drafts import check_folder
from undertow.cli.options import figure_kind, misuse
from undertow.data.watching import Seen
from undertow.errors import UndertowError

__all__ = ["CHANGED", "FlippedFiles", "RedactedFiles", "formulas", "unchanged"]

TABLES = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class FlippedFiles(ReportFiles):
    """Where a randomised series and its report go."""

    output: Path | None = option(
        "FILE", "Write the randomised series there (.csv, .csv.gz or .parquet)."
    )

    def __post_init__(self) -> None:
        """Refuse names that do not say what to write."""
        if self.output is None:
            for name in ("force", "figure", "report"):
                if getattr(self, name, None):
                    raise misuse(f"--{name} goes with --output")
            return
        if not self.output.name.lower().endswith(TABLES):
            raise misuse(
                f"--output needs a name in {', '.join(TABLES)}; found {self.output.name!r}"
            )
        self.check_report()

    def roles(self) -> dict[str, Path]:
        """Return the files that will be written, by what they are and how they are written."""
        if self.output is None:
            return {}
        name = self.output.name.lower()
        made = {"output" + next(end for end in TABLES if name.endswith(end)): self.output}
        for kind in ("figure", "report"):
            path = getattr(self, kind, None)
            if path is not None:
                made[kind + path.suffix.lower()] = path
        return made

    def named(self) -> list[Path]:
        """Return the files that will be written."""
        return list(self.roles().values())

    def check(self, *, free: bool = True) -> None:
        """Refuse, before anything is spent, places where the results cannot be written.

        A name in use may be that of a recorded release; ``free`` says that there is none.
        """
        for path in self.named():
            check_output(path, force=self.force or not free)
            check_folder(path)


@dataclass(frozen=True, slots=True)
class RedactedFiles(FlippedFiles):
    """Where a redacted series, its figure and its report go."""

    figure: Path | None = option("FILE", "Draw the first person's series (.png or .svg).")

    def __post_init__(self) -> None:
        """Refuse names that do not say what to write."""
        FlippedFiles.__post_init__(self)
        if self.figure is not None:
            figure_kind(self.figure)

    def check(self, *, free: bool = True) -> None:
        """Refuse places where the results cannot be written, and figures that cannot be drawn."""
        FlippedFiles.check(self, free=free)
        if self.figure is not None:
            from undertow.figures.canvas import check_drawing

            check_drawing()


CHANGED = (
    "changed while it was read; nothing was written or spent: run the command again when the file "
    "is complete"
)
"""What is said of a table that is no longer the one that was there."""


@contextmanager
def unchanged(before: Seen) -> Iterator[None]:
    """Refuse a file that changed, before any other refusal: what seems wrong may be the change."""
    try:
        yield
    except UndertowError:
        before.check(CHANGED)
        raise
    before.check(CHANGED)


_FORMULA, _NUMBER = r"^[=+\-@\t\r]", r"^[+\-]?[0-9.]+([eE][+\-]?[0-9]+)?$"


def formulas(frame: Any, path: Path) -> list[str]:
    """Return the columns that a spreadsheet would take for formulas, from names or public texts.

    Persons, times, groups and states are written as they are, or they could not be joined or
    estimated from again; so whoever opens the file in a spreadsheet is told.
    """
    if path.name.lower().endswith(".parquet"):
        return []
    found = []
    for name in frame.columns:
        text = str(frame[name].dtype) == "String"
        texts = [name, *(frame[name].unique().to_list() if text else ())]
        if any(re.match(_FORMULA, t) and not re.match(_NUMBER, t) for t in texts if t):
            found.append(name)
    return found
