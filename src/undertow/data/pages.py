"""Whether the pages of a Parquet file can be what their headers say.

A damaged header can announce more values than memory can hold, and who believes it does not come
back. The footer and the header of every page are read here; the values in the pages are not.
"""

from pathlib import Path
from typing import Any, BinaryIO

from undertow.errors import InvalidInput

__all__ = ["check_pages"]

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
    """Return the header of a page and its length; statistics can make it long."""
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
        found: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            # the upper half of the byte is the step to the next field, 0 where its number follows
            number = number + (kind >> 4) if kind >> 4 else self._signed()
            found[number] = kind & 15 == 1 if kind & 15 in (1, 2) else self._value(kind & 15)
        self.depth -= 1
        return found

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
