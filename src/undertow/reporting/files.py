"""Files of reports and answers: strict JSON, CSV without formulas, atomic writes.

A light module: the command line imports it before anything else of reports.
"""

import csv
import io
import json
import math
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Number
from pathlib import Path
from typing import Any

from undertow.errors import InvalidInput
from undertow.rounding import columns, visible

__all__ = [
    "ENDINGS",
    "aligned",
    "check_ending",
    "check_writable",
    "csv_bytes",
    "reason",
    "strict_json",
    "write_whole",
]


_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001  (wide signs count, too)
"""The first characters of text that a spreadsheet evaluates as a formula."""


def strict_json(value: Any) -> str:
    """Return strict JSON text, infinities as strings.

    >>> strict_json({"upper": math.inf})
    '{\\n  "upper": "inf"\\n}'
    """
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of text as `columns` has them, indented.

    >>> print("\\n".join(aligned([["what", "how much"], ["tea", "2"]])))
      what  how much
      tea   2
    """
    return [f"  {line}".rstrip() for line in columns(rows)]


def csv_bytes(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> bytes:
    """Return a CSV file without formulas; a missing cell is empty.

    Text that begins like a formula is prefixed with an apostrophe, and control characters are
    escaped. Numbers are unchanged.

    >>> print(csv_bytes([{"group": "=1+1", "value": -3}], ["group", "value"]).decode(), end="")
    group,value
    '=1+1,-3
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(map(_cell, columns))
    table.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    return text.getvalue().encode("utf-8")


def _cell(value: Any) -> Any:
    """Return a cell that no spreadsheet evaluates."""
    if value is None or isinstance(value, Number):
        return value
    text = str(value)
    formula = text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA)
    return visible(f"'{text}" if formula else text)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all; an earlier file stays until then.

    The content goes to a new file beside it, is forced to the disk, and is renamed.
    """
    draft = _beside(path)
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)  # noqa: PTH105  (one call, one name: what a test makes fail)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {reason(error)}") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Refuse a path where no new file can be created, by creating an empty one and removing it."""
    draft = _beside(path)
    try:
        draft.open("xb").close()
        draft.unlink()
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Return the message of the operating system.

    >>> reason(FileNotFoundError(2, "No such file or directory"))
    'no such file or directory'
    """
    return (error.strerror or str(error)).lower()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


ENDINGS = (".html", ".json", ".txt")
"""The suffixes of reports, each with its format."""


def check_ending(path: str | Path) -> str:
    """Return the suffix of a report, or refuse it.

    >>> check_ending("week-1.html")
    '.html'
    """
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise InvalidInput(
            f"a report needs a name that ends in {', '.join(ENDINGS)}; found {Path(path).name!r}"
        )
    return ending
