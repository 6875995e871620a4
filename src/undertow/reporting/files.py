"""What is written to a disk: strict JSON, safe CSV, files that are there whole or not at all."""

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

__all__ = ["aligned", "check_writable", "csv_bytes", "reason", "strict_json", "write_whole"]

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # noqa: RUF001  (wide signs count, too)
"""How a text begins that a spreadsheet takes for a formula."""


def strict_json(value: Any) -> str:
    """Return JSON text that every parser reads: infinities become strings.

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
    """Return a CSV file that a spreadsheet shows and does not obey; a missing cell is empty.

    A text that begins as a formula gets an apostrophe in front, and hidden characters are written
    as escapes. Numbers stay as they are.

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
    """Return a cell that is data to everyone who opens the file."""
    if value is None or isinstance(value, Number):
        return value
    said = str(value)
    formula = said.startswith(_FORMULA) or said.lstrip().startswith(_FORMULA)
    return visible(f"'{said}" if formula else said)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, all of it or nothing; what stood there before stays until then.

    The content goes to a new file beside it, is forced to the disk, and then takes the name.
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
    """Refuse a place where no new file can be made, by making an empty one and removing it."""
    draft = _beside(path)
    try:
        draft.open("xb").close()
        draft.unlink()
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Return what the operating system says, in words.

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
