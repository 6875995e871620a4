"""Whether rows are in order: each person's together, and in order of time.

A table that is read in pieces is read once. What is not in order cannot be put in order then, and
is refused, by column and row.
"""

import hashlib
import secrets
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from undertow.data.grid import PERSON, ROW, TIME, Grid
from undertow.errors import InvalidInput

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PERSON_BYTES", "Order"]

PERSON_BYTES = 24
"""Bytes in which a person is remembered: a hash of 128 bits, and a row."""

_SORT = (
    "a table that is read in pieces must be sorted by person and time: sort it, or allow more "
    "memory (memory=..., --memory)"
)


class Order:
    """Rows that come in pieces, checked: each person's follow each other, in order of time.

    ``most`` bounds the bytes in which persons are remembered. Equal times, and rows without person
    or time, are not refused here: they are among the facts. Raises `InvalidInput` with the column
    and the number of the row.
    """

    def __init__(self, grid: Grid, *, most: int | None = None) -> None:
        self.grid, self._seen = grid, _PersonsSeen(most)
        self._last: pl.DataFrame | None = None

    def feed(self, rows: "pl.DataFrame") -> None:
        """Check the next rows."""
        import polars as pl

        names = [ROW, PERSON, *([] if self.grid.time is None else [TIME])]
        both = rows.select(names).drop_nulls()  # rows without person or time are told otherwise
        if not both.height:
            return
        both = both if self._last is None else pl.concat([self._last, both])
        person = both[PERSON]
        new = person.ne_missing(person.shift(1))  # (rows,): another person begins
        if self.grid.person is not None:
            own = 0 if self._last is None else 1  # the row before these is none of them
            self._seen.add(both[own:].filter(new[own:]))
        back = None
        if self.grid.time is not None:
            time = both[TIME]
            earlier = ((time < time.shift(1)) & ~new).arg_true()
            back = int(both[ROW][int(earlier[0])]) if earlier.len() else None
        self._last = both[-1:]
        if back is not None:
            self._refuse(self._seen.settle(), back)
        self._refuse(self._seen.again)

    def close(self) -> None:
        """Say that all rows have come; the last persons are looked up."""
        self._refuse(self._seen.settle())

    def _refuse(self, again: int | None, back: int | None = None) -> None:
        """Refuse the first row that is out of order, if there is one."""
        if again is not None and (back is None or again < back):
            raise InvalidInput(
                f"row {again} of column {self.grid.person!r} (counting from 0) goes on with a "
                f"person after rows of others; {_SORT}"
            )
        if back is not None:
            raise InvalidInput(
                f"row {back} of column {self.grid.time!r} (counting from 0) is earlier than a row "
                f"of the same person before it; {_SORT}"
            )


class _PersonsSeen:
    """Persons by keyed hashes of 128 bits, with the row at which the rows of each begin.

    Those that came since are looked up among the others as soon as they are as many: the cost is
    that of sorting all of them, and a person who comes back is told by the first such row.
    """

    def __init__(self, most: int | None) -> None:
        self._key, self._most = secrets.token_bytes(16), most
        self._known: npt.NDArray[np.uint64] = np.empty((0, 3), np.uint64)  # hash, hash, row
        self._new: list[npt.NDArray[np.uint64]] = []
        self._waiting = 0
        self.again: int | None = None

    def add(self, begun: "pl.DataFrame") -> None:
        """Take persons whose rows begin."""
        import polars as pl

        if not begun.height:
            return
        texts = begun[PERSON].cast(pl.String).to_list()
        hashed = b"".join(
            hashlib.blake2b(text.encode(), digest_size=16, key=self._key).digest() for text in texts
        )
        made = np.empty((len(texts), 3), np.uint64)
        made[:, :2] = np.frombuffer(hashed, np.uint64).reshape(-1, 2)
        made[:, 2] = begun[ROW].to_numpy()
        self._new.append(made)
        self._waiting += len(made)
        if self._waiting > max(2**12, len(self._known)):
            self.settle()

    def settle(self) -> int | None:
        """Look up all persons that came; return the first row at which one came back."""
        known = np.concatenate([self._known, *self._new])
        self._new, self._waiting = [], 0
        if self._most is not None and known.nbytes > self._most:
            raise InvalidInput(
                f"there are more than {self._most // PERSON_BYTES} persons, or the rows of persons "
                f"do not follow each other: remembering a person takes {PERSON_BYTES} bytes; allow "
                "more memory (memory=..., --memory), or sort the table by person"
            )
        # (persons, 3), the rows of one hash in order
        self._known = known[np.lexsort((known[:, 2], known[:, 1], known[:, 0]))]
        twice = (self._known[1:, :2] == self._known[:-1, :2]).all(axis=1)
        if twice.any():
            self.again = int(self._known[1:][twice, 2].min())
        return self.again
