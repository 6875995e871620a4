"""Files of a randomised series: tables in and out, drafts that take their names all at once."""

import gzip
import io
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from undertow.cli.files import check_output
from undertow.cli.options import misuse
from undertow.errors import InvalidInput, UndertowError
from undertow.reporting.files import reason

__all__ = ["Drafts", "Places", "Watch", "figure_kind", "table_bytes"]

TABLES = (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class Places:
    """Where the series, its figure and its report go."""

    output: Path | None
    figure: Path | None
    report: Path | None
    force: bool

    def __post_init__(self) -> None:
        """Refuse names that do not say what to write."""
        if self.output is None:
            for name, given in (
                ("--force", self.force),
                ("--figure", self.figure is not None),
                ("--report", self.report is not None),
            ):
                if given:
                    raise misuse(f"{name} goes with --output")
            return
        if not self.output.name.lower().endswith(TABLES):
            raise misuse(
                f"--output needs a name in {', '.join(TABLES)}; found {self.output.name!r}"
            )
        if self.figure is not None:
            figure_kind(self.figure)
        if self.report is not None:
            from undertow.reporting.report import check_ending

            try:
                check_ending(self.report)
            except InvalidInput as error:
                raise misuse(f"--report: {error}") from None

    def named(self) -> list[Path]:
        """Return the files that will be written."""
        return [path for path in (self.output, self.figure, self.report) if path is not None]

    def keep_off(self, inputs: list[Path]) -> None:
        """Refuse to write over what is read, or one file over the other."""
        seen = [_real(path) for path in inputs]
        for path in self.named():
            if _real(path) in seen:
                raise InvalidInput(f"{path} is named twice; results need files of their own")
            seen.append(_real(path))

    def check(self) -> None:
        """Refuse, before anything is spent, places where the results cannot be written."""
        for path in self.named():
            check_output(path, force=self.force)
        if self.figure is not None:
            from undertow.figures.canvas import check_drawing

            check_drawing()


def figure_kind(path: Path) -> Literal["png", "svg"]:
    """Return how a figure is to be drawn.

    >>> figure_kind(Path("erased.svg"))
    'svg'
    """
    match path.suffix.lower():
        case ".png":
            return "png"
        case ".svg":
            return "svg"
    raise misuse(f"--figure needs a name that ends in .png or .svg; found {path.name!r}")


class Watch:
    """Notices that a file was changed or replaced since it was first looked at.

    What seems wrong with a table may be the change: inside ``with watch:`` that is said instead.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, _state(path)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Refuse a file that changed, before any other refusal."""
        if kind is None or issubclass(kind, UndertowError):
            self.check()

    def check(self) -> None:
        """Refuse a file that is no longer the one that was there."""
        if _state(self._path) != self._seen:
            raise InvalidInput(
                f"{self._path} changed while it was read; nothing was written or spent: run the "
                "command again when the file is complete"
            )


@dataclass(slots=True)
class Drafts:
    """Files that are complete on the disk, beside the names that they will take.

    Contents are written to hidden files first. Once all of them are there, `publish` gives them
    their names. What is not published is removed; after ``keep`` a draft that cannot get its
    name stays, and the error says where it is.
    """

    force: bool
    keep: bool = False
    _drafts: list[tuple[Path, Path]] = field(default_factory=list)

    def __enter__(self) -> "Drafts":
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was not published."""
        for draft, _path in self._drafts:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file beside its place, and force it to the disk."""
        check_output(path, force=self.force)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        self._drafts.append((draft, path))
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {reason(error)}") from error

    def publish(self) -> None:
        """Give every draft its name."""
        while self._drafts:
            draft, path = self._drafts[0]
            try:
                check_output(path, force=self.force)
                os.replace(draft, path)  # noqa: PTH105  (one call, one name: what a test fails)
            except (OSError, InvalidInput) as error:
                raise self._stranded(path, error) from error
            self._drafts.pop(0)

    def _stranded(self, path: Path, error: OSError | InvalidInput) -> InvalidInput:
        """Return the error of a draft that cannot get its name, and let go of those to keep."""
        said = f"cannot write {path}: {reason(error)}" if isinstance(error, OSError) else str(error)
        if not self.keep:
            return InvalidInput(said)
        left = ", ".join(str(draft) for draft, _ in self._drafts)
        self._drafts.clear()
        return InvalidInput(
            f"{said}; the release is recorded, and its outputs are kept in {left}: move them to "
            "where they belong"
        )


def table_bytes(frame: Any, path: Path) -> bytes:
    """Return a frame of Polars as a file of that name holds it; what is erased is left empty."""
    file, name = io.BytesIO(), path.name.lower()
    if name.endswith(".parquet"):
        frame.write_parquet(file)
    else:
        frame.write_csv(file)
    content = file.getvalue()
    return gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def _state(path: Path) -> tuple[Any, ...] | None:
    """Return what changes when a file does, None where there is none (said by who reads it)."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
