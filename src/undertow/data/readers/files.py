"""Files of tables: their formats by name, their contents checked against it, and memory limits.

Values of a file are private. No message of this module contains one.
"""

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "DEFAULT",
    "LEAST",
    "LONGEST_LINE",
    "blocks",
    "check_content",
    "check_lines",
    "check_pages",
    "fault",
    "files_of",
    "limit_of",
    "piece_rows",
    "quoted",
    "row_bytes",
    "table_bytes",
    "table_name",
]


LONGEST_LINE = 64 * 2**20
"""Bytes of a line, line ends within quotes included."""
_PIECE = 2**20
_TIGHTEST = 1032
"""No byte of gzip holds more bytes than this."""


def check_lines(path: Path, name: str, longest: int = LONGEST_LINE) -> None:
    """Refuse a CSV file with a line of more than ``longest`` bytes.

    A line goes on where it ends within quotes. Reads the file once, a piece at a time; what is
    wrong with its compression is reported by its reader.
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


_MAGIC = b"PAR1"
_DEEPEST = 32
_HEADER = 2**12
_LARGEST = 2**26
"""Bytes of a header; what is larger is none."""
_SPARE = 2**16
"""Bytes that an encoding may need more than its values."""


def check_pages(path: Path) -> None:
    """Refuse a Parquet file whose footer or page headers contradict its size or each other.

    Reads the footer and a few kilobytes for each page, whatever the size of the pages.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            for group in _footer(file, size).get(4, []):
                for chunk in group[1]:
                    _check_chunk(file, size, chunk[3])
    except (OSError, LookupError, TypeError, AttributeError, ValueError, RecursionError):
        raise InvalidInput(f"cannot read {path}: it is damaged, or not Parquet") from None


def _footer(file: BinaryIO, size: int) -> dict[int, Any]:
    file.seek(max(0, size - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if len(tail) < 8 or tail[4:] != _MAGIC or length > size - 12:
        raise ValueError
    file.seek(size - 8 - length)
    return _Compact(file.read(length)).struct()


def _check_chunk(file: BinaryIO, size: int, about: dict[int, Any]) -> None:
    """Check all pages of a column in a group of rows, one after the other.

    Numbers are those of the format: 5 counts values, 7 compressed bytes, 9 and 11 are where data
    and dictionary begin; of a page 2 and 3 are its sizes and 5, 7, 8 what kind it is.
    """
    if about[5] == 0:  # there are no pages
        return
    place = min(about[9], about.get(11) or about[9])
    end, values = place + about[7], about[5]
    if place < len(_MAGIC) or end > size or min(values, about[7]) < 0:
        raise ValueError
    while values > 0 and place < end:
        header, width = _page(file, place, end)
        place += width + header[3]
        if place > end or min(header[2], header[3]) < 0:
            raise ValueError
        data, words = header.get(5) or header.get(8), header.get(7)
        count = (data or words or {1: 0})[1]
        if count < 0 or (data is not None and count > values):
            raise ValueError
        if words is not None and count > header[2] + _SPARE:  # a word has at least one bit
            raise ValueError
        values -= 0 if data is None else count


def _page(file: BinaryIO, place: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the header of a page, and its length."""
    wanted = _HEADER
    while True:
        file.seek(place)
        reader = _Compact(file.read(min(wanted, end - place)))
        try:
            return reader.struct(), reader.place
        except IndexError:
            if wanted >= min(end - place, _LARGEST):
                raise
            wanted *= 16


class _Compact:
    """A reader of Thrift's compact protocol: structures become dictionaries by field number."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place, self.depth = content, 0, 0

    def struct(self) -> dict[int, Any]:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError
        fields: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            # the upper half of the byte is the step to the next field, 0 where its number follows
            number = number + (kind >> 4) if kind >> 4 else self._signed()
            fields[number] = kind & 15 == 1 if kind & 15 in (1, 2) else self._value(kind & 15)
        self.depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._whole())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._whole()
            if count > len(self.content) - self.place:
                raise IndexError
            return [self._value(head & 15) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise ValueError

    def _byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def _bytes(self, count: int) -> bytes:
        self.place += count
        if self.place > len(self.content):
            raise IndexError
        return self.content[self.place - count : self.place]

    def _whole(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise ValueError

    def _signed(self) -> int:
        number = self._whole()
        return (number >> 1) ^ -(number & 1)  # zigzag: 0, -1, 1, -2, ...


_ENDINGS = (".csv", ".csv.gz", ".parquet")


def files_of(path: Path) -> list[Path] | None:
    """Return the files of a table in several: those of a folder, or of a pattern, by their names.

    None for a path that is one file by itself. Files that begin with a dot or an underscore are
    none of the table.
    """
    if path.is_dir():
        paths = [one for one in path.iterdir() if one.is_file()]
    elif set("*?[") & set(path.name) and not path.exists():
        paths = [one for one in path.parent.glob(path.name) if one.is_file()]
    else:
        return None
    tables = [one for one in paths if one.name[0] not in "._" and _ending(one) is not None]
    if not tables:
        raise InvalidInput(
            f"{path} names no table: no file in it ends in {', '.join(_ENDINGS)}; its folders are "
            "not searched"
        )
    kinds = {_ending(one) for one in tables}
    if len(kinds) > 1:
        raise InvalidInput(
            f"{path} holds files of several kinds ({', '.join(sorted(map(str, kinds)))}); the "
            "files of one table are all of one kind"
        )
    return sorted(tables)


def _ending(path: Path) -> str | None:
    return next((end for end in reversed(_ENDINGS) if path.name.lower().endswith(end)), None)


def table_name(path: Path) -> str:
    """Return the name of a file in lower case, or refuse it if it is no table by its ending.

    >>> table_name(Path("folder/Steps.CSV"))
    'steps.csv'
    """
    name = path.name.lower()
    if not name.endswith(_ENDINGS):
        raise InvalidInput(f"{path} must be a table: a file ending in {', '.join(_ENDINGS)}")
    return name


def quoted(columns: Sequence[str]) -> dict[str, str]:
    """Return the names that have quotes, which Polars leaves doubled, as they are meant.

    >>> quoted(["a", 'say ""hi""'])
    {'say ""hi""': 'say "hi"'}
    """
    meant = {name: name.replace('""', '"') for name in columns if '""' in name}
    return meant if len({*columns, *meant.values()}) == len(columns) + len(meant) else {}


def check_content(path: Path, name: str, *, header_only: bool = False) -> None:
    """Refuse a file that is not what its name says.

    A CSV file has no null byte, in its header or anywhere near its beginning: with ``header_only``
    the records, which are private, have no say.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        reason = (error.strerror or "it cannot be opened").lower()
        raise InvalidInput(f"cannot read {path}: {reason}") from None
    if not head:
        raise InvalidInput(f"{path} is empty; a header and records are required")
    parquet, zipped = head.startswith(b"PAR1"), head.startswith(b"\x1f\x8b")
    if name.endswith(".parquet"):
        fits, kind = parquet, "Parquet"
    elif name.endswith(".gz"):
        fits, kind = zipped, "gzip"
    else:
        text = head.split(b"\n")[0] if header_only else head
        fits, kind = not (parquet or zipped or b"\0" in text), "CSV"
    if not fits:
        content = "Parquet" if parquet else "gzip" if zipped else "something else"
        raise InvalidInput(f"{path} is not {kind}, as its name says, but {content}; rename it")
    if kind == "Parquet":
        check_pages(path)
    else:
        check_lines(path, name)


def fault(message: str, name: str) -> str:
    """Describe what is wrong with a file without quoting it.

    >>> fault("invalid utf-8 sequence", "a.csv")
    'it is not text in UTF-8'
    """
    if name.endswith(".parquet"):
        return "it is damaged, or not Parquet"
    for sign, words in {
        "utf-8": "it is not text in UTF-8",
        "utf8": "it is not text in UTF-8",
        "more fields": "a line has more fields than the header",
        "end of file": "it is cut off",
    }.items():
        if sign in message.lower():
            return words
    return "it is damaged, or not CSV with a header"


DEFAULT = 10**9
"""Default limit in bytes of a table in memory."""
LEAST = 50 * 10**6
"""Bytes below which no piece is worth reading."""

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")

_COPIES = 4
"""Copies of a table in memory while it is sorted and counted: measured, 3 to 4."""
_PIECES = 16
"""Pieces that would fill the memory: one is held in a few forms, and the next is read meanwhile."""
_TEXT, _ADDED = 32, 32
"""Bytes of a text with its place in a column, and of what is added to each row."""
_SPREAD, _PACKED = 3, 12
"""Ratio of a table of texts in memory to its CSV file, plain and packed."""
_MOST_ROWS = 2**20


def limit_of(memory: Any) -> int:
    """Return a limit in bytes, from a whole number of them or a text such as ``"1GB"``.

    A GB is 10^9 bytes, a GiB 2^30.

    >>> limit_of("1.5 GB"), limit_of(2**30)
    (1500000000, 1073741824)
    """
    number = 0
    if isinstance(memory, int) and not isinstance(memory, bool):
        number = memory
    elif isinstance(memory, str):
        read = _SIZE.fullmatch(memory.strip().lower())
        if read is not None and read[2] in _UNITS:
            number = int(float(read[1]) * _UNITS[read[2]])
    if number < LEAST:
        raise InvalidInput(
            f"memory must be a number of bytes or a size such as '1GB' or '500MB', at least "
            f"{LEAST // 10**6}MB; found {memory!r}"
        )
    return number


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
