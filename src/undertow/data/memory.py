"""How much memory a table may take, and which tables are read in pieces because of it.

What decides is public: the number of rows, the types of the columns, the size of the file.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

__all__ = ["DEFAULT", "LEAST", "limit_of", "piece_rows", "row_bytes", "table_bytes"]

DEFAULT = 10**9
"""Bytes that a table may take in memory where nothing else is said."""
LEAST = 50 * 10**6
"""Bytes below which no piece is worth reading."""

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")

_COPIES = 4
"""How often a table is held while it is sorted and counted: measured, 3 to 4 times."""
_PIECES = 16
"""Pieces that would fill the memory: one is held in a few forms, and the next is read meanwhile."""
_TEXT, _ADDED = 32, 32
"""Bytes of a text with its place in a column, and of what is added to each row."""
_SPREAD, _PACKED = 3, 12
"""How much larger a table of texts is than its CSV file, and than its packed CSV file."""
_MOST_ROWS = 2**20


def limit_of(memory: Any) -> int:
    """Return a limit in bytes, from a whole number of them or a text such as ``"1GB"``.

    A GB is 10^9 bytes, a GiB 2^30.

    >>> limit_of("1.5 GB"), limit_of(2**30)
    (1500000000, 1073741824)
    """
    found = 0
    if isinstance(memory, int) and not isinstance(memory, bool):
        found = memory
    elif isinstance(memory, str):
        read = _SIZE.fullmatch(memory.strip().lower())
        if read is not None and read[2] in _UNITS:
            found = int(float(read[1]) * _UNITS[read[2]])
    if found < LEAST:
        raise InvalidInput(
            f"memory must be a number of bytes or a size such as '1GB' or '500MB', at least "
            f"{LEAST // 10**6}MB; found {memory!r}"
        )
    return found


def row_bytes(schema: "pl.Schema") -> int:
    """Return about how many bytes a row of these columns takes, with what is added to it.

    >>> import polars as pl
    >>> row_bytes(pl.Schema({"id": pl.String(), "t": pl.Int64()}))
    72
    """
    return _ADDED + sum(map(_width, schema.dtypes()))


def _width(dtype: Any) -> int:
    if dtype.is_integer() or dtype.is_float():
        return max(int("".join(filter(str.isdigit, str(dtype))) or 64) // 8, 1)
    name = type(dtype).__name__
    return {"Boolean": 1, "Date": 4, "Datetime": 8, "Null": 1, "Categorical": 4, "Enum": 4}.get(
        name, _TEXT
    )


def table_bytes(path: Path, name: str, width: int, rows: int | None) -> int:
    """Return about how many bytes a file takes when all of it is read, sorted and counted.

    ``rows`` is known of Parquet files, whose footers say it; a CSV file is judged by its size.
    """
    if rows is not None:
        return rows * width * _COPIES
    return path.stat().st_size * (_PACKED if name.endswith(".gz") else _SPREAD) * _COPIES


def piece_rows(limit: int, width: int) -> int:
    """Return how many rows a piece has, so that a limit of memory is kept.

    >>> piece_rows(10**9, 72), piece_rows(50 * 10**6, 72)
    (868055, 43402)
    """
    return max(min(limit // _PIECES // width, _MOST_ROWS), 1)
