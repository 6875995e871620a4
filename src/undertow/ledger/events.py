"""The rows of the account, chained by hashes."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from undertow.errors import LedgerDamaged

__all__ = ["ORIGIN", "Event", "decoding", "sealed"]

ORIGIN = "0" * 64
"""The hash before the first event of a ledger without a key."""


def sealed(
    previous: str,
    seq: int,
    dataset: str,
    kind: str,
    release_id: str | None,
    body: str,
    key: bytes | None = None,
) -> str:
    """Return the hash of an event: SHA-256 of everything in it and of the hash before it.

    With a key it is the HMAC under that key, which nobody can compute who does not have it.

    >>> sealed(ORIGIN, 1, "w25", "open", None, "{}")[:8]
    '0e84d432'
    >>> sealed(ORIGIN, 1, "w25", "open", None, "{}", b"sixteen bytes at least")[:8]
    'f156d8ce'
    """
    content = [previous, seq, dataset, kind, release_id, body]
    text = json.dumps(content, separators=(",", ":")).encode("ascii")
    if key is None:
        return hashlib.sha256(text).hexdigest()
    return hmac.digest(key, text, "sha256").hex()


class Event(NamedTuple):
    """One row of the account, as stored."""

    seq: int
    dataset: str
    kind: str
    release_id: str | None
    body: str
    previous: str
    hash: str


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Turn whatever a row of the wrong form causes into `LedgerDamaged`."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise LedgerDamaged(
            f"{what} is not as it was written; see verify(), and go back to a copy that verifies"
        ) from None
