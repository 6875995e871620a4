"""The hash by which outputs of series are known."""

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from undertow.data.codes import Erased, Numbers
from undertow.queries import State

__all__ = ["OutputDigest"]

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
