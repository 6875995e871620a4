"""A reader as somebody would add it: a table of an SQLite database."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from undertow.data.readers.sources import Reader, Roles, Source, check_columns, open_source
from undertow.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SqliteTable:
    """A table of a database file, by its name."""

    path: Path
    name: str


def accepts(source: Any) -> bool:
    """Tell whether this is a table of a database file."""
    return isinstance(source, SqliteTable)


def opens(source: SqliteTable, roles: Roles) -> Source:
    """Return the columns that are needed, as a frame of Polars is read.

    Errors of the database may quote its rows: they are never passed on.
    """
    title = f"table {source.name!r} of {source.path}"
    try:
        with closing(sqlite3.connect(f"{source.path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            listed = db.execute("select name from pragma_table_info(?)", (source.name,)).fetchall()
            columns = [name for (name,) in listed]
            check_columns(columns, roles, title, header=True)
            named = ", ".join(f'"{name}"' for name in roles)  # names that the table has
            rows = db.execute(f'select {named} from "{source.name}" order by rowid').fetchall()
    except sqlite3.Error:
        raise InvalidInput(f"cannot read {title}; name a database file and a table in it") from None
    frame = pl.DataFrame(rows, schema=list(roles), orient="row", infer_schema_length=None)
    return replace(open_source(frame, roles), title=title)


SQLITE = Reader(accepts, opens)
"""The entry of the registry."""
