"""A private folder of this run: uploaded tables, simulated ones, a demonstration's ledger.

Only its owner can enter it, and it is removed at the end. A run that is killed cannot do that, so
every folder holds a file that its run keeps locked: the next run removes the folders of this user
whose lock nobody holds any more.
"""

import html
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from undertow.errors import InvalidInput
from undertow.files import create_new
from undertow_studio.reading import PrivateTable

__all__ = ["Folder", "onwards", "sweep"]

ENDINGS = (".csv", ".csv.gz", ".parquet")
"""What the name of a table may end in."""

_PREFIX, _NEW = "undertow-studio-", "undertow-new-"
_LOCK, _DOOR = ".running", "open.html"
_LONGEST = 120
"""Letters of a file's name that are kept."""


class Folder:
    """A folder of mode 0700 whose files have mode 0600; `remove` takes all of it away."""

    def __init__(self) -> None:
        # locked before it has the name by which it could be swept
        made = Path(tempfile.mkdtemp(prefix=_NEW))
        self._lock: int | None = create_new(made / _LOCK)
        _locked(self._lock)
        self.path = made.with_name(_PREFIX + made.name.removeprefix(_NEW))
        made.rename(self.path)

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
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
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
