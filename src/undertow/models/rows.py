"""Rows of probabilities, names of states, components: what several models check alike."""

import warnings
from collections.abc import Iterable, Sequence
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
    "connected",
    "probability_rows",
    "refuse_rare",
    "state_names",
    "warn_fitted",
]


def probability_rows(values: Any, what: str, *, stacked: bool = False) -> Array:
    """Return a table whose last axis holds probabilities, each row rescaled to sum to one.

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


def connected(count: int, links: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Return the connected components of ``count`` nodes, in the order of their first nodes.

    >>> connected(4, [(3, 0)])
    [(0, 3), (1,), (2,)]
    """
    leader = list(range(count))

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for one, two in links:
        leader[find(one)] = find(two)
    parts: dict[int, list[int]] = {}
    for node in range(count):
        parts.setdefault(find(node), []).append(node)
    return [tuple(part) for part in parts.values()]


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
    """Warn, as if so many calls further up, that a fit discloses, unless its records are public."""
    if not check_flag(public, "public"):
        warnings.warn(
            "a model fitted to private records is itself a disclosure, which no noise protects; "
            "fit it to public or older records, and say public=True where they are",
            DisclosureWarning,
            stacklevel=stacklevel + 1,
        )
