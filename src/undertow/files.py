"""New files: made exclusively, written whole, and durable.

Every file that may hold something private is created here: never through a link, never over a file
that is there already, and readable by its owner only unless a mode says otherwise.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from undertow.errors import InvalidInput

__all__ = ["check_writable", "create_new", "reason", "sync_directory", "write_whole"]

_PUBLIC = 0o666
"""Rights of an ordinary new file, less those that the umask takes away."""


def create_new(path: Path, mode: int = 0o600) -> int:
    """Create a file that is not there yet, and return its handle, open for reading and writing.

    Raises `FileExistsError` where the name is taken, also by a link that leads nowhere.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, mode)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, all of it or nothing; what stood there before stays until then.

    The content goes to a new file beside it, is forced to the disk, and then takes the name.
    """
    draft = _beside(path)
    try:
        with os.fdopen(create_new(draft, _PUBLIC), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)  # noqa: PTH105  (one call, one name: what a test makes fail)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {reason(error)}") from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Refuse a place where no new file can be made, by making an empty one and removing it."""
    draft = _beside(path)
    try:
        os.close(create_new(draft, _PUBLIC))
        draft.unlink()
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {reason(error)}") from error


def sync_directory(folder: Path) -> None:
    """Make a new name in a directory durable, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def reason(error: OSError) -> str:
    """Return what the operating system says, in words.

    >>> reason(FileNotFoundError(2, "No such file or directory"))
    'no such file or directory'
    """
    return (error.strerror or str(error)).lower()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}")
