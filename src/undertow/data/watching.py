"""Whether a file is still the one that was opened."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from undertow.errors import InvalidInput

__all__ = ["AllSeen", "Seen", "seen"]

_CHANGED = "changed since it was opened; open it again when it is complete"


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was: the device, number, size and times by which a change shows.

    >>> Seen(Path("no such file"), None).unchanged()
    True
    """

    path: Path
    state: tuple[int, int, int, int, int] | None

    def unchanged(self) -> bool:
        """Return whether the file is still the same, to all that can be seen without reading it."""
        return seen(self.path) == self

    def check(self, said: str = _CHANGED) -> None:
        """Refuse a file that was changed or replaced."""
        if not self.unchanged():
            raise InvalidInput(f"{self.path} {said}")


@dataclass(frozen=True, slots=True)
class AllSeen:
    """The files of one table as they were, and how they are found again."""

    files: tuple[Seen, ...]
    listed: Callable[[], list[Path] | None]

    def check(self) -> None:
        """Refuse a table of which a file was changed, replaced, added or removed."""
        for one in self.files:
            one.check()
        now = self.listed()
        if now is not None and now != [one.path for one in self.files]:
            raise InvalidInput(
                f"the files in {self.files[0].path.parent} changed since they were opened; open "
                "them again when they are complete"
            )


def seen(path: Path) -> Seen:
    """Return a file as it is now; without a state where there is none."""
    try:
        found = path.stat()
    except OSError:
        return Seen(path, None)
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return Seen(path, state)
