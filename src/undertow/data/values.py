"""Which states records have where nobody has named them: the values that occur, in order."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from undertow.data.folds import CODE
from undertow.data.grid import THERE
from undertow.data.sql import NUMBER, TEXT, TRUTH
from undertow.errors import InvalidInput
from undertow.models.sequences import MISSING, MOST_STATES
from undertow.queries import State

if TYPE_CHECKING:
    import polars as pl

    from undertow.data.table import Data

__all__ = ["Values", "named_or_made", "places_of", "too_many_values"]

Ints = npt.NDArray[np.int64]


def named_or_made(
    data: "Data", states: tuple[State, ...] | None
) -> "tuple[Sequence[State] | None, list[pl.Expr]]":
    """Return the states that are named or follow from bins and mappings, None where values say.

    With them: the columns that a row needs for the number of its state, or for its value.
    """
    record = data.record
    names: Sequence[State] | None = states
    if states is None and record.cuts:
        names = range(len(record.cuts) + 1)
    elif states is None and record.mapping:
        names = list(dict.fromkeys(name for _, name in record.mapping if name is not None))
    if data.grid.fill and states is not None and data.gaps not in states:
        raise InvalidInput(f"gaps have the state {data.gaps!r}, which is not among {states}")
    if names is not None:
        return names, [record.positions(names, named=True).alias(CODE)]
    return None, [part.alias(f"\0{plane}") for plane, part in record.planes.items()]


def places_of(rows: "pl.DataFrame") -> Ints:
    """Return the number of each record's state, `MISSING` for none."""
    return _filled(rows[CODE])


def too_many_values() -> InvalidInput:
    """Return the error about records that are measurements."""
    return InvalidInput(
        f"the records have more than {MOST_STATES} different values: measurements, not states; "
        "make states of them with state=..., an expression or cut points"
    )


class Values:
    """The values that occur, and the place of each record's among them.

    Records are truth values, whole numbers, numbers or texts; fields of a CSV file, which have
    both readings, are numbers if all of them are. Numbers come before texts. A fold: rows have the
    columns of `named_or_made` and `THERE`, and may come in pieces.
    """

    def __init__(self, data: "Data", most: int | None = None) -> None:
        self.data, self.most = data, most
        self._truths: set[bool] = set()
        # numbers without and with a text beside them, and texts; a text that is no number
        self._numbers: tuple[Ints | Any, Ints | Any] = (np.empty(0), np.empty(0))
        self._texts: set[str] = set()
        self._worded = False

    def feed(self, rows: "pl.DataFrame") -> None:
        """Take the values of the next rows."""
        made, there = self._planes(rows), rows[THERE]
        if list(made) == [TRUTH]:
            self._truths |= set(made[TRUTH].filter(there).drop_nulls().unique())
            return
        number, text = self._both(made, rows.height)
        real = number.filter(there & number.is_finite() & text.is_null()).drop_nulls()
        beside = number.filter(there & number.is_finite() & text.is_not_null()).drop_nulls()
        self._numbers = tuple(  # type: ignore[assignment]
            np.unique(np.concatenate([old, new.unique().to_numpy() + 0.0]))
            for old, new in zip(self._numbers, (real, beside), strict=True)
        )
        self._worded |= bool((there & text.is_not_null() & number.is_null()).any())
        if self.most is None or len(self._texts) <= self.most:
            self._texts |= set(text.filter(there).drop_nulls().unique())
        if self.most is not None and len(self.names()) > self.most:
            raise too_many_values()

    def merge(self, other: "Values") -> None:
        """Take over the values of other rows."""
        self._truths |= other._truths
        self._numbers = tuple(  # type: ignore[assignment]
            np.union1d(*pair) for pair in zip(self._numbers, other._numbers, strict=True)
        )
        self._texts |= other._texts
        self._worded |= other._worded

    def state(self) -> list[Any]:
        """Return the values, by how they are read."""
        return [sorted(self._truths), *self._numbers, sorted(self._texts), self._worded]

    def load(self, state: list[Any]) -> "Values":
        """Return the fold that has these values."""
        made = Values(self.data, self.most)
        made._truths, made._texts, made._worded = set(state[0]), set(state[3]), state[4]
        made._numbers = (np.asarray(state[1]), np.asarray(state[2]))
        return made

    def names(self) -> list[State]:
        """Return the states: the values in order, and that of absent steps."""
        seen: list[State] = [*sorted(self._truths)]
        if not seen:
            plain = (int(n) if float(n).is_integer() else float(n) for n in self._values())
            seen = [*plain, *self._words()]
        if self.data.grid.fill and self.data.gaps not in seen:
            seen.append(self.data.gaps)  # only absent steps are in this state
        return seen

    def codes(self, rows: "pl.DataFrame") -> Ints:
        """Return the place of each record among the names, `MISSING` for none."""
        import polars as pl

        made, there = self._planes(rows), rows[THERE]
        if list(made) == [TRUTH]:
            code = pl.select(pl.when(there).then(made[TRUTH].cast(pl.Int64))).to_series()
            # one value alone is the first of one
            return _filled(code if len(self._truths) > 1 else code * 0)
        number, text = self._both(made, rows.height)
        told = there & number.is_finite() & (text.is_null() | (not self._worded))
        number = pl.select(pl.when(told).then(number + 0.0)).to_series()
        values, words = self._values(), self._words()
        codes = np.where(
            number.is_null().to_numpy(),
            MISSING,
            np.searchsorted(values, number.fill_null(0.0).to_numpy()),
        )
        if words:
            known = text.cast(pl.Enum(words), strict=False).to_physical().cast(pl.Int64)
            place = _filled(pl.select(pl.when(there).then(known)).to_series())
            codes = np.where(place == MISSING, codes, place + values.size)
        return codes.astype(np.int64)

    def _values(self) -> Any:
        return self._numbers[0] if self._worded else np.union1d(*self._numbers)

    def _words(self) -> list[str]:
        return sorted(self._texts) if self._worded else []

    @staticmethod
    def _planes(rows: "pl.DataFrame") -> "dict[str, pl.Series]":
        return {p: rows[f"\0{p}"] for p in (NUMBER, TEXT, TRUTH) if f"\0{p}" in rows.columns}

    @staticmethod
    def _both(made: "dict[str, pl.Series]", height: int) -> "tuple[pl.Series, pl.Series]":
        """Return the readings as numbers and as texts, null where there are none."""
        import polars as pl

        nothing = pl.Series([None] * height, dtype=pl.Float64)
        text = made.get(TEXT, nothing.cast(pl.String))
        return made.get(NUMBER, nothing), text.cast(pl.String)


def _filled(codes: "pl.Series") -> Ints:
    return codes.fill_null(MISSING).to_numpy().astype(np.int64)
