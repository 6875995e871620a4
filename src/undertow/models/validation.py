"""Validation of what models are given: probabilities, names of states, and fields of files.

Fields of files are checked for their types: a truth value is no number, a text is no number, and
an unknown field is refused. What the numbers mean is checked by the models themselves.
"""

import sys
import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from undertow.errors import DisclosureWarning, InvalidInput, InvalidModel
from undertow.numerics import (
    RAREST,
    ROUNDOFF,
    ROW_SUM,
    Array,
    check_flag,
    check_number,
    freeze,
)
from undertow.queries import State

__all__ = [
    "check_prior",
    "fields",
    "names",
    "number",
    "numbers",
    "probability_rows",
    "read_name",
    "refuse_rare",
    "state_names",
    "text",
    "warn_fitted",
    "whole",
]


def probability_rows(values: Any, what: str, *, stacked: bool = False) -> Array:
    """Return a table of probabilities, each row rescaled to sum to one.

    Rows that sum to 1 up to rounding are left alone: so a model written to a file and read again
    is the same model, to the last bit. Entries between 0 and `RAREST` are refused. ``what`` names
    the table in refusals; with ``stacked`` the first axis is the step of a chain.

    >>> probability_rows([[0.5, 0.5], [0.25, 0.75]], "transition")
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    table = freeze(values)
    inside = (table >= 0) & (table <= 1 + ROW_SUM)
    if not inside.all():
        place = tuple(np.argwhere(~inside)[0].tolist())
        raise InvalidModel(
            f"entry {place} of {what} is {table[place]}; probabilities lie in [0, 1]"
        )
    refuse_rare(table, what)
    sums = table.sum(axis=-1, keepdims=True)  # (..., 1)
    away = np.abs(sums - 1)
    if (away > ROW_SUM).any():
        place = tuple(np.argwhere(away > ROW_SUM)[0, :-1].tolist())
        row: object = place[0] if len(place) == 1 else place
        row = f"{place[1]} of step {place[0]}" if stacked else row
        raise InvalidModel(
            f"{f'row {row} of ' if place else ''}{what} sums to {sums[place][0]:.15g}; "
            f"{'rows' if place else 'it'} must sum to 1 within {ROW_SUM:g}; renormalise "
            f"{'the row' if place else 'it'}"
        )
    exact = away <= 2 * table.shape[-1] * ROUNDOFF
    return table if exact.all() else freeze(np.where(exact, table, table / sums))


def refuse_rare(table: Array, what: str) -> None:
    """Refuse a table with entries that are positive, and too small to be multiplied safely.

    >>> refuse_rare(np.array([1.0, 1e-200]), "start")
    Traceback (most recent call last):
    undertow.errors.InvalidModel: entry 1 of start is 1e-200, ... below 1e-100: write 0 for what ...
    """
    rare = (table > 0) & (table < RAREST)
    if rare.any():
        place = tuple(np.argwhere(rare)[0].tolist())
        raise InvalidModel(
            f"entry {place[0] if len(place) == 1 else place} of {what} is {table[place]:g}, "
            f"positive but below {RAREST:g}: write 0 for what is impossible, or a larger number "
            "for what is not"
        )


def state_names(states: Sequence[State] | None, size: int) -> tuple[State, ...]:
    """Return the names of ``size`` states, by default 0 .. size - 1.

    >>> state_names(("inactive", "active"), 2)
    ('inactive', 'active')
    """
    if states is None:
        return tuple(range(size))
    if isinstance(states, str | set | frozenset | dict):
        raise InvalidModel(
            "states must be a list of names in the order of the rows, found "
            f"{'one string' if type(states) is str else type(states).__name__}"
        )
    try:
        names = tuple(states)
    except TypeError as error:
        raise InvalidModel(
            f"states must be a list of names, found {type(states).__name__}"
        ) from error
    if len(names) != size:
        raise InvalidModel(f"{size} states need {size} names, found {len(names)}")
    try:
        distinct = len(set(names))
    except TypeError as error:
        raise InvalidModel("state names must be strings, numbers or other hashables") from error
    if distinct != size:
        raise InvalidModel("two states bear the same name; names must differ")
    return names


_MOST_PRIOR = 1e100
"""Pseudo-counts that outweigh all records there can be (upper side)."""


def check_prior(prior: float) -> float:
    """Return the pseudo-counts for each transition if they can be added.

    >>> check_prior(1)
    1.0
    """
    weight = check_number(prior, "prior")
    if not 0 <= weight <= _MOST_PRIOR:
        raise InvalidInput(f"prior must be a number from 0 to {_MOST_PRIOR:g}, found {weight}")
    return weight


def warn_fitted(public: bool, stacklevel: int) -> None:
    """Warn that a fit discloses its records, unless they are public."""
    if not check_flag(public, "public"):
        warnings.warn(
            "a model fitted to private records is itself a disclosure, which no noise protects; "
            "fit it to public or older records, and say public=True where they are",
            DisclosureWarning,
            stacklevel=stacklevel + 1,
        )


LARGEST = 10**8
"""Largest length or size that a file may ask for: beyond it, nothing fits into memory."""

HUGE = sys.float_info.max
"""Numbers beyond it, whole ones included, are no floats any more."""

LONGEST = 100_000
"""Characters of one text in a file: assumptions over long lists of models are long."""


def fields(
    description: Any, what: str, needed: tuple[str, ...], more: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the description if it has all required fields and no unknown one.

    >>> fields({"size": 3}, "a groups model", ("size",))
    {'size': 3}
    """
    if not isinstance(description, dict):
        raise InvalidModel(f"{what} is described by an object with fields; found something else")
    for key in needed:
        if key not in description:
            raise InvalidModel(f"{what} needs {key!r}; none was found")
    allowed = (*needed, *more)
    for key in description:
        if key not in allowed:
            raise InvalidModel(
                f"{what} has no field {str(key)[:40]!r}; its fields are {', '.join(allowed)}"
            )
    return description


def numbers(value: Any) -> Any:
    """Return a number, or nested lists of numbers, as they are; refuse anything else.

    >>> numbers([[0.5, 0.5], [1, 0]])
    [[0.5, 0.5], [1, 0]]
    """
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, list | tuple):
            left.extend(item)
        elif isinstance(item, bool) or not isinstance(item, int | float):
            raise InvalidInput(
                f"numbers are required here, found {type(item).__name__}; pass a rectangular "
                "nested list of real numbers"
            )
        elif isinstance(item, int) and abs(item) > HUGE:
            raise InvalidInput("a whole number is beyond all floats; numbers must be finite")
    return value


def number(value: Any, name: str) -> float:
    """Return a single finite number as it is.

    >>> number(0.5, "rho")
    0.5
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{name} must be a number, found {type(value).__name__}")
    if not abs(value) <= HUGE:
        raise InvalidInput(f"{name} must be finite, found a number beyond all floats")
    return value


def whole(value: Any, name: str, most: int = LARGEST) -> Any:
    """Return the value unless it is a whole number that is too large; None passes.

    >>> whole(5, "length")
    5
    """
    if isinstance(value, int) and abs(value) > most:
        raise InvalidModel(f"{name} must be at most {most:g}, found more")
    return value


def names(value: Any, what: str) -> Any:
    """Return a list of texts and finite numbers as it is; None passes.

    >>> names(["inactive", "active"], "states")
    ['inactive', 'active']
    """
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise InvalidModel(f"{what} must be a list of names, found {type(value).__name__}")
    for name in value:
        if not isinstance(name, str | int | float):
            raise InvalidModel(
                f"{what} must be texts or numbers, found {type(name).__name__}; name them plainly"
            )
        finite = isinstance(name, str) or abs(name) <= HUGE
        if not finite:
            raise InvalidModel(f"{what} named by numbers must be finite")
    return value


def text(value: Any, what: str) -> str:
    """Return a text of bounded length without control characters.

    >>> text("two good days", "a note")
    'two good days'
    """
    if not isinstance(value, str):
        raise InvalidModel(f"{what} must be a text, found {type(value).__name__}")
    if len(value) > LONGEST:
        raise InvalidModel(f"{what} must be at most {LONGEST} characters long")
    if any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in value):
        raise InvalidModel(f"{what} must not hold control characters")
    return value


def read_name(node: Any) -> Hashable:
    """Return a name from a file, where tuples have become lists.

    >>> read_name(["f1", [3]])
    ('f1', (3,))
    """
    if isinstance(node, list | tuple):
        return tuple(read_name(part) for part in node)
    if node is None or isinstance(node, str | int | float):
        return node
    raise InvalidModel(
        f"names must be texts, numbers or lists of these, found {type(node).__name__}"
    )
