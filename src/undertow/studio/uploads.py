"""A private folder of this run: uploaded tables, simulated ones, a demonstration's ledger.

Only its owner can enter it, and it is removed at the end.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

from undertow.errors import InvalidInput
from undertow.studio.reading import PrivateTable

__all__ = ["Folder"]

ENDINGS = (".csv", ".csv.gz", ".parquet")
"""What the name of a table may end in."""

_LONGEST = 120
"""Letters of a file's name that are kept."""


class Folder:
    """A folder of mode 0700 whose files have mode 0600; `remove` takes all of it away."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="undertow-studio-"))

    async def keep(self, name: str, chunks: AsyncIterator[bytes]) -> PrivateTable:
        """Return the table that arrives in pieces, written as it comes."""
        path, shown = self.place(name), shown_name(name)
        done = False
        try:
            with open(_created(path), "wb") as file:
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
        with open(_created(path), "w", encoding="utf-8") as file:
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
        shutil.rmtree(self.path, ignore_errors=True)


def shown_name(name: str) -> str:
    """Return the name of a file without its folders, not too long.

    >>> shown_name("week/steps.csv"), shown_name("")
    ('steps.csv', 'a file without a name')
    """
    last = name.replace("\\", "/").rsplit("/", 1)[-1].strip()
    return last[-_LONGEST:] if last else "a file without a name"


def _created(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
