"""Files of tables: what they are by their names, and whether they are that.

Values of a file are private. No message of this module contains one.
"""

from collections.abc import Sequence
from pathlib import Path

from undertow.data.lines import check_lines
from undertow.data.pages import check_pages
from undertow.errors import InvalidInput

__all__ = ["check_content", "fault", "files_of", "quoted", "table_name"]

_ENDINGS = (".csv", ".csv.gz", ".parquet")


def files_of(path: Path) -> list[Path] | None:
    """Return the files of a table in several: those of a folder, or of a pattern, by their names.

    None for a path that is one file by itself. Files that begin with a dot or an underscore are
    none of the table.
    """
    if path.is_dir():
        found = [one for one in path.iterdir() if one.is_file()]
    elif set("*?[") & set(path.name) and not path.exists():
        found = [one for one in path.parent.glob(path.name) if one.is_file()]
    else:
        return None
    tables = [one for one in found if one.name[0] not in "._" and _ending(one) is not None]
    if not tables:
        raise InvalidInput(
            f"{path} names no table: no file in it ends in {', '.join(_ENDINGS)}; its folders are "
            "not searched"
        )
    kinds = {_ending(one) for one in tables}
    if len(kinds) > 1:
        raise InvalidInput(
            f"{path} holds files of several kinds ({', '.join(sorted(map(str, kinds)))}); the "
            "files of one table are all of one kind"
        )
    return sorted(tables)


def _ending(path: Path) -> str | None:
    return next((end for end in reversed(_ENDINGS) if path.name.lower().endswith(end)), None)


def table_name(path: Path) -> str:
    """Return the name of a file in lower case, or refuse it if it is no table by its ending.

    >>> table_name(Path("folder/Steps.CSV"))
    'steps.csv'
    """
    name = path.name.lower()
    if not name.endswith(_ENDINGS):
        raise InvalidInput(f"{path} must be a table: a file ending in {', '.join(_ENDINGS)}")
    return name


def quoted(columns: Sequence[str]) -> dict[str, str]:
    """Return the names that have quotes, which Polars leaves doubled, as they are meant.

    >>> quoted(["a", 'say ""hi""'])
    {'say ""hi""': 'say "hi"'}
    """
    meant = {name: name.replace('""', '"') for name in columns if '""' in name}
    return meant if len({*columns, *meant.values()}) == len(columns) + len(meant) else {}


def check_content(path: Path, name: str, *, header_only: bool = False) -> None:
    """Refuse a file that is not what its name says.

    A CSV file has no null byte, in its header or anywhere near its beginning: with ``header_only``
    the records, which are private, have no say.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        reason = (error.strerror or "it cannot be opened").lower()
        raise InvalidInput(f"cannot read {path}: {reason}") from None
    if not head:
        raise InvalidInput(f"{path} is empty; a header and records are required")
    parquet, zipped = head.startswith(b"PAR1"), head.startswith(b"\x1f\x8b")
    if name.endswith(".parquet"):
        fits, kind = parquet, "Parquet"
    elif name.endswith(".gz"):
        fits, kind = zipped, "gzip"
    else:
        text = head.split(b"\n")[0] if header_only else head
        fits, kind = not (parquet or zipped or b"\0" in text), "CSV"
    if not fits:
        found = "Parquet" if parquet else "gzip" if zipped else "something else"
        raise InvalidInput(f"{path} is not {kind}, as its name says, but {found}; rename it")
    if kind == "Parquet":
        check_pages(path)
    else:
        check_lines(path, name)


def fault(message: str, name: str) -> str:
    """Return what is wrong with a file in words that quote nothing of it.

    >>> fault("invalid utf-8 sequence", "a.csv")
    'it is not text in UTF-8'
    """
    if name.endswith(".parquet"):
        return "it is damaged, or not Parquet"
    for sign, words in {
        "utf-8": "it is not text in UTF-8",
        "utf8": "it is not text in UTF-8",
        "more fields": "a line has more fields than the header",
        "end of file": "it is cut off",
    }.items():
        if sign in message.lower():
            return words
    return "it is damaged, or not CSV with a header"
