"""What can be wrong with a file or a database, in our words."""

from pathlib import Path
from stat import S_ISREG

from undertow.errors import LedgerDamaged, LedgerError, LedgerUnavailable

__all__ = ["file_exists", "refusal"]

_REASONS = {
    "SQLITE_BUSY": "another process has it locked",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it may not be written",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_IOERR": "reading or writing it failed",
    "SQLITE_PERM": "access is denied",
    "22": "it cannot hold this text; use a database in UTF-8",
    "25006": "it may not be written",
    "28": "the log-in was refused",
    "3D": "there is no such database",
    "40": "another process was in the way",
    "42501": "access is denied",
    "53100": "the disk is full",
    "53": "the server is out of resources",
    "55P03": "another process has it locked",
    "57": "the server is shutting down or cut the connection",
}
_DAMAGE = (
    *("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH"),
    *("23", "42", "XX"),
)


def refusal(error: BaseException | None, place: str) -> LedgerError:
    """Return a database's error in our words; its own could quote what was written."""
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None) or ""
    reason = next((text for key, text in _REASONS.items() if code.startswith(key)), None)
    if reason is None and code.startswith(_DAMAGE):
        return LedgerDamaged(
            f"{place} is not a ledger or is damaged ({code}); see verify(), and go back to a copy "
            "that verifies"
        )
    return LedgerUnavailable(
        f"{place} is not available: {reason or 'it cannot be reached'}. When it is, repeat the "
        "release with the same release id: it is charged once"
    )


def file_exists(path: Path, place: str) -> bool:
    """Return whether the file exists, without opening it; refuse what cannot be a ledger.

    An empty file is refused and not filled: it may be what is left of a ledger.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        if path.parent.is_dir():
            return False
        raise LedgerUnavailable(f"{place} cannot be made: its directory does not exist") from None
    except OSError as error:
        raise LedgerUnavailable(f"{place} cannot be reached ({error.strerror})") from None
    if not S_ISREG(status.st_mode):
        raise LedgerUnavailable(f"{place} is a directory or device; name a file")
    if not status.st_size:
        raise LedgerDamaged(
            f"{place} is an empty file, perhaps what is left of a ledger; go back to a copy, or "
            "delete it if nothing was ever released from it"
        )
    return True
