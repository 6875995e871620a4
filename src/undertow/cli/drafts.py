"""Drafts of output files: complete on the disk and private before they get their names.

A run that is killed between the record in the ledger and the names is completed by the next one,
which finds the drafts by the entry of the release. Drafts are locked while their process lives.
"""

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from undertow import ledger as checkpoints
from undertow.cli.files import check_output
from undertow.errors import InvalidInput
from undertow.ledger.faults import sync_directory
from undertow.reporting.files import reason

__all__ = ["FOLDER", "Drafts", "abandoned", "check_folder", "clear", "digest", "name_of"]

FOLDER = ".undertow-drafts"
"""The private folder of drafts, removed once it is empty."""

_OWNER_ONLY = 0o077
"""The permissions of group and others."""


def name_of(entry: str | None, output: Path) -> str:
    """Return the name of the drafts of a release, from its entry, or else from its output.

    >>> name_of("ab" * 32, Path("out.csv"))
    'release-abababababababababababababababab'
    """
    if entry is not None:
        return f"release-{entry[:32]}"
    return f"unaccounted-{hashlib.sha256(output.name.encode()).hexdigest()[:32]}"


def digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def check_folder(beside: Path) -> None:
    """Refuse a place where the folder of drafts belongs to somebody else."""
    folder = beside.parent / FOLDER
    try:
        status = folder.lstat()
    except OSError:
        return  # it does not exist, or writing to it will raise
    if not stat.S_ISDIR(status.st_mode) or (os.name == "posix" and status.st_uid != os.geteuid()):
        raise InvalidInput(
            f"{folder} is not a folder of your own, so drafts in it could be read by others; "
            "remove it, or write elsewhere"
        )


def abandoned(places: Iterable[Path], name: str) -> Iterator[Path]:
    """Yield the drafts of that name beside some places that no living process locks."""
    for folder in dict.fromkeys(path.parent / FOLDER for path in places):
        with suppress(OSError):
            for draft in sorted(folder.glob(f"{name}-*")):
                if _is_free(draft):
                    yield draft


def clear(places: Iterable[Path], name: str) -> None:
    """Remove the abandoned drafts of that name, and empty folders."""
    for folder in dict.fromkeys(path.parent / FOLDER for path in places):
        with suppress(OSError):
            for draft in folder.glob(f"{name}-*"):
                _is_free(draft, remove=True)
        _remove_empty(folder)


@dataclass(slots=True)
class Drafts:
    """Files that are complete on the disk and private; `publish` gives them their names.

    Unpublished drafts are removed, except with ``keep``: the release may be recorded by then, and
    the same command publishes them.
    """

    name: str
    force: bool
    keep: bool = False
    _drafts: list[tuple[Path, Path, int | None]] = field(default_factory=list)

    def __enter__(self) -> "Drafts":
        return self

    def __exit__(self, *_: object) -> None:
        """Remove unpublished drafts, or with ``keep`` only unlock them."""
        for draft, _path, handle in self._drafts:
            if not self.keep:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
            _close(handle)
            _remove_empty(draft.parent)
        self._drafts.clear()

    def write(self, path: Path, content: bytes) -> str:
        """Write a private draft of a file, force it to the disk, and return its SHA-256."""
        self.compose(path, lambda file: file.write(content))
        return hashlib.sha256(content).hexdigest()

    def compose(self, path: Path, write: Callable[[IO[bytes]], object]) -> str:
        """Let a function write a private draft, force it to the disk, and return its SHA-256."""
        check_output(path, force=self.force)
        checkpoints.reached("draft-begun")
        try:
            draft, handle = _created(path.parent / FOLDER, self.name)
            self._drafts.append((draft, path, handle))
            with os.fdopen(handle, "wb", closefd=False) as file:
                write(file)
                file.flush()
                os.fsync(handle)
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {reason(error)}") from error
        checkpoints.reached("draft-written")
        return digest(draft) or ""

    def adopt(self, draft: Path, path: Path) -> None:
        """Add an abandoned draft, to be published with the others."""
        self._drafts.append((draft, path, None))

    def settle(self) -> None:
        """Make the names of all drafts durable, and the names of their folders."""
        for folder in dict.fromkeys(draft.parent for draft, _, _ in self._drafts):
            for one in (folder, folder.parent):
                try:
                    sync_directory(one)
                except OSError as error:
                    raise InvalidInput(f"cannot write to {one}: {reason(error)}") from error

    def publish(self) -> None:
        """Give every draft its name, and the permissions of a new file."""
        while self._drafts:
            draft, path, handle = self._drafts[0]
            checkpoints.reached("publish-begun")
            try:
                check_output(path, force=self.force)
                draft.chmod(0o666 & ~_umask())
                os.replace(draft, path)  # noqa: PTH105  (one call, one name: what a test fails)
            except (OSError, InvalidInput) as error:
                raise self._unpublished(path, error) from error
            checkpoints.reached("publish-named")
            self._drafts.pop(0)
            _close(handle)
            _remove_empty(draft.parent)

    def _unpublished(self, path: Path, error: OSError | InvalidInput) -> InvalidInput:
        """Return the error of a draft that cannot be renamed."""
        cause = str(error)
        if isinstance(error, OSError):
            cause = f"cannot write {path}: {reason(error)}"
        if not self.keep:
            return InvalidInput(cause)
        return InvalidInput(
            f"{cause}; the release is recorded, and its outputs are kept: the same command "
            "publishes them once that is fixed, and spends nothing"
        )


def _created(folder: Path, name: str) -> tuple[Path, int]:
    """Return a new empty draft, private and locked, and its handle."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    for _ in range(9):  # another run may remove an empty folder or draft between two steps
        _make_private(folder)
        draft = folder / f"{name}-{secrets.token_hex(6)}"
        try:
            handle = os.open(draft, flags | getattr(os, "O_BINARY", 0), 0o600)
        except FileNotFoundError:
            continue
        if hasattr(os, "fchmod"):
            os.fchmod(handle, 0o600)  # whatever the umask
        _lock(handle, wait=True)
        if os.fstat(handle).st_nlink:
            return draft, handle
        os.close(handle)
    raise InvalidInput(f"{folder} is removed repeatedly; another run may be using it")


def _make_private(folder: Path) -> None:
    """Create the folder of drafts, and check that it is a directory, ours, and closed to others."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    check_folder(folder)
    if os.name == "posix":
        folder.chmod(0o700)  # whatever the umask
        if stat.S_IMODE(folder.lstat().st_mode) & _OWNER_ONLY:
            raise InvalidInput(
                f"{folder} cannot be closed to others on this disk, and drafts must be; write the "
                "output elsewhere"
            )


def _remove_empty(folder: Path) -> None:
    """Remove the folder if it is empty."""
    with suppress(OSError):
        folder.rmdir()


def _is_free(draft: Path, *, remove: bool = False) -> bool:
    """Tell whether no living process locks a draft; with ``remove`` delete it under the lock."""
    try:
        handle = os.open(draft, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        free = _lock(handle, wait=False)
        if free and remove:
            with suppress(OSError):
                draft.unlink()
        return free
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Lock an open file until it is closed, by this process or by its end."""
    try:
        import fcntl
    except ImportError:  # then every draft counts as abandoned
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _close(handle: int | None) -> None:
    if handle is not None:
        with suppress(OSError):
            os.close(handle)


def _umask() -> int:
    """Return the umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
