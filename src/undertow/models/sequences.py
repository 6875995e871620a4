"""Sequences of records as numbers of states: what a user may pass, and what is missing in it."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from undertow.errors import InvalidInput, InvalidModel, UnknownState
from undertow.models.records import UNSTATED, RecordDescription
from undertow.models.rows import state_names
from undertow.queries import State

__all__ = ["MISSING", "MOST_STATES", "Encoded", "encode", "given_states"]

MISSING = -1
"""The number of a record that is not there."""
MOST_STATES = 1000
"""More different records than this are measurements, not states."""
_PLAIN = (str, int, float, bool, bytes, type(None))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Encoded:
    """Records as numbers of states, in order: one series after the other, person after person.

    ``codes`` are numbers of ``states``, `MISSING` where a record is not there; ``series`` and
    ``persons`` change where an unbroken series or a person ends (None: each series is of another
    person); ``hours`` are those of the clock, None without clock times. ``described`` is what a
    table says that its records are.
    """

    codes: npt.NDArray[Any]
    states: Sequence[State]
    series: npt.NDArray[Any]
    persons: npt.NDArray[Any] | None = None
    hours: npt.NDArray[Any] | None = None
    described: RecordDescription = UNSTATED

    def placed(self, places: Sequence[int], states: Sequence[State]) -> "Encoded":
        """Return the same records with other states; ``places`` are the new ones of the old.

        >>> encode(["b", "a"]).placed([1, 0], ("B", "A")).codes
        array([0, 1])
        """
        table = np.array([*places, MISSING])  # the last, -1, is that of what is missing
        return replace(self, codes=table[self.codes], states=states)

    def filled(self, missing: State) -> "Encoded":
        """Return the same records, those that are missing in a state of this name, the last if new.

        >>> found = encode(["b", None, "a"]).filled("off")
        >>> found.codes, found.states
        (array([1, 2, 0]), ['a', 'b', 'off'])
        """
        states = [*self.states, *([] if missing in self.states else [missing])]
        codes = np.where(self.codes == MISSING, states.index(missing), self.codes)
        return replace(self, codes=codes, states=states)

    def encoded(self, states: Sequence[State] | None = None) -> "Encoded":
        """Return the records under other names of their states, by default under their own."""
        return self if states is None else replace(self, states=states)


def encode(sequences: Any, states: Sequence[State] | None = None) -> Encoded:
    """Return all records as numbers of states, and the names of the states.

    Without ``states`` they are all that occur, sorted where they can be, otherwise in the order of
    their first appearance. What has a method ``encoded``, as `undertow.Data`, is asked for them.

    >>> found = encode([["b", "a"], ["a", None, "a"]])
    >>> found.codes, found.states, found.series
    (array([ 1,  0,  0, -1,  0]), ['a', 'b'], array([0, 0, 1, 1, 1]))
    """
    if callable(getattr(type(sequences), "encoded", None)):
        read: Encoded = sequences.encoded(None if states is None else given_states(states))
        return read
    known: dict[Any, int] = {}
    names: Sequence[State] = ()
    if states is not None:
        names = given_states(states)
        known = {name: place for place, name in enumerate(names)}
    known[None] = MISSING
    codes: list[int] = []
    lengths: list[int] = []
    for place, records in enumerate(_split(sequences)):
        lengths.append(len(records))
        for position, record in enumerate(records):
            try:
                code = known.get(record)
            except TypeError as error:  # it cannot be looked up
                if not _is_missing(record):
                    raise InvalidInput(
                        f"record {position} of sequence {place} is a {type(record).__name__}; "
                        "records must be texts, numbers, truth values or missing (None)"
                    ) from error
                code = MISSING
            if code is None:
                code = _new(record, known, states, f"record {position} of sequence {place}")
            codes.append(code)
    numbers = np.array(codes, dtype=np.int64)
    series = np.repeat(np.arange(len(lengths)), lengths)  # (n,)
    if states is not None:
        return Encoded(numbers, names, series)
    del known[None]
    seen = list(known)
    try:
        order = sorted(range(len(seen)), key=seen.__getitem__)
    except TypeError:  # names without an order keep that of their first appearance
        order = list(range(len(seen)))
    place_of = np.empty(len(seen) + 1, dtype=np.int64)
    place_of[order] = np.arange(len(seen))
    place_of[MISSING] = MISSING
    return Encoded(place_of[numbers], [_plain(seen[place]) for place in order], series)


def _split(sequences: Any) -> list[list[Any]]:
    """Return the sequences, each as a list; a single one is a list of one."""
    records = _listed(sequences, "sequences")
    nested = [type(record) not in _PLAIN and _is_sequence(record) for record in records]
    if not any(nested):
        return [records]
    found: list[list[Any]] = []
    for place, (record, many) in enumerate(zip(records, nested, strict=True)):
        if not many and not _is_missing(record):
            raise InvalidInput(
                f"item {place} of sequences is a single record and others are sequences; pass one "
                "sequence of records, or a list of sequences"
            )
        found.append(_listed(record, f"sequence {place}") if many else [])
    return found


def _listed(data: Any, what: str) -> list[Any]:
    kind = type(data)
    if hasattr(kind, "columns"):
        raise InvalidInput(f"{what} must be records in order, found a table; pass its column")
    if isinstance(data, str | bytes | Mapping | Set) or not hasattr(kind, "__iter__"):
        raise InvalidInput(f"{what} must be a list of records in order, found {kind.__name__}")
    if getattr(data, "ndim", 1) < 1:
        raise InvalidInput(f"{what} must be a list of records in order, found one number")
    return list(data.tolist() if hasattr(data, "tolist") else data)


def _is_sequence(record: Any) -> bool:
    return (
        hasattr(type(record), "__iter__")
        and not isinstance(record, str | bytes | Set)
        and getattr(record, "ndim", 1) > 0
    )


def _is_missing(record: Any) -> bool:
    """Return whether a record is None, NaN, NaT, pandas' NA or a masked entry."""
    if record is None or record is np.ma.masked or type(record).__name__ == "NAType":
        return True
    try:
        return bool(record != record)  # only NaN and its like differ from themselves
    except (TypeError, ValueError):
        return False


def _plain(name: Any) -> Any:
    """Return a NumPy scalar as the Python value that a file can hold."""
    return name.item() if isinstance(name, np.generic) else name


def given_states(states: Sequence[State]) -> tuple[State, ...]:
    """Return the names that were passed, checked."""
    if isinstance(states, str | Mapping | Set) or not hasattr(type(states), "__iter__"):
        raise InvalidModel(
            f"states must be a list of names in order, found {type(states).__name__}"
        )
    names = [_plain(name) for name in states]
    if len(names) < 2:
        raise InvalidModel(f"a chain needs at least two states, found {len(names)} names")
    return state_names(names, len(names))


def _new(record: Any, known: dict[Any, int], states: Sequence[State] | None, where: str) -> int:
    """Return the number of a record that was not seen before."""
    if _is_missing(record):
        return MISSING
    if states is not None:
        raise UnknownState(
            f"{where} is none of the given states; list every state, or make the record "
            "missing (None)"
        )
    if len(known) > MOST_STATES:
        raise InvalidInput(
            f"the records have more than {MOST_STATES} different values: measurements, not "
            "states; cut them into a few classes first"
        )
    known[record] = len(known) - 1
    return known[record]
