"""Drafts of outputs: complete on the disk and private before a release is recorded.

A draft is a file, or a folder that a cluster writes, in a private folder beside its place. It is
locked while its process lives, so that the next run removes what a killed one has left, and
publishes what a killed one had recorded. Publishing gives a draft its name, whole and at once.
"""

import hashlib
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from undertow import ledger as checkpoints
from undertow.errors import InvalidInput
from undertow.files import create_new, reason, sync_directory

__all__ = ["FOLDER", "Drafts", "abandoned", "check_folder", "clear", "digest"]

FOLDER = ".undertow-drafts"
"""The private folder; it is there only while there are drafts in it."""

_LOCK = ".lock"
"""Suffix of the lock file of a folder."""
_OWNER_ONLY = 0o077
"""Permission bits of group and others."""


def digest(path: Path) -> str | None:
    """Return the SHA-256 of a file, None where there is none that can be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def check_folder(beside: Path) -> None:
    """Refuse a place beside which drafts could not be kept from others."""
    _check_own(beside.parent / FOLDER)


def abandoned(places: Iterable[Path], name: str) -> Iterator[Path]:
    """Yield the drafts of that name beside some places which no living process holds."""
    for folder in dict.fromkeys(path.parent / FOLDER for path in places):
        with suppress(OSError):
            for draft in sorted(folder.glob(f"{name}-*")):
                if draft.suffix != _LOCK and _is_free(draft):
                    yield draft


def clear(places: Iterable[Path], name: str) -> None:
    """Remove the abandoned drafts of that name, and folders that are empty then."""
    for folder in dict.fromkeys(path.parent / FOLDER for path in places):
        with suppress(OSError):
            for draft in sorted(folder.glob(f"{name}-*")):  # a folder before its lock
                _is_free(draft, remove=True)
        _remove_empty(folder)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A draft, its place, and the handle that locks it (None: another run has made it)."""

    path: Path
    target: Path
    handle: int | None

    def remove(self) -> None:
        """Remove what is written, and the lock last."""
        shutil.rmtree(self.path, ignore_errors=True)
        for path in (self.path, self.path.with_suffix(_LOCK)):
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def release(self) -> None:
        """Let go of the lock."""
        if self.handle is not None:
            with suppress(OSError):
                os.close(self.handle)
        _remove_empty(self.path.parent)


@dataclass(slots=True)
class Drafts:
    """Drafts that get their names together: a context that removes what was not published.

    With ``keep`` they stay: a release may be recorded by then, and the same command publishes them.
    ``check`` refuses a place that must not be written, before a draft is made and when it is named.
    """

    name: str
    check: Callable[[Path], None]
    keep: bool = False
    _drafts: list[_Draft] = field(default_factory=list)

    def __enter__(self) -> "Drafts":
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was not published, or only let go of it."""
        for draft in self._drafts:
            if not self.keep:
                draft.remove()
            draft.release()
        self._drafts.clear()

    def write(self, path: Path, content: bytes) -> str:
        """Write a private draft of a file, force it to the disk, and return its SHA-256."""
        self.compose(path, lambda file: file.write(content))
        return hashlib.sha256(content).hexdigest()

    def compose(self, path: Path, write: Callable[[IO[bytes]], object]) -> str:
        """Have a private draft of a file written, force it to the disk, and return its SHA-256."""
        draft, handle = self._begin(path)
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:
                write(file)
                file.flush()
                os.fsync(handle)
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {reason(error)}") from error
        checkpoints.reached("draft-written")
        return digest(draft) or ""

    def folder(self, path: Path) -> Path:
        """Return the place of a private draft of a folder, which a cluster makes and fills."""
        return self._begin(path, _LOCK)[0]

    def adopt(self, draft: Path, path: Path) -> None:
        """Take over a draft that was left behind; it is published with the others."""
        self._drafts.append(_Draft(draft, path, None))

    def settle(self) -> None:
        """Make all drafts and their names durable; marks beside a cluster's Parquet go."""
        for draft in self._drafts:
            try:
                if draft.path.is_dir():
                    _settle_folder(draft.path)
                for folder in (draft.path.parent, draft.path.parent.parent):
                    sync_directory(folder)
            except OSError as error:
                raise InvalidInput(f"cannot write {draft.target}: {reason(error)}") from error

    def publish(self) -> None:
        """Give every draft its name, and a file the rights that a new file has."""
        while self._drafts:
            draft = self._drafts[0]
            checkpoints.reached("publish-begun")
            try:
                self.check(draft.target)
                if not draft.path.is_dir():
                    draft.path.chmod(0o666 & ~_umask())
                os.replace(draft.path, draft.target)  # noqa: PTH105  (what a test makes fail)
                if draft.target.is_dir():
                    sync_directory(draft.target.parent)
            except (OSError, InvalidInput) as error:
                raise self._stranded(draft.target, error) from error
            checkpoints.reached("publish-named")
            self._drafts.pop(0)
            draft.remove()  # the lock of a folder
            draft.release()

    def _begin(self, path: Path, suffix: str = "") -> tuple[Path, int]:
        """Return the place of a new draft, and the handle of its file, or of its lock."""
        self.check(path)
        checkpoints.reached("draft-begun")
        try:
            file, handle = _created(path.parent / FOLDER, self.name, suffix)
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {reason(error)}") from error
        draft = file.with_suffix("") if suffix else file
        self._drafts.append(_Draft(draft, path, handle))
        return draft, handle

    def _stranded(self, path: Path, error: OSError | InvalidInput) -> InvalidInput:
        """Return the error of a draft that cannot get its name."""
        text = f"cannot write {path}: {reason(error)}" if isinstance(error, OSError) else str(error)
        if not self.keep:
            return InvalidInput(text)
        return InvalidInput(
            f"{text}; the release is recorded, and its outputs are kept: the same command "
            "publishes them when that is put right, and spends nothing"
        )


def _created(folder: Path, name: str, suffix: str) -> tuple[Path, int]:
    """Return a new empty file among the drafts, private and locked, and its handle."""
    for _ in range(9):  # another run may remove an empty folder or draft between two steps
        _make_private(folder)
        file = folder / f"{name}-{secrets.token_hex(6)}{suffix}"
        try:
            handle = create_new(file)
        except FileNotFoundError:
            continue
        if sys.platform != "win32":
            os.fchmod(handle, 0o600)  # whatever the umask
        _lock(handle, wait=True)
        if os.fstat(handle).st_nlink:
            return file, handle
        os.close(handle)
    raise InvalidInput(f"{folder} is removed again and again; is another run at work there?")


def _settle_folder(folder: Path) -> None:
    """Bring the Parquet files of a folder to the disk, and remove all else in it."""
    for path in sorted(folder.iterdir()):
        if path.suffix != ".parquet":
            path.unlink()
            continue
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sync_directory(folder)


def _make_private(folder: Path) -> None:
    """Make the folder, or make sure of it: a real one, ours, and closed to everyone else."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    _check_own(folder)
    if os.name == "posix":
        folder.chmod(0o700)  # whatever the umask
        if stat.S_IMODE(folder.lstat().st_mode) & _OWNER_ONLY:
            raise InvalidInput(
                f"{folder} cannot be closed to others on this disk, and drafts must be; write the "
                "output elsewhere"
            )


def _check_own(folder: Path) -> None:
    """Refuse a folder of drafts that is no real folder of this user."""
    try:
        status = folder.lstat()
    except OSError:
        return  # it is not there, or whoever writes says why not
    if not stat.S_ISDIR(status.st_mode) or (os.name == "posix" and status.st_uid != os.geteuid()):
        raise InvalidInput(
            f"{folder} is not a folder of your own, so drafts in it could be read by others; "
            "remove it, or write elsewhere"
        )


def _remove_empty(folder: Path) -> None:
    """Remove the folder if nothing is in it."""
    with suppress(OSError):
        folder.rmdir()


def _is_free(draft: Path, *, remove: bool = False) -> bool:
    """Return whether no living process holds a draft; remove it under the lock if wanted."""
    lock = draft.with_suffix(_LOCK)
    try:
        held = lock if lock.exists() else draft
        handle = os.open(held, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        free = _lock(handle, wait=False)
        if free and remove:
            _Draft(draft, draft, None).remove()
        return free
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    """Lock an open file until it is closed; the system does that for whoever is killed."""
    try:
        import fcntl
    except ImportError:  # then every draft counts as left behind
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _umask() -> int:
    """Return which rights new files lack; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
