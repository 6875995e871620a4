"""Addresses of databases as they may be shown: without the password."""

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

__all__ = ["PASSWORD_WORDS", "without_password"]

PASSWORD_WORDS = (
    "the database's password is not shown: give it in PGPASSWORD, or in the file ~/.pgpass"
)
"""What to do about the password that is left out."""

_SECRET = ("password", "passwd", "sslpassword")
"""Options of an address that are passwords, whatever their case."""


def without_password(where: str) -> str:
    """Return where a ledger is, without the password that its address may hold.

    The rest stays, so that the address can be used with the password given in another way. File
    names stay as they are; of an address that cannot be read only its kind stays.

    >>> without_password("postgresql://ann:secret@db/year?password=too&sslmode=require")
    'postgresql://ann@db/year?sslmode=require'
    >>> without_password("year.db")
    'year.db'
    """
    if "://" not in where:
        return where
    try:
        url = sa.make_url(where)
    except (ArgumentError, ValueError):
        return f"{where.partition('://')[0]}://"
    secret = [name for name in url.query if name.lower() in _SECRET]
    if url.password is None and not secret:
        return where
    bare = sa.URL.create(
        url.drivername, url.username, None, url.host, url.port, url.database, url.query
    )
    return bare.difference_update_query(secret).render_as_string(hide_password=False)
