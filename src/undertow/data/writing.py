"""Tables written piece by piece, and outputs put back into the form of the table."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.data.codes import ERASED, Erased, Numbers
from undertow.errors import InvalidInput
from undertow.queries import State

if TYPE_CHECKING:
    import polars as pl


__all__ = [
    "OutputDigest",
    "column_of",
    "concatenated",
    "is_frame",
    "write_frames",
]


_LEVEL = 6
"""Compression level of gzip."""


def write_frames(frames: "Iterable[pl.DataFrame]", file: IO[bytes], name: str) -> None:
    """Write frames of the same columns, at least one, as one table of the kind that a name says.

    Memory is that of a few frames. Raises OSError where the file cannot be written, and whatever
    the frames raise.

    >>> import io
    >>> import polars as pl
    >>> held = io.BytesIO()
    >>> write_frames([pl.DataFrame({"x": [n]}) for n in range(2)], held, "t.csv")
    >>> held.getvalue()
    b'x\\n0\\n1\\n'
    """
    if name.lower().endswith(".parquet"):
        _parquet(iter(frames), file)
    elif name.lower().endswith(".gz"):
        with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
            _csv(frames, packed)
    else:
        _csv(frames, file)


def _csv(frames: "Iterable[pl.DataFrame]", file: IO[bytes] | gzip.GzipFile) -> None:
    for number, frame in enumerate(frames):
        text: Any = frame.write_csv(include_header=not number)
        file.write(text.encode())


def _parquet(frames: "Iterator[pl.DataFrame]", file: IO[bytes]) -> None:
    """Write frames as the streaming engine of Polars takes them: one is made, one is written."""
    import polars as pl
    from polars.io.plugins import register_io_source

    first = next(frames)
    raised: list[BaseException] = []

    def given(*_: Any) -> "Iterator[pl.DataFrame]":
        try:
            yield first
            yield from frames
        except BaseException as error:
            raised.append(error)  # Polars may wrap it
            raise

    try:
        register_io_source(given, schema=first.schema).sink_parquet(file, maintain_order=True)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        if raised:
            raise raised[0] from None
        raise OSError(str(error)) from None


def concatenated(frames: "list[pl.DataFrame]") -> "pl.DataFrame":
    """Return the rows of frames of the same columns, one after the other."""
    import polars as pl

    return pl.concat(frames)


def is_frame(data: Any) -> bool:
    """Return whether this is a frame of Polars.

    >>> is_frame([1, 2])
    False
    """
    import polars as pl

    return isinstance(data, pl.DataFrame)


def column_of(frame: "pl.DataFrame") -> "pl.Series":
    """Return the column of records of a frame that was sanitised: the last.

    >>> import polars as pl
    >>> column_of(pl.DataFrame({"id": ["x"], "state": ["idle"]})).name
    'state'
    """
    names = [name for name in frame.columns if name != ERASED]
    if not names:
        raise InvalidInput("the table has no column of records")
    return frame[names[-1]]


_HASHED = 2**18
"""Outputs that are hashed at a time."""


class OutputDigest:
    """SHA-256 of outputs as JSON, a line each, and a line feed after each series.

    Series come one after the other, in whatever pieces.

    >>> whole, parts = OutputDigest("ab"), OutputDigest("ab")
    >>> whole.feed(np.array([3]), np.array([0, 1, 1]), None)
    >>> parts.feed(np.array([1]), np.array([0]), None)
    >>> parts.feed(np.array([2]), np.array([1, 1]), None, goes_on=True)
    >>> whole.result() == parts.result()
    True
    """

    def __init__(self, names: Sequence[State]) -> None:
        """Begin with no series."""
        lines = [json.dumps(name, default=str).encode() + b"\n" for name in names] + [b"null\n"]
        # (outputs, bytes): lines, filled up with zeros, which no line of JSON has
        widest = max(map(len, lines))
        filled = b"".join(line.ljust(widest, b"\0") for line in lines)
        self._lines = np.frombuffer(filled, np.uint8).reshape(len(lines), widest)
        self._digest, self._begun = hashlib.sha256(), False

    def feed(
        self, lengths: npt.NDArray[np.int64], numbers: Numbers, erased: Erased, *,
        goes_on: bool = False,
    ) -> None:  # fmt: skip
        """Add outputs; the first series may go on from those before."""
        if erased is not None:
            numbers = np.where(erased, len(self._lines) - 1, numbers)
        for series, (end, size) in enumerate(zip(np.cumsum(lengths), lengths, strict=True)):
            if self._begun and (series or not goes_on):
                self._digest.update(b"\n")
            self._begun = True
            for start in range(int(end - size), int(end), _HASHED):
                table = self._lines[numbers[start : min(start + _HASHED, int(end))]]
                self._digest.update(table[table > 0].tobytes())

    def result(self) -> str:
        """Return the hash of all series."""
        whole = self._digest.copy()
        if self._begun:
            whole.update(b"\n")
        return whole.hexdigest()
