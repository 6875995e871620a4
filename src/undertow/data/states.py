"""States of rows: the rule that maps a row's values to a state of the plan.

Names match by value and type: ``"1"`` is not 1, 1 is 1.0, and a field of a CSV file, which has no
type, matches a number by its value and a text letter by letter. What matches nothing is foreign:
it is in no state. Whether anything *can* match follows from the types, and is refused if not.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from undertow.data.columns import Column, check_kinds, plain, words
from undertow.data.expressions import NUMBER, TEXT, TRUTH, Planes, columns_of, evaluate
from undertow.errors import InvalidInput
from undertow.queries import Lattice, State

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Record", "as_json", "match", "placed", "record_of"]

_EXACT = 2**53
"""Bound below which floats distinguish all whole numbers."""


@dataclass(frozen=True, slots=True)
class Record:
    """Rule for a row's record: the steps that compute it, and the types it can be read as.

    ``cuts`` are the ends of bins (a number is in the bin of how many are at or below it),
    ``mapping`` pairs of a value and the name it gets. A record that is not ``there`` is missing,
    whatever an expression says. ``kinds`` are the types of values, where these are declared and
    are states as they are.
    """

    words: str
    steps: tuple["pl.Expr", ...]
    planes: Planes
    there: "pl.Expr"
    cuts: tuple[float, ...] = ()
    mapping: tuple[tuple[State, State], ...] = ()
    text: str | None = None
    kinds: frozenset[str] = frozenset()

    def reading(self) -> Any:
        """Return what makes a state of a row as JSON: the expression, cuts, pairs, or None."""
        if self.mapping:
            pairs = [[as_json(value), as_json(name)] for value, name in self.mapping]
            return sorted(pairs, key=json.dumps)
        return list(self.cuts) or self.text

    def added(self, frame: "pl.LazyFrame") -> "pl.LazyFrame":
        """Return the frame with the columns that the record is made of."""
        for step in self.steps:
            frame = frame.with_columns(step)
        return frame

    def positions(self, states: Sequence[State], *, named: bool) -> "pl.Expr":
        """Return the position of each record's state among ``states``, null for none of them.

        ``named`` says that the states are the model's, in order: bins and truth values then go by
        position. Otherwise they go by value: True, False, or the number of the bin.
        """
        import polars as pl

        names = [plain(state) for state in states]
        if self.mapping:
            return self._mapped(names)
        if self.cuts and named and len(names) != len(self.cuts) + 1:
            raise InvalidInput(
                f"{len(self.cuts)} cut points make {len(self.cuts) + 1} bins, and there are "
                f"{len(names)} states; give one state for each bin"
            )
        pairs = [(name, place) for place, name in enumerate(names)]
        if self.cuts:
            bins = self._bins()
            code = bins if named else match({NUMBER: bins.cast(pl.Float64)}, pairs, self.words)
        elif self.made and named and not all(name in (0, 1) for name in names):
            if len(names) != 2:
                raise InvalidInput(
                    f"{self.words} gives a truth value, and there are {len(names)} states; with "
                    "two, the first is false and the second true"
                )
            code = self.planes[TRUTH].cast(pl.Int32)
        else:
            check_kinds(self.kinds, names, self.words)
            code = match(self.planes, pairs, self.words)
        return pl.when(self.there).then(code)

    @property
    def made(self) -> bool:
        """Whether each record is the truth value of an expression."""
        return self.text is not None and set(self.planes) == {TRUTH}

    def numbers(self) -> "pl.Expr":
        """Return the records as numbers, for sums; truth values count as 0 and 1."""
        import polars as pl

        if self.cuts:
            raise InvalidInput(
                "cut points make states, not numbers; to add up, leave state=... out"
            )
        if self.mapping:
            targets = list(dict.fromkeys(name for _, name in self.mapping if name is not None))
            if any(isinstance(name, str) for name in targets):
                raise InvalidInput("the mapping gives names, and only numbers can be added up")
            code = self._mapped(targets)
            return pl.coalesce(
                pl.lit(None, dtype=pl.Float64),
                *(pl.when(code == k).then(float(v)) for k, v in enumerate(targets)),  # type: ignore[arg-type]
            )
        if NUMBER in self.planes:
            return pl.when(self.there).then(self.planes[NUMBER])
        if TRUTH in self.planes:
            return pl.when(self.there).then(self.planes[TRUTH].cast(pl.Float64))
        raise InvalidInput(
            f"{self.words} is text, and only numbers can be added up; if it holds numbers written "
            "as text, say state='cast(... as double)'"
        )

    def _bins(self) -> "pl.Expr":
        """Return how many cut points are at or below the number."""
        import polars as pl

        number = self.planes[NUMBER]
        above = pl.sum_horizontal((number >= cut).cast(pl.Int32) for cut in self.cuts)
        return pl.when(number.is_not_null()).then(above)

    def _mapped(self, names: Sequence[State]) -> "pl.Expr":
        import polars as pl

        pairs, absent = [], None
        for value, name in self.mapping:
            if name is not None and name not in names:
                raise InvalidInput(
                    f"the mapping gives the state {name!r}, which is not among the states {names}"
                )
            if value is None:
                absent = None if name is None else names.index(name)
            elif name is not None:
                pairs.append((value, names.index(name)))
        code = match(self.planes, pairs, self.words) if pairs else pl.lit(None, dtype=pl.Int32)
        return pl.when(self.there).then(code).otherwise(absent)


def as_json(value: Any) -> Any:
    """Return a value or a state as JSON can hold it.

    >>> as_json("idle"), as_json(math.inf)
    ('idle', {'number': 'inf'})
    """
    endless = isinstance(value, float) and not math.isfinite(value)
    return {"number": repr(value)} if endless else value


def placed(numbers: "pl.Expr", lattice: Lattice) -> "pl.Expr":
    """Return the lattice step of each number: `Lattice.place`, for all rows at once.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"x": [2.5, 99.0, None]})
    >>> frame.select(placed(pl.col("x"), Lattice(0.0, 10.0, 100, 7)))["x"].to_list()
    [25, 100, 7]
    """
    import polars as pl

    if lattice.steps > _EXACT:
        raise InvalidInput(f"a lattice has at most 2**53 steps, found {lattice.steps}")
    share = (numbers.clip(lattice.lower, lattice.upper) - lattice.lower) / (
        lattice.upper - lattice.lower
    )
    # the nearest step, halves upwards; clipped again, since adding a half may round beyond the end
    step = (share * lattice.steps + 0.5).floor().clip(0, lattice.steps)
    return step.cast(pl.Int64, strict=False).fill_null(lattice.missing)


def match(planes: Planes, pairs: Sequence[tuple[Any, int]], what: str) -> "pl.Expr":
    """Return, for each row, the number paired with the name that its value has; null for none.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"x": ["b", "a", "z"]})
    >>> frame.select(match({"text": pl.col("x")}, [("a", 0), ("b", 1)], "x"))["x"].to_list()
    [1, 0, None]
    """
    import polars as pl

    texts = [(words(name), code) for name, code in pairs if isinstance(name, str)]
    truths: list[tuple[Any, int]] = [(name, code) for name, code in pairs if isinstance(name, bool)]
    numbers: list[tuple[Any, int]] = [
        (name, code)
        for name, code in pairs
        if isinstance(name, int | float) and not isinstance(name, bool)
    ]
    if NUMBER in planes and TRUTH not in planes:
        numbers, truths = [*numbers, *truths], []
    elif TRUTH in planes and NUMBER not in planes:
        numbers, truths = [], [*truths, *(pair for pair in numbers if pair[0] in (0, 1))]
    tests = []
    if TEXT in planes and texts:
        tests.append(_text_code(planes[TEXT], texts))
    if NUMBER in planes and numbers:
        tests.append(_number_code(planes[NUMBER], numbers))
    if TRUTH in planes and truths:
        tests.append(
            pl.coalesce(*(pl.when(planes[TRUTH] == bool(n)).then(pl.lit(c)) for n, c in truths))
        )
    if not tests:
        words_of = {NUMBER: "a number", TEXT: "a text", TRUTH: "a truth value"}
        kinds = " or ".join(words_of[plane] for plane in planes)
        raise InvalidInput(
            f"{what} is {kinds}, and none of the names to match it is: {[n for n, _ in pairs]}; a "
            "text is not a number, not even '1'"
        )
    return pl.coalesce(*tests).cast(pl.Int32)


def _text_code(text: "pl.Expr", pairs: Sequence[tuple[str, int]]) -> "pl.Expr":
    import polars as pl

    names = list(dict(pairs))
    place = text.cast(pl.Enum(names), strict=False).to_physical().cast(pl.Int32)
    codes = list(dict(pairs).values())
    return place if codes == list(range(len(names))) else _looked_up(place, list(enumerate(codes)))


def _number_code(number: "pl.Expr", pairs: Sequence[tuple[float, int]]) -> "pl.Expr":
    for name, _ in pairs:
        if isinstance(name, int) and abs(name) >= _EXACT:
            raise InvalidInput(
                f"the whole number {name} cannot be told from its neighbours; names that are "
                "numbers lie below 2**53, use texts"
            )
    return _looked_up(number, [(float(name), code) for name, code in pairs])


def _looked_up(value: "pl.Expr", pairs: Sequence[tuple[float, int]]) -> "pl.Expr":
    """Return the code of the equal name, in one flat expression whatever the number of names."""
    import polars as pl

    # names differ, so at most one is equal: the sum is its code and one, 0 where none is
    hits = ((value == name).cast(pl.Int32) * (code + 1) for name, code in pairs)
    hit = pl.sum_horizontal(*hits)
    return pl.when(hit > 0).then(hit - 1)


def record_of(state: Any, value: str | None, columns: Mapping[str, Column]) -> Record:
    """Return what ``state`` makes of the rows of a table.

    None: the value itself; a text: an SQL expression; a mapping: value to name; a list: cut points.

    >>> record_of([0.5, 1, 2], "kwh", {"kwh": Column("kwh", "csv")}).cuts
    (0.5, 1.0, 2.0)
    """
    import polars as pl

    there = pl.lit(True) if value is None else columns[value].there()
    if isinstance(state, str):
        usable = {name: columns[name].planes() for name in columns_of(state)}
        steps, planes = evaluate(state, usable)
        return Record(f"the expression {state!r}", tuple(steps), planes, there, text=state)
    if value is None:
        raise InvalidInput("name the column of the records: value=..., or make them with state=...")
    what, planes = f"column {value!r}", columns[value].planes()
    if state is None:
        return Record(what, (), planes, there, kinds=columns[value].kinds)
    if isinstance(state, Mapping):
        return Record(what, (), planes, there, mapping=_pairs(state))
    return Record(what, (), planes, there, cuts=_cuts(state, planes, what))


def _pairs(mapping: Mapping[Any, Any]) -> tuple[tuple[State, State], ...]:
    pairs = tuple((plain(value), plain(name)) for value, name in mapping.items())
    for value, name in pairs:
        for side in (value, name):
            if side is not None and not isinstance(side, str | int | float):
                raise InvalidInput(
                    f"a mapping leads from texts, numbers, truth values or None to states, found a "
                    f"{type(side).__name__}"
                )
            if side != side:
                raise InvalidInput("a mapping names missing values by None, not by NaN")
    if not pairs:
        raise InvalidInput("the mapping from values to states is empty")
    return pairs


def _cuts(state: Any, planes: Planes, what: str) -> tuple[float, ...]:
    if not isinstance(state, Sequence | np.ndarray) or isinstance(state, bytes):
        raise InvalidInput(
            "state is an SQL expression such as 'steps > 0', a mapping from values to states, or a "
            f"list of cut points; found a {type(state).__name__}"
        )
    try:
        cuts = tuple(float(cut) for cut in state)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput("cut points are numbers, in increasing order") from None
    finite = cuts and all(map(math.isfinite, cuts))
    if not finite or any(a >= b for a, b in pairwise(cuts)):
        raise InvalidInput(f"cut points are finite numbers in increasing order, found {cuts}")
    if NUMBER not in planes:
        raise InvalidInput(f"cut points need numbers, and {what} holds none")
    return cuts
