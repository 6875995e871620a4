"""The rows of the account, chained by hashes."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from undertow.errors import LedgerDamaged

__all__ = ["ORIGIN", "Event", "decoding", "sealed"]

ORIGIN = "0" * 64
"""The hash before the first event."""


def sealed(
    previous: str, seq: int, dataset: str, kind: str, release_id: str | None, body: str
) -> str:
    """Return the hash of an event: SHA-256 of everything in it and of the hash before it.

    >>> sealed(ORIGIN, 1, "w25", "open", None, "{}")[:8]
    '0e84d432'
    """
    text = json.dumps([previous, seq, dataset, kind, release_id, body], separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the account, as stored."""

    seq: int
    dataset: str
    kind: str
    release_id: str | None
    body: str
    previous: str
    hash: str

    def content(self) -> dict[str, Any]:
        """Return the body; a row that does not have its own hash is never used."""
        with decoding(f"event {self.seq}"):
            own = (self.previous, self.seq, self.dataset, self.kind, self.release_id, self.body)
            content = json.loads(self.body) if sealed(*own) == self.hash else None
            if not isinstance(content, dict):
                raise TypeError
            return content


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Turn whatever a row of the wrong form causes into `LedgerDamaged`."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise LedgerDamaged(
            f"{what} is not as it was written; see verify(), and go back to a copy that verifies"
        ) from None
