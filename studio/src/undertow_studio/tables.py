"""Tables of private records: which column is what, and the private folder of uploaded ones.

Only its owner can enter the folder, and it is removed at the end. A run that is killed cannot do
that, so every folder holds a file that its run keeps locked: the next run removes the folders of
this user whose lock is free.
"""

import html
import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from undertow.cli.options import read_cell, read_state
from undertow.errors import InvalidInput, UndertowError
from undertow.files import create_new

if TYPE_CHECKING:
    from undertow import Data

__all__ = [
    "Folder",
    "PrivateTable",
    "Reading",
    "columns_of",
    "file_argument",
    "guess",
    "naming",
    "onwards",
    "option_text",
    "python_text",
    "sweep",
]


@dataclass(frozen=True, slots=True)
class PrivateTable:
    """A table of private records: where it lies, and what it is called.

    ``simulated`` records come from a random number generator.
    """

    path: Path
    name: str
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The columns of a table: record, person and time; the rule for states and their names.

    >>> reading = Reading(value="steps", state="steps > 0", states=("idle", "active"))
    >>> print(reading.options("fit"))
    --value steps --state 'steps > 0' --states idle,active
    """

    value: str | None = None
    person: str | None = None
    time: str | None = None
    every: str | None = None
    state: str | None = None
    states: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a table that nothing is known of."""
        if self.value is None and self.state is None:
            raise InvalidInput("say which column holds the records")
        if self.every is not None and self.time is None:
            raise InvalidInput("a step of time needs the column of times")

    def open(self, source: PrivateTable) -> "Data":
        """Return the data; reads names and types of the columns, no record."""
        from undertow import Data

        return Data(source.path, **self.arguments())

    def arguments(self) -> dict[str, Any]:
        """Return what `Data` is told, as it was typed."""
        options: dict[str, Any] = {"value": self.value, "person": self.person, "time": self.time}
        every = None if self.every is None else read_cell(self.every)
        options |= {"state": read_state(self.state), "every": every}
        return {name: text for name, text in options.items() if text is not None}

    def options(self, command: str) -> str:
        """Return the options of a command that reads the table; a fit also names the states."""
        parts = []
        for one in fields(self):
            text = getattr(self, one.name)
            if one.name == "states":
                text = ",".join(text) if command == "fit" else ""
            if text:
                parts.append(option_text(one.name, text))
        return " ".join(parts)

    def python(self, name: str) -> str:
        """Return the Python that opens the table."""
        options = "".join(f", {key}={python_text(text)}" for key, text in self.arguments().items())
        return f"data = ut.Data({python_text(name)}{options})"


@contextmanager
def naming(source: PrivateTable) -> Iterator[None]:
    """Replace the path of a table by its name in errors: the folder of uploads is not shown."""
    try:
        yield
    except UndertowError as error:
        message = str(error).replace(str(source.path), source.name)
        raise InvalidInput(message) from None


def columns_of(source: PrivateTable) -> dict[str, str]:
    """Return the names and types of the columns of a table, which are public."""
    from undertow.data.readers.sources import column_names

    with naming(source):
        return column_names(source.path)


def guess(columns: Mapping[str, str]) -> dict[str, str]:
    """Return which column is probably what, by their names.

    >>> guess({"id": "Int64", "when": "Datetime", "steps": "Int64"})
    {'person': 'id', 'time': 'when', 'value': 'steps'}
    """
    hints = {
        "person": ("person", "id", "subject", "user", "participant", "who", "name"),
        "time": ("time", "date", "when", "ts", "timestamp", "datetime"),
    }
    roles: dict[str, str] = {}
    for role, words in hints.items():
        for name, kind in columns.items():
            alike = name.lower().rstrip("_0123456789") in words or name.lower().endswith(
                tuple(f"_{word}" for word in words)
            )
            if alike or (role == "time" and "time" in kind.lower()):
                roles.setdefault(role, name)
    rest = [name for name in columns if name not in roles.values()]
    return roles | ({"value": rest[0]} if rest else {})


def file_argument(name: str) -> str:
    """Return the name of a file as a command takes it: quoted, and never read as an option.

    >>> print(file_argument("-rf.csv"), file_argument("my week.csv"), file_argument("week.csv"))
    ./-rf.csv 'my week.csv' week.csv
    """
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def option_text(name: str, text: str) -> str:
    """Return an option with its value, quoted; a value that looks like an option is tied to it.

    >>> print(option_text("value", "steps a day"), option_text("value", "-x"))
    --value 'steps a day' --value=-x
    """
    return f"--{name}{'=' if text.startswith('-') else ' '}{shlex.quote(text)}"


def python_text(value: Any) -> str:
    """Return a value as Python is written, texts in double quotation marks where that is plain.

    >>> print(python_text("steps > 0"), python_text(0.5))
    "steps > 0" 0.5
    """
    if isinstance(value, str) and value.isprintable() and not set('"\\') & set(value):
        return f'"{value}"'
    return repr(value)


ENDINGS = (".csv", ".csv.gz", ".parquet")
"""What the name of a table may end in."""

_PREFIX, _NEW = "undertow-studio-", "undertow-new-"
_LOCK, _DOOR = ".running", "open.html"
_LONGEST = 120
"""Letters of a file's name that are kept."""


class Folder:
    """A folder of mode 0700 whose files have mode 0600; `remove` deletes it."""

    def __init__(self) -> None:
        # locked before it has the name by which it could be swept
        folder = Path(tempfile.mkdtemp(prefix=_NEW))
        self._lock: int | None = create_new(folder / _LOCK)
        _locked(self._lock)
        self.path = folder.with_name(_PREFIX + folder.name.removeprefix(_NEW))
        folder.rename(self.path)

    def door(self, address: str) -> Path:
        """Return a page that leads to an address which nobody else may learn.

        A browser is given its name in place of the address: every user of a machine can read the
        arguments of a process, and nobody else this file.
        """
        path = self.path / _DOOR
        with os.fdopen(create_new(path), "w", encoding="utf-8") as file:
            file.write(onwards(address))
        return path

    def close_door(self) -> None:
        """Remove the page that leads to the first address: it has been opened."""
        (self.path / _DOOR).unlink(missing_ok=True)

    async def keep(self, name: str, chunks: AsyncIterator[bytes]) -> PrivateTable:
        """Return the table that arrives in pieces, written as it comes."""
        path, shown = self.place(name), shown_name(name)
        done = False
        try:
            with os.fdopen(create_new(path), "wb") as file:
                async for chunk in chunks:
                    file.write(chunk)
            done = True
        except OSError as error:
            reason = (error.strerror or "it cannot be written").lower()
            raise InvalidInput(f"{shown} cannot be kept: {reason}") from None
        finally:
            if not done:
                path.unlink(missing_ok=True)
        return PrivateTable(path, shown)

    def write(self, name: str, text: str, *, simulated: bool = False) -> PrivateTable:
        """Return a small table, written at once."""
        path = self.place(name)
        with os.fdopen(create_new(path), "w", encoding="utf-8") as file:
            file.write(text)
        return PrivateTable(path, name, simulated)

    def place(self, name: str) -> Path:
        """Return where a table of that name goes: a random name that ends in the same."""
        ending = next((e for e in ENDINGS if name.lower().endswith(e)), None)
        if ending is None:
            raise InvalidInput(
                f"a table is required: a file whose name ends in {', '.join(ENDINGS)}; found "
                f"{shown_name(name)!r}"
            )
        return self.path / f"{token_hex(8)}{ending}"

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        with suppress(OSError):  # the next run sweeps what is left
            _emptied(self.path)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def sweep() -> int:
    """Remove what killed runs of this user left, and return how many folders that were.

    A folder is one of ours if its name and its lock say so, it is no link, it belongs to this user
    and only this user can enter it. Its run is dead if its lock can be taken.
    """
    removed = 0
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # somebody else's, or gone meanwhile
            removed += _swept(path)
    return removed


def _swept(path: Path) -> bool:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        return False
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if not _locked(lock):
            return False
        _emptied(path)
        return True
    finally:
        os.close(lock)


def _emptied(path: Path) -> None:
    """Remove a folder, its lock last: one that is left half empty can still be swept."""
    for entry in path.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()
    (path / _LOCK).unlink()
    path.rmdir()


def _locked(file: int) -> bool:
    """Return whether a lock could be taken: it ends with the process, however that ends."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def onwards(address: str) -> str:
    """Return a page that leads to an address by itself, and by a link."""
    shown = html.escape(address)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>undertow studio</title>'
        f'<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" '
        f'content="0; url={shown}"></head>'
        f'<body><p><a href="{shown}">Open the studio</a></p></body></html>\n'
    )


def shown_name(name: str) -> str:
    """Return the name of a file without its folders, not too long.

    >>> shown_name("week/steps.csv"), shown_name("")
    ('steps.csv', 'a file without a name')
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1].strip()
    return last[-_LONGEST:] if last else "a file without a name"
