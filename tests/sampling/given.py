"""Streams of known bytes: what a sampler makes of them can be said beforehand."""

import numpy as np

from undertow.errors import InvalidInput
from undertow.sampling.streams import ByteArray, Draws


class Known:
    """A stream of known bytes, which ends with an error."""

    def __init__(self, content: bytes) -> None:
        self.rest = np.frombuffer(content, dtype=np.uint8)

    @property
    def left(self) -> int:
        return int(self.rest.size)

    def take(self, count: int) -> ByteArray:
        if count > self.left:
            raise InvalidInput(f"{count} more bytes are needed, and {self.left} are left")
        block, self.rest = self.rest[:count], self.rest[count:]
        return block


def given(first: bytes, further: bytes) -> Draws:
    """Return both streams of known bytes."""
    return Draws(Known(first), Known(further))
