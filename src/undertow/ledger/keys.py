"""The key of a release of series, kept from its reservation until it is recorded.

Flips are drawn under a secret key (`undertow.sampling.keyed`). Until a release is recorded, a run
that was interrupted is repeated under the same key, so that the same records give the same
outputs: two draws of the same records could be averaged. Afterwards nobody needs the key, and
whoever had it could undo the flips: it is overwritten and removed, by a process that was killed
before it could whenever the ledger is opened next.

The file lies outside the ledger, whose events are for good: in a folder of mode 0700 beside the
memory of ledgers, itself of mode 0600. It holds the secret and whose it is. A file that others
could have read or written, or that is not whole, is never used: another key takes its place.
"""

import hashlib
import json
import os
import secrets
import stat
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from undertow import ledger as checkpoints
from undertow.errors import AccountWarning, InvalidInput, LedgerConflict
from undertow.files import create_new, sync_directory
from undertow.sampling.keyed import Key

__all__ = ["Keys", "released"]

_FORMAT = "undertow-key-1"
_OTHERS = 0o077
"""Permission bits of group and others."""
_TRIES = 16
"""Attempts to read a key while other processes add and remove theirs."""
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_told: set[str] = set()


def released(release_id: str) -> LedgerConflict:
    """Return the refusal of a second draw.

    >>> str(released("week 1"))[:38]
    "the release 'week 1' was made already,"
    """
    return LedgerConflict(
        f"the release {release_id!r} was made already, and a second draw would be a second "
        "release of the same records; use the outputs that were written then, or pay for a new "
        "release under another release_id"
    )


class Keys:
    """Key files in a folder, one for each release that is not recorded yet; None: none are kept.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> keys = Keys(Path(folder.name) / "keys")
    >>> one, again = (keys.held("a3", "w25", "week 1").exported() for _ in range(2))
    >>> keys.forget("a3", "w25", "week 1")
    >>> one == again, one == keys.held("a3", "w25", "week 1").exported()
    (True, False)
    >>> folder.cleanup()
    """

    def __init__(self, folder: Path | None) -> None:
        """Say where; nothing is made yet."""
        self._folder = folder

    def held(self, ledger: str, dataset: str, release_id: str) -> Key:
        """Return the key of a release, made by whoever asks first; on disk before this returns.

        Where it cannot be kept, warn once and return one that lasts as long as the caller.
        """
        if self._folder is None:
            return Key.fresh()
        whose = [ledger, dataset, release_id]
        path = self._folder / _name(whose)
        try:
            _own_folder(self._folder)
            for _ in range(_TRIES):
                key = _read(path)
                if key is not None and key[0] == whose:
                    return key[1]
                if path.is_symlink() or path.exists():  # damaged, foreign, or open to others
                    _wipe(path)
                _put(path, whose)
        except OSError:
            pass
        _tell(
            self._folder,
            "the key of a release cannot be kept until the release is recorded: a run that is "
            "repeated draws anew",
        )
        return Key.fresh()

    def any(self) -> bool:
        """Return whether there is a key, or what was left of making one."""
        return self._folder is not None and any(self._folder.glob("*.key*"))

    def kept(self, ledger: str) -> set[tuple[str, str]]:
        """Return the data sets and releases of a ledger of which there are keys, or drafts."""
        if self._folder is None:
            return set()
        owners = [one[0] for path in self._folder.glob("*.key*") if (one := _read(path))]
        return {(dataset, name) for where, dataset, name in owners if where == ledger}

    def forget_wiped(self) -> None:
        """Remove files that were overwritten by a process that was killed before it removed them.

        A key that is being made is never all zeros: it is empty, or holds its secret.
        """
        for path in [] if self._folder is None else self._folder.glob("*.key*"):
            with suppress(OSError):
                content = path.read_bytes() if path.is_file() else b""
                if content and not any(content):
                    path.unlink()

    def forget(self, ledger: str, dataset: str, release_id: str) -> None:
        """Overwrite and remove the key of a release, and what was left of making it."""
        if self._folder is None:
            return
        try:
            for path in self._folder.glob(f"{_name([ledger, dataset, release_id])}*"):
                _wipe(path)
        except OSError:
            _tell(
                self._folder,
                "the key of a recorded release cannot be removed, and who reads it can undo the "
                "flips: remove it by hand",
            )


def _name(whose: list[str]) -> str:
    text = json.dumps(whose, separators=(",", ":")).encode("ascii")
    return f"{hashlib.sha256(text).hexdigest()[:32]}.key"


def _content(whose: list[str], secret: str) -> dict[str, Any]:
    """Return what a key file holds; the hash is of the rest, and tells whether it is whole."""
    rest = json.dumps([_FORMAT, whose, secret])
    return {
        "format": _FORMAT,
        "release": whose,
        "secret": secret,
        "sha256": hashlib.sha256(rest.encode()).hexdigest(),
    }


def _own_folder(folder: Path) -> None:
    """Make the folder, or close it to others; raise OSError if it is not ours to close."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or not _own(status):
        raise PermissionError
    if os.name == "posix" and stat.S_IMODE(status.st_mode) != stat.S_IRWXU:
        folder.chmod(stat.S_IRWXU)


def _own(status: os.stat_result) -> bool:
    return os.name != "posix" or status.st_uid == os.geteuid()


def _read(path: Path) -> tuple[list[str], Key] | None:
    """Return whose key a file holds, and the key; None if there is none that can be trusted."""
    try:
        handle = os.open(path, os.O_RDONLY | _NO_LINKS)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        closed = os.name != "posix" or not stat.S_IMODE(status.st_mode) & _OTHERS
        if not (stat.S_ISREG(status.st_mode) and _own(status) and closed):
            return None
        try:
            held = json.load(file)
            whose, secret = held["release"], held["secret"]
            if held == _content(whose, secret) and [*map(type, whose)] == [str] * 3:
                return whose, Key(bytes.fromhex(secret))
        except (ValueError, KeyError, TypeError, RecursionError, InvalidInput):  # damaged
            pass
    return None


def _put(path: Path, whose: list[str]) -> None:
    """Create a key file, whole or not at all, unless another process created it first."""
    content = json.dumps(_content(whose, Key.fresh().exported().hex())).encode()
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = create_new(draft)
    try:
        with os.fdopen(handle, "wb") as file:
            checkpoints.reached("hold-begun")
            if os.name == "posix":
                os.fchmod(handle, stat.S_IRUSR | stat.S_IWUSR)  # whatever the mask takes away
            file.write(content)
            file.flush()
            os.fsync(handle)
        checkpoints.reached("hold-written")
        with suppress(FileExistsError, FileNotFoundError):  # or both were just removed
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)  # the key keeps its other name
    sync_directory(path.parent)
    checkpoints.reached("hold-committed")


def _wipe(path: Path) -> None:
    """Overwrite a file of ours and remove it; of anything else remove the name alone."""
    checkpoints.reached("wipe-begun")
    with suppress(OSError):
        handle = os.open(path, os.O_WRONLY | _NO_LINKS)
        with os.fdopen(handle, "wb") as file:
            status = os.fstat(handle)
            if stat.S_ISREG(status.st_mode) and _own(status):
                file.write(bytes(status.st_size))
                file.flush()
                os.fsync(handle)
    checkpoints.reached("wipe-written")
    path.unlink(missing_ok=True)
    sync_directory(path.parent)
    checkpoints.reached("wipe-committed")


def _tell(folder: Path, what: str) -> None:
    """Warn once of each thing about each folder."""
    if f"{folder} {what}" not in _told:
        _told.add(f"{folder} {what}")
        warnings.warn(
            f"{what}; the folder is {folder.name}, beside the memory of ledgers: name one of yours "
            "in UNDERTOW_STATE",
            AccountWarning,
            stacklevel=4,
        )
