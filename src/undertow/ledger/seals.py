"""Keys of the hash chain of a ledger: none, or a secret key that is kept elsewhere.

A chain of plain hashes shows that a row was changed, but whoever may write the file can write a
whole new chain. Under a key (HMAC-SHA256) only those who have the key can. A ledger gets its key
when it is created, and for good.
"""

import hashlib
import hmac
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from undertow.errors import InvalidInput, LedgerConflict
from undertow.ledger.entries import ORIGIN, Event, decoding

__all__ = ["KEY_VARIABLE", "Seal", "read_key"]

KEY_VARIABLE = "UNDERTOW_LEDGER_KEY"
"""The environment variable that names the file with the key."""

_SHORTEST = 16
"""Bytes that a key must have at least."""


@dataclass(frozen=True, slots=True, repr=False)
class Seal:
    """Hash function of one ledger's events; ``blind`` where its key is not at hand.

    >>> Seal().of(ORIGIN, 1, "w25", "open", None, "{}")[:8]
    '0e84d432'
    """

    key: bytes | None = None
    blind: bool = False

    def of(
        self, previous: str, seq: int, dataset: str, kind: str, release_id: str | None, body: str
    ) -> str:
        """Return the hash of an event: SHA-256 of everything in it and of the hash before it.

        With a key it is the HMAC under that key, which nobody can compute who does not have it.

        >>> Seal(b"sixteen bytes at least").of(ORIGIN, 1, "w25", "open", None, "{}")[:8]
        'f156d8ce'
        """
        content = [previous, seq, dataset, kind, release_id, body]
        text = json.dumps(content, separators=(",", ":")).encode("ascii")
        if self.key is None:
            return hashlib.sha256(text).hexdigest()
        return hmac.digest(self.key, text, "sha256").hex()

    def content(self, event: Event) -> dict[str, Any]:
        """Return the body of an event; one that does not have its own hash is never used."""
        with decoding(f"event {event.seq}"):
            own = self.of(event.previous, *event[:5])
            content = json.loads(event.body) if self.blind or own == event.hash else None
            if type(content) is not dict:
                raise TypeError
            return content

    def origin(self, ledger_id: str) -> str:
        """Return what the first event follows; under a key it names the ledger."""
        return ORIGIN if self.key is None else _tag(self.key, "origin", ledger_id)

    def mark(self, ledger_id: str) -> str | None:
        """Return what the ledger keeps to tell its key from another, None if it has none."""
        return None if self.key is None else _tag(self.key, "key", ledger_id)

    def needed(self, place: str) -> None:
        """Refuse what cannot be done without the key."""
        if self.blind:
            raise LedgerConflict(
                f"{place} is kept under a key, and without it nothing can be checked or added; "
                f"pass key=, --key FILE, or name the file in {KEY_VARIABLE}"
            )

    @classmethod
    def found(cls, key: bytes | None, mark: str | None, ledger_id: str, place: str) -> "Seal":
        """Return the seal of a ledger, or refuse a key that is not its own."""
        if mark is None:
            if key is not None:
                raise LedgerConflict(
                    f"{place} is not kept under a key: it was started without one, or somebody "
                    "wrote it anew; open it without a key if it is the former"
                )
            return cls()
        if key is None:
            return cls(blind=True)
        if not hmac.compare_digest(_tag(key, "key", ledger_id), mark):
            raise LedgerConflict(f"{place} is kept under another key than this one")
        return cls(key)


def read_key(key: object) -> bytes | None:
    """Return a key from its bytes or the name of its file; None: that of the environment, if any.

    >>> read_key(b"sixteen bytes at least")
    b'sixteen bytes at least'
    """
    named = (os.environ.get(KEY_VARIABLE) or None) if key is None else key
    if named is None:
        return None
    if isinstance(named, str | os.PathLike):
        try:
            named = Path(named).expanduser().read_bytes()
        except (OSError, RuntimeError, ValueError):
            raise InvalidInput("the file with the key of the ledger cannot be read") from None
    if not isinstance(named, bytes) or len(named) < _SHORTEST:
        raise InvalidInput(
            f"the key of a ledger is bytes, at least {_SHORTEST} of them, or a file that holds "
            "them; make one with: head -c 32 /dev/urandom > key"
        )
    return named


def _tag(key: bytes, what: str, ledger_id: str) -> str:
    return hmac.digest(key, f"undertow ledger {what} {ledger_id}".encode(), "sha256").hex()
