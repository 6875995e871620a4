"""The tables of a ledger.

``undertow_events`` is the account: rows are only ever appended, each with the hash of the row
before it. All else is derived from it in the same transaction: ``undertow_datasets`` (terms and
layout of each data set), ``undertow_segments`` (what the records of each cell have spent) and the
one row of ``undertow_ledger`` (schema version, number and hash of the last event, the ledger's id
and the mark of its key). That row is also the lock: a writer holds it from its first read to its
commit.
"""

import secrets
from functools import lru_cache

import sqlalchemy as sa

from undertow.ledger.seals import Seal

__all__ = ["DATASETS", "EVENTS", "LEDGER", "SEGMENTS", "VERSION", "fill"]

VERSION = 2
"""The schema that this code reads and writes; any other is refused."""

_META = sa.MetaData()
LEDGER = sa.Table(
    "undertow_ledger", _META,
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("id", sa.Text),
    sa.Column("key_mark", sa.Text),
)  # fmt: skip
EVENTS = sa.Table(
    "undertow_events", _META,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("release_id", sa.Text),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.UniqueConstraint("dataset", "release_id", "kind"),
)  # fmt: skip
DATASETS = sa.Table(
    "undertow_datasets", _META,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("terms", sa.Text, nullable=False),
    sa.Column("layout", sa.Text, nullable=False),
)  # fmt: skip
SEGMENTS = sa.Table(
    "undertow_segments", _META,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("cell", sa.Text, primary_key=True),
    sa.Column("start", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("end", sa.BigInteger, nullable=False),
    sa.Column("level", sa.Double, nullable=False),  # of `exact`, rounded up: what SQL can compare
    sa.Column("exact", sa.Text, nullable=False),
    sa.Index("undertow_segments_level", "dataset", "level"),
    sqlite_with_rowid=False,  # rows lie in the order of their key: a window is one stretch
)  # fmt: skip


def fill(connection: sa.Connection, key: bytes | None) -> None:
    """Make the tables of an empty ledger, with an id that no other ledger has."""
    for statement in _making(connection.dialect):
        connection.exec_driver_sql(statement)
    name, seal = secrets.token_hex(16), Seal(key)
    row = {"version": VERSION, "seq": 0, "id": name}
    connection.execute(
        sa.insert(LEDGER).values(**row, hash=seal.origin(name), key_mark=seal.mark(name))
    )


@lru_cache(maxsize=16)
def _making(dialect: sa.Dialect) -> list[str]:
    """Return the statements that make the tables which are not there."""
    tables = _META.sorted_tables
    statements: list[sa.schema.ExecutableDDLElement] = [
        *(sa.schema.CreateTable(table, if_not_exists=True) for table in tables),
        *(sa.schema.CreateIndex(i, if_not_exists=True) for t in tables for i in t.indexes),
    ]
    return [str(one.compile(dialect=dialect)) for one in statements]
