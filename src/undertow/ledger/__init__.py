"""The account of what was released.

Read amounts.py, rules.py, entries.py (pure), replay.py, transactions.py, store.py (SQL), memory.py,
checks.py, keys.py, book.py.
"""

__all__ = ["reached"]


def reached(checkpoint: str) -> None:
    """Do nothing: a point at which a process may be killed, by name.

    Every write of the ledger passes ``<what>-begun`` (the database is locked, nothing written),
    ``<what>-written`` (written, not committed) and ``<what>-committed``, where what is ``create``,
    ``open``, ``limit``, ``reserve``, ``begin``, ``confirm``, ``cancel``, ``shape``, ``forget`` or
    ``roles``. So does what keeps and removes the key file of a release: ``hold`` (a
    draft, whole, under its name) and ``wipe`` (there, overwritten, gone). Tests put a function
    here that kills, cuts a connection or waits.

    >>> reached("reserve-written")
    """
