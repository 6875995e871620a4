"""Formats of reports and answers: strict JSON, CSV without formulas, plain tables.

A light module: the command line imports it before anything else of reports.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import Any

from undertow.errors import InvalidInput
from undertow.rounding import columns, visible

__all__ = ["aligned", "check_ending", "csv_bytes", "strict_json"]


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
