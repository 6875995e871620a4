"""Tables written piece by piece, so that none of them has to be in memory."""

import gzip
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

__all__ = ["concatenated", "write_frames"]

_LEVEL = 6
"""How hard gzip tries."""


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
