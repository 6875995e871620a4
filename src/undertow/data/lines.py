"""Lines of a CSV file, without the file in memory: blocks of them, and those that are too long.

A field of gigabytes fits into a few megabytes of gzip. The file is unpacked piece by piece here,
and a line that is too long to be one is refused before anything holds it.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from undertow.errors import InvalidInput

__all__ = ["LONGEST_LINE", "blocks", "check_lines"]

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


def blocks(path: Path, name: str, size: int) -> Iterator[bytes]:
    """Yield a CSV file in blocks of whole lines, about ``size`` bytes each, its header in each.

    A line goes on where it ends within quotes. At least one block; raises OSError where the file
    cannot be read or unpacked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "t.csv")
    ...     _ = path.write_text('x\\n1\\n"2\\n2"\\n3\\n')
    ...     list(blocks(path, path.name, 4))
    [b'x\\n1\\n"2\\n2"\\n3\\n']
    """
    header, held, inside, some = b"", bytearray(), False, False
    for piece in _read(path, packed=name.endswith(".gz"), size=min(size, _PIECE)):
        start = len(held)
        held += piece
        if not header:
            header = _header(held)
            del held[: len(header)]
            start, inside = 0, False
            if not header:
                continue
        _, last, inside = _ends(bytes(memoryview(held)[start:]), inside)
        if last >= 0 and len(held) >= size:
            end = start + last + 1
            yield header + bytes(memoryview(held)[:end])
            some = True
            del held[:end]
    if held or not some:
        yield header + bytes(held)


def _header(held: bytearray) -> bytes:
    """Return the first line that is not empty with what is before it, nothing if it goes on."""
    inside = False
    for place, letter in enumerate(bytes(held)):
        inside ^= letter == ord('"')
        if letter == ord("\n") and not inside and bytes(held[:place]).strip(b"\xef\xbb\xbf\r\n"):
            return bytes(held[: place + 1])
    return b""


def _read(path: Path, *, packed: bool, size: int) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            while piece := file.read(size):
                yield piece
    except (EOFError, zlib.error) as error:
        raise OSError("end of file") from error  # it is cut off


def _pieces(path: Path, *, packed: bool) -> Iterator[bytes]:
    try:
        yield from _read(path, packed=packed, size=_PIECE)
    except OSError:
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
