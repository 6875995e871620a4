"""Lines of a CSV file that are too long to be lines: refused before anything holds one in memory.

A field of gigabytes fits into a few megabytes of gzip. The file is unpacked piece by piece here,
and only the distance between the ends of lines is looked at.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from undertow.errors import InvalidInput

__all__ = ["LONGEST_LINE", "check_lines"]

LONGEST_LINE = 64 * 2**20
"""Bytes of a line, line ends within quotes included."""
_PIECE = 2**20
_TIGHTEST = 1032
"""No byte of gzip holds more bytes than this."""


def check_lines(path: Path, name: str, longest: int = LONGEST_LINE) -> None:
    """Refuse a CSV file with a line of more than ``longest`` bytes.

    A line goes on where it ends within quotes. Reads the file once, a piece at a time; what is
    wrong with its compression is said by who reads it.
    """
    packed = name.endswith(".gz")
    if path.stat().st_size * (_TIGHTEST if packed else 1) <= longest:
        return
    length, inside = 0, False
    for piece in _pieces(path, packed=packed):
        first, last, inside = _ends(piece, inside)
        if length + first > longest:
            raise InvalidInput(
                f"cannot read {path}: a line has more than {longest // 2**20} MiB; a table has one "
                "record in a line, and quotes that match"
            )
        length = length + len(piece) if last < 0 else len(piece) - last - 1


def _pieces(path: Path, *, packed: bool) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece
    except (OSError, EOFError, zlib.error):
        return


def _ends(piece: bytes, inside: bool) -> tuple[int, int, bool]:
    """Return the bytes before the first end of a line, where the last one is, and if in quotes."""
    if not inside and b'"' not in piece:
        first = piece.find(b"\n")
        return len(piece) if first < 0 else first, piece.rfind(b"\n"), False
    letters = np.frombuffer(piece, dtype=np.uint8)
    # (bytes,): how many quotes up to each; an odd number of them opens a text
    quotes = np.cumsum(letters == ord('"'), dtype=np.int64) + inside
    ends = np.flatnonzero((letters == ord("\n")) & (quotes % 2 == 0))
    still = bool(quotes[-1] % 2)
    return (len(piece), -1, still) if not ends.size else (int(ends[0]), int(ends[-1]), still)
