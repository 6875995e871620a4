"""Files of commands: models, plans and certificates read, results written completely or not."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.cli.options import ForceOption, figure_kind, misuse, option
from undertow.errors import InvalidCertificate, InvalidInput, InvalidModel, InvalidPlan
from undertow.files import check_writable, reason, write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from undertow.figures.canvas import Figure
    from undertow.models.sets import AnyModel
    from undertow.plan import Plan

__all__ = [
    "ReportFiles",
    "check_figure",
    "check_output",
    "check_written",
    "keep_off",
    "read_certificate",
    "read_model",
    "read_plan",
    "read_trusted",
    "write_bytes",
    "write_figure",
    "write_text",
]

_WRITTEN = "write one with 'undertow fit --output'"


def read_model(path: Path) -> "AnyModel":
    """Return the model in a JSON file, or refuse the file with the reason."""
    from undertow.models.sets import model_from_dict

    text = _read(path, "model", InvalidModel)
    try:
        return model_from_dict(json.loads(text, parse_constant=_refuse_constant))
    except json.JSONDecodeError as error:
        raise InvalidModel(
            f"the model file {path} is not JSON: {error.msg} at line {error.lineno}, column "
            f"{error.colno}; {_WRITTEN}"
        ) from error
    except InvalidInput as error:
        raise type(error)(f"the model file {path}: {error}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidModel(
            f"the model file {path} is malformed: a field has the wrong type, or is nested too "
            f"deeply; {_WRITTEN}"
        ) from error


def read_plan(path: Path, trusted: "Sequence[str] | None" = None) -> "Plan":
    """Return the plan in a file that 'undertow plan' wrote, or refuse it with the reason.

    With ``trusted`` public keys, a plan that none of them signed is refused.
    """
    from undertow.plan import Plan

    try:
        return Plan.from_json(_read(path, "plan", InvalidPlan), trusted=trusted)
    except InvalidPlan as error:
        raise InvalidPlan(f"the plan file {path}: {error}") from error


def read_certificate(path: Path) -> str:
    """Return the text of a certificate's file."""
    return _read(path, "certificate", InvalidCertificate)


def read_trusted(given: "Sequence[str] | None") -> "list[str] | None":
    """Return the public keys of --trust, each a key or the file of one."""
    from undertow.plan import PREFIX, public_key

    if not given:
        return None
    keys = []
    for name in given:
        text = name if name.startswith(PREFIX) else _read(Path(name), "key", InvalidInput)
        keys.append(public_key(text))
    return keys


def check_output(path: Path, *, force: bool) -> None:
    """Refuse a path where a result cannot or should not be written."""
    try:
        if path.is_dir():
            raise InvalidInput(f"cannot write {path}: it is a directory; name a file in it")
        if path.exists() and not path.is_file():
            raise InvalidInput(f"cannot write {path}: it is not an ordinary file")
        if path.exists() and not force:
            raise InvalidInput(f"{path} exists; choose another name, or replace it with --force")
        if not path.parent.is_dir():
            raise InvalidInput(f"cannot write {path}: there is no directory {path.parent}")
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {reason(error)}") from error
    check_writable(path)


def check_written(path: Path | None, *, force: bool, named: str = "--output") -> None:
    """Refuse a path that cannot be written, and --force without a path."""
    if path is not None:
        check_output(path, force=force)
    elif force:
        raise misuse(f"--force goes with {named}")


def check_figure(path: Path | None, *, force: bool) -> None:
    """Refuse a figure that cannot be drawn or written."""
    if path is not None:
        from undertow.figures.canvas import check_drawing

        figure_kind(path)
        check_drawing()
    check_written(path, force=force, named="--figure")


def keep_off(named: "Sequence[Path]", inputs: "Sequence[Path]") -> None:
    """Refuse to overwrite an input, or one output by another."""
    seen = [_real(path) for path in inputs]
    for path in named:
        if _real(path) in seen:
            raise misuse(f"{path} is named twice; each result needs its own file")
        seen.append(_real(path))


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """The path of a report, and whether files are overwritten."""

    report: Path | None = option("FILE", "Path of a report (.html, .json or .txt).", group="Output")
    force: ForceOption = False

    def check_report(self) -> None:
        """Refuse a report of an unknown format."""
        from undertow.reporting.formats import check_ending

        try:
            if self.report is not None:
                check_ending(self.report)
        except InvalidInput as error:
            raise misuse(f"--report: {error}") from None


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


def write_text(path: Path, text: str, *, force: bool = False) -> None:
    """Write text to a file, completely or not at all."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"), force=force)


def write_bytes(path: Path, content: bytes, *, force: bool = False) -> None:
    """Write a file, completely or not at all; replace an existing one only with ``force``."""
    check_output(path, force=force)
    write_whole(path, content)


def write_figure(path: Path, figure: "Figure", *, force: bool = False) -> None:
    """Write a figure in the format of its name."""
    from undertow.figures.canvas import figure_bytes

    write_bytes(path, figure_bytes(figure, figure_kind(path)), force=force)


def _read(path: Path, what: str, fault: type[InvalidInput]) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read the {what} file {path}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise fault(f"the {what} file {path} is not text in UTF-8") from error


def _refuse_constant(name: str) -> Any:
    raise InvalidModel(f"it contains {name}, which is not a number; probabilities lie in [0, 1]")
