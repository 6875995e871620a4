"""The names of the columns of a file, which are public, before anybody says what they are."""

from pathlib import Path

from undertow.data.sources import open_source
from undertow.errors import InvalidInput

__all__ = ["column_names"]


def column_names(path: Path) -> dict[str, str]:
    """Return the columns of a table and their types; those of CSV are all text.

    The first line of a CSV file may be records by mistake, which must not be shown: it is refused
    where a name looks like a number, or is empty. Reads the header only.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (path := Path(folder) / "steps.csv").write_text("id,steps\\n1,7\\n")
    ...     column_names(path)
    {'id': 'String', 'steps': 'String'}
    """
    schema = open_source(path, {}).frame.collect_schema()
    if any(not name.strip() or name.strip()[0] in "0123456789+-." for name in schema):
        raise InvalidInput(
            f"the first line of {path} must be a header with the names of the columns; at least "
            "one of them is empty or looks like a number"
        )
    return {name: str(kind) for name, kind in schema.items()}
