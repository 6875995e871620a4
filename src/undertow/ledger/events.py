"""The rows of the account, chained by hashes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from undertow.errors import LedgerDamaged

__all__ = ["ORIGIN", "Event", "decoding"]

ORIGIN = "0" * 64
"""The hash before the first event of a ledger without a key."""


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
